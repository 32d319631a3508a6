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

// Enrollments that are looked at for a page where no index has all that is asked for: a
// page may be shorter than its limit then, and is followed by another one.
const (
	lookedStep = 500
	maxLooked  = 2 * lookedStep
)

// farthest is later than any time in the database, in microseconds.
const farthest = 1 << 62

// ListEnrollments returns the scope's enrollments that match, newest first unless
// f.OldestFirst, as Enrollment has them: at most page.Limit that follow page.After, which
// is the next of the page before. next is "" at the end. A page can be short, or empty,
// and have a next: see lookedStep. A malformed After is a BadRequest of "cursor".
func (s *enrollments) ListEnrollments(
	ctx context.Context, sc waypost.Scope, f waypost.EnrollmentFilter, page waypost.Page,
) (list []waypost.Enrollment, next string, err error) {
	defer wrap(&err, "list enrollments")
	w, err := newEnrollmentWalk(sc, f, page)
	if err != nil {
		return nil, "", err
	}
	err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		// An index gives the order of times; without this, what few enrollments seem to match
		// would be read altogether and sorted.
		if err := s.withoutPlan(ctx, tx, "sort"); err != nil {
			return err
		}
		list, next, err = s.listedPage(ctx, tx, w)
		return err
	})
	return list, next, err
}

// enrollmentWalk asks for the first n enrollments of a scope that match, in the order of
// their times.
type enrollmentWalk struct {
	sc       waypost.Scope
	f        waypost.EnrollmentFilter
	from, to int64            // created_at in microseconds, both included
	after    *enrollmentPlace // of the one before the first, nil: none
	n        int
}

// enrollmentPlace is where an enrollment stands in a list.
type enrollmentPlace struct {
	at int64 // created_at in microseconds
	id string
}

func placeOfEnrollment(e startedRow) enrollmentPlace {
	return enrollmentPlace{e.CreatedAt.UnixMicro(), e.ID}
}

func (p enrollmentPlace) compare(o enrollmentPlace) int {
	return cmp.Or(cmp.Compare(p.at, o.at), cmp.Compare(p.id, o.id))
}

func (p enrollmentPlace) String() string { return fmt.Sprintf("%d,%s", p.at, p.id) }

func newEnrollmentWalk(sc waypost.Scope, f waypost.EnrollmentFilter, page waypost.Page) (enrollmentWalk, error) {
	w := enrollmentWalk{sc: sc, f: f, from: -farthest, to: farthest, n: int(pageSize(page))}
	w.f.JourneyID, w.f.NodeID, w.f.LaunchID = cleanText(f.JourneyID), cleanText(f.NodeID), cleanText(f.LaunchID)
	if !f.From.IsZero() {
		w.from = stampUp(f.From).UnixMicro()
	}
	if !f.To.IsZero() {
		w.to = stampUp(f.To).UnixMicro() - 1
	}
	if page.After == "" {
		return w, nil
	}
	at, id, _ := strings.Cut(page.After, ",")
	micro, err := strconv.ParseInt(at, 10, 64)
	if err != nil || !waypost.IsID(waypost.PrefixEnrollment, id) {
		return w, errCursor
	}
	w.goOn(enrollmentPlace{micro, id})
	return w, nil
}

// goOn has the walk begin after a place.
func (w *enrollmentWalk) goOn(after enrollmentPlace) {
	w.after = &after
	tighten(&w.from, &w.to, after.at, !w.f.OldestFirst)
}

// tighten moves one end of a span of time to at: its end, or its beginning.
func tighten(from, to *int64, at int64, end bool) {
	if end {
		*to = min(*to, at)
	} else {
		*from = max(*from, at)
	}
}

// asks tells whether the walk asks for one of the statuses by name.
func (w *enrollmentWalk) asks(statuses ...waypost.EnrollmentStatus) bool {
	return slices.ContainsFunc(statuses, func(s waypost.EnrollmentStatus) bool { return slices.Contains(w.f.Statuses, s) })
}

// matches tells whether an enrollment, as it is recorded and as it stands with what was
// decided about it, is one that the walk asks for.
func (w *enrollmentWalk) matches(row startedRow, e waypost.Enrollment) bool {
	f := w.f
	there := f.NodeID == "" || e.NodeID == f.NodeID
	if f.NodeID != "" && e.EndedAt != nil {
		there = there && len(f.Statuses) > 0
	} else if f.NodeID != "" {
		there = there && row.Status != string(waypost.EnrollmentPending)
	}
	return there && (f.JourneyID == "" || e.JourneyID == f.JourneyID) && (f.Version == 0 || e.Version == f.Version) &&
		(f.LaunchID == "" || e.LaunchID == f.LaunchID) && (len(f.Statuses) == 0 || slices.Contains(f.Statuses, e.Status))
}

// listedPage reads a page of a walk, and the place that the next one follows.
func (s *enrollments) listedPage(ctx context.Context, tx bun.Tx, w enrollmentWalk) (list []waypost.Enrollment, next string, err error) {
	if known, err := s.withinLaunch(ctx, tx, &w); err != nil || !known {
		return nil, "", err
	}
	streams, err := s.enrollmentStreams(ctx, tx, w)
	if err != nil {
		return nil, "", err
	}
	// Nearly always all of the first match; one more tells whether others follow.
	for looked, step := 0, w.n+1; ; step = min(4*step, max(lookedStep, w.n+1)) {
		rows, err := s.mergeStreams(ctx, tx, w, streams, step)
		if err != nil {
			return nil, "", err
		}
		found, err := s.decided(ctx, tx, rows)
		if err != nil {
			return nil, "", err
		}
		for i, e := range found {
			if !w.matches(rows[i], e) {
				continue
			}
			if len(list) == w.n {
				last := list[w.n-1]
				return list, enrollmentPlace{last.CreatedAt.UnixMicro(), last.ID}.String(), s.fillParams(ctx, tx, list)
			}
			list = append(list, e)
		}
		if len(rows) < step {
			return list, "", s.fillParams(ctx, tx, list)
		}
		last := placeOfEnrollment(rows[len(rows)-1])
		if looked += len(rows); looked >= maxLooked {
			return list, last.String(), s.fillParams(ctx, tx, list)
		}
		w.goOn(last)
	}
}

// launchSkew is how much earlier or later than a launch says its enrollments can be made:
// clocks of processes disagree.
const launchSkew = time.Minute

// withinLaunch restricts a walk by launch to its journey and its time; known is false if
// nothing can match.
func (s *enrollments) withinLaunch(ctx context.Context, tx bun.Tx, w *enrollmentWalk) (known bool, err error) {
	if w.f.LaunchID == "" {
		return true, nil
	}
	var launches []launchRow
	err = tx.NewSelect().Model(&launches).Column("journey_id", "started_at", "done_at").
		Where("id = ? AND org = ? AND stage = ?", w.f.LaunchID, w.sc.Org, w.sc.Stage).Scan(ctx)
	if err != nil || len(launches) == 0 || launches[0].StartedAt.IsZero() {
		return false, err
	}
	l := launches[0]
	if w.f.JourneyID != "" && w.f.JourneyID != l.JourneyID {
		return false, nil
	}
	w.f.JourneyID = l.JourneyID
	tighten(&w.from, &w.to, l.StartedAt.Add(-launchSkew).UnixMicro(), false)
	if !l.DoneAt.IsZero() {
		tighten(&w.from, &w.to, l.DoneAt.Add(launchSkew).UnixMicro(), true)
	}
	return true, nil
}

// enrollmentStream is a part of a walk that an index has in the order of times.
type enrollmentStream struct {
	of    string // FROM and WHERE of the enrollments (alias e)
	args  []any
	first int64     // the time of its first one, or an earlier one in the walk's order
	place *placeRow // that it has, nil: no single one
}

// pausedAlone are the enrollments with a pause of their own that lasts. SQLite joins in the
// order in which a CROSS JOIN is written.
const pausedAlone = "controls AS pc CROSS JOIN enrollments AS e WHERE pc.kind = 'pause' AND pc.until_at IS NULL AND pc.target BETWEEN 'enr_' AND 'enr`' AND e.id = pc.target"

// enrollmentStreams lists the parts that can have what a walk asks for, that with the first
// one first.
func (s *enrollments) enrollmentStreams(ctx context.Context, tx bun.Tx, w enrollmentWalk) ([]enrollmentStream, error) {
	begin := int64(farthest)
	if w.f.OldestFirst {
		begin = -begin
	}
	scope := []any{w.sc.Org, w.sc.Stage}
	if w.f.LeadsID != 0 {
		return []enrollmentStream{{"enrollments AS e WHERE e.org = ? AND e.stage = ? AND e.leads_id = ?", append(scope, w.f.LeadsID), begin, nil}}, nil
	}
	touched, err := touchedJourneys(ctx, tx, w)
	if err != nil {
		return nil, err
	}
	places, err := s.enrollmentPlaces(ctx, tx, w)
	if err != nil {
		return nil, err
	}
	var streams []enrollmentStream
	for _, p := range places {
		if w.takes(p.Place, touched[p.JourneyID]) {
			streams = append(streams, enrollmentStream{
				"enrollments AS e WHERE e.journey_id = ? AND e.version = ? AND e.place = ?", []any{p.JourneyID, p.Version, p.Place}, *p.First, &p,
			})
		}
	}
	if w.asks(waypost.EnrollmentPaused) && !w.asks(undecidedStatuses...) {
		streams = append(streams, enrollmentStream{pausedAlone + " AND e.org = ? AND e.stage = ?", scope, begin, nil})
	}
	slices.SortStableFunc(streams, func(a, b enrollmentStream) int {
		if w.f.OldestFirst {
			return cmp.Compare(a.first, b.first)
		}
		return cmp.Compare(b.first, a.first)
	})
	return streams, nil
}

// undecidedStatuses are those of enrollments that neither have ended nor are paused.
var undecidedStatuses = []waypost.EnrollmentStatus{waypost.EnrollmentPending, waypost.EnrollmentRunning, waypost.EnrollmentWaiting}

// takes tells whether enrollments at a place can match. touched says that a pause of the
// journey or of one of its launches lasts, or that a cancel is being carried out: then
// those that have not ended may be paused or canceled, whatever their rows say.
func (w *enrollmentWalk) takes(place string, touched bool) bool {
	outcome, ended := strings.CutPrefix(place, "=")
	all := len(w.f.Statuses) == 0
	switch {
	case ended:
		return all && w.f.NodeID == "" || w.asks(waypost.EnrollmentStatus(outcome))
	case w.f.NodeID != "" && place != w.f.NodeID:
		return false
	case all || touched, w.asks(waypost.EnrollmentPaused) && w.asks(undecidedStatuses...), w.asks(waypost.EnrollmentRunning):
		return true
	case place == "":
		return w.asks(waypost.EnrollmentPending)
	}
	return w.asks(waypost.EnrollmentWaiting)
}

// touchedJourneys are the journeys of takes.
func touchedJourneys(ctx context.Context, tx bun.Tx, w enrollmentWalk) (map[string]bool, error) {
	var parts []string
	if w.asks(waypost.EnrollmentPaused) { // pauses of single enrollments are a stream of their own
		parts = append(parts, "c.kind = 'pause' AND c.until_at IS NULL AND c.target >= 'jrn_'")
	}
	if w.asks(waypost.EnrollmentCanceled) {
		parts = append(parts, "c.sweep_at IS NOT NULL")
	}
	touched := map[string]bool{}
	for _, part := range parts {
		var ids []string
		err := tx.NewRaw("SELECT COALESCE(l.journey_id, c.target) FROM controls AS c LEFT JOIN launches AS l ON l.id = c.target WHERE "+part).Scan(ctx, &ids)
		if err != nil {
			return nil, fmt.Errorf("look for pauses and cancels: %w", err)
		}
		for _, id := range ids {
			touched[id] = true
		}
	}
	return touched, nil
}

// placeRow is a place that enrollments of a journey version are at.
type placeRow struct {
	JourneyID string `bun:"journey_id"`
	Version   int    `bun:"version"`
	Place     string `bun:"place"`
	First     *int64 `bun:"first"` // created_at of the walk's first one there, nil: none
}

// enrollmentPlaces lists the places of the walk's journeys, with two looks into
// enrollments_by_place for each.
func (s *enrollments) enrollmentPlaces(ctx context.Context, tx bun.Tx, w enrollmentWalk) (places []placeRow, err error) {
	const look = "(SELECT e.place FROM enrollments AS e WHERE e.journey_id = %[1]s.journey_id AND e.version = %[1]s.version%[2]s ORDER BY e.place LIMIT 1)"
	base := "SELECT v.journey_id, v.version, " + fmt.Sprintf(look, "v", "") +
		" FROM journeys AS j JOIN journey_versions AS v ON v.journey_id = j.id WHERE j.org = ? AND j.stage = ?"
	args := []any{w.sc.Org, w.sc.Stage}
	if w.f.JourneyID != "" {
		base += " AND j.id = ?"
		args = append(args, w.f.JourneyID)
	}
	if w.f.Version != 0 {
		base += " AND v.version = ?"
		args = append(args, w.f.Version)
	}
	next := "SELECT p.journey_id, p.version, " + fmt.Sprintf(look, "p", " AND e.place > p.place") + " FROM p WHERE p.place IS NOT NULL"
	direction := "DESC"
	if w.f.OldestFirst {
		direction = "ASC"
	}
	err = tx.NewRaw("WITH RECURSIVE p (journey_id, version, place) AS ("+base+" UNION ALL "+next+`)
		SELECT p.journey_id, p.version, p.place, (SELECT e.created_at FROM enrollments AS e WHERE e.journey_id = p.journey_id AND e.version = p.version
			AND e.place = p.place AND e.created_at BETWEEN ? AND ? ORDER BY e.created_at `+direction+` LIMIT 1) AS first
		FROM p WHERE p.place IS NOT NULL`, append(args, w.from, w.to)...).Scan(ctx, &places)
	if err != nil {
		return nil, fmt.Errorf("look where enrollments are: %w", err)
	}
	return slices.DeleteFunc(places, func(p placeRow) bool { return p.First == nil }), nil
}

// mergeStreams reads the first n enrollments of all streams. Most need not be looked into:
// the first of what they have comes too late, or their heads tell enough.
func (s *enrollments) mergeStreams(
	ctx context.Context, tx bun.Tx, w enrollmentWalk, streams []enrollmentStream, n int,
) (rows []startedRow, err error) {
	rows, beyond, err := s.readHeads(ctx, tx, w, streams, n)
	if err != nil {
		return nil, err
	}
	rows = w.inOrder(rows, n)
	for i, stream := range streams {
		if far, read := beyond[i]; read && (far == nil || len(rows) == n && w.order(*far, placeOfEnrollment(rows[n-1])) >= 0) {
			continue
		}
		if len(rows) == n {
			tighten(&w.from, &w.to, rows[n-1].CreatedAt.UnixMicro(), w.f.OldestFirst)
			if w.f.OldestFirst && stream.first > w.to || !w.f.OldestFirst && stream.first < w.from {
				break
			}
		}
		more, err := s.readStream(ctx, tx, w, stream, n)
		if err != nil {
			return nil, err
		}
		rows = w.inOrder(append(rows, more...), n)
	}
	return rows, nil
}

// order compares two places in the walk's order.
func (w *enrollmentWalk) order(a, b enrollmentPlace) int {
	if w.f.OldestFirst {
		return a.compare(b)
	}
	return b.compare(a)
}

// inOrder returns the first n of some enrollments, each once: one with a pause of its own can
// be in two streams, and the head of a stream is read with the stream again.
func (w *enrollmentWalk) inOrder(rows []startedRow, n int) []startedRow {
	slices.SortFunc(rows, func(a, b startedRow) int { return w.order(placeOfEnrollment(a), placeOfEnrollment(b)) })
	rows = slices.CompactFunc(rows, func(a, b startedRow) bool { return a.ID == b.ID })
	return rows[:min(n, len(rows))]
}

// How many streams of places have their heads read in one statement. With fewer, reading one
// after the other takes no longer.
const (
	leastHeads = 4
	mostHeads  = 64
)

// readHeads reads the heads of the first streams, so many enrollments of each that few streams
// are likely to have more among the first n of all. beyond has the streams that were read: by
// their index the last enrollment of the head, nil if the head is all there is.
func (s *enrollments) readHeads(
	ctx context.Context, tx bun.Tx, w enrollmentWalk, streams []enrollmentStream, n int,
) (rows []startedRow, beyond map[int]*enrollmentPlace, err error) {
	beyond = map[int]*enrollmentPlace{}
	var values []string
	var args []any
	for i, stream := range streams[:min(mostHeads, len(streams))] {
		if p := stream.place; p != nil {
			values = append(values, "(?, ?, ?::bigint, ?)")
			args = append(args, i, p.JourneyID, p.Version, p.Place)
			beyond[i] = nil
		}
	}
	if !s.hasLateral() || len(values) < leastHeads {
		return nil, nil, nil
	}
	each := 4*n/len(values) + 4
	where, order, more := w.within()
	var heads []struct {
		startedRow `bun:",extend"`
		Stream     int `bun:"stream,scanonly"`
	}
	err = tx.NewRaw("SELECT k.*, c.started_at FROM (SELECT p.stream, l.* FROM (VALUES "+strings.Join(values, ", ")+`) AS p (stream, journey_id, version, place)
		CROSS JOIN LATERAL (SELECT `+listedColumns+` FROM enrollments AS e WHERE e.journey_id = p.journey_id AND e.version = p.version AND e.place = p.place`+
		where+order+" LIMIT ?) AS l) AS k LEFT JOIN cohorts AS c ON c.id = k.cohort_id", slices.Concat(args, more, []any{each})...).Scan(ctx, &heads)
	if err != nil {
		return nil, nil, fmt.Errorf("read the first of each place: %w", err)
	}
	counts := map[int]int{}
	for _, head := range heads {
		rows = append(rows, head.startedRow)
		at := placeOfEnrollment(head.startedRow)
		// The last of each, in whatever order they come.
		if far := beyond[head.Stream]; far == nil || w.order(at, *far) > 0 {
			beyond[head.Stream] = &at
		}
		counts[head.Stream]++
	}
	for i := range beyond {
		if counts[i] < each {
			beyond[i] = nil
		}
	}
	return rows, beyond, nil
}

// listedColumns are those of an enrollment (alias e) without what is long: params.
const listedColumns = `e.id, e.journey_id, e.version, e.leads_id, e.launch_id, e.app_id, e.entry_key, e.entry, e.source, e.status, e.node_id, e.cohort_id, e.created_at, e.ended_at`

// within is the condition that an enrollment (alias e) is one of the walk's time and follows
// its last place, and the walk's order.
func (w *enrollmentWalk) within() (where, order string, args []any) {
	where, args = " AND e.created_at BETWEEN ? AND ?", []any{w.from, w.to}
	order, than := " ORDER BY e.created_at DESC, e.id DESC", ">="
	if w.f.OldestFirst {
		order, than = " ORDER BY e.created_at, e.id", "<="
	}
	if w.after != nil {
		where += " AND NOT (e.created_at = ? AND e.id " + than + " ?)"
		args = append(args, w.after.at, w.after.id)
	}
	return where, order, args
}

// readStream reads the first n enrollments of a walk's stream.
func (s *enrollments) readStream(
	ctx context.Context, tx bun.Tx, w enrollmentWalk, stream enrollmentStream, n int,
) (rows []startedRow, err error) {
	where, order, args := w.within()
	err = tx.NewRaw("SELECT k.*, c.started_at FROM (SELECT "+listedColumns+" FROM "+stream.of+where+order+" LIMIT ?) AS k LEFT JOIN cohorts AS c ON c.id = k.cohort_id",
		slices.Concat(stream.args, args, []any{n})...).Scan(ctx, &rows)
	return rows, err
}

// decided returns enrollments with what was decided about them, as Enrollment does for one.
func (s *enrollments) decided(ctx context.Context, tx bun.Tx, started []startedRow) ([]waypost.Enrollment, error) {
	list, err := decoded(started, startedRow.enrollment)
	if err != nil {
		return nil, err
	}
	type group struct{ journeyID, launchID string }
	groups := map[group][]string{}
	var targets []string
	for _, e := range list {
		if e.EndedAt == nil {
			key := group{e.JourneyID, e.LaunchID}
			groups[key] = append(groups[key], e.ID)
			targets = append(targets, e.ID, e.JourneyID, e.LaunchID)
		}
	}
	if len(targets) == 0 {
		return list, nil
	}
	var rows []controlRow
	err = tx.NewSelect().Model(&rows).Column("id", "target", "kind", "from_at").
		Where("until_at IS NULL AND target IN (?)", bun.List(distinct(targets))).Scan(ctx)
	if err != nil {
		return nil, fmt.Errorf("load controls: %w", err)
	}
	controls := map[string]waypost.Controls{}
	for key, ids := range groups {
		of, err := s.controls.byEnrollment(ctx, tx, inOrder(rows), waypost.ControlTargets{JourneyID: key.journeyID, LaunchID: key.launchID, EnrollmentIDs: ids})
		if err != nil {
			return nil, err
		}
		for _, id := range ids {
			controls[id] = of[id]
		}
	}
	for i := range list {
		applyControls(&list[i], controls[list[i].ID])
	}
	return list, nil
}

// fillParams adds the params of enrollments, which most have none of.
func (s *enrollments) fillParams(ctx context.Context, tx bun.Tx, list []waypost.Enrollment) error {
	if len(list) == 0 {
		return nil
	}
	var rows []enrollmentRow
	ids := mapped(list, func(e waypost.Enrollment) string { return e.ID })
	if err := tx.NewSelect().Model(&rows).Column("id", "params").Where("id IN (?) AND params <> '{}'", bun.List(ids)).Scan(ctx); err != nil {
		return fmt.Errorf("load params: %w", err)
	}
	params := keyed(rows, enrollmentRow.id)
	for i := range list {
		list[i].Params = map[string]any{}
		if err := fromJSON(params[list[i].ID].Params, &list[i].Params); err != nil {
			return fmt.Errorf("enrollment %s: %w", list[i].ID, err)
		}
	}
	return nil
}
