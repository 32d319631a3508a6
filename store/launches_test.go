package store_test

import (
	"database/sql"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// migrateTo brings an empty database to an older version of the schema.
func migrateTo(t *testing.T, version int64, url, driver, dsn string) {
	t.Helper()
	dialect, dir := goose.DialectPostgres, "migrations/postgres"
	if path, ok := strings.CutPrefix(url, "sqlite:"); ok {
		dialect, dir = goose.DialectSQLite3, "migrations/sqlite"
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	provider, err := goose.NewProvider(dialect, db, os.DirFS(dir), goose.WithDisableGlobalRegistry(true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := provider.UpTo(t.Context(), version); err != nil {
		t.Fatal(err)
	}
}

// TestMigrateCohorts brings cohorts and enrollments of the first schema to the one
// with launches: what was started, what was left by a pump, what nobody has claimed.
func TestMigrateCohorts(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		at := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
		id := func(prefix string, second int) string {
			return waypost.NewID(prefix, at.Add(time.Duration(second)*time.Second))
		}
		journey := id(waypost.PrefixJourney, 0)
		ran, left, single := id(waypost.PrefixCohort, 0), id(waypost.PrefixCohort, 1), id(waypost.PrefixEnrollment, 3)
		enrollments := []struct{ id, cohort, workflow, status string }{
			{id(waypost.PrefixEnrollment, 0), ran, ran, "running"},
			{id(waypost.PrefixEnrollment, 1), left, "", "pending"},
			{id(waypost.PrefixEnrollment, 2), left, "", "waiting"}, // its workflow runs, but is not marked
			{single, single, "", "pending"},
			{id(waypost.PrefixEnrollment, 4), "", "", "pending"},
		}
		migrateTo(t, 1, url, driver, dsn)
		micros := func(second int) int64 { return at.Add(time.Duration(second) * time.Second).UnixMicro() }
		exec(t, driver, dsn, fmt.Sprintf("INSERT INTO journeys VALUES ('%s', 'acme', 'release', 'J', '{}', 1, 'active', 0, 0)", journey))
		exec(t, driver, dsn, fmt.Sprintf("INSERT INTO journey_versions VALUES ('%s', 1, 'J', 'h', '{}', 0)", journey))
		for _, c := range []struct{ id, started string }{{ran, "7"}, {left, "NULL"}, {single, "NULL"}} {
			exec(t, driver, dsn, fmt.Sprintf("INSERT INTO cohorts VALUES ('%s', '%s', 1, %d, %s)", c.id, journey, micros(10), c.started))
		}
		for i, e := range enrollments {
			exec(t, driver, dsn, fmt.Sprintf("INSERT INTO enrollments VALUES ('%s', 'acme', 'release', '%s', 1, %d, 'app_1', 'k', '{}', '%s', '', 0, NULLIF('%s', ''), NULLIF('%s', ''), %d, NULL)",
				e.id, journey, 100+i, e.status, e.cohort, e.workflow, micros(i)))
		}
		if _, _, err := store.Migrate(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		clock := at.Add(time.Minute)
		s, err := store.Open(t.Context(), url, storetest.Keys(t), func() time.Time { return clock })
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { s.Close() })

		e, _, err := s.Enrollment(t.Context(), waypost.Scope{Org: "acme", Stage: waypost.StageRelease}, enrollments[0].id)
		if err != nil || e.WorkflowID != ran || e.Status != waypost.EnrollmentRunning {
			t.Fatalf("started: %+v, %v", e, err)
		}
		pending, oldest, err := s.OutboxLag(t.Context())
		if err != nil || pending != 4 || oldest != 59*time.Second {
			t.Fatalf("outbox: %d, %s, %v", pending, oldest, err)
		}
		stale, err := s.StaleCohorts(t.Context(), clock, 10)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]waypost.CohortMember{}
		for _, c := range stale {
			got[c.ID] = c.Members
		}
		want := map[string][]waypost.CohortMember{
			left:   {{EnrollmentID: enrollments[1].id, LeadsID: 101}, {EnrollmentID: enrollments[2].id, LeadsID: 102}},
			single: {{EnrollmentID: single, LeadsID: 103}},
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("left:\n got %+v\nwant %+v", got, want)
		}
		fresh, err := s.ClaimCohort(t.Context())
		if err != nil || fresh == nil || fresh.ID != enrollments[4].id {
			t.Fatalf("claimed %+v, %v", fresh, err)
		}
		if cohorts, err := s.ClaimLaunchCohorts(t.Context(), 10); err != nil || len(cohorts) > 0 {
			t.Fatalf("claimed %+v for launches, %v", cohorts, err)
		}
	})
}

// TestAudienceChanges changes and deletes leads between the steps of a launch:
// those that match no longer when their turn comes are skipped, and the numbers
// agree at the end.
func TestAudienceChanges(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		s := migrated(t, url)
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
		j, err := s.CreateJourney(t.Context(), sc, "J", []byte(`{}`))
		check(err)
		_, err = s.PublishJourney(t.Context(), sc, j.ID, "J", "h", []byte(`{}`), nil)
		check(err)
		var leads []int64
		for i := range 8 {
			lead, err := s.CreateLead(t.Context(), sc, waypost.LeadFields{Name: []string{"Ada", "Bob"}[i/7]}, nil)
			check(err)
			leads = append(leads, lead.LeadsID)
		}
		filtered, err := s.CreateLaunch(t.Context(), sc, waypost.Launch{JourneyID: j.ID, Version: 1, Audience: waypost.Audience{Filter: &waypost.LeadFilter{Name: "A"}}})
		check(err)
		step, err := s.EnrollAudience(t.Context(), filtered.ID, 2)
		check(err)
		if want := (waypost.LaunchStep{Enrolled: 2}); !reflect.DeepEqual(step, want) {
			t.Fatalf("first step: got %+v, want %+v", step, want)
		}
		exec(t, driver, dsn, fmt.Sprintf("DELETE FROM leads WHERE leads_id IN (%d, %d)", leads[0], leads[2])) // one is enrolled already
		exec(t, driver, dsn, fmt.Sprintf("UPDATE leads SET name_folded = 'zoe' WHERE leads_id IN (%d, %d)", leads[3], leads[4]))
		step, err = s.EnrollAudience(t.Context(), filtered.ID, 100)
		check(err)
		if want := (waypost.LaunchStep{Enrolled: 2, Skipped: 3, Done: true}); !reflect.DeepEqual(step, want) {
			t.Fatalf("second step: got %+v, want %+v", step, want)
		}
		l, err := s.Launch(t.Context(), sc, filtered.ID)
		check(err)
		if want := (waypost.LaunchProgress{Total: 7, Enrolled: 4, Skipped: 3}); l.Progress != want {
			t.Fatalf("got %+v, want %+v", l.Progress, want)
		}
		cohorts, err := s.ClaimLaunchCohorts(t.Context(), 10)
		check(err)
		var enrolled []int64
		for _, c := range cohorts {
			for _, m := range c.Members {
				enrolled = append(enrolled, m.LeadsID)
			}
		}
		slices.Sort(enrolled)
		if want := []int64{leads[0], leads[1], leads[5], leads[6]}; !slices.Equal(enrolled, want) {
			t.Fatalf("enrolled %v, want %v", enrolled, want)
		}
	})
}
