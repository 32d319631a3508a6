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

// moveEnrollment writes where an enrollment stands. The entries of the timeline
// that are recorded when it ends go with it, which spares them a row. An order to move
// it to another version was for where it stood before.
var moveEnrollment = bulk{
	table: "enrollments AS e",
	keys:  1,
	columns: []string{
		"id text", "status text", "node_id text", "last_seq bigint", "deferred boolean", "ended_at bigint", "end_seq bigint", "end_entries text",
	},
	set: "move = NULL",
}

// freeEntry takes enrollments that ended from the entry's active ones. Under the
// policy "always" two calls may free the same ones.
var freeEntry = bulk{
	table:   "journey_entries AS je",
	keys:    3,
	columns: []string{"journey_id text", "leads_id bigint", "entry_key text", "active bigint"},
	exprs:   map[string]string{"active": "je.active - $"},
	ordered: true,
}

// journeyEntry is the key of an entryRow.
type journeyEntry struct {
	JourneyID string
	LeadsID   int64
	EntryKey  string
}

// RecordProgress writes down how far enrollments got, all in one transaction.
// Recording the same again changes nothing: an entry is known by its Seq, and a
// status with a LastSeq that is not above the recorded one is ignored. An
// enrollment that ended stays ended, and frees its re-entry. An enrollment that
// is not there (any more) is passed over.
func (s *progress) RecordProgress(ctx context.Context, progress []waypost.Progress) (err error) {
	defer wrap(&err, "record progress")
	if len(progress) == 0 {
		return nil
	}
	return s.writeRows(ctx, len(progress), func(ctx context.Context, tx bun.Tx) error { return s.recordProgress(ctx, tx, progress) })
}

func (s *progress) recordProgress(ctx context.Context, tx bun.Tx, progress []waypost.Progress) error {
	enrollments, err := s.lockEnrollments(ctx, tx, mapped(progress, func(p waypost.Progress) string { return p.EnrollmentID }))
	if err != nil {
		return err
	}
	return s.moveEnrollments(ctx, tx, progress, enrollments)
}

// enrollmentState is what moving an enrollment depends on.
type enrollmentState struct {
	ID        string
	JourneyID string
	LeadsID   int64
	EntryKey  string
	Version   int
	Status    waypost.EnrollmentStatus
	NodeID    string
	LastSeq   int
	Deferred  bool // its last entry is a deferral
	EndedAt   stamp
	Test      bool // of a test lead: no statistics count it
}

// left tells whether the enrollment was canceled or exited: nothing more is sent.
func (e enrollmentState) left() bool {
	return e.Status == waypost.EnrollmentCanceled || e.Status == waypost.EnrollmentExited
}

// enrollmentsOf returns whose touchpoints these are.
func enrollmentsOf(keys []waypost.Touchpoint) []string {
	return mapped(keys, func(key waypost.Touchpoint) string { return key.EnrollmentID })
}

// lockEnrollments reads enrollments and keeps other transactions from changing
// them. Those that are not there are missing in the answer.
func (s *progress) lockEnrollments(ctx context.Context, tx bun.Tx, ids []string) (map[string]enrollmentState, error) {
	ids = distinct(ids)
	states := make(map[string]enrollmentState, len(ids))
	if len(ids) == 0 {
		return states, nil
	}
	list, err := s.list(ids)
	if err != nil {
		return nil, err
	}
	const columns = "SELECT e.id, e.journey_id, e.leads_id, e.entry_key, e.version, e.status, e.node_id, e.last_seq, e.deferred, e.ended_at, e.test FROM "
	rows, err := s.query(ctx, &tx, s.in(dialects{
		postgres: columns + "enrollments AS e WHERE e.id = ANY ($1::text[]) ORDER BY e.id FOR NO KEY UPDATE",
		sqlite:   columns + "json_each(?) AS u CROSS JOIN enrollments AS e ON e.id = u.value",
	}), list)
	if err != nil {
		return nil, err
	}
	err = scanAll(rows, func(rows *sql.Rows) error {
		var e enrollmentState
		err := rows.Scan(&e.ID, &e.JourneyID, &e.LeadsID, &e.EntryKey, &e.Version, &e.Status, &e.NodeID, &e.LastSeq, &e.Deferred, &e.EndedAt, &e.Test)
		states[e.ID] = e
		return err
	})
	return states, err
}

// move is where progress leads, as the enrollment's row has it.
type move struct {
	waypost.Progress
	deferred   bool // its last entry is a deferral
	endedAt    stamp
	endSeq     *int64
	endEntries *string
}

// newMove is the move of progress with sorted entries, which are packed in rows, and those
// rows that are the timeline's.
func (s *progress) newMove(p waypost.Progress, entries []waypost.TimelineEntry, rows []timelineRow) (move, []timelineRow) {
	m := move{Progress: p, deferred: endsDeferred(entries)}
	if p.Status.Ended() {
		m.endedAt = s.endOf(p)
		if last := len(rows) - 1; last >= 0 {
			m.endSeq, m.endEntries, rows = &rows[last].Seq, &rows[last].Entries, rows[:last]
		}
	}
	return m, rows
}

// endsDeferred tells whether the last of the entries is a deferral.
func endsDeferred(entries []waypost.TimelineEntry) bool {
	return len(entries) > 0 && entries[len(entries)-1].What == waypost.WhatDeferred
}

// moveEnrollments records the progress of enrollments that are locked, and counts it.
func (s *progress) moveEnrollments(
	ctx context.Context, tx bun.Tx, progress []waypost.Progress, enrollments map[string]enrollmentState,
) error {
	latest := make(map[string]waypost.Progress, len(progress))
	entries := make(map[string][]waypost.TimelineEntry, len(progress))
	for _, p := range progress {
		if _, known := enrollments[p.EnrollmentID]; !known {
			continue
		}
		if known, ok := latest[p.EnrollmentID]; !ok || p.LastSeq > known.LastSeq {
			latest[p.EnrollmentID] = p
		}
		entries[p.EnrollmentID] = append(entries[p.EnrollmentID], p.Entries...)
	}
	run := moving{tallies: tallies{}}
	var timeline []timelineRow
	for id, p := range latest {
		sorted, rows, err := s.timelineRows(id, entries[id])
		if err != nil {
			return err
		}
		timeline = append(timeline, s.moveOne(&run, enrollments[id], p, sorted, rows)...)
	}
	if err := s.recount(ctx, tx, run, enrollments, -1); err != nil {
		return err
	}
	if err := s.insertTimeline(ctx, tx, timeline, enrollments); err != nil {
		return err
	}
	slices.SortFunc(run.moves, func(a, b move) int { return cmp.Compare(a.EnrollmentID, b.EnrollmentID) })
	err := moveEnrollment.run(ctx, s.db, tx, len(run.moves), func(i int) []any {
		m := &run.moves[i]
		return []any{m.EnrollmentID, string(m.Status), m.NodeID, m.LastSeq, m.deferred, m.endedAt, m.endSeq, m.endEntries}
	}, nil)
	if err != nil {
		return err
	}
	if err := s.recount(ctx, tx, run, enrollments, 1); err != nil {
		return err
	}
	if err := s.statistics.count(ctx, tx, run.tallies); err != nil {
		return err
	}
	ended, ends := endsOf(run.moves, enrollments)
	if err := s.announcements.announceEnds(ctx, tx, ended); err != nil {
		return err
	}
	return s.freeEntries(ctx, tx, ends)
}

// moving is what progress changes.
type moving struct {
	moves   []move
	tallies tallies
	// recounted are enrollments whose whole timelines are counted, as they were and as they
	// will be: some entries were recorded before, or replace others.
	recounted []string
}

// moveOne adds what the progress of an enrollment changes, and returns the timeline's rows of it.
func (s *progress) moveOne(
	run *moving, e enrollmentState, p waypost.Progress, entries []waypost.TimelineEntry, rows []timelineRow,
) []timelineRow {
	// A deferral whose record no workflow has seen is replaced.
	replaces := p.LastSeq == e.LastSeq && e.Deferred && len(entries) > 0 && !endsDeferred(entries)
	moves := e.EndedAt.IsZero() && (p.LastSeq > e.LastSeq || replaces)
	switch {
	case e.Test:
	case moves && p.LastSeq > e.LastSeq && follow(e.LastSeq, entries, p.LastSeq):
		run.tallies.walk(e.JourneyID, e.place(), inVersion(entries, e.Version), 1)
	case len(entries) > 0:
		run.recounted = append(run.recounted, e.ID)
	}
	if !moves {
		return rows
	}
	m, rows := s.newMove(p, entries, rows)
	run.moves = append(run.moves, m)
	run.tallies.moveTo(e, m, s.endOf(p).Time)
	return rows
}

// follow tells whether entries are all that there are after one, up to another one.
func follow(after int, entries []waypost.TimelineEntry, last int) bool {
	for i, e := range entries {
		if e.Seq != after+1+i {
			return false
		}
	}
	return after+len(entries) == last
}

// inVersion gives entries the version that they are recorded with.
func inVersion(entries []waypost.TimelineEntry, version int) []waypost.TimelineEntry {
	for i := range entries {
		entries[i].Version = version
	}
	return entries
}

// place is where the enrollment's timeline has got to, as far as it is of its version.
func (e enrollmentState) place() place {
	if e.Status == waypost.EnrollmentPending {
		return place{}
	}
	return place{e.Version, e.NodeID}
}

// recount counts the whole timelines of the enrollments that need it, so many times.
func (s *progress) recount(ctx context.Context, tx bun.Tx, run moving, enrollments map[string]enrollmentState, times int) error {
	timelines, err := s.timelinesOf(ctx, tx, run.recounted)
	for id, entries := range timelines {
		run.tallies.walk(enrollments[id].JourneyID, place{}, entries, times)
	}
	return err
}

// endsOf returns the enrollments that the moves end, and how many of each entry they are.
func endsOf(moves []move, enrollments map[string]enrollmentState) (ids []string, ends map[journeyEntry]int) {
	ends = map[journeyEntry]int{}
	for _, m := range moves {
		if m.Status.Ended() {
			ids = append(ids, m.EnrollmentID)
			e := enrollments[m.EnrollmentID]
			ends[journeyEntry{e.JourneyID, e.LeadsID, e.EntryKey}]++
		}
	}
	return ids, ends
}

// endOf dates the end of an enrollment by its last entry.
func (s *progress) endOf(p waypost.Progress) stamp {
	end := stamp{s.time()}
	if len(p.Entries) > 0 {
		if at := slices.MaxFunc(p.Entries, func(a, b waypost.TimelineEntry) int { return cmp.Compare(a.Seq, b.Seq) }).At; !at.IsZero() {
			end = stamp{at}
		}
	}
	return end
}

// freeEntries takes the enrollments that ended, so many of each entry, from the active ones.
func (s *progress) freeEntries(ctx context.Context, tx bun.Tx, ended map[journeyEntry]int) error {
	entries := slices.SortedFunc(maps.Keys(ended), func(a, b journeyEntry) int {
		return cmp.Or(cmp.Compare(a.JourneyID, b.JourneyID), cmp.Compare(a.LeadsID, b.LeadsID), cmp.Compare(a.EntryKey, b.EntryKey))
	})
	return freeEntry.run(ctx, s.db, tx, len(entries), func(i int) []any {
		e := entries[i]
		return []any{e.JourneyID, e.LeadsID, e.EntryKey, ended[e]}
	}, nil)
}

// timelineRow holds entries that were recorded together and follow one another: a
// row of the timeline, or, of those that were recorded when it ended, columns of
// the enrollment. An entry can stand in several of them.
type timelineRow struct {
	EnrollmentID string
	Seq          int64 // of the first entry
	LastSeq      int64
	Entries      string // timelineEntry values as JSON
}

type timelineEntry struct {
	At     int64  `json:"t"` // microseconds since 1970
	NodeID string `json:"n,omitzero"`
	What   string `json:"w"`
	Next   string `json:"x,omitzero"`
	Way    string `json:"y,omitzero"`
	Reason string `json:"r,omitzero"`
}

// timelineRows packs entries of one enrollment, given in any order, and returns them as they
// are stored, too. The list that it is given is changed.
func (s *progress) timelineRows(
	enrollmentID string, entries []waypost.TimelineEntry,
) (sorted []waypost.TimelineEntry, rows []timelineRow, err error) {
	slices.SortStableFunc(entries, bySeq)
	entries = slices.CompactFunc(entries, sameSeq)
	for i := range entries {
		e := &entries[i]
		if e.At.IsZero() {
			e.At = s.time()
		}
		e.NodeID, e.Next, e.Way, e.Reason = cleanText(e.NodeID), cleanText(e.Next), cleanText(e.Way), cleanText(e.Reason)
	}
	for from := 0; from < len(entries); {
		row := timelineRow{EnrollmentID: enrollmentID, Seq: int64(entries[from].Seq)}
		var packed []timelineEntry
		for ; from < len(entries) && int64(entries[from].Seq) == row.Seq+int64(len(packed)); from++ {
			e := entries[from]
			packed = append(packed, timelineEntry{At: e.At.UnixMicro(), NodeID: e.NodeID, What: e.What, Next: e.Next, Way: e.Way, Reason: e.Reason})
		}
		row.LastSeq = row.Seq + int64(len(packed)) - 1
		text, err := toJSON(packed)
		if err != nil {
			return nil, nil, err
		}
		row.Entries = text
		rows = append(rows, row)
	}
	return entries, rows, nil
}

// bySeq is the order of a timeline. Of two entries of the same Seq one is a deferral whose record
// no workflow has seen: it is replaced.
func bySeq(a, b waypost.TimelineEntry) int {
	late := func(e waypost.TimelineEntry) int {
		if e.What == waypost.WhatDeferred {
			return 1
		}
		return 0
	}
	return cmp.Or(cmp.Compare(a.Seq, b.Seq), cmp.Compare(late(a), late(b)))
}

func sameSeq(a, b waypost.TimelineEntry) bool { return a.Seq == b.Seq }

var insertTimelineRow = bulk{
	table:   "timeline AS t",
	columns: []string{"enrollment_id text", "seq bigint", "last_seq bigint", "version bigint", "entries text"},
	// Recorded again, an entry is the same, and a longer row holds what the shorter did;
	// but a deferral whose record no workflow has seen was replaced by what was recorded after it.
	suffix: `ON CONFLICT (enrollment_id, seq) DO UPDATE SET last_seq = EXCLUDED.last_seq, entries = EXCLUDED.entries
		WHERE EXCLUDED.last_seq >= t.last_seq`,
}

func (s *progress) insertTimeline(ctx context.Context, tx bun.Tx, rows []timelineRow, enrollments map[string]enrollmentState) error {
	slices.SortFunc(rows, func(a, b timelineRow) int {
		return cmp.Or(cmp.Compare(a.EnrollmentID, b.EnrollmentID), cmp.Compare(a.Seq, b.Seq))
	})
	return insertTimelineRow.run(ctx, s.db, tx, len(rows), func(i int) []any {
		r := &rows[i]
		return []any{r.EnrollmentID, r.Seq, r.LastSeq, enrollments[r.EnrollmentID].Version, r.Entries}
	}, nil)
}

// timelineOf returns the timeline of an enrollment, in order.
func (s *progress) timelineOf(ctx context.Context, db bun.IDB, enrollmentID string) ([]waypost.TimelineEntry, error) {
	timelines, err := s.timelinesOf(ctx, db, []string{enrollmentID})
	return timelines[enrollmentID], err
}

// timelinePart is a row of a timeline, or what stands in the enrollment's row.
type timelinePart struct {
	EnrollmentID string `bun:"enrollment_id"`
	Seq          int64  `bun:"seq"`
	Version      int    `bun:"version"`
	Entries      string `bun:"entries"`
	AtEnd        bool   `bun:"at_end"`
}

// compare orders parts of one timeline: of entries that stand twice those of the end count.
func (p timelinePart) compare(other timelinePart) int {
	if p.AtEnd != other.AtEnd {
		if p.AtEnd {
			return -1
		}
		return 1
	}
	return cmp.Compare(p.Seq, other.Seq)
}

// timelinesOf returns the timelines of enrollments, each in order.
func (s *progress) timelinesOf(ctx context.Context, db bun.IDB, ids []string) (map[string][]waypost.TimelineEntry, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var parts []timelinePart
	err := db.NewRaw(`SELECT id AS enrollment_id, end_seq AS seq, version, end_entries AS entries, TRUE AS at_end FROM enrollments
			WHERE id IN (?) AND end_seq IS NOT NULL
		UNION ALL SELECT enrollment_id, seq, version, entries, FALSE AS at_end FROM timeline WHERE enrollment_id IN (?)`,
		bun.List(ids), bun.List(ids)).Scan(ctx, &parts)
	if err != nil {
		return nil, fmt.Errorf("load timelines: %w", err)
	}
	slices.SortStableFunc(parts, timelinePart.compare)
	timelines := make(map[string][]waypost.TimelineEntry, len(ids))
	for _, part := range parts {
		var entries []timelineEntry
		if err := fromJSON(part.Entries, &entries); err != nil {
			return nil, fmt.Errorf("load timelines: %w", err)
		}
		for i, e := range entries {
			timelines[part.EnrollmentID] = append(timelines[part.EnrollmentID], waypost.TimelineEntry{
				Seq: int(part.Seq) + i, At: time.UnixMicro(e.At).UTC(), NodeID: e.NodeID, What: e.What, Next: e.Next, Way: e.Way, Reason: e.Reason, Version: part.Version,
			})
		}
	}
	for id, timeline := range timelines {
		slices.SortStableFunc(timeline, bySeq)
		timelines[id] = slices.CompactFunc(timeline, sameSeq)
	}
	return timelines, nil
}
