package webhook

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"waypost"
)

// Limits of what is read and kept of an answer, in bytes.
const (
	MaxResponse = 64 << 10 // after decompression
	MaxMessage  = 1 << 10
	MaxExcerpt  = 2 << 10

	// maxPacked bounds what is read before decompression: a gzip stream can go on
	// for ever without unpacking to anything.
	maxPacked = 2 * MaxResponse

	// maxCodings is how often an answer may be compressed.
	maxCodings = 2
)

// readOutcome reads the answer under ctx, the context of the exchange, and
// applies the table of outcomes (docs/contract.md, "Receiver's answer"). The status of an
// answer other than 200 decides alone: a body that is late, broken or too long changes
// nothing then.
func readOutcome(ctx context.Context, resp *http.Response, now func() time.Time) waypost.Outcome {
	if resp.StatusCode < 100 || resp.StatusCode > 999 { // net/http takes any three characters that are a number
		return (&fault{waypost.ClassNetwork, "the answer is not valid HTTP"}).outcome()
	}
	var body []byte
	var packed string
	var err error
	if resp.StatusCode != http.StatusSwitchingProtocols { // whose body is the open connection
		body, packed, err = readBody(resp)
	}
	o := waypost.Outcome{HTTPStatus: resp.StatusCode, Excerpt: clean(body, MaxExcerpt, true)}
	switch {
	case resp.StatusCode != http.StatusOK:
		o.ErrorClass, o.Message = waypost.ClassHTTPStatus, statusText(resp.StatusCode)
	case err != nil && !errors.Is(err, errLong):
		f := bodyFault(ctx, err)
		o.ErrorClass, o.Message = f.class, f.text
	default:
		decide(&o, body, err != nil)
		if o.Unrecognized && packed != "" {
			o.Message = "unrecognizedBody: the answer is compressed in a way that is not read here: " + packed
		}
	}
	if !o.Succeed {
		o.RetryAfter = retryAfter(resp.Header, now)
	}
	return o
}

func statusText(status int) string {
	text := "the receiver answered " + strconv.Itoa(status)
	if status/100 == 3 && status != http.StatusNotModified {
		text += "; redirects are not followed"
	}
	return text
}

func bodyFault(ctx context.Context, err error) *fault {
	f := faultOf(ctx, err)
	if f.class == waypost.ClassNetwork {
		f.text = "the answer's body is broken off or garbled"
	}
	return f
}

// decide applies the rules for status 200. A body that is longer than what was
// read of it (long) is judged by its beginning: if that holds a whole JSON value
// with nothing but blanks behind it, that value counts; if its JSON is cut off,
// the answer is too large; if it is no JSON anyway, its length does not matter.
func decide(o *waypost.Outcome, body []byte, long bool) {
	if len(body) == 0 && !long {
		o.Succeed = true
		return
	}
	body = bytes.TrimPrefix(body, []byte("\ufeff")) // which some servers cannot help writing
	if long {
		dec := json.NewDecoder(bytes.NewReader(body))
		var value json.RawMessage
		err := dec.Decode(&value)
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			o.ErrorClass, o.Message = waypost.ClassResponseTooLarge, "the answer is longer than 64 KiB"
			return
		}
		if err == nil && len(bytes.TrimSpace(body[dec.InputOffset():])) == 0 {
			body = value
		}
	}
	succeed, message, ok := parseAnswer(body)
	switch {
	case !ok:
		o.Succeed, o.Unrecognized = true, true
		o.Message = "unrecognizedBody: the answer is no JSON object with succeed true or false"
	case succeed:
		o.Succeed, o.Message = true, message
	default:
		o.ErrorClass, o.Message = waypost.ClassSucceedFalse, message
		if message == "" {
			o.Message = "the receiver answered succeed false"
		}
	}
}

// parseAnswer reads a body (docs/contract.md, "Receiver's answer"). Names are
// case-sensitive, hence the map.
// ok is false if body is no JSON object with a boolean succeed.
func parseAnswer(body []byte) (succeed bool, message string, ok bool) {
	var members map[string]json.RawMessage
	if json.Unmarshal(body, &members) != nil {
		return false, "", false
	}
	switch string(members["succeed"]) {
	case "true":
		succeed = true
	case "false":
	default:
		return false, "", false
	}
	if json.Unmarshal(members["message"], &message) != nil {
		message = ""
	}
	return succeed, clean([]byte(message), MaxMessage, false), true
}

// errLong says that there is more than what was read.
var errLong = errors.New("the answer is too long")

// readBody reads at most MaxResponse bytes of the unpacked body. With an error it
// returns what came before. packed names the compression that is still there, if it is
// one that is not known.
func readBody(resp *http.Response) (body []byte, packed string, err error) {
	from, packed, err := unpack(resp)
	if err == io.EOF {
		return nil, "", nil // no body at all: only then is the end not unexpected
	}
	if err != nil {
		return nil, "", err
	}
	body, err = io.ReadAll(io.LimitReader(from, MaxResponse+1))
	if len(body) > MaxResponse {
		return body[:MaxResponse], packed, errLong
	}
	return body, packed, err
}

// unpack takes off what Content-Encoding says, the last one first. Every layer has its
// bound: a few bytes can unpack to very many that unpack to nothing. What is neither
// gzip nor deflate stays as it is.
func unpack(resp *http.Response) (from io.Reader, packed string, err error) {
	from = resp.Body
	codings := strings.FieldsFunc(strings.ToLower(strings.Join(resp.Header.Values("Content-Encoding"), ",")), func(r rune) bool {
		return r == ',' || r == ' ' || r == '\t'
	})
	codings = slices.DeleteFunc(codings, func(coding string) bool { return coding == "identity" })
	for i, coding := range slices.Backward(codings) {
		if len(codings) > maxCodings || !slices.Contains([]string{"gzip", "x-gzip", "deflate"}, coding) {
			return from, clean([]byte(strings.Join(codings[:i+1], ", ")), 32, false), nil
		}
		head := bufio.NewReader(&packedReader{from: from, left: maxPacked})
		start, err := head.Peek(2)
		if len(start) == 0 {
			return nil, "", err
		}
		switch {
		case coding != "deflate":
			from, err = gzip.NewReader(head)
		case len(start) == 2 && start[0]&0xf == 8 && (int(start[0])<<8|int(start[1]))%31 == 0:
			from, err = zlib.NewReader(head)
		default: // some mean the bare stream
			from, err = flate.NewReader(head), nil
		}
		if err != nil {
			return nil, "", err
		}
	}
	return from, "", nil
}

// packedReader reads at most left bytes; more than that is errLong, unlike with
// io.LimitReader, whose end looks like the stream's.
type packedReader struct {
	from io.Reader
	left int
}

func (r *packedReader) Read(p []byte) (int, error) {
	if r.left == 0 {
		return 0, errLong
	}
	n, err := r.from.Read(p[:min(len(p), r.left)])
	r.left -= n
	return n, err
}

// clean makes a text of at most limit bytes from bytes of the receiver: valid
// UTF-8 without control characters. Line breaks and tabs stay if lines is set and
// become blanks otherwise.
func clean(b []byte, limit int, lines bool) string {
	b = b[:min(len(b), 4*limit)] // no need to look at all of a long one
	s := strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t' || r == '\r':
			if lines {
				return r
			}
			return ' '
		case unicode.IsControl(r):
			return -1
		}
		return r
	}, string(b)) // Map replaces what is not UTF-8
	if len(s) > limit {
		for limit > 0 && !utf8.RuneStart(s[limit]) {
			limit--
		}
		s = s[:limit]
	}
	return s
}
