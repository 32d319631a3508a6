package temporal_test

import (
	"bytes"
	"context"
	"database/sql"
	"log/slog"
	"net/url"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"waypost/devstack/temporal"
	"waypost/store/storetest"
)

func TestServerOnPostgreSQL(t *testing.T) {
	t.Parallel()
	server := storetest.RequirePostgres(t)
	databaseURL := storetest.PostgresURL(t)
	u, err := url.Parse(databaseURL)
	if err != nil {
		t.Fatal(err)
	}
	admin, err := sql.Open("pgx", server)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if _, err := admin.Exec("DROP DATABASE IF EXISTS " + u.Path[1:] + "_visibility WITH (FORCE)"); err != nil {
			t.Error(err)
		}
		if err := admin.Close(); err != nil {
			t.Error(err)
		}
	})
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	var logged bytes.Buffer
	o := temporal.Options{Addr: freeAddr(t), DataDir: t.TempDir(), DatabaseURL: databaseURL, Log: slog.New(slog.NewTextHandler(&logged, nil))}
	for round := range 2 { // the second start finds the schema
		s := start(ctx, t, o)
		c := dial(ctx, t, s.Addr())
		if round == 0 {
			if _, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "enr_1", TaskQueue: "q"}, "Journey"); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := c.DescribeWorkflowExecution(ctx, "enr_1", ""); err != nil || got.GetWorkflowExecutionInfo().GetType().GetName() != "Journey" {
			t.Errorf("round %d: %v, %v", round, got, err)
		}
		c.Close()
		if err := s.Stop(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if said := complaints(logged.String()); said != "" {
		t.Errorf("the server complained:\n%s", said)
	}
}

func TestPostgresURLs(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"mysql://h/db", "postgres://h", "postgres://h/", "postgres:///db", "postgres://h/a/b", `postgres://h/a"b`, "://"} {
		_, err := temporal.Start(context.Background(), temporal.Options{
			Addr: "127.0.0.1:1", DatabaseURL: bad, Log: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}
