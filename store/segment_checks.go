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

// causeKind is a kind of what can change who is in a segment.
type causeKind string

// What can change who is in a segment.
const (
	causeLead      causeKind = "lead" // one that is created or changed
	causeEvent     causeKind = "event"
	causeEntered   causeKind = "entered"   // an enrollment that is made
	causeDelivered causeKind = "delivered" // a message
)

// causeRow says that a thing can change who is in a segment that is watched.
type causeRow struct {
	bun.BaseModel `bun:"table:segment_causes,alias:sca"`

	waypost.Scope
	Kind      causeKind `bun:"kind,pk"`
	Name      string    `bun:"name,pk"` // of the event, or the id of the journey; "" of leads
	SegmentID string    `bun:"segment_id,pk"`
}

// checkRow is a lead whose segments CheckSegments is to look at.
type checkRow struct {
	bun.BaseModel `bun:"table:segment_checks,alias:sck"`

	ID int64 `bun:"id,pk,autoincrement"`
	waypost.Scope
	LeadsID int64 `bun:"leads_id"`
	At      stamp `bun:"at"`
	Depth   int   `bun:"depth"`
	Late    bool  `bun:"late"` // an event that begins and ends nothing
}

// segmentCause is a thing that was stored of some leads.
type segmentCause struct {
	kind  causeKind
	name  string // of the event, or the id of the journey; "" of leads
	at    stamp
	depth int // of what it begins, see waypost.Enrollment.Depth
}

// checkLeads adds leads to segment_checks if a watched segment depends on the cause, and returns how
// many. Otherwise it costs nearly nothing.
func (s *segmentChecks) checkLeads(ctx context.Context, tx bun.Tx, sc waypost.Scope, leads []int64, c segmentCause) (int, error) {
	if len(leads) == 0 {
		return 0, nil
	}
	asked, err := tx.NewSelect().Model((*causeRow)(nil)).
		Where("org = ? AND stage = ? AND kind = ? AND name = ?", sc.Org, sc.Stage, c.kind, c.name).Exists(ctx)
	if err != nil {
		return 0, fmt.Errorf("look for segments that ask: %w", err)
	}
	if !asked {
		return 0, nil
	}
	return len(leads), insertChecked(ctx, tx, mapped(leads, func(lead int64) checkRow {
		return checkRow{Scope: sc, LeadsID: lead, At: c.at, Depth: c.depth}
	}))
}

func insertChecked(ctx context.Context, tx bun.Tx, rows []checkRow) error {
	if len(rows) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&rows).Returning("NULL").Exec(ctx)
	if err != nil {
		err = fmt.Errorf("note leads whose segments may change: %w", err)
	}
	return err
}

// checkEvents adds the leads of those events that a watched segment depends on to segment_checks.
func (s *segmentChecks) checkEvents(ctx context.Context, tx bun.Tx, sc waypost.Scope, events []eventRow) error {
	var asked []string
	err := tx.NewSelect().Model((*causeRow)(nil)).Column("name").
		Where("org = ? AND stage = ? AND kind = ? AND name IN (?)", sc.Org, sc.Stage, causeEvent, bun.List(distinct(mapped(events, nameOfEvent)))).Scan(ctx, &asked)
	if err != nil {
		return fmt.Errorf("look for segments that ask for events: %w", err)
	}
	var rows []checkRow
	for _, e := range events {
		if slices.Contains(asked, e.Name) {
			rows = append(rows, checkRow{Scope: sc, LeadsID: e.LeadsID, At: e.AcceptedAt, Depth: e.Depth, Late: e.late()})
		}
	}
	return insertChecked(ctx, tx, rows)
}

// checkDeliveries adds the leads of deliveries that were recorded, and have succeeded, to segment_checks.
func (s *segmentChecks) checkDeliveries(ctx context.Context, tx bun.Tx, keys []waypost.Touchpoint) error {
	if len(keys) == 0 {
		return nil
	}
	args, err := s.touchpointArgs(keys)
	if err != nil {
		return err
	}
	if err := s.exec(ctx, tx, s.in(checkDelivered), args...); err != nil {
		return fmt.Errorf("note leads whose segments may change: %w", err)
	}
	return nil
}

// dropChecks drops the rows of a lead, which is locked and is being deleted. A pump that has locked
// some drops those itself.
func (s *segmentChecks) dropChecks(ctx context.Context, tx bun.Tx, lead int64) error {
	var ids []int64
	q := tx.NewSelect().Model((*checkRow)(nil)).Column("id").Where("leads_id = ?", lead)
	if err := s.lockFor(q, forDelete+skipLocked).Scan(ctx, &ids); err != nil || len(ids) == 0 {
		return err
	}
	_, err := tx.NewDelete().Model((*checkRow)(nil)).Where("id IN (?)", bun.List(ids)).Exec(ctx)
	return err
}

// CheckSegments looks at leads of whom something was stored that may have changed in which
// watched segments they are: the first limit of what was stored. In one transaction it remembers
// in which they are now, ends the enrollments that exit on a segment that a lead has entered,
// and makes those that this begins. A crash leaves all of it or none; calls at the same time
// share the work. more tells that there may be others, acted that there is something for a
// pump to do.
func (s *segmentWatches) CheckSegments(ctx context.Context, limit int) (more, acted bool, err error) {
	defer wrap(&err, "look who has entered segments")
	// Without a lock first: with nothing to do it costs one read.
	if more, err = s.r.NewSelect().Model((*checkRow)(nil)).Column("id").Order("id").Limit(1).Exists(ctx); err != nil || !more {
		return false, false, err
	}
	limit = min(max(1, limit), memberBatch)
	err = s.writeRows(ctx, limit, func(ctx context.Context, tx bun.Tx) (err error) {
		var rows []checkRow
		q := tx.NewSelect().Model(&rows).Order("id").Limit(int64(limit))
		if err := s.lockFor(q, forDelete+skipLocked).Scan(ctx); err != nil {
			return err
		}
		more, acted = len(rows) == limit, false // acted of a try before
		if len(rows) == 0 {
			return nil
		}
		if acted, err = s.enterChecked(ctx, tx, rows); err != nil {
			return err
		}
		_, err = tx.NewDelete().Model(&rows).WherePK().Exec(ctx)
		return err
	})
	return more, acted, err
}

// enterChecked is enterSegments for the leads of rows, which are locked.
func (s *segmentWatches) enterChecked(ctx context.Context, tx bun.Tx, rows []checkRow) (acted bool, err error) {
	if err := s.leads.lockLeads(ctx, tx, distinct(mapped(rows, func(r checkRow) int64 { return r.LeadsID })), forChange); err != nil {
		return false, err
	}
	scopes := map[waypost.Scope][]int64{}
	for _, row := range rows {
		scopes[row.Scope] = append(scopes[row.Scope], row.LeadsID)
	}
	for _, sc := range slices.SortedFunc(maps.Keys(scopes), func(a, b waypost.Scope) int {
		return cmp.Or(cmp.Compare(a.Org, b.Org), cmp.Compare(a.Stage, b.Stage))
	}) {
		var watches []watchRow // as they are once the leads are locked; none of them ends before this does
		q := tx.NewSelect().Model(&watches).Where("org = ? AND stage = ?", sc.Org, sc.Stage).Order("segment_id")
		if err := s.lockFor(q, forKey).Scan(ctx); err != nil {
			return false, err
		}
		did, err := s.enterSegments(ctx, tx, sc, watches, distinct(scopes[sc]))
		if err != nil {
			return false, err
		}
		acted = acted || did
	}
	return acted, nil
}

// enteredLead is a lead that has entered a segment.
type enteredLead struct {
	leadsID   int64
	segmentID string
	at        stamp // of what had it enter
	depth     int   // of that
}

func (e enteredLead) lead() int64     { return e.leadsID }
func (e enteredLead) segment() string { return e.segmentID }

// enterSegments compares which of leads, which are locked, at most memberBatch in ascending order,
// are in watched segments with which were when they were last looked at. For those that have
// entered it ends and makes enrollments.
func (s *segmentWatches) enterSegments(
	ctx context.Context, tx bun.Tx, sc waypost.Scope, watches []watchRow, leads []int64,
) (acted bool, err error) {
	now := s.time()
	var entered []enteredLead
	for _, w := range watches {
		r, err := s.segments.readSegment(ctx, tx, sc, w.SegmentID, now)
		if err != nil {
			return false, err
		}
		came, err := s.settleMembers(ctx, tx, r, w.SegmentID, leads)
		if err != nil {
			return false, fmt.Errorf("segment %s: %w", w.SegmentID, err)
		}
		for _, lead := range came {
			if w.known(lead) {
				entered = append(entered, enteredLead{leadsID: lead, segmentID: w.SegmentID})
			}
		}
	}
	if len(entered) == 0 {
		return false, nil
	}
	if entered, err = withCauses(ctx, tx, entered, now); err != nil || len(entered) == 0 {
		return false, err
	}
	left, err := s.exitBySegments(ctx, tx, entered, stamp{now})
	if err != nil {
		return false, err
	}
	begun, err := s.beginBySegments(ctx, tx, sc, entered, stamp{now})
	return left+begun > 0, err
}

// withCauses sets by what leads have entered segments: by the newest row of theirs in
// segment_checks, where those that are being looked at are still, or else by time. It leaves out
// those of whom only late events came: these begin and end nothing.
func withCauses(ctx context.Context, tx bun.Tx, entered []enteredLead, now time.Time) (prompt []enteredLead, err error) {
	var rows []checkRow
	err = tx.NewSelect().Model(&rows).Column("leads_id").ColumnExpr("max(at) AS at, max(depth) AS depth").
		ColumnExpr("min(CASE WHEN late THEN 1 ELSE 0 END) = 1 AS late").
		Where("leads_id IN (?)", bun.List(distinct(mapped(entered, enteredLead.lead)))).Group("leads_id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("look for what was stored of leads: %w", err)
	}
	causes := keyed(rows, func(r checkRow) int64 { return r.LeadsID })
	for _, c := range entered {
		c.at = stamp{now}
		row, known := causes[c.leadsID]
		if known {
			c.at, c.depth = row.At, row.Depth
		}
		if !row.Late {
			prompt = append(prompt, c)
		}
	}
	return prompt, nil
}

// settleMembers remembers who of leads, which are locked, at most memberBatch, is in a segment,
// and returns who was not before.
func (s *segmentWatches) settleMembers(ctx context.Context, tx bun.Tx, r reading, id string, leads []int64) (came []int64, err error) {
	if len(leads) == 0 {
		return nil, nil
	}
	members, err := s.segments.membersAmong(ctx, tx, r, leads, false)
	if err != nil {
		return nil, err
	}
	// The range keeps PostgreSQL from reading all members of a segment that is being filled: its
	// statistics do not know of them yet.
	var known []int64
	err = tx.NewSelect().Model((*memberRow)(nil)).Column("leads_id").
		Where("segment_id = ? AND leads_id IN (?)", id, bun.List(leads)).
		Where("leads_id BETWEEN ? AND ?", slices.Min(leads), slices.Max(leads)).Order("leads_id").Scan(ctx, &known)
	if err != nil {
		return nil, err
	}
	came = without(members, known)
	if gone := without(known, members); len(gone) > 0 {
		if _, err := tx.NewDelete().Model((*memberRow)(nil)).Where("segment_id = ? AND leads_id IN (?)", id, bun.List(gone)).Exec(ctx); err != nil {
			return nil, err
		}
	}
	if len(came) == 0 {
		return nil, nil
	}
	rows := mapped(came, func(lead int64) memberRow { return memberRow{SegmentID: id, LeadsID: lead} })
	_, err = tx.NewInsert().Model(&rows).Exec(ctx)
	return came, err
}

// without returns the elements of an ascending list that another one does not have.
func without(list, other []int64) (left []int64) {
	for _, element := range list {
		if _, found := slices.BinarySearch(other, element); !found {
			left = append(left, element)
		}
	}
	return left
}

// exitBySegments ends enrollments as exit does, and returns how many. Those that began after
// what had the lead enter the segment are not ended: the lead was in it then.
func (s *segmentWatches) exitBySegments(ctx context.Context, tx bun.Tx, entered []enteredLead, now stamp) (int, error) {
	type key struct {
		lead    int64
		segment string
	}
	byKey := keyed(entered, func(e enteredLead) key { return key{e.leadsID, e.segmentID} })
	var found []leavingRow
	err := tx.NewSelect().Model(&found).Column("e.id", "e.journey_id", "e.launch_id", "e.leads_id", "e.created_at", "jx.segment_id").
		Join("JOIN journey_exits AS jx ON jx.journey_id = e.journey_id AND jx.version = e.version").
		Where("e.leads_id IN (?) AND e.exits AND e.ended_at IS NULL", bun.List(distinct(mapped(entered, enteredLead.lead)))).
		Where("jx.segment_id IN (?)", bun.List(distinct(mapped(entered, enteredLead.segment)))).
		Order("e.id", "jx.segment_id").Scan(ctx)
	if err != nil {
		return 0, fmt.Errorf("look for enrollments that exit: %w", err)
	}
	by := map[string]string{}
	var leaving []leavingRow
	for _, row := range found {
		c, came := byKey[key{row.LeadsID, row.SegmentID}]
		if _, twice := by[row.ID]; !came || twice || !row.CreatedAt.Before(c.at.Time) {
			continue
		}
		by[row.ID] = row.SegmentID
		leaving = append(leaving, row)
	}
	if len(leaving) == 0 {
		return 0, nil
	}
	err = s.exits.leave(ctx, tx, leaving, now, func(id string) controlRow { return controlRow{SegmentID: by[id]} }, len(leaving) > 1)
	return len(leaving), err
}

// beginBySegments enrolls leads in the journeys that begin by the segments which they have
// entered, and returns how many; see begin.
func (s *segmentWatches) beginBySegments(
	ctx context.Context, tx bun.Tx, sc waypost.Scope, entered []enteredLead, now stamp,
) (n int, err error) {
	ids := distinct(mapped(entered, enteredLead.segment))
	rules, err := entryRules(ctx, tx, sc, waypost.EntrySegment, ids...)
	if err != nil || len(rules) == 0 {
		return 0, err
	}
	leads, err := leadsIn(ctx, tx, mapped(entered, enteredLead.lead))
	if err != nil {
		return 0, err
	}
	for _, id := range ids { // of one segment no lead comes twice
		var occasions []occasion
		for _, c := range entered {
			if c.segmentID == id {
				occasions = append(occasions, occasion{
					Occasion: waypost.Occasion{Kind: waypost.EntrySegment, Lead: leads[c.leadsID], Segment: id, At: now.Time},
					depth:    c.depth, since: c.at, bulk: len(entered) > 1,
				})
			}
		}
		begun, _, err := s.entries.begin(ctx, tx, rules, occasions)
		if err != nil {
			return n, err
		}
		n += begun
	}
	return n, nil
}
