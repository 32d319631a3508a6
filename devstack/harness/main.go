// Package harness is for the end-to-end and the fault tests: Waypost as
// processes that are started, called through the signed HTTP interface, stopped and
// killed, and a receiver that keeps a ledger of its own.
package harness

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"testing"
	"time"

	"modernc.org/sqlite"

	"waypost/app"
	"waypost/config"
	"waypost/devstack/command"
	"waypost/devstack/temporal"
	"waypost/limits"
)

// RunMain makes the test binary run a program instead of the tests.
const RunMain = "WAYPOST_TEST_RUN_MAIN"

// HistoryEvents sets temporal.HistoryEvents of a waypost-dev that the tests start.
const HistoryEvents = "WAYPOST_TEST_HISTORY_EVENTS"

// Clock is how far ahead the clock of a role that the tests start goes.
const Clock = "WAYPOST_TEST_CLOCK"

// SQLitePages bounds the pages of the databases that a role which the tests start
// writes: more than that does not fit on its disk.
const SQLitePages = "WAYPOST_TEST_SQLITE_PAGES"

// Descriptors is how many files and connections a role that the tests start may have open.
const Descriptors = "WAYPOST_TEST_DESCRIPTORS"

// What RunMain can be.
const (
	RunDev    = "1"      // waypost-dev
	RunRole   = "role"   // a production role, named by the first argument
	RunServer = "server" // a program that is not ours, after the signal that ends it
)

// Main runs the tests, or the program that RunMain names, and returns the exit
// status. It is what TestMain of a package calls that starts processes.
func Main(m *testing.M) int {
	if os.Getenv(RunMain) == "" {
		return m.Run()
	}
	if os.Getenv(RunMain) == RunServer {
		return serve(os.Args[1:])
	}
	go func() {
		untilTestsEnd()
		os.Exit(3)
	}()
	limits.CallTime = time.Minute // a machine that stands still is no outage; a Redis that is gone refuses at once
	if n, err := strconv.Atoi(os.Getenv(HistoryEvents)); err == nil {
		temporal.HistoryEvents = n
	}
	if ahead, err := time.ParseDuration(os.Getenv(Clock)); err == nil {
		app.Now = func() time.Time { return time.Now().Add(ahead) }
	}
	if pages := os.Getenv(SQLitePages); pages != "" {
		sqlite.RegisterConnectionHook(func(conn sqlite.ExecQuerierContext, _ string) error {
			_, err := conn.ExecContext(context.Background(), "PRAGMA max_page_count("+pages+")", nil)
			return err
		})
	}
	if n, err := strconv.ParseUint(os.Getenv(Descriptors), 10, 64); err == nil {
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	if os.Getenv(RunMain) == RunRole {
		return role(config.Role(os.Args[1]), os.Environ())
	}
	return command.Run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
}

// untilTestsEnd returns when standard input ends: it does when the tests do, however
// they end.
func untilTestsEnd() { _, _ = io.Copy(io.Discard, os.Stdin) }

// role runs what `waypost gateway` and `waypost worker` run, without a program of
// its own to be built.
func role(name config.Role, environ []string) int {
	start := map[config.Role]func(context.Context, config.Config, *slog.Logger, func(string)) error{
		config.RoleGateway: app.Gateway, config.RoleWorker: app.Worker, config.RoleServe: app.Serve, config.RoleConsole: app.Console,
	}[name]
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	cfg, _, err := config.Load(name, environ)
	if err == nil {
		err = start(ctx, cfg, cfg.Log.Logger(os.Stderr), func(addr string) { fmt.Printf("%s at %s\n", readyText, addr) })
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
