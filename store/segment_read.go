package store

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"waypost"
	"waypost/segment"
)

// Bounds of reading a segment.
const (
	maxCompiled = 200 // segments that are kept compiled
	// Leads of a segment that must be evaluated are found in parts, and evaluated in
	// batches with at most so many events.
	memberPart  = 100_000
	memberBatch = 1000
	batchEvents = 20_000
	// memberWay is how many leads are looked at one after another for a page, before those
	// with events are found together.
	memberWay = 2000
)

// reading is a segment as it is at a time.
type reading struct {
	sc  waypost.Scope
	seg *segment.Segment
	now time.Time
}

// readSegment compiles a segment as it is now; NotFound if the scope has none of this id.
func (s *segments) readSegment(ctx context.Context, db bun.IDB, sc waypost.Scope, id string, now time.Time) (reading, error) {
	whens := map[string]string{}
	key, err := s.loadConditions(ctx, db, sc, []string{cleanText(id)}, whens)
	if err != nil {
		return reading{}, err
	}
	if _, found := whens[id]; !found {
		return reading{}, noSuch("segment", id)
	}
	if seg, found := s.segments.Get(id + key); found {
		return reading{sc, seg, now}, nil
	}
	seg, err := segment.Compile(id, whens)
	if err != nil {
		return reading{}, fmt.Errorf("compile segment %s: %w", clip(id), err)
	}
	s.segments.Add(id+key, seg)
	return reading{sc, seg, now}, nil
}

// loadConditions adds the conditions of segments to whens, and those of the segments that they name. key
// changes with them.
func (s *segments) loadConditions(
	ctx context.Context, db bun.IDB, sc waypost.Scope, ids []string, whens map[string]string,
) (key string, err error) {
	for next := ids; len(next) > 0; {
		var rows []segmentRow
		q := db.NewSelect().Model(&rows).Where("id IN (?) AND org = ? AND stage = ?", bun.List(next), sc.Org, sc.Stage).Order("id")
		if err := q.Scan(ctx); err != nil {
			return "", fmt.Errorf("load segments: %w", err)
		}
		next = nil
		for _, r := range rows {
			whens[r.ID] = r.When
			key += r.ID + r.When + "\x00"
		}
		for _, r := range rows {
			for _, named := range segmentsIn(r.When) {
				if _, known := whens[named]; !known && !slices.Contains(next, named) {
					next = append(next, named)
				}
			}
		}
	}
	return key, nil
}

// readCondition compiles a condition that no segment has. It refuses what CreateSegment refuses.
func (s *segments) readCondition(ctx context.Context, tx bun.Tx, sc waypost.Scope, when string, now time.Time) (reading, error) {
	whens := map[string]string{"": when}
	if _, err := s.loadConditions(ctx, tx, sc, segmentsIn(when), whens); err != nil {
		return reading{}, err
	}
	seg, err := segment.Compile("", whens)
	if err != nil {
		return reading{}, err
	}
	if err := s.checkAges(seg); err != nil {
		return reading{}, err
	}
	return reading{sc, seg, now}, s.checkJourneys(ctx, tx, tx.NewSelect().Model((*journeyRow)(nil)), sc, seg.Needs(true))
}

// where selects leads (alias l) that meet what SQL answers of the segment; for many see
// whereOf.
func (s *segments) where(tx bun.IDB, r reading, many bool) *bun.SelectQuery {
	c := whereOf{s, r.sc, r.now, many}.condition(r.seg.Where())
	return tx.NewSelect().Model((*leadRow)(nil)).Where("l.org = ? AND l.stage = ?", r.sc.Org, r.sc.Stage).Where(c.text, c.args...)
}

// CountSegment counts the leads of a segment and picks up to n of them by chance, of the
// same leads always the same. NotFound if the scope has none of this id.
func (s *segments) CountSegment(ctx context.Context, sc waypost.Scope, id string, n int) (c waypost.SegmentCount, err error) {
	defer wrap(&err, "count segment %s", clip(id))
	return s.countReading(ctx, n, func(ctx context.Context, tx bun.Tx) (reading, error) { return s.readSegment(ctx, tx, sc, id, s.time()) })
}

// CountCondition is CountSegment for a condition that no segment has; BadRequest of "when" as
// CreateSegment.
func (s *segments) CountCondition(ctx context.Context, sc waypost.Scope, when string, n int) (c waypost.SegmentCount, err error) {
	defer wrap(&err, "count the leads that meet a condition")
	if err := checkSegment(waypost.Segment{When: when}); err != nil {
		return c, err
	}
	return s.countReading(ctx, n, func(ctx context.Context, tx bun.Tx) (reading, error) {
		return s.readCondition(ctx, tx, sc, when, s.time())
	})
}

// CheckCondition refuses what CountCondition refuses, and counts nothing.
func (s *segments) CheckCondition(ctx context.Context, sc waypost.Scope, when string) (err error) {
	defer wrap(&err, "check a condition")
	if err := checkSegment(waypost.Segment{When: when}); err != nil {
		return err
	}
	return s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := s.readCondition(ctx, tx, sc, when, s.time())
		return err
	})
}

func (s *segments) countReading(
	ctx context.Context, n int, read func(ctx context.Context, tx bun.Tx) (reading, error),
) (c waypost.SegmentCount, err error) {
	err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := read(ctx, tx)
		if err != nil {
			return err
		}
		c.At = r.now
		c.Count, _, c.Sample, err = s.countMembers(ctx, tx, r, n)
		return err
	})
	return c, err
}

// countMembers counts the leads of a segment, finds the highest, and picks some.
func (s *segments) countMembers(ctx context.Context, tx bun.Tx, r reading, n int) (count int, highest int64, sample []int64, err error) {
	if r.seg.Exact() {
		if err := s.withMemory(ctx, tx); err != nil {
			return 0, 0, nil, err
		}
		// The leads are found once.
		var found []struct {
			Total   int   `bun:"total"`
			Highest int64 `bun:"highest"`
			Sample  int64 `bun:"sample"` // 0 in the row of the others
		}
		err = tx.NewRaw("WITH l AS MATERIALIZED (?) SELECT count(*) AS total, COALESCE(max(l.leads_id), 0) AS highest, 0 AS sample FROM l "+
			"UNION ALL SELECT 0, 0, s.leads_id FROM (SELECT l.leads_id FROM l ORDER BY "+mixed+" LIMIT ?) AS s",
			s.where(tx, r, true).Column("leads_id"), n).Scan(ctx, &found)
		for _, f := range found {
			if f.Sample > 0 {
				sample = append(sample, f.Sample)
			} else {
				count, highest = f.Total, f.Highest
			}
		}
		slices.Sort(sample)
		return count, highest, sample, err
	}
	var picked []int64 // by mix
	err = s.eachMember(ctx, tx, r, 0, nil, true, func(ids []int64) bool {
		count += len(ids)
		for _, id := range ids {
			highest = id
			i, _ := slices.BinarySearchFunc(picked, mix(id), func(id int64, m int64) int { return int(mix(id) - m) })
			if i < n {
				picked = slices.Insert(picked, i, id)
				picked = picked[:min(n, len(picked))]
			}
		}
		return true
	})
	slices.Sort(picked)
	return count, highest, picked, err
}

// mixed orders leads (alias l) as if by chance, mix does so in Go.
const mixed = "(l.leads_id % 2147483648) * 2654435761 % 4294967296, l.leads_id"

func mix(id int64) int64 { return id % 2147483648 * 2654435761 % 4294967296 }

// SegmentMembers returns leads of a segment in the order of their ids: at most page.Limit
// that follow page.After, the leadsId of the last one of the page before. NotFound if the
// scope has no segment of this id.
func (s *segments) SegmentMembers(ctx context.Context, sc waypost.Scope, id string, page waypost.Page) (leads []waypost.Lead, err error) {
	defer wrap(&err, "list members of segment %s", clip(id))
	walk, err := newLeadWalk(sc, waypost.LeadQuery{Page: page})
	if err != nil {
		return nil, err
	}
	after := int64(0)
	if len(walk.after) > 0 {
		after = walk.after[0]
	}
	err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		r, err := s.readSegment(ctx, tx, sc, id, s.time())
		if err != nil {
			return err
		}
		ids, err := s.memberIDs(ctx, tx, r, after, nil, int(pageSize(page)))
		if err != nil || len(ids) == 0 {
			return err
		}
		var rows []leadRow
		if err := tx.NewSelect().Model(&rows).Where("leads_id IN (?)", bun.List(ids)).Order("leads_id").Scan(ctx); err != nil {
			return err
		}
		leads, err = decoded(rows, leadRow.lead)
		return err
	})
	return leads, err
}

// memberIDs returns the first n leads of a segment after one, up to another one.
func (s *segments) memberIDs(ctx context.Context, tx bun.Tx, r reading, after int64, upTo *int64, n int) (ids []int64, err error) {
	// Most often they are soon met.
	var last []int64
	way := max(memberWay, 10*n)
	q := tx.NewSelect().Model((*leadRow)(nil)).Column("leads_id").Where("l.org = ? AND l.stage = ? AND l.leads_id > ?", r.sc.Org, r.sc.Stage, after)
	if err := q.OrderExpr("l.leads_id").Offset(int64(way-1)).Limit(1).Scan(ctx, &last); err != nil {
		return nil, err
	}
	end := upTo
	if len(last) > 0 && (upTo == nil || last[0] < *upTo) {
		end = &last[0]
	}
	take := func(found []int64) bool {
		ids = append(ids, found...)
		ids = ids[:min(n, len(ids))]
		return len(ids) < n
	}
	if err := s.eachMember(ctx, tx, r, after, end, false, take); err != nil || len(ids) == n || end == upTo {
		return ids, err
	}
	return ids, s.eachMember(ctx, tx, r, *end, upTo, true, take)
}

// eachMember gives each the leads of a segment after one, up to another one, in the order of
// their ids, until it has enough. For many see whereOf.
func (s *segments) eachMember(
	ctx context.Context, tx bun.Tx, r reading, after int64, upTo *int64, many bool, each func(ids []int64) (more bool),
) error {
	limit := memberWay // leads whose records are looked up one after another
	if many {
		limit = memberPart
		if err := s.withMemory(ctx, tx); err != nil {
			return err
		}
	}
	for {
		q := s.where(tx, r, many).Column("leads_id").Where("l.leads_id > ?", after).OrderExpr("l.leads_id").Limit(int64(limit))
		if upTo != nil {
			q.Where("l.leads_id <= ?", *upTo)
		}
		var part []int64
		if err := q.Scan(ctx, &part); err != nil {
			return err
		}
		for batch := range slices.Chunk(part, memberBatch) {
			ids, err := s.membersAmong(ctx, tx, r, batch, true)
			if err != nil {
				return err
			}
			if !each(ids) {
				return nil
			}
		}
		if len(part) < limit {
			return nil
		}
		after = part[len(part)-1]
	}
}

// membersAmong returns those of leads, at most memberBatch, that are in a segment, in the
// order of their ids. asked says that they meet what SQL answers.
func (s *segments) membersAmong(ctx context.Context, db bun.IDB, r reading, leads []int64, asked bool) (ids []int64, err error) {
	if len(leads) == 0 || asked && r.seg.Exact() {
		return leads, nil
	}
	q := db.NewSelect().Model((*leadRow)(nil)).Where("l.org = ? AND l.stage = ? AND l.leads_id IN (?)", r.sc.Org, r.sc.Stage, bun.List(leads))
	if !asked {
		// The limit has the leads found by their ids first: to a database without statistics, the
		// scope seems as good.
		among := db.NewSelect().TableExpr("leads").Where("leads_id IN (?)", bun.List(leads)).Order("leads_id").Limit(int64(len(leads)))
		q = s.where(db, r, false).ModelTableExpr("(?) AS l", among)
	}
	q.OrderExpr("l.leads_id")
	if r.seg.Exact() {
		err = q.Column("leads_id").Scan(ctx, &ids)
		return ids, err
	}
	q.Column("leads_id")
	for _, field := range r.seg.Fields() {
		if column := fieldColumns[field]; column != "l.leads_id" {
			q.Column(strings.TrimPrefix(column, "l."))
		}
	}
	var rows []leadRow
	if err := q.Scan(ctx, &rows); err != nil {
		return nil, err
	}
	records, err := s.leadRecords(ctx, db, r.sc, mapped(rows, func(r leadRow) int64 { return r.LeadsID }), r.seg.Needs(false), r.now)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		lead, err := row.lead()
		if err != nil {
			return nil, err
		}
		if r.seg.Has(ctx, &lead, records[row.LeadsID], r.now, false) {
			ids = append(ids, row.LeadsID)
		}
	}
	return ids, ctx.Err()
}

// SegmentRules returns segments, and those that they name, by their ids. What the scope does not have is
// missing.
func (s *segments) SegmentRules(ctx context.Context, sc waypost.Scope, ids []string) (rules map[string]waypost.SegmentRule, err error) {
	defer wrap(&err, "load segments")
	rules = map[string]waypost.SegmentRule{}
	err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		for next := slices.Clone(ids); len(next) > 0; next = next[1:] {
			if rules[next[0]] != nil {
				continue
			}
			r, err := s.readSegment(ctx, tx, sc, next[0], s.time())
			if waypost.CodeOf(err) == waypost.CodeNotFound {
				continue
			}
			if err != nil {
				return err
			}
			rules[next[0]] = r.seg
			next = append(next, r.seg.Needs(true).Segments...)
		}
		return nil
	})
	return rules, err
}

// LeadRecords reads what is recorded of leads of a scope, as far as it is needed, at now. It
// has a record for each lead.
func (s *segments) LeadRecords(
	ctx context.Context, sc waypost.Scope, leads []int64, needs waypost.RecordNeeds, now time.Time,
) (records map[int64]*waypost.LeadRecord, err error) {
	defer wrap(&err, "read the records of leads")
	err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		records, err = s.leadRecords(ctx, tx, sc, leads, needs, now)
		return err
	})
	return records, err
}

// leadRecords reads what conditions need to know of leads: events, journeys entered, messages delivered and
// segments, for all leads at once. A segment that does not exist has no members.
func (s *segments) leadRecords(ctx context.Context, db bun.IDB, sc waypost.Scope, leads []int64, needs waypost.RecordNeeds, now time.Time) (map[int64]*waypost.LeadRecord, error) {
	records := make(map[int64]*waypost.LeadRecord, len(leads))
	for _, lead := range leads {
		records[lead] = &waypost.LeadRecord{
			Events: map[string][]waypost.RecordedEvent{}, EventDays: map[string][]waypost.RecordedEvent{}, Entered: map[string]bool{}, Delivered: map[waypost.JourneyNode]bool{}, Segments: map[string]bool{},
		}
	}
	if len(leads) == 0 {
		return records, nil
	}
	days, events := s.ages.Split(needs.Events)
	for _, record := range records {
		record.Ages = s.ages
	}
	for _, name := range days {
		if err := recordEventDays(ctx, db, leads, name, records); err != nil {
			return nil, err
		}
	}
	for _, need := range events {
		if err := s.recordEvents(ctx, db, leads, need, now, records); err != nil {
			return nil, err
		}
	}
	var found []struct {
		LeadsID   int64  `bun:"leads_id"`
		JourneyID string `bun:"journey_id"`
		NodeID    string `bun:"node_id"`
	}
	if len(needs.Entered) > 0 {
		err := db.NewSelect().TableExpr("journey_entries AS je").Distinct().Column("leads_id", "journey_id").
			Where("je.journey_id IN (?) AND je.leads_id IN (?)", bun.List(needs.Entered), bun.List(leads)).Scan(ctx, &found)
		if err != nil {
			return nil, fmt.Errorf("read entries: %w", err)
		}
		for _, f := range found {
			records[f.LeadsID].Entered[f.JourneyID] = true
		}
	}
	for _, node := range needs.Delivered {
		found = nil
		err := db.NewSelect().TableExpr("deliveries AS d").Distinct().Column("leads_id").
			Where("d.leads_id IN (?) AND d.journey_id = ? AND d.node_id = ? AND d.status = ?", bun.List(leads), node.JourneyID, node.NodeID, waypost.DeliverySucceeded).Scan(ctx, &found)
		if err != nil {
			return nil, fmt.Errorf("read deliveries: %w", err)
		}
		for _, f := range found {
			records[f.LeadsID].Delivered[node] = true
		}
	}
	for _, id := range needs.Segments {
		r, err := s.readSegment(ctx, db, sc, id, now)
		if waypost.CodeOf(err) == waypost.CodeNotFound { // nobody is in it
			continue
		}
		if err != nil {
			return nil, err
		}
		for batch := range slices.Chunk(leads, memberBatch) {
			members, err := s.membersAmong(ctx, db, r, batch, false)
			if err != nil {
				return nil, err
			}
			for _, lead := range members {
				records[lead].Segments[id] = true
			}
		}
	}
	return records, nil
}

// recordEvents reads events of a name of leads. If there are too many, it reads those of
// half of the leads at a time.
func (s *segments) recordEvents(
	ctx context.Context, db bun.IDB, leads []int64, need waypost.EventNeed, now time.Time, records map[int64]*waypost.LeadRecord,
) error {
	columns, most := "e.leads_id, e.occurred_at, e.accepted_at, e.event_id, e.seq", waypost.MaxRecordedEvents
	if need.Use != waypost.EventTimes {
		columns += ", e.properties"
	}
	if need.Use == waypost.EventLast {
		most = 1
	}
	newest := db.NewSelect().TableExpr("events AS e").ColumnExpr(columns).
		ColumnExpr("row_number() OVER (PARTITION BY e.leads_id ORDER BY "+latestEvent+") AS place").
		Where("e.leads_id IN (?) AND e.name = ?", bun.List(leads), need.Name)
	if need.Window > 0 {
		newest.Where("e.occurred_at > ?", now.Add(-need.Window).UnixMicro())
	}
	q := db.NewSelect().TableExpr("(?) AS e", newest).ColumnExpr(columns).Where("e.place <= ?", most).
		OrderExpr("e.leads_id, " + eventOrder).Limit(batchEvents + 1)
	var rows []eventRow
	if err := q.Scan(ctx, &rows); err != nil {
		return fmt.Errorf("read events: %w", err)
	}
	if len(rows) > batchEvents && len(leads) > 1 {
		half := len(leads) / 2
		if err := s.recordEvents(ctx, db, leads[:half], need, now, records); err != nil {
			return err
		}
		return s.recordEvents(ctx, db, leads[half:], need, now, records)
	}
	for _, row := range rows {
		e := waypost.RecordedEvent{At: row.OccurredAt.Time}
		if need.Use != waypost.EventTimes {
			if err := fromJSON(row.Properties, &e.Properties); err != nil {
				return fmt.Errorf("event %d: %w", row.Seq, err)
			}
		}
		r := records[row.LeadsID]
		r.Events[need.Name] = append(r.Events[need.Name], e)
	}
	return nil
}
