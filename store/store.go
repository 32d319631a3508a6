package store

import (
	"context"
	"database/sql"
	"errors"
	"sync/atomic"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// db is what all nouns work with.
type db struct {
	// r only reads, w reads and writes. On SQLite w has one connection, so that
	// writers queue up here instead of failing there with SQLITE_BUSY; on
	// PostgreSQL both are one pool.
	r, w     *bun.DB
	planned  *sql.DB // of PostgreSQL alone, see query
	postgres bool    // only files db_* ask
	// On SQLite, writers is where transactions queue. The one that writes has the statements that are
	// prepared for the connection of w, by their texts, and notes the texts that it missed.
	writers  writerQueue
	prepared map[string]*sql.Stmt
	missed   []string

	counted atomic.Int64 // when countGrown looked, in Unix milliseconds

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
	s := newStore(&db{prepared: map[string]*sql.Stmt{}, keys: keys, now: now})
	if err := s.connect(loc); err != nil {
		return nil, err
	}
	s.attempts.briefing = s.attempts.briefingText()
	if err := s.check(ctx, loc); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

func (s *db) check(ctx context.Context, loc location) error {
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
func (s *db) Close() error {
	err := errors.Join(s.r.Close(), s.w.Close()) // closing one pool twice is no error
	if s.planned != nil {
		err = errors.Join(err, s.planned.Close())
	}
	return err
}

// Ping tells whether the database answers.
func (s *db) Ping(ctx context.Context) (err error) {
	defer wrap(&err, "ping database")
	_, err = s.r.ExecContext(ctx, "SELECT 1")
	return err
}

// time is the current time as the database holds it.
func (s *db) time() time.Time { return s.now().UTC().Truncate(time.Microsecond) }
