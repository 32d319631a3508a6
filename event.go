package waypost

import (
	"fmt"
	"time"
)

// Event is something that a lead did, as a client reported it. EventID makes
// reporting it again harmless.
type Event struct {
	EventID    string         `json:"eventId"` // unique in organisation and stage
	Name       string         `json:"name"`
	LeadsID    int64          `json:"leadsId"`
	Properties map[string]any `json:"properties"`
	AcceptedAt time.Time      `json:"acceptedAt"`
	// Depth is that of the enrollment that emitted it, and one more, 1 after a wait; 0: a client's.
	Depth int `json:"-"`
	// Seq orders the events of a lead as they were accepted; storage sets it.
	Seq int64 `json:"-"`
}

// Place is where the event stands in a list, see Page.
func (e Event) Place() string { return fmt.Sprintf("%d,%d", e.AcceptedAt.UnixMicro(), e.Seq) }

// MaxEventProperties bounds the properties of an event, in bytes of JSON.
const MaxEventProperties = 16 << 10

// EventFilter selects events of a list; what is zero selects all.
type EventFilter struct {
	LeadsID     int64
	Name        string
	From, To    time.Time // AcceptedAt: From or later, before To
	OldestFirst bool
}

// EventName is a name that events have.
type EventName struct {
	Name   string
	Count  int       // events that are kept
	LastAt time.Time // AcceptedAt of the last one
}

// MaxEventNames is how many names one list of them has.
const MaxEventNames = 2000

// EventRow is one line of an import of events: an event, or what is wrong with it.
type EventRow struct {
	Line  int // from 1
	Event Event
	Err   *Error // nil: the event is to be accepted
}

// EventImport is what has become of an import of events (docs/contract.md, "Events").
type EventImport struct {
	Total      int
	Accepted   int
	Duplicates int // their EventID was known
	Failed     int
	Errors     []ImportError // of the first MaxLineErrors failed lines, by line
}

// Wait is an enrollment that waits for an event at a waitForEvent node, at a waitUntil node
// for a time that depends on the lead, or at a waitFor node for a condition.
type Wait struct {
	Touchpoint           // the enrollment, and its visit to the node
	Scope      Scope     //
	WorkflowID string    // gets the notice of an event
	NodeID     string    //
	Events     []string  // names of the events
	Fields     []string  // of the lead, such as customFields.expiry; at a waitForEvent none
	LeadsID    int64     //
	Since      time.Time // events count that were accepted at this time or later
	// Until is when the wait is over; events accepted after it do not count.
	Until time.Time
	// Expired closes the wait unless an event is left to be looked at.
	Expired bool
}

// Anything is, as the one name of Events or Fields, every event, or every change of the lead.
const Anything = "*"

// WaitState is where a wait stands.
type WaitState struct {
	Closed  bool
	EventID string // of a closed one: the event that satisfied it, "" if its time ran out
	Arm     int    // with EventID: which of those that the node waits for it is
	// Events are those of an open wait that were not looked at yet, oldest first, at
	// most MaxWaitEvents.
	Events []Event
}

// MaxWaitEvents bounds the events that one look at a wait returns.
const MaxWaitEvents = 100

// WaitResult says what was found out about the events of a wait.
type WaitResult struct {
	Touchpoint
	EventID string // the event that satisfies the wait and so closes it, "" if none does
	Arm     int    // with EventID: which of those that the node waits for it is
	Seen    int64  // Seq of the last event that was looked at
	Close   bool   // close it though no event satisfies it: its time has run out
}

// Notice tells a workflow to look at what changed for its enrollments. It is kept until the
// workflow has got it.
type Notice struct {
	ID           int64
	WorkflowID   string
	EnrollmentID string // "" for all of the workflow
	EventID      string // "" if it is not about an event
}
