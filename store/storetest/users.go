package storetest

import (
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"waypost"
)

// person is a user that can be stored.
var person = waypost.User{Org: "acme", Email: "ada@example.com", Name: "Ada", Role: waypost.RoleMarketer}

// ops manages users of all organisations from the outside; acme is the console of one.
var (
	ops  = waypost.Author{Actor: "ops"}
	acme = waypost.Author{Scope: waypost.Scope{Org: "acme"}, Application: "app_console", RequestID: "req", Address: "192.0.2.1"}
)

func madeUser(t *testing.T, f *fixture, u waypost.User) (waypost.User, string) {
	t.Helper()
	made, link, err := f.CreateUser(t.Context(), ops, u)
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
		_, _, err = f.CreateUser(t.Context(), ops, person)
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
			func(u *waypost.User) { u.Role = waypost.RoleNone },
		} {
			u := person
			change(&u)
			_, _, err := f.CreateUser(t.Context(), ops, u)
			wantCode(t, err, waypost.CodeBadRequest)
		}
		for _, id := range []string{"", "usr_none", "usr_\x00"} {
			_, err := f.User(t.Context(), id)
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.DisableUser(t.Context(), ops, id), waypost.CodeNotFound)
		}
	}},
	{"links", func(t *testing.T, f *fixture) {
		made, first := madeUser(t, f, person)
		second := must[string](t)(f.LinkUser(t.Context(), ops, made.ID))
		for _, token := range []string{first, "", "none"} {
			_, err := f.UserByLink(t.Context(), "acme", token)
			wantCode(t, err, waypost.CodeNotFound)
		}
		_, err := f.UserByLink(t.Context(), "other", second)
		wantCode(t, err, waypost.CodeNotFound)
		equal(t, "by link", must[waypost.User](t)(f.UserByLink(t.Context(), "acme", second)), made)

		taken := must[waypost.User](t)(f.TakeLink(t.Context(), acme, second, "hash", ""))
		equal(t, "password", taken.PasswordHash, "hash")
		equal(t, "sessions", taken.Sessions, made.Sessions+1)
		_, err = f.TakeLink(t.Context(), acme, second, "another", "")
		wantCode(t, err, waypost.CodeNotFound)

		third := must[string](t)(f.LinkUser(t.Context(), ops, made.ID))
		kept := must[waypost.User](t)(f.TakeLink(t.Context(), acme, third, "", ""))
		equal(t, "kept", kept, taken)

		late := must[string](t)(f.LinkUser(t.Context(), ops, made.ID))
		f.clock.Advance(waypost.LinkExpiry)
		_, err = f.TakeLink(t.Context(), acme, late, "", "")
		wantCode(t, err, waypost.CodeNotFound)
	}},
	{"a new password", func(t *testing.T, f *fixture) {
		made, link := madeUser(t, f, person)
		changed := must[waypost.User](t)(f.ChangePassword(t.Context(), ops, made, "hash"))
		equal(t, "user", must[waypost.User](t)(f.User(t.Context(), made.ID)), changed)
		equal(t, "password", changed.PasswordHash, "hash")
		equal(t, "sessions", changed.Sessions, made.Sessions+1)
		_, err := f.UserByLink(t.Context(), "acme", link)
		wantCode(t, err, waypost.CodeNotFound)
		_, err = f.ChangePassword(t.Context(), ops, waypost.User{ID: "usr_none"}, "hash")
		wantCode(t, err, waypost.CodeNotFound)
	}},
	{"second factors", func(t *testing.T, f *fixture) {
		made, _ := madeUser(t, f, person)
		key := waypost.Passkey{ID: "AQ", Name: "Key", Credential: json.RawMessage(`{"id":"AQ=="}`), CreatedAt: f.clock.Now().UTC()}
		changed := must[waypost.User](t)(f.ChangeSecondFactor(t.Context(), ops, made, func(s *waypost.SecondFactor) error {
			equal(t, "before", *s, waypost.SecondFactor{})
			s.TOTPSecret, s.TOTPStep, s.Passkeys, s.RecoveryCodes = "SECRET", 7, []waypost.Passkey{key}, []string{"a", "b"}
			return nil
		}))
		want := waypost.SecondFactor{TOTP: true, Passkeys: []waypost.Passkey{key}, RecoveryCodes: []string{"a", "b"}}
		equal(t, "after", changed.SecondFactor, want)
		equal(t, "read", must[waypost.User](t)(f.User(t.Context(), made.ID)), changed)
		equal(t, "sessions", changed.Sessions, made.Sessions)

		// What is refused changes nothing, and comes back as it is.
		stop := errors.New("stop")
		_, err := f.ChangeSecondFactor(t.Context(), ops, made, func(s *waypost.SecondFactor) error {
			equal(t, "secret", s.TOTPSecret, "SECRET")
			equal(t, "step", s.TOTPStep, int64(7))
			s.TOTPSecret, s.RecoveryCodes = "", nil
			return stop
		})
		if !errors.Is(err, stop) {
			t.Errorf("%v, want %v", err, stop)
		}
		equal(t, "kept", must[waypost.User](t)(f.User(t.Context(), made.ID)), changed)

		// Of those who use one code at once, one finds it.
		var uses atomic.Int64
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				used := false
				if _, err := f.ChangeSecondFactor(t.Context(), ops, made, func(s *waypost.SecondFactor) error {
					if used = slices.Contains(s.RecoveryCodes, "a"); used {
						s.RecoveryCodes = []string{"b"}
					}
					return nil
				}); err == nil && used {
					uses.Add(1)
				}
			})
		}
		all.Wait()
		equal(t, "uses of one code", uses.Load(), int64(1))

		// Recovery codes go with the last factor.
		changed = must[waypost.User](t)(f.ChangeSecondFactor(t.Context(), ops, made, func(s *waypost.SecondFactor) error {
			s.TOTPSecret, s.Passkeys = "", nil
			return nil
		}))
		equal(t, "none", changed.SecondFactor, waypost.SecondFactor{})

		must[waypost.User](t)(f.ChangeSecondFactor(t.Context(), ops, made, func(s *waypost.SecondFactor) error {
			s.TOTPSecret = "ANOTHER"
			return nil
		}))
		sessions := must[waypost.User](t)(f.User(t.Context(), made.ID)).Sessions
		for range 2 { // the second time there is none to take away, and no session ends
			ok(t, f.RemoveSecondFactor(t.Context(), ops, made.ID))
			removed := must[waypost.User](t)(f.User(t.Context(), made.ID))
			equal(t, "removed", removed.SecondFactor.Any(), false)
			equal(t, "ends of all sessions", removed.Sessions, sessions+1)
		}
		wantCode(t, f.RemoveSecondFactor(t.Context(), ops, "usr_none"), waypost.CodeNotFound)
		_, err = f.ChangeSecondFactor(t.Context(), ops, waypost.User{ID: "usr_none"}, func(*waypost.SecondFactor) error { return nil })
		wantCode(t, err, waypost.CodeNotFound)
	}},
	{"sessions that are over", func(t *testing.T, f *fixture) {
		made, _ := madeUser(t, f, person)
		for name, end := range map[string]func() error{
			"reset":    func() error { _, err := f.ResetUser(t.Context(), ops, made.ID); return err },
			"disabled": func() error { return f.DisableUser(t.Context(), ops, made.ID) },
			"ended":    func() error { return f.EndSessions(t.Context(), ops, made.ID) },
		} {
			seen := must[waypost.User](t)(f.User(t.Context(), made.ID))
			ok(t, end())
			after := must[waypost.User](t)(f.User(t.Context(), made.ID))
			if _, err := f.ChangePassword(t.Context(), ops, seen, "late"); !errors.Is(err, waypost.ErrSessionOver) {
				t.Errorf("%s: a new password: %v", name, err)
			}
			_, err := f.ChangeSecondFactor(t.Context(), ops, seen, func(s *waypost.SecondFactor) error {
				s.TOTPSecret = "LATE"
				return nil
			})
			if !errors.Is(err, waypost.ErrSessionOver) {
				t.Errorf("%s: a new factor: %v", name, err)
			}
			equal(t, name+": the user", must[waypost.User](t)(f.User(t.Context(), made.ID)), after)
		}
	}},
	{"reset and disable", func(t *testing.T, f *fixture) {
		made, link := madeUser(t, f, person)
		must[waypost.User](t)(f.TakeLink(t.Context(), acme, link, "hash", ""))
		link = must[string](t)(f.ResetUser(t.Context(), ops, made.ID))
		found := must[waypost.User](t)(f.User(t.Context(), made.ID))
		equal(t, "password", found.PasswordHash, "")
		equal(t, "sessions", found.Sessions, made.Sessions+2)
		if err := f.DisableUser(t.Context(), ops, made.ID); err != nil {
			t.Fatal(err)
		}
		_, err := f.TakeLink(t.Context(), acme, link, "", "")
		wantCode(t, err, waypost.CodeNotFound)
		found = must[waypost.User](t)(f.User(t.Context(), made.ID))
		equal(t, "disabled", found.Disabled, true)
		equal(t, "sessions", found.Sessions, made.Sessions+3)
		// A link that is made for a disabled user is of no use either; a reset is.
		_, err = f.TakeLink(t.Context(), acme, must[string](t)(f.LinkUser(t.Context(), ops, made.ID)), "", "")
		wantCode(t, err, waypost.CodeNotFound)
		back := must[waypost.User](t)(f.TakeLink(t.Context(), acme, must[string](t)(f.ResetUser(t.Context(), ops, made.ID)), "", ""))
		equal(t, "disabled", back.Disabled, false)
	}},
	{"who did it", testAuditedUsers},
	{"audited second factors", testAuditedFactors},
	{"sign-ins", testAuditedSignIns},
	{"failed sign-ins", testFailedSignIns},
	{"accounts of an issuer", testIssuerAccounts},
	{"delete", testDeleteUser},
	{"roles", func(t *testing.T, f *fixture) {
		made, _ := madeUser(t, f, person)
		if err := f.ChangeRole(t.Context(), ops, made.ID, waypost.RoleAdmin); err != nil {
			t.Fatal(err)
		}
		made.Role = waypost.RoleAdmin
		equal(t, "user", must[waypost.User](t)(f.User(t.Context(), made.ID)), made)
		wantCode(t, f.ChangeRole(t.Context(), ops, made.ID, "owner"), waypost.CodeBadRequest)
		wantCode(t, f.ChangeRole(t.Context(), ops, "usr_none", waypost.RoleAdmin), waypost.CodeNotFound)
	}},
}
