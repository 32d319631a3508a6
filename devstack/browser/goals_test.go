package browser_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost/devstack/browser"
)

// A journey that begins by an event, with a goal that only its second arm reaches: the pages tell
// the lift, the winner, which is taken back, and the conversion of an enrollment.
func TestGoal(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	nodes := []browser.Object{
		{"id": "offer", "type": "split", "label": "Offer", "arms": []browser.Object{{"weight": 1, "next": "end"}, {"weight": 1, "next": "buys"}}, "winner": browser.Object{"by": "goal", "leads": 60}},
		{"id": "buys", "type": "emit", "label": "Buys", "event": "goal_bought", "properties": browser.Object{"total": "12.5"}, "next": "end"}, exit,
	}
	id := api.Do("POST", "/v1/journeys", browser.Object{
		"name": "With a goal", "start": "offer", "nodes": nodes, "controlGroup": 0.3,
		"entry": []browser.Object{{"event": "goal_cart", "when": "event.total > 50"}}, "goal": browser.Object{"event": "goal_bought"},
	})["id"].(string)
	api.Do("POST", "/v1/journeys/"+id+"/publish", nil)

	var counted browser.Object
	decided := func() bool {
		counted = api.Do("GET", "/v1/journeys/"+id+"/statistics", nil)
		lift, _ := counted["lift"].(map[string]any)
		for _, n := range counted["nodes"].([]any) {
			if w, _ := n.(map[string]any)["winner"].(map[string]any); w != nil && w["status"] == "decided" {
				return lift["verdict"] == "higher"
			}
		}
		return false
	}
	until := time.Now().Add(2 * time.Minute)
	for n := 0; !decided(); n++ {
		if time.Now().After(until) {
			t.Fatalf("after %d leads: %v", n, counted)
		}
		lead := api.Lead(browser.Object{"name": "Buyer", "externalId": fmt.Sprint("goal-", n)})
		api.Do("POST", "/v1/events", browser.Object{"eventId": fmt.Sprint("goal-cart-", n), "name": "goal_cart", "leadsId": lead, "properties": browser.Object{"total": 120}})
	}

	p := browser.OpenStory(t, "/journeys/"+id)
	for _, want := range []string{"The event goal_cart", "event.total > 50", "The event goal_bought within 7 days", "30%", "Begun by an event", "percentage points"} {
		shows(t, p, "#goal", want)
	}
	shows(t, p, "#lift .badge.ok", "The rate is higher")
	if width := browser.Eval[float64](p, `document.querySelector("#lift rect").getBoundingClientRect().width`); width < 2 {
		t.Errorf("the interval is %v px wide", width)
	}
	p.Accessible()
	p.Script(`document.querySelector("#lift").scrollIntoView({block: "end"})`)
	p.Screenshot("goal")
	pictures(t, "goal", "/journeys/"+id, "#lift", func(*browser.Page) {})
	pictures(t, "goal-arms", "/journeys/"+id+"?node=offer", "#contest", func(*browser.Page) {})
	p.Visit("/journeys/" + id + "/statistics")
	shows(t, p, "#goal", "Control group")
	p.Accessible()

	p.Visit("/journeys/" + id + "?node=offer")
	shows(t, p, "#contest", "Arm B has won")
	shows(t, p, "#arms tr:nth-child(2) .badge", "Winner")
	p.Script(`document.querySelector("#contest").scrollIntoView({block: "center"})`)
	p.Screenshot("goal-arms")
	p.Click("[data-dialog=reverse]")
	p.Shows("#reverse[open]")
	p.Accessible()
	click(t, p, "#reverse .primary, #reverse .dialog-actions .small", ".note.ok")
	shows(t, p, "#contest", "was taken back")
	if browser.Eval[bool](p, `!!document.querySelector("[data-dialog=reverse], #arms .badge")`) {
		t.Error("there still is a winner")
	}

	converted := ""
	for _, e := range api.Items("/v1/enrollments?journeyId=" + id + "&limit=100") {
		if e := e.(map[string]any); e["conversion"] != nil {
			converted = e["enrollmentId"].(string)
		}
	}
	p.Visit("/enrollments/" + converted)
	shows(t, p, ".facts", "goal_cart")
	if text := p.Text("#conversion"); !strings.Contains(text, "Converted") || strings.Contains(text, "–") {
		t.Errorf("the conversion is %q", text)
	}
	p.Accessible()

	phone := browser.Open(t, "/journeys/"+id+"?node=offer", browser.Look{Language: "zh", Phone: true})
	shows(t, phone, "#lift", "转化率高于对照组")
	if browser.Eval[bool](phone, `document.documentElement.scrollWidth > document.documentElement.clientWidth`) {
		t.Error("the page is wider than the window")
	}
	phone.Accessible()
	phone.Screenshot("goal-phone")
}
