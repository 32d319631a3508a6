package waypost

import (
	"net/http"
	"slices"
	"strconv"
	"time"
)

// Next says whether a failed attempt is followed by another one, and when.
// first is when the first attempt began, attempts how many were made, random a
// number in [0,1) that places the jitter. The wait counts from the end of the
// attempt; a receiver's Retry-After makes it longer, never shorter. A wait that would
// outlast GiveUpAfter ends with it, for a last attempt. Whatever On says, an
// interrupted attempt may be followed by another one: nobody saw its end. The waits
// are the webhook's own list and are computed from the records alone, so no library's
// back-off fits.
func (r Retry) Next(first time.Time, attempts int, o Outcome, random float64) (at time.Time, again bool) {
	if o.Succeed || !r.covers(o) {
		return time.Time{}, false
	}
	if r.MaxAttempts > 0 && attempts >= r.MaxAttempts {
		return time.Time{}, false
	}
	wait := spread(r.entry(attempts), r.Jitter*(2*random-1))
	if after := min(o.RetryAfter, MaxRetryAfter); after > 0 {
		wait = max(wait, spread(after, r.Jitter*random))
	}
	end, deadline := o.At.Add(o.Duration), first.Add(time.Duration(r.GiveUpAfter))
	if !end.Before(deadline) {
		return time.Time{}, false
	}
	if at = end.Add(wait); at.After(deadline) {
		at = deadline
	}
	return at, true
}

// GaveUp says why a delivery has failed for good.
type GaveUp string

// Why deliveries are given up.
const (
	GaveUpTime         GaveUp = "giveUpAfter"  // Retry.GiveUpAfter is over
	GaveUpAttempts     GaveUp = "maxAttempts"  // Retry.MaxAttempts were made
	GaveUpNotRetried   GaveUp = "notRetried"   // Retry.On has no such failure
	GaveUpGone         GaveUp = "gone"         // the receiver answered 410
	GaveUpSucceedFalse GaveUp = "succeedFalse" // the receiver refused the message
	GaveUpRender       GaveUp = "render"       // the message cannot be made
)

// GaveUp says why a failed attempt is followed by no other one, where Next says so.
// attempts is as Next has it.
func (r Retry) GaveUp(attempts int, o Outcome) GaveUp {
	switch {
	case o.ErrorClass == ClassRender:
		return GaveUpRender
	case r.covers(o) && r.MaxAttempts > 0 && attempts >= r.MaxAttempts:
		return GaveUpAttempts
	case r.covers(o):
		return GaveUpTime
	case o.ErrorClass == ClassSucceedFalse:
		return GaveUpSucceedFalse
	case o.HTTPStatus == http.StatusGone:
		return GaveUpGone
	}
	return GaveUpNotRetried
}

// Explain adds to an attempt's message why no other attempt followed. A message that
// says so itself stays as it is: what the receiver said with succeed false, and what is
// wrong with a template.
func (g GaveUp) Explain(message string) string {
	why := map[GaveUp]string{
		GaveUpTime:       "given up: the time of retry.giveUpAfter is over",
		GaveUpAttempts:   "given up: as many attempts were made as retry.maxAttempts allows",
		GaveUpNotRetried: "given up: retry.on has no such failure",
		GaveUpGone:       "given up: 410 has disabled the webhook",
	}[g]
	if why == "" || message == "" {
		return message + why
	}
	return message + "; " + why
}

// entry is the schedule's wait after so many attempts; the last one repeats.
func (r Retry) entry(attempts int) time.Duration {
	i := min(max(attempts, 1), len(r.Schedule)) - 1
	return time.Duration(r.Schedule[i])
}

func spread(d time.Duration, share float64) time.Duration {
	return d + time.Duration(float64(d)*share)
}

func (r Retry) covers(o Outcome) bool {
	switch o.ErrorClass {
	case ClassNetwork, ClassTLS:
		return slices.Contains(r.On, RetryOnNetwork)
	case ClassTimeout:
		return slices.Contains(r.On, RetryOnTimeout)
	case ClassSucceedFalse:
		return r.OnSucceedFalse
	case ClassInterrupted:
		return true
	case ClassHTTPStatus:
		return slices.Contains(r.On, RetryOn(strconv.Itoa(o.HTTPStatus))) ||
			o.HTTPStatus >= 500 && o.HTTPStatus <= 599 && slices.Contains(r.On, RetryOn5xx)
	}
	return false
}
