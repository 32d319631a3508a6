package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

// claimUnstarted returns up to limit rows of R's table that no workflow was started for:
// new rows, and rows that were claimed before the given time and not marked since. It
// stamps their claim, so that of two callers one gets them; none waits for another. open
// is what else they must satisfy.
func claimUnstarted[R any](ctx context.Context, s *db, open string, claimedBefore time.Time, limit int, id func(R) string) ([]R, error) {
	return claim(ctx, s, condition{"workflow_started_at IS NULL AND " + open, nil}, claimedBefore, limit, id)
}

// claim is claimUnstarted for the rows that satisfy a condition.
func claim[R any](ctx context.Context, s *db, of condition, claimedBefore time.Time, limit int, id func(R) string) ([]R, error) {
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
		_, err := tx.NewUpdate().Model((*R)(nil)).Set("claimed_at = ?", stamp{s.time()}).Where("id IN (?)", bun.List(mapped(rows, id))).Exec(ctx)
		return err
	})
	return rows, err
}

// workflowStarted sets in the row of a model that its workflow runs, unless it says so.
func (s *cohorts) workflowStarted(tx bun.Tx, model any) *bun.UpdateQuery {
	return tx.NewUpdate().Model(model).Set("workflow_started_at = COALESCE(workflow_started_at, ?)", stamp{s.time()})
}

// OutboxLag counts the accepted enrollments that no workflow was started for and
// tells how long the oldest of them waits, 0 if there is none.
func (s *cohorts) OutboxLag(ctx context.Context) (pending int, oldest time.Duration, err error) {
	defer wrap(&err, "count the outbox")
	var single, cohorts struct {
		N     int   `bun:"n"`
		Since stamp `bun:"since"`
	}
	err = s.r.NewRaw("SELECT count(*) AS n, (SELECT created_at FROM enrollments WHERE "+inNoCohort+" ORDER BY id LIMIT 1) AS since "+
		"FROM enrollments WHERE "+inNoCohort).Scan(ctx, &single)
	if err == nil {
		err = s.r.NewSelect().Model((*cohortRow)(nil)).ColumnExpr("CAST(COALESCE(SUM(size), 0) AS BIGINT) AS n, MIN(accepted_at) AS since").
			Where("started_at IS NULL").Scan(ctx, &cohorts)
	}
	now := s.time()
	for _, since := range []stamp{single.Since, cohorts.Since} {
		if !since.IsZero() {
			oldest = max(oldest, now.Sub(since.Time))
		}
	}
	return single.N + cohorts.N, oldest, err
}
