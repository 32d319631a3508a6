package store

import (
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

type cohortRow struct {
	bun.BaseModel `bun:"table:cohorts,alias:c"`

	ID         string  `bun:"id,pk"`
	JourneyID  string  `bun:"journey_id"`
	Version    int     `bun:"version"`
	LaunchID   *string `bun:"launch_id"`
	AcceptedAt stamp   `bun:"accepted_at"` // when the oldest of its enrollments was made
	ClaimedAt  stamp   `bun:"claimed_at"`  // zero: ready, but no pump has taken it yet
	StartedAt  stamp   `bun:"started_at"`
	Size       int     `bun:"size"`    // enrollments that are in it
	Retired    bool    `bun:"retired"` // no workflow drives it, and none will
	Members    *string `bun:"members"` // nil once it has started
}

func (r cohortRow) key() versionKey { return versionKey{JourneyID: r.JourneyID, Version: r.Version} }

// versionKey names a journey version.
type versionKey struct {
	JourneyID string `bun:"journey_id"`
	Version   int    `bun:"version"`
}

// maxVersions bounds the journey versions that a process keeps. They never change.
const maxVersions = 100

// versionOf loads a journey version of any scope.
func (s *cohorts) versionOf(ctx context.Context, key versionKey) (waypost.JourneyVersion, error) {
	return s.versionIn(ctx, s.r, key)
}

// versionIn is versionOf by a transaction or a pool: a transaction that waited for another
// connection could wait for itself.
func (s *cohorts) versionIn(ctx context.Context, db bun.IDB, key versionKey) (waypost.JourneyVersion, error) {
	if v, known := s.versions.Get(key); known {
		return v, nil
	}
	v, err := loadVersion(ctx, db, key)
	if err != nil {
		return v, err
	}
	s.versions.Add(key, v)
	return v, nil
}

func loadVersion(ctx context.Context, db bun.IDB, key versionKey) (waypost.JourneyVersion, error) {
	var row versionRow
	var journey journeyRow
	err := db.NewSelect().Model(&row).Where("journey_id = ? AND version = ?", key.JourneyID, key.Version).Scan(ctx)
	if err != nil {
		return waypost.JourneyVersion{}, fmt.Errorf("load version %d: %w", key.Version, err)
	}
	err = db.NewSelect().Model(&journey).Column("org", "stage").Where("id = ?", key.JourneyID).Scan(ctx)
	if err != nil {
		return waypost.JourneyVersion{}, fmt.Errorf("load scope: %w", err)
	}
	return row.version(journey.scope()), nil
}

// ClaimLaunchCohorts takes up to limit cohorts that launches made ready and
// nobody has claimed yet, oldest first. Concurrent calls never take the same one,
// and none waits for another.
func (s *cohorts) ClaimLaunchCohorts(ctx context.Context, limit int) ([]waypost.Cohort, error) {
	cohorts, err := s.claimCohorts(ctx, limit, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("claimed_at IS NULL").Order("accepted_at", "id")
	})
	if err != nil {
		return nil, fmt.Errorf("claim cohorts of launches: %w", err)
	}
	return cohorts, nil
}

// StaleCohorts returns up to limit cohorts that were claimed before the given
// time and not marked as started since: their pump may have ended in between. It
// stamps their claim anew, so that of two sweepers one gets them.
func (s *cohorts) StaleCohorts(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.Cohort, error) {
	cohorts, err := s.claimCohorts(ctx, limit, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("started_at IS NULL AND claimed_at < ?", stamp{claimedBefore}).Order("claimed_at", "id")
	})
	if err != nil {
		return nil, fmt.Errorf("look for stale cohorts: %w", err)
	}
	return cohorts, nil
}

// claimCohorts stamps the claim of up to limit cohorts that which selects.
func (s *cohorts) claimCohorts(ctx context.Context, limit int, which func(*bun.SelectQuery) *bun.SelectQuery) ([]waypost.Cohort, error) {
	// Without a lock first: an idle pump costs one read.
	found, err := which(s.r.NewSelect().Model((*cohortRow)(nil)).Column("id")).Limit(1).Exists(ctx)
	if err != nil || !found {
		return nil, err
	}
	var rows []cohortRow
	err = s.writeRows(ctx, limit, func(ctx context.Context, tx bun.Tx) error {
		rows = nil
		q := which(tx.NewSelect().Model(&rows)).Limit(int64(limit))
		if err := s.lockFor(q, forChange+skipLocked).Scan(ctx); err != nil || len(rows) == 0 {
			return err
		}
		ids := make([]string, len(rows))
		for i, row := range rows {
			ids[i] = row.ID
		}
		_, err := tx.NewUpdate().Model((*cohortRow)(nil)).Set("claimed_at = ?", stamp{s.time()}).Where("id IN (?)", bun.List(ids)).Exec(ctx)
		return err
	})
	if err != nil {
		return nil, err
	}
	cohorts := make([]waypost.Cohort, len(rows))
	for i, row := range rows {
		v, err := s.versionOf(ctx, row.key())
		if err != nil {
			return nil, fmt.Errorf("load cohort %s: %w", row.ID, err)
		}
		cohorts[i] = waypost.Cohort{ID: row.ID, LaunchID: text(row.LaunchID), Version: v}
		if err := fromJSON(text(row.Members), &cohorts[i].Members); err != nil {
			return nil, fmt.Errorf("load cohort %s: %w", row.ID, err)
		}
	}
	return cohorts, nil
}

// MarkStarted notes that the workflows of cohorts run (their ids are the
// cohorts'): enrollments of them that are still pending are running from now on. A
// second call changes nothing. NotFound if there is no such cohort; the others
// are marked nevertheless.
func (s *cohorts) MarkStarted(ctx context.Context, cohortIDs ...string) error {
	if len(cohortIDs) == 0 {
		return nil
	}
	ids := make([]string, len(cohortIDs))
	for i, id := range cohortIDs {
		ids[i] = cleanText(id)
	}
	slices.Sort(ids)
	ids = slices.Compact(ids)
	marked, err := s.markStarted(ctx, ids)
	if err != nil {
		return fmt.Errorf("mark %d cohorts as started: %w", len(ids), err)
	}
	if marked == len(ids) {
		return nil
	}
	var known []string
	if err := s.r.NewSelect().Model((*cohortRow)(nil)).Column("id").Where("id IN (?)", bun.List(ids)).Scan(ctx, &known); err != nil {
		return fmt.Errorf("mark %d cohorts as started: %w", len(ids), err)
	}
	for _, id := range ids {
		if !slices.Contains(known, id) {
			return fmt.Errorf("mark cohorts as started: %w", waypost.Errorf(waypost.CodeNotFound, "id", "there is no cohort %s", clip(id)))
		}
	}
	return nil
}

// markStarted marks those cohorts that are not yet and counts them.
func (s *cohorts) markStarted(ctx context.Context, ids []string) (marked int, err error) {
	if s.inOneStatement() {
		return s.markStartedInOneStatement(ctx, ids)
	}
	err = s.writeRows(ctx, len(ids), func(ctx context.Context, tx bun.Tx) error {
		res, err := tx.NewUpdate().Model((*cohortRow)(nil)).Set("started_at = ?", stamp{s.time()}).Set("members = NULL").
			Where("id IN (?) AND started_at IS NULL", bun.List(ids)).Exec(ctx)
		if err != nil {
			return err
		}
		n, err := res.RowsAffected()
		marked = int(n)
		return err
	})
	return marked, err
}

// markStartedInOneStatement locks the cohorts in the order of their ids, as everybody
// locks them; the sum keeps it from planning to read all that have not started.
func (s *cohorts) markStartedInOneStatement(ctx context.Context, ids []string) (marked int, err error) {
	for try := 1; ; try++ {
		rows, err := s.query(ctx, nil, `WITH l AS MATERIALIZED (
			SELECT id FROM cohorts WHERE id = ANY ($1::text[]) AND (started_at + 0) IS NULL ORDER BY id FOR NO KEY UPDATE),
		m AS (UPDATE cohorts AS c SET started_at = $2, members = NULL FROM l WHERE c.id = l.id RETURNING c.id)
		SELECT count(*) FROM m`, ids, s.time().UnixMicro())
		if err == nil {
			err = scanAll(rows, func(rows *sql.Rows) error { return rows.Scan(&marked) })
		}
		if try == maxTries || !conflicts(err) {
			return marked, err
		}
	}
}

var sizeCohorts = bulk{table: "cohorts AS c", columns: []string{"id text", "size bigint"}, keys: 1}

// leaveCohorts notes how many enrollments have left which cohorts, and deletes cohorts without
// members: only members ask when their cohort was started. On SQLite it does nothing (see dropsCohorts).
func (s *cohorts) leaveCohorts(ctx context.Context, tx bun.Tx, left map[string]int) error {
	if len(left) == 0 || !s.dropsCohorts() {
		return nil
	}
	var rows []cohortRow
	err := s.lock(tx.NewSelect().Model(&rows).Column("id", "size").Where("id IN (?)", bun.List(slices.Sorted(maps.Keys(left)))).Order("id"), "c").Scan(ctx)
	if err != nil {
		return fmt.Errorf("look how many are in cohorts: %w", err)
	}
	var empty []string
	rows = slices.DeleteFunc(rows, func(r cohortRow) bool {
		none := r.Size <= left[r.ID]
		if none {
			empty = append(empty, r.ID)
		}
		return none
	})
	if len(empty) > 0 {
		if _, err := tx.NewDelete().Model((*cohortRow)(nil)).Where("id IN (?)", bun.List(empty)).Exec(ctx); err != nil {
			return fmt.Errorf("delete cohorts: %w", err)
		}
	}
	return sizeCohorts.run(ctx, s.db, tx, len(rows), func(i int) []any {
		return []any{rows[i].ID, rows[i].Size - left[rows[i].ID]}
	}, nil)
}
