package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// eventDayRow is how many events of a name a lead has had on a day, and when the first and the last
// one was. It outlives the events.
type eventDayRow struct {
	bun.BaseModel `bun:"table:event_days,alias:ed"`

	waypost.Scope
	LeadsID int64  `bun:"leads_id,pk"`
	Name    string `bun:"name,pk"`
	Day     int64  `bun:"day,pk"`
	N       int    `bun:"n"`
	FirstAt stamp  `bun:"first_at"`
	LastAt  stamp  `bun:"last_at"`
}

// eventDay is the day of a time in microseconds, in UTC.
func eventDay(micro int64) int64 {
	length := waypost.EventDay.Microseconds()
	day := micro / length
	if micro%length < 0 {
		day-- // before 1970
	}
	return day
}

var insertEventDays = bulk{
	table:   "event_days AS ed",
	columns: []string{"org text", "stage text", "leads_id bigint", "name text", "day bigint", "n bigint", "first_at bigint", "last_at bigint"},
	suffix: `ON CONFLICT (leads_id, name, day) DO UPDATE SET n = ed.n + EXCLUDED.n,
		first_at = CASE WHEN EXCLUDED.first_at < ed.first_at THEN EXCLUDED.first_at ELSE ed.first_at END,
		last_at = CASE WHEN EXCLUDED.last_at > ed.last_at THEN EXCLUDED.last_at ELSE ed.last_at END`,
}

// eventDays sums events up, in the order of the key.
func eventDays(events []eventRow) []eventDayRow {
	type key struct {
		kind eventKind
		day  int64
	}
	places := make(map[key]int, len(events))
	var rows []eventDayRow
	for _, e := range events {
		k := key{eventKind{e.LeadsID, e.Name}, eventDay(e.OccurredAt.UnixMicro())}
		i, known := places[k]
		if !known {
			i, places[k] = len(rows), len(rows)
			rows = append(rows, eventDayRow{Scope: e.Scope, LeadsID: e.LeadsID, Name: e.Name, Day: k.day, FirstAt: e.OccurredAt, LastAt: e.OccurredAt})
		}
		r := &rows[i]
		r.N++
		if e.OccurredAt.Before(r.FirstAt.Time) {
			r.FirstAt = e.OccurredAt
		}
		if e.OccurredAt.After(r.LastAt.Time) {
			r.LastAt = e.OccurredAt
		}
	}
	slices.SortFunc(rows, func(a, b eventDayRow) int {
		return cmp.Or(cmp.Compare(a.LeadsID, b.LeadsID), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Day, b.Day))
	})
	return rows
}

// recordEventDays reads the counts by day of the events of a name of leads, as the newest
// MaxRecordedEvents of each.
func recordEventDays(ctx context.Context, db bun.IDB, leads []int64, name string, records map[int64]*waypost.LeadRecord) error {
	var rows []eventDayRow
	err := db.NewSelect().Model(&rows).Column("leads_id", "n", "first_at", "last_at").
		Where("ed.leads_id IN (?) AND ed.name = ?", bun.List(leads), name).Order("ed.leads_id", "ed.day").Scan(ctx)
	if err != nil {
		return fmt.Errorf("read counts of events: %w", err)
	}
	for _, record := range records {
		record.EventDays[name] = []waypost.RecordedEvent{}
	}
	for _, row := range rows {
		r := records[row.LeadsID]
		days := append(r.EventDays[name], waypost.RecordedEvent{At: row.FirstAt.Time})
		for range min(row.N-1, waypost.MaxRecordedEvents) {
			days = append(days, waypost.RecordedEvent{At: row.LastAt.Time})
		}
		r.EventDays[name] = days[max(0, len(days)-waypost.MaxRecordedEvents):]
	}
	return nil
}

// eventDayPage lists counts of days that are over as a whole. All that it lists is dropped, so each
// page begins at the first one.
func (s *eventNames) eventDayPage(p sweepPlace) *bun.SelectQuery {
	return s.r.NewSelect().TableExpr("event_days AS ed").ColumnExpr("ed.name AS id, ed.leads_id AS number, TRUE AS is_over, FALSE AS young").
		Where("ed.day < ?", eventDay(p.Before)).Order("ed.day").Limit(s.sweepPage())
}

// dropEventDays drops the counts of leads' days that are over.
func (s *eventNames) dropEventDays(ctx context.Context, tx bun.Tx, p sweepPlace, rows []sweepRow) (int, error) {
	type row struct {
		LeadsID int64  `bun:"leads_id,type:bigint"`
		Name    string `bun:"name,type:text"`
	}
	keys := mapped(rows, func(r sweepRow) row { return row{r.Number, r.ID} })
	return affected(tx.NewDelete().With("u", tx.NewValues(&keys)).Model((*eventDayRow)(nil)).
		Where("(ed.leads_id, ed.name) IN (SELECT u.leads_id, u.name FROM u) AND ed.day < ?", eventDay(p.Before)).Exec(ctx))
}
