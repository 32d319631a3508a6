package store

import (
	"context"
	"database/sql"

	"github.com/uptrace/bun"

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

// OpenByTransaction and RecordByTransaction are the other way to the same.
func (s *Store) OpenByTransaction(ctx context.Context, openings []waypost.Opening) (sendings map[waypost.Touchpoint]waypost.Sending, err error) {
	err = s.writeRows(ctx, len(openings), func(ctx context.Context, tx bun.Tx) error {
		sendings, err = s.openAttempts(ctx, tx, openings)
		return err
	})
	return sendings, err
}

func (s *Store) RecordByTransaction(ctx context.Context, records []waypost.AttemptRecord) error {
	return s.writeRows(ctx, len(records), func(ctx context.Context, tx bun.Tx) error { return s.recordAttempts(ctx, tx, records) })
}

func (s *Store) ClaimAtOnce(ctx context.Context) (cohort *waypost.Cohort, known bool, err error) {
	cohort, _, known, err = s.claimAtOnce(ctx)
	return cohort, known, err
}

// EnrollAtOnce does the part of Enroll, or of EnrollClaimed, that PostgreSQL does in one
// statement.
func (s *Store) EnrollAtOnce(ctx context.Context, sc waypost.Scope, e waypost.Enrollment, r waypost.Reentry, claimed bool) (done bool, err error) {
	row := enrollmentRow{
		ID: e.ID, Org: sc.Org, Stage: string(sc.Stage), JourneyID: e.JourneyID, Version: e.Version, LeadsID: e.LeadsID, AppID: e.AppID,
		Params: "{}", Status: string(waypost.EnrollmentPending), CreatedAt: stamp{s.time()},
	}
	if !claimed {
		return s.enrollAtOnce(ctx, row, r, nil)
	}
	row.CohortID = &row.ID
	return s.enrollAtOnce(ctx, row, r, &cohortRow{ID: row.ID, ClaimedAt: row.CreatedAt, Size: 1, Members: new("[]")})
}

// Planned is the pool of statements that are planned once, with one connection.
func (s *Store) Planned() *sql.DB {
	s.planned.SetMaxOpenConns(1)
	return s.planned
}
