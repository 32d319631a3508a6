// Package storetest is the suite that every database of the store passes, and
// the databases that tests of other packages can use. It is for tests only.
package storetest

import (
	"context"
	"crypto/rand"
	"database/sql"
	"encoding/base64"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver that makes and drops databases

	"waypost"
	"waypost/store"
)

// Open opens an empty, migrated store for one test, whose clock is now, and closes
// it when the test ends.
type Open func(t testing.TB, now func() time.Time) *store.Store

// Run runs the suite, each test on a store of its own.
func Run(t *testing.T, open Open) {
	for _, group := range []struct {
		name  string
		tests []test
	}{
		{"applications", applicationTests},
		{"users", userTests},
		{"leads", leadTests},
		{"lead changes", leadChangeTests},
		{"imports", importTests},
		{"webhooks", webhookTests},
		{"webhook health", healthTests},
		{"webhook history", historyTests},
		{"journeys", journeyTests},
		{"journey versions", journeyVersionTests},
		{"enrollments", enrollmentTests},
		{"enrollment lists", enrollmentListTests},
		{"enroll nodes", onwardTests},
		{"effects of nodes", effectTests},
		{"progress", progressTests},
		{"cohorts", cohortTests},
		{"launches", launchTests},
		{"launches with tests", trialTests},
		{"recurring launches", recurringTests},
		{"controls", controlTests},
		{"entered segments", enteredTests},
		{"events", eventTests},
		{"event lists", eventListTests},
		{"event imports", eventImportTests},
		{"follow", followTests},
		{"exits", exitTests},
		{"goals", goalTests},
		{"entries", entryTests},
		{"event days", eventDayTests},
		{"event times", eventTimeTests},
		{"notices", noticeTests},
		{"moves", moveTests},
		{"statistics", statisticTests},
		{"deliveries", deliveryTests},
		{"attempts", attemptTests},
		{"caps", capTests},
		{"suppressions", suppressionTests},
		{"test leads", testLeadTests},
		{"redeliveries", redeliveryTests},
		{"subscriptions", subscriptionTests},
		{"segments", segmentTests},
		{"retention", retentionTests},
		{"erasure", erasureTests},
		{"lists", listTests},
		{"idempotency", idempotencyTests},
		{"audit", auditTests},
		{"articles", articleTests},
		{"article index", articleIndexTests},
	} {
		t.Run(group.name, func(t *testing.T) {
			t.Parallel()
			for _, test := range group.tests {
				t.Run(test.name, func(t *testing.T) {
					t.Parallel()
					clock := NewClock()
					f := &fixture{Store: open(t, clock.Now), clock: clock}
					f.SetGoals(goalTotals{})
					test.run(t, f)
				})
			}
		})
	}
}

type test struct {
	name string
	run  func(t *testing.T, f *fixture)
}

// Clock is a clock that moves only when told. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at a time with microseconds.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 3, 14, 15, 9, 26, 535_897_000, time.UTC)}
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock on.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Keys returns a keyring with one random key.
func Keys(t testing.TB) *waypost.Keyring {
	t.Helper()
	raw := make([]byte, 32)
	if _, err := rand.Read(raw); err != nil {
		t.Fatal(err)
	}
	keys, err := waypost.ParseKeyring("test:" + base64.StdEncoding.EncodeToString(raw))
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

// SQLite opens a store on a new SQLite file.
func SQLite(t testing.TB, now func() time.Time) *store.Store {
	t.Helper()
	return openStore(t, SQLiteURL(t), now)
}

// SQLiteURL returns the URL of a new, migrated SQLite file. Each is a copy of one:
// to read the migrations costs more than most tests.
func SQLiteURL(t testing.TB) string {
	t.Helper()
	file, err := migratedFile()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "waypost.db")
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
	return "sqlite:" + path
}

var migratedFile = sync.OnceValues(func() (file []byte, err error) {
	dir, err := os.MkdirTemp("", "waypost")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	path := filepath.Join(dir, "waypost.db")
	if _, _, err := store.Migrate(context.Background(), "sqlite:"+path); err != nil {
		return nil, err
	}
	return os.ReadFile(path)
})

// Postgres opens a store on a new PostgreSQL database; see PostgresURL.
func Postgres(t testing.TB, now func() time.Time) *store.Store {
	t.Helper()
	dbURL := PostgresURL(t)
	migrate(t, dbURL)
	return openStore(t, dbURL, now)
}

func migrate(t testing.TB, dbURL string) {
	t.Helper()
	if _, _, err := store.Migrate(context.Background(), dbURL); err != nil {
		t.Fatal(err)
	}
}

func openStore(t testing.TB, dbURL string, now func() time.Time) *store.Store {
	t.Helper()
	s, err := store.Open(context.Background(), dbURL, Keys(t), now)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

// EarlierBuild runs a test with a database of each kind as builds before the first release
// left it: they noted its version in another table.
func EarlierBuild(t *testing.T, test func(t *testing.T, dbURL string)) {
	t.Helper()
	const table = "CREATE TABLE schema_version (version_id BIGINT NOT NULL, is_applied BOOLEAN NOT NULL)"
	t.Run("sqlite", func(t *testing.T) {
		path := filepath.Join(t.TempDir(), "waypost.db")
		execute(t, "sqlite", path, table)
		test(t, "sqlite:"+path)
	})
	t.Run("postgres", func(t *testing.T) {
		dbURL := PostgresURL(t)
		execute(t, "pgx", dbURL, table)
		test(t, dbURL)
	})
}

func execute(t testing.TB, driver, dsn, statement string) {
	t.Helper()
	db, err := sql.Open(driver, dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if _, err := db.Exec(statement); err != nil {
		t.Fatal(err)
	}
}

// RequirePostgres skips the test if no PostgreSQL server is named by
// WAYPOST_TEST_POSTGRES_URL; with WAYPOST_TEST_REQUIRE_SERVERS=1 it fails instead.
func RequirePostgres(t testing.TB) string {
	t.Helper()
	server := os.Getenv("WAYPOST_TEST_POSTGRES_URL")
	if server == "" {
		if os.Getenv("WAYPOST_TEST_REQUIRE_SERVERS") == "1" {
			t.Fatal("WAYPOST_TEST_REQUIRE_SERVERS=1, but WAYPOST_TEST_POSTGRES_URL names no PostgreSQL server")
		}
		t.Skip("WAYPOST_TEST_POSTGRES_URL names no PostgreSQL server")
	}
	return server
}

// PostgresURL makes an empty database on the server of RequirePostgres, drops it
// when the test ends, and returns its URL.
func PostgresURL(t testing.TB) string {
	t.Helper()
	return newPostgres(t, t)
}

// newPostgres is PostgresURL for a test whose database another test, which ends
// later, owns.
func newPostgres(t, owner testing.TB) string {
	t.Helper()
	server := RequirePostgres(t)
	u, err := url.Parse(server)
	if err != nil {
		t.Fatal("WAYPOST_TEST_POSTGRES_URL is no URL")
	}
	admin, err := sql.Open("pgx", server)
	if err != nil {
		t.Fatal(err)
	}
	name := "waypost_test_" + strings.ToLower(rand.Text())
	if _, err := admin.Exec("CREATE DATABASE " + name + " TEMPLATE template0"); err != nil {
		t.Fatalf("make test database: %v", err)
	}
	owner.Cleanup(func() {
		// The server gives up after some seconds if a connection does not end.
		_, err := admin.Exec("DROP DATABASE " + name + " WITH (FORCE)")
		for tries := 1; err != nil && tries < 5; tries++ {
			_, err = admin.Exec("DROP DATABASE " + name + " WITH (FORCE)")
		}
		if err != nil {
			owner.Errorf("drop test database: %v", err)
		}
		if err := admin.Close(); err != nil {
			owner.Errorf("close: %v", err)
		}
	})
	u.Path = "/" + name
	return u.String()
}
