package journey_test

import (
	"fmt"
	"reflect"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
)

func TestGoal(t *testing.T) {
	t.Parallel()
	d := parse(t, string(read(t, "testdata/valid_goal.json")))
	if g, ok := d.Goal(); !ok || g != (waypost.Goal{Event: "purchase", Within: 72 * time.Hour}) || d.ControlGroup() != 0.1 {
		t.Errorf("the goal is %+v, the control group %v", g, d.ControlGroup())
	}
	for node, want := range map[string]waypost.Contest{"arms": {Arms: 2, After: 48 * time.Hour}, "more": {Arms: 3, Leads: 1000}} {
		n, _ := d.Node(node)
		if got, ok := n.Contest(); !ok || got != want {
			t.Errorf("%s: %+v", node, got)
		}
	}
	if n, _ := d.Node("a"); n.Winner != nil {
		t.Errorf("a has %+v", n.Winner)
	}
	if again := parse(t, string(d.Canonical())); again.Hash() != d.Hash() || !reflect.DeepEqual(again.Nodes(), d.Nodes()) {
		t.Errorf("canonical form %s", d.Canonical())
	}
	none := parse(t, `{"name":"x"}`)
	if _, ok := none.Goal(); ok || none.ControlGroup() != 0 {
		t.Error("there is a goal without one")
	}
	if g, _ := parse(t, `{"goal":{"event":"x"}}`).Goal(); g.Within != 7*24*time.Hour {
		t.Errorf("within %s if nothing is said", g.Within)
	}
}

func TestConverts(t *testing.T) {
	t.Parallel()
	gender := int64(1)
	facts := journey.Facts{
		Lead:  waypost.Lead{LeadFields: waypost.LeadFields{Gender: &gender}},
		Event: map[string]any{"total": 12.34567, "name": "x", "huge": 1e9}, Params: map[string]any{"factor": 2.0},
		Began: &waypost.Event{Name: "cart", Properties: map[string]any{"name": "x"}},
		Now:   time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC),
	}
	for _, test := range []struct {
		when, value string
		yes         bool
		worth       waypost.Amount
	}{
		{"", "", true, 0},
		{"event.total > 12", "event.total", true, 123457},
		{"event.total > 13", "event.total", false, 0},
		{"event.none > 13", "event.total", false, 0},
		{"lead.gender == 1 && enrollment.params.factor == 2 && now > timestamp('2026-01-01T00:00:00Z')", "event.total * enrollment.params.factor", true, 246913},
		{"event.name == enrollment.event.properties.name", "", true, 0},
		{"event.name != enrollment.event.properties.name", "", false, 0},
		{"", "event.none", true, 0},
		{"", "event.name", true, 0},
		{"", "event.huge", true, 0},
		{"", "-3", true, -30000},
	} {
		d := parse(t, fmt.Sprintf(`{"name":"x","start":"a","goal":{"event":"buy","when":%q,"value":%q},"nodes":[{"id":"a","type":"exit"}]}`, test.when, test.value))
		if p := d.Check(nil, nil); len(p) > 0 {
			t.Errorf("%q, %q: %v", test.when, test.value, p)
		}
		if yes, worth := d.Converts(facts); yes != test.yes || worth != test.worth {
			t.Errorf("%q, %q: %v, %d", test.when, test.value, yes, worth)
		}
	}
}

func TestSimulate_goal(t *testing.T) {
	t.Parallel()
	d := parse(t, string(read(t, "testdata/valid_goal.json")))
	start := time.Date(2026, 5, 1, 9, 0, 0, 0, time.UTC)
	o := journey.SimulateOptions{
		Start: start, Facts: journey.Facts{JourneyID: "jrn_1", Lead: waypost.Lead{LeadsID: 1}}, Winners: map[string]int{"more": 2},
		Events: []journey.SimulatedEvent{
			{Name: "purchase", After: 72*time.Hour + 1, Properties: map[string]any{"total": 9}}, // too late
			{Name: "purchase", After: 72 * time.Hour, Properties: map[string]any{"total": 5}},
			{Name: "purchase", After: time.Hour, Properties: map[string]any{"total": 1}},
			{Name: "purchase", After: time.Minute, Properties: map[string]any{"total": 0}},
			{Name: "other", After: time.Second, Properties: map[string]any{"total": 1}},
		},
	}
	want := &journey.SimulatedGoal{Until: start.Add(72 * time.Hour), ConvertedAt: start.Add(time.Hour), Worth: waypost.AmountOf(12)}
	gender := int64(0)
	o.Facts.Lead.Gender = &gender
	run, err := journey.Simulate(t.Context(), d, o)
	if err != nil || !reflect.DeepEqual(run.Goal, want) || run.Status != waypost.EnrollmentCompleted {
		t.Errorf("%+v, %s, %v", run.Goal, run.Status, err)
	}
	if last := run.Path[len(run.Path)-1]; last.Result != "arm 3" || last.Reason != "arm 3: the winner" {
		t.Errorf("the last step is %+v", last)
	}
	o.HeldOut = true
	run, err = journey.Simulate(t.Context(), d, o)
	if err != nil || !reflect.DeepEqual(run.Goal, want) || run.Status != waypost.EnrollmentHeldOut || len(run.Path)+len(run.Touchpoints) > 0 || len(run.Timeline) != 1 || run.Timeline[0].Reason != "control group" {
		t.Errorf("held out: %+v, %v", run, err)
	}
}

func TestReachedAtOnce(t *testing.T) {
	t.Parallel()
	const arms = `{"id":"s","type":"split","arms":[{"weight":1},{"weight":1}]}`
	for text, want := range map[string]bool{
		`{"start":"s","nodes":[` + arms + `]}`:                                                                                                                     true,
		`{"start":"w","nodes":[{"id":"w","type":"delay","for":"1s","next":"s"},` + arms + `]}`:                                                                     false,
		`{"start":"t","nodes":[{"id":"t","type":"touchpoint","webhook":"w","next":"s"},` + arms + `]}`:                                                             false,
		`{"start":"u","nodes":[{"id":"u","type":"emit","event":"e","next":"s"},` + arms + `]}`:                                                                     true,
		`{"start":"b","nodes":[{"id":"b","type":"branch","cases":[{"when":"true","next":"u"}],"otherwise":"s"},{"id":"u","type":"emit","next":"s"},` + arms + `]}`: true,
		`{"start":"b","nodes":[{"id":"b","type":"branch","cases":[{"when":"true","next":"s"}]},` + arms + `]}`:                                                     false,
		`{"start":"s","goal":{"event":"buy"},"exitOn":[{"event":"buy"}],"nodes":[` + arms + `]}`:                                                                   false,
		`{"start":"s","goal":{"event":"buy"},"exitOn":[{"event":"stop"}],"nodes":[` + arms + `]}`:                                                                  true,
		`{"start":"s","goal":{"event":"buy"},"exitOn":[{"segment":"seg_1"}],"nodes":[` + arms + `]}`:                                                               false,
	} {
		if got := parse(t, text).ReachedAtOnce("s"); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
}
