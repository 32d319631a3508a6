package console

import (
	"log/slog"
	"net/http"

	"waypost"
)

// usersPage is the data of the list of users.
type usersPage struct {
	Users []waypost.User
	Roles []option
	New   []field // the form of a new one
	Fault string
}

func (v *visit) users() error { return v.renderUsers(waypost.User{Role: waypost.RoleViewer}, nil) }

// renderUsers shows the users, and the form of a new one, with what is wrong with it.
func (v *visit) renderUsers(u waypost.User, fault error) error {
	all, err := v.Users.Users(v.r.Context())
	if err != nil {
		return err
	}
	shown := usersPage{Users: all, Roles: options(v, "role.", waypost.Roles)}
	faults, general, rest := map[string]string{}, "", error(nil)
	status := http.StatusOK
	if fault != nil {
		status = http.StatusBadRequest
		if faults, general, rest = faultsOf(fault); rest != nil {
			return rest
		}
		if waypost.CodeOf(fault) == waypost.CodeConflict {
			faults, general = map[string]string{"email": v.t("users.taken")}, ""
		}
	}
	shown.Fault = general
	shown.New = []field{
		{Name: "name", Label: v.t("users.name"), Value: u.Name, Required: true, Complete: "off", Fault: faults["name"]},
		{Name: "email", Type: "email", Label: v.t("users.email"), Value: u.Email, Required: true, Complete: "off", Fault: faults["email"]},
		{Name: "role", Type: "select", Label: v.t("users.role"), Value: string(u.Role), Options: shown.Roles, Required: true, Fault: faults["role"]},
	}
	return v.render(page{Name: "users", Title: v.t("users.title"), Place: "users", Status: status, Data: shown})
}

func (v *visit) addUser() error {
	u := waypost.User{
		Org: v.Org, Name: v.r.PostFormValue("name"), Email: waypost.FoldEmail(v.r.PostFormValue("email")), Role: waypost.Role(v.r.PostFormValue("role")),
	}
	made, link, err := v.Users.CreateUser(v.r.Context(), v.by(), u)
	if err != nil {
		return v.renderUsers(u, inLanguage(v.chosen.Language, http.MethodPost, "/users", err))
	}
	return v.showNewLink("added", made, link)
}

// other is the user whose id is in the path. The person themselves is refused, so that an
// administrator is always left.
func (v *visit) other() (waypost.User, error) {
	u, err := v.Users.User(v.r.Context(), v.r.PathValue("id"))
	if err == nil && u.ID == v.user.ID {
		err = refused{}
	}
	return u, err
}

func (v *visit) resetUser() error {
	u, err := v.other()
	if err != nil {
		return err
	}
	link, err := v.Users.ResetUser(v.r.Context(), v.by(), u.ID)
	if err != nil {
		return err
	}
	return v.showNewLink("reset", u, link)
}

// newLinkPage is the data of the page with a sign-in link, which is shown this once.
type newLinkPage struct {
	Person waypost.User
	Link   string
}

func (v *visit) showNewLink(done string, u waypost.User, token string) error {
	v.noteUser(done, u)
	return v.render(page{Name: "new_link", Title: v.t("users.link"), Place: "users", Back: &link{Path: "/users", Text: v.t("users.title")}, Data: newLinkPage{
		u, v.URL + "/sign-in/link?token=" + token,
	}})
}

func (v *visit) disableUser() error {
	u, err := v.other()
	if err != nil {
		return err
	}
	if err := v.Users.DisableUser(v.r.Context(), v.by(), u.ID); err != nil {
		return err
	}
	v.noteUser("disabled", u)
	v.flash("ok", v.t("users.disabledNow", "name", u.Name))
	return v.redirect("/users", nil)
}

// removeUserFactor takes away the second factor of a person who has lost it.
func (v *visit) removeUserFactor() error {
	u, err := v.other()
	if err != nil {
		return err
	}
	if err := v.Users.RemoveSecondFactor(v.r.Context(), v.by(), u.ID); err != nil {
		return err
	}
	v.noteUser("second factor removed", u)
	v.flash("ok", v.t("users.noFactorNow", "name", u.Name))
	return v.redirect("/users", nil)
}

func (v *visit) changeRole() error {
	u, err := v.other()
	if err != nil {
		return err
	}
	role := waypost.Role(v.r.PostFormValue("role"))
	if err := v.Users.ChangeRole(v.r.Context(), v.by(), u.ID, role); err != nil {
		return err
	}
	v.noteUser("role "+string(role), u)
	v.flash("ok", v.t("users.roleNow", "name", u.Name, "role", v.t("role."+string(role))))
	return v.redirect("/users", nil)
}

func (v *visit) releaseUser() error {
	u, err := v.other()
	if err != nil {
		return err
	}
	if err := v.Users.ReleaseUser(v.r.Context(), v.by(), u.ID); err != nil {
		return err
	}
	v.noteUser("released", u)
	v.flash("ok", v.t("users.releasedNow", "name", u.Name))
	return v.redirect("/users", nil)
}

// deleteUser deletes a user, whose sessions end with what is noted of them.
func (v *visit) deleteUser() error {
	ctx := v.r.Context()
	u, err := v.other()
	if err != nil {
		return err
	}
	if err := v.Users.DeleteUser(ctx, v.by(), u.ID); err != nil {
		return err
	}
	v.noteUser("deleted", u)
	notes, err := v.Sessions.Of(ctx, u.ID)
	if err != nil {
		return away{err}
	}
	for id := range notes {
		if _, err := v.Sessions.End(ctx, u.ID, id); err != nil {
			return away{err}
		}
	}
	v.flash("ok", v.t("users.deletedNow"))
	return v.redirect("/users", nil)
}

// noteUser logs what an administrator did to a user.
func (v *visit) noteUser(done string, u waypost.User) {
	v.log = append(v.log, slog.String("changed", u.ID), slog.String("how", done))
}
