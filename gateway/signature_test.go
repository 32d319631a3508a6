package gateway_test

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/gateway"
	"waypost/signature"
)

func setHeader(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

func inSignature(old, new string) func(*http.Request) {
	return func(r *http.Request) {
		r.Header.Set(signature.HeaderSignature, strings.Replace(r.Header.Get(signature.HeaderSignature), old, new, 1))
	}
}

// Every detail code of docs/contract.md, "Signature checks", through real HTTP.
func TestSignatureFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	reader := keyOf(f.newApp(waypost.GrantWebhooksRead))
	disabled := f.newApp("*")
	if err := f.store.DisableApplication(t.Context(), "", disabled.Application.ID); err != nil {
		t.Fatal(err)
	}
	disabledKey := keyOf(disabled)
	now := f.clock.Now()
	for _, tc := range []struct {
		name string
		call call
		code waypost.DetailCode
	}{
		{"not signed", call{unsigned: true}, waypost.DetailMissingSignature},
		{"malformed", call{tamper: setHeader(signature.HeaderSignature, "CLOUD1")}, waypost.DetailMalformedSignature},
		{"upper-case hash", call{tamper: setHeader(signature.HeaderBodyHash, strings.Repeat("A", 64))}, waypost.DetailMalformedSignature},
		{"unsigned stage", call{tamper: setHeader("X-Cloud-Stage", "test")}, waypost.DetailMalformedSignature},
		{"unsigned idempotency key", call{tamper: setHeader("Idempotency-Key", "k")}, waypost.DetailMalformedSignature},
		{"doubled nonce", call{tamper: func(r *http.Request) { r.Header.Add(signature.HeaderNonce, "another-nonce-012345") }}, waypost.DetailMalformedSignature},
		{"host not signed", call{tamper: inSignature("host;", "")}, waypost.DetailMalformedSignature},
		{"too old", call{at: now.Add(-301 * time.Second)}, waypost.DetailRequestExpired},
		{"too new", call{at: now.Add(301 * time.Second)}, waypost.DetailRequestExpired},
		{"unknown key", call{key: &signature.Key{AccessKey: "AKNOBODY", SecretKey: f.key.SecretKey}}, waypost.DetailSignatureMismatch},
		{"wrong secret", call{key: &signature.Key{AccessKey: f.key.AccessKey, SecretKey: "sk_wrong"}}, waypost.DetailSignatureMismatch},
		{"disabled application", call{key: &disabledKey}, waypost.DetailSignatureMismatch},
		{"another path", call{tamper: func(r *http.Request) { r.URL.Opaque = "/v1/journeys" }}, waypost.DetailSignatureMismatch},
		{"another query", call{tamper: func(r *http.Request) { r.URL.RawQuery = "limit=2" }}, waypost.DetailSignatureMismatch},
		{"another method", call{tamper: func(r *http.Request) { r.Method = "HEAD" }}, ""},
		{"another host", call{tamper: func(r *http.Request) { r.Host = "evil.example" }}, waypost.DetailSignatureMismatch},
		{"another nonce", call{tamper: setHeader(signature.HeaderNonce, "another-nonce-012345")}, waypost.DetailSignatureMismatch},
		{"other body", call{method: "POST", body: `{"name":"a"}`, tamper: func(r *http.Request) {
			other, _ := http.NewRequest("POST", "http://h", strings.NewReader(`{"name":"b"}`))
			r.Body, r.ContentLength, r.GetBody = other.Body, other.ContentLength, other.GetBody
		}}, waypost.DetailSignatureMismatch},
		{"no grant", call{method: "POST", body: "{}", key: &reader}, waypost.DetailGrantMissing},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := f.in(t)
			c := tc.call
			c.target = "/v1/webhooks"
			if c.method == "" {
				c.method = "GET"
			}
			got := f.do(c)
			if tc.code == "" { // HEAD: no body to look at
				got.expect(t, http.StatusUnauthorized)
				return
			}
			got.fault(t, http.StatusUnauthorized, "Unauthorized")
			if detailOf(got) != string(tc.code) {
				t.Errorf("detail %s, want %s", detailOf(got), tc.code)
			}
			if got.header.Get("WWW-Authenticate") == "" {
				t.Error("no WWW-Authenticate")
			}
		})
	}
}

// Headers that Fiber would fold into one are seen twice, and refused.
func TestDoubledSignedHeaders(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	for _, tc := range []struct {
		name  string
		lines []string
	}{
		{"content type", []string{"Host: " + f.addr, "Content-Type: application/json", "SIGN", "content-type: text/plain"}},
		{"stage", []string{"Host: " + f.addr, "X-Cloud-Stage: test", "SIGN", "X-CLOUD-STAGE: release"}},
		{"signature", []string{"Host: " + f.addr, "SIGN", "X-Cloud-Signature: x"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			f := f.in(t)
			a, _ := f.raw("GET", "/v1/webhooks", "", tc.lines...)
			a.fault(t, http.StatusUnauthorized, "Unauthorized")
			if detailOf(a) != string(waypost.DetailMalformedSignature) {
				t.Errorf("detail %s", detailOf(a))
			}
		})
	}
	a, reusable := f.raw("GET", "/v1/webhooks?&limit=3", "", "hOST: "+f.addr, "X-Cloud-Stage:test", "SIGN")
	a.expect(t, http.StatusOK)
	if !reusable {
		t.Error("a good request closed the connection")
	}
}

// Nobody can tell an unknown key from a known one by the answer.
func TestUnknownKeyLooksLikeWrongSignature(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	revoked := f.newApp("*")
	for range waypost.MaxActiveKeys { // each rotation adds a key; the oldest goes
		if _, err := f.store.RotateKey(t.Context(), "", revoked.Application.ID); err != nil {
			t.Fatal(err)
		}
	}
	var first answer
	for i, key := range []signature.Key{
		{AccessKey: f.key.AccessKey, SecretKey: "sk_wrong"},
		{AccessKey: "AKDOESNOTEXIST", SecretKey: f.key.SecretKey},
		keyOf(revoked),
	} {
		a := f.do(call{method: "GET", target: "/v1/webhooks", key: &key, headers: map[string]string{"X-Request-Id": "same"}})
		a.fault(t, http.StatusUnauthorized, "Unauthorized")
		a.header.Del("Date")
		a.header.Del("RateLimit") // the address has one request less
		if i == 0 {
			first = a
		}
		if a.raw != first.raw || fmt.Sprint(a.header) != fmt.Sprint(first.header) {
			t.Errorf("key %d:\n%s %v\nwant\n%s %v", i, a.raw, a.header, first.raw, first.header)
		}
	}
}

// countingApplications counts look-ups of the real store.
type countingApplications struct {
	gateway.Applications
	n atomic.Int64
}

func (c *countingApplications) Credential(ctx context.Context, key string) (waypost.Credential, error) {
	c.n.Add(1)
	return c.Applications.Credential(ctx, key)
}

func TestRevocationHoldsWithinASecond(t *testing.T) {
	t.Parallel()
	var lookups *countingApplications
	f := newFixture(t, func(o *gateway.Options) {
		lookups = &countingApplications{Applications: o.Applications}
		o.Applications = lookups
	})
	for range 20 {
		f.get("/v1/webhooks").expect(t, http.StatusOK)
	}
	if n := lookups.n.Load(); n != 1 {
		t.Errorf("%d look-ups for 20 requests in one moment, want 1", n)
	}
	if err := f.store.DisableApplication(t.Context(), "", f.app.ID); err != nil {
		t.Fatal(err)
	}
	f.clock.advance(time.Second)
	f.get("/v1/webhooks").fault(t, http.StatusUnauthorized, "Unauthorized")
}

func TestReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	c := call{method: "GET", target: "/v1/webhooks", nonce: "the-same-nonce-0123"}
	f.do(c).expect(t, http.StatusOK)
	if got := f.do(c).fault(t, http.StatusUnauthorized, "Unauthorized"); detailOf(got) != "NonceReused" {
		t.Errorf("detail %s", detailOf(got))
	}
	// Another application may use the same nonce.
	key := keyOf(f.newApp("*"))
	f.do(call{method: "GET", target: "/v1/webhooks", nonce: "the-same-nonce-0123", key: &key}).expect(t, http.StatusOK)
	// A nonce that was sent with a wrong signature is not burnt.
	wrong := signature.Key{AccessKey: f.key.AccessKey, SecretKey: "sk_wrong"}
	f.do(call{method: "GET", target: "/v1/webhooks", nonce: "stolen-nonce-012345", key: &wrong}).expect(t, http.StatusUnauthorized)
	f.do(call{method: "GET", target: "/v1/webhooks", nonce: "stolen-nonce-012345"}).expect(t, http.StatusOK)
}

// 64 clients, several processes, one signed request that creates a lead: one
// lead.
func TestConcurrentReplay(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	gateways := []string{f.addr, f.serve()}
	body := `{"businessParam":{"name":"Ada"}}`
	req, err := http.NewRequest("POST", "http://"+f.addr+"/v1/leads", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	signature.SignHTTP(req, f.key, []byte(body), f.clock.Now(), "one-nonce-for-all-0")
	var created, reused, others atomic.Int64
	start := make(chan struct{})
	var group sync.WaitGroup
	for i := range 64 {
		group.Go(func() {
			clone, err := http.NewRequest("POST", "http://"+gateways[i%2]+"/v1/leads", strings.NewReader(body))
			if err != nil {
				t.Error(err)
				return
			}
			clone.Host, clone.Header = f.addr, req.Header
			<-start
			res, err := f.client.Do(clone)
			if err != nil {
				t.Error(err)
				return
			}
			defer func() { _ = res.Body.Close() }()
			var a answer
			if err := json.NewDecoder(res.Body).Decode(&a.json); err != nil {
				t.Error(err)
			}
			switch {
			case res.StatusCode == http.StatusCreated:
				created.Add(1)
			case res.StatusCode == http.StatusUnauthorized && detailOf(a) == "NonceReused":
				reused.Add(1)
			default:
				t.Errorf("status %d: %v", res.StatusCode, a.json)
				others.Add(1)
			}
		})
	}
	close(start)
	group.Wait()
	if created.Load() != 1 || reused.Load() != 63 {
		t.Errorf("%d created, %d refused as replays, %d others; want 1, 63, 0", created.Load(), reused.Load(), others.Load())
	}
}

// Redis goes away: writes are refused, reads go on without repeats, and both heal.
func TestRedisAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	lead := f.send("POST", "/v1/leads", `{"businessParam":{"name":"Ada"}}`).expect(t, http.StatusCreated).header.Get("Location")
	before := call{method: "GET", target: lead, nonce: "before-the-outage-0"}
	f.do(before).expect(t, http.StatusOK)

	f.redis.Close()
	for _, c := range []call{
		{method: "POST", target: "/v1/leads", body: `{"businessParam":{"name":"Bob"}}`},
		{method: "DELETE", target: "/v1/webhooks/whk_1"},
		{method: "PATCH", target: "/v1/webhooks/whk_1", body: "{}"},
	} {
		a := f.do(c).fault(t, http.StatusServiceUnavailable, "ServiceUnavailable")
		if a.header.Get("Retry-After") == "" {
			t.Errorf("%s: no Retry-After", c.method)
		}
	}
	during := call{method: "GET", target: lead, nonce: "during-the-outage-0"}
	f.do(during).expect(t, http.StatusOK)
	for _, c := range []call{during, before} {
		if got := f.do(c).fault(t, http.StatusUnauthorized, "Unauthorized"); detailOf(got) != "NonceReused" {
			t.Errorf("detail %s", detailOf(got))
		}
	}
	f.do(call{method: "HEAD", target: lead}).expect(t, http.StatusOK)
	if n := strings.Count(f.log.String(), "Redis is away"); n != 1 {
		t.Errorf("the outage was logged %d times, want once", n)
	}

	if err := f.redis.Restart(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for f.send("POST", "/v1/leads", `{"businessParam":{"name":"Bob"}}`).status != http.StatusCreated {
		if time.Now().After(deadline) {
			t.Fatal("writes are still refused a minute after Redis came back")
		}
	}
	if got := f.do(during).fault(t, http.StatusUnauthorized, "Unauthorized"); detailOf(got) != "NonceReused" {
		t.Errorf("a nonce of the outage counts again: %s", detailOf(got))
	}
	if n := strings.Count(f.log.String(), "Redis is back"); n != 1 {
		t.Errorf("the end of the outage was logged %d times, want once", n)
	}
}

// A database that is away is told from what is broken, and from what it says itself.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) {
		o.Applications = brokenApplications{}
		o.Away = func(err error) bool { return strings.Contains(err.Error(), "dial tcp") }
	})
	a := f.do(call{method: "GET", target: "/v1/webhooks"}).fault(t, http.StatusServiceUnavailable, "ServiceUnavailable")
	if strings.Contains(a.raw, "secret-cause") || a.header.Get("Retry-After") == "" || !strings.Contains(f.log.String(), "secret-cause") {
		t.Errorf("answer: %s, %v", a.raw, a.header)
	}
}

// brokenApplications fails as a database that is away does.
type brokenApplications struct{ gateway.Applications }

func (brokenApplications) Credential(context.Context, string) (waypost.Credential, error) {
	return waypost.Credential{}, errors.New("dial tcp 10.0.0.7:5432: secret-cause")
}

func TestInternalErrorsHideTheirCause(t *testing.T) {
	t.Parallel()
	f := newFixture(t, func(o *gateway.Options) { o.Applications = brokenApplications{} })
	a := f.do(call{method: "GET", target: "/v1/webhooks", headers: map[string]string{"X-Request-Id": "find-me"}}).
		fault(t, http.StatusInternalServerError, "InternalError")
	if strings.Contains(a.raw, "secret-cause") || !strings.Contains(a.raw, "find-me") {
		t.Errorf("answer: %s", a.raw)
	}
	if line := f.log.String(); !strings.Contains(line, "secret-cause") || !strings.Contains(line, "find-me") {
		t.Errorf("log: %s", line)
	}
}

// The rows of "My signature does not match" in docs/signing.md.
func TestSignatureDoesNotMatch(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	const lead = `{"businessParam":{"name":"Ada"}}`
	resign := func(change func(*signature.Request, *signature.Key)) func(*http.Request) {
		return func(r *http.Request) {
			path, query, _ := strings.Cut(r.URL.RequestURI(), "?")
			signed := signature.Request{Method: r.Method, Path: path, Query: query, Headers: []signature.Header{{Name: "Host", Value: f.addr}}}
			key := f.key
			change(&signed, &key)
			for _, h := range signature.Sign(signed, key, nil, f.clock.Now(), signature.NewNonce()) {
				r.Header.Set(h.Name, h.Value)
			}
		}
	}
	body := func(text string) func(*http.Request) {
		return func(r *http.Request) {
			other, _ := http.NewRequest("POST", "http://h", strings.NewReader(text))
			r.Body, r.ContentLength, r.GetBody = other.Body, other.ContentLength, other.GetBody
		}
	}
	noHash := func(r *http.Request) {
		at, nonce, names := fmt.Sprint(f.clock.Now().Unix()), signature.NewNonce(), []string{"host", "x-cloud-content-sha256", "x-cloud-nonce", "x-cloud-timestamp"}
		signed := signature.Request{Method: r.Method, Path: r.URL.Path, Query: r.URL.RawQuery, Headers: []signature.Header{
			{Name: "Host", Value: f.addr}, {Name: signature.HeaderBodyHash, Value: signature.HashBody(nil)}, {Name: signature.HeaderNonce, Value: nonce}, {Name: signature.HeaderTimestamp, Value: at},
		}}
		mac := hmac.New(sha256.New, []byte(f.key.SecretKey))
		mac.Write([]byte(signature.StringToSign(at, nonce, signature.Canonical(signed, names, ""))))
		for _, h := range signed.Headers[1:] {
			r.Header.Set(h.Name, h.Value)
		}
		r.Header.Set(signature.HeaderSignature, fmt.Sprintf("CLOUD1-HMAC-SHA256 Credential=%s, SignedHeaders=%s, Signature=%x", f.key.AccessKey, strings.Join(names, ";"), mac.Sum(nil)))
	}
	post := func(tamper func(*http.Request)) call {
		return call{method: "POST", target: "/v1/leads", body: lead, tamper: tamper}
	}
	get := func(tamper func(*http.Request)) call {
		return call{method: "GET", target: "/v1/leads?email=a%2Bb%40c.example", tamper: tamper}
	}
	for _, tc := range []struct {
		name           string
		call           call
		detail, target string
		says           string
	}{
		{"host rewritten", get(func(r *http.Request) { r.Host = "backend:8080" }), "SignatureMismatch", "X-Cloud-Signature", "docs/signing.md"},
		{"host without port", get(func(r *http.Request) { r.Host, _, _ = strings.Cut(f.addr, ":") }), "SignatureMismatch", "X-Cloud-Signature", "docs/signing.md"},
		{"content type changed", post(setHeader("Content-Type", "application/json; charset=utf-8")), "SignatureMismatch", "X-Cloud-Signature", "what arrived is not what was signed"},
		{"content type added", get(setHeader("Content-Type", "application/json")), "MalformedSignature", "content-type", "content-type: was sent and is not in SignedHeaders"},
		{"stage added", get(setHeader("X-Cloud-Stage", "test")), "MalformedSignature", "x-cloud-stage", "x-cloud-stage: was sent"},
		{"path decoded", call{method: "GET", target: "/v1/articles/a%20b", tamper: resign(func(r *signature.Request, _ *signature.Key) { r.Path = "/v1/articles/a b" })}, "SignatureMismatch", "X-Cloud-Signature", ""},
		{"query decoded", get(resign(func(r *signature.Request, _ *signature.Key) { r.Query = "email=a+b@c.example" })), "SignatureMismatch", "X-Cloud-Signature", ""},
		{"another method", get(resign(func(r *signature.Request, _ *signature.Key) { r.Method = "POST" })), "SignatureMismatch", "X-Cloud-Signature", ""},
		{"line break in the secret", get(resign(func(_ *signature.Request, k *signature.Key) { k.SecretKey += "\n" })), "SignatureMismatch", "X-Cloud-Signature", "secret key"},
		{"another list of names", get(inSignature("host;", "date;host;")), "MalformedSignature", "date", "is in SignedHeaders but was not sent"},
		{"hash of an empty body left out", get(noHash), "SignatureMismatch", "X-Cloud-Signature", "what arrived is not what was signed"},
		{"line break behind the body", post(body(lead + "\n")), "SignatureMismatch", "X-Cloud-Content-SHA256", "though the signature is right: 33 bytes with the SHA-256 " + signature.HashBody([]byte(lead+"\n"))},
		{"other blanks", post(body(strings.Replace(lead, ":", ": ", 1))), "SignatureMismatch", "X-Cloud-Content-SHA256", "though the signature is right"},
		{"no body", post(body("")), "SignatureMismatch", "X-Cloud-Content-SHA256", "0 bytes"},
		{"upper-case hash", get(setHeader(signature.HeaderBodyHash, strings.Repeat("A", 64))), "MalformedSignature", "X-Cloud-Content-SHA256", "lower-case"},
		{"milliseconds", get(setHeader(signature.HeaderTimestamp, "1769860800000")), "MalformedSignature", "X-Cloud-Timestamp", "not in milliseconds"},
		{"slow clock", call{method: "GET", target: "/v1/leads", at: f.clock.Now().Add(-400 * time.Second)}, "RequestExpired", "X-Cloud-Timestamp", "400 seconds behind"},
		{"fast clock", call{method: "GET", target: "/v1/leads", at: f.clock.Now().Add(400 * time.Second)}, "RequestExpired", "X-Cloud-Timestamp", "400 seconds ahead"},
		{"far clock", call{method: "GET", target: "/v1/leads", at: time.Unix(18446744073+1769860800, 0)}, "RequestExpired", "X-Cloud-Timestamp", "18446744073 seconds ahead"},
		{"not signed", call{method: "GET", target: "/v1/leads", unsigned: true}, "MissingSignature", "X-Cloud-Signature", "X-Cloud-Signature: is missing"},
	} {
		a := f.in(t).do(tc.call).fault(t, http.StatusUnauthorized, "Unauthorized", tc.detail+" "+tc.target)
		if message := a.str(t, "message"); !strings.Contains(message, tc.says) || !strings.Contains(message, tc.target) {
			t.Errorf("%s: %s; want %q", tc.name, message, tc.says)
		}
	}
	// A + of a query became a blank.
	for query, targets := range map[string][]string{
		"createdFrom=2026-01-31T12:00:00+08:00&updatedTo=2026-01-31T12:00:00+08:00": {"createdFrom", "updatedTo"},
		"mobilePhone=+44+1": {"mobilePhone"}, "email=ada+tag@example.com": {"email"}, "region=+5": {"region"},
	} {
		a := f.get("/v1/leads?"+query).fault(t, http.StatusBadRequest, "BadRequest")
		if strings.Count(a.raw, "write + as %2B") < len(targets) {
			t.Errorf("%s: %s", query, a.raw)
		}
	}
	// At the beginning it would be taken off, and the rest be another value.
	for _, query := range []string{"mobilePhone=+16502530000", "mobilePhone=+8613800138000", "mobilePhone=%E2%80%AD+16502530000", "mobilePhone=%2016502530000", "email=+ada@example.com"} {
		name, _, _ := strings.Cut(query, "=")
		for _, path := range []string{"/v1/leads?", "/v1/leads/export?"} {
			if a := f.get(path+query).fault(t, http.StatusBadRequest, "BadRequest", "InvalidFormat "+name); !strings.Contains(a.raw, "write + as %2B") {
				t.Errorf("%s%s: %s", path, query, a.raw)
			}
		}
	}
	// A body has no such rule.
	launches := "/v1/journeys/" + f.publishedJourney(`{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`) + "/launches"
	a := f.send("POST", launches, `{"audience":{"filter":{"createdFrom":"2026-01-31 12:00:00","email":"a b"}}}`).fault(t, http.StatusBadRequest, "BadRequest")
	if strings.Contains(a.raw, "%2B") {
		t.Errorf("in a body: %s", a.raw)
	}
	f.send("POST", launches, `{"audience":{"filter":{"mobilePhone":" 13800138000"}}}`).expect(t, 202)
	if a := f.get("/v1/deliveries?from=2026-01-31T12:00:00+08:00").expect(t, 400); !strings.Contains(a.raw, "%2B") {
		t.Errorf("deliveries: %s", a.raw)
	}
}

// A body whose application is disabled before it has come has no effect.
func TestDisabledDuringBody(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.addr = f.listen(gateway.NewStrict(f.options, time.Hour))
	for _, r := range []struct{ path, media, body string }{
		{"/v1/leads", "application/json", `{"businessParam":{"name":"Late"}}`},
		{"/v1/leads/imports", "text/csv", "name\nLate\n"},
	} {
		app := f.by(f.newApp("*"))
		conn, in, line := app.head("POST", r.path, r.body, f.addr, "Content-Type: "+r.media, fmt.Sprintf("Content-Length: %d", len(r.body)), "Expect: 100-continue")
		if line != "HTTP/1.1 100 Continue" {
			t.Fatal(line)
		}
		if err := f.store.DisableApplication(t.Context(), "", app.app.ID); err != nil {
			t.Fatal(err)
		}
		f.clock.advance(time.Second)
		if _, err := io.WriteString(conn, r.body); err != nil {
			t.Fatal(err)
		}
		if _, err := in.ReadString('\n'); err != nil { // the end of the 100
			t.Fatal(err)
		}
		if line, err := in.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 401 ") {
			t.Errorf("%s: %q, %v", r.path, line, err)
		}
	}
	if got := f.get("/v1/leads").raw; strings.Contains(got, "Late") {
		t.Errorf("the leads: %s", got)
	}
}
