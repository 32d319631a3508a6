package delivery_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/store"
	"waypost/webhook"
)

// slowRecords holds back the records of one process: it can reach the receiver
// but not the database.
type slowRecords struct {
	*store.Store
	held chan struct{}
}

func (s slowRecords) RecordAttempts(ctx context.Context, records []delivery.AttemptRecord) error {
	<-s.held
	return s.Store.RecordAttempts(ctx, records)
}

// Two processes see different answers to two attempts of one message: what the
// workflow is told, what is recorded of the delivery and what stands in the
// timeline must be the same.
func TestLateRecordAndAnswerAgree(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ first, second int }{
		"late success, then refused":  {200, 409},
		"late refusal, then accepted": {404, 200},
	} {
		for _, lateFirst := range []bool{true, false} {
			t.Run(fmt.Sprint(name, lateFirst), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 1)
				var n atomic.Int32
				second, answerSecond := make(chan struct{}), make(chan struct{})
				w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) {
					if n.Add(1) == 1 {
						rw.WriteHeader(tt.first)
						return
					}
					close(second)
					<-answerSecond
					rw.WriteHeader(tt.second)
				})
				held := make(chan struct{})
				zombie := w.process(slowRecords{w.store, held})
				zombieDone := w.begin(zombie)
				w.clock.advance(cutOff)
				other := w.process(nil)
				type result struct {
					d   []delivery.Result
					err error
				}
				done := make(chan result, 1)
				go func() { d, err := w.deliver(other); done <- result{d, err} }()
				<-second
				var r result
				if lateFirst {
					close(held)
					must(t, <-zombieDone)
					close(answerSecond)
					r = <-done
				} else {
					close(answerSecond)
					r = <-done
					close(held)
					must(t, <-zombieDone)
				}
				must(t, r.err)
				d, _ := w.attempts(0)
				answered := r.d[0].Outcome
				recorded := map[waypost.DeliveryStatus]string{
					waypost.DeliverySucceeded: delivery.OutcomeDelivered, waypost.DeliveryFailed: delivery.OutcomeFailed,
				}[d.Status]
				_, timeline, err := w.store.Enrollment(context.Background(), scope, w.items[0].EnrollmentID)
				must(t, err)
				what := map[string]string{waypost.WhatSent: delivery.OutcomeDelivered, waypost.WhatFailed: delivery.OutcomeFailed}[timeline[1].What]
				if answered != recorded || answered != what {
					t.Errorf("the workflow is told %s, recorded is %s, the timeline says %s", answered, recorded, what)
				}
			})
		}
	}
}

// Close waits for records that are being retried one by one.
func TestCloseWaitsForRetriedRecords(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	s := &flakyStore{Store: w.store}
	s.away.Store(true)
	a := w.process(s)
	go func() { _, _ = w.deliver(a) }()
	for s.failed.Load() < 8 { // five as one batch, then each by itself
		time.Sleep(time.Millisecond)
	}
	closed := make(chan error, 1)
	go func() { closed <- a.Close(context.Background()) }()
	select {
	case err := <-closed:
		t.Fatalf("Close returned %v while nothing is recorded", err)
	case <-time.After(300 * time.Millisecond):
	}
	s.away.Store(false)
	must(t, <-closed)
	for i := range w.items {
		if d, _ := w.attempts(i); d.Status != waypost.DeliverySucceeded {
			t.Errorf("enrollment %d is %s after Close", i, d.Status)
		}
	}
}

// Close waits for POSTs that the batch no longer waits for.
func TestCloseWaitsForStragglers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	hang := make(chan struct{})
	w.answer(func(_ http.ResponseWriter, _ *http.Request, id string) {
		if id == "ext-1" {
			<-hang
		}
	})
	w.stragglers = 300 * time.Millisecond
	a := w.process(nil)
	if got := w.deliverLate(a, 1); got != "[delivered underWay]" {
		t.Fatalf("outcomes %s", got)
	}
	closed := make(chan error, 1)
	go func() { closed <- a.Close(context.Background()) }()
	select {
	case <-closed:
		t.Error("Close returned while a POST is under way")
	case <-time.After(200 * time.Millisecond):
	}
	close(hang)
	if !t.Failed() {
		must(t, <-closed)
	} else {
		time.Sleep(200 * time.Millisecond)
	}
	if d, _ := w.attempts(1); d.Status != waypost.DeliverySucceeded {
		t.Errorf("the straggler is %s: its next run POSTs it again", d.Status)
	}
}

// A webhook whose time-out is made shorter does not make attempts that began
// before look dead.
func TestShorterTimeoutRepeatsNoPost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	hang := make(chan struct{})
	w.answer(func(http.ResponseWriter, *http.Request, string) { <-hang })
	done := w.begin(w.process(nil))
	def, err := w.store.Webhook(context.Background(), scope, w.webhookID)
	must(t, err)
	_, err = w.store.UpdateWebhook(context.Background(), scope, def.ID, func(h *waypost.Webhook) error { h.TimeoutMs = 1000; return nil })
	must(t, err)
	w.clock.advance(20 * time.Second) // more than the new time-out and the grace
	if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[underWay]" {
		t.Errorf("outcome %s", got)
	}
	if n := w.totalPosts(); n != 1 {
		t.Errorf("%d POSTs while the first may take a minute", n)
	}
	close(hang)
	must(t, <-done)
}

// flakyDisable cannot disable a webhook at the first try.
type flakyDisable struct {
	*store.Store
	once sync.Once
}

func (s *flakyDisable) DisableWebhook(ctx context.Context, sc waypost.Scope, w waypost.Webhook, reason string) (err error) {
	s.once.Do(func() { err = errAway })
	if err != nil {
		return err
	}
	return s.Store.DisableWebhook(ctx, sc, w, reason)
}

// A 410 disables the webhook even if the database is away for a moment.
func TestGoneDisablesDespiteFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) { rw.WriteHeader(http.StatusGone) })
	if got := fmt.Sprint(w.deliverAll(w.process(&flakyDisable{Store: w.store}))); got != "[failed]" {
		t.Fatalf("outcome %s", got)
	}
	hook, err := w.store.Webhook(context.Background(), scope, w.webhookID)
	must(t, err)
	if hook.Enabled || w.totalPosts() != 1 {
		t.Errorf("enabled %v after %d POSTs answered 410", hook.Enabled, w.totalPosts())
	}
}

// A 410 of the old URL that comes when the webhook has another one already does not
// disable that.
func TestGoneAfterTheURLChanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	hang := make(chan struct{})
	w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) {
		<-hang
		rw.WriteHeader(http.StatusGone)
	})
	answered := w.begin(w.process(nil))
	w.clock.advance(time.Millisecond)
	_, err := w.store.UpdateWebhook(context.Background(), scope, w.webhookID, func(hook *waypost.Webhook) error { hook.URL += "/new"; return nil })
	must(t, err)
	close(hang)
	must(t, <-answered)
	hook, err := w.store.Webhook(context.Background(), scope, w.webhookID)
	must(t, err)
	if d, _ := w.attempts(0); !hook.Enabled || d.HTTPStatus != http.StatusGone {
		t.Errorf("enabled %v, %d", hook.Enabled, d.HTTPStatus)
	}
}

// watcher notes the attempts that the metrics are told of.
type watcher struct{ attempts atomic.Int32 }

func (w *watcher) Attempt(string, string, time.Duration) { w.attempts.Add(1) }
func (w *watcher) Deferred(string, int)                  {}

// An attempt that has ended shows while its outcome cannot be recorded: an alert
// compares the two.
func TestAttemptShowsBeforeItIsRecorded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	s := &flakyStore{Store: w.store}
	s.away.Store(true)
	seen := &watcher{}
	sender := webhook.NewSender(webhook.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Now: w.clock.now})
	t.Cleanup(sender.Close)
	a := delivery.New(delivery.Options{Store: s, Sender: sender, Observer: seen, Log: slog.New(slog.DiscardHandler), Now: w.clock.now})
	answered := w.begin(a)
	for deadline := time.Now().Add(time.Minute); seen.attempts.Load() == 0; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it does not show")
		}
	}
	if d, _ := w.attempts(0); d.Attempts != 0 {
		t.Error("it is recorded: the test shows nothing")
	}
	s.away.Store(false)
	must(t, <-answered)
	must(t, a.Close(context.Background()))
	if n := seen.attempts.Load(); n != 1 {
		t.Errorf("it shows %d times", n)
	}
}

// hungStore answers neither yes nor no to the first write of outcomes, as a
// connection whose other end has vanished.
type hungStore struct {
	*store.Store
	calls atomic.Int32
}

func (s *hungStore) RecordAttempts(ctx context.Context, records []delivery.AttemptRecord) error {
	if s.calls.Add(1) == 1 {
		<-ctx.Done()
		return ctx.Err()
	}
	return s.Store.RecordAttempts(ctx, records)
}

// A write that hangs is given up and made again.
func TestHungWriteIsRepeated(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	a := w.process(&hungStore{Store: w.store})
	a.SetWriteTime(50 * time.Millisecond)
	if got := fmt.Sprint(w.deliverAll(a)); got != "[delivered]" {
		t.Errorf("outcome %s", got)
	}
	if n := w.totalPosts(); n != 1 {
		t.Errorf("%d POSTs", n)
	}
}

// A worker that does not know an enrollment's phase, as one of an older build,
// POSTs nothing: it could not record what came of it.
func TestUnknownStatePostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.items[1].State.Phase = "unknown"
	a := w.process(nil)
	for range 2 {
		if _, err := w.deliver(a); err == nil {
			t.Error("no error")
		}
	}
	if n := w.totalPosts(); n != 0 {
		t.Errorf("%d POSTs that nothing records", n)
	}
}

// An attempt that was cut off counts: where only one is allowed, no other follows.
func TestInterruptedAttemptCounts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	_, err := w.store.UpdateWebhook(context.Background(), scope, w.webhookID, func(h *waypost.Webhook) error {
		h.Retry.MaxAttempts = 1
		return nil
	})
	must(t, err)
	w.clock.advance(time.Second) // the webhook's change is older than the attempt
	hang := make(chan struct{})
	w.answer(func(http.ResponseWriter, *http.Request, string) { <-hang })
	answered := w.begin(w.process(nil))
	w.clock.advance(cutOff)
	if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[failed]" {
		t.Errorf("outcomes %s", got)
	}
	d, attempts := w.attempts(0)
	if d.Status != waypost.DeliveryFailed || len(attempts) != 1 || attempts[0].ErrorClass != waypost.ClassInterrupted || w.totalPosts() != 1 {
		t.Errorf("%s with attempts %+v after %d POSTs", d.Status, attempts, w.totalPosts())
	}
	if e, _, err := w.store.Enrollment(context.Background(), scope, w.items[0].EnrollmentID); err != nil || e.Status != waypost.EnrollmentCompleted {
		t.Errorf("the enrollment is %s, %v", e.Status, err)
	}
	close(hang)
	must(t, <-answered)
}

// panicking is a sender with a bug that one message meets.
type panicking struct{ delivery.Sender }

func (panicking) Send(context.Context, waypost.Webhook, string, []byte) waypost.Outcome {
	panic("a bug")
}

// A panic in an attempt ends the batch with an error, not the process.
func TestPanicInAnAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	a := delivery.New(delivery.Options{Store: w.store, Sender: panicking{}, Log: slog.New(slog.DiscardHandler), Now: w.clock.now})
	t.Cleanup(func() { must(t, a.Close(context.Background())) })
	if _, err := w.deliver(a); err == nil {
		t.Error("no error")
	}
	if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[underWay underWay]" {
		t.Errorf("outcomes %s", got)
	}
	w.clock.advance(cutOff)
	if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[delivered delivered]" {
		t.Errorf("outcomes %s", got)
	}
}

// bugged is a store with a bug that is met once, in the middle of a batch.
type bugged struct {
	*store.Store
	once sync.Once
}

func (s *bugged) Briefing(ctx context.Context, sc waypost.Scope, webhookID string, of waypost.ControlTargets) (delivery.Briefing, error) {
	s.once.Do(func() { panic("a bug") })
	return s.Store.Briefing(ctx, sc, webhookID, of)
}

// A panic in a batch does not keep its touchpoints taken.
func TestPanicInABatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.unsent = true
	a := w.process(&bugged{Store: w.store})
	if _, err := w.deliver(a); err == nil {
		t.Error("no error")
	}
	if got := fmt.Sprint(w.deliverAll(a)); got != "[delivered delivered]" {
		t.Errorf("outcomes %s", got)
	}
}

// A worker is killed after it has written that a touchpoint is held back, and before
// the workflow heard of it; the next one sends it. The timeline tells that.
func TestDeferralNobodyHeardOf(t *testing.T) {
	t.Parallel()
	for name, next := range map[string]string{"the last node": `"next":"end"`, "another touchpoint": `"next":"two"`} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, 1, `{"name":"J","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%[1]q,`+next+`},
				{"id":"two","type":"touchpoint","webhook":%[1]q,"next":"end"},{"id":"end","type":"exit"}]}`)
			enable := func(on bool) {
				_, err := w.store.UpdateWebhook(t.Context(), scope, w.webhookID, func(h *waypost.Webhook) error { h.Enabled = on; return nil })
				must(t, err)
			}
			enable(false)
			if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[deferred]" {
				t.Fatal(got)
			}
			enable(true)
			if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[delivered]" {
				t.Fatal(got)
			}
			_, entries, err := w.store.Enrollment(t.Context(), scope, w.items[0].EnrollmentID)
			must(t, err)
			var lines []string
			for _, e := range entries {
				lines = append(lines, e.NodeID+" "+e.What)
			}
			want := []string{"hello entered", "hello sent"}
			if next == `"next":"end"` {
				want = append(want, "end exited")
			}
			if fmt.Sprint(lines) != fmt.Sprint(want) {
				t.Errorf("timeline %q, want %q", lines, want)
			}
		})
	}
}

// A message that a process has no key for waits until one has it, whatever became of
// it before, and holds up no other of its batch.
func TestUnreadableMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) { rw.WriteHeader(http.StatusServiceUnavailable) })
	all, old := w.items, w.process(w.open(secondKey))
	w.items = all[1:2]
	if got := fmt.Sprint(w.deliverAll(old)); got != "[retrying]" {
		t.Fatal(got)
	}
	w.items = all
	w.clock.advance(7 * time.Second)
	w.answer(func(http.ResponseWriter, *http.Request, string) {})
	lacking := w.process(nil)
	answers, err := w.deliver(lacking)
	must(t, err)
	for range 2 { // whether it waits already or not
		if got := fmt.Sprint(w.deliverAll(lacking)); got != "[delivered deferred delivered]" {
			t.Fatalf("without the key: %s", got)
		}
		w.clock.advance(time.Hour)
	}
	if wait := answers[1].Next.Sub(answers[1].At); answers[1].Reason != waypost.DeferUnreadable || wait <= 0 || wait > time.Minute {
		t.Errorf("it is told again in %s, because of %q", wait, answers[1].Reason)
	}
	w.store = w.open(firstKey + "," + secondKey)
	d, attempts := w.attempts(1)
	if d.Status != waypost.DeliveryDeferred || d.DeferredReason != waypost.DeferUnreadable || len(attempts) != 1 || w.totalPosts() != 3 {
		t.Errorf("%s for %q, attempts %+v, %d POSTs", d.Status, d.DeferredReason, attempts, w.totalPosts())
	}
	if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[delivered delivered delivered]" {
		t.Errorf("with both keys: %s", got)
	}
	// What is decided is answered from what is recorded, which needs no key.
	if got := fmt.Sprint(w.deliverAll(w.process(w.open(secondKey)))); got != "[delivered delivered delivered]" || w.totalPosts() != 4 {
		t.Errorf("with the other key: %s, %d POSTs", got, w.totalPosts())
	}
}

// Nothing is sent to a webhook without a secret of its that this process has no key for.
// It waits, and goes out when somebody has the key or the secret is set again.
func TestUnreadableSecret(t *testing.T) {
	t.Parallel()
	password := func(text string) func(*waypost.Webhook) {
		return func(h *waypost.Webhook) { h.BasicAuth = &waypost.BasicAuth{Username: "u", Password: text} }
	}
	secret := func(text string) func(*waypost.Webhook) {
		return func(h *waypost.Webhook) { h.SigningSecret = "whsec_" + base64.StdEncoding.EncodeToString([]byte(text)) }
	}
	for name, c := range map[string]struct {
		lost  func(*waypost.Webhook) // sets what is encrypted with the other key
		again func(*waypost.Webhook) // sets it again; nil: the key comes back
		want  string                 // what a request has then
	}{
		"password, the key is back":       {password("old"), nil, "u old false"},
		"password, set again":             {password("old"), password("new"), "u new false"},
		"signing secret, the key is back": {secret("the old one, of thirty-two bytes"), nil, "  true"},
		"signing secret, set again":       {secret("the old one, of thirty-two bytes"), secret("the new one, of thirty-two bytes"), "  true"},
		"client key, no longer used": {
			func(h *waypost.Webhook) { h.TLS = &waypost.TLS{ClientCertificate: "certificate", ClientKey: "key"} },
			func(h *waypost.Webhook) { h.TLS = nil }, "  false",
		},
	} {
		for _, again := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, redelivery %t", name, again), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, 2)
				update := func(s *store.Store, change func(*waypost.Webhook)) {
					t.Helper()
					_, err := s.UpdateWebhook(t.Context(), scope, w.webhookID, func(h *waypost.Webhook) error { change(h); return nil })
					must(t, err)
				}
				send, before := w.deliver, 0
				if again {
					w.respond(http.StatusNotFound)
					w.deliverAll(w.process(nil))
					items, _ := w.again(false)
					send, before = func(a *delivery.Engine) ([]delivery.Result, error) { return w.redeliver(a, items) }, w.totalPosts()
				}
				sent := func(a *delivery.Engine) (outcomes []string) {
					t.Helper()
					answers, err := send(a)
					must(t, err)
					for _, d := range answers {
						outcomes = append(outcomes, strings.TrimSpace(d.Outcome+" "+d.Reason))
						if wait := d.Next.Sub(d.At); d.Outcome == delivery.OutcomeDeferred && (wait <= 0 || wait > time.Minute) {
							t.Errorf("it is looked at again in %s", wait)
						}
					}
					return outcomes
				}
				got := make(chan string, 10)
				w.answer(func(_ http.ResponseWriter, r *http.Request, _ string) {
					user, password, _ := r.BasicAuth()
					got <- fmt.Sprint(user, " ", password, " ", r.Header.Get("Webhook-Signature") != "")
				})
				update(w.open(secondKey), c.lost)
				a := w.process(nil)
				for range 2 { // whether they wait already or not
					if got := fmt.Sprint(sent(a)); got != "[deferred unreadable deferred unreadable]" || w.totalPosts() > before {
						t.Fatalf("without the key: %s, %d POSTs", got, w.totalPosts()-before)
					}
				}
				if d, _ := w.attempts(0); d.Status != waypost.DeliveryDeferred || d.DeferredReason != waypost.DeferUnreadable {
					t.Errorf("it is %s for %q", d.Status, d.DeferredReason)
				}
				if c.again == nil {
					a = w.process(w.open(firstKey + "," + secondKey))
				} else {
					update(w.store, c.again)
				}
				if got := fmt.Sprint(sent(a)); got != "[delivered delivered]" {
					t.Fatalf("then: %s", got)
				}
				for range 2 {
					if m := <-got; m != c.want {
						t.Errorf("the receiver got %q, want %q", m, c.want)
					}
				}
			})
		}
	}
}
