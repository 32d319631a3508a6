package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

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
	OccurredAt stamp  `bun:"occurred_at"`
	AcceptedAt stamp  `bun:"accepted_at"`
	Depth      int    `bun:"depth"`

	to     waypost.EventLead // whose it is, if it has no LeadsID yet
	author *waypost.Author   // who reports it
	claims bool              // the enrollments that it begins are stored claimed
}

func newEventRow(sc waypost.Scope, e waypost.Event) (row eventRow, err error) {
	var p waypost.Problems
	checkText(&p, "eventId", e.EventID)
	checkText(&p, "name", e.Name)
	if err := p.Err("event"); err != nil {
		return row, err
	}
	if e.Properties == nil {
		e.Properties = map[string]any{}
	}
	row = eventRow{Scope: sc, EventID: e.EventID, Name: e.Name, LeadsID: e.LeadsID, OccurredAt: stamp{e.OccurredAt}, Depth: e.Depth, to: e.To}
	row.Properties, err = toJSON(e.Properties)
	return row, err
}

func (r eventRow) event() (waypost.Event, error) {
	e := waypost.Event{
		EventID: r.EventID, Name: r.Name, LeadsID: r.LeadsID, OccurredAt: r.OccurredAt.Time, AcceptedAt: r.AcceptedAt.Time, Depth: r.Depth, Seq: r.Seq,
	}
	return e, fromJSON(r.Properties, &e.Properties)
}

// late tells whether it came too late to begin, wake or end something.
func (r eventRow) late() bool {
	return waypost.Event{OccurredAt: r.OccurredAt.Time, AcceptedAt: r.AcceptedAt.Time}.Late()
}

// since tells whether it occurred at a time or later. One whose sender does not say when occurred when
// it was accepted, which is after everything that its transaction finds, whatever the clocks say.
func (r eventRow) since(at time.Time) bool {
	return !r.OccurredAt.Before(r.AcceptedAt.Time) || !r.OccurredAt.Before(at)
}

// eventOrder is the order in which the events of a lead (alias e) occurred. What is said to have
// occurred at one time is ordered by its id, so that the order in which it comes makes no difference;
// events whose sender says nothing occurred as they came.
const eventOrder = "e.occurred_at, CASE WHEN e.occurred_at = e.accepted_at THEN '' ELSE e.event_id END, e.seq"

// latestEvent is the opposite of eventOrder.
const latestEvent = "e.occurred_at DESC, CASE WHEN e.occurred_at = e.accepted_at THEN '' ELSE e.event_id END DESC, e.seq DESC"

// before tells whether it comes before another event in eventOrder; of two that came together, and
// that nothing else tells apart, the first one of a list does.
func (r eventRow) before(other eventRow) bool {
	said := func(r eventRow) string {
		if r.OccurredAt.Equal(r.AcceptedAt.Time) {
			return ""
		}
		return r.EventID
	}
	return cmp.Or(r.OccurredAt.Compare(other.OccurredAt.Time), cmp.Compare(said(r), said(other))) < 0
}

func leadOfEvent(r eventRow) int64  { return r.LeadsID }
func nameOfEvent(r eventRow) string { return r.Name }

// AcceptEvent stores an event, counts it for the goals that it reaches, ends the lead's enrollments whose journeys exit on one
// of its name, as CancelEnrollment does but as exited, enrolls the lead in the journeys that
// it begins, for a pump to claim, and tells the workflows of those that have ended and
// of the enrollments that wait for one. It takes EventID, Name, LeadsID or To, Properties, OccurredAt
// and Depth of e. A late event is stored and counted for goals and segments only.
// stored is false, and nothing happens, if the scope knows the EventID already. NotFound
// if it lacks the lead; Conflict with a detail Ambiguous if several leads have its e-mail address.
func (s *events) AcceptEvent(ctx context.Context, by waypost.Caller, e waypost.Event) (stored bool, err error) {
	stored, _, err = s.acceptEvent(ctx, by, e, false)
	return stored, err
}

// AcceptEventClaimed is AcceptEvent, and ClaimEnrollments for the enrollments that the event
// has begun: a group for each journey.
func (s *events) AcceptEventClaimed(
	ctx context.Context, by waypost.Caller, e waypost.Event,
) (stored bool, claimed []waypost.Cohort, err error) {
	return s.acceptEvent(ctx, by, e, true)
}

// acceptEvent is AcceptEvent, with claims AcceptEventClaimed. It shares a transaction with others where it
// can; a request with an Idempotency-Key takes one of its own.
func (s *events) acceptEvent(
	ctx context.Context, by waypost.Caller, e waypost.Event, claims bool,
) (stored bool, claimed []waypost.Cohort, err error) {
	defer wrap(&err, "accept event")
	sc, author := by.Within()
	row, err := newEventRow(sc, e)
	if err != nil {
		return false, nil, err
	}
	row.author, row.claims = author, claims
	var outcome eventOutcome
	done := false
	if s.inOneStatement() && waypost.ClaimOf(ctx) == nil {
		if outcome, done, err = s.acceptTogether(ctx, row); err != nil {
			return false, nil, err
		}
	}
	if !done {
		err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
			rows := []eventRow{row}
			outcomes, err := s.acceptEvents(ctx, tx, sc, rows, false)
			if err != nil {
				return err
			}
			outcome = outcomes[0]
			if outcome.fault != nil {
				return outcome.fault
			}
			if err := s.tellEvents(ctx, tx, rows, outcomes); err != nil {
				return err
			}
			return s.idempotency.keepResult(ctx, tx, outcome.stored)
		})
	} else if outcome.fault != nil {
		err = outcome.fault
	}
	if err != nil {
		return false, nil, err
	}
	return outcome.stored, outcome.claimed, nil
}

// eventOutcome is what became of an event that was to be accepted.
type eventOutcome struct {
	stored bool           // false if the scope knows its EventID, or with a fault
	fault  *waypost.Error // nil if there is nothing wrong with it
	// claimed are the enrollments that it has begun, if it claims them, and those of the
	// events that were accepted with it.
	claimed []waypost.Cohort
}

// acceptEvents stores events of a scope in their order, with all that follows from them;
// see AcceptEvent, and sets the LeadsID of those that have none. Those in bulk are of many leads.
func (s *events) acceptEvents(ctx context.Context, tx bun.Tx, sc waypost.Scope, rows []eventRow, bulk bool) ([]eventOutcome, error) {
	became, err := s.addressEvents(ctx, tx, sc, rows, bulk)
	if err != nil {
		return nil, err
	}
	// Await locks the leads too: either it sees these events, or this sees its waits.
	leads, follows, err := s.lockLeadsOf(ctx, tx, sc, rows)
	if err != nil {
		return nil, fmt.Errorf("lock leads: %w", err)
	}
	outcomes := make([]eventOutcome, len(rows))
	at := stamp{s.time()}
	first := map[string]bool{} // by EventID
	var unknown []eventRow     // whose EventIDs may be unused
	var places []int           // of those in rows
	for i, row := range rows {
		if became[i].fault != nil || became[i].known {
			outcomes[i].fault = became[i].fault
		} else if _, known := slices.BinarySearch(leads, row.LeadsID); !known {
			outcomes[i].fault = waypost.Errorf(waypost.CodeNotFound, "leadsId", "there is no lead %d", row.LeadsID)
		} else if !first[row.EventID] {
			first[row.EventID] = true
			if row.AcceptedAt.IsZero() {
				row.AcceptedAt = at
			}
			if row.OccurredAt.IsZero() {
				row.OccurredAt = row.AcceptedAt
			}
			unknown, places = append(unknown, row), append(places, i)
		}
	}
	err = insertEvents.apply(ctx, s.db, tx, len(unknown), func(i int) []any {
		r := &unknown[i]
		return []any{r.Org, string(r.Stage), r.EventID, r.Name, r.LeadsID, r.Properties, r.OccurredAt, r.AcceptedAt, r.Depth}
	}, func(i int) { outcomes[places[i]].stored = true })
	if err != nil {
		return nil, fmt.Errorf("store events: %w", err)
	}
	stored := unknown[:0]
	for i, row := range unknown {
		if outcomes[places[i]].stored {
			stored = append(stored, row)
		}
	}
	if len(stored) == 0 {
		return outcomes, nil
	}
	if err := s.eventNames.countStored(ctx, tx, stored); err != nil {
		return nil, err
	}
	// First: who leaves waits no longer.
	claimed, err := s.exitAndBegin(ctx, tx, sc, stored, follows.begins, bulk)
	if err != nil {
		return nil, err
	}
	if follows.asked {
		if err := s.segmentChecks.checkEvents(ctx, tx, sc, stored); err != nil {
			return nil, err
		}
	}
	for i := range rows { // whoever claims one sees to all of them
		if outcomes[i].stored && rows[i].claims {
			outcomes[i].claimed = claimed
			break
		}
	}
	return outcomes, s.tellWaits(ctx, tx, slices.DeleteFunc(stored, eventRow.late), bulk)
}

// eventsFollowed tells what follows from one of some events at least.
type eventsFollowed struct {
	begins bool // a journey begins by it
	asked  bool // it may change who is in a watched segment
}

// lockLeadsOf locks the leads of events and returns those that there are. It costs nearly nothing
// where nothing follows.
func (s *events) lockLeadsOf(
	ctx context.Context, tx bun.Tx, sc waypost.Scope, events []eventRow,
) (leads []int64, follows eventsFollowed, err error) {
	var found []struct {
		LeadsID int64 `bun:"leads_id"`
		Begins  bool  `bun:"begins"`
		Asked   bool  `bun:"asked"`
	}
	names := bun.List(distinct(mapped(events, nameOfEvent)))
	q := tx.NewSelect().TableExpr("leads AS l").Column("l.leads_id").
		ColumnExpr("EXISTS (SELECT 1 FROM entry_rules WHERE org = ? AND stage = ? AND kind = ? AND name IN (?)) AS begins", sc.Org, sc.Stage, waypost.EntryEvent, names).
		ColumnExpr("EXISTS (SELECT 1 FROM segment_causes WHERE org = ? AND stage = ? AND kind = ? AND name IN (?)) AS asked", sc.Org, sc.Stage, causeEvent, names).
		Where("l.leads_id IN (?) AND l.org = ? AND l.stage = ?", bun.List(distinct(mapped(events, leadOfEvent))), sc.Org, sc.Stage).Order("l.leads_id")
	if err := s.lockFor(q, forChange).Scan(ctx, &found); err != nil {
		return nil, follows, err
	}
	for _, row := range found {
		leads, follows = append(leads, row.LeadsID), eventsFollowed{row.Begins, row.Asked}
	}
	return leads, follows, nil
}

// exitAndBegin counts events for goals, ends the enrollments that exit on them, and then makes
// those that they begin: an event does neither to an enrollment that it begins itself, but to
// those of the events before it.
func (s *events) exitAndBegin(
	ctx context.Context, tx bun.Tx, sc waypost.Scope, events []eventRow, begins, bulk bool,
) (claimed []waypost.Cohort, err error) {
	if !begins {
		if err := s.entries.convert(ctx, tx, sc, events); err != nil {
			return nil, err
		}
		return nil, s.exits.exit(ctx, tx, events, bulk)
	}
	rules, err := entryRules(ctx, tx, sc, waypost.EntryEvent, distinct(mapped(events, nameOfEvent))...)
	if err != nil {
		return nil, err
	}
	leads, err := s.entries.beginnable(ctx, tx, sc, events)
	if err != nil {
		return nil, err
	}
	for _, round := range eventParts(events, rules) {
		if err := s.entries.convert(ctx, tx, sc, round); err != nil {
			return nil, err
		}
		if err := s.exits.exit(ctx, tx, round, bulk); err != nil {
			return nil, err
		}
		begun, err := s.entries.beginByEvents(ctx, tx, rules, round, leads, bulk)
		if err != nil {
			return nil, err
		}
		claimed = append(claimed, begun...)
	}
	return claimed, nil
}

// insertEvents numbers events in their order.
var insertEvents = bulk{
	table:   "events",
	columns: []string{"org text", "stage text", "event_id text", "name text", "leads_id bigint", "properties text", "occurred_at bigint", "accepted_at bigint", "depth bigint"},
	suffix:  "ON CONFLICT (org, stage, event_id) DO NOTHING",
	unique:  3,
}

// eventKind is what waits and exits know events by.
type eventKind struct {
	leadsID int64
	name    string
}

// ofKinds returns the places of the events of each kind.
func ofKinds(events []eventRow) map[eventKind][]int {
	places := make(map[eventKind][]int, len(events))
	for i, e := range events {
		kind := eventKind{e.LeadsID, e.Name}
		places[kind] = append(places[kind], i)
	}
	return places
}

// tellWaits tells the workflows of the enrollments that wait for one of the events. One notice
// is enough for a wait: whoever looks sees all events.
func (s *events) tellWaits(ctx context.Context, tx bun.Tx, events []eventRow, bulk bool) error {
	if len(events) == 0 {
		return nil
	}
	var rows []waitRow
	err := tx.NewSelect().Model(&rows).Column("enrollment_id", "workflow_id", "leads_id", "events").
		Where("leads_id IN (?) AND events <> '' AND NOT closed", bun.List(distinct(mapped(events, leadOfEvent)))).
		Order("enrollment_id", "visit").Scan(ctx)
	if err != nil {
		return fmt.Errorf("look for waits: %w", err)
	}
	kinds := ofKinds(events)
	var notices []waypost.Notice
	for _, row := range rows {
		came := -1
		for _, name := range strings.Split(row.Events, "\n") {
			if of := kinds[eventKind{row.LeadsID, name}]; len(of) > 0 && (came < 0 || of[0] < came) {
				came = of[0]
			} else if name == waypost.Anything {
				came = slices.IndexFunc(events, func(e eventRow) bool { return e.LeadsID == row.LeadsID })
			}
		}
		if came >= 0 {
			notices = append(notices, waypost.Notice{WorkflowID: row.WorkflowID, EnrollmentID: row.EnrollmentID, EventID: events[came].EventID})
		}
	}
	return s.notices.notify(ctx, tx, notices, bulk)
}

// ListEvents returns the scope's events that match, newest first unless f.OldestFirst: those
// that follow page.After, which is the Place of an event. A malformed one is a BadRequest
// of "cursor".
func (s *events) ListEvents(
	ctx context.Context, sc waypost.Scope, f waypost.EventFilter, page waypost.Page,
) (events []waypost.Event, err error) {
	defer wrap(&err, "list events")
	after, err := eventPlace(page.After)
	if err != nil {
		return nil, err
	}
	var rows []eventRow
	err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		// An index gives the order; without this, what few events seem to match would be read
		// altogether and sorted.
		if err := s.withoutPlan(ctx, tx, "sort"); err != nil {
			return err
		}
		q := tx.NewSelect().Model(&rows).Limit(pageSize(page))
		index := "events_by_time"
		switch {
		case f.LeadsID != 0:
			// Only one index has this order of a lead's events, as long as the scope is not asked for.
			index = "events_of_lead"
			q.Where("leads_id = ? AND EXISTS (SELECT 1 FROM leads AS l WHERE l.leads_id = ? AND l.org = ? AND l.stage = ?)", f.LeadsID, f.LeadsID, sc.Org, sc.Stage)
		case f.Name != "":
			index = "events_by_name"
			fallthrough
		default:
			q.Where("org = ? AND stage = ?", sc.Org, sc.Stage)
		}
		s.indexedBy(q, "events AS ev", index)
		if f.Name != "" {
			q.Where("name = ?", cleanText(f.Name))
		}
		if !f.From.IsZero() {
			q.Where("occurred_at >= ?", stampUp(f.From))
		}
		if !f.To.IsZero() {
			q.Where("occurred_at < ?", stampUp(f.To))
		}
		order, than := "DESC", "<"
		if f.OldestFirst {
			order, than = "ASC", ">"
		}
		if after != nil {
			q.Where("(occurred_at, seq) "+than+" (?, ?)", after.OccurredAt, after.Seq)
		}
		return q.OrderExpr("occurred_at " + order + ", seq " + order).Scan(ctx)
	})
	if err != nil {
		return nil, err
	}
	return decoded(rows, eventRow.event)
}

// eventPlace reads the place of an event in a list; nil for "".
func eventPlace(place string) (*eventRow, error) {
	if place == "" {
		return nil, nil
	}
	at, seq, _ := strings.Cut(place, ",")
	var row eventRow
	micro, err := strconv.ParseInt(at, 10, 64)
	if err == nil {
		row.Seq, err = strconv.ParseInt(seq, 10, 64)
	}
	if err != nil {
		return nil, errCursor
	}
	return &row, row.OccurredAt.Scan(micro)
}
