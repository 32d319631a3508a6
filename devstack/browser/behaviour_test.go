package browser_test

import (
	"testing"

	"github.com/chromedp/chromedp"

	"waypost/devstack/browser"
)

// A chosen filter is in the URL, and the list shows what matches.
func TestFilters(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, "/deliveries", browser.Look{})
	p.Click(".several > summary")
	p.Click(`input[name="status"][value="failed"]`)
	p.Click(".filter-actions button")
	p.Until(`location.search === "?status=failed" && document.readyState === "complete"`)
	if got := browser.Eval[[]string](p, `[...new Set([...document.querySelectorAll("tbody .badge")].map((b) => b.textContent))]`); len(got) != 1 || got[0] != "Failed" {
		t.Errorf("the list has %q", got)
	}
}

// More rows are added to the table, all of them once.
func TestMore(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, "/deliveries", browser.Look{})
	rows := `document.querySelectorAll("tbody > tr").length`
	before := browser.Eval[int](p, rows)
	p.Click("[data-more]")
	p.Until(rows + " > " + "50")
	if got := browser.Eval[int](p, `new Set([...document.querySelectorAll('tbody a[href^="/deliveries/msg_"]')].map((a) => a.href)).size`); got <= before || got != browser.Eval[int](p, rows) {
		t.Errorf("%d ids in %d rows, %d before", got, browser.Eval[int](p, rows), before)
	}
	if browser.Eval[bool](p, `document.querySelector("#deliveries").hasAttribute("data-live")`) {
		t.Error("the list is still live, and would lose the rows")
	}
}

// A live part is replaced when the page has changed, and only then; the page itself stays.
func TestLive(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, "/deliveries?leadsId=2", browser.Look{})
	p.Script(`(window.stays = true, window.lives = 0, document.addEventListener("live", () => window.lives++))`)
	before := browser.Eval[int](p, `document.querySelectorAll("tbody > tr").length`)
	browser.Enroll(t, 2)
	p.Until(`window.stays && window.lives > 0`)
	if after := browser.Eval[int](p, `document.querySelectorAll("tbody > tr").length`); after <= before {
		t.Errorf("%d rows, before %d", after, before)
	}
}

// Menus and dialogs work by keyboard alone.
func TestKeyboard(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, "/deliveries", browser.Look{})
	focused := `document.activeElement.textContent.trim()`
	p.Keys("\t")
	if got := browser.Eval[string](p, focused); got != "Skip to the content" {
		t.Errorf("first is %q", got)
	}
	p.Keys("\r")
	p.Until(`location.hash === "#main" && document.activeElement.id === "main"`)
	p.Script(`document.querySelector("details.stage > summary").focus()`)
	p.Keys("\r")
	p.Until(`document.querySelector("details.stage").open`)
	p.Keys("\x1b")
	p.Until(`!document.querySelector("details.stage").open && document.activeElement.tagName === "SUMMARY"`)
}

// Another language and stage hold from the next page on.
func TestMenus(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, "/deliveries?status=failed", browser.Look{})
	p.Click("summary[aria-label='Language and theme']")
	p.Click("button[name=language][value=zh]")
	p.Until(`document.documentElement.lang === "zh-CN" && location.search === "?status=failed"`)
	p.Click("details.stage > summary")
	p.Click("button[name=stage][value=test]")
	p.Until(`document.documentElement.dataset.stage === "test"`)
	if got := p.Text(".empty h2"); got != "没有符合条件的投递" {
		t.Errorf("the empty stage says %q", got)
	}
	p.Accessible()
	p.Screenshot("stage-test-zh-light")
}

// A time is written in the zone of the browser, also where the server has thought otherwise.
func TestTimes(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, "/deliveries", browser.Look{})
	shown := `document.querySelector("time").textContent`
	server := browser.Eval[string](p, shown)
	p.Do(chromedp.Func(browser.ForgetCookie("zone")), chromedp.Reload())
	p.Until(`document.documentElement.dataset.zone === "UTC" && document.cookie.includes("waypost-zone=Asia%2FShanghai")`)
	if got := browser.Eval[string](p, shown); got != server {
		t.Errorf("the browser writes %q, the server %q", got, server)
	}
}

// An administrator adds a user, and asks for confirmation before they take it away.
func TestUsers(t *testing.T) {
	t.Parallel()
	p := browser.Open(t, "/users", browser.Look{})
	p.Fill("#field-name", "Grace Hopper")
	p.Fill("#field-email", "grace@example.com")
	p.Click("#new .button.primary")
	p.Shows(".code.link")
	p.Accessible()
	p.Visit("/users")
	row := `[...document.querySelectorAll("tr")].find((r) => r.textContent.includes("grace@example.com"))`
	p.Script(row + `.querySelector("[data-dialog^=disable]").click()`)
	p.Shows("dialog[open]")
	p.Accessible()
	p.Screenshot("users-confirm-en-light")
	p.Click("dialog[open] [data-close]")
	p.Until(`!document.querySelector("dialog[open]")`)
	p.Script(row + `.querySelector("[data-dialog^=disable]").click()`)
	p.Click("dialog[open] .danger")
	p.Until(`document.querySelector(".note.ok")?.textContent.includes("Grace Hopper cannot sign in any more.")`)
}

// A page that was never seen before is painted. When is told with -v.
func TestFirstPaint(t *testing.T) {
	p := browser.Open(t, "/deliveries", browser.Look{})
	paints := `performance.getEntriesByName("first-contentful-paint")`
	p.Until(paints + `.length > 0`) // the page can be complete before its first frame
	t.Logf("first contentful paint after %.0f ms", browser.Eval[float64](p, paints+`[0].startTime`))
}
