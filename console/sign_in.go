package console

import (
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"waypost"
)

// findUser sets the user of the session. One whose user was disabled or reset is over.
func (v *visit) findUser() error {
	ctx := v.r.Context()
	id := v.sessions.GetString(ctx, "user")
	if id == "" {
		return nil
	}
	u, err := v.Users.User(ctx, id)
	if waypost.CodeOf(err) == waypost.CodeNotFound || err == nil && (u.Disabled || u.Sessions != v.sessions.GetInt(ctx, "sessions")) {
		return v.sessions.Destroy(ctx)
	}
	if err != nil {
		return err
	}
	v.user = u
	end := time.Now().Add(sessionIdle)
	if last := time.Unix(v.sessions.GetInt64(ctx, "began"), 0).Add(sessionTime); last.Before(end) {
		end = last
	}
	if end.Sub(v.sessions.Deadline(ctx)) > sessionStep {
		v.sessions.SetDeadline(ctx, end)
	}
	return nil
}

// begin signs a user in. The session gets a new token, so that one which somebody else has
// prepared is worth nothing, and nothing of what it held.
func (v *visit) begin(u waypost.User, by string) error {
	ctx := v.r.Context()
	if err := v.sessions.Clear(ctx); err != nil {
		return err
	}
	if err := v.sessions.RenewToken(ctx); err != nil {
		return err
	}
	v.sessions.Put(ctx, "user", u.ID)
	v.sessions.Put(ctx, "sessions", u.Sessions)
	v.sessions.Put(ctx, "began", time.Now().Unix())
	v.log = append(v.log, slog.String("signedIn", u.ID), slog.String("by", by))
	return nil
}

// askToSignIn leads to the sign-in, and from there back to a page that was asked for.
func (v *visit) askToSignIn() {
	query := url.Values{}
	if back := v.r.URL.RequestURI(); v.r.Method == http.MethodGet && back != "/" {
		query.Set("back", back)
	}
	_ = v.redirect("/sign-in", query)
}

// signInPage is the data of the sign-in.
type signInPage struct {
	Email, Password field
	Back            string
	OIDC            bool // people can sign in at an issuer
	Fault           string
}

func (v *visit) signIn() error {
	back := localPath(v.r.URL.Query().Get("back"))
	if v.user.ID != "" {
		return v.redirect(back, nil)
	}
	return v.renderSignIn("", back, "", http.StatusOK)
}

func (v *visit) renderSignIn(email, back, fault string, status int) error {
	return v.render(page{Name: "sign_in", Title: v.t("signIn.title"), Status: status, Data: signInPage{
		Email:    field{Name: "email", Type: "email", Label: v.t("signIn.email"), Value: email, Required: true, Complete: "username"},
		Password: field{Name: "password", Type: "password", Label: v.t("signIn.password"), Required: true, Complete: "current-password"},
		Back:     back, OIDC: v.issuer != nil, Fault: fault,
	}})
}

// Tries that may follow each other at once: of a user's password, and of all users from one
// address. The next ones wait longer and longer (limits.Attempts).
const (
	freeTries        = 5
	freeAddressTries = 20
)

// signInByPassword takes the form of the sign-in. It answers the same, after the same time,
// whether there is such a user or not.
func (v *visit) signInByPassword() error {
	ctx := v.r.Context()
	email, password := strings.ToLower(strings.TrimSpace(v.r.PostFormValue("email"))), v.r.PostFormValue("password")
	back := localPath(v.r.PostFormValue("back"))
	if len(email) > maxPassword || len(password) > maxPassword {
		return v.renderSignIn("", back, v.t("signIn.wrong"), http.StatusUnauthorized)
	}
	for _, try := range []struct {
		key  string
		free int
	}{{"address " + v.address(), freeAddressTries}, {"user " + email, freeTries}} {
		wait, err := v.Attempts.Try(ctx, try.key, try.free)
		if err != nil {
			return away{err}
		}
		if wait > 0 {
			seconds := int((wait + time.Second - 1) / time.Second)
			v.w.Header().Set("Retry-After", strconv.Itoa(seconds))
			return v.renderSignIn(email, back, v.t("signIn.wait", "n", seconds), http.StatusTooManyRequests)
		}
	}
	u, err := v.Users.UserByEmail(ctx, email)
	if err != nil && waypost.CodeOf(err) != waypost.CodeNotFound {
		return err
	}
	right, err := v.passwords.matches(ctx, password, u.PasswordHash)
	if err != nil {
		return err
	}
	if !right || u.Disabled {
		return v.renderSignIn(email, back, v.t("signIn.wrong"), http.StatusUnauthorized)
	}
	if err := v.Attempts.Forget(ctx, "user "+email); err != nil {
		return away{err}
	}
	// Not forgotten: with an account of their own, nobody guesses more passwords of others.
	if err := v.Attempts.Undo(ctx, "address "+v.address()); err != nil {
		return away{err}
	}
	if err := v.begin(u, "password"); err != nil {
		return err
	}
	return v.redirect(back, nil)
}

func (v *visit) signOut() error {
	if err := v.sessions.Destroy(v.r.Context()); err != nil {
		return err
	}
	return v.redirect("/sign-in", nil)
}
