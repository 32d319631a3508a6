package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"github.com/uptrace/bun"

	"waypost"
)

// Store is the database. It is safe for concurrent use.
type Store struct {
	// r only reads, w reads and writes. On SQLite w has one connection, so that
	// writers queue up here instead of failing there with SQLITE_BUSY; on
	// PostgreSQL both are one pool.
	r, w     *bun.DB
	planned  *sql.DB // of PostgreSQL alone, see query
	postgres bool    // only files db_* ask
	// On SQLite, lanes order those who write. Who is in has the statements that are
	// prepared for the connection of w, by their texts, and the texts of others that
	// were needed.
	lanes    lanes
	prepared map[string]*sql.Stmt
	missed   []string

	exports chan struct{} // holds one for each export that runs

	together together // see enrollTogether

	versions *lru.Cache[versionKey, waypost.JourneyVersion]
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
	versions, _ := lru.New[versionKey, waypost.JourneyVersion](maxVersions) // fails for a size below 1 only
	s := &Store{
		prepared: map[string]*sql.Stmt{}, exports: make(chan struct{}, maxExports), versions: versions, keys: keys, now: now,
	}
	if err := s.connect(loc); err != nil {
		return nil, err
	}
	s.briefing = s.briefingText()
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
	if s.planned != nil {
		if err := s.planned.PingContext(ctx); err != nil {
			return loc.explain(err)
		}
	}
	// A file that can be read but not written is found now, not at the first write.
	return loc.explain(s.write(ctx, func(ctx context.Context, tx bun.Tx) error { return nil }))
}

// Close closes all connections.
func (s *Store) Close() error {
	err := errors.Join(s.r.Close(), s.w.Close()) // closing one pool twice is no error
	if s.planned != nil {
		err = errors.Join(err, s.planned.Close())
	}
	return err
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
