package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"go.temporal.io/sdk/activity"

	"waypost"
	"waypost/journey"
)

// How an enrollment has ended of which nothing more is sent.
const (
	OutcomeCanceled = "canceled"
	OutcomeExited   = "exited" // by an event; the reason says which
)

// standing is what was decided about the enrollments of a batch.
type standing struct {
	controls map[string]waypost.Controls // by enrollment, of those that have any
	held     map[string]bool             // targets that this workflow was registered with
}

// stand reads what was decided about the enrollments of items. Of those that are
// paused it registers the workflow, so that it is told of their resume. What was
// resumed in between it reads again: the resume may have moved waits.
func (a *Activities) stand(ctx context.Context, b Batch, items []Item) (standing, error) {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.EnrollmentID
	}
	for {
		controls, err := a.store.Controls(ctx, waypost.ControlTargets{JourneyID: b.JourneyID, LaunchID: b.LaunchID, EnrollmentIDs: ids})
		if err != nil {
			return standing{}, fmt.Errorf("read controls: %w", err)
		}
		s := standing{controls: controls, held: map[string]bool{}}
		targets := map[string]bool{}
		for _, c := range controls {
			if outcome, _ := over(c); outcome != "" {
				continue
			}
			for _, target := range c.Holds() {
				targets[target] = true
			}
		}
		if len(targets) == 0 {
			return s, nil
		}
		held, err := a.store.Hold(ctx, activity.GetInfo(ctx).WorkflowExecution.ID, slices.Sorted(maps.Keys(targets)))
		if err != nil {
			return standing{}, fmt.Errorf("hold: %w", err)
		}
		for _, target := range held {
			s.held[target] = true
		}
		if len(held) == len(targets) {
			return s, nil
		}
	}
}

// over says how an enrollment has ended, as OutcomeCanceled or OutcomeExited, and
// why; "" if it has not. What it exits on is noted only while it is not canceled.
func (s standing) over(enrollment string) (outcome, reason string) {
	return over(s.controls[enrollment])
}

func over(c waypost.Controls) (outcome, reason string) {
	if event, _, exited := c.Exited(); exited {
		return OutcomeExited, "event " + event
	}
	if _, canceled := c.Canceled(); canceled {
		return OutcomeCanceled, ""
	}
	return "", ""
}

func (s standing) paused(enrollment string) bool {
	return slices.ContainsFunc(s.controls[enrollment].Holds(), func(target string) bool { return s.held[target] })
}

// CancelBatch cancels enrollments whose workflow was canceled by an operator. It
// fails, and is to be tried again, while attempts of theirs are under way: nobody
// else would see to their end.
func (a *Activities) CancelBatch(ctx context.Context, b Batch) error {
	ids := make([]string, len(b.Items))
	var keys []waypost.Touchpoint
	for i, item := range b.Items {
		ids[i] = item.EnrollmentID
		if item.State.Phase == journey.PhaseSend {
			keys = append(keys, item.touchpoint())
		}
	}
	if err := a.store.CancelEnrollments(ctx, ids); err != nil {
		return fmt.Errorf("cancel enrollments: %w", err)
	}
	open, err := a.openAttempts(ctx, keys)
	if err != nil {
		return err
	}
	if err := a.closeLost(ctx, b.Scope, open); err != nil {
		return err
	}
	return a.store.CancelDeliveries(ctx, keys)
}

// closeLost records those of the open attempts as interrupted that nobody is at. It
// is an error if there are others.
func (a *Activities) closeLost(ctx context.Context, sc waypost.Scope, open map[waypost.Touchpoint]waypost.Sending) error {
	var lost []waypost.AttemptRecord
	for key, s := range open {
		patience := a.cutOffAt(s, waypost.MaxTimeoutMs)
		if s.Open.By == a.process && !a.flights.has(waypost.Round{Touchpoint: key, Round: s.Round}) || patience.Before(a.now()) {
			lost = append(lost, interrupted(key, sc, s))
		}
	}
	if err := a.store.RecordAttempts(ctx, lost); err != nil {
		return fmt.Errorf("record interrupted attempts: %w", err)
	}
	if n := len(open) - len(lost); n > 0 {
		return fmt.Errorf("%d attempts are under way", n)
	}
	return nil
}

// openAttempts returns those of the touchpoints whose delivery has an attempt that
// has not ended.
func (a *Activities) openAttempts(ctx context.Context, keys []waypost.Touchpoint) (map[waypost.Touchpoint]waypost.Sending, error) {
	stored, err := a.store.Sendings(ctx, keys)
	if err != nil {
		return nil, fmt.Errorf("read deliveries: %w", err)
	}
	return onlyOpen(stored), nil
}

// onlyOpen leaves those with an attempt that has not ended.
func onlyOpen(stored map[waypost.Touchpoint]waypost.Sending) map[waypost.Touchpoint]waypost.Sending {
	maps.DeleteFunc(stored, func(_ waypost.Touchpoint, s waypost.Sending) bool { return s.Open == nil || s.Status.Final() })
	return stored
}

// interrupted is the record of an open attempt that nobody sees the end of, of an
// enrollment or a redelivery that was canceled.
func interrupted(key waypost.Touchpoint, sc waypost.Scope, s waypost.Sending) waypost.AttemptRecord {
	return waypost.AttemptRecord{
		Touchpoint: key, Scope: sc, MessageID: s.MessageID, Round: s.Round, Attempt: s.Open.Attempt,
		Outcome: cutOff(s.Open.At), Status: waypost.DeliveryCanceled,
	}
}

// cutOff is the outcome of an attempt whose process ended before it saw the answer.
func cutOff(at time.Time) waypost.Outcome {
	return waypost.Outcome{ErrorClass: waypost.ClassInterrupted, Message: "the process ended before it saw the answer", At: at}
}

// CancelInput names a launch whose workflow was canceled by an operator.
type CancelInput struct {
	Scope    waypost.Scope `json:"scope"`
	LaunchID string        `json:"launch"`
}

// CancelLaunch cancels a launch, with the enrollments that it has made. One that
// has ended stays as it is.
func (a *Activities) CancelLaunch(ctx context.Context, in CancelInput) error {
	_, err := a.store.CancelLaunch(ctx, in.Scope, in.LaunchID)
	return unlessRefused(err)
}

// unlessRefused leaves out what a further try would not change.
func unlessRefused(err error) error {
	if errors.As(err, new(*waypost.Error)) {
		return nil
	}
	return err
}
