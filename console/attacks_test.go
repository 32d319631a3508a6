package console

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/fxamacker/cbor/v2"
	"github.com/redis/go-redis/v9"

	"waypost"
	"waypost/limits"
)

// A device cookie of another organisation's console, for the same e-mail address, is worth nothing.
func TestForeignDevice(t *testing.T) {
	t.Parallel()
	victim := newSite(t)
	u, _ := victim.withApp(waypost.RoleAdmin)
	evil := newSite(t, func(o *Options) { o.Org = "evil"; o.Users = orgUsers{o.Users.(orgUsers).Store, "evil"} })
	_, link, err := evil.store.CreateUser(t.Context(), waypost.Author{Scope: waypost.Scope{Org: "evil"}, Actor: "ops"},
		waypost.User{Org: "evil", Email: u.Email, Name: "Not Ada", Role: waypost.RoleViewer})
	if err != nil {
		t.Fatal(err)
	}
	const own = "the attacker's own password"
	if got := evil.guest().post("/sign-in/link", url.Values{"token": {link}, "password": {own}}); got.Status != http.StatusSeeOther {
		t.Fatal(got.Status)
	}
	passwords, codes := 0, 0
	for range 40 {
		g := evil.guest()
		if got := g.signIn(u.Email, own); got.Status != http.StatusSeeOther {
			t.Fatal(got.Status)
		}
		v := victim.guest()
		v.setCookie("device", g.cookie("device"))
		for i := range 4 {
			if got := v.signIn(u.Email, fmt.Sprint("a guess ", i)); got.Status == http.StatusUnauthorized {
				passwords++
			}
		}
		w := victim.guest()
		w.setCookie("device", g.cookie("device"))
		w.signIn(u.Email, secret)
		for range 5 {
			if got := w.secondStep("000000"); got.Status == http.StatusUnauthorized {
				codes++
			}
		}
	}
	if passwords == 0 || passwords > freeAddressTries || codes > freeTries {
		t.Errorf("from one address at once: %d guesses of the password, %d of the second factor", passwords, codes)
	}
}

// Once an administrator has taken a lost factor away, no session sets up another one without the password.
func TestStolenSessionEnrolls(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.SecondFactor = SecondFactorAdmins })
	u, link := s.user(waypost.RoleAdmin)
	v := s.guest()
	v.post("/sign-in/link", url.Values{"token": {link}, "password": {secret}})
	v.setUp(t)
	stolen := s.guest() // the cookie of the lost phone
	stolen.setCookie("session", v.cookie("session"))
	if !goesOn(stolen) {
		t.Fatal("the session that was stolen does not go on")
	}
	if got := stolen.get(factorPath + "/app"); got.To() != factorPath {
		t.Fatalf("a session alone changes the factor: HTTP %d", got.Status)
	}
	if err := s.store.RemoveSecondFactor(t.Context(), ops, u.ID); err != nil {
		t.Fatal(err)
	}
	if got := stolen.get(factorPath + "/app"); got.To() != "/sign-in" || goesOn(stolen) {
		t.Errorf("a session of before: HTTP %d, to %q", got.Status, got.To())
	}
	owner := s.guest()
	owner.signIn(u.Email, secret)
	owner.setUp(t)
	if !goesOn(owner) {
		t.Error("with the password, no other factor is set up")
	}
}

// Who first uses up the limit of failed links guesses no second factors without a line in the log.
func TestHiddenGuesses(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u, _ := s.withApp(waypost.RoleAdmin)
	for range freeAddressTries + 1 {
		s.guest().post("/sign-in/link", url.Values{"token": {"none"}})
	}
	v := s.guest()
	v.signIn(u.Email, secret)
	for range freeTries {
		if got := v.secondStep("000000"); got.Status != http.StatusUnauthorized {
			t.Fatal(got.Status)
		}
	}
	if !strings.Contains(strings.Join(s.audited(), "\n"), `"secondFactor":`+fmt.Sprint(freeTries)) {
		t.Errorf("%d wrong second factors, and the log has none of them:\n%s", freeTries, strings.Join(s.audited(), "\n"))
	}
}

// A stranger cannot have the console ask the issuer's token endpoint without end.
func TestIssuerExchangeIsLimited(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := newSite(t, func(o *Options) {
		o.OIDC = OIDC{Issuer: p.url, ClientID: "console", ClientSecret: "shh"}
	})
	v := s.guest()
	for range 200 {
		v.setCookie("state", "s")
		v.setCookie("nonce", "n")
		v.setCookie("verifier", "v")
		v.get("/sign-in/oidc/callback?state=s&code=guess")
	}
	s.mu.Lock()
	exchanged := strings.Count(s.log.String(), "exchange the code")
	s.mu.Unlock()
	if exchanged == 0 || exchanged > 2*freeAddressTries {
		t.Errorf("%d of 200 wrong codes were sent to the issuer, with the console's secret, for one address", exchanged)
	}
}

type anyUsers = Users

// troubled is a store that fails once.
type troubled struct {
	anyUsers
	fail atomic.Bool
}

func (u *troubled) UserBySubject(ctx context.Context, issuer, subject string) (waypost.User, error) {
	if u.fail.CompareAndSwap(true, false) {
		return waypost.User{}, errors.New("the database is away")
	}
	return u.anyUsers.UserBySubject(ctx, issuer, subject)
}

// A logout during a moment's trouble of the database is carried out when the issuer sends it again.
func TestLogoutInTrouble(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	var users *troubled
	s := newSite(t, func(o *Options) {
		o.OIDC = OIDC{Issuer: p.url, ClientID: "console", ClientSecret: "shh"}
		users = &troubled{anyUsers: o.Users}
		o.Users = users
	})
	known, _ := s.user(waypost.RoleViewer)
	v := s.guest()
	if got := p.visit(v, verified("one", known.Email)); !got.in() {
		t.Fatal(got.To())
	}
	token := p.logoutToken(t, map[string]any{"sub": "one"})
	users.fail.Store(true)
	first := s.logout(token)
	again := s.logout(token)
	if first.Status < 500 || again.Status != http.StatusOK || goesOnAt(v) {
		t.Errorf("HTTP %d, then %d %s: the session goes on", first.Status, again.Status, again.Body)
	}
}

// resetting is a store in which a reset comes before each change of a second factor.
type resetting struct {
	anyUsers
	reset func(id string)
}

func (u *resetting) ChangeSecondFactor(
	ctx context.Context, by waypost.Caller, seen waypost.User, change func(*waypost.SecondFactor) error,
) (waypost.User, error) {
	if u.reset != nil {
		u.reset(seen.ID)
	}
	return u.anyUsers.ChangeSecondFactor(ctx, by, seen, change)
}

// A reset ends also the sign-in that waits for its second factor at that moment.
func TestResetOfPendingSignIn(t *testing.T) {
	t.Parallel()
	var users *resetting
	s := newSite(t, func(o *Options) { users = &resetting{anyUsers: o.Users}; o.Users = users })
	u, a := s.withApp(waypost.RoleAdmin)
	v := s.guest()
	v.signIn(u.Email, secret)
	users.reset = func(id string) { _, _ = s.store.ResetUser(t.Context(), ops, id) }
	v.secondStep(codeOf(t, a.secret, 0))
	users.reset = nil
	if goesOn(v) {
		t.Error("signed in after a reset that ended the pending sign-in")
	}
}

// What a browser adds to a passkey is not stored.
func TestLongPasskey(t *testing.T) {
	t.Parallel()
	s := newSite(t, atLocalhost)
	u := s.withPassword(waypost.RoleViewer)
	d := newDevice(t, u)
	v := s.signedIn(u, "curl/8.0")
	v.post("/second-factor/prove", url.Values{"password": {secret}})
	made := d.made(t, party(s), asks(t, v.get(factorPath)))
	var answer map[string]any
	if err := json.Unmarshal([]byte(made), &answer); err != nil {
		t.Fatal(err)
	}
	response := answer["response"].(map[string]any)
	raw, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(response["attestationObject"].(string), "="))
	if err != nil {
		t.Fatal(err)
	}
	var object map[string]any
	if err := cbor.Unmarshal(raw, &object); err != nil {
		t.Fatal(err)
	}
	object["fmt"], object["attStmt"] = "none", map[string]any{}
	raw, _ = cbor.Marshal(object)
	response["attestationObject"] = base64.RawURLEncoding.EncodeToString(raw)
	data, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(response["clientDataJSON"].(string), "="))
	if err != nil {
		t.Fatal(err)
	}
	data = append(data[:len(data)-1], []byte(`,"x":"`+strings.Repeat("a", 600_000)+`"}`)...)
	response["clientDataJSON"] = base64.RawURLEncoding.EncodeToString(data)
	text, _ := json.Marshal(answer)
	got := v.post("/second-factor/passkeys", url.Values{"credential": {string(text)}, "name": {"x"}})
	found, err := s.store.User(t.Context(), u.ID)
	if err != nil || len(found.SecondFactor.Passkeys) == 0 {
		t.Fatalf("HTTP %d %v\n%.3000s", got.Status, err, s.log.String())
	}
	if n := len(found.SecondFactor.Passkeys[0].Credential); n > 16<<10 {
		t.Errorf("a passkey of %d bytes is stored, and a person may have %d", n, maxPasskeys)
	}
}

// Who tries one invented e-mail address after the other is stopped by the address, and leaves nothing in Redis then.
func TestAttemptsFillNoRedis(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	refused := 0
	for i := range 400 {
		if got := s.guest().signIn(fmt.Sprintf("nobody%d@example.com", i), "x"); got.Status == http.StatusTooManyRequests {
			refused++
		}
	}
	n := 0
	for _, key := range s.redis.Keys() {
		if strings.HasPrefix(key, "waypost:attempts:") {
			n++
		}
	}
	if refused == 0 || n > 3*freeAddressTries {
		t.Errorf("%d of 400 were refused by the address, and Redis keeps %d keys for a day", refused, n)
	}
}

// A link in the wrong hands changes nothing of a person who has a second factor, and is not used up; the
// person signs in by it, with both steps in one entry of the audit log.
func TestLinkWithoutSecondFactor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	own, u, a := s.inByBoth(waypost.RoleAdmin)
	link, err := s.store.LinkUser(t.Context(), ops, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	before := len(s.audited())
	since := func() string { // newest first
		lines := s.audited()
		return strings.Join(lines[:len(lines)-before], "\n")
	}
	const chosen = "a password of the thief"
	use := url.Values{"token": {link}, "password": {chosen}}
	thief := s.guest()
	if got := thief.post("/sign-in/link", use); got.To() != secondStepPath {
		t.Fatalf("HTTP %d, to %q", got.Status, got.To())
	}
	thief.secondStep("000000")
	if goesOn(thief) || !goesOn(own) {
		t.Error("the link alone signs in, or ends the sessions of its person")
	}
	if got := s.guest().signIn(u.Email, chosen); got.Status != http.StatusUnauthorized {
		t.Errorf("the link alone changes the password: HTTP %d", got.Status)
	}
	if lines := since(); strings.Contains(lines, `"by":"link"`) || strings.Contains(lines, "user.password") {
		t.Errorf("the audit log tells of a sign-in that was none:\n%s", lines)
	}

	v, second := s.guest(), s.guest()
	for _, g := range []*visitor{v, second} {
		if got := g.post("/sign-in/link", use); got.To() != secondStepPath {
			t.Fatalf("the person: HTTP %d, to %q", got.Status, got.To())
		}
	}
	if got := v.secondStep(codeOf(t, a.secret, 1)); got.To() != "/" || !goesOn(v) || goesOn(own) {
		t.Errorf("the person: HTTP %d, to %q", got.Status, got.To())
	}
	if got := second.secondStep(a.codes[0]); goesOn(second) {
		t.Errorf("the link signs in twice: HTTP %d, to %q", got.Status, got.To())
	}
	lines := since()
	if strings.Count(lines, `{"by":"link","linkBy":"ops","secondFactor":"app"}`) != 1 || strings.Count(lines, `"by":"link"`) != 1 {
		t.Errorf("the sign-in by the link is not one entry:\n%s", lines)
	}
	if got := s.guest().signIn(u.Email, chosen); got.To() != secondStepPath {
		t.Errorf("the password that was chosen: HTTP %d", got.Status)
	}
}

// A link allows no endless work on passwords.
func TestLinkHashesAreLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u, _ := s.withApp(waypost.RoleMarketer)
	link, err := s.store.LinkUser(t.Context(), ops, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	taken := 0
	for range 3 * freeTries {
		got := s.guest().post("/sign-in/link", url.Values{"token": {link}, "password": {"another password"}})
		switch got.Status {
		case http.StatusSeeOther:
			taken++
		case http.StatusTooManyRequests:
		default:
			t.Fatalf("HTTP %d", got.Status)
		}
	}
	if taken < freeTries || taken > freeTries+2 {
		t.Errorf("%d passwords were taken at once", taken)
	}
}

// The first account of the issuer with a person's address becomes theirs after their second factor.
func TestFirstAccountAsksSecondFactor(t *testing.T) {
	t.Parallel()
	p, s := oidcSite(t)
	u, a := s.withApp(waypost.RoleAdmin)
	thief := s.guest()
	if got := p.visit(thief, verified("thief", u.Email, "ops")); got.To() != secondStepPath || goesOn(thief) {
		t.Fatalf("the first account: HTTP %d, to %q", got.Status, got.To())
	}
	thief.secondStep("000000")
	if got, err := s.store.User(t.Context(), u.ID); err != nil || got.Issuer != "" || goesOn(thief) {
		t.Errorf("bound without the second factor: %+v, %v", got, err)
	}
	v, slow := s.guest(), s.guest()
	p.visit(v, verified("ada", u.Email, "marketing"))
	p.visit(slow, verified("eve", u.Email, "ops"))
	if got := v.secondStep(codeOf(t, a.secret, 0)); !got.in() || !goesOn(v) {
		t.Fatalf("the code: HTTP %d, to %q", got.Status, got.To())
	}
	if got, err := s.store.User(t.Context(), u.ID); err != nil || got.Issuer != p.url || got.Role != waypost.RoleMarketer {
		t.Errorf("%+v, %v", got, err)
	}
	if got := slow.secondStep(codeOf(t, a.secret, 1)); got.To() != "/sign-in" || goesOn(slow) {
		t.Errorf("a second account: HTTP %d, to %q", got.Status, got.To())
	}
	if says := slow.get("/sign-in").Body; !strings.Contains(says, "signs in with another account of your organisation") {
		t.Errorf("the sign-in says %s", says)
	}
	entry := u.Email + " session.create " + u.ID + ` {"by":"issuer","secondFactor":"app"}`
	if lines := strings.Join(s.audited(), "\n"); !strings.Contains(lines, entry) {
		t.Errorf("the audit log:\n%s", lines)
	}
	if got := p.visit(s.guest(), verified("ada", u.Email, "marketing")); !got.in() {
		t.Errorf("bound, and asked again: to %q", got.To())
	}
}

// A link that was replaced while its sign-in waits for the first second factor stores none, and uses up no
// recovery code.
func TestReplacedLink(t *testing.T) {
	t.Parallel()
	s := newSite(t, asksAll)
	u, link := s.user(waypost.RoleAdmin)
	thief := s.guest()
	if got := thief.post("/sign-in/link", url.Values{"token": {link}}); got.To() != secondStepPath {
		t.Fatal(got.Status, got.To())
	}
	found := shownSecret.FindStringSubmatch(thief.get(factorPath + "/app").Body)
	if found == nil {
		t.Fatal("no secret is shown")
	}
	code := codeOf(t, strings.ReplaceAll(found[1], " ", ""), 0)
	anew := func() string {
		link, err := s.store.LinkUser(t.Context(), ops, u.ID)
		if err != nil {
			t.Fatal(err)
		}
		return link
	}
	link = anew()
	if got := thief.post(factorPath+"/app", url.Values{"code": {code}}); got.To() != "/sign-in" {
		t.Errorf("an app by a link that is over: HTTP %d, to %q", got.Status, got.To())
	}
	if says := thief.get("/sign-in").Body; !strings.Contains(says, "This link cannot be used any more") {
		t.Errorf("the sign-in says %s", says)
	}
	v := s.guest()
	v.post("/sign-in/link", url.Values{"token": {link}, "password": {secret}})
	if got := v.get(secondStepPath); got.To() != factorPath {
		t.Fatalf("the person is asked for another one's factor: HTTP %d, to %q", got.Status, got.To())
	}
	a := v.setUp(t)

	link = anew()
	late := s.guest()
	late.post("/sign-in/link", url.Values{"token": {link}})
	anew()
	if got := late.secondStep(a.codes[0]); got.To() != "/sign-in" || goesOn(late) {
		t.Errorf("a code with a link that is over: HTTP %d, to %q", got.Status, got.To())
	}
	if u, err := s.store.User(t.Context(), u.ID); err != nil || len(u.SecondFactor.RecoveryCodes) != recoveryCodes {
		t.Errorf("%d recovery codes are left, %v", len(u.SecondFactor.RecoveryCodes), err)
	}
}

// A session that passed while the factor was away for a moment is asked for the next one.
func TestPassedWithoutFactor(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	own, u, _ := s.inByBoth(waypost.RoleAdmin)
	thief := s.guest() // has the password alone
	if thief.signIn(u.Email, secret); goesOn(thief) {
		t.Fatal("there is no second step")
	}
	own.post("/second-factor/prove", url.Values{"password": {secret}})
	own.post("/second-factor/app/remove", nil) // for a new phone
	thief.get(secondStepPath)
	own.setUp(t)
	if goesOn(thief) {
		t.Error("a session that has never shown a second factor goes on after one was set up")
	}
}

// The issuer's logout ends also a sign-in that waits for the second factor.
func TestLogoutOfPendingSignIn(t *testing.T) {
	t.Parallel()
	for _, token := range []map[string]any{{"sub": "ada", "sid": "s1"}, {"sub": "ada"}, {"sid": "s1"}} {
		p, s := oidcSite(t)
		u, a := s.withApp(waypost.RoleAdmin)
		v := s.guest()
		claims := verified("ada", u.Email, "ops")
		claims["sid"] = "s1"
		if got := p.visit(v, claims); got.To() != secondStepPath {
			t.Fatal(got.To())
		}
		for _, other := range []map[string]any{{"sub": "eve"}, {"sub": "ada", "sid": "s2"}} {
			s.logout(p.logoutToken(t, other))
		}
		if got := v.get(secondStepPath); got.Status != http.StatusOK {
			t.Errorf("another logout: HTTP %d", got.Status)
		}
		if got := s.logout(p.logoutToken(t, token)); got.Status != http.StatusOK {
			t.Fatal(got.Status)
		}
		if v.secondStep(codeOf(t, a.secret, 0)); goesOn(v) {
			t.Errorf("signed in by what the issuer has ended: %v", token)
		}
	}
}

// The end of all sessions ends also the sign-in by a link with a password that is at its second step.
func TestSessionsEndedAtSecondStep(t *testing.T) {
	t.Parallel()
	var users *resetting
	s := newSite(t, func(o *Options) { users = &resetting{anyUsers: o.Users}; o.Users = users })
	u, a := s.withApp(waypost.RoleAdmin)
	link, err := s.store.LinkUser(t.Context(), ops, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	v := s.guest()
	v.post("/sign-in/link", url.Values{"token": {link}, "password": {"another password"}})
	users.reset = func(id string) { _ = s.store.EndSessions(t.Context(), ops, id) }
	v.secondStep(codeOf(t, a.secret, 0))
	users.reset = nil
	if goesOn(v) {
		t.Error("signed in after all sessions were ended")
	}
}

// lookingUp is a store that calls once after it has found a user, but for the first skip times.
type lookingUp struct {
	anyUsers
	skip atomic.Int64
	once atomic.Pointer[func()]
}

func (u *lookingUp) User(ctx context.Context, id string) (waypost.User, error) {
	found, err := u.anyUsers.User(ctx, id)
	if u.once.Load() == nil || u.skip.Add(-1) >= 0 {
		return found, err
	}
	if then := u.once.Swap(nil); then != nil {
		(*then)()
	}
	return found, err
}

// Who holds back the end of a body, and is disabled, reset, deleted, given a lower role or signed out
// before it comes, changes nothing by it.
func TestHeldBody(t *testing.T) {
	t.Parallel()
	var users *lookingUp
	s := newSite(t, func(o *Options) { users = &lookingUp{anyUsers: o.Users}; o.Users = users })
	ends := map[string]func(v *visitor, id string) error{
		"disabled":  func(_ *visitor, id string) error { return s.store.DisableUser(t.Context(), ops, id) },
		"reset":     func(_ *visitor, id string) error { _, err := s.store.ResetUser(t.Context(), ops, id); return err },
		"viewer":    func(_ *visitor, id string) error { return s.store.ChangeRole(t.Context(), ops, id, waypost.RoleViewer) },
		"deleted":   func(_ *visitor, id string) error { return s.store.DeleteUser(t.Context(), ops, id) },
		"ended":     func(_ *visitor, id string) error { return s.store.EndSessions(t.Context(), ops, id) },
		"signedOut": func(v *visitor, _ string) error { v.post("/sign-out", nil); return nil },
	}
	const form, draft = "application/x-www-form-urlencoded", `{"name":"Late","nodes":{}}`
	const parts = "--b\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nLate\r\n--b--"
	requests := []struct {
		method, path, kind, body string
		looks                    int64 // at the user, before the body is read and its end waited for
	}{
		{"POST", "/users", form, "name=Late&email=late@example.com&role=admin", 1},
		{"POST", "/webhooks/whk_1/delete", form, "stage=release", 1},
		{"POST", "/journeys", "multipart/form-data; boundary=b", parts, 1},
		{"PUT", "/journeys/jrn_1/draft.json", "application/json", draft, 1},
		{"PUT", "/journeys/jrn_1/draft.yaml", "application/yaml", "name: Late\n", 1},
		{"POST", "/journeys/jrn_1/keep.json", "application/json", draft, 2},
		{"POST", uploadPath, uploadKinds[0], "name\nLate\n", 2},
	}
	s.as(waypost.RoleAdmin) // so that none is the last one
	for name, end := range ends {
		for _, r := range requests {
			v, u := s.as(waypost.RoleAdmin)
			other := s.guest()
			other.client.Jar = v.client.Jar
			s.take()
			before, err := s.store.Users(t.Context(), testOrg)
			if err != nil {
				t.Fatal(err)
			}
			users.skip.Store(r.looks - 1)
			got := v.held(r.method, r.path, r.kind, r.body, users, func() error { return end(other, u.ID) })
			after, err := s.store.Users(t.Context(), testOrg)
			if err != nil {
				t.Fatal(err)
			}
			refused := got.Status == http.StatusForbidden || got.Status == http.StatusUnauthorized || strings.HasPrefix(got.To(), "/sign-in")
			if r.path == uploadPath { // which is told to a script
				refused = strings.Contains(got.Body, `"message":"Sign in"`) || strings.Contains(got.Body, `"message":"Your role`)
			}
			if calls := s.take(); !refused || len(after) > len(before) || len(calls) > 0 {
				t.Errorf("%s during %s %s: HTTP %d, to %q, calls %v: %s", name, r.method, r.path, got.Status, got.To(), calls, got.Body)
			}
		}
	}
}

// held makes a request whose last byte comes once the user was found and then between was called.
func (v *visitor) held(method, path, kind, body string, users *lookingUp, between func() error) shown {
	v.s.t.Helper()
	rest, last := io.Pipe()
	defer rest.Close()
	most := len(body) - 1
	req, err := http.NewRequestWithContext(v.s.t.Context(), method, v.s.url+path, io.MultiReader(strings.NewReader(body[:most]), rest))
	if err != nil {
		v.s.t.Fatal(err)
	}
	req.ContentLength = int64(len(body))
	req.Header.Set("Content-Type", kind)
	then := func() {
		if err := between(); err != nil {
			v.s.t.Error(err)
		}
		go func() {
			_, _ = io.WriteString(last, body[most:]) // fails once the request was refused
			_ = last.Close()
		}()
	}
	users.once.Store(&then)
	res, err := v.client.Do(req)
	if err != nil {
		v.s.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		v.s.t.Fatal(err)
	}
	return shown{res.StatusCode, res.Header, string(answer)}
}

// now is a user as the store has them.
func (s *site) now(u waypost.User) waypost.User {
	s.t.Helper()
	found, err := s.store.User(s.t.Context(), u.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return found
}

// A passkey is registered once: another key under its id does not take its place.
func TestPasskeyTwice(t *testing.T) {
	t.Parallel()
	s := newSite(t, atLocalhost)
	u, d := s.withPasskey(waypost.RoleViewer)
	before := s.now(u).SecondFactor
	v := s.guest()
	v.signIn(u.Email, secret)
	v.passkey(d.answer(t, party(s), asks(t, v.get(secondStepPath))))
	v.post("/second-factor/prove", url.Values{"password": {secret}})
	other := newDevice(t, u)
	other.key.ID = d.key.ID
	made := other.made(t, party(s), asks(t, v.get(factorPath)))
	got := v.post("/second-factor/passkeys", url.Values{"credential": {made}, "name": {"Another"}})
	after := s.now(u).SecondFactor
	if got.Status != http.StatusConflict || len(after.Passkeys) != 1 || after.Passkeys[0].Name != before.Passkeys[0].Name {
		t.Errorf("HTTP %d: %+v", got.Status, after.Passkeys)
	}
}

// A sign-in that waits while its encryption key is taken away begins anew.
func TestPendingWithoutKey(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u, _ := s.withApp(waypost.RoleViewer)
	v := s.guest()
	v.signIn(u.Email, secret)
	later := newSite(t, func(o *Options) {
		keys, err := waypost.ParseKeyring("k2:" + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("2", 32))))
		if err != nil {
			t.Fatal(err)
		}
		shared := redis.NewClient(limits.ClientOptions(&redis.Options{Addr: s.redis.Addr()}))
		t.Cleanup(func() { _ = shared.Close() })
		o.Users, o.Keys, o.Sessions = orgUsers{s.store, testOrg}, keys, limits.NewSessions(shared, testOrg)
	})
	w := later.guest()
	w.client.Jar = v.client.Jar
	if got := w.get(secondStepPath); got.To() != "/sign-in" {
		t.Errorf("HTTP %d, to %q", got.Status, got.To())
	}
	if got := w.get("/sign-in"); got.Status != http.StatusOK {
		t.Errorf("the sign-in: HTTP %d, to %q", got.Status, got.To())
	}
}

// A session of a password alone changes nothing by a body that was held back until its person has set up a
// second factor.
func TestHeldBodyBeforeFactor(t *testing.T) {
	t.Parallel()
	var users *lookingUp
	s := newSite(t, func(o *Options) { users = &lookingUp{anyUsers: o.Users}; o.Users = users })
	u := s.withPassword(waypost.RoleAdmin)
	owner, stolen := s.signedIn(u, "curl/8.0"), s.signedIn(u, "curl/8.0")
	got := stolen.held("POST", "/users", "application/x-www-form-urlencoded", "name=Late&email=late2@example.com&role=admin", users, func() error {
		owner.post("/second-factor/prove", url.Values{"password": {secret}})
		owner.setUp(t)
		return nil
	})
	if _, err := s.store.UserByEmail(t.Context(), testOrg, "late2@example.com"); err == nil || got.Status != http.StatusSeeOther {
		t.Errorf("HTTP %d, the user: %v", got.Status, err)
	}
}

// Sign-ins of a user are in the audit log however many others fail before them from the address: refused
// accounts of the issuer, and passwords that are right while the second factor is not shown.
func TestHiddenSignIns(t *testing.T) {
	t.Parallel()
	p, s := oidcSite(t)
	u, _ := s.user(waypost.RoleAdmin)
	if got := p.visit(s.guest(), verified("ada", u.Email, "ops")); !got.in() {
		t.Fatal(got.Status)
	}
	guarded, _ := s.withApp(waypost.RoleAdmin)
	for range freeAddressTries + 1 {
		s.guest().post("/sign-in/link", url.Values{"token": {"none"}})
	}
	for range 3 {
		if got := p.visit(s.guest(), verified("eve", u.Email, "ops")); got.in() {
			t.Fatal("let in")
		}
		if got := s.guest().signIn(guarded.Email, secret); got.To() != secondStepPath {
			t.Fatal(got.Status)
		}
	}
	lines := strings.Join(s.audited(), "\n")
	for user, counts := range map[string]string{
		" session.fail " + u.ID: `"reasons":{"subject":3},"tries":3}`, " session.pending " + guarded.ID: `"reasons":{"password":3},"tries":3}`,
	} {
		_, after, found := strings.Cut(lines, user)
		if line, _, _ := strings.Cut(after, "\n"); !found || !strings.HasSuffix(line, counts) {
			t.Errorf("%s: %s, want %s", user, line, counts)
		}
	}
}

// A form of somebody who is not signed in is short.
func TestLongFormOfStranger(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	long := url.Values{"email": {strings.Repeat("a", maxUnknownBody)}}
	if got := s.guest().post("/sign-in", long); got.Status != http.StatusRequestEntityTooLarge {
		t.Errorf("HTTP %d", got.Status)
	}
}
