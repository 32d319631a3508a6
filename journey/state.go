package journey

import (
	"time"

	"waypost"
	"waypost/journey/nodes"
)

// Phase says what an enrollment waits for.
type Phase = nodes.Phase

// The phases. The empty one is an enrollment that has not started.
const (
	PhaseSend   = nodes.PhaseSend
	PhaseDecide = nodes.PhaseDecide
	PhaseWait   = nodes.PhaseWait
	PhaseAwait  = nodes.PhaseAwait
	PhaseDone   = nodes.PhaseDone
)

// State is where an enrollment stands in its journey: plain data without
// personal data. The zero value is an enrollment that has not started.
type State struct {
	Node   string                   `json:"node,omitempty"` // the last one once done
	Phase  Phase                    `json:"phase,omitempty"`
	Visit  int                      `json:"visit,omitempty"`  // nodes executed so far: names this execution of the node
	Seq    int                      `json:"seq,omitempty"`    // timeline entries so far
	Until  time.Time                `json:"until,omitzero"`   // of a wait, or when a wait for an event times out
	Status waypost.EnrollmentStatus `json:"status,omitempty"` // once done
	Path   []Visit                  `json:"path,omitempty"`   // the last MaxPath visits, oldest first
}

// MaxPath is the number of visits that a state remembers.
const MaxPath = 50

// Visit is one node that was passed and its result: "delivered", "failed",
// "skipped" (also of a waitUntil with nothing to wait for), "waited", "matched",
// "event 2" (of several, counted from 1), "timedOut", "case 1", "otherwise", "arm 1", "enrolled",
// "notEnrolled", "updated", "emitted", "passed", "moved" (to a node of another version) or "exited".
type Visit struct {
	Node   string `json:"node"`
	Result string `json:"result"`
}

// EnrollmentStatus returns the enrollment's status as far as the journey decides
// it: pending before the start, running, waiting in a delay or for an event, or
// the final one.
func (s State) EnrollmentStatus() waypost.EnrollmentStatus {
	switch s.Phase {
	case "":
		return waypost.EnrollmentPending
	case PhaseWait, PhaseAwait:
		return waypost.EnrollmentWaiting
	case PhaseDone:
		return s.Status
	}
	return waypost.EnrollmentRunning
}

// InputKind says what happened.
type InputKind string

// The kinds of input.
const (
	InputStart    InputKind = "start"    // the enrollment begins
	InputSent     InputKind = "sent"     // a touchpoint was decided
	InputDeferred InputKind = "deferred" // a touchpoint is held back; it is still to be sent
	InputSkipped  InputKind = "skipped"  // a touchpoint is not sent
	InputDecided  InputKind = "decided"  // a branch, waitUntil, split, enroll, updateLead or emit was decided
	InputFailed   InputKind = "failed"   // an enrollment at a node that is decided cannot go on
	InputElapsed  InputKind = "elapsed"  // the time of a wait, also of one for an event or a condition, is over
	InputMatched  InputKind = "matched"  // the event that is waited for came, or the condition is true
	InputCanceled InputKind = "canceled" // people have canceled the enrollment; it may not have started
	InputExited   InputKind = "exited"   // an exitOn event came; it may not have started
	InputChanged  InputKind = "changed"  // the lead has changed, and with it the end of a waitUntil
	// InputMoved has a waiting enrollment go on at a node of the definition that Step
	// is given with it: another version. Moved makes one.
	InputMoved InputKind = "moved"
)

// Input is one thing that happened to an enrollment.
type Input struct {
	Kind    InputKind `json:"kind"`
	At      time.Time `json:"at"`
	Succeed bool      `json:"succeed,omitempty"` // of sent; of decided: it was enrolled, updated or emitted
	// Arm is, of decided, the index of the case or of the split's arm, -1 for otherwise; of
	// matched at a waitForEvent with several events, the index of the one that came.
	Arm int `json:"arm,omitempty"`
	// Until is when the wait is over: of decided at a waitUntil and of changed, zero if there
	// is nothing to wait for; of moved, zero if the old wait does not go on.
	Until time.Time `json:"until,omitzero"`
	Node  string    `json:"node,omitempty"` // of moved: where it goes on
	// Reason is what the timeline says of it: of sent, skipped, deferred, decided,
	// failed, changed, matched, exited, moved and an elapsed wait for an event or a condition. No personal data.
	Reason string `json:"reason,omitempty"`
}

// CommandKind says what an enrollment needs next.
type CommandKind string

// The kinds of commands. The empty one asks for nothing: the enrollment has
// ended.
const (
	CommandSend   CommandKind = "send"
	CommandDecide CommandKind = "decide"
	CommandWait   CommandKind = "wait"
	CommandAwait  CommandKind = "await"
)

// Command is what an enrollment needs next; its answer is the next input.
type Command struct {
	Kind  CommandKind
	Node  string
	Visit int
	Until time.Time // of wait, and when an await times out
}

// Effect is what a step leads to: at most one command, and the timeline entries
// that tell of the step, in the order of their Seq.
type Effect struct {
	Command Command
	Entries []waypost.TimelineEntry
}
