package api

// WebhookHealth is how a webhook and its receiver fare.
type WebhookHealth struct {
	WebhookID string `json:"webhookId" jsonschema:"pattern=^whk_"`
	Enabled   bool   `json:"enabled"`
	// Why Waypost itself disabled it: `410`.
	DisabledReason TextOrNull   `json:"disabledReason"`
	Breaker        Breaker      `json:"breaker"`
	Waiting        Waiting      `json:"waiting"`
	LastHour       AttemptStats `json:"lastHour"`
	LastDay        AttemptStats `json:"lastDay"`
	// null: none in the last 24 hours.
	LastSuccessAt TimeOrNull `json:"lastSuccessAt"`
	// Newest first. What the receiver wrote is in the attempt log of the message.
	LastErrors []FailedAttempt `json:"lastErrors" jsonschema:"maxItems=10"`
	// null: all attempts are counted. Else those before it, and those of messages made before it, are not.
	SampledSince TimeOrNull `json:"sampledSince"`
}

// Receiver is how the receiver does: the state of the breaker, or where that is closed failing if
// no attempt of the last hour succeeded, and idle if there was none in the last day.
func (h WebhookHealth) Receiver() string {
	rate := h.LastHour.SuccessRate
	switch {
	case h.Breaker.State == "closed" && rate != nil && *rate == 0:
		return "failing"
	case h.Breaker.State == "closed" && h.LastDay.Attempts == 0:
		return "idle"
	}
	return h.Breaker.State
}

// Breaker is where a circuit breaker stands.
type Breaker struct {
	// `open`: deliveries wait. `halfOpen`: a single one may go, or is under way, as a probe. `unknown`: Redis is
	// away, and each worker has a breaker of its own.
	State string `json:"state" jsonschema:"enum=closed,enum=open,enum=halfOpen,enum=unknown"`
	// When it opened or closed; null: it was not open of late.
	Since TimeOrNull `json:"since"`
	// Before it no attempt is made.
	NextProbeAt TimeOrNull `json:"nextProbeAt"`
}

// Waiting is what waits for a webhook.
type Waiting struct {
	// Deliveries that have failed and will be attempted again. 10000: at least so many.
	Retrying int `json:"retrying" jsonschema:"minimum=0,maximum=10000"`
	// Deliveries that are held back without an attempt: the sum of the reasons.
	Deferred int              `json:"deferred" jsonschema:"minimum=0"`
	Reasons  []DeferredReason `json:"reasons"`
}

// DeferredReason is why deliveries are held back, and how many.
type DeferredReason struct {
	// The `deferredReason` of the deliveries.
	Reason string `json:"reason"`
	// 10000: at least so many.
	Count int `json:"count" jsonschema:"minimum=1,maximum=10000"`
	// Since when the first of them waits.
	Since TimeOrNull `json:"since"`
}

// FailedAttempt is one of the last attempts that failed.
type FailedAttempt struct {
	At        Time   `json:"at"`
	MessageID string `json:"messageId" jsonschema:"pattern=^msg_"`
	Attempt   int    `json:"attempt" jsonschema:"minimum=1"`
	// null: no answer.
	HTTPStatus IntOrNull  `json:"httpStatus"`
	ErrorClass ErrorClass `json:"errorClass"`
	DurationMs int64      `json:"durationMs" jsonschema:"minimum=0"`
}

// AttemptStats are attempts of some time up to now, without those that never reached the receiver (`render`) or were cut off
// by us (`interrupted`).
type AttemptStats struct {
	Attempts  int `json:"attempts" jsonschema:"minimum=0"`
	Succeeded int `json:"succeeded" jsonschema:"minimum=0"`
	Failed    int `json:"failed" jsonschema:"minimum=0"`
	// null: there were no attempts.
	SuccessRate *float64 `json:"successRate" jsonschema:"minimum=0,maximum=1"`
	// How long they took, failed ones too.
	LatencyMs *Latency `json:"latencyMs"`
	// Failed ones by error class.
	Errors Counts `json:"errors"`
}

// Latency is how long attempts took, in milliseconds.
type Latency struct {
	P50 int64 `json:"p50" jsonschema:"minimum=0"`
	P95 int64 `json:"p95" jsonschema:"minimum=0"`
	P99 int64 `json:"p99" jsonschema:"minimum=0"`
	Max int64 `json:"max" jsonschema:"minimum=0"`
}

// Counts are how many of each there are, of those there are some of.
type Counts map[string]int

// Schema is what reflection cannot tell of them.
func (Counts) Schema() string {
	return `{type: object, additionalProperties: {type: integer, minimum: 1}}`
}

// ErrorClass is what kind of fault it was; null for none.
type ErrorClass string

// MarshalJSON writes the class, or null.
func (c ErrorClass) MarshalJSON() ([]byte, error) { return TextOrNull(c).MarshalJSON() }

// WebhookHistory has an element for each hour or day.
type WebhookHistory struct {
	Series []WebhookInterval `json:"series" jsonschema:"maxItems=2161"`
}

// AttemptHistory has an element for each hour or day.
type AttemptHistory struct {
	Series []AttemptInterval `json:"series" jsonschema:"maxItems=2161"`
}

// AttemptInterval is an hour or a day of attempts.
type AttemptInterval struct {
	From      Time `json:"from"`
	Attempts  int  `json:"attempts" jsonschema:"minimum=0"`
	Succeeded int  `json:"succeeded" jsonschema:"minimum=0"`
	Failed    int  `json:"failed" jsonschema:"minimum=0"`
}

// WebhookInterval is an hour or a day of a webhook's attempts.
type WebhookInterval struct {
	AttemptInterval
	// Exact up to 255, and within one percent above; null without attempts.
	P50Ms *int64 `json:"p50Ms" jsonschema:"minimum=0"`
	// As p50Ms.
	P99Ms *int64 `json:"p99Ms" jsonschema:"minimum=0"`
}

// Trial is what became of a test message.
type Trial struct {
	Succeed bool `json:"succeed"`
	// null: no answer.
	HTTPStatus IntOrNull `json:"httpStatus"`
	// The receiver's, or what went wrong.
	Message    TextOrNull `json:"message"`
	ErrorClass ErrorClass `json:"errorClass"`
	DurationMs int64      `json:"durationMs" jsonschema:"minimum=0"`
}
