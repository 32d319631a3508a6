package console

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-webauthn/webauthn/protocol"
	"github.com/go-webauthn/webauthn/webauthn"

	"waypost"
)

const (
	// passkeyTime is how long somebody may take to use a passkey.
	passkeyTime = 5 * time.Minute
	// maxPasskeys bounds those of one person.
	maxPasskeys = 20
)

// newRelyingParty is what passkeys are bound to: the host of the console's URL. It is nil where
// browsers have none: at an IP address, and without HTTPS but for localhost.
func newRelyingParty(address string) (*webauthn.WebAuthn, error) {
	at, err := url.Parse(address)
	if err != nil {
		return nil, err
	}
	host := at.Hostname()
	local := host == "localhost" || strings.HasSuffix(host, ".localhost")
	if host == "" || net.ParseIP(host) != nil || at.Scheme != "https" && !local {
		return nil, nil
	}
	timeout := webauthn.TimeoutConfig{Enforce: true, Timeout: passkeyTime, TimeoutUVD: passkeyTime}
	return webauthn.New(&webauthn.Config{
		RPID: host, RPDisplayName: "Waypost", RPOrigins: []string{at.Scheme + "://" + at.Host},
		AuthenticatorSelection: protocol.AuthenticatorSelection{
			ResidentKey: protocol.ResidentKeyRequirementPreferred, UserVerification: protocol.VerificationPreferred,
		},
		Timeouts: webauthn.TimeoutsConfig{Login: timeout, Registration: timeout},
	})
}

// keyHolder makes a person a webauthn.User.
type keyHolder struct{ waypost.User }

func (k keyHolder) WebAuthnID() []byte          { return []byte(k.ID) }
func (k keyHolder) WebAuthnName() string        { return k.Email }
func (k keyHolder) WebAuthnDisplayName() string { return k.Name }

// WebAuthnCredentials are the person's passkeys. What is stored was encoded by savePasskey.
func (k keyHolder) WebAuthnCredentials() (all []webauthn.Credential) {
	for _, p := range k.SecondFactor.Passkeys {
		var c webauthn.Credential
		if json.Unmarshal(p.Credential, &c) == nil {
			all = append(all, c)
		}
	}
	return all
}

// askForPasskey stores the challenge in the session and returns the options that static/passkey.js
// hands to the browser.
func (v *visit) askForPasskey(key string, asked *webauthn.SessionData, options any) (string, error) {
	kept, err := json.Marshal(asked)
	if err != nil {
		return "", err
	}
	v.sessions.Put(v.r.Context(), key, kept)
	text, err := json.Marshal(options)
	return string(text), err
}

// askedPasskey takes what askForPasskey has stored out of the session, so that a challenge can be
// answered once only.
func (v *visit) askedPasskey(key string) (asked webauthn.SessionData, err error) {
	kept := v.sessions.PopBytes(v.r.Context(), key)
	if kept == nil {
		return asked, errors.New("no passkey was asked for")
	}
	return asked, json.Unmarshal(kept, &asked)
}

// newPasskeyOptions are what the browser asks a passkey to be made by, "" where there are none.
func (v *visit) newPasskeyOptions(u waypost.User) (string, error) {
	if v.relying == nil || len(u.SecondFactor.Passkeys) >= maxPasskeys {
		return "", nil
	}
	had := webauthn.Credentials(keyHolder{u}.WebAuthnCredentials()).CredentialDescriptors()
	options, asked, err := v.relying.BeginRegistration(keyHolder{u}, webauthn.WithExclusions(had))
	if err != nil {
		return "", err
	}
	return v.askForPasskey("newPasskey", asked, options)
}

// savePasskey takes a new passkey.
func (v *visit) savePasskey(u waypost.User) error {
	credential, err := v.madePasskey(u)
	if err != nil {
		v.log = append(v.log, slog.String("passkey", oneLine(err)))
		v.flash("bad", v.t("factor.passkeyFailed"))
		return v.redirect(factorPath, nil)
	}
	credential.Attestation = webauthn.CredentialAttestation{} // nothing asks for it again, and the browser decides how long it is
	encoded, err := json.Marshal(credential)
	if err != nil {
		return err
	}
	made := waypost.Passkey{
		ID: base64.RawURLEncoding.EncodeToString(credential.ID), Name: clip(v.r.PostFormValue("name"), v.device(v.r.UserAgent())),
		Credential: encoded, CreatedAt: time.Now().UTC().Truncate(time.Millisecond),
	}
	return v.addFactor(u, func(f *waypost.SecondFactor) error {
		if slices.ContainsFunc(f.Passkeys, func(p waypost.Passkey) bool { return p.ID == made.ID }) {
			return waypost.Errorf(waypost.CodeConflict, "credential", "this passkey is registered already")
		}
		f.Passkeys = append(f.Passkeys, made)
		return nil
	})
}

// madePasskey is the passkey that a form says was made, if it answers what was asked.
func (v *visit) madePasskey(u waypost.User) (*webauthn.Credential, error) {
	if v.relying == nil || len(u.SecondFactor.Passkeys) >= maxPasskeys {
		return nil, errors.New("no passkey can be added")
	}
	asked, err := v.askedPasskey("newPasskey")
	if err != nil {
		return nil, err
	}
	answer, err := protocol.ParseCredentialCreationResponseBytes([]byte(v.r.PostFormValue("credential")))
	if err != nil {
		return nil, err
	}
	return v.relying.CreateCredential(keyHolder{u}, asked, answer)
}

func (v *visit) removePasskey(u waypost.User) error {
	id := v.r.PathValue("id")
	return v.removeFactor(u, func(f *waypost.SecondFactor) {
		f.Passkeys = slices.DeleteFunc(f.Passkeys, func(p waypost.Passkey) bool { return p.ID == id })
	})
}

// passkeyOptions are what the browser asks one of the person's passkeys, "" where there are none.
func (v *visit) passkeyOptions(u waypost.User) (string, error) {
	if v.relying == nil || len(u.SecondFactor.Passkeys) == 0 {
		return "", nil
	}
	options, asked, err := v.relying.BeginLogin(keyHolder{u})
	if err != nil {
		return "", err
	}
	return v.askForPasskey("passkey", asked, options)
}

// takePasskey takes the second step of a sign-in by a passkey.
func (v *visit) takePasskey() error {
	u, err := v.pending()
	if err != nil {
		return err
	}
	if v.relying == nil || len(u.SecondFactor.Passkeys) == 0 {
		return v.redirect("/sign-in", nil)
	}
	wait, err := v.mayTry(v.secondTries(u), freeTries)
	if err != nil {
		return err
	}
	if wait != "" {
		return v.renderSecondStep(u, wait, http.StatusTooManyRequests)
	}
	u, err = v.usePasskey(u)
	if wrong := (wrongPasskey{}); errors.As(err, &wrong) {
		v.log = append(v.log, slog.String("passkey", oneLine(wrong.error)))
		if err := v.failed(u.ID, waypost.FailedSecondFactor); err != nil {
			return err
		}
		return v.renderSecondStep(u, v.t("factor.passkeyFailed"), http.StatusUnauthorized)
	}
	if err != nil {
		return err
	}
	return v.passSecondStep(u, waypost.SecondFactorPasskey)
}

// wrongPasskey says that what a passkey has answered is not taken.
type wrongPasskey struct{ error }

// usePasskey takes the answer of one of the person's passkeys, and counts its use.
func (v *visit) usePasskey(u waypost.User) (waypost.User, error) {
	asked, err := v.askedPasskey("passkey")
	if err != nil {
		return u, wrongPasskey{err}
	}
	answer, err := protocol.ParseCredentialRequestResponseBytes([]byte(v.r.PostFormValue("credential")))
	if err != nil {
		return u, wrongPasskey{err}
	}
	after, err := v.Users.ChangeSecondFactor(v.r.Context(), v.byUser(u), u, func(f *waypost.SecondFactor) error {
		now := u
		now.SecondFactor = *f
		credential, err := v.relying.ValidateLogin(keyHolder{now}, asked, answer)
		if err == nil && credential.Authenticator.CloneWarning {
			err = errors.New("the passkey has counted fewer uses than before: it may be a copy")
		}
		if err != nil {
			return wrongPasskey{err}
		}
		id := base64.RawURLEncoding.EncodeToString(credential.ID)
		i := slices.IndexFunc(f.Passkeys, func(p waypost.Passkey) bool { return p.ID == id })
		if f.Passkeys[i].Credential, err = json.Marshal(credential); err != nil { // ValidateLogin has found it
			return err
		}
		f.Passkeys[i].UsedAt = time.Now().UTC().Truncate(time.Millisecond)
		return nil
	})
	if err != nil {
		return u, err
	}
	return after, nil
}

// passkeyScripts are the modules of a page that asks for a passkey.
func passkeyScripts(options string) []string {
	if options == "" {
		return nil
	}
	return []string{"passkey.js"}
}
