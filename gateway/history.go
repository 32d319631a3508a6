package gateway

import (
	"cmp"
	"context"
	"time"

	"waypost"
)

// historySpan is what the history of a webhook has that is asked for without a beginning.
const historySpan = 7 * 24 * time.Hour

// intervalAnswer is an hour or a day of a webhook. Without attempts there are no
// percentiles.
type intervalAnswer struct {
	From      string `json:"from"`
	Attempts  int    `json:"attempts"`
	Succeeded int    `json:"succeeded"`
	Failed    int    `json:"failed"`
	P50Ms     *int64 `json:"p50Ms"`
	P99Ms     *int64 `json:"p99Ms"`
}

func answerInterval(i waypost.WebhookInterval) intervalAnswer {
	ans := intervalAnswer{From: stamp(i.From), Attempts: i.Attempts(), Succeeded: i.Succeeded, Failed: i.Failed}
	if ans.Attempts > 0 {
		p50, p99 := i.P50.Milliseconds(), i.P99.Milliseconds()
		ans.P50Ms, ans.P99Ms = &p50, &p99
	}
	return ans
}

// showHistory tells how a webhook's attempts ended, hour by hour or day by day.
func (a *api) showHistory(ctx context.Context, r *request) (answer, error) {
	p := &r.queryFaults
	from, to := r.moment("from"), r.moment("to")
	every := cmp.Or(r.every(), waypost.StatisticsHour).Duration()
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
	if err := p.Err("query"); err != nil {
		return answer{}, err
	}
	series, err := a.Webhooks.WebhookHistory(ctx, r.scope, r.param("id"), from, to, every)
	if err != nil {
		return answer{}, err
	}
	return ok(struct {
		Series []intervalAnswer `json:"series"`
	}{described(series, answerInterval)})
}
