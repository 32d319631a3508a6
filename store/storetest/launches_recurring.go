package storetest

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
)

// mornings is a schedule of the tests, whose clock stands in UTC.
var mornings = &waypost.Schedule{Cron: "0 9 * * *", Timezone: "UTC"}

// recurring makes a launch for all leads that recurs, and that Temporal knows.
func (f *fixture) recurring(t testing.TB, journey string) waypost.Launch {
	t.Helper()
	l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
		JourneyID: journey, Version: 1, AppID: "app_1", Schedule: mornings, Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
	}))
	ok(t, f.MarkLaunchStarted(t.Context(), l.ID))
	return l
}

// occurrence opens the occurrence that is due now.
func (f *fixture) occurrence(t testing.TB, recurring string) string {
	t.Helper()
	o := must[waypost.Occurrence](t)(f.OpenOccurrence(t.Context(), recurring, f.clock.Now()))
	if o.Skipped != "" || !waypost.IsID(waypost.PrefixLaunch, o.LaunchID) {
		t.Fatalf("opened %+v", o)
	}
	return o.LaunchID
}

func (f *fixture) launchOf(t testing.TB, id string) waypost.Launch {
	t.Helper()
	return must[waypost.Launch](t)(f.Launch(t.Context(), scope, id))
}

func (f *fixture) publishAgain(t testing.TB, journey string) {
	t.Helper()
	v := must[waypost.JourneyVersion](t)(f.JourneyVersion(t.Context(), scope, journey, 1))
	definition := []byte(strings.Replace(string(v.Definition), "{", `{"reentry":{"policy":"never"},`, 1))
	must[waypost.JourneyVersion](t)(f.PublishJourney(t.Context(), scope, journey, waypost.Publication{Name: v.Name, Hash: "another", Definition: definition}))
}

var recurringTests = []test{
	{"round trip", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		startAt := f.clock.Now().Add(30 * time.Hour)
		in := waypost.Launch{
			JourneyID: journey, Version: 1, AppID: "app_1", StartAt: &startAt, RatePerSecond: 2.5, ControlGroup: 0.25,
			Schedule: &waypost.Schedule{Cron: "30 9 * * mon-fri", Timezone: "Asia/Shanghai"},
			Audience: waypost.Audience{Filter: &waypost.LeadFilter{LeadsGroup: ptr[int64](1)}},
		}
		l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, in))
		want := in
		next := in.Schedule.Next(startAt)
		want.ID, want.Status, want.CreatedAt, want.Recurrence = l.ID, waypost.LaunchScheduled, f.clock.Now(), &waypost.Recurrence{NextAt: &next}
		equal(t, "created", l, want)
		equal(t, "read", f.launchOf(t, l.ID), want)
		equal(t, "listed", must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), scope, waypost.LaunchFilter{}, waypost.Page{})), []waypost.Launch{want})

		unstarted := must[[]waypost.Launch](t)(f.UnstartedLaunches(t.Context(), f.clock.Now(), 10))
		equal(t, "without a Schedule", len(unstarted), 1)
		equal(t, "its schedule", unstarted[0].Schedule, in.Schedule)
		equal(t, "its start", unstarted[0].StartAt, &startAt)
		ok(t, f.MarkLaunchStarted(t.Context(), l.ID))

		f.clock.Advance(next.Sub(f.clock.Now()))
		id := f.occurrence(t, l.ID)
		later := in.Schedule.Next(next)
		want.Recurrence = &waypost.Recurrence{NextAt: &later, Occurrences: 1}
		equal(t, "with an occurrence", f.launchOf(t, l.ID), want)
		occurrence := waypost.Launch{
			ID: id, JourneyID: journey, Version: 1, AppID: "app_1", RatePerSecond: 2.5, ControlGroup: 0.25, Audience: in.Audience,
			RecurringID: l.ID, OccursAt: &next, Status: waypost.LaunchPending, CreatedAt: f.clock.Now(),
		}
		equal(t, "the occurrence", f.launchOf(t, id), occurrence)
		list := func(filter waypost.LaunchFilter) []waypost.Launch {
			return must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), scope, filter, waypost.Page{}))
		}
		equal(t, "occurrences", list(waypost.LaunchFilter{RecurringID: l.ID}), []waypost.Launch{occurrence})
		equal(t, "both", list(waypost.LaunchFilter{JourneyID: journey}), []waypost.Launch{occurrence, want})
		equal(t, "none of its own", len(list(waypost.LaunchFilter{RecurringID: id})), 0)
		unstarted = must[[]waypost.Launch](t)(f.UnstartedLaunches(t.Context(), f.clock.Now(), 10))
		if len(unstarted) != 1 || unstarted[0].ID != id || unstarted[0].Schedule != nil {
			t.Fatalf("to start: %+v", unstarted)
		}
	}},
	{"refused", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		for target, change := range map[string]func(*waypost.Launch){
			"schedule.cron":     func(l *waypost.Launch) { l.Schedule = &waypost.Schedule{Cron: "* *", Timezone: "UTC"} },
			"schedule.timezone": func(l *waypost.Launch) { l.Schedule = &waypost.Schedule{Cron: "@daily"} },
			"controlGroup":      func(l *waypost.Launch) { l.ControlGroup = 1 },
		} {
			l := waypost.Launch{JourneyID: journey, Version: 1, Audience: waypost.Audience{LeadsIDs: []int64{1}}}
			change(&l)
			_, err := f.CreateLaunch(t.Context(), scope, l)
			if waypost.CodeOf(err) != waypost.CodeBadRequest || !strings.Contains(fmt.Sprintf("%+v", err), target) {
				t.Errorf("%s: %v", target, err)
			}
		}
		once := f.launch(t, journey, 1)
		for _, id := range []string{"", "lch_\x00", once.ID, journey} {
			_, err := f.OpenOccurrence(t.Context(), id, f.clock.Now())
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.MarkScheduleDeleted(t.Context(), id), waypost.CodeNotFound)
		}
	}},
	{"each once", func(t *testing.T, f *fixture) {
		// However often it is asked for, and by whom at the same time.
		l := f.recurring(t, f.journey(t))
		at := f.clock.Now()
		var mu sync.Mutex
		opened := map[string]int{}
		var asking sync.WaitGroup
		for i := range 12 {
			asking.Go(func() {
				o, err := f.OpenOccurrence(context.WithoutCancel(t.Context()), l.ID, at.Add(time.Duration(i%3)*time.Minute))
				mu.Lock()
				defer mu.Unlock()
				if err != nil || o.Skipped != "" {
					t.Errorf("%+v, %v", o, err)
				}
				opened[o.LaunchID]++
			})
		}
		asking.Wait()
		equal(t, "opened", len(opened), 3)
		equal(t, "occurrences", f.launchOf(t, l.ID).Recurrence.Occurrences, 3)
	}},
	{"times that the schedule has no longer", func(t *testing.T, f *fixture) {
		// The Schedule still has those from before the zone changed its rules.
		l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
			JourneyID: f.journey(t), Version: 1, AppID: "app_1", Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
			Schedule: &waypost.Schedule{Cron: "45 1 * * *", Timezone: "Africa/Casablanca"},
		}))
		open := func(at string) waypost.Occurrence {
			t.Helper()
			return must[waypost.Occurrence](t)(f.OpenOccurrence(t.Context(), l.ID, must[time.Time](t)(time.Parse(time.RFC3339, at))))
		}
		due := "2026-10-24T00:45:00Z"
		f.clock.Advance(must[time.Time](t)(time.Parse(time.RFC3339, due)).Sub(f.clock.Now()))
		equal(t, "a time of the schedule is opened", open(due).LaunchID != "", true)
		equal(t, "an hour later", open("2026-10-24T01:45:00Z"), waypost.Occurrence{})
		equal(t, "an hour earlier", open("2026-10-23T23:45:00Z"), waypost.Occurrence{})
		equal(t, "half an hour later", open("2026-10-24T01:15:00Z"), waypost.Occurrence{})
		equal(t, "one that was asked for by hand is opened", open("2026-10-24T00:46:40Z").LaunchID != "", true)
		equal(t, "occurrences", f.launchOf(t, l.ID).Recurrence.Occurrences, 2)
	}},
	{"renewed", func(t *testing.T, f *fixture) {
		l, paused := f.recurring(t, f.journey(t)), f.recurring(t, f.journey(t))
		canceled := f.recurring(t, f.journey(t))
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, canceled.ID))
		must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, paused.ID))
		due := func(want ...string) {
			t.Helper()
			var got []string
			for _, l := range must[[]waypost.Launch](t)(f.AgedLaunches(t.Context(), f.clock.Now(), 10)) {
				got = append(got, l.ID)
			}
			slices.Sort(got)
			slices.Sort(want)
			equal(t, "to renew", got, want)
		}
		due()
		f.clock.Advance(12 * time.Hour)
		due()
		f.clock.Advance(time.Second)
		due(l.ID, paused.ID) // those of a pause, too, since a resume does not make a Schedule
		due()
		f.clock.Advance(time.Second)
		due(l.ID, paused.ID) // whoever claimed them has died
		ok(t, f.MarkLaunchStarted(t.Context(), l.ID))
		ok(t, f.MarkLaunchStarted(t.Context(), paused.ID))
		f.clock.Advance(12 * time.Hour)
		due()
		equal(t, "to start", len(must[[]waypost.Launch](t)(f.UnstartedLaunches(t.Context(), f.clock.Now(), 10))), 0)
	}},
	{"renewed while it is canceled", func(t *testing.T, f *fixture) {
		// Another pump has deleted the Schedule, and it was made anew.
		l := f.recurring(t, f.journey(t))
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, l.ID))
		ok(t, f.MarkScheduleDeleted(t.Context(), l.ID))
		equal(t, "deleted", len(must[[]string](t)(f.CanceledSchedules(t.Context(), 10))), 0)
		ok(t, f.MarkLaunchStarted(t.Context(), l.ID))
		equal(t, "to delete", must[[]string](t)(f.CanceledSchedules(t.Context(), 10)), []string{l.ID})
	}},
	{"renewed right before a time", func(t *testing.T, f *fixture) {
		// By Temporal's clock it was due already, and is dropped: a second renewal opens it.
		l := f.recurring(t, f.journey(t))
		due := mornings.Next(f.clock.Now())
		f.clock.Advance(due.Add(-time.Second).Sub(f.clock.Now()))
		ok(t, f.MarkLaunchStarted(t.Context(), l.ID))
		f.clock.Advance(4 * time.Second)
		equal(t, "soon", len(must[[]waypost.Launch](t)(f.AgedLaunches(t.Context(), f.clock.Now(), 10))), 0)
		f.clock.Advance(time.Second)
		equal(t, "again", len(must[[]waypost.Launch](t)(f.AgedLaunches(t.Context(), f.clock.Now(), 10))), 1)
		ok(t, f.MarkLaunchStarted(t.Context(), l.ID))
		equal(t, "occurrences", f.launchOf(t, l.ID).Recurrence.Occurrences, 1)
		f.clock.Advance(11 * time.Hour)
		equal(t, "later", len(must[[]waypost.Launch](t)(f.AgedLaunches(t.Context(), f.clock.Now(), 10))), 0)
	}},
	{"made up for when it is renewed", func(t *testing.T, f *fixture) {
		// Temporal drops what was due before a Schedule is renewed, and has not fired.
		l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
			JourneyID: f.journey(t), Version: 1, AppID: "app_1", Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
			Schedule: &waypost.Schedule{Cron: "*/20 * * * *", Timezone: "UTC"},
		}))
		first := l.Schedule.Next(f.clock.Now())
		opened := func(want ...time.Time) {
			t.Helper()
			ok(t, f.MarkLaunchStarted(t.Context(), l.ID))
			var got []time.Time
			for _, o := range must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), scope, waypost.LaunchFilter{RecurringID: l.ID}, waypost.Page{})) {
				got = append(got, *o.OccursAt)
			}
			slices.SortFunc(got, time.Time.Compare)
			equal(t, "opened", got, want)
		}
		opened() // nothing was due since it was made
		f.clock.Advance(first.Sub(f.clock.Now()) + 5*time.Second)
		opened(first)
		f.clock.Advance(20 * time.Minute)
		second := first.Add(20 * time.Minute)
		must[waypost.Occurrence](t)(f.OpenOccurrence(t.Context(), l.ID, second)) // Temporal fired
		opened(first, second)
		f.clock.Advance(10 * time.Minute)
		must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, l.ID))
		f.clock.Advance(20 * time.Minute)
		opened(first, second)
		third := second.Add(20 * time.Minute)
		equal(t, "last skip", f.launchOf(t, l.ID).Recurrence.LastSkip, &waypost.SkippedOccurrence{At: third, Reason: waypost.SkipPaused})
		must[waypost.Launch](t)(f.ResumeLaunch(t.Context(), scope, l.ID, true))
		f.clock.Advance(24 * time.Hour)
		hour := f.clock.Now().Add(-waypost.OccurrenceWindow)
		want := []time.Time{first, second}
		for range 3 {
			hour = l.Schedule.Next(hour)
			want = append(want, hour)
		}
		opened(want...)
	}},
	{"the leads of its time", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		l := f.recurring(t, journey)
		var enrolled []int
		for range 3 {
			f.lead(t)
			f.clock.Advance(24 * time.Hour)
			id := f.occurrence(t, l.ID)
			f.run(t, id, 1)
			enrolled = append(enrolled, f.progressOf(t, id).Enrolled)
		}
		// The one before still runs: its leads may not enter again.
		equal(t, "enrolled", enrolled, []int{1, 1, 1})
		equal(t, "together", f.progressOf(t, l.ID), waypost.LaunchProgress{Total: 6, Enrolled: 3, Skipped: 3})
		for _, c := range f.claimAll(t, 10) {
			for _, m := range c.Members {
				ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(m.EnrollmentID, 1, waypost.EnrollmentCompleted)}))
			}
		}
		f.publishAgain(t, journey)
		f.clock.Advance(24 * time.Hour)
		newest := f.launchOf(t, f.occurrence(t, l.ID))
		equal(t, "version", newest.Version, 2)
		f.run(t, newest.ID, 10) // enters nobody again, as version 2 says
		equal(t, "with version 2", f.progressOf(t, newest.ID), waypost.LaunchProgress{Total: 3, Skipped: 3})
		got := f.launchOf(t, l.ID)
		equal(t, "status", got.Status, waypost.LaunchScheduled)
		equal(t, "together", got.Progress, waypost.LaunchProgress{Total: 9, Enrolled: 3, Skipped: 6, Completed: 3})
	}},
	{"a list", func(t *testing.T, f *fixture) {
		leads := []int64{f.lead(t), f.lead(t)}
		l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
			JourneyID: f.journey(t), Version: 1, AppID: "app_1", Schedule: mornings, Audience: waypost.Audience{LeadsIDs: append(leads, 1<<40)},
		}))
		id := f.occurrence(t, l.ID)
		f.lead(t)
		equal(t, "before", f.progressOf(t, id), waypost.LaunchProgress{})
		f.run(t, id, 1)
		equal(t, "progress", f.progressOf(t, id), waypost.LaunchProgress{Total: 3, Enrolled: 2, Skipped: 1})
		equal(t, "enrolled", leadsOf(f.claimAll(t, 10)), leads)
	}},
	{"skipped", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		l := f.recurring(t, journey)
		skipped := func(at time.Time, want waypost.SkipReason) {
			t.Helper()
			for range 2 {
				equal(t, "outcome", must[waypost.Occurrence](t)(f.OpenOccurrence(t.Context(), l.ID, at)), waypost.Occurrence{Skipped: want})
			}
			equal(t, "last skip", f.launchOf(t, l.ID).Recurrence.LastSkip, &waypost.SkippedOccurrence{At: at, Reason: want})
		}
		status := func(want waypost.LaunchStatus) {
			t.Helper()
			got := f.launchOf(t, l.ID)
			equal(t, "status", got.Status, want)
			equal(t, "has a next time", got.Recurrence.NextAt != nil, want == waypost.LaunchScheduled)
		}
		must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, l.ID))
		status(waypost.LaunchPaused)
		skipped(f.clock.Now(), waypost.SkipPaused)
		must[waypost.Launch](t)(f.ResumeLaunch(t.Context(), scope, l.ID, true))
		status(waypost.LaunchScheduled)
		// One that was due in a pause is not made up for after it, though the workers hear of it only then.
		inPause := f.clock.Now()
		must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, l.ID))
		f.clock.Advance(time.Minute)
		must[waypost.Launch](t)(f.ResumeLaunch(t.Context(), scope, l.ID, true))
		f.clock.Advance(time.Minute)
		skipped(inPause.Add(time.Second), waypost.SkipPaused)
		f.clock.Advance(waypost.OccurrenceWindow + time.Minute)
		late := f.clock.Now().Add(-waypost.OccurrenceWindow - time.Microsecond)
		skipped(late, waypost.SkipLate)
		id := must[waypost.Occurrence](t)(f.OpenOccurrence(t.Context(), l.ID, late.Add(time.Microsecond))).LaunchID
		f.run(t, id, 1)
		// What was opened is told again, late or not; an older skip does not hide a later one.
		f.clock.Advance(time.Hour)
		equal(t, "again", must[waypost.Occurrence](t)(f.OpenOccurrence(t.Context(), l.ID, late.Add(time.Microsecond))), waypost.Occurrence{LaunchID: id})
		must[waypost.Occurrence](t)(f.OpenOccurrence(t.Context(), l.ID, late.Add(-time.Hour)))
		equal(t, "last skip", f.launchOf(t, l.ID).Recurrence.LastSkip.At, late)
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		status(waypost.LaunchPaused)
		skipped(f.clock.Now(), waypost.SkipPaused)
		must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, journey, true))
		f.occurrence(t, l.ID)
		f.clock.Advance(time.Minute)
		must[waypost.Journey](t)(f.ArchiveJourney(t.Context(), scope, journey))
		skipped(f.clock.Now(), waypost.SkipArchived)
		equal(t, "opened", f.launchOf(t, l.ID).Recurrence.Occurrences, 2)
	}},
	{"pause, resume and cancel with its occurrences", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		f.lead(t)
		l, other := f.recurring(t, journey), f.recurring(t, journey)
		done := f.occurrence(t, l.ID)
		f.run(t, done, 1)
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(f.claimAll(t, 1)[0].Members[0].EnrollmentID, 1, waypost.EnrollmentCompleted)}))
		f.clock.Advance(time.Minute)
		running, beside := f.occurrence(t, l.ID), f.occurrence(t, other.ID)
		f.clock.Advance(time.Minute)
		canceled := f.occurrence(t, l.ID)
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, canceled))
		f.run(t, running, 1)
		statuses := func(want ...waypost.LaunchStatus) {
			t.Helper()
			var got []waypost.LaunchStatus
			for _, id := range []string{l.ID, done, running, canceled, beside, other.ID} {
				got = append(got, f.launchOf(t, id).Status)
			}
			equal(t, "statuses", got, want)
		}
		for range 2 {
			equal(t, "paused", must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, l.ID)).Status, waypost.LaunchPaused)
		}
		statuses(waypost.LaunchPaused, waypost.LaunchCompleted, waypost.LaunchPaused, waypost.LaunchCanceled, waypost.LaunchPending, waypost.LaunchScheduled)
		for range 2 {
			must[waypost.Launch](t)(f.ResumeLaunch(t.Context(), scope, l.ID, true))
		}
		statuses(waypost.LaunchScheduled, waypost.LaunchCompleted, waypost.LaunchRunning, waypost.LaunchCanceled, waypost.LaunchPending, waypost.LaunchScheduled)
		equal(t, "schedules to delete", len(must[[]string](t)(f.CanceledSchedules(t.Context(), 10))), 0)
		for range 2 {
			equal(t, "canceled", must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, l.ID)).Status, waypost.LaunchCanceled)
		}
		statuses(waypost.LaunchCanceled, waypost.LaunchCompleted, waypost.LaunchCanceled, waypost.LaunchCanceled, waypost.LaunchPending, waypost.LaunchScheduled)
		_, err := f.ResumeLaunch(t.Context(), scope, l.ID, true)
		wantCode(t, err, waypost.CodeConflict)
		toDelete := func(want ...string) {
			t.Helper()
			got := must[[]string](t)(f.CanceledSchedules(t.Context(), 10))
			equal(t, "schedules to delete", slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(want)))
		}
		toDelete(l.ID)
		equal(t, "one at a time", len(must[[]string](t)(f.CanceledSchedules(t.Context(), 1))), 1)
		for range 2 {
			ok(t, f.MarkScheduleDeleted(t.Context(), l.ID))
			toDelete()
		}
		// One that fires nevertheless is deleted once more.
		f.clock.Advance(time.Minute)
		equal(t, "fired", must[waypost.Occurrence](t)(f.OpenOccurrence(t.Context(), l.ID, f.clock.Now())), waypost.Occurrence{Skipped: waypost.SkipCanceled})
		toDelete(l.ID)

		// A cancel of the journey cancels the rest. A Schedule that Temporal was not told
		// of is made before it is deleted, so that it cannot be made after that.
		unknown := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
			JourneyID: journey, Version: 1, AppID: "app_1", Schedule: mornings, Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
		}))
		must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, journey))
		statuses(slices.Replace(slices.Repeat([]waypost.LaunchStatus{waypost.LaunchCanceled}, 6), 1, 2, waypost.LaunchCompleted)...)
		toDelete(l.ID, other.ID)
		ok(t, f.MarkLaunchStarted(t.Context(), unknown.ID))
		toDelete(l.ID, other.ID, unknown.ID)
	}},
	{"schedules that exist", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		var want []waypost.Launch
		for range 3 {
			l := f.recurring(t, journey)
			want = append(want, waypost.Launch{ID: l.ID, Scope: scope, JourneyID: journey})
			f.clock.Advance(time.Millisecond)
		}
		f.launch(t, journey, f.lead(t))
		must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{ // Temporal does not know it
			JourneyID: journey, Version: 1, AppID: "app_1", Schedule: mornings, Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
		}))
		list := func(after string, limit int) []waypost.Launch {
			t.Helper()
			return must[[]waypost.Launch](t)(f.ScheduledLaunches(t.Context(), after, limit))
		}
		equal(t, "all", list("", 10), want)
		equal(t, "page", list("", 2), want[:2])
		equal(t, "next page", list(want[1].ID, 2), want[2:])
		must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, want[1].ID))
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, want[0].ID))
		equal(t, "paused and canceled", list("", 10), want[1:])
		equal(t, "after the last", list(want[2].ID, 10), []waypost.Launch{})
	}},
	{"control group", func(t *testing.T, f *fixture) {
		// Of a filter and of a list, in steps of any size, the same leads are held out:
		// in every launch of the journey, and in those with a larger group.
		const share = 0.3
		journey := f.journey(t)
		var all, others, group []int64
		for range 60 {
			lead := f.lead(t)
			all = append(all, lead)
			if waypost.HeldOut(journey, lead, share) {
				group = append(group, lead)
			} else {
				others = append(others, lead)
			}
		}
		if len(group) == 0 || len(others) == 0 {
			t.Fatalf("%d of 60 leads are held out", len(group))
		}
		launch := func(a waypost.Audience, n int) (waypost.LaunchProgress, []int64) {
			t.Helper()
			l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
				JourneyID: journey, Version: 1, AppID: "app_1", ControlGroup: share, Audience: a,
			}))
			equal(t, "its share", l.ControlGroup, share)
			f.run(t, l.ID, n)
			must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, l.ID))
			got := f.claimAll(t, 10)
			for _, c := range got {
				for _, m := range c.Members {
					must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, m.EnrollmentID))
				}
			}
			p := f.progressOf(t, l.ID)
			p.Completed = 0
			return p, leadsOf(got)
		}
		for _, n := range []int{1, 7, 1000} {
			p, enrolled := launch(waypost.Audience{Filter: &waypost.LeadFilter{}}, n)
			equal(t, "progress of a filter", p, waypost.LaunchProgress{Total: 60, Enrolled: len(others), HeldOut: len(group)})
			equal(t, "enrolled of a filter", enrolled, others)
			p, enrolled = launch(waypost.Audience{LeadsIDs: append([]int64{1 << 40, 1 << 41}, all...)}, n)
			equal(t, "progress of a list", p, waypost.LaunchProgress{Total: 62, Enrolled: len(others), Skipped: 2, HeldOut: len(group)})
			equal(t, "enrolled of a list", enrolled, others)
		}
		// Who is of the group and single is enrolled like everybody.
		must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: group[0], AppID: "app_1"}, waypost.Reentry{}))
	}},
}
