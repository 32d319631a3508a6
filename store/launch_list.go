package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// Conditions of launches (alias la).
const (
	// Not EXISTS: PostgreSQL would read the enrollments of all launches first.
	launchActive = "((SELECT 1 FROM enrollments AS e WHERE e.launch_id = la.id AND e.ended_at IS NULL LIMIT 1) IS NOT NULL)"
	launchOpen   = "la.ended = '' AND (la.done_at IS NULL OR " + launchActive + ")"
	// The pauses of enrollments, which can be many, lie outside of the range.
	launchHeld = "(la.id IN (" + pausesInForce + ") OR la.journey_id IN (" + pausesInForce + "))"

	pausesInForce = "SELECT ct.target FROM controls AS ct WHERE ct.kind = 'pause' AND ct.until_at IS NULL AND ct.target BETWEEN 'jrn_' AND 'lch_~'"
)

// ofStatus are the conditions of the launches whose status, as standingRow derives it, is
// this one at a time. Each has an index, and no launch meets two of them.
func ofStatus(status waypost.LaunchStatus, now time.Time) []condition {
	const goesOn = launchOpen + " AND NOT " + launchHeld
	switch status {
	case waypost.LaunchCanceled:
		return []condition{{"la.ended = ?", []any{status}}}
	case waypost.LaunchCompleted:
		return []condition{{"la.ended = ?", []any{status}}, {"la.ended = '' AND la.done_at IS NOT NULL AND NOT " + launchActive, nil}}
	case waypost.LaunchPaused:
		return []condition{{launchOpen + " AND " + launchHeld, nil}}
	case waypost.LaunchScheduled:
		return []condition{{goesOn + " AND (la.cron IS NOT NULL OR la.started_at IS NULL AND la.start_at > ?)", []any{stamp{now}}}}
	case waypost.LaunchRunning:
		return []condition{{goesOn + " AND la.cron IS NULL AND la.started_at IS NOT NULL", nil}}
	case waypost.LaunchPending:
		return []condition{{goesOn + " AND la.cron IS NULL AND la.started_at IS NULL AND COALESCE(la.start_at <= ?, TRUE)", []any{stamp{now}}}}
	}
	return []condition{{"TRUE", nil}}
}

// ListLaunches returns the scope's launches that match the filter, newest first.
// Progress.Completed and Progress.Outcomes are left out: only Launch counts them.
func (s *launches) ListLaunches(
	ctx context.Context, sc waypost.Scope, f waypost.LaunchFilter, page waypost.Page,
) (_ []waypost.Launch, err error) {
	defer wrap(&err, "list launches")
	var rows []standingRow
	for _, c := range ofStatus(f.Status, s.time()) {
		var found []standingRow
		q := pageOf(standing(s.r, &found), sc, "id", page).Where(c.text, c.args...)
		if f.JourneyID != "" {
			q.Where("la.journey_id = ?", cleanText(f.JourneyID))
		}
		if f.RecurringID != "" {
			q.Where("la.recurring_id = ?", cleanText(f.RecurringID))
		}
		if err := q.Scan(ctx); err != nil {
			return nil, err
		}
		rows = append(rows, found...)
	}
	slices.SortFunc(rows, func(a, b standingRow) int { return cmp.Compare(b.ID, a.ID) })
	return s.launches(ctx, rows[:min(len(rows), int(pageSize(page)))])
}

// launchesAtOnce is how many launches a transaction marks as completed at most.
const launchesAtOnce = 1000

// AnnounceEndedLaunches marks up to 1,000 launches that have completed, and announces them. It does
// nothing while no subscription is of waypost.LaunchEnded. more tells that there may be others.
func (s *launches) AnnounceEndedLaunches(ctx context.Context) (more bool, err error) {
	defer wrap(&err, "announce ended launches")
	subscribed, err := s.r.NewSelect().Model((*subscriptionTypeRow)(nil)).Where("type = ?", waypost.LaunchEnded).Exists(ctx)
	if err != nil || !subscribed {
		return false, err
	}
	n, err := s.markCompletedLaunches(ctx)
	return n == launchesAtOnce, err
}

// markCompletedLaunches notes which launches have completed since it last looked, so that lists of
// those that have not ended pass over them, and announces them. It returns how many, at most
// launchesAtOnce; if it is that many, there may be more.
func (s *launches) markCompletedLaunches(ctx context.Context) (n int, err error) {
	err = s.writeRows(ctx, launchesAtOnce, func(ctx context.Context, tx bun.Tx) error {
		n = 0 // of a try before
		var ids []string
		q := tx.NewSelect().Model((*launchRow)(nil)).Column("id").
			Where("la.ended = '' AND la.cron IS NULL AND la.done_at IS NOT NULL AND NOT " + launchActive).Order("id").Limit(launchesAtOnce)
		if err := s.lockFor(q, forChange+skipLocked).Scan(ctx, &ids); err != nil || len(ids) == 0 {
			return err
		}
		n = len(ids)
		if err := s.announcements.announceLaunches(ctx, tx, ids, waypost.LaunchCompleted, s.in(launchEnd)); err != nil {
			return err
		}
		_, err := tx.NewUpdate().Model((*launchRow)(nil)).Set("ended = ?", waypost.LaunchCompleted).Where("id IN (?)", bun.List(ids)).Exec(ctx)
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("mark completed launches: %w", err)
	}
	return n, nil
}
