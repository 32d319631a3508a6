package journey

import (
	"fmt"
	"slices"
	"time"

	"waypost"
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

func (r *stepper) take(in Input) error {
	if in.Kind == InputStart && r.s.Phase == "" {
		return r.start()
	}
	if in.Kind == InputCanceled && r.s.Phase != PhaseDone {
		r.stop(waypost.EnrollmentCanceled)
		return nil
	}
	if in.Kind == InputExited && r.s.Phase != PhaseDone {
		r.stop(waypost.EnrollmentExited)
		r.entry(r.s.Node, waypost.WhatExited, "", in.Reason)
		return nil
	}
	if in.Kind == InputMoved && r.s.EnrollmentStatus() == waypost.EnrollmentWaiting {
		return r.moved(in)
	}
	n, ok := r.d.Node(r.s.Node)
	switch expects := (phased{in.Kind, r.s.Phase}); {
	case r.s.Phase == "" || r.s.Phase == PhaseDone:
		return fmt.Errorf("unexpected input %q in phase %q", in.Kind, r.s.Phase)
	case !ok:
		return lacks(r.s.Node)
	case expects == phased{InputSent, PhaseSend} && n.Type == Touchpoint:
		return r.sent(n, in)
	case expects == phased{InputDeferred, PhaseSend} && n.Type == Touchpoint:
		r.entry(n.ID, waypost.WhatDeferred, "", in.Reason)
		r.effect.Command = Command{Kind: CommandSend, Node: n.ID, Visit: r.s.Visit}
		return nil
	case expects == phased{InputSkipped, PhaseSend} && n.Type == Touchpoint:
		return r.leave(n.ID, waypost.WhatSkipped, in.Reason, "skipped", n.Next)
	case expects == phased{InputDecided, PhaseDecide}:
		return r.decided(n, in)
	case expects == phased{InputElapsed, PhaseWait} && (n.Type == Delay || n.Type == WaitUntil):
		return r.leave(n.ID, waypost.WhatWaited, "", "waited", n.Next)
	case expects == phased{InputChanged, PhaseWait} && n.Type == WaitUntil:
		return r.timed(n, in)
	case expects == phased{InputMatched, PhaseAwait} && n.Type == WaitForEvent:
		return r.matched(n, in)
	case expects == phased{InputElapsed, PhaseAwait} && n.Type == WaitForEvent:
		return r.timedOut(n, in)
	}
	return fmt.Errorf("unexpected input %q in phase %q at a node of type %s", in.Kind, r.s.Phase, n.Type)
}

type phased struct {
	kind  InputKind
	phase Phase
}

func lacks(node string) error {
	return fmt.Errorf("the definition has no node %q", clip(node, 64))
}

// start enters the first node. Its entry is written even where entering a node
// says nothing, so that a timeline always begins with one.
func (r *stepper) start() error {
	n, ok := r.d.Node(r.d.Start())
	if !ok {
		return lacks(r.d.Start())
	}
	if n.Type != Delay && n.Type != WaitForEvent {
		r.entry(n.ID, waypost.WhatEntered, "", "")
	}
	return r.enter(n.ID, "")
}

func (r *stepper) sent(n Node, in Input) error {
	if in.Succeed {
		return r.leave(n.ID, waypost.WhatSent, in.Reason, "delivered", n.Next)
	}
	next := n.OnFailure
	if next == "" {
		next = n.Next
	}
	return r.leave(n.ID, waypost.WhatFailed, in.Reason, "failed", next)
}

func (r *stepper) decided(n Node, in Input) error {
	var result, next string
	switch n.Type {
	case Branch:
		return r.branched(n, in)
	case WaitUntil:
		return r.timed(n, in)
	case Split:
		if in.Arm < 0 || in.Arm >= len(n.Arms) {
			return fmt.Errorf("node %q has no arm %d", n.ID, in.Arm)
		}
		result, next = fmt.Sprintf("arm %d", in.Arm+1), n.Arms[in.Arm].Next
	case Enroll:
		result, next = "notEnrolled", n.Next
		if in.Succeed {
			result = "enrolled"
		}
	default:
		return fmt.Errorf("unexpected input %q at a node of type %s", in.Kind, n.Type)
	}
	reason := in.Reason
	if reason == "" {
		reason = result
	}
	return r.leave(n.ID, waypost.WhatTook, reason, result, next)
}

// timed waits at a waitUntil, or goes on where there is no date of the lead to wait for.
func (r *stepper) timed(n Node, in Input) error {
	if !in.Until.IsZero() {
		return r.wait(n, in.Until.UTC().Round(0), in.Reason)
	}
	next := n.OnMissed
	if next == "" {
		next = n.Next
	}
	return r.leave(n.ID, waypost.WhatSkipped, in.Reason, "skipped", next)
}

func (r *stepper) branched(n Node, in Input) error {
	if in.Arm < -1 || in.Arm >= len(n.Cases) {
		return fmt.Errorf("node %q has no case %d", n.ID, in.Arm)
	}
	result, next := "otherwise", n.Otherwise
	if in.Arm >= 0 {
		result, next = caseName(in.Arm), n.Cases[in.Arm].Next
	}
	reason := in.Reason
	if reason == "" {
		reason = result
	}
	return r.leave(n.ID, waypost.WhatTook, reason, result, next)
}

func (r *stepper) matched(n Node, in Input) error {
	reason := in.Reason
	if reason == "" {
		reason = "event " + n.Event
	}
	return r.leave(n.ID, waypost.WhatMatched, reason, "matched", n.Next)
}

func (r *stepper) timedOut(n Node, in Input) error {
	next := n.OnTimeout
	if next == "" {
		next = n.Next
	}
	return r.leave(n.ID, waypost.WhatTimedOut, in.Reason, "timedOut", next)
}

// stop ends the enrollment where it stands. It writes nothing: who canceled it has
// done so.
func (r *stepper) stop(status waypost.EnrollmentStatus) {
	r.s.Until = time.Time{}
	r.s.Phase, r.s.Status = PhaseDone, status
}

// moved goes on at a node of the definition, which is not the one that the state
// comes from. A wait that goes on has its own end.
func (r *stepper) moved(in Input) error {
	n, ok := r.d.Node(in.Node)
	if !ok {
		return lacks(in.Node)
	}
	r.passed(r.s.Node, "moved")
	r.s.Until = time.Time{}
	if in.Until.IsZero() {
		if n.Type != Delay && n.Type != WaitForEvent {
			r.entry(n.ID, waypost.WhatEntered, "", in.Reason)
		}
		return r.enter(n.ID, in.Reason)
	}
	if n.Type != Delay && n.Type != WaitUntil && n.Type != WaitForEvent {
		return fmt.Errorf("no wait can go on at node %q of type %s", n.ID, n.Type)
	}
	r.s.Node = n.ID
	r.s.Visit++
	return r.wait(n, in.Until.UTC().Round(0), in.Reason)
}

// leave writes what the node came to and enters the next one.
func (r *stepper) leave(node, what, reason, result, next string) error {
	r.entry(node, what, next, reason)
	r.passed(node, result)
	r.s.Until = time.Time{}
	if next == "" {
		r.end(node, "no next node")
		return nil
	}
	return r.enter(next, "")
}

// enter begins an execution of a node. Those that say when it will be over also
// say why it was entered, if there is something to say.
func (r *stepper) enter(id, why string) error {
	n, ok := r.d.Node(id)
	if !ok {
		return lacks(id)
	}
	r.s.Node = n.ID
	r.s.Visit++
	command := Command{Node: n.ID, Visit: r.s.Visit}
	switch n.Type {
	case Touchpoint:
		r.s.Phase, command.Kind = PhaseSend, CommandSend
	case Branch, WaitUntil, Split, Enroll:
		r.s.Phase, command.Kind = PhaseDecide, CommandDecide
	case Delay, WaitForEvent:
		wait, err := n.wait()
		if err != nil {
			return fmt.Errorf("node %q: %w", n.ID, err)
		}
		return r.wait(n, r.at.Add(wait), why)
	case Exit:
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
	reason := untilTold(until)
	if n.Type == WaitForEvent {
		r.s.Phase, kind = PhaseAwait, CommandAwait
		reason = "event " + n.Event + " " + reason
	}
	switch {
	case why != "" && n.birthday():
		reason = why
	case why != "":
		reason = why + "; " + reason
	}
	r.s.Until = until
	r.entry(n.ID, waypost.WhatEntered, "", reason)
	r.effect.Command = Command{Kind: kind, Node: n.ID, Visit: r.s.Visit, Until: until}
	return nil
}

func untilTold(t time.Time) string { return "until " + t.UTC().Format(waypost.TimeFormat) }

// end completes the enrollment.
func (r *stepper) end(node, reason string) {
	r.s.Phase, r.s.Status = PhaseDone, waypost.EnrollmentCompleted
	r.entry(node, waypost.WhatExited, "", reason)
}

func (r *stepper) entry(node, what, next, reason string) {
	r.s.Seq++
	r.effect.Entries = append(r.effect.Entries, waypost.TimelineEntry{
		Seq: r.s.Seq, At: r.at, NodeID: node, What: what, Next: next, Reason: clip(reason, maxReason),
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

// caseName names an arm as people count.
func caseName(arm int) string { return fmt.Sprintf("case %d", arm+1) }
