package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
	"waypost/delivery"
)

// roundRow is a round after the first, with how the round before it ended, or the first round
// of a message to a subscription.
type roundRow struct {
	bun.BaseModel `bun:"table:delivery_rounds,alias:dr"`

	EnrollmentID string  `bun:"enrollment_id,pk"`
	Visit        int     `bun:"visit,pk"`
	Round        int     `bun:"round,pk"`
	WorkflowID   string  `bun:"workflow_id"`
	RedeliveryID *string `bun:"redelivery_id"`
	BeganAt      stamp   `bun:"began_at"`
	CanceledAt   stamp   `bun:"canceled_at"`

	DeferredReason string                 `bun:"deferred_reason"` // why it was skipped
	Status         waypost.DeliveryStatus `bun:"status"`
	Succeed        *bool                  `bun:"succeed"`
	Attempts       int                    `bun:"attempts"` // recorded when the round began
	FirstAttemptAt stamp                  `bun:"first_attempt_at"`
	LastAttemptAt  stamp                  `bun:"last_attempt_at"`
	DurationMs     int64                  `bun:"duration_ms"`
	HTTPStatus     int                    `bun:"http_status"`
	ErrorClass     string                 `bun:"error_class"`
	Response       []byte                 `bun:"response"`
}

// undecided selects deliveries (alias d) that are not final.
const undecided = "d.status IN ('pending', 'retrying', 'deferred')"

// roundKey is one row of the VALUES that rounds can be looked up by.
type roundKey struct {
	EnrollmentID string `bun:"enrollment_id,type:text"`
	Visit        int    `bun:"visit,type:bigint"`
	Round        int    `bun:"round,type:bigint"`
}

// roundKeys returns the distinct rounds in the order in which rows are locked.
func roundKeys(rounds []waypost.Round) []roundKey {
	rounds = slices.SortedFunc(slices.Values(rounds), func(a, b waypost.Round) int {
		return cmp.Or(compareTouchpoints(a.Touchpoint, b.Touchpoint), cmp.Compare(a.Round, b.Round))
	})
	return mapped(slices.Compact(rounds), func(r waypost.Round) roundKey { return roundKey{r.EnrollmentID, r.Visit, r.Round} })
}

func (r roundRow) key() waypost.Round {
	return waypost.Round{Touchpoint: waypost.Touchpoint{EnrollmentID: r.EnrollmentID, Visit: r.Visit}, Round: r.Round}
}

// before is how the delivery stood in the round before this one, which nothing
// changes any more.
func (r roundRow) before(d deliveryRow) deliveryRow {
	d.Round, d.Status, d.Succeed, d.Attempts = r.Round-1, r.Status, r.Succeed, r.Attempts
	d.LastAttemptAt, d.DurationMs, d.HTTPStatus, d.ErrorClass, d.Response = r.LastAttemptAt, r.DurationMs, r.HTTPStatus, r.ErrorClass, r.Response
	d.FirstAttemptAt, d.DeferredReason, d.DeferredSince, d.NextAttemptAt = r.FirstAttemptAt, r.DeferredReason, stamp{}, stamp{}
	d.OpenAttempt, d.OpenAt, d.OpenBy = 0, stamp{}, ""
	return d
}

// rounds reads those of the rounds that are there.
func (s *deliveries) rounds(ctx context.Context, db bun.IDB, keys []waypost.Round) (map[waypost.Round]roundRow, error) {
	if len(keys) == 0 {
		return nil, nil
	}
	values := roundKeys(keys)
	var rows []roundRow
	err := db.NewSelect().With("u", db.NewValues(&values)).Model(&rows).TableExpr("u").
		Where("dr.enrollment_id = u.enrollment_id AND dr.visit = u.visit AND dr.round = u.round").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("load rounds: %w", err)
	}
	return keyed(rows, roundRow.key), nil
}

// SendingsOfRounds returns what is stored about these rounds, at most one of a
// touchpoint: of a superseded round, its final state. A round that has not begun is
// missing in the answer.
func (s *deliveries) SendingsOfRounds(ctx context.Context, rounds []waypost.Round) (map[waypost.Touchpoint]delivery.Sending, error) {
	list := make(map[waypost.Touchpoint]delivery.Sending, len(rounds))
	if len(rounds) == 0 {
		return list, nil
	}
	asked := make(map[waypost.Touchpoint]int, len(rounds))
	for _, r := range rounds {
		asked[r.Touchpoint] = r.Round
	}
	rows, err := s.loadDeliveries(ctx, nil, s.deliveriesQuery(true, false), slices.Collect(maps.Keys(asked)))
	if err != nil {
		return nil, fmt.Errorf("load deliveries: %w", err)
	}
	var needed []waypost.Round
	for i := range rows {
		key := rows[i].touchpoint()
		if round := asked[key]; round > 1 {
			needed = append(needed, waypost.Round{Touchpoint: key, Round: round})
		}
		if round := asked[key]; round < rows[i].Round {
			needed = append(needed, waypost.Round{Touchpoint: key, Round: round + 1})
		}
	}
	begun, err := s.rounds(ctx, s.r, needed)
	if err != nil {
		return nil, err
	}
	for i := range rows {
		row := &rows[i]
		key := row.touchpoint()
		round := asked[key]
		if round > row.Round {
			continue
		}
		body, unreadable := s.openBody(row.MessageID, row.body)
		// Only what ended is followed: it does not matter that the two reads are not one.
		if round < row.Round {
			next, there := begun[waypost.Round{Touchpoint: key, Round: round + 1}]
			if !there {
				return nil, fmt.Errorf("message %s is in round %d, and how round %d ended is not recorded", row.MessageID, row.Round, round)
			}
			row.deliveryRow = next.before(row.deliveryRow)
		}
		sending := row.sending(body)
		sending.Unreadable = unreadable
		sending.Before = begun[waypost.Round{Touchpoint: key, Round: round}].Attempts
		list[key] = sending
	}
	return list, nil
}

// strandedAfter is when an open attempt is over for sure: no webhook has a longer
// time-out, and its sender keeps to that.
const strandedAfter = waypost.MaxTimeoutMs*time.Millisecond + 5*time.Second

// refusal says why a new round of a delivery cannot begin now, nil if it can.
func (r *deliveryRow) refusal(now time.Time) error {
	switch {
	case !r.Status.Final():
		return waypost.Errorf(waypost.CodeConflict, "status", "message %s is still being delivered: it is %s", r.MessageID, r.Status)
	case r.OpenAttempt > 0 && r.OpenAt.Add(strandedAfter).After(now):
		return waypost.Errorf(waypost.CodeConflict, "status", "an attempt of message %s is still under way; try again in some minutes", r.MessageID)
	}
	return nil
}

// beginRounds begins a new round of those of the deliveries that can have one, for
// the workflow of a batch that it stores. why says of the others why not; those
// that are not there are in neither. With seen, the deliveries as the caller has seen
// them, it leaves out those that were redelivered since.
func (s *rounds) beginRounds(
	ctx context.Context, tx bun.Tx, sc waypost.Scope, keys []waypost.Touchpoint, seen map[waypost.Touchpoint]deliveryRow, redelivery *string,
) (begun []*deliveryRow, why map[waypost.Touchpoint]error, err error) {
	why = map[waypost.Touchpoint]error{}
	if len(keys) == 0 {
		return nil, why, nil
	}
	deliveries, err := s.deliveries.lockDeliveries(ctx, tx, keys)
	if err != nil {
		return nil, nil, err
	}
	absent, err := s.lookUpNeeds(ctx, tx, sc, deliveries)
	if err != nil {
		return nil, nil, err
	}
	now := s.time()
	next := newRounds{batch: redeliveryBatchRow{
		ID: waypost.NewID(waypost.PrefixRedeliveryBatch, now), RedeliveryID: redelivery, Scope: sc, CreatedAt: stamp{now},
	}}
	done := map[waypost.Touchpoint]bool{}
	for _, key := range keys { // in the order of the messages
		row := deliveries[key]
		if row == nil || done[key] {
			continue
		}
		done[key] = true
		refused := row.refusal(now)
		if refused == nil && seen != nil && row.Round != seen[key].Round {
			refused = waypost.Errorf(waypost.CodeConflict, "status", "message %s was redelivered meanwhile", row.MessageID)
		}
		if refused == nil {
			refused = absent[key]
		}
		if refused != nil {
			why[key] = refused
			continue
		}
		next.add(s.deliveries, row)
	}
	if len(next.deliveries) == 0 {
		return nil, why, nil
	}
	if err := s.storeRounds(ctx, tx, next); err != nil {
		return nil, nil, err
	}
	return next.deliveries, why, nil
}

// newRounds are the next rounds of deliveries, which are locked, for one workflow to make.
type newRounds struct {
	batch      redeliveryBatchRow
	members    []waypost.RedeliveryMember
	deliveries []*deliveryRow
	rounds     []roundRow
	superseded []attemptRow // attempts that were under way
}

// add begins the next round of a delivery. Its roundRow holds how the round before ended.
func (n *newRounds) add(s *deliveries, row *deliveryRow) {
	round := roundRow{
		EnrollmentID: row.EnrollmentID, Visit: row.Visit, Round: row.Round + 1,
		WorkflowID: n.batch.ID, RedeliveryID: n.batch.RedeliveryID, BeganAt: n.batch.CreatedAt,
		DeferredReason: row.DeferredReason, Status: row.Status, Succeed: row.Succeed,
		FirstAttemptAt: row.FirstAttemptAt, LastAttemptAt: row.LastAttemptAt, DurationMs: row.DurationMs,
		HTTPStatus: row.HTTPStatus, ErrorClass: row.ErrorClass, Response: row.Response,
	}
	if row.OpenAttempt > 0 {
		n.superseded = append(n.superseded, s.interrupt(row)...)
	}
	round.Attempts = row.Attempts
	row.beginRound()
	n.deliveries, n.rounds = append(n.deliveries, row), append(n.rounds, round)
	n.members = append(n.members, waypost.RedeliveryMember{
		EnrollmentID: row.EnrollmentID, Visit: row.Visit, Round: row.Round, MessageID: row.MessageID,
		JourneyID: row.JourneyID, WebhookID: row.WebhookID, LeadsID: row.LeadsID,
	})
}

// storeRounds stores rounds, what they change of deliveries and attempts, and the batch that tells their
// workflow of them.
func (s *rounds) storeRounds(ctx context.Context, tx bun.Tx, n newRounds) error {
	packed, err := toJSON(n.members)
	if err != nil {
		return err
	}
	n.batch.Members = &packed
	if err := s.deliveries.writeAttempts(ctx, tx, n.superseded); err != nil {
		return err
	}
	if err := s.deliveries.updateDeliveries(ctx, tx, n.deliveries); err != nil {
		return err
	}
	if _, err := tx.NewInsert().Model(&n.rounds).Exec(ctx); err != nil {
		return err
	}
	_, err = tx.NewInsert().Model(&n.batch).Exec(ctx)
	return err
}

// beginRound opens the next round of a delivery. The outcome columns go on
// describing the last attempt that was made.
func (r *deliveryRow) beginRound() {
	r.Round++
	r.Status, r.Succeed, r.DeferredReason, r.DeferredSince = waypost.DeliveryPending, nil, "", stamp{}
	r.NextAttemptAt, r.FirstAttemptAt = stamp{}, stamp{}
	r.OpenAttempt, r.OpenAt, r.OpenBy = 0, stamp{}, ""
}

// lookUpNeeds says which of the deliveries can never be redelivered, because they have no
// stored message (any more), or their webhook, their lead or their subscription was deleted.
func (s *rounds) lookUpNeeds(
	ctx context.Context, tx bun.Tx, sc waypost.Scope, deliveries map[waypost.Touchpoint]*deliveryRow,
) (map[waypost.Touchpoint]error, error) {
	absent := map[waypost.Touchpoint]error{}
	if len(deliveries) == 0 {
		return absent, nil
	}
	var webhooks, subscriptions []string
	var leads []int64
	for _, row := range deliveries {
		webhooks, leads = append(webhooks, row.WebhookID), append(leads, row.LeadsID)
		if isSubscription(row.EnrollmentID) {
			subscriptions = append(subscriptions, row.EnrollmentID)
		}
	}
	values := sortedKeys(slices.Collect(maps.Keys(deliveries)))
	var rendered []touchpointRow
	err := tx.NewSelect().With("u", tx.NewValues(&values)).ColumnExpr("m.enrollment_id, m.visit").TableExpr("u").
		Join("JOIN messages AS m ON m.enrollment_id = u.enrollment_id AND m.visit = u.visit").Scan(ctx, &rendered)
	if err != nil {
		return nil, fmt.Errorf("look for messages: %w", err)
	}
	missing, err := s.webhooks.missingWebhooks(ctx, tx, sc, webhooks)
	if err != nil {
		return nil, err
	}
	var there []int64
	err = tx.NewSelect().Model((*leadRow)(nil)).Column("leads_id").Where("leads_id IN (?)", bun.List(leads)).Scan(ctx, &there)
	if err != nil {
		return nil, fmt.Errorf("look for leads: %w", err)
	}
	var subscribed []string
	if len(subscriptions) > 0 {
		q := tx.NewSelect().Model((*subscriptionRow)(nil)).Column("id").Where("id IN (?)", bun.List(distinct(subscriptions))).Order("id")
		if err := s.lockFor(q, forKey).Scan(ctx, &subscribed); err != nil {
			return nil, fmt.Errorf("look for subscriptions: %w", err)
		}
	}
	for key, row := range deliveries {
		switch {
		case isSubscription(row.EnrollmentID) && !slices.Contains(subscribed, row.EnrollmentID):
			absent[key] = waypost.Errorf(waypost.CodeUnprocessableEntity, "subscriptionId", "subscription %s was deleted: it is told nothing more", row.EnrollmentID)
		case !isSubscription(row.EnrollmentID) && !slices.Contains(there, row.LeadsID):
			absent[key] = waypost.Errorf(waypost.CodeUnprocessableEntity, "leadsId", "lead %d was deleted: nothing more is sent about it", row.LeadsID)
		case !slices.Contains(rendered, touchpointRow(key)) && row.LastAttempt > 0 && row.ErrorClass != waypost.ClassRender:
			absent[key] = waypost.Errorf(waypost.CodeUnprocessableEntity, "messageId", "message %s is no longer kept, so it cannot be sent again", row.MessageID)
		case !slices.Contains(rendered, touchpointRow(key)):
			absent[key] = waypost.Errorf(waypost.CodeUnprocessableEntity, "messageId", "message %s was never made, so it cannot be sent again", row.MessageID)
		case slices.Contains(missing, row.WebhookID):
			absent[key] = waypost.Errorf(waypost.CodeUnprocessableEntity, "webhookId", "webhook %s was deleted", clip(row.WebhookID))
		}
	}
	return absent, nil
}

// Redeliver begins a new round of attempts of a message, with the bytes that were
// stored, for the pump to start. Its journey and its enrollment stay as they are.
// NotFound if the scope has no such message; Conflict if it is still being
// delivered, or an attempt of it is under way; UnprocessableEntity if it never can
// be, because it was never made or is no longer kept, or its lead or webhook was deleted. If it is being
// redelivered, the workflow is told to look, so that one that is gone is found out.
func (s *rounds) Redeliver(ctx context.Context, by waypost.Caller, messageID string) (d waypost.Delivery, err error) {
	defer wrap(&err, "redeliver message %s", clip(messageID))
	sc, author := by.Within()
	var refused error
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		var found []touchpointRow
		err := tx.NewSelect().Model((*deliveryRow)(nil)).Column("enrollment_id", "visit").
			Where("org = ? AND stage = ? AND message_id = ?", sc.Org, sc.Stage, cleanText(messageID)).Scan(ctx, &found)
		if err != nil {
			return err
		}
		absent := waypost.Errorf(waypost.CodeNotFound, "id", "there is no message %s", clip(messageID))
		if len(found) == 0 {
			return absent
		}
		key := waypost.Touchpoint(found[0])
		begun, why, err := s.beginRounds(ctx, tx, sc, []waypost.Touchpoint{key}, nil, nil)
		if err != nil {
			return err
		}
		if refused = why[key]; refused != nil {
			return s.notifyRounds(ctx, tx, false, "d.enrollment_id = ? AND d.visit = ?", key.EnrollmentID, key.Visit)
		}
		if len(begun) == 0 { // its time was over, and it was dropped since it was found
			return absent
		}
		d = s.deliveries.delivery(*begun[0])
		if err := s.audit.add(ctx, tx, author, "delivery.redeliver", d.MessageID, nil, fields{"round": begun[0].Round}); err != nil {
			return err
		}
		return s.idempotency.keepResult(ctx, tx, d)
	})
	return d, cmp.Or(err, refused)
}

// StoppedRounds tells which of the rounds are to make no further attempt: those of
// a bulk redelivery that was canceled, and those of leads and subscriptions that were deleted.
func (s *rounds) StoppedRounds(ctx context.Context, rounds []waypost.Round) (map[waypost.Touchpoint]bool, error) {
	return s.stoppedRounds(ctx, s.r, rounds)
}

func (s *rounds) stoppedRounds(ctx context.Context, db bun.IDB, rounds []waypost.Round) (map[waypost.Touchpoint]bool, error) {
	stopped := map[waypost.Touchpoint]bool{}
	if len(rounds) == 0 {
		return stopped, nil
	}
	values := roundKeys(rounds)
	var rows []touchpointRow
	err := db.NewSelect().With("u", db.NewValues(&values)).ColumnExpr("dr.enrollment_id, dr.visit").TableExpr("u").
		Join("JOIN delivery_rounds AS dr ON dr.enrollment_id = u.enrollment_id AND dr.visit = u.visit AND dr.round = u.round").
		Join("JOIN deliveries AS d ON d.enrollment_id = dr.enrollment_id AND d.visit = dr.visit").
		Join("LEFT JOIN redeliveries AS rd ON rd.id = dr.redelivery_id").
		Where(`rd.canceled_at IS NOT NULL OR d.leads_id <> 0 AND NOT EXISTS (SELECT 1 FROM leads AS l WHERE l.leads_id = d.leads_id)
			OR d.leads_id = 0 AND NOT EXISTS (SELECT 1 FROM subscriptions AS su WHERE su.id = d.enrollment_id)`).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("look for stopped rounds: %w", err)
	}
	for _, row := range rows {
		stopped[waypost.Touchpoint(row)] = true
	}
	return stopped, nil
}

// CancelRounds cancels those of the rounds that are not decided and have no open
// attempt.
func (s *rounds) CancelRounds(ctx context.Context, rounds []waypost.Round) (err error) {
	defer wrap(&err, "cancel %d redeliveries", len(rounds))
	if len(rounds) == 0 {
		return nil
	}
	return s.writeRows(ctx, len(rounds), func(ctx context.Context, tx bun.Tx) error {
		values := roundKeys(rounds)
		return s.cancelRounds(ctx, tx, func(q *bun.SelectQuery) {
			q.With("u", tx.NewValues(&values)).TableExpr("u").
				Where("d.enrollment_id = u.enrollment_id AND d.visit = u.visit AND d.round = u.round")
		})
	})
}

// lockBatches locks the batches that rounds of touchpoints belong to.
func (s *rounds) lockBatches(ctx context.Context, tx bun.Tx, keys []touchpointRow) (ids []string, err error) {
	err = s.lock(tx.NewSelect().With("u", tx.NewValues(&keys)).Model((*redeliveryBatchRow)(nil)).Column("id").
		Where("id IN (SELECT workflow_id FROM delivery_rounds WHERE "+ofKeys+")").Order("id"), "rb").Scan(ctx, &ids)
	if err != nil {
		return nil, fmt.Errorf("look for redelivery batches: %w", err)
	}
	return ids, nil
}

// dropBatches drops those of the batches, which are locked, of which no round is left.
func dropBatches(ctx context.Context, tx bun.Tx, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	_, err := tx.NewDelete().Model((*redeliveryBatchRow)(nil)).Where("id IN (?)", bun.List(ids)).
		Where("NOT EXISTS (SELECT 1 FROM delivery_rounds AS dr WHERE dr.workflow_id = rb.id)").Exec(ctx)
	if err != nil {
		return fmt.Errorf("delete redelivery batches: %w", err)
	}
	return nil
}

// CancelLeftRounds cancels those rounds of a batch that are not decided, because its
// workflow has ended without them: an operator has terminated it. Attempts that may
// be under way are left, for a later call. Before the batch was marked as started it
// does nothing.
func (s *rounds) CancelLeftRounds(ctx context.Context, batchID string) (err error) {
	defer wrap(&err, "cancel what %s has left", clip(batchID))
	return s.writeRows(ctx, waypost.MaxCohort, func(ctx context.Context, tx bun.Tx) error {
		started, err := tx.NewSelect().Model((*redeliveryBatchRow)(nil)).Column("id").
			Where("id = ? AND workflow_started_at IS NOT NULL", cleanText(batchID)).Exists(ctx)
		if err != nil || !started {
			return err
		}
		left := func(q *bun.SelectQuery) {
			q.Join("JOIN delivery_rounds AS dr ON dr.enrollment_id = d.enrollment_id AND dr.visit = d.visit AND dr.round = d.round").
				Where("dr.workflow_id = ?", cleanText(batchID))
		}
		var lost []*deliveryRow
		q := tx.NewSelect().Model(&lost).Where(undecided+" AND d.open_attempt > 0 AND d.open_at <= ?", stamp{s.time().Add(-strandedAfter)}).
			Order("d.enrollment_id", "d.visit")
		left(q)
		if err := s.lock(q, "d").Scan(ctx); err != nil {
			return err
		}
		var superseded []attemptRow
		for _, row := range lost {
			superseded = append(superseded, s.deliveries.interrupt(row)...)
			row.OpenAttempt, row.OpenAt, row.OpenBy = 0, stamp{}, ""
		}
		if err := s.deliveries.writeAttempts(ctx, tx, superseded); err != nil {
			return err
		}
		if err := s.deliveries.updateDeliveries(ctx, tx, lost); err != nil {
			return err
		}
		return s.cancelRounds(ctx, tx, left)
	})
}

var cancelRound = bulk{
	table:   "delivery_rounds AS dr",
	keys:    3,
	columns: []string{"enrollment_id text", "visit bigint", "round bigint", "canceled_at bigint"},
}

// cancelRounds cancels rounds of the deliveries (alias d) that which selects.
func (s *rounds) cancelRounds(ctx context.Context, tx bun.Tx, which func(*bun.SelectQuery)) error {
	var rows []roundKey
	q := tx.NewSelect().Model((*deliveryRow)(nil)).Column("enrollment_id", "visit", "round").
		Where(undecided+" AND d.open_attempt = 0 AND (d.round > 1 OR d.leads_id = 0)").Order("d.enrollment_id", "d.visit")
	which(q)
	if err := s.lock(q, "d").Scan(ctx, &rows); err != nil || len(rows) == 0 {
		return err
	}
	deliveries := mapped(rows, func(r roundKey) touchpointRow { return touchpointRow{r.EnrollmentID, r.Visit} })
	if err := s.deliveries.cancelUndecided(ctx, tx, deliveries); err != nil {
		return err
	}
	now := stamp{s.time()}
	return cancelRound.run(ctx, s.db, tx, len(rows), func(i int) []any {
		return []any{rows[i].EnrollmentID, rows[i].Visit, rows[i].Round, now}
	}, nil)
}

// cancelRoundsOfLead cancels the redeliveries of a lead that is being deleted, and
// tells their workflows.
func (s *rounds) cancelRoundsOfLead(ctx context.Context, tx bun.Tx, lead int64) error {
	of := func(q *bun.SelectQuery) { q.Where("d.leads_id = ?", lead) }
	var workflows []string
	q := tx.NewSelect().Model((*deliveryRow)(nil)).ColumnExpr("DISTINCT dr.workflow_id").
		Join("JOIN delivery_rounds AS dr ON dr.enrollment_id = d.enrollment_id AND dr.visit = d.visit AND dr.round = d.round").
		Where(undecided)
	of(q)
	if err := q.OrderExpr("dr.workflow_id").Scan(ctx, &workflows); err != nil || len(workflows) == 0 {
		return err
	}
	if err := s.cancelRounds(ctx, tx, of); err != nil {
		return err
	}
	return s.notifyWhole(ctx, tx, workflows)
}

// notifyRounds tells the workflows of the redeliveries (alias dr) of deliveries (alias d)
// that are not decided.
func (s *rounds) notifyRounds(ctx context.Context, tx bun.Tx, bulk bool, which string, args ...any) error {
	_, err := tx.NewRaw(`INSERT INTO notices (workflow_id, enrollment_id, event_id, created_at, claimed_until, bulk)
		SELECT dr.workflow_id, '', '', ?, 0, ? FROM delivery_rounds AS dr
		JOIN deliveries AS d ON d.enrollment_id = dr.enrollment_id AND d.visit = dr.visit AND d.round = dr.round
		WHERE `+which+` AND `+undecided+` GROUP BY dr.workflow_id ORDER BY dr.workflow_id`, append([]any{stamp{s.time()}, bulk}, args...)...).Exec(ctx)
	return err
}

// notifyWhole tells workflows to look at everything.
func (s *rounds) notifyWhole(ctx context.Context, tx bun.Tx, workflows []string) error {
	return s.notices.notify(ctx, tx, mapped(workflows, func(id string) waypost.Notice { return waypost.Notice{WorkflowID: id} }), false)
}
