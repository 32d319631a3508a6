package storetest

import (
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

var enrollmentTests = []test{
	{"round trip", func(t *testing.T, f *fixture) {
		journey, lead := f.journey(t), f.lead(t)
		in := waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead, AppID: "app_1", EntryKey: "k'?", Params: map[string]any{"a": 1.0, "b": "x"}}
		e := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, in, waypost.Reentry{}))
		want := in
		want.ID, want.Status, want.CreatedAt, want.Entry.Kind = e.ID, waypost.EnrollmentPending, f.clock.Now(), waypost.EntryAPI
		equal(t, "enrolled", e, want)
		got, entries, err := f.Enrollment(t.Context(), scope, e.ID)
		ok(t, err)
		equal(t, "read", got, want)
		equal(t, "timeline", len(entries), 0)
		equal(t, "by id", must[map[string]waypost.Enrollment](t)(f.EnrollmentsByID(t.Context(), []string{e.ID, "enr_none"})), map[string]waypost.Enrollment{e.ID: want})
		for _, sc := range foreign {
			_, _, err := f.Enrollment(t.Context(), sc, e.ID)
			wantCode(t, err, waypost.CodeNotFound)
		}
	}},
	{"unknown", func(t *testing.T, f *fixture) {
		journey, lead := f.journey(t), f.lead(t)
		for _, e := range []waypost.Enrollment{
			{JourneyID: journey, Version: 1, LeadsID: lead + 1},
			{JourneyID: journey, Version: 2, LeadsID: lead},
			{JourneyID: "jrn_none", Version: 1, LeadsID: lead},
		} {
			_, err := f.Enroll(t.Context(), scope, e, waypost.Reentry{})
			wantCode(t, err, waypost.CodeNotFound)
		}
		for _, sc := range foreign {
			_, err := f.Enroll(t.Context(), sc, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead}, waypost.Reentry{})
			wantCode(t, err, waypost.CodeNotFound)
		}
		_, err := f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead, EntryKey: "\x00"}, waypost.Reentry{})
		wantCode(t, err, waypost.CodeBadRequest)
	}},
	{"briefing", testBriefing},
	{"reentry", testReentry},
	{"decided", testDecided},
	{"born paused", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		f.clock.Advance(time.Minute)
		begin := f.clock.Now()
		id := f.enroll(t, journey, 1)[0]
		equal(t, "status", f.enrollment(t, id).Status, waypost.EnrollmentPaused)
		f.clock.Advance(time.Minute)
		must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, journey, true))
		equal(t, "resumed", f.enrollment(t, id).Status, waypost.EnrollmentPending)
		equal(t, "timeline", f.timeline(t, id), []waypost.TimelineEntry{
			{At: begin, What: waypost.WhatPaused, Reason: "journey", Version: 1},
			{At: f.clock.Now(), What: waypost.WhatResumed, Reason: "shift", Version: 1},
		})
		// Who comes after the pause has nothing of it.
		f.clock.Advance(time.Minute)
		equal(t, "later", len(f.timeline(t, f.enroll(t, journey, 1)[0])), 0)
	}},
	{"policy change", func(t *testing.T, f *fixture) {
		// Several entered under "always"; afterExit waits for the end of all of them.
		e := waypost.Enrollment{JourneyID: f.journey(t), Version: 1, LeadsID: f.lead(t)}
		first := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, waypost.Reentry{Policy: waypost.ReentryAlways}))
		second := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, waypost.Reentry{Policy: waypost.ReentryAlways}))
		for _, id := range []string{second.ID, first.ID} {
			_, err := f.Enroll(t.Context(), scope, e, waypost.Reentry{})
			wantCode(t, err, waypost.CodeConflict)
			ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(id, 1, waypost.EnrollmentCompleted)}))
		}
		must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, waypost.Reentry{}))
	}},
	{"concurrent", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		for _, policy := range []waypost.ReentryPolicy{waypost.ReentryAfterExit, waypost.ReentryNever} {
			for range 3 {
				e := waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: f.lead(t)}
				onePasses(t, atOnce(8, func(int) error {
					_, err := f.Enroll(t.Context(), scope, e, waypost.Reentry{Policy: policy})
					return err
				}))
			}
		}
		e := waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: f.lead(t)}
		for _, err := range atOnce(8, func(int) error {
			_, err := f.Enroll(t.Context(), scope, e, waypost.Reentry{Policy: waypost.ReentryAlways})
			return err
		}) {
			ok(t, err)
		}
		e.LeadsID = f.lead(t)
		onePasses(t, atOnce(8, func(int) error {
			_, err := f.Enroll(t.Context(), scope, e, waypost.Reentry{Policy: waypost.ReentryAlways, Every: waypost.Duration(time.Hour)})
			return err
		}))
	}},
}

// testDecided looks at the status and the timeline that controls give to an
// enrollment of a launch.
func testDecided(t *testing.T, f *fixture) {
	journey := f.journey(t)
	l := f.launch(t, journey, f.lead(t))
	f.run(t, l.ID, 1)
	cohort := f.claimAll(t, 1)[0]
	id := cohort.Members[0].EnrollmentID
	var want []waypost.TimelineEntry
	node := ""
	see := func(status waypost.EnrollmentStatus, what, reason string) {
		t.Helper()
		want = append(want, waypost.TimelineEntry{At: f.clock.Now(), NodeID: node, What: what, Reason: reason, Version: 1})
		equal(t, "status after "+what, f.enrollment(t, id).Status, status)
		equal(t, "timeline after "+what, f.timeline(t, id), want)
		f.clock.Advance(time.Minute)
	}
	move := func(seq int, status waypost.EnrollmentStatus) {
		t.Helper()
		p := f.progress(id, seq, status)
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{p}))
		p.Entries[0].Version = 1
		node = p.Entries[0].Next
		want = append(want, p.Entries[0])
		f.clock.Advance(time.Minute)
	}
	pauseOne := func(resume bool) {
		t.Helper()
		if resume {
			must[waypost.Enrollment](t)(f.ResumeEnrollment(t.Context(), scope, id, false))
			return
		}
		must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, id))
	}
	pauseOne(false)
	see(waypost.EnrollmentPaused, waypost.WhatPaused, "enrollment")
	pauseOne(true)
	see(waypost.EnrollmentPending, waypost.WhatResumed, "skip")
	ok(t, f.MarkStarted(t.Context(), cohort.ID))
	move(1, waypost.EnrollmentWaiting)
	must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, l.ID))
	see(waypost.EnrollmentPaused, waypost.WhatPaused, "launch")
	must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
	see(waypost.EnrollmentPaused, waypost.WhatPaused, "journey")
	must[waypost.Launch](t)(f.ResumeLaunch(t.Context(), scope, l.ID, true))
	see(waypost.EnrollmentPaused, waypost.WhatResumed, "shift")
	move(2, waypost.EnrollmentWaiting) // what was under way
	must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, l.ID))
	end := f.clock.Now()
	see(waypost.EnrollmentCanceled, waypost.WhatExited, "canceled")
	equal(t, "end", f.enrollment(t, id).EndedAt, &end)
	for more := true; more; {
		more = must[bool](t)(f.SweepCanceled(t.Context(), 10))
	}
	// What comes after the end does not belong to the enrollment.
	must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, journey, true))
	equal(t, "swept", f.enrollment(t, id).Status, waypost.EnrollmentCanceled)
	equal(t, "end when swept", f.enrollment(t, id).EndedAt, &end)
	equal(t, "timeline when swept", f.timeline(t, id), want)
}

func testReentry(t *testing.T, f *fixture) {
	day := waypost.Duration(24 * time.Hour)
	for _, c := range []struct {
		name    string
		reentry waypost.Reentry
		// Each step says whether an entry passes: at once again, after an hour, after
		// the first has ended, a day after the last entry.
		again, later, ended, nextDay bool
	}{
		{"default", waypost.Reentry{}, false, false, true, true},
		{"afterExit", waypost.Reentry{Policy: waypost.ReentryAfterExit}, false, false, true, true},
		{"never", waypost.Reentry{Policy: waypost.ReentryNever}, false, false, false, false},
		{"always", waypost.Reentry{Policy: waypost.ReentryAlways}, true, true, true, true},
		{"afterExit every day", waypost.Reentry{Policy: waypost.ReentryAfterExit, Every: day}, false, false, false, true},
		{"always every day", waypost.Reentry{Policy: waypost.ReentryAlways, Every: day}, false, false, false, true},
	} {
		e := waypost.Enrollment{JourneyID: f.journey(t), Version: 1, LeadsID: f.lead(t), EntryKey: "k"}
		var open []string
		step := func(name string, pass bool) {
			t.Helper()
			got, err := f.Enroll(t.Context(), scope, e, c.reentry)
			if pass {
				if err != nil {
					t.Fatalf("%s, %s: %v", c.name, name, err)
				}
				open = append(open, got.ID)
				return
			}
			if waypost.CodeOf(err) != waypost.CodeConflict {
				t.Fatalf("%s, %s: got %v, want a Conflict", c.name, name, err)
			}
		}
		end := func() {
			t.Helper()
			for _, id := range open {
				ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(id, 1, waypost.EnrollmentCompleted)}))
			}
			open = nil
		}
		step("first", true)
		step("again", c.again)
		f.clock.Advance(time.Hour)
		step("after an hour", c.later)
		end()
		step("after the end", c.ended)
		end()
		f.clock.Advance(24 * time.Hour)
		step("next day", c.nextDay)

		// Another entry key, another lead and another journey are free.
		e.EntryKey = "other"
		step("other key", true)
		e.EntryKey, e.LeadsID = "k", f.lead(t)
		step("other lead", true)
		e.JourneyID = f.journey(t)
		step("other journey", true)
	}
}

func testBriefing(t *testing.T, f *fixture) {
	journey, other, hook := f.journey(t), f.journey(t), f.webhook(t)
	updated := f.clock.Now()
	f.clock.Advance(time.Second)
	ids := f.enroll(t, journey, 4)
	asked := append([]string{"enr_none"}, ids[3], ids[0]) // two are between them
	leads := []int64{f.enrollment(t, ids[0]).LeadsID, f.enrollment(t, ids[3]).LeadsID}
	read := func(sc waypost.Scope, journey, hook string, ids ...string) delivery.Briefing {
		t.Helper()
		return must[delivery.Briefing](t)(f.Briefing(t.Context(), sc, hook, waypost.ControlTargets{JourneyID: journey, LaunchID: "lch_1", EnrollmentIDs: ids}))
	}
	want := delivery.Briefing{
		Enrollments:      must[map[string]waypost.Enrollment](t)(f.EnrollmentsByID(t.Context(), asked)),
		Leads:            must[map[int64]waypost.Lead](t)(f.LeadsByID(t.Context(), scope, leads)),
		WebhookUpdatedAt: updated,
	}
	equal(t, "enrollments and leads", []int{len(want.Enrollments), len(want.Leads)}, []int{2, 2})
	equal(t, "read", read(scope, journey, hook, asked...), want)

	ok(t, f.DeleteLead(t.Context(), scope, leads[1], nil))
	want.Enrollments = must[map[string]waypost.Enrollment](t)(f.EnrollmentsByID(t.Context(), asked))
	want.Leads = must[map[int64]waypost.Lead](t)(f.LeadsByID(t.Context(), scope, leads))
	got := read(scope, journey, hook, asked...)
	got.Controlled = false // deleting a lead cancels
	equal(t, "after a lead was deleted", got, want)
	for _, sc := range foreign {
		got := read(sc, journey, hook, ids[0])
		equal(t, "of another scope", []any{len(got.Leads), got.WebhookUpdatedAt}, []any{0, time.Time{}})
	}
	nobody := read(scope, other, hook, "enr_none")
	equal(t, "of nobody", []any{len(nobody.Enrollments), len(nobody.Leads), nobody.WebhookUpdatedAt, nobody.Controlled}, []any{0, 0, updated, false})

	f.clock.Advance(time.Second)
	must[waypost.Webhook](t)(f.UpdateWebhook(t.Context(), scope, hook, func(w *waypost.Webhook) error { w.Name = "renamed"; return nil }))
	equal(t, "the webhook was changed", read(scope, journey, hook, ids[0]).WebhookUpdatedAt, f.clock.Now())
	equal(t, "there is no such webhook", read(scope, journey, "whk_none", ids[0]).WebhookUpdatedAt, time.Time{})

	must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, ids[2]))
	equal(t, "another is controlled", read(scope, journey, hook, ids[0]).Controlled, false)
	equal(t, "it is controlled", read(scope, journey, hook, ids[2]).Controlled, true)
	must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, other))
	must[waypost.Journey](t)(f.ResumeJourney(t.Context(), scope, other, false))
	equal(t, "the journey was paused", read(scope, other, hook, f.enroll(t, other, 1)...).Controlled, true)
	launch, cohorts := f.enrolled(t, journey, 1)
	must[waypost.Launch](t)(f.PauseLaunch(t.Context(), scope, launch))
	of := waypost.ControlTargets{JourneyID: journey, LaunchID: launch, EnrollmentIDs: []string{cohorts[0].Members[0].EnrollmentID}}
	equal(t, "the launch is paused", must[delivery.Briefing](t)(f.Briefing(t.Context(), scope, hook, of)).Controlled, true)
}
