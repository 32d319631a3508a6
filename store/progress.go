package store

import (
	"cmp"
	"context"
	"database/sql"
	"fmt"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// moveEnrollment writes where an enrollment stands.
var moveEnrollment = bulk{
	table:   "enrollments AS e",
	keys:    1,
	columns: []string{"id text", "status text", "node_id text", "last_seq bigint", "ended_at bigint"},
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

// endedRow counts the enrollments of one entry that end together.
type endedRow struct {
	JourneyID string
	LeadsID   int64
	EntryKey  string
	N         int
}

// RecordProgress writes down how far enrollments got, all in one transaction.
// Recording the same again changes nothing: an entry is told by its Seq, and a
// status with a LastSeq that is not above the recorded one is ignored. An
// enrollment that ended stays ended, and frees its re-entry. An enrollment that
// is not there (any more) is passed over.
func (s *Store) RecordProgress(ctx context.Context, progress []waypost.Progress) error {
	if len(progress) == 0 {
		return nil
	}
	err := s.writeRows(ctx, len(progress), func(ctx context.Context, tx bun.Tx) error { return s.recordProgress(ctx, tx, progress) })
	if err != nil {
		return fmt.Errorf("record progress: %w", err)
	}
	return nil
}

func (s *Store) recordProgress(ctx context.Context, tx bun.Tx, progress []waypost.Progress) error {
	ids := make([]string, len(progress))
	for i, p := range progress {
		ids[i] = p.EnrollmentID
	}
	enrollments, err := s.lockEnrollments(ctx, tx, ids)
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

// enrollmentsOf returns whose touchpoints these are.
func enrollmentsOf(keys []waypost.Touchpoint) []string {
	ids := make([]string, len(keys))
	for i, key := range keys {
		ids[i] = key.EnrollmentID
	}
	return ids
}

// lockEnrollments reads enrollments and keeps other transactions from changing
// them. Those that are not there are missing in the answer.
func (s *Store) lockEnrollments(ctx context.Context, tx bun.Tx, ids []string) (map[string]enrollmentState, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	states := make(map[string]enrollmentState, len(ids))
	if len(ids) == 0 {
		return states, nil
	}
	const columns = "SELECT e.id, e.journey_id, e.leads_id, e.entry_key, e.version, e.status, e.last_seq, e.ended_at FROM "
	text := columns + "enrollments AS e WHERE e.id = ANY ($1::text[]) ORDER BY e.id FOR NO KEY UPDATE"
	var list any = ids
	if !s.postgres {
		text = columns + "json_each(?) AS u CROSS JOIN enrollments AS e ON e.id = u.value"
		var err error
		if list, err = toJSON(ids); err != nil {
			return nil, err
		}
	}
	rows, err := s.query(ctx, &tx, text, list)
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

// moveEnrollments records the progress of enrollments that are locked.
func (s *Store) moveEnrollments(ctx context.Context, tx bun.Tx, progress []waypost.Progress, enrollments map[string]enrollmentState) error {
	latest := make(map[string]waypost.Progress, len(progress))
	for _, p := range progress {
		if known, ok := latest[p.EnrollmentID]; !ok || p.LastSeq > known.LastSeq {
			latest[p.EnrollmentID] = p
		}
	}
	moved := make([]waypost.Progress, 0, len(latest))
	ended := map[endedRow]int{}
	for id, p := range latest {
		e, known := enrollments[id]
		if !known || p.LastSeq <= e.LastSeq || !e.EndedAt.IsZero() {
			continue
		}
		if p.Status.Ended() {
			ended[endedRow{JourneyID: e.JourneyID, LeadsID: e.LeadsID, EntryKey: e.EntryKey}]++
		}
		moved = append(moved, p)
	}
	if err := s.recordTimeline(ctx, tx, progress, enrollments); err != nil {
		return err
	}
	slices.SortFunc(moved, func(a, b waypost.Progress) int { return cmp.Compare(a.EnrollmentID, b.EnrollmentID) })
	err := moveEnrollment.run(ctx, s, tx, len(moved), func(i int) []any {
		p := moved[i]
		var end stamp
		if p.Status.Ended() {
			end = s.endOf(p)
		}
		return []any{p.EnrollmentID, string(p.Status), p.NodeID, p.LastSeq, end}
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

func (s *Store) freeEntries(ctx context.Context, tx bun.Tx, ended map[endedRow]int) error {
	rows := make([]endedRow, 0, len(ended))
	for row, n := range ended {
		row.N = n
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b endedRow) int {
		return cmp.Or(cmp.Compare(a.JourneyID, b.JourneyID), cmp.Compare(a.LeadsID, b.LeadsID), cmp.Compare(a.EntryKey, b.EntryKey))
	})
	return freeEntry.run(ctx, s, tx, len(rows), func(i int) []any {
		r := rows[i]
		return []any{r.JourneyID, r.LeadsID, r.EntryKey, r.N}
	}, nil)
}

// timelineEntry is an entry as it stands in a row of the timeline, which holds
// entries without a gap in their Seq: it is in a row as often as it was recorded
// with another end.
type timelineEntry struct {
	At     int64  `json:"t"` // microseconds since 1970
	NodeID string `json:"n,omitzero"`
	What   string `json:"w"`
	Next   string `json:"x,omitzero"`
	Reason string `json:"r,omitzero"`
}

var insertTimeline = bulk{
	table:   "timeline AS t",
	columns: []string{"enrollment_id text", "seq bigint", "last_seq bigint", "version bigint", "entries text"},
	// What was recorded first stays; a longer row only adds to it.
	suffix: `ON CONFLICT (enrollment_id, seq) DO UPDATE SET last_seq = EXCLUDED.last_seq, entries = EXCLUDED.entries
		WHERE EXCLUDED.last_seq > t.last_seq`,
}

// recordTimeline writes one row for all entries of an enrollment that follow one
// another.
func (s *Store) recordTimeline(ctx context.Context, tx bun.Tx, progress []waypost.Progress, enrollments map[string]enrollmentState) error {
	type row struct {
		enrollmentID string
		seq, version int
		entries      []timelineEntry
		text         string
	}
	of := make(map[string][]waypost.TimelineEntry, len(progress))
	for _, p := range progress {
		if _, known := enrollments[p.EnrollmentID]; known && len(p.Entries) > 0 {
			of[p.EnrollmentID] = append(of[p.EnrollmentID], p.Entries...)
		}
	}
	rows := make([]row, 0, len(of))
	for id, entries := range of {
		slices.SortStableFunc(entries, func(a, b waypost.TimelineEntry) int { return cmp.Compare(a.Seq, b.Seq) })
		first := len(rows)
		for i, e := range entries {
			if i > 0 && e.Seq == entries[i-1].Seq {
				continue
			}
			if e.At.IsZero() {
				e.At = s.time()
			}
			if i == 0 || e.Seq != entries[i-1].Seq+1 {
				rows = append(rows, row{enrollmentID: id, seq: e.Seq, version: enrollments[id].Version})
			}
			r := &rows[len(rows)-1]
			r.entries = append(r.entries, timelineEntry{
				At: e.At.UnixMicro(), NodeID: cleanText(e.NodeID), What: e.What, Next: cleanText(e.Next), Reason: cleanText(e.Reason),
			})
		}
		for i := range rows[first:] {
			text, err := toJSON(rows[first+i].entries)
			if err != nil {
				return err
			}
			rows[first+i].text = text
		}
	}
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(a.enrollmentID, b.enrollmentID), cmp.Compare(a.seq, b.seq))
	})
	return insertTimeline.run(ctx, s, tx, len(rows), func(i int) []any {
		r := rows[i]
		return []any{r.enrollmentID, r.seq, r.seq + len(r.entries) - 1, r.version, r.text}
	}, nil)
}

// timelineOf returns the timeline of an enrollment, in order.
func (s *Store) timelineOf(ctx context.Context, db bun.IDB, enrollmentID string) ([]waypost.TimelineEntry, error) {
	var rows []struct {
		Seq     int    `bun:"seq"`
		Version int    `bun:"version"`
		Entries string `bun:"entries"`
	}
	err := db.NewRaw("SELECT seq, version, entries FROM timeline WHERE enrollment_id = ? ORDER BY seq", enrollmentID).Scan(ctx, &rows)
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
				Seq: row.Seq + i, At: time.UnixMicro(e.At).UTC(), NodeID: e.NodeID, What: e.What, Next: e.Next, Reason: e.Reason, Version: row.Version,
			})
		}
	}
	// Rows overlap where entries were recorded again together with others.
	slices.SortStableFunc(timeline, func(a, b waypost.TimelineEntry) int { return cmp.Compare(a.Seq, b.Seq) })
	return slices.CompactFunc(timeline, func(a, b waypost.TimelineEntry) bool { return a.Seq == b.Seq }), nil
}
