package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"
)

const (
	// countEvery is how often one that writes much has PostgreSQL count what has grown.
	countEvery = 5 * time.Second
	// countTime bounds that: of the largest table, PostgreSQL reads 30,000 rows.
	countTime = 10 * time.Second
	// smallTable is how many bytes of a table make no difference to plans.
	smallTable = 256 << 10
)

// countGrown has PostgreSQL count tables (ANALYZE) that have become twice as large since it did so last, or that
// it never counted. Autovacuum does so within a minute; until then statements are planned as if all leads
// had the same e-mail address, and read an index from its beginning to its end. Who writes many rows calls it
// after each transaction, ended after the last one; it looks every few seconds, and at the end. An error is none
// of the caller's: autovacuum counts, too.
func (s *db) countGrown(ctx context.Context, ended bool, tables ...string) {
	if !s.postgres {
		return // SQLite plans by the indexes that there are
	}
	now := time.Now().UnixMilli()
	if !ended && now-s.counted.Load() < countEvery.Milliseconds() {
		return
	}
	s.counted.Store(now)
	ctx, cancel := context.WithTimeout(ctx, countTime)
	defer cancel()
	var grown []string
	err := s.w.NewRaw(`SELECT c.relname FROM pg_class AS c WHERE c.oid IN (SELECT to_regclass(t) FROM unnest(ARRAY[?]) AS t)
		AND pg_relation_size(c.oid) > 2 * c.relpages::bigint * current_setting('block_size')::bigint + ?`,
		bun.List(tables), smallTable).Scan(ctx, &grown)
	if err != nil {
		return
	}
	for _, table := range grown {
		// Where another process does it already, nothing is left to do.
		_, _ = s.w.NewRaw("ANALYZE (SKIP_LOCKED) ?", bun.Ident(table)).Exec(ctx)
	}
}
