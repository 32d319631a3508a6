package journey

import (
	"strings"
	"time"

	"waypost"
)

// clock is a time of day on the wall.
type clock struct{ hour, minute int }

// parseClock reads HH:MM, from 00:00 to 23:59.
func parseClock(s string) (clock, bool) {
	if len(s) != 5 || s[2] != ':' {
		return clock{}, false
	}
	hour, ok := twoDigits(s[:2])
	minute, ok2 := twoDigits(s[3:])
	return clock{hour, minute}, ok && ok2 && hour < 24 && minute < 60
}

func twoDigits(s string) (int, bool) {
	if s[0] < '0' || s[0] > '9' || s[1] < '0' || s[1] > '9' {
		return 0, false
	}
	return int(s[0]-'0')*10 + int(s[1]-'0'), true
}

var weekdays = map[string]time.Weekday{
	"mon": time.Monday, "tue": time.Tuesday, "wed": time.Wednesday, "thu": time.Thursday,
	"fri": time.Friday, "sat": time.Saturday, "sun": time.Sunday,
}

func weekday(name string) (time.Weekday, bool) {
	day, ok := weekdays[name]
	return day, ok
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

// day is a calendar day as midnight UTC, on which days can be counted.
type day struct{ time.Time }

// dayOf is the calendar day of t on the wall.
func dayOf(t time.Time) day {
	y, m, d := t.Date()
	return day{time.Date(y, m, d, 0, 0, 0, 0, time.UTC)}
}

func (d day) add(days int) day { return day{d.AddDate(0, 0, days)} }

// at is a time of the day on the wall: what instant shows it is firstAt's to say.
func (d day) at(c clock) time.Time {
	return d.Add(time.Duration(c.hour)*time.Hour + time.Duration(c.minute)*time.Minute)
}

// exists tells whether the zone has the day: Samoa had no 30 December 2011.
func (d day) exists(loc *time.Location) bool {
	return dayOf(firstAt(d.Time, loc)).Equal(d.Time)
}

// firstAt returns the first instant at which clocks of the zone show wall, written as
// UTC, or later.
func firstAt(wall time.Time, loc *time.Location) time.Time { return waypost.FirstAt(wall, loc) }
