package delivery_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"waypost"
	"waypost/delivery"
)

func (c *counted) Briefing(ctx context.Context, sc waypost.Scope, webhookID string, of waypost.ControlTargets) (delivery.Briefing, error) {
	c.count("briefing")
	return c.Store.Briefing(ctx, sc, webhookID, of)
}

func (c *counted) Webhook(ctx context.Context, sc waypost.Scope, id string) (waypost.Webhook, error) {
	c.count("webhook")
	return c.Store.Webhook(ctx, sc, id)
}

func (c *counted) EnrollmentsByID(ctx context.Context, ids []string) (map[string]waypost.Enrollment, error) {
	c.count("enrollments")
	return c.Store.EnrollmentsByID(ctx, ids)
}

// A message that is new asks the database once before it is opened; what was decided
// or changed a moment before counts all the same, of a webhook that is remembered, too.
func TestNewMessagesAreBriefed(t *testing.T) {
	t.Parallel()
	var moved atomic.Int32
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { moved.Add(1) }))
	t.Cleanup(elsewhere.Close)
	change := func(change func(*waypost.Webhook)) func(w *world, id string) error {
		return func(w *world, _ string) error { return w.change(change) }
	}
	steps := []struct {
		name    string
		before  func(w *world, enrollment string) error
		outcome string
		reason  string
		asks    map[string]int
	}{
		{"the webhook is new", nil, delivery.OutcomeDelivered, "", map[string]int{"briefing": 1, "webhook": 1}},
		{"it is known", nil, delivery.OutcomeDelivered, "", map[string]int{"briefing": 1}},
		{"it has moved", change(func(hook *waypost.Webhook) { hook.URL = elsewhere.URL }), delivery.OutcomeDelivered, "", map[string]int{"briefing": 1, "webhook": 1}},
		{"it is known again", nil, delivery.OutcomeDelivered, "", map[string]int{"briefing": 1}},
		{"paused", func(w *world, id string) error {
			_, err := w.store.PauseEnrollment(t.Context(), scope, id)
			return err
		}, delivery.OutcomeDeferred, waypost.DeferPaused, nil},
		{"canceled", func(w *world, id string) error {
			_, err := w.store.CancelEnrollment(t.Context(), scope, id)
			return err
		}, delivery.OutcomeCanceled, "", nil},
		{"disabled", change(func(hook *waypost.Webhook) { hook.Enabled = false }), delivery.OutcomeDeferred, waypost.DeferWebhookDisabled, nil},
		{"enabled", change(func(hook *waypost.Webhook) { hook.Enabled = true }), delivery.OutcomeDelivered, "", map[string]int{"briefing": 1, "webhook": 1}},
	}
	w := newWorld(t, len(steps))
	w.unsent = true
	items := w.items
	c := &counted{Store: w.store}
	a := w.process(c)
	for i, step := range steps {
		w.items = items[i : i+1]
		if step.before != nil {
			must(t, step.before(w, w.items[0].EnrollmentID))
		}
		c.calls = nil
		deliveries, err := w.deliver(a)
		must(t, err)
		if got := deliveries[0]; got.Outcome != step.outcome || got.Reason != step.reason {
			t.Errorf("%s: %s %s, want %s %s", step.name, got.Outcome, got.Reason, step.outcome, step.reason)
		}
		if step.asks != nil && !maps.Equal(c.calls, step.asks) {
			t.Errorf("%s: asked %v, want %v", step.name, c.calls, step.asks)
		}
	}
	if here, there := w.totalPosts(), moved.Load(); fmt.Sprint(here, there) != "2 3" {
		t.Errorf("%d POSTs before the webhook moved, %d after it, want 2 and 3", here, there)
	}
}
