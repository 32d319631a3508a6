package waypost

import (
	"strings"
	"time"

	"github.com/robfig/cron/v3"
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
	loc, ok := Zone(s.Timezone)
	if !ok {
		p.Add(DetailInvalidFormat, path+".timezone", "must be a time zone such as Asia/Shanghai")
		loc = time.UTC
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
	spec, err := s.parse(loc)
	switch {
	case err != nil:
		p.Add(DetailInvalidFormat, target, "must be five fields such as 0 9 * * mon-fri (minute, hour, day of the month, month, "+
			"day of the week), or @hourly, @daily, @weekly, @monthly or @yearly: %s", err)
	case spec == nil:
		p.Add(DetailInvalidFormat, target, "must be five fields such as 0 9 * * mon-fri, or @hourly, @daily, @weekly, @monthly or @yearly; "+
			"the time zone is a member of its own, and intervals cannot be given")
	case spec.Next(time.Unix(0, 0)).IsZero():
		p.Add(DetailOutOfRange, target, "never comes: no month that it names has such a day")
	}
}

// parse reads the expression in a time zone; nil if it is one that the library takes
// and we do not.
func (s Schedule) parse(loc *time.Location) (*cron.SpecSchedule, error) {
	if strings.Contains(s.Cron, "=") { // TZ=
		return nil, nil
	}
	parsed, err := cron.ParseStandard(strings.ToLower(strings.TrimSpace(s.Cron)))
	if err != nil {
		return nil, err
	}
	spec, ok := parsed.(*cron.SpecSchedule)
	if !ok {
		return nil, nil
	}
	spec.Location = loc
	return spec, nil
}

// Next is the first time of a valid schedule after the given one. Where clocks are
// put back, a time in the hour that comes twice comes twice; one in an hour that is
// left out does not come that day.
func (s Schedule) Next(after time.Time) time.Time {
	loc, ok := Zone(s.Timezone)
	if !ok {
		return time.Time{}
	}
	spec, err := s.parse(loc)
	if err != nil || spec == nil {
		return time.Time{}
	}
	return spec.Next(after).UTC()
}

// Calendar holds the times of which each field is one that is listed; Sunday is 0.
type Calendar struct {
	Minutes, Hours, Days, Months, Weekdays []int
}

// Calendars are the times of a valid schedule in its time zone: those of any of them.
// There are two if it names both days of the month and days of the week, since either
// is enough then, as everywhere in cron.
func (s Schedule) Calendars() []Calendar {
	spec, err := s.parse(time.UTC)
	if err != nil || spec == nil {
		return nil
	}
	both := Calendar{
		Minutes: places(spec.Minute, 0, 59), Hours: places(spec.Hour, 0, 23), Months: places(spec.Month, 1, 12),
		Days: places(spec.Dom, 1, 31), Weekdays: places(spec.Dow, 0, 6),
	}
	if spec.Dom&anyDay != 0 || spec.Dow&anyDay != 0 {
		return []Calendar{both}
	}
	days, weekdays := both, both
	days.Weekdays, weekdays.Days = places(^uint64(0), 0, 6), places(^uint64(0), 1, 31)
	return []Calendar{days, weekdays}
}

// anyDay is the bit by which the library notes a field that is a star.
const anyDay = 1 << 63

// places lists the bits from first to last that are set.
func places(bits uint64, first, last int) []int {
	var list []int
	for i := first; i <= last; i++ {
		if bits&(1<<i) != 0 {
			list = append(list, i)
		}
	}
	return list
}
