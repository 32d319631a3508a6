package api

import "waypost"

// SubscriptionBody is a subscription as a client writes it.
type SubscriptionBody struct {
	Name string `json:"name" jsonschema:"required,minLength=1,maxLength=100"`
	// A webhook of the same stage.
	WebhookID string `json:"webhookId" jsonschema:"required,pattern=^whk_"`
	// The types that it is told.
	On []waypost.Happening `json:"on" jsonschema:"required,minItems=1,maxItems=7,uniqueItems=true"`
	// Only what happens in this journey; null for all. It cannot stand with `webhook.disabled`, `webhook.failing` and
	// `import.ended`, which no journey has.
	JourneyID *string `json:"journeyId" jsonschema:"pattern=^jrn_"`
}

// SubscriptionPatchBody has the members of `SubscriptionBody`; those that are absent stay.
type SubscriptionPatchBody SubscriptionBody

// Subscription is what has a webhook told what happens in its stage.
type Subscription struct {
	ID   string `json:"id" jsonschema:"pattern=^sub_"`
	Name string `json:"name" jsonschema:"minLength=1,maxLength=100"`
	// A webhook of the same stage.
	WebhookID string `json:"webhookId" jsonschema:"pattern=^whk_"`
	// The types that it is told.
	On []waypost.Happening `json:"on" jsonschema:"minItems=1,maxItems=7,uniqueItems=true"`
	// Only what happens in this journey; null for all. It cannot stand with `webhook.disabled`, `webhook.failing` and
	// `import.ended`, which no journey has.
	JourneyID TextOrNull `json:"journeyId" jsonschema:"pattern=^jrn_"`
	CreatedAt Time       `json:"createdAt"`
	UpdatedAt Time       `json:"updatedAt"`
}
