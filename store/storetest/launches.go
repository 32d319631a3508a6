package storetest

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

var launchTests = []test{
	{"round trip", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		startAt := f.clock.Now().Add(time.Hour)
		in := waypost.Launch{
			JourneyID: journey, Version: 1, AppID: "app_1", StartAt: &startAt, RatePerSecond: 2.5,
			Audience: waypost.Audience{Filter: &waypost.LeadFilter{
				LeadsGroup: ptr[int64](1), Region: ptr[int64](0), Name: "A'%", MobilePhone: "+8613800138000", Email: "a@b.c", ExternalID: "x",
				CreatedFrom: f.clock.Now(), UpdatedTo: f.clock.Now(),
			}},
		}
		l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, in))
		if !waypost.IsID(waypost.PrefixLaunch, l.ID) {
			t.Fatalf("launch id %q", l.ID)
		}
		want := in
		want.ID, want.Status, want.CreatedAt = l.ID, waypost.LaunchScheduled, f.clock.Now()
		equal(t, "created", l, want)
		equal(t, "read", must[waypost.Launch](t)(f.Launch(t.Context(), scope, l.ID)), want)
		equal(t, "listed", must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), scope, waypost.LaunchFilter{}, waypost.Page{})), []waypost.Launch{want})
		f.clock.Advance(time.Hour)
		want.Status = waypost.LaunchPending
		equal(t, "due", must[waypost.Launch](t)(f.Launch(t.Context(), scope, l.ID)), want)
		for _, sc := range foreign {
			_, err := f.Launch(t.Context(), sc, l.ID)
			wantCode(t, err, waypost.CodeNotFound)
			equal(t, "foreign list", len(must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), sc, waypost.LaunchFilter{JourneyID: journey}, waypost.Page{}))), 0)
			_, err = f.CreateLaunch(t.Context(), sc, in)
			wantCode(t, err, waypost.CodeNotFound)
		}
		for _, id := range []string{"", "lch_1", "lch_\x00", f.journey(t)} {
			_, err := f.Launch(t.Context(), scope, id)
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.MarkLaunchStarted(t.Context(), id), waypost.CodeNotFound)
			_, err = f.EnrollAudience(t.Context(), id, 1)
			wantCode(t, err, waypost.CodeNotFound)
		}
	}},
	{"refused", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		list := waypost.Audience{LeadsIDs: []int64{1}}
		for name, c := range map[string]struct {
			launch waypost.Launch
			code   waypost.ErrorCode
			target string
		}{
			"no journey": {waypost.Launch{JourneyID: "jrn_none", Version: 1, Audience: list}, waypost.CodeNotFound, "version"},
			"no version": {waypost.Launch{JourneyID: journey, Version: 2, Audience: list}, waypost.CodeNotFound, "version"},
			"nobody":     {waypost.Launch{JourneyID: journey, Version: 1}, waypost.CodeBadRequest, "audience"},
			"both": {
				waypost.Launch{JourneyID: journey, Version: 1, Audience: waypost.Audience{LeadsIDs: []int64{1}, Filter: &waypost.LeadFilter{}}},
				waypost.CodeBadRequest, "audience",
			},
			"too many": {
				waypost.Launch{JourneyID: journey, Version: 1, Audience: waypost.Audience{LeadsIDs: numbers(1, waypost.MaxAudience+1)}},
				waypost.CodeBadRequest, "audience.leadsIds",
			},
			"rate":    {waypost.Launch{JourneyID: journey, Version: 1, Audience: list, RatePerSecond: -1}, waypost.CodeBadRequest, "ratePerSecond"},
			"no rate": {waypost.Launch{JourneyID: journey, Version: 1, Audience: list, RatePerSecond: math.NaN()}, waypost.CodeBadRequest, "ratePerSecond"},
			"NUL": {
				waypost.Launch{JourneyID: journey, Version: 1, Audience: waypost.Audience{Filter: &waypost.LeadFilter{Name: "\x00"}}},
				waypost.CodeBadRequest, "audience.filter.name",
			},
		} {
			_, err := f.CreateLaunch(t.Context(), scope, c.launch)
			if waypost.CodeOf(err) != c.code || !strings.Contains(err.Error(), c.target) {
				t.Errorf("%s: got %v, want %s of %s", name, err, c.code, c.target)
			}
		}
		equal(t, "launches", len(must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), scope, waypost.LaunchFilter{}, waypost.Page{}))), 0)
	}},
	{"list", func(t *testing.T, f *fixture) {
		// Who is listed twice is enrolled once; who does not exist, or in another scope
		// only, is skipped.
		leads := []int64{f.lead(t), f.lead(t), f.lead(t), f.lead(t)}
		other := must[waypost.Lead](t)(f.CreateLead(t.Context(), foreign[0], waypost.LeadFields{Name: "Eve"}, nil)).LeadsID
		l := f.launch(t, f.journey(t), []int64{leads[3], other, leads[0], math.MinInt64, leads[2], 0, leads[0], math.MaxInt64, leads[1], -1}...)
		equal(t, "before", f.progressOf(t, l.ID), waypost.LaunchProgress{})
		f.clock.Advance(time.Second)
		begin := f.clock.Now()
		step := must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 4))
		equal(t, "first step", step, waypost.LaunchStep{Enrolled: 1, Skipped: 3})
		got := must[waypost.Launch](t)(f.Launch(t.Context(), scope, l.ID))
		equal(t, "running", got.Status, waypost.LaunchRunning)
		equal(t, "started at", got.StartedAt, &begin)
		equal(t, "progress", got.Progress, waypost.LaunchProgress{Total: 9, Enrolled: 1, Skipped: 3})
		f.clock.Advance(time.Second)
		step = must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 5))
		equal(t, "second step", step, waypost.LaunchStep{Enrolled: 3, Skipped: 2, Done: true})
		for range 2 {
			equal(t, "afterwards", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 5)), waypost.LaunchStep{Done: true})
		}
		equal(t, "enrolled", leadsOf(f.claimAll(t, 100)), leads)
		got = must[waypost.Launch](t)(f.Launch(t.Context(), scope, l.ID))
		equal(t, "still running", got.Status, waypost.LaunchRunning)
		equal(t, "start", got.StartedAt, &begin)
	}},
	{"nobody", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		for _, audience := range []waypost.Audience{{LeadsIDs: []int64{}}, {Filter: &waypost.LeadFilter{}}, {LeadsIDs: []int64{7, 8}}} {
			l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{JourneyID: journey, Version: 1, Audience: audience}))
			step := must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 10))
			equal(t, "step", step, waypost.LaunchStep{Skipped: len(audience.LeadsIDs), Done: true})
			got := must[waypost.Launch](t)(f.Launch(t.Context(), scope, l.ID))
			equal(t, "status", got.Status, waypost.LaunchCompleted)
			equal(t, "end", got.EndedAt, ptr(f.clock.Now()))
			equal(t, "progress", got.Progress, waypost.LaunchProgress{Total: len(audience.LeadsIDs), Skipped: len(audience.LeadsIDs)})
		}
		equal(t, "cohorts", len(f.claimAll(t, 10)), 0)
	}},
	{"long list", func(t *testing.T, f *fixture) {
		// The leads that exist stand around the seam of two parts of the stored list.
		leads := []int64{f.lead(t), f.lead(t), f.lead(t), f.lead(t)}
		list := append(numbers(-9_997, 0), leads...) // leads[1] is the 10,000th
		list = append(list, numbers(1_000_000, 1_012_000)...)
		rand.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, n := range []int{1000, 999, 5000} {
			l := f.launch(t, f.journey(t), list...)
			steps := f.run(t, l.ID, n)
			equal(t, "steps", steps, (len(list)+min(n, 1000)-1)/min(n, 1000))
			equal(t, "progress", f.progressOf(t, l.ID), waypost.LaunchProgress{Total: len(list), Enrolled: 4, Skipped: len(list) - 4})
			equal(t, "enrolled", leadsOf(f.claimAll(t, 10)), leads)
		}
	}},
	{"a million", func(t *testing.T, f *fixture) {
		lead := f.lead(t)
		list := numbers(lead, lead+waypost.MaxAudience-1)
		slices.Reverse(list)
		l := f.launch(t, f.journey(t), list...)
		equal(t, "step", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 1000)), waypost.LaunchStep{Enrolled: 1, Skipped: 999})
		equal(t, "progress", f.progressOf(t, l.ID), waypost.LaunchProgress{Total: waypost.MaxAudience, Enrolled: 1, Skipped: 999})
	}},
	{"filters", testAudienceFilters},
	{"who comes later", func(t *testing.T, f *fixture) {
		for range 5 {
			f.lead(t)
		}
		l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
			JourneyID: f.journey(t), Version: 1, Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
		}))
		f.lead(t)
		equal(t, "first", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 2)), waypost.LaunchStep{Enrolled: 2})
		for range 5 {
			f.lead(t)
		}
		equal(t, "steps", f.run(t, l.ID, 2), 2)
		equal(t, "progress", f.progressOf(t, l.ID), waypost.LaunchProgress{Total: 6, Enrolled: 6})
	}},
	{"reentry", testAudienceReentry},
	{"what a cohort is", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		version := must[waypost.JourneyVersion](t)(f.JourneyVersion(t.Context(), scope, journey, 1))
		leads := make([]int64, 2*waypost.MaxLaunchCohort+1)
		for i := range leads {
			leads[i] = f.lead(t)
		}
		l := f.launch(t, journey, leads...)
		single := f.enroll(t, journey, 1)[0] // is none of the launch's
		equal(t, "steps", f.run(t, l.ID, 1000), 1)
		api := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		equal(t, "claimed for the API", api.ID, single)
		equal(t, "launch of the API's", api.LaunchID, "")
		if more := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context())); more != nil {
			t.Fatalf("claimed %+v of a launch", more)
		}
		cohorts := f.claimAll(t, 2)
		var sizes []int
		for _, c := range cohorts {
			sizes = append(sizes, len(c.Members))
			equal(t, "launch", c.LaunchID, l.ID)
			equal(t, "version", c.Version, version)
			switch {
			case len(c.Members) == 1:
				equal(t, "id of a single one", c.ID, c.Members[0].EnrollmentID)
			case !waypost.IsID(waypost.PrefixCohort, c.ID):
				t.Fatalf("cohort id %q", c.ID)
			}
		}
		slices.Sort(sizes)
		equal(t, "sizes", sizes, []int{1, waypost.MaxLaunchCohort, waypost.MaxLaunchCohort})
		equal(t, "leads", leadsOf(cohorts), leads)

		member := cohorts[0].Members[0]
		want := waypost.Enrollment{
			ID: member.EnrollmentID, JourneyID: journey, Version: 1, LeadsID: member.LeadsID, LaunchID: l.ID, AppID: l.AppID,
			Params: map[string]any{}, Status: waypost.EnrollmentPending, CreatedAt: f.clock.Now(), Entry: waypost.Entry{Kind: waypost.EntryLaunch},
		}
		equal(t, "enrollment", f.enrollment(t, member.EnrollmentID), want)
		equal(t, "by id", must[map[string]waypost.Enrollment](t)(f.EnrollmentsByID(t.Context(), []string{want.ID}))[want.ID], want)
		ids := []string{cohorts[0].ID, cohorts[1].ID}
		for range 2 {
			ok(t, f.MarkStarted(t.Context(), ids...))
		}
		want.Status, want.WorkflowID = waypost.EnrollmentRunning, cohorts[0].ID
		equal(t, "started", f.enrollment(t, member.EnrollmentID), want)
		wantCode(t, f.MarkStarted(t.Context(), cohorts[2].ID, "coh_none"), waypost.CodeNotFound)
		last := cohorts[2].Members[0].EnrollmentID
		equal(t, "marked beside an unknown one", f.enrollment(t, last).Status, waypost.EnrollmentRunning)
		f.clock.Advance(time.Hour)
		stale := must[[]waypost.Cohort](t)(f.StaleCohorts(t.Context(), f.clock.Now(), 10))
		equal(t, "stale", len(stale), 1) // the API's
	}},
	{"left cohorts", func(t *testing.T, f *fixture) {
		// One that nobody has claimed is not stale; one that was claimed and left is.
		l := f.launch(t, f.journey(t), f.lead(t), f.lead(t))
		f.run(t, l.ID, 1)
		f.clock.Advance(time.Minute)
		equal(t, "unclaimed", len(must[[]waypost.Cohort](t)(f.StaleCohorts(t.Context(), f.clock.Now(), 10))), 0)
		claimed := must[[]waypost.Cohort](t)(f.ClaimLaunchCohorts(t.Context(), 1))
		equal(t, "just claimed", len(must[[]waypost.Cohort](t)(f.StaleCohorts(t.Context(), f.clock.Now(), 10))), 0)
		f.clock.Advance(time.Minute)
		equal(t, "stale", must[[]waypost.Cohort](t)(f.StaleCohorts(t.Context(), f.clock.Now(), 10)), claimed)
		rest := must[[]waypost.Cohort](t)(f.ClaimLaunchCohorts(t.Context(), 10))
		equal(t, "the other", len(rest), 1)
		if rest[0].ID == claimed[0].ID {
			t.Fatal("claimed one twice")
		}
	}},
	{"oldest first", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		var want []string
		for n := range 4 {
			leads := []int64{f.lead(t), f.lead(t)}[:1+n%2] // both kinds of ids
			l := f.launch(t, journey, leads...)
			f.run(t, l.ID, 10)
			want = append(want, l.ID)
			f.clock.Advance(time.Millisecond)
		}
		var got []string
		for _, c := range f.claimAll(t, 1) {
			got = append(got, c.LaunchID)
		}
		equal(t, "order", got, want)
	}},
	{"outbox lag", func(t *testing.T, f *fixture) {
		lag := func(pending int, oldest time.Duration) {
			t.Helper()
			n, d, err := f.OutboxLag(t.Context())
			ok(t, err)
			equal(t, "pending", n, pending)
			equal(t, "oldest", d, oldest)
		}
		lag(0, 0)
		journey := f.journey(t)
		f.run(t, f.launch(t, journey, f.lead(t), f.lead(t), f.lead(t)).ID, 10)
		f.clock.Advance(time.Second)
		lag(3, time.Second)
		f.enroll(t, journey, 2)
		f.clock.Advance(time.Second - 2*time.Millisecond)
		lag(5, 2*time.Second)
		launched := f.claimAll(t, 10)
		single := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		lag(5, 2*time.Second)
		ok(t, f.MarkStarted(t.Context(), launched[0].ID))
		lag(2, time.Second)
		ok(t, f.MarkStarted(t.Context(), single.ID))
		lag(0, 0)
	}},
	{"end", func(t *testing.T, f *fixture) {
		l := f.launch(t, f.journey(t), f.lead(t), f.lead(t), f.lead(t))
		equal(t, "step", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 2)).Enrolled, 2)
		members := f.claimAll(t, 1)[0].Members
		end := func(m waypost.CohortMember, status waypost.EnrollmentStatus) {
			t.Helper()
			f.clock.Advance(time.Minute)
			ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(m.EnrollmentID, 1, status)}))
		}
		read := func() waypost.Launch {
			t.Helper()
			got := must[waypost.Launch](t)(f.Launch(t.Context(), scope, l.ID))
			listed := must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), scope, waypost.LaunchFilter{JourneyID: l.JourneyID}, waypost.Page{}))[0]
			equal(t, "status in the list", listed.Status, got.Status)
			equal(t, "end in the list", listed.EndedAt, got.EndedAt)
			return got
		}
		end(members[0], waypost.EnrollmentCompleted)
		end(members[1], waypost.EnrollmentFailed)
		got := read()
		equal(t, "with one to come", got.Status, waypost.LaunchRunning)
		equal(t, "progress", got.Progress, waypost.LaunchProgress{Total: 3, Enrolled: 2, Completed: 2})
		f.run(t, l.ID, 10)
		last := f.claimAll(t, 1)[0].Members[0]
		equal(t, "with one active", read().Status, waypost.LaunchRunning)
		end(last, waypost.EnrollmentExited)
		got = read()
		equal(t, "at the end", got.Status, waypost.LaunchCompleted)
		equal(t, "ended", got.EndedAt, ptr(f.clock.Now()))
		equal(t, "progress at the end", got.Progress, waypost.LaunchProgress{Total: 3, Enrolled: 3, Completed: 3})
	}},
	{"paused", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		l := f.launch(t, journey, f.lead(t), f.lead(t))
		other := f.launch(t, journey, f.lead(t))
		step := func(want waypost.LaunchStep) {
			t.Helper()
			got := must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 1))
			slices.Sort(got.Held)
			slices.Sort(want.Held)
			equal(t, "step", got, want)
		}
		status := func(id string, want waypost.LaunchStatus) {
			t.Helper()
			equal(t, "status", must[waypost.Launch](t)(f.Launch(t.Context(), scope, id)).Status, want)
		}
		must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, l.ID))
		status(l.ID, waypost.LaunchPaused)
		status(other.ID, waypost.LaunchPending)
		for range 2 {
			step(waypost.LaunchStep{Held: []string{l.ID}})
		}
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		status(other.ID, waypost.LaunchPaused)
		step(waypost.LaunchStep{Held: []string{l.ID, journey}})
		must[waypost.Launch](t)(f.ResumeLaunch(t.Context(), scope, l.ID, true))
		status(l.ID, waypost.LaunchPaused)
		step(waypost.LaunchStep{Held: []string{journey}})
		equal(t, "nobody is enrolled", f.progressOf(t, l.ID), waypost.LaunchProgress{})
		must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, journey, true))
		status(l.ID, waypost.LaunchPending)
		// Each resume has told the launch's workflow.
		var notified []string
		for _, n := range f.notices(t) {
			notified = append(notified, n.WorkflowID)
		}
		equal(t, "told", notified, []string{l.ID, l.ID})
		step(waypost.LaunchStep{Enrolled: 1})
		must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, l.ID))
		step(waypost.LaunchStep{Held: []string{l.ID}})
		must[waypost.Launch](t)(f.ResumeLaunch(t.Context(), scope, l.ID, false))
		status(l.ID, waypost.LaunchRunning)
		step(waypost.LaunchStep{Enrolled: 1, Done: true})
		// Who waits for nothing but the enrollments is paused nevertheless.
		must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, l.ID))
		status(l.ID, waypost.LaunchPaused)
		step(waypost.LaunchStep{Done: true})
	}},
	{"canceled", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		a, b, done := f.launch(t, journey, f.lead(t), f.lead(t)), f.launch(t, journey, f.lead(t)), f.launch(t, journey, f.lead(t))
		f.run(t, done.ID, 1)
		id := f.claimAll(t, 1)[0].Members[0].EnrollmentID
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(id, 1, waypost.EnrollmentCompleted)}))
		equal(t, "step", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), a.ID, 1)), waypost.LaunchStep{Enrolled: 1})
		f.clock.Advance(time.Second)
		canceledAt := f.clock.Now()
		want := func(id string, status waypost.LaunchStatus, end time.Time) {
			t.Helper()
			got := must[waypost.Launch](t)(f.Launch(t.Context(), scope, id))
			equal(t, "status", got.Status, status)
			equal(t, "end", got.EndedAt, &end)
			for _, l := range must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), scope, waypost.LaunchFilter{}, waypost.Page{})) {
				if l.ID == id {
					equal(t, "status in the list", l.Status, status)
				}
			}
		}
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, a.ID))
		want(a.ID, waypost.LaunchCanceled, canceledAt)
		for range 2 {
			equal(t, "step", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), a.ID, 1)), waypost.LaunchStep{Canceled: true})
		}
		f.clock.Advance(time.Second)
		must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, journey))
		want(a.ID, waypost.LaunchCanceled, canceledAt)
		want(b.ID, waypost.LaunchCanceled, f.clock.Now())
		want(done.ID, waypost.LaunchCompleted, canceledAt.Add(-time.Second))
		equal(t, "step", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), b.ID, 1)), waypost.LaunchStep{Canceled: true})
		f.clock.Advance(time.Second)
		for more := true; more; {
			more = must[bool](t)(f.SweepCanceled(t.Context(), 10))
		}
		want(a.ID, waypost.LaunchCanceled, canceledAt)
		equal(t, "progress", f.progressOf(t, a.ID), waypost.LaunchProgress{Total: 2, Enrolled: 1, Completed: 1})
		// The cancel is not for later launches.
		later := f.launch(t, journey, f.lead(t))
		equal(t, "later", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), later.ID, 1)), waypost.LaunchStep{Enrolled: 1, Done: true})
	}},
	{"canceled between steps", func(t *testing.T, f *fixture) {
		// Whoever was enrolled is canceled, whichever of the two came first.
		journey := f.journey(t)
		for i := range 10 {
			l := f.launch(t, journey, f.lead(t), f.lead(t), f.lead(t), f.lead(t))
			for _, err := range atOnce(2, func(n int) error {
				if n == 0 && i%2 == 0 {
					_, err := f.CancelLaunch(t.Context(), scope, l.ID)
					return err
				} else if n == 0 {
					_, err := f.CancelJourney(t.Context(), scope, journey)
					return err
				}
				for {
					step, err := f.EnrollAudience(t.Context(), l.ID, 1)
					if err != nil || step.Done || step.Canceled {
						return err
					}
				}
			}) {
				ok(t, err)
			}
			f.clock.Advance(time.Second)
			for more := true; more; {
				more = must[bool](t)(f.SweepCanceled(t.Context(), 100))
			}
			got := must[waypost.Launch](t)(f.Launch(t.Context(), scope, l.ID))
			equal(t, "status", got.Status, waypost.LaunchCanceled)
			equal(t, "active", got.Progress.Enrolled-got.Progress.Completed, 0)
		}
	}},
	{"lists", func(t *testing.T, f *fixture) {
		one, two := f.journey(t), f.journey(t)
		var want []string
		for i := range 7 {
			l := f.launch(t, []string{one, two}[i%2], f.lead(t))
			want = append(want, l.ID)
			f.clock.Advance(time.Millisecond)
		}
		slices.Reverse(want)
		for _, c := range []struct {
			journey string
			want    []string
		}{{"", want}, {two, []string{want[1], want[3], want[5]}}, {"jrn_\x00", nil}} {
			var got []string
			for page := (waypost.Page{Limit: 2}); ; page.After = got[len(got)-1] {
				list := must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), scope, waypost.LaunchFilter{JourneyID: c.journey}, page))
				for _, l := range list {
					got = append(got, l.ID)
				}
				if len(list) < page.Limit {
					break
				}
			}
			equal(t, "pages of "+c.journey, got, c.want)
		}
	}},
	{"unstarted", func(t *testing.T, f *fixture) {
		equal(t, "none", len(must[[]waypost.Launch](t)(f.UnstartedLaunches(t.Context(), f.clock.Now(), 10))), 0)
		startAt := f.clock.Now().Add(time.Hour)
		l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
			JourneyID: f.journey(t), Version: 1, AppID: "app_1", StartAt: &startAt, RatePerSecond: 3, Audience: waypost.Audience{LeadsIDs: []int64{1}},
		}))
		want := []waypost.Launch{{ID: l.ID, Scope: scope, JourneyID: l.JourneyID, Version: 1, AppID: "app_1", StartAt: &startAt, RatePerSecond: 3, CreatedAt: f.clock.Now()}}
		look := func(before time.Duration) []waypost.Launch {
			t.Helper()
			return must[[]waypost.Launch](t)(f.UnstartedLaunches(t.Context(), f.clock.Now().Add(-before), 10))
		}
		equal(t, "new", look(time.Second), want)
		equal(t, "claimed", len(look(time.Second)), 0)
		f.clock.Advance(2 * time.Second)
		equal(t, "left", look(time.Second), want)
		equal(t, "claimed again", len(look(time.Second)), 0)
		for range 2 {
			ok(t, f.MarkLaunchStarted(t.Context(), l.ID))
		}
		f.clock.Advance(time.Hour)
		equal(t, "started", len(look(time.Second)), 0)
	}},
	{"unstarted at once", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		for range 20 {
			f.unstarted(t, journey, 1)
		}
		found := make([][]string, 6)
		for _, err := range atOnce(len(found), func(i int) error {
			for range 20 {
				launches, err := f.UnstartedLaunches(t.Context(), f.clock.Now(), 3)
				if err != nil {
					return err
				}
				for _, l := range launches {
					found[i] = append(found[i], l.ID)
				}
			}
			return nil
		}) {
			ok(t, err)
		}
		all := slices.Concat(found...)
		slices.Sort(all)
		equal(t, "claimed", len(all), 20)
		equal(t, "distinct", len(slices.Compact(all)), 20)
	}},
	{"steps at once", func(t *testing.T, f *fixture) {
		// Six workers step through two launches with the same audience, and through
		// API calls for it, cut off at random moments; pumps claim what they make.
		leads := make([]int64, 120)
		for i := range leads {
			leads[i] = f.lead(t)
		}
		journey := f.journey(t)
		a := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
			JourneyID: journey, Version: 1, Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
		}))
		b := f.launch(t, journey, leads...)
		for _, err := range atOnce(9, func(i int) error {
			switch i {
			case 6:
				for _, lead := range leads {
					_, err := f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead}, waypost.Reentry{})
					if err != nil && waypost.CodeOf(err) != waypost.CodeConflict {
						return err
					}
				}
				return nil
			case 7, 8:
				for range 20 {
					cohorts, err := f.ClaimLaunchCohorts(t.Context(), 2)
					if err != nil {
						return err
					}
					for _, c := range cohorts {
						if err := f.MarkStarted(t.Context(), c.ID); err != nil {
							return err
						}
					}
				}
				return nil
			}
			id := []string{a.ID, b.ID}[i%2]
			for n := 0; ; n++ {
				ctx, cancel := t.Context(), context.CancelFunc(func() {})
				// What the network says of a deadline can come before the context says it.
				cut := n%3 == 0
				if cut {
					ctx, cancel = context.WithTimeout(ctx, rand.N(3*time.Millisecond))
				}
				step, err := f.EnrollAudience(ctx, id, 1+i)
				cancel()
				switch {
				case err != nil && !cut:
					return err
				case err == nil && step.Done:
					return nil
				}
			}
		}) {
			ok(t, err)
		}
		api := 0
		for c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context())); c != nil; c = must[*waypost.Cohort](t)(f.ClaimCohort(t.Context())) {
			api += len(c.Members)
		}
		pa, pb := f.progressOf(t, a.ID), f.progressOf(t, b.ID)
		equal(t, "all of a", pa.Enrolled+pa.Skipped, len(leads))
		equal(t, "all of b", pb.Enrolled+pb.Skipped, len(leads))
		equal(t, "totals", []int{pa.Total, pb.Total}, []int{len(leads), len(leads)})
		// Each lead is in the journey once, however it got there.
		equal(t, "enrolled", pa.Enrolled+pb.Enrolled+api, len(leads))
		for _, lead := range leads {
			_, err := f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead}, waypost.Reentry{})
			wantCode(t, err, waypost.CodeConflict)
		}
	}},
	{"claims at once", func(t *testing.T, f *fixture) {
		var leads []int64
		for range 60 {
			leads = append(leads, f.lead(t))
		}
		l := f.launch(t, f.journey(t), leads...)
		claimed := make([][]waypost.Cohort, 6)
		for _, err := range atOnce(len(claimed)+1, func(i int) error {
			if i == len(claimed) {
				for {
					if step, err := f.EnrollAudience(t.Context(), l.ID, 2); err != nil || step.Done {
						return err
					}
				}
			}
			for empty := 0; empty < 50; {
				cohorts, err := f.ClaimLaunchCohorts(t.Context(), 3)
				if err != nil {
					return err
				}
				if len(cohorts) == 0 {
					empty++
				}
				claimed[i] = append(claimed[i], cohorts...)
				for _, c := range cohorts {
					if err := f.MarkStarted(t.Context(), c.ID); err != nil {
						return err
					}
				}
			}
			return nil
		}) {
			ok(t, err)
		}
		claimed = append(claimed, f.claimAll(t, 10)) // made when the claimers had given up
		equal(t, "claimed", leadsOf(slices.Concat(claimed...)), leads)
	}},
	{"one time for all steps", testLaunchClock},
}

// numbers counts from first to last.
func numbers(first, last int64) []int64 {
	list := make([]int64, 0, last-first+1)
	for n := first; n <= last; n++ {
		list = append(list, n)
	}
	return list
}

// launch makes a launch to the listed leads.
func (f *fixture) launch(t testing.TB, journey string, leads ...int64) waypost.Launch {
	t.Helper()
	l := f.unstarted(t, journey, leads...)
	ok(t, f.MarkLaunchStarted(t.Context(), l.ID))
	return l
}

// unstarted makes a launch that no workflow was started for.
func (f *fixture) unstarted(t testing.TB, journey string, leads ...int64) waypost.Launch {
	t.Helper()
	return must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
		JourneyID: journey, Version: 1, AppID: "app_1", Audience: waypost.Audience{LeadsIDs: leads},
	}))
}

// run enrolls the rest of a launch's audience and returns the number of steps.
func (f *fixture) run(t testing.TB, launch string, n int) (steps int) {
	t.Helper()
	for {
		steps++
		step := must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), launch, n))
		if step.Done {
			return steps
		}
		if step.Canceled || len(step.Held) > 0 || !step.Waits.IsZero() || steps > 10_000 {
			t.Fatalf("step %d came to %+v", steps, step)
		}
	}
}

// claimAll claims what launches have made, limit cohorts at a time.
func (f *fixture) claimAll(t testing.TB, limit int) (all []waypost.Cohort) {
	t.Helper()
	for {
		cohorts := must[[]waypost.Cohort](t)(f.ClaimLaunchCohorts(t.Context(), limit))
		if len(cohorts) == 0 {
			return all
		}
		if len(cohorts) > limit {
			t.Fatalf("claimed %d cohorts, limit %d", len(cohorts), limit)
		}
		all = append(all, cohorts...)
	}
}

// leadsOf lists the leads of cohorts in ascending order.
func leadsOf(cohorts []waypost.Cohort) (leads []int64) {
	for _, c := range cohorts {
		for _, m := range c.Members {
			leads = append(leads, m.LeadsID)
		}
	}
	slices.Sort(leads)
	return leads
}

func (f *fixture) progressOf(t testing.TB, launch string) waypost.LaunchProgress {
	t.Helper()
	return must[waypost.Launch](t)(f.Launch(t.Context(), scope, launch)).Progress
}

func testAudienceFilters(t *testing.T, f *fixture) {
	type person struct {
		waypost.Lead
		phones []string
	}
	var people []person
	names := []string{"Ada", "ada", "Ad_", "A%a", `A\a`, "李雷", "李", "Äda", "O'Hara", "A?a"}
	for i := range 30 {
		fields := waypost.LeadFields{Name: names[i%len(names)]}
		if i%2 == 0 {
			fields.LeadsGroup, fields.Region = ptr(int64(i%3)), ptr(int64(i%5))
		}
		if i%4 == 1 {
			fields.Email = ptr(fmt.Sprintf("p%d@example.com", i%3))
		}
		var phones []string
		if i%5 == 2 {
			fields.ExternalID = ptr(fmt.Sprint("x", i))
			phones = []string{fmt.Sprintf("+86138001380%02d", i), fmt.Sprintf("+86138001381%02d", i)}
			fields.MobilePhone = []string{"as sent", "and another"}
		}
		f.clock.Advance(time.Second)
		lead := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, fields, phones))
		people = append(people, person{lead, phones})
		// The same person somewhere else is never meant.
		must[waypost.Lead](t)(f.CreateLead(t.Context(), foreign[i%3], fields, phones))
	}
	middle := people[15].CreatedAt
	is := func(p *int64, v int64) bool { return p != nil && *p == v }
	for name, c := range map[string]struct {
		filter waypost.LeadFilter
		match  func(p person) bool
	}{
		"all":            {waypost.LeadFilter{}, func(person) bool { return true }},
		"group":          {waypost.LeadFilter{LeadsGroup: ptr[int64](1)}, func(p person) bool { return is(p.LeadsGroup, 1) }},
		"group zero":     {waypost.LeadFilter{LeadsGroup: ptr[int64](0)}, func(p person) bool { return is(p.LeadsGroup, 0) }},
		"region":         {waypost.LeadFilter{Region: ptr[int64](4)}, func(p person) bool { return is(p.Region, 4) }},
		"name":           {waypost.LeadFilter{Name: "A"}, func(p person) bool { return strings.HasPrefix(strings.ToUpper(p.Name), "A") }},
		"other case":     {waypost.LeadFilter{Name: "aDA"}, func(p person) bool { return strings.EqualFold(p.Name, "ada") }},
		"underscore":     {waypost.LeadFilter{Name: "Ad_"}, func(p person) bool { return p.Name == "Ad_" }},
		"percent":        {waypost.LeadFilter{Name: "A%"}, func(p person) bool { return p.Name == "A%a" }},
		"backslash":      {waypost.LeadFilter{Name: `A\`}, func(p person) bool { return p.Name == `A\a` }},
		"question mark":  {waypost.LeadFilter{Name: "A?"}, func(p person) bool { return p.Name == "A?a" }},
		"quote":          {waypost.LeadFilter{Name: "O'H"}, func(p person) bool { return p.Name == "O'Hara" }},
		"chinese":        {waypost.LeadFilter{Name: "李"}, func(p person) bool { return strings.HasPrefix(p.Name, "李") }},
		"umlaut":         {waypost.LeadFilter{Name: "Ä"}, func(p person) bool { return p.Name == "Äda" }},
		"longer name":    {waypost.LeadFilter{Name: "Ada Lovelace"}, func(person) bool { return false }},
		"phone":          {waypost.LeadFilter{MobilePhone: "+8613800138107"}, func(p person) bool { return slices.Contains(p.phones, "+8613800138107") }},
		"no phone":       {waypost.LeadFilter{MobilePhone: "as sent"}, func(person) bool { return false }},
		"email":          {waypost.LeadFilter{Email: "p1@example.com"}, func(p person) bool { return p.Email != nil && *p.Email == "p1@example.com" }},
		"external id":    {waypost.LeadFilter{ExternalID: "x12"}, func(p person) bool { return p.ExternalID != nil && *p.ExternalID == "x12" }},
		"created from":   {waypost.LeadFilter{CreatedFrom: middle}, func(p person) bool { return !p.CreatedAt.Before(middle) }},
		"a moment later": {waypost.LeadFilter{CreatedFrom: middle.Add(1)}, func(p person) bool { return p.CreatedAt.After(middle) }},
		"created to":     {waypost.LeadFilter{CreatedTo: middle}, func(p person) bool { return p.CreatedAt.Before(middle) }},
		"updated from":   {waypost.LeadFilter{UpdatedFrom: middle}, func(p person) bool { return !p.UpdatedAt.Before(middle) }},
		"updated to":     {waypost.LeadFilter{UpdatedTo: middle}, func(p person) bool { return p.UpdatedAt.Before(middle) }},
		"everything": {
			waypost.LeadFilter{LeadsGroup: ptr[int64](0), Region: ptr[int64](2), Name: "A", ExternalID: "x12", MobilePhone: "+8613800138012", CreatedTo: middle, UpdatedFrom: people[0].UpdatedAt},
			func(p person) bool { return p.LeadsID == people[12].LeadsID },
		},
		"contradiction": {waypost.LeadFilter{ExternalID: "x12", LeadsGroup: ptr[int64](1)}, func(person) bool { return false }},
	} {
		var want []int64
		for _, p := range people {
			if c.match(p) {
				want = append(want, p.LeadsID)
			}
		}
		l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
			JourneyID: f.journey(t), Version: 1, Audience: waypost.Audience{Filter: &c.filter},
		}))
		f.run(t, l.ID, 4)
		equal(t, name+": progress", f.progressOf(t, l.ID).Enrolled, len(want))
		equal(t, name, leadsOf(f.claimAll(t, 100)), want)
	}
}

func testAudienceReentry(t *testing.T, f *fixture) {
	for _, c := range []struct {
		definition string
		// How many of three leads enter: at once again, after the first's enrollment has
		// ended, a day after that.
		again, ended, nextDay int
	}{
		{`{}`, 0, 1, 0},
		{`{"reentry":{"policy":"afterExit"}}`, 0, 1, 0},
		{`{"reentry":{"policy":"never"}}`, 0, 0, 0},
		{`{"reentry":{"policy":"always"}}`, 3, 3, 3},
		{`{"reentry":{"policy":"afterExit","every":"24h"}}`, 0, 0, 1},
		{`{"reentry":{"every":"P1D"}}`, 0, 0, 1},
		{`{"reentry":{"policy":"always","every":"24h"}}`, 0, 0, 3},
	} {
		j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "J", []byte(c.definition)))
		_, err := f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "J", Hash: "h", Definition: []byte(c.definition)})
		ok(t, err)
		leads := []int64{f.lead(t), f.lead(t), f.lead(t)}
		enter := func(what string, want int) (cohorts []waypost.Cohort) {
			t.Helper()
			l := f.launch(t, j.ID, leads...)
			step := must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 10))
			equal(t, c.definition+" "+what, step, waypost.LaunchStep{Enrolled: want, Skipped: 3 - want, Done: true})
			return f.claimAll(t, 10)
		}
		first := enter("first", 3)
		enter("again", c.again)
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(first[0].Members[1].EnrollmentID, 1, waypost.EnrollmentCompleted)}))
		enter("after an end", c.ended)
		f.clock.Advance(24 * time.Hour)
		enter("next day", c.nextDay)
	}
}
