package console

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"waypost"
)

// OIDC lets people sign in at an OpenID Connect issuer. The zero value: they cannot.
type OIDC struct {
	Issuer, ClientID, ClientSecret string
	// Roles are the roles that claims give; of several, the one that may do most. A person
	// whom none is given needs to be a user already, to whom no claim has given one.
	Roles []RoleClaim
}

// RoleClaim gives a role to whom the issuer says to have a claim, by itself or in a list.
type RoleClaim struct {
	Claim, Value string
	Role         waypost.Role
}

const (
	// issuerTime bounds one question to the issuer.
	issuerTime = 10 * time.Second
	// issuerVisit is how long somebody may take to sign in there.
	issuerVisit = 15 * time.Minute
	// providerLife is how long the issuer's addresses and keys are believed.
	providerLife = time.Hour
)

// issuer is an OpenID Connect issuer. It is asked when somebody signs in, so that the
// console starts without it.
type issuer struct {
	OIDC
	callback string
	client   *http.Client

	mu       sync.Mutex
	provider *oidc.Provider
	since    time.Time
}

// newIssuer returns nil if people cannot sign in at an issuer.
func newIssuer(o OIDC, url string) *issuer {
	if o.Issuer == "" {
		return nil
	}
	return &issuer{OIDC: o, callback: url + "/sign-in/oidc/callback", client: &http.Client{
		Timeout: issuerTime,
		// A redirect could lead to a server that is not the issuer's.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// find returns the issuer's provider and how to speak to it.
func (i *issuer) find(ctx context.Context) (*oidc.Provider, *oauth2.Config, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.provider == nil || time.Since(i.since) > providerLife {
		// The provider keeps the context for its keys.
		provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), i.client), i.Issuer)
		if err != nil && i.provider == nil {
			return nil, nil, err
		}
		if err == nil {
			i.provider, i.since = provider, time.Now()
		}
	}
	return i.provider, &oauth2.Config{
		ClientID: i.ClientID, ClientSecret: i.ClientSecret, Endpoint: i.provider.Endpoint(), RedirectURL: i.callback,
		Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
	}, nil
}

// goToIssuer sends the browser to the issuer. What it must come back with is in
// cookies: nobody fills Redis before a sign-in.
func (v *visit) goToIssuer() error {
	if v.issuer == nil {
		return v.notFound()
	}
	ctx := v.r.Context()
	_, at, err := v.issuer.find(ctx)
	if err != nil {
		return v.issuerFailed(err)
	}
	state, nonce, verifier := rand.Text(), rand.Text(), oauth2.GenerateVerifier()
	v.setCookie("state", state, issuerVisit)
	v.setCookie("nonce", nonce, issuerVisit)
	v.setCookie("verifier", verifier, issuerVisit)
	v.setCookie("back", localPath(v.r.URL.Query().Get("back")), issuerVisit) // its filters may be about people
	return v.redirect(at.AuthCodeURL(state, oidc.Nonce(nonce), oauth2.S256ChallengeOption(verifier)), nil)
}

// returnFromIssuer takes what the issuer says of a person.
func (v *visit) returnFromIssuer() error {
	if v.issuer == nil {
		return v.notFound()
	}
	ctx := v.r.Context()
	query := v.r.URL.Query()
	state, nonce, verifier := v.take("state"), v.take("nonce"), v.take("verifier")
	back := localPath(v.take("back"))
	if state == "" || subtle.ConstantTimeCompare([]byte(query.Get("state")), []byte(state)) != 1 {
		return v.issuerFailed(errors.New("the state is not the one of this browser"))
	}
	if says := query.Get("error"); says != "" {
		return v.issuerFailed(fmt.Errorf("the issuer says %.200q", says))
	}
	// The state is the browser's own: a stranger can invent codes, and have the issuer asked.
	tries := "issuer " + v.address()
	if wait, err := v.mayTry(tries, freeAddressTries); err != nil {
		return err
	} else if wait != "" {
		return v.renderSignIn("", back, wait, http.StatusTooManyRequests)
	}
	claims, err := v.issuer.claims(ctx, query.Get("code"), nonce, verifier)
	if err != nil {
		return v.issuerFailed(err)
	}
	if err := v.Attempts.Undo(ctx, tries); err != nil {
		return away{err}
	}
	said := v.issuer.said(claims)
	u, refused, err := v.signInByIssuer(ctx, said)
	sid, _ := claims["sid"].(string)
	switch {
	case err != nil:
		return v.issuerFailed(err)
	case refused == waypost.NeedsSecondFactor:
		return v.askSecondFactor(u, firstStep{By: waypost.SignInByIssuer, Said: &said, SID: sid}, back)
	case refused != "":
		if err := v.noteRefused(u, refused); err != nil {
			return err
		}
		return v.redirect("/sign-in", nil)
	}
	if err := v.begin(u, waypost.SignInByIssuer, sid); err != nil {
		return err
	}
	return v.redirect(back, nil)
}

// claims exchanges the code for an ID token and checks that.
func (i *issuer) claims(ctx context.Context, code, nonce, verifier string) (map[string]any, error) {
	provider, at, err := i.find(ctx)
	if err != nil {
		return nil, err
	}
	token, err := at.Exchange(oidc.ClientContext(ctx, i.client), code, oauth2.VerifierOption(verifier))
	if err != nil {
		return nil, fmt.Errorf("exchange the code: %w", err)
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return nil, errors.New("the issuer sends no ID token")
	}
	id, err := provider.Verifier(&oidc.Config{ClientID: i.ClientID}).Verify(ctx, raw)
	if err != nil {
		return nil, err
	}
	if subtle.ConstantTimeCompare([]byte(id.Nonce), []byte(nonce)) != 1 {
		return nil, errors.New("the ID token has another nonce")
	}
	var claims map[string]any
	return claims, id.Claims(&claims)
}

// role is the role that the claims give, "" for none.
func (i *issuer) role(claims map[string]any) (role waypost.Role) {
	for _, rc := range i.Roles {
		values, isList := claims[rc.Claim].([]any)
		if !isList {
			values = []any{claims[rc.Claim]}
		}
		if slices.ContainsFunc(values, func(v any) bool { return fmt.Sprint(v) == rc.Value }) && rc.Role.Reaches(role) {
			role = rc.Role
		}
	}
	return role
}

// said is what the claims say of a person.
func (i *issuer) said(claims map[string]any) waypost.IssuerSignIn {
	text := func(name string) string {
		value, _ := claims[name].(string)
		return value
	}
	s := waypost.IssuerSignIn{Issuer: i.Issuer, Subject: text("sub"), ByClaims: len(i.Roles) > 0, Role: i.role(claims)}
	if verified, _ := claims["email_verified"].(bool); verified {
		s.Email = waypost.FoldEmail(text("email"))
	}
	s.Name = clip(text("name"), s.Email)
	return s
}

// maxSubject bounds the name of an account at the issuer, in bytes, as OpenID Connect does.
const maxSubject = 255

// signInByIssuer signs in whom the issuer knows. Of two first sign-ins of a person at the same time, the
// second one finds the user that the first one has made.
func (v *visit) signInByIssuer(ctx context.Context, said waypost.IssuerSignIn) (u waypost.User, refused string, err error) {
	if said.Subject == "" || len(said.Subject) > maxSubject {
		return u, "", errors.New("the ID token names no account (sub)")
	}
	u, refused, err = v.Users.SignInByIssuer(ctx, v.by(), said)
	if waypost.CodeOf(err) == waypost.CodeConflict {
		u, refused, err = v.Users.SignInByIssuer(ctx, v.by(), said)
	}
	return u, refused, err
}

// clip is a name of at most 100 characters, other if there is none.
func clip(name, other string) string {
	runes := []rune(strings.TrimSpace(name))
	if len(runes) == 0 {
		runes = []rune(other)
	}
	return string(runes[:min(len(runes), 100)])
}

// by is the issuer as the author of what it has changed here.
func (i *issuer) by(v *visit) waypost.Author {
	author := v.by()
	author.Actor = i.Issuer
	return author
}

// issuerFailed leads back to the sign-in, which says that it failed. Why is in the log.
func (v *visit) issuerFailed(err error) error {
	v.log = append(v.log, slog.String("issuer", oneLine(err)))
	if err := v.failed("", waypost.FailedIssuer); err != nil {
		return err
	}
	v.flash("bad", v.t("signIn.issuerFailed"))
	return v.redirect("/sign-in", nil)
}

// noteRefused records that somebody whom the issuer knows is not let in. The sign-in says why.
func (v *visit) noteRefused(u waypost.User, refused string) error {
	v.log = append(v.log, slog.String("issuer", refused), slog.String("changed", u.ID))
	if err := v.failed(u.ID, refused); err != nil {
		return err
	}
	text := v.t("signIn.issuerFailed")
	switch refused {
	case waypost.FailedSubject:
		text = v.t("signIn.otherAccount")
	case waypost.FailedRole:
		text = v.t("signIn.noRole")
	}
	v.flash("bad", text)
	return nil
}

// oneLine is an error as it is logged: answers of an issuer can be long.
func oneLine(err error) string {
	text, _ := json.Marshal(err.Error()) // a string can be encoded
	return string(text[:min(len(text), 300)])
}
