package limits

import (
	"math/rand/v2"
	"time"
)

// The algorithm: a level rises by one with every first attempt that fails, falls
// by four with every success, and leaks. It reaches what opens the breaker only if
// more than four of five fail, and more than two a second; then within a few
// attempts, however many have succeeded before.
const (
	tripLevel    = 20
	successDrop  = 4
	leakPerMilli = 2.0 / 1000
	// An answer that is an error opens the breaker only if it goes on for this time:
	// some receivers refuse everything once or twice, and no retry has come by then.
	answeredTime = 3 * time.Second
	// tellTime is how long a caller has to tell all who wait.
	tellTime = 10 * time.Second

	// A breaker that is open doubles its pause after each probe. The pause is part of the
	// state that processes share, so no library's back-off keeps it.
	firstPause = time.Second
	maxPause   = 30 * time.Second
	// A breaker that opens again within calm after it has closed has contradicted
	// itself: it then takes four times as much each time, up to maxPatience times.
	calm          = time.Minute
	patienceGrows = 4
	maxPatience   = 256
	// far is how long a caller that no probe needs stays away on average, unless it is told
	// before. It comes in the end, in case nobody tells it, or no caller comes for a probe.
	far = 30 * time.Minute
)

// breaker is the state of a breaker: what is shared, and the rules by which it
// changes. Times are milliseconds of Unix time. The zero value is closed.
type breaker struct {
	Epoch  int64   `json:"epoch"`            // counts opening, probes and closing; a ticket
	Level  float64 `json:"level,omitempty"`  // of failures
	Silent float64 `json:"silent,omitempty"` // of failures without an answer
	At     int64   `json:"at,omitempty"`     // of Level and Silent
	Rose   int64   `json:"rose,omitempty"`   // since when Level is above 0
	Open   bool    `json:"open,omitempty"`   // or half-open, from Until on
	Opened int64   `json:"opened,omitempty"`
	Closed int64   `json:"closed,omitempty"`
	Until  int64   `json:"until,omitempty"` // no probe before it
	Pause  int64   `json:"pause,omitempty"` // the present one
	Lease  int64   `json:"lease,omitempty"` // a probe is under way until it
	// Turn is when the last caller comes that was told to come for a probe, Spacing how
	// long after the one before.
	Turn     int64 `json:"turn,omitempty"`
	Spacing  int64 `json:"spacing,omitempty"`
	Patience int64 `json:"patience,omitempty"` // that the last opening took
	// Announced says that all who waited were told of the closing, AnnouncedBy until when a caller
	// has time to tell them.
	Announced   bool  `json:"announced,omitempty"`
	AnnouncedBy int64 `json:"announcedBy,omitempty"`
}

// admit is Admit at a time.
func (c *breaker) admit(now int64, n int, lease time.Duration) (granted int, wait time.Duration) {
	switch {
	case !c.Open:
		return n, 0
	case now < c.Until && c.Until <= now+maxPause.Milliseconds(): // it is later if a clock was set back
		return 0, c.turn(now, c.Until)
	case now < c.Lease:
		return 0, c.turn(now, max(now+c.Pause, min(c.Lease, now+maxPause.Milliseconds())))
	}
	c.Epoch++
	c.Lease = now + lease.Milliseconds()
	if n > 1 {
		wait = c.turn(now, now+c.nextPause())
	}
	return 1, wait
}

// turn is after what time a caller is to come again, not before earliest: for a probe that
// no other caller will come for, if that is not too far away.
func (c *breaker) turn(now, earliest int64) time.Duration {
	next, spacing := earliest, c.Pause
	if c.Turn >= now {
		spacing = min(2*c.Spacing, maxPause.Milliseconds())
		next = max(c.Turn+spacing, earliest)
	}
	if next-now > far.Milliseconds() {
		return maxPause + time.Duration(rand.Float64()*float64(2*far-maxPause))
	}
	c.Turn, c.Spacing = next, spacing
	return time.Duration(next-now) * time.Millisecond
}

func (c *breaker) nextPause() int64 { return min(2*c.Pause, maxPause.Milliseconds()) }

// reopen begins a longer pause after a probe that failed.
func (c *breaker) reopen(now int64) {
	c.Pause = c.nextPause()
	// The caller that comes for the next probe was told so when this one began.
	c.Until, c.Lease = now+c.Pause*3/4, 0
}

func (c *breaker) close(now int64) {
	*c = breaker{Epoch: c.Epoch + 1, At: now, Opened: c.Opened, Closed: now, Patience: c.Patience}
}

// tell tells whether the caller is to tell all who wait.
func (c *breaker) tell(now int64) bool {
	if c.Announced || now < c.AnnouncedBy {
		return false
	}
	c.AnnouncedBy = now + tellTime.Milliseconds()
	return true
}

// count takes over a tally, and opens the breaker if it is time to.
func (c *breaker) count(t tally, now int64) (opens bool) {
	if t.at > 0 && !c.Open {
		c.leak(min(t.begun, late(now)))
		c.Level, c.Silent = t.level.of(c.Level), t.silent.of(c.Silent)
		c.At = max(c.At, min(t.at, late(now)))
		if c.Level > 0 && c.Rose == 0 {
			c.Rose = t.failedAt
		}
	}
	c.leak(late(now))
	if c.Open {
		return false
	}
	patience := int64(1)
	if c.Closed > 0 && now-c.Closed < calm.Milliseconds() {
		patience = min(patienceGrows*max(c.Patience, 1), maxPatience)
	}
	trips := float64(tripLevel * patience)
	if c.Silent < trips && (c.Level < trips || now-c.Rose < answeredTime.Milliseconds()*patience) {
		return false
	}
	*c = breaker{
		Epoch: c.Epoch + 1, Open: true, At: c.At, Opened: now, Closed: c.Closed, Patience: patience,
		Pause: firstPause.Milliseconds(), Until: now + firstPause.Milliseconds(),
	}
	return true
}

// late is until when levels may have leaked: what other processes have seen since
// then may not be counted yet, and must find the level that there was.
func late(now int64) int64 { return now - syncEvery.Milliseconds() }

// leak brings the levels up to a time.
func (c *breaker) leak(until int64) {
	if until <= c.At {
		return
	}
	leaked := float64(until-c.At) * leakPerMilli
	c.Level, c.Silent, c.At = max(0, c.Level-leaked), max(0, c.Silent-leaked), until
	if c.Level == 0 {
		c.Rose = 0
	}
}

// most bounds the levels: successes must be able to bring them down.
func (c *breaker) most() float64 {
	return 2 * tripLevel * float64(min(patienceGrows*max(c.Patience, 1), maxPatience))
}

// tally is what has happened since the last count.
type tally struct {
	level, silent drift
	begun         int64 // when the first of it happened
	at            int64 // until when it has leaked
	failedAt      int64 // when the first failure happened
}

func (t *tally) alive(most float64, now int64) {
	t.leak(most, now)
	t.level.add(-successDrop, most)
	t.silent.add(-successDrop, most)
}

func (t *tally) failed(most float64, answered bool, now int64) {
	t.leak(most, now)
	if t.failedAt == 0 {
		t.failedAt = now
	}
	t.level.add(1, most)
	if !answered {
		t.silent.add(1, most)
	}
}

func (t *tally) leak(most float64, now int64) {
	if t.at == 0 {
		t.begun, t.at = now, now
	}
	if until := late(now); until > t.at {
		leaked := float64(until-t.at) * leakPerMilli
		t.level.add(-leaked, most)
		t.silent.add(-leaked, most)
		t.at = until
	}
}

// drift is the sum of steps that a level takes between 0 and a bound, whatever it
// begins with: so the order of successes and failures is not lost.
type drift struct {
	steps   bool
	sum     float64
	lowest  float64 // where the steps lead from 0
	highest float64 // where they lead from the bound
}

func (d *drift) add(step, most float64) {
	if !d.steps {
		d.steps, d.highest = true, most
	}
	d.sum += step
	d.lowest = min(max(0, d.lowest+step), most)
	d.highest = min(max(0, d.highest+step), most)
}

func (d drift) of(level float64) float64 {
	if !d.steps {
		return level
	}
	return min(max(d.lowest, level+d.sum), d.highest)
}
