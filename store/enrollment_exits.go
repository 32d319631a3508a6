package store

import (
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// journeyExitRow is an event, or a segment that the lead enters, that ends the enrollments of a
// version.
type journeyExitRow struct {
	bun.BaseModel `bun:"table:journey_exits,alias:jx"`

	JourneyID string `bun:"journey_id,pk"`
	Version   int    `bun:"version,pk"`
	Event     string `bun:"event,pk"`
	SegmentID string `bun:"segment_id,pk"`
}

// exitsOf lists by what the enrollments of a version end, each once.
func exitsOf(journeyID string, version int, text string) (rows []journeyExitRow, err error) {
	// The one member of a definition that exits need.
	var definition struct {
		ExitOn []struct{ Event, Segment string }
	}
	err = fromJSON(text, &definition)
	for _, on := range definition.ExitOn {
		row := journeyExitRow{JourneyID: journeyID, Version: version, Event: on.Event, SegmentID: on.Segment}
		if !slices.Contains(rows, row) {
			rows = append(rows, row)
		}
	}
	return rows, err
}

// addExits stores by what the enrollments of a version end.
func addExits(ctx context.Context, tx bun.Tx, v versionRow) error {
	rows, err := exitsOf(v.JourneyID, v.Version, v.Definition)
	if err != nil || len(rows) == 0 {
		return err
	}
	_, err = tx.NewInsert().Model(&rows).Exec(ctx)
	return err
}

// ofVersion tells whether enrollments of a version end by events or segments. If so, or if the version has a
// goal, no event of the leads is accepted until the transaction ends: each comes before the
// enrollments that it makes, or finds them. It is called before other rows are
// locked.
func (s *exits) ofVersion(ctx context.Context, tx bun.Tx, journeyID string, version int, goal bool, leads []int64) (bool, error) {
	exits, err := tx.NewSelect().Model((*journeyExitRow)(nil)).Where("journey_id = ? AND version = ?", journeyID, version).Exists(ctx)
	if err != nil || !exits && !goal {
		return false, err
	}
	if goal { // of two that enter at once, the second one finds that the first has counted
		return exits, s.leads.lockLeads(ctx, tx, leads, forChange)
	}
	return exits, s.waits.shareLeads(ctx, tx, leads)
}

// exit ends the enrollments of the events' leads that run and whose version exits on one of
// them, as a cancel would end them, and tells their workflows. Those that are canceled
// with their launch or journey, and not swept yet, stay so. The leads are locked. Late events, and
// those that occurred before an enrollment began, do not end it.
func (s *exits) exit(ctx context.Context, tx bun.Tx, events []eventRow, bulk bool) error {
	events = slices.DeleteFunc(slices.Clone(events), eventRow.late)
	if len(events) == 0 {
		return nil
	}
	var found []leavingRow
	err := tx.NewSelect().Model(&found).Column("e.id", "e.journey_id", "e.launch_id", "e.leads_id", "e.entry", "e.created_at", "jx.event").
		Join("JOIN journey_exits AS jx ON jx.journey_id = e.journey_id AND jx.version = e.version").
		Where("e.leads_id IN (?) AND e.exits AND e.ended_at IS NULL", bun.List(distinct(mapped(events, leadOfEvent)))).
		Where("jx.event IN (?)", bun.List(distinct(mapped(events, nameOfEvent)))).Scan(ctx)
	if err != nil {
		return fmt.Errorf("look for enrollments that exit: %w", err)
	}
	kinds, by := ofKinds(events), map[string]int{} // by which of the events an enrollment exits
	var leaving []leavingRow
	for _, row := range found {
		entry, err := row.beganBy()
		if err != nil {
			return err
		}
		began := entry.Since(row.CreatedAt.Time)
		for _, i := range kinds[eventKind{row.LeadsID, row.Event}] {
			if !events[i].since(began) {
				continue
			}
			first, again := by[row.ID]
			if !again {
				leaving = append(leaving, row)
			}
			if !again || events[i].before(events[first]) || i < first && !events[first].before(events[i]) {
				by[row.ID] = i
			}
		}
	}
	return s.leave(ctx, tx, leaving, events[0].AcceptedAt, func(id string) controlRow { return controlRow{Event: events[by[id]].Name} }, bulk)
}

// leavingRow is an enrollment that exits.
type leavingRow struct {
	enrollmentRow `bun:",extend"`
	Event         string `bun:"event"`      // that it exits on, or
	SegmentID     string `bun:"segment_id"` // the segment
}

// leave ends those of the enrollments that are not canceled, each once, and tells their workflows. by
// returns a control with what the enrollment exits on.
func (s *exits) leave(ctx context.Context, tx bun.Tx, rows []leavingRow, at stamp, by func(id string) controlRow, bulk bool) error {
	type group struct{ journeyID, launchID string }
	groups := map[group][]string{}
	for _, row := range rows {
		key := group{row.JourneyID, text(row.LaunchID)}
		groups[key] = append(groups[key], row.ID)
	}
	var leaving []string
	for key, ids := range groups {
		controls, err := s.controls.controlsOf(ctx, tx, waypost.ControlTargets{JourneyID: key.journeyID, LaunchID: key.launchID, EnrollmentIDs: ids})
		if err != nil {
			return err
		}
		for _, id := range ids {
			if _, canceled := controls[id].Canceled(); !canceled {
				leaving = append(leaving, id)
			}
		}
	}
	if len(leaving) == 0 {
		return nil
	}
	slices.Sort(leaving)
	left, err := s.controls.endEach(ctx, tx, leaving, waypost.EnrollmentExited, at, func(id string) controlRow {
		row := by(id)
		row.Kind = waypost.ControlExit
		return row
	})
	if err != nil {
		return fmt.Errorf("exit enrollments: %w", err)
	}
	return s.notices.notify(ctx, tx, noticesOf(left, true), bulk)
}
