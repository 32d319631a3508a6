package delivery

import (
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"time"

	"waypost"
	"waypost/journey"
)

// errNotAhead says that a message is not sent ahead. Nothing was written of it.
var errNotAhead = errors.New("it is left to the workflow")

// SendAhead sends the first messages of claimed enrollments whose workflow will be started:
// they need not wait until Temporal has stored a workflow whose enrollments are in SQL
// anyway. The workflow's batch then joins the POSTs, or finds what is recorded of them.
// SendAhead returns once they are under way, and tells whether the workflow is in no hurry:
// messages may be under way, or the journey begins with a wait for a time. If no message may be, it has
// written nothing. coalesce says that others are to share the workflow (see Batch).
//
// It passes the stages of a batch. What would have to be held back is left to the workflow,
// and so are journeys with a frequency cap, and webhooks with limits of their own
// (docs/adr/0017-ahead.md).
func (e *Engine) SendAhead(ctx context.Context, claimed waypost.Cohort, coalesce bool) (patient bool) {
	var r *run
	defer func() {
		// Outside of an activity, it would take the process along.
		if fault := recover(); fault != nil {
			e.log.Error("sending ahead panicked", "journey", claimed.Version.JourneyID, "panic", fmt.Sprintf("%T", fault), "stack", string(debug.Stack()))
		}
		patient = patient || r != nil && r.opened
	}()
	v, err := e.Version(ctx, claimed.Version.Scope, claimed.Version.JourneyID, claimed.Version.Version)
	if err == nil {
		now := e.now().UTC()
		var first journey.State
		var effect journey.Effect
		first, effect, err = journey.Step(v.Definition, journey.State{}, journey.Input{Kind: journey.InputStart, At: now})
		switch {
		case err != nil:
		case first.Phase == journey.PhaseWait: // not for an event: it counts from the workflow's start on
			return true
		case first.Phase == journey.PhaseSend && v.FrequencyCap().None():
			r = e.firstRun(claimed, v, first, effect, now)
			r.batch.Coalesce = coalesce
			err = r.send(ctx)
		}
	}
	if err != nil && !errors.Is(err, errNotAhead) {
		e.Failed(err)
		e.log.Warn("not sent ahead; the workflow will send it", "journey", claimed.Version.JourneyID, "enrollments", len(claimed.Members), "error", err)
	}
	return false // see above
}

// firstRun is the first batch of a cohort of claimed enrollments, as its workflow would make
// it if they entered the journey now.
func (e *Engine) firstRun(claimed waypost.Cohort, v Version, first journey.State, effect journey.Effect, now time.Time) *run {
	node, _ := v.Node(first.Node)
	first.Path = nil
	b := Batch{Scope: claimed.Version.Scope, JourneyID: claimed.Version.JourneyID, Version: claimed.Version.Version, NodeID: first.Node}
	for _, m := range claimed.Members {
		b.Items = append(b.Items, Item{
			EnrollmentID: m.EnrollmentID, LeadsID: m.LeadsID, State: first, Unrecorded: effect.Entries, Since: now, Fresh: true,
		})
	}
	r := e.newRun(Caller{WorkflowID: claimed.Members[0].EnrollmentID, Local: true, FirstAttempt: true}, b, v)
	r.ahead, r.began, r.hook.ID = true, now, node.Webhook
	return r
}
