package delivery_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"waypost"
)

// A workflow that heard for long of nothing, because its workers were away, runs a batch
// again whose records were dropped meanwhile: nothing is sent a second time.
func TestDroppedDeliveryIsNotSentAgain(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := newWorld(t, 2)
	if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[delivered delivered]" {
		t.Fatal(got)
	}
	w.answer(func(http.ResponseWriter, *http.Request, string) { t.Error("sent again") })
	w.clock.advance(100 * 24 * time.Hour)
	drop := func(keep waypost.Retention) {
		t.Helper()
		for at, more := "", true; more; more = at != "" {
			step, err := w.store.DropStep(ctx, keep, at)
			must(t, err)
			at = step.Next
		}
	}
	again := func(what string) {
		t.Helper()
		if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[canceled canceled]" {
			t.Errorf("%s: %s", what, got)
		}
		list, err := w.store.ListDeliveries(ctx, scope, waypost.DeliveryFilter{}, waypost.Page{})
		must(t, err)
		if len(list) > 0 {
			t.Errorf("%s: %d deliveries were made", what, len(list))
		}
	}
	drop(waypost.Retention{Deliveries: 24 * time.Hour})
	again("deliveries are gone")
	_, err := w.store.UpdateWebhook(ctx, scope, w.webhookID, func(h *waypost.Webhook) error { h.Enabled = false; return nil })
	must(t, err)
	again("with a webhook that is disabled")
	drop(waypost.Retention{Enrollments: 24 * time.Hour})
	again("enrollments are gone")
	for _, item := range w.items {
		must(t, w.store.DeleteLead(ctx, scope, item.LeadsID, nil))
	}
	again("so are the leads")
}
