package waypost

import "time"

// Webhook is a channel: where and how touchpoints that name it are sent
// (journey webhook document, "Setup steps").
type Webhook struct {
	ID             string         `json:"id"`
	Name           string         `json:"name"`
	URL            string         `json:"url"`
	BasicAuth      *BasicAuth     `json:"basicAuth"`
	Params         map[string]any `json:"params"`    // strings are Liquid templates, or numbers
	TimeoutMs      int            `json:"timeoutMs"` // the whole exchange, body included
	Retry          Retry          `json:"retry"`
	RateLimit      *RateLimit     `json:"rateLimit"`      // nil: no limit
	MaxConcurrency int            `json:"maxConcurrency"` // 0: no cap of its own
	Enabled        bool           `json:"enabled"`
	// DisabledReason says why Waypost itself disabled it ("410"), "" otherwise.
	DisabledReason string    `json:"disabledReason"`
	SigningSecret  string    `json:"-"` // Standard Webhooks headers when set
	CreatedAt      time.Time `json:"createdAt"`
	UpdatedAt      time.Time `json:"updatedAt"`
}

// BasicAuth is the user name and password that a webhook's requests carry. The
// password is stored encrypted and never answered.
type BasicAuth struct {
	Username string `json:"username"`
	Password string `json:"-"`
}

// RateLimit bounds the requests to one webhook over all workers.
type RateLimit struct {
	PerSecond float64 `json:"perSecond"`
	Burst     int     `json:"burst"`
}

// Retry says when a failed attempt is followed by another one (contract,
// chapter 6).
type Retry struct {
	Schedule       []Duration `json:"schedule"`    // the last entry repeats
	MaxAttempts    int        `json:"maxAttempts"` // 0: no bound but GiveUpAfter
	GiveUpAfter    Duration   `json:"giveUpAfter"` // from the first attempt
	Jitter         float64    `json:"jitter"`      // 0.2: each wait is 80 to 120 % of its entry
	On             []string   `json:"on"`          // RetryOn… values
	OnSucceedFalse bool       `json:"onSucceedFalse"`
}

// What Retry.On can hold. A three-digit status such as "409" is allowed too.
const (
	RetryOnNetwork = "network" // also TLS faults
	RetryOnTimeout = "timeout"
	RetryOn5xx     = "5xx"
)

// DefaultRetry is the retry of a webhook that does not say otherwise: 72 hours
// over a schedule that grows from five seconds to twelve hours.
func DefaultRetry() Retry {
	s := func(d time.Duration) Duration { return Duration(d) }
	return Retry{
		Schedule: []Duration{
			s(5 * time.Second), s(30 * time.Second), s(2 * time.Minute), s(10 * time.Minute), s(30 * time.Minute),
			s(time.Hour), s(2 * time.Hour), s(4 * time.Hour), s(8 * time.Hour), s(12 * time.Hour),
		},
		GiveUpAfter: s(72 * time.Hour),
		Jitter:      0.2,
		On:          []string{RetryOnNetwork, RetryOnTimeout, "408", "425", "429", RetryOn5xx},
	}
}

// Defaults and bounds of a webhook.
const (
	DefaultTimeoutMs = 15_000
	MinTimeoutMs     = 10
	MaxTimeoutMs     = 120_000
	// MaxRetryAfter caps what a receiver's Retry-After can ask for.
	MaxRetryAfter = 24 * time.Hour
)
