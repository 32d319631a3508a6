package browser_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/browser"
	"waypost/segment"
)

// rows are the controls of a builder with their values, in their order.
const rows = `[...document.querySelectorAll("#builder [data-key]")].map((e) => e.dataset.key + "=" + (e.value ?? "")).join("\n")`

// A segment is built by rows and groups alone, by keyboard too, and reads back as it was built.
func TestSegmentBuilder(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	const field, value = "tier \"\\'<b>\u202e\U0001f389", "gold \"'\\ </script><b>\u202e\u0645\U0001f389"
	for _, fields := range []browser.Object{{field: value, "built": 7}, {field: value, "built": 3}, {"built": 7}, {"built": 12}} {
		api.Lead(browser.Object{"name": "Built Ada", "customFields": fields})
	}
	journey := api.Journey("Built for "+hostile, touchpoint("mail", api.Webhook("Built", api.Receiver)), exit)
	p := browser.Open(t, "/segments/new", browser.Look{})
	p.Until(fmt.Sprintf("[...document.querySelectorAll(\"[data-key='0.0:what'] option\")].some((o) => o.value === %q)", "customFields:"+field))
	p.Script(`window.counts = {now: 0, most: 0, all: 0};
		const plain = window.fetch;
		window.fetch = async (url, ...rest) => {
			if (url !== "/segments/count") return plain(url, ...rest);
			counts.all++;
			counts.most = Math.max(counts.most, ++counts.now);
			try { return await plain(url, ...rest); } finally { counts.now--; }
		}`)
	p.Fill("#field-name", "Built")
	p.Click(".stack .primary") // the row lacks its value
	shows(t, p, "#builder .rule .fault", "Fill in a value")
	p.Until(`document.activeElement.dataset.key === "0.0:text"`)
	p.Accessible()
	p.Fill("[data-key='0.0:what']", "customFields:built")
	p.Fill("[data-key='0.0:op']", "gte")
	p.Fill("[data-key='0.0:n']", "5")
	p.Until(`document.querySelector("#count .huge").textContent === "3"`)
	shows(t, p, "#count .sample", "Built Ada")

	p.Script(`document.querySelector("[data-key='0:add-group']").focus()`)
	p.Keys("\r")
	p.Until(`document.activeElement.dataset.key === "0.1:join"`) // where one goes on
	p.Fill("[data-key='0.1:join']", "none")
	p.Fill("[data-key='0.1.0:what']", "customFields:"+field)
	p.Fill("[data-key='0.1.0:text']", value)
	p.Until(`document.querySelector("#count .huge").textContent === "2"`) // those without the field are among them
	p.Script(`document.querySelector("[data-key='0.1:add']").focus()`)
	p.Keys("\r")
	p.Until(`document.activeElement.dataset.key === "0.1.1:what"`)
	p.Fill("[data-key='0.1.1:what']", "entered")
	p.Fill("[data-key='0.1.1:journey']", journey)
	p.Click("[data-key='0.1:add']")
	p.Fill("[data-key='0.1.2:what']", "delivered")
	p.Fill("[data-key='0.1.2:journey']", journey)
	p.Until(`[...document.querySelectorAll("[data-key='0.1.2:node'] option")].some((o) => o.value === "mail")`)
	p.Fill("[data-key='0.1.2:node']", "mail")
	p.Click("[data-key='0:add']")
	p.Fill("[data-key='0.2:what']", "event")
	p.Fill("[data-key='0.2:event']", "built-for")
	p.Fill("[data-key='0.2:op']", "never")
	p.Fill("[data-key='0.2:within']", "in")
	p.Fill("[data-key='0.2:span']", "90")
	p.Fill("[data-key='0.2:where']", "with")
	p.Fill("[data-key='0.2:name']", "total")
	p.Fill("[data-key='0.2:property']", "gt")
	p.Fill("[data-key='0.2:amount']", "99.5")
	p.Click("[data-key='0:add']")
	p.Fill("[data-key='0.3:what']", "createdAt")
	p.Fill("[data-key='0.3:op']", "since")
	p.Fill("[data-key='0.3:at']", "2026-01-31")
	shows(t, p, "#builder", "+08:00")
	p.Click("[data-key='0:add']")
	p.Script(`document.querySelector("[data-key='0.4:remove']").focus()`)
	p.Keys("\r")
	p.Until(`document.activeElement.dataset.key === "0.3:what" && document.querySelector("#count .huge").textContent === "2"`)
	if n := browser.Eval[int](p, "counts.most"); n != 1 {
		t.Errorf("%d counts at the same time", n)
	}
	if n := browser.Eval[int](p, "counts.all"); n > 12 {
		t.Errorf("%d counts", n)
	}
	p.Accessible()
	built := browser.Eval[string](p, rows)
	click(t, p, ".stack .primary", ".note.ok")
	p.Until(`document.querySelector("#count .huge").textContent === "2"`)
	path := browser.Eval[string](p, "location.pathname")
	when := api.Do("GET", "/v1"+path, nil)["when"]
	for _, part := range []string{`lead.customFields.built >= 5`, `!(`, ` in lead.customFields && lead.customFields[`, `events("built-for", duration("P90D")).filter(e, has(e.total) && e.total > 99.5).count() == 0`, `delivered("` + journey + `", "mail")`, `timestamp("2026-01-31T00:00:00+08:00")`} {
		if !strings.Contains(when.(string), part) {
			t.Errorf("no %s in %s", part, when)
		}
	}
	p.Visit(path + "/edit")
	p.Until(`document.querySelector("#count .huge").textContent === "2"`)
	if again := browser.Eval[string](p, rows); again != built {
		t.Errorf("built\n%s\nand read\n%s", built, again)
	}
	p.Click("#tab-text")
	p.Shows(".expression .cm-content")
	p.Accessible()
	click(t, p, ".stack .primary", ".note.ok")
	if again := api.Do("GET", "/v1"+path, nil)["when"]; again != when {
		t.Errorf("saved anew it is %s", again)
	}
	api.Do("DELETE", "/v1"+path, nil)
}

// What rows cannot say stays as it is written; what is wrong is said at its row.
func TestSegmentByHand(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	const when = "events(\"purchase\", duration(\"P30D\")).last().amount > 100 // the big ones\n  && lead.name != 'x'"
	id := api.Do("POST", "/v1/segments", browser.Object{"name": "By hand", "when": when})["id"].(string)
	p := browser.Open(t, "/segments/"+id+"/edit", browser.Look{})
	p.Shows(".expression .cm-content")
	p.Click("#tab-rows")
	shows(t, p, "#builder .note", "written by hand")
	p.Accessible()
	click(t, p, ".stack .primary", ".note.ok")
	if got := api.Do("GET", "/v1/segments/"+id, nil)["when"]; got != when {
		t.Errorf("saved anew it is %s", got)
	}

	p.Visit("/segments/" + id + "/edit")
	p.Click("#tab-text")
	p.Shows(".expression .cm-content")
	insert := func(text string) {
		p.Script(fmt.Sprintf(`document.querySelector(".cm-content").focus(); document.execCommand("selectAll"); document.execCommand("insertText", false, %q)`, text))
	}
	insert(`lead.nme == "x"`)
	shows(t, p, "#fault-when", "nme")
	insert(`lead.name == 'x' && inSegment("seg_06jvh5r0g1s0q2k3m4n5p6q7r8")`)
	shows(t, p, "#fault-when", "there is no segment")
	p.Click("#tab-rows")
	p.Shows("[data-key='0.1:segment'][aria-invalid]")
	shows(t, p, "#builder .rule.faulty .fault", "there is no segment")
	p.Click("[data-key='0.1:remove']")
	p.Until(`document.querySelector("#count .huge").textContent === "0" && !document.querySelector("#builder .fault")`)
	api.Do("DELETE", "/v1/segments/"+id, nil)
}

// Whatever rows say reads back as it was written, and compiles. Of each row, a lead is either in the segment
// of it, or in that of "none of" it, whichever fields it has.
func TestConditionsRoundTrip(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, "/segments", browser.Look{})
	const draw = `import("/static/condition.js").then(({ read, write, whats, partsOf }) => {
		let seed = %d;
		const next = (n) => (seed = (seed * 48271) %% 2147483647) %% n;
		const pick = (list) => list[next(list.length)];
		const texts = ["gold", 'a"b', "it's", "<script>alert(1)</script>", "\u{1f389} \u202e\u0645", "in", "\\n", "first name", "true", "a\tb", "(", " ", "package", "K", '"""', "\u2028", "&& true", "x || false", "//", "null"];
		const values = {
			text: () => pick(texts), name: () => pick(texts), number: () => pick(["0", "-5", "1.5", "1e-7", "12345", "9007199254740992"]), times: () => String(1 + next(9)),
			day: () => pick(["1990-01-31", "2024-02-29"]), moment: () => pick(["2026-01-31T00:00:00Z", "2026-01-31T00:00:00+08:00"]), span: () => pick(["P30D", "720h", "24h"]), days: () => "P7D",
			event: () => pick(["purchase", "a.b-c_1"]), journey: () => "jrn_" + "0".repeat(26), segment: () => "seg_" + "0".repeat(26), node: () => "hello-1",
		};
		const fill = (row) => {
			for (const { part, kind } of partsOf(row)) row[part] = values[kind]();
			return row;
		};
		const rows = Object.entries(whats).flatMap(([what, { forms }]) => Object.keys(forms).map((op) => ({ what, op })));
		const group = (depth) => ({ join: pick(["all", "any", "none"]), items: Array.from({ length: 1 + next(3) }, () => (depth > 0 && next(5) < 2 ? group(depth - 1) : fill({ ...pick(rows) }))) });
		const sorted = (value) => JSON.stringify(value, (_, v) => (v && typeof v === "object" && !Array.isArray(v) ? Object.fromEntries(Object.entries(v).sort()) : v));
		const one = (join, row) => ({ join, items: [row] });
		const both = rows.map(fill).map((row) => ["all", "none"].map((join) => one(join, row)));
		const groups = [...both.flat(), ...Array.from({ length: 3000 }, () => group(3))];
		const wrong = groups.filter((g) => { const text = write(g).text; const again = read(text); return sorted(again) !== sorted(g) || write(again).text !== text; });
		return JSON.stringify({ wrong: wrong.slice(0, 3).map((g) => [sorted(g), write(g).text]), rows: both.map((pair) => pair.map((g) => write(g).text)), groups: groups.slice(-200).map((g) => write(g).text) });
	})`
	seed := time.Now().UnixNano()%1_000_000 + 1
	t.Logf("seed %d", seed)
	var drawn struct {
		Wrong  [][]string
		Rows   [][2]string
		Groups []string
	}
	if err := json.Unmarshal([]byte(browser.Eval[string](p, fmt.Sprintf(draw, seed))), &drawn); err != nil {
		t.Fatal(err)
	}
	for _, wrong := range drawn.Wrong {
		t.Errorf("not read as it was written: %s", wrong)
	}
	other := waypost.PrefixSegment + strings.Repeat("0", 26)
	compile := func(when string) *segment.Segment {
		s, err := segment.Compile("", map[string]string{"": when, other: "true"})
		if err != nil {
			t.Errorf("%s: %s", when, err)
		}
		return s
	}
	for _, when := range drawn.Groups {
		if len(when) <= waypost.MaxSegmentWhen && strings.Count(when, ".filter(e, ") <= 4 { // more take too many steps
			compile(when)
		}
	}
	text := func(s string) *string { return &s }
	now := time.Date(2026, 3, 4, 5, 6, 7, 0, time.UTC)
	leads := map[string]waypost.LeadFields{
		"without": {Name: "Ada"},
		"with": {Name: "gold", Email: text("gold"), Birthday: text("1990-01-31"), Gender: new(int64(1)), Region: new(int64(1)), LeadsGroup: new(int64(1)), MobilePhone: []string{"1"},
			Company: text("a"), Address: text("a"), Remark: text("a"), Wechat: text("a"), ExternalID: text("a")},
	}
	if len(drawn.Rows) < 80 {
		t.Fatalf("only %d rows were drawn", len(drawn.Rows))
	}
	for _, pair := range drawn.Rows {
		is, isNot := compile(pair[0]), compile(pair[1])
		for name, fields := range leads {
			lead := waypost.Lead{LeadsID: 1, CreatedAt: now, UpdatedAt: now, LeadFields: fields}
			record := &waypost.LeadRecord{Segments: map[string]bool{other: true}}
			if a, b := is.Has(t.Context(), &lead, record, now, true), isNot.Has(t.Context(), &lead, record, now, true); a == b {
				t.Errorf("a lead %s fields: %s is %t, and %s, too", name, pair[0], a, pair[1])
			}
		}
	}
}
