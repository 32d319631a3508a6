package browser_test

import (
	"fmt"
	"maps"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"waypost/devstack/browser"
	"waypost/devstack/harness"
)

func TestMain(m *testing.M) {
	if os.Getenv(harness.RunMain) != "" {
		os.Exit(harness.Main(m)) // a process of a test
	}
	os.Exit(browser.Main(m))
}

// pages are all pages, with what to look at before their pictures are taken. A new page is a
// line here.
var pages = []struct{ name, path string }{
	{"deliveries", "/deliveries"},
	{"deliveries-failed", "/deliveries?status=failed"},
	{"deliveries-none", "/deliveries?leadsId=999999"},
	{"overview", "/"},
	{"journeys", "/journeys"},
	{"journeys-none", "/journeys?name=zzz"},
	{"journey-new", "/journeys/new"},
	{"journey", "{Anniversary}"},
	{"journey-node", "{Anniversary}?node=bought"},
	{"journey-hostile", "{<img}?node=hello"},
	{"journey-canvas", "{Anniversary}/canvas"},
	{"journey-enrollments", "{Anniversary}/enrollments?status=waiting,paused"},
	{"journey-enrollments-none", "{Birthday}/enrollments"},
	{"journey-statistics", "{Anniversary}/statistics"},
	{"journey-launches", "{Anniversary}/launches"},
	{"journey-versions", "{Anniversary}/versions"},
	{"journey-definition", "{Anniversary}/definition"},
	{"journey-compare-canvas", "{Anniversary}/compare?from=1&to=draft"},
	{"edit-canvas", "{Anniversary}/edit"},
	{"edit-node-canvas", "{Anniversary}/edit?node=bought"},
	{"edit-text", "{Anniversary}/text"},
	{"publish", "{Anniversary}/publish"},
	{"try-canvas", "{Anniversary}/try?leadsId=5"},
	{"forecast", "{Anniversary}/forecast"},
	{"migrate", "{Anniversary}/migrate?from=2&to=1"},
	{"migrate-none", "{Onboarding}/migrate"},
	{"launch-new", "{Anniversary}/launch"},
	{"launch-unpublished", "{Birthday}/launch"},
	{"launches", "/launches"},
	{"launch", "{launch}"},
	{"users", "/users"},
	{"account", "/account"},
	{"audit", "/audit"},
	{"audit-none", "/audit?actor=nobody"},

	{"delivery", "{/deliveries?status=failed /deliveries/msg_}"},
	{"enrollment", "{/leads/5 /enrollments/enr_}"},
	{"webhooks", "/webhooks"},
	{"webhooks-none", "/webhooks?name=zzz"},
	{"webhook", "{/webhooks?name=CRM /webhooks/whk_}"},
	{"webhook-edit", "{/webhooks?name=CRM /webhooks/whk_}?edit"},
	{"webhook-new", "/webhooks/new"},
	{"subscriptions", "/subscriptions"},
	{"subscription", "{/subscriptions /subscriptions/sub_}"},
	{"subscription-edit", "{/subscriptions /subscriptions/sub_}?edit"},
	{"subscription-new", "/subscriptions/new"},
	{"delivery-subscription", "{message}"},
	{"leads", "/leads"},
	{"leads-none", "/leads?name=zzz"},
	{"lead", "/leads/5"},
	{"lead-test", "{/leads?externalId=test-lin /leads/6}"},
	{"lead-edit", "/leads/5?edit"},
	{"lead-new", "/leads/new"},
	{"import", "/leads/import"},
	{"segments", "/segments"},
	{"segment", "{/segments /segments/seg_}"},
	{"segment-members", "{/segments /segments/seg_}/members"},
	{"segment-edit", "{/segments /segments/seg_}/edit"},
	{"segment-new", "/segments/new"},
	{"suppressions", "/suppressions"},
	{"suppressions-none", "/suppressions?channel=zzz"},
	{"articles", "/articles"},
	{"articles-none", "/articles?tenant_id=zzz&keywords=zzz"},
	{"article-new", "/articles/new"},
}

// signedOut are the pages for those who have not signed in.
var signedOut = []struct{ name, path string }{
	{"sign-in", "/sign-in"},
}

// resolve puts the address of the journey whose name begins so in place of {NAME}, that of
// a launch that runs in place of {launch}, that of a message to a subscription in place of
// {message}, and that of the first link of a page in place of {PAGE PREFIX}.
func resolve(t *testing.T, path string) string {
	t.Helper()
	name, rest, found := strings.Cut(strings.TrimPrefix(path, "{"), "}")
	page, prefix, linked := strings.Cut(name, " ")
	switch {
	case !found:
		return path
	case linked && strings.HasPrefix(page, "/"):
		return browser.Find(t, page, prefix) + rest
	case name == "message":
		return browser.Find(t, browser.Find(t, "/subscriptions", "/subscriptions/sub_"), "/deliveries/msg_") + rest
	case name == "launch":
		return browser.Find(t, "/launches?status=running", "/launches/lch_") + rest
	}
	return browser.Find(t, "/journeys?name="+url.QueryEscape(name), "/journeys/jrn_") + rest
}

// maxBytes bounds what a page and all that it loads take on the wire, maxEditor that of one with
// the canvas or the editor of a text, maxBoth that of the canvas after it has loaded the editor
// of expressions, too.
const (
	maxBytes  = 100 << 10
	maxEditor = 300 << 10
	maxBoth   = 310 << 10
)

// looks are those that each test of all pages takes: both languages and themes, at a desk and
// on a phone. Pictures are made of all of furtherLooks, too.
var looks, furtherLooks = map[string]browser.Look{
	"en-light": {Language: "en", Theme: "light"}, "zh-dark-phone": {Language: "zh", Theme: "dark", Phone: true},
}, map[string]browser.Look{
	"zh-dark": {Language: "zh", Theme: "dark"}, "zh-light": {Language: "zh", Theme: "light"}, "en-dark": {Language: "en", Theme: "dark"},
	"en-light-phone": {Language: "en", Theme: "light", Phone: true},
}

// withPictures says whether pictures are taken.
func withPictures() bool { return os.Getenv("WAYPOST_TEST_SCREENSHOTS") != "" }

// pictures takes pictures of what a test has made, in all looks, if pictures are
// taken: it opens the page, does what is to be done there, and shows an element.
func pictures(t *testing.T, name, path, selector string, do func(*browser.Page)) {
	t.Helper()
	if !withPictures() {
		return
	}
	all := maps.Clone(looks)
	maps.Copy(all, furtherLooks)
	for look, as := range all {
		p := browser.Open(t, path, as)
		do(p)
		p.Shows(selector)
		p.Script(fmt.Sprintf(`document.querySelector(%q).scrollIntoView({block: "center"})`, selector))
		p.Accessible()
		p.Screenshot(name + "-" + look)
		p.Close()
	}
}

// The picture that README begins with, in both themes: docs/console-THEME.png.
func TestPagesForReadme(t *testing.T) {
	t.Parallel()
	path := resolve(t, "{Anniversary}/canvas")
	for _, theme := range []string{"light", "dark"} {
		p := browser.Open(t, path, browser.Look{Theme: theme})
		p.Do(chromedp.EmulateViewport(1280, 1010), chromedp.Reload())
		p.Until(`document.querySelectorAll("[data-id=gift]").length > 0 && document.readyState === "complete"`)
		p.Screenshot("console-" + theme)
	}
}

// Every page: without a complaint of the browser, accessible, small.
func TestPages(t *testing.T) {
	t.Parallel()
	all := maps.Clone(looks)
	if withPictures() {
		maps.Copy(all, furtherLooks)
	}
	for _, page := range append(signedOut, pages...) {
		path := resolve(t, page.path)
		for name, look := range all {
			t.Run(page.name+"/"+name, func(t *testing.T) {
				look.SignedOut = slices.Contains(signedOut, page)
				p := browser.Open(t, path, look)
				most := int64(maxBytes)
				if strings.HasSuffix(page.name, "canvas") || page.name == "edit-text" {
					most = maxEditor
				}
				if page.name == "edit-node-canvas" {
					most = maxBoth
					p.Shows(".wp-code .cm-content") // which is loaded by itself
				}
				p.Until(`!document.querySelector("[aria-busy=true]")`) // which is pale
				if n := p.Bytes(); n > most {
					t.Errorf("%d bytes were loaded", n)
				}
				if browser.Eval[bool](p, `document.documentElement.scrollWidth > document.documentElement.clientWidth`) {
					t.Error("the page is wider than the window")
				}
				if cut := browser.Eval[string](p, `[...document.querySelectorAll("dialog")].filter((dialog) => {
					dialog.showModal();
					const wide = dialog.scrollWidth > dialog.clientWidth;
					dialog.close();
					return wide;
				}).map((dialog) => dialog.id).join(" ")`); cut != "" {
					t.Errorf("dialogs are wider than they can be: %s", cut)
				}
				p.Accessible()
				p.Screenshot(page.name + "-" + name)
			})
		}
	}
}
