package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

type enrollmentRow struct {
	bun.BaseModel `bun:"table:enrollments,alias:e"`

	ID         string  `bun:"id,pk"`
	Org        string  `bun:"org"`
	Stage      string  `bun:"stage"`
	JourneyID  string  `bun:"journey_id"`
	Version    int     `bun:"version"`
	LeadsID    int64   `bun:"leads_id"`
	AppID      string  `bun:"app_id"`
	EntryKey   string  `bun:"entry_key"`
	Params     string  `bun:"params"`
	Status     string  `bun:"status"`
	NodeID     string  `bun:"node_id"`
	LastSeq    int     `bun:"last_seq"`
	CohortID   *string `bun:"cohort_id"`
	WorkflowID *string `bun:"workflow_id"`
	CreatedAt  stamp   `bun:"created_at"`
	EndedAt    stamp   `bun:"ended_at"`
}

func (r enrollmentRow) enrollment() (waypost.Enrollment, error) {
	e := waypost.Enrollment{
		ID: r.ID, JourneyID: r.JourneyID, Version: r.Version, LeadsID: r.LeadsID, AppID: r.AppID, EntryKey: r.EntryKey,
		Status: waypost.EnrollmentStatus(r.Status), NodeID: r.NodeID, CreatedAt: r.CreatedAt.Time, EndedAt: r.EndedAt.pointer(),
	}
	if r.WorkflowID != nil {
		e.WorkflowID = *r.WorkflowID
	}
	return e, fromJSON(r.Params, &e.Params)
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
}

// Enroll stores an enrollment as pending, for the pump to start. It takes
// JourneyID, Version, LeadsID, AppID, EntryKey and Params of e; the rest is made
// here. NotFound if the scope lacks the lead or the journey version, Conflict if
// r forbids the entry (contract, chapter 6); of concurrent calls for one lead and
// entry key exactly one passes, unless r allows several.
func (s *Store) Enroll(ctx context.Context, sc waypost.Scope, e waypost.Enrollment, r waypost.Reentry) (waypost.Enrollment, error) {
	var p waypost.Problems
	checkText(&p, "entryKey", e.EntryKey)
	if err := p.Err("entryKey"); err != nil {
		return waypost.Enrollment{}, err
	}
	if e.Params == nil {
		e.Params = map[string]any{}
	}
	params, err := toJSON(e.Params)
	if err != nil {
		return waypost.Enrollment{}, err
	}
	now := s.time()
	row := enrollmentRow{
		ID: waypost.NewID(waypost.PrefixEnrollment, now), Org: sc.Org, Stage: string(sc.Stage),
		JourneyID: e.JourneyID, Version: e.Version, LeadsID: e.LeadsID, AppID: e.AppID, EntryKey: e.EntryKey,
		Params: params, Status: string(waypost.EnrollmentPending), CreatedAt: stamp{now},
	}
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := findEntrants(ctx, tx, row); err != nil {
			return err
		}
		if err := enter(ctx, tx, row, r); err != nil {
			return err
		}
		_, err := tx.NewInsert().Model(&row).Exec(ctx)
		return err
	})
	if err != nil {
		return waypost.Enrollment{}, fmt.Errorf("enroll: %w", err)
	}
	return row.enrollment()
}

// findEntrants looks whether the scope has the lead and the journey version.
func findEntrants(ctx context.Context, tx bun.Tx, row enrollmentRow) error {
	var there struct {
		Lead    bool `bun:"lead"`
		Version bool `bun:"version"`
	}
	if !waypost.IsID(waypost.PrefixJourney, row.JourneyID) {
		return waypost.Errorf(waypost.CodeNotFound, "id", "there is no journey %s", clip(row.JourneyID))
	}
	err := tx.NewRaw(`SELECT
		EXISTS (SELECT 1 FROM leads WHERE leads_id = ? AND org = ? AND stage = ?) AS lead,
		EXISTS (SELECT 1 FROM journeys AS j JOIN journey_versions AS v ON v.journey_id = j.id
			WHERE j.id = ? AND j.org = ? AND j.stage = ? AND v.version = ?) AS version`,
		row.LeadsID, row.Org, row.Stage, row.JourneyID, row.Org, row.Stage, row.Version).Scan(ctx, &there)
	switch {
	case err != nil:
		return err
	case !there.Version:
		return waypost.Errorf(waypost.CodeNotFound, "id", "there is no version %d of journey %s", row.Version, row.JourneyID)
	case !there.Lead:
		return waypost.Errorf(waypost.CodeNotFound, "leadsId", "there is no lead %d", row.LeadsID)
	}
	return nil
}

// enter notes the entry if r allows it. One statement checks and notes, so that
// concurrent entries follow one another on the row's lock.
func enter(ctx context.Context, tx bun.Tx, row enrollmentRow, r waypost.Reentry) error {
	entry := entryRow{
		JourneyID: row.JourneyID, LeadsID: row.LeadsID, EntryKey: row.EntryKey,
		LastEntryAt: row.CreatedAt, EnrollmentID: row.ID, Active: 1,
	}
	q := tx.NewInsert().Model(&entry).Returning("NULL")
	if r.Policy == waypost.ReentryNever {
		q.On("CONFLICT (journey_id, leads_id, entry_key) DO NOTHING")
	} else {
		q.On("CONFLICT (journey_id, leads_id, entry_key) DO UPDATE").
			Set("last_entry_at = EXCLUDED.last_entry_at, enrollment_id = EXCLUDED.enrollment_id, active = je.active + 1")
		if r.Policy != waypost.ReentryAlways {
			q.Where("je.active = 0")
		}
		if r.Every > 0 {
			q.Where("je.last_entry_at <= ?", stamp{row.CreatedAt.Add(-time.Duration(r.Every))})
		}
	}
	res, err := q.Exec(ctx)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n == 1 {
		return err
	}
	if err := tx.NewSelect().Model(&entry).WherePK().Scan(ctx); err != nil {
		return err
	}
	switch {
	case r.Policy == waypost.ReentryNever:
		return waypost.Errorf(waypost.CodeConflict, "leadsId", "lead %d has entered the journey before, with enrollment %s", row.LeadsID, entry.EnrollmentID)
	case entry.Active > 0 && r.Policy != waypost.ReentryAlways:
		return waypost.Errorf(waypost.CodeConflict, "leadsId", "lead %d is in the journey, with enrollment %s", row.LeadsID, entry.EnrollmentID)
	}
	again := entry.LastEntryAt.Add(time.Duration(r.Every))
	return waypost.Errorf(waypost.CodeConflict, "leadsId", "lead %d may enter the journey again from %s", row.LeadsID, again.Format("2006-01-02T15:04:05.000Z07:00"))
}

// Enrollment returns an enrollment and its timeline, in order; NotFound if the
// scope has none of this id.
func (s *Store) Enrollment(ctx context.Context, sc waypost.Scope, id string) (waypost.Enrollment, []waypost.TimelineEntry, error) {
	var row enrollmentRow
	err := error(waypost.Errorf(waypost.CodeNotFound, "id", "there is no enrollment %s", clip(id)))
	if waypost.IsID(waypost.PrefixEnrollment, id) {
		q := s.r.NewSelect().Model(&row).Where("id = ? AND org = ? AND stage = ?", id, sc.Org, sc.Stage)
		err = notFound(q.Scan(ctx), "id", "there is no enrollment %s", id)
	}
	if err != nil {
		return waypost.Enrollment{}, nil, fmt.Errorf("load enrollment %s: %w", clip(id), err)
	}
	var rows []timelineRow
	err = s.r.NewSelect().Model(&rows).Where("enrollment_id = ?", id).Order("seq").Scan(ctx)
	e, err2 := row.enrollment()
	if err := errors.Join(err, err2); err != nil {
		return waypost.Enrollment{}, nil, fmt.Errorf("load enrollment %s: %w", id, err)
	}
	entries := make([]waypost.TimelineEntry, len(rows))
	for i, r := range rows {
		entries[i] = r.entry()
	}
	return e, entries, nil
}

// EnrollmentsByID returns the enrollments of these ids, of any scope: it is not
// for what an API caller asks. Those that are not there are missing in the answer.
func (s *Store) EnrollmentsByID(ctx context.Context, ids []string) (map[string]waypost.Enrollment, error) {
	list := make(map[string]waypost.Enrollment, len(ids))
	if len(ids) == 0 {
		return list, nil
	}
	var rows []enrollmentRow
	if err := s.r.NewSelect().Model(&rows).Where("id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("load enrollments: %w", err)
	}
	for _, row := range rows {
		e, err := row.enrollment()
		if err != nil {
			return nil, fmt.Errorf("load enrollment %s: %w", row.ID, err)
		}
		list[e.ID] = e
	}
	return list, nil
}
