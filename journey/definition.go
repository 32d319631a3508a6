package journey

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"waypost"
	"waypost/journey/liquid"
)

// Limits of a definition; package nodes has those of the members of nodes.
const (
	MaxDefinition    = 256 << 10 // bytes of the canonical form
	MaxNodes         = 200
	MaxConditions    = 1000 // of the entry, the goal and all nodes
	MaxExits         = 20
	MaxCap           = 1000 // touchpoints of a frequency cap
	MaxName          = 200
	MaxDescription   = 2000     // characters
	MaxLabel         = 100      // characters of a node's
	MaxNote          = 2000     // characters of a node's
	MaxCondition     = 4096     // characters of one CEL condition
	MaxConditionText = 32 << 10 // bytes of all conditions: compiling them is what takes publishing its time
	MaxTemplate      = 8 << 10  // bytes of one Liquid template
	MaxComment       = 10_000   // characters of one comment above, beside or below
	MaxCommentPath   = 500      // characters

	MaxCapPeriod = 366 * 24 * time.Hour // of a frequency cap, which is at least a second
	MaxOffset    = 366 * 24 * time.Hour // of a waitUntil, either way
	MaxWithin    = 90 * 24 * time.Hour  // of a goal, which is at least a second
	MaxAfter     = 366 * 24 * time.Hour // of a winner, which is at least a second
	MaxWait      = 876_000 * time.Hour  // of a waitUntil from when it is reached; durations end there too
)

// Definition is a parsed journey. It is immutable and safe for concurrent use.
// What it compiles (conditions, templates) it keeps: callers that use one
// version often should keep the Definition.
type Definition struct {
	body      body
	canonical []byte
	bare      []byte         // see Bare
	index     map[string]int // of the first node of each id

	conditions []func() []condition   // beside body.Nodes; compiled by the first call
	entries    []func() compiledEntry // beside body.Entry; compiled by the first call
	goal       func() goalPrograms    // compiled by the first call
	templates  *lru.Cache[string, *liquid.Template]
}

// body is the definition as it is written; the order of the members is the
// canonical one.
type body struct {
	Name         string        `json:"name,omitempty"`
	Description  string        `json:"description,omitempty"`
	Tags         []string      `json:"tags,omitempty"`
	Start        string        `json:"start,omitempty"`
	Entry        []entry       `json:"entry,omitempty"`
	Reentry      *reentry      `json:"reentry,omitempty"`
	ExitOn       []exitOn      `json:"exitOn,omitempty"`
	Goal         *Goal         `json:"goal,omitempty"`
	ControlGroup float64       `json:"controlGroup,omitempty"`
	QuietHours   *QuietHours   `json:"quietHours,omitempty"`
	FrequencyCap *frequencyCap `json:"frequencyCap,omitempty"`
	Nodes        []Node        `json:"nodes,omitempty"`
	Comments     Comments      `json:"comments,omitempty"`
}

type reentry struct {
	Policy waypost.ReentryPolicy `json:"policy,omitempty"`
	Every  string                `json:"every,omitempty"`
}

// exitOn has one of Event and Segment.
type exitOn struct {
	Event   string `json:"event,omitempty"`
	Segment string `json:"segment,omitempty"` // the id of one that the lead enters
	On      string `json:"on,omitempty"`      // of a segment: onEnter

	Comments Comments `json:"comments,omitempty"`
}

type frequencyCap struct {
	Touchpoints int    `json:"touchpoints,omitempty"`
	Per         string `json:"per,omitempty"`
}

// QuietHours is the part of each day in which no touchpoint goes out: from From
// until To, which is on the next day if it is not later. See QuietUntil.
type QuietHours struct {
	From string `json:"from,omitempty"` // HH:MM
	To   string `json:"to,omitempty"`   // HH:MM, exclusive
	// Timezone is the IANA name of the zone of leads whose customFields.timezone names
	// none; UTC if it is empty.
	Timezone string `json:"timezone,omitempty"`
}

// Name returns the journey's name.
func (d *Definition) Name() string { return d.body.Name }

// Start returns the id of the node that an enrollment begins with.
func (d *Definition) Start() string { return d.body.Start }

// Nodes returns the nodes in the order of the definition.
func (d *Definition) Nodes() []Node { return slices.Clone(d.body.Nodes) }

// Node returns the node of this id, and whether there is one.
func (d *Definition) Node(id string) (Node, bool) {
	i, ok := d.index[id]
	if !ok {
		return Node{}, false
	}
	return d.body.Nodes[i], true
}

// Reentry says when a lead may enter again; afterExit where the definition does
// not say. In a definition that Check refuses, Policy can be unknown, and Every
// is zero where it is no duration.
func (d *Definition) Reentry() waypost.Reentry {
	r := value(d.body.Reentry)
	every, _ := waypost.ParseDuration(r.Every)
	return waypost.Reentry{Policy: cmp.Or(r.Policy, waypost.ReentryAfterExit), Every: every}
}

// ExitOn returns the names of the events that end an enrollment wherever it
// stands, in the order of the definition.
func (d *Definition) ExitOn() []string {
	names := []string{}
	for _, e := range d.body.ExitOn {
		if e.Segment == "" {
			names = append(names, e.Event)
		}
	}
	return names
}

// Exits tells whether events or segments end an enrollment wherever it stands.
func (d *Definition) Exits() bool { return len(d.body.ExitOn) > 0 }

// SegmentAt is a segment that a definition names.
type SegmentAt struct{ Path, ID string }

// EnteredSegments returns the segments that begin the journey, or end an enrollment, once a
// lead enters them, in the order of the definition.
func (d *Definition) EnteredSegments() (list []SegmentAt) {
	for i, e := range d.body.Entry {
		if e.Segment != "" {
			list = append(list, SegmentAt{element("entry", i) + ".segment", e.Segment})
		}
	}
	for i, e := range d.body.ExitOn {
		if e.Segment != "" {
			list = append(list, SegmentAt{element("exitOn", i) + ".segment", e.Segment})
		}
	}
	return list
}

// QuietHours returns the quiet hours; the zero value is none.
func (d *Definition) QuietHours() QuietHours { return value(d.body.QuietHours) }

// FrequencyCap returns the frequency cap; the zero value is none. In a definition
// that Check refuses it can be out of bounds, and Per is zero where it is no
// duration.
func (d *Definition) FrequencyCap() waypost.FrequencyCap {
	c := value(d.body.FrequencyCap)
	per, _ := waypost.ParseDuration(c.Per)
	return waypost.FrequencyCap{Touchpoints: c.Touchpoints, Per: per}
}

// Journeys returns the ids of the journeys that enroll nodes name, sorted, each
// once.
func (d *Definition) Journeys() []string {
	return d.named(func(n Node) string { return n.Journey })
}

// Webhooks returns the ids of the webhooks that touchpoints name, sorted, each
// once.
func (d *Definition) Webhooks() []string {
	return d.named(func(n Node) string { return n.Webhook })
}

func (d *Definition) named(by func(Node) string) []string {
	var ids []string
	for _, n := range d.body.Nodes {
		if id := by(n); id != "" {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}

// Canonical returns the definition as JSON whose members stand in a fixed order
// without white space: two drafts that say the same have the same canonical form,
// and Parse reads it back.
func (d *Definition) Canonical() []byte { return slices.Clone(d.canonical) }

// Bare returns Canonical without what only people read: description, tags, comments, and the
// nodes' labels and notes. A journey runs by it alone.
func (d *Definition) Bare() []byte { return slices.Clone(d.bare) }

// Copy returns the definition under another name. Where ids has the webhook or the journey
// of a node, the copy names what ids says instead.
func (d *Definition) Copy(name string, ids map[string]string) (*Definition, error) {
	c := &Definition{body: d.body, templates: newTemplates()}
	c.body.Name, c.body.Nodes = name, slices.Clone(d.body.Nodes)
	for i := range c.body.Nodes {
		n := &c.body.Nodes[i]
		n.Webhook, n.Journey = cmp.Or(ids[n.Webhook], n.Webhook), cmp.Or(ids[n.Journey], n.Journey)
	}
	return c, c.finish()
}

// Hash returns the SHA-256 of Canonical in lower-case hex.
func (d *Definition) Hash() string {
	sum := sha256.Sum256(d.canonical)
	return hex.EncodeToString(sum[:])
}
