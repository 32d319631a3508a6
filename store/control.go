package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

type controlRow struct {
	bun.BaseModel `bun:"table:controls,alias:ct"`

	ID         int64               `bun:"id,pk,autoincrement"`
	Target     string              `bun:"target"`
	Kind       waypost.ControlKind `bun:"kind"`
	From       stamp               `bun:"from_at"`
	Until      stamp               `bun:"until_at"`
	Shift      bool                `bun:"shift"`
	Event      string              `bun:"event"`
	SegmentID  string              `bun:"segment_id"`
	SweepAt    stamp               `bun:"sweep_at"`
	SweepAfter string              `bun:"sweep_after"`
}

func (r controlRow) control() waypost.Control {
	return waypost.Control{Target: r.Target, Kind: r.Kind, From: r.From.Time, Until: r.Until.Time, Shift: r.Shift, Event: r.Event, Segment: r.SegmentID}
}

// holdRow is a workflow that waits for the resume of a target.
type holdRow struct {
	bun.BaseModel `bun:"table:holds,alias:h"`

	Target     string `bun:"target,pk"`
	WorkflowID string `bun:"workflow_id,pk"`
}

// Controls returns what was decided about enrollments, by their ids. An enrollment is
// missing if nothing was. Among the pauses can be some that ended before an enrollment was
// made. A cancel of a journey counts for enrollments without a launch that were made by
// then; its launches get cancels of their own. It is one indexed query, and a second one
// where a journey was ever canceled (and, rarely, one where hundreds of neighbours have
// controls).
func (s *controls) Controls(ctx context.Context, of waypost.ControlTargets) (controls map[string]waypost.Controls, err error) {
	defer wrap(&err, "load controls")
	var rows []controlRow
	if len(of.EnrollmentIDs) > 1 {
		rows, err = controlRows(ctx, s.r, of, false)
	} else { // planning would take longer than reading
		rows, err = rowsByID[controlRow](ctx, s.db, "target", append([]string{of.JourneyID, of.LaunchID}, of.EnrollmentIDs...))
	}
	if err != nil {
		return nil, err
	}
	return s.byEnrollment(ctx, s.r, inOrder(rows), of)
}

// controlsOf is Controls within a transaction. The id of a launch can stand among the
// EnrollmentIDs: it gets the controls of the launch and the pauses of the journey.
func (s *controls) controlsOf(ctx context.Context, tx bun.Tx, of waypost.ControlTargets) (map[string]waypost.Controls, error) {
	rows, err := controlRows(ctx, tx, of, false)
	if err != nil {
		return nil, err
	}
	return s.byEnrollment(ctx, tx, rows, of)
}

// stopped tells which enrollments are paused now, canceled or exited. An attempt that is
// opened while the pause is not committed yet counts as begun before it.
func (s *controls) stopped(ctx context.Context, tx bun.Tx, of waypost.ControlTargets) (map[string]bool, error) {
	rows, err := controlRows(ctx, tx, of, true)
	if err != nil {
		return nil, err
	}
	controls, err := s.byEnrollment(ctx, tx, rows, of)
	ids := make(map[string]bool, len(controls))
	for id := range controls {
		ids[id] = true
	}
	return ids, err
}

// maxNeighbours is how many controls a range of ids may hold before it is better
// to ask for each id.
const maxNeighbours = 200

// controlRows reads the controls of the targets in the order of their ids; if
// inForce, only cancels, exits and pauses that last. Enrollments of one workflow were made
// one after another: their ids are a short range with next to nothing in it, and
// asking for that takes less than half as long as asking for fifty ids.
func controlRows(ctx context.Context, db bun.IDB, of waypost.ControlTargets, inForce bool) ([]controlRow, error) {
	var rows []controlRow
	query := func() *bun.SelectQuery {
		rows = nil
		q := db.NewSelect().Model(&rows).Column("id", "target", "kind", "from_at", "until_at", "shift", "event", "segment_id")
		if inForce {
			q.Where("until_at IS NULL")
		}
		return q
	}
	shared := []string{of.JourneyID, of.LaunchID}
	targets := append(shared, of.EnrollmentIDs...)
	var err error
	if len(of.EnrollmentIDs) > 1 {
		first, last := slices.Min(of.EnrollmentIDs), slices.Max(of.EnrollmentIDs)
		err = query().Where("(target IN (?) OR target BETWEEN ? AND ?)", bun.List(shared), first, last).Limit(maxNeighbours + 1).Scan(ctx)
	}
	if len(of.EnrollmentIDs) < 2 || len(rows) > maxNeighbours {
		err = query().Where("target IN (?)", bun.List(targets)).Scan(ctx)
	}
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	rows = slices.DeleteFunc(rows, func(row controlRow) bool { return !slices.Contains(targets, row.Target) })
	return inOrder(rows), nil
}

// inOrder sorts controls by when they were made.
func inOrder(rows []controlRow) []controlRow {
	slices.SortFunc(rows, func(a, b controlRow) int { return cmp.Compare(a.ID, b.ID) })
	return rows
}

// byEnrollment says which controls count for which enrollment.
func (s *controls) byEnrollment(
	ctx context.Context, db bun.IDB, rows []controlRow, of waypost.ControlTargets,
) (map[string]waypost.Controls, error) {
	controls := map[string]waypost.Controls{}
	if len(rows) == 0 {
		return controls, nil
	}
	var shared waypost.Controls
	var cancels []controlRow // of the journey
	for _, row := range rows {
		switch {
		case row.Target == of.JourneyID && row.Kind == waypost.ControlCancel:
			cancels = append(cancels, row)
		case row.Target == of.JourneyID || row.Target == of.LaunchID:
			shared = append(shared, row.control())
		default:
			controls[row.Target] = append(controls[row.Target], row.control())
		}
	}
	if len(shared) > 0 {
		for _, id := range of.EnrollmentIDs {
			controls[id] = append(controls[id], shared...)
		}
	}
	if len(cancels) == 0 || of.LaunchID != "" {
		return controls, nil
	}
	var made []enrollmentRow
	err := db.NewSelect().Model(&made).Column("id", "created_at").Where("id IN (?) AND launch_id IS NULL", bun.List(of.EnrollmentIDs)).Scan(ctx)
	if err != nil {
		return nil, err
	}
	for _, e := range made {
		for _, c := range cancels {
			if !e.CreatedAt.After(c.From.Time) {
				controls[e.ID] = append(controls[e.ID], c.control())
			}
		}
	}
	return controls, nil
}

// Hold registers a workflow for a notice when a paused target is resumed, and returns the
// targets that are paused at this moment. A workflow that gets none back must look at the
// controls again: the pause has just ended.
func (s *controls) Hold(ctx context.Context, workflowID string, targets []string) (held []string, err error) {
	defer wrap(&err, "hold workflow %s", workflowID)
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		held, err = s.hold(ctx, tx, workflowID, targets)
		return err
	})
	return held, err
}

// hold locks the pauses that it sees open: a resume of one of them waits for this
// transaction and then finds the workflow, or this waits for the resume and then
// finds no pause.
func (s *controls) hold(ctx context.Context, tx bun.Tx, workflowID string, targets []string) ([]string, error) {
	if len(targets) == 0 {
		return nil, nil
	}
	var held []string
	q := tx.NewSelect().Model((*controlRow)(nil)).Column("target").
		Where("target IN (?) AND kind = 'pause' AND until_at IS NULL", bun.List(targets)).Order("id")
	if err := s.lockFor(q, forShare).Scan(ctx, &held); err != nil || len(held) == 0 {
		return nil, err
	}
	rows := mapped(held, func(target string) holdRow { return holdRow{Target: target, WorkflowID: workflowID} })
	slices.SortFunc(rows, func(a, b holdRow) int { return cmp.Compare(a.Target, b.Target) })
	_, err := tx.NewInsert().Model(&rows).On("CONFLICT DO NOTHING").Exec(ctx)
	return held, err
}

// decision is what people decide about targets.
type decision struct {
	verb string // pause, resume or cancel
	// carryOut applies it while the rows of the targets are locked, and tells whether that changed
	// anything.
	carryOut func(ctx context.Context, tx bun.Tx, targets []string) (changed bool, err error)
	// before and after are the sides of its entry in the audit log.
	before, after any
}

func (s *controls) pausing() decision {
	return decision{"pause", s.pause, nil, fields{"status": waypost.EnrollmentPaused}}
}

func (s *controls) pause(ctx context.Context, tx bun.Tx, targets []string) (changed bool, err error) {
	rows := mapped(targets, func(target string) controlRow {
		return controlRow{Target: target, Kind: waypost.ControlPause, From: stamp{s.time()}}
	})
	n, err := affected(tx.NewInsert().Model(&rows).On("CONFLICT DO NOTHING").Returning("NULL").Exec(ctx))
	return n > 0, err
}

// resumption ends the pauses of targets, where there are some, and tells the workflows that
// wait for that.
func (s *controls) resumption(shift bool) decision {
	delays := "skip"
	if shift {
		delays = "shift"
	}
	return decision{"resume", func(ctx context.Context, tx bun.Tx, targets []string) (changed bool, err error) {
		for _, target := range targets {
			resumed, err := s.resume(ctx, tx, target, shift)
			if err != nil {
				return false, err
			}
			changed = changed || resumed
		}
		return changed, nil
	}, fields{"status": waypost.EnrollmentPaused}, fields{"elapsedDelays": delays}}
}

func (s *controls) cancellation(carryOut func(context.Context, bun.Tx, []string) (bool, error)) decision {
	return decision{"cancel", carryOut, nil, fields{"status": waypost.EnrollmentCanceled}}
}

func (s *controls) resume(ctx context.Context, tx bun.Tx, target string, shift bool) (changed bool, err error) {
	now := stamp{s.time()}
	n, err := affected(tx.NewUpdate().Model((*controlRow)(nil)).
		Set("until_at = CASE WHEN from_at > ? THEN from_at ELSE ? END", now, now). // clocks of processes disagree
		Set("shift = ?", shift).Where("target = ? AND kind = 'pause' AND until_at IS NULL", target).Exec(ctx))
	if err != nil || n == 0 {
		return false, err
	}
	enrollment := ""
	if waypost.IsID(waypost.PrefixEnrollment, target) {
		enrollment = target
	}
	// A statement of its own sees the holds of those that the update waited for.
	_, err = tx.NewRaw(`INSERT INTO notices (workflow_id, enrollment_id, event_id, created_at, claimed_until, bulk)
		SELECT h.workflow_id, ?, '', ?, 0, ? FROM holds AS h WHERE h.target = ? ORDER BY h.workflow_id`, enrollment, now, enrollment == "", target).Exec(ctx)
	if err != nil {
		return false, err
	}
	_, err = tx.NewDelete().Model((*holdRow)(nil)).Where("target = ?", target).Exec(ctx)
	return true, err
}

// PauseEnrollment pauses an enrollment; one that is paused stays so. NotFound if
// the scope has none of this id, Conflict if it has ended.
func (s *enrollments) PauseEnrollment(ctx context.Context, by waypost.Caller, id string) (waypost.Enrollment, error) {
	return s.controlEnrollment(ctx, by, id, s.controls.pausing())
}

// ResumeEnrollment ends the pause of an enrollment, but not one of its launch or
// its journey; shift is waypost.Control's. One that is not paused stays as it is.
// NotFound if the scope has none of this id, Conflict if it has ended.
func (s *enrollments) ResumeEnrollment(ctx context.Context, by waypost.Caller, id string, shift bool) (waypost.Enrollment, error) {
	return s.controlEnrollment(ctx, by, id, s.controls.resumption(shift))
}

// controlEnrollment applies a decision to an enrollment; Conflict if the enrollment has ended.
func (s *enrollments) controlEnrollment(ctx context.Context, by waypost.Caller, id string, d decision) (waypost.Enrollment, error) {
	sc, author := by.Within()
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		row, err := s.controls.enrollmentRow(ctx, tx, sc, id)
		if err != nil {
			return err
		}
		if !row.EndedAt.IsZero() {
			return endedConflict(waypost.EnrollmentStatus(row.Status))
		}
		controls, err := s.controls.controlsOf(ctx, tx, waypost.ControlTargets{JourneyID: row.JourneyID, LaunchID: text(row.LaunchID), EnrollmentIDs: []string{id}})
		if err != nil {
			return err
		}
		if _, canceled := controls[id].Canceled(); canceled { // and not swept yet
			return endedConflict(waypost.EnrollmentCanceled)
		}
		return s.controls.decide(ctx, tx, author, "enrollment", d, id, id)
	})
	if err != nil {
		return waypost.Enrollment{}, fmt.Errorf("%s enrollment %s: %w", d.verb, clip(id), err)
	}
	e, _, err := s.Enrollment(ctx, sc, id)
	return e, err
}

// decide applies a decision to targets, and writes what it changed into the audit log as one of the thing
// of this kind and id.
func (s *controls) decide(ctx context.Context, tx bun.Tx, by *waypost.Author, kind string, d decision, id string, targets ...string) error {
	changed, err := d.carryOut(ctx, tx, targets)
	if err != nil || !changed {
		return err
	}
	return s.audit.add(ctx, tx, by, kind+"."+d.verb, id, d.before, d.after)
}

func endedConflict(status waypost.EnrollmentStatus) error {
	return waypost.Errorf(waypost.CodeConflict, "id", "the enrollment has ended: %s", status)
}

// enrollmentRow reads an enrollment and locks it.
func (s *controls) enrollmentRow(ctx context.Context, tx bun.Tx, sc waypost.Scope, id string) (row enrollmentRow, err error) {
	err = scanByID(ctx, s.lock(tx.NewSelect().Model(&row), "e"), sc, "enrollment", id)
	return row, err
}

// PauseLaunch pauses a launch and all its enrollments, and the occurrences of one that
// recurs, which opens none meanwhile; one that is paused stays so. NotFound if the scope
// has none of this id, Conflict if it has ended.
func (s *launches) PauseLaunch(ctx context.Context, by waypost.Caller, id string) (waypost.Launch, error) {
	return s.controlLaunch(ctx, by, id, s.controls.pausing())
}

// ResumeLaunch ends the pause of a launch, but not one of its journey or of one of
// its enrollments; those of its occurrences are ended, if it recurs. shift is
// waypost.Control's. One that is not paused stays as it is. NotFound if the scope has
// none of this id, Conflict if it has ended.
func (s *launches) ResumeLaunch(ctx context.Context, by waypost.Caller, id string, shift bool) (waypost.Launch, error) {
	return s.controlLaunch(ctx, by, id, s.controls.resumption(shift))
}

// CancelLaunch cancels a launch and all its enrollments: it enrolls nobody more,
// and SweepCanceled ends the enrollments. One that recurs opens no more occurrences,
// and those that it has are canceled, too. One that is canceled stays so. NotFound if
// the scope has none of this id, Conflict if it has completed.
func (s *launches) CancelLaunch(ctx context.Context, by waypost.Caller, id string) (waypost.Launch, error) {
	return s.controlLaunch(ctx, by, id, s.controls.cancellation(s.controls.cancelLaunches))
}

// controlLaunch applies a decision to a launch and to those of its occurrences that have not ended;
// Conflict if the launch has ended. Their rows are locked: no step of enrolling their
// audience is under way then, and no occurrence is opened.
func (s *launches) controlLaunch(ctx context.Context, by waypost.Caller, id string, d decision) (waypost.Launch, error) {
	sc, author := by.Within()
	launch, err := s.Launch(ctx, sc, id)
	if err != nil {
		return waypost.Launch{}, err
	}
	if launch.Status == waypost.LaunchCanceled && d.verb == "cancel" {
		return launch, nil
	}
	if launch.Status.Ended() {
		return waypost.Launch{}, fmt.Errorf("%s launch %s: %w", d.verb, id,
			waypost.Errorf(waypost.CodeConflict, "id", "the launch has ended: %s", launch.Status))
	}
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		if err := s.controls.lockLaunches(ctx, tx, []string{id}); err != nil {
			return err
		}
		canceled, err := s.controls.canceledLaunches(ctx, tx, []string{id})
		switch {
		case err != nil:
			return err
		case len(canceled) == 0:
			ids, err := s.controls.withOccurrences(ctx, tx, []string{id})
			if err != nil {
				return err
			}
			return s.controls.decide(ctx, tx, author, "launch", d, id, ids...)
		case d.verb == "cancel":
			return nil
		}
		return waypost.Errorf(waypost.CodeConflict, "id", "the launch has ended: %s", waypost.LaunchCanceled)
	})
	if err != nil {
		return waypost.Launch{}, fmt.Errorf("%s launch %s: %w", d.verb, id, err)
	}
	return s.Launch(ctx, sc, id)
}

func (s *controls) lockLaunches(ctx context.Context, tx bun.Tx, ids []string) error {
	return s.lockRows(ctx, tx.NewSelect().Model((*launchRow)(nil)).Where("id IN (?)", bun.List(ids)).Order("id"), forChange)
}

// lockLive locks those of the launches (alias l) of a condition that have not ended.
func (s *controls) lockLive(ctx context.Context, tx bun.Tx, of string, args ...any) (live []string, err error) {
	err = tx.NewRaw(`SELECT l.id FROM launches AS l WHERE `+of+`
		AND (l.done_at IS NULL OR EXISTS (SELECT 1 FROM enrollments AS e WHERE e.launch_id = l.id AND e.ended_at IS NULL))
		AND NOT EXISTS (SELECT 1 FROM controls AS c WHERE c.target = l.id AND c.kind = 'cancel') ORDER BY l.id`, args...).Scan(ctx, &live)
	if err != nil || len(live) == 0 {
		return nil, err
	}
	if err := s.lockLaunches(ctx, tx, live); err != nil {
		return nil, err
	}
	canceled, err := s.canceledLaunches(ctx, tx, live) // by another call meanwhile
	return slices.DeleteFunc(live, func(id string) bool { return slices.Contains(canceled, id) }), err
}

// canceledLaunches returns those of the launches that are canceled.
func (s *controls) canceledLaunches(ctx context.Context, tx bun.Tx, ids []string) (canceled []string, err error) {
	err = tx.NewSelect().Model((*controlRow)(nil)).Column("target").
		Where("target IN (?) AND kind = 'cancel'", bun.List(ids)).Scan(ctx, &canceled)
	return canceled, err
}

// cancelLaunches notes the cancel of launches whose rows are locked, and tells
// their own workflows.
func (s *controls) cancelLaunches(ctx context.Context, tx bun.Tx, ids []string) (changed bool, err error) {
	if len(ids) == 0 {
		return false, nil
	}
	// Those that markCompletedLaunches has marked before their rows were locked were announced as completed.
	var open []string
	err = tx.NewSelect().Model((*launchRow)(nil)).Column("id").Where("id IN (?) AND ended = ''", bun.List(ids)).Order("id").Scan(ctx, &open)
	if ids = open; err != nil || len(ids) == 0 {
		return false, err
	}
	now := s.time()
	rows := mapped(ids, func(id string) controlRow { return sweptCancel(id, now) })
	if _, err := tx.NewInsert().Model(&rows).Returning("NULL").Exec(ctx); err != nil {
		return false, err
	}
	if _, err := tx.NewUpdate().Model((*launchRow)(nil)).Set("ended = ?", waypost.LaunchCanceled).Where("id IN (?)", bun.List(ids)).Exec(ctx); err != nil {
		return false, err
	}
	if _, err := tx.NewDelete().Model((*holdRow)(nil)).Where("target IN (?) AND workflow_id = target", bun.List(ids)).Exec(ctx); err != nil {
		return false, err
	}
	if err := s.announcements.announceLaunches(ctx, tx, ids, waypost.LaunchCanceled, "CAST(? AS BIGINT)", stamp{now}); err != nil {
		return false, err
	}
	return true, s.rounds.notifyWhole(ctx, tx, ids)
}

// sweptCancel is a cancel of a launch or a journey, which SweepCanceled carries out.
func sweptCancel(target string, at time.Time) controlRow {
	return controlRow{Target: target, Kind: waypost.ControlCancel, From: stamp{at}, SweepAt: stamp{at}}
}

// PauseJourney pauses a journey: all its enrollments and launches, those too that
// come during the pause. One that is paused stays so, one that is archived stays
// that. NotFound if the scope has none of this id, Conflict if it is a draft.
func (s *journeys) PauseJourney(ctx context.Context, by waypost.Caller, id string) (waypost.Journey, error) {
	return s.controlJourney(ctx, by, id, waypost.JourneyPaused, s.controls.pausing())
}

// ResumeJourney ends the pause of a journey, but not those of its launches and
// enrollments; shift is waypost.Control's. One that is active stays so, one that is
// archived stays that. NotFound if the scope has none of this id, Conflict if it is a
// draft.
func (s *journeys) ResumeJourney(ctx context.Context, by waypost.Caller, id string, shift bool) (waypost.Journey, error) {
	return s.controlJourney(ctx, by, id, waypost.JourneyActive, s.controls.resumption(shift))
}

// CancelJourney cancels the enrollments and launches that a journey has at this
// moment: SweepCanceled ends them. The journey itself stays as it is. NotFound if
// the scope has none of this id, Conflict if it is a draft.
func (s *journeys) CancelJourney(ctx context.Context, by waypost.Caller, id string) (waypost.Journey, error) {
	return s.controlJourney(ctx, by, id, "", decision{verb: "cancel", carryOut: func(ctx context.Context, tx bun.Tx, _ []string) (changed bool, err error) {
		// Steps of enrolling that are under way end before the cancel's time.
		live, err := s.controls.lockLive(ctx, tx, "l.journey_id = ?", id)
		if err != nil {
			return false, err
		}
		if live, err = s.controls.withOccurrences(ctx, tx, live); err != nil { // that were opened meanwhile
			return false, err
		}
		if changed, err = s.controls.cancelLaunches(ctx, tx, live); err != nil {
			return false, err
		}
		newest, uncovered, err := madeSinceCancel(ctx, tx, id)
		if err != nil || !uncovered {
			return changed, err
		}
		at := s.time()
		if newest.After(at) { // stored by a process whose clock is ahead
			at = newest.Time
		}
		row := sweptCancel(id, at)
		_, err = tx.NewInsert().Model(&row).Returning("NULL").Exec(ctx)
		return true, err
	}})
}

// madeSinceCancel tells whether a journey has enrollments without a launch that its
// last cancel did not count for, and when the newest was made: calling again and
// again leaves one control.
func madeSinceCancel(ctx context.Context, tx bun.Tx, journey string) (newest stamp, uncovered bool, err error) {
	var last stamp
	err = tx.NewRaw(`SELECT (SELECT e.created_at FROM enrollments AS e WHERE e.journey_id = ? AND e.launch_id IS NULL ORDER BY e.id DESC LIMIT 1),
		(SELECT max(c.from_at) FROM controls AS c WHERE c.target = ? AND c.kind = 'cancel')`, journey, journey).Scan(ctx, &newest, &last)
	return newest, last.IsZero() || newest.After(last.Time), err
}

// controlJourney applies a decision to a journey, and gives it the status, unless that is "" or the
// journey is archived. Conflict if the journey is a draft.
func (s *journeys) controlJourney(
	ctx context.Context, by waypost.Caller, id string, status waypost.JourneyStatus, d decision,
) (_ waypost.Journey, err error) {
	defer wrap(&err, "%s journey %s", d.verb, clip(id))
	sc, author := by.Within()
	var row journeyRow
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if row, err = s.lockJourney(ctx, tx, sc, id); err != nil {
			return err
		}
		now := waypost.JourneyStatus(row.Status)
		if now == waypost.JourneyDraft {
			return waypost.Errorf(waypost.CodeConflict, "id", "the journey is a draft")
		}
		// What still runs of an archived one is controlled; it stays archived.
		if err := s.controls.decide(ctx, tx, author, "journey", d, id, id); err != nil || status == "" || status == now || now == waypost.JourneyArchived {
			return err
		}
		return s.setStatus(ctx, tx, &row, status)
	})
	return row.journey(), err
}

// CancelEnrollment cancels an enrollment at once: its entry is free, its
// deliveries are canceled, save one whose attempt is under way. One that is
// canceled stays so. NotFound if the scope has none of this id, Conflict if it has
// ended otherwise.
func (s *enrollments) CancelEnrollment(ctx context.Context, by waypost.Caller, id string) (waypost.Enrollment, error) {
	sc, author := by.Within()
	e, _, err := s.Enrollment(ctx, sc, id)
	if err != nil {
		return waypost.Enrollment{}, err
	}
	at := s.time()
	if e.Status == waypost.EnrollmentCanceled { // with its journey or launch, and perhaps not swept yet
		at, author = *e.EndedAt, nil
	}
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		canceled, err := s.controls.cancelEach(ctx, tx, []string{id}, at)
		if err != nil {
			return err
		}
		if len(canceled) > 0 {
			if err := s.audit.add(ctx, tx, author, "enrollment.cancel", id, nil, fields{"status": waypost.EnrollmentCanceled}); err != nil {
				return err
			}
			return s.notices.notify(ctx, tx, noticesOf(canceled, true), false)
		}
		row, err := s.controls.enrollmentRow(ctx, tx, sc, id)
		if err != nil {
			return err
		}
		if status := waypost.EnrollmentStatus(row.Status); status != waypost.EnrollmentCanceled {
			return endedConflict(status)
		}
		return nil
	})
	if err != nil {
		return waypost.Enrollment{}, fmt.Errorf("cancel enrollment %s: %w", clip(id), err)
	}
	e, _, err = s.Enrollment(ctx, sc, id)
	return e, err
}

// CancelEnrollments does what CancelEnrollment does for all of the enrollments that have
// not ended, in one transaction. It is for a workflow that ends before them. It also
// notifies workflows that an enrollment has moved to; a superfluous notice is harmless.
func (s *controls) CancelEnrollments(ctx context.Context, ids []string) (err error) {
	defer wrap(&err, "cancel %d enrollments", len(ids))
	if len(ids) == 0 {
		return nil
	}
	return s.writeRows(ctx, len(ids), func(ctx context.Context, tx bun.Tx) error {
		ended, err := s.cancelEach(ctx, tx, ids, s.time())
		if err != nil {
			return err
		}
		// The deletion of a lead misses an enrollment that is made at the same time.
		_, err = tx.NewUpdate().Model((*enrollmentRow)(nil)).Set("params = '{}'").Where("id IN (?) AND params <> '{}'", bun.List(ids)).
			Where("NOT EXISTS (SELECT 1 FROM leads AS l WHERE l.leads_id = e.leads_id)").Exec(ctx)
		if err != nil {
			return err
		}
		return s.notices.notify(ctx, tx, noticesOf(ended, false), false)
	})
}

// cancelEach notes a cancel of its own, of the given time, for each of the
// enrollments that has not ended, and carries it out.
func (s *controls) cancelEach(ctx context.Context, tx bun.Tx, ids []string, at time.Time) ([]enrollmentRow, error) {
	return s.endEach(ctx, tx, ids, waypost.EnrollmentCanceled, stamp{at}, func(string) controlRow { return controlRow{Kind: waypost.ControlCancel} })
}

// endEach notes a control of its own, of the given time, for each of the enrollments that has
// not ended, and ends it with the status that the control means.
func (s *controls) endEach(
	ctx context.Context, tx bun.Tx, ids []string, status waypost.EnrollmentStatus, at stamp, control func(id string) controlRow,
) ([]enrollmentRow, error) {
	ended, err := s.endEarly(ctx, tx, ids, status, at.Time, "")
	if err != nil || len(ended) == 0 {
		return nil, err
	}
	targets := mapped(ended, enrollmentRow.id)
	rows := mapped(targets, func(target string) controlRow {
		row := control(target)
		row.Target, row.From = target, at
		return row
	})
	if _, err := tx.NewInsert().Model(&rows).Returning("NULL").Exec(ctx); err != nil {
		return nil, err
	}
	_, err = tx.NewDelete().Model((*holdRow)(nil)).Where("target IN (?)", bun.List(targets)).Exec(ctx)
	return ended, err
}

// endEarly ends the enrollments that have not ended, with this status at the given time,
// and returns them. With a launch, which is canceled, cohorts that no pump has claimed
// will never start. All transactions lock rows in this order: deliveries, enrollments,
// entries, waits.
func (s *controls) endEarly(
	ctx context.Context, tx bun.Tx, ids []string, status waypost.EnrollmentStatus, at time.Time, launch string,
) ([]enrollmentRow, error) {
	open, err := s.deliveries.lockUndecided(ctx, tx, func(q *bun.SelectQuery) { q.Where("d.enrollment_id IN (?)", bun.List(ids)) })
	if err != nil {
		return nil, err
	}
	var rows []enrollmentRow
	err = s.lock(tx.NewSelect().Model(&rows).
		Column("id", "journey_id", "version", "leads_id", "entry_key", "cohort_id", "status", "node_id", "deferred", "test", "created_at").
		Where("id IN (?) AND ended_at IS NULL", bun.List(ids)).Order("id"), "e").Scan(ctx)
	if err != nil || len(rows) == 0 {
		return nil, err
	}
	if launch != "" {
		if err := s.retireCohorts(ctx, tx, launch, rows); err != nil {
			return nil, err
		}
	}
	count := tallies{}
	count.endAll(rows, status, at)
	if err := s.statistics.count(ctx, tx, count); err != nil {
		return nil, err
	}
	now := stamp{at}
	live := mapped(rows, enrollmentRow.id)
	ended := map[journeyEntry]int{}
	for _, e := range rows {
		ended[journeyEntry{e.JourneyID, e.LeadsID, e.EntryKey}]++
	}
	_, err = tx.NewUpdate().Model((*enrollmentRow)(nil)).Set("status = ?, move = NULL", status).
		Set("ended_at = CASE WHEN created_at > ? THEN created_at ELSE ? END", now, now). // clocks of processes disagree
		Where("id IN (?)", bun.List(live)).Exec(ctx)
	if err != nil {
		return nil, err
	}
	if err := s.announcements.announceEnds(ctx, tx, live); err != nil {
		return nil, err
	}
	if err := s.progress.freeEntries(ctx, tx, ended); err != nil {
		return nil, err
	}
	open = slices.DeleteFunc(open, func(d touchpointRow) bool {
		_, found := slices.BinarySearch(live, d.EnrollmentID)
		return !found
	})
	if err := s.deliveries.cancelUndecided(ctx, tx, open); err != nil {
		return nil, err
	}
	return rows, s.waits.dropWaits(ctx, tx, live)
}

// retireCohorts keeps the pump from claiming the cohorts of a canceled launch, and takes the
// enrollments out of a retired cohort: they have no workflow and never will.
func (s *controls) retireCohorts(ctx context.Context, tx bun.Tx, launch string, rows []enrollmentRow) error {
	var cohorts []string
	for _, e := range rows {
		if e.CohortID != nil {
			cohorts = append(cohorts, *e.CohortID)
		}
	}
	if len(cohorts) == 0 {
		return nil
	}
	var retired []string // by earlier steps too
	q := tx.NewSelect().Model((*cohortRow)(nil)).Column("id").
		Where("id IN (?) AND launch_id = ? AND (claimed_at IS NULL OR retired)", bun.List(distinct(cohorts)), launch).Order("id")
	if err := s.lock(q, "c").Scan(ctx, &retired); err != nil || len(retired) == 0 {
		return err
	}
	now := stamp{s.time()}
	_, err := tx.NewUpdate().Model((*cohortRow)(nil)).Set("claimed_at = ?, started_at = ?, members = NULL, retired = TRUE", now, now).
		Where("id IN (?) AND claimed_at IS NULL", bun.List(retired)).Exec(ctx)
	if err != nil {
		return err
	}
	var out []string
	left := map[string]int{}
	for i, e := range rows {
		if e.CohortID != nil && slices.Contains(retired, *e.CohortID) {
			left[*e.CohortID]++
			rows[i].CohortID = nil
			out = append(out, e.ID)
		}
	}
	if len(out) == 0 {
		return nil
	}
	if _, err := tx.NewUpdate().Model((*enrollmentRow)(nil)).Set("cohort_id = NULL").Where("id IN (?)", bun.List(out)).Exec(ctx); err != nil {
		return err
	}
	return s.cohorts.leaveCohorts(ctx, tx, left)
}

// noticesOf tells the workflows of enrollments: of each one, or of all of theirs.
func noticesOf(rows []enrollmentRow, each bool) []waypost.Notice {
	var notices []waypost.Notice
	for _, e := range rows {
		if e.CohortID == nil {
			continue // no workflow yet; see FormCohort
		}
		n := waypost.Notice{WorkflowID: *e.CohortID}
		if each {
			n.EnrollmentID = e.ID
		}
		notices = append(notices, n)
	}
	slices.SortFunc(notices, func(a, b waypost.Notice) int {
		return cmp.Or(cmp.Compare(a.WorkflowID, b.WorkflowID), cmp.Compare(a.EnrollmentID, b.EnrollmentID))
	})
	return slices.Compact(notices)
}

// lockUndecided locks those of the deliveries (alias d) that are not final and
// have no open attempt. Redeliveries have nothing to do with their enrollment.
func (s *deliveries) lockUndecided(ctx context.Context, tx bun.Tx, which func(*bun.SelectQuery)) ([]touchpointRow, error) {
	var rows []touchpointRow
	q := tx.NewSelect().Model((*deliveryRow)(nil)).Column("enrollment_id", "visit").
		Where(undecided+" AND d.open_attempt = 0 AND d.round = 1").Order("d.enrollment_id", "d.visit")
	which(q)
	return rows, s.lock(q, "d").Scan(ctx, &rows)
}

var cancelDelivery = bulk{
	table:   "deliveries AS d",
	keys:    2,
	columns: []string{"enrollment_id text", "visit bigint", "status text"},
	set:     "deferred_reason = '', deferred_since = NULL, next_attempt_at = NULL",
}

func (s *deliveries) cancelUndecided(ctx context.Context, tx bun.Tx, rows []touchpointRow) error {
	err := cancelDelivery.run(ctx, s.db, tx, len(rows), func(i int) []any {
		return []any{rows[i].EnrollmentID, rows[i].Visit, string(waypost.DeliveryCanceled)}
	}, nil)
	if err != nil {
		return err
	}
	return eraseLeadless(ctx, tx, rows)
}

// CancelDeliveries cancels those of the touchpoints' deliveries that are not final
// and have no open attempt, but no redelivery.
func (s *controls) CancelDeliveries(ctx context.Context, touchpoints []waypost.Touchpoint) (err error) {
	defer wrap(&err, "cancel %d deliveries", len(touchpoints))
	if len(touchpoints) == 0 {
		return nil
	}
	return s.writeRows(ctx, len(touchpoints), func(ctx context.Context, tx bun.Tx) error {
		keys := sortedKeys(touchpoints)
		rows, err := s.deliveries.lockUndecided(ctx, tx, func(q *bun.SelectQuery) {
			q.With("u", tx.NewValues(&keys)).TableExpr("u").Where("d.enrollment_id = u.enrollment_id AND d.visit = u.visit")
		})
		if err != nil {
			return err
		}
		return s.deliveries.cancelUndecided(ctx, tx, rows)
	})
}

// sweepAgain is how long after a cancel of a launch or a journey it is swept a
// second time: for enrollments that were being stored when it came.
const sweepAgain = time.Minute

// SweepCanceled carries out one step of a cancel of a launch or a journey: up to
// limit enrollments end as CancelEnrollment ends them, and their workflows are
// told. more tells that it found something to do, so that the caller goes on. It
// can run in several processes at once: each takes another cancel. Enrollments
// that it has not come to yet count as canceled already.
func (s *controls) SweepCanceled(ctx context.Context, limit int) (more bool, err error) {
	defer wrap(&err, "sweep canceled enrollments")
	// Without a lock first: with nothing to do it costs one read.
	if more, err = sweepable(s.r.NewSelect().Model((*controlRow)(nil)), s.time()).Exists(ctx); err == nil && more {
		err = s.writeRows(ctx, limit, func(ctx context.Context, tx bun.Tx) (err error) {
			more, err = s.sweep(ctx, tx, max(1, limit))
			return err
		})
	}
	return more, err
}

func sweepable(q *bun.SelectQuery, now time.Time) *bun.SelectQuery {
	return q.Where("sweep_at <= ?", stamp{now})
}

// sweep ends up to limit enrollments of the cancel whose turn it is, and tells their workflows. A cancel
// that is done is swept once more after sweepAgain, for enrollments that were being stored meanwhile.
func (s *controls) sweep(ctx context.Context, tx bun.Tx, limit int) (more bool, err error) {
	var controls []controlRow
	now := s.time()
	q := sweepable(tx.NewSelect().Model(&controls), now).Order("sweep_at", "id").Limit(1)
	if err := s.lockFor(q, forChange+skipLocked).Scan(ctx); err != nil || len(controls) == 0 {
		return false, err
	}
	c := controls[0]
	page, launch := canceledOfJourney, ""
	if waypost.IsID(waypost.PrefixLaunch, c.Target) {
		page, launch = canceledOfLaunch, c.Target
	}
	ids, done, err := page(ctx, tx, &c, limit)
	if err != nil {
		return false, err
	}
	if len(ids) > 0 {
		canceled, err := s.endEarly(ctx, tx, ids, waypost.EnrollmentCanceled, c.From.Time, launch)
		if err != nil {
			return false, err
		}
		if err := s.notices.notify(ctx, tx, noticesOf(canceled, false), true); err != nil {
			return false, err
		}
	}
	c.SweepAt = stamp{now} // the cancels take turns
	if done {
		again := c.From.Add(sweepAgain)
		c.SweepAt, c.SweepAfter = stamp{}, ""
		if now.Before(again) {
			// Ids sort by time: what was being stored at the cancel is not older than this.
			c.SweepAt, c.SweepAfter = stamp{again}, waypost.NewID(waypost.PrefixEnrollment, c.From.Add(-10*sweepAgain))
		}
	}
	_, err = tx.NewUpdate().Model(&c).Column("sweep_at", "sweep_after").WherePK().Exec(ctx)
	return true, err
}

// canceledOfLaunch needs no cursor: enrollments that have ended are not in the index.
func canceledOfLaunch(ctx context.Context, tx bun.Tx, c *controlRow, limit int) (ids []string, done bool, err error) {
	err = tx.NewSelect().Model((*enrollmentRow)(nil)).Column("id").Where("launch_id = ? AND ended_at IS NULL", c.Target).
		Limit(int64(limit)).Scan(ctx, &ids)
	return ids, len(ids) < limit, err
}

// sweepWidth is how many enrollments a step of a journey's cancel looks at for each
// that it may cancel: most of a journey's have ended long ago.
const sweepWidth = 8

// canceledOfJourney moves the cursor on, over the enrollments without a launch.
func canceledOfJourney(ctx context.Context, tx bun.Tx, c *controlRow, limit int) (ids []string, done bool, err error) {
	var rows []enrollmentRow
	err = tx.NewSelect().Model(&rows).Column("id", "created_at", "ended_at").
		Where("journey_id = ? AND launch_id IS NULL AND id > ?", c.Target, c.SweepAfter).Order("id").Limit(int64(sweepWidth * limit)).Scan(ctx)
	if err != nil {
		return nil, false, err
	}
	// Ids sort by the milliseconds that they were made at.
	last := c.From.Add(time.Millisecond)
	for _, e := range rows {
		if len(ids) == limit {
			return ids, false, nil
		}
		if e.CreatedAt.After(last) {
			return ids, true, nil
		}
		c.SweepAfter = e.ID
		if e.EndedAt.IsZero() && !e.CreatedAt.After(c.From.Time) {
			ids = append(ids, e.ID)
		}
	}
	return ids, len(rows) < sweepWidth*limit, nil
}
