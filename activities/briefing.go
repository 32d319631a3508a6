package activities

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"go.temporal.io/sdk/activity"

	"waypost"
)

// maxHooks bounds the webhooks that a process remembers.
const maxHooks = 1000

// hooks remembers webhooks as they were read last. Whoever takes one from here must
// learn from a briefing whether it has changed since.
type hooks struct {
	mu sync.Mutex
	m  map[hookKey]waypost.Webhook
}

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
	a.hooks.mu.Lock()
	defer a.hooks.mu.Unlock()
	if a.hooks.m == nil || len(a.hooks.m) >= maxHooks {
		a.hooks.m = map[hookKey]waypost.Webhook{}
	}
	a.hooks.m[hookKey{sc, id}] = hook
	return hook, nil
}

// webhookOf is the webhook of a batch, as it is remembered if all of its messages are
// new: those will be briefed.
func (a *Activities) webhookOf(ctx context.Context, b Batch, id string) (waypost.Webhook, error) {
	info := activity.GetInfo(ctx)
	if !slices.ContainsFunc(b.Items, func(item Item) bool { return !a.isFirst(info, item) }) {
		a.hooks.mu.Lock()
		hook, known := a.hooks.m[hookKey{b.Scope, id}]
		a.hooks.mu.Unlock()
		if known {
			return hook, nil
		}
	}
	return a.webhook(ctx, b.Scope, id)
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
