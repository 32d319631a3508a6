package store

import (
	"context"
	"fmt"

	"waypost"
)

// emptyList is how a list without an element is stored.
const emptyList = "[]"

func totpPurpose(userID string) string { return "totp/" + userID }

// secondFactor is a user's second factor without the secret of the app. What is stored was encoded here; of
// no user there is nothing.
func (r userRow) secondFactor() waypost.SecondFactor {
	f := waypost.SecondFactor{TOTP: r.TOTPSecret != nil}
	if r.Passkeys != emptyList {
		_ = fromJSON(r.Passkeys, &f.Passkeys)
	}
	if r.RecoveryCodes != emptyList {
		_ = fromJSON(r.RecoveryCodes, &f.RecoveryCodes)
	}
	return f
}

// setSecondFactor changes a row's second factor. Recovery codes go with the last factor: they stand in for it.
func (s *users) setSecondFactor(row *userRow, f waypost.SecondFactor, was string) (err error) {
	row.TOTPStep = f.TOTPStep
	switch {
	case f.TOTPSecret == "":
		row.TOTPSecret, row.TOTPStep, f.TOTP = nil, 0, false
	case f.TOTPSecret != was:
		row.TOTPSecret = s.keys.Seal([]byte(f.TOTPSecret), totpPurpose(row.ID))
	}
	if f.TOTP = f.TOTPSecret != ""; !f.Any() {
		f.RecoveryCodes = nil
	}
	if row.Passkeys, err = toJSON(append([]waypost.Passkey{}, f.Passkeys...)); err == nil {
		row.RecoveryCodes, err = toJSON(append([]string{}, f.RecoveryCodes...))
	}
	return err
}

// ChangeSecondFactor changes the second factor of a user as change does, with the row locked: of two
// that use the same code at once, one finds it used. An error of change is returned, and nothing is
// changed then. waypost.ErrSessionOver if the sessions in which the user was seen are over.
func (s *users) ChangeSecondFactor(
	ctx context.Context, by waypost.Caller, seen waypost.User, change func(*waypost.SecondFactor) error,
) (u waypost.User, err error) {
	defer wrap(&err, "change the second factor of user %s", clip(seen.ID))
	err = s.changeUser(ctx, by, "user.secondFactor", seen.ID, func(row *userRow) error {
		if err := row.goesOn(seen); err != nil {
			return err
		}
		f := row.secondFactor()
		if err := s.openTOTP(*row, &f); err != nil {
			return err
		}
		was := f.TOTPSecret
		if err := change(&f); err != nil {
			return err
		}
		err := s.setSecondFactor(row, f, was)
		u = row.user()
		return err
	})
	return u, err
}

// openTOTP reads the secret of the app.
func (s *users) openTOTP(row userRow, f *waypost.SecondFactor) error {
	f.TOTPStep = row.TOTPStep
	if row.TOTPSecret == nil {
		return nil
	}
	secret, err := s.keys.Open(row.TOTPSecret, totpPurpose(row.ID))
	if err != nil {
		return fmt.Errorf("read the TOTP secret of user %s: %w", row.ID, err)
	}
	f.TOTPSecret = string(secret)
	return nil
}

// RemoveSecondFactor takes a user's second factor away, all of it, also one that cannot be read. Their
// sessions end then: one of them may be on the phone that was lost. Who has none keeps their sessions.
func (s *users) RemoveSecondFactor(ctx context.Context, by waypost.Caller, id string) (err error) {
	defer wrap(&err, "remove the second factor of user %s", clip(id))
	return s.changeUser(ctx, by, "user.secondFactor", id, func(row *userRow) error {
		if row.TOTPSecret == nil && row.Passkeys == emptyList {
			return nil
		}
		row.forgetSecondFactor()
		row.Sessions++
		return nil
	})
}

func (r *userRow) forgetSecondFactor() {
	r.TOTPSecret, r.TOTPStep, r.Passkeys, r.RecoveryCodes = nil, 0, emptyList, emptyList
}

// auditFactors adds what the audit log tells of second factors: whether there is an app, and how many
// passkeys and recovery codes there are. That a code of the app was used is no change.
func auditFactors(b, a userRow, was, is fields) {
	was["app"], is["app"] = waypost.AuditSecret(string(b.TOTPSecret), string(a.TOTPSecret))
	before, after := b.secondFactor(), a.secondFactor()
	for name, n := range map[string][2]int{
		"passkeys":      {len(before.Passkeys), len(after.Passkeys)},
		"recoveryCodes": {len(before.RecoveryCodes), len(after.RecoveryCodes)},
	} {
		for i, side := range []fields{was, is} {
			if n[i] > 0 {
				side[name] = n[i]
			}
		}
	}
	if n := len(after.RecoveryCodes); n > 0 && n == len(before.RecoveryCodes) && a.RecoveryCodes != b.RecoveryCodes {
		is["recoveryCodes"] = waypost.SecretReplaced
	}
}
