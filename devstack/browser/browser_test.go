package browser_test

import (
	"os"
	"strings"
	"testing"

	"waypost/devstack/browser"
)

func TestMain(m *testing.M) { os.Exit(browser.Main(m)) }

// pages are all pages, with what to look at before their pictures are taken. A new page is a
// line here.
var pages = []struct{ name, path string }{
	{"deliveries", "/deliveries"},
	{"deliveries-failed", "/deliveries?status=failed"},
	{"deliveries-none", "/deliveries?leadsId=999999"},
	{"delivery", "{/deliveries?status=failed /deliveries/msg_}"},
	{"enrollment", "{/leads/5 /enrollments/enr_}"},
	{"webhooks", "/webhooks"},
	{"webhooks-none", "/webhooks?name=zzz"},
	{"webhook", "{/webhooks?name=CRM /webhooks/whk_}"},
	{"webhook-edit", "{/webhooks?name=CRM /webhooks/whk_}?edit"},
	{"webhook-new", "/webhooks/new"},
	{"leads", "/leads"},
	{"leads-none", "/leads?name=zzz"},
	{"lead", "/leads/5"},
	{"lead-edit", "/leads/5?edit"},
	{"lead-new", "/leads/new"},
	{"import", "/leads/import"},
	{"articles", "/articles"},
	{"articles-none", "/articles?tenant_id=zzz&keywords=zzz"},
	{"article-new", "/articles/new"},
}

// linked puts the address of the first link of a page in place of {PAGE PREFIX}.
func linked(t *testing.T, path string) string {
	t.Helper()
	inside, rest, _ := strings.Cut(strings.TrimPrefix(path, "{"), "}")
	page, prefix, found := strings.Cut(inside, " ")
	if !found {
		return path
	}
	return browser.Find(t, page, prefix) + rest
}

// maxBytes bounds what a page and all that it loads take on the wire.
const maxBytes = 100 << 10

// Every page, in both languages and themes, at a desk and on a phone: without a complaint of
// the browser, accessible, small.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, page := range pages {
		path := linked(t, page.path)
		for name, look := range map[string]browser.Look{
			"en-light": {Language: "en", Theme: "light"}, "zh-dark": {Language: "zh", Theme: "dark"},
			"zh-light": {Language: "zh", Theme: "light"}, "en-dark": {Language: "en", Theme: "dark"},
			"en-light-phone": {Language: "en", Theme: "light", Phone: true}, "zh-dark-phone": {Language: "zh", Theme: "dark", Phone: true},
		} {
			t.Run(page.name+"/"+name, func(t *testing.T) {
				p := browser.Open(t, path, look)
				if n := p.Bytes(); n > maxBytes {
					t.Errorf("%d bytes were loaded", n)
				}
				if browser.Eval[bool](p, `document.documentElement.scrollWidth > innerWidth`) {
					t.Error("the page is wider than the window")
				}
				p.Accessible()
				p.Screenshot(page.name + "-" + name)
			})
		}
	}
}
