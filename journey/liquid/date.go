package liquid

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"waypost"
)

// someTime is a time to try formats with.
var someTime = time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC)

// date formats a date, or seconds since 1970, as strftime does, in the zone that is named,
// if one is. Any other value, and a date without a format, stays as it is.
func date(r *run, v any, a []any) any {
	format := textOf(a[0])
	var in *time.Location
	if len(a) > 1 {
		in = zoneOf(textOf(a[1]))
	}
	t, ok := r.dateOf(v, in, format)
	if !ok || format == "" {
		return v
	}
	text, _ := strftime(t, format)
	return text
}

// zoneOf is a time zone by its IANA name, or its offset such as +08:00; nil for none.
func zoneOf(name string) *time.Location {
	if t, err := time.Parse("-07:00", name); err == nil {
		return t.Location()
	}
	loc, _ := waypost.Zone(name)
	return loc
}

// dateOf reads a date to be printed by a format. An instant is shown in the zone in, if one is
// given, else as it is written, and one that Waypost knows in the lead's zone. What names no
// zone is of that zone, and prints as it is written.
func (r *run) dateOf(v any, in *time.Location, format string) (t time.Time, ok bool) {
	shown := func(t time.Time) time.Time {
		if in != nil {
			return t.In(in)
		}
		return t
	}
	switch v := v.(type) {
	case int:
		return shown(time.Unix(int64(v), 0).UTC()), v > -waypost.MaxSeconds && v < waypost.MaxSeconds
	case string:
		if strings.EqualFold(v, "now") || strings.EqualFold(v, "today") {
			if r.trial {
				r.fail(errUnknown)
			}
			return shown(r.Now.In(r.Location)), !r.Now.IsZero()
		}
		r.spend(dateWork)
		t, zoned, ok := waypost.ParseDate(v)
		switch {
		case zoned:
			return shown(t), ok
		case ok:
			return r.asWritten(t, in, format), true
		}
		t, yearly, ok := waypost.Birthday(v)
		return t, ok && yearly && !yearDirective.MatchString(format) // the year is not known
	case Instant:
		return shown(time.Time(v).In(r.Location)), true
	}
	return time.Time{}, false
}

// asWritten is when clocks of the zone, the lead's if it is nil, show a time that names none.
// Only seconds since 1970 and the zone itself depend on it.
func (r *run) asWritten(t time.Time, in *time.Location, format string) time.Time {
	if !zoneDirective.MatchString(format) {
		return t
	}
	if in == nil {
		if r.trial {
			r.fail(errUnknown)
		}
		in = r.Location
	}
	return waypost.FirstAt(t, in).In(in)
}

var (
	// zoneDirective is in formats that print what depends on the zone.
	zoneDirective = regexp.MustCompile(`%[-0^#_]*\d*:*[szZ+]`)
	// yearDirective is in formats that print more than a month and a day.
	yearDirective = regexp.MustCompile(`%[-0^#_]*\d*:*[^-mdeBbhnt%0-9^#_:]`)
)

// patterns are directives of other date formats, the longest first, and Liquid's.
var patterns = []struct{ letters, directive string }{
	{"YYYY", "%Y"}, {"yyyy", "%Y"}, {"MM", "%m"}, {"DD", "%d"}, {"dd", "%d"}, {"HH", "%H"}, {"hh", "%I"}, {"mm", "%M"}, {"ss", "%S"},
}

// directivesFor is a format that is written for another library, such as YYYY-MM-DD, as
// Liquid has it; "" for one that is not.
func directivesFor(format string) string {
	out, rest := format, format
	for _, p := range patterns {
		out, rest = strings.ReplaceAll(out, p.letters, p.directive), strings.ReplaceAll(rest, p.letters, "")
	}
	if out == format || strings.Trim(rest, " -/.:,T年月日时分秒") != "" {
		return ""
	}
	return out
}

// directive is one of strftime: flags, a width, colons, a letter.
var directive = regexp.MustCompile(`%([-0^#_]*)(\d{0,2})(:{0,2})(.)`)

// strftime formats a time as Ruby does. Directives that do not exist stay as they
// are; the first of them is returned too.
func strftime(t time.Time, format string) (text, unknown string) {
	text = directive.ReplaceAllStringFunc(format, func(found string) string {
		m := directive.FindStringSubmatch(found)
		out, pad, width := directiveOf(t, m[4][0], m[3], m[2])
		if width < 0 || m[3] != "" && m[4] != "z" {
			if unknown == "" {
				unknown = found
			}
			return found
		}
		if n, err := strconv.Atoi(m[2]); err == nil && m[4] != "N" && m[4] != "L" {
			width = n
		}
		for _, flag := range m[1] {
			switch flag {
			case '-':
				width = 0
			case '0':
				pad = "0"
			case '_':
				pad = " "
			case '^':
				out = strings.ToUpper(out)
			case '#':
				if up := strings.ToUpper(out); up != out {
					out = up
				} else {
					out = strings.ToLower(out)
				}
			}
		}
		return strings.Repeat(pad, max(0, width-len(out))) + out
	})
	return text, unknown
}

// directiveOf is the text of a letter, and the width that it is filled up to with pad;
// the width is -1 if the letter is no directive. precision is the number of digits of a
// fraction of a second.
func directiveOf(t time.Time, letter byte, colons, precision string) (text, pad string, width int) {
	if layout, ok := layouts[letter]; ok {
		return t.Format(layout), " ", 0
	}
	if n, ok := numbers[letter]; ok {
		return strconv.Itoa(n.of(t)), n.pad, n.width
	}
	switch letter {
	case 'L', 'N':
		n, err := strconv.Atoi(precision)
		if err != nil || n == 0 {
			n = map[byte]int{'L': 3, 'N': 9}[letter]
		}
		all := fmt.Sprintf("%09d", t.Nanosecond())
		return (all + strings.Repeat("0", n))[:n], "0", n
	case 'z':
		return t.Format([]string{"-0700", "-07:00", "-07:00:00"}[len(colons)]), "0", 0
	case 'v':
		return strings.ToUpper(t.Format("_2-Jan-2006")), " ", 0
	case 'Z':
		return strings.Trim(t.Format("MST"), "+-0123456789"), " ", 0 // zones without a name have digits
	}
	return "", "", -1
}

// layouts maps the directives that Go's layouts can say.
var layouts = map[byte]string{
	'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'p': "PM", 'P': "pm",
	'F': "2006-01-02", 'T': "15:04:05", 'X': "15:04:05", 'R': "15:04", 'r': "03:04:05 PM", 'D': "01/02/06", 'x': "01/02/06",
	'c': "Mon Jan _2 15:04:05 2006", '+': "Mon Jan _2 15:04:05 MST 2006",
	'n': "\n", 't': "\t", '%': "%",
}

// numbers maps the directives that are numbers.
var numbers = map[byte]struct {
	pad   string
	width int
	of    func(time.Time) int
}{
	'Y': {"0", 4, time.Time.Year},
	'C': {"0", 2, func(t time.Time) int { return t.Year() / 100 }},
	'y': {"0", 2, func(t time.Time) int { return t.Year() % 100 }},
	'm': {"0", 2, func(t time.Time) int { return int(t.Month()) }},
	'd': {"0", 2, time.Time.Day},
	'e': {" ", 2, time.Time.Day},
	'j': {"0", 3, time.Time.YearDay},
	'H': {"0", 2, time.Time.Hour},
	'k': {" ", 2, time.Time.Hour},
	'I': {"0", 2, hourOf12},
	'l': {" ", 2, hourOf12},
	'M': {"0", 2, time.Time.Minute},
	'S': {"0", 2, time.Time.Second},
	's': {"0", 1, func(t time.Time) int { return int(t.Unix()) }},
	'u': {"0", 1, func(t time.Time) int { return sinceMonday(t) + 1 }},
	'w': {"0", 1, func(t time.Time) int { return int(t.Weekday()) }},
	'G': {"0", 4, isoYear},
	'g': {"0", 2, func(t time.Time) int { return isoYear(t) % 100 }},
	'V': {"0", 2, isoWeek},
	'U': {"0", 2, func(t time.Time) int { return (t.YearDay() + 6 - int(t.Weekday())) / 7 }},
	'W': {"0", 2, func(t time.Time) int { return (t.YearDay() + 6 - sinceMonday(t)) / 7 }},
}

func hourOf12(t time.Time) int { return (t.Hour()+11)%12 + 1 }

func sinceMonday(t time.Time) int { return (int(t.Weekday()) + 6) % 7 }

func isoYear(t time.Time) int {
	year, _ := t.ISOWeek()
	return year
}

func isoWeek(t time.Time) int {
	_, week := t.ISOWeek()
	return week
}
