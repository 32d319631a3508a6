package activities

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"waypost"
)

// OccurrenceInput names an occurrence of a recurring launch.
type OccurrenceInput struct {
	LaunchID string    `json:"launch"` // that recurs
	At       time.Time `json:"at"`     // in its schedule
}

// OccurrenceResult is what opening it came to.
type OccurrenceResult struct {
	Launch  string             `json:"launch,omitempty"`
	Skipped waypost.SkipReason `json:"skipped,omitempty"`
}

// OpenOccurrence opens an occurrence of a recurring launch, once, whatever crashes:
// the pump starts it like any launch.
func (a *Activities) OpenOccurrence(ctx context.Context, in OccurrenceInput) (OccurrenceResult, error) {
	_, stop := keepAlive(ctx)
	defer stop()
	o, err := a.store.OpenOccurrence(ctx, in.LaunchID, in.At)
	switch {
	case waypost.CodeOf(err) == waypost.CodeNotFound:
		return OccurrenceResult{}, temporal.NewNonRetryableApplicationError(
			fmt.Sprintf("there is no recurring launch %s", in.LaunchID), "OccurrenceFailed", nil)
	case err != nil:
		return OccurrenceResult{}, err
	}
	if o.Skipped != "" {
		a.log.Warn("an occurrence of a recurring launch is skipped", "launch", in.LaunchID, "at", in.At, "reason", o.Skipped)
	}
	a.wake() // also to delete the Schedule of one that is canceled
	return OccurrenceResult{Launch: o.LaunchID, Skipped: o.Skipped}, nil
}
