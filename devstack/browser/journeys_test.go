package browser_test

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"waypost/devstack/browser"
)

// follow does what leaves the page, and waits for the next one.
func follow(t *testing.T, p *browser.Page, script, selector string) {
	t.Helper()
	p.Until(`document.readyState === "complete"`)
	p.Script(`document.documentElement.dataset.before = "yes"; ` + script)
	p.Shows("html:not([data-before]) " + selector)
}

// A marketer fills in an audience, sees at once how many it is, reads what the launch does, and
// confirms it twice: there is one launch.
func TestLaunch(t *testing.T) {
	t.Parallel()
	at := resolve(t, "{Anniversary}")
	p := browser.Open(t, at+"/launch", browser.Look{})
	everybody := p.Text("#audience .stat-value")
	p.Script(`{ const region = document.querySelector("[name=region]"); region.value = "4"; region.dispatchEvent(new Event("input", {bubbles: true})) }`)
	p.Until(`document.querySelector("#audience .stat-value").textContent !== "` + everybody + `"`)
	matching := p.Text("#audience .stat-value")
	p.Script(`document.querySelector("[name=rate]").value = "500"`)
	follow(t, p, `document.querySelector("button[value=review]").click()`, ".words")
	if words := p.Text(".words"); !strings.HasPrefix(words, matching+" leads now, at most 500 a second, until about ") {
		t.Errorf("it says %q of %s leads", words, matching)
	}
	before := browser.Eval[int](p, `fetch("`+at+`/launches").then((a) => a.text()).then((page) => page.match(/href="\/launches\/lch_/g).length)`)
	p.Screenshot("launch-review")
	follow(t, p, `{
		const form = document.querySelector("[name=key]").form, body = new URLSearchParams(new FormData(form));
		body.set("step", "launch");
		fetch(form.action, {method: "POST", body}).then(() => form.requestSubmit(form.querySelector("[value=launch]")));
	}`, "#launch")
	if after := browser.Eval[int](p, `fetch("`+at+`/launches").then((a) => a.text()).then((page) => page.match(/href="\/launches\/lch_/g).length)`); after != before+1 {
		t.Errorf("%d launches were made", after-before)
	}
	p.Until(`document.querySelector("#launch progress")?.value === ` + matching) // by itself
	p.Accessible()
}

// What a launch's form has wrong is said beside the field, and nothing starts.
func TestLaunchFaults(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, resolve(t, "{Anniversary}")+"/launch", browser.Look{})
	follow(t, p, `document.querySelector("[name=birthday]").value = "in May"; document.querySelector("button[value=review]").click()`, "#fault-birthday")
	if text := p.Text("#fault-birthday"); !strings.Contains(text, "must be a date like") {
		t.Errorf("it says %q", text)
	}
	p.Until(`document.activeElement.name === "birthday"`)
	p.Allow("400")
	p.Accessible()
	p.Screenshot("launch-faults")
}

// A scheduled launch is canceled after a question that says what that does.
func TestCancelLaunch(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, browser.Find(t, "/launches?status=scheduled", "/launches/lch_"), browser.Look{})
	p.Click("[data-dialog=cancel]")
	p.Shows("#cancel")
	if text := p.Text("#cancel"); !strings.Contains(text, "This cannot be undone.") {
		t.Errorf("it asks %q", text)
	}
	p.Accessible()
	p.Screenshot("launch-cancel")
	follow(t, p, `document.querySelector("#cancel form").requestSubmit()`, ".note.ok")
	if text := p.Text("main"); !strings.Contains(text, "Canceled") {
		t.Errorf("it is not canceled:\n%s", text)
	}
}

// replaceText types over a part of the text of an editor (CodeMirror) that is in sight.
func replaceText(p *browser.Page, old, typed string) {
	p.Until(`(() => {
		const content = document.querySelector(".cm-content");
		const walker = document.createTreeWalker(content, NodeFilter.SHOW_TEXT);
		for (let n = walker.nextNode(); n; n = walker.nextNode()) {
			const at = n.data.indexOf("` + old + `");
			if (at < 0) continue;
			content.focus();
			getSelection().setBaseAndExtent(n, at, n, at + ` + strconv.Itoa(len(old)) + `);
			return document.execCommand("insertText", false, "` + typed + `");
		}
	})()`)
}

// stores waits until a document of the console has a text.
func stores(p *browser.Page, path, text string) {
	browser.Eval[bool](p, `(async () => {
		while (!(await fetch("`+path+`").then((answer) => answer.text())).includes("`+text+`")) await new Promise((done) => setTimeout(done, 50));
		return true;
	})()`)
}

// undo presses its keys in the editor of a text.
const undo = `document.querySelector(".cm-content").dispatchEvent(new KeyboardEvent("keydown", {key: "z", code: "KeyZ", keyCode: 90, ctrlKey: true, bubbles: true, cancelable: true}))`

// A journey is made from a template, mended as a text whose problem is named at its line, and
// published. Somebody else saves meanwhile: nothing that either has written is lost.
func TestNewJourney(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, "/journeys/new", browser.Look{})
	follow(t, p, `document.querySelector("[name=name]").value = "Test of a template"; document.querySelector("[value=followUp]").click(); document.querySelector("[name=name]").form.requestSubmit()`, "#canvas .react-flow__node")
	at := browser.Eval[string](p, `location.pathname.replace(/\/edit$/, "")`)
	p.Visit(at + "/text")
	replaceText(p, "72h", "soon")
	p.Until(`document.querySelector(".cm-fault")?.textContent === "soon" && document.querySelector(".cm-fault-text")`)
	p.Until(`document.querySelector("#problems").textContent.includes("nodes[1].for") && document.querySelector("#status").textContent === "Saved"`)
	p.Accessible()
	p.Screenshot("edit-problems")

	stored := `fetch("` + at + `/draft.yaml").then((a) => a.text())`
	browser.Eval[bool](p, stored+`.then((text) => fetch("`+at+`/draft.yaml", {method: "PUT", headers: {"Content-Type": "application/yaml"}, body: text.replace("for: soon", "for: 24h")})).then((a) => a.ok)`)
	replaceText(p, "soon", "48h")
	p.Until(`!document.querySelector("#conflict").hidden`)
	p.Allow("412")
	p.Accessible()
	p.Screenshot("edit-conflict")
	if text := browser.Eval[string](p, stored); !strings.Contains(text, "for: 24h") {
		t.Errorf("theirs is overwritten:\n%s", text)
	}
	p.Click("#conflict button:last-child")
	p.Until(`document.querySelector("#conflict").hidden && document.querySelector(".cm-content").textContent.includes("24h")`)
	if name := p.Text("#kept a"); !strings.HasPrefix(name, "Test of a template (copy of ") {
		t.Errorf("mine is kept as %q", name)
	}
	kept := browser.Eval[string](p, `fetch(document.querySelector("#kept a").getAttribute("href").replace("/edit", "/draft.yaml")).then((a) => a.text())`)
	if !strings.Contains(kept, "for: 48h") {
		t.Errorf("the copy has\n%s", kept)
	}
	p.Script(undo)
	stores(p, at+"/draft.yaml", "for: 48h")
	p.Until(`document.querySelector("#status").textContent === "Saved"`)

	p.Visit(at + "/publish")
	follow(t, p, `document.querySelector("form.after").requestSubmit()`, "#outline")
	if text := p.Text("#outline"); !strings.Contains(text, "Delay · 2 days") || !strings.Contains(text, "Follow-up") {
		t.Errorf("the outline is\n%s", text)
	}
}

// draftOf makes a journey with the draft of another one, and returns its path.
func draftOf(p *browser.Page, at, name string) string {
	return browser.Eval[string](p, `fetch("`+at+`/draft.json").then((a) => a.json())
		.then((j) => fetch("`+at+`/keep.json", {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify({...j.draft, name: "`+name+`"})}))
		.then((a) => a.json()).then((made) => made.path.replace("/edit", ""))`)
}

// typeInto fills in a field of a form of the canvas, by its label.
func typeInto(label, text string) string {
	return `{
		const label = [...document.querySelectorAll(".wp-form label")].find((l) => l.textContent === "` + label + `");
		const field = document.getElementById(label.htmlFor);
		Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value").set.call(field, "` + text + `");
		field.dispatchEvent(new Event("input", {bubbles: true}));
	}`
}

// A step that is inserted stands beside its form, not below it; keys take back what its lists have
// chosen; and what cannot be saved is not left without a question.
func TestInsertedStep(t *testing.T) {
	t.Parallel()
	anniversary := resolve(t, "{Anniversary}")
	p := browser.Open(t, anniversary, browser.Look{})
	at := draftOf(p, anniversary, "Inserted")
	p.Visit(at + "/edit")
	p.Shows(".react-flow__node")
	p.Click(".wp-palette-item.wp-split")
	p.Until(`(() => {
		const step = document.querySelector(".react-flow__node.selected").getBoundingClientRect(), picture = document.querySelector(".react-flow").getBoundingClientRect();
		return document.querySelector(".wp-form") && step.left >= picture.left && step.right <= picture.right;
	})()`)

	const next = `[...document.querySelectorAll(".wp-form select")].find((list) => list.querySelector("[value=gift]"))`
	before := browser.Eval[string](p, next+`.value`)
	p.Script(`{ const list = ` + next + `; list.focus(); list.value = ""; list.dispatchEvent(new Event("change", {bubbles: true})); }`)
	p.Until(next + `.value === ""`)
	p.Script(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "z", ctrlKey: true, bubbles: true, cancelable: true}))`)
	p.Until(next + `.value === "` + before + `"`)

	const there = `[...document.querySelectorAll(".react-flow__node")].some((n) => n.dataset.id === "split")`
	p.Click(`.wp-form .is-danger`)
	p.Until(`!(` + there + `)`)
	p.Script(`document.activeElement.dispatchEvent(new KeyboardEvent("keydown", {key: "z", ctrlKey: true, bubbles: true, cancelable: true}))`)
	p.Until(there)
	p.Click(`.react-flow__node[data-id="split"]`)
	p.Shows(".wp-form input[type=number]")

	const asks = `!dispatchEvent(new Event("beforeunload", {cancelable: true}))`
	if browser.Eval[bool](p, asks) {
		t.Error("it asks before anything is lost")
	}
	p.Script(`{
		const weight = document.querySelector(".wp-form input[type=number]");
		Object.getOwnPropertyDescriptor(HTMLInputElement.prototype, "value").set.call(weight, "9".repeat(30));
		weight.dispatchEvent(new Event("input", {bubbles: true}));
	}`)
	p.Until(`document.querySelector(".wp-chip.is-bad")?.textContent.startsWith("Not saved")`)
	p.Allow("400")
	if !browser.Eval[bool](p, asks) {
		t.Error("what is not saved is left without a question")
	}
	if browser.Eval[bool](p, `document.querySelector(".wp-chip.is-bad").getBoundingClientRect().right > document.querySelector(".wp-work").getBoundingClientRect().right`) {
		t.Error("why it is not saved stands below the form")
	}
}

// A text's comments are there after its journey was changed on the canvas, and move with their step.
func TestComments(t *testing.T) {
	t.Parallel()
	const text = `# Asks for nothing.
name: Commented
start: wait
nodes:
  # Not at once,
  # legal asked for this.
  - id: wait
    type: delay
    for: 72h # three days
    next: end
  - id: end
    type: exit

# That is all.
`
	body, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	p := browser.Open(t, resolve(t, "{Anniversary}"), browser.Look{})
	at := browser.Eval[string](p, `fetch(location.pathname + "/keep.json", {method: "POST", headers: {"Content-Type": "application/yaml"}, body: `+string(body)+`})
		.then((a) => a.json()).then((made) => made.path.replace("/edit", ""))`)
	p.Visit(at + "/edit?node=wait")
	p.Shows(".wp-form")
	p.Script(typeInto("Name of the step", "Three days"))
	stores(p, at+"/draft.json", "Three days")
	p.Visit(at + "/text")
	p.Shows(".cm-content")
	want := strings.Replace(text, "type: delay", "type: delay\n    label: Three days", 1)
	got := browser.Eval[string](p, `document.querySelector("textarea[data-save]").value`)
	if _, got, _ = strings.Cut(got, "start:"); got != want[strings.Index(want, "start:")+6:] { // the copy has a name of its own
		t.Errorf("the text is\n%s", got)
	}
}

// Two people edit one draft on the canvas: the second one is told, keeps a copy, and goes on with
// what the first one has saved; undo has the second one's own.
func TestTwoEditors(t *testing.T) {
	t.Parallel()
	anniversary := resolve(t, "{Anniversary}")
	ada := browser.Open(t, anniversary, browser.Look{})
	at := draftOf(ada, anniversary, "Edited by two")
	ada.Visit(at + "/edit?node=gift")
	bob := browser.Open(t, at+"/edit?node=thanks", browser.Look{})
	ada.Shows(".wp-form")
	bob.Shows(".wp-form")
	ada.Script(typeInto("Name of the step", "Ada's gift"))
	label := func(path, node string) string {
		return browser.Eval[string](ada, `fetch("`+path+`/draft.json").then((a) => a.json()).then((j) => j.draft.nodes.find((n) => n.id === "`+node+`").label)`)
	}
	stores(ada, at+"/draft.json", "Ada's gift")
	bob.Script(typeInto("Name of the step", "Bob's thanks"))
	bob.Until(`document.querySelector(".wp-banner")?.textContent.includes("Somebody else has saved this draft")`)
	bob.Allow("412")
	bob.Accessible()
	bob.Screenshot("edit-canvas-conflict")
	bob.Script(`[...document.querySelectorAll(".wp-banner button")].find((b) => b.textContent.startsWith("Keep mine")).click()`)
	bob.Until(`document.querySelector(".wp-banner.is-good a")`)
	bob.Until(`document.querySelector(".wp-form select option[value=gift]").textContent.includes("Ada's gift")`)
	kept := browser.Eval[string](bob, `document.querySelector(".wp-banner.is-good a").getAttribute("href").replace("/edit", "")`)
	for _, tt := range [][3]string{{at, "gift", "Ada's gift"}, {at, "thanks", "Thanks"}, {kept, "gift", "Gift card"}, {kept, "thanks", "Bob's thanks"}} {
		if got := label(tt[0], tt[1]); got != tt[2] {
			t.Errorf("%s of %s is %q, want %q", tt[1], tt[0], got, tt[2])
		}
	}
	bob.Click(`.wp-bar [aria-label="Undo"]`)
	stores(bob, at+"/draft.json", "Bob's thanks")
}

// A condition is completed with what leads have, and says what is wrong with it where that is;
// pickers offer what there is.
func TestExpression(t *testing.T) {
	t.Parallel()
	anniversary := resolve(t, "{Anniversary}")
	p := browser.Open(t, anniversary, browser.Look{})
	at := draftOf(p, anniversary, "Conditions")
	p.Visit(at + "/edit?node=plan")
	replaceText(p, "plan == ", "p")
	p.Until(`[...document.querySelectorAll(".cm-tooltip-autocomplete li")].some((l) => /^\.?plan$/.test(l.textContent))`) // with its dot where another field's name needs brackets
	p.Screenshot("edit-canvas-completion")
	replaceText(p, "lead.customFields.p", "lead.nmae == ")
	p.Until(`document.querySelector(".wp-fault")?.textContent.includes('lead has no member "nmae"') && document.querySelector(".cm-fault")`)
	p.Accessible()
	p.Screenshot("edit-canvas-problem")
	p.Visit(at + "/edit?node=bought")
	p.Until(`document.querySelector(".wp-form datalist option[value=purchase]")`)
	p.Shows(".wp-code .cm-content")
	p.Script(`document.querySelector(".wp-code .cm-content").focus(); document.execCommand("insertText", false, "event.")`)
	p.Until(`/^\.?amount$/.test(document.querySelector(".cm-tooltip-autocomplete li").textContent)`)
	p.Click(`[aria-label="Settings of the journey"]`)
	p.Until(`document.querySelector('.wp-form[aria-label="Settings of the journey"] select option[value=choose]')`)
	p.Accessible()
	p.Screenshot("edit-canvas-settings")
}

// Two versions are one picture, and one list.
func TestCompare(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, resolve(t, "{Anniversary}")+"/compare?from=1&to=draft", browser.Look{})
	p.Until(`document.querySelector(".wp-status").textContent === "Changed 2" && document.querySelector('[data-id="bought"] .wp-badge')`)
	if text := p.Text("#differences"); !strings.Contains(text, "bought At most") || !strings.Contains(text, "240h") {
		t.Errorf("the list says\n%s", text)
	}
	follow(t, p, `{ const to = document.querySelector("[name=to]"); to.value = "1"; to.form.requestSubmit(); }`, "#differences > .muted")
	p.Until(`document.querySelector(".wp-status").textContent === "No difference"`)
}

// A click on a node of the outline shows who stands there, by name.
func TestNode(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, resolve(t, "{Anniversary}"), browser.Look{})
	follow(t, p, `document.querySelector("#node-bought .step-what a").click()`, "#chosen .people")
	if text := p.Text("#chosen"); !strings.Contains(text, "Buys something") {
		t.Errorf("it shows\n%s", text)
	}
	who := p.Text("#chosen .people a")
	follow(t, p, `document.querySelector("#chosen .people a").click()`, ".facts")
	if text := p.Text(".facts"); !strings.Contains(text, who) || strings.HasPrefix(who, "Lead ") {
		t.Errorf("the enrollment of %q shows\n%s", who, text)
	}
}

// The canvas shows the same people as the outline.
func TestCanvas(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, resolve(t, "{Anniversary}")+"/canvas", browser.Look{})
	p.Until(`/[1-9]\d*\s*passed/.test(document.querySelector('[data-id="choose"]').textContent)`)
}

// A journey of 200 nodes is drawn whole, and can be dragged. How long it takes to open, and how
// many frames a second there are meanwhile, is told with -v.
func TestLargeCanvas(t *testing.T) {
	const ways, length = 11, 18 // behind a split, and before the end
	api := browser.API(t)
	webhook := api.Webhook("Large", api.Receiver)
	var arms, nodes []browser.Object
	for way := range ways {
		id := func(i int) string { return fmt.Sprintf("w%d-%d", way, i) }
		arms = append(arms, browser.Object{"weight": 1, "next": id(0)})
		for i := range length {
			next := id(i + 1)
			if i == length-1 {
				next = "end"
			}
			switch i % 3 {
			case 0:
				nodes = append(nodes, browser.Object{"id": id(i), "type": "touchpoint", "webhook": webhook, "next": next})
			case 1:
				nodes = append(nodes, browser.Object{"id": id(i), "type": "delay", "for": "1h", "next": next})
			default:
				nodes = append(nodes, browser.Object{"id": id(i), "type": "branch", "cases": []browser.Object{{"when": "lead.region > 1", "next": next}}, "otherwise": "end"})
			}
		}
	}
	nodes = append([]browser.Object{{"id": "choose", "type": "split", "arms": arms}}, append(nodes, browser.Object{"id": "end", "type": "exit"})...)
	journey := api.Journey("Large", nodes...)
	p := browser.Open(t, "/journeys/"+journey+"/canvas", browser.Look{})
	p.Until(`document.querySelector('.react-flow__node[data-id="choose"]')`)
	t.Logf("opened after %.0f ms", browser.Eval[float64](p, `performance.now()`))
	dragged(t, p, "as it opens")
	p.Click(".wp-foot .wp-line + .wp-tool") // shows all
	p.Until(`document.querySelectorAll(".react-flow__node").length > 50`)
	dragged(t, p, "far away")
}

// dragged drags the canvas about, and tells how many frames a second the browser drew.
func dragged(t *testing.T, p *browser.Page, where string) {
	t.Helper()
	viewport := `document.querySelector(".react-flow__viewport").style.transform`
	before := browser.Eval[string](p, viewport)
	p.Script(`{
		const pane = document.querySelector(".react-flow__pane"), box = pane.getBoundingClientRect(), frames = [];
		let x = box.left + box.width / 2, y = box.top + box.height / 2;
		const mouse = (type, to) => to.dispatchEvent(new MouseEvent(type, {bubbles: true, cancelable: true, view: window, clientX: x, clientY: y, button: 0, buttons: 1}));
		const frame = (at) => {
			frames.push(at);
			x += frames.length % 60 < 30 ? 8 : -8;
			y += frames.length % 50 < 30 ? 6 : -6;
			if (frames.length <= 120) {
				mouse("mousemove", window);
				requestAnimationFrame(frame);
				return;
			}
			mouse("mouseup", window);
			window.frames = (frames.length - 1) * 1000 / (at - frames[0]);
		};
		window.frames = 0;
		mouse("mousedown", pane);
		requestAnimationFrame(frame);
	}`)
	p.Until(`window.frames`)
	if after := browser.Eval[string](p, viewport); after == before {
		t.Errorf("%s: it still stands at %s", where, after)
	}
	t.Logf("dragged %s: %.0f frames/s, %d nodes at the end", where, browser.Eval[float64](p, `window.frames`), browser.Eval[int](p, `document.querySelectorAll(".react-flow__node").length`))
}

// A journey is paused after a question, and resumed.
func TestPauseJourney(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, resolve(t, "{Onboarding}"), browser.Look{})
	p.Click("[data-dialog=pause]")
	p.Shows("#pause")
	follow(t, p, `document.querySelector("#pause form").requestSubmit()`, ".note.ok")
	if text := p.Text("main"); !strings.Contains(text, "Paused") {
		t.Errorf("it is not paused:\n%s", text)
	}
	follow(t, p, `document.querySelector("form[action$=resume]").requestSubmit()`, "[data-dialog=pause]")
}

// What names hold is text.
func TestHostileName(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, resolve(t, "{<img}"), browser.Look{Language: "zh", Phone: true})
	if title := browser.Eval[string](p, `document.querySelector("h1").textContent`); title != browser.Hostile {
		t.Errorf("the title is %q", title)
	}
	if n := browser.Eval[int](p, `document.querySelectorAll("main img, main i, main b").length`); n != 0 {
		t.Errorf("%d elements came out of names", n)
	}
}

// Names that the objects of JavaScript have are names like any other, and change no object.
func TestNamesOfPrototypes(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	names := browser.Object{"__proto__": "polluted", "constructor": "polluted", "toString": "polluted"}
	hook := api.Webhook("__proto__", api.Receiver+"/mail")
	hello := touchpoint("hello", hook)
	hello["label"], hello["params"], hello["next"] = "__proto__", names, "constructor"
	journey := api.Journey("__proto__", hello, browser.Object{"id": "constructor", "type": "updateLead", "set": browser.Object{"customFields.__proto__": "polluted", "customFields.toString": "x"}, "next": "end"}, exit)
	lead := api.Lead(browser.Object{"name": "__proto__", "customFields": names})
	api.Enroll(journey, lead)
	for _, path := range []string{
		"/journeys/" + journey + "/canvas", "/journeys/" + journey + "/edit", "/journeys/" + journey + "/text", fmt.Sprint("/journeys/", journey, "/try?leadsId=", lead), fmt.Sprint("/leads/", lead), "/segments/new",
	} {
		p := browser.Open(t, path, browser.Look{})
		p.Until(`document.readyState === "complete" && document.querySelector("h1")`) // its modules have run
		if got := browser.Eval[string](p, `JSON.stringify([Object.keys(Object.prototype), typeof Object.prototype.toString, {}.constructor === Object])`); got != `[[],"function",true]` {
			t.Errorf("%s: %s", path, got)
		}
		p.Close()
	}
}

// The first page says what runs and fails, and draws the deliveries of the day.
func TestOverview(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, "/", browser.Look{})
	p.Until(`document.querySelector(".chart canvas")`)
	for _, want := range []string{"Anniversary", "双十一老客户召回", "Receiver said no"} {
		if text := p.Text("#overview"); !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
}
