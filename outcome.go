package waypost

import "time"

// Outcome is what one attempt came to (docs/contract.md, "Receiver's answer").
type Outcome struct {
	Succeed      bool
	HTTPStatus   int    // 0: no answer
	ErrorClass   string // "" or one of the Class… values
	Message      string // the receiver's message, or what went wrong
	Excerpt      string // the beginning of the response body
	Unrecognized bool   // 200 whose body is not the documented object
	RetryAfter   time.Duration
	At           time.Time // when the POST began
	Duration     time.Duration
}

// Error classes of an attempt (docs/contract.md, "Error classes").
const (
	ClassNetwork          = "network"
	ClassTimeout          = "timeout"
	ClassTLS              = "tls"
	ClassAddress          = "address"
	ClassHTTPStatus       = "httpStatus"
	ClassSucceedFalse     = "succeedFalse"
	ClassResponseTooLarge = "responseTooLarge"
	ClassRender           = "render"
	ClassInterrupted      = "interrupted" // the process ended before it saw the answer
)

// ErrorClasses lists them.
var ErrorClasses = []string{
	ClassNetwork, ClassTimeout, ClassTLS, ClassAddress, ClassHTTPStatus, ClassSucceedFalse, ClassResponseTooLarge, ClassRender, ClassInterrupted,
}
