package activities

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
)

// AudienceInput names the launch whose audience is to be enrolled.
type AudienceInput struct {
	LaunchID string `json:"launch"`
	// RatePerSecond bounds the enrollments a second; 0 does not.
	RatePerSecond float64 `json:"ratePerSecond,omitempty"`
	// Early asks only whether the launch is canceled or paused: its time has not come.
	Early bool `json:"early,omitempty"`
}

// AudienceProgress is how far a run of EnrollAudience got.
type AudienceProgress struct {
	Enrolled int  `json:"enrolled"` // in this run
	Skipped  int  `json:"skipped"`  // in this run
	HeldOut  int  `json:"heldOut,omitempty"`
	Done     bool `json:"done,omitempty"`
	Canceled bool `json:"canceled,omitempty"`
	// Paused says that the workflow will be told when to go on.
	Paused bool `json:"paused,omitempty"`
}

const (
	// audienceStep is the number of leads in one transaction.
	audienceStep = 500
	// maxAudienceStep is that of a launch with a rate that this is too few for.
	maxAudienceStep = 1000
	// audienceRun bounds one run of the activity, so that a launch that takes days
	// shows its progress in the history.
	audienceRun = 5 * time.Minute
)

// EnrollAudience enrolls the audience of a launch step by step, until nobody is
// left, it is paused or canceled, or some minutes have passed. Every step is one
// transaction with the launch's place in its audience: a run that is cut off
// neither loses nor repeats a lead.
func (a *Activities) EnrollAudience(ctx context.Context, in AudienceInput) (AudienceProgress, error) {
	tell, stop := keepAlive(ctx)
	defer stop()
	var p AudienceProgress
	if in.Early {
		step, err := a.store.EnrollAudience(ctx, in.LaunchID, 0)
		if err != nil {
			return p, fmt.Errorf("look at launch %s: %w", in.LaunchID, err)
		}
		p.Canceled = step.Canceled
		return p, nil
	}
	begin := time.Now()
	for time.Since(begin) < audienceRun {
		n := audienceStep
		if in.RatePerSecond > 0 {
			// As many as are due since the beginning, some times a second. Whom nobody
			// enrolls because of the control group takes no place.
			allowed := int(in.RatePerSecond*(time.Since(begin)+rateTick).Seconds()) - p.Enrolled - p.Skipped
			if allowed < 1 {
				if err := pause(ctx, rateTick); err != nil {
					return p, err
				}
				continue
			}
			n = min(maxAudienceStep, allowed)
		}
		step, err := a.store.EnrollAudience(ctx, in.LaunchID, n)
		if err != nil {
			return p, fmt.Errorf("enroll the audience of launch %s: %w", in.LaunchID, err)
		}
		p.Enrolled += step.Enrolled
		p.Skipped += step.Skipped
		p.HeldOut += step.HeldOut
		if step.Enrolled > 0 {
			a.wake()
		}
		if step.Done || step.Canceled || len(step.Held) > 0 {
			p.Done, p.Canceled, p.Paused = step.Done, step.Canceled, len(step.Held) > 0
			return p, nil
		}
		tell(p)
		if stopping(ctx) {
			return p, nil
		}
	}
	return p, nil
}

// stopping tells whether the worker stops: another one goes on.
func stopping(ctx context.Context) bool {
	select {
	case <-activity.GetWorkerStopChannel(ctx):
		return true
	default:
		return false
	}
}

// rateTick is how often a launch with a rate enrolls.
const rateTick = 100 * time.Millisecond
