package console

import (
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waypost"
)

// findUser sets the user of the session, and ends a session whose user was disabled or reset.
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
	if v.lacksFactor(u) {
		if !u.SecondFactor.Any() {
			return v.sessions.Destroy(ctx) // a session alone sets up no second factor
		}
		return v.suspend(u, firstStep{By: v.sessions.GetString(ctx, "by")}, "/")
	}
	v.user = u
	return v.prolong()
}

// begin signs a user in. The session gets a new token and loses what it held, so that a session that
// somebody else has put into the browser is of no use (session fixation). sid is the issuer's id of
// its session, "" without one.
func (v *visit) begin(u waypost.User, by, sid string) error {
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
	v.sessions.Put(ctx, "by", by)
	v.knowDevice(u.Email)
	v.sessions.Put(ctx, "sid", sid)
	if last := v.lastOf(by); last < sessionIdle {
		v.sessions.SetDeadline(ctx, time.Now().Add(last))
	}
	v.log = append(v.log, slog.String("signedIn", u.ID), slog.String("by", by))
	return v.noteSession(u)
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
	pending, err := v.pending()
	if err != nil {
		return err
	}
	if pending.ID != "" {
		if back != "/" {
			v.keepBack(pending, back)
		}
		return v.redirect(secondStepPath, nil)
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

// Tries that may follow each other at once: of a user's password, by strangers or from a known
// device, and of all users from one address. The next ones wait longer and longer (limits.Attempts).
const (
	freeTries        = 5
	freeAddressTries = 20
)

// tries are what a try of a user's password is counted by: at a known device by that alone.
type tries struct {
	address string // "" at a known device
	user    string
}

func (v *visit) triesOf(email, device string) tries {
	if device != "" {
		return tries{user: "device " + v.Org + " " + device + " " + email}
	}
	return tries{"address " + v.address(), "user " + v.Org + " " + email}
}

// countTry counts a try of a password, by the address first: who may not try leaves no key of a user
// that was invented. If it may not be made yet, the text says how long to wait.
func (v *visit) countTry(by tries) (wait string, err error) {
	if by.address != "" {
		if wait, err = v.mayTry(by.address, freeAddressTries); err != nil || wait != "" {
			return wait, err
		}
	}
	if wait, err = v.mayTry(by.user, freeTries); err != nil || wait == "" {
		return "", err
	}
	return wait, v.undoAddress(by)
}

// undoAddress takes a try of the address back, which was no guess. The ones before it still count: else
// a sign-in to an account of one's own would allow more guesses of other people's passwords.
func (v *visit) undoAddress(by tries) error {
	if by.address == "" {
		return nil
	}
	if err := v.Attempts.Undo(v.r.Context(), by.address); err != nil {
		return away{err}
	}
	return nil
}

// failed records a sign-in that failed, of a user or of an address that no user has. One of no user and
// without a limit of tries is limited here by the client's address: beyond that nothing is recorded.
func (v *visit) failed(userID, reason string) error {
	ctx := v.r.Context()
	if userID == "" && reason != waypost.FailedPassword && reason != waypost.FailedDisabled && reason != waypost.FailedSecondFactor {
		wait, err := v.Attempts.Try(ctx, "failed "+v.address(), freeAddressTries)
		if err != nil {
			return away{err}
		}
		if wait > 0 {
			return nil
		}
	}
	return v.Users.RecordFailedSignIn(ctx, v.by(), userID, reason)
}

// mayTry counts a try of a key. If another one may not be made yet, it returns a text that says how
// long to wait.
func (v *visit) mayTry(key string, free int) (wait string, err error) {
	left, err := v.Attempts.Try(v.r.Context(), key, free)
	if err != nil {
		return "", away{err}
	}
	if left <= 0 {
		return "", nil
	}
	seconds := int((left + time.Second - 1) / time.Second)
	v.w.Header().Set("Retry-After", strconv.Itoa(seconds))
	v.w.Header().Set("Connection", "close") // who guesses holds no connection beside
	return v.t("signIn.wait", "n", seconds), nil
}

// forgetTries takes back all tries of a key.
func (v *visit) forgetTries(key string) error {
	if err := v.Attempts.Forget(v.r.Context(), key); err != nil {
		return away{err}
	}
	return nil
}

// signInByPassword takes the form of the sign-in. It answers the same, after the same time,
// whether there is such a user or not.
func (v *visit) signInByPassword() error {
	ctx := v.r.Context()
	email, password := waypost.FoldEmail(v.r.PostFormValue("email")), v.r.PostFormValue("password")
	back := localPath(v.r.PostFormValue("back"))
	if len(email) > maxPassword || len(password) > maxPassword {
		return v.renderSignIn("", back, v.t("signIn.wrong"), http.StatusUnauthorized)
	}
	device := v.knownDevice(email)
	by, permits := v.triesOf(email, device), v.passwords.strangers
	if device != "" {
		permits = v.passwords.known
	}
	if wait, err := v.countTry(by); err != nil {
		return err
	} else if wait != "" {
		return v.renderSignIn(email, back, wait, http.StatusTooManyRequests)
	}
	u, err := v.Users.UserByEmail(ctx, email)
	if err != nil && waypost.CodeOf(err) != waypost.CodeNotFound {
		return err
	}
	right, err := v.passwords.matches(ctx, permits, password, u.PasswordHash)
	if err != nil {
		return err
	}
	if !right || u.Disabled {
		reason := waypost.FailedPassword
		if right {
			reason = waypost.FailedDisabled
		}
		if err := v.failed(u.ID, reason); err != nil {
			return err
		}
		return v.renderSignIn(email, back, v.t("signIn.wrong"), http.StatusUnauthorized)
	}
	if err := v.forgetTries(by.user); err != nil {
		return err
	}
	if err := v.undoAddress(by); err != nil {
		return err
	}
	return v.proceed(u, firstStep{By: waypost.SignInByPassword}, back)
}

func (v *visit) signOut() error {
	if err := v.sessions.Destroy(v.r.Context()); err != nil {
		return err
	}
	if v.user.ID != "" {
		if err := v.Users.RecordSignOut(v.r.Context(), v.by(), v.user.ID, waypost.SessionThis); err != nil {
			return err
		}
	}
	return v.redirect("/sign-in", nil)
}
