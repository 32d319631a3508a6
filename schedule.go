package waypost

import (
	"iter"
	"strings"
	"time"
)

// Schedule says when a recurring launch takes place.
type Schedule struct {
	Cron     string // five fields: minute, hour, day of the month, month, day of the week; or @daily and its like
	Timezone string // IANA
}

// maxCron bounds the length of a cron expression: all fields fit, written out.
const maxCron = 500

// Validate notes what is wrong with the schedule; path stands before the names of its
// members.
func (s Schedule) Validate(p *Problems, path string) {
	if _, ok := Zone(s.Timezone); !ok {
		p.Add(DetailInvalidFormat, path+".timezone", "must be a time zone such as Asia/Shanghai")
	}
	target := path + ".cron"
	switch {
	case strings.TrimSpace(s.Cron) == "":
		p.Add(DetailNullValue, target, "is missing")
		return
	case len(s.Cron) > maxCron:
		p.Add(DetailTooLong, target, "must be at most %d characters", maxCron)
		return
	}
	c, err := parseCron(s.Cron)
	if err != nil {
		p.Add(DetailInvalidFormat, target, "%s", err)
		return
	}
	if _, ok := c.next(time.Unix(0, 0).UTC()); !ok {
		p.Add(DetailOutOfRange, target, "never comes: no month that it names has such a day")
	}
}

// Next is the first time of a valid schedule after the given one; the zero time if there
// is none.
func (s Schedule) Next(after time.Time) time.Time {
	for at := range s.Times(after) {
		return at
	}
	return time.Time{}
}

// Times are the times of a valid schedule after the given one, in their order. Each time
// on the wall that the expression names comes once: if clocks jump over it, at the first
// instant after the jump, and if they show it twice, at the first of the two. Several
// that come at the same instant are one.
func (s Schedule) Times(after time.Time) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		loc, ok := Zone(s.Timezone)
		c, err := parseCron(s.Cron)
		if !ok || err != nil {
			return
		}
		// An instant at which clocks show a time is not before the first one at which they
		// show it or a later one, so that no earlier time on the wall is missed.
		year, month, day := after.In(loc).Date()
		hour, minute, _ := after.In(loc).Clock()
		wall := time.Date(year, month, day, hour, minute+1, 0, 0, time.UTC)
		for {
			if wall, ok = c.next(wall); !ok {
				return
			}
			if at := FirstAt(wall, loc).UTC(); at.After(after) {
				if !yield(at) {
					return
				}
				after = at
			}
			wall = wall.Add(time.Minute)
		}
	}
}
