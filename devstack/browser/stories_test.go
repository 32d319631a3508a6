package browser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"waypost/devstack/browser"
)

// add presses the "+" of the canvas on the way from one step to another, and chooses a type
// from its menu. The new step's form is open then.
func add(p *browser.Page, from, to, kind string) {
	p.Click(fmt.Sprintf(`[aria-label^="Add a step here"][aria-label$="From %s to %s"]`, from, to))
	p.Click(".wp-menu .wp-" + kind)
	p.Until(fmt.Sprintf(`!document.querySelector(".wp-menu") && document.querySelector(".wp-form .wp-%s")`, kind))
}

// fieldOf is the field of the canvas's form whose label begins so.
func fieldOf(label string) string {
	return fmt.Sprintf(`((label) => label && (document.getElementById(label.htmlFor) ?? label.querySelector("input")))([...document.querySelectorAll(".wp-form label")].find((l) => l.textContent.trim().startsWith(%q)))`, label)
}

// enter types into a field of the canvas's form, chooses from its list, or presses its check box.
func enter(p *browser.Page, label, value string) {
	p.Until(fmt.Sprintf(`(() => {
		const field = %s, value = %q;
		if (!field) return false;
		field.focus();
		if (field.type === "checkbox") { if (!field.checked) field.click(); return true; }
		if (field.isContentEditable) {
			getSelection().selectAllChildren(field);
			return document.execCommand("insertText", false, value);
		}
		const chosen = field.tagName === "SELECT" ? [...field.options].find((o) => o.text.startsWith(value) || o.value === value)?.value : value;
		if (chosen === undefined) return false;
		Object.getOwnPropertyDescriptor(Object.getPrototypeOf(field), "value").set.call(field, chosen);
		return field.dispatchEvent(new Event(field.tagName === "SELECT" ? "change" : "input", {bubbles: true}));
	})()`, fieldOf(label), value))
}

// drawn waits until the draft on the canvas is saved and can be published.
func drawn(p *browser.Page) {
	p.Until(`document.querySelector(".wp-bar").textContent.includes("Ready to publish") && document.querySelector(".wp-bar").textContent.includes("Saved")`)
}

// A marketer who has only the printed link sends messages with a journey of their own, and
// mends a receiver that fails, within the console.
func TestFiveMinutes(t *testing.T) {
	t.Parallel()
	p, api := browser.StartNew(t)
	api.Webhook("Text messages", api.Receiver+"/sms?fail=503")
	p.Screenshot("five-link")
	click(t, p, ".gate-card .primary", "#overview")
	click(t, p, "a[href='/journeys/new']", "#field-name")
	p.Fill("#field-name", "Welcome")
	p.Fill("#field-webhook", browser.Eval[string](p, `[...document.querySelector("#field-webhook").options].find((o) => o.text.includes("emo")).value`))
	click(t, p, "form:has(#field-name) .primary", "#canvas .react-flow__node")
	p.Until(`document.querySelector(".wp-bar")`)
	add(p, "Hello", "Exit", "delay")
	enter(p, "How long", "1s")
	add(p, "delay", "Exit", "branch")
	p.Screenshot("five-branch")
	click(t, p, ".actions a[href$='/publish']", ".problem-list") // the canvas is saved before
	shows(t, p, ".problem-list", "must be a condition")
	shows(t, p, ".problem-list", "Condition 1")
	p.Accessible()
	p.Screenshot("five-cannot")
	click(t, p, ".problem-list a", ".wp-form")
	enter(p, "1", "lead.gender == 2")
	add(p, "branch", "Exit", "touchpoint")
	enter(p, "Webhook", "Text messages")
	enter(p, "Name of the step", "Text")
	drawn(p)
	p.Screenshot("five-drawn")
	click(t, p, "a[href*='/try?']", "#field-leadsId")
	p.Do(chromedp.SendKeys(chromedp.CSS("#field-leadsId"), "amara"))
	p.Click("#found-leads [data-id]")
	shows(t, p, "#outcome .trail", "Text")
	p.Screenshot("five-tried")
	p.Click("[data-dialog='send-0']")
	p.Shows("#send-0")
	click(t, p, "#send-0 .primary", "#run .note.ok")
	click(t, p, "a[href$='/publish']", "form.after")
	click(t, p, "form.after .primary", "#outline")
	shows(t, p, ".note.ok", "Nobody is in it yet: launch it for an audience.")
	click(t, p, "a[href$='/launch']", "#audience")
	p.Fill("[name=gender]", "2")
	p.Until(`document.querySelector("#audience .stat-value").textContent === "2"`)
	shows(t, p, "#audience .sample", "Amara Bello")
	p.Screenshot("five-audience")
	click(t, p, "button[value=review]", ".words")
	p.Screenshot("five-review")
	click(t, p, "button[value=launch]", "#launch")
	p.Until(`document.querySelectorAll("#launch progress")[1]?.value === 2`) // by itself
	shows(t, p, ".head-line .badge", "Completed")
	p.Screenshot("five-launched")
	click(t, p, "#launch .strip .bad a", "#failures .group")
	shows(t, p, "#failures .group", "503")
	p.Screenshot("five-failures")
	click(t, p, "#deliveries tbody a[href^='/deliveries/']", ".timeline")
	click(t, p, "main a[href^='/webhooks/whk_']", "#health")
	click(t, p, "a[href$='?edit']", "#field-url")
	p.Fill("#field-url", api.Receiver+"/sms")
	click(t, p, ".submit .primary", ".note.ok")
	click(t, p, "form[action$='/test'] button", ".note.ok")
	p.Screenshot("five-tested")
	click(t, p, ".note a[href*='status=failed']", "#failures .group")
	p.Click("[data-dialog='again-0']")
	p.Shows("#again-0")
	click(t, p, "#again-0 .primary", "#redeliveries .job")
	shows(t, p, "#redeliveries", "2 delivered")
	p.Until("!document.querySelector('#failures section')")
	p.Screenshot("five-delivered")
}

// draw makes a journey of a template from the console, and opens its canvas.
func draw(t *testing.T, p *browser.Page, name, template, webhook string) (path string) {
	t.Helper()
	click(t, p, "a[href='/journeys/new']", "#field-name")
	p.Fill("#field-name", name)
	p.Click("[name=template][value=" + template + "]")
	p.Fill("#field-webhook", webhook)
	click(t, p, "form:has(#field-name) .primary", "#canvas .react-flow__node")
	p.Shows(".wp-bar")
	return browser.Eval[string](p, `location.pathname.replace(/\/edit$/, "")`)
}

// published publishes what is on the canvas.
func published(t *testing.T, p *browser.Page) {
	t.Helper()
	drawn(p)
	click(t, p, ".actions a[href$='/publish']", "form.after")
	click(t, p, "form.after .primary", "#outline")
}

const settings = `[aria-label="Settings of the journey"]`

// Two carts of one lead, as the shop reports them, are two enrollments, and tell how they began.
func TestAbandonedCart(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	hook := api.Webhook("Cart mail", api.Receiver+"/cart")
	lead := api.Lead(browser.Object{"name": "Carla Cart"})
	p := browser.OpenStory(t, "/")
	at := draw(t, p, "Abandoned cart", "message", hook)
	p.Click(settings)
	p.Click(".wp-group:nth-of-type(1) .wp-button")
	enter(p, "Event", "cart_left")
	enter(p, "Entry key", "event.cartId")
	p.Screenshot("cart-settings")
	p.Click(".wp-form " + `[aria-label="Close"]`)
	p.Click(".react-flow__node[data-id=hello]")
	p.Until(`document.querySelector(".wp-param .cm-content")`)
	p.Script(`{ const field = document.querySelector(".wp-param .cm-content"); field.focus(); getSelection().selectAllChildren(field); document.execCommand("insertText", false, "{{ lead.name }}, {{ enrollment.event.properties.items }} things wait in your cart.") }`)
	p.Screenshot("cart-draw")
	published(t, p)
	shows(t, p, ".note.ok", "From now on it begins by itself")
	shows(t, p, "#goal", "The event cart_left")
	for i, cart := range []string{"c-1", "c-2"} {
		api.Do("POST", "/v1/events", browser.Object{"eventId": fmt.Sprint("cart-left-", lead, cart), "name": "cart_left", "leadsId": lead, "properties": browser.Object{"cartId": cart, "items": i + 2}})
	}
	p.Until(`document.querySelector("#numbers dd").textContent === "2"`) // by itself
	click(t, p, "a[href='"+at+"/enrollments']", "main tbody")
	for _, list := range []string{"", "main tbody a[href='/leads/" + fmt.Sprint(lead) + "']"} {
		if list != "" {
			click(t, p, list, "#enrollments-table")
		}
		if got := texts(p, "#enrollments-table tbody td:nth-child(2)"); !strings.Contains(got, "The event cart_left · c-1") || !strings.Contains(got, "The event cart_left · c-2") {
			t.Errorf("how they began: %s", got)
		}
		p.Accessible()
		p.Screenshot("cart-enrollments" + fmt.Sprint(len(list)))
	}
	click(t, p, "main a[href^='/enrollments/']", "#timeline")
	shows(t, p, ".facts", "The event cart_left")
	click(t, p, "main a[href^='/deliveries/']", ".timeline")
	shows(t, p, "main", "Carla Cart, 3 things wait in your cart.")
	p.Screenshot("cart-message")
}

// settle puts a goal into the form of the journey's settings.
func settle(p *browser.Page, event string) {
	p.Click(settings)
	enter(p, "Count who reaches a goal", "")
	p.Until(`[...document.querySelectorAll(".wp-group")].some((g) => g.querySelector("legend").textContent === "Goal" && g.querySelectorAll("input").length > 2)`)
	enter(p, "Event", event)
}

// Those who have not bought for long are won back every Monday; a tenth is held out, and the
// journey's page tells what that was worth.
func TestWinBack(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	hook := api.Webhook("Win-back mail", api.Receiver+"/winback")
	var leads []any
	mark := fmt.Sprint("away-", time.Now().UnixNano())
	for i := range 40 {
		leads = append(leads, api.Lead(browser.Object{"name": fmt.Sprint("Away ", i), "customFields": browser.Object{"away": mark}}))
	}
	p := browser.OpenStory(t, "/segments")
	click(t, p, "a[href='/segments/new']", "#field-name")
	p.Fill("#field-name", "Not seen for long")
	p.Click("#tab-text")
	p.Shows(".expression .cm-content")
	p.Fill("#field-when", fmt.Sprintf("lead.customFields.away == %q", mark))
	click(t, p, ".stack .primary", ".note.ok")
	p.Until(`document.querySelector("#count .huge").textContent === "40"`) // by itself
	shows(t, p, "#count .sample", "Away ")
	p.Screenshot("win-segment")
	segment := browser.Eval[string](p, `location.pathname.replace("/segments/", "")`)
	click(t, p, "a[href='/']", "#overview")
	at := draw(t, p, "Win-back", "message", hook)
	settle(p, "came_back")
	enter(p, "Control group", "10")
	p.Screenshot("win-settings")
	published(t, p)
	shows(t, p, "#goal", "The event came_back within 7 days")
	shows(t, p, "#goal", "10%")
	click(t, p, "a[href$='/launch']", "#audience")
	p.Click("[name=who][value=segment]")
	p.Fill("#field-segment", segment)
	p.Until(`document.querySelector("#audience .huge").textContent === "40"`)
	p.Click("[name=when][value=recurring]")
	p.Fill("[name=preset]", "weekly")
	p.Screenshot("win-launch")
	click(t, p, "button[value=review]", ".words")
	if got, want := p.Text(".words"), "36 leads of the segment Not seen for long (as many as match at the time), every Monday at 9:00, Asia/Shanghai, as fast as it goes."; got != want {
		t.Errorf("it says %q, want %q", got, want)
	}
	shows(t, p, ".review", "About 4 more are held out")
	p.Accessible()
	p.Screenshot("win-review")
	click(t, p, "button[value=launch]", "#launch")
	shows(t, p, "#launch", "0 9 * * 1")
	p.Screenshot("win-launched")

	// Another one, now: half of those who got the message come back.
	p.Visit(at + "/launch")
	p.Click("[name=who][value=segment]")
	p.Fill("#field-segment", segment)
	p.Until(`document.querySelector("#audience .huge").textContent === "40"`)
	click(t, p, "button[value=review]", ".words")
	click(t, p, "button[value=launch]", "#launch")
	p.Until(`document.querySelector("#launch progress")?.value === 40`) // by itself
	click(t, p, ".head-line a", "#goal")
	for i, lead := range leads {
		if i%2 == 0 {
			api.Do("POST", "/v1/events", browser.Object{"eventId": fmt.Sprint("came-back-", lead), "name": "came_back", "leadsId": lead, "properties": browser.Object{"total": 20}})
		}
	}
	p.Until(`(() => {
		const all = [...document.querySelectorAll("#goal .strip")].map((s) => [...s.querySelectorAll("dd")].map((d) => Number(d.textContent)));
		return all[0][0] + all[1][0] === 40 && all[0][1] + all[1][1] === 20 && all[1][0] > 0;
	})()`) // by itself
	shows(t, p, "#goal", "Not enough data: each side needs 30 leads")
	p.Accessible()
	p.Screenshot("win-goal")
}

// Of two messages, the one that brings more orders takes everybody, until somebody takes that back.
func TestBetterMessage(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	hook := api.Webhook("Offer mail", api.Receiver+"/offer")
	p := browser.OpenStory(t, "/")
	at := draw(t, p, "Better message", "compare", hook)
	p.Click(".react-flow__node[data-id=choose]")
	enter(p, "Send everybody the better arm", "")
	shows(t, p, ".wp-form", "Arms are compared by the journey's goal, and it has none yet.")
	p.Click(".wp-form [aria-label=Close]")
	settle(p, "ab_ordered")
	p.Click(".react-flow__node[data-id=choose]")
	enter(p, "Compare the arms", "After a number of leads")
	enter(p, "Leads", "60")
	p.Until(`!document.querySelector(".wp-fault")`)
	p.Accessible()
	p.Screenshot("ab-winner")
	published(t, p)
	more := func(from int) {
		for i := from; i < from+80; i++ {
			api.Enroll(at[len("/journeys/"):], api.Lead(browser.Object{"name": fmt.Sprint("Compared ", i)}))
		}
	}
	more(0)
	list := "/v1/deliveries?journeyId=" + at[len("/journeys/"):] + "&status=succeeded&limit=500"
	api.Await(list, 80)
	for _, d := range api.Items(list + "&nodeId=second") {
		lead := d.(map[string]any)["leadsId"]
		api.Do("POST", "/v1/events", browser.Object{"eventId": fmt.Sprint("ab-ordered-", lead), "name": "ab_ordered", "leadsId": lead})
	}
	more(80)
	click(t, p, "#node-choose .step-what a", "#chosen #contest")
	shows(t, p, "#contest", "Arm B has won and takes everybody.") // by itself
	shows(t, p, "#arms tr:nth-child(2) .badge", "Winner")
	p.Accessible()
	p.Screenshot("ab-won")
	p.Click("[data-dialog=reverse]")
	shows(t, p, "#reverse", "All arms take leads again")
	click(t, p, "#reverse .primary, #reverse .dialog-actions .small", ".note.ok")
	shows(t, p, "#contest", "was taken back")
}
