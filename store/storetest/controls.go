package storetest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// controls returns what was decided about an enrollment.
func (f *fixture) controls(t testing.TB, id string) waypost.Controls {
	t.Helper()
	e := f.enrollment(t, id)
	of := waypost.ControlTargets{JourneyID: e.JourneyID, LaunchID: e.LaunchID, EnrollmentIDs: []string{id}}
	return must[map[string]waypost.Controls](t)(f.Controls(t.Context(), of))[id]
}

func (f *fixture) status(t testing.TB, id string) waypost.EnrollmentStatus {
	t.Helper()
	return f.enrollment(t, id).Status
}

// sweep carries out all cancels that are due, in steps of n.
func (f *fixture) sweep(t testing.TB, n int) (steps int) {
	t.Helper()
	for must[bool](t)(f.SweepCanceled(t.Context(), n)) {
		if steps++; steps > 10_000 {
			t.Fatal("the sweep does not come to an end")
		}
	}
	return steps
}

// enrolled makes a launch of n new leads and enrolls them all.
func (f *fixture) enrolled(t testing.TB, journey string, n int) (launch string, cohorts []waypost.Cohort) {
	t.Helper()
	leads := make([]int64, n)
	for i := range leads {
		leads[i] = f.lead(t)
	}
	launch = f.launch(t, journey, leads...).ID
	f.run(t, launch, 1000)
	cohorts = f.claimAll(t, 100)
	for _, c := range cohorts {
		ok(t, f.MarkStarted(t.Context(), c.ID))
	}
	return launch, cohorts
}

var controlTests = []test{
	{"enrollment", func(t *testing.T, f *fixture) {
		workflow, ids := f.started(t, f.journey(t), 2)
		id := ids[0]
		equal(t, "at first", f.controls(t, id), waypost.Controls(nil))
		from := f.clock.Now()
		for range 2 {
			equal(t, "paused", must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, id)).Status, waypost.EnrollmentPaused)
			equal(t, "hold", must[[]string](t)(f.Hold(t.Context(), workflow, f.controls(t, id).Holds())), []string{id})
			f.clock.Advance(time.Minute)
		}
		pause := waypost.Control{Target: id, Kind: waypost.ControlPause, From: from}
		equal(t, "controls", f.controls(t, id), waypost.Controls{pause})
		equal(t, "the other one", f.controls(t, ids[1]), waypost.Controls(nil))
		pause.Until, pause.Shift = f.clock.Now(), true
		for range 2 {
			equal(t, "resumed", must[waypost.Enrollment](t)(f.ResumeEnrollment(t.Context(), scope, id, true)).Status, waypost.EnrollmentRunning)
			f.clock.Advance(time.Minute)
		}
		equal(t, "controls", f.controls(t, id), waypost.Controls{pause})
		equal(t, "notices", f.notices(t), []waypost.Notice{{WorkflowID: workflow, EnrollmentID: id}})
		equal(t, "hold after it", must[[]string](t)(f.Hold(t.Context(), workflow, []string{id})), []string(nil))
		must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, id))
		must[waypost.Enrollment](t)(f.ResumeEnrollment(t.Context(), scope, id, false))
		equal(t, "two pauses", len(f.controls(t, id)), 2)
		equal(t, "nobody waits", len(f.notices(t)), 0)

		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(id, 1, waypost.EnrollmentCompleted)}))
		for what, call := range f.enrollmentVerbs() {
			_, err := call(t.Context(), scope, id)
			wantCode(t, err, waypost.CodeConflict)
			for _, sc := range foreign {
				_, err := call(t.Context(), sc, ids[1])
				wantCode(t, err, waypost.CodeNotFound)
			}
			for _, unknown := range []string{"", "enr_\x00", "enr_none", waypost.NewID(waypost.PrefixEnrollment, f.clock.Now())} {
				if _, err := call(t.Context(), scope, unknown); waypost.CodeOf(err) != waypost.CodeNotFound {
					t.Fatalf("%s of %q: %v", what, unknown, err)
				}
			}
		}
		equal(t, "completed", f.status(t, id), waypost.EnrollmentCompleted)
		equal(t, "untouched", f.status(t, ids[1]), waypost.EnrollmentRunning)
	}},
	{"cancel an enrollment", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		workflow, ids := f.started(t, journey, 2)
		id := ids[0]
		// One delivery of each kind: under way, waiting, deferred, final.
		var keys []waypost.Touchpoint
		for visit := range 4 {
			key, o := f.touchpoint(t, id, journey)
			key.Visit = visit + 1
			o.Touchpoint = key
			keys = append(keys, key)
			if visit == 2 {
				ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{{Touchpoint: key, Scope: scope, Delivery: o.Delivery, Reason: waypost.DeferRateLimit, At: f.clock.Now(), Until: f.clock.Now().Add(time.Hour)}}))
				continue
			}
			f.open(t, o)
		}
		f.record(t, f.retrying(keys[1], 1))
		final := f.succeeded(keys[3], 1)
		final.Progress = nil
		f.record(t, final)
		must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, id))
		f.clock.Advance(time.Minute)
		at := f.clock.Now()
		for range 2 {
			e := must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, id))
			equal(t, "status", e.Status, waypost.EnrollmentCanceled)
			equal(t, "ended at", *e.EndedAt, at)
			f.clock.Advance(time.Minute)
		}
		var got []waypost.DeliveryStatus
		for _, key := range keys {
			d, _, _ := f.delivery(t, key)
			got = append(got, d.Status)
			if d.Status == waypost.DeliveryCanceled && (d.NextAttemptAt != nil || d.DeferredReason != "") {
				t.Fatalf("canceled: %+v", d)
			}
		}
		equal(t, "deliveries", got, []waypost.DeliveryStatus{waypost.DeliveryPending, waypost.DeliveryCanceled, waypost.DeliveryCanceled, waypost.DeliverySucceeded})
		if since, canceled := f.controls(t, id).Canceled(); !canceled || !since.Equal(at) {
			t.Fatalf("controls: %+v", f.controls(t, id))
		}
		equal(t, "notices", f.notices(t), []waypost.Notice{{WorkflowID: workflow, EnrollmentID: id}})
		for _, verb := range []string{"pause", "resume"} {
			_, err := f.enrollmentVerbs()[verb](t.Context(), scope, id)
			wantCode(t, err, waypost.CodeConflict)
		}
		equal(t, "the other one", f.status(t, ids[1]), waypost.EnrollmentRunning)

		// What was under way ends, and its retry is canceled by the workflow.
		late := f.retrying(keys[0], 1)
		p := f.progress(id, 9, waypost.EnrollmentWaiting)
		late.Progress = &p
		f.record(t, late)
		for range 2 {
			ok(t, f.CancelDeliveries(t.Context(), append(keys, waypost.Touchpoint{EnrollmentID: "enr_none", Visit: 1})))
		}
		d, _, _ := f.delivery(t, keys[0])
		equal(t, "late", d.Status, waypost.DeliveryCanceled)
		d, _, _ = f.delivery(t, keys[3])
		equal(t, "final", d.Status, waypost.DeliverySucceeded)
		equal(t, "still", f.status(t, id), waypost.EnrollmentCanceled)
		ok(t, f.CancelDeliveries(t.Context(), nil))
	}},
	{"cancel frees the entry", func(t *testing.T, f *fixture) {
		e := waypost.Enrollment{JourneyID: f.journey(t), Version: 1, LeadsID: f.lead(t)}
		for range 3 {
			id := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, waypost.Reentry{})).ID
			for range 2 {
				must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, id))
				ok(t, f.CancelEnrollments(t.Context(), []string{id, id, "enr_none"}))
			}
		}
		must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, waypost.Reentry{}))
		_, err := f.Enroll(t.Context(), scope, e, waypost.Reentry{})
		wantCode(t, err, waypost.CodeConflict)
		c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		equal(t, "who is claimed", len(c.Members), 1) // those canceled before never start
		equal(t, "notices", len(f.notices(t)), 0)
	}},
	{"journey", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		workflow, ids := f.started(t, journey, 1)
		paused := must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		equal(t, "answer", paused.Status, waypost.JourneyPaused)
		equal(t, "stored", must[waypost.Journey](t)(f.Journey(t.Context(), scope, journey)), paused)
		during := f.enroll(t, journey, 1)[0] // those that come during the pause too
		for _, id := range []string{ids[0], during} {
			equal(t, "status", f.status(t, id), waypost.EnrollmentPaused)
			equal(t, "holds", f.controls(t, id).Holds(), []string{journey})
		}
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		equal(t, "another journey", f.status(t, f.enroll(t, f.journey(t), 1)[0]), waypost.EnrollmentPending)
		for _, w := range []string{workflow, "coh_other", workflow} {
			equal(t, "held", must[[]string](t)(f.Hold(t.Context(), w, []string{journey, "jrn_none"})), []string{journey})
		}
		equal(t, "not of all", must[[]string](t)(f.Hold(t.Context(), workflow, nil)), []string(nil))
		f.clock.Advance(time.Second)
		equal(t, "active", must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, journey, false)).Status, waypost.JourneyActive)
		f.clock.Advance(time.Second)
		must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, journey, true))
		notices := f.notices(t)
		slices.SortFunc(notices, func(a, b waypost.Notice) int { return len(a.WorkflowID) - len(b.WorkflowID) })
		equal(t, "notices", notices, []waypost.Notice{{WorkflowID: "coh_other"}, {WorkflowID: workflow}})
		equal(t, "shift", f.controls(t, ids[0])[0].Shift, false)

		draft := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "Draft", []byte(`{}`))).ID
		for _, call := range f.journeyVerbs() {
			_, err := call(t.Context(), scope, draft)
			wantCode(t, err, waypost.CodeConflict)
			_, err = call(t.Context(), foreign[0], journey)
			wantCode(t, err, waypost.CodeNotFound)
			_, err = call(t.Context(), scope, "jrn_none")
			wantCode(t, err, waypost.CodeNotFound)
		}
	}},
	{"launch", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		launch, cohorts := f.enrolled(t, journey, 2)
		id := cohorts[0].Members[0].EnrollmentID
		for range 2 {
			equal(t, "paused", must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, launch)).Status, waypost.LaunchPaused)
		}
		equal(t, "enrollment", f.status(t, id), waypost.EnrollmentPaused)
		equal(t, "of no launch", f.status(t, f.enroll(t, journey, 1)[0]), waypost.EnrollmentPending)
		equal(t, "held", must[[]string](t)(f.Hold(t.Context(), cohorts[0].ID, f.controls(t, id).Holds())), []string{launch})
		for range 2 {
			equal(t, "resumed", must[waypost.Launch](t)(f.ResumeLaunch(t.Context(), scope, launch, true)).Status, waypost.LaunchRunning)
		}
		f.clock.Advance(time.Second)
		equal(t, "notices", f.notices(t), []waypost.Notice{{WorkflowID: cohorts[0].ID}})
		for _, call := range f.launchVerbs() {
			for _, sc := range foreign {
				_, err := call(t.Context(), sc, launch)
				wantCode(t, err, waypost.CodeNotFound)
			}
			_, err := call(t.Context(), scope, "lch_\x00")
			wantCode(t, err, waypost.CodeNotFound)
		}
		var ends []waypost.Progress
		for _, m := range cohorts[0].Members {
			ends = append(ends, f.progress(m.EnrollmentID, 1, waypost.EnrollmentCompleted))
		}
		ok(t, f.RecordProgress(t.Context(), ends))
		f.clock.Advance(time.Second)
		for _, call := range f.launchVerbs() {
			_, err := call(t.Context(), scope, launch)
			wantCode(t, err, waypost.CodeConflict)
		}
		// A cancel of the journey does not touch what has completed.
		must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, journey))
		equal(t, "completed", must[waypost.Launch](t)(f.Launch(t.Context(), scope, launch)).Status, waypost.LaunchCompleted)
		equal(t, "enrollment", f.status(t, id), waypost.EnrollmentCompleted)
	}},
	{"pauses of two levels", func(t *testing.T, f *fixture) {
		// The launch is paused from 10 to 30 and resumed with shift, its journey from 20
		// to 50 and resumed with skip, one enrollment from 40 to 60 with shift.
		journey := f.journey(t)
		launch, cohorts := f.enrolled(t, journey, 2)
		id, other := cohorts[0].Members[0].EnrollmentID, cohorts[0].Members[1].EnrollmentID
		start := f.clock.Now()
		var heldBy []string
		at := func(minute int, call func()) {
			t.Helper()
			f.clock.Advance(start.Add(time.Duration(minute) * time.Minute).Sub(f.clock.Now()))
			call()
			heldBy = append(heldBy, fmt.Sprint(len(must[[]string](t)(f.Hold(t.Context(), cohorts[0].ID, f.controls(t, id).Holds()))), len(f.controls(t, other).Holds())))
		}
		at(10, func() { must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, launch)) })
		at(20, func() { must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey)) })
		at(30, func() { must[waypost.Launch](t)(f.ResumeLaunch(t.Context(), scope, launch, true)) })
		equal(t, "signaled by the launch", len(f.notices(t)), 0) // notices wait for others
		at(40, func() { must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, id)) })
		at(50, func() { must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, journey, false)) })
		at(60, func() { must[waypost.Enrollment](t)(f.ResumeEnrollment(t.Context(), scope, id, true)) })
		equal(t, "held by", heldBy, []string{"1 1", "2 2", "1 1", "2 1", "1 0", "0 0"})
		f.clock.Advance(time.Second)
		equal(t, "notices", f.notices(t), []waypost.Notice{{WorkflowID: cohorts[0].ID, EnrollmentID: id}, {WorkflowID: cohorts[0].ID}, {WorkflowID: cohorts[0].ID}})
		planned := start.Add(45 * time.Minute)
		equal(t, "due", f.controls(t, id).Due(start, planned), planned.Add(40*time.Minute))
		equal(t, "due of the other", f.controls(t, other).Due(start, planned), planned.Add(20*time.Minute))
		equal(t, "paused time", f.controls(t, id).PausedTime(start, f.clock.Now()), 50*time.Minute)
	}},
	{"paused journey and launch", func(t *testing.T, f *fixture) {
		// A launch is held by its own pause and its journey's; the last resume lets it go.
		journey := f.journey(t)
		l := f.launch(t, journey, f.lead(t), f.lead(t))
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, l.ID))
		step := must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 1))
		slices.Sort(step.Held)
		equal(t, "held", step, waypost.LaunchStep{Held: []string{journey, l.ID}})
		must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, journey, false))
		equal(t, "signaled", f.notices(t), []waypost.Notice{{WorkflowID: l.ID}})
		equal(t, "still held", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 1)), waypost.LaunchStep{Held: []string{l.ID}})
		must[waypost.Launch](t)(f.ResumeLaunch(t.Context(), scope, l.ID, false))
		equal(t, "signaled", f.notices(t), []waypost.Notice{{WorkflowID: l.ID}})
		equal(t, "goes on", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 1)).Enrolled, 1)
	}},
	{"cancel a launch", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		const enrolled = 2*waypost.MaxLaunchCohort + 10
		leads := make([]int64, enrolled+40)
		for i := range leads {
			leads[i] = f.lead(t)
		}
		l := f.launch(t, journey, leads...)
		must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, enrolled))
		cohorts := must[[]waypost.Cohort](t)(f.ClaimLaunchCohorts(t.Context(), 1))
		ok(t, f.MarkStarted(t.Context(), cohorts[0].ID))
		done := cohorts[0].Members[0].EnrollmentID
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(done, 1, waypost.EnrollmentCompleted)}))
		bystander := f.enroll(t, journey, 1)[0]
		// Paused and held: the cancel tells the workflows nevertheless.
		must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, l.ID))
		equal(t, "held", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 1)).Held, []string{l.ID})
		f.clock.Advance(time.Second)
		at := f.clock.Now()
		for range 2 {
			got := must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, l.ID))
			equal(t, "status", got.Status, waypost.LaunchCanceled)
			equal(t, "ended at", *got.EndedAt, at)
			f.clock.Advance(time.Second)
		}
		equal(t, "launch is told", f.notices(t), []waypost.Notice{{WorkflowID: l.ID}})
		equal(t, "enrolls nobody", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), l.ID, 10)), waypost.LaunchStep{Canceled: true})
		for _, verb := range []string{"pause", "resume"} {
			_, err := f.launchVerbs()[verb](t.Context(), scope, l.ID)
			wantCode(t, err, waypost.CodeConflict)
		}
		id := cohorts[0].Members[1].EnrollmentID
		equal(t, "before the sweep", f.status(t, id), waypost.EnrollmentCanceled)
		_, err := f.PauseEnrollment(t.Context(), scope, id)
		wantCode(t, err, waypost.CodeConflict)

		if steps := f.sweep(t, 7); steps < (enrolled-1)/7 {
			t.Fatalf("swept in %d steps", steps)
		}
		e := f.enrollment(t, id)
		equal(t, "after it", e.Status, waypost.EnrollmentCanceled)
		equal(t, "ended at", *e.EndedAt, at)
		equal(t, "completed", f.status(t, done), waypost.EnrollmentCompleted)
		equal(t, "bystander", f.status(t, bystander), waypost.EnrollmentPending)
		f.clock.Advance(time.Second)
		notified := f.notices(t)
		for _, n := range notified {
			equal(t, "notice", n, waypost.Notice{WorkflowID: cohorts[0].ID}) // those that were not claimed have none
		}
		if len(notified) == 0 || len(notified) > (waypost.MaxLaunchCohort-1)/7+2 {
			t.Fatalf("%d notices", len(notified))
		}
		equal(t, "never starts", len(f.claimAll(t, 100)), 0)
		f.clock.Advance(time.Hour)
		equal(t, "stale", len(must[[]waypost.Cohort](t)(f.StaleCohorts(t.Context(), f.clock.Now(), 10))), 0)
		// All entries are free, and the bystander's only is not.
		again := f.launch(t, journey, leads...)
		step := must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), again.ID, 1000))
		equal(t, "again", step, waypost.LaunchStep{Enrolled: len(leads), Done: true})
		equal(t, "swept", f.sweep(t, 100), 1) // the second look, which finds nobody
		equal(t, "swept for good", f.sweep(t, 100), 0)
		equal(t, "progress", f.progressOf(t, l.ID).Completed, enrolled)
	}},
	{"cancel a journey", testCancelJourney},
	{"cancel while paused", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		workflow, ids := f.started(t, journey, 2)
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, ids[0]))
		equal(t, "held", len(must[[]string](t)(f.Hold(t.Context(), workflow, f.controls(t, ids[0]).Holds()))), 2)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[0]))
		f.clock.Advance(time.Second)
		equal(t, "told", f.notices(t), []waypost.Notice{{WorkflowID: workflow, EnrollmentID: ids[0]}})
		equal(t, "the other one", f.status(t, ids[1]), waypost.EnrollmentPaused)
		equal(t, "journey", must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, journey)).Status, waypost.JourneyPaused)
		f.sweep(t, 100)
		f.clock.Advance(time.Second)
		equal(t, "told", f.notices(t), []waypost.Notice{{WorkflowID: workflow}})
		equal(t, "both", f.status(t, ids[1]), waypost.EnrollmentCanceled)
	}},
	{"stored during the cancel", func(t *testing.T, f *fixture) {
		// An enrollment whose transaction ends after the sweep counts as canceled at
		// once, never runs past its first look, and is swept a minute later.
		e := waypost.Enrollment{JourneyID: f.journey(t), Version: 1, LeadsID: f.lead(t)}
		f.clock.Advance(time.Second)
		must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, e.JourneyID))
		f.sweep(t, 100)
		f.clock.Advance(-time.Second)
		id := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, waypost.Reentry{})).ID
		f.clock.Advance(time.Second)
		equal(t, "status", f.status(t, id), waypost.EnrollmentCanceled)
		equal(t, "too early", f.sweep(t, 100), 0)
		c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		ok(t, f.MarkStarted(t.Context(), c.ID))
		f.clock.Advance(time.Minute)
		equal(t, "second look", f.sweep(t, 100), 1)
		equal(t, "told", f.notices(t), []waypost.Notice{{WorkflowID: c.ID}})
		must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, waypost.Reentry{}))
		equal(t, "done", f.sweep(t, 100), 0)
	}},
	{"nothing opens", func(t *testing.T, f *fixture) {
		// Pauses of each level and cancels stop first attempts and retries right before
		// their POST; those of others do not.
		journey := f.journey(t)
		launch, cohorts := f.enrolled(t, journey, 2)
		id, bystander := cohorts[0].Members[0].EnrollmentID, f.enroll(t, f.journey(t), 1)[0]
		visit := 0
		unopened := func(id string) delivery.Opening {
			visit++
			e := f.enrollment(t, id)
			_, o := f.touchpoint(t, id, e.JourneyID)
			o.Visit, o.Delivery.LaunchID = visit, e.LaunchID
			return o
		}
		retry := unopened(id)
		f.open(t, retry)
		f.record(t, f.retrying(retry.Touchpoint, 1))
		retry.Attempt = 2
		before := f.sending(t, retry.Touchpoint)
		check := func(what string, stopped bool) {
			t.Helper()
			first, other := unopened(id), unopened(bystander)
			answer := must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), []delivery.Opening{first, other, retry}))
			equal(t, what+": of another journey", answer[other.Touchpoint].Open != nil, true)
			equal(t, what, answer[first.Touchpoint].Held, stopped)
			equal(t, what, answer[first.Touchpoint].Open == nil, stopped)
			if stopped {
				equal(t, what+": retry", answer[retry.Touchpoint].Held, true)
				equal(t, what+": untouched", f.sending(t, retry.Touchpoint), before)
			}
		}
		levels := []struct {
			what          string
			pause, resume func() error
		}{
			{"enrollment", func() error { _, err := f.PauseEnrollment(t.Context(), scope, id); return err }, func() error { _, err := f.ResumeEnrollment(t.Context(), scope, id, true); return err }},
			{"launch", func() error { _, err := f.PauseLaunch(t.Context(), scope, launch); return err }, func() error { _, err := f.ResumeLaunch(t.Context(), scope, launch, false); return err }},
			{"journey", func() error { _, err := f.PauseJourney(t.Context(), scope, journey); return err }, func() error { _, err := f.ResumeJourney(t.Context(), scope, journey, true); return err }},
		}
		for _, level := range levels {
			ok(t, level.pause())
			check(level.what, true)
		}
		for _, level := range levels {
			check("before the resume of the "+level.what, true)
			ok(t, level.resume())
		}
		must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, journey))
		check("canceled", true)
		equal(t, "another cancel", f.status(t, bystander), waypost.EnrollmentPending)
		f.sweep(t, 10)
		after := f.sending(t, retry.Touchpoint)
		equal(t, "retry", after.Status, waypost.DeliveryCanceled)
		// A journey that goes on: whoever comes after the cancel is sent to.
		f.clock.Advance(time.Millisecond)
		id = f.enroll(t, journey, 1)[0]
		retry = unopened(bystander)
		check("after the cancel", false)
	}},
	{"many neighbours", func(t *testing.T, f *fixture) {
		// Enrollments of one journey between which others were canceled one by one.
		journey, other := f.journey(t), f.journey(t)
		first := f.enroll(t, journey, 2)
		ok(t, f.CancelEnrollments(t.Context(), f.enroll(t, other, 250)))
		last := f.enroll(t, journey, 2)
		must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, first[1]))
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, last[1]))
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		of := waypost.ControlTargets{JourneyID: journey, EnrollmentIDs: append(first, last...)}
		got := map[string]int{}
		for id, controls := range must[map[string]waypost.Controls](t)(f.Controls(t.Context(), of)) {
			got[id] = len(controls)
		}
		equal(t, "controls", got, map[string]int{first[0]: 1, first[1]: 2, last[0]: 1, last[1]: 2})
		of.EnrollmentIDs = first // without neighbours
		equal(t, "first two", len(must[map[string]waypost.Controls](t)(f.Controls(t.Context(), of))), 2)
		of.JourneyID = other
		equal(t, "of a range", len(must[map[string]waypost.Controls](t)(f.Controls(t.Context(), of))), 1)
	}},
	{"hold against resume", testHoldAgainstResume},
	{"cancel against everything", testCancelAgainstEverything},
	{"two sweepers", func(t *testing.T, f *fixture) {
		var journeys, ids []string
		for range 3 {
			journeys = append(journeys, f.journey(t))
			ids = append(ids, f.enroll(t, journeys[len(journeys)-1], 40)...)
		}
		for _, journey := range journeys {
			must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, journey))
		}
		for _, err := range atOnce(4, func(i int) error {
			for range 60 {
				if _, err := f.SweepCanceled(t.Context(), 5+i); err != nil {
					return err
				}
			}
			return nil
		}) {
			ok(t, err)
		}
		f.sweep(t, 10)
		for id, e := range must[map[string]waypost.Enrollment](t)(f.EnrollmentsByID(t.Context(), ids)) {
			if e.Status != waypost.EnrollmentCanceled || e.EndedAt == nil {
				t.Fatalf("%s is %s", id, e.Status)
			}
		}
		if c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context())); c != nil {
			t.Fatalf("claimed %+v", c)
		}
	}},
	{"launch against cancel", func(t *testing.T, f *fixture) {
		// Steps of enrolling, the pump and two kinds of cancel at the same time: nobody
		// of the launch is left, whoever comes first.
		journey := f.journey(t)
		leads := make([]int64, 120)
		for i := range leads {
			leads[i] = f.lead(t)
		}
		for round := range 8 {
			l := f.launch(t, journey, leads...)
			errs := atOnce(5, func(i int) error {
				switch i {
				case 0, 1:
					for {
						step, err := f.EnrollAudience(t.Context(), l.ID, 7)
						if err != nil || step.Done || step.Canceled {
							return err
						}
					}
				case 2:
					for range 3 {
						cohorts, err := f.ClaimLaunchCohorts(t.Context(), 3)
						for _, c := range cohorts {
							err = errors.Join(err, f.MarkStarted(t.Context(), c.ID))
						}
						if err != nil {
							return err
						}
					}
				case 3:
					if round%2 == 0 {
						_, err := f.CancelLaunch(t.Context(), scope, l.ID)
						return err
					}
					_, err := f.CancelJourney(t.Context(), scope, journey)
					return err
				case 4:
					for range 3 {
						if _, err := f.SweepCanceled(t.Context(), 10); err != nil {
							return err
						}
					}
				}
				return nil
			})
			for _, err := range errs {
				ok(t, err)
			}
			f.sweep(t, 50)
			equal(t, "status", must[waypost.Launch](t)(f.Launch(t.Context(), scope, l.ID)).Status, waypost.LaunchCanceled)
			p := f.progressOf(t, l.ID)
			equal(t, "ended", p.Completed, p.Enrolled)
			equal(t, "skipped", p.Skipped, 0) // all entries of the round before are free
			f.clock.Advance(time.Minute)
		}
	}},
}

func (f *fixture) enrollmentVerbs() map[string]func(context.Context, waypost.Caller, string) (waypost.Enrollment, error) {
	return map[string]func(context.Context, waypost.Caller, string) (waypost.Enrollment, error){
		"pause": f.PauseEnrollment,
		"resume": func(ctx context.Context, sc waypost.Caller, id string) (waypost.Enrollment, error) {
			return f.ResumeEnrollment(ctx, sc, id, true)
		},
		"cancel": f.CancelEnrollment,
	}
}

func (f *fixture) launchVerbs() map[string]func(context.Context, waypost.Caller, string) (waypost.Launch, error) {
	return map[string]func(context.Context, waypost.Caller, string) (waypost.Launch, error){
		"pause": f.PauseLaunch,
		"resume": func(ctx context.Context, sc waypost.Caller, id string) (waypost.Launch, error) {
			return f.ResumeLaunch(ctx, sc, id, true)
		},
		"cancel": f.CancelLaunch,
	}
}

func (f *fixture) journeyVerbs() map[string]func(context.Context, waypost.Caller, string) (waypost.Journey, error) {
	return map[string]func(context.Context, waypost.Caller, string) (waypost.Journey, error){
		"pause": f.PauseJourney,
		"resume": func(ctx context.Context, sc waypost.Caller, id string) (waypost.Journey, error) {
			return f.ResumeJourney(ctx, sc, id, true)
		},
		"cancel": f.CancelJourney,
	}
}

func testCancelJourney(t *testing.T, f *fixture) {
	journey, elsewhere := f.journey(t), f.journey(t)
	old := f.enroll(t, journey, 60)
	c := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
	ok(t, f.MarkStarted(t.Context(), c.ID))
	var ends []waypost.Progress
	for _, id := range old[:55] { // most have ended long ago
		ends = append(ends, f.progress(id, 1, waypost.EnrollmentCompleted))
	}
	ok(t, f.RecordProgress(t.Context(), ends))
	pending := f.enroll(t, journey, 10)
	launch, cohorts := f.enrolled(t, journey, 3)
	waiting := f.launch(t, journey, f.lead(t))
	other := f.enroll(t, elsewhere, 1)[0]
	f.clock.Advance(time.Second)
	at := f.clock.Now()
	for range 3 {
		equal(t, "journey", must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, journey)).Status, waypost.JourneyActive)
	}
	f.clock.Advance(time.Second)
	after := f.enroll(t, journey, 1)[0]
	later := f.launch(t, journey, f.lead(t))
	must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), later.ID, 10))
	var notified []string
	for _, n := range f.notices(t) {
		notified = append(notified, n.WorkflowID)
	}
	slices.Sort(notified)
	equal(t, "launches are told once", notified, slices.Sorted(slices.Values([]string{launch, waiting.ID})))
	check := func(when string) {
		t.Helper()
		for _, id := range slices.Concat(old[55:], pending, []string{cohorts[0].Members[0].EnrollmentID}) {
			e := f.enrollment(t, id)
			equal(t, when, e.Status, waypost.EnrollmentCanceled)
			equal(t, when, *e.EndedAt, at)
		}
		equal(t, when, f.status(t, old[0]), waypost.EnrollmentCompleted)
		equal(t, when, f.status(t, after), waypost.EnrollmentPending)
		equal(t, when, f.status(t, other), waypost.EnrollmentPending)
		for _, id := range []string{launch, waiting.ID} {
			equal(t, when, must[waypost.Launch](t)(f.Launch(t.Context(), scope, id)).Status, waypost.LaunchCanceled)
		}
		equal(t, when, must[waypost.Launch](t)(f.Launch(t.Context(), scope, later.ID)).Status, waypost.LaunchRunning)
		equal(t, when, len(f.controls(t, after)), 0)
	}
	check("before the sweep")
	if steps := f.sweep(t, 2); steps < 10 {
		t.Fatalf("swept in %d steps", steps)
	}
	check("after it")
	f.clock.Advance(time.Second)
	notified = nil
	for _, n := range f.notices(t) {
		notified = append(notified, n.WorkflowID)
		equal(t, "notice", n, waypost.Notice{WorkflowID: n.WorkflowID})
	}
	slices.Sort(notified)
	equal(t, "workflows are told", slices.Compact(notified), slices.Sorted(slices.Values([]string{c.ID, cohorts[0].ID})))
	equal(t, "enrolls nobody", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), waiting.ID, 10)), waypost.LaunchStep{Canceled: true})
	next := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
	for _, m := range next.Members {
		if slices.Contains(pending, m.EnrollmentID) {
			t.Fatalf("claimed %s, which was canceled", m.EnrollmentID)
		}
	}
	f.clock.Advance(time.Minute)
	f.sweep(t, 2)
	check("after the second sweep")
	// The next cancel takes those that came since.
	must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, journey))
	f.sweep(t, 100)
	equal(t, "second cancel", f.status(t, after), waypost.EnrollmentCanceled)
	equal(t, "later launch", must[waypost.Launch](t)(f.Launch(t.Context(), scope, later.ID)).Status, waypost.LaunchCanceled)
	equal(t, "first cancel", *f.enrollment(t, pending[0]).EndedAt, at)
}

// testHoldAgainstResume lets a hold meet a resume: either the workflow is held and
// signaled, or neither.
func testHoldAgainstResume(t *testing.T, f *fixture) {
	const loops, rounds = 4, 60
	var journeys [loops]string
	for i := range loops {
		journeys[i] = f.journey(t)
	}
	held := make([]map[string]bool, loops)
	for _, err := range atOnce(loops, func(loop int) error {
		held[loop] = map[string]bool{}
		for round := range rounds {
			if _, err := f.PauseJourney(t.Context(), scope, journeys[loop]); err != nil {
				return err
			}
			var found [3][]string
			for _, err := range atOnce(4, func(i int) (err error) {
				if i == 3 {
					_, err = f.ResumeJourney(t.Context(), scope, journeys[loop], true)
					return err
				}
				found[i], err = f.Hold(t.Context(), fmt.Sprint(loop, " ", round, " ", i), []string{journeys[loop]})
				return err
			}) {
				if err != nil {
					return err
				}
			}
			for i, targets := range found {
				if len(targets) > 0 {
					held[loop][fmt.Sprint(loop, " ", round, " ", i)] = true
				}
			}
		}
		return nil
	}) {
		ok(t, err)
	}
	signaled := map[string]int{}
	for _, n := range f.notices(t) {
		signaled[n.WorkflowID]++
	}
	total := 0
	for loop := range loops {
		for workflow := range held[loop] {
			if signaled[workflow] != 1 {
				t.Errorf("workflow %s is held and was signaled %d times", workflow, signaled[workflow])
			}
			total++
		}
	}
	equal(t, "signaled", len(signaled), total)
	t.Logf("%d of %d calls held", total, 3*loops*rounds)
}

// testCancelAgainstEverything cancels enrollments in two ways while their attempts
// are opened, recorded and deferred and their progress is written: each ends once,
// frees its entry once, and nothing is left to send.
func testCancelAgainstEverything(t *testing.T, f *fixture) {
	journey := f.journey(t)
	workflow, ids := f.started(t, journey, 24)
	var openings []delivery.Opening
	var keys []waypost.Touchpoint
	for _, id := range ids {
		key, o := f.touchpoint(t, id, journey)
		openings, keys = append(openings, o), append(keys, key)
	}
	for _, err := range atOnce(7, func(i int) error {
		for round := range 6 {
			var err error
			switch i {
			case 0, 1:
				mine := slices.Clone(openings)
				if i == 1 {
					slices.Reverse(mine)
				}
				_, err = f.OpenAttempts(t.Context(), mine)
			case 2:
				var records []delivery.AttemptRecord
				for _, key := range keys[round*4 : round*4+4] {
					r := f.retrying(key, 1)
					p := f.progress(key.EnrollmentID, 1, waypost.EnrollmentRunning)
					r.Progress, r.Delivery = &p, openings[slices.Index(keys, key)].Delivery
					records = append(records, r)
				}
				err = f.RecordAttempts(t.Context(), records)
			case 3:
				var deferrals []delivery.Deferral
				for j := len(keys) - 1; j >= 0; j-- {
					p := f.progress(ids[j], 2, waypost.EnrollmentRunning)
					deferrals = append(deferrals, delivery.Deferral{
						Touchpoint: keys[j], Scope: scope, Delivery: openings[j].Delivery, Reason: waypost.DeferRateLimit,
						At: f.clock.Now(), Until: f.clock.Now().Add(time.Hour), Progress: &p,
					})
				}
				err = f.RecordDeferrals(t.Context(), deferrals)
			case 4:
				var batch []waypost.Progress
				for _, id := range ids {
					batch = append(batch, f.progress(id, 3+round, waypost.EnrollmentWaiting))
				}
				err = f.RecordProgress(t.Context(), batch)
			case 5:
				if round == 2 {
					_, err = f.CancelJourney(t.Context(), scope, journey)
				} else if round > 2 {
					_, err = f.SweepCanceled(t.Context(), 5)
				}
			case 6:
				for _, id := range ids[round*4 : round*4+3] {
					if _, err = f.CancelEnrollment(t.Context(), scope, id); err != nil {
						break
					}
				}
			}
			if err != nil {
				return fmt.Errorf("part %d: %w", i, err)
			}
		}
		return nil
	}) {
		ok(t, err)
	}
	f.sweep(t, 100)
	ok(t, f.CancelDeliveries(t.Context(), keys))
	sendings := must[map[waypost.Touchpoint]delivery.Sending](t)(f.Sendings(t.Context(), keys))
	for i, id := range ids {
		e := f.enrollment(t, id)
		equal(t, "status", e.Status, waypost.EnrollmentCanceled)
		s, sent := sendings[keys[i]]
		if sent && s.Open == nil && s.Status != waypost.DeliveryCanceled {
			t.Fatalf("delivery of %s: %+v", id, s)
		}
		again := waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: e.LeadsID, EntryKey: e.EntryKey}
		must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, again, waypost.Reentry{}))
		_, err := f.Enroll(t.Context(), scope, again, waypost.Reentry{})
		wantCode(t, err, waypost.CodeConflict)
	}
	f.clock.Advance(time.Second)
	for _, n := range f.notices(t) {
		equal(t, "workflow", n.WorkflowID, workflow)
	}
}
