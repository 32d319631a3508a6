package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

const (
	// tolerated is how far off a process' clock may be before Temporal's counts: less
	// than that may be the time that a task was on its way. It is far less than what
	// others add to a webhook's time-out before they take an attempt for cut off.
	tolerated = 500 * time.Millisecond
	// notable is worth a warning: so long no task is on its way, even to a busy machine.
	notable = 30 * time.Second
	// comparedFor is how long a comparison of the clocks counts at least.
	comparedFor = time.Minute
)

// Clock is the clock of a process that carries out activities. The times that those
// write are read by others: by workflows, whose timers go by Temporal's clock, and by
// other processes. So where this machine's clock is off, it is Temporal's that counts.
// It is safe for concurrent use.
type Clock struct {
	local func() time.Time
	log   *slog.Logger

	mu   sync.Mutex
	off  time.Duration // by how much Temporal's is ahead, give or take what is tolerated
	seen bool
	// A task takes time to come here, so clocks are compared best by the one that came
	// soonest: by the largest difference, of this period and the one before.
	best, before time.Duration
	since, last  time.Time // when the period began, and when a task came
}

// NewClock makes a clock that is local until it is known to be wrong.
func NewClock(local func() time.Time, log *slog.Logger) *Clock {
	return &Clock{local: local, log: log}
}

// Now is the time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.local().Add(c.off)
}

// Compared tells whether the clocks were compared lately, and this machine's was not set
// since: otherwise the time may be anything.
func (c *Clock) Compared() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.local()
	passed, shown := now.Sub(c.last), now.Round(0).Sub(c.last.Round(0)) // without the monotonic clock
	return c.seen && passed.Abs() < comparedFor && (shown-passed).Abs() <= tolerated
}

// started compares the clocks: Temporal has started a task at a time, and it has come
// here.
func (c *Clock) started(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.local()
	ahead := at.Sub(now)
	c.last = now
	switch {
	case !c.seen:
		c.seen, c.best, c.before, c.since = true, ahead, ahead, now
	case now.Sub(c.since).Abs() >= comparedFor:
		c.best, c.before, c.since = ahead, c.best, now
	default:
		c.best = max(c.best, ahead)
	}
	was, off := c.off, max(c.best, c.before)
	if (off - was).Abs() <= tolerated {
		return // one that jumps a little with every task would be worse
	}
	c.off = off
	level := slog.LevelInfo
	if max(was.Abs(), off.Abs()) > notable {
		level = slog.LevelWarn
	}
	c.log.Log(context.Background(), level, "the clock of this machine is compared with Temporal's",
		"behind", off.Round(time.Millisecond).String(), "corrected", off.Abs() > tolerated)
}

// observer has a clock look at every task that Temporal has started here, and tells of
// every activity that has failed.
type observer struct {
	interceptor.WorkerInterceptorBase
	clock  *Clock
	failed func(error)
}

func (o *observer) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &observedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, o}
}

type observedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	by *observer
}

func (a *observedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	info := activity.GetInfo(ctx)
	if !info.IsLocalActivity { // those were started by this machine's clock
		a.by.clock.started(info.StartedTime)
	}
	result, err := a.Next.ExecuteActivity(ctx, in)
	if err != nil {
		a.by.failed(err)
	}
	return result, err
}

func (o *observer) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &observedWorkflow{interceptor.WorkflowInboundInterceptorBase{Next: next}, o}
}

type observedWorkflow struct {
	interceptor.WorkflowInboundInterceptorBase
	by *observer
}

func (w *observedWorkflow) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	if !workflow.IsReplaying(ctx) {
		w.by.clock.started(workflow.Now(ctx)) // when Temporal started its first task
	}
	return w.Next.ExecuteWorkflow(ctx, in)
}

func (w *observedWorkflow) Init(out interceptor.WorkflowOutboundInterceptor) error {
	return w.Next.Init(&observedCalls{interceptor.WorkflowOutboundInterceptorBase{Next: out}, w.by})
}

type observedCalls struct {
	interceptor.WorkflowOutboundInterceptorBase
	by *observer
}

// ExecuteLocalActivity compares the clocks for those who only have tasks with local
// activities: that of a workflow goes on from when Temporal started its task.
func (c *observedCalls) ExecuteLocalActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	if !workflow.IsReplaying(ctx) {
		c.by.clock.started(workflow.Now(ctx))
	}
	return c.Next.ExecuteLocalActivity(ctx, name, args...)
}
