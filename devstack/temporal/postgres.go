package temporal

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"strings"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/log"
	"go.temporal.io/server/common/persistence/sql/sqlplugin/postgresql"
	"go.temporal.io/server/tools/common/schema"
	sqltool "go.temporal.io/server/tools/sql"
)

// visibilitySuffix names the second database that Temporal needs: its two
// schemas keep their versions in tables of the same name.
const visibilitySuffix = "_visibility"

// postgresStores brings both databases of the URL's server up to date and
// describes them. The databases are made where they do not exist.
func postgresStores(ctx context.Context, rawURL string, logger log.Logger) (main, visibility *config.SQL, err error) {
	main, err = postgresConfig(rawURL)
	if err != nil {
		return nil, nil, err
	}
	second := *main
	second.DatabaseName += visibilitySuffix
	visibility = &second
	for _, part := range []struct {
		cfg    *config.SQL
		schema string
	}{{main, "postgresql/v12/temporal"}, {visibility, "postgresql/v12/visibility"}} {
		if err := createPostgres(ctx, rawURL, part.cfg.DatabaseName); err != nil {
			return nil, nil, err
		}
		if err := migratePostgres(part.cfg, part.schema, logger); err != nil {
			return nil, nil, fmt.Errorf("set up Temporal's database %s: %w", part.cfg.DatabaseName, err)
		}
	}
	db, err := openPostgres(rawURL, visibility.DatabaseName)
	if err != nil {
		return nil, nil, err
	}
	defer db.Close()
	if err := dropUnusedIndexes(ctx, db, "SELECT indexname FROM pg_indexes WHERE tablename = 'executions_visibility'"); err != nil {
		return nil, nil, fmt.Errorf("set up Temporal's database %s: %w", visibility.DatabaseName, err)
	}
	return main, visibility, nil
}

// openPostgres connects to a database of the URL's server.
func openPostgres(rawURL, name string) (*sql.DB, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil, err
	}
	u.Path = "/" + name
	db, err := sql.Open("pgx", u.String())
	if err != nil {
		return nil, fmt.Errorf("connect to WAYPOST_DEV_TEMPORAL_DATABASE_URL: %w", err)
	}
	return db, nil
}

// postgresConfig reads a postgres:// URL. Its query becomes connect attributes.
func postgresConfig(rawURL string) (*config.SQL, error) {
	u, err := url.Parse(rawURL)
	if err != nil || (u.Scheme != "postgres" && u.Scheme != "postgresql") || u.Hostname() == "" {
		return nil, fmt.Errorf("WAYPOST_DEV_TEMPORAL_DATABASE_URL must look like postgres://user:password@host:5432/database")
	}
	name := strings.TrimPrefix(u.Path, "/")
	if name == "" || strings.ContainsAny(name, `"/`) {
		return nil, fmt.Errorf("WAYPOST_DEV_TEMPORAL_DATABASE_URL must name a database, such as postgres://…/temporal")
	}
	port := u.Port()
	if port == "" {
		port = "5432"
	}
	password, _ := u.User.Password()
	cfg := &config.SQL{
		PluginName:        postgresql.PluginNamePGX,
		User:              u.User.Username(),
		Password:          password,
		DatabaseName:      name,
		ConnectAddr:       net.JoinHostPort(u.Hostname(), port),
		ConnectProtocol:   "tcp",
		ConnectAttributes: map[string]string{},
		MaxConns:          20,
		MaxIdleConns:      20,
	}
	for key, values := range u.Query() {
		cfg.ConnectAttributes[key] = values[len(values)-1]
	}
	return cfg, nil
}

// createPostgres makes the database if the server does not have it.
func createPostgres(ctx context.Context, rawURL, name string) error {
	db, err := openPostgres(rawURL, "postgres")
	if err != nil {
		return err
	}
	defer db.Close()
	var exists bool
	if err := db.QueryRowContext(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&exists); err != nil {
		return fmt.Errorf("connect to WAYPOST_DEV_TEMPORAL_DATABASE_URL: %w", err)
	}
	if exists {
		return nil
	}
	if _, err := db.ExecContext(ctx, `CREATE DATABASE "`+name+`"`); err != nil {
		return fmt.Errorf("create the database %s for Temporal: %w", name, err)
	}
	return nil
}

func migratePostgres(cfg *config.SQL, schemaName string, logger log.Logger) error {
	conn, err := sqltool.NewConnection(cfg, logger)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.ReadSchemaVersion(); err != nil {
		setup := &schema.SetupConfig{InitialVersion: "0.0"}
		if err := schema.NewSetupSchemaTask(conn, setup, logger).Run(); err != nil {
			return err
		}
	}
	return schema.NewUpdateSchemaTask(conn, &schema.UpdateConfig{SchemaName: schemaName}, logger).Run()
}
