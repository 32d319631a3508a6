package journey_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"waypost"
	"waypost/journey"
)

// exampleFiles are the journeys of examples/, which the tests of workflows run
// through, too.
var exampleFiles = []string{"welcome", "abandoned-cart", "cart-abandoned", "birthday", "win-back", "first-order", "trial"}

// exampleCase is what becomes of a lead, as examples/testdata has it.
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
	Sent     []time.Duration // messages from other journeys, from At on
	Outcomes map[string]int  // HTTP status by node; 200 where none stands
	Arms     map[string]int  // of splits, which the lead takes
	Timeline string          // time, node, what, next (reason, if it matters)
	Status   waypost.EnrollmentStatus
	Worth    float64                   // of the events that reach the goal; 0 if none does
	Messages map[string]map[string]any // params by node, of some messages
}

// readYAML reads a file of examples/, by way of JSON as everything else comes.
func readYAML(t *testing.T, path string, v any) []byte {
	t.Helper()
	if err := yaml.Unmarshal(read(t, path), v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return data
}

// TestExamples runs the leads of examples/testdata through the example journeys on
// a virtual clock.
func TestExamples(t *testing.T) {
	t.Parallel()
	for _, name := range exampleFiles {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			folder := filepath.Join("..", "examples")
			var written map[string]any
			definition := strings.ReplaceAll(string(readYAML(t, filepath.Join(folder, name+".yaml"), &written)), `"silent"`, `"`+waypost.NewID(waypost.PrefixSegment, time.Now())+`"`)
			d, problems := journey.Parse([]byte(definition))
			if len(problems) > 0 {
				t.Fatal(problems)
			}
			webhooks := []string{"crm", "email", "sms"}
			if problems := d.Check(func(id string) bool { return slices.Contains(webhooks, id) }, nil); len(problems) > 0 {
				t.Fatal(problems)
			}
			var cases []exampleCase
			readYAML(t, filepath.Join(folder, "testdata", name+".yaml"), &cases)
			reached := map[string]bool{}
			for _, c := range cases {
				run := c.simulate(t, d)
				if got := timelineOf(run.Timeline); !sameTimeline(got, c.Timeline) || run.Status != c.Status || run.Limit != "" {
					t.Errorf("%s: %s %s\n%s\nwant %s\n%s", c.Name, run.Status, run.Limit, strings.Join(got, "\n"), c.Status, c.Timeline)
				}
				if g := run.Goal; g != nil && (g.Worth.Float() != c.Worth || g.ConvertedAt.IsZero() != (c.Worth == 0)) {
					t.Errorf("%s: for the goal %+v, want %v", c.Name, g, c.Worth)
				}
				sent := map[string]map[string]any{}
				for _, m := range run.Touchpoints {
					sent[m.NodeID] = m.Params
				}
				for node, want := range c.Messages {
					if got := asJSON(t, sent[node]); !reflect.DeepEqual(got, asJSON(t, want)) {
						t.Errorf("%s: %s has the params %v, want %v", c.Name, node, got, want)
					}
				}
				for _, step := range run.Path {
					reached[step.NodeID] = true
				}
			}
			for _, n := range d.Nodes() {
				if !reached[n.ID] {
					t.Errorf("no lead comes to %s", n.ID)
				}
			}
		})
	}
}

func (c exampleCase) simulate(t *testing.T, d *journey.Definition) journey.Run {
	t.Helper()
	o := journey.SimulateOptions{Start: c.At, Outcomes: map[string]journey.TouchpointResult{}}
	o.Facts = journey.Facts{JourneyID: "jrn_1", JourneyName: d.Name(), Version: 1, EnrollmentID: "enr_1", EntryKey: c.EntryKey, Params: c.Params}
	data, err := json.Marshal(c.Lead)
	if err == nil {
		err = json.Unmarshal(data, &o.Facts.Lead)
	}
	if err != nil {
		t.Fatal(err)
	}
	o.Facts.Lead.LeadsID = leadOfArms(d, "jrn_1", c.Arms)
	if c.Entry.Event != "" {
		o.Facts.Began = &waypost.Event{EventID: "begins", Name: c.Entry.Event, Properties: c.Entry.Properties, AcceptedAt: c.At}
		decision := d.Enters(waypost.Occasion{Kind: waypost.EntryEvent, Lead: o.Facts.Lead, Event: o.Facts.Began, At: c.At}, o.Facts)
		if !decision.Enters || decision.Key != c.EntryKey {
			t.Fatalf("%s: %+v", c.Name, decision)
		}
	}
	for _, e := range c.Events {
		o.Events = append(o.Events, journey.SimulatedEvent{Name: e.Name, After: e.After, Properties: e.Properties})
	}
	for _, after := range c.Sent {
		o.Sent = append(o.Sent, c.At.Add(after))
	}
	for node, status := range c.Outcomes {
		o.Outcomes[node] = journey.TouchpointResult{HTTPStatus: status}
	}
	run, err := journey.Simulate(t.Context(), d, o)
	if err != nil {
		t.Fatalf("%s: %v", c.Name, err)
	}
	return run
}

// leadOfArms is the first lead that takes these arms.
func leadOfArms(d *journey.Definition, journeyID string, arms map[string]int) int64 {
	for id := int64(1); ; id++ {
		fits := true
		for node, arm := range arms {
			n, _ := d.Node(node)
			var weights []int
			for _, a := range n.Arms {
				weights = append(weights, a.Weight)
			}
			fits = fits && journey.SplitArm(journeyID, node, id, weights) == arm
		}
		if fits {
			return id
		}
	}
}

// timelineOf writes a timeline as examples/testdata has it: without what says only
// that a node was entered.
func timelineOf(entries []waypost.TimelineEntry) []string {
	var lines []string
	for _, e := range entries {
		if e.What == waypost.WhatEntered {
			continue
		}
		line := strings.Join(strings.Fields(fmt.Sprint(e.At.UTC().Format("2006-01-02 15:04"), " ", e.NodeID, " ", e.What, " ", e.Next)), " ")
		if e.Reason != "" {
			line += " (" + e.Reason + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// sameTimeline compares lines with those wanted, whose reasons may be left out.
func sameTimeline(got []string, want string) bool {
	return slices.EqualFunc(got, strings.Split(strings.TrimSpace(want), "\n"), func(got, want string) bool {
		if !strings.Contains(want, "(") {
			got, _, _ = strings.Cut(got, " (")
		}
		return got == want
	})
}

// asJSON is a value as JSON has it.
func asJSON(t *testing.T, v any) (out any) {
	t.Helper()
	data, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(data, &out)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
