package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
)

// waitingAt has enrollments of a journey wait at a node, as a workflow records it.
func (f *fixture) waitingAt(t testing.TB, node string, seq int, ids ...string) {
	t.Helper()
	var progress []waypost.Progress
	for _, id := range ids {
		p := f.progress(id, seq, waypost.EnrollmentWaiting)
		p.NodeID = node
		progress = append(progress, p)
	}
	ok(t, f.RecordProgress(t.Context(), progress))
}

// versions makes a journey with n versions; the enrollments of the second one end by an
// event "leave".
func (f *fixture) versions(t testing.TB, n int) string {
	t.Helper()
	journey := f.journey(t)
	for v := 2; v <= n; v++ {
		definition := `{"name":"Welcome"}`
		if v == 2 {
			definition = `{"name":"Welcome","exitOn":[{"event":"leave"}]}`
		}
		_, err := f.PublishJourney(t.Context(), scope, journey, waypost.Publication{Name: "Welcome", Hash: fmt.Sprint("hash ", v), Definition: []byte(definition)})
		ok(t, err)
	}
	return journey
}

func (f *fixture) migrate(t testing.TB, m waypost.Migration) waypost.Migrated {
	t.Helper()
	return must[waypost.Migrated](t)(f.MigrateEnrollments(t.Context(), scope, m, false))
}

// leaving is what a workflow lets go of enrollments that wait since seq.
func (f *fixture) leaving(t testing.TB, journey, launch string, seq int, move waypost.Move, ids ...string) waypost.LeavingBatch {
	t.Helper()
	b := waypost.LeavingBatch{JourneyID: journey, LaunchID: launch, Version: 1}
	for _, id := range ids {
		b.Items = append(b.Items, waypost.Leaving{
			Touchpoint: waypost.Touchpoint{EnrollmentID: id, Visit: 1}, LeadsID: f.enrollment(t, id).LeadsID, Seq: seq, Move: move,
			Carried: []byte(`{"from":"` + id + `"}`),
		})
	}
	return b
}

// letGo returns those of the batch that have left, in its order.
func (f *fixture) letGo(t testing.TB, b waypost.LeavingBatch) []string {
	t.Helper()
	left := must[map[string]bool](t)(f.LetGo(t.Context(), b))
	var ids []string
	for _, item := range b.Items {
		if left[item.EnrollmentID] {
			ids = append(ids, item.EnrollmentID)
		}
	}
	equal(t, "those that have left", len(left), len(ids))
	return ids
}

// orders are the orders for enrollments of version 1 that wait since seq.
func (f *fixture) orders(t testing.TB, seq int, ids ...string) map[string]waypost.Move {
	t.Helper()
	seqs := map[string]int{}
	for _, id := range ids {
		seqs[id] = seq
	}
	return must[map[string]waypost.Move](t)(f.Moves(t.Context(), 1, seqs))
}

var moveTests = []test{
	{"order", func(t *testing.T, f *fixture) {
		journey := f.versions(t, 2)
		single, ids := f.started(t, journey, 1)
		group, more := f.started(t, journey, 3)
		launch, cohorts := f.enrolled(t, journey, 2)
		of := cohorts[0].Members
		elsewhere := f.enroll(t, f.versions(t, 2), 1)
		unclaimed := f.enroll(t, journey, 1)
		f.waitingAt(t, "wait", 3, ids[0], more[0], more[1], of[0].EnrollmentID, elsewhere[0])
		f.waitingAt(t, "other", 3, more[2], of[1].EnrollmentID)
		f.notices(t)
		m := waypost.Migration{JourneyID: journey, From: 1, To: 2, Nodes: map[string]string{"wait": "wait2", "nowhere": "x"}}
		for _, sc := range foreign {
			_, err := f.MigrateEnrollments(t.Context(), sc, m, false)
			wantCode(t, err, waypost.CodeNotFound)
		}
		all := append(append([]string{of[0].EnrollmentID, of[1].EnrollmentID, elsewhere[0], unclaimed[0]}, ids...), more...)
		equal(t, "a dry run", must[waypost.Migrated](t)(f.MigrateEnrollments(t.Context(), scope, m, true)), waypost.Migrated{Matched: 4})
		equal(t, "orders of a dry run", len(f.orders(t, 3, all...)), 0)
		for range 2 {
			equal(t, "counts", f.migrate(t, m), waypost.Migrated{Matched: 4, Moved: 4})
		}
		to := waypost.Move{To: 2, Node: "wait2"}
		equal(t, "orders", f.orders(t, 3, all...), map[string]waypost.Move{ids[0]: to, more[0]: to, more[1]: to, of[0].EnrollmentID: to})
		equal(t, "of where they stood before", len(f.orders(t, 2, all...)), 0)
		f.clock.Advance(time.Second)
		notified := map[string]bool{}
		for _, n := range f.notices(t) {
			notified[n.WorkflowID] = n.EnrollmentID == ""
		}
		equal(t, "told", notified, map[string]bool{single: true, group: true, cohorts[0].ID: true})
		// An order is for where it stands: another one replaces it, and going on or ending
		// forgets it.
		m.Nodes = map[string]string{"wait": "late"}
		f.migrate(t, m)
		f.waitingAt(t, "wait", 4, more[0])
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(more[1], 3, waypost.EnrollmentRunning)})) // old news
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[0]))
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, launch))
		f.sweep(t, 10)
		equal(t, "left over", f.orders(t, 3, all...), map[string]waypost.Move{more[1]: {To: 2, Node: "late"}})
		equal(t, "of the next visit", len(f.orders(t, 4, all...)), 0)
		equal(t, "of those", f.migrate(t, m), waypost.Migrated{Matched: 2, Moved: 2})
	}},
	{"let go", func(t *testing.T, f *fixture) {
		journey := f.versions(t, 3)
		workflow, ids := f.started(t, journey, 4)
		f.waitingAt(t, "wait", 3, ids...)
		m := waypost.Migration{JourneyID: journey, From: 1, To: 2, Nodes: map[string]string{"wait": "wait2"}}
		f.migrate(t, m)
		to := waypost.Move{To: 2, Node: "wait2"}
		b := f.leaving(t, journey, "", 3, to, ids[:3]...)
		stale := b
		stale.Items = slices.Clone(b.Items)
		stale.Items[0].Seq, stale.Items[1].Move.Node, stale.Items[2].Move = 4, "other", waypost.Move{}
		equal(t, "what was not ordered", f.letGo(t, stale), []string(nil))
		f.clock.Advance(time.Minute)
		equal(t, "left", f.letGo(t, b), ids[:3])
		// A second run finds that they have left, and makes no second cohort.
		for _, again := range []waypost.LeavingBatch{b, stale} {
			equal(t, "again", f.letGo(t, again), ids[:3])
		}
		e := f.enrollment(t, ids[0])
		equal(t, "version", e.Version, 2)
		equal(t, "status", e.Status, waypost.EnrollmentPending)
		equal(t, "workflow", e.WorkflowID, "")
		equal(t, "nothing for those who enroll", must[*waypost.Cohort](t)(f.ClaimCohort(t.Context())), (*waypost.Cohort)(nil))
		cohorts := f.claimAll(t, 10)
		if len(cohorts) != 1 || cohorts[0].Version.Version != 2 || cohorts[0].LaunchID != "" || cohorts[0].ID == workflow {
			t.Fatalf("cohorts %+v", cohorts)
		}
		var members []waypost.CohortMember
		for _, item := range b.Items {
			members = append(members, waypost.CohortMember{EnrollmentID: item.EnrollmentID, LeadsID: item.LeadsID, Carried: json.RawMessage(item.Carried)})
		}
		equal(t, "members", cohorts[0].Members, members)
		pending, oldest, err := f.OutboxLag(t.Context())
		ok(t, err)
		if pending != 3 || oldest != 0 {
			t.Errorf("%d pending, the oldest for %s: it counts from the move on", pending, oldest)
		}
		ok(t, f.MarkStarted(t.Context(), cohorts[0].ID))
		equal(t, "the new workflow", f.enrollment(t, ids[0]).WorkflowID, cohorts[0].ID)
		f.waitingAt(t, "wait2", 4, ids[:3]...)
		timeline := f.timeline(t, ids[0])
		equal(t, "versions of the timeline", []int{timeline[0].Version, timeline[1].Version}, []int{1, 2})
		// Back again: what the first workflow still asks for does not count.
		back := waypost.Migration{JourneyID: journey, From: 2, To: 1, Nodes: map[string]string{"wait2": "wait"}}
		equal(t, "back", f.migrate(t, back), waypost.Migrated{Matched: 3, Moved: 3})
		there := f.leaving(t, journey, "", 4, waypost.Move{To: 1, Node: "wait"}, ids[0])
		there.Version = 2
		equal(t, "left back", f.letGo(t, there), ids[:1])
		f.waitingAt(t, "wait", 5, ids[0])
		f.migrate(t, m)
		equal(t, "the first workflow's", f.letGo(t, b), ids[:3])
		equal(t, "still there", f.enrollment(t, ids[0]).Version, 1)
	}},
	{"a single one, and one of a launch", func(t *testing.T, f *fixture) {
		journey := f.versions(t, 2)
		_, ids := f.started(t, journey, 1)
		launch, cohorts := f.enrolled(t, journey, 2)
		of := cohorts[0].Members
		f.waitingAt(t, "wait", 1, ids[0], of[0].EnrollmentID)
		f.migrate(t, waypost.Migration{JourneyID: journey, From: 1, To: 2, Nodes: map[string]string{"wait": "wait2"}})
		to := waypost.Move{To: 2, Node: "wait2"}
		f.letGo(t, f.leaving(t, journey, "", 1, to, ids[0]))
		f.clock.Advance(time.Second) // cohorts are claimed in the order of their making
		f.letGo(t, f.leaving(t, journey, launch, 1, to, of[0].EnrollmentID))
		next := f.claimAll(t, 10)
		if len(next) != 2 || !waypost.IsID(waypost.PrefixCohort, next[0].ID) || next[0].LaunchID != "" || next[1].LaunchID != launch {
			t.Fatalf("cohorts %+v", next)
		}
		equal(t, "of the launch", f.progressOf(t, launch).Enrolled, 2)
		// The launch still has it.
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, launch))
		f.sweep(t, 10)
		for _, m := range of {
			equal(t, m.EnrollmentID, f.status(t, m.EnrollmentID), waypost.EnrollmentCanceled)
		}
		equal(t, "the other", f.status(t, ids[0]), waypost.EnrollmentPending)
	}},
	{"canceled before", func(t *testing.T, f *fixture) {
		journey := f.versions(t, 2)
		_, ids := f.started(t, journey, 2)
		f.waitingAt(t, "wait", 1, ids...)
		f.migrate(t, waypost.Migration{JourneyID: journey, From: 1, To: 2, Nodes: map[string]string{"wait": "wait2"}})
		b := f.leaving(t, journey, "", 1, waypost.Move{To: 2, Node: "wait2"}, ids...)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[0]))
		equal(t, "left", f.letGo(t, b), ids[1:])
		equal(t, "canceled", f.enrollment(t, ids[0]).Version, 1)
		// And while no workflow has it yet: it is told once it has one.
		f.clock.Advance(time.Second)
		f.notices(t)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[1]))
		equal(t, "before the start", len(f.notices(t)), 0)
		c := f.claimAll(t, 10)[0]
		ok(t, f.MarkStarted(t.Context(), c.ID))
		f.clock.Advance(time.Second)
		equal(t, "after it", f.notices(t), []waypost.Notice{{WorkflowID: c.ID, EnrollmentID: ids[1]}})
	}},
	{"events", func(t *testing.T, f *fixture) {
		journey := f.versions(t, 2)
		workflow, ids := f.started(t, journey, 3)
		f.waitingAt(t, "bought", 1, ids...)
		b := f.leaving(t, journey, "", 1, waypost.Move{To: 2, Node: "bought2"}, ids...)
		for i, id := range ids {
			w := f.wait(t, id, workflow, "buy")
			b.Items[i].Wait = &w
			f.await(t, w)
		}
		f.migrate(t, waypost.Migration{JourneyID: journey, From: 1, To: 2, Nodes: map[string]string{"bought": "bought2"}})
		leads := []int64{b.Items[0].LeadsID, b.Items[1].LeadsID}
		f.accept(t, leads[0], "unseen", "buy")
		f.accept(t, leads[1], "seen", "buy")
		f.accept(t, leads[1], "another", "sell")
		seen := f.await(t, *b.Items[1].Wait).Events[0].Seq
		ok(t, f.RecordWaits(t.Context(), []waypost.WaitResult{{Touchpoint: b.Items[1].Touchpoint, Seen: seen}}))
		equal(t, "one whose workflow looks first stays", f.letGo(t, b), ids[1:])
		f.clock.Advance(time.Second)
		f.notices(t)
		f.accept(t, leads[1], "later", "buy")
		f.clock.Advance(time.Second)
		equal(t, "the first workflow is not told any more", len(f.notices(t)), 0)
		// The wait there has what was accepted since the wait here began.
		again := *b.Items[1].Wait
		again.Visit = 2
		equal(t, "there", eventIDs(t, f.await(t, again)), "seen later")
		// Its version ends by an event, the first one does not.
		f.accept(t, leads[0], "leave 0", "leave")
		f.accept(t, leads[1], "leave 1", "leave")
		equal(t, "of the first version", f.status(t, ids[0]), waypost.EnrollmentWaiting)
		f.wantExited(t, ids[1], "leave", f.clock.Now())
	}},
	{"beside everything else", func(t *testing.T, f *fixture) {
		// Orders, moves, events and cancels of the same enrollments at the same time: each
		// one has left or has not, and is in one cohort.
		journey := f.versions(t, 2)
		_, ids := f.started(t, journey, 12)
		f.waitingAt(t, "wait", 1, ids...)
		m := waypost.Migration{JourneyID: journey, From: 1, To: 2, Nodes: map[string]string{"wait": "wait2"}}
		b := f.leaving(t, journey, "", 1, waypost.Move{To: 2, Node: "wait2"}, ids...)
		for _, err := range atOnce(12, func(i int) error {
			switch i % 4 {
			case 0:
				_, err := f.MigrateEnrollments(t.Context(), scope, m, false)
				return err
			case 1:
				if _, err := f.MigrateEnrollments(t.Context(), scope, m, false); err != nil {
					return err
				}
				_, err := f.LetGo(t.Context(), b)
				return err
			case 2:
				return f.CancelEnrollments(t.Context(), ids[:i/2])
			}
			_, err := f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: fmt.Sprint(i), Name: "leave", LeadsID: b.Items[i].LeadsID})
			return err
		}) {
			ok(t, err)
		}
		f.letGo(t, b)
		in := map[string]int{}
		for _, c := range f.claimAll(t, 10) {
			for _, member := range c.Members {
				in[member.EnrollmentID]++
			}
		}
		for _, id := range ids {
			if e := f.enrollment(t, id); in[id] != e.Version-1 || e.EndedAt == nil && e.Version != 2 {
				t.Errorf("%s is %s in version %d and %d new cohorts", id, e.Status, e.Version, in[id])
			}
		}
	}},
	{"many", func(t *testing.T, f *fixture) {
		// More than one step takes.
		journey := f.versions(t, 2)
		_, cohorts := f.enrolled(t, journey, 620)
		for _, c := range cohorts {
			var ids []string
			for _, member := range c.Members {
				ids = append(ids, member.EnrollmentID)
			}
			f.waitingAt(t, "wait", 1, ids...)
		}
		m := waypost.Migration{JourneyID: journey, From: 1, To: 2, Nodes: map[string]string{"wait": "wait2"}}
		equal(t, "counts", f.migrate(t, m), waypost.Migrated{Matched: 620, Moved: 620})
	}},
}
