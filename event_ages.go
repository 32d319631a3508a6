package waypost

import (
	"fmt"
	"time"
)

// EventAges says how far back conditions see events; 0 is for ever.
type EventAges struct {
	Events time.Duration // events, with their properties
	// Counts is how long it is kept how many events of a name a lead has had on each day, and when
	// the first and the last one of the day was: as long as Events at least.
	Counts time.Duration
}

// EventDay is the unit of those counts: a day of UTC.
const EventDay = 24 * time.Hour

// Far tells whether a window, 0 for all, reaches back further than events are kept. Their number is
// read from the counts by day then.
func (a EventAges) Far(window time.Duration) bool {
	return a.Events > 0 && (window == 0 || window > a.Events)
}

// Fault says why what is asked of events cannot be answered, and what to write instead; "" if it can.
func (a EventAges) Fault(need EventNeed) string {
	if !a.Far(need.Window) {
		return ""
	}
	days := func(d time.Duration) int { return int(d / EventDay) }
	within := fmt.Sprintf(`events(%q, duration("%dh"))`, need.Name, days(a.Events)*24)
	switch {
	case need.Use != EventTimes:
		asked := "without a window"
		if need.Window > 0 {
			asked = fmt.Sprintf("of the last %d days", days(need.Window))
		}
		return fmt.Sprintf("the properties of events %s cannot be read: events are kept for %d days (WAYPOST_RETENTION_EVENTS), and then only their number; "+
			"write a window, such as %s, or ask for .count()", asked, days(a.Events), within)
	case need.Window%EventDay != 0:
		return fmt.Sprintf("a window that is longer than the %d days for which events are kept (WAYPOST_RETENTION_EVENTS) must be whole days, a multiple of 24h, "+
			"because older events are counted by day; write duration(\"%dh\")", days(a.Events), (days(need.Window)+1)*24)
	case a.Counts > 0 && need.Window > a.Counts:
		return fmt.Sprintf("counts of events are kept for %d days (WAYPOST_RETENTION_EVENT_COUNTS; events themselves for %d, WAYPOST_RETENTION_EVENTS); "+
			"write a window of at most duration(\"%dh\"), or none", days(a.Counts), days(a.Events), days(a.Counts)*24)
	}
	return ""
}

// Faults says what of the events that conditions ask for cannot be answered.
func (a EventAges) Faults(needs RecordNeeds) (faults []string) {
	for _, need := range needs.Events {
		if fault := a.Fault(need); fault != "" {
			faults = append(faults, fault)
		}
	}
	return faults
}

// Split divides what is asked of events into names whose counts by day are read, and what is asked of
// events themselves, once for each name. Of a name whose properties are asked for further back than
// events are kept, which no condition is written with, only events are read.
func (a EventAges) Split(needs []EventNeed) (days []string, events []EventNeed) {
	properties := map[string]bool{}
	for _, n := range needs {
		properties[n.Name] = properties[n.Name] || n.Use != EventTimes && a.Far(n.Window)
	}
	place := map[string]int{}
	counted := map[string]bool{}
	for _, n := range needs {
		if a.Far(n.Window) && !properties[n.Name] {
			if !counted[n.Name] {
				counted[n.Name], days = true, append(days, n.Name)
			}
			continue
		}
		i, known := place[n.Name]
		if !known {
			place[n.Name], events = len(events), append(events, n)
			continue
		}
		if events[i].Use != n.Use {
			events[i].Use = EventAll
		}
		if events[i].Window == 0 || n.Window == 0 {
			events[i].Window = 0
		} else {
			events[i].Window = max(events[i].Window, n.Window)
		}
	}
	return days, events
}
