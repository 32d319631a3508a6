package journey

import (
	"cmp"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost"
	"waypost/journey/nodes"
)

// NodeType says what a node does. Package nodes describes each type, kind.go does what it says.
type NodeType string

// The types of nodes that code asks for.
const (
	Touchpoint   NodeType = "touchpoint"   // sends one message through a webhook
	Delay        NodeType = "delay"        // waits for a length of time
	WaitForEvent NodeType = "waitForEvent" // waits for an event of the lead, or until its time is over
	WaitFor      NodeType = "waitFor"      // waits until a condition is true, or until its time is over
	WaitUntil    NodeType = "waitUntil"    // waits for a time of day, or for a date of the lead
	Branch       NodeType = "branch"       // takes the first case whose condition is true
	Split        NodeType = "split"        // takes an arm by chance, for one lead always the same
	Enroll       NodeType = "enroll"       // enrolls the lead in another journey
	UpdateLead   NodeType = "updateLead"   // sets fields of the lead
	Emit         NodeType = "emit"         // stores an event of the lead
	Exit         NodeType = "exit"         // ends the journey
)

// Node is one step of a journey. Which members it has depends on its type;
// references to other nodes are empty where the journey ends.
type Node struct {
	ID   string   `json:"id,omitempty"`
	Type NodeType `json:"type"`

	Label string `json:"label,omitempty"` // what people call the node
	Note  string `json:"note,omitempty"`  // what they say about it

	Webhook string           `json:"webhook,omitempty"` // touchpoint: the webhook's id
	Params  map[string]Param `json:"params,omitempty"`  // touchpoint: override the webhook's

	For string `json:"for,omitempty"` // delay: a duration as it was written

	Event   string    `json:"event,omitempty"`   // waitForEvent, emit: the name of the event
	When    string    `json:"when,omitempty"`    // waitForEvent: a CEL condition on the event, empty takes every one; waitFor: one on the lead
	Events  []Awaited `json:"events,omitempty"`  // waitForEvent: several, instead of Event, When and Next
	Timeout string    `json:"timeout,omitempty"` // waitForEvent, waitFor: how long, a duration as it was written
	Since   string    `json:"since,omitempty"`   // waitForEvent: from when on events count, see SinceEnrollment

	Time     string   `json:"time,omitempty"`     // waitUntil: HH:MM
	Timezone string   `json:"timezone,omitempty"` // waitUntil: IANA name; empty is the lead's customFields.timezone, else UTC
	Weekdays []string `json:"weekdays,omitempty"` // waitUntil: mon to sun; empty is every day
	Lead     string   `json:"lead,omitempty"`     // waitUntil: the lead's date that it counts from, see NextInstant
	Offset   string   `json:"offset,omitempty"`   // waitUntil: how long after that date, a duration with or without a sign

	Arms   []Arm   `json:"arms,omitempty"`   // split
	Winner *Winner `json:"winner,omitempty"` // split: when the better arm takes all; nil: never

	Journey string `json:"journey,omitempty"` // enroll: the journey's id

	Set        map[string]Param `json:"set,omitempty"`        // updateLead: by field, as waypost.LeadPatch has them
	Properties map[string]Param `json:"properties,omitempty"` // emit: of the event

	Cases     []Case `json:"cases,omitempty"`     // branch
	Otherwise string `json:"otherwise,omitempty"` // branch: where no case is true

	Next      string `json:"next,omitempty"`      // all types but branch, split and exit
	OnFailure string `json:"onFailure,omitempty"` // touchpoint, updateLead, emit: empty goes on with Next
	OnTimeout string `json:"onTimeout,omitempty"` // waitForEvent, waitFor: empty goes on with Next
	OnMissed  string `json:"onMissed,omitempty"`  // waitUntil: where there is no such date of the lead to wait for; empty ends the enrollment

	Comments Comments `json:"comments,omitempty"`
}

// sinceEnrollment is the one value that Since may have.
const sinceEnrollment = "enrollment"

// SinceEnrollment tells whether a waitForEvent takes events from the acceptance of the
// enrollment on; otherwise it takes events from the entry of the node on.
func (n Node) SinceEnrollment() bool { return n.Since == sinceEnrollment }

// Awaited is an event that a waitForEvent waits for.
type Awaited struct {
	Event string `json:"event,omitempty"`
	When  string `json:"when,omitempty"` // a CEL condition on the event; empty takes every one
	Next  string `json:"next,omitempty"`

	Comments Comments `json:"comments,omitempty"`
}

// awaited lists the events that a waitForEvent waits for: Events, or its only one.
func (n Node) awaited() []Awaited {
	if len(n.Events) > 0 {
		return n.Events
	}
	return []Awaited{{Event: n.Event, When: n.When, Next: n.Next}}
}

// Awaits lists the names of the events that a waitForEvent waits for, each once; it is
// empty for other nodes.
func (n Node) Awaits() []string {
	var names []string
	if n.Type != WaitForEvent {
		return nil
	}
	for _, a := range n.awaited() {
		if !slices.Contains(names, a.Event) {
			names = append(names, a.Event)
		}
	}
	return names
}

// Case is one arm of a branch.
type Case struct {
	When string `json:"when,omitempty"` // a CEL condition
	Next string `json:"next,omitempty"`

	Comments Comments `json:"comments,omitempty"`
}

// Arm is one arm of a split; its share of the leads is its weight by the sum of
// all.
type Arm struct {
	Weight int    `json:"weight,omitempty"` // see nodes.Member
	Next   string `json:"next,omitempty"`

	Comments Comments `json:"comments,omitempty"`
}

// Winner says when a split compares its arms, to send everybody to the better one from then
// on: After or Leads is given.
type Winner struct {
	By    string `json:"by,omitempty"`    // goal
	After string `json:"after,omitempty"` // since the first enrollment took an arm, a duration as it was written
	Leads int    `json:"leads,omitempty"` // enrollments that took an arm
}

// byGoal is the one value that Winner.By may have.
const byGoal = "goal"

// Weights lists the weights of a split's arms.
func (n Node) Weights() []int {
	out := make([]int, len(n.Arms))
	for i, a := range n.Arms {
		out[i] = a.Weight
	}
	return out
}

// minWait is the shortest delay or timeout: times have milliseconds
// (docs/contract.md, "Values"), so anything shorter would be no wait at all.
const minWait = time.Millisecond

// Description says what there is to say of the node's type.
func (n Node) Description() *nodes.Type { return nodes.Of(string(n.Type)) }

// Holding tells whether enrollments can wait at the node, and so be moved from it to another
// version.
func (n Node) Holding() bool { return n.Description().Waits != "" }

// nodeFields are the members of a node by their names, and the names in the canonical order.
var nodeFields, nodeMembers = func() (fields map[string][]int, names []string) {
	fields = map[string][]int{}
	for _, f := range reflect.VisibleFields(reflect.TypeFor[Node]()) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		fields[name], names = f.Index, append(names, name)
	}
	return fields, names
}()

// text returns a member that is a text: the id of a node, a condition, a duration, ….
func (n Node) text(member string) string {
	return reflect.ValueOf(n).FieldByIndex(nodeFields[member]).String()
}

// limit is the most of a member that a node of its type may have.
func (n Node) limit(member string) int { return n.Description().Member(member).Max }

// wait reads For or Timeout: how long an enrollment stays at a node that waits.
func (n Node) wait() (time.Duration, error) {
	d, err := waypost.ParseDuration(cmp.Or(n.For, n.Timeout))
	return time.Duration(d), err
}

// conditions lists the sources of the node's conditions: one for each case of a
// branch, or for each event of a waitForEvent, "" for one that has none; or its own.
func (n Node) conditions() []string {
	var out []string
	for _, c := range n.Cases {
		out = append(out, c.When)
	}
	switch t := n.Description(); {
	case t.Waits == nodes.ForEvent:
		for _, a := range n.awaited() {
			out = append(out, a.When)
		}
	case t.Member("when").Kind == nodes.Condition:
		out = append(out, n.When)
	}
	return out
}

// Asks tells whether the node has a condition.
func (n Node) Asks() bool {
	return slices.ContainsFunc(n.conditions(), func(when string) bool { return when != "" })
}

// edge is a reference to a node that follows; member is its path below the node.
type edge struct{ member, to string }

// edges lists what follows the node, in the order of its type's members. An end of
// the journey is no edge.
func (n Node) edges() []edge {
	var out []edge
	add := func(member, to string) {
		if to != "" {
			out = append(out, edge{member, to})
		}
	}
	for _, m := range n.Description().Members {
		switch m.Kind {
		case nodes.Way:
			add(m.Name, n.text(m.Name))
		case nodes.List:
			list := reflect.ValueOf(n).FieldByIndex(nodeFields[m.Name])
			for i := range list.Len() {
				add(element(m.Name, i)+".next", list.Index(i).FieldByName("Next").String())
			}
		}
	}
	return out
}

// Ways lists the ways on from the node, in the order of the definition, also those that end the
// journey. An event that is awaited twice can be the same way twice.
func (n Node) Ways() []waypost.Edge {
	var ways []waypost.Edge
	for i := range n.Events {
		ways = append(ways, n.eventWay(i))
	}
	for i := range n.Cases {
		ways = append(ways, n.caseWay(i))
	}
	for i := range n.Arms {
		ways = append(ways, n.armWay(i))
	}
	several := len(n.Events) > 0 // each has a next of its own
	for _, m := range n.Description().Members {
		if m.Kind != nodes.Way || several && m.Name == waypost.WayNext {
			continue
		}
		to, always := n.text(m.Name), m.Else == "" || several
		if m.With != "" {
			always = n.text(m.With) != ""
		}
		if to != "" || always {
			ways = append(ways, waypost.Edge{Way: m.Name, Next: to})
		}
	}
	return ways
}

func (n Node) next() waypost.Edge { return waypost.Edge{Way: waypost.WayNext, Next: n.Next} }

// missed is the way of a lead that has no date to wait for: not Next, which may hold a message for
// the date.
func (n Node) missed() waypost.Edge {
	if n.Lead == "" {
		return n.next()
	}
	return waypost.Edge{Way: waypost.WayOnMissed, Next: n.OnMissed}
}

// wayOr is the way of a member, or next where the member is absent: that is then the way. A
// waitForEvent with several events has no next.
func (n Node) wayOr(member, to string) waypost.Edge {
	if to == "" && len(n.Events) == 0 {
		return n.next()
	}
	return waypost.Edge{Way: member, Next: to}
}

func (n Node) caseWay(i int) waypost.Edge {
	return waypost.Edge{Way: waypost.WayCase + strconv.Itoa(i), Next: n.Cases[i].Next}
}

func (n Node) armWay(i int) waypost.Edge {
	return waypost.Edge{Way: waypost.WayArm + strconv.Itoa(i), Next: n.Arms[i].Next}
}

func (n Node) eventWay(i int) waypost.Edge {
	return waypost.Edge{Way: waypost.WayEvent + n.Events[i].Event, Next: n.Events[i].Next}
}
