package store

import (
	"context"
	"fmt"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// ClaimEnrollments claims the oldest pending enrollments of one journey version that are in
// no cohort, at most waypost.MaxCohort. They are the caller's to form a cohort of, until a
// later call finds that their claim was made before the given time. Concurrent calls never
// claim the same enrollment, and none waits for another. It returns nil if nothing is left
// to claim.
func (s *cohorts) ClaimEnrollments(ctx context.Context, claimedBefore time.Time) (*waypost.Cohort, error) {
	var others []versionKey
	free := func(q *bun.SelectQuery) *bun.SelectQuery {
		withoutCohort(q).Where("(claimed_at IS NULL OR claimed_at < ?)", stamp{claimedBefore}).Order("id")
		for _, key := range others {
			q.Where("NOT (journey_id = ? AND version = ?)", key.JourneyID, key.Version)
		}
		return q
	}
	for {
		// Without a lock first: an idle pump costs one read.
		var keys []versionKey
		err := free(s.r.NewSelect().Model((*enrollmentRow)(nil)).Column("journey_id", "version")).Limit(1).Scan(ctx, &keys)
		if err != nil {
			return nil, fmt.Errorf("look for enrollments to claim: %w", err)
		}
		if len(keys) == 0 {
			return nil, nil
		}
		claimed, err := s.claimOf(ctx, keys[0], free)
		if err != nil {
			return nil, fmt.Errorf("claim enrollments of journey %s: %w", keys[0].JourneyID, err)
		}
		if len(claimed.Members) > 0 {
			return &claimed, nil
		}
		others = append(others, keys[0]) // another pump is claiming all of this version
	}
}

// claimOf claims free enrollments of a version.
func (s *cohorts) claimOf(
	ctx context.Context, key versionKey, free func(*bun.SelectQuery) *bun.SelectQuery,
) (claimed waypost.Cohort, err error) {
	if claimed.Version, err = s.versionOf(ctx, key); err != nil {
		return claimed, err
	}
	return claimed, s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		var rows []enrollmentRow
		q := free(tx.NewSelect().Model(&rows).Column("id", "leads_id")).
			Where("journey_id = ? AND version = ?", key.JourneyID, key.Version).Limit(waypost.MaxCohort)
		if err := s.lockFor(q, forChange+skipLocked).Scan(ctx); err != nil {
			return err
		}
		if claimed.Members = membersOf(rows); len(rows) == 0 {
			return nil
		}
		_, err := tx.NewUpdate().Model((*enrollmentRow)(nil)).Set("claimed_at = ?", stamp{s.time()}).Where("id IN (?)", bun.List(enrollmentIDs(rows))).Exec(ctx)
		return err
	})
}

// FormCohort binds claimed enrollments to a cohort for good, which the caller is to start;
// if it is not marked as started, StaleCohorts finds it. Left out are those that are in a
// cohort of somebody who claimed them later; a cohort without members was not formed. The
// workflow gets notices of those that were ended early, or ordered to another version, before
// it existed.
func (s *cohorts) FormCohort(ctx context.Context, claimed waypost.Cohort) (waypost.Cohort, error) {
	ids := mapped(claimed.Members, func(m waypost.CohortMember) string { return m.EnrollmentID })
	key := versionKey{JourneyID: claimed.Version.JourneyID, Version: claimed.Version.Version}
	cohort := waypost.Cohort{Version: claimed.Version}
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		cohort.ID, cohort.Members = "", nil
		var found []struct {
			enrollmentRow `bun:",extend"`
			Move          *string `bun:"move"`
		}
		q := withoutCohort(tx.NewSelect().Model(&found).Column("id", "leads_id", "created_at", "status", "move")).
			Where("id IN (?)", bun.List(ids)).Order("id")
		if err := s.lock(q, "e").Scan(ctx); err != nil || len(found) == 0 {
			return err
		}
		var rows, uninformed []enrollmentRow
		for _, f := range found {
			f.CohortID = &cohort.ID
			rows = append(rows, f.enrollmentRow)
			if status := waypost.EnrollmentStatus(f.Status); f.Move != nil || status == waypost.EnrollmentCanceled || status == waypost.EnrollmentExited {
				uninformed = append(uninformed, f.enrollmentRow)
			}
		}
		cohort.Members = membersOf(rows)
		now := s.time()
		cohort.ID = cohortID(cohort.Members, now)
		members, err := toJSON(cohort.Members)
		if err != nil {
			return err
		}
		row := cohortRow{
			ID: cohort.ID, JourneyID: key.JourneyID, Version: key.Version,
			AcceptedAt: rows[0].CreatedAt, ClaimedAt: stamp{now}, Size: len(rows), Members: &members,
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		_, err = tx.NewUpdate().Model((*enrollmentRow)(nil)).Set("cohort_id = ?", cohort.ID).Where("id IN (?)", bun.List(enrollmentIDs(rows))).Exec(ctx)
		if err != nil {
			return err
		}
		return s.notices.notify(ctx, tx, noticesOf(uninformed, true), false)
	})
	if err != nil {
		return waypost.Cohort{}, fmt.Errorf("form a cohort of journey %s: %w", key.JourneyID, err)
	}
	return cohort, nil
}

// cohortID names the workflow of these enrollments.
func cohortID(members []waypost.CohortMember, now time.Time) string {
	if len(members) == 1 {
		return members[0].EnrollmentID
	}
	return waypost.NewID(waypost.PrefixCohort, now)
}

// withoutCohort selects enrollments that are to be in a cohort and are in none. One that has
// ended is to be in one if it was claimed: its message was sent ahead, and operators look
// for its workflow.
func withoutCohort(q *bun.SelectQuery) *bun.SelectQuery { return q.Where(inNoCohort) }

const inNoCohort = "cohort_id IS NULL AND (ended_at IS NULL OR claimed_at IS NOT NULL)"

func membersOf(rows []enrollmentRow) []waypost.CohortMember {
	return mapped(rows, func(row enrollmentRow) waypost.CohortMember {
		return waypost.CohortMember{EnrollmentID: row.ID, LeadsID: row.LeadsID}
	})
}

func enrollmentIDs(rows []enrollmentRow) []string {
	return mapped(rows, func(row enrollmentRow) string { return row.ID })
}
