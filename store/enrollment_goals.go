package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// Goals decides what events come to for goals: it knows the language of definitions.
type Goals interface {
	// Converts tells whether an event, whose name is that of the goal of the version, reaches
	// it for an enrollment, and what it is worth.
	Converts(v waypost.JourneyVersion, e waypost.Enrollment, lead waypost.Lead, event waypost.Event) (yes bool, worth waypost.Amount, err error)
}

// SetGoals has g decide, from before the store is used.
func (s *entries) SetGoals(g Goals) { s.goals = g }

// versionRules is what entering a version depends on, and what counts for its enrollments.
type versionRules struct {
	journeyID    string
	version      int
	ControlGroup float64   `json:"controlGroup"`
	Goal         *goalRule `json:"goal"`
}

type goalRule struct {
	Event  string           `json:"event"`
	When   string           `json:"when"`
	Within waypost.Duration `json:"within"`
}

// sameCount tells whether the leads that an earlier version has counted need not be counted anew:
// the same events reach the goal, and there is a control group in both or in none.
func (r versionRules) sameCount(before versionRules) bool {
	return r.Goal != nil && before.Goal != nil && *r.Goal == *before.Goal && (r.ControlGroup > 0) == (before.ControlGroup > 0)
}

// rulesOf returns the rules of a version; of one that does not exist there are none.
func (s *entries) rulesOf(ctx context.Context, key versionKey) (versionRules, error) {
	if r, known := s.rules.Get(key); known {
		return r, nil
	}
	v, err := s.cohorts.versionOf(ctx, key)
	if errors.Is(err, sql.ErrNoRows) {
		return versionRules{journeyID: key.JourneyID, version: key.Version}, nil
	}
	if err != nil {
		return versionRules{}, err
	}
	return s.rulesIn(v)
}

// rulesIn returns the rules of a version that is at hand.
func (s *entries) rulesIn(v waypost.JourneyVersion) (versionRules, error) {
	key := versionKey{v.JourneyID, v.Version}
	if r, known := s.rules.Get(key); known {
		return r, nil
	}
	r := versionRules{journeyID: v.JourneyID, version: v.Version}
	if err := fromJSON(string(v.Definition), &r); err != nil {
		return r, fmt.Errorf("read the rules of journey %s: %w", v.JourneyID, err)
	}
	s.rules.Add(key, r)
	return r, nil
}

// holdsOut tells whether a lead is in the control group: that of the journey, or of a launch
// that holds out a share of its own. Of the two groups one is a part of the other.
func (r versionRules) holdsOut(leadsID int64, share float64) bool {
	share = r.share(share)
	return share > 0 && waypost.HeldOut(r.journeyID, leadsID, share)
}

// share is that of the control group: of two shares, the larger one.
func (r versionRules) share(share float64) float64 { return max(share, r.ControlGroup) }

// goalVersion is that of an enrollment that is made now.
func (r versionRules) goalVersion() int {
	if r.Goal == nil {
		return 0
	}
	return r.version
}

// assign says of an enrollment that is to be made whether it is held out, as holdsOut does, and
// whether it has a goal. Of a test lead neither is.
func (r versionRules) assign(row *enrollmentRow, share float64) {
	if row.Test {
		return
	}
	row.GoalVersion, row.share = r.goalVersion(), r.share(share)
	if r.holdsOut(row.LeadsID, share) {
		row.holdOut()
	}
}

// holdOut makes an enrollment one of the control group: nothing happens to it.
func (r *enrollmentRow) holdOut() {
	r.Status, r.EndedAt, r.ClaimedAt = string(waypost.EnrollmentHeldOut), r.CreatedAt, stamp{}
}

func (r enrollmentRow) heldOut() bool { return r.Status == string(waypost.EnrollmentHeldOut) }

// goalOf is where an enrollment counts for the goal.
func (r enrollmentRow) goalOf(c *waypost.Counts) *waypost.GoalTally {
	if r.heldOut() {
		return &c.Control
	}
	return &c.Goal
}

// countLead counts what an enrollment with a goal has brought its lead to.
func (r enrollmentRow) countLead(c *waypost.Counts, sum waypost.GoalSum) {
	r.goalOf(c).Of(r.BeforeAt.Time).Add(sum, 1)
	if !r.BeforeAt.IsZero() || r.share <= 0 {
		return
	}
	sum.Worth = 0
	if of := c.Share(r.share); r.heldOut() {
		of.Control.Add(sum, 1)
	} else {
		of.Journey.Add(sum, 1)
	}
}

// countedBefore tells when leads that are to enter a version with a goal have entered the journey
// before, as far as its goal has counted that. The leads are locked.
func (s *entries) countedBefore(ctx context.Context, tx bun.Tx, key versionKey, leads []int64) (map[int64]stamp, error) {
	var rows []struct {
		LeadsID int64 `bun:"leads_id"`
		At      stamp `bun:"at"`
	}
	err := tx.NewSelect().TableExpr("journey_entries AS je").Column("je.leads_id").ColumnExpr("MAX(je.last_entry_at) AS at").
		Join("JOIN journey_goals AS g ON g.journey_id = je.journey_id AND g.version = ? AND je.goal_version >= g.since_version", key.Version).
		Where("je.journey_id = ? AND je.leads_id IN (?)", key.JourneyID, bun.List(leads)).Group("je.leads_id").Scan(ctx, &rows)
	before := make(map[int64]stamp, len(rows))
	for _, row := range rows {
		before[row.LeadsID] = row.At
	}
	return before, wrapped(err, "look for entries before")
}

// journeyGoalRow says which events can reach the goal of a version.
type journeyGoalRow struct {
	bun.BaseModel `bun:"table:journey_goals,alias:g"`

	JourneyID string `bun:"journey_id,pk"`
	Version   int    `bun:"version,pk"`
	waypost.Scope
	Event    string `bun:"event"`
	WithinMs int64  `bun:"within_ms"`
	// SinceVersion is the first of the versions that leads are counted in together.
	SinceVersion int `bun:"since_version"`
}

// addGoal stores which events can reach the goal of a version, if it has one.
func addGoal(ctx context.Context, tx bun.Tx, sc waypost.Scope, v versionRow) error {
	var rules versionRules
	if err := fromJSON(v.Definition, &rules); err != nil || rules.Goal == nil {
		return err
	}
	within := time.Duration(cmp.Or(rules.Goal.Within, waypost.Duration(waypost.DefaultWithin)))
	row := journeyGoalRow{JourneyID: v.JourneyID, Version: v.Version, Scope: sc, Event: rules.Goal.Event, WithinMs: within.Milliseconds(), SinceVersion: v.Version}
	var before []struct {
		Definition   string `bun:"definition"`
		SinceVersion int    `bun:"since_version"`
	}
	err := tx.NewSelect().TableExpr("journey_versions AS v").Column("v.definition", "g.since_version").
		Join("JOIN journey_goals AS g ON g.journey_id = v.journey_id AND g.version = v.version").
		Where("v.journey_id = ? AND v.version = ?", v.JourneyID, v.Version-1).Scan(ctx, &before)
	if err != nil {
		return err
	}
	for _, b := range before {
		var earlier versionRules
		if err := fromJSON(b.Definition, &earlier); err != nil {
			return err
		}
		if rules.sameCount(earlier) {
			row.SinceVersion = b.SinceVersion
		}
	}
	_, err = tx.NewInsert().Model(&row).Exec(ctx)
	return err
}

// conversionRow is an enrollment that reached its goal.
type conversionRow struct {
	bun.BaseModel `bun:"table:conversions,alias:cv"`

	EnrollmentID string         `bun:"enrollment_id,pk"`
	EventID      string         `bun:"event_id"`
	At           stamp          `bun:"at"`
	Worth        waypost.Amount `bun:"worth"`
}

// candidateRow is an enrollment that an event of this name may bring to its goal.
type candidateRow struct {
	enrollmentRow `bun:",extend"`
	GoalEvent     string `bun:"goal_event"`
	WithinMs      int64  `bun:"within_ms"`
	// LaunchShare is the control group of its launch, 0 without one.
	LaunchShare float64 `bun:"launch_share"`
}

// until is the last moment at which an event reaches the goal.
func (c candidateRow) until() time.Time {
	return c.CreatedAt.Add(time.Duration(c.WithinMs) * time.Millisecond)
}

// convert counts the events that reach the goals of their leads' enrollments, whether those
// have ended or not: each enrollment converts by the one that occurred first, in whatever order
// they come, and all are worth something.
// The leads are locked, so of two events the second one finds what the first has done.
func (s *entries) convert(ctx context.Context, tx bun.Tx, sc waypost.Scope, events []eventRow) error {
	candidates, err := s.candidates(ctx, tx, sc, events)
	if err != nil || len(candidates) == 0 {
		return err
	}
	leads, err := leadsIn(ctx, tx, mapped(candidates, func(c candidateRow) int64 { return c.LeadsID }))
	if err != nil {
		return err
	}
	found, firsts := map[string]*conversionRow{}, map[string]eventRow{}
	for _, event := range events {
		for _, c := range candidates {
			if c.LeadsID != event.LeadsID || c.GoalEvent != event.Name || !event.since(c.CreatedAt.Time) || event.OccurredAt.After(c.until()) {
				continue
			}
			yes, worth, err := s.judged(ctx, tx, c.enrollmentRow, leads[c.LeadsID], event)
			if err != nil {
				return err
			}
			if !yes {
				continue
			}
			if found[c.ID] == nil {
				found[c.ID] = &conversionRow{EnrollmentID: c.ID}
			}
			conversion := found[c.ID]
			if first, known := firsts[c.ID]; !known || event.before(first) {
				firsts[c.ID], conversion.EventID, conversion.At = event, event.EventID, event.OccurredAt
			}
			conversion.Worth += worth
		}
	}
	if len(found) == 0 {
		return nil
	}
	return s.storeConversions(ctx, tx, found, keyed(candidates, func(c candidateRow) string { return c.ID }))
}

// candidates finds the enrollments that events may bring to their goal. Where no goal has the
// name of one, that costs a look into an index.
func (s *entries) candidates(ctx context.Context, tx bun.Tx, sc waypost.Scope, events []eventRow) ([]candidateRow, error) {
	var names []struct {
		Event    string `bun:"event"`
		WithinMs int64  `bun:"within_ms"`
	}
	err := tx.NewSelect().Model((*journeyGoalRow)(nil)).Column("event").ColumnExpr("MAX(within_ms) AS within_ms").
		Where("org = ? AND stage = ? AND event IN (?)", sc.Org, sc.Stage, bun.List(distinct(mapped(events, nameOfEvent)))).
		Group("event").Scan(ctx, &names)
	if err != nil || len(names) == 0 {
		return nil, wrapped(err, "look for goals")
	}
	longest := map[string]int64{}
	for _, n := range names {
		longest[n.Event] = n.WithinMs
	}
	var leads []int64
	var most int64
	for _, e := range events {
		if within, goal := longest[e.Name]; goal {
			leads, most = append(leads, e.LeadsID), max(most, within)
		}
	}
	var rows []candidateRow
	oldest := slices.MinFunc(events, func(a, b eventRow) int { return a.OccurredAt.Compare(b.OccurredAt.Time) })
	since := oldest.OccurredAt.Add(-time.Duration(most) * time.Millisecond)
	err = tx.NewSelect().Model(&rows).Column("e.id", "e.journey_id", "e.version", "e.leads_id", "e.entry_key", "e.params", "e.event", "e.status", "e.goal_version", "e.created_at", "e.before_at").
		ColumnExpr("COALESCE(la.control_group, 0.0) AS launch_share").Join("LEFT JOIN launches AS la ON la.id = e.launch_id").
		ColumnExpr("g.event AS goal_event").Column("g.within_ms").Join("JOIN journey_goals AS g ON g.journey_id = e.journey_id AND g.version = e.goal_version").
		Where("e.leads_id IN (?) AND e.created_at >= ?", bun.List(distinct(leads)), stamp{since}).
		Where("g.event IN (?)", bun.List(slices.Sorted(maps.Keys(longest)))).Order("e.id").Scan(ctx)
	return rows, wrapped(err, "look for enrollments with goals")
}

// wrapped says what was tried, if that failed.
func wrapped(err error, what string) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (s *entries) judged(
	ctx context.Context, tx bun.Tx, row enrollmentRow, lead waypost.Lead, event eventRow,
) (yes bool, worth waypost.Amount, err error) {
	if s.goals == nil {
		return false, 0, errors.New("nobody decides what reaches a goal")
	}
	v, err := s.cohorts.versionIn(ctx, tx, versionKey{row.JourneyID, row.GoalVersion})
	if err != nil {
		return false, 0, err
	}
	e, err := s.withEvent(row)
	if errors.Is(err, waypost.ErrDecrypt) { // without its key it is as one that was erased
		e, err = row.enrollment()
	}
	if err != nil {
		return false, 0, err
	}
	reached, err := event.event()
	if err != nil {
		return false, 0, err
	}
	return s.goals.Converts(v, e, lead, reached)
}

var insertConversion = bulk{
	table:   "conversions AS cv",
	columns: []string{"enrollment_id text", "event_id text", "at bigint", "worth bigint"},
	suffix: `ON CONFLICT (enrollment_id) DO UPDATE SET worth = cv.worth + EXCLUDED.worth,
		at = CASE WHEN (EXCLUDED.at, EXCLUDED.event_id) < (cv.at, cv.event_id) THEN EXCLUDED.at ELSE cv.at END,
		event_id = CASE WHEN (EXCLUDED.at, EXCLUDED.event_id) < (cv.at, cv.event_id) THEN EXCLUDED.event_id ELSE cv.event_id END`,
}

// storeConversions stores and counts what events came to for enrollments.
func (s *entries) storeConversions(
	ctx context.Context, tx bun.Tx, found map[string]*conversionRow, enrollments map[string]candidateRow,
) error {
	ids := slices.Sorted(maps.Keys(found))
	before, err := conversionsOf(ctx, tx, ids)
	if err != nil {
		return err
	}
	var arms []splitArmRow
	if err := tx.NewSelect().Model(&arms).Where("enrollment_id IN (?) AND counts", bun.List(ids)).Scan(ctx); err != nil {
		return fmt.Errorf("look for arms: %w", err)
	}
	count := tallies{}
	for _, id := range ids {
		e := enrollments[id].enrollmentRow
		v, err := s.cohorts.versionIn(ctx, tx, versionKey{e.JourneyID, e.GoalVersion})
		if err != nil {
			return err
		}
		rules, err := s.rulesIn(v)
		if err != nil {
			return err
		}
		e.share = rules.share(enrollments[id].LaunchShare)
		sum := waypost.GoalSum{Worth: found[id].Worth}
		if before[id] == nil {
			sum.Converted = 1
		}
		e.countLead(count.of(e.JourneyID, e.GoalVersion).at(e.CreatedAt.Time), sum)
	}
	for _, a := range arms {
		e := enrollments[a.EnrollmentID]
		t := count.of(e.JourneyID, a.Version).at(e.CreatedAt.Time).Node(a.NodeID).Arm(a.Arm)
		a.count(t, e.BeforeAt, before[a.EnrollmentID], -1)
		a.count(t, e.BeforeAt, before[a.EnrollmentID].and(found[a.EnrollmentID]), 1)
	}
	err = insertConversion.run(ctx, s.db, tx, len(ids), func(i int) []any {
		c := found[ids[i]]
		return []any{c.EnrollmentID, c.EventID, c.At, int64(c.Worth)}
	}, nil)
	if err != nil {
		return fmt.Errorf("store conversions: %w", err)
	}
	return s.statistics.count(ctx, tx, count)
}

// and is the conversion with what other events came to. It is at the earlier time of both.
func (c *conversionRow) and(other *conversionRow) *conversionRow {
	if c == nil {
		return other
	}
	both := *other
	if c.At.Before(both.At.Time) {
		both.At = c.At
	}
	both.Worth += c.Worth
	return &both
}

// conversionsOf reads the conversions of enrollments that have reached their goal.
func conversionsOf(ctx context.Context, tx bun.Tx, ids []string) (map[string]*conversionRow, error) {
	var rows []*conversionRow
	if err := tx.NewSelect().Model(&rows).Where("enrollment_id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("look for conversions: %w", err)
	}
	return keyed(rows, func(c *conversionRow) string { return c.EnrollmentID }), nil
}

// Conversions returns which of the enrollments have reached their goal, and what that is worth.
func (s *entries) Conversions(ctx context.Context, enrollmentIDs []string) (_ map[string]waypost.Conversion, err error) {
	defer wrap(&err, "load conversions")
	rows, err := rowsByID[conversionRow](ctx, s.db, "enrollment_id", enrollmentIDs)
	found := make(map[string]waypost.Conversion, len(rows))
	for _, row := range rows {
		found[row.EnrollmentID] = waypost.Conversion{EventID: row.EventID, At: row.At.Time, Worth: row.Worth}
	}
	return found, err
}

// compareArms orders rows of split_arms as their key does.
func compareArms(a, b splitArmRow) int {
	return cmp.Or(cmp.Compare(a.EnrollmentID, b.EnrollmentID), cmp.Compare(a.NodeID, b.NodeID))
}
