package store

import (
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
	Disabled      bool    `bun:"disabled"`
	PasswordHash  string  `bun:"password_hash"`
	Sessions      int     `bun:"sessions"`
	LinkHash      *string `bun:"link_hash"`
	LinkExpiresAt stamp   `bun:"link_expires_at"`
	CreatedAt     stamp   `bun:"created_at"`
}

func (r userRow) user() waypost.User {
	return waypost.User{
		ID: r.ID, Org: r.Org, Email: r.Email, Name: r.Name, Role: waypost.Role(r.Role), Disabled: r.Disabled,
		PasswordHash: r.PasswordHash, Sessions: r.Sessions, CreatedAt: r.CreatedAt.Time,
	}
}

// hashLink is what is stored of a sign-in link's token, which is random: no salt.
func hashLink(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

// CreateUser stores a new user with a sign-in link, whose token it returns for the only
// time. ID and CreatedAt are minted here. BadRequest if a field is faulty, Conflict if the
// organisation has a user of this e-mail address.
func (s *Store) CreateUser(ctx context.Context, u waypost.User) (made waypost.User, link string, err error) {
	if err := u.Validate(); err != nil {
		return made, "", err
	}
	defer wrap(&err, "create user")
	now := s.time()
	row := userRow{ID: waypost.NewID(waypost.PrefixUser, now), Org: u.Org, Email: u.Email, Name: u.Name, Role: string(u.Role), CreatedAt: stamp{now}}
	link = newLink(&row, s)
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := affected(tx.NewInsert().Model(&row).On("CONFLICT (org, email) DO NOTHING").Exec(ctx))
		if err == nil && n == 0 {
			err = waypost.Errorf(waypost.CodeConflict, "email", "there is such a user already")
		}
		return err
	})
	if err != nil {
		return made, "", err
	}
	return row.user(), link, nil
}

// newLink gives a row a new sign-in link, in place of one that it may have, and returns the
// token.
func newLink(row *userRow, s *Store) string {
	token := strings.ToLower(rand.Text() + rand.Text())
	hash := hashLink(token)
	row.LinkHash, row.LinkExpiresAt = &hash, stamp{s.time().Add(waypost.LinkExpiry)}
	return token
}

// Users returns the users of an organisation, oldest first; of all organisations if org is
// empty.
func (s *Store) Users(ctx context.Context, org string) (users []waypost.User, err error) {
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
func (s *Store) User(ctx context.Context, id string) (u waypost.User, err error) {
	defer wrap(&err, "load user %s", clip(id))
	var row userRow
	err = scanOne(ctx, s.r.NewSelect().Model(&row).Where("id = ?", cleanText(id)), "user", id)
	return row.user(), err
}

// UserByEmail returns a user of an organisation; NotFound if it has none of this address.
func (s *Store) UserByEmail(ctx context.Context, org, email string) (u waypost.User, err error) {
	defer wrap(&err, "load user")
	var row userRow
	q := s.r.NewSelect().Model(&row).Where("org = ? AND email = ?", org, cleanText(strings.ToLower(email)))
	err = notFound(q.Scan(ctx), "email", "there is no such user")
	return row.user(), err
}

// changeUser changes a user's row in one transaction; NotFound if there is none of this id.
func (s *Store) changeUser(ctx context.Context, id string, change func(*userRow)) error {
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		var row userRow
		q := tx.NewSelect().Model(&row).Where("id = ?", cleanText(id))
		if err := scanOne(ctx, s.lock(q, "u"), "user", id); err != nil {
			return err
		}
		change(&row)
		_, err := tx.NewUpdate().Model(&row).WherePK().Exec(ctx)
		return err
	})
}

// LinkUser gives a user a sign-in link and returns its token for the only time. A former
// link cannot be used any more.
func (s *Store) LinkUser(ctx context.Context, id string) (link string, err error) {
	defer wrap(&err, "make a sign-in link for user %s", clip(id))
	err = s.changeUser(ctx, id, func(row *userRow) { link = newLink(row, s) })
	return link, err
}

// ResetUser takes a user's password away, ends all sessions, and returns the token of a
// sign-in link, for the only time. One that was disabled may sign in again.
func (s *Store) ResetUser(ctx context.Context, id string) (link string, err error) {
	defer wrap(&err, "reset user %s", clip(id))
	err = s.changeUser(ctx, id, func(row *userRow) {
		row.PasswordHash, row.Disabled = "", false
		row.Sessions++
		link = newLink(row, s)
	})
	return link, err
}

// ChangeRole gives a user another role, which holds from the next request on.
func (s *Store) ChangeRole(ctx context.Context, id string, role waypost.Role) (err error) {
	if !slices.Contains(waypost.Roles, role) {
		return waypost.Errorf(waypost.CodeBadRequest, "role", "must be viewer, marketer or admin")
	}
	defer wrap(&err, "change the role of user %s", clip(id))
	return s.changeUser(ctx, id, func(row *userRow) { row.Role = string(role) })
}

// DisableUser has a user neither sign in nor go on from now on.
func (s *Store) DisableUser(ctx context.Context, id string) (err error) {
	defer wrap(&err, "disable user %s", clip(id))
	return s.changeUser(ctx, id, func(row *userRow) {
		row.Disabled, row.LinkHash, row.LinkExpiresAt = true, nil, stamp{}
		row.Sessions++
	})
}

// UserByLink returns whom the token of a sign-in link is for; NotFound if it was used, has
// expired, or never was one.
func (s *Store) UserByLink(ctx context.Context, org, token string) (u waypost.User, err error) {
	defer wrap(&err, "load user of a link")
	var row userRow
	q := s.r.NewSelect().Model(&row).Where("link_hash = ? AND link_expires_at > ? AND org = ? AND NOT disabled", hashLink(token), stamp{s.time()}, org)
	err = notFound(q.Scan(ctx), "link", "the link was used, or has expired")
	return row.user(), err
}

// TakeLink is UserByLink, and ends the link. A hash that is not empty becomes the user's
// password, which ends all sessions.
func (s *Store) TakeLink(ctx context.Context, org, token, passwordHash string) (u waypost.User, err error) {
	defer wrap(&err, "take a link")
	found, err := s.UserByLink(ctx, org, token)
	if err != nil {
		return u, err
	}
	taken := false
	err = s.changeUser(ctx, found.ID, func(row *userRow) {
		taken = row.LinkHash != nil && *row.LinkHash == hashLink(token) && !row.Disabled
		if !taken {
			return
		}
		row.LinkHash, row.LinkExpiresAt = nil, stamp{}
		if passwordHash != "" {
			row.PasswordHash = passwordHash
			row.Sessions++
		}
		u = row.user()
	})
	if err == nil && !taken {
		err = waypost.Errorf(waypost.CodeNotFound, "link", "the link was used, or has expired")
	}
	return u, err
}
