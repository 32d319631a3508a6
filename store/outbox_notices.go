package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

type noticeRow struct {
	bun.BaseModel `bun:"table:notices,alias:n"`

	ID           int64  `bun:"id,pk,autoincrement"`
	WorkflowID   string `bun:"workflow_id"`
	EnrollmentID string `bun:"enrollment_id"`
	EventID      string `bun:"event_id"`
	CreatedAt    stamp  `bun:"created_at"`
	ClaimedUntil int64  `bun:"claimed_until"`
	Bulk         bool   `bun:"bulk"`
}

const (
	// noticeClaim is how long a claim of notices lasts: whoever has not deleted them
	// by then has probably ended.
	noticeClaim = 10 * time.Second
	// noticeDelay is how long notices for a workflow of several enrollments wait for others,
	// so that many events are few signals.
	noticeDelay = 200 * time.Millisecond
	// noticeBatch is the most notices that one signal carries.
	noticeBatch = 100
	// noticeWidth is how many notices a claim looks at for each that it may take.
	noticeWidth = 10
)

// notify stores notices in the transaction of what they are about. Those in bulk are of
// one change to many workflows.
func (s *notices) notify(ctx context.Context, tx bun.Tx, notices []waypost.Notice, bulk bool) error {
	if len(notices) == 0 {
		return nil
	}
	rows := mapped(notices, func(n waypost.Notice) noticeRow {
		return noticeRow{WorkflowID: n.WorkflowID, EnrollmentID: n.EnrollmentID, EventID: n.EventID, CreatedAt: stamp{s.time()}, Bulk: bulk}
	})
	_, err := tx.NewInsert().Model(&rows).Returning("NULL").Exec(ctx)
	return err
}

// ClaimNotices takes notices, of the workflow that waits longest first. In bulk it takes
// notices that one change of a webhook, a launch or a journey has made for many workflows,
// else the others. All that waits for a workflow comes together, at most 100: the
// last workflow can make the answer longer than limit. For a workflow of several
// enrollments they wait for 200 ms; for a cohort they wait until it is marked as started.
// A claim lasts 10 s. Concurrent calls never take the same notice, and none waits for
// another.
func (s *notices) ClaimNotices(ctx context.Context, limit int, bulk bool) (notices []waypost.Notice, err error) {
	defer wrap(&err, "claim notices")
	limit = max(1, limit)
	// Without a lock first, and without planning: an idle pump costs one read.
	found, err := s.anyNotice(ctx, bulk)
	if err == nil && found {
		found, err = s.dueNotices(s.r, limit, bulk).Exists(ctx)
	}
	if err != nil || !found {
		return nil, err
	}
	err = s.writeRows(ctx, limit, func(ctx context.Context, tx bun.Tx) (err error) {
		notices, err = s.claimNotices(ctx, tx, limit, bulk)
		return err
	})
	return notices, err
}

// anyNotice tells whether there are notices that nobody has claimed, due or not.
func (s *notices) anyNotice(ctx context.Context, bulk bool) (found bool, err error) {
	rows, err := s.query(ctx, nil, `SELECT id FROM notices AS n WHERE `+ofBulk(bulk)+` AND n.claimed_until <= $1 LIMIT 1`, s.time().UnixMicro())
	if err != nil {
		return false, err
	}
	err = scanAll(rows, func(rows *sql.Rows) error {
		found = true
		return rows.Scan(new(int64))
	})
	return found, err
}

// dueNotices is the query for the oldest notice of each workflow that something is
// due for.
func (s *notices) dueNotices(db bun.IDB, limit int, bulk bool) *bun.SelectQuery {
	now := s.time()
	unclaimed := db.NewSelect().Model((*noticeRow)(nil)).Column("id", "workflow_id").
		Where(ofBulk(bulk)).Where("n.claimed_until <= ?", stamp{now}).
		// One of the future was written by a process whose clock is ahead.
		Where("(n.created_at <= ? OR n.created_at > ? OR substr(n.workflow_id, 1, ?) NOT IN (?, ?))", stamp{now.Add(-noticeDelay)}, stamp{now},
			len(waypost.PrefixCohort), waypost.PrefixCohort, waypost.PrefixRedeliveryBatch).
		Where("NOT EXISTS (SELECT 1 FROM cohorts AS c WHERE c.id = n.workflow_id AND c.started_at IS NULL)").
		Where("NOT EXISTS (SELECT 1 FROM launches AS l WHERE l.id = n.workflow_id AND l.workflow_started_at IS NULL)").
		Where("NOT EXISTS (SELECT 1 FROM redelivery_batches AS rb WHERE rb.id = n.workflow_id AND rb.workflow_started_at IS NULL)").
		Order("n.id").Limit(int64(noticeWidth * limit))
	oldest := db.NewSelect().TableExpr("(?) AS d", unclaimed).ColumnExpr("min(d.id)").Group("d.workflow_id")
	return db.NewSelect().Model((*noticeRow)(nil)).Column("workflow_id").
		Where("n.id IN (?) AND n.claimed_until <= ?", oldest, stamp{now}).Order("n.id").Limit(int64(limit))
}

// ofBulk is the condition as the indexes have it.
func ofBulk(bulk bool) string {
	if bulk {
		return "n.bulk"
	}
	return "NOT n.bulk"
}

// claimNotices is ClaimNotices in a transaction. It takes up to noticeBatch notices of one workflow after
// another until there are limit.
func (s *notices) claimNotices(ctx context.Context, tx bun.Tx, limit int, bulk bool) ([]waypost.Notice, error) {
	// The lock on a workflow's oldest notice stands for all of them: two claims do
	// not share a workflow.
	var workflows []string
	q := s.dueNotices(tx, limit, bulk)
	if err := s.lockFor(q, forChange+skipLocked).Scan(ctx, &workflows); err != nil || len(workflows) == 0 {
		return nil, err
	}
	now := s.time()
	ranked := tx.NewSelect().Model((*noticeRow)(nil)).
		ColumnExpr("n.id, row_number() OVER (PARTITION BY n.workflow_id ORDER BY n.id) AS place").
		Where("n.workflow_id IN (?) AND n.claimed_until <= ?", bun.List(workflows), stamp{now}).Where(ofBulk(bulk))
	var rows []noticeRow
	err := tx.NewSelect().Model(&rows).Join("JOIN (?) AS r ON r.id = n.id", ranked).Where("r.place <= ?", noticeBatch).
		OrderExpr("n.id").Scan(ctx)
	if err != nil {
		return nil, err
	}
	byWorkflow := make(map[string][]noticeRow, len(workflows))
	for _, row := range rows {
		byWorkflow[row.WorkflowID] = append(byWorkflow[row.WorkflowID], row)
	}
	rows = nil
	for _, workflow := range workflows {
		if len(rows) < limit {
			rows = append(rows, byWorkflow[workflow]...)
		}
	}
	ids := mapped(rows, func(n noticeRow) int64 { return n.ID })
	_, err = tx.NewUpdate().Model((*noticeRow)(nil)).Set("claimed_until = ?", stamp{now.Add(noticeClaim)}).
		Where("id IN (?)", bun.List(ids)).Exec(ctx)
	return mapped(rows, func(n noticeRow) waypost.Notice {
		return waypost.Notice{ID: n.ID, WorkflowID: n.WorkflowID, EnrollmentID: n.EnrollmentID, EventID: n.EventID}
	}), err
}

// DeleteNotices deletes notices that were delivered, or whose workflow has ended.
func (s *notices) DeleteNotices(ctx context.Context, ids []int64) (err error) {
	defer wrap(&err, "delete %d notices", len(ids))
	if len(ids) == 0 {
		return nil
	}
	return s.writeRows(ctx, len(ids), func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewDelete().Model((*noticeRow)(nil)).Where("id IN (?)", bun.List(ids)).Exec(ctx)
		return err
	})
}
