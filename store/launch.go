package store

import (
	"context"
	"fmt"
	"math"
	"reflect"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// launchRow is a launch and how far its audience is enrolled.
type launchRow struct {
	bun.BaseModel `bun:"table:launches,alias:la"`

	ID string `bun:"id,pk"`
	waypost.Scope
	JourneyID     string  `bun:"journey_id"`
	Version       int     `bun:"version"`
	AppID         string  `bun:"app_id"`
	Reentry       string  `bun:"reentry"`
	Filter        *string `bun:"filter"`
	SegmentID     *string `bun:"segment_id"` // nil and no filter: the leads are listed
	Personal      bool    `bun:"personal"`   // the filter has members that impersonal takes out
	StartAt       stamp   `bun:"start_at"`
	RatePerSecond float64 `bun:"rate_per_second"`
	ControlGroup  float64 `bun:"control_group"`
	CreatedAt     stamp   `bun:"created_at"`

	Cron        *string            `bun:"cron"` // nil: it does not recur
	Timezone    string             `bun:"timezone"`
	SkippedAt   stamp              `bun:"skipped_at"`
	SkipReason  waypost.SkipReason `bun:"skip_reason"`
	RecurringID *string            `bun:"recurring_id"` // nil: it is no occurrence
	OccursAt    stamp              `bun:"occurs_at"`

	ClaimedAt         stamp `bun:"claimed_at"`
	WorkflowStartedAt stamp `bun:"workflow_started_at"`

	StartedAt stamp  `bun:"started_at"` // of the first step
	Total     int    `bun:"total"`      // of a filter: meaningful once started
	Highest   int64  `bun:"highest"`    // of a filter: its highest lead at the start
	Reached   *int64 `bun:"reached"`    // the last lead that was looked at
	Enrolled  int    `bun:"enrolled"`
	Skipped   int    `bun:"skipped"`
	HeldOut   int    `bun:"held_out"`
	Missing   int    `bun:"missing"` // of Skipped
	Gone      int    `bun:"gone"`    // of Skipped
	DoneAt    stamp  `bun:"done_at"` // nobody is left

	Test        *string `bun:"test"`
	Held        int     `bun:"held"`
	TestEndedAt stamp   `bun:"test_ended_at"`
	RestAt      stamp   `bun:"rest_at"`
	TestArm     *int64  `bun:"test_arm"`

	// Ended is the status of one that has ended; "" too for one that completed since
	// markCompletedLaunches last looked.
	Ended waypost.LaunchStatus `bun:"ended"`
}

func (r launchRow) listed() bool { return r.Filter == nil && r.SegmentID == nil }

func (r launchRow) filter() (f waypost.LeadFilter, err error) {
	return f, fromJSON(text(r.Filter), &f)
}

// impersonal is the filter without what tells, or can tell, who somebody is.
func impersonal(f waypost.LeadFilter) waypost.LeadFilter {
	f.Name, f.MobilePhone, f.Email, f.ExternalID, f.Birthday, f.CustomFields = "", "", "", "", "", nil
	return f
}

// schedule is that of a launch that recurs.
func (r launchRow) schedule() *waypost.Schedule {
	if r.Cron == nil {
		return nil
	}
	return &waypost.Schedule{Cron: *r.Cron, Timezone: r.Timezone}
}

// at tells whether two readings of a launch stand at the same place of the audience.
func (r launchRow) at(other launchRow) bool {
	same := r.Reached == other.Reached || r.Reached != nil && other.Reached != nil && *r.Reached == *other.Reached
	return same && r.DoneAt.IsZero() == other.DoneAt.IsZero() && r.part() == other.part()
}

// CreateLaunch stores a launch for its workflow to carry out, or, if it recurs, for
// Temporal's Schedule to open its occurrences. It takes JourneyID, Version, AppID,
// Audience, StartAt, RatePerSecond, Schedule, ControlGroup and Test of l; the rest is made
// here. NotFound if the scope lacks the journey version, Conflict if the journey is
// archived; BadRequest if the audience is not exactly one of filter, segment and list, the
// scope lacks the segment, or more than waypost.MaxAudience are listed. The answer, as all launches that are read,
// leaves out the list.
func (s *launches) CreateLaunch(ctx context.Context, by waypost.Caller, l waypost.Launch) (created waypost.Launch, err error) {
	defer wrap(&err, "create launch")
	sc, author := by.Within()
	now := s.time()
	row := launchRow{
		ID: waypost.NewID(waypost.PrefixLaunch, now), Scope: sc, JourneyID: l.JourneyID,
		Version: l.Version, AppID: l.AppID, RatePerSecond: l.RatePerSecond, ControlGroup: l.ControlGroup, CreatedAt: stamp{now},
	}
	if l.Schedule != nil {
		row.Cron, row.Timezone = &l.Schedule.Cron, l.Schedule.Timezone
	}
	if l.Test != nil {
		test, err := toJSON(l.Test)
		if err != nil {
			return created, err
		}
		row.Test = &test
	}
	if l.StartAt != nil {
		row.StartAt = stamp{*l.StartAt}
	}
	leads := distinct(l.Audience.LeadsIDs)
	row.Total = len(leads)
	if err := checkLaunch(l, len(leads)); err != nil {
		return created, err
	}
	if f := l.Audience.Filter; f != nil {
		filter, err := toJSON(f)
		if err != nil {
			return created, err
		}
		row.Filter, row.Personal = &filter, !reflect.DeepEqual(impersonal(*f), *f)
	}
	if l.Audience.Segment != "" {
		row.SegmentID = &l.Audience.Segment
	}
	v, err := s.journeys.JourneyVersion(ctx, sc, l.JourneyID, l.Version)
	if err != nil {
		return created, err
	}
	if row.Reentry, err = reentryOf(string(v.Definition)); err != nil {
		return created, err
	}
	parts := newParts(row.ID, leads)
	if created, err = (standingRow{launchRow: row}).launch(nil, now); err != nil {
		return created, err
	}
	err = s.writeRows(ctx, len(parts), func(ctx context.Context, tx bun.Tx) error {
		if err := refuseArchived(ctx, tx, row.JourneyID); err != nil {
			return err
		}
		if err := s.segments.hasSegment(ctx, tx, sc, l.Audience.Segment); err != nil {
			return err
		}
		if _, err := tx.NewInsert().Model(&row).Exec(ctx); err != nil {
			return err
		}
		if len(parts) > 0 {
			if _, err := tx.NewInsert().Model(&parts).Exec(ctx); err != nil {
				return err
			}
		}
		if err := s.audit.add(ctx, tx, author, "launch.create", row.ID, nil, auditedLaunch(l)); err != nil {
			return err
		}
		return s.idempotency.keepResult(ctx, tx, created)
	})
	return created, err
}

// reentryOf returns the re-entry rule of a definition, as JSON.
func reentryOf(definition string) (string, error) {
	var members struct {
		Reentry waypost.Reentry `json:"reentry"`
	}
	if err := fromJSON(definition, &members); err != nil {
		return "", err
	}
	return toJSON(members.Reentry)
}

func checkLaunch(l waypost.Launch, listed int) error {
	var p waypost.Problems
	switch {
	case !l.Audience.Listed() == (l.Audience.LeadsIDs != nil) || l.Audience.Filter != nil && l.Audience.Segment != "":
		p.Add(waypost.DetailInvalidFormat, "audience", "must have one of filter, segment and leadsIds")
	case listed > waypost.MaxAudience:
		p.Add(waypost.DetailTooLong, "audience.leadsIds", "must list at most %d leads", waypost.MaxAudience)
	}
	if r := l.RatePerSecond; !(r >= 0) || math.IsInf(r, 0) {
		p.Add(waypost.DetailOutOfRange, "ratePerSecond", "must not be negative")
	}
	if l.Schedule != nil {
		l.Schedule.Validate(&p, "schedule")
	}
	if g := l.ControlGroup; !(g >= 0 && g < 1) {
		p.Add(waypost.DetailOutOfRange, "controlGroup", "must be at least 0 and less than 1")
	}
	if l.Test != nil && l.Schedule != nil {
		p.Add(waypost.DetailInvalidFormat, "test", "cannot be combined with schedule: launch once, and the test decides for the rest")
	}
	if err := p.Err("launch"); err != nil || l.Audience.Filter == nil {
		return err
	}
	return checkFilter(*l.Audience.Filter)
}

// standingRow is a launch with what its enrollments tell about it.
type standingRow struct {
	launchRow `bun:",extend"`
	Active    bool  `bun:"active,scanonly"`
	LastEnd   stamp `bun:"last_end,scanonly"`
	// Of enrollments that were dropped since.
	DroppedEnd stamp `bun:"dropped_end,scanonly"`

	opened occurrences // of one that recurs
}

// standing selects launches into a *standingRow or a slice of them.
func standing(db bun.IDB, dest any) *bun.SelectQuery {
	return db.NewSelect().Model(dest).ColumnExpr("?TableColumns").
		ColumnExpr(launchActive + " AS active").
		ColumnExpr("(SELECT MAX(e.ended_at) FROM enrollments AS e WHERE e.launch_id = la.id) AS last_end").
		ColumnExpr("(SELECT MAX(dd.ended_at) FROM dropped AS dd WHERE dd.journey_id = la.journey_id AND dd.launch_id = la.id) AS dropped_end")
}

// launch derives how a launch stands at a time.
func (r standingRow) launch(controls waypost.Controls, now time.Time) (waypost.Launch, error) {
	l := waypost.Launch{
		ID: r.ID, JourneyID: r.JourneyID, Version: r.Version, AppID: r.AppID, StartAt: r.StartAt.pointer(),
		RatePerSecond: r.RatePerSecond, Schedule: r.schedule(), ControlGroup: r.ControlGroup, RecurringID: text(r.RecurringID),
		OccursAt: r.OccursAt.pointer(), CreatedAt: r.CreatedAt.Time, StartedAt: r.StartedAt.pointer(),
		Progress: waypost.LaunchProgress{Enrolled: r.Enrolled, Skipped: r.Skipped, HeldOut: r.HeldOut, Held: r.Held},
		Skips:    waypost.LaunchSkips{Reentry: r.Skipped - r.Missing - r.Gone, Missing: r.Missing, Left: r.Gone},
	}
	if err := r.tellTest(&l); err != nil {
		return l, err
	}
	if !r.StartedAt.IsZero() {
		l.Progress.Total = r.Total
	}
	if r.Filter != nil {
		f, err := r.filter()
		if err != nil {
			return l, err
		}
		l.Audience.Filter = &f
	}
	l.Audience.Segment = text(r.SegmentID)
	var end time.Time
	if !r.DoneAt.IsZero() && !r.Active {
		end = slices.MaxFunc([]time.Time{r.DoneAt.Time, r.LastEnd.Time, r.DroppedEnd.Time}, time.Time.Compare)
	}
	canceledAt, canceled := controls.Canceled()
	switch {
	case canceled:
		l.Status, l.EndedAt = waypost.LaunchCanceled, &canceledAt
	case !end.IsZero():
		l.Status, l.EndedAt = waypost.LaunchCompleted, &end
	case len(controls.Holds()) > 0:
		l.Status = waypost.LaunchPaused
	case r.Cron != nil:
		l.Status = waypost.LaunchScheduled
	case !r.StartedAt.IsZero():
		l.Status = waypost.LaunchRunning
	case r.StartAt.After(now):
		l.Status = waypost.LaunchScheduled
	default:
		l.Status = waypost.LaunchPending
	}
	if r.Cron != nil {
		r.opened.tell(&l, r.launchRow, now)
	}
	return l, nil
}

// Launch returns a launch with its status, progress and outcome counts; NotFound
// if the scope has none of this id. It counts the enrollments that have not ended
// and the messages, so it takes longer the larger the launch is: some tenths of a
// second for a million leads.
func (s *launches) Launch(ctx context.Context, sc waypost.Scope, id string) (l waypost.Launch, err error) {
	defer wrap(&err, "load launch %s", clip(id))
	var row standingRow
	if err := scanByID(ctx, standing(s.r, &row), sc, "launch", id); err != nil {
		return l, err
	}
	launches, err := s.launches(ctx, []standingRow{row})
	if err != nil {
		return l, err
	}
	l = launches[0]
	of := condition{"launch_id = ?", []any{id}}
	if row.Cron != nil {
		of = condition{"launch_id IN (SELECT id FROM launches WHERE recurring_id = ?)", []any{id}}
	}
	var active int64
	if row.Active || row.Cron != nil {
		if active, err = s.r.NewSelect().Model((*enrollmentRow)(nil)).Where(of.text, of.args...).Where("ended_at IS NULL").Count(ctx); err != nil {
			return l, err
		}
	}
	l.Progress.Completed = max(0, l.Progress.Enrolled-int(active))
	l.Progress.Outcomes, err = s.deliveries.launchOutcomes(ctx, row.JourneyID, of)
	return l, err
}

// launches derives how launches stand now, without the counts that Launch makes.
func (s *launches) launches(ctx context.Context, rows []standingRow) ([]waypost.Launch, error) {
	if err := s.readOccurrences(ctx, rows); err != nil {
		return nil, err
	}
	controls, err := s.launchControls(ctx, s.r, mapped(rows, func(r standingRow) launchRow { return r.launchRow })...)
	if err != nil {
		return nil, err
	}
	now := s.time()
	return decoded(rows, func(r standingRow) (waypost.Launch, error) { return r.launch(controls[r.ID], now) })
}

// UnstartedLaunches claims up to limit launches that no workflow was started for, or no
// Schedule made for if they recur; see claimUnstarted. Only ID, Scope, JourneyID, Version,
// AppID, StartAt, RatePerSecond, Schedule and CreatedAt are filled in.
func (s *launches) UnstartedLaunches(ctx context.Context, claimedBefore time.Time, limit int) (_ []waypost.Launch, err error) {
	defer wrap(&err, "look for launches")
	rows, err := claimUnstarted(ctx, s.db, "TRUE", claimedBefore, limit, launchRow.id)
	return mapped(rows, launchRow.unstarted), err
}

// AgedLaunches claims up to limit recurring launches whose Schedule was made or renewed
// more than renewAfter ago, as UnstartedLaunches does.
func (s *launches) AgedLaunches(ctx context.Context, claimedBefore time.Time, limit int) (_ []waypost.Launch, err error) {
	defer wrap(&err, "look for schedules to renew")
	rows, err := claim(ctx, s.db, s.agedSchedules(), claimedBefore, limit, launchRow.id)
	return mapped(rows, launchRow.unstarted), err
}

func (r launchRow) id() string { return r.ID }

// unstarted is a launch as its workflow or its Schedule needs it.
func (r launchRow) unstarted() waypost.Launch {
	return waypost.Launch{
		ID: r.ID, Scope: r.Scope, JourneyID: r.JourneyID, Version: r.Version, AppID: r.AppID, StartAt: r.StartAt.pointer(),
		RatePerSecond: r.RatePerSecond, Schedule: r.schedule(), CreatedAt: r.CreatedAt.Time,
	}
}

// MarkLaunchStarted notes that the workflow of a launch runs (its id is the launch's),
// which a second call does not change, or that the Schedule of one that recurs holds the
// times from now on: what was due before and was not opened is opened then. NotFound if
// there is no such launch.
func (s *launches) MarkLaunchStarted(ctx context.Context, id string) (err error) {
	defer wrap(&err, "mark launch %s as started", clip(id))
	if recurs, err := s.markScheduled(ctx, id); err != nil || recurs {
		return err
	}
	return s.updateOne(ctx, "launch", id, func(tx bun.Tx) *bun.UpdateQuery { return s.cohorts.workflowStarted(tx, (*launchRow)(nil)) })
}

// maxStep is the largest number of leads that one step enrolls: it keeps the
// database's writer for some hundredths of a second.
const maxStep = 1000

// EnrollAudience enrolls the next leads of a launch's audience, at most n and at most 1000,
// in one transaction with the launch's place in the audience: a crash neither loses nor
// repeats a lead, and calls at the same time share the work. The first call counts the
// audience of a filter and finds its end: leads that come later do not belong to it. Leads
// of the control group are held out; test leads are in none. Skipped are leads that the re-entry rule forbids,
// listed ones that do not exist, and, at the end, leads that the filter matched at first
// and no longer. A launch that is canceled or paused, as such or with its journey, enrolls
// no lead; its workflow gets a notice of the resume. The enrollments are divided into
// cohorts for ClaimLaunchCohorts. With n 0 it only tells whether the launch is canceled or
// paused.
func (s *launches) EnrollAudience(ctx context.Context, launchID string, n int) (_ waypost.LaunchStep, err error) {
	defer wrap(&err, "enroll the audience of launch %s", clip(launchID))
	for {
		step, done, err := s.tryStep(ctx, launchID, min(max(n, 0), maxStep))
		if err != nil || done {
			return step, err
		}
	}
}

// tryStep looks for the next leads, which can take long and so is done without a lock, and
// enrolls them unless another call has done so meanwhile.
func (s *launches) tryStep(ctx context.Context, launchID string, n int) (step waypost.LaunchStep, done bool, err error) {
	var seen launchRow
	if err := scanOne(ctx, s.r.NewSelect().Model(&seen).Where("id = ?", cleanText(launchID)), "launch", launchID); err != nil {
		return step, false, err
	}
	if !seen.DoneAt.IsZero() {
		return waypost.LaunchStep{Done: true}, true, nil
	}
	if n == 0 {
		err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
			step, _, err = s.stopStep(ctx, tx, seen)
			return err
		})
		step.RatePerSecond = seen.RatePerSecond
		return step, true, err
	}
	if seen.part() == partHeld {
		step, err = s.awaitWinner(ctx, seen.ID, false)
		return step, true, err
	}
	next := seen
	if seen.StartedAt.IsZero() && !seen.listed() {
		next.StartedAt = stamp{s.time()} // a segment is read as of this time, in each step
		if next.Total, next.Highest, err = s.measureAudience(ctx, next); err != nil {
			return step, false, err
		}
	}
	rules, err := s.entries.rulesOf(ctx, versionKey{seen.JourneyID, seen.Version})
	if err != nil {
		return step, false, err
	}
	batch, err := s.nextAudience(ctx, next, rules, n)
	if err != nil {
		return step, false, err
	}
	err = s.writeRows(ctx, len(batch.leads)+len(batch.heldOut)+min(1, len(batch.held)), func(ctx context.Context, tx bun.Tx) error {
		var now launchRow
		if err := s.lock(tx.NewSelect().Model(&now).Where("id = ?", seen.ID), "la").Scan(ctx); err != nil {
			return err
		}
		if done = now.at(seen); !done {
			return nil
		}
		var stopped bool
		if step, stopped, err = s.stopStep(ctx, tx, seen); err == nil && !stopped {
			step, err = s.enrollBatch(ctx, tx, next, rules, batch)
		}
		step.RatePerSecond = now.RatePerSecond
		return err
	})
	return step, done, err
}

// stopStep tells whether a launch may not go on, and registers a paused one for
// its resume.
func (s *launches) stopStep(ctx context.Context, tx bun.Tx, l launchRow) (step waypost.LaunchStep, stopped bool, err error) {
	byLaunch, err := s.launchControls(ctx, tx, l)
	if err != nil {
		return step, false, err
	}
	controls := byLaunch[l.ID]
	if _, canceled := controls.Canceled(); canceled {
		return waypost.LaunchStep{Canceled: true}, true, nil
	}
	targets := controls.Holds()
	if len(targets) == 0 {
		return step, false, nil
	}
	step.Held, err = s.controls.hold(ctx, tx, l.ID, targets)
	return step, len(step.Held) > 0, err
}

// launchControls returns what was decided about launches: about each as such, and
// the pauses of its journey, whose cancels are noted for each launch.
func (s *launches) launchControls(ctx context.Context, db bun.IDB, launches ...launchRow) (map[string]waypost.Controls, error) {
	if len(launches) == 0 {
		return nil, nil
	}
	var targets []string
	for _, l := range launches {
		targets = append(targets, l.ID, l.JourneyID)
	}
	var rows []controlRow
	err := db.NewSelect().Model(&rows).Where("target IN (?)", bun.List(distinct(targets))).Order("id").Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("read controls: %w", err)
	}
	list := map[string]waypost.Controls{}
	for _, l := range launches {
		for _, row := range rows {
			if row.Target == l.ID || row.Target == l.JourneyID && row.Kind == waypost.ControlPause {
				list[l.ID] = append(list[l.ID], row.control())
			}
		}
	}
	return list, nil
}

// enrollBatch enrolls the leads of a batch that the re-entry rule allows, and holds those of
// the control group out that it allows.
func (s *launches) enrollBatch(
	ctx context.Context, tx bun.Tx, l launchRow, rules versionRules, b audienceBatch,
) (step waypost.LaunchStep, err error) {
	now := s.time()
	var r waypost.Reentry
	if err := fromJSON(l.Reentry, &r); err != nil {
		return step, err
	}
	made := enrollmentRow{
		Org: l.Org, Stage: string(l.Stage), JourneyID: l.JourneyID, Version: l.Version, LaunchID: &l.ID, AppID: l.AppID, Params: "{}",
		Status: string(waypost.EnrollmentPending), GoalVersion: rules.goalVersion(), CreatedAt: stamp{now}, share: rules.share(l.ControlGroup),
	}
	if leads := len(b.leads) + len(b.heldOut); leads > 0 {
		if made.Exits, err = s.exits.ofVersion(ctx, tx, l.JourneyID, l.Version, made.GoalVersion > 0, slices.Concat(b.leads, b.heldOut)); err != nil {
			return step, err
		}
	}
	in, err := s.entries.enterBoth(ctx, tx, entrance{
		Scope: l.Scope, versionKey: versionKey{l.JourneyID, l.Version}, goal: made.GoalVersion > 0, rule: onReentry(r), tests: b.tests, at: now,
	}, b.leads, b.heldOut)
	if err != nil {
		return step, err
	}
	entered, heldOut := in.entered, in.heldOut
	if len(entered) > 0 {
		if err := s.insertCohorts(ctx, tx, made, entered); err != nil {
			return step, fmt.Errorf("store cohorts: %w", err)
		}
	}
	rows, err := s.markEntered(ctx, tx, made, in, b.tests)
	if err != nil {
		return step, err
	}
	made.holdOut()
	for _, m := range heldOut {
		made.ID, made.LeadsID, made.BeforeAt = m.EnrollmentID, m.LeadsID, in.before[m.LeadsID]
		rows = append(rows, made)
	}
	if out := rows[len(entered):]; len(out) > 0 {
		if _, err := tx.NewInsert().Model(&out).Exec(ctx); err != nil {
			return step, fmt.Errorf("store the control group: %w", err)
		}
	}
	if err := s.statistics.countEntered(ctx, tx, now, rows...); err != nil {
		return step, fmt.Errorf("count enrollments: %w", err)
	}
	return s.endStep(ctx, tx, l, b, len(entered), len(heldOut), now)
}

// markEntered notes where the enrollments that were stored differ from made: that they are of test
// leads, and when their leads entered before. It returns their rows.
func (s *launches) markEntered(
	ctx context.Context, tx bun.Tx, made enrollmentRow, in admitted, isTest map[int64]bool,
) ([]enrollmentRow, error) {
	rows := slices.Repeat([]enrollmentRow{made}, len(in.entered))
	var tests []string // enrollments
	var again []enrollmentRow
	for i, m := range in.entered {
		rows[i].ID, rows[i].Test, rows[i].BeforeAt = m.EnrollmentID, isTest[m.LeadsID], in.before[m.LeadsID]
		if rows[i].Test {
			tests = append(tests, m.EnrollmentID)
		}
		if !rows[i].BeforeAt.IsZero() {
			again = append(again, rows[i])
		}
	}
	if len(tests) > 0 {
		if _, err := tx.NewUpdate().Model((*enrollmentRow)(nil)).Set("test = TRUE, goal_version = 0").Where("id IN (?)", bun.List(tests)).Exec(ctx); err != nil {
			return nil, fmt.Errorf("mark test leads: %w", err)
		}
	}
	err := markAgain.run(ctx, s.db, tx, len(again), func(i int) []any { return []any{again[i].ID, again[i].BeforeAt} }, nil)
	return rows, wrapped(err, "mark leads that come again")
}

// endStep notes how far a step of enrolling a batch came.
func (s *launches) endStep(
	ctx context.Context, tx bun.Tx, l launchRow, b audienceBatch, entered, heldOut int, now time.Time,
) (step waypost.LaunchStep, err error) {
	skipped := len(b.leads) - entered + len(b.heldOut) - heldOut + b.missing + b.gone
	step = waypost.LaunchStep{Enrolled: entered, Skipped: skipped, HeldOut: heldOut, Done: b.done}
	l.Enrolled += step.Enrolled
	l.Skipped += step.Skipped
	l.HeldOut += step.HeldOut
	l.Missing += b.missing
	l.Gone += b.gone
	part := l.part()
	switch part {
	case partTest:
		if err := s.holdLeads(ctx, tx, l, b); err != nil {
			return step, err
		}
		l.Held += len(b.held)
	case partRest:
		l.Held -= b.looked
	}
	l.Reached = b.reached
	if l.StartedAt.IsZero() {
		l.StartedAt = stamp{now}
	}
	switch {
	case b.done && part == partTest && l.Held > 0:
		l.TestEndedAt, l.Reached, step.Done = stamp{now}, nil, false
	case b.done:
		step.Skipped += l.end(now)
	}
	_, err = tx.NewUpdate().Model(&l).Column("started_at", "total", "highest", "reached", "enrolled", "skipped", "held_out", "missing", "gone",
		"held", "test_ended_at", "done_at").WherePK().Exec(ctx)
	return step, err
}

// end notes that the whole audience is enrolled. It returns how many leads of the first count were not
// met, because they were changed or deleted before, and makes the total the sum of what was counted.
func (r *launchRow) end(now time.Time) (gone int) {
	r.DoneAt = stamp{now}
	gone = max(0, r.Total-r.Enrolled-r.Skipped-r.HeldOut-r.Held)
	r.Skipped += gone
	r.Gone += gone
	r.Total = r.Enrolled + r.Skipped + r.HeldOut + r.Held
	return gone
}

// markAgain notes of enrollments that their leads entered before.
var markAgain = bulk{table: "enrollments AS e", keys: 1, columns: []string{"id text", "before_at bigint"}}

// newMembers mints enrollments for leads in ascending order; their ids ascend too,
// so that their rows are written one beside the other.
func newMembers(leads []int64, now time.Time) []waypost.CohortMember {
	ids := mapped(leads, func(int64) string { return waypost.NewID(waypost.PrefixEnrollment, now) })
	slices.Sort(ids)
	list := make([]waypost.CohortMember, len(leads))
	for i, lead := range leads {
		list[i] = waypost.CohortMember{EnrollmentID: ids[i], LeadsID: lead}
	}
	return list
}

// keyedMember is a member with its entry key, as unpack reads it.
type keyedMember struct {
	waypost.CohortMember
	Key string `json:"k,omitempty"`
}

// entrance is how leads enter a journey, several at once.
type entrance struct {
	waypost.Scope
	versionKey
	goal  bool             // the version has one
	rule  string           // see onReentry
	keys  map[int64]string // entry keys, by lead; nil for none
	tests map[int64]bool   // the test leads
	at    time.Time
}

// admitted are the enrollments of leads that the re-entry rule allows. before is when they entered
// before, as far as the goal counted that.
type admitted struct {
	entered, heldOut []waypost.CohortMember
	before           map[int64]stamp
}

// enterAll notes the entries of enrollments of different leads, as enter does for one, and
// returns the enrollments that the re-entry rule allows. active is 0 for those that are held out,
// otherwise 1.
func (s *entries) enterAll(
	ctx context.Context, tx bun.Tx, e entrance, list []waypost.CohortMember, active int,
) ([]waypost.CohortMember, error) {
	if len(list) == 0 {
		return nil, nil
	}
	packed, err := toJSON(mapped(list, func(m waypost.CohortMember) keyedMember { return keyedMember{m, e.keys[m.LeadsID]} }))
	if err != nil {
		return nil, err
	}
	from, id, lead, key := s.unpack("?")
	goal, uncounted := 0, []int64{0}
	if e.goal {
		goal = e.Version
		for _, m := range list {
			if e.tests[m.LeadsID] {
				uncounted = append(uncounted, m.LeadsID)
			}
		}
	}
	var leads []int64
	// SQLite needs the WHERE to tell the conflict from a join's condition.
	err = tx.NewRaw("INSERT INTO journey_entries AS je (journey_id, leads_id, entry_key, last_entry_at, enrollment_id, active, goal_version) "+
		"SELECT ?, "+lead+", COALESCE("+key+", ''), ?, "+id+", ?, CASE WHEN "+lead+" IN (?) THEN 0 ELSE ? END FROM "+from+" WHERE TRUE "+e.rule+" RETURNING leads_id",
		e.JourneyID, stamp{e.at}, active, bun.List(uncounted), goal, packed).Scan(ctx, &leads)
	if err != nil {
		return nil, err
	}
	entered := make(map[int64]bool, len(leads))
	for _, lead := range leads {
		entered[lead] = true
	}
	return slices.DeleteFunc(list, func(m waypost.CohortMember) bool { return !entered[m.LeadsID] }), nil
}

// enterBoth is enterAll for leads that run, and for those that are held out. If the version has a
// goal, the leads are locked.
func (s *entries) enterBoth(ctx context.Context, tx bun.Tx, e entrance, running, held []int64) (in admitted, err error) {
	if e.goal {
		if in.before, err = s.countedBefore(ctx, tx, e.versionKey, slices.Concat(running, held)); err != nil {
			return in, err
		}
	}
	if in.entered, err = s.enterAll(ctx, tx, e, newMembers(running, e.at), 1); err != nil {
		return in, fmt.Errorf("note entries: %w", err)
	}
	if in.heldOut, err = s.enterAll(ctx, tx, e, newMembers(held, e.at), 0); err != nil {
		return in, fmt.Errorf("note entries of the control group: %w", err)
	}
	leads := mapped(slices.Concat(in.entered, in.heldOut), func(m waypost.CohortMember) int64 { return m.LeadsID })
	_, err = s.segmentChecks.checkLeads(ctx, tx, e.Scope, leads, segmentCause{kind: causeEntered, name: e.JourneyID, at: stamp{e.at}})
	return in, err
}

// insertCohorts divides enrollments, which are as made is otherwise, into cohorts that wait
// to be claimed, and stores both.
func (s *launches) insertCohorts(ctx context.Context, tx bun.Tx, made enrollmentRow, list []waypost.CohortMember) error {
	cohorts, err := cohortsOf(made, list)
	if err != nil {
		return err
	}
	if _, err := tx.NewInsert().Model(&cohorts).Exec(ctx); err != nil {
		return err
	}
	from, id, lead, _ := s.unpack("c.members")
	_, err = tx.NewRaw("INSERT INTO enrollments (id, org, stage, journey_id, version, leads_id, launch_id, app_id, "+
		"entry_key, params, status, node_id, last_seq, cohort_id, exits, goal_version, created_at) "+
		"SELECT "+id+", ?, ?, c.journey_id, c.version, "+lead+", c.launch_id, ?, '', '{}', ?, '', 0, c.id, ?, ?, c.accepted_at "+
		"FROM cohorts AS c, "+from+" WHERE c.id IN (?)",
		made.Org, made.Stage, made.AppID, made.Status, made.Exits, made.GoalVersion, bun.List(mapped(cohorts, func(c cohortRow) string { return c.ID }))).Exec(ctx)
	return err
}

// cohortsOf divides enrollments, which are as made is otherwise, into cohorts that wait to be
// claimed.
func cohortsOf(made enrollmentRow, list []waypost.CohortMember) (cohorts []cohortRow, err error) {
	for len(list) > 0 {
		group := list[:waypost.LaunchCohort(list)]
		list = list[len(group):]
		packed, err := toJSON(group)
		if err != nil {
			return nil, err
		}
		cohorts = append(cohorts, cohortRow{
			ID: cohortID(group, made.CreatedAt.Time), JourneyID: made.JourneyID, Version: made.Version, LaunchID: made.LaunchID,
			AcceptedAt: made.CreatedAt, Size: len(group), Members: &packed,
		})
	}
	return cohorts, nil
}
