package console

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"

	"waypost"
)

// logoutPath is where the issuer says that somebody has signed out there (OpenID Connect Back-Channel
// Logout 1.0).
const logoutPath = "/sign-in/oidc/logout"

// Bounds of logout tokens. A token's identifier is remembered for longer than the token is valid, so
// that it is taken once.
const (
	logoutAge  = 5 * time.Minute
	logoutSkew = time.Minute // by which the issuer's clock may be ahead
	logoutKept = 2 * (logoutAge + logoutSkew)
)

// logoutEvent is the member of events that makes a token one of a logout.
const logoutEvent = "http://schemas.openid.net/event/backchannel-logout"

// signOutByIssuer ends the sessions that a logout token names: those that began in one session of the
// issuer (sid), or all of an account (sub).
func (v *visit) signOutByIssuer() error {
	if v.issuer == nil {
		return v.notFound()
	}
	ctx := v.r.Context()
	tries := "logout " + v.address()
	if wait, err := v.mayTry(tries, freeAddressTries); err != nil {
		return err
	} else if wait != "" {
		return v.answerLogout(http.StatusTooManyRequests, wait)
	}
	token, err := v.issuer.logout(ctx, v.r.PostFormValue("logout_token"))
	if err != nil {
		v.log = append(v.log, slog.String("issuer", oneLine(err)))
		return v.answerLogout(http.StatusBadRequest, "the logout token is not right: the log of the console says why")
	}
	unused, err := v.Sessions.Once(ctx, "logout "+token.TokenID, logoutKept)
	if err != nil {
		return away{err}
	}
	if !unused {
		return v.answerLogout(http.StatusBadRequest, "the logout token was used before")
	}
	if err := v.Attempts.Undo(ctx, tries); err != nil {
		return away{err}
	}
	if err := v.endByIssuer(ctx, token); err != nil {
		// The issuer sends the token again.
		return errors.Join(err, v.Sessions.Forget(ctx, "logout "+token.TokenID))
	}
	return v.answerLogout(http.StatusOK, "")
}

// answerLogout answers the issuer as Back-Channel Logout 1.0 has it; no person sees the answer.
func (v *visit) answerLogout(status int, fault string) error {
	v.status = status
	if fault == "" {
		v.w.WriteHeader(status)
		return nil
	}
	v.w.Header().Set("Content-Type", "application/json")
	v.w.WriteHeader(status)
	// The issuer may have gone.
	_ = json.NewEncoder(v.w).Encode(map[string]string{"error": "invalid_request", "error_description": fault})
	return nil
}

// logout verifies a logout token.
func (i *issuer) logout(ctx context.Context, raw string) (*oidc.LogoutToken, error) {
	if raw == "" {
		return nil, errors.New("logout_token is missing")
	}
	provider, _, err := i.find(ctx)
	if err != nil {
		return nil, err
	}
	token, err := provider.Verifier(&oidc.Config{ClientID: i.ClientID}).VerifyLogout(ctx, raw)
	if err != nil {
		return nil, err
	}
	var claims struct {
		Events map[string]json.RawMessage `json:"events"`
	}
	if err := token.Claims(&claims); err != nil {
		return nil, err
	}
	if event := bytes.TrimSpace(claims.Events[logoutEvent]); !bytes.HasPrefix(event, []byte("{")) {
		return nil, fmt.Errorf("events: %s must be an object", logoutEvent)
	}
	if age := time.Since(token.IssuedAt); age > logoutAge || age < -logoutSkew {
		return nil, fmt.Errorf("iat: the token was issued %s ago, which must be between -%s and %s",
			age.Round(time.Second), logoutSkew, logoutAge)
	}
	return token, nil
}

// pendingOwner is what a pending sign-in is noted by whose account is bound to nobody yet: the issuer's
// session, or its account if sid is "". Redis holds a hash of it, as of all that tells of people.
func pendingOwner(issuer, subject, sid string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", issuer, subject, sid))
	return "pending " + hex.EncodeToString(sum[:])
}

// notePending notes a sign-in of an issuer that waits for the second factor, so that a logout ends it.
func (v *visit) notePending(first firstStep) error {
	ctx := v.r.Context()
	owners := []string{pendingOwner(first.Said.Issuer, first.Said.Subject, "")}
	if first.SID != "" {
		owners = append(owners, pendingOwner(first.Said.Issuer, "", first.SID))
	}
	for _, owner := range owners {
		if _, err := v.Sessions.Note(ctx, owner, v.sessions.Token(ctx), []byte("pending"), pendingTime); err != nil {
			return away{err}
		}
	}
	return nil
}

// endPendingByIssuer ends the pending sign-ins that a logout token names.
func (v *visit) endPendingByIssuer(ctx context.Context, token *oidc.LogoutToken) error {
	owner := pendingOwner(v.issuer.Issuer, token.Subject, "")
	if token.SessionID != "" {
		owner = pendingOwner(v.issuer.Issuer, "", token.SessionID)
	}
	_, err := v.endNoted(ctx, owner, func(string, string) bool { return false })
	return err
}

// endByIssuer ends the sessions that a logout token names; none is no error.
func (v *visit) endByIssuer(ctx context.Context, token *oidc.LogoutToken) error {
	if err := v.endPendingByIssuer(ctx, token); err != nil {
		return err
	}
	users, err := v.usersOfLogout(ctx, token)
	if err != nil {
		return err
	}
	for _, u := range users {
		if token.SessionID == "" {
			if err := v.Users.EndSessions(ctx, v.issuer.by(v), u.ID); err != nil {
				return err
			}
			continue
		}
		ended, err := v.endOfSession(ctx, u, token.SessionID)
		if err != nil {
			return err
		}
		if ended > 0 {
			if err := v.Users.RecordSignOut(ctx, v.issuer.by(v), u.ID, waypost.SessionOther); err != nil {
				return err
			}
		}
	}
	v.log = append(v.log, slog.Int("users", len(users)))
	return nil
}

// usersOfLogout are the user whose account a logout token names, or all who have one if it names none.
func (v *visit) usersOfLogout(ctx context.Context, token *oidc.LogoutToken) ([]waypost.User, error) {
	if token.Subject != "" {
		u, err := v.Users.UserBySubject(ctx, v.issuer.Issuer, token.Subject)
		if waypost.CodeOf(err) == waypost.CodeNotFound {
			return nil, nil
		}
		return []waypost.User{u}, err
	}
	all, err := v.Users.Users(ctx)
	var bound []waypost.User
	for _, u := range all {
		if u.Issuer == v.issuer.Issuer {
			bound = append(bound, u)
		}
	}
	return bound, err
}

// endOfSession ends the sessions of a user that began in a session of the issuer.
func (v *visit) endOfSession(ctx context.Context, u waypost.User, sid string) (ended int, err error) {
	return v.endNoted(ctx, u.ID, func(_, sealed string) bool {
		// One whose note cannot be read, since its key is gone, may be of that session, too.
		text, err := v.Keys.Open([]byte(sealed), notePurpose(u.ID))
		var note sessionNote
		return err == nil && json.Unmarshal(text, &note) == nil && note.SID != sid
	})
}
