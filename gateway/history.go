package gateway

import (
	"cmp"
	"context"
	"time"

	"waypost"
)

// historySpan is what a history has that is asked for without a beginning.
const historySpan = 7 * 24 * time.Hour

// intervalAnswer is an hour or a day of webhooks.
type intervalAnswer struct {
	From      string `json:"from"`
	Attempts  int    `json:"attempts"`
	Succeeded int    `json:"succeeded"`
	Failed    int    `json:"failed"`
}

// webhookIntervalAnswer is one of a single webhook. Without attempts there are no percentiles.
type webhookIntervalAnswer struct {
	intervalAnswer
	P50Ms *int64 `json:"p50Ms"`
	P99Ms *int64 `json:"p99Ms"`
}

func answerInterval(i waypost.WebhookInterval) intervalAnswer {
	return intervalAnswer{From: stamp(i.From), Attempts: i.Attempts(), Succeeded: i.Succeeded, Failed: i.Failed}
}

func answerWebhookInterval(i waypost.WebhookInterval) webhookIntervalAnswer {
	ans := webhookIntervalAnswer{intervalAnswer: answerInterval(i)}
	if ans.Attempts > 0 {
		p50, p99 := i.P50.Milliseconds(), i.P99.Milliseconds()
		ans.P50Ms, ans.P99Ms = &p50, &p99
	}
	return ans
}

// historyAnswer is a history of intervals.
type historyAnswer[T any] struct {
	Series []T `json:"series"`
}

// historyOf reads which span of a history is asked for, and the length of its intervals.
func (a *api) historyOf(r *request) (from, to time.Time, every time.Duration, err error) {
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
func (a *api) showHistory(ctx context.Context, r *request) (answer, error) {
	from, to, every, err := a.historyOf(r)
	if err != nil {
		return answer{}, err
	}
	series, err := a.Webhooks.WebhookHistory(ctx, r.scope, r.param("id"), from, to, every)
	if err != nil {
		return answer{}, err
	}
	return ok(historyAnswer[webhookIntervalAnswer]{described(series, answerWebhookInterval)})
}

// showAttempts is showHistory over all webhooks.
func (a *api) showAttempts(ctx context.Context, r *request) (answer, error) {
	from, to, every, err := a.historyOf(r)
	if err != nil {
		return answer{}, err
	}
	series, err := a.Webhooks.AttemptHistory(ctx, r.scope, from, to, every)
	if err != nil {
		return answer{}, err
	}
	return ok(historyAnswer[intervalAnswer]{described(series, answerInterval)})
}
