package gateway

import (
	"context"
	"errors"
	"io"
	"mime"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"waypost"
)

// bodyKind is what a route expects behind the headers.
type bodyKind int

const (
	// noBody takes none, or, for clients that cannot send a POST without one, an
	// empty JSON object.
	noBody bodyKind = iota
	// optionalBody is a JSON document or nothing at all.
	optionalBody
	jsonBody
	// longBody is a JSON document of up to maxLongBody.
	longBody
)

// limit is the largest body that a route of the kind takes, in bytes.
func (k bodyKind) limit() int {
	if k == longBody {
		return maxLongBody
	}
	return maxBody
}

// required tells whether a route of the kind needs a body.
func (k bodyKind) required() bool { return k == jsonBody || k == longBody }

// wire is a request's body on the connection. Fiber's own reader waits for more
// when it is read again after the end of a chunked body.
type wire struct {
	from io.Reader
	err  error
	// most bounds what is read and thrown away of a refused body, in bytes.
	most int64
}

func newWire(c *fiber.Ctx) *wire {
	from := c.Context().RequestBodyStream()
	if from == nil {
		return &wire{err: io.EOF, most: maxDrain}
	}
	// Fiber's time-out is for the headers, and short, for a connection that never
	// says anything also keeps the server from stopping.
	err := c.Context().Conn().SetReadDeadline(time.Now().Add(bodyTime))
	return &wire{from: from, err: err, most: maxDrain}
}

func (w *wire) Read(p []byte) (n int, err error) {
	if w.err == nil {
		n, w.err = w.from.Read(p)
	}
	return n, w.err
}

// maxDrain is wire.most beside what the route takes.
const maxDrain = 8 * maxBody

// drain throws away what is left of a body, so that the client is done writing and
// can read the answer, and tells whether that was all. If not, the connection must
// be closed: the rest would be taken for the next request.
func (w *wire) drain() (all bool) {
	_, err := io.CopyN(io.Discard, w, w.most)
	return errors.Is(err, io.EOF)
}

// readBody reads the body and compares it with the one that was signed. Of one
// that is too large nothing more is read, and it cannot be compared: it is
// refused by checkMedia, in its turn.
func (a *api) readBody(_ context.Context, r *request) error {
	limit := r.route.body.limit()
	if r.c.Request().Header.ContentLength() > limit {
		r.tooLarge = true
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(r.wire, int64(limit)+1))
	if err != nil {
		return waypost.Errorf(waypost.CodeBadRequest, "", "the body did not arrive completely")
	}
	if len(body) > limit {
		r.tooLarge = true
		return nil
	}
	if !r.claim.VerifyBody(body) {
		return mismatch()
	}
	r.body = body
	return nil
}

func (a *api) selectStage(_ context.Context, r *request) error {
	stage, err := waypost.ParseStage(r.header("X-Cloud-Stage"))
	r.scope = waypost.Scope{Org: r.app.Org, Stage: stage}
	return err
}

// checkMedia refuses a body that is no JSON by its headers, then one that is too
// large.
func (a *api) checkMedia(_ context.Context, r *request) error {
	hasBody := len(r.body) > 0 || r.tooLarge
	if hasBody || r.route.body.required() {
		if !isJSON(r.header("Content-Type")) {
			return waypost.Errorf(waypost.CodeUnsupportedMediaType, "Content-Type", "the Content-Type must be application/json;charset=UTF-8")
		}
		if coding := r.header("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
			return waypost.Errorf(waypost.CodeUnsupportedMediaType, "Content-Encoding", "the body must not be compressed")
		}
	}
	if r.tooLarge {
		return waypost.Errorf(waypost.CodePayloadTooLarge, "", "the body is larger than %d bytes", r.route.body.limit())
	}
	if hasBody && r.route.body == noBody {
		return decode(r, &struct{}{})
	}
	return nil
}

func isJSON(contentType string) bool {
	media, params, err := mime.ParseMediaType(contentType)
	if err != nil || media != "application/json" {
		return false
	}
	charset, given := params["charset"]
	return len(params) == 0 || len(params) == 1 && given && strings.EqualFold(charset, "utf-8")
}

// isNamed tells whether one of the faults is the target's.
func isNamed(problems waypost.Problems, target string) bool {
	return slices.ContainsFunc(problems, func(d waypost.Detail) bool { return d.Target == target })
}

// noDocument tells whether the body could not be read at all: that all its members
// are missing is then no news.
func noDocument(problems waypost.Problems) bool { return isNamed(problems, "") }

// decode reads the body into v; all its faults are one BadRequest.
func decode(r *request, v any) error { return waypost.DecodeJSON(r.body, v).Err("") }
