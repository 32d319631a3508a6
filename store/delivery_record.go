package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"waypost"
	"waypost/delivery"
)

// RecordAttempts writes down how attempts ended: the attempts, the deliveries' new
// states and the enrollments' progress; all of one record in one transaction. See
// delivery.AttemptRecord for what a repeated record does. A delivery that has
// become final stays as it is in its round; a later record only adds its attempt.
// A touchpoint without a delivery gets one from Delivery (render failures). What
// would be retried is canceled if its enrollment was or has exited; a redelivery is
// not.
func (s *attempts) RecordAttempts(ctx context.Context, records []delivery.AttemptRecord) (err error) {
	defer wrap(&err, "record attempts")
	records, err = s.recordInOneStatement(ctx, records)
	if err != nil || len(records) == 0 {
		return err
	}
	return s.writeRows(ctx, len(records), func(ctx context.Context, tx bun.Tx) error { return s.recordAttempts(ctx, tx, records) })
}

// recordAttempts is RecordAttempts in a transaction. It applies all records in memory, to rows that it has
// locked, and then writes each row once.
func (s *attempts) recordAttempts(ctx context.Context, tx bun.Tx, records []delivery.AttemptRecord) error {
	keys := mapped(records, func(r delivery.AttemptRecord) waypost.Touchpoint { return r.Touchpoint })
	deliveries, err := s.deliveries.lockDeliveries(ctx, tx, keys)
	if err != nil {
		return err
	}
	var missing []deliveryRow
	for _, r := range records {
		if deliveries[r.Touchpoint] == nil {
			missing = append(missing, newDeliveryRow(r.Touchpoint, r.Scope, r.Delivery))
		}
	}
	if _, err := s.addDeliveries(ctx, tx, missing, deliveries); err != nil {
		return err
	}
	// Deliveries before enrollments, as everybody locks them.
	enrollments, err := s.progress.lockEnrollments(ctx, tx, enrollmentsOf(keys))
	if err != nil {
		return err
	}
	run := recording{
		enrollments: enrollments, deliveries: deliveries,
		changed: map[waypost.Touchpoint]bool{}, superseded: map[attemptKey]attemptRow{}, history: webhookDeltas{},
	}
	if run.classes, err = s.supersededAttempts(ctx, tx, deliveries); err != nil {
		return err
	}
	for _, r := range records {
		if r.Outcome.At.IsZero() {
			r.Outcome.At = s.time()
		}
		run.record(r, s.deliveries.sealResponse(r.Touchpoint, r.Outcome.Message, r.Outcome.Excerpt))
	}
	updates := make([]*deliveryRow, 0, len(run.changed))
	for key := range run.changed {
		updates = append(updates, deliveries[key])
	}
	if err := s.deliveries.writeAttempts(ctx, tx, slices.Collect(maps.Values(run.superseded))); err != nil {
		return err
	}
	if err := s.deliveries.updateDeliveries(ctx, tx, updates); err != nil {
		return err
	}
	if err := eraseLeadless(ctx, tx, run.outlasting()); err != nil {
		return err
	}
	if err := s.webhooks.addToHistory(ctx, tx, run.history); err != nil {
		return err
	}
	if err := s.announcements.announceFailures(ctx, tx, run.failures); err != nil {
		return err
	}
	if err := s.segmentChecks.checkDeliveries(ctx, tx, run.successes); err != nil {
		return err
	}
	return s.progress.moveEnrollments(ctx, tx, run.progress, enrollments)
}

// outlasting are the deliveries that are decided and may have been under way when their
// lead was deleted: their enrollment was canceled with it, or they are redelivered.
func (run *recording) outlasting() (keys []touchpointRow) {
	for key, row := range run.deliveries {
		if row.Status.Final() && (row.Round > 1 || run.enrollments[key.EnrollmentID].left()) {
			keys = append(keys, touchpointRow(key))
		}
	}
	return keys
}

// addDeliveries makes rows that were not there when they were looked for, and
// locks those that another transaction made meanwhile: both stand in deliveries
// then. It returns the touchpoints of those that it made.
func (s *attempts) addDeliveries(
	ctx context.Context, tx bun.Tx, missing []deliveryRow, deliveries map[waypost.Touchpoint]*deliveryRow,
) (map[waypost.Touchpoint]bool, error) {
	if len(missing) == 0 {
		return nil, nil
	}
	rows := make([]deliveryRow, 0, len(missing))
	seen := make(map[waypost.Touchpoint]bool, len(missing))
	for _, row := range missing {
		if row.MessageID == "" {
			return nil, fmt.Errorf("visit %d of enrollment %s has no delivery and no message id for one", row.Visit, row.EnrollmentID)
		}
		if !seen[row.touchpoint()] {
			seen[row.touchpoint()] = true
			rows = append(rows, row)
		}
	}
	inserted, err := s.deliveries.insertDeliveries(ctx, tx, rows)
	if err != nil {
		return nil, err
	}
	var keys []waypost.Touchpoint
	for i := range rows {
		if key := rows[i].touchpoint(); inserted[key] {
			deliveries[key] = &rows[i]
		} else {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return inserted, nil
	}
	more, err := s.deliveries.lockDeliveries(ctx, tx, keys)
	if err != nil {
		return nil, err
	}
	maps.Copy(deliveries, more)
	return inserted, nil
}

// supersededAttempts reads which attempts have rows of their own, and their
// classes: of those deliveries that can have any.
func (s *attempts) supersededAttempts(
	ctx context.Context, tx bun.Tx, deliveries map[waypost.Touchpoint]*deliveryRow,
) (map[attemptKey]string, error) {
	var keys []waypost.Touchpoint
	for key, row := range deliveries {
		if row.Attempts > 1 || row.Attempts == 1 && (row.LastAttempt == 0 || row.ErrorClass == waypost.ClassInterrupted) {
			keys = append(keys, key)
		}
	}
	classes := map[attemptKey]string{}
	if len(keys) == 0 {
		return classes, nil
	}
	values := sortedKeys(keys)
	var rows []attemptRow
	err := tx.NewSelect().With("u", tx.NewValues(&values)).Model(&rows).Column("a.enrollment_id", "a.visit", "a.round", "a.attempt", "a.error_class").
		TableExpr("u").Where("a.enrollment_id = u.enrollment_id AND a.visit = u.visit").Scan(ctx)
	for _, r := range rows {
		classes[r.key()] = r.ErrorClass
	}
	return classes, err
}

// recording applies records one after the other to rows that are locked; what
// has changed is written at the end.
type recording struct {
	enrollments map[string]enrollmentState
	deliveries  map[waypost.Touchpoint]*deliveryRow
	classes     map[attemptKey]string // of attempts with rows of their own

	changed    map[waypost.Touchpoint]bool
	superseded map[attemptKey]attemptRow
	history    webhookDeltas
	progress   []waypost.Progress
	failures   []waypost.Touchpoint // that have failed for good
	successes  []waypost.Touchpoint
}

// record applies the end of an attempt, whose answer is sealed in response. An attempt that was recorded
// before changes nothing, unless it was recorded as interrupted and has an answer now.
func (run *recording) record(r delivery.AttemptRecord, response []byte) {
	row := run.deliveries[r.Touchpoint]
	if r.Round == 0 {
		r.Round = row.Round
	}
	a := newAttemptRow(r, response)
	class, apart := run.classes[a.key()]
	inRow := row.LastRound == a.Round && row.LastAttempt == a.Attempt
	if inRow && !apart {
		class = row.ErrorClass
	}
	newest := r.Attempt >= max(row.Attempts, row.OpenAttempt, row.LastAttempt)
	if !apart && !inRow {
		row.Attempts++
	} else if class != waypost.ClassInterrupted || a.ErrorClass == waypost.ClassInterrupted {
		return
	}
	run.changed[r.Touchpoint] = true
	run.history.add(row.WebhookID, a)
	if r.Status == waypost.DeliveryRetrying && r.Round == 1 && run.enrollments[r.EnrollmentID].left() {
		r.Status = waypost.DeliveryCanceled
	}
	if !row.decides(r, newest) {
		a.GaveUp = ""
		run.putApart(a)
		return
	}
	if !inRow {
		for _, before := range row.last() {
			if _, known := run.classes[before.key()]; !known {
				run.putApart(before)
			}
		}
	}
	if apart {
		run.putApart(a)
	}
	row.setLast(a)
	row.conclude(r)
	if row.Status == waypost.DeliveryFailed {
		run.failures = append(run.failures, r.Touchpoint)
	}
	if row.Status == waypost.DeliverySucceeded {
		run.successes = append(run.successes, r.Touchpoint)
	}
	if r.Progress != nil {
		run.progress = append(run.progress, *r.Progress)
	}
}

// putApart gives an attempt a row of its own.
func (run *recording) putApart(a attemptRow) {
	run.superseded[a.key()] = a
	run.classes[a.key()] = a.ErrorClass
}

// decides closes the attempt and tells whether it moves the delivery on. It does
// not if the delivery is final in this round, or a newer attempt is under way or
// recorded and this one did not succeed: then the newer one decides.
func (r *deliveryRow) decides(a delivery.AttemptRecord, newest bool) bool {
	if r.OpenAttempt <= a.Attempt {
		r.OpenAttempt, r.OpenAt, r.OpenBy = 0, stamp{}, ""
	}
	if a.Round < r.Round || a.Round == r.Round && r.Status.Final() {
		return false
	}
	return newest || a.Status == waypost.DeliverySucceeded
}

// conclude moves the delivery on by its last attempt.
func (r *deliveryRow) conclude(a delivery.AttemptRecord) {
	r.Round, r.Status, r.DeferredReason, r.DeferredSince = a.Round, a.Status, "", stamp{}
	if r.FirstAttemptAt.IsZero() {
		r.FirstAttemptAt = r.LastAttemptAt
	}
	r.Succeed, r.NextAttemptAt = nil, stamp{a.NextAttemptAt}
	if a.Status.Final() {
		r.NextAttemptAt = stamp{}
	}
	if succeeded := a.Status == waypost.DeliverySucceeded; succeeded || a.Status == waypost.DeliveryFailed {
		r.Succeed = &succeeded
	}
}

var upsertAttempt = bulk{
	table: "attempts",
	columns: []string{
		"enrollment_id text", "visit bigint", "round bigint", "attempt bigint", "at bigint", "http_status bigint", "error_class text",
		"duration_ms bigint", "response bytea", "gave_up text",
	},
	suffix: `ON CONFLICT (enrollment_id, visit, round, attempt) DO UPDATE SET at = EXCLUDED.at, http_status = EXCLUDED.http_status,
		error_class = EXCLUDED.error_class, duration_ms = EXCLUDED.duration_ms, response = EXCLUDED.response, gave_up = EXCLUDED.gave_up`,
}

// writeAttempts writes rows of distinct attempts, whose deliveries are locked.
func (s *deliveries) writeAttempts(ctx context.Context, tx bun.Tx, rows []attemptRow) error {
	slices.SortFunc(rows, func(a, b attemptRow) int { return compareTouchpoints(a.key().Touchpoint, b.key().Touchpoint) })
	return upsertAttempt.run(ctx, s.db, tx, len(rows), func(i int) []any {
		r := rows[i]
		return []any{r.EnrollmentID, r.Visit, r.Round, r.Attempt, r.At, r.HTTPStatus, r.ErrorClass, r.DurationMs, r.Response, string(r.GaveUp)}
	}, nil)
}

// ends are attempts that have ended, and the progress of their enrollments: moved_to is
// NULL where there is none. The columns was_… are how the enrollment must stand, was_node NULL
// if anywhere, and delta is what that changes in the statistics: the number of a text.
var ends = bulk{columns: []string{
	"enrollment_id text", "visit bigint", "attempt bigint", "status text", "succeed boolean", "next_attempt_at bigint",
	"at bigint", "http_status bigint", "error_class text", "duration_ms bigint", "response bytea", "gave_up text",
	"moved_to text", "node_id text", "last_seq bigint", "deferred boolean", "ended_at bigint", "end_seq bigint", "end_entries text",
	"was_status text", "was_node text", "was_seq bigint", "was_deferred boolean", "delta bigint",
}}

// recordFirst fails with asExpected where not all deliveries are as their attempts were
// opened, or an enrollment has ended meanwhile or stands elsewhere than its entries say. What
// comes from u goes through d: joined with u again, every row could be compared with all
// others, since nothing is known of how many there are when this is planned.
var recordFirst = recordEnds("", "u", "AND d.status = 'pending' AND "+asOpened)

// recordLater does so for attempts after the first, whose deliveries describe the attempt
// before, which gets a row of its own. They are locked for that: what is written there is
// what was last recorded.
var recordLater = recordEnds(`o AS MATERIALIZED (
		SELECT u.*, d.last_round, d.last_attempt, d.last_attempt_at, d.http_status AS last_http_status, d.error_class AS last_error_class,
			d.duration_ms AS last_duration_ms, d.response AS last_response
		FROM u JOIN deliveries AS d ON d.enrollment_id = u.enrollment_id AND d.visit = u.visit
		WHERE d.status = 'retrying' AND d.last_round = 1 AND `+asOpened+`
		ORDER BY d.enrollment_id, d.visit FOR NO KEY UPDATE OF d),
	a AS (INSERT INTO attempts (enrollment_id, visit, round, attempt, at, http_status, error_class, duration_ms, response)
		SELECT enrollment_id, visit, last_round, last_attempt, last_attempt_at, last_http_status, last_error_class, last_duration_ms, last_response FROM o
		ON CONFLICT (enrollment_id, visit, round, attempt) DO NOTHING),`, "o", "")

const asOpened = `d.round = 1 AND d.attempts = u.attempt - 1 AND d.last_attempt = u.attempt - 1 AND d.open_attempt = u.attempt AND d.first_attempt_at IS NOT NULL`

// recordEnds writes such a statement: before is what is done before the deliveries are
// updated, from is u or what that has made of it, and when is which deliveries it takes.
func recordEnds(before, from, when string) string {
	return `WITH u AS MATERIALIZED (SELECT * FROM ` + ends.arrayed() + ` AS u (` + strings.Join(ends.names(), ", ") + `)),
	` + before + `
	d AS (UPDATE deliveries AS d SET status = u.status, deferred_reason = '', deferred_since = NULL, succeed = u.succeed, next_attempt_at = u.next_attempt_at,
			attempts = u.attempt, open_attempt = 0, open_at = NULL, open_by = '',
			last_round = 1, last_attempt = u.attempt, last_attempt_at = u.at, http_status = u.http_status, error_class = u.error_class,
			duration_ms = u.duration_ms, response = u.response, gave_up = u.gave_up
		FROM ` + from + ` AS u WHERE d.enrollment_id = u.enrollment_id AND d.visit = u.visit ` + when + `
		RETURNING d.enrollment_id, u.moved_to, u.node_id, u.last_seq, u.deferred, u.ended_at, u.end_seq, u.end_entries,
			u.was_status, u.was_node, u.was_seq, u.was_deferred, u.delta,
			d.webhook_id, u.at, u.error_class, u.duration_ms, d.org, d.stage, d.leads_id, d.journey_id, d.status),
	k AS (` + insertChecks + "d.at + 1000 * d.duration_ms, 0 FROM d" + checkSent + `),
	h AS (` + intoHistory + `),
	e AS (UPDATE enrollments AS e SET status = d.moved_to, node_id = d.node_id, last_seq = d.last_seq, deferred = d.deferred, ended_at = d.ended_at,
			end_seq = d.end_seq, end_entries = d.end_entries, move = NULL
		FROM d WHERE e.id = d.enrollment_id AND d.moved_to IS NOT NULL AND e.ended_at IS NULL
			AND e.status = d.was_status AND (d.was_node IS NULL OR e.node_id = d.was_node) AND e.last_seq = d.was_seq AND e.deferred = d.was_deferred
		RETURNING e.id, e.journey_id, e.leads_id, e.entry_key, e.version, e.ended_at, e.test, d.delta),
	s AS (SELECT e.id FROM d JOIN enrollments AS e ON e.id = d.enrollment_id WHERE d.moved_to IS NULL AND e.ended_at IS NULL
		ORDER BY e.id FOR NO KEY UPDATE OF e),
	f AS (UPDATE journey_entries AS je SET active = je.active - n.n
		FROM (SELECT l.journey_id, l.leads_id, l.entry_key, n.n
			FROM (SELECT journey_id, leads_id, entry_key, count(*) AS n FROM e WHERE ended_at IS NOT NULL GROUP BY journey_id, leads_id, entry_key) AS n
			JOIN journey_entries AS l ON l.journey_id = n.journey_id AND l.leads_id = n.leads_id AND l.entry_key = n.entry_key
			ORDER BY l.journey_id, l.leads_id, l.entry_key FOR NO KEY UPDATE OF l) AS n
		WHERE je.journey_id = n.journey_id AND je.leads_id = n.leads_id AND je.entry_key = n.entry_key),
	t AS (INSERT INTO timeline AS t (enrollment_id, seq, last_seq, version, entries)
		SELECT r.enrollment_id, r.seq, r.last_seq, e.version, r.entries
		FROM unnest($25::text[], $26::bigint[], $27::bigint[], $28::text[]) AS r (enrollment_id, seq, last_seq, entries) JOIN e ON e.id = r.enrollment_id
		` + insertTimelineRow.suffix + `),
	c AS ` + insertDeltas("SELECT journey_id, version, ($29::text[])[delta] AS delta FROM e WHERE NOT test") + `,
	n AS (` + announceEndsAndFailures + `)
	SELECT CAST((SELECT count(*) FROM d) = $30 AND (SELECT count(*) FROM e) + (SELECT count(*) FROM s) = $30 AS ` + asExpected + `)`
}

// recordInOneStatement records attempts, unless anything was recorded of one of them since they
// were opened, and returns what is left to record.
func (s *attempts) recordInOneStatement(ctx context.Context, all []delivery.AttemptRecord) (rest []delivery.AttemptRecord, err error) {
	if !s.inOneStatement() {
		return all, nil
	}
	// Records with progress are apart from records without: the statement locks the
	// enrollments of the ones after those of the others, and each group in the order of ids.
	type group struct{ later, stays bool }
	groups := map[group][]delivery.AttemptRecord{}
	seen := make(map[string]bool, len(all)) // of two of one enrollment the second one comes later
	for _, r := range all {
		known := r.Status == waypost.DeliverySucceeded || r.Status == waypost.DeliveryFailed || r.Status == waypost.DeliveryRetrying
		if !known || r.Round > 1 || isSubscription(r.EnrollmentID) || r.Outcome.ErrorClass == waypost.ClassInterrupted || r.Outcome.At.IsZero() || seen[r.EnrollmentID] || !inSequence(r.Progress) {
			rest = append(rest, r)
		} else {
			g := group{later: r.Attempt > 1, stays: r.Progress == nil}
			groups[g] = append(groups[g], r)
		}
		seen[r.EnrollmentID] = true
	}
	var left []delivery.AttemptRecord
	for g, records := range groups {
		text := recordFirst
		if g.later {
			text = recordLater
		}
		done, err := s.recordGroup(ctx, text, records)
		if err != nil {
			return nil, err
		}
		if !done {
			left = append(left, records...)
		}
	}
	// In this order: what an enrollment has more of comes after its first.
	return append(left, rest...), nil
}

// inSequence tells whether progress, if there is any, has entries that follow one another to
// its end, of which the first one tells how the enrollment stands before them.
func inSequence(p *waypost.Progress) bool {
	if p == nil {
		return true
	}
	entries := slices.SortedStableFunc(slices.Values(p.Entries), bySeq)
	return len(entries) > 0 && (begins(entries[0]) || entries[0].NodeID != "") && follow(entries[0].Seq-1, entries, p.LastSeq)
}

// begins tells whether an entry is the first one of an enrollment, or the first one in
// another version.
func begins(e waypost.TimelineEntry) bool { return e.Seq == 1 || e.What == waypost.WhatEntered }

// assumedMove is a move of an enrollment of which it is assumed how it is recorded.
type assumedMove struct {
	move
	was     enrollmentState // without the journey and the version, which need not be known; "" as NodeID: any
	entries []waypost.TimelineEntry
	at      time.Time
	delta   int // the number of its changes of the statistics, from 1 on
}

// assumeMove is newMove for progress inSequence, if the enrollment stands as its first entry
// says.
func (s *attempts) assumeMove(p waypost.Progress) (m assumedMove, rows []timelineRow, err error) {
	entries, rows, err := s.progress.timelineRows(p.EnrollmentID, slices.Clone(p.Entries))
	if err != nil {
		return m, nil, err
	}
	first := entries[0]
	m.was = enrollmentState{Status: waypost.EnrollmentRunning, NodeID: first.NodeID, LastSeq: first.Seq - 1, Deferred: p.Deferred}
	switch what := first.What; {
	case begins(first):
		m.was.Status, m.was.NodeID = waypost.EnrollmentPending, ""
	case what == waypost.WhatWaited, what == waypost.WhatMatched, what == waypost.WhatTimedOut:
		m.was.Status = waypost.EnrollmentWaiting
	}
	m.move, rows = s.progress.newMove(p, entries, rows)
	m.entries, m.at = inVersion(entries, 0), s.progress.endOf(p).Time
	return m, rows, nil
}

// shape is the same for moves that change the statistics alike: nearly all of a batch do, and
// it takes a tenth of the time of changes.
func (m *assumedMove) shape() string {
	shape := make([]byte, 0, 128)
	add := func(texts ...string) {
		for _, text := range texts {
			shape = append(append(shape, text...), 0)
		}
	}
	add(string(m.was.Status), m.was.NodeID, strconv.FormatBool(m.was.Deferred), string(m.Status), m.NodeID, strconv.FormatBool(m.deferred))
	shape = strconv.AppendInt(shape, hourOf(m.at), 10)
	for _, e := range m.entries {
		add(e.NodeID, e.What, e.Next, e.Way)
		shape = strconv.AppendInt(shape, hourOf(e.At), 10)
	}
	return string(shape)
}

// changes is what the move changes in the statistics, as a delta that stands for one.
func (m *assumedMove) changes() (string, error) {
	t := tallies{}
	t.walk("", m.was.place(), m.entries, 1)
	t.moveTo(m.was, m.move, m.at)
	return toJSON(t.of("", 0).trim())
}

// recordGroup records all of the attempts or, if anything is in the way of one, none.
func (s *attempts) recordGroup(ctx context.Context, text string, records []delivery.AttemptRecord) (done bool, err error) {
	// In the order in which rows are locked.
	slices.SortFunc(records, func(a, b delivery.AttemptRecord) int { return compareTouchpoints(a.Touchpoint, b.Touchpoint) })
	moves, numbers := make([]assumedMove, len(records)), map[string]int{}
	var ids, entries, deltas []string
	var seqs, lastSeqs []int64
	for i, r := range records {
		if r.Progress == nil {
			continue
		}
		m, rows, err := s.assumeMove(*r.Progress)
		if err != nil {
			return false, err
		}
		shape := m.shape()
		if m.delta = numbers[shape]; m.delta == 0 {
			changes, err := m.changes()
			if err != nil {
				return false, err
			}
			deltas = append(deltas, changes)
			m.delta = len(deltas)
			numbers[shape] = m.delta
		}
		moves[i] = m
		for _, row := range rows {
			ids, seqs, lastSeqs, entries = append(ids, row.EnrollmentID), append(seqs, row.Seq), append(lastSeqs, row.LastSeq), append(entries, row.Entries)
		}
	}
	args, err := ends.arrays(len(records), func(i int) []any {
		r, m := records[i], &moves[i]
		var succeed *bool
		next := stamp{r.NextAttemptAt}
		if r.Status.Final() {
			succeeded := r.Status == waypost.DeliverySucceeded
			succeed, next = &succeeded, stamp{}
		}
		a := newAttemptRow(r, s.deliveries.sealResponse(r.Touchpoint, r.Outcome.Message, r.Outcome.Excerpt))
		return []any{
			r.EnrollmentID, r.Visit, r.Attempt, string(r.Status), succeed, next, a.At, a.HTTPStatus, a.ErrorClass, a.DurationMs,
			a.Response, string(a.GaveUp), nullable(string(m.Status)), m.NodeID, m.LastSeq, m.deferred, m.endedAt, m.endSeq, m.endEntries,
			string(m.was.Status), nullable(m.was.NodeID), m.was.LastSeq, m.was.Deferred, m.delta,
		}
	})
	if err != nil {
		return false, err
	}
	rows, err := s.query(ctx, nil, text, append(args, ids, seqs, lastSeqs, entries, deltas, len(records))...)
	if err == nil {
		err = scanAll(rows, func(rows *sql.Rows) error { return rows.Scan(new(bool)) })
	}
	if refused(err) {
		return false, nil
	}
	return err == nil, err
}
