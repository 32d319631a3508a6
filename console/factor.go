package console

import (
	"errors"
	"html/template"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"waypost"
)

// factorPath is where people see and change their second factor, and where those are led to who
// must have one and have none.
const factorPath = "/second-factor"

// provedTime is for how long a proof by password or code allows changes of the second factor.
const provedTime = 10 * time.Minute

// errProve says that the person must give a password or a code first: a session that was stolen
// changes no second factor.
var errProve = errors.New("the person must show who they are")

// enrollee is the person who may change their second factor in this request: one who is signed in and
// has proved within provedTime who they are (else errProve), or one whose pending sign-in needs a
// first factor (else errSignIn).
func (v *visit) enrollee() (waypost.User, error) {
	if v.user.ID != "" {
		if time.Since(time.Unix(v.sessions.GetInt64(v.r.Context(), "proved"), 0)) > provedTime {
			return v.user, errProve
		}
		return v.user, nil
	}
	u, err := v.pending()
	if err == nil && (u.ID == "" || u.SecondFactor.Any()) {
		return waypost.User{}, errSignIn
	}
	return u, err
}

// enrolling calls the handler with the person who may change their second factor. All others are sent
// to the sign-in or to the page that asks for a proof.
func enrolling(handle func(*visit, waypost.User) error) func(*visit) error {
	return func(v *visit) error {
		u, err := v.enrollee()
		switch {
		case errors.Is(err, errSignIn):
			return v.redirect("/sign-in", nil)
		case errors.Is(err, errProve):
			return v.redirect(factorPath, nil)
		case err != nil:
			return err
		}
		return handle(v, u)
	}
}

// factorPage is the data of the page of the second factor.
type factorPage struct {
	Person waypost.User
	Must   bool   // the setting asks one of the person
	Proved bool   // else the page asks for Proof alone
	Proof  *field // nil if the person has nothing to show
	// NewPasskey is what the browser asks a passkey to be made by, "" where there are none.
	NewPasskey string
	Name       field // of a new passkey
}

func (v *visit) secondFactor() error { return v.renderFactor("", http.StatusOK) }

// renderFactor shows the second factors of a person who is signed in or is asked to enroll. Until
// they have proved who they are, it offers the proof and no new factor.
func (v *visit) renderFactor(fault string, status int) error {
	u, err := v.enrollee()
	if errors.Is(err, errSignIn) {
		return v.redirect("/sign-in", nil)
	}
	if err != nil && !errors.Is(err, errProve) {
		return err
	}
	p := factorPage{Person: u, Must: v.mustHaveFactor(u), Proved: err == nil}
	switch {
	case u.PasswordHash != "":
		p.Proof = &field{Name: "password", Type: "password", Label: v.t("factor.password"), Complete: "current-password"}
	case u.SecondFactor.Any():
		p.Proof = &field{Name: "code", Label: v.t("factor.code"), Hint: v.t("factor.codeOrRecovery"), Complete: "one-time-code"}
	}
	if p.Proof != nil {
		p.Proof.Required, p.Proof.Fault = true, fault
	}
	if p.Proved {
		if p.NewPasskey, err = v.newPasskeyOptions(u); err != nil {
			return err
		}
		p.Name = field{Name: "name", Label: v.t("factor.passkeyName"), Hint: v.t("factor.passkeyNameHint"), Complete: "off"}
	}
	shown := page{Name: "factor", Title: v.t("factor.title"), Status: status, Scripts: passkeyScripts(p.NewPasskey), Data: p}
	if v.user.ID != "" {
		shown.Back = &link{Path: accountPath, Text: v.t("account.title")}
	}
	return v.render(shown)
}

// prove takes the password, or a code from a person without a password.
func (v *visit) prove() error {
	ctx := v.r.Context()
	fault, status, err := "", 0, error(nil)
	if v.user.PasswordHash != "" {
		fault, status, err = v.checkOwnPassword(v.r.PostFormValue("password"))
	} else {
		fault, status, err = v.checkOwnCode(v.r.PostFormValue("code"))
	}
	if err != nil {
		return err
	}
	if fault != "" {
		return v.renderFactor(fault, status)
	}
	v.sessions.Put(ctx, "proved", time.Now().Unix())
	return v.redirect(factorPath, nil)
}

// checkOwnCode is checkOwnPassword for a code of the second factor.
func (v *visit) checkOwnCode(code string) (fault string, status int, err error) {
	ctx, key := v.r.Context(), "account "+v.user.ID
	wait, err := v.mayTry(key, freeTries)
	if err != nil || wait != "" {
		return wait, http.StatusTooManyRequests, err
	}
	if _, err = v.useCode(ctx, v.user, code); errors.Is(err, errWrongCode) {
		if err := v.failed(v.user.ID, waypost.FailedSecondFactor); err != nil {
			return "", 0, err
		}
		return v.t("factor.wrongCode"), http.StatusBadRequest, nil
	}
	if err == nil {
		err = v.forgetTries(key)
	}
	return "", 0, err
}

// appPage is the data of the page on which an app is set up.
type appPage struct {
	QR     template.URL
	Secret string // in groups of four
	URL    template.URL
	Code   field
	Person waypost.User
}

// appSecret is the secret of an app that is being set up; it is made if there is none. The session
// keeps it sealed.
func (v *visit) appSecret(u waypost.User) string {
	ctx, purpose := v.r.Context(), "new-totp/"+u.ID
	if secret, err := v.Keys.Open(v.sessions.GetBytes(ctx, "totp"), purpose); err == nil {
		return string(secret)
	}
	secret := newTOTPSecret()
	v.sessions.Put(ctx, "totp", v.Keys.Seal([]byte(secret), purpose))
	return secret
}

func (v *visit) setUpApp(u waypost.User) error { return v.renderApp(u, "", http.StatusOK) }

func (v *visit) renderApp(u waypost.User, fault string, status int) error {
	at, err := url.Parse(v.URL)
	if err != nil {
		return err
	}
	secret := v.appSecret(u)
	key, err := totpKey(secret, at.Hostname(), u.Email)
	if err != nil {
		return err
	}
	qr, err := qrOf(key)
	if err != nil {
		return err
	}
	shown := page{Name: "factor_app", Title: v.t("factor.app"), Status: status, Data: appPage{
		QR: qr, Secret: inGroups(secret), URL: template.URL(key.URL()), Person: u, //nolint:gosec // of our own secret
		Code: field{
			Name: "code", Label: v.t("factor.code"), Hint: v.t("factor.firstCode"), Required: true, Complete: "one-time-code", Fault: fault,
		},
	}}
	if v.user.ID != "" {
		shown.Back = &link{Path: factorPath, Text: v.t("factor.title")}
	}
	return v.render(shown)
}

// inGroups is a secret as people type it.
func inGroups(secret string) (groups string) {
	for i, r := range secret {
		if i > 0 && i%4 == 0 {
			groups += " "
		}
		groups += string(r)
	}
	return groups
}

// saveApp takes the first code of an app, which shows that it has the secret.
func (v *visit) saveApp(u waypost.User) error {
	ctx := v.r.Context()
	wait, err := v.mayTry("app "+u.ID, freeTries)
	if err != nil {
		return err
	}
	if wait != "" {
		return v.renderApp(u, wait, http.StatusTooManyRequests)
	}
	secret := v.appSecret(u)
	step, err := totpStep(secret, plainCode(v.r.PostFormValue("code")), time.Now(), 0)
	if err != nil {
		return err
	}
	if step == 0 {
		return v.renderApp(u, v.t("factor.wrongFirstCode"), http.StatusBadRequest)
	}
	if err := v.forgetTries("app " + u.ID); err != nil {
		return err
	}
	v.sessions.Remove(ctx, "totp")
	return v.addFactor(u, func(f *waypost.SecondFactor) error {
		f.TOTPSecret, f.TOTPStep = secret, step
		return nil
	})
}

// addFactor stores a factor. With the first factor it makes recovery codes, and it completes a
// pending sign-in.
func (v *visit) addFactor(u waypost.User, add func(*waypost.SecondFactor) error) error {
	ctx, pending := v.r.Context(), v.user.ID == ""
	var codes []string
	after, err := v.Users.ChangeSecondFactor(ctx, v.byUser(u), u, func(f *waypost.SecondFactor) error {
		codes = nil
		if pending && f.Any() {
			return errSignIn // another pending sign-in was faster
		}
		if err := add(f); err != nil {
			return err
		}
		if len(f.RecoveryCodes) == 0 {
			codes, f.RecoveryCodes = newRecoveryCodes()
		}
		return nil
	})
	if err != nil {
		return err
	}
	v.noteFactor("added")
	back := factorPath
	if pending {
		if back, err = v.complete(after, waypost.SecondFactorNew); err != nil {
			return err
		}
	}
	if !pending {
		v.sessions.Put(ctx, "factor", true)
	}
	if codes != nil {
		return v.showRecoveryCodes(codes, back)
	}
	v.flash("ok", v.t("factor.added"))
	return v.redirect(back, nil)
}

// noteFactor logs what a person did to their second factor.
func (v *visit) noteFactor(done string) {
	v.log = append(v.log, slog.String("how", "second factor "+done))
}

// errLastFactor says that the setting asks a factor of the person, who would have none.
var errLastFactor = errors.New("the last second factor must stay")

// removeFactor takes a factor away; one that is not there is no error. errLastFactor if it is the
// last one of a person who must have one.
func (v *visit) removeFactor(u waypost.User, remove func(*waypost.SecondFactor)) error {
	_, err := v.Users.ChangeSecondFactor(v.r.Context(), v.byUser(u), u, func(f *waypost.SecondFactor) error {
		remove(f)
		if f.TOTP = f.TOTPSecret != ""; !f.Any() && v.mustHaveFactor(u) {
			return errLastFactor
		}
		return nil
	})
	switch {
	case errors.Is(err, errLastFactor):
		v.flash("bad", v.t("factor.last"))
	case err != nil:
		return err
	default:
		v.noteFactor("removed")
		v.flash("ok", v.t("factor.removed"))
	}
	return v.redirect(factorPath, nil)
}

func (v *visit) removeApp(u waypost.User) error {
	return v.removeFactor(u, func(f *waypost.SecondFactor) { f.TOTPSecret = "" })
}

// renewRecoveryCodes makes new recovery codes; those of before cannot be used any more.
func (v *visit) renewRecoveryCodes(u waypost.User) error {
	var codes []string
	_, err := v.Users.ChangeSecondFactor(v.r.Context(), v.byUser(u), u, func(f *waypost.SecondFactor) error {
		if !f.Any() {
			return waypost.Errorf(waypost.CodeConflict, "", "recovery codes stand in for a second factor, and there is none")
		}
		codes, f.RecoveryCodes = newRecoveryCodes()
		return nil
	})
	if err != nil {
		return err
	}
	v.noteFactor("recovery codes renewed")
	return v.showRecoveryCodes(codes, factorPath)
}

// codesPage is the data of the page with recovery codes, which are shown this once.
type codesPage struct {
	Codes []string
	Text  string // all of them, to be copied
	Next  string
}

func (v *visit) showRecoveryCodes(codes []string, next string) error {
	text := ""
	for _, code := range codes {
		text += code + "\n"
	}
	return v.render(page{Name: "factor_codes", Title: v.t("factor.recovery"), Data: codesPage{codes, text, next}})
}
