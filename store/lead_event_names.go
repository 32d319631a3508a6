package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// eventName names the events of a scope that have a name.
type eventName struct {
	waypost.Scope
	Name string `bun:"name"`
}

func (n eventName) compare(o eventName) int {
	return cmp.Or(cmp.Compare(n.Org, o.Org), cmp.Compare(n.Stage, o.Stage), cmp.Compare(n.Name, o.Name))
}

// eventDeltaRow is how many events of a name a transaction has stored or deleted.
type eventDeltaRow struct {
	bun.BaseModel `bun:"table:event_deltas,alias:ed"`

	ID int64 `bun:"id,pk"`
	eventName
	N int `bun:"n"`
}

// eventNameRow is the key of how many events of a name there are, as far as that is folded.
type eventNameRow struct {
	bun.BaseModel `bun:"table:event_names,alias:en"`

	Org   string        `bun:"org,pk"`
	Stage waypost.Stage `bun:"stage,pk"`
	Name  string        `bun:"name,pk"`
}

var insertEventDelta = bulk{table: "event_deltas", columns: []string{"org text", "stage text", "name text", "n bigint"}}

// countEvents counts, times 1 or -1, events that the transaction has stored or deleted.
func (s *eventNames) countEvents(ctx context.Context, tx bun.Tx, events []eventRow, times int) error {
	return s.writeEventCounts(ctx, tx, &insertEventDelta, sumEvents(events, times))
}

func sumEvents(events []eventRow, times int) map[eventName]int {
	sums := map[eventName]int{}
	for _, e := range events {
		sums[eventName{e.Scope, e.Name}] += times
	}
	return sums
}

// writeEventCounts writes sums in the order of their names.
func (s *eventNames) writeEventCounts(ctx context.Context, tx bun.Tx, b *bulk, sums map[eventName]int) error {
	names := slices.SortedFunc(maps.Keys(sums), eventName.compare)
	err := b.run(ctx, s.db, tx, len(names), func(i int) []any {
		return []any{names[i].Org, string(names[i].Stage), names[i].Name, sums[names[i]]}
	}, nil)
	if err != nil {
		return fmt.Errorf("count events: %w", err)
	}
	return nil
}

// deleteEvents deletes events as q says, and counts them.
func (s *eventNames) deleteEvents(ctx context.Context, tx bun.Tx, q *bun.DeleteQuery) (int, error) {
	var rows []eventRow
	if _, err := q.Model((*eventRow)(nil)).Returning("org, stage, name").Exec(ctx, &rows); err != nil {
		return 0, fmt.Errorf("delete events: %w", err)
	}
	return len(rows), s.countEvents(ctx, tx, rows, -1)
}

var addEventCounts = bulk{
	table:   "event_names",
	columns: insertEventDelta.columns,
	suffix:  "ON CONFLICT (org, stage, name) DO UPDATE SET n = event_names.n + EXCLUDED.n",
}

// FoldEventNames adds up to limit rows of event_deltas to the counts of their names, oldest
// first, and tells whether there may be more. Calls at the same time share the work, and one
// that is cut off adds nothing.
func (s *eventNames) FoldEventNames(ctx context.Context, limit int) (more bool, err error) {
	defer wrap(&err, "fold the names of events")
	return foldRows(ctx, s.db, limit, func(ctx context.Context, tx bun.Tx, deltas []eventDeltaRow) error {
		sums := map[eventName]int{}
		for _, d := range deltas {
			sums[d.eventName] += d.N
		}
		if err := s.writeEventCounts(ctx, tx, &addEventCounts, sums); err != nil {
			return err
		}
		// A name without events keeps no row. A count is below 0 while another call folds the
		// deltas before these.
		rows := mapped(slices.Collect(maps.Keys(sums)), func(n eventName) eventNameRow { return eventNameRow{Org: n.Org, Stage: n.Stage, Name: n.Name} })
		_, err := tx.NewDelete().Model(&rows).WherePK().Where("n = 0").Exec(ctx)
		return err
	})
}

// EventNames lists the names of the scope's events, those with the most events first, at most
// waypost.MaxEventNames.
func (s *eventNames) EventNames(ctx context.Context, sc waypost.Scope) (names []waypost.EventName, err error) {
	defer wrap(&err, "list the names of events")
	var rows []struct {
		Name string `bun:"name"`
		N    int    `bun:"n"`
		Last stamp  `bun:"last_at"`
	}
	// In one statement, which sees a delta before it is folded or after, never both or neither.
	err = s.r.NewRaw(`WITH d AS (SELECT name, CAST(SUM(n) AS BIGINT) AS n FROM event_deltas WHERE org = ?0 AND stage = ?1 GROUP BY name),
		top AS (SELECT name FROM event_names WHERE org = ?0 AND stage = ?1 ORDER BY n DESC LIMIT ?2),
		k AS (SELECT name FROM top UNION SELECT name FROM d),
		c AS (SELECT k.name, COALESCE(en.n, 0) + COALESCE(d.n, 0) AS n FROM k LEFT JOIN d ON d.name = k.name
			LEFT JOIN event_names AS en ON en.org = ?0 AND en.stage = ?1 AND en.name = k.name)
		SELECT f.name, f.n, (SELECT MAX(ev.occurred_at) FROM events AS ev WHERE ev.org = ?0 AND ev.stage = ?1 AND ev.name = f.name) AS last_at
		FROM (SELECT name, n FROM c WHERE n > 0 ORDER BY n DESC, name LIMIT ?2) AS f ORDER BY f.n DESC, f.name`,
		sc.Org, string(sc.Stage), waypost.MaxEventNames).Scan(ctx, &rows)
	for _, row := range rows {
		names = append(names, waypost.EventName{Name: row.Name, Count: row.N, LastAt: row.Last.Time})
	}
	return names, err
}
