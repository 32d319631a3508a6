package e2e

import (
	"slices"
	"testing"

	"waypost"
	"waypost/devstack/harness"
)

// What the fault suite compares finds what is counted wrong.
func TestMiscounts(t *testing.T) {
	t.Parallel()
	var st harness.Statistics
	st.Enrollments.Entered, st.Enrollments.Completed = 3, 1
	st.Nodes = slices.Grow(st.Nodes, 2)[:2]
	hello, wait := &st.Nodes[0], &st.Nodes[1]
	hello.NodeID, hello.Entered, hello.Delivered = "hello", 2, 2
	hello.Edges = []harness.EdgeCount{{Next: "wait", Way: "next", Count: 2}}
	wait.Ends = []harness.EdgeCount{{Way: "next", Count: 1}}
	wait.NodeID, wait.Entered, wait.Standing = "wait", 3, 1
	entry := func(node, what, next string, version int) waypost.TimelineEntry {
		way := ""
		if next != "" || what == waypost.WhatWaited {
			way = waypost.WayNext
		}
		return waypost.TimelineEntry{NodeID: node, What: what, Next: next, Way: way, Version: version}
	}
	begun := []waypost.TimelineEntry{
		entry("hello", waypost.WhatEntered, "", 1), entry("hello", waypost.WhatSent, "wait", 1), entry("wait", waypost.WhatEntered, "", 1),
		entry("wait", waypost.WhatPaused, "", 1), entry("wait", waypost.WhatEntered, "", 1),
	}
	enrollments := []harness.Enrollment{
		{Status: waypost.EnrollmentPending},
		{Status: waypost.EnrollmentCompleted, Timeline: append(slices.Clone(begun), entry("wait", waypost.WhatWaited, "", 1), entry("wait", waypost.WhatExited, "", 1))},
		{Status: waypost.EnrollmentWaiting, Timeline: append(slices.Clone(begun), entry("wait", waypost.WhatEntered, "", 2))}, // moved
	}
	if wrong := harness.Miscounts(st, enrollments); len(wrong) != 0 {
		t.Errorf("found %q", wrong)
	}
	hello.Delivered, wait.Standing, hello.Edges = 3, 2, nil
	want := []string{"hello delivered is 3, the timelines say 2", "wait standing is 2, the timelines say 1", "hello next → wait is not counted, the timelines say 2"}
	if wrong := harness.Miscounts(st, enrollments); !slices.Equal(wrong, want) {
		t.Errorf("found %q", wrong)
	}
}
