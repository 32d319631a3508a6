package temporal_test

import (
	"context"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/workflows"
)

// A worker that lacks a key, as during a change of keys, must not fail the
// workflows that it cannot read: another worker can.
func TestWorkerWithoutTheKeyLosesNoWorkflow(t *testing.T) {
	t.Parallel()
	const k1, k2 = "k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=", "k2:MTEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	ctx := context.Background()
	s := serve(ctx, t)
	both, old := dialWith(t, s.Addr(), k2+","+k1), dialWith(t, s.Addr(), k1)

	lacking := startWorker(t, old)
	run, err := both.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: "enr_1", TaskQueue: "q"}, workflows.TypeJourney, workflows.JourneyInput{Name: "x"})
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		d, err := both.DescribeWorkflowExecution(ctx, run.GetID(), "")
		if err != nil {
			t.Fatal(err)
		}
		if status := d.WorkflowExecutionInfo.Status; status != enums.WORKFLOW_EXECUTION_STATUS_RUNNING {
			t.Fatalf("the workflow is %s", status)
		}
		if d.PendingWorkflowTask.GetAttempt() >= 2 { // the task failed and comes again
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the worker without the key was given no task")
		}
	}
	lacking.Stop()

	defer startWorker(t, both).Stop()
	var result string
	if err := run.Get(ctx, &result); err != nil || result != "done" {
		t.Fatalf("%q, %v", result, err)
	}
}

func dialWith(t *testing.T, addr, keyring string) client.Client {
	t.Helper()
	keys, err := waypost.ParseKeyring(keyring)
	if err != nil {
		t.Fatal(err)
	}
	c, err := client.Dial(client.Options{HostPort: addr, Namespace: "default", DataConverter: workflows.NewDataConverter(keys)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func startWorker(t *testing.T, c client.Client) worker.Worker {
	t.Helper()
	w := worker.New(c, "q", worker.Options{})
	w.RegisterWorkflowWithOptions(func(workflow.Context, workflows.JourneyInput) (string, error) { return "done", nil },
		workflow.RegisterOptions{Name: workflows.TypeJourney})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}
