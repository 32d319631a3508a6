package journey

import (
	"context"
	"time"

	"waypost"
)

type waitFor struct{ passing }

func (waitFor) take(r *stepper, n Node, in Input) error {
	switch in.Kind {
	case InputMatched:
		return r.leave(n, waypost.WhatMatched, in.Reason, "matched", n.next())
	case InputElapsed:
		return r.timedOut(n, in)
	}
	return r.unexpected(n, in)
}

// waits is false: the condition can be true at once.
func (waitFor) waits(Node) bool { return false }

func (waitFor) waitsOn(_ Node, member string) bool { return member == waypost.WayOnTimeout }

// Holds tells whether the condition of a waitFor node is true now. reason says why, as
// Decide does, such as "lead.customFields.plan == 'pro' → false".
func (d *Definition) Holds(node string, f Facts) (yes bool, reason string) {
	i, ok := d.index[node]
	if !ok || d.body.Nodes[i].Type != WaitFor {
		return false, errorPrefix + "not a wait for a condition"
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxDecide)
	defer cancel()
	c := d.conditions[i]()[0]
	v := c.holds(ctx, conditionVariables(&f))
	return v.yes, waypost.Clip(c.reason(v, &f), maxWhy)
}

// answer returns the input that ends a wait for a condition. It looks at once, when an event
// comes, when time alone makes it true, to the minute if the condition asks for now, and when the
// wait is over.
func (waitFor) answer(ctx context.Context, s *simulation, n Node, c Command) (Input, error) {
	until := c.Until
	for at := s.now; ; {
		if err := ctx.Err(); err != nil {
			return Input{}, err
		}
		facts := s.facts
		facts.Now, facts.Record = at, facts.recordAt(ctx, s.record(at), at)
		yes, reason := s.d.Holds(n.ID, facts)
		if yes {
			return s.until(at, Input{Kind: InputMatched, Reason: reason}), nil
		}
		if !at.Before(until) || at.After(s.end) {
			return s.until(until, Input{Kind: InputElapsed, Reason: reason}), nil
		}
		next := until
		for _, e := range s.events {
			if e.At.After(at) {
				next = earlier(next, e.At)
				break
			}
		}
		tries := time.Duration(maxMoments)
		if s.o.quick {
			tries /= 10
		}
		look := newLookout(s.d.conditions[s.d.index[n.ID]]()[0], facts)
		if by := look.first(ctx, next, max(lookEvery, next.Sub(at)/tries)); !by.IsZero() {
			next = by
		}
		at = next
	}
}
