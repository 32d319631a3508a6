// Package faults breaks what Waypost depends on, and Waypost itself, while it works:
// gateway, worker and Temporal are processes of their own, and the receivers keep
// ledgers that outlive them. Whatever happens, every accepted enrollment ends as it
// should, each message is recorded once, and everything goes on without a restart.
package faults

import (
	"os"
	"testing"

	"waypost/devstack/harness"
)

func TestMain(m *testing.M) {
	status := harness.Main(m)
	printTable(os.Stdout)
	os.Exit(status)
}
