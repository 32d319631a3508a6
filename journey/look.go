package journey

import (
	"context"
	"slices"
	"time"

	"github.com/google/cel-go/common/ast"

	"waypost"
)

// How far ahead, and how finely, is told when time makes a condition true.
const (
	lookEvery   = time.Minute   // moments of a condition that asks for now
	lookAhead   = 6 * time.Hour // of such a condition, until it is looked at again
	recordAhead = time.Hour     // of one that asks for more than the time, the lead and its events: nothing wakes it when that changes
	maxMoments  = 1000          // that one look tries
)

// clockOf tells how time alone can change what an expression says.
func clockOf(e ast.Expr) (c waypost.Clock) {
	ast.PreOrderVisit(e, ast.NewExprVisitor(func(e ast.Expr) {
		if e.Kind() == ast.IdentKind {
			c.Days = c.Days || e.AsIdent() == varToday
			c.Minutes = c.Minutes || e.AsIdent() == varNow
		}
		if _, needs, ok := RecordCall(e); ok && len(needs.Events) > 0 && needs.Events[0].Window > 0 {
			c.Windows = append(c.Windows, needs.Events[0])
		}
	}))
	c.Minutes = c.Minutes || c.None() && isTimed(e)
	return c
}

// NextLook returns when the condition of a waitFor node, which is not true at facts.Now, is to be
// looked at again if nothing happens to the lead: when time makes it true, or when it must be told anew
// whether that comes. It is zero if neither is before until. Facts.Segments has the segments
// that the condition asks for.
func (d *Definition) NextLook(node string, f Facts, until time.Time) time.Time {
	i, ok := d.index[node]
	if !ok || d.body.Nodes[i].Type != WaitFor {
		return time.Time{}
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxDecide)
	defer cancel()
	l := newLookout(d.conditions[i]()[0], f)
	end := until
	if l.clock.Minutes {
		end = earlier(end, f.Now.Add(lookAhead))
	}
	if n := l.c.needs; len(n.Segments)+len(n.Entered)+len(n.Delivered) > 0 {
		end = earlier(end, f.Now.Add(recordAhead))
	}
	if at := l.first(ctx, end, lookEvery); !at.IsZero() || end.Equal(until) {
		return at
	}
	return end
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// lookout finds out when time makes a condition true.
type lookout struct {
	c     condition
	f     Facts
	clock waypost.Clock
	vars  map[string]any
}

func newLookout(c condition, f Facts) *lookout {
	l := &lookout{c: c, f: f, vars: conditionVariables(&f)}
	if c.err == nil {
		l.clock = clockOf(c.expr)
	}
	for _, rule := range f.Segments {
		l.clock.Add(rule.Clock())
	}
	return l
}

// first returns the first moment between now and end at which the condition is true, zero if there is
// none. Of a condition that asks for now it tries moments so far apart, and finds the minute of the
// first that is true. If there are too many moments it returns the last that it has tried.
func (l *lookout) first(ctx context.Context, end time.Time, step time.Duration) time.Time {
	before := l.f.Now
	moments := l.moments(end, step)
	for i, at := range moments {
		if l.holds(ctx, at) {
			for l.clock.Minutes && at.Sub(before) > lookEvery {
				middle := before.Add(at.Sub(before) / 2)
				if l.holds(ctx, middle) {
					at = middle
				} else {
					before = middle
				}
			}
			return at
		}
		if i == maxMoments-1 || ctx.Err() != nil {
			return at
		}
		before = at
	}
	return time.Time{}
}

// moments lists when the condition can become true by time, from the first one on.
func (l *lookout) moments(end time.Time, step time.Duration) []time.Time {
	var moments []time.Time
	if record := l.f.Record; record != nil {
		for _, w := range l.clock.Windows {
			for _, e := range slices.Concat(record.Events[w.Name], record.EventDays[w.Name]) {
				moments = append(moments, e.At.Add(w.Window))
			}
		}
	}
	if l.clock.Days {
		zone := time.UTC
		if loc, ok := leadZone(&l.f.Lead); ok {
			zone = loc
		}
		for day := dayOf(l.f.Now.In(zone)).add(1); len(moments) < 2*maxMoments; day = day.add(1) {
			at := waypost.FirstAt(day.Time, zone).UTC()
			if !at.Before(end) {
				break
			}
			moments = append(moments, at)
		}
	}
	if l.clock.Minutes {
		for at := l.f.Now.Add(step); at.Before(end) && len(moments) < 3*maxMoments; at = at.Add(step) {
			moments = append(moments, at)
		}
	}
	moments = slices.DeleteFunc(moments, func(at time.Time) bool { return !at.After(l.f.Now) || !at.Before(end) })
	slices.SortFunc(moments, time.Time.Compare)
	moments = slices.CompactFunc(moments, time.Time.Equal)
	return moments[:min(len(moments), maxMoments)]
}

// holds tells whether the condition would be true at a time.
func (l *lookout) holds(ctx context.Context, at time.Time) bool {
	f := l.f
	f.Now, f.Record = at, f.recordAt(ctx, f.Record, at)
	zone := time.UTC
	if loc, ok := leadZone(&f.Lead); ok {
		zone = loc
	}
	l.vars[varRecord], l.vars[varNow], l.vars[varToday] = &recordValue{f.Record, at}, at.UTC(), dayAt(at, zone)
	return l.c.holds(ctx, l.vars).yes
}

// recordAt returns a record with the segments of the facts that the lead is in at a time; without
// such segments it is the same one.
func (f *Facts) recordAt(ctx context.Context, record *waypost.LeadRecord, at time.Time) *waypost.LeadRecord {
	if record == nil || len(f.Segments) == 0 {
		return record
	}
	with := *record
	with.Segments = make(map[string]bool, len(f.Segments))
	var in func(id string) bool
	in = func(id string) bool {
		yes, known := with.Segments[id]
		rule := f.Segments[id]
		if known || rule == nil { // nobody is in one that does not exist
			return yes
		}
		for _, other := range rule.Needs(true).Segments {
			in(other)
		}
		yes = rule.Has(ctx, &f.Lead, &with, at, true)
		with.Segments[id] = yes
		return yes
	}
	for id := range f.Segments {
		in(id)
	}
	return &with
}
