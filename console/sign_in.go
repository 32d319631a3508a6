package console

import (
	"net/url"

	"github.com/alexedwards/argon2id"

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
	return nil
}

// begin signs a user in: the session gets a new token, so that one which somebody else has
// prepared is worth nothing.
func (v *visit) begin(u waypost.User) error {
	ctx := v.r.Context()
	if err := v.sessions.RenewToken(ctx); err != nil {
		return err
	}
	v.sessions.Put(ctx, "user", u.ID)
	v.sessions.Put(ctx, "sessions", u.Sessions)
	return nil
}

// askToSignIn leads to the sign-in, and from there back to a page that was asked for.
func (v *visit) askToSignIn() {
	query := url.Values{}
	if back := v.r.URL.RequestURI(); v.r.Method == "GET" && back != "/" {
		query.Set("back", back)
	}
	_ = v.redirect("/sign-in", query)
}

func (v *visit) signIn() error {
	if v.user.ID != "" {
		return v.redirect(localPath(v.r.URL.Query().Get("back")), nil)
	}
	return v.render(page{Name: "sign_in", Title: v.t("signIn.title")})
}

// linkPage is the data of the page that a sign-in link leads to. The link is used by its
// form, not by opening it: programs that look at messages open links too.
type linkPage struct {
	Token    string
	Person   waypost.User
	Password field
}

func (v *visit) showLink() error {
	token := v.r.URL.Query().Get("token")
	u, err := v.Users.UserByLink(v.r.Context(), token)
	if waypost.CodeOf(err) == waypost.CodeNotFound {
		return v.render(page{Name: "link_over", Title: v.t("signIn.over")})
	}
	if err != nil {
		return err
	}
	return v.renderLink(token, u, "")
}

func (v *visit) renderLink(token string, u waypost.User, fault string) error {
	status := 0
	if fault != "" {
		status = 400
	}
	return v.render(page{Name: "link", Title: v.t("signIn.title"), Status: status, Data: linkPage{token, u, field{
		Name: "password", Type: "password", Label: v.t("signIn.choosePassword"), Hint: v.t("signIn.passwordHint", "n", minPassword), Complete: "new-password", Fault: fault,
	}}})
}

// Bounds of passwords, in bytes.
const (
	minPassword = 12
	maxPassword = 256
)

func (v *visit) takeLink() error {
	token, password := v.r.PostFormValue("token"), v.r.PostFormValue("password")
	u, err := v.Users.UserByLink(v.r.Context(), token)
	if waypost.CodeOf(err) == waypost.CodeNotFound {
		return v.render(page{Name: "link_over", Title: v.t("signIn.over")})
	}
	if err != nil {
		return err
	}
	hash := ""
	if password != "" {
		if len(password) < minPassword || len(password) > maxPassword {
			return v.renderLink(token, u, v.t("signIn.passwordLength", "low", minPassword, "high", maxPassword))
		}
		if hash, err = argon2id.CreateHash(password, argon2id.DefaultParams); err != nil {
			return err
		}
	}
	u, err = v.Users.TakeLink(v.r.Context(), token, hash)
	if err != nil {
		return err
	}
	if err := v.begin(u); err != nil {
		return err
	}
	return v.redirect("/", nil)
}

func (v *visit) signOut() error {
	if err := v.sessions.Destroy(v.r.Context()); err != nil {
		return err
	}
	return v.redirect("/sign-in", nil)
}
