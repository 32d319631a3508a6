package journey

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/overloads"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

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
)

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
		cel.Function(overloads.TypeConvertTimestamp,
			cel.Overload("text_to_instant", []*cel.Type{text, text}, moment, inZone(textToInstant)),
			cel.Overload("instant_to_instant", []*cel.Type{moment, text}, moment, cel.BinaryBinding(func(v, _ ref.Val) ref.Val { return v })),
			cel.Overload("number_to_instant", []*cel.Type{number, text}, moment, cel.BinaryBinding(secondsToInstant))),
		cel.Function(overloads.TypeConvertDuration,
			unary("text_to_duration", text, span, textToDuration), unary(overloads.DurationToDuration, span, span, same)),
	}
	for name, part := range dateParts {
		ofMoment := inZone(func(v ref.Val, loc *time.Location) ref.Val {
			return types.Double(part(v.(types.Timestamp).In(loc)))
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
	return 1, name == dateFunction || name == overloads.TypeConvertTimestamp
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
		case dateFunction, overloads.TypeConvertTimestamp:
			if _, ok := readInstant(s, time.UTC); !ok {
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

// midnight is when the day begins that it is at t in the zone.
func midnight(t time.Time, loc *time.Location) time.Time {
	return waypost.FirstAt(dayOf(t.In(loc)).Time, loc).UTC()
}

func textToInstant(v ref.Val, loc *time.Location) ref.Val {
	t, ok := readInstant(string(v.(types.String)), loc)
	if !ok {
		return types.NewErr("type conversion error")
	}
	return timestampOf(t)
}

func textToDate(v ref.Val, loc *time.Location) ref.Val {
	if v = textToInstant(v, loc); types.IsError(v) {
		return v
	}
	return instantToDate(v, loc)
}

func instantToDate(v ref.Val, loc *time.Location) ref.Val {
	return timestampOf(midnight(v.(types.Timestamp).Time, loc))
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
