package store

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

const (
	// Health is read from the newest messages of a webhook and from the newest of
	// their attempts, so that it costs the same however much was sent.
	healthMessages = 10_000
	healthAttempts = 50_000
	healthErrors   = 10
)

// healthRow is an attempt of a message, without its texts.
type healthRow struct {
	MessageID  string `bun:"message_id"`
	Attempt    int    `bun:"attempt"`
	At         stamp  `bun:"at"`
	HTTPStatus int    `bun:"http_status"`
	ErrorClass string `bun:"error_class"`
	DurationMs int64  `bun:"duration_ms"`
}

// WebhookTraffic returns what waits for a webhook and how its attempts have ended
// in the last hour and the last 24 hours. NotFound if the scope has none of this id.
func (s *webhooks) WebhookTraffic(ctx context.Context, sc waypost.Scope, id string) (t waypost.WebhookTraffic, err error) {
	defer wrap(&err, "read traffic of webhook %s", clip(id))
	if _, err := s.webhookRow(ctx, sc, id); err != nil {
		return t, err
	}
	if t.Deferred, err = s.waiting(ctx, id, waypost.DeliveryDeferred); err != nil {
		return t, err
	}
	retrying, err := s.waiting(ctx, id, waypost.DeliveryRetrying)
	if err != nil {
		return t, err
	}
	for _, w := range retrying {
		t.Retrying += w.Count
	}
	now := s.time()
	rows, since, err := s.newestAttempts(ctx, id, now.Add(-24*time.Hour))
	if err != nil {
		return t, err
	}
	t.SampledSince = since
	t.Day = statsOf(rows)
	t.Hour = statsOf(rows[:countSince(rows, now.Add(-time.Hour))])
	if last := slices.IndexFunc(rows, func(r healthRow) bool { return r.ErrorClass == "" }); last >= 0 {
		t.LastSuccess = rows[last].At.Time
	}
	t.LastErrors, err = s.newestErrors(ctx, id, rows)
	return t, err
}

// waiting counts the deliveries of a status by reason, of each reason the oldest ones.
// Reasons come in the order of the index, so that it stops after MaxWaiting rows:
// PostgreSQL takes a reason that is asked for to be rarer than it is, and would read
// and sort all of them.
func (s *webhooks) waiting(ctx context.Context, id string, status waypost.DeliveryStatus) (list []waypost.Waiting, err error) {
	type group struct {
		Reason string `bun:"deferred_reason"`
		N      int    `bun:"n"`
		Since  stamp  `bun:"since"`
	}
	for from, reason := bun.Safe(">="), ""; ; {
		var groups []group
		err := s.r.NewRaw(`SELECT deferred_reason, count(*) AS n, min(deferred_since) AS since FROM (
				SELECT deferred_reason, deferred_since FROM deliveries WHERE webhook_id = ? AND trouble = ? AND deferred_reason ? ?
				ORDER BY deferred_reason, message_id LIMIT ?
			) AS oldest GROUP BY deferred_reason ORDER BY deferred_reason`, id, status, from, reason, waypost.MaxWaiting).Scan(ctx, &groups)
		if err != nil {
			return nil, fmt.Errorf("count deliveries that wait: %w", err)
		}
		read := 0
		for _, g := range groups {
			read += g.N
		}
		last := len(groups) - 1
		if read == waypost.MaxWaiting {
			// The last reason may have more: unless it is alone, it is counted once more.
			from, reason = bun.Safe(">="), groups[last].Reason
			if last > 0 {
				groups = groups[:last]
			} else {
				from = bun.Safe(">")
			}
		}
		for _, g := range groups {
			list = append(list, waypost.Waiting{Reason: g.Reason, Count: g.N, Since: g.Since.Time})
		}
		if read < waypost.MaxWaiting {
			return list, nil
		}
	}
}

// newestAttempts returns the attempts after some time, newest first, and since when
// all are known if that is later.
func (s *webhooks) newestAttempts(ctx context.Context, id string, after time.Time) (rows []healthRow, since time.Time, err error) {
	var oldest []string
	err = s.r.NewRaw("SELECT message_id FROM deliveries WHERE webhook_id = ? ORDER BY message_id DESC LIMIT 1 OFFSET ?", id, healthMessages).Scan(ctx, &oldest)
	if err != nil {
		return nil, since, fmt.Errorf("look for older messages: %w", err)
	}
	for _, message := range oldest {
		since = waypost.IDTime(waypost.PrefixMessage, message).Add(time.Millisecond)
	}
	// The last attempt stands in the delivery's row, unless it has one of its own. The
	// cross join keeps SQLite from reading all attempts that there are.
	err = s.r.NewRaw(`WITH newest AS MATERIALIZED (
			SELECT enrollment_id, visit, message_id, attempts, last_attempt, last_attempt_at, http_status, error_class, duration_ms
			FROM deliveries WHERE webhook_id = ? ORDER BY message_id DESC LIMIT ?
		)
		SELECT message_id, last_attempt AS attempt, last_attempt_at AS at, http_status, error_class, duration_ms
		FROM newest WHERE last_attempt > 0 AND last_attempt_at >= ?
		UNION ALL
		SELECT n.message_id, a.attempt, a.at, a.http_status, a.error_class, a.duration_ms
		FROM newest AS n CROSS JOIN attempts AS a
		WHERE a.enrollment_id = n.enrollment_id AND a.visit = n.visit AND n.attempts > 1 AND a.at >= ? AND a.attempt <> n.last_attempt
		ORDER BY at DESC LIMIT ?`,
		id, healthMessages, stamp{after}, stamp{after}, healthAttempts).Scan(ctx, &rows)
	if err != nil {
		return nil, since, fmt.Errorf("read attempts: %w", err)
	}
	if len(rows) == healthAttempts {
		if first := rows[len(rows)-1].At.Time; first.After(since) {
			since = first
		}
	}
	return rows, since, nil
}

// countSince counts those of rows, newest first, that were made at t or later.
func countSince(rows []healthRow, t time.Time) int {
	n, _ := slices.BinarySearchFunc(rows, t, func(r healthRow, t time.Time) int {
		if r.At.Before(t) {
			return 1
		}
		return -1
	})
	return n
}

func statsOf(rows []healthRow) waypost.AttemptStats {
	stats := waypost.AttemptStats{Errors: map[string]int{}}
	var took []int64
	for _, r := range rows {
		switch r.ErrorClass {
		case waypost.ClassRender, waypost.ClassInterrupted:
			continue
		case "":
			stats.Succeeded++
		default:
			stats.Errors[r.ErrorClass]++
		}
		took = append(took, r.DurationMs)
	}
	stats.Attempts = len(took)
	slices.Sort(took)
	percentile := func(share float64) time.Duration {
		if len(took) == 0 {
			return 0
		}
		return time.Duration(took[max(0, int(math.Ceil(share*float64(len(took))))-1)]) * time.Millisecond
	}
	stats.P50, stats.P95, stats.P99, stats.Max = percentile(0.50), percentile(0.95), percentile(0.99), percentile(1)
	return stats
}

// newestErrors returns the last errors among rows, newest first, and where those are
// few, of older messages that have failed or are retried.
func (s *webhooks) newestErrors(ctx context.Context, id string, rows []healthRow) ([]waypost.FailedAttempt, error) {
	var failed []healthRow
	for _, r := range rows {
		if r.ErrorClass != "" && len(failed) < healthErrors {
			failed = append(failed, r)
		}
	}
	if len(failed) < healthErrors {
		for _, status := range []waypost.DeliveryStatus{waypost.DeliveryFailed, waypost.DeliveryRetrying} {
			var older []healthRow
			err := s.r.NewRaw(`SELECT message_id, last_attempt AS attempt, last_attempt_at AS at, http_status, error_class, duration_ms
				FROM deliveries WHERE webhook_id = ? AND trouble = ? AND deferred_reason = '' AND last_attempt > 0 ORDER BY message_id DESC LIMIT ?`,
				id, status, healthErrors).Scan(ctx, &older)
			if err != nil {
				return nil, fmt.Errorf("read errors: %w", err)
			}
			failed = append(failed, older...)
		}
		slices.SortFunc(failed, func(a, b healthRow) int {
			return cmp.Or(b.At.Compare(a.At.Time), cmp.Compare(b.MessageID, a.MessageID), cmp.Compare(b.Attempt, a.Attempt))
		})
		failed = slices.Compact(failed)
	}
	return mapped(failed[:min(len(failed), healthErrors)], func(r healthRow) waypost.FailedAttempt {
		return waypost.FailedAttempt{
			MessageID: r.MessageID, Attempt: r.Attempt, At: r.At.Time, HTTPStatus: r.HTTPStatus, ErrorClass: r.ErrorClass, DurationMs: r.DurationMs,
		}
	}), nil
}
