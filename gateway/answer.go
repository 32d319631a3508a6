package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/gofiber/fiber/v2"

	"waypost"
)

// answer is what a handler has to say.
type answer struct {
	status  int
	body    any // nil: none
	headers map[string]string
}

func ok(body any) (answer, error) { return answer{status: http.StatusOK, body: body}, nil }

// at answers with a resource and where it stands.
func at(status int, location string, body any) (answer, error) {
	return answer{status: status, body: body, headers: map[string]string{"Location": location}}, nil
}

func noContent() (answer, error) { return answer{status: http.StatusNoContent}, nil }

func (ans answer) write(c *fiber.Ctx) error {
	c.Response().ResetBody()
	if ans.body != nil {
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(ans.body); err != nil {
			return fmt.Errorf("encode answer: %w", err)
		}
		c.Set(fiber.HeaderContentType, "application/json;charset=UTF-8")
		c.Response().SetBody(bytes.TrimSuffix(b.Bytes(), []byte("\n")))
	}
	for name, value := range ans.headers {
		c.Set(name, value)
	}
	c.Status(ans.status)
	return nil
}

// errorBody is the documented body of an error (lead document, "Errors").
type errorBody struct {
	Code    waypost.ErrorCode `json:"code"`
	Message string            `json:"message"`
	Target  string            `json:"target"`
	Detail  []waypost.Detail  `json:"detail"`
}

// statuses is the one table from error codes to HTTP.
var statuses = map[waypost.ErrorCode]int{
	waypost.CodeBadRequest:           http.StatusBadRequest,
	waypost.CodeUnauthorized:         http.StatusUnauthorized,
	waypost.CodeNotFound:             http.StatusNotFound,
	waypost.CodeMethodNotAllowed:     http.StatusMethodNotAllowed,
	waypost.CodeConflict:             http.StatusConflict,
	waypost.CodePreconditionFailed:   http.StatusPreconditionFailed,
	waypost.CodePayloadTooLarge:      http.StatusRequestEntityTooLarge,
	waypost.CodeUnsupportedMediaType: http.StatusUnsupportedMediaType,
	waypost.CodeUnprocessableEntity:  http.StatusUnprocessableEntity,
	waypost.CodePreconditionRequired: http.StatusPreconditionRequired,
	waypost.CodeTooManyRequests:      http.StatusTooManyRequests,
	waypost.CodeInternalError:        http.StatusInternalServerError,
	waypost.CodeServiceUnavailable:   http.StatusServiceUnavailable,
}

// retryAfter is the Retry-After of a 503, in seconds: what is away is asked again
// several times a second.
const retryAfter = "1"

// classify turns any error into one that can be answered.
func (a *api) classify(r *request, err error) *waypost.Error {
	var known *waypost.Error
	if errors.As(err, &known) && statuses[known.Code] != 0 && known.Code != waypost.CodeInternalError {
		return known
	}
	var routing *fiber.Error
	if errors.As(err, &routing) {
		switch routing.Code {
		case http.StatusNotFound:
			return noRoute(r.path)
		case http.StatusMethodNotAllowed:
			return waypost.Errorf(waypost.CodeMethodNotAllowed, "", "the path does not support the method; see the header Allow")
		}
	}
	return waypost.Errorf(waypost.CodeInternalError, "", "internal error; quote request %s when you report it", r.id)
}

func errorAnswer(e *waypost.Error) answer {
	ans := answer{status: statuses[e.Code], body: errorBody{e.Code, e.Message, e.Target, e.Details}}
	if e.Details == nil {
		ans.body = errorBody{e.Code, e.Message, e.Target, []waypost.Detail{}}
	}
	switch e.Code {
	case waypost.CodeUnauthorized:
		ans.headers = map[string]string{"WWW-Authenticate": "CLOUD1-HMAC-SHA256"}
	case waypost.CodeServiceUnavailable:
		ans.headers = map[string]string{"Retry-After": retryAfter}
	}
	return ans
}

// Times are written as the contract says; what is not set is null.

func stamp(t time.Time) string { return t.UTC().Format(waypost.TimeFormat) }

func stampOrNull(t *time.Time) *string {
	if t == nil || t.IsZero() {
		return nil
	}
	s := stamp(*t)
	return &s
}

func orNull[T comparable](v T) *T {
	var zero T
	if v == zero {
		return nil
	}
	return &v
}
