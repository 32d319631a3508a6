package store

import (
	"context"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

type eventRow struct {
	bun.BaseModel `bun:"table:events,alias:ev"`

	Seq int64 `bun:"seq,pk,autoincrement"`
	waypost.Scope
	EventID    string `bun:"event_id"`
	Name       string `bun:"name"`
	LeadsID    int64  `bun:"leads_id"`
	Properties string `bun:"properties"`
	AcceptedAt stamp  `bun:"accepted_at"`
}

func (r eventRow) event() (waypost.Event, error) {
	e := waypost.Event{EventID: r.EventID, Name: r.Name, LeadsID: r.LeadsID, AcceptedAt: r.AcceptedAt.Time, Seq: r.Seq}
	return e, fromJSON(r.Properties, &e.Properties)
}

// AcceptEvent stores an event, ends the lead's enrollments whose journeys exit on one
// of its name, as CancelEnrollment does but as exited, and tells their workflows and
// those of the enrollments that wait for one. It takes EventID, Name, LeadsID and Properties of e. fresh
// is false, and nothing happens, if the scope knows the EventID already. NotFound
// if it lacks the lead.
func (s *Store) AcceptEvent(ctx context.Context, by waypost.Caller, e waypost.Event) (fresh bool, err error) {
	defer wrap(&err, "accept event")
	sc, author := by.Within()
	var p waypost.Problems
	checkText(&p, "eventId", e.EventID)
	checkText(&p, "name", e.Name)
	if err := p.Err("event"); err != nil {
		return false, err
	}
	if e.Properties == nil {
		e.Properties = map[string]any{}
	}
	properties, err := toJSON(e.Properties)
	if err != nil {
		return false, err
	}
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		// Await locks the lead too: either it sees this event, or this sees its waits.
		if _, err := s.lockLead(ctx, tx, sc, e.LeadsID, forChange); err != nil {
			return err
		}
		row := eventRow{
			Scope: sc, EventID: e.EventID, Name: e.Name, LeadsID: e.LeadsID,
			Properties: properties, AcceptedAt: stamp{s.time()},
		}
		n, err := affected(tx.NewInsert().Model(&row).On("CONFLICT (org, stage, event_id) DO NOTHING").Returning("NULL").Exec(ctx))
		if err != nil {
			return err
		}
		if fresh = n > 0; !fresh {
			return s.keep(ctx, tx, fresh)
		}
		if err := s.exit(ctx, tx, row); err != nil { // first: who leaves waits no longer
			return err
		}
		_, err = tx.NewRaw(`INSERT INTO notices (workflow_id, enrollment_id, event_id, created_at, claimed_until)
			SELECT wt.workflow_id, wt.enrollment_id, ?, ?, 0 FROM waits AS wt WHERE wt.leads_id = ? AND wt.event = ? AND NOT wt.closed
			ORDER BY wt.enrollment_id, wt.visit`, row.EventID, row.AcceptedAt, row.LeadsID, row.Name).Exec(ctx)
		if err != nil {
			return err
		}
		told := fields{"name": e.Name, "leadsId": e.LeadsID, "properties": slices.Sorted(maps.Keys(e.Properties))}
		if err := s.audit(ctx, tx, author, "event.accept", e.EventID, nil, told); err != nil {
			return err
		}
		return s.keep(ctx, tx, fresh)
	})
	return fresh, err
}
