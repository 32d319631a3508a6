package journey

import (
	"strings"
	"time"

	"waypost"
)

// parseClock reads HH:MM, from 00:00 to 23:59, as the time since midnight on the wall.
func parseClock(s string) (time.Duration, bool) {
	t, err := time.Parse("15:04", s)
	clock := time.Duration(t.Hour())*time.Hour + time.Duration(t.Minute())*time.Minute
	return clock, err == nil && len(s) == len("15:04")
}

var weekdays = map[string]time.Weekday{
	"mon": time.Monday, "tue": time.Tuesday, "wed": time.Wednesday, "thu": time.Thursday,
	"fri": time.Friday, "sat": time.Saturday, "sun": time.Sunday,
}

// leadZone is the time zone that the lead's customFields.timezone names, if it
// names one.
func leadZone(lead *waypost.Lead) (*time.Location, bool) {
	name, ok := lead.CustomFields["timezone"].(string)
	if !ok {
		return nil, false
	}
	return waypost.Zone(strings.TrimSpace(name))
}

// day is a calendar day as midnight UTC, on which days can be counted. waypost.FirstAt
// says when it begins in a time zone.
type day struct{ time.Time }

// dayOf is the calendar day of t on the wall.
func dayOf(t time.Time) day {
	y, m, d := t.Date()
	return day{time.Date(y, m, d, 0, 0, 0, 0, time.UTC)}
}

func (d day) add(days int) day { return day{d.AddDate(0, 0, days)} }

// exists tells whether the zone has the day: Samoa had no 30 December 2011.
func (d day) exists(loc *time.Location) bool {
	return dayOf(waypost.FirstAt(d.Time, loc)).Equal(d.Time)
}
