package app

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/http2"

	"waypost/config"
	"waypost/signature"
)

// door is a port to send malformed requests to.
type door struct {
	addr, path string
	trust      *tls.Config
	sign       func(path, body string) string // header lines; nil: none
	sound      int                            // what a sound request is answered; 0: nobody asks
}

// startConsole starts a console, whose gateway is away, and returns its address.
func startConsole(t *testing.T, change func(*config.Config)) (addr, admin string) {
	t.Helper()
	cfg := consoleConfig(t)
	change(&cfg)
	ctx, cancel := context.WithCancel(t.Context())
	ended, ready := make(chan error, 1), make(chan string, 1)
	go func() { ended <- Console(ctx, cfg, slog.New(slog.DiscardHandler), func(addr string) { ready <- addr }) }()
	select {
	case err := <-ended:
		t.Fatal(err)
	case addr = <-ready:
	}
	t.Cleanup(func() { cancel(); <-ended })
	return addr, cfg.Admin.Addr
}

func doors(t *testing.T) map[string]door {
	t.Helper()
	g := startGateway(t)
	files, trust := tlsFiles(t)
	console, admin := startConsole(t, func(*config.Config) {})
	secured, _ := startConsole(t, func(cfg *config.Config) { cfg.TLS = files })
	codec, _ := runCodec(t, codecConfig(t, newIssuer(t, nil).URL), io.Discard)
	trust.NextProtos, trust.ServerName = []string{"http/1.1"}, "127.0.0.1"
	sign := func(path, body string) (lines string) {
		r := signature.Request{Method: "POST", Path: path, Headers: []signature.Header{{Name: "Host", Value: "h"}, {Name: "Content-Type", Value: "application/json"}}}
		for _, h := range signature.Sign(r, g.key, []byte(body), time.Now(), signature.NewNonce()) {
			lines += h.Name + ": " + h.Value + "\r\n"
		}
		return lines
	}
	return map[string]door{
		"gateway":                {addr: g.addr, path: "/v1/leads", sound: 401},
		"gateway, no such path":  {addr: g.addr, path: "/nowhere", sound: 404},
		"gateway, signed":        {addr: g.addr, path: "/v1/leads", sign: sign, sound: 201},
		"gateway, signed import": {addr: g.addr, path: "/v1/leads/imports", sign: sign},
		"console":                {addr: console, path: "/sign-in", sound: 401},
		"console, HTTPS":         {addr: secured, path: "/journeys", trust: trust, sound: 303},
		"codec":                  {addr: codec, path: "/decode", sound: 401},
		"admin":                  {addr: admin, path: "/healthz", sound: 405},
	}
}

// dial connects for up to half a minute.
func (d door) dial(t *testing.T) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", d.addr)
	if err == nil && d.trust != nil {
		conn = tls.Client(conn, d.trust)
	}
	if err == nil {
		err = conn.SetDeadline(time.Now().Add(30 * time.Second))
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

const (
	soundBody = `{"businessParam":{"name":"Ada"}}`
	secondOne = "GET /docs HTTP/1.1\r\nHost: h\r\n\r\n"
)

// head is the head of a POST of soundBody up to its last header line.
func (d door) head(framing string) string {
	head := "POST " + d.path + " HTTP/1.1\r\nHost: h\r\nContent-Type: application/json\r\n" + framing
	if d.sign != nil {
		head += d.sign(d.path, soundBody)
	}
	return head
}

// answers are the statuses of all answers on a connection until the server closes it.
func answers(in *bufio.Reader) (got []int, err error) {
	for {
		res, err := http.ReadResponse(in, nil)
		if err != nil {
			if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "reset") {
				err = nil
			}
			return got, err
		}
		got = append(got, res.StatusCode)
		if _, err := io.Copy(io.Discard, res.Body); err != nil {
			return got, err
		}
	}
}

// malformed are chunked bodies of soundBody, %s, whose length is %x, that are none.
var malformed = map[string]string{
	"line feed in an extension":        "%x;\n%s\r\n0\r\n\r\n",
	"line feed behind an extension":    "%x;a=b\n%s\r\n0\r\n\r\n",
	"line feed in a quoted extension":  "%x;a=\"\n\"\r\n%s\r\n0\r\n\r\n",
	"line feed behind a size":          "%x\n%s\r\n0\r\n\r\n",
	"line feed behind a chunk":         "%x\r\n%s\n0\r\n\r\n",
	"line feed behind the last size":   "%x\r\n%s\r\n0\n\r\n",
	"line feed at the end":             "%x\r\n%s\r\n0\r\n\n",
	"carriage return in an extension":  "%x;a\rb\r\n%s\r\n0\r\n\r\n",
	"carriage return behind a size":    "%x\r%s\r\n0\r\n\r\n",
	"two carriage returns":             "%x\r\r\n%s\r\n0\r\n\r\n",
	"nothing behind a chunk":           "%x\r\n%s0\r\n\r\n",
	"more behind a chunk":              "%x\r\n%sxy0\r\n\r\n",
	"letter in a size":                 "%xg\r\n%s\r\n0\r\n\r\n",
	"plus":                             "+%x\r\n%s\r\n0\r\n\r\n",
	"minus":                            "-%x\r\n%s\r\n0\r\n\r\n",
	"0x":                               "0x%x\r\n%s\r\n0\r\n\r\n",
	"underscore":                       "0_%x\r\n%s\r\n0\r\n\r\n",
	"blank before a size":              " %x\r\n%s\r\n0\r\n\r\n",
	"blank behind a size":              "%x \r\n%s\r\n0\r\n\r\n",
	"tab behind a size":                "%x\t\r\n%s\r\n0\r\n\r\n",
	"blank before an extension":        "%x ;a\r\n%s\r\n0\r\n\r\n",
	"comma":                            "%x,1\r\n%s\r\n0\r\n\r\n",
	"too many digits":                  "0000000%x\r\n%s\r\n0\r\n\r\n",
	"more digits than a word has":      "100000000000000%x\r\n%s\r\n0\r\n\r\n",
	"no size":                          ";%x\r\n%s\r\n0\r\n\r\n",
	"an empty line":                    "\r\n%x\r\n%s\r\n0\r\n\r\n",
	"long extension":                   "%x;" + strings.Repeat("a", 5000) + "\r\n%s\r\n0\r\n\r\n",
	"zero byte in an extension":        "%x;\x00\r\n%s\r\n0\r\n\r\n",
	"trailer Content-Length":           "%x\r\n%s\r\n0\r\nContent-Length: 5\r\n\r\n",
	"trailer Transfer-Encoding":        "%x\r\n%s\r\n0\r\nTransfer-Encoding: chunked\r\n\r\n",
	"trailer Host":                     "%x\r\n%s\r\n0\r\nHost: other\r\n\r\n",
	"trailer with line feeds":          "%x\r\n%s\r\n0\r\nX: a\nY: b\r\n\r\n",
	"trailer":                          "%x\r\n%s\r\n0\r\nX: a\r\n\r\n",
	"trailer with a blank and a colon": "%x\r\n%s\r\n0\r\nX : a\r\n\r\n",
}

// malformedHeads are header lines about a body of two bytes that are contradictory, or none.
var malformedHeads = map[string]string{
	"two codings":               "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n",
	"two codings in one":        "Transfer-Encoding: chunked, chunked\r\n",
	"another coding":            "Transfer-Encoding: gzip, chunked\r\n",
	"identity":                  "Transfer-Encoding: identity\r\nContent-Length: 2\r\n",
	"coding and length":         "Transfer-Encoding: chunked\r\nContent-Length: 2\r\n",
	"length and coding":         "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
	"coding in quotes":          "Transfer-Encoding: \"chunked\"\r\n",
	"coding and a vertical tab": "Transfer-Encoding: \x0bchunked\r\n",
	"two lengths":               "Content-Length: 2\r\nContent-Length: 1\r\n",
	"two equal lengths":         "Content-Length: 2\r\nContent-Length: 2\r\n",
	"lengths in one":            "Content-Length: 2, 2\r\n",
	"length with a plus":        "Content-Length: +2\r\n",
	"negative length":           "Content-Length: -2\r\n",
	"length in hex":             "Content-Length: 0x2\r\n",
	"empty length":              "Content-Length:\r\n",
	"length in words":           "Content-Length: two\r\n",
	"huge length":               "Content-Length: 99999999999999999999\r\n",
	"blank before a colon":      "Content-Length : 2\r\n",
	"tab before a colon":        "Transfer-Encoding\t: chunked\r\n",
	"folded":                    "Content-Length: 2\r\nX: a\r\n b\r\n",
	"folded coding":             "Transfer-Encoding:\r\n chunked\r\n",
	"no name":                   "Content-Length: 2\r\n: a\r\n",
	"no colon":                  "Content-Length: 2\r\nX\r\n",
	"carriage return":           "Content-Length: 2\r\nX: a\rb\r\n",
	"zero byte in a value":      "Content-Length: 2\r\nX: a\x00b\r\n",
	"zero byte in a name":       "Content-Length: 2\r\nX\x00: a\r\n",
	"line feed":                 "X: a\nContent-Length: 2\r\n",
	"line feed at the end":      "Content-Length: 2\r\n\n",
	"two hosts":                 "Content-Length: 2\r\nHost: other\r\n",
}

// soundChunks are bodies that are taken.
var soundChunks = map[string]string{
	"plain":         "%x\r\n%s\r\n0\r\n\r\n",
	"upper case":    "%X\r\n%s\r\n0\r\n\r\n",
	"leading zeros": "000%x\r\n%s\r\n000\r\n\r\n",
	"extension":     "%x;a=\"b\";c\r\n%s\r\n0;d\r\n\r\n",
}

// What two servers could see end in different places is refused by every port, whether the
// request is signed or not, and nothing that follows is taken for another request.
func TestMalformedFraming(t *testing.T) {
	t.Parallel()
	for name, d := range doors(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			one := func(what, sent string, want []int) {
				t.Helper()
				conn := d.dial(t)
				if _, err := io.WriteString(conn, sent); err != nil {
					t.Fatal(err)
				}
				if got, err := answers(bufio.NewReader(conn)); err != nil || !slices.Equal(got, want) {
					t.Errorf("%s: answered %v and then %v, want %v and the end of the connection", what, got, err, want)
				}
			}
			for what, form := range malformed {
				body := fmt.Sprintf(form, len(soundBody), soundBody)
				one(what, d.head("Transfer-Encoding: chunked\r\n")+"\r\n"+body+secondOne, []int{400})
			}
			for what, lines := range malformedHeads {
				one(what, d.head(lines)+"\r\n2\r\nxx\r\n0\r\n\r\n"+secondOne, []int{400})
			}
			for what, line := range map[string]string{
				"HTTP/2": "GET / HTTP/2.0", "HTTP/0.9": "GET /", "no HTTP": "nonsense", "two blanks": "GET  / HTTP/1.1", "blank in the path": "GET /a b HTTP/1.1",
				"tab": "GET\t/ HTTP/1.1", "line feed": "GET / HTTP/1.1\nX: y", "other method": "G(T / HTTP/1.1", "no such version": "GET / HTTP/1.2",
			} {
				one(what, line+"\r\nHost: h\r\n\r\n"+secondOne, []int{400})
			}
			for what, form := range soundChunks {
				if d.sound == 0 {
					continue
				}
				body := fmt.Sprintf(form, len(soundBody), soundBody)
				last := d.head("Transfer-Encoding: chunked\r\nConnection: close\r\n") + "\r\n" + body
				one(what, last, []int{d.sound})
			}
		})
	}
}

// lenient is a proxy that ends lines at LF, and takes of a chunk line the digits that it begins with. It returns what it forwards as
// the first request of what its client has sent, and the rest.
func lenient(sent []byte) (first, rest []byte) {
	at := bytes.Index(sent, []byte("\r\n\r\n")) + 4
	for {
		end := at + bytes.IndexByte(sent[at:], '\n') + 1
		digits := strings.TrimLeft(string(sent[at:end]), "+ ")
		digits = digits[:len(digits)-len(strings.TrimLeft(digits, "0123456789abcdefABCDEF"))]
		size, _ := strconv.ParseInt(digits, 16, 32)
		at = end + int(size)
		if size == 0 {
			break
		}
		at += bytes.IndexByte(sent[at:], '\n') + 1
	}
	at += bytes.IndexByte(sent[at:], '\n') + 1
	return sent[:at], sent[at:]
}

// Behind a proxy that is lenient about chunk lines, a second request that is hidden in a
// body stays one: whoever sends the first gets one answer, and the connection is not used again.
func TestNoRequestIsSmuggled(t *testing.T) {
	t.Parallel()
	hidden := "0\r\n\r\n" + secondOne
	for name, d := range doors(t) {
		for what, line := range map[string]string{
			"line feed in an extension": "2;\n", "line feed": "2\n", "carriage return": "2;\r\n\n", "letter": "2g\n", "plus": "+2\n", "blank": " 2\n", "both": "2 ;\n",
		} {
			sent := d.head("Transfer-Encoding: chunked\r\n") + "\r\n" + line + "xx\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(hidden), hidden)
			first, rest := lenient([]byte(sent))
			if what != "carriage return" && len(rest) > 0 {
				t.Fatalf("%s: the proxy sees more than one request: %q", what, rest)
			}
			conn := d.dial(t)
			if _, err := conn.Write(first); err != nil {
				t.Fatal(err)
			}
			if got, err := answers(bufio.NewReader(conn)); err != nil || !slices.Equal(got, []int{400}) {
				t.Errorf("%s, %s: the proxy gets %v and %v, want 400 and the end of the connection", name, what, got, err)
			}
		}
	}
}

// A connection of HTTP/2 has few requests under way, whoever sends them.
func TestStreams(t *testing.T) {
	t.Parallel()
	files, trust := tlsFiles(t)
	addr, _ := startConsole(t, func(cfg *config.Config) { cfg.TLS = files })
	trust.NextProtos, trust.ServerName = []string{"h2"}, "127.0.0.1"
	conn := door{addr: addr, trust: trust}.dial(t)
	if _, err := io.WriteString(conn, http2.ClientPreface); err != nil {
		t.Fatal(err)
	}
	framer := http2.NewFramer(conn, conn)
	if err := framer.WriteSettings(); err != nil {
		t.Fatal(err)
	}
	for {
		frame, err := framer.ReadFrame()
		if err != nil {
			t.Fatal(err)
		}
		settings, ok := frame.(*http2.SettingsFrame)
		if !ok || settings.IsAck() {
			continue
		}
		if most, _ := settings.Value(http2.SettingMaxConcurrentStreams); most != maxStreams {
			t.Errorf("%d requests at a time", most)
		}
		return
	}
}
