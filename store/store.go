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
	"slices"
	"time"

	"github.com/jackc/pgx/v5"
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
	planned  *sql.DB // on PostgreSQL: see at_once.go
	postgres bool
	// On SQLite, lanes order those who write. Who is in has the statements that are
	// prepared for the connection of w, by their texts, and the texts of others that
	// were needed.
	lanes    lanes
	prepared map[string]*sql.Stmt
	missed   []string

	exports chan struct{} // holds one for each export that runs

	versions versions
	briefing string // see Briefing

	keys *waypost.Keyring
	now  func() time.Time
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
	s := &Store{postgres: loc.postgres != nil, prepared: map[string]*sql.Stmt{}, exports: make(chan struct{}, maxExports), keys: keys, now: now}
	if s.postgres {
		s.w = bun.NewDB(loc.openPostgres(), pgdialect.New())
		s.r = s.w
		s.planned = loc.openPlanned()
	} else {
		if err := loc.checkFile(); err != nil {
			return nil, err
		}
		s.w = bun.NewDB(loc.openSQLite(false), sqlitedialect.New())
		s.r = bun.NewDB(loc.openSQLite(true), sqlitedialect.New())
	}
	s.briefing = briefing(s.r, s.postgres)
	if err := s.check(ctx, loc); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *Store) check(ctx context.Context, loc location) error {
	version, err := loc.schemaVersion(ctx, s.w.DB)
	if err == nil {
		err = loc.checkVersion(version)
	}
	if err != nil {
		return err
	}
	if s.postgres {
		if err := s.planned.PingContext(ctx); err != nil {
			return loc.explain(err)
		}
	}
	// A file that can be read but not written is found now, not at the first write.
	return loc.explain(s.write(ctx, func(ctx context.Context, tx bun.Tx) error { return nil }))
}

// Close closes all connections.
func (s *Store) Close() error {
	if s.postgres {
		return errors.Join(s.planned.Close(), s.w.Close())
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

// deliveriesByScope is the index of deliveries by their message. Where two insert the
// very same row at once, PostgreSQL may meet it before the primary key, for which
// there is a way out; the second try finds the row.
const deliveriesByScope = "deliveries_by_scope"

// write runs fn, which writes few rows, in a transaction. fn may run again and must
// not keep anything of a run before.
func (s *Store) write(ctx context.Context, fn func(ctx context.Context, tx bun.Tx) error) error {
	return s.writeRows(ctx, 1, fn)
}

// writeRows is write for about so many rows: on SQLite, large writes let small ones
// go before them.
func (s *Store) writeRows(ctx context.Context, rows int, fn func(ctx context.Context, tx bun.Tx) error) error {
	if !s.postgres {
		if err := s.lanes.enter(ctx, rows > smallWrite); err != nil {
			return err
		}
		defer s.lanes.leave()
		if err := s.prepare(ctx); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		err := s.w.RunInTx(ctx, nil, fn)
		if try < maxTries && conflicts(err) {
			continue
		}
		return err
	}
}

// conflicts tells whether a statement met another transaction, and may do better alone.
func conflicts(err error) bool {
	var pg *pgconn.PgError
	return errors.As(err, &pg) && (pg.Code == pgDeadlock || pg.Code == pgSerialization || pg.ConstraintName == deliveriesByScope)
}

// maxPrepared bounds the statements that are kept prepared.
const maxPrepared = 50

// prepare prepares what a transaction before has missed: the transaction itself
// has the only connection.
func (s *Store) prepare(ctx context.Context) error {
	for _, text := range s.missed {
		stmt, err := s.w.DB.PrepareContext(ctx, text)
		if err != nil {
			return err
		}
		s.prepared[text] = stmt
	}
	s.missed = s.missed[:0]
	return nil
}

// statement returns a prepared statement for a transaction of write on SQLite.
// Preparing it takes about as long as running it for twenty rows, so it is kept.
func (s *Store) statement(ctx context.Context, tx bun.Tx, text string) (*sql.Stmt, error) {
	if stmt := s.prepared[text]; stmt != nil {
		return tx.Tx.StmtContext(ctx, stmt), nil
	}
	if len(s.prepared)+len(s.missed) < maxPrepared && !slices.Contains(s.missed, text) {
		s.missed = append(s.missed, text)
	}
	return tx.Tx.PrepareContext(ctx, text)
}

// query runs a statement of the hot path, in a transaction or, if tx is nil, outside
// of one; its text never changes.
func (s *Store) query(ctx context.Context, tx *bun.Tx, text string, args ...any) (*sql.Rows, error) {
	switch {
	case tx == nil && s.postgres:
		return s.planned.QueryContext(ctx, text, append([]any{pgx.QueryExecModeCacheStatement}, args...)...)
	case tx == nil:
		return s.r.DB.QueryContext(ctx, text, args...)
	case s.postgres:
		return tx.Tx.QueryContext(ctx, text, append([]any{pgx.QueryExecModeCacheDescribe}, args...)...)
	}
	stmt, err := s.statement(ctx, *tx, text)
	if err != nil {
		return nil, err
	}
	return stmt.QueryContext(context.WithoutCancel(ctx), args...)
}

// rowsByID reads the rows of a table of which a column, that tells them apart, is one of
// ids.
func rowsByID[T, ID any](ctx context.Context, s *Store, column string, ids []ID) (rows []T, err error) {
	q := s.r.NewSelect().Model(&rows)
	if !s.postgres {
		return rows, q.Where("? IN (?)", bun.Ident(column), bun.List(ids)).Scan(ctx)
	}
	found, err := s.query(ctx, nil, q.Where("? = ANY ($1)", bun.Ident(column)).String(), ids)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	return rows, s.r.ScanRows(ctx, found, &rows)
}

// rowByID reads one row by its id; sql.ErrNoRows if the scope has none.
func rowByID[T interface{ scope() waypost.Scope }](ctx context.Context, s *Store, sc waypost.Scope, id string) (row T, err error) {
	rows, err := rowsByID[T](ctx, s, "id", []string{id})
	if err != nil {
		return row, err
	}
	if len(rows) == 0 || rows[0].scope() != sc {
		return row, sql.ErrNoRows
	}
	return rows[0], nil
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
	pgSerialization  = "40001"
	pgDivisionByZero = "22012"
	pgStalePlan      = "0A000"
	pgNoStatement    = "26000"
	pgDeadlock       = "40P01"
	pgUnique         = "23505"
	pgReadOnly       = "25006"

	sqliteBusy     = 5
	sqliteReadOnly = 8
	sqliteIO       = 10
	sqliteFull     = 13
	sqliteCantOpen = 14
	sqliteNotADB   = 26
	sqliteUnique   = 2067 // an extended one
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
