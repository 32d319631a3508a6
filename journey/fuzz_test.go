package journey_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"waypost"
	"waypost/journey"
)

// FuzzParse reads anything as a definition. What is accepted has a canonical form
// that reads back the same, can be checked, and can be walked.
func FuzzParse(f *testing.F) {
	files, err := filepath.Glob("testdata/*.json")
	if err != nil {
		f.Fatal(err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data, uint64(0))
	}
	f.Add([]byte(`{"name":"x","start":"a","exitOn":[{"event":"e"}],"quietHours":{"from":"21:00","to":"08:00"},"frequencyCap":{"touchpoints":1,"per":"24h"},"nodes":[{"id":"a","type":"split","arms":[{"weight":1,"next":"b"},{"weight":2,"next":"c"}]},{"id":"b","type":"waitUntil","time":"09:00","weekdays":["mon"],"next":"d"},{"id":"c","type":"waitUntil","lead":"birthday","offset":"-P3D","timezone":"Asia/Kathmandu","next":"b"},{"id":"d","type":"touchpoint","webhook":"w","next":"f"},{"id":"f","type":"enroll","journey":"jrn_2","next":"a"}]}`), uint64(0x5a5a))
	f.Add([]byte(`{"start":"a","nodes":[{"id":"a","type":"branch","cases":[{"when":"true","next":"a"}],"otherwise":"b"},{"id":"b","type":"delay","for":"1h","next":"a"}]}`), uint64(0x5a5a))
	f.Fuzz(func(t *testing.T, data []byte, choices uint64) {
		d, problems := journey.Parse(data)
		if (d == nil) == (len(problems) == 0) {
			t.Fatalf("definition %v with problems %v", d != nil, problems)
		}
		if d == nil {
			return
		}
		canonical := d.Canonical()
		again, problems := journey.Parse(canonical)
		if len(problems) > 0 || string(again.Canonical()) != string(canonical) || again.Hash() != d.Hash() {
			t.Fatalf("canonical form %s: %v", canonical, problems)
		}
		publishable := len(d.Check(nil, nil)) == 0
		changes := journey.Diff(d, again) // must not panic, whatever there is
		if publishable {
			if len(changes) > 0 {
				t.Fatalf("the canonical form is different: %v", changes)
			}
			o := journey.SimulateOptions{Facts: facts(), Start: noon, Steps: 30}
			for i, name := range append(d.ExitOn(), "purchase", "login") {
				if choices>>i&1 == 1 {
					o.Events = append(o.Events, journey.SimulatedEvent{Name: name, After: time.Duration(choices % 1e15), Properties: map[string]any{"amount": 250.0}})
				}
			}
			if run, err := journey.Simulate(t.Context(), d, o); err != nil || run.Status.Ended() == (run.Limit != "") {
				t.Fatalf("run %+v, %v", run, err)
			}
		}
		var s journey.State
		in := journey.Input{Kind: journey.InputStart, At: noon}
		for range 100 {
			next, effect, err := journey.Step(d, s, in)
			if err != nil {
				if publishable {
					t.Fatalf("a definition without problems: %v", err)
				}
				return
			}
			s = next
			if b, err := json.Marshal(s); err != nil || len(b) > 16<<10 {
				t.Fatalf("a state of %d bytes, %v", len(b), err)
			}
			choice := choices & 3
			choices = choices>>2 | choices<<62
			switch c := effect.Command; c.Kind {
			case "":
				return
			case journey.CommandSend:
				if params, err := d.Render(c.Node, nil, facts()); (params == nil) == (err == nil) {
					t.Fatalf("params %v, %v", params, err)
				}
				in = journey.Input{Kind: journey.InputSent, At: in.At, Succeed: choice > 0}
			case journey.CommandDecide:
				n, _ := d.Node(c.Node)
				switch n.Type {
				case journey.UpdateLead:
					patch, err := d.LeadPatch(n.ID, facts())
					if err == nil {
						_, _, err = patch.Change(facts().Lead.LeadFields, "", noon)
					}
					if reason, refused := journey.EffectFault(err); err != nil && !refused || strings.Contains(reason, secret) {
						t.Fatalf("reason %q, %v", reason, err)
					}
				case journey.Emit:
					_, err := d.EventOf(n.ID, facts())
					if reason, refused := journey.EffectFault(err); err != nil && !refused || strings.Contains(reason, secret) {
						t.Fatalf("reason %q, %v", reason, err)
					}
				}
				if n.Type == journey.Enroll || n.Type == journey.UpdateLead || n.Type == journey.Emit {
					in = journey.Input{Kind: journey.InputDecided, At: in.At, Succeed: choice > 0}
					break
				}
				decided, err := d.DecideAt(c.Node, facts(), in.At)
				if err != nil || strings.Contains(decided.Reason, secret) {
					t.Fatalf("reason %q, %v", decided.Reason, err)
				}
				if n, _ := d.Node(c.Node); n.Type == journey.Branch && choice == 0 {
					decided.Arm = -1
				} else if !decided.Until.IsZero() && !decided.Until.After(in.At) {
					t.Fatalf("a wait at %s until %s", in.At, decided.Until)
				}
				in = decided
			case journey.CommandWait:
				in = journey.Input{Kind: journey.InputElapsed, At: c.Until}
			case journey.CommandAwait:
				f := facts()
				f.Event = map[string]any{"amount": 250.0, "name": secret}
				n, _ := d.Node(c.Node)
				if n.Type == journey.WaitFor {
					yes, reason := d.Holds(n.ID, facts())
					if strings.Contains(reason, secret) {
						t.Fatalf("%v, reason %q", yes, reason)
					}
					in = journey.Input{Kind: journey.InputElapsed, At: c.Until, Reason: reason}
					break
				}
				which, reason := d.Matches(n.ID, n.Awaits()[int(choice)%len(n.Awaits())], f)
				if strings.Contains(reason, secret) {
					t.Fatalf("%v, reason %q", which, reason)
				}
				in = journey.Input{Kind: journey.InputMatched, At: in.At, Arm: which, Reason: reason}
				if which < 0 || choice == 0 {
					in = journey.Input{Kind: journey.InputElapsed, At: c.Until, Reason: reason}
				}
			}
		}
	})
}

// FuzzTemplate compiles and renders anything. Errors never tell a value, and
// output is text that JSON can hold.
func FuzzTemplate(f *testing.F) {
	for _, template := range costlyTemplates {
		f.Add(template)
	}
	for _, template := range []string{
		"Hi {{ lead.name | default: 'you' }}", "{% for p in lead.mobilePhone limit: 1 %}{{ p }}{% else %}-{% endfor %}",
		"{% case lead.gender %}{% when 1, 2 %}a{% else %}b{% endcase %}", "{% raw %}{{{% endraw %}", "{%- assign x = 'a' | split: ',' -%}{{ x[0] }}",
		"{{ lead.createdAt | date: '%d.%m.%Y' }}", "{{ '%ff%00' | url_decode }}", "{% capture x %}{{ lead }}{% endcapture %}{{ x | truncate: 9 }}",
		"{{ 99999999999999999999 }}", "{{ (1..3) | join: '-' }}", "{{ %loop x in y }}", "{% if a %}{% elsif b %}{% endif %}",
		"{% liquid\n assign x = lead.name | default: 1, allow_false: true\n echo x\n%}", "{% tablerow i in (1..3) cols: 2 %}{% cycle 'a': i, 2 %}{% endtablerow %}{% increment x %}", "{% comment %}{% raw %}{% endcomment %}{% endraw %}{% endcomment %}{% # x %}",
		"{{ lead.mobilePhone | where: 'a', nil | find: 'b' | sum: 'c' | sort_natural | reject: 'x' }}", "{{ now | date: '%-d %^b %10N' }}{{ 'March 14, 2027' | date: '%c' }}", "{{ '10.1' | minus: 2.2 | round: -2 | divided_by: 3 }}",
	} {
		f.Add(template)
	}
	f.Fuzz(func(t *testing.T, template string) {
		if !utf8.ValidString(template) || strings.ContainsRune(template, 0) {
			return // DecodeJSON refuses it
		}
		if err := journey.CheckTemplate(template); err != nil {
			return
		}
		d := touchpoint(t, map[string]any{"p": template})
		params, err := d.Render("t", nil, facts())
		if err != nil {
			if waypost.CodeOf(err) != waypost.CodeUnprocessableEntity || strings.Contains(err.Error(), secret) || err.Error() == "params.p: the template does not compile" {
				t.Fatalf("error %v", err)
			}
			return
		}
		out := params["p"].(string)
		if !utf8.ValidString(out) || strings.ContainsRune(out, 0) || len(out) > 64<<10+64 {
			t.Fatalf("an output of %d bytes", len(out))
		}
		again, err := d.Render("t", nil, facts())
		if err != nil || again["p"] != out {
			t.Fatalf("rendered again: %q, %v; want %q", again["p"], err, out)
		}
	})
}

// expected lists what each phase takes: the table of Step, written once more.
var expected = map[journey.Phase][]journey.InputKind{
	"":                   {journey.InputStart, journey.InputCanceled, journey.InputExited},
	journey.PhaseSend:    {journey.InputSent, journey.InputSkipped, journey.InputDeferred, journey.InputCanceled, journey.InputExited},
	journey.PhaseDecide:  {journey.InputDecided, journey.InputFailed, journey.InputCanceled, journey.InputExited},
	journey.PhaseWait:    {journey.InputElapsed, journey.InputChanged, journey.InputMoved, journey.InputCanceled, journey.InputExited},
	journey.PhaseAwait:   {journey.InputElapsed, journey.InputMatched, journey.InputMoved, journey.InputCanceled, journey.InputExited},
	journey.PhaseDone:    nil,
	journey.Phase("odd"): {journey.InputCanceled, journey.InputExited},
}

// FuzzStep begins anywhere, with anything that reads as a state, and gives it any
// inputs. Whatever a state that Step itself made is given, it takes what its phase
// expects and nothing else.
func FuzzStep(f *testing.F) {
	files, err := filepath.Glob("testdata/valid_*.json")
	if err != nil || len(files) == 0 {
		f.Fatalf("%d definitions, %v", len(files), err)
	}
	var definitions []*journey.Definition
	for _, file := range files {
		definitions = append(definitions, parse(f, string(read(f, file))))
	}
	kinds := []journey.InputKind{
		journey.InputStart, journey.InputSent, journey.InputDeferred, journey.InputDecided,
		journey.InputElapsed, journey.InputMatched, journey.InputCanceled, "other",
		journey.InputSkipped, journey.InputExited, journey.InputMoved, journey.InputChanged, journey.InputFailed,
	}
	for i := range definitions {
		f.Add(uint8(i), []byte(`{}`), []byte{0, 1, 4, 5, 36, 3, 17, 4, 25, 14, 6})
		f.Add(uint8(i), []byte(`{}`), []byte{0, 8, 2, 23, 47, 10, 98, 80, 21, 9})
		f.Add(uint8(i), []byte(`{"v":1,"n":"bought","p":"await","k":1,"s":1,"u":"2026-03-01T12:00:00Z"}`), []byte{5, 1, 5, 4, 4})
		f.Add(uint8(i), []byte(`{"v":1,"n":"hello","p":"await","t":null}`), []byte{6, 6})
		f.Add(uint8(i), []byte(`{"p":"odd"}`), []byte{0, 6})
	}
	f.Fuzz(func(t *testing.T, which uint8, begin, script []byte) {
		d := definitions[int(which)%len(definitions)]
		var s journey.State
		if json.Unmarshal(begin, &s) != nil {
			return
		}
		ours := reflect.DeepEqual(s, journey.State{}) // made by Step, or not begun
		at := noon
		for _, b := range script[:min(len(script), 200)] {
			at = at.Add(time.Minute)
			choice := int(b) / len(kinds)
			in := journey.Input{Kind: kinds[int(b)%len(kinds)], At: at, Succeed: choice&1 != 0, Arm: choice - 2}
			if choice&2 != 0 {
				in.Until = at.Add(time.Hour)
			}
			if nodes := d.Nodes(); choice < len(nodes) {
				in.Node = nodes[choice].ID
			}
			next, effect, err := journey.Step(d, s, in)
			takes := slices.Contains(expected[s.Phase], in.Kind)
			if n, ok := d.Node(s.Node); in.Kind == journey.InputDecided && ok {
				switch n.Type {
				case journey.Branch:
					takes = takes && in.Arm >= -1 && in.Arm < len(n.Cases)
				case journey.Split:
					takes = takes && in.Arm >= 0 && in.Arm < len(n.Arms)
				}
			}
			if n, _ := d.Node(s.Node); in.Kind == journey.InputMatched {
				takes = takes && (n.Type == journey.WaitFor || in.Arm >= 0 && in.Arm < max(1, len(n.Events)))
			}
			if n, _ := d.Node(s.Node); in.Kind == journey.InputChanged {
				takes = takes && n.Type == journey.WaitUntil
			}
			if in.Kind == journey.InputMoved {
				n, ok := d.Node(in.Node)
				waits := n.Holding()
				takes = takes && ok && (in.Until.IsZero() || waits)
			}
			if ours && takes != (err == nil) {
				t.Fatalf("input %+v in phase %q: %v", in, s.Phase, err)
			}
			if err != nil {
				if !reflect.DeepEqual(next, s) || !reflect.DeepEqual(effect, journey.Effect{}) {
					t.Fatalf("error %v with state %+v, effect %+v", err, next, effect)
				}
				continue
			}
			done := next.Phase == journey.PhaseDone
			if done != (effect.Command.Kind == "") || done != next.EnrollmentStatus().Ended() {
				t.Fatalf("phase %q, status %q, command %+v", next.Phase, next.EnrollmentStatus(), effect.Command)
			}
			if (in.Kind == journey.InputCanceled) != (len(effect.Entries) == 0) || next.Seq != s.Seq+len(effect.Entries) && in.Kind != journey.InputStart {
				t.Fatalf("input %q: %d entries, %d after %d", in.Kind, len(effect.Entries), next.Seq, s.Seq)
			}
			s = next
		}
	})
}

// FuzzCondition compiles and evaluates anything as the condition of a branch and
// of a wait for an event.
func FuzzCondition(f *testing.F) {
	for _, condition := range []string{
		"lead.gender == 1 && touchpoints.hello.succeed", "lead.region != null", "lead.customFields.x > 3", "lead.mobilePhone.exists(p, p == '1')",
		"lead.name.matches('^(a|b)+$')", "has(lead.name) ? lead.name == 'x' : false", "[1, 2].map(x, x * 2)[0] == 2", "{'a': lead.name}.a == 'x'",
		"event.amount > 100", "event.tags.exists(t, t == 'a')", "event[event.name] == event", "{'x': event}.x.amount == 250",
		"timestamp(lead.birthday) < lead.createdAt", "duration('1h') > duration(lead.name)", "lead.customFields[lead.name] == 1", "type(lead.name) == string",
	} {
		f.Add(condition)
	}
	f.Fuzz(func(t *testing.T, condition string) {
		if !utf8.ValidString(condition) || strings.ContainsRune(condition, 0) || strings.Contains(condition, secret) {
			return
		}
		d := branchOn(t, condition)
		problems := d.Check(nil, nil)
		arm, reason := d.Decide("b", facts())
		if strings.Contains(reason, secret) || len(reason) > 310 || !utf8.ValidString(reason) || arm > 0 {
			t.Fatalf("arm %d, reason %q", arm, reason)
		}
		if len(problems) > 0 && arm >= 0 {
			t.Fatalf("taken although %v", problems)
		}
		f := facts()
		f.Event = map[string]any{"amount": 250.0, "name": secret, "tags": []any{"a"}}
		d = waitOn(t, condition)
		problems = d.Check(nil, nil)
		yes, reason := matches(d, "w", f)
		if strings.Contains(reason, secret) || len(reason) > 310 || !utf8.ValidString(reason) || yes && len(problems) > 0 {
			t.Fatalf("%v, reason %q, problems %v", yes, reason, problems)
		}
	})
}
