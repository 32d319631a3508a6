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

// occurrences counts what the occurrences of a recurring launch came to together.
type occurrences struct {
	RecurringID string `bun:"recurring_id"`
	N           int    `bun:"n"`
	Total       int    `bun:"total"`
	Enrolled    int    `bun:"enrolled"`
	Skipped     int    `bun:"skipped"`
	HeldOut     int    `bun:"held_out"`
}

// tell adds to a recurring launch what became of it.
func (o occurrences) tell(l *waypost.Launch, r launchRow, now time.Time) {
	l.Skips = waypost.LaunchSkips{} // its occurrences have theirs
	l.Progress = waypost.LaunchProgress{Total: o.Total, Enrolled: o.Enrolled, Skipped: o.Skipped, HeldOut: o.HeldOut}
	l.Recurrence = &waypost.Recurrence{Occurrences: o.N}
	if !r.SkippedAt.IsZero() {
		l.Recurrence.LastSkip = &waypost.SkippedOccurrence{At: r.SkippedAt.Time, Reason: r.SkipReason}
	}
	if l.Status != waypost.LaunchScheduled {
		return
	}
	if l.StartAt != nil && l.StartAt.After(now) {
		now = l.StartAt.Add(-1) // it may be the first time itself
	}
	if next := r.schedule().Next(now); !next.IsZero() {
		l.Recurrence.NextAt = &next
	}
}

// readOccurrences fills in what became of those launches that recur.
func (s *launches) readOccurrences(ctx context.Context, launches []standingRow) error {
	var ids []string
	for _, l := range launches {
		if l.Cron != nil {
			ids = append(ids, l.ID)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	var rows []occurrences
	err := s.r.NewSelect().Model((*launchRow)(nil)).Column("recurring_id").
		ColumnExpr("count(*) AS n, sum(CASE WHEN la.started_at IS NULL THEN 0 ELSE la.total END) AS total").
		ColumnExpr("sum(la.enrolled) AS enrolled, sum(la.skipped) AS skipped, sum(la.held_out) AS held_out").
		Where("la.recurring_id IN (?)", bun.List(ids)).Group("recurring_id").Scan(ctx, &rows)
	if err != nil {
		return fmt.Errorf("count occurrences: %w", err)
	}
	opened := keyed(rows, func(o occurrences) string { return o.RecurringID })
	for i := range launches {
		launches[i].opened = opened[launches[i].ID]
	}
	return nil
}

// OpenOccurrence opens the occurrence of a recurring launch that is due at a time: a
// launch of the journey's newest version, with the audience, rate and control group
// of the recurring one. One that was opened is not opened again. At a time that the
// schedule no longer has there is none: the zero Occurrence. It is skipped, and the
// recurring launch tells so, if the launch or its journey was paused at that time or has
// ended, or if the time is past by more than waypost.OccurrenceWindow. NotFound if there is
// no such launch.
func (s *launches) OpenOccurrence(ctx context.Context, recurringID string, at time.Time) (o waypost.Occurrence, err error) {
	defer wrap(&err, "open an occurrence of launch %s", clip(recurringID))
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		o, err = s.openOccurrence(ctx, tx, recurringID, at)
		return err
	})
	return o, err
}

// openOccurrence is OpenOccurrence in a transaction. The recurring launch is locked, so that an occurrence is
// opened or skipped once. The zero Occurrence if its schedule has none at this time.
func (s *launches) openOccurrence(ctx context.Context, tx bun.Tx, recurringID string, at time.Time) (o waypost.Occurrence, err error) {
	var parent launchRow
	q := tx.NewSelect().Model(&parent).Where("id = ? AND cron IS NOT NULL", cleanText(recurringID))
	if err := scanOne(ctx, s.lock(q, "la"), "recurring launch", recurringID); err != nil {
		return o, err
	}
	if mistimed(*parent.schedule(), at) {
		return o, nil
	}
	err = tx.NewSelect().Model((*launchRow)(nil)).Column("id").
		Where("recurring_id = ? AND occurs_at = ?", parent.ID, stamp{at}).Scan(ctx, &o.LaunchID)
	if !errors.Is(err, sql.ErrNoRows) { // it was opened before, or there is an error
		return o, err
	}
	var j journeyRow
	if err := tx.NewSelect().Model(&j).Where("id = ?", parent.JourneyID).Scan(ctx); err != nil {
		return o, err
	}
	if o.Skipped, err = s.skips(ctx, tx, parent, j, at); err != nil {
		return o, err
	}
	if o.Skipped != "" {
		return o, s.skipOccurrence(ctx, tx, parent, at, o.Skipped)
	}
	now := s.time()
	row := launchRow{
		ID: waypost.NewID(waypost.PrefixLaunch, now), Scope: parent.Scope, JourneyID: parent.JourneyID, Version: j.PublishedVersion,
		AppID: parent.AppID, Filter: parent.Filter, SegmentID: parent.SegmentID, Personal: parent.Personal, RatePerSecond: parent.RatePerSecond, ControlGroup: parent.ControlGroup,
		RecurringID: &parent.ID, OccursAt: stamp{at}, CreatedAt: stamp{now}, Total: parent.Total,
	}
	var v versionRow
	err = tx.NewSelect().Model(&v).Where("journey_id = ? AND version = ?", j.ID, j.PublishedVersion).Scan(ctx)
	if err != nil {
		return o, err
	}
	if row.Reentry, err = reentryOf(v.Definition); err != nil {
		return o, err
	}
	o.LaunchID = row.ID
	_, err = tx.NewInsert().Model(&row).Exec(ctx)
	return o, err
}

// mistimed tells whether a time is one that the Schedule holds since before a zone
// changed its rules, by half an hour or an hour. Any other time that is not one of the
// schedule was asked for by hand.
func mistimed(s waypost.Schedule, at time.Time) bool {
	holds := func(by time.Duration) bool { return s.Next(at.Add(by - 1)).Equal(at.Add(by)) }
	return !holds(0) && (holds(time.Hour) || holds(-time.Hour) || holds(time.Hour/2) || holds(-time.Hour/2))
}

// renewAfter is how old the times that a Schedule holds can be. It holds more than a
// day's, and follows zones that change their rules.
const renewAfter = 12 * time.Hour

// clocksDiffer is more than the clocks of a worker and of Temporal differ.
const clocksDiffer = 2 * time.Second

// agedSchedules are the recurring launches whose Schedule is to be renewed.
func (s *launches) agedSchedules() condition {
	return condition{"cron IS NOT NULL AND done_at IS NULL AND workflow_started_at < ? " +
		"AND NOT EXISTS (SELECT 1 FROM controls AS c WHERE c.target = la.id AND c.kind = 'cancel')", []any{stamp{s.time().Add(-renewAfter)}}}
}

// markScheduled notes that the Schedule of a recurring launch is as new as now, and opens
// what was due until now and was neither opened nor skipped: Temporal may have been away,
// and drops what is due when a Schedule is renewed. By Temporal's clock that can be more
// than by ours: if the next time is so near, the Schedule is soon renewed again. One that
// was canceled and deleted meanwhile exists again. It is false if the launch does not recur.
func (s *launches) markScheduled(ctx context.Context, id string) (recurs bool, err error) {
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		var l launchRow
		err := s.lock(tx.NewSelect().Model(&l).Where("id = ? AND cron IS NOT NULL", cleanText(id)), "la").Scan(ctx)
		if recurs = err == nil; !recurs {
			if errors.Is(err, sql.ErrNoRows) {
				return nil
			}
			return err
		}
		now := s.time()
		from := slices.MaxFunc([]time.Time{
			now.Add(-waypost.OccurrenceWindow), l.CreatedAt.Time, l.StartAt.Add(-1), l.SkippedAt.Time,
		}, time.Time.Compare)
		renewed := now
		for at := range l.schedule().Times(from) {
			if at.After(now) {
				if at.Before(now.Add(clocksDiffer)) {
					renewed = now.Add(2*clocksDiffer - renewAfter)
				}
				break
			}
			if _, err := s.openOccurrence(ctx, tx, l.ID, at); err != nil {
				return err
			}
		}
		_, err = tx.NewUpdate().Model(&l).Set("workflow_started_at = ?, done_at = NULL", stamp{renewed}).WherePK().Exec(ctx)
		return err
	})
	return recurs, err
}

// skips tells why an occurrence is not opened, "" if it is.
func (s *launches) skips(ctx context.Context, tx bun.Tx, parent launchRow, j journeyRow, at time.Time) (waypost.SkipReason, error) {
	byLaunch, err := s.launchControls(ctx, tx, parent)
	if err != nil {
		return "", err
	}
	controls := byLaunch[parent.ID]
	_, canceled := controls.Canceled()
	switch {
	case canceled:
		return waypost.SkipCanceled, nil
	case waypost.JourneyStatus(j.Status) == waypost.JourneyArchived:
		return waypost.SkipArchived, nil
	case controls.PausedAt(at):
		return waypost.SkipPaused, nil
	case s.time().Sub(at) > waypost.OccurrenceWindow:
		return waypost.SkipLate, nil
	}
	return "", nil
}

// skipOccurrence notes an occurrence that is not opened. That of a canceled launch
// shows that its Schedule still exists: it is to be deleted, once more perhaps.
func (s *launches) skipOccurrence(ctx context.Context, tx bun.Tx, parent launchRow, at time.Time, why waypost.SkipReason) error {
	if at.After(parent.SkippedAt.Time) {
		parent.SkippedAt, parent.SkipReason = stamp{at}, why
	}
	if why == waypost.SkipCanceled {
		parent.DoneAt = stamp{}
	}
	_, err := tx.NewUpdate().Model(&parent).Column("skipped_at", "skip_reason", "done_at").WherePK().Exec(ctx)
	return err
}

// withOccurrences adds to launches whose rows are locked those of their occurrences
// that have not ended, and locks these, too.
func (s *controls) withOccurrences(ctx context.Context, tx bun.Tx, ids []string) ([]string, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	live, err := s.lockLive(ctx, tx, "l.recurring_id IN (?)", bun.List(ids))
	return distinct(slices.Concat(ids, live)), err
}

// hasSchedule says that a launch (alias la) recurs and its Schedule exists.
const hasSchedule = "la.cron IS NOT NULL AND la.done_at IS NULL AND la.workflow_started_at IS NOT NULL"

// ScheduledLaunches returns up to limit recurring launches whose Schedule exists and
// stays, after an id and in the order of their ids. Only ID, Scope and JourneyID are
// filled in.
func (s *launches) ScheduledLaunches(ctx context.Context, after string, limit int) (_ []waypost.Launch, err error) {
	defer wrap(&err, "look for schedules")
	var rows []launchRow
	err = s.r.NewSelect().Model(&rows).Column("id", "org", "stage", "journey_id").Where(hasSchedule).Where("la.id > ?", cleanText(after)).
		Where("NOT EXISTS (SELECT 1 FROM controls AS c WHERE c.target = la.id AND c.kind = 'cancel')").
		Order("la.id").Limit(int64(limit)).Scan(ctx)
	return mapped(rows, func(r launchRow) waypost.Launch {
		return waypost.Launch{ID: r.ID, Scope: r.Scope, JourneyID: r.JourneyID}
	}), err
}

// CanceledSchedules returns up to limit launches that recurred and are canceled, while
// their Schedule exists.
func (s *launches) CanceledSchedules(ctx context.Context, limit int) (ids []string, err error) {
	defer wrap(&err, "look for canceled schedules")
	err = s.r.NewSelect().Model((*launchRow)(nil)).Column("id").Where(hasSchedule).
		Where("EXISTS (SELECT 1 FROM controls AS c WHERE c.target = la.id AND c.kind = 'cancel')").
		Order("la.id").Limit(int64(limit)).Scan(ctx, &ids)
	return ids, err
}

// MarkScheduleDeleted notes that the Schedule of a canceled launch exists no more. A
// second call changes nothing. NotFound if there is no such launch.
func (s *launches) MarkScheduleDeleted(ctx context.Context, id string) (err error) {
	defer wrap(&err, "mark the schedule of launch %s as deleted", clip(id))
	return s.updateOne(ctx, "recurring launch", id, func(tx bun.Tx) *bun.UpdateQuery {
		return tx.NewUpdate().Model((*launchRow)(nil)).Set("done_at = COALESCE(done_at, ?)", stamp{s.time()}).Where("cron IS NOT NULL")
	})
}
