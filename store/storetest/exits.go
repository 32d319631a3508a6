package storetest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// exiting makes a journey whose enrollments end by an event "buy" or "leave".
func (f *fixture) exiting(t testing.TB) string {
	t.Helper()
	return f.exitingIn(t, scope)
}

func (f *fixture) exitingIn(t testing.TB, sc waypost.Scope) string {
	t.Helper()
	j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), sc, "J", []byte(`{}`)))
	definition := `{"name":"J","exitOn":[{"event":"buy"},{"event":"leave"},{"event":"buy"}]}`
	_, err := f.PublishJourney(t.Context(), sc, j.ID, waypost.Publication{Name: "J", Hash: "exits", Definition: []byte(definition)})
	ok(t, err)
	return j.ID
}

// last tells how a timeline ends.
func last(t testing.TB, entries []waypost.TimelineEntry) waypost.TimelineEntry {
	t.Helper()
	if len(entries) == 0 {
		t.Fatal("the timeline is empty")
	}
	return entries[len(entries)-1]
}

// wantExited fails unless the enrollment was ended by an event at this time, and its
// timeline tells so once, at its end.
func (f *fixture) wantExited(t testing.TB, id, event string, at time.Time) {
	t.Helper()
	e := f.enrollment(t, id)
	if e.Status != waypost.EnrollmentExited || e.EndedAt == nil || !e.EndedAt.Equal(at) {
		t.Fatalf("%s is %s, ended at %v, want exited at %v", id, e.Status, e.EndedAt, at)
	}
	entries := f.timeline(t, id)
	end := last(t, entries)
	if end.What != waypost.WhatExited || end.Reason != "event "+event || end.Version != e.Version {
		t.Fatalf("the timeline ends with %+v", end)
	}
	if n := len(slices.DeleteFunc(slices.Clone(entries), func(e waypost.TimelineEntry) bool { return e.What != waypost.WhatExited })); n != 1 {
		t.Fatalf("%d exits in %+v", n, entries)
	}
	if reason, since, exited := f.controls(t, id).Exited(); !exited || reason != "event "+event || !since.Equal(at) {
		t.Fatalf("controls: %+v", f.controls(t, id))
	}
}

var exitTests = []test{
	{"wherever it stands", func(t *testing.T, f *fixture) {
		journey := f.exiting(t)
		workflow, ids := f.started(t, journey, 3)
		unclaimed := f.enroll(t, journey, 1)[0]
		f.clock.Advance(time.Minute)
		for _, id := range ids {
			ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(id, 1, waypost.EnrollmentWaiting)}))
		}
		must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, ids[1]))
		must[[]string](t)(f.Hold(t.Context(), workflow, []string{ids[1]}))
		w := f.wait(t, ids[2], workflow, "buy")
		f.await(t, w)
		f.clock.Advance(time.Minute)
		at := f.clock.Now()
		for i, id := range append(slices.Clone(ids), unclaimed) {
			lead := f.enrollment(t, id).LeadsID
			for _, other := range []string{"Buy", "bu", "buy ", "sell"} {
				f.accept(t, lead, fmt.Sprint(other, i), other)
			}
			if f.enrollment(t, id).Status == waypost.EnrollmentExited {
				t.Fatal("another event ended it")
			}
			f.accept(t, lead, fmt.Sprint("e", i), "buy")
			f.accept(t, lead, fmt.Sprint("again", i), "leave")
			f.wantExited(t, id, "buy", at)
		}
		// The workflow of the one that waits for the event gets no notice of it: the enrollment has exited.
		f.clock.Advance(time.Minute)
		equal(t, "notices", f.notices(t), []waypost.Notice{
			{WorkflowID: workflow, EnrollmentID: ids[0]}, {WorkflowID: workflow, EnrollmentID: ids[1]}, {WorkflowID: workflow, EnrollmentID: ids[2]},
		})
		equal(t, "where it stood", last(t, f.timeline(t, ids[0])).NodeID, "next")
		equal(t, "of one that had not begun", f.timeline(t, unclaimed), []waypost.TimelineEntry{
			{At: at, What: waypost.WhatExited, Reason: "event buy", Version: 1},
		})
		if c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context())); c != nil {
			t.Fatalf("claimed %+v", c)
		}
		for verb, do := range f.enrollmentVerbs() {
			_, err := do(t.Context(), scope, ids[0])
			if wantCode(t, err, waypost.CodeConflict); err == nil {
				t.Fatalf("%s passed", verb)
			}
		}
		// What a workflow still writes changes nothing but the timeline.
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(ids[0], 2, waypost.EnrollmentCompleted)}))
		f.wantExited(t, ids[0], "buy", at)
		equal(t, "told first", f.timeline(t, ids[0])[1].Seq, 2)
		must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, journey))
		f.sweep(t, 10)
		f.wantExited(t, ids[0], "buy", at)
	}},
	{"only what runs, and only of the lead's", func(t *testing.T, f *fixture) {
		journey, plain := f.exiting(t), f.journey(t)
		lead := f.lead(t)
		enroll := func(journey string, version int, lead int64, key string) string {
			return must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: version, LeadsID: lead, EntryKey: key}, waypost.Reentry{})).ID
		}
		f.accept(t, lead, "before", "buy")
		completed, canceled := enroll(journey, 1, lead, "a"), enroll(journey, 1, lead, "b")
		first, second, elsewhere, other := enroll(journey, 1, lead, "c"), enroll(journey, 1, lead, "d"), enroll(plain, 1, lead, ""), enroll(journey, 1, f.lead(t), "")
		// The next version exits no more.
		_, err := f.PublishJourney(t.Context(), scope, journey, waypost.Publication{Name: "J", Hash: "none", Definition: []byte(`{"name":"J"}`)})
		ok(t, err)
		newer := enroll(journey, 2, lead, "e")
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(completed, 1, waypost.EnrollmentCompleted)}))
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, canceled))
		for _, sc := range foreign {
			there := must[waypost.Lead](t)(f.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "Eve"}, nil)).LeadsID
			id := must[waypost.Enrollment](t)(f.Enroll(t.Context(), sc, waypost.Enrollment{JourneyID: f.exitingIn(t, sc), Version: 1, LeadsID: there}, waypost.Reentry{})).ID
			f.accept(t, f.lead(t), "of scope "+id, "buy")
			equal(t, "another scope's event", must[bool](t)(f.AcceptEvent(t.Context(), sc, waypost.Event{EventID: "e", Name: "sell", LeadsID: there})), true)
			e, _, err := f.Enrollment(t.Context(), sc, id)
			ok(t, err)
			equal(t, "there", e.Status, waypost.EnrollmentPending)
		}
		f.accept(t, lead, "now", "buy")
		for id, want := range map[string]waypost.EnrollmentStatus{
			completed: waypost.EnrollmentCompleted, canceled: waypost.EnrollmentCanceled, first: waypost.EnrollmentExited, second: waypost.EnrollmentExited,
			elsewhere: waypost.EnrollmentPending, other: waypost.EnrollmentPending, newer: waypost.EnrollmentPending,
		} {
			equal(t, id, f.status(t, id), want)
		}
		// Its entry is free again; the event does not count for what comes after it.
		again := enroll(journey, 1, lead, "c")
		equal(t, "the same event again", must[bool](t)(f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: "now", Name: "buy", LeadsID: lead})), false)
		equal(t, "again", f.status(t, again), waypost.EnrollmentPending)
		f.accept(t, lead, "later", "buy")
		equal(t, "later", f.status(t, again), waypost.EnrollmentExited)
	}},
	{"several at once of one entry", func(t *testing.T, f *fixture) {
		e := waypost.Enrollment{JourneyID: f.exiting(t), Version: 1, LeadsID: f.lead(t)}
		always := waypost.Reentry{Policy: waypost.ReentryAlways}
		var ids []string
		for range 3 {
			ids = append(ids, must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, always)).ID)
		}
		f.accept(t, e.LeadsID, "e", "leave")
		for _, id := range ids {
			f.wantExited(t, id, "leave", f.clock.Now())
		}
		must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, waypost.Reentry{})) // nobody is active
	}},
	{"deliveries", func(t *testing.T, f *fixture) {
		journey := f.exiting(t)
		_, ids := f.started(t, journey, 1)
		lead := f.enrollment(t, ids[0]).LeadsID
		var keys []waypost.Touchpoint
		var openings []delivery.Opening
		for visit := range 5 {
			key, o := f.touchpoint(t, ids[0], journey)
			key.Visit = visit + 1
			o.Touchpoint = key
			keys, openings = append(keys, key), append(openings, o)
		}
		f.open(t, openings[0]) // stays under way
		f.open(t, openings[1])
		f.record(t, f.retrying(keys[1], 1))
		d := delivery.Deferral{Touchpoint: keys[2], Scope: scope, Delivery: openings[2].Delivery, Reason: waypost.DeferQuietHours, At: f.clock.Now(), Until: f.clock.Now().Add(time.Hour)}
		ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{d}))
		f.clock.Advance(time.Minute)
		at := f.clock.Now()
		f.accept(t, lead, "e", "buy")
		// Nothing begins any more, not even what a worker was about to POST.
		retry := openings[1]
		retry.Attempt, retry.Body = 2, nil
		for _, o := range []delivery.Opening{retry, openings[2], openings[3]} {
			if s := f.open(t, o); s.Open != nil || !s.Held && s.Status != waypost.DeliveryCanceled {
				t.Fatalf("opened: %+v", s)
			}
		}
		late := d
		late.Touchpoint, late.Delivery = keys[4], openings[4].Delivery
		ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{late}))
		f.clock.Advance(time.Minute)
		outcome := f.succeeded(keys[0], 1)
		f.record(t, outcome)
		var got []waypost.DeliveryStatus
		for _, i := range []int{0, 1, 2, 4} {
			got = append(got, f.sending(t, keys[i]).Status)
		}
		equal(t, "deliveries", got, []waypost.DeliveryStatus{
			waypost.DeliverySucceeded, waypost.DeliveryCanceled, waypost.DeliveryCanceled, waypost.DeliveryCanceled,
		})
		// The outcome is recorded, and then it exits.
		f.wantExited(t, ids[0], "buy", at)
		entries := f.timeline(t, ids[0])
		equal(t, "entries", len(entries), 2)
		equal(t, "in order", entries[1].At.Before(entries[0].At), false)
	}},
	{"retry that fails after it", func(t *testing.T, f *fixture) {
		journey := f.exiting(t)
		_, ids := f.started(t, journey, 1)
		key, o := f.touchpoint(t, ids[0], journey)
		f.open(t, o)
		f.accept(t, o.Delivery.LeadsID, "e", "buy")
		f.record(t, f.retrying(key, 1))
		equal(t, "status", f.sending(t, key).Status, waypost.DeliveryCanceled)
	}},
	{"launch", func(t *testing.T, f *fixture) {
		journey := f.exiting(t)
		launch, cohorts := f.enrolled(t, journey, 3)
		for i, m := range cohorts[0].Members {
			f.accept(t, m.LeadsID, fmt.Sprint("e", i), "buy")
			f.wantExited(t, m.EnrollmentID, "buy", f.clock.Now())
			equal(t, "ended", f.progressOf(t, launch).Completed, i+1)
		}
		equal(t, "launch", must[waypost.Launch](t)(f.Launch(t.Context(), scope, launch)).Status, waypost.LaunchCompleted)
		// One that is canceled with its launch, and not swept yet, is canceled.
		launch, cohorts = f.enrolled(t, journey, 1)
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, launch))
		f.accept(t, cohorts[0].Members[0].LeadsID, "late", "buy")
		equal(t, "canceled", f.status(t, cohorts[0].Members[0].EnrollmentID), waypost.EnrollmentCanceled)
		f.sweep(t, 10)
		equal(t, "swept", f.status(t, cohorts[0].Members[0].EnrollmentID), waypost.EnrollmentCanceled)
		// A cohort that nobody has claimed yet still has its member, and is told once it runs.
		lead := f.lead(t)
		launch = f.launch(t, journey, lead).ID
		f.run(t, launch, 1000)
		f.notices(t)
		f.accept(t, lead, "early", "buy")
		equal(t, "before the start", len(f.notices(t)), 0)
		c := f.claimAll(t, 10)[0]
		ok(t, f.MarkStarted(t.Context(), c.ID))
		equal(t, "told", len(f.notices(t)), 1)
		f.wantExited(t, c.Members[0].EnrollmentID, "buy", f.clock.Now())
	}},
	{"enrolled on", func(t *testing.T, f *fixture) {
		from, into := f.journey(t), f.exiting(t)
		ids := f.enroll(t, from, 1)
		id := f.entered(t, f.onward(t, from, into, waypost.Reentry{}, ids...))[0]
		f.accept(t, f.enrollment(t, id).LeadsID, "e", "buy")
		f.wantExited(t, id, "buy", f.clock.Now())
		equal(t, "the first one", f.status(t, ids[0]), waypost.EnrollmentPending)
	}},
	{"while it is being created", func(t *testing.T, f *fixture) {
		// Whichever comes first: an event that was accepted after an enrollment was ends it.
		journey := f.exiting(t)
		policy := waypost.Reentry{Policy: waypost.ReentryAlways}
		for round := range 40 {
			lead := f.lead(t)
			var id string
			for _, err := range atOnce(3, func(i int) error {
				if i == 0 {
					e, err := f.Enroll(context.WithoutCancel(t.Context()), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead}, policy)
					id = e.ID
					return err
				}
				_, err := f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: fmt.Sprint(round, " ", i), Name: "buy", LeadsID: lead})
				return err
			}) {
				ok(t, err)
			}
			if f.status(t, id) == waypost.EnrollmentExited {
				f.wantExited(t, id, "buy", f.clock.Now())
			} else {
				f.accept(t, lead, fmt.Sprint(round), "leave")
				f.wantExited(t, id, "leave", f.clock.Now())
			}
		}
	}},
	{"beside everything else", func(t *testing.T, f *fixture) {
		// Events, enrollments, attempts and cancels of the same leads at the same time.
		journey := f.exiting(t)
		_, ids := f.started(t, journey, 8)
		leads := make([]int64, len(ids))
		openings := make([]delivery.Opening, len(ids))
		for i, id := range ids {
			_, openings[i] = f.touchpoint(t, id, journey)
			leads[i] = openings[i].Delivery.LeadsID
		}
		for _, err := range atOnce(24, func(i int) error {
			n := i % len(ids)
			switch i / len(ids) {
			case 0:
				_, err := f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: fmt.Sprint(i), Name: "buy", LeadsID: leads[n]})
				return err
			case 1:
				opened, err := f.OpenAttempts(t.Context(), openings)
				if s := opened[openings[n].Touchpoint]; err == nil && s.Open != nil {
					err = f.RecordAttempts(t.Context(), []delivery.AttemptRecord{f.retrying(openings[n].Touchpoint, 1)})
				}
				return err
			}
			_, err := f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: leads[n], EntryKey: fmt.Sprint("other", n)}, waypost.Reentry{})
			return err
		}) {
			ok(t, err)
		}
		for i, id := range ids {
			f.wantExited(t, id, "buy", f.clock.Now())
			// The workflow, which has a notice, cancels deliveries that were recorded at that moment.
			ok(t, f.CancelDeliveries(t.Context(), []waypost.Touchpoint{openings[i].Touchpoint}))
			s := f.sending(t, openings[i].Touchpoint)
			if s.Status != "" && s.Status != waypost.DeliveryCanceled && s.Open == nil {
				t.Fatalf("%d: its delivery is %s, and nothing is under way", i, s.Status)
			}
		}
	}},
}
