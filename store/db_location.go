package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/uptrace/bun"
	"github.com/uptrace/bun/dialect/pgdialect"
	"github.com/uptrace/bun/dialect/sqlitedialect"
	"modernc.org/sqlite"
)

// location is a parsed WAYPOST_DATABASE_URL: one of its members is set.
type location struct {
	path     string
	postgres *pgx.ConnConfig
}

// Connections that one process holds at most.
const (
	postgresConns  = 14
	plannedConns   = 16
	sqliteReaders  = 10 // six for exports (gateway/export.go)
	privateFile    = 0o600
	privateDir     = 0o700
	notPrivateMask = 0o077

	plannedStatements = 100 // of each connection
)

func parseURL(raw string) (location, error) {
	if path, ok := strings.CutPrefix(raw, "sqlite:"); ok {
		if path == "" || strings.HasPrefix(path, ":") {
			return location{}, fmt.Errorf("WAYPOST_DATABASE_URL: sqlite: needs the path of a file, such as sqlite:./waypost.db")
		}
		return location{path: path}, nil
	}
	if !strings.HasPrefix(raw, "postgres://") && !strings.HasPrefix(raw, "postgresql://") {
		return location{}, fmt.Errorf("WAYPOST_DATABASE_URL: must be sqlite:PATH or postgres://…")
	}
	cfg, err := pgx.ParseConfig(raw)
	if err != nil {
		// The parser's own message repeats the URL, which may hold a password.
		return location{}, fmt.Errorf("WAYPOST_DATABASE_URL: is no valid postgres:// URL%s", reason(err))
	}
	// Values stand in the statement's text (bun quotes them), so preparing each
	// text would cost a round trip and gain nothing.
	cfg.DefaultQueryExecMode = pgx.QueryExecModeSimpleProtocol
	cfg.RuntimeParams["standard_conforming_strings"] = "on"
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = "waypost"
	}
	return location{postgres: cfg}, nil
}

// reason returns the innermost cause of an error of the URL's parser, which
// never holds the URL itself.
func reason(err error) string {
	cause := errors.Unwrap(err)
	var inURL *url.Error
	if errors.As(cause, &inURL) {
		cause = inURL.Err
	}
	if cause == nil {
		return ""
	}
	return ": " + cause.Error()
}

// connect opens the pools of a store.
func (s *db) connect(l location) error {
	if s.postgres = l.postgres != nil; s.postgres {
		s.w = bun.NewDB(l.openPostgres(), pgdialect.New())
		s.r = s.w
		s.planned = l.openPlanned()
		return nil
	}
	if err := l.checkFile(); err != nil {
		return err
	}
	s.w = bun.NewDB(l.openSQLite(false), sqlitedialect.New())
	s.r = bun.NewDB(l.openSQLite(true), sqlitedialect.New())
	return nil
}

func (l location) openPostgres() *sql.DB {
	db := stdlib.OpenDB(*l.postgres)
	db.SetMaxOpenConns(postgresConns)
	db.SetMaxIdleConns(postgresConns)
	return db
}

// openPlanned opens the pool for statements that are planned once for each connection,
// by an index for whatever they look up: a plan that was made while a table was nearly
// empty is to be as good when it is full.
func (l location) openPlanned() *sql.DB {
	const settings = "SET plan_cache_mode = force_generic_plan; SET enable_seqscan = off; SET enable_mergejoin = off; SET jit = off"
	cfg := l.postgres.Copy()
	cfg.StatementCacheCapacity = plannedStatements
	db := stdlib.OpenDB(*cfg, stdlib.OptionAfterConnect(func(ctx context.Context, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, settings)
		return err
	}))
	db.SetMaxOpenConns(plannedConns)
	db.SetMaxIdleConns(plannedConns)
	return db
}

// openSQLite opens a pool: one connection that writes, or several that read.
func (l location) openSQLite(readers bool) *sql.DB {
	pragmas := []string{busyTimeout, "foreign_keys(1)", "synchronous(FULL)", "temp_store(MEMORY)", "cache_size(-16000)"}
	query := url.Values{}
	conns := 1
	if readers {
		pragmas = append(pragmas, "query_only(1)")
		conns = sqliteReaders
	} else {
		// secure_delete overwrites what is deleted: the file holds no erased person.
		pragmas = append(pragmas, "journal_mode(WAL)", "secure_delete(ON)")
		query.Set("_txlock", "immediate")
	}
	query["_pragma"] = pragmas
	return l.openFile(query, conns)
}

// busyTimeout is how long SQLite waits for a lock, in milliseconds.
const busyTimeout = "busy_timeout(15000)"

func (l location) openFile(query url.Values, conns int) *sql.DB {
	path := strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(filepath.ToSlash(l.path))
	db, err := sql.Open("sqlite", "file:"+path+"?"+query.Encode())
	if err != nil {
		panic(err) // only for a driver that is not linked
	}
	db.SetMaxOpenConns(conns)
	db.SetMaxIdleConns(conns)
	return db
}

// createFile makes the database file and its directory, readable for their
// owner only. SQLite gives its -wal and -shm files the same mode.
func (l location) createFile() error {
	if err := os.MkdirAll(filepath.Dir(l.path), privateDir); err != nil {
		return fmt.Errorf("WAYPOST_DATABASE_URL: cannot write %s: %w", l.path, cause(err))
	}
	f, err := os.OpenFile(l.path, os.O_RDWR|os.O_CREATE, privateFile)
	if err != nil {
		return fmt.Errorf("WAYPOST_DATABASE_URL: cannot write %s: %w", l.path, cause(err))
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("WAYPOST_DATABASE_URL: cannot write %s: %w", l.path, cause(err))
	}
	return l.checkFile()
}

// checkFile looks at an existing database file and takes other users' access away.
func (l location) checkFile() error {
	info, err := os.Stat(l.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("WAYPOST_DATABASE_URL: there is no database %s; run `waypost migrate` to make it", l.path)
	case err != nil:
		return fmt.Errorf("WAYPOST_DATABASE_URL: cannot read %s: %w", l.path, cause(err))
	case !info.Mode().IsRegular():
		return fmt.Errorf("WAYPOST_DATABASE_URL: %s is not a file", l.path)
	case info.Mode().Perm()&notPrivateMask != 0:
		if err := os.Chmod(l.path, privateFile); err != nil {
			return fmt.Errorf("WAYPOST_DATABASE_URL: other users can read %s: %w", l.path, cause(err))
		}
	}
	return nil
}

// cause drops the path that file system errors repeat.
func cause(err error) error {
	var in *fs.PathError
	if errors.As(err, &in) {
		return in.Err
	}
	return err
}

// explain turns an error of opening or migrating into one line that names the
// setting. It returns nil for nil.
func (l location) explain(err error) error {
	if err == nil || errors.Is(err, context.Canceled) {
		return err
	}
	if l.postgres != nil {
		// pgx names user, database and address, never the password, on several lines.
		return fmt.Errorf("WAYPOST_DATABASE_URL: cannot use the database: %w", oneLine{err})
	}
	var lite *sqlite.Error
	if errors.As(err, &lite) {
		switch lite.Code() & 0xff {
		case sqliteNotADB:
			return fmt.Errorf("WAYPOST_DATABASE_URL: %s is not an SQLite database", l.path)
		case sqliteReadOnly, sqliteCantOpen:
			return fmt.Errorf("WAYPOST_DATABASE_URL: cannot write %s: the file or its directory is not writable", l.path)
		case sqliteFull, sqliteIO:
			return fmt.Errorf("WAYPOST_DATABASE_URL: cannot write %s: %w", l.path, oneLine{err})
		}
	}
	return fmt.Errorf("WAYPOST_DATABASE_URL: cannot use %s: %w", l.path, oneLine{err})
}

// oneLine shows an error without its line breaks.
type oneLine struct{ error }

func (e oneLine) Error() string { return strings.Join(strings.Fields(e.error.Error()), " ") }
func (e oneLine) Unwrap() error { return e.error }
