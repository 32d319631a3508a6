package temporal

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/persistence/sql/sqlplugin"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	sqliteschema "go.temporal.io/server/schema/sqlite"
)

// schemaGeneration is written into the database file (PRAGMA user_version). The
// server does not migrate its SQLite schema: a build with another schema counts
// this up and brings the migration.
const schemaGeneration = 1

// sqliteStore prepares the file at path and describes it to the server. WAL with
// synchronous=NORMAL survives kill -9; a power cut can lose the last moments but
// never corrupts.
func sqliteStore(ctx context.Context, path string) (*config.SQL, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		err = createSQLite(ctx, path)
	}
	if err == nil {
		err = prepareSQLite(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	return sqliteConfig(path, map[string]string{
		"mode":         "rw",
		"journal_mode": "wal",
		"synchronous":  "1",
		"busy_timeout": "5000",
	}), nil
}

// createSQLite makes the schema in a file beside and renames it, so that a
// process killed half-way leaves nothing that looks like a database.
func createSQLite(ctx context.Context, path string) error {
	next := path + ".new"
	for _, f := range []string{next, next + "-journal", path + "-wal", path + "-shm"} {
		if err := os.Remove(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("clear a former start's leftovers: %w", err)
		}
	}
	// The server's plugin keeps a connection open for the life of the process, so
	// the file is made with one of our own.
	db, err := openSQLite(next, "rwc")
	if err != nil {
		return err
	}
	err = errors.Join(createSchema(ctx, db), db.Close())
	if err == nil {
		err = os.Chmod(next, 0o600)
	}
	if err == nil {
		err = os.Rename(next, path)
	}
	if err != nil {
		return fmt.Errorf("create Temporal's database: %w", err)
	}
	return nil
}

func createSchema(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	if err := sqliteschema.SetupSchemaOnDB(schemaTx{ctx: ctx, tx: tx}); err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, fmt.Sprintf("PRAGMA user_version = %d", schemaGeneration)); err != nil {
		return err
	}
	return tx.Commit()
}

// prepareSQLite refuses a file of another schema, and drops indexes that nobody uses.
func prepareSQLite(ctx context.Context, path string) error {
	db, err := openSQLite(path, "rw")
	if err != nil {
		return err
	}
	defer db.Close()
	var found int
	if err := db.QueryRowContext(ctx, "PRAGMA user_version").Scan(&found); err != nil {
		return fmt.Errorf("read Temporal's database %s: %w", path, err)
	}
	if found > schemaGeneration {
		return fmt.Errorf("%s was written by a newer waypost-dev (schema %d, this one knows %d): use that one, or another WAYPOST_DATA_DIR", path, found, schemaGeneration)
	}
	if found < schemaGeneration {
		return fmt.Errorf("%s has the Temporal schema %d, this waypost-dev needs %d: use another WAYPOST_DATA_DIR", path, found, schemaGeneration)
	}
	if err := dropUnusedIndexes(ctx, db, "SELECT name FROM sqlite_master WHERE type = 'index' AND tbl_name = 'executions_visibility'"); err != nil {
		return fmt.Errorf("set up Temporal's database: %w", err)
	}
	return nil
}

// checkpoint folds the write-ahead log into the file after the server stopped.
func checkpoint(ctx context.Context, path string) error {
	db, err := openSQLite(path, "rw")
	if err != nil {
		return err
	}
	defer db.Close()
	if _, err := db.ExecContext(ctx, "PRAGMA wal_checkpoint(TRUNCATE)"); err != nil {
		return fmt.Errorf("checkpoint Temporal's database: %w", err)
	}
	return nil
}

func openSQLite(path, mode string) (*sql.DB, error) {
	db, err := sql.Open("sqlite", "file:"+uriPath(path)+"?mode="+mode+"&_pragma=busy_timeout(5000)")
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", filepath.Base(path), err)
	}
	db.SetMaxOpenConns(1)
	return db, nil
}

func sqliteConfig(path string, attributes map[string]string) *config.SQL {
	return &config.SQL{PluginName: sqlite.PluginName, DatabaseName: uriPath(path), ConnectAttributes: attributes}
}

// uriPath writes a path for the SQLite URIs that the server builds without
// quoting anything.
func uriPath(path string) string {
	return strings.NewReplacer("%", "%25", "?", "%3f", "#", "%23").Replace(path)
}

// schemaTx runs the server's schema statements in one transaction. Nothing else
// of the interface is used by the set-up.
type schemaTx struct {
	sqlplugin.AdminDB
	ctx context.Context
	tx  *sql.Tx
}

func (s schemaTx) Exec(stmt string, args ...any) error {
	_, err := s.tx.ExecContext(s.ctx, stmt, args...)
	return err
}
