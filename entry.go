package waypost

import (
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// EntryKind says what an enrollment began by.
type EntryKind string

// What an enrollment can begin by: a call or a launch, an enroll node of another journey, or,
// by itself, what the journey's entry names.
const (
	EntryAPI         EntryKind = "api"
	EntryLaunch      EntryKind = "launch"
	EntryEnroll      EntryKind = "enroll"
	EntryEvent       EntryKind = "event"
	EntryLeadCreated EntryKind = "leadCreated"
	EntryLeadChanged EntryKind = "leadChanged"
	EntrySegment     EntryKind = "segment"
)

// Entry says why an enrollment began.
type Entry struct {
	Kind    EntryKind `json:"kind"`
	Event   string    `json:"event,omitempty"`   // the name of the event that began it
	EventID string    `json:"eventId,omitempty"` //
	Segment string    `json:"segment,omitempty"` // the id of the segment that the lead has entered
	// OccurredAt is that of the event.
	OccurredAt time.Time `json:"occurredAt,omitzero"`
}

// Since is from when on events are later than the beginning of an enrollment that was made at a
// time: from the event that it began by, if that occurred before.
func (e Entry) Since(createdAt time.Time) time.Time {
	if !e.OccurredAt.IsZero() && e.OccurredAt.Before(createdAt) {
		return e.OccurredAt
	}
	return createdAt
}

// Reason is the reason of the first entry of a timeline: what the enrollment began by, if by
// itself, before what the node says.
func (e Entry) Reason(node string) string {
	why := ""
	switch e.Kind {
	case EntryEvent:
		why = "event " + e.Event
	case EntryLeadCreated, EntryLeadChanged:
		why = string(e.Kind)
	case EntrySegment:
		why = "segment " + e.Segment
	}
	if why != "" && node != "" {
		why += "; "
	}
	return why + node
}

// EntryRule is a part of a definition's entry: what begins the journey by itself. Its
// condition is for whoever evaluates it.
type EntryRule struct {
	Kind    EntryKind // EntryEvent, EntryLeadCreated, EntryLeadChanged or EntrySegment
	Event   string    // the event's name
	Segment string    // the segment's id
}

// MaxEntryRules is how many journeys of a stage one event, one segment, or the leads, can begin:
// each costs the transaction that stores the event or the lead, or sees who enters the segment.
const MaxEntryRules = 50

// Occasion is what may begin journeys by itself.
type Occasion struct {
	Kind    EntryKind // EntryEvent, EntryLeadCreated, EntryLeadChanged or EntrySegment
	Lead    Lead      // as it is stored
	Event   *Event    // of EntryEvent
	Segment string    // of EntrySegment: its id
	Changed []string  // of EntryLeadChanged: fields, custom ones as customFields.NAME
	At      time.Time
}

// EntryDecision says whether an occasion begins a journey.
type EntryDecision struct {
	Enters bool
	Key    string // the entry key, if it does
	// Failed says that it does not because a condition or an entry key could not be evaluated.
	Failed bool
	Reason string // without personal data
	// Reentry is the journey's rule.
	Reentry Reentry
}

// MaxEntryKey is how many characters an entry key has.
const MaxEntryKey = 128

// CheckEntryKey notes what is wrong with an entry key.
func CheckEntryKey(p *Problems, key string) {
	switch {
	case utf8.RuneCountInString(key) > MaxEntryKey:
		p.Add(DetailTooLong, "entryKey", "must be at most %d characters", MaxEntryKey)
	case strings.ContainsFunc(key, unicode.IsControl):
		p.Add(DetailInvalidFormat, "entryKey", "must not contain control characters")
	}
}
