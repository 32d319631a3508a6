package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

type timelineRow struct {
	bun.BaseModel `bun:"table:timeline,alias:t"`

	EnrollmentID string `bun:"enrollment_id,pk"`
	Seq          int    `bun:"seq,pk"`
	At           stamp  `bun:"at"`
	NodeID       string `bun:"node_id"`
	What         string `bun:"what"`
	Next         string `bun:"next"`
	Reason       string `bun:"reason"`
	Version      int    `bun:"version"`
}

func (r timelineRow) entry() waypost.TimelineEntry {
	return waypost.TimelineEntry{
		Seq: r.Seq, At: r.At.Time, NodeID: r.NodeID, What: r.What, Next: r.Next, Reason: r.Reason, Version: r.Version,
	}
}

// moveEnrollment writes where an enrollment stands.
var moveEnrollment = bulk{
	table:   "enrollments AS e",
	keys:    1,
	columns: []string{"id text", "status text", "node_id text", "last_seq bigint", "ended_at bigint"},
}

// freeEntry takes enrollments that ended from the entry's active ones.
var freeEntry = bulk{
	table:   "journey_entries AS je",
	keys:    3,
	columns: []string{"journey_id text", "leads_id bigint", "entry_key text", "active bigint"},
	exprs:   map[string]string{"active": "je.active - $"},
}

// endedRow counts the enrollments of one entry that end together.
type endedRow struct {
	JourneyID string `bun:"journey_id,type:text"`
	LeadsID   int64  `bun:"leads_id,type:bigint"`
	EntryKey  string `bun:"entry_key,type:text"`
	N         int    `bun:"n,type:bigint"`
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
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) error { return s.recordProgress(ctx, tx, progress) })
	if err != nil {
		return fmt.Errorf("record progress: %w", err)
	}
	return nil
}

func (s *Store) recordProgress(ctx context.Context, tx bun.Tx, progress []waypost.Progress) error {
	if len(progress) == 0 {
		return nil
	}
	latest := map[string]waypost.Progress{}
	for _, p := range progress {
		if known, ok := latest[p.EnrollmentID]; !ok || p.LastSeq > known.LastSeq {
			latest[p.EnrollmentID] = p
		}
	}
	var locked []enrollmentRow
	err := s.lock(tx.NewSelect().Model(&locked).
		Column("id", "journey_id", "leads_id", "entry_key", "version", "last_seq", "ended_at").
		Where("id IN (?)", bun.List(slices.Sorted(maps.Keys(latest)))).Order("id"), "e").Scan(ctx)
	if err != nil {
		return err
	}
	versions := make(map[string]int, len(locked))
	var updates []enrollmentRow
	ended := map[endedRow]int{}
	for _, e := range locked {
		versions[e.ID] = e.Version
		p := latest[e.ID]
		if p.LastSeq <= e.LastSeq || !e.EndedAt.IsZero() {
			continue
		}
		update := enrollmentRow{ID: e.ID, Status: string(p.Status), NodeID: p.NodeID, LastSeq: p.LastSeq}
		if p.Status.Ended() {
			update.EndedAt = s.endOf(p)
			ended[endedRow{JourneyID: e.JourneyID, LeadsID: e.LeadsID, EntryKey: e.EntryKey}]++
		}
		updates = append(updates, update)
	}
	if err := s.recordTimeline(ctx, tx, progress, versions); err != nil {
		return err
	}
	err = moveEnrollment.run(ctx, s, tx, len(updates), func(i int) []any {
		u := updates[i]
		return []any{u.ID, u.Status, u.NodeID, u.LastSeq, u.EndedAt}
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

var insertEntry = bulk{
	table: "timeline",
	columns: []string{
		"enrollment_id text", "seq bigint", "at bigint", "node_id text", "what text", "next text", "reason text", "version bigint",
	},
	suffix: "ON CONFLICT (enrollment_id, seq) DO NOTHING",
}

func (s *Store) recordTimeline(ctx context.Context, tx bun.Tx, progress []waypost.Progress, versions map[string]int) error {
	var rows []timelineRow
	for _, p := range progress {
		version, ok := versions[p.EnrollmentID]
		if !ok {
			continue
		}
		for _, e := range p.Entries {
			if e.At.IsZero() {
				e.At = s.time()
			}
			rows = append(rows, timelineRow{
				EnrollmentID: p.EnrollmentID, Seq: e.Seq, At: stamp{e.At}, NodeID: e.NodeID, What: e.What,
				Next: e.Next, Reason: cleanText(e.Reason), Version: version,
			})
		}
	}
	return insertEntry.run(ctx, s, tx, len(rows), func(i int) []any {
		r := rows[i]
		return []any{r.EnrollmentID, r.Seq, r.At, r.NodeID, r.What, r.Next, r.Reason, r.Version}
	}, nil)
}

func (s *Store) freeEntries(ctx context.Context, tx bun.Tx, ended map[endedRow]int) error {
	if len(ended) == 0 {
		return nil
	}
	rows := make([]endedRow, 0, len(ended))
	for row, n := range ended {
		row.N = n
		rows = append(rows, row)
	}
	slices.SortFunc(rows, func(a, b endedRow) int {
		return cmp.Or(cmp.Compare(a.JourneyID, b.JourneyID), cmp.Compare(a.LeadsID, b.LeadsID), cmp.Compare(a.EntryKey, b.EntryKey))
	})
	if s.postgres {
		// An UPDATE locks its rows in any order; under the policy "always" two calls
		// may free the same ones.
		var locked []int
		err := s.lock(tx.NewSelect().With("u", tx.NewValues(&rows)).Model((*entryRow)(nil)).ColumnExpr("1").
			Join("JOIN u ON je.journey_id = u.journey_id AND je.leads_id = u.leads_id AND je.entry_key = u.entry_key").
			Order("je.journey_id", "je.leads_id", "je.entry_key"), "je").Scan(ctx, &locked)
		if err != nil {
			return err
		}
	}
	return freeEntry.run(ctx, s, tx, len(rows), func(i int) []any {
		r := rows[i]
		return []any{r.JourneyID, r.LeadsID, r.EntryKey, r.N}
	}, nil)
}
