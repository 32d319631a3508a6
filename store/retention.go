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
)

// retentionRow is the only row of its table: who drops what is over.
type retentionRow struct {
	bun.BaseModel `bun:"table:retention,alias:rt"`

	ID        int    `bun:"id,pk"`
	Holder    string `bun:"holder"` // "" if nobody holds it
	HeldUntil stamp  `bun:"held_until"`
	SweptAt   stamp  `bun:"swept_at"` // when the last sweep ended
}

// HoldSweep takes the sweep for holder, an id that only its process has, or renews its
// hold, and tells whether holder has it: for two thirds of ttl at least. Nobody gets it
// while another holds it, and for the time every after a sweep that was ended. A hold
// that has run out is free. It writes only where something is to change.
func (s *retention) HoldSweep(ctx context.Context, holder string, every, ttl time.Duration) (held bool, err error) {
	defer wrap(&err, "hold the sweep")
	decide := func(r *retentionRow) (held, renew bool) {
		now := s.time()
		left := r.HeldUntil.Sub(now)
		switch {
		case r.Holder == holder:
			return true, left < ttl*2/3 || left > ttl
		case r.Holder != "" && left > 0 && left <= 2*ttl: // clocks of processes disagree
			return false, false
		}
		due := now.Sub(r.SweptAt.Time).Abs() >= every
		return due, due
	}
	var row retentionRow
	if err := s.r.NewSelect().Model(&row).Scan(ctx); err != nil {
		return false, err
	}
	held, renew := decide(&row)
	if !renew {
		return held, nil
	}
	_, err = updateOnly(ctx, s.db, "rt", func(r *retentionRow) (bool, error) {
		if held, renew = decide(r); renew {
			r.Holder, r.HeldUntil = holder, stamp{s.time().Add(ttl)}
		}
		return renew, nil
	})
	return held, err
}

// EndSweep gives the sweep back, if holder holds it. done says that it has come to its
// end.
func (s *retention) EndSweep(ctx context.Context, holder string, done bool) (err error) {
	defer wrap(&err, "end the sweep")
	_, err = updateOnly(ctx, s.db, "rt", func(r *retentionRow) (bool, error) {
		if r.Holder != holder {
			return false, nil
		}
		r.Holder, r.HeldUntil = "", stamp{}
		if done {
			r.SweptAt = stamp{s.time()}
		}
		return true, nil
	})
	return err
}

// sweepPlace is how far a sweep got. What is dropped is gone, so each sweep begins at
// the first row there is, and passes over those that are not over yet.
type sweepPlace struct {
	Kind   string `json:"kind"`
	Before int64  `json:"before"` // what ended before this is over, in microseconds
	ID     string `json:"id,omitzero"`
	Number int64  `json:"number,omitzero"`
	// Where deliveries are kept longer, for the sake of frequency caps.
	Caps []scopeCap `json:"caps,omitempty"`
}

func (p sweepPlace) before() stamp { return stamp{time.UnixMicro(p.Before).UTC()} }

// beforeOf is before, or what the cap (alias cp) of a row's scope says instead.
func (p sweepPlace) beforeOf() any { return bun.SafeQuery("COALESCE(cp.since, ?)", p.before()) }

// withCaps joins the caps to enrollments (alias e). VALUES must not be empty.
func (p sweepPlace) withCaps(q *bun.SelectQuery) *bun.SelectQuery {
	caps := append([]scopeCap{{}}, p.Caps...)
	return q.With("caps", q.DB().NewValues(&caps)).Join("LEFT JOIN caps AS cp ON cp.org = e.org AND cp.stage = e.stage")
}

// born is above the id of everything that can have ended before p.Before: nothing ends
// before it is made.
func (p sweepPlace) born(prefix string) string { return waypost.NewID(prefix, p.before().Time) }

// sweepPages bounds the pages of a step that have nothing to drop.
const sweepPages = 20

// sweepRow is a row that a sweep looks at, of whatever kind.
type sweepRow struct {
	ID     string `bun:"id"`
	Number int64  `bun:"number"`
	Over   bool   `bun:"is_over"`
	Young  bool   `bun:"young"` // so are all that follow: the walk ends
}

func (r sweepRow) touchpoint() touchpointRow {
	return touchpointRow{EnrollmentID: r.ID, Visit: int(r.Number)}
}

// DropStep takes one step of a sweep that drops what is over: at most a page of one
// kind, in one transaction that also adds it to the sums of what was dropped. at is "" at the
// beginning, then the Next of the step before. It needs no hold: a step that is cut off
// or taken twice drops nothing that is not over and counts nothing twice. It leaves
// alone what does not have its end yet, or what belongs to such, and what others
// have locked. Nothing is dropped that a frequency cap may still have to count.
func (s *retention) DropStep(ctx context.Context, ages waypost.Retention, at string) (step waypost.Dropped, err error) {
	defer wrap(&err, "drop what is over")
	var p sweepPlace
	err = fromJSON(at, &p)
	if err == nil && at == "" {
		p, err = s.beginSweep(ctx, ages, waypost.DropKinds)
	}
	if err != nil || p.Kind == "" {
		return step, err
	}
	return s.dropStep(ctx, ages, p)
}

// beginSweep is the place before the first of the kinds that are dropped at all, the
// zero place if there is none.
func (s *retention) beginSweep(ctx context.Context, ages waypost.Retention, kinds []string) (p sweepPlace, err error) {
	for _, kind := range kinds {
		age := ages.Age(kind)
		if age == 0 {
			continue
		}
		now := s.time()
		p = sweepPlace{Kind: kind, Before: now.Add(-age).UnixMicro()}
		if kind == waypost.DropAnswer { // every sweep drops those, whatever it keeps
			_, err = s.launches.markCompletedLaunches(ctx)
		}
		if kind == waypost.DropDelivery { // their enrollments stay as long
			p.Caps, err = s.attempts.longerCaps(ctx, now, age)
		}
		if err == nil && (kind == waypost.DropDelivery || kind == waypost.DropSubscriptionDelivery) {
			err = s.storeRedeliveryCounts(ctx, p.before())
		}
		return p, err
	}
	return p, nil
}

// storeRedeliveryCounts stores the counts of bulk redeliveries that look for no more messages: until then
// they are counted from deliveries, which are dropped.
func (s *retention) storeRedeliveryCounts(ctx context.Context, before stamp) error {
	var rows []redeliveryRow
	if err := s.r.NewSelect().Model(&rows).Where("ended_at IS NULL AND done_at < ?", before).Scan(ctx); err != nil {
		return fmt.Errorf("look for redeliveries: %w", err)
	}
	for _, row := range rows {
		if _, err := s.redeliveries.countedRedelivery(ctx, row); err != nil {
			return fmt.Errorf("count the messages of redelivery %s: %w", row.ID, err)
		}
	}
	return nil
}

// sweeper is how one kind is dropped. page lists the rows after a place, in the order
// of their keys; drop drops those of them that are over, and are still.
type sweeper struct {
	page func(sweepPlace) *bun.SelectQuery
	drop func(context.Context, bun.Tx, sweepPlace, []sweepRow) (int, error)
}

// sweepers are how each kind is dropped.
func (s *retention) sweepers() map[string]sweeper {
	return map[string]sweeper{
		waypost.DropPayload:              {s.messagePage, s.dropPayloads},
		waypost.DropParams:               {s.paramsPage, s.dropParams},
		waypost.DropFilter:               {s.filterPage, s.dropFilters},
		waypost.DropImport:               {s.importPartPage, s.dropImports},
		waypost.DropImportError:          {s.importErrorPage, s.dropImportErrors},
		waypost.DropImportLead:           {s.importLeadPage, s.dropImportLeads},
		waypost.DropAttempt:              {s.attemptPage, s.dropAttempts},
		waypost.DropDelivery:             {s.deliveryPage, s.dropDeliveries},
		waypost.DropEnrollment:           {s.enrollmentPage, s.dropEnrollments},
		waypost.DropEvent:                {s.eventPage, s.dropEvents},
		waypost.DropEventDay:             {s.eventNames.eventDayPage, s.eventNames.dropEventDays},
		waypost.DropAudience:             {s.launches.audiencePage, s.launches.dropAudiences},
		waypost.DropAnswer:               {s.idempotency.answerPage, s.idempotency.dropAnswers},
		waypost.DropWebhookHour:          {s.webhooks.webhookHourPage, s.webhooks.dropWebhookHours},
		waypost.DropJourneyHour:          {s.statistics.journeyHourPage, s.statistics.dropJourneyHours},
		waypost.DropAudit:                {s.audit.auditPage, s.audit.dropAudit},
		waypost.DropSubscriptionPayload:  {s.subscriptionPayloadPage, s.dropSubscriptionPayloads},
		waypost.DropSubscriptionDelivery: {s.subscriptionDeliveryPage, s.dropSubscriptionDeliveries},
	}
}

// dropStep drops one page of what is over, from a place on. It looks at up to sweepPages pages for one with
// something to drop, and goes on with the next kind at the end of one.
func (s *retention) dropStep(ctx context.Context, ages waypost.Retention, p sweepPlace) (step waypost.Dropped, err error) {
	kind, known := s.sweepers()[p.Kind]
	if !known {
		return step, fmt.Errorf("a sweep cannot go on at %q", p.Kind)
	}
	step.Kind = p.Kind
	for range sweepPages {
		var rows []sweepRow
		if err := kind.page(p).Scan(ctx, &rows); err != nil {
			return step, fmt.Errorf("look for what is over (%s): %w", p.Kind, err)
		}
		full := len(rows) == int(s.sweepPage())
		if len(rows) > 0 {
			last := rows[len(rows)-1]
			p.ID, p.Number, full = last.ID, last.Number, full && !last.Young
		}
		over := slices.DeleteFunc(rows, func(r sweepRow) bool { return !r.Over })
		if len(over) > 0 {
			err := s.writeRows(ctx, len(over), func(ctx context.Context, tx bun.Tx) (err error) {
				step.N, err = kind.drop(ctx, tx, p, over)
				return err
			})
			if err != nil {
				return step, fmt.Errorf("%s: %w", p.Kind, err)
			}
		}
		if !full {
			rest := waypost.DropKinds[slices.Index(waypost.DropKinds, p.Kind)+1:]
			if p, err = s.beginSweep(ctx, ages, rest); err != nil || p.Kind == "" {
				return step, err
			}
			break
		}
		if len(over) > 0 {
			break
		}
	}
	step.Next, err = toJSON(p)
	return step, err
}

// pageAfter selects the keys (a text and a number) of the next rows of a table, in
// their order. The databases look no further than that, whatever they are joined to.
func (s *db) pageAfter(table, id, number string, p sweepPlace, prefix string) *bun.SelectQuery {
	q := s.r.NewSelect().Distinct().TableExpr(table).ColumnExpr("? AS id", bun.Ident(id)).ColumnExpr("? AS number", bun.Ident(number)).
		Where("(?, ?) > (?, ?)", bun.Ident(id), bun.Ident(number), p.ID, p.Number).
		Where("? < ?", bun.Ident(id), p.born(prefix)).Order(id, number).Limit(s.sweepPage())
	return s.r.NewSelect().TableExpr("(?) AS k", q).Column("k.id", "k.number").Order("k.id", "k.number")
}

// pageOfIDs is pageAfter for rows of a table (with its alias) that match and have an id
// alone, and tells of which of them over is true.
func (s *db) pageOfIDs(table, match string, p sweepPlace, prefix, over string) *bun.SelectQuery {
	q := s.r.NewSelect().TableExpr(table).Column("id").
		Where(match+" AND id > ? AND id < ?", p.ID, p.born(prefix)).Order("id").Limit(s.sweepPage())
	return s.r.NewSelect().TableExpr("(?) AS k", q).Column("k.id").ColumnExpr("0 AS number").
		ColumnExpr("COALESCE("+over+", FALSE) AS is_over", p.before()).Join("JOIN " + table + " USING (id)").Order("k.id")
}

// deliveryOver says that a delivery (alias d) and its enrollment (alias e) ended before
// a time: nothing is sent, and no workflow asks for it any more. A redelivery that was
// begun later ended later. With an attempt that was opened and not closed by then, a
// delivery is over, decided or not: the worker was killed, and the workflow terminated. A
// redelivery has its own workflow, which may be at work long after the enrollment's end.
const deliveryOver = `e.ended_at < ?0 AND (d.round = 1 OR d.status IN ('succeeded', 'failed', 'canceled'))
	AND (d.open_attempt = 0 OR d.open_at < ?0) AND (d.last_attempt_at IS NULL OR d.last_attempt_at < ?0)
	AND (d.round = 1 OR NOT EXISTS (SELECT 1 FROM delivery_rounds AS dr WHERE dr.enrollment_id = d.enrollment_id AND dr.visit = d.visit
		AND (dr.began_at >= ?0 OR dr.canceled_at >= ?0)))`

// deliveryCounted says that no bulk redelivery has yet to count the delivery (alias d).
const deliveryCounted = `(d.round = 1 OR NOT EXISTS (SELECT 1 FROM delivery_rounds AS dr JOIN redeliveries AS rd ON rd.id = dr.redelivery_id
	WHERE dr.enrollment_id = d.enrollment_id AND dr.visit = d.visit AND rd.ended_at IS NULL))`

// ofDeliveries tells which rows of a page of keys of deliveries are over.
func ofDeliveries(q *bun.SelectQuery, p sweepPlace, and string) *bun.SelectQuery {
	return p.withCaps(q.ColumnExpr("COALESCE("+deliveryOver+and+", FALSE) AS is_over", p.beforeOf()).
		Join("LEFT JOIN deliveries AS d ON d.enrollment_id = k.id AND d.visit = k.number").
		Join("LEFT JOIN enrollments AS e ON e.id = k.id"))
}

func (s *retention) messagePage(p sweepPlace) *bun.SelectQuery {
	return ofDeliveries(s.pageAfter("messages", "enrollment_id", "visit", p, waypost.PrefixEnrollment), p, "")
}

func (s *retention) attemptPage(p sweepPlace) *bun.SelectQuery {
	return ofDeliveries(s.pageAfter("attempts", "enrollment_id", "visit", p, waypost.PrefixEnrollment), p, "")
}

func (s *retention) deliveryPage(p sweepPlace) *bun.SelectQuery {
	return ofDeliveries(s.pageAfter("deliveries", "enrollment_id", "visit", p, waypost.PrefixEnrollment), p, " AND "+deliveryCounted)
}

// lockOver locks the rows' deliveries that are still over, in the order of their keys, and
// passes over what another transaction has locked: a redelivery may begin.
func (s *retention) lockOver(
	ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow, and string,
) (deliveries []deliveryRow, keys []touchpointRow, err error) {
	values := mapped(rows, sweepRow.touchpoint)
	q := p.withCaps(tx.NewSelect().With("u", tx.NewValues(&values)).Model(&deliveries).
		Column("d.enrollment_id", "d.visit", "d.journey_id", "d.launch_id", "d.status").TableExpr("u").
		Join("JOIN enrollments AS e ON e.id = u.enrollment_id")).
		Where("d.enrollment_id = u.enrollment_id AND d.visit = u.visit").Where(deliveryOver+and, p.beforeOf()).
		Order("d.enrollment_id", "d.visit")
	if err := s.lockFor(q, forDelete+" OF d"+skipLocked).Scan(ctx); err != nil {
		return nil, nil, err
	}
	return deliveries, mapped(deliveries, deliveryRow.key), nil
}

// ofKeys restricts a statement to the rows of touchpoints.
const ofKeys = "(enrollment_id, visit) IN (SELECT u.enrollment_id, u.visit FROM u)"

// deleteOf deletes the rows of touchpoints from a table.
func deleteOf(ctx context.Context, tx bun.Tx, table string, keys []touchpointRow) (int, error) {
	n, err := affected(tx.NewDelete().With("u", tx.NewValues(&keys)).TableExpr(table).Where(ofKeys).Exec(ctx))
	if err != nil {
		return 0, fmt.Errorf("delete %s: %w", table, err)
	}
	return n, nil
}

// dropPayloads drops messages, and what the receivers answered, of all rounds.
func (s *retention) dropPayloads(ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow) (int, error) {
	_, keys, err := s.lockOver(ctx, tx, p, rows, "")
	if err != nil {
		return 0, err
	}
	return clearPayloads(ctx, tx, keys)
}

// clearPayloads drops the messages of touchpoints, which it counts, and what the
// receivers answered.
func clearPayloads(ctx context.Context, tx bun.Tx, keys []touchpointRow) (int, error) {
	if len(keys) == 0 {
		return 0, nil
	}
	for _, table := range []string{"deliveries", "attempts", "delivery_rounds"} {
		_, err := tx.NewUpdate().With("u", tx.NewValues(&keys)).TableExpr(table).Set("response = NULL").Where(ofKeys).Where("response IS NOT NULL").Exec(ctx)
		if err != nil {
			return 0, fmt.Errorf("clear what was answered in %s: %w", table, err)
		}
	}
	return deleteOf(ctx, tx, "messages", keys)
}

// dropAttempts drops the attempts that have rows of their own.
func (s *retention) dropAttempts(ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow) (int, error) {
	_, keys, err := s.lockOver(ctx, tx, p, rows, "")
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	return deleteOf(ctx, tx, "attempts", keys)
}

// deleteDeliveries deletes deliveries, which are locked, with all that belongs to them.
func (s *retention) deleteDeliveries(ctx context.Context, tx bun.Tx, keys []touchpointRow) error {
	batches, err := s.rounds.lockBatches(ctx, tx, keys)
	if err != nil {
		return err
	}
	for _, table := range []string{"messages", "attempts", "delivery_rounds", "deliveries"} {
		if _, err := deleteOf(ctx, tx, table, keys); err != nil {
			return err
		}
	}
	return dropBatches(ctx, tx, batches)
}

func (s *retention) dropDeliveries(ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow) (int, error) {
	deliveries, keys, err := s.lockOver(ctx, tx, p, rows, " AND "+deliveryCounted)
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	if err := s.deleteDeliveries(ctx, tx, keys); err != nil {
		return 0, err
	}
	sums := map[droppedKey]droppedRow{}
	for _, d := range deliveries {
		if !d.Status.Final() {
			d.Status = waypost.DeliveryCanceled // with its enrollment, and nobody was left to say so
		}
		addDropped(sums, droppedKey{d.JourneyID, text(d.LaunchID), waypost.DropDelivery, string(d.Status)}, stamp{})
	}
	return len(keys), s.countDropped(ctx, tx, sums)
}

// subscriptionMessageOver says that a message to a subscription (its delivery is d) was decided before a
// time, in all of its rounds.
const subscriptionMessageOver = `d.status IN ('succeeded', 'failed', 'canceled') AND d.open_attempt = 0 AND (d.last_attempt_at IS NULL OR d.last_attempt_at < ?0)
	AND NOT EXISTS (SELECT 1 FROM delivery_rounds AS dr WHERE dr.enrollment_id = d.enrollment_id AND dr.visit = d.visit
		AND (dr.began_at >= ?0 OR dr.canceled_at >= ?0))`

// subscriptionMessages lists messages to subscriptions in the order of their ids, which is that of time.
func (s *retention) subscriptionMessages(p sweepPlace, and string) *bun.SelectQuery {
	q := s.r.NewSelect().TableExpr("deliveries").Column("message_id").Where("leads_id = 0 AND message_id > ? AND message_id < ?", p.ID, p.born(waypost.PrefixMessage)).
		Order("message_id").Limit(s.sweepPage())
	return s.r.NewSelect().TableExpr("(?) AS k", q).ColumnExpr("k.message_id AS id, 0 AS number").
		ColumnExpr("COALESCE("+subscriptionMessageOver+" AND "+and+", FALSE) AS is_over", p.before()).
		Join("JOIN deliveries AS d ON d.message_id = k.message_id AND d.leads_id = 0").Order("k.message_id")
}

const (
	messageStored       = "EXISTS (SELECT 1 FROM messages AS m WHERE m.enrollment_id = d.enrollment_id AND m.visit = d.visit)"
	redeliveriesCounted = `NOT EXISTS (SELECT 1 FROM delivery_rounds AS dr JOIN redeliveries AS rd ON rd.id = dr.redelivery_id
		WHERE dr.enrollment_id = d.enrollment_id AND dr.visit = d.visit AND rd.ended_at IS NULL)`
)

func (s *retention) subscriptionPayloadPage(p sweepPlace) *bun.SelectQuery {
	return s.subscriptionMessages(p, messageStored)
}
func (s *retention) subscriptionDeliveryPage(p sweepPlace) *bun.SelectQuery {
	return s.subscriptionMessages(p, redeliveriesCounted)
}

// lockSubscriptionMessages locks the deliveries of the messages that are still over, as lockOver does.
func (s *retention) lockSubscriptionMessages(
	ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow, and string,
) (keys []touchpointRow, err error) {
	q := tx.NewSelect().Model((*deliveryRow)(nil)).Column("d.enrollment_id", "d.visit").
		Where("d.message_id IN (?) AND d.leads_id = 0", bun.List(idsOf(rows))).Where(subscriptionMessageOver+" AND "+and, p.before()).Order("d.enrollment_id", "d.visit")
	return keys, s.lockFor(q, forDelete+" OF d"+skipLocked).Scan(ctx, &keys)
}

// dropSubscriptionPayloads drops messages to subscriptions, and what the receivers answered.
func (s *retention) dropSubscriptionPayloads(ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow) (int, error) {
	keys, err := s.lockSubscriptionMessages(ctx, tx, p, rows, messageStored)
	if err != nil {
		return 0, err
	}
	return clearPayloads(ctx, tx, keys)
}

// dropSubscriptionDeliveries drops deliveries of messages to subscriptions with all that belongs to
// them. No journey and no launch counts them.
func (s *retention) dropSubscriptionDeliveries(ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow) (int, error) {
	keys, err := s.lockSubscriptionMessages(ctx, tx, p, rows, redeliveriesCounted)
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	return len(keys), s.deleteDeliveries(ctx, tx, keys)
}

// enrollmentOver says that an enrollment (alias e) ended before a time, and has no
// deliveries any more. One that an enroll node made stays while the enrollment runs that
// it was made for: that may ask for it again. One with a goal stays as long after the time in
// which events reach it.
var enrollmentOver = fmt.Sprintf(`e.ended_at < ?0 AND NOT EXISTS (SELECT 1 FROM deliveries AS d WHERE d.enrollment_id = e.id)
	AND (e.source IS NULL OR NOT EXISTS (SELECT 1 FROM enrollments AS o WHERE o.id = substr(e.source, 1, %d) AND o.ended_at IS NULL))
	AND (e.goal_version = 0 OR NOT EXISTS (SELECT 1 FROM journey_goals AS g
		WHERE g.journey_id = e.journey_id AND g.version = e.goal_version AND e.created_at + 1000 * g.within_ms >= ?0))`,
	len(waypost.NewID(waypost.PrefixEnrollment, time.Now())))

func (s *retention) enrollmentPage(p sweepPlace) *bun.SelectQuery {
	return s.pageOfIDs("enrollments AS e", "TRUE", p, waypost.PrefixEnrollment, enrollmentOver)
}

// dropEnrollments drops enrollments with their timelines, waits, controls and cohorts. Their
// entries stay: they forbid a lead to enter again.
func (s *retention) dropEnrollments(ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow) (int, error) {
	var enrollments []enrollmentRow
	q := tx.NewSelect().Model(&enrollments).Column("id", "journey_id", "launch_id", "status", "cohort_id", "ended_at").
		Where("e.id IN (?)", bun.List(idsOf(rows))).Where(enrollmentOver, p.before()).Order("e.id")
	if err := s.lockFor(q, forDelete+" OF e"+skipLocked).Scan(ctx); err != nil || len(enrollments) == 0 {
		return 0, err
	}
	var ids []string
	sums, cohorts := map[droppedKey]droppedRow{}, map[string]int{}
	for _, e := range enrollments {
		ids = append(ids, e.ID)
		cohorts[text(e.CohortID)]++
		addDropped(sums, droppedKey{e.JourneyID, text(e.LaunchID), waypost.DropEnrollment, e.Status}, e.EndedAt)
	}
	for _, of := range [][2]string{{"timeline", "enrollment_id"}, {"waits", "enrollment_id"}, {"split_arms", "enrollment_id"}, {"conversions", "enrollment_id"}, {"controls", "target"}, {"enrollments", "id"}} {
		if _, err := tx.NewDelete().TableExpr(of[0]).Where("? IN (?)", bun.Ident(of[1]), bun.List(ids)).Exec(ctx); err != nil {
			return 0, fmt.Errorf("delete %s: %w", of[0], err)
		}
	}
	if err := s.cohorts.leaveCohorts(ctx, tx, cohorts); err != nil {
		return 0, err
	}
	return len(ids), s.countDropped(ctx, tx, sums)
}

// droppedKey is what is counted together of what was dropped.
type droppedKey struct{ journeyID, launchID, kind, status string }

func (k droppedKey) compare(o droppedKey) int {
	return cmp.Or(cmp.Compare(k.journeyID, o.journeyID), cmp.Compare(k.launchID, o.launchID), cmp.Compare(k.kind, o.kind), cmp.Compare(k.status, o.status))
}

// droppedRow is the count.
type droppedRow struct {
	bun.BaseModel `bun:"table:dropped,alias:dd"`

	JourneyID string `bun:"journey_id,pk"`
	LaunchID  string `bun:"launch_id,pk"` // "": of none
	Kind      string `bun:"kind,pk"`
	Status    string `bun:"status,pk"`
	N         int    `bun:"n"`
	EndedAt   stamp  `bun:"ended_at"` // of the last enrollment
}

func addDropped(sums map[droppedKey]droppedRow, key droppedKey, endedAt stamp) {
	row := sums[key]
	row.N++
	if endedAt.After(row.EndedAt.Time) {
		row.EndedAt = endedAt
	}
	sums[key] = row
}

// countDropped adds to what is kept of all that was dropped.
func (s *retention) countDropped(ctx context.Context, tx bun.Tx, sums map[droppedKey]droppedRow) error {
	var rows []droppedRow
	for _, key := range slices.SortedFunc(maps.Keys(sums), droppedKey.compare) {
		row := sums[key]
		row.JourneyID, row.LaunchID, row.Kind, row.Status = key.journeyID, key.launchID, key.kind, key.status
		rows = append(rows, row)
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT (journey_id, launch_id, kind, status) DO UPDATE").
		Set("n = dd.n + EXCLUDED.n").
		Set("ended_at = CASE WHEN dd.ended_at > EXCLUDED.ended_at THEN dd.ended_at ELSE EXCLUDED.ended_at END").Exec(ctx)
	if err != nil {
		return fmt.Errorf("count what is dropped: %w", err)
	}
	return nil
}

// JourneyDropped counts what was dropped of a journey because its time was over, of all
// its launches and of none; nil if nothing was.
func (s *retention) JourneyDropped(ctx context.Context, id string) (counts *waypost.DroppedCounts, err error) {
	defer wrap(&err, "count what was dropped of journey %s", clip(id))
	var rows []droppedRow
	err = s.r.NewSelect().Model(&rows).Column("kind", "status").ColumnExpr("CAST(SUM(n) AS BIGINT) AS n").
		Where("journey_id = ?", cleanText(id)).Group("kind", "status").Scan(ctx)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	counts = &waypost.DroppedCounts{Enrollments: map[waypost.EnrollmentStatus]int{}, Deliveries: map[waypost.DeliveryStatus]int{}}
	for _, row := range rows {
		switch row.Kind {
		case waypost.DropEnrollment:
			counts.Enrollments[waypost.EnrollmentStatus(row.Status)] = row.N
		case waypost.DropDelivery:
			counts.Deliveries[waypost.DeliveryStatus(row.Status)] = row.N
		}
	}
	return counts, nil
}

// eventPage tells which events no enrollment can match any more: a wait looks back to
// when its enrollment was made, so a lead that is in no journey now never will. Events
// are stored in the order of their numbers, but for those of transactions that overlapped.
func (s *retention) eventPage(p sweepPlace) *bun.SelectQuery {
	q := s.r.NewSelect().TableExpr("events").Column("seq", "org", "stage", "leads_id").ColumnExpr("accepted_at < ? AND occurred_at < ? AS is_over", p.before(), p.before()).
		Where("seq > ?", p.Number).Order("seq").Limit(s.sweepPage())
	return s.r.NewSelect().TableExpr("(?) AS k", q).ColumnExpr("'' AS id, k.seq AS number, NOT k.is_over AS young").
		ColumnExpr(`k.is_over AND NOT EXISTS (SELECT 1 FROM journeys AS j JOIN journey_entries AS je ON je.journey_id = j.id AND je.leads_id = k.leads_id
			WHERE j.org = k.org AND j.stage = k.stage AND je.active > 0) AS is_over`).Order("k.seq")
}

func (s *retention) dropEvents(ctx context.Context, tx bun.Tx, _ sweepPlace, rows []sweepRow) (int, error) {
	return s.eventNames.deleteEvents(ctx, tx, tx.NewDelete().Where("seq IN (?)", bun.List(mapped(rows, func(r sweepRow) int64 { return r.Number }))))
}

// paramsPage lists enrollments that have params. Nothing is rendered or decided by them
// once the enrollment has ended.
func (s *retention) paramsPage(p sweepPlace) *bun.SelectQuery {
	return s.pageOfIDs("enrollments AS e", "(params <> '{}' OR event IS NOT NULL)", p, waypost.PrefixEnrollment, "ended_at < ?0")
}

// dropParams empties the params of enrollments, with the events that they began by; they stay otherwise.
func (s *retention) dropParams(ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow) (int, error) {
	var ids []string
	q := tx.NewSelect().Model((*enrollmentRow)(nil)).Column("id").
		Where("id IN (?) AND ended_at < ?", bun.List(idsOf(rows)), p.before()).Order("id")
	if err := s.lockFor(q, forChange+skipLocked).Scan(ctx, &ids); err != nil || len(ids) == 0 {
		return 0, err
	}
	_, err := tx.NewUpdate().Model((*enrollmentRow)(nil)).Set("params = '{}', event = NULL").Where("id IN (?)", bun.List(ids)).Exec(ctx)
	return len(ids), err
}

func idsOf(rows []sweepRow) []string { return mapped(rows, func(r sweepRow) string { return r.ID }) }

// launchOver says that a launch (alias la) ended before a time, as standingRow has it:
// its filter is not read any more. One that recurs ends by its cancel.
const launchOver = `EXISTS (SELECT 1 FROM controls AS c WHERE c.target = la.id AND c.kind = 'cancel' AND c.from_at < ?0)
	OR la.cron IS NULL AND la.done_at < ?0
	AND NOT EXISTS (SELECT 1 FROM enrollments AS e WHERE e.launch_id = la.id AND e.ended_at IS NULL)
	AND NOT EXISTS (SELECT 1 FROM enrollments AS e WHERE e.launch_id = la.id AND e.ended_at >= ?0)
	AND NOT EXISTS (SELECT 1 FROM dropped AS dd WHERE dd.journey_id = la.journey_id AND dd.launch_id = la.id AND dd.ended_at >= ?0)`

// filterPage lists launches whose filter has personal data.
func (s *retention) filterPage(p sweepPlace) *bun.SelectQuery {
	return s.pageOfIDs("launches AS la", "personal", p, waypost.PrefixLaunch, launchOver)
}

var updateFilter = bulk{
	table:   "launches AS la",
	keys:    1,
	columns: []string{"id text", "filter text"},
	set:     "personal = FALSE",
}

// dropFilters takes the personal members out of filters.
func (s *retention) dropFilters(ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow) (int, error) {
	var launches []launchRow
	q := tx.NewSelect().Model(&launches).Column("id", "filter").Where("la.id IN (?)", bun.List(idsOf(rows))).Where(launchOver, p.before()).Order("la.id")
	if err := s.lockFor(q, forChange+" OF la"+skipLocked).Scan(ctx); err != nil {
		return 0, err
	}
	filters := make([]string, len(launches))
	for i, l := range launches {
		f, err := l.filter()
		if err == nil {
			filters[i], err = toJSON(impersonal(f))
		}
		if err != nil {
			return 0, fmt.Errorf("filter of launch %s: %w", l.ID, err)
		}
	}
	return len(launches), updateFilter.run(ctx, s.db, tx, len(launches), func(i int) []any { return []any{launches[i].ID, filters[i]} }, nil)
}

// importPartPage lists rows of imports that have not ended: what ends an import deletes
// them.
func (s *retention) importPartPage(p sweepPlace) *bun.SelectQuery {
	q := s.pageAfter("import_parts", "import_id", "number", p, waypost.PrefixImport)
	return q.ColumnExpr("COALESCE(i.created_at < ?, FALSE) AS is_over", p.before()).Join("LEFT JOIN imports AS i ON i.id = k.id")
}

// dropImports ends imports that never came to their end, which deletes their rows: their
// workflow was terminated, or no worker ran.
func (s *retention) dropImports(ctx context.Context, tx bun.Tx, _ sweepPlace, rows []sweepRow) (int, error) {
	var imports []importRow
	q := tx.NewSelect().Model(&imports).Where("i.id IN (?) AND i.ended_at IS NULL", bun.List(slices.Compact(idsOf(rows)))).Order("i.id")
	if err := s.lockFor(q, forChange+" OF i"+skipLocked).Scan(ctx); err != nil {
		return 0, err
	}
	for i := range imports {
		if err := s.imports.endImport(ctx, tx, &imports[i], waypost.ImportFailed, "it was not carried out for so long that its rows are no longer kept"); err != nil {
			return 0, err
		}
	}
	return len(imports), nil
}

func (s *retention) importErrorPage(p sweepPlace) *bun.SelectQuery {
	q := s.pageAfter("import_errors", "import_id", "part", p, waypost.PrefixImport)
	return q.ColumnExpr("COALESCE(i.ended_at < ?, FALSE) AS is_over", p.before()).Join("LEFT JOIN imports AS i ON i.id = k.id")
}

// dropImportErrors drops why rows of imports failed. How many have stays.
func (s *retention) dropImportErrors(ctx context.Context, tx bun.Tx, _ sweepPlace, rows []sweepRow) (int, error) {
	parts := mapped(rows, func(r sweepRow) importErrorsRow { return importErrorsRow{ImportID: r.ID, Part: int(r.Number)} })
	return affected(tx.NewDelete().Model(&parts).WherePK().Exec(ctx))
}

func (s *retention) importLeadPage(p sweepPlace) *bun.SelectQuery {
	q := s.pageAfter("import_leads", "import_id", "leads_id", p, waypost.PrefixImport)
	return q.ColumnExpr("COALESCE(i.ended_at < ?, FALSE) AS is_over", p.before()).Join("LEFT JOIN imports AS i ON i.id = k.id")
}

// dropImportLeads drops which leads an import has created or updated. How many stays.
func (s *retention) dropImportLeads(ctx context.Context, tx bun.Tx, _ sweepPlace, rows []sweepRow) (int, error) {
	leads := mapped(rows, func(r sweepRow) importLeadRow { return importLeadRow{ImportID: r.ID, LeadsID: r.Number} })
	return affected(tx.NewDelete().Model(&leads).WherePK().Exec(ctx))
}
