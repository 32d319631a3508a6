package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// The statistics of a journey are kept as it runs: whatever changes an enrollment adds a row
// to statistic_deltas in its own transaction, and FoldStatistics adds those to the totals.
// Nobody waits for a row that all count in, and nothing is counted twice or missed.
// Enrollments of test leads are not counted: enrollments.test says so of each from its entry on,
// whatever becomes of the lead.

// hourly are counts by the hour, since 1970, that they belong to.
type hourly map[int64]*waypost.Counts

// hourOf is the hour of a time.
func hourOf(t time.Time) int64 { return t.Unix() / int64(time.Hour/time.Second) }

func (h hourly) at(t time.Time) *waypost.Counts {
	hour := hourOf(t)
	c := h[hour]
	if c == nil {
		c = &waypost.Counts{}
		h[hour] = c
	}
	return c
}

// trim leaves out what is zero.
func (h hourly) trim() hourly {
	maps.DeleteFunc(h, func(_ int64, c *waypost.Counts) bool { return !c.Trim() })
	return h
}

// enteredAt counts an enrollment that was made at a time, as a delta that stands for one.
func enteredAt(t time.Time) (string, error) {
	h := hourly{}
	h.at(t).Entered = 1
	return toJSON(h)
}

// delta is a part of a row of statistic_deltas.
type delta struct {
	N    int    `json:"n"`
	Each hourly `json:"d"`
}

// tallies are what one transaction changes in the counts of journey versions.
type tallies map[versionKey]hourly

func (t tallies) of(journeyID string, version int) hourly {
	key := versionKey{journeyID, version}
	h := t[key]
	if h == nil {
		h = hourly{}
		t[key] = h
	}
	return h
}

// place is where an enrollment stands, or has stood last; a node without an id is nowhere.
type place struct {
	version int
	node    string
}

// walk counts what entries of a timeline tell, in their order, so many times. at is where the
// enrollment stood before them. A node is entered when its first entry comes, or when an
// entry says that it comes next; another entry of a node where the enrollment stands is none
// of another visit. Leaving a journey enters no node.
func (t tallies) walk(journeyID string, at place, entries []waypost.TimelineEntry, times int) {
	for _, e := range entries {
		if e.NodeID == "" {
			continue
		}
		counts := t.of(journeyID, e.Version).at(e.At)
		n := counts.Node(e.NodeID)
		if here := (place{e.Version, e.NodeID}); here != at && e.What != waypost.WhatExited {
			n.Entered += times
			at = here
		}
		switch e.What {
		case waypost.WhatSent:
			n.Delivered += times
		case waypost.WhatFailed:
			n.Failed += times
		case waypost.WhatSkipped:
			n.Skip(e.Reason, times)
		}
		if e.Way != "" {
			n.Took(waypost.Edge{Way: e.Way, Next: e.Next}, times)
		}
		if e.Next != "" {
			counts.Node(e.Next).Entered += times
			at = place{e.Version, e.Next}
		}
	}
}

// stand counts where an enrollment stands, if it does, so many times.
func (t tallies) stand(e enrollmentState, at time.Time, times int) {
	if e.Test || e.nowhere() {
		return
	}
	switch n := t.of(e.JourneyID, e.Version).at(at).Node(e.NodeID); {
	case e.Status == waypost.EnrollmentWaiting:
		n.Waiting += times
	case e.Deferred:
		n.Deferred += times
	default:
		n.Running += times
	}
}

// nowhere tells whether the enrollment stands at no node: it has ended, or nothing is
// recorded of it in its version.
func (e enrollmentState) nowhere() bool {
	return !e.EndedAt.IsZero() || e.NodeID == "" || e.Status != waypost.EnrollmentWaiting && e.Status != waypost.EnrollmentRunning
}

// moveTo counts that an enrollment, of which before is recorded, stands as m says from now on,
// or has ended.
func (t tallies) moveTo(before enrollmentState, m move, at time.Time) {
	if before.Test {
		return
	}
	t.stand(before, at, -1)
	if m.Status.Ended() {
		t.of(before.JourneyID, before.Version).at(at).End(m.Status, 1)
		return
	}
	after := before
	after.Status, after.NodeID, after.Deferred = m.Status, m.NodeID, m.deferred
	t.stand(after, at, 1)
}

// endAll counts enrollments that end early with a status, and were recorded as before.
func (t tallies) endAll(rows []enrollmentRow, status waypost.EnrollmentStatus, at time.Time) {
	for _, row := range rows {
		if row.Test {
			continue
		}
		end := at
		if row.CreatedAt.After(end) {
			end = row.CreatedAt.Time
		}
		t.stand(row.state(), end, -1)
		t.of(row.JourneyID, row.Version).at(end).End(status, 1)
	}
}

var insertDelta = bulk{table: "statistic_deltas", columns: []string{"journey_id text", "version bigint", "counts text"}}

// insertDeltas is the part of a statement of PostgreSQL that adds deltas. from selects
// journey_id, version and delta, the text of an hourly, which each of its rows stands for.
func insertDeltas(from string) string {
	return `(INSERT INTO statistic_deltas (journey_id, version, counts)
		SELECT journey_id, version, '[' || string_agg('{"n":' || n || ',"d":' || delta || '}', ',') || ']'
		FROM (SELECT journey_id, version, delta, count(*) AS n FROM (` + from + `) AS each GROUP BY journey_id, version, delta) AS grouped
		GROUP BY journey_id, version)`
}

// count adds what a transaction has changed.
func (s *statistics) count(ctx context.Context, tx bun.Tx, t tallies) error {
	type row struct {
		versionKey
		counts string
	}
	var rows []row
	for key, h := range t {
		if len(h.trim()) == 0 {
			continue
		}
		counts, err := toJSON([]delta{{1, h}})
		if err != nil {
			return err
		}
		rows = append(rows, row{key, counts})
	}
	return insertDelta.run(ctx, s.db, tx, len(rows), func(i int) []any {
		return []any{rows[i].JourneyID, rows[i].Version, rows[i].counts}
	}, nil)
}

// testLeads returns those of the leads of a scope that are test leads. An index has these alone.
func (s *statistics) testLeads(ctx context.Context, db bun.IDB, sc waypost.Scope, leads []int64) (map[int64]bool, error) {
	tests := map[int64]bool{}
	if len(leads) == 0 {
		return tests, nil
	}
	var found []int64
	q := s.leads.leadFilter(db.NewSelect().Model((*leadRow)(nil)).Column("leads_id"), sc, waypost.LeadFilter{Test: new(true)}).
		Where("l.leads_id BETWEEN ? AND ?", slices.Min(leads), slices.Max(leads))
	s.indexedBy(q, "leads AS l", leadsByTest)
	if err := q.Scan(ctx, &found); err != nil {
		return nil, fmt.Errorf("look for test leads: %w", err)
	}
	for _, lead := range found {
		tests[lead] = true
	}
	return tests, nil
}

// countEntered counts enrollments that were made at a time, some of them held out. Those of test
// leads do not count.
func (s *statistics) countEntered(ctx context.Context, tx bun.Tx, at time.Time, rows ...enrollmentRow) error {
	t := tallies{}
	for _, row := range rows {
		if row.Test {
			continue
		}
		row.countIn(t.of(row.JourneyID, row.Version).at(at))
	}
	return s.count(ctx, tx, t)
}

// countIn counts that an enrollment was made.
func (r enrollmentRow) countIn(c *waypost.Counts) {
	if r.heldOut() {
		c.HeldOut++
	} else {
		c.Entered++
	}
	if r.GoalVersion > 0 {
		r.goalOf(c).Enrollments++
		r.countLead(c, waypost.GoalSum{Leads: 1})
	}
}

// allTime is the span of a statisticRow that has everything.
const allTime = "all"

// statisticRow has the counts of a journey version within a span of time.
type statisticRow struct {
	bun.BaseModel `bun:"table:statistics,alias:st"`

	JourneyID string `bun:"journey_id,pk"`
	Span      string `bun:"span,pk"`
	From      int64  `bun:"from_at,pk"`
	Version   int    `bun:"version,pk"`
	Counts    string `bun:"counts"`
}

// statisticKey is the key of a statisticRow.
type statisticKey struct {
	JourneyID string `bun:"journey_id,type:text"`
	Span      string `bun:"span,type:text"`
	From      int64  `bun:"from_at,type:bigint"`
	Version   int    `bun:"version,type:bigint"`
}

func (r statisticRow) key() statisticKey { return statisticKey{r.JourneyID, r.Span, r.From, r.Version} }

func (k statisticKey) compare(other statisticKey) int {
	return cmp.Or(cmp.Compare(k.JourneyID, other.JourneyID), cmp.Compare(k.Span, other.Span), cmp.Compare(k.From, other.From), cmp.Compare(k.Version, other.Version))
}

// deltaRow is a row of statistic_deltas.
type deltaRow struct {
	bun.BaseModel `bun:"table:statistic_deltas,alias:sd"`

	ID        int64  `bun:"id,pk"`
	JourneyID string `bun:"journey_id"`
	Version   int    `bun:"version"`
	Counts    string `bun:"counts"`
}

// FoldStatistics adds up to limit of the deltas that were recorded to the statistics they
// belong to. more tells that there may be others. Several processes can do it at once.
func (s *statistics) FoldStatistics(ctx context.Context, limit int) (more bool, err error) {
	defer wrap(&err, "fold statistics")
	return foldRows(ctx, s.db, limit, s.foldDeltas)
}

// foldDeltas adds deltas to the rows of all time, of their days (UTC) and of their hours. Sums of goals are
// cut to what lies within each row's span.
func (s *statistics) foldDeltas(ctx context.Context, tx bun.Tx, deltas []deltaRow) error {
	changes := map[statisticKey]*waypost.Counts{}
	for _, row := range deltas {
		err := eachDelta(row.Counts, func(hour int64, c *waypost.Counts, times int) {
			at := time.Unix(hour*3600, 0).UTC()
			for span, from := range map[string]int64{
				allTime: 0, string(waypost.StatisticsDay): at.Truncate(24 * time.Hour).UnixMicro(), string(waypost.StatisticsHour): at.UnixMicro(),
			} {
				key := statisticKey{row.JourneyID, span, from, row.Version}
				if changes[key] == nil {
					changes[key] = &waypost.Counts{}
				}
				changes[key].Add(c, times)
			}
		})
		if err != nil {
			return fmt.Errorf("delta %d: %w", row.ID, err)
		}
	}
	for key, c := range changes {
		var every time.Duration
		if key.Span != allTime {
			every = waypost.StatisticsSpan(key.Span).Duration()
		}
		c.Within(every, time.UnixMicro(key.From))
	}
	return s.addStatistics(ctx, tx, changes)
}

// eachDelta calls add for each hour's counts of a row of statistic_deltas.
func eachDelta(counts string, add func(hour int64, c *waypost.Counts, times int)) error {
	var deltas []delta
	if err := fromJSON(counts, &deltas); err != nil {
		return err
	}
	for _, d := range deltas {
		for hour, c := range d.Each {
			add(hour, c, d.N)
		}
	}
	return nil
}

var (
	statisticColumns = []string{"journey_id text", "span text", "from_at bigint", "version bigint", "counts text"}
	makeStatistic    = bulk{table: "statistics", columns: statisticColumns, suffix: "ON CONFLICT DO NOTHING"}
	updateStatistic  = bulk{table: "statistics AS st", keys: 4, columns: statisticColumns}
)

// addStatistics adds changes to their rows, which are locked in the order of their keys.
func (s *statistics) addStatistics(ctx context.Context, tx bun.Tx, changes map[statisticKey]*waypost.Counts) error {
	keys := slices.SortedFunc(maps.Keys(changes), statisticKey.compare)
	write := func(b *bulk, counts func(statisticKey) string) error {
		return b.run(ctx, s.db, tx, len(keys), func(i int) []any {
			k := keys[i]
			return []any{k.JourneyID, k.Span, k.From, k.Version, counts(k)}
		}, nil)
	}
	if err := write(&makeStatistic, func(statisticKey) string { return "" }); err != nil {
		return err
	}
	var rows []statisticRow
	q := tx.NewSelect().With("u", tx.NewValues(&keys)).Model(&rows).ColumnExpr("?TableColumns").TableExpr("u").
		Where("st.journey_id = u.journey_id AND st.span = u.span AND st.from_at = u.from_at AND st.version = u.version").
		Order("st.journey_id", "st.span", "st.from_at", "st.version")
	if err := s.lock(q, "st").Scan(ctx); err != nil {
		return err
	}
	written := make(map[statisticKey]string, len(rows))
	for _, row := range rows {
		var total waypost.Counts
		if err := fromJSON(row.Counts, &total); err != nil {
			return fmt.Errorf("statistics of journey %s: %w", row.JourneyID, err)
		}
		total.Add(changes[row.key()], 1)
		total.Trim()
		var err error
		if written[row.key()], err = toJSON(total); err != nil {
			return err
		}
	}
	return write(&updateStatistic, func(k statisticKey) string { return written[k] })
}

// journeyHourPage lists hours of journeys that are over, oldest first, those of all versions
// as one.
func (s *statistics) journeyHourPage(p sweepPlace) *bun.SelectQuery {
	return s.r.NewSelect().Distinct().TableExpr("statistics").ColumnExpr("journey_id AS id, from_at AS number, TRUE AS is_over").
		Where("span = 'hour' AND (from_at, journey_id) > (?, ?) AND from_at < ?", p.Number, p.ID, p.before()).Order("from_at", "journey_id").Limit(s.sweepPage())
}

// dropJourneyHours drops what lies between the first of some hours and the last one: these are all.
func (s *statistics) dropJourneyHours(ctx context.Context, tx bun.Tx, _ sweepPlace, rows []sweepRow) (int, error) {
	first, last := rows[0], rows[len(rows)-1]
	return affected(tx.NewDelete().Model((*statisticRow)(nil)).
		Where("span = 'hour' AND (from_at, journey_id) >= (?, ?) AND (from_at, journey_id) <= (?, ?)", first.Number, first.ID, last.Number, last.ID).Exec(ctx))
}

// Statistics returns the statistics of a journey as they are at one moment, those of
// versions in which nothing was counted left out. The caller has checked that the journey is of
// its scope. Hours before waypost.HistoryAge are not kept, and so must not be asked for.
func (s *statistics) Statistics(ctx context.Context, q waypost.StatisticsQuery) (st waypost.Statistics, err error) {
	defer wrap(&err, "read the statistics of journey %s", clip(q.JourneyID))
	err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
		st, err = s.statisticsIn(ctx, tx, q, true)
		return err
	})
	return st, err
}

// statisticsIn is Statistics as a transaction sees them; without open, it leaves out what can still reach
// a goal.
func (s *statistics) statisticsIn(ctx context.Context, tx bun.Tx, q waypost.StatisticsQuery, open bool) (_ waypost.Statistics, err error) {
	r := statisticsReader{query: q, total: map[int]*waypost.Counts{}, later: map[int]*waypost.Counts{}}
	if open {
		if r.windows, err = s.openWindows(ctx, tx, q); err != nil {
			return waypost.Statistics{}, err
		}
	}
	if q.Span != "" {
		r.points = make([]map[int]*waypost.Counts, q.To.Sub(q.From)/q.Span.Duration())
	}
	// One statement sees a delta before it is folded or after, never both or neither.
	const columns = "SELECT span, from_at, version, counts FROM statistics WHERE journey_id = ? AND "
	text := columns + "span = 'all' UNION ALL SELECT '', 0, version, counts FROM statistic_deltas WHERE journey_id = ?"
	args := []any{q.JourneyID, q.JourneyID}
	if q.Span != "" {
		// What came later is taken from where enrollments stand now. Days are fewer than hours.
		day := q.To.Add(24*time.Hour - 1).Truncate(24 * time.Hour)
		text += " UNION ALL " + columns + "span = ? AND from_at >= ? AND from_at < ? UNION ALL " + columns + "span = 'day' AND from_at >= ?"
		args = append(args, q.JourneyID, string(q.Span), stamp{q.From}, stamp{day}, q.JourneyID, stamp{day})
	}
	for _, w := range r.windows {
		text += " UNION ALL SELECT 'open', from_at, version, counts FROM statistics WHERE journey_id = ? AND version IN (?)" +
			" AND (span = 'hour' AND from_at >= ? AND from_at < ? OR span = 'day' AND from_at >= ?)"
		args = append(args, q.JourneyID, bun.List(w.versions), stamp{w.hour}, stamp{w.day}, stamp{w.day})
	}
	rows, err := tx.QueryContext(ctx, text, args...)
	if err != nil {
		return waypost.Statistics{}, err
	}
	err = scanAll(rows, func(rows *sql.Rows) error {
		var row statisticRow
		if err := rows.Scan(&row.Span, &row.From, &row.Version, &row.Counts); err != nil {
			return err
		}
		return r.take(row)
	})
	for _, w := range r.windows {
		if err == nil {
			err = s.openSince(ctx, tx, w, &r)
		}
	}
	return r.statistics(), err
}

// openWindow is when enrollments of versions began that can still reach their goal.
type openWindow struct {
	since     time.Time
	hour, day time.Time // the first ones that begin within it
	versions  []int
}

// openWindows are those of the versions that are asked for.
func (s *statistics) openWindows(ctx context.Context, tx bun.Tx, q waypost.StatisticsQuery) (list []openWindow, err error) {
	var goals []journeyGoalRow
	query := tx.NewSelect().Model(&goals).Column("version", "within_ms").Where("journey_id = ?", cleanText(q.JourneyID)).Order("within_ms", "version")
	if q.Version != 0 {
		query.Where("version = ?", q.Version)
	}
	if err := query.Scan(ctx); err != nil {
		return nil, fmt.Errorf("read goals: %w", err)
	}
	for i, g := range goals {
		if i == 0 || g.WithinMs != goals[i-1].WithinMs {
			w := openWindow{since: s.time().Add(-time.Duration(g.WithinMs) * time.Millisecond)}
			w.hour = w.since.Add(time.Hour - time.Microsecond).Truncate(time.Hour)
			w.day = w.since.Add(24*time.Hour - time.Microsecond).Truncate(24 * time.Hour)
			list = append(list, w)
		}
		last := &list[len(list)-1]
		last.versions = append(last.versions, g.Version)
	}
	return list, nil
}

// openSince takes what is open of the hour in which a window begins: the enrollments are read.
func (s *statistics) openSince(ctx context.Context, tx bun.Tx, w openWindow, r *statisticsReader) error {
	type openRow struct {
		Version int    `bun:"version"`
		HeldOut bool   `bun:"held_out"`
		Hour    int64  `bun:"hour"` // of the entry before
		NodeID  string `bun:"node_id"`
		Arm     int    `bun:"arm"`
		N       int    `bun:"n"`
	}
	read := func(version, node, arm, join string) error {
		var rows []openRow
		err := tx.NewSelect().TableExpr("enrollments AS e").
			ColumnExpr(version+" AS version, e.status = ? AS held_out, COALESCE(e.before_at / 3600000000, -1) AS hour, "+node+" AS node_id, "+arm+" AS arm, count(*) AS n", waypost.EnrollmentHeldOut).
			Join(join).Join("LEFT JOIN conversions AS cv ON cv.enrollment_id = e.id").
			// An id is minted in the second in which the enrollment is made.
			Where("e.id >= ? AND e.id < ?", waypost.FirstID(waypost.PrefixEnrollment, w.since.Add(-time.Minute)), waypost.FirstID(waypost.PrefixEnrollment, w.hour.Add(time.Minute))).
			Where("e.created_at >= ? AND e.created_at < ?", stamp{w.since}, stamp{w.hour}).
			Where("e.journey_id = ? AND e.goal_version IN (?) AND cv.enrollment_id IS NULL", r.query.JourneyID, bun.List(w.versions)).
			GroupExpr("1, 2, 3, 4, 5").Scan(ctx, &rows)
		for _, row := range rows {
			var c waypost.Counts
			t := &c.Goal
			switch {
			case row.NodeID != "":
				t = c.Node(row.NodeID).Arm(row.Arm)
			case row.HeldOut:
				t = &c.Control
			}
			var before time.Time
			if row.Hour >= 0 {
				before = time.Unix(row.Hour*3600, 0)
			}
			t.Of(before).Open = row.N
			r.open(w.hour.Add(-time.Hour), row.Version, &c, 1)
		}
		return wrapped(err, "count enrollments that can still convert")
	}
	if !w.since.Before(w.hour) {
		return nil
	}
	if err := read("e.goal_version", "''", "0", ""); err != nil {
		return err
	}
	return read("sa.version", "sa.node_id", "sa.arm", "JOIN split_arms AS sa ON sa.enrollment_id = e.id AND sa.counts")
}

// statisticsReader puts together what the rows of a journey say.
type statisticsReader struct {
	query   waypost.StatisticsQuery
	windows []openWindow
	total   map[int]*waypost.Counts
	points  []map[int]*waypost.Counts // what changed within each
	later   map[int]*waypost.Counts   // what changed after them
}

// take adds a row to the result: a delta that is not folded yet (Span ""), or a folded row.
func (r *statisticsReader) take(row statisticRow) error {
	if r.query.Version != 0 && row.Version != r.query.Version {
		return nil
	}
	if row.Span == "" {
		return eachDelta(row.Counts, func(hour int64, c *waypost.Counts, times int) {
			at := time.Unix(hour*3600, 0)
			countsOf(r.total, row.Version).Add(c, times)
			r.change(at, row.Version, c, times)
			if w := r.window(row.Version); w != nil && !at.Before(w.hour) {
				r.open(at, row.Version, c.Open(), times)
			}
		})
	}
	var c waypost.Counts
	if err := fromJSON(row.Counts, &c); err != nil {
		return err
	}
	switch row.Span {
	case allTime:
		countsOf(r.total, row.Version).Add(&c, 1)
	case "open":
		r.open(time.UnixMicro(row.From), row.Version, c.Open(), 1)
	default:
		r.change(time.UnixMicro(row.From), row.Version, &c, 1)
	}
	return nil
}

// window is that of a version, nil without a goal.
func (r *statisticsReader) window(version int) *openWindow {
	for i := range r.windows {
		if slices.Contains(r.windows[i].versions, version) {
			return &r.windows[i]
		}
	}
	return nil
}

// open notes what is open of an hour or a day. An interval of the series that lies in the window
// as a whole tells it by itself, see statistics.
func (r *statisticsReader) open(at time.Time, version int, c *waypost.Counts, times int) {
	countsOf(r.total, version).Add(c, times)
	if r.query.Span == "" || at.Before(r.query.From) || !at.Before(r.query.To) {
		return
	}
	if i := int(at.Sub(r.query.From) / r.query.Span.Duration()); !r.whole(i, version) {
		r.change(at, version, c, times)
	}
}

// whole tells whether an interval lies in the window of a version.
func (r *statisticsReader) whole(i, version int) bool {
	w := r.window(version)
	return w != nil && !r.from(i).Before(w.hour)
}

// from is when an interval begins.
func (r *statisticsReader) from(i int) time.Time {
	return r.query.From.Add(time.Duration(i) * r.query.Span.Duration())
}

// change notes what changed in an interval that begins at a time.
func (r *statisticsReader) change(at time.Time, version int, c *waypost.Counts, times int) {
	switch q := r.query; {
	case q.Span == "" || at.Before(q.From):
	case !at.Before(q.To):
		countsOf(r.later, version).Add(c, times)
	default:
		i := at.Sub(q.From) / q.Span.Duration()
		if r.points[i] == nil {
			r.points[i] = map[int]*waypost.Counts{}
		}
		countsOf(r.points[i], version).Add(c, times)
	}
}

// countsOf returns the counts of a version, which it makes if there are none.
func countsOf(m map[int]*waypost.Counts, version int) *waypost.Counts {
	if m[version] == nil {
		m[version] = &waypost.Counts{}
	}
	return m[version]
}

// statistics goes back from now: where enrollments stood at the end of an interval is where
// they stand at the end of the next one, without what changed within that.
func (r *statisticsReader) statistics() waypost.Statistics {
	st := waypost.Statistics{Versions: trimmed(r.total)}
	if r.query.Span == "" {
		return st
	}
	st.Series = make([]waypost.StatisticsPoint, len(r.points))
	standing := map[int]*waypost.Counts{}
	for version, c := range r.total {
		countsOf(standing, version).AddStanding(c, 1)
	}
	back := func(changes map[int]*waypost.Counts) {
		for version, c := range changes {
			countsOf(standing, version).AddStanding(c, -1)
		}
	}
	back(r.later)
	for i := len(r.points) - 1; i >= 0; i-- {
		point := waypost.StatisticsPoint{From: r.from(i), Versions: map[int]*waypost.Counts{}}
		for version, c := range standing {
			countsOf(point.Versions, version).AddStanding(c, 1)
		}
		for version, c := range r.points[i] {
			countsOf(point.Versions, version).AddFlows(c, 1)
			if r.whole(i, version) {
				countsOf(point.Versions, version).AddFlows(c.Open(), 1)
			}
		}
		point.Versions = trimmed(point.Versions)
		st.Series[i] = point
		back(r.points[i])
	}
	return st
}

func trimmed(m map[int]*waypost.Counts) map[int]*waypost.Counts {
	maps.DeleteFunc(m, func(_ int, c *waypost.Counts) bool { return !c.Trim() })
	return m
}
