package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// erasePage bounds what one statement of a lead's deletion changes. A lead that a
// journey lets in again and again can have very many deliveries, and events come as others
// send them.
const erasePage = 100

// eachPageOfLead calls each for the deliveries of a lead, as many at a time as one
// statement is for.
func eachPageOfLead(ctx context.Context, tx bun.Tx, lead int64, each func([]deliveryRow) error) error {
	for after := ""; ; {
		var page []deliveryRow
		err := tx.NewSelect().Model(&page).Column("enrollment_id", "visit", "message_id", "status").
			Where("d.leads_id = ? AND d.message_id > ?", lead, after).Order("d.message_id").Limit(erasePage).Scan(ctx)
		if err != nil {
			return fmt.Errorf("look for messages: %w", err)
		}
		if len(page) > 0 {
			after = page[len(page)-1].MessageID
			if err := each(page); err != nil {
				return err
			}
		}
		if len(page) < erasePage {
			return nil
		}
	}
}

// lockDeliveriesOfLead waits for transactions that record something of a lead's
// deliveries, and keeps new ones waiting until this one ends.
func (s *leadChanges) lockDeliveriesOfLead(ctx context.Context, tx bun.Tx, lead int64) error {
	if !s.othersWrite() {
		return nil
	}
	return eachPageOfLead(ctx, tx, lead, func(page []deliveryRow) error {
		_, err := s.deliveries.lockDeliveries(ctx, tx, mapped(page, deliveryRow.touchpoint))
		return err
	})
}

// eraseLead drops what is stored of a lead beside its row: its messages that are decided, its
// enrollments' params and the events that these began by, its events, the answers that tell of
// it, and what launches name it by. It fills e with what that was.
func (s *leadChanges) eraseLead(ctx context.Context, tx bun.Tx, sc waypost.Scope, e *waypost.Erasure) error {
	err := eachPageOfLead(ctx, tx, e.LeadsID, func(page []deliveryRow) error {
		e.Kept.Deliveries += int64(len(page))
		page = slices.DeleteFunc(page, func(d deliveryRow) bool { return !d.Status.Final() })
		n, err := clearPayloads(ctx, tx, mapped(page, deliveryRow.key))
		e.Erased.Messages += n
		return err
	})
	if err != nil {
		return err
	}
	for n := erasePage; n == erasePage; e.Erased.Params += n {
		n, err = affected(tx.NewRaw(`UPDATE enrollments SET params = '{}', event = NULL WHERE id IN (
			SELECT id FROM enrollments WHERE leads_id = ? AND (params <> '{}' OR event IS NOT NULL) ORDER BY id LIMIT ?)`, e.LeadsID, erasePage).Exec(ctx))
		if err != nil {
			return fmt.Errorf("empty params: %w", err)
		}
	}
	for n := erasePage; n == erasePage; e.Erased.Events += n {
		n, err = s.eventNames.deleteEvents(ctx, tx, tx.NewDelete().
			Where("seq IN (SELECT seq FROM events WHERE leads_id = ? ORDER BY occurred_at, seq LIMIT ?)", e.LeadsID, erasePage))
		if err != nil {
			return err
		}
	}
	if e.Erased.Answers, err = eraseAnswers(ctx, tx, e.LeadsID); err != nil {
		return err
	}
	return s.eraseFilters(ctx, tx, sc, e)
}

// eraseFilters takes out of the filters of launches what they name the lead by, if nobody
// else is named so. It puts the leadsId in its place: such a launch is for nobody after
// this, rather than for everybody else.
func (s *leadChanges) eraseFilters(ctx context.Context, tx bun.Tx, sc waypost.Scope, e *waypost.Erasure) error {
	for after := ""; ; {
		var page []launchRow
		q := tx.NewSelect().Model(&page).Column("id", "filter").Where("la.org = ? AND la.stage = ? AND la.personal AND la.id > ?", sc.Org, sc.Stage, after)
		if err := q.Order("la.id").Limit(erasePage).Scan(ctx); err != nil {
			return fmt.Errorf("look for launches: %w", err)
		}
		for _, l := range page {
			after = l.ID
			f, err := l.filter()
			if err != nil {
				return fmt.Errorf("filter of launch %s: %w", l.ID, err)
			}
			named, err := s.namedBy(ctx, tx, sc, f, e.LeadsID)
			if err != nil {
				return err
			}
			if len(named) > 1 {
				e.Kept.Filters++
				continue
			}
			if named == nil {
				continue
			}
			f = impersonal(f)
			f.LeadsIDs = named
			filter, err := toJSON(f)
			if err != nil {
				return err
			}
			if _, err := tx.NewUpdate().Model((*launchRow)(nil)).Set("filter = ?, personal = FALSE", filter).Where("id = ?", l.ID).Exec(ctx); err != nil {
				return fmt.Errorf("erase the filter of launch %s: %w", l.ID, err)
			}
			e.Erased.Filters++
		}
		if len(page) < erasePage {
			return nil
		}
	}
}

// namedBy lists the lead and, if there is one, another lead that meet the personal members of a
// filter; nil if the lead does not.
func (s *leadChanges) namedBy(ctx context.Context, tx bun.Tx, sc waypost.Scope, f waypost.LeadFilter, lead int64) ([]int64, error) {
	personal := waypost.LeadFilter{Name: f.Name, MobilePhone: f.MobilePhone, Email: f.Email, ExternalID: f.ExternalID, Birthday: f.Birthday, CustomFields: f.CustomFields}
	var found []int64
	named := func(how string) *bun.SelectQuery {
		return s.leads.leadFilter(tx.NewSelect().Model((*leadRow)(nil)).Column("leads_id").Where("l.leads_id "+how+" ?", lead).Limit(1), sc, personal)
	}
	// The lead itself is looked up by its key: most filters are about others.
	if err := named("=").Scan(ctx, &found); err != nil || len(found) == 0 {
		return nil, err
	}
	var others []int64
	err := named("<>").Scan(ctx, &others)
	return append(found, others...), err
}

// eraseLeadless drops what is stored of those of the messages, all decided, whose lead
// was deleted: they were under way then.
func eraseLeadless(ctx context.Context, tx bun.Tx, keys []touchpointRow) error {
	if len(keys) == 0 {
		return nil
	}
	var leadless []touchpointRow
	err := tx.NewSelect().With("u", tx.NewValues(&keys)).Model((*deliveryRow)(nil)).Column("enrollment_id", "visit").TableExpr("u").
		Where("d.enrollment_id = u.enrollment_id AND d.visit = u.visit").
		Where("d.leads_id <> 0 AND NOT EXISTS (SELECT 1 FROM leads AS l WHERE l.leads_id = d.leads_id)").Scan(ctx, &leadless)
	if err != nil {
		return fmt.Errorf("look for deleted leads: %w", err)
	}
	_, err = clearPayloads(ctx, tx, leadless)
	return err
}
