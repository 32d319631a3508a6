package waypost

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/url"
	"strings"
	"time"
)

// WebhookFilter selects webhooks. Empty members do not filter.
type WebhookFilter struct {
	Name    string // prefix, case aside
	Enabled *bool
}

// Webhook is a channel: where and how touchpoints that name it are sent
// (docs/contract.md, "Webhook members").
type Webhook struct {
	ID             string         `json:"id"`
	Name           string         `json:"name"`
	URL            string         `json:"url"`
	BasicAuth      *BasicAuth     `json:"basicAuth"`
	TLS            *TLS           `json:"tls"`       // nil: the system's authorities, no certificate
	Params         map[string]any `json:"params"`    // strings are Liquid templates, or numbers
	TimeoutMs      int            `json:"timeoutMs"` // the whole exchange, body included
	Retry          Retry          `json:"retry"`
	RateLimit      *RateLimit     `json:"rateLimit"`      // nil: no limit
	MaxConcurrency int            `json:"maxConcurrency"` // 0: no cap of its own
	// Channel is what the webhook sends by, such as sms, "" if it does not say. Suppressions
	// and consents are of a channel.
	Channel         string `json:"channel"`
	RequiresConsent bool   `json:"requiresConsent"` // only leads that agree to the channel get messages
	Enabled         bool   `json:"enabled"`
	// DisabledReason says why Waypost itself disabled it ("410"), "" otherwise.
	DisabledReason string `json:"disabledReason"`
	SigningSecret  string `json:"-"` // Standard Webhooks headers when set
	// The secret before it also signs for SigningOverlap from SigningRotatedAt on.
	PreviousSigningSecret string    `json:"-"`
	SigningRotatedAt      time.Time `json:"-"`
	SigningOverlap        Duration  `json:"signingOverlap"`
	// Unreadable are the secrets that are stored and cannot be decrypted: they are "" here.
	// An update leaves them as they are stored until it sets them, or takes them out here.
	Unreadable UnreadableSecrets `json:"-"`
	CreatedAt  time.Time         `json:"createdAt"`
	UpdatedAt  time.Time         `json:"updatedAt"`
}

// UnreadableSecrets says of each secret of a webhook why it cannot be decrypted, nil if
// it can be or there is none.
type UnreadableSecrets struct {
	Password, ClientKey, SigningSecret, PreviousSigningSecret error
}

// Members lists them by the paths of their members.
func (u UnreadableSecrets) Members() []string {
	members := []string{}
	for _, s := range []struct {
		member string
		why    error
	}{
		{"basicAuth.password", u.Password}, {"tls.clientKey", u.ClientKey},
		{"signingSecret", u.SigningSecret}, {"previousSigningSecret", u.PreviousSigningSecret},
	} {
		if s.why != nil {
			members = append(members, s.member)
		}
	}
	return members
}

// UnreadableAt are the unreadable secrets that requests need at a time: a previous
// signing secret may be over.
func (w *Webhook) UnreadableAt(at time.Time) UnreadableSecrets {
	u := w.Unreadable
	if !at.Before(w.PreviousSigningUntil()) {
		u.PreviousSigningSecret = nil
	}
	return u
}

// Sendable tells why nothing can be sent to the webhook at a time: a secret cannot be
// decrypted that requests need then. nil if it can be sent to.
func (w *Webhook) Sendable(at time.Time) error {
	u := w.UnreadableAt(at)
	if u == (UnreadableSecrets{}) {
		return nil
	}
	return fmt.Errorf("read %s: %w", strings.Join(u.Members(), ", "), cmp.Or(u.Password, u.ClientKey, u.SigningSecret, u.PreviousSigningSecret))
}

// Circuit names the webhook's receiver for its circuit breaker: with another scheme,
// host or TLS setting it is another one.
func (w *Webhook) Circuit() string {
	circuit := w.ID + "/"
	if u, err := url.Parse(w.SentURL()); err == nil {
		circuit += u.Scheme + "://" + u.Host
	}
	if w.TLS != nil { // the key belongs to the certificate
		sum := sha256.Sum256([]byte(w.TLS.CACertificate + "\x00" + w.TLS.ClientCertificate))
		circuit += "/" + hex.EncodeToString(sum[:8])
	}
	return circuit
}

// SetSigningSecret sets the secret that requests are signed with, "" for none. The
// one that it replaces signs beside it until SigningOverlap is over, so that the
// receiver can change it at any time meanwhile; of two replacements in that time
// only the later one's predecessor.
func (w *Webhook) SetSigningSecret(secret string, now time.Time) {
	if secret == w.SigningSecret {
		return
	}
	w.PreviousSigningSecret, w.SigningRotatedAt, w.Unreadable.PreviousSigningSecret = "", time.Time{}, nil
	if secret != "" && w.SigningSecret != "" {
		w.PreviousSigningSecret, w.SigningRotatedAt = w.SigningSecret, now
	}
	w.SigningSecret = secret
}

// PreviousSigningUntil is when the previous secret ceases to sign, zero if there is
// none.
func (w *Webhook) PreviousSigningUntil() time.Time {
	if w.PreviousSigningSecret == "" && w.Unreadable.PreviousSigningSecret == nil {
		return time.Time{}
	}
	return w.SigningRotatedAt.Add(time.Duration(w.SigningOverlap))
}

// SigningSecrets are the secrets that sign at a time, the newest first.
func (w *Webhook) SigningSecrets(at time.Time) []string {
	var secrets []string
	if w.SigningSecret != "" {
		secrets = append(secrets, w.SigningSecret)
	}
	if w.PreviousSigningSecret != "" && at.Before(w.PreviousSigningUntil()) {
		secrets = append(secrets, w.PreviousSigningSecret)
	}
	return secrets
}

// Unwanted says why a touchpoint must not be sent to a lead, which is suppressed in the channel
// or not; "" if it may be.
func (w *Webhook) Unwanted(lead *LeadFields, suppressed bool) (reason string) {
	switch {
	case w.Channel == "":
		return ""
	case suppressed:
		return SkipSuppressed
	case w.RequiresConsent && !lead.Agrees(w.Channel):
		return SkipConsent
	}
	return ""
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

// Retry says when a failed attempt is followed by another one
// (docs/contract.md, "Retries"). openapi.yaml has its limits, and its comments, from here.
type Retry struct {
	// The waits between attempts, 1ms to 720h; the last entry repeats.
	Schedule []Duration `json:"schedule" jsonschema:"minItems=1,maxItems=50"`
	// 0: no bound.
	MaxAttempts int `json:"maxAttempts" jsonschema:"minimum=0,maximum=10000"`
	// From the first attempt; up to 2160h. A wait that would outlast it ends with it, for a last attempt.
	GiveUpAfter Duration `json:"giveUpAfter"`
	// 0.2: each wait is 80 to 120 % of its entry.
	Jitter float64   `json:"jitter" jsonschema:"minimum=0,maximum=1"`
	On     []RetryOn `json:"on" jsonschema:"maxItems=50"`
	// Whether 200 with `succeed: false` is retried.
	OnSucceedFalse bool `json:"onSucceedFalse"`
}

// RetryOn is a kind of failure, or a three-digit status such as "409".
type RetryOn string

// The kinds of failures.
const (
	RetryOnNetwork RetryOn = "network" // also TLS faults
	RetryOnTimeout RetryOn = "timeout"
	RetryOn5xx     RetryOn = "5xx"
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
		On:          []RetryOn{RetryOnNetwork, RetryOnTimeout, "408", "425", "429", RetryOn5xx},
	}
}

// Defaults and bounds of a webhook.
const (
	DefaultTimeoutMs = 15_000
	MinTimeoutMs     = 10
	MaxTimeoutMs     = 120_000
	// DefaultSigningOverlap is how long a replaced signing secret goes on signing.
	DefaultSigningOverlap = Duration(24 * time.Hour)
	// MaxRetryAfter caps what a receiver's Retry-After can ask for.
	MaxRetryAfter = 24 * time.Hour
)
