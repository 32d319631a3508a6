package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// othersTime is how long attempts that are open wait for those that take a transaction.
const othersTime = time.Second

// OpenAttempts announces attempts before their POSTs, in one or two transactions, and
// returns how the touchpoints' deliveries stand then. The caller has an attempt
// if Open in the answer is its own and Held is false; see waypost.Opening for when
// it takes effect. A message is stored once: the Body of the answer is the one to
// send. If the delivery turns out to have another message id than the Opening and
// no body yet, the opening has no effect: the body must be rendered again, for
// that id. Of several openings of one touchpoint the first counts. The answer for
// an enrollment that is paused, canceled or exited is Held, unless its delivery is
// final; that for an opening that its Cap forbids is Capped. Neither has a MessageID
// where there is no delivery. A touchpoint without an answer was not looked at, because
// the database failed in between.
func (s *Store) OpenAttempts(ctx context.Context, openings []waypost.Opening) (map[waypost.Touchpoint]waypost.Sending, error) {
	if len(openings) == 0 {
		return map[waypost.Touchpoint]waypost.Sending{}, nil
	}
	opened, err := s.openAtOnce(ctx, openings)
	if err != nil {
		return nil, fmt.Errorf("open attempts: %w", err)
	}
	if len(opened) == len(openings) {
		return opened, nil
	}
	if len(opened) > 0 {
		// What is open is the caller's, to be POSTed now and whatever becomes of the others.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, othersTime)
		defer cancel()
	}
	openings = slices.DeleteFunc(slices.Clone(openings), func(o waypost.Opening) bool { _, done := opened[o.Touchpoint]; return done })
	var sendings map[waypost.Touchpoint]waypost.Sending
	err = s.writeRows(ctx, len(openings), func(ctx context.Context, tx bun.Tx) (err error) {
		sendings, err = s.openAttempts(ctx, tx, openings)
		return err
	})
	if err != nil && len(opened) > 0 {
		return opened, nil
	}
	if err != nil {
		return nil, fmt.Errorf("open attempts: %w", err)
	}
	maps.Copy(sendings, opened)
	return sendings, nil
}

func (s *Store) openAttempts(ctx context.Context, tx bun.Tx, openings []waypost.Opening) (map[waypost.Touchpoint]waypost.Sending, error) {
	first := firstOpenings(openings)
	if err := s.lockCapped(ctx, tx, first); err != nil {
		return nil, err
	}
	stopped, err := s.heldOf(ctx, tx, first)
	if err != nil {
		return nil, err
	}
	sendings := make(map[waypost.Touchpoint]waypost.Sending, len(first))
	if err := s.skipCapped(ctx, tx, first, stopped, sendings); err != nil {
		return nil, err
	}
	var fresh []deliveryRow
	for _, o := range first {
		if !sendings[o.Touchpoint].Capped && o.Attempt == 1 && o.Round <= 1 && o.Delivery.MessageID != "" && !stopped[o.Touchpoint] {
			row := newDeliveryRow(o.Touchpoint, o.Scope, o.Delivery)
			row.open(o)
			fresh = append(fresh, row)
		}
	}
	inserted, err := s.insertDeliveries(ctx, tx, fresh)
	if err != nil {
		return nil, err
	}
	var messages []message
	for _, row := range fresh {
		key := row.touchpoint()
		if !inserted[key] {
			continue
		}
		body := first[key].Body
		if body != nil {
			messages = append(messages, message{row.touchpoint(), row.MessageID, body})
		}
		sendings[key] = row.sending(body)
	}
	var known []waypost.Touchpoint
	for key := range first {
		if _, done := sendings[key]; !done {
			known = append(known, key)
		}
	}
	if len(known) > 0 {
		more, err := s.reopen(ctx, tx, known, first, stopped, sendings)
		if err != nil {
			return nil, err
		}
		messages = append(messages, more...)
	}
	return sendings, s.insertMessages(ctx, tx, messages)
}

// firstOpenings leaves the first of several openings of one touchpoint.
func firstOpenings(openings []waypost.Opening) map[waypost.Touchpoint]waypost.Opening {
	first := make(map[waypost.Touchpoint]waypost.Opening, len(openings))
	for _, o := range openings {
		if _, doubled := first[o.Touchpoint]; !doubled {
			first[o.Touchpoint] = o
		}
	}
	return first
}

// heldOf tells which openings are to have no effect: of enrollments that are paused,
// canceled or exited, and of redeliveries that were stopped.
func (s *Store) heldOf(ctx context.Context, tx bun.Tx, openings map[waypost.Touchpoint]waypost.Opening) (map[waypost.Touchpoint]bool, error) {
	type group struct{ journeyID, launchID string }
	groups := map[group][]string{}
	var rounds []waypost.Round
	for _, o := range openings {
		if o.Round > 1 {
			rounds = append(rounds, waypost.Round{Touchpoint: o.Touchpoint, Round: o.Round})
			continue
		}
		key := group{o.Delivery.JourneyID, o.Delivery.LaunchID}
		groups[key] = append(groups[key], o.EnrollmentID)
	}
	stopped := map[string]bool{}
	for key, ids := range groups {
		some, err := s.stopped(ctx, tx, waypost.ControlTargets{JourneyID: key.journeyID, LaunchID: key.launchID, EnrollmentIDs: ids})
		if err != nil {
			return nil, err
		}
		maps.Copy(stopped, some)
	}
	held, err := s.stoppedRounds(ctx, tx, rounds)
	if err != nil {
		return nil, err
	}
	for key, o := range openings {
		if o.Round <= 1 && stopped[o.EnrollmentID] {
			held[key] = true
		}
	}
	return held, nil
}

// reopen opens attempts of deliveries that are there already, adds how they stand
// to sendings, and returns the messages to store.
func (s *Store) reopen(ctx context.Context, tx bun.Tx, keys []waypost.Touchpoint, openings map[waypost.Touchpoint]waypost.Opening, stopped map[waypost.Touchpoint]bool, sendings map[waypost.Touchpoint]waypost.Sending) ([]message, error) {
	rows, err := s.loadDeliveries(ctx, &tx, s.deliveriesQuery(true, true), keys)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if stopped[key] { // replaced below if there is a row
			sendings[key] = waypost.Sending{Held: true}
		}
	}
	var messages []message
	var superseded []attemptRow
	var updates []*deliveryRow
	for i := range rows {
		row := &rows[i]
		o := openings[row.touchpoint()]
		body, unreadable := s.openBody(row.MessageID, row.body)
		held := stopped[o.Touchpoint] && !row.Status.Final()
		foreign := o.Delivery.MessageID != "" && o.Delivery.MessageID != row.MessageID
		if !held && unreadable == nil && row.mayOpen(o) && !(body == nil && o.Body != nil && foreign) {
			if row.OpenAttempt > 0 {
				superseded = append(superseded, s.interrupt(&row.deliveryRow)...)
			}
			row.open(o)
			if body == nil && o.Body != nil {
				body = o.Body
				messages = append(messages, message{row.touchpoint(), row.MessageID, body})
			}
			updates = append(updates, &row.deliveryRow)
		}
		sending := row.sending(body)
		sending.Held, sending.Unreadable = held, unreadable
		if row.Round != max(o.Round, 1) {
			sending.Open = nil // whatever is under way is not this one's
		}
		sendings[row.touchpoint()] = sending
	}
	if err := s.writeAttempts(ctx, tx, superseded); err != nil {
		return nil, err
	}
	return messages, s.updateDeliveries(ctx, tx, updates)
}

// message is a body to store.
type message struct {
	waypost.Touchpoint
	id   string
	body []byte
}

var insertMessage = bulk{table: "messages", columns: []string{"enrollment_id text", "visit bigint", "body bytea"}}

func (s *Store) insertMessages(ctx context.Context, tx bun.Tx, messages []message) error {
	return insertMessage.run(ctx, s, tx, len(messages), func(i int) []any {
		m := messages[i]
		return []any{m.EnrollmentID, m.Visit, s.keys.Seal(m.body, messagePurpose(m.id))}
	}, nil)
}

// mayOpen is the rule of waypost.Opening.
func (r *deliveryRow) mayOpen(o waypost.Opening) bool {
	if r.Status.Final() {
		return false
	}
	if r.Round != max(o.Round, 1) {
		return false
	}
	if r.OpenAttempt > 0 {
		return o.Interrupts && r.OpenAttempt == o.Attempt-1 && r.Attempts == o.Attempt-2
	}
	return r.Attempts == o.Attempt-1
}

// interrupt closes the open attempt as one whose end nobody saw, and returns the
// attempt that it supersedes, if there is one.
func (s *Store) interrupt(r *deliveryRow) []attemptRow {
	superseded := r.last()
	r.setLast(attemptRow{
		EnrollmentID: r.EnrollmentID, Visit: r.Visit, Round: r.Round, Attempt: r.OpenAttempt, At: r.OpenAt,
		ErrorClass: waypost.ClassInterrupted, Response: s.sealResponse(r.touchpoint(), "the process ended before it saw the answer", ""),
	})
	r.Attempts++
	r.Status, r.DeferredReason, r.DeferredSince = waypost.DeliveryRetrying, "", stamp{}
	return superseded
}

// open notes that an attempt is under way.
func (r *deliveryRow) open(o waypost.Opening) {
	r.OpenAttempt, r.OpenAt, r.OpenBy = o.Attempt, stamp{o.At}, o.By
	if r.FirstAttemptAt.IsZero() {
		r.FirstAttemptAt = stamp{o.At}
	}
	if r.Status == waypost.DeliveryDeferred {
		r.Status, r.DeferredReason, r.DeferredSince = waypost.DeliveryRetrying, "", stamp{}
		if r.Attempts == 0 || r.LastAttempt > 0 && r.LastRound < r.Round { // no attempt of this round
			r.Status, r.NextAttemptAt = waypost.DeliveryPending, stamp{}
		}
	}
}
