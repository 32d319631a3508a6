package console

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"

	"waypost"
)

// provider is an issuer with one client. Whoever is sent to it is the person that its
// claims describe.
type provider struct {
	oidctest.Server
	url string
	key *rsa.PrivateKey

	mu        sync.Mutex
	claims    map[string]any
	challenge string // of the code that was given last
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &provider{key: key, Server: oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "k", Algorithm: oidc.RS256}}}}
	server := httptest.NewServer(http.HandlerFunc(p.serve))
	t.Cleanup(server.Close)
	p.url = server.URL
	p.SetIssuer(server.URL)
	return p
}

func (p *provider) serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/token" {
		p.ServeHTTP(w, r)
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
	id, password, _ := r.BasicAuth()
	if base64.RawURLEncoding.EncodeToString(sum[:]) != p.challenge || r.PostFormValue("code") != "the code" || id != "console" || password != "shh" {
		http.Error(w, `{"error":"invalid_grant"}`, http.StatusBadRequest)
		return
	}
	claims, _ := json.Marshal(p.claims) // they come from tests
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"access_token": "a", "token_type": "Bearer", "id_token": oidctest.SignIDToken(p.key, "k", oidc.RS256, string(claims)),
	})
}

// visit has a browser go to the issuer and come back, as the person of the claims.
func (p *provider) visit(v *visitor, claims map[string]any) shown {
	v.s.t.Helper()
	to := v.get("/sign-in/oidc?back=/deliveries%3Fstatus%3Dfailed")
	at, err := url.Parse(to.To())
	if err != nil || !strings.HasPrefix(to.To(), p.url) {
		v.s.t.Fatalf("HTTP %d, to %q", to.Status, to.To())
	}
	asked := at.Query()
	if asked.Get("redirect_uri") != v.s.url+"/sign-in/oidc/callback" || asked.Get("code_challenge_method") != "S256" {
		v.s.t.Errorf("asked %v", asked)
	}
	p.mu.Lock()
	p.challenge = asked.Get("code_challenge")
	p.claims = map[string]any{"iss": p.url, "aud": "console", "sub": fmt.Sprintf("account of %v", claims["email"]), "exp": time.Now().Add(time.Hour).Unix(), "nonce": asked.Get("nonce")}
	maps.Copy(p.claims, claims)
	p.mu.Unlock()
	return v.get("/sign-in/oidc/callback?" + url.Values{"state": {asked.Get("state")}, "code": {"the code"}}.Encode())
}

func TestOIDC(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := newSite(t, func(o *Options) {
		o.OIDC = OIDC{Issuer: p.url, ClientID: "console", ClientSecret: "shh", Roles: []RoleClaim{
			{"groups", "marketing", waypost.RoleMarketer}, {"groups", "ops", waypost.RoleAdmin}, {"department", "sales", waypost.RoleViewer},
		}}
	})
	known, _ := s.user(waypost.RoleViewer)
	disabled, _ := s.user(waypost.RoleAdmin)
	if err := s.store.DisableUser(t.Context(), ops, disabled.ID); err != nil {
		t.Fatal(err)
	}
	if got := s.guest().get("/sign-in"); !strings.Contains(got.Body, "/sign-in/oidc?back=%2f") {
		t.Errorf("the sign-in does not offer it: %s", got.Body)
	}
	for name, tt := range map[string]struct {
		claims map[string]any
		role   waypost.Role // "": not let in
	}{
		"known by address":    {map[string]any{"email": strings.ToUpper(known.Email), "email_verified": true, "sub": "account of " + known.Email}, waypost.RoleViewer},
		"no account":          {map[string]any{"email": known.Email, "email_verified": true, "sub": ""}, ""},
		"a long account":      {map[string]any{"email": known.Email, "email_verified": true, "sub": strings.Repeat("a", 256)}, ""},
		"not verified":        {map[string]any{"email": known.Email, "email_verified": false, "sub": "not verified"}, ""},
		"no address":          {map[string]any{"groups": []string{"ops"}}, ""},
		"unknown":             {map[string]any{"email": "new@example.com", "email_verified": true, "groups": []string{"guests"}}, ""},
		"disabled":            {map[string]any{"email": disabled.Email, "email_verified": true, "groups": []string{"ops"}}, ""},
		"by a claim":          {map[string]any{"email": "sales@example.com", "email_verified": true, "department": "sales"}, waypost.RoleViewer},
		"by a list of claims": {map[string]any{"email": "boss@example.com", "email_verified": true, "name": "Boss", "groups": []string{"marketing", "ops"}}, waypost.RoleAdmin},
		"another nonce":       {map[string]any{"email": known.Email, "email_verified": true, "nonce": "x"}, ""},
		"another audience":    {map[string]any{"email": known.Email, "email_verified": true, "aud": "x"}, ""},
		"expired":             {map[string]any{"email": known.Email, "email_verified": true, "exp": 1}, ""},
	} {
		v := s.guest()
		got := p.visit(v, tt.claims)
		if tt.role == "" {
			if got.To() != "/sign-in" || v.get("/deliveries").Status == http.StatusOK {
				t.Errorf("%s: to %q", name, got.To())
			}
			if says := v.get("/sign-in").Body; !strings.Contains(says, "Your organisation did not sign you in") && name != "" {
				t.Errorf("%s: the sign-in does not say that it failed", name)
			}
			continue
		}
		if got.To() != "/deliveries?status=failed" || v.get("/deliveries").Status != http.StatusOK {
			t.Errorf("%s: HTTP %d, to %q\n%s", name, got.Status, got.To(), s.log.String())
			continue
		}
		email := strings.ToLower(tt.claims["email"].(string))
		if u, err := s.store.UserByEmail(t.Context(), testOrg, email); err != nil || u.Role != tt.role {
			t.Errorf("%s: %+v, %v", name, u, err)
		}
	}
	// A claim changes the role that the person had.
	if got := p.visit(s.guest(), map[string]any{"email": known.Email, "email_verified": true, "groups": "marketing"}); got.Status != http.StatusSeeOther {
		t.Errorf("HTTP %d", got.Status)
	}
	if u, err := s.store.User(t.Context(), known.ID); err != nil || u.Role != waypost.RoleMarketer {
		t.Errorf("%+v, %v", u, err)
	}
	// Without what the session holds, the way back leads nowhere.
	for name, query := range map[string]string{"no session": "state=x&code=the+code", "no state": "code=the+code", "refused": "state=x&error=access_denied"} {
		if got := s.guest().get("/sign-in/oidc/callback?" + query); got.To() != "/sign-in" {
			t.Errorf("%s: HTTP %d, to %q", name, got.Status, got.To())
		}
	}
}

// oidcSite is a console with an issuer, whose claims give roles.
func oidcSite(t *testing.T) (*provider, *site) {
	p := newProvider(t)
	return p, newSite(t, func(o *Options) {
		o.OIDC = OIDC{Issuer: p.url, ClientID: "console", ClientSecret: "shh", Roles: []RoleClaim{
			{"groups", "marketing", waypost.RoleMarketer}, {"groups", "ops", waypost.RoleAdmin},
		}}
	})
}

// verified are claims of an account with an address that the issuer has verified.
func verified(account, email string, groups ...string) map[string]any {
	claims := map[string]any{"sub": account, "email": email, "email_verified": true}
	if len(groups) > 0 {
		claims["groups"] = groups
	}
	return claims
}

// in tells whether somebody was let in.
func (a shown) in() bool { return a.To() == "/deliveries?status=failed" }

// An address is the user's only if it differs by the case of ASCII letters at most: Unicode maps letters of
// other alphabets to ASCII ones.
func TestAddressesAreFolded(t *testing.T) {
	t.Parallel()
	p, s := oidcSite(t)
	admin, _ := s.as(waypost.RoleAdmin)
	for _, email := range []string{"mark.s@example.com", "vic.i@example.com", "Ünal@example.com"} {
		if got := admin.post("/users", url.Values{"name": {"N"}, "email": {email}, "role": {"viewer"}}); got.Status != http.StatusOK {
			t.Fatalf("add %s: HTTP %d", email, got.Status)
		}
	}
	for i, tt := range []struct {
		email string
		in    bool
	}{
		{"mar\u212a.s@example.com", false}, {"v\u0130c.i@example.com", false}, {"v\u0131c.i@example.com", false}, {"mark.\u017f@example.com", false},
		{"mark.s@\u212aexample.com", false}, {"ma\u0300rk.s@example.com", false}, {"\uff4dark.s@example.com", false}, {"ünal@example.com", false},
		{" MARK.S@Example.Com ", true}, {"VIC.I@EXAMPLE.COM", true}, {"Ünal@EXAMPLE.com", true},
	} {
		if got := p.visit(s.guest(), verified(fmt.Sprint(i), tt.email)); got.in() != tt.in {
			t.Errorf("%+q: to %q", tt.email, got.To())
		}
	}
	// The form of the sign-in knows no others either.
	known := s.withPassword(waypost.RoleViewer)
	for _, letter := range []string{"e\u212a", "e"} {
		email := strings.Replace(known.Email, "e", letter, 1)
		if got := s.guest().signIn(email, secret); got.in() != (letter == "e") {
			t.Errorf("%+q: HTTP %d", email, got.Status)
		}
	}
	// Two addresses that fold to one by Unicode alone are two users; by ASCII they are one.
	for email, status := range map[string]int{"mar\u212a.s@example.com": http.StatusOK, "MARK.s@example.com": http.StatusBadRequest} {
		if got := admin.post("/users", url.Values{"name": {"N"}, "email": {email}, "role": {"viewer"}}); got.Status != status {
			t.Errorf("add %+q: HTTP %d", email, got.Status)
		}
	}
}

// A user belongs to the account of the first sign-in: another one with the address is refused until an
// administrator releases the user, whose sessions end then.
func TestAccountsAreBound(t *testing.T) {
	t.Parallel()
	p, s := oidcSite(t)
	admin, _ := s.as(waypost.RoleAdmin)
	known, _ := s.user(waypost.RoleViewer)
	first := s.guest()
	if got := p.visit(first, verified("one", known.Email)); !got.in() {
		t.Fatalf("to %q", got.To())
	}
	thief := s.guest()
	if got := p.visit(thief, verified("two", known.Email, "ops")); got.To() != "/sign-in" {
		t.Fatalf("another account: to %q", got.To())
	}
	if says := thief.get("/sign-in").Body; !strings.Contains(says, "signs in with another account of your organisation") {
		t.Errorf("the sign-in says %s", says)
	}
	if u, err := s.store.User(t.Context(), known.ID); err != nil || u.Role != waypost.RoleViewer || u.Issuer != p.url {
		t.Errorf("%+v, %v", u, err)
	}
	// The account is the user's whatever its address is now, verified or not, and though it is another user's.
	other, _ := s.user(waypost.RoleAdmin)
	for _, claims := range []map[string]any{verified("one", "new.name@example.com"), {"sub": "one"}, verified("one", other.Email)} {
		v := s.guest()
		if got := p.visit(v, claims); !got.in() || !strings.Contains(v.get("/deliveries").Body, known.Email) {
			t.Errorf("%v: to %q", claims, got.To())
		}
	}
	if got := admin.get("/users"); !strings.Contains(got.Body, "/users/"+known.ID+"/release") || strings.Contains(got.Body, "/users/"+other.ID+"/release") {
		t.Error("the page of users does not offer to release exactly who is bound")
	}
	if got := admin.post("/users/"+known.ID+"/release", nil); got.Status != http.StatusSeeOther {
		t.Fatalf("release: HTTP %d", got.Status)
	}
	if got := first.get("/deliveries"); got.Status != http.StatusSeeOther {
		t.Errorf("the session goes on: HTTP %d", got.Status)
	}
	if got := p.visit(s.guest(), verified("two", known.Email)); !got.in() {
		t.Errorf("after the release: to %q", got.To())
	}
	if got := p.visit(s.guest(), verified("one", known.Email)); got.in() {
		t.Error("the first account is let in, too")
	}
	lines := strings.Join(s.audited(), "\n")
	for _, want := range []string{
		p.url + " user.bind " + known.ID + ` {"issuer":"` + p.url + `"}`, known.Email + " session.create " + known.ID + ` {"by":"issuer"}`,
		" session.fail " + known.ID + ` {"addresses":["127.0.0.1"],`, `"reasons":{"subject":2},"tries":2}`, " user.release " + known.ID,
	} {
		if !strings.Contains(lines, want) {
			t.Errorf("the audit log lacks %s:\n%s", want, lines)
		}
	}
}

// Who has lost the claim that gave the role has lost the role, and all sessions; one that an administrator
// gave stays. A session of the issuer's ends after some hours, so that this is asked.
func TestRolesAreLost(t *testing.T) {
	t.Parallel()
	p, s := oidcSite(t)
	known, _ := s.user(waypost.RoleViewer)
	v := s.guest()
	if got := p.visit(v, verified("one", "boss@example.com", "ops")); !got.in() || v.get("/users").Status != http.StatusOK {
		t.Fatalf("to %q", got.To())
	}
	boss, err := s.store.UserByEmail(t.Context(), testOrg, "boss@example.com")
	if err != nil {
		t.Fatal(err)
	}
	second := s.guest()
	if got := p.visit(second, verified("one", "boss@example.com", "marketing")); !got.in() {
		t.Errorf("another role: to %q", got.To())
	}
	if got := v.get("/users"); got.Status != http.StatusForbidden { // the other session, too
		t.Errorf("the former role: HTTP %d", got.Status)
	}
	for range 2 {
		refused := s.guest()
		if got := p.visit(refused, verified("one", "boss@example.com")); got.To() != "/sign-in" || !strings.Contains(refused.get("/sign-in").Body, "gives you no role here any more") {
			t.Errorf("without a role: to %q", got.To())
		}
	}
	for i, old := range []*visitor{v, second} {
		if got := old.get("/deliveries"); got.Status != http.StatusSeeOther {
			t.Errorf("session %d goes on: HTTP %d", i, got.Status)
		}
	}
	if u, err := s.store.User(t.Context(), boss.ID); err != nil || u.Role != waypost.RoleNone {
		t.Errorf("%+v, %v", u, err)
	}
	admin, _ := s.as(waypost.RoleAdmin)
	if got := admin.get("/users"); !strings.Contains(got.Body, "No role") {
		t.Error("the page of users does not show it")
	}
	if got := admin.post("/users/"+boss.ID+"/role", url.Values{"role": {"viewer"}}); got.Status != http.StatusSeeOther {
		t.Errorf("role: HTTP %d", got.Status)
	}
	for _, account := range []map[string]any{verified("one", "boss@example.com"), verified("two", known.Email)} {
		if got := p.visit(s.guest(), account); !got.in() {
			t.Errorf("%v, of a role that an administrator gave: to %q", account, got.To())
		}
	}
	if got := p.visit(s.guest(), verified("one", "boss@example.com", "ops")); !got.in() {
		t.Errorf("with a claim again: to %q", got.To())
	}
	lines := strings.Join(s.audited(), "\n")
	for _, want := range []string{
		p.url + " user.create " + boss.ID + ` {"disabled":false,"issuer":"` + p.url + `","role":"admin","roleByClaim":true}`,
		p.url + " user.role " + boss.ID + ` {"role":"marketer"}`, p.url + " user.role " + boss.ID + ` {"role":"none"}`,
		`"reasons":{"role":2},"tries":2}`,
	} {
		if !strings.Contains(lines, want) {
			t.Errorf("the audit log lacks %s:\n%s", want, lines)
		}
	}
}

func TestSessionsOfTheIssuerEnd(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	var aged *agedSessions
	s := newSite(t, func(o *Options) {
		aged = &agedSessions{Sessions: o.Sessions}
		o.Sessions = aged
		o.OIDC = OIDC{Issuer: p.url, ClientID: "console", ClientSecret: "shh"}
	})
	known, _ := s.user(waypost.RoleViewer)
	v := s.guest()
	if got := p.visit(v, verified("one", known.Email)); !got.in() {
		t.Fatalf("to %q", got.To())
	}
	if left := time.Until(aged.ends[len(aged.ends)-1]); left > issuerSession || left < issuerSession-time.Minute {
		t.Errorf("it is to end in %v", left)
	}
	s.redis.FastForward(issuerSession - time.Minute)
	if got := v.get("/deliveries"); got.Status != http.StatusOK {
		t.Errorf("in time: HTTP %d", got.Status)
	}
	s.redis.FastForward(2 * time.Minute)
	if got := v.get("/deliveries"); got.Status != http.StatusSeeOther {
		t.Errorf("too late: HTTP %d", got.Status)
	}
}

// What comes back to one browser signs in no other one, tokens of another issuer count for nothing, and a
// session that was planted is not the one of who signs in.
func TestMixUps(t *testing.T) {
	t.Parallel()
	p, s := oidcSite(t)
	stranger := newProvider(t)
	known, _ := s.user(waypost.RoleViewer)
	for what, claims := range map[string]map[string]any{
		"a token that names another issuer":     {"iss": stranger.url, "email": known.Email, "email_verified": true},
		"for several, without this console":     {"aud": []string{"a", "b"}, "email": known.Email, "email_verified": true},
		"an address that is verified as a text": {"email": known.Email, "email_verified": "true"},
		"an address in a list":                  {"email": []string{known.Email}, "email_verified": true},
	} {
		if got := p.visit(s.guest(), claims); got.in() {
			t.Errorf("%s: let in", what)
		}
	}
	key := p.key
	p.mu.Lock()
	p.key = stranger.key
	p.mu.Unlock()
	if got := p.visit(s.guest(), verified("one", known.Email)); got.in() {
		t.Error("a token that another issuer has signed: let in")
	}
	p.mu.Lock()
	p.key = key
	p.mu.Unlock()

	// The attacker begins, and has the victim's browser come back.
	attacker, victim := s.guest(), s.guest()
	begun := attacker.get("/sign-in/oidc")
	at, err := url.Parse(begun.To())
	if err != nil {
		t.Fatal(err)
	}
	back := "/sign-in/oidc/callback?" + url.Values{"state": {at.Query().Get("state")}, "code": {"the code"}}.Encode()
	if got := victim.get(back); got.To() != "/sign-in" || victim.get("/deliveries").Status == http.StatusOK {
		t.Errorf("the attacker's way back, in another browser: to %q", got.To())
	}
	// The victim has begun, too: the state is another one, and so is the nonce.
	victim.get("/sign-in/oidc")
	if got := victim.get(back); got.To() != "/sign-in" {
		t.Errorf("with a state of their own: to %q", got.To())
	}
	first := s.guest()
	if got := p.visit(first, verified("one", known.Email)); !got.in() {
		t.Fatalf("to %q", got.To())
	}
	if got := first.get(back); got.in() { // each way back is used once
		t.Error("the way back again: let in")
	}

	planted := first.cookie("session")
	other, _ := s.user(waypost.RoleAdmin)
	v := s.guest()
	v.setCookie("session", planted)
	if got := p.visit(v, verified("two", other.Email)); !got.in() || v.cookie("session") == planted {
		t.Errorf("to %q, the session is the same: %v", got.To(), v.cookie("session") == planted)
	}
	if got := first.get("/users"); got.Status == http.StatusOK {
		t.Error("the planted session has the rights of the victim")
	}
	for _, back := range []string{"//evil.example", "/\\evil.example", "https://evil.example", "/\t/evil.example", "javascript:alert(1)"} {
		v := s.guest()
		v.get("/sign-in/oidc?" + url.Values{"back": {back}}.Encode())
		if kept := v.cookie("back"); kept != url.QueryEscape("/") {
			t.Errorf("back to %q: %q is kept", back, kept)
		}
	}
}

// Two first sign-ins of a person at the same time make one user.
func TestFirstSignInsAtOnce(t *testing.T) {
	t.Parallel()
	p, s := oidcSite(t)
	var done sync.WaitGroup
	errs := make([]error, 6)
	for i := range errs {
		done.Go(func() {
			v := &visit{console: &console{Options: Options{Users: orgUsers{s.store, testOrg}, Org: testOrg}}, r: httptest.NewRequest(http.MethodGet, "/", nil)}
			_, refused, err := v.signInByIssuer(t.Context(), waypost.IssuerSignIn{Issuer: p.url, Subject: "one", Email: "new@example.com", Name: "N", ByClaims: true, Role: waypost.RoleViewer})
			if errs[i] = err; refused != "" {
				errs[i] = errors.New(refused)
			}
		})
	}
	done.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	if all, err := s.store.Users(t.Context(), testOrg); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// The console starts without the issuer, and without one there is nothing to go to.
func TestOIDCAway(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.OIDC = OIDC{Issuer: "http://127.0.0.1:1", ClientID: "console"} })
	v := s.guest()
	if got := v.get("/sign-in/oidc"); got.To() != "/sign-in" || !strings.Contains(v.get("/sign-in").Body, "Your organisation did not") {
		t.Errorf("HTTP %d, to %q", got.Status, got.To())
	}
	none := newSite(t).guest()
	for _, path := range []string{"/sign-in/oidc", "/sign-in/oidc/callback"} {
		if got := none.get(path); got.Status != http.StatusNotFound {
			t.Errorf("%s: HTTP %d", path, got.Status)
		}
	}
}
