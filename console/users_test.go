package console

import (
	"database/sql"
	"fmt"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"waypost"
	"waypost/limits"
)

// stored is the text of all tables and of Redis.
func (s *site) stored() string {
	s.t.Helper()
	db, err := sql.Open("sqlite", "file:"+s.file)
	if err != nil {
		s.t.Fatal(err)
	}
	defer db.Close()
	var all strings.Builder
	for _, table := range column[string](s, db, "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite_%'") {
		rows, err := db.QueryContext(s.t.Context(), fmt.Sprintf("SELECT * FROM %q", table))
		if err != nil {
			s.t.Fatal(err)
		}
		names, err := rows.Columns()
		if err != nil {
			s.t.Fatal(err)
		}
		for rows.Next() {
			values := make([]any, len(names))
			for i := range values {
				values[i] = new(sql.RawBytes)
			}
			if err := rows.Scan(values...); err != nil {
				s.t.Fatal(err)
			}
			for i, value := range values {
				fmt.Fprintf(&all, "%s.%s=%s\n", table, names[i], *value.(*sql.RawBytes))
			}
		}
		if err := rows.Err(); err != nil {
			s.t.Fatal(err)
		}
		rows.Close()
	}
	return all.String() + s.redis.Dump()
}

// column reads the only column of a query.
func column[T any](s *site, db *sql.DB, query string) (all []T) {
	s.t.Helper()
	rows, err := db.QueryContext(s.t.Context(), query)
	if err != nil {
		s.t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var value T
		if err := rows.Scan(&value); err != nil {
			s.t.Fatal(err)
		}
		all = append(all, value)
	}
	return all
}

// A user who is deleted is in no table and nowhere in Redis any more, whatever they have done before.
func TestDeletedUser(t *testing.T) {
	t.Parallel()
	p, s := oidcSite(t)
	admin, vic := s.as(waypost.RoleAdmin)
	const address, name = "deleted.yarrow@example.com", "Ophelia Featherstonehaugh"
	if got := admin.post("/users", url.Values{"name": {name}, "email": {address}, "role": {"admin"}}); got.Status != http.StatusOK {
		t.Fatalf("add: HTTP %d", got.Status)
	}
	u, err := s.store.UserByEmail(t.Context(), testOrg, address)
	if err != nil {
		t.Fatal(err)
	}
	v := s.guest()
	if got := p.visit(v, verified("account-hellebore", address)); !got.in() {
		t.Fatalf("sign in: to %q", got.To())
	}
	made := v.post("/users", url.Values{"name": {"Bob"}, "email": {"bob@example.com"}, "role": {"viewer"}})
	_, link, _ := strings.Cut(made.Body, "/sign-in/link?token=")
	link, _, _ = strings.Cut(link, "<")
	s.guest().signIn(address, "wrong")
	v.post("/account/password", url.Values{"old": {"wrong"}, "password": {secret}})
	if got := s.guest().post("/sign-in/link", url.Values{"token": {link}}); got.Status != http.StatusSeeOther {
		t.Fatalf("Bob's link: HTTP %d", got.Status)
	}
	before := s.stored()
	for _, text := range []string{address, name, "account-hellebore"} {
		if !strings.Contains(before, text) {
			t.Fatalf("%s was nowhere", text)
		}
	}
	if got := v.post("/users/"+u.ID+"/delete", nil); got.Status != http.StatusForbidden {
		t.Errorf("themselves: HTTP %d", got.Status)
	}
	if got := admin.post("/users/"+u.ID+"/delete", nil); got.To() != "/users" {
		t.Fatalf("delete: HTTP %d", got.Status)
	}
	after := s.stored()
	for _, text := range []string{address, "deleted.yarrow", name, "account-hellebore"} {
		for line := range strings.SplitSeq(after, "\n") {
			if strings.Contains(strings.ToLower(line), strings.ToLower(text)) {
				t.Errorf("%s is in %.200s", text, line)
			}
		}
	}
	if strings.Contains(s.redis.Dump(), u.ID) {
		t.Error("Redis has something of the user")
	}
	if got := v.get("/deliveries"); got.Status != http.StatusSeeOther {
		t.Errorf("the session goes on: HTTP %d", got.Status)
	}
	lines := strings.Join(s.audited(), "\n")
	for _, want := range []string{vic.Email + " user.delete " + u.ID, u.ID + " session.create " + u.ID + ` {"by":"issuer"}`, `{"by":"link","linkBy":"` + u.ID + `"}`} {
		if !strings.Contains(lines, want) {
			t.Errorf("the audit log lacks %s:\n%s", want, lines)
		}
	}
	// The last administrator cannot be deleted by whoever comes at the same time.
	if err := s.store.DeleteUser(t.Context(), ops, vic.ID); waypost.CodeOf(err) != waypost.CodeConflict {
		t.Errorf("the last administrator: %v", err)
	}
}

// Two consoles of two organisations on one host, which browsers send the same cookies, share a Redis:
// neither ends the other's session, or takes it for its own.
func TestTwoConsoles(t *testing.T) {
	t.Parallel()
	acme := newSite(t)
	bolt := newSite(t, func(o *Options) {
		shared := redis.NewClient(limits.ClientOptions(&redis.Options{Addr: acme.redis.Addr()}))
		t.Cleanup(func() { _ = shared.Close() })
		o.Users = orgUsers{o.Users.(orgUsers).Store, "bolt"}
		o.Org, o.Sessions, o.Attempts = "bolt", limits.NewSessions(shared, "bolt"), limits.NewAttempts(shared)
	})
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	atAcme, atBolt := acme.guest(), bolt.guest()
	atAcme.client.Jar, atBolt.client.Jar = jar, jar
	for v, link := range map[*visitor]string{atAcme: linkOf(acme, "acme"), atBolt: linkOf(bolt, "bolt")} {
		if got := v.post("/sign-in/link", url.Values{"token": {link}}); got.Status != http.StatusSeeOther {
			t.Fatalf("sign in: HTTP %d", got.Status)
		}
	}
	for range 2 {
		for _, v := range []*visitor{atAcme, atBolt} {
			if got := v.get("/deliveries"); got.Status != http.StatusOK {
				t.Errorf("%s: HTTP %d", v.s.org, got.Status)
			}
		}
	}
	// Whoever carries a token over is a guest there, and even a sign-out ends nothing.
	thief := bolt.guest()
	thief.setCookie("session", atAcme.cookie("session"))
	if got := thief.get("/deliveries"); got.Status != http.StatusSeeOther {
		t.Errorf("acme's session at bolt: HTTP %d", got.Status)
	}
	thief.post("/sign-out", nil)
	if got := atAcme.get("/deliveries"); got.Status != http.StatusOK {
		t.Errorf("acme, after a sign-out at bolt: HTTP %d", got.Status)
	}
	// Guesses at one console delay nobody at the other.
	for range freeTries + 1 {
		bolt.guest().signIn("ada@example.com", "wrong")
	}
	if got := acme.guest().signIn("ada@example.com", "wrong"); got.Status != http.StatusUnauthorized {
		t.Errorf("a try at acme: HTTP %d", got.Status)
	}
	atBolt.post("/sign-out", nil)
	if a, b := atAcme.get("/deliveries").Status, atBolt.get("/deliveries").Status; a != http.StatusOK || b != http.StatusSeeOther {
		t.Errorf("after a sign-out of bolt: HTTP %d, %d", a, b)
	}
}

// linkOf is a sign-in link of a new user of an organisation.
func linkOf(s *site, org string) string {
	s.t.Helper()
	_, link, err := s.store.CreateUser(s.t.Context(), waypost.Scope{}, waypost.User{Org: org, Email: "ada@example.com", Name: "Ada", Role: waypost.RoleAdmin})
	if err != nil {
		s.t.Fatal(err)
	}
	return link
}
