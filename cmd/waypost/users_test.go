package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"waypost"
	"waypost/app"
	"waypost/config"
	"waypost/store"
)

func TestUsers(t *testing.T) {
	t.Parallel()
	environ := append(deployment(t), "WAYPOST_CONSOLE_URL=https://console.example.com/", "WAYPOST_ACTOR=Vic")
	add := []string{"-o", "json", "users", "add", "--org", "acme", "--email", "Ada@Example.com", "--name", "Ada", "--role", "marketer"}
	made := runCLI(t, environ, "", add...)
	var user struct{ ID, Email, Role, Link string }
	if err := json.Unmarshal([]byte(made.stdout), &user); err != nil {
		t.Fatalf("%v in %s%s", err, made.stdout, made.stderr)
	}
	if user.Email != "ada@example.com" || user.Role != "marketer" || !strings.HasPrefix(user.Link, "https://console.example.com/sign-in/link?token=") {
		t.Errorf("made %+v", user)
	}
	runCLI(t, environ, "", add...).want(t, 1, nil, []string{"there is such a user already"})
	runCLI(t, environ, "", "users", "list", "--org", "acme").want(t, 0, []string{user.ID, "ada@example.com", "marketer", "active", "none"}, nil)
	setUpApp(t, environ, user.ID)
	runCLI(t, environ, "", "users", "list").want(t, 0, []string{"SECOND FACTOR", "app"}, nil)
	runCLI(t, environ, "", "-o", "json", "users", "list").want(t, 0, []string{`"secondFactor": [`, `"app"`}, nil)
	runCLI(t, environ, "", "users", "list", "--org", "other").want(t, 0, []string{"ID"}, nil)
	reset := runCLI(t, environ, "", "users", "reset", user.ID)
	reset.want(t, 0, []string{user.ID, "https://console.example.com/sign-in/link?token="}, []string{"signs in once, within a day"})
	if strings.Contains(reset.stdout, user.Link) {
		t.Error("the link is the one of before")
	}
	runCLI(t, environ, "", "users", "reset", user.ID, "--second-factor").want(t, 0, []string{"/sign-in/link?token="}, nil)
	runCLI(t, environ, "", "users", "disable", user.ID).want(t, 0, []string{"disabled " + user.ID}, nil)
	runCLI(t, environ, "", "users", "list").want(t, 0, []string{"disabled"}, nil)
	for _, command := range []string{"reset", "disable", "release", "delete"} {
		runCLI(t, environ, "", "users", command, "usr_none").want(t, 1, nil, []string{"there is no user usr_none"})
	}
	runCLI(t, environ, "", "users", "add", "--org", "acme", "--email", "ada", "--name", "Ada", "--role", "owner").
		want(t, 2, nil, []string{"email: must be an e-mail address", "role: must be viewer, marketer or admin"})
	runCLI(t, environ, "", "users", "release", user.ID).want(t, 0, []string{"released " + user.ID}, nil) // changes nothing
	runCLI(t, environ, "", "users", "delete", user.ID).want(t, 0, []string{"deleted " + user.ID}, nil)
	if got := auditOf(t, environ, user.ID); !slices.Equal(got, []string{"Vic user.delete", "Vic user.disable", "Vic user.reset", "Vic user.secondFactor", "Vic user.reset", "Vic user.secondFactor", "Vic user.create"}) {
		t.Errorf("the audit log has %v", got)
	}
	admin := runCLI(t, environ, "", "-o", "json", "users", "add", "--org", "acme", "--email", "mar\u212a@example.com", "--name", "M", "--role", "admin")
	if err := json.Unmarshal([]byte(admin.stdout), &user); err != nil || user.Email != "mar\u212a@example.com" {
		t.Errorf("%+v, %v", user, err)
	}
	runCLI(t, environ, "", "users", "add", "--org", "acme", "--email", "Mark@example.com", "--name", "M", "--role", "viewer").want(t, 0, []string{"mark@example.com"}, nil)
	runCLI(t, environ, "", "users", "delete", user.ID).want(t, 1, nil, []string{"this is the last administrator"})
}

// openDatabase opens the database that the settings name.
func openDatabase(t *testing.T, environ []string) *store.Store {
	t.Helper()
	cfg, _, err := config.Load(config.RoleUsers, environ)
	if err != nil {
		t.Fatal(err)
	}
	db, err := app.OpenStore(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}

// setUpApp gives a user an app that makes codes.
func setUpApp(t *testing.T, environ []string, id string) {
	t.Helper()
	_, err := openDatabase(t, environ).ChangeSecondFactor(t.Context(), waypost.Author{Actor: "Vic"}, waypost.User{ID: id}, func(f *waypost.SecondFactor) error {
		f.TOTP, f.TOTPSecret = true, "JBSWY3DPEHPK3PXP"
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// auditOf are the entries of a target, newest first, as the database that the settings name has them.
func auditOf(t *testing.T, environ []string, target string) (lines []string) {
	t.Helper()
	all, err := openDatabase(t, environ).ListAudit(t.Context(), waypost.Scope{Org: "acme", Stage: waypost.StageRelease}, waypost.AuditFilter{Target: target}, waypost.Page{Limit: 100})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range all {
		lines = append(lines, e.Author.Actor+" "+e.Action)
	}
	return lines
}
