package store_test

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"waypost"
)

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
		_, err = s.PublishJourney(t.Context(), sc, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(`{}`)})
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
