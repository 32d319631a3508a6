package worker

import (
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"waypost/activities"
	"waypost/delivery"
	"waypost/workflows"
)

// stopTimeout is how long a stopping worker lets its activities finish. It is
// longer than the default time-out of a webhook, so that POSTs under way end
// with a record.
const stopTimeout = 20 * time.Second

// cachedWorkflows is how many workflows the process keeps in memory between their tasks. A
// cohort of 200 leads takes up to half a megabyte there, so that the SDK's own 10,000 could
// be some gigabytes while a launch waits in a delay; one that is read from its history again
// costs next to nothing beside what it then sends.
const cachedWorkflows = 1000

// The SDK has one cache for the process, and its size counts when the first worker starts:
// in waypost-dev those of Temporal's own server start before this one.
func init() { worker.SetStickyWorkflowCacheSize(cachedWorkflows) }

// New makes the Temporal worker for the task queue; Start and Stop are the
// caller's. clock is the one that the activities go by; failed is called with their errors.
func New(c client.Client, taskQueue string, a *activities.Activities, clock *Clock, failed func(error)) worker.Worker {
	w := worker.New(c, taskQueue, worker.Options{
		Interceptors:      []interceptor.WorkerInterceptor{&observer{clock: clock, failed: failed}},
		WorkerStopTimeout: stopTimeout,
		// Activities that wait for no receiver have 40 slots of their own; launches that wait
		// for their rate take no more than half of them.
		MaxConcurrentActivityExecutionSize:     delivery.WaitingSlots + 40,
		MaxConcurrentActivityTaskPollers:       4,
		MaxConcurrentWorkflowTaskPollers:       4,
		MaxHeartbeatThrottleInterval:           3 * time.Second,
		DefaultHeartbeatThrottleInterval:       3 * time.Second,
		MaxConcurrentWorkflowTaskExecutionSize: 200,
	})
	Register(w, a)
	return w
}

// Register names the workflows and activities, for the worker and for replay
// tests.
func Register(r worker.Registry, a *activities.Activities) {
	r.RegisterWorkflowWithOptions(workflows.Journey, workflow.RegisterOptions{Name: workflows.TypeJourney})
	r.RegisterWorkflowWithOptions(workflows.Launch, workflow.RegisterOptions{Name: workflows.TypeLaunch})
	r.RegisterWorkflowWithOptions(workflows.LaunchOccurrence, workflow.RegisterOptions{Name: workflows.TypeLaunchOccurrence})
	r.RegisterWorkflowWithOptions(workflows.LeadImport, workflow.RegisterOptions{Name: workflows.TypeLeadImport})
	r.RegisterWorkflowWithOptions(workflows.Redelivery, workflow.RegisterOptions{Name: workflows.TypeRedelivery})
	r.RegisterActivity(a.DeliverBatch)
	r.RegisterActivity(a.RedeliverBatch)
	r.RegisterActivity(a.CancelRedeliveries)
	r.RegisterActivity(a.DecideBatch)
	r.RegisterActivity(a.EnrollBatch)
	r.RegisterActivity(a.UpdateLeadBatch)
	r.RegisterActivity(a.EmitBatch)
	r.RegisterActivity(a.RecordBatch)
	r.RegisterActivity(a.LookBatch)
	r.RegisterActivity(a.MoveBatch)
	r.RegisterActivity(a.CancelBatch)
	r.RegisterActivity(a.CancelLaunch)
	r.RegisterActivity(a.EnrollAudience)
	r.RegisterActivity(a.OpenOccurrence)
	r.RegisterActivity(a.ImportLeads)
	r.RegisterActivity(a.CancelImport)
}
