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
		"id text", "status text", "node_id text", "last_seq bigint", "ended_at bigint", "end_seq bigint", "end_entries text",
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

// entry is the key of an entryRow.
type entry struct {
	JourneyID string
	LeadsID   int64
	EntryKey  string
}

// RecordProgress writes down how far enrollments got, all in one transaction.
// Recording the same again changes nothing: an entry is told by its Seq, and a
// status with a LastSeq that is not above the recorded one is ignored. An
// enrollment that ended stays ended, and frees its re-entry. An enrollment that
// is not there (any more) is passed over.
func (s *Store) RecordProgress(ctx context.Context, progress []waypost.Progress) (err error) {
	defer wrap(&err, "record progress")
	if len(progress) == 0 {
		return nil
	}
	return s.writeRows(ctx, len(progress), func(ctx context.Context, tx bun.Tx) error { return s.recordProgress(ctx, tx, progress) })
}

func (s *Store) recordProgress(ctx context.Context, tx bun.Tx, progress []waypost.Progress) error {
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
	LastSeq   int
	EndedAt   stamp
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
func (s *Store) lockEnrollments(ctx context.Context, tx bun.Tx, ids []string) (map[string]enrollmentState, error) {
	ids = distinct(ids)
	states := make(map[string]enrollmentState, len(ids))
	if len(ids) == 0 {
		return states, nil
	}
	list, err := s.list(ids)
	if err != nil {
		return nil, err
	}
	const columns = "SELECT e.id, e.journey_id, e.leads_id, e.entry_key, e.version, e.status, e.last_seq, e.ended_at FROM "
	rows, err := s.query(ctx, &tx, s.in(dialects{
		postgres: columns + "enrollments AS e WHERE e.id = ANY ($1::text[]) ORDER BY e.id FOR NO KEY UPDATE",
		sqlite:   columns + "json_each(?) AS u CROSS JOIN enrollments AS e ON e.id = u.value",
	}), list)
	if err != nil {
		return nil, err
	}
	err = scanAll(rows, func(rows *sql.Rows) error {
		var e enrollmentState
		err := rows.Scan(&e.ID, &e.JourneyID, &e.LeadsID, &e.EntryKey, &e.Version, &e.Status, &e.LastSeq, &e.EndedAt)
		states[e.ID] = e
		return err
	})
	return states, err
}

// move is where progress leads, as the enrollment's row has it.
type move struct {
	waypost.Progress
	endedAt    stamp
	endSeq     *int64
	endEntries *string
}

// newMove is the move of progress whose entries are packed in rows, and those rows that
// are the timeline's.
func (s *Store) newMove(p waypost.Progress, rows []timelineRow) (move, []timelineRow) {
	m := move{Progress: p}
	if p.Status.Ended() {
		m.endedAt = s.endOf(p)
		if last := len(rows) - 1; last >= 0 {
			m.endSeq, m.endEntries, rows = &rows[last].Seq, &rows[last].Entries, rows[:last]
		}
	}
	return m, rows
}

// moveEnrollments records the progress of enrollments that are locked.
func (s *Store) moveEnrollments(ctx context.Context, tx bun.Tx, progress []waypost.Progress, enrollments map[string]enrollmentState) error {
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
	moves := make([]move, 0, len(latest))
	ended := map[entry]int{}
	var timeline []timelineRow
	for id, p := range latest {
		rows, err := s.timelineRows(id, entries[id])
		if err != nil {
			return err
		}
		e := enrollments[id]
		if p.LastSeq > e.LastSeq && e.EndedAt.IsZero() {
			var m move
			m, rows = s.newMove(p, rows)
			if p.Status.Ended() {
				ended[entry{e.JourneyID, e.LeadsID, e.EntryKey}]++
			}
			moves = append(moves, m)
		}
		timeline = append(timeline, rows...)
	}
	if err := s.insertTimeline(ctx, tx, timeline, enrollments); err != nil {
		return err
	}
	slices.SortFunc(moves, func(a, b move) int { return cmp.Compare(a.EnrollmentID, b.EnrollmentID) })
	err := moveEnrollment.run(ctx, s, tx, len(moves), func(i int) []any {
		m := &moves[i]
		return []any{m.EnrollmentID, string(m.Status), m.NodeID, m.LastSeq, m.endedAt, m.endSeq, m.endEntries}
	}, nil)
	if err != nil {
		return err
	}
	return s.freeEntries(ctx, tx, ended)
}

// endOf dates the end of an enrollment by its last entry.
func (s *Store) endOf(p waypost.Progress) stamp {
	end := stamp{s.time()}
	if len(p.Entries) > 0 {
		if at := slices.MaxFunc(p.Entries, func(a, b waypost.TimelineEntry) int { return cmp.Compare(a.Seq, b.Seq) }).At; !at.IsZero() {
			end = stamp{at}
		}
	}
	return end
}

// freeEntries takes the enrollments that ended, so many of each entry, from the active ones.
func (s *Store) freeEntries(ctx context.Context, tx bun.Tx, ended map[entry]int) error {
	entries := slices.SortedFunc(maps.Keys(ended), func(a, b entry) int {
		return cmp.Or(cmp.Compare(a.JourneyID, b.JourneyID), cmp.Compare(a.LeadsID, b.LeadsID), cmp.Compare(a.EntryKey, b.EntryKey))
	})
	return freeEntry.run(ctx, s, tx, len(entries), func(i int) []any {
		e := entries[i]
		return []any{e.JourneyID, e.LeadsID, e.EntryKey, ended[e]}
	}, nil)
}

// timelineRow holds entries that were recorded together and follow one another: a
// row of the timeline, or, of those that were recorded when it ended, columns of
// the enrollment. An entry can stand in several of them.
type timelineRow struct {
	EnrollmentID string `bun:"-"`
	Seq          int64  `bun:"seq"` // of the first entry
	LastSeq      int64  `bun:"-"`
	Version      int    `bun:"version"`
	Entries      string `bun:"entries"` // timelineEntry values as JSON
}

type timelineEntry struct {
	At     int64  `json:"t"` // microseconds since 1970
	NodeID string `json:"n,omitzero"`
	What   string `json:"w"`
	Next   string `json:"x,omitzero"`
	Reason string `json:"r,omitzero"`
}

// timelineRows packs entries of one enrollment, given in any order.
func (s *Store) timelineRows(enrollmentID string, entries []waypost.TimelineEntry) ([]timelineRow, error) {
	slices.SortStableFunc(entries, func(a, b waypost.TimelineEntry) int { return cmp.Compare(a.Seq, b.Seq) })
	entries = slices.CompactFunc(entries, func(a, b waypost.TimelineEntry) bool { return a.Seq == b.Seq })
	var rows []timelineRow
	for from := 0; from < len(entries); {
		row := timelineRow{EnrollmentID: enrollmentID, Seq: int64(entries[from].Seq)}
		var packed []timelineEntry
		for ; from < len(entries) && int64(entries[from].Seq) == row.Seq+int64(len(packed)); from++ {
			e := entries[from]
			if e.At.IsZero() {
				e.At = s.time()
			}
			packed = append(packed, timelineEntry{
				At: e.At.UnixMicro(), NodeID: cleanText(e.NodeID), What: e.What, Next: cleanText(e.Next), Reason: cleanText(e.Reason),
			})
		}
		row.LastSeq = row.Seq + int64(len(packed)) - 1
		text, err := toJSON(packed)
		if err != nil {
			return nil, err
		}
		row.Entries = text
		rows = append(rows, row)
	}
	return rows, nil
}

var insertTimelineRow = bulk{
	table:   "timeline AS t",
	columns: []string{"enrollment_id text", "seq bigint", "last_seq bigint", "version bigint", "entries text"},
	// Recorded again, an entry is the same, and a longer row holds what the shorter did;
	// but a deferral that no workflow heard of has made way for what was recorded after it.
	suffix: `ON CONFLICT (enrollment_id, seq) DO UPDATE SET last_seq = EXCLUDED.last_seq, entries = EXCLUDED.entries
		WHERE EXCLUDED.last_seq >= t.last_seq`,
}

func (s *Store) insertTimeline(ctx context.Context, tx bun.Tx, rows []timelineRow, enrollments map[string]enrollmentState) error {
	slices.SortFunc(rows, func(a, b timelineRow) int {
		return cmp.Or(cmp.Compare(a.EnrollmentID, b.EnrollmentID), cmp.Compare(a.Seq, b.Seq))
	})
	return insertTimelineRow.run(ctx, s, tx, len(rows), func(i int) []any {
		r := &rows[i]
		return []any{r.EnrollmentID, r.Seq, r.LastSeq, enrollments[r.EnrollmentID].Version, r.Entries}
	}, nil)
}

// timelineOf returns the timeline of an enrollment, in order.
func (s *Store) timelineOf(ctx context.Context, db bun.IDB, enrollmentID string) ([]waypost.TimelineEntry, error) {
	var rows []timelineRow
	// Of entries that stand twice those of the end count, which come first.
	err := db.NewRaw(`SELECT end_seq AS seq, version, end_entries AS entries FROM enrollments WHERE id = ? AND end_seq IS NOT NULL
		UNION ALL SELECT seq, version, entries FROM timeline WHERE enrollment_id = ?`,
		enrollmentID, enrollmentID).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("load timeline: %w", err)
	}
	var timeline []waypost.TimelineEntry
	for _, row := range rows {
		var entries []timelineEntry
		if err := fromJSON(row.Entries, &entries); err != nil {
			return nil, fmt.Errorf("load timeline: %w", err)
		}
		for i, e := range entries {
			timeline = append(timeline, waypost.TimelineEntry{
				Seq: int(row.Seq) + i, At: time.UnixMicro(e.At).UTC(), NodeID: e.NodeID, What: e.What, Next: e.Next, Reason: e.Reason, Version: row.Version,
			})
		}
	}
	slices.SortStableFunc(timeline, func(a, b waypost.TimelineEntry) int { return cmp.Compare(a.Seq, b.Seq) })
	return slices.CompactFunc(timeline, func(a, b waypost.TimelineEntry) bool { return a.Seq == b.Seq }), nil
}
