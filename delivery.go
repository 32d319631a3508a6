package waypost

import "time"

// DeliveryStatus is where the delivery of one message stands.
type DeliveryStatus string

// The states of a delivery. Succeeded, failed and canceled are final.
const (
	DeliveryPending   DeliveryStatus = "pending"   // stored, first attempt under way
	DeliveryRetrying  DeliveryStatus = "retrying"  // failed, another attempt will come
	DeliveryDeferred  DeliveryStatus = "deferred"  // held back without an attempt
	DeliverySucceeded DeliveryStatus = "succeeded" // the receiver took it
	DeliveryFailed    DeliveryStatus = "failed"    // given up
	DeliveryCanceled  DeliveryStatus = "canceled"
)

// Final tells whether no further attempt will come by itself.
func (s DeliveryStatus) Final() bool {
	return s == DeliverySucceeded || s == DeliveryFailed || s == DeliveryCanceled
}

// Why a delivery is deferred.
const (
	DeferWebhookDisabled = "webhookDisabled"
	DeferPaused          = "paused"         // the enrollment, its launch or its journey is paused
	DeferRateLimit       = "rateLimit"      // the webhook's rateLimit is used up
	DeferMaxConcurrency  = "maxConcurrency" // as many POSTs as the webhook may have are under way
	DeferBreaker         = "breakerOpen"    // the receiver is down
	DeferUnreadable      = "unreadable"     // what it needs (its message, a secret of the webhook) cannot be decrypted: a key is missing
)

// Delivery is the record of one message: of one touchpoint of one enrollment, or of what a
// subscription is told. The latter has no enrollment, journey, node and lead.
type Delivery struct {
	MessageID      string         `json:"messageId"`
	SubscriptionID string         `json:"subscriptionId"` // "" of a touchpoint
	EnrollmentID   string         `json:"enrollmentId"`
	JourneyID      string         `json:"journeyId"`
	JourneyVersion int            `json:"journeyVersion"`
	NodeID         string         `json:"nodeId"`
	WebhookID      string         `json:"webhookId"`
	LaunchID       string         `json:"-"` // "" without a launch
	LeadsID        int64          `json:"leadsId"`
	Status         DeliveryStatus `json:"status"`
	DeferredReason string         `json:"deferredReason"`
	Succeed        *bool          `json:"succeed"` // nil until decided
	Message        string         `json:"message"`
	HTTPStatus     int            `json:"httpStatus"` // of the last attempt, 0: no answer
	ErrorClass     string         `json:"errorClass"` // of the last attempt, "": it succeeded, or there was none
	Attempts       int            `json:"attempts"`   // of all rounds
	NextAttemptAt  *time.Time     `json:"nextAttemptAt"`
	FirstAttemptAt *time.Time     `json:"firstAttemptAt"` // of the current round
	LastAttemptAt  *time.Time     `json:"lastAttemptAt"`
	DurationMs     int64          `json:"durationMs"` // of the last attempt
	GaveUp         GaveUp         `json:"gaveUp"`     // of a failed one
	// BodyUnreadable says, where the body of the message is read, that it is stored and
	// cannot be decrypted.
	BodyUnreadable bool `json:"-"`
}

// Attempt is the record of one POST.
type Attempt struct {
	Attempt         int       `json:"attempt"` // from 1, through all rounds
	Round           int       `json:"round"`   // 1, and one more for each redelivery
	At              time.Time `json:"at"`
	HTTPStatus      int       `json:"httpStatus"`
	ErrorClass      string    `json:"errorClass"`
	Message         string    `json:"message"`
	DurationMs      int64     `json:"durationMs"`
	ResponseExcerpt string    `json:"responseExcerpt"`
	GaveUp          GaveUp    `json:"gaveUp"` // "" unless the delivery failed with this attempt
}

// DeliveryFilter selects deliveries. Zero members do not filter.
type DeliveryFilter struct {
	JourneyID, NodeID, WebhookID, EnrollmentID, LaunchID, SubscriptionID string

	LeadsID    int64
	Statuses   []DeliveryStatus // any of them
	ErrorClass string           // of the last attempt, as HTTPStatus is
	HTTPStatus int
	From, To   time.Time // of the message's creation; To is exclusive
}

// DeliveryGroupings are what deliveries can be grouped by.
var DeliveryGroupings = []string{GroupErrorClass, GroupHTTPStatus, GroupWebhookID, GroupNodeID}

// What deliveries can be grouped by.
const (
	GroupErrorClass = "errorClass"
	GroupHTTPStatus = "httpStatus"
	GroupWebhookID  = "webhookId"
	GroupNodeID     = "nodeId"
)

// MaxDeliveryGroups bounds the groups of a summary: those of the most deliveries.
const MaxDeliveryGroups = 500

// DeliveryGroup is a group of deliveries that agree in what they are grouped by.
type DeliveryGroup struct {
	Count  int
	Sample Delivery // the newest of them
}

// Page asks for one page of a list, newest first: at most Limit rows that
// follow After, the id of the last row of the page before.
type Page struct {
	After string
	Limit int
}

// Page sizes of lists (docs/contract.md, "Lists").
const (
	DefaultPageSize = 50
	MaxPageSize     = 500
)
