package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// EnrollOnward enrolls leads that are at an enroll node in the journey that it names, all
// in one transaction, and says of each what came of it. The enrollments are pending, for
// the pump to start; they have the application of the enrollment at the node, no entry
// key, no params and no launch. Calling again for a visit that has enrolled gives the same
// enrollment; of calls at the same time one makes it. A lead is refused if the re-entry
// rule forbids it, if it was deleted, or at waypost.MaxEnrollDepth or MaxEnrolledAtOnce.
// All are refused if the scope lacks the journey, or if it is archived or has no version.
// A journey that is paused takes leads, whose enrollments are paused.
func (s *enrollments) EnrollOnward(ctx context.Context, b waypost.OnwardBatch) (_ map[waypost.Touchpoint]waypost.OnwardResult, err error) {
	defer wrap(&err, "enroll in journey %s", clip(b.Into))
	rules, err := s.entries.rulesOf(ctx, versionKey{b.Into, b.Version})
	if err != nil {
		return nil, err
	}
	var o onward
	err = s.writeRows(ctx, len(b.Items), func(ctx context.Context, tx bun.Tx) error {
		o = onward{enrollments: s, tx: tx, batch: b, rules: rules, results: make(map[waypost.Touchpoint]waypost.OnwardResult, len(b.Items)), now: s.time()}
		return o.run(ctx)
	})
	return o.results, err
}

// onward is one transaction of EnrollOnward.
type onward struct {
	*enrollments
	tx      bun.Tx
	batch   waypost.OnwardBatch
	results map[waypost.Touchpoint]waypost.OnwardResult
	now     time.Time
	rules   versionRules // of the journey that is entered
	exiting bool         // events end enrollments in it
	tests   map[int64]bool
}

// run fills results for every item of the batch. The enrollments at the node are locked before it looks
// for what they have enrolled: of two calls for a visit the second finds what the first has made.
func (o *onward) run(ctx context.Context) error {
	if len(o.batch.Items) == 0 {
		return nil
	}
	closed, err := o.closed(ctx)
	if err != nil {
		return err
	}
	leadIDs := mapped(o.batch.Items, func(item waypost.Onward) int64 { return item.LeadsID })
	if o.exiting, err = o.exits.ofVersion(ctx, o.tx, o.batch.Into, o.batch.Version, o.rules.goalVersion() > 0, leadIDs); err != nil {
		return err
	}
	sources, err := o.sources(ctx)
	if err != nil {
		return err
	}
	if err := o.before(ctx); err != nil {
		return err
	}
	stopped, err := o.controls.stopped(ctx, o.tx, waypost.ControlTargets{JourneyID: o.batch.JourneyID, LaunchID: o.batch.LaunchID, EnrollmentIDs: o.ids()})
	if err != nil {
		return err
	}
	leads, err := o.leads(ctx, leadIDs)
	if err != nil {
		return err
	}
	if o.tests, err = o.statistics.testLeads(ctx, o.tx, o.batch.Scope, leads); err != nil {
		return err
	}
	var entrants []entrant
	for _, item := range o.batch.Items {
		if _, done := o.results[item.Touchpoint]; done {
			continue
		}
		from, known := sources[item.EnrollmentID]
		e := entrant{Onward: item, appID: from.AppID, depth: 1}
		if !item.Waited {
			e.depth = from.Depth + 1
		}
		switch {
		case !known || stopped[item.EnrollmentID] || !from.EndedAt.IsZero():
			o.results[item.Touchpoint] = waypost.OnwardResult{Stopped: true}
		case closed != "":
			o.refuse(item, closed)
		case !slices.Contains(leads, item.LeadsID):
			o.refuse(item, "the lead was deleted")
		case e.depth > waypost.MaxEnrollDepth:
			o.refuse(item, "too many journeys in a row")
		default:
			entrants = append(entrants, e)
		}
	}
	for _, group := range oncePerLead(entrants) {
		if err := o.enter(ctx, group); err != nil {
			return err
		}
	}
	return nil
}

// entrant is a lead that may enter if the re-entry rule allows it.
type entrant struct {
	waypost.Onward
	appID string
	depth int
}

func (e entrant) lead() int64 { return e.LeadsID }

// oncePerLead divides entrants into groups that have no lead twice, in the order of
// the leads: a statement can note one entry a lead.
func oncePerLead(list []entrant) [][]entrant {
	slices.SortStableFunc(list, func(a, b entrant) int { return cmp.Compare(a.LeadsID, b.LeadsID) })
	var groups [][]entrant
	times := 0
	for i, e := range list {
		if times++; i == 0 || list[i-1].LeadsID != e.LeadsID {
			times = 1
		}
		if times > len(groups) {
			groups = append(groups, nil)
		}
		groups[times-1] = append(groups[times-1], e)
	}
	return groups
}

func (o *onward) refuse(item waypost.Onward, why string) {
	o.results[item.Touchpoint] = waypost.OnwardResult{Refused: why}
}

func (o *onward) ids() []string {
	return mapped(o.batch.Items, func(item waypost.Onward) string { return item.EnrollmentID })
}

// closed says why nobody can enter the journey now, "" if leads can. It keeps the
// journey from being archived until the transaction ends.
func (o *onward) closed(ctx context.Context) (string, error) {
	var row journeyRow
	q := o.tx.NewSelect().Model(&row).Column("status").
		Where("id = ? AND org = ? AND stage = ?", cleanText(o.batch.Into), o.batch.Scope.Org, o.batch.Scope.Stage)
	switch err := o.lockFor(q, forShare).Scan(ctx); { // several can enroll at once
	case errors.Is(err, sql.ErrNoRows):
		return "there is no journey " + clip(o.batch.Into), nil
	case err != nil:
		return "", err
	case row.Status == string(waypost.JourneyArchived):
		return "journey " + o.batch.Into + " is archived", nil
	case o.batch.Version == 0:
		return "journey " + o.batch.Into + " has no published version", nil
	}
	return "", nil
}

// sources reads the enrollments at the node and locks them: of two calls for the
// same visit the second sees what the first has made.
func (o *onward) sources(ctx context.Context) (map[string]enrollmentRow, error) {
	var rows []enrollmentRow
	q := o.tx.NewSelect().Model(&rows).Column("id", "app_id", "depth", "ended_at").Where("e.id IN (?)", bun.List(o.ids())).Order("e.id")
	if err := o.lock(q, "e").Scan(ctx); err != nil {
		return nil, fmt.Errorf("read enrollments: %w", err)
	}
	return keyed(rows, enrollmentRow.id), nil
}

// sourceOf names a visit in the column source.
func sourceOf(t waypost.Touchpoint) string { return t.EnrollmentID + "/" + strconv.Itoa(t.Visit) }

// before finds what was enrolled for these visits before.
func (o *onward) before(ctx context.Context) error {
	visits := keyed(o.batch.Items, func(item waypost.Onward) string { return sourceOf(item.Touchpoint) })
	var rows []enrollmentRow
	err := o.tx.NewSelect().Model(&rows).Column("id", "source", "status").Where("source IN (?)", bun.List(slices.Collect(maps.Keys(visits)))).Scan(ctx)
	if err != nil {
		return fmt.Errorf("look for what was enrolled before: %w", err)
	}
	for _, row := range rows {
		o.results[visits[text(row.Source)].Touchpoint] = waypost.OnwardResult{EnrollmentID: row.ID, HeldOut: row.heldOut()}
	}
	return nil
}

// leads returns those of the leads that there are.
func (o *onward) leads(ctx context.Context, ids []int64) (found []int64, err error) {
	err = o.tx.NewSelect().Model((*leadRow)(nil)).Column("leads_id").
		Where("l.leads_id IN (?) AND l.org = ? AND l.stage = ?", bun.List(ids), o.batch.Scope.Org, o.batch.Scope.Stage).Scan(ctx, &found)
	if err != nil {
		return nil, fmt.Errorf("look for leads: %w", err)
	}
	return found, nil
}

// enter enrolls the leads of a group that the re-entry rule allows, some of them as held out.
// It has no lead twice.
func (o *onward) enter(ctx context.Context, group []entrant) error {
	rule := onReentry(o.batch.Reentry, fmt.Sprintf("je.active < %d", waypost.MaxEnrolledAtOnce))
	var running, held []int64
	for _, e := range group {
		if !o.tests[e.LeadsID] && o.rules.holdsOut(e.LeadsID, 0) {
			held = append(held, e.LeadsID)
		} else {
			running = append(running, e.LeadsID)
		}
	}
	in, err := o.entries.enterBoth(ctx, o.tx, entrance{
		Scope: o.batch.Scope, versionKey: versionKey{o.batch.Into, o.batch.Version}, goal: o.rules.goalVersion() > 0, rule: rule, tests: o.tests, at: o.now,
	}, running, held)
	if err != nil {
		return err
	}
	entered := keyed(slices.Concat(in.entered, in.heldOut), func(m waypost.CohortMember) int64 { return m.LeadsID })
	var rows []enrollmentRow
	var refused []entrant
	for _, e := range group {
		member, ok := entered[e.LeadsID]
		if !ok {
			refused = append(refused, e)
			continue
		}
		row := enrollmentRow{
			ID: member.EnrollmentID, Org: o.batch.Scope.Org, Stage: string(o.batch.Scope.Stage), JourneyID: o.batch.Into, Version: o.batch.Version,
			LeadsID: e.LeadsID, AppID: e.appID, Params: "{}", Status: string(waypost.EnrollmentPending),
			Source: new(sourceOf(e.Touchpoint)), Depth: e.depth, Exits: o.exiting, Test: o.tests[e.LeadsID], CreatedAt: stamp{o.now},
			BeforeAt: in.before[e.LeadsID],
		}
		o.rules.assign(&row, 0)
		rows = append(rows, row)
		o.results[e.Touchpoint] = waypost.OnwardResult{EnrollmentID: member.EnrollmentID, HeldOut: row.heldOut()}
	}
	if len(rows) > 0 {
		if _, err := o.tx.NewInsert().Model(&rows).Exec(ctx); err != nil {
			return fmt.Errorf("store enrollments: %w", err)
		}
	}
	if err := o.statistics.countEntered(ctx, o.tx, o.now, rows...); err != nil {
		return fmt.Errorf("count enrollments: %w", err)
	}
	return o.explain(ctx, refused)
}

// explain says why the re-entry rule forbids entries.
func (o *onward) explain(ctx context.Context, refused []entrant) error {
	if len(refused) == 0 {
		return nil
	}
	var rows []entryRow
	err := o.tx.NewSelect().Model(&rows).
		Where("journey_id = ? AND entry_key = '' AND leads_id IN (?)", o.batch.Into, bun.List(mapped(refused, entrant.lead))).Scan(ctx)
	if err != nil {
		return fmt.Errorf("read entries: %w", err)
	}
	entries, r := keyed(rows, func(r entryRow) int64 { return r.LeadsID }), o.batch.Reentry
	for _, e := range refused {
		switch entry, known := entries[e.LeadsID]; {
		case !known:
			return fmt.Errorf("lead %d may not enter, but has no entry", e.LeadsID)
		case r.Policy == waypost.ReentryNever:
			o.refuse(e.Onward, "the lead has entered before, with enrollment "+entry.EnrollmentID)
		case r.Policy == waypost.ReentryAlways && entry.Active >= waypost.MaxEnrolledAtOnce:
			o.refuse(e.Onward, fmt.Sprintf("the lead has %d enrollments there", entry.Active))
		case entry.Active > 0 && r.Policy != waypost.ReentryAlways:
			o.refuse(e.Onward, "the lead is there already, with enrollment "+entry.EnrollmentID)
		default:
			o.refuse(e.Onward, "the lead may enter again from "+entry.LastEntryAt.Add(time.Duration(r.Every)).UTC().Format(waypost.TimeFormat))
		}
	}
	return nil
}
