package storetest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"waypost"
)

var progressTests = []test{
	{"timeline", func(t *testing.T, f *fixture) {
		id := f.enroll(t, f.journey(t), 1)[0]
		at := f.clock.Now()
		p := waypost.Progress{EnrollmentID: id, Status: waypost.EnrollmentWaiting, NodeID: "wait", LastSeq: 2, Entries: []waypost.TimelineEntry{
			{Seq: 1, At: at, NodeID: "hello", What: waypost.WhatSent, Next: "wait", Way: waypost.WayNext, Reason: "it's"},
			{Seq: 2, At: at, NodeID: "wait", What: waypost.WhatEntered, Reason: "until\x00\xff"},
		}}
		for range 2 { // a crash between commit and answer repeats the call
			ok(t, f.RecordProgress(t.Context(), []waypost.Progress{p}))
		}
		want := slices.Clone(p.Entries)
		want[0].Version, want[1].Version, want[1].Reason = 1, 1, "until\uFFFD\uFFFD"
		equal(t, "timeline", f.timeline(t, id), want)
		e := f.enrollment(t, id)
		equal(t, "status", e.Status, waypost.EnrollmentWaiting)
		equal(t, "node", e.NodeID, "wait")
		if e.EndedAt != nil {
			t.Fatalf("ended at %v", e.EndedAt)
		}
	}},
	{"never back", func(t *testing.T, f *fixture) {
		id := f.enroll(t, f.journey(t), 1)[0]
		three, two := f.progress(id, 3, waypost.EnrollmentWaiting), f.progress(id, 2, waypost.EnrollmentRunning)
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{three}))
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{two}))
		equal(t, "status", f.enrollment(t, id).Status, waypost.EnrollmentWaiting)
		equal(t, "entries", len(f.timeline(t, id)), 2) // late, but it happened
		four := f.progress(id, 4, waypost.EnrollmentCompleted)
		f.clock.Advance(time.Minute)
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{four}))
		ended := f.enrollment(t, id)
		equal(t, "ended at", *ended.EndedAt, four.Entries[0].At)
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(id, 5, waypost.EnrollmentRunning)}))
		equal(t, "ended", f.enrollment(t, id), ended)
	}},
	{"one call", func(t *testing.T, f *fixture) {
		// Several steps of one enrollment, out of order, beside one that is not there.
		ids := f.enroll(t, f.journey(t), 2)
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{
			f.progress(ids[0], 2, waypost.EnrollmentWaiting), f.progress(ids[1], 1, waypost.EnrollmentRunning),
			f.progress("enr_none", 1, waypost.EnrollmentRunning),
			f.progress(ids[0], 3, waypost.EnrollmentCompleted), f.progress(ids[0], 1, waypost.EnrollmentRunning),
		}))
		equal(t, "first", f.enrollment(t, ids[0]).Status, waypost.EnrollmentCompleted)
		equal(t, "entries", len(f.timeline(t, ids[0])), 3)
		equal(t, "second", f.enrollment(t, ids[1]).Status, waypost.EnrollmentRunning)
		ok(t, f.RecordProgress(t.Context(), nil))
	}},
	{"overlapping entries", func(t *testing.T, f *fixture) {
		// Each entry once, in order, in whatever portions they were recorded.
		id := f.enroll(t, f.journey(t), 1)[0]
		at := f.clock.Now()
		seen := map[int]bool{}
		for _, c := range []struct {
			status waypost.EnrollmentStatus
			seqs   []int
		}{
			{waypost.EnrollmentRunning, []int{2, 1}},
			{waypost.EnrollmentRunning, []int{1}},
			{waypost.EnrollmentRunning, []int{1, 2, 3}},
			{waypost.EnrollmentRunning, []int{3, 4}},
			{waypost.EnrollmentRunning, []int{6, 8, 8}},
			{waypost.EnrollmentRunning, []int{6, 7}},
			{waypost.EnrollmentCompleted, []int{9, 10}},
			{waypost.EnrollmentCompleted, []int{9, 10, 11}},
			{waypost.EnrollmentRunning, []int{5, 6}},
		} {
			p := waypost.Progress{EnrollmentID: id, Status: c.status, NodeID: "n", LastSeq: slices.Max(c.seqs)}
			for _, seq := range c.seqs {
				seen[seq] = true
				p.Entries = append(p.Entries, waypost.TimelineEntry{Seq: seq, At: at.Add(time.Duration(seq) * time.Second), NodeID: fmt.Sprint("node", seq), What: waypost.WhatSent})
			}
			ok(t, f.RecordProgress(t.Context(), []waypost.Progress{p}))
			var want []waypost.TimelineEntry
			for _, seq := range slices.Sorted(maps.Keys(seen)) {
				want = append(want, waypost.TimelineEntry{Seq: seq, At: at.Add(time.Duration(seq) * time.Second), NodeID: fmt.Sprint("node", seq), What: waypost.WhatSent, Version: 1})
			}
			equal(t, fmt.Sprint("after ", c.seqs), f.timeline(t, id), want)
		}
		e := f.enrollment(t, id)
		equal(t, "status", e.Status, waypost.EnrollmentCompleted)
		equal(t, "ended at", *e.EndedAt, at.Add(10*time.Second))
	}},
	{"frees once", func(t *testing.T, f *fixture) {
		// Ending twice must not free the entry of a later enrollment.
		e := waypost.Enrollment{JourneyID: f.journey(t), Version: 1, LeadsID: f.lead(t)}
		first := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, waypost.Reentry{})).ID
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(first, 1, waypost.EnrollmentFailed)}))
		must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, waypost.Reentry{}))
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(first, 1, waypost.EnrollmentFailed), f.progress(first, 2, waypost.EnrollmentFailed)}))
		_, err := f.Enroll(t.Context(), scope, e, waypost.Reentry{})
		wantCode(t, err, waypost.CodeConflict)
	}},
	{"frees together", func(t *testing.T, f *fixture) {
		// Two enrollments of one entry that end in one call free it once each.
		e := waypost.Enrollment{JourneyID: f.journey(t), Version: 1, LeadsID: f.lead(t)}
		always := waypost.Reentry{Policy: waypost.ReentryAlways}
		var ends []waypost.Progress
		for range 3 {
			ends = append(ends, f.progress(must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, always)).ID, 1, waypost.EnrollmentCompleted))
		}
		ok(t, f.RecordProgress(t.Context(), ends[:2]))
		_, err := f.Enroll(t.Context(), scope, e, waypost.Reentry{})
		wantCode(t, err, waypost.CodeConflict)
		ok(t, f.RecordProgress(t.Context(), ends))
		must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, e, waypost.Reentry{}))
	}},
	{"concurrent", func(t *testing.T, f *fixture) {
		// Overlapping batches in opposite orders, each repeated: no deadlock, no gap.
		ids := f.enroll(t, f.journey(t), 20)
		for _, err := range atOnce(12, func(i int) error {
			var batch []waypost.Progress
			for _, id := range ids {
				for seq := range 3 {
					batch = append(batch, f.progress(id, seq+1, waypost.EnrollmentRunning))
				}
				batch = append(batch, f.progress(id, 4, waypost.EnrollmentCompleted))
			}
			if i%2 == 1 {
				slices.Reverse(batch)
			}
			return f.RecordProgress(t.Context(), batch)
		}) {
			ok(t, err)
		}
		for _, id := range ids {
			equal(t, "entries", len(f.timeline(t, id)), 4)
			equal(t, "status", f.enrollment(t, id).Status, waypost.EnrollmentCompleted)
		}
	}},
	{"many", func(t *testing.T, f *fixture) {
		ids := f.enroll(t, f.journey(t), 3)
		var batch []waypost.Progress
		for seq := range 200 {
			for _, id := range ids {
				batch = append(batch, f.progress(id, seq+1, waypost.EnrollmentRunning))
			}
		}
		ok(t, f.RecordProgress(t.Context(), batch))
		for _, id := range ids {
			equal(t, "entries", len(f.timeline(t, id)), 200)
			equal(t, "node", f.enrollment(t, id).NodeID, fmt.Sprint("node", 200))
		}
	}},
}
