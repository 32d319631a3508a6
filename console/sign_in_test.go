package console

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
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
	if err := s.store.DisableUser(t.Context(), ops, disabled.ID); err != nil {
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

// Behind a proxy that writes ports into X-Forwarded-For, each client's tries are its own:
// nobody locks out everybody.
func TestLockOutBehindProxy(t *testing.T) {
	t.Parallel()
	s := newSite(t, func(o *Options) { o.TrustedProxies = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")} })
	ada := s.withPassword(waypost.RoleViewer)
	try := func(email, password, from string) shown {
		return s.guest().do(http.MethodPost, "/sign-in", url.Values{"email": {email}, "password": {password}}, http.Header{"X-Forwarded-For": {from}})
	}
	for i := range freeAddressTries + 4 {
		from := fmt.Sprintf("203.0.113.%d:5001%d", i, i%10)
		if got := try(fmt.Sprintf("nobody%d@example.com", i), "wrong", from); got.Status != http.StatusUnauthorized {
			t.Fatalf("from %s: HTTP %d", from, got.Status)
		}
	}
	if got := try(ada.Email, secret, "198.51.100.77:40000"); got.Status != http.StatusSeeOther {
		t.Errorf("with the right password from another address: HTTP %d", got.Status)
	}
	// Another port is another connection, not another client.
	for i := range freeAddressTries {
		try(fmt.Sprintf("none%d@example.com", i), "wrong", fmt.Sprintf("[2001:db8::%d]:%d", i, 50000+i))
	}
	if got := try(ada.Email, secret, "[2001:db8::99]:40000"); got.Status != http.StatusTooManyRequests {
		t.Errorf("from the /64 that guesses: HTTP %d", got.Status)
	}
}

// A link is used by its form, once. A chosen password ends the other sessions.
func TestLink(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	other, u := s.as(waypost.RoleMarketer)
	link, err := s.store.LinkUser(t.Context(), ops, u.ID)
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
	if _, err := s.store.ResetUser(t.Context(), ops, u.ID); err != nil {
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
	for _, at := range []string{"began", "seen"} {
		values[at] = values[at].(int64) - int64(a.age.Seconds())
	}
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

// audited are the entries of the audit log, newest first: who, what, of whom, what it is now.
func (s *site) audited() (lines []string) {
	s.t.Helper()
	all, err := s.store.ListAudit(s.t.Context(), waypost.Scope{Org: testOrg, Stage: waypost.StageRelease}, waypost.AuditFilter{}, waypost.Page{Limit: 500})
	if err != nil {
		s.t.Fatal(err)
	}
	for _, e := range all {
		lines = append(lines, fmt.Sprintf("%s %s %s %s", e.Author.Actor, e.Action, e.Target, e.After))
		if e.Author.Actor != "ops" && (e.Author.Application != testApp || e.Author.Address != "127.0.0.1" || !strings.HasPrefix(e.Author.RequestID, "req_")) {
			s.t.Errorf("%s: %+v", e.Action, e.Author)
		}
	}
	return lines
}

// Whatever is done to users, and each sign-in and sign-out, is in the audit log. An administrator who
// signs in by a link that they made for somebody else is named.
func TestUsersAreAudited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	admin, vic := s.as(waypost.RoleAdmin)
	if got := admin.post("/users", url.Values{"name": {"Ada"}, "email": {"Ada.L@example.com"}, "role": {"viewer"}}); got.Status != http.StatusOK {
		t.Fatalf("add: HTTP %d", got.Status)
	}
	ada, err := s.store.UserByEmail(t.Context(), testOrg, "ada.l@example.com")
	if err != nil {
		t.Fatal(err)
	}
	if got := admin.post("/users/"+ada.ID+"/role", url.Values{"role": {"marketer"}}); got.Status != http.StatusSeeOther {
		t.Fatalf("role: HTTP %d", got.Status)
	}
	reset := admin.post("/users/"+ada.ID+"/reset", nil)
	_, link, _ := strings.Cut(reset.Body, "/sign-in/link?token=")
	link, _, _ = strings.Cut(link, "<")
	used := s.guest()
	if got := used.post("/sign-in/link", url.Values{"token": {link}, "password": {secret}}); got.Status != http.StatusSeeOther {
		t.Fatalf("link: HTTP %d", got.Status)
	}
	used.post("/sign-out", nil)
	used.post("/sign-out", nil) // nobody any more
	guest := s.guest()
	for _, email := range []string{ada.Email, "somebody.typed@example.com"} {
		guest.signIn(email, "typed-password-8831")
		guest.signIn(email, "typed-password-8831")
	}
	guest.post("/sign-in/link", url.Values{"token": {link}})
	guest.signIn(ada.Email, secret)
	if got := admin.post("/users/"+ada.ID+"/disable", nil); got.Status != http.StatusSeeOther {
		t.Fatalf("disable: HTTP %d", got.Status)
	}
	guest.signIn(ada.Email, secret)

	lines := s.audited()
	slices.Sort(lines)
	who := func(u waypost.User, rest string) string { return u.Email + " " + rest }
	want := []string{
		`ops user.create ` + vic.ID + ` {"disabled":false,"link":"set","role":"admin"}`,
		who(vic, `session.create `+vic.ID+` {"by":"link","linkBy":"ops"}`),
		who(vic, `user.create `+ada.ID+` {"disabled":false,"link":"set","role":"viewer"}`),
		who(vic, `user.role `+ada.ID+` {"role":"marketer"}`),
		who(vic, `user.reset `+ada.ID+` {"link":"replaced"}`),
		who(vic, `user.disable `+ada.ID+` {"disabled":true}`),
		who(ada, `session.create `+ada.ID+` {"by":"link","linkBy":"`+vic.Email+`"}`),
		who(ada, `user.password `+ada.ID+` {"password":"set"}`),
		who(ada, `session.create `+ada.ID+` {"by":"password"}`),
		who(ada, `session.end `+ada.ID+` {"session":"this"}`),
	}
	failed := 0
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, " session.fail "+ada.ID):
			failed++
			if !strings.Contains(line, `"reasons":{"disabled":1,"password":2},"tries":3}`) {
				t.Error(line)
			}
		case strings.HasPrefix(line, " session.fail unknown user"):
			failed++
			if !strings.Contains(line, `"addresses":["127.0.0.1"]`) || !strings.Contains(line, `"reasons":{"link":1,"password":2},"tries":3}`) {
				t.Error(line)
			}
		case !slices.Contains(want, line):
			t.Errorf("%s is one too many", line)
		}
		if strings.Contains(line, "typed") {
			t.Errorf("%s has what somebody typed", line)
		}
	}
	if failed != 2 || len(lines) != len(want)+2 {
		t.Errorf("%d entries, %d of failed sign-ins:\n%s", len(lines), failed, strings.Join(lines, "\n"))
	}
	// What the person does is told by their id, which the log forgets with the user.
	s.take()
	if admin.get("/leads"); len(s.take()) == 0 {
		t.Error("no call")
	}
	for _, c := range func() []call { admin.get("/leads"); return s.take() }() {
		if c.Header.Get("X-Cloud-Actor") != vic.ID {
			t.Errorf("%s by %q", c.Target, c.Header.Get("X-Cloud-Actor"))
		}
	}
}

// What people do to their own passwords and sessions is in the audit log, too.
func TestOwnAccountIsAudited(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	u := s.withPassword(waypost.RoleViewer)
	v, others := s.guest(), s.guest()
	v.signIn(u.Email, secret)
	others.signIn(u.Email, secret)
	before := len(s.audited())
	v.post("/account/password", url.Values{"old": {"wrong"}, "password": {secret + "!"}})
	if got := v.post("/account/password", url.Values{"old": {secret}, "password": {secret + "!"}}); got.Status != http.StatusSeeOther {
		t.Fatalf("HTTP %d", got.Status)
	}
	if got := v.post("/account/sessions/end", nil); got.Status != http.StatusSeeOther {
		t.Fatalf("HTTP %d", got.Status)
	}
	lines := s.audited()
	lines = lines[:len(lines)-before]
	want := []string{
		u.Email + " session.end " + u.ID + ` {"session":"others"}`,
		u.Email + " user.password " + u.ID + ` {"password":"replaced"}`,
	}
	if len(lines) != 3 || !slices.Equal(lines[:2], want) || !strings.HasPrefix(lines[2], " session.fail "+u.ID) {
		t.Errorf("%s", strings.Join(lines, "\n"))
	}
}

// However often a stranger comes with links that are none, the log gets one entry.
func TestStrangersDoNotFillTheLog(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	for range 3 * freeAddressTries {
		if got := s.guest().post("/sign-in/link", url.Values{"token": {"none"}}); got.Status != http.StatusNotFound {
			t.Fatalf("HTTP %d", got.Status)
		}
	}
	lines := s.audited()
	if len(lines) != 1 || !strings.Contains(lines[0], fmt.Sprintf(`"tries":%d}`, freeAddressTries)) {
		t.Errorf("%v", lines)
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
		for _, path := range []string{"/users", "/sign-out", "/sign-in", "/preferences", "/users/" + u.ID + "/release", "/users/" + u.ID + "/delete", logoutPath} {
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
