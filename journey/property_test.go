package journey_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"waypost"
	"waypost/journey"
	"waypost/journey/nodes"
)

// validDefinition draws a definition that Check accepts. Nodes are reached in
// order (each leads to the next one); only extra nodes that wait lead back, so that
// every loop has one.
func validDefinition(t *rapid.T) *journey.Definition {
	count := rapid.IntRange(1, 12).Draw(t, "nodes")
	id := func(i int) string { return fmt.Sprintf("n-%d", i) }
	forward := func(i int, label string) string {
		return id(rapid.IntRange(i+1, count-1).Draw(t, label))
	}
	steps := make([]map[string]any, count)
	var types []*nodes.Type
	for _, kind := range nodes.All {
		if kind.Enters != nodes.PhaseDone {
			types = append(types, kind)
		}
	}
	for i := range steps {
		if i == count-1 {
			steps[i] = map[string]any{"id": id(i), "type": "exit"}
			continue
		}
		kind := rapid.SampledFrom(types).Draw(t, "type")
		steps[i] = drawnNode(t, kind, id(i+1), func(label string) string { return forward(i, label) })
		steps[i]["id"] = id(i)
	}
	// Loops: a branch may lead to an extra node that waits and leads back anywhere.
	for i, n := range steps {
		if n["type"] == "branch" && rapid.Bool().Draw(t, "loop") {
			back := fmt.Sprintf("back-%d", i)
			n["cases"] = append(n["cases"].([]any), map[string]any{"when": "false", "next": back})
			wait := map[string]any{"id": back, "type": "delay", "for": "1h", "next": id(rapid.IntRange(0, count-1).Draw(t, "back to"))}
			switch rapid.IntRange(0, 3).Draw(t, "back on") {
			case 1:
				delete(wait, "for")
				wait["type"], wait["event"], wait["timeout"] = "waitForEvent", "login", "1h"
			case 2:
				delete(wait, "for")
				wait["type"], wait["time"] = "waitUntil", "09:00"
			case 3:
				delete(wait, "for")
				wait["type"], wait["lead"], wait["onMissed"] = "waitUntil", "customFields.renewalDate", id(count-1)
			}
			steps = append(steps, wait)
		}
	}
	definition := map[string]any{"name": "x", "start": id(0), "nodes": steps}
	if rapid.Bool().Draw(t, "has labels") {
		definition["description"], definition["tags"] = "What it is for.\n\u2028", []string{"spring", " 新客户"}
		steps[rapid.IntRange(0, len(steps)-1).Draw(t, "labelled")]["label"] = "Begin \"here\""
		steps[rapid.IntRange(0, len(steps)-1).Draw(t, "noted")]["note"] = "a\nb"
	}
	if rapid.Bool().Draw(t, "has exitOn") {
		definition["exitOn"] = []any{map[string]any{"event": "unsubscribed"}, map[string]any{"event": "gone"}}
	}
	if rapid.Bool().Draw(t, "has quietHours") {
		definition["quietHours"] = map[string]any{"from": "21:00", "to": rapid.SampledFrom([]string{"08:00", "23:00"}).Draw(t, "to"), "timezone": "Asia/Shanghai"}
	}
	if rapid.Bool().Draw(t, "has frequencyCap") {
		definition["frequencyCap"] = map[string]any{"touchpoints": rapid.IntRange(1, 3).Draw(t, "cap"), "per": "24h"}
	}
	body, err := json.Marshal(definition)
	if err != nil {
		t.Fatal(err)
	}
	d, problems := journey.Parse(body)
	if len(problems) > 0 {
		t.Fatalf("Parse %s: %v", body, problems)
	}
	if problems := d.Check(nil, nil); len(problems) > 0 {
		t.Fatalf("Check %s: %v", body, problems)
	}
	return d
}

// drawnNode draws a node of a type, which leads to the next one, and by its other ways further on.
func drawnNode(t *rapid.T, kind *nodes.Type, next string, forward func(label string) string) map[string]any {
	var n map[string]any
	example := json.NewDecoder(strings.NewReader(rapid.SampledFrom(kind.Examples).Draw(t, "example")))
	example.UseNumber()
	if err := example.Decode(&n); err != nil {
		t.Fatal(err)
	}
	n["type"] = kind.Name
	items := 0
	for _, m := range kind.Members {
		list, _ := n[m.Name].([]any)
		for _, item := range list {
			if m.Kind == nodes.List {
				item.(map[string]any)["next"] = rapid.SampledFrom([]string{next, forward(m.Name), ""}).Draw(t, "has next")
				items++
			}
		}
		if m.Kind == nodes.List && items > 0 {
			list[0].(map[string]any)["next"] = next
		}
	}
	for _, m := range kind.Members {
		switch own := m.Else == "" && m.With == ""; {
		case m.Kind != nodes.Way, m.Name == "next" && items > 0, m.With != "" && n[m.With] == nil:
		case own:
			n[m.Name] = next
		case m.With != "" && n[m.With] != "birthday", rapid.Bool().Draw(t, "has "+m.Name):
			n[m.Name] = forward(m.Name)
		}
	}
	return n
}

// answer draws the input that a command asks for.
func answer(t *rapid.T, d *journey.Definition, c journey.Command, at time.Time) journey.Input {
	switch c.Kind {
	case journey.CommandSend:
		if rapid.IntRange(0, 9).Draw(t, "deferred") == 0 {
			return journey.Input{Kind: journey.InputDeferred, At: at, Reason: "webhookDisabled"}
		}
		if rapid.IntRange(0, 9).Draw(t, "skipped") == 0 {
			return journey.Input{Kind: journey.InputSkipped, At: at, Reason: waypost.SkipFrequencyCap}
		}
		return journey.Input{Kind: journey.InputSent, At: at, Succeed: rapid.Bool().Draw(t, "succeed"), Reason: rapid.SampledFrom([]string{"", "httpStatus 404"}).Draw(t, "reason")}
	case journey.CommandDecide:
		in := journey.Input{Kind: journey.InputDecided, At: at, Reason: rapid.SampledFrom([]string{"", "a reason"}).Draw(t, "reason")}
		n, _ := d.Node(c.Node)
		in.Succeed = rapid.Bool().Draw(t, "succeed")
		switch {
		case len(n.Cases) > 0:
			in.Arm = rapid.IntRange(-1, len(n.Cases)-1).Draw(t, "arm")
		case len(n.Arms) > 0:
			in.Arm = rapid.IntRange(0, len(n.Arms)-1).Draw(t, "arm")
		case n.Holding():
			if n.Lead == "" || rapid.Bool().Draw(t, "has until") {
				in.Until = at.Add(time.Duration(rapid.IntRange(1, 1e9).Draw(t, "until")) * time.Microsecond)
			}
		}
		return in
	case journey.CommandWait:
		return journey.Input{Kind: journey.InputElapsed, At: c.Until}
	case journey.CommandAwait:
		if rapid.Bool().Draw(t, "matched") {
			arm := 0
			if n, _ := d.Node(c.Node); len(n.Events) > 0 {
				arm = rapid.IntRange(0, len(n.Events)-1).Draw(t, "event")
			}
			return journey.Input{Kind: journey.InputMatched, At: at, Arm: arm, Reason: rapid.SampledFrom([]string{"", "event evt_1"}).Draw(t, "reason")}
		}
		return journey.Input{Kind: journey.InputElapsed, At: c.Until, Reason: rapid.SampledFrom([]string{"", "error: no such key"}).Draw(t, "reason")}
	}
	t.Fatalf("a command %+v", c)
	return journey.Input{}
}

var anyInputs = []journey.Input{
	{Kind: journey.InputStart}, {Kind: journey.InputSent, Succeed: true}, {Kind: journey.InputDeferred}, {Kind: journey.InputDecided, Arm: -1}, {Kind: journey.InputElapsed}, {Kind: journey.InputMatched}, {Kind: journey.InputCanceled}, {Kind: journey.InputSkipped}, {Kind: journey.InputExited}, {Kind: journey.InputMoved, Node: "n-0"}, {Kind: "other"}, {},
}

// TestStep_properties walks random journeys with random answers.
func TestStep_properties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := validDefinition(t)
		again, problems := journey.Parse(d.Canonical())
		if len(problems) > 0 || again.Hash() != d.Hash() || !reflect.DeepEqual(again.Nodes(), d.Nodes()) {
			t.Fatalf("the canonical form is another definition: %v", problems)
		}

		var s journey.State
		in := journey.Input{Kind: journey.InputStart, At: noon}
		seq, visits, loops := 0, 0, map[string]int{}
		for step := 0; ; step++ {
			before, err := json.Marshal(s)
			if err != nil {
				t.Fatal(err)
			}
			next, effect, err := journey.Step(d, s, in)
			if err != nil {
				t.Fatalf("step %d: %v", step, err)
			}

			// The state that Step was given is left alone, and what it says after a
			// trip through JSON is the same, to the byte.
			if after, _ := json.Marshal(s); string(after) != string(before) {
				t.Fatalf("Step changed its state from %s to %s", before, after)
			}
			var stored journey.State
			if err := json.Unmarshal(before, &stored); err != nil {
				t.Fatal(err)
			}
			same, sameEffect, err := journey.Step(again, stored, in)
			if err != nil || !reflect.DeepEqual(same, next) || !reflect.DeepEqual(sameEffect, effect) {
				t.Fatalf("after JSON: %+v, %+v, %v; want %+v, %+v", same, sameEffect, err, next, effect)
			}

			for _, e := range effect.Entries {
				seq++
				if e.Seq != seq {
					t.Fatalf("entry %d follows %d", e.Seq, seq-1)
				}
				left, _ := d.Node(e.NodeID)
				if way := (waypost.Edge{Way: e.Way, Next: e.Next}); way != (waypost.Edge{}) && !slices.Contains(left.Ways(), way) {
					t.Fatalf("%q was left by %+v, its ways are %+v", e.NodeID, way, left.Ways())
				}
			}
			if next.Seq != seq || len(effect.Entries) == 0 {
				t.Fatalf("state says %d entries, there were %d; this step made %d", next.Seq, seq, len(effect.Entries))
			}
			if next.Visit < visits || next.Visit > visits+1 || len(next.Path) > journey.MaxPath {
				t.Fatalf("visit %d follows %d; path of %d", next.Visit, visits, len(next.Path))
			}
			visits = next.Visit

			// A command and an end exclude each other, and one of them there is.
			c, done := effect.Command, next.Phase == journey.PhaseDone
			if done != (c.Kind == "") || done != next.EnrollmentStatus().Ended() {
				t.Fatalf("phase %q, status %q, command %+v", next.Phase, next.EnrollmentStatus(), c)
			}
			if !done && (c.Node != next.Node || c.Visit != next.Visit || !c.Until.Equal(next.Until)) {
				t.Fatalf("command %+v, state %+v", c, next)
			}
			if waiting := next.EnrollmentStatus() == waypost.EnrollmentWaiting; waiting != (c.Kind == journey.CommandWait || c.Kind == journey.CommandAwait) || waiting && !c.Until.After(in.At) {
				t.Fatalf("status %q, command %+v at %s", next.EnrollmentStatus(), c, in.At)
			}

			s = next
			if done {
				break
			}
			if step > 200 {
				return // in loops that wait; those that do not are refused
			}
			held := in.Kind == journey.InputDeferred
			in = answer(t, d, c, in.At.Add(time.Second))

			// Without a wait, no node comes twice; one that is held back asks again.
			if c.Kind == journey.CommandWait || c.Kind == journey.CommandAwait {
				clear(loops)
			} else if held {
				if c.Kind != journey.CommandSend || loops[c.Node] != 1 {
					t.Fatalf("what was held back goes on with %+v", c)
				}
			} else if loops[c.Node]++; loops[c.Node] > 1 {
				t.Fatalf("node %q ran twice without a wait", c.Node)
			}
		}
		for _, in := range anyInputs {
			if after, effect, err := journey.Step(d, s, in); err == nil || effect.Command.Kind != "" || !reflect.DeepEqual(after, s) {
				t.Fatalf("input %+v after the end: %+v, %+v", in, after, effect)
			}
		}
	})
}

// TestStep_alwaysEnds takes loops at most a few times: then every enrollment
// ends.
func TestStep_alwaysEnds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := validDefinition(t)
		s, effect, err := journey.Step(d, journey.State{}, journey.Input{Kind: journey.InputStart, At: noon})
		for step := 0; err == nil && effect.Command.Kind != ""; step++ {
			in := answer(t, d, effect.Command, noon)
			if in.Kind == journey.InputDeferred {
				in = journey.Input{Kind: journey.InputSent, At: noon}
			}
			if n, _ := d.Node(s.Node); n.Type == journey.Branch && step > 100 {
				in.Arm = -1 // otherwise always leads on
			}
			if step > 200 {
				t.Fatalf("still running after %d steps at %q", step, s.Node)
			}
			s, effect, err = journey.Step(d, s, in)
		}
		if err != nil || s.EnrollmentStatus() != waypost.EnrollmentCompleted {
			t.Fatalf("status %q, error %v", s.EnrollmentStatus(), err)
		}
	})
}

// TestStep_stop cancels an enrollment anywhere on its way, or has an event end it:
// it ends where it stands, without a word or with the event's.
func TestStep_stop(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		d := validDefinition(t)
		var s journey.State
		in := journey.Input{Kind: journey.InputStart, At: noon}
		for range rapid.IntRange(0, 20).Draw(t, "steps") {
			next, effect, err := journey.Step(d, s, in)
			if err != nil {
				t.Fatal(err)
			}
			if s = next; s.Phase == journey.PhaseDone {
				return
			}
			in = answer(t, d, effect.Command, in.At.Add(time.Second))
		}
		stop, status := journey.Input{Kind: journey.InputCanceled, At: noon}, waypost.EnrollmentCanceled
		var wantEffect journey.Effect
		want := s
		if rapid.Bool().Draw(t, "exited") {
			stop, status = journey.Input{Kind: journey.InputExited, At: noon, Reason: "event unsubscribed"}, waypost.EnrollmentExited
			want.Seq++
			wantEffect.Entries = []waypost.TimelineEntry{{Seq: want.Seq, At: noon, NodeID: s.Node, What: waypost.WhatExited, Reason: stop.Reason}}
		}
		after, effect, err := journey.Step(d, s, stop)
		if err != nil || !reflect.DeepEqual(effect, wantEffect) {
			t.Fatalf("effect %+v, error %v", effect, err)
		}
		want.Phase, want.Status, want.Until = journey.PhaseDone, status, time.Time{}
		if !reflect.DeepEqual(after, want) || after.EnrollmentStatus() != status {
			t.Fatalf("stopped: %+v, want %+v", after, want)
		}
		for _, in := range anyInputs {
			if again, _, err := journey.Step(d, after, in); err == nil || !reflect.DeepEqual(again, after) {
				t.Fatalf("input %+v after the end: %+v", in, again)
			}
		}
	})
}
