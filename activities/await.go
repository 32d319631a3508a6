package activities

import (
	"context"
	"fmt"

	"waypost"
	"waypost/delivery"
)

// await finds out whether events have come that items wait for. Findings hold
// when each wait is over.
func (a *Activities) await(ctx context.Context, b delivery.Batch, v delivery.Version, awaiting []int, findings []Finding) error {
	items := make([]delivery.Item, len(awaiting))
	for n, i := range awaiting {
		items[n] = b.Items[i]
	}
	waits, err := a.waits(ctx, b, v, items)
	if err != nil {
		return err
	}
	for n := range waits {
		waits[n].Until = findings[awaiting[n]].Due
		waits[n].Expired = !waits[n].Until.After(b.Now)
	}
	said := map[waypost.Touchpoint]looked{}
	for pending := waits; len(pending) > 0; {
		states, err := a.store.Await(ctx, pending)
		if err != nil {
			return err
		}
		results, err := a.match(ctx, b, v, items, states, said)
		if err != nil {
			return err
		}
		var again []waypost.Wait
		for n, i := range awaiting {
			key := items[n].Touchpoint()
			s, ok := states[key]
			if !ok { // settled in a round before
				continue
			}
			last := said[key]
			switch {
			case s.Closed && s.EventID != "":
				findings[i].Outcome, findings[i].Arm = FoundMatched, s.Arm
				if last.eventID != s.EventID { // another run has matched it
					last.reason = ""
				}
			case s.Closed:
				findings[i].Outcome = FoundTimedOut
			case len(s.Events) > 0:
				// What is recorded now decides, also if another run recorded it.
				again = append(again, waits[n])
			}
			findings[i].Reason = last.reason
		}
		if err := a.store.RecordWaits(ctx, results); err != nil {
			return err
		}
		pending = again
	}
	return nil
}

// waits says what items wait for, and from when on, in their order.
func (a *Activities) waits(ctx context.Context, b delivery.Batch, v delivery.Version, items []delivery.Item) ([]waypost.Wait, error) {
	var enrollments map[string]waypost.Enrollment
	workflowID := workflowID(ctx)
	waits := make([]waypost.Wait, len(items))
	for n, item := range items {
		node, ok := v.Node(item.State.Node)
		if !ok {
			return nil, fmt.Errorf("journey %s/%d has no node %s", b.JourneyID, b.Version, item.State.Node)
		}
		waits[n] = waypost.Wait{
			Touchpoint: item.Touchpoint(), Scope: b.Scope, WorkflowID: workflowID, NodeID: node.ID, Events: node.Awaits(),
			LeadsID: item.LeadsID, Since: item.Since,
		}
		if node.SinceEnrollment() {
			if enrollments == nil {
				var err error
				if enrollments, err = a.engine.Enrollments(ctx, items); err != nil {
					return nil, err
				}
			}
			e := enrollments[item.EnrollmentID]
			waits[n].Since = e.Entry.Since(e.CreatedAt)
		}
	}
	return waits, nil
}

// seenUpTo is the highest Seq up to which all events were looked at, once the one at a place was: they
// are in the order in which they occurred, not in that in which they were accepted.
func seenUpTo(events []waypost.Event, place int) (seq int64) {
	for _, e := range events[:place+1] {
		seq = max(seq, e.Seq)
	}
	for _, e := range events[place+1:] {
		seq = min(seq, e.Seq-1)
	}
	return seq
}

// looked is what a wait's condition said of the last event that was looked at.
type looked struct {
	eventID string // of one that satisfies it
	reason  string
}

// match looks at the events of open waits, oldest first, for one that satisfies
// the node's condition, and notes in said what the condition said of the last one.
func (a *Activities) match(ctx context.Context, b delivery.Batch, v delivery.Version, items []delivery.Item, states map[waypost.Touchpoint]waypost.WaitState, said map[waypost.Touchpoint]looked) ([]waypost.WaitResult, error) {
	var open []delivery.Item
	conditions := false
	for _, item := range items {
		if s := states[item.Touchpoint()]; !s.Closed && len(s.Events) > 0 {
			open = append(open, item)
			node, _ := v.Node(item.State.Node)
			conditions = conditions || node.Asks()
		}
	}
	subjects := make([]delivery.Subject, len(open))
	if conditions {
		var err error
		if subjects, err = a.engine.Subjects(ctx, b, v, open, nil); err != nil {
			return nil, err
		}
	}
	var results []waypost.WaitResult
	for n, item := range open {
		result := waypost.WaitResult{Touchpoint: item.Touchpoint()}
		facts := subjects[n].Facts
		events := states[item.Touchpoint()].Events
		for i, event := range events {
			result.Seen = seenUpTo(events, i)
			facts.Event = event.Properties
			which, reason := v.Matches(item.State.Node, event.Name, facts)
			if which >= 0 {
				result.EventID, result.Arm = event.EventID, which
			}
			said[item.Touchpoint()] = looked{result.EventID, reason}
			if which >= 0 {
				break
			}
		}
		results = append(results, result)
	}
	return results, nil
}
