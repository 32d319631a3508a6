package browser_test

import (
	"os"
	"slices"
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
	{"users", "/users"},
}

// signedOut are the pages for those who have not signed in.
var signedOut = []struct{ name, path string }{
	{"sign-in", "/sign-in"},
}

// maxBytes bounds what a page and all that it loads take on the wire.
const maxBytes = 100 << 10

// Every page, in both languages and themes, at a desk and on a phone: without a complaint of
// the browser, accessible, small.
func TestPages(t *testing.T) {
	t.Parallel()
	for _, page := range append(signedOut, pages...) {
		for name, look := range map[string]browser.Look{
			"en-light": {Language: "en", Theme: "light"}, "zh-dark": {Language: "zh", Theme: "dark"},
			"zh-light": {Language: "zh", Theme: "light"}, "en-dark": {Language: "en", Theme: "dark"},
			"en-light-phone": {Language: "en", Theme: "light", Phone: true}, "zh-dark-phone": {Language: "zh", Theme: "dark", Phone: true},
		} {
			t.Run(page.name+"/"+name, func(t *testing.T) {
				look.SignedOut = slices.Contains(signedOut, page)
				p := browser.Open(t, page.path, look)
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
