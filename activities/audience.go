package activities

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"

	"waypost"
)

// AudienceInput names the launch whose audience is to be enrolled.
type AudienceInput struct {
	LaunchID string `json:"launch"`
	// Credit is how many the rate allows at once, because of the time that has passed
	// since the run before.
	Credit float64 `json:"credit,omitempty"`
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
	// Paused says that the workflow is woken when to go on.
	Paused bool `json:"paused,omitempty"`
	// Credit is what the rate has left. Wait says after how long the workflow is to come
	// again: the next lead is not due before, or there is no slot here to wait for it.
	Credit float64       `json:"credit,omitempty"`
	Wait   time.Duration `json:"wait,omitempty"`
	// RatePerSecond is the launch's rate at the end of the run; 0 has none.
	RatePerSecond float64 `json:"ratePerSecond,omitempty"`
	// Until is set while the rest of the audience is held: until an arm wins, when the workflow is
	// woken, and no longer than until then.
	Until time.Time `json:"until,omitzero"`
}

// pace is how many leads the rate of a launch allows. A lead of the control group is not enrolled,
// and uses none.
type pace struct {
	rate   float64 // leads a second; 0: as fast as it goes
	credit float64 // leads, at the time
	at     time.Time
}

// now brings the credit up to now. A rate that has changed counts from now on.
func (p *pace) now(rate float64) float64 {
	now := time.Now()
	p.credit += p.rate * now.Sub(p.at).Seconds()
	if p.at = now; p.rate != rate {
		p.rate, p.credit = rate, min(p.credit, max(1, rate))
	}
	return p.credit
}

const (
	// audienceStep is the number of leads in one transaction.
	audienceStep = 3 * waypost.MaxLaunchCohort
	// maxAudienceStep is that of a launch with a rate that this is too few for.
	maxAudienceStep = 1000
	// audienceRun bounds one run of the activity, so that a launch that takes days
	// shows its progress in the history.
	audienceRun = 5 * time.Minute
	// rateTick is how often a launch with a rate enrolls.
	rateTick = 100 * time.Millisecond
	// pacingSlots is how many launches of a process may wait for their rate in an activity,
	// which takes a slot of the worker. The others, and each that would wait for longer,
	// come again after pacingAway.
	pacingSlots = 20
	pacingAway  = 5 * time.Second
)

// EnrollAudience enrolls the audience of a launch step by step, until no lead is left,
// the launch is paused or canceled, some minutes have passed, or its rate has it wait
// elsewhere. Every step is one transaction with the launch's place in its audience: a run
// that is cut off neither loses nor repeats a lead.
func (a *Activities) EnrollAudience(ctx context.Context, in AudienceInput) (AudienceProgress, error) {
	tell, stop := keepAlive(ctx)
	defer stop()
	var p AudienceProgress
	if in.Early {
		err := a.enrollSome(ctx, in.LaunchID, 0, &p)
		return AudienceProgress{Canceled: p.Canceled}, err
	}
	if activity.GetInfo(ctx).Attempt > 1 {
		in.Credit = 0 // the try before may have used it
	}
	if err := a.enrollSome(ctx, in.LaunchID, 0, &p); err != nil || p.Canceled || p.Paused {
		return p, err
	}
	begin := time.Now()
	pace := pace{p.RatePerSecond, in.Credit, begin}
	waits := false
	for time.Since(begin) < audienceRun {
		n := audienceStep
		if credit := pace.now(p.RatePerSecond); pace.rate > 0 {
			n = min(maxAudienceStep, int(credit+pace.rate*rateTick.Seconds()))
		}
		if n < 1 {
			wait := time.Duration((1 - pace.credit) / pace.rate * float64(time.Second))
			if !waits && wait <= pacingAway {
				select {
				case a.pacing <- struct{}{}:
					waits = true
					defer func() { <-a.pacing }()
				default:
					wait = pacingAway
				}
			}
			if !waits || wait > pacingAway {
				p.Wait = wait
				// The workflow may have been woken because the launch is canceled or paused.
				if err := a.enrollSome(ctx, in.LaunchID, 0, &p); err != nil {
					return p, err
				}
				break
			}
			if stopping(ctx) {
				break
			}
			select {
			case <-time.After(rateTick):
			case <-ctx.Done():
				return p, ctx.Err()
			}
			continue
		}
		before := p.Enrolled + p.Skipped
		if err := a.enrollSome(ctx, in.LaunchID, n, &p); err != nil || p.Done || p.Canceled || p.Paused || !p.Until.IsZero() {
			return p, err
		}
		pace.credit -= float64(p.Enrolled + p.Skipped - before)
		tell(p)
		if stopping(ctx) {
			break
		}
	}
	if pace.rate > 0 {
		p.Credit = min(pace.now(p.RatePerSecond), max(1, pace.rate)) // more than a second's worth is not made up for
	}
	return p, nil
}

// enrollSome takes one step of up to n leads, and adds it to p; with n = 0 it only finds out
// how the launch stands.
func (a *Activities) enrollSome(ctx context.Context, launchID string, n int, p *AudienceProgress) error {
	step, err := a.store.EnrollAudience(ctx, launchID, n)
	if err != nil {
		return err
	}
	p.Enrolled += step.Enrolled
	p.Skipped += step.Skipped
	p.HeldOut += step.HeldOut
	p.Done, p.Canceled, p.Paused = step.Done, step.Canceled, len(step.Held) > 0
	p.RatePerSecond, p.Until = step.RatePerSecond, step.Waits
	if step.Enrolled > 0 {
		a.wake()
	}
	return nil
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
