package browser_test

import (
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

// A journey is made from a template, mended as a text whose problem is named, and published.
func TestNewJourney(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, "/journeys/new", browser.Look{})
	follow(t, p, `document.querySelector("[name=name]").value = "Test of a template"; document.querySelector("[value=followUp]").click(); document.querySelector("[name=name]").form.requestSubmit()`, "#canvas .react-flow__node")
	at := browser.Eval[string](p, `location.pathname.replace(/\/edit$/, "")`)
	follow(t, p, `location.assign("`+at+`/text")`, "#text")
	follow(t, p, `{ const text = document.querySelector("#text"); text.value = text.value.replace("for: 72h", "for: soon"); text.form.requestSubmit() }`, ".note.ok")
	if text := p.Text(".problem-list"); !strings.Contains(text, "nodes[1].for") {
		t.Errorf("the problems are %q", text)
	}
	p.Screenshot("edit-problems")
	// Somebody else saves meanwhile.
	follow(t, p, `fetch("`+at+`/text").then((a) => a.text()).then((page) => {
		const form = new DOMParser().parseFromString(page, "text/html").querySelector("form.editor");
		const body = new URLSearchParams(new FormData(form));
		body.set("text", body.get("text").replace("for: soon", "for: 24h"));
		return fetch("`+at+`/text", {method: "POST", body});
	}).then(() => { const text = document.querySelector("#text"); text.value = text.value.replace("for: soon", "for: 48h"); text.form.requestSubmit() })`, "#theirs")
	p.Allow("409")
	if theirs := browser.Eval[string](p, `document.querySelector("#theirs").value`); !strings.Contains(theirs, "for: 24h") {
		t.Errorf("theirs is %s", theirs)
	}
	p.Accessible()
	p.Screenshot("edit-conflict")
	follow(t, p, `document.querySelector("form.editor").requestSubmit()`, ".note.ok")
	follow(t, p, `location.assign("`+at+`/publish")`, "form.after")
	follow(t, p, `document.querySelector("form.after").requestSubmit()`, "#outline")
	if text := p.Text("#outline"); !strings.Contains(text, "Wait · 2 days") || !strings.Contains(text, "Follow-up") {
		t.Errorf("the outline is\n%s", text)
	}
}

// A click on a node of the outline shows who stands there.
func TestNode(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, resolve(t, "{Anniversary}"), browser.Look{})
	follow(t, p, `document.querySelector("#node-bought .step-what a").click()`, "#chosen .people")
	if text := p.Text("#chosen"); !strings.Contains(text, "Buys something") || !strings.Contains(text, "Lead ") {
		t.Errorf("it shows\n%s", text)
	}
}

// The canvas shows the same people as the outline.
func TestCanvas(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, resolve(t, "{Anniversary}")+"/canvas", browser.Look{})
	p.Until(`/[1-9]\d*\s*passed/.test(document.querySelector('[data-id="choose"]').textContent)`)
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

// A dry run shows the path and the messages of a lead.
func TestTry(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, resolve(t, "{Anniversary}")+"/try?leadsId=5", browser.Look{})
	if text := p.Text("main"); !strings.Contains(text, "Gift or discount") || !strings.Contains(text, `"journeyName": "Anniversary"`) {
		t.Errorf("it shows\n%s", text)
	}
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
