package storetest

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// statistics returns a journey's, by version.
func (f *fixture) statistics(t testing.TB, journey string) map[int]*waypost.Counts {
	t.Helper()
	return must[waypost.Statistics](t)(f.Statistics(t.Context(), waypost.StatisticsQuery{JourneyID: journey})).Versions
}

// fold folds all that there is.
func (f *fixture) fold(t testing.TB, limit int) {
	t.Helper()
	for must[bool](t)(f.FoldStatistics(t.Context(), limit)) {
	}
}

var statisticTests = []test{
	{"series", testSeries},
	{"old hours", testOldHours},
	{"as the timelines say", func(t *testing.T, f *fixture) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		w := newWander(t, f, seed)
		for i := range 500 {
			w.act(t)
			if i%20 == 0 {
				w.compare(t)
			}
		}
		w.end(t)
	}},
	{"at once", func(t *testing.T, f *fixture) {
		// Several processes record, repeat and cancel what is theirs, and fold together.
		journey := f.withGoal(t)
		var wanders []*wander
		var hours sync.RWMutex
		for i := range 4 {
			wanders = append(wanders, &wander{fixture: f, journey: journey, hours: &hours, rand: rand.New(rand.NewPCG(rand.Uint64(), uint64(i)))})
		}
		var running sync.WaitGroup
		for _, w := range wanders {
			running.Go(func() {
				for range 80 {
					w.act(t)
				}
			})
		}
		running.Wait()
		all := newWander(t, f, 1)
		all.journey = journey
		for _, w := range wanders {
			w.catchUp(t)
			all.travelers = append(all.travelers, w.travelers...)
			all.events, all.heldOut = append(all.events, w.events...), append(all.heldOut, w.heldOut...)
		}
		all.end(t)
	}},
}

// wander is a random history of enrollments of one journey with two versions, whose nodes
// are the touchpoints a and b and the wait w. Both have a goal. They take arms of a split s, beside
// what their timelines tell. Its calls are those of workflows whose
// activities are repeated, cut off and late.
type wander struct {
	*fixture
	journey   string
	hours     *sync.RWMutex // keeps the clock from being advanced
	rand      *rand.Rand
	travelers []*traveler
	heldOut   []*traveler // the control groups of launches
	events    []bought
	acts      int // so far
	calls     []func() error
	late      []func() error
}

// traveler is an enrollment as its workflow has it.
type traveler struct {
	id         string
	lead       int64
	launch     string
	made       int // the version
	version    int
	seq, visit int
	onward     int    // how often it has enrolled elsewhere
	node       string // "": it has not begun
	unrecorded []waypost.TimelineEntry
	deferred   bool
	over       bool

	born  int // which act of the wander made it
	arm   int // the first one that it took, from 1; 0: none
	armIn int // the version
	armAt time.Time
}

// bought is an event that counts for the goal.
type bought struct {
	lead  int64
	act   int
	at    time.Time
	worth waypost.Amount
}

func newWander(t testing.TB, f *fixture, seed uint64) *wander {
	return &wander{fixture: f, journey: f.withGoal(t), hours: &sync.RWMutex{}, rand: rand.New(rand.NewPCG(seed, 1))}
}

func (w *wander) chance(percent int) bool { return w.rand.IntN(100) < percent }

// do makes a call, perhaps twice, and remembers it for a repetition at any time.
func (w *wander) do(t testing.TB, call func() error) {
	ok(t, call())
	if w.chance(10) {
		ok(t, call())
	}
	w.calls = append(w.calls, call)
}

func (w *wander) act(t testing.TB) {
	t.Helper()
	w.acts++
	switch n := w.rand.IntN(110); {
	case n >= 106 && len(w.travelers) > 0:
		w.take(t)
	case n >= 100 && len(w.travelers) > 0:
		w.buy(t)
	case n < 12 || len(w.travelers) == 0:
		w.enroll(t)
	case n < 14:
		w.launchSome(t)
	case n < 17:
		w.hours.Lock()
		w.clock.Advance(time.Duration(w.rand.IntN(40)) * time.Minute)
		w.hours.Unlock()
	case n < 22:
		must[bool](t)(w.FoldStatistics(t.Context(), 1+w.rand.IntN(20)))
	case n < 27 && len(w.calls) > 0:
		ok(t, w.calls[w.rand.IntN(len(w.calls))]())
	case n < 30:
		w.catchUp(t)
	case n < 33:
		w.leave(t, w.any())
	case n < 36:
		w.move(t)
	case n < 37:
		w.onwardFrom(t, w.any())
	default:
		var some []*traveler
		for range 1 + w.rand.IntN(6) {
			if tr := w.any(); !slices.Contains(some, tr) {
				some = append(some, tr)
			}
		}
		w.step(t, some)
	}
}

func (w *wander) any() *traveler { return w.travelers[w.rand.IntN(len(w.travelers))] }

// catchUp makes the calls that were late.
func (w *wander) catchUp(t testing.TB) {
	for _, call := range w.late {
		ok(t, call())
	}
	w.late = nil
}

// isTest tells whether a lead is a test lead, which no statistics count.
func (w *wander) isTest(lead int64) bool { return lead%7 == 0 }

// lead makes a lead.
func (w *wander) lead(t testing.TB) int64 {
	id := w.fixture.lead(t)
	if w.isTest(id) {
		must[waypost.Lead](t)(w.UpdateLead(t.Context(), scope, id, set(waypost.LeadFields{Name: "Test", Test: true})))
	}
	return id
}

func (w *wander) enroll(t testing.TB) {
	lead := w.lead(t)
	version := 1 + w.rand.IntN(2)
	e := must[waypost.Enrollment](t)(w.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: w.journey, Version: version, LeadsID: lead, AppID: "app_1"}, waypost.Reentry{}))
	w.travelers = append(w.travelers, &traveler{id: e.ID, lead: lead, made: version, version: version, born: w.acts})
}

// buy has a lead report an event, perhaps twice: now one that counts, now another one.
func (w *wander) buy(t testing.TB) {
	tr := w.any()
	if len(w.heldOut) > 0 && w.chance(40) {
		tr = w.heldOut[w.rand.IntN(len(w.heldOut))]
	}
	total := float64(w.rand.IntN(5))
	e := waypost.Event{EventID: fmt.Sprint(tr.id, w.rand.Uint64()), Name: []string{"buy", "buy", "look"}[w.rand.IntN(3)], LeadsID: tr.lead, Properties: map[string]any{"total": total}}
	w.hours.RLock()
	defer w.hours.RUnlock()
	for i := range 2 {
		stored, err := w.AcceptEvent(t.Context(), scope, e)
		if waypost.CodeOf(err) == waypost.CodeNotFound {
			return // the lead was deleted
		}
		ok(t, err)
		equal(t, "stored", stored, i == 0)
	}
	if e.Name == "buy" && total > 0 {
		w.events = append(w.events, bought{tr.lead, w.acts, w.clock.Now(), waypost.AmountOf(total)})
	}
}

// take has some take an arm, some again.
func (w *wander) take(t testing.TB) {
	version := 1 + w.rand.IntN(2)
	b := waypost.ArmBatch{JourneyID: w.journey, Version: version, NodeID: "s", At: w.clock.Now()}
	seen := map[string]bool{}
	for range 1 + w.rand.IntN(5) {
		if tr := w.any(); tr.version == version && !seen[tr.id] {
			seen[tr.id] = true
			b.Items = append(b.Items, waypost.ArmChoice{Touchpoint: waypost.Touchpoint{EnrollmentID: tr.id, Visit: 5000 + w.acts}, LeadsID: tr.lead, Arm: w.rand.IntN(2)})
		}
	}
	for range 2 {
		taken := must[map[waypost.Touchpoint]waypost.TakenArm](t)(w.TakeArms(t.Context(), b))
		for _, item := range b.Items {
			equal(t, "the arm", taken[item.Touchpoint], waypost.TakenArm{Arm: item.Arm, At: b.At})
		}
	}
	for _, tr := range w.travelers {
		for _, item := range b.Items {
			if item.EnrollmentID == tr.id && tr.arm == 0 {
				tr.arm, tr.armIn, tr.armAt = item.Arm+1, version, b.At
			}
		}
	}
}

// countGoal counts what an enrollment came to of what its lead bought, if it had not reached the
// goal before a time.
func (w *wander) countGoal(t *waypost.GoalTally, tr *traveler, made time.Time, before map[string]time.Time, since time.Time) {
	sum, early := waypost.GoalSum{Leads: 1}, false
	for _, e := range w.events {
		if e.lead != tr.lead || e.act <= tr.born || e.at.After(made.Add(goalWithin)) {
			continue
		}
		early = early || e.at.Before(since)
		sum.Converted = 1
		sum.Worth += e.worth
	}
	if early {
		if before[tr.id].IsZero() {
			t.Early++
		}
		return
	}
	if sum.Converted == 0 && !w.clock.Now().After(made.Add(goalWithin)) {
		sum.Open = 1
	}
	t.Enrollments++
	t.Of(before[tr.id]).Add(sum, 1)
}

// entriesBefore is when the leads of enrollments entered before, if they did.
func (w *wander) entriesBefore(rows map[string]waypost.Enrollment) map[string]time.Time {
	before := map[string]time.Time{}
	last := map[int64]time.Time{}
	all := slices.Clone(w.travelers)
	slices.SortStableFunc(all, func(a, b *traveler) int { return a.born - b.born })
	for _, tr := range all {
		if at, again := last[tr.lead]; again {
			before[tr.id] = at
		}
		last[tr.lead] = rows[tr.id].CreatedAt
	}
	return before
}

// launchShare is the control group of the launches.
const launchShare = 0.3

func (w *wander) launchSome(t testing.TB) {
	var leads []int64
	for range 8 {
		leads = append(leads, w.lead(t))
	}
	l := must[waypost.Launch](t)(w.CreateLaunch(t.Context(), scope, waypost.Launch{
		JourneyID: w.journey, Version: 1, AppID: "app_1", Audience: waypost.Audience{LeadsIDs: leads}, ControlGroup: launchShare,
	}))
	w.hours.RLock()
	step, err := w.EnrollAudience(t.Context(), l.ID, 100)
	w.hours.RUnlock()
	ok(t, err)
	held, _, err := w.ListEnrollments(t.Context(), scope, waypost.EnrollmentFilter{LaunchID: l.ID, Statuses: []waypost.EnrollmentStatus{waypost.EnrollmentHeldOut}}, waypost.Page{})
	ok(t, err)
	equal(t, "held out", len(held), step.HeldOut)
	for _, e := range held {
		w.heldOut = append(w.heldOut, &traveler{id: e.ID, lead: e.LeadsID, launch: l.ID, made: 1, version: 1, born: w.acts})
	}
	for _, c := range w.claimAll(t, 100) {
		ok(t, w.MarkStarted(t.Context(), c.ID))
		if c.Version.Version != 1 { // of those who were moved
			continue
		}
		for _, m := range c.Members {
			w.travelers = append(w.travelers, &traveler{id: m.EnrollmentID, lead: m.LeadsID, launch: c.LaunchID, made: 1, version: 1, born: w.acts})
		}
	}
}

func (w *wander) onwardFrom(t testing.TB, from *traveler) {
	b := waypost.OnwardBatch{
		Scope: scope, JourneyID: w.journey, LaunchID: from.launch, Into: w.journey, Version: 1, Reentry: waypost.Reentry{Policy: waypost.ReentryAlways},
		Items: []waypost.Onward{{Touchpoint: waypost.Touchpoint{EnrollmentID: from.id, Visit: 1000 + from.onward}, LeadsID: from.lead, Waited: true}},
	}
	from.onward++
	for range 2 {
		result := must[map[waypost.Touchpoint]waypost.OnwardResult](t)(w.EnrollOnward(t.Context(), b))[b.Items[0].Touchpoint]
		if id := result.EnrollmentID; id != "" && !slices.ContainsFunc(w.travelers, func(tr *traveler) bool { return tr.id == id }) {
			w.travelers = append(w.travelers, &traveler{id: id, lead: from.lead, made: 1, version: 1, born: w.acts})
		}
	}
}

// leave ends an enrollment from outside.
func (w *wander) leave(t testing.TB, tr *traveler) {
	switch w.rand.IntN(6) {
	case 0:
		err := w.DeleteLead(t.Context(), scope, tr.lead, nil)
		if waypost.CodeOf(err) != waypost.CodeNotFound {
			ok(t, err)
		}
	case 1:
		_, err := w.AcceptEvent(t.Context(), scope, waypost.Event{EventID: fmt.Sprint(tr.id, w.rand.Uint64()), Name: "leave", LeadsID: tr.lead})
		if waypost.CodeOf(err) != waypost.CodeNotFound {
			ok(t, err)
		}
	case 2:
		if tr.launch == "" {
			return
		}
		_, err := w.CancelLaunch(t.Context(), scope, tr.launch)
		if waypost.CodeOf(err) != waypost.CodeConflict {
			ok(t, err)
		}
		w.sweep(t, 3)
	case 3:
		ok(t, w.CancelEnrollments(t.Context(), []string{tr.id, w.any().id}))
	default:
		_, err := w.CancelEnrollment(t.Context(), scope, tr.id)
		if waypost.CodeOf(err) != waypost.CodeConflict {
			ok(t, err)
		}
	}
	tr.over = tr.over || w.chance(80) // else its workflow has not heard of it
}

// move orders those who wait in the first version to the second one, and lets some go.
func (w *wander) move(t testing.TB) {
	to := waypost.Move{To: 2, Node: []string{"b", "w"}[w.rand.IntN(2)]}
	w.migrate(t, waypost.Migration{JourneyID: w.journey, From: 1, To: 2, Nodes: map[string]string{"w": to.Node}})
	for _, tr := range w.travelers {
		if tr.over || tr.version != 1 || tr.node != "w" || w.chance(30) {
			continue
		}
		if left := w.letGo(t, w.leaving(t, w.journey, tr.launch, tr.seq, to, tr.id)); len(left) == 0 {
			continue
		}
		tr.version, tr.node, tr.unrecorded = 2, "", nil
		tr.begin(to.Node, w.clock.Now())
	}
}

// begin enters a node that no other one leads to; what it says is recorded later.
func (tr *traveler) begin(node string, at time.Time) {
	tr.node = node
	tr.visit++
	tr.entry(at, node, waypost.WhatEntered, "")
}

func (tr *traveler) entry(at time.Time, node, what, next string) {
	tr.seq++
	tr.unrecorded = append(tr.unrecorded, waypost.TimelineEntry{Seq: tr.seq, At: at, NodeID: node, What: what, Next: next})
}

// leaveNode goes on as always from this visit.
func (tr *traveler) leaveNode(at time.Time, what string) {
	from := tr.node
	next := []string{"a", "w", "b", "", "w", "a", "b"}[(3*tr.visit+len(what)+int(tr.lead))%7]
	tr.entry(at, from, what, next)
	ways := []string{waypost.WayNext, waypost.WayOnFailure, waypost.WayCase + "1", waypost.WayEvent + "order paid"}
	tr.unrecorded[len(tr.unrecorded)-1].Way = ways[(tr.visit+len(what))%len(ways)]
	if what == waypost.WhatSkipped && tr.visit%4 > 0 {
		tr.unrecorded[len(tr.unrecorded)-1].Reason = waypost.SkipReasons[tr.visit%4-1]
	}
	tr.deferred = false
	switch next {
	case "":
		tr.entry(at, from, waypost.WhatExited, "")
		tr.over = true
		return
	case "w":
		tr.entry(at, next, waypost.WhatEntered, "")
	}
	tr.node = next
	tr.visit++
}

func (tr *traveler) status() waypost.EnrollmentStatus {
	switch {
	case tr.over && tr.lead%5 == 0:
		return waypost.EnrollmentFailed
	case tr.over:
		return waypost.EnrollmentCompleted
	case tr.node == "w":
		return waypost.EnrollmentWaiting
	}
	return waypost.EnrollmentRunning
}

// progress is what to record of it now, nil if nothing; held says that it was deferred before.
func (tr *traveler) progress(held bool) *waypost.Progress {
	if len(tr.unrecorded) == 0 {
		return nil
	}
	return &waypost.Progress{
		EnrollmentID: tr.id, Status: tr.status(), NodeID: tr.node, LastSeq: tr.seq, Entries: slices.Clone(tr.unrecorded), Deferred: held,
	}
}

// recordAll records what a workflow writes by itself, now or later.
func (w *wander) recordAll(t testing.TB, some []*traveler) {
	var all []waypost.Progress
	for _, tr := range some {
		if p := tr.progress(tr.deferred); p != nil {
			all = append(all, *p)
		}
		tr.unrecorded = nil
	}
	call := func() error { return w.RecordProgress(t.Context(), all) }
	if w.chance(10) {
		w.late = append(w.late, call)
		return
	}
	w.do(t, call)
}

// step has enrollments take a step each.
func (w *wander) step(t testing.TB, some []*traveler) {
	var waits, sends []*traveler
	at := w.clock.Now()
	for _, tr := range some {
		if tr.over {
			continue
		}
		switch tr.node {
		case "":
			tr.begin([]string{"a", "w"}[w.rand.IntN(2)], at)
			if tr.node == "w" {
				waits = append(waits, tr)
			} else {
				sends = append(sends, tr)
			}
		case "w":
			switch {
			case len(tr.unrecorded) == 0 && w.chance(15): // the lead has changed
				tr.entry(at, tr.node, waypost.WhatEntered, "")
			case len(tr.unrecorded) == 0:
				tr.leaveNode(at, []string{waypost.WhatWaited, waypost.WhatMatched, waypost.WhatSkipped}[w.rand.IntN(3)])
			}
			if tr.over || tr.node == "w" {
				waits = append(waits, tr)
			}
		default:
			sends = append(sends, tr)
		}
	}
	w.recordAll(t, waits)
	if w.chance(25) {
		w.holdBack(t, sends)
		return
	}
	w.send(t, sends)
}

// holdBack defers messages; perhaps the answer is lost.
func (w *wander) holdBack(t testing.TB, some []*traveler) {
	var all []delivery.Deferral
	for _, tr := range some {
		before := *tr
		before.unrecorded = slices.Clone(tr.unrecorded)
		if !tr.deferred {
			tr.entry(w.clock.Now(), tr.node, waypost.WhatDeferred, "")
		}
		_, o := w.opening(t, tr)
		all = append(all, delivery.Deferral{
			Touchpoint: o.Touchpoint, Scope: scope, Delivery: o.Delivery, Reason: waypost.DeferPaused, At: o.At, Until: o.At.Add(time.Minute), Progress: tr.progress(before.deferred),
		})
		if sent := w.sending(t, o.Touchpoint); sent.Status.Final() || w.chance(30) {
			*tr = before
			continue
		}
		tr.deferred, tr.unrecorded = true, nil
	}
	w.do(t, func() error { return w.RecordDeferrals(t.Context(), all) })
}

// opening is the next attempt of what an enrollment is at, and how that stands.
func (w *wander) opening(t testing.TB, tr *traveler) (delivery.Sending, delivery.Opening) {
	key := waypost.Touchpoint{EnrollmentID: tr.id, Visit: tr.visit}
	s := w.sending(t, key)
	o := delivery.Opening{
		Touchpoint: key, Scope: scope, Attempt: s.Attempts + 1, At: w.clock.Now(), By: "worker 1",
		Delivery: waypost.Delivery{
			MessageID: s.MessageID, JourneyID: w.journey, JourneyVersion: tr.version, NodeID: tr.node, WebhookID: "whk_1", LeadsID: tr.lead, LaunchID: tr.launch,
		},
	}
	if s.MessageID == "" {
		o.Delivery.MessageID = waypost.NewID(waypost.PrefixMessage, w.clock.Now())
		o.Body = []byte(`{}`)
	} else if s.Body == nil && s.Attempts == 0 {
		o.Body = []byte(`{}`)
	}
	return s, o
}

// send sends messages; perhaps the answer is lost, and the workflow asks again.
func (w *wander) send(t testing.TB, some []*traveler) {
	at := w.clock.Now()
	var openings []delivery.Opening
	var sent []*traveler
	for _, tr := range some {
		s, o := w.opening(t, tr)
		switch {
		case s.Status == waypost.DeliveryCanceled:
			tr.over = true
		case s.Status.Final(): // it is told what was recorded
			tr.unrecorded = nil
			tr.leaveNode(at, map[bool]string{true: waypost.WhatSent, false: waypost.WhatFailed}[s.Succeed])
			tr.unrecorded = nil
		default:
			openings, sent = append(openings, o), append(sent, tr)
		}
	}
	opened := must[map[waypost.Touchpoint]delivery.Sending](t)(w.OpenAttempts(t.Context(), openings))
	if len(sent) > 0 && w.chance(10) { // in the middle of it
		_, err := w.CancelEnrollment(t.Context(), scope, sent[0].id)
		if waypost.CodeOf(err) != waypost.CodeConflict {
			ok(t, err)
		}
	}
	var records []delivery.AttemptRecord
	for i, tr := range sent {
		o := openings[i]
		if s := opened[o.Touchpoint]; s.Open == nil || s.Held {
			continue
		}
		before := *tr
		before.unrecorded = slices.Clone(tr.unrecorded)
		var r delivery.AttemptRecord
		switch n := w.rand.IntN(10); {
		case n < 2:
			r = w.retrying(o.Touchpoint, o.Attempt)
			r.Progress = tr.progress(before.deferred)
			tr.deferred = false
		case n < 4:
			r = w.failed(o.Touchpoint, o.Attempt)
			tr.leaveNode(at, waypost.WhatFailed)
			r.Progress = tr.progress(before.deferred)
		default:
			r = w.succeeded(o.Touchpoint, o.Attempt)
			tr.leaveNode(at, waypost.WhatSent)
			r.Progress = tr.progress(before.deferred)
		}
		if records = append(records, r); w.chance(20) {
			*tr = before
			continue
		}
		tr.unrecorded = nil
	}
	w.do(t, func() error { return w.RecordAttempts(t.Context(), records) })
}

// counted are the counts that the enrollments and their timelines have, by version: what has
// happened in all, or within an hour, and where they stand.
func (w *wander) counted(t testing.TB, within func(time.Time) bool) map[int]*waypost.Counts {
	t.Helper()
	counts := map[int]*waypost.Counts{1: {}, 2: {}}
	var ids []string
	for _, tr := range slices.Concat(w.travelers, w.heldOut) {
		ids = append(ids, tr.id)
	}
	rows := must[map[string]waypost.Enrollment](t)(w.EnrollmentsByID(t.Context(), ids))
	before := w.entriesBefore(rows)
	for _, tr := range w.heldOut {
		if made := rows[tr.id].CreatedAt; within(made) {
			counts[1].HeldOut++
			var goal waypost.GoalTally
			w.countGoal(&goal, tr, made, before, time.Time{})
			counts[1].Control.Add(goal, 1)
			counts[1].Share(launchShare).Control.Add(compared(goal), 1)
		}
	}
	for _, tr := range w.travelers {
		if w.isTest(tr.lead) {
			continue
		}
		e := rows[tr.id]
		if within(e.CreatedAt) {
			counts[tr.made].Entered++
			var goal waypost.GoalTally
			w.countGoal(&goal, tr, e.CreatedAt, before, time.Time{})
			counts[tr.made].Goal.Add(goal, 1)
			if tr.launch != "" {
				counts[tr.made].Share(launchShare).Journey.Add(compared(goal), 1)
			}
			if tr.arm > 0 {
				w.countGoal(counts[tr.armIn].Node("s").Arm(tr.arm-1), tr, e.CreatedAt, before, tr.armAt)
			}
		}
		if e.EndedAt != nil && within(*e.EndedAt) {
			counts[e.Version].End(e.Status, 1)
		}
		var last waypost.TimelineEntry
		type place struct {
			version int
			node    string
		}
		var stands place
		for _, entry := range w.timeline(t, tr.id) {
			if entry.Seq == 0 || entry.NodeID == "" {
				continue
			}
			at := place{entry.Version, entry.NodeID}
			enters := at != stands && entry.What != waypost.WhatExited
			if last = entry; within(entry.At) {
				n := counts[entry.Version].Node(entry.NodeID)
				if enters {
					n.Entered++
				}
				switch entry.What {
				case waypost.WhatSent:
					n.Delivered++
				case waypost.WhatFailed:
					n.Failed++
				case waypost.WhatSkipped:
					n.Skip(entry.Reason, 1)
				}
				if entry.Way != "" {
					n.Took(waypost.Edge{Way: entry.Way, Next: entry.Next}, 1)
				}
				if entry.Next != "" {
					counts[entry.Version].Node(entry.Next).Entered++
				}
			}
			if enters {
				stands = at
			}
			if entry.Next != "" {
				stands = place{entry.Version, entry.Next}
			}
		}
		if e.EndedAt != nil || e.Status == waypost.EnrollmentPending {
			continue
		}
		if stands != (place{e.Version, e.NodeID}) {
			t.Errorf("%s is at %s of version %d, its timeline at %+v", e.ID, e.NodeID, e.Version, stands)
		}
		n := counts[e.Version].Node(e.NodeID)
		switch {
		case e.Status == waypost.EnrollmentWaiting:
			n.Waiting++
		case last.What == waypost.WhatDeferred:
			n.Deferred++
		default:
			n.Running++
		}
	}
	return counts
}

// compared is what counts of first enrollments by their share.
func compared(t waypost.GoalTally) waypost.GoalSum {
	return waypost.GoalSum{Leads: t.First.Leads, Converted: t.First.Converted}
}

// since has what counts within a time in the place of what it is read from.
func since(c *waypost.Counts, from time.Time) {
	read := func(t *waypost.GoalTally) {
		counts := t.Since(from)
		*t = waypost.GoalTally{Enrollments: counts.Enrollments, First: counts.GoalSum, Early: t.Early}
	}
	read(&c.Goal)
	read(&c.Control)
	for _, n := range c.Nodes {
		for _, arm := range n.Arms {
			read(arm)
		}
	}
}

// wantCounts fails unless the counts of a time that begins with from are the same.
func wantCounts(t testing.TB, what string, from time.Time, got, want map[int]*waypost.Counts) {
	t.Helper()
	for version := range 3 {
		a, b := got[version], want[version]
		if a == nil {
			a = &waypost.Counts{}
		}
		if b == nil {
			b = &waypost.Counts{}
		}
		var difference waypost.Counts
		difference.Add(a, 1)
		difference.Add(b, -1)
		if since(&difference, from); difference.Trim() {
			for id, n := range difference.Nodes {
				t.Errorf("%s, version %d, node %s: too many by %+v", what, version, id, *n)
			}
			difference.Nodes = nil
			t.Fatalf("%s, version %d: too many by %+v", what, version, difference)
		}
	}
}

func (w *wander) compare(t testing.TB) {
	t.Helper()
	wantCounts(t, "all", time.Time{}, w.statistics(t, w.journey), w.counted(t, func(time.Time) bool { return true }))
}

// end compares what was counted in all, hour by hour, after everything was folded, and after
// everything was dropped.
func (w *wander) end(t testing.TB) {
	t.Helper()
	w.catchUp(t)
	w.compare(t)
	w.fold(t, 7)
	w.compare(t)
	for _, span := range []waypost.StatisticsSpan{waypost.StatisticsHour, waypost.StatisticsDay} {
		q := waypost.StatisticsQuery{JourneyID: w.journey, Span: span, From: NewClock().Now().Truncate(span.Duration())}
		q.To = w.clock.Now().Add(span.Duration()).Truncate(span.Duration())
		series := must[waypost.Statistics](t)(w.Statistics(t.Context(), q)).Series
		for i, point := range series {
			want := w.counted(t, func(at time.Time) bool { return at.Truncate(span.Duration()).Equal(point.From) })
			got := map[int]*waypost.Counts{}
			for version, c := range point.Versions {
				got[version] = &waypost.Counts{}
				got[version].AddFlows(c, 1)
				if i == len(series)-1 {
					got[version].AddStanding(c, 1)
				} else {
					got[version].AddStanding(want[version], 1)
				}
			}
			if i < len(series)-1 {
				for version, c := range want {
					if got[version] == nil {
						got[version] = &waypost.Counts{}
						got[version].AddStanding(c, 1)
					}
				}
			}
			wantCounts(t, fmt.Sprint(span, " ", point.From), point.From, got, want)
		}
	}
	w.clock.Advance(200 * day)
	before := w.statistics(t, w.journey)
	w.drop(t, keepAll)
	if after := w.statistics(t, w.journey); !reflect.DeepEqual(after, before) {
		t.Fatalf("after everything was dropped: %+v, before %+v", after, before)
	}
}

// Where enrollments stood at the end of an hour, whether that is folded or not.
func testSeries(t *testing.T, f *fixture) {
	journey := f.journey(t)
	start := f.clock.Now().Truncate(time.Hour)
	ids := f.enroll(t, journey, 3)
	f.waitingAt(t, "w", 1, ids[0], ids[1])
	f.clock.Advance(time.Hour)
	f.waitingAt(t, "w", 1, ids[2])
	must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[0]))
	f.clock.Advance(26 * time.Hour)
	ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(ids[1], 2, waypost.EnrollmentCompleted)}))
	for range 2 {
		for _, c := range []struct {
			span     waypost.StatisticsSpan
			from, to time.Time
			entered  []int
			canceled []int
			waiting  []int
		}{
			{waypost.StatisticsHour, start.Add(-time.Hour), start.Add(3 * time.Hour), []int{0, 3, 0, 0}, []int{0, 0, 1, 0}, []int{0, 2, 2, 2}},
			{waypost.StatisticsHour, start, start.Add(time.Hour), []int{3}, []int{0}, []int{2}},
			{waypost.StatisticsHour, start.Add(27 * time.Hour), start.Add(28 * time.Hour), []int{0}, []int{0}, []int{1}},
			{waypost.StatisticsDay, start.Truncate(day), start.Truncate(day).Add(3 * day), []int{3, 0, 0}, []int{1, 0, 0}, []int{2, 1, 1}},
			{waypost.StatisticsDay, start.Truncate(day), start.Truncate(day).Add(day), []int{3}, []int{1}, []int{2}},
		} {
			st := must[waypost.Statistics](t)(f.Statistics(t.Context(), waypost.StatisticsQuery{JourneyID: journey, Span: c.span, From: c.from, To: c.to}))
			var entered, canceled, waiting []int
			for _, point := range st.Series {
				counts := point.Versions[1]
				if counts == nil {
					counts = &waypost.Counts{}
				}
				entered, canceled, waiting = append(entered, counts.Entered), append(canceled, counts.Canceled), append(waiting, counts.Node("w").Waiting)
			}
			equal(t, fmt.Sprint("by ", c.span, " from ", c.from), []any{entered, canceled, waiting}, []any{c.entered, c.canceled, c.waiting})
			equal(t, "in all", []int{st.Versions[1].Entered, st.Versions[1].Canceled, st.Versions[1].Nodes["w"].Waiting}, []int{3, 1, 1})
		}
		f.fold(t, 3)
	}
	none := must[waypost.Statistics](t)(f.Statistics(t.Context(), waypost.StatisticsQuery{JourneyID: journey, Version: 2}))
	equal(t, "of another version", none, waypost.Statistics{Versions: map[int]*waypost.Counts{}})
	equal(t, "of another journey", len(f.statistics(t, f.journey(t))), 0)
}

// Hours go when they are too old, and nothing else does.
func testOldHours(t *testing.T, f *fixture) {
	journey := f.journey(t)
	start := f.clock.Now()
	f.enroll(t, journey, 2)
	f.fold(t, 10)
	f.clock.Advance(waypost.HistoryAge + time.Hour)
	f.enroll(t, journey, 1)
	f.fold(t, 10)
	f.wantDropped(t, "an hour", waypost.Retention{}, map[string]int{waypost.DropJourneyHour: 1})
	f.wantDropped(t, "again", waypost.Retention{}, map[string]int{})
	for span, want := range map[waypost.StatisticsSpan]int{waypost.StatisticsHour: 0, waypost.StatisticsDay: 2} {
		from := start.Truncate(span.Duration())
		st := must[waypost.Statistics](t)(f.Statistics(t.Context(), waypost.StatisticsQuery{JourneyID: journey, Span: span, From: from, To: from.Add(span.Duration())}))
		got := 0
		if c := st.Series[0].Versions[1]; c != nil {
			got = c.Entered
		}
		equal(t, "entered within the first "+string(span), got, want)
		equal(t, "in all", st.Versions[1].Entered, 3)
	}
}
