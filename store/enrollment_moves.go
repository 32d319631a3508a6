package store

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// moveRow is what moving an enrollment to another version depends on.
type moveRow struct {
	bun.BaseModel `bun:"table:enrollments,alias:e"`

	ID       string  `bun:"id"`
	Version  int     `bun:"version"`
	Status   string  `bun:"status"`
	NodeID   string  `bun:"node_id"`
	LastSeq  int     `bun:"last_seq"`
	EndedAt  stamp   `bun:"ended_at"`
	Test     bool    `bun:"test"`
	CohortID *string `bun:"cohort_id"`
	Move     *string `bun:"move"`
}

func (r moveRow) move() (m waypost.Move, err error) { return m, fromJSON(text(r.Move), &m) }

// moveStep is how many enrollments one transaction orders to move.
const moveStep = 500

// MigrateEnrollments orders the enrollments of a migration to move, and tells their
// workflows, which then call LetGo; a dry run only counts them. It goes step
// by step, each a transaction: if it was cut off, another call orders all that still wait.
// Both versions exist and have the nodes; NotFound if the scope has no such journey.
func (s *enrollments) MigrateEnrollments(
	ctx context.Context, by waypost.Caller, m waypost.Migration, dryRun bool,
) (done waypost.Migrated, err error) {
	defer wrap(&err, "migrate journey %s", clip(m.JourneyID))
	sc, author := by.Within()
	if _, err := s.journeys.journeyRow(ctx, sc, m.JourneyID); err != nil {
		return done, err
	}
	if dryRun {
		done.Matched, err = s.countMovable(ctx, m)
		return done, err
	}
	return s.orderMoves(ctx, author, m)
}

// orderMoves orders the enrollments of m to its new version, moveStep in a transaction, so that locks are
// short. After an error done says how many were ordered; those stay ordered.
func (s *enrollments) orderMoves(ctx context.Context, by *waypost.Author, m waypost.Migration) (done waypost.Migrated, err error) {
	entry, err := s.audit.newAudit(by, "journey.migrate", m.JourneyID, nil, nil)
	if err != nil {
		return done, err
	}
	ids, err := s.listMovable(ctx, m)
	if err != nil {
		return done, err
	}
	done.Matched = len(ids)
	for {
		step := ids[:min(moveStep, len(ids))]
		ids = ids[len(step):]
		var after waypost.Migrated
		err := s.writeRows(ctx, len(step), func(ctx context.Context, tx bun.Tx) error {
			ordered, err := s.orderStep(ctx, tx, m, step)
			if err != nil {
				return err
			}
			after = waypost.Migrated{Matched: done.Matched, Moved: done.Moved + ordered}
			if after.Moved > 0 {
				change := fields{"from": m.From, "to": m.To, "matched": after.Matched, "moved": after.Moved}
				if err := entry.update(ctx, tx, change); err != nil {
					return err
				}
			}
			if len(ids) > 0 {
				return nil
			}
			return s.idempotency.keepResult(ctx, tx, after)
		})
		if err != nil {
			return done, err
		}
		if done = after; len(ids) == 0 {
			return done, nil
		}
	}
}

// waiting leaves the enrollments (alias e) that a migration is about.
func waiting(q *bun.SelectQuery, m waypost.Migration) *bun.SelectQuery {
	return q.Where("e.journey_id = ? AND e.version = ? AND e.status = ? AND e.ended_at IS NULL", m.JourneyID, m.From, waypost.EnrollmentWaiting).
		Where("e.node_id IN (?)", bun.List(slices.Sorted(maps.Keys(m.Nodes))))
}

// movable are the queries for the enrollments of a migration: those without a launch and those
// of launches. They go by indexes that serve others: one of where enrollments wait would
// cost each step of each journey a write. A million of them take a second or two.
func (s *enrollments) movable(m waypost.Migration) []*bun.SelectQuery {
	single := s.r.NewSelect().TableExpr("enrollments AS e").Where("e.launch_id IS NULL")
	// SQLite joins in the order in which a CROSS JOIN is written.
	launched := s.r.NewSelect().TableExpr("launches AS l CROSS JOIN enrollments AS e").Where("l.journey_id = ? AND e.launch_id = l.id", m.JourneyID)
	return []*bun.SelectQuery{waiting(single, m), waiting(launched, m)}
}

func (s *enrollments) countMovable(ctx context.Context, m waypost.Migration) (n int, err error) {
	for _, q := range s.movable(m) {
		found, err := q.Count(ctx)
		if err != nil {
			return 0, fmt.Errorf("count enrollments that wait: %w", err)
		}
		n += int(found)
	}
	return n, nil
}

// listMovable lists the enrollments of a migration, in the order of their ids.
func (s *enrollments) listMovable(ctx context.Context, m waypost.Migration) (all []string, err error) {
	for _, q := range s.movable(m) {
		var ids []string
		if err := q.ColumnExpr("e.id").Scan(ctx, &ids); err != nil {
			return nil, fmt.Errorf("look for enrollments that wait: %w", err)
		}
		all = append(all, ids...)
	}
	slices.Sort(all)
	return all, nil
}

// orderStep orders those of the enrollments to move that still wait. Their workflows
// are told.
func (s *enrollments) orderStep(ctx context.Context, tx bun.Tx, m waypost.Migration, ids []string) (ordered int, err error) {
	if len(ids) == 0 {
		return 0, nil
	}
	var rows []enrollmentRow
	q := waiting(tx.NewSelect().Model(&rows).Column("id", "node_id", "cohort_id"), m).Where("e.id IN (?)", bun.List(ids)).Order("e.id")
	if err := s.lock(q, "e").Scan(ctx); err != nil {
		return 0, err
	}
	byNode := map[string][]string{}
	for _, row := range rows {
		byNode[row.NodeID] = append(byNode[row.NodeID], row.ID)
	}
	for node, ids := range byNode {
		order, err := toJSON(waypost.Move{To: m.To, Node: m.Nodes[node]})
		if err != nil {
			return 0, err
		}
		if _, err := tx.NewUpdate().Model((*enrollmentRow)(nil)).Set("move = ?", order).Where("id IN (?)", bun.List(ids)).Exec(ctx); err != nil {
			return 0, err
		}
	}
	return len(rows), s.notices.notify(ctx, tx, noticesOf(rows, false), true)
}

// Moves returns where enrollments of a version are ordered to go on, by their ids. seqs
// says how far each of them got: an order for where it stood before does not count. Of
// one that is in another version already it returns the zero Move.
func (s *enrollments) Moves(ctx context.Context, version int, seqs map[string]int) (moves map[string]waypost.Move, err error) {
	defer wrap(&err, "look for moves")
	moves = map[string]waypost.Move{}
	if len(seqs) == 0 {
		return moves, nil
	}
	var rows []moveRow
	err = s.r.NewSelect().Model(&rows).Where("e.id IN (?)", bun.List(slices.Sorted(maps.Keys(seqs)))).
		Where("(e.move IS NOT NULL OR e.version <> ?)", version).Scan(ctx)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		if row.Version != version {
			moves[row.ID] = waypost.Move{}
		} else if row.LastSeq == seqs[row.ID] {
			if moves[row.ID], err = row.move(); err != nil {
				return nil, err
			}
		}
	}
	return moves, nil
}

// LetGo takes enrollments out of their workflow, all in one transaction, where the order
// to move is still the given one: it gives them their new version, forgets their open
// waits for events, and makes cohorts of them that wait to be claimed. It returns those
// that have left, now or by an earlier call. Others stay: an enrollment that has ended,
// that another order is for, or that an event has come for which its workflow has not
// looked at.
func (s *enrollments) LetGo(ctx context.Context, b waypost.LeavingBatch) (left map[string]bool, err error) {
	defer wrap(&err, "let %d enrollments go", len(b.Items))
	if len(b.Items) == 0 {
		return nil, nil
	}
	err = s.writeRows(ctx, len(b.Items), func(ctx context.Context, tx bun.Tx) error {
		left, err = s.letGo(ctx, tx, b)
		return err
	})
	return left, err
}

// letGo carries out orders to another version where the workflow stands at the entry that the store has
// recorded last. It returns the enrollments that the workflow has to leave; events that it has not seen
// keep an enrollment where it is.
func (s *enrollments) letGo(ctx context.Context, tx bun.Tx, b waypost.LeavingBatch) (map[string]bool, error) {
	leads := mapped(b.Items, func(item waypost.Leaving) int64 { return item.LeadsID })
	ids := mapped(b.Items, enrollmentOfLeaving)
	exits := map[int]bool{} // by the new version
	for _, item := range b.Items {
		if item.Move.To > 0 {
			exits[item.Move.To] = false
		}
	}
	// No event is accepted meanwhile: it comes before, and is seen below, or finds the
	// enrollments in their new version.
	if err := s.waits.shareLeads(ctx, tx, leads); err != nil {
		return nil, err
	}
	for version := range exits {
		var err error
		if exits[version], err = s.exits.ofVersion(ctx, tx, b.JourneyID, version, false, leads); err != nil {
			return nil, err
		}
	}
	var rows []moveRow
	if err := s.lock(tx.NewSelect().Model(&rows).Where("e.id IN (?)", bun.List(ids)).Order("e.id"), "e").Scan(ctx); err != nil {
		return nil, err
	}
	byID := keyed(rows, func(r moveRow) string { return r.ID })
	left := map[string]bool{}
	var going []waypost.Leaving
	for _, item := range b.Items {
		row, known := byID[item.EnrollmentID]
		if !known {
			continue
		}
		if row.Version != b.Version || row.LastSeq > item.Seq {
			left[row.ID] = true
			continue
		}
		order, err := row.move()
		if err != nil {
			return nil, err
		}
		if row.Move != nil && order == item.Move && row.LastSeq == item.Seq && row.EndedAt.IsZero() {
			going = append(going, item)
		}
	}
	going, err := s.unseenStay(ctx, tx, going)
	if err != nil {
		return nil, err
	}
	groups := map[int][]waypost.Leaving{}
	cohorts := map[string]int{}
	count := tallies{}
	for _, item := range going {
		row := byID[item.EnrollmentID]
		// In its new version it stands somewhere from its first entry on. No deferral waits.
		count.stand(enrollmentState{JourneyID: b.JourneyID, Version: row.Version, Status: waypost.EnrollmentStatus(row.Status), NodeID: row.NodeID, Test: row.Test}, s.time(), -1)
		left[item.EnrollmentID] = true
		cohorts[text(row.CohortID)]++
		groups[item.Move.To] = append(groups[item.Move.To], item)
	}
	for version, items := range groups {
		if err := s.goOn(ctx, tx, b, version, exits[version], items); err != nil {
			return nil, err
		}
	}
	if err := s.statistics.count(ctx, tx, count); err != nil {
		return nil, err
	}
	return left, s.cohorts.leaveCohorts(ctx, tx, cohorts)
}

func enrollmentOfLeaving(item waypost.Leaving) string { return item.EnrollmentID }

// unseenStay leaves out an enrollment that waits for an event if one has come that its
// workflow has not looked at: the workflow has been told, or will be when a pause ends.
func (s *enrollments) unseenStay(ctx context.Context, tx bun.Tx, items []waypost.Leaving) ([]waypost.Leaving, error) {
	var waits []waypost.Wait
	var keys []waypost.Touchpoint
	for _, item := range items {
		if item.Wait != nil {
			wait := *item.Wait
			wait.Until = endOfTime // it is for the workflow to say that one came too late
			waits, keys = append(waits, wait), append(keys, wait.Touchpoint)
		}
	}
	if len(waits) == 0 {
		return items, nil
	}
	rows, err := s.waits.waitsOf(ctx, tx, keys, true)
	if err != nil {
		return nil, err
	}
	events, err := unseen(ctx, tx, waits, rows)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(items, func(item waypost.Leaving) bool {
		return item.Wait != nil && (rows[item.Wait.Touchpoint].Closed || len(events[item.Wait.Touchpoint]) > 0)
	}), nil
}

// endOfTime is later than any time in the database.
var endOfTime = time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)

// goOn puts enrollments of one workflow into a cohort of another version. It has an id
// of its own, even for a single enrollment, whose workflow has the enrollment's.
func (s *enrollments) goOn(ctx context.Context, tx bun.Tx, b waypost.LeavingBatch, version int, exits bool, items []waypost.Leaving) error {
	now := s.time()
	ids := mapped(items, enrollmentOfLeaving)
	packed, err := toJSON(mapped(items, func(item waypost.Leaving) waypost.CohortMember {
		return waypost.CohortMember{EnrollmentID: item.EnrollmentID, LeadsID: item.LeadsID, Carried: json.RawMessage(item.Carried)}
	}))
	if err != nil {
		return err
	}
	c := cohortRow{
		ID: waypost.NewID(waypost.PrefixCohort, now), JourneyID: b.JourneyID, Version: version,
		LaunchID: nullable(b.LaunchID), AcceptedAt: stamp{now}, Size: len(items), Members: &packed,
	}
	if _, err := tx.NewInsert().Model(&c).Exec(ctx); err != nil {
		return err
	}
	_, err = tx.NewUpdate().Model((*enrollmentRow)(nil)).Set("version = ?, exits = ?, cohort_id = ?, status = ?, move = NULL", version, exits, c.ID, waypost.EnrollmentPending).
		Where("id IN (?)", bun.List(ids)).Exec(ctx)
	if err != nil {
		return err
	}
	return s.waits.dropWaits(ctx, tx, ids)
}
