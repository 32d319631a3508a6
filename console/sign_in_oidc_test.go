package console

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
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
	p.claims = map[string]any{"iss": p.url, "aud": "console", "sub": "7", "exp": time.Now().Add(time.Hour).Unix(), "nonce": asked.Get("nonce")}
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
	if err := s.store.DisableUser(t.Context(), disabled.ID); err != nil {
		t.Fatal(err)
	}
	if got := s.guest().get("/sign-in"); !strings.Contains(got.Body, "/sign-in/oidc?back=%2f") {
		t.Errorf("the sign-in does not offer it: %s", got.Body)
	}
	for name, tt := range map[string]struct {
		claims map[string]any
		role   waypost.Role // "": not let in
	}{
		"known by address":    {map[string]any{"email": strings.ToUpper(known.Email), "email_verified": true}, waypost.RoleViewer},
		"not verified":        {map[string]any{"email": known.Email, "email_verified": false}, ""},
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
