package activities

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
	Alive(ctx context.Context, circuit string, ticket int64, waited bool) (told func(context.Context))
	// Holds tells whether the breaker is not closed.
	Holds(ctx context.Context, circuit string) bool
}

// alwaysClosed are the Breakers of those who need none.
type alwaysClosed struct{}

func (alwaysClosed) Admit(_ context.Context, _ string, n int, _ time.Duration) (int, int64, time.Duration) {
	return n, 0, 0
}
func (alwaysClosed) Return(context.Context, string, int64)                            {}
func (alwaysClosed) Failed(context.Context, string, int64, bool, bool, time.Duration) {}
func (alwaysClosed) Alive(context.Context, string, int64, bool) func(context.Context) { return nil }
func (alwaysClosed) Holds(context.Context, string) bool                               { return false }

// pass is what an attempt was admitted with by the breaker.
type pass struct {
	circuit string
	ticket  int64
	waited  bool // the message has waited for the breaker
}

// preparation is how long a probe may take until its POST begins: those that it keeps out
// and its attempt are written down first.
const preparation = 2*writeTime + 5*time.Second

// lookAtBreaker takes those out of what is due who must wait for the breaker. It
// returns what those who are left were admitted with.
func (r *batchRun) lookAtBreaker(ctx context.Context) (pass, error) {
	p := pass{circuit: r.hook.Circuit()}
	lease := preparation + time.Duration(r.hook.TimeoutMs)*time.Millisecond
	granted, ticket, wait := r.breakers.Admit(ctx, p.circuit, len(r.due), lease)
	p.ticket = ticket
	if granted == len(r.due) {
		return p, nil
	}
	// The probe is the message that has got furthest: a receiver that refuses the
	// first attempts only is not down.
	slices.SortStableFunc(r.due, func(a, b dueItem) int { return b.attempt - a.attempt })
	if err := r.keepOut(ctx, r.due[granted:], waypost.DeferBreaker, wait); err != nil {
		r.breakers.Return(context.WithoutCancel(ctx), p.circuit, ticket)
		return p, err
	}
	// It may have closed, and those who wait may have been told, before they were
	// written down.
	if !r.breakers.Holds(ctx, p.circuit) {
		r.comeAgain(r.due[granted:])
	}
	r.due = r.due[:granted]
	return p, nil
}

// waited tells whether the message waits for the breaker, by what is recorded.
func (d dueItem) waited() bool {
	return d.stored != nil && d.stored.Status == waypost.DeliveryDeferred && d.stored.DeferredReason == waypost.DeferBreaker
}

// report tells the breaker of an attempt's outcome. If it returns a function, those
// who wait for the breaker are to be told, and then that is to be called.
func (a *Activities) report(p pass, attempt int, o waypost.Outcome) (told func(context.Context)) {
	ctx := context.Background()
	switch healthOf(o) {
	case receiverWorks:
		return a.breakers.Alive(ctx, p.circuit, p.ticket, p.waited)
	case receiverSilent:
		a.breakers.Failed(ctx, p.circuit, p.ticket, attempt == 1, false, o.Duration)
	case receiverFails:
		a.breakers.Failed(ctx, p.circuit, p.ticket, attempt == 1, true, o.Duration)
	case receiverUnknown:
		a.breakers.Return(ctx, p.circuit, p.ticket) // if it was the probe, another may be
	}
	return nil
}

// What an outcome says about the receiver.
type health int

const (
	receiverUnknown health = iota
	receiverWorks
	receiverSilent
	receiverFails
)

// healthOf reads an outcome. Who refuses a message, in whatever way, works. Of an
// address that may not be reached nothing is known: such messages fail for good, and
// at once.
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

// release tells those who wait for a breaker that has closed. Should it fail, one
// of those who come for a probe will be asked to.
func (a *Activities) release(sc waypost.Scope, hook waypost.Webhook, told func(context.Context)) {
	ctx, cancel := context.WithTimeout(context.Background(), writeTime)
	defer cancel()
	if err := a.store.ReleaseDeferred(ctx, sc, hook.ID, waypost.DeferBreaker); err != nil {
		a.log.Error("release deliveries that waited for a breaker", "webhook", hook.ID, "error", err)
		return
	}
	told(ctx)
	a.wake()
}
