package gateway

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gofiber/fiber/v2"

	"waypost"
	"waypost/signature"
)

// bodyKind is what a route expects behind the headers.
type bodyKind struct {
	media    []string      // one of them
	limit    int           // bytes
	time     time.Duration // it may take to arrive
	required bool
	spooled  bool // it goes to a file, not to memory
}

var (
	// noBody is none, or, for clients that cannot send a POST without one, an empty
	// JSON object.
	noBody       = &bodyKind{media: mediaJSON, limit: maxBody, time: bodyTime}
	optionalBody = &bodyKind{media: mediaJSON, limit: maxBody, time: bodyTime}
	jsonBody     = &bodyKind{media: mediaJSON, limit: maxBody, time: bodyTime, required: true}
	longBody     = &bodyKind{media: mediaJSON, limit: maxLongBody, time: bodyTime, required: true}
	articleBody  = &bodyKind{media: mediaJSON, limit: maxArticle, time: bodyTime, required: true}
	importBody   = &bodyKind{
		media: []string{"application/json", contentTypeNDJSON, "text/csv"},
		limit: waypost.MaxImportBody, time: spoolTime, required: true, spooled: true,
	}
	linesBody = &bodyKind{
		media: []string{contentTypeNDJSON},
		limit: waypost.MaxImportBody, time: spoolTime, required: true, spooled: true,
	}

	mediaJSON = []string{"application/json"}
)

// wire is a request's body on the connection. Fiber's own reader waits for more
// when it is read again after the end of a chunked body.
type wire struct {
	from io.Reader
	conn net.Conn
	err  error
	// until is when the body must have arrived.
	until time.Time
	// most bounds what is read and thrown away of a refused body, in bytes.
	most int64
	// awaited tells that the client waits for a 100 before it sends the body.
	awaited bool
	// The body, or least bytes of it, must arrive within each window (0: at any time). got
	// have arrived since began.
	least, got int
	window     time.Duration
	began      time.Time
}

func (a *server) newWire(c *fiber.Ctx) *wire {
	from := c.Context().RequestBodyStream()
	if from == nil {
		return &wire{err: io.EOF, most: maxDrain}
	}
	w := &wire{from: from, conn: c.Context().Conn(), most: maxDrain, least: leastOf(a.LeastRate, a.window), window: a.window}
	// Fiber's time-out is for the headers, and short, for a connection that never
	// says anything also keeps the server from stopping.
	w.err = w.allow(a.bodyTime)
	return w
}

// leastOf is how many bytes a window must bring.
func leastOf(rate int, window time.Duration) int {
	return int(int64(rate) * int64(window) / int64(time.Second))
}

// allow gives the body so much time from now.
func (w *wire) allow(d time.Duration) error {
	if w.conn == nil {
		return nil
	}
	w.until = time.Now().Add(d)
	return w.nextWindow()
}

// nextWindow lets the body arrive for another window.
func (w *wire) nextWindow() error {
	w.began, w.got = time.Now(), 0
	if w.conn == nil {
		return nil
	}
	return w.conn.SetReadDeadline(w.deadline())
}

// deadline is when more of the body must have arrived.
func (w *wire) deadline() time.Time {
	if end := w.began.Add(w.window); w.least > 0 && end.Before(w.until) {
		return end
	}
	return w.until
}

func (w *wire) Read(p []byte) (n int, err error) {
	if w.awaited && w.err == nil {
		w.awaited = false
		w.err = w.sayContinue()
	}
	if w.err == nil {
		n, w.err = w.from.Read(p)
		if w.got += n; w.least > 0 && w.got >= w.least && w.err == nil {
			w.err = w.nextWindow()
		}
	}
	return n, w.err
}

// sayContinue tells the client to send its body. If the answer to the request before is
// still held back, the client would take the 100 for it, so none is sent.
func (w *wire) sayContinue() error {
	if c, ok := w.conn.(*conn); !ok || c.held {
		return nil
	}
	if err := w.conn.SetWriteDeadline(time.Now().Add(writeTime)); err != nil {
		return err
	}
	if _, err := io.WriteString(w.conn, "HTTP/1.1 100 Continue\r\n\r\n"); err != nil {
		return err
	}
	return w.nextWindow()
}

// unknownTime is how long the rest of a body may take to arrive whose client has not shown who it is.
const unknownTime = time.Second

// maxDrain is wire.most beside what the route takes.
const maxDrain = 8 * maxBody

// drain throws away what is left of a body, so that the client is done writing and
// can read the answer, and tells whether that was all. If not, the connection must
// be closed: the rest would be taken for the next request.
func (w *wire) drain() (all bool) {
	if w.awaited {
		return false // the client may send it or not
	}
	_, err := io.CopyN(io.Discard, w, w.most)
	return errors.Is(err, io.EOF)
}

// drain throws away what is left of a body, and tells whether that was all. Who has not shown who they
// are, and an organisation that sends many bodies already, must be done soon.
func (a *server) drain(r *request) (all bool) {
	switch {
	case r.wire.err != nil: // nothing is left
	case r.proven && a.bodies.take(r.app):
		defer a.bodies.release(r.app)
	default:
		r.wire.hurry()
	}
	return r.wire.drain()
}

// hurry gives what is left of a body unknownTime: until it is there, or late, it holds a connection.
func (w *wire) hurry() { w.least, w.err = 0, w.allow(unknownTime) }

// checkAwaited refuses a request by its headers whose body has yet to be asked for.
func (a *server) checkAwaited(ctx context.Context, r *request) error {
	if !r.wire.awaited {
		return nil
	}
	if err := a.selectStage(ctx, r); err != nil {
		return err
	}
	r.tooLarge = r.length > r.route.body.limit
	return a.checkMedia(ctx, r)
}

// readBody reads the body and compares it with the one that was signed. A body that is
// too large is read no further and cannot be compared; checkMedia refuses it.
func (a *server) readBody(_ context.Context, r *request) error {
	limit := r.route.body.limit
	if r.length > limit {
		r.tooLarge = true
		return nil
	}
	if r.route.body.spooled {
		return a.spoolBody(r)
	}
	body, err := a.receive(r)
	if err != nil {
		return err
	}
	if len(body) > limit {
		r.tooLarge = true
		return nil
	}
	if !r.claim.VerifyBody(body) {
		return otherBody(int64(len(body)), signature.HashBody(body))
	}
	r.body = body
	return nil
}

// fault is why package listen has ended the body; nil if it has not.
func (w *wire) fault() error {
	c, ok := w.conn.(*conn)
	if !ok {
		return nil
	}
	return c.fault(c.requests)
}

// Bounds of the bodies beside imports that a process takes in at a time. Those of the second
// kind may be longer than maxBody.
const (
	maxBodies     = 512
	maxLongBodies = 12
)

// receive reads a body into memory, and one byte more of one that is too large.
func (a *server) receive(r *request) ([]byte, error) {
	if r.length == 0 && !r.sent("Transfer-Encoding") {
		return nil, nil
	}
	share, limit := a.bodies, r.route.body.limit
	if limit > maxBody && (r.length == 0 || r.length > maxBody) {
		share = a.longBodies
	}
	if !share.take(r.app) {
		return nil, waypost.Errorf(waypost.CodeServiceUnavailable, "", "many other bodies of your organisation are being received at this moment; send this one again when they are done")
	}
	defer share.release(r.app)
	body, err := io.ReadAll(io.LimitReader(r.wire, int64(limit)+1))
	if err != nil {
		return nil, r.wire.incomplete()
	}
	return body, nil
}

// incomplete says why a body could not be read. Fiber's errors of chunks do not tell a
// deadline.
func (w *wire) incomplete() error {
	if fault := w.fault(); fault != nil {
		return fault
	}
	if now := time.Now(); now.Before(w.until) && !now.Before(w.deadline()) {
		return waypost.Errorf(waypost.CodeBadRequest, "",
			"the body did not arrive in time: %d bytes came in %s, and at least %d must (WAYPOST_LEAST_RATE), or the rest of it", w.got, w.window, w.least)
	} else if !now.Before(w.until) {
		return waypost.Errorf(waypost.CodeBadRequest, "", "the body did not arrive in time: it came too slowly, or is shorter than Content-Length says")
	}
	return waypost.Errorf(waypost.CodeBadRequest, "", "the body did not arrive completely: the connection ended, or its chunks are malformed")
}

// spoolTime bounds how long an import's body may take to arrive.
const spoolTime = 10 * time.Minute

// maxSpools bounds the imports that a process takes in at a time: their bodies fill the
// disk, and what is read of them the memory.
const maxSpools = 8

// spoolBody reads an import's body into a temporary file that has no name, and
// compares its hash with the one that was signed.
func (a *server) spoolBody(r *request) error {
	if !a.spools.take(r.app) {
		return waypost.Errorf(waypost.CodeServiceUnavailable, "", "other imports are being received at this moment; send this one again when they are done")
	}
	r.spooling = true
	if err := r.wire.allow(spoolTime); err != nil {
		return fmt.Errorf("prepare to receive an import: %w", err)
	}
	file, err := os.CreateTemp("", "waypost-import-*")
	if err != nil {
		return fmt.Errorf("make a file for an import: %w", err)
	}
	r.spool = file
	// It goes away with the process, whatever happens.
	if err := os.Remove(file.Name()); err != nil {
		return fmt.Errorf("hide the file of an import: %w", err)
	}
	hash := sha256.New()
	limit := int64(r.route.body.limit)
	size, err := io.Copy(io.MultiWriter(file, hash), io.LimitReader(r.wire, limit+1))
	if r.wire.err != nil && !errors.Is(r.wire.err, io.EOF) {
		return r.wire.incomplete()
	}
	if err != nil {
		return fmt.Errorf("write an import's file: %w", err)
	}
	if size > limit {
		r.tooLarge = true
		return nil
	}
	if sum := hash.Sum(nil); !r.claim.VerifyHash(sum) {
		return otherBody(size, hex.EncodeToString(sum))
	}
	if _, err := file.Seek(0, io.SeekStart); err != nil {
		return fmt.Errorf("rewind an import's file: %w", err)
	}
	return nil
}

// closeSpool gives back what spoolBody took.
func (a *server) closeSpool(r *request) {
	if r.spool != nil {
		_ = r.spool.Close()
	}
	if r.spooling {
		a.spools.release(r.app)
	}
}

func (a *server) selectStage(_ context.Context, r *request) error {
	stage, err := waypost.ParseStage(r.header("X-Cloud-Stage"))
	r.scope = waypost.Scope{Org: r.app.Org, Stage: stage}
	return err
}

// checkMedia refuses a body that is no JSON by its headers, then one that is too
// large.
func (a *server) checkMedia(_ context.Context, r *request) error {
	hasBody := len(r.body) > 0 || r.tooLarge || r.wire.awaited
	if hasBody || r.route.body.required {
		takes := r.route.body.media
		r.media, r.charset = mediaOf(r.header("Content-Type"))
		charsets := ", with charset=UTF-8 or none"
		if r.route.body.spooled { // a file may come from a program that knows no other
			charsets = ", with no parameter but charset"
			if r.route.body == importBody {
				charsets += " and, of text/csv, header=present"
			}
		}
		if !slices.Contains(takes, r.media) || !r.route.body.spooled && !strings.EqualFold(r.charset, charsetUTF8) {
			return waypost.Errorf(waypost.CodeUnsupportedMediaType, "Content-Type", "the Content-Type must be %s%s", strings.Join(takes, " or "), charsets)
		}
		if _, known := decoderOf(r.charset); !known {
			return waypost.Errorf(waypost.CodeUnsupportedMediaType, "Content-Type", "there is no charset %s: it must be %s", clip(r.charset), someCharsets)
		}
		if coding := r.header("Content-Encoding"); coding != "" && !strings.EqualFold(coding, "identity") {
			return waypost.Errorf(waypost.CodeUnsupportedMediaType, "Content-Encoding", "the body must not be compressed")
		}
	}
	if r.tooLarge {
		return waypost.Errorf(waypost.CodePayloadTooLarge, "", "the body is larger than %d bytes", r.route.body.limit)
	}
	if err := r.checkMark(); err != nil {
		return err
	}
	if hasBody && r.route.body == noBody && !r.wire.awaited {
		return decode(r, &struct{}{})
	}
	return nil
}

// checkMark refuses a JSON document that begins with a byte order mark: of UTF-8, or of
// what is not UTF-8. Imports are files: those begin with one at times.
func (r *request) checkMark() error {
	for mark, way := range map[string]string{
		"\xef\xbb\xbf": "begins with a byte order mark (EF BB BF), which JSON does not have; save it as UTF-8 without one",
		"\xff\xfe":     "is UTF-16; save it as UTF-8",
		"\xfe\xff":     "is UTF-16; save it as UTF-8",
	} {
		if bytes.HasPrefix(r.body, []byte(mark)) {
			return waypost.Problems{{Code: waypost.DetailInvalidFormat, Message: "the body " + way}}.Err("")
		}
	}
	return nil
}

// mediaOf is a Content-Type without its parameters, and its charset, which is UTF-8 if
// there is none. It has no media type if there is another parameter than those of RFC
// 4180: a CSV needs a header row.
func mediaOf(contentType string) (media, charset string) {
	media, params, err := mime.ParseMediaType(contentType)
	charset, given := params["charset"]
	delete(params, "charset")
	if media == "text/csv" && strings.EqualFold(params["header"], "present") {
		delete(params, "header")
	}
	if err != nil || len(params) > 0 {
		return "", ""
	}
	if !given {
		charset = charsetUTF8
	}
	return media, charset
}

// isNamed tells whether one of the faults is the target's.
func isNamed(problems waypost.Problems, target string) bool {
	return slices.ContainsFunc(problems, func(d waypost.Detail) bool { return d.Target == target })
}

// noDocument tells whether the body could not be read at all; its members are not reported
// as missing then.
func noDocument(problems waypost.Problems) bool { return isNamed(problems, "") }

// checked reports what decoding a body and check have found as one BadRequest. check adds
// to what decoding found; a member that could not be decoded has no other fault.
func checked(decoded waypost.Problems, check func(p *waypost.Problems)) error {
	if noDocument(decoded) {
		return decoded.Err("")
	}
	all := slices.Clone(decoded)
	check(&all)
	return append(decoded, withoutTargets(all[len(decoded):], decoded)...).Err("")
}

// withoutTargets drops the faults of fields that others name already: a name of the
// wrong type is not also missing.
func withoutTargets(faults, others waypost.Problems) waypost.Problems {
	return slices.DeleteFunc(slices.Clone(faults), func(d waypost.Detail) bool { return isNamed(others, d.Target) })
}

// decode reads the body into v; all its faults are one BadRequest.
func decode(r *request, v any) error { return waypost.DecodeJSON(r.body, v).Err("") }
