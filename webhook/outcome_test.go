package webhook

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"waypost"
)

// ok makes a raw answer 200 with body.
func ok(body string) string { return answer("200 OK", "", body) }

func answer(status, headers, body string) string {
	return fmt.Sprintf("HTTP/1.1 %s\r\nContent-Length: %d\r\n%s\r\n%s", status, len(body), headers, body)
}

func zipped(t testing.TB, plain string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, err := io.WriteString(w, plain)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func deflated(t testing.TB, plain string) string {
	var b bytes.Buffer
	w := zlib.NewWriter(&b)
	_, err := io.WriteString(w, plain)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestOutcome(t *testing.T) {
	t.Parallel()
	const gz = "Content-Encoding: gzip\r\n"
	blank := strings.Repeat(" ", MaxResponse)
	yes := `{"succeed":true,"message":"received"}`
	no := `{"succeed":false,"message":"no"}`
	packedNo := zipped(t, no)
	packedAs := func(coding string) waypost.Outcome {
		return waypost.Outcome{Succeed: true, HTTPStatus: 200, Unrecognized: true, Message: "unrecognizedBody: the answer is compressed in a way that is not read here: " + coding}
	}
	unrecognized := waypost.Outcome{Succeed: true, HTTPStatus: 200, Unrecognized: true}
	network := waypost.Outcome{HTTPStatus: 200, ErrorClass: waypost.ClassNetwork}
	tooLarge := waypost.Outcome{HTTPStatus: 200, ErrorClass: waypost.ClassResponseTooLarge}
	succeeded := waypost.Outcome{Succeed: true, HTTPStatus: 200, Message: "received"}
	refused := waypost.Outcome{HTTPStatus: 200, ErrorClass: waypost.ClassSucceedFalse, Message: "no"}
	status := func(n int, after time.Duration) waypost.Outcome {
		return waypost.Outcome{HTTPStatus: n, ErrorClass: waypost.ClassHTTPStatus, Message: fmt.Sprintf("the receiver answered %d", n), RetryAfter: after}
	}
	tests := []struct {
		name string
		raw  string
		want waypost.Outcome // Message is compared if it is set; Excerpt and times are not
	}{
		{"no body", ok(""), waypost.Outcome{Succeed: true, HTTPStatus: 200}},
		{"no body, closed", "HTTP/1.1 200 OK\r\n\r\n", waypost.Outcome{Succeed: true, HTTPStatus: 200}},
		{"no body, HTTP/1.0", "HTTP/1.0 200 OK\r\n\r\n", waypost.Outcome{Succeed: true, HTTPStatus: 200}},
		{"no body, chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", waypost.Outcome{Succeed: true, HTTPStatus: 200}},
		{"no body, gzip", answer("200 OK", gz, ""), waypost.Outcome{Succeed: true, HTTPStatus: 200}},
		{"no body, packed", answer("200 OK", gz, zipped(t, "")), waypost.Outcome{Succeed: true, HTTPStatus: 200}},

		{"true", ok(yes), succeeded},
		{"true, chunked", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n" + yes[:5] + "\r\n20\r\n" + yes[5:] + "\r\n0\r\n\r\n", succeeded},
		{"true, until closed", "HTTP/1.0 200 OK\r\n\r\n" + yes, succeeded},
		{"true, after 100 and 103", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok(yes), succeeded},
		{"true, as text", answer("200 OK", "Content-Type: text/html\r\n", yes), succeeded},
		{"true, byte order mark and blanks", ok("\ufeff \r\n" + yes + "\n"), succeeded},
		{"true without message", ok(`{"succeed":true}`), waypost.Outcome{Succeed: true, HTTPStatus: 200}},
		{"false", ok(no), refused},
		{"false, byte order mark", ok("\ufeff" + no), refused},
		{"false, packed", answer("200 OK", gz, packedNo), refused},
		{"false, packed as x-gzip", answer("200 OK", "Content-Encoding: X-GZIP\r\n", packedNo), refused},
		{"false, packed in two parts", answer("200 OK", gz, zipped(t, no[:9])+zipped(t, no[9:])), refused},
		{"false, packed twice over", answer("200 OK", "Content-Encoding: gzip, gzip\r\n", zipped(t, packedNo)), refused},
		{"false, in two lines", answer("200 OK", "Content-Encoding: identity\r\nContent-Encoding: deflate,identity\r\n"+gz, zipped(t, deflated(t, no))), refused},
		{"false, deflate", answer("200 OK", "Content-Encoding: deflate\r\n", deflated(t, no)), refused},
		{"false, deflate without a header", answer("200 OK", "Content-Encoding: deflate\r\n", deflated(t, no)[2:]), refused},
		{"false, trailers", "HTTP/1.1 200 OK\r\nTrailer: X\r\nTransfer-Encoding: chunked\r\n\r\n20\r\n" + no + "\r\n0\r\nX: y\r\nContent-Encoding: gzip\r\n\r\n", refused},
		{"false, more members", ok(`{"code":{"a":[1]},"message":"no","succeed":false}`), refused},
		{"false without message", ok(`{"succeed":false}`), waypost.Outcome{HTTPStatus: 200, ErrorClass: waypost.ClassSucceedFalse, Message: "the receiver answered succeed false"}},
		{"false with a number as message", ok(`{"succeed":false,"message":7}`), waypost.Outcome{HTTPStatus: 200, ErrorClass: waypost.ClassSucceedFalse, Message: "the receiver answered succeed false"}},
		{"false with Retry-After", answer("200 OK", "Retry-After: 7\r\n", no), waypost.Outcome{HTTPStatus: 200, ErrorClass: waypost.ClassSucceedFalse, Message: "no", RetryAfter: 7 * time.Second}},
		{"message cleaned", ok(`{"succeed":false,"message":"a\u0000\u001b[31m\nb\ud800` + "\xff" + `"}`), waypost.Outcome{HTTPStatus: 200, ErrorClass: waypost.ClassSucceedFalse, Message: "a[31m b��"}},
		{"message cut", ok(`{"succeed":true,"message":"x` + strings.Repeat("ü", 600) + `"}`), waypost.Outcome{Succeed: true, HTTPStatus: 200, Message: "x" + strings.Repeat("ü", 511)}},

		{"blanks", ok("\n"), unrecognized},
		{"text", ok("OK"), unrecognized},
		{"array", ok(`[{"succeed":false}]`), unrecognized},
		{"null", ok(`null`), unrecognized},
		{"empty object", ok(`{}`), unrecognized},
		{"string for succeed", ok(`{"succeed":"false"}`), unrecognized},
		{"null for succeed", ok(`{"succeed":null}`), unrecognized},
		{"another case", ok(`{"Succeed":false}`), unrecognized},
		{"something behind", ok(no + "x"), unrecognized},
		{"two objects", ok(no + no), unrecognized},
		{"half an object", ok(no[:20]), unrecognized},
		{"unknown compression", answer("200 OK", "Content-Encoding: gzip, BR\r\n", "\x0b\x02\x80"), packedAs("gzip, br")},
		{"compressed three times", answer("200 OK", gz+gz+gz, zipped(t, zipped(t, packedNo))), packedAs("gzip, gzip, gzip")},
		{"unknown compression, without any", answer("200 OK", "Content-Encoding: aws-chunked\r\n", no), refused},

		{"exactly the cap", ok(no + blank[len(no):]), refused},
		{"longer, object complete, blanks behind", ok(no + blank), refused},
		{"longer, object complete, text behind", ok(no + "x" + blank), unrecognized},
		{"longer, object cut", ok(`{"succeed":true,"data":"` + strings.Repeat("x", MaxResponse) + `"}`), tooLarge},
		{"longer, array cut", ok("[" + strings.Repeat("1,", MaxResponse) + "1]"), tooLarge},
		{"longer, only blanks", ok(blank + yes), tooLarge},
		{"longer, a page", ok("<html>" + blank), unrecognized},
		{"longer, packed", answer("200 OK", gz, zipped(t, `{"succeed":true,"data":"`+strings.Repeat("x", MaxResponse)+`"}`)), tooLarge},
		{"gzip bomb", answer("200 OK", gz, zipped(t, `{"succeed":true,"data":"`+strings.Repeat("x", 8<<20))), tooLarge},
		{"gzip bomb in a gzip", answer("200 OK", "Content-Encoding: gzip, gzip\r\n", zipped(t, strings.Repeat(zipped(t, ""), 100_000))), tooLarge},
		{"gzip bomb in a deflate", answer("200 OK", "Content-Encoding: gzip, deflate\r\n", deflated(t, zipped(t, yes[:9])+strings.Repeat(zipped(t, ""), 100_000))), tooLarge},
		{"gzip without end or content", "HTTP/1.1 200 OK\r\n" + gz + "\r\n" + strings.Repeat(zipped(t, ""), 10_000), tooLarge},

		{"shorter than Content-Length", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + yes, network},
		{"chunks without end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n25\r\n" + yes + "\r\n", network},
		{"broken chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" + yes, network},
		{"deflate cut", answer("200 OK", "Content-Encoding: deflate\r\n", deflated(t, no)[:20]), network},
		{"no deflate", answer("200 OK", "Content-Encoding: deflate\r\n", no), network},
		{"chunk extensions without end", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + strings.Repeat("1;"+strings.Repeat("x", 2000)+"\r\n \r\n", 100), network},
		{"long trailers", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\nX: " + strings.Repeat("x", 1<<20) + "\r\n\r\n", network},
		{"no gzip", answer("200 OK", gz, yes), network},
		{"gzip cut", answer("200 OK", gz, packedNo[:len(packedNo)-9]), network},
		{"gzip header cut", answer("200 OK", gz, packedNo[:5]), network},
		{"gzip with a wrong sum", answer("200 OK", gz, packedNo[:len(packedNo)-8]+"12345678"), network},
		{"no HTTP", "220 mail.example ESMTP\r\n", waypost.Outcome{ErrorClass: waypost.ClassNetwork, Message: "the answer is not valid HTTP"}},
		{"status 000", answer("000 Nothing", "", yes), waypost.Outcome{ErrorClass: waypost.ClassNetwork, Message: "the answer is not valid HTTP"}},
		{"status +20", answer("+20 Nothing", "", yes), waypost.Outcome{ErrorClass: waypost.ClassNetwork, Message: "the answer is not valid HTTP"}},
		{"two lengths", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab", waypost.Outcome{ErrorClass: waypost.ClassNetwork}},
		{"nothing", "", waypost.Outcome{ErrorClass: waypost.ClassNetwork, Message: "the receiver closed the connection without an answer"}},
		{"half a header", "HTTP/1.1 200 OK\r\nContent-Le", waypost.Outcome{ErrorClass: waypost.ClassNetwork}},
		{"100 without end", strings.Repeat("HTTP/1.1 100 Continue\r\n\r\n", 10_000) + ok(yes), waypost.Outcome{ErrorClass: waypost.ClassNetwork, Message: "the answer's headers are too long"}},
		{"103 without end", strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n", 10_000) + ok(yes), waypost.Outcome{ErrorClass: waypost.ClassNetwork, Message: "the answer's headers are too long"}},
		{"long reason", "HTTP/1.1 200 " + strings.Repeat("x", 1<<20) + "\r\n\r\n", waypost.Outcome{ErrorClass: waypost.ClassNetwork, Message: "the answer's headers are too long"}},
		{"negative length", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n", waypost.Outcome{ErrorClass: waypost.ClassNetwork}},
		{"length beyond numbers", "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999999999\r\n\r\n", waypost.Outcome{ErrorClass: waypost.ClassNetwork}},
		{"unknown transfer encoding", "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", waypost.Outcome{ErrorClass: waypost.ClassNetwork}},
		{"long header", "HTTP/1.1 200 OK\r\nX: " + strings.Repeat("x", 2*maxHeader) + "\r\n\r\n", waypost.Outcome{ErrorClass: waypost.ClassNetwork, Message: "the answer's headers are too long"}},

		{"201", answer("201 Created", "", yes), status(201, 0)},
		{"202", answer("202 Accepted", "Retry-After: 5\r\n", yes), status(202, 5*time.Second)},
		{"204", "HTTP/1.1 204 No Content\r\n\r\n", status(204, 0)},
		{"304", "HTTP/1.1 304 Not Modified\r\n\r\n", status(304, 0)},
		{"400", answer("400 Bad Request", "", no), status(400, 0)},
		{"404", answer("404 Not Found", "", yes), status(404, 0)},
		{"410", answer("410 Gone", "", ""), status(410, 0)},
		{"429", answer("429 Too Many Requests", "Retry-After: 7\r\n", ""), status(429, 7*time.Second)},
		{"500", answer("500 Internal Server Error", "", strings.Repeat("x", 100_000)), status(500, 0)},
		{"503, broken body", "HTTP/1.1 503 Busy\r\nRetry-After: 3\r\nContent-Length: 100\r\n\r\nbusy", status(503, 3*time.Second)},
		{"503, broken gzip", answer("503 Busy", gz, "busy"), status(503, 0)},
		{"999", answer("999 Odd", "", ""), status(999, 0)},
		{"101", "HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n", status(101, 0)},
		{"302", answer("302 Found", "Location: http://127.0.0.1:1/\r\n", ""), waypost.Outcome{HTTPStatus: 302, ErrorClass: waypost.ClassHTTPStatus, Message: "the receiver answered 302; redirects are not followed"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := newSender(t).Send(context.Background(), hook(answering(t, tt.raw)), "msg_1", []byte(`{"a":1}`))
			checkOutcome(t, got)
			if tt.want.Message != "" && got.Message != tt.want.Message {
				t.Errorf("message %q, want %q", got.Message, tt.want.Message)
			}
			tt.want.Message, tt.want.Excerpt, tt.want.At, tt.want.Duration = got.Message, got.Excerpt, clock, 0
			if got != tt.want {
				t.Errorf("outcome %+v\nwant    %+v", got, tt.want)
			}
		})
	}
}

// checkOutcome checks what holds for every outcome.
func checkOutcome(t *testing.T, o waypost.Outcome) {
	t.Helper()
	if o.Succeed && (o.HTTPStatus != 200 || o.ErrorClass != "" || o.RetryAfter != 0) {
		t.Errorf("a success that is none: %+v", o)
	}
	if !o.Succeed && (o.ErrorClass == "" || o.Message == "" || o.Unrecognized) {
		t.Errorf("a failure without class or message: %+v", o)
	}
	if (o.ErrorClass == waypost.ClassHTTPStatus) != (o.HTTPStatus != 200 && o.HTTPStatus != 0) {
		t.Errorf("class %q with status %d", o.ErrorClass, o.HTTPStatus)
	}
	if o.RetryAfter < 0 || o.RetryAfter > waypost.MaxRetryAfter {
		t.Errorf("RetryAfter %v", o.RetryAfter)
	}
	if len(o.Message) > MaxMessage || !utf8.ValidString(o.Message) || strings.ContainsFunc(o.Message, func(r rune) bool { return r < ' ' || r == 0x7f }) {
		t.Errorf("message %q", o.Message)
	}
	if len(o.Excerpt) > MaxExcerpt || !utf8.ValidString(o.Excerpt) || strings.ContainsRune(o.Excerpt, 0) {
		t.Errorf("excerpt %q", o.Excerpt)
	}
}

func TestExcerpt(t *testing.T) {
	t.Parallel()
	tests := []struct{ name, raw, want string }{
		{"whole", ok("{\"succeed\":true,\r\n\t\"x\":\"\x00\xfe\"}"), "{\"succeed\":true,\r\n\t\"x\":\"�\"}"},
		{"cut at a character", answer("500 No", "", "x"+strings.Repeat("漢", 1000)), "x" + strings.Repeat("漢", 682)},
		{"unpacked", answer("500 No", "Content-Encoding: gzip\r\n", zipped(t, "busy")), "busy"},
		{"what came of a broken one", "HTTP/1.1 503 Busy\r\nContent-Length: 100\r\n\r\nbusy", "busy"},
		{"bytes", answer("500 No", "", strings.Repeat("\xff", 5000)), strings.Repeat("�", 682)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if o := newSender(t).Send(context.Background(), hook(answering(t, tt.raw)), "msg_1", nil); o.Excerpt != tt.want {
				t.Errorf("excerpt %q, want %q", o.Excerpt, tt.want)
			}
		})
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	at := func(d time.Duration) string { return clock.Add(d).Format(http.TimeFormat) }
	tests := []struct {
		value, date string
		want        time.Duration
	}{
		{"", "", 0},
		{"0", "", 0},
		{"7", "", 7 * time.Second},
		{" 007 ", "", 7 * time.Second},
		{"86400", "", 24 * time.Hour},
		{"86401", "", 24 * time.Hour},
		{strings.Repeat("9", 500), "", 24 * time.Hour},
		{"-7", "", 0},
		{"7.5", "", 0},
		{"soon", "", 0},
		{at(time.Minute), "", time.Minute},
		{at(-time.Minute), "", 0},
		{at(48 * time.Hour), "", 24 * time.Hour},
		{at(time.Hour), at(59 * time.Minute), time.Minute}, // the receiver's clock is fast
		{at(-time.Hour), at(-61 * time.Minute), time.Minute},
		{at(time.Minute), "yesterday", time.Minute},
		{"Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT", 24 * time.Hour},
		{"Mon, 01 Jan 0001 00:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", 0},
	}
	for _, tt := range tests {
		h := http.Header{"Retry-After": {tt.value}, "Date": {tt.date}}
		if got := retryAfter(h, func() time.Time { return clock }); got != tt.want {
			t.Errorf("Retry-After %q, Date %q: %v, want %v", tt.value, tt.date, got, tt.want)
		}
	}
}

// TestTimeout has receivers that take their time at every point of the exchange.
func TestTimeout(t *testing.T) {
	t.Parallel()
	hold := func(conn *net.TCPConn) { io.Copy(io.Discard, conn) } // until the sender gives up
	tests := []struct {
		name  string
		serve func(conn *net.TCPConn)
		want  waypost.Outcome
	}{
		{"no answer", hold, waypost.Outcome{ErrorClass: waypost.ClassTimeout}},
		{"half a header", func(conn *net.TCPConn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nX-")
			hold(conn)
		}, waypost.Outcome{ErrorClass: waypost.ClassTimeout}},
		{"body does not end", func(conn *net.TCPConn) {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 40\r\n\r\n{\"succeed\":true}")
			hold(conn)
		}, waypost.Outcome{HTTPStatus: 200, ErrorClass: waypost.ClassTimeout}},
		{"headers without end, drop by drop", func(conn *net.TCPConn) {
			_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\n")
			for tick := time.NewTicker(time.Millisecond); err == nil; <-tick.C {
				_, err = io.WriteString(conn, "X: y\r\n")
			}
		}, waypost.Outcome{ErrorClass: waypost.ClassTimeout}},
		{"body without end, drop by drop", func(conn *net.TCPConn) {
			_, err := io.WriteString(conn, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			for tick := time.NewTicker(time.Millisecond); err == nil; <-tick.C {
				_, err = io.WriteString(conn, "1\r\n{\r\n")
			}
		}, waypost.Outcome{HTTPStatus: 200, ErrorClass: waypost.ClassTimeout}},
		{"another status, body does not end", func(conn *net.TCPConn) {
			io.WriteString(conn, "HTTP/1.1 410 Gone\r\nContent-Length: 40\r\n\r\ngone")
			hold(conn)
		}, waypost.Outcome{HTTPStatus: 410, ErrorClass: waypost.ClassHTTPStatus}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := hook(listen(t, func(_ int, conn *net.TCPConn) {
				if readRequest(bufio.NewReader(conn)) {
					tt.serve(conn)
				}
			}))
			var got waypost.Outcome
			for w.TimeoutMs = 1000; w.TimeoutMs <= 16_000; w.TimeoutMs *= 4 { // a header that came too late: once more
				start, timeout := time.Now(), time.Duration(w.TimeoutMs)*time.Millisecond
				got = newSender(t).Send(context.Background(), w, "msg_1", []byte("{}"))
				if took := time.Since(start); took < timeout*9/10 || took > timeout+20*time.Second {
					t.Errorf("took %v of %v", took, timeout)
				}
				if got.HTTPStatus == tt.want.HTTPStatus {
					break
				}
			}
			checkOutcome(t, got)
			if got.ErrorClass != tt.want.ErrorClass || got.HTTPStatus != tt.want.HTTPStatus {
				t.Errorf("outcome %+v, want %+v", got, tt.want)
			}
		})
	}
}

func TestCancelled(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(context.Background())
	url := listen(t, func(_ int, conn *net.TCPConn) {
		readRequest(bufio.NewReader(conn))
		cancel()
		io.Copy(io.Discard, conn)
	})
	s := newSender(t)
	if o := s.Send(ctx, hook(url), "msg_1", nil); o.ErrorClass != waypost.ClassInterrupted || o.HTTPStatus != 0 {
		t.Errorf("outcome %+v", o)
	}
	late, cancel := context.WithDeadline(context.Background(), time.Now().Add(-time.Second))
	defer cancel()
	if o := s.Send(late, hook(url), "msg_1", nil); o.ErrorClass != waypost.ClassTimeout {
		t.Errorf("outcome %+v", o)
	}
}
