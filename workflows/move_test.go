package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
	"waypost/store"
	"waypost/workflows"
)

// publishNext publishes another version of a journey.
func (w *world) publishNext(v waypost.JourneyVersion, definition string) waypost.JourneyVersion {
	w.t.Helper()
	def, problems := journey.Parse([]byte(strings.ReplaceAll(definition, "WEBHOOK", w.webhook.ID)))
	problems = append(problems, def.Check(func(id string) bool { return id == w.webhook.ID }, nil)...)
	must(w.t, problems.Err("definition"))
	next, err := w.store.PublishJourney(context.Background(), scope, v.JourneyID, waypost.Publication{Name: def.Name(), Hash: def.Hash(), Definition: def.Canonical(), Webhooks: def.Webhooks()})
	must(w.t, err)
	return next
}

// migrate orders those that wait at a node to go on at another one.
func (w *world) migrate(from, to waypost.JourneyVersion, nodes map[string]string) waypost.Migrated {
	w.t.Helper()
	m := waypost.Migration{JourneyID: from.JourneyID, From: from.Version, To: to.Version, Nodes: nodes}
	done, err := w.store.MigrateEnrollments(context.Background(), scope, m, false)
	must(w.t, err)
	return done
}

// arrived runs the workflow of those that were moved, in an environment whose clock
// goes on, after plan has said what is to happen there.
func (w *world) arrived(plan func()) workflows.JourneyResult {
	w.t.Helper()
	moved := w.waiting()
	w.restart(w.env.Now())
	w.next = moved
	if plan != nil {
		plan()
	}
	return w.run()
}

// A version that every case moves from, and the nodes that it moves to.
const (
	moveFrom = `{"name":"First","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":"WEBHOOK","next":"wait"},
		{"id":"wait","type":"delay","for":"10h","next":"thanks"},
		{"id":"thanks","type":"touchpoint","webhook":"WEBHOOK"}]}`
	moveTo = `{"name":"Second","start":"other","nodes":[
		{"id":"other","type":"touchpoint","webhook":"WEBHOOK","next":"check"},
		{"id":"check","type":"branch","cases":[{"when":"lead.name == 'a'","next":"same"},{"when":"lead.name == 'b'","next":"longer"},
			{"when":"lead.name == 'c'","next":"morning"}],"otherwise":"event"},
		{"id":"same","type":"delay","for":"PT600M","next":"later"},
		{"id":"longer","type":"delay","for":"30h","next":"later"},
		{"id":"morning","type":"waitUntil","time":"08:00","timezone":"UTC","next":"later"},
		{"id":"later","type":"touchpoint","webhook":"WEBHOOK","next":"end"},
		{"id":"event","type":"waitForEvent","event":"purchase","timeout":"5h","next":"later","onTimeout":"end"},
		{"id":"end","type":"exit"}]}`
)

// Who waits in one version goes on in another: at the node that was said, with the time
// that it has waited already if that waits alike, paused if it was paused.
func TestMove(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	tests := map[string]struct {
		node          string
		pause, resume time.Duration
		skip          bool
		event         time.Duration // when one is reported
		later         time.Duration // when the message of the new version is sent; 0 is never
		timeline      string        // what it says from the move on
	}{
		"the wait goes on":       {node: "same", later: 10 * hour, timeline: "same entered|same waited later|later sent end|end exited"},
		"another wait begins":    {node: "longer", later: 32 * hour, timeline: "longer entered|longer waited later|later sent end|end exited"},
		"until a time of day":    {node: "morning", later: 24 * hour, timeline: "morning entered|morning entered|morning waited later|later sent end|end exited"},
		"a message":              {node: "later", later: 2 * hour, timeline: "later entered|later sent end|end exited"},
		"the end":                {node: "end", timeline: "end entered|end exited"},
		"an event":               {node: "event", event: 4 * hour, later: 4 * hour, timeline: "event entered|event matched later|later sent end|end exited"},
		"no event":               {node: "event", timeline: "event entered|event timedOut end|end exited"},
		"paused, shift":          {node: "same", pause: hour, resume: 5 * hour, later: 14 * hour, timeline: "same entered|same resumed|same waited later|later sent end|end exited"},
		"paused, skip":           {node: "same", pause: hour, resume: 5 * hour, skip: true, later: 10 * hour},
		"paused beyond the wait": {node: "same", pause: hour, resume: 20 * hour, later: 29 * hour},
		"paused, another wait":   {node: "longer", pause: hour, resume: 5 * hour, later: 35 * hour},
		"paused, a message":      {node: "later", pause: hour, resume: 5 * hour, later: 5 * hour},
	}
	for name, tt := range tests {
		for _, n := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				v := w.publish(moveFrom)
				next := w.publishNext(v, moveTo)
				enrolled := w.enroll(v, n)
				start := w.env.Now()
				if tt.pause > 0 {
					w.at(tt.pause, func(ctx context.Context) {
						_, err := w.store.PauseJourney(ctx, scope, v.JourneyID)
						must(t, err)
					})
				}
				w.at(2*hour, func(context.Context) {
					if done := w.migrate(v, next, map[string]string{"wait": tt.node}); done != (waypost.Migrated{Matched: n, Moved: n}) {
						t.Errorf("%+v of %d", done, n)
					}
				})
				result := w.run()
				if took := w.env.Now().Sub(start); took > 2*hour+time.Minute {
					t.Errorf("the first workflow ended after %s", took)
				}
				if n == 1 && (result.Status != "moved" || fmt.Sprint(result.Path) != "[{hello delivered} {wait moved}]") || n > 1 && result.Moved != n {
					t.Errorf("the first workflow's result: %+v", result)
				}
				result = w.arrived(func() {
					began := w.env.Now().Sub(start)
					if tt.resume > 0 {
						w.at(tt.resume-began, func(ctx context.Context) {
							for _, e := range enrolled {
								if status, _ := w.timeline(e); status != waypost.EnrollmentPaused {
									t.Errorf("%s is %s while paused", e.ID, status)
								}
							}
							_, err := w.store.ResumeJourney(ctx, scope, v.JourneyID, !tt.skip)
							must(t, err)
						})
					}
					if tt.event > 0 {
						w.at(tt.event-began, func(ctx context.Context) {
							for _, e := range enrolled {
								w.event(e.ID, e.LeadsID, 1)(ctx)
							}
						})
					}
				})
				if n == 1 && (result.Status != waypost.EnrollmentCompleted || !strings.HasPrefix(fmt.Sprint(result.Path), "[{hello delivered} {wait moved} {"+tt.node)) {
					t.Errorf("the second workflow's result: %+v", result)
				}
				messages := n
				for _, e := range enrolled {
					w.wantMoved(e, next.Version, tt.timeline)
					if tt.later == 0 {
						continue
					}
					messages++
					d, attempts := w.delivery(e, "later")
					if late := attempts[0].At.Sub(start) - tt.later; late < 0 || late > time.Hour {
						t.Errorf("its message was sent %s after the start, want %s", attempts[0].At.Sub(start), tt.later)
					}
					if d.JourneyVersion != next.Version || d.Status != waypost.DeliverySucceeded {
						t.Errorf("the message of version %d is %s", d.JourneyVersion, d.Status)
					}
				}
				if len(w.receiver.posts) != messages {
					t.Errorf("%d messages, want %d", len(w.receiver.posts), messages)
				}
			})
		}
	}
}

// wantMoved fails unless an enrollment has completed in a version, and its timeline
// tells of both.
func (w *world) wantMoved(e waypost.Enrollment, version int, timeline string) {
	w.t.Helper()
	now, entries, err := w.store.Enrollment(context.Background(), scope, e.ID)
	must(w.t, err)
	if now.Status != waypost.EnrollmentCompleted || now.Version != version {
		w.t.Fatalf("%s is %s in version %d", e.ID, now.Status, now.Version)
	}
	moved := slices.IndexFunc(entries, func(e waypost.TimelineEntry) bool { return strings.HasPrefix(e.Reason, "moved from version 1") })
	if moved < 1 {
		w.t.Fatalf("the timeline does not tell of the move: %+v", entries)
	}
	var lines []string
	seq := 0
	for i, entry := range entries {
		if i >= moved {
			lines = append(lines, strings.TrimSpace(entry.NodeID+" "+entry.What+" "+entry.Next))
		}
		if entry.Seq == 0 {
			continue // of a pause
		}
		if seq++; entry.Seq != seq || entry.Version != 1+min(1, max(0, i-moved+1))*(version-1) {
			w.t.Errorf("entry %d: %+v", i, entry)
		}
	}
	if got := strings.Join(lines, "|"); timeline != "" && got != timeline {
		w.t.Errorf("from the move on it says %s", got)
	}
}

// A wait for an event that goes on elsewhere loses no event, whenever that comes; and
// one that has come counts before the move does.
func TestMoveOfEventWait(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	second := strings.NewReplacer(`"Waiting"`, `"Second"`, "> 100", "> 50", `"thanks"`, `"thanks2"`, `"sorry"`, `"sorry2"`, `"wait"`, `"wait2"`).Replace(waiting)
	longer := strings.Replace(second, `"24h"`, `"48h"`, 1)
	tests := map[string]struct {
		second string
		// Events by when they are reported: before the move, with it, while the
		// enrollment is in no workflow, and after that.
		before, with, between, after int
		stays                        bool
		matched                      bool
		at                           time.Duration
	}{
		"none":                            {second: second, at: 24 * hour},
		"afterwards":                      {second: second, after: 60, matched: true, at: 6 * hour},
		"between two workflows":           {second: second, between: 60, matched: true, at: 2 * hour},
		"refused before, taken now":       {second: second, before: 60, matched: true, at: 2 * hour},
		"at the time of the move":         {second: second, with: 200, stays: true, matched: true, at: 2 * hour},
		"refused at the time of the move": {second: second, with: 60, matched: true, at: 2 * hour},
		"another wait":                    {second: longer, at: 50 * hour},
		"another wait, refused before":    {second: longer, before: 60, at: 50 * hour},
		"another wait, between workflows": {second: longer, between: 60, matched: true, at: 2 * hour},
		"another wait, at the same time":  {second: longer, with: 200, stays: true, matched: true, at: 2 * hour},
	}
	for name, tt := range tests {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				v := w.publish(waiting)
				next := w.publishNext(v, tt.second)
				enrolled := w.enroll(v, n)
				start := w.env.Now()
				report := func(when string, amount int) func(context.Context) {
					return func(ctx context.Context) {
						for _, e := range enrolled {
							if amount > 0 {
								w.event(when+e.ID, e.LeadsID, amount)(ctx)
							}
						}
					}
				}
				w.at(hour, report("before", tt.before))
				w.at(2*hour, func(ctx context.Context) {
					w.migrate(v, next, map[string]string{"wait": "wait2"})
					report("with", tt.with)(ctx)
				})
				w.run()
				suffix, version := "", 1
				if !tt.stays {
					report("between", tt.between)(context.Background())
					w.arrived(func() { w.at(6*hour-w.env.Now().Sub(start), report("after", tt.after)) })
					suffix, version = "2", 2
				}
				node := "sorry" + suffix
				if tt.matched {
					node = "thanks" + suffix
				}
				for _, e := range enrolled {
					now, _, err := w.store.Enrollment(context.Background(), scope, e.ID)
					must(t, err)
					d, attempts := w.delivery(e, node)
					if late := attempts[0].At.Sub(start) - tt.at; now.Version != version || d.Status != waypost.DeliverySucceeded || late < 0 || late > 3*hour {
						t.Errorf("version %d, %s %s after the start, want version %d and %s", now.Version, d.Status, attempts[0].At.Sub(start), version, tt.at)
					}
				}
				if len(w.receiver.posts) != n {
					t.Errorf("%d messages, want %d", len(w.receiver.posts), n)
				}
			})
		}
	}
}

// What happens to an enrollment between the order and the move comes first, and the
// order is forgotten.
func TestMoveComesTooLate(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		do     func(ctx context.Context, w *world, e waypost.Enrollment) error
		status waypost.EnrollmentStatus
		at     time.Duration
	}{
		"canceled": {at: time.Hour, status: waypost.EnrollmentCanceled, do: func(ctx context.Context, w *world, e waypost.Enrollment) error {
			_, err := w.store.CancelEnrollment(ctx, scope, e.ID)
			return err
		}},
		"canceled with its journey": {at: time.Hour, status: waypost.EnrollmentCanceled, do: func(ctx context.Context, w *world, e waypost.Enrollment) error {
			_, err := w.store.CancelJourney(ctx, scope, e.JourneyID)
			return err
		}},
		"its lead is deleted": {at: time.Hour, status: waypost.EnrollmentCanceled, do: func(ctx context.Context, w *world, e waypost.Enrollment) error {
			return w.store.DeleteLead(ctx, scope, e.LeadsID, nil)
		}},
		"exited": {at: time.Hour, status: waypost.EnrollmentExited, do: func(_ context.Context, w *world, e waypost.Enrollment) error {
			w.acceptEvent(e.LeadsID, "stop")
			return nil
		}},
		// The delay ends before the workflow is told.
		"gone on": {at: 10*time.Hour - 500*time.Millisecond, status: waypost.EnrollmentCompleted, do: func(context.Context, *world, waypost.Enrollment) error {
			return nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			v := w.publish(strings.Replace(moveFrom, `"start"`, `"exitOn":[{"event":"stop"}],"start"`, 1))
			next := w.publishNext(v, moveShort)
			e := w.enroll(v, 1)[0]
			w.at(tt.at, func(ctx context.Context) {
				w.migrate(v, next, map[string]string{"wait": "same"})
				must(t, tt.do(ctx, w, e))
			})
			if result := w.run(); result.Status != tt.status {
				t.Errorf("result %+v", result)
			}
			now, _, err := w.store.Enrollment(context.Background(), scope, e.ID)
			must(t, err)
			if now.Status != tt.status || now.Version != 1 {
				t.Errorf("it is %s in version %d", now.Status, now.Version)
			}
			cohorts, err := w.store.ClaimLaunchCohorts(context.Background(), 10)
			must(t, err)
			if len(cohorts) > 0 {
				t.Errorf("%d cohorts go on in the other version", len(cohorts))
			}
		})
	}
}

// moveShort is a version with one wait like that of moveFrom.
const moveShort = `{"name":"Second","start":"same","nodes":[
	{"id":"same","type":"delay","for":"10h","next":"later"},
	{"id":"later","type":"touchpoint","webhook":"WEBHOOK"}]}`

// lostMoves is a database that lets enrollments go and then fails, some times.
type lostMoves struct {
	*store.Store
	failures atomic.Int32
}

func (s *lostMoves) LetGo(ctx context.Context, b waypost.LeavingBatch) (map[string]bool, error) {
	left, err := s.Store.LetGo(ctx, b)
	if err == nil && s.failures.Add(-1) >= 0 {
		return nil, errors.New("the connection broke")
	}
	return left, err
}

// A part of a cohort is moved, whatever is lost, and the others stay: each enrollment
// is driven by one workflow.
func TestMovePart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	lost := &lostMoves{Store: w.store}
	lost.failures.Store(3)
	w.newEnvironment()
	w.registerWith(lost)
	v := w.publish(`{"name":"First","start":"arms","nodes":[
		{"id":"arms","type":"split","arms":[{"weight":1,"next":"stay"},{"weight":1,"next":"go"}]},
		{"id":"stay","type":"delay","for":"10h","next":"first"},
		{"id":"go","type":"delay","for":"10h","next":"first"},
		{"id":"first","type":"touchpoint","webhook":"WEBHOOK"}]}`)
	next := w.publishNext(v, moveShort)
	enrolled := w.enroll(v, 40)
	moved := 0
	w.at(time.Hour, func(ctx context.Context) {
		for range 2 { // twice has no more effect than once
			done := w.migrate(v, next, map[string]string{"go": "same"})
			if moved = done.Moved; done.Matched != moved || moved == 0 || moved == len(enrolled) {
				t.Errorf("%+v of %d", done, len(enrolled))
			}
		}
	})
	w.env.RegisterDelayedCallback(func() {
		if details := w.details(); !strings.Contains(details, fmt.Sprintf("%d were moved to another version.", moved)) {
			t.Errorf("details: %s", details)
		}
		if again := w.migrate(v, next, map[string]string{"go": "same"}); again != (waypost.Migrated{}) {
			t.Errorf("once they are moved: %+v", again)
		}
	}, 2*time.Hour)
	if result := w.run(); result.Moved != moved || result.Enrollments != len(enrolled) {
		t.Errorf("the first workflow's result: %+v", result)
	}
	if lost.failures.Load() >= 0 {
		t.Error("nothing was lost")
	}
	if result := w.arrived(nil); moved > 1 && result.Enrollments != moved {
		t.Errorf("the second workflow's result: %+v", result)
	}
	seen := map[int]int{}
	for _, e := range enrolled {
		now, _, err := w.store.Enrollment(context.Background(), scope, e.ID)
		must(t, err)
		seen[now.Version]++
		if now.Version == 2 {
			w.wantMoved(e, 2, "same entered|same waited later|later sent|later exited")
			w.delivery(e, "later")
		} else {
			w.delivery(e, "first")
		}
	}
	if seen[2] != moved || seen[1] != len(enrolled)-moved || len(w.receiver.posts) != len(enrolled) {
		t.Errorf("%v by version, %d messages; %d were moved", seen, len(w.receiver.posts), moved)
	}
}

// A workflow that an operator resets to a time before the move finds that its enrollment
// has left: no message is sent twice.
func TestMoveAndReset(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		w := newWorld(t, nil)
		v := w.publish(moveFrom)
		next := w.publishNext(v, moveShort)
		enrolled := w.enroll(v, n)
		w.at(2*time.Hour, func(context.Context) { w.migrate(v, next, map[string]string{"wait": "same"}) })
		w.run()
		w.arrived(nil)
		first := waypost.Cohort{ID: enrolled[0].ID, Version: v}
		for _, e := range enrolled {
			first.Members = append(first.Members, waypost.CohortMember{EnrollmentID: e.ID, LeadsID: e.LeadsID})
		}
		in, _, err := workflows.InputOf(first)
		must(t, err)
		w.restart(w.env.Now())
		w.env.ExecuteWorkflow(workflows.TypeJourney, in)
		must(t, w.env.GetWorkflowError())
		if len(w.receiver.posts) != 2*n {
			t.Errorf("%d messages, want %d", len(w.receiver.posts), 2*n)
		}
		for _, e := range enrolled {
			now, _, err := w.store.Enrollment(context.Background(), scope, e.ID)
			must(t, err)
			if now.Version != next.Version || now.Status != waypost.EnrollmentCompleted {
				t.Errorf("%s is %s in version %d", e.ID, now.Status, now.Version)
			}
		}
	}
}
