package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// attemptKey names an attempt.
type attemptKey struct {
	messageID      string
	round, attempt int
}

// upsertAttempt returns the attempts that were not known yet, or only as
// interrupted.
var upsertAttempt = bulk{
	table: "attempts AS a",
	columns: []string{
		"message_id text", "round bigint", "attempt bigint", "at bigint", "http_status bigint", "error_class text", "message text",
		"duration_ms bigint", "response_excerpt text",
	},
	suffix: `ON CONFLICT (message_id, round, attempt) DO UPDATE SET at = EXCLUDED.at, http_status = EXCLUDED.http_status,
		error_class = EXCLUDED.error_class, message = EXCLUDED.message, duration_ms = EXCLUDED.duration_ms,
		response_excerpt = EXCLUDED.response_excerpt
		WHERE a.error_class = '` + waypost.ClassInterrupted + `' AND EXCLUDED.error_class <> '` + waypost.ClassInterrupted + `'
		RETURNING message_id, round, attempt`,
}

// RecordAttempts writes down how attempts ended: the attempts' rows, the
// deliveries' new states and the enrollments' progress, all in one transaction.
// See waypost.AttemptRecord for what a repeated record does. A delivery that has
// become final stays as it is in its round; a later record only adds its attempt.
// A touchpoint without a delivery gets one from Delivery (render failures).
func (s *Store) RecordAttempts(ctx context.Context, records []waypost.AttemptRecord) error {
	if len(records) == 0 {
		return nil
	}
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error { return s.recordAttempts(ctx, tx, records) })
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
	locked, err := s.lockDeliveries(ctx, tx, keys)
	if err != nil {
		return err
	}
	var missing []deliveryRow
	for _, r := range records {
		if locked[r.Touchpoint] == nil {
			missing = append(missing, newDeliveryRow(r.Touchpoint, r.Scope, r.Delivery))
		}
	}
	if len(missing) > 0 {
		if err := s.addDeliveries(ctx, tx, missing, locked); err != nil {
			return err
		}
	}
	var progress []waypost.Progress
	for _, wave := range waves(records) {
		more, err := s.recordWave(ctx, tx, wave, locked)
		if err != nil {
			return err
		}
		progress = append(progress, more...)
	}
	return s.recordProgress(ctx, tx, progress)
}

// addDeliveries makes rows that were not there when they were looked for, and
// locks them with those that another transaction made meanwhile.
func (s *Store) addDeliveries(ctx context.Context, tx bun.Tx, missing []deliveryRow, locked map[waypost.Touchpoint]*deliveryRow) error {
	var rows []deliveryRow
	var keys []waypost.Touchpoint
	for _, row := range missing {
		if row.MessageID == "" {
			return fmt.Errorf("visit %d of enrollment %s has no delivery and no message id for one", row.Visit, row.EnrollmentID)
		}
		if !slices.Contains(keys, row.touchpoint()) {
			rows, keys = append(rows, row), append(keys, row.touchpoint())
		}
	}
	if _, err := s.insertDeliveries(ctx, tx, rows); err != nil {
		return err
	}
	more, err := s.lockDeliveries(ctx, tx, keys)
	if err != nil {
		return err
	}
	for key, row := range more {
		locked[key] = row
	}
	return nil
}

// waves splits records so that each wave has one of a touchpoint, in their order:
// one statement cannot change a row twice.
func waves(records []waypost.AttemptRecord) [][]waypost.AttemptRecord {
	var list [][]waypost.AttemptRecord
	seen := make(map[waypost.Touchpoint]int, len(records))
	for _, r := range records {
		n := seen[r.Touchpoint]
		seen[r.Touchpoint]++
		if n == len(list) {
			list = append(list, nil)
		}
		list[n] = append(list[n], r)
	}
	return list
}

// recordWave returns the progress of those records that were new.
func (s *Store) recordWave(ctx context.Context, tx bun.Tx, wave []waypost.AttemptRecord, locked map[waypost.Touchpoint]*deliveryRow) ([]waypost.Progress, error) {
	rows := make([]attemptRow, len(wave))
	for i, r := range wave {
		row := locked[r.Touchpoint]
		if r.Round == 0 {
			wave[i].Round = row.Round
		}
		if r.Outcome.At.IsZero() {
			wave[i].Outcome.At = s.time()
		}
		rows[i] = newAttemptRow(row.MessageID, wave[i])
	}
	slices.SortFunc(rows, func(a, b attemptRow) int { return cmp.Compare(a.MessageID, b.MessageID) })
	isNew := make(map[attemptKey]bool, len(rows))
	err := upsertAttempt.run(ctx, s, tx, len(rows), func(i int) []any {
		r := rows[i]
		return []any{r.MessageID, r.Round, r.Attempt, r.At, r.HTTPStatus, r.ErrorClass, r.Message, r.DurationMs, r.ResponseExcerpt}
	}, func(returned *sql.Rows) error {
		var key attemptKey
		err := returned.Scan(&key.messageID, &key.round, &key.attempt)
		isNew[key] = true
		return err
	})
	if err != nil {
		return nil, err
	}
	var updates []deliveryRow
	var progress []waypost.Progress
	for _, r := range wave {
		row := locked[r.Touchpoint]
		if !isNew[attemptKey{row.MessageID, r.Round, r.Attempt}] {
			continue
		}
		if row.record(r) && r.Progress != nil {
			progress = append(progress, *r.Progress)
		}
		updates = append(updates, *row)
	}
	return progress, s.updateDeliveries(ctx, tx, updates)
}

func newAttemptRow(messageID string, r waypost.AttemptRecord) attemptRow {
	return attemptRow{
		MessageID: messageID, Round: r.Round, Attempt: r.Attempt, At: stamp{r.Outcome.At}, HTTPStatus: r.Outcome.HTTPStatus,
		ErrorClass: r.Outcome.ErrorClass, Message: cleanText(r.Outcome.Message), DurationMs: r.Outcome.Duration.Milliseconds(),
		ResponseExcerpt: cleanText(r.Outcome.Excerpt),
	}
}

// record moves the delivery on by an attempt that was not known yet; false if the
// delivery keeps its state: it is final in this round, or a newer attempt is under
// way or recorded and this one did not succeed: then the newer one decides.
func (r *deliveryRow) record(a waypost.AttemptRecord) bool {
	newest := a.Attempt >= max(r.Attempts, r.OpenAttempt)
	r.Attempts = max(r.Attempts, a.Attempt)
	if r.OpenAttempt <= a.Attempt {
		r.OpenAttempt, r.OpenAt, r.OpenBy = 0, stamp{}, ""
	}
	if a.Round < r.Round || a.Round == r.Round && r.Status.Final() || !newest && a.Status != waypost.DeliverySucceeded {
		return false
	}
	r.Round, r.Status, r.DeferredReason, r.DeferredSince = a.Round, a.Status, "", stamp{}
	r.HTTPStatus, r.ErrorClass, r.Message = a.Outcome.HTTPStatus, a.Outcome.ErrorClass, cleanText(a.Outcome.Message)
	r.LastAttemptAt, r.DurationMs = stamp{a.Outcome.At}, a.Outcome.Duration.Milliseconds()
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
	return true
}
