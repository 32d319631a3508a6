package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"github.com/uptrace/bun"

	"waypost"
)

// webhookHour names an hour of a webhook's history.
type webhookHour struct {
	WebhookID string `bun:"webhook_id,type:text"`
	FromAt    int64  `bun:"from_at,type:bigint"` // microseconds since 1970
}

func (h webhookHour) compare(o webhookHour) int {
	return cmp.Or(cmp.Compare(h.WebhookID, o.WebhookID), cmp.Compare(h.FromAt, o.FromAt))
}

// webhookDeltaRow is what attempts that were recorded together add to an hour.
type webhookDeltaRow struct {
	bun.BaseModel `bun:"table:webhook_deltas,alias:wd"`

	ID        int64  `bun:"id,pk"`
	WebhookID string `bun:"webhook_id"`
	FromAt    int64  `bun:"from_at"`
	Succeeded int    `bun:"succeeded"`
	Failed    int    `bun:"failed"`
	Took      string `bun:"took"`
}

// webhookHourRow is an hour, as far as it is folded.
type webhookHourRow struct {
	bun.BaseModel `bun:"table:webhook_hours,alias:wh"`

	WebhookID string `bun:"webhook_id,pk"`
	FromAt    int64  `bun:"from_at,pk"`
	Succeeded int    `bun:"succeeded"`
	Failed    int    `bun:"failed"`
	Took      string `bun:"took"`
}

// intoHistory adds attempts that a statement has recorded as d to the history of their
// webhooks.
const intoHistory = `INSERT INTO webhook_deltas (webhook_id, from_at, succeeded, failed, took)
	SELECT webhook_id, at - at % 3600000000, count(*) FILTER (WHERE error_class = ''), count(*) FILTER (WHERE error_class <> ''), json_agg(duration_ms)
	FROM d WHERE error_class NOT IN ('` + waypost.ClassRender + `', '` + waypost.ClassInterrupted + `') GROUP BY 1, 2`

// webhookDeltas are what intoHistory would add, of attempts that are recorded one by one.
type webhookDeltas map[webhookHour]*webhookDelta

type webhookDelta struct {
	succeeded, failed int
	took              []int64 // milliseconds
}

// add counts an attempt whose outcome is recorded for the first time. One that was recorded
// as interrupted has had none.
func (d webhookDeltas) add(webhookID string, a attemptRow) {
	if a.ErrorClass == waypost.ClassRender || a.ErrorClass == waypost.ClassInterrupted {
		return
	}
	hour := webhookHour{webhookID, a.At.Truncate(time.Hour).UnixMicro()}
	delta := d[hour]
	if delta == nil {
		delta = &webhookDelta{}
		d[hour] = delta
	}
	delta.took = append(delta.took, a.DurationMs)
	if a.ErrorClass == "" {
		delta.succeeded++
	} else {
		delta.failed++
	}
}

var insertWebhookDelta = bulk{
	table:   "webhook_deltas",
	columns: []string{"webhook_id text", "from_at bigint", "succeeded bigint", "failed bigint", "took text"},
}

func (s *webhooks) addToHistory(ctx context.Context, tx bun.Tx, deltas webhookDeltas) error {
	hours := slices.Collect(maps.Keys(deltas))
	tooks, err := decoded(hours, func(hour webhookHour) (string, error) { return toJSON(deltas[hour].took) })
	if err != nil {
		return err
	}
	return insertWebhookDelta.run(ctx, s.db, tx, len(hours), func(i int) []any {
		delta := deltas[hours[i]]
		return []any{hours[i].WebhookID, hours[i].FromAt, delta.succeeded, delta.failed, tooks[i]}
	}, nil)
}

// attemptSum sums attempts up.
type attemptSum struct {
	succeeded, failed int
	took              *hdrhistogram.PackedHistogram // milliseconds, exact up to 255 and within one percent above
}

// longestAttempt bounds what is told apart: no webhook has a longer time-out.
const longestAttempt = waypost.MaxTimeoutMs + 60_000

func newAttemptSum() *attemptSum {
	return &attemptSum{took: hdrhistogram.NewPacked(1, longestAttempt, 2)}
}

// add adds an hour.
func (a *attemptSum) add(succeeded, failed int, took string) error {
	more, err := hdrhistogram.DecodePacked([]byte(took))
	if err != nil {
		return fmt.Errorf("decode a histogram: %w", err)
	}
	a.succeeded, a.failed = a.succeeded+succeeded, a.failed+failed
	a.took.Merge(more)
	return nil
}

// addDelta adds what is not folded yet.
func (a *attemptSum) addDelta(succeeded, failed int, took string) error {
	var list []int64
	if err := fromJSON(took, &list); err != nil {
		return err
	}
	a.succeeded, a.failed = a.succeeded+succeeded, a.failed+failed
	for _, ms := range list {
		if err := a.took.RecordValue(min(max(ms, 0), longestAttempt)); err != nil {
			return fmt.Errorf("record %d ms: %w", ms, err)
		}
	}
	return nil
}

// intervalsOf are the intervals, hours or days of UTC, from the one that from lies in to the last
// one that begins before to.
func intervalsOf(from, to time.Time, every time.Duration) (series []waypost.WebhookInterval) {
	for at := from.UTC().Truncate(every); at.Before(to); at = at.Add(every) {
		series = append(series, waypost.WebhookInterval{From: at})
	}
	return series
}

// WebhookHistory returns how the attempts of a webhook have ended that began in each of the
// intervals, hours or days of UTC, from the one that from lies in to the last one that
// begins before to. NotFound if the scope has none of this id.
func (s *webhooks) WebhookHistory(
	ctx context.Context, sc waypost.Scope, id string, from, to time.Time, every time.Duration,
) (series []waypost.WebhookInterval, err error) {
	defer wrap(&err, "read the history of webhook %s", clip(id))
	if _, err := s.webhookRow(ctx, sc, id); err != nil {
		return nil, err
	}
	if series = intervalsOf(from, to, every); len(series) == 0 {
		return series, nil
	}
	sums := make([]*attemptSum, len(series))
	for i := range sums {
		sums[i] = newAttemptSum()
	}
	first := series[0].From
	var rows []struct {
		FromAt    int64  `bun:"from_at"`
		Succeeded int    `bun:"succeeded"`
		Failed    int    `bun:"failed"`
		Took      string `bun:"took"`
		Folded    bool   `bun:"folded"`
	}
	// In one statement: what is folded meanwhile is counted once.
	const columns, span = "from_at, succeeded, failed, took", "webhook_id = ? AND from_at >= ? AND from_at < ?"
	begin, end := stamp{first}, stamp{first.Add(time.Duration(len(series)) * every)}
	err = s.r.NewRaw("SELECT "+columns+", TRUE AS folded FROM webhook_hours WHERE "+span+" UNION ALL SELECT "+columns+", FALSE FROM webhook_deltas WHERE "+span,
		id, begin, end, id, begin, end).Scan(ctx, &rows)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		sum := sums[time.UnixMicro(row.FromAt).Sub(first)/every]
		add := sum.addDelta
		if row.Folded {
			add = sum.add
		}
		if err := add(row.Succeeded, row.Failed, row.Took); err != nil {
			return nil, err
		}
	}
	for i, sum := range sums {
		series[i].Succeeded, series[i].Failed = sum.succeeded, sum.failed
		series[i].P50 = time.Duration(sum.took.ValueAtPercentile(50)) * time.Millisecond
		series[i].P99 = time.Duration(sum.took.ValueAtPercentile(99)) * time.Millisecond
	}
	return series, nil
}

// AttemptHistory is the sum of WebhookHistory over all webhooks of the scope, without
// percentiles.
func (s *webhooks) AttemptHistory(
	ctx context.Context, sc waypost.Scope, from, to time.Time, every time.Duration,
) (series []waypost.WebhookInterval, err error) {
	defer wrap(&err, "read the history of all webhooks")
	if series = intervalsOf(from, to, every); len(series) == 0 {
		return series, nil
	}
	var rows []struct {
		At        int64 `bun:"at"`
		Succeeded int   `bun:"succeeded"`
		Failed    int   `bun:"failed"`
	}
	// In one statement: what is folded meanwhile is counted once.
	begin, end := stamp{series[0].From}, stamp{series[len(series)-1].From.Add(every)}
	part := func(table string) *bun.SelectQuery {
		return s.r.NewSelect().TableExpr(table+" AS h").Join("JOIN webhooks AS w ON w.id = h.webhook_id").
			Column("h.from_at", "h.succeeded", "h.failed").
			Where("w.org = ? AND w.stage = ? AND h.from_at >= ? AND h.from_at < ?", sc.Org, sc.Stage, begin, end)
	}
	err = s.r.NewSelect().TableExpr("(?) AS h", part("webhook_hours").UnionAll(part("webhook_deltas"))).
		ColumnExpr("from_at - from_at % ? AS at", every.Microseconds()).ColumnExpr("sum(succeeded) AS succeeded, sum(failed) AS failed").
		GroupExpr("1").Scan(ctx, &rows)
	if err != nil {
		return nil, err
	}
	for _, row := range rows {
		i := &series[time.UnixMicro(row.At).Sub(series[0].From)/every]
		i.Succeeded, i.Failed = row.Succeeded, row.Failed
	}
	return series, nil
}

var upsertWebhookHour = bulk{
	table:   "webhook_hours",
	columns: insertWebhookDelta.columns,
	suffix:  "ON CONFLICT (webhook_id, from_at) DO UPDATE SET succeeded = EXCLUDED.succeeded, failed = EXCLUDED.failed, took = EXCLUDED.took",
}

// FoldWebhookHistory folds up to limit rows that were appended to the history of webhooks
// into their hours, oldest first, and tells whether there may be more. Calls at the same
// time share the work, and one that is cut off folds nothing.
func (s *webhooks) FoldWebhookHistory(ctx context.Context, limit int) (more bool, err error) {
	defer wrap(&err, "fold the history of webhooks")
	return foldRows(ctx, s.db, limit, s.foldWebhookDeltas)
}

// foldWebhookDeltas adds deltas to the hours of their webhooks. Those of deleted webhooks are dropped.
func (s *webhooks) foldWebhookDeltas(ctx context.Context, tx bun.Tx, deltas []webhookDeltaRow) error {
	// Locked until the end, so that one call at a time changes the hours of a webhook.
	var webhooks []string
	ids := distinct(mapped(deltas, func(d webhookDeltaRow) string { return d.WebhookID }))
	q := tx.NewSelect().Model((*webhookRow)(nil)).Column("id").Where("id IN (?)", bun.List(ids)).Order("id")
	if err := s.lockFor(q, forChange).Scan(ctx, &webhooks); err != nil {
		return err
	}
	sums := map[webhookHour]*attemptSum{}
	for _, d := range deltas {
		if _, there := slices.BinarySearch(webhooks, d.WebhookID); !there {
			continue // it was deleted
		}
		hour := webhookHour{d.WebhookID, d.FromAt}
		if sums[hour] == nil {
			sums[hour] = newAttemptSum()
		}
		if err := sums[hour].addDelta(d.Succeeded, d.Failed, d.Took); err != nil {
			return err
		}
	}
	if len(sums) == 0 {
		return nil
	}
	hours := slices.SortedFunc(maps.Keys(sums), webhookHour.compare)
	var rows []webhookHourRow
	err := tx.NewSelect().With("u", tx.NewValues(&hours)).Model(&rows).TableExpr("u").
		Where("wh.webhook_id = u.webhook_id AND wh.from_at = u.from_at").Scan(ctx)
	if err != nil {
		return err
	}
	for _, row := range rows {
		if err := sums[webhookHour{row.WebhookID, row.FromAt}].add(row.Succeeded, row.Failed, row.Took); err != nil {
			return err
		}
	}
	tooks, err := decoded(hours, func(hour webhookHour) ([]byte, error) { return sums[hour].took.Encode() })
	if err != nil {
		return err
	}
	return upsertWebhookHour.run(ctx, s.db, tx, len(hours), func(i int) []any {
		sum := sums[hours[i]]
		return []any{hours[i].WebhookID, hours[i].FromAt, sum.succeeded, sum.failed, string(tooks[i])}
	}, nil)
}

// webhookHourPage lists hours that are over, oldest first.
func (s *webhooks) webhookHourPage(p sweepPlace) *bun.SelectQuery {
	return s.r.NewSelect().TableExpr("webhook_hours").ColumnExpr("webhook_id AS id, from_at AS number, TRUE AS is_over").
		Where("(from_at, webhook_id) > (?, ?) AND from_at < ?", p.Number, p.ID, p.before()).Order("from_at", "webhook_id").Limit(s.sweepPage())
}

func (s *webhooks) dropWebhookHours(ctx context.Context, tx bun.Tx, _ sweepPlace, rows []sweepRow) (int, error) {
	hours := mapped(rows, func(r sweepRow) webhookHourRow { return webhookHourRow{WebhookID: r.ID, FromAt: r.Number} })
	return affected(tx.NewDelete().Model(&hours).WherePK().Exec(ctx))
}
