package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/gofiber/fiber/v2"

	"waypost"
)

// answer is what a handler returns.
type answer struct {
	status  int
	body    any // nil: none
	headers map[string]string
	// stream, if not nil, writes the body instead, after the handler has returned. An
	// error cuts the answer off, so that the client sees that it is not complete.
	stream streamFunc
	// trailer names the header that follows a stream, "" for none.
	trailer string
	// about are leads of whom the body tells without a member leadsId.
	about []int64
}

const (
	contentTypeJSON    = "application/json;charset=UTF-8"
	headerAuthenticate = "WWW-Authenticate"
)

func ok(body any) (answer, error) { return answer{status: http.StatusOK, body: body}, nil }

// at answers with a resource and its Location.
func at(status int, location string, body any) (answer, error) {
	return answer{status: status, body: body, headers: map[string]string{"Location": location}}, nil
}

// resource answers with a single object, its ETag and, if it is not "", its Location.
func resource(status int, location string, body any) (answer, error) {
	b, err := encode(body)
	if err != nil {
		return answer{}, err
	}
	ans := answer{status: status, body: encoded(b), headers: map[string]string{"ETag": hashETag(b)}}
	if location != "" {
		ans.headers["Location"] = location
	}
	return ans, nil
}

// resourceWith answers with what describe makes of an object that was found or changed,
// unless that failed.
func resourceWith[T, A any](thing T, err error, describe func(T) A) (answer, error) {
	if err != nil {
		return answer{}, err
	}
	return resource(http.StatusOK, "", describe(thing))
}

// noContent answers that something was done, unless it failed.
func noContent(err error) (answer, error) {
	return answer{status: http.StatusNoContent}, err
}

// kept is the answer as it is stored for repetitions of its request.
func (ans answer) kept() (waypost.Answer, error) {
	out := waypost.Answer{Status: ans.status, Headers: ans.headers}
	if ans.body == nil {
		return out, nil
	}
	var err error
	out.Body, err = encode(ans.body)
	out.Leads = append(leadsIn(out.Body), ans.about...)
	return out, err
}

// madeUp are the members of answers whose content clients and receivers make up: a leadsId in there is no lead.
var madeUp = []string{"customFields", "params", "properties", "draft", "definition", "body"}

// leadsIn lists the leads that the JSON of an answer tells of: the values of its members leadsId, but in
// what is madeUp.
func leadsIn(body []byte) (leads []int64) {
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if n, ok := v["leadsId"].(json.Number); ok {
				if id, err := n.Int64(); err == nil && id > 0 {
					leads = append(leads, id)
				}
			}
			for name, member := range v {
				if !slices.Contains(madeUp, name) {
					walk(member)
				}
			}
		case []any:
			for _, each := range v {
				walk(each)
			}
		}
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(body))
	dec.UseNumber()
	if dec.Decode(&v) == nil {
		walk(v)
	}
	slices.Sort(leads)
	return slices.Compact(leads)
}

// replayed is a stored answer, given once more.
func replayed(kept *waypost.Answer) answer {
	ans := answer{status: kept.Status, headers: map[string]string{headerIdempotencyReplayed: "true"}}
	maps.Copy(ans.headers, kept.Headers)
	if len(kept.Body) > 0 {
		ans.body = encoded(kept.Body)
	}
	return ans
}

func (ans answer) write(a *server, c *fiber.Ctx) error {
	c.Response().ResetBody()
	if ans.stream != nil {
		if err := a.writeStream(c, ans); err != nil {
			return err
		}
	}
	for name, value := range ans.headers {
		c.Set(name, value)
	}
	c.Status(ans.status)
	if ans.body != nil {
		body, err := encode(ans.body)
		if err != nil {
			return err
		}
		c.Set(fiber.HeaderContentType, contentTypeJSON)
		c.Response().SetBodyRaw(body)
	}
	return nil
}

// errorBody is the body of an error (docs/contract.md, "Error body").
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

// retryAfter is the Retry-After of a 503, in seconds: a database or Redis that is away is
// tried again several times a second.
const retryAfter = "1"

// classify turns any error into one that can be answered.
func (a *server) classify(r *request, err error) *waypost.Error {
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
	if a.Away != nil && a.Away(err) {
		return waypost.Errorf(waypost.CodeServiceUnavailable, "", "the database is away; send the request again in a moment")
	}
	return waypost.Errorf(waypost.CodeInternalError, "", "internal error; quote request %s when you report it", r.id)
}

func errorBodyOf(e *waypost.Error) errorBody {
	body := errorBody{e.Code, e.Message, e.Target, e.Details}
	if body.Detail == nil {
		body.Detail = []waypost.Detail{}
	}
	return body
}

func errorAnswer(e *waypost.Error) answer {
	ans := answer{status: statuses[e.Code], body: errorBodyOf(e)}
	switch e.Code {
	case waypost.CodeUnauthorized:
		ans.headers = map[string]string{headerAuthenticate: "CLOUD1-HMAC-SHA256"}
	case waypost.CodeServiceUnavailable:
		ans.headers = map[string]string{"Retry-After": retryAfter}
	}
	return ans
}

// Times are written as docs/contract.md, "Values" says; what is not set is null.

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
