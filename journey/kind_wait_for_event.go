package journey

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"waypost"
)

type waitForEvent struct{ passing }

func (waitForEvent) check(c *checker, i int, n Node, path string) {
	c.wait(n.Timeout, path+".timeout")
	if n.Since != "" && !n.SinceEnrollment() {
		c.p.Add(waypost.DetailOutOfRange, path+".since", "must be enrollment, or absent: since the lead came to the node")
	}
	at := func(int) string { return path }
	if len(n.Events) > 0 {
		at = func(j int) string { return path + "." + element("events", j) }
		for _, m := range []struct{ name, value string }{{"event", n.Event}, {"when", n.When}, {"next", n.Next}} {
			if m.value != "" {
				c.p.Add(waypost.DetailOutOfRange, path+"."+m.name, "stands in each of events")
			}
		}
	}
	c.atMost(len(n.Events), n.limit("events"), path+".events", "a waitForEvent has at most %d events, not %d")
	for j, a := range n.awaited() {
		c.eventName(a.Event, at(j)+".event")
		if a.When != "" && c.room(at(j)+".when", a.When) {
			c.condition(a.When, c.d.conditions[i]()[j], at(j)+".when")
		}
	}
}

// take goes on by the event that came, or by the end of the time.
func (waitForEvent) take(r *stepper, n Node, in Input) error {
	switch in.Kind {
	case InputElapsed:
		return r.timedOut(n, in)
	case InputMatched:
	default:
		return r.unexpected(n, in)
	}
	awaited := n.awaited()
	if in.Arm < 0 || in.Arm >= len(awaited) {
		return fmt.Errorf("node %q has no event %d", n.ID, in.Arm)
	}
	result, way := "matched", n.next()
	if len(n.Events) > 0 {
		result, way = fmt.Sprintf("event %d", in.Arm+1), n.eventWay(in.Arm)
	}
	return r.leave(n, waypost.WhatMatched, cmp.Or(in.Reason, "event "+awaited[in.Arm].Event), result, way)
}

// timedOut goes on when what was waited for did not come in time.
func (r *stepper) timedOut(n Node, in Input) error {
	return r.leave(n, waypost.WhatTimedOut, in.Reason, "timedOut", n.wayOr(waypost.WayOnTimeout, n.OnTimeout))
}

// Matches returns which of the events that a waitForEvent node waits for an event is, as
// an index: the first that has its name and whose condition is true, or that has none; -1 if
// it is none of them. Facts hold the event's properties, and the time of the look at it.
// reason says why, as Decide does, such as "event purchase: event.amount > 100 → false";
// it is empty where there is no condition. It never holds a value of the event.
func (d *Definition) Matches(node, event string, f Facts) (which int, reason string) {
	i, ok := d.index[node]
	if !ok || d.body.Nodes[i].Type != WaitForEvent {
		return -1, errorPrefix + "not a wait for an event"
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxDecide)
	defer cancel()
	var vars map[string]any
	var reasons []string
	for j, a := range d.body.Nodes[i].awaited() {
		if a.Event != event {
			continue
		}
		if a.When == "" {
			return j, ""
		}
		if vars == nil {
			vars = conditionVariables(&f)
			vars[varEvent] = native(plainObject(f.Event))
		}
		compiled := d.conditions[i]()[j]
		v := compiled.holds(ctx, vars)
		result := "event " + event + ": " + compiled.reason(v, &f)
		if v.yes {
			return j, waypost.Clip(result, maxWhy)
		}
		reasons = append(reasons, result)
	}
	return -1, waypost.Clip(strings.Join(reasons, "; "), maxWhy)
}

// answer returns the input that ends a wait for an event: the first event that satisfies
// the condition, or the time-out. It looks at events that came before at once.
func (waitForEvent) answer(ctx context.Context, s *simulation, n Node, c Command) (Input, error) {
	until := c.Until
	since := s.now
	if n.SinceEnrollment() {
		since = s.o.Start.UTC()
	}
	reason, awaits := "", n.Awaits()
	for _, e := range s.events {
		if !slices.Contains(awaits, e.Name) || e.At.Before(since) || e.At.After(until) || s.satisfied[satisfied{n.ID, e}] {
			continue
		}
		if e.own && !n.SinceEnrollment() { // it came before the lead came to the node
			continue
		}
		at := later(e.At, s.now)
		if err := ctx.Err(); err != nil {
			return Input{}, err
		}
		facts := s.facts
		facts.Event, facts.Now, facts.Record = e.Properties, at, facts.recordAt(ctx, s.record(at), at)
		which, why := s.d.Matches(n.ID, e.Name, facts)
		if which < 0 {
			reason = why
			continue
		}
		in := s.until(at, Input{Kind: InputMatched, Arm: which, Reason: why})
		if in.Kind == InputMatched {
			s.satisfied[satisfied{n.ID, e}] = true
		}
		return in, nil
	}
	return s.until(until, Input{Kind: InputElapsed, Reason: reason}), nil
}
