// Package e2e tests Waypost as its users have it: waypost-dev as a process of its
// own, called through the signed HTTP interface, stopped and killed.
package e2e

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

	"waypost/app"
	"waypost/config"
	"waypost/devstack/command"
	"waypost/devstack/temporal"
)

// runMain makes the test binary run a program instead of the tests.
const runMain = "WAYPOST_TEST_RUN_MAIN"

// historyEvents sets temporal.HistoryEvents of a waypost-dev that the tests start.
const historyEvents = "WAYPOST_TEST_HISTORY_EVENTS"

// What runMain can be.
const (
	runDev  = "1"    // waypost-dev
	runRole = "role" // a production role, named by the first argument
)

func TestMain(m *testing.M) {
	if os.Getenv(runMain) == "" {
		os.Exit(m.Run())
	}
	go func() {
		// Standard input ends when the tests do, however they end.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	if n, err := strconv.Atoi(os.Getenv(historyEvents)); err == nil {
		temporal.HistoryEvents = n
	}
	if os.Getenv(runMain) == runRole {
		os.Exit(role(config.Role(os.Args[1]), os.Environ()))
	}
	os.Exit(command.Run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}

// role runs what `waypost gateway` and `waypost worker` run, without a program of
// its own to be built.
func role(name config.Role, environ []string) int {
	start := map[config.Role]func(context.Context, config.Config, *slog.Logger, func(string)) error{
		config.RoleGateway: app.Gateway, config.RoleWorker: app.Worker, config.RoleServe: app.Serve,
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
