package waypost

import "time"

// WebhookTraffic is what a webhook's deliveries tell about its receiver: how many wait, and
// how attempts of the last day ended.
type WebhookTraffic struct {
	Retrying     int       // failed, another attempt will come; up to MaxWaiting
	Deferred     []Waiting // held back, by reason
	Hour, Day    AttemptStats
	LastSuccess  time.Time       // zero: none in 24 hours
	LastErrors   []FailedAttempt // newest first
	SampledSince time.Time       // zero: all attempts are counted; else none before it, nor those of messages made before it
}

// MaxWaiting bounds how many waiting deliveries are counted, so that a count costs the same
// however many there are.
const MaxWaiting = 10_000

// Waiting counts deliveries that are deferred for one reason.
type Waiting struct {
	Reason string
	Count  int       // up to MaxWaiting
	Since  time.Time // when the first of them began to wait
}

// AttemptStats are attempts of some time up to now. Those that say nothing about
// the receiver (ClassRender, ClassInterrupted) are not among them.
type AttemptStats struct {
	Attempts, Succeeded int
	Errors              map[string]int // failed ones by error class
	P50, P95, P99, Max  time.Duration  // how long they took, failed ones too
}

// FailedAttempt is an attempt that did not succeed. It has no text: that of the
// receiver may hold personal data.
type FailedAttempt struct {
	MessageID  string
	Attempt    int
	At         time.Time
	HTTPStatus int // 0: no answer
	ErrorClass string
	DurationMs int64
}

// BreakerState is where the circuit breaker of a webhook stands.
type BreakerState struct {
	State string // closed, open (all deliveries wait), halfOpen (one may go as a probe, or does), or BreakerUnknown
	// Since is when it opened or closed, zero for one that has not been open of late.
	Since time.Time
	// NextProbe is before when no attempt is made, zero if one may be, or is under way.
	NextProbe time.Time
}

// BreakerUnknown is the state of a breaker while Redis, which has it, is away.
const BreakerUnknown = "unknown"
