package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"waypost"
)

type waitRow struct {
	bun.BaseModel `bun:"table:waits,alias:wt"`

	EnrollmentID string `bun:"enrollment_id,pk"`
	Visit        int    `bun:"visit,pk"`
	NodeID       string `bun:"node_id"`
	Events       string `bun:"events"` // one a line
	LeadsID      int64  `bun:"leads_id"`
	WorkflowID   string `bun:"workflow_id"`
	Seen         int64  `bun:"seen"`
	Closed       bool   `bun:"closed"`
	EventID      string `bun:"event_id"`
	Arm          int    `bun:"arm"`
	Fields       string `bun:"fields"` // one a line
	LookAt       stamp  `bun:"look_at"`
}

func (r waitRow) touchpoint() waypost.Touchpoint {
	return waypost.Touchpoint{EnrollmentID: r.EnrollmentID, Visit: r.Visit}
}

var insertWait = bulk{
	table:   "waits",
	columns: []string{"enrollment_id text", "visit bigint", "node_id text", "events text", "leads_id bigint", "workflow_id text", "fields text"},
	// A wait for a condition opens again: the answer of the call that closed it may have been lost.
	suffix: "ON CONFLICT (enrollment_id, visit) DO UPDATE SET closed = FALSE WHERE waits.closed AND waits.fields = '" + waypost.Anything + "'",
}

var updateWait = bulk{
	table:   "waits AS wt",
	keys:    2,
	columns: []string{"enrollment_id text", "visit bigint", "seen bigint", "closed boolean", "event_id text", "arm bigint", "look_at bigint"},
}

// Await registers waits for events, unless they are registered, and returns the state of
// each, in one transaction: an event that is accepted at the same time is among the
// returned ones, or wakes the workflow. An event that satisfied an earlier visit of the
// enrollment to the same node is not among them. Since, Until and Expired of the last call
// count. Of several waits of one touchpoint the first counts.
func (s *waits) Await(ctx context.Context, waits []waypost.Wait) (states map[waypost.Touchpoint]waypost.WaitState, err error) {
	defer wrap(&err, "await events")
	if len(waits) == 0 {
		return map[waypost.Touchpoint]waypost.WaitState{}, nil
	}
	waits = slices.SortedStableFunc(slices.Values(waits), compareWaits)
	waits = slices.CompactFunc(waits, func(a, b waypost.Wait) bool { return a.Touchpoint == b.Touchpoint })
	err = s.writeRows(ctx, len(waits), func(ctx context.Context, tx bun.Tx) (err error) {
		states, err = s.await(ctx, tx, waits)
		return err
	})
	return states, err
}

func compareWaits(a, b waypost.Wait) int { return compareTouchpoints(a.Touchpoint, b.Touchpoint) }

func compareTouchpoints(a, b waypost.Touchpoint) int {
	return cmp.Or(cmp.Compare(a.EnrollmentID, b.EnrollmentID), cmp.Compare(a.Visit, b.Visit))
}

// await is Await in a transaction. The leads are locked against new events: an event is either among those
// that it returns, or finds the wait and tells the workflow.
func (s *waits) await(ctx context.Context, tx bun.Tx, waits []waypost.Wait) (map[waypost.Touchpoint]waypost.WaitState, error) {
	if err := s.shareLeads(ctx, tx, mapped(waits, leadOfWait)); err != nil {
		return nil, err
	}
	if err := s.insertWaits(ctx, tx, waits); err != nil {
		return nil, err
	}
	rows, err := s.waitsOf(ctx, tx, mapped(waits, func(w waypost.Wait) waypost.Touchpoint { return w.Touchpoint }), false)
	if err != nil {
		return nil, err
	}
	events, err := unseen(ctx, tx, waits, rows)
	if err != nil {
		return nil, err
	}
	var expired []waypost.Touchpoint
	states := make(map[waypost.Touchpoint]waypost.WaitState, len(waits))
	for _, w := range waits {
		row := rows[w.Touchpoint]
		states[w.Touchpoint] = waypost.WaitState{Closed: row.Closed, EventID: row.EventID, Arm: row.Arm, Events: events[w.Touchpoint]}
		if w.Expired && !row.Closed && len(events[w.Touchpoint]) == 0 {
			expired = append(expired, w.Touchpoint)
		}
	}
	return states, s.expire(ctx, tx, expired, states)
}

func (s *waits) insertWaits(ctx context.Context, tx bun.Tx, waits []waypost.Wait) error {
	return insertWait.run(ctx, s.db, tx, len(waits), func(i int) []any {
		w := waits[i]
		return []any{w.EnrollmentID, w.Visit, w.NodeID, strings.Join(w.Events, "\n"), w.LeadsID, w.WorkflowID, strings.Join(w.Fields, "\n")}
	}, nil)
}

// expire closes waits whose time has run out, save those that an event closed
// meanwhile.
func (s *waits) expire(ctx context.Context, tx bun.Tx, keys []waypost.Touchpoint, states map[waypost.Touchpoint]waypost.WaitState) error {
	if len(keys) == 0 {
		return nil
	}
	rows, err := s.waitsOf(ctx, tx, keys, true)
	if err != nil {
		return err
	}
	var updates []waitRow
	for _, key := range keys {
		row := rows[key]
		if !row.Closed {
			row.Closed = true
			updates = append(updates, row)
		}
		states[key] = waypost.WaitState{Closed: true, EventID: row.EventID, Arm: row.Arm}
	}
	return s.updateWaits(ctx, tx, updates)
}

func (s *waits) updateWaits(ctx context.Context, tx bun.Tx, rows []waitRow) error {
	return updateWait.run(ctx, s.db, tx, len(rows), func(i int) []any {
		r := rows[i]
		if r.Closed {
			r.LookAt = stamp{}
		}
		return []any{r.EnrollmentID, r.Visit, r.Seen, &r.Closed, r.EventID, r.Arm, r.LookAt}
	}, nil)
}

// shareLeads keeps events of the leads from being accepted until the transaction
// ends, but not other waits from being registered.
func (s *waits) shareLeads(ctx context.Context, tx bun.Tx, leads []int64) error {
	return s.leads.lockLeads(ctx, tx, leads, forShare)
}

func leadOfWait(w waypost.Wait) int64 { return w.LeadsID }

// waitsOf reads the waits of touchpoints, and locks them if asked to, in the order of their
// keys.
func (s *waits) waitsOf(ctx context.Context, tx bun.Tx, keys []waypost.Touchpoint, locked bool) (map[waypost.Touchpoint]waitRow, error) {
	values := sortedKeys(keys)
	var list []waitRow
	q := tx.NewSelect().With("u", tx.NewValues(&values)).Model(&list).ColumnExpr("?TableColumns").TableExpr("u").
		Where("wt.enrollment_id = u.enrollment_id AND wt.visit = u.visit").Order("wt.enrollment_id", "wt.visit")
	if locked {
		s.lock(q, "wt")
	}
	err := q.Scan(ctx)
	return keyed(list, waitRow.touchpoint), err
}

// soughtRow is what an open wait asks of events of one name.
type soughtRow struct {
	EnrollmentID string `bun:"enrollment_id,type:text"`
	Visit        int    `bun:"visit,type:bigint"`
	NodeID       string `bun:"node_id,type:text"`
	LeadsID      int64  `bun:"leads_id,type:bigint"`
	Event        string `bun:"event,type:text"`
	Seen         int64  `bun:"seen,type:bigint"`
	Since        int64  `bun:"since,type:bigint"`
	Until        int64  `bun:"until,type:bigint"`
}

// foundRow is an event for a wait.
type foundRow struct {
	eventRow     `bun:",extend"`
	EnrollmentID string `bun:"enrollment_id,scanonly"`
	Visit        int    `bun:"visit,scanonly"`
}

// unseen returns the events that open waits have not looked at.
func unseen(
	ctx context.Context, tx bun.Tx, waits []waypost.Wait, rows map[waypost.Touchpoint]waitRow,
) (map[waypost.Touchpoint][]waypost.Event, error) {
	var sought []soughtRow
	for _, w := range waits {
		if row := rows[w.Touchpoint]; !row.Closed {
			for _, event := range strings.Split(row.Events, "\n") {
				sought = append(sought, soughtRow{
					EnrollmentID: w.EnrollmentID, Visit: w.Visit, NodeID: row.NodeID, LeadsID: row.LeadsID, Event: event, Seen: row.Seen,
					Since: stampUp(w.Since).UnixMicro(), Until: w.Until.UnixMicro(),
				})
			}
		}
	}
	if len(sought) == 0 {
		return nil, nil
	}
	var found []foundRow
	ranked := tx.NewSelect().TableExpr("u").Join("JOIN events AS ev ON ev.leads_id = u.leads_id AND ev.name = u.event AND ev.seq > u.seen").
		ColumnExpr("ev.*, u.enrollment_id, u.visit, row_number() OVER (PARTITION BY u.enrollment_id, u.visit ORDER BY ev.seq) AS place").
		Join("LEFT JOIN enrollments AS e ON e.id = u.enrollment_id").
		Where("ev.occurred_at BETWEEN u.since AND u.until").
		// Neither the event that began it, nor what came before that and occurred with it.
		Where("e.event_seq IS NULL OR ev.seq > e.event_seq OR ev.seq < e.event_seq AND ev.occurred_at > u.since").
		Where("NOT EXISTS (SELECT 1 FROM waits AS m WHERE m.enrollment_id = u.enrollment_id AND m.node_id = u.node_id AND m.event_id = ev.event_id)")
	err := tx.NewSelect().With("u", tx.NewValues(&sought)).TableExpr("(?) AS e", ranked).
		Column("seq", "event_id", "name", "leads_id", "properties", "occurred_at", "accepted_at", "depth", "enrollment_id", "visit").
		Where("e.place <= ?", waypost.MaxWaitEvents).OrderExpr(eventOrder).Scan(ctx, &found)
	if err != nil {
		return nil, fmt.Errorf("look for events: %w", err)
	}
	events := make(map[waypost.Touchpoint][]waypost.Event, len(found))
	for _, row := range found {
		e, err := row.event()
		if err != nil {
			return nil, err
		}
		key := waypost.Touchpoint{EnrollmentID: row.EnrollmentID, Visit: row.Visit}
		events[key] = append(events[key], e)
	}
	return events, nil
}

// RecordWaits notes what was found out about the events of waits, all in one
// transaction: a match or Close closes a wait, Seen moves on. A wait that is closed
// stays as it is, and so does one whose match satisfied another visit of the
// enrollment to the same node, save for Seen and Close. Waits that are not
// registered are passed over. Of several results of one touchpoint the first counts.
func (s *waits) RecordWaits(ctx context.Context, results []waypost.WaitResult) (err error) {
	defer wrap(&err, "record waits")
	if len(results) == 0 {
		return nil
	}
	return s.writeRows(ctx, len(results), func(ctx context.Context, tx bun.Tx) error { return s.recordWaits(ctx, tx, results) })
}

// recordWaits is RecordWaits in a transaction. A wait that is closed stays as it is, and an event closes
// at most one wait of an enrollment at a node.
func (s *waits) recordWaits(ctx context.Context, tx bun.Tx, results []waypost.WaitResult) error {
	keys := mapped(results, func(r waypost.WaitResult) waypost.Touchpoint { return r.Touchpoint })
	rows, err := s.waitsOf(ctx, tx, keys, true)
	if err != nil {
		return err
	}
	used, err := usedEvents(ctx, tx, results)
	if err != nil {
		return err
	}
	var updates []waitRow
	for _, r := range results {
		row, known := rows[r.Touchpoint]
		if !known || row.Closed {
			continue
		}
		delete(rows, r.Touchpoint)
		match := usedEvent{r.EnrollmentID, row.NodeID, cleanText(r.EventID)}
		if r.EventID != "" && !used[match] {
			used[match] = true
			row.EventID, row.Arm, row.Closed = match.eventID, r.Arm, true
		}
		row.Seen, row.Closed = max(row.Seen, r.Seen), row.Closed || r.Close
		if !r.LookAt.IsZero() && (row.LookAt.IsZero() || r.LookAt.Before(row.LookAt.Time)) {
			row.LookAt = stamp{r.LookAt} // of two looks that ran at once the earlier moment counts
		}
		updates = append(updates, row)
	}
	slices.SortFunc(updates, func(a, b waitRow) int { return compareTouchpoints(a.touchpoint(), b.touchpoint()) })
	return s.updateWaits(ctx, tx, updates)
}

// usedEvent is an event that satisfied a node of an enrollment.
type usedEvent struct{ enrollmentID, nodeID, eventID string }

func usedEvents(ctx context.Context, tx bun.Tx, results []waypost.WaitResult) (map[usedEvent]bool, error) {
	used := map[usedEvent]bool{}
	var matched []string
	for _, r := range results {
		if r.EventID != "" {
			matched = append(matched, r.EnrollmentID)
		}
	}
	if len(matched) == 0 {
		return used, nil
	}
	var rows []waitRow
	err := tx.NewSelect().Model(&rows).Column("enrollment_id", "node_id", "event_id").
		Where("enrollment_id IN (?) AND event_id <> ''", bun.List(matched)).Scan(ctx)
	for _, row := range rows {
		used[usedEvent{row.EnrollmentID, row.NodeID, row.EventID}] = true
	}
	return used, err
}

// Follow registers waits that depend on their leads, unless they are registered, and
// returns the leads, in one transaction: a change of a lead at the same time is in what it
// returns, or the workflow is told. Leads that the scope does not have are left out.
func (s *waits) Follow(ctx context.Context, sc waypost.Scope, waits []waypost.Wait) (leads map[int64]waypost.Lead, err error) {
	defer wrap(&err, "follow leads")
	if len(waits) == 0 {
		return nil, nil
	}
	waits = slices.SortedFunc(slices.Values(waits), compareWaits)
	ids := distinct(mapped(waits, leadOfWait))
	err = s.writeRows(ctx, len(waits), func(ctx context.Context, tx bun.Tx) error {
		var rows []leadRow
		q := tx.NewSelect().Model(&rows).Where("leads_id IN (?) AND org = ? AND stage = ?", bun.List(ids), sc.Org, sc.Stage).Order("leads_id")
		if err := s.lockFor(q, forShare).Scan(ctx); err != nil {
			return err
		}
		list, err := decoded(rows, leadRow.lead)
		if err != nil {
			return err
		}
		leads = keyed(list, idOfLead)
		return s.insertWaits(ctx, tx, waits)
	})
	return leads, err
}

// leadChange is a lead before and after a change; one that is new was nothing before.
type leadChange struct{ before, after *leadRow }

// fields names what has changed that waits can depend on, as Wait.Fields does.
func (c leadChange) fields() (map[string]bool, error) {
	before, err := c.before.lead()
	if err != nil {
		return nil, err
	}
	after, err := c.after.lead()
	if err != nil {
		return nil, err
	}
	fields := map[string]bool{"birthday": text(before.Birthday) != text(after.Birthday)}
	for name, v := range before.CustomFields {
		fields["customFields."+name] = after.CustomFields[name] != v
	}
	for name := range after.CustomFields {
		if _, had := before.CustomFields[name]; !had {
			fields["customFields."+name] = true
		}
	}
	return fields, nil
}

// tellFollowers tells the workflows of enrollments whose waits depend on what has
// changed. The leads are locked, see Follow. Changes in bulk are of many leads.
func (s *waits) tellFollowers(ctx context.Context, tx bun.Tx, changes []leadChange, bulk bool) error {
	byLead := map[int64]leadChange{}
	for _, c := range changes {
		byLead[c.after.LeadsID] = c
	}
	if len(byLead) == 0 {
		return nil
	}
	var rows []waitRow
	err := tx.NewSelect().Model(&rows).Column("enrollment_id", "workflow_id", "leads_id", "fields").
		Where("leads_id IN (?) AND fields <> '' AND NOT closed", bun.List(slices.Collect(maps.Keys(byLead)))).Scan(ctx)
	if err != nil {
		return fmt.Errorf("look for waits: %w", err)
	}
	var notices []waypost.Notice
	for _, row := range rows {
		changed, err := byLead[row.LeadsID].fields()
		if err != nil {
			return err
		}
		changed[waypost.Anything] = true
		if slices.ContainsFunc(strings.Split(row.Fields, "\n"), func(field string) bool { return changed[field] }) {
			notices = append(notices, waypost.Notice{WorkflowID: row.WorkflowID, EnrollmentID: row.EnrollmentID})
		}
	}
	slices.SortFunc(notices, func(a, b waypost.Notice) int { return cmp.Compare(a.EnrollmentID, b.EnrollmentID) })
	return s.notices.notify(ctx, tx, notices, bulk)
}

// dropWaits forgets the open waits of enrollments that were canceled: closed, they
// would look like waits whose time ran out.
func (s *waits) dropWaits(ctx context.Context, tx bun.Tx, enrollmentIDs []string) error {
	var rows []waitRow
	q := tx.NewSelect().Model(&rows).Where("enrollment_id IN (?) AND NOT closed", bun.List(enrollmentIDs)).Order("enrollment_id", "visit")
	if err := s.lock(q, "wt").Scan(ctx); err != nil || len(rows) == 0 {
		return err
	}
	_, err := tx.NewDelete().Model((*waitRow)(nil)).Where("enrollment_id IN (?) AND NOT closed", bun.List(enrollmentIDs)).Exec(ctx)
	return err
}

// LookAtWaits tells the workflows of waits for a condition that time may have made true, as
// WaitResult.LookAt says: the first limit of them. Calls at the same time share the work. more tells
// that there may be others, acted that there is something for a pump to do.
func (s *waits) LookAtWaits(ctx context.Context, limit int) (more, acted bool, err error) {
	defer wrap(&err, "look for waits that time may end")
	now := stamp{s.time()}
	due := func(db bun.IDB, rows *[]waitRow) *bun.SelectQuery {
		return db.NewSelect().Model(rows).Where("look_at <= ?", now).Order("look_at")
	}
	// Without a lock first: with nothing to do it costs one read.
	if more, err = due(s.r, new([]waitRow)).Exists(ctx); err != nil || !more {
		return false, false, err
	}
	err = s.writeRows(ctx, limit, func(ctx context.Context, tx bun.Tx) error {
		var rows []waitRow
		q := due(tx, &rows).Limit(int64(limit))
		if err := s.lockFor(q, forChange+skipLocked).Scan(ctx); err != nil {
			return err
		}
		more, acted = len(rows) == limit, len(rows) > 0
		slices.SortFunc(rows, func(a, b waitRow) int { return compareTouchpoints(a.touchpoint(), b.touchpoint()) })
		for i := range rows {
			rows[i].LookAt = stamp{}
		}
		if err := s.updateWaits(ctx, tx, rows); err != nil {
			return err
		}
		return s.notices.notify(ctx, tx, mapped(rows, func(r waitRow) waypost.Notice {
			return waypost.Notice{WorkflowID: r.WorkflowID, EnrollmentID: r.EnrollmentID}
		}), len(rows) > 1)
	})
	return more, acted, err
}
