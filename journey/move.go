package journey

import (
	"fmt"
	"slices"
	"time"

	"waypost"
)

// Moved returns the input that has a waiting enrollment of one version go on at a
// node of another; Step takes it with the definition to. If both nodes wait in
// the same way (delays of the same length, waits for an event with the same
// time-out, the same waitUntil), the wait keeps its end: the time already waited
// counts. A caller that has moved the end, because of a pause, sets Until itself.
// Otherwise the enrollment enters the node anew. reason is for the timeline.
//
// It fails if the enrollment does not wait, for a time, an event or a condition, and if
// there is no such node.
func Moved(from, to *Definition, s State, node string, at time.Time, reason string) (Input, error) {
	if s.EnrollmentStatus() != waypost.EnrollmentWaiting {
		return Input{}, fmt.Errorf("move enrollment: it is %s, not waiting", s.EnrollmentStatus())
	}
	before, ok := from.Node(s.Node)
	if !ok {
		return Input{}, fmt.Errorf("move enrollment: %w", lacks(s.Node))
	}
	after, ok := to.Node(node)
	if !ok {
		return Input{}, fmt.Errorf("move enrollment: %w", lacks(node))
	}
	in := Input{Kind: InputMoved, At: at, Node: node, Reason: reason}
	if sameWait(before, after) {
		in.Until = s.Until
	}
	return in, nil
}

// sameWait tells whether two nodes wait for the same time.
func sameWait(a, b Node) bool {
	if a.Type != b.Type {
		return false
	}
	switch a.Type {
	case Delay, WaitForEvent, WaitFor:
		before, err := a.wait()
		after, err2 := b.wait()
		return err == nil && err2 == nil && before == after
	case WaitUntil:
		return a.Time == b.Time && a.Timezone == b.Timezone && slices.Equal(a.Weekdays, b.Weekdays) && a.Lead == b.Lead && a.Offset == b.Offset
	}
	return false
}
