// Package nodes describes the types of nodes, each in a file of its own: what a node of the type may
// have, where it leads, what it waits for, what people call it. It is data: what is done at a node is in
// package journey (kind.go).
//
// What must know all types is derived from All: the members that Parse allows, the ways on, the schemas of
// gateway/openapi.yaml, the tables of docs, console/canvas/src/nodes.json, words and icons of the console,
// and what property tests draw. go generate writes those that are files; TestGenerated compares them.
package nodes

import (
	"slices"
	"strings"
)

//go:generate go test -run TestGenerated -write .

// All are the types in the order of the documentation.
var All = []*Type{
	&touchpoint, &delay, &waitUntil, &waitForEvent, &waitFor, &branch, &split, &enroll, &updateLead, &emit, &exit,
}

// Type describes a type of nodes.
type Type struct {
	Name   string // as definitions write it
	Schema string // its name in openapi.yaml
	About  string // what openapi.yaml says of it: a sentence, or nothing

	// Members are what a node may have besides id, type, label, note and comments.
	Members []Member
	Rules   string // what openapi.yaml says of its members together: lines of YAML

	Enters Phase // in which a node begins
	Waits  Wait  // what enrollments wait for at it; "" if they do not
	// Asks is what the activity that decides is called in Temporal's Web UI, of a node that begins with PhaseDecide.
	Asks string
	Acts bool // an activity of its own decides, by doing what the node says

	Title   Words // what people call the type
	Hint    Words // what it is for, in a few words
	Summary Words // what a node does, with {member} for what it has; "" if the console makes it itself
	// Timeline says what happened, by what an entry of a timeline has as "what". What is not there is said for all
	// types alike.
	Timeline map[string]Words
	// Results says what came of a visit in a dry run, by its result; likewise.
	Results map[string]Words

	Icon   string // the path of a drawing: strokes on a grid of 24
	Colour Colour
	Guide  string // what the table of docs/journeys.md says
	Rule   string // what the table of docs/contract.md says

	// Examples are the members of nodes that can be published, as JSON, without id, type and the ways on.
	Examples []string
	// Inserted are the members with which the editor begins a node, as JSON.
	Inserted string
}

// Phase says what an enrollment waits for. The empty one is an enrollment that has not started.
type Phase string

// The phases.
const (
	PhaseSend   Phase = "send"   // for the outcome of a touchpoint
	PhaseDecide Phase = "decide" // for how it goes on
	PhaseWait   Phase = "wait"   // for a time
	PhaseAwait  Phase = "await"  // for an event or a condition, or for a time without it
	PhaseDone   Phase = "done"
)

// Wait is what enrollments wait for at a node.
type Wait string

// What enrollments wait for.
const (
	ForTime      Wait = "time"      // a length of time
	ForClock     Wait = "clock"     // a time of day or a date, which a pause does not move
	ForEvent     Wait = "event"     // an event, or the end of a length of time
	ForCondition Wait = "condition" // a condition, or the end of a length of time
)

// Colour is a colour of the console.
type Colour string

// The colours.
const (
	Send   Colour = "send"
	Pause  Colour = "wait"
	Choose Colour = "choose"
	Other  Colour = "other"
	Leave  Colour = "leave"
)

// Words are a text in the languages of the console.
type Words struct {
	EN string `json:"en"`
	ZH string `json:"zh"`
}

// In returns the text in a language: en or zh.
func (w Words) In(language string) string {
	if language == "zh" {
		return w.ZH
	}
	return w.EN
}

// Member is a member of a node, of an object of its, or of an item of a list of its.
type Member struct {
	Name     string
	Kind     Kind
	Required bool
	Min, Max int      // of a Number; how many of Templates, a List or Choices
	Values   []string // that a Text or Choices can have
	Pattern  string   // of a Text
	Holds    []string // the types of JSON of the values of Templates; nil: any
	Of       []Member // of an Object, or of the items of a List
	Rules    string   // of an Object: as those of a Type

	// Else is the way of leads that would go this one, a Way, where it is not set.
	Else string
	// With is the member without which a Way is none.
	With string
	// Way is what the ways of a List are called, before a colon and the item's index (or the item's member of that name).
	Way string

	About string // what openapi.yaml says of it in a definition
	Draft string // and in a draft, beside which types have it
	Also  string // what the table of docs/contract.md says of it, beside its limits

	Label Words // what the form of a type calls a Way, where it is not what all call it
	Drawn Words // what an edge of the canvas says of a Way where the node has several
	Said  Words // what a page says of it
}

// Kind is what a member holds.
type Kind string

// The kinds of members.
const (
	Text      Kind = "text"
	Webhook   Kind = "webhook"   // the id of one
	Journey   Kind = "journey"   // the id of one
	Duration  Kind = "duration"  // as it was written
	Event     Kind = "event"     // the name of one
	Condition Kind = "condition" // in CEL
	Clock     Kind = "clock"     // HH:MM
	Zone      Kind = "zone"      // an IANA name
	Number    Kind = "number"    // an integer
	Choices   Kind = "choices"   // texts, each of Values and once
	Templates Kind = "templates" // values by name, whose texts are in Liquid
	Way       Kind = "way"       // the id of the node that follows
	Object    Kind = "object"
	List      Kind = "list" // of objects
)

// Of returns the description of a type: one without a name if there is no such type.
func Of(name string) *Type {
	for _, t := range All {
		if t.Name == name {
			return t
		}
	}
	return &Type{}
}

// Names lists the names of the types for which which is true, in their order.
func Names(which func(*Type) bool) (names []string) {
	for _, t := range All {
		if which(t) {
			names = append(names, t.Name)
		}
	}
	return names
}

// Member returns a member of the type by its name, or by its path: arms.weight. It has no name if there is no such member.
func (t *Type) Member(path string) Member { return member(t.Members, path) }

func member(of []Member, path string) Member {
	name, below, deeper := strings.Cut(path, ".")
	for _, m := range of {
		if m.Name == name && deeper {
			return member(m.Of, below)
		} else if m.Name == name {
			return m
		}
	}
	return Member{}
}

// Evaluates tells whether a node has conditions or templates, which ask for what is known of the enrollment.
func (t *Type) Evaluates() bool { return evaluates(t.Members) }

func evaluates(members []Member) bool {
	return slices.ContainsFunc(members, func(m Member) bool {
		return m.Kind == Condition || m.Kind == Templates || evaluates(m.Of)
	})
}

// next is the way that most types have.
var next = Member{Name: "next", Kind: Way, Draft: "without one the journey ends"}

// timeout is how long a node waits at most.
var timeout = Member{Name: "timeout", Kind: Duration, Required: true}
