package waypost

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Segment is a condition that leads meet or not (docs/segments.md).
type Segment struct {
	ID        string
	Name      string
	When      string // CEL
	CreatedAt time.Time
	UpdatedAt time.Time
}

// Bounds of segments.
const (
	MaxSegments    = 500  // of a stage
	MaxSegmentName = 100  // characters
	MaxSegmentWhen = 4096 // characters, as those of a journey's condition
)

// Validate reports everything that is wrong with a segment as one BadRequest, but for what
// its condition says.
func (s *Segment) Validate() error {
	var p Problems
	checkRequired(&p, "name", s.Name, MaxSegmentName)
	CheckSegmentWhen(&p, s.When)
	return p.Err("segment")
}

// CheckSegmentWhen reports a condition that is blank or too long, and whether it is neither.
func CheckSegmentWhen(p *Problems, when string) (ok bool) {
	switch {
	case strings.TrimSpace(when) == "":
		p.Add(DetailNullValue, "when", "is missing or blank")
	case utf8.RuneCountInString(when) > MaxSegmentWhen:
		p.Add(DetailTooLong, "when", "must be at most %d characters", MaxSegmentWhen)
	default:
		return true
	}
	return false
}

// SegmentCount is how many leads were in a segment.
type SegmentCount struct {
	Count  int
	At     time.Time
	Sample []int64 // some of them, ascending
}

// MaxRecordedEvents is how many events of a name conditions see of a lead: the newest.
const MaxRecordedEvents = 1000

// LeadRecord is what Waypost has recorded of a lead, as far as conditions ask for it.
type LeadRecord struct {
	Events map[string][]RecordedEvent // by name, oldest first: the newest MaxRecordedEvents
	// EventDays are events that are known by day alone, as Events: of each day the first one, and the
	// others as if they had all occurred with the last. They stand for Events where Ages.Far.
	EventDays map[string][]RecordedEvent
	Ages      EventAges
	Entered   map[string]bool      // by journey: the lead was enrolled in it
	Delivered map[JourneyNode]bool // the lead got a message of it
	Segments  map[string]bool      // by id: the lead is in it
}

// RecordedEvent is an event of a lead's record.
type RecordedEvent struct {
	At         time.Time // when it occurred
	Properties map[string]any
}

// JourneyNode is a node of a journey, in whatever version.
type JourneyNode struct{ JourneyID, NodeID string }

// RecordNeeds is what conditions ask of a lead's record.
type RecordNeeds struct {
	Events    []EventNeed // each once
	Entered   []string
	Delivered []JourneyNode
	Segments  []string
}

// EventNeed is what conditions ask of a lead's events of a name.
type EventNeed struct {
	Name   string
	Window time.Duration // 0: all
	Use    EventUse
}

// EventUse is what conditions read of events.
type EventUse int

// What conditions read of events.
const (
	EventTimes EventUse = iota // how many there are
	EventLast                  // the newest one
	EventAll
)

// None tells whether nothing is asked.
func (n RecordNeeds) None() bool {
	return len(n.Events)+len(n.Entered)+len(n.Delivered)+len(n.Segments) == 0
}

// Journeys are the ids of the journeys that are asked about.
func (n RecordNeeds) Journeys() []string {
	ids := slices.Clone(n.Entered)
	for _, node := range n.Delivered {
		ids = append(ids, node.JourneyID)
	}
	return union(ids, nil)
}

// Add adds what others ask.
func (n *RecordNeeds) Add(other RecordNeeds) {
	if other.None() {
		return
	}
	for _, e := range other.Events {
		i, found := slices.BinarySearchFunc(n.Events, e, func(a, b EventNeed) int {
			return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Window, b.Window), cmp.Compare(a.Use, b.Use))
		})
		if !found {
			n.Events = slices.Insert(slices.Clip(n.Events), i, e)
		}
	}
	n.Entered = union(n.Entered, other.Entered)
	n.Segments = union(n.Segments, other.Segments)
	for _, node := range other.Delivered {
		if !slices.Contains(n.Delivered, node) {
			n.Delivered = append(n.Delivered, node)
		}
	}
}

func union(a, b []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(slices.Concat(a, b))))
}

// Clock is how time alone can change what a condition says.
type Clock struct {
	Windows []EventNeed // when events leave them
	Days    bool        // at midnight in the lead's zone
	Minutes bool        // at any time
}

// None tells whether time alone cannot change it.
func (c Clock) None() bool { return len(c.Windows) == 0 && !c.Days && !c.Minutes }

// Add adds how time changes another condition.
func (c *Clock) Add(other Clock) {
	c.Windows = append(c.Windows, other.Windows...)
	c.Days, c.Minutes = c.Days || other.Days, c.Minutes || other.Minutes
}

// SegmentRule is a compiled segment, which tells whether a lead is in it at a time. The record has what
// Needs says, also in which of the segments the lead is that it names. Clock is without those.
type SegmentRule interface {
	Needs(whole bool) RecordNeeds
	Clock() Clock
	Has(ctx context.Context, lead *Lead, record *LeadRecord, now time.Time, whole bool) bool
}
