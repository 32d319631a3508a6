package browser_test

import (
	"testing"

	"waypost/devstack/browser"
)

// A subscription is made, told what happens, changed and deleted, and its messages are shown as
// what they are.
func TestSubscription(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	hook := api.Webhook("Told", api.Receiver+"/told")
	journey := api.Journey("Tells", browser.Object{"id": "rest", "type": "delay", "for": "1s", "next": "end"}, exit)

	p := browser.Open(t, "/subscriptions/new", browser.Look{})
	p.Fill("#field-name", hostile)
	p.Fill("#field-webhookId", hook)
	p.Fill("#field-journeyId", journey)
	click(t, p, ".submit .primary", "#fault-on")
	p.Allow("400") // nothing is named that it is to be told
	p.Accessible()
	p.Click("[name=on][value='enrollment.ended']")
	click(t, p, ".submit .primary", ".note.ok")
	shows(t, p, "h1", "<script>alert(1)</script>")
	path := browser.Eval[string](p, "location.pathname")

	api.Enroll(journey, api.Lead(browser.Object{"name": "Ada"}))
	p.Until(`document.querySelector("#messages tbody").textContent.includes("Delivered")`) // by itself
	click(t, p, "#messages tbody a", ".timeline")
	shows(t, p, "h1", "Told to <script>alert(1)</script>")
	shows(t, p, "[aria-labelledby=request-title] pre.code", "enrollment.ended")
	p.Until("!document.querySelector('main a[href^=\"/leads/\"], main a[href^=\"/journeys/\"]')")
	click(t, p, "a[href^='/deliveries?subscriptionId=']", "#deliveries tbody")
	p.Until("document.querySelectorAll('#deliveries tbody tr').length === 1")
	click(t, p, "#deliveries tbody a[href='"+path+"']", "#messages")

	click(t, p, "a[href$='?edit']", "#field-name")
	p.Fill("#field-name", "Changed")
	p.Fill("#field-journeyId", "")
	p.Click("[name=on][value='import.ended']")
	click(t, p, ".submit .primary", ".note.ok")
	if s := api.Do("GET", "/v1"+path, nil); s["name"] != "Changed" || s["journeyId"] != nil || len(s["on"].([]any)) != 2 {
		t.Errorf("the subscription is %v", s)
	}
	p.Click("[data-dialog='delete']")
	shows(t, p, "#delete", "Nothing more is told")
	click(t, p, "#delete .danger:last-child", ".note.ok")
	p.Until("!document.querySelector('#subscriptions-table a[href=\"" + path + "\"]')")
}

// The numbers of a step lead to who stands there and to its messages, page by page, and the
// canvas leads there too.
func TestWhoStandsThere(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	hook := api.Webhook("Refuses", api.Receiver+"/refuses?succeed=false&message=No")
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
	p.Until(rows + " === 50")
	p.Click("[data-more]")
	p.Until(rows + " === 60 && !document.querySelector('[data-more]')")
	shows(t, p, "#enrollments-table tbody", "Three days")
	p.Accessible()
	click(t, p, "#enrollments-table tbody tr:last-child td:last-child a", "#timeline")

	p.Visit("/journeys/" + journey + "?node=say")
	click(t, p, "#chosen .people a[href^='/deliveries?']", "#deliveries tbody")
	shows(t, p, "#failures", "60")
	p.Until(`new URLSearchParams(location.search).get("nodeId") === "say"`)

	p.Visit("/journeys/" + journey + "/canvas")
	p.Click("[data-id=rest]")
	click(t, p, ".wp-links a[href*='/enrollments?nodeId=rest']", "#enrollments-table")
}
