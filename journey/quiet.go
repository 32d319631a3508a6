package journey

import (
	"time"

	"waypost"
)

// QuietUntil tells whether now lies in the lead's quiet hours, and if so, the first
// instant at which they are over. They are those of the time zone that the lead's
// customFields.timezone names, else of the definition's, else of UTC. Each day's
// quiet hours are one period: they begin at the first instant at which clocks
// show From or later and end at the first at which they show To or later, so
// that an hour that daylight saving repeats does not bring them back, and the
// end is where clocks jump to if they jump over To. The zero QuietHours, and any
// that Check refuses for its times, are never.
func QuietUntil(q QuietHours, lead waypost.Lead, now time.Time) (until time.Time, quiet bool) {
	from, ok := parseClock(q.From)
	to, ok2 := parseClock(q.To)
	if !ok || !ok2 || from == to {
		return time.Time{}, false
	}
	loc, ok := leadZone(&lead)
	if !ok {
		if loc, ok = waypost.Zone(q.Timezone); !ok {
			loc = time.UTC
		}
	}
	until = now
	today := dayOf(now.In(loc))
	// In the order of time, so that a period that begins in another one, which is so
	// where a time zone leaves a day out, takes over from it.
	for i := -3; i <= 2; i++ {
		begin, end := today.add(i), today.add(i)
		if to.before(from) {
			end = end.add(1)
		}
		if stop := firstAt(end.at(to), loc); !firstAt(begin.at(from), loc).After(until) && stop.After(until) {
			until = stop
		}
	}
	return until.UTC(), until.After(now)
}

func (c clock) before(other clock) bool {
	return c.hour < other.hour || c.hour == other.hour && c.minute < other.minute
}
