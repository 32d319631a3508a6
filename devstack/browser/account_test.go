package browser_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/webauthn"
	"github.com/chromedp/chromedp"
	"github.com/pquerna/otp/totp"

	"waypost/config"
	"waypost/devstack/browser"
	"waypost/devstack/harness"
)

const password = "correct horse battery"

// code is the code of an app that is some steps of 30 seconds ahead.
func code(t *testing.T, secret string, steps int) string {
	t.Helper()
	made, err := totp.GenerateCode(strings.ReplaceAll(secret, " ", ""), time.Now().Add(time.Duration(steps)*30*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// signsIn fills the form of the sign-in.
func signsIn(p *browser.Page, email string) {
	p.Visit("/sign-in")
	p.Fill("#field-email", email)
	p.Fill("#field-password", password)
	p.Click("form[action='/sign-in'] button.wide")
}

func signsOut(p *browser.Page) {
	p.Visit("/account")
	p.Script(`document.querySelector("form[action='/sign-out']").requestSubmit()`)
	p.Shows("form[action='/sign-in']")
}

// authenticator adds one to the browser, which has a fingerprint that is always right.
func authenticator(ctx context.Context, tab *chromedp.Target) error {
	if _, err := cdp.Call(ctx, tab, webauthn.Enable, webauthn.EnableParams{}); err != nil {
		return err
	}
	_, err := cdp.Call(ctx, tab, webauthn.AddVirtualAuthenticator, webauthn.AddVirtualAuthenticatorParams{Options: &webauthn.VirtualAuthenticatorOptions{
		Protocol: webauthn.AuthenticatorProtocolCtap2, Transport: webauthn.AuthenticatorTransportInternal,
		HasResidentKey: true, HasUserVerification: true, IsUserVerified: true, AutomaticPresenceSimulation: true,
	}})
	return err
}

// passkey has a new person set up a passkey, sign in with it, and find that the same authenticator makes
// no second one.
func passkey(t *testing.T, site browser.Site, link, name string, look browser.Look) {
	look.SignedOut = true
	p := browser.OpenAt(t, site, "/sign-in/link?token="+link, look)
	p.Do(chromedp.Func(authenticator))
	email := browser.Eval[string](p, `document.querySelector("[name=email]").value`)
	p.Fill("#field-password", password)
	p.Click("button.wide")
	p.Click("form.passkey button")
	p.Shows("#recovery")
	p.Click("#recovery a.primary")
	p.Until(`location.pathname === "/"`)
	signsOut(p)
	signsIn(p, email)
	p.Shows("form.passkey button")
	p.Accessible()
	p.Screenshot("factor-step-passkey-" + name)
	p.Click("form.passkey button")
	p.Until(`location.pathname === "/" && document.querySelector("main h1")`)
	p.Visit("/second-factor")
	p.Fill("#field-password", password)
	p.Click("#prove .button.primary")
	p.Shows("#passkeys .keys li")
	p.Accessible()
	p.Screenshot("factor-passkeys-" + name)
	p.Fill("#field-name", "Another one")
	p.Click("form.passkey button") // the same authenticator makes no second one
	p.Shows("[data-failed]")
}

// An administrator who chooses a password is led to set up an app, keeps the recovery codes, signs in
// with both, and changes the password.
func TestSecondFactor(t *testing.T) {
	t.Parallel()
	browser.API(t) // skips where there is no Chromium
	f := harness.StartFleet(t, 0, 0)
	gatewayAt, at := address(t), address(t)
	f.Start(t, config.RoleGateway, "WAYPOST_HTTP_ADDR="+gatewayAt)
	site := browser.Site{URL: strings.Replace("http://"+at, "127.0.0.1", "localhost", 1)}
	f.Start(t, config.RoleConsole, "WAYPOST_CONSOLE_ADDR="+at, "WAYPOST_CONSOLE_URL="+site.URL,
		"WAYPOST_CONSOLE_GATEWAY_URL=http://"+gatewayAt,
		"WAYPOST_CONSOLE_ACCESS_KEY="+f.Base.Profile.AccessKey, "WAYPOST_CONSOLE_SECRET_KEY="+f.Base.Profile.SecretKey, "WAYPOST_CONSOLE_SECOND_FACTOR=admins")
	for name, look := range looks {
		t.Run("passkey/"+name, func(t *testing.T) { passkey(t, site, newUser(t, f), name, look) })
		t.Run(name, func(t *testing.T) {
			look.SignedOut = true
			p := browser.OpenAt(t, site, "/sign-in/link?token="+newUser(t, f), look)
			seen := func(page, selector string) {
				t.Helper()
				p.Shows(selector)
				p.Accessible()
				p.Screenshot(page + "-" + name)
			}
			email := browser.Eval[string](p, `document.querySelector("[name=email]").value`)
			p.Fill("#field-password", password)
			p.Click("button.wide")
			seen("factor-needed", "a[href='/second-factor/app']")
			p.Click("a[href='/second-factor/app']")
			seen("factor-app", "#secret")
			p.Until(`document.querySelector(".qr img").naturalWidth > 0`)
			secret := p.Text("#secret")
			p.Fill("#field-code", "000000")
			p.Click("#app .button.primary")
			seen("factor-app-wrong", ".fault")
			p.Allow("400")
			p.Fill("#field-code", code(t, secret, -1))
			p.Click("#app .button.primary")
			seen("factor-codes", "#recovery")
			codes := browser.Eval[[]string](p, `[...document.querySelectorAll(".recovery li")].map((li) => li.textContent)`)
			p.Click("#recovery a.primary")
			p.Until(`location.pathname === "/"`)

			signsOut(p)
			signsIn(p, email)
			seen("factor-step", "#code")
			p.Fill("#field-code", code(t, secret, 0))
			p.Click("#code .button.primary")
			p.Until(`location.pathname === "/" && document.querySelector("main h1")`)
			signsOut(p)
			signsIn(p, email)
			p.Fill("#field-code", codes[3])
			p.Click("#code .button.primary")
			p.Shows(".note.ok")
			p.Visit("/account")
			seen("account-factor", "#factor .badge.ok")
			p.Click("#factor a.button")
			seen("factor-prove", "#prove")
			p.Fill("#field-password", password)
			p.Click("#prove .button.primary")
			seen("factor", "#codes")
			p.Click("[data-dialog=remove-app]")
			seen("factor-remove", "dialog[open]")
			p.Click("dialog[open] .danger")
			p.Shows(".note.bad") // the last one of an administrator stays

			p.Visit("/account")
			p.Fill("#field-old", password)
			p.Fill("#field-password", password+"!")
			p.Click("#password .button.primary")
			p.Shows(".note.ok")
		})
	}
}
