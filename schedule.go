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
	case next(spec, time.Unix(0, 0)).IsZero():
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
	for _, bits := range []uint64{spec.Minute, spec.Hour, spec.Dom, spec.Month, spec.Dow} {
		if bits == 0 { // a lone comma; to Temporal, a field without numbers is a star
			return nil, nil
		}
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
	return next(spec, after)
}

// maxWait is how long the next time can be away, in years: a leap day is skipped in
// 2100.
const maxWait = 8

// next is the first time after the given one; zero if there is none in maxWait years.
// The library's own goes wrong where the clocks skip midnight: it leaves that day out,
// or takes it for the day before.
func next(spec *cron.SpecSchedule, after time.Time) time.Time {
	at := after.In(spec.Location)
	at = at.Add(time.Minute - time.Duration(at.Second())*time.Second - time.Duration(at.Nanosecond()))
	for last := at.Year() + maxWait; at.Year() <= last; {
		year, month, day := at.Date()
		hour := at.Add(time.Duration(60-at.Minute()) * time.Minute)
		// The last hour of a day is one that all days have.
		skip := func(to time.Time) time.Time {
			if to.After(hour) {
				return to
			}
			return hour
		}
		switch {
		case spec.Month&(1<<month) == 0:
			at = skip(time.Date(year, month+1, 0, 23, 0, 0, 0, spec.Location))
		case !onDay(spec, at):
			at = skip(time.Date(year, month, day, 23, 0, 0, 0, spec.Location))
		case spec.Hour&(1<<at.Hour()) == 0:
			at = hour
		case spec.Minute&(1<<at.Minute()) == 0:
			at = at.Add(time.Minute)
		default:
			return at.UTC()
		}
	}
	return time.Time{}
}

// onDay tells whether the day of a time is one of the schedule.
func onDay(spec *cron.SpecSchedule, at time.Time) bool {
	day, weekday := spec.Dom&(1<<at.Day()) != 0, spec.Dow&(1<<at.Weekday()) != 0
	if spec.Dom&anyDay != 0 || spec.Dow&anyDay != 0 {
		return day && weekday
	}
	return day || weekday
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
