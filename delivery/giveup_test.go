package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/limits"
)

// shut admits nobody while it is closed.
type shut struct {
	noAdmission
	open bool
}

func (s *shut) Admit(ctx context.Context, hook waypost.Webhook, n int) (int, string, time.Duration) {
	if s.open {
		return n, "", 0
	}
	return s.noAdmission.Admit(ctx, hook, n)
}

// giveUpAfter runs out while a message is deferred. It goes out when the reason ends,
// once: if that fails, it has failed for good. What was paused does not count, nor what
// was waited for before the first attempt.
func TestGiveUpAfterWhileDeferred(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	type waiting struct {
		*world
		breakers *limits.Breakers
		admit    *shut
	}
	enable := func(on bool) func(waiting) error {
		return func(w waiting) error { return w.change(func(h *waypost.Webhook) { h.Enabled = on }) }
	}
	reasons := map[string]struct {
		begin, end func(waiting) error
		counts     bool // the time that it takes
	}{
		waypost.DeferWebhookDisabled: {enable(false), enable(true), true},
		waypost.DeferRateLimit: {
			func(w waiting) error { w.admit.open = false; return nil },
			func(w waiting) error { w.admit.open = true; return nil }, true,
		},
		waypost.DeferBreaker: {func(w waiting) error {
			hook, err := w.store.Webhook(ctx, scope, w.webhookID)
			for range 100 {
				w.breakers.Failed(ctx, hook.Circuit(), 0, true, false, 0)
			}
			return err
		}, func(waiting) error { return nil }, true}, // the next may probe
		waypost.DeferPaused: {func(w waiting) error {
			_, err := w.store.PauseEnrollment(ctx, scope, w.items[0].EnrollmentID)
			return err
		}, func(w waiting) error {
			_, err := w.store.ResumeEnrollment(ctx, scope, w.items[0].EnrollmentID, true)
			return err
		}, false},
	}
	for reason, of := range reasons {
		for _, before := range []int{0, 1} { // attempts
			for _, status := range []int{http.StatusOK, http.StatusServiceUnavailable} {
				t.Run(fmt.Sprintf("%s after %d attempts, then %d", reason, before, status), func(t *testing.T) {
					t.Parallel()
					w := waiting{newWorld(t, 1), nil, &shut{open: true}}
					w.breakers = limits.NewBreakers(nil, slog.New(slog.DiscardHandler), w.clock.now)
					w.world.admit, w.circuits = w.admit, w.breakers
					a := w.process(nil)
					step := func(want string, attempts int) {
						t.Helper()
						deliveries, err := w.deliver(a)
						must(t, err)
						if d, log := w.attempts(0); deliveries[0].Outcome != want || d.Attempts != attempts || len(log) != attempts || w.totalPosts() != attempts {
							t.Fatalf("%s after %d attempts and %d POSTs, want %s after %d", deliveries[0].Outcome, d.Attempts, w.totalPosts(), want, attempts)
						}
						if want == delivery.OutcomeDeferred && deliveries[0].Reason != reason {
							t.Fatalf("deferred because of %s", deliveries[0].Reason)
						}
					}
					w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) { rw.WriteHeader(http.StatusServiceUnavailable) })
					if before > 0 {
						step(delivery.OutcomeRetrying, 1)
						w.clock.advance(10 * time.Second) // past the schedule's first entry
					}
					w.clock.stop() // a breaker's pause is short
					must(t, of.begin(w))
					step(delivery.OutcomeDeferred, before)
					w.clock.advance(80 * time.Hour) // giveUpAfter is 72
					w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) { rw.WriteHeader(status) })
					must(t, of.end(w))
					switch {
					case status == http.StatusOK:
						step(delivery.OutcomeDelivered, before+1)
					case of.counts && before > 0:
						step(delivery.OutcomeFailed, before+1)
					default:
						step(delivery.OutcomeRetrying, before+1)
					}
				})
			}
		}
	}
}

// A receiver that asks for more time than there is gets a last attempt when the time is
// over, in the journey's round and in a redelivery's; and the records say why it is over.
func TestLastAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	must(t, w.change(func(h *waypost.Webhook) { h.Retry.GiveUpAfter = waypost.Duration(time.Hour) }))
	w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) {
		rw.Header().Set("Retry-After", "7200")
		rw.WriteHeader(http.StatusServiceUnavailable)
	})
	w.clock.stop()
	a := w.process(nil)
	var items []delivery.Item
	var rounds int
	run := func(want string, attempts int, gaveUp waypost.GaveUp) waypost.Delivery {
		t.Helper()
		deliver := func() ([]delivery.Result, error) { return w.deliver(a) }
		if rounds > 0 {
			deliver = func() ([]delivery.Result, error) { return w.redeliver(a, items) }
		}
		deliveries, err := deliver()
		must(t, err)
		d, log := w.attempts(0)
		if deliveries[0].Outcome != want || len(log) != attempts || w.totalPosts() != attempts || d.GaveUp != gaveUp || log[attempts-1].GaveUp != gaveUp {
			t.Fatalf("%+v, %d POSTs, log %+v", d, w.totalPosts(), log)
		}
		return d
	}
	for ; rounds < 2; rounds++ {
		if rounds > 0 {
			w.clock.advance(time.Minute)
			items, _ = w.again(false)
		}
		d := run(delivery.OutcomeRetrying, 2*rounds+1, "")
		if wait := d.NextAttemptAt.Sub(*d.FirstAttemptAt); wait != time.Hour {
			t.Fatalf("round %d: the last attempt comes after %s", rounds+1, wait)
		}
		w.clock.advance(time.Hour)
		if d = run(delivery.OutcomeFailed, 2*rounds+2, waypost.GaveUpTime); d.Message != "the receiver answered 503; given up: the time of retry.giveUpAfter is over" {
			t.Errorf("round %d: %q", rounds+1, d.Message)
		}
	}
}

// What is recorded says why it was given up.
func TestGaveUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		status  int
		body    string
		change  func(*waypost.Webhook)
		gaveUp  waypost.GaveUp
		message string
	}{
		"refused":       {400, "", nil, waypost.GaveUpNotRetried, "the receiver answered 400; given up: retry.on has no such failure"},
		"attempts":      {503, "", func(h *waypost.Webhook) { h.Retry.MaxAttempts = 1 }, waypost.GaveUpAttempts, "the receiver answered 503; given up: as many attempts were made as retry.maxAttempts allows"},
		"gone":          {410, "", nil, waypost.GaveUpGone, "the receiver answered 410; given up: 410 has disabled the webhook"},
		"succeed false": {200, `{"succeed":false,"message":"no stock"}`, nil, waypost.GaveUpSucceedFalse, "no stock"},
		"succeed false at the end": {200, `{"succeed":false,"message":"no stock"}`, func(h *waypost.Webhook) { h.Retry.OnSucceedFalse, h.Retry.MaxAttempts = true, 1 },
			waypost.GaveUpAttempts, "no stock; given up: as many attempts were made as retry.maxAttempts allows"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			if tt.change != nil {
				must(t, w.change(tt.change))
			}
			w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) {
				rw.WriteHeader(tt.status)
				_, _ = rw.Write([]byte(tt.body))
			})
			w.deliverAll(w.process(nil))
			d, log := w.attempts(0)
			if d.GaveUp != tt.gaveUp || d.Message != tt.message || len(log) != 1 || log[0].GaveUp != tt.gaveUp || log[0].Message != tt.message {
				t.Errorf("%+v, log %+v", d, log)
			}
			// Conditions and templates see what the receiver said.
			results, err := w.store.TouchpointResults(t.Context(), []string{w.items[0].EnrollmentID})
			must(t, err)
			for _, r := range results[w.items[0].EnrollmentID] {
				if strings.Contains(r.Message, "given up") {
					t.Errorf("result %+v", r)
				}
			}
			// A redelivery that is under way has not been given up.
			must(t, w.change(func(h *waypost.Webhook) { h.Enabled = true }))
			w.again(false)
			if d, log := w.attempts(0); d.GaveUp != "" || d.Message != strings.Split(tt.message, "; given")[0] || log[0].GaveUp != tt.gaveUp {
				t.Errorf("redelivered: %+v, log %+v", d, log)
			}
		})
	}
}
