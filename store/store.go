// Package store keeps everything that people ask about in SQL: on PostgreSQL,
// or on SQLite for one machine. It alone knows the tables; what it returns is
// the vocabulary of package waypost. Faults that the caller can act on are
// *waypost.Error values, everything else is an ordinary error.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"

	"waypost"
)

// Store is the database. It is safe for concurrent use.
type Store struct {
	// r only reads, w reads and writes. On SQLite w has one connection, so that
	// writers queue up here instead of failing there with SQLITE_BUSY; on
	// PostgreSQL both are one pool.
	r, w     *bun.DB
	postgres bool
	keys     *waypost.Keyring
	now      func() time.Time
}

// Open opens the database that url (WAYPOST_DATABASE_URL) names and checks that
// its schema is the one of this binary: an older one needs `waypost migrate`
// first, a newer one needs a newer binary. keys seal secrets and messages, now
// stamps what the store itself dates. The error is one line that says what to do.
func Open(ctx context.Context, url string, keys *waypost.Keyring, now func() time.Time) (*Store, error) {
	loc, err := parseURL(url)
	if err != nil {
		return nil, err
	}
	s := &Store{postgres: loc.postgres != nil, keys: keys, now: now}
	if s.postgres {
		s.w = bun.NewDB(loc.openPostgres(), pgdialect.New())
		s.r = s.w
	} else {
		if err := loc.checkFile(); err != nil {
			return nil, err
		}
		s.w = bun.NewDB(loc.openSQLite(false), sqlitedialect.New())
		s.r = bun.NewDB(loc.openSQLite(true), sqlitedialect.New())
	}
	if err := s.check(ctx, loc); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) check(ctx context.Context, loc location) error {
	version, err := schemaVersion(ctx, s.w.DB, s.postgres)
	if err != nil {
		return loc.explain(err)
	}
	if err := loc.checkVersion(version); err != nil {
		return err
	}
	// A file that can be read but not written is found now, not at the first write.
	return loc.explain(s.write(ctx, func(ctx context.Context, tx bun.Tx) error { return nil }))
}

// Close closes all connections.
func (s *Store) Close() error {
	if s.r == s.w {
		return s.w.Close()
	}
	return errors.Join(s.r.Close(), s.w.Close())
}

// Ping tells whether the database answers.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	if err := s.r.NewRaw("SELECT 1").Scan(ctx, &one); err != nil {
		return fmt.Errorf("ping database: %w", err)
	}
	return nil
}

// time is the current time as the database holds it.
func (s *Store) time() time.Time { return s.now().UTC().Truncate(time.Microsecond) }

// maxTries bounds how often a transaction is begun again after PostgreSQL chose
// it as the victim of a deadlock. Rows are locked in the order of their keys, so
// it should never happen.
const maxTries = 5

// write runs fn in a transaction. fn may run again and must not keep anything
// of a run before.
func (s *Store) write(ctx context.Context, fn func(ctx context.Context, tx bun.Tx) error) error {
	for try := 1; ; try++ {
		err := s.w.RunInTx(ctx, nil, fn)
		var pg *pgconn.PgError
		if try < maxTries && errors.As(err, &pg) && (pg.Code == pgDeadlock || pg.Code == pgSerialization) {
			continue
		}
		return err
	}
}

// lock makes q lock the rows of the alias until the transaction ends. SQLite
// needs no row locks: its write transactions are alone from their beginning.
func (s *Store) lock(q *bun.SelectQuery, alias string) *bun.SelectQuery {
	if s.postgres {
		return q.For("NO KEY UPDATE OF ?", bun.Ident(alias))
	}
	return q
}

// Error codes that are told apart: PostgreSQL, appendix A; SQLite, result codes.
const (
	pgSerialization = "40001"
	pgDeadlock      = "40P01"

	sqliteReadOnly = 8
	sqliteIO       = 10
	sqliteFull     = 13
	sqliteCantOpen = 14
	sqliteNotADB   = 26
)

// notFound turns "no rows" into a NotFound of what was looked for.
func notFound(err error, target, format string, args ...any) error {
	if errors.Is(err, sql.ErrNoRows) {
		return waypost.Errorf(waypost.CodeNotFound, target, format, args...)
	}
	return err
}

// pageSize bounds how many rows one page can hold: one more than a client may
// ask for, so that the caller can look whether another page follows.
func pageSize(p waypost.Page) int64 {
	if p.Limit <= 0 {
		return waypost.DefaultPageSize
	}
	return int64(min(p.Limit, waypost.MaxPageSize+1))
}
