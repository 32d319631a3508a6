package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
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
	Size       int     `bun:"size"`    // enrollments that are in it; negative once it is retired
	Members    *string `bun:"members"` // nil once it has started
}

func (r cohortRow) key() versionKey { return versionKey{JourneyID: r.JourneyID, Version: r.Version} }

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
	if s.postgres {
		cohort, key, known, err := s.claimAtOnce(ctx)
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
	if s.postgres {
		q.For("NO KEY UPDATE SKIP LOCKED")
	}
	if err := q.Scan(ctx); err != nil || len(rows) == 0 {
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

// maxVersions bounds the journey versions that a process keeps.
const maxVersions = 100

// versions keeps journey versions. They never change.
type versions struct {
	mu sync.Mutex
	m  map[versionKey]waypost.JourneyVersion
}

// versionOf loads a journey version of any scope.
func (s *Store) versionOf(ctx context.Context, key versionKey) (waypost.JourneyVersion, error) {
	s.versions.mu.Lock()
	v, known := s.versions.m[key]
	s.versions.mu.Unlock()
	if known {
		return v, nil
	}
	v, err := s.loadVersion(ctx, key)
	if err != nil {
		return v, err
	}
	s.versions.mu.Lock()
	defer s.versions.mu.Unlock()
	if s.versions.m == nil || len(s.versions.m) >= maxVersions {
		s.versions.m = map[versionKey]waypost.JourneyVersion{}
	}
	s.versions.m[key] = v
	return v, nil
}

func (s *Store) loadVersion(ctx context.Context, key versionKey) (waypost.JourneyVersion, error) {
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

// ClaimLaunchCohorts takes up to limit cohorts that launches made ready and
// nobody has claimed yet, oldest first. Concurrent calls never take the same one,
// and none waits for another.
func (s *Store) ClaimLaunchCohorts(ctx context.Context, limit int) ([]waypost.Cohort, error) {
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
func (s *Store) StaleCohorts(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.Cohort, error) {
	cohorts, err := s.claimCohorts(ctx, limit, func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("started_at IS NULL AND claimed_at < ?", stamp{claimedBefore}).Order("claimed_at", "id")
	})
	if err != nil {
		return nil, fmt.Errorf("look for stale cohorts: %w", err)
	}
	return cohorts, nil
}

// claimCohorts stamps the claim of up to limit cohorts that which selects.
func (s *Store) claimCohorts(ctx context.Context, limit int, which func(*bun.SelectQuery) *bun.SelectQuery) ([]waypost.Cohort, error) {
	// Without a lock first: an idle pump costs one read.
	found, err := which(s.r.NewSelect().Model((*cohortRow)(nil)).Column("id")).Limit(1).Exists(ctx)
	if err != nil || !found {
		return nil, err
	}
	var rows []cohortRow
	err = s.writeRows(ctx, limit, func(ctx context.Context, tx bun.Tx) error {
		rows = nil
		q := which(tx.NewSelect().Model(&rows)).Limit(int64(limit))
		if s.postgres {
			q.For("NO KEY UPDATE SKIP LOCKED")
		}
		if err := q.Scan(ctx); err != nil || len(rows) == 0 {
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
func (s *Store) MarkStarted(ctx context.Context, cohortIDs ...string) error {
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

// markStarted marks those cohorts that are not yet and counts them. In PostgreSQL they are
// locked in the order of their ids, as everybody locks them; the sum keeps it from
// planning to read all that have not started.
func (s *Store) markStarted(ctx context.Context, ids []string) (marked int, err error) {
	if !s.postgres {
		err := s.writeRows(ctx, len(ids), func(ctx context.Context, tx bun.Tx) error {
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

// leaveCohorts notes how many enrollments have left which cohorts. The last one takes
// the cohort along: nobody asks any more when it was started. On SQLite cohorts stay: it
// would look through all enrollments for each, because one may refer to it.
func (s *Store) leaveCohorts(ctx context.Context, tx bun.Tx, left map[string]int) error {
	if len(left) == 0 || !s.postgres {
		return nil
	}
	var rows []cohortRow
	err := s.lock(tx.NewSelect().Model(&rows).Column("id", "size").Where("id IN (?)", bun.List(slices.Sorted(maps.Keys(left)))).Order("id"), "c").Scan(ctx)
	if err != nil {
		return fmt.Errorf("look how many are in cohorts: %w", err)
	}
	var empty []string
	rows = slices.DeleteFunc(rows, func(r cohortRow) bool {
		none := max(r.Size, -r.Size) <= left[r.ID]
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
	return sizeCohorts.run(ctx, s, tx, len(rows), func(i int) []any {
		if r := rows[i]; r.Size < 0 {
			return []any{r.ID, r.Size + left[r.ID]}
		}
		return []any{rows[i].ID, rows[i].Size - left[rows[i].ID]}
	}, nil)
}

// OutboxLag counts the accepted enrollments that no workflow was started for and
// tells how long the oldest of them waits, 0 if there is none.
func (s *Store) OutboxLag(ctx context.Context) (pending int, oldest time.Duration, err error) {
	var single, cohorts struct {
		N     int   `bun:"n"`
		Since stamp `bun:"since"`
	}
	err = s.r.NewRaw("SELECT count(*) AS n, (SELECT created_at FROM enrollments WHERE cohort_id IS NULL AND ended_at IS NULL ORDER BY id LIMIT 1) AS since "+
		"FROM enrollments WHERE cohort_id IS NULL AND ended_at IS NULL").Scan(ctx, &single)
	if err == nil {
		err = s.r.NewSelect().Model((*cohortRow)(nil)).ColumnExpr("CAST(COALESCE(SUM(size), 0) AS BIGINT) AS n, MIN(accepted_at) AS since").
			Where("started_at IS NULL").Scan(ctx, &cohorts)
	}
	if err != nil {
		return 0, 0, fmt.Errorf("count the outbox: %w", err)
	}
	now := s.time()
	for _, since := range []stamp{single.Since, cohorts.Since} {
		if !since.IsZero() {
			oldest = max(oldest, now.Sub(since.Time))
		}
	}
	return single.N + cohorts.N, oldest, nil
}
