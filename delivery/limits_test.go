package delivery_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/journey"
	"waypost/store"
	"waypost/store/storetest"
	"waypost/webhook"
)

// Two journeys and 200 leads with a cap of one message a day, enrolled and sent at
// once by two processes: exactly one message per lead and day.
func TestFrequencyCapOverJourneys(t *testing.T) {
	t.Parallel()
	t.Run("sqlite", func(t *testing.T) {
		t.Parallel()
		capOverJourneys(t, "sqlite:"+filepath.Join(t.TempDir(), "waypost.db"))
	})
	t.Run("postgres", func(t *testing.T) {
		t.Parallel()
		capOverJourneys(t, storetest.PostgresURL(t))
	})
}

func capOverJourneys(t *testing.T, url string) {
	const leads, processes, days, chunk = 200, 2, 2, 50
	ctx := t.Context()
	var mu sync.Mutex
	got := map[string]int{} // messages by lead
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m waypost.Message
		if err := json.Unmarshal(body, &m); err != nil {
			t.Errorf("the receiver got no message: %s", body)
		}
		mu.Lock()
		got[m.UserProfile.AffID]++
		mu.Unlock()
		rw.WriteHeader(http.StatusOK)
	}))
	t.Cleanup(server.Close)
	_, _, err := store.Migrate(ctx, url)
	must(t, err)
	keys, now := storetest.Keys(t), &clock{}
	stores, workers := make([]*store.Store, processes), make([]*delivery.Engine, processes)
	for i := range processes {
		stores[i], err = store.Open(ctx, url, keys, now.now)
		must(t, err)
		t.Cleanup(func() { must(t, stores[i].Close()) })
		sender := webhook.NewSender(webhook.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Now: now.now})
		t.Cleanup(sender.Close)
		workers[i] = delivery.New(delivery.Options{Store: stores[i], Sender: sender, Log: slog.New(slog.DiscardHandler), Now: now.now, Stragglers: time.Minute})
		t.Cleanup(func() { must(t, workers[i].Close(context.Background())) })
	}
	hook, err := stores[0].CreateWebhook(ctx, scope, waypost.Webhook{Name: "crm", URL: server.URL, TimeoutMs: 60_000, Retry: waypost.DefaultRetry(), Enabled: true})
	must(t, err)
	def, problems := journey.Parse(fmt.Appendf(nil, `{"name":"J","start":"hello","frequencyCap":{"touchpoints":1,"per":"24h"},"nodes":[
		{"id":"hello","type":"touchpoint","webhook":%q,"next":"end"},{"id":"end","type":"exit"}]}`, hook.ID))
	must(t, problems.Err("definition"))
	journeys := make([]string, processes)
	for i := range journeys {
		j, err := stores[0].CreateJourney(ctx, scope, "J", def.Canonical())
		must(t, err)
		_, err = stores[0].PublishJourney(ctx, scope, j.ID, waypost.Publication{Name: "J", Hash: def.Hash(), Definition: def.Canonical(), Webhooks: def.Webhooks()})
		must(t, err)
		journeys[i] = j.ID
	}
	ids := make([]int64, leads)
	for i := range ids {
		lead, err := stores[0].CreateLead(ctx, scope, waypost.LeadFields{Name: "Ada"}, nil)
		must(t, err)
		ids[i] = lead.LeadsID
	}
	var skipped atomic.Int32
	// send enrolls all leads in a journey and sends the messages, as cohorts do.
	send := func(p, day int) error {
		order := slices.Clone(ids)
		if p%2 == 1 { // the other way round
			slices.Reverse(order)
		}
		var running sync.WaitGroup
		errs := make(chan error, 2*leads)
		for part := range slices.Chunk(order, chunk) {
			b := delivery.Batch{Scope: scope, JourneyID: journeys[p], Version: 1, NodeID: "hello", Coalesce: true}
			for _, lead := range part {
				e, err := stores[p].Enroll(ctx, scope, waypost.Enrollment{JourneyID: journeys[p], Version: 1, LeadsID: lead, EntryKey: fmt.Sprint(day)}, waypost.Reentry{})
				if err != nil {
					return err
				}
				state, effect, err := journey.Step(def, journey.State{}, journey.Input{Kind: journey.InputStart, At: now.now().UTC()})
				if err != nil {
					return err
				}
				b.Items = append(b.Items, delivery.Item{EnrollmentID: e.ID, LeadsID: lead, State: state, Unrecorded: effect.Entries, Unsent: true})
			}
			running.Go(func() {
				deliveries, err := run(workers[p], b)
				if err != nil {
					errs <- err
				}
				for _, d := range deliveries {
					switch {
					case d.Outcome == delivery.OutcomeSkipped && d.Reason == waypost.SkipFrequencyCap:
						skipped.Add(1)
					case d.Outcome != delivery.OutcomeDelivered:
						errs <- fmt.Errorf("lead %d: %s (%s)", d.LeadsID, d.Outcome, d.Reason)
					}
				}
			})
		}
		running.Wait()
		close(errs)
		return <-errs
	}
	for day := 1; day <= days; day++ {
		var running sync.WaitGroup
		for p := range processes {
			running.Go(func() {
				if err := send(p, day); err != nil {
					t.Error(err)
				}
			})
		}
		running.Wait()
		if len(got) != leads {
			t.Errorf("day %d: %d leads got a message", day, len(got))
		}
		for lead, n := range got {
			if n != day {
				t.Errorf("day %d: lead %s has got %d messages", day, lead, n)
			}
		}
		if n := int(skipped.Load()); n != leads*day {
			t.Errorf("day %d: %d skipped", day, n)
		}
		now.advance(24 * time.Hour)
	}
	list, err := stores[0].ListDeliveries(ctx, scope, waypost.DeliveryFilter{}, waypost.Page{Limit: 500})
	must(t, err)
	if len(list) != leads*days {
		t.Errorf("%d deliveries", len(list))
	}
	for _, d := range list {
		if d.Status != waypost.DeliverySucceeded {
			t.Errorf("%s is %s", d.MessageID, d.Status)
		}
	}
}

// counted counts what is asked of a store.
type counted struct {
	delivery.Store
	mu    sync.Mutex
	calls map[string]int
}

func (c *counted) count(name string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.calls == nil {
		c.calls = map[string]int{}
	}
	c.calls[name]++
}

func (c *counted) Controls(ctx context.Context, of waypost.ControlTargets) (map[string]waypost.Controls, error) {
	c.count("controls")
	return c.Store.Controls(ctx, of)
}

func (c *counted) LeadsByID(ctx context.Context, sc waypost.Scope, ids []int64) (map[int64]waypost.Lead, error) {
	c.count("leads")
	return c.Store.LeadsByID(ctx, sc, ids)
}

func (c *counted) SkipCapped(ctx context.Context, openings []delivery.Opening) (map[waypost.Touchpoint]delivery.Sending, error) {
	c.count("caps")
	return c.Store.SkipCapped(ctx, openings)
}

func (c *counted) RecordProgress(ctx context.Context, progress []waypost.Progress) error {
	c.count("progress")
	return c.Store.RecordProgress(ctx, progress)
}

// A journey without events to exit on, quiet hours and a cap asks the database for
// nothing that it did not ask for without them.
func TestNoLimitsCostNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	fails := atomic.Bool{}
	fails.Store(true)
	w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) {
		if fails.Load() {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	c := &counted{Store: w.store}
	a := w.process(c)
	w.deliverAll(a)
	if want := map[string]int{"controls": 1, "enrollments": 2, "leads": 1, "webhook": 1}; fmt.Sprint(c.calls) != fmt.Sprint(want) {
		t.Errorf("the first attempts asked %v, want %v", c.calls, want)
	}
	fails.Store(false)
	c.calls = nil
	w.clock.advance(time.Minute)
	w.deliverAll(a)
	if want := map[string]int{"controls": 1, "webhook": 1}; fmt.Sprint(c.calls) != fmt.Sprint(want) {
		t.Errorf("the second attempts asked %v, want %v", c.calls, want)
	}
}

// exitAtOpening has an event end an enrollment between the reading of the controls
// and the opening of its attempt.
type exitAtOpening struct {
	*store.Store
	lead int64
}

func (s exitAtOpening) OpenAttempts(ctx context.Context, openings []delivery.Opening) (map[waypost.Touchpoint]delivery.Sending, error) {
	if _, err := s.AcceptEvent(ctx, scope, waypost.Event{EventID: "e", Name: "bought", LeadsID: s.lead}); err != nil {
		return nil, err
	}
	return s.Store.OpenAttempts(ctx, openings)
}

// An event that comes right before the POST keeps it from being made, and the
// timeline tells where the enrollment stood.
func TestExitRightBeforePost(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, 1, `{"exitOn":[{"event":"bought"}],`+definition[1:])
	a := w.process(exitAtOpening{w.store, w.items[0].LeadsID})
	if got := fmt.Sprint(w.deliverAll(a)); got != "[underWay]" {
		t.Errorf("outcome %s", got)
	}
	for range 2 {
		if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[exited]" {
			t.Errorf("the next batch: %s", got)
		}
	}
	if n := w.totalPosts(); n != 0 {
		t.Errorf("%d POSTs", n)
	}
	_, entries, err := w.store.Enrollment(t.Context(), scope, w.items[0].EnrollmentID)
	must(t, err)
	var lines []string
	for _, e := range entries {
		lines = append(lines, e.NodeID+" "+e.What+" "+e.Reason)
	}
	if got := fmt.Sprintf("%q", lines); got != `["hello entered " "hello exited event bought"]` {
		t.Errorf("timeline %s", got)
	}
}

// A lead that has reached the cap takes no slot of the webhook, and is skipped even
// if its message cannot be made.
func TestCappedTakesNoSlot(t *testing.T) {
	t.Parallel()
	w := newWorldOf(t, 2, `{"frequencyCap":{"touchpoints":1,"per":"24h"},`+definition[1:])
	if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[delivered delivered]" {
		t.Fatal(got)
	}
	for i := range w.items { // another touchpoint of each
		w.items[i].State.Visit++
		w.items[i].State.Seq += 2
	}
	sender := webhook.NewSender(webhook.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Now: w.clock.now})
	t.Cleanup(sender.Close)
	admit := &noAdmission{}
	a := delivery.New(delivery.Options{Store: w.store, Sender: sender, Admission: admit, Log: slog.New(slog.DiscardHandler), Now: w.clock.now})
	t.Cleanup(func() { _ = a.Close(context.Background()) })
	if got := fmt.Sprint(w.deliverAll(a)); got != "[skipped skipped]" || admit.asked.Load() != 0 {
		t.Errorf("outcome %s, %d slots asked for", got, admit.asked.Load())
	}
}

// noAdmission admits none.
type noAdmission struct{ asked atomic.Int32 }

func (n *noAdmission) Admit(context.Context, waypost.Webhook, int) (int, string, time.Duration) {
	n.asked.Add(1)
	return 0, waypost.DeferRateLimit, time.Second
}

func (n *noAdmission) Done(string, int) {}

func (n *noAdmission) PostTime(string) time.Duration { return 0 }
