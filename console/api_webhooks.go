package console

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"time"

	"waypost"
)

// webhook is a webhook as it is answered: without its secrets.
type webhook struct {
	ID        string `json:"id"`
	Name      string `json:"name"`
	URL       string `json:"url"`
	BasicAuth *struct {
		Username    string `json:"username"`
		PasswordSet bool   `json:"passwordSet"`
	} `json:"basicAuth"`
	TLS *struct {
		CACertificate             string    `json:"caCertificate"`
		ClientCertificate         string    `json:"clientCertificate"`
		ClientKeySet              bool      `json:"clientKeySet"`
		ClientCertificateNotAfter time.Time `json:"clientCertificateNotAfter"`
	} `json:"tls"`
	Params                     map[string]any     `json:"params"`
	TimeoutMs                  int                `json:"timeoutMs"`
	Retry                      waypost.Retry      `json:"retry"`
	RateLimit                  *waypost.RateLimit `json:"rateLimit"`
	MaxConcurrency             int                `json:"maxConcurrency"`
	Channel                    string             `json:"channel"`
	RequiresConsent            bool               `json:"requiresConsent"`
	Enabled                    bool               `json:"enabled"`
	DisabledReason             string             `json:"disabledReason"`
	SigningSecretSet           bool               `json:"signingSecretSet"`
	SigningOverlap             waypost.Duration   `json:"signingOverlap"`
	PreviousSigningSecretUntil time.Time          `json:"previousSigningSecretUntil"`
	UnreadableSecrets          []string           `json:"unreadableSecrets"`
	CreatedAt                  time.Time          `json:"createdAt"`
	UpdatedAt                  time.Time          `json:"updatedAt"`
}

// health is how a webhook and its receiver fare.
type health struct {
	Enabled bool `json:"enabled"`
	Breaker struct {
		State       string    `json:"state"`
		Since       time.Time `json:"since"`
		NextProbeAt time.Time `json:"nextProbeAt"`
	} `json:"breaker"`
	Waiting struct {
		Retrying int `json:"retrying"`
		Deferred int `json:"deferred"`
		Reasons  []struct {
			Reason string    `json:"reason"`
			Count  int       `json:"count"`
			Since  time.Time `json:"since"`
		} `json:"reasons"`
	} `json:"waiting"`
	LastHour      stats     `json:"lastHour"`
	LastDay       stats     `json:"lastDay"`
	LastSuccessAt time.Time `json:"lastSuccessAt"`
	LastErrors    []struct {
		At         time.Time `json:"at"`
		MessageID  string    `json:"messageId"`
		Attempt    int       `json:"attempt"`
		HTTPStatus int       `json:"httpStatus"`
		ErrorClass string    `json:"errorClass"`
		DurationMs int64     `json:"durationMs"`
	} `json:"lastErrors"`
	SampledSince time.Time `json:"sampledSince"`
}

// Receiver is how the receiver does: the state of the breaker, or where that is closed failing if
// no attempt of the last hour succeeded, and idle if there was none in the last day.
func (h health) Receiver() string {
	rate := h.LastHour.SuccessRate
	switch {
	case h.Breaker.State == "closed" && rate != nil && *rate == 0:
		return "failing"
	case h.Breaker.State == "closed" && h.LastDay.Attempts == 0:
		return "idle"
	}
	return h.Breaker.State
}

// stats are attempts of some time up to now.
type stats struct {
	Attempts    int      `json:"attempts"`
	SuccessRate *float64 `json:"successRate"`
	LatencyMs   *struct {
		P50 int64 `json:"p50"`
		P99 int64 `json:"p99"`
	} `json:"latencyMs"`
}

// interval is an hour or a day of a webhook.
type interval struct {
	From      time.Time `json:"from"`
	Attempts  int       `json:"attempts"`
	Succeeded int       `json:"succeeded"`
	Failed    int       `json:"failed"`
	P50Ms     *int64    `json:"p50Ms"`
	P99Ms     *int64    `json:"p99Ms"`
}

// trial is what became of a test message.
type trial struct {
	Succeed    bool   `json:"succeed"`
	HTTPStatus int    `json:"httpStatus"`
	Message    string `json:"message"`
	ErrorClass string `json:"errorClass"`
	DurationMs int64  `json:"durationMs"`
}

func webhookPath(id string) string { return "/v1/webhooks/" + url.PathEscape(id) }

func (g gateway) listWebhooks(ctx context.Context, query url.Values) (list[webhook], error) {
	return get[list[webhook]](ctx, g, waypost.GrantWebhooksRead, "/v1/webhooks", query)
}

func (g gateway) webhook(ctx context.Context, id string) (w webhook, etag string, err error) {
	return tagged[webhook](ctx, g, waypost.GrantWebhooksRead, webhookPath(id))
}

func (g gateway) createWebhook(ctx context.Context, body any) (made webhook, err error) {
	return made, g.do(ctx, waypost.GrantWebhooksWrite, http.MethodPost, "/v1/webhooks", body, &made)
}

func (g gateway) patchWebhook(ctx context.Context, id string, patch any) error {
	return g.do(ctx, waypost.GrantWebhooksWrite, http.MethodPatch, webhookPath(id), patch, nil)
}

func (g gateway) deleteWebhook(ctx context.Context, id string) error {
	return g.do(ctx, waypost.GrantWebhooksWrite, http.MethodDelete, webhookPath(id), nil, nil)
}

func (g gateway) healthOf(ctx context.Context, id string) (health, error) {
	return get[health](ctx, g, waypost.GrantWebhooksRead, webhookPath(id)+"/health", nil)
}

func (g gateway) webhookHistory(ctx context.Context, id string, query url.Values) ([]interval, error) {
	return g.history(ctx, webhookPath(id)+"/history", query)
}

// attemptHistory is the sum of the histories of all webhooks.
func (g gateway) attemptHistory(ctx context.Context, query url.Values) ([]interval, error) {
	return g.history(ctx, "/v1/webhooks/history", query)
}

func (g gateway) history(ctx context.Context, path string, query url.Values) ([]interval, error) {
	answer, err := get[struct {
		Series []interval `json:"series"`
	}](ctx, g, waypost.GrantWebhooksRead, path, query)
	return answer.Series, err
}

// testTime bounds a test message: it takes as long as its webhook gives its receiver.
const testTime = waypost.MaxTimeoutMs*time.Millisecond + callTime

func (g gateway) testWebhook(ctx context.Context, id string) (trial, error) {
	return g.sendTrial(ctx, waypost.GrantWebhooksWrite, webhookPath(id)+"/test", nil)
}

// sendTrial makes a call that sends a test message.
func (g gateway) sendTrial(ctx context.Context, grant waypost.Grant, path string, body []byte) (result trial, err error) {
	ctx, cancel := context.WithTimeout(ctx, testTime)
	defer cancel()
	var header http.Header
	if body != nil {
		header = http.Header{"Content-Type": {"application/json"}}
	}
	res, err := g.stream(ctx, grant, http.MethodPost, path, header, body)
	if err != nil {
		return result, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&result); err != nil {
		return result, away{err}
	}
	return result, nil
}
