package storetest

import (
	"context"
	"database/sql"
	"testing"
	"time"

	"waypost/store"
)

// PostgresPool returns an Open for the tests below t that gives a database whose
// test has ended to another one, as it was when it was new: for the server, to make
// and to drop a database is more work than most tests. They are dropped when t ends.
func PostgresPool(t testing.TB) Open {
	free := make(chan string, 100) // more than there are tests at a time
	return func(test testing.TB, now func() time.Time) *store.Store {
		test.Helper()
		var dbURL string
		select {
		case dbURL = <-free:
		default:
			dbURL = newPostgres(test, t)
			migrate(test, dbURL)
			run(test, dbURL, keepNew)
		}
		// This comes after the store is closed. What cannot be made new is not used again.
		test.Cleanup(func() {
			if run(test, dbURL, makeNew) {
				free <- dbURL
			}
		})
		return openStore(test, dbURL, now)
	}
}

func run(t testing.TB, dbURL, statements string) bool {
	t.Helper()
	db, err := sql.Open("pgx", dbURL)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.ExecContext(context.Background(), statements); err != nil {
		t.Errorf("test database: %v", err)
		return false
	}
	return true
}

// keepNew keeps the rows that the migrations wrote. No test takes the server's power
// away, so that no commit needs to wait for its disk.
const keepNew = `
DO $$
DECLARE t name; n bigint;
BEGIN
  EXECUTE format('ALTER DATABASE %I SET synchronous_commit = off', current_database());
  CREATE SCHEMA kept;
  FOR t IN SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'schema_versions' LOOP
    EXECUTE format('SELECT count(*) FROM %I', t) INTO n;
    IF n > 0 THEN
      EXECUTE format('CREATE TABLE kept.%I AS TABLE public.%I', t, t);
    END IF;
  END LOOP;
END $$`

// makeNew ends the connections that the server has not seen end yet, empties the
// tables that have had rows, brings those of the migrations back, and lets all
// sequences begin again.
const makeNew = `
DO $$
DECLARE used text; t name;
BEGIN
  PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid();
  SELECT string_agg(oid::regclass::text, ', ') INTO used FROM pg_class
    WHERE relnamespace = 'public'::regnamespace AND relkind = 'r' AND relname <> 'schema_versions' AND pg_relation_size(oid) > 0;
  IF used IS NOT NULL THEN
    EXECUTE 'TRUNCATE ' || used || ' CASCADE';
  END IF;
  FOR t IN SELECT relname FROM pg_class WHERE relnamespace = 'kept'::regnamespace AND relkind = 'r' LOOP
    EXECUTE format('INSERT INTO public.%I SELECT * FROM kept.%I', t, t);
  END LOOP;
  PERFORM setval(seqrelid, seqstart, false) FROM pg_sequence JOIN pg_class c ON c.oid = seqrelid
    WHERE relnamespace = 'public'::regnamespace AND relname NOT LIKE 'schema_versions_%';
END $$`
