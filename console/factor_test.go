package console

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/pquerna/otp/totp"

	"waypost"
)

func asksAll(o *Options) { o.SecondFactor = SecondFactorAll }

var (
	shownSecret = regexp.MustCompile(`id="secret">([A-Z2-7 ]+)<`)
	shownCode   = regexp.MustCompile(`<li>([a-z2-7]{4}(?:-[a-z2-7]{4}){3})</li>`)
)

// codeOf is the code of an app that is some steps ahead of now.
func codeOf(t *testing.T, secret string, steps int) string {
	t.Helper()
	code, err := totp.GenerateCode(secret, time.Now().Add(time.Duration(steps)*totpPeriod*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return code
}

// app is an app that was set up, with the recovery codes that came with it.
type app struct {
	secret string
	codes  []string
}

// setUp sets an app up for whoever may do so in this browser. The first code is that of the step
// before, so that a test has two more.
func (v *visitor) setUp(t *testing.T) app {
	t.Helper()
	shown := v.get("/second-factor/app")
	found := shownSecret.FindStringSubmatch(shown.Body)
	if shown.Status != http.StatusOK || found == nil {
		t.Fatalf("HTTP %d, to %q, %s", shown.Status, shown.To(), shown.Body)
	}
	a := app{secret: strings.ReplaceAll(found[1], " ", "")}
	got := v.post("/second-factor/app", url.Values{"code": {codeOf(t, a.secret, -1)}})
	for _, m := range shownCode.FindAllStringSubmatch(got.Body, -1) {
		a.codes = append(a.codes, m[1])
	}
	if got.Status != http.StatusOK || len(a.codes) != recoveryCodes {
		t.Fatalf("HTTP %d, %d recovery codes", got.Status, len(a.codes))
	}
	return a
}

// withApp is a user who has a password and an app.
func (s *site) withApp(role waypost.Role) (waypost.User, app) {
	s.t.Helper()
	u := s.withPassword(role)
	v := s.signedIn(u, "curl/8.0")
	v.post("/second-factor/prove", url.Values{"password": {secret}})
	a := v.setUp(s.t)
	return u, a
}

// inByBoth is a browser in which a new user of a role is signed in by password and app.
func (s *site) inByBoth(role waypost.Role) (*visitor, waypost.User, app) {
	s.t.Helper()
	u, a := s.withApp(role)
	v := s.guest()
	v.signIn(u.Email, secret)
	v.secondStep(codeOf(s.t, a.secret, 0))
	return v, u, a
}

func (v *visitor) secondStep(code string) shown {
	return v.post("/sign-in/second-factor", url.Values{"code": {code}})
}

// Who has a second factor is signed in by both, not by the password alone.
func TestSecondStep(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u, a := s.withApp(waypost.RoleAdmin)
	v := s.guest()
	if got := v.signIn(u.Email, secret); got.To() != secondStepPath {
		t.Fatalf("HTTP %d, to %q", got.Status, got.To())
	}
	half := v.cookie("session")
	sessions := 0
	for _, key := range s.redis.Keys() {
		if !strings.HasPrefix(key, "waypost:session:") {
			continue
		}
		sessions++
		if kept, err := s.redis.Get(key); err != nil || strings.Contains(kept, "status=failed") {
			t.Errorf("%s holds the page that was asked for, which may be filtered by people: %v", key, err)
		}
	}
	if sessions == 0 {
		t.Error("no session")
	}
	for _, rt := range routes {
		if rt.role == anyone {
			continue
		}
		path := wildcard.ReplaceAllStringFunc(rt.pattern, func(m string) string {
			if m == "{$}" {
				return ""
			}
			return "usr_1"
		})
		got := v.do(rt.method, path, nil, nil)
		if toSignIn := strings.HasPrefix(got.To(), "/sign-in"); !toSignIn && got.Status != http.StatusUnauthorized {
			t.Errorf("after the password alone, %s %s: HTTP %d, to %q", rt.method, path, got.Status, got.To())
		}
	}
	for _, path := range []string{"/", "/users", "/account", "/deliveries"} {
		if got := v.get(path); !strings.HasPrefix(got.To(), "/sign-in") {
			t.Errorf("after the password alone, %s: HTTP %d, to %q", path, got.Status, got.To())
		}
	}
	for _, path := range []string{factorPath, factorPath + "/app"} {
		if got := v.get(path); got.To() != "/sign-in" {
			t.Errorf("after the password alone, %s: HTTP %d, to %q", path, got.Status, got.To())
		}
	}
	if got := v.post(factorPath+"/app", url.Values{"code": {codeOf(t, a.secret, 0)}}); got.To() != "/sign-in" {
		t.Errorf("another app with the password alone: HTTP %d", got.Status)
	}
	if got := v.secondStep("000000"); got.Status != http.StatusUnauthorized || !strings.Contains(got.Body, "The code is wrong") {
		t.Errorf("a wrong code: HTTP %d", got.Status)
	}
	code := codeOf(t, a.secret, 0)
	if got := v.secondStep(code[:3] + " " + code[3:]); got.To() != "/deliveries?status=failed" {
		t.Fatalf("the code: HTTP %d, to %q", got.Status, got.To())
	}
	if !goesOn(v) {
		t.Error("nobody is signed in")
	}
	stolen := s.guest()
	stolen.setCookie("session", half)
	if got := stolen.get("/deliveries"); got.Status == http.StatusOK {
		t.Error("the cookie of the pending sign-in is a session")
	}
	if got := stolen.secondStep(codeOf(t, a.secret, 1)); got.Status == http.StatusSeeOther && goesOn(stolen) {
		t.Error("the cookie of the pending sign-in is used twice")
	}
	// Neither the same code nor one of before is taken again.
	for _, steps := range []int{0, -1} {
		again := s.guest()
		again.signIn(u.Email, secret)
		if got := again.secondStep(codeOf(t, a.secret, steps)); got.Status != http.StatusUnauthorized {
			t.Errorf("the code of step %d again: HTTP %d", steps, got.Status)
		}
	}
}

// A pending sign-in ends with a new password, a disabling, a sign-out and its time, and is of one person.
func TestPendingEnds(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for name, end := range map[string]func(*visitor, waypost.User){
		"disabled":     func(_ *visitor, u waypost.User) { _ = s.store.DisableUser(t.Context(), ops, u.ID) },
		"new password": func(_ *visitor, u waypost.User) { _, _ = s.store.ChangePassword(t.Context(), ops, s.now(u), "x") },
		"signed out":   func(v *visitor, _ waypost.User) { v.post("/sign-out", nil) },
	} {
		u, a := s.withApp(waypost.RoleViewer)
		v := s.guest()
		v.signIn(u.Email, secret)
		end(v, u)
		if got := v.secondStep(codeOf(t, a.secret, 0)); got.To() != "/sign-in" || goesOn(v) {
			t.Errorf("%s: HTTP %d, to %q", name, got.Status, got.To())
		}
	}
	u, a := s.withApp(waypost.RoleViewer)
	other, _ := s.withApp(waypost.RoleAdmin)
	v := s.guest()
	v.signIn(other.Email, secret)
	if got := v.secondStep(codeOf(t, a.secret, 0)); got.Status != http.StatusUnauthorized {
		t.Errorf("the code of another person: HTTP %d", got.Status)
	}
	v.signIn(u.Email, secret)
	if got := v.secondStep(a.codes[0]); got.Status != http.StatusSeeOther {
		t.Errorf("a sign-in of another person after that: HTTP %d", got.Status)
	}
	w := s.guest()
	w.signIn(u.Email, secret)
	s.redis.FastForward(pendingTime + time.Second)
	if got := w.secondStep(a.codes[1]); got.To() != "/sign-in" {
		t.Errorf("after %v: HTTP %d", pendingTime, got.Status)
	}
}

// Codes are not guessed: tries are limited, whoever has the password, and a known device by itself.
func TestSecondStepIsLimited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u, a := s.withApp(waypost.RoleViewer)
	device := s.guest()
	device.signIn(u.Email, secret)
	device.secondStep(a.codes[0])
	device.post("/sign-out", nil)
	guesser := s.guest()
	guesser.signIn(u.Email, secret)
	for range freeTries {
		if got := guesser.secondStep("000000"); got.Status != http.StatusUnauthorized {
			t.Fatalf("HTTP %d", got.Status)
		}
	}
	if got := guesser.secondStep(codeOf(t, a.secret, 0)); got.Status != http.StatusTooManyRequests || got.Header.Get("Retry-After") != "1" {
		t.Errorf("after %d guesses: HTTP %d", freeTries, got.Status)
	}
	device.signIn(u.Email, secret)
	if got := device.secondStep(codeOf(t, a.secret, 0)); got.Status != http.StatusSeeOther {
		t.Errorf("the person at a known device: HTTP %d", got.Status)
	}
	another := s.guest()
	another.signIn(u.Email, secret)
	if got := another.secondStep("000000"); got.Status != http.StatusTooManyRequests {
		t.Errorf("a new pending sign-in has new tries: HTTP %d", got.Status)
	}
}

// Each recovery code signs in once, also of two who use it at once; new ones replace all.
func TestRecoveryCodes(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u, a := s.withApp(waypost.RoleMarketer)
	const racers = 8
	var done sync.WaitGroup
	statuses := make([]int, racers)
	for i := range racers {
		v := s.guest()
		v.signIn(u.Email, secret)
		done.Go(func() { statuses[i] = v.secondStep(strings.ToUpper(a.codes[0])).Status })
	}
	done.Wait()
	in := 0
	for _, status := range statuses {
		if status == http.StatusSeeOther {
			in++
		}
	}
	if in != 1 {
		t.Errorf("one recovery code has signed in %d times: %v", in, statuses)
	}
	s.redis.FastForward(time.Hour)
	v := s.guest()
	v.signIn(u.Email, secret)
	if got := v.secondStep(strings.ReplaceAll(a.codes[1], "-", " ")); got.Status != http.StatusSeeOther {
		t.Fatalf("another one: HTTP %d", got.Status)
	}
	if got := v.get("/deliveries").Body; !strings.Contains(got, "8 recovery codes are left.") {
		t.Error("how many are left is not told")
	}
	v.post("/second-factor/prove", url.Values{"password": {secret}})
	renewed := shownCode.FindAllStringSubmatch(v.post("/second-factor/codes", nil).Body, -1)
	if len(renewed) != recoveryCodes {
		t.Fatalf("%d new codes", len(renewed))
	}
	w := s.guest()
	w.signIn(u.Email, secret)
	if got := w.secondStep(a.codes[2]); got.Status != http.StatusUnauthorized {
		t.Errorf("one of before: HTTP %d", got.Status)
	}
	if got := w.secondStep(renewed[0][1]); got.Status != http.StatusSeeOther {
		t.Errorf("a new one: HTTP %d", got.Status)
	}
	found, err := s.store.User(t.Context(), u.ID)
	stored := found.SecondFactor.RecoveryCodes
	if err != nil || len(stored) != recoveryCodes-1 || strings.Contains(strings.Join(stored, " "), renewed[1][1]) {
		t.Errorf("%v, %v", stored, err)
	}
}

// Who must have a second factor and has none sets one up before anything else.
func TestMustHaveFactor(t *testing.T) {
	t.Parallel()
	for setting, asked := range map[string]map[waypost.Role]bool{
		SecondFactorOff:    {},
		SecondFactorAdmins: {waypost.RoleAdmin: true},
		SecondFactorAll:    {waypost.RoleAdmin: true, waypost.RoleMarketer: true, waypost.RoleViewer: true},
	} {
		s := newSite(t, func(o *Options) { o.SecondFactor = setting })
		for _, role := range waypost.Roles {
			u, link := s.user(role)
			v := s.guest()
			got := v.post("/sign-in/link", url.Values{"token": {link}, "password": {secret}})
			if !asked[role] {
				if got.To() != "/" || !goesOn(v) {
					t.Errorf("%s, %s: HTTP %d, to %q", setting, role, got.Status, got.To())
				}
				continue
			}
			if got.To() != secondStepPath || goesOn(v) {
				t.Errorf("%s, %s: HTTP %d, to %q", setting, role, got.Status, got.To())
			}
			if got := v.get("/deliveries"); !strings.HasPrefix(got.To(), "/sign-in?back=") {
				t.Errorf("a page: to %q", got.To())
			}
			v.get("/sign-in?back=%2Fleads")
			if got := v.get(secondStepPath); got.To() != factorPath {
				t.Errorf("the second step: HTTP %d, to %q", got.Status, got.To())
			}
			if got := v.get(factorPath); got.Status != http.StatusOK || !strings.Contains(got.Body, "Set up a second factor") {
				t.Errorf("what is to be set up: HTTP %d", got.Status)
			}
			for _, path := range []string{"/app/remove", "/codes", "/prove"} {
				if got := v.post(factorPath+path, nil); !strings.HasPrefix(got.To(), "/sign-in") {
					t.Errorf("%s of a pending sign-in: HTTP %d", path, got.Status)
				}
			}
			a := v.setUp(t)
			if !goesOn(v) {
				t.Error("who has set one up is not signed in")
			}
			w := s.guest()
			w.signIn(u.Email, secret)
			if got := w.secondStep(codeOf(t, a.secret, 0)); got.Status != http.StatusSeeOther {
				t.Errorf("the next sign-in: HTTP %d", got.Status)
			}
			w.post("/second-factor/prove", url.Values{"password": {secret}})
			w.post("/second-factor/app/remove", nil)
			if found, err := s.store.User(t.Context(), u.ID); err != nil || !found.SecondFactor.TOTP {
				t.Errorf("the last one was removed: %v, %v", found.SecondFactor, err)
			}
		}
	}
}

// Two pending sign-ins of one person set up one factor: the second has to show the first.
func TestTwoEnroll(t *testing.T) {
	t.Parallel()
	s := newSite(t, asksAll)
	_, link := s.user(waypost.RoleViewer)
	first, second := s.guest(), s.guest()
	for _, v := range []*visitor{first, second} {
		v.post("/sign-in/link", url.Values{"token": {link}})
	}
	found := shownSecret.FindStringSubmatch(second.get("/second-factor/app").Body)
	first.setUp(t)
	code := codeOf(t, strings.ReplaceAll(found[1], " ", ""), 0)
	if got := second.post("/second-factor/app", url.Values{"code": {code}}); got.To() != "/sign-in" || goesOn(second) {
		t.Errorf("HTTP %d, to %q", got.Status, got.To())
	}
}

// Sessions that began without the second factor end once the person has, or must have one; those of
// an issuer do not.
func TestSessionsWithoutFactor(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.SecondFactor = SecondFactorAdmins })
	u := s.withPassword(waypost.RoleMarketer)
	v, other := s.signedIn(u, "curl/8.0"), s.signedIn(u, "curl/8.0")
	v.post("/second-factor/prove", url.Values{"password": {secret}})
	a := v.setUp(t)
	if !goesOn(v) || goesOn(other) {
		t.Errorf("the session that has set it up goes on: %v; another one: %v", goesOn(v), goesOn(other))
	}
	if got := other.secondStep(codeOf(t, a.secret, 0)); got.Status != http.StatusSeeOther || !goesOn(other) {
		t.Errorf("the other one with a code: HTTP %d", got.Status)
	}
	got := v.post("/account/password", url.Values{"old": {secret}, "password": {secret + "!"}})
	if got.To() != "/account" || !goesOn(v) || goesOn(other) {
		t.Errorf("a new password: HTTP %d; the session goes on: %v; the other one: %v", got.Status, goesOn(v), goesOn(other))
	}
	promoted := s.withPassword(waypost.RoleMarketer)
	w := s.signedIn(promoted, "curl/8.0")
	if err := s.store.ChangeRole(t.Context(), ops, promoted.ID, waypost.RoleAdmin); err != nil {
		t.Fatal(err)
	}
	if goesOn(w) {
		t.Error("an administrator without a second factor goes on")
	}
	if got := w.get("/second-factor/app"); got.Status == http.StatusOK {
		t.Error("a session alone sets up a second factor")
	}
	w.signIn(promoted.Email, secret)
	w.setUp(t)
	if !goesOn(w) || w.get("/users").Status != http.StatusOK {
		t.Error("with one they do not")
	}
}

// A session alone changes no second factor: the password is asked for, and its tries are limited.
func TestFactorNeedsProof(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u, _ := s.withApp(waypost.RoleViewer)
	admin := s.withPassword(waypost.RoleAdmin)
	v := s.signedIn(admin, "curl/8.0")
	for _, path := range []string{"/app", "/app/remove", "/codes"} {
		if got := v.post(factorPath+path, url.Values{"code": {"123456"}}); got.To() != factorPath {
			t.Errorf("%s without a proof: HTTP %d, to %q", path, got.Status, got.To())
		}
	}
	if got := v.get(factorPath + "/app"); got.To() != factorPath {
		t.Errorf("HTTP %d", got.Status)
	}
	if got := v.get(factorPath); !strings.Contains(got.Body, "show that it is you") || strings.Contains(got.Body, "Set up an app") {
		t.Error("the page asks for no proof")
	}
	for range freeTries {
		if got := v.post("/second-factor/prove", url.Values{"password": {"a guess at it"}}); got.Status != http.StatusBadRequest {
			t.Errorf("a guess: HTTP %d", got.Status)
		}
	}
	if got := v.post("/second-factor/prove", url.Values{"password": {secret}}); got.Status != http.StatusTooManyRequests {
		t.Errorf("after guesses: HTTP %d", got.Status)
	}
	s.redis.FastForward(time.Second)
	v.post("/second-factor/prove", url.Values{"password": {secret}})
	v.setUp(t)
	if got := v.post("/second-factor/app/remove", nil); got.To() != factorPath {
		t.Errorf("HTTP %d", got.Status)
	}
	if found, err := s.store.User(t.Context(), admin.ID); err != nil || found.SecondFactor.Any() || len(found.SecondFactor.RecoveryCodes) > 0 {
		t.Errorf("%v, %v", found.SecondFactor, err)
	}
	if !goesOn(v) {
		t.Error("the session ends with the factor")
	}
	lost := s.guest()
	lost.signIn(u.Email, secret)
	// Another site's forms are refused.
	for _, path := range []string{"/app", "/app/remove", "/codes", "/prove"} {
		if got := v.do(http.MethodPost, factorPath+path, nil, http.Header{"Sec-Fetch-Site": {"cross-site"}}); got.Status != http.StatusForbidden {
			t.Errorf("%s of another site: HTTP %d", path, got.Status)
		}
	}
	for _, path := range []string{secondStepPath, "/account/password", "/account/sessions/end", "/users/" + u.ID + "/second-factor"} {
		if got := v.do(http.MethodPost, path, nil, http.Header{"Origin": {"https://evil.example"}}); got.Status != http.StatusForbidden {
			t.Errorf("%s of another site: HTTP %d", path, got.Status)
		}
	}
	// An administrator takes a lost one away, not their own.
	if got := v.post("/users/"+u.ID+"/second-factor", nil); got.To() != "/users" {
		t.Errorf("HTTP %d", got.Status)
	}
	if got := lost.get(secondStepPath); got.To() != "/sign-in" || goesOn(lost) {
		t.Errorf("a sign-in that was pending: HTTP %d, to %q", got.Status, got.To())
	}
	if got := s.guest().signIn(u.Email, secret); got.To() != "/deliveries?status=failed" {
		t.Errorf("HTTP %d, to %q", got.Status, got.To())
	}
	if got := v.post("/users/"+admin.ID+"/second-factor", nil); got.Status != http.StatusForbidden {
		t.Errorf("their own: HTTP %d", got.Status)
	}
}

// Who has no password shows a code. The wrong first code of an app turns nothing on.
func TestProofByCode(t *testing.T) {
	t.Parallel()
	s := newSite(t, asksAll)
	u, link := s.user(waypost.RoleViewer)
	v := s.guest()
	v.post("/sign-in/link", url.Values{"token": {link}})
	v.get("/second-factor/app")
	got := v.post("/second-factor/app", url.Values{"code": {"12345"}})
	if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "is not the code of this moment") {
		t.Errorf("HTTP %d", got.Status)
	}
	a := v.setUp(t)
	if got := v.post("/second-factor/prove", url.Values{"password": {""}, "code": {"000000"}}); got.Status != http.StatusBadRequest {
		t.Errorf("a wrong code: HTTP %d", got.Status)
	}
	if got := v.post("/second-factor/prove", url.Values{"code": {codeOf(t, a.secret, 0)}}); got.To() != factorPath {
		t.Errorf("a code: HTTP %d", got.Status)
	}
	if got := v.get("/second-factor/app"); got.Status != http.StatusOK || strings.Contains(got.Body, a.secret) {
		t.Errorf("another app: HTTP %d", got.Status)
	}
	shown := html.UnescapeString(v.get("/second-factor/app").Body)
	for _, part := range []string{"otpauth://totp/Waypost%20127.0.0.1:" + u.Email, `src="data:image/png;base64,`} {
		if !strings.Contains(shown, part) {
			t.Errorf("the page has no %s: %s", part, shown)
		}
	}
	if found := shownSecret.FindStringSubmatch(shown); strings.Contains(s.redis.Dump(), strings.ReplaceAll(found[1], " ", "")) {
		t.Error("Redis has the secret")
	}
}

// The audit log tells what a person does to their second factor, by what they sign in, and what failed.
func TestFactorIsAudited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u, a := s.withApp(waypost.RoleViewer)
	v := s.guest()
	v.signIn(u.Email, secret)
	v.secondStep("000000")
	v.secondStep(a.codes[0])
	v.post("/second-factor/prove", url.Values{"password": {secret}})
	v.post("/second-factor/app/remove", nil)
	scope, of := waypost.Scope{Org: testOrg, Stage: waypost.StageRelease}, waypost.AuditFilter{Target: u.ID}
	entries, err := s.store.ListAudit(t.Context(), scope, of, waypost.Page{Limit: 50})
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		if e.Action != "session.fail" {
			got = append(got, fmt.Sprintf("%s %s %s %s", e.Author.Actor, e.Action, e.Before, e.After))
		} else if !strings.Contains(string(e.After), `"secondFactor":1`) {
			t.Errorf("the failed step is told as %s", e.After)
		}
	}
	for _, want := range []string{
		u.Email + ` user.secondFactor {"app":"set","recoveryCodes":9} `,
		u.Email + ` session.create  {"by":"password","secondFactor":"recoveryCode"}`,
		u.Email + ` user.secondFactor {"recoveryCodes":10} {"recoveryCodes":9}`,
		u.Email + ` user.secondFactor  {"app":"set","recoveryCodes":10}`,
		u.Email + ` session.create  {"by":"password"}`,
	} {
		if !slices.Contains(got, want) {
			t.Errorf("there is no %q in %q", want, got)
		}
	}
	if n := len(entries); n == len(got) {
		t.Error("the failed step is not told")
	}
}
