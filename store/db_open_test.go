package store_test

import (
	"bytes"
	"context"
	"database/sql"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/store"
	"waypost/store/storetest"
)

// urls returns a new, empty database of each kind that there is a server for.
func urls(t *testing.T, run func(t *testing.T, url, driver, dsn string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "it's 100% #1?", "waypost.db")
		run(t, "sqlite:"+path, "sqlite", "file:"+(&url.URL{Path: path}).EscapedPath())
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		url := storetest.PostgresURL(t)
		run(t, url, "pgx", url)
	})
}

// exec changes a database behind the store's back.
func exec(t *testing.T, driver, dsn, statement string) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, url string) (*store.Store, error) {
	t.Helper()
	s, err := store.Open(t.Context(), url, storetest.Keys(t), time.Now)
	if err == nil {
		t.Cleanup(func() { s.Close() })
	}
	return s, err
}

// migrated opens a database after it was brought up to date.
func migrated(t *testing.T, url string) *store.Store {
	t.Helper()
	if _, _, err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	s, err := open(t, url)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// wantLine fails unless err is one line that names the setting and holds the words.
func wantLine(t *testing.T, err error, words ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	line := err.Error()
	if strings.Contains(line, "\n") || strings.Count(line, "WAYPOST_DATABASE_URL") != 1 {
		t.Errorf("not one line that names the setting once: %q", line)
	}
	for _, word := range words {
		if !strings.Contains(line, word) {
			t.Errorf("%q does not say %q", line, word)
		}
	}
}

func TestMigrate(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		if _, err := open(t, url); err == nil {
			t.Fatal("opened a database without a schema")
		} else {
			wantLine(t, err, "waypost migrate")
		}
		from, to, err := store.Migrate(t.Context(), url)
		if err != nil || from != 0 || to < 1 {
			t.Fatalf("migrated from %d to %d: %v", from, to, err)
		}
		again, still, err := store.Migrate(t.Context(), url)
		if err != nil || again != to || still != to {
			t.Fatalf("migrated again from %d to %d: %v", again, still, err)
		}
		s, err := open(t, url)
		if err != nil {
			t.Fatal(err)
		}
		if err := s.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}

		exec(t, driver, dsn, "INSERT INTO schema_versions (version_id, is_applied) VALUES (9999, TRUE)")
		_, err = open(t, url)
		wantLine(t, err, "9999", "newer waypost")
		_, _, err = store.Migrate(t.Context(), url)
		wantLine(t, err, "9999", "newer waypost")

		exec(t, driver, dsn, "DELETE FROM schema_versions WHERE version_id > 0")
		_, err = open(t, url)
		wantLine(t, err, "waypost migrate")
	})
}

func TestEarlierBuild(t *testing.T) {
	t.Parallel()
	storetest.EarlierBuild(t, func(t *testing.T, url string) {
		_, openErr := open(t, url)
		wantLine(t, openErr, "earlier build", "WAYPOST_DATA_DIR")
		_, _, err := store.Migrate(t.Context(), url)
		if err == nil || err.Error() != openErr.Error() {
			t.Errorf("Migrate says %v, Open %v", err, openErr)
		}
	})
}

func TestMigrateAtOnce(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, _, _ string) {
		errs := make([]error, 4)
		var done sync.WaitGroup
		for i := range errs {
			done.Go(func() { _, _, errs[i] = store.Migrate(context.Background(), url) })
		}
		done.Wait()
		for _, err := range errs {
			if err != nil {
				t.Error(err)
			}
		}
		if _, err := open(t, url); err != nil {
			t.Fatal(err)
		}
	})
}

func TestOpenFaults(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	text := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(text, bytes.Repeat([]byte("This is no database. "), 100), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		url   string
		words []string
	}{
		"empty":           {"", []string{"sqlite:PATH"}},
		"other scheme":    {"mysql://root:hunter2@localhost/x", []string{"postgres://"}},
		"no path":         {"sqlite:", []string{"path"}},
		"memory":          {"sqlite::memory:", []string{"path"}},
		"directory":       {"sqlite:" + dir, []string{dir}},
		"text file":       {"sqlite:" + text, []string{text, "not an SQLite database"}},
		"below a file":    {"sqlite:" + text + "/waypost.db", []string{"cannot"}},
		"read-only":       {"sqlite:/proc/waypost.db", []string{"/proc/waypost.db"}},
		"postgres syntax": {"postgres://u:hunter2@localhost:port/x", []string{"no valid"}},
		"postgres option": {"postgres://u:hunter2@localhost/x?sslmode=maybe", []string{"no valid", "sslmode"}},
		"postgres away":   {"postgres://u:hunter2@127.0.0.1:1/x?connect_timeout=2", []string{"127.0.0.1"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := open(t, c.url)
			wantMigrateFault := err
			if name == "below a file" || name == "read-only" {
				wantLine(t, err) // Open cannot tell what is missing; Migrate can
				_, _, wantMigrateFault = store.Migrate(t.Context(), c.url)
			}
			wantLine(t, wantMigrateFault, c.words...)
			_, _, err = store.Migrate(t.Context(), c.url)
			wantLine(t, err)
			if strings.Contains(err.Error()+wantMigrateFault.Error(), "hunter2") {
				t.Errorf("shows the password: %v", err)
			}
		})
	}
}

func TestSQLiteFilesArePrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "data")
	path := filepath.Join(dir, "waypost.db")
	if _, _, err := store.Migrate(t.Context(), "sqlite:"+path); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o644); err != nil { // as another tool may have left it
		t.Fatal(err)
	}
	s, err := open(t, "sqlite:"+path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.CreateJourney(t.Context(), waypost.Scope{Org: "o", Stage: waypost.StageTest}, "J", []byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	files := 0
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		files++
		return nil
	})
	if err != nil || files < 4 { // directory, database, -wal, -shm
		t.Fatalf("%d files: %v", files, err)
	}
}

// TestSealedAtRest looks at the bytes of the files: no secret and no message may
// stand in them.
func TestSealedAtRest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "waypost.db")
	url := "sqlite:" + path
	if _, _, err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	s, err := open(t, url)
	if err != nil {
		t.Fatal(err)
	}
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	cred, err := s.CreateApplication(t.Context(), "", waypost.Application{Org: "acme", Name: "public name", Grants: []waypost.Grant{"*"}})
	check(err)
	_, err = s.CreateWebhook(t.Context(), sc, waypost.Webhook{
		Name: "hook", BasicAuth: &waypost.BasicAuth{Username: "u", Password: "hunter2hunter2"}, SigningSecret: "whsec_hunter3",
		TLS: &waypost.TLS{ClientCertificate: "public certificate", ClientKey: "key of hunter4"},
	})
	check(err)
	j, err := s.CreateJourney(t.Context(), sc, "J", []byte(`{}`))
	check(err)
	_, err = s.PublishJourney(t.Context(), sc, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(`{}`)})
	check(err)
	lead, err := s.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "A"}, nil)
	check(err)
	e, err := s.Enroll(t.Context(), sc, waypost.Enrollment{JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID}, waypost.Reentry{})
	check(err)
	key := waypost.Touchpoint{EnrollmentID: e.ID, Visit: 1}
	messageID := waypost.NewID(waypost.PrefixMessage, time.Now())
	hook, err := s.CreateWebhook(t.Context(), sc, waypost.Webhook{Name: "another hook", Enabled: true})
	check(err)
	// A retry, a failure and a redelivery: the answers stand in all places where they can.
	for attempt, status := range []waypost.DeliveryStatus{waypost.DeliveryRetrying, waypost.DeliveryFailed} {
		_, err = s.OpenAttempts(t.Context(), []delivery.Opening{{
			Touchpoint: key, Scope: sc, Attempt: attempt + 1, At: time.Now(), By: "w",
			Delivery: waypost.Delivery{MessageID: messageID, WebhookID: hook.ID, LeadsID: lead.LeadsID}, Body: []byte("dear customer, your secret"),
		}})
		check(err)
		check(s.RecordAttempts(t.Context(), []delivery.AttemptRecord{{
			Touchpoint: key, Scope: sc, Round: 1, Attempt: attempt + 1, Status: status,
			Outcome: waypost.Outcome{ErrorClass: waypost.ClassSucceedFalse, HTTPStatus: 200, Message: "no lady called Ada", Excerpt: "you sent me Lovelace", At: time.Now()},
		}}))
	}
	_, err = s.Redeliver(t.Context(), sc, messageID)
	check(err)
	check(s.Close())
	data, err := os.ReadFile(path)
	check(err)
	if !bytes.Contains(data, []byte("public name")) {
		t.Fatal("the file does not hold what was written: the test proves nothing")
	}
	for _, secret := range []string{cred.SecretKey, "hunter2hunter2", "whsec_hunter3", "key of hunter4", "dear customer", "called Ada", "Lovelace"} {
		if bytes.Contains(data, []byte(secret)) {
			t.Errorf("the file holds %q", secret)
		}
	}
}

// TestUnreadableResponses reads answers of receivers that cannot be opened: they say so, and
// keep nothing else from being read.
func TestUnreadableResponses(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		s := migrated(t, url)
		sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
		j, err := s.CreateJourney(t.Context(), sc, "J", []byte(`{}`))
		check(t, err)
		_, err = s.PublishJourney(t.Context(), sc, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(`{}`)})
		check(t, err)
		lead, err := s.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "A"}, nil)
		check(t, err)
		e, err := s.Enroll(t.Context(), sc, waypost.Enrollment{JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID}, waypost.Reentry{})
		check(t, err)
		key := waypost.Touchpoint{EnrollmentID: e.ID, Visit: 1}
		_, err = s.OpenAttempts(t.Context(), []delivery.Opening{{
			Touchpoint: key, Scope: sc, Attempt: 1, At: time.Now(), By: "w", Body: []byte("{}"),
			Delivery: waypost.Delivery{MessageID: waypost.NewID(waypost.PrefixMessage, time.Now()), NodeID: "hello", LeadsID: lead.LeadsID},
		}})
		check(t, err)
		check(t, s.RecordAttempts(t.Context(), []delivery.AttemptRecord{{
			Touchpoint: key, Scope: sc, Round: 1, Attempt: 1, Status: waypost.DeliverySucceeded,
			Outcome: waypost.Outcome{Succeed: true, HTTPStatus: 200, Message: "words", Excerpt: "body", At: time.Now()},
		}}))
		exec(t, driver, dsn, "UPDATE deliveries SET response = messages.body FROM messages WHERE messages.enrollment_id = deliveries.enrollment_id")
		list, err := s.ListDeliveries(t.Context(), sc, waypost.DeliveryFilter{}, waypost.Page{Limit: 10})
		if check(t, err); len(list) != 1 || list[0].HTTPStatus != 200 || list[0].Message != "the answer cannot be read at the moment" {
			t.Errorf("got %+v", list)
		}
		results, err := s.TouchpointResults(t.Context(), []string{e.ID})
		if check(t, err); results[e.ID]["hello"].Message != "" || !results[e.ID]["hello"].Succeed {
			t.Errorf("got %+v", results)
		}
	})
}

// TestSQLiteTwoProcesses writes through two stores on one file, as a server and a
// command do: neither may fail because the other is writing.
func TestSQLiteTwoProcesses(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "waypost.db")
	if _, _, err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	var done sync.WaitGroup
	for range 2 {
		s, err := open(t, url)
		if err != nil {
			t.Fatal(err)
		}
		j, err := s.CreateJourney(t.Context(), sc, "J", []byte(`{}`))
		if err != nil {
			t.Fatal(err)
		}
		for range 4 {
			done.Go(func() {
				for range 25 {
					// It reads before it writes, all in one transaction.
					if _, err := s.UpdateJourneyDraft(t.Context(), sc, j.ID, "J", []byte(`{}`), nil); err != nil {
						t.Error(err)
						return
					}
				}
			})
		}
	}
	done.Wait()
}

// TestOtherKeys checks that a database that was sealed with other keys says so.
func TestOtherKeys(t *testing.T) {
	t.Parallel()
	url := "sqlite:" + filepath.Join(t.TempDir(), "waypost.db")
	if _, _, err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	first, err := open(t, url)
	if err != nil {
		t.Fatal(err)
	}
	cred, err := first.CreateApplication(t.Context(), "", waypost.Application{Org: "acme", Name: "n", Grants: []waypost.Grant{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	second, err := open(t, url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = second.Credential(t.Context(), cred.AccessKey)
	if err == nil || !strings.Contains(err.Error(), "WAYPOST_ENCRYPTION_KEYS") || waypost.CodeOf(err) != waypost.CodeInternalError {
		t.Fatalf("got %v", err)
	}
}

// TestMigrationsMatch checks what newest relies on: the files are numbered from 1
// without gaps and have the same names for both databases.
func TestMigrationsMatch(t *testing.T) {
	t.Parallel()
	names := map[string][]string{}
	for _, dialect := range []string{"sqlite", "postgres"} {
		files, err := filepath.Glob(filepath.Join("migrations", dialect, "*"))
		if err != nil {
			t.Fatal(err)
		}
		for i, file := range files {
			name := filepath.Base(file)
			if !strings.HasSuffix(name, ".sql") || !strings.HasPrefix(name, "0000"+string(rune('1'+i))) && i < 9 {
				t.Errorf("%s: want number %d", file, i+1)
			}
			names[dialect] = append(names[dialect], name)
		}
	}
	if strings.Join(names["sqlite"], " ") != strings.Join(names["postgres"], " ") || len(names["sqlite"]) == 0 {
		t.Errorf("the folders differ: %v", names)
	}
}
