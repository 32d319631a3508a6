package store

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/uptrace/bun"

	"waypost"
	"waypost/segment"
)

type segmentRow struct {
	bun.BaseModel `bun:"table:segments,alias:sg"`

	ID string `bun:"id,pk"`
	waypost.Scope
	Name      string `bun:"name"`
	When      string `bun:"condition"`
	CreatedAt stamp  `bun:"created_at"`
	UpdatedAt stamp  `bun:"updated_at"`
}

func newSegmentRow(sc waypost.Scope, g waypost.Segment) segmentRow {
	return segmentRow{ID: g.ID, Scope: sc, Name: g.Name, When: g.When, CreatedAt: stamp{g.CreatedAt}, UpdatedAt: stamp{g.UpdatedAt}}
}

func (r segmentRow) segment() waypost.Segment {
	return waypost.Segment{ID: r.ID, Name: r.Name, When: r.When, CreatedAt: r.CreatedAt.Time, UpdatedAt: r.UpdatedAt.Time}
}

// CreateSegment stores a new segment under an id minted here and returns it. BadRequest of
// "when" if its condition does not compile, would be too costly, or names what the scope
// lacks; Conflict if the scope has waypost.MaxSegments already.
func (s *segments) CreateSegment(ctx context.Context, by waypost.Caller, g waypost.Segment) (_ waypost.Segment, err error) {
	defer wrap(&err, "create segment")
	sc, author := by.Within()
	if err := checkSegment(g); err != nil {
		return g, err
	}
	now := s.time()
	g.ID, g.CreatedAt, g.UpdatedAt = waypost.NewID(waypost.PrefixSegment, now), now, now
	row := newSegmentRow(sc, g)
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		rows, err := s.lockSegments(ctx, tx, sc)
		if err != nil {
			return err
		}
		if n := len(rows); n >= waypost.MaxSegments {
			return waypost.Errorf(waypost.CodeConflict, "", "the stage has %d segments, which is the most that it can have", n)
		}
		if _, err := s.checkCondition(ctx, tx, sc, rows, row); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		if err := s.audit.add(ctx, tx, author, "segment.create", g.ID, nil, auditedSegment(g)); err != nil {
			return err
		}
		return s.idempotency.keepResult(ctx, tx, g)
	})
	return g, err
}

func checkSegment(g waypost.Segment) error {
	var p waypost.Problems
	checkText(&p, "name", g.Name)
	checkText(&p, "when", g.When)
	return p.Err("segment")
}

// lockSegments reads all segments of a scope, and keeps others from writing any: whether one may
// be written or deleted depends on the others, also on those that are not there yet.
func (s *segments) lockSegments(ctx context.Context, tx bun.Tx, sc waypost.Scope) (rows []segmentRow, err error) {
	if err := s.lockTable(ctx, tx, "segments", againstWrites); err != nil {
		return nil, err
	}
	return rows, tx.NewSelect().Model(&rows).Where("org = ? AND stage = ?", sc.Org, sc.Stage).Order("id").Scan(ctx)
}

// checkCondition compiles a segment that is to be one of the rows, and those that name it,
// and looks whether the journeys are there that it names. It returns all that its condition
// changes.
func (s *segments) checkCondition(
	ctx context.Context, tx bun.Tx, sc waypost.Scope, rows []segmentRow, row segmentRow,
) (changed []string, err error) {
	whens := map[string]string{}
	for _, r := range rows {
		whens[r.ID] = r.When
	}
	whens[row.ID] = row.When
	compiled, err := segment.Compile(row.ID, whens)
	if err != nil {
		return nil, err
	}
	// Those that name it, and those that name them.
	changed = []string{row.ID}
	for i := 0; i < len(changed); i++ {
		for _, r := range rows {
			if slices.Contains(changed, r.ID) || !slices.Contains(segmentsIn(r.When), changed[i]) {
				continue
			}
			if _, err := segment.Compile(r.ID, whens); err != nil {
				return nil, segment.Faulty("segment %s could not be read any more: %s", r.ID, err)
			}
			changed = append(changed, r.ID)
		}
	}
	if err := s.checkAges(compiled); err != nil {
		return nil, err
	}
	return changed, s.checkJourneys(ctx, tx, s.lockFor(tx.NewSelect().Model((*journeyRow)(nil)), forKey), sc, compiled.Needs(true))
}

// SetEventAges says how far back conditions see events, from before the store is used.
func (s *segments) SetEventAges(ages waypost.EventAges) { s.ages = ages }

// checkAges refuses a condition that asks for more of events than is kept.
func (s *segments) checkAges(g *segment.Segment) error {
	var p waypost.Problems
	for _, fault := range s.ages.Faults(g.Needs(true)) {
		p.Add(waypost.DetailOutOfRange, "when", "%s", fault)
	}
	return p.Err("when")
}

// checkJourneys looks whether the journeys, and their nodes, are there that a condition names; from
// selects journeys.
func (s *segments) checkJourneys(ctx context.Context, tx bun.Tx, from *bun.SelectQuery, sc waypost.Scope, needs waypost.RecordNeeds) error {
	lacking, err := missing(ctx, from, sc, needs.Journeys())
	if err != nil {
		return err
	}
	if len(lacking) > 0 {
		return segment.Faulty("there is no journey %s", clip(lacking[0]))
	}
	for _, node := range needs.Delivered {
		has, err := s.hasNode(ctx, tx, node)
		if err != nil {
			return err
		}
		if !has {
			return segment.Faulty("journey %s has no node %s", node.JourneyID, clip(node.NodeID))
		}
	}
	return nil
}

// hasNode tells whether the draft or a version of a journey has a node.
func (s *segments) hasNode(ctx context.Context, tx bun.Tx, node waypost.JourneyNode) (bool, error) {
	var definitions []string
	err := tx.NewRaw("SELECT draft FROM journeys WHERE id = ? UNION ALL SELECT definition FROM journey_versions WHERE journey_id = ?",
		node.JourneyID, node.JourneyID).Scan(ctx, &definitions)
	if err != nil {
		return false, err
	}
	for _, definition := range definitions {
		var nodes struct{ Nodes []struct{ ID string } }
		if err := fromJSON(definition, &nodes); err != nil {
			return false, err
		}
		if slices.Contains(nodes.Nodes, struct{ ID string }{node.NodeID}) {
			return true, nil
		}
	}
	return false, nil
}

// Segment returns a segment; NotFound if the scope has none of this id.
func (s *segments) Segment(ctx context.Context, sc waypost.Scope, id string) (_ waypost.Segment, err error) {
	defer wrap(&err, "load segment %s", clip(id))
	var row segmentRow
	err = scanByID(ctx, s.r.NewSelect().Model(&row), sc, "segment", id)
	return row.segment(), err
}

// ListSegments returns the segments of the scope, newest first.
func (s *segments) ListSegments(ctx context.Context, sc waypost.Scope, page waypost.Page) (_ []waypost.Segment, err error) {
	defer wrap(&err, "list segments")
	var rows []segmentRow
	err = pageOf(s.r.NewSelect().Model(&rows), sc, "id", page).Scan(ctx)
	return mapped(rows, segmentRow.segment), err
}

// ReplaceSegment gives a segment another name and condition, unless check (unless nil),
// which sees it as it is, refuses. NotFound if the scope has none of this id; BadRequest as
// CreateSegment, and if a segment that names it could not be read any more. Who comes into a
// segment by the change does not enter it: journeys do not begin or end by that.
func (s *segmentWatches) ReplaceSegment(
	ctx context.Context, by waypost.Caller, id string, g waypost.Segment, check func(waypost.Segment) error,
) (_ waypost.Segment, err error) {
	defer wrap(&err, "replace segment %s", clip(id))
	sc, author := by.Within()
	if err := checkSegment(g); err != nil {
		return g, err
	}
	var watched []string
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		watched = nil // of a try before
		rows, i, err := s.segments.lockSegment(ctx, tx, sc, id)
		if err != nil {
			return err
		}
		before := rows[i].segment()
		if check != nil {
			if err := check(before); err != nil {
				return err
			}
		}
		g.ID, g.CreatedAt, g.UpdatedAt = before.ID, before.CreatedAt, s.time()
		row := newSegmentRow(sc, g)
		changed, err := s.segments.checkCondition(ctx, tx, sc, rows, row)
		if err != nil {
			return err
		}
		if _, err := tx.NewUpdate().Model(&row).WherePK().Exec(ctx); err != nil {
			return err
		}
		if g.When != before.When {
			if watched, err = s.rewatch(ctx, tx, sc, changed); err != nil {
				return err
			}
		}
		return s.audit.add(ctx, tx, author, "segment.update", g.ID, auditedSegment(before), auditedSegment(g))
	})
	if err != nil {
		return g, err
	}
	for _, id := range watched {
		if s.fillSegment(ctx, id) != nil {
			break // a pump does it
		}
	}
	return g, nil
}

// lockSegment is lockSegments, and finds one of them.
func (s *segments) lockSegment(ctx context.Context, tx bun.Tx, sc waypost.Scope, id string) (rows []segmentRow, i int, err error) {
	if rows, err = s.lockSegments(ctx, tx, sc); err != nil {
		return nil, 0, err
	}
	if i = slices.IndexFunc(rows, func(r segmentRow) bool { return r.ID == id }); i < 0 {
		return nil, 0, noSuch("segment", id)
	}
	return rows, i, nil
}

// DeleteSegment deletes a segment unless check (unless nil), which sees it as it is,
// refuses. Conflict if another segment, a journey's draft or version, or a launch that has
// not ended uses it, NotFound if the scope has none of this id.
func (s *segments) DeleteSegment(ctx context.Context, by waypost.Caller, id string, check func(waypost.Segment) error) (err error) {
	defer wrap(&err, "delete segment %s", clip(id))
	sc, author := by.Within()
	return s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		rows, i, err := s.lockSegment(ctx, tx, sc, id)
		if err != nil {
			return err
		}
		row := rows[i]
		if check != nil {
			if err := check(row.segment()); err != nil {
				return err
			}
		}
		// A journey or a launch that is being written, and names it, has locked the row.
		if err := s.lockRows(ctx, tx.NewSelect().Model((*segmentRow)(nil)).Where("id = ?", id), forDelete); err != nil {
			return err
		}
		user, err := s.segmentUser(ctx, tx, sc, rows, id)
		if err != nil {
			return err
		}
		if user != "" {
			return waypost.Errorf(waypost.CodeConflict, "id", "%s uses the segment", user)
		}
		if err := dropWatch(ctx, tx, id); err != nil { // of a publication that failed
			return err
		}
		if _, err := tx.NewDelete().Model(&row).WherePK().Exec(ctx); err != nil {
			return err
		}
		return s.audit.add(ctx, tx, author, "segment.delete", id, auditedSegment(row.segment()), nil)
	})
}

// segmentUser names what uses a segment; "" if nothing does.
func (s *segments) segmentUser(ctx context.Context, tx bun.Tx, sc waypost.Scope, rows []segmentRow, id string) (string, error) {
	for _, r := range rows {
		if r.ID != id && slices.Contains(segmentsIn(r.When), id) {
			return "segment " + r.ID, nil
		}
	}
	var keys []journeyKeyRow
	err := tx.NewSelect().Model(&keys).Where("org = ? AND stage = ? AND kind = ? AND value = ?", sc.Org, sc.Stage, keySegment, id).
		Order("journey_id").Limit(1).Scan(ctx)
	if err != nil {
		return "", fmt.Errorf("look for journeys: %w", err)
	}
	if len(keys) > 0 {
		return "journey " + keys[0].JourneyID, nil
	}
	// One that is done has read its audience, and one that is canceled reads no more.
	var launches []string
	err = tx.NewSelect().Model((*launchRow)(nil)).Column("id").
		Where("segment_id = ? AND done_at IS NULL AND NOT EXISTS (SELECT 1 FROM controls AS c WHERE c.target = la.id AND c.kind = 'cancel')", id).
		Order("id").Limit(1).Scan(ctx, &launches)
	if err != nil || len(launches) == 0 {
		return "", err
	}
	return "launch " + launches[0], nil
}

// missingSegments returns those of ids that the scope has no segment for. It locks, in a
// transaction, those that are there: none of them is deleted before it ends.
func (s *segments) missingSegments(ctx context.Context, db bun.IDB, sc waypost.Scope, ids []string) (_ []string, err error) {
	defer wrap(&err, "look for segments")
	q := db.NewSelect().Model((*segmentRow)(nil))
	if _, inTx := db.(bun.Tx); inTx {
		s.lockFor(q, forKey)
	}
	return missing(ctx, q, sc, ids)
}

// noAudience is the BadRequest of an audience whose segment the scope lacks.
func noAudience(id string) error {
	var p waypost.Problems
	p.Add(waypost.DetailInvalidFormat, "audience.segment", "there is no segment %s", clip(id))
	return p.Err("audience")
}

// hasSegment is noAudience if the scope lacks a segment; "" is none.
func (s *segments) hasSegment(ctx context.Context, tx bun.Tx, sc waypost.Scope, id string) error {
	if id == "" {
		return nil
	}
	missing, err := s.missingSegments(ctx, tx, sc, []string{id})
	if err == nil && len(missing) > 0 {
		err = noAudience(id)
	}
	return err
}

// MissingSegments returns those of ids that the scope has no segment for, sorted and without
// duplicates.
func (s *segments) MissingSegments(ctx context.Context, sc waypost.Scope, ids []string) ([]string, error) {
	return s.missingSegments(ctx, s.r, sc, ids)
}

// segmentsIn lists the ids of segments that a text holds, sorted.
func segmentsIn(text string) (ids []string) {
	for {
		_, rest, found := strings.Cut(text, waypost.PrefixSegment)
		if !found {
			return distinct(ids)
		}
		if end := segmentIDSize - len(waypost.PrefixSegment); len(rest) >= end && waypost.IsID(waypost.PrefixSegment, waypost.PrefixSegment+rest[:end]) {
			ids = append(ids, waypost.PrefixSegment+rest[:end])
		}
		text = rest
	}
}

// segmentIDSize is how long the id of a segment is.
const segmentIDSize = len(waypost.PrefixSegment) + 26
