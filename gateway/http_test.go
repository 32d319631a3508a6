package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/signature"
)

// signedHead is the head of a signed request, with more header lines, and without a blank
// line at its end.
func (f *fixture) signedHead(method, path, body, addr string, lines ...string) string {
	f.t.Helper()
	r := signature.Request{Method: method, Path: path, Headers: []signature.Header{{Name: "Host", Value: addr}}}
	head := fmt.Sprintf("%s %s HTTP/1.1\r\nHost: %s\r\n", method, path, addr)
	for _, line := range lines {
		name, value, _ := strings.Cut(line, ": ")
		r.Headers = append(r.Headers, signature.Header{Name: name, Value: value})
		head += line + "\r\n"
	}
	for _, h := range signature.Sign(r, f.key, []byte(body), f.clock.Now(), signature.NewNonce()) {
		head += h.Name + ": " + h.Value + "\r\n"
	}
	return head
}

// A client that waits for 100 before it sends its body is refused at once by whatever its
// headers tell, in the order of other requests, and asked for the body else.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	slow := f.limitedApp(1, 1)
	body := `{"businessParam":{"name":"Ada"}}`
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d", n) }
	json := "Content-Type: application/json"
	unsigned := func(method, path string, lines ...string) string {
		return fmt.Sprintf("%s %s HTTP/1.1\r\nHost: h\r\n%s\r\n", method, path, strings.Join(lines, "\r\n"))
	}
	signed := func(path string, lines ...string) string { return f.signedHead("POST", path, body, f.addr, lines...) }
	for _, tc := range []struct {
		name, head string
		status     int
	}{
		{"unknown path", unsigned("POST", "/v1/nothing", length(len(body))), 404},
		{"wrong method", unsigned("BREW", "/v1/leads", length(len(body))), 405},
		{"path form", unsigned("POST", "/v1/%2e/leads", length(len(body))), 400},
		{"not signed", unsigned("POST", "/v1/leads", length(len(body)), json), 401},
		{"not signed, chunked", unsigned("POST", "/v1/leads", "Transfer-Encoding: chunked", json), 401},
		{"not signed import", unsigned("POST", "/v1/leads/imports", length(60<<20), "Content-Type: text/csv"), 401},
		{"no host", "POST /v1/leads HTTP/1.1\r\n" + length(len(body)) + "\r\n", 400},
		{"GET with a body", unsigned("GET", "/v1/leads", length(len(body))), 400},
		{"stage", signed("/v1/leads", json, length(len(body)), "X-Cloud-Stage: nope"), 400},
		{"media", signed("/v1/leads", "Content-Type: text/plain", length(len(body))), 415},
		{"media, chunked", signed("/v1/leads", "Content-Type: text/plain", "Transfer-Encoding: chunked"), 415},
		{"media, then length", signed("/v1/leads", "Content-Type: text/plain", length(1<<20+1)), 415},
		{"coding", signed("/v1/leads", json, length(len(body)), "Content-Encoding: gzip"), 415},
		{"length", signed("/v1/leads", json, length(1<<20+1)), 413},
		{"length of an import", signed("/v1/leads/imports", "Content-Type: text/csv", length(waypost.MaxImportBody+1)), 413},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conn := dialed(t, f.addr)
			check(t, conn.SetDeadline(time.Now().Add(30*time.Second))) // half of what the gateway gives a body
			_, err := io.WriteString(conn, tc.head+"Expect: 100-Continue\r\n\r\n")
			check(t, err)
			in := bufio.NewReader(conn)
			res, err := http.ReadResponse(in, nil)
			check(t, err)
			_, err = io.Copy(io.Discard, res.Body)
			check(t, err)
			if res.StatusCode != tc.status || !res.Close {
				t.Errorf("status %d, closes %t; want %d, and that the connection is closed", res.StatusCode, res.Close, tc.status)
			}
			if _, err := in.ReadByte(); err == nil {
				t.Error("something follows")
			}
		})
	}

	// A connection that goes on: the body is asked for once, and is the request's.
	conn := dialed(t, f.addr)
	in := bufio.NewReader(conn)
	send := func(head, body string, status int) {
		t.Helper()
		_, err := io.WriteString(conn, head+"Expect: 100-continue\r\n\r\n")
		check(t, err)
		line, err := in.ReadString('\n')
		check(t, err)
		if blank, _ := in.ReadString('\n'); line != "HTTP/1.1 100 Continue\r\n" || blank != "\r\n" {
			t.Fatalf("got %q %q, want 100 Continue", line, blank)
		}
		_, err = io.WriteString(conn, body)
		check(t, err)
		res, err := http.ReadResponse(in, nil)
		check(t, err)
		text, err := io.ReadAll(res.Body)
		check(t, err)
		if res.StatusCode != status || res.Close {
			t.Errorf("status %d %s, closes %t; want %d", res.StatusCode, text, res.Close, status)
		}
	}
	send(signed("/v1/leads", json, length(len(body))), body, 201)
	send(signed("/v1/leads", json, "Transfer-Encoding: chunked"), fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body), 201)
	send(signed("/v1/leads", json, length(len(body))), strings.Replace(body, "Ada", "Eve", 1), 401)
	large := `{"businessParam":{"name":"Ada"}}` + strings.Repeat(" ", 100_000)
	send(f.signedHead("POST", "/v1/leads", large, f.addr, json, length(len(large))), large, 201)
	send(f.signedHead("POST", "/v1/leads/imports", "name\nAda\n", f.addr, "Content-Type: text/csv", length(9)), "name\nAda\n", 202)
	// Nothing is asked for where nothing comes, nor of HTTP/1.0.
	for _, head := range []string{
		f.signedHead("GET", "/v1/leads", "", f.addr, "Expect: 100-continue"),
		strings.Replace(signed("/v1/leads", json, length(len(body)), "Expect: 100-continue", "Connection: keep-alive"), "HTTP/1.1", "HTTP/1.0", 1),
		signed("/v1/leads", json, length(len(body)), "Expect: something-else"),
	} {
		if strings.HasPrefix(head, "POST") {
			head += "\r\n" + body
		} else {
			head += "\r\n"
		}
		_, err := io.WriteString(conn, head)
		check(t, err)
		res, err := http.ReadResponse(in, nil)
		check(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		check(t, err)
		if res.StatusCode/100 != 2 {
			t.Errorf("%q: status %d", head, res.StatusCode)
		}
	}
	// Requests that were sent together are answered in their order.
	first := f.signedHead("GET", "/v1/webhooks", "", f.addr) + "\r\n"
	_, err := io.WriteString(conn, first+signed("/v1/leads", json, length(len(body)), "Expect: 100-continue")+"\r\n"+body)
	check(t, err)
	for _, status := range []int{200, 201} {
		res, err := http.ReadResponse(in, nil)
		check(t, err)
		_, err = io.Copy(io.Discard, res.Body)
		check(t, err)
		if res.StatusCode != status {
			t.Errorf("status %d, want %d", res.StatusCode, status)
		}
	}
	// Over its limit, an application is not asked for bodies either.
	f.key = keyOf(slow)
	for try := 0; ; try++ {
		conn := dialed(t, f.addr)
		_, err := io.WriteString(conn, f.signedHead("POST", "/v1/leads", body, f.addr, json, length(len(body)))+"Expect: 100-continue\r\n\r\n")
		check(t, err)
		res, err := http.ReadResponse(bufio.NewReader(conn), nil)
		check(t, err)
		if res.StatusCode == http.StatusTooManyRequests {
			break
		}
		if try == 50 {
			t.Fatal("never over the limit")
		}
	}
}

// What two servers could understand differently is refused, and the connection closed.
func TestHostsAndFraming(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tc := range []struct {
		name, sent string
		status     int
		target     string
	}{
		{"a host", "GET /v1/nothing HTTP/1.1\r\nHost: h\r\n\r\n", 404, "path"},
		{"a host and a port", "GET /v1/nothing HTTP/1.1\r\nHost: a-b_c.example:8443\r\n\r\n", 404, "path"},
		{"an IPv6 address", "GET /v1/nothing HTTP/1.1\r\nHost: [::1]:80\r\n\r\n", 404, "path"},
		{"1.0", "GET /v1/nothing HTTP/1.0\r\nHost: h\r\n\r\n", 404, "path"},
		{"no host", "GET /v1/nothing HTTP/1.1\r\n\r\n", 400, "Host"},
		{"no host, 1.0", "GET /v1/nothing HTTP/1.0\r\n\r\n", 400, "Host"},
		{"no host, documentation", "GET /openapi.yaml HTTP/1.1\r\n\r\n", 400, "Host"},
		{"no host, search", "GET /api/v1/articles/search HTTP/1.1\r\n\r\n", 400, "Host"},
		{"two hosts", "GET /v1/nothing HTTP/1.1\r\nHost: h\r\nHost: h\r\n\r\n", 400, "Host"},
		{"two hosts, documentation", "GET /openapi.yaml HTTP/1.1\r\nHost: h\r\nHost: i\r\n\r\n", 400, "Host"},
		{"two hosts, signed route", "GET /v1/leads HTTP/1.1\r\nHost: h\r\nhOST: i\r\n\r\n", 400, "Host"},
		{"empty host", "GET /v1/nothing HTTP/1.1\r\nHost:\r\n\r\n", 400, "Host"},
		{"blank host", "GET /v1/nothing HTTP/1.1\r\nHost:  \t \r\n\r\n", 400, "Host"},
		{"hosts in one", "GET /v1/nothing HTTP/1.1\r\nHost: h, i\r\n\r\n", 400, "Host"},
		{"user in the host", "GET /v1/nothing HTTP/1.1\r\nHost: a@h\r\n\r\n", 400, "Host"},
		{"path in the host", "GET /v1/nothing HTTP/1.1\r\nHost: h/x\r\n\r\n", 400, "Host"},
		{"port of letters", "GET /v1/nothing HTTP/1.1\r\nHost: h:x\r\n\r\n", 400, "Host"},
		{"two ports", "GET /v1/nothing HTTP/1.1\r\nHost: h:1:2\r\n\r\n", 400, "Host"},
		{"not ASCII", "GET /v1/nothing HTTP/1.1\r\nHost: hé\r\n\r\n", 400, "Host"},
		{"bare IPv6", "GET /v1/nothing HTTP/1.1\r\nHost: ::1\r\n\r\n", 400, "Host"},
		{"chunks, 1.0", "POST /v1/leads HTTP/1.0\r\nHost: h\r\nConnection: keep-alive\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "Transfer-Encoding"},
		{"length and chunks, 1.0", "POST /v1/leads HTTP/1.0\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "Transfer-Encoding"},
		{"length and chunks", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "Content-Length"},
		{"chunks and length", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400, "Content-Length"},
		{"two equal lengths", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\n{}", 400, "Content-Length"},
		{"lengths in one", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nContent-Length: 2, 2\r\n\r\n{}", 400, "Content-Length"},
		{"signed length", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nContent-Length: +2\r\n\r\n{}", 400, "Content-Length"},
		{"length in hex", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nContent-Length: 0x2\r\n\r\n{}", 400, "Content-Length"},
		{"other coding", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: xchunked\r\n\r\n0\r\n\r\n", 400, "Transfer-Encoding"},
		{"no coding", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: identity\r\n\r\n", 400, "Transfer-Encoding"},
		{"coding twice", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400, "Content-Length"},
		{"coding after a vertical tab", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n", 400, ""},
		{"blank before the colon", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nTransfer-Encoding : chunked\r\n\r\n0\r\n\r\n", 400, ""},
		{"control character in a name", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nX\x01: y\r\n\r\n", 400, ""},
		{"carriage return in a value", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nX: a\rContent-Length: 5\r\n\r\n", 400, ""},
		{"folded", "GET /v1/leads HTTP/1.1\r\nHost: h\r\nX: a\r\n b\r\n\r\n", 400, ""},
		{"folded by a tab", "GET /v1/leads HTTP/1.1\r\nHost: h\r\nX: a\r\n\tTransfer-Encoding: chunked\r\n\r\n", 400, ""},
		{"no colon", "GET /v1/leads HTTP/1.1\r\nHost: h\r\nX\r\n\r\n", 400, ""},
		{"line feeds alone", "GET /v1/nothing HTTP/1.1\nHost: h\n\n", 400, ""},
		{"one line feed alone", "POST /v1/leads HTTP/1.1\r\nHost: h\r\nX: a\nContent-Length: 5\r\n\r\n", 400, ""},
		{"a line feed alone at the end", "GET /v1/nothing HTTP/1.1\r\nHost: h\r\n\n", 400, ""},
		{"HTTP/2", "GET /v1/nothing HTTP/2.0\r\nHost: h\r\n\r\n", 400, ""},
		{"no HTTP", "GET /v1/nothing FTP/1.1\r\nHost: h\r\n\r\n", 400, ""},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conn := dialed(t, f.addr)
			// What comes behind must not be taken for a request of its own.
			_, err := io.WriteString(conn, tc.sent+"GET /docs HTTP/1.1\r\nHost: h\r\n\r\n")
			check(t, err)
			in := bufio.NewReader(conn)
			res, err := http.ReadResponse(in, nil)
			check(t, err)
			text, err := io.ReadAll(res.Body)
			check(t, err)
			if want := fmt.Sprintf(`"target":%q`, tc.target); res.StatusCode != tc.status || !strings.Contains(string(text), want) {
				t.Errorf("status %d %s, want %d %s", res.StatusCode, text, tc.status, want)
			}
			if res.StatusCode != 400 || tc.name == "no host, 1.0" {
				return
			}
			if _, err := in.ReadByte(); !res.Close || err == nil {
				t.Errorf("the connection goes on: closes %t", res.Close)
			}
		})
	}
}

// What is no request at all is told why.
func TestRefusedConnections(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	hasty := f.hasty(200 * time.Millisecond)
	for _, tc := range []struct{ name, addr, sent, says string }{
		{"too long", f.addr, "GET /v1/leads HTTP/1.1\r\nHost: h\r\nX: " + strings.Repeat("x", 20_000) + "\r\n\r\n", "longer than 16384 bytes"},
		{"too long a path", f.addr, "GET /" + strings.Repeat("x", 20_000) + " HTTP/1.1\r\nHost: h\r\n\r\n", "longer than 16384 bytes"},
		{"too slow", hasty, "GET /v1/leads HTTP/1.1\r\nHost:", "did not arrive within 200ms"},
		{"no HTTP", f.addr, "nonsense\r\n\r\n", "is not valid HTTP/1.1: its first line is malformed"},
		{"a number for a length", f.addr, "POST /v1/leads HTTP/1.1\r\nHost: h\r\nContent-Length: x\r\n\r\n", "Content-Length must be a number of bytes"},
		{"slow body", hasty, f.signedHead("POST", "/v1/leads", "{}", hasty, "Content-Type: application/json", "Content-Length: 2") + "\r\n{", "the body did not arrive in time: it came too slowly, or is shorter than Content-Length says"},
		{"slow chunk", hasty, f.signedHead("POST", "/v1/leads", "{}", hasty, "Content-Type: application/json", "Transfer-Encoding: chunked") + "\r\n2\r\n{", "the body did not arrive in time"},
		{"broken chunk", f.addr, f.signedHead("POST", "/v1/leads", "{}", f.addr, "Content-Type: application/json", "Transfer-Encoding: chunked") + "\r\n2\r\n{}x", "the chunks of the body are malformed"},
		{"chunk of a line feed alone", f.addr, f.signedHead("POST", "/v1/leads", "{}", f.addr, "Content-Type: application/json", "Transfer-Encoding: chunked") + "\r\n2\n{}\r\n0\r\n\r\n", "ends with LF alone"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			conn := dialed(t, tc.addr)
			_, err := io.WriteString(conn, tc.sent)
			check(t, err)
			res, err := http.ReadResponse(bufio.NewReader(conn), nil)
			check(t, err)
			text, err := io.ReadAll(res.Body)
			check(t, err)
			if res.StatusCode != 400 || !strings.Contains(string(text), tc.says) || !res.Close {
				t.Errorf("status %d, closes %t: %s; want %q", res.StatusCode, res.Close, text, tc.says)
			}
		})
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Half a surrogate pair is refused wherever JSON is read, and so is a byte order mark
// before a document; both are named.
func TestTextsThatAreNone(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	journey := f.publishedJourney(`{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
	lead := fmt.Sprintf("/v1/leads/%d", f.newLead("Ada"))
	hook := "/v1/webhooks/" + f.newWebhook("https://example.com")
	long := strings.Repeat("x", 1<<20)
	for _, tc := range []struct{ method, target, body, detail string }{
		{"POST", "/v1/leads", `{"businessParam":{"name":"a\ud83d"}}`, "InvalidFormat name"},
		{"POST", "/v1/leads", `{"businessParam":{"name":"a","customFields":{"x":"\udc00"}}}`, "InvalidFormat customFields.x"},
		{"POST", "/v1/leads", `{"businessParam":{"name":"a","customFields":{"\ud800":"x"}}}`, "InvalidFormat customFields.\ufffd"},
		{"PATCH", lead, `{"businessParam":{"remark":"\ud800\ud800"}}`, "InvalidFormat remark"},
		{"PUT", lead, `{"businessParam":{"name":"\ude00"}}`, "InvalidFormat name"},
		{"PATCH", hook, `{"name":"\ud800"}`, "InvalidFormat name"},
		{"PATCH", hook, `{"params":{"a":{"b":["\ud800"]}}}`, "InvalidFormat params.a.b[0]"},
		{"PUT", "/v1/journeys/" + journey, `{"name":"\ud800","start":"a","nodes":[]}`, "InvalidFormat name"},
		{"POST", "/v1/events", `{"leadsId":1,"name":"e","data":{"x":"\ud800"}}`, "InvalidFormat data.x"},
		{"POST", "/v1/journeys/" + journey + "/launches", `{"audience":{"leadsIds":[1]},"params":{"x":"\ud800"}}`, "InvalidFormat params.x"},
		{"PUT", "/v1/articles/a", `{"tenant_id":"site","name":"n","identifier":"i","content":"\ud800"}`, "InvalidFormat content"},
		{"PUT", "/v1/articles/a", `{"tenant_id":"site","name":"n","identifier":"i","content":"` + long + `\ud800"}`, "InvalidFormat content"},
		{"POST", "/v1/tokens", `{"tenantIds":["\ud800"],"from":["frontend"]}`, "InvalidFormat tenantIds[0]"},
		{"POST", "/v1/leads", "\ufeff" + `{"businessParam":{"name":"a"}}`, "InvalidFormat "},
		{"PUT", "/v1/articles/a", "\ufeff" + `{"content":"` + long + `"}`, "InvalidFormat "},
		{"POST", "/v1/leads", "\xff\xfe{\x00}\x00", "InvalidFormat "},
	} {
		a := f.send(tc.method, tc.target, tc.body).fault(t, 400, "BadRequest")
		details := a.json["detail"].([]any)
		if d := details[0].(map[string]any); fmt.Sprint(d["code"], " ", d["target"]) != tc.detail {
			t.Errorf("%s %s: %.300s", tc.method, tc.target, a.raw)
		}
		says := "half a surrogate pair"
		switch tc.body[0] {
		case 0xef:
			says = "byte order mark"
		case 0xff:
			says = "UTF-16"
		}
		if message := fmt.Sprint(details[0]); !strings.Contains(message, says) {
			t.Errorf("%s %s: %s, want %q", tc.method, tc.target, message, says)
		}
	}
	for media, body := range map[string]string{
		"application/json":     `{"leads":[{"name":"a"},{"name":"\ud800"}]}`,
		"application/x-ndjson": `{"name":"a"}` + "\n" + `{"name":"\ud800"}`,
	} {
		im := f.imported("create", media, body)
		rows := f.get("/v1/leads/imports/"+im.ID+"/errors").expect(t, 200)
		if !strings.Contains(rows.raw, `"line":2`) || !strings.Contains(rows.raw, `"target":"name"`) || !strings.Contains(rows.raw, "half a surrogate pair") || strings.Count(rows.raw, "\n") != 1 {
			t.Errorf("%s: %s", media, rows.raw)
		}
	}
}
