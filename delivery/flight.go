package delivery

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
)

// flight is one attempt from its POST to the written record. It belongs to the
// process, not to the activity that began it: a straggler goes on when the
// activity has answered for the others, and a second run of the batch joins it
// instead of POSTing again.
type flight struct {
	began time.Time
	ended chan struct{} // closed once there is a recorded answer, or an error
	// What came of it, valid after that.
	result Result
	next   transition
	err    error
	// ahead says that the workflow has not asked for it yet; guarded by flights.
	ahead bool
}

// expect is how long to wait until the next look at a flight, where a POST usually takes so
// long: until it is overdue, or, if it is, as long again as it has taken.
func (fl *flight) expect(takes time.Duration) time.Duration {
	age := time.Since(fl.began)
	if left := takes + takes/4 - age; left > 0 {
		return max(left, underWayPause)
	}
	return max(age, underWayPause)
}

// flights are the flights of a process.
type flights struct {
	mu sync.Mutex
	m  map[waypost.Round]*flight
	// unasked are flights ahead that have ended before their workflow has asked for them.
	// Each is kept for keptUnasked.
	unasked map[waypost.Round]*flight
}

// keptUnasked is enough for a workflow that is started soon; a later one reads what is
// recorded.
const keptUnasked = time.Minute

// begin registers a flight, which the caller owns then. If there is one, it returns that:
// one under way, or, if the workflow asks for the first time, one that has ended unasked.
func (f *flights) begin(key waypost.Round, first, ahead bool) (fl *flight, owned bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if fl, ok := f.m[key]; ok {
		fl.ahead = fl.ahead && ahead
		return fl, false
	}
	if fl, ok := f.unasked[key]; ok {
		delete(f.unasked, key)
		if first {
			return fl, false
		}
	}
	if f.m == nil {
		f.m, f.unasked = map[waypost.Round]*flight{}, map[waypost.Round]*flight{}
	}
	fl = &flight{began: time.Now(), ended: make(chan struct{}), ahead: ahead}
	f.m[key] = fl
	return fl, true
}

func (f *flights) has(key waypost.Round) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, ok := f.m[key]
	return ok
}

// end ends a flight whose attempt was made.
func (f *flights) end(key waypost.Round, fl *flight) {
	f.mu.Lock()
	delete(f.m, key)
	if fl.ahead {
		f.unasked[key] = fl
		time.AfterFunc(keptUnasked, func() { f.forget(key, fl) })
	}
	f.mu.Unlock()
	close(fl.ended)
}

// drop ends a flight whose attempt was not made.
func (f *flights) drop(key waypost.Round, fl *flight) {
	f.mu.Lock()
	delete(f.m, key)
	f.mu.Unlock()
	close(fl.ended)
}

func (f *flights) forget(key waypost.Round, fl *flight) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unasked[key] == fl {
		delete(f.unasked, key)
	}
}

// wait returns once no flight is left, or ctx ends.
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
		case <-one.ended:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// goroutines make POSTs. Each makes one after the other, and waits a little for the next: a
// new goroutine would have to grow its stack, which costs a tenth of a fast POST.
type goroutines struct{ next chan func() }

func newGoroutines() goroutines { return goroutines{make(chan func())} }

// idleTime is how long a goroutine waits for another POST.
const idleTime = time.Second

func (g goroutines) do(post func()) {
	select {
	case g.next <- post:
	default:
		go g.work(post)
	}
}

func (g goroutines) work(post func()) {
	timer := time.NewTimer(idleTime)
	defer timer.Stop()
	for {
		post()
		timer.Reset(idleTime)
		select {
		case post = <-g.next:
		case <-timer.C:
			return
		}
	}
}

// attempt POSTs the message of an item and has the outcome recorded. It goes on when the
// activity has answered: ctx only tells whose attempt it is, for traces.
func (r *run) attempt(ctx context.Context, it *item, s Sending) {
	fl := it.flight
	defer r.flights.end(it.AttemptRound(), fl)
	defer func() {
		// A panic over one message must not end the process, which drives all journeys.
		if fault := recover(); fault != nil {
			fl.err = fmt.Errorf("attempt of enrollment %s panicked", it.EnrollmentID)
			r.log.Error("attempt panicked", "message", s.MessageID, "webhook", r.hook.ID, "enrollment", it.EnrollmentID,
				"panic", fmt.Sprintf("%T", fault), "stack", string(debug.Stack()))
		}
	}()
	outcome := r.post(context.WithoutCancel(ctx), r.hook, s)
	waited := it.stored.Status == waypost.DeliveryDeferred && it.stored.DeferredReason == waypost.DeferBreaker
	announced := r.report(*r.pass, waited, s.Open.Attempt-s.Before, outcome)
	if outcome.HTTPStatus == http.StatusGone {
		r.disable(r.batch.Scope, r.hook)
	}
	record := AttemptRecord{
		Touchpoint: it.Touchpoint(), Scope: r.batch.Scope, MessageID: s.MessageID,
		Round: s.Round, Attempt: s.Open.Attempt, Outcome: outcome,
	}
	fl.result, fl.next, fl.err = r.settle(&record, it.Item, s)
	// Before it is recorded: an attempt that cannot be recorded is to show.
	r.observe.Attempt(outcomeOf(record.Status), outcome.ErrorClass, outcome.Duration)
	if fl.err == nil {
		fl.err = r.recorder.record(record)
	}
	if !outcome.Succeed {
		r.announceFailing(context.WithoutCancel(ctx))
	}
	if fl.err == nil && record.Status == waypost.DeliveryFailed {
		if fl.result, fl.err = r.correct(fl.result, it.AttemptRound()); fl.result.Outcome != OutcomeFailed {
			fl.next = transition{}
		}
	}
	if announced != nil && fl.err == nil {
		r.releaseDeferred(r.batch.Scope, r.hook, announced)
	}
	r.log.Info("attempt", "message", s.MessageID, "webhook", r.hook.ID, "enrollment", it.EnrollmentID,
		"lead", it.LeadsID, "attempt", record.Attempt, "status", record.Status, "http", outcome.HTTPStatus,
		"class", outcome.ErrorClass, "ms", outcome.Duration.Milliseconds())
}

// post makes the POST and counts it out of the admission: others may go while the
// outcome is recorded.
func (e *Engine) post(ctx context.Context, hook waypost.Webhook, s Sending) waypost.Outcome {
	e.recorder.posting.Add(1)
	defer e.recorder.posting.Add(-1)
	defer e.admit.Done(hook.ID, 1)
	// The sender bounds the exchange by the webhook's time-out.
	return e.sender.Send(context.WithValue(ctx, attemptKey{}, s.Open.Attempt), hook, s.MessageID, s.Body)
}

// disable disables a webhook that is gone, unless it was changed since the attempt
// began. Like the outcome it is retried while the database is away, and it comes before
// the outcome is recorded: a process that dies in between asks the receiver again.
func (e *Engine) disable(sc waypost.Scope, hook waypost.Webhook) {
	for waits := writeWaits(); ; time.Sleep(waits.NextBackOff()) {
		ctx, cancel := context.WithTimeout(context.Background(), writeTime)
		err := e.store.DisableWebhook(ctx, sc, hook, "410")
		cancel()
		var refused *waypost.Error
		switch {
		case err == nil:
			e.log.Warn("a receiver answered 410: its webhook is disabled, unless it was changed since", "webhook", hook.ID, "org", sc.Org, "stage", sc.Stage)
			return
		case errors.As(err, &refused): // it was deleted
			return
		}
		e.log.Error("disable webhook after 410; will retry", "webhook", hook.ID, "error", err)
	}
}

// correct corrects a failure by what is recorded: if another process took this
// one for dead and went on, its attempt may have succeeded, or still be under way.
func (e *Engine) correct(d Result, key waypost.Round) (Result, error) {
	stored, err := e.store.SendingsOfRounds(context.Background(), []waypost.Round{key})
	if err != nil {
		return Result{}, fmt.Errorf("read delivery: %w", err)
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
// time of the next attempt, and how the enrollment goes on. Of s it uses FirstAttemptAt and
// Before, the attempts of earlier rounds: every round has the whole schedule.
func (r *run) settle(record *AttemptRecord, i Item, s Sending) (d Result, next transition, err error) {
	o := record.Outcome
	retryAt, again := r.hook.Retry.Next(s.FirstAttemptAt, record.Attempt-s.Before, o, jitter(r.seed, record.Attempt))
	switch {
	case o.Succeed:
		record.Status = waypost.DeliverySucceeded
	case again:
		if r.batch.Coalesce {
			retryAt = RoundUp(retryAt, retryAt.Sub(o.At)/4)
		}
		record.Status, record.NextAttemptAt = waypost.DeliveryRetrying, retryAt
	default:
		record.Status, record.GaveUp = waypost.DeliveryFailed, r.hook.Retry.GaveUp(record.Attempt-s.Before, o)
	}
	d = Result{
		EnrollmentID: i.EnrollmentID, LeadsID: i.LeadsID, MessageID: record.MessageID,
		Outcome: outcomeOf(record.Status), Attempt: record.Attempt,
		Reason: reasonOf(o.Succeed, o.ErrorClass, o.HTTPStatus),
		// As precise as it is stored: a second run must answer the same.
		At: o.At.UTC().Truncate(time.Millisecond).Add(o.Duration.Truncate(time.Millisecond)), Next: record.NextAttemptAt,
	}
	next.after = i.State
	if record.Status.Final() {
		if next, err = r.step(i, d); err != nil {
			return Result{}, next, err
		}
	}
	record.Progress = i.Progress(next.after, next.entries)
	return d, next, nil
}

// jitter places the jitter of an attempt, in [0,1): what fails of one workflow is due again
// at one time, whatever batches it was in, and that of other workflows at other times.
func jitter(seed uint64, attempt int) float64 {
	return rand.New(rand.NewPCG(seed, uint64(attempt))).Float64()
}

// seedOf makes a seed of a workflow's id.
func seedOf(workflowID string) uint64 {
	h := fnv.New64a()
	h.Write([]byte(workflowID))
	return h.Sum64()
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
