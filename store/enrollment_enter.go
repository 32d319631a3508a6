package store

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// Enroll stores an enrollment as pending, for a pump to claim. It takes
// JourneyID, Version, LeadsID, AppID, EntryKey and Params of e; the rest is made
// here. NotFound if the scope lacks the lead or the journey version, ErrNotPublished as r
// says, Conflict if the journey is archived or r forbids the entry (docs/contract.md, "Re-entry"); of concurrent
// calls for one lead and entry key exactly one passes, unless r allows several. One of the
// journey's control group is held out: it has ended at once.
func (s *enrollments) Enroll(ctx context.Context, by waypost.Caller, e waypost.Enrollment, r waypost.Reentry) (waypost.Enrollment, error) {
	e, err := s.enroll(ctx, by, e, r, false)
	if err != nil {
		return waypost.Enrollment{}, fmt.Errorf("enroll: %w", err)
	}
	return e, nil
}

// EnrollClaimed is Enroll and ClaimEnrollments in one, for this enrollment only. claimed is
// nil if that was not possible, and it waits to be claimed, or if it is held out.
func (s *enrollments) EnrollClaimed(
	ctx context.Context, by waypost.Caller, e waypost.Enrollment, r waypost.Reentry,
) (enrolled waypost.Enrollment, claimed *waypost.Cohort, err error) {
	// Before anything is written: what is accepted must not be answered with an error.
	version, err := s.cohorts.versionOf(ctx, versionKey{JourneyID: e.JourneyID, Version: e.Version})
	if err != nil {
		e, err := s.Enroll(ctx, by, e, r)
		return e, nil, err
	}
	if e, err = s.enroll(ctx, by, e, r, true); err != nil {
		return waypost.Enrollment{}, nil, fmt.Errorf("enroll: %w", err)
	}
	if e.Status.Ended() { // it is held out
		return e, nil, nil
	}
	return e, &waypost.Cohort{Version: version, Members: []waypost.CohortMember{{EnrollmentID: e.ID, LeadsID: e.LeadsID}}}, nil
}

// enroll is Enroll; with claimed the enrollment is stored as claimed by the caller. It shares a statement
// with others where it can, and otherwise takes a transaction of its own.
func (s *enrollments) enroll(
	ctx context.Context, by waypost.Caller, e waypost.Enrollment, r waypost.Reentry, claimed bool,
) (waypost.Enrollment, error) {
	sc, author := by.Within()
	row, err := s.newEnrollment(sc, e, claimed)
	if err != nil {
		return waypost.Enrollment{}, err
	}
	rules, err := s.entries.rulesOf(ctx, versionKey{row.JourneyID, row.Version})
	if err != nil {
		return waypost.Enrollment{}, err
	}
	enrolled, err := row.enrollment()
	if err != nil {
		return waypost.Enrollment{}, err
	}
	entry, err := s.audit.newAudit(author, "enrollment.create", row.ID, nil, fields{"journeyId": e.JourneyID, "version": e.Version, "leadsId": e.LeadsID})
	if err != nil {
		return waypost.Enrollment{}, err
	}
	if s.inOneStatement() && waypost.ClaimOf(ctx) == nil && rules.Goal == nil && !rules.holdsOut(row.LeadsID, 0) {
		done, err := s.entries.enrollTogether(ctx, entering{row, entry}, r)
		if err != nil {
			return waypost.Enrollment{}, err
		}
		if done {
			return enrolled, nil
		}
	}
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		enrolled, err = s.enrollIn(ctx, tx, entering{row, entry}, rules, r)
		return err
	})
	return enrolled, err
}

// newEnrollment is the row of e, pending, and claimed if claimed says so; with a
// waypost.Problems error if the entry key of e is no text that can be stored.
func (s *enrollments) newEnrollment(sc waypost.Scope, e waypost.Enrollment, claimed bool) (enrollmentRow, error) {
	var p waypost.Problems
	checkText(&p, "entryKey", e.EntryKey)
	if err := p.Err("entryKey"); err != nil {
		return enrollmentRow{}, err
	}
	if e.Params == nil {
		e.Params = map[string]any{}
	}
	params, err := toJSON(e.Params)
	if err != nil {
		return enrollmentRow{}, err
	}
	now := s.time()
	row := enrollmentRow{
		ID: waypost.NewID(waypost.PrefixEnrollment, now), Org: sc.Org, Stage: string(sc.Stage),
		JourneyID: e.JourneyID, Version: e.Version, LeadsID: e.LeadsID, AppID: e.AppID, EntryKey: e.EntryKey,
		Params: params, Status: string(waypost.EnrollmentPending), CreatedAt: stamp{now},
	}
	if claimed {
		row.ClaimedAt = row.CreatedAt
	}
	return row, nil
}

// enrollIn stores e in the transaction tx, as the version's rules have it, with its counts
// and what segments see of it.
func (s *enrollments) enrollIn(
	ctx context.Context, tx bun.Tx, e entering, rules versionRules, r waypost.Reentry,
) (enrolled waypost.Enrollment, err error) {
	row, lead := e.row, []int64{e.row.LeadsID}
	if row.Exits, row.Test, err = findEntrants(ctx, tx, row, r); err != nil {
		return enrolled, err
	}
	rules.assign(&row, 0)
	if enrolled, err = row.enrollment(); err != nil {
		return enrolled, err
	}
	switch { // see exits
	case row.GoalVersion > 0:
		if err := s.leads.lockLeads(ctx, tx, lead, forChange); err != nil {
			return enrolled, err
		}
		before, err := s.entries.countedBefore(ctx, tx, versionKey{row.JourneyID, row.Version}, lead)
		if err != nil {
			return enrolled, err
		}
		row.BeforeAt = before[row.LeadsID]
	case row.Exits:
		if err := s.waits.shareLeads(ctx, tx, lead); err != nil {
			return enrolled, err
		}
	}
	if err := enter(ctx, tx, row, r); err != nil {
		return enrolled, err
	}
	if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
		return enrolled, err
	}
	if err := s.statistics.countEntered(ctx, tx, row.CreatedAt.Time, row); err != nil {
		return enrolled, err
	}
	cause := segmentCause{kind: causeEntered, name: row.JourneyID, at: row.CreatedAt}
	if _, err := s.segmentChecks.checkLeads(ctx, tx, waypost.Scope{Org: row.Org, Stage: waypost.Stage(row.Stage)}, lead, cause); err != nil {
		return enrolled, err
	}
	if err := e.entry.write(ctx, tx); err != nil {
		return enrolled, err
	}
	return enrolled, s.idempotency.keepResult(ctx, tx, enrolled)
}

// findEntrants looks whether the scope has the lead and the journey version, whether
// events end enrollments of that, and whether it is a test lead.
func findEntrants(ctx context.Context, tx bun.Tx, row enrollmentRow, r waypost.Reentry) (exits, test bool, err error) {
	var there struct {
		Lead     bool `bun:"lead"`
		Test     bool `bun:"test"`
		Version  bool `bun:"version"`
		Current  bool `bun:"current"`
		Archived bool `bun:"archived"`
		Exits    bool `bun:"exits"`
	}
	if !waypost.IsID(waypost.PrefixJourney, row.JourneyID) {
		return false, false, waypost.Errorf(waypost.CodeNotFound, "id", "there is no journey %s", clip(row.JourneyID))
	}
	err = tx.NewRaw(`SELECT
		EXISTS (SELECT 1 FROM leads WHERE leads_id = ? AND org = ? AND stage = ?) AS lead,
		EXISTS (SELECT 1 FROM leads WHERE leads_id = ? AND test) AS test,
		EXISTS (SELECT 1 FROM journeys AS j JOIN journey_versions AS v ON v.journey_id = j.id
			WHERE j.id = ? AND j.org = ? AND j.stage = ? AND v.version = ?) AS version,
		EXISTS (SELECT 1 FROM journeys AS j WHERE j.id = ? AND j.published_version = ?) AS current,
		EXISTS (SELECT 1 FROM journeys AS j WHERE j.id = ? AND j.status = ?) AS archived,
		EXISTS (SELECT 1 FROM journey_exits WHERE journey_id = ? AND version = ?) AS exits`,
		row.LeadsID, row.Org, row.Stage, row.LeadsID, row.JourneyID, row.Org, row.Stage, row.Version,
		row.JourneyID, row.Version, row.JourneyID, waypost.JourneyArchived,
		row.JourneyID, row.Version).Scan(ctx, &there)
	switch {
	case err != nil:
		return false, false, err
	case !there.Version:
		return false, false, waypost.Errorf(waypost.CodeNotFound, "id", "there is no version %d of journey %s", row.Version, row.JourneyID)
	case !there.Lead:
		return false, false, waypost.Errorf(waypost.CodeNotFound, "leadsId", "there is no lead %d", row.LeadsID)
	case there.Archived:
		return false, false, waypost.Errorf(waypost.CodeConflict, "id", "the journey is archived")
	case r.Current && !there.Current:
		return false, false, waypost.ErrNotPublished
	}
	return there.Exits, there.Test, nil
}

// enter notes the entry if r allows it. One statement checks and notes, so that
// concurrent entries follow one another on the row's lock.
func enter(ctx context.Context, tx bun.Tx, row enrollmentRow, r waypost.Reentry) error {
	entry := entryRow{
		JourneyID: row.JourneyID, LeadsID: row.LeadsID, EntryKey: row.EntryKey,
		LastEntryAt: row.CreatedAt, EnrollmentID: row.ID, Active: 1, GoalVersion: row.GoalVersion,
	}
	if !row.EndedAt.IsZero() { // it is held out
		entry.Active = 0
	}
	res, err := tx.NewRaw("INSERT INTO journey_entries AS je (journey_id, leads_id, entry_key, last_entry_at, enrollment_id, active, goal_version) VALUES (?, ?, ?, ?, ?, ?, ?) "+onReentry(r),
		entry.JourneyID, entry.LeadsID, entry.EntryKey, entry.LastEntryAt, entry.EnrollmentID, entry.Active, entry.GoalVersion).Exec(ctx)
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

// onReentry ends an insert of entries (alias je): it lets those of leads that have
// entered before pass only if r and further conditions allow it.
func onReentry(r waypost.Reentry, conditions ...string) string {
	if r.Policy == waypost.ReentryNever {
		return "ON CONFLICT (journey_id, leads_id, entry_key) DO NOTHING"
	}
	if r.Policy != waypost.ReentryAlways {
		conditions = append(conditions, "je.active = 0")
	}
	if r.Every > 0 {
		conditions = append(conditions, fmt.Sprintf("je.last_entry_at <= EXCLUDED.last_entry_at - %d", time.Duration(r.Every).Microseconds()))
	}
	suffix := "ON CONFLICT (journey_id, leads_id, entry_key) DO UPDATE SET " +
		"last_entry_at = EXCLUDED.last_entry_at, enrollment_id = EXCLUDED.enrollment_id, active = je.active + EXCLUDED.active, " +
		"goal_version = CASE WHEN EXCLUDED.goal_version > je.goal_version THEN EXCLUDED.goal_version ELSE je.goal_version END"
	if len(conditions) > 0 {
		suffix += " WHERE " + strings.Join(conditions, " AND ")
	}
	return suffix
}
