package store

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"waypost"
)

type userRow struct {
	bun.BaseModel `bun:"table:users,alias:u"`

	ID            string  `bun:"id,pk"`
	Org           string  `bun:"org"`
	Email         string  `bun:"email"`
	Name          string  `bun:"name"`
	Role          string  `bun:"role"`
	RoleByClaim   bool    `bun:"role_by_claim"`
	Iss           string  `bun:"iss"`
	Sub           string  `bun:"sub"`
	Disabled      bool    `bun:"disabled"`
	PasswordHash  string  `bun:"password_hash"`
	Sessions      int     `bun:"sessions"`
	TOTPSecret    []byte  `bun:"totp_secret"` // sealed
	TOTPStep      int64   `bun:"totp_step"`
	Passkeys      string  `bun:"passkeys"`
	RecoveryCodes string  `bun:"recovery_codes"`
	LinkHash      *string `bun:"link_hash"`
	LinkExpiresAt stamp   `bun:"link_expires_at"`
	LinkBy        string  `bun:"link_by"`
	CreatedAt     stamp   `bun:"created_at"`
}

func (r userRow) user() waypost.User {
	return waypost.User{
		ID: r.ID, Org: r.Org, Email: r.Email, Name: r.Name, Role: waypost.Role(r.Role), Disabled: r.Disabled,
		PasswordHash: r.PasswordHash, Sessions: r.Sessions, SecondFactor: r.secondFactor(), CreatedAt: r.CreatedAt.Time, Issuer: r.Iss,
	}
}

// hashLink is what is stored of a sign-in link's token, which is random: no salt.
func hashLink(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// audited is a user as audit entries compare it: without the name and the e-mail address, so that
// the log forgets a user who is deleted.
func (r userRow) audited() fields {
	members := fields{"role": r.Role, "disabled": r.Disabled}
	if r.Iss != "" {
		members["issuer"] = r.Iss
	}
	if r.RoleByClaim {
		members["roleByClaim"] = true
	}
	return members
}

// auditUser is audit for a user, who belongs to no stage: the entries are among those of release.
// A password and a sign-in link are shown as other secrets are. before or after can be nil.
func (s *users) auditUser(ctx context.Context, tx bun.Tx, by waypost.Caller, action string, before, after *userRow) error {
	_, author := by.Within()
	if author == nil {
		return nil
	}
	b, a := *cmp.Or(before, &userRow{}), *cmp.Or(after, &userRow{})
	was, is := b.audited(), a.audited()
	was["password"], is["password"] = waypost.AuditSecret(b.PasswordHash, a.PasswordHash)
	was["link"], is["link"] = waypost.AuditSecret(b.link(), a.link())
	auditFactors(b, a, was, is)
	of, id := inOrg(*author, cmp.Or(a.Org, b.Org)), cmp.Or(a.ID, b.ID)
	switch {
	case before == nil:
		return s.audit.add(ctx, tx, &of, action, id, nil, is)
	case after == nil:
		return s.audit.add(ctx, tx, &of, action, id, was, nil)
	}
	return s.audit.add(ctx, tx, &of, action, id, was, is)
}

// link is the hash of the sign-in link's token, "" without a link.
func (r userRow) link() string { return *cmp.Or(r.LinkHash, new("")) }

// inOrg is an author of what is done to users of an organisation.
func inOrg(by waypost.Author, org string) waypost.Author {
	by.Scope = waypost.Scope{Org: org, Stage: waypost.StageRelease}
	return by
}

// actorOf is whom the audit log names for a caller, "" for nobody. An e-mail address is folded, so
// that it is found again when a user of this address is deleted.
func actorOf(by waypost.Caller) string {
	_, author := by.Within()
	switch {
	case author == nil:
		return ""
	case strings.Contains(author.Actor, "@"):
		return cleanText(waypost.FoldEmail(author.Actor))
	}
	return cleanText(author.Actor)
}

// CreateUser stores a new user with a sign-in link, whose token it returns for the only
// time. ID and CreatedAt are minted here. BadRequest if a field is faulty, Conflict if the
// organisation has a user of this e-mail address.
func (s *users) CreateUser(ctx context.Context, by waypost.Caller, u waypost.User) (made waypost.User, link string, err error) {
	if err := u.Validate(); err != nil {
		return made, "", err
	}
	defer wrap(&err, "create user")
	now := s.time()
	row := userRow{ID: waypost.NewID(waypost.PrefixUser, now), Org: u.Org, Email: u.Email, Name: u.Name, Role: string(u.Role), CreatedAt: stamp{now}}
	row.forgetSecondFactor()
	link = newLink(&row, s.db, by)
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := affected(tx.NewInsert().Model(&row).On("CONFLICT (org, email) DO NOTHING").Exec(ctx))
		if err == nil && n == 0 {
			err = waypost.Errorf(waypost.CodeConflict, "email", "there is such a user already")
		}
		if err != nil {
			return err
		}
		return s.auditUser(ctx, tx, by, "user.create", nil, &row)
	})
	if err != nil {
		return made, "", err
	}
	return row.user(), link, nil
}

// newLink gives a row a new sign-in link, in place of one that it may have, and returns the
// token.
func newLink(row *userRow, s *db, by waypost.Caller) string {
	token := strings.ToLower(rand.Text() + rand.Text())
	hash := hashLink(token)
	row.LinkHash, row.LinkExpiresAt, row.LinkBy = &hash, stamp{s.time().Add(waypost.LinkExpiry)}, actorOf(by)
	return token
}

// endLink takes a row's sign-in link away.
func (r *userRow) endLink() { r.LinkHash, r.LinkExpiresAt, r.LinkBy = nil, stamp{}, "" }

// Users returns the users of an organisation, oldest first; of all organisations if org is
// empty.
func (s *users) Users(ctx context.Context, org string) (users []waypost.User, err error) {
	defer wrap(&err, "list users")
	var rows []userRow
	q := s.r.NewSelect().Model(&rows).Order("id")
	if org != "" {
		q.Where("org = ?", org)
	}
	err = q.Scan(ctx)
	return mapped(rows, userRow.user), err
}

// User returns a user, disabled or not; NotFound if there is none of this id.
func (s *users) User(ctx context.Context, id string) (u waypost.User, err error) {
	defer wrap(&err, "load user %s", clip(id))
	var row userRow
	err = scanOne(ctx, s.r.NewSelect().Model(&row).Where("id = ?", cleanText(id)), "user", id)
	return row.user(), err
}

// UserByEmail returns a user of an organisation; NotFound if it has none of this address.
func (s *users) UserByEmail(ctx context.Context, org, email string) (u waypost.User, err error) {
	defer wrap(&err, "load user")
	var row userRow
	q := s.r.NewSelect().Model(&row).Where("org = ? AND email = ?", org, cleanText(waypost.FoldEmail(email)))
	err = notFound(q.Scan(ctx), "email", "there is no such user")
	return row.user(), err
}

// lockUser reads a user's row, which nobody else changes until the transaction ends. NotFound if the
// caller's organisation has none of this id; a caller without one may change all.
func (s *users) lockUser(ctx context.Context, tx bun.Tx, by waypost.Caller, id string) (row userRow, err error) {
	q := tx.NewSelect().Model(&row).Where("id = ?", cleanText(id))
	if sc, _ := by.Within(); sc.Org != "" {
		q.Where("org = ?", sc.Org)
	}
	return row, scanOne(ctx, s.lock(q, "u"), "user", id)
}

// changeUser changes a user's row in one transaction, with the entry of the audit log. NotFound if
// there is none of this id; an error of change is returned, and nothing is changed then.
func (s *users) changeUser(ctx context.Context, by waypost.Caller, action, id string, change func(*userRow) error) error {
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockUser(ctx, tx, by, id)
		if err != nil {
			return err
		}
		before := row
		if err := change(&row); err != nil {
			return err
		}
		return s.updateUser(ctx, tx, by, action, before, &row)
	})
}

// updateUser stores a changed row, which the transaction has locked, with the entry of the audit log.
func (s *users) updateUser(ctx context.Context, tx bun.Tx, by waypost.Caller, action string, before userRow, after *userRow) error {
	if _, err := tx.NewUpdate().Model(after).WherePK().Exec(ctx); err != nil {
		return err
	}
	return s.auditUser(ctx, tx, by, action, &before, after)
}

// LinkUser gives a user a sign-in link and returns its token for the only time. A former
// link cannot be used any more.
func (s *users) LinkUser(ctx context.Context, by waypost.Caller, id string) (link string, err error) {
	defer wrap(&err, "make a sign-in link for user %s", clip(id))
	err = s.changeUser(ctx, by, "user.link", id, func(row *userRow) error {
		link = newLink(row, s.db, by)
		return nil
	})
	return link, err
}

// ResetUser takes a user's password away, ends all sessions, and returns the token of a
// sign-in link, for the only time. One that was disabled may sign in again.
func (s *users) ResetUser(ctx context.Context, by waypost.Caller, id string) (link string, err error) {
	defer wrap(&err, "reset user %s", clip(id))
	err = s.changeUser(ctx, by, "user.reset", id, func(row *userRow) error {
		row.PasswordHash, row.Disabled = "", false
		row.Sessions++
		link = newLink(row, s.db, by)
		return nil
	})
	return link, err
}

// ChangePassword gives a user another password, which ends all sessions, and a sign-in link that
// was not used. waypost.ErrSessionOver if the sessions in which the user was seen are over.
func (s *users) ChangePassword(ctx context.Context, by waypost.Caller, seen waypost.User, passwordHash string) (u waypost.User, err error) {
	defer wrap(&err, "change the password of user %s", clip(seen.ID))
	err = s.changeUser(ctx, by, "user.password", seen.ID, func(row *userRow) error {
		if err := row.goesOn(seen); err != nil {
			return err
		}
		row.PasswordHash = passwordHash
		row.Sessions++
		row.endLink()
		u = row.user()
		return nil
	})
	return u, err
}

// goesOn is waypost.ErrSessionOver if the user was disabled, or their sessions were ended, since they
// were seen.
func (r userRow) goesOn(seen waypost.User) error {
	if r.Disabled || r.Sessions != seen.Sessions {
		return waypost.ErrSessionOver
	}
	return nil
}

// ChangeRole gives a user another role, which holds from the next request on.
func (s *users) ChangeRole(ctx context.Context, by waypost.Caller, id string, role waypost.Role) (err error) {
	if !slices.Contains(waypost.Roles, role) {
		return waypost.Errorf(waypost.CodeBadRequest, "role", "must be viewer, marketer or admin")
	}
	defer wrap(&err, "change the role of user %s", clip(id))
	return s.changeUser(ctx, by, "user.role", id, func(row *userRow) error {
		row.Role, row.RoleByClaim = string(role), false
		return nil
	})
}

// DisableUser has a user neither sign in nor go on from now on.
func (s *users) DisableUser(ctx context.Context, by waypost.Caller, id string) (err error) {
	defer wrap(&err, "disable user %s", clip(id))
	return s.changeUser(ctx, by, "user.disable", id, func(row *userRow) error {
		row.Disabled = true
		row.Sessions++
		row.endLink()
		return nil
	})
}

// DeleteUser deletes a user for good. The audit log keeps the id; an address that applications or
// commands have named as their actor becomes the id there, too. Conflict if no other administrator
// would be left.
func (s *users) DeleteUser(ctx context.Context, by waypost.Caller, id string) (err error) {
	defer wrap(&err, "delete user %s", clip(id))
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		found, err := s.lockUser(ctx, tx, by, id)
		if err != nil {
			return err
		}
		var admins []userRow // locked, so that two who are deleted at once are not both the last but one
		q := tx.NewSelect().Model(&admins).Where("org = ? AND role = ? AND NOT disabled", found.Org, waypost.RoleAdmin).Order("id")
		if err := s.lock(q, "u").Scan(ctx); err != nil {
			return err
		}
		if len(admins) == 1 && admins[0].ID == found.ID {
			return waypost.Errorf(waypost.CodeConflict, "id", "this is the last administrator: make another one first")
		}
		if _, err := tx.NewDelete().Model(&found).WherePK().Exec(ctx); err != nil {
			return err
		}
		if err := forgetAddress(ctx, tx, found); err != nil {
			return err
		}
		return s.auditUser(ctx, tx, by, "user.delete", &found, nil)
	})
}

// forgetAddress puts the id of a user in the place of the e-mail address, where applications and
// commands have named it as their actor.
func forgetAddress(ctx context.Context, tx bun.Tx, u userRow) error {
	_, err := tx.NewUpdate().Model((*userRow)(nil)).Set("link_by = ?", u.ID).Where("org = ? AND link_by = ?", u.Org, u.Email).Exec(ctx)
	if err != nil {
		return err
	}
	for _, second := range append([]string{""}, waypost.SecondFactors...) {
		_, address, err := waypost.AuditChange(nil, linkedBy(u.Email, second))
		if err != nil {
			return err
		}
		_, id, err := waypost.AuditChange(nil, linkedBy(u.ID, second))
		if err != nil {
			return err
		}
		_, err = tx.NewUpdate().Model((*auditRow)(nil)).Set("became = ?", string(id)).
			Where("org = ? AND action = 'session.create' AND became = ?", u.Org, string(address)).Exec(ctx)
		if err != nil {
			return err
		}
	}
	// lower folds ASCII only: on SQLite always, on PostgreSQL by the collation of the column.
	_, err = tx.NewUpdate().Model((*auditRow)(nil)).Set("actor = ?", u.ID).
		Where("org = ? AND actor <> '' AND lower(actor) = ?", u.Org, u.Email).Exec(ctx)
	return err
}

// linkedBy is signedInBy of a link, and names who made the link, "" for Waypost itself.
func linkedBy(actor, second string) fields {
	how := signedInBy(waypost.SignInByLink, second)
	if actor != "" {
		how["linkBy"] = actor
	}
	return how
}

// UserByLink returns whom the token of a sign-in link is for; NotFound if it was used, has
// expired, or never was one.
func (s *users) UserByLink(ctx context.Context, org, token string) (u waypost.User, err error) {
	defer wrap(&err, "load user of a link")
	var row userRow
	q := s.r.NewSelect().Model(&row).Where("link_hash = ? AND link_expires_at > ? AND org = ? AND NOT disabled", hashLink(token), stamp{s.time()}, org)
	err = notFound(q.Scan(ctx), "link", "the link was used, or has expired")
	return row.user(), err
}

// TakeLink is UserByLink, and ends the link: the user signs in by it. A hash that is not empty
// becomes the user's password, which ends all sessions. The author is the user, whoever that is;
// the entry of the sign-in tells who made the link, and which second factor was shown, "" for none.
func (s *users) TakeLink(ctx context.Context, by waypost.Author, token, passwordHash, second string) (u waypost.User, err error) {
	defer wrap(&err, "take a link")
	found, err := s.UserByLink(ctx, by.Org, token)
	if err != nil {
		return u, err
	}
	by.Actor = found.ID
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockUser(ctx, tx, by, found.ID)
		if err != nil {
			return err
		}
		if row.LinkHash == nil || *row.LinkHash != hashLink(token) || row.Disabled {
			return waypost.Errorf(waypost.CodeNotFound, "link", "the link was used, or has expired")
		}
		before := row
		row.endLink()
		if passwordHash != "" {
			row.PasswordHash = passwordHash
			row.Sessions++
		}
		if _, err := tx.NewUpdate().Model(&row).WherePK().Exec(ctx); err != nil {
			return err
		}
		u = row.user()
		if passwordHash != "" {
			if err := s.auditUser(ctx, tx, by, "user.password", &before, &row); err != nil {
				return err
			}
		}
		of := inOrg(by, row.Org)
		return s.audit.add(ctx, tx, &of, "session.create", row.ID, nil, linkedBy(before.LinkBy, second))
	})
	return u, err
}
