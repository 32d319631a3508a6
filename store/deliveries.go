package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// deliveryRow is what a delivery is about and where it stands.
type deliveryRow struct {
	bun.BaseModel `bun:"table:deliveries,alias:d"`

	MessageID      string `bun:"message_id,pk"`
	Org            string `bun:"org"`
	Stage          string `bun:"stage"`
	EnrollmentID   string `bun:"enrollment_id"`
	Visit          int    `bun:"visit"`
	JourneyID      string `bun:"journey_id"`
	JourneyVersion int    `bun:"journey_version"`
	NodeID         string `bun:"node_id"`
	WebhookID      string `bun:"webhook_id"`
	LeadsID        int64  `bun:"leads_id"`

	Status         waypost.DeliveryStatus `bun:"status"`
	DeferredReason string                 `bun:"deferred_reason"`
	DeferredSince  stamp                  `bun:"deferred_since"`
	Succeed        *bool                  `bun:"succeed"`
	Message        string                 `bun:"message"`
	HTTPStatus     int                    `bun:"http_status"`
	ErrorClass     string                 `bun:"error_class"`
	Round          int                    `bun:"round"`
	Attempts       int                    `bun:"attempts"`
	NextAttemptAt  stamp                  `bun:"next_attempt_at"`
	FirstAttemptAt stamp                  `bun:"first_attempt_at"`
	LastAttemptAt  stamp                  `bun:"last_attempt_at"`
	DurationMs     int64                  `bun:"duration_ms"`
	OpenAttempt    int                    `bun:"open_attempt"` // 0: none
	OpenAt         stamp                  `bun:"open_at"`
	OpenBy         string                 `bun:"open_by"`
}

func messagePurpose(id string) string { return "message/" + id }

type attemptRow struct {
	bun.BaseModel `bun:"table:attempts,alias:a"`

	MessageID       string `bun:"message_id,pk"`
	Round           int    `bun:"round,pk"`
	Attempt         int    `bun:"attempt,pk"`
	At              stamp  `bun:"at"`
	HTTPStatus      int    `bun:"http_status"`
	ErrorClass      string `bun:"error_class"`
	Message         string `bun:"message"`
	DurationMs      int64  `bun:"duration_ms"`
	ResponseExcerpt string `bun:"response_excerpt"`
}

func (r attemptRow) attempt() waypost.Attempt {
	return waypost.Attempt{
		Attempt: r.Attempt, Round: r.Round, At: r.At.Time, HTTPStatus: r.HTTPStatus, ErrorClass: r.ErrorClass,
		Message: r.Message, DurationMs: r.DurationMs, ResponseExcerpt: r.ResponseExcerpt,
	}
}

// newDeliveryRow is the row of a touchpoint that has none yet.
func newDeliveryRow(key waypost.Touchpoint, sc waypost.Scope, d waypost.Delivery) deliveryRow {
	return deliveryRow{
		MessageID: d.MessageID, Org: sc.Org, Stage: string(sc.Stage), EnrollmentID: key.EnrollmentID, Visit: key.Visit,
		JourneyID: d.JourneyID, JourneyVersion: d.JourneyVersion, NodeID: d.NodeID, WebhookID: d.WebhookID, LeadsID: d.LeadsID,
		Status: waypost.DeliveryPending, Round: 1,
	}
}

func (r deliveryRow) touchpoint() waypost.Touchpoint {
	return waypost.Touchpoint{EnrollmentID: r.EnrollmentID, Visit: r.Visit}
}

func (r deliveryRow) delivery() waypost.Delivery {
	return waypost.Delivery{
		MessageID: r.MessageID, EnrollmentID: r.EnrollmentID, JourneyID: r.JourneyID, JourneyVersion: r.JourneyVersion,
		NodeID: r.NodeID, WebhookID: r.WebhookID, LeadsID: r.LeadsID, Status: r.Status, DeferredReason: r.DeferredReason,
		Succeed: r.Succeed, Message: r.Message, HTTPStatus: r.HTTPStatus, Attempts: r.Attempts,
		NextAttemptAt: r.NextAttemptAt.pointer(), FirstAttemptAt: r.FirstAttemptAt.pointer(), LastAttemptAt: r.LastAttemptAt.pointer(),
		DurationMs: r.DurationMs,
	}
}

func (r deliveryRow) sending(body []byte) waypost.Sending {
	s := waypost.Sending{
		MessageID: r.MessageID, Body: body, Status: r.Status, Succeed: r.Succeed != nil && *r.Succeed,
		HTTPStatus: r.HTTPStatus, ErrorClass: r.ErrorClass, Round: r.Round, Attempts: r.Attempts,
		FirstAttemptAt: r.FirstAttemptAt.Time, NextAttemptAt: r.NextAttemptAt.Time,
		DeferredReason: r.DeferredReason, DeferredSince: r.DeferredSince.Time,
	}
	if r.Status.Final() && !r.LastAttemptAt.IsZero() {
		s.DecidedAt = r.LastAttemptAt.Truncate(time.Millisecond).Add(time.Duration(r.DurationMs) * time.Millisecond)
	}
	if r.OpenAttempt > 0 {
		s.Open = &waypost.OpenAttempt{Attempt: r.OpenAttempt, At: r.OpenAt.Time, By: r.OpenBy}
	}
	return s
}

// storedRow is a delivery with its sealed message, nil if there is none yet.
type storedRow struct {
	deliveryRow `bun:",extend"`
	Body        []byte `bun:"body,scanonly"`
}

// touchpointRow is one row of the VALUES that deliveries are looked up by.
type touchpointRow struct {
	EnrollmentID string `bun:"enrollment_id,type:text"`
	Visit        int    `bun:"visit,type:bigint"`
}

// sortedKeys returns the distinct keys in the order in which rows are locked.
func sortedKeys(keys []waypost.Touchpoint) []touchpointRow {
	rows := make([]touchpointRow, len(keys))
	for i, key := range keys {
		rows[i] = touchpointRow(key)
	}
	slices.SortFunc(rows, func(a, b touchpointRow) int {
		return cmp.Or(cmp.Compare(a.EnrollmentID, b.EnrollmentID), cmp.Compare(a.Visit, b.Visit))
	})
	return slices.Compact(rows)
}

// deliveriesOf is the query for the deliveries of touchpoints, in the order of
// their keys.
func deliveriesOf(db bun.IDB, dest any, keys []waypost.Touchpoint) *bun.SelectQuery {
	rows := sortedKeys(keys)
	return db.NewSelect().With("u", db.NewValues(&rows)).Model(dest).ColumnExpr("?TableColumns").TableExpr("u").
		Where("d.enrollment_id = u.enrollment_id AND d.visit = u.visit").
		Order("d.enrollment_id", "d.visit")
}

// withBody adds the sealed message.
func withBody(q *bun.SelectQuery) *bun.SelectQuery {
	return q.ColumnExpr("(SELECT m.body FROM messages AS m WHERE m.message_id = d.message_id) AS body")
}

// Sendings returns what is stored about these touchpoints; those that have no
// delivery yet are missing in the answer.
func (s *Store) Sendings(ctx context.Context, keys []waypost.Touchpoint) (map[waypost.Touchpoint]waypost.Sending, error) {
	list := make(map[waypost.Touchpoint]waypost.Sending, len(keys))
	if len(keys) == 0 {
		return list, nil
	}
	var rows []storedRow
	if err := withBody(deliveriesOf(s.r, &rows, keys)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("load deliveries: %w", err)
	}
	for _, row := range rows {
		body, err := s.openBody(row.MessageID, row.Body)
		if err != nil {
			return nil, err
		}
		list[row.touchpoint()] = row.sending(body)
	}
	return list, nil
}

func (s *Store) openBody(messageID string, sealed []byte) ([]byte, error) {
	if sealed == nil {
		return nil, nil
	}
	body, err := s.keys.Open(sealed, messagePurpose(messageID))
	if err != nil {
		return nil, fmt.Errorf("open message %s: %w", messageID, err)
	}
	return body, nil
}

// lockDeliveries reads the deliveries of touchpoints and keeps other
// transactions from changing them.
func (s *Store) lockDeliveries(ctx context.Context, tx bun.Tx, keys []waypost.Touchpoint) (map[waypost.Touchpoint]*deliveryRow, error) {
	var rows []deliveryRow
	if err := s.lock(deliveriesOf(tx, &rows, keys), "d").Scan(ctx); err != nil {
		return nil, err
	}
	locked := make(map[waypost.Touchpoint]*deliveryRow, len(rows))
	for i := range rows {
		locked[rows[i].touchpoint()] = &rows[i]
	}
	return locked, nil
}

// insertDelivery makes new rows, their first attempt opened or not.
var insertDelivery = bulk{
	table: "deliveries",
	columns: []string{
		"message_id text", "org text", "stage text", "enrollment_id text", "visit bigint", "journey_id text", "journey_version bigint",
		"node_id text", "webhook_id text", "leads_id bigint", "status text", "first_attempt_at bigint",
		"open_attempt bigint", "open_at bigint", "open_by text",
	},
	suffix: "ON CONFLICT (enrollment_id, visit) DO NOTHING RETURNING enrollment_id, visit",
}

// insertDeliveries stores the rows that are not there yet and returns their
// touchpoints. Of two transactions that insert the same ones, the second waits
// for the first; the rows are sorted so that they never wait for each other.
func (s *Store) insertDeliveries(ctx context.Context, tx bun.Tx, rows []deliveryRow) (map[waypost.Touchpoint]bool, error) {
	slices.SortFunc(rows, func(a, b deliveryRow) int {
		return cmp.Or(cmp.Compare(a.EnrollmentID, b.EnrollmentID), cmp.Compare(a.Visit, b.Visit))
	})
	fresh := make(map[waypost.Touchpoint]bool, len(rows))
	err := insertDelivery.run(ctx, s, tx, len(rows), func(i int) []any {
		r := rows[i]
		return []any{
			r.MessageID, r.Org, r.Stage, r.EnrollmentID, r.Visit, r.JourneyID, r.JourneyVersion,
			r.NodeID, r.WebhookID, r.LeadsID, string(r.Status), r.FirstAttemptAt,
			r.OpenAttempt, r.OpenAt, r.OpenBy,
		}
	}, func(returned *sql.Rows) error {
		var key waypost.Touchpoint
		err := returned.Scan(&key.EnrollmentID, &key.Visit)
		fresh[key] = true
		return err
	})
	return fresh, err
}

// updateDelivery writes where a delivery stands. Attempts are counted anew: only
// the database knows whether a record was added or replaced another.
var updateDelivery = bulk{
	table: "deliveries AS d",
	keys:  1,
	columns: []string{
		"message_id text", "status text", "deferred_reason text", "deferred_since bigint", "succeed boolean", "message text",
		"http_status bigint", "error_class text", "round bigint", "next_attempt_at bigint", "first_attempt_at bigint",
		"last_attempt_at bigint", "duration_ms bigint", "open_attempt bigint", "open_at bigint", "open_by text",
	},
	set: "attempts = (SELECT count(*) FROM attempts AS a WHERE a.message_id = d.message_id)",
}

// updateDeliveries writes the states of locked rows.
func (s *Store) updateDeliveries(ctx context.Context, tx bun.Tx, rows []deliveryRow) error {
	return updateDelivery.run(ctx, s, tx, len(rows), func(i int) []any {
		r := rows[i]
		return []any{
			r.MessageID, string(r.Status), r.DeferredReason, r.DeferredSince, r.Succeed, r.Message,
			r.HTTPStatus, r.ErrorClass, r.Round, r.NextAttemptAt, r.FirstAttemptAt,
			r.LastAttemptAt, r.DurationMs, r.OpenAttempt, r.OpenAt, r.OpenBy,
		}
	}, nil)
}

// TouchpointResults returns, for each enrollment, how the latest decided message
// of each node ended: what conditions and templates can ask about.
func (s *Store) TouchpointResults(ctx context.Context, enrollmentIDs []string) (map[string]map[string]waypost.TouchpointResult, error) {
	results := make(map[string]map[string]waypost.TouchpointResult, len(enrollmentIDs))
	if len(enrollmentIDs) == 0 {
		return results, nil
	}
	var rows []deliveryRow
	err := s.r.NewSelect().Model(&rows).Column("enrollment_id", "node_id", "succeed", "http_status", "message", "attempts").
		Where("enrollment_id IN (?)", bun.List(enrollmentIDs)).
		Where("status IN (?)", bun.List([]waypost.DeliveryStatus{waypost.DeliverySucceeded, waypost.DeliveryFailed, waypost.DeliveryCanceled})).
		Order("enrollment_id", "visit").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("load touchpoint results: %w", err)
	}
	for _, row := range rows {
		if results[row.EnrollmentID] == nil {
			results[row.EnrollmentID] = map[string]waypost.TouchpointResult{}
		}
		results[row.EnrollmentID][row.NodeID] = waypost.TouchpointResult{
			Succeed: row.Succeed != nil && *row.Succeed, HTTPStatus: row.HTTPStatus, Message: row.Message, Attempts: row.Attempts,
		}
	}
	return results, nil
}

// ListDeliveries returns the scope's deliveries that match the filter, newest
// first. From and To are compared, in milliseconds, with the time in the message's
// id. There are no launches yet: a LaunchID matches nothing.
func (s *Store) ListDeliveries(ctx context.Context, sc waypost.Scope, f waypost.DeliveryFilter, page waypost.Page) ([]waypost.Delivery, error) {
	if f.LaunchID != "" {
		return []waypost.Delivery{}, nil
	}
	var rows []deliveryRow
	q := pageOf(s.r.NewSelect().Model(&rows), sc, "message_id", page)
	for _, filter := range []struct{ column, value string }{
		{"journey_id", f.JourneyID}, {"webhook_id", f.WebhookID},
	} {
		if filter.value != "" {
			q.Where("? = ?", bun.Ident(filter.column), cleanText(filter.value))
		}
	}
	if f.EnrollmentID != "" {
		// As a subquery, so that the few rows are found by the enrollment's index and
		// not by walking through the scope in the list's order.
		q.Where("message_id IN (SELECT message_id FROM deliveries WHERE enrollment_id = ?)", cleanText(f.EnrollmentID))
	}
	switch f.Status {
	case "":
	case waypost.DeliveryPending, waypost.DeliverySucceeded:
		q.Where("status = ?", f.Status)
	default:
		q.Where("trouble = ?", cleanText(string(f.Status))) // the same, with an index of its own
	}
	if f.LeadsID != 0 {
		q.Where("leads_id = ?", f.LeadsID)
	}
	if !f.From.IsZero() {
		q.Where("message_id >= ?", firstMessageAt(f.From))
	}
	if !f.To.IsZero() {
		q.Where("message_id < ?", firstMessageAt(f.To))
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("list deliveries: %w", err)
	}
	list := make([]waypost.Delivery, len(rows))
	for i, row := range rows {
		list[i] = row.delivery()
	}
	return list, nil
}

// firstMessageAt is below every message id minted at or after t, and above all
// others.
func firstMessageAt(t time.Time) string {
	if up := t.Truncate(time.Millisecond); up.Before(t) {
		t = up.Add(time.Millisecond)
	}
	id := waypost.NewID(waypost.PrefixMessage, t)
	// Ten characters hold 50 bits: 48 of the time and 2 of the random part.
	const timeChars = len(waypost.PrefixMessage) + 9
	last := id[timeChars]
	const alphabet = "0123456789abcdefghjkmnpqrstvwxyz"
	for i := range len(alphabet) {
		if alphabet[i] == last {
			return id[:timeChars] + string(alphabet[i&^3])
		}
	}
	return id[:timeChars]
}

// Delivery returns a delivery, its attempts in order and the body of its message,
// nil if it was never rendered. NotFound if the scope has no such message.
func (s *Store) Delivery(ctx context.Context, sc waypost.Scope, messageID string) (d waypost.Delivery, attempts []waypost.Attempt, body []byte, err error) {
	var row storedRow
	err = withBody(s.r.NewSelect().Model(&row).ColumnExpr("?TableColumns")).
		Where("d.message_id = ? AND d.org = ? AND d.stage = ?", cleanText(messageID), sc.Org, sc.Stage).Scan(ctx)
	if err != nil {
		return d, nil, nil, fmt.Errorf("load delivery %s: %w", clip(messageID), notFound(err, "id", "there is no message %s", clip(messageID)))
	}
	if body, err = s.openBody(row.MessageID, row.Body); err != nil {
		return d, nil, nil, err
	}
	var rows []attemptRow
	if err := s.r.NewSelect().Model(&rows).Where("message_id = ?", row.MessageID).Order("round", "attempt").Scan(ctx); err != nil {
		return d, nil, nil, fmt.Errorf("load attempts of %s: %w", messageID, err)
	}
	attempts = make([]waypost.Attempt, len(rows))
	for i, r := range rows {
		attempts[i] = r.attempt()
	}
	return row.delivery(), attempts, body, nil
}
