package store

import (
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
	"waypost/delivery"
)

// A touchpoint is unwanted if its lead is suppressed in the webhook's channel, or has not
// agreed to it where the webhook requires that. It is skipped, whichever attempt is next, and
// leaves a delivery that says why.

// isSuppressed is the condition that a lead (alias l) is suppressed in a channel, which is a
// parameter or a column.
func isSuppressed(channel string) string {
	of := "s.org = l.org AND s.stage = l.stage AND s.channel = " + channel + " AND "
	return "(EXISTS (SELECT 1 FROM suppressions AS s WHERE " + of + "s.external_id = l.external_id)" +
		" OR EXISTS (SELECT 1 FROM suppressions AS s WHERE " + of + "s.email_folded = l.email_folded)" +
		" OR EXISTS (SELECT 1 FROM lead_phones AS p JOIN suppressions AS s ON s.mobile_phone = p.phone WHERE " + of + "p.leads_id = l.leads_id))"
}

// isWanted is the condition of PostgreSQL that a touchpoint of a lead is not unwanted. It is a
// subquery of one row: a join might be planned to read the whole table.
func isWanted(lead, channel, needsConsent string) string {
	return "NOT COALESCE((SELECT " + isSuppressed(channel) + " OR " + needsConsent + " AND COALESCE(l.consents::jsonb ->> " + channel + ", '') <> 'true'" +
		" FROM leads AS l WHERE l.leads_id = " + lead + "), FALSE)"
}

// unwanted says why openings are not to be sent, of those that are not.
func (s *attempts) unwanted(
	ctx context.Context, db bun.IDB, openings map[waypost.Touchpoint]delivery.Opening,
) (map[waypost.Touchpoint]string, error) {
	type group struct {
		waypost.Scope
		channel string
	}
	groups := map[group][]delivery.Opening{}
	for _, o := range openings {
		if o.Channel != "" {
			key := group{o.Scope, o.Channel}
			groups[key] = append(groups[key], o)
		}
	}
	reasons := map[waypost.Touchpoint]string{}
	for key, list := range groups {
		leads := distinct(mapped(list, func(o delivery.Opening) int64 { return o.Delivery.LeadsID }))
		var rows []struct {
			LeadsID    int64   `bun:"leads_id"`
			Consents   *string `bun:"consents"`
			Suppressed bool    `bun:"suppressed"`
		}
		err := db.NewRaw("SELECT l.leads_id, l.consents, "+isSuppressed("c.channel")+" AS suppressed FROM (SELECT CAST(? AS TEXT) AS channel) AS c CROSS JOIN leads AS l"+
			" WHERE l.leads_id IN (?) AND l.org = ? AND l.stage = ?", key.channel, bun.List(leads), key.Org, key.Stage).Scan(ctx, &rows)
		if err != nil {
			return nil, fmt.Errorf("look for suppressions and consents: %w", err)
		}
		suppressed, agrees := map[int64]bool{}, map[int64]bool{}
		for _, row := range rows {
			var f waypost.LeadFields
			if err := fromJSON(text(row.Consents), &f.Consents); err != nil {
				return nil, fmt.Errorf("lead %d: %w", row.LeadsID, err)
			}
			suppressed[row.LeadsID], agrees[row.LeadsID] = row.Suppressed, f.Agrees(key.channel)
		}
		for _, o := range list {
			agreed, there := agrees[o.Delivery.LeadsID]
			switch {
			case suppressed[o.Delivery.LeadsID]:
				reasons[o.Touchpoint] = waypost.SkipSuppressed
			case o.NeedsConsent && there && !agreed: // a lead that is gone is found to be so later
				reasons[o.Touchpoint] = waypost.SkipConsent
			}
		}
	}
	return reasons, nil
}

// SkipUnwanted skips the openings that are unwanted at this moment, as OpenAttempts would,
// and opens none, so that their messages are not rendered. The answer has the skipped ones
// only; another opening can be unwanted a moment later.
func (s *attempts) SkipUnwanted(
	ctx context.Context, openings []delivery.Opening,
) (sendings map[waypost.Touchpoint]delivery.Sending, err error) {
	defer wrap(&err, "skip unwanted touchpoints")
	sendings = map[waypost.Touchpoint]delivery.Sending{}
	// Without a lock first: usually there are none.
	reasons, err := s.unwanted(ctx, s.r, firstOpenings(openings))
	if err != nil || len(reasons) == 0 {
		return sendings, err
	}
	err = s.writeRows(ctx, len(reasons), func(ctx context.Context, tx bun.Tx) error {
		clear(sendings)
		first := firstOpenings(openings)
		maps.DeleteFunc(first, func(key waypost.Touchpoint, _ delivery.Opening) bool { return reasons[key] == "" })
		stopped, err := s.heldOf(ctx, tx, first)
		if err != nil {
			return err
		}
		return s.skipUnwanted(ctx, tx, first, stopped, sendings)
	})
	return sendings, err
}

// skipUnwanted skips the openings that are unwanted, records that, and moves them from
// openings to sendings.
func (s *attempts) skipUnwanted(
	ctx context.Context, tx bun.Tx, openings map[waypost.Touchpoint]delivery.Opening, stopped map[waypost.Touchpoint]bool,
	sendings map[waypost.Touchpoint]delivery.Sending,
) error {
	reasons, err := s.unwanted(ctx, tx, openings)
	if err != nil {
		return err
	}
	maps.DeleteFunc(reasons, func(key waypost.Touchpoint, _ string) bool { return stopped[key] })
	if len(reasons) == 0 {
		return nil
	}
	// All of them at once, in the order of their keys.
	deliveries, err := s.deliveries.lockDeliveries(ctx, tx, slices.Collect(maps.Keys(openings)))
	if err != nil {
		return err
	}
	skipped, err := s.storeSkipped(ctx, tx, s.skipOpenings(reasons, openings, deliveries, sendings))
	if err != nil {
		return err
	}
	var progress []waypost.Progress
	var rounds []roundKey
	for _, row := range skipped {
		key := row.touchpoint()
		sending := row.sending(nil)
		sending.Skipped = row.DeferredReason
		sendings[key] = sending
		p, err := openings[key].SkippedFor(row.DeferredReason)
		if err != nil {
			return err
		}
		if p != nil {
			progress = append(progress, *p)
		}
		if row.Round > 1 {
			rounds = append(rounds, roundKey{row.EnrollmentID, row.Visit, row.Round})
		}
	}
	for key := range sendings {
		delete(openings, key)
	}
	now := stamp{s.time()}
	err = cancelRound.run(ctx, s.db, tx, len(rounds), func(i int) []any { return []any{rounds[i].EnrollmentID, rounds[i].Visit, rounds[i].Round, now} }, nil)
	if err != nil || len(progress) == 0 {
		return err
	}
	return s.progress.recordProgress(ctx, tx, progress)
}

// skippedDeliveries are the deliveries of openings that are skipped, as they are to be stored.
type skippedDeliveries struct {
	missing    []deliveryRow  // without a row until now
	locked     []*deliveryRow // with one
	superseded []attemptRow   // attempts of locked that were under way
}

// skipOpenings skips the openings for the reasons. An opening whose Skipped is nil is held instead, which it
// notes in sendings; left out are those of an attempt that is under way or over already.
func (s *attempts) skipOpenings(
	reasons map[waypost.Touchpoint]string, openings map[waypost.Touchpoint]delivery.Opening,
	deliveries map[waypost.Touchpoint]*deliveryRow, sendings map[waypost.Touchpoint]delivery.Sending,
) (list skippedDeliveries) {
	for key, reason := range reasons {
		o, row := openings[key], deliveries[key]
		switch {
		case o.Skipped == nil && o.Round <= 1:
			sendings[key] = delivery.Sending{Held: true}
		case row == nil && o.Attempt == 1 && o.Round <= 1 && o.Delivery.MessageID != "":
			made := newDeliveryRow(key, o.Scope, o.Delivery)
			made.skip(reason)
			list.missing = append(list.missing, made)
		case row != nil && row.mayOpen(o):
			if row.OpenAttempt > 0 {
				list.superseded = append(list.superseded, s.deliveries.interrupt(row)...)
			}
			row.skip(reason)
			list.locked = append(list.locked, row)
		}
	}
	return list
}

// storeSkipped returns the deliveries that it has stored: of the missing ones, not those that another
// transaction has inserted meanwhile.
func (s *attempts) storeSkipped(ctx context.Context, tx bun.Tx, list skippedDeliveries) ([]*deliveryRow, error) {
	inserted, err := s.deliveries.insertDeliveries(ctx, tx, list.missing)
	if err != nil {
		return nil, err
	}
	if err := s.deliveries.writeAttempts(ctx, tx, list.superseded); err != nil {
		return nil, err
	}
	if err := s.deliveries.updateDeliveries(ctx, tx, list.locked); err != nil {
		return nil, err
	}
	skipped := list.locked
	for i := range list.missing {
		if inserted[list.missing[i].touchpoint()] {
			skipped = append(skipped, &list.missing[i])
		}
	}
	return skipped, nil
}

// skip notes that the delivery is skipped for good.
func (r *deliveryRow) skip(reason string) {
	r.Status, r.DeferredReason = waypost.DeliveryCanceled, reason
	r.DeferredSince, r.NextAttemptAt = stamp{}, stamp{}
	r.OpenAttempt, r.OpenAt, r.OpenBy = 0, stamp{}, ""
}
