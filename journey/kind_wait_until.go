package journey

import (
	"context"
	"slices"
	"time"

	"waypost"
)

type waitUntil struct{ passing }

// check checks that there is a time of day or a date of the lead, and that the offset is at most
// MaxOffset.
func (waitUntil) check(c *checker, _ int, n Node, path string) {
	switch {
	case n.Time != "":
		c.clock(n.Time, path+".time")
	case n.Lead == "":
		c.p.Add(waypost.DetailNullValue, path+".time", "must be a time such as 09:00, unless lead names a date of the lead")
	}
	c.zone(n.Timezone, path+".timezone")
	for i, day := range n.Weekdays {
		at := path + "." + element("weekdays", i)
		if _, ok := weekdays[day]; !ok {
			c.p.Add(waypost.DetailOutOfRange, at, "must be mon, tue, wed, thu, fri, sat or sun")
		} else if first := slices.Index(n.Weekdays, day); first < i {
			c.p.Add(waypost.DetailDuplicate, at, "weekdays[%d] is the same day", first)
		}
	}
	if n.Lead != "" && !isLeadDate(n.Lead) {
		c.p.Add(waypost.DetailOutOfRange, path+".lead", "must be birthday, createdAt, updatedAt or customFields.NAME")
	}
	c.missed(n, path+".onMissed")
	switch offset, err := n.offset(); {
	case err != nil:
		c.p.Add(waypost.DetailInvalidFormat, path+".offset", "%s", err)
	case offset.Abs() > MaxOffset:
		c.p.Add(waypost.DetailOutOfRange, path+".offset", "must be between -366 and 366 days")
	case n.Offset != "" && n.Lead == "":
		c.p.Add(waypost.DetailOutOfRange, path+".offset", "counts from a date of the lead, and lead names none")
	}
}

// missed checks where a lead goes on that has no date to wait for. A date that comes
// once can be over for any lead; a birthday comes again.
func (c *checker) missed(n Node, path string) {
	switch {
	case n.OnMissed != "" && n.Lead == "":
		c.p.Add(waypost.DetailOutOfRange, path, "is for a date of the lead, and lead names none")
	case n.OnMissed == "" && n.Lead != birthday && isLeadDate(n.Lead):
		c.p.Add(waypost.DetailNullValue, path, "must name where node %q sends leads whose %s is missing, invalid, in the past or more than 100 years ahead: "+
			"a node to go on at, or an exit node", waypost.Clip(n.ID, 64), waypost.Clip(n.Lead, 80))
	}
}

func (waitUntil) take(r *stepper, n Node, in Input) error {
	switch {
	case in.Kind == InputElapsed && r.s.Phase == PhaseWait:
		return r.leave(n, waypost.WhatWaited, "", "waited", n.next())
	case in.Kind == InputDecided && r.s.Phase == PhaseDecide, in.Kind == InputChanged && r.s.Phase == PhaseWait:
		if !in.Until.IsZero() {
			return r.wait(n, in.Until.UTC().Round(0), in.Reason)
		}
		return r.leave(n, waypost.WhatSkipped, in.Reason, "skipped", n.missed())
	}
	return r.unexpected(n, in)
}

func (waitUntil) decide(_ *Definition, n Node, f Facts, now time.Time) (in Input) {
	in.Until, in.Reason = NextInstant(n, f.Lead, now)
	in.Reason = n.dateReason(in.Reason)
	return in
}

func (k waitUntil) answer(ctx context.Context, s *simulation, n Node, c Command) (Input, error) {
	if c.Kind == CommandWait {
		return delay{}.answer(ctx, s, n, c)
	}
	return k.passing.answer(ctx, s, n, c)
}

// waits is false of a date of the lead, which may have none: see waitsOn.
func (waitUntil) waits(n Node) bool { return n.Lead == "" }

// waitsOn is false of a lead that has no date to wait for: it takes OnMissed, or ends.
func (k waitUntil) waitsOn(n Node, member string) bool {
	return k.waits(n) || n.OnMissed != "" && member != waypost.WayOnMissed
}

func (waitUntil) sameWait(a, b Node) bool {
	return a.Time == b.Time && a.Timezone == b.Timezone && slices.Equal(a.Weekdays, b.Weekdays) && a.Lead == b.Lead && a.Offset == b.Offset
}
