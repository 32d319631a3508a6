package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

type cohortRow struct {
	bun.BaseModel `bun:"table:cohorts,alias:c"`

	ID        string `bun:"id,pk"`
	JourneyID string `bun:"journey_id"`
	Version   int    `bun:"version"`
	ClaimedAt stamp  `bun:"claimed_at"`
	StartedAt stamp  `bun:"started_at"`
}

// versionKey names a journey version.
type versionKey struct {
	JourneyID string `bun:"journey_id"`
	Version   int    `bun:"version"`
}

// ClaimCohort takes the oldest pending enrollments of one journey version, at
// most waypost.MaxCohort, and binds them to a cohort for good. Concurrent calls
// never take the same enrollment, and none waits for another. It returns nil if
// nothing is left to claim.
func (s *Store) ClaimCohort(ctx context.Context) (*waypost.Cohort, error) {
	var tried []versionKey
	for {
		key, found, err := s.oldestUnclaimed(ctx, tried)
		if err != nil {
			return nil, fmt.Errorf("claim cohort: %w", err)
		}
		if !found {
			return nil, nil
		}
		var cohort *waypost.Cohort
		err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
			cohort, err = s.claim(ctx, tx, key)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("claim cohort of journey %s: %w", key.JourneyID, err)
		}
		if cohort == nil { // another pump has just taken all of this version
			tried = append(tried, key)
			continue
		}
		if cohort.Version, err = s.versionOf(ctx, key); err != nil {
			return nil, fmt.Errorf("claim cohort of journey %s: %w", key.JourneyID, err)
		}
		return cohort, nil
	}
}

// oldestUnclaimed looks, without a lock, what there is to claim: an idle pump
// costs one read.
func (s *Store) oldestUnclaimed(ctx context.Context, tried []versionKey) (key versionKey, found bool, err error) {
	q := unclaimed(s.r.NewSelect().Model((*enrollmentRow)(nil)).Column("journey_id", "version"))
	for _, t := range tried {
		q.Where("NOT (journey_id = ? AND version = ?)", t.JourneyID, t.Version)
	}
	var keys []versionKey
	err = q.Order("id").Limit(1).Scan(ctx, &keys)
	if err != nil || len(keys) == 0 {
		return key, false, err
	}
	return keys[0], true, nil
}

func unclaimed(q *bun.SelectQuery) *bun.SelectQuery {
	return q.Where("cohort_id IS NULL").Where("status = ?", waypost.EnrollmentPending)
}

func (s *Store) claim(ctx context.Context, tx bun.Tx, key versionKey) (*waypost.Cohort, error) {
	var rows []enrollmentRow
	q := unclaimed(tx.NewSelect().Model(&rows).Column("id", "leads_id")).
		Where("journey_id = ? AND version = ?", key.JourneyID, key.Version).
		Order("id").Limit(waypost.MaxCohort)
	if s.postgres {
		q.For("NO KEY UPDATE SKIP LOCKED")
	}
	if err := q.Scan(ctx); err != nil || len(rows) == 0 {
		return nil, err
	}
	now := s.time()
	cohort := &waypost.Cohort{ID: rows[0].ID, Members: make([]waypost.CohortMember, len(rows))}
	if len(rows) > 1 {
		cohort.ID = waypost.NewID(waypost.PrefixCohort, now)
	}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
		cohort.Members[i] = waypost.CohortMember{EnrollmentID: row.ID, LeadsID: row.LeadsID}
	}
	c := cohortRow{ID: cohort.ID, JourneyID: key.JourneyID, Version: key.Version, ClaimedAt: stamp{now}}
	if _, err := tx.NewInsert().Model(&c).Exec(ctx); err != nil {
		return nil, err
	}
	res, err := tx.NewUpdate().Model((*enrollmentRow)(nil)).Set("cohort_id = ?", cohort.ID).
		Where("id IN (?) AND cohort_id IS NULL", bun.List(ids)).Exec(ctx)
	if err != nil {
		return nil, err
	}
	if n, err := res.RowsAffected(); err != nil || int(n) != len(ids) {
		return nil, errors.Join(err, fmt.Errorf("claimed %d of %d locked enrollments", n, len(ids)))
	}
	return cohort, nil
}

// versionOf loads a journey version of any scope.
func (s *Store) versionOf(ctx context.Context, key versionKey) (waypost.JourneyVersion, error) {
	var row versionRow
	var journey journeyRow
	err := s.r.NewSelect().Model(&row).Where("journey_id = ? AND version = ?", key.JourneyID, key.Version).Scan(ctx)
	if err != nil {
		return waypost.JourneyVersion{}, fmt.Errorf("load version %d: %w", key.Version, err)
	}
	err = s.r.NewSelect().Model(&journey).Column("org", "stage").Where("id = ?", key.JourneyID).Scan(ctx)
	if err != nil {
		return waypost.JourneyVersion{}, fmt.Errorf("load scope: %w", err)
	}
	return row.version(journey.scope()), nil
}

// StaleCohorts returns up to limit cohorts that were claimed before the given
// time and not marked as started since: their pump may have ended in between. It
// stamps their claim anew, so that of two sweepers one gets them.
func (s *Store) StaleCohorts(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.Cohort, error) {
	var rows []cohortRow
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		rows = nil
		q := tx.NewSelect().Model(&rows).Where("started_at IS NULL AND claimed_at < ?", stamp{claimedBefore}).
			Order("claimed_at", "id").Limit(int64(limit))
		if s.postgres {
			q.For("NO KEY UPDATE SKIP LOCKED")
		}
		if err := q.Scan(ctx); err != nil || len(rows) == 0 {
			return err
		}
		_, err := tx.NewUpdate().Model((*cohortRow)(nil)).Set("claimed_at = ?", stamp{s.time()}).
			Where("id IN (?)", bun.List(cohortIDs(rows))).Exec(ctx)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("look for stale cohorts: %w", err)
	}
	if len(rows) == 0 {
		return nil, nil
	}
	var members []enrollmentRow
	err = s.r.NewSelect().Model(&members).Column("id", "leads_id", "cohort_id").
		Where("cohort_id IN (?)", bun.List(cohortIDs(rows))).Order("id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("load stale cohorts: %w", err)
	}
	byCohort := map[string][]waypost.CohortMember{}
	for _, m := range members {
		byCohort[*m.CohortID] = append(byCohort[*m.CohortID], waypost.CohortMember{EnrollmentID: m.ID, LeadsID: m.LeadsID})
	}
	cohorts := make([]waypost.Cohort, len(rows))
	for i, row := range rows {
		v, err := s.versionOf(ctx, versionKey{JourneyID: row.JourneyID, Version: row.Version})
		if err != nil {
			return nil, fmt.Errorf("load stale cohort %s: %w", row.ID, err)
		}
		cohorts[i] = waypost.Cohort{ID: row.ID, Version: v, Members: byCohort[row.ID]}
	}
	return cohorts, nil
}

func cohortIDs(rows []cohortRow) []string {
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
	}
	return ids
}

// MarkStarted notes that the workflow of a cohort runs (its id is the cohort's):
// enrollments that are still pending are running now. A second call changes
// nothing. NotFound if there is no such cohort.
func (s *Store) MarkStarted(ctx context.Context, cohortID string) error {
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		var row cohortRow
		err := s.lock(tx.NewSelect().Model(&row).Where("id = ?", cleanText(cohortID)), "c").Scan(ctx)
		if err != nil {
			return notFound(err, "id", "there is no cohort %s", clip(cohortID))
		}
		if !row.StartedAt.IsZero() {
			return nil
		}
		if _, err := tx.NewUpdate().Model((*cohortRow)(nil)).Set("started_at = ?", stamp{s.time()}).Where("id = ?", row.ID).Exec(ctx); err != nil {
			return err
		}
		// In the order in which RecordProgress locks them, which may come at once.
		var ids []string
		err = s.lock(tx.NewSelect().Model((*enrollmentRow)(nil)).Column("id").Where("cohort_id = ?", row.ID).Order("id"), "e").Scan(ctx, &ids)
		if err != nil {
			return err
		}
		_, err = tx.NewUpdate().Model((*enrollmentRow)(nil)).Set("workflow_id = ?", row.ID).
			Set("status = CASE WHEN status = ? THEN ? ELSE status END", waypost.EnrollmentPending, waypost.EnrollmentRunning).
			Where("cohort_id = ?", row.ID).Exec(ctx)
		return err
	})
	if err != nil {
		return fmt.Errorf("mark cohort %s as started: %w", clip(cohortID), err)
	}
	return nil
}
