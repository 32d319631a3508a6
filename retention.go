package waypost

import "time"

// Retention says how long records are kept after their end; 0 is for ever. With an enrollment
// its deliveries are dropped, with those their attempts and messages: the shorter of two ages
// holds.
type Retention struct {
	// Messages, what receivers answered, params, who a launch was for, why rows of
	// imports failed, and which leads imports have created or updated.
	Payloads    time.Duration
	Attempts    time.Duration // all attempts of a delivery but the last
	Deliveries  time.Duration
	Enrollments time.Duration
	Events      time.Duration
	EventCounts time.Duration // of the events of leads by day: as long as Events at least
	Audit       time.Duration // entries of the audit log
}

// Kinds of dropped records, in the order in which a sweep drops them.
const (
	DropPayload     = "payload"
	DropParams      = "params" // of enrollments
	DropFilter      = "filter" // personal members of a launch's
	DropImport      = "import" // one that never ended, with its rows
	DropImportError = "importError"
	DropImportLead  = "importLead" // which leads an import has created or updated
	DropAttempt     = "attempt"
	DropDelivery    = "delivery"
	DropEnrollment  = "enrollment"
	DropEvent       = "event"
	DropEventDay    = "eventDay" // how many events of a name a lead has had on a day
	DropAudience    = "audience" // the leads that a launch lists
	DropAnswer      = "answer"   // kept for an Idempotency-Key
	DropWebhookHour = "webhookHour"
	DropJourneyHour = "journeyHour" // of the statistics of a journey
	DropAudit       = "audit"
	// Messages to subscriptions belong to no enrollment.
	DropSubscriptionPayload  = "subscriptionPayload"
	DropSubscriptionDelivery = "subscriptionDelivery" // with its attempts
)

// DropKinds lists them.
var DropKinds = []string{
	DropPayload, DropParams, DropFilter, DropImport, DropImportError, DropImportLead, DropAttempt, DropDelivery, DropEnrollment, DropEvent, DropEventDay, DropAudience, DropAnswer,
	DropWebhookHour, DropJourneyHour, DropAudit, DropSubscriptionPayload, DropSubscriptionDelivery,
}

// Age is how long things of a kind are kept; 0 is for ever.
func (r Retention) Age(kind string) time.Duration {
	deliveries := shorter(r.Deliveries, r.Enrollments)
	switch kind {
	case DropPayload:
		return shorter(r.Payloads, deliveries)
	case DropParams:
		return shorter(r.Payloads, r.Enrollments)
	case DropFilter, DropImport, DropImportError, DropImportLead:
		return r.Payloads
	case DropAttempt:
		return shorter(r.Attempts, deliveries)
	case DropDelivery:
		return deliveries
	case DropEnrollment, DropAudience:
		return r.Enrollments
	case DropAnswer:
		return KeyLife
	case DropWebhookHour, DropJourneyHour:
		return HistoryAge
	case DropEventDay:
		return r.EventAges().Counts
	case DropAudit:
		return r.Audit
	case DropSubscriptionPayload:
		return shorter(r.Payloads, r.Deliveries)
	case DropSubscriptionDelivery:
		return r.Deliveries
	}
	return r.Events
}

// EventAges says how far back conditions see events.
func (r Retention) EventAges() EventAges {
	counts := r.EventCounts
	if r.Events == 0 || counts > 0 && counts < r.Events {
		counts = r.Events
	}
	return EventAges{Events: r.Events, Counts: counts}
}

func shorter(a, b time.Duration) time.Duration {
	if a == 0 || b > 0 && b < a {
		return b
	}
	return a
}

// HistoryAge is how long the hours of a webhook's history are kept, which is the longest span
// of it that is asked for, and those of a journey's statistics, whose days stay.
const HistoryAge = 90 * 24 * time.Hour

// Dropped is what one step of a sweep did.
type Dropped struct {
	Kind string // a Drop… value
	N    int
	// Next is where the next step goes on, "" if the sweep is over.
	Next string
}

// DroppedCounts counts what was dropped of a journey, by how it had ended.
type DroppedCounts struct {
	Enrollments map[EnrollmentStatus]int `json:"enrollments"`
	Deliveries  map[DeliveryStatus]int   `json:"deliveries"`
}
