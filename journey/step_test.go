package journey_test

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// walk steps through inputs and writes each entry and command as one line.
func walk(t *testing.T, d *journey.Definition, inputs ...journey.Input) (journey.State, []string) {
	t.Helper()
	var s journey.State
	var lines []string
	for i, in := range inputs {
		in.At = noon.Add(time.Duration(i) * time.Hour)
		next, effect, err := journey.Step(d, s, in)
		if err != nil {
			t.Fatalf("step %d (%+v): %v", i, in, err)
		}
		for _, e := range effect.Entries {
			if !e.At.Equal(in.At) {
				t.Errorf("entry %d is at %s, the input at %s", e.Seq, e.At, in.At)
			}
			lines = append(lines, entryLine(e))
		}
		if effect.Command.Kind != "" {
			lines = append(lines, commandLine(effect.Command))
		}
		s = next
	}
	return s, lines
}

func entryLine(e waypost.TimelineEntry) string {
	return strings.TrimRight(fmt.Sprintf("%d %s %s >%s %s", e.Seq, e.NodeID, e.What, e.Next, e.Reason), " ")
}

func commandLine(c journey.Command) string {
	return strings.TrimSpace(fmt.Sprintf("-> %s %s %d %s", c.Kind, c.Node, c.Visit, strings.TrimSuffix(c.Until.Format(time.RFC3339), "0001-01-01T00:00:00Z")))
}

func start() journey.Input { return journey.Input{Kind: journey.InputStart} }
func sent(succeed bool, reason string) journey.Input {
	return journey.Input{Kind: journey.InputSent, Succeed: succeed, Reason: reason}
}
func decided(arm int, reason string) journey.Input {
	return journey.Input{Kind: journey.InputDecided, Arm: arm, Reason: reason}
}
func elapsed() journey.Input { return journey.Input{Kind: journey.InputElapsed} }
func timedOut(reason string) journey.Input {
	return journey.Input{Kind: journey.InputElapsed, Reason: reason}
}
func matched(reason string) journey.Input {
	return journey.Input{Kind: journey.InputMatched, Reason: reason}
}
func canceled() journey.Input { return journey.Input{Kind: journey.InputCanceled} }

func TestStep(t *testing.T) {
	t.Parallel()
	welcome := string(read(t, "testdata/valid_welcome.json"))
	events := string(read(t, "testdata/valid_events.json"))
	single := func(node string) string { return `{"name":"x","start":"n","nodes":[` + node + `]}` }
	for _, test := range []struct {
		name, definition string
		inputs           []journey.Input
		want             []string
		status           waypost.EnrollmentStatus
		path             []journey.Visit
	}{
		{
			name: "delivered", definition: welcome, status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), sent(true, ""), elapsed(), decided(0, ""), sent(true, "")},
			want: []string{
				"1 hello entered >", "-> send hello 1",
				"2 hello sent >wait", "3 wait entered > until 2026-03-04T13:00:00.000Z", "-> wait wait 2 2026-03-04T13:00:00Z",
				"4 wait waited >check", "-> decide check 3",
				"5 check took >thanks case 1", "-> send thanks 4",
				"6 thanks sent >end", "7 end exited >",
			},
			path: []journey.Visit{{"hello", "delivered"}, {"wait", "waited"}, {"check", "case 1"}, {"thanks", "delivered"}, {"end", "exited"}},
		},
		{
			name: "failed with onFailure, failed without", definition: welcome, status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), sent(false, "httpStatus 404"), sent(false, "succeedFalse")},
			want: []string{
				"1 hello entered >", "-> send hello 1",
				"2 hello failed >sorry httpStatus 404", "-> send sorry 2",
				"3 sorry failed >end succeedFalse", "4 end exited >",
			},
			path: []journey.Visit{{"hello", "failed"}, {"sorry", "failed"}, {"end", "exited"}},
		},
		{
			name: "otherwise with a reason", definition: welcome, status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), sent(true, ""), elapsed(), decided(-1, "otherwise; case 1: error: no such key")},
			want: []string{
				"1 hello entered >", "-> send hello 1",
				"2 hello sent >wait", "3 wait entered > until 2026-03-04T13:00:00.000Z", "-> wait wait 2 2026-03-04T13:00:00Z",
				"4 wait waited >check", "-> decide check 3",
				"5 check took >end otherwise; case 1: error: no such key", "6 end exited >",
			},
			path: []journey.Visit{{"hello", "delivered"}, {"wait", "waited"}, {"check", "otherwise"}, {"end", "exited"}},
		},
		{
			name: "waiting", definition: single(`{"id":"n","type":"delay","for":"PT90M"}`), status: waypost.EnrollmentWaiting,
			inputs: []journey.Input{start()},
			want:   []string{"1 n entered > until 2026-03-01T13:30:00.000Z", "-> wait n 1 2026-03-01T13:30:00Z"},
		},
		{
			name: "no next", definition: single(`{"id":"n","type":"delay","for":"1h"}`), status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), elapsed()},
			want:   []string{"1 n entered > until 2026-03-01T13:00:00.000Z", "-> wait n 1 2026-03-01T13:00:00Z", "2 n waited >", "3 n exited > no next node"},
			path:   []journey.Visit{{"n", "waited"}},
		},
		{
			name: "no otherwise", definition: single(`{"id":"n","type":"branch","cases":[{"when":"false"}]}`), status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), decided(-1, "")},
			want:   []string{"1 n entered >", "-> decide n 1", "2 n took > otherwise", "3 n exited > no next node"},
			path:   []journey.Visit{{"n", "otherwise"}},
		},
		{
			name: "exit at once", definition: single(`{"id":"n","type":"exit"}`), status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start()},
			want:   []string{"1 n entered >", "2 n exited >"},
			path:   []journey.Visit{{"n", "exited"}},
		},
		{
			name: "running", definition: single(`{"id":"n","type":"touchpoint","webhook":"w"}`), status: waypost.EnrollmentRunning,
			inputs: []journey.Input{start()},
			want:   []string{"1 n entered >", "-> send n 1"},
		},
		{
			name: "matched, timed out without onTimeout", definition: events, status: waypost.EnrollmentWaiting,
			inputs: []journey.Input{start(), matched(""), sent(true, ""), timedOut("")},
			want: []string{
				"1 bought entered > event purchase until 2026-03-08T12:00:00.000Z", "-> await bought 1 2026-03-08T12:00:00Z",
				"2 bought matched >thanks event purchase", "-> send thanks 2",
				"3 thanks sent >any", "4 any entered > event app.page-view_2 until 2026-03-01T14:00:00.001Z", "-> await any 3 2026-03-01T14:00:00Z",
				"5 any timedOut >bought", "6 bought entered > event purchase until 2026-03-08T15:00:00.000Z", "-> await bought 4 2026-03-08T15:00:00Z",
			},
			path: []journey.Visit{{"bought", "matched"}, {"thanks", "delivered"}, {"any", "timedOut"}},
		},
		{
			name: "timed out with onTimeout, matched with a reason", definition: events, status: waypost.EnrollmentRunning,
			inputs: []journey.Input{start(), timedOut("error: no such key"), sent(false, ""), matched("event evt_7"), timedOut("")},
			want: []string{
				"1 bought entered > event purchase until 2026-03-08T12:00:00.000Z", "-> await bought 1 2026-03-08T12:00:00Z",
				"2 bought timedOut >nudge error: no such key", "-> send nudge 2",
				"3 nudge failed >again", "4 again entered > event login until 2026-03-02T14:00:00.000Z", "-> await again 3 2026-03-02T14:00:00Z",
				"5 again matched >again event evt_7", "6 again entered > event login until 2026-03-02T15:00:00.000Z", "-> await again 4 2026-03-02T15:00:00Z",
				"7 again timedOut >nudge", "-> send nudge 5",
			},
			path: []journey.Visit{{"bought", "timedOut"}, {"nudge", "failed"}, {"again", "matched"}, {"again", "timedOut"}},
		},
		{
			name: "a wait without next", definition: single(`{"id":"n","type":"waitForEvent","event":"e","timeout":"1h"}`), status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), timedOut("")},
			want:   []string{"1 n entered > event e until 2026-03-01T13:00:00.000Z", "-> await n 1 2026-03-01T13:00:00Z", "2 n timedOut >", "3 n exited > no next node"},
			path:   []journey.Visit{{"n", "timedOut"}},
		},
		{
			name: "several events, the second", definition: string(read(t, "testdata/valid_nodes.json")), status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), {Kind: journey.InputMatched, Arm: 1}, {Kind: journey.InputMatched, Reason: "why"}, {Kind: journey.InputMatched, Arm: 2}},
			want: []string{
				"1 either entered > event purchase or refund until 2026-03-08T12:00:00.000Z", "-> await either 1 2026-03-08T12:00:00Z",
				"2 either matched >again event purchase", "3 again entered > event login until 2026-03-01T14:00:00.000Z", "-> await again 2 2026-03-01T14:00:00Z",
				"4 again matched >either why", "5 either entered > event purchase or refund until 2026-03-08T14:00:00.000Z", "-> await either 3 2026-03-08T14:00:00Z",
				"6 either matched > event refund", "7 either exited > no next node",
			},
			path: []journey.Visit{{"either", "event 2"}, {"again", "event 1"}, {"either", "event 3"}},
		},
		{
			name: "updated and emitted", definition: string(read(t, "testdata/valid_nodes.json")), status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), matched(""), sent(true, ""), enrolled(true, "why"), enrolled(true, "event became.customer"), timedOut("no"), matched("yes")},
			want: []string{
				"1 either entered > event purchase or refund until 2026-03-08T12:00:00.000Z", "-> await either 1 2026-03-08T12:00:00Z",
				"2 either matched >thanks event purchase", "-> send thanks 2", "3 thanks sent >stage", "-> decide stage 3",
				"4 stage updated >tell why", "-> decide tell 4",
				"5 tell emitted >until event became.customer", "6 until entered > until 2026-03-31T16:00:00.000Z", "-> await until 5 2026-03-31T16:00:00Z",
				"7 until timedOut >until no", "8 until entered > until 2026-03-31T17:00:00.000Z", "-> await until 6 2026-03-31T17:00:00Z",
				"9 until matched >end yes", "10 end exited >",
			},
			path: []journey.Visit{{"either", "event 1"}, {"thanks", "delivered"}, {"stage", "updated"}, {"tell", "emitted"}, {"until", "timedOut"}, {"until", "matched"}, {"end", "exited"}},
		},
		{
			name: "not updated", definition: string(read(t, "testdata/valid_nodes.json")), status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), matched(""), sent(true, ""), enrolled(false, "gender: no")},
			want: []string{
				"1 either entered > event purchase or refund until 2026-03-08T12:00:00.000Z", "-> await either 1 2026-03-08T12:00:00Z",
				"2 either matched >thanks event purchase", "-> send thanks 2", "3 thanks sent >stage", "-> decide stage 3",
				"4 stage failed >end gender: no", "5 end exited >",
			},
			path: []journey.Visit{{"either", "event 1"}, {"thanks", "delivered"}, {"stage", "failed"}, {"end", "exited"}},
		},
		{
			name: "cannot go on", definition: single(`{"id":"n","type":"emit","event":"e","next":"n"}`), status: waypost.EnrollmentFailed,
			inputs: []journey.Input{start(), {Kind: journey.InputFailed, Reason: "too many"}},
			want:   []string{"1 n entered >", "-> decide n 1", "2 n failed > too many"},
			path:   []journey.Visit{{"n", "failed"}},
		},
		{
			name: "several events, none in time", definition: string(read(t, "testdata/valid_nodes.json")), status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), timedOut(""), timedOut("")},
			want: []string{
				"1 either entered > event purchase or refund until 2026-03-08T12:00:00.000Z", "-> await either 1 2026-03-08T12:00:00Z",
				"2 either timedOut >again", "3 again entered > event login until 2026-03-01T14:00:00.000Z", "-> await again 2 2026-03-01T14:00:00Z",
				"4 again timedOut >", "5 again exited > no next node",
			},
			path: []journey.Visit{{"either", "timedOut"}, {"again", "timedOut"}},
		},
		{
			name: "canceled", definition: events, status: waypost.EnrollmentCanceled,
			inputs: []journey.Input{start(), matched(""), canceled()},
			want: []string{
				"1 bought entered > event purchase until 2026-03-08T12:00:00.000Z", "-> await bought 1 2026-03-08T12:00:00Z",
				"2 bought matched >thanks event purchase", "-> send thanks 2",
			},
			path: []journey.Visit{{"bought", "matched"}},
		},
		{
			name: "canceled before it began", definition: events, status: waypost.EnrollmentCanceled,
			inputs: []journey.Input{canceled()},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			s, lines := walk(t, parse(t, test.definition), test.inputs...)
			if got, want := strings.Join(lines, "\n"), strings.Join(test.want, "\n"); got != want {
				t.Errorf("steps:\n%s\nwant:\n%s", got, want)
			}
			if s.EnrollmentStatus() != test.status {
				t.Errorf("status %q, want %q", s.EnrollmentStatus(), test.status)
			}
			if !reflect.DeepEqual(s.Path, test.path) {
				t.Errorf("path %v, want %v", s.Path, test.path)
			}
		})
	}
}

// TestStep_unexpected gives every state every input that it does not expect.
func TestStep_unexpected(t *testing.T) {
	t.Parallel()
	d := parse(t, string(read(t, "testdata/valid_welcome.json")))
	sending, _ := walk(t, d, start())
	waiting, _ := walk(t, d, start(), sent(true, ""))
	deciding, _ := walk(t, d, start(), sent(true, ""), elapsed())
	done, _ := walk(t, d, start(), sent(false, ""), sent(true, ""))
	stopped, _ := walk(t, d, start(), canceled())
	awaiting, _ := walk(t, parse(t, string(read(t, "testdata/valid_events.json"))), start())
	moved := sending
	moved.Node = "gone"
	confused := sending
	confused.Node = "check"
	elsewhere := awaiting
	elsewhere.Node = "wait"
	for name, test := range map[string]struct {
		state  journey.State
		inputs []journey.Input
	}{
		"not started": {journey.State{}, []journey.Input{sent(true, ""), decided(0, ""), elapsed(), matched(""), {}, {Kind: "event"}}},
		"sending":     {sending, []journey.Input{start(), decided(0, ""), elapsed(), matched(""), {}}},
		"waiting":     {waiting, []journey.Input{start(), sent(true, ""), decided(0, ""), matched("")}},
		"deciding":    {deciding, []journey.Input{start(), sent(true, ""), elapsed(), matched(""), decided(1, ""), decided(-2, "")}},
		"done":        {done, []journey.Input{start(), sent(true, ""), decided(0, ""), elapsed(), matched(""), canceled()}},
		"canceled":    {stopped, []journey.Input{start(), sent(true, ""), elapsed(), canceled()}},
		"elsewhere":   {elsewhere, []journey.Input{matched(""), elapsed()}},
		"moved":       {moved, []journey.Input{sent(true, "")}},
		"confused":    {confused, []journey.Input{sent(true, ""), decided(0, "")}},
	} {
		for _, in := range test.inputs {
			in.At = noon
			s, effect, err := journey.Step(d, test.state, in)
			if err == nil || !reflect.DeepEqual(s, test.state) || !reflect.DeepEqual(effect, journey.Effect{}) {
				t.Errorf("%s: input %+v: state %+v, effect %+v, error %v", name, in, s, effect, err)
			}
		}
	}
	if (journey.State{}).EnrollmentStatus() != waypost.EnrollmentPending {
		t.Error("an enrollment that has not started is not pending")
	}
}

// TestStep_drafts steps through definitions that Check refuses: an error, never a
// panic, and the state stays.
func TestStep_drafts(t *testing.T) {
	t.Parallel()
	for _, source := range []string{
		`{}`,
		`{"start":"gone"}`,
		`{"start":"n","nodes":[{"id":"n","type":"delay","for":"soon"}]}`,
		`{"start":"n","nodes":[{"id":"n","type":"delay"}]}`,
		`{"start":"n","nodes":[{"id":"n","type":"waitForEvent","event":"e","timeout":"soon"}]}`,
		`{"start":"n","nodes":[{"id":"n","type":"waitForEvent"}]}`,
	} {
		s, _, err := journey.Step(parse(t, source), journey.State{}, start())
		if err == nil || !reflect.DeepEqual(s, journey.State{}) {
			t.Errorf("%s: state %+v, error %v", source, s, err)
		}
	}
	d := parse(t, `{"start":"n","nodes":[{"id":"n","type":"touchpoint","next":"gone"}]}`)
	before, _ := walk(t, d, start())
	if s, _, err := journey.Step(d, before, sent(true, "")); err == nil || !reflect.DeepEqual(s, before) {
		t.Errorf("state %+v, error %v", s, err)
	}
	late := start()
	late.At = time.Date(9999, 12, 31, 23, 0, 0, 0, time.UTC)
	if _, _, err := journey.Step(parse(t, `{"start":"n","nodes":[{"id":"n","type":"delay","for":"2h"}]}`), journey.State{}, late); err == nil {
		t.Error("a time that JSON cannot hold was made")
	}
}

func TestStep_longReason(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"start":"n","nodes":[{"id":"n","type":"touchpoint"}]}`)
	s, _ := walk(t, d, start())
	_, effect, err := journey.Step(d, s, sent(false, strings.Repeat("é", 5000)))
	if err != nil || len(effect.Entries[0].Reason) > 510 {
		t.Errorf("a reason of %d bytes, error %v", len(effect.Entries[0].Reason), err)
	}
}

// Each outcome of a node has the way of its own that the definition gives it, also where several lead
// to one node or to the end.
func TestStep_ways(t *testing.T) {
	t.Parallel()
	arm := func(kind journey.InputKind, i int) journey.Input { return journey.Input{Kind: kind, Arm: i} }
	for node, outcomes := range map[string]map[string]journey.Input{
		`{"id":"n","type":"touchpoint","webhook":"whk_1","next":"end","onFailure":"end"}`: {
			"next > end": sent(true, ""), "onFailure > end": sent(false, ""),
		},
		`{"id":"n","type":"touchpoint","webhook":"whk_1","next":"end"}`:                                       {"next > end": sent(false, "")},
		`{"id":"n","type":"touchpoint","webhook":"whk_1"}`:                                                    {"next > ": {Kind: journey.InputSkipped}},
		`{"id":"n","type":"delay","for":"1h","next":"end"}`:                                                   {"next > end": elapsed()},
		`{"id":"n","type":"waitForEvent","event":"nb","timeout":"1s","next":"end","onTimeout":"end"}`:         {"next > end": matched(""), "onTimeout > end": elapsed()},
		`{"id":"n","type":"waitFor","when":"true","timeout":"1s","next":"end","onTimeout":"end"}`:             {"next > end": matched(""), "onTimeout > end": elapsed()},
		`{"id":"n","type":"waitFor","when":"true","timeout":"1s","next":"end"}`:                               {"next > end": elapsed()},
		`{"id":"n","type":"waitUntil","lead":"birthday","time":"09:00","next":"end","onMissed":"end"}`:        {"onMissed > end": decided(0, "")},
		`{"id":"n","type":"split","arms":[{"weight":1,"next":"end"},{"weight":1,"next":"end"},{"weight":1}]}`: {"arm:0 > end": decided(0, ""), "arm:1 > end": decided(1, ""), "arm:2 > ": decided(2, "")},
		`{"id":"n","type":"enroll","journey":"jrn_1","next":"end"}`:                                           {"next > end": decided(0, "")},
		`{"id":"n","type":"emit","event":"x","next":"end","onFailure":"end"}`:                                 {"onFailure > end": decided(0, "")},
		`{"id":"n","type":"branch","cases":[{"when":"true","next":"end"},{"when":"true","next":"end"},{"when":"true"}],"otherwise":"end"}`: {
			"case:0 > end": decided(0, ""), "case:1 > end": decided(1, ""), "case:2 > ": decided(2, ""), "otherwise > end": decided(-1, ""),
		},
		`{"id":"n","type":"waitForEvent","events":[{"event":"a","next":"end"},{"event":"b b","next":"end"},{"event":"a"}],"timeout":"1s"}`: {
			"event:a > end": arm(journey.InputMatched, 0), "event:b b > end": arm(journey.InputMatched, 1), "event:a > ": arm(journey.InputMatched, 2), "onTimeout > ": elapsed(),
		},
	} {
		d := parse(t, `{"name":"x","start":"n","nodes":[`+node+`,{"id":"end","type":"exit"}]}`)
		s, _, err := journey.Step(d, journey.State{}, journey.Input{Kind: journey.InputStart, At: noon})
		if err != nil {
			t.Fatal(err)
		}
		for want, in := range outcomes {
			in.At = noon
			_, effect, err := journey.Step(d, s, in)
			if err != nil {
				t.Fatalf("%s: %v", node, err)
			}
			if e := effect.Entries[0]; e.Way+" > "+e.Next != want || effect.Entries[1].Way != "" {
				t.Errorf("%s: left by %q > %q, want %q", node, e.Way, e.Next, want)
			}
		}
	}
}
