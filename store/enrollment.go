package store

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

type enrollmentRow struct {
	bun.BaseModel `bun:"table:enrollments,alias:e"`

	ID        string  `bun:"id,pk"`
	Org       string  `bun:"org"`
	Stage     string  `bun:"stage"`
	JourneyID string  `bun:"journey_id"`
	Version   int     `bun:"version"`
	LeadsID   int64   `bun:"leads_id"`
	LaunchID  *string `bun:"launch_id"`
	AppID     string  `bun:"app_id"`
	EntryKey  string  `bun:"entry_key"`
	Params    string  `bun:"params"`
	Status    string  `bun:"status"`
	NodeID    string  `bun:"node_id"`
	LastSeq   int     `bun:"last_seq"`
	Deferred  bool    `bun:"deferred"` // the last entry of its timeline is a deferral
	CohortID  *string `bun:"cohort_id"`
	ClaimedAt stamp   `bun:"claimed_at"` // by a pump that is to form its cohort
	Source    *string `bun:"source"`     // see EnrollOnward
	Entry     *string `bun:"entry"`      // what it began by, if by itself
	Event     []byte  `bun:"event"`      // sealed: the event that it began by
	EventSeq  *int64  `bun:"event_seq"`
	Depth     int     `bun:"depth"`
	Exits     bool    `bun:"exits"` // its version has events that end it
	Test      bool    `bun:"test"`  // of a test lead as it was made
	// GoalVersion is the version that it began with, if that has a goal: it counts wherever
	// the enrollment is moved. 0: nothing counts.
	GoalVersion int   `bun:"goal_version"`
	BeforeAt    stamp `bun:"before_at"` // when the lead entered before, as far as the goal counted it
	CreatedAt   stamp `bun:"created_at"`
	EndedAt     stamp `bun:"ended_at"`

	share float64 // of the control group, of an enrollment that is made or converts
}

func (r enrollmentRow) id() string { return r.ID }

// state is what counts of the row where it is changed.
func (r enrollmentRow) state() enrollmentState {
	return enrollmentState{
		ID: r.ID, JourneyID: r.JourneyID, LeadsID: r.LeadsID, EntryKey: r.EntryKey, Version: r.Version,
		Status: waypost.EnrollmentStatus(r.Status), NodeID: r.NodeID, LastSeq: r.LastSeq, Deferred: r.Deferred, EndedAt: r.EndedAt, Test: r.Test,
	}
}

func (r enrollmentRow) enrollment() (waypost.Enrollment, error) {
	e := waypost.Enrollment{
		ID: r.ID, JourneyID: r.JourneyID, Version: r.Version, LeadsID: r.LeadsID, LaunchID: text(r.LaunchID), AppID: r.AppID, EntryKey: r.EntryKey,
		Status: waypost.EnrollmentStatus(r.Status), NodeID: r.NodeID, CreatedAt: r.CreatedAt.Time, EndedAt: r.EndedAt.pointer(),
		Depth: r.Depth,
	}
	var err error
	if e.Entry, err = r.beganBy(); err == nil {
		err = fromJSON(r.Params, &e.Params)
	}
	if err != nil {
		return e, fmt.Errorf("enrollment %s: %w", r.ID, err)
	}
	return e, nil
}

// startedRow is an enrollment with the start of its cohort.
type startedRow struct {
	enrollmentRow `bun:",extend"`
	StartedAt     stamp `bun:"started_at,scanonly"`
}

func (r startedRow) enrollment() (waypost.Enrollment, error) {
	e, err := r.enrollmentRow.enrollment()
	if !r.StartedAt.IsZero() {
		e.WorkflowID = text(r.CohortID)
		if e.Status == waypost.EnrollmentPending {
			e.Status = waypost.EnrollmentRunning
		}
	}
	return e, err
}

// started selects enrollments into a *startedRow or a slice of them.
func started(db bun.IDB, dest any) *bun.SelectQuery {
	return db.NewSelect().Model(dest).ColumnExpr("?TableColumns").ColumnExpr("c.started_at").Join("LEFT JOIN cohorts AS c ON c.id = e.cohort_id")
}

// text is what a column holds that may be NULL.
func text(column *string) string {
	if column == nil {
		return ""
	}
	return *column
}

// entryRow remembers that a lead entered a journey under an entry key: when last,
// with which enrollment, and how many of its enrollments have not ended.
type entryRow struct {
	bun.BaseModel `bun:"table:journey_entries,alias:je"`

	JourneyID    string `bun:"journey_id,pk"`
	LeadsID      int64  `bun:"leads_id,pk"`
	EntryKey     string `bun:"entry_key,pk"`
	LastEntryAt  stamp  `bun:"last_entry_at"`
	EnrollmentID string `bun:"enrollment_id"`
	Active       int    `bun:"active"`
	GoalVersion  int    `bun:"goal_version"` // the highest version whose goal has counted the lead; 0: none
}

// Enrollment returns an enrollment and its timeline, in order; NotFound if the
// scope has none of this id. What was decided about it is derived: the statuses
// paused and canceled, and the entries (of Seq 0) paused, resumed and, for a
// cancel, or what it exited on, exited.
func (s *enrollments) Enrollment(
	ctx context.Context, sc waypost.Scope, id string,
) (e waypost.Enrollment, entries []waypost.TimelineEntry, err error) {
	defer wrap(&err, "load enrollment %s", clip(id))
	var row startedRow
	if err := scanByID(ctx, started(s.r, &row), sc, "enrollment", id); err != nil {
		return e, nil, err
	}
	if e, err = row.enrollment(); err != nil {
		return e, nil, err
	}
	if entries, err = s.progress.timelineOf(ctx, s.r, id); err != nil {
		return e, nil, err
	}
	controls, err := s.controls.Controls(ctx, waypost.ControlTargets{JourneyID: e.JourneyID, LaunchID: e.LaunchID, EnrollmentIDs: []string{id}})
	if err != nil {
		return e, nil, err
	}
	if e.Status == waypost.EnrollmentHeldOut {
		entries = []waypost.TimelineEntry{{At: e.CreatedAt, What: waypost.WhatExited, Reason: waypost.ReasonControlGroup, Version: e.Version}}
	}
	applyControls(&e, controls[id])
	return e, withExit(e, withControls(e, withBeginning(e, entries), controls[id]), controls[id]), nil
}

// withBeginning has a timeline tell what an enrollment began by, if it began by itself.
func withBeginning(e waypost.Enrollment, entries []waypost.TimelineEntry) []waypost.TimelineEntry {
	if len(entries) > 0 && entries[0].Seq == 1 {
		entries[0].Reason = e.Entry.Reason(entries[0].Reason)
	}
	return entries
}

// applyControls gives an enrollment that has not ended the status that was
// decided for it. A cancel is carried out later, but counts at once.
func applyControls(e *waypost.Enrollment, controls waypost.Controls) {
	if e.EndedAt != nil {
		return
	}
	if at, canceled := controls.Canceled(); canceled {
		e.Status, e.EndedAt = waypost.EnrollmentCanceled, &at
	} else if len(controls.Holds()) > 0 {
		e.Status = waypost.EnrollmentPaused
	}
}

// withControls adds to a timeline what was decided while the enrollment ran.
func withControls(e waypost.Enrollment, entries []waypost.TimelineEntry, controls waypost.Controls) []waypost.TimelineEntry {
	var decided []waypost.TimelineEntry
	add := func(at time.Time, what, reason string) {
		if e.EndedAt == nil || !at.After(*e.EndedAt) {
			decided = append(decided, waypost.TimelineEntry{At: at, What: what, Reason: reason, Version: e.Version})
		}
	}
	for _, c := range controls {
		if c.Kind != waypost.ControlPause || !c.Open() && !c.Until.After(e.CreatedAt) {
			continue
		}
		from := c.From
		if from.Before(e.CreatedAt) { // it was born paused
			from = e.CreatedAt
		}
		add(from, waypost.WhatPaused, kindOfTarget(c.Target))
		if !c.Open() {
			reason := "skip"
			if c.Shift {
				reason = "shift"
			}
			add(c.Until, waypost.WhatResumed, reason)
		}
	}
	if e.Status == waypost.EnrollmentCanceled && e.EndedAt != nil {
		add(*e.EndedAt, waypost.WhatExited, "canceled")
	}
	if len(decided) == 0 {
		return entries
	}
	slices.SortStableFunc(decided, func(a, b waypost.TimelineEntry) int { return a.At.Compare(b.At) })
	// The entries keep their order, even where the clocks of processes disagree.
	merged := make([]waypost.TimelineEntry, 0, len(entries)+len(decided))
	node := "" // where the enrollment stood
	take := func() {
		decided[0].NodeID = node
		merged, decided = append(merged, decided[0]), decided[1:]
	}
	for _, entry := range entries {
		for len(decided) > 0 && decided[0].At.Before(entry.At) {
			take()
		}
		merged = append(merged, entry)
		if node = entry.NodeID; entry.Next != "" {
			node = entry.Next
		}
	}
	for len(decided) > 0 {
		take()
	}
	return merged
}

// withExit has a timeline end with what the enrollment exited on. An entry exited that the workflow has
// recorded gets the reason; otherwise one is added, at the time of the last entry at the earliest.
func withExit(e waypost.Enrollment, entries []waypost.TimelineEntry, controls waypost.Controls) []waypost.TimelineEntry {
	reason, at, exited := controls.Exited()
	if !exited {
		return entries
	}
	exit := waypost.TimelineEntry{At: at, What: waypost.WhatExited, Reason: reason, Version: e.Version}
	if n := len(entries); n > 0 {
		last := &entries[n-1]
		if last.What == waypost.WhatExited {
			last.Reason = exit.Reason
			return entries
		}
		if exit.NodeID = last.NodeID; last.Next != "" {
			exit.NodeID = last.Next
		}
		if last.At.After(at) {
			exit.At = last.At
		}
	}
	return append(entries, exit)
}

// kindOfTarget says what of was paused: the reason in the timeline.
func kindOfTarget(id string) string {
	switch {
	case waypost.IsID(waypost.PrefixLaunch, id):
		return "launch"
	case waypost.IsID(waypost.PrefixJourney, id):
		return "journey"
	}
	return "enrollment"
}

// EnrollmentsByID returns the enrollments of these ids as they are recorded, of any scope:
// it is not for what an API caller asks. It alone, and Briefing, have the events that they
// began by. WorkflowID is left out, and what was decided about them (Controls) does not show. Unknown ids are missing in the answer.
func (s *enrollments) EnrollmentsByID(ctx context.Context, ids []string) (_ map[string]waypost.Enrollment, err error) {
	defer wrap(&err, "load enrollments")
	rows, err := rowsByID[enrollmentRow](ctx, s.db, "id", ids)
	if err != nil {
		return nil, err
	}
	list, err := decoded(rows, s.entries.withEvent)
	return keyed(list, func(e waypost.Enrollment) string { return e.ID }), err
}
