package delivery

import (
	"time"

	"waypost"
)

// Sending is a stored delivery as the sender needs it.
type Sending struct {
	MessageID      string
	Body           []byte // nil until the message is rendered
	Unreadable     error  // why Body is nil though the message is stored
	Status         waypost.DeliveryStatus
	Succeed        bool      // meaningful once Status is final
	HTTPStatus     int       // of the last attempt
	ErrorClass     string    // of the last attempt
	Round          int       // 1, and one more for each redelivery
	Attempts       int       // recorded in all rounds
	Before         int       // of Attempts, those of earlier rounds
	FirstAttemptAt time.Time // of the round
	DecidedAt      time.Time // end of the attempt that made it final, zero before
	NextAttemptAt  time.Time // of a retrying or deferred one
	DeferredReason string
	DeferredSince  time.Time
	// Open is the attempt that began and has no recorded end, nil if there is none.
	Open *OpenAttempt
	// Held says that an opening had no effect because the enrollment is paused,
	// canceled or exited; of a redelivery, because that was canceled or the lead
	// deleted.
	Held bool
	// Skipped says why an opening had no effect, if that is because of its Cap or its Channel:
	// one of waypost.SkipReasons. The touchpoint is skipped for good.
	Skipped string
}

// OpenAttempt is an attempt whose POST may be under way: it was opened before
// the POST, so that a crash in between is seen.
type OpenAttempt struct {
	Attempt int
	At      time.Time
	By      string // the process that opened it
}

// Opening opens an attempt, and stores the message first if it is the first
// one. It takes effect only if the delivery is not final, has exactly Attempt-1
// attempts recorded, and no other attempt is open (save one that Interrupts
// names): of two runs of the same batch, one opens it. It has none if the
// enrollment is paused, canceled or exited by then, the delivery is in another
// round, its stored message cannot be read, or a Cap or its Channel forbids it.
type Opening struct {
	waypost.Touchpoint
	Round int // 0 is the first
	// Delivery holds what a new row needs: MessageID, JourneyID, JourneyVersion,
	// NodeID, WebhookID, LeadsID, LaunchID. It is ignored where the row exists.
	Scope    waypost.Scope
	Delivery waypost.Delivery
	Body     []byte // nil keeps the stored one
	Attempt  int
	At       time.Time
	By       string
	// Interrupts is true if an attempt left open by a process that has ended is to
	// be recorded as interrupted first; Attempt is then the one after it.
	Interrupts bool
	// Cap holds for a first attempt: it is not opened if the lead has got that many
	// touchpoints, counting those of this call, and not those that were given up or
	// canceled. Instead Skipped is recorded, and the delivery, if there is one, is canceled
	// with waypost.SkipFrequencyCap as its reason. All openings of a touchpoint have the same.
	Cap waypost.FrequencyCap
	// Channel is the webhook's. If it is set, the attempt is not opened for a lead that is
	// suppressed there or, with NeedsConsent, has not agreed to it. Instead Skipped is recorded,
	// and the delivery, which is made if there is none, is canceled with the reason.
	Channel      string
	NeedsConsent bool
	// Seq is that of the last entry of the enrollment's timeline before what comes of the touchpoint.
	Seq int
	// Skipped tells what to record of the enrollment if the touchpoint is skipped for a reason; nil if
	// nothing is. It may be called again, where a transaction is.
	Skipped func(reason string) (*waypost.Progress, error)
}

// SkippedFor is the progress of a touchpoint that is skipped for a reason; nil if there is none.
func (o Opening) SkippedFor(reason string) (*waypost.Progress, error) {
	if o.Skipped == nil {
		return nil, nil
	}
	return o.Skipped(reason)
}

// AttemptRecord is the end of an attempt: the attempt's row, the delivery's new
// state and what the enrollment goes on with, written in one transaction.
// Recording the same (message, round, attempt) again changes nothing, save that a
// real outcome replaces "interrupted".
type AttemptRecord struct {
	waypost.Touchpoint
	Scope     waypost.Scope
	MessageID string
	// Delivery is used as in Opening, for a touchpoint that failed before any
	// attempt was opened (render); its row is then made here.
	Delivery      waypost.Delivery
	Round         int
	Attempt       int
	Outcome       waypost.Outcome
	Status        waypost.DeliveryStatus // after the attempt
	NextAttemptAt time.Time              // of a retrying one
	GaveUp        waypost.GaveUp         // of a failed one
	Progress      *waypost.Progress      // nil while undecided
}

// Deferral holds a delivery back without an attempt.
type Deferral struct {
	waypost.Touchpoint
	Round    int // 0 is the first
	Scope    waypost.Scope
	Delivery waypost.Delivery // as in Opening
	Reason   string           // waypost.Defer… values
	At       time.Time
	Until    time.Time         // when it is looked at again
	Progress *waypost.Progress // the timeline's "deferred" entry, nil if there is none
}

// Briefing is what first messages of a touchpoint are decided by, read at one moment.
type Briefing struct {
	Enrollments map[string]waypost.Enrollment
	Leads       map[int64]waypost.Lead // of the scope
	// Controlled tells whether any of the enrollments, or others that were made between
	// them, or their launch or journey has controls, be they over or not.
	Controlled bool
	// Suppressed are the leads that are suppressed in the webhook's channel.
	Suppressed map[int64]bool
	// WebhookUpdatedAt is zero if the scope has no such webhook.
	WebhookUpdatedAt time.Time
}
