package gateway

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"waypost"
	"waypost/signature"
)

// request is a request as far as the checks have understood it.
type request struct {
	c     *fiber.Ctx
	id    string // X-Request-Id
	began time.Time
	// traced ends its trace; nil if there is none.
	traced func(route, method string, status int)

	// As received: what the signature covers is also what decides.
	method  string
	path    string
	query   string
	headers []signature.Header
	wire    *wire
	length  int // of the body in bytes, where it is stated

	route    *route
	app      waypost.Application
	proven   bool // the signature and the nonce are app's
	claim    signature.Claim
	token    waypost.SearchToken // in the place of claim, scope and body
	scope    waypost.Scope
	actor    string // whom X-Cloud-Actor names
	body     []byte
	spool    *os.File // the body of an import, at its start
	spooling bool     // whether it holds one of maxSpools
	media    string   // the Content-Type of an import, without parameters
	charset  string   // in which the import is written
	tooLarge bool
	held     *waypost.Claim    // on the Idempotency-Key
	replay   *waypost.Answer   // what an earlier request of the key got
	params   map[string]string // of the query

	policies []policy // the rate limits that it was counted by

	queryFaults waypost.Problems // what is wrong with params
	page        waypost.Page     // that the query of a list asks for
}

type requestKey struct{}

func requestOf(c *fiber.Ctx) *request {
	r, _ := c.Locals(requestKey{}).(*request)
	return r
}

// newRequest copies what the checks need out of the connection's buffers.
func (a *server) newRequest(c *fiber.Ctx) (*request, error) {
	h := &c.Request().Header
	r := &request{c: c, began: time.Now(), method: string(h.Method()), wire: a.newWire(c)}
	r.path, r.query, _ = strings.Cut(string(h.RequestURI()), "?")
	r.headers = readHeaders(string(h.RawHeaders()))
	err := r.checkBodiless()
	if err != nil {
		return r, err
	}
	if stated := r.header("Content-Length"); stated != "" {
		if r.length, err = strconv.Atoi(stated); err != nil {
			return r, waypost.Errorf(waypost.CodeBadRequest, "Content-Length", "Content-Length must be a number of bytes")
		}
		h.SetContentLength(r.length) // as it was before leaveBody
	}
	hasBody := r.length > 0 || r.sent("Transfer-Encoding")
	r.wire.awaited = hasBody && h.IsHTTP11() && strings.EqualFold(r.header(fiber.HeaderExpect), "100-continue")
	return r, r.checkHost()
}

func (r *request) signed() signature.Request {
	return signature.Request{Method: r.method, Path: r.path, Query: r.query, Headers: r.headers}
}

func (r *request) header(name string) string {
	v, _ := r.signed().Header(name)
	return v
}

// sent tells whether the request has the header, empty or not.
func (r *request) sent(name string) bool {
	_, n := r.signed().Header(name)
	return n > 0
}

// minimal tells whether the client does without the object in the answer (RFC 7240).
func (r *request) minimal() bool { return r.prefersReturn("minimal") }

// prefersReturn tells whether the client's preference return is this one.
func (r *request) prefersReturn(want string) bool {
	for preference := range strings.SplitSeq(r.header("Prefer"), ",") {
		if name, value, _ := strings.Cut(preference, "="); strings.EqualFold(strings.TrimSpace(name), "return") {
			return strings.EqualFold(strings.Trim(strings.TrimSpace(value), `"`), want)
		}
	}
	return false
}

// param returns a part of the path; it is never decoded.
func (r *request) param(name string) string { return r.c.Params(name) }

// readHeaders splits raw header lines, which package listen has checked. Fiber keeps one Host and one Content-Type
// of several; here both are seen.
func readHeaders(raw string) []signature.Header {
	var headers []signature.Header
	for line := range strings.SplitSeq(raw, "\r\n") {
		if name, value, ok := strings.Cut(line, ":"); ok {
			headers = append(headers, signature.Header{Name: name, Value: strings.Trim(value, " \t")})
		}
	}
	return headers
}

// checkHost refuses a request of HTTP/1.0 without a host; package listen has refused all others.
func (r *request) checkHost() error {
	if !r.sent(fiber.HeaderHost) {
		return waypost.Errorf(waypost.CodeBadRequest, fiber.HeaderHost, "the request must have one header Host, not none")
	}
	return nil
}

// checkBodiless refuses bodies of GET and HEAD, which Fiber would take for the next request.
func (r *request) checkBodiless() error {
	if r.method != fiber.MethodGet && r.method != fiber.MethodHead {
		return nil
	}
	if r.sent("Transfer-Encoding") || strings.Trim(r.header("Content-Length"), "0") != "" {
		return waypost.Errorf(waypost.CodeBadRequest, "Content-Length", "%s has no body", r.method)
	}
	return nil
}
