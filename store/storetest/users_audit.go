package storetest

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
)

// as is the console's author for a user.
func as(u waypost.User) waypost.Author {
	by := acme
	by.Actor = u.ID
	return by
}

// testAuditedUsers looks for the entry of each change of a user, which holds no address and no name of
// the user, and for what is answered of it, which has the addresses of actors.
func testAuditedUsers(t *testing.T, f *fixture) {
	vic := person
	vic.Email, vic.Role = "vic@example.com", waypost.RoleAdmin
	admin, _ := madeUser(t, f, vic)
	step := func() { f.clock.Advance(time.Second) }
	step()
	ada, _, err := f.CreateUser(t.Context(), as(admin), person)
	ok(t, err)
	step()
	ok(t, f.ChangeRole(t.Context(), as(admin), ada.ID, waypost.RoleAdmin))
	ok(t, f.ChangeRole(t.Context(), as(admin), ada.ID, waypost.RoleAdmin)) // changes nothing
	step()
	link := must[string](t)(f.LinkUser(t.Context(), ops, ada.ID))
	step()
	must[waypost.User](t)(f.TakeLink(t.Context(), acme, link, "hash", ""))
	step()
	must[string](t)(f.ResetUser(t.Context(), as(admin), ada.ID))
	step()
	ok(t, f.DisableUser(t.Context(), ops, ada.ID))
	ok(t, f.DisableUser(t.Context(), ops, ada.ID)) // changes nothing
	step()
	must[string](t)(f.ResetUser(t.Context(), ops, ada.ID))

	of := func(u, actor, action, sides string) string {
		return fmt.Sprintf("%s %s %s %s", actor, action, u, sides)
	}
	var got []string
	for _, e := range f.audited(t, waypost.AuditFilter{Target: ada.ID}) {
		if e.Action == "session.create" {
			continue // of the same time as user.password
		}
		got = append(got, fmt.Sprintf("%s %s %s %s %s", e.Author.Actor, e.Action, e.Target, e.Before, e.After))
	}
	equal(t, "entries", got, []string{
		of(ada.ID, "ops", "user.reset", `{"disabled":true} {"disabled":false,"link":"set"}`),
		of(ada.ID, "ops", "user.disable", `{"disabled":false,"link":"set"} {"disabled":true}`),
		of(ada.ID, "vic@example.com", "user.reset", `{"password":"set"} {"link":"set"}`),
		of(ada.ID, "ada@example.com", "user.password", `{"link":"set"} {"password":"set"}`),
		of(ada.ID, "ops", "user.link", `{"link":"set"} {"link":"replaced"}`),
		of(ada.ID, "vic@example.com", "user.role", `{"role":"marketer"} {"role":"admin"}`),
		of(ada.ID, "vic@example.com", "user.create", ` {"disabled":false,"link":"set","role":"marketer"}`),
	})
	e := f.audited(t, waypost.AuditFilter{Target: ada.ID, Actor: "VIC@example.com"})[0]
	equal(t, "where from", []string{e.Author.Application, e.Author.RequestID, e.Author.Address}, []string{"app_console", "req", "192.0.2.1"})
	equal(t, "by id", len(f.audited(t, waypost.AuditFilter{Actor: admin.ID})), 3)

	// Of another organisation, nothing can be changed, and nothing is named.
	bolt := as(admin)
	bolt.Org = "other"
	wantCode(t, f.ChangeRole(t.Context(), bolt, ada.ID, waypost.RoleViewer), waypost.CodeNotFound)
	wantCode(t, f.DisableUser(t.Context(), bolt, ada.ID), waypost.CodeNotFound)
	_, err = f.ResetUser(t.Context(), bolt, ada.ID)
	wantCode(t, err, waypost.CodeNotFound)
	stranger := ada
	stranger.Org = "other"
	_, _, err = f.CreateUser(t.Context(), bolt, stranger)
	ok(t, err)
	other := must[[]waypost.AuditEntry](t)(f.ListAudit(t.Context(), waypost.Scope{Org: "other", Stage: waypost.StageRelease}, waypost.AuditFilter{}, waypost.Page{Limit: 9}))
	equal(t, "of another organisation", []any{len(other), other[0].Author.Actor}, []any{1, admin.ID})
	// Waypost itself leaves none.
	before := len(f.audited(t, waypost.AuditFilter{}))
	must[string](t)(f.LinkUser(t.Context(), waypost.Scope{}, ada.ID))
	equal(t, "by Waypost itself", len(f.audited(t, waypost.AuditFilter{})), before)
}

// testAuditedSignIns signs in by a link that somebody else made, which the entry names, by a password and
// out again. Of uses of one link at the same time one signs in.
func testAuditedSignIns(t *testing.T, f *fixture) {
	vic := person
	vic.Email, vic.Role = "vic@example.com", waypost.RoleAdmin
	admin, _ := madeUser(t, f, vic)
	ada, _ := madeUser(t, f, person)
	link := must[string](t)(f.ResetUser(t.Context(), as(admin), ada.ID))
	f.clock.Advance(time.Second)
	somePass(t, atOnce(8, func(int) error {
		_, err := f.TakeLink(t.Context(), acme, link, "", "")
		return err
	}), 1, waypost.CodeNotFound)
	f.clock.Advance(time.Second)
	ok(t, f.RecordSignOut(t.Context(), as(ada), ada.ID, waypost.SessionThis))
	f.clock.Advance(time.Second)
	ok(t, f.RecordSignIn(t.Context(), as(ada), waypost.SignInByPassword, ""))
	f.clock.Advance(time.Second)
	ok(t, f.RecordSignIn(t.Context(), as(ada), waypost.SignInByPassword, waypost.SecondFactorApp))
	equal(t, "entries", linesOf(f.audited(t, waypost.AuditFilter{Actor: person.Email})), []string{
		"app_console ada@example.com req session.create " + ada.ID + `  {"by":"password","secondFactor":"app"}`,
		"app_console ada@example.com req session.create " + ada.ID + `  {"by":"password"}`,
		"app_console ada@example.com req session.end " + ada.ID + `  {"session":"this"}`,
		"app_console ada@example.com req session.create " + ada.ID + `  {"by":"link","linkBy":"vic@example.com"}`,
	})
	// A link of one organisation is none of another.
	bolt := acme
	bolt.Org = "other"
	_, err := f.TakeLink(t.Context(), bolt, must[string](t)(f.LinkUser(t.Context(), ops, ada.ID)), "", "")
	wantCode(t, err, waypost.CodeNotFound)
}

// testAuditedFactors looks for the entry of each change of a second factor, which has no secret and no
// name, and for none of a code of the app that was used.
func testAuditedFactors(t *testing.T, f *fixture) {
	ada, _ := madeUser(t, f, person)
	change := func(change func(*waypost.SecondFactor)) {
		t.Helper()
		f.clock.Advance(time.Second)
		must[waypost.User](t)(f.ChangeSecondFactor(t.Context(), as(ada), ada, func(s *waypost.SecondFactor) error {
			change(s)
			return nil
		}))
	}
	change(func(s *waypost.SecondFactor) {
		s.TOTPSecret, s.TOTPStep, s.RecoveryCodes = "SECRET", 7, []string{"a", "b"}
	})
	change(func(s *waypost.SecondFactor) { s.TOTPStep = 8 })
	change(func(s *waypost.SecondFactor) { s.RecoveryCodes = []string{"b"} })
	change(func(s *waypost.SecondFactor) { s.RecoveryCodes = []string{"c"} })
	change(func(s *waypost.SecondFactor) {
		s.Passkeys = []waypost.Passkey{{ID: "AQ", Name: "Ada's", Credential: json.RawMessage("1")}}
	})
	change(func(s *waypost.SecondFactor) { s.Passkeys[0].Credential = json.RawMessage("2") })
	change(func(s *waypost.SecondFactor) { s.TOTPSecret = "ANOTHER" })
	f.clock.Advance(time.Second)
	ok(t, f.RemoveSecondFactor(t.Context(), ops, ada.ID))
	ok(t, f.RemoveSecondFactor(t.Context(), ops, ada.ID)) // changes nothing
	var got []string
	for _, e := range f.audited(t, waypost.AuditFilter{Target: ada.ID}) {
		if e.Action == "user.secondFactor" {
			got = append(got, fmt.Sprintf("%s %s %s", e.Author.Actor, e.Before, e.After))
		}
	}
	equal(t, "entries", got, []string{
		`ops {"app":"set","passkeys":1,"recoveryCodes":1} `,
		`ada@example.com {"app":"set"} {"app":"replaced"}`,
		`ada@example.com  {"passkeys":1}`,
		`ada@example.com {"recoveryCodes":1} {"recoveryCodes":"replaced"}`,
		`ada@example.com {"recoveryCodes":2} {"recoveryCodes":1}`,
		`ada@example.com  {"app":"set","recoveryCodes":2}`,
	})
	bolt := as(ada)
	bolt.Org = "other"
	wantCode(t, f.RemoveSecondFactor(t.Context(), bolt, ada.ID), waypost.CodeNotFound)
}

// testFailedSignIns lets strangers try: their tries are counted in one entry for each user and hour.
func testFailedSignIns(t *testing.T, f *fixture) {
	ada, _ := madeUser(t, f, person)
	from := func(i int) waypost.Author {
		by := as(ada) // whoever is signed in already is not who tries
		by.Address = fmt.Sprintf("192.0.2.%d", i)
		return by
	}
	const n = 60
	for _, err := range atOnce(n, func(i int) error {
		return f.RecordFailedSignIn(t.Context(), from(i), []string{"", ada.ID}[i%2], []string{"password", "link", "disabled"}[i%3])
	}) {
		ok(t, err)
	}
	counted := func(target string) (tries, entries, addresses int) {
		for _, e := range f.audited(t, waypost.AuditFilter{Target: target}) {
			if e.Action != "session.fail" {
				continue
			}
			var after struct {
				Tries     int
				Reasons   map[string]int
				Addresses []string
			}
			ok(t, json.Unmarshal(e.After, &after))
			reasons := 0
			for _, count := range after.Reasons {
				reasons += count
			}
			equal(t, "reasons", reasons, after.Tries)
			equal(t, "actor", e.Author.Actor, "")
			tries, entries, addresses = tries+after.Tries, entries+1, addresses+len(after.Addresses)
		}
		return tries, entries, addresses
	}
	targets := map[string]string{waypost.UnknownUser: "", ada.ID: ada.ID}
	entriesOf := map[string]int{}
	for target := range targets {
		tries, entries, addresses := counted(target)
		// Those that are the first at the same time may each begin an entry.
		if tries != n/2 || entries > n/2 || addresses < 20 {
			t.Fatalf("%s: %d tries in %d entries, with %d addresses", target, tries, entries, addresses)
		}
		entriesOf[target] = entries
	}
	for range 30 {
		f.clock.Advance(time.Minute)
		for _, id := range targets {
			ok(t, f.RecordFailedSignIn(t.Context(), from(1), id, "password"))
		}
	}
	f.clock.Advance(time.Hour)
	for target, id := range targets {
		tries, entries, _ := counted(target)
		equal(t, "within the hour", []int{tries, entries}, []int{n/2 + 30, entriesOf[target]})
		ok(t, f.RecordFailedSignIn(t.Context(), from(1), id, "password"))
		_, entries, _ = counted(target)
		equal(t, "an hour later", entries, entriesOf[target]+1)
	}
	if one := f.audited(t, waypost.AuditFilter{Target: ada.ID})[0]; !strings.HasPrefix(string(one.After), `{"addresses":["192.0.2.1"],"last":"`) || one.Author.Address != "192.0.2.1" {
		t.Fatalf("%s from %s", one.After, one.Author.Address)
	}
}

// testIssuerAccounts signs in by an issuer: whose account it is, who is made, who is refused, and that a
// refusal changes nothing but the role.
func testIssuerAccounts(t *testing.T, f *fixture) {
	const here, elsewhere = "https://login.example.com", "https://login.example.org"
	signIn := func(issuer, account, email string, role waypost.Role) (waypost.User, string) {
		t.Helper()
		u, refused, err := f.SignInByIssuer(t.Context(), acme, waypost.IssuerSignIn{
			Issuer: issuer, Subject: account, Email: email, Name: "N", ByClaims: true, Role: role,
		})
		ok(t, err)
		return u, refused
	}
	refuses := func(what, issuer, account, email string, role waypost.Role, want string) {
		t.Helper()
		before := must[[]waypost.User](t)(f.Users(t.Context(), "acme"))
		_, refused := signIn(issuer, account, email, role)
		equal(t, what, refused, want)
		equal(t, what+": users", must[[]waypost.User](t)(f.Users(t.Context(), "acme")), before)
	}
	ada, _ := madeUser(t, f, person)
	refuses("nobody", here, "none", "none@example.com", "", waypost.FailedUnknown)
	refuses("no verified address", here, "none", "", waypost.RoleAdmin, waypost.FailedUnknown)
	bound, refused := signIn(here, "ada", ada.Email, "")
	equal(t, "bound", []any{refused, bound.ID, bound.Role, bound.Issuer}, []any{"", ada.ID, ada.Role, here})
	refuses("another account", here, "eve", ada.Email, waypost.RoleAdmin, waypost.FailedSubject)
	refuses("of another issuer", elsewhere, "ada", ada.Email, waypost.RoleAdmin, waypost.FailedSubject)
	equal(t, "by account", must[waypost.User](t)(f.UserBySubject(t.Context(), "acme", here, "ada")).ID, ada.ID)
	for _, other := range [][3]string{{"other", here, "ada"}, {"acme", elsewhere, "ada"}, {"acme", here, "ADA"}, {"acme", "", ""}} {
		_, err := f.UserBySubject(t.Context(), other[0], other[1], other[2])
		wantCode(t, err, waypost.CodeNotFound)
	}
	made, _ := signIn(here, "bob", "bob@example.com", waypost.RoleAdmin)
	equal(t, "made", []any{made.Role, made.Email, made.PasswordHash}, []any{waypost.RoleAdmin, "bob@example.com", ""})
	_, refused = signIn(here, "bob", "bob@example.com", "")
	lost := must[waypost.User](t)(f.User(t.Context(), made.ID))
	equal(t, "lost", []any{refused, lost.Role, lost.Sessions}, []any{waypost.FailedRole, waypost.RoleNone, made.Sessions + 1})
	refuses("again", here, "bob", "bob@example.com", "", waypost.FailedRole)
	// Where no claims give roles any more, they stay as they are.
	_, refused, err := f.SignInByIssuer(t.Context(), acme, waypost.IssuerSignIn{Issuer: here, Subject: "bob"})
	equal(t, "without claims", []any{refused, err}, []any{"", nil})
	ok(t, f.DisableUser(t.Context(), ops, made.ID))
	refuses("disabled", here, "bob", "bob@example.com", waypost.RoleAdmin, waypost.FailedDisabled)
	ok(t, f.ReleaseUser(t.Context(), ops, ada.ID))
	released := must[waypost.User](t)(f.User(t.Context(), ada.ID))
	equal(t, "released", []any{released.Issuer, released.Sessions}, []any{"", bound.Sessions + 1})
	ok(t, f.ReleaseUser(t.Context(), ops, ada.ID))
	equal(t, "released twice", must[waypost.User](t)(f.User(t.Context(), ada.ID)), released)
	again, _ := signIn(elsewhere, "ada", ada.Email, "")
	equal(t, "elsewhere", []any{again.ID, again.Issuer}, []any{ada.ID, elsewhere})
	ok(t, f.EndSessions(t.Context(), acme, ada.ID))
	equal(t, "ended", must[waypost.User](t)(f.User(t.Context(), ada.ID)).Sessions, again.Sessions+1)
	_, _, err = f.SignInByIssuer(t.Context(), acme, waypost.IssuerSignIn{Issuer: here, Subject: "c", Email: "c", Role: waypost.RoleViewer})
	wantCode(t, err, waypost.CodeBadRequest)
}

// testDeleteUser deletes users: nothing has the address afterwards, and one administrator stays.
func testDeleteUser(t *testing.T, f *fixture) {
	vic := person
	vic.Email, vic.Role = "vic@example.com", waypost.RoleAdmin
	admin, _ := madeUser(t, f, vic)
	ada, _ := madeUser(t, f, person)
	wantCode(t, f.DeleteUser(t.Context(), ops, admin.ID), waypost.CodeConflict)
	wantCode(t, f.DeleteUser(t.Context(), ops, "usr_none"), waypost.CodeNotFound)
	bolt := acme
	bolt.Org = "other"
	wantCode(t, f.DeleteUser(t.Context(), bolt, ada.ID), waypost.CodeNotFound)

	// Commands and applications may name a person by the address.
	byAda := calledBy(ops, "Ada@Example.com")
	bob := person
	bob.Email = "bob@example.com"
	made, link, err := f.CreateUser(t.Context(), byAda, bob)
	ok(t, err)
	must[waypost.User](t)(f.TakeLink(t.Context(), acme, link, "", ""))
	_, kept, err := f.CreateUser(t.Context(), byAda, waypost.User{Org: "acme", Email: "eve@example.com", Name: "Eve", Role: waypost.RoleViewer})
	ok(t, err)
	app := calledBy(acme, person.Email)
	app.Stage = waypost.StageTest
	must[waypost.Journey](t)(f.CreateJourney(t.Context(), app, "J", []byte(`{}`)))
	ok(t, f.RecordSignIn(t.Context(), as(ada), waypost.SignInByPassword, ""))
	equal(t, "before", len(f.audited(t, waypost.AuditFilter{Actor: person.Email})), 1) // the others are in another case and stage

	f.clock.Advance(time.Second) // entries of one moment have no order
	ok(t, f.DeleteUser(t.Context(), as(admin), ada.ID))
	must[waypost.User](t)(f.TakeLink(t.Context(), acme, kept, "", waypost.SecondFactorApp))
	_, err = f.User(t.Context(), ada.ID)
	wantCode(t, err, waypost.CodeNotFound)
	equal(t, "by the address", len(f.audited(t, waypost.AuditFilter{Actor: person.Email})), 0)
	equal(t, "by the id", len(f.audited(t, waypost.AuditFilter{Actor: ada.ID})), 3)
	first := f.audited(t, waypost.AuditFilter{Target: ada.ID})[0]
	equal(t, "entry", []string{first.Author.Actor, first.Action}, []string{"vic@example.com", "user.delete"})
	lines := ""
	for _, sc := range append(foreign, scope) {
		for _, e := range must[[]waypost.AuditEntry](t)(f.ListAudit(t.Context(), sc, waypost.AuditFilter{}, waypost.Page{Limit: 500})) {
			lines += strings.ToLower(fmt.Sprintln(linesOf([]waypost.AuditEntry{e})))
		}
	}
	if strings.Contains(lines, person.Email) || !strings.Contains(lines, "session.create "+made.ID+`  {"by":"link","linkby":"`+ada.ID) || strings.Count(lines, `"linkby":"`+ada.ID) != 2 {
		t.Fatal(lines)
	}
	wantCode(t, f.DeleteUser(t.Context(), ops, ada.ID), waypost.CodeNotFound)
	madeUser(t, f, person) // the address is free again

	// Of administrators who are deleted at the same time, one stays.
	ids := []string{admin.ID}
	for i := range 4 {
		vic.Email = fmt.Sprintf("vic%d@example.com", i)
		u, _ := madeUser(t, f, vic)
		ids = append(ids, u.ID)
	}
	somePass(t, atOnce(len(ids), func(i int) error { return f.DeleteUser(t.Context(), ops, ids[i]) }), len(ids)-1, waypost.CodeConflict)
}

// calledBy is an author who names a person by the address.
func calledBy(by waypost.Author, address string) waypost.Author {
	by.Actor = address
	return by
}
