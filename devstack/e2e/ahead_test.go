package e2e

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"waypost"
	"waypost/config"
	"waypost/devstack/harness"
)

// First messages have gone and Temporal is killed, so that none of their workflows is
// started; the worker, too, is killed or not, while the receiver has not answered or when
// the outcomes are recorded. When all are back the journeys go on from what is recorded:
// what was is not sent again, and what was cut off is, as the same message.
func TestKilledBetweenMessageAndWorkflow(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		worker   bool // is killed
		answered bool // before that
		posts    int  // of each first message
	}{
		"the worker lives":                  {false, true, 1},
		"the worker dies before the answer": {true, false, 2},
		"the worker dies after the record":  {true, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var hangs atomic.Bool
			hanging := make(chan struct{}, 10)
			r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer {
				a := harness.Answer{Status: http.StatusOK, Body: `{"succeed":true}`}
				if hangs.Load() {
					hanging <- struct{}{}
					a.After = 5 * time.Second
				}
				return a
			})
			f := harness.StartApart(t, 0, 0)
			worker, gateway := f.Start(t, config.RoleWorker), f.Start(t, config.RoleGateway)
			journey := gateway.Publish(t, r.URL, `{"name":"Ahead","start":"hello","nodes":[
				{"id":"hello","type":"touchpoint","webhook":%q,"next":"wait"},
				{"id":"wait","type":"delay","for":"1s","next":"thanks"},
				{"id":"thanks","type":"touchpoint","webhook":%[1]q}]}`)
			await := func(ids []string) {
				t.Helper()
				for _, id := range ids {
					if e := gateway.AwaitEnd(t, id, 2*time.Minute); e.Status != waypost.EnrollmentCompleted {
						t.Errorf("%s is %s", id, e.Status)
					}
				}
			}
			await(gateway.Enroll(t, journey, 1)) // the worker trusts its clock from now on

			f.Base.Kill9(t)
			hangs.Store(!tt.answered)
			var enrolled []string
			for range 2 { // until Temporal is known to be away
				id := gateway.Enroll(t, journey, 1)[0]
				enrolled = append(enrolled, id)
				if !tt.answered {
					<-hanging
					continue
				}
				harness.Eventually(t, time.Minute, func() (bool, string) {
					d := gateway.Deliveries(t, id)["hello"]
					return d.Status == waypost.DeliverySucceeded, fmt.Sprintf("%s has %+v", id, d)
				})
			}
			if tt.worker {
				worker.Kill9(t)
			}
			hangs.Store(false)
			f.StartTemporal(t)
			temporal := dialTemporal(t, f.Base)
			if tt.worker {
				f.Start(t, config.RoleWorker)
			}
			await(enrolled)
			for _, id := range enrolled {
				d := gateway.Deliveries(t, id)["hello"]
				if posts := len(r.Received(d.MessageID)); posts != tt.posts || len(d.AttemptLog) != tt.posts {
					t.Errorf("%s: %d POSTs, %d attempts of the first message, want %d", id, posts, len(d.AttemptLog), tt.posts)
				}
				// Operators find it, though it was started later.
				awaitWorkflow(t, temporal, gateway.Enrollment(t, id).WorkflowID)
			}
			for _, d := range r.Disagreements(gateway.Records(t, journey)) {
				t.Errorf("the ledger and the records disagree: %s", d)
			}
		})
	}
}

// Enrollments that wait for others when their process is killed are started by
// another one. What was recorded of their first messages is not sent again; what was
// open when the process died is recorded as interrupted and sent again, whether or not
// it had arrived.
func TestKilledWhileGrouping(t *testing.T) {
	t.Parallel()
	for _, apart := range []bool{false, true} {
		t.Run(fmt.Sprintf("apart %t", apart), func(t *testing.T) {
			t.Parallel()
			r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer { return harness.Answer{Status: http.StatusOK} })
			f := harness.StartApart(t, 0, 0)
			role := config.RoleServe
			if apart {
				role = config.RoleWorker
			}
			worker := f.Start(t, role)
			gateway := worker
			if apart {
				gateway = f.Start(t, config.RoleGateway)
			}
			journey := gateway.Publish(t, r.URL, `{"name":"Groups","start":"hello","nodes":[
				{"id":"hello","type":"touchpoint","webhook":%q,"next":"thanks"},{"id":"thanks","type":"touchpoint","webhook":%[1]q}]}`)
			all := gateway.Enroll(t, journey, 1) // the worker trusts its clock from now on
			gateway.AwaitEnd(t, all[0], time.Minute)
			began := time.Now()
			all = append(all, gateway.Enroll(t, journey, 24)...)
			worker.Kill9(t)
			t.Logf("killed %s after the first of 24 requests", time.Since(began))
			other := f.Start(t, role)
			if !apart {
				gateway = other
			}
			for _, id := range all {
				if e := gateway.AwaitEnd(t, id, time.Minute); e.Status != waypost.EnrollmentCompleted {
					t.Errorf("%s is %s", id, e.Status)
				}
			}
			for _, d := range r.Disagreements(gateway.Records(t, journey)) {
				t.Errorf("the ledger and the records disagree: %s", d)
			}
		})
	}
}

// awaitWorkflow waits until a workflow has completed: the records of a message that was
// sent ahead may be complete before it is started.
func awaitWorkflow(t *testing.T, temporal client.Client, id string) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() (bool, string) {
		w, err := temporal.DescribeWorkflowExecution(t.Context(), id, "")
		status := w.GetWorkflowExecutionInfo().GetStatus()
		return status == enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, fmt.Sprintf("workflow %s is %s, %v", id, status, err)
	})
}
