package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
)

var cohortTests = []test{
	{"single", func(t *testing.T, f *fixture) {
		if c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context())); c != nil {
			t.Fatalf("claimed %+v of nothing", c)
		}
		journey := f.journey(t)
		id := f.enroll(t, journey, 1)[0]
		c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		version := must[waypost.JourneyVersion](t)(f.JourneyVersion(t.Context(), scope, journey, 1))
		want := &waypost.Cohort{ID: id, Version: version, Members: []waypost.CohortMember{{EnrollmentID: id, LeadsID: f.enrollment(t, id).LeadsID}}}
		equal(t, "cohort", c, want)
		if c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context())); c != nil {
			t.Fatalf("claimed %+v again", c)
		}
		equal(t, "before the start", f.enrollment(t, id).WorkflowID, "")
		for range 2 {
			ok(t, f.MarkStarted(t.Context(), c.ID))
		}
		e := f.enrollment(t, id)
		equal(t, "workflow id", e.WorkflowID, id)
		equal(t, "status", e.Status, waypost.EnrollmentRunning)
		wantCode(t, f.MarkStarted(t.Context(), "coh_none"), waypost.CodeNotFound)
	}},
	{"claimed with its enrollment", testEnrollClaimed},
	{"formed of claims", testFormCohort},
	{"groups", func(t *testing.T, f *fixture) {
		// Two versions and 150 of one: oldest first, at most 100, never mixed.
		big, small := f.journey(t), f.journey(t)
		first := f.enroll(t, big, 1)
		other := f.enroll(t, small, 2)
		rest := f.enroll(t, big, 149)
		all := append(first, rest...)
		for _, want := range [][]string{all[:100], other, all[100:]} {
			c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
			if !waypost.IsID(waypost.PrefixCohort, c.ID) {
				t.Fatalf("cohort id %q", c.ID)
			}
			var got []string
			for _, m := range c.Members {
				got = append(got, m.EnrollmentID)
			}
			equal(t, "members", got, want)
			ok(t, f.MarkStarted(t.Context(), c.ID))
			equal(t, "workflow id", f.enrollment(t, got[0]).WorkflowID, c.ID)
		}
	}},
	{"progress before start", func(t *testing.T, f *fixture) {
		id := f.enroll(t, f.journey(t), 1)[0]
		c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(id, 1, waypost.EnrollmentCompleted)}))
		ok(t, f.MarkStarted(t.Context(), c.ID))
		e := f.enrollment(t, id)
		equal(t, "status", e.Status, waypost.EnrollmentCompleted)
		equal(t, "workflow id", e.WorkflowID, id)
	}},
	{"stale", func(t *testing.T, f *fixture) {
		ids := f.enroll(t, f.journey(t), 3)
		claimed := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		stale := must[[]waypost.Cohort](t)(f.StaleCohorts(t.Context(), f.clock.Now(), 10))
		equal(t, "just claimed", len(stale), 0)
		f.clock.Advance(time.Minute)
		// A member that the workflow has moved already belongs to it nevertheless.
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(ids[1], 1, waypost.EnrollmentWaiting)}))
		limit := f.clock.Now().Add(-30 * time.Second)
		stale = must[[]waypost.Cohort](t)(f.StaleCohorts(t.Context(), limit, 10))
		equal(t, "stale", stale, []waypost.Cohort{*claimed})
		equal(t, "taken", len(must[[]waypost.Cohort](t)(f.StaleCohorts(t.Context(), limit, 10))), 0)
		f.clock.Advance(time.Minute)
		ok(t, f.MarkStarted(t.Context(), claimed.ID))
		equal(t, "started", len(must[[]waypost.Cohort](t)(f.StaleCohorts(t.Context(), f.clock.Now(), 10))), 0)
	}},
	{"concurrent sweeps", func(t *testing.T, f *fixture) {
		for range 20 {
			f.enroll(t, f.journey(t), 1)
			if must[*waypost.Cohort](t)(f.ClaimCohort(t.Context())) == nil {
				t.Fatal("nothing claimed")
			}
		}
		f.clock.Advance(time.Minute)
		limit := f.clock.Now().Add(-time.Second)
		found := make([][]string, 6)
		for _, err := range atOnce(len(found), func(i int) error {
			for range 20 {
				cohorts, err := f.StaleCohorts(t.Context(), limit, 3)
				if err != nil {
					return err
				}
				for _, c := range cohorts {
					found[i] = append(found[i], c.ID)
				}
			}
			return nil
		}) {
			ok(t, err)
		}
		all := slices.Concat(found...)
		slices.Sort(all)
		equal(t, "swept", len(all), 20)
		equal(t, "distinct", len(slices.Compact(all)), 20)
	}},
	{"concurrent claims", func(t *testing.T, f *fixture) {
		var want []string
		for range 3 {
			want = append(want, f.enroll(t, f.journey(t), 80)...)
		}
		claimed := make([][]string, 8)
		for _, err := range atOnce(len(claimed), func(i int) error {
			for {
				c, err := f.ClaimCohort(t.Context())
				if err != nil {
					return err
				}
				if c == nil {
					return nil
				}
				if len(c.Members) == 0 || len(c.Members) > waypost.MaxCohort {
					return fmt.Errorf("a cohort of %d", len(c.Members))
				}
				for _, m := range c.Members {
					claimed[i] = append(claimed[i], m.EnrollmentID)
				}
				if err := f.MarkStarted(t.Context(), c.ID); err != nil {
					return err
				}
			}
		}) {
			ok(t, err)
		}
		all := slices.Concat(claimed...)
		slices.Sort(all)
		slices.Sort(want)
		equal(t, "claimed", all, want)
	}},
	{"claims while enrolling and moving", func(t *testing.T, f *fixture) {
		// The pump, new enrollments and progress meet on the same rows.
		journey := f.journey(t)
		leads := make([]int64, 100)
		for i := range leads {
			leads[i] = f.lead(t)
		}
		for _, err := range atOnce(8, func(i int) error {
			for n := range 25 {
				if i < 4 {
					_, err := f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: leads[i*25+n]}, waypost.Reentry{})
					if err != nil {
						return err
					}
					continue
				}
				c, err := f.ClaimCohort(t.Context())
				if err != nil {
					return err
				}
				if c == nil {
					continue
				}
				var batch []waypost.Progress
				for _, m := range c.Members {
					batch = append(batch, f.progress(m.EnrollmentID, 1, waypost.EnrollmentCompleted))
				}
				errs := atOnce(2, func(i int) error {
					if i == 0 {
						return f.MarkStarted(t.Context(), c.ID)
					}
					return f.RecordProgress(t.Context(), batch)
				})
				for _, err := range errs {
					if err != nil {
						return err
					}
				}
			}
			return nil
		}) {
			ok(t, err)
		}
		for {
			c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
			if c == nil {
				break
			}
			ok(t, f.MarkStarted(t.Context(), c.ID))
		}
		stale := must[[]waypost.Cohort](t)(f.StaleCohorts(t.Context(), f.clock.Now().Add(time.Hour), 100))
		equal(t, "not started", len(stale), 0)
	}},
}

// testEnrollClaimed enrolls in a journey that is entered by one statement, where there is
// one for that, and in one that needs a transaction.
func testEnrollClaimed(t *testing.T, f *fixture) {
	for _, journey := range []string{f.journey(t), f.exitingIn(t, scope)} {
		version := must[waypost.JourneyVersion](t)(f.JourneyVersion(t.Context(), scope, journey, 1))
		in := waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: f.lead(t), AppID: "app_1", EntryKey: "k", Params: map[string]any{"a": 1.0}}
		e, c, err := f.EnrollClaimed(t.Context(), scope, in, waypost.Reentry{Policy: waypost.ReentryNever})
		ok(t, err)
		want := in
		want.ID, want.Status, want.CreatedAt = e.ID, waypost.EnrollmentPending, f.clock.Now()
		want.Entry.Kind = waypost.EntryAPI
		equal(t, "enrolled", e, want)
		equal(t, "read", f.enrollment(t, e.ID), want)
		equal(t, "claimed", c, &waypost.Cohort{Version: version, Members: []waypost.CohortMember{{EnrollmentID: e.ID, LeadsID: e.LeadsID}}})
		if again := must[*waypost.Cohort](t)(f.ClaimEnrollments(t.Context(), f.clock.Now())); again != nil {
			t.Errorf("claimed %+v twice", again)
		}
		for _, bad := range []waypost.Enrollment{
			{JourneyID: journey, Version: 2, LeadsID: e.LeadsID},
			{JourneyID: journey, Version: 1, LeadsID: e.LeadsID + 1_000_000},
			{JourneyID: "jrn_none", Version: 1, LeadsID: e.LeadsID},
		} {
			_, c, err := f.EnrollClaimed(t.Context(), scope, bad, waypost.Reentry{})
			wantCode(t, err, waypost.CodeNotFound)
			equal(t, "claimed of nobody", c, (*waypost.Cohort)(nil))
		}
		current := waypost.Reentry{Policy: waypost.ReentryAlways, Current: true}
		_ = must[waypost.JourneyVersion](t)(f.PublishJourney(t.Context(), scope, journey, waypost.Publication{Name: "J", Hash: "next", Definition: []byte(`{"name":"J"}`)}))
		for _, ctx := range []context.Context{t.Context(), waypost.WithClaim(t.Context(), claimOf(journey, "enroll"))} {
			if _, err := f.Enroll(ctx, scope, in, current); !errors.Is(err, waypost.ErrNotPublished) {
				t.Errorf("enrolled in a version that was current: %v", err)
			}
		}
		other := in
		other.LeadsID = f.lead(t)
		onePasses(t, atOnce(8, func(int) error {
			_, _, err := f.EnrollClaimed(t.Context(), scope, other, waypost.Reentry{Policy: waypost.ReentryNever})
			return err
		}))

		// Whoever has claimed them may end before they are in a cohort.
		f.clock.Advance(time.Minute)
		again := must[*waypost.Cohort](t)(f.ClaimEnrollments(t.Context(), f.clock.Now()))
		equal(t, "claimed again", len(again.Members), 2)
		if !slices.ContainsFunc(again.Members, func(m waypost.CohortMember) bool { return m.EnrollmentID == e.ID }) {
			t.Errorf("claimed again are %+v, without %s", again.Members, e.ID)
		}
		equal(t, "claimed a third time", must[*waypost.Cohort](t)(f.ClaimEnrollments(t.Context(), f.clock.Now())), (*waypost.Cohort)(nil))
		cohort := must[waypost.Cohort](t)(f.FormCohort(t.Context(), *again))
		equal(t, "of the first claim nobody is left", must[waypost.Cohort](t)(f.FormCohort(t.Context(), *c)), waypost.Cohort{Version: version})
		ok(t, f.MarkStarted(t.Context(), cohort.ID))
		started := f.enrollment(t, e.ID)
		equal(t, "workflow id", started.WorkflowID, cohort.ID)
		equal(t, "status", started.Status, waypost.EnrollmentRunning)
	}
}

// testFormCohort forms cohorts of claimed enrollments, whether they have ended or not, of
// which some are in another one.
func testFormCohort(t *testing.T, f *fixture) {
	journey := f.journey(t)
	ids := f.enroll(t, journey, 4)
	claimed := must[*waypost.Cohort](t)(f.ClaimEnrollments(t.Context(), time.Time{}))
	equal(t, "claimed", len(claimed.Members), len(ids))
	_ = must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[1]))
	part := *claimed
	part.Members = claimed.Members[3:]
	alone := must[waypost.Cohort](t)(f.FormCohort(t.Context(), part))
	equal(t, "alone", alone, waypost.Cohort{ID: ids[3], Version: claimed.Version, Members: part.Members})
	rest := must[waypost.Cohort](t)(f.FormCohort(t.Context(), *claimed))
	equal(t, "rest", rest.Members, claimed.Members[:3])
	f.clock.Advance(time.Second) // notices for several wait for others
	equal(t, "told before the start", len(f.notices(t)), 0)
	ok(t, f.MarkStarted(t.Context(), rest.ID))
	equal(t, "told of the end", f.notices(t), []waypost.Notice{{WorkflowID: rest.ID, EnrollmentID: ids[1]}})
	if !waypost.IsID(waypost.PrefixCohort, rest.ID) {
		t.Errorf("cohort id %q", rest.ID)
	}

	f.clock.Advance(time.Minute)
	left := must[[]waypost.Cohort](t)(f.StaleCohorts(t.Context(), f.clock.Now(), 10))
	equal(t, "not started", left, []waypost.Cohort{alone})
	equal(t, "claimed again", must[*waypost.Cohort](t)(f.ClaimEnrollments(t.Context(), f.clock.Now())), (*waypost.Cohort)(nil))
}
