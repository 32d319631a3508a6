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
	OccurredAt time.Time      `json:"occurredAt"` // zero, of one that is to be accepted: when it is
	AcceptedAt time.Time      `json:"acceptedAt"`
	// To is whose it is, of one that is to be accepted without a LeadsID.
	To EventLead `json:"-"`
	// Depth is that of the enrollment that emitted it, and one more, 1 after a wait; 0: a client's.
	Depth int `json:"-"`
	// Seq orders the events of a lead as they were accepted; storage sets it.
	Seq int64 `json:"-"`
}

// EventLead names a lead by one of its addresses.
type EventLead struct {
	ExternalID string
	Email      string // without regard to case
	Phone      string // E.164
	Create     bool   // a lead that has the ExternalID, if there is none
}

// Target is the member of an event's document that names the lead.
func (l EventLead) Target() string {
	switch {
	case l.ExternalID != "":
		return "externalId"
	case l.Email != "":
		return "email"
	case l.Phone != "":
		return "mobilePhone"
	}
	return "leadsId"
}

// Bounds of when an event that comes now has occurred.
const (
	MaxEventYears = 10
	MaxEventAhead = 5 * time.Minute // clocks disagree
	// PromptEvent is how long after it has occurred an event may come to begin, wake and end
	// something. One that comes later counts only.
	PromptEvent = 24 * time.Hour
)

// Late tells whether an event came too late to begin, wake or end something.
func (e Event) Late() bool { return e.AcceptedAt.Sub(e.OccurredAt) > PromptEvent }

// Place is where the event stands in a list, see Page.
func (e Event) Place() string { return fmt.Sprintf("%d,%d", e.OccurredAt.UnixMicro(), e.Seq) }

// MaxEventProperties bounds the properties of an event, in bytes of JSON.
const MaxEventProperties = 16 << 10

// EventFilter selects events of a list; what is zero selects all.
type EventFilter struct {
	LeadsID     int64
	Name        string
	From, To    time.Time // OccurredAt: From or later, before To
	OldestFirst bool
}

// EventName is a name that events have.
type EventName struct {
	Name   string
	Count  int       // events that are kept
	LastAt time.Time // OccurredAt of the last one
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
	Since      time.Time // events count that occurred at this time or later
	// Until is when the wait is over; events that occurred after it do not count.
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
	// Events are those of an open wait that were not looked at yet, at most the MaxWaitEvents that
	// were accepted first, in the order in which they occurred.
	Events []Event
}

// MaxWaitEvents bounds the events that one look at a wait returns.
const MaxWaitEvents = 100

// WaitResult says what was found out about the events of a wait.
type WaitResult struct {
	Touchpoint
	EventID string    // the event that satisfies the wait and so closes it, "" if none does
	Arm     int       // with EventID: which of those that the node waits for it is
	Seen    int64     // all events up to this Seq were looked at
	Close   bool      // close it though no event satisfies it: its time has run out
	LookAt  time.Time // when time can make its condition true, if it stays open; zero: never
}

// Notice tells a workflow to look at what changed for its enrollments. It is kept until the
// workflow has got it.
type Notice struct {
	ID           int64
	WorkflowID   string
	EnrollmentID string // "" for all of the workflow
	EventID      string // "" if it is not about an event
}
