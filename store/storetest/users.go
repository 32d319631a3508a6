package storetest

import (
	"strings"
	"testing"

	"waypost"
)

// person is a user that can be stored.
var person = waypost.User{Org: "acme", Email: "ada@example.com", Name: "Ada", Role: waypost.RoleMarketer}

func madeUser(t *testing.T, f *fixture, u waypost.User) (waypost.User, string) {
	t.Helper()
	made, link, err := f.CreateUser(t.Context(), u)
	if err != nil {
		t.Fatal(err)
	}
	return made, link
}

var userTests = []test{
	{"create", func(t *testing.T, f *fixture) {
		made, link := madeUser(t, f, person)
		want := person
		want.ID, want.CreatedAt = made.ID, f.clock.Now()
		equal(t, "user", made, want)
		if !waypost.IsID(waypost.PrefixUser, made.ID) || len(link) < 40 {
			t.Errorf("minted %q and a link of %d characters", made.ID, len(link))
		}
		equal(t, "by id", must[waypost.User](t)(f.User(t.Context(), made.ID)), want)
		equal(t, "by address", must[waypost.User](t)(f.UserByEmail(t.Context(), "acme", "ADA@example.com")), want)
		equal(t, "list", must[[]waypost.User](t)(f.Users(t.Context(), "acme")), []waypost.User{want})
		equal(t, "other org", len(must[[]waypost.User](t)(f.Users(t.Context(), "other"))), 0)
		_, err := f.UserByEmail(t.Context(), "other", person.Email)
		wantCode(t, err, waypost.CodeNotFound)
		_, _, err = f.CreateUser(t.Context(), person)
		wantCode(t, err, waypost.CodeConflict)
		other := person
		other.Org = "other"
		madeUser(t, f, other)
	}},
	{"faulty", func(t *testing.T, f *fixture) {
		for _, change := range []func(*waypost.User){
			func(u *waypost.User) { u.Org = "" },
			func(u *waypost.User) { u.Email = "Ada@example.com" },
			func(u *waypost.User) { u.Email = "ada" },
			func(u *waypost.User) { u.Email = "a@b@c" },
			func(u *waypost.User) { u.Name = strings.Repeat("a", 101) },
			func(u *waypost.User) { u.Role = "owner" },
		} {
			u := person
			change(&u)
			_, _, err := f.CreateUser(t.Context(), u)
			wantCode(t, err, waypost.CodeBadRequest)
		}
		for _, id := range []string{"", "usr_none", "usr_\x00"} {
			_, err := f.User(t.Context(), id)
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.DisableUser(t.Context(), id), waypost.CodeNotFound)
		}
	}},
	{"links", func(t *testing.T, f *fixture) {
		made, first := madeUser(t, f, person)
		second := must[string](t)(f.LinkUser(t.Context(), made.ID))
		for _, token := range []string{first, "", "none"} {
			_, err := f.UserByLink(t.Context(), "acme", token)
			wantCode(t, err, waypost.CodeNotFound)
		}
		_, err := f.UserByLink(t.Context(), "other", second)
		wantCode(t, err, waypost.CodeNotFound)
		equal(t, "by link", must[waypost.User](t)(f.UserByLink(t.Context(), "acme", second)), made)

		taken := must[waypost.User](t)(f.TakeLink(t.Context(), "acme", second, "hash"))
		equal(t, "password", taken.PasswordHash, "hash")
		equal(t, "sessions", taken.Sessions, made.Sessions+1)
		_, err = f.TakeLink(t.Context(), "acme", second, "another")
		wantCode(t, err, waypost.CodeNotFound)

		third := must[string](t)(f.LinkUser(t.Context(), made.ID))
		kept := must[waypost.User](t)(f.TakeLink(t.Context(), "acme", third, ""))
		equal(t, "kept", kept, taken)

		late := must[string](t)(f.LinkUser(t.Context(), made.ID))
		f.clock.Advance(waypost.LinkExpiry)
		_, err = f.TakeLink(t.Context(), "acme", late, "")
		wantCode(t, err, waypost.CodeNotFound)
	}},
	{"reset and disable", func(t *testing.T, f *fixture) {
		made, link := madeUser(t, f, person)
		must[waypost.User](t)(f.TakeLink(t.Context(), "acme", link, "hash"))
		link = must[string](t)(f.ResetUser(t.Context(), made.ID))
		found := must[waypost.User](t)(f.User(t.Context(), made.ID))
		equal(t, "password", found.PasswordHash, "")
		equal(t, "sessions", found.Sessions, made.Sessions+2)
		if err := f.DisableUser(t.Context(), made.ID); err != nil {
			t.Fatal(err)
		}
		_, err := f.TakeLink(t.Context(), "acme", link, "")
		wantCode(t, err, waypost.CodeNotFound)
		found = must[waypost.User](t)(f.User(t.Context(), made.ID))
		equal(t, "disabled", found.Disabled, true)
		equal(t, "sessions", found.Sessions, made.Sessions+3)
		// A link that is made for a disabled user is of no use either; a reset is.
		_, err = f.TakeLink(t.Context(), "acme", must[string](t)(f.LinkUser(t.Context(), made.ID)), "")
		wantCode(t, err, waypost.CodeNotFound)
		back := must[waypost.User](t)(f.TakeLink(t.Context(), "acme", must[string](t)(f.ResetUser(t.Context(), made.ID)), ""))
		equal(t, "disabled", back.Disabled, false)
	}},
	{"roles", func(t *testing.T, f *fixture) {
		made, _ := madeUser(t, f, person)
		if err := f.ChangeRole(t.Context(), made.ID, waypost.RoleAdmin); err != nil {
			t.Fatal(err)
		}
		made.Role = waypost.RoleAdmin
		equal(t, "user", must[waypost.User](t)(f.User(t.Context(), made.ID)), made)
		wantCode(t, f.ChangeRole(t.Context(), made.ID, "owner"), waypost.CodeBadRequest)
		wantCode(t, f.ChangeRole(t.Context(), "usr_none", waypost.RoleAdmin), waypost.CodeNotFound)
	}},
}
