package store

import (
	"context"
	"fmt"

	"github.com/uptrace/bun"
)

// countStoredEvents counts events of leads, which are locked, by their days and by their names, on
// PostgreSQL: one statement costs one round trip.
var countStoredEvents = "WITH u AS MATERIALIZED (SELECT * FROM " + insertEventDays.arrayed() + " AS u (org, stage, leads_id, name, day, n, first_at, last_at)), " +
	"d AS (INSERT INTO event_days AS ed (org, stage, leads_id, name, day, n, first_at, last_at) SELECT * FROM u " + insertEventDays.suffix + ") " +
	"INSERT INTO event_deltas (org, stage, name, n) SELECT org, stage, name, CAST(SUM(n) AS BIGINT) FROM u GROUP BY org, stage, name ORDER BY org, stage, name"

// countStored counts events that the transaction has stored.
func (s *eventNames) countStored(ctx context.Context, tx bun.Tx, events []eventRow) error {
	rows := eventDays(events)
	args := func(i int) []any {
		r := &rows[i]
		return []any{r.Org, string(r.Stage), r.LeadsID, r.Name, r.Day, r.N, r.FirstAt, r.LastAt}
	}
	if s.postgres {
		arrays, err := insertEventDays.arrays(len(rows), args)
		if err != nil {
			return err
		}
		return wrapped(s.exec(ctx, tx, countStoredEvents, arrays...), "count events")
	}
	if err := insertEventDays.run(ctx, s.db, tx, len(rows), args, nil); err != nil {
		return fmt.Errorf("count events by day: %w", err)
	}
	return s.countEvents(ctx, tx, events, 1)
}
