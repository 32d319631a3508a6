package app

import (
	"bytes"
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"waypost"
	"waypost/config"
	"waypost/workflows"
)

// issuer is a small OpenID Connect issuer: discovery and keys, RSA and ECDSA.
type issuer struct {
	*httptest.Server
	mu     sync.Mutex
	keys   map[string]crypto.Signer // published, by kid
	asked  atomic.Int64             // for the keys
	hangs  atomic.Bool              // it takes questions for keys, and does not answer
	broken atomic.Bool              // it answers with something else
	says   atomic.Pointer[string]   // what it says in place of keys
	wakes  chan struct{}
}

func newIssuer(t *testing.T, listener net.Listener) *issuer {
	t.Helper()
	i := &issuer{keys: map[string]crypto.Signer{"rsa-1": rsaKey(t), "ec-1": ecKey(t)}, wakes: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		// Only RS256, as of issuers that speak of ID tokens alone here.
		_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q,"id_token_signing_alg_values_supported":["RS256"]}`, i.URL, i.URL+"/keys")
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, r *http.Request) {
		i.asked.Add(1)
		if i.broken.Load() {
			http.Error(w, "nothing works", http.StatusBadGateway)
			return
		}
		if i.hangs.Load() {
			select {
			case <-r.Context().Done():
			case <-i.wakes:
			}
			return
		}
		if says := i.says.Load(); says != nil {
			_, _ = io.WriteString(w, *says)
			return
		}
		i.mu.Lock()
		defer i.mu.Unlock()
		var keys []map[string]string
		for kid, key := range i.keys {
			keys = append(keys, webKey(kid, key.Public()))
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"keys": keys})
	})
	i.Server = httptest.NewUnstartedServer(mux)
	if listener != nil {
		_ = i.Listener.Close()
		i.Listener = listener
	}
	i.Start()
	t.Cleanup(func() { close(i.wakes); i.Close() })
	return i
}

func rsaKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func ecKey(t *testing.T) crypto.Signer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

// webKey is a public key as RFC 7517 writes it.
func webKey(kid string, public crypto.PublicKey) map[string]string {
	number := func(n *big.Int, size int) string {
		return base64.RawURLEncoding.EncodeToString(n.FillBytes(make([]byte, size)))
	}
	switch key := public.(type) {
	case *rsa.PublicKey:
		return map[string]string{"kty": "RSA", "kid": kid, "use": "sig", "n": number(key.N, key.Size()), "e": "AQAB"}
	case *ecdsa.PublicKey:
		point, _ := key.Bytes()
		return map[string]string{
			"kty": "EC", "kid": kid, "use": "sig", "crv": "P-256",
			"x": base64.RawURLEncoding.EncodeToString(point[1:33]), "y": base64.RawURLEncoding.EncodeToString(point[33:]),
		}
	}
	panic("no such key")
}

// publish replaces the keys that the issuer tells of.
func (i *issuer) publish(keys map[string]crypto.Signer) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// subject is what no log may hold.
const subject = "ada.lovelace@example.com"

// claims are those of a good token, with changes; nil takes a claim away.
func (i *issuer) claims(now time.Time, changes map[string]any) jwt.MapClaims {
	c := jwt.MapClaims{
		"iss": i.URL, "aud": "temporal-ui", "sub": subject, "iat": now.Unix(), "exp": now.Add(time.Hour).Unix(),
		"groups": []string{"staff", "operators"},
	}
	maps.Copy(c, changes)
	maps.DeleteFunc(c, func(_ string, v any) bool { return v == nil })
	return c
}

// sign makes a token; key is usually the issuer's of that kid.
func sign(t *testing.T, kid string, key any, claims jwt.MapClaims) string {
	t.Helper()
	var method jwt.SigningMethod
	switch key.(type) {
	case *rsa.PrivateKey:
		method = jwt.SigningMethodRS256
	case *ecdsa.PrivateKey:
		method = jwt.SigningMethodES256
	case []byte:
		method = jwt.SigningMethodHS256
	default:
		method, key = jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType
	}
	token := jwt.NewWithClaims(method, claims)
	token.Header["kid"] = kid
	signed, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// token is a good one, with changes.
func (i *issuer) token(t *testing.T, now time.Time, changes map[string]any) string {
	t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	return sign(t, "rsa-1", i.keys["rsa-1"], i.claims(now, changes))
}

// sealed is a payload as Temporal keeps it, in the body that the Web UI sends.
func sealed(t *testing.T, keyring string) []byte {
	t.Helper()
	keys, err := waypost.ParseKeyring(keyring)
	if err != nil {
		t.Fatal(err)
	}
	payloads, err := workflows.NewCodec(keys).Encode([]*commonpb.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"hello"`)}})
	if err != nil {
		t.Fatal(err)
	}
	body, err := json.Marshal(commonpb.Payloads{Payloads: payloads})
	if err != nil {
		t.Fatal(err)
	}
	return body
}

// opened stands in the answer to sealed.
var opened = base64.StdEncoding.EncodeToString([]byte(`"hello"`))

const (
	codecKeys = "k1:AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA="
	uiOrigin  = "https://temporal.example.com"
)

// endpoint is a codec endpoint whose time the test sets.
type endpoint struct {
	*httptest.Server
	t      *testing.T
	issuer *issuer
	tokens *tokens
	clock  *clock
	log    *logBuffer
}

func newEndpoint(t *testing.T, change func(*config.Codec)) *endpoint {
	t.Helper()
	e := &endpoint{t: t, issuer: newIssuer(t, nil), clock: newClock(), log: new(logBuffer)}
	cfg := config.Codec{Issuer: e.issuer.URL, Audiences: config.List{"waypost-codec", "temporal-ui"}}
	if change != nil {
		change(&cfg)
	}
	log := slog.New(slog.NewTextHandler(e.log, nil))
	e.tokens = newTokens(cfg, e.clock.Now, log)
	if err := e.tokens.discover(t.Context()); err != nil {
		t.Fatal(err)
	}
	keys, err := waypost.ParseKeyring(codecKeys)
	if err != nil {
		t.Fatal(err)
	}
	e.Server = httptest.NewServer(&codecEndpoint{
		origin: uiOrigin, tokens: e.tokens, decode: converter.NewPayloadCodecHTTPHandler(workflows.NewCodec(keys)),
		observe: newMetrics().Request, log: log,
	})
	t.Cleanup(e.Close)
	return e
}

// decode asks as the Web UI does and returns the answer and its body.
func (e *endpoint) decode(header map[string]string) (*http.Response, string) {
	e.t.Helper()
	return askCodec(e.t, http.DefaultClient, e.URL, header, sealed(e.t, codecKeys))
}

// askCodec sends what Temporal's Web UI 2.55 sends, after its source (src/lib/services/
// data-encoder.ts) and the script that waypost-dev embeds: a POST to the endpoint's URL
// with /decode?preserveStorageRefs=true, the namespace, the access token as a Bearer
// token and the ID token, as it is, in Authorization-Extras, where it has them.
func askCodec(t *testing.T, client *http.Client, url string, header map[string]string, body []byte) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/decode?preserveStorageRefs=true", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{"Content-Type": "application/json", "X-Namespace": "default", "Origin": uiOrigin} {
		req.Header.Set(name, value)
	}
	for name, value := range header {
		req.Header.Set(name, value)
	}
	return do(t, client, req)
}

func do(t *testing.T, client *http.Client, req *http.Request) (*http.Response, string) {
	t.Helper()
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(body)
}

func bearer(token string) map[string]string {
	return map[string]string{"Authorization": "Bearer " + token}
}

func TestCodecTokens(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, func(c *config.Codec) { c.Require = config.Claim{Name: "groups", Value: "operators"} })
	other := newIssuer(t, nil)
	now := e.clock.Now()
	good := func(changes map[string]any) string { return e.issuer.token(t, now, changes) }
	public, err := x509.MarshalPKIXPublicKey(e.issuer.keys["rsa-1"].Public())
	if err != nil {
		t.Fatal(err)
	}
	extras := func(access, id string) map[string]string {
		return map[string]string{"Authorization": "Bearer " + access, "Authorization-Extras": id}
	}
	tests := []struct {
		name   string
		header map[string]string
		status int
		says   string
		reason string
	}{
		{"an access token", bearer(good(map[string]any{"aud": "waypost-codec"})), 200, opened, ""},
		{"of several audiences", bearer(good(map[string]any{"aud": []string{"account", "waypost-codec"}})), 200, opened, ""},
		{"signed with an elliptic curve", bearer(sign(t, "ec-1", e.issuer.keys["ec-1"], e.issuer.claims(now, nil))), 200, opened, ""},
		{"without a key id", bearer(sign(t, "", e.issuer.keys["ec-1"], e.issuer.claims(now, nil))), 200, opened, ""},
		{"a scheme in small letters", map[string]string{"Authorization": "bearer " + good(nil)}, 200, opened, ""},
		{"an ID token alone", map[string]string{"Authorization-Extras": good(nil)}, 200, opened, ""},
		{"an ID token beside an opaque access token", extras("gho_16C7e42F292c6912E7", good(nil)), 200, opened, ""},
		{"an ID token beside an access token for others", extras(good(map[string]any{"aud": "account"}), good(nil)), 200, opened, ""},
		{"groups in the ID token alone", extras(good(map[string]any{"groups": nil}), good(nil)), 200, opened, ""},
		{"the group as a single value", bearer(good(map[string]any{"groups": "operators"})), 200, opened, ""},
		{"valid from a moment ahead", bearer(good(map[string]any{"nbf": now.Add(time.Minute).Unix()})), 200, opened, ""},

		{"none", nil, 401, "there is no token", "missing"},
		{"a password", map[string]string{"Authorization": "Basic YTpi"}, 401, "no Bearer token", "malformed"},
		{"nothing behind Bearer", map[string]string{"Authorization": "Bearer"}, 401, "no JWT", "malformed"},
		{"an opaque one", bearer("gho_16C7e42F292c6912E7"), 401, "Authorization: it is no JWT", "malformed"},
		{"two that are nothing", extras("a", "b"), 401, "Authorization-Extras: it is no JWT", "malformed"},
		{"one that is too long", bearer(good(map[string]any{"x": strings.Repeat("x", maxToken)})), 401, "longer than", "malformed"},
		{"alg none", bearer(sign(t, "rsa-1", nil, e.issuer.claims(now, nil))), 401, "no JWT", "malformed"},
		{"HS256 with the public key", bearer(sign(t, "rsa-1", public, e.issuer.claims(now, nil))), 401, "no JWT", "malformed"},
		{"another's key by the same name", bearer(sign(t, "rsa-1", other.keys["rsa-1"], e.issuer.claims(now, nil))), 401, "none of the issuer's keys", "signature"},
		{"an unknown key", bearer(sign(t, "rsa-2", other.keys["rsa-1"], e.issuer.claims(now, nil))), 401, "none of the issuer's keys", "signature"},
		{"changed claims", bearer(changed(good(nil))), 401, "none of the issuer's keys", "signature"},
		{"another issuer", bearer(good(map[string]any{"iss": other.URL})), 401, "another issuer's", "claims"},
		{"no issuer", bearer(good(map[string]any{"iss": nil})), 401, "another issuer's", "claims"},
		{"an expired one", bearer(good(map[string]any{"exp": now.Add(-time.Second).Unix()})), 401, "has expired", "expired"},
		{"one that never expires", bearer(good(map[string]any{"exp": nil})), 401, "has expired", "expired"},
		{"one for later", bearer(good(map[string]any{"nbf": now.Add(10 * time.Minute).Unix()})), 401, "not valid yet", "claims"},
		{"one for others", bearer(good(map[string]any{"aud": "account"})), 401, "for somebody else", "audience"},
		{"one for nobody", bearer(good(map[string]any{"aud": nil})), 401, "for somebody else", "audience"},
		{"not of the group", bearer(good(map[string]any{"groups": []string{"staff", "operators-emeriti"}})), 403, "groups=operators", "claim"},
		{"of no group", bearer(good(map[string]any{"groups": nil})), 403, "groups=operators", "claim"},
		{"not of the group, and opaque", extras("x", good(map[string]any{"groups": nil})), 403, "Authorization-Extras: the token does not have groups=operators", "claim"},
	}
	for _, tt := range tests {
		res, body := e.decode(tt.header)
		if res.StatusCode != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s", tt.name, res.StatusCode, body)
		}
		challenge := res.Header.Get("WWW-Authenticate")
		if want := map[string]string{"missing": `Bearer realm="waypost codec"`, "claim": `Bearer realm="waypost codec", error="insufficient_scope"`, "": ""}; tt.status != 401 && challenge != want[tt.reason] || tt.status == 401 && !strings.HasPrefix(challenge, want["missing"]) {
			t.Errorf("%s: it is challenged by %q", tt.name, challenge)
		}
		// The Web UI must be able to read a refusal, too.
		if res.Header.Get("Access-Control-Allow-Origin") != uiOrigin || res.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: the header is %v", tt.name, res.Header)
		}
		if lines := strings.Split(strings.TrimSpace(e.log.String()), "\n"); tt.reason != "" && !strings.HasSuffix(lines[len(lines)-1], "reason="+tt.reason) {
			t.Errorf("%s: the log says %s", tt.name, lines[len(lines)-1])
		}
	}
	log := e.log.String()
	if got := strings.Count(log, "msg=request"); got != len(tests) {
		t.Errorf("%d requests are logged, %d were sent", got, len(tests))
	}
	for _, tt := range tests {
		for _, value := range tt.header {
			if _, token, _ := strings.Cut(value, " "); len(token) > 10 && strings.Contains(log, token) {
				t.Errorf("%s: the token is in the log", tt.name)
			}
		}
	}
	if strings.Contains(log, subject) || strings.Contains(log, "ada") {
		t.Errorf("the log tells who it was:\n%s", log)
	}
}

// changed puts other claims in the place of a token's, under its signature.
func changed(token string) string {
	parts := strings.Split(token, ".")
	raw, _ := base64.RawURLEncoding.DecodeString(parts[1])
	parts[1] = base64.RawURLEncoding.EncodeToString(bytes.Replace(raw, []byte("staff"), []byte("admin"), 1))
	return strings.Join(parts, ".")
}

func TestClaims(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		claims, name, value string
		want                bool
	}{
		{`{"groups":["a","b"]}`, "groups", "b", true},
		{`{"groups":["a","b"]}`, "groups", "c", false},
		{`{"groups":"a b"}`, "groups", "a", false},
		{`{"groups":"a b"}`, "groups", "a b", true},
		{`{"groups":[["a"]]}`, "groups", "a", false},
		{`{"groups":null}`, "groups", "a", false},
		{`{"admin":true}`, "admin", "true", false},
		{`{"https://x.example/roles":["ops"]}`, "https://x.example/roles", "ops", true},
		{`{"scope":"openid payloads.read"}`, "scope", "payloads.read", true},
		{`{"scope":"openid payloads.reader"}`, "scope", "payloads.read", false},
		{`{"scp":["payloads.read"]}`, "scp", "payloads.read", true},
		{`{}`, "groups", "a", false},
	} {
		var claims map[string]any
		if err := json.Unmarshal([]byte(tt.claims), &claims); err != nil {
			t.Fatal(err)
		}
		if got := has(claims, config.Claim{Name: tt.name, Value: tt.value}); got != tt.want {
			t.Errorf("%s has %s=%s: %v", tt.claims, tt.name, tt.value, got)
		}
	}
}

// New keys are found when a token comes that one of them has signed, withdrawn ones are
// forgotten then, and no number of strange tokens makes more than a question every few
// seconds.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, nil)
	want := func(token string, status int, when string) {
		t.Helper()
		if res, body := e.decode(bearer(token)); res.StatusCode != status {
			t.Errorf("%s: %d %s", when, res.StatusCode, body)
		}
	}
	old := e.issuer.token(t, e.clock.Now(), nil)
	want(old, 200, "at first")
	want(old, 200, "with the key that is known")
	if got := e.issuer.asked.Load(); got != 1 {
		t.Errorf("the issuer was asked %d times for its keys", got)
	}

	stranger := ecKey(t)
	var flood sync.WaitGroup
	e.clock.Advance(keysEvery)
	for n := range 100 {
		flood.Go(func() {
			token := sign(t, fmt.Sprintf("kid-%d", n), stranger, e.issuer.claims(e.clock.Now(), nil))
			if res, body := e.decode(bearer(token)); res.StatusCode != 401 {
				t.Errorf("a stranger's token: %d %s", res.StatusCode, body)
			}
		})
	}
	flood.Wait()
	if got := e.issuer.asked.Load(); got != 2 {
		t.Errorf("after 100 strange tokens the issuer was asked %d times", got)
	}

	next := rsaKey(t)
	e.issuer.publish(map[string]crypto.Signer{"rsa-2": next})
	renewed := sign(t, "rsa-2", next, e.issuer.claims(e.clock.Now(), nil))
	want(old, 200, "before anybody shows a new key")
	e.clock.Advance(keysEvery)
	want(renewed, 200, "with the new key")
	e.clock.Advance(keysEvery)
	want(old, 401, "with the key that was withdrawn")

	// Nobody shows a token of a newer key, and the old one is not believed for good.
	last := rsaKey(t)
	withdrawn := sign(t, "rsa-2", next, e.issuer.claims(e.clock.Now(), map[string]any{"exp": e.clock.Now().Add(3 * keysLife).Unix()}))
	e.issuer.publish(map[string]crypto.Signer{"rsa-3": last})
	e.clock.Advance(keysLife - 4*keysEvery)
	want(withdrawn, 200, "within the hour")
	e.clock.Advance(keysEvery)
	e.issuer.broken.Store(true)
	want(withdrawn, 200, "after an hour, with an issuer that is away")
	e.issuer.broken.Store(false)
	for _, says := range []string{`{}`, `{"keys":[]}`, `[]`, `{"keys":[{"kty":"RSA","n":1}]}`, `no JSON`} {
		e.issuer.says.Store(&says)
		e.clock.Advance(retryKeys)
		want(withdrawn, 200, "with an issuer that says "+says)
	}
	e.issuer.says.Store(nil)
	e.issuer.hangs.Store(true)
	e.clock.Advance(retryKeys)
	before := e.issuer.asked.Load()
	waiting := make(chan struct{})
	go func() {
		defer close(waiting)
		want(withdrawn, 200, "of an issuer that hangs")
	}()
	for e.issuer.asked.Load() == before { // until the question is there
		time.Sleep(time.Millisecond)
	}
	e.issuer.wakes <- struct{}{} // it ends without an answer, as the time-out does
	<-waiting
	want(withdrawn, 200, "which nobody waits for again")
	e.issuer.hangs.Store(false)
	e.issuer.publish(map[string]crypto.Signer{"rsa-3": last})
	want(withdrawn, 200, "for a while")
	e.clock.Advance(retryKeys)
	for range 2 {
		if res, body := e.decode(bearer(withdrawn)); res.StatusCode != 401 || !strings.Contains(body, "none of the issuer's keys") {
			t.Errorf("after an hour: %d %s", res.StatusCode, body)
		}
	}
	want(sign(t, "rsa-3", last, e.issuer.claims(e.clock.Now(), nil)), 200, "with the key that there is")
}

// An issuer that is away, answers nonsense or hangs keeps out those whose key is not
// known, for no longer than it takes it to heal, and nobody else.
func TestIssuerFails(t *testing.T) {
	t.Parallel()
	e := newEndpoint(t, nil)
	known := e.issuer.token(t, e.clock.Now(), nil)
	if res, body := e.decode(bearer(known)); res.StatusCode != 200 {
		t.Fatalf("%d %s", res.StatusCode, body)
	}
	next := rsaKey(t)
	e.issuer.publish(map[string]crypto.Signer{"rsa-1": e.issuer.keys["rsa-1"], "rsa-2": next})
	renewed := bearer(sign(t, "rsa-2", next, e.issuer.claims(e.clock.Now(), nil)))
	unavailable := func(when string) {
		t.Helper()
		res, body := e.decode(renewed)
		if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "does not tell its keys") {
			t.Errorf("%s: %d %s", when, res.StatusCode, body)
		}
		if res, body := e.decode(bearer(known)); res.StatusCode != 200 {
			t.Errorf("%s, with a key that is known: %d %s", when, res.StatusCode, body)
		}
	}
	e.issuer.broken.Store(true)
	e.clock.Advance(keysEvery)
	unavailable("with a broken issuer")
	unavailable("at once again") // it is not asked
	e.issuer.broken.Store(false)

	e.issuer.hangs.Store(true)
	e.clock.Advance(keysEvery)
	before := e.issuer.asked.Load()
	waiting := make(chan string, 1)
	go func() {
		res, body := e.decode(renewed)
		waiting <- fmt.Sprint(res.StatusCode, " ", body)
	}()
	for e.issuer.asked.Load() == before { // until the question is there
		time.Sleep(time.Millisecond)
	}
	if res, body := e.decode(bearer(known)); res.StatusCode != 200 {
		t.Errorf("while the issuer hangs: %d %s", res.StatusCode, body)
	}
	select {
	case got := <-waiting:
		t.Errorf("the issuer hangs, and the answer is %s", got)
	default:
	}
	if e.tokens.client.Timeout != issuerTime {
		t.Errorf("a question has %s", e.tokens.client.Timeout)
	}
	e.issuer.wakes <- struct{}{} // it ends without an answer, as the time-out does
	if got := <-waiting; !strings.HasPrefix(got, "503 ") {
		t.Errorf("with an issuer that hangs: %s", got)
	}
	e.issuer.hangs.Store(false)
	e.clock.Advance(keysEvery)
	if res, body := e.decode(renewed); res.StatusCode != 200 {
		t.Errorf("after it has healed: %d %s", res.StatusCode, body)
	}
	if !strings.Contains(e.log.String(), "502 Bad Gateway") {
		t.Errorf("the log does not tell what the issuer answers:\n%s", e.log.String())
	}
}

// Only an issuer that is what the setting says, and whose keys come over the same
// protection, is believed.
func TestDiscovery(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, nil)
	log := slog.New(slog.DiscardHandler)
	slash := newTokens(config.Codec{Issuer: i.URL + "/"}, time.Now, log)
	if err := slash.discover(t.Context()); err == nil || !strings.Contains(err.Error(), "WAYPOST_CODEC_OIDC_ISSUER is "+i.URL+"/, and the issuer calls itself "+i.URL) {
		t.Errorf("with a slash too many: %v", err)
	}
	var secure *httptest.Server
	secure = httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/moved/"):
			http.Redirect(w, r, i.URL+"/.well-known/openid-configuration", http.StatusFound)
		default:
			_, _ = fmt.Fprintf(w, `{"issuer":%q,"jwks_uri":%q}`, secure.URL, i.URL+"/keys")
		}
	}))
	t.Cleanup(secure.Close)
	for issuer, want := range map[string]string{secure.URL: "no https URL", secure.URL + "/moved": "302"} {
		checked := newTokens(config.Codec{Issuer: issuer}, time.Now, log)
		checked.client.Transport = secure.Client().Transport
		if err := checked.discover(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", issuer, err)
		}
		if checked.ready(t.Context()) == nil {
			t.Errorf("%s is ready", issuer)
		}
	}
}

func TestOrigins(t *testing.T) {
	t.Parallel()
	for page, want := range map[string]string{
		"https://Temporal.example.com/ui":  "https://temporal.example.com",
		"https://temporal.example.com:443": "https://temporal.example.com",
		"http://temporal.example.com:80/":  "http://temporal.example.com",
		"http://temporal.example.com:443":  "http://temporal.example.com:443",
		"http://127.0.0.1:8233":            "http://127.0.0.1:8233",
		"https://[::1]:443":                "https://[::1]",
		"https://[::1]:8233":               "https://[::1]:8233",
	} {
		if got, err := originOf(page); err != nil || got != want {
			t.Errorf("%s: %q, %v; want %q", page, got, err, want)
		}
	}
}

// runCodec runs the role until the test ends.
func runCodec(t *testing.T, cfg config.Config, log io.Writer) (addr string, stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan string, 1), make(chan error, 1)
	go func() {
		ended <- Codec(ctx, cfg, slog.New(slog.NewTextHandler(log, nil)), func(addr string) { ready <- addr })
	}()
	t.Cleanup(cancel)
	select {
	case addr = <-ready:
	case err := <-ended:
		t.Fatalf("the codec endpoint ended: %v", err)
	}
	return addr, func() error {
		cancel()
		for { // whoever watches /readyz is told before the port closes
			select {
			case err := <-ended:
				return err
			default:
			}
			if res, err := http.Get("http://" + cfg.Admin.Addr + "/readyz"); err == nil {
				_ = res.Body.Close()
			}
		}
	}
}

func codecConfig(t *testing.T, issuer string) config.Config {
	t.Helper()
	return config.Config{
		Admin:      config.Admin{Addr: freeAddr(t)},
		Encryption: config.Encryption{Keys: codecKeys},
		Temporal:   config.Temporal{UIURL: uiOrigin + "/"},
		Codec:      config.Codec{Addr: "127.0.0.1:0", Issuer: issuer, Audiences: config.List{"temporal-ui"}},
	}
}

// The whole role, over HTTPS, asked as the Web UI asks.
func TestCodecForTheWebUI(t *testing.T) {
	t.Parallel()
	i := newIssuer(t, nil)
	cfg := codecConfig(t, i.URL)
	files, trust := tlsFiles(t)
	cfg.TLS = files
	var log logBuffer
	addr, stop := runCodec(t, cfg, &log)
	waitReady(t, cfg.Admin.Addr)
	browser := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true}}
	url, token := "https://"+addr, bearer(i.token(t, time.Now(), nil))
	send := func(method, path, origin string, header map[string]string, body []byte) (*http.Response, string) {
		req, err := http.NewRequestWithContext(t.Context(), method, url+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		if origin != "" {
			req.Header.Set("Origin", origin)
		}
		for name, value := range header {
			req.Header.Set(name, value)
		}
		return do(t, browser, req)
	}

	preflight, _ := send(http.MethodOptions, "/decode?preserveStorageRefs=true", uiOrigin, map[string]string{
		"Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,authorization-extras,content-type,x-namespace",
	}, nil)
	if preflight.StatusCode != 204 || preflight.Header.Get("Access-Control-Allow-Origin") != uiOrigin || preflight.Header.Get("Access-Control-Allow-Methods") != "POST" || preflight.ProtoMajor != 2 {
		t.Errorf("the preflight gets %s, %v", preflight.Status, preflight.Header)
	}
	allowed := strings.ToLower(preflight.Header.Get("Access-Control-Allow-Headers"))
	for _, header := range []string{"authorization", "authorization-extras", "content-type", "x-namespace"} {
		if !strings.Contains(", "+allowed+",", ", "+header+",") {
			t.Errorf("the Web UI must not send %s: %s", header, allowed)
		}
	}
	if res, body := askCodec(t, browser, url, token, sealed(t, codecKeys)); res.StatusCode != 200 || !strings.Contains(body, opened) || res.Header.Get("Access-Control-Allow-Origin") != uiOrigin {
		t.Errorf("%s, %v: %s", res.Status, res.Header, body)
	}
	for _, tt := range []struct {
		name, method, path, origin string
		header                     map[string]string
		body                       []byte
		status                     int
		says                       string
	}{
		{"a program", "POST", "/decode", "", token, sealed(t, codecKeys), 200, opened},
		{"another page", "POST", "/decode", "https://evil.example", token, sealed(t, codecKeys), 403, "not of Temporal's Web UI"},
		{"its preflight", "OPTIONS", "/decode", "https://evil.example", nil, nil, 403, "not of Temporal's Web UI"},
		{"a page from a file", "POST", "/decode", "null", token, sealed(t, codecKeys), 403, "not of Temporal's Web UI"},
		{"encoding", "POST", "/encode", uiOrigin, token, sealed(t, codecKeys), 404, "POST /decode"},
		{"reading", "GET", "/decode", uiOrigin, token, nil, 405, "POST"},
		{"an invented method", "ADA", "/decode", uiOrigin, token, nil, 405, "POST"},
		{"without a token", "POST", "/decode", uiOrigin, nil, sealed(t, codecKeys), 401, "TEMPORAL_CODEC_PASS_ACCESS_TOKEN"},
		{"no JSON", "POST", "/decode", uiOrigin, token, []byte("{"), 400, "unexpected EOF"},
		{"a key that is not there", "POST", "/decode", uiOrigin, token, sealed(t, "k9"+strings.TrimPrefix(codecKeys, "k1")), 400, "WAYPOST_ENCRYPTION_KEYS"},
		{"too much", "POST", "/decode", uiOrigin, token, bytes.Repeat([]byte(" "), maxCodecBody+1), 413, "16777216"},
	} {
		res, body := send(tt.method, tt.path, tt.origin, tt.header, tt.body)
		if res.StatusCode != tt.status || !strings.Contains(body, tt.says) {
			t.Errorf("%s: %d %s", tt.name, res.StatusCode, body)
		}
		if got := res.Header.Get("Access-Control-Allow-Origin"); got != "" && got != tt.origin || tt.status == 405 && res.Header.Get("Allow") != "POST, OPTIONS" {
			t.Errorf("%s: the header is %v", tt.name, res.Header)
		}
	}
	// What the temporal command and other programs decode with.
	var payload commonpb.Payloads
	if err := json.Unmarshal(sealed(t, codecKeys), &payload); err != nil {
		t.Fatal(err)
	}
	remote := converter.NewRemotePayloadCodec(converter.RemotePayloadCodecOptions{Endpoint: url, Client: *browser, ModifyRequest: func(r *http.Request) error {
		r.Header.Set("Authorization", token["Authorization"])
		return nil
	}})
	if plain, err := remote.Decode(payload.Payloads); err != nil || len(plain) != 1 || string(plain[0].Data) != `"hello"` {
		t.Errorf("the SDK's remote codec: %v, %v", plain, err)
	}
	_, metrics := get(t, cfg.Admin.Addr, "/metrics")
	for _, want := range []string{
		`waypost_http_requests_total{method="POST",route="/decode",status="200"} 3`,
		`waypost_http_requests_total{method="POST",route="/decode",status="401"} 1`,
		`waypost_http_requests_total{method="POST",route="none",status="404"} 1`,
		`waypost_http_requests_total{method="UNKNOWN",route="/decode",status="405"} 1`,
	} {
		if !strings.Contains(metrics, "\n"+want+"\n") {
			t.Errorf("/metrics does not have %s", want)
		}
	}
	if err := stop(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if strings.Contains(log.String(), subject) || strings.Contains(log.String(), token["Authorization"][len("Bearer "):]) {
		t.Errorf("the log tells too much:\n%s", log.String())
	}
}

func waitReady(t *testing.T, admin string) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(5 * time.Millisecond) {
		status, body := get(t, admin, "/readyz")
		if status == http.StatusOK {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("/readyz answers %d %s", status, body)
		}
	}
}

// The role starts while the issuer is away, says so, and heals by itself.
func TestCodecStartsWithoutTheIssuer(t *testing.T) {
	t.Parallel()
	addr := freeAddr(t)
	cfg := codecConfig(t, "http://"+addr)
	var log logBuffer
	codec, stop := runCodec(t, cfg, &log)
	if status, body := get(t, cfg.Admin.Addr, "/readyz"); status != 503 || !strings.Contains(body, `"issuer":"away"`) {
		t.Errorf("/readyz answers %d %s", status, body)
	}
	res, body := askCodec(t, http.DefaultClient, "http://"+codec, bearer("x"), sealed(t, codecKeys))
	if res.StatusCode != 503 || res.Header.Get("Retry-After") == "" || !strings.Contains(body, "has not answered yet") {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	var lc net.ListenConfig
	held, err := lc.Listen(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	i := newIssuer(t, held)
	waitReady(t, cfg.Admin.Addr)
	token := bearer(i.token(t, time.Now(), nil))
	if res, body := askCodec(t, http.DefaultClient, "http://"+codec, token, sealed(t, codecKeys)); res.StatusCode != 200 || !strings.Contains(body, opened) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
	i.Close()
	if res, body := askCodec(t, http.DefaultClient, "http://"+codec, token, sealed(t, codecKeys)); res.StatusCode != 200 {
		t.Errorf("with keys that are known, while the issuer is away: %d %s", res.StatusCode, body)
	}
	if status, body := get(t, cfg.Admin.Addr, "/readyz"); status != 200 {
		t.Errorf("/readyz answers %d %s", status, body)
	}
	if err := stop(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	if got := strings.Count(log.String(), "does not answer as it should"); got != 1 {
		t.Errorf("the issuer's absence is logged %d times:\n%s", got, log.String())
	}
}
