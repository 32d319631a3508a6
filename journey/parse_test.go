package journey_test

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
)

func parse(t testing.TB, source string) *journey.Definition {
	t.Helper()
	d, problems := journey.Parse([]byte(source))
	if len(problems) > 0 {
		t.Fatalf("Parse: %v", problems)
	}
	return d
}

func TestParse_members(t *testing.T) {
	t.Parallel()
	d := parse(t, string(read(t, "testdata/valid_welcome.json")))
	if d.Name() != "Welcome" || d.Start() != "hello" {
		t.Errorf("name %q, start %q", d.Name(), d.Start())
	}
	if want := (waypost.Reentry{Policy: waypost.ReentryAfterExit, Every: waypost.Duration(720 * time.Hour)}); d.Reentry() != want {
		t.Errorf("reentry %+v, want %+v", d.Reentry(), want)
	}
	if got := d.Webhooks(); !reflect.DeepEqual(got, []string{"whk_1", "whk_2"}) {
		t.Errorf("webhooks %v", got)
	}
	if n := len(d.Nodes()); n != 6 {
		t.Errorf("%d nodes", n)
	}
	hello, ok := d.Node("hello")
	if !ok || hello.Type != journey.Touchpoint || hello.Webhook != "whk_1" || hello.Next != "wait" || hello.OnFailure != "sorry" {
		t.Errorf("hello is %+v", hello)
	}
	if number, ok := hello.Params["price"].Number(); !ok || number != "1.10" {
		t.Errorf("price is %q, %v; want 1.10 as it was written", number, ok)
	}
	if text, ok := hello.Params["greeting"].Text(); !ok || text != "Hi {{ lead.name }}" {
		t.Errorf("greeting is %q, %v", text, ok)
	}
	if _, ok := d.Node("nobody"); ok {
		t.Error("there is a node nobody")
	}
	if got := parse(t, `{"name":"x"}`).Reentry(); got != (waypost.Reentry{Policy: waypost.ReentryAfterExit}) {
		t.Errorf("default reentry %+v", got)
	}
}

func TestParse_event(t *testing.T) {
	t.Parallel()
	d := parse(t, string(read(t, "testdata/valid_events.json")))
	bought, ok := d.Node("bought")
	want := journey.Node{
		ID: "bought", Type: journey.WaitForEvent, Event: "purchase", When: "event.amount > 100 && lead.gender != null",
		Timeout: "168h", Since: "enrollment", Next: "thanks", OnTimeout: "nudge",
	}
	if !ok || !reflect.DeepEqual(bought, want) || !bought.SinceEnrollment() {
		t.Errorf("bought is %+v", bought)
	}
	if last, _ := d.Node("last"); last.SinceEnrollment() {
		t.Errorf("last is %+v", last)
	}
	if again := parse(t, string(d.Canonical())); !reflect.DeepEqual(again.Nodes(), d.Nodes()) {
		t.Errorf("canonical form %s", d.Canonical())
	}
}

func TestParse_canonical(t *testing.T) {
	t.Parallel()
	const want = `{"name":"A & B","start":"a","nodes":[{"id":"a","type":"touchpoint","webhook":"w","params":{"n":1.10,"s":"<é>","z":[1,{"a":null,"b":2}]},"next":"b"},{"id":"b","type":"exit"}]}`
	for _, source := range []string{
		want,
		`{"nodes":[{"next":"b","type":"touchpoint","params":{"z":[1,{"b":2,"a":null}],"s":"\u003c\u00e9>","n":1.10},"webhook":"w","id":"a","onFailure":""},{"type":"exit","id":"b"}], "start":"a", "name":"A \u0026 B"}`,
		"{ \"name\" : \"A & B\",\n\"reentry\":{}, \"start\":\"a\",\t\"nodes\":" + want[strings.Index(want, "["):],
	} {
		d := parse(t, source)
		if got := string(d.Canonical()); got != want {
			t.Errorf("canonical form of %s\nis   %s\nwant %s", source, got, want)
		}
		if again := parse(t, string(d.Canonical())); again.Hash() != d.Hash() || len(d.Hash()) != 64 {
			t.Errorf("hash %q becomes %q", d.Hash(), again.Hash())
		}
	}
	if other := parse(t, strings.Replace(want, "1.10", "1.1", 1)); other.Hash() == parse(t, want).Hash() {
		t.Error("two different definitions have one hash")
	}
}

func TestParse_size(t *testing.T) {
	t.Parallel()
	definition := func(fill string, n int) []byte {
		return []byte(`{"name":"` + strings.Repeat(fill, n) + `"}`)
	}
	overhead := len(definition("", 0))
	for _, test := range []struct {
		name string
		data []byte
		ok   bool
	}{
		{"largest", definition("x", journey.MaxDefinition-overhead), true},
		{"one more", definition("x", journey.MaxDefinition-overhead+1), false},
		{"white space does not count", append(definition("x", 10), strings.Repeat(" ", journey.MaxDefinition)...), true},
		{"not without end", append(definition("x", 10), strings.Repeat(" ", 1<<20)...), false},
		// U+2028 is longer in the canonical form than it may be in the draft.
		{"line separators", definition("\u2028", journey.MaxDefinition/4), false},
	} {
		d, problems := journey.Parse(test.data)
		if (d != nil) != test.ok || (len(problems) == 0) != test.ok {
			t.Errorf("%s: %d bytes: definition %v, problems %v", test.name, len(test.data), d != nil, problems)
		}
		if !test.ok && problems[0].Code != waypost.DetailTooLong {
			t.Errorf("%s: %v", test.name, problems)
		}
		if d != nil {
			parse(t, string(d.Canonical()))
		}
	}
}

func TestParse_roots(t *testing.T) {
	t.Parallel()
	for _, source := range []string{"", "null", " null ", "[]", `"x"`, "7", "{} {}", "{\"name\":\"\xff\"}", strings.Repeat("[", 10_000)} {
		if d, problems := journey.Parse([]byte(source)); d != nil || len(problems) != 1 {
			t.Errorf("%.20q: definition %v, problems %v", source, d != nil, problems)
		}
	}
}

func TestParse_manyProblems(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	for i := range 2000 {
		fmt.Fprintf(&b, `,"m%d":1`, i)
	}
	if _, problems := journey.Parse([]byte(`{"name":"x"` + b.String() + `}`)); len(problems) < 100 || len(problems) > 2000 {
		t.Errorf("%d problems", len(problems))
	}
}

func TestCheck_limits(t *testing.T) {
	t.Parallel()
	nodes := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, `{"id":"n%d","type":"touchpoint","webhook":"w","next":"n%d"},`, i, i+1)
		}
		return b.String() + fmt.Sprintf(`{"id":"n%d","type":"exit"}`, n)
	}
	many := func(n int, f func(i int) string) string {
		parts := make([]string, n)
		for i := range parts {
			parts[i] = f(i)
		}
		return strings.Join(parts, ",")
	}
	touchpoint := func(params string) string {
		return `{"id":"n0","type":"touchpoint","webhook":"w","params":{` + params + `}}`
	}
	branch := func(cases string) string { return `{"id":"n0","type":"branch","cases":[` + cases + `]}` }
	text := func(s string) string {
		b, err := json.Marshal(s)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	event := func(name, timeout, when string) string {
		n := map[string]string{"id": "n0", "type": "waitForEvent", "event": name, "timeout": timeout, "when": when}
		b, err := json.Marshal(n)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	param := func(i int) string { return fmt.Sprintf(`"p%d":%d`, i, i) }
	when := func(i int) string { return fmt.Sprintf(`{"when":"lead.leadsId == %d"}`, i) }
	for _, test := range []struct {
		name, nodes, target string
		code                waypost.DetailCode
	}{
		{"200 nodes", nodes(199), "", ""},
		{"201 nodes", nodes(200), "nodes", waypost.DetailTooLong},
		{"id of 64", `{"id":"n0","type":"delay","for":"1h","next":"` + strings.Repeat("a", 64) + `"},{"id":"` + strings.Repeat("a", 64) + `","type":"exit"}`, "", ""},
		{"id of 65", `{"id":"n0","type":"delay","for":"1h","next":"` + strings.Repeat("a", 65) + `"},{"id":"` + strings.Repeat("a", 65) + `","type":"exit"}`, "nodes[1].id", waypost.DetailInvalidFormat},
		{"id with umlaut", `{"id":"n0","type":"delay","for":"1h","next":"ä"},{"id":"ä","type":"exit"}`, "nodes[1].id", waypost.DetailInvalidFormat},
		{"64 params", touchpoint(many(64, param)), "", ""},
		{"65 params", touchpoint(many(65, param)), "nodes[0].params", waypost.DetailTooLong},
		{"param name of 64 characters", touchpoint(`"` + strings.Repeat("é", 64) + `":1`), "", ""},
		{"param name of 65 characters", touchpoint(`"` + strings.Repeat("x", 65) + `":1`), "nodes[0].params." + strings.Repeat("x", 64) + "…", waypost.DetailTooLong},
		{"param without name", touchpoint(`"":1`), "nodes[0].params.", waypost.DetailTooLong},
		{"long number", touchpoint(`"n":` + strings.Repeat("1", 65)), "nodes[0].params.n", waypost.DetailTooLong},
		{"template of 8 KiB", touchpoint(`"t":"` + strings.Repeat("x", 8<<10) + `"`), "", ""},
		{"template of more", touchpoint(`"t":"` + strings.Repeat("x", 8<<10+1) + `"`), "nodes[0].params.t", waypost.DetailTooLong},
		{"50 cases", branch(many(50, when)), "", ""},
		{"51 cases", branch(many(51, when)), "nodes[0].cases", waypost.DetailTooLong},
		{"1001 cases in all", many(20, func(i int) string {
			return fmt.Sprintf(`{"id":"n%d","type":"branch","otherwise":"n%d","cases":[%s]}`, i, i+1, many(50, when))
		}) + `,{"id":"n20","type":"branch","cases":[{"when":"true"}]}`, "nodes[20].cases", waypost.DetailTooLong},
		{"condition of 4096", branch(`{"when":` + text("lead.name == '"+strings.Repeat("é", 4096-15)+"'") + `}`), "", ""},
		{"condition of 4097", branch(`{"when":` + text("lead.name == '"+strings.Repeat("é", 4096-14)+"'") + `}`), "nodes[0].cases[0].when", waypost.DetailTooLong},
		{"deep condition", branch(`{"when":` + text(strings.Repeat("(", 500)+"true"+strings.Repeat(")", 500)) + `}`), "nodes[0].cases[0].when", waypost.DetailInvalidFormat},
		{"bad pattern", branch(`{"when":"lead.name.matches('(')"}`), "nodes[0].cases[0].when", waypost.DetailInvalidFormat},
		{"hundred years", `{"id":"n0","type":"delay","for":"876000h"}`, "", ""},
		{"more than a hundred years", `{"id":"n0","type":"delay","for":"876001h"}`, "nodes[0].for", waypost.DetailInvalidFormat},
		{"negative", `{"id":"n0","type":"delay","for":"-1h"}`, "nodes[0].for", waypost.DetailInvalidFormat},
		{"microsecond", `{"id":"n0","type":"delay","for":"1us"}`, "nodes[0].for", waypost.DetailOutOfRange},
		{"a month", `{"id":"n0","type":"delay","for":"P1M"}`, "nodes[0].for", waypost.DetailInvalidFormat},
		{"event name of 64", event(strings.Repeat("a", 62)+"._", "1ms", ""), "", ""},
		{"event name of 65", event(strings.Repeat("a", 65), "1ms", ""), "nodes[0].event", waypost.DetailInvalidFormat},
		{"event name with umlaut", event("käse", "1h", ""), "nodes[0].event", waypost.DetailInvalidFormat},
		{"event name with blank", event("a b", "1h", ""), "nodes[0].event", waypost.DetailInvalidFormat},
		{"no event name", event("", "1h", ""), "nodes[0].event", waypost.DetailNullValue},
		{"timeout of hundred years", event("e", "876000h", ""), "", ""},
		{"timeout of more", event("e", "876001h", ""), "nodes[0].timeout", waypost.DetailInvalidFormat},
		{"timeout of a microsecond", event("e", "1us", ""), "nodes[0].timeout", waypost.DetailOutOfRange},
		{"no timeout", event("e", "", ""), "nodes[0].timeout", waypost.DetailNullValue},
		{"event condition of 4096", event("e", "1h", "event.name == '"+strings.Repeat("é", 4096-16)+"'"), "", ""},
		{"event condition of 4097", event("e", "1h", "event.name == '"+strings.Repeat("é", 4096-15)+"'"), "nodes[0].when", waypost.DetailTooLong},
		{"deep event condition", event("e", "1h", strings.Repeat("(", 500)+"true"+strings.Repeat(")", 500)), "nodes[0].when", waypost.DetailInvalidFormat},
		{"1001 conditions", many(20, func(i int) string {
			return fmt.Sprintf(`{"id":"n%d","type":"branch","otherwise":"n%d","cases":[%s]}`, i, i+1, many(50, when))
		}) + `,{"id":"n20","type":"waitForEvent","event":"e","when":"true","timeout":"1h"}`, "nodes[20].when", waypost.DetailTooLong},
		{"loop with a wait for an event", `{"id":"n0","type":"waitForEvent","event":"e","timeout":"1h","next":"n0"}`, "", ""},
		{"loop through onTimeout", `{"id":"n0","type":"touchpoint","webhook":"w","next":"n1"},{"id":"n1","type":"waitForEvent","event":"e","timeout":"1h","onTimeout":"n0"}`, "", ""},
		{"reached through onTimeout", `{"id":"n0","type":"waitForEvent","event":"e","timeout":"1h","onTimeout":"n1"},{"id":"n1","type":"exit"}`, "", ""},
		{"loop with a delay", `{"id":"n0","type":"delay","for":"1h","next":"n0"}`, "", ""},
		{"loop of itself", `{"id":"n0","type":"branch","cases":[{"when":"false"}],"otherwise":"n0"}`, "nodes[0]", waypost.DetailOutOfRange},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, `{"name":"x","start":"n0","nodes":[`+test.nodes+`]}`)
			problems := d.Check(nil)
			if test.code == "" {
				if len(problems) > 0 {
					t.Errorf("problems %v", problems)
				}
				return
			}
			if len(problems) != 1 || problems[0].Code != test.code || problems[0].Target != test.target {
				t.Errorf("problems %v, want %s %s", problems, test.code, test.target)
			}
		})
	}
	for name, code := range map[string]waypost.DetailCode{
		"": waypost.DetailNullValue, "a\u0007b": waypost.DetailInvalidFormat, strings.Repeat("é", 201): waypost.DetailTooLong, strings.Repeat("é", 200): "",
	} {
		problems := parse(t, `{"name":`+text(name)+`,"start":"n0","nodes":[{"id":"n0","type":"exit"}]}`).Check(nil)
		if code == "" && len(problems) > 0 || code != "" && (len(problems) != 1 || problems[0].Code != code || problems[0].Target != "name") {
			t.Errorf("name %q: %v, want %s", name, problems, code)
		}
	}
}
