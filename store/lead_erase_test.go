package store_test

import (
	"fmt"
	"testing"

	"waypost"
)

// TestOrphansLoseParams has a lead deleted between the look for it and the end of an
// enrollment's transaction: who finds such an enrollment cancels it.
func TestOrphansLoseParams(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		s := migrated(t, url)
		sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
		j, err := s.CreateJourney(t.Context(), sc, "J", []byte(`{"name":"J"}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.PublishJourney(t.Context(), sc, j.ID, waypost.Publication{Name: "J", Hash: "hash", Definition: []byte(`{"name":"J"}`)}); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for i := range 2 {
			lead, err := s.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "Ada"}, nil)
			if err != nil {
				t.Fatal(err)
			}
			e, err := s.Enroll(t.Context(), sc, waypost.Enrollment{JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID, Params: map[string]any{"order": "4711"}}, waypost.Reentry{})
			if err != nil {
				t.Fatal(err)
			}
			if ids = append(ids, e.ID); i == 0 {
				exec(t, driver, dsn, fmt.Sprint("DELETE FROM leads WHERE leads_id = ", lead.LeadsID))
			}
		}
		if err := s.CancelEnrollments(t.Context(), ids); err != nil {
			t.Fatal(err)
		}
		for i, want := range []int{0, 1} {
			e, _, err := s.Enrollment(t.Context(), sc, ids[i])
			if err != nil || e.Status != waypost.EnrollmentCanceled || len(e.Params) != want {
				t.Errorf("enrollment %d is %s with the params %v: %v", i, e.Status, e.Params, err)
			}
		}
	})
}
