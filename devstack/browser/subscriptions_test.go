package browser_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"waypost/devstack/browser"
)

// A subscription is made, told what happens, changed and deleted, and its messages are shown as
// what they are.
func TestSubscription(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	told := api.Webhook("Told", api.Receiver+"/told")
	journey := api.Journey("Tells", browser.Object{"id": "rest", "type": "delay", "for": "1s", "next": "end"}, exit)

	p := browser.Open(t, "/subscriptions/new", browser.Look{})
	p.Do(chromedp.SetValue(chromedp.CSS("#field-name"), hostile), chromedp.SetValue(chromedp.CSS("#field-webhookId"), told), chromedp.SetValue(chromedp.CSS("#field-journeyId"), journey))
	click(t, p, ".submit .primary", "#fault-on")
	p.Allow("400") // nothing is named that it is to be told
	p.Accessible()
	p.Do(chromedp.Click(chromedp.CSS("[name=on][value='enrollment.ended']")))
	click(t, p, ".submit .primary", ".note.ok")
	shows(t, p, "h1", "<script>alert(1)</script>")
	path := browser.Eval[string](p, "location.pathname")

	api.Enroll(journey, api.Lead(browser.Object{"name": "Ada"}))
	until(t, p, `document.querySelector("#told tbody").textContent.includes("Delivered")`) // by itself
	click(t, p, "#told tbody a", ".timeline")
	shows(t, p, "h1", "Told to <script>alert(1)</script>")
	shows(t, p, "[aria-labelledby=request-title] pre.code", "enrollment.ended")
	see(t, p, "!document.querySelector('main a[href^=\"/leads/\"], main a[href^=\"/journeys/\"]')")
	click(t, p, "a[href^='/deliveries?subscriptionId=']", "#deliveries tbody")
	see(t, p, "document.querySelectorAll('#deliveries tbody tr').length === 1")
	click(t, p, "#deliveries tbody a[href='"+path+"']", "#told")

	click(t, p, "a[href$='?edit']", "#field-name")
	p.Do(chromedp.SetValue(chromedp.CSS("#field-name"), "Changed"), chromedp.SetValue(chromedp.CSS("#field-journeyId"), ""), chromedp.Click(chromedp.CSS("[name=on][value='import.ended']")))
	click(t, p, ".submit .primary", ".note.ok")
	if s := api.Do("GET", "/v1"+path, nil); s["name"] != "Changed" || s["journeyId"] != nil || len(s["on"].([]any)) != 2 {
		t.Errorf("the subscription is %v", s)
	}
	p.Do(chromedp.Click(chromedp.CSS("[data-dialog='delete']")))
	shows(t, p, "#delete", "Nothing more is told")
	click(t, p, "#delete .danger:last-child", ".note.ok")
	see(t, p, "!document.querySelector('#subscriptions-table a[href=\""+path+"\"]')")
}

// The numbers of a step lead to who stands there and to its messages, page by page, and the
// canvas leads there too.
func TestWhoStandsThere(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	hook := api.Webhook("Refuses", api.Receiver+"/refuses?fail=1")
	journey := api.Journey("Stands", browser.Object{"id": "say", "type": "touchpoint", "webhook": hook, "next": "rest"},
		browser.Object{"id": "rest", "type": "delay", "for": "72h", "label": "Three days", "next": "end"}, exit)
	const many = 60 // more than a page
	for range many {
		api.Enroll(journey, api.Lead(browser.Object{"name": "Stands"}))
	}
	api.Await("/v1/enrollments?limit=500&journeyId="+journey+"&status=waiting", many)

	p := browser.Open(t, "/journeys/"+journey, browser.Look{})
	shows(t, p, "#node-rest .standing a", "60")
	click(t, p, "#node-rest .standing a", "#enrollments-table")
	rows := `document.querySelectorAll("#enrollments-table tbody tr").length`
	see(t, p, rows+" === 50")
	p.Do(chromedp.Click(chromedp.CSS("[data-more]")))
	see(t, p, rows+" === 60 && !document.querySelector('[data-more]')")
	shows(t, p, "#enrollments-table tbody", "Three days")
	p.Accessible()
	click(t, p, "#enrollments-table tbody tr:last-child td:last-child a", "#timeline")

	p.Do(chromedp.Navigate(browser.Address(t) + "/journeys/" + journey + "?node=say"))
	click(t, p, "#chosen .people a[href^='/deliveries?']", "#deliveries tbody")
	shows(t, p, "#failures", "60")
	see(t, p, `new URLSearchParams(location.search).get("nodeId") === "say"`)

	p.Do(chromedp.Navigate(browser.Address(t) + "/journeys/" + journey + "/canvas"))
	p.Do(chromedp.Click(chromedp.CSS("[data-id=rest]")))
	click(t, p, ".wp-links a[href*='/enrollments?nodeId=rest']", "#enrollments-table")
}
