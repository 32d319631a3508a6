package browser_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/app"
	"waypost/config"
	"waypost/devstack/browser"
	"waypost/devstack/harness"
	"waypost/devstack/temporal"
)

// address is one of loopback that nobody listens on: a part that is started again has it again.
func address(t *testing.T) string {
	t.Helper()
	l, err := temporal.ListenFree(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return net.JoinHostPort("127.0.0.1", strings.TrimPrefix(l.Addr().String(), "127.0.0.1:"))
}

// Gateway, worker, the console itself and Redis are stopped, one after the other, while pages
// are open and others are opened: all of them say so, and are right again by themselves once
// the part is back.
func TestPartsAway(t *testing.T) {
	t.Parallel()
	browser.API(t) // skips where there is no Chromium
	f := harness.StartApart(t, 0, 0)
	at := address(t)
	startGateway := func() *harness.Process { return f.Start(t, config.RoleGateway, "WAYPOST_HTTP_ADDR="+at) }
	gateway, worker := startGateway(), f.Start(t, config.RoleWorker)
	consoleAt := address(t)
	startConsole := func() *harness.Process {
		return f.Start(t, config.RoleConsole, "WAYPOST_CONSOLE_ADDR="+consoleAt, "WAYPOST_CONSOLE_GATEWAY_URL=http://"+at,
			"WAYPOST_CONSOLE_ACCESS_KEY="+f.Base.Profile.AccessKey, "WAYPOST_CONSOLE_SECRET_KEY="+f.Base.Profile.SecretKey)
	}
	console := startConsole()
	site := browser.SignIn(t, "http://"+consoleAt, newUser(t, f))

	var journey struct{ ID string }
	gateway.Do(t, http.MethodPost, "/v1/journeys", browser.Object{"name": "Goes on", "start": "rest", "nodes": []browser.Object{{"id": "rest", "type": "delay", "for": "72h", "next": "end"}, exit}}, &journey)
	gateway.Do(t, http.MethodPost, "/v1/journeys/"+journey.ID+"/publish", nil, nil)
	path := "/journeys/" + journey.ID
	const (
		offline = `!document.querySelector("[data-offline]").hidden`
		online  = `document.querySelector("[data-offline]")?.hidden`
		// tries has the page of an error try again by itself.
		tries = `document.querySelector("[data-retry] [role=status]")`
	)

	p := browser.OpenAt(t, site, path, browser.Look{})
	gateway.Kill9(t)
	p.Until(offline)
	q := browser.OpenAt(t, site, "/deliveries", browser.Look{})
	shows(t, q, "h1", "Waypost does not answer")
	q.Until(tries)
	q.Accessible()
	q.Screenshot("away-gateway-en-light")
	gateway = startGateway()
	p.Until(online)
	q.Until(`document.querySelector("#deliveries") && !document.querySelector("[data-retry]")`)
	for _, page := range []*browser.Page{p, q} {
		page.Allow("503")
		page.Close()
	}

	worker.Kill9(t)
	accepted := time.Now()
	gateway.Enroll(t, journey.ID, 1)
	harness.Eventually(t, time.Minute, func() (bool, string) { return time.Since(accepted) > 20*time.Second, "time passes" }) // a page says so after 30 s
	p = browser.OpenAt(t, site, path, browser.Look{Phone: true})
	p.Until(`document.querySelector("#stalled .note")?.textContent.includes("Work has been waiting since")`)
	p.Accessible()
	q = browser.OpenAt(t, site, "/", browser.Look{Language: "zh"})
	shows(t, q, "#overview .note", "恢复后会自动继续")
	f.Start(t, config.RoleWorker)
	p.Until(`!document.querySelector("#stalled .note") && document.querySelector("#numbers .accent dd").textContent === "1"`)
	q.Until(`!document.querySelector("#overview .note")`)
	p.Close()
	q.Close()

	p = browser.OpenAt(t, site, path, browser.Look{Phone: true})
	console.Kill9(t)
	p.Until(offline + ` && getComputedStyle(document.querySelector("[data-offline] span")).display !== "none"`)
	startConsole()
	p.Until(online)
	p.Allow("ERR_CONNECTION_REFUSED")
	p.Close()

	p = browser.OpenAt(t, site, path, browser.Look{})
	f.Redis.Stop(t)
	p.Until(offline)
	q = browser.OpenAt(t, site, "/deliveries", browser.Look{Language: "zh", Theme: "dark"})
	shows(t, q, "main", "暂时无法验证登录状态")
	q.Until(tries)
	q.Accessible()
	q.Screenshot("away-redis-zh-dark")
	f.Redis.Start(t) // without the sessions
	p.Until(`location.pathname === "/sign-in" && new URLSearchParams(location.search).get("back") === "` + path + `"`)
	q.Until(`location.pathname === "/sign-in"`)
	p.Allow("503")
	q.Allow("503")
	p = browser.OpenAt(t, browser.SignIn(t, site.URL, newUser(t, f)), path, browser.Look{})
	p.Shows("#numbers")
}

// newUser is the token of a sign-in link of an administrator.
func newUser(t *testing.T, f *harness.Fleet) (token string) {
	t.Helper()
	cfg, _, err := config.Load(config.RoleUsers, f.Env)
	if err != nil {
		t.Fatal(err)
	}
	db, err := app.OpenStore(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	u := waypost.User{Org: "demo", Email: strings.ToLower(waypost.NewID("u", time.Now())) + "@example.com", Name: "Ada", Role: waypost.RoleAdmin}
	if _, token, err = db.CreateUser(t.Context(), waypost.Scope{}, u); err != nil {
		t.Fatal(err)
	}
	return token
}
