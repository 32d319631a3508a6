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

// SendAhead begins the first batch of a cohort whose workflow is about to be started, if
// there is nothing to it but to send: a message need not wait until Temporal has written
// down a workflow that is stored in SQL anyway. The workflow's batch then joins the POSTs,
// or finds what is recorded of them. It returns once they are under way, and tells whether
// any may be; if not, the workflow begins as if nothing had been tried.
//
// All that a batch does before a POST is done here too: breaker and controls are asked, and
// the attempt is opened, with the message. What would have to be held back is left to
// the workflow, and so are launches, journeys with a frequency cap, and webhooks that have
// limits of their own.
func (e *Engine) SendAhead(ctx context.Context, c waypost.Cohort) (sent bool) {
	var r *run
	defer func() {
		// Outside of an activity, it would take the process along.
		if fault := recover(); fault != nil {
			e.log.Error("sending ahead panicked", "cohort", c.ID, "panic", fmt.Sprintf("%T", fault), "stack", string(debug.Stack()))
		}
		sent = r != nil && r.opened
	}()
	var err error
	if r, err = e.aheadOf(ctx, c); r != nil {
		err = r.send(ctx)
	}
	if err != nil && !errors.Is(err, errNotAhead) {
		e.Failed(err)
		e.log.Warn("not sent ahead; the workflow will send it", "cohort", c.ID, "error", err)
	}
	return sent // see above
}

// aheadOf is the first batch of a cohort that enters its journey now, as its workflow would
// make it; nil if it has none that can go ahead.
func (e *Engine) aheadOf(ctx context.Context, c waypost.Cohort) (*run, error) {
	if c.LaunchID != "" {
		return nil, nil
	}
	b := Batch{Scope: c.Version.Scope, JourneyID: c.Version.JourneyID, Version: c.Version.Version, Coalesce: len(c.Members) > 1}
	v, err := e.Version(ctx, b.Scope, b.JourneyID, b.Version)
	if err != nil {
		return nil, err
	}
	now := e.now().UTC()
	state, effect, err := journey.Step(v.Definition, journey.State{}, journey.Input{Kind: journey.InputStart, At: now})
	if err != nil {
		return nil, err
	}
	node, ok := v.Node(state.Node)
	if !ok || state.Phase != journey.PhaseSend || !v.FrequencyCap().None() {
		return nil, nil
	}
	state.Path, b.NodeID = nil, state.Node
	for _, m := range c.Members {
		if m.Carried != nil {
			return nil, nil
		}
		b.Items = append(b.Items, Item{
			EnrollmentID: m.EnrollmentID, LeadsID: m.LeadsID, State: state, Unrecorded: effect.Entries, Since: now, Fresh: true,
		})
	}
	r := e.newRun(Caller{WorkflowID: c.ID, Local: true, FirstAttempt: true}, b, v)
	r.ahead, r.began, r.hook.ID = true, now, node.Webhook
	return r, nil
}
