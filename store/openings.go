package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"

	"waypost"
)

// OpenAttempts announces attempts before their POSTs, all in one transaction, and
// returns how the touchpoints' deliveries stand then. The caller has an attempt
// if Open in the answer is its own; see waypost.Opening for when it takes effect.
// A message is stored once: the Body of the answer is the one to send. If the
// delivery turns out to have another message id than the Opening and no body yet,
// the opening has no effect: the body must be rendered again, for that id.
// Of several openings of one touchpoint the first counts.
func (s *Store) OpenAttempts(ctx context.Context, openings []waypost.Opening) (map[waypost.Touchpoint]waypost.Sending, error) {
	if len(openings) == 0 {
		return map[waypost.Touchpoint]waypost.Sending{}, nil
	}
	var sendings map[waypost.Touchpoint]waypost.Sending
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		sendings, err = s.openAttempts(ctx, tx, openings)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("open attempts: %w", err)
	}
	return sendings, nil
}

func (s *Store) openAttempts(ctx context.Context, tx bun.Tx, openings []waypost.Opening) (map[waypost.Touchpoint]waypost.Sending, error) {
	first := make(map[waypost.Touchpoint]waypost.Opening, len(openings))
	var fresh []deliveryRow
	for _, o := range openings {
		if _, doubled := first[o.Touchpoint]; doubled {
			continue
		}
		first[o.Touchpoint] = o
		if o.Attempt == 1 && o.Delivery.MessageID != "" {
			row := newDeliveryRow(o.Touchpoint, o.Scope, o.Delivery)
			row.open(o)
			fresh = append(fresh, row)
		}
	}
	sendings := make(map[waypost.Touchpoint]waypost.Sending, len(first))
	var messages []message
	if len(fresh) > 0 {
		inserted, err := s.insertDeliveries(ctx, tx, fresh)
		if err != nil {
			return nil, err
		}
		for _, row := range fresh {
			key := row.touchpoint()
			if !inserted[key] {
				continue
			}
			o := first[key]
			if o.Body != nil {
				messages = append(messages, message{row.MessageID, o.Body})
			}
			sendings[key] = row.sending(o.Body)
		}
	}
	var known []waypost.Touchpoint
	for key := range first {
		if _, done := sendings[key]; !done {
			known = append(known, key)
		}
	}
	if len(known) > 0 {
		more, err := s.reopen(ctx, tx, known, first, sendings)
		if err != nil {
			return nil, err
		}
		messages = append(messages, more...)
	}
	return sendings, s.insertMessages(ctx, tx, messages)
}

// reopen opens attempts of deliveries that are there already, adds how they stand
// to sendings, and returns the messages to store.
func (s *Store) reopen(ctx context.Context, tx bun.Tx, keys []waypost.Touchpoint, openings map[waypost.Touchpoint]waypost.Opening, sendings map[waypost.Touchpoint]waypost.Sending) ([]message, error) {
	var rows []storedRow
	if err := s.lock(withBody(deliveriesOf(tx, &rows, keys)), "d").Scan(ctx); err != nil {
		return nil, err
	}
	var messages []message
	var interrupted []attemptRow
	var updates []deliveryRow
	for _, row := range rows {
		o := openings[row.touchpoint()]
		body, err := s.openBody(row.MessageID, row.Body)
		if err != nil {
			return nil, err
		}
		foreign := o.Delivery.MessageID != "" && o.Delivery.MessageID != row.MessageID
		if row.mayOpen(o) && !(body == nil && o.Body != nil && foreign) {
			if row.OpenAttempt > 0 {
				interrupted = append(interrupted, row.interrupt())
			}
			row.open(o)
			if body == nil && o.Body != nil {
				body = o.Body
				messages = append(messages, message{row.MessageID, body})
			}
			updates = append(updates, row.deliveryRow)
		}
		sendings[row.touchpoint()] = row.sending(body)
	}
	if len(interrupted) > 0 {
		if _, err := tx.NewInsert().Model(&interrupted).Exec(ctx); err != nil {
			return nil, err
		}
	}
	return messages, s.updateDeliveries(ctx, tx, updates)
}

// message is a body to store.
type message struct {
	id   string
	body []byte
}

var insertMessage = bulk{table: "messages", columns: []string{"message_id text", "body bytea"}}

func (s *Store) insertMessages(ctx context.Context, tx bun.Tx, messages []message) error {
	return insertMessage.run(ctx, s, tx, len(messages), func(i int) []any {
		m := messages[i]
		return []any{m.id, s.keys.Seal(m.body, messagePurpose(m.id))}
	}, nil)
}

// mayOpen is the rule of waypost.Opening.
func (r *deliveryRow) mayOpen(o waypost.Opening) bool {
	if r.Status.Final() {
		return false
	}
	if r.OpenAttempt > 0 {
		return o.Interrupts && r.OpenAttempt == o.Attempt-1 && r.Attempts == o.Attempt-2
	}
	return r.Attempts == o.Attempt-1
}

// interrupt closes the open attempt as one whose end nobody saw.
func (r *deliveryRow) interrupt() attemptRow {
	a := attemptRow{
		MessageID: r.MessageID, Round: r.Round, Attempt: r.OpenAttempt, At: r.OpenAt,
		ErrorClass: waypost.ClassInterrupted, Message: "the process ended before it saw the answer",
	}
	r.Attempts++
	r.Status, r.Message, r.HTTPStatus, r.ErrorClass = waypost.DeliveryRetrying, a.Message, 0, a.ErrorClass
	r.LastAttemptAt, r.DurationMs = a.At, 0
	return a
}

// open notes that an attempt is under way.
func (r *deliveryRow) open(o waypost.Opening) {
	r.OpenAttempt, r.OpenAt, r.OpenBy = o.Attempt, stamp{o.At}, o.By
	if r.FirstAttemptAt.IsZero() {
		r.FirstAttemptAt = stamp{o.At}
	}
	if r.Status == waypost.DeliveryDeferred {
		r.Status, r.DeferredReason, r.DeferredSince = waypost.DeliveryRetrying, "", stamp{}
		if r.Attempts == 0 {
			r.Status, r.NextAttemptAt = waypost.DeliveryPending, stamp{}
		}
	}
}
