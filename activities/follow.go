package activities

import (
	"context"

	"waypost"
	"waypost/delivery"
)

// follow finds out when items are over that wait for a time which depends on the lead.
// Findings hold when that was to be. Waits that are not over are registered, so that
// changes wake their workflow from then on.
func (a *Activities) follow(ctx context.Context, b delivery.Batch, v delivery.Version, following []int, findings []Finding) error {
	workflowID := workflowID(ctx)
	var waits []waypost.Wait
	var late []int64
	for _, i := range following {
		item := b.Items[i]
		if !findings[i].Due.After(b.Now) {
			late = append(late, item.LeadsID)
			continue
		}
		n, _ := v.Node(item.State.Node)
		waits = append(waits, waypost.Wait{
			Touchpoint: item.Touchpoint(), WorkflowID: workflowID, NodeID: n.ID, Fields: n.Followed(), LeadsID: item.LeadsID,
		})
	}
	leads, err := a.store.LeadsByID(ctx, b.Scope, late)
	if err != nil {
		return err
	}
	followed, err := a.store.Follow(ctx, b.Scope, waits)
	if err != nil {
		return err
	}
	var over []waypost.WaitResult
	for _, i := range following {
		item, f := b.Items[i], &findings[i]
		lead, known := leads[item.LeadsID]
		if f.Due.After(b.Now) {
			lead, known = followed[item.LeadsID]
		}
		until, reason := f.Due, ""
		if known { // one that was deleted has its enrollments canceled
			n, _ := v.Node(item.State.Node)
			until, reason = n.Follow(lead, item.Since, f.Due, b.Now)
		}
		switch {
		case !until.IsZero() && !until.After(b.Now):
			f.Outcome = FoundOver
		case !until.Equal(f.Due):
			f.Outcome, f.Due, f.Reason = FoundChanged, until, reason
		}
		if !until.After(b.Now) {
			over = append(over, waypost.WaitResult{Touchpoint: item.Touchpoint(), Close: true})
		}
	}
	return a.store.RecordWaits(ctx, over)
}
