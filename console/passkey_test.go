package console

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"encoding/json"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"github.com/descope/virtualwebauthn"

	"waypost"
)

var shownOptions = regexp.MustCompile(`data-options="([^"]+)"`)

// atLocalhost has the console at a host that can have passkeys.
func atLocalhost(o *Options) { o.URL = strings.Replace(o.URL, "127.0.0.1", "localhost", 1) }

// party is the console as an authenticator knows it.
func party(s *site) virtualwebauthn.RelyingParty {
	return virtualwebauthn.RelyingParty{Name: "Waypost", ID: "localhost", Origin: strings.Replace(s.url, "127.0.0.1", "localhost", 1)}
}

// device is an authenticator with one passkey.
type device struct {
	virtualwebauthn.Authenticator
	key virtualwebauthn.Credential
}

func newDevice(t *testing.T, owner waypost.User) *device {
	t.Helper()
	options := virtualwebauthn.AuthenticatorOptions{UserHandle: []byte(owner.ID)}
	d := &device{Authenticator: virtualwebauthn.NewAuthenticatorWithOptions(options), key: newKey(t)}
	d.AddCredential(d.key)
	return d
}

// newKey is a key whose coordinates begin with no zero byte: the virtual authenticator leaves that out.
func newKey(t *testing.T) virtualwebauthn.Credential {
	t.Helper()
	for {
		key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			t.Fatal(err)
		}
		point, err := key.PublicKey.Bytes() // 4, X, Y
		if err != nil {
			t.Fatal(err)
		}
		if point[1] == 0 || point[33] == 0 {
			continue
		}
		encoded, err := x509.MarshalPKCS8PrivateKey(key)
		if err != nil {
			t.Fatal(err)
		}
		return virtualwebauthn.NewCredentialWithImportedKey(virtualwebauthn.KeyTypeEC2, encoded)
	}
}

// asks is what a page asks passkeys.
func asks(t *testing.T, got shown) string {
	t.Helper()
	found := shownOptions.FindStringSubmatch(got.Body)
	if found == nil {
		t.Fatalf("HTTP %d, to %q: no options", got.Status, got.To())
	}
	return html.UnescapeString(found[1])
}

// made is the answer of a device to the options of a new passkey.
func (d *device) made(t *testing.T, party virtualwebauthn.RelyingParty, options string) string {
	t.Helper()
	asked, err := virtualwebauthn.ParseAttestationOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	return virtualwebauthn.CreateAttestationResponse(party, d.Authenticator, d.key, *asked)
}

// answer is the answer of a device to the options of a sign-in.
func (d *device) answer(t *testing.T, party virtualwebauthn.RelyingParty, options string) string {
	t.Helper()
	asked, err := virtualwebauthn.ParseAssertionOptions(options)
	if err != nil {
		t.Fatal(err)
	}
	d.key.Counter++
	return virtualwebauthn.CreateAssertionResponse(party, d.Authenticator, d.key, *asked)
}

// withPasskey is a user who has a password and a passkey.
func (s *site) withPasskey(role waypost.Role) (waypost.User, *device) {
	s.t.Helper()
	u := s.withPassword(role)
	d := newDevice(s.t, u)
	v := s.signedIn(u, "curl/8.0")
	v.post("/second-factor/prove", url.Values{"password": {secret}})
	made := d.made(s.t, party(s), asks(s.t, v.get(factorPath)))
	got := v.post("/second-factor/passkeys", url.Values{"credential": {made}, "name": {"Key <1>"}})
	if got.Status != http.StatusOK || len(shownCode.FindAllString(got.Body, -1)) != recoveryCodes {
		s.t.Fatalf("HTTP %d, to %q\n%s", got.Status, got.To(), s.log.String())
	}
	return u, d
}

func (v *visitor) passkey(credential string) shown {
	return v.post("/sign-in/passkey", url.Values{"credential": {credential}})
}

func TestPasskey(t *testing.T) {
	t.Parallel()
	s := newSite(t, atLocalhost)
	u, d := s.withPasskey(waypost.RoleAdmin)
	v := s.guest()
	if got := v.signIn(u.Email, secret); got.To() != secondStepPath || goesOn(v) {
		t.Fatalf("HTTP %d, to %q", got.Status, got.To())
	}
	answer := d.answer(t, party(s), asks(t, v.get(secondStepPath)))
	if got := v.passkey(answer); got.To() != "/deliveries?status=failed" || !goesOn(v) {
		t.Fatalf("HTTP %d, to %q", got.Status, got.To())
	}
	found, err := s.store.User(t.Context(), u.ID)
	if keys := found.SecondFactor.Passkeys; err != nil || len(keys) != 1 || keys[0].UsedAt.IsZero() || keys[0].Name != "Key <1>" {
		t.Errorf("%+v, %v", keys, err)
	}

	again := s.guest()
	again.signIn(u.Email, secret)
	again.get(secondStepPath)
	if got := again.passkey(answer); got.Status != http.StatusUnauthorized || goesOn(again) {
		t.Errorf("an answer of before: HTTP %d", got.Status)
	}
	evil := party(s)
	evil.Origin = "https://evil.example"
	otherID := party(s)
	otherID.ID = "evil.example"
	_, otherDevice := s.withPasskey(waypost.RoleViewer)
	for name, forge := range map[string]func(options string) string{
		"another origin":         func(o string) string { return d.answer(t, evil, o) },
		"another relying party":  func(o string) string { return d.answer(t, otherID, o) },
		"another person's":       func(o string) string { return otherDevice.answer(t, party(s), o) },
		"none":                   func(string) string { return "" },
		"no answer":              func(string) string { return `{"id":"AAAA","type":"public-key"}` },
		"not JSON":               func(string) string { return "%%%" },
		"the answer of creation": func(string) string { return d.made(t, party(s), creation) },
		"another challenge": func(o string) string {
			return d.answer(t, party(s), strings.Replace(o, `"challenge":"`, `"challenge":"AAAA`, 1))
		},
		"a copy, which has counted fewer uses": func(o string) string {
			d.key.Counter = 0
			defer func() { d.key.Counter = 100 }()
			return d.answer(t, party(s), o)
		},
	} {
		w := s.guest()
		w.signIn(u.Email, secret)
		asked := asks(t, w.get(secondStepPath))
		if got := w.passkey(forge(asked)); got.Status != http.StatusUnauthorized || goesOn(w) {
			t.Errorf("%s: HTTP %d, to %q", name, got.Status, got.To())
		}
		s.redis.FlushAll() // the tries
	}
	d.key.Counter = 100
	w := s.guest()
	w.signIn(u.Email, secret)
	asked := asks(t, w.get(secondStepPath))
	if got := s.guest().passkey(d.answer(t, party(s), asked)); got.To() != "/sign-in" {
		t.Errorf("without the password: HTTP %d", got.Status)
	}
	right := d.answer(t, party(s), asked)
	w.secondStep("000000") // which asks anew
	if got := w.passkey(right); got.Status != http.StatusUnauthorized {
		t.Errorf("an answer to the question of before: HTTP %d", got.Status)
	}
	if got := w.passkey(d.answer(t, party(s), asks(t, w.get(secondStepPath)))); got.Status != http.StatusSeeOther {
		t.Errorf("HTTP %d", got.Status)
	}
}

// creation are options of a new passkey, as a page has had them.
const creation = `{"publicKey":{"rp":{"name":"Waypost","id":"localhost"},"user":{"name":"a","displayName":"a","id":"YQ"},
	"challenge":"MDEyMzQ1Njc4OTAxMjM0NTY3ODkwMTIzNDU2Nzg5MDE","pubKeyCredParams":[{"type":"public-key","alg":-7}]}}`

// A passkey is added with a proof alone, for the console's origin, once, and removed.
func TestAddPasskey(t *testing.T) {
	t.Parallel()
	s := newSite(t, atLocalhost)
	u, first := s.withPasskey(waypost.RoleViewer)
	v := s.guest()
	v.signIn(u.Email, secret)
	v.passkey(first.answer(t, party(s), asks(t, v.get(secondStepPath))))
	second := newDevice(t, u)
	if got := v.post("/second-factor/passkeys", url.Values{"credential": {second.made(t, party(s), creation)}}); got.To() != factorPath {
		t.Errorf("without a proof: HTTP %d, to %q", got.Status, got.To())
	}
	if got := v.get(factorPath); shownOptions.MatchString(got.Body) {
		t.Error("a passkey is asked for without a proof")
	}
	v.post("/second-factor/prove", url.Values{"password": {secret}})
	asked := asks(t, v.get(factorPath))
	var wire struct {
		PublicKey struct {
			ExcludeCredentials []struct{ ID string }
		}
	}
	if err := json.Unmarshal([]byte(asked), &wire); err != nil || len(wire.PublicKey.ExcludeCredentials) != 1 {
		t.Errorf("%v: the one that there is may be made again: %s", err, asked)
	}
	evil := party(s)
	evil.Origin = "https://evil.example"
	passkeys := func() int {
		found, err := s.store.User(t.Context(), u.ID)
		if err != nil {
			t.Fatal(err)
		}
		return len(found.SecondFactor.Passkeys)
	}
	for name, forge := range map[string]func(options string) string{
		"another origin":    func(o string) string { return second.made(t, evil, o) },
		"another challenge": func(string) string { return second.made(t, party(s), creation) },
		"none":              func(string) string { return "" },
	} {
		got := v.post("/second-factor/passkeys", url.Values{"credential": {forge(asked)}})
		if got.To() != factorPath || passkeys() != 1 {
			t.Errorf("%s: HTTP %d, %d passkeys", name, got.Status, passkeys())
		}
		asked = asks(t, v.get(factorPath))
	}
	credential := second.made(t, party(s), asked)
	for range 2 { // it is taken once
		v.post("/second-factor/passkeys", url.Values{"credential": {credential}, "name": {" "}})
	}
	if passkeys() != 2 {
		t.Fatalf("%d passkeys\n%s", passkeys(), s.log.String())
	}
	if got := v.get(factorPath).Body; !strings.Contains(got, "Key &lt;1&gt;") || !strings.Contains(got, "Go-http-client") {
		t.Errorf("the page has not both: %s", got)
	}
	found, err := s.store.User(t.Context(), u.ID)
	if err != nil {
		t.Fatal(err)
	}
	for i, p := range found.SecondFactor.Passkeys {
		v.post("/second-factor/passkeys/"+p.ID+"/remove", nil)
		if passkeys() != 1-i {
			t.Errorf("%d passkeys", passkeys())
		}
	}
	if got := s.guest().signIn(u.Email, secret); got.To() == secondStepPath {
		t.Error("a removed one is asked for")
	}
}

// Passkeys are of a host, over HTTPS or at localhost.
func TestRelyingParty(t *testing.T) {
	t.Parallel()
	for address, want := range map[string]string{
		"https://console.example.com": "console.example.com", "https://console.example.com:8443": "console.example.com",
		"http://localhost:8082": "localhost",
		"http://127.0.0.1:8082": "", "https://192.0.2.1": "", "https://[::1]:8082": "", "http://console.example.com": "",
	} {
		got, err := newRelyingParty(address)
		switch {
		case err != nil:
			t.Errorf("%s: %v", address, err)
		case got == nil && want != "" || got != nil && got.Config.RPID != want:
			t.Errorf("%s: %+v, want %q", address, got, want)
		}
	}
	s := newSite(t)
	u := s.withPassword(waypost.RoleViewer)
	v := s.signedIn(u, "curl/8.0")
	v.post("/second-factor/prove", url.Values{"password": {secret}})
	if got := v.get(factorPath); strings.Contains(got.Body, "Passkeys") {
		t.Error("passkeys are offered at an IP address")
	}
	if got := v.post("/second-factor/passkeys", nil); got.To() != factorPath {
		t.Errorf("HTTP %d", got.Status)
	}
}
