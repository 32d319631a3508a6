package journey_test

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
)

func decidedUntil(hours int, reason string) journey.Input {
	in := journey.Input{Kind: journey.InputDecided, Reason: reason}
	if hours > 0 {
		in.Until = noon.Add(time.Duration(hours) * time.Hour)
	}
	return in
}
func changedUntil(hours int, reason string) journey.Input {
	in := decidedUntil(hours, reason)
	in.Kind = journey.InputChanged
	return in
}
func enrolled(ok bool, reason string) journey.Input {
	return journey.Input{Kind: journey.InputDecided, Succeed: ok, Reason: reason}
}
func skipped() journey.Input {
	return journey.Input{Kind: journey.InputSkipped, Reason: waypost.SkipFrequencyCap}
}
func exited() journey.Input {
	return journey.Input{Kind: journey.InputExited, Reason: "event unsubscribed"}
}

// TestStep_language walks the nodes and inputs that the first journeys did not
// have.
func TestStep_language(t *testing.T) {
	t.Parallel()
	everything := string(read(t, "testdata/valid_everything.json"))
	toArms := []journey.Input{start(), sent(true, ""), elapsed(), decidedUntil(70, ""), elapsed(), timedOut("")}
	for _, test := range []struct {
		name, definition string
		inputs           []journey.Input
		from             int // the entries and commands of earlier steps are not compared
		want             []string
		status           waypost.EnrollmentStatus
		path             []journey.Visit
	}{
		{
			name: "a time of day", definition: everything, status: waypost.EnrollmentWaiting, from: 2,
			inputs: []journey.Input{start(), sent(true, ""), elapsed(), decidedUntil(70, ""), elapsed()},
			want: []string{
				"4 wait waited >morning", "-> decide morning 3",
				"5 morning entered > until 2026-03-04T10:00:00.000Z", "-> wait morning 3 2026-03-04T10:00:00Z",
				"6 morning waited >bought", "7 bought entered > event purchase until 2026-03-08T16:00:00.000Z", "-> await bought 4 2026-03-08T16:00:00Z",
			},
			path: []journey.Visit{{"hello", "delivered"}, {"wait", "waited"}, {"morning", "waited"}},
		},
		{
			name: "the last arm, which ends", definition: everything, status: waypost.EnrollmentCompleted, from: 5,
			inputs: append(toArms[:len(toArms):len(toArms)], decided(2, "")),
			want: []string{
				"8 bought timedOut >arms", "-> decide arms 5",
				"9 arms took > arm 3", "10 arms exited > no next node",
			},
			path: []journey.Visit{{"hello", "delivered"}, {"wait", "waited"}, {"morning", "waited"}, {"bought", "timedOut"}, {"arms", "arm 3"}},
		},
		{
			name: "arm with a reason, nothing to wait for", definition: strings.Replace(everything, `"lead": "birthday",`, `"lead": "birthday", "onMissed": "again",`, 1), status: waypost.EnrollmentWaiting, from: 6,
			inputs: append(toArms[:len(toArms):len(toArms)], decided(0, "why"), decided(-1, ""), decidedUntil(0, "missing value"), decidedUntil(20, "")),
			want: []string{
				"9 arms took >check why", "-> decide check 6",
				"10 check took >birthday otherwise", "-> decide birthday 7",
				"11 birthday skipped >again missing value", "-> decide again 8",
				"12 again entered > until 2026-03-02T08:00:00.000Z", "-> wait again 8 2026-03-02T08:00:00Z",
			},
			path: []journey.Visit{{"hello", "delivered"}, {"wait", "waited"}, {"morning", "waited"}, {"bought", "timedOut"}, {"arms", "arm 1"}, {"check", "otherwise"}, {"birthday", "skipped"}},
		},
		{
			name: "capped, enrolled", definition: everything, status: waypost.EnrollmentRunning, from: 5,
			inputs: []journey.Input{start(), sent(true, ""), elapsed(), decidedUntil(70, ""), elapsed(), matched(""), decidedUntil(0, "in the past"), skipped(), enrolled(true, "enrolled enr_7")},
			want: []string{
				"8 bought matched >renewal event purchase", "-> decide renewal 5",
				"9 renewal skipped >thanks in the past", "-> send thanks 6",
				"10 thanks skipped >other frequencyCap", "-> decide other 7",
				"11 other took >old enrolled enr_7", "-> decide old 8",
			},
			path: []journey.Visit{{"hello", "delivered"}, {"wait", "waited"}, {"morning", "waited"}, {"bought", "matched"}, {"renewal", "skipped"}, {"thanks", "skipped"}, {"other", "enrolled"}},
		},
		{
			name: "not enrolled", definition: `{"name":"x","start":"n","nodes":[{"id":"n","type":"enroll","journey":"jrn_2"}]}`, status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), enrolled(false, "")},
			want:   []string{"1 n entered >", "-> decide n 1", "2 n took > notEnrolled", "3 n exited > no next node"},
			path:   []journey.Visit{{"n", "notEnrolled"}},
		},
		{
			name: "a time of day first", definition: `{"name":"x","start":"n","nodes":[{"id":"n","type":"waitUntil","time":"09:00"}]}`, status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), decidedUntil(9, "a word"), elapsed()},
			want:   []string{"1 n entered >", "-> decide n 1", "2 n entered > a word; until 2026-03-01T21:00:00.000Z", "-> wait n 1 2026-03-01T21:00:00Z", "3 n waited >", "4 n exited > no next node"},
			path:   []journey.Visit{{"n", "waited"}},
		},
		{
			name: "until when a birthday is waited for is not told", definition: `{"name":"x","start":"n","nodes":[{"id":"n","type":"waitUntil","lead":"birthday"}]}`, status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), decidedUntil(9, "birthday"), elapsed()},
			want:   []string{"1 n entered >", "-> decide n 1", "2 n entered > birthday", "-> wait n 1 2026-03-01T21:00:00Z", "3 n waited >", "4 n exited > no next node"},
			path:   []journey.Visit{{"n", "waited"}},
		},
		{
			name: "a date that is missed", definition: `{"name":"x","start":"n","nodes":[{"id":"n","type":"waitUntil","lead":"customFields.d","next":"in","onMissed":"out"},{"id":"in","type":"touchpoint","webhook":"w"},{"id":"out","type":"exit"}]}`, status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), decidedUntil(0, "customFields.d: in the past")},
			want:   []string{"1 n entered >", "-> decide n 1", "2 n skipped >out customFields.d: in the past", "3 out exited >"},
			path:   []journey.Visit{{"n", "skipped"}, {"out", "exited"}},
		},
		{
			name: "a birthday that is not known, which nobody is wished a happy one of", definition: `{"name":"x","start":"n","nodes":[{"id":"n","type":"waitUntil","lead":"birthday","next":"wish"},{"id":"wish","type":"touchpoint","webhook":"w"}]}`, status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), decidedUntil(0, "birthday: missing value")},
			want:   []string{"1 n entered >", "-> decide n 1", "2 n skipped > birthday: missing value", "3 n exited > no next node"},
			path:   []journey.Visit{{"n", "skipped"}},
		},
		{
			name: "a date that changes, and is cleared", definition: `{"name":"x","start":"n","nodes":[{"id":"n","type":"waitUntil","lead":"customFields.d","onMissed":"out"},{"id":"out","type":"exit"}]}`, status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), decidedUntil(9, "customFields.d"), changedUntil(20, "customFields.d: changed"), changedUntil(0, "customFields.d: missing value")},
			want: []string{
				"1 n entered >", "-> decide n 1", "2 n entered > customFields.d; until 2026-03-01T21:00:00.000Z", "-> wait n 1 2026-03-01T21:00:00Z",
				"3 n entered > customFields.d: changed; until 2026-03-02T08:00:00.000Z", "-> wait n 1 2026-03-02T08:00:00Z",
				"4 n skipped >out customFields.d: missing value", "5 out exited >",
			},
			path: []journey.Visit{{"n", "skipped"}, {"out", "exited"}},
		},
		{
			name: "a birthday that changes", definition: `{"name":"x","start":"n","nodes":[{"id":"n","type":"waitUntil","lead":"birthday"}]}`, status: waypost.EnrollmentCompleted,
			inputs: []journey.Input{start(), decidedUntil(9, "birthday"), changedUntil(20, "birthday: changed"), elapsed()},
			want: []string{
				"1 n entered >", "-> decide n 1", "2 n entered > birthday", "-> wait n 1 2026-03-01T21:00:00Z",
				"3 n entered > birthday: changed", "-> wait n 1 2026-03-02T08:00:00Z", "4 n waited >", "5 n exited > no next node",
			},
			path: []journey.Visit{{"n", "waited"}},
		},
		{
			name: "held back, then capped", definition: everything, status: waypost.EnrollmentWaiting,
			inputs: []journey.Input{
				start(), {Kind: journey.InputDeferred, Reason: waypost.DeferBreaker},
				{Kind: journey.InputDeferred, Reason: waypost.DeferQuietHours}, skipped(),
			},
			want: []string{
				"1 hello entered >", "-> send hello 1", "2 hello deferred > breakerOpen", "-> send hello 1",
				"3 hello deferred > quietHours", "-> send hello 1",
				"4 hello skipped >wait frequencyCap", "5 wait entered > until 2026-03-04T15:00:00.000Z", "-> wait wait 2 2026-03-04T15:00:00Z",
			},
			path: []journey.Visit{{"hello", "skipped"}},
		},
		{
			name: "left while waiting", definition: everything, status: waypost.EnrollmentExited, from: 2,
			inputs: []journey.Input{start(), sent(true, ""), exited()},
			want:   []string{"4 wait exited > event unsubscribed"},
			path:   []journey.Visit{{"hello", "delivered"}},
		},
		{
			name: "left before it began", definition: everything, status: waypost.EnrollmentExited,
			inputs: []journey.Input{exited()},
			want:   []string{"1  exited > event unsubscribed"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, test.definition)
			_, before := walk(t, d, test.inputs[:test.from]...)
			s, lines := walk(t, d, test.inputs...)
			if got, want := strings.Join(lines[len(before):], "\n"), strings.Join(test.want, "\n"); got != want {
				t.Errorf("steps:\n%s\nwant:\n%s", got, want)
			}
			if s.EnrollmentStatus() != test.status || !reflect.DeepEqual(s.Path, test.path) {
				t.Errorf("status %q, path %v", s.EnrollmentStatus(), s.Path)
			}
		})
	}
	d := parse(t, everything)
	deciding, _ := walk(t, d, toArms...)
	waiting, _ := walk(t, d, start(), sent(true, ""))
	sending, _ := walk(t, d, start())
	atTime, _ := walk(t, d, start(), sent(true, ""), elapsed())
	late := decidedUntil(1, "")
	late.Until = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, test := range map[string]struct {
		state journey.State
		in    journey.Input
	}{
		"no arm":                 {deciding, decided(-1, "")},
		"no such arm":            {deciding, decided(3, "")},
		"skipped in a wait":      {waiting, skipped()},
		"changed in a delay":     {waiting, changedUntil(9, "")},
		"year 10000":             {atTime, late},
		"moved while it is sent": {sending, journey.Input{Kind: journey.InputMoved, Node: "wait"}},
		"moved while deciding":   {deciding, journey.Input{Kind: journey.InputMoved, Node: "wait"}},
		"moved to nowhere":       {waiting, journey.Input{Kind: journey.InputMoved, Node: "gone"}},
		"no wait to go on":       {waiting, journey.Input{Kind: journey.InputMoved, Node: "hello", Until: noon}},
	} {
		if s, effect, err := journey.Step(d, test.state, test.in); err == nil || !reflect.DeepEqual(s, test.state) || !reflect.DeepEqual(effect, journey.Effect{}) {
			t.Errorf("%s: state %+v, effect %+v, error %v", name, s, effect, err)
		}
	}
}

// TestStep_moved moves enrollments that wait from one version to another.
func TestStep_moved(t *testing.T) {
	t.Parallel()
	version := func(nodes string) *journey.Definition {
		return parse(t, `{"name":"x","start":"a","nodes":[{"id":"a","type":"touchpoint","webhook":"w","next":"d"},`+nodes+`,{"id":"end","type":"exit"}]}`)
	}
	const reason = "moved from version 1 to 2"
	for _, test := range []struct {
		name, from, to, node string
		wait                 journey.Input // of a waitUntil
		want                 []string      // the time is 14:00, the wait began at 13:00
		status               waypost.EnrollmentStatus
	}{
		{
			name: "the same delay goes on", from: `{"id":"d","type":"delay","for":"72h"}`, to: `{"id":"d2","type":"delay","for":"P3D","next":"end"}`, node: "d2",
			want: []string{"4 d2 entered > moved from version 1 to 2; until 2026-03-04T13:00:00.000Z", "-> wait d2 3 2026-03-04T13:00:00Z"}, status: waypost.EnrollmentWaiting,
		},
		{
			name: "another delay begins", from: `{"id":"d","type":"delay","for":"72h"}`, to: `{"id":"d","type":"delay","for":"71h","next":"end"}`, node: "d",
			want: []string{"4 d entered > moved from version 1 to 2; until 2026-03-04T13:00:00.000Z", "-> wait d 3 2026-03-04T13:00:00Z"}, status: waypost.EnrollmentWaiting,
		},
		{
			name: "the same wait for an event", from: `{"id":"d","type":"waitForEvent","event":"e","timeout":"24h"}`, to: `{"id":"d","type":"waitForEvent","event":"f","timeout":"24h","when":"true"}`, node: "d",
			want: []string{"4 d entered > moved from version 1 to 2; event f until 2026-03-02T13:00:00.000Z", "-> await d 3 2026-03-02T13:00:00Z"}, status: waypost.EnrollmentWaiting,
		},
		{
			name: "a delay becomes a wait for an event", from: `{"id":"d","type":"delay","for":"24h"}`, to: `{"id":"d","type":"waitForEvent","event":"f","timeout":"24h"}`, node: "d",
			want: []string{"4 d entered > moved from version 1 to 2; event f until 2026-03-02T14:00:00.000Z", "-> await d 3 2026-03-02T14:00:00Z"}, status: waypost.EnrollmentWaiting,
		},
		{
			name: "the same time of day", from: `{"id":"d","type":"waitUntil","time":"09:00"}`, to: `{"id":"d","type":"waitUntil","time":"09:00"}`, node: "d", wait: decidedUntil(21, ""),
			want: []string{"4 d entered > moved from version 1 to 2; until 2026-03-02T09:00:00.000Z", "-> wait d 3 2026-03-02T09:00:00Z"}, status: waypost.EnrollmentWaiting,
		},
		{
			name: "another time of day", from: `{"id":"d","type":"waitUntil","time":"09:00"}`, to: `{"id":"d","type":"waitUntil","time":"09:00","weekdays":["mon"]}`, node: "d", wait: decidedUntil(21, ""),
			want: []string{"4 d entered > moved from version 1 to 2", "-> decide d 3"}, status: waypost.EnrollmentRunning,
		},
		{
			name: "to a touchpoint", from: `{"id":"d","type":"delay","for":"72h"}`, to: `{"id":"d","type":"delay","for":"72h"}`, node: "a",
			want: []string{"4 a entered > moved from version 1 to 2", "-> send a 3"}, status: waypost.EnrollmentRunning,
		},
		{
			name: "to the end", from: `{"id":"d","type":"delay","for":"72h"}`, to: `{"id":"d","type":"delay","for":"72h"}`, node: "end",
			want: []string{"4 end entered > moved from version 1 to 2", "5 end exited >"}, status: waypost.EnrollmentCompleted,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			from, to := version(test.from), version(test.to)
			inputs := []journey.Input{start(), sent(true, "")}
			if test.wait.Kind != "" {
				inputs = append(inputs, test.wait)
			}
			s, _ := walk(t, from, inputs...)
			in, err := journey.Moved(from, to, s, test.node, noon.Add(2*time.Hour), reason)
			if err != nil {
				t.Fatal(err)
			}
			after, effect, err := journey.Step(to, s, in)
			if err != nil {
				t.Fatal(err)
			}
			if got, want := linesOf(effect), strings.Join(test.want, "\n"); got != want {
				t.Errorf("step:\n%s\nwant:\n%s", got, want)
			}
			if after.EnrollmentStatus() != test.status || after.Path[1] != (journey.Visit{Node: "d", Result: "moved"}) || after.Node != test.node {
				t.Errorf("state %+v", after)
			}
			if after.EnrollmentStatus() == waypost.EnrollmentWaiting && !after.Until.Equal(effect.Command.Until) {
				t.Errorf("until %s, command %+v", after.Until, effect.Command)
			}
		})
	}
	d := version(`{"id":"d","type":"delay","for":"72h"}`)
	sending, _ := walk(t, d, start())
	waiting, _ := walk(t, d, start(), sent(true, ""))
	for name, test := range map[string]struct {
		from  *journey.Definition
		state journey.State
		node  string
	}{"not waiting": {d, sending, "d"}, "not begun": {d, journey.State{}, "d"}, "no such node": {d, waiting, "gone"}, "another version": {version(`{"id":"e","type":"exit"}`), waiting, "d"}} {
		if in, err := journey.Moved(test.from, d, test.state, test.node, noon, reason); err == nil {
			t.Errorf("%s: %+v", name, in)
		}
	}
}

// linesOf writes the entries and the command of a step as walk does.
func linesOf(effect journey.Effect) string {
	var lines []string
	for _, e := range effect.Entries {
		lines = append(lines, entryLine(e))
	}
	if effect.Command.Kind != "" {
		lines = append(lines, commandLine(effect.Command))
	}
	return strings.Join(lines, "\n")
}
