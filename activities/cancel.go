package activities

import (
	"context"
	"errors"

	"waypost"
	"waypost/delivery"
)

// CancelBatch cancels enrollments whose workflow was canceled by an operator. It
// fails, and is to be tried again, while attempts of theirs are under way.
func (a *Activities) CancelBatch(ctx context.Context, b delivery.Batch) error {
	return a.engine.Cancel(ctx, b)
}

// CancelRedeliveries cancels redeliveries whose workflow was canceled by an operator.
// As CancelBatch it fails, and is to be tried again, while attempts of theirs are
// under way.
func (a *Activities) CancelRedeliveries(ctx context.Context, b delivery.Batch) error {
	return a.engine.CancelRedeliveries(ctx, b)
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
