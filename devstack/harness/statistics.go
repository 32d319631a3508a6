package harness

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"testing"

	"waypost"
)

// Statistics are a journey's, as the API returns them.
type Statistics struct {
	Nodes []struct {
		NodeID                                        string
		Entered, Standing, Delivered, Failed, Skipped int
		Edges, Ends                                   []EdgeCount
	}
	Enrollments struct{ Entered, Completed, Exited, Failed, Canceled int }
}

// EdgeCount is how often a way was taken; Next is "" where it ended the journey.
type EdgeCount struct {
	Next, Way string
	Count     int
}

// Miscounts compares the statistics of a journey with what the timelines of all its
// enrollments say, and tells what differs.
func (a API) Miscounts(t *testing.T, journeyID string, enrollments []Enrollment) []string {
	t.Helper()
	var st Statistics
	a.Do(t, http.MethodGet, "/v1/journeys/"+journeyID+"/statistics", nil, &st)
	return Miscounts(st, enrollments)
}

// Miscounts compares statistics with the timelines of enrollments.
func Miscounts(st Statistics, enrollments []Enrollment) []string {
	got := map[string]int{}
	for _, n := range st.Nodes {
		for what, count := range map[string]int{
			"entered": n.Entered, "standing": n.Standing, "delivered": n.Delivered, "failed": n.Failed, "skipped": n.Skipped,
		} {
			got[n.NodeID+" "+what] = count
		}
		for _, e := range slices.Concat(n.Edges, n.Ends) {
			got[n.NodeID+" "+e.Way+" → "+e.Next] = e.Count
		}
	}
	e := st.Enrollments
	got["all entered"], got["all completed"], got["all exited"], got["all failed"], got["all canceled"] = e.Entered, e.Completed, e.Exited, e.Failed, e.Canceled
	want := map[string]int{}
	for _, e := range enrollments {
		want["all entered"]++
		if e.Status.Ended() {
			want["all "+string(e.Status)]++
		}
		e.count(want)
	}
	var wrong []string
	for _, what := range slices.Sorted(maps.Keys(got)) {
		if got[what] != want[what] {
			wrong = append(wrong, fmt.Sprintf("%s is %d, the timelines say %d", what, got[what], want[what]))
		}
		delete(want, what)
	}
	for _, what := range slices.Sorted(maps.Keys(want)) {
		if want[what] != 0 {
			wrong = append(wrong, fmt.Sprintf("%s is not counted, the timelines say %d", what, want[what]))
		}
	}
	return wrong
}

// count adds what the enrollment's timeline says.
func (e Enrollment) count(counts map[string]int) {
	type place struct {
		version int
		node    string
	}
	var stands place
	for _, entry := range e.Timeline {
		switch entry.What {
		case waypost.WhatPaused, waypost.WhatResumed, waypost.WhatExited:
			continue // at no other node
		case waypost.WhatSent:
			counts[entry.NodeID+" delivered"]++
		case waypost.WhatFailed, waypost.WhatSkipped:
			counts[entry.NodeID+" "+entry.What]++
		}
		if at := (place{entry.Version, entry.NodeID}); at != stands {
			counts[entry.NodeID+" entered"]++
			stands = at
		}
		if entry.Way != "" {
			counts[entry.NodeID+" "+entry.Way+" → "+entry.Next]++
		}
		if entry.Next != "" {
			counts[entry.Next+" entered"]++
			stands = place{entry.Version, entry.Next}
		}
	}
	if !e.Status.Ended() && stands.node != "" {
		counts[stands.node+" standing"]++
	}
}
