package worker

import (
	"context"
	"log/slog"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
)

// A clock goes by Temporal's where it is off, and tells a task that came late from
// a clock that is wrong.
func TestClock(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	type task struct{ after, late time.Duration } // since the one before; on its way
	for name, c := range map[string]struct {
		ahead time.Duration // this machine's clock
		tasks []task
		want  time.Duration // what is left of it
	}{
		"right":                           {0, []task{{0, 5 * time.Millisecond}}, 0},
		"nothing is known":                {10 * time.Minute, nil, 10 * time.Minute},
		"ahead":                           {10 * time.Minute, []task{{0, 0}}, 0},
		"behind":                          {-10 * time.Minute, []task{{0, 0}}, 0},
		"a little ahead":                  {400 * time.Millisecond, []task{{0, 0}}, 400 * time.Millisecond},
		"some seconds ahead":              {5 * time.Second, []task{{0, 5 * time.Millisecond}}, -5 * time.Millisecond},
		"some seconds behind":             {-5 * time.Second, []task{{0, 5 * time.Millisecond}}, -5 * time.Millisecond},
		"corrected, and a little late":    {5 * time.Second, []task{{0, 400 * time.Millisecond}, {time.Second, 0}}, -400 * time.Millisecond},
		"a task was late":                 {0, []task{{0, 0}, {time.Second, time.Minute}}, 0},
		"all were late, then one was not": {0, []task{{0, time.Minute}, {time.Second, time.Minute}, {time.Second, 0}}, 0},
		"late at the turn of a period":    {0, []task{{0, 0}, {2 * time.Minute, time.Minute}}, 0},
		"ahead, and the best counts":      {10 * time.Minute, []task{{0, 3 * time.Second}, {time.Second, 0}, {time.Second, 9 * time.Second}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := began
			clock := NewClock(func() time.Time { return now.Add(c.ahead) }, slog.New(slog.DiscardHandler))
			for _, task := range c.tasks {
				now = now.Add(task.after)
				clock.started(now.Add(-task.late))
			}
			if got := clock.Now().Sub(now); got != c.want {
				t.Errorf("it is off by %s, want %s", got, c.want)
			}
		})
	}
}

// A clock that was not compared for a while may have become wrong.
func TestClockIsCompared(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	clock := NewClock(func() time.Time { return now }, slog.New(slog.DiscardHandler))
	expect := func(what string, want bool) {
		t.Helper()
		if clock.Compared() != want {
			t.Errorf("%s: compared is %t", what, !want)
		}
	}
	expect("new", false)
	clock.started(now)
	expect("a task came", true)
	now = now.Add(comparedFor - 1)
	expect("a minute ago", true)
	now = now.Add(1)
	expect("longer ago", false)
	clock.started(now)
	now = now.Add(-2 * comparedFor)
	expect("the clock was set back", false)
}

// A clock that is set right is not corrected any longer.
func TestClockIsMended(t *testing.T) {
	t.Parallel()
	for _, ahead := range []time.Duration{10 * time.Minute, 5 * time.Second, -5 * time.Second} {
		now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
		clock := NewClock(func() time.Time { return now.Add(ahead) }, slog.New(slog.DiscardHandler))
		clock.started(now)
		ahead = 0
		for range 3 {
			now = now.Add(comparedFor)
			clock.started(now)
		}
		if got := clock.Now(); !got.Equal(now) {
			t.Errorf("it is %s, want %s", got, now)
		}
	}
}

// A workflow that has been running for long and only has local activities compares the
// clocks as well: by the task that begins them.
func TestClockOfLaterTasks(t *testing.T) {
	t.Parallel()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(slog.New(slog.DiscardHandler))
	env := suite.NewTestWorkflowEnvironment()
	var mu sync.Mutex
	var off time.Duration
	clock := NewClock(func() time.Time {
		mu.Lock()
		defer mu.Unlock()
		return env.Now().Add(off)
	}, slog.New(slog.DiscardHandler))
	env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&observer{clock: clock}}})
	activity := func(context.Context) error { return nil }
	env.RegisterActivity(activity)
	env.ExecuteWorkflow(func(ctx workflow.Context) error {
		ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
		for range 3 {
			if err := workflow.Sleep(ctx, time.Hour); err != nil {
				return err
			}
			mu.Lock()
			off = 10 * time.Minute
			mu.Unlock()
			if err := workflow.ExecuteLocalActivity(ctx, activity).Get(ctx, nil); err != nil {
				return err
			}
		}
		return nil
	})
	if err := env.GetWorkflowError(); err != nil {
		t.Fatal(err)
	}
	if off := clock.Now().Sub(env.Now()); off.Abs() > time.Minute {
		t.Errorf("the clock is off by %s", off)
	}
}

// Clocks are compared by what Temporal has started, such as workflow tasks. Local
// activities are started by this machine's clock, which is no news. (So are regular
// ones in this environment, where a fault test sees to them.)
func TestClockOfTasks(t *testing.T) {
	t.Parallel()
	const ahead = 10 * time.Minute
	for name, run := range map[string]func(ctx workflow.Context, activity any) workflow.Future{
		"workflow task": func(workflow.Context, any) workflow.Future { return nil },
		"local activity": func(ctx workflow.Context, activity any) workflow.Future {
			ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{StartToCloseTimeout: time.Minute})
			return workflow.ExecuteLocalActivity(ctx, activity)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var suite testsuite.WorkflowTestSuite
			suite.SetLogger(slog.New(slog.DiscardHandler))
			env := suite.NewTestWorkflowEnvironment()
			env.SetStartTime(time.Now().Add(-ahead))
			env.SetTestTimeout(5 * time.Minute)
			clock := NewClock(time.Now, slog.New(slog.DiscardHandler))
			env.SetWorkerOptions(worker.Options{Interceptors: []interceptor.WorkerInterceptor{&observer{clock: clock}}, DeadlockDetectionTimeout: time.Minute})
			activity := func(context.Context) error { return nil }
			env.RegisterActivity(activity)
			env.ExecuteWorkflow(func(ctx workflow.Context) error {
				if future := run(ctx, activity); future != nil {
					return future.Get(ctx, nil)
				}
				return nil
			})
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			if off := clock.Now().Sub(env.Now()); off.Abs() > ahead/2 {
				t.Errorf("the clock is off by %s", off)
			}
		})
	}
}
