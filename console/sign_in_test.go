package console

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/alexedwards/scs/v2"

	"waypost"
)

const secret = "correct horse battery"

// withPassword is a user who has chosen the password secret.
func (s *site) withPassword(role waypost.Role) waypost.User {
	s.t.Helper()
	u, link := s.user(role)
	if got := s.guest().post("/sign-in/link", url.Values{"token": {link}, "password": {secret}}); got.Status != http.StatusSeeOther {
		s.t.Fatalf("choose a password: HTTP %d", got.Status)
	}
	return u
}

func (v *visitor) signIn(email, password string) shown {
	return v.post("/sign-in", url.Values{"email": {email}, "password": {password}, "back": {"/deliveries?status=failed"}})
}

func TestSignIn(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.withPassword(waypost.RoleViewer)
	v := s.guest()
	if got := v.get("/deliveries?status=failed"); got.To() != "/sign-in?back=%2Fdeliveries%3Fstatus%3Dfailed" {
		t.Errorf("to %q", got.To())
	}
	// A session that somebody else has prepared, with a token that they know, stays theirs.
	v.setCookie("session", "planted")
	if got := v.signIn(strings.ToUpper(u.Email), secret); got.Status != http.StatusSeeOther || got.To() != "/deliveries?status=failed" {
		t.Fatalf("HTTP %d, to %q", got.Status, got.To())
	}
	if token := v.cookie("session"); token == "planted" || len(token) < 40 {
		t.Errorf("the session is %q", token)
	}
	if got := v.get("/deliveries"); got.Status != http.StatusOK || !strings.Contains(got.Body, u.Email) {
		t.Errorf("HTTP %d", got.Status)
	}
	if got := v.get("/sign-in"); got.To() != "/" {
		t.Errorf("signed in already: HTTP %d, to %q", got.Status, got.To())
	}
	before := v.cookie("session")
	if got := v.post("/sign-out", nil); got.To() != "/sign-in" {
		t.Errorf("to %q", got.To())
	}
	v.setCookie("session", before)
	if got := v.get("/deliveries"); got.Status != http.StatusSeeOther {
		t.Errorf("signed out: HTTP %d", got.Status)
	}
	for _, key := range s.redis.Keys() {
		if strings.Contains(key, before) || strings.Contains(key, "example.com") {
			t.Errorf("Redis has %s", key)
		}
	}
}

// A session that was planted in a browser does not become that of who signs in there.
func TestFixation(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	attacker, _ := s.as(waypost.RoleViewer)
	planted := attacker.cookie("session")
	u := s.withPassword(waypost.RoleAdmin)
	_, link := s.user(waypost.RoleAdmin)
	for by, signIn := range map[string]func(*visitor) shown{
		"link":     func(v *visitor) shown { return v.post("/sign-in/link", url.Values{"token": {link}}) },
		"password": func(v *visitor) shown { return v.signIn(u.Email, secret) },
	} {
		victim := s.guest()
		victim.setCookie("session", planted)
		if got := signIn(victim); got.Status != http.StatusSeeOther {
			t.Fatalf("%s: HTTP %d", by, got.Status)
		}
		if victim.cookie("session") == planted {
			t.Errorf("%s: the token is the same", by)
		}
		if got := victim.get("/users"); got.Status != http.StatusOK {
			t.Errorf("%s: HTTP %d", by, got.Status)
		}
		if got := attacker.get("/users"); got.Status == http.StatusOK {
			t.Errorf("%s: the attacker has the rights of the victim", by)
		}
		attacker, _ = s.as(waypost.RoleViewer)
		planted = attacker.cookie("session")
	}
}

func TestWrongPassword(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.withPassword(waypost.RoleViewer)
	disabled := s.withPassword(waypost.RoleViewer)
	if err := s.store.DisableUser(t.Context(), disabled.ID); err != nil {
		t.Fatal(err)
	}
	invited, _ := s.user(waypost.RoleViewer)
	for name, tt := range map[string][2]string{
		"wrong": {u.Email, secret + "!"}, "empty": {u.Email, ""}, "unknown": {"nobody@example.com", secret}, "disabled": {disabled.Email, secret},
		"without one": {invited.Email, ""}, "too long": {u.Email, strings.Repeat("a", maxPassword+1)},
	} {
		v := s.guest()
		got := v.signIn(tt[0], tt[1])
		if got.Status != http.StatusUnauthorized || !strings.Contains(got.Body, "The e-mail address or the password is wrong.") {
			t.Errorf("%s: HTTP %d", name, got.Status)
		}
		if got := v.get("/deliveries"); got.Status != http.StatusSeeOther {
			t.Errorf("%s: signed in", name)
		}
	}
}

// Who guesses waits longer and longer, even with the right password, on whatever address;
// another user does not.
func TestLockOut(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	u, other := s.withPassword(waypost.RoleViewer), s.withPassword(waypost.RoleViewer)
	try := func(email, password, from string) shown {
		return s.guest().do(http.MethodPost, "/sign-in", url.Values{"email": {email}, "password": {password}}, http.Header{"X-Forwarded-For": {from}})
	}
	for i := range freeTries {
		if got := try(u.Email, "wrong", fmt.Sprintf("192.0.2.%d", i)); got.Status != http.StatusUnauthorized {
			t.Fatalf("try %d: HTTP %d", i, got.Status)
		}
	}
	got := try(u.Email, secret, "192.0.2.99")
	if got.Status != http.StatusTooManyRequests || got.Header.Get("Retry-After") != "1" || !strings.Contains(got.Body, "Too many tries") {
		t.Errorf("HTTP %d, Retry-After %q", got.Status, got.Header.Get("Retry-After"))
	}
	if got := try(other.Email, secret, "192.0.2.99"); got.Status != http.StatusSeeOther {
		t.Errorf("another user: HTTP %d", got.Status)
	}
	s.redis.FastForward(time.Second)
	if got := try(u.Email, "wrong", "192.0.2.99"); got.Status != http.StatusUnauthorized {
		t.Errorf("a second later: HTTP %d", got.Status)
	}
	s.redis.FastForward(time.Second)
	if got := try(u.Email, secret, "192.0.2.99"); got.Status != http.StatusTooManyRequests {
		t.Errorf("the next waits longer: HTTP %d", got.Status)
	}
	s.redis.FastForward(2 * time.Second)
	if got := try(u.Email, secret, "192.0.2.99"); got.Status != http.StatusSeeOther {
		t.Errorf("the right one in its time: HTTP %d", got.Status)
	}
	// Who has the right password has not guessed: an office shares an address.
	for range freeAddressTries + 5 {
		if got := try(other.Email, secret, "203.0.113.5"); got.Status != http.StatusSeeOther {
			t.Fatalf("the right password again: HTTP %d", got.Status)
		}
	}
	// From one address, the users that are guessed do not matter.
	for i := range freeAddressTries {
		try(fmt.Sprintf("nobody%d@example.com", i), "wrong", "198.51.100.7")
	}
	if got := try(other.Email, secret, "198.51.100.7"); got.Status != http.StatusTooManyRequests {
		t.Errorf("the address: HTTP %d", got.Status)
	}
	if got := try(other.Email, secret, "198.51.100.8"); got.Status != http.StatusSeeOther {
		t.Errorf("another address: HTTP %d", got.Status)
	}
}

func TestAddress(t *testing.T) {
	t.Parallel()
	c := &console{Options: Options{TrustedProxies: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}}
	for _, tt := range []struct{ remote, forwarded, want string }{
		{"192.0.2.1:99", "", "192.0.2.1"},
		{"192.0.2.1:99", "198.51.100.1", "192.0.2.1"},
		{"10.0.0.1:99", "198.51.100.1", "198.51.100.1"},
		{"10.0.0.1:99", "203.0.113.1, 198.51.100.1, 10.1.1.1", "198.51.100.1"},
		{"10.0.0.1:99", "nonsense", "10.0.0.1"},
		{"[2001:db8:1:2:3:4:5:6]:99", "", "2001:db8:1:2::/64"},
		{"[::ffff:192.0.2.1]:99", "", "192.0.2.1"},
	} {
		r := &http.Request{RemoteAddr: tt.remote, Header: http.Header{}}
		if tt.forwarded != "" {
			r.Header.Set("X-Forwarded-For", tt.forwarded)
		}
		if got := (&visit{console: c, r: r}).address(); got != tt.want {
			t.Errorf("%s, %q: %s, want %s", tt.remote, tt.forwarded, got, tt.want)
		}
	}
}

// A link is used by its form, once. A chosen password ends the other sessions.
func TestLink(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other, u := s.as(waypost.RoleMarketer)
	link, err := s.store.LinkUser(t.Context(), u.ID)
	if err != nil {
		t.Fatal(err)
	}
	v := s.guest()
	for range 2 {
		if got := v.get("/sign-in/link?token=" + link); got.Status != http.StatusOK || !strings.Contains(got.Body, u.Email) {
			t.Fatalf("look: HTTP %d", got.Status)
		}
	}
	if got := v.post("/sign-in/link", url.Values{"token": {link}, "password": {"short"}}); got.Status != http.StatusBadRequest || !strings.Contains(got.Body, "must have 12 to 256 characters") {
		t.Errorf("a short password: HTTP %d", got.Status)
	}
	if got := v.post("/sign-in/link", url.Values{"token": {link}, "password": {secret}}); got.Status != http.StatusSeeOther {
		t.Errorf("use: HTTP %d", got.Status)
	}
	for _, got := range []shown{s.guest().get("/sign-in/link?token=" + link), s.guest().post("/sign-in/link", url.Values{"token": {link}})} {
		if got.Status != http.StatusNotFound || !strings.Contains(got.Body, "This link cannot be used any more") {
			t.Errorf("again: HTTP %d", got.Status)
		}
	}
	if got := other.get("/deliveries"); got.Status != http.StatusSeeOther {
		t.Errorf("the other session goes on: HTTP %d", got.Status)
	}
	if got := v.get("/deliveries"); got.Status != http.StatusOK {
		t.Errorf("the new one: HTTP %d", got.Status)
	}
	if _, err := s.store.ResetUser(t.Context(), u.ID); err != nil {
		t.Fatal(err)
	}
	if got := v.get("/deliveries"); got.Status != http.StatusSeeOther {
		t.Errorf("after a reset: HTTP %d", got.Status)
	}
}

// agedSessions makes sessions that are found older by age, and keeps when those that are written are to end.
type agedSessions struct {
	Sessions
	age  time.Duration
	ends []time.Time
}

func (a *agedSessions) FindCtx(ctx context.Context, token string) ([]byte, bool, error) {
	value, found, err := a.Sessions.FindCtx(ctx, token)
	if err != nil || !found {
		return nil, false, err
	}
	end, values, err := scs.GobCodec{}.Decode(value)
	if err != nil {
		return nil, false, err
	}
	values["began"] = values["began"].(int64) - int64(a.age.Seconds())
	value, err = scs.GobCodec{}.Encode(end.Add(-a.age), values)
	return value, true, err
}

func (a *agedSessions) CommitCtx(ctx context.Context, token string, value []byte, end time.Time) error {
	a.ends = append(a.ends, end)
	return a.Sessions.CommitCtx(ctx, token, value, end)
}

// A session ends after a time without a request, and after a time in any case. What prolongs it is
// written once a minute.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	var aged *agedSessions
	s := newSite(t, func(o *Options) {
		aged = &agedSessions{Sessions: o.Sessions}
		o.Sessions = aged
	})
	for _, tt := range []struct {
		age, left time.Duration // left: 0 if its end is not written
	}{
		{0, 0}, {sessionStep - 10*time.Second, 0}, {sessionStep + 10*time.Second, sessionIdle},
		{sessionTime - sessionIdle, sessionIdle}, {sessionTime - time.Hour, time.Hour},
	} {
		v, _ := s.as(waypost.RoleViewer)
		aged.age, aged.ends = tt.age, nil
		if got := v.get("/deliveries"); got.Status != http.StatusOK {
			t.Errorf("after %v: HTTP %d", tt.age, got.Status)
		}
		switch {
		case tt.left == 0:
			if len(aged.ends) > 0 {
				t.Errorf("after %v: the end is written, %v", tt.age, aged.ends)
			}
		case len(aged.ends) != 1:
			t.Errorf("after %v: %d ends are written", tt.age, len(aged.ends))
		default:
			if left := time.Until(aged.ends[0]); left > tt.left || left < tt.left-sessionStep {
				t.Errorf("after %v: %v are left, want %v", tt.age, left, tt.left)
			}
		}
		aged.age = 0
	}
	v, _ := s.as(waypost.RoleViewer)
	s.redis.FastForward(sessionIdle - time.Minute)
	if got := v.get("/deliveries"); got.Status != http.StatusOK {
		t.Errorf("in time: HTTP %d", got.Status)
	}
	s.redis.FastForward(2 * time.Minute)
	if got := v.get("/deliveries"); got.Status != http.StatusSeeOther {
		t.Errorf("too late: HTTP %d", got.Status)
	}
}

// Another site's form is refused, whoever's cookies come with it.
func TestCrossOrigin(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	v, u := s.as(waypost.RoleAdmin)
	for name, header := range map[string]http.Header{
		"cross-site": {"Sec-Fetch-Site": {"cross-site"}}, "same-site": {"Sec-Fetch-Site": {"same-site"}},
		"old browser": {"Origin": {"https://evil.example"}},
	} {
		for _, path := range []string{"/users", "/sign-out", "/sign-in", "/preferences"} {
			if got := v.do(http.MethodPost, path, url.Values{}, header); got.Status != http.StatusForbidden {
				t.Errorf("%s: POST %s: HTTP %d", name, path, got.Status)
			}
		}
	}
	if got := v.do(http.MethodPost, "/preferences", url.Values{}, http.Header{"Sec-Fetch-Site": {"same-origin"}, "Origin": {s.url}}); got.Status != http.StatusSeeOther {
		t.Errorf("our own: HTTP %d", got.Status)
	}
	if _, err := s.store.User(t.Context(), u.ID); err != nil {
		t.Error(err)
	}
}
