package workflows_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"waypost"
	"waypost/journey"
)

// exampleCase is what becomes of a lead, as examples/testdata has it. The tests of
// package journey expect the same of the simulation.
type exampleCase struct {
	Name  string
	At    time.Time
	Lead  map[string]any
	Entry struct { // the event that it begins by, if it does by one
		Event      string
		Properties map[string]any
	}
	EntryKey string `yaml:"entryKey"` // where it begins by an event: the one that this gives
	Params   map[string]any
	Events   []struct {
		Name       string
		After      time.Duration
		Properties map[string]any
	}
	Sent     []time.Duration // messages of other journeys, from At on
	Outcomes map[string]int  // HTTP status by node; 200 where none stands
	Arms     map[string]int  // of splits, which the lead takes
	Timeline string          // time, node, what, next (reason, if it matters)
	Status   waypost.EnrollmentStatus
	Worth    float64                   // of the events that reach the goal; 0 if none does
	Messages map[string]map[string]any // params by node, of some messages
}

func readExample(t *testing.T, path string, v any) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "examples", path))
	must(t, err)
	if err := yaml.Unmarshal(text, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// The example journeys do in workflows, in skipped time, what they do in a simulation.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"welcome", "abandoned-cart", "cart-abandoned", "birthday", "win-back", "first-order", "trial"} {
		var definition map[string]any
		readExample(t, name+".yaml", &definition)
		for _, n := range definition["nodes"].([]any) {
			if node := n.(map[string]any); node["webhook"] != nil {
				node["webhook"] = "WEBHOOK"
			}
		}
		text, err := json.Marshal(definition)
		must(t, err)
		var cases []exampleCase
		readExample(t, filepath.Join("testdata", name+".yaml"), &cases)
		for _, c := range cases {
			t.Run(name+": "+c.Name, func(t *testing.T) {
				t.Parallel()
				c.run(t, string(text))
			})
		}
	}
}

func (c exampleCase) run(t *testing.T, definition string) {
	t.Helper()
	ctx := context.Background()
	w := newWorld(t, func(hook *waypost.Webhook) { hook.Params = nil })
	w.receiver.script = func(m waypost.Message, _ int) answer {
		node := m.JourneyInfo.ActionDefID[strings.LastIndexByte(m.JourneyInfo.ActionDefID, '/')+1:]
		if status, ok := c.Outcomes[node]; ok {
			return answer{status: status}
		}
		return answer{status: 200}
	}
	// Time goes only forward: first comes what the lead got before.
	begin := c.At
	for _, after := range c.Sent {
		if at := c.At.Add(after); at.Before(begin) {
			begin = at
		}
	}
	w.restart(begin.Add(-time.Minute))
	silent, err := w.store.CreateSegment(ctx, scope, waypost.Segment{Name: "silent", When: "lead.test"})
	must(t, err)
	v := w.publish(strings.ReplaceAll(definition, `"silent"`, `"`+silent.ID+`"`))
	d, problems := journey.Parse(v.Definition)
	must(t, problems.Err(""))
	lead := w.leadOfArms(d, v.JourneyID, c)
	for i, after := range c.Sent {
		w.restart(c.At.Add(after))
		other := w.publish(fmt.Sprintf(`{"name":"Other %d","start":"m","nodes":[{"id":"m","type":"touchpoint","webhook":"WEBHOOK"}]}`, i))
		_, err := w.store.Enroll(ctx, scope, waypost.Enrollment{JourneyID: other.JourneyID, Version: 1, LeadsID: lead, AppID: "app_test"}, waypost.Reentry{Policy: waypost.ReentryAfterExit})
		must(t, err)
		w.run()
	}
	w.restart(c.At)
	e := c.enter(t, w, v, d, lead)
	for i, event := range c.Events {
		if event.After > c.ends() {
			continue // the workflow is over by then
		}
		w.at(event.After, func(ctx context.Context) {
			_, err := w.store.AcceptEvent(ctx, scope, waypost.Event{EventID: fmt.Sprint("e", i), Name: event.Name, LeadsID: lead, Properties: event.Properties})
			must(t, err)
		})
	}
	w.run()
	for i, event := range c.Events {
		if event.After > c.ends() {
			w.newEnvironmentAt(c.At.Add(event.After))
			_, err := w.store.AcceptEvent(ctx, scope, waypost.Event{EventID: fmt.Sprint("e", i), Name: event.Name, LeadsID: lead, Properties: event.Properties})
			must(t, err)
		}
	}
	reached, err := w.store.Conversions(ctx, []string{e.ID})
	must(t, err)
	if got, converted := reached[e.ID]; got.Worth.Float() != c.Worth || converted != (c.Worth != 0) {
		t.Errorf("for the goal %+v, want %v", got, c.Worth)
	}

	e, entries, err := w.store.Enrollment(ctx, scope, e.ID)
	must(t, err)
	if c.Entry.Event != "" && !strings.HasPrefix(entries[0].Reason, "event "+c.Entry.Event) {
		t.Errorf("it began by %q", entries[0].Reason)
	}
	if fault := c.compare(entries); fault != "" || e.Status != c.Status {
		t.Errorf("%s, %s, want %s", fault, e.Status, c.Status)
		for _, entry := range entries {
			t.Logf("%s %s %s %s (%s)", entry.At.Format("2006-01-02 15:04:05"), entry.NodeID, entry.What, entry.Next, entry.Reason)
		}
	}
	for node, want := range c.Messages {
		if got := w.paramsSent(v.JourneyID, node); !reflect.DeepEqual(got, asJSON(t, want)) {
			t.Errorf("%s has the params %v, want %v", node, got, want)
		}
	}
}

// ends is how long after the start the last entry of the timeline comes.
func (c exampleCase) ends() time.Duration {
	lines := strings.Split(strings.TrimSpace(c.Timeline), "\n")
	at, _ := time.Parse("2006-01-02 15:04", lines[len(lines)-1][:16]) // compare tells what is wrong with it
	return at.Sub(c.At)
}

// enter enrolls the lead of a case as its application would.
func (c exampleCase) enter(t *testing.T, w *world, v waypost.JourneyVersion, d *journey.Definition, lead int64) waypost.Enrollment {
	t.Helper()
	ctx := context.Background()
	if c.Entry.Event == "" {
		e, err := w.store.Enroll(ctx, scope, waypost.Enrollment{
			JourneyID: v.JourneyID, Version: v.Version, LeadsID: lead, AppID: "app_test", EntryKey: c.EntryKey, Params: c.Params,
		}, d.Reentry())
		must(t, err)
		return e
	}
	_, err := w.store.AcceptEvent(ctx, scope, waypost.Event{EventID: "begins", Name: c.Entry.Event, LeadsID: lead, Properties: c.Entry.Properties})
	must(t, err)
	list, _, err := w.store.ListEnrollments(ctx, scope, waypost.EnrollmentFilter{JourneyID: v.JourneyID}, waypost.Page{Limit: 10})
	must(t, err)
	if len(list) != 1 || list[0].EntryKey != c.EntryKey {
		t.Fatalf("begun %+v", list)
	}
	return list[0]
}

// restart makes a new environment whose clock begins at a time.
func (w *world) restart(at time.Time) {
	w.t.Helper()
	w.newEnvironmentAt(at)
	w.register()
}

// leadOfArms makes leads until one takes the arms of the case, and returns that one.
func (w *world) leadOfArms(d *journey.Definition, journeyID string, c exampleCase) int64 {
	w.t.Helper()
	var fields waypost.LeadFields
	text, err := json.Marshal(c.Lead)
	must(w.t, err)
	must(w.t, json.Unmarshal(text, &fields))
	for {
		lead, err := w.store.CreateLead(context.Background(), scope, fields, nil)
		must(w.t, err)
		fits := !waypost.HeldOut(journeyID, lead.LeadsID, d.ControlGroup())
		for node, arm := range c.Arms {
			n, _ := d.Node(node)
			var weights []int
			for _, a := range n.Arms {
				weights = append(weights, a.Weight)
			}
			fits = fits && journey.SplitArm(journeyID, node, lead.LeadsID, weights) == arm
		}
		if fits {
			return lead.LeadsID
		}
	}
}

// late is how much later than on a virtual clock things may happen: a workflow is told of
// events a second after them, and waves of retries are rounded up.
const late = 10 * time.Second

// compare says how a timeline is another than the one of the case, without what says
// only that a node was entered.
func (c exampleCase) compare(entries []waypost.TimelineEntry) string {
	wanted := strings.Split(strings.TrimSpace(c.Timeline), "\n")
	i := 0
	for _, e := range entries {
		if e.What == waypost.WhatEntered {
			continue
		}
		if i == len(wanted) {
			return "it goes on"
		}
		want := wanted[i]
		at, err := time.Parse("2006-01-02 15:04", want[:16])
		if err != nil {
			return err.Error()
		}
		got := strings.TrimSpace(e.NodeID + " " + e.What + " " + e.Next)
		if strings.Contains(want, "(") {
			got += " (" + e.Reason + ")"
		}
		if d := e.At.Sub(at); got != want[17:] || d < 0 || d > late {
			return fmt.Sprintf("at %s %s, want %s", e.At.Format("2006-01-02 15:04:05"), got, want)
		}
		i++
	}
	if i < len(wanted) {
		return "it ends before " + wanted[i]
	}
	return ""
}

// paramsSent returns the params of a node's last message.
func (w *world) paramsSent(journeyID, node string) any {
	w.t.Helper()
	var last string
	var params any
	for id, posts := range w.receiver.posts {
		var m struct {
			JourneyInfo waypost.JourneyInfo `json:"journeyInfo"`
			Params      any                 `json:"params"`
		}
		must(w.t, json.Unmarshal(posts[0], &m))
		if strings.HasPrefix(m.JourneyInfo.ActionDefID, journeyID+"/") && strings.HasSuffix(m.JourneyInfo.ActionDefID, "/"+node) && id > last {
			last, params = id, m.Params
		}
	}
	return params
}

func asJSON(t *testing.T, v any) (out any) {
	t.Helper()
	text, err := json.Marshal(v)
	must(t, err)
	must(t, json.Unmarshal(text, &out))
	return out
}
