package store

import (
	"context"

	"github.com/uptrace/bun"

	"waypost"
)

// SignInByIssuer signs in whom an issuer knows, in one transaction. The user is the one to whom the
// issuer's account belongs. If there is none yet, it becomes the account of the user who has the
// verified e-mail address and no other account, or of a new user if a claim gives a role. A role that
// a claim gives replaces the one of before; if a claim gave that one and gives none any more, the user
// has none, and all sessions end. A user who has a second factor must have shown it before the account
// becomes theirs. refused says why nobody is signed in, "" if somebody is.
func (s *users) SignInByIssuer(ctx context.Context, by waypost.Author, said waypost.IssuerSignIn,
) (u waypost.User, refused string, err error) {
	defer wrap(&err, "sign in by the issuer")
	said.Subject = cleanText(said.Subject)
	issuer := by
	issuer.Actor = said.Issuer
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		u, refused = waypost.User{}, ""
		row, err := s.lockOfIssuer(ctx, tx, by.Org, said)
		if err != nil {
			return err
		}
		if row == nil && (said.Role == "" || said.Email == "") {
			refused = waypost.FailedUnknown
			return nil
		}
		if row == nil {
			row, err = s.createByIssuer(ctx, tx, issuer, said)
		} else {
			refused, err = s.changeByIssuer(ctx, tx, issuer, row, said)
		}
		if err != nil {
			return err
		}
		u = row.user()
		if refused != "" {
			return nil
		}
		of := inOrg(by, row.Org)
		of.Actor = row.ID
		return s.audit.add(ctx, tx, &of, "session.create", row.ID, nil, signedInBy(waypost.SignInByIssuer, said.SecondFactor))
	})
	return u, refused, err
}

// lockOfIssuer finds the user whose account it is, else the one of the e-mail address; nil for none.
func (s *users) lockOfIssuer(ctx context.Context, tx bun.Tx, org string, said waypost.IssuerSignIn) (*userRow, error) {
	var rows []userRow
	q := tx.NewSelect().Model(&rows).Where("org = ? AND iss = ? AND iss <> '' AND sub = ?", org, said.Issuer, said.Subject)
	if err := s.lock(q, "u").Scan(ctx); err != nil {
		return nil, err
	}
	if len(rows) == 0 && said.Email != "" {
		q := tx.NewSelect().Model(&rows).Where("org = ? AND email = ?", org, cleanText(said.Email))
		if err := s.lock(q, "u").Scan(ctx); err != nil {
			return nil, err
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	return &rows[0], nil
}

func (s *users) createByIssuer(ctx context.Context, tx bun.Tx, issuer waypost.Author, said waypost.IssuerSignIn) (*userRow, error) {
	made := waypost.User{Org: issuer.Org, Email: said.Email, Name: said.Name, Role: said.Role}
	if err := made.Validate(); err != nil {
		return nil, err
	}
	now := s.time()
	row := userRow{
		ID: waypost.NewID(waypost.PrefixUser, now), Org: made.Org, Email: made.Email, Name: made.Name, Role: string(made.Role), RoleByClaim: true,
		Iss: said.Issuer, Sub: said.Subject, CreatedAt: stamp{now},
	}
	row.forgetSecondFactor()
	n, err := affected(tx.NewInsert().Model(&row).On("CONFLICT DO NOTHING").Exec(ctx))
	if err == nil && n == 0 { // the same person in another tab
		err = waypost.Errorf(waypost.CodeConflict, "email", "there is such a user already")
	}
	if err != nil {
		return nil, err
	}
	return &row, s.auditUser(ctx, tx, issuer, "user.create", nil, &row)
}

// changeByIssuer makes the account the user's and gives the role of the claims.
func (s *users) changeByIssuer(ctx context.Context, tx bun.Tx, issuer waypost.Author, row *userRow, said waypost.IssuerSignIn,
) (refused string, err error) {
	switch {
	case row.Iss != "" && (row.Iss != said.Issuer || row.Sub != said.Subject):
		return waypost.FailedSubject, nil
	case row.Disabled:
		return waypost.FailedDisabled, nil
	case row.Iss == "" && row.user().SecondFactor.Any() && said.SecondFactor == "":
		return waypost.NeedsSecondFactor, nil
	case said.ByClaims && said.Role == "" && row.RoleByClaim:
		if row.Role == string(waypost.RoleNone) {
			return waypost.FailedRole, nil
		}
		before := *row
		row.Role = string(waypost.RoleNone)
		row.Sessions++
		return waypost.FailedRole, s.updateUser(ctx, tx, issuer, "user.role", before, row)
	}
	if row.Iss == "" {
		before := *row
		row.Iss, row.Sub = said.Issuer, said.Subject
		if err := s.updateUser(ctx, tx, issuer, "user.bind", before, row); err != nil {
			return "", err
		}
	}
	if said.Role == "" || row.RoleByClaim && row.Role == string(said.Role) {
		return "", nil
	}
	before := *row
	row.Role, row.RoleByClaim = string(said.Role), true
	return "", s.updateUser(ctx, tx, issuer, "user.role", before, row)
}

// ReleaseUser takes the issuer's account away from a user, which ends all sessions. The next account
// with the user's e-mail address that signs in becomes theirs.
func (s *users) ReleaseUser(ctx context.Context, by waypost.Caller, id string) (err error) {
	defer wrap(&err, "release user %s", clip(id))
	return s.changeUser(ctx, by, "user.release", id, func(row *userRow) error {
		if row.Iss != "" {
			row.Iss, row.Sub = "", ""
			row.Sessions++
		}
		return nil
	})
}

// UserBySubject returns the user to whom an account of an issuer belongs; NotFound if there is none.
func (s *users) UserBySubject(ctx context.Context, org, issuer, subject string) (u waypost.User, err error) {
	defer wrap(&err, "load user of an account")
	var row userRow
	q := s.r.NewSelect().Model(&row).Where("org = ? AND iss = ? AND iss <> '' AND sub = ?", org, issuer, cleanText(subject))
	err = notFound(q.Scan(ctx), "sub", "there is no such user")
	return row.user(), err
}

// EndSessions ends all sessions of a user.
func (s *users) EndSessions(ctx context.Context, by waypost.Caller, id string) (err error) {
	defer wrap(&err, "end the sessions of user %s", clip(id))
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockUser(ctx, tx, by, id)
		if err != nil {
			return err
		}
		row.Sessions++
		if _, err := tx.NewUpdate().Model(&row).Column("sessions").WherePK().Exec(ctx); err != nil {
			return err
		}
		_, author := by.Within()
		if author == nil {
			return nil
		}
		of := inOrg(*author, row.Org)
		return s.audit.add(ctx, tx, &of, "session.end", row.ID, nil, fields{"session": waypost.SessionAll})
	})
}
