package gateway

import (
	"context"

	"waypost"
)

// Breakers reads the states of circuit breakers.
type Breakers interface {
	BreakerState(ctx context.Context, w waypost.Webhook) waypost.BreakerState
}

// healthAnswer is the health of a webhook and its receiver.
type healthAnswer struct {
	WebhookID      string         `json:"webhookId"`
	Enabled        bool           `json:"enabled"`
	DisabledReason *string        `json:"disabledReason"`
	Breaker        breakerAnswer  `json:"breaker"`
	Waiting        waitingAnswer  `json:"waiting"`
	LastHour       statsAnswer    `json:"lastHour"`
	LastDay        statsAnswer    `json:"lastDay"`
	LastSuccessAt  *string        `json:"lastSuccessAt"`
	LastErrors     []failedAnswer `json:"lastErrors"`
	SampledSince   *string        `json:"sampledSince"`
}

type breakerAnswer struct {
	State       string  `json:"state"`
	Since       *string `json:"since"`
	NextProbeAt *string `json:"nextProbeAt"`
}

type waitingAnswer struct {
	Retrying int              `json:"retrying"`
	Deferred int              `json:"deferred"`
	Reasons  []deferredAnswer `json:"reasons"`
}

type deferredAnswer struct {
	Reason string  `json:"reason"`
	Count  int     `json:"count"`
	Since  *string `json:"since"`
}

type statsAnswer struct {
	Attempts    int            `json:"attempts"`
	Succeeded   int            `json:"succeeded"`
	Failed      int            `json:"failed"`
	SuccessRate *float64       `json:"successRate"`
	LatencyMs   *latencyAnswer `json:"latencyMs"`
	Errors      map[string]int `json:"errors"`
}

type latencyAnswer struct {
	P50 int64 `json:"p50"`
	P95 int64 `json:"p95"`
	P99 int64 `json:"p99"`
	Max int64 `json:"max"`
}

type failedAnswer struct {
	At         string `json:"at"`
	MessageID  string `json:"messageId"`
	Attempt    int    `json:"attempt"`
	HTTPStatus *int   `json:"httpStatus"`
	ErrorClass string `json:"errorClass"`
	DurationMs int64  `json:"durationMs"`
}

func answerWaiting(w waypost.Waiting) deferredAnswer {
	return deferredAnswer{w.Reason, w.Count, stampOrNull(&w.Since)}
}

func answerFailed(f waypost.FailedAttempt) failedAnswer {
	return failedAnswer{stamp(f.At), f.MessageID, f.Attempt, orNull(f.HTTPStatus), f.ErrorClass, f.DurationMs}
}

func answerStats(s waypost.AttemptStats) statsAnswer {
	ans := statsAnswer{Attempts: s.Attempts, Succeeded: s.Succeeded, Failed: s.Attempts - s.Succeeded, Errors: s.Errors}
	if s.Attempts > 0 {
		rate := float64(s.Succeeded) / float64(s.Attempts)
		ans.SuccessRate = &rate
		ans.LatencyMs = &latencyAnswer{s.P50.Milliseconds(), s.P95.Milliseconds(), s.P99.Milliseconds(), s.Max.Milliseconds()}
	}
	return ans
}

func (a *api) showHealth(ctx context.Context, r *request) (answer, error) {
	w, err := a.Webhooks.Webhook(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	traffic, err := a.Webhooks.WebhookTraffic(ctx, r.scope, w.ID)
	if err != nil {
		return answer{}, err
	}
	breaker := a.Breakers.BreakerState(ctx, w)
	ans := healthAnswer{
		WebhookID: w.ID, Enabled: w.Enabled, DisabledReason: orNull(w.DisabledReason),
		Breaker:  breakerAnswer{breaker.State, stampOrNull(&breaker.Since), stampOrNull(&breaker.NextProbe)},
		Waiting:  waitingAnswer{Retrying: traffic.Retrying, Reasons: described(traffic.Deferred, answerWaiting)},
		LastHour: answerStats(traffic.Hour), LastDay: answerStats(traffic.Day), LastSuccessAt: stampOrNull(&traffic.LastSuccess),
		LastErrors: described(traffic.LastErrors, answerFailed), SampledSince: stampOrNull(&traffic.SampledSince),
	}
	for _, d := range traffic.Deferred {
		ans.Waiting.Deferred += d.Count
	}
	return ok(ans)
}
