package console

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"time"

	"waypost"
)

// A sign-in is pending between a password or a link and the second factor. Its session holds the
// user's id, and no user is signed in by it.

// pendingTime is how long a sign-in may be pending.
const pendingTime = 10 * time.Minute

const secondStepPath = "/sign-in/second-factor"

// Whom a second factor is asked of (WAYPOST_CONSOLE_SECOND_FACTOR).
const (
	SecondFactorOff    = "off"
	SecondFactorAdmins = "admins"
	SecondFactorAll    = "all"
)

// mustHaveFactor tells whether the setting asks a second factor of a person.
func (c *console) mustHaveFactor(u waypost.User) bool {
	return c.SecondFactor == SecondFactorAll || c.SecondFactor == SecondFactorAdmins && u.Role == waypost.RoleAdmin
}

// firstStep is how a person began to sign in, and what that changes. Nothing of it is stored before the
// sign-in holds: who has no second factor to show changes nothing.
type firstStep struct {
	By string // waypost.SignInByPassword, …
	// Link is the token of a link that is to be taken, and PasswordHash that of the password that was
	// chosen with it, "" for none.
	Link, PasswordHash string
	Said               *waypost.IssuerSignIn // what the issuer says, nil without one
	SID                string                // the issuer's id of its session, "" without one
}

// firstStepPurpose binds the first step of a pending sign-in to its person.
func firstStepPurpose(user string) string { return "first-step/" + user }

// backPurpose binds the page that it leads to to the same person.
func backPurpose(user string) string { return "back/" + user }

// proceed goes on after the first factor: to the second one where there is one or must be one, else
// to the page that was asked for.
func (v *visit) proceed(u waypost.User, first firstStep, back string) error {
	if u.SecondFactor.Any() || v.mustHaveFactor(u) {
		return v.askSecondFactor(u, first, back)
	}
	over, err := v.signInUser(u, first, "")
	if err != nil {
		return err
	}
	if over {
		return v.redirect("/sign-in", nil)
	}
	return v.redirect(back, nil)
}

func (v *visit) askSecondFactor(u waypost.User, first firstStep, back string) error {
	if err := v.Users.RecordPendingSignIn(v.r.Context(), v.by(), u.ID, first.By); err != nil {
		return err
	}
	if err := v.suspend(u, first, back); err != nil {
		return err
	}
	return v.redirect(secondStepPath, nil)
}

// signInUser stores what the first step changes and the entry of the sign-in, and then begins the
// session. over tells that the first step cannot be used any more, which a flash says.
func (v *visit) signInUser(u waypost.User, first firstStep, second string) (over bool, err error) {
	ctx, sessions := v.r.Context(), u.Sessions
	switch {
	case first.Link != "":
		u, err = v.Users.TakeLink(ctx, v.by(), first.Link, first.PasswordHash, second)
		if waypost.CodeOf(err) == waypost.CodeNotFound {
			v.flash("bad", v.t("signIn.over"))
			return true, v.failed("", waypost.FailedLink)
		}
		if err == nil {
			err = v.forgetTries(linkTries(u))
		}
	case first.Said != nil:
		said := *first.Said
		said.SecondFactor = second
		var refused string
		if u, refused, err = v.signInByIssuer(ctx, said); refused != "" {
			return true, v.noteRefused(u, refused)
		}
	default:
		err = v.Users.RecordSignIn(ctx, v.byUser(u), first.By, second)
	}
	if err != nil {
		return false, err
	}
	u.Sessions = sessions // sessions that were ended since the first step are ended: this one too
	if first.PasswordHash != "" {
		u.Sessions++ // by the password
	}
	v.user = u
	return false, v.begin(u, first.By, first.SID)
}

// suspend makes the session one of a pending sign-in, with a new token. The first step is sealed in it.
func (v *visit) suspend(u waypost.User, first firstStep, back string) error {
	ctx := v.r.Context()
	text, err := json.Marshal(first)
	if err != nil {
		return err
	}
	if err := v.sessions.Clear(ctx); err != nil {
		return err
	}
	if err := v.sessions.RenewToken(ctx); err != nil {
		return err
	}
	v.sessions.SetDeadline(ctx, time.Now().Add(pendingTime))
	v.sessions.Put(ctx, "pending", u.ID)
	v.sessions.Put(ctx, "sessions", u.Sessions)
	v.sessions.Put(ctx, "first", v.Keys.Seal(text, firstStepPurpose(u.ID)))
	v.keepBack(u, back)
	if first.Said == nil {
		return nil
	}
	return v.notePending(first)
}

// keepBack keeps the page that a pending sign-in leads to. It is sealed: its filters may be about people.
func (v *visit) keepBack(u waypost.User, back string) {
	v.sessions.Put(v.r.Context(), "back", v.Keys.Seal([]byte(back), backPurpose(u.ID)))
}

// backOf is what keepBack kept; "/" if its key is gone.
func (v *visit) backOf(u waypost.User) string {
	text, err := v.Keys.Open(v.sessions.GetBytes(v.r.Context(), "back"), backPurpose(u.ID))
	if err != nil {
		return "/"
	}
	return localPath(string(text))
}

// lacksFactor tells whether the session began without the second factor that its person has, or must
// have. At an issuer, the issuer asks for it.
func (v *visit) lacksFactor(u waypost.User) bool {
	ctx := v.r.Context()
	if v.sessions.GetString(ctx, "by") == waypost.SignInByIssuer {
		return false
	}
	if u.SecondFactor.Any() {
		return !v.sessions.GetBool(ctx, "factor")
	}
	return v.mustHaveFactor(u)
}

// pending is the user whose sign-in waits for the second factor, one without an id if none does.
func (v *visit) pending() (u waypost.User, err error) {
	ctx := v.r.Context()
	id := v.sessions.GetString(ctx, "pending")
	if id == "" {
		return u, nil
	}
	u, err = v.Users.User(ctx, id)
	if waypost.CodeOf(err) == waypost.CodeNotFound || err == nil && (u.Disabled || u.Sessions != v.sessions.GetInt(ctx, "sessions")) {
		return waypost.User{}, v.sessions.Destroy(ctx)
	}
	if err != nil {
		return u, err
	}
	first, err := v.firstStepOf(u)
	if errors.Is(err, waypost.ErrDecrypt) { // its key is gone: the sign-in has to begin anew
		return waypost.User{}, v.endPending()
	}
	if err != nil || first.Link == "" {
		return u, err
	}
	of, err := v.Users.UserByLink(ctx, first.Link)
	if waypost.CodeOf(err) == waypost.CodeNotFound || err == nil && of.ID != u.ID { // before a code is used or a factor stored
		v.flash("bad", v.t("signIn.over"))
		return waypost.User{}, v.endPending()
	}
	return u, err
}

// firstStepOf is the first step of a pending sign-in.
func (v *visit) firstStepOf(u waypost.User) (first firstStep, err error) {
	text, err := v.Keys.Open(v.sessions.GetBytes(v.r.Context(), "first"), firstStepPurpose(u.ID))
	if err == nil {
		err = json.Unmarshal(text, &first)
	}
	return first, err
}

// complete ends a pending sign-in: the person has shown a second factor, or has one now. It returns
// the page that was asked for; the sign-in if the first step cannot be used any more.
func (v *visit) complete(u waypost.User, second string) (back string, err error) {
	ctx := v.r.Context()
	u.Sessions = v.sessions.GetInt(ctx, "sessions") // those of when the first factor was shown: a reset since then ends this one
	back = v.backOf(u)
	first, err := v.firstStepOf(u)
	if err != nil {
		return "", err
	}
	over, err := v.signInUser(u, first, second)
	if err != nil {
		return "", err
	}
	if over {
		return "/sign-in", v.endPending()
	}
	v.sessions.Put(ctx, "factor", second != "")
	return back, nil
}

// endPending takes the pending sign-in out of the session, which keeps what is to be shown next.
func (v *visit) endPending() error {
	for _, key := range []string{"pending", "sessions", "first", "back"} {
		v.sessions.Remove(v.r.Context(), key)
	}
	return v.sessions.RenewToken(v.r.Context())
}

// secondStepPage is the data of the second step of a sign-in.
type secondStepPage struct {
	Person waypost.User
	Code   *field // nil: the person has neither an app nor a recovery code
	// Passkey is what the browser asks one of the person's passkeys, "" where there are none.
	Passkey string
	Fault   string
}

func (v *visit) secondStep() error {
	u, err := v.pending()
	switch {
	case err != nil:
		return err
	case u.ID == "":
		return v.redirect("/sign-in", nil)
	case !u.SecondFactor.Any() && v.mustHaveFactor(u):
		return v.redirect(factorPath, nil)
	case !u.SecondFactor.Any(): // the person has taken it away in another session
		return v.passSecondStep(u, "")
	}
	return v.renderSecondStep(u, "", http.StatusOK)
}

func (v *visit) renderSecondStep(u waypost.User, fault string, status int) error {
	passkey, err := v.passkeyOptions(u)
	if err != nil {
		return err
	}
	p := secondStepPage{Person: u, Passkey: passkey, Fault: fault}
	switch {
	case u.SecondFactor.TOTP:
		p.Code = &field{Label: v.t("factor.code"), Hint: v.t("factor.codeOrRecovery"), Complete: "one-time-code"}
	case len(u.SecondFactor.RecoveryCodes) > 0:
		p.Code = &field{Label: v.t("factor.recoveryCode"), Complete: "off"}
	}
	if p.Code != nil {
		p.Code.Name, p.Code.Required = "code", true
	}
	return v.render(page{
		Name: "sign_in_second", Title: v.t("factor.step"), Status: status, Scripts: passkeyScripts(passkey), Data: p,
	})
}

// secondTries is the key by which tries of a second factor are counted: the user, and the device if it
// is known. Only who has passed the first factor can use these tries up.
func (v *visit) secondTries(u waypost.User) string {
	return "factor " + v.knownDevice(u.Email) + " " + u.ID
}

// takeSecondStep takes the form with a code.
func (v *visit) takeSecondStep() error {
	u, err := v.pending()
	if err != nil {
		return err
	}
	if !u.SecondFactor.Any() {
		return v.redirect("/sign-in", nil)
	}
	wait, err := v.mayTry(v.secondTries(u), freeTries)
	if err != nil {
		return err
	}
	if wait != "" {
		return v.renderSecondStep(u, wait, http.StatusTooManyRequests)
	}
	before, second := len(u.SecondFactor.RecoveryCodes), waypost.SecondFactorApp
	u, err = v.useCode(v.r.Context(), u, v.r.PostFormValue("code"))
	if errors.Is(err, errWrongCode) {
		if err := v.failed(u.ID, waypost.FailedSecondFactor); err != nil {
			return err
		}
		return v.renderSecondStep(u, v.t("factor.wrongCode"), http.StatusUnauthorized)
	}
	if err != nil {
		return err
	}
	if left := len(u.SecondFactor.RecoveryCodes); left < before {
		v.flash("ok", v.t("factor.recoveryLeft", "n", left))
		second = waypost.SecondFactorRecoveryCode
	}
	return v.passSecondStep(u, second)
}

// passSecondStep signs in who has shown a second factor.
func (v *visit) passSecondStep(u waypost.User, second string) error {
	if err := v.forgetTries(v.secondTries(u)); err != nil {
		return err
	}
	back, err := v.complete(u, second)
	if err != nil {
		return err
	}
	return v.redirect(back, nil)
}

// errWrongCode says that a code is neither one of the app nor a recovery code, or was used.
var errWrongCode = errors.New("the code is wrong, or was used")

// useCode takes a code of the person's app, or a recovery code, each once.
func (v *visit) useCode(ctx context.Context, u waypost.User, typed string) (waypost.User, error) {
	code := plainCode(typed)
	after, err := v.Users.ChangeSecondFactor(ctx, v.byUser(u), u, func(f *waypost.SecondFactor) error {
		if f.TOTP {
			step, err := totpStep(f.TOTPSecret, code, time.Now(), f.TOTPStep)
			if err != nil {
				return err
			}
			if step > 0 {
				f.TOTPStep = step
				return nil
			}
		}
		if i := slices.Index(f.RecoveryCodes, hashRecoveryCode(code)); i >= 0 {
			f.RecoveryCodes = slices.Delete(f.RecoveryCodes, i, i+1)
			return nil
		}
		return errWrongCode
	})
	if err != nil {
		return u, err
	}
	return after, nil
}
