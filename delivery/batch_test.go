package delivery_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
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

var scope = waypost.Scope{Org: "acme", Stage: waypost.StageTest}

const definition = `{"name":"Welcome","start":"hello","nodes":[
	{"id":"hello","type":"touchpoint","webhook":%q,"next":"end"},
	{"id":"end","type":"exit"}]}`

// world is a database with a published journey, some enrollments at its
// touchpoint, and a receiver.
type world struct {
	t         *testing.T
	url       string // of the database
	store     *store.Store
	clock     *clock
	version   waypost.JourneyVersion
	items     []delivery.Item
	webhookID string
	unsent    bool     // its batches are the first ones of their items
	ahead     bool     // and those may have been sent ahead
	posts     sync.Map // message id → *atomic.Int32
	handle    atomic.Value
	// stragglers is how long a process's batches wait for slow receivers, a minute if zero.
	stragglers time.Duration
	// of its processes
	admit    delivery.Admission
	circuits delivery.Breakers
}

// clock is the time that the store, the sender and the activities go by. Once it is
// stopped it moves only when it is told to.
type clock struct {
	ahead   atomic.Int64
	stopped atomic.Pointer[time.Time]
}

func (c *clock) now() time.Time {
	at := time.Now()
	if s := c.stopped.Load(); s != nil {
		at = *s
	}
	return at.Add(time.Duration(c.ahead.Load()))
}

// cutOff is how long after it began an attempt counts as cut off whose process says
// nothing: the time-out of a world's webhook, the grace for whoever records it, and a
// second.
const cutOff = 71 * time.Second

func (c *clock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

func (c *clock) stop() {
	at := time.Now()
	c.stopped.Store(&at)
}

func newWorld(t *testing.T, leads int) *world {
	t.Helper()
	return newWorldOf(t, leads, definition)
}

// newWorldOf is newWorld with a journey of one's own: %q is the webhook, and it
// begins with the touchpoint hello.
func newWorldOf(t *testing.T, leads int, definition string) *world {
	t.Helper()
	ctx := context.Background()
	w := &world{t: t, clock: &clock{}, url: storetest.SQLiteURL(t)}
	w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) { rw.WriteHeader(http.StatusOK) })
	server := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var m waypost.Message
		if err := json.Unmarshal(body, &m); err != nil {
			t.Errorf("the receiver got no message: %s", body)
		}
		n, _ := w.posts.LoadOrStore(m.MessageID, new(atomic.Int32))
		n.(*atomic.Int32).Add(1)
		w.handle.Load().(func(http.ResponseWriter, *http.Request, string))(rw, r, m.UserProfile.UserID)
	}))
	t.Cleanup(server.Close)

	w.store = w.open(firstKey)
	hook, err := w.store.CreateWebhook(ctx, scope, waypost.Webhook{
		Name: "crm", URL: server.URL, TimeoutMs: 60_000, Retry: waypost.DefaultRetry(), Enabled: true,
	})
	must(t, err)
	w.webhookID = hook.ID
	def, problems := journey.Parse(fmt.Appendf(nil, definition, hook.ID))
	must(t, problems.Err("definition"))
	j, err := w.store.CreateJourney(ctx, scope, def.Name(), def.Canonical())
	must(t, err)
	w.version, err = w.store.PublishJourney(ctx, scope, j.ID, waypost.Publication{Name: def.Name(), Hash: def.Hash(), Definition: def.Canonical(), Webhooks: def.Webhooks()})
	must(t, err)
	for i := range leads {
		external := fmt.Sprintf("ext-%d", i)
		lead, err := w.store.CreateLead(ctx, scope, waypost.LeadFields{Name: "Ada", ExternalID: &external}, nil)
		must(t, err)
		e, err := w.store.Enroll(ctx, scope, waypost.Enrollment{
			JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID, AppID: "app_test",
		}, waypost.Reentry{Policy: waypost.ReentryAfterExit})
		must(t, err)
		state, effect, err := journey.Step(def, journey.State{}, journey.Input{Kind: journey.InputStart, At: w.clock.now().UTC()})
		must(t, err)
		state.Path = nil
		w.items = append(w.items, delivery.Item{
			EnrollmentID: e.ID, LeadsID: lead.LeadsID, State: state, Unrecorded: effect.Entries,
		})
	}
	cohort, err := storetest.ClaimCohort(ctx, w.store)
	must(t, err)
	must(t, w.store.MarkStarted(ctx, cohort.ID))
	return w
}

const (
	firstKey  = "k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	secondKey = "k2:ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
)

// open opens the database as a process that has these keys.
func (w *world) open(keys string) *store.Store {
	ring, err := waypost.ParseKeyring(keys)
	must(w.t, err)
	s, err := store.Open(context.Background(), w.url, ring, w.clock.now)
	must(w.t, err)
	w.t.Cleanup(func() { must(w.t, s.Close()) })
	return s
}

// change changes the world's webhook.
func (w *world) change(change func(*waypost.Webhook)) error {
	_, err := w.store.UpdateWebhook(context.Background(), scope, w.webhookID, func(hook *waypost.Webhook) error { change(hook); return nil })
	return err
}

func (w *world) answer(f func(rw http.ResponseWriter, r *http.Request, externalID string)) {
	w.handle.Store(f)
}

// process is a worker process of its own: nothing but the database connects it
// to another one.
func (w *world) process(s delivery.Store) *delivery.Engine {
	sender := webhook.NewSender(webhook.Options{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Now: w.clock.now,
	})
	w.t.Cleanup(sender.Close)
	if s == nil {
		s = w.store
	}
	a := delivery.New(delivery.Options{
		Store: s, Sender: sender, Log: slog.New(slog.DiscardHandler), Now: w.clock.now,
		Away:       func(err error) bool { return errors.Is(err, errAway) },
		Stragglers: cmp.Or(w.stragglers, time.Minute), Admission: w.admit, Breakers: w.circuits,
	})
	w.t.Cleanup(func() { _ = a.Close(context.Background()) })
	return a
}

func (w *world) deliver(a *delivery.Engine) ([]delivery.Result, error) { return run(a, w.batch()) }

func (w *world) batch() delivery.Batch {
	return delivery.Batch{Scope: scope, JourneyID: w.version.JourneyID, Version: 1, NodeID: "hello", Items: w.batchItems()}
}

// caller is an activity that runs a batch for the first time.
var caller = delivery.Caller{WorkflowID: "wf", FirstAttempt: true}

// awaiting is a context that tells when somebody waits until it ends. A batch that has
// joined the flights of another one does.
type awaiting struct {
	context.Context
	awaits func()
}

func (c awaiting) Done() <-chan struct{} {
	c.awaits()
	return c.Context.Done()
}

// run has a batch delivered. As an activity does, it makes an error of a panic.
func run(a *delivery.Engine, b delivery.Batch) ([]delivery.Result, error) {
	return runIn(context.Background(), a, b)
}

func runIn(ctx context.Context, a *delivery.Engine, b delivery.Batch) (results []delivery.Result, err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("panic: %v", fault)
		}
	}()
	return a.Deliver(ctx, caller, b)
}

// batchItems are the items as a workflow names them that sends them for the first time,
// if the world says so.
func (w *world) batchItems() []delivery.Item {
	items := slices.Clone(w.items)
	for i := range items {
		if w.unsent {
			items[i].Unsent, items[i].Ahead, items[i].Since = true, w.ahead, w.clock.now()
		}
	}
	return items
}

// begin runs the batch in the background; it returns once a POST has arrived.
func (w *world) begin(a *delivery.Engine) (answered <-chan error) {
	w.t.Helper()
	done := make(chan error, 1)
	go func() { _, err := w.deliver(a); done <- err }()
	for w.totalPosts() == 0 {
		time.Sleep(time.Millisecond)
	}
	return done
}

// deliverAll expects an answer for every item and returns the outcomes in order.
func (w *world) deliverAll(a *delivery.Engine) []string {
	w.t.Helper()
	deliveries, err := w.deliver(a)
	must(w.t, err)
	outcomes := make([]string, len(deliveries))
	for i, d := range deliveries {
		if d.EnrollmentID != w.items[i].EnrollmentID {
			w.t.Errorf("answer %d is for %s, want %s", i, d.EnrollmentID, w.items[i].EnrollmentID)
		}
		outcomes[i] = d.Outcome
	}
	return outcomes
}

func (w *world) totalPosts() int {
	total := 0
	w.posts.Range(func(_, n any) bool { total += int(n.(*atomic.Int32).Load()); return true })
	return total
}

func (w *world) attempts(i int) (waypost.Delivery, []waypost.Attempt) {
	w.t.Helper()
	list, err := w.store.ListDeliveries(context.Background(), scope,
		waypost.DeliveryFilter{EnrollmentID: w.items[i].EnrollmentID}, waypost.Page{Limit: 2})
	must(w.t, err)
	if len(list) != 1 {
		w.t.Fatalf("enrollment %d has %d deliveries, want 1", i, len(list))
	}
	d, attempts, _, err := w.store.Delivery(context.Background(), scope, list[0].MessageID)
	must(w.t, err)
	return d, attempts
}

// A batch that runs again, in this process or in another one, answers from what
// is recorded and POSTs nothing.
func TestRerunRepeatsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 5)
	w.clock.stop() // nothing becomes due
	w.answer(func(rw http.ResponseWriter, _ *http.Request, id string) {
		if id == "ext-3" {
			rw.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	first := w.process(nil)
	want := "[delivered delivered delivered retrying delivered]"
	answers, err := w.deliver(first)
	must(t, err)
	again, err := w.deliver(w.process(nil))
	must(t, err)
	for i := range answers {
		if answers[i].At.IsZero() || answers[i].Decided() && answers[i] != again[i] {
			t.Errorf("the first run answered\n%+v, the second\n%+v", answers[i], again[i])
		}
	}
	for _, process := range []*delivery.Engine{first, first, w.process(nil)} {
		if got := fmt.Sprint(w.deliverAll(process)); got != want {
			t.Errorf("outcomes %s, want %s", got, want)
		}
		if n := w.totalPosts(); n != 5 {
			t.Fatalf("%d POSTs, want 5", n)
		}
	}
	w.clock.advance(7 * time.Second)
	w.answer(func(http.ResponseWriter, *http.Request, string) {})
	if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != "[delivered delivered delivered delivered delivered]" {
		t.Errorf("outcomes %s", got)
	}
	if d, attempts := w.attempts(3); w.totalPosts() != 6 || d.Attempts != 2 || len(attempts) != 2 {
		t.Errorf("%d POSTs, %d attempts recorded, %d listed", w.totalPosts(), d.Attempts, len(attempts))
	}
}

// Many runs of one batch at once, in two processes, POST each message once.
func TestConcurrentRunsPostOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 20)
	inside := make(chan struct{}, 100)
	w.answer(func(http.ResponseWriter, *http.Request, string) {
		inside <- struct{}{}
		time.Sleep(20 * time.Millisecond) // the runs are to overlap
	})
	var running sync.WaitGroup
	for _, process := range []*delivery.Engine{w.process(nil), w.process(nil)} {
		for range 4 {
			running.Go(func() {
				if _, err := w.deliver(process); err != nil {
					t.Error(err)
				}
			})
		}
	}
	running.Wait()
	if n := w.totalPosts(); n != 20 || len(inside) != 20 {
		t.Errorf("%d POSTs, want 20", n)
	}
	for i := range w.items {
		if d, attempts := w.attempts(i); d.Status != waypost.DeliverySucceeded || len(attempts) != 1 {
			t.Errorf("enrollment %d: %s after %d attempts", i, d.Status, len(attempts))
		}
	}
}

// meetingStore has two processes read before either opens its attempts.
type meetingStore struct {
	*store.Store
	met *sync.WaitGroup
}

func (s meetingStore) OpenAttempts(ctx context.Context, openings []delivery.Opening) (map[waypost.Touchpoint]delivery.Sending, error) {
	s.met.Done()
	s.met.Wait()
	return s.Store.OpenAttempts(ctx, openings)
}

// Of two processes that both found nothing recorded, one POSTs.
func TestTwoProcessesOpenOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 10)
	met := &sync.WaitGroup{}
	met.Add(2)
	outcomes := make(chan []string, 2)
	for range 2 {
		a := w.process(meetingStore{w.store, met})
		go func() { outcomes <- w.deliverAll(a) }()
	}
	delivered := 0
	for range 2 {
		for _, outcome := range <-outcomes {
			if outcome == delivery.OutcomeDelivered {
				delivered++
			}
		}
	}
	if n := w.totalPosts(); n != 10 || delivered != 10 {
		t.Errorf("%d POSTs and %d answers of delivery, want 10 each", n, delivered)
	}
}

// flakyStore is the real store whose writes of outcomes fail for a while.
type flakyStore struct {
	*store.Store
	away   atomic.Bool
	failed atomic.Int32
	fault  func([]delivery.AttemptRecord) error
}

var errAway = errors.New("the database is away")

func (s *flakyStore) RecordAttempts(ctx context.Context, records []delivery.AttemptRecord) error {
	if s.fault != nil {
		if err := s.fault(records); err != nil {
			s.failed.Add(1)
			return err
		}
	}
	if s.away.Load() {
		s.failed.Add(1)
		return errAway
	}
	return s.Store.RecordAttempts(ctx, records)
}

// The POST is done and the database is away: the write is retried, not the POST,
// even by another run of the batch.
func TestWriteIsRetriedNotThePost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	s := &flakyStore{Store: w.store}
	s.away.Store(true)
	a := w.process(s)
	answers := make(chan []string, 2)
	for range 2 { // the second run is what Temporal does after a time-out
		go func() { answers <- w.deliverAll(a) }()
	}
	for s.failed.Load() < 3 {
		time.Sleep(time.Millisecond)
	}
	s.away.Store(false)
	for range 2 {
		if got := fmt.Sprint(<-answers); got != "[delivered delivered delivered]" {
			t.Errorf("outcomes %s", got)
		}
	}
	if n := w.totalPosts(); n != 3 {
		t.Errorf("%d POSTs, want 3", n)
	}
}

// A record that the database refuses does not hold up the others.
func TestRefusedRecordDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 4)
	var refused atomic.Value
	refused.Store(w.items[2].EnrollmentID)
	s := &flakyStore{Store: w.store}
	s.fault = func(records []delivery.AttemptRecord) error {
		for _, r := range records {
			if r.EnrollmentID == refused.Load() {
				return errors.New("refused")
			}
		}
		return nil
	}
	w.stragglers = time.Second // a record is taken apart within that
	a := w.process(s)
	if got := w.deliverLate(a, 1); got != "[delivered delivered underWay delivered]" {
		t.Errorf("outcomes %s", got)
	}
	refused.Store("")
	if got := fmt.Sprint(w.deliverAll(a)); got != "[delivered delivered delivered delivered]" {
		t.Errorf("outcomes %s", got)
	}
	if n := w.totalPosts(); n != 4 {
		t.Errorf("%d POSTs, want 4", n)
	}
}

// An attempt that a process left open when it died is not repeated while it may
// still be under way; then it is recorded as interrupted and followed by another.
func TestInterruptedAttempt(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	hang := make(chan struct{})
	w.answer(func(http.ResponseWriter, *http.Request, string) { <-hang })
	answered := w.begin(w.process(nil))
	other := w.process(nil)
	if got := fmt.Sprint(w.deliverAll(other)); got != "[underWay]" {
		t.Errorf("while it may be under way: %s", got)
	}
	w.answer(func(http.ResponseWriter, *http.Request, string) {})
	w.clock.advance(cutOff - 10*time.Second)
	if got := fmt.Sprint(w.deliverAll(other)); got != "[underWay]" {
		t.Errorf("right after the time-out, while it may be being recorded: %s", got)
	}
	w.clock.advance(10 * time.Second)
	if got := fmt.Sprint(w.deliverAll(other)); got != "[delivered]" {
		t.Errorf("long after the time-out: %s", got)
	}
	d, attempts := w.attempts(0)
	if len(attempts) != 2 || attempts[0].ErrorClass != waypost.ClassInterrupted || attempts[1].HTTPStatus != 200 {
		t.Errorf("attempts %+v", attempts)
	}
	// The one that was thought dead answers after all: its attempt gets its real
	// outcome, and the delivery stays as it was decided.
	close(hang)
	must(t, <-answered)
	d, attempts = w.attempts(0)
	if d.Status != waypost.DeliverySucceeded || d.Attempts != 2 || len(attempts) != 2 || attempts[0].HTTPStatus != 200 {
		t.Errorf("%s, %d attempts: %+v", d.Status, d.Attempts, attempts)
	}
}

// Whoever makes an attempt cannot record it while the database is away, and has some time
// to do so afterwards before the attempt counts as interrupted. Other errors are no
// reason to wait.
func TestAttemptOfBeforeAnOutage(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		err  error
		want string
	}{
		"outage":        {fmt.Errorf("read deliveries: %w", errAway), "[underWay]"},
		"another error": {errors.New("no such node"), "[delivered]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			hang := make(chan struct{})
			w.answer(func(http.ResponseWriter, *http.Request, string) { <-hang })
			defer close(hang)
			w.begin(w.process(nil))
			other := w.process(nil)
			w.answer(func(http.ResponseWriter, *http.Request, string) {})
			w.clock.advance(cutOff) // longer than the time-out
			w.clock.stop()
			other.Failed(c.err)
			if got := fmt.Sprint(w.deliverAll(other)); got != c.want {
				t.Errorf("right after it: %s, want %s", got, c.want)
			}
			w.clock.advance(20 * time.Second) // a write that hangs is still not given up
			if got := fmt.Sprint(w.deliverAll(other)); got != c.want {
				t.Errorf("20 s after it: %s, want %s", got, c.want)
			}
			w.clock.advance(12 * time.Second)
			if got := fmt.Sprint(w.deliverAll(other)); got != "[delivered]" {
				t.Errorf("32 s after it: %s", got)
			}
		})
	}
}

// A receiver that is slow for one lead does not hold up the answer for the
// others, and its end is learned by the next batch without another POST.
func TestStragglers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	hang := make(chan struct{})
	w.answer(func(_ http.ResponseWriter, _ *http.Request, id string) {
		if id == "ext-1" {
			<-hang
		}
	})
	w.stragglers = 300 * time.Millisecond
	a := w.process(nil)
	if got := w.deliverLate(a, 1); got != "[delivered underWay delivered]" {
		t.Errorf("outcomes %s", got)
	}
	w.items = w.items[1:2]
	done := make(chan string, 1)
	go func() { done <- fmt.Sprint(w.deliverAll(a)) }()
	close(hang)
	if got := <-done; got != "[delivered]" {
		t.Errorf("outcome %s", got)
	}
	if n := w.totalPosts(); n != 3 {
		t.Errorf("%d POSTs, want 3", n)
	}
}

// deliverLate delivers until no more than so many are under way: on a machine that stands
// still others can be, too.
func (w *world) deliverLate(a *delivery.Engine, late int) string {
	w.t.Helper()
	for {
		got, n := w.deliverAll(a), 0
		for _, outcome := range got {
			if outcome == delivery.OutcomeUnderWay {
				n++
			}
		}
		if n <= late {
			return fmt.Sprint(got)
		}
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// leadless is a store in which a lead has been deleted at the moment when it was
// enrolled: the deletion did not see the enrollment.
type leadless struct {
	*store.Store
	lead int64
}

func (s leadless) Briefing(ctx context.Context, sc waypost.Scope, webhookID string, of waypost.ControlTargets) (delivery.Briefing, error) {
	b, err := s.Store.Briefing(ctx, sc, webhookID, of)
	delete(b.Leads, s.lead)
	return b, err
}

// Nothing is sent about a lead that is gone; the others of the batch go on.
func TestEnrollmentsOfDeletedLeadsAreCanceled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	w.unsent = true
	a := w.process(leadless{w.store, w.items[1].LeadsID})
	if _, err := w.deliver(a); err == nil {
		t.Fatal("a batch with an enrollment of nobody went through")
	}
	w.unsent = false
	results, err := w.deliver(a)
	must(t, err)
	for i, want := range []string{delivery.OutcomeDelivered, delivery.OutcomeCanceled, delivery.OutcomeDelivered} {
		if results[i].Outcome != want {
			t.Errorf("item %d: %s, want %s", i, results[i].Outcome, want)
		}
	}
	posts := 0
	w.posts.Range(func(_, n any) bool { posts += int(n.(*atomic.Int32).Load()); return true })
	if posts != 2 {
		t.Errorf("%d POSTs, want 2", posts)
	}
}
