package gateway_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/gateway"
	"waypost/signature"
)

func TestUnknownPathsAndMethods(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tc := range []struct {
		method, target string
		status         int
		code           string
		allow          string
	}{
		{"GET", "/", 404, "NotFound", ""},
		{"GET", "/v1", 404, "NotFound", ""},
		{"GET", "/v2/leads/1", 404, "NotFound", ""},
		{"GET", "/V1/webhooks", 404, "NotFound", ""},
		{"GET", "/v1/Webhooks", 404, "NotFound", ""},
		{"GET", "/v1/webhooks/", 404, "NotFound", ""},
		{"GET", "/v1/webhooks/a/b", 404, "NotFound", ""},
		{"GET", "/v1/webhooks/a/test/b", 404, "NotFound", ""},
		{"GET", "/healthz", 404, "NotFound", ""},
		{"BREW", "/v1/nothing", 404, "NotFound", ""},
		{"GET", "/nothing//here", 404, "NotFound", ""},
		{"PUT", "/v1/webhooks", 405, "MethodNotAllowed", "GET, HEAD, POST"},
		{"POST", "/v1/leads/1", 405, "MethodNotAllowed", "GET, HEAD, PUT, DELETE, PATCH"},
		{"GET", "/v1/journeys/x/publish", 405, "MethodNotAllowed", "POST"},
		{"OPTIONS", "/v1/journeys/x", 405, "MethodNotAllowed", "GET, HEAD, PUT, DELETE"},
		{"BREW", "/v1/webhooks/x", 405, "MethodNotAllowed", "GET, HEAD, DELETE, PATCH"},
	} {
		a, _ := f.raw(tc.method, tc.target, "", "Host: "+f.addr)
		a.fault(t, tc.status, tc.code, []string{}...)
		if got := a.header.Get("Allow"); got != tc.allow {
			t.Errorf("%s %s: Allow %q, want %q", tc.method, tc.target, got, tc.allow)
		}
	}
}

func TestPathForm(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, target := range []string{
		"//v1/webhooks", "/v1//webhooks", "/v1/webhooks//", "/v1/./webhooks", "/v1/../v1/webhooks", "/v1/webhooks/..", "/v1/webhooks/.",
		"/v1/webhooks/whk_%2e", "/v1/webhooks/%2E%2E", "/v1/webhooks/a%2fb", "/v1/webhooks/a%2Fb", "/v1/webhooks/a%5cb", "/v1/webhooks/a%5C",
		"/v1/webhooks/%00", "/v1%2fwebhooks", "/v1%5Cwebhooks", "/%2e/v1/webhooks", "/v1/webhooks%00", "/v1/webhooks/a\\b", "/v1\\webhooks",
		"/v1/webhooks/x/%2e%2e", "/v1/webhooks#f", "http://" + f.addr + "/v1/webhooks",
	} {
		for _, query := range []string{"", "?limit=1"} {
			if strings.Contains(target, "#") && query != "" {
				continue
			}
			a, _ := f.raw("GET", target+query, "", "Host: "+f.addr, "SIGN")
			a.fault(t, http.StatusBadRequest, "BadRequest")
			if a.json["target"] != "path" {
				t.Errorf("%s: %s", target, a.raw)
			}
		}
	}
	// Bytes that mean nothing special are an id like any other, and signed as sent.
	for _, target := range []string{"/v1/webhooks/%E4%BD%A0", "/v1/webhooks/a.b", "/v1/webhooks/...", "/v1/webhooks/%252e", "/v1/webhooks/a+b:c"} {
		a, _ := f.raw("GET", target, "", "Host: "+f.addr, "SIGN")
		a.fault(t, http.StatusNotFound, "NotFound")
	}
	a, _ := f.raw("GET", "/v1/webhooks?limit=1&cursor=//../%2e%2f", "", "Host: "+f.addr, "SIGN")
	a.fault(t, http.StatusBadRequest, "BadRequest", "InvalidFormat cursor") // a query has no path form
}

// Requests with two faults: the first one of docs/contract.md, "Order of checks" is answered.
func TestOrderOfChecks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	reader := keyOf(f.newApp(waypost.GrantWebhooksRead))
	wrong := signature.Key{AccessKey: f.key.AccessKey, SecretKey: "sk_wrong"}
	f.do(call{method: "GET", target: "/v1/webhooks", nonce: "used-nonce-01234567"}).expect(t, http.StatusOK)
	f.do(call{method: "GET", target: "/v1/webhooks", nonce: "used-nonce-01234567", key: &reader}).expect(t, http.StatusOK)
	huge := strings.Repeat(" ", 1<<20) + "{}"
	otherBody := func(r *http.Request) {
		r.Body, r.ContentLength, r.GetBody = io.NopCloser(bytes.NewReader([]byte("{}x"))), 3, nil
	}
	stage := func(s string) map[string]string { return map[string]string{"X-Cloud-Stage": s} }
	old := f.clock.Now().Add(-time.Hour)
	draft := f.send("POST", "/v1/journeys", `{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`).expect(t, 201).str(t, "id")

	for _, tc := range []struct {
		name   string
		call   call
		status int
		code   string // error code or detail code
	}{
		{"404 before signature", call{method: "GET", target: "/v1/nothing", unsigned: true}, 404, "NotFound"},
		{"405 before path form", call{method: "PUT", target: "/v1/webhooks/%2e"}, 405, "MethodNotAllowed"},
		{"405 before signature", call{method: "PUT", target: "/v1/webhooks", unsigned: true}, 405, "MethodNotAllowed"},
		{"path form before signature", call{method: "GET", target: "/v1/webhooks/%2e", unsigned: true}, 400, "BadRequest"},
		{"signature before stage", call{method: "GET", target: "/v1/webhooks", headers: stage("nope"), key: &wrong}, 401, "SignatureMismatch"},
		{"shape before time", call{method: "GET", target: "/v1/webhooks", at: old, tamper: setHeader(signature.HeaderNonce, "short")}, 401, "MalformedSignature"},
		{"time before key", call{method: "GET", target: "/v1/webhooks", at: old, key: &wrong}, 401, "RequestExpired"},
		{"HMAC before nonce", call{method: "GET", target: "/v1/webhooks", key: &wrong, nonce: "used-nonce-01234567"}, 401, "SignatureMismatch"},
		{"nonce before grant", call{method: "POST", target: "/v1/webhooks", key: &reader, nonce: "used-nonce-01234567", body: "{}"}, 401, "NonceReused"},
		{"grant before body hash", call{method: "POST", target: "/v1/webhooks", key: &reader, body: "{}", tamper: otherBody}, 401, "GrantMissing"},
		{"grant before stage", call{method: "POST", target: "/v1/webhooks", key: &reader, body: "{}", headers: stage("nope")}, 401, "GrantMissing"},
		{"body hash before stage", call{method: "POST", target: "/v1/webhooks", body: "{}", headers: stage("nope"), tamper: otherBody}, 401, "SignatureMismatch"},
		{"stage before 415", call{method: "POST", target: "/v1/webhooks", body: "{}", headers: map[string]string{"X-Cloud-Stage": "nope", "Content-Type": "text/plain"}}, 400, "BadRequest"},
		{"stage before 413", call{method: "POST", target: "/v1/webhooks", body: huge, headers: stage("nope")}, 400, "BadRequest"},
		{"415 before 413", call{method: "POST", target: "/v1/webhooks", body: huge, headers: map[string]string{"Content-Type": "text/plain"}}, 415, "UnsupportedMediaType"},
		{"grant before 413", call{method: "POST", target: "/v1/webhooks", body: huge, key: &reader}, 401, "GrantMissing"},
		{"grant before 413 of a long list", call{method: "POST", target: "/v1/journeys/x/launches", body: strings.Repeat(huge, 17), key: &reader}, 401, "GrantMissing"},
		{"413 of a long list before validation", call{method: "POST", target: "/v1/journeys/x/launches?x=1", body: strings.Repeat(huge, 17)}, 413, "PayloadTooLarge"},
		{"validation before existence of a launched journey", call{method: "POST", target: "/v1/journeys/x/launches", body: `{}`}, 400, "NullValue"},
		{"existence before state of a launched journey", call{method: "POST", target: "/v1/journeys/" + draft + "/launches", body: `{"audience":{"filter":{}}}`, headers: stage("test")}, 404, "NotFound"},
		{"validation before existence of an enrollment", call{method: "POST", target: "/v1/enrollments/x/resume", body: `{"elapsedDelays":"x"}`}, 400, "InvalidFormat"},
		{"validation before existence of an event's lead", call{method: "POST", target: "/v1/events", body: `{"eventId":"e","leadsId":999}`}, 400, "NullValue"},
		{"413 before validation", call{method: "POST", target: "/v1/webhooks?x=1", body: huge}, 413, "PayloadTooLarge"},
		{"415 before validation", call{method: "POST", target: "/v1/webhooks?x=1", body: "{", headers: map[string]string{"Content-Type": "application/xml"}}, 415, "UnsupportedMediaType"},
		{"query before existence", call{method: "GET", target: "/v1/webhooks/whk_1?x=1"}, 400, "UnknownField"},
		{"validation before existence", call{method: "PATCH", target: "/v1/webhooks/whk_1", body: `{"nope":1}`}, 400, "UnknownField"},
		{"validation before existence of a journey", call{method: "POST", target: "/v1/journeys/jrn_1/enrollments", body: `{}`}, 400, "NullValue"},
		{"existence before state", call{method: "POST", target: "/v1/journeys/" + draft + "/enrollments", body: `{"leadsId":999}`}, 404, "NotFound"},
		{"400 before 422", call{method: "POST", target: "/v1/leads", body: `{"businessParam":{"name":"","birthday":"2999-01-01"}}`}, 400, "NullValue"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := f.in(t)
			a := f.do(tc.call).expect(t, tc.status)
			if a.json["code"] != tc.code && detailOf(a) != tc.code {
				t.Errorf("want %s: %s", tc.code, a.raw)
			}
		})
	}
}

func TestBodies(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	exact := `{"businessParam":{"name":"Ada"}}`
	exact += strings.Repeat(" ", 1<<20-len(exact))
	typed := func(s string) map[string]string { return map[string]string{"Content-Type": s} }
	for _, tc := range []struct {
		name    string
		body    string
		headers map[string]string
		status  int
		details []string
	}{
		{"1 MiB", exact, nil, 201, nil},
		{"1 MiB and one byte", exact + " ", nil, 413, nil},
		{"3 MiB", exact + exact + exact, nil, 413, nil},
		{"no charset", `{"businessParam":{"name":"a"}}`, typed("application/json"), 201, nil},
		{"charset in capitals", `{"businessParam":{"name":"a"}}`, typed(`Application/JSON; Charset="utf-8"`), 201, nil},
		{"other charset", `{}`, typed("application/json;charset=GBK"), 415, nil},
		{"other parameter", `{}`, typed("application/json;version=2"), 415, nil},
		{"YAML", `{}`, typed("application/yaml"), 415, nil},
		{"nothing said", `{}`, typed(""), 415, nil},
		{"compressed", `{}`, map[string]string{"Content-Encoding": "gzip"}, 415, nil},
		{"empty", ``, typed("application/json"), 400, []string{"InvalidFormat "}},
		{"broken", `{"businessParam":`, nil, 400, []string{"InvalidFormat "}},
		{"two documents", `{"businessParam":{"name":"a"}}{}`, nil, 400, []string{"InvalidFormat "}},
		{"not UTF-8", "{\"businessParam\":{\"name\":\"\xff\"}}", nil, 400, []string{"InvalidFormat "}},
		{"array", `[]`, nil, 400, []string{"InvalidType "}},
		{"null", `null`, nil, 400, []string{"InvalidType "}},
		{"unknown member", `{"businessParam":{"name":"a"},"x":1}`, nil, 400, []string{"UnknownField x"}},
		{"wrong case", `{"BusinessParam":{"name":"a"}}`, nil, 400, nil},
		{"doubled member", `{"businessParam":{"name":"a","name":"b"}}`, nil, 400, []string{"Duplicate name"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := f.in(t)
			a := f.do(call{method: "POST", target: "/v1/leads", body: tc.body, headers: tc.headers}).expect(t, tc.status)
			if tc.status >= 400 {
				a.fault(t, tc.status, a.str(t, "code"), tc.details...)
			}
		})
	}
}

// What is left of a refused body is never taken for the next request.
func TestFraming(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	host := "Host: " + f.addr
	inner := "GET /v1/webhooks HTTP/1.1\r\nHost: h\r\n\r\n"
	chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(inner), inner)
	length := func(n int) string { return fmt.Sprintf("Content-Length: %d", n) }
	for _, tc := range []struct {
		name     string
		method   string
		body     string
		lines    []string
		status   int
		reusable bool
	}{
		{"unsigned POST", "POST", inner, []string{host, length(len(inner))}, 401, true},
		{"unsigned chunked POST", "POST", chunked, []string{host, "Transfer-Encoding: chunked"}, 401, true},
		{"large unsigned POST", "POST", strings.Repeat(inner, 50_000), []string{host, length(50_000 * len(inner))}, 401, true},
		{"POST that is not read to its end", "POST", strings.Repeat("x", 9<<20), []string{host, length(10 << 20)}, 401, false},
		{"GET with a body", "GET", inner, []string{host, length(len(inner))}, 400, false},
		{"GET with chunks", "GET", chunked, []string{host, "Transfer-Encoding: chunked"}, 400, false},
		{"two lengths", "POST", inner, []string{host, length(len(inner)), length(0)}, 400, false},
		{"length and chunks", "POST", chunked, []string{host, length(4), "Transfer-Encoding: chunked"}, 400, false},
		{"odd coding", "POST", chunked, []string{host, "Transfer-Encoding: gzip, chunked"}, 400, false},
		{"folded header", "POST", "", []string{host, "X-A: b", " c d", length(0)}, 400, false},
		{"unknown path with a body", "BREW", inner, []string{host, length(len(inner))}, 405, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := f.in(t)
			a, reusable := f.raw(tc.method, "/v1/webhooks", tc.body, tc.lines...)
			a.expect(t, tc.status)
			if reusable != tc.reusable {
				t.Errorf("connection reusable: %t, want %t", reusable, tc.reusable)
			}
		})
	}
	// A chunked body works like any other.
	body := `{"businessParam":{"name":"Ada"}}`
	req, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+f.addr+"/v1/leads", io.MultiReader(strings.NewReader(body[:5]), strings.NewReader(body[5:])))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	signature.SignHTTP(req, f.key, []byte(body), f.clock.Now(), signature.NewNonce())
	res, err := f.client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusCreated {
		t.Errorf("chunked: status %d", res.StatusCode)
	}
}

func TestNotHTTP(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a, _ := f.raw("GET", "/v1/webhooks", "", "Host: h", "X-Long: "+strings.Repeat("x", 20_000))
	a.fault(t, http.StatusBadRequest, "BadRequest")
	if a.header.Get("X-Request-Id") == "" {
		t.Error("no request id")
	}
}

func TestRequestID(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for sent, kept := range map[string]bool{
		"abc-123": true, strings.Repeat("x", 128): true, strings.Repeat("x", 129): false, "two words": false, "ü": false, "": false,
	} {
		a := f.do(call{method: "GET", target: "/v1/webhooks", headers: map[string]string{"X-Request-Id": sent}}).expect(t, http.StatusOK)
		got := a.header.Get("X-Request-Id")
		if kept && got != sent || !kept && !waypost.IsID("req_", got) {
			t.Errorf("sent %q, got %q", sent, got)
		}
		if !strings.Contains(f.log.String(), `"request":"`+got+`"`) {
			t.Errorf("the log does not name request %q", got)
		}
	}
	if a := f.get("/v1/nothing"); !waypost.IsID("req_", a.header.Get("X-Request-Id")) {
		t.Error("a 404 has no request id")
	}
}

// One line a request: pattern instead of path, no query, no names, no secrets.
func TestLogLine(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.send("POST", "/v1/leads", `{"businessParam":{"name":"Grace Hopper","email":"grace@example.com"}}`).expect(t, 201)
	f.get("/v1/leads/123456789?email=grace@example.com").expect(t, 400)
	log := f.log.String()
	for _, forbidden := range []string{"Grace", "grace", "123456789", f.key.SecretKey, f.key.AccessKey, "email"} {
		if strings.Contains(log, forbidden) {
			t.Errorf("the log holds %q: %s", forbidden, log)
		}
	}
	for _, wanted := range []string{`"method":"POST"`, `"route":"/v1/leads"`, `"route":"/v1/leads/:id"`, `"status":201`, `"status":400`, `"ms":`, `"app":"` + f.app.ID, `"code":"BadRequest"`} {
		if !strings.Contains(log, wanted) {
			t.Errorf("the log lacks %s: %s", wanted, log)
		}
	}
	if n := strings.Count(log, "\n"); n != 2 {
		t.Errorf("%d lines for 2 requests: %s", n, log)
	}
}

type panicking struct{ gateway.Enrollments }

func (panicking) Wake() { panic("a bug with a secret-cause") }

func (p panicking) Enroll(context.Context, waypost.Caller, waypost.Enrollment, waypost.Reentry) (waypost.Enrollment, error) {
	p.Wake()
	panic("unreachable")
}

func TestPanic(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) { o.Waker, o.Enrollments = panicking{}, panicking{} })
	id := f.publishedJourney(`{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`)
	lead := f.newLead("Ada")
	a := f.send("POST", "/v1/journeys/"+id+"/enrollments", fmt.Sprintf(`{"leadsId":%d}`, lead)).fault(t, 500, "InternalError", []string{}...)
	if strings.Contains(a.raw, "secret-cause") || !strings.Contains(f.log.String(), "secret-cause") {
		t.Errorf("answer %s", a.raw)
	}
	f.get("/v1/webhooks").expect(t, http.StatusOK)
}

func TestHead(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.do(call{method: "HEAD", target: "/v1/webhooks"}).expect(t, http.StatusOK)
	if a.raw != "" || a.header.Get("Content-Type") == "" {
		t.Errorf("%q %v", a.raw, a.header)
	}
}
