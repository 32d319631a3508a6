package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
)

// goalTotals decides for journeys whose goal is an event with a total.
type goalTotals struct{}

func (goalTotals) Converts(v waypost.JourneyVersion, e waypost.Enrollment, lead waypost.Lead, event waypost.Event) (bool, waypost.Amount, error) {
	if lead.LeadsID != e.LeadsID || event.LeadsID != e.LeadsID || e.JourneyID != v.JourneyID {
		return false, 0, fmt.Errorf("enrollment %s, lead %d, event of %d, journey %s", e.ID, lead.LeadsID, event.LeadsID, v.JourneyID)
	}
	total, _ := event.Properties["total"].(float64)
	return total > 0, waypost.AmountOf(total), nil
}

// goalWithin is the time of the goals of tests.
const goalWithin = 90 * time.Minute

// defined makes a journey with versions of these definitions.
func (f *fixture) defined(t testing.TB, definitions ...string) string {
	t.Helper()
	j := must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "J", []byte(definitions[0])))
	for i, definition := range definitions {
		_, err := f.PublishJourney(t.Context(), scope, j.ID, waypost.Publication{Name: "J", Hash: fmt.Sprint("hash ", i), Definition: []byte(definition)})
		ok(t, err)
	}
	return j.ID
}

const withGoal = `{"name":"J","goal":{"event":"buy","within":"90m"}}`

// withGoal makes a journey with two versions that have a goal; "leave" ends enrollments of the second.
func (f *fixture) withGoal(t testing.TB) string {
	t.Helper()
	return f.defined(t, withGoal, `{"name":"J","exitOn":[{"event":"leave"}],"goal":{"event":"buy","within":"1h30m"}}`)
}

// enter enrolls a lead as the API does.
func (f *fixture) enter(t testing.TB, journey string, version int, lead int64) waypost.Enrollment {
	t.Helper()
	return must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: version, LeadsID: lead, AppID: "app_1"}, waypost.Reentry{}))
}

// buy accepts an event of the goal.
func (f *fixture) buy(t testing.TB, lead int64, total float64) {
	t.Helper()
	e := waypost.Event{EventID: waypost.NewID("evt_", f.clock.Now()), Name: "buy", LeadsID: lead, Properties: map[string]any{"total": total}}
	equal(t, "stored", must[bool](t)(f.AcceptEvent(t.Context(), scope, e)), true)
}

// groups makes leads until so many are in the control group of that share and so many are not.
func (f *fixture) groups(t testing.TB, journey string, share float64, n int) (held, others []int64) {
	t.Helper()
	for len(held) < n || len(others) < n {
		lead := f.lead(t)
		if waypost.HeldOut(journey, lead, share) {
			held = append(held, lead)
		} else {
			others = append(others, lead)
		}
	}
	return held[:n], others[:n]
}

func counts(enrollments, converted int, worth float64) waypost.GoalCounts {
	return waypost.GoalCounts{GoalSum: waypost.GoalSum{Leads: enrollments, Converted: converted, Worth: waypost.AmountOf(worth)}, Enrollments: enrollments}
}

// twice is counts of leads that entered twice.
func twice(leads, converted int, worth float64) waypost.GoalCounts {
	c := counts(leads, converted, worth)
	c.Enrollments = 2 * leads
	return c
}

// allTime are counts of all time, without what is open.
func allTime(t waypost.GoalTally) waypost.GoalCounts {
	counts := t.Since(time.Time{})
	counts.Open = 0
	return counts
}

var goalTests = []test{
	{"control group", func(t *testing.T, f *fixture) {
		// Whatever way they enter, the same leads are held out.
		journey := f.defined(t, `{"name":"J","controlGroup":0.4}`)
		held, others := f.groups(t, journey, 0.4, 2)
		e, claimed, err := f.EnrollClaimed(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: held[0], AppID: "app_1"}, waypost.Reentry{Policy: waypost.ReentryNever})
		ok(t, err)
		if claimed != nil || e.Status != waypost.EnrollmentHeldOut || e.EndedAt == nil || !e.EndedAt.Equal(e.CreatedAt) {
			t.Fatalf("held out: %+v, claimed %v", e, claimed)
		}
		equal(t, "as it is read", f.enrollment(t, e.ID).Status, waypost.EnrollmentHeldOut)
		equal(t, "its timeline", f.timeline(t, e.ID), []waypost.TimelineEntry{{At: e.CreatedAt, What: waypost.WhatExited, Reason: "control group", Version: 1}})
		_, err = f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: held[0], AppID: "app_1"}, waypost.Reentry{Policy: waypost.ReentryNever})
		wantCode(t, err, waypost.CodeConflict)
		_, err = f.CancelEnrollment(t.Context(), scope, e.ID)
		wantCode(t, err, waypost.CodeConflict)
		f.enter(t, journey, 1, held[0]) // its time in the journey is over

		running := f.enter(t, journey, 1, others[0])
		equal(t, "another lead", running.Status, waypost.EnrollmentPending)
		cohort := must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		equal(t, "to be started", len(cohort.Members), 1)
		ok(t, f.MarkStarted(t.Context(), cohort.ID))

		b := waypost.OnwardBatch{Scope: scope, JourneyID: journey, Into: journey, Version: 1, Reentry: waypost.Reentry{Policy: waypost.ReentryAlways}}
		for i, lead := range []int64{held[1], others[1]} {
			b.Items = append(b.Items, waypost.Onward{Touchpoint: waypost.Touchpoint{EnrollmentID: running.ID, Visit: 10 + i}, LeadsID: lead})
		}
		for range 2 {
			results := must[map[waypost.Touchpoint]waypost.OnwardResult](t)(f.EnrollOnward(t.Context(), b))
			if r := results[b.Items[0].Touchpoint]; !r.HeldOut || f.enrollment(t, r.EnrollmentID).Status != waypost.EnrollmentHeldOut {
				t.Fatalf("by an enroll node: %+v", r)
			}
			if r := results[b.Items[1].Touchpoint]; r.HeldOut || f.enrollment(t, r.EnrollmentID).Status != waypost.EnrollmentPending {
				t.Fatalf("by an enroll node: %+v", r)
			}
		}

		// A launch holds out the journey's group, and its own if that is larger.
		heldOut, free := f.groups(t, journey, 0.4, 1)
		own := slices.Concat(heldOut, free)
		for !waypost.HeldOut(journey, own[len(own)-1], 0.7) || waypost.HeldOut(journey, own[len(own)-1], 0.4) {
			own = append(own, f.lead(t))
		}
		for _, share := range []float64{0.1, 0.7} {
			l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
				JourneyID: journey, Version: 1, AppID: "app_1", ControlGroup: share, Audience: waypost.Audience{LeadsIDs: own},
			}))
			f.run(t, l.ID, 2)
			var want []int64
			for _, lead := range own {
				if waypost.HeldOut(journey, lead, max(share, 0.4)) {
					want = append(want, lead)
				}
			}
			list, _, err := f.ListEnrollments(t.Context(), scope, waypost.EnrollmentFilter{LaunchID: l.ID, Statuses: []waypost.EnrollmentStatus{waypost.EnrollmentHeldOut}}, waypost.Page{})
			ok(t, err)
			got := mapLeads(list)
			slices.Sort(got)
			slices.Sort(want)
			equal(t, fmt.Sprint("of a launch with ", share), got, want)
			p := f.progressOf(t, l.ID)
			equal(t, "its progress", []int{p.Total, p.HeldOut, p.Enrolled + p.Skipped}, []int{len(own), len(want), len(own) - len(want)})
			f.sweepEnded(t)
		}
		c := f.statistics(t, journey)[1]
		if allTime(c.Goal) != (waypost.GoalCounts{}) || allTime(c.Control) != (waypost.GoalCounts{}) {
			t.Errorf("without a goal: %+v", c)
		}
	}},
	{"conversions", func(t *testing.T, f *fixture) {
		journey := f.defined(t, withGoal, `{"name":"J"}`, `{"name":"J","controlGroup":0.5,"goal":{"event":"buy"}}`)
		lead, other := f.lead(t), f.lead(t)
		f.buy(t, lead, 7) // before it entered
		one := f.enter(t, journey, 1, lead)
		f.clock.Advance(time.Minute)
		f.buy(t, lead, 0) // the condition is false
		f.buy(t, other, 3)
		f.accept(t, lead, "look", "look")
		equal(t, "so far", allTime(f.statistics(t, journey)[1].Goal), counts(1, 0, 0))
		f.buy(t, lead, 2.25)
		f.buy(t, lead, 1)
		equal(t, "bought twice", allTime(f.statistics(t, journey)[1].Goal), counts(1, 1, 3.25))
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, one.ID)) // it counts nevertheless
		f.clock.Advance(time.Minute)
		two := f.enter(t, journey, 1, lead)
		f.buy(t, lead, 10)
		equal(t, "the lead counts by its first entry", allTime(f.statistics(t, journey)[1].Goal), twice(1, 1, 13.25))
		f.clock.Advance(goalWithin - 2*time.Minute)
		f.buy(t, lead, 1) // the last moment of the first one
		f.clock.Advance(time.Microsecond)
		f.buy(t, lead, 1)
		equal(t, "at the end of the first one's time", allTime(f.statistics(t, journey)[1].Goal), twice(1, 1, 14.25))
		f.clock.Advance(time.Hour)
		f.buy(t, lead, 100)
		conversions := must[map[string]waypost.Conversion](t)(f.Conversions(t.Context(), []string{one.ID, two.ID, "enr_none"}))
		equal(t, "of both", len(conversions), 2)
		if c := conversions[one.ID]; c.Worth != waypost.AmountOf(14.25) || !c.At.Equal(one.CreatedAt.Add(time.Minute)) {
			t.Errorf("the first one: %+v", c)
		}

		// The goal of the version that an enrollment began with.
		f.enter(t, journey, 2, other)
		f.buy(t, other, 1)
		equal(t, "a version without a goal", len(f.statistics(t, journey)), 2)
		held, others := f.groups(t, journey, 0.5, 2)
		for _, lead := range slices.Concat(held, others) {
			f.enter(t, journey, 3, lead)
		}
		f.buy(t, held[0], 4)
		f.clock.Advance(waypost.DefaultWithin)
		f.buy(t, others[0], 5)
		f.buy(t, others[1], 6)
		f.clock.Advance(time.Microsecond)
		f.buy(t, held[1], 7)
		for range 2 {
			c := f.statistics(t, journey)[3]
			equal(t, "with a control group", []waypost.GoalCounts{allTime(c.Goal), allTime(c.Control)}, []waypost.GoalCounts{counts(2, 2, 11), counts(2, 1, 4)})
			f.fold(t, 3)
		}
	}},
	{"import of conversions", func(t *testing.T, f *fixture) {
		journey := f.withGoal(t)
		var leads []int64
		for range 3 {
			leads = append(leads, f.lead(t))
			f.enter(t, journey, 1, leads[len(leads)-1])
		}
		rows := func(yield func(waypost.EventRow, error) bool) {
			for i := range 30 {
				e := waypost.Event{EventID: fmt.Sprint("e", i%20), Name: []string{"buy", "look"}[i%2], LeadsID: leads[i%2], Properties: map[string]any{"total": 1.0}}
				if !yield(waypost.EventRow{Line: i + 1, Event: e}, nil) {
					return
				}
			}
		}
		for range 2 {
			must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, rows))
			equal(t, "counted", allTime(f.statistics(t, journey)[1].Goal), counts(3, 1, 10))
		}
	}},
	{"bought while they enter", func(t *testing.T, f *fixture) {
		// Each event comes before the enrollment, or finds it.
		journey := f.withGoal(t)
		for range 10 {
			lead := f.lead(t)
			f.clock.Advance(time.Second)
			var e waypost.Enrollment
			errs := atOnce(2, func(i int) (err error) {
				if i == 0 {
					e, err = f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead, AppID: "app_1"}, waypost.Reentry{})
					return err
				}
				_, err = f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: fmt.Sprint("e", lead), Name: "buy", LeadsID: lead, Properties: map[string]any{"total": 1.0}})
				return err
			})
			ok(t, errs[0])
			ok(t, errs[1])
			before := allTime(f.statistics(t, journey)[1].Goal)
			f.buy(t, lead, 1)
			after := allTime(f.statistics(t, journey)[1].Goal)
			known := must[map[string]waypost.Conversion](t)(f.Conversions(t.Context(), []string{e.ID}))[e.ID]
			equal(t, "counted", []int{before.Enrollments, after.Converted}, []int{after.Enrollments, after.Enrollments})
			if after.Worth-before.Worth != waypost.AmountOf(1) || known.Worth != waypost.AmountOf(1) && known.Worth != waypost.AmountOf(2) {
				t.Fatalf("before %+v, after %+v, known %+v", before, after, known)
			}
		}
	}},
	{"test leads", func(t *testing.T, f *fixture) {
		// They are never held out, and nothing counts.
		journey := f.defined(t, `{"name":"J","controlGroup":0.9,"goal":{"event":"buy"}}`)
		var leads []int64
		for len(leads) < 3 {
			lead := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Ada", Test: true}, nil)).LeadsID
			if waypost.HeldOut(journey, lead, 0.9) {
				leads = append(leads, lead)
			}
		}
		one := f.enter(t, journey, 1, leads[0])
		must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		b := waypost.OnwardBatch{Scope: scope, JourneyID: journey, Into: journey, Version: 1, Items: []waypost.Onward{
			{Touchpoint: waypost.Touchpoint{EnrollmentID: one.ID, Visit: 2}, LeadsID: leads[1]},
		}}
		must[map[waypost.Touchpoint]waypost.OnwardResult](t)(f.EnrollOnward(t.Context(), b))
		f.run(t, f.launch(t, journey, leads...).ID, 10)
		list, _, err := f.ListEnrollments(t.Context(), scope, waypost.EnrollmentFilter{JourneyID: journey}, waypost.Page{})
		ok(t, err)
		equal(t, "enrollments", len(list), 3)
		f.take(t, journey, nil, list, 0)
		for _, e := range list {
			equal(t, "status", e.Status, waypost.EnrollmentPending)
			f.buy(t, e.LeadsID, 3)
		}
		equal(t, "counted", len(f.statistics(t, journey)), 0)
		equal(t, "conversions", len(must[map[string]waypost.Conversion](t)(f.Conversions(t.Context(), []string{one.ID}))), 0)
	}},
	{"begun by events", func(t *testing.T, f *fixture) {
		// The event that begins an enrollment does not convert it, one after it in the same
		// import does; who is held out is so however they enter.
		journey := f.beginning(t)
		version := f.republish(t, journey, `{"least":50,"controlGroup":0.5,"goal":{"event":"cart"}}`, cart)
		held, others := f.groups(t, journey, 0.5, 2)
		leads := []int64{held[0], others[0]}
		rows := func(yield func(waypost.EventRow, error) bool) {
			for i, lead := range append(leads, leads...) {
				if !yield(waypost.EventRow{Line: i + 1, Event: cartOf(lead, fmt.Sprint("e", i), 60.0, fmt.Sprint(i))}, nil) {
					return
				}
			}
		}
		for range 2 {
			must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, rows))
			list := f.enrollments(t, journey)
			equal(t, "enrollments", len(list), 4)
			for _, e := range list {
				equal(t, "held out", e.Status == waypost.EnrollmentHeldOut, e.LeadsID == held[0])
			}
			c := f.statistics(t, journey)[version]
			equal(t, "counted", []int{c.Entered, c.HeldOut, c.Begun[waypost.EntryEvent]}, []int{2, 2, 2})
			equal(t, "for the goal", []waypost.GoalCounts{allTime(c.Goal), allTime(c.Control)}, []waypost.GoalCounts{twice(1, 1, 60), twice(1, 1, 60)})
		}
		_, claimed, err := f.AcceptEventClaimed(t.Context(), scope, cartOf(held[1], "a", 60.0, "a"))
		ok(t, err)
		equal(t, "claimed of the control group", len(claimed), 0)
		_, claimed, err = f.AcceptEventClaimed(t.Context(), scope, cartOf(others[1], "b", 60.0, "b"))
		ok(t, err)
		equal(t, "claimed", len(claimed), 1)
	}},
	{"arms", testArms},
	{"no effect", testNoEffect},
	{"arm recorded later", testArmRecordedLater},
	{"winner", testWinner},
	{"looks", testLooks},
	{"dropped", func(t *testing.T, f *fixture) {
		journey := f.defined(t, `{"name":"J","controlGroup":0.5,"goal":{"event":"buy","within":"1000h"}}`)
		held, others := f.groups(t, journey, 0.5, 1)
		for _, lead := range slices.Concat(held, others) {
			e := f.enter(t, journey, 1, lead)
			f.take(t, journey, nil, []waypost.Enrollment{e}, 0)
			f.buy(t, lead, 1)
		}
		f.sweepEnded(t)
		keep := waypost.Retention{Enrollments: 24 * time.Hour}
		f.clock.Advance(1000 * time.Hour)
		f.buy(t, others[0], 1)
		before := f.statistics(t, journey)
		f.wantDropped(t, "while their time lasts", keep, map[string]int{})
		f.clock.Advance(25 * time.Hour)
		if n := f.drop(t, keep)[waypost.DropEnrollment]; n != 2 {
			t.Fatalf("%d dropped", n)
		}
		equal(t, "still counted", f.statistics(t, journey), before)
		dropped := must[*waypost.DroppedCounts](t)(f.JourneyDropped(t.Context(), journey)).Enrollments
		equal(t, "what was dropped", dropped[waypost.EnrollmentHeldOut], 1)
	}},
}

func mapLeads(list []waypost.Enrollment) (leads []int64) {
	for _, e := range list {
		leads = append(leads, e.LeadsID)
	}
	return leads
}

// sweepEnded cancels all enrollments that run.
func (f *fixture) sweepEnded(t testing.TB) {
	t.Helper()
	list, _, err := f.ListEnrollments(t.Context(), scope, waypost.EnrollmentFilter{Statuses: []waypost.EnrollmentStatus{waypost.EnrollmentPending, waypost.EnrollmentRunning}}, waypost.Page{Limit: 500})
	ok(t, err)
	for _, e := range list {
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, e.ID))
	}
}

// take has enrollments take an arm of the split s in version 1, unless it has a winner, and
// returns what they took.
func (f *fixture) take(t testing.TB, journey string, contest *waypost.Contest, list []waypost.Enrollment, arm int) (arms []waypost.TakenArm) {
	t.Helper()
	b := waypost.ArmBatch{JourneyID: journey, Version: 1, NodeID: "s", At: f.clock.Now(), Contest: contest}
	for _, e := range list {
		b.Items = append(b.Items, waypost.ArmChoice{Touchpoint: waypost.Touchpoint{EnrollmentID: e.ID, Visit: 1}, LeadsID: e.LeadsID, Arm: arm})
	}
	taken := must[map[waypost.Touchpoint]waypost.TakenArm](t)(f.TakeArms(t.Context(), b))
	for _, item := range b.Items {
		arm := taken[item.Touchpoint]
		arm.At = time.Time{}
		arms = append(arms, arm)
	}
	return arms
}

// enterMany enrolls new leads.
func (f *fixture) enterMany(t testing.TB, journey string, n int) (list []waypost.Enrollment) {
	t.Helper()
	for range n {
		list = append(list, f.enter(t, journey, 1, f.lead(t)))
	}
	return list
}

func testArms(t *testing.T, f *fixture) {
	journey := f.withGoal(t)
	some := f.enterMany(t, journey, 4)
	f.buy(t, some[3].LeadsID, 9) // before it comes to the split
	f.clock.Advance(time.Millisecond)
	equal(t, "first", f.take(t, journey, nil, some[:2], 0), []waypost.TakenArm{{Arm: 0}, {Arm: 0}})
	equal(t, "again", f.take(t, journey, nil, some[:1], 1), []waypost.TakenArm{{Arm: 0}})
	equal(t, "others", f.take(t, journey, nil, some[2:], 1), []waypost.TakenArm{{Arm: 1}, {Arm: 1}})
	later := waypost.ArmBatch{JourneyID: journey, Version: 1, NodeID: "s", At: f.clock.Now(), Items: []waypost.ArmChoice{
		{Touchpoint: waypost.Touchpoint{EnrollmentID: some[0].ID, Visit: 7}, LeadsID: some[0].LeadsID, Arm: 1},
	}}
	taken := must[map[waypost.Touchpoint]waypost.TakenArm](t)(f.TakeArms(t.Context(), later))
	equal(t, "in another visit", taken[later.Items[0].Touchpoint], waypost.TakenArm{Arm: 1, At: f.clock.Now()})
	f.buy(t, some[0].LeadsID, 1)
	f.buy(t, some[0].LeadsID, 2)
	f.buy(t, some[2].LeadsID, 4)
	f.buy(t, some[3].LeadsID, 8)
	node := f.statistics(t, journey)[1].Node("s")
	equal(t, "by arms", []waypost.GoalCounts{allTime(*node.Arm(0)), allTime(*node.Arm(1))}, []waypost.GoalCounts{counts(2, 1, 3), counts(1, 1, 4)})
	equal(t, "in all", allTime(f.statistics(t, journey)[1].Goal), counts(4, 3, 24))
	equal(t, "no comparison", must[[]waypost.Winner](t)(f.Winners(t.Context(), journey)), []waypost.Winner{})
	none, err := f.TakeArms(t.Context(), waypost.ArmBatch{JourneyID: journey})
	ok(t, err)
	equal(t, "nobody", len(none), 0)
}

// Whether a lead converted before it took an arm is decided by the times that its timeline and its
// conversion tell, whatever was stored first.
func testArmRecordedLater(t *testing.T, f *fixture) {
	journey := f.withGoal(t)
	list := f.enterMany(t, journey, 3)
	f.clock.Advance(time.Minute)
	b := waypost.ArmBatch{JourneyID: journey, Version: 1, NodeID: "s", At: f.clock.Now()}
	for _, e := range list {
		b.Items = append(b.Items, waypost.ArmChoice{Touchpoint: waypost.Touchpoint{EnrollmentID: e.ID, Visit: 1}, LeadsID: e.LeadsID})
	}
	f.clock.Advance(time.Second)
	f.buy(t, list[0].LeadsID, 5) // after it came to the split, and before that is stored
	f.clock.Advance(time.Second)
	for range 2 { // of a second try, the time is that of the first
		taken := must[map[waypost.Touchpoint]waypost.TakenArm](t)(f.TakeArms(t.Context(), b))
		equal(t, "when", taken[b.Items[0].Touchpoint].At, list[0].CreatedAt.Add(time.Minute))
		b.At = f.clock.Now()
	}
	arm := func() waypost.GoalCounts { return allTime(*f.statistics(t, journey)[1].Node("s").Arm(0)) }
	equal(t, "bought before it was stored", arm(), counts(3, 1, 5))
	f.buy(t, list[1].LeadsID, 2)
	equal(t, "bought after it", arm(), counts(3, 2, 7))
	// It becomes known later that one had bought before it came to the split.
	f.report(t, waypost.Event{
		EventID: "early", Name: "buy", LeadsID: list[1].LeadsID, OccurredAt: list[1].CreatedAt.Add(30 * time.Second), Properties: map[string]any{"total": 1.0},
	})
	equal(t, "bought earlier", arm(), counts(2, 1, 5))
	equal(t, "in the journey", allTime(f.statistics(t, journey)[1].Goal), counts(3, 2, 8))
}

// contest has n enrollments take each arm, of which so many convert.
func (f *fixture) contest(t testing.TB, journey string, c waypost.Contest, n int, converted ...int) {
	t.Helper()
	for arm, buyers := range converted {
		list := f.enterMany(t, journey, n)
		for _, taken := range f.take(t, journey, &c, list, arm) {
			equal(t, "before the decision", taken, waypost.TakenArm{Arm: arm})
		}
		for _, e := range list[:buyers] {
			f.buy(t, e.LeadsID, 1)
		}
	}
}

func testWinner(t *testing.T, f *fixture) {
	journey := f.withGoal(t)
	c := waypost.Contest{Arms: 2, After: time.Hour}
	f.contest(t, journey, c, 30, 2, 20)
	began := f.clock.Now()
	one := func() waypost.Winner { return must[[]waypost.Winner](t)(f.Winners(t.Context(), journey))[0] }
	equal(t, "so far", one(), waypost.Winner{JourneyID: journey, Version: 1, NodeID: "s", Status: waypost.ContestOpen, BeganAt: began, Arms: []waypost.GoalCounts{}})
	for _, of := range []struct {
		waypost.Scope
		node string
	}{{scope, "s"}, {scope, "none"}, {foreign[0], "s"}} {
		_, err := f.ReverseWinner(t.Context(), of.Scope, journey, 1, of.node)
		wantCode(t, err, waypost.CodeNotFound)
	}
	f.clock.Advance(time.Hour - time.Microsecond)
	early := f.enterMany(t, journey, 1)
	equal(t, "before its time", f.take(t, journey, &c, early, 0), []waypost.TakenArm{{Arm: 0}})
	f.fold(t, 5)
	f.clock.Advance(time.Microsecond)

	// Of many at once, all take the winner's arm.
	var batches [][]waypost.Enrollment
	for range 4 {
		batches = append(batches, f.enterMany(t, journey, 3))
	}
	for _, err := range atOnce(4, func(i int) error {
		for _, arm := range f.take(t, journey, &c, batches[i], 0) {
			if arm != (waypost.TakenArm{Arm: 1, Won: true}) {
				return fmt.Errorf("batch %d took %+v", i, arm)
			}
		}
		return nil
	}) {
		ok(t, err)
	}
	at := f.clock.Now()
	want := waypost.Winner{
		JourneyID: journey, Version: 1, NodeID: "s", Status: waypost.ContestDecided, BeganAt: began, Looks: 1, LookedAt: &at, Arm: 1, DecidedAt: &at,
		Arms: []waypost.GoalCounts{counts(31, 2, 2), counts(30, 20, 20)},
	}
	for arm, open := range []int{29, 10} { // half an hour is left to them
		want.Arms[arm].Open = open
	}
	equal(t, "decided", one(), want)
	equal(t, "again", f.take(t, journey, &c, early, 0), []waypost.TakenArm{{Arm: 0}})

	f.clock.Advance(time.Minute)
	back := f.clock.Now()
	for range 2 {
		want.Status, want.ReversedAt = waypost.ContestReversed, &back
		equal(t, "taken back", must[waypost.Winner](t)(f.ReverseWinner(t.Context(), scope, journey, 1, "s")), want)
		equal(t, "as it is read", one(), want)
		f.clock.Advance(time.Minute)
	}
	equal(t, "by weight again", f.take(t, journey, &c, f.enterMany(t, journey, 1), 0), []waypost.TakenArm{{Arm: 0}})
	equal(t, "who took it before", f.take(t, journey, &c, batches[0][:1], 0), []waypost.TakenArm{{Arm: 1, Won: true}})
}

// Looks that find no difference are followed by another one once twice as many have converted.
func testLooks(t *testing.T, f *fixture) {
	journey := f.withGoal(t)
	c := waypost.Contest{Arms: 2, Leads: 100}
	enter := func() waypost.TakenArm {
		t.Helper()
		return f.take(t, journey, &c, f.enterMany(t, journey, 1), 0)[0]
	}
	looks := func() int { return must[[]waypost.Winner](t)(f.Winners(t.Context(), journey))[0].Looks }
	f.contest(t, journey, c, 40, 6, 7)
	enter()
	equal(t, "too few leads", looks(), 0)
	f.contest(t, journey, c, 10, 0, 0)
	equal(t, "no difference", enter(), waypost.TakenArm{Arm: 0})
	equal(t, "looked at", looks(), 1)
	f.contest(t, journey, c, 12, 0, 12)
	equal(t, "not twice as many", enter(), waypost.TakenArm{Arm: 0})
	equal(t, "not looked at", looks(), 1)
	f.contest(t, journey, c, 1, 0, 1)
	equal(t, "decided", enter(), waypost.TakenArm{Arm: 1, Won: true})
	equal(t, "looked at again", looks(), 2)
}
