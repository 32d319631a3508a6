package activities

import (
	"context"
	"fmt"

	"go.temporal.io/sdk/activity"

	"waypost"
)

// await finds out whether events have come that items wait for. Findings hold
// when each wait is over.
func (a *Activities) await(ctx context.Context, b Batch, v version, awaiting []int, findings []Finding) error {
	items := make([]Item, len(awaiting))
	for n, i := range awaiting {
		items[n] = b.Items[i]
	}
	var enrollments map[string]waypost.Enrollment
	workflowID := activity.GetInfo(ctx).WorkflowExecution.ID
	waits := make([]waypost.Wait, len(items))
	for n, item := range items {
		node, ok := v.Node(item.State.Node)
		if !ok {
			return fmt.Errorf("journey %s/%d has no node %s", b.JourneyID, b.Version, item.State.Node)
		}
		due := findings[awaiting[n]].Due
		waits[n] = waypost.Wait{
			Touchpoint: item.touchpoint(), Scope: b.Scope, WorkflowID: workflowID, NodeID: node.ID, Event: node.Event,
			LeadsID: item.LeadsID, Since: item.Since, Until: due, Expired: !due.After(b.Now),
		}
		if node.SinceEnrollment() {
			if enrollments == nil {
				var err error
				if enrollments, err = a.enrollmentsOf(ctx, items); err != nil {
					return err
				}
			}
			waits[n].Since = enrollments[item.EnrollmentID].CreatedAt
		}
	}
	for pending := waits; len(pending) > 0; {
		states, err := a.store.Await(ctx, pending)
		if err != nil {
			return fmt.Errorf("wait for events: %w", err)
		}
		results, faults, err := a.match(ctx, b, v, items, states)
		if err != nil {
			return err
		}
		var again []waypost.Wait
		for n, i := range awaiting {
			if fault := faults[items[n].touchpoint()]; fault != "" {
				findings[i].Reason = fault
			}
			s, ok := states[items[n].touchpoint()]
			switch {
			case !ok: // settled in a round before
			case s.Closed && s.EventID != "":
				findings[i].Outcome = FoundMatched
			case s.Closed:
				findings[i].Outcome = FoundTimedOut
			case len(s.Events) > 0:
				// What is recorded now decides, also if another run recorded it.
				again = append(again, waits[n])
			}
		}
		if err := a.store.RecordWaits(ctx, results); err != nil {
			return fmt.Errorf("record waits: %w", err)
		}
		pending = again
	}
	return nil
}

func (a *Activities) enrollmentsOf(ctx context.Context, items []Item) (map[string]waypost.Enrollment, error) {
	ids := make([]string, len(items))
	for i, item := range items {
		ids[i] = item.EnrollmentID
	}
	enrollments, err := a.store.EnrollmentsByID(ctx, ids)
	if err != nil {
		return nil, fmt.Errorf("load enrollments: %w", err)
	}
	return enrollments, nil
}

// match looks at the events of open waits, oldest first, for one that satisfies
// the node's condition. faults says of which the condition could not be evaluated.
func (a *Activities) match(ctx context.Context, b Batch, v version, items []Item, states map[waypost.Touchpoint]waypost.WaitState) (results []waypost.WaitResult, faults map[waypost.Touchpoint]string, err error) {
	var open []Item
	conditions := false
	for _, item := range items {
		if s := states[item.touchpoint()]; !s.Closed && len(s.Events) > 0 {
			open = append(open, item)
			node, _ := v.Node(item.State.Node)
			conditions = conditions || node.When != ""
		}
	}
	subjects := make([]subject, len(open))
	if conditions {
		if subjects, err = a.subjects(ctx, b, v, open); err != nil {
			return nil, nil, err
		}
	}
	faults = map[waypost.Touchpoint]string{}
	for n, item := range open {
		result := waypost.WaitResult{Touchpoint: item.touchpoint()}
		facts := subjects[n].Facts
		for _, event := range states[item.touchpoint()].Events {
			result.Seen = event.Seq
			facts.Event = event.Properties
			if yes, fault := v.Matches(item.State.Node, facts); yes {
				result.EventID = event.EventID
				break
			} else if fault != "" {
				faults[item.touchpoint()] = "error: " + fault
			}
		}
		results = append(results, result)
	}
	return results, faults, nil
}
