package workflows

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/activities"
)

// LaunchInput is what a Launch workflow starts with and, in the same form,
// continues as new with.
type LaunchInput struct {
	Scope         waypost.Scope `json:"scope"`
	LaunchID      string        `json:"launch"`
	JourneyID     string        `json:"journey"`
	StartAt       time.Time     `json:"startAt,omitzero"`
	RatePerSecond float64       `json:"ratePerSecond,omitempty"` // when it was last looked at
	Credit        float64       `json:"credit,omitempty"`        // of the rate, from the run before
	Enrolled      int           `json:"enrolled,omitempty"`      // by runs before
	Skipped       int           `json:"skipped,omitempty"`
	HeldOut       int           `json:"heldOut,omitempty"`
}

// LaunchResult stands in the box at the top of the workflow's page.
type LaunchResult struct {
	Launch   string `json:"launch"`
	Journey  string `json:"journey"`
	Enrolled int    `json:"enrolled"`
	Skipped  int    `json:"skipped"`
	HeldOut  int    `json:"heldOut,omitempty"`
	Canceled bool   `json:"canceled,omitempty"`
}

// Launch enrolls the audience of a launch, once it is time, and waits while the
// launch is paused. Where it stands is in the database: a run that is cut off goes
// on where its last step ended. The counts are those that activities answered; an activity
// that was cut off is not in them.
func Launch(ctx workflow.Context, in LaunchInput) (LaunchResult, error) {
	wakes := workflow.GetSignalChannel(ctx, SignalWake)
	result := func(canceled bool) LaunchResult {
		return LaunchResult{in.LaunchID, in.JourneyID, in.Enrolled, in.Skipped, in.HeldOut, canceled}
	}
	show := func(what string) {
		counts := fmt.Sprintf("%d enrolled, %d skipped", in.Enrolled, in.Skipped)
		if in.HeldOut > 0 {
			counts += fmt.Sprintf(", %d held out", in.HeldOut)
		}
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("%s. %s.", what, counts))
	}
	canceled := func(why error) error {
		return cancelIf(ctx, why, activitiesOf.CancelLaunch, activities.CancelInput{Scope: in.Scope, LaunchID: in.LaunchID})
	}
	ctx = workflow.WithActivityOptions(ctx, tireless(audienceTimeout, "enroll the audience"))
	for {
		early := workflow.Now(ctx).Before(in.StartAt)
		if early {
			show("Begins at " + in.StartAt.UTC().Format(time.RFC3339))
			if err := receive(ctx, wakes, in.StartAt, "startAt"); err != nil {
				return result(true), canceled(err)
			}
			early = workflow.Now(ctx).Before(in.StartAt)
		}
		if !early {
			show("Enrolls its audience")
		}
		var p activities.AudienceProgress
		// Woken before its time, it asks only whether it is canceled.
		input := activities.AudienceInput{LaunchID: in.LaunchID, Credit: in.Credit, Early: early}
		if err := workflow.ExecuteActivity(ctx, activitiesOf.EnrollAudience, input).Get(ctx, &p); err != nil {
			return result(true), canceled(err)
		}
		in.Enrolled += p.Enrolled
		in.Skipped += p.Skipped
		in.HeldOut += p.HeldOut
		in.Credit, in.RatePerSecond = p.Credit, p.RatePerSecond
		switch {
		case p.Done || p.Canceled:
			show("Done")
			return result(p.Canceled), nil
		case p.Paused:
			show("Paused")
			if err := receive(ctx, wakes, time.Time{}, ""); err != nil {
				return result(true), canceled(err)
			}
		case !p.Until.IsZero():
			show("Holds the rest until an arm has won, or until " + p.Until.UTC().Format(time.RFC3339))
			if err := receive(ctx, wakes, p.Until, "test"); err != nil {
				return result(true), canceled(err)
			}
		case p.Wait > 0:
			began := workflow.Now(ctx)
			if err := receive(ctx, wakes, began.Add(p.Wait), "ratePerSecond"); err != nil {
				return result(true), canceled(err)
			}
			// Late by much is an outage: its leads are not enrolled in one go after it.
			in.Credit += in.RatePerSecond * min(workflow.Now(ctx).Sub(began), 2*p.Wait).Seconds()
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			for wakes.ReceiveAsync(nil) { // the next run looks anyway
			}
			return LaunchResult{}, workflow.NewContinueAsNewError(ctx, TypeLaunch, in)
		}
	}
}

// cancelIf cancels what a workflow carries out, by an activity, if an operator
// canceled the workflow. It returns why the workflow ends.
func cancelIf(ctx workflow.Context, why error, cancel, input any) error {
	if ctx.Err() == nil {
		return why
	}
	options := workflow.GetActivityOptions(ctx)
	options.Summary = "cancel"
	return cancelApart(workflow.WithActivityOptions(ctx, options), cancel, input)
}

// cancelApart has an activity cancel what a workflow carries out that was canceled.
func cancelApart(ctx workflow.Context, cancel, input any) error {
	apart, stop := workflow.NewDisconnectedContext(ctx)
	defer stop()
	if err := workflow.ExecuteActivity(apart, cancel, input).Get(apart, nil); err != nil {
		return err
	}
	return ctx.Err()
}

// tireless are the options of an activity that fails only when it cannot reach
// what it needs: it is tried until it works, however long that takes. Its heartbeats show
// within seconds that its process has died.
func tireless(timeout time.Duration, summary string) workflow.ActivityOptions {
	return workflow.ActivityOptions{
		StartToCloseTimeout: timeout,
		HeartbeatTimeout:    heartbeatTimeout,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
		},
		Summary: summary,
	}
}

// audienceTimeout bounds one run of EnrollAudience, which ends by itself after
// minutes.
const audienceTimeout = 15 * time.Minute

// receive waits until the workflow is woken or canceled, or the time has come; the zero
// time never comes. The timer says what it is for.
func receive(ctx workflow.Context, wakes workflow.ReceiveChannel, until time.Time, what string) error {
	timing, stop := workflow.WithCancel(ctx)
	defer stop()
	selector := workflow.NewSelector(ctx).
		AddReceive(wakes, func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, nil) }).
		AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) {})
	if !until.IsZero() {
		timer := workflow.NewTimerWithOptions(timing, until.Sub(workflow.Now(ctx)), workflow.TimerOptions{Summary: what})
		selector.AddFuture(timer, func(workflow.Future) {})
	}
	selector.Select(ctx)
	return ctx.Err()
}
