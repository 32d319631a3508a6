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

func TestParse_language(t *testing.T) {
	t.Parallel()
	d := parse(t, string(read(t, "testdata/valid_everything.json")))
	if got := d.ExitOn(); !reflect.DeepEqual(got, []string{"unsubscribed", "app.closed"}) {
		t.Errorf("exitOn %v", got)
	}
	if got := d.QuietHours(); got != (journey.QuietHours{From: "21:00", To: "08:00", Timezone: "Asia/Shanghai"}) {
		t.Errorf("quiet hours %+v", got)
	}
	if got := d.FrequencyCap(); got != (waypost.FrequencyCap{Touchpoints: 3, Per: waypost.Duration(24 * time.Hour)}) || got.None() {
		t.Errorf("frequency cap %+v", got)
	}
	if got := d.Journeys(); !reflect.DeepEqual(got, []string{"jrn_1"}) {
		t.Errorf("journeys %v", got)
	}
	for id, want := range map[string]journey.Node{
		"morning": {ID: "morning", Type: journey.WaitUntil, Time: "09:00", Timezone: "Asia/Kathmandu", Weekdays: []string{"mon", "tue", "wed", "thu", "fri"}, Next: "bought"},
		"renewal": {ID: "renewal", Type: journey.WaitUntil, Time: "09:00", Lead: "customFields.renewalDate", Offset: "-72h", Next: "thanks", OnMissed: "thanks"},
		"arms":    {ID: "arms", Type: journey.Split, Arms: []journey.Arm{{Weight: 50, Next: "check"}, {Weight: 49, Next: "sorry"}, {Weight: 1}}},
		"other":   {ID: "other", Type: journey.Enroll, Journey: "jrn_1", Next: "old"},
	} {
		if got, _ := d.Node(id); !reflect.DeepEqual(got, want) {
			t.Errorf("%s is %+v, want %+v", id, got, want)
		}
	}
	again := parse(t, string(d.Canonical()))
	if !reflect.DeepEqual(again.Nodes(), d.Nodes()) || again.Hash() != d.Hash() {
		t.Errorf("canonical form %s", d.Canonical())
	}
	none := parse(t, `{"name":"x","exitOn":[],"quietHours":null,"frequencyCap":null,"nodes":[{"id":"a","type":"waitUntil","weekdays":[]},{"id":"b","type":"split","arms":[]}]}`)
	if want := `{"name":"x","nodes":[{"id":"a","type":"waitUntil"},{"id":"b","type":"split"}]}`; string(none.Canonical()) != want {
		t.Errorf("canonical form %s, want %s", none.Canonical(), want)
	}
	if len(none.ExitOn()) > 0 || none.QuietHours() != (journey.QuietHours{}) || !none.FrequencyCap().None() || len(none.Journeys()) > 0 {
		t.Errorf("there is %v, %v, %v, %v", none.ExitOn(), none.QuietHours(), none.FrequencyCap(), none.Journeys())
	}
	problems := d.Check(nil, func(id string) bool { return id != "jrn_1" })
	if len(problems) != 1 || problems[0].Target != "nodes[10].journey" || problems[0].Code != waypost.DetailOutOfRange {
		t.Errorf("an unknown journey: %v", problems)
	}
}

// TestParse_hashes pins hashes: published versions are found again by them.
func TestParse_hashes(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"draft_everything_wrong.json": "ba85f9d5eac3151bfd98473da6c5302dca0a48cfb2390b1616898a65a4093e49",
		"valid_events.json":           "fa89c37bbd17d0d3dbff1098fe773de654df02263d200fd376767fd8fa8c6f70",
		"valid_everything.json":       "b226167a23b6910c6e54842c00821a0316c7cfc62fe964a2b4db8ec1765149b8",
		"valid_loop.json":             "eb458a525f4be9b8db0ef817828100276c790c7a2bfa263ebb145e830eef4e25",
		"valid_welcome.json":          "804d7fb68e663a3a6523dfdafa4b0860d46c3250f2990948d242ba618a29a9bc",
	} {
		if got := parse(t, string(read(t, "testdata/"+file))).Hash(); got != want {
			t.Errorf("%s has the hash %s, want %s", file, got, want)
		}
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
	arms := func(n int, weight string) string {
		return `{"id":"n0","type":"split","arms":[` + many(n, func(int) string { return `{"weight":` + weight + `}` }) + `]}`
	}
	waitUntil := func(members string) string { return `{"id":"n0","type":"waitUntil",` + members + `}` }
	long := func(int) string { return `{"when":` + text("lead.name == '"+strings.Repeat("x", 4096-15)+"'") + `}` }
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
		{"conditions of 32 KiB", branch(many(8, long)), "", ""},
		{"conditions of more", branch(many(8, long) + `,{"when":"true"}`), "nodes[0].cases", waypost.DetailTooLong},
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
		{"2 arms", arms(2, "1"), "", ""},
		{"20 arms of the largest weight", arms(20, "10000"), "", ""},
		{"21 arms", arms(21, "1"), "nodes[0].arms", waypost.DetailTooLong},
		{"offset of 366 days", waitUntil(`"lead":"birthday","offset":"-P366D"`), "", ""},
		{"offset of more", waitUntil(`"lead":"birthday","offset":"P366DT1S"`), "nodes[0].offset", waypost.DetailOutOfRange},
		{"signed offset", waitUntil(`"lead":"updatedAt","onMissed":"n1","offset":"+1h"},{"id":"n1","type":"exit"`), "", ""},
		{"doubly signed offset", waitUntil(`"lead":"updatedAt","onMissed":"n1","offset":"-+1h"},{"id":"n1","type":"exit"`), "nodes[0].offset", waypost.DetailInvalidFormat},
		{"custom field of 64 characters", waitUntil(`"lead":"customFields.` + strings.Repeat("é", 64) + `","onMissed":"n1"},{"id":"n1","type":"exit"`), "", ""},
		{"custom field of 65 characters", waitUntil(`"lead":"customFields.` + strings.Repeat("x", 65) + `"`), "nodes[0].lead", waypost.DetailOutOfRange},
		{"last minute", waitUntil(`"time":"23:59","timezone":"Etc/GMT+12","weekdays":["mon","tue","wed","thu","fri","sat","sun"]`), "", ""},
		{"no such minute", waitUntil(`"time":"23:60"`), "nodes[0].time", waypost.DetailInvalidFormat},
		{"one digit", waitUntil(`"time":"9:00"`), "nodes[0].time", waypost.DetailInvalidFormat},
		{"with seconds", waitUntil(`"time":"09:00:00"`), "nodes[0].time", waypost.DetailInvalidFormat},
		{"other digits", waitUntil(`"time":"٠٩:٠"`), "nodes[0].time", waypost.DetailInvalidFormat},
		{"loop with a time of day", `{"id":"n0","type":"waitUntil","time":"09:00","next":"n0"}`, "", ""},
		{"loop with a date of the lead", `{"id":"n0","type":"waitUntil","lead":"birthday","time":"09:00","next":"n0"}`, "nodes[0]", waypost.DetailOutOfRange},
		{"loop with a date of the lead and onMissed", `{"id":"n0","type":"waitUntil","lead":"birthday","next":"n0","onMissed":"n1"},{"id":"n1","type":"exit"}`, "", ""},
		{"loop through onMissed", `{"id":"n0","type":"waitUntil","lead":"customFields.d","onMissed":"n0"}`, "nodes[0]", waypost.DetailOutOfRange},
		{"loop through onMissed of another", `{"id":"n0","type":"enroll","journey":"jrn_2","next":"n1"},{"id":"n1","type":"waitUntil","lead":"birthday","onMissed":"n0","next":"n2"},{"id":"n2","type":"exit"}`, "nodes[0]", waypost.DetailOutOfRange},
		{"a custom field that may be missed", waitUntil(`"lead":"customFields.d"`), "nodes[0].onMissed", waypost.DetailNullValue},
		{"when it was created may be over", waitUntil(`"lead":"createdAt"`), "nodes[0].onMissed", waypost.DetailNullValue},
		{"when it was updated may be over", waitUntil(`"lead":"updatedAt","offset":"P30D"`), "nodes[0].onMissed", waypost.DetailNullValue},
		{"onMissed null", waitUntil(`"lead":"customFields.d","onMissed":null`), "nodes[0].onMissed", waypost.DetailNullValue},
		{"onMissed empty", waitUntil(`"lead":"customFields.d","onMissed":""`), "nodes[0].onMissed", waypost.DetailNullValue},
		{"a birthday comes again", waitUntil(`"lead":"birthday"`), "", ""},
		{"a birthday with onMissed", waitUntil(`"lead":"birthday","onMissed":"n1"},{"id":"n1","type":"exit"`), "", ""},
		{"reached through onMissed", `{"id":"n0","type":"waitUntil","lead":"customFields.d","onMissed":"n1"},{"id":"n1","type":"exit"}`, "", ""},
		{"onMissed where next leads", `{"id":"n0","type":"waitUntil","lead":"customFields.d","next":"n1","onMissed":"n1"},{"id":"n1","type":"exit"}`, "", ""},
		{"no node for onMissed", waitUntil(`"lead":"customFields.d","onMissed":"gone"`), "nodes[0].onMissed", waypost.DetailOutOfRange},
		{"a time of day is not missed", waitUntil(`"time":"09:00","onMissed":"n1"},{"id":"n1","type":"exit"`), "nodes[0].onMissed", waypost.DetailOutOfRange},
		{"loop of a split", `{"id":"n0","type":"split","arms":[{"weight":1,"next":"n0"},{"weight":1}]}`, "nodes[0]", waypost.DetailOutOfRange},
		{"loop with a delay", `{"id":"n0","type":"delay","for":"1h","next":"n0"}`, "", ""},
		{"loop that emits what it waits for", `{"id":"n0","type":"emit","event":"e","next":"n1"},{"id":"n1","type":"waitForEvent","event":"e","since":"enrollment","timeout":"1h","next":"n0"}`, "nodes[0]", waypost.DetailOutOfRange},
		{"loop that emits what it waits for from then on", `{"id":"n0","type":"emit","event":"e","next":"n1"},{"id":"n1","type":"waitForEvent","event":"e","timeout":"1h","next":"n0"}`, "", ""},
		{"loop that emits one of several", `{"id":"n0","type":"emit","event":"e","next":"n1"},{"id":"n1","type":"waitForEvent","events":[{"event":"f"},{"event":"e","next":"n0"}],"since":"enrollment","timeout":"1h"}`, "nodes[0]", waypost.DetailOutOfRange},
		{"loop by the timeout of what it emits", `{"id":"n0","type":"emit","event":"e","next":"n1"},{"id":"n1","type":"waitForEvent","event":"e","since":"enrollment","timeout":"1h","next":"n2","onTimeout":"n0"},{"id":"n2","type":"exit"}`, "", ""},
		{"loop that emits another event", `{"id":"n0","type":"emit","event":"f","next":"n1"},{"id":"n1","type":"waitForEvent","event":"e","since":"enrollment","timeout":"1h","next":"n0"}`, "", ""},
		{"loop of itself", `{"id":"n0","type":"branch","cases":[{"when":"false"}],"otherwise":"n0"}`, "nodes[0]", waypost.DetailOutOfRange},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			d := parse(t, `{"name":"x","start":"n0","nodes":[`+test.nodes+`]}`)
			problems := d.Check(nil, nil)
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
	for _, test := range []struct {
		members, target string
		code            waypost.DetailCode
	}{
		{`"exitOn":[` + many(20, func(i int) string { return fmt.Sprintf(`{"event":"e%d"}`, i) }) + `]`, "", ""},
		{`"exitOn":[` + many(21, func(i int) string { return fmt.Sprintf(`{"event":"e%d"}`, i) }) + `]`, "exitOn", waypost.DetailTooLong},
		{`"reentry":{"policy":"never"}`, "", ""},
		{`"reentry":{"policy":"always","every":"1h"}`, "", ""},
		{`"reentry":{"every":"1h"}`, "", ""},
		{`"reentry":{"policy":"never","every":"1h"}`, "reentry.every", waypost.DetailOutOfRange},
		{`"reentry":{"policy":"never","every":"soon"}`, "reentry.every", waypost.DetailInvalidFormat},
		{`"quietHours":{"from":"00:00","to":"23:59"}`, "", ""},
		{`"quietHours":{"from":"00:00","to":"24:00"}`, "quietHours.to", waypost.DetailInvalidFormat},
		{`"quietHours":{"from":"00:00"}`, "quietHours.to", waypost.DetailNullValue},
		{`"quietHours":{"to":"08:00"}`, "quietHours.from", waypost.DetailNullValue},
		{`"quietHours":{"from":"21:00","to":"08:00","timezone":"posix/Europe/Berlin"}`, "quietHours.timezone", waypost.DetailOutOfRange},
		{`"quietHours":{"from":"21:00","to":"08:00","timezone":"../zoneinfo/UTC"}`, "quietHours.timezone", waypost.DetailOutOfRange},
		{`"frequencyCap":{"touchpoints":1,"per":"1s"}`, "", ""},
		{`"frequencyCap":{"touchpoints":1000,"per":"P366D"}`, "", ""},
		{`"frequencyCap":{"touchpoints":1,"per":"P366DT1S"}`, "frequencyCap.per", waypost.DetailOutOfRange},
		{`"frequencyCap":{"touchpoints":1,"per":"999ms"}`, "frequencyCap.per", waypost.DetailOutOfRange},
		{`"frequencyCap":{"touchpoints":1,"per":"daily"}`, "frequencyCap.per", waypost.DetailInvalidFormat},
		{`"frequencyCap":{"touchpoints":1}`, "frequencyCap.per", waypost.DetailNullValue},
		{`"frequencyCap":{"per":"24h"}`, "frequencyCap.touchpoints", waypost.DetailNullValue},
		{`"frequencyCap":{"touchpoints":-1,"per":"24h"}`, "frequencyCap.touchpoints", waypost.DetailOutOfRange},
	} {
		problems := parse(t, `{"name":"x",`+test.members+`,"start":"n0","nodes":[{"id":"n0","type":"exit"}]}`).Check(nil, nil)
		if test.code == "" && len(problems) > 0 || test.code != "" && (len(problems) != 1 || problems[0].Code != test.code || problems[0].Target != test.target) {
			t.Errorf("%.80s: %v, want %s %s", test.members, problems, test.code, test.target)
		}
	}
	for name, code := range map[string]waypost.DetailCode{
		"": waypost.DetailNullValue, "a\u0007b": waypost.DetailInvalidFormat, strings.Repeat("é", 201): waypost.DetailTooLong, strings.Repeat("é", 200): "",
	} {
		problems := parse(t, `{"name":`+text(name)+`,"start":"n0","nodes":[{"id":"n0","type":"exit"}]}`).Check(nil, nil)
		if code == "" && len(problems) > 0 || code != "" && (len(problems) != 1 || problems[0].Code != code || problems[0].Target != "name") {
			t.Errorf("name %q: %v, want %s", name, problems, code)
		}
	}
}
