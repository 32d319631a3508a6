package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"waypost"
	"waypost/delivery"
)

// deliveryRow is what a delivery is about and where it stands.
type deliveryRow struct {
	bun.BaseModel `bun:"table:deliveries,alias:d"`

	EnrollmentID string `bun:"enrollment_id,pk"`
	Visit        int    `bun:"visit,pk"`
	waypost.Scope
	MessageID      string  `bun:"message_id"`
	JourneyID      string  `bun:"journey_id"`
	JourneyVersion int     `bun:"journey_version"`
	NodeID         string  `bun:"node_id"`
	WebhookID      string  `bun:"webhook_id"`
	LeadsID        int64   `bun:"leads_id"`
	LaunchID       *string `bun:"launch_id"`

	Status         waypost.DeliveryStatus `bun:"status"`
	DeferredReason string                 `bun:"deferred_reason"`
	DeferredSince  stamp                  `bun:"deferred_since"`
	Succeed        *bool                  `bun:"succeed"`
	Round          int                    `bun:"round"`
	Attempts       int                    `bun:"attempts"` // recorded ones
	NextAttemptAt  stamp                  `bun:"next_attempt_at"`
	FirstAttemptAt stamp                  `bun:"first_attempt_at"`
	OpenAttempt    int                    `bun:"open_attempt"` // 0: none
	OpenAt         stamp                  `bun:"open_at"`
	OpenBy         string                 `bun:"open_by"`

	// The attempt that the delivery's state comes from: see attemptRow.
	LastRound     int    `bun:"last_round"`
	LastAttempt   int    `bun:"last_attempt"` // 0: none
	LastAttemptAt stamp  `bun:"last_attempt_at"`
	HTTPStatus    int    `bun:"http_status"`
	ErrorClass    string `bun:"error_class"`
	DurationMs    int64  `bun:"duration_ms"`
	Response      []byte `bun:"response"`

	GaveUp waypost.GaveUp `bun:"gave_up"`
}

// isSubscription tells whether a delivery's id of an enrollment is a subscription's: see
// announcements.
func isSubscription(id string) bool { return strings.HasPrefix(id, waypost.PrefixSubscription) }

func messagePurpose(id string) string { return "message/" + id }

// newDeliveryRow is the row of a touchpoint that has none yet.
func newDeliveryRow(key waypost.Touchpoint, sc waypost.Scope, d waypost.Delivery) deliveryRow {
	return deliveryRow{
		MessageID: d.MessageID, Scope: sc, EnrollmentID: key.EnrollmentID, Visit: key.Visit,
		JourneyID: d.JourneyID, JourneyVersion: d.JourneyVersion, NodeID: d.NodeID, WebhookID: d.WebhookID, LeadsID: d.LeadsID,
		LaunchID: nullable(d.LaunchID), Status: waypost.DeliveryPending, Round: 1,
	}
}

// nullable is a text column that is NULL instead of empty.
func nullable(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

func (r deliveryRow) touchpoint() waypost.Touchpoint {
	return waypost.Touchpoint{EnrollmentID: r.EnrollmentID, Visit: r.Visit}
}

func (r deliveryRow) key() touchpointRow { return touchpointRow(r.touchpoint()) }

func (s *deliveries) delivery(r deliveryRow) waypost.Delivery {
	message, _ := s.showResponse(r.touchpoint(), r.Response)
	var gaveUp waypost.GaveUp
	if r.Status == waypost.DeliveryFailed { // the last attempt may be of an earlier round
		gaveUp = r.GaveUp
	}
	d := waypost.Delivery{
		MessageID: r.MessageID, EnrollmentID: r.EnrollmentID, JourneyID: r.JourneyID, JourneyVersion: r.JourneyVersion,
		NodeID: r.NodeID, WebhookID: r.WebhookID, LaunchID: text(r.LaunchID), LeadsID: r.LeadsID, Status: r.Status, DeferredReason: r.DeferredReason,
		Succeed: r.Succeed, Message: gaveUp.Explain(message), HTTPStatus: r.HTTPStatus, ErrorClass: r.ErrorClass, Attempts: r.Attempts,
		NextAttemptAt: r.NextAttemptAt.pointer(), FirstAttemptAt: r.FirstAttemptAt.pointer(), LastAttemptAt: r.LastAttemptAt.pointer(),
		DurationMs: r.DurationMs, GaveUp: gaveUp,
	}
	if skipped := waypost.ExplainSkip(r.DeferredReason); skipped != "" && r.Status == waypost.DeliveryCanceled {
		d.Message = skipped
	}
	if isSubscription(r.EnrollmentID) {
		d.SubscriptionID, d.EnrollmentID = r.EnrollmentID, ""
	}
	return d
}

func (r *deliveryRow) sending(body []byte) delivery.Sending {
	s := delivery.Sending{
		MessageID: r.MessageID, Body: body, Status: r.Status, Succeed: r.Succeed != nil && *r.Succeed,
		HTTPStatus: r.HTTPStatus, ErrorClass: r.ErrorClass, Round: r.Round, Attempts: r.Attempts,
		FirstAttemptAt: r.FirstAttemptAt.Time, NextAttemptAt: r.NextAttemptAt.Time,
		DeferredReason: r.DeferredReason, DeferredSince: r.DeferredSince.Time,
	}
	if r.Status.Final() && !r.LastAttemptAt.IsZero() {
		s.DecidedAt = r.LastAttemptAt.Truncate(time.Millisecond).Add(time.Duration(r.DurationMs) * time.Millisecond)
	}
	if r.OpenAttempt > 0 {
		s.Open = &delivery.OpenAttempt{Attempt: r.OpenAttempt, At: r.OpenAt.Time, By: r.OpenBy}
	}
	return s
}

// storedRow is a delivery with its sealed message, nil if there is none yet or it
// was not asked for.
type storedRow struct {
	deliveryRow
	body []byte
}

// deliveryColumns are what storedRow.scan reads.
const deliveryColumns = `d.enrollment_id, d.visit, d.org, d.stage, d.message_id, d.journey_id, d.journey_version, d.node_id,
	d.webhook_id, d.leads_id, d.launch_id, d.status, d.deferred_reason, d.deferred_since, d.succeed, d.round, d.attempts,
	d.next_attempt_at, d.first_attempt_at, d.open_attempt, d.open_at, d.open_by, d.last_round, d.last_attempt,
	d.last_attempt_at, d.http_status, d.error_class, d.duration_ms, d.response, d.gave_up`

func (r *storedRow) scan(rows *sql.Rows) error {
	return rows.Scan(&r.EnrollmentID, &r.Visit, &r.Org, &r.Stage, &r.MessageID, &r.JourneyID, &r.JourneyVersion, &r.NodeID,
		&r.WebhookID, &r.LeadsID, &r.LaunchID, &r.Status, &r.DeferredReason, &r.DeferredSince, &r.Succeed, &r.Round, &r.Attempts,
		&r.NextAttemptAt, &r.FirstAttemptAt, &r.OpenAttempt, &r.OpenAt, &r.OpenBy, &r.LastRound, &r.LastAttempt,
		&r.LastAttemptAt, &r.HTTPStatus, &r.ErrorClass, &r.DurationMs, &r.Response, &r.GaveUp, &r.body)
}

// deliveriesQuery is the query for the deliveries of touchpoints, locked in the
// order of their keys where that is asked for.
func (s *deliveries) deliveriesQuery(withBody, locked bool) string {
	text := "SELECT " + deliveryColumns + ", NULL"
	if withBody {
		text = "SELECT " + deliveryColumns + ", (SELECT m.body FROM messages AS m WHERE m.enrollment_id = d.enrollment_id AND m.visit = d.visit)"
	}
	text += s.in(ofTouchpoints)
	if locked && s.othersWrite() {
		text += " ORDER BY d.enrollment_id, d.visit FOR NO KEY UPDATE OF d"
	}
	return text
}

// loadDeliveries runs a deliveriesQuery.
func (s *deliveries) loadDeliveries(ctx context.Context, tx *bun.Tx, query string, keys []waypost.Touchpoint) ([]storedRow, error) {
	args, err := s.touchpointArgs(keys)
	if err != nil {
		return nil, err
	}
	rows, err := s.query(ctx, tx, query, args...)
	if err != nil {
		return nil, err
	}
	list := make([]storedRow, 0, len(keys))
	err = scanAll(rows, func(rows *sql.Rows) error {
		list = append(list, storedRow{})
		return list[len(list)-1].scan(rows)
	})
	return list, err
}

// touchpointRow is one row of the VALUES that deliveries can be looked up by.
type touchpointRow struct {
	EnrollmentID string `bun:"enrollment_id,type:text"`
	Visit        int    `bun:"visit,type:bigint"`
}

// sortedKeys returns the distinct keys in the order in which rows are locked.
func sortedKeys(keys []waypost.Touchpoint) []touchpointRow {
	keys = slices.Compact(slices.SortedFunc(slices.Values(keys), compareTouchpoints))
	return mapped(keys, func(key waypost.Touchpoint) touchpointRow { return touchpointRow(key) })
}

// Sendings returns what is stored about these touchpoints as their journey sees it,
// for which a redelivery changes nothing; those that have no delivery yet are
// missing in the answer.
func (s *deliveries) Sendings(ctx context.Context, keys []waypost.Touchpoint) (map[waypost.Touchpoint]delivery.Sending, error) {
	first := func(key waypost.Touchpoint) waypost.Round { return waypost.Round{Touchpoint: key, Round: 1} }
	return s.SendingsOfRounds(ctx, mapped(keys, first))
}

func (s *deliveries) openBody(messageID string, sealed []byte) ([]byte, error) {
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
func (s *deliveries) lockDeliveries(
	ctx context.Context, tx bun.Tx, keys []waypost.Touchpoint,
) (map[waypost.Touchpoint]*deliveryRow, error) {
	rows, err := s.loadDeliveries(ctx, &tx, s.deliveriesQuery(false, true), keys)
	if err != nil {
		return nil, err
	}
	deliveries := make(map[waypost.Touchpoint]*deliveryRow, len(rows))
	for i := range rows {
		deliveries[rows[i].touchpoint()] = &rows[i].deliveryRow
	}
	return deliveries, nil
}

// insertDelivery makes new rows, their first attempt opened or not, or deferred.
var insertDelivery = bulk{
	table: "deliveries",
	columns: []string{
		"enrollment_id text", "visit bigint", "org text", "stage text", "message_id text", "journey_id text", "journey_version bigint",
		"node_id text", "webhook_id text", "leads_id bigint", "launch_id text", "status text", "first_attempt_at bigint",
		"open_attempt bigint", "open_at bigint", "open_by text", "deferred_reason text", "deferred_since bigint", "next_attempt_at bigint",
	},
	suffix: "ON CONFLICT (enrollment_id, visit) DO NOTHING",
	unique: 2,
}

// insertDeliveries stores the rows that are not there yet and returns their
// touchpoints. Of two transactions that insert the same ones, the second waits
// for the first; the rows are sorted so that they never wait for each other.
func (s *deliveries) insertDeliveries(ctx context.Context, tx bun.Tx, rows []deliveryRow) (map[waypost.Touchpoint]bool, error) {
	slices.SortFunc(rows, func(a, b deliveryRow) int { return compareTouchpoints(a.touchpoint(), b.touchpoint()) })
	inserted := make(map[waypost.Touchpoint]bool, len(rows))
	err := insertDelivery.apply(ctx, s.db, tx, len(rows), func(i int) []any {
		r := &rows[i]
		return []any{
			r.EnrollmentID, r.Visit, r.Org, string(r.Stage), r.MessageID, r.JourneyID, r.JourneyVersion,
			r.NodeID, r.WebhookID, r.LeadsID, r.LaunchID, string(r.Status), r.FirstAttemptAt,
			r.OpenAttempt, r.OpenAt, r.OpenBy, r.DeferredReason, r.DeferredSince, r.NextAttemptAt,
		}
	}, func(i int) { inserted[rows[i].touchpoint()] = true })
	return inserted, err
}

// updateDelivery writes where a delivery stands.
var updateDelivery = bulk{
	table: "deliveries AS d",
	keys:  2,
	columns: []string{
		"enrollment_id text", "visit bigint", "status text", "deferred_reason text", "deferred_since bigint", "succeed boolean",
		"round bigint", "attempts bigint", "next_attempt_at bigint", "first_attempt_at bigint", "open_attempt bigint",
		"open_at bigint", "open_by text", "last_round bigint", "last_attempt bigint", "last_attempt_at bigint",
		"http_status bigint", "error_class text", "duration_ms bigint", "response bytea", "gave_up text",
	},
	// What is there before its first attempt is late, see touchpoints.
	set: "late = d.late OR d.first_attempt_at IS NULL",
}

// updateDeliveries writes the states of locked rows.
func (s *deliveries) updateDeliveries(ctx context.Context, tx bun.Tx, rows []*deliveryRow) error {
	return updateDelivery.run(ctx, s.db, tx, len(rows), func(i int) []any {
		r := rows[i]
		return []any{
			r.EnrollmentID, r.Visit, string(r.Status), r.DeferredReason, r.DeferredSince, r.Succeed,
			r.Round, r.Attempts, r.NextAttemptAt, r.FirstAttemptAt, r.OpenAttempt,
			r.OpenAt, r.OpenBy, r.LastRound, r.LastAttempt, r.LastAttemptAt,
			r.HTTPStatus, r.ErrorClass, r.DurationMs, r.Response, string(r.GaveUp),
		}
	}, nil)
}

// TouchpointResults returns, for each enrollment, how the latest decided message
// of each node ended: what conditions and templates can ask about. Redeliveries
// change nothing of it, and what was skipped is none.
func (s *deliveries) TouchpointResults(
	ctx context.Context, enrollmentIDs []string,
) (results map[string]map[string]waypost.TouchpointResult, err error) {
	defer wrap(&err, "load touchpoint results")
	results = make(map[string]map[string]waypost.TouchpointResult, len(enrollmentIDs))
	if len(enrollmentIDs) == 0 {
		return results, nil
	}
	var rows []deliveryRow
	err = s.r.NewSelect().Model(&rows).Column("enrollment_id", "visit", "node_id", "round", "succeed", "http_status", "response", "attempts").
		Where("enrollment_id IN (?)", bun.List(enrollmentIDs)).
		Where("(status IN (?) OR round > 1)", bun.List([]waypost.DeliveryStatus{waypost.DeliverySucceeded, waypost.DeliveryFailed, waypost.DeliveryCanceled})).
		Where("NOT (status = ? AND deferred_reason IN (?))", waypost.DeliveryCanceled, bun.List(waypost.SkipReasons)).
		Order("enrollment_id", "visit").Scan(ctx)
	if err != nil {
		return nil, err
	}
	var second []waypost.Round
	for _, row := range rows {
		if row.Round > 1 {
			second = append(second, waypost.Round{Touchpoint: row.touchpoint(), Round: 2})
		}
	}
	begun, err := s.rounds(ctx, s.r, second)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if next, redelivered := begun[waypost.Round{Touchpoint: row.touchpoint(), Round: 2}]; redelivered {
			row = next.before(row)
		}
		if results[row.EnrollmentID] == nil {
			results[row.EnrollmentID] = map[string]waypost.TouchpointResult{}
		}
		// One that cannot be read is none: it must not hold up the others.
		message, _, _ := s.openResponse(row.touchpoint(), row.Response)
		results[row.EnrollmentID][row.NodeID] = waypost.TouchpointResult{
			Succeed: row.Succeed != nil && *row.Succeed, HTTPStatus: row.HTTPStatus, Message: message, Attempts: row.Attempts,
		}
	}
	return results, nil
}

// launchOutcomes counts the messages of launches of a journey by where their deliveries
// stand, or stood when they were dropped. It reads all of them.
func (s *deliveries) launchOutcomes(ctx context.Context, journeyID string, of condition) (waypost.OutcomeCounts, error) {
	var rows []struct {
		Status waypost.DeliveryStatus `bun:"status"`
		N      int                    `bun:"n"`
	}
	// In one statement: what is dropped meanwhile is counted once.
	err := s.r.NewRaw("SELECT o.status, CAST(sum(o.n) AS BIGINT) AS n FROM ("+
		"SELECT status, count(*) AS n FROM deliveries WHERE "+of.text+" GROUP BY status "+
		"UNION ALL SELECT status, n FROM dropped WHERE journey_id = ? AND kind = ? AND "+of.text+") AS o GROUP BY o.status",
		slices.Concat(of.args, []any{journeyID, waypost.DropDelivery}, of.args)...).Scan(ctx, &rows)
	if err != nil {
		return waypost.OutcomeCounts{}, fmt.Errorf("count outcomes: %w", err)
	}
	n := map[waypost.DeliveryStatus]int{}
	for _, row := range rows {
		n[row.Status] = row.N
	}
	return waypost.OutcomeCounts{
		Pending: n[waypost.DeliveryPending], Retrying: n[waypost.DeliveryRetrying], Deferred: n[waypost.DeliveryDeferred],
		Succeeded: n[waypost.DeliverySucceeded], Failed: n[waypost.DeliveryFailed], Canceled: n[waypost.DeliveryCanceled],
	}, nil
}

// Delivery returns a delivery, its attempts in order and the body of its message,
// nil if it was never rendered or is unreadable. NotFound if the scope has no such message.
func (s *deliveries) Delivery(
	ctx context.Context, sc waypost.Scope, messageID string,
) (d waypost.Delivery, attempts []waypost.Attempt, body []byte, err error) {
	defer wrap(&err, "load delivery %s", clip(messageID))
	var row struct {
		deliveryRow `bun:",extend"`
		Body        []byte `bun:"body,scanonly"`
	}
	q := s.r.NewSelect().Model(&row).ColumnExpr("?TableColumns").
		ColumnExpr("(SELECT m.body FROM messages AS m WHERE m.enrollment_id = d.enrollment_id AND m.visit = d.visit) AS body").
		Where("d.org = ? AND d.stage = ? AND d.message_id = ?", sc.Org, sc.Stage, cleanText(messageID))
	if err := scanOne(ctx, q, "message", messageID); err != nil {
		return d, nil, nil, err
	}
	body, unreadable := s.openBody(row.MessageID, row.Body)
	var rows []attemptRow
	if err := s.r.NewSelect().Model(&rows).Where("enrollment_id = ? AND visit = ?", row.EnrollmentID, row.Visit).Scan(ctx); err != nil {
		return d, nil, nil, fmt.Errorf("load attempts: %w", err)
	}
	for _, last := range row.last() {
		if !slices.ContainsFunc(rows, func(r attemptRow) bool { return r.key() == last.key() }) {
			rows = append(rows, last)
		}
	}
	slices.SortFunc(rows, func(a, b attemptRow) int {
		return cmp.Or(cmp.Compare(a.Round, b.Round), cmp.Compare(a.Attempt, b.Attempt))
	})
	d = s.delivery(row.deliveryRow)
	d.BodyUnreadable = unreadable != nil
	return d, mapped(rows, s.attempt), body, nil
}
