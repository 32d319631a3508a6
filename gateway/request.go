package gateway

import (
	"os"
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

	route    *route
	app      waypost.Application
	claim    signature.Claim
	token    waypost.SearchToken // in the place of claim, scope and body
	scope    waypost.Scope
	body     []byte
	spool    *os.File // the body of an import, at its start
	spooling bool     // whether it holds one of maxSpools
	media    string   // the Content-Type of an import, without parameters
	tooLarge bool
	held     *waypost.Claim    // on the Idempotency-Key
	replay   *waypost.Answer   // what an earlier request of the key got
	params   map[string]string // of the query

	policies []policy // the rate limits that it was counted by

	queryFaults waypost.Problems // of a list's query, which page reports
}

type requestKey struct{}

func requestOf(c *fiber.Ctx) *request {
	r, _ := c.Locals(requestKey{}).(*request)
	return r
}

// newRequest copies what the checks need out of the connection's buffers, and gives
// the body so much time.
func newRequest(c *fiber.Ctx, bodyTime time.Duration) (*request, error) {
	h := &c.Request().Header
	r := &request{c: c, began: time.Now(), method: string(h.Method()), wire: newWire(c, bodyTime)}
	r.path, r.query, _ = strings.Cut(string(h.RequestURI()), "?")
	var err error
	r.headers, err = readHeaders(string(h.RawHeaders()))
	if err == nil {
		err = r.checkFraming()
	}
	return r, err
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
func (r *request) minimal() bool {
	for preference := range strings.SplitSeq(r.header("Prefer"), ",") {
		if name, value, _ := strings.Cut(preference, "="); strings.EqualFold(strings.TrimSpace(name), "return") {
			return strings.EqualFold(strings.Trim(strings.TrimSpace(value), `"`), "minimal")
		}
	}
	return false
}

// param returns a part of the path; it is never decoded.
func (r *request) param(name string) string { return r.c.Params(name) }

// readHeaders splits raw header lines. Fiber keeps one Host and one Content-Type
// of several, and joins folded lines; here both are seen.
func readHeaders(raw string) ([]signature.Header, error) {
	var headers []signature.Header
	for line := range strings.Lines(raw) {
		line = strings.TrimSuffix(strings.TrimSuffix(line, "\n"), "\r")
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsAny(name, " \t") || strings.ContainsAny(value, "\r\x00") {
			return nil, waypost.Errorf(waypost.CodeBadRequest, "", "a header line is malformed")
		}
		headers = append(headers, signature.Header{Name: name, Value: strings.Trim(value, " \t")})
	}
	return headers, nil
}

// checkFraming refuses what two servers could see end in two different places,
// and bodies of GET and HEAD, whose bytes Fiber would take for the next request.
func (r *request) checkFraming() error {
	length, lengths := r.signed().Header("Content-Length")
	coding, codings := r.signed().Header("Transfer-Encoding")
	switch {
	case lengths > 1 || codings > 1 || lengths > 0 && codings > 0:
		return waypost.Errorf(waypost.CodeBadRequest, "Content-Length", "the length of the body is stated twice")
	case codings > 0 && !strings.EqualFold(coding, "chunked"):
		return waypost.Errorf(waypost.CodeBadRequest, "Transfer-Encoding", "Transfer-Encoding can only be chunked")
	case (r.method == fiber.MethodGet || r.method == fiber.MethodHead) && (codings > 0 || strings.Trim(length, "0") != ""):
		return waypost.Errorf(waypost.CodeBadRequest, "Content-Length", "%s has no body", r.method)
	}
	return nil
}
