package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/url"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*/*.sql
var migrations embed.FS

// versionTable is where goose notes which files it has applied to a database. Builds of
// other schemas noted that in earlierTables.
const versionTable = "schema_versions"

var earlierTables = []string{"goose_db_version", "schema_version"}

// migrateTries is how many seconds a process waits for another that migrates.
const migrateTries = 600

// Migrate brings the schema of the database that url names to the one of this
// binary and returns the versions before and after. On SQLite it makes the file
// first. Several processes may run it at once: one does the work. The error is
// one line that names the setting.
func Migrate(ctx context.Context, url string) (from, to int64, err error) {
	loc, err := parseURL(url)
	if err != nil {
		return 0, 0, err
	}
	if loc.postgres != nil {
		locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(1, migrateTries))
		if err != nil {
			return 0, 0, err
		}
		db := loc.openPostgres()
		defer func() { err = errors.Join(err, db.Close()) }()
		return loc.migrate(ctx, db, goose.DialectPostgres, goose.WithSessionLocker(locker))
	}
	if err := loc.createFile(); err != nil {
		return 0, 0, err
	}
	unlock, err := loc.lockSQLite(ctx)
	if err != nil {
		return 0, 0, err
	}
	defer func() { err = errors.Join(err, unlock()) }()
	db := loc.openSQLite(false)
	defer func() { err = errors.Join(err, db.Close()) }()
	return loc.migrate(ctx, db, goose.DialectSQLite3)
}

func (l location) migrate(
	ctx context.Context, db *sql.DB, dialect goose.Dialect, options ...goose.ProviderOption,
) (from, to int64, err error) {
	from, err = l.schemaVersion(ctx, db)
	if err != nil {
		return 0, 0, err
	}
	if from > newest() {
		return from, from, l.checkVersion(from)
	}
	files, err := fs.Sub(migrations, l.migrations())
	if err != nil {
		return 0, 0, err
	}
	provider, err := goose.NewProvider(dialect, db, files, append(options, goose.WithTableName(versionTable), goose.WithDisableGlobalRegistry(true))...)
	if err != nil {
		return 0, 0, fmt.Errorf("read migrations: %w", err)
	}
	if _, err := provider.Up(ctx); err != nil {
		return 0, 0, l.explain(fmt.Errorf("migrate: %w", err))
	}
	to, err = l.schemaVersion(ctx, db)
	return from, to, err
}

func (l location) migrations() string {
	if l.postgres != nil {
		return "migrations/postgres"
	}
	return "migrations/sqlite"
}

// lockSQLite keeps other processes from migrating the same file. The lock is an
// open write transaction on an empty database beside it, so that it ends with
// its process however that ends. goose has a lock for PostgreSQL only.
func (l location) lockSQLite(ctx context.Context) (unlock func() error, err error) {
	beside := location{path: l.path + ".migrate"}
	if err := beside.createFile(); err != nil {
		return nil, err
	}
	// Without a WAL: to switch to one is refused while another process has the file open.
	db := beside.openFile(url.Values{"_pragma": {busyTimeout}, "_txlock": {"immediate"}}, 1)
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return nil, errors.Join(beside.explain(err), db.Close())
	}
	return func() error { return errors.Join(tx.Rollback(), db.Close()) }, nil
}

// newest is the schema version of this binary: the number of the last of the
// embedded files, which are alike for both databases (a test looks).
func newest() int64 {
	files, err := fs.Glob(migrations, "migrations/sqlite/*.sql")
	if err != nil {
		panic(err) // only for a malformed pattern
	}
	version, err := goose.NumericComponent(files[len(files)-1])
	if err != nil {
		panic(err) // only for a file without a number
	}
	return version
}

// schemaVersion reads the version that goose noted, 0 in an empty database. It refuses a
// database of an earlier build.
func (l location) schemaVersion(ctx context.Context, db *sql.DB) (version int64, err error) {
	noted, err := l.hasTable(ctx, db, versionTable)
	if err == nil && noted {
		err = db.QueryRowContext(ctx, "SELECT COALESCE(MAX(version_id), 0) FROM "+versionTable+" WHERE is_applied").Scan(&version)
	}
	if err != nil || noted {
		return version, l.explain(err)
	}
	for _, table := range earlierTables {
		if earlier, err := l.hasTable(ctx, db, table); err != nil {
			return 0, l.explain(err)
		} else if earlier {
			return 0, fmt.Errorf("WAYPOST_DATABASE_URL: %s was made by an earlier build, which this one cannot read; begin with an empty database (waypost-dev: with another WAYPOST_DATA_DIR)", l.name())
		}
	}
	return 0, nil
}

func (l location) hasTable(ctx context.Context, db *sql.DB, name string) (found bool, err error) {
	query := "SELECT count(*) > 0 FROM sqlite_master WHERE type = 'table' AND name = '" + name + "'"
	if l.postgres != nil {
		query = "SELECT to_regclass('" + name + "') IS NOT NULL"
	}
	err = db.QueryRowContext(ctx, query).Scan(&found)
	return found, err
}

func (l location) name() string {
	if l.postgres != nil {
		return "the database " + l.postgres.Database
	}
	return l.path
}

// checkVersion says what to do about a schema that is not this binary's.
func (l location) checkVersion(version int64) error {
	name := l.name()
	switch want := newest(); {
	case version < want:
		return fmt.Errorf("WAYPOST_DATABASE_URL: %s has schema version %d, this binary needs %d; run `waypost migrate`", name, version, want)
	case version > want:
		return fmt.Errorf("WAYPOST_DATABASE_URL: %s has schema version %d, this binary knows up to %d; use a newer waypost", name, version, want)
	}
	return nil
}
