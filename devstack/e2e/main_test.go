// Package e2e tests Waypost as its users have it: waypost-dev as a process of its
// own, called through the signed HTTP interface, stopped and killed.
package e2e

import (
	"os"
	"testing"

	"waypost/devstack/harness"
)

func TestMain(m *testing.M) { os.Exit(harness.Main(m)) }
