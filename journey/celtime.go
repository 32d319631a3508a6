package journey

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"waypost"
)

// The clock of conditions.
const (
	varNow   = "now"
	varToday = "today" // midnight of the day that it is in the lead's zone
	// varZone is the name of the variable that holds the lead's zone. No condition can name
	// it.
	varZone = "#zone"

	dateFunction = "date"
	fnDaysUntil  = "daysUntil"
	fnDaysSince  = "daysSince"
	// Functions that inLeadZone and ofTheYear write. No condition can name them.
	fnYearly = "#yearly" // a date as a text: its day of every year
	fnAnyDay = "#anyDay" // a date of which no year is asked for
)

// calendarDay is a day of the calendar as conditions see it: an instant, its midnight, but days that are
// added to it or lie between two are those of the calendar, however long they are.
type calendarDay struct {
	types.Timestamp
	date time.Time // the day, as UTC has it
	loc  *time.Location
}

// maxSpanDays is how many days a duration can be, which is less than 293 years.
const maxSpanDays = 106_751

const oneDay = 24 * time.Hour

// dayAt is the day that it is at t in the zone.
func dayAt(t time.Time, loc *time.Location) ref.Val {
	return dayOn(dayOf(t.In(loc)).Time, loc)
}

func dayOn(date time.Time, loc *time.Location) ref.Val {
	v := timestampOf(waypost.FirstAt(date, loc))
	if at, ok := v.(types.Timestamp); ok {
		return calendarDay{at, date, loc}
	}
	return v
}

// Equal implements ref.Val.
func (d calendarDay) Equal(other ref.Val) ref.Val { return d.Timestamp.Equal(instant(other)) }

// Compare implements traits.Comparer.
func (d calendarDay) Compare(other ref.Val) ref.Val { return d.Timestamp.Compare(instant(other)) }

// instant is a value that is no day: of a day, its midnight.
func instant(v ref.Val) ref.Val {
	if d, ok := v.(calendarDay); ok {
		return d.Timestamp
	}
	return v
}

func timeOf(v ref.Val) time.Time { return instant(v).(types.Timestamp).Time }

// plus moves a day: by whole days on the calendar, by any other time from its midnight.
func (d calendarDay) plus(span time.Duration) ref.Val {
	if span%oneDay == 0 {
		return dayOn(d.date.AddDate(0, 0, int(span/oneDay)), d.loc)
	}
	return d.Timestamp.Add(types.Duration{Duration: span})
}

// added is l + r.
func added(l, r ref.Val) ref.Val {
	if n, ok := l.(types.Double); ok {
		if m, ok := r.(types.Double); ok {
			return calculated(operators.Add, float64(n), float64(m))
		}
	}
	if _, ok := l.(types.Duration); ok {
		l, r = r, l
	}
	if d, ok := l.(calendarDay); ok {
		if span, ok := r.(types.Duration); ok {
			return d.plus(span.Duration)
		}
	}
	return l.(traits.Adder).Add(r)
}

// subtracted is l - r.
func subtracted(l, r ref.Val) ref.Val {
	if n, ok := l.(types.Double); ok {
		if m, ok := r.(types.Double); ok {
			return calculated(operators.Subtract, float64(n), float64(m))
		}
	}
	d, isDay := l.(calendarDay)
	switch r := r.(type) {
	case calendarDay:
		if !isDay {
			break
		}
		n := calendarDays(r.date, d.date)
		if n > maxSpanDays || n < -maxSpanDays {
			return types.NewErr("duration overflow")
		}
		return types.Duration{Duration: time.Duration(n) * oneDay}
	case types.Duration:
		if isDay && r.Duration != math.MinInt64 {
			return d.plus(-r.Duration)
		}
	}
	return instant(l).(traits.Subtractor).Subtract(instant(r))
}

// calendarDays is how many days later b is, both midnights in UTC.
func calendarDays(a, b time.Time) int64 { return (b.Unix() - a.Unix()) / int64(oneDay/time.Second) }

// dateParts are the functions that read a date or a time of the day off an instant.
var dateParts = map[string]func(time.Time) int{
	overloads.TimeGetFullYear:     time.Time.Year,
	overloads.TimeGetMonth:        func(t time.Time) int { return int(t.Month()) - 1 },
	overloads.TimeGetDayOfYear:    func(t time.Time) int { return t.YearDay() - 1 },
	overloads.TimeGetDayOfMonth:   func(t time.Time) int { return t.Day() - 1 },
	overloads.TimeGetDate:         time.Time.Day,
	overloads.TimeGetDayOfWeek:    func(t time.Time) int { return int(t.Weekday()) },
	overloads.TimeGetHours:        time.Time.Hour,
	overloads.TimeGetMinutes:      time.Time.Minute,
	overloads.TimeGetSeconds:      time.Time.Second,
	overloads.TimeGetMilliseconds: func(t time.Time) int { return t.Nanosecond() / int(time.Millisecond) },
}

// durationParts are the dateParts that a duration has too.
var durationParts = map[string]func(time.Duration) float64{
	overloads.TimeGetHours:        func(d time.Duration) float64 { return math.Trunc(d.Hours()) },
	overloads.TimeGetMinutes:      func(d time.Duration) float64 { return math.Trunc(d.Minutes()) },
	overloads.TimeGetSeconds:      func(d time.Duration) float64 { return math.Trunc(d.Seconds()) },
	overloads.TimeGetMilliseconds: func(d time.Duration) float64 { return float64(d.Milliseconds()) },
}

// timeFunctions declares what reads times. Where a condition names no zone, inLeadZone
// makes it the lead's.
func timeFunctions() []cel.EnvOption {
	number, text, span, moment := cel.DoubleType, cel.StringType, cel.DurationType, cel.TimestampType
	options := []cel.EnvOption{
		cel.Variable(varNow, moment), cel.Variable(varToday, moment), cel.Variable(varZone, text),
		cel.Function(dateFunction,
			cel.Overload("text_to_date", []*cel.Type{text, text}, moment, inZone(textToDate)),
			cel.Overload("instant_to_date", []*cel.Type{moment, text}, moment, inZone(instantToDate))),
		cel.Function(fnAnyDay,
			cel.Overload("text_to_any_day", []*cel.Type{text, text}, moment, inZone(textToAnyDay)),
			cel.Overload("instant_to_any_day", []*cel.Type{moment, text}, moment, inZone(instantToDate))),
		daysFunction(fnDaysUntil, func(today, d occasion) int64 { return calendarDays(today.Time, d.nextFrom(today.Time)) }),
		daysFunction(fnDaysSince, func(today, d occasion) int64 { return calendarDays(d.lastUntil(today.Time), today.Time) }),
		cel.Function(fnYearly, unary("text_to_day_of_year", text, text, textToYearly)),
		cel.Function(overloads.TypeConvertTimestamp,
			cel.Overload("text_to_instant", []*cel.Type{text, text}, moment, inZone(textToInstant)),
			cel.Overload("instant_to_instant", []*cel.Type{moment, text}, moment, cel.BinaryBinding(func(v, _ ref.Val) ref.Val { return instant(v) })),
			cel.Overload("number_to_instant", []*cel.Type{number, text}, moment, cel.BinaryBinding(secondsToInstant))),
		cel.Function(overloads.TypeConvertDuration,
			unary("text_to_duration", text, span, textToDuration), unary(overloads.DurationToDuration, span, span, same)),
	}
	for name, part := range dateParts {
		ofMoment := inZone(func(v ref.Val, loc *time.Location) ref.Val {
			return types.Double(part(timeOf(v).In(loc)))
		})
		bindings := []cel.FunctionOpt{cel.MemberOverload("timestamp_"+name, []*cel.Type{moment, text}, number, ofMoment)}
		if of, ok := durationParts[name]; ok {
			ofSpan := cel.BinaryBinding(func(v, _ ref.Val) ref.Val { return types.Double(of(v.(types.Duration).Duration)) })
			bindings = append(bindings, cel.MemberOverload("duration_"+name, []*cel.Type{span, text}, number, ofSpan))
		}
		options = append(options, cel.Function(name, bindings...))
	}
	return options
}

// inZone binds a function of a value and a time zone.
func inZone(do func(v ref.Val, loc *time.Location) ref.Val) cel.OverloadOpt {
	return cel.BinaryBinding(func(v, zone ref.Val) ref.Val {
		loc, ok := zoneOf(string(zone.(types.String)))
		if !ok {
			return types.NewErr("invalid time zone")
		}
		return do(v, loc)
	})
}

// zoneArgument returns which argument of a call is a time zone; false for a call that
// takes none.
func zoneArgument(call ast.CallExpr) (at int, ok bool) {
	name := call.FunctionName()
	if call.IsMemberFunction() {
		_, ok = dateParts[name]
		return 0, ok
	}
	switch name {
	case dateFunction, overloads.TypeConvertTimestamp, fnDaysUntil, fnDaysSince:
		return 1, true
	}
	return 1, false
}

// daysFunction declares daysUntil or daysSince of a date, the zone and now.
func daysFunction(name string, days func(today, d occasion) int64) cel.EnvOption {
	count := func(of ref.Val, args []ref.Val) ref.Val {
		loc, ok := zoneOf(string(args[1].(types.String)))
		if !ok {
			return types.NewErr("invalid time zone")
		}
		var d occasion
		if s, ok := of.(types.String); ok {
			if d, ok = dayOfYear(strings.TrimSpace(string(s))); !ok {
				of = textToDate(of, loc)
			}
		}
		switch of := of.(type) {
		case calendarDay:
			d.Time = of.date
		case types.Timestamp:
			d.Time = dayOf(of.In(loc)).Time
		case *types.Err:
			return of
		}
		return types.Double(days(occasion{Time: dayOf(timeOf(args[2]).In(loc)).Time}, d))
	}
	binding := cel.FunctionBinding(func(args ...ref.Val) ref.Val { return count(args[0], args) })
	text, moment := cel.StringType, cel.TimestampType
	return cel.Function(name,
		cel.Overload(name+"_text", []*cel.Type{text, text, moment}, cel.DoubleType, binding),
		cel.Overload(name+"_instant", []*cel.Type{moment, text, moment}, cel.DoubleType, binding))
}

// nextFrom is the date, or, if it comes every year, the first one from a day on.
func (d occasion) nextFrom(day time.Time) time.Time {
	if !d.yearly {
		return d.Time
	}
	if at := d.in(day.Year()); !at.Before(day) {
		return at
	}
	return d.in(day.Year() + 1)
}

// lastUntil is the date, or, if it comes every year, the last one until a day.
func (d occasion) lastUntil(day time.Time) time.Time {
	if !d.yearly {
		return d.Time
	}
	if at := d.in(day.Year()); !at.After(day) {
		return at
	}
	return d.in(day.Year() - 1)
}

// textToYearly is the day of every year of a birthday.
func textToYearly(v ref.Val) ref.Val {
	s := strings.TrimSpace(string(v.(types.String)))
	if t, err := time.Parse(time.DateOnly, s); err == nil {
		return types.String(t.Format(yearlyFormat))
	}
	return types.String(s)
}

// ofTheYear changes calls that ask for no year, so that a day without one will do: the month and the
// day of date(x), and how many days it is to a birthday.
func ofTheYear(e ast.Expr, id func() int64) {
	call, build := e.AsCall(), ast.NewExprFactory()
	switch name := call.FunctionName(); name {
	case overloads.TimeGetMonth, overloads.TimeGetDate, overloads.TimeGetDayOfMonth:
		if !call.IsMemberFunction() || call.Target().Kind() != ast.CallKind || call.Target().AsCall().FunctionName() != dateFunction {
			return
		}
		of := call.Target()
		of.SetKindCase(build.NewCall(of.ID(), fnAnyDay, of.AsCall().Args()...))
	case fnDaysUntil, fnDaysSince:
		args := slices.Clone(call.Args())
		if call.IsMemberFunction() || len(args) != 2 {
			return
		}
		if readsLead(args[0], birthday) {
			args[0] = build.NewCall(id(), fnYearly, args[0])
		}
		e.SetKindCase(build.NewCall(e.ID(), name, append(args, build.NewIdent(id(), varNow))...))
	}
}

// inLeadZone adds the lead's zone to a call that reads times and names no zone.
func inLeadZone(e ast.Expr, id int64) bool {
	call := e.AsCall()
	at, ok := zoneArgument(call)
	if !ok || len(call.Args()) != at {
		return false
	}
	build := ast.NewExprFactory()
	arguments := append(slices.Clone(call.Args()), build.NewIdent(id, varZone))
	if call.IsMemberFunction() {
		e.SetKindCase(build.NewMemberCall(e.ID(), call.FunctionName(), call.Target(), arguments...))
	} else {
		e.SetKindCase(build.NewCall(e.ID(), call.FunctionName(), arguments...))
	}
	return true
}

// literalFault says what is wrong with a text that a condition itself gives to a
// function that reads times; "" if nothing is.
func literalFault(e ast.Expr) string {
	call := e.AsCall()
	written := func(i int) (string, bool) {
		if i >= len(call.Args()) || call.Args()[i].Kind() != ast.LiteralKind {
			return "", false
		}
		s, ok := call.Args()[i].AsLiteral().(types.String)
		return string(s), ok
	}
	if s, ok := written(0); ok && !call.IsMemberFunction() {
		switch call.FunctionName() {
		case dateFunction, overloads.TypeConvertTimestamp, fnDaysUntil, fnDaysSince:
			_, yearly := dayOfYear(s)
			days := call.FunctionName() == fnDaysUntil || call.FunctionName() == fnDaysSince
			if _, ok := readInstant(s, time.UTC); !ok && !(days && yearly) {
				return waypost.Clip(strconv.Quote(s), 64) + " is no date; write it like 2026-12-31 or 2026-12-31T09:00:00+08:00"
			}
		case overloads.TypeConvertDuration:
			if _, ok := readDuration(s); !ok {
				return waypost.Clip(strconv.Quote(s), 64) + " is no duration; write it like 72h or P3D"
			}
		}
	}
	at, takesZone := zoneArgument(call)
	if s, ok := written(at); ok && takesZone {
		if _, ok := zoneOf(s); !ok {
			return "there is no time zone " + waypost.Clip(strconv.Quote(s), 64) + "; write it like Asia/Shanghai or +08:00"
		}
	}
	return ""
}

// zoneOf finds a time zone by its IANA name or its offset from UTC, such as +08:00.
func zoneOf(name string) (*time.Location, bool) {
	if t, err := time.Parse("-07:00", name); err == nil {
		return t.Location(), true
	}
	return waypost.Zone(name)
}

// readInstant reads a date as a waitUntil does: a day is its midnight, and a date without
// a zone is one in loc.
func readInstant(s string, loc *time.Location) (time.Time, bool) {
	t, zoned, ok := parseDate(s)
	if ok && !zoned {
		t = waypost.FirstAt(t, loc)
	}
	return t, ok
}

func textToInstant(v ref.Val, loc *time.Location) ref.Val {
	s := string(v.(types.String))
	t, ok := readInstant(s, loc)
	if ok {
		return timestampOf(t)
	}
	if _, ok := dayOfYear(strings.TrimSpace(s)); ok {
		return types.NewErr(noYear)
	}
	return types.NewErr("type conversion error")
}

// textToAnyDay takes a day without a year for one of a leap year.
func textToAnyDay(v ref.Val, loc *time.Location) ref.Val {
	if d, ok := dayOfYear(strings.TrimSpace(string(v.(types.String)))); ok {
		return dayOn(d.in(2000), loc)
	}
	return textToDate(v, loc)
}

func textToDate(v ref.Val, loc *time.Location) ref.Val {
	if v = textToInstant(v, loc); types.IsError(v) {
		return v
	}
	return instantToDate(v, loc)
}

func instantToDate(v ref.Val, loc *time.Location) ref.Val {
	return dayAt(timeOf(v), loc)
}

// secondsToInstant reads seconds since 1970, to the microsecond: a float64 has no more
// of them.
func secondsToInstant(v, _ ref.Val) ref.Val {
	seconds := float64(v.(types.Double))
	if math.Abs(seconds) > maxExact/1e3 {
		return types.NewErr(errOverflow)
	}
	return timestampOf(time.UnixMicro(int64(math.Round(seconds * 1e6))))
}

// timestampOf refuses years that RFC 3339 cannot write.
func timestampOf(t time.Time) ref.Val {
	if t = t.UTC(); t.Year() < 1 || t.Year() > 9999 {
		return types.NewErr(errOverflow)
	}
	return types.Timestamp{Time: t}
}

func textToDuration(v ref.Val) ref.Val {
	d, ok := readDuration(string(v.(types.String)))
	if !ok {
		return types.NewErr("type conversion error")
	}
	return types.Duration{Duration: d}
}

// readDuration reads a duration as definitions write them, which may have a sign.
func readDuration(s string) (time.Duration, bool) {
	if d, err := time.ParseDuration(s); err == nil {
		return d, true
	}
	amount, negative := strings.CutPrefix(s, "-")
	d, err := waypost.ParseDuration(amount)
	if negative {
		d = -d
	}
	return time.Duration(d), err == nil && strings.HasPrefix(amount, "P")
}
