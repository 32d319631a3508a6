package main

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestUsers(t *testing.T) {
	t.Parallel()
	environ := append(deployment(t), "WAYPOST_CONSOLE_URL=https://console.example.com/")
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
	runCLI(t, environ, "", "users", "list", "--org", "acme").want(t, 0, []string{user.ID, "ada@example.com", "marketer", "active"}, nil)
	runCLI(t, environ, "", "users", "list", "--org", "other").want(t, 0, []string{"ID"}, nil)
	reset := runCLI(t, environ, "", "users", "reset", user.ID)
	reset.want(t, 0, []string{user.ID, "https://console.example.com/sign-in/link?token="}, []string{"signs in once, within a day"})
	if strings.Contains(reset.stdout, user.Link) {
		t.Error("the link is the one of before")
	}
	runCLI(t, environ, "", "users", "disable", user.ID).want(t, 0, []string{"disabled " + user.ID}, nil)
	runCLI(t, environ, "", "users", "list").want(t, 0, []string{"disabled"}, nil)
	for _, command := range []string{"reset", "disable"} {
		runCLI(t, environ, "", "users", command, "usr_none").want(t, 1, nil, []string{"there is no user usr_none"})
	}
	runCLI(t, environ, "", "users", "add", "--org", "acme", "--email", "ada", "--name", "Ada", "--role", "owner").
		want(t, 2, nil, []string{"email: must be an e-mail address", "role: must be viewer, marketer or admin"})
}
