package journey

import (
	"fmt"
	"strings"
	"time"
	"unicode/utf8"

	"waypost"
)

// Why there is nothing to wait for at a waitUntil, beside missingValue.
const (
	invalidValue = "invalid value"
	inThePast    = "in the past"
	tooFarAhead  = "more than 100 years ahead"
)

// NextInstant returns when a waitUntil node lets a lead go on that reaches it at
// now: the first instant after now at which clocks of the time zone show Time on
// one of Weekdays. With Lead it is the first one from that date plus Offset on;
// without Time that instant itself, or the same time of day on the next of
// Weekdays. The time zone is the node's, else the one that the lead's
// customFields.timezone names, else UTC.
//
// Lead names a date that comes once or every year. createdAt, updatedAt and a custom
// field that the date filter of templates reads come once; a day begins at its
// midnight in the time zone, and a time without a zone is in that zone. birthday and a
// custom field without a year (--12-31) come every year: until is of the next one that
// is not over. 29 February is 28 February in other years, so that it stays in its
// month. Offset is counted in real time for an instant, otherwise on the clock: -24h
// is a day before, whatever daylight saving does.
//
// A time that clocks jump over is moved to where they jump to. A day that a time zone
// left out is not one of Weekdays. Of a time that comes twice, the first counts.
//
// A zero until says that there is nothing to wait for: reason is then "missing
// value", "invalid value", "in the past" or "more than 100 years ahead", never a
// value of the lead. Without Lead until is never zero, in a definition that
// Check accepts.
func NextInstant(n Node, lead waypost.Lead, now time.Time) (until time.Time, reason string) {
	s := n.schedule(&lead)
	if n.Lead == "" {
		if until = s.next(now, false); until.IsZero() {
			return until, invalidValue
		}
		return until.UTC(), ""
	}
	offset, err := n.offset()
	if err != nil {
		return time.Time{}, invalidValue
	}
	when, reason := leadDate(&lead, n.Lead)
	if reason != "" {
		return time.Time{}, reason
	}
	until = when.after(now, offset, s)
	switch {
	case !until.After(now):
		return time.Time{}, inThePast
	case until.Sub(now) > MaxWait || until.UTC().Year() > 9999:
		return time.Time{}, tooFarAhead
	}
	return until.UTC(), ""
}

// Followed names what of the lead the end of a waitUntil depends on and can change
// while it waits: birthday, updatedAt, or customFields.NAME. It is empty for other
// nodes.
func (n Node) Followed() []string {
	var fields []string
	if n.Type != WaitUntil {
		return nil
	}
	if n.Lead != "" && n.Lead != "createdAt" {
		fields = append(fields, n.Lead)
	}
	if n.Timezone == "" {
		fields = append(fields, customField+"timezone")
	}
	return fields
}

// Follow returns when a wait at the waitUntil node is over, as NextInstant does, for a
// lead that may have changed. The wait began at since and was to end at planned, which
// Follow returns if the change does not concern it. Otherwise the new date counts from
// the lead's last change on: a date that was over by then is missed, or waited for in
// the next year; a date between the change and now ends the wait.
func (n Node) Follow(lead waypost.Lead, since, planned, now time.Time) (until time.Time, reason string) {
	if until, _ = NextInstant(n, lead, since); until.Equal(planned) {
		return until, ""
	}
	from := lead.UpdatedAt
	if from.After(now) { // by the clock of another process
		from = now
	}
	if until, reason = NextInstant(n, lead, later(from, since)); reason == "" {
		reason = changed
	}
	return until, n.dateReason(reason)
}

// changed is what the timeline says of a wait that goes on to another end.
const changed = "changed"

// dateReason says which date of the lead the node waits for, and why there is none to wait
// for, if why says so: "customFields.renewalDate -72h: in the past".
func (n Node) dateReason(why string) string {
	if n.Lead == "" {
		return why
	}
	date := n.Lead
	if n.Offset != "" {
		date += " " + n.Offset
	}
	if why != "" {
		date += ": " + why
	}
	return date
}

// birthday tells whether the end of the wait would tell the lead's birthday.
func (n Node) birthday() bool { return n.Type == WaitUntil && n.Lead == birthday }

// offset reads Offset, which may have a sign.
func (n Node) offset() (time.Duration, error) {
	if n.Offset == "" {
		return 0, nil
	}
	amount := strings.TrimLeft(n.Offset, "+-")
	d, err := waypost.ParseDuration(amount)
	if err != nil || len(n.Offset)-len(amount) > 1 {
		return 0, fmt.Errorf("%q is no duration; write it like -72h, 24h or -P3D", waypost.Clip(n.Offset, 40))
	}
	if n.Offset[0] == '-' {
		d = -d
	}
	return time.Duration(d), nil
}

// schedule is when in a week a waitUntil may end.
type schedule struct {
	loc   *time.Location
	timed bool // at clock, else at any time
	clock time.Duration
	days  [7]bool // by time.Weekday
}

func (n Node) schedule(lead *waypost.Lead) schedule {
	s := schedule{loc: time.UTC}
	if loc, ok := waypost.Zone(n.Timezone); ok {
		s.loc = loc
	} else if loc, ok := leadZone(lead); ok {
		s.loc = loc
	}
	s.clock, s.timed = parseClock(n.Time)
	for _, name := range n.Weekdays {
		if day, ok := weekdays[name]; ok {
			s.days[day] = true
		}
	}
	if len(n.Weekdays) == 0 {
		s.days = [7]bool{true, true, true, true, true, true, true}
	}
	return s
}

// maxDays is more than the days from one weekday to the next, even if a time zone
// leaves one out.
const maxDays = 20

// next returns the first instant after t, or from t on, that is at the schedule's
// clock; zero if there is none.
func (s schedule) next(t time.Time, from bool) time.Time {
	if !s.timed {
		return time.Time{}
	}
	today := dayOf(t.In(s.loc))
	for i := -1; i < maxDays; i++ {
		d := today.add(i)
		if !s.days[d.Weekday()] || !d.exists(s.loc) {
			continue
		}
		if at := waypost.FirstAt(d.Add(s.clock), s.loc); at.After(t) || from && at.Equal(t) {
			return at
		}
	}
	return time.Time{}
}

// from returns the first instant from t on that fits; zero if there is none.
func (s schedule) from(t time.Time) time.Time {
	if !s.timed {
		local := t.In(s.loc)
		if s.days[local.Weekday()] {
			return t
		}
		// The same time of day on the next day that fits.
		_, offset := local.Zone()
		s.timed, s.clock = true, t.Add(time.Duration(offset)*time.Second).Sub(dayOf(local).Time)
	}
	return s.next(t, true)
}

// occasion is a date of a lead: an instant, a time on clocks, or a day of every year.
type occasion struct {
	time.Time // the instant, or what clocks show as UTC; of a day its midnight
	instant   bool
	yearly    bool
}

// after returns when the date, moved by offset, is over by the schedule; if it
// comes every year, the first after now.
func (d occasion) after(now time.Time, offset time.Duration, s schedule) time.Time {
	switch {
	case d.instant:
		return s.from(d.Add(offset))
	case !d.yearly:
		return s.from(waypost.FirstAt(d.Add(offset), s.loc))
	}
	var at time.Time
	// The offset moves a date by a year and a bit at most.
	for year, last := now.In(s.loc).Year()-2, now.Year()+4; year < last; year++ {
		if at = s.from(waypost.FirstAt(d.in(year).Add(offset), s.loc)); at.After(now) {
			break
		}
	}
	return at
}

// yearlyFormat is how a day without a year is written.
const yearlyFormat = "--01-02"

// dayOfYear reads a day without a year, --12-31.
func dayOfYear(s string) (d occasion, ok bool) {
	t, err := time.Parse(yearlyFormat, s)
	return occasion{Time: t, yearly: err == nil}, err == nil
}

// in is the date in a year. 29 February is the day before in years without it: the
// date stays in its month, and no birthday is late.
func (d occasion) in(year int) time.Time {
	_, month, day := d.Date()
	at := time.Date(year, month, day, 0, 0, 0, 0, time.UTC)
	if at.Month() != month {
		at = at.AddDate(0, 0, -1)
	}
	return at
}

// Dates that a lead can have.
const (
	birthday    = "birthday"
	customField = "customFields."
)

// isLeadDate tells whether a lead can have a date of this name.
func isLeadDate(name string) bool {
	switch name {
	case birthday, "createdAt", "updatedAt":
		return true
	}
	return isCustomField(name)
}

// isCustomField tells whether leads can have a custom field of this name, customFields.NAME.
func isCustomField(name string) bool {
	field, ok := strings.CutPrefix(name, customField)
	return ok && field != "" && utf8.RuneCountInString(field) <= 64
}

// A number is taken for seconds since 1970 if it has nine to eleven digits, from March
// 1973 on: a shorter one is more likely a day such as 20261231 or a count, a longer one
// milliseconds.
const (
	minUnix = 100_000_000
	maxUnix = 99_999_999_999
)

// parseDate reads a date as templates do, but takes a text of digits for seconds only if
// it is sure to be some.
func parseDate(s string) (t time.Time, zoned, ok bool) {
	t, zoned, ok = waypost.ParseDate(s)
	if zoned && strings.Trim(strings.TrimSpace(s), "0123456789") == "" {
		ok = t.Unix() >= minUnix && t.Unix() <= maxUnix
	}
	return t, zoned, ok
}

// leadDate reads a date of the lead, or says why there is none.
func leadDate(lead *waypost.Lead, name string) (d occasion, reason string) {
	var written string
	switch name {
	case "createdAt", "updatedAt":
		at := lead.CreatedAt
		if name == "updatedAt" {
			at = lead.UpdatedAt
		}
		if at.IsZero() {
			return occasion{}, missingValue
		}
		return occasion{Time: at, instant: true}, ""
	case birthday:
		written = value(lead.Birthday)
	default:
		field, ok := strings.CutPrefix(name, customField)
		v := lead.CustomFields[field]
		if !ok || v == nil {
			return occasion{}, missingValue
		}
		if written, ok = v.(string); !ok {
			if seconds, ok := plain(v).(int); ok && seconds >= minUnix && seconds <= maxUnix {
				return occasion{Time: time.Unix(int64(seconds), 0), instant: true}, ""
			}
			return occasion{}, invalidValue
		}
	}
	if written = strings.TrimSpace(written); written == "" {
		return occasion{}, missingValue
	}
	if d, ok := dayOfYear(written); ok {
		return d, ""
	}
	if name == birthday {
		t, err := time.Parse(time.DateOnly, written)
		if err != nil {
			return occasion{}, invalidValue
		}
		return occasion{Time: t, yearly: true}, ""
	}
	if t, zoned, ok := parseDate(written); ok {
		return occasion{Time: t, instant: zoned}, ""
	}
	return occasion{}, invalidValue
}
