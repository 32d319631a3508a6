package store

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/uptrace/bun"

	"waypost"
)

// attemptRow is an attempt. The one that a delivery's outcome columns describe
// stands in the delivery's row alone, all others in a row of their own; if an
// attempt has one, that is the record of it.
type attemptRow struct {
	bun.BaseModel `bun:"table:attempts,alias:a"`

	EnrollmentID string `bun:"enrollment_id,pk"`
	Visit        int    `bun:"visit,pk"`
	Round        int    `bun:"round,pk"`
	Attempt      int    `bun:"attempt,pk"`
	At           stamp  `bun:"at"`
	HTTPStatus   int    `bun:"http_status"`
	ErrorClass   string `bun:"error_class"`
	DurationMs   int64  `bun:"duration_ms"`
	Response     []byte `bun:"response"` // see sealResponse

	GaveUp waypost.GaveUp `bun:"gave_up"` // "" unless the delivery failed with it
}

func newAttemptRow(r waypost.AttemptRecord, response []byte) attemptRow {
	return attemptRow{
		EnrollmentID: r.EnrollmentID, Visit: r.Visit, Round: r.Round, Attempt: r.Attempt, At: stamp{r.Outcome.At}, HTTPStatus: r.Outcome.HTTPStatus,
		ErrorClass: r.Outcome.ErrorClass, DurationMs: r.Outcome.Duration.Milliseconds(),
		Response: response, GaveUp: r.GaveUp,
	}
}

func (s *Store) attempt(r attemptRow) waypost.Attempt {
	message, excerpt := s.showResponse(r.key().Touchpoint, r.Response)
	return waypost.Attempt{
		Attempt: r.Attempt, Round: r.Round, At: r.At.Time, HTTPStatus: r.HTTPStatus, ErrorClass: r.ErrorClass,
		Message: r.GaveUp.Explain(message), DurationMs: r.DurationMs, ResponseExcerpt: excerpt, GaveUp: r.GaveUp,
	}
}

func responsePurpose(key waypost.Touchpoint) string {
	return "response/" + key.EnrollmentID + "/" + strconv.Itoa(key.Visit)
}

// sealResponse encrypts what a receiver has said: the message of its answer and the
// beginning of the body. It may repeat what it was sent. NULL if it has said nothing.
func (s *Store) sealResponse(key waypost.Touchpoint, message, excerpt string) []byte {
	if message == "" && excerpt == "" {
		return nil
	}
	return s.keys.Seal([]byte(cleanText(message)+responseSeparator+cleanText(excerpt)), responsePurpose(key))
}

// responseSeparator is in no text that cleanText returns.
const responseSeparator = "\x00"

// openResponse reverses sealResponse.
func (s *Store) openResponse(key waypost.Touchpoint, sealed []byte) (message, excerpt string, err error) {
	if sealed == nil {
		return "", "", nil
	}
	plain, err := s.keys.Open(sealed, responsePurpose(key))
	message, excerpt, _ = strings.Cut(string(plain), responseSeparator)
	return message, excerpt, err
}

// showResponse is openResponse for people. Where that fails the message says so, and no
// more: which keys there are is nothing to clients. The rest of the delivery, and the
// others of a list, are shown all the same.
func (s *Store) showResponse(key waypost.Touchpoint, sealed []byte) (message, excerpt string) {
	message, excerpt, err := s.openResponse(key, sealed)
	if err != nil {
		message = "the answer cannot be read at the moment"
	}
	return message, excerpt
}

// attemptKey names an attempt.
type attemptKey struct {
	waypost.Touchpoint
	round, attempt int
}

func (r attemptRow) key() attemptKey {
	return attemptKey{waypost.Touchpoint{EnrollmentID: r.EnrollmentID, Visit: r.Visit}, r.Round, r.Attempt}
}

// last returns the attempt that the outcome columns describe, none before the
// first one was recorded.
func (r *deliveryRow) last() []attemptRow {
	if r.LastAttempt == 0 {
		return nil
	}
	return []attemptRow{{
		EnrollmentID: r.EnrollmentID, Visit: r.Visit, Round: r.LastRound, Attempt: r.LastAttempt, At: r.LastAttemptAt, HTTPStatus: r.HTTPStatus,
		ErrorClass: r.ErrorClass, DurationMs: r.DurationMs, Response: r.Response, GaveUp: r.GaveUp,
	}}
}

// setLast makes the outcome columns describe another attempt.
func (r *deliveryRow) setLast(a attemptRow) {
	r.LastRound, r.LastAttempt, r.LastAttemptAt, r.HTTPStatus = a.Round, a.Attempt, a.At, a.HTTPStatus
	r.ErrorClass, r.DurationMs, r.Response, r.GaveUp = a.ErrorClass, a.DurationMs, a.Response, a.GaveUp
}

// RecordAttempts writes down how attempts ended: the attempts, the deliveries' new
// states and the enrollments' progress; all of one record in one transaction. See
// waypost.AttemptRecord for what a repeated record does. A delivery that has
// become final stays as it is in its round; a later record only adds its attempt.
// A touchpoint without a delivery gets one from Delivery (render failures). What
// would be retried is canceled if its enrollment was or has exited; a redelivery is
// not.
func (s *Store) RecordAttempts(ctx context.Context, records []waypost.AttemptRecord) error {
	if len(records) == 0 {
		return nil
	}
	records, err := s.recordAtOnce(ctx, records)
	if err != nil {
		return fmt.Errorf("record attempts: %w", err)
	}
	if len(records) == 0 {
		return nil
	}
	err = s.writeRows(ctx, len(records), func(ctx context.Context, tx bun.Tx) error { return s.recordAttempts(ctx, tx, records) })
	if err != nil {
		return fmt.Errorf("record attempts: %w", err)
	}
	return nil
}

func (s *Store) recordAttempts(ctx context.Context, tx bun.Tx, records []waypost.AttemptRecord) error {
	keys := make([]waypost.Touchpoint, len(records))
	for i, r := range records {
		keys[i] = r.Touchpoint
	}
	deliveries, err := s.lockDeliveries(ctx, tx, keys)
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
	enrollments, err := s.lockEnrollments(ctx, tx, enrollmentsOf(keys))
	if err != nil {
		return err
	}
	run := recording{enrollments: enrollments, deliveries: deliveries, changed: map[waypost.Touchpoint]bool{}, superseded: map[attemptKey]attemptRow{}}
	if run.classes, err = s.supersededAttempts(ctx, tx, deliveries); err != nil {
		return err
	}
	for _, r := range records {
		if r.Outcome.At.IsZero() {
			r.Outcome.At = s.time()
		}
		run.record(r, s.sealResponse(r.Touchpoint, r.Outcome.Message, r.Outcome.Excerpt))
	}
	updates := make([]*deliveryRow, 0, len(run.changed))
	for key := range run.changed {
		updates = append(updates, deliveries[key])
	}
	if err := s.writeAttempts(ctx, tx, slices.Collect(maps.Values(run.superseded))); err != nil {
		return err
	}
	if err := s.updateDeliveries(ctx, tx, updates); err != nil {
		return err
	}
	if err := eraseLeadless(ctx, tx, run.outlasting()); err != nil {
		return err
	}
	return s.moveEnrollments(ctx, tx, run.progress, enrollments)
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
func (s *Store) addDeliveries(ctx context.Context, tx bun.Tx, missing []deliveryRow, deliveries map[waypost.Touchpoint]*deliveryRow) (map[waypost.Touchpoint]bool, error) {
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
	fresh, err := s.insertDeliveries(ctx, tx, rows)
	if err != nil {
		return nil, err
	}
	var keys []waypost.Touchpoint
	for i := range rows {
		if key := rows[i].touchpoint(); fresh[key] {
			deliveries[key] = &rows[i]
		} else {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return fresh, nil
	}
	more, err := s.lockDeliveries(ctx, tx, keys)
	if err != nil {
		return nil, err
	}
	maps.Copy(deliveries, more)
	return fresh, nil
}

// supersededAttempts reads which attempts have rows of their own, and their
// classes: of those deliveries that can have any.
func (s *Store) supersededAttempts(ctx context.Context, tx bun.Tx, deliveries map[waypost.Touchpoint]*deliveryRow) (map[attemptKey]string, error) {
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
	progress   []waypost.Progress
}

func (run *recording) record(r waypost.AttemptRecord, response []byte) {
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
func (r *deliveryRow) decides(a waypost.AttemptRecord, newest bool) bool {
	if r.OpenAttempt <= a.Attempt {
		r.OpenAttempt, r.OpenAt, r.OpenBy = 0, stamp{}, ""
	}
	if a.Round < r.Round || a.Round == r.Round && r.Status.Final() {
		return false
	}
	return newest || a.Status == waypost.DeliverySucceeded
}

// conclude moves the delivery on by its last attempt.
func (r *deliveryRow) conclude(a waypost.AttemptRecord) {
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
func (s *Store) writeAttempts(ctx context.Context, tx bun.Tx, rows []attemptRow) error {
	slices.SortFunc(rows, func(a, b attemptRow) int { return compareTouchpoints(a.key().Touchpoint, b.key().Touchpoint) })
	return upsertAttempt.run(ctx, s, tx, len(rows), func(i int) []any {
		r := rows[i]
		return []any{r.EnrollmentID, r.Visit, r.Round, r.Attempt, r.At, r.HTTPStatus, r.ErrorClass, r.DurationMs, r.Response, string(r.GaveUp)}
	}, nil)
}
