// Package browser tests the console as people have it: waypost-dev with data that lives, and
// Chromium. One of each serves all tests; every page that a test opens is a tab with cookies
// of its own.
package browser

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"

	"waypost/devstack/datadir"
	"waypost/devstack/harness"
	"waypost/devstack/stack"
	"waypost/limits"
)

// startTime bounds the start of waypost-dev and of Chromium, pageTime what is done with a page,
// storyTime what is done with the one page of a whole story.
const (
	startTime = 2 * time.Minute
	pageTime  = time.Minute
	storyTime = 3 * time.Minute
)

// shared is what all tests of the package use.
type shared struct {
	console string // its address
	profile datadir.Profile
	session *http.Cookie
	browser context.Context
	stop    []func()
}

var (
	start   = sync.OnceValues(begin)
	started bool
)

// Main runs the tests and stops what they have started. It is what TestMain calls.
func Main(m *testing.M) int {
	code := m.Run()
	if started {
		if s, _ := start(); s != nil {
			for i := len(s.stop) - 1; i >= 0; i-- {
				s.stop[i]()
			}
		}
	}
	return code
}

// chromium is the program; "" if it is not installed.
func chromium() string {
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	return ""
}

// begin starts one waypost-dev with data, and one browser, for all tests of the package. What has been
// started is to be stopped after an error, too.
func begin() (*shared, error) {
	started = true
	limits.CallTime = time.Minute // a machine that stands still is no outage
	ctx, cancel := context.WithTimeout(context.Background(), startTime)
	defer cancel()
	s := &shared{}
	dir, err := os.MkdirTemp("", "waypost-browser-")
	if err != nil {
		return nil, err
	}
	s.stop = append(s.stop, func() { _ = os.RemoveAll(dir) })
	dev, err := startDev(ctx, dir, io.Discard)
	if err != nil {
		return s, err
	}
	s.stop = append(s.stop, func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTime)
		defer cancel()
		_ = dev.Stop(ctx) // the tests are over
	})
	s.console, s.profile = dev.Profile.Console, dev.Profile
	if err := enliven(ctx, dev.Profile); err != nil {
		return s, fmt.Errorf("make data: %w", err)
	}
	if s.session, err = signIn(ctx, s.console, dev.SignIn); err != nil {
		return s, fmt.Errorf("sign in: %w", err)
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(chromium()), chromedp.NoSandbox, chromedp.Flag("headless", "new"),
		chromedp.Flag("force-color-profile", "srgb"))
	allocator, stopAllocator := chromedp.NewExecAllocator(context.Background(), options...)
	browser, stopBrowser := chromedp.NewContext(allocator)
	s.stop = append(s.stop, stopAllocator, stopBrowser)
	s.browser = browser
	return s, chromedp.Do(browser)
}

// startDev starts waypost-dev on free ports.
func startDev(ctx context.Context, dir string, out io.Writer) (*stack.Stack, error) {
	return stack.Start(ctx, stack.Options{Environ: harness.FreePorts(dir), Out: out, ErrOut: os.Stderr})
}

// StartNew starts a waypost-dev of the test's own, as somebody has it who has just begun, and
// opens the sign-in link that it prints.
func StartNew(t *testing.T) (*Page, Gateway) {
	t.Helper()
	begun(t) // skips where there is no Chromium
	ctx, cancel := context.WithTimeout(t.Context(), startTime)
	defer cancel()
	var printed bytes.Buffer
	dev, err := startDev(ctx, t.TempDir(), &printed)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), startTime)
		defer cancel()
		if err := dev.Stop(ctx); err != nil {
			t.Error(err)
		}
	})
	site := Site{URL: dev.Profile.Console}
	link := regexp.MustCompile(regexp.QuoteMeta(site.URL) + `(/sign-in/link\S+)`).FindStringSubmatch(printed.String())
	if link == nil {
		t.Fatalf("no sign-in link is printed:\n%s", printed.String())
	}
	return open(t, site, link[1], Look{SignedOut: true}, storyTime), gatewayOf(t, dev.Profile)
}

// signIn uses a sign-in link and returns the cookie of the session.
func signIn(ctx context.Context, console, token string) (*http.Cookie, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	form := url.Values{"token": {token}}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, console+"/sign-in/link", strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	res, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	res.Body.Close()
	at, _ := url.Parse(console) // it was one
	for _, c := range jar.Cookies(at) {
		if strings.HasPrefix(c.Name, "waypost-session-") && res.StatusCode == http.StatusOK {
			return c, nil
		}
	}
	return nil, fmt.Errorf("HTTP %d, and no session", res.StatusCode)
}

// Find is the address of the first link of a page that begins with a prefix. It asks for the
// page without a browser.
func Find(t *testing.T, path, prefix string) string {
	t.Helper()
	s := begun(t)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.console+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.AddCookie(s.session)
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`href="(` + regexp.QuoteMeta(prefix) + `[^"?#]*)`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("%s has no link to %s…", path, prefix)
	}
	return string(found[1])
}

// begun is what all tests use. Without Chromium the test is skipped, or fails if
// WAYPOST_TEST_REQUIRE_SERVERS says so.
func begun(t *testing.T) *shared {
	t.Helper()
	if chromium() == "" {
		if os.Getenv("WAYPOST_TEST_REQUIRE_SERVERS") == "1" {
			t.Fatal("WAYPOST_TEST_REQUIRE_SERVERS=1, but chromium is not installed")
		}
		t.Skip("chromium is not installed")
	}
	s, err := start()
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Look is how a page is looked at. The zero value is English, light, at a desk.
type Look struct {
	Language, Theme string
	Phone           bool
	SignedOut       bool
}

// Page is a page of the console in a tab. Do its actions with Run.
type Page struct {
	t      *testing.T
	site   Site
	ctx    context.Context
	mu     sync.Mutex
	faults []string
	bytes  int64 // that came over the network
	close  func()
}

// Open opens a page, signed in as an administrator. The test fails at its end for what the
// browser has complained about: exceptions, errors on its console, violations of the
// Content-Security-Policy, answers of 400 and above.
func Open(t *testing.T, path string, look Look) *Page {
	t.Helper()
	s := begun(t)
	return open(t, Site{s.console, s.session}, path, look, pageTime)
}

// Site is a console that a test has started, and who is signed in there.
type Site struct {
	URL     string // without a slash at its end
	session *http.Cookie
}

// SignIn signs in at a console by a link's token.
func SignIn(t *testing.T, url, token string) Site {
	t.Helper()
	session, err := signIn(t.Context(), url, token)
	if err != nil {
		t.Fatal(err)
	}
	return Site{url, session}
}

// OpenStory is Open for a test that is one person's way over many pages.
func OpenStory(t *testing.T, path string) *Page {
	t.Helper()
	s := begun(t)
	return open(t, Site{s.console, s.session}, path, Look{}, storyTime)
}

// OpenAt is Open for another console than that of the shared waypost-dev.
func OpenAt(t *testing.T, site Site, path string, look Look) *Page {
	t.Helper()
	return open(t, site, path, look, pageTime)
}

func open(t *testing.T, site Site, path string, look Look, most time.Duration) *Page {
	t.Helper()
	s := begun(t)
	tab, closeTab := chromedp.NewContext(s.browser, chromedp.WithNewBrowserContext())
	ctx, cancel := context.WithTimeout(tab, most)
	p := &Page{t: t, site: site, ctx: ctx}
	p.close = sync.OnceFunc(func() {
		cancel()
		closeTab()
	})
	t.Cleanup(func() {
		p.close()
		p.mu.Lock()
		defer p.mu.Unlock()
		for _, fault := range p.faults {
			t.Errorf("%s: the browser says: %s", path, fault)
		}
	})
	if err := chromedp.Listen(tab, p.listen); err != nil {
		t.Fatal(err)
	}
	p.Do(p.prepare(site, look), view(look), chromedp.Navigate(site.URL+path))
	return p
}

// prepare sets the cookies of the tab and its time zone, and has it keep the focus: that of
// another test's tab would close menus and lists.
func (p *Page) prepare(s Site, look Look) chromedp.Action[chromedp.Void] {
	return chromedp.Func(func(ctx context.Context, tab *chromedp.Target) error {
		values := map[string]string{"language": or(look.Language, "en"), "theme": or(look.Theme, "light"), "zone": "Asia/Shanghai"}
		if !look.SignedOut {
			values[strings.TrimPrefix(s.session.Name, "waypost-")] = s.session.Value
		}
		for name, value := range values {
			set := network.SetCookieParams{Name: "waypost-" + name, Value: url.QueryEscape(value), URL: s.URL}
			if _, err := cdp.Call(ctx, tab, network.SetCookie, set); err != nil {
				return err
			}
		}
		if _, err := cdp.Call(ctx, tab, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
			return err
		}
		_, err := cdp.Call(ctx, tab, emulation.SetTimezoneOverride, emulation.SetTimezoneOverrideParams{TimezoneID: "Asia/Shanghai"})
		return err
	})
}

func or(value, other string) string {
	if value == "" {
		return other
	}
	return value
}

func view(look Look) chromedp.Action[chromedp.Void] {
	if look.Phone {
		return chromedp.EmulateViewport(390, 844, chromedp.EmulateScale(2), chromedp.EmulateMobile)
	}
	return chromedp.EmulateViewport(1280, 800)
}

// listen collects what the browser complains about.
func (p *Page) listen(event any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch e := event.(type) {
	case *runtime.EventExceptionThrown:
		fault := e.ExceptionDetails.Text
		if thrown := e.ExceptionDetails.Exception; thrown != nil {
			fault += " " + thrown.Description
		}
		p.faults = append(p.faults, fault)
	case *runtime.EventConsoleAPICalled:
		if e.Type == runtime.ConsoleAPICalledTypeError || e.Type == runtime.ConsoleAPICalledTypeWarning || e.Type == runtime.ConsoleAPICalledTypeAssert {
			var says []string
			for _, arg := range e.Args {
				says = append(says, string(arg.Value))
			}
			p.faults = append(p.faults, strings.Join(says, " "))
		}
	case *log.EventEntryAdded:
		if e.Entry.Level == log.EntryLevelError || e.Entry.Level == log.EntryLevelWarning {
			p.faults = append(p.faults, string(e.Entry.Source)+": "+e.Entry.Text+" "+e.Entry.URL)
		}
	case *network.EventLoadingFinished:
		p.bytes += int64(e.EncodedDataLength)
	}
}

// Allow forgets complaints that contain a text, and fails if there are none: the test meant
// to cause them.
func (p *Page) Allow(text string) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	kept := p.faults[:0]
	for _, fault := range p.faults {
		if !strings.Contains(fault, text) {
			kept = append(kept, fault)
		}
	}
	if len(kept) == len(p.faults) {
		p.t.Errorf("the browser did not complain about %q", text)
	}
	p.faults = kept
}

// Close closes the tab before the test ends.
func (p *Page) Close() { p.close() }

// Do runs actions on the page (package chromedp) that return nothing, such as
// chromedp.Click(chromedp.CSS("…")) or chromedp.WaitVisible.
func (p *Page) Do(actions ...chromedp.Action[chromedp.Void]) {
	p.t.Helper()
	if err := chromedp.Do(p.ctx, actions...); err != nil {
		p.t.Fatal(err)
	}
}

// Get runs an action on a page that returns something, such as chromedp.Text.
func Get[T any](p *Page, action chromedp.Action[T]) T {
	p.t.Helper()
	value, err := chromedp.Run(p.ctx, action)
	if err != nil {
		p.t.Fatal(err)
	}
	return value
}

// Eval is the value of a JavaScript expression, or of what it promises.
func Eval[T any](p *Page, script string) T {
	p.t.Helper()
	return Get(p, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))
}

// Script runs JavaScript statements.
func (p *Page) Script(script string) {
	p.t.Helper()
	Eval[bool](p, script+";true")
}

// Until waits until a JavaScript expression is true, also over other pages: what throws, or
// is asked of a page that goes away, is not true.
func (p *Page) Until(script string) {
	p.t.Helper()
	var last error
	for {
		is, err := chromedp.Run(p.ctx, chromedp.Evaluate[bool]("Boolean("+script+")"))
		switch {
		case is:
			return
		case p.ctx.Err() != nil:
			p.t.Fatalf("%s: not until %s (%v)", p.ctx.Err(), script, last)
		case err != nil:
			last = err
		}
		time.Sleep(20 * time.Millisecond) // between two looks
	}
}

// Shows waits until the first element of a CSS selector can be seen.
func (p *Page) Shows(selector string) {
	p.t.Helper()
	p.Until(fmt.Sprintf("document.querySelector(%q).checkVisibility({visibilityProperty: true})", selector))
}

// Click waits until the page is loaded, with its scripts, and the first element of a CSS selector
// can be seen with nothing over its middle, and clicks it. All of that is one script, so a part
// of the page that is replaced meanwhile cannot come between the looking and the click.
func (p *Page) Click(selector string) {
	p.t.Helper()
	p.Until(fmt.Sprintf(`(() => {
		const element = document.querySelector(%q);
		if (document.readyState !== "complete" || !element.checkVisibility({visibilityProperty: true}) || element.disabled) return false;
		element.scrollIntoView({block: "center", behavior: "instant"});
		const box = element.getClientRects()[0];
		const top = document.elementFromPoint(box.x + box.width / 2, box.y + box.height / 2);
		if (![element, ...element.labels ?? []].some((e) => e.contains(top))) return false;
		element.click();
		return true;
	})()`, selector))
}

// Fill waits until the page is loaded, and gives a field a value.
func (p *Page) Fill(selector, value string) {
	p.t.Helper()
	p.Until(fmt.Sprintf(`(() => {
		const field = document.querySelector(%q);
		if (document.readyState !== "complete") return false;
		field.value = %q;
		return field.dispatchEvent(new Event("input", {bubbles: true}));
	})()`, selector, value))
}

// Visit opens a path of the console in the same tab.
func (p *Page) Visit(path string) {
	p.t.Helper()
	p.Do(chromedp.Navigate(p.URL(path)))
}

// Keys presses keys, as chromedp writes them.
func (p *Page) Keys(keys string) {
	p.t.Helper()
	p.Do(chromedp.KeyEvent(keys))
}

// URL is the address of a path of the console.
func (p *Page) URL(path string) string { return p.site.URL + path }

// ForgetCookie deletes a cookie of the console.
func ForgetCookie(name string) func(context.Context, *chromedp.Target) error {
	return func(ctx context.Context, tab *chromedp.Target) error {
		s, _ := start() // it has started
		_, err := cdp.Call(ctx, tab, network.DeleteCookies, network.DeleteCookiesParams{Name: "waypost-" + name, URL: s.console})
		return err
	}
}

// Text waits for the first element of a CSS selector, and is its text.
func (p *Page) Text(selector string) string {
	p.t.Helper()
	p.Shows(selector)
	return Eval[string](p, fmt.Sprintf("document.querySelector(%q).innerText", selector))
}

// Bytes is how much came over the network until now, as it came: compressed.
func (p *Page) Bytes() int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.bytes
}

//go:embed axe/axe.js
var axe string

// Accessible fails the test for what axe-core finds against WCAG 2.2 AA and its best practices,
// but for the rules that are named.
func (p *Page) Accessible(but ...string) {
	p.t.Helper()
	type violation struct {
		ID    string `json:"id"`
		Help  string `json:"help"`
		Nodes []struct {
			HTML           string `json:"html"`
			FailureSummary string `json:"failureSummary"`
			Beside         string `json:"beside"`
		} `json:"nodes"`
	}
	p.Script(axe + "\n")
	// What sticks to the window covers whatever happens to be below it, until that is scrolled.
	stick := func(position string) {
		p.Script(`for (const bar of document.querySelectorAll(".submit, .sticky")) bar.style.position = "` + position + `"`)
	}
	stick("static")
	defer stick("")
	found := Eval[[]violation](p, `axe.run(document, {runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"], resultTypes: ["violations"]})
		.then(({violations}) => {
			for (const v of violations) for (const n of v.nodes) n.beside = n.any.flatMap((check) => check.relatedNodes).map((other) => other.html).join("\n");
			return violations;
		})`)
	for _, v := range found {
		if slices.Contains(but, v.ID) {
			continue
		}
		for _, n := range v.Nodes {
			p.t.Errorf("axe: %s (%s)\n%s\n%s\n%s", v.Help, v.ID, n.HTML, n.FailureSummary, n.Beside)
		}
	}
}

// Screenshot writes what the window shows to NAME.png in the folder that WAYPOST_TEST_SCREENSHOTS
// names; without it, nothing.
func (p *Page) Screenshot(name string) {
	p.t.Helper()
	dir := os.Getenv("WAYPOST_TEST_SCREENSHOTS")
	if dir == "" {
		return
	}
	png := Get(p, chromedp.CaptureScreenshot())
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, name+".png"), png, 0o644)
	}
	if err != nil {
		p.t.Fatal(err)
	}
}
