package delivery

import (
	"fmt"
	"slices"
	"time"

	"waypost"
	"waypost/journey"
)

// What a delivery of a batch came to, as WaypostOutcome names it.
const (
	OutcomeDelivered = "delivered"
	OutcomeRetrying  = "retrying"
	OutcomeDeferred  = "deferred"
	OutcomeFailed    = "failed"
	OutcomeSkipped   = "skipped" // see waypost.SkipReasons
	// OutcomeUnderWay says that the receiver has not answered yet. The POST goes on;
	// the next batch that names the enrollment learns its end.
	OutcomeUnderWay = "underWay"
	// How an enrollment has ended of which nothing more is sent.
	OutcomeCanceled = "canceled"
	OutcomeExited   = "exited" // by an event; the reason says which
)

// Result is what a batch tells the workflow about one enrollment. It holds no
// personal data: it stands in the history.
type Result struct {
	// The Web UI's row shows the beginning of a result: what matters comes first.
	Outcome string `json:"outcome"`
	Attempt int    `json:"attempt"`
	// Reason is an error class, with the HTTP status if that is why, or the reason
	// of a deferral, a skip or an exit.
	Reason       string    `json:"reason,omitempty"`
	Next         time.Time `json:"next,omitzero"` // when to send a batch with it again
	LeadsID      int64     `json:"lead"`
	EnrollmentID string    `json:"enrollment"`
	MessageID    string    `json:"message,omitempty"`
	At           time.Time `json:"at"`
	// Exited says of a journey's last touchpoint that an event has ended the enrollment
	// before it was decided.
	Exited bool `json:"exited,omitempty"`
}

// Decided tells whether the touchpoint is over.
func (d Result) Decided() bool {
	switch d.Outcome {
	case OutcomeDelivered, OutcomeFailed, OutcomeSkipped, OutcomeCanceled, OutcomeExited:
		return true
	}
	return false
}

// Input is what a delivery that is decided or deferred means to the interpreter.
func (d Result) Input() journey.Input {
	switch d.Outcome {
	case OutcomeDeferred:
		return journey.Input{Kind: journey.InputDeferred, At: d.At, Reason: d.Reason}
	case OutcomeSkipped:
		return journey.Input{Kind: journey.InputSkipped, At: d.At, Reason: d.Reason}
	case OutcomeCanceled:
		return journey.Input{Kind: journey.InputCanceled, At: d.At}
	case OutcomeExited:
		return journey.Input{Kind: journey.InputExited, At: d.At, Reason: d.Reason}
	}
	return journey.Input{Kind: journey.InputSent, At: d.At, Succeed: d.Outcome == OutcomeDelivered, Reason: d.Reason}
}

// recorded answers for an item from what is stored.
func (r *run) recorded(it *item, s Sending) Result {
	if s.Status == waypost.DeliveryCanceled && slices.Contains(waypost.SkipReasons, s.DeferredReason) {
		return r.answer(it, s, OutcomeSkipped, s.DeferredReason, time.Time{})
	}
	d := r.answer(it, s, outcomeOf(s.Status), reasonOf(s.Succeed, s.ErrorClass, s.HTTPStatus), s.NextAttemptAt)
	if !s.DecidedAt.IsZero() {
		d.At = s.DecidedAt
	}
	return d
}

func (r *run) answer(it *item, s Sending, outcome, reason string, next time.Time) Result {
	return Result{
		EnrollmentID: it.EnrollmentID, LeadsID: it.LeadsID, MessageID: s.MessageID,
		Outcome: outcome, Attempt: s.Attempts, Reason: reason, Next: next,
		At: r.now().UTC().Truncate(time.Millisecond),
	}
}

// outcomeOf names the state that an attempt left a delivery in.
func outcomeOf(s waypost.DeliveryStatus) string {
	switch s {
	case waypost.DeliverySucceeded:
		return OutcomeDelivered
	case waypost.DeliveryRetrying:
		return OutcomeRetrying
	case waypost.DeliveryCanceled:
		return OutcomeCanceled
	}
	return OutcomeFailed
}

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

// transition is where a result leads the enrollment.
type transition struct {
	after   journey.State
	entries []waypost.TimelineEntry
}

// step tells where a decided or deferred delivery leads, once for each result: the item or the
// flight carries the answer on. The workflow computes the same from the same values; computing it
// here too lets the outcome and its consequences be written in one transaction. A redelivery
// leads nowhere.
func (r *run) step(i Item, d Result) (transition, error) {
	if i.redelivers() {
		return transition{after: i.State}, nil
	}
	after, effect, err := journey.Step(r.version.Definition, i.State, d.Input())
	if err != nil {
		return transition{}, fmt.Errorf("step enrollment %s: %w", i.EnrollmentID, err)
	}
	return transition{after, effect.Entries}, nil
}
