package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"
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
func (s *Store) lockDeliveriesOfLead(ctx context.Context, tx bun.Tx, lead int64) error {
	if !s.othersWrite() {
		return nil
	}
	return eachPageOfLead(ctx, tx, lead, func(page []deliveryRow) error {
		_, err := s.lockDeliveries(ctx, tx, mapped(page, deliveryRow.touchpoint))
		return err
	})
}

// eraseLead drops what is stored of a lead's messages that are decided, and its
// enrollments' params and the events that these began by.
func eraseLead(ctx context.Context, tx bun.Tx, lead int64) error {
	err := eachPageOfLead(ctx, tx, lead, func(page []deliveryRow) error {
		page = slices.DeleteFunc(page, func(d deliveryRow) bool { return !d.Status.Final() })
		_, err := clearPayloads(ctx, tx, mapped(page, deliveryRow.key))
		return err
	})
	if err != nil {
		return err
	}
	for {
		n, err := affected(tx.NewRaw(`UPDATE enrollments SET params = '{}', event = NULL WHERE id IN (
			SELECT id FROM enrollments WHERE leads_id = ? AND (params <> '{}' OR event IS NOT NULL) ORDER BY id LIMIT ?)`, lead, erasePage).Exec(ctx))
		if err != nil {
			return fmt.Errorf("empty params: %w", err)
		}
		if n < erasePage {
			return nil
		}
	}
}

// eraseEvents deletes a lead's events.
func (s *Store) eraseEvents(ctx context.Context, tx bun.Tx, lead int64) error {
	for {
		n, err := s.deleteEvents(ctx, tx, tx.NewDelete().
			Where("seq IN (SELECT seq FROM events WHERE leads_id = ? ORDER BY accepted_at, seq LIMIT ?)", lead, erasePage))
		if err != nil || n < erasePage {
			return err
		}
	}
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
