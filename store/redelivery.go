package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// redeliveryRow is a bulk redelivery and how far it is.
type redeliveryRow struct {
	bun.BaseModel `bun:"table:redeliveries,alias:rd"`

	ID string `bun:"id,pk"`
	waypost.Scope
	AppID       string `bun:"app_id"`
	Filter      string `bun:"filter"`
	Message     string `bun:"message"`
	Total       int    `bun:"total"`
	Redelivered int    `bun:"redelivered"`
	Skipped     int    `bun:"skipped"`
	Reached     string `bun:"reached"` // the last message that was looked at
	CreatedAt   stamp  `bun:"created_at"`
	StartedAt   stamp  `bun:"started_at"`
	SteppedAt   int64  `bun:"stepped_at"`
	DoneAt      stamp  `bun:"done_at"` // no further message is looked for
	CanceledAt  stamp  `bun:"canceled_at"`

	// Counted once when everything that it has begun was decided, which is final.
	EndedAt   stamp `bun:"ended_at"`
	Succeeded int   `bun:"succeeded"`
	Failed    int   `bun:"failed"`
	Canceled  int   `bun:"canceled"`
}

func (r redeliveryRow) redelivery() (waypost.Redelivery, error) {
	list := waypost.Redelivery{
		ID: r.ID, Scope: r.Scope, AppID: r.AppID, Message: r.Message, Total: r.Total, Redelivered: r.Redelivered, Skipped: r.Skipped,
		CreatedAt: r.CreatedAt.Time, StartedAt: r.StartedAt.pointer(),
	}
	return list, fromJSON(r.Filter, &list.Filter)
}

// redeliveryBatchRow is a group of messages that one workflow redelivers.
type redeliveryBatchRow struct {
	bun.BaseModel `bun:"table:redelivery_batches,alias:rb"`

	ID           string  `bun:"id,pk"`
	RedeliveryID *string `bun:"redelivery_id"`
	waypost.Scope
	Members   *string `bun:"members"`
	CreatedAt stamp   `bun:"created_at"`

	ClaimedAt         stamp `bun:"claimed_at"`
	WorkflowStartedAt stamp `bun:"workflow_started_at"`
}

// CreateRedelivery stores a bulk redelivery of the deliveries that match the filter
// and are decided by now, for the pump to carry out. The filter's statuses are succeeded,
// failed and canceled; without one it is failed. BadRequest for another status.
func (s *redeliveries) CreateRedelivery(
	ctx context.Context, by waypost.Caller, f waypost.DeliveryFilter, appID string,
) (made waypost.Redelivery, err error) {
	defer wrap(&err, "create redelivery")
	sc, author := by.Within()
	if len(f.Statuses) == 0 {
		f.Statuses = []waypost.DeliveryStatus{waypost.DeliveryFailed}
	}
	if slices.ContainsFunc(f.Statuses, func(status waypost.DeliveryStatus) bool { return !status.Final() }) {
		return made, waypost.Errorf(waypost.CodeBadRequest, "status", "status must be failed, succeeded or canceled: only what is decided can be redelivered")
	}
	filter, err := toJSON(f)
	if err != nil {
		return made, err
	}
	now := s.time()
	row := redeliveryRow{
		ID: waypost.NewID(waypost.PrefixRedelivery, now), Scope: sc, AppID: appID, Filter: filter, CreatedAt: stamp{now},
	}
	if made, err = row.redelivery(); err != nil {
		return made, err
	}
	made.Status = waypost.RedeliveryPending
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		if err := s.audit.add(ctx, tx, author, "redelivery.create", row.ID, nil, fields{"filter": auditedFilter(f)}); err != nil {
			return err
		}
		return s.idempotency.keepResult(ctx, tx, made)
	})
	return made, err
}

// Redelivery returns a bulk redelivery as it stands; NotFound if the scope has none
// of this id. Until it has ended it counts the messages that it has begun, so it takes
// longer the more they are.
func (s *redeliveries) Redelivery(ctx context.Context, sc waypost.Scope, id string) (r waypost.Redelivery, err error) {
	defer wrap(&err, "load redelivery %s", clip(id))
	var row redeliveryRow
	if err := scanByID(ctx, s.r.NewSelect().Model(&row), sc, "redelivery", id); err != nil {
		return r, err
	}
	return s.countedRedelivery(ctx, row)
}

// ListRedeliveries returns the scope's bulk redeliveries, newest first. It counts the
// messages of each that has not ended, as Redelivery does.
func (s *redeliveries) ListRedeliveries(ctx context.Context, sc waypost.Scope, page waypost.Page) (_ []waypost.Redelivery, err error) {
	defer wrap(&err, "list redeliveries")
	var rows []redeliveryRow
	if err := pageOf(s.r.NewSelect().Model(&rows), sc, "id", page).Scan(ctx); err != nil {
		return nil, err
	}
	return decoded(rows, func(r redeliveryRow) (waypost.Redelivery, error) { return s.countedRedelivery(ctx, r) })
}

// countedRedelivery says how a redelivery stands, and keeps the counts of one that
// has ended.
func (s *redeliveries) countedRedelivery(ctx context.Context, row redeliveryRow) (waypost.Redelivery, error) {
	known := !row.EndedAt.IsZero()
	r, err := s.standingRedelivery(ctx, s.r, &row)
	if err != nil || known || row.EndedAt.IsZero() {
		return r, err
	}
	return r, s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewUpdate().Model(&row).Column("ended_at", "succeeded", "failed", "canceled").WherePK().Exec(ctx)
		return err
	})
}

// standingRedelivery derives how a redelivery stands from its rounds: each ended as
// the next one of its message says, or stands as the delivery does. If all have ended
// it puts the counts into the row.
func (s *redeliveries) standingRedelivery(ctx context.Context, db bun.IDB, row *redeliveryRow) (waypost.Redelivery, error) {
	r, err := row.redelivery()
	if err != nil && row.DoneAt.IsZero() {
		return r, err
	}
	open := 0
	if row.EndedAt.IsZero() {
		if open, err = s.countRounds(ctx, db, row); err != nil {
			return r, err
		}
	}
	r.Succeeded, r.Failed, r.Canceled = row.Succeeded, row.Failed, row.Canceled
	switch {
	case !row.CanceledAt.IsZero():
		r.Status, r.EndedAt = waypost.RedeliveryCanceled, row.CanceledAt.pointer()
	case row.Message != "":
		r.Status, r.EndedAt = waypost.RedeliveryFailed, row.DoneAt.pointer()
	case row.StartedAt.IsZero():
		r.Status = waypost.RedeliveryPending
	case row.DoneAt.IsZero() || open > 0:
		r.Status = waypost.RedeliveryRunning
	default:
		r.Status, r.EndedAt = waypost.RedeliveryCompleted, row.EndedAt.pointer()
	}
	return r, nil
}

// countRounds puts into the row how its rounds have ended, and when the last of them
// did if none will follow; open is how many have not.
func (s *redeliveries) countRounds(ctx context.Context, db bun.IDB, row *redeliveryRow) (open int, err error) {
	var counts []struct {
		Status waypost.DeliveryStatus `bun:"status"`
		N      int                    `bun:"n"`
		Last   stamp                  `bun:"last"` // when the last of them was decided
	}
	err = db.NewRaw(`SELECT COALESCE(n.status, d.status) AS status, count(*) AS n,
			max(COALESCE(dr.canceled_at, COALESCE(n.last_attempt_at, d.last_attempt_at) + 1000 * COALESCE(n.duration_ms, d.duration_ms))) AS last
		FROM delivery_rounds AS dr JOIN deliveries AS d ON d.enrollment_id = dr.enrollment_id AND d.visit = dr.visit
		LEFT JOIN delivery_rounds AS n ON n.enrollment_id = dr.enrollment_id AND n.visit = dr.visit AND n.round = dr.round + 1
		WHERE dr.redelivery_id = ? GROUP BY 1`, row.ID).Scan(ctx, &counts)
	if err != nil {
		return 0, fmt.Errorf("count rounds: %w", err)
	}
	end := row.DoneAt
	for _, c := range counts {
		switch c.Status {
		case waypost.DeliverySucceeded:
			row.Succeeded = c.N
		case waypost.DeliveryFailed:
			row.Failed = c.N
		case waypost.DeliveryCanceled:
			row.Canceled = c.N
		default:
			open += c.N
		}
		if c.Last.After(end.Time) {
			end = c.Last
		}
	}
	if open == 0 && !row.DoneAt.IsZero() {
		row.EndedAt = end
	}
	return open, nil
}

// CancelRedelivery ends a bulk redelivery: what it has begun and is not decided is
// canceled, by the workflows, which are told; attempts that are under way end as
// they do. One that was canceled before is returned as it is; NotFound if the scope
// has none of this id, Conflict if it has ended otherwise.
func (s *redeliveries) CancelRedelivery(ctx context.Context, by waypost.Caller, id string) (r waypost.Redelivery, err error) {
	defer wrap(&err, "cancel redelivery %s", clip(id))
	sc, author := by.Within()
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockRedelivery(ctx, tx, id)
		if err != nil {
			return err
		}
		if row.Scope != sc {
			return noSuch("redelivery", id)
		}
		if r, err = s.standingRedelivery(ctx, tx, &row); err != nil {
			return err
		}
		if r.Status == waypost.RedeliveryCompleted || r.Status == waypost.RedeliveryFailed {
			return waypost.Errorf(waypost.CodeConflict, "status", "the redelivery has ended: %s", r.Status)
		}
		if r.Status != waypost.RedeliveryCanceled {
			if err := s.cancelRedelivery(ctx, tx, &row); err != nil {
				return err
			}
			before := fields{"status": r.Status}
			r.Status, r.EndedAt = waypost.RedeliveryCanceled, row.CanceledAt.pointer()
			if err := s.audit.add(ctx, tx, author, "redelivery.cancel", id, before, fields{"status": r.Status}); err != nil {
				return err
			}
		}
		return s.idempotency.keepResult(ctx, tx, r)
	})
	return r, err
}

func (s *redeliveries) cancelRedelivery(ctx context.Context, tx bun.Tx, row *redeliveryRow) error {
	now := stamp{s.time()}
	row.CanceledAt = now
	if row.DoneAt.IsZero() {
		row.DoneAt = now
	}
	if _, err := tx.NewUpdate().Model(row).Column("done_at", "canceled_at").WherePK().Exec(ctx); err != nil {
		return err
	}
	// Each of them is at work, or will be started and see it.
	return s.rounds.notifyRounds(ctx, tx, true, "dr.redelivery_id = ?", row.ID)
}

func (s *redeliveries) lockRedelivery(ctx context.Context, tx bun.Tx, id string) (row redeliveryRow, err error) {
	err = scanOne(ctx, s.lock(tx.NewSelect().Model(&row).Where("id = ?", cleanText(id)), "rd"), "redelivery", id)
	return row, err
}

// RedeliveryStep looks at the next messages, at most waypost.MaxCohort, of the bulk
// redelivery whose turn it is, and begins a round of those that can have one, in
// one transaction with the redelivery's place: a crash neither loses nor repeats a
// message, and calls at the same time share the work. more is false if no
// redelivery looks for messages any more.
func (s *redeliveries) RedeliveryStep(ctx context.Context) (more bool, err error) {
	defer wrap(&err, "work through redeliveries")
	var rows []redeliveryRow
	err = s.r.NewSelect().Model(&rows).Where("done_at IS NULL").Order("stepped_at", "id").Limit(1).Scan(ctx)
	if err != nil || len(rows) == 0 {
		return false, err
	}
	return true, s.stepRedelivery(ctx, rows[0])
}

// stepRedelivery looks for the next messages, which can take long and so is done without a
// lock, and begins their rounds unless another call has done so meanwhile.
func (s *redeliveries) stepRedelivery(ctx context.Context, seen redeliveryRow) error {
	r, err := seen.redelivery()
	if err != nil || len(r.Filter.Statuses) == 0 { // nobody can mend it by trying again
		return s.failRedelivery(ctx, seen.ID, "the stored filter cannot be read")
	}
	// Of each status by itself: how it is told when a delivery was decided depends on it.
	matching := func(q *bun.SelectQuery, statuses []waypost.DeliveryStatus) {
		f := r.Filter
		f.Statuses = statuses
		q.Where("d.org = ? AND d.stage = ?", seen.Org, seen.Stage)
		filterDeliveries(q, f)
		decidedBy(q, statuses[0], seen.CreatedAt)
	}
	total := seen.Total
	if seen.StartedAt.IsZero() {
		total = 0
		for _, status := range r.Filter.Statuses {
			q := s.r.NewSelect().Model((*deliveryRow)(nil))
			matching(q, []waypost.DeliveryStatus{status})
			n, err := q.Count(ctx)
			if err != nil {
				return err
			}
			total += int(n)
		}
	}
	var next []deliveryRow
	err = ofStatuses(s.r, &next, r.Filter.Statuses, matching, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Column("enrollment_id", "visit", "message_id", "round").Where("message_id > ?", seen.Reached).Order("message_id").Limit(waypost.MaxCohort)
	}).Scan(ctx)
	if err != nil {
		return err
	}
	keys := mapped(next, deliveryRow.touchpoint)
	read := keyed(next, deliveryRow.touchpoint)
	return s.writeRows(ctx, len(keys), func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockRedelivery(ctx, tx, seen.ID)
		if err != nil || !row.DoneAt.IsZero() || row.Reached != seen.Reached || !row.StartedAt.Equal(seen.StartedAt.Time) {
			return err
		}
		begun, _, err := s.rounds.beginRounds(ctx, tx, row.Scope, keys, read, &row.ID)
		if err != nil {
			return err
		}
		now := stamp{s.time()}
		if row.StartedAt.IsZero() {
			row.StartedAt, row.Total = now, total
		}
		row.SteppedAt = now.UnixMicro()
		row.Redelivered += len(begun)
		row.Skipped += len(keys) - len(begun)
		if len(keys) < waypost.MaxCohort {
			row.DoneAt = now
			// The count had messages that another redelivery has begun since.
			row.Skipped = max(row.Skipped, row.Total-row.Redelivered)
			row.Total = row.Redelivered + row.Skipped
		} else {
			row.Reached = next[len(next)-1].MessageID
		}
		_, err = tx.NewUpdate().Model(&row).
			Column("total", "redelivered", "skipped", "reached", "started_at", "stepped_at", "done_at").WherePK().Exec(ctx)
		return err
	})
}

// decidedBy restricts q to deliveries that got their final status at a time or
// before it.
func decidedBy(q *bun.SelectQuery, status waypost.DeliveryStatus, at stamp) {
	if status != waypost.DeliveryCanceled {
		q.Where("d.last_attempt_at + 1000 * d.duration_ms <= ?", at)
		return
	}
	// A round that was canceled with the attempt that was cut off has no time of its own.
	q.Where(`COALESCE(
		(SELECT COALESCE(dr.canceled_at, d.last_attempt_at + 1000 * d.duration_ms) FROM delivery_rounds AS dr WHERE dr.enrollment_id = d.enrollment_id AND dr.visit = d.visit AND dr.round = d.round),
		(SELECT e.ended_at FROM enrollments AS e WHERE e.id = d.enrollment_id)) <= ?`, at)
}

// failRedelivery ends a redelivery that cannot go on.
func (s *redeliveries) failRedelivery(ctx context.Context, id, message string) error {
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockRedelivery(ctx, tx, id)
		if err != nil || !row.DoneAt.IsZero() {
			return err
		}
		row.Message, row.DoneAt = message, stamp{s.time()}
		_, err = tx.NewUpdate().Model(&row).Column("message", "done_at").WherePK().Exec(ctx)
		return err
	})
}

// UnstartedRedeliveries claims up to limit batches of messages to redeliver that no
// workflow was started for; see claimUnstarted.
func (s *redeliveries) UnstartedRedeliveries(
	ctx context.Context, claimedBefore time.Time, limit int,
) (_ []waypost.RedeliveryBatch, err error) {
	defer wrap(&err, "look for redeliveries")
	rows, err := claimUnstarted(ctx, s.db, "TRUE", claimedBefore, limit, func(r redeliveryBatchRow) string { return r.ID })
	if err != nil {
		return nil, err
	}
	return decoded(rows, func(r redeliveryBatchRow) (waypost.RedeliveryBatch, error) {
		b := waypost.RedeliveryBatch{ID: r.ID, RedeliveryID: text(r.RedeliveryID), Scope: r.Scope}
		err := fromJSON(text(r.Members), &b.Members)
		return b, err
	})
}

// MarkRedeliveryStarted notes that the workflow of a batch runs (its id is the
// batch's). A second call changes nothing. NotFound if there is no such batch.
func (s *redeliveries) MarkRedeliveryStarted(ctx context.Context, id string) (err error) {
	defer wrap(&err, "mark redelivery batch %s as started", clip(id))
	return s.updateOne(ctx, "redelivery batch", id, func(tx bun.Tx) *bun.UpdateQuery {
		return s.cohorts.workflowStarted(tx, (*redeliveryBatchRow)(nil)).Set("members = NULL")
	})
}
