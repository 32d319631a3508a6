package activities

import (
	"context"
	"fmt"
	"slices"

	"go.temporal.io/sdk/activity"

	"waypost"
)

// hookKey names a webhook in the hooks of Activities: as they were read last. Whoever
// takes one from there must learn from a briefing whether it has changed since.
type hookKey struct {
	waypost.Scope
	id string
}

// webhook reads a webhook.
func (a *Activities) webhook(ctx context.Context, sc waypost.Scope, id string) (waypost.Webhook, error) {
	hook, err := a.store.Webhook(ctx, sc, id)
	if err != nil {
		return hook, fmt.Errorf("load webhook %s: %w", id, err)
	}
	a.hooks.put(hookKey{sc, id}, hook)
	return hook, nil
}

// webhookOf is the webhook of the batch, as it is remembered if all of its messages are
// new: those will be briefed.
func (r *batchRun) webhookOf(ctx context.Context, id string) (waypost.Webhook, error) {
	info := activity.GetInfo(ctx)
	if !slices.ContainsFunc(r.batch.Items, func(item Item) bool { return !r.isFirst(info, item) }) {
		if hook, known := r.hooks.get(hookKey{r.batch.Scope, id}); known {
			return hook, nil
		}
	}
	return r.webhook(ctx, r.batch.Scope, id)
}

// brief takes those out of what is due who are not to be sent to. If all messages are
// new it reads by the way what they are made of, and whether the webhook has changed: one
// look at the database instead of four, which are most of what a message waits for.
func (r *batchRun) brief(ctx context.Context) error {
	if len(r.due) == 0 {
		return nil
	}
	of := waypost.ControlTargets{JourneyID: r.batch.JourneyID, LaunchID: r.batch.LaunchID}
	for _, d := range r.due {
		if d.stored != nil || d.sought {
			return r.stop(ctx)
		}
		of.EnrollmentIDs = append(of.EnrollmentIDs, r.batch.Items[d.index].EnrollmentID)
	}
	known, err := r.store.Briefing(ctx, r.batch.Scope, r.hook.ID, of)
	if err != nil {
		return fmt.Errorf("load what is to be sent: %w", err)
	}
	r.known = &known
	if !known.WebhookUpdatedAt.Equal(r.hook.UpdatedAt) {
		if r.hook, err = r.webhook(ctx, r.batch.Scope, r.hook.ID); err != nil {
			return err
		}
	}
	if known.Controlled {
		return r.stop(ctx)
	}
	return nil
}
