package activities

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"runtime/debug"
	"sync"
	"time"

	"waypost"
	"waypost/journey"
)

// flight is one attempt from its POST to the written record. It belongs to the
// process, not to the activity that began it: a straggler goes on when the
// activity has answered for the others, and a second run of the batch joins it
// instead of POSTing again.
type flight struct {
	began  time.Time
	landed chan struct{} // closed once there is a recorded answer, or an error
	result Delivery      // valid after that
	err    error
	// ahead says that the workflow has not asked for it yet; guarded by flights.
	ahead bool
}

// expect is when to look at a flight again, of which one takes so long: when it is
// overdue, or once more in twice the time.
func (fl *flight) expect(takes time.Duration) time.Duration {
	age := time.Since(fl.began)
	if left := takes + takes/4 - age; left > 0 {
		return max(left, underWayPause)
	}
	return max(age, underWayPause)
}

// pilots are goroutines that make POSTs one after the other. A new one for each
// would have to grow its stack every time, which costs a tenth of a fast POST; so
// those that have landed wait a little for another flight.
type pilots struct{ next chan func() }

func newPilots() pilots { return pilots{make(chan func())} }

// patience is how long a pilot waits for another flight.
const patience = time.Second

func (p pilots) do(flight func()) {
	select {
	case p.next <- flight:
	default:
		go p.work(flight)
	}
}

func (p pilots) work(flight func()) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	for {
		flight()
		timer.Reset(patience)
		select {
		case flight = <-p.next:
		case <-timer.C:
			return
		}
	}
}

type flights struct {
	mu sync.Mutex
	m  map[waypost.Round]*flight
	// early are those that have landed before their workflow has asked for them, for
	// keptEarly.
	early map[waypost.Round]*flight
}

// keptEarly is enough for a workflow that is started soon; a later one reads what is
// recorded.
const keptEarly = time.Minute

// begin registers a flight, ahead of its workflow or not, or returns the one that is under
// way, or the one that has landed early if this is the workflow's first look.
func (f *flights) begin(key waypost.Round, first, ahead bool) (fl *flight, fresh bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.m[key]; ok {
		fl.ahead = fl.ahead && ahead
		return fl, false
	}
	if fl, ok := f.early[key]; ok {
		delete(f.early, key)
		if first {
			return fl, false
		}
	}
	if f.m == nil {
		f.m, f.early = map[waypost.Round]*flight{}, map[waypost.Round]*flight{}
	}
	fl = &flight{began: time.Now(), landed: make(chan struct{}), ahead: ahead}
	f.m[key] = fl
	return fl, true
}

func (f *flights) has(key waypost.Round) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.m[key]
	return ok
}

// end ends a flight that has taken place.
func (f *flights) end(key waypost.Round, fl *flight) {
	f.mu.Lock()
	delete(f.m, key)
	if fl.ahead {
		f.early[key] = fl
		time.AfterFunc(keptEarly, func() { f.forget(key, fl) })
	}
	f.mu.Unlock()
	close(fl.landed)
}

// drop ends one that has not taken place.
func (f *flights) drop(key waypost.Round, fl *flight) {
	f.mu.Lock()
	delete(f.m, key)
	f.mu.Unlock()
	close(fl.landed)
}

func (f *flights) forget(key waypost.Round, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.early[key] == fl {
		delete(f.early, key)
	}
}

// wait returns once nothing flies, or ctx ends.
func (f *flights) wait(ctx context.Context) error {
	for {
		var one *flight
		f.mu.Lock()
		for _, one = range f.m {
			break
		}
		f.mu.Unlock()
		if one == nil {
			return nil
		}
		select {
		case <-one.landed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// fly POSTs the message and has the outcome recorded. It goes on when the activity has
// answered: ctx only tells which one that was.
func (a *Activities) fly(ctx context.Context, fl *flight, b Batch, v version, hook waypost.Webhook, item Item, s waypost.Sending, p pass, seed uint64) {
	defer a.flights.end(item.round(), fl)
	defer func() {
		// One message must not take the process, and everybody's journeys, with it.
		if fault := recover(); fault != nil {
			fl.err = fmt.Errorf("attempt of enrollment %s panicked", item.EnrollmentID)
			a.log.Error("attempt panicked", "message", s.MessageID, "webhook", hook.ID, "enrollment", item.EnrollmentID,
				"panic", fmt.Sprintf("%T", fault), "stack", string(debug.Stack()))
		}
	}()
	outcome := a.post(context.WithoutCancel(ctx), hook, s)
	told := a.report(p, s.Open.Attempt-s.Before, outcome)
	if outcome.HTTPStatus == http.StatusGone {
		a.disable(b.Scope, hook)
	}
	record := waypost.AttemptRecord{
		Touchpoint: item.touchpoint(), Scope: b.Scope, MessageID: s.MessageID,
		Round: s.Round, Attempt: s.Open.Attempt, Outcome: outcome,
	}
	fl.result, fl.err = a.settle(&record, b, v, hook, item, s, seed)
	// Before it is recorded, so that those show that cannot be.
	a.observe.Attempt(outcomeOf(record.Status), outcome.ErrorClass, outcome.Duration)
	if fl.err == nil {
		fl.err = a.recorder.record(record)
	}
	if fl.err == nil && record.Status == waypost.DeliveryFailed {
		fl.result, fl.err = a.standing(fl.result, item.round())
	}
	if told != nil && fl.err == nil {
		a.release(b.Scope, hook, told)
	}
	a.log.Info("attempt", "message", s.MessageID, "webhook", hook.ID, "enrollment", item.EnrollmentID,
		"lead", item.LeadsID, "attempt", record.Attempt, "status", record.Status, "http", outcome.HTTPStatus,
		"class", outcome.ErrorClass, "ms", outcome.Duration.Milliseconds())
}

// post makes the POST and gives the webhook's slot back: others may go while the
// outcome is recorded.
func (a *Activities) post(ctx context.Context, hook waypost.Webhook, s waypost.Sending) waypost.Outcome {
	a.recorder.flying.Add(1)
	defer a.recorder.flying.Add(-1)
	defer a.admit.Done(hook.ID, 1)
	// The sender bounds the exchange by the webhook's time-out.
	outcome := a.sender.Send(context.WithValue(ctx, attemptKey{}, s.Open.Attempt), hook, s.MessageID, s.Body)
	return outcome
}

// disable disables a webhook that is gone, unless it was changed since the attempt
// began. Like the outcome it is retried while the database is away, and it comes before
// the outcome is recorded: a process that dies in between asks the receiver again.
func (a *Activities) disable(sc waypost.Scope, hook waypost.Webhook) {
	for waits := writeWaits(); ; time.Sleep(waits.NextBackOff()) {
		ctx, cancel := context.WithTimeout(context.Background(), writeTime)
		err := a.store.DisableWebhook(ctx, sc, hook, "410")
		cancel()
		var refused *waypost.Error
		switch {
		case err == nil:
			a.log.Warn("a receiver answered 410: its webhook is disabled, unless it was changed since", "webhook", hook.ID, "org", sc.Org, "stage", sc.Stage)
			return
		case errors.As(err, &refused): // it was deleted
			return
		}
		a.log.Error("disable webhook after 410; will retry", "webhook", hook.ID, "error", err)
	}
}

// standing corrects a failure by what is recorded: if another process took this
// one for dead and went on, its attempt may have succeeded, or still be under way.
func (a *Activities) standing(d Delivery, key waypost.Round) (Delivery, error) {
	stored, err := a.store.SendingsOfRounds(context.Background(), []waypost.Round{key})
	if err != nil {
		return Delivery{}, fmt.Errorf("read delivery: %w", err)
	}
	s := stored[key.Touchpoint]
	switch {
	case !s.Status.Final():
		d.Outcome, d.Reason, d.Next = OutcomeUnderWay, "", d.At
	case s.Status == waypost.DeliveryCanceled:
		d.Outcome, d.Reason = OutcomeCanceled, ""
	case s.Succeed:
		d.Outcome, d.Reason, d.Attempt, d.At = OutcomeDelivered, "", s.Attempts, s.DecidedAt
	}
	return d, nil
}

// settle decides what an attempt's outcome means: the delivery's new state, the
// time of the next attempt, and how the enrollment goes on. Of s only what the
// retries go by counts. Every round has the whole schedule.
func (a *Activities) settle(record *waypost.AttemptRecord, b Batch, v version, hook waypost.Webhook, item Item, s waypost.Sending, seed uint64) (Delivery, error) {
	o := record.Outcome
	next, again := hook.Retry.Next(s.FirstAttemptAt, record.Attempt-s.Before, o, jitter(seed, record.Attempt))
	switch {
	case o.Succeed:
		record.Status = waypost.DeliverySucceeded
	case again:
		if b.Coalesce {
			next = RoundUp(next, next.Sub(o.At)/4)
		}
		record.Status, record.NextAttemptAt = waypost.DeliveryRetrying, next
	default:
		record.Status, record.GaveUp = waypost.DeliveryFailed, hook.Retry.GaveUp(record.Attempt-s.Before, o)
	}
	d := Delivery{
		EnrollmentID: item.EnrollmentID, LeadsID: item.LeadsID, MessageID: record.MessageID,
		Outcome: outcomeOf(record.Status), Attempt: record.Attempt,
		Reason: reasonOf(o.Succeed, o.ErrorClass, o.HTTPStatus),
		// As precise as it is stored: a second run must answer the same.
		At: o.At.UTC().Truncate(time.Millisecond).Add(o.Duration.Truncate(time.Millisecond)), Next: record.NextAttemptAt,
	}
	after, entries := item.State, []waypost.TimelineEntry(nil)
	if record.Status.Final() {
		var err error
		if after, entries, err = follow(v, item, d); err != nil {
			return Delivery{}, err
		}
	}
	record.Progress = item.progress(after, entries)
	return d, nil
}

// jitter places the jitter of an attempt, in [0,1): what fails of one workflow comes again
// together, whatever batches it was in, and that of other workflows at other times.
func jitter(seed uint64, attempt int) float64 {
	return rand.New(rand.NewPCG(seed, uint64(attempt))).Float64()
}

// seedOf makes a seed of a workflow's id.
func seedOf(workflowID string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(workflowID))
	return h.Sum64()
}

// follow tells where a decided or deferred delivery leads. The workflow computes
// the same from the same values; computing it here too lets the outcome and its
// consequences be written in one transaction. A redelivery leads nowhere.
func follow(v version, item Item, d Delivery) (journey.State, []waypost.TimelineEntry, error) {
	if item.redelivers() {
		return item.State, nil, nil
	}
	after, effect, err := journey.Step(v.Definition, item.State, d.Input())
	if err != nil {
		return after, nil, fmt.Errorf("step enrollment %s: %w", item.EnrollmentID, err)
	}
	return after, effect.Entries, nil
}

// RoundUp moves t up to a whole multiple of a grain of at most limit, or of about
// a minute: what is due at nearly the same time becomes due at the same time.
// Grains are powers of two milliseconds, so that limits that differ a little, as
// jitter makes them, still meet.
func RoundUp(t time.Time, limit time.Duration) time.Time {
	limit = min(limit, maxGrain)
	grain := time.Millisecond
	for 2*grain <= limit {
		grain *= 2
	}
	if down := t.Truncate(grain); !down.Equal(t) {
		return down.Add(grain)
	}
	return t
}

const maxGrain = 1 << 16 * time.Millisecond

// reasonOf says in few words why an attempt came to what it came to.
func reasonOf(succeed bool, class string, status int) string {
	switch {
	case succeed:
		return ""
	case class == waypost.ClassHTTPStatus:
		return fmt.Sprintf("%s %d", class, status)
	default:
		return class
	}
}
