package store

import (
	"context"
	"errors"

	"github.com/uptrace/bun"

	"waypost"
)

type suppressionRow struct {
	bun.BaseModel `bun:"table:suppressions,alias:s"`

	ID string `bun:"id,pk"`
	waypost.Scope
	Channel     string  `bun:"channel"`
	MobilePhone *string `bun:"mobile_phone"`
	Email       *string `bun:"email"`
	EmailFolded *string `bun:"email_folded"`
	ExternalID  *string `bun:"external_id"`
	CreatedAt   stamp   `bun:"created_at"`
}

func newSuppressionRow(sc waypost.Scope, s waypost.Suppression) (suppressionRow, error) {
	row := suppressionRow{
		ID: s.ID, Scope: sc, Channel: s.Channel, MobilePhone: nullable(s.MobilePhone), Email: nullable(s.Email),
		EmailFolded: nullable(waypost.FoldText(s.Email)), ExternalID: nullable(s.ExternalID), CreatedAt: stamp{s.CreatedAt},
	}
	var p waypost.Problems
	checkText(&p, "channel", s.Channel)
	checkText(&p, "email", s.Email)
	checkText(&p, "externalId", s.ExternalID)
	return row, p.Err("")
}

func (r suppressionRow) suppression() waypost.Suppression {
	return waypost.Suppression{
		ID: r.ID, Channel: r.Channel, MobilePhone: text(r.MobilePhone), Email: text(r.Email), ExternalID: text(r.ExternalID), CreatedAt: r.CreatedAt.Time,
	}
}

// CreateSuppression stores a suppression under an id minted here and returns it, or the one
// that there is of the channel and the address, as Existed says. Attempts that are opened
// after it has returned are none of a lead with that address.
func (s *suppressions) CreateSuppression(
	ctx context.Context, by waypost.Caller, sup waypost.Suppression,
) (_ waypost.Suppression, err error) {
	defer wrap(&err, "create suppression")
	sc, author := by.Within()
	now := s.time()
	sup.ID, sup.CreatedAt = waypost.NewID(waypost.PrefixSuppression, now), now
	row, err := newSuppressionRow(sc, sup)
	if err != nil {
		return sup, err
	}
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		for range maxTries {
			// A statement that fails is logged by PostgreSQL, with all that is in it.
			n, err := affected(tx.NewInsert().Model(&row).On("CONFLICT DO NOTHING").Exec(ctx))
			if err != nil {
				return err
			}
			if n == 1 {
				sup = row.suppression()
				if err := s.audit.add(ctx, tx, author, "suppression.create", sup.ID, nil, auditedSuppression(sup)); err != nil {
					return err
				}
				return s.idempotency.keepResult(ctx, tx, sup)
			}
			var there []suppressionRow
			err = tx.NewSelect().Model(&there).Where("s.org = ? AND s.stage = ? AND s.channel = ?", sc.Org, sc.Stage, row.Channel).
				Where("(s.mobile_phone = ? OR s.email_folded = ? OR s.external_id = ?)", row.MobilePhone, row.EmailFolded, row.ExternalID).Scan(ctx)
			if err != nil {
				return err
			}
			if len(there) > 0 {
				sup = there[0].suppression()
				sup.Existed = true
				return s.idempotency.keepResult(ctx, tx, sup)
			}
		}
		return errors.New("suppressions of the address come and go")
	})
	return sup, err
}

// auditedSuppression is a suppression as its audit entries show it: without the address.
func auditedSuppression(s waypost.Suppression) fields {
	return fields{"channel": s.Channel, "address": s.AddressKind()}
}

// Suppression returns a suppression; NotFound if the scope has none of this id.
func (s *suppressions) Suppression(ctx context.Context, sc waypost.Scope, id string) (_ waypost.Suppression, err error) {
	defer wrap(&err, "load suppression %s", clip(id))
	var row suppressionRow
	err = scanByID(ctx, s.r.NewSelect().Model(&row), sc, "suppression", id)
	return row.suppression(), err
}

// ListSuppressions returns the suppressions of the scope that match the filter, newest first.
func (s *suppressions) ListSuppressions(
	ctx context.Context, sc waypost.Scope, f waypost.SuppressionFilter, page waypost.Page,
) (_ []waypost.Suppression, err error) {
	defer wrap(&err, "list suppressions")
	var rows []suppressionRow
	q := pageOf(s.r.NewSelect().Model(&rows), sc, "id", page)
	if f.Channel != "" {
		q.Where("s.channel = ?", cleanText(f.Channel))
	}
	if f.LeadsID != 0 {
		q.Where("s.id IN (SELECT id FROM ("+suppressionsOf+") AS x)", bun.List([]int64{f.LeadsID}), bun.List([]int64{f.LeadsID}), bun.List([]int64{f.LeadsID}))
	}
	err = q.Scan(ctx)
	return mapped(rows, suppressionRow.suppression), err
}

// suppressionsOf selects the suppressions of leads by the keys of each kind of address: all
// suppressions might be read otherwise. The leads are its parameter, three times.
const suppressionsOf = `SELECT l.leads_id, s.id, s.channel FROM leads AS l JOIN suppressions AS s
		ON s.org = l.org AND s.stage = l.stage AND s.external_id = l.external_id WHERE l.leads_id IN (?)
	UNION SELECT l.leads_id, s.id, s.channel FROM leads AS l JOIN suppressions AS s
		ON s.org = l.org AND s.stage = l.stage AND s.email_folded = l.email_folded WHERE l.leads_id IN (?)
	UNION SELECT p.leads_id, s.id, s.channel FROM lead_phones AS p JOIN suppressions AS s
		ON s.org = p.org AND s.stage = p.stage AND s.mobile_phone = p.phone WHERE p.leads_id IN (?)`

// SuppressedChannels returns the channels that leads are suppressed in. The caller has
// checked that the leads are of its scope.
func (s *suppressions) SuppressedChannels(ctx context.Context, leads []int64) (channels map[int64][]string, err error) {
	defer wrap(&err, "look for suppressions")
	channels = map[int64][]string{}
	if len(leads) == 0 {
		return channels, nil
	}
	var rows []struct {
		LeadsID int64  `bun:"leads_id"`
		ID      string `bun:"id"`
		Channel string `bun:"channel"`
	}
	list := bun.List(distinct(leads))
	if err := s.r.NewRaw(suppressionsOf+" ORDER BY leads_id, channel, id", list, list, list).Scan(ctx, &rows); err != nil {
		return nil, err
	}
	for _, row := range rows {
		if list := channels[row.LeadsID]; len(list) == 0 || list[len(list)-1] != row.Channel {
			channels[row.LeadsID] = append(list, row.Channel)
		}
	}
	return channels, nil
}

// DeleteSuppression deletes a suppression unless check (unless nil), which sees it as it is,
// refuses; NotFound if the scope has none of this id.
func (s *suppressions) DeleteSuppression(
	ctx context.Context, by waypost.Caller, id string, check func(waypost.Suppression) error,
) (err error) {
	defer wrap(&err, "delete suppression %s", clip(id))
	sc, author := by.Within()
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		var row suppressionRow
		if err := scanByID(ctx, s.lockFor(tx.NewSelect().Model(&row), forDelete), sc, "suppression", id); err != nil {
			return err
		}
		if check != nil {
			if err := check(row.suppression()); err != nil {
				return err
			}
		}
		if _, err := tx.NewDelete().Model(&row).WherePK().Exec(ctx); err != nil {
			return err
		}
		return s.audit.add(ctx, tx, author, "suppression.delete", row.ID, auditedSuppression(row.suppression()), nil)
	})
}
