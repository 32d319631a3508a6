package activities

import (
	"context"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/journey"
)

// Decision is how one enrollment goes on at a branch, a waitUntil, a split, an enroll, an
// updateLead or an emit node.
type Decision struct {
	EnrollmentID string `json:"enrollment"`
	LeadsID      int64  `json:"lead"`
	Arm          int    `json:"arm"` // index of a branch's case (-1: otherwise) or of a split's arm
	// Until is when a waitUntil is over, zero if there is nothing to wait for.
	Until   time.Time `json:"until,omitzero"`
	Succeed bool      `json:"succeed,omitempty"` // it has enrolled, updated or emitted
	// Stopped is FoundPaused, OutcomeCanceled or OutcomeExited where nothing was
	// decided, or FoundFailed where the enrollment cannot go on.
	Stopped string `json:"stopped,omitempty"`
	// Recorded says that the entries of the decision are in the timeline, and those before.
	Recorded bool      `json:"recorded,omitempty"`
	Reason   string    `json:"reason"`
	At       time.Time `json:"at"`
}

// Input is the decision as the interpreter takes it, of one that was not Stopped.
func (d Decision) Input() journey.Input {
	return journey.Input{Kind: journey.InputDecided, At: d.At, Arm: d.Arm, Until: d.Until, Succeed: d.Succeed, Reason: d.Reason}
}

// DecideBatch decides a branch, a waitUntil or a split for every item, in the order of the
// items. The workflow's history is the record of the decision, and the next activity of the
// enrollment writes its timeline. It writes nothing but, in journeys with a goal, who took
// which arm of a split.
func (a *Activities) DecideBatch(ctx context.Context, b delivery.Batch) ([]Decision, error) {
	v, err := a.version(ctx, b)
	if err != nil {
		return nil, err
	}
	controls, err := a.controls(ctx, b)
	if err != nil {
		return nil, err
	}
	subjects, err := a.engine.Subjects(ctx, b, v, b.Items, nil)
	if err != nil {
		return nil, err
	}
	at := a.engine.DecidedAt(b)
	decisions := make([]Decision, len(b.Items))
	for i, item := range b.Items {
		d := undecided(item, at)
		if d.Stopped, d.Reason = stops(controls, item.EnrollmentID); d.Stopped == "" {
			in, err := v.DecideAt(b.NodeID, subjects[i].Facts, at)
			if err != nil {
				return nil, err
			}
			d.Arm, d.Until, d.Reason = in.Arm, in.Until, in.Reason
		}
		decisions[i] = d
	}
	return decisions, a.takeArms(ctx, b, v, decisions)
}

// takeArms records the arms of a split, in a journey with a goal, and replaces them by that of
// the winner, if the split has one.
func (a *Activities) takeArms(ctx context.Context, b delivery.Batch, v delivery.Version, decisions []Decision) error {
	n, _ := v.Node(b.NodeID)
	if _, counts := v.Goal(); !counts || n.Type != journey.Split || len(decisions) == 0 {
		return nil
	}
	arms := waypost.ArmBatch{JourneyID: b.JourneyID, Version: b.Version, NodeID: b.NodeID, Weights: n.Weights(), At: decisions[0].At}
	if contest, ok := n.Contest(); ok {
		arms.Contest = &contest
	}
	for i, item := range b.Items {
		if d := decisions[i]; d.Stopped == "" {
			arms.Items = append(arms.Items, waypost.ArmChoice{Touchpoint: item.Touchpoint(), LeadsID: item.LeadsID, Arm: d.Arm})
		}
	}
	taken, err := a.store.TakeArms(ctx, arms)
	if err != nil {
		return err
	}
	for i, item := range b.Items {
		arm, took := taken[item.Touchpoint()]
		if took { // the timeline tells the time that the statistics go by
			decisions[i].At = arm.At
		}
		if arm.Won {
			in := journey.WonAt(arm.Arm, decisions[i].At)
			decisions[i].Arm, decisions[i].Reason = in.Arm, in.Reason
		}
	}
	return nil
}

func undecided(item delivery.Item, at time.Time) Decision {
	return Decision{EnrollmentID: item.EnrollmentID, LeadsID: item.LeadsID, Arm: -1, At: at}
}

// stops says what keeps an enrollment from going on, and why, as Decision has it; ""
// if nothing does.
func stops(controls delivery.Controls, enrollmentID string) (stopped, reason string) {
	if outcome, reason := controls.Ended(enrollmentID); outcome != "" {
		return outcome, reason
	}
	if controls.Paused(enrollmentID) {
		return FoundPaused, ""
	}
	return "", ""
}

// RecordBatch writes the timeline entries of enrollments that begin a wait or have ended,
// which no other activity is about to write.
func (a *Activities) RecordBatch(ctx context.Context, b delivery.Batch) error {
	progress := make([]waypost.Progress, 0, len(b.Items))
	for _, item := range b.Items {
		if p := item.Progress(item.State, nil); p != nil {
			progress = append(progress, *p)
		}
	}
	return a.store.RecordProgress(ctx, progress)
}
