package delivery_test

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/store"
)

func (c *counted) SkipUnwanted(ctx context.Context, openings []delivery.Opening) (map[waypost.Touchpoint]delivery.Sending, error) {
	c.count("unwanted")
	return c.Store.SkipUnwanted(ctx, openings)
}

// agree has leads agree to sms, or not.
func (w *world) agree(agreed bool, items ...int) {
	w.t.Helper()
	for _, i := range items {
		_, err := w.store.UpdateLead(context.Background(), scope, w.items[i].LeadsID, func(l waypost.Lead) (waypost.LeadFields, []string, error) {
			l.Consents = map[string]any{"sms": agreed}
			return l.LeadFields, nil, nil
		})
		must(w.t, err)
	}
}

func (w *world) suppress(s waypost.Suppression) {
	w.t.Helper()
	_, err := w.store.CreateSuppression(context.Background(), scope, s)
	must(w.t, err)
}

// wantSkipped fails unless a delivery and a timeline tell why a touchpoint was skipped.
func (w *world) wantSkipped(i int, reason string, attempts int) {
	w.t.Helper()
	d, log := w.attempts(i)
	if d.Status != waypost.DeliveryCanceled || d.DeferredReason != reason || len(log) != attempts || d.Message != waypost.ExplainSkip(reason) {
		w.t.Errorf("delivery %d: %+v, %d attempts", i, d, len(log))
	}
	_, entries, err := w.store.Enrollment(w.t.Context(), scope, w.items[i].EnrollmentID)
	must(w.t, err)
	said := 0
	for _, e := range entries {
		if e.What == waypost.WhatSkipped && e.Reason == reason && e.NodeID == "hello" {
			said++
		}
	}
	if said != 1 {
		w.t.Errorf("timeline %d: %+v", i, entries)
	}
}

// Who has not agreed, or is suppressed, gets no first message and no retry, and takes no
// slot of the webhook. The others do. Where nobody is kept out it costs no query before
// first messages, and one before retries; without a channel none.
func TestUnwanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	w.unsent = true
	must(t, w.change(func(hook *waypost.Webhook) { hook.Channel, hook.RequiresConsent = "sms", true }))
	fails := atomic.Bool{}
	fails.Store(true)
	w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) {
		if fails.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	w.agree(true, 0, 1, 2)
	w.suppress(waypost.Suppression{Channel: "sms", ExternalID: "ext-1"})
	w.suppress(waypost.Suppression{Channel: "email", ExternalID: "ext-0"})
	a := w.process(nil)
	if got := fmt.Sprint(w.deliverAll(a)); got != "[retrying skipped retrying skipped]" {
		t.Errorf("outcomes %s", got)
	}
	w.wantSkipped(1, waypost.SkipSuppressed, 0)
	w.wantSkipped(3, waypost.SkipConsent, 0)
	if n := w.totalPosts(); n != 2 {
		t.Errorf("%d POSTs", n)
	}
	// What was skipped stays skipped, in a batch that looks again as well.
	w.agree(true, 3)
	w.unsent = false
	fails.Store(false)
	w.agree(false, 2)
	w.clock.advance(time.Minute)
	for _, engine := range []string{"the same process", "another one"} {
		if got := fmt.Sprint(w.deliverAll(a)); got != "[delivered skipped skipped skipped]" {
			t.Errorf("%s: outcomes %s", engine, got)
		}
		a = w.process(nil)
	}
	w.wantSkipped(2, waypost.SkipConsent, 1)
	if n := w.totalPosts(); n != 3 { // two of the first lead
		t.Errorf("%d POSTs", n)
	}
}

func TestChannelCostsLittle(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.unsent = true
	must(t, w.change(func(hook *waypost.Webhook) { hook.Channel, hook.RequiresConsent = "sms", true }))
	w.agree(true, 0, 1, 2)
	w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) { rw.WriteHeader(http.StatusServiceUnavailable) })
	c := &counted{Store: w.store}
	a := w.process(c)
	w.deliverAll(a)
	if want := map[string]int{"briefing": 1, "webhook": 1}; fmt.Sprint(c.calls) != fmt.Sprint(want) {
		t.Errorf("the first attempts asked %v, want %v", c.calls, want)
	}
	w.unsent, c.calls = false, nil
	w.clock.advance(time.Minute)
	w.deliverAll(a)
	if want := map[string]int{"controls": 1, "unwanted": 1, "webhook": 1}; fmt.Sprint(c.calls) != fmt.Sprint(want) {
		t.Errorf("the second attempts asked %v, want %v", c.calls, want)
	}
}

// suppressedAtOpening has a lead suppressed between the stages and the opening.
type suppressedAtOpening struct{ *store.Store }

func (s suppressedAtOpening) OpenAttempts(
	ctx context.Context, openings []delivery.Opening,
) (map[waypost.Touchpoint]delivery.Sending, error) {
	if _, err := s.CreateSuppression(ctx, scope, waypost.Suppression{Channel: "sms", ExternalID: "ext-0"}); err != nil {
		return nil, err
	}
	return s.Store.OpenAttempts(ctx, openings)
}

// A suppression that is answered right before the POST keeps it from being made.
func TestSuppressedRightBeforePost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.unsent = true
	must(t, w.change(func(hook *waypost.Webhook) { hook.Channel = "sms" }))
	if got := fmt.Sprint(w.deliverAll(w.process(suppressedAtOpening{w.store}))); got != "[skipped delivered]" {
		t.Errorf("outcomes %s", got)
	}
	w.wantSkipped(0, waypost.SkipSuppressed, 0)
	if n := w.totalPosts(); n != 1 {
		t.Errorf("%d POSTs", n)
	}
}

// Nothing is sent ahead of a workflow where somebody is kept out, nor is anything written: the
// workflow's own batch skips. That also holds for what is suppressed in the middle of it.
func TestUnwantedAhead(t *testing.T) {
	t.Parallel()
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprint("late ", late), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			w.unsent, w.ahead = true, true
			w.clock.stop()
			must(t, w.change(func(hook *waypost.Webhook) { hook.Channel = "sms" }))
			engine := w.process(suppressedAtOpening{w.store})
			if !late {
				w.suppress(waypost.Suppression{Channel: "sms", ExternalID: "ext-0"})
				engine = w.process(nil)
			}
			engine.SendAhead(t.Context(), w.claimed(), false)
			_, entries, err := w.store.Enrollment(t.Context(), scope, w.items[0].EnrollmentID)
			if must(t, err); len(entries) > 0 {
				t.Errorf("timeline %+v", entries)
			}
			if got := fmt.Sprint(w.deliverAll(engine)); got != "[skipped delivered]" {
				t.Errorf("outcomes %s", got)
			}
			w.wantSkipped(0, waypost.SkipSuppressed, 0)
			if n := w.totalPosts(); n != 1 {
				t.Errorf("%d POSTs", n)
			}
		})
	}
}

// A message that is sent once more is not sent to who is suppressed by then, and its journey
// does not hear of it.
func TestRedeliveryOfUnwanted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	must(t, w.change(func(hook *waypost.Webhook) { hook.Channel = "sms" }))
	a := w.process(nil)
	if got := fmt.Sprint(w.deliverAll(a)); got != "[delivered delivered]" {
		t.Fatalf("outcomes %s", got)
	}
	w.suppress(waypost.Suppression{Channel: "sms", ExternalID: "ext-1"})
	items, _ := w.again(false)
	for range 2 {
		if got := w.outcomes(a, items); got != "[delivered skipped]" {
			t.Errorf("outcomes %s", got)
		}
	}
	if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[delivered delivered]" {
		t.Errorf("to the journey: %s", got)
	}
	d, _ := w.attempts(1)
	if d.Status != waypost.DeliveryCanceled || d.DeferredReason != waypost.SkipSuppressed {
		t.Errorf("delivery %+v", d)
	}
}
