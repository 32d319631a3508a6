package store

import (
	"context"
	"database/sql"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
	"waypost/delivery"
)

// othersTime is how long open attempts wait for the ones that take a transaction.
const othersTime = time.Second

// OpenAttempts opens attempts before their POSTs, in one or two transactions, and
// returns how the touchpoints' deliveries stand then. The caller has an attempt
// if Open in the answer is its own and Held is false; see delivery.Opening for when
// it takes effect. A message is stored once: the Body of the answer is the one to
// send. If the delivery turns out to have another message id than the Opening and
// no body yet, the opening has no effect: the body must be rendered again, for
// that id. Of several openings of one touchpoint the first counts. The answer for
// an enrollment that is paused, canceled or exited is Held, unless its delivery is
// final; that for an opening that its Cap or its Channel forbids is Skipped. Neither has a MessageID
// where there is no delivery. A touchpoint without an answer was not looked at, because
// the database failed in between.
func (s *attempts) OpenAttempts(
	ctx context.Context, openings []delivery.Opening,
) (sendings map[waypost.Touchpoint]delivery.Sending, err error) {
	defer wrap(&err, "open attempts")
	if len(openings) == 0 {
		return map[waypost.Touchpoint]delivery.Sending{}, nil
	}
	opened, err := s.openInOneStatement(ctx, openings)
	if err != nil || len(opened) == len(openings) {
		return opened, err
	}
	if len(opened) > 0 {
		// What is open is the caller's, to be POSTed now and whatever becomes of the others.
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, othersTime)
		defer cancel()
	}
	openings = slices.DeleteFunc(slices.Clone(openings), func(o delivery.Opening) bool { _, done := opened[o.Touchpoint]; return done })
	err = s.writeRows(ctx, len(openings), func(ctx context.Context, tx bun.Tx) (err error) {
		sendings, err = s.openAttempts(ctx, tx, openings)
		return err
	})
	if err != nil && len(opened) > 0 {
		return opened, nil
	}
	if err != nil {
		return nil, err
	}
	maps.Copy(sendings, opened)
	return sendings, nil
}

// openAttempts is OpenAttempts in a transaction. It locks the leads of capped touchpoints first, so that no
// other transaction opens one of them before this one has been counted.
func (s *attempts) openAttempts(
	ctx context.Context, tx bun.Tx, openings []delivery.Opening,
) (map[waypost.Touchpoint]delivery.Sending, error) {
	first := firstOpenings(openings)
	if err := s.lockCapped(ctx, tx, first); err != nil {
		return nil, err
	}
	stopped, err := s.heldOf(ctx, tx, first)
	if err != nil {
		return nil, err
	}
	sendings := make(map[waypost.Touchpoint]delivery.Sending, len(first))
	if err := s.skipUnwanted(ctx, tx, first, stopped, sendings); err != nil {
		return nil, err
	}
	if err := s.skipCapped(ctx, tx, first, stopped, sendings); err != nil {
		return nil, err
	}
	var missing []deliveryRow
	for _, o := range first {
		if sendings[o.Touchpoint].Skipped == "" && o.Attempt == 1 && o.Round <= 1 && !isSubscription(o.EnrollmentID) && o.Delivery.MessageID != "" && !stopped[o.Touchpoint] {
			row := newDeliveryRow(o.Touchpoint, o.Scope, o.Delivery)
			row.open(o)
			missing = append(missing, row)
		}
	}
	inserted, err := s.deliveries.insertDeliveries(ctx, tx, missing)
	if err != nil {
		return nil, err
	}
	var messages []message
	for _, row := range missing {
		key := row.touchpoint()
		if !inserted[key] {
			continue
		}
		body := first[key].Body
		if body != nil {
			messages = append(messages, message{key, row.MessageID, body})
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
func firstOpenings(openings []delivery.Opening) map[waypost.Touchpoint]delivery.Opening {
	first := make(map[waypost.Touchpoint]delivery.Opening, len(openings))
	for _, o := range openings {
		if _, doubled := first[o.Touchpoint]; !doubled {
			first[o.Touchpoint] = o
		}
	}
	return first
}

// heldOf tells which openings are to have no effect: of enrollments that are paused,
// canceled or exited, and of redeliveries that were stopped.
func (s *attempts) heldOf(
	ctx context.Context, tx bun.Tx, openings map[waypost.Touchpoint]delivery.Opening,
) (map[waypost.Touchpoint]bool, error) {
	type group struct{ journeyID, launchID string }
	groups := map[group][]string{}
	var rounds []waypost.Round
	for _, o := range openings {
		if o.Round > 1 || isSubscription(o.EnrollmentID) {
			rounds = append(rounds, waypost.Round{Touchpoint: o.Touchpoint, Round: max(o.Round, 1)})
			continue
		}
		key := group{o.Delivery.JourneyID, o.Delivery.LaunchID}
		groups[key] = append(groups[key], o.EnrollmentID)
	}
	stopped := map[string]bool{}
	for key, ids := range groups {
		some, err := s.controls.stopped(ctx, tx, waypost.ControlTargets{JourneyID: key.journeyID, LaunchID: key.launchID, EnrollmentIDs: ids})
		if err != nil {
			return nil, err
		}
		maps.Copy(stopped, some)
	}
	held, err := s.rounds.stoppedRounds(ctx, tx, rounds)
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
func (s *attempts) reopen(
	ctx context.Context, tx bun.Tx, keys []waypost.Touchpoint, openings map[waypost.Touchpoint]delivery.Opening,
	stopped map[waypost.Touchpoint]bool, sendings map[waypost.Touchpoint]delivery.Sending,
) ([]message, error) {
	rows, err := s.deliveries.loadDeliveries(ctx, &tx, s.deliveries.deliveriesQuery(true, true), keys)
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		if stopped[key] { // replaced below if there is a row
			sendings[key] = delivery.Sending{Held: true}
		}
	}
	var messages []message
	var superseded []attemptRow
	var updates []*deliveryRow
	for i := range rows {
		row := &rows[i]
		o := openings[row.touchpoint()]
		body, unreadable := s.deliveries.openBody(row.MessageID, row.body)
		held := stopped[o.Touchpoint] && !row.Status.Final()
		foreign := o.Delivery.MessageID != "" && o.Delivery.MessageID != row.MessageID
		if !held && unreadable == nil && row.mayOpen(o) && !(body == nil && o.Body != nil && foreign) {
			if row.OpenAttempt > 0 {
				superseded = append(superseded, s.deliveries.interrupt(&row.deliveryRow)...)
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
	if err := s.deliveries.writeAttempts(ctx, tx, superseded); err != nil {
		return nil, err
	}
	return messages, s.deliveries.updateDeliveries(ctx, tx, updates)
}

// message is a body to store.
type message struct {
	waypost.Touchpoint
	id   string
	body []byte
}

var insertMessage = bulk{table: "messages", columns: []string{"enrollment_id text", "visit bigint", "body bytea"}}

func (s *attempts) insertMessages(ctx context.Context, tx bun.Tx, messages []message) error {
	return insertMessage.run(ctx, s.db, tx, len(messages), func(i int) []any {
		m := messages[i]
		return []any{m.EnrollmentID, m.Visit, s.keys.Seal(m.body, messagePurpose(m.id))}
	}, nil)
}

// mayOpen is the rule of delivery.Opening.
func (r *deliveryRow) mayOpen(o delivery.Opening) bool {
	if r.Status.Final() || r.Round != max(o.Round, 1) {
		return false
	}
	if r.OpenAttempt > 0 {
		return o.Interrupts && r.OpenAttempt == o.Attempt-1 && r.Attempts == o.Attempt-2
	}
	return r.Attempts == o.Attempt-1
}

// interrupt closes the open attempt, whose process ended before it, and returns the attempt
// that it supersedes, if there is one.
func (s *deliveries) interrupt(r *deliveryRow) []attemptRow {
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
func (r *deliveryRow) open(o delivery.Opening) {
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

// openInOneStatement opens first attempts of new messages, or later attempts of messages that
// wait for a retry, all of one journey, one launch and one time. It returns what it has
// opened.
func (s *attempts) openInOneStatement(ctx context.Context, openings []delivery.Opening) (map[waypost.Touchpoint]delivery.Sending, error) {
	if !s.inOneStatement() || !alike(openings) {
		return nil, nil
	}
	// In the order in which rows are locked.
	order := slices.SortedFunc(slices.Values(openings), func(a, b delivery.Opening) int { return compareTouchpoints(a.Touchpoint, b.Touchpoint) })
	open := s.openFirsts
	if openings[0].Attempt > 1 {
		open = s.openLaters
	}
	opened, err := open(ctx, order)
	if refused(err) {
		return nil, nil
	}
	return opened, err
}

// alike tells whether openings are of the usual kind, and of one: each is of a touchpoint
// of its own, and all are first attempts of one node or all are later ones.
func alike(openings []delivery.Opening) bool {
	like := openings[0]
	seen := make(map[waypost.Touchpoint]bool, len(openings))
	for _, o := range openings {
		if o.Attempt < 1 || o.Round > 1 || isSubscription(o.EnrollmentID) || o.Interrupts || seen[o.Touchpoint] || (o.Attempt == 1) != (like.Attempt == 1) {
			return false
		}
		if o.Attempt == 1 && (!o.Cap.None() || o.Body == nil || o.Delivery.MessageID == "") || o.Attempt > 1 && o.Body != nil {
			return false
		}
		if a, b := o.Delivery, like.Delivery; o.Scope != like.Scope || a.JourneyID != b.JourneyID || a.JourneyVersion != b.JourneyVersion || a.NodeID != b.NodeID ||
			a.WebhookID != b.WebhookID || a.LaunchID != b.LaunchID || !o.At.Equal(like.At) || o.By != like.By || o.Channel != like.Channel || o.NeedsConsent != like.NeedsConsent {
			return false
		}
		seen[o.Touchpoint] = true
	}
	return true
}

// unheld is a condition that none of the openings has any control; its parameters are the
// journey, the launch, and the first and the last enrollment.
func unheld(journey, launch, first, last string) string {
	return "NOT EXISTS (SELECT 1 FROM controls WHERE until_at IS NULL AND (target IN (" + journey + ", " + launch + ") OR target BETWEEN " + first + " AND " + last + "))"
}

// openFirsts takes openings in the order of their keys.
func (s *attempts) openFirsts(ctx context.Context, openings []delivery.Opening) (map[waypost.Touchpoint]delivery.Sending, error) {
	like := openings[0]
	n := len(openings)
	ids, visits, messages, leads, bodies := make([]string, n), make([]int64, n), make([]string, n), make([]int64, n), make([][]byte, n)
	first := make(map[waypost.Touchpoint]*delivery.Opening, n)
	for i, o := range openings {
		first[o.Touchpoint] = &openings[i]
		ids[i], visits[i], messages[i], leads[i] = o.EnrollmentID, int64(o.Visit), o.Delivery.MessageID, o.Delivery.LeadsID
		bodies[i] = s.keys.Seal(o.Body, messagePurpose(o.Delivery.MessageID))
	}
	d := like.Delivery
	args := []any{
		ids, visits, messages, leads, bodies, like.Scope.Org, string(like.Scope.Stage), d.JourneyID, d.JourneyVersion, d.NodeID, d.WebhookID, d.LaunchID,
		like.At.UnixMicro(), like.By, ids[0], ids[n-1],
	}
	wanted := ""
	if like.Channel != "" {
		wanted = " AND " + isWanted("u.leads_id", "$17::text", "$18::boolean")
		args = append(args, like.Channel, like.NeedsConsent)
	}
	rows, err := s.query(ctx, nil, `WITH u AS MATERIALIZED (
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[]) AS u (enrollment_id, visit, message_id, leads_id, body)
		WHERE `+unheld("$8", "$12", "$15", "$16")+wanted+`),
	d AS (INSERT INTO deliveries (enrollment_id, visit, message_id, leads_id, org, stage, journey_id, journey_version, node_id, webhook_id, launch_id,
			status, first_attempt_at, open_attempt, open_at, open_by)
		SELECT enrollment_id, visit, message_id, leads_id, $6, $7, $8, $9, $10, $11, NULLIF($12, ''), 'pending', $13, 1, $13, $14 FROM u
		ON CONFLICT (enrollment_id, visit) DO NOTHING RETURNING enrollment_id, visit),
	m AS (INSERT INTO messages (enrollment_id, visit, body) SELECT enrollment_id, visit, u.body FROM u JOIN d USING (enrollment_id, visit))
	SELECT enrollment_id, visit FROM d`, args...)
	opened := make(map[waypost.Touchpoint]delivery.Sending, n)
	if err == nil {
		err = scanAll(rows, func(rows *sql.Rows) error {
			var key waypost.Touchpoint
			err := rows.Scan(&key.EnrollmentID, &key.Visit)
			if o := first[key]; o != nil {
				row := newDeliveryRow(key, o.Scope, o.Delivery)
				row.open(*o)
				opened[key] = row.sending(o.Body)
			}
			return err
		})
	}
	return opened, err
}

// openLater is for webhooks without a channel, openLaterWanted for those with one. They need no
// order of their own: their rows are looked up one after the other.
var (
	openLater       = opensLater("")
	openLaterWanted = opensLater(" AND " + isWanted("d.leads_id", "$10::text", "$11::boolean"))
)

func opensLater(wanted string) string {
	return `WITH u AS MATERIALIZED (
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u (enrollment_id, visit, attempt)
		WHERE ` + unheld("$4", "$5", "$6", "$7") + `),
	d AS (UPDATE deliveries AS d SET open_attempt = u.attempt, open_at = $8, open_by = $9
		FROM u WHERE d.enrollment_id = u.enrollment_id AND d.visit = u.visit AND d.status = 'retrying' AND d.round = 1 AND d.open_attempt = 0
			AND d.attempts = u.attempt - 1 AND d.first_attempt_at IS NOT NULL
			AND EXISTS (SELECT 1 FROM messages AS m WHERE m.enrollment_id = d.enrollment_id AND m.visit = d.visit)` + wanted + `
		RETURNING d.*)
	SELECT ` + deliveryColumns + `, (SELECT m.body FROM messages AS m WHERE m.enrollment_id = d.enrollment_id AND m.visit = d.visit) FROM d`
}

// openLaters takes openings in the order of their keys. Callers have read the messages a
// moment ago; an attempt whose message can no longer be read is taken back.
func (s *attempts) openLaters(ctx context.Context, openings []delivery.Opening) (map[waypost.Touchpoint]delivery.Sending, error) {
	n := len(openings)
	ids, visits, attempts := make([]string, n), make([]int64, n), make([]int64, n)
	for i, o := range openings {
		ids[i], visits[i], attempts[i] = o.EnrollmentID, int64(o.Visit), int64(o.Attempt)
	}
	like := openings[0]
	text, args := openLater, []any{ids, visits, attempts, like.Delivery.JourneyID, like.Delivery.LaunchID, ids[0], ids[n-1], like.At.UnixMicro(), like.By}
	if like.Channel != "" {
		text, args = openLaterWanted, append(args, like.Channel, like.NeedsConsent)
	}
	rows, err := s.query(ctx, nil, text, args...)
	if err != nil {
		return nil, err
	}
	opened := make(map[waypost.Touchpoint]delivery.Sending, n)
	ids, visits = nil, nil // of those that are taken back
	err = scanAll(rows, func(rows *sql.Rows) error {
		var row storedRow
		if err := row.scan(rows); err != nil {
			return err
		}
		body, unreadable := s.deliveries.openBody(row.MessageID, row.body)
		if unreadable != nil {
			ids, visits = append(ids, row.EnrollmentID), append(visits, int64(row.Visit))
			return nil
		}
		opened[row.touchpoint()] = row.sending(body)
		return nil
	})
	if err != nil || len(ids) == 0 {
		return opened, err
	}
	rows, err = s.query(ctx, nil, `UPDATE deliveries AS d SET open_attempt = 0, open_at = NULL, open_by = ''
		FROM unnest($1::text[], $2::bigint[]) AS u (enrollment_id, visit)
		WHERE d.enrollment_id = u.enrollment_id AND d.visit = u.visit AND d.open_attempt > 0 AND d.open_at = $3 AND d.open_by = $4`,
		ids, visits, like.At.UnixMicro(), like.By)
	if err == nil {
		err = rows.Close()
	}
	if err != nil && len(opened) > 0 {
		return opened, nil // those are the caller's, to be POSTed now
	}
	return opened, err
}
