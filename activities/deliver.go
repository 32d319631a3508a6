package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"waypost/delivery"
)

// DeliverBatch sends the message of one touchpoint node for every item, as
// delivery.Engine.Deliver does.
func (a *Activities) DeliverBatch(ctx context.Context, b delivery.Batch) ([]delivery.Result, error) {
	_, stop := keepAlive(ctx)
	defer stop()
	return a.engine.Deliver(ctx, caller(ctx), b)
}

// RedeliverBatch sends stored messages once more, as delivery.Engine.Redeliver does.
func (a *Activities) RedeliverBatch(ctx context.Context, b delivery.Batch) ([]delivery.Result, error) {
	_, stop := keepAlive(ctx)
	defer stop()
	return a.engine.Redeliver(ctx, caller(ctx), b)
}

func caller(ctx context.Context) delivery.Caller {
	info := activity.GetInfo(ctx)
	return delivery.Caller{WorkflowID: info.WorkflowExecution.ID, Local: info.IsLocalActivity, FirstAttempt: info.Attempt == 1}
}

// heartbeat is how often an activity says that it is alive.
const heartbeat = 2 * time.Second

// keepAlive heartbeats until it is stopped, so that the death of the process is
// noticed within seconds however long a receiver takes. Heartbeats carry the details that
// tell got last.
func keepAlive(ctx context.Context) (tell func(details any), stop func()) {
	latest, done := make(chan any), make(chan struct{})
	go func() {
		ticker := time.NewTicker(heartbeat)
		defer ticker.Stop()
		var details []any
		for {
			select {
			case got := <-latest:
				details = []any{got}
			case <-ticker.C:
			case <-done:
				return
			}
			activity.RecordHeartbeat(ctx, details...)
		}
	}()
	return func(details any) { latest <- details }, func() { close(done) }
}
