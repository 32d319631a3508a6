package workflows

import (
	"time"

	"go.temporal.io/sdk/workflow"

	"waypost/activities"
)

// batches are the activities that a workflow of several members has under way,
// with the timer for what is due next.
type batches struct {
	busy     []bool // by member: it is in a batch that has not answered
	selector workflow.Selector
	inFlight int // batches that have not answered
	err      error
	// taskBegan is when the workflow task began that goes on now: with the workflow, a
	// signal, a timer or the end of a regular activity.
	taskBegan time.Time

	timer       workflow.Future
	timerAt     time.Time
	cancelTimer workflow.CancelFunc
}

// listen begins to wait for batches, for who wakes the workflow, and for its
// cancel.
func (b *batches) listen(ctx workflow.Context, woken func(Wake)) {
	b.selector, b.taskBegan = workflow.NewSelector(ctx), workflow.Now(ctx)
	b.selector.AddReceive(workflow.GetSignalChannel(ctx, SignalWake), func(signals workflow.ReceiveChannel, _ bool) {
		var w Wake
		signals.Receive(ctx, &w)
		b.taskBegan = workflow.Now(ctx)
		woken(w)
	})
	b.selector.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
}

// expect has done called when the future is ready; the members are busy until
// then.
func (b *batches) expect(ctx workflow.Context, future workflow.Future, members []int, done func(workflow.Context) error) {
	b.inFlight++
	for _, i := range members {
		b.busy[i] = true
	}
	b.selector.AddFuture(future, func(workflow.Future) {
		b.inFlight--
		for _, i := range members {
			b.busy[i] = false
		}
		if err := done(ctx); err != nil && b.err == nil && ctx.Err() == nil {
			b.err = err
		}
	})
}

// wait blocks until a batch answers or something becomes due, and takes
// everything that is ready by then.
func (b *batches) wait(ctx workflow.Context) error {
	b.selector.Select(ctx)
	for b.err == nil && ctx.Err() == nil && b.selector.HasPending() {
		b.selector.Select(ctx)
	}
	return b.err
}

// wakeAt keeps one timer, for what is due first; the zero time needs none.
func (b *batches) wakeAt(ctx workflow.Context, first time.Time, what string) {
	if first.IsZero() || b.timer != nil && !b.timerAt.After(first) {
		return
	}
	if b.timer != nil {
		b.cancelTimer()
	}
	timerCtx, cancel := workflow.WithCancel(ctx)
	timer := workflow.NewTimerWithOptions(timerCtx, first.Sub(workflow.Now(ctx)),
		workflow.TimerOptions{Summary: what + " until " + first.UTC().Format(time.RFC3339)})
	b.timer, b.timerAt, b.cancelTimer = timer, first, cancel
	b.selector.AddFuture(timer, func(workflow.Future) {
		b.taskBegan = workflow.Now(ctx)
		if b.timer == timer {
			b.timer = nil
		}
	})
}

// nextTime is when a batch is to name a member again that is not decided; made is
// the number of attempts that were known before.
func nextTime(ctx workflow.Context, d activities.Delivery, made int) time.Time {
	if now := workflow.Now(ctx); d.Attempt == made && !d.Next.After(now) {
		// No attempt was made, because it is not due by the worker's clock, which is
		// behind the server's: asking again at once would be answered in the same way
		// until it has caught up.
		return now.Add(max(0, d.Next.Sub(d.At).Truncate(time.Millisecond)))
	}
	return d.Next
}
