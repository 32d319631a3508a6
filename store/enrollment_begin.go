package store

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// Entrances decides who enters a journey that begins by itself; it is a *journey.Entrances.
type Entrances interface {
	Enter(v waypost.JourneyVersion, o waypost.Occasion) (waypost.EntryDecision, error)
}

// SetEntrances says who decides about entries. It is called before anything is stored that
// can begin a journey.
func (s *entries) SetEntrances(e Entrances) { s.entrances = e }

// entryRuleRow is what begins a journey by itself. Only the published version of a journey
// that is not archived has some.
type entryRuleRow struct {
	bun.BaseModel `bun:"table:entry_rules,alias:er"`

	waypost.Scope
	Kind      waypost.EntryKind `bun:"kind"`
	Name      string            `bun:"name"` // of the event, or the id of the segment; "" of leads
	JourneyID string            `bun:"journey_id"`
	Version   int               `bun:"version"`
	SinceAt   stamp             `bun:"since_at"` // when the journey began to begin by it
}

// replaceEntryRules stores what begins a version in the place of what began the one before it.
func (s *entries) replaceEntryRules(ctx context.Context, tx bun.Tx, journey journeyRow, version int, rules []waypost.EntryRule) error {
	if len(rules) > 0 { // those of other journeys are counted
		if err := s.lockTable(ctx, tx, "entry_rules", againstWrites); err != nil {
			return err
		}
	}
	var before []entryRuleRow
	if err := tx.NewSelect().Model(&before).Where("journey_id = ?", journey.ID).Scan(ctx); err != nil {
		return err
	}
	if err := dropEntryRules(ctx, tx, journey.ID); err != nil || len(rules) == 0 {
		return err
	}
	now := stamp{s.time()}
	rows := mapped(rules, func(r waypost.EntryRule) entryRuleRow {
		row := entryRuleRow{Scope: journey.scope(), Kind: r.Kind, Name: cleanText(cmp.Or(r.Event, r.Segment)), JourneyID: journey.ID, Version: version, SinceAt: now}
		for _, b := range before {
			if b.Kind == row.Kind && b.Name == row.Name {
				row.SinceAt = b.SinceAt
			}
		}
		return row
	})
	var p waypost.Problems
	for _, row := range rows {
		others, err := tx.NewSelect().Model((*entryRuleRow)(nil)).
			Where("org = ? AND stage = ? AND kind = ? AND name = ?", row.Org, row.Stage, row.Kind, row.Name).Count(ctx)
		if err != nil {
			return err
		}
		if others >= waypost.MaxEntryRules {
			p.Add(waypost.DetailOutOfRange, "entry", "%d journeys of the stage begin by %s already; archive one of them",
				others, cmp.Or(row.Name, string(row.Kind)))
		}
	}
	if err := p.Err("entry"); err != nil {
		return err
	}
	_, err := tx.NewInsert().Model(&rows).Exec(ctx)
	return err
}

func dropEntryRules(ctx context.Context, tx bun.Tx, journeyID string) error {
	_, err := tx.NewDelete().Model((*entryRuleRow)(nil)).Where("journey_id = ?", journeyID).Exec(ctx)
	return err
}

// entryRule is a rule of a journey that takes leads: an archived one takes none, and whoever enters
// a paused one waits for its resume.
type entryRule struct {
	entryRuleRow `bun:",extend"`
	Exits        bool `bun:"exits,scanonly"` // events end enrollments of its version
}

// entryRules are those that occasions of a kind may begin journeys by, in the order of the
// journeys. names are those of events, ids of segments, or "" alone.
func entryRules(ctx context.Context, tx bun.Tx, sc waypost.Scope, kind waypost.EntryKind, names ...string) (rules []entryRule, err error) {
	err = tx.NewSelect().Model(&rules).ColumnExpr("?TableColumns").
		ColumnExpr("EXISTS (SELECT 1 FROM journey_exits AS jx WHERE jx.journey_id = er.journey_id AND jx.version = er.version) AS exits").
		Join("JOIN journeys AS j ON j.id = er.journey_id AND j.status <> ?", waypost.JourneyArchived).
		Where("er.org = ? AND er.stage = ? AND er.kind = ? AND er.name IN (?)", sc.Org, sc.Stage, kind, bun.List(names)).
		Order("er.journey_id").Scan(ctx)
	if err != nil {
		err = fmt.Errorf("look for journeys that begin: %w", err)
	}
	return rules, err
}

// occasion is what may begin journeys for a lead, which is locked.
type occasion struct {
	waypost.Occasion
	appID  string // the application that it comes from
	depth  int    // of what it begins, see waypost.Enrollment.Depth
	claims bool   // what it begins is stored claimed
	bulk   bool   // it is one of many: what they begin is divided into cohorts
	since  stamp  // of a segment: when what had the lead enter it was stored
}

// name is that of the rules that it may begin journeys by.
func (o occasion) name() string {
	if o.Event != nil {
		return o.Event.Name
	}
	return o.Segment
}

// begin enrolls the leads of occasions, all different, in the journeys of the rules that
// these begin, and counts what the re-entry rule forbids and what could not be decided. It
// returns how many it has enrolled, and of these those that are claimed, a group for each
// journey.
func (s *entries) begin(
	ctx context.Context, tx bun.Tx, rules []entryRule, occasions []occasion,
) (n int, claimed []waypost.Cohort, err error) {
	slices.SortFunc(occasions, func(a, b occasion) int { return cmp.Compare(a.Lead.LeadsID, b.Lead.LeadsID) })
	t := tallies{}
	for _, rule := range rules {
		b := beginning{entries: s, tx: tx, rule: rule, counts: t}
		if b.version, err = s.cohorts.versionIn(ctx, tx, versionKey{JourneyID: rule.JourneyID, Version: rule.Version}); err != nil {
			return 0, nil, fmt.Errorf("load journey %s: %w", rule.JourneyID, err)
		}
		if b.rules, err = s.rulesIn(b.version); err != nil {
			return 0, nil, err
		}
		entered, err := b.enter(ctx, occasions)
		if err != nil {
			return 0, nil, fmt.Errorf("begin journey %s: %w", rule.JourneyID, err)
		}
		n += entered
		if len(b.claimed.Members) > 0 {
			claimed = append(claimed, b.claimed)
		}
	}
	return n, claimed, s.statistics.count(ctx, tx, t)
}

// beginning enrolls leads in one journey.
type beginning struct {
	*entries
	tx      bun.Tx
	rule    entryRule
	version waypost.JourneyVersion
	rules   versionRules
	counts  tallies
	claimed waypost.Cohort
}

// enter enrolls the leads of the occasions that the journey's entry accepts, and returns how many run:
// those of the control group are stored, and not counted in n.
func (b *beginning) enter(ctx context.Context, occasions []occasion) (n int, err error) {
	if b.entrances == nil {
		return 0, errors.New("nobody decides about entries")
	}
	var leads, held []int64
	keys, of := map[int64]string{}, map[int64]occasion{}
	var reentry waypost.Reentry
	for _, o := range occasions {
		if o.name() != b.rule.Name || o.Kind == waypost.EntrySegment && o.since.Before(b.rule.SinceAt.Time) {
			continue
		}
		decision, err := b.entrances.Enter(b.version, o.Occasion)
		if err != nil {
			return 0, err
		}
		reentry = decision.Reentry
		if decision.Failed && !o.Lead.Test {
			b.of(o).Undecided++
		}
		if decision.Enters {
			id := o.Lead.LeadsID
			if !o.Lead.Test && b.rules.holdsOut(id, 0) {
				held = append(held, id)
			} else {
				leads = append(leads, id)
			}
			keys[id], of[id] = cleanText(decision.Key), o
		}
	}
	all := slices.Concat(leads, held)
	if len(all) == 0 {
		return 0, nil
	}
	now := of[all[0]].At
	tests := map[int64]bool{}
	for id, o := range of {
		tests[id] = o.Lead.Test
	}
	entries, err := b.enterBoth(ctx, b.tx, entrance{
		Scope: b.rule.Scope, versionKey: versionKey{b.rule.JourneyID, b.rule.Version}, goal: b.rules.goalVersion() > 0, rule: onReentry(reentry), keys: keys, tests: tests, at: now,
	}, leads, held)
	if err != nil {
		return 0, err
	}
	in := keyed(slices.Concat(entries.entered, entries.heldOut), func(m waypost.CohortMember) int64 { return m.LeadsID })
	for _, id := range all {
		if _, ok := in[id]; !ok && !of[id].Lead.Test {
			b.of(of[id]).Refused++
		}
	}
	return len(entries.entered), b.store(ctx, entries, keys, of)
}

// of are the counts of the hour of an occasion.
func (b *beginning) of(o occasion) *waypost.Counts {
	return b.counts.of(b.rule.JourneyID, b.rule.Version).at(o.At)
}

// store stores enrollments, those in bulk with their cohorts, and those that are held out.
func (b *beginning) store(ctx context.Context, in admitted, keys map[int64]string, of map[int64]occasion) error {
	rows := make([]enrollmentRow, len(in.entered)+len(in.heldOut))
	for i, m := range slices.Concat(in.entered, in.heldOut) {
		o := of[m.LeadsID]
		row := enrollmentRow{
			ID: m.EnrollmentID, Org: b.rule.Org, Stage: string(b.rule.Stage), JourneyID: b.rule.JourneyID, Version: b.rule.Version,
			LeadsID: m.LeadsID, AppID: o.appID, EntryKey: keys[m.LeadsID], Params: "{}", Status: string(waypost.EnrollmentPending),
			Exits: b.rule.Exits, Test: o.Lead.Test, CreatedAt: stamp{o.At}, BeforeAt: in.before[m.LeadsID],
		}
		b.rules.assign(&row, 0)
		if o.claims && !row.heldOut() {
			row.ClaimedAt = row.CreatedAt
			b.claimed.Version = b.version
			b.claimed.Members = append(b.claimed.Members, m)
		}
		if err := b.remember(&row, o); err != nil {
			return err
		}
		rows[i] = row
		if row.Test {
			continue
		}
		counts := b.of(o)
		row.countIn(counts)
		if !row.heldOut() {
			counts.Begin(o.Kind, 1)
		}
	}
	if n := len(in.entered); n > 0 && of[rows[0].LeadsID].bulk {
		if err := b.divide(ctx, rows[:n], in.entered); err != nil {
			return fmt.Errorf("store cohorts: %w", err)
		}
	}
	err := insertEnrollments.run(ctx, b.db, b.tx, len(rows), func(i int) []any {
		r := &rows[i]
		return []any{
			r.ID, r.Org, r.Stage, r.JourneyID, r.Version, r.LeadsID, r.AppID, r.EntryKey, r.Params, r.Depth, &r.Exits, r.CohortID,
			r.ClaimedAt, r.Status, r.NodeID, r.LastSeq, r.CreatedAt, r.Entry, r.Event, r.EventSeq,
			r.GoalVersion, &r.Test, r.EndedAt, r.BeforeAt,
		}
	}, nil)
	if err != nil {
		return fmt.Errorf("store enrollments: %w", err)
	}
	return nil
}

var insertEnrollments = bulk{
	table: "enrollments",
	columns: []string{
		"id text", "org text", "stage text", "journey_id text", "version bigint", "leads_id bigint", "app_id text", "entry_key text", "params text",
		"depth bigint", "exits boolean", "cohort_id text", "claimed_at bigint", "status text", "node_id text", "last_seq bigint", "created_at bigint",
		"entry text", "event bytea", "event_seq bigint", "goal_version bigint", "test boolean", "ended_at bigint", "before_at bigint",
	},
}

// divide makes cohorts of enrollments that wait to be claimed, as a launch does.
func (b *beginning) divide(ctx context.Context, rows []enrollmentRow, members []waypost.CohortMember) error {
	cohorts, err := cohortsOf(rows[0], members)
	if err != nil {
		return err
	}
	for i := range cohorts {
		group := rows[:cohorts[i].Size]
		rows = rows[len(group):]
		for j := range group {
			group[j].CohortID = &cohorts[i].ID
		}
	}
	_, err = b.tx.NewInsert().Model(&cohorts).Exec(ctx)
	return err
}

// remember notes in an enrollment what it began by.
func (b *beginning) remember(row *enrollmentRow, o occasion) error {
	entry := waypost.Entry{Kind: o.Kind, Segment: o.Segment}
	row.Depth = o.depth
	if o.Event != nil {
		entry.Event, entry.EventID, entry.OccurredAt = o.Event.Name, o.Event.EventID, o.Event.OccurredAt
		row.EventSeq = &o.Event.Seq
		text, err := toJSON(o.Event)
		if err != nil {
			return err
		}
		row.Event = b.keys.Seal([]byte(text), enrollmentEventPurpose(row.ID))
	}
	text, err := toJSON(entry)
	row.Entry = &text
	return err
}

func enrollmentEventPurpose(id string) string { return "enrollment/" + id + "/event" }

// beganBy says what the enrollment began by.
func (r enrollmentRow) beganBy() (e waypost.Entry, err error) {
	switch {
	case r.Entry != nil:
		err = fromJSON(*r.Entry, &e)
	case r.LaunchID != nil:
		e.Kind = waypost.EntryLaunch
	case r.Source != nil:
		e.Kind = waypost.EntryEnroll
	default:
		e.Kind = waypost.EntryAPI
	}
	return e, err
}

// withEvent adds the event that the enrollment began by, unless it was erased.
func (s *entries) withEvent(row enrollmentRow) (waypost.Enrollment, error) {
	e, err := row.enrollment()
	if err != nil || row.Event == nil {
		return e, err
	}
	text, err := s.keys.Open(row.Event, enrollmentEventPurpose(row.ID))
	if err != nil {
		return e, fmt.Errorf("open the event of enrollment %s: %w", row.ID, err)
	}
	e.Event = &waypost.Event{}
	return e, fromJSON(string(text), e.Event)
}

// beginByEvents enrolls the leads of events in the journeys that these begin; see begin. The
// events are of different leads.
func (s *entries) beginByEvents(
	ctx context.Context, tx bun.Tx, rules []entryRule, events []eventRow, leads map[int64]waypost.Lead, bulk bool,
) ([]waypost.Cohort, error) {
	occasions := make([]occasion, 0, len(events))
	for _, row := range events {
		if row.late() || !slices.ContainsFunc(rules, func(r entryRule) bool { return r.Name == row.Name }) {
			continue
		}
		event, err := row.event()
		if err != nil {
			return nil, err
		}
		occasions = append(occasions, occasion{
			Occasion: waypost.Occasion{Kind: waypost.EntryEvent, Lead: leads[row.LeadsID], Event: &event, At: event.AcceptedAt},
			appID:    row.author.App(), depth: event.Depth, claims: row.claims, bulk: bulk,
		})
	}
	if len(occasions) == 0 {
		return nil, nil
	}
	_, claimed, err := s.begin(ctx, tx, rules, occasions)
	return claimed, err
}

// eventParts divides events so that each part has no lead twice that one of the rules may enroll,
// and keeps the order of each lead's events.
func eventParts(events []eventRow, rules []entryRule) [][]eventRow {
	enters := map[int64]bool{}
	for _, e := range events {
		enters[e.LeadsID] = enters[e.LeadsID] || slices.ContainsFunc(rules, func(r entryRule) bool { return r.Name == e.Name })
	}
	var parts [][]eventRow
	times := map[int64]int{}
	for _, e := range events {
		part := times[e.LeadsID]
		if enters[e.LeadsID] {
			times[e.LeadsID]++
		}
		if part == len(parts) {
			parts = append(parts, nil)
		}
		parts[part] = append(parts[part], e)
	}
	return parts
}

// beginnable reads what the entries of events need to know: the events' places in the order,
// and their leads.
func (s *entries) beginnable(ctx context.Context, tx bun.Tx, sc waypost.Scope, events []eventRow) (map[int64]waypost.Lead, error) {
	var seqs []eventRow
	err := tx.NewSelect().Model(&seqs).Column("seq", "event_id").
		Where("org = ? AND stage = ? AND event_id IN (?)", sc.Org, sc.Stage, bun.List(mapped(events, func(e eventRow) string { return e.EventID }))).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the order of events: %w", err)
	}
	byID := keyed(seqs, func(e eventRow) string { return e.EventID })
	for i := range events {
		events[i].Seq = byID[events[i].EventID].Seq
	}
	return leadsIn(ctx, tx, mapped(events, leadOfEvent))
}

// beginByLeads enrolls leads that were created, which have no state before, or changed, in the
// journeys that this begins, and adds those that may have entered a segment by it to segment_checks.
// It returns how many it has enrolled or added there. The leads are locked, or new.
func (s *entries) beginByLeads(
	ctx context.Context, tx bun.Tx, sc waypost.Scope, appID string, changes []leadChange, depth int, bulk bool,
) (n int, err error) {
	for _, kind := range []waypost.EntryKind{waypost.EntryLeadCreated, waypost.EntryLeadChanged} {
		of := slices.DeleteFunc(slices.Clone(changes), func(c leadChange) bool { return (c.before == nil) != (kind == waypost.EntryLeadCreated) })
		if len(of) == 0 {
			continue
		}
		rules, err := entryRules(ctx, tx, sc, kind, "")
		if err != nil {
			return n, err
		}
		if len(rules) == 0 {
			continue
		}
		occasions := make([]occasion, 0, len(of))
		for _, c := range of {
			o := occasion{appID: appID, depth: depth, bulk: bulk, Occasion: waypost.Occasion{Kind: kind, At: c.after.UpdatedAt.Time}}
			if o.Lead, err = c.after.lead(); err != nil {
				return n, err
			}
			if c.before != nil {
				before, err := c.before.lead()
				if err != nil {
					return n, err
				}
				if o.Changed, err = waypost.LeadChange(&before.LeadFields, &o.Lead.LeadFields); err != nil {
					return n, err
				}
			}
			occasions = append(occasions, o)
		}
		begun, _, err := s.begin(ctx, tx, rules, occasions)
		if err != nil {
			return n, err
		}
		n += begun
	}
	if len(changes) == 0 {
		return n, nil
	}
	ids := mapped(changes, func(c leadChange) int64 { return c.after.LeadsID })
	marked, err := s.segmentChecks.checkLeads(ctx, tx, sc, ids, segmentCause{kind: causeLead, at: changes[0].after.UpdatedAt, depth: depth})
	return n + marked, err
}
