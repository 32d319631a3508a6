package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/workflows"
)

// imports stores an import of so many rows, one of them without a name.
func (w *world) imports(rows int) workflows.ImportInput {
	w.t.Helper()
	im, err := w.store.CreateImport(context.Background(), scope, waypost.Import{Mode: waypost.ImportCreate, AppID: "app_test", PhoneRegion: "CN"},
		func(yield func(waypost.ImportRow, error) bool) {
			for i := range rows {
				name := `"name":"Ada",`
				if i == 7 {
					name = ""
				}
				if !yield(waypost.ImportRow{Line: i + 1, Data: fmt.Appendf(nil, `{%s"externalId":"ext-%d"}`, name, i)}, nil) {
					return
				}
			}
		})
	must(w.t, err)
	must(w.t, w.store.MarkImportStarted(context.Background(), im.ID))
	return workflows.ImportInput{Scope: scope, ImportID: im.ID}
}

func (w *world) imported(in workflows.ImportInput) waypost.Import {
	w.t.Helper()
	im, err := w.store.Import(context.Background(), scope, in.ImportID)
	must(w.t, err)
	return im
}

// eachStepAlone has every run of an activity end after its first step.
func (w *world) eachStepAlone() {
	stop := make(chan struct{})
	close(stop)
	w.env.SetWorkerStopChannel(stop)
}

func (w *world) details() string {
	w.t.Helper()
	value, err := w.env.QueryWorkflow("__temporal_workflow_metadata")
	must(w.t, err)
	var metadata sdkpb.WorkflowMetadata
	must(w.t, value.Get(&metadata))
	return metadata.CurrentDetails
}

// An import processes each row once, however often it continues as new, and says
// how far it is.
func TestLeadImport(t *testing.T) {
	t.Parallel()
	const rows = 1_500
	w := newWorld(t, nil)
	in := w.imports(rows)
	runs := 1
	for ; ; runs++ {
		w.eachStepAlone()
		w.env.SetContinueAsNewSuggested(true)
		w.env.ExecuteWorkflow(workflows.TypeLeadImport, in)
		err := w.env.GetWorkflowError()
		var again *workflow.ContinueAsNewError
		if !errors.As(err, &again) {
			must(t, err)
			break
		}
		im := w.imported(in)
		want := fmt.Sprintf("%d of 1500 rows: %d created 0 updated 1 failed", im.Processed, im.Created)
		if got := strings.ReplaceAll(w.details(), ",", ""); got != want {
			t.Errorf("the details say %q, want %q", got, want)
		}
		in = workflows.ImportInput{}
		must(t, w.dataConverter().FromPayloads(again.Input, &in))
		w.newEnvironment()
		w.register()
	}
	var result workflows.ImportResult
	must(t, w.env.GetWorkflowResult(&result))
	if want := (workflows.ImportResult{Import: in.ImportID, Total: rows, Processed: rows, Created: rows - 1, Failed: 1}); result != want || runs < 2 {
		t.Errorf("after %d runs: %+v, want %+v", runs, result, want)
	}
	if got, want := w.details(), "1,500 of 1,500 rows: 1,499 created, 0 updated, 1 failed"; got != want {
		t.Errorf("the details say %q, want %q", got, want)
	}
	if im := w.imported(in); im.Status != waypost.ImportSucceeded || im.Created != rows-1 {
		t.Errorf("%+v", im)
	}
}

// An import is canceled through the API, or its workflow by an operator: either
// way no further row is processed. One that cannot go on fails its workflow.
func TestLeadImportEnds(t *testing.T) {
	t.Parallel()
	t.Run("canceled", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		in := w.imports(1_500)
		w.eachStepAlone()
		w.env.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) {
			_, err := w.store.CancelImport(context.Background(), scope, in.ImportID)
			must(t, err)
		})
		w.env.ExecuteWorkflow(workflows.TypeLeadImport, in)
		must(t, w.env.GetWorkflowError())
		var result workflows.ImportResult
		must(t, w.env.GetWorkflowResult(&result))
		if !result.Canceled || result.Processed == 0 || result.Processed == result.Total || result.Processed != w.imported(in).Processed {
			t.Errorf("result %+v", result)
		}
	})
	t.Run("workflow canceled", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		in := w.imports(10)
		w.env.RegisterDelayedCallback(w.env.CancelWorkflow, 0)
		w.env.ExecuteWorkflow(workflows.TypeLeadImport, in)
		if err := w.env.GetWorkflowError(); !temporal.IsCanceledError(err) {
			t.Errorf("the workflow ended with %v", err)
		}
		if im := w.imported(in); im.Status != waypost.ImportCanceled || im.Processed != 0 {
			t.Errorf("%+v", im)
		}
	})
	t.Run("failed", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		in := w.imports(10)
		must(t, w.store.FailImport(context.Background(), in.ImportID, "part 1 is damaged"))
		w.env.ExecuteWorkflow(workflows.TypeLeadImport, in)
		if err := w.env.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), "part 1 is damaged") {
			t.Errorf("the workflow ended with %v", err)
		}
	})
}

func TestThousands(t *testing.T) {
	t.Parallel()
	for n, want := range map[int]string{0: "0", 999: "999", 1_000: "1,000", 99_999: "99,999", 1_234_567: "1,234,567"} {
		if got := workflows.Thousands(n); got != want {
			t.Errorf("%d is written %q", n, got)
		}
	}
}
