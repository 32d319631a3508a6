package activities

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"go.temporal.io/sdk/activity"

	"waypost"
)

// OutcomeCanceled says that the enrollment was canceled: nothing more is sent.
const OutcomeCanceled = "canceled"

// standing is what was decided about the enrollments of a batch.
type standing struct {
	controls map[string]waypost.Controls // by enrollment, of those that have any
	held     map[string]bool             // targets that this workflow was registered with
}

// stand reads what was decided about the enrollments of items. Of those that are
// paused it registers the workflow, so that it is told of their resume: what was
// resumed in between is not held.
func (a *Activities) stand(ctx context.Context, b Batch, items []Item) (standing, error) {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.EnrollmentID
	}
	controls, err := a.store.Controls(ctx, waypost.ControlTargets{JourneyID: b.JourneyID, LaunchID: b.LaunchID, EnrollmentIDs: ids})
	if err != nil {
		return standing{}, fmt.Errorf("read controls: %w", err)
	}
	s := standing{controls: controls, held: map[string]bool{}}
	targets := map[string]bool{}
	for _, c := range controls {
		if _, canceled := c.Canceled(); canceled {
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
	return s, nil
}

func (s standing) canceled(enrollment string) bool {
	_, canceled := s.controls[enrollment].Canceled()
	return canceled
}

func (s standing) paused(enrollment string) bool {
	return slices.ContainsFunc(s.controls[enrollment].Holds(), func(target string) bool { return s.held[target] })
}

// CancelBatch cancels enrollments whose workflow was canceled by an operator.
func (a *Activities) CancelBatch(ctx context.Context, b Batch) error {
	ids := make([]string, len(b.Items))
	for i, item := range b.Items {
		ids[i] = item.EnrollmentID
	}
	return a.store.CancelEnrollments(ctx, ids)
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
	var refused *waypost.Error
	if errors.As(err, &refused) {
		return nil
	}
	return err
}
