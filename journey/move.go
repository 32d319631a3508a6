package journey

import (
	"fmt"
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
	if before.Type == after.Type && kindOf(before.Type).sameWait(before, after) {
		in.Until = s.Until
	}
	return in, nil
}
