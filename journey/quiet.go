package journey

import (
	"time"

	"waypost"
)

// QuietUntil tells whether now lies in the lead's quiet hours, and if so, the first
// instant at which they are over. The time zone is the one that the lead's
// customFields.timezone names, else the definition's, else UTC. Each day's
// quiet hours are one period: they begin at the first instant at which clocks
// show From or later and end at the first at which clocks show To or later. So
// an hour that daylight saving repeats does not bring them back, and they end
// where clocks jump to if clocks jump over To. The zero QuietHours, and
// QuietHours whose times Check refuses, are never.
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
	// In the order of time: where a time zone leaves a day out, a period can begin in
	// another one, and ends later.
	for i := -3; i <= 2; i++ {
		begin, end := today.add(i), today.add(i)
		if to < from {
			end = end.add(1)
		}
		stop := waypost.FirstAt(end.Add(to), loc)
		if !waypost.FirstAt(begin.Add(from), loc).After(until) && stop.After(until) {
			until = stop
		}
	}
	return until.UTC(), until.After(now)
}
