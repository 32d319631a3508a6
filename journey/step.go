package journey

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/journey/nodes"
)

// maxReason bounds the reason of a timeline entry, in bytes.
const maxReason = 500

// Step takes one input and says what the enrollment needs next. It is pure: the
// same arguments always give the same results, and the state that it is given is
// left alone. It fails only for an input that the state does not expect (an
// enrollment that has ended expects none) and for a definition that lacks the
// node or cannot be run; the state that it returns is then the one that it was
// given.
func Step(d *Definition, s State, in Input) (State, Effect, error) {
	r := stepper{d: d, s: s, at: in.At.UTC().Round(0)}
	if err := r.take(in); err != nil {
		return s, Effect{}, err
	}
	return r.s, r.effect, nil
}

type stepper struct {
	d      *Definition
	s      State
	at     time.Time
	effect Effect
}

// take moves the state by an input: one that is valid at any node, or one of the node at
// which the enrollment stands. Any other is an error.
func (r *stepper) take(in Input) error {
	if in.Kind == InputStart && r.s.Phase == "" {
		return r.begin(r.d.Start(), "")
	}
	if in.Kind == InputCanceled && r.s.Phase != PhaseDone {
		r.stop(waypost.EnrollmentCanceled)
		return nil
	}
	if in.Kind == InputExited && r.s.Phase != PhaseDone {
		r.stop(waypost.EnrollmentExited)
		r.record(r.s.Node, waypost.WhatExited, "", in.Reason)
		return nil
	}
	if in.Kind == InputFailed && r.s.Phase == PhaseDecide {
		r.record(r.s.Node, waypost.WhatFailed, "", in.Reason)
		r.passed(r.s.Node, "failed")
		r.stop(waypost.EnrollmentFailed)
		return nil
	}
	if in.Kind == InputMoved && r.s.EnrollmentStatus() == waypost.EnrollmentWaiting {
		return r.moved(in)
	}
	if r.s.Phase == "" || r.s.Phase == PhaseDone {
		return fmt.Errorf("unexpected input %q in phase %q", in.Kind, r.s.Phase)
	}
	n, ok := r.d.Node(r.s.Node)
	if !ok {
		return lacks(r.s.Node)
	}
	return r.takeAt(n, in)
}

// takeAt moves the state by an input that a node of that type expects in the phase of the
// state; any other is an error.
func (r *stepper) takeAt(n Node, in Input) error {
	switch t := n.Description(); {
	case r.s.Phase == t.Enters, r.s.Phase == PhaseWait && t.Waits == nodes.ForClock:
		return kindOf(n.Type).take(r, n, in)
	}
	return r.unexpected(n, in)
}

func (r *stepper) unexpected(n Node, in Input) error {
	return fmt.Errorf("unexpected input %q in phase %q at a node of type %s", in.Kind, r.s.Phase, n.Type)
}

func lacks(node string) error {
	return fmt.Errorf("the definition has no node %q", waypost.Clip(node, 64))
}

// begin enters a node that no other one leads to. Its entry is written even where
// entering a node says nothing: a timeline always begins with one.
func (r *stepper) begin(id, why string) error {
	n, ok := r.d.Node(id)
	if enters := n.Description().Enters; ok && enters != PhaseWait && enters != PhaseAwait {
		r.record(n.ID, waypost.WhatEntered, "", why)
	}
	return r.enter(id, why)
}

// stop ends the enrollment where it stands. It writes no entry: the request that
// canceled it has written one.
func (r *stepper) stop(status waypost.EnrollmentStatus) {
	r.s.Until = time.Time{}
	r.s.Phase, r.s.Status = PhaseDone, status
}

// moved goes on at a node of the definition, which is not the one that the state
// comes from. A wait that goes on has its own end.
func (r *stepper) moved(in Input) error {
	r.passed(r.s.Node, "moved")
	r.s.Until = time.Time{}
	if in.Until.IsZero() {
		return r.begin(in.Node, in.Reason)
	}
	n, ok := r.d.Node(in.Node)
	if !ok {
		return lacks(in.Node)
	}
	if !n.Holding() {
		return fmt.Errorf("no wait can go on at node %q of type %s", n.ID, n.Type)
	}
	r.s.Node = n.ID
	r.s.Visit++
	return r.wait(n, in.Until.UTC().Round(0), in.Reason)
}

// leave records the result of a node and enters the next one.
func (r *stepper) leave(n Node, what, reason, result string, way waypost.Edge) error {
	r.record(n.ID, what, way.Next, reason)
	r.effect.Entries[len(r.effect.Entries)-1].Way = way.Way
	r.passed(n.ID, result)
	r.s.Until = time.Time{}
	if way.Next == "" {
		r.end(n.ID, "no next node")
		return nil
	}
	return r.enter(way.Next, "")
}

// enter begins an execution of a node. The entry of a node that waits at once says
// why, if there is something to say.
func (r *stepper) enter(id, why string) error {
	n, ok := r.d.Node(id)
	if !ok {
		return lacks(id)
	}
	r.s.Node = n.ID
	r.s.Visit++
	command := Command{Node: n.ID, Visit: r.s.Visit}
	switch enters := n.Description().Enters; enters {
	case PhaseSend:
		r.s.Phase, command.Kind = enters, CommandSend
	case PhaseDecide:
		r.s.Phase, command.Kind = enters, CommandDecide
	case PhaseWait, PhaseAwait:
		wait, err := n.wait()
		if err != nil {
			return fmt.Errorf("node %q: %w", n.ID, err)
		}
		return r.wait(n, r.at.Add(wait), why)
	case PhaseDone:
		r.passed(n.ID, "exited")
		r.end(n.ID, "")
		return nil
	default:
		return fmt.Errorf("node %q is of unknown type %q", n.ID, n.Type)
	}
	r.effect.Command = command
	return nil
}

// wait begins to wait at the node that the state says.
func (r *stepper) wait(n Node, until time.Time, why string) error {
	if until.Year() > 9999 {
		return fmt.Errorf("node %q waits beyond the year 9999", n.ID)
	}
	kind := CommandWait
	r.s.Phase = PhaseWait
	reason := "until " + until.UTC().Format(waypost.TimeFormat)
	t := n.Description()
	if t.Enters == PhaseAwait {
		r.s.Phase, kind = PhaseAwait, CommandAwait
	}
	if t.Waits == nodes.ForEvent {
		reason = "event " + waypost.Clip(strings.Join(n.Awaits(), " or "), maxWhy) + " " + reason
	}
	switch {
	case why != "" && n.birthday():
		reason = why
	case why != "":
		reason = why + "; " + reason
	}
	r.s.Until = until
	r.record(n.ID, waypost.WhatEntered, "", reason)
	r.effect.Command = Command{Kind: kind, Node: n.ID, Visit: r.s.Visit, Until: until}
	return nil
}

// end completes the enrollment.
func (r *stepper) end(node, reason string) {
	r.s.Phase, r.s.Status = PhaseDone, waypost.EnrollmentCompleted
	r.record(node, waypost.WhatExited, "", reason)
}

func (r *stepper) record(node, what, next, reason string) {
	r.s.Seq++
	r.effect.Entries = append(r.effect.Entries, waypost.TimelineEntry{
		Seq: r.s.Seq, At: r.at, NodeID: node, What: what, Next: next, Reason: waypost.Clip(reason, maxReason),
	})
}

// passed remembers a visit. The path is copied: the state that Step was given
// may still be in use.
func (r *stepper) passed(node, result string) {
	path := r.s.Path
	if len(path) >= MaxPath {
		path = path[len(path)-MaxPath+1:]
	}
	r.s.Path = append(slices.Clone(path), Visit{Node: node, Result: result})
}
