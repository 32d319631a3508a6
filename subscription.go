package waypost

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Subscription has a webhook told what happens in its scope (docs/subscriptions.md). What
// happened before it was created, or before it named the type, is not told.
type Subscription struct {
	ID        string
	Name      string
	WebhookID string
	On        []Happening
	JourneyID string // "" for all journeys
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Happening is a type of what subscriptions are told.
type Happening string

// What subscriptions are told.
const (
	EnrollmentEnded  Happening = "enrollment.ended"
	DeliveryFailure  Happening = "delivery.failed"  // given up, in each round of its own
	WebhookDisabled  Happening = "webhook.disabled" // by people, or because its receiver has answered 410
	WebhookFailing   Happening = "webhook.failing"  // its breaker has opened
	LaunchEnded      Happening = "launch.ended"     // each occurrence of a recurring one, too
	ImportEnded      Happening = "import.ended"
	JourneyPublished Happening = "journey.published" // a new version
)

// Happenings lists them.
var Happenings = []Happening{EnrollmentEnded, DeliveryFailure, WebhookDisabled, WebhookFailing, LaunchEnded, ImportEnded, JourneyPublished}

// OfJourney tells whether what happened belongs to a journey.
func (h Happening) OfJourney() bool {
	return h == EnrollmentEnded || h == DeliveryFailure || h == LaunchEnded || h == JourneyPublished
}

// Bounds of subscriptions.
const (
	MaxSubscriptions    = 100 // of a stage
	MaxSubscriptionName = 100 // characters
)

// Validate reports everything that is wrong with a subscription as one BadRequest. Whether
// its webhook and its journey exist is for the store to say.
func (s *Subscription) Validate() error {
	var p Problems
	checkRequired(&p, "name", s.Name, MaxSubscriptionName)
	switch {
	case s.WebhookID == "":
		p.Add(DetailNullValue, "webhookId", "is missing")
	case !IsID(PrefixWebhook, s.WebhookID):
		p.Add(DetailInvalidFormat, "webhookId", "must be the id of a webhook")
	}
	if s.JourneyID != "" && !IsID(PrefixJourney, s.JourneyID) {
		p.Add(DetailInvalidFormat, "journeyId", "must be the id of a journey")
	}
	if len(s.On) == 0 {
		p.Add(DetailNullValue, "on", "must name at least one of %s", joinHappenings(Happenings))
	}
	var foreign []Happening
	for i, h := range s.On {
		switch {
		case !slices.Contains(Happenings, h):
			p.Add(DetailOutOfRange, fmt.Sprintf("on[%d]", i), "must be one of %s", joinHappenings(Happenings))
		case slices.Contains(s.On[:i], h):
			p.Add(DetailDuplicate, fmt.Sprintf("on[%d]", i), "%s stands twice", h)
		case s.JourneyID != "" && !h.OfJourney():
			foreign = append(foreign, h)
		}
	}
	if len(foreign) > 0 {
		p.Add(DetailInvalidFormat, "journeyId", "cannot stand with %s, which no journey has; leave journeyId out, or make a subscription of its own for it", joinHappenings(foreign))
	}
	return p.Err("subscription")
}

func joinHappenings(list []Happening) string {
	names := make([]string, len(list))
	for i, h := range list {
		names[i] = string(h)
	}
	return strings.Join(names, ", ")
}

// SubscriptionMessage is the body of a message to a subscription, of the kind that the
// Standard Webhooks specification describes. The order of the members is the order on the
// wire.
type SubscriptionMessage struct {
	Type      Happening `json:"type"`
	Timestamp string    `json:"timestamp"` // RFC 3339 UTC, milliseconds: when it happened
	Data      any       `json:"data"`
}
