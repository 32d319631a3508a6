package delivery_test

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/journey"
	"waypost/store"
)

// givenUp is a world whose messages have failed for good, at the second attempt.
func givenUp(t *testing.T, leads int) *world {
	t.Helper()
	w := newWorld(t, leads)
	_, err := w.store.UpdateWebhook(context.Background(), scope, w.webhookID, func(h *waypost.Webhook) error {
		h.Retry.MaxAttempts, h.Retry.GiveUpAfter = 2, waypost.Duration(time.Minute)
		return nil
	})
	must(t, err)
	w.respond(http.StatusServiceUnavailable)
	a := w.process(nil)
	w.deliverAll(a)
	w.clock.advance(7 * time.Second)
	for i, outcome := range w.deliverAll(a) {
		if outcome != delivery.OutcomeFailed {
			t.Fatalf("message %d is %s", i, outcome)
		}
	}
	w.clock.advance(time.Hour)
	return w
}

func (w *world) respond(status int) {
	w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) { rw.WriteHeader(status) })
}

// again begins a new round of every message and returns the items of it.
func (w *world) again(bulk bool) (items []delivery.Item, redelivery string) {
	w.t.Helper()
	ctx := context.Background()
	if bulk {
		r, err := w.store.CreateRedelivery(ctx, scope, waypost.DeliveryFilter{}, "app_test")
		must(w.t, err)
		redelivery = r.ID
		for more := true; more; {
			more, err = w.store.RedeliveryStep(ctx)
			must(w.t, err)
		}
	} else {
		for i := range w.items {
			d, _ := w.attempts(i)
			_, err := w.store.Redeliver(ctx, scope, d.MessageID)
			must(w.t, err)
		}
	}
	batches, err := w.store.UnstartedRedeliveries(ctx, time.Time{}, 100)
	must(w.t, err)
	for _, b := range batches {
		for _, m := range b.Members {
			items = append(items, delivery.Item{EnrollmentID: m.EnrollmentID, LeadsID: m.LeadsID, State: journey.State{Visit: m.Visit}, Round: m.Round})
		}
	}
	if len(items) != len(w.items) {
		w.t.Fatalf("%d messages are redelivered, want %d", len(items), len(w.items))
	}
	// Messages of the same millisecond come in any order.
	slices.SortFunc(items, func(a, b delivery.Item) int { return cmp.Compare(a.LeadsID, b.LeadsID) })
	return items, redelivery
}

func (w *world) redeliver(a *delivery.Engine, items []delivery.Item) ([]delivery.Result, error) {
	return a.Redeliver(context.Background(), caller, delivery.Batch{Scope: scope, WebhookID: w.webhookID, Items: items})
}

// outcomes redelivers and returns what came of each.
func (w *world) outcomes(a *delivery.Engine, items []delivery.Item) string {
	w.t.Helper()
	deliveries, err := w.redeliver(a, items)
	must(w.t, err)
	var list []string
	for _, d := range deliveries {
		list = append(list, d.Outcome)
	}
	return fmt.Sprint(list)
}

// A round of its own: it has the whole schedule, counted from its own beginning, and
// neither the enrollment nor a second run of the journey's batch sees anything of it.
func TestRedeliverBatch(t *testing.T) {
	t.Parallel()
	w := givenUp(t, 2)
	w.clock.stop() // nothing becomes due
	a := w.process(nil)
	seen := func() string {
		e, entries, err := w.store.Enrollment(context.Background(), scope, w.items[0].EnrollmentID)
		must(t, err)
		return fmt.Sprint(e, entries)
	}
	before := seen()
	items, _ := w.again(false)
	journeys := func(posts int) {
		t.Helper()
		if got := fmt.Sprint(w.deliverAll(a), w.deliverAll(w.process(nil))); got != "[failed failed] [failed failed]" || w.totalPosts() != posts {
			t.Errorf("the journey is told %s, after %d POSTs, want %d", got, w.totalPosts(), posts)
		}
		if now := seen(); now != before {
			t.Errorf("the enrollment was\n%s and is\n%s", before, now)
		}
	}
	journeys(4)
	if got := w.outcomes(a, items); got != "[retrying retrying]" {
		t.Errorf("first attempt of the round: %s", got)
	}
	if got := w.outcomes(w.process(nil), items); got != "[retrying retrying]" || w.totalPosts() != 6 {
		t.Errorf("a second run: %s, %d POSTs", got, w.totalPosts())
	}
	d, _ := w.attempts(0)
	if wait := d.NextAttemptAt.Sub(*d.LastAttemptAt); wait < 4*time.Second || wait > 7*time.Second {
		t.Errorf("the second attempt of the round comes after %s", wait)
	}
	journeys(6)
	w.clock.advance(7 * time.Second)
	w.answer(func(rw http.ResponseWriter, _ *http.Request, id string) {
		if id == "ext-1" {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	if got := w.outcomes(a, items); got != "[delivered failed]" {
		t.Errorf("second attempt of the round: %s", got)
	}
	if got := w.outcomes(w.process(nil), items); got != "[delivered failed]" {
		t.Errorf("after its end: %s", got)
	}
	journeys(8)
	for i, want := range []waypost.DeliveryStatus{waypost.DeliverySucceeded, waypost.DeliveryFailed} {
		d, attempts := w.attempts(i)
		if d.Status != want || d.Attempts != 4 || len(attempts) != 4 || attempts[2].Round != 2 || attempts[2].Attempt != 3 {
			t.Errorf("message %d is %+v with attempts %+v", i, d, attempts)
		}
	}
	// The third round has nothing to do with the second.
	w.respond(http.StatusOK)
	third, _ := w.again(false)
	if got := w.outcomes(a, items) + w.outcomes(a, third) + w.outcomes(a, items); got != "[delivered failed][delivered delivered][delivered failed]" {
		t.Errorf("the third round: %s", got)
	}
	journeys(10)
}

// Many runs of a redelivery at once, in two processes, POST each message once.
func TestConcurrentRedeliveriesPostOnce(t *testing.T) {
	t.Parallel()
	w := givenUp(t, 10)
	posts := w.totalPosts()
	w.answer(func(http.ResponseWriter, *http.Request, string) {
		time.Sleep(20 * time.Millisecond) // the runs are to overlap
	})
	items, _ := w.again(true)
	met := &sync.WaitGroup{}
	met.Add(2)
	var running sync.WaitGroup
	for range 2 {
		a := w.process(meetingStore{w.store, met})
		for range 3 {
			running.Go(func() {
				if _, err := w.redeliver(a, items); err != nil {
					t.Error(err)
				}
			})
		}
	}
	running.Wait()
	if n := w.totalPosts() - posts; n != 10 {
		t.Errorf("%d POSTs, want 10", n)
	}
	for i := range w.items {
		if d, attempts := w.attempts(i); d.Status != waypost.DeliverySucceeded || len(attempts) != 3 {
			t.Errorf("message %d: %s after %d attempts", i, d.Status, len(attempts))
		}
	}
}

// The process dies with a POST under way: nobody POSTs beside it, and after its time
// the attempt counts as interrupted. The round's own attempts count for maxAttempts.
func TestRedeliveryAfterCrash(t *testing.T) {
	t.Parallel()
	w := givenUp(t, 1)
	items, redelivery := w.again(true)
	hang, held := make(chan struct{}), make(chan struct{})
	var arrived atomic.Int32
	w.answer(func(http.ResponseWriter, *http.Request, string) { arrived.Add(1); <-hang })
	done := make(chan struct{})
	go func() {
		_, _ = w.redeliver(w.process(slowRecords{w.store, held}), items) // never records: it was killed
		close(done)
	}()
	defer func() { close(hang); close(held); <-done }()
	for arrived.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	other := w.process(nil)
	if got := w.outcomes(other, items); got != "[underWay]" || arrived.Load() != 1 {
		t.Errorf("while it may live: %s, %d POSTs", got, arrived.Load())
	}
	d, _ := w.attempts(0)
	if _, err := w.store.Redeliver(context.Background(), scope, d.MessageID); waypost.CodeOf(err) != waypost.CodeConflict {
		t.Errorf("another redelivery begins beside it: %v", err)
	}
	w.clock.advance(cutOff)
	w.respond(http.StatusOK)
	if got := w.outcomes(other, items); got != "[delivered]" {
		t.Errorf("after its time: %s", got)
	}
	d, attempts := w.attempts(0)
	if d.Status != waypost.DeliverySucceeded || len(attempts) != 4 || attempts[2].ErrorClass != waypost.ClassInterrupted {
		t.Errorf("%s with attempts %+v", d.Status, attempts)
	}
	r, err := w.store.Redelivery(context.Background(), scope, redelivery)
	must(t, err)
	if r.Status != waypost.RedeliveryCompleted || r.Succeeded != 1 {
		t.Errorf("the redelivery is %+v", r)
	}
}

// hookless is a database in which the webhook was deleted.
type hookless struct{ *store.Store }

func (hookless) Webhook(context.Context, waypost.Scope, string) (waypost.Webhook, error) {
	return waypost.Webhook{}, fmt.Errorf("load webhook: %w", waypost.Errorf(waypost.CodeNotFound, "id", "there is no such webhook"))
}

// What stops a redelivery: its cancel, also of what waits for another attempt; a
// webhook or a lead that is deleted. An attempt that was cut off is closed by it.
func TestRedeliveryStops(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	for name, stop := range map[string]func(w *world, redelivery string) delivery.Store{
		"canceled": func(w *world, redelivery string) delivery.Store {
			_, err := w.store.CancelRedelivery(ctx, scope, redelivery)
			must(w.t, err)
			return w.store
		},
		"webhook deleted": func(w *world, _ string) delivery.Store { return hookless{w.store} },
		"leads deleted": func(w *world, _ string) delivery.Store {
			for _, item := range w.items {
				must(w.t, w.store.DeleteLead(ctx, scope, item.LeadsID, nil))
			}
			return w.store
		},
		"by an operator": func(w *world, _ string) delivery.Store { return nil },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := givenUp(t, 3)
			items, redelivery := w.again(true)
			hang, held := make(chan struct{}), make(chan struct{})
			var arrived atomic.Int32
			w.answer(func(rw http.ResponseWriter, _ *http.Request, id string) {
				rw.WriteHeader(http.StatusServiceUnavailable)
				if id == "ext-1" {
					arrived.Add(1)
					<-hang
				}
			})
			if got := w.outcomes(w.process(nil), items[:1]); got != "[retrying]" {
				t.Fatal(got)
			}
			done := make(chan struct{})
			dead := w.process(slowRecords{w.store, held})
			go func() {
				_, _ = w.redeliver(dead, items[1:2])
				close(done)
			}()
			defer func() { close(hang); close(held); <-done }()
			for arrived.Load() == 0 {
				time.Sleep(time.Millisecond)
			}
			posts := w.totalPosts()
			if s := stop(w, redelivery); s != nil {
				a := w.process(s)
				if got := w.outcomes(a, items); got != "[canceled underWay canceled]" {
					t.Errorf("while an attempt may be under way: %s", got)
				}
				w.clock.advance(131 * time.Second) // no webhook has a longer time-out
				if got := w.outcomes(a, items); got != "[canceled canceled canceled]" {
					t.Errorf("after that: %s", got)
				}
			} else {
				a := w.process(nil)
				b := delivery.Batch{Scope: scope, Items: items}
				if a.CancelRedeliveries(ctx, b) == nil {
					t.Error("it is canceled while an attempt may be under way")
				}
				w.clock.advance(131 * time.Second)
				must(t, a.CancelRedeliveries(ctx, b))
			}
			for i := range w.items {
				if d, _ := w.attempts(i); d.Status != waypost.DeliveryCanceled {
					t.Errorf("message %d is %s", i, d.Status)
				}
			}
			if n := w.totalPosts(); n != posts {
				t.Errorf("%d POSTs came after it", n-posts)
			}
			r, err := w.store.Redelivery(ctx, scope, redelivery)
			must(t, err)
			if r.Canceled != 3 || r.EndedAt == nil {
				t.Errorf("the redelivery is %+v", r)
			}
		})
	}
}

// A disabled webhook holds redeliveries back, however long, and nothing of it stands
// in the timeline; the round's schedule begins with its first attempt.
func TestRedeliveryIsDeferred(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	w := givenUp(t, 1)
	set := func(enabled bool) {
		_, err := w.store.UpdateWebhook(ctx, scope, w.webhookID, func(h *waypost.Webhook) error { h.Enabled = enabled; return nil })
		must(t, err)
	}
	items, _ := w.again(false)
	_, before, err := w.store.Enrollment(ctx, scope, w.items[0].EnrollmentID)
	must(t, err)
	set(false)
	a := w.process(nil)
	for range 2 {
		if got := w.outcomes(a, items); got != "[deferred]" {
			t.Fatal(got)
		}
		w.clock.advance(100 * time.Hour)
	}
	set(true)
	if got := w.outcomes(a, items); got != "[retrying]" {
		t.Errorf("after it was enabled: %s", got)
	}
	_, after, err := w.store.Enrollment(ctx, scope, w.items[0].EnrollmentID)
	must(t, err)
	if fmt.Sprint(before) != fmt.Sprint(after) {
		t.Errorf("the timeline was %+v and is %+v", before, after)
	}
}

// Without a round an item is no redelivery.
func TestRedeliverBatchWantsRounds(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	if _, err := w.redeliver(w.process(nil), w.items); err == nil || w.totalPosts() != 0 {
		t.Errorf("%v, %d POSTs", err, w.totalPosts())
	}
}
