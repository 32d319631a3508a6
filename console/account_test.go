package console

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"waypost"
)

// agents are User-Agents as browsers send them, with the words that a person reads.
var agents = map[string]string{
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36":                         "Chrome on Windows",
	"Mozilla/5.0 (iPhone; CPU iPhone OS 18_0 like Mac OS X) AppleWebKit/605.1.15 (KHTML, like Gecko) Version/18.0 Mobile/15E148 Safari/604.1": "Safari on iOS",
	"Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0":                                                                  "Firefox on Linux",
	"Mozilla/5.0 (Windows NT 10.0; Win64; x64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Safari/537.36 Edg/140.0.0.0":           "Edge on Windows",
	"Mozilla/5.0 (Linux; Android 15; Pixel 9) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/140.0.0.0 Mobile Safari/537.36":                   "Chrome on Android",
	"": "Unknown device", "\xff\xfe": "Unknown device",
}

// signedIn is another browser in which the user is signed in.
func (s *site) signedIn(u waypost.User, agent string) *visitor {
	s.t.Helper()
	v := s.guest()
	form := url.Values{"email": {u.Email}, "password": {secret}}
	if got := v.do(http.MethodPost, "/sign-in", form, http.Header{"User-Agent": {agent}}); got.Status != http.StatusSeeOther {
		s.t.Fatalf("sign in: HTTP %d", got.Status)
	}
	return v
}

func goesOn(v *visitor) bool { return v.get("/deliveries").Status == http.StatusOK }

var endPath = regexp.MustCompile(`action="(/account/sessions/[0-9a-f]{64}/end)"`)

// A person sees the sessions that go on, of no other person, and ends one or all others.
func TestOwnSessions(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u, stranger := s.withPassword(waypost.RoleViewer), s.withPassword(waypost.RoleAdmin)
	here := s.signedIn(u, "curl/8.0")
	others := map[string]*visitor{}
	for agent, words := range agents {
		others[agent] = s.signedIn(u, agent)
		shown := here.get("/account")
		if shown.Status != http.StatusOK || !strings.Contains(shown.Body, words) {
			t.Errorf("%q: HTTP %d, without %q", agent, shown.Status, words)
		}
	}
	shown := here.get("/account").Body
	if !strings.Contains(shown, "127.0.0.1") || strings.Count(shown, "This one") != 1 {
		t.Errorf("the page is %s", shown)
	}
	ends := endPath.FindAllStringSubmatch(shown, -1)
	// The session in which the password was chosen goes on, too.
	if want := len(agents) + 1; len(ends) != want {
		t.Fatalf("%d other sessions, want %d", len(ends), want)
	}
	foreign := s.signedIn(stranger, "curl/8.0")
	if got := foreign.get("/account").Body; strings.Contains(got, "Pixel") || strings.Contains(got, "Safari on iOS") {
		t.Error("a stranger sees the sessions")
	}
	if got := foreign.post(ends[0][1], nil); got.Status != http.StatusNotFound {
		t.Errorf("a stranger ends one: HTTP %d", got.Status)
	}
	if got := here.get("/account").Body; len(endPath.FindAllString(got, -1)) != len(ends) {
		t.Error("a stranger has ended one")
	}
	if got := here.post(ends[0][1], nil); got.To() != "/account" {
		t.Errorf("end one: HTTP %d, to %q", got.Status, got.To())
	}
	if got := here.post(ends[0][1], nil); got.Status != http.StatusNotFound {
		t.Errorf("end it again: HTTP %d", got.Status)
	}
	if got := len(endPath.FindAllString(here.get("/account").Body, -1)); got != len(ends)-1 {
		t.Errorf("%d other sessions are left", got)
	}
	if got := here.post("/account/sessions/end", nil); got.To() != "/account" {
		t.Errorf("end all others: HTTP %d, to %q", got.Status, got.To())
	}
	for agent, v := range others {
		if goesOn(v) {
			t.Errorf("%q goes on", agent)
		}
	}
	if !goesOn(here) || !goesOn(foreign) {
		t.Error("this session, or another person's, was ended, too")
	}
	if all := s.redis.Dump(); strings.Contains(all, "Mozilla") || strings.Contains(all, "127.0.0.1") {
		t.Error("Redis tells what browser a person has, and where")
	}
}

// When a session was last seen is noted, once a minute; what is over is not shown.
func TestSessionIsSeen(t *testing.T) {
	t.Parallel()
	var aged *agedSessions
	s := newSite(t, func(o *Options) {
		aged = &agedSessions{Sessions: o.Sessions}
		o.Sessions = aged
	})
	u := s.withPassword(waypost.RoleViewer)
	v := s.signedIn(u, "curl/8.0")
	aged.age = sessionTime - time.Hour // in which its end does not move any more
	aged.ends = nil
	if !goesOn(v) || len(aged.ends) != 1 {
		t.Errorf("%d writes", len(aged.ends))
	}
	aged.age = 0
	if err := s.store.DisableUser(t.Context(), ops, u.ID); err != nil {
		t.Fatal(err)
	}
	link, err := s.store.ResetUser(t.Context(), ops, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	back := s.guest()
	back.post("/sign-in/link", url.Values{"token": {link}})
	if got := back.get("/account"); got.Status != http.StatusOK || endPath.MatchString(got.Body) {
		t.Errorf("HTTP %d, sessions that a reset has ended are shown: %v", got.Status, endPath.MatchString(got.Body))
	}
}

func TestChangePassword(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.withPassword(waypost.RoleMarketer)
	link, err := s.store.LinkUser(t.Context(), ops, u.ID)
	if err != nil {
		t.Fatal(err)
	}
	v, other := s.signedIn(u, "curl/8.0"), s.signedIn(u, "curl/8.0")
	const chosen = "another horse battery"
	for name, tt := range map[string]struct{ old, password, says string }{
		"wrong":     {"not the password", chosen, "is not your password"},
		"none":      {"", chosen, "is not your password"},
		"long":      {strings.Repeat("a", maxPassword+1), chosen, "is not your password"},
		"short new": {secret, "short", "must have 12 to 256 characters"},
	} {
		got := v.post("/account/password", url.Values{"old": {tt.old}, "password": {tt.password}})
		if got.Status != http.StatusBadRequest || !strings.Contains(got.Body, tt.says) {
			t.Errorf("%s: HTTP %d", name, got.Status)
		}
	}
	before := v.cookie("session")
	if got := v.post("/account/password", url.Values{"old": {secret}, "password": {chosen}}); got.To() != "/account" {
		t.Fatalf("HTTP %d, %s", got.Status, got.Body)
	}
	if !goesOn(v) || goesOn(other) || v.cookie("session") == before {
		t.Errorf("this session goes on: %v, the other one: %v", goesOn(v), goesOn(other))
	}
	if got := v.get("/account").Body; endPath.MatchString(got) {
		t.Error("an ended session is shown")
	}
	stolen := s.guest()
	stolen.setCookie("session", before)
	if goesOn(stolen) {
		t.Error("the token that the session had goes on")
	}
	if got := s.guest().get("/sign-in/link?token=" + link); got.Status != http.StatusNotFound {
		t.Errorf("the link of before: HTTP %d", got.Status)
	}
	if got := s.guest().signIn(u.Email, secret); got.Status != http.StatusUnauthorized {
		t.Errorf("the password of before: HTTP %d", got.Status)
	}
	if got := s.guest().signIn(u.Email, chosen); got.Status != http.StatusSeeOther {
		t.Errorf("the new password: HTTP %d", got.Status)
	}
	// Nobody guesses it with a session that they have taken over, and strangers do not use up its tries.
	for range freeTries {
		v.post("/account/password", url.Values{"old": {"a guess at it"}, "password": {secret}})
	}
	got := v.post("/account/password", url.Values{"old": {chosen}, "password": {secret}})
	if got.Status != http.StatusTooManyRequests || got.Header.Get("Retry-After") == "" {
		t.Errorf("after guesses: HTTP %d", got.Status)
	}
	if got := s.guest().signIn(u.Email, chosen); got.Status != http.StatusSeeOther {
		t.Errorf("a sign-in after that: HTTP %d", got.Status)
	}
	invited, _ := s.as(waypost.RoleViewer)
	if got := invited.get("/account"); !strings.Contains(got.Body, "You have no password.") {
		t.Errorf("without a password: %s", got.Body)
	}
	if got := invited.post("/account/password", url.Values{"old": {""}, "password": {chosen}}); got.Status != http.StatusBadRequest {
		t.Errorf("without a password: HTTP %d", got.Status)
	}
}
