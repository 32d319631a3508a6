package activities

import (
	"cmp"
	"context"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/journey"
	"waypost/journey/nodes"
)

// What LookBatch, or a decision, finds out about an enrollment, beside OutcomeCanceled and
// OutcomeExited.
const (
	FoundPaused   = "paused"   // nothing is to be done until the workflow is woken
	FoundWaiting  = "waiting"  // it goes on at Due
	FoundOver     = "over"     // its delay is over
	FoundMatched  = "matched"  // the event that it waits for has come, or the condition is true
	FoundTimedOut = "timedOut" // that has not happened in time
	FoundChanged  = "changed"  // the lead has changed, and its waitUntil ends at Due, or has nothing to wait for
	FoundFailed   = "failed"   // it cannot go on
	FoundOrdered  = "ordered"  // it waits, and is to go on in another version: MoveBatch sees to that
)

// Finding is what LookBatch tells about one enrollment. It holds no personal data.
type Finding struct {
	Outcome string    `json:"outcome"` // delivery.OutcomeCanceled, OutcomeExited or a Found… value
	Due     time.Time `json:"due,omitzero"`
	Arm     int       `json:"arm,omitempty"` // of FoundMatched: which of several events has come
	// Reason is what the condition of a wait said of the last event, what has changed, or
	// why it has exited.
	Reason string `json:"reason,omitempty"`
	// Ending says that it has ended but for an attempt that is under way. Once that is
	// decided it is to be looked at again.
	Ending       bool      `json:"ending,omitempty"`
	LeadsID      int64     `json:"lead"`
	EnrollmentID string    `json:"enrollment"`
	At           time.Time `json:"at"`
}

// LookBatch finds out from what is recorded how enrollments go on: whether they
// were paused, canceled or exited, when their waits end, and whether the events have come
// that they wait for. It registers waits for events, for conditions, and for times that
// depend on the lead, whose ends it takes from the leads as they are now. It writes the timeline
// entries that are not written yet. It returns a finding for each item, in their
// order, and may run any number of times.
func (a *Activities) LookBatch(ctx context.Context, b delivery.Batch) ([]Finding, error) {
	v, err := a.version(ctx, b)
	if err != nil {
		return nil, err
	}
	if err := a.RecordBatch(ctx, b); err != nil {
		return nil, err
	}
	controls, err := a.controls(ctx, b)
	if err != nil {
		return nil, err
	}
	findings := make([]Finding, len(b.Items))
	var awaiting, following, watching []int
	var canceled []waypost.Touchpoint
	for i, item := range b.Items {
		due := cmp.Or(item.Planned, item.Since)
		// Waits go on where a pause found them; another attempt is made when its time
		// has come, or has come meanwhile, and a waitUntil ends when the clock says so.
		n, _ := v.Node(item.State.Node)
		waits := n.Description().Waits
		if item.State.Phase != journey.PhaseSend && waits != nodes.ForClock {
			due = controls.Of(item.EnrollmentID).Due(item.Since, due)
		}
		f := Finding{Outcome: FoundWaiting, Due: due, LeadsID: item.LeadsID, EnrollmentID: item.EnrollmentID, At: b.Now}
		outcome, reason := controls.Ended(item.EnrollmentID)
		switch {
		case outcome != "":
			f.Outcome, f.Reason = outcome, reason
			if item.State.Phase == journey.PhaseSend {
				canceled = append(canceled, item.Touchpoint())
			}
		case controls.Paused(item.EnrollmentID):
			f.Outcome = FoundPaused
		case waits == nodes.ForCondition:
			watching = append(watching, i)
		case item.State.Phase == journey.PhaseAwait:
			awaiting = append(awaiting, i)
		case item.State.Phase == journey.PhaseWait && len(n.Followed()) > 0:
			following = append(following, i)
		case item.State.Phase == journey.PhaseWait && !due.After(b.Now):
			f.Outcome = FoundOver
		}
		findings[i] = f
	}
	if err := a.store.CancelDeliveries(ctx, canceled); err != nil {
		return nil, err
	}
	// An attempt that is under way ends with a record; the workflow sends another
	// batch for it, which waits for that.
	open, err := a.engine.OpenAttempts(ctx, canceled)
	if err != nil {
		return nil, err
	}
	for i, item := range b.Items {
		if _, ok := open[item.Touchpoint()]; ok && item.State.Phase == journey.PhaseSend {
			findings[i].Outcome, findings[i].Reason, findings[i].Due, findings[i].Ending = FoundWaiting, "", b.Now, true
		}
	}
	if err := a.await(ctx, b, v, awaiting, findings); err != nil {
		return nil, err
	}
	if err := a.follow(ctx, b, v, following, findings); err != nil {
		return nil, err
	}
	if err := a.watch(ctx, b, v, watching, findings); err != nil {
		return nil, err
	}
	return findings, a.ordered(ctx, b, findings)
}

// ordered finds the enrollments that wait, and go on waiting, but are to do so in another
// version: an order wakes their workflow. Those that would go on are asked about
// too: a workflow that an operator has reset may have some that have left it.
func (a *Activities) ordered(ctx context.Context, b delivery.Batch, findings []Finding) error {
	seqs := map[string]int{}
	for i, item := range b.Items {
		outcome := findings[i].Outcome
		ended := outcome == delivery.OutcomeCanceled || outcome == delivery.OutcomeExited
		waits := outcome == FoundWaiting || outcome == FoundPaused
		if !ended && (item.Woken || !waits) && item.State.EnrollmentStatus() == waypost.EnrollmentWaiting {
			seqs[item.EnrollmentID] = item.State.Seq
		}
	}
	moves, err := a.store.Moves(ctx, b.Version, seqs)
	if err != nil {
		return err
	}
	for i := range findings {
		move, found := moves[findings[i].EnrollmentID]
		// An enrollment that is to wait for another time does so there: a look comes first there, too.
		waits := findings[i].Outcome == FoundWaiting || findings[i].Outcome == FoundPaused || findings[i].Outcome == FoundChanged
		if found && (waits || move == waypost.Move{}) {
			findings[i].Outcome = FoundOrdered
		}
	}
	return nil
}
