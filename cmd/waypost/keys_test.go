package main

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/config"
	"waypost/store"
)

// keysSet returns the settings of a deployment with other keys.
func keysSet(environ []string, keys ...string) []string {
	return append(slices.Clone(environ), "WAYPOST_ENCRYPTION_KEYS="+strings.Join(keys, ","))
}

func settingOf(environ []string, name string) (value string) {
	for _, set := range environ {
		if v, ok := strings.CutPrefix(set, name+"="); ok {
			value = v
		}
	}
	return value
}

// A key is changed as docs/operations.md has it, while gateways with the keys of the
// step before go on, and everything can be read and written at every step.
func TestKeysRotate(t *testing.T) {
	t.Parallel()
	environ := deployment(t)
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		t.Fatal(err)
	}
	k1, k2 := settingOf(environ, "WAYPOST_ENCRYPTION_KEYS"), "k2:"+base64.StdEncoding.EncodeToString(raw)
	hook := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, password, _ := r.BasicAuth(); password != "p" {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(hook.Close)

	before := clientOf(t, environ)
	// at makes what is to be asked of a gateway with these keys.
	at := func(keys ...string) []string {
		t.Helper()
		return append(slices.Clone(before), "WAYPOST_URL="+startRole(t, "gateway", keysSet(environ, keys...)))
	}
	made := runCLI(t, before, "", "-o", "json", "webhooks", "create", "--name", "try", "--url", hook.URL, "--basic-auth", "u:p")
	var webhook struct{ ID string }
	if err := json.Unmarshal([]byte(made.stdout), &webhook); err != nil {
		t.Fatalf("%v in %s%s", err, made.stdout, made.stderr)
	}
	works := func(clients ...[]string) {
		t.Helper()
		for _, client := range clients {
			runCLI(t, client, "", "webhooks", "update", webhook.ID, "--basic-auth", "u:p").want(t, 0, nil, nil)
			for _, other := range clients {
				runCLI(t, other, "", "-o", "json", "webhooks", "test", webhook.ID).want(t, 0, []string{`"httpStatus": 200`}, nil)
			}
		}
	}
	works(before)
	added := at(k1, k2)
	works(before, added)
	moved := at(k2, k1)
	works(added, moved, added)

	both := keysSet(environ, k2, k1)
	runCLI(t, both, "", "keys", "list").want(t, 0, []string{"KEY  STATE     VALUES  TABLES\nk2   encrypts", "\nk1   decrypts  "}, nil)
	rotated := runCLI(t, both, "", "keys", "rotate")
	rotated.want(t, 0, []string{"\nk1   decrypts  0       \n"}, []string{
		"values with k2\n", "histories still need k1", "ExecutionStatus = 'Running' AND StartTime < '20", "--namespace default",
	})
	if secret := strings.TrimPrefix(k1, "k1:"); strings.Contains(rotated.stdout+rotated.stderr, secret) {
		t.Error("a key is shown")
	}
	works(added, moved)
	works(moved)
	// The gateway of the first step has the old key in front: what it writes is found.
	runCLI(t, added, "", "webhooks", "update", webhook.ID, "--basic-auth", "u:p").want(t, 0, nil, nil)
	runCLI(t, both, "", "-o", "json", "keys", "list").want(t, 0, []string{`"state": "decrypts"`, `"values": 1,`}, nil)
	again := runCLI(t, both, "", "-o", "json", "keys", "rotate")
	again.want(t, 0, []string{`"schedules": 0`}, []string{"encrypted 1 of 1 values with k2"})
	runCLI(t, both, "", "keys", "rotate").want(t, 0, []string{"k1   decrypts  0"}, nil)
	works(at(k2))

	// Who lacks the key is told which.
	lacking := runCLI(t, environ, "", "keys", "rotate")
	lacking.want(t, 1, []string{"k1   encrypts  0", "k2   missing   "}, []string{
		"encrypted 0 of ", `secret of AK`, `cannot decrypt: the key "k2" is not in WAYPOST_ENCRYPTION_KEYS`, "values need the key k2: add it to WAYPOST_ENCRYPTION_KEYS and run it again",
	})
	if strings.Contains(lacking.stderr, "histories") {
		t.Error("it says that all is done")
	}
	runCLI(t, environ, "", "keys", "list").want(t, 0, []string{"k2   missing   "}, nil)
	runCLI(t, environ, "", "keys", "new").want(t, 2, nil, []string{`waypost keys has no command "new"; it has list, rotate`})

	// A recurring launch has a Schedule in Temporal, which is away.
	recurring(t, settingOf(environ, "WAYPOST_DATABASE_URL"), k2)
	runCLI(t, keysSet(environ, k2), "", "keys", "rotate").want(t, 1, []string{"k2   encrypts  "}, []string{"which has the schedules of recurring launches (WAYPOST_TEMPORAL_ADDRESS)"})
}

// recurring makes a recurring launch whose Schedule is made.
func recurring(t *testing.T, url, key string) {
	t.Helper()
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ring, err := waypost.ParseKeyring(key)
	ok(err)
	db, err := store.Open(t.Context(), url, ring, time.Now)
	ok(err)
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	j, err := db.CreateJourney(t.Context(), sc, "J", []byte(`{}`))
	ok(err)
	_, err = db.PublishJourney(t.Context(), sc, j.ID, waypost.Publication{Name: "J", Hash: "hash", Definition: []byte(`{}`)})
	ok(err)
	l, err := db.CreateLaunch(t.Context(), sc, waypost.Launch{
		JourneyID: j.ID, Version: 1, AppID: "app_1", Schedule: &waypost.Schedule{Cron: "@daily", Timezone: "UTC"},
		Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
	})
	ok(err)
	ok(db.MarkLaunchStarted(t.Context(), l.ID))
	ok(db.Close())
}

// stopping is a database that somebody stops working on after the first step.
type stopping struct {
	database
	stop func()
}

func (s stopping) Reseal(ctx context.Context, tell func(n int)) error {
	return s.database.Reseal(ctx, func(n int) { tell(n); s.stop() })
}

// Who stops it is told to run it again, and that goes on with what is left.
func TestKeysRotateStopped(t *testing.T) {
	t.Parallel()
	environ := deployment(t)
	runCLI(t, environ, "", "apps", "create", "--org", "acme", "--name", "crm", "--grant", "*").want(t, 0, nil, nil)
	environ = keysSet(environ, "k2:"+base64.StdEncoding.EncodeToString(make([]byte, 32)), settingOf(environ, "WAYPOST_ENCRYPTION_KEYS"))
	ctx, stop := context.WithCancel(t.Context())
	var stdout, stderr strings.Builder
	c := &cli{environ: environ, stdout: &stdout, stderr: &stderr, terminal: true}
	err := c.withKeys(ctx, func(cfg config.Config, ids []string, db database) error {
		return c.rotateKeys(ctx, cfg, ids, stopping{db, stop})
	})
	if err == nil || err.Error() != "stopped; run it again to go on with what is left" || stdout.Len() > 0 {
		t.Errorf("it ends with %v, and shows %s", err, &stdout)
	}
	if !strings.Contains(stderr.String(), "█ encrypted 1 of 1 values with k2") {
		t.Errorf("no progress: %q", &stderr)
	}
	runCLI(t, environ, "", "keys", "list").want(t, 0, []string{"k1   decrypts  0"}, nil)
}
