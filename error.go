package waypost

import (
	"errors"
	"fmt"
	"strings"
)

// ErrorCode is the `code` of an error answer (docs/contract.md, "Error codes").
type ErrorCode string

// The error codes.
const (
	CodeBadRequest           ErrorCode = "BadRequest"           // 400
	CodeUnauthorized         ErrorCode = "Unauthorized"         // 401, also for a missing grant
	CodeNotFound             ErrorCode = "NotFound"             // 404
	CodeConflict             ErrorCode = "Conflict"             // 409
	CodeUnprocessableEntity  ErrorCode = "UnprocessableEntity"  // 422
	CodePreconditionRequired ErrorCode = "PreconditionRequired" // 428
	CodeInternalError        ErrorCode = "InternalError"        // 500
	CodePreconditionFailed   ErrorCode = "PreconditionFailed"   // 412
	CodeMethodNotAllowed     ErrorCode = "MethodNotAllowed"     // 405
	CodePayloadTooLarge      ErrorCode = "PayloadTooLarge"      // 413
	CodeUnsupportedMediaType ErrorCode = "UnsupportedMediaType" // 415
	CodeTooManyRequests      ErrorCode = "TooManyRequests"      // 429
	CodeServiceUnavailable   ErrorCode = "ServiceUnavailable"   // 503
)

// DetailCode is the `code` of one entry of an error's `detail`.
type DetailCode string

// Detail codes of faulty fields.
const (
	DetailNullValue     DetailCode = "NullValue"
	DetailInvalidType   DetailCode = "InvalidType"
	DetailInvalidFormat DetailCode = "InvalidFormat"
	DetailOutOfRange    DetailCode = "OutOfRange"
	DetailTooLong       DetailCode = "TooLong"
	DetailUnknownField  DetailCode = "UnknownField"
	DetailDuplicate     DetailCode = "Duplicate"
	DetailAmbiguous     DetailCode = "Ambiguous" // several leads have it
)

// Detail codes of a refused signature (docs/contract.md, "Signature checks").
const (
	DetailMissingSignature   DetailCode = "MissingSignature"
	DetailMalformedSignature DetailCode = "MalformedSignature"
	DetailRequestExpired     DetailCode = "RequestExpired"
	DetailSignatureMismatch  DetailCode = "SignatureMismatch"
	DetailNonceReused        DetailCode = "NonceReused"
	DetailGrantMissing       DetailCode = "GrantMissing"
)

// Detail is one faulty field. Target is the field's path, such as
// "mobilePhone[0]" or "nodes[2].when".
type Detail struct {
	Code    DetailCode `json:"code"`
	Target  string     `json:"target"`
	Message string     `json:"message"`
}

// Error is a fault that the caller can act on. Everything that reaches a client
// is one of these; any other error is answered as InternalError without its
// cause.
type Error struct {
	Code    ErrorCode
	Message string
	Target  string
	Details []Detail
}

func (e *Error) Error() string {
	if len(e.Details) < 2 { // the message says what a single one says
		return e.Message
	}
	faults := make([]string, len(e.Details))
	for i, d := range e.Details {
		faults[i] = d.Target + ": " + d.Message
	}
	return e.Message + " (" + strings.Join(faults, "; ") + ")"
}

// Errorf makes an Error without details.
func Errorf(code ErrorCode, target, format string, args ...any) *Error {
	return &Error{Code: code, Target: target, Message: fmt.Sprintf(format, args...)}
}

// CodeOf returns the code of the first Error in err's chain, "" for nil and
// CodeInternalError for every other error.
func CodeOf(err error) ErrorCode {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Code
	}
	return CodeInternalError
}

// Problems collects faulty fields, so that all of them are reported at once.
// The zero value is ready to use.
type Problems []Detail

// maxProblems bounds what is told about one request: a body can hold a hundred
// thousand faults.
const maxProblems = 100

// Add notes one faulty field. From the 101st on they are dropped.
func (p *Problems) Add(code DetailCode, target, format string, args ...any) {
	if len(*p) >= maxProblems {
		return
	}
	*p = append(*p, Detail{Code: code, Target: target, Message: fmt.Sprintf(format, args...)})
}

// AddAll notes what another check has found: the details of its Error, any other error as
// a whole, nothing for nil.
func (p *Problems) AddAll(err error) {
	var e *Error
	switch {
	case errors.As(err, &e):
		*p = append(*p, e.Details...)
	case err != nil:
		p.Add(DetailInvalidFormat, "", "%s", err)
	}
}

// Err returns nil if nothing was noted, else one BadRequest with all of it.
func (p Problems) Err(target string) error {
	if len(p) == 0 {
		return nil
	}
	p = p[:min(len(p), maxProblems)] // lists that were put together can be longer
	message := fmt.Sprintf("%d fields are faulty; see detail", len(p))
	switch {
	case len(p) == 1 && p[0].Target == "":
		message = p[0].Message
	case len(p) == 1:
		message = p[0].Target + ": " + p[0].Message
	case len(p) == maxProblems:
		message = fmt.Sprintf("%d or more fields are faulty; see detail for the first", len(p))
	}
	return &Error{Code: CodeBadRequest, Message: message, Target: target, Details: p}
}
