package store

import (
	"context"
	"database/sql"

	"waypost"
)

// OpenAtOnce, RecordAtOnce and ClaimAtOnce do the parts that PostgreSQL does in one
// statement.
func (s *Store) OpenAtOnce(ctx context.Context, openings []waypost.Opening) (map[waypost.Touchpoint]waypost.Sending, error) {
	return s.openAtOnce(ctx, openings)
}

func (s *Store) RecordAtOnce(ctx context.Context, records []waypost.AttemptRecord) (rest []waypost.AttemptRecord, err error) {
	return s.recordAtOnce(ctx, records)
}

func (s *Store) ClaimAtOnce(ctx context.Context) (cohort *waypost.Cohort, known bool, err error) {
	cohort, _, known, err = s.claimAtOnce(ctx)
	return cohort, known, err
}

// EnrollAtOnce does the part of Enroll that PostgreSQL does in one statement.
func (s *Store) EnrollAtOnce(ctx context.Context, sc waypost.Scope, e waypost.Enrollment, r waypost.Reentry) (done bool, err error) {
	return s.enrollAtOnce(ctx, enrollmentRow{
		ID: e.ID, Org: sc.Org, Stage: string(sc.Stage), JourneyID: e.JourneyID, Version: e.Version, LeadsID: e.LeadsID, AppID: e.AppID,
		Params: "{}", Status: string(waypost.EnrollmentPending), CreatedAt: stamp{s.time()},
	}, r)
}

// Planned is the pool of statements that are planned once, with one connection.
func (s *Store) Planned() *sql.DB {
	s.planned.SetMaxOpenConns(1)
	return s.planned
}
