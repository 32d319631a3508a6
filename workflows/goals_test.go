package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/store"
)

// forgetful is a database that takes arms and then fails: once.
type forgetful struct {
	*store.Store
	failed atomic.Bool
}

func (s *forgetful) TakeArms(ctx context.Context, b waypost.ArmBatch) (map[waypost.Touchpoint]waypost.TakenArm, error) {
	taken, err := s.Store.TakeArms(ctx, b)
	if err == nil && !s.failed.Swap(true) {
		return nil, errors.New("the connection broke")
	}
	return taken, err
}

// The better arm of a split takes everybody, until people take that back.
func TestSplitWinner(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	v := w.publish(`{"name":"Better","start":"arms","goal":{"event":"purchase","when":"event.total > 0","value":"event.total"},"nodes":[
		{"id":"arms","type":"split","arms":[{"weight":1,"next":"a"},{"weight":1,"next":"b"}],"winner":{"by":"goal","after":"48h"}},
		{"id":"a","type":"touchpoint","webhook":"WEBHOOK"},
		{"id":"b","type":"touchpoint","webhook":"WEBHOOK"}]}`)
	run := func(n int) (arms [2][]waypost.Enrollment, said []string) {
		t.Helper()
		var enrolled []waypost.Enrollment
		for range n {
			enrolled = append(enrolled, w.enter(v, w.lead(nil)))
		}
		broken := &forgetful{Store: w.store}
		w.registerWith(broken)
		w.run()
		if !broken.failed.Load() {
			t.Error("no answer was lost")
		}
		for _, e := range enrolled {
			_, lines := w.timeline(e)
			arm := slices.Index([]string{"arms took a", "arms took b"}, lines[1])
			arms[arm] = append(arms[arm], e)
			said = append(said, w.reasons(e, "arms")[1])
		}
		w.newEnvironment()
		return arms, said
	}
	w.newEnvironment()
	arms, _ := run(90)
	more, _ := run(90)
	for arm := range arms {
		arms[arm] = append(arms[arm], more[arm]...)
	}
	if len(arms[0]) < 30 || len(arms[1]) < 30 {
		t.Fatalf("%d and %d took the arms", len(arms[0]), len(arms[1]))
	}
	for i, e := range slices.Concat(arms[0][:2], arms[1][:20]) {
		_, err := w.store.AcceptEvent(context.Background(), scope, waypost.Event{EventID: fmt.Sprint("e", i), Name: "purchase", LeadsID: e.LeadsID, Properties: map[string]any{"total": 2.5}})
		must(t, err)
	}
	counts := func(of waypost.Statistics) (goal waypost.GoalSum, byArm [2]waypost.GoalSum) {
		node := of.Versions[1].Node("arms")
		return of.Versions[1].Goal.First, [2]waypost.GoalSum{node.Arm(0).First, node.Arm(1).First}
	}
	st, err := w.store.Statistics(context.Background(), waypost.StatisticsQuery{JourneyID: v.JourneyID})
	must(t, err)
	goal, byArm := counts(st)
	if goal != (waypost.GoalSum{Leads: 180, Converted: 22, Worth: waypost.AmountOf(55), Open: 158}) || byArm[0].Leads != len(arms[0]) || byArm[0].Converted != 2 || byArm[1].Converted != 20 {
		t.Errorf("counted %+v, %+v", goal, byArm)
	}

	w.newEnvironmentAt(w.env.Now().Add(48 * time.Hour))
	arms, said := run(10)
	if len(arms[1]) != 10 || said[0] != "took: arm 2: the winner" {
		t.Errorf("after the decision %d took the winner: %q", len(arms[1]), said)
	}
	_, err = w.store.ReverseWinner(context.Background(), scope, v.JourneyID, 1, "arms")
	must(t, err)
	arms, said = run(40)
	if len(arms[0]) == 0 || len(arms[1]) == 0 || slices.Contains(said, "took: arm 2: the winner") {
		t.Errorf("after it was taken back: %d and %d, %q", len(arms[0]), len(arms[1]), said)
	}
}

// Whoever is in the control group of the journey that an enroll node names goes on, and is held out there.
func TestEnrollHeldOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	next := w.publish(`{"name":"Next","start":"hello","controlGroup":0.5,"nodes":[{"id":"hello","type":"touchpoint","webhook":"WEBHOOK"}]}`)
	v := w.publish(fmt.Sprintf(`{"name":"First","start":"on","nodes":[{"id":"on","type":"enroll","journey":%q,"next":"end"},{"id":"end","type":"exit"}]}`, next.JourneyID))
	enrolled := w.enroll(v, 20)
	w.run()
	held := 0
	for _, e := range enrolled {
		made, _, err := w.store.ListEnrollments(context.Background(), scope, waypost.EnrollmentFilter{JourneyID: next.JourneyID, LeadsID: e.LeadsID}, waypost.Page{})
		must(t, err)
		want, status := "took: enrolled: "+made[0].ID, waypost.EnrollmentPending
		if waypost.HeldOut(next.JourneyID, e.LeadsID, 0.5) {
			want, status = "took: held out by the control group: "+made[0].ID, waypost.EnrollmentHeldOut
			held++
		}
		if said := w.reasons(e, "on")[1]; said != want || made[0].Status != status {
			t.Errorf("%q, want %q; it is %s", said, want, made[0].Status)
		}
	}
	if held == 0 || held == len(enrolled) {
		t.Errorf("%d of %d are held out", held, len(enrolled))
	}
}
