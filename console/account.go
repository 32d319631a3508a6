package console

import (
	"log/slog"
	"net/http"

	"waypost"
)

// accountPath is the person's own page.
const accountPath = "/account"

// accountPage is its data.
type accountPage struct {
	Old, New field // of the password
	Sessions []sessionShown
}

func (v *visit) account() error { return v.renderAccount("", "", http.StatusOK) }

// renderAccount shows the person's own page, with what is wrong with the form of the password.
func (v *visit) renderAccount(oldFault, newFault string, status int) error {
	sessions, err := v.ownSessions()
	if err != nil {
		return err
	}
	return v.render(page{Name: "account", Title: v.t("account.title"), Status: status, Data: accountPage{
		Old: field{
			Name: "old", Type: "password", Label: v.t("account.oldPassword"), Required: true, Complete: "current-password", Fault: oldFault,
		},
		New: field{
			Name: "password", Type: "password", Label: v.t("account.newPassword"), Required: true, Complete: "new-password",
			Hint: v.t("account.passwordHint", "n", minPassword), Fault: newFault,
		},
		Sessions: sessions,
	}})
}

// changePassword gives the person another password, which ends all other sessions. Whoever has
// taken over a session needs the password that there is.
func (v *visit) changePassword() error {
	ctx := v.r.Context()
	old, password := v.r.PostFormValue("old"), v.r.PostFormValue("password")
	if fault := v.passwordFault(password); fault != "" {
		return v.renderAccount("", fault, http.StatusBadRequest)
	}
	fault, status, err := v.checkOwnPassword(old)
	if err != nil {
		return err
	}
	if fault != "" {
		return v.renderAccount(fault, "", status)
	}
	hash, err := v.passwords.hash(ctx, password)
	if err != nil {
		return err
	}
	u, err := v.Users.ChangePassword(ctx, v.by(), v.user, hash)
	if err != nil {
		return err
	}
	v.log = append(v.log, slog.String("changed", u.ID), slog.String("how", "password"))
	by, sid, factor := v.sessions.GetString(ctx, "by"), v.sessions.GetString(ctx, "sid"), v.sessions.GetBool(ctx, "factor")
	if err := v.begin(u, by, sid); err != nil {
		return err
	}
	v.sessions.Put(ctx, "factor", factor)
	v.flash("ok", v.t("account.passwordChanged"))
	return v.redirect(accountPath, nil)
}

// passwordFault is what is wrong with a password that is chosen, "" if nothing is.
func (v *visit) passwordFault(password string) string {
	if len(password) < minPassword || len(password) > maxPassword {
		return v.t("signIn.passwordLength", "low", minPassword, "high", maxPassword)
	}
	return ""
}

// checkOwnPassword tells what is wrong with what the person says to be their password, "" if it
// is. Its tries are counted apart from those of sign-ins: strangers cannot use them up.
func (v *visit) checkOwnPassword(password string) (fault string, status int, err error) {
	ctx, key := v.r.Context(), "account "+v.user.ID
	wait, err := v.mayTry(key, freeTries)
	if err != nil || wait != "" {
		return wait, http.StatusTooManyRequests, err
	}
	right := false
	if len(password) <= maxPassword {
		if right, err = v.passwords.matches(ctx, v.passwords.known, password, v.user.PasswordHash); err != nil {
			return "", 0, err
		}
	}
	if !right {
		if err := v.failed(v.user.ID, waypost.FailedPassword); err != nil {
			return "", 0, err
		}
		return v.t("account.wrongPassword"), http.StatusBadRequest, nil
	}
	if err := v.forgetTries(key); err != nil {
		return "", 0, err
	}
	return "", 0, nil
}
