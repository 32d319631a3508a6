package waypost

import (
	"encoding/json"
	"time"
)

// JourneyStatus is where a journey stands.
type JourneyStatus string

// The states of a journey.
const (
	JourneyDraft    JourneyStatus = "draft"  // never published
	JourneyActive   JourneyStatus = "active" // has a published version
	JourneyPaused   JourneyStatus = "paused"
	JourneyArchived JourneyStatus = "archived"
)

// Bounds of a journey's tags.
const (
	MaxTags = 20
	MaxTag  = 40 // characters of one
)

// JourneyFilter selects journeys. Empty members do not filter.
type JourneyFilter struct {
	Name      string // prefix, case aside
	Status    JourneyStatus
	Tag       string // of the draft
	WebhookID string // that the draft or a published version names
}

// Namesake is what another stage has of the name of a webhook or a journey.
type Namesake struct {
	Name string
	ID   string // of one of them, if there are any
	N    int    // how many there are
}

// Journey is a journey with its draft. The definition's language is package
// journey's.
type Journey struct {
	ID               string          `json:"id"`
	Name             string          `json:"name"`
	Draft            json.RawMessage `json:"draft"`
	PublishedVersion int             `json:"publishedVersion"` // 0: none
	Status           JourneyStatus   `json:"status"`
	CreatedAt        time.Time       `json:"createdAt"`
	UpdatedAt        time.Time       `json:"updatedAt"`
}

// Publication is a definition that was checked, as it becomes a version.
type Publication struct {
	Name       string
	Hash       string // of the definition: the same one is not published twice in a row
	Definition []byte
	Webhooks   []string // ids of those that the definition names
	Entry      []EntryRule
}

// JourneyVersion is a published, immutable definition.
type JourneyVersion struct {
	Scope       Scope           `json:"-"`
	JourneyID   string          `json:"journeyId"`
	Version     int             `json:"version"` // from 1
	Name        string          `json:"name"`
	Hash        string          `json:"-"` // of the canonical definition
	Definition  json.RawMessage `json:"definition"`
	PublishedAt time.Time       `json:"publishedAt"`
	Created     bool            `json:"-"` // made by the call that returns it
}
