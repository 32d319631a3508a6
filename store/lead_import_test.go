package store_test

import (
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// partsLeft counts the stored parts of all imports.
func partsLeft(t *testing.T, driver, dsn string) (n int) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.QueryRow("SELECT count(*) FROM import_parts").Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

// TestImportParts looks at what clients cannot see: personal data goes when it is
// no longer needed, and damaged rows end an import.
func TestImportParts(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		s := migrated(t, url)
		sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
		make3 := func() waypost.Import {
			t.Helper()
			im, err := s.CreateImport(t.Context(), sc, waypost.Import{Mode: waypost.ImportCreate}, func(yield func(waypost.ImportRow, error) bool) {
				for i := range 9 { // four a part
					row := fmt.Sprintf(`{"name":"%d"%s}`, i, strings.Repeat(" ", 300_000))
					if !yield(waypost.ImportRow{Line: i + 1, Data: []byte(row)}, nil) {
						return
					}
				}
			})
			if err != nil {
				t.Fatal(err)
			}
			return im
		}
		step := func(im waypost.Import, status waypost.ImportStatus, created, left int) {
			t.Helper()
			got, err := s.ImportStep(t.Context(), im.ID)
			if err != nil {
				t.Fatal(err)
			}
			if n := partsLeft(t, driver, dsn); got.Status != status || got.Created != created || n != left {
				t.Fatalf("got %+v with %d parts left, want %s with %d created and %d left", got, n, status, created, left)
			}
			if status == waypost.ImportFailed && (got.Message == "" || got.EndedAt == nil) {
				t.Fatalf("failed without a reason or an end: %+v", got)
			}
		}
		im := make3()
		step(im, waypost.ImportRunning, 4, 2)
		step(im, waypost.ImportRunning, 8, 1)
		step(im, waypost.ImportSucceeded, 9, 0)
		if im = make3(); partsLeft(t, driver, dsn) != 3 {
			t.Fatal("rows were not stored in three parts")
		}
		if _, err := s.CancelImport(t.Context(), sc, im.ID); err != nil {
			t.Fatal(err)
		}
		step(im, waypost.ImportCanceled, 0, 0)
		for _, damage := range []string{
			map[string]string{"sqlite": "UPDATE import_parts SET data = x'00'", "pgx": `UPDATE import_parts SET data = '\x00'`}[driver],
			// The head of gzip, and nothing behind it.
			map[string]string{"sqlite": "UPDATE import_parts SET data = substr(data, 1, 20)", "pgx": "UPDATE import_parts SET data = substring(data, 1, 20)"}[driver],
			"DELETE FROM import_parts WHERE number = 2",
		} {
			im = make3()
			step(im, waypost.ImportRunning, 4, 2)
			exec(t, driver, dsn, damage)
			step(im, waypost.ImportFailed, 4, 0)
		}
	})
}

// TestImportBesideOthers lets a step wait for a lead that another transaction has
// stored and not committed: the step then goes by what became of it. (SQLite has one
// writer at a time.)
func TestImportBesideOthers(t *testing.T) {
	t.Parallel()
	url := storetest.PostgresURL(t)
	if _, _, err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	s, err := open(t, url)
	if err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	old, err := s.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "Old", ExternalID: new("old")}, nil)
	if err != nil {
		t.Fatal(err)
	}
	number := 0
	for _, c := range []struct {
		name                  string
		mode                  waypost.ImportMode
		row                   string
		committed, rolledBack string // created, updated, failed; the target of the failure
	}{
		{"externalId", waypost.ImportCreate, `{"name":"A","externalId":"x%[1]d"}`, "0 0 1 externalId", "1 0 0 "},
		{"number", waypost.ImportCreate, `{"name":"A","mobilePhone":["+4917112345%[1]d"]}`, "0 0 1 mobilePhone", "1 0 0 "},
		{"upsert", waypost.ImportUpsert, `{"name":"A","externalId":"x%[1]d"}`, "0 1 0 ", "1 0 0 "},
		{"new externalId", waypost.ImportUpdate, `{"leadsId":%[2]d,"externalId":"x%[1]d"}`, "0 0 1 externalId", "0 1 0 "},
		{"new number", waypost.ImportUpdate, `{"leadsId":%[2]d,"mobilePhone":["+4917112345%[1]d"]}`, "0 0 1 mobilePhone", "0 1 0 "},
	} {
		for _, end := range []struct{ how, want string }{{"COMMIT", c.committed}, {"ROLLBACK", c.rolledBack}} {
			number++
			n := 10 + number
			im, err := s.CreateImport(t.Context(), sc, waypost.Import{Mode: c.mode}, func(yield func(waypost.ImportRow, error) bool) {
				yield(waypost.ImportRow{Line: 1, Data: fmt.Appendf(nil, c.row, n, old.LeadsID)}, nil)
			})
			if err != nil {
				t.Fatal(err)
			}
			other, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			run := func(text string) {
				t.Helper()
				if _, err := other.ExecContext(t.Context(), text); err != nil {
					t.Fatal(err)
				}
			}
			run("BEGIN")
			run(fmt.Sprintf("INSERT INTO leads (org, stage, name, name_folded, mobile_phone, external_id, created_at, updated_at) VALUES ('acme', 'release', 'O', 'o', '[]', 'x%d', 1, 1)", n))
			run(fmt.Sprintf("INSERT INTO lead_phones SELECT 'acme', 'release', '+4917112345%d', max(leads_id) FROM leads", n))
			stepped := make(chan error, 1)
			go func() {
				_, err := s.ImportStep(t.Context(), im.ID)
				stepped <- err
			}()
			for waits := false; !waits; {
				err := db.QueryRowContext(t.Context(), "SELECT EXISTS (SELECT 1 FROM pg_locks AS l JOIN pg_stat_activity AS a USING (pid) WHERE NOT l.granted AND a.datname = current_database())").Scan(&waits)
				if err != nil {
					t.Fatal(err)
				}
				select {
				case err := <-stepped:
					t.Fatalf("%s: the step did not wait: %v", c.name, err)
				default:
				}
			}
			run(end.how)
			if err := other.Close(); err != nil {
				t.Fatal(err)
			}
			if err := <-stepped; err != nil {
				t.Fatalf("%s, %s: %v", c.name, end.how, err)
			}
			done, err := s.Import(t.Context(), sc, im.ID)
			if err != nil {
				t.Fatal(err)
			}
			got := fmt.Sprint(done.Created, done.Updated, done.Failed, " ")
			if err := s.ImportErrors(t.Context(), sc, im.ID, func(e waypost.ImportError) error { got += e.Target; return nil }); err != nil {
				t.Fatal(err)
			}
			if got != end.want {
				t.Errorf("%s, %s: %s, want %s", c.name, end.how, got, end.want)
			}
		}
	}
}
