package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"waypost"
)

// liftsOf are the parts of statistics that compare groups.
type liftsOf struct {
	Enrollments  struct{ Goal goalOf }
	ControlGroup struct{ Goal goalOf }
	Lift         struct{ Verdict string }
	SampleRatio  struct {
		Expected, Seen float64
		P              *float64
		Mismatch       bool
	}
	Nodes []splitOf
}

type splitOf struct {
	Arms []struct {
		Goal                       goalOf
		Lift, LiftOverControlGroup *struct {
			Difference *float64
			Verdict    string
		}
	}
}

func (f *fixture) lifts(id, query string) (st liftsOf) {
	f.t.Helper()
	if err := json.Unmarshal([]byte(f.get("/v1/journeys/"+id+"/statistics"+query).expect(f.t, 200).raw), &st); err != nil {
		f.t.Fatal(err)
	}
	return st
}

// groups makes leads until so many are held out by a share and so many are not.
func (f *fixture) groups(id string, share float64, held, others int) (both [2][]int64) {
	f.t.Helper()
	for len(both[0]) < held || len(both[1]) < others {
		lead := f.newLead("Ada")
		group, most := 1, others
		if waypost.HeldOut(id, lead, share) {
			group, most = 0, held
		}
		if len(both[group]) < most {
			both[group] = append(both[group], lead)
		}
	}
	return both
}

func (f *fixture) report(lead int64, name string) {
	f.t.Helper()
	f.send("POST", "/v1/events", fmt.Sprintf(`{"eventId":%q,"name":%q,"leadsId":%d}`, waypost.NewID("evt_", f.clock.Now()), name, lead)).expect(f.t, 202)
}

// A journey that does nothing has no lift, though leads that are held out enter again with each
// event where those that are in the journey are refused.
func TestLiftByLeads(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.publishedJourney(`{"name":"Nothing","start":"wait","entry":[{"event":"cart"}],"controlGroup":0.3,"goal":{"event":"buy","within":"1h"},
		"nodes":[{"id":"wait","type":"delay","for":"1h"}]}`)
	both := f.groups(id, 0.3, 70, 170)
	for _, name := range []string{"cart", "cart", "buy", "cart"} {
		for _, leads := range both {
			for i, lead := range leads {
				if name != "buy" || i%2 == 0 {
					f.report(lead, name)
				}
			}
		}
	}
	for _, query := range []string{"", "?version=1", "?from=2026-01-31T12:00:00Z"} {
		st := f.lifts(id, query)
		if g := st.Enrollments.Goal; g.Leads != 170 || g.Enrollments != 170 || g.Converted != 85 || g.Open != 85 {
			t.Errorf("%s: in the journey %+v", query, g)
		}
		if g := st.ControlGroup.Goal; g.Leads != 70 || g.Enrollments != 210 || g.Converted != 35 || g.Open != 35 {
			t.Errorf("%s: the control group %+v", query, g)
		}
		if r := st.SampleRatio; st.Lift.Verdict != "unclear" || r.Mismatch || r.Expected != 0.3 || r.Seen != 70.0/240 || r.P == nil || *r.P < 0.5 {
			t.Errorf("%s: the lift %+v, the groups %+v", query, st.Lift, r)
		}
	}
	// Another hour, in which who is held out comes again: only the first entry of it counts there.
	f.clock.advance(2 * time.Hour)
	for range 2 {
		f.report(both[0][0], "cart")
	}
	if st := f.lifts(id, ""); st.ControlGroup.Goal.Leads != 70 || st.ControlGroup.Goal.Enrollments != 212 || st.Enrollments.Goal.Open+st.ControlGroup.Goal.Open != 0 {
		t.Errorf("in all %+v, %+v", st.Enrollments.Goal, st.ControlGroup.Goal)
	}
	if g := f.lifts(id, "?from=2026-01-31T14:00:00Z").ControlGroup.Goal; g.Leads != 1 || g.Enrollments != 2 || g.Open != 1 {
		t.Errorf("in the last hour %+v", g)
	}
}

// Groups that chance alone does not make are not compared; shares that differ between versions do
// not seem to be that.
func TestSampleRatio(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	definition := func(share float64) string {
		return fmt.Sprintf(`{"name":"Some","start":"end","entry":[{"event":"cart"}],"controlGroup":%v,"goal":{"event":"buy"},"nodes":[{"id":"end","type":"exit"}]}`, share)
	}
	id := f.publishedJourney(definition(0.2))
	enter := func(share float64, held, others int) {
		for _, leads := range f.groups(id, share, held, others) {
			for i, lead := range leads {
				f.report(lead, "cart")
				if i%2 == 0 {
					f.report(lead, "buy")
				}
			}
		}
	}
	enter(0.2, 30, 120)
	f.send("PUT", "/v1/journeys/"+id, definition(0.6)).expect(t, 200)
	f.send("POST", "/v1/journeys/"+id+"/publish", "").expect(t, 201)
	enter(0.6, 60, 40)
	if st := f.lifts(id, ""); st.SampleRatio.Mismatch || st.SampleRatio.Expected != 0.36 || st.SampleRatio.Seen != 0.36 || st.Lift.Verdict != "unclear" {
		t.Errorf("of two shares: %+v, %+v", st.SampleRatio, st.Lift)
	}
	enter(0.6, 0, 60)
	if st := f.lifts(id, ""); !st.SampleRatio.Mismatch || st.Lift.Verdict != "mismatch" {
		t.Errorf("of wrong sizes: %+v, %+v", st.SampleRatio, st.Lift)
	}
}

// Arms behind a wait lack who has bought before them. They are compared with each other, and not
// with the control group.
func TestArmsBehindWait(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	id := f.publishedJourney(`{"name":"Wait","start":"wait","entry":[{"event":"cart"}],"controlGroup":0.5,"goal":{"event":"buy","within":"1h"},"nodes":[
		{"id":"wait","type":"delay","for":"25s","next":"arms"},
		{"id":"arms","type":"split","arms":[{"weight":1},{"weight":1}]}]}`)
	both := f.groups(id, 0.5, 120, 120)
	for _, leads := range both {
		for i, lead := range leads {
			f.report(lead, "cart")
			if i%2 == 0 {
				f.report(lead, "buy")
			}
		}
	}
	f.clock.advance(25 * time.Second)
	arms := [2]map[string]int64{{}, {}}
	for i, lead := range both[1] {
		list := f.get(fmt.Sprintf("/v1/enrollments?journeyId=%s&leadsId=%d", id, lead)).expect(t, 200)
		arms[i/2%2][list.json["items"].([]any)[0].(map[string]any)["enrollmentId"].(string)] = lead
	}
	for arm, some := range arms {
		f.takeArms(id, arm, some)
	}
	f.clock.advance(time.Second)
	for _, some := range arms {
		leads := slices.Sorted(maps.Values(some))
		for i, lead := range leads {
			if i%10 == 1 {
				f.report(lead, "buy")
			}
		}
	}
	st := f.lifts(id, "")
	split := st.Nodes[slices.IndexFunc(st.Nodes, func(n splitOf) bool {
		return len(n.Arms) > 0
	})]
	for i, a := range split.Arms {
		if a.Goal.Leads != 30 || a.LiftOverControlGroup.Verdict != "notComparable" || a.LiftOverControlGroup.Difference != nil {
			t.Errorf("arm %d: %+v", i+1, a)
		}
		if (a.Lift == nil) != (i == 0) || a.Lift != nil && a.Lift.Verdict != "notEnoughData" && a.Lift.Verdict != "unclear" {
			t.Errorf("arm %d over the first one: %+v", i+1, a.Lift)
		}
	}
}
