package gateway_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
)

const secretOf32Bytes = "whsec_MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE="

func (f *fixture) newWebhook(url string) string {
	f.t.Helper()
	return f.send("POST", "/v1/webhooks", fmt.Sprintf(`{"name":"w","url":%q}`, url)).expect(f.t, 201).str(f.t, "id")
}

func TestWebhooks(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	created := f.send("POST", "/v1/webhooks", `{"name":"crm","url":"https://example.com/hook?k=<1>"}`).expect(t, 201)
	id := created.str(t, "id")
	if created.header.Get("Location") != "/v1/webhooks/"+id || !waypost.IsID(waypost.PrefixWebhook, id) {
		t.Errorf("Location %q of %q", created.header.Get("Location"), id)
	}
	const defaults = `,"name":"crm","url":"https://example.com/hook?k=<1>","basicAuth":null,"tls":null,"params":{},"timeoutMs":15000,` +
		`"retry":{"schedule":["5s","30s","2m","10m","30m","1h","2h","4h","8h","12h"],"maxAttempts":0,"giveUpAfter":"72h","jitter":0.2,` +
		`"on":["network","timeout","408","425","429","5xx"],"onSucceedFalse":false},"rateLimit":null,"maxConcurrency":0,"channel":null,"requiresConsent":false,"enabled":true,` +
		`"disabledReason":null,"signingSecretSet":false,"signingOverlap":"24h","previousSigningSecretUntil":null,"createdAt":"2026-01-31T12:00:00.000Z","updatedAt":"2026-01-31T12:00:00.000Z","unreadableSecrets":[]}`
	if want := `{"id":"` + id + `"` + defaults; created.raw != want {
		t.Errorf("got  %s\nwant %s", created.raw, want)
	}
	if got := f.get("/v1/webhooks/"+id).expect(t, 200); got.raw != created.raw {
		t.Errorf("GET %s", got.raw)
	}

	patched := f.send("PATCH", "/v1/webhooks/"+id, `{"basicAuth":{"username":"u","password":"pässword"},"signingSecret":"`+secretOf32Bytes+`",
		"params":{"a":"{{ lead.name }}","b":2},"retry":{"maxAttempts":3,"schedule":["1s","PT1M"]},"rateLimit":{"perSecond":2.5},"enabled":false}`).expect(t, 200)
	for _, want := range []string{
		`"basicAuth":{"username":"u","passwordSet":true}`, `"signingSecretSet":true`, `"params":{"a":"{{ lead.name }}","b":2}`,
		`"schedule":["1s","1m"],"maxAttempts":3,"giveUpAfter":"72h"`, `"rateLimit":{"perSecond":2.5,"burst":3}`, `"enabled":false`, `"name":"crm"`,
	} {
		if !strings.Contains(patched.raw, want) {
			t.Errorf("no %s in %s", want, patched.raw)
		}
	}
	// A merge leaves what it does not name, secrets included; null clears.
	patched = f.send("PATCH", "/v1/webhooks/"+id, `{"basicAuth":{"username":"v"},"params":{"a":null,"c":"x"},"rateLimit":null,"timeoutMs":null,"enabled":true}`).expect(t, 200)
	for _, want := range []string{`"basicAuth":{"username":"v","passwordSet":true}`, `"params":{"b":2,"c":"x"}`, `"rateLimit":null`, `"timeoutMs":15000`, `"signingSecretSet":true`, `"enabled":true`} {
		if !strings.Contains(patched.raw, want) {
			t.Errorf("no %s in %s", want, patched.raw)
		}
	}
	stored, err := f.store.Webhook(t.Context(), waypost.Scope{Org: testOrg, Stage: waypost.StageRelease}, id)
	if err != nil || stored.BasicAuth.Password != "pässword" || stored.SigningSecret != secretOf32Bytes {
		t.Errorf("stored %+v, %v", stored.BasicAuth, err)
	}
	patched = f.send("PATCH", "/v1/webhooks/"+id, `{"basicAuth":null,"signingSecret":null}`).expect(t, 200)
	if !strings.Contains(patched.raw, `"basicAuth":null`) || !strings.Contains(patched.raw, `"signingSecretSet":false`) {
		t.Errorf("null does not clear: %s", patched.raw)
	}
	for _, a := range []answer{created, patched, f.get("/v1/webhooks"), f.get("/v1/webhooks/" + id)} {
		if strings.Contains(a.raw, "pässword") || strings.Contains(a.raw, "whsec_") {
			t.Errorf("a secret is answered: %s", a.raw)
		}
	}

	f.do(call{method: "DELETE", target: "/v1/webhooks/" + id, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 404, "NotFound")
	if a := f.send("DELETE", "/v1/webhooks/"+id, "").expect(t, 204); a.raw != "" {
		t.Errorf("a 204 with a body: %q", a.raw)
	}
	f.get("/v1/webhooks/"+id).fault(t, 404, "NotFound")
	f.send("DELETE", "/v1/webhooks/"+id, "").fault(t, 404, "NotFound")
	f.send("PATCH", "/v1/webhooks/"+id, "{}").fault(t, 404, "NotFound")
	f.send("POST", "/v1/webhooks/"+id+"/test", "").fault(t, 404, "NotFound")
}

// A secret that is replaced goes on signing for a while, which the answer tells.
func TestSigningSecretRotation(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.newWebhook("https://example.com")
	patch := func(body string) answer { return f.send("PATCH", "/v1/webhooks/"+id, body).expect(t, 200) }
	until := func(a answer, want any) {
		t.Helper()
		if got := a.json["previousSigningSecretUntil"]; got != want {
			t.Errorf("the previous secret signs until %v, want %v", got, want)
		}
	}
	const other = "whsec_OTg3NjU0MzIxMDk4NzY1NDMyMTA5ODc2NTQzMjEwOTg="
	until(patch(`{"signingSecret":"`+secretOf32Bytes+`"}`), nil)
	rotated := patch(`{"signingSecret":"` + other + `"}`)
	until(rotated, "2026-02-01T12:00:00.000Z")
	// The same secret again, or another overlap, rotates nothing.
	until(patch(`{"signingSecret":"`+other+`","signingOverlap":"P2D"}`), "2026-02-02T12:00:00.000Z")
	stored, err := f.store.Webhook(t.Context(), waypost.Scope{Org: testOrg, Stage: waypost.StageRelease}, id)
	if err != nil || fmt.Sprint(stored.SigningSecrets(f.clock.Now())) != fmt.Sprint([]string{other, secretOf32Bytes}) {
		t.Errorf("two secrets sign: %v", err)
	}
	// What has passed is answered as it was until the webhook is changed.
	f.clock.advance(72 * time.Hour)
	before := f.get("/v1/webhooks/" + id)
	until(before, "2026-02-02T12:00:00.000Z")
	until(patch(`{"name":"v"}`), nil)
	// A secret that has leaked ends at once.
	until(patch(`{"signingSecret":"`+secretOf32Bytes+`"}`), "2026-02-05T12:00:00.000Z")
	until(patch(`{"signingOverlap":"0s"}`), nil)
	until(patch(`{"signingOverlap":null,"signingSecret":"`+other+`"}`), "2026-02-04T12:00:00.000Z")
	ended := patch(`{"signingSecret":null}`)
	until(ended, nil)
	if ended.json["signingSecretSet"] != false || ended.json["signingOverlap"] != "24h" {
		t.Errorf("got %s", ended.raw)
	}
	f.send("PATCH", "/v1/webhooks/"+id, `{"signingOverlap":"721h"}`).fault(t, 400, "BadRequest", "OutOfRange signingOverlap")
	f.send("PATCH", "/v1/webhooks/"+id, `{"signingOverlap":"soon"}`).fault(t, 400, "BadRequest", "InvalidFormat signingOverlap")
}

// identity is a server's certificate and key in PEM: it may be a client's, too.
func identity(t *testing.T, srv *httptest.Server) (certificate, key string) {
	t.Helper()
	pair := srv.TLS.Certificates[0]
	secret, err := x509.MarshalPKCS8PrivateKey(pair.PrivateKey)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: pair.Certificate[0]})),
		string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}))
}

// Whoever may change a webhook does not get its password sent to a server of their own.
func TestPasswordStaysWithItsServer(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.send("POST", "/v1/webhooks", `{"name":"w","url":"https://crm.example.com/hook","basicAuth":{"username":"u","password":"first"}}`).expect(t, 201).str(t, "id")
	for _, patch := range []string{
		`{"url":"https://evil.example/hook"}`, `{"url":"http://crm.example.com/hook"}`, `{"url":"https://crm.example.com:8443/hook"}`, `{"url":"https://crm.example.com.evil.example/hook"}`,
		`{"url":"https://evil.example/crm.example.com","basicAuth":{"username":"u"}}`, `{"url":"https://evil.example/hook","basicAuth":{"password":null}}`,
	} {
		a := f.send("PATCH", "/v1/webhooks/"+id, patch).fault(t, 400, "BadRequest", "NullValue basicAuth.password")
		if strings.Contains(a.raw, "first") {
			t.Errorf("%s: %s", patch, a.raw)
		}
	}
	// The lower case of İ is i in Go, and another letter in the name that is asked for.
	mail := f.send("POST", "/v1/webhooks", `{"name":"m","url":"https://mail.example.com/","basicAuth":{"username":"u","password":"p"}}`).expect(t, 201).str(t, "id")
	f.send("PATCH", "/v1/webhooks/"+mail, `{"url":"https://maİl.example.com/"}`).fault(t, 400, "BadRequest", "NullValue basicAuth.password")
	for _, patch := range []string{
		`{"url":"https://CRM.example.com:443/other?x=1"}`, `{"url":"https://new.example.com/hook","basicAuth":{"password":"second"}}`, `{"name":"v","url":"https://new.example.com/hook"}`,
		`{"url":"https://open.example.com/hook","basicAuth":null}`, `{"url":"https://elsewhere.example.com/hook"}`,
	} {
		f.send("PATCH", "/v1/webhooks/"+id, patch).expect(t, 200)
	}
}

// A webhook whose secrets were encrypted with a key that is lost is shown and changed as
// any other; nothing is sent to it until they are set again.
func TestUnreadableSecrets(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		got <- fmt.Sprintf("%s:%s signed %t", user, password, r.Header.Get("Webhook-Signature") != "")
	}))
	t.Cleanup(receiver.Close)
	secure := httptest.NewTLSServer(nil)
	t.Cleanup(secure.Close)
	certificate, key := identity(t, secure)
	quoted := func(s string) string { q, _ := json.Marshal(s); return string(q) }
	lost := f.lost().store
	// made creates a webhook whose secrets the gateway cannot read.
	made := func(url string, set func(*waypost.Webhook)) string {
		t.Helper()
		id := f.newWebhook(url)
		if _, err := lost.UpdateWebhook(t.Context(), release, id, func(w *waypost.Webhook) error { set(w); return nil }); err != nil {
			t.Fatal(err)
		}
		return id
	}
	// shows wants these secrets among those that cannot be read, of all answers, and no
	// word on which key is missing.
	shows := func(a answer, secrets string, also ...string) {
		t.Helper()
		for _, want := range append(also, `"unreadableSecrets":[`+secrets+`]`) {
			if !strings.Contains(a.raw, want) {
				t.Errorf("no %s in %s", want, a.raw)
			}
		}
		if strings.Contains(a.raw, "lost") || strings.Contains(a.raw, "KEYS") {
			t.Errorf("the key is named: %s", a.raw)
		}
	}
	patch := func(id, body string) answer {
		t.Helper()
		return f.send("PATCH", "/v1/webhooks/"+id, body).expect(t, 200)
	}

	id := made(receiver.URL, func(w *waypost.Webhook) {
		w.BasicAuth, w.SigningSecret = &waypost.BasicAuth{Username: "u", Password: "old"}, secretOf32Bytes
	})
	const both = `"basicAuth.password","signingSecret"`
	shown := f.get("/v1/webhooks/"+id).expect(t, 200)
	shows(shown, both, `"basicAuth":{"username":"u","passwordSet":true}`, `"signingSecretSet":true`)
	shows(f.get("/v1/webhooks").expect(t, 200), both)
	f.get("/v1/webhooks/"+id+"/health").expect(t, 200)
	f.send("POST", "/v1/journeys/"+f.publishedJourney(welcome(id))+"/dryrun", `{"lead":{"name":"Ada"}}`).expect(t, 200)
	tested := f.send("POST", "/v1/webhooks/"+id+"/test", "").fault(t, 503, "ServiceUnavailable")
	if !strings.Contains(tested.raw, "basicAuth.password and signingSecret") || strings.Contains(tested.raw, "lost") || len(got) > 0 {
		t.Errorf("a test is answered %s, and the receiver got %d messages", tested.raw, len(got))
	}
	// What a change does not set stays as it is stored.
	f.do(call{method: "PATCH", target: "/v1/webhooks/" + id, body: `{"name":"v","basicAuth":{"username":"v"}}`, headers: map[string]string{"If-Match": shown.header.Get("ETag")}}).expect(t, 200)
	shows(f.get("/v1/webhooks/"+id), both, `"name":"v"`, `"basicAuth":{"username":"v","passwordSet":true}`)
	if w, err := lost.Webhook(t.Context(), release, id); err != nil || w.BasicAuth.Password != "old" || w.SigningSecret != secretOf32Bytes {
		t.Errorf("stored %+v, %v", w.BasicAuth, err)
	}
	f.send("PATCH", "/v1/webhooks/"+id, `{"basicAuth":{"password":null}}`).fault(t, 400, "BadRequest", "NullValue basicAuth.password")
	f.send("PATCH", "/v1/webhooks/"+id, `{"signingSecret":"x"}`).fault(t, 400, "BadRequest", "InvalidFormat signingSecret")
	shows(patch(id, `{"signingSecret":null}`), `"basicAuth.password"`, `"signingSecretSet":false`)
	shows(patch(id, `{"basicAuth":{"password":"new"},"signingSecret":"`+secretOf32Bytes+`"}`), "", `"signingSecretSet":true,`, `"previousSigningSecretUntil":null`)
	f.send("POST", "/v1/webhooks/"+id+"/test", "").expect(t, 200)
	if m := <-got; m != "v:new signed true" {
		t.Errorf("the receiver got %s", m)
	}

	id = made(receiver.URL, func(w *waypost.Webhook) { w.SigningSecret = secretOf32Bytes })
	// Of a secret that cannot be read nothing signs beside the new one.
	shows(patch(id, `{"signingSecret":"whsec_OTg3NjU0MzIxMDk4NzY1NDMyMTA5ODc2NTQzMjEwOTg="}`), "", `"previousSigningSecretUntil":null`)
	id = made(receiver.URL, func(w *waypost.Webhook) { w.BasicAuth = &waypost.BasicAuth{Username: "u", Password: "old"} })
	shows(patch(id, `{"basicAuth":null}`), "", `"basicAuth":null`)
	// The secret before it is needed for as long as it signs.
	previous := func(w *waypost.Webhook) {
		w.SigningSecret, w.PreviousSigningSecret, w.SigningRotatedAt = secretOf32Bytes, secretOf32Bytes, f.clock.Now()
	}
	id = made(receiver.URL, previous)
	if _, err := f.store.UpdateWebhook(t.Context(), release, id, func(w *waypost.Webhook) error { w.SigningSecret = secretOf32Bytes; return nil }); err != nil {
		t.Fatal(err)
	}
	shows(f.get("/v1/webhooks/"+id), `"previousSigningSecret"`, `"previousSigningSecretUntil":"2026-02-01T12:00:`)
	f.send("POST", "/v1/webhooks/"+id+"/test", "").fault(t, 503, "ServiceUnavailable")
	shows(patch(id, `{"signingOverlap":"0s"}`), "", `"previousSigningSecretUntil":null`)
	f.send("POST", "/v1/webhooks/"+id+"/test", "").expect(t, 200)

	id = made(secure.URL, func(w *waypost.Webhook) { w.TLS = &waypost.TLS{ClientCertificate: certificate, ClientKey: key} })
	shows(patch(id, `{"name":"v"}`), `"tls.clientKey"`, `"clientKeySet":true`)
	f.send("PATCH", "/v1/webhooks/"+id, `{"tls":{"clientCertificate":`+quoted(certificate)+`}}`).fault(t, 400, "BadRequest", "NullValue tls.clientKey")
	for _, none := range []string{`null`, `""`} {
		f.send("PATCH", "/v1/webhooks/"+id, `{"tls":{"clientCertificate":`+none+`}}`).fault(t, 400, "BadRequest", "NullValue tls.clientCertificate")
	}
	shows(patch(id, `{"tls":{"caCertificate":`+quoted(certificate)+`}}`), `"tls.clientKey"`)
	shows(patch(id, `{"tls":{"clientKey":`+quoted(key)+`}}`), "", `"clientKeySet":true`)
	id = made(secure.URL, func(w *waypost.Webhook) { w.TLS = &waypost.TLS{ClientCertificate: certificate, ClientKey: key} })
	f.send("DELETE", "/v1/webhooks/"+id, "").expect(t, 204)
}

// A webhook with an authority and a client certificate of its own reaches a receiver
// that only they lead to. The key is never answered, and stays through other changes.
func TestWebhookTLS(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	receiver.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	receiver.Config.ErrorLog = log.New(io.Discard, "", 0)
	receiver.StartTLS()
	t.Cleanup(receiver.Close)
	certificate, key := identity(t, receiver)
	quoted := func(s string) string { q, _ := json.Marshal(s); return string(q) }
	ca, client, clientKey := `"caCertificate":`+quoted(certificate), `"clientCertificate":`+quoted(certificate), `"clientKey":`+quoted(key)
	notAfter := receiver.Certificate().NotAfter.UTC().Format(waypost.TimeFormat)

	id := f.send("POST", "/v1/webhooks", `{"name":"w","url":"`+receiver.URL+`"}`).expect(t, 201).str(t, "id")
	patch := func(body, want, class string) {
		t.Helper()
		a := f.send("PATCH", "/v1/webhooks/"+id, body).expect(t, 200)
		for _, a := range []answer{a, f.get("/v1/webhooks/" + id), f.get("/v1/webhooks")} {
			if !strings.Contains(a.raw, `"tls":`+want+`,`) {
				t.Errorf("no %s in %s", want, a.raw)
			}
			if strings.Contains(a.raw, "PRIVATE") || strings.Contains(a.raw, "clientKey\"") {
				t.Errorf("the key is answered: %s", a.raw)
			}
		}
		var got string
		if a := f.send("POST", "/v1/webhooks/"+id+"/test", "").expect(t, 200); a.json["errorClass"] != nil {
			got = a.str(t, "errorClass")
		}
		if got != class {
			t.Errorf("after %.60s: a test ends with %q, want %q", body, got, class)
		}
	}
	patch(`{}`, "null", "tls")
	patch(`{"tls":{}}`, "null", "tls")
	patch(`{"tls":{`+ca+`}}`, `{`+ca+`,"clientCertificate":null,"clientKeySet":false,"clientCertificateNotAfter":null}`, "tls")
	both := `{` + ca + `,` + client + `,"clientKeySet":true,"clientCertificateNotAfter":"` + notAfter + `"}`
	patch(`{"tls":{`+client+`,`+clientKey+`}}`, both, "")
	patch(`{"name":"other"}`, both, "")
	patch(`{"tls":{`+clientKey+`}}`, both, "")
	patch(`{"tls":{"caCertificate":null}}`, `{"caCertificate":null,`+client+`,"clientKeySet":true,"clientCertificateNotAfter":"`+notAfter+`"}`, "tls")
	patch(`{"tls":{"clientCertificate":null,"clientKey":null}}`, "null", "tls")
	patch(`{"tls":{`+ca+`,`+client+`,`+clientKey+`}}`, both, "")
	f.send("PATCH", "/v1/webhooks/"+id, `{"tls":{"clientKey":null}}`).fault(t, 400, "BadRequest", "NullValue tls.clientKey")
	f.send("PATCH", "/v1/webhooks/"+id, `{"tls":{"clientCertificate":null}}`).fault(t, 400, "BadRequest", "NullValue tls.clientCertificate")
	f.send("PATCH", "/v1/webhooks/"+id, `{"url":"http://example.com"}`).fault(t, 400, "BadRequest", "InvalidFormat url")
	patch(`{"tls":null}`, "null", "tls")

	for body, detail := range map[string]string{
		`{"caCertificate":"x"}`:                                  "InvalidFormat tls.caCertificate",
		`{"caCertificate":` + quoted(key) + `}`:                  "InvalidFormat tls.caCertificate",
		`{` + client + `,"clientKey":"x"}`:                       "InvalidFormat tls.clientKey",
		`{` + ca + `,"clientKeySet":true}`:                       "UnknownField tls.clientKeySet",
		`{"caCertificate":7}`:                                    "InvalidType tls.caCertificate",
		`{"caCertificate":"` + strings.Repeat("x", 65537) + `"}`: "TooLong tls.caCertificate",
	} {
		a := f.send("POST", "/v1/webhooks", `{"name":"w","url":"https://example.com","tls":`+body+`}`).fault(t, 400, "BadRequest", detail)
		if strings.Contains(a.raw, "PRIVATE") {
			t.Errorf("a key is repeated: %s", a.raw)
		}
		f.send("PATCH", "/v1/webhooks/"+id, `{"tls":`+body+`}`).fault(t, 400, "BadRequest", detail)
	}
	f.send("POST", "/v1/webhooks", `{"name":"w","url":"https://example.com","tls":{`+ca+`}}`).expect(t, 201)

	// Of what does not exist, half of a certificate and its key may be right; what is
	// wrong whatever there is comes first.
	for body, detail := range map[string]string{
		`{` + client + `}`:                                     "",
		`{` + clientKey + `}`:                                  "",
		`{` + ca + `,` + client + `,` + clientKey + `}`:        "",
		`{` + client + `,"clientKey":null}`:                    "NullValue tls.clientKey",
		`{"clientCertificate":"",` + clientKey + `}`:           "NullValue tls.clientCertificate",
		`{"clientCertificate":"x"}`:                            "InvalidFormat tls.clientCertificate",
		`{` + client + `,"caCertificate":` + quoted(key) + `}`: "InvalidFormat tls.caCertificate",
	} {
		if a := f.send("PATCH", "/v1/webhooks/whk_nope", `{"tls":`+body+`}`); detail == "" {
			a.fault(t, 404, "NotFound")
		} else {
			a.fault(t, 400, "BadRequest", detail)
		}
	}
	f.send("PATCH", "/v1/webhooks/whk_nope", `{"tls":{`+client+`},"url":"http://example.com"}`).fault(t, 400, "BadRequest", "InvalidFormat url")
}

func TestWebhookFaults(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.newWebhook("https://example.com")
	for _, tc := range []struct {
		body    string
		details []string
	}{
		{`{}`, []string{"NullValue name", "NullValue url"}},
		{`{"name":"w","url":"ftp://example.com"}`, []string{"InvalidFormat url"}},
		{`{"name":"w","url":"https://example.com/?n={{ lead.name }}"}`, []string{"InvalidFormat url"}},
		{`{"name":"w","url":"https://example.com/a\nb"}`, []string{"InvalidFormat url"}},
		{`{"name":"w","url":" "}`, []string{"NullValue url"}},
		{`{"name":"w","url":"https://u:p@example.com"}`, []string{"InvalidFormat url"}},
		{`{"name":"w","url":"http://169.254.169.254/latest"}`, []string{"InvalidFormat url"}},
		{`{"name":"w","url":"http://10.1.2.3"}`, []string{"InvalidFormat url"}},
		{`{"name":"w","url":"https://example.com","timeoutMs":0}`, []string{"OutOfRange timeoutMs"}},
		{`{"name":"w","url":"https://example.com","timeoutMs":"1s"}`, []string{"InvalidType timeoutMs"}},
		{`{"name":"w","url":"https://example.com","retry":{"schedule":[],"jitter":1.1,"on":["4xx","200","5xx","5xx"]}}`,
			[]string{"OutOfRange retry.schedule", "OutOfRange retry.jitter", "InvalidFormat retry.on[0]", "InvalidFormat retry.on[1]", "Duplicate retry.on[3]"}},
		{`{"name":"w","url":"https://example.com","retry":{"schedule":["soon"],"giveUpAfter":"1x"}}`, []string{"InvalidFormat retry.schedule[0]", "InvalidFormat retry.giveUpAfter"}},
		{`{"name":"w","url":"https://example.com","params":{"a":[],"b":true,"c":"{{ unclosed"}}`, []string{"InvalidType params.a", "InvalidType params.b", "InvalidFormat params.c"}},
		{`{"name":"w","url":"https://example.com","basicAuth":{"username":"a:b"}}`, []string{"InvalidFormat basicAuth.username", "NullValue basicAuth.password"}},
		{`{"name":"w","url":"https://example.com","signingSecret":"hunter2"}`, []string{"InvalidFormat signingSecret"}},
		{`{"name":"w","url":"https://example.com","rateLimit":{"burst":0}}`, []string{"OutOfRange rateLimit.perSecond", "OutOfRange rateLimit.burst"}},
		{`{"name":"w","url":"https://example.com","passwordSet":true}`, []string{"UnknownField passwordSet"}},
	} {
		a := f.send("POST", "/v1/webhooks", tc.body).fault(t, 400, "BadRequest", tc.details...)
		if strings.Contains(a.raw, "hunter2") {
			t.Errorf("a secret is repeated: %s", a.raw)
		}
		if tc.body != `{}` {
			f.send("PATCH", "/v1/webhooks/"+id, tc.body).fault(t, 400, "BadRequest", tc.details...)
		}
	}
	// What cannot be read has no members that could be missing.
	for body, detail := range map[string]string{`{`: "InvalidFormat ", `null`: "InvalidType ", `[]`: "InvalidType "} {
		f.send("POST", "/v1/webhooks", body).fault(t, 400, "BadRequest", detail)
		f.send("PATCH", "/v1/webhooks/"+id, body).fault(t, 400, "BadRequest", detail)
	}
	// Faults come before existence, also those of a patch that nothing is there for.
	for body, detail := range map[string]string{
		`{"timeoutMs":0}`:                   "OutOfRange timeoutMs",
		`{"url":"http://10.1.2.3"}`:         "InvalidFormat url",
		`{"params":{"n":9007199254740993}}`: "OutOfRange params.n",
		`{"name":null}`:                     "NullValue name",
		`{"retry":{"schedule":[5]}}`:        "InvalidType retry.schedule[0]",
	} {
		f.send("PATCH", "/v1/webhooks/whk_nope", body).fault(t, 400, "BadRequest", detail)
	}
	for _, body := range []string{`{}`, `{"basicAuth":{"username":"u"},"rateLimit":{"burst":2},"signingSecret":null}`} {
		f.send("PATCH", "/v1/webhooks/whk_nope", body).fault(t, 404, "NotFound")
	}
	before := f.get("/v1/webhooks/" + id)
	f.send("PATCH", "/v1/webhooks/"+id, `{"name":null}`).fault(t, 400, "BadRequest", "NullValue name")
	if after := f.get("/v1/webhooks/" + id); after.raw != before.raw {
		t.Errorf("a refused patch changed something:\n%s\n%s", before.raw, after.raw)
	}
}

func TestListFaultsAreReportedAtOnce(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.get("/v1/webhooks?x=1&limit=0&cursor=a&cursor=b").fault(t, 400, "BadRequest",
		"UnknownField x", "Duplicate cursor", "OutOfRange limit", "InvalidFormat cursor")
	f.get("/v1/journeys?limit=&x=1").fault(t, 400, "BadRequest", "NullValue limit", "UnknownField x")
	f.get("/v1/deliveries?x=1&limit=0&status=lost&leadsId=q&from=1&to=").fault(t, 400, "BadRequest",
		"UnknownField x", "NullValue to", "OutOfRange limit", "InvalidType leadsId", "InvalidFormat from", "InvalidFormat status")
}

func TestLists(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	var want []string
	for i := range 7 {
		f.clock.advance(1_000_000)
		want = append([]string{f.newWebhook(fmt.Sprintf("https://example.com/%d", i))}, want...)
	}
	for _, limit := range []int{1, 2, 3, 6, 7, 8, 500} {
		var got []string
		cursor := ""
		for pages := 0; ; pages++ {
			a := f.get(fmt.Sprintf("/v1/webhooks?limit=%d%s", limit, cursor)).expect(t, 200)
			items := a.json["items"].([]any)
			if len(items) == 0 || len(items) > limit || pages > 7 {
				t.Fatalf("limit %d: a page of %d", limit, len(items))
			}
			for _, item := range items {
				got = append(got, item.(map[string]any)["id"].(string))
			}
			next, there := a.json["nextCursor"]
			if !there || len(a.json) != 2 {
				t.Fatalf("a list has items and nextCursor: %s", a.raw)
			}
			if next == nil {
				break
			}
			cursor = "&cursor=" + next.(string)
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("limit %d:\n got %v\nwant %v", limit, got, want)
		}
	}
	if a := f.do(call{method: "GET", target: "/v1/webhooks", headers: map[string]string{"X-Cloud-Stage": "test"}}).expect(t, 200); a.raw != `{"items":[],"nextCursor":null}` {
		t.Errorf("an empty list: %s", a.raw)
	}
	cursor := f.get("/v1/webhooks?limit=1").str(t, "nextCursor")
	f.get("/v1/journeys?cursor="+cursor).fault(t, 400, "BadRequest", "InvalidFormat cursor")
	f.do(call{method: "GET", target: "/v1/webhooks?cursor=" + cursor, headers: map[string]string{"X-Cloud-Stage": "test"}}).fault(t, 400, "BadRequest", "InvalidFormat cursor")
	for query, details := range map[string][]string{
		"limit=0": {"OutOfRange limit"}, "limit=501": {"OutOfRange limit"}, "limit=99999999999999999999": {"OutOfRange limit"}, "limit=x": {"InvalidType limit"},
		"limit=": {"NullValue limit"}, "limit=1&limit=1": {"Duplicate limit"}, "Limit=1": {"UnknownField Limit"}, "page=1&x": {"UnknownField page", "UnknownField x"},
		"cursor=x": {"InvalidFormat cursor"}, "cursor=%zz": {"InvalidFormat cursor"}, "cursor=%00": {"InvalidFormat cursor"}, "limit=%ff": {"InvalidFormat limit"},
	} {
		if got := f.get("/v1/webhooks?"+query).fault(t, 400, "BadRequest", details...); got.json["target"] != "query" {
			t.Errorf("%s: %s", query, got.raw)
		}
	}
}

func TestWebhookTest(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	type seen struct {
		header http.Header
		body   string
	}
	got := make(chan seen, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		got <- seen{r.Header, string(body)}
		switch r.URL.Path {
		case "/no":
			_, _ = io.WriteString(w, `{"succeed":false,"message":"no thanks"}`)
		case "/500":
			w.WriteHeader(500)
		default:
			_, _ = io.WriteString(w, `{"succeed":true,"message":"fine"}`)
		}
	}))
	t.Cleanup(receiver.Close)

	id := f.send("POST", "/v1/webhooks", `{"name":"w","url":"`+receiver.URL+`/yes","enabled":false,"basicAuth":{"username":"u","password":"p"},"params":{"hi":"Hello {{ lead.name }} <&>","n":7}}`).expect(t, 201).str(t, "id")
	a := f.send("POST", "/v1/webhooks/"+id+"/test", "").expect(t, 200)
	if len(a.json) != 5 || a.json["succeed"] != true || a.json["httpStatus"] != 200.0 || a.json["errorClass"] != nil {
		t.Errorf("outcome %s", a.raw)
	}
	m := <-got
	user, password, isBasic := (&http.Request{Header: m.header}).BasicAuth()
	if !isBasic || user != "u" || password != "p" {
		t.Error("no Basic auth")
	}
	for _, want := range []string{`{"messageId":"msg_`, `"version":"1.0","timestamp":"2026-01-31T12:00:00.000Z","userProfile":{"orgId":"acme","appId":"` + f.app.ID, `"params":{"hi":"Hello Test <&>","n":7}}`} {
		if !strings.Contains(m.body, want) {
			t.Errorf("no %s in %s", want, m.body)
		}
	}

	for path, want := range map[string]string{
		"/no":  `{"succeed":false,"httpStatus":200,"message":"no thanks","errorClass":"succeedFalse"`,
		"/500": `{"succeed":false,"httpStatus":500,`,
	} {
		f.send("PATCH", "/v1/webhooks/"+id, `{"url":"`+receiver.URL+path+`"}`).expect(t, 200)
		if a := f.send("POST", "/v1/webhooks/"+id+"/test", "{}").expect(t, 200); !strings.HasPrefix(a.raw, want) {
			t.Errorf("%s: %s", path, a.raw)
		}
	}
	receiver.Close()
	if a := f.send("POST", "/v1/webhooks/"+id+"/test", "").expect(t, 200); a.json["errorClass"] != "network" || a.json["httpStatus"] != nil || a.json["succeed"] != false {
		t.Errorf("refused connection: %s", a.raw)
	}
	f.send("POST", "/v1/webhooks/"+id+"/test", `{"x":1}`).fault(t, 400, "BadRequest", "UnknownField x")
}

// Test messages wait as long as their receiver takes. An application may have ten that
// do, and then must wait for them; the webhooks of others can be tested meanwhile.
func TestWebhookTestsAreBounded(t *testing.T) {
	t.Parallel()
	const most = 10
	f := newFixture(t)
	arrived, answer := make(chan struct{}, 2*most), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived <- struct{}{}
		<-answer
	}))
	t.Cleanup(receiver.Close)
	release := sync.OnceFunc(func() { close(answer) })
	t.Cleanup(release) // before the receiver closes, if the test fails

	path := "/v1/webhooks/" + f.send("POST", "/v1/webhooks", `{"name":"w","url":"`+receiver.URL+`","timeoutMs":60000}`).expect(t, 201).str(t, "id") + "/test"
	var group sync.WaitGroup
	for range most {
		group.Go(func() {
			if a, err := f.try(t.Context(), call{method: "POST", target: path}); err != nil || a.status != 200 || a.json["succeed"] != true {
				t.Errorf("a test that waited: %d, %s, %v", a.status, a.raw, err)
			}
		})
	}
	for range most {
		<-arrived
	}
	if a := f.send("POST", path, "").fault(t, 503, "ServiceUnavailable"); a.header.Get("Retry-After") == "" || !strings.Contains(a.raw, "test messages") {
		t.Errorf("%v, %s", a.header, a.raw)
	}
	other := keyOf(f.newApp("*"))
	group.Go(func() {
		if a, err := f.try(t.Context(), call{method: "POST", target: path, key: &other}); err != nil || a.status != 200 {
			t.Errorf("a test of another application: %d, %s, %v", a.status, a.raw, err)
		}
	})
	<-arrived
	release()
	group.Wait()
	f.send("POST", path, "").expect(t, 200)
}
