package activities

import (
	"context"

	"waypost"
	"waypost/delivery"
)

// watch finds out whether the conditions are true that items wait for. Findings hold when
// each wait is over. The waits are registered before anything is read: what happens later
// wakes their workflow. When time alone can make a condition true is recorded, for LookAtWaits.
func (a *Activities) watch(ctx context.Context, b delivery.Batch, v delivery.Version, watching []int, findings []Finding) error {
	if len(watching) == 0 {
		return nil
	}
	workflowID := workflowID(ctx)
	items := make([]delivery.Item, len(watching))
	waits := make([]waypost.Wait, len(watching))
	for n, i := range watching {
		items[n] = b.Items[i]
		waits[n] = waypost.Wait{
			Touchpoint: items[n].Touchpoint(), WorkflowID: workflowID, NodeID: items[n].State.Node, LeadsID: items[n].LeadsID,
			Events: v.Awaited(items[n].State.Node), Fields: []string{waypost.Anything},
		}
	}
	leads, err := a.store.Follow(ctx, b.Scope, waits)
	if err != nil {
		return err
	}
	enrollments, err := a.engine.Enrollments(ctx, items)
	if err != nil {
		return err
	}
	subjects, err := a.engine.Subjects(ctx, b, v, items, &delivery.Briefing{Leads: leads, Enrollments: enrollments})
	if err != nil {
		return err
	}
	var found []waypost.WaitResult
	for n, i := range watching {
		f := &findings[i]
		var yes bool
		yes, f.Reason = v.Holds(items[n].State.Node, subjects[n].Facts)
		switch {
		case yes:
			f.Outcome = FoundMatched
		case !f.Due.After(b.Now):
			f.Outcome = FoundTimedOut
		default:
			if at := v.NextLook(items[n].State.Node, subjects[n].Facts, f.Due); !at.IsZero() {
				found = append(found, waypost.WaitResult{Touchpoint: items[n].Touchpoint(), LookAt: at})
			}
			continue
		}
		found = append(found, waypost.WaitResult{Touchpoint: items[n].Touchpoint(), Close: true})
	}
	return a.store.RecordWaits(ctx, found)
}
