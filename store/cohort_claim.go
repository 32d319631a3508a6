package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// ClaimCohort takes the oldest pending enrollments of one journey version, at
// most waypost.MaxCohort, and binds them to a cohort for good. Concurrent calls
// never take the same enrollment, and none waits for another. It returns nil if
// nothing is left to claim.
func (s *Store) ClaimCohort(ctx context.Context) (*waypost.Cohort, error) {
	if s.inOneStatement() {
		cohort, key, known, err := s.claimInOneStatement(ctx)
		if err != nil {
			return nil, fmt.Errorf("claim cohort: %w", err)
		}
		if cohort != nil {
			if cohort.Version, err = s.versionOf(ctx, key); err != nil {
				return nil, fmt.Errorf("claim cohort of journey %s: %w", key.JourneyID, err)
			}
		}
		if known {
			return cohort, nil
		}
	}
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
	return q.Where("cohort_id IS NULL AND ended_at IS NULL")
}

func (s *Store) claim(ctx context.Context, tx bun.Tx, key versionKey) (*waypost.Cohort, error) {
	var rows []enrollmentRow
	q := unclaimed(tx.NewSelect().Model(&rows).Column("id", "leads_id", "created_at")).
		Where("journey_id = ? AND version = ?", key.JourneyID, key.Version).
		Order("id").Limit(waypost.MaxCohort)
	if err := s.lockFor(q, forChange+skipLocked).Scan(ctx); err != nil || len(rows) == 0 {
		return nil, err
	}
	now := s.time()
	cohort := &waypost.Cohort{Members: make([]waypost.CohortMember, len(rows))}
	ids := make([]string, len(rows))
	for i, row := range rows {
		ids[i] = row.ID
		cohort.Members[i] = waypost.CohortMember{EnrollmentID: row.ID, LeadsID: row.LeadsID}
	}
	cohort.ID = cohortID(cohort.Members, now)
	c, err := claimedRow(*cohort, key, rows[0].CreatedAt, now)
	if err != nil {
		return nil, err
	}
	if _, err := tx.NewInsert().Model(c).Exec(ctx); err != nil {
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
	waiting, err := unclaimed(tx.NewSelect().Model((*enrollmentRow)(nil))).Exists(ctx)
	cohort.Last = !waiting
	return cohort, err
}

// claimedRow is the row of a cohort that is claimed as it is made.
func claimedRow(cohort waypost.Cohort, key versionKey, accepted stamp, now time.Time) (*cohortRow, error) {
	members, err := toJSON(cohort.Members)
	return &cohortRow{
		ID: cohort.ID, JourneyID: key.JourneyID, Version: key.Version,
		AcceptedAt: accepted, ClaimedAt: stamp{now}, Size: len(cohort.Members), Members: &members,
	}, err
}

// cohortID names the workflow of these enrollments.
func cohortID(members []waypost.CohortMember, now time.Time) string {
	if len(members) == 1 {
		return members[0].EnrollmentID
	}
	return waypost.NewID(waypost.PrefixCohort, now)
}

// maxCohort stands in the text: a plan for any number of rows would be one for many.
var maxCohort = strconv.Itoa(waypost.MaxCohort)

// claimInOneStatement is the usual case of ClaimCohort; known is false if nobody knows whether
// there is anything to claim.
func (s *Store) claimInOneStatement(ctx context.Context) (cohort *waypost.Cohort, key versionKey, known bool, err error) {
	now := s.time()
	known = true
	rows, err := s.query(ctx, nil, `WITH k AS MATERIALIZED (
		SELECT journey_id, version FROM enrollments WHERE cohort_id IS NULL AND ended_at IS NULL ORDER BY id LIMIT 1),
	f AS MATERIALIZED (SELECT e.id, e.leads_id, e.created_at FROM enrollments AS e
		WHERE e.journey_id = (SELECT journey_id FROM k) AND e.version = (SELECT version FROM k) AND e.cohort_id IS NULL AND e.ended_at IS NULL
		ORDER BY e.id LIMIT `+maxCohort+` FOR NO KEY UPDATE SKIP LOCKED),
	c AS (SELECT CASE count(*) WHEN 1 THEN min(id) ELSE $1 END AS id, min(created_at) AS accepted_at, count(*) AS size,
			json_agg(json_build_object('e', id, 'l', leads_id) ORDER BY id)::text AS members FROM f),
	i AS (INSERT INTO cohorts (id, journey_id, version, accepted_at, claimed_at, size, members)
		SELECT c.id, k.journey_id, k.version, c.accepted_at, $2, c.size, c.members FROM c, k WHERE c.size > 0),
	u AS (UPDATE enrollments AS e SET cohort_id = c.id FROM f, c WHERE e.id = f.id)
	SELECT k.journey_id, k.version, c.id, f.id, f.leads_id,
		(SELECT id FROM enrollments WHERE cohort_id IS NULL AND ended_at IS NULL AND id NOT IN (SELECT id FROM f) ORDER BY id LIMIT 1) IS NULL
	FROM k CROSS JOIN c LEFT JOIN f ON TRUE ORDER BY f.id`,
		waypost.NewID(waypost.PrefixCohort, now), now.UnixMicro())
	if err == nil {
		err = scanAll(rows, func(rows *sql.Rows) error {
			var id string
			var member sql.NullString
			var lead sql.NullInt64
			var last bool
			if err := rows.Scan(&key.JourneyID, &key.Version, &id, &member, &lead, &last); err != nil || !member.Valid {
				known = false // others have locked all of this version
				return err
			}
			if cohort == nil {
				cohort = &waypost.Cohort{ID: id, Last: last}
			}
			cohort.Members = append(cohort.Members, waypost.CohortMember{EnrollmentID: member.String, LeadsID: lead.Int64})
			return nil
		})
	}
	if refused(err) {
		return nil, key, false, nil
	}
	return cohort, key, known, err
}
