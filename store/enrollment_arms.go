package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// splitArmRow is the first arm that an enrollment took at a split.
type splitArmRow struct {
	bun.BaseModel `bun:"table:split_arms,alias:sa"`

	EnrollmentID string `bun:"enrollment_id,pk"`
	NodeID       string `bun:"node_id,pk"`
	Visit        int    `bun:"visit"`
	Version      int    `bun:"version"`
	Arm          int    `bun:"arm"`
	Won          bool   `bun:"won"`
	Counts       bool   `bun:"counts"`
}

// winnerRow is a split that compares its arms.
type winnerRow struct {
	bun.BaseModel `bun:"table:winners,alias:wn"`

	JourneyID  string                `bun:"journey_id,pk"`
	Version    int                   `bun:"version,pk"`
	NodeID     string                `bun:"node_id,pk"`
	Status     waypost.ContestStatus `bun:"status"`
	BeganAt    stamp                 `bun:"began_at"`
	Looks      int                   `bun:"looks"`
	Converted  int                   `bun:"converted"`
	LookedAt   stamp                 `bun:"looked_at"`
	Arms       string                `bun:"arms"`
	Arm        *int64                `bun:"arm"`
	DecidedAt  stamp                 `bun:"decided_at"`
	ReversedAt stamp                 `bun:"reversed_at"`
}

func (r winnerRow) winner() (waypost.Winner, error) {
	w := waypost.Winner{
		JourneyID: r.JourneyID, Version: r.Version, NodeID: r.NodeID, Status: r.Status, BeganAt: r.BeganAt.Time, Looks: r.Looks,
		LookedAt: r.LookedAt.pointer(), DecidedAt: r.DecidedAt.pointer(), ReversedAt: r.ReversedAt.pointer(),
	}
	if r.Arm != nil {
		w.Arm = int(*r.Arm)
	}
	return w, fromJSON(r.Arms, &w.Arms)
}

// TakeArms has enrollments that are at a split take their arms, all in one transaction: that
// of the winner, if the split has one, which is decided here once it is time to. Calling again
// for a visit gives the same arm, if it is the enrollment's first one at the split, or if no
// winner has been decided meanwhile. What it counts is in waypost.NodeCounts.
func (s *Store) TakeArms(ctx context.Context, b waypost.ArmBatch) (taken map[waypost.Touchpoint]waypost.TakenArm, err error) {
	defer wrap(&err, "take arms of split %s", clip(b.NodeID))
	if len(b.Items) == 0 {
		return nil, nil
	}
	err = s.writeRows(ctx, len(b.Items), func(ctx context.Context, tx bun.Tx) error {
		taken, err = s.takeArms(ctx, tx, b)
		return err
	})
	return taken, err
}

func (s *Store) takeArms(ctx context.Context, tx bun.Tx, b waypost.ArmBatch) (map[waypost.Touchpoint]waypost.TakenArm, error) {
	// An event is accepted before, and has converted, or sees the arms.
	if err := s.shareLeads(ctx, tx, mapped(b.Items, func(c waypost.ArmChoice) int64 { return c.LeadsID })); err != nil {
		return nil, err
	}
	ids := mapped(b.Items, func(c waypost.ArmChoice) string { return c.EnrollmentID })
	var rows []enrollmentRow
	if err := tx.NewSelect().Model(&rows).Column("id", "goal_version", "created_at").Where("e.id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("read enrollments: %w", err)
	}
	enrollments := keyed(rows, enrollmentRow.id)
	converted, err := convertedBefore(ctx, tx, ids)
	if err != nil {
		return nil, err
	}
	var before []splitArmRow
	if err := tx.NewSelect().Model(&before).Where("enrollment_id IN (?) AND node_id = ?", bun.List(ids), b.NodeID).Scan(ctx); err != nil {
		return nil, fmt.Errorf("look for arms: %w", err)
	}
	first := keyed(before, func(r splitArmRow) string { return r.EnrollmentID })
	won, err := s.wonArm(ctx, tx, b)
	if err != nil {
		return nil, err
	}
	taken := make(map[waypost.Touchpoint]waypost.TakenArm, len(b.Items))
	var fresh []splitArmRow
	count := tallies{}
	for _, item := range b.Items {
		if row, again := first[item.EnrollmentID]; again && row.Visit == item.Visit {
			taken[item.Touchpoint] = waypost.TakenArm{Arm: row.Arm, Won: row.Won}
			continue
		}
		arm := waypost.TakenArm{Arm: item.Arm}
		if won >= 0 {
			arm = waypost.TakenArm{Arm: won, Won: true}
		}
		taken[item.Touchpoint] = arm
		e, known := enrollments[item.EnrollmentID]
		if _, again := first[item.EnrollmentID]; again || !known {
			continue
		}
		row := splitArmRow{
			EnrollmentID: e.ID, NodeID: b.NodeID, Visit: item.Visit, Version: b.Version, Arm: arm.Arm, Won: arm.Won,
			Counts: e.GoalVersion > 0 && !converted[e.ID],
		}
		first[e.ID] = row
		fresh = append(fresh, row)
		if row.Counts {
			count.of(b.JourneyID, b.Version).at(e.CreatedAt.Time).Node(b.NodeID).Arm(arm.Arm).Enrollments++
		}
	}
	if len(fresh) == 0 {
		return taken, nil
	}
	slices.SortFunc(fresh, compareArms)
	// Of two runs of an activity the second one fails, and finds what the first has stored.
	if _, err := tx.NewInsert().Model(&fresh).Exec(ctx); err != nil {
		return nil, fmt.Errorf("store arms: %w", err)
	}
	return taken, s.count(ctx, tx, count)
}

// wonArm returns the arm that takes everybody at a split, -1 if there is none. It compares the
// arms if it is time to.
func (s *Store) wonArm(ctx context.Context, tx bun.Tx, b waypost.ArmBatch) (int, error) {
	if b.Contest == nil {
		return -1, nil
	}
	row := winnerRow{JourneyID: b.JourneyID, Version: b.Version, NodeID: b.NodeID}
	err := tx.NewSelect().Model(&row).WherePK().Scan(ctx)
	now := stamp{s.time()}
	if errors.Is(err, sql.ErrNoRows) {
		row.Status, row.BeganAt, row.Arms = waypost.ContestOpen, now, "[]"
		_, err = tx.NewInsert().Model(&row).On("CONFLICT DO NOTHING").Exec(ctx)
		return -1, wrapped(err, "begin to compare arms")
	}
	if err != nil {
		return -1, fmt.Errorf("look for a winner: %w", err)
	}
	if row.Status == waypost.ContestDecided {
		return int(*row.Arm), nil
	}
	if row.Status != waypost.ContestOpen || b.Contest.Leads == 0 && now.Before(row.BeganAt.Add(b.Contest.After)) {
		return -1, nil
	}
	arms, err := s.armCounts(ctx, tx, b)
	if err != nil || !ripe(arms, *b.Contest, row.Converted) {
		return -1, err
	}
	// Of several that find it ripe, one decides.
	if err := s.lock(tx.NewSelect().Model(&row).WherePK(), "wn").Scan(ctx); err != nil {
		return -1, fmt.Errorf("lock the comparison of arms: %w", err)
	}
	if row.Status == waypost.ContestDecided {
		return int(*row.Arm), nil
	}
	if row.Status != waypost.ContestOpen || !ripe(arms, *b.Contest, row.Converted) {
		return -1, nil
	}
	row.Looks++
	row.LookedAt, row.Converted = now, 0
	for _, a := range arms {
		row.Converted += a.Converted
	}
	best := waypost.Best(arms, row.Looks)
	if best >= 0 {
		arm := int64(best)
		row.Status, row.Arm, row.DecidedAt = waypost.ContestDecided, &arm, now
	}
	if row.Arms, err = toJSON(arms); err != nil {
		return -1, err
	}
	if _, err := tx.NewUpdate().Model(&row).WherePK().Exec(ctx); err != nil {
		return -1, fmt.Errorf("store what comparing the arms came to: %w", err)
	}
	return best, nil
}

// ripe tells whether arms are to be compared: enough enrollments took them, there is enough
// data of each pair, and the conversions are twice as many as at the look before. When it is
// ripe depends on how many converted, and not on which arms they took, so it favours none.
func ripe(arms []waypost.GoalCounts, c waypost.Contest, before int) bool {
	enrollments, converted := 0, 0
	for i, a := range arms {
		enrollments, converted = enrollments+a.Enrollments, converted+a.Converted
		for _, other := range arms[:i] {
			if !a.Enough(other) {
				return false
			}
		}
	}
	return enrollments >= c.Leads && converted >= 2*before
}

// armCounts are the counts of a split's arms as the transaction sees them.
func (s *Store) armCounts(ctx context.Context, tx bun.Tx, b waypost.ArmBatch) ([]waypost.GoalCounts, error) {
	r := statisticsReader{query: waypost.StatisticsQuery{JourneyID: b.JourneyID, Version: b.Version}, total: map[int]*waypost.Counts{}}
	var rows []statisticRow
	err := tx.NewRaw(`SELECT span, version, counts FROM statistics WHERE journey_id = ?0 AND span = 'all' AND version = ?1
		UNION ALL SELECT '', version, counts FROM statistic_deltas WHERE journey_id = ?0 AND version = ?1`, b.JourneyID, b.Version).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("read the counts of arms: %w", err)
	}
	for _, row := range rows {
		if err := r.take(row); err != nil {
			return nil, err
		}
	}
	arms := make([]waypost.GoalCounts, b.Contest.Arms)
	node := countsOf(r.total, b.Version).Node(b.NodeID)
	for i := range arms {
		arms[i] = *node.Arm(i)
	}
	return arms, nil
}

// Winners returns the splits of a journey's versions that compare their arms and that
// somebody has come to, newest versions first.
func (s *Store) Winners(ctx context.Context, journeyID string) (_ []waypost.Winner, err error) {
	defer wrap(&err, "load the winners of journey %s", clip(journeyID))
	var rows []winnerRow
	if err := s.r.NewSelect().Model(&rows).Where("journey_id = ?", cleanText(journeyID)).OrderExpr("version DESC, node_id").Scan(ctx); err != nil {
		return nil, err
	}
	return decoded(rows, winnerRow.winner)
}

// ReverseWinner takes back that one arm of a split takes everybody: from then on all arms take
// leads, and in this version they are not compared again. NotFound if the scope has no such
// journey, or the split no winner; one that was taken back stays so.
func (s *Store) ReverseWinner(ctx context.Context, by waypost.Caller, journeyID string, version int, node string) (w waypost.Winner, err error) {
	defer wrap(&err, "reverse the winner of journey %s", clip(journeyID))
	sc, author := by.Within()
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		journey, err := s.lockJourney(ctx, tx, sc, journeyID)
		if err != nil {
			return err
		}
		row := winnerRow{JourneyID: journey.ID, Version: version, NodeID: cleanText(node)}
		err = s.lock(tx.NewSelect().Model(&row).WherePK(), "wn").Scan(ctx)
		if errors.Is(err, sql.ErrNoRows) || err == nil && row.Status == waypost.ContestOpen {
			return waypost.Errorf(waypost.CodeNotFound, "nodeId", "node %s of version %d has no winner", clip(node), version)
		}
		if err != nil {
			return err
		}
		if row.Status == waypost.ContestDecided {
			told := func() fields {
				return fields{"version": version, "nodeId": row.NodeID, "arm": *row.Arm + 1, "status": row.Status}
			}
			before := told()
			row.Status, row.ReversedAt = waypost.ContestReversed, stamp{s.time()}
			if _, err := tx.NewUpdate().Model(&row).Column("status", "reversed_at").WherePK().Exec(ctx); err != nil {
				return err
			}
			if err := s.audit(ctx, tx, author, "journey.reverseWinner", journey.ID, before, told()); err != nil {
				return err
			}
		}
		if w, err = row.winner(); err != nil {
			return err
		}
		return s.keep(ctx, tx, w)
	})
	return w, err
}
