package console

import (
	"net/http"

	"waypost"
)

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
	if err != nil {
		return v.linkOver(err)
	}
	return v.renderLink(token, u, "", http.StatusOK)
}

// linkOver shows that a link cannot be used, if that is what err says; it returns other errors.
func (v *visit) linkOver(err error) error {
	if waypost.CodeOf(err) != waypost.CodeNotFound {
		return err
	}
	return v.render(page{Name: "link_over", Title: v.t("signIn.over"), Status: http.StatusNotFound})
}

func (v *visit) renderLink(token string, u waypost.User, fault string, status int) error {
	return v.render(page{Name: "link", Title: v.t("signIn.title"), Status: status, Data: linkPage{token, u, field{
		Name: "password", Type: "password", Label: v.t("signIn.choosePassword"), Hint: v.t("signIn.passwordHint", "n", minPassword), Complete: "new-password", Fault: fault,
	}}})
}

// linkTries is the key by which passwords that are chosen with a link of a person are counted.
func linkTries(u waypost.User) string { return "link " + u.ID }

// takeLink signs in by a link. A password that is chosen with it ends all other sessions. Where a
// second factor follows, the link is taken and the password stored after that.
func (v *visit) takeLink() error {
	ctx := v.r.Context()
	token, password := v.r.PostFormValue("token"), v.r.PostFormValue("password")
	u, err := v.Users.UserByLink(ctx, token)
	if waypost.CodeOf(err) == waypost.CodeNotFound {
		if err := v.failed("", waypost.FailedLink); err != nil {
			return err
		}
	}
	if err != nil {
		return v.linkOver(err)
	}
	first := firstStep{By: waypost.SignInByLink, Link: token}
	if password != "" {
		if fault := v.passwordFault(password); fault != "" {
			return v.renderLink(token, u, fault, http.StatusBadRequest)
		}
		if wait, err := v.mayTry(linkTries(u), freeTries); err != nil {
			return err
		} else if wait != "" {
			return v.renderLink(token, u, wait, http.StatusTooManyRequests)
		}
		if first.PasswordHash, err = v.passwords.hash(ctx, password); err != nil {
			return err
		}
	}
	return v.proceed(u, first, "/")
}
