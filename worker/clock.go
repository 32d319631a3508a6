package worker

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
)

const (
	// tolerated is how far off a process' clock may be before Temporal's counts: less
	// than that may be the time that a task was on its way on a busy machine.
	tolerated = 30 * time.Second
	// comparedFor is how long a comparison of the clocks counts at least.
	comparedFor = time.Minute
)

// Clock is the clock of a process that carries out activities. The times that those
// write are read by others: by workflows, whose timers go by Temporal's clock, and by
// other processes. So where this machine's clock is far off, it is Temporal's that
// counts. It is safe for concurrent use.
type Clock struct {
	local func() time.Time
	log   *slog.Logger

	mu   sync.Mutex
	off  time.Duration // Temporal's clock ahead of ours, 0 where that is tolerated
	seen bool
	// A task takes time to come here, so clocks are compared best by the one that came
	// soonest: by the largest difference, of this period and the one before.
	best, before time.Duration
	since        time.Time
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

// started compares the clocks: Temporal has started a task at a time, and it has come
// here.
func (c *Clock) started(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.local()
	ahead := at.Sub(now)
	switch {
	case !c.seen:
		c.seen, c.best, c.before, c.since = true, ahead, ahead, now
	case now.Sub(c.since).Abs() >= comparedFor:
		c.best, c.before, c.since = ahead, c.best, now
	default:
		c.best = max(c.best, ahead)
	}
	off := max(c.best, c.before)
	if off.Abs() <= tolerated {
		off = 0
	}
	if was := c.off; (was == 0) != (off == 0) {
		c.log.Warn("clock of this machine compared with Temporal's", "ahead", off.Round(time.Second).String(), "corrected", off != 0)
	}
	c.off = off
}

// clockInterceptor has a clock look at every activity that begins.
type clockInterceptor struct {
	interceptor.WorkerInterceptorBase
	clock *Clock
}

func (i *clockInterceptor) InterceptActivity(_ context.Context, next interceptor.ActivityInboundInterceptor) interceptor.ActivityInboundInterceptor {
	return &clockedActivity{interceptor.ActivityInboundInterceptorBase{Next: next}, i.clock}
}

type clockedActivity struct {
	interceptor.ActivityInboundInterceptorBase
	clock *Clock
}

func (a *clockedActivity) ExecuteActivity(ctx context.Context, in *interceptor.ExecuteActivityInput) (any, error) {
	a.clock.started(activity.GetInfo(ctx).StartedTime)
	return a.Next.ExecuteActivity(ctx, in)
}
