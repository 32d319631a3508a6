package waypost

import (
	"slices"
	"time"
)

// ControlKind is one of the Control… values.
type ControlKind string

// What people can decide about enrollments that run.
const (
	ControlPause  ControlKind = "pause"
	ControlCancel ControlKind = "cancel"
	// ControlExit is decided by an event, or a segment that the lead enters, that the journey exits on.
	ControlExit ControlKind = "exit"
)

// Control is something that was decided about enrollments that run: about one,
// about those of a launch, or about all that a journey had by then.
type Control struct {
	Target string // id of an enrollment, a launch or a journey
	Kind   ControlKind
	From   time.Time
	Until  time.Time // of a pause: when it was resumed; zero while it lasts
	// Shift says that waits go on where the pause found them; otherwise those whose
	// time has come meanwhile are over (resume's elapsedDelays, docs/contract.md,
	// "Pauses and cancels").
	Shift   bool
	Event   string // of an exit by an event: its name
	Segment string // of an exit by a segment: its id
}

// Open tells whether it is a pause that lasts.
func (c Control) Open() bool { return c.Kind == ControlPause && c.Until.IsZero() }

// Controls is all that was decided about one enrollment, in any order.
type Controls []Control

// Canceled tells whether the enrollment was canceled, and when first.
func (c Controls) Canceled() (at time.Time, ok bool) {
	for _, one := range c {
		if one.Kind == ControlCancel && (!ok || one.From.Before(at)) {
			at, ok = one.From, true
		}
	}
	return at, ok
}

// Exited tells whether the enrollment was ended by an event or a segment, by which, as a
// timeline gives the reason, and when. One that was canceled before is not.
func (c Controls) Exited() (reason string, at time.Time, ok bool) {
	for _, one := range c {
		switch {
		case one.Kind == ControlExit && one.Segment != "":
			return "segment " + one.Segment, one.From, true
		case one.Kind == ControlExit:
			return "event " + one.Event, one.From, true
		}
	}
	return "", time.Time{}, false
}

// Holds lists what must be resumed before the enrollment goes on; empty if it is
// not paused.
func (c Controls) Holds() []string {
	var targets []string
	for _, one := range c {
		if one.Open() {
			targets = append(targets, one.Target)
		}
	}
	return targets
}

// PausedAt tells whether there was a pause at a time, or is one now.
func (c Controls) PausedAt(at time.Time) bool {
	return slices.ContainsFunc(c, func(one Control) bool {
		return one.Open() || one.Kind == ControlPause && !one.From.After(at) && one.Until.After(at)
	})
}

// Due says when a wait is over that began at since and was planned to end at
// planned: time stands still during pauses that were resumed with shift. It does
// not look at pauses that last.
func (c Controls) Due(since, planned time.Time) time.Time {
	at, left := since, planned.Sub(since)
	for _, p := range c.pauses(func(p Control) bool { return p.Shift && !p.Until.IsZero() }, time.Time{}) {
		if !p.Until.After(at) {
			continue
		}
		if run := p.From.Sub(at); run > 0 {
			if left <= run {
				break
			}
			left -= run
		}
		at = p.Until
	}
	return at.Add(left)
}

// PausedTime is how much of the time between from and to was paused, however it
// was resumed.
func (c Controls) PausedTime(from, to time.Time) time.Duration {
	var sum time.Duration
	for _, p := range c.pauses(func(Control) bool { return true }, to) {
		begin, end := p.From, p.Until
		if begin.Before(from) {
			begin = from
		}
		if end.After(to) {
			end = to
		}
		sum += max(0, end.Sub(begin))
	}
	return sum
}

// pauses returns the pauses that use accepts, merged where they overlap, in their order;
// one that lasts ends at now.
func (c Controls) pauses(use func(Control) bool, now time.Time) []Control {
	var list []Control
	for _, one := range c {
		if one.Kind != ControlPause || !use(one) {
			continue
		}
		if one.Until.IsZero() {
			one.Until = now
		}
		list = append(list, one)
	}
	slices.SortFunc(list, func(a, b Control) int { return a.From.Compare(b.From) })
	merged := list[:0]
	for _, one := range list {
		if n := len(merged); n > 0 && !one.From.After(merged[n-1].Until) {
			if one.Until.After(merged[n-1].Until) {
				merged[n-1].Until = one.Until
			}
			continue
		}
		merged = append(merged, one)
	}
	return merged
}

// ControlTargets names whose controls count for a group of enrollments: they are
// all of one journey and, if LaunchID is set, of one launch.
type ControlTargets struct {
	JourneyID     string
	LaunchID      string // "" for enrollments of no launch
	EnrollmentIDs []string
}
