package waypost

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Counts is what happened to the enrollments of one journey version, or of several, and
// where they stand; a change of it, if it has negative numbers. It is stored with these
// short names.
type Counts struct {
	Nodes     map[string]*NodeCounts `json:"n,omitempty"`
	Entered   int                    `json:"e,omitzero"` // enrollments that were made
	Completed int                    `json:"c,omitzero"`
	Exited    int                    `json:"x,omitzero"`
	Failed    int                    `json:"f,omitzero"`
	Canceled  int                    `json:"q,omitzero"`
	HeldOut   int                    `json:"h,omitzero"` // leads of control groups
	// Begun counts the enrollments that began by themselves, by what they began by.
	Begun     map[EntryKind]int `json:"b,omitempty"`
	Refused   int               `json:"r,omitzero"` // entries that the re-entry rule has forbidden
	Undecided int               `json:"u,omitzero"` // entries whose condition or key could not be evaluated
	// Goal and Control count enrollments that began in a version with a goal, in the interval
	// in which they began, whenever they converted.
	Goal    GoalTally `json:"g,omitzero"` // of those that were not held out
	Control GoalTally `json:"k,omitzero"` // of those that were
	// Shares are the first of them of each lead, by the share, in millionths, by which it was
	// held out or not; those without such a share are in none.
	Shares map[int64]*ShareCounts `json:"s,omitempty"`
}

// NodeCounts is the part of Counts that concerns one node. An enrollment that has not ended
// stands at one node, and is waiting, deferred or running there.
type NodeCounts struct {
	Entered   int `json:"e,omitzero"` // visits
	Waiting   int `json:"w,omitzero"`
	Running   int `json:"r,omitzero"`
	Deferred  int `json:"h,omitzero"` // the message is held back
	Delivered int `json:"d,omitzero"`
	Failed    int `json:"f,omitzero"`
	Skipped   int `json:"s,omitzero"`
	// SkippedFor counts by SkipReasons the messages among Skipped.
	SkippedFor map[string]int `json:"y,omitempty"`
	// Edges counts how often each way was taken, also those that ended the journey.
	Edges map[Edge]int `json:"x,omitempty"`
	// Arms are, of a split, what became of the enrollments that took an arm by its weight, before
	// they had converted, by its index. The first arm that an enrollment took counts.
	Arms map[int]*GoalTally `json:"a,omitempty"`
}

// Edge is a way on from a node: its name, and the node that it led to, "" where it ended the
// journey.
type Edge struct{ Way, Next string }

// The names of ways: the member of the node that names the next one, or WayCase and WayArm with
// an index, WayEvent with the name of the event.
const (
	WayNext      = "next"
	WayOnFailure = "onFailure"
	WayOnTimeout = "onTimeout"
	WayOnMissed  = "onMissed"
	WayOtherwise = "otherwise"
	WayCase      = "case:"
	WayArm       = "arm:"
	WayEvent     = "event:"
)

// MarshalText makes an edge a key in JSON. The id of a node has no blank.
func (e Edge) MarshalText() ([]byte, error) { return []byte(e.Next + " " + e.Way), nil }

// UnmarshalText reads what MarshalText writes.
func (e *Edge) UnmarshalText(text []byte) error {
	next, way, found := strings.Cut(string(text), " ")
	if !found {
		return fmt.Errorf("edge %q has no way", text)
	}
	*e = Edge{way, next}
	return nil
}

// Compare orders edges by their next node, then by their way.
func (e Edge) Compare(other Edge) int {
	return cmp.Or(cmp.Compare(e.Next, other.Next), cmp.Compare(e.Way, other.Way))
}

// Node is what is counted of a node.
func (c *Counts) Node(id string) *NodeCounts {
	n := c.Nodes[id]
	if n == nil {
		if c.Nodes == nil {
			c.Nodes = map[string]*NodeCounts{}
		}
		n = &NodeCounts{}
		c.Nodes[id] = n
	}
	return n
}

// Skip counts visits that were skipped for a reason.
func (n *NodeCounts) Skip(reason string, times int) {
	n.Skipped += times
	if slices.Contains(SkipReasons, reason) {
		n.skippedFor(reason, times)
	}
}

func (n *NodeCounts) skippedFor(reason string, times int) {
	if n.SkippedFor == nil {
		n.SkippedFor = map[string]int{}
	}
	n.SkippedFor[reason] += times
}

// Took counts that a way was taken.
func (n *NodeCounts) Took(e Edge, times int) {
	if n.Edges == nil {
		n.Edges = map[Edge]int{}
	}
	n.Edges[e] += times
}

// Arm is what is counted of an arm of a split.
func (n *NodeCounts) Arm(arm int) *GoalTally {
	if n.Arms[arm] == nil {
		if n.Arms == nil {
			n.Arms = map[int]*GoalTally{}
		}
		n.Arms[arm] = &GoalTally{}
	}
	return n.Arms[arm]
}

// Begin counts enrollments that began by themselves.
func (c *Counts) Begin(by EntryKind, n int) {
	if c.Begun == nil {
		c.Begun = map[EntryKind]int{}
	}
	c.Begun[by] += n
}

// End counts enrollments that ended with a status.
func (c *Counts) End(status EnrollmentStatus, n int) {
	switch status {
	case EnrollmentCompleted:
		c.Completed += n
	case EnrollmentExited:
		c.Exited += n
	case EnrollmentFailed:
		c.Failed += n
	case EnrollmentCanceled:
		c.Canceled += n
	}
}

// Add adds other counts so many times; -1 takes them away.
func (c *Counts) Add(other *Counts, times int) {
	c.AddFlows(other, times)
	c.AddStanding(other, times)
}

// AddFlows is Add for what has happened.
func (c *Counts) AddFlows(other *Counts, times int) {
	c.Entered += times * other.Entered
	c.Completed += times * other.Completed
	c.Exited += times * other.Exited
	c.Failed += times * other.Failed
	c.Canceled += times * other.Canceled
	c.HeldOut += times * other.HeldOut
	c.Goal.Add(other.Goal, times)
	c.Control.Add(other.Control, times)
	for share, from := range other.Shares {
		to := c.share(share)
		to.Journey.Add(from.Journey, times)
		to.Control.Add(from.Control, times)
	}
	c.Refused += times * other.Refused
	c.Undecided += times * other.Undecided
	for kind, n := range other.Begun {
		c.Begin(kind, times*n)
	}
	for id, from := range other.Nodes {
		n := c.Node(id)
		n.Entered += times * from.Entered
		n.Delivered += times * from.Delivered
		n.Failed += times * from.Failed
		n.Skipped += times * from.Skipped
		for reason, count := range from.SkippedFor {
			n.skippedFor(reason, times*count)
		}
		for e, count := range from.Edges {
			n.Took(e, times*count)
		}
		for arm, counts := range from.Arms {
			n.Arm(arm).Add(*counts, times)
		}
	}
}

// AddStanding is Add for where enrollments stand.
func (c *Counts) AddStanding(other *Counts, times int) {
	for id, from := range other.Nodes {
		n := c.Node(id)
		n.Waiting += times * from.Waiting
		n.Running += times * from.Running
		n.Deferred += times * from.Deferred
	}
}

// Trim leaves out what is zero, and tells whether anything is left.
func (c *Counts) Trim() bool {
	for id, n := range c.Nodes {
		maps.DeleteFunc(n.Edges, func(_ Edge, count int) bool { return count == 0 })
		for arm, counts := range n.Arms {
			if !counts.trim() {
				delete(n.Arms, arm)
			}
		}
		maps.DeleteFunc(n.SkippedFor, func(_ string, count int) bool { return count == 0 })
		if len(n.Edges) == 0 && len(n.SkippedFor) == 0 && len(n.Arms) == 0 && n.Entered|n.Waiting|n.Running|n.Deferred|n.Delivered|n.Failed|n.Skipped == 0 {
			delete(c.Nodes, id)
		}
	}
	maps.DeleteFunc(c.Begun, func(_ EntryKind, n int) bool { return n == 0 })
	maps.DeleteFunc(c.Shares, func(_ int64, s *ShareCounts) bool { return *s == ShareCounts{} })
	goal, control := c.Goal.trim(), c.Control.trim()
	return len(c.Nodes) > 0 || len(c.Begun) > 0 || len(c.Shares) > 0 || goal || control || c.Entered|c.Completed|c.Exited|c.Failed|c.Canceled|c.HeldOut|c.Refused|c.Undecided != 0
}

// Within leaves out what does not count within an interval of statistics: see GoalTally.Again. 0 is
// all time.
func (c *Counts) Within(every time.Duration, from time.Time) {
	for _, t := range c.goals() {
		t.within(every, from)
	}
}

// goals are all that counts for the goal.
func (c *Counts) goals() []*GoalTally {
	all := []*GoalTally{&c.Goal, &c.Control}
	for _, n := range c.Nodes {
		all = slices.AppendSeq(all, maps.Values(n.Arms))
	}
	return all
}

// Open are the leads alone that have not converted, of enrollments that still can.
func (c *Counts) Open() *Counts {
	open := &Counts{Goal: c.Goal.Open(), Control: c.Control.Open()}
	for id, n := range c.Nodes {
		for arm, t := range n.Arms {
			*open.Node(id).Arm(arm) = t.Open()
		}
	}
	return open
}

// StatisticsSpan is the length of an interval of statistics.
type StatisticsSpan string

// The spans; both begin and end at whole ones of UTC.
const (
	StatisticsHour StatisticsSpan = "hour"
	StatisticsDay  StatisticsSpan = "day"
)

// Duration is how long the span is.
func (s StatisticsSpan) Duration() time.Duration {
	if s == StatisticsDay {
		return 24 * time.Hour
	}
	return time.Hour
}

// StatisticsQuery says which statistics of a journey are asked for. The zero value of all
// but JourneyID is: of all versions and all time, without a series.
type StatisticsQuery struct {
	JourneyID string
	Version   int // 0: all
	// From and To are whole spans, and both set where Span is.
	From, To time.Time
	Span     StatisticsSpan // "": no series
}

// Statistics are the statistics of a journey by its versions. A version that nothing was
// counted of is missing.
type Statistics struct {
	Versions map[int]*Counts
	// Series has a point for each span from From to To: what happened within it, and where
	// enrollments stood at its end.
	Series []StatisticsPoint
}

// StatisticsPoint is one interval of a series.
type StatisticsPoint struct {
	From     time.Time
	Versions map[int]*Counts
}
