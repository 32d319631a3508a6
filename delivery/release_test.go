package delivery_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

	"waypost"
	"waypost/delivery"
	"waypost/store"
)

// faulty is a store in which something happens before a call: an error, or a panic.
type faulty struct {
	*store.Store
	before func(call string) error
}

func (s faulty) SendingsOfRounds(ctx context.Context, rounds []waypost.Round) (map[waypost.Touchpoint]delivery.Sending, error) {
	if err := s.before("SendingsOfRounds"); err != nil {
		return nil, err
	}
	return s.Store.SendingsOfRounds(ctx, rounds)
}

func (s faulty) Briefing(ctx context.Context, sc waypost.Scope, webhookID string, of waypost.ControlTargets) (delivery.Briefing, error) {
	if err := s.before("Briefing"); err != nil {
		return delivery.Briefing{}, err
	}
	return s.Store.Briefing(ctx, sc, webhookID, of)
}

func (s faulty) LeadsByID(ctx context.Context, sc waypost.Scope, ids []int64) (map[int64]waypost.Lead, error) {
	if err := s.before("LeadsByID"); err != nil {
		return nil, err
	}
	return s.Store.LeadsByID(ctx, sc, ids)
}

func (s faulty) RecordDeferrals(ctx context.Context, deferrals []delivery.Deferral) error {
	if err := s.before("RecordDeferrals"); err != nil {
		return err
	}
	return s.Store.RecordDeferrals(ctx, deferrals)
}

func (s faulty) RecordAttempts(ctx context.Context, records []delivery.AttemptRecord) error {
	if err := s.before("RecordAttempts"); err != nil {
		return err
	}
	return s.Store.RecordAttempts(ctx, records)
}

func (s faulty) OpenAttempts(ctx context.Context, openings []delivery.Opening) (map[waypost.Touchpoint]delivery.Sending, error) {
	if err := s.before("OpenAttempts"); err != nil {
		return nil, err
	}
	return s.Store.OpenAttempts(ctx, openings)
}

// A run that has joined the flights of another one gets an error if that panics, wherever
// it does: the messages were not sent.
func TestPanicIsNoAnswerForOthers(t *testing.T) {
	t.Parallel()
	for _, call := range []string{"SendingsOfRounds", "Briefing", "OpenAttempts"} {
		t.Run(call, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 2)
			w.unsent = call != "SendingsOfRounds"
			claimed, joined := make(chan struct{}), make(chan struct{})
			var once sync.Once
			a := w.process(faulty{w.store, func(c string) error {
				if c == call {
					once.Do(func() {
						close(claimed)
						<-joined
						panic("a bug")
					})
				}
				return nil
			}})
			first := make(chan error, 1)
			go func() { _, err := w.deliver(a); first <- err }()
			<-claimed
			joins := awaiting{t.Context(), sync.OnceFunc(func() { close(joined) })}
			if got, err := runIn(joins, a, w.batch()); err == nil {
				t.Errorf("the run that has joined answers %+v", got)
			}
			if err := <-first; err == nil {
				t.Error("the run that panicked has answered")
			}
		})
	}
}

// ledger is an Admission and the Breakers of a process that notes what is taken and given
// back, in order.
type ledger struct {
	mu     sync.Mutex
	notes  []string
	passes int // POSTs that the breaker admits at a time
	slots  int // POSTs that the webhook admits at a time
}

func (l *ledger) note(format string, args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.notes = append(l.notes, fmt.Sprintf(format, args...))
}

type ledgerAdmission struct{ *ledger }

func (l ledgerAdmission) Admit(_ context.Context, _ waypost.Webhook, n int) (int, string, time.Duration) {
	granted := min(n, l.slots)
	l.note("admit %d", granted)
	return granted, waypost.DeferMaxConcurrency, time.Second
}
func (l ledgerAdmission) Done(_ string, n int)          { l.note("done %d", n) }
func (l ledgerAdmission) PostTime(string) time.Duration { return 0 }

type ledgerBreakers struct{ *ledger }

const ticket = 7

func (l ledgerBreakers) Admit(_ context.Context, _ string, n int, _ time.Duration) (int, int64, time.Duration) {
	granted := min(n, l.passes)
	l.note("pass %d", granted)
	return granted, ticket, time.Second
}
func (l ledgerBreakers) Return(_ context.Context, _ string, t int64) { l.note("return %d", t) }
func (l ledgerBreakers) Failed(_ context.Context, _ string, t int64, _, _ bool, _ time.Duration) {
	l.note("failed %d", t)
}
func (l ledgerBreakers) Alive(_ context.Context, _ string, t int64, _ bool) func(context.Context) {
	l.note("alive %d", t)
	return nil
}
func (ledgerBreakers) Holds(context.Context, string) bool { return true }
func (ledgerBreakers) OpenSince(string) time.Time         { return time.Time{} }

// Whatever a batch comes to, each POST that was admitted gives its slot back once, and a
// batch without POSTs gives the breaker's ticket back once. Of a batch with POSTs each one
// reports to the breaker instead.
func TestWhatIsTakenIsGivenBack(t *testing.T) {
	t.Parallel()
	const bad = `{"name":"Bad","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%q,"params":{"n":"{{ 1 | divided_by: lead.customFields.none }}"}}]}`
	capped := `{"frequencyCap":{"touchpoints":1,"per":"24h"},` + definition[1:]
	at := func(call string, do func(w *world) error) func(*world, string) error {
		return func(w *world, c string) error {
			if c == call {
				return do(w)
			}
			return nil
		}
	}
	fails := func(call string) func(*world, string) error {
		return at(call, func(*world) error { return errors.New("refused") })
	}
	panics := func(call string) func(*world, string) error {
		return at(call, func(*world) error { panic("a bug") })
	}
	cancels := func(n int) func(*world, string) error {
		return at("OpenAttempts", func(w *world) error {
			for _, item := range w.items[:n] {
				if _, err := w.store.CancelEnrollment(context.Background(), scope, item.EnrollmentID); err != nil {
					return err
				}
			}
			return nil
		})
	}
	caps := at("OpenAttempts", func(w *world) error {
		earlier := &world{t: w.t, version: w.version, items: slices.Clone(w.items)}
		for i := range earlier.items { // another touchpoint of each
			earlier.items[i].State.Visit++
			earlier.items[i].State.Seq += 2
		}
		w.admit, w.circuits = nil, nil
		if got := fmt.Sprint(earlier.deliverAll(w.process(nil))); got != "[delivered delivered]" {
			return errors.New(got)
		}
		return nil
	})
	for name, tt := range map[string]struct {
		definition    string // the simplest if it is empty
		passes, slots int    // 2 if zero, none if negative
		store         func(w *world, call string) error
		before        func(w *world)
		outcomes      string // "" for an error
		want          string
	}{
		"sent":                                   {outcomes: "[delivered delivered]", want: "pass 2, admit 2, alive 7, alive 7, done 1, done 1"},
		"the receiver is down":                   {before: func(w *world) { w.answer(hangUp) }, outcomes: "[retrying retrying]", want: "pass 2, admit 2, done 1, done 1, failed 7, failed 7"},
		"the webhook is disabled":                {before: func(w *world) { must(w.t, w.change(func(h *waypost.Webhook) { h.Enabled = false })) }, outcomes: "[deferred deferred]"},
		"the breaker is open":                    {passes: -1, outcomes: "[deferred deferred]", want: "pass 0, return 7"},
		"the breaker is half-open":               {passes: 1, outcomes: "[delivered deferred]", want: "pass 1, admit 1, alive 7, done 1"},
		"deferrals by the breaker are lost":      {passes: 1, store: fails("RecordDeferrals"), want: "pass 1, return 7"},
		"a panic in the breaker's stage":         {passes: 1, store: panics("RecordDeferrals"), want: "pass 1, return 7"},
		"no slot":                                {slots: -1, outcomes: "[deferred deferred]", want: "pass 2, admit 0, return 7"},
		"one slot":                               {slots: 1, outcomes: "[delivered deferred]", want: "pass 2, admit 1, alive 7, done 1"},
		"deferrals by admission are lost":        {slots: 1, store: fails("RecordDeferrals"), want: "pass 2, admit 1, done 1, return 7"},
		"a panic in admission's stage":           {slots: 1, store: panics("RecordDeferrals"), want: "pass 2, admit 1, done 1, return 7"},
		"a state of another build":               {before: func(w *world) { w.items[1].State.Phase = "unknown" }, want: "pass 2, admit 2, done 2, return 7"},
		"leads cannot be read":                   {store: fails("LeadsByID"), want: "pass 2, admit 2, done 2, return 7"},
		"messages cannot be made":                {definition: bad, outcomes: "[failed failed]", want: "pass 2, admit 2, done 2, return 7"},
		"failures cannot be recorded":            {definition: bad, store: fails("RecordAttempts"), want: "pass 2, admit 2, done 2, return 7"},
		"attempts cannot be opened":              {store: fails("OpenAttempts"), want: "pass 2, admit 2, done 2, return 7"},
		"a panic when attempts are opened":       {store: panics("OpenAttempts"), want: "pass 2, admit 2, done 2, return 7"},
		"one is canceled when it is opened":      {store: cancels(1), want: "pass 2, admit 2, alive 7, done 1, done 1", outcomes: "[underWay delivered]"},
		"both are canceled when they are opened": {store: cancels(2), want: "pass 2, admit 2, done 2, return 7", outcomes: "[underWay underWay]"},
		"both are capped when they are opened":   {store: caps, definition: capped, want: "pass 2, admit 2, done 2, return 7", outcomes: "[skipped skipped]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tt.definition == "" {
				tt.definition = definition
			}
			l := &ledger{passes: 2, slots: 2}
			if tt.passes != 0 {
				l.passes = max(tt.passes, 0)
			}
			if tt.slots != 0 {
				l.slots = max(tt.slots, 0)
			}
			w := newWorldOf(t, 2, tt.definition)
			w.clock.stop()
			if tt.before != nil {
				tt.before(w)
			}
			db := delivery.Store(w.store)
			if tt.store != nil {
				db = faulty{w.store, func(call string) error { return tt.store(w, call) }}
			}
			w.admit, w.circuits = ledgerAdmission{l}, ledgerBreakers{l}
			a := w.process(db)
			answers, err := w.deliver(a)
			var outcomes []string
			for _, d := range answers {
				outcomes = append(outcomes, d.Outcome)
			}
			if got := fmt.Sprint(outcomes); err == nil && got != tt.outcomes || err != nil && tt.outcomes != "" {
				t.Errorf("outcomes %s, %v, want %s", got, err, tt.outcomes)
			}
			must(t, a.Close(t.Context()))
			// What POSTs note of themselves comes in any order.
			begun := slices.IndexFunc(l.notes, func(note string) bool { return strings.HasPrefix(note, "admit") }) + 1
			if strings.Contains(tt.want, "7, done") || strings.Contains(tt.want, "failed") {
				slices.Sort(l.notes[begun:])
			}
			if got := strings.Join(l.notes, ", "); got != tt.want {
				t.Errorf("%s\nwant %s", got, tt.want)
			}
		})
	}
}

// returning has whoever gives a breaker's ticket back wait.
type returning struct {
	ledgerBreakers
	waiting atomic.Int32
	free    chan struct{}
}

func (r *returning) Return(context.Context, string, int64) {
	r.waiting.Add(1)
	<-r.free
}

// A batch keeps its slot to open attempts until it has given back what it took: the next
// one would not be admitted.
func TestOpeningSlotIsKeptUntilTheRestIsGivenBack(t *testing.T) {
	t.Parallel()
	slots := 2 * runtime.GOMAXPROCS(0)
	w := newWorld(t, 2*slots+2)
	all := w.items
	for i := range all[:2*slots] {
		all[i].State.Phase = "unknown" // of another build: it fails late
	}
	r := &returning{ledgerBreakers: ledgerBreakers{&ledger{passes: 2}}, free: make(chan struct{})}
	w.circuits = r
	a := w.process(nil)
	batch := func(items []delivery.Item) delivery.Batch {
		return delivery.Batch{Scope: scope, JourneyID: w.version.JourneyID, Version: 1, NodeID: "hello", Items: items}
	}
	var failing sync.WaitGroup
	for items := range slices.Chunk(all[:2*slots], 2) {
		failing.Go(func() {
			if _, err := run(a, batch(items)); err == nil {
				t.Error("no error")
			}
		})
	}
	for int(r.waiting.Load()) < slots {
		time.Sleep(time.Millisecond)
	}
	local := delivery.Caller{WorkflowID: "wf", Local: true, FirstAttempt: true}
	answers, err := a.Deliver(t.Context(), local, batch(all[2*slots:]))
	must(t, err)
	for _, d := range answers {
		if d.Outcome != delivery.OutcomeUnderWay || !d.Next.IsZero() {
			t.Errorf("%s until %s, though all slots are taken", d.Outcome, d.Next)
		}
	}
	if n := w.totalPosts(); n != 0 {
		t.Errorf("%d POSTs, though all slots are taken", n)
	}
	close(r.free)
	failing.Wait()
}

// remembering notes, without keeping them, the messages that are read.
type remembering struct {
	*store.Store
	mu     sync.Mutex
	bodies map[waypost.Touchpoint]weak.Pointer[byte]
}

func (s *remembering) SendingsOfRounds(ctx context.Context, rounds []waypost.Round) (map[waypost.Touchpoint]delivery.Sending, error) {
	sendings, err := s.Store.SendingsOfRounds(ctx, rounds)
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, sending := range sendings {
		if len(sending.Body) > 0 {
			s.bodies[key] = weak.Make(&sending.Body[0])
		}
	}
	return sendings, err
}

// A POST that takes long keeps its own message in memory, not those of its batch.
func TestStragglerKeepsNoOtherMessages(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	w.respond(http.StatusServiceUnavailable)
	s := &remembering{Store: w.store, bodies: map[waypost.Touchpoint]weak.Pointer[byte]{}}
	w.stragglers = 300 * time.Millisecond
	a := w.process(s)
	w.deliverLate(a, 0)
	hang := make(chan struct{})
	w.answer(func(_ http.ResponseWriter, _ *http.Request, id string) {
		if id == "ext-1" {
			<-hang
		}
	})
	w.clock.advance(time.Minute)
	w.deliverLate(a, 1)
	runtime.GC()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.bodies) != len(w.items) {
		t.Fatalf("%d messages were read", len(s.bodies))
	}
	kept := 0
	for _, body := range s.bodies {
		if body.Value() != nil {
			kept++
		}
	}
	if kept > 1 {
		t.Errorf("%d messages of %d are kept in memory for one POST", kept, len(s.bodies))
	}
	close(hang)
}
