package workflows_test

import (
	"path/filepath"
	"testing"

	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"waypost/workflows"
)

// Every stored history replays with today's code. The files come from real runs: the
// tests of devstack/e2e write them (updateHistories there says how). See rules for what a
// change of the commands needs.
func TestStoredHistoriesReplay(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/histories/*.json")
	must(t, err)
	if len(files) < 30 {
		t.Fatalf("only %d stored histories", len(files))
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			t.Parallel()
			// A machine that stands still for a second is no deadlock.
			replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true})
			must(t, err)
			replayer.RegisterWorkflowWithOptions(workflows.Journey, workflow.RegisterOptions{Name: workflows.TypeJourney})
			replayer.RegisterWorkflowWithOptions(workflows.Launch, workflow.RegisterOptions{Name: workflows.TypeLaunch})
			replayer.RegisterWorkflowWithOptions(workflows.LaunchOccurrence, workflow.RegisterOptions{Name: workflows.TypeLaunchOccurrence})
			replayer.RegisterWorkflowWithOptions(workflows.LeadImport, workflow.RegisterOptions{Name: workflows.TypeLeadImport})
			replayer.RegisterWorkflowWithOptions(workflows.Redelivery, workflow.RegisterOptions{Name: workflows.TypeRedelivery})
			must(t, replayer.ReplayWorkflowHistoryFromJSONFile(nil, file))
		})
	}
}
