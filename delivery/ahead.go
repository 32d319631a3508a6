package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"

	"waypost"
	"waypost/journey"
)

// errNotAhead says that a message is not sent ahead. Nothing was written of it.
var errNotAhead = errors.New("it is left to the workflow")

// SendAhead sends the first messages of claimed enrollments whose workflow will be started:
// they need not wait until Temporal has stored a workflow whose enrollments are in SQL
// anyway. The workflow's batch then joins the POSTs, or finds what is recorded of them.
// SendAhead returns once they are under way, and tells whether the workflow is in no hurry:
// messages may be under way, or the journey begins with a wait for a time. If no message may
// be, it has written nothing. coalesce says that others are to share the workflow (see Batch).
//
// It passes the stages of a batch. What would have to be held back is left to the workflow,
// and so are journeys with a frequency cap, and webhooks with limits of their own
// (docs/adr/0017-ahead.md).
func (e *Engine) SendAhead(ctx context.Context, claimed waypost.Cohort, coalesce bool) (canWait bool) {
	var r *run // the one whose attempts may be open, also after a panic
	defer func() {
		// Outside of an activity, it would take the process along.
		if fault := recover(); fault != nil {
			e.log.Error("sending ahead panicked", "journey", claimed.Version.JourneyID, "panic", fmt.Sprintf("%T", fault), "stack", string(debug.Stack()))
		}
		canWait = canWait || r != nil && r.opened
	}()
	var waits bool
	var err error
	r, waits, err = e.firstRun(ctx, claimed, coalesce)
	if err == nil && r != nil {
		err = r.send(ctx)
	}
	if err != nil && !errors.Is(err, errNotAhead) {
		e.Failed(err)
		e.log.Warn("not sent ahead; the workflow will send it", "journey", claimed.Version.JourneyID, "enrollments", len(claimed.Members), "error", err)
	}
	return waits
}

// firstRun is the first batch of claimed enrollments, as their workflow would make it if they
// entered the journey now; nil if the journey begins with something else. waits tells
// whether it begins with a wait for a time. A wait for an event or a condition does not
// count: events and changes do from the workflow's start on.
func (e *Engine) firstRun(ctx context.Context, claimed waypost.Cohort, coalesce bool) (r *run, waits bool, err error) {
	b := Batch{Scope: claimed.Version.Scope, JourneyID: claimed.Version.JourneyID, Version: claimed.Version.Version, Coalesce: coalesce}
	v, err := e.Version(ctx, b.Scope, b.JourneyID, b.Version)
	if err != nil {
		return nil, false, err
	}
	now := e.now().UTC()
	first, effect, err := journey.Step(v.Definition, journey.State{}, journey.Input{Kind: journey.InputStart, At: now})
	if err != nil {
		return nil, false, err
	}
	if first.Phase != journey.PhaseSend || !v.FrequencyCap().None() {
		return nil, first.Phase == journey.PhaseWait, nil
	}
	node, _ := v.Node(first.Node)
	first.Path, b.NodeID = nil, first.Node
	for _, m := range claimed.Members {
		b.Items = append(b.Items, Item{
			EnrollmentID: m.EnrollmentID, LeadsID: m.LeadsID, State: first, Unrecorded: effect.Entries, Since: now, Unsent: true,
		})
	}
	r = e.newRun(Caller{WorkflowID: claimed.Members[0].EnrollmentID, Local: true, FirstAttempt: true}, b, v)
	r.ahead, r.hook.ID = true, node.Webhook
	return r, false, nil
}
