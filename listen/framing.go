package listen

import (
	"bytes"
	"net"
	"net/netip"
	"strconv"
	"strings"
)

// Fault is why a request is refused before a server has understood it. Target is the
// faulty header, "" if there is none.
type Fault struct{ Target, Text string }

// Error is the text.
func (f *Fault) Error() string { return f.Text }

var (
	faultLine   = &Fault{"", "the request is not valid HTTP/1.1: its first line is malformed"}
	faultHTTP   = &Fault{"", "the request must be HTTP/1.1 (or 1.0)"}
	faultEnd    = &Fault{"", "a line of the request ends with LF alone; end each with CRLF"}
	faultHeader = &Fault{"", "a header line is malformed: it must be a name, a colon without a blank before it, " +
		"and a value without control characters, all on one line"}
	faultHosts  = &Fault{"Host", "the request must have one header Host, not several or none"}
	faultHost   = &Fault{"Host", "Host must be a name or an address, with a port or none, such as api.example.com:8443"}
	faultLength = &Fault{"Content-Length", "Content-Length must be a number of bytes"}
	faultTwice  = &Fault{"Content-Length", "the length of the body is stated twice"}
	faultCoding = &Fault{"Transfer-Encoding", "Transfer-Encoding can only be chunked"}
	faultOld    = &Fault{"Transfer-Encoding", "HTTP/1.0 has no Transfer-Encoding; send Content-Length, or HTTP/1.1"}
	faultChunk  = &Fault{"", "the chunks of the body are malformed: each must begin with its size, " +
		"up to 8 hexadecimal digits, and end with CRLF"}
	faultAfter = &Fault{"", "the body must end with its last chunk: trailers are not taken"}
)

// framing follows the requests on a connection of HTTP/1.1 by RFC 9112, without what it leaves to servers to
// forgive: proxies before this one may have understood such a request differently.
type framing struct {
	part     part
	line     []byte // the beginning of a line whose end has not come
	left     int64  // bytes of the body or the chunk
	requests int    // whose headers have come
	faulty   int    // number of the request that the last line belongs to

	// Of the headers that are being read.
	target          string // of the request
	old             bool   // HTTP/1.0
	host            bool
	stated, chunked bool // Content-Length, Transfer-Encoding
}

// part is what comes next.
type part int

const (
	firstLine part = iota
	headerLine
	body
	chunkLine
	chunk
	chunkEnd
	lastEnd
)

// maxChunkLine bounds the size of a chunk with its extensions, in bytes.
const maxChunkLine = 128

// follow reads on, and returns how many bytes a server may see: none behind a fault, nor the end of the line that has it.
func (f *framing) follow(p []byte) (sound int, fault *Fault) {
	for sound < len(p) {
		rest := p[sound:]
		if f.part == body || f.part == chunk {
			n := min(f.left, int64(len(rest)))
			sound += int(n)
			if f.left -= n; f.left > 0 {
				continue
			}
			if f.part == body {
				f.part = firstLine
			} else {
				f.part = chunkEnd
			}
			continue
		}
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			f.line, f.faulty = append(f.line, rest...), f.requests
			return len(p), f.unfinished()
		}
		line := rest[:end]
		if len(f.line) > 0 {
			f.line = append(f.line, line...)
			line = f.line
		}
		text, ended := bytes.CutSuffix(line, []byte("\r\n"))
		f.faulty = f.requests // so far
		if f.part == firstLine || f.part == headerLine {
			f.faulty++
		}
		if !ended {
			return sound + end - 1, faultEnd
		}
		if fault := f.take(text); fault != nil {
			return sound + end - 1, fault
		}
		f.line = f.line[:0]
		sound += end
	}
	return sound, nil
}

// unfinished finds what is wrong already with a line whose end has not come. How long
// header lines may be, servers decide.
func (f *framing) unfinished() *Fault {
	switch {
	case f.part == chunkLine && len(f.line) > maxChunkLine:
		return faultChunk
	case f.part == chunkEnd && string(f.line) != "\r":
		return faultChunk
	case f.part == lastEnd && string(f.line) != "\r":
		return faultAfter
	}
	return nil
}

// take reads a line, without its end.
func (f *framing) take(line []byte) *Fault {
	switch f.part {
	case firstLine:
		if len(line) == 0 { // some clients send one behind a body (RFC 9112, section 2.2)
			return nil
		}
		return f.takeFirst(string(line))
	case headerLine:
		if len(line) == 0 {
			return f.endHeaders()
		}
		return f.takeHeader(line)
	case chunkLine:
		return f.takeChunk(string(line))
	case chunkEnd:
		f.part = chunkLine
		if len(line) > 0 {
			return faultChunk
		}
	case lastEnd:
		f.part = firstLine
		if len(line) > 0 {
			return faultAfter
		}
	}
	return nil
}

// takeFirst reads the first line of a request.
func (f *framing) takeFirst(line string) *Fault {
	method, rest, _ := strings.Cut(line, " ")
	target, protocol, _ := strings.Cut(rest, " ")
	if !isToken([]byte(method)) || target == "" || strings.ContainsFunc(target, func(r rune) bool { return r <= ' ' || r == 0x7f }) {
		return faultLine
	}
	if protocol != "HTTP/1.1" && protocol != "HTTP/1.0" {
		return faultHTTP
	}
	f.target = target
	f.part, f.old, f.host, f.stated, f.chunked, f.left = headerLine, protocol == "HTTP/1.0", false, false, false, 0
	return nil
}

// takeHeader reads a header, and what it says of the body.
func (f *framing) takeHeader(line []byte) *Fault {
	name, value, found := bytes.Cut(line, []byte(":"))
	if !found || !isToken(name) || !isValue(value) {
		return faultHeader
	}
	text := bytes.Trim(value, " \t")
	switch {
	case bytes.EqualFold(name, []byte("Host")):
		if f.host {
			return faultHosts
		}
		if f.host = true; !isHost(string(text)) {
			return faultHost
		}
	case bytes.EqualFold(name, []byte("Content-Length")):
		length, err := strconv.ParseUint(string(text), 10, 62) // digits alone
		if err != nil {
			return faultLength
		}
		if f.stated {
			return faultTwice
		}
		f.stated, f.left = true, int64(length)
	case bytes.EqualFold(name, []byte("Transfer-Encoding")):
		if f.chunked {
			return faultTwice
		}
		if !bytes.EqualFold(text, []byte("chunked")) {
			return faultCoding
		}
		f.chunked = true
	}
	return nil
}

// endHeaders decides where the body ends.
func (f *framing) endHeaders() *Fault {
	switch {
	case !f.host && !f.old:
		return faultHosts
	case f.chunked && f.old:
		return faultOld
	case f.chunked && f.stated:
		return faultTwice
	}
	f.requests++
	switch {
	case f.chunked:
		f.part = chunkLine
	case f.left > 0:
		f.part = body
	default:
		f.part = firstLine
	}
	return nil
}

// takeChunk reads the size of a chunk, and passes over its extensions.
func (f *framing) takeChunk(line string) *Fault {
	size, extensions, _ := strings.Cut(line, ";")
	n, err := strconv.ParseUint(size, 16, 32)
	unseen := func(r rune) bool { return r <= ' ' || r >= 0x7f }
	if err != nil || len(size) > 8 || len(line) > maxChunkLine || strings.ContainsFunc(extensions, unseen) {
		return faultChunk
	}
	f.part, f.left = chunk, int64(n)
	if n == 0 {
		f.part = lastEnd
	}
	return nil
}

// isToken tells whether s can be a method or the name of a header (RFC 9110, section 5.6.2).
func isToken(s []byte) bool {
	for _, c := range s {
		if c <= ' ' || c >= 0x7f || strings.IndexByte("\"(),/:;<=>?@[\\]{}", c) >= 0 {
			return false
		}
	}
	return len(s) > 0
}

// isValue tells whether s can be the value of a header (section 5.5 there).
func isValue(s []byte) bool {
	for _, c := range s {
		if c < ' ' && c != '\t' || c == 0x7f {
			return false
		}
	}
	return true
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

// framed is a connection whose requests are followed. Its Read ends at a fault, and returns
// the fault from then on.
type framed struct {
	net.Conn
	of *conn
	framing
	fault *Fault
}

func (c *framed) Read(p []byte) (int, error) {
	if c.fault != nil {
		return 0, c.fault
	}
	n, err := c.Conn.Read(p)
	before := c.requests
	sound, fault := c.follow(p[:n])
	if begun := c.requests - before; begun > 0 {
		c.of.change(func(open int) int { return open + begun })
	}
	if fault == nil {
		return n, err
	}
	c.fault = fault
	if sound > 0 {
		return sound, nil
	}
	return 0, fault
}

// NetConn is the connection below.
func (c *framed) NetConn() net.Conn { return c.of }

// Fault is what has ended the connection, or nil, and which request on it has the fault, the first one being 1.
func (c *framed) Fault() (fault *Fault, request int) { return c.fault, c.faulty }

// Target is the path and the query of the last request whose first line is sound.
func (c *framed) Target() string { return c.target }
