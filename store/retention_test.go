package store_test

import (
	"database/sql"
	"testing"
	"time"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// A cohort that was never to start goes with the last enrollment that is in it, too.
func TestRetiredCohortIsDropped(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		ctx, clock := t.Context(), storetest.NewClock()
		if _, _, err := store.Migrate(ctx, url); err != nil {
			t.Fatal(err)
		}
		s, err := store.Open(ctx, url, storetest.Keys(t), clock.Now)
		must(t, err)
		defer s.Close()
		sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
		j, err := s.CreateJourney(ctx, sc, "J", []byte(`{}`))
		must(t, err)
		_, err = s.PublishJourney(ctx, sc, j.ID, waypost.Publication{Name: "J", Hash: "hash", Definition: []byte(`{}`)})
		must(t, err)
		var leads []int64
		for range 5 {
			lead, err := s.CreateLead(ctx, sc, waypost.LeadFields{Name: "Ada"}, nil)
			must(t, err)
			leads = append(leads, lead.LeadsID)
		}
		l, err := s.CreateLaunch(ctx, sc, waypost.Launch{JourneyID: j.ID, Version: 1, AppID: "app_1", Audience: waypost.Audience{LeadsIDs: leads}})
		must(t, err)
		step, err := s.EnrollAudience(ctx, l.ID, 1000)
		must(t, err)
		if step.Enrolled != len(leads) {
			t.Fatalf("enrolled %+v", step)
		}

		db, err := sql.Open(driver, dsn)
		must(t, err)
		defer db.Close()
		number := func(query string) (n int) {
			t.Helper()
			must(t, db.QueryRow(query).Scan(&n))
			return n
		}
		var early string
		must(t, db.QueryRow("SELECT min(id) FROM enrollments").Scan(&early))
		_, err = s.CancelEnrollment(ctx, sc, early)
		must(t, err)
		_, err = s.CancelLaunch(ctx, sc, l.ID)
		must(t, err)
		for more := true; more; {
			more, err = s.SweepCanceled(ctx, 2) // in several steps
			must(t, err)
		}
		if n, in := number("SELECT count(*) FROM cohorts"), number("SELECT count(*) FROM enrollments WHERE cohort_id IS NOT NULL"); in != 1 || n != 1 && driver != "sqlite" {
			t.Fatalf("%d cohorts with %d enrollments, want the one that was canceled before in one", n, in)
		}
		clock.Advance(48 * time.Hour)
		for at, more := "", true; more; more = at != "" {
			step, err := s.DropStep(ctx, waypost.Retention{Enrollments: 24 * time.Hour}, at)
			must(t, err)
			at = step.Next
		}
		for _, table := range []string{"enrollments", "cohorts", "launch_leads"} {
			if table == "cohorts" && driver == "sqlite" {
				continue // which would look through all enrollments for each
			}
			if n := number("SELECT count(*) FROM " + table); n > 0 {
				t.Errorf("%d rows of %s are left", n, table)
			}
		}
	})
}
