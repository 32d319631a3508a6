package activities

import (
	"context"
	"fmt"

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
	a.hooks.Add(hookKey{sc, id}, hook)
	return hook, nil
}

// loadWebhook loads the webhook of what is to be sent, as it is remembered if all of the
// messages are new: those will be briefed. A redelivery has loaded its own.
func (r *batchRun) loadWebhook(ctx context.Context) (err error) {
	if len(r.own) == 0 || r.batch.WebhookID != "" {
		return nil
	}
	first := true
	for i := range r.own {
		first = first && r.isFirst(r.batch.Items[i])
	}
	if first {
		if hook, known := r.hooks.Get(hookKey{r.batch.Scope, r.hook.ID}); known {
			r.hook = hook
			return nil
		}
	}
	r.hook, err = r.webhook(ctx, r.batch.Scope, r.hook.ID)
	return err
}

// brief takes those out of what is due who are not to be sent to. If all messages are
// new it reads by the way what they are made of, and whether the webhook has changed: one
// look at the database instead of four, which are most of what a message waits for.
func (r *batchRun) brief(ctx context.Context) error {
	if r.ahead && r.bounded() {
		return errNotAhead
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
	switch {
	case r.ahead && (known.Controlled || r.bounded()):
		return errNotAhead
	case known.Controlled:
		return r.stop(ctx)
	}
	return nil
}

// bounded tells whether the webhook has limits of its own. Asking takes from them, and what
// they do not let through waits its turn: that is done once, for the workflow.
func (r *batchRun) bounded() bool { return r.hook.RateLimit != nil || r.hook.MaxConcurrency > 0 }
