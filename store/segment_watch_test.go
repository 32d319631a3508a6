package store_test

import (
	"database/sql"
	"fmt"
	"testing"
	"time"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// TestWatchLeavesNothing has a segment watched as long as a journey begins by it, or enrollments
// run that end by it, and then looks what is left.
func TestWatchLeavesNothing(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		clock := storetest.NewClock()
		migrated(t, url)
		s, err := store.Open(t.Context(), url, storetest.Keys(t), clock.Now)
		check(t, err)
		t.Cleanup(func() { check(t, s.Close()) })
		ctx, sc := t.Context(), waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
		g, err := s.CreateSegment(ctx, sc, waypost.Segment{Name: "g", When: `lead.name == "Ada"`})
		check(t, err)
		publish := func(definition string) string {
			t.Helper()
			j, err := s.CreateJourney(ctx, sc, "J", []byte(`{}`))
			check(t, err)
			_, err = s.PublishJourney(ctx, sc, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(definition)})
			check(t, err)
			return j.ID
		}
		ends := publish(fmt.Sprintf(`{"exitOn":[{"segment":%q,"on":"enter"}]}`, g.ID))
		lead, err := s.CreateLead(ctx, sc, waypost.LeadFields{Name: "Bob"}, nil)
		check(t, err)
		for range 3 {
			_, err := s.CreateLead(ctx, sc, waypost.LeadFields{Name: "Ada"}, nil)
			check(t, err)
		}
		e, err := s.Enroll(ctx, sc, waypost.Enrollment{JourneyID: ends, Version: 1, LeadsID: lead.LeadsID}, waypost.Reentry{})
		check(t, err)
		look := func() {
			t.Helper()
			for more := true; more; {
				more, _, err = s.CheckSegments(ctx, 2)
				check(t, err)
			}
			for more := true; more; {
				more, _, err = s.ReadSegments(ctx)
				check(t, err)
			}
		}
		rows := func(what string, want ...int) {
			t.Helper()
			db, err := sql.Open(driver, dsn)
			check(t, err)
			defer db.Close()
			for i, table := range []string{"segment_watches", "segment_members", "segment_causes", "segment_checks"} {
				var n int
				check(t, db.QueryRowContext(ctx, "SELECT count(*) FROM "+table).Scan(&n))
				if n != want[i] {
					t.Errorf("%s: %d rows in %s, want %d", what, n, table, want[i])
				}
			}
		}
		rows("before anybody looks", 1, 0, 1, 4)
		look()
		rows("watched", 1, 3, 1, 0)
		_, err = s.ArchiveJourney(ctx, sc, ends)
		check(t, err)
		clock.Advance(2 * time.Hour)
		look()
		rows("somebody is in it", 1, 3, 1, 0)
		_, err = s.CancelEnrollment(ctx, sc, e.ID)
		check(t, err)
		clock.Advance(2 * time.Hour)
		look()
		rows("nobody is", 0, 0, 0, 0)
	})
}
