package gateway

import (
	"context"

	"waypost"
	"waypost/api"
)

// Breakers reads the states of circuit breakers.
type Breakers interface {
	BreakerState(ctx context.Context, w waypost.Webhook) waypost.BreakerState
}

func answerWaiting(w waypost.Waiting) api.DeferredReason {
	return api.DeferredReason{Reason: w.Reason, Count: w.Count, Since: api.AtOrNull(w.Since)}
}

func answerFailed(f waypost.FailedAttempt) api.FailedAttempt {
	return api.FailedAttempt{
		At: api.At(f.At), MessageID: f.MessageID, Attempt: f.Attempt, HTTPStatus: api.IntOrNull(f.HTTPStatus),
		ErrorClass: api.ErrorClass(f.ErrorClass), DurationMs: f.DurationMs,
	}
}

func answerStats(s waypost.AttemptStats) api.AttemptStats {
	ans := api.AttemptStats{Attempts: s.Attempts, Succeeded: s.Succeeded, Failed: s.Attempts - s.Succeeded, Errors: s.Errors}
	if s.Attempts > 0 {
		rate := float64(s.Succeeded) / float64(s.Attempts)
		ans.SuccessRate = &rate
		ans.LatencyMs = &api.Latency{P50: s.P50.Milliseconds(), P95: s.P95.Milliseconds(), P99: s.P99.Milliseconds(), Max: s.Max.Milliseconds()}
	}
	return ans
}

func (a *server) showHealth(ctx context.Context, r *request) (answer, error) {
	w, err := a.Webhooks.Webhook(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	traffic, err := a.Webhooks.WebhookTraffic(ctx, r.scope, w.ID)
	if err != nil {
		return answer{}, err
	}
	breaker := a.Breakers.BreakerState(ctx, w)
	ans := api.WebhookHealth{
		WebhookID: w.ID, Enabled: w.Enabled, DisabledReason: api.TextOrNull(w.DisabledReason),
		Breaker:  api.Breaker{State: breaker.State, Since: api.AtOrNull(breaker.Since), NextProbeAt: api.AtOrNull(breaker.NextProbe)},
		Waiting:  api.Waiting{Retrying: traffic.Retrying, Reasons: described(traffic.Deferred, answerWaiting)},
		LastHour: answerStats(traffic.Hour), LastDay: answerStats(traffic.Day), LastSuccessAt: api.AtOrNull(traffic.LastSuccess),
		LastErrors: described(traffic.LastErrors, answerFailed), SampledSince: api.AtOrNull(traffic.SampledSince),
	}
	for _, d := range traffic.Deferred {
		ans.Waiting.Deferred += d.Count
	}
	return ok(ans)
}
