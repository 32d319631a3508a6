package store

import (
	"context"

	"waypost"
)

// EnrollAtOnce does the part of Enroll that PostgreSQL does in one statement.
func (s *Store) EnrollAtOnce(ctx context.Context, sc waypost.Scope, e waypost.Enrollment, r waypost.Reentry) (done bool, err error) {
	return s.enrollAtOnce(ctx, enrollmentRow{
		ID: e.ID, Org: sc.Org, Stage: string(sc.Stage), JourneyID: e.JourneyID, Version: e.Version, LeadsID: e.LeadsID, AppID: e.AppID,
		Params: "{}", Status: string(waypost.EnrollmentPending), CreatedAt: stamp{s.time()},
	}, r)
}
