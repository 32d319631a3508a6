package store

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

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
	Depth      int    `bun:"depth"`

	appID  string // the application that it comes from
	claims bool   // the enrollments that it begins are stored claimed
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
	row = eventRow{Scope: sc, EventID: e.EventID, Name: e.Name, LeadsID: e.LeadsID, Depth: e.Depth}
	row.Properties, err = toJSON(e.Properties)
	return row, err
}

func (r eventRow) event() (waypost.Event, error) {
	e := waypost.Event{EventID: r.EventID, Name: r.Name, LeadsID: r.LeadsID, AcceptedAt: r.AcceptedAt.Time, Depth: r.Depth, Seq: r.Seq}
	return e, fromJSON(r.Properties, &e.Properties)
}

func leadOfEvent(r eventRow) int64  { return r.LeadsID }
func nameOfEvent(r eventRow) string { return r.Name }

// AcceptEvent stores an event, counts it for the goals that it reaches, ends the lead's enrollments whose journeys exit on one
// of its name, as CancelEnrollment does but as exited, enrolls the lead in the journeys that
// it begins, for a pump to claim, and tells the workflows of those that have ended and
// of the enrollments that wait for one. It takes EventID, Name, LeadsID, Properties and Depth of e.
// fresh is false, and nothing happens, if the scope knows the EventID already. NotFound
// if it lacks the lead.
func (s *Store) AcceptEvent(ctx context.Context, by waypost.Caller, e waypost.Event) (fresh bool, err error) {
	fresh, _, err = s.acceptEvent(ctx, by, e, false)
	return fresh, err
}

// AcceptEventClaimed is AcceptEvent, and ClaimEnrollments for the enrollments that the event
// has begun: a group for each journey.
func (s *Store) AcceptEventClaimed(ctx context.Context, by waypost.Caller, e waypost.Event) (fresh bool, claimed []waypost.Cohort, err error) {
	return s.acceptEvent(ctx, by, e, true)
}

func (s *Store) acceptEvent(ctx context.Context, by waypost.Caller, e waypost.Event, claims bool) (fresh bool, claimed []waypost.Cohort, err error) {
	defer wrap(&err, "accept event")
	sc, author := by.Within()
	row, err := newEventRow(sc, e)
	if err != nil {
		return false, nil, err
	}
	row.appID, row.claims = author.App(), claims
	entry, err := s.eventTold(author, e)
	if err != nil {
		return false, nil, err
	}
	var outcome eventOutcome
	done := false
	if s.inOneStatement() && waypost.ClaimOf(ctx) == nil {
		if outcome, done, err = s.acceptTogether(ctx, row, entry); err != nil {
			return false, nil, err
		}
	}
	if !done {
		err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
			outcomes, err := s.acceptEvents(ctx, tx, sc, []eventRow{row}, false)
			if err != nil {
				return err
			}
			outcome = outcomes[0]
			if outcome.fault != nil {
				return outcome.fault
			}
			if outcome.fresh {
				if err := entry.write(ctx, tx); err != nil {
					return err
				}
			}
			return s.keep(ctx, tx, outcome.fresh)
		})
	} else if outcome.fault != nil {
		err = outcome.fault
	}
	if err != nil {
		return false, nil, err
	}
	return outcome.fresh, outcome.claimed, nil
}

// eventOutcome is what became of an event that was to be accepted.
type eventOutcome struct {
	fresh bool           // the scope did not know its EventID
	fault *waypost.Error // nil: it is stored
	// claimed are the enrollments that it has begun, if it claims them, and those of the
	// events that were accepted with it.
	claimed []waypost.Cohort
}

// acceptEvents stores events of a scope in their order, with all that follows from them;
// see AcceptEvent. Those in bulk are of many leads.
func (s *Store) acceptEvents(ctx context.Context, tx bun.Tx, sc waypost.Scope, rows []eventRow, bulk bool) ([]eventOutcome, error) {
	// Await locks the leads too: either it sees these events, or this sees its waits.
	leads, follows, err := s.lockLeadsOf(ctx, tx, sc, rows)
	if err != nil {
		return nil, fmt.Errorf("lock leads: %w", err)
	}
	outcomes := make([]eventOutcome, len(rows))
	at := stamp{s.time()}
	first := map[string]bool{} // by EventID
	var fresh []eventRow
	var places []int // of those in rows
	for i, row := range rows {
		if _, known := slices.BinarySearch(leads, row.LeadsID); !known {
			outcomes[i].fault = waypost.Errorf(waypost.CodeNotFound, "leadsId", "there is no lead %d", row.LeadsID)
		} else if !first[row.EventID] {
			first[row.EventID] = true
			if row.AcceptedAt.IsZero() {
				row.AcceptedAt = at
			}
			fresh, places = append(fresh, row), append(places, i)
		}
	}
	err = insertEvents.apply(ctx, s, tx, len(fresh), func(i int) []any {
		r := &fresh[i]
		return []any{r.Org, string(r.Stage), r.EventID, r.Name, r.LeadsID, r.Properties, r.AcceptedAt, r.Depth}
	}, func(i int) { outcomes[places[i]].fresh = true })
	if err != nil {
		return nil, fmt.Errorf("store events: %w", err)
	}
	stored := fresh[:0]
	for i, row := range fresh {
		if outcomes[places[i]].fresh {
			stored = append(stored, row)
		}
	}
	if len(stored) == 0 {
		return outcomes, nil
	}
	if err := s.countEvents(ctx, tx, stored, 1); err != nil {
		return nil, err
	}
	// First: who leaves waits no longer.
	claimed, err := s.exitAndBegin(ctx, tx, sc, stored, follows.begins, bulk)
	if err != nil {
		return nil, err
	}
	if follows.asked {
		if err := s.checkEvents(ctx, tx, sc, stored); err != nil {
			return nil, err
		}
	}
	for i := range rows { // whoever claims one sees to all of them
		if outcomes[i].fresh && rows[i].claims {
			outcomes[i].claimed = claimed
			break
		}
	}
	return outcomes, s.tellWaits(ctx, tx, stored, bulk)
}

// eventsFollowed tells what follows from one of some events at least.
type eventsFollowed struct {
	begins bool // a journey begins by it
	asked  bool // it may change who is in a watched segment
}

// lockLeadsOf locks the leads of events and returns those that there are. It costs nearly nothing
// where nothing follows.
func (s *Store) lockLeadsOf(ctx context.Context, tx bun.Tx, sc waypost.Scope, events []eventRow) (leads []int64, follows eventsFollowed, err error) {
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
func (s *Store) exitAndBegin(ctx context.Context, tx bun.Tx, sc waypost.Scope, events []eventRow, begins, bulk bool) (claimed []waypost.Cohort, err error) {
	if !begins {
		if err := s.convert(ctx, tx, sc, events); err != nil {
			return nil, err
		}
		return nil, s.exit(ctx, tx, events, bulk)
	}
	rules, err := entryRules(ctx, tx, sc, waypost.EntryEvent, distinct(mapped(events, nameOfEvent))...)
	if err != nil {
		return nil, err
	}
	leads, err := s.beginnable(ctx, tx, sc, events)
	if err != nil {
		return nil, err
	}
	for _, round := range rounds(events, rules) {
		if err := s.convert(ctx, tx, sc, round); err != nil {
			return nil, err
		}
		if err := s.exit(ctx, tx, round, bulk); err != nil {
			return nil, err
		}
		begun, err := s.beginByEvents(ctx, tx, rules, round, leads, bulk)
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
	columns: []string{"org text", "stage text", "event_id text", "name text", "leads_id bigint", "properties text", "accepted_at bigint", "depth bigint"},
	suffix:  "ON CONFLICT (org, stage, event_id) DO NOTHING",
	unique:  3,
}

// eventKind is what waits and exits know events by.
type eventKind struct {
	leadsID int64
	name    string
}

// firstOfKind returns the places of the first events of each kind.
func firstOfKind(events []eventRow) map[eventKind]int {
	first := make(map[eventKind]int, len(events))
	for i, e := range events {
		kind := eventKind{e.LeadsID, e.Name}
		if _, found := first[kind]; !found {
			first[kind] = i
		}
	}
	return first
}

// tellWaits tells the workflows of the enrollments that wait for one of the events. One notice
// is enough for a wait: whoever looks sees all events.
func (s *Store) tellWaits(ctx context.Context, tx bun.Tx, events []eventRow, bulk bool) error {
	var rows []waitRow
	err := tx.NewSelect().Model(&rows).Column("enrollment_id", "workflow_id", "leads_id", "events").
		Where("leads_id IN (?) AND events <> '' AND NOT closed", bun.List(distinct(mapped(events, leadOfEvent)))).
		Order("enrollment_id", "visit").Scan(ctx)
	if err != nil {
		return fmt.Errorf("look for waits: %w", err)
	}
	first := firstOfKind(events)
	var notices []waypost.Notice
	for _, row := range rows {
		came := -1
		for _, name := range strings.Split(row.Events, "\n") {
			if i, found := first[eventKind{row.LeadsID, name}]; found && (came < 0 || i < came) {
				came = i
			} else if name == waypost.Anything {
				came = slices.IndexFunc(events, func(e eventRow) bool { return e.LeadsID == row.LeadsID })
			}
		}
		if came >= 0 {
			notices = append(notices, waypost.Notice{WorkflowID: row.WorkflowID, EnrollmentID: row.EnrollmentID, EventID: events[came].EventID})
		}
	}
	return s.notify(ctx, tx, notices, bulk)
}

// ListEvents returns the scope's events that match, newest first unless f.OldestFirst: those
// that follow page.After, which is the Place of an event. A malformed one is a BadRequest
// of "cursor".
func (s *Store) ListEvents(ctx context.Context, sc waypost.Scope, f waypost.EventFilter, page waypost.Page) (events []waypost.Event, err error) {
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
			q.Where("accepted_at >= ?", stampUp(f.From))
		}
		if !f.To.IsZero() {
			q.Where("accepted_at < ?", stampUp(f.To))
		}
		order, than := "DESC", "<"
		if f.OldestFirst {
			order, than = "ASC", ">"
		}
		if after != nil {
			q.Where("(accepted_at, seq) "+than+" (?, ?)", after.AcceptedAt, after.Seq)
		}
		return q.OrderExpr("accepted_at " + order + ", seq " + order).Scan(ctx)
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
	return &row, row.AcceptedAt.Scan(micro)
}
