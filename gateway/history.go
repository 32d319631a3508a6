package gateway

import (
	"cmp"
	"context"
	"time"

	"waypost"
	"waypost/api"
)

// historySpan is what a history has that is asked for without a beginning.
const historySpan = 7 * 24 * time.Hour

func answerInterval(i waypost.WebhookInterval) api.AttemptInterval {
	return api.AttemptInterval{From: api.At(i.From), Attempts: i.Attempts(), Succeeded: i.Succeeded, Failed: i.Failed}
}

func answerWebhookInterval(i waypost.WebhookInterval) api.WebhookInterval {
	ans := api.WebhookInterval{AttemptInterval: answerInterval(i)}
	if ans.Attempts > 0 {
		p50, p99 := i.P50.Milliseconds(), i.P99.Milliseconds()
		ans.P50Ms, ans.P99Ms = &p50, &p99
	}
	return ans
}

// historyOf reads which span of a history is asked for, and the length of its intervals.
func (a *server) historyOf(r *request) (from, to time.Time, every time.Duration, err error) {
	p := &r.queryFaults
	from, to = r.moment("from"), r.moment("to")
	every = cmp.Or(r.every(), waypost.StatisticsHour).Duration()
	inOrder(p, "", "from", "to", from, to)
	if to.IsZero() {
		to = a.Now()
	}
	if from.IsZero() {
		from = to.Add(-historySpan)
	}
	if to.Sub(from) > waypost.HistoryAge {
		p.Add(waypost.DetailOutOfRange, "from", "must not be more than %d days before to, which is now if it is left out", int(waypost.HistoryAge.Hours()/24))
	}
	return from, to, every, p.Err("query")
}

// showHistory tells how a webhook's attempts ended, hour by hour or day by day.
func (a *server) showHistory(ctx context.Context, r *request) (answer, error) {
	from, to, every, err := a.historyOf(r)
	if err != nil {
		return answer{}, err
	}
	series, err := a.Webhooks.WebhookHistory(ctx, r.scope, r.param("id"), from, to, every)
	if err != nil {
		return answer{}, err
	}
	return ok(api.WebhookHistory{Series: described(series, answerWebhookInterval)})
}

// showAttempts is showHistory over all webhooks.
func (a *server) showAttempts(ctx context.Context, r *request) (answer, error) {
	from, to, every, err := a.historyOf(r)
	if err != nil {
		return answer{}, err
	}
	series, err := a.Webhooks.AttemptHistory(ctx, r.scope, from, to, every)
	if err != nil {
		return answer{}, err
	}
	return ok(api.AttemptHistory{Series: described(series, answerInterval)})
}
