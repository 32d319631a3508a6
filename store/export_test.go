package store

import (
	"context"
	"database/sql"

	"waypost"
	"waypost/delivery"
)

// OpenInOneStatement and RecordInOneStatement do the parts that PostgreSQL does in one
// statement.
func (s *Store) OpenInOneStatement(ctx context.Context, openings []delivery.Opening) (map[waypost.Touchpoint]delivery.Sending, error) {
	return s.attempts.openInOneStatement(ctx, openings)
}

func (s *Store) RecordInOneStatement(ctx context.Context, records []delivery.AttemptRecord) (rest []delivery.AttemptRecord, err error) {
	return s.attempts.recordInOneStatement(ctx, records)
}

// ByTransaction is the store without the statements that are planned once.
func (s *Store) ByTransaction() *Store {
	t := newStore(&db{r: s.r, w: s.w, postgres: s.postgres, keys: s.keys, now: s.now})
	t.attempts.briefing, t.entries.goals = s.attempts.briefing, s.entries.goals
	return t
}

// EnrollInOneStatement does the part of Enroll, or of EnrollClaimed, that PostgreSQL does in one
// statement.
func (s *Store) EnrollInOneStatement(ctx context.Context, sc waypost.Scope, e waypost.Enrollment, r waypost.Reentry, claimed bool) (done bool, err error) {
	row := enrollmentRow{
		ID: e.ID, Org: sc.Org, Stage: string(sc.Stage), JourneyID: e.JourneyID, Version: e.Version, LeadsID: e.LeadsID, AppID: e.AppID,
		Params: "{}", Status: string(waypost.EnrollmentPending), CreatedAt: stamp{s.time()},
	}
	if claimed {
		row.ClaimedAt = row.CreatedAt
	}
	all, err := s.entries.enrollInOneStatement(ctx, []entering{{row: row}}, r)
	return all[e.ID], err
}

// Planned is the pool of statements that are planned once, with one connection.
func (s *Store) Planned() *sql.DB {
	s.planned.SetMaxOpenConns(1)
	return s.planned
}
