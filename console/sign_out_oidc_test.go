package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"waypost"
)

// logoutToken signs a logout token of the issuer; a claim that is nil is left out.
func (p *provider) logoutToken(t *testing.T, changed map[string]any) string {
	t.Helper()
	claims := map[string]any{
		"iss": p.url, "aud": "console", "iat": time.Now().Unix(), "exp": time.Now().Add(2 * time.Minute).Unix(),
		"jti": fmt.Sprint("token ", people.Add(1)), "events": map[string]any{logoutEvent: map[string]any{}},
	}
	maps.Copy(claims, changed)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	text, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	return oidctest.SignIDToken(p.key, "k", oidc.RS256, string(text))
}

// logout sends a logout token as an issuer does, without a browser.
func (s *site) logout(token string) shown {
	s.t.Helper()
	return s.guest().post(logoutPath, url.Values{"logout_token": {token}})
}

func goesOnAt(v *visitor) bool { return v.get("/deliveries").Status == http.StatusOK }

// The issuer ends the sessions of one of its sessions, or all of an account; each token counts once.
func TestBackChannelLogout(t *testing.T) {
	t.Parallel()
	p, s := oidcSite(t)
	known, link := s.user(waypost.RoleViewer)
	in := func(account, email, sid string) *visitor {
		v := s.guest()
		claims := verified(account, email, "marketing")
		claims["sid"] = sid
		if got := p.visit(v, claims); !got.in() {
			t.Fatalf("%s: to %q", account, got.To())
		}
		return v
	}
	byLink := s.guest()
	byLink.post("/sign-in/link", url.Values{"token": {link}})
	laptop, phone, other := in("one", known.Email, "s1"), in("one", known.Email, "s2"), in("two", "other@example.com", "s1")
	all := []*visitor{laptop, phone, other, byLink}
	wantOn := func(what string, want ...bool) {
		t.Helper()
		for i, v := range all {
			if goesOnAt(v) != want[i] {
				t.Errorf("%s: session %d goes on: %v", what, i, !want[i])
			}
		}
	}
	ok := func(what string, claims map[string]any) {
		t.Helper()
		if got := s.logout(p.logoutToken(t, claims)); got.Status != http.StatusOK || got.Body != "" || got.Header.Get("Cache-Control") != "no-store" || len(got.Header.Values("Set-Cookie")) > 0 {
			t.Errorf("%s: HTTP %d %s %v", what, got.Status, got.Body, got.Header)
		}
	}
	ok("nobody's account", map[string]any{"sub": "three"})
	ok("nobody's session", map[string]any{"sub": "one", "sid": "s3"})
	wantOn("of nobody", true, true, true, true)
	token := p.logoutToken(t, map[string]any{"sub": "one", "sid": "s1"})
	if got := s.logout(token); got.Status != http.StatusOK {
		t.Errorf("a session: HTTP %d %s", got.Status, got.Body)
	}
	wantOn("one session", false, true, true, true)
	if got := s.logout(token); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "used before") || got.Header.Get("Cache-Control") != "no-store" {
		t.Errorf("the same token again: HTTP %d %s", got.Status, got.Body)
	}
	laptop = in("one", known.Email, "s1")
	all[0] = laptop
	ok("a session of whatever account", map[string]any{"sid": "s1"})
	wantOn("all of s1", false, true, false, true)
	ok("an account", map[string]any{"sub": "one"})
	wantOn("all of the account", false, false, false, false)

	ended := 0
	for _, line := range s.audited() {
		if strings.HasPrefix(line, p.url+" session.end "+known.ID) {
			ended++
		}
	}
	if ended != 3 {
		t.Errorf("%d entries of ended sessions:\n%s", ended, strings.Join(s.audited(), "\n"))
	}
	for _, key := range s.redis.Keys() {
		if value, err := s.redis.Get(key); err == nil && (strings.Contains(value, "s1") && strings.Contains(value, known.Email)) {
			t.Errorf("Redis has %s", key)
		}
	}
}

// What is not a logout token of this issuer for this console, now, ends nothing.
func TestWrongLogoutTokens(t *testing.T) {
	t.Parallel()
	p, s := oidcSite(t)
	stranger := newProvider(t)
	known, _ := s.user(waypost.RoleViewer)
	v := s.guest()
	if got := p.visit(v, verified("one", known.Email)); !got.in() {
		t.Fatalf("to %q", got.To())
	}
	now := time.Now()
	tokens := map[string]string{"none": "", "no token": "x.y.z", "an ID token": oidctest.SignIDToken(p.key, "k", oidc.RS256, string(func() []byte {
		text, _ := json.Marshal(p.claims)
		return text
	}()))}
	for what, changed := range map[string]map[string]any{
		"another audience": {"aud": "other"}, "another issuer": {"iss": stranger.url}, "no audience": {"aud": nil}, "no events": {"events": nil},
		"another event": {"events": map[string]any{"http://example.com": map[string]any{}}}, "an event that is no object": {"events": map[string]any{logoutEvent: nil}},
		"a nonce": {"nonce": "n"}, "an empty nonce": {"nonce": ""}, "no jti": {"jti": nil}, "nobody": {"sub": nil},
		"expired": {"exp": now.Add(-time.Minute).Unix()}, "no exp": {"exp": nil}, "old": {"iat": now.Add(-logoutAge - time.Minute).Unix()}, "no iat": {"iat": nil},
		"of the future": {"iat": now.Add(logoutSkew + time.Minute).Unix()},
	} {
		claims := map[string]any{"sub": "one"}
		maps.Copy(claims, changed)
		tokens[what] = p.logoutToken(t, claims)
	}
	right := strings.Split(p.logoutToken(t, map[string]any{"sub": "one"}), ".")
	tokens["without a signature"] = "eyJhbGciOiJub25lIn0." + right[1] + "."
	tokens["signed by another one"] = strings.Join([]string{right[0], right[1], strings.Split(stranger.logoutToken(t, map[string]any{"iss": p.url, "sub": "one"}), ".")[2]}, ".")
	if len(tokens) > freeAddressTries {
		t.Fatal("the last ones would have to wait")
	}
	for what, token := range tokens {
		got := s.guest().do(http.MethodPost, logoutPath, url.Values{"logout_token": {token}}, nil)
		if got.Status != http.StatusBadRequest || !strings.HasPrefix(got.Body, `{"error":"invalid_request"`) || got.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: HTTP %d %s", what, got.Status, got.Body)
		}
	}
	if !goesOnAt(v) {
		t.Error("the session has ended")
	}
	// Who sends many of them must wait; another site's form is none of the issuer's.
	last := 0
	for range freeAddressTries + 2 {
		last = s.logout("x.y.z").Status
	}
	if last != http.StatusTooManyRequests {
		t.Errorf("after many: HTTP %d", last)
	}
	cross := s.guest().do(http.MethodPost, logoutPath, url.Values{"logout_token": {p.logoutToken(t, map[string]any{"sub": "one"})}}, http.Header{"Sec-Fetch-Site": {"cross-site"}})
	if cross.Status != http.StatusForbidden || !goesOnAt(v) {
		t.Errorf("from another site: HTTP %d", cross.Status)
	}
	if got := newSite(t).logout("x"); got.Status != http.StatusNotFound {
		t.Errorf("without an issuer: HTTP %d", got.Status)
	}
}
