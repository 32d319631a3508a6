// Package e2e tests Waypost as its users have it: waypost-dev as a process of its
// own, called through the signed HTTP interface, stopped and killed.
package e2e

import (
	"io"
	"os"
	"testing"

	"waypost/devstack/command"
)

// runMain makes the test binary run waypost-dev instead of the tests.
const runMain = "WAYPOST_TEST_RUN_MAIN"

func TestMain(m *testing.M) {
	if os.Getenv(runMain) == "" {
		os.Exit(m.Run())
	}
	go func() {
		// Standard input ends when the tests do, however they end.
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(3)
	}()
	os.Exit(command.Run(os.Args[1:], os.Environ(), os.Stdout, os.Stderr))
}
