package delivery_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"waypost"
	"waypost/delivery"
	"waypost/journey"
	"waypost/limits"
	"waypost/store"
	"waypost/webhook"
)

// A machine that stands still for a moment is no Redis that is away.
func init() { limits.CallTime = time.Minute }

// breakers are a process's breakers in the Redis at addr.
func (w *world) breakers(addr string) *limits.Breakers {
	// A command that is sent again could lose a probe.
	client := redis.NewClient(limits.ClientOptions(&redis.Options{Addr: addr}))
	w.t.Cleanup(func() { _ = client.Close() })
	return limits.NewBreakers(client, slog.New(slog.DiscardHandler), w.clock.now)
}

// guarded is a worker process with breakers in the Redis at addr.
func (w *world) guarded(s delivery.Store, addr string) *delivery.Engine {
	sender := webhook.NewSender(webhook.Options{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Now: w.clock.now,
	})
	w.t.Cleanup(sender.Close)
	a := delivery.New(delivery.Options{
		Store: s, Sender: sender, Breakers: w.breakers(addr), Log: slog.New(slog.DiscardHandler), Now: w.clock.now,
		Stragglers: time.Minute,
	})
	w.t.Cleanup(func() { _ = a.Close(context.Background()) })
	return a
}

// hangUp is a receiver that is down.
func hangUp(rw http.ResponseWriter, _ *http.Request, _ string) {
	if conn, _, err := http.NewResponseController(rw).Hijack(); err == nil {
		_ = conn.Close()
	}
}

// A receiver goes down and comes back. Meanwhile one message at a time is tried,
// the others wait without an attempt; then all are told, and each is delivered
// once.
func TestBreakerHoldsBackAndReleases(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60)
	w.clock.stop()
	server := miniredis.RunT(t)
	advance := func(d time.Duration) {
		w.clock.advance(d)
		server.SetTime(w.clock.now())
	}
	advance(0)
	one, other := w.guarded(w.store, server.Addr()), w.guarded(w.store, server.Addr())
	all := w.items
	run := func(a *delivery.Engine, items []delivery.Item, want map[string]int) []delivery.Result {
		t.Helper()
		w.items = items
		deliveries, err := w.deliver(a)
		must(t, err)
		got := map[string]int{}
		for _, d := range deliveries {
			got[d.Outcome]++
			if d.Outcome == delivery.OutcomeDeferred && (d.Reason != waypost.DeferBreaker || !d.Next.After(d.At)) {
				t.Errorf("deferred because of %q until %s, at %s", d.Reason, d.Next, d.At)
			}
		}
		for outcome, n := range want {
			if got[outcome] != n {
				t.Errorf("outcomes %v, want %v", got, want)
			}
		}
		return deliveries
	}
	posts := func(what string, want int) {
		t.Helper()
		if n := w.totalPosts(); n != want {
			t.Fatalf("%s: %d POSTs, want %d", what, n, want)
		}
	}
	woken := func(want int) {
		t.Helper()
		w.clock.advance(time.Second) // others come meanwhile
		notices, err := w.store.ClaimNotices(context.Background(), 10, true)
		must(t, err)
		if len(notices) != want {
			t.Errorf("%d workflows are woken, want %d", len(notices), want)
		}
		var ids []int64
		for _, n := range notices {
			ids = append(ids, n.ID)
		}
		must(t, w.store.DeleteNotices(context.Background(), ids))
	}
	attempted, rest := all[:30], all[30:]

	w.answer(hangUp)
	run(one, attempted, map[string]int{delivery.OutcomeRetrying: 30})
	posts("first attempts", 30)
	run(other, rest, map[string]int{delivery.OutcomeDeferred: 30})
	posts("the breaker is open", 30)
	w.items = all
	if d, attempts := w.attempts(59); d.Status != waypost.DeliveryDeferred || d.DeferredReason != waypost.DeferBreaker || d.Attempts != 0 || len(attempts) != 0 {
		t.Errorf("held back: %+v", d)
	}

	advance(time.Second)
	var running sync.WaitGroup
	w.items = rest
	for _, a := range []*delivery.Engine{one, other, one, other} {
		running.Go(func() {
			if _, err := w.deliver(a); err != nil {
				t.Error(err)
			}
		})
	}
	running.Wait()
	posts("half-open", 31)

	advance(7 * time.Second) // retries are due
	for _, d := range run(one, slices.Concat(rest, attempted), map[string]int{delivery.OutcomeRetrying: 1, delivery.OutcomeDeferred: 59}) {
		if d.Outcome == delivery.OutcomeRetrying && d.Attempt != 2 {
			t.Errorf("a message is probed with that had %d attempts, others had one", d.Attempt-1)
		}
	}
	posts("a retry as a probe", 32)
	woken(0)

	w.answer(func(http.ResponseWriter, *http.Request, string) {})
	advance(40 * time.Second) // whatever the jitter is, all are due
	run(other, rest, map[string]int{delivery.OutcomeDelivered: 1, delivery.OutcomeDeferred: 29})
	posts("the probe that closes it", 33)
	woken(1)

	advance(time.Minute)
	run(one, all, map[string]int{delivery.OutcomeDelivered: 60})
	posts("all", 92)
	woken(0)
	w.items = all
	total := 0
	for i := range all {
		d, attempts := w.attempts(i)
		total += d.Attempts
		if d.Status != waypost.DeliverySucceeded || len(attempts) != d.Attempts {
			t.Errorf("delivery %d: %s, %d attempts, %d listed", i, d.Status, d.Attempts, len(attempts))
		}
	}
	if total != 92 {
		t.Errorf("%d attempts are recorded, 92 POSTs were made", total)
	}
}

// A webhook's breaker that opens is told once, by whichever process meets it: the one that
// opened it may die before it has told.
func TestBreakerThatOpensIsTold(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 60)
	w.clock.stop()
	server := miniredis.RunT(t)
	server.SetTime(w.clock.now())
	ctx, sc := context.Background(), scope
	hook, err := w.store.CreateWebhook(ctx, sc, waypost.Webhook{Name: "ear", URL: "https://example.com", TimeoutMs: 1000, Retry: waypost.DefaultRetry(), Enabled: true})
	must(t, err)
	_, err = w.store.CreateSubscription(ctx, sc, waypost.Subscription{Name: "s", WebhookID: hook.ID, On: []waypost.Happening{waypost.WebhookFailing}})
	must(t, err)
	openings := func(want int) {
		t.Helper()
		batches, _, err := w.store.TellSubscriptions(ctx, waypost.MaxCohort)
		must(t, err)
		n := 0
		for _, b := range batches {
			n += len(b.Members)
		}
		if n != want {
			t.Errorf("told %d times, want %d", n, want)
		}
	}
	mute := &muteStore{Store: w.store}
	mute.mute.Store(true)
	one, other := w.guarded(mute, server.Addr()), w.guarded(w.store, server.Addr())
	all := w.items
	w.answer(hangUp)
	deliver := func(a *delivery.Engine, items []delivery.Item) {
		t.Helper()
		w.items = items
		_, err := w.deliver(a)
		must(t, err)
	}
	deliver(one, all[:30])
	openings(0) // it could not tell
	deliver(other, all[30:40])
	openings(1)
	mute.mute.Store(false)
	deliver(one, all[40:50])
	deliver(other, all[50:])
	openings(0)
}

// muteStore cannot tell that a webhook is failing while it is mute.
type muteStore struct {
	*store.Store
	mute atomic.Bool
}

func (s *muteStore) AnnounceFailing(ctx context.Context, sc waypost.Scope, webhookID string, opened time.Time) error {
	if s.mute.Load() {
		return errors.New("the process dies")
	}
	return s.Store.AnnounceFailing(ctx, sc, webhookID, opened)
}

// meanwhileStore has something happen just before deferrals are written down.
type meanwhileStore struct {
	*store.Store
	meanwhile func()
}

func (s *meanwhileStore) RecordDeferrals(ctx context.Context, deferrals []delivery.Deferral) error {
	s.meanwhile()
	return s.Store.RecordDeferrals(ctx, deferrals)
}

// Whoever is held back at the moment in which the others are told is not left
// behind.
func TestBreakerClosesWhileABatchIsHeldBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 30)
	w.clock.stop()
	server := miniredis.RunT(t)
	server.SetTime(w.clock.now())
	third := w.breakers(server.Addr())
	circuit := ""
	s := &meanwhileStore{Store: w.store, meanwhile: func() {
		server.SetTime(w.clock.now().Add(time.Second))
		granted, ticket, _ := third.Admit(context.Background(), circuit, 1, time.Minute)
		announced := third.Alive(context.Background(), circuit, ticket, true)
		if granted != 1 || announced == nil {
			t.Error("it does not close")
			return
		}
		announced(context.Background())
	}}
	a := w.guarded(s, server.Addr())
	hook, err := w.store.Webhook(context.Background(), scope, w.webhookID)
	must(t, err)
	circuit = hook.Circuit()
	all := w.items
	w.answer(hangUp)
	w.items = all[:28]
	_, err = w.deliver(a)
	must(t, err)
	w.answer(func(http.ResponseWriter, *http.Request, string) {})
	w.items = all[28:]
	deliveries, err := w.deliver(a)
	must(t, err)
	for _, d := range deliveries {
		if d.Outcome != delivery.OutcomeDeferred || d.Next.After(d.At) {
			t.Errorf("%s until %s, at %s", d.Outcome, d.Next, d.At)
		}
	}
	if got := w.deliverAll(a); got[0] != delivery.OutcomeDelivered || got[1] != delivery.OutcomeDelivered {
		t.Errorf("then %v", got)
	}
}

// A webhook is enabled, or gets another host, at the moment in which somebody is held
// back because of what it was: nobody is left behind.
func TestWebhookChangesWhileABatchIsHeldBack(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*waypost.Webhook){
		"enabled":      func(hook *waypost.Webhook) { hook.Enabled = true },
		"another host": func(hook *waypost.Webhook) { hook.URL = strings.Replace(hook.URL, "127.0.0.1", "localhost", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 29)
			w.clock.stop()
			server := miniredis.RunT(t)
			server.SetTime(w.clock.now())
			update := func(change func(*waypost.Webhook)) {
				w.clock.advance(time.Millisecond)
				_, err := w.store.UpdateWebhook(context.Background(), scope, w.webhookID, func(hook *waypost.Webhook) error { change(hook); return nil })
				must(t, err)
			}
			s := &meanwhileStore{Store: w.store, meanwhile: func() { update(change) }}
			a := w.guarded(s, server.Addr())
			all := w.items
			w.answer(hangUp)
			w.items = all[:28]
			_, err := w.deliver(a)
			must(t, err)
			if name == "enabled" {
				update(func(hook *waypost.Webhook) { hook.Enabled = false })
			}
			w.answer(func(http.ResponseWriter, *http.Request, string) {})
			w.items = all[28:]
			deliveries, err := w.deliver(a)
			must(t, err)
			if d := deliveries[0]; d.Outcome != delivery.OutcomeDeferred || d.Next.After(d.At) {
				t.Errorf("%s until %s, at %s", d.Outcome, d.Next, d.At)
			}
		})
	}
}

// A message that no attempt can be made of does not keep the probe from others.
func TestBreakerProbeThatIsNotMade(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 30)
	w.clock.stop()
	server := miniredis.RunT(t)
	server.SetTime(w.clock.now())
	a := w.guarded(w.store, server.Addr())
	all := w.items
	w.answer(hangUp)
	w.items = all[:28]
	_, err := w.deliver(a)
	must(t, err)
	w.clock.advance(time.Second)
	server.SetTime(w.clock.now())
	w.answer(func(http.ResponseWriter, *http.Request, string) {})
	w.items = []delivery.Item{all[28]}
	w.items[0].State.Phase = journey.PhaseDecide // at which no message is sent
	if _, err := w.deliver(a); err == nil {
		t.Fatal("no error")
	}
	w.items = all[29:]
	if got := w.deliverAll(a); got[0] != delivery.OutcomeDelivered {
		t.Errorf("the next probe: %s", got)
	}
}

// Redis forgets that the breaker was open: the first who has waited for it and is
// delivered has the others told.
func TestBreakerIsForgotten(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 30)
	w.clock.stop()
	server := miniredis.RunT(t)
	server.SetTime(w.clock.now())
	a := w.guarded(w.store, server.Addr())
	all := w.items
	w.answer(hangUp)
	for _, items := range [][]delivery.Item{all[:25], all[25:]} {
		w.items = items
		_, err := w.deliver(a)
		must(t, err)
	}
	server.FlushAll()
	w.clock.advance(2 * time.Second)
	server.SetTime(w.clock.now())
	w.answer(func(http.ResponseWriter, *http.Request, string) {})
	w.items = all[29:]
	if got := w.deliverAll(a); got[0] != delivery.OutcomeDelivered {
		t.Fatalf("outcome %s", got)
	}
	w.clock.advance(time.Second)
	if notices, err := w.store.ClaimNotices(context.Background(), 10, true); err != nil || len(notices) != 1 {
		t.Errorf("%d workflows are woken, %v", len(notices), err)
	}
}

// Messages that fail again and again, many together, follow their schedule and keep
// nobody else.
func TestBreakerLeavesRetriesAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 46)
	w.clock.stop()
	server := miniredis.RunT(t)
	a := w.guarded(w.store, server.Addr())
	all := w.items
	deliver := func(items []delivery.Item, attempt int) {
		t.Helper()
		server.SetTime(w.clock.now())
		w.items = items
		deliveries, err := w.deliver(a)
		must(t, err)
		for _, d := range deliveries {
			if d.Outcome != delivery.OutcomeRetrying || d.Attempt != attempt {
				t.Fatalf("%s after attempt %d, want attempt %d", d.Outcome, d.Attempt, attempt)
			}
		}
		w.clock.advance(13 * time.Second)
	}
	w.answer(hangUp)
	for i := range 3 { // never twenty in ten seconds
		deliver(all[15*i:15*i+15], 1)
	}
	deliver(all[:45], 2)
	w.clock.advance(time.Minute)
	deliver(all[:45], 3)
	deliver(all[45:], 1)
}

// What a receiver answers to one message says nothing about others: a launch whose
// messages are all refused goes on, and so do retries.
func TestBreakerStaysClosed(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string]func(http.ResponseWriter){
		"succeed false":      func(rw http.ResponseWriter) { _, _ = rw.Write([]byte(`{"succeed":false}`)) },
		"400":                func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusBadRequest) },
		"redirect":           func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusFound) },
		"503 for an instant": func(rw http.ResponseWriter) { rw.WriteHeader(http.StatusServiceUnavailable) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 50)
			w.clock.stop()
			w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) { answer(rw) })
			server := miniredis.RunT(t)
			server.SetTime(w.clock.now())
			a := w.guarded(w.store, server.Addr())
			all := w.items
			for len(all) > 0 {
				w.items, all = all[:25], all[25:]
				w.deliverAll(a)
			}
			if n := w.totalPosts(); n != 50 {
				t.Errorf("%d POSTs, want 50", n)
			}
		})
	}
}
