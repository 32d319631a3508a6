package waypost

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// cron is a parsed cron expression. Each field has a bit for every value that it names.
type cron struct {
	minutes, hours, days, months, weekdays uint64
	// nth has a bit n for the nth one of each day of the week in its month, from 1.
	nth                [7]uint8
	anyDay, anyWeekday bool // the field is a star
}

// cronField is one of the five fields of a cron expression.
type cronField struct {
	name        string
	first, last int
	names       []string // of the values, from first on
	star        string   // besides *
}

var cronFields = [...]cronField{
	{name: "minute", last: 59},
	{name: "hour", last: 23},
	{name: "day of the month", first: 1, last: 31, star: "?"},
	{name: "month", first: 1, last: 12, names: []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}},
	{name: "day of the week", last: 7, names: []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat", "sun"}, star: "?"},
}

// Places of two of the fields in an expression.
const cronDay, cronWeekday = 2, 4

// cronMacros are the expressions that have a name.
var cronMacros = map[string]string{
	"@yearly": "0 0 1 1 *", "@annually": "0 0 1 1 *", "@monthly": "0 0 1 * *", "@weekly": "0 0 * * 0",
	"@daily": "0 0 * * *", "@midnight": "0 0 * * *", "@hourly": "0 * * * *",
}

const cronForm = "must be five fields such as 0 9 * * mon-fri (minute, hour, day of the month, month, day of the week), " +
	"or @hourly, @daily, @weekly, @monthly or @yearly"

// parseCron reads an expression. The error says which field is wrong, its value and what
// to write.
func parseCron(expression string) (c cron, err error) {
	text := strings.ToLower(strings.TrimSpace(expression))
	switch macro, known := cronMacros[text]; {
	case known:
		text = macro
	case strings.HasPrefix(text, "@every"):
		return c, fmt.Errorf("%s; an interval cannot be given: write 0 * * * * for every hour, or */15 * * * * for every quarter of one", cronForm)
	case strings.HasPrefix(text, "@"):
		return c, fmt.Errorf("%s: %q is none of these", cronForm, text)
	case strings.HasPrefix(text, "tz=") || strings.HasPrefix(text, "cron_tz="):
		return c, fmt.Errorf("%s; the time zone is a member of its own, timezone", cronForm)
	}
	fields := strings.Fields(text)
	switch n := len(fields); {
	case n == 6 || n == 7:
		return c, fmt.Errorf("%s; it has %d, and neither seconds nor years can be given", cronForm, n)
	case n != len(cronFields):
		return c, fmt.Errorf("%s; it has %d", cronForm, n)
	}
	bits := [...]*uint64{&c.minutes, &c.hours, &c.days, &c.months, &c.weekdays}
	for i, field := range cronFields {
		if err := c.parseField(i, field, fields[i], bits[i]); err != nil {
			return c, err
		}
	}
	c.weekdays |= c.weekdays >> 7 & 1 // 7 is Sunday, too
	return c, nil
}

// parseField reads the field at a place, which is a list.
func (c *cron) parseField(place int, f cronField, text string, bits *uint64) error {
	for item := range strings.SplitSeq(text, ",") {
		if item == "*" || f.star != "" && item == f.star {
			c.anyDay = c.anyDay || place == cronDay
			c.anyWeekday = c.anyWeekday || place == cronWeekday
		}
		if name, nth, ok := strings.Cut(item, "#"); ok && place == cronWeekday {
			if err := c.parseNth(f, item, name, nth); err != nil {
				return err
			}
			continue
		}
		first, last, step, err := f.parse(item)
		if err != nil {
			return err
		}
		for n := first; n <= last; n += step {
			*bits |= 1 << n
		}
	}
	return nil
}

// parseNth reads one day of the week in a month, such as mon#1.
func (c *cron) parseNth(f cronField, item, name, nth string) error {
	day, ok := f.value(name)
	n, isNumber := cronNumber(nth)
	if !ok || !isNumber || n < 1 || n > 5 {
		return f.wrong(item, "write mon#1 for the first Monday of a month, with 1 to 5 behind the #")
	}
	c.nth[day%7] |= 1 << n
	return nil
}

// parse reads an item of a list: a value, a range or a star, and how far it is from one
// value to the next.
func (f cronField) parse(item string) (first, last, step int, err error) {
	base, every, stepped := strings.Cut(item, "/")
	from, to, ranged := strings.Cut(base, "-")
	switch {
	case item == "":
		return 0, 0, 0, fmt.Errorf("the %s has a comma with nothing beside it: write * for all, or values such as %d,%d", f.name, f.first, f.first+1)
	case base == "*" || f.star != "" && base == f.star:
		first, last = f.first, f.last
		if f.last == 7 {
			last = 6 // Sunday is 0 here
		}
	default:
		var ok, ok2 bool
		if first, ok = f.value(from); !ok {
			return 0, 0, 0, f.unknown(item, from)
		}
		switch last, ok2 = first, true; {
		case ranged:
			last, ok2 = f.value(to)
			if f.last == 7 && to == "sun" && first > 0 {
				last = 7
			}
		case stepped: // to the end
			last = max(first, f.last)
			if f.last == 7 && first < 7 {
				last = 6
			}
		}
		if !ok2 {
			return 0, 0, 0, f.unknown(item, to)
		}
	}
	if last < first {
		return 0, 0, 0, f.wrong(item, fmt.Sprintf("it goes backwards: write %s", f.forwards(first, last)))
	}
	if !stepped {
		return first, last, 1, nil
	}
	step, ok := cronNumber(every)
	switch {
	case !ok || step == 0:
		return 0, 0, 0, f.wrong(item, "the step behind the / must be a whole number from 1 on, such as */2")
	case step > last-first && last == first:
		return 0, 0, 0, f.wrong(item, fmt.Sprintf("there is no second value for a step: write %d", first))
	case step > last-first:
		return 0, 0, 0, f.wrong(item, fmt.Sprintf("a step must be at most %d here, since a larger one leaves only %d: write %d for that", last-first, first, first))
	}
	return first, last, step, nil
}

// forwards writes a range that goes beyond the end of the field as two.
func (f cronField) forwards(first, last int) string {
	end := f.last
	if end == 7 {
		end = 6
	}
	if first > end {
		return fmt.Sprintf("%d-%d", f.first, last)
	}
	return fmt.Sprintf("%d-%d,%d-%d", first, end, f.first, last)
}

// value reads a number or a name.
func (f cronField) value(text string) (n int, ok bool) {
	if i := slices.Index(f.names, text); i >= 0 {
		return f.first + i, true
	}
	n, ok = cronNumber(text)
	return n, ok && f.first <= n && n <= f.last
}

// cronNumber reads digits; what has more than three is too large for every field.
func cronNumber(text string) (n int, ok bool) {
	if text == "" || len(text) > 3 || strings.Trim(text, "0123456789") != "" {
		return 0, false
	}
	n, err := strconv.Atoi(text)
	return n, err == nil
}

func (f cronField) wrong(item, what string) error {
	return fmt.Errorf("the %s is %q: %s", f.name, Clip(item, maxQuoted), what)
}

// unknown says what values a field takes.
func (f cronField) unknown(item, value string) error {
	takes := fmt.Sprintf("write %d to %d", f.first, f.last)
	switch {
	case f.last == 7:
		takes = "write sun to sat, 0 to 7 (0 and 7 are Sunday), or mon#1 for the first Monday of a month"
	case f.names != nil:
		takes += ", or jan to dec"
	case f.star != "":
		takes += "; L and W cannot be given"
	}
	if value != item {
		takes = fmt.Sprintf("%q in it is no %s; %s", Clip(value, maxQuoted), f.name, takes)
	}
	return f.wrong(item, takes)
}

// maxQuoted bounds what an error repeats of an expression, in bytes.
const maxQuoted = 64

// maxWait is how long the next time can be away, in years: a February with five Mondays
// comes every 28 years, and after 40 around a year such as 2100, which has no leap day.
const maxWait = 41

// next returns the first time on the wall that the expression names, from a whole minute
// on. Times on the wall are written as UTC. It is false if there is none in maxWait years.
func (c cron) next(from time.Time) (time.Time, bool) {
	for last := from.Year() + maxWait; from.Year() <= last; {
		year, month, day := from.Date()
		switch {
		case c.months&(1<<month) == 0:
			from = time.Date(year, month+1, 1, 0, 0, 0, 0, time.UTC)
		case !c.onDay(from):
			from = time.Date(year, month, day+1, 0, 0, 0, 0, time.UTC)
		case c.hours&(1<<from.Hour()) == 0:
			from = time.Date(year, month, day, from.Hour()+1, 0, 0, 0, time.UTC)
		case c.minutes&(1<<from.Minute()) == 0:
			from = from.Add(time.Minute)
		default:
			return from, true
		}
	}
	return time.Time{}, false
}

// onDay tells whether the day of a time is one of the expression. If both the day of the
// month and the day of the week are given, either is enough.
func (c cron) onDay(at time.Time) bool {
	day := c.days&(1<<at.Day()) != 0
	weekday := c.weekdays&(1<<at.Weekday()) != 0 || c.nth[at.Weekday()]&(1<<((at.Day()+6)/7)) != 0
	if c.anyDay || c.anyWeekday {
		return day && weekday
	}
	return day || weekday
}
