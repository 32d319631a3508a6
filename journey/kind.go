package journey

import (
	"context"
	"time"

	"waypost"
	"waypost/journey/nodes"
)

// kind is what is done at the nodes of a type, each in a file of its own; what can be told of a type is in
// package nodes.
type kind interface {
	// check reports what is wrong with the members of node i, besides its references to other nodes.
	check(c *checker, i int, n Node, path string)
	// take moves the state by an input that comes in a phase of the type; one that the node does not expect is an error.
	take(r *stepper, n Node, in Input) error
	// decide says how the lead of the facts goes on at a node that is decided by what is known of it.
	decide(d *Definition, n Node, f Facts, now time.Time) Input
	// answer carries out a command in a dry run: it returns the next input, or sets a limit.
	answer(ctx context.Context, s *simulation, n Node, c Command) (Input, error)
	// waits tells whether an enrollment always spends time at the node: a loop needs such a node.
	waits(n Node) bool
	// waitsOn tells whether an enrollment that goes on by an edge of the node has spent time there.
	waitsOn(n Node, member string) bool
	// sameWait tells whether two nodes wait for the same time.
	sameWait(a, b Node) bool
}

// nodeKinds are those types at which something is done. All others of nodes.All pass.
var nodeKinds = map[NodeType]kind{
	Touchpoint:   touchpoint{},
	Delay:        delay{},
	WaitUntil:    waitUntil{},
	WaitForEvent: waitForEvent{},
	WaitFor:      waitFor{},
	Branch:       branch{},
	Split:        split{},
	Enroll:       enroll{},
	UpdateLead:   updateLead{},
	Emit:         emit{},
}

func kindOf(t NodeType) kind {
	if k, ok := nodeKinds[t]; ok {
		return k
	}
	return passing{}
}

// passing goes on by next as soon as somebody comes. It is also what the other kinds have of all kinds.
type passing struct{}

// check checks the members of which a value by itself tells whether it is right. Conditions come last: what they
// cost is not spent on a journey that is refused anyway.
func (passing) check(c *checker, i int, n Node, path string) {
	for _, m := range n.Description().Members {
		value, at := "", path+"."+m.Name
		switch m.Kind {
		case nodes.Webhook, nodes.Journey, nodes.Duration, nodes.Event, nodes.Clock, nodes.Zone:
			value = n.text(m.Name)
		}
		if value == "" && !m.Required {
			continue
		}
		switch m.Kind {
		case nodes.Webhook:
			c.webhook(value, at)
		case nodes.Journey:
			c.journey(value, at)
		case nodes.Duration:
			c.wait(value, at)
		case nodes.Event:
			c.eventName(value, at)
		case nodes.Clock:
			c.clock(value, at)
		case nodes.Zone:
			c.zone(value, at)
		}
	}
	if m := n.Description().Member("when"); m.Kind == nodes.Condition && (m.Required || n.When != "") && c.room(path+".when", n.When) {
		c.condition(n.When, c.d.conditions[i]()[0], path+".when")
	}
}

func (passing) take(r *stepper, n Node, in Input) error {
	if in.Kind != InputDecided {
		return r.unexpected(n, in)
	}
	return r.leave(n, waypost.WhatTook, in.Reason, "passed", n.next())
}

func (passing) decide(*Definition, Node, Facts, time.Time) Input { return Input{} }

func (passing) answer(_ context.Context, s *simulation, n Node, _ Command) (Input, error) {
	facts := s.facts
	facts.Record = facts.recordAt(context.Background(), s.record(s.now), s.now)
	return s.d.DecideAt(n.ID, facts, s.now)
}

func (passing) waits(n Node) bool { return n.Description().Waits != "" }

func (passing) waitsOn(n Node, _ string) bool { return kindOf(n.Type).waits(n) }

func (passing) sameWait(a, b Node) bool {
	if n := a.Description(); n.Enters != PhaseWait && n.Enters != PhaseAwait {
		return false
	}
	before, err := a.wait()
	after, err2 := b.wait()
	return err == nil && err2 == nil && before == after
}
