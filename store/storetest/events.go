package storetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
)

func (f *fixture) await(t testing.TB, w waypost.Wait) waypost.WaitState {
	t.Helper()
	state, found := must[map[waypost.Touchpoint]waypost.WaitState](t)(f.Await(t.Context(), []waypost.Wait{w}))[w.Touchpoint]
	if !found {
		t.Fatalf("no state of %+v", w.Touchpoint)
	}
	return state
}

// eventIDs lists the events of an open wait.
func eventIDs(t testing.TB, s waypost.WaitState) string {
	t.Helper()
	if s.Closed {
		t.Fatalf("closed by %q", s.EventID)
	}
	ids := make([]string, len(s.Events))
	for i, e := range s.Events {
		ids[i] = e.EventID
		if i > 0 && e.Seq <= s.Events[i-1].Seq {
			t.Fatalf("seq %d after %d", e.Seq, s.Events[i-1].Seq)
		}
	}
	return strings.Join(ids, " ")
}

var eventTests = []test{
	{"once", func(t *testing.T, f *fixture) {
		lead := f.lead(t)
		e := waypost.Event{EventID: "e1", Name: "buy", LeadsID: lead, Properties: map[string]any{"amount": 12.5, "what": "it's\x00"}}
		equal(t, "first", must[bool](t)(f.AcceptEvent(t.Context(), scope, e)), true)
		other := e
		other.Name, other.LeadsID = "sell", f.lead(t)
		for _, again := range []waypost.Event{e, other} {
			equal(t, "again", must[bool](t)(f.AcceptEvent(t.Context(), scope, again)), false)
		}
		for _, sc := range foreign {
			_, err := f.AcceptEvent(t.Context(), sc, e)
			wantCode(t, err, waypost.CodeNotFound)
			there := e
			there.LeadsID = must[waypost.Lead](t)(f.CreateLead(t.Context(), sc, waypost.LeadFields{Name: "Eve"}, nil)).LeadsID
			equal(t, "another scope's", must[bool](t)(f.AcceptEvent(t.Context(), sc, there)), true)
		}
		e.LeadsID = 1 << 40
		_, err := f.AcceptEvent(t.Context(), scope, e)
		wantCode(t, err, waypost.CodeNotFound)
		for _, bad := range []waypost.Event{{EventID: "\x00", Name: "buy", LeadsID: lead}, {EventID: "e2", Name: "\x00", LeadsID: lead}} {
			_, err := f.AcceptEvent(t.Context(), scope, bad)
			wantCode(t, err, waypost.CodeBadRequest)
		}
	}},
	{"once, at the same time", func(t *testing.T, f *fixture) {
		workflow, ids := f.started(t, f.journey(t), 1)
		w := f.wait(t, ids[0], workflow, "buy")
		f.await(t, w)
		other := f.lead(t)
		for round := range 50 {
			stored := make([]bool, 8)
			for _, err := range atOnce(len(stored), func(i int) (err error) {
				e := waypost.Event{EventID: fmt.Sprint("e", round), Name: "buy", LeadsID: w.LeadsID}
				if i%4 == 3 {
					e.LeadsID = other // the same id, told of another lead
				}
				stored[i], err = f.AcceptEvent(t.Context(), scope, e)
				return err
			}) {
				ok(t, err)
			}
			n, signaled := 0, 0
			for i, is := range stored {
				if is {
					n++
					if i%4 != 3 {
						signaled = 1
					}
				}
			}
			equal(t, "stored", n, 1)
			equal(t, "notices", len(f.notices(t)), signaled)
		}
	}},
	{"before and after", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		workflow, ids := f.started(t, journey, 1)
		w := f.wait(t, ids[0], workflow, "buy")
		f.clock.Advance(-time.Second)
		f.accept(t, w.LeadsID, "too early", "buy")
		f.clock.Advance(time.Second)
		accepted := f.clock.Now()
		f.accept(t, w.LeadsID, "e1", "buy")
		f.accept(t, w.LeadsID, "another name", "sell")
		f.accept(t, f.lead(t), "another lead", "buy")
		f.clock.Advance(time.Minute)
		equal(t, "properties", must[bool](t)(f.AcceptEvent(t.Context(), scope, waypost.Event{
			EventID: "e2", Name: "buy", LeadsID: w.LeadsID, Properties: map[string]any{"amount": 12.5, "name": "it's\x00"},
		})), true)
		equal(t, "nobody waited", len(f.notices(t)), 0)
		s := f.await(t, w)
		equal(t, "events", eventIDs(t, s), "e1 e2")
		equal(t, "first", s.Events[0], waypost.Event{EventID: "e1", Name: "buy", LeadsID: w.LeadsID, Properties: map[string]any{}, OccurredAt: accepted, AcceptedAt: accepted, Seq: s.Events[0].Seq})
		equal(t, "second", s.Events[1].Properties, map[string]any{"amount": 12.5, "name": "it's\x00"})
		equal(t, "same call again", f.await(t, w), s)

		f.accept(t, w.LeadsID, "e3", "buy")
		f.accept(t, w.LeadsID, "not for it", "sell")
		equal(t, "notices", f.notices(t), []waypost.Notice{{WorkflowID: workflow, EnrollmentID: ids[0], EventID: "e3"}})
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: w.Touchpoint, Seen: s.Events[1].Seq}}))
		equal(t, "seen", eventIDs(t, f.await(t, w)), "e3")
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: w.Touchpoint, Seen: s.Events[0].Seq}}))
		equal(t, "never back", eventIDs(t, f.await(t, w)), "e3")

		// What comes after the end does not count, unless the end has moved on.
		f.clock.Advance(time.Hour)
		f.accept(t, w.LeadsID, "late", "buy")
		equal(t, "until", eventIDs(t, f.await(t, w)), "e3")
		longer := w
		longer.Until = f.clock.Now()
		equal(t, "later end", eventIDs(t, f.await(t, longer)), "e3 late")
		longer.Since = accepted.Add(-time.Second)
		next := longer
		next.Visit = 2
		equal(t, "since", eventIDs(t, f.await(t, next)), "too early e1 e2 e3 late")
		f.notices(t)
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: w.Touchpoint, EventID: "e3", Seen: 1 << 40}}))
		f.accept(t, w.LeadsID, "e4", "buy")
		equal(t, "closed ones hear nothing", len(f.notices(t)), 1) // the second visit does
	}},
	{"depth", func(t *testing.T, f *fixture) {
		workflow, ids := f.started(t, f.journey(t), 1)
		w := f.wait(t, ids[0], workflow, "buy")
		must[bool](t)(f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: "e1", Name: "buy", LeadsID: w.LeadsID, Depth: 3}))
		equal(t, "awaited", f.await(t, w).Events[0].Depth, 3)
		listed := must[[]waypost.Event](t)(f.ListEvents(t.Context(), scope, waypost.EventFilter{LeadsID: w.LeadsID}, waypost.Page{}))
		equal(t, "listed", listed[0].Depth, 3)
	}},
	{"more than one look", func(t *testing.T, f *fixture) {
		workflow, ids := f.started(t, f.journey(t), 2)
		waits := []waypost.Wait{f.wait(t, ids[0], workflow, "buy"), f.wait(t, ids[1], workflow, "buy")}
		for i := range 150 {
			f.accept(t, waits[0].LeadsID, fmt.Sprint("a", i), "buy")
			if i < 3 {
				f.accept(t, waits[1].LeadsID, fmt.Sprint("b", i), "buy")
			}
		}
		states := must[map[waypost.Touchpoint]waypost.WaitState](t)(f.Await(t.Context(), append(waits, waits...)))
		equal(t, "states", len(states), 2)
		first := states[waits[0].Touchpoint].Events
		equal(t, "first", len(first), waypost.MaxWaitEvents)
		equal(t, "oldest", first[0].EventID, "a0")
		equal(t, "other", eventIDs(t, states[waits[1].Touchpoint]), "b0 b1 b2")
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: waits[0].Touchpoint, Seen: first[99].Seq}}))
		rest := f.await(t, waits[0])
		equal(t, "rest", len(rest.Events), 50)
		equal(t, "next", rest.Events[0].EventID, "a100")
		equal(t, "none", len(must[map[waypost.Touchpoint]waypost.WaitState](t)(f.Await(t.Context(), nil))), 0)
	}},
	{"one of several", func(t *testing.T, f *fixture) {
		workflow, ids := f.started(t, f.journey(t), 1)
		w := f.wait(t, ids[0], workflow, "buy")
		w.Events = []string{"buy", "sell"}
		f.accept(t, w.LeadsID, "e1", "sell")
		f.accept(t, w.LeadsID, "e2", "buy")
		f.accept(t, w.LeadsID, "e3", "bu")
		s := f.await(t, w)
		equal(t, "in their order", eventIDs(t, s), "e1 e2")
		f.accept(t, w.LeadsID, "e4", "other")
		f.accept(t, w.LeadsID, "e5", "sell")
		equal(t, "notices", f.notices(t), []waypost.Notice{{WorkflowID: workflow, EnrollmentID: ids[0], EventID: "e5"}})
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: w.Touchpoint, Seen: s.Events[0].Seq}}))
		equal(t, "unseen", eventIDs(t, f.await(t, w)), "e2 e5")
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: w.Touchpoint, EventID: "e5", Arm: 1, Seen: 1 << 40}}))
		equal(t, "closed", f.await(t, w), waypost.WaitState{Closed: true, EventID: "e5", Arm: 1})
		f.accept(t, w.LeadsID, "e6", "buy")
		equal(t, "closed ones hear nothing", len(f.notices(t)), 0)
	}},
	{"match", func(t *testing.T, f *fixture) {
		workflow, ids := f.started(t, f.journey(t), 1)
		w := f.wait(t, ids[0], workflow, "buy")
		f.accept(t, w.LeadsID, "e1", "buy")
		f.accept(t, w.LeadsID, "e2", "buy")
		s := f.await(t, w)
		match := waypost.WaitResult{Touchpoint: w.Touchpoint, EventID: "e1", Seen: s.Events[0].Seq}
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{match, {Touchpoint: w.Touchpoint, EventID: "e2"}}))
		closed := waypost.WaitState{Closed: true, EventID: "e1"}
		equal(t, "closed", f.await(t, w), closed)
		late := []waypost.WaitResult{match, {Touchpoint: w.Touchpoint, EventID: "e2"}, {Touchpoint: w.Touchpoint, Close: true}, {Touchpoint: waypost.Touchpoint{EnrollmentID: ids[0], Visit: 9}, Close: true}}
		for _, r := range late {
			ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{r}))
		}
		expired := w
		expired.Expired = true
		equal(t, "still closed", f.await(t, expired), closed)

		// The next visit to the node has e2 only, another node both. A match with an
		// event that was used up counts as a look.
		again, elsewhere := w, w
		again.Visit, elsewhere.Visit, elsewhere.NodeID = 2, 3, "other"
		equal(t, "next visit", eventIDs(t, f.await(t, again)), "e2")
		equal(t, "another node", eventIDs(t, f.await(t, elsewhere)), "e1 e2")
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: again.Touchpoint, EventID: "e1", Seen: 1}, {Touchpoint: elsewhere.Touchpoint, EventID: "e1", Seen: 1}}))
		equal(t, "next visit", eventIDs(t, f.await(t, again)), "e2")
		equal(t, "another node", f.await(t, elsewhere), closed)
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: again.Touchpoint, Close: true, Seen: 5}}))
		equal(t, "timed out", f.await(t, again), waypost.WaitState{Closed: true})
		ok(t, f.RecordWaits(t.Context(), nil))
	}},
	{"expired", func(t *testing.T, f *fixture) {
		workflow, ids := f.started(t, f.journey(t), 1)
		w := f.wait(t, ids[0], workflow, "buy")
		w.Expired = true
		f.accept(t, w.LeadsID, "e1", "buy")
		s := f.await(t, w)
		equal(t, "an event is left", eventIDs(t, s), "e1")
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: w.Touchpoint, Seen: s.Events[0].Seq}}))
		for range 2 {
			equal(t, "closed", f.await(t, w), waypost.WaitState{Closed: true})
		}
		f.notices(t)
		f.accept(t, w.LeadsID, "e2", "buy")
		equal(t, "notices", len(f.notices(t)), 0)
	}},
	{"canceled", func(t *testing.T, f *fixture) {
		workflow, ids := f.started(t, f.journey(t), 1)
		w := f.wait(t, ids[0], workflow, "buy")
		f.await(t, w)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[0]))
		f.notices(t)
		f.accept(t, w.LeadsID, "e1", "buy")
		equal(t, "notices", len(f.notices(t)), 0)
		equal(t, "did not time out", f.await(t, w).Closed, false)
	}},
	{"event against await", testEventAgainstAwait},
	{"batches at the same time", testAwaitBatches},
}

// testEventAgainstAwait accepts each of 1,000 events while its wait is registered:
// the registration returns it or the workflow is signaled, and two runs of the look
// that follows find one match.
func testEventAgainstAwait(t *testing.T, f *fixture) {
	const loops, rounds = 4, 250
	journey := f.journey(t)
	var workflows, ids [loops]string
	var waits [loops]waypost.Wait
	for i := range loops {
		workflow, one := f.started(t, journey, 1)
		workflows[i], ids[i] = workflow, one[0]
		waits[i] = f.wait(t, one[0], workflow, "")
		waits[i].Until = f.clock.Now().Add(1000 * time.Hour)
	}
	var mu sync.Mutex
	returned := map[string]bool{}
	for _, err := range atOnce(loops, func(loop int) error {
		var batch []waypost.Wait
		for round := range rounds {
			name := fmt.Sprint(loop, " ", round)
			w := waits[loop]
			w.Events, w.Visit = []string{name}, round+1
			errs := atOnce(2, func(i int) error {
				if i == 0 {
					_, err := f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: name, Name: name, LeadsID: w.LeadsID})
					return err
				}
				states, err := f.Await(t.Context(), []waypost.Wait{w})
				if len(states[w.Touchpoint].Events) > 0 {
					mu.Lock()
					defer mu.Unlock()
					returned[name] = true
				}
				return err
			})
			if batch = append(batch, w); len(batch) == 25 {
				errs = append(errs, atOnce(2, func(int) error { return look(t.Context(), f, batch) })...)
				batch = nil
			}
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
	signaled := map[string]int{}
	for _, n := range f.notices(t) {
		signaled[n.EventID]++
	}
	both := 0
	for loop := range loops {
		var all []waypost.Wait
		for round := range rounds {
			name := fmt.Sprint(loop, " ", round)
			if !returned[name] && signaled[name] == 0 {
				t.Errorf("event %s was lost", name)
			}
			if returned[name] && signaled[name] > 0 {
				both++
			}
			if signaled[name] > 1 {
				t.Errorf("event %s was signaled %d times", name, signaled[name])
			}
			w := waits[loop]
			w.Events, w.Visit = []string{name}, round+1
			all = append(all, w)
		}
		states := must[map[waypost.Touchpoint]waypost.WaitState](t)(f.Await(t.Context(), all))
		for _, w := range all {
			equal(t, "state", states[w.Touchpoint], waypost.WaitState{Closed: true, EventID: w.Events[0]})
		}
	}
	t.Logf("%d of %d registrations returned the event, %d were signaled, %d both", len(returned), loops*rounds, len(signaled), both)
}

// look does what an activity does that a notice or a registration has called for.
func look(ctx context.Context, f *fixture, waits []waypost.Wait) error {
	states, err := f.Await(ctx, waits)
	if err != nil {
		return err
	}
	var results []waypost.WaitResult
	for _, w := range waits {
		for _, e := range states[w.Touchpoint].Events {
			results = append(results, waypost.WaitResult{Touchpoint: w.Touchpoint, EventID: e.EventID, Seen: e.Seq})
		}
	}
	return f.RecordWaits(ctx, results)
}

// testAwaitBatches runs what locks leads, waits, deliveries and enrollments in
// batches of different orders: none may end in a deadlock.
func testAwaitBatches(t *testing.T, f *fixture) {
	workflow, ids := f.started(t, f.journey(t), 30)
	waits := make([]waypost.Wait, len(ids))
	for i, id := range ids {
		waits[i] = f.wait(t, id, workflow, "buy")
	}
	const runs = 8
	for _, err := range atOnce(runs, func(run int) error {
		mine := make([]waypost.Wait, len(waits))
		results := make([]waypost.WaitResult, len(waits))
		for i, w := range waits {
			to := i
			if run%2 == 1 {
				to = len(waits) - 1 - i
			}
			mine[to] = w
			results[to] = waypost.WaitResult{Touchpoint: w.Touchpoint, Seen: int64(run)}
		}
		for round := range 10 {
			if _, err := f.Await(t.Context(), mine); err != nil {
				return fmt.Errorf("await: %w", err)
			}
			if err := f.RecordWaits(t.Context(), results); err != nil {
				return fmt.Errorf("record: %w", err)
			}
			for i := range 5 {
				w := waits[(run*7+round*5+i)%len(waits)]
				if _, err := f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: fmt.Sprint(run, round, i), Name: "buy", LeadsID: w.LeadsID}); err != nil {
					return fmt.Errorf("event: %w", err)
				}
			}
			if round == 5 && run < 2 {
				if err := f.CancelEnrollments(t.Context(), ids[:20]); err != nil {
					return fmt.Errorf("cancel: %w", err)
				}
			}
		}
		return nil
	}) {
		ok(t, err)
	}
	for _, w := range waits {
		equal(t, "closed", f.await(t, w).Closed, false)
	}
}
