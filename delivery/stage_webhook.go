package delivery

import (
	"context"

	"waypost"
)

// hookKey names a webhook in Engine.hooks, which holds webhooks as they were last read. A
// briefing tells whether one has changed since.
type hookKey struct {
	waypost.Scope
	id string
}

// loadWebhook reads a webhook.
func (e *Engine) loadWebhook(ctx context.Context, sc waypost.Scope, id string) (waypost.Webhook, error) {
	hook, err := e.store.Webhook(ctx, sc, id)
	if err != nil {
		return hook, err
	}
	e.hooks.Add(hookKey{sc, id}, hook)
	return hook, nil
}

// heedWebhook holds all back if the webhook is disabled, or if its secret cannot be read.
func heedWebhook(ctx context.Context, r *run, due []*item) ([]*item, error) {
	if !r.hook.Enabled {
		return nil, r.keepOut(ctx, due, waypost.DeferWebhookDisabled, 0)
	}
	if err := r.hook.Sendable(r.now()); err != nil {
		r.log.Warn("a webhook's secret cannot be read", "webhook", r.hook.ID, "error", err)
		return nil, r.keepOut(ctx, due, waypost.DeferUnreadable, 0)
	}
	return due, nil
}
