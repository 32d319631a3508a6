package delivery_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/limits"
)

// claimed are the world's enrollments, as a pump claims them.
func (w *world) claimed() waypost.Cohort {
	c := waypost.Cohort{Version: w.version}
	for _, item := range w.items {
		c.Members = append(c.Members, waypost.CohortMember{EnrollmentID: item.EnrollmentID, LeadsID: item.LeadsID})
	}
	return c
}

// What is sent ahead of a workflow is sent once and answered for once, whenever the
// workflow's batch comes, and wherever.
func TestSendAhead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		leads     int
		lands     bool               // before the workflow's batch
		then      func(*world) error // if it has
		elsewhere bool               // the batch runs in another process
		status    int
		want      string
	}{
		"under way":                  {1, false, nil, false, http.StatusOK, "[delivered]"},
		"landed":                     {1, true, nil, false, http.StatusOK, "[delivered]"},
		"landed, batch elsewhere":    {1, true, nil, true, http.StatusOK, "[delivered]"},
		"under way, batch elsewhere": {1, false, nil, true, http.StatusOK, "[underWay]"},
		"failed":                     {1, true, nil, false, http.StatusServiceUnavailable, "[retrying]"},
		"failed, batch elsewhere":    {1, true, nil, true, http.StatusServiceUnavailable, "[retrying]"},
		"refused for good":           {1, true, nil, false, http.StatusBadRequest, "[failed]"},
		"several":                    {3, false, nil, false, http.StatusOK, "[delivered delivered delivered]"},
		"disabled since, batch elsewhere": {1, true, func(w *world) error {
			return w.change(func(hook *waypost.Webhook) { hook.Enabled = false })
		}, true, http.StatusOK, "[delivered]"},
		"paused since, batch elsewhere": {1, true, func(w *world) error {
			_, err := w.store.PauseJourney(t.Context(), scope, w.version.JourneyID)
			return err
		}, true, http.StatusOK, "[delivered]"},
		"several, landed": {3, true, nil, true, http.StatusOK, "[delivered delivered delivered]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, tt.leads)
			w.clock.stop() // nothing becomes due
			w.unsent = true
			answer := make(chan struct{})
			w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) {
				<-answer
				rw.WriteHeader(tt.status)
			})
			a := w.process(nil)
			if w.ahead = a.SendAhead(t.Context(), w.claimed(), false); !w.ahead {
				t.Fatal("it was not sent ahead")
			}
			other := a
			if tt.elsewhere {
				other = w.process(nil)
			}
			if tt.lands {
				close(answer)
				for i := range w.items {
					w.awaitOutcome(i)
				}
				if tt.then != nil {
					must(t, tt.then(w))
				}
			} else if !tt.elsewhere {
				time.AfterFunc(50*time.Millisecond, func() { close(answer) })
			}
			if got := fmt.Sprint(w.deliverAll(other)); got != tt.want {
				t.Errorf("the workflow learns %s, want %s", got, tt.want)
			}
			if !tt.lands && tt.elsewhere {
				close(answer)
				w.awaitOutcome(0)
			}
			if n := w.totalPosts(); n != tt.leads {
				t.Fatalf("%d POSTs, want %d", n, tt.leads)
			}
			// From then on it is any touchpoint, in whatever process.
			w.unsent = false
			w.deliverAll(a) // waits for a POST that it has not forgotten yet
			w.clock.advance(time.Minute)
			w.answer(func(http.ResponseWriter, *http.Request, string) {})
			posts := w.totalPosts()
			if tt.status == http.StatusServiceUnavailable {
				posts++
			}
			want := "[delivered]"
			switch {
			case tt.status == http.StatusBadRequest:
				want = "[failed]"
			case tt.leads > 1:
				want = tt.want
			}
			if got := fmt.Sprint(w.deliverAll(a)); got != want || w.totalPosts() != posts {
				t.Errorf("the next batch learns %s of %d POSTs, want %s of %d", got, w.totalPosts(), want, posts)
			}
			for i := range w.items {
				if d, attempts := w.attempts(i); d.Attempts != len(attempts) || len(attempts) != posts/tt.leads {
					t.Errorf("%d attempts are recorded, %d listed of %d", d.Attempts, len(attempts), posts/tt.leads)
				}
				e, timeline, err := w.store.Enrollment(t.Context(), scope, w.items[i].EnrollmentID)
				must(t, err)
				// A pause in the very millisecond of its end is told as well, without a number.
				recorded := slices.DeleteFunc(timeline, func(e waypost.TimelineEntry) bool { return e.Seq == 0 })
				if e.Status != waypost.EnrollmentCompleted || len(recorded) != 3 {
					t.Errorf("the enrollment is %s by way of %+v", e.Status, recorded)
				}
			}
		})
	}
}

// A workflow whose journey begins with a delay is in no hurry; one that waits for an event is,
// as events count from its start on. Nothing is sent of either.
func TestBeginsWithAWait(t *testing.T) {
	t.Parallel()
	for name, node := range map[string]string{
		"delay": `{"id":"first","type":"delay","for":"1h","next":"hello"}`,
		"event": `{"id":"first","type":"waitForEvent","event":"bought","timeout":"1h","next":"hello","onTimeout":"hello"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorldOf(t, 1, `{"name":"Wait","start":"first","nodes":[`+node+`,{"id":"hello","type":"touchpoint","webhook":%q}]}`)
			if canWait := w.process(nil).SendAhead(t.Context(), w.claimed(), false); canWait != (name == "delay") {
				t.Errorf("the workflow can wait: %t", canWait)
			}
			if w.totalPosts() > 0 {
				t.Errorf("%d POSTs", w.totalPosts())
			}
		})
	}
}

// awaitOutcome waits until an attempt of the item is recorded.
func (w *world) awaitOutcome(i int) {
	w.t.Helper()
	for {
		if d, _ := w.attempts(i); d.Attempts > 0 {
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// A panic in an attempt that was sent ahead fails its workflow's batch, which looks then.
func TestPanicAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.unsent = true
	a := delivery.New(delivery.Options{Store: w.store, Sender: panicking{}, Log: slog.New(slog.DiscardHandler), Now: w.clock.now})
	t.Cleanup(func() { must(t, a.Close(context.Background())) })
	if w.ahead = a.SendAhead(t.Context(), w.claimed(), false); !w.ahead {
		t.Fatal("it was not sent ahead")
	}
	if got, err := w.deliver(a); err == nil {
		t.Errorf("the workflow learns %v", got)
	}
	w.unsent = false
	w.clock.advance(cutOff)
	if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[delivered]" {
		t.Errorf("the workflow learns %s", got)
	}
	if _, attempts := w.attempts(0); len(attempts) != 2 || attempts[0].ErrorClass != waypost.ClassInterrupted {
		t.Errorf("the attempts are %+v", attempts)
	}
}

// Where there is more to it than to send, nothing is sent ahead and nothing written: the
// workflow finds everything as if nobody had tried.
func TestNotAhead(t *testing.T) {
	t.Parallel()
	const touchpoint = `,"start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%q}]}`
	now := time.Now().UTC()
	quiet := fmt.Sprintf(`{"name":"Quiet","quietHours":{"from":%q,"to":%q,"timezone":"UTC"}`, now.Add(-time.Hour).Format("15:04"), now.Add(time.Hour).Format("15:04")) + touchpoint
	change := func(change func(*waypost.Webhook)) func(*world) error {
		return func(w *world) error { return w.change(change) }
	}
	for name, tt := range map[string]struct {
		definition string // the simplest if it is empty
		before     func(*world) error
		breaker    bool // is open
		shut       bool // nobody is admitted
		panics     bool
		want       string // what the workflow's batch comes to
	}{
		"paused": {before: func(w *world) error {
			_, err := w.store.PauseEnrollment(t.Context(), scope, w.items[0].EnrollmentID)
			return err
		}, want: "[deferred]"},
		"the journey is paused": {before: func(w *world) error {
			_, err := w.store.PauseJourney(t.Context(), scope, w.version.JourneyID)
			return err
		}, want: "[deferred]"},
		"canceled": {before: func(w *world) error {
			_, err := w.store.CancelEnrollment(t.Context(), scope, w.items[0].EnrollmentID)
			return err
		}, want: "[canceled]"},
		"the webhook is disabled": {before: change(func(hook *waypost.Webhook) { hook.Enabled = false }), want: "[deferred]"},
		"quiet hours":             {definition: quiet, want: "[deferred]"},
		"a frequency cap":         {definition: `{"name":"Cap","frequencyCap":{"touchpoints":1,"per":"24h"}` + touchpoint, want: "[delivered]"},
		"the breaker is open":     {breaker: true, want: "[deferred]"},
		"a rate limit":            {before: change(func(hook *waypost.Webhook) { hook.RateLimit = &waypost.RateLimit{PerSecond: 1, Burst: 1} }), want: "[delivered]"},
		"a bound of its own":      {before: change(func(hook *waypost.Webhook) { hook.MaxConcurrency = 1 }), want: "[delivered]"},
		"no place":                {shut: true, want: "[deferred]"},
		"a panic":                 {panics: true, want: "[delivered]"},
		"the message cannot be made": {definition: `{"name":"Bad","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%q,"params":{"n":"{{ 1 | divided_by: lead.customFields.none }}"}}]}`,
			want: "[failed]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.definition == "" {
				tt.definition = definition
			}
			w := newWorldOf(t, 1, tt.definition)
			w.unsent = true
			if tt.before != nil {
				must(t, tt.before(w))
			}
			breakers := limits.NewBreakers(nil, slog.New(slog.DiscardHandler), w.clock.now)
			if tt.breaker {
				hook, err := w.store.Webhook(t.Context(), scope, w.webhookID)
				must(t, err)
				for range 100 {
					breakers.Failed(t.Context(), hook.Circuit(), 0, true, false, 0)
				}
			}
			w.admit, w.circuits = &shut{open: !tt.shut}, breakers
			var db delivery.Store = w.store
			if tt.panics {
				db = &bugged{Store: w.store}
			}
			a := w.process(db)
			if a.SendAhead(t.Context(), w.claimed(), false) {
				t.Error("it was sent ahead")
			}
			list, err := w.store.ListDeliveries(t.Context(), scope, waypost.DeliveryFilter{EnrollmentID: w.items[0].EnrollmentID}, waypost.Page{Limit: 2})
			must(t, err)
			if len(list) > 0 || w.totalPosts() > 0 {
				t.Errorf("%d POSTs, %d deliveries before the workflow", w.totalPosts(), len(list))
			}
			if got := fmt.Sprint(w.deliverAll(a)); got != tt.want {
				t.Errorf("the workflow learns %s, want %s", got, tt.want)
			}
		})
	}
}
