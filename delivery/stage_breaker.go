package delivery

import (
	"context"
	"net/http"
	"slices"
	"time"

	"waypost"
)

// Breakers keep deliveries from receivers that are down, over all processes. A
// circuit names a receiver.
type Breakers interface {
	// Admit admits up to n attempts, a single one as a probe while the breaker is
	// half-open. The others should stay away for wait. A probe of which nothing was
	// heard after lease is lost.
	Admit(ctx context.Context, circuit string, n int, lease time.Duration) (granted int, ticket int64, wait time.Duration)
	// Return says that no attempt was made with the ticket.
	Return(ctx context.Context, circuit string, ticket int64)
	// Failed says that an attempt, the first of its message or not, found the receiver
	// failing; answered, that it did answer. took is how long the attempt took.
	Failed(ctx context.Context, circuit string, ticket int64, first, answered bool, took time.Duration)
	// Alive says that an attempt, of a message that has waited for the breaker or not,
	// found the receiver working. If it returns a function, the caller is to tell all who
	// wait, and then to call that.
	Alive(ctx context.Context, circuit string, ticket int64, waited bool) (announced func(context.Context))
	// Holds tells whether the breaker is not closed.
	Holds(ctx context.Context, circuit string) bool
	// OpenSince is when the breaker opened, as far as this process knows; zero if it is
	// closed.
	OpenSince(circuit string) time.Time
}

// alwaysClosed are the Breakers of an Engine without any.
type alwaysClosed struct{}

func (alwaysClosed) Admit(_ context.Context, _ string, n int, _ time.Duration) (int, int64, time.Duration) {
	return n, 0, 0
}
func (alwaysClosed) Return(context.Context, string, int64)                            {}
func (alwaysClosed) Failed(context.Context, string, int64, bool, bool, time.Duration) {}
func (alwaysClosed) Alive(context.Context, string, int64, bool) func(context.Context) { return nil }
func (alwaysClosed) Holds(context.Context, string) bool                               { return false }
func (alwaysClosed) OpenSince(string) time.Time                                       { return time.Time{} }

// pass is what a run was admitted with by the breaker.
type pass struct {
	circuit string
	ticket  int64
}

// preparation is how long a probe may take until its POST begins: the opening is announced,
// and the other items' deferrals and its attempt are recorded first.
const preparation = 3*writeTime + 5*time.Second

// askBreaker holds back what the breaker does not admit.
func askBreaker(ctx context.Context, r *run, due []*item) ([]*item, error) {
	circuit := r.hook.Circuit()
	lease := preparation + time.Duration(r.hook.TimeoutMs)*time.Millisecond
	granted, ticket, wait := r.breakers.Admit(ctx, circuit, len(due), lease)
	r.pass = &pass{circuit, ticket}
	r.announceFailing(ctx)
	if granted == len(due) {
		return due, nil
	}
	// The probe is the message that has got furthest: a receiver that refuses the
	// first attempts only is not down.
	slices.SortStableFunc(due, func(a, b *item) int { return b.attempt - a.attempt })
	if err := r.keepOut(ctx, due[granted:], waypost.DeferBreaker, wait); err != nil {
		return nil, err
	}
	// It may have closed, and told all who wait, before these were recorded.
	if !r.breakers.Holds(ctx, circuit) {
		comeAgain(due[granted:])
	}
	return due[:granted], nil
}

// announceFailing announces that the breaker of the webhook is open, once for each opening.
// The attempt that opens it does so. So does every run that finds it open, because the process
// of that attempt may have died.
func (r *run) announceFailing(ctx context.Context) {
	circuit := r.pass.circuit
	opened := r.breakers.OpenSince(circuit)
	if opened.IsZero() {
		return
	}
	if last, known := r.failing.Get(circuit); known && last.Equal(opened) {
		return
	}
	r.failing.Add(circuit, opened) // before it is written: many attempts fail at once
	ctx, cancel := context.WithTimeout(ctx, writeTime)
	defer cancel()
	if err := r.store.AnnounceFailing(ctx, r.batch.Scope, r.hook.ID, opened); err != nil {
		r.failing.Remove(circuit)
		r.log.Error("announce that a webhook is failing; will retry with its next message", "webhook", r.hook.ID, "error", err)
	}
}

// report tells the breaker of the outcome of an attempt, and whether the message has waited
// for it. If it returns a function, the caller is to release all messages that wait for the
// breaker, and then to call it.
func (e *Engine) report(p pass, waited bool, attempt int, o waypost.Outcome) (announced func(context.Context)) {
	ctx := context.Background()
	switch health := healthOf(o); health {
	case receiverWorks:
		return e.breakers.Alive(ctx, p.circuit, p.ticket, waited)
	case receiverSilent, receiverFails:
		e.breakers.Failed(ctx, p.circuit, p.ticket, attempt == 1, health == receiverFails, o.Duration)
	case receiverUnknown:
		e.breakers.Return(ctx, p.circuit, p.ticket) // if it was the probe, another may be
	}
	return nil
}

// health is what an outcome says about the receiver.
type health int

const (
	receiverUnknown health = iota
	receiverWorks
	receiverSilent
	receiverFails
)

// healthOf reads an outcome. A receiver that refuses a message, in whatever way, works. Of a
// receiver at a forbidden address nothing is known: such messages fail for good, and at once.
func healthOf(o waypost.Outcome) health {
	switch o.ErrorClass {
	case waypost.ClassNetwork, waypost.ClassTimeout, waypost.ClassTLS:
		return receiverSilent
	case waypost.ClassHTTPStatus:
		switch o.HTTPStatus {
		case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
			return receiverFails
		}
		if o.HTTPStatus >= http.StatusInternalServerError {
			return receiverFails
		}
		return receiverWorks
	case "", waypost.ClassSucceedFalse, waypost.ClassResponseTooLarge:
		return receiverWorks
	}
	return receiverUnknown
}

// releaseDeferred releases the messages that wait for a breaker that has closed. If it
// fails, the breaker asks another caller of Alive to do so.
func (e *Engine) releaseDeferred(sc waypost.Scope, hook waypost.Webhook, announced func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	if err := e.store.ReleaseDeferred(ctx, sc, hook.ID, waypost.DeferBreaker); err != nil {
		e.log.Error("release deliveries that waited for a breaker", "webhook", hook.ID, "error", err)
		return
	}
	announced(ctx)
	if e.wake != nil {
		e.wake()
	}
}
