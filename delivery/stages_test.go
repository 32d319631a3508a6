package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// quietNow is a journey definition's quiet hours, which it is at that time.
func quietNow(at time.Time) string {
	at = at.UTC()
	return fmt.Sprintf(`"quietHours":{"from":%q,"to":%q,"timezone":"UTC"},`, at.Add(-time.Hour).Format("15:04"), at.Add(time.Hour).Format("15:04"))
}

// Where two stages would take an item out, the earlier one does, and the later one is not
// asked.
func TestStageOrder(t *testing.T) {
	t.Parallel()
	const capped = `"frequencyCap":{"touchpoints":1,"per":"24h"},`
	disable := func(w *world) { must(w.t, w.change(func(h *waypost.Webhook) { h.Enabled = false })) }
	pause := func(w *world) {
		_, err := w.store.PauseJourney(w.t.Context(), scope, w.version.JourneyID)
		must(w.t, err)
	}
	for name, tt := range map[string]struct {
		limits     string // of the journey
		reached    bool   // the cap is
		unreadable bool   // the message is stored, and cannot be read
		before     func(*world)
		passes     int
		want       string
	}{
		"paused, webhook disabled":     {before: func(w *world) { pause(w); disable(w) }, want: "deferred paused []"},
		"webhook disabled, unreadable": {unreadable: true, before: disable, want: "deferred webhookDisabled []"},
		"unreadable, quiet":            {limits: quietNow(time.Now()), unreadable: true, want: "deferred unreadable []"},
		"quiet, capped":                {limits: quietNow(time.Now()) + capped, reached: true, want: "deferred quietHours []"},
		"capped, breaker open":         {limits: capped, reached: true, want: "skipped frequencyCap []"},
		"breaker open, no slot":        {want: "deferred breakerOpen [pass 0 return 7]"},
		"no slot, not rendered":        {passes: 1, before: func(w *world) { w.items[0].State.Phase = "unknown" }, want: "deferred maxConcurrency [pass 1 admit 0 return 7]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, 1, "{"+tt.limits+definition[1:])
			if tt.reached { // by a message that another journey would have sent
				w.clock.advance(-12 * time.Hour)
				if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[delivered]" {
					t.Fatal(got)
				}
				w.clock.advance(12 * time.Hour)
				w.items[0].State.Visit++
				w.items[0].State.Seq += 2
			}
			if tt.unreadable {
				w.clock.advance(-12 * time.Hour)
				w.respond(http.StatusServiceUnavailable)
				if got := fmt.Sprint(w.deliverAll(w.process(w.open(secondKey)))); got != "[retrying]" {
					t.Fatal(got)
				}
				w.clock.advance(12 * time.Hour)
			}
			if tt.before != nil {
				tt.before(w)
			}
			if name == "no slot, not rendered" { // the timeline tells of it already
				w.items[0].Deferred = true
			}
			l := &ledger{passes: tt.passes}
			w.admit, w.circuits = ledgerAdmission{l}, ledgerBreakers{l}
			answers, err := w.deliver(w.process(nil))
			must(t, err)
			if got := fmt.Sprint(answers[0].Outcome, " ", answers[0].Reason, " ", l.notes); got != tt.want {
				t.Errorf("%s, want %s", got, tt.want)
			}
		})
	}
}

// Of several messages the half-open breaker is probed with the one of most attempts.
func TestProbeIsTheMessageOfMostAttempts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	all := w.items
	l := &ledger{passes: 3, slots: 3}
	w.circuits = ledgerBreakers{l}
	a := w.process(nil)
	w.respond(http.StatusServiceUnavailable)
	w.items = all[1:2]
	if got := fmt.Sprint(w.deliverAll(a)); got != "[retrying]" {
		t.Fatal(got)
	}
	w.clock.advance(time.Minute)
	w.respond(http.StatusOK)
	l.passes, w.items = 1, all
	if got := fmt.Sprint(w.deliverAll(a)); got != "[deferred delivered deferred]" {
		t.Errorf("outcomes %s", got)
	}
}

// A cohort's items that are held back come again at one time, but for those that wait for the
// breaker, which has given the batch a time.
func TestHeldBackComeTogether(t *testing.T) {
	t.Parallel()
	for reason, passes := range map[string]int{waypost.DeferBreaker: 0, waypost.DeferMaxConcurrency: 1} {
		t.Run(reason, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			at := time.Now().Truncate(time.Hour).Add(777 * time.Millisecond)
			w.clock.stopped.Store(&at)
			l := &ledger{passes: passes}
			w.admit, w.circuits = ledgerAdmission{l}, ledgerBreakers{l}
			answers, err := run(w.process(nil), delivery.Batch{
				Scope: scope, JourneyID: w.version.JourneyID, Version: 1, NodeID: "hello", Coalesce: true, Items: w.items,
			})
			must(t, err)
			d := answers[0]
			rounded := d.Next.Sub(d.At) != time.Second // that is what the ledger says
			if d.Reason != reason || rounded == (reason == waypost.DeferBreaker) || d.Next.Sub(d.At) < time.Second {
				t.Errorf("%s because of %s, for %s", d.Outcome, d.Reason, d.Next.Sub(d.At))
			}
		})
	}
}

// slowPosts is an Admission of a webhook that is known to be slow.
type slowPosts struct{ ledgerAdmission }

func (slowPosts) PostTime(string) time.Duration { return time.Minute }

// A local activity leaves several messages for a slow receiver to a regular one.
func TestLocalLeavesSlowReceiverToRegular(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	w.admit = slowPosts{ledgerAdmission{&ledger{slots: 2}}}
	a := w.process(nil)
	b := delivery.Batch{Scope: scope, JourneyID: w.version.JourneyID, Version: 1, NodeID: "hello", Items: w.items}
	answers, err := a.Deliver(t.Context(), delivery.Caller{WorkflowID: "wf", Local: true, FirstAttempt: true}, b)
	must(t, err)
	for _, d := range answers {
		if d.Outcome != delivery.OutcomeUnderWay || !d.Next.IsZero() {
			t.Errorf("the local activity answers %s until %s", d.Outcome, d.Next)
		}
	}
	if w.totalPosts() != 0 {
		t.Errorf("%d POSTs", w.totalPosts())
	}
	if got := fmt.Sprint(w.deliverAll(a)); got != "[delivered delivered]" {
		t.Errorf("the regular activity answers %s", got)
	}
}

// An item whose attempt another process made between the reading and the opening is
// answered with what came of that.
func TestRefusedAttemptIsAnsweredFromTheRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	other := w.process(nil)
	a := w.process(faulty{w.store, func(call string) error {
		if call == "OpenAttempts" {
			w.deliverAll(other)
		}
		return nil
	}})
	if got := fmt.Sprint(w.deliverAll(a)); got != "[delivered delivered]" || w.totalPosts() != 2 {
		t.Errorf("outcomes %s after %d POSTs", got, w.totalPosts())
	}
}

// The first batch of a workflow learns from the process what came of a message sent ahead.
// Each later batch reads what is recorded: another attempt may be due.
func TestEndOfWhatWasSentAheadIsToldOnce(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		joined, unsent bool // the first batch joins the POST; the last one looks like a first
		reads          int
	}{
		"the first batch comes late": {unsent: true, reads: 0},
		"a later batch":              {reads: 1},
		"the first batch joined":     {joined: true, unsent: true, reads: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			w.clock.stop()
			w.unsent, w.ahead = true, true
			reads, joined, answer := 0, make(chan struct{}), make(chan struct{})
			a := w.process(faulty{w.store, func(call string) error {
				if call == "SendingsOfRounds" {
					reads++
				}
				return nil
			}})
			w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) {
				<-answer
				rw.WriteHeader(http.StatusServiceUnavailable)
			})
			if !a.SendAhead(t.Context(), w.claimed(), false) {
				t.Fatal("it was not sent ahead")
			}
			first := make(chan error, 1)
			if tt.joined {
				joins := awaiting{t.Context(), sync.OnceFunc(func() { close(joined) })}
				go func() {
					answers, err := runIn(joins, a, w.batch())
					if err == nil && answers[0].Outcome != delivery.OutcomeRetrying {
						err = fmt.Errorf("outcome %s", answers[0].Outcome)
					}
					first <- err
				}()
				<-joined
			} else {
				first <- nil
			}
			close(answer)
			must(t, <-first)
			must(t, a.Close(t.Context())) // the flight has ended
			w.clock.advance(30 * time.Second)
			w.unsent = tt.unsent
			// One that reads makes another POST, which cannot be recorded any more.
			answers, err := w.deliver(a)
			if tt.reads == 0 && (err != nil || answers[0].Outcome != delivery.OutcomeRetrying) {
				t.Errorf("%+v, %v", answers, err)
			}
			if reads != tt.reads || w.totalPosts() != 1+tt.reads {
				t.Errorf("%d reads and %d POSTs, want %d and %d", reads, w.totalPosts(), tt.reads, 1+tt.reads)
			}
		})
	}
}

// A touchpoint that was entered long ago is looked for, even by what looks like a first run.
func TestOldFirstRunReads(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	reads := 0
	a := w.process(faulty{w.store, func(call string) error {
		if call == "SendingsOfRounds" {
			reads++
		}
		return nil
	}})
	w.items[0].Unsent, w.items[0].Since = true, w.clock.now().Add(-2*time.Minute)
	if got := fmt.Sprint(w.deliverAll(a)); got != "[delivered]" || reads != 1 {
		t.Errorf("outcome %s after %d reads", got, reads)
	}
}

// A webhook that has got a limit since it was read last gets nothing ahead.
func TestNewLimitKeepsFromSendingAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	all := w.items
	a := w.process(nil)
	w.items = all[:1]
	if !a.SendAhead(t.Context(), w.claimed(), false) {
		t.Fatal("it was not sent ahead")
	}
	w.clock.advance(time.Second)
	must(t, w.change(func(h *waypost.Webhook) { h.MaxConcurrency = 1 }))
	w.items = all[1:]
	if a.SendAhead(t.Context(), w.claimed(), false) {
		t.Error("it was sent ahead")
	}
}

// An event that ends an enrollment during its last POST is told beside the outcome.
func TestExitDuringTheLastPost(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, 2, `{"exitOn":[{"event":"bought"}],`+definition[1:])
	w.answer(func(_ http.ResponseWriter, _ *http.Request, id string) {
		if id == "ext-0" {
			_, err := w.store.AcceptEvent(t.Context(), scope, waypost.Event{EventID: "e", Name: "bought", LeadsID: w.items[0].LeadsID})
			if err != nil {
				t.Error(err)
			}
		}
	})
	answers, err := w.deliver(w.process(nil))
	must(t, err)
	for i, d := range answers {
		if d.Outcome != delivery.OutcomeDelivered || d.Exited != (i == 0) {
			t.Errorf("%s, exited %t", d.Outcome, d.Exited)
		}
	}
}

// An item of a redelivery whose delivery was dropped is canceled: there is nothing to send.
// Nor is there anything to record when its webhook was deleted as well.
func TestRedeliveryOfADroppedMessage(t *testing.T) {
	t.Parallel()
	w := givenUp(t, 1)
	items, _ := w.again(false)
	items[0].State.Visit++ // of which there is no delivery
	w.respond(http.StatusOK)
	a, posts := w.process(nil), w.totalPosts()
	for _, webhookID := range []string{w.webhookID, "whk_deleted"} {
		answers, err := a.Redeliver(t.Context(), caller, delivery.Batch{Scope: scope, WebhookID: webhookID, Items: items})
		must(t, err)
		if answers[0].Outcome != delivery.OutcomeCanceled || w.totalPosts() != posts {
			t.Errorf("outcome %s, %d POSTs", answers[0].Outcome, w.totalPosts()-posts)
		}
	}
}

// panickingOnce is a sender with a bug that is met once.
type panickingOnce struct {
	delivery.Sender
	once sync.Once
}

func (p *panickingOnce) Send(ctx context.Context, hook waypost.Webhook, messageID string, body []byte) waypost.Outcome {
	p.once.Do(func() { panic("a bug") })
	return waypost.Outcome{Succeed: true, HTTPStatus: http.StatusOK, At: time.Now()}
}

// A process knows that an attempt of its own without a flight was cut off, and goes on at
// once.
func TestOwnAbandonedAttemptIsFollowedAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	a := delivery.New(delivery.Options{Store: w.store, Sender: &panickingOnce{}, Log: slog.New(slog.DiscardHandler), Now: w.clock.now})
	t.Cleanup(func() { must(t, a.Close(context.Background())) })
	if _, err := w.deliver(a); err == nil {
		t.Error("no error")
	}
	if got := fmt.Sprint(w.deliverAll(a)); got != "[delivered]" {
		t.Errorf("outcome %s", got)
	}
	if _, attempts := w.attempts(0); len(attempts) != 2 || attempts[0].ErrorClass != waypost.ClassInterrupted {
		t.Errorf("attempts %+v", attempts)
	}
}

// An item that waits for nobody knows how long is looked at more and more seldom.
func TestRecheckGoesByTheWholeWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.clock.stop()
	must(t, w.change(func(h *waypost.Webhook) { h.Enabled = false }))
	a := w.process(nil)
	for _, tt := range []struct{ waited, want time.Duration }{
		{0, 15 * time.Second}, {20 * time.Minute, 5 * time.Minute}, {time.Hour, 10 * time.Minute},
	} {
		w.clock.advance(tt.waited)
		answers, err := w.deliver(a)
		must(t, err)
		if wait := answers[0].Next.Sub(answers[0].At); wait != tt.want {
			t.Errorf("after %s more it is looked at in %s, want %s", tt.waited, wait, tt.want)
		}
	}
}

// The timeline tells of quiet hours, once, even of a message that was held back before.
func TestQuietHoursOfADeferredMessage(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, 1, "{"+quietNow(time.Now())+definition[1:])
	quiet := func() (n int) {
		t.Helper()
		if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[deferred]" {
			t.Fatal(got)
		}
		_, entries, err := w.store.Enrollment(t.Context(), scope, w.items[0].EnrollmentID)
		must(t, err)
		for _, e := range entries {
			if e.Reason == waypost.DeferQuietHours {
				n++
			}
		}
		return n
	}
	w.items[0].Deferred = true
	if n := quiet(); n != 1 {
		t.Errorf("the timeline tells of it %d times", n)
	}
	w.items[0].Quiet = true
	if n := quiet(); n != 1 {
		t.Errorf("then the timeline tells of it %d times", n)
	}
}

// A local activity does not wait for a retry that is due in a second; a regular one does.
func TestLocalWaitsForNoRetry(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.clock.stop()
	w.respond(http.StatusServiceUnavailable)
	a := w.process(nil)
	b := delivery.Batch{Scope: scope, JourneyID: w.version.JourneyID, Version: 1, NodeID: "hello", Items: w.items}
	answers, err := run(a, b)
	must(t, err)
	w.respond(http.StatusOK)
	w.clock.advance(answers[0].Next.Sub(w.clock.now()) - time.Second)
	for _, tt := range []struct {
		local bool
		want  string
	}{{true, delivery.OutcomeRetrying}, {false, delivery.OutcomeDelivered}} {
		answers, err := a.Deliver(t.Context(), delivery.Caller{WorkflowID: "wf", Local: tt.local}, b)
		must(t, err)
		if answers[0].Outcome != tt.want {
			t.Errorf("local %t: %s, want %s", tt.local, answers[0].Outcome, tt.want)
		}
	}
}
