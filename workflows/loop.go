package workflows

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"waypost/delivery"
)

// loop is what Journey and Redelivery have in common. They drive several members at a
// time: activities for the members that are due run side by side, and their answers say
// what each member needs next; one timer is for what is due first, and a signal (SignalWake)
// has members looked at before.
type loop struct {
	priority temporal.Priority // of its activities
	busy     []bool            // by member: it is in an activity that has not answered
	selector workflow.Selector
	inFlight int // activities that have not answered
	locals   int // of those, local ones
	err      error
	// taskBegan is when the workflow task began that goes on now: with the workflow, a
	// signal, a timer or the end of a regular activity.
	taskBegan time.Time

	timer       workflow.Future
	timerAt     time.Time
	cancelTimer workflow.CancelFunc
}

const (
	// A batch is bounded by the receivers' time-outs (two minutes at most); its
	// heartbeats tell within seconds that its process has died.
	batchTimeout     = 5 * time.Minute
	heartbeatTimeout = 10 * time.Second
	// A quick activity asks the database only. It runs within the workflow task, and
	// apart from it if the database does not answer: quickTimeout bounds all of its
	// attempts. One that begins within quickBegins ends before four fifths of the shortest
	// workflow task (singleTaskTimeout) are over, when the SDK would extend it.
	quickTimeout  = 3 * time.Second
	quickBegins   = 500 * time.Millisecond
	quickAttempts = 2
)

func newLoop(members int, p temporal.Priority) loop {
	return loop{priority: p, busy: make([]bool, members)}
}

// work is what a loop does for its members. All of it takes a context: workflowcheck looks
// at the functions that do, and follows neither interfaces nor method values.
type work interface {
	woken(workflow.Context, Wake)         // notes which members are to be looked at
	dispatch(workflow.Context)            // starts the activities of the members that are due
	show(workflow.Context) error          // keeps the search attributes and the Web UI's details true
	setTimer(workflow.Context)            // for what is due first
	ended(workflow.Context) bool          // tells whether nothing is left to do
	cancel(workflow.Context) error        // cancels the members left: an operator canceled the workflow
	continueAsNew(workflow.Context) error // goes on in a new run
}

// run works until all members have ended. Its error says why the run ends before: it is
// canceled, or continues as new. No journey can cause any other error: it means that this
// build cannot go on with what another one wrote. So run panics with it, which fails the
// task and not the workflow: Temporal tries the task again until a build can go on.
func (l *loop) run(ctx workflow.Context, w work) error {
	err := l.drive(ctx, w)
	var again *workflow.ContinueAsNewError
	if err != nil && !errors.As(err, &again) && !temporal.IsCanceledError(err) {
		panic(err)
	}
	return err
}

// drive dispatches work until it has ended, and continues as new once Temporal suggests it and no
// activity is in flight. The order of its calls is part of every recorded history.
func (l *loop) drive(ctx workflow.Context, w work) error {
	l.listen(ctx, w.woken)
	for {
		full := workflow.GetInfo(ctx).GetContinueAsNewSuggested()
		if !full {
			w.dispatch(ctx)
		}
		if err := w.show(ctx); err != nil {
			return err
		}
		if l.inFlight == 0 {
			if w.ended(ctx) {
				return nil
			}
			if full {
				return w.continueAsNew(ctx)
			}
		}
		if l.locals == 0 && !full { // what local activities answer may be due sooner
			w.setTimer(ctx)
		}
		if err := l.wait(ctx); err != nil {
			return err
		}
		if ctx.Err() != nil {
			return w.cancel(ctx)
		}
	}
}

// listen begins to wait for activities, for signals, and for a cancel of the workflow.
func (l *loop) listen(ctx workflow.Context, woken func(workflow.Context, Wake)) {
	l.selector, l.taskBegan = workflow.NewSelector(ctx), workflow.Now(ctx)
	l.selector.AddReceive(workflow.GetSignalChannel(ctx, SignalWake), func(signals workflow.ReceiveChannel, _ bool) {
		var w Wake
		signals.Receive(ctx, &w)
		l.taskBegan = workflow.Now(ctx)
		woken(ctx, w)
	})
	l.selector.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
}

// call is an activity for some members, which are busy until it has answered.
type call struct {
	activity any
	title    string // in the Web UI
	webhook  string // that it sends to, if it does
	batch    delivery.Batch
	members  []int
	answered func(workflow.Context, workflow.Future) error
}

// quick runs an activity that only asks the database, or waits for receivers for a
// moment only: as a local activity, which is one event instead of six, and as a regular
// one if that fails.
func (l *loop) quick(ctx workflow.Context, c call) {
	// What ran before it in the same task may have taken long: each local activity that has
	// ended moves the workflow's clock on.
	if workflow.Now(ctx).Sub(l.taskBegan) > quickBegins {
		l.regular(ctx, c)
		return
	}
	answer := workflow.ExecuteLocalActivity(workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: quickTimeout,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumAttempts: quickAttempts},
		Summary:                c.title,
	}), c.activity, c.batch)
	l.locals++
	l.expect(ctx, answer, c.members, func(ctx workflow.Context) error {
		l.locals--
		if err := answer.Get(ctx, nil); err != nil && !temporal.IsCanceledError(err) {
			l.regular(ctx, c)
			return nil
		}
		return c.answered(ctx, answer)
	})
}

// regular runs an activity that may take its time.
func (l *loop) regular(ctx workflow.Context, c call) {
	answer := workflow.ExecuteActivity(l.options(ctx, c.title, c.webhook), c.activity, c.batch)
	l.expect(ctx, answer, c.members, func(ctx workflow.Context) error {
		l.taskBegan = workflow.Now(ctx)
		return c.answered(ctx, answer)
	})
}

// options are those of regular activities. Activities that send take turns by webhook.
func (l *loop) options(ctx workflow.Context, title, webhook string) workflow.Context {
	options := tireless(batchTimeout, title)
	options.Priority = l.priority
	if webhook != "" {
		options.Priority.FairnessKey = webhook
	}
	return workflow.WithActivityOptions(ctx, options)
}

// forEach has take called with the answer for each of the members, in their order.
func forEach[A any](members []int, take func(workflow.Context, int, A) error) func(workflow.Context, workflow.Future) error {
	return func(ctx workflow.Context, answer workflow.Future) error {
		var answers []A
		if err := answer.Get(ctx, &answers); err != nil {
			return err
		}
		if len(answers) != len(members) {
			return fmt.Errorf("an activity gave %d answers for %d members: %T", len(answers), len(members), answers)
		}
		for n, i := range members {
			if err := take(ctx, i, answers[n]); err != nil {
				return err
			}
		}
		return nil
	}
}

// groups collects members by node or webhook, in the order in which they come.
type groups []group

type group struct {
	key     string
	members []int
}

func (g *groups) add(key string, member int) {
	i := slices.IndexFunc(*g, func(of group) bool { return of.key == key })
	if i < 0 {
		i = len(*g)
		*g = append(*g, group{key: key})
	}
	(*g)[i].members = append((*g)[i].members, member)
}

// expect has done called when the future is ready; the members are busy until then.
func (l *loop) expect(ctx workflow.Context, future workflow.Future, members []int, done func(workflow.Context) error) {
	l.inFlight++
	for _, i := range members {
		l.busy[i] = true
	}
	l.selector.AddFuture(future, func(workflow.Future) {
		l.inFlight--
		for _, i := range members {
			l.busy[i] = false
		}
		if err := done(ctx); err != nil && l.err == nil && ctx.Err() == nil {
			l.err = err
		}
	})
}

// wait blocks until an activity answers or something becomes due, and takes everything
// that is ready by then.
func (l *loop) wait(ctx workflow.Context) error {
	l.selector.Select(ctx)
	for l.err == nil && ctx.Err() == nil && l.selector.HasPending() {
		l.selector.Select(ctx)
	}
	return l.err
}

// soonest finds the member that is due first and not busy; -1 if there is none. due tells
// whether a member waits for a time, and for which.
func (l *loop) soonest(due func(i int) (at time.Time, waits bool)) int {
	member, soonest := -1, time.Time{}
	for i, busy := range l.busy {
		if at, waits := due(i); waits && !busy && (member < 0 || at.Before(soonest)) {
			member, soonest = i, at
		}
	}
	return member
}

// wakeAt keeps one timer, for what is due first.
func (l *loop) wakeAt(ctx workflow.Context, at time.Time, what string) {
	if l.timer != nil && !l.timerAt.After(at) {
		return
	}
	if l.timer != nil {
		l.cancelTimer()
	}
	timerCtx, cancel := workflow.WithCancel(ctx)
	timer := workflow.NewTimerWithOptions(timerCtx, at.Sub(workflow.Now(ctx)),
		workflow.TimerOptions{Summary: what + " until " + at.UTC().Format(time.RFC3339)})
	l.timer, l.timerAt, l.cancelTimer = timer, at, cancel
	l.selector.AddFuture(timer, func(workflow.Future) {
		l.taskBegan = workflow.Now(ctx)
		if l.timer == timer {
			l.timer = nil
		}
	})
}

// cancelMembers has an activity cancel the members of the batch.
func (l *loop) cancelMembers(ctx workflow.Context, title string, activity any, batch delivery.Batch) error {
	if len(batch.Items) == 0 {
		return ctx.Err()
	}
	return cancelApart(l.options(ctx, title, ""), activity, batch)
}

// Turn is when it is a member's turn, and what came of the last batch that it was in.
type Turn struct {
	// Due is when its wait ends, or when it is to be sent again; zero is at once.
	Due     time.Time `json:"due,omitzero"`
	Outcome string    `json:"outcome,omitempty"`
	Attempt int       `json:"attempt,omitempty"` // the last one; of a message in all rounds
	Reason  string    `json:"reason,omitempty"`
	// Woken says that something has changed that is to be looked at.
	Woken bool `json:"woken,omitempty"`
}

// next is when another batch is to have the member, which is not decided.
func (t *Turn) next(ctx workflow.Context, d delivery.Result) time.Time {
	if now := workflow.Now(ctx); d.Attempt == t.Attempt && !d.Next.After(now) {
		// No attempt was made: it is not due by the worker's clock, which is behind the
		// server's. Until that clock has caught up, another batch would get the same answer.
		return now.Add(max(0, d.Next.Sub(d.At).Truncate(time.Millisecond)))
	}
	return d.Next
}

// waits says what a message that is not decided waits for.
func (t *Turn) waits() string {
	at := t.Due.UTC().Format(time.RFC3339)
	switch t.Outcome {
	case delivery.OutcomeRetrying:
		return fmt.Sprintf("attempt %d failed (%s), the next at %s", t.Attempt, t.Reason, at)
	case delivery.OutcomeDeferred:
		return fmt.Sprintf("deferred (%s), looked at again at %s", t.Reason, at)
	}
	return "in progress"
}
