package gateway

import (
	"net/netip"
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

// newRequest copies what the checks need out of the connection's buffers. bodyTime is what
// the body may take to arrive.
func newRequest(c *fiber.Ctx, bodyTime time.Duration) (*request, error) {
	h := &c.Request().Header
	r := &request{c: c, began: time.Now(), method: string(h.Method()), wire: newWire(c, bodyTime)}
	r.path, r.query, _ = strings.Cut(string(h.RequestURI()), "?")
	var err error
	r.headers, err = readHeaders(string(h.RawHeaders()))
	if err == nil {
		err = r.checkFraming()
	}
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
		line, ended := strings.CutSuffix(line, "\r\n")
		if !ended { // a proxy may see no end there
			return nil, waypost.Errorf(waypost.CodeBadRequest, "", "a header line ends with LF alone; end each with CRLF")
		}
		if line == "" {
			continue
		}
		name, value, ok := strings.Cut(line, ":")
		if !ok || name == "" || strings.ContainsFunc(name, notInName) || strings.ContainsFunc(value, notInValue) {
			return nil, waypost.Errorf(waypost.CodeBadRequest, "", "a header line is malformed: it must be a name, a colon without a blank before it, and a value without control characters, all on one line")
		}
		headers = append(headers, signature.Header{Name: name, Value: strings.Trim(value, " \t")})
	}
	return headers, nil
}

// notInName and notInValue tell which characters a header must not have (RFC 9110, section 5).
func notInName(r rune) bool {
	return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"(),/:;<=>?@[\\]{}", r)
}

func notInValue(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }

// checkHost refuses a request that names no host, or several: two servers could take it
// for two different ones (RFC 9112, section 3.2).
func (r *request) checkHost() error {
	host, n := r.signed().Header(fiber.HeaderHost)
	switch {
	case n != 1:
		return waypost.Errorf(waypost.CodeBadRequest, fiber.HeaderHost, "the request must have one header Host, not %d", n)
	case !isHost(host):
		return waypost.Errorf(waypost.CodeBadRequest, fiber.HeaderHost, "Host must be a name or an address, with a port or none, such as api.example.com:8443")
	}
	return nil
}

// isHost tells whether a Host can be one of a URL (RFC 3986, section 3.2).
func isHost(s string) bool {
	name, port := s, ""
	if at := strings.LastIndexByte(s, ':'); at > strings.LastIndexByte(s, ']') {
		name, port = s[:at], s[at+1:]
	}
	if number, err := strconv.ParseUint(port, 10, 16); port != "" && (err != nil || number == 0) {
		return false
	}
	if inner, opened := strings.CutPrefix(name, "["); opened {
		inner, closed := strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		return closed && err == nil && addr.Is6() && addr.Zone() == ""
	}
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune("\"#%,/:;<>?@[\\]^`{|}", r)
	})
}

// checkFraming refuses requests that two servers could see end in different places, and
// bodies of GET and HEAD, which Fiber would take for the next request.
func (r *request) checkFraming() error {
	length, lengths := r.signed().Header("Content-Length")
	coding, codings := r.signed().Header("Transfer-Encoding")
	protocol := string(r.c.Request().Header.Protocol())
	switch {
	case protocol != "HTTP/1.1" && protocol != "HTTP/1.0":
		return waypost.Errorf(waypost.CodeBadRequest, "", "the request must be HTTP/1.1 (or 1.0)")
	case codings > 0 && protocol != "HTTP/1.1":
		return waypost.Errorf(waypost.CodeBadRequest, "Transfer-Encoding", "HTTP/1.0 has no Transfer-Encoding; send Content-Length, or HTTP/1.1")
	case lengths > 1 || codings > 1 || lengths > 0 && codings > 0:
		return waypost.Errorf(waypost.CodeBadRequest, "Content-Length", "the length of the body is stated twice")
	case codings > 0 && !strings.EqualFold(coding, "chunked"):
		return waypost.Errorf(waypost.CodeBadRequest, "Transfer-Encoding", "Transfer-Encoding can only be chunked")
	case (r.method == fiber.MethodGet || r.method == fiber.MethodHead) && (codings > 0 || strings.Trim(length, "0") != ""):
		return waypost.Errorf(waypost.CodeBadRequest, "Content-Length", "%s has no body", r.method)
	}
	return nil
}
