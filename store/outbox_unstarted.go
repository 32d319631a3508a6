package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// claimUnstarted returns up to limit rows of R's table that no workflow was started
// for: new ones, and those that were claimed before the given time and not marked
// since. It stamps their claim, so that of two callers one gets them; none waits for
// another. open is what else they must satisfy.
func claimUnstarted[R any](ctx context.Context, s *Store, open string, claimedBefore time.Time, limit int, id func(R) string) ([]R, error) {
	return claim(ctx, s, condition{"workflow_started_at IS NULL AND " + open, nil}, claimedBefore, limit, id)
}

// claim is claimUnstarted for the rows that satisfy a condition.
func claim[R any](ctx context.Context, s *Store, of condition, claimedBefore time.Time, limit int, id func(R) string) ([]R, error) {
	which := func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where(of.text, of.args...).Where("claimed_at IS NULL OR claimed_at < ?", stamp{claimedBefore})
	}
	// Without a lock first: an idle pump costs one read.
	if found, err := which(s.r.NewSelect().Model((*R)(nil)).Column("id")).Limit(1).Exists(ctx); err != nil || !found {
		return nil, err
	}
	var rows []R
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		rows = nil
		q := which(tx.NewSelect().Model(&rows)).Order("id").Limit(int64(limit))
		if err := s.lockFor(q, forChange+skipLocked).Scan(ctx); err != nil || len(rows) == 0 {
			return err
		}
		ids := make([]string, len(rows))
		for i, row := range rows {
			ids[i] = id(row)
		}
		_, err := tx.NewUpdate().Model((*R)(nil)).Set("claimed_at = ?", stamp{s.time()}).Where("id IN (?)", bun.List(ids)).Exec(ctx)
		return err
	})
	return rows, err
}

// markStarted notes that the workflow of a row of R's table runs. A second call
// changes nothing. NotFound if there is no such row.
func markStarted[R any](ctx context.Context, s *Store, id, what string) error {
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		res, err := tx.NewUpdate().Model((*R)(nil)).
			Set("workflow_started_at = COALESCE(workflow_started_at, ?)", stamp{s.time()}).Where("id = ?", cleanText(id)).Exec(ctx)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return errors.Join(err, waypost.Errorf(waypost.CodeNotFound, "id", "there is no %s %s", what, clip(id)))
		}
		return nil
	})
}

// OutboxLag counts the accepted enrollments that no workflow was started for and
// tells how long the oldest of them waits, 0 if there is none.
func (s *Store) OutboxLag(ctx context.Context) (pending int, oldest time.Duration, err error) {
	var single, cohorts struct {
		N     int   `bun:"n"`
		Since stamp `bun:"since"`
	}
	err = s.r.NewRaw("SELECT count(*) AS n, (SELECT created_at FROM enrollments WHERE cohort_id IS NULL AND ended_at IS NULL ORDER BY id LIMIT 1) AS since "+
		"FROM enrollments WHERE cohort_id IS NULL AND ended_at IS NULL").Scan(ctx, &single)
	if err == nil {
		err = s.r.NewSelect().Model((*cohortRow)(nil)).ColumnExpr("CAST(COALESCE(SUM(size), 0) AS BIGINT) AS n, MIN(accepted_at) AS since").
			Where("started_at IS NULL").Scan(ctx, &cohorts)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("count the outbox: %w", err)
	}
	now := s.time()
	for _, since := range []stamp{single.Since, cohorts.Since} {
		if !since.IsZero() {
			oldest = max(oldest, now.Sub(since.Time))
		}
	}
	return single.N + cohorts.N, oldest, nil
}
