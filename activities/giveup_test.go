package activities_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"waypost"
	"waypost/activities"
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
						if want == activities.OutcomeDeferred && deliveries[0].Reason != reason {
							t.Fatalf("deferred because of %s", deliveries[0].Reason)
						}
					}
					w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) { rw.WriteHeader(http.StatusServiceUnavailable) })
					if before > 0 {
						step(activities.OutcomeRetrying, 1)
						w.clock.advance(10 * time.Second) // past the schedule's first entry
					}
					w.clock.stop() // a breaker's pause is short
					must(t, of.begin(w))
					step(activities.OutcomeDeferred, before)
					w.clock.advance(80 * time.Hour) // giveUpAfter is 72
					w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) { rw.WriteHeader(status) })
					must(t, of.end(w))
					switch {
					case status == http.StatusOK:
						step(activities.OutcomeDelivered, before+1)
					case of.counts && before > 0:
						step(activities.OutcomeFailed, before+1)
					default:
						step(activities.OutcomeRetrying, before+1)
					}
				})
			}
		}
	}
}
