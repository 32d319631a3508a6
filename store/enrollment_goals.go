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
func (s *Store) SetGoals(g Goals) { s.goals = g }

// versionRules is what entering a version depends on, and what counts for its enrollments.
type versionRules struct {
	journeyID    string
	version      int
	ControlGroup float64 `json:"controlGroup"`
	Goal         *struct {
		Event  string           `json:"event"`
		Within waypost.Duration `json:"within"`
	} `json:"goal"`
}

// rulesOf returns the rules of a version; of one that does not exist there are none.
func (s *Store) rulesOf(ctx context.Context, key versionKey) (versionRules, error) {
	if r, known := s.rules.Get(key); known {
		return r, nil
	}
	v, err := s.versionOf(ctx, key)
	if errors.Is(err, sql.ErrNoRows) {
		return versionRules{journeyID: key.JourneyID, version: key.Version}, nil
	}
	if err != nil {
		return versionRules{}, err
	}
	return s.rulesIn(v)
}

// rulesIn returns the rules of a version that is at hand.
func (s *Store) rulesIn(v waypost.JourneyVersion) (versionRules, error) {
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
	share = max(share, r.ControlGroup)
	return share > 0 && waypost.HeldOut(r.journeyID, leadsID, share)
}

// goalVersion is that of an enrollment that is made now.
func (r versionRules) goalVersion() int {
	if r.Goal == nil {
		return 0
	}
	return r.version
}

// settle says of an enrollment that is to be made whether it is held out, as holdsOut does, and
// whether it has a goal. Of a test lead neither is.
func (r versionRules) settle(row *enrollmentRow, share float64) {
	if row.Test {
		return
	}
	row.GoalVersion = r.goalVersion()
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
func (r enrollmentRow) goalOf(c *waypost.Counts) *waypost.GoalCounts {
	if r.heldOut() {
		return &c.Control
	}
	return &c.Goal
}

// journeyGoalRow says which events can reach the goal of a version.
type journeyGoalRow struct {
	bun.BaseModel `bun:"table:journey_goals,alias:g"`

	JourneyID string `bun:"journey_id,pk"`
	Version   int    `bun:"version,pk"`
	waypost.Scope
	Event    string `bun:"event"`
	WithinMs int64  `bun:"within_ms"`
}

// addGoal stores which events can reach the goal of a version, if it has one.
func addGoal(ctx context.Context, tx bun.Tx, sc waypost.Scope, v versionRow) error {
	var rules versionRules
	if err := fromJSON(v.Definition, &rules); err != nil || rules.Goal == nil {
		return err
	}
	within := time.Duration(cmp.Or(rules.Goal.Within, waypost.Duration(waypost.DefaultWithin)))
	row := journeyGoalRow{JourneyID: v.JourneyID, Version: v.Version, Scope: sc, Event: rules.Goal.Event, WithinMs: within.Milliseconds()}
	_, err := tx.NewInsert().Model(&row).Exec(ctx)
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
}

// until is the last moment at which an event reaches the goal.
func (c candidateRow) until() time.Time {
	return c.CreatedAt.Add(time.Duration(c.WithinMs) * time.Millisecond)
}

// convert counts the events that reach the goals of their leads' enrollments, whether those
// have ended or not: each enrollment converts by the first one, and all are worth something.
// The leads are locked, so of two events the second one finds what the first has done.
func (s *Store) convert(ctx context.Context, tx bun.Tx, sc waypost.Scope, events []eventRow) error {
	candidates, err := s.candidates(ctx, tx, sc, events)
	if err != nil || len(candidates) == 0 {
		return err
	}
	leads, err := leadsIn(ctx, tx, mapped(candidates, func(c candidateRow) int64 { return c.LeadsID }))
	if err != nil {
		return err
	}
	found := map[string]*conversionRow{}
	for _, event := range events {
		for _, c := range candidates {
			if c.LeadsID != event.LeadsID || c.GoalEvent != event.Name || event.AcceptedAt.After(c.until()) {
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
				found[c.ID] = &conversionRow{EnrollmentID: c.ID, EventID: event.EventID, At: event.AcceptedAt}
			}
			found[c.ID].Worth += worth
		}
	}
	if len(found) == 0 {
		return nil
	}
	return s.storeConversions(ctx, tx, found, keyed(candidates, func(c candidateRow) string { return c.ID }))
}

// candidates finds the enrollments that events may bring to their goal. Where no goal has the
// name of one, that costs a look into an index.
func (s *Store) candidates(ctx context.Context, tx bun.Tx, sc waypost.Scope, events []eventRow) ([]candidateRow, error) {
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
	since := events[0].AcceptedAt.Add(-time.Duration(most) * time.Millisecond)
	err = tx.NewSelect().Model(&rows).Column("e.id", "e.journey_id", "e.version", "e.leads_id", "e.entry_key", "e.params", "e.event", "e.status", "e.goal_version", "e.created_at").
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

func (s *Store) judged(ctx context.Context, tx bun.Tx, row enrollmentRow, lead waypost.Lead, event eventRow) (yes bool, worth waypost.Amount, err error) {
	if s.goals == nil {
		return false, 0, errors.New("nobody decides what reaches a goal")
	}
	v, err := s.versionIn(ctx, tx, versionKey{row.JourneyID, row.GoalVersion})
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
	told, err := event.event()
	if err != nil {
		return false, 0, err
	}
	return s.goals.Converts(v, e, lead, told)
}

var insertConversion = bulk{
	table:   "conversions AS cv",
	columns: []string{"enrollment_id text", "event_id text", "at bigint", "worth bigint"},
	suffix:  "ON CONFLICT (enrollment_id) DO UPDATE SET worth = cv.worth + EXCLUDED.worth",
}

// storeConversions stores and counts what events came to for enrollments.
func (s *Store) storeConversions(ctx context.Context, tx bun.Tx, found map[string]*conversionRow, enrollments map[string]candidateRow) error {
	ids := slices.Sorted(maps.Keys(found))
	before, err := convertedBefore(ctx, tx, ids)
	if err != nil {
		return err
	}
	var arms []splitArmRow
	if err := tx.NewSelect().Model(&arms).Where("enrollment_id IN (?) AND counts", bun.List(ids)).Scan(ctx); err != nil {
		return fmt.Errorf("look for arms: %w", err)
	}
	count := tallies{}
	add := func(to *waypost.GoalCounts, id string) {
		to.Worth += found[id].Worth
		if !before[id] {
			to.Converted++
		}
	}
	for _, id := range ids {
		e := enrollments[id]
		add(e.goalOf(count.of(e.JourneyID, e.GoalVersion).at(e.CreatedAt.Time)), id)
	}
	for _, a := range arms {
		e := enrollments[a.EnrollmentID]
		add(count.of(e.JourneyID, a.Version).at(e.CreatedAt.Time).Node(a.NodeID).Arm(a.Arm), a.EnrollmentID)
	}
	err = insertConversion.run(ctx, s, tx, len(ids), func(i int) []any {
		c := found[ids[i]]
		return []any{c.EnrollmentID, c.EventID, c.At, int64(c.Worth)}
	}, nil)
	if err != nil {
		return fmt.Errorf("store conversions: %w", err)
	}
	return s.count(ctx, tx, count)
}

// convertedBefore tells which enrollments have reached their goal.
func convertedBefore(ctx context.Context, tx bun.Tx, ids []string) (map[string]bool, error) {
	var known []string
	if err := tx.NewSelect().Model((*conversionRow)(nil)).Column("enrollment_id").Where("enrollment_id IN (?)", bun.List(ids)).Scan(ctx, &known); err != nil {
		return nil, fmt.Errorf("look for conversions: %w", err)
	}
	before := make(map[string]bool, len(known))
	for _, id := range known {
		before[id] = true
	}
	return before, nil
}

// Conversions returns which of the enrollments have reached their goal, and what that is worth.
func (s *Store) Conversions(ctx context.Context, enrollmentIDs []string) (_ map[string]waypost.Conversion, err error) {
	defer wrap(&err, "load conversions")
	rows, err := rowsByID[conversionRow](ctx, s, "enrollment_id", enrollmentIDs)
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
