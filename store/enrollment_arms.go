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

// splitArmRow is the first arm that an enrollment took at a split.
type splitArmRow struct {
	bun.BaseModel `bun:"table:split_arms,alias:sa"`

	EnrollmentID string `bun:"enrollment_id,pk"`
	NodeID       string `bun:"node_id,pk"`
	Visit        int    `bun:"visit"`
	Version      int    `bun:"version"`
	Arm          int    `bun:"arm"`
	At           stamp  `bun:"at"`
	Won          bool   `bun:"won"`
	Counts       bool   `bun:"counts"` // for the goal: it took the arm by its weight
}

// count counts so many times what the enrollment came to after it took the arm: before is when its
// lead entered before, and c when it converted, nil if it has not. Times are compared as timelines
// tell them, in milliseconds.
func (r splitArmRow) count(t *waypost.GoalTally, before stamp, c *conversionRow, times int) {
	if c != nil && c.At.Truncate(time.Millisecond).Before(r.At.Truncate(time.Millisecond)) {
		if before.IsZero() {
			t.Early += times
		}
		return
	}
	t.Enrollments += times
	sum := waypost.GoalSum{Leads: 1}
	if c != nil {
		sum.Converted, sum.Worth = 1, c.Worth
	}
	t.Of(before.Time).Add(sum, times)
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
func (s *enrollments) TakeArms(ctx context.Context, b waypost.ArmBatch) (taken map[waypost.Touchpoint]waypost.TakenArm, err error) {
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

// takeArms is TakeArms in a transaction. Of an enrollment only the arm of its first visit is stored and
// counted.
func (s *enrollments) takeArms(ctx context.Context, tx bun.Tx, b waypost.ArmBatch) (map[waypost.Touchpoint]waypost.TakenArm, error) {
	// An event is either accepted before, and its conversion is seen here, or its transaction sees the arms.
	if err := s.waits.shareLeads(ctx, tx, mapped(b.Items, func(c waypost.ArmChoice) int64 { return c.LeadsID })); err != nil {
		return nil, err
	}
	ids := mapped(b.Items, func(c waypost.ArmChoice) string { return c.EnrollmentID })
	var rows []enrollmentRow
	if err := tx.NewSelect().Model(&rows).Column("id", "goal_version", "created_at", "before_at").Where("e.id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("read enrollments: %w", err)
	}
	enrollments := keyed(rows, enrollmentRow.id)
	conversions, err := conversionsOf(ctx, tx, ids)
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
	var added []splitArmRow
	count := tallies{}
	for _, item := range b.Items {
		if row, again := first[item.EnrollmentID]; again && row.Visit == item.Visit {
			taken[item.Touchpoint] = waypost.TakenArm{Arm: row.Arm, Won: row.Won, At: row.At.Time}
			continue
		}
		arm := waypost.TakenArm{Arm: item.Arm, At: b.At}
		if won >= 0 {
			arm.Arm, arm.Won = won, true
		}
		taken[item.Touchpoint] = arm
		e, known := enrollments[item.EnrollmentID]
		if _, again := first[item.EnrollmentID]; again || !known {
			continue
		}
		row := splitArmRow{
			EnrollmentID: e.ID, NodeID: b.NodeID, Visit: item.Visit, Version: b.Version, Arm: arm.Arm, At: stamp{b.At}, Won: arm.Won,
			Counts: e.GoalVersion > 0 && !arm.Won,
		}
		first[e.ID] = row
		added = append(added, row)
		if row.Counts {
			row.count(count.of(b.JourneyID, b.Version).at(e.CreatedAt.Time).Node(b.NodeID).Arm(arm.Arm), e.BeforeAt, conversions[e.ID], 1)
		}
	}
	if len(added) == 0 {
		return taken, nil
	}
	slices.SortFunc(added, compareArms)
	// Of two runs of an activity the second one fails, and finds what the first has stored.
	if _, err := tx.NewInsert().Model(&added).Exec(ctx); err != nil {
		return nil, fmt.Errorf("store arms: %w", err)
	}
	return taken, s.statistics.count(ctx, tx, count)
}

// wonArm returns the arm that takes everybody at a split, -1 if there is none. It compares the
// arms if it is time to.
func (s *enrollments) wonArm(ctx context.Context, tx bun.Tx, b waypost.ArmBatch) (int, error) {
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
	arms, err := s.armCounts(ctx, tx, b, false)
	if err != nil || !ripe(arms, *b.Contest, row.Converted) || mismatched(arms, b.Weights) {
		return -1, err
	}
	// Of several that find it ripe, one decides.
	if err := s.lock(tx.NewSelect().Model(&row).WherePK(), "wn").Scan(ctx); err != nil {
		return -1, fmt.Errorf("lock the comparison of arms: %w", err)
	}
	if row.Status == waypost.ContestDecided {
		return int(*row.Arm), nil
	}
	if arms, err = s.armCounts(ctx, tx, b, true); err != nil || row.Status != waypost.ContestOpen || !ripe(arms, *b.Contest, row.Converted) {
		return -1, err
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

// ripe tells whether arms are to be compared: enough leads took them, there is enough
// data of each pair, and the conversions are twice as many as at the look before. When it is
// ripe depends on how many converted, and not on which arms they took, so it favours none.
func ripe(arms []waypost.GoalCounts, c waypost.Contest, before int) bool {
	leads, converted := 0, 0
	for i, a := range arms {
		leads, converted = leads+a.Leads, converted+a.Converted
		for _, other := range arms[:i] {
			if !a.Enough(other.GoalSum) {
				return false
			}
		}
	}
	return leads >= c.Leads && converted >= 2*before
}

// mismatched tells whether something else than chance gave the arms their leads: what they came to
// tells nothing then.
func mismatched(arms []waypost.GoalCounts, weights []int) bool {
	return len(arms) == len(weights) && waypost.SampleRatioOf(mapped(arms, func(a waypost.GoalCounts) int { return a.Leads }), weights).Mismatch
}

// armCounts are the counts of a split's arms as the transaction sees them.
func (s *enrollments) armCounts(ctx context.Context, tx bun.Tx, b waypost.ArmBatch, open bool) ([]waypost.GoalCounts, error) {
	st, err := s.statistics.statisticsIn(ctx, tx, waypost.StatisticsQuery{JourneyID: b.JourneyID, Version: b.Version}, open)
	if err != nil {
		return nil, fmt.Errorf("read the counts of arms: %w", err)
	}
	arms := make([]waypost.GoalCounts, b.Contest.Arms)
	node := countsOf(st.Versions, b.Version).Node(b.NodeID)
	for i := range arms {
		arms[i] = node.Arm(i).Since(time.Time{})
	}
	return arms, nil
}

// Winners returns the splits of a journey's versions that compare their arms and that
// somebody has come to, newest versions first.
func (s *enrollments) Winners(ctx context.Context, journeyID string) (_ []waypost.Winner, err error) {
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
func (s *enrollments) ReverseWinner(
	ctx context.Context, by waypost.Caller, journeyID string, version int, node string,
) (w waypost.Winner, err error) {
	defer wrap(&err, "reverse the winner of journey %s", clip(journeyID))
	sc, author := by.Within()
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		journey, err := s.journeys.lockJourney(ctx, tx, sc, journeyID)
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
			state := func() fields {
				return fields{"version": version, "nodeId": row.NodeID, "arm": *row.Arm + 1, "status": row.Status}
			}
			before := state()
			row.Status, row.ReversedAt = waypost.ContestReversed, stamp{s.time()}
			if _, err := tx.NewUpdate().Model(&row).Column("status", "reversed_at").WherePK().Exec(ctx); err != nil {
				return err
			}
			if err := s.audit.add(ctx, tx, author, "journey.reverseWinner", journey.ID, before, state()); err != nil {
				return err
			}
		}
		if w, err = row.winner(); err != nil {
			return err
		}
		return s.idempotency.keepResult(ctx, tx, w)
	})
	return w, err
}
