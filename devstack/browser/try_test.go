package browser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"waypost/devstack/browser"
)

// reminded publishes a journey that waits two days for a purchase of more than 100, and then reminds.
func reminded(t *testing.T, name string) (journey, hook string) {
	t.Helper()
	api := browser.API(t)
	hook = api.Webhook("Mail of "+name, api.Receiver+"/mail")
	hello := touchpoint("hello", hook)
	hello["next"], hello["params"] = "bought", browser.Object{"text": "Hello {{ lead.name }}, {{ lead.customFields.plan }}"}
	remind := touchpoint("remind", hook)
	remind["params"], remind["label"] = browser.Object{"text": "{{ lead.name }}, your cart waits"}, "Remind"
	journey = api.Journey(name, hello, browser.Object{"id": "bought", "type": "waitForEvent", "event": "bought_it", "when": "event.amount > 100", "timeout": "48h", "next": "end", "onTimeout": "remind"}, remind, exit)
	return journey, hook
}

// texts are those of all elements.
func texts(p *browser.Page, selector string) string {
	p.Until(fmt.Sprintf("document.querySelector(%q)", selector))
	return browser.Eval[string](p, fmt.Sprintf("[...document.querySelectorAll(%q)].map((e) => e.textContent.trim()).join(\"|\")", selector))
}

// A lead is found by its name. An event is dropped on the time line, moved, and given properties:
// each time the run is made again, the path is told and lit up on the canvas.
func TestTryWithEvents(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	journey, hook := reminded(t, "Tried")
	lead := api.Lead(browser.Object{"name": "Zebedee Quill", "externalId": "tried-1", "customFields": browser.Object{"plan": "<b>pro</b>"}})
	p := browser.Open(t, "/journeys/"+journey+"/try", browser.Look{})
	p.Do(chromedp.SendKeys(chromedp.CSS("#field-leadsId"), "zebed"))
	p.Shows("#found-leads [data-id]")
	if got := p.Text("#found-leads"); !strings.Contains(got, "Zebedee Quill") || !strings.Contains(got, "tried-1") {
		t.Errorf("found %q", got)
	}
	p.Keys("\u0301") // arrow down
	if got := browser.Eval[string](p, `document.getElementById(document.activeElement.getAttribute("aria-activedescendant")).dataset.id`); got != fmt.Sprint(lead) {
		t.Errorf("chosen by keys is %s", got)
	}
	p.Click("#found-leads [data-id]")
	shows(t, p, "#outcome .trail", "Remind")
	shows(t, p, "[data-name]", "Zebedee Quill")
	if got := texts(p, "#outcome .trail li"); !strings.Contains(got, "2 days") || !strings.Contains(got, "Time was over") {
		t.Errorf("the path is %s", got)
	}
	if got := texts(p, "#outcome .message dd"); got != "Hello Zebedee Quill, <b>pro</b>|Zebedee Quill, your cart waits" {
		t.Errorf("the messages are %s", got)
	}
	lit := func(id string) string {
		return `((e) => e && getComputedStyle(e).borderTopStyle === "solid")(document.querySelector('.react-flow__node[data-id="` + id + `"] .wp-step'))`
	}
	p.Click("#canvas .wp-tools button:nth-of-type(3)") // all of it
	p.Until(lit("remind"))

	// A chip that is dropped: the definition's event comes first. The middle of the line is past a day.
	p.Script(`{
		const chip = document.querySelector("[data-drop-event=bought_it]"), line = document.getElementById("time-line"), box = line.getBoundingClientRect();
		const data = new DataTransfer(), at = {bubbles: true, cancelable: true, dataTransfer: data, clientX: box.left + box.width / 4, clientY: box.top + 20};
		chip.dispatchEvent(new DragEvent("dragstart", at));
		line.dispatchEvent(new DragEvent("dragover", at));
		line.dispatchEvent(new DragEvent("drop", at));
	}`)
	shows(t, p, "#outcome .trail", "bought_it")
	if got := texts(p, "#outcome .trail .strong"); got != "hello|bought|bought_it|Remind|end" {
		t.Errorf("without properties the way is %s", got)
	}
	p.Fill("[data-events] textarea", "amount = 120")
	p.Until(`!document.querySelector("#outcome .trail").textContent.includes("Remind")`)
	p.Until(lit("end") + " && !(" + lit("remind") + ")")
	if got := texts(p, "#outcome .trail li"); !strings.Contains(got, "The event came") {
		t.Errorf("the path is %s", got)
	}
	p.Accessible("target-size") // marks of a picture; the rows beside say the same
	p.Screenshot("try-event")

	// Moved behind the wait, it is too late.
	box := browser.Eval[[]float64](p, `(() => { const b = document.querySelector(".mark.event path").getBoundingClientRect(), l = document.getElementById("time-line").getBoundingClientRect(); return [b.left + b.width / 2, b.top + b.height / 2, l.right] })()`)
	p.Script(fmt.Sprintf(`{
		const mark = document.querySelector(".mark.event path");
		mark.dispatchEvent(new PointerEvent("pointerdown", {bubbles: true, clientX: %f, clientY: %f}));
		window.dispatchEvent(new PointerEvent("pointermove", {clientX: %[3]f}));
		window.dispatchEvent(new PointerEvent("pointerup", {clientX: %[3]f}));
	}`, box[0], box[1], box[2]-2))
	shows(t, p, "#outcome .trail .late", "too late")
	p.Until(lit("remind"))

	// A receiver that refuses, and a fault of an event, which is told in words.
	p.Script(`document.querySelector("details:has([name=fails]) summary").click()`)
	p.Click("[name=fails][value=hello]")
	shows(t, p, "#outcome .trail .failed", "Not delivered")
	p.Fill("[data-events] [name='event.name']", "no name!")
	shows(t, p, "#run .problem-list", "Event 1 no name!")
	p.Click("[data-drop-row]")
	p.Until(`!document.querySelector("#run .problem-list")`)
	if n := len(api.Items("/v1/deliveries?webhookId=" + hook)); n != 0 {
		t.Errorf("%d messages were sent", n)
	}
}

// A lead is invented, also where there are no scripts to help.
func TestTryInvented(t *testing.T) {
	t.Parallel()
	journey, _ := reminded(t, "Invented")
	p := browser.Open(t, "/journeys/"+journey+"/try", browser.Look{})
	p.Click("[name=who][value=invented]")
	p.Shows("#field-name")
	shows(t, p, "#outcome", "Hello Ada Lovelace")
	p.Fill("#field-name", hostile)
	p.Fill("[name='customFields.name']", "plan")
	p.Fill("[name='customFields.value']", "free")
	click(t, p, ".submit-try .primary", "#outcome .trail")
	if got := texts(p, "#outcome .message dd"); !strings.HasPrefix(got, "Hello <script>alert(1)</script> ") || !strings.Contains(got, ", free|<script>alert(1)</script> ") {
		t.Errorf("the messages are %q", got)
	}
	if here := browser.Eval[string](p, "location.href"); strings.Contains(here, "script") {
		t.Errorf("the address has the lead: %s", here)
	}
	p.Fill("#field-email", "no address")
	click(t, p, ".submit-try .primary", "#run .problem-list")
	shows(t, p, "#run .problem-list", "E-mail")
	p.Accessible()
}

// One message is sent as a test, after a question: the receiver gets it, and nothing else changes.
func TestSendTest(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	journey, hook := reminded(t, "Tested")
	lead := api.Lead(browser.Object{"name": "Tess Ting"})
	p := browser.Open(t, fmt.Sprint("/journeys/", journey, "/try?leadsId=", lead), browser.Look{})
	p.Click("[data-dialog='send-1']")
	p.Shows("#send-1")
	shows(t, p, "#send-1", "“Remind” is rendered for the lead above and sent through Mail of Tested")
	p.Accessible()
	p.Screenshot("try-send-ask")
	click(t, p, "#send-1 .primary", "#run .note.ok")
	shows(t, p, "#run .note.ok", "Remind: The receiver took the test message.")
	shows(t, p, "#outcome .trail", "Remind") // it is tried as before
	p.Screenshot("try-sent")
	entries := api.Items("/v1/audit?target=" + journey)
	if first := entries[0].(browser.Object); first["action"] != "journey.test" || first["after"].(browser.Object)["nodeId"] != "remind" {
		t.Errorf("the audit log begins with %v", first)
	}

	// Any other one, through a receiver that is away.
	api.Do("PATCH", "/v1/webhooks/"+hook, browser.Object{"url": "http://127.0.0.1:1/gone"})
	p.Fill("#field-any", "hello")
	p.Click("[data-dialog='send-any']")
	p.Shows("#send-any")
	click(t, p, "#send-any .primary", "#run .note.bad")
	shows(t, p, "#run .note.bad", "Network error")
	if n := len(api.Items("/v1/deliveries?webhookId="+hook)) + len(api.Items("/v1/enrollments?journeyId="+journey)); n != 0 {
		t.Errorf("%d things are stored", n)
	}
}

// The forecast is plotted, with its numbers in a table.
func TestForecastIsPlotted(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, resolve(t, "{Anniversary}")+"/forecast?draft=false", browser.Look{})
	p.Until(`document.querySelector(".chart canvas")`)
	p.Click(".numbers summary")
	if got := texts(p, "#forecast-table th"); !strings.HasPrefix(got, "Day (UTC)|") || !strings.Contains(got, "SMS gateway") {
		t.Errorf("the table has %s", got)
	}
	sums := browser.Eval[[]int](p, `[...document.querySelectorAll("#forecast-table tbody tr")].map((row) => [...row.querySelectorAll("[data-n]")].reduce((sum, cell) => sum + Number(cell.dataset.n), 0))`)
	total := 0
	for _, n := range sums {
		total += n
	}
	if total == 0 {
		t.Error("nothing is forecast")
	}
	p.Accessible()
	p.Screenshot("forecast-table")
}

// People who wait move to a new version, after it was said how many those are; who cannot stays.
func TestMigration(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	hook := api.Webhook("Slow", "http://127.0.0.1:1/slow")
	api.Do("PATCH", "/v1/webhooks/"+hook, browser.Object{"retry": browser.Object{"schedule": []string{"1h"}, "maxAttempts": 9}})
	nodes := func(wait string) []browser.Object {
		return []browser.Object{
			{"id": "choose", "type": "branch", "cases": []browser.Object{{"when": "lead.region == 1", "next": "mail"}, {"when": "lead.region == 2", "next": "gone"}}, "otherwise": "rest"},
			{"id": "rest", "type": "delay", "for": wait, "label": "A rest", "next": "end"}, {"id": "gone", "type": "delay", "for": "90h", "label": "A long rest", "next": "end"},
			touchpoint("mail", hook), exit,
		}
	}
	journey := api.Journey("Migrated", nodes("72h")...)
	for _, region := range []int{1, 2, 3, 3, 3} {
		api.Enroll(journey, api.Lead(browser.Object{"name": "Migrant", "region": region}))
	}
	api.Await("/v1/enrollments?journeyId="+journey+"&status=waiting", 4)
	api.Await("/v1/deliveries?webhookId="+hook+"&status=retrying", 1)
	next := nodes("24h")
	next[0]["cases"] = next[0]["cases"].([]browser.Object)[:1]
	api.Do("PUT", "/v1/journeys/"+journey, browser.Object{"name": "Migrated", "start": "choose", "nodes": append(next[:2], next[3:]...)})

	p := browser.Open(t, "/journeys/"+journey+"/publish", browser.Look{})
	if got := texts(p, "main tbody tr"); !strings.Contains(got, "3 can be moved") || !strings.Contains(got, "The step is gone: 1 who waits there") || !strings.Contains(got, "Cannot be moved") {
		t.Errorf("who is affected: %s", got)
	}
	p.Accessible()
	p.Screenshot("publish-affected")
	p.Click("[name=then]")
	click(t, p, "form.after .primary", "select[name='node.rest']")
	if got := texts(p, "main tbody tr"); !strings.Contains(got, "begins anew") {
		t.Errorf("what it means: %s", got)
	}
	p.Accessible()
	p.Screenshot("migrate-form")
	click(t, p, "button[value=review]", ".words")
	if got := p.Text(".words"); got != "3 people from version 1 to version 2." {
		t.Errorf("it says %q", got)
	}
	p.Accessible()
	p.Screenshot("migrate-review")
	click(t, p, "button[value=move]", "#moving")
	shows(t, p, ".note.ok", "3 people were told to go on in version 2")
	shows(t, p, "#moving .progress", "3 of 3") // by itself
	shows(t, p, "#moving", "Gone over")
	p.Accessible()
	p.Screenshot("migrate-done")
	api.Await("/v1/enrollments?journeyId="+journey+"&version=2&status=waiting", 3)
	api.Await("/v1/enrollments?journeyId="+journey+"&version=1", 2)
	p.Visit("/journeys/" + journey + "/versions")
	click(t, p, "a[href$='/migrate?from=1']", "select[name='node.gone']")
	if got := texts(p, "main tbody tr"); !strings.Contains(got, "The step is gone") {
		t.Errorf("who is left: %s", got)
	}
	click(t, p, "button[value=review]", "button[value=review]") // nobody is chosen
}

// An audience is chosen by each of its filters, or as a list; the count says what each of them does.
func TestLaunchAudience(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	journey, _ := reminded(t, "Audience")
	mark := fmt.Sprint("aud-", time.Now().UnixNano())
	lead := api.Lead(browser.Object{"name": "Audie Ence " + mark, "externalId": mark, "email": mark + "@example.com", "mobilePhone": []string{"13712345678"}, "gender": 2, "birthday": "1990-05-21", "customFields": browser.Object{"plan": "gold"}})
	p := browser.Open(t, "/journeys/"+journey+"/launch", browser.Look{})
	counts := func(n string) {
		p.Until(`document.querySelector("#audience .stat-value").textContent === "` + n + `" && !document.querySelector("#audience[aria-busy]")`)
	}
	set := func(name, value string) {
		t.Helper()
		p.Fill("[name="+name+"]", value)
	}
	for _, f := range []struct{ name, is, isNot string }{
		{"externalId", mark, mark + "x"}, {"email", strings.ToUpper(mark) + "@example.com", "x" + mark + "@example.com"}, {"mobilePhone", "+86 137 1234 5678", "13712345679"}, {"name", "audie ence " + mark, "Ence"},
	} {
		set(f.name, f.isNot)
		counts("0")
		set(f.name, f.is)
		counts("1")
	}
	shows(t, p, "#audience .sample", "Audie Ence")
	set("gender", "1")
	counts("0")
	set("gender", "2")
	counts("1")
	set("birthday", "May")
	shows(t, p, "#audience", "Birthday: ")
	set("birthday", "--05-21")
	counts("1")
	set("updatedFrom", "2999-01-01")
	counts("0")
	set("updatedFrom", "2020-01-01")
	set("field1", "plan")
	set("value1", "gold")
	counts("1")
	p.Accessible()
	p.Screenshot("launch-filters")
	p.Click("[name=who][value=list]")
	set("leadsIds", "1 Ada")
	shows(t, p, "#audience", "“Ada” is no lead number")
	set("leadsIds", fmt.Sprint(lead, ", 1\n2"))
	counts("3")
	p.Screenshot("launch-list")
	click(t, p, "button[value=review]", ".words")
	shows(t, p, ".words", "3 leads now")
	p.Until(`document.querySelector(".chart canvas")`)
	p.Accessible()
	p.Screenshot("launch-review-forecast")
	click(t, p, "button[value=launch]", "#launch")
	api.Await("/v1/enrollments?journeyId="+journey, 3)
	p.Until(`document.querySelector("#series .chart canvas")`)
	p.Accessible()
	p.Screenshot("launch-series")
}

// Everybody is taken out of a journey after a question that says how many those are, and a pause of
// it ends as one chooses.
func TestEverybodyLeaves(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	journey := api.Journey("Left", browser.Object{"id": "rest", "type": "delay", "for": "72h", "next": "end"}, exit)
	for i := range 2 {
		api.Enroll(journey, api.Lead(browser.Object{"name": fmt.Sprint("Leaving ", i)}))
	}
	list := "/v1/enrollments?journeyId=" + journey + "&status="
	api.Await(list+"waiting", 2)
	p := browser.Open(t, "/journeys/"+journey, browser.Look{})
	p.Click("[data-dialog=pause]")
	click(t, p, "#pause .primary, #pause .dialog-actions .button:last-child", ".note.ok")
	p.Click("[data-dialog=resume]")
	shows(t, p, "#resume", "2 leads go on")
	p.Click("#resume [value=skip]")
	p.Accessible()
	p.Screenshot("journey-resume")
	click(t, p, "#resume .primary", ".note.ok")
	last := api.Items("/v1/audit?target=" + journey)[0].(browser.Object)
	if last["action"] != "journey.resume" || last["after"].(browser.Object)["elapsedDelays"] != "skip" {
		t.Errorf("the audit log has %v", last)
	}
	p.Click(".actions .menu summary")
	p.Click("[data-dialog=cancel-all]")
	shows(t, p, "#cancel-all", "Take all 2 leads out of this journey?")
	p.Accessible()
	p.Screenshot("journey-cancel")
	click(t, p, "#cancel-all .danger", ".note.ok")
	api.Await(list+"canceled", 2)
}

// What goes wrong is told in words, with the request to ask about, and leads back.
func TestErrorLeadsBack(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	journey := api.Journey("Going", touchpoint("hello", api.Webhook("Of going", api.Receiver)), exit)
	p := browser.Open(t, "/journeys/"+journey, browser.Look{})
	api.Do("POST", "/v1/journeys/"+journey+"/archive", nil)
	p.Script(`document.querySelector("[data-dialog=pause]").click(), document.querySelector("#pause form").action = "/journeys/jrn_gone/pause"`)
	click(t, p, "#pause .dialog-actions .button:last-child", ".error")
	p.Allow("404")
	if got := p.Text(".error"); !strings.Contains(got, "There is nothing here") || !strings.Contains(got, "req_") {
		t.Errorf("it says %q", got)
	}
	if n := browser.Eval[int](p, `document.querySelectorAll("h1").length`); n != 1 {
		t.Errorf("it has %d titles", n)
	}
	if got := browser.Eval[string](p, `document.querySelector(".error [data-copy]").dataset.copy`); !strings.HasPrefix(got, "req_") {
		t.Errorf("what can be copied is %q", got)
	}
	p.Accessible()
	p.Screenshot("error-back")
	click(t, p, ".error .primary", "#outline")
}

// A launch that recurs says in words what it does, with its control group; it is paused, resumed and
// canceled after questions that say what that does.
func TestLaunchIsControlled(t *testing.T) {
	t.Parallel()
	journey, _ := reminded(t, "Recurring")
	p := browser.Open(t, "/journeys/"+journey+"/launch", browser.Look{})
	p.Fill("[name=region]", "1")
	p.Until(`!document.querySelector("#audience").textContent.includes("Every lead") && !document.querySelector("#audience[aria-busy]")`)
	n := browser.Eval[int](p, `Number(document.querySelector("#audience .stat-value").textContent)`)
	p.Click("[name=when][value=at]")
	p.Shows("#field-at")
	click(t, p, "button[value=review]", "#fault-at")
	p.Allow("400")
	p.Click("[name=when][value=recurring]")
	p.Fill("[name=preset]", "cron")
	p.Shows("#field-cron")
	p.Fill("[name=cron]", "0 9 * *")
	p.Fill("[name=group]", "100")
	click(t, p, "button[value=review]", "#fault-group")
	p.Allow("400")
	p.Fill("[name=group]", "50")
	click(t, p, "button[value=review]", ".words")
	click(t, p, "button[value=launch]", "#fault-cron") // the gateway's
	p.Allow("400")
	p.Fill("[name=preset]", "weekdays")
	p.Fill("[name=rate]", "0.5")
	click(t, p, "button[value=review]", ".words")
	held := (n + 1) / 2
	if got, want := p.Text(".words"), fmt.Sprintf("%d leads (as many as match at the time), Monday to Friday at 9:00, Asia/Shanghai, at most 0.5 a second.", n-held); got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	shows(t, p, ".review", fmt.Sprintf("About %d more are held out", held))
	p.Until(fmt.Sprintf(`Math.abs(Number(document.querySelector(".strip.few dd").textContent) - %d) <= 2`, 2*(n-held))) // two messages each, rounded by day
	p.Screenshot("launch-review-recurring")
	click(t, p, "button[value=launch]", "#launch")
	shows(t, p, "#launch", "0 9 * * 1-5")
	shows(t, p, "#launch", "50%")
	for _, step := range []struct{ opens, confirms, asks, says string }{
		{"[data-dialog='pause']", "#pause .dialog-actions button:last-child", "No more leads are let in", "The launch is paused"},
		{"[data-dialog='resume']", "#resume .primary", "A delay that was under way", "The launch goes on"},
		{"[data-dialog='cancel']", "#cancel .danger", "There are no further occurrences", "The launch is canceled"},
	} {
		p.Click(step.opens)
		shows(t, p, "dialog[open]", step.asks)
		p.Accessible()
		click(t, p, step.confirms, ".note.ok")
		shows(t, p, ".note.ok", step.says)
	}
	p.Until(`!document.querySelector("[data-dialog=cancel]")`)
}
