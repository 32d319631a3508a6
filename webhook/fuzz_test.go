package webhook

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"waypost"
)

// FuzzResponse reads raw answers. Whatever they hold, the outcome is a lawful
// one, and for a plain 200 it is what a second, simpler reading of the rules says.
func FuzzResponse(f *testing.F) {
	yes := `{"succeed":true,"message":"received"}`
	for _, raw := range []string{
		ok(""), ok(yes), ok(`{"succeed":false,"message":"no"}`), ok("[1]"), ok("null"), ok("\ufeff{}"),
		answer("503 Busy", "Retry-After: 7\r\n", "busy"), answer("429 Slow", "Retry-After: Sun, 01 Mar 2026 12:01:00 GMT\r\nDate: Sun, 01 Mar 2026 12:00:00 GMT\r\n", ""),
		answer("302 Found", "Location: /\r\n", ""), "HTTP/1.1 204 No Content\r\n\r\n", "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n",
		answer("200 OK", "Content-Encoding: gzip\r\n", zipped(f, yes)), answer("200 OK", "Content-Encoding: gzip\r\n", yes),
		"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n25\r\n" + yes + "\r\n0\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n" + yes,
	} {
		f.Add([]byte(raw))
	}
	read := func(raw []byte) (*http.Response, error) {
		return http.ReadResponse(bufio.NewReader(bytes.NewReader(raw)), &http.Request{Method: http.MethodPost})
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		resp, err := read(raw)
		if err != nil {
			return
		}
		o := readOutcome(context.Background(), resp, func() time.Time { return clock })
		checkOutcome(t, o)
		if o.HTTPStatus != resp.StatusCode && resp.StatusCode >= 100 {
			t.Errorf("status %d of %d", o.HTTPStatus, resp.StatusCode)
		}

		again, err := read(raw)
		if err != nil || again.StatusCode != http.StatusOK || again.Header.Get("Content-Encoding") != "" {
			return
		}
		body, err := io.ReadAll(again.Body)
		if len(body) > MaxResponse {
			return
		}
		var answer struct {
			Succeed *bool `json:"succeed"`
		}
		switch unread := json.Unmarshal(body, &answer); {
		case err != nil:
			if o.ErrorClass != waypost.ClassNetwork {
				t.Errorf("%v, but %+v", err, o)
			}
		case len(body) == 0:
			if !o.Succeed || o.Unrecognized {
				t.Errorf("no body, but %+v", o)
			}
		case o.ErrorClass == waypost.ClassSucceedFalse:
			if !bytes.Contains(body, []byte("false")) {
				t.Errorf("%q, but %+v", body, o)
			}
		case !o.Succeed:
			t.Errorf("%q, but %+v", body, o)
		case unread == nil && answer.Succeed == nil && !o.Unrecognized:
			t.Errorf("%q, but %+v", body, o)
		}
	})
}

// FuzzCheckURL checks that a URL that is let through cannot be an inner address.
func FuzzCheckURL(f *testing.F) {
	for _, raw := range []string{"https://example.com/", "http://127.1/", "http://[::ffff:7f00:1]/", "http://①.1/", "https://a@b/", "http://0x7f.1:80"} {
		f.Add(raw)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		if (Options{}).CheckURL(raw) != nil {
			return
		}
		req, err := http.NewRequest(http.MethodPost, raw, nil)
		if err != nil || req.URL.User != nil || req.URL.Fragment != "" || len(raw) > MaxURL {
			t.Fatalf("%q was let through: %v", raw, err)
		}
		host := strings.TrimSuffix(req.URL.Hostname(), ".")
		last := host[strings.LastIndexByte(host, '.')+1:]
		if !strings.Contains(host, ":") && strings.Trim(last, "0123456789") == "" && strings.Count(host, ".") != 3 {
			t.Errorf("%q was let through", raw)
		}
	})
}
