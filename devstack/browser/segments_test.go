package browser_test

import (
	"testing"

	"waypost/devstack/browser"
)

// A segment is written, counted, listed, launched to, kept while another uses it, and deleted.
func TestSegment(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	for _, name := range []string{"Segmented Ada", "Segmented 李娜"} {
		api.Lead(browser.Object{"name": name, "customFields": browser.Object{"tier": "segmented"}})
	}
	journey := api.Journey("Segmented", exit)
	p := browser.Open(t, "/segments/new", browser.Look{})
	p.Fill("#field-name", hostile)
	p.Click("#tab-text")
	p.Shows(".expression .cm-content")
	p.Fill("#field-when", `lead.customFields.tier = "segmented"`)
	click(t, p, ".stack .primary", "#fault-when")
	p.Allow("400") // the form is answered with the part that is wrong
	shows(t, p, "#fault-when", "line 1")
	p.Accessible()
	p.Fill("#field-when", `lead.customFields.tier == "segmented"`)
	click(t, p, ".stack .primary", ".note.ok")
	shows(t, p, "h1", "<script>alert(1)</script>")
	path := browser.Eval[string](p, "location.pathname")
	id := path[len("/segments/"):]
	p.Until(`document.querySelector("#count .huge").textContent === "2"`) // by itself
	shows(t, p, "#count .sample", "Segmented 李娜")
	p.Accessible()
	click(t, p, "a[href$='/members']", "#leads-table")
	p.Until("document.querySelectorAll('#leads-table tbody tr').length === 2")

	p.Visit("/journeys/" + journey + "/launch")
	p.Click("[name=who][value=segment]")
	p.Fill("#field-segment", id)
	p.Until(`document.querySelector("#audience .huge").textContent === "2"`)
	p.Accessible()
	click(t, p, "[value=review]", ".review")
	click(t, p, "[value=launch]", ".note.ok")
	api.Await("/v1/enrollments?journeyId="+journey, 2)

	api.Do("POST", "/v1/segments", browser.Object{"name": "Names it", "when": `inSegment("` + id + `")`})
	p.Visit(path + "/edit")
	p.Fill("#field-name", "Changed")
	click(t, p, ".stack .primary", ".note.ok")
	if s := api.Do("GET", "/v1"+path, nil); s["name"] != "Changed" {
		t.Errorf("the segment is %v", s)
	}
	p.Click("[data-dialog='delete']")
	click(t, p, "#delete .danger:last-child", ".note.bad")
	shows(t, p, ".note.bad", "uses the segment")
	for _, s := range api.Items("/v1/segments?limit=500") {
		if s := s.(map[string]any); s["name"] == "Names it" {
			api.Do("DELETE", "/v1/segments/"+s["id"].(string), nil)
		}
	}
	p.Click("[data-dialog='delete']")
	click(t, p, "#delete .danger:last-child", ".note.ok")
	p.Until("!document.querySelector('#segments-table a[href=\"" + path + "\"]')")
}
