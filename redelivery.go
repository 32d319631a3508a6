package waypost

import "time"

// RedeliveryStatus is where a bulk redelivery stands.
type RedeliveryStatus string

// The states of a bulk redelivery. The last three are final.
const (
	RedeliveryPending   RedeliveryStatus = "pending"   // accepted, nothing is looked at yet
	RedeliveryRunning   RedeliveryStatus = "running"   // looks for messages, or some of them are not decided
	RedeliveryCompleted RedeliveryStatus = "completed" // every message is decided or skipped
	RedeliveryCanceled  RedeliveryStatus = "canceled"  // nothing more is sent; what was delivered stays so
	RedeliveryFailed    RedeliveryStatus = "failed"    // it cannot go on; Message says why
)

// Ended tells whether the redelivery will look for no further message.
func (s RedeliveryStatus) Ended() bool {
	return s == RedeliveryCompleted || s == RedeliveryCanceled || s == RedeliveryFailed
}

// Redelivery sends many messages once more: those of the deliveries that match its
// filter and were decided when it was created, each in a new round of attempts
// (docs/contract.md, "Redeliveries").
type Redelivery struct {
	ID     string
	Scope  Scope
	AppID  string // the application that asked for it
	Filter DeliveryFilter
	Status RedeliveryStatus
	// Message says why it failed, "" otherwise.
	Message string
	Total   int // deliveries that match, counted when it begins; 0 until then
	// Redelivered counts deliveries that got a new round, Skipped those that could not:
	// they were being delivered again, have no stored message, or their lead or webhook
	// was deleted.
	Redelivered int
	Skipped     int
	// Succeeded, Failed and Canceled count the rounds that have ended, of Redelivered.
	Succeeded int
	Failed    int
	Canceled  int
	CreatedAt time.Time
	StartedAt *time.Time
	EndedAt   *time.Time // when the last message was decided, or of the cancel
}

// Round names one round of attempts of a touchpoint's message: 1 is the one that
// its journey waits for, every redelivery is one more.
type Round struct {
	Touchpoint
	Round int
}

// RedeliveryBatch is a group of messages, of any journeys and webhooks of a scope,
// that one workflow redelivers: a single one, or up to MaxCohort of a bulk
// redelivery; or up to MaxCohort new messages of subscriptions, in their first round. ID is
// the workflow's id.
type RedeliveryBatch struct {
	ID           string
	RedeliveryID string // "" for a message that was redelivered by itself
	Scope        Scope
	Members      []RedeliveryMember
}

// RedeliveryMember is one message of a batch. Of a subscription's, EnrollmentID is the
// subscription's id and Visit the number of what it is told; it has no journey and no lead.
type RedeliveryMember struct {
	EnrollmentID string `json:"enrollment"`
	Visit        int    `json:"visit"`
	Round        int    `json:"round"`
	MessageID    string `json:"message"`
	JourneyID    string `json:"journey"`
	WebhookID    string `json:"webhook"`
	LeadsID      int64  `json:"lead"`
}
