package waypost

import "time"

// Effect is what an enrollment does at a node that changes something: an updateLead or an
// emit. It is stored in one transaction with the enrollment's progress past the node.
type Effect struct {
	Touchpoint          // the enrollment, and its visit to the node
	NodeID     string   //
	LeadsID    int64    //
	Seq        int      // of the last entry of its timeline before
	Progress   Progress // past the node
	Depth      int      // of what it begins, see Enrollment.Depth
	Event      Event    // of an emit
}

// EffectBatch are effects of enrollments of one workflow.
type EffectBatch struct {
	Scope     Scope
	JourneyID string
	LaunchID  string
	At        time.Time // events are accepted a microsecond before: before what follows the node
	Items     []Effect
}

// EffectResult is what came of an effect: it has happened, or one of the members says why not.
type EffectResult struct {
	Stopped bool // the enrollment was paused, or has ended
	// Recorded is what the timeline says of the visit, if the effect, or another end of the
	// visit, was recorded before.
	Recorded *TimelineEntry
}
