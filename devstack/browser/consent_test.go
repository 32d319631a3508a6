package browser_test

import (
	"testing"

	"waypost/devstack/browser"
)

// A channel is set at a webhook, a lead agrees to it and is marked as a test lead, and its number is
// suppressed, which its page tells, and freed again.
func TestConsentAndSuppressions(t *testing.T) {
	t.Parallel()
	api := browser.API(t)
	hook := api.Webhook("Texter", api.Receiver+"/texter")
	p := browser.Open(t, "/webhooks/"+hook+"?edit", browser.Look{})
	p.Script(`document.querySelector("[name=requiresConsent]").checked = true`)
	click(t, p, ".submit .primary", "#fault-channel")
	p.Allow("400") // the form is answered with what is wrong
	p.Fill("#field-channel", "texts")
	click(t, p, ".submit .primary", ".note.ok")
	if w := api.Do("GET", "/v1/webhooks/"+hook, nil); w["channel"] != "texts" || w["requiresConsent"] != true {
		t.Errorf("the webhook is %v", w)
	}

	p.Visit("/leads/new")
	p.Fill("#field-name", "Consenting")
	p.Fill("#field-mobilePhone", "13800138777")
	p.Fill("#field-externalId", "consents-1")
	p.Script(`document.getElementById("field-consents.texts").value = "true"; document.querySelector("[name=test]").checked = true`)
	click(t, p, ".submit .primary", ".note.ok")
	shows(t, p, "#main", "Test lead")
	shows(t, p, ".facts", "Agrees")
	path := browser.Eval[string](p, "location.pathname")
	if lead := api.Do("GET", "/v1"+path, nil); lead["test"] != true || lead["consents"].(map[string]any)["texts"] != true {
		t.Errorf("the lead is %v", lead)
	}

	p.Visit("/suppressions?channel=texts")
	p.Fill("#field-channel", "Texts")
	p.Fill("#field-address", "consents-1")
	p.Script(`document.getElementById("field-kind").value = "externalId"`)
	click(t, p, "#new .primary", "#fault-channel")
	p.Allow("400")
	p.Accessible()
	p.Fill("#field-channel", "texts")
	click(t, p, "#new .primary", ".note.ok")
	p.Visit("/suppressions?channel=texts")
	shows(t, p, "#suppressions-table", "consents-1")
	p.Visit(path)
	shows(t, p, ".facts", "Suppressions")
	click(t, p, ".facts a[href^='/suppressions']", "#suppressions-table")
	p.Click("#suppressions-table [data-dialog^='remove']")
	p.Shows("dialog[open]")
	p.Accessible()
	click(t, p, "dialog[open] .danger", ".note.ok")
	p.Visit(path + "?edit")
	p.Script(`document.getElementById("field-consents.texts").value = ""; document.querySelector("[name=test]").checked = false`)
	click(t, p, ".submit .primary", ".note.ok")
	if lead := api.Do("GET", "/v1"+path, nil); lead["test"] != false || lead["consents"] != nil {
		t.Errorf("the lead is %v", lead)
	}
	api.Await("/v1/suppressions?channel=texts", 0)
}
