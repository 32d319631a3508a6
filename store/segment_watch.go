package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// watchRow is a segment whose members are remembered, because a journey begins or ends by it.
type watchRow struct {
	bun.BaseModel `bun:"table:segment_watches,alias:sw"`

	SegmentID string `bun:"segment_id,pk"`
	waypost.Scope
	Revision int    `bun:"revision"`  // counts the changes of what is asked
	Timed    bool   `bun:"timed"`     // time alone can change who is in it
	FilledTo *int64 `bun:"filled_to"` // the members up to this lead are known; nil: all are
	DueAt    stamp  `bun:"due_at"`    // when it is next read as a whole
}

// known tells whether it is known if a lead was a member before.
func (w watchRow) known(lead int64) bool { return w.FilledTo == nil || lead <= *w.FilledTo }

// memberRow is a lead that was in a watched segment when it was last looked at.
type memberRow struct {
	bun.BaseModel `bun:"table:segment_members,alias:sm"`

	SegmentID string `bun:"segment_id,pk"`
	LeadsID   int64  `bun:"leads_id,pk"`
}

// How often a watched segment is read as a whole: time changes who is in it, and so do, rarely,
// changes that add no row to segment_checks, such as retention.
const (
	timedEvery   = time.Minute
	untimedEvery = time.Hour
	// A reading that takes long leaves so many times as long to others.
	readingRest = 9
	// readingTime is how long a process may take for a reading before another one takes it over.
	readingTime = 10 * time.Minute
	// settleBatch are leads that one transaction of a reading locks.
	settleBatch = 500
	// forgetBatch are members that one transaction forgets.
	forgetBatch = 5000
)

// errUnwatched says that a segment is watched no longer, because nothing named it, or that it was
// changed.
var errUnwatched = errors.New("the segment is not watched as it was")

// enteredSegments lists the segments that a version begins or ends by.
func enteredSegments(p waypost.Publication) ([]string, error) {
	exits, err := exitsOf("", 0, string(p.Definition))
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, r := range p.Entry {
		ids = append(ids, r.Segment)
	}
	for _, r := range exits {
		ids = append(ids, r.SegmentID)
	}
	return slices.DeleteFunc(distinct(ids), func(id string) bool { return id == "" }), nil
}

// watchAll watches segments and waits until their members are known, so that leads which enter
// later can be distinguished from these. It is called before the transaction that names
// them, which refuses those that do not exist.
func (s *segmentWatches) watchAll(ctx context.Context, sc waypost.Scope, ids []string) error {
	for _, id := range ids {
		err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
			watched, err := tx.NewSelect().Model((*watchRow)(nil)).Where("segment_id = ? AND org = ? AND stage = ?", id, sc.Org, sc.Stage).Exists(ctx)
			if err != nil || watched {
				return err
			}
			missing, err := s.segments.missingSegments(ctx, tx, sc, []string{id})
			if err != nil || len(missing) > 0 {
				return err
			}
			return s.watch(ctx, tx, sc, id)
		})
		if err == nil {
			err = s.fillSegment(ctx, id)
		}
		if err != nil {
			return fmt.Errorf("watch segment %s: %w", clip(id), err)
		}
	}
	return nil
}

// watch begins to watch a segment, which is locked, or has it watched for what it asks now.
// fillSegment works out its members afterwards.
func (s *segmentWatches) watch(ctx context.Context, tx bun.Tx, sc waypost.Scope, id string) error {
	now := s.time()
	r, err := s.segments.readSegment(ctx, tx, sc, id, now)
	if err != nil {
		return err
	}
	// Transactions that have read the table without the rows that follow have ended then; all
	// others see them.
	if err := s.lockTable(ctx, tx, "segment_causes", againstUse); err != nil {
		return err
	}
	asks := r.seg.Asks()
	causes := []causeRow{{Scope: sc, Kind: causeLead, SegmentID: id}}
	for _, e := range asks.Events {
		causes = append(causes, causeRow{Scope: sc, Kind: causeEvent, Name: e.Name, SegmentID: id})
	}
	for _, journey := range asks.Entered {
		causes = append(causes, causeRow{Scope: sc, Kind: causeEntered, Name: journey, SegmentID: id})
	}
	for _, node := range asks.Delivered {
		causes = append(causes, causeRow{Scope: sc, Kind: causeDelivered, Name: node.JourneyID, SegmentID: id})
	}
	if _, err := tx.NewDelete().Model((*causeRow)(nil)).Where("segment_id = ?", id).Exec(ctx); err != nil {
		return err
	}
	if _, err := tx.NewInsert().Model(&causes).On("CONFLICT DO NOTHING").Exec(ctx); err != nil { // several nodes of a journey
		return err
	}
	row := watchRow{SegmentID: id, Scope: sc, Revision: 1, Timed: r.seg.Timed(), FilledTo: new(int64), DueAt: stamp{now.Add(timedEvery)}}
	_, err = tx.NewInsert().Model(&row).
		On("CONFLICT (segment_id) DO UPDATE SET revision = sw.revision + 1, timed = EXCLUDED.timed, filled_to = EXCLUDED.filled_to, due_at = EXCLUDED.due_at").Exec(ctx)
	return err
}

// holdWatches fails with errUnwatched unless segments are watched and their members known. Their
// watches last until the transaction ends. Segments that do not exist are passed over.
func (s *segmentWatches) holdWatches(ctx context.Context, tx bun.Tx, sc waypost.Scope, ids []string) error {
	if len(ids) == 0 {
		return nil
	}
	missing, err := s.segments.missingSegments(ctx, tx, sc, ids)
	if err != nil {
		return err
	}
	var rows []watchRow
	q := tx.NewSelect().Model(&rows).Where("segment_id IN (?) AND filled_to IS NULL", bun.List(ids)).Order("segment_id")
	if err := s.lockFor(q, forShare).Scan(ctx); err != nil {
		return err
	}
	if len(rows)+len(missing) < len(ids) {
		return errUnwatched
	}
	return nil
}

// rewatch has those of the segments of a scope that are watched worked out anew, whose
// condition, or that of a segment that they name, was changed. It returns them.
func (s *segmentWatches) rewatch(ctx context.Context, tx bun.Tx, sc waypost.Scope, changed []string) (ids []string, err error) {
	err = tx.NewSelect().Model((*watchRow)(nil)).Column("segment_id").
		Where("segment_id IN (?)", bun.List(changed)).Order("segment_id").Scan(ctx, &ids)
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		if err := s.watch(ctx, tx, sc, id); err != nil {
			return nil, err
		}
	}
	return ids, nil
}

// unwatch ends the watch of a segment, unless it is used.
func (s *segmentWatches) unwatch(ctx context.Context, id string) (used bool, err error) {
	for {
		used, done, err := s.unwatchStep(ctx, id)
		if err != nil || used || done {
			return used, err
		}
	}
}

// unwatchStep forgets up to forgetBatch members of a segment that is not used, and, with the last
// of them, that it was watched: then it is done.
func (s *segmentWatches) unwatchStep(ctx context.Context, id string) (used, done bool, err error) {
	err = s.writeRows(ctx, forgetBatch, func(ctx context.Context, tx bun.Tx) error {
		var w watchRow
		err := s.lockFor(tx.NewSelect().Model(&w).Where("segment_id = ?", id), forDelete).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) {
			done = true
			return nil
		}
		if err != nil {
			return err
		}
		if used, err = segmentUsed(ctx, tx, w); err != nil || used {
			return err
		}
		n, err := affected(tx.NewRaw(`DELETE FROM segment_members WHERE segment_id = ? AND leads_id IN (
			SELECT leads_id FROM segment_members WHERE segment_id = ? ORDER BY leads_id LIMIT ?)`, id, id, forgetBatch).Exec(ctx))
		if err != nil {
			return err
		}
		if done = n < forgetBatch; done {
			return dropWatch(ctx, tx, id)
		}
		_, err = tx.NewUpdate().Model(&w).Set("filled_to = 0, revision = revision + 1").WherePK().Exec(ctx)
		return err
	})
	return used, done, err
}

// segmentUsed tells whether the entry of a published version, or exitOn of one that has enrollments
// or can get some, names a segment.
func segmentUsed(ctx context.Context, tx bun.Tx, w watchRow) (used bool, err error) {
	err = tx.NewRaw(`SELECT EXISTS (SELECT 1 FROM entry_rules WHERE org = ? AND stage = ? AND kind = ? AND name = ?)
		OR EXISTS (SELECT 1 FROM journey_exits AS jx JOIN journeys AS j ON j.id = jx.journey_id AND j.published_version = jx.version
			WHERE jx.segment_id = ? AND jx.segment_id <> '' AND j.status <> ?)`,
		w.Org, w.Stage, waypost.EntrySegment, w.SegmentID, w.SegmentID, waypost.JourneyArchived).Scan(ctx, &used)
	if err == nil && !used {
		// Those of other versions can be moved to that one. The place of one that has ended begins
		// with =, which no node does.
		err = tx.NewRaw(`SELECT EXISTS (SELECT 1 FROM journey_exits AS jx JOIN journey_versions AS v ON v.journey_id = jx.journey_id
			WHERE jx.segment_id = ? AND jx.segment_id <> ''
			AND (EXISTS (SELECT 1 FROM enrollments AS e WHERE e.journey_id = v.journey_id AND e.version = v.version AND e.place < '=')
				OR EXISTS (SELECT 1 FROM enrollments AS e WHERE e.journey_id = v.journey_id AND e.version = v.version AND e.place > '>')))`,
			w.SegmentID).Scan(ctx, &used)
	}
	if err != nil {
		err = fmt.Errorf("look for journeys that name the segment: %w", err)
	}
	return used, err
}

// dropWatch ends the watch of a segment.
func dropWatch(ctx context.Context, tx bun.Tx, id string) error {
	for _, model := range []any{(*memberRow)(nil), (*causeRow)(nil), (*watchRow)(nil)} {
		if _, err := tx.NewDelete().Model(model).Where("segment_id = ?", id).Exec(ctx); err != nil {
			return err
		}
	}
	return nil
}

// fillSegment works out who is in a watched segment, if that is not known; no journey begins
// or ends by that. It remembers how far it has come. A lead that enters the segment meanwhile, before
// fillSegment has come to it, does not enter either.
func (s *segmentWatches) fillSegment(ctx context.Context, id string) error {
	for {
		var w watchRow
		err := s.r.NewSelect().Model(&w).Where("segment_id = ?", id).Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) || err == nil && w.FilledTo == nil {
			return nil
		}
		if err != nil {
			return err
		}
		err = s.eachDiffering(ctx, w, *w.FilledTo, func(ids []int64) error {
			return s.fillStep(ctx, &w, ids, &ids[len(ids)-1])
		})
		if err == nil {
			err = s.fillStep(ctx, &w, nil, nil)
		}
		if err != nil && !errors.Is(err, errUnwatched) { // otherwise somebody else fills it, too, or it was changed
			return err
		}
	}
}

// fillStep remembers who of some leads is in a segment, and that the members are known up to one,
// or all.
func (s *segmentWatches) fillStep(ctx context.Context, w *watchRow, leads []int64, to *int64) error {
	return s.writeRows(ctx, 1+len(leads), func(ctx context.Context, tx bun.Tx) error {
		row, err := s.lockWatch(ctx, tx, *w, forChange)
		if err != nil {
			return err
		}
		if row.FilledTo == nil || *row.FilledTo != *w.FilledTo {
			return errUnwatched
		}
		r, err := s.lockDiffering(ctx, tx, row, leads)
		if err != nil {
			return err
		}
		if _, err := s.settleMembers(ctx, tx, r, w.SegmentID, leads); err != nil {
			return err
		}
		if _, err := tx.NewUpdate().Model(&row).Set("filled_to = ?", to).WherePK().Exec(ctx); err != nil || to == nil {
			return err
		}
		w.FilledTo = to
		return nil
	})
}

// lockWatch reads a watch and locks it; errUnwatched if it is not as it was.
func (s *segmentWatches) lockWatch(ctx context.Context, tx bun.Tx, w watchRow, how string) (row watchRow, err error) {
	err = s.lockFor(tx.NewSelect().Model(&row).Where("segment_id = ? AND revision = ?", w.SegmentID, w.Revision), how).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		err = errUnwatched
	}
	return row, err
}

// lockDiffering locks leads, and reads the segment as it is then.
func (s *segmentWatches) lockDiffering(ctx context.Context, tx bun.Tx, w watchRow, leads []int64) (reading, error) {
	if err := s.leads.lockLeads(ctx, tx, leads, forChange); err != nil {
		return reading{}, err
	}
	return s.segments.readSegment(ctx, tx, w.Scope, w.SegmentID, s.time())
}

// eachDiffering gives each the leads after one that are in a watched segment and not among its
// members, or the other way round, settleBatch at a time, in the order of their ids.
func (s *segmentWatches) eachDiffering(ctx context.Context, w watchRow, after int64, each func(ids []int64) error) error {
	for {
		var ids []int64
		more := false
		err := s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			ids, after, more, err = s.differing(ctx, tx, w, after)
			return err
		})
		if err != nil {
			return err
		}
		for batch := range slices.Chunk(ids, settleBatch) {
			if err := each(batch); err != nil {
				return err
			}
		}
		if !more {
			return nil
		}
	}
}

// differing reads a part of such leads, up to the lead that it returns with them.
func (s *segmentWatches) differing(
	ctx context.Context, tx bun.Tx, w watchRow, after int64,
) (ids []int64, upTo int64, more bool, err error) {
	r, err := s.segments.readSegment(ctx, tx, w.Scope, w.SegmentID, s.time())
	if err != nil {
		return nil, 0, false, err
	}
	come, gone, err := s.mayDiffer(ctx, tx, r, w.SegmentID, after)
	if err != nil {
		return nil, 0, false, err
	}
	for _, part := range [][]int64{come, gone} { // a full part ends at its last lead: what follows comes next time
		if len(part) == memberPart {
			if last := part[memberPart-1]; !more || last < upTo {
				upTo, more = last, true
			}
		}
	}
	if more {
		beyond := func(id int64) bool { return id > upTo }
		come, gone = slices.DeleteFunc(come, beyond), slices.DeleteFunc(gone, beyond)
	}
	if r.seg.Exact() {
		return distinct(slices.Concat(come, gone)), upTo, more, nil
	}
	if come, err = s.membersAmongAll(ctx, tx, r, come, true); err != nil {
		return nil, 0, false, err
	}
	stay, err := s.membersAmongAll(ctx, tx, r, gone, false)
	return distinct(slices.Concat(come, without(gone, stay))), upTo, more, err
}

// mayDiffer reads the first leads after one that may be in a segment and are not among its members,
// and the first members that may not be in it: up to memberPart of each. They do differ if SQL
// answers all that the segment asks.
func (s *segmentWatches) mayDiffer(ctx context.Context, tx bun.Tx, r reading, id string, after int64) (come, gone []int64, err error) {
	if err := s.withMemory(ctx, tx); err != nil {
		return nil, nil, err
	}
	err = s.segments.where(tx, r, true).Column("leads_id").Where("l.leads_id > ?", after).
		Where("NOT EXISTS (SELECT 1 FROM segment_members AS sm WHERE sm.segment_id = ? AND sm.leads_id = l.leads_id)", id).
		OrderExpr("l.leads_id").Limit(memberPart).Scan(ctx, &come)
	if err != nil {
		return nil, nil, err
	}
	q := tx.NewSelect().Model((*memberRow)(nil)).Column("leads_id").Where("sm.segment_id = ? AND sm.leads_id > ?", id, after)
	if r.seg.Exact() {
		q.Where("NOT EXISTS (?)", s.segments.where(tx, r, true).ColumnExpr("1").Where("l.leads_id = sm.leads_id"))
	}
	err = q.OrderExpr("sm.leads_id").Limit(memberPart).Scan(ctx, &gone)
	return come, gone, err
}

// membersAmongAll is membersAmong for any number of leads.
func (s *segmentWatches) membersAmongAll(ctx context.Context, tx bun.Tx, r reading, leads []int64, asked bool) (ids []int64, err error) {
	for batch := range slices.Chunk(leads, memberBatch) {
		members, err := s.segments.membersAmong(ctx, tx, r, batch, asked)
		if err != nil {
			return nil, err
		}
		ids = append(ids, members...)
	}
	return ids, nil
}

// ReadSegments reads a watched segment as a whole whose time has come: every minute those that
// time alone changes, every hour the others, and the longer the reading takes, the less often. Who
// has entered enters journeys and exits from them as CheckSegments says, some hundred leads in
// each transaction. A segment that no journey begins or ends by any more is watched no longer.
// more tells that there may be others, acted that there is something for a pump to do.
// One process does a reading. If it ends before that is done, another one begins it anew.
func (s *segmentWatches) ReadSegments(ctx context.Context) (more, acted bool, err error) {
	defer wrap(&err, "read watched segments")
	began := s.time()
	var w watchRow
	err = s.r.NewSelect().Model(&w).Where("due_at <= ?", stamp{began}).Order("due_at", "segment_id").Limit(1).Scan(ctx)
	if errors.Is(err, sql.ErrNoRows) {
		return false, false, nil
	}
	if err != nil {
		return false, false, err
	}
	if claimed, err := s.claimReading(ctx, w, began); err != nil || !claimed {
		return err == nil, false, err
	}
	if used, err := s.unwatch(ctx, w.SegmentID); err != nil || !used {
		return true, false, err
	}
	if err := s.fillSegment(ctx, w.SegmentID); err != nil {
		return false, false, err
	}
	err = s.eachDiffering(ctx, w, 0, func(ids []int64) error {
		did, err := s.enterStep(ctx, w, ids)
		acted = acted || did
		return err
	})
	if errors.Is(err, errUnwatched) { // it was changed meanwhile
		return true, acted, nil
	}
	if err != nil {
		return false, acted, err
	}
	return true, acted, s.endReading(ctx, w, began)
}

// claimReading keeps other processes from the reading of a segment for readingTime, unless another
// one was first.
func (s *segmentWatches) claimReading(ctx context.Context, w watchRow, began time.Time) (claimed bool, err error) {
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		n, err := affected(tx.NewUpdate().Model(&w).Set("due_at = ?", stamp{began.Add(readingTime)}).WherePK().Where("due_at = ?", w.DueAt).Exec(ctx))
		claimed = n > 0
		return err
	})
	return claimed, err
}

// endReading sets when a segment is read next, unless it was changed meanwhile.
func (s *segmentWatches) endReading(ctx context.Context, w watchRow, began time.Time) error {
	every := untimedEvery
	if w.Timed {
		every = timedEvery
	}
	now := s.time()
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		_, err := tx.NewUpdate().Model(&w).Set("due_at = ?", stamp{now.Add(max(every, readingRest*now.Sub(began)))}).
			WherePK().Where("revision = ?", w.Revision).Exec(ctx)
		return err
	})
}

// enterStep is enterSegments for leads that have come into a segment, or left it, without a row in
// segment_checks.
func (s *segmentWatches) enterStep(ctx context.Context, w watchRow, leads []int64) (acted bool, err error) {
	err = s.writeRows(ctx, len(leads), func(ctx context.Context, tx bun.Tx) error {
		acted = false // of a try before
		row, err := s.lockWatch(ctx, tx, w, forKey)
		if err != nil {
			return err
		}
		if err := s.leads.lockLeads(ctx, tx, leads, forChange); err != nil {
			return err
		}
		acted, err = s.enterSegments(ctx, tx, w.Scope, []watchRow{row}, leads)
		return err
	})
	return acted, err
}
