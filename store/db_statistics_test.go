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

// After an import, PostgreSQL finds the lead of an event by the index of its address, before autovacuum has
// counted what was imported.
func TestImportIsCounted(t *testing.T) {
	t.Parallel()
	url := storetest.PostgresURL(t)
	if _, _, err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("pgx", url)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	for _, table := range []string{"leads", "events"} {
		if _, err := db.ExecContext(t.Context(), "ALTER TABLE "+table+" SET (autovacuum_enabled = false)"); err != nil {
			t.Fatal(err)
		}
	}
	s, err := open(t, url)
	if err != nil {
		t.Fatal(err)
	}
	plan := func() string {
		var lines []string
		rows, err := db.QueryContext(t.Context(),
			`EXPLAIN SELECT leads_id FROM leads WHERE org = 'acme' AND stage = 'release' AND email_folded = 'lead-7@example.com'`)
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var line string
			if err := rows.Scan(&line); err != nil {
				t.Fatal(err)
			}
			lines = append(lines, line)
		}
		return strings.Join(lines, "\n")
	}
	known := func(table string) (n int) {
		t.Helper()
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM pg_stats WHERE tablename = $1", table).Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	im, err := s.CreateImport(t.Context(), sc, waypost.Import{Mode: waypost.ImportCreate}, func(yield func(waypost.ImportRow, error) bool) {
		for i := range 3000 {
			row := fmt.Appendf(nil, `{"name":"Lead %d","email":"lead-%[1]d@example.com","externalId":"x-%[1]d"}`, i)
			if !yield(waypost.ImportRow{Line: i + 1, Data: row}, nil) {
				return
			}
		}
	})
	for err == nil && !im.Status.Ended() {
		im, err = s.ImportStep(t.Context(), im.ID)
	}
	if err != nil || im.Created != 3000 {
		t.Fatalf("%+v, %v", im, err)
	}
	if n := known("leads"); n == 0 {
		t.Error("leads are not counted")
	}
	if p := plan(); !strings.Contains(p, "leads_by_email") {
		t.Errorf("the plan is\n%s", p)
	}
	done, err := s.ImportEvents(t.Context(), sc, func(yield func(waypost.EventRow, error) bool) {
		for i := range 3000 {
			e := waypost.Event{EventID: fmt.Sprint("e-", i), Name: "purchase", To: waypost.EventLead{Email: fmt.Sprintf("Lead-%d@example.com", i)}}
			if !yield(waypost.EventRow{Line: i + 1, Event: e}, nil) {
				return
			}
		}
	})
	if err != nil || done.Accepted != 3000 {
		t.Fatalf("%+v, %v", done, err)
	}
	if n := known("events"); n == 0 {
		t.Error("events are not counted")
	}
}
