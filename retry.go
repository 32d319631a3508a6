package waypost

import (
	"slices"
	"strconv"
	"time"
)

// Next says whether a failed attempt is followed by another one, and when.
// first is when the first attempt began, attempts how many were made, random a
// number in [0,1) that places the jitter. The wait counts from the end of the
// attempt; a receiver's Retry-After makes it longer, never shorter. Whatever On
// says, an interrupted attempt may be followed by another one: nobody saw its end.
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
	at = o.At.Add(o.Duration).Add(wait)
	if at.After(first.Add(time.Duration(r.GiveUpAfter))) {
		return time.Time{}, false
	}
	return at, true
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
		return slices.Contains(r.On, strconv.Itoa(o.HTTPStatus)) ||
			o.HTTPStatus >= 500 && o.HTTPStatus <= 599 && slices.Contains(r.On, RetryOn5xx)
	}
	return false
}
