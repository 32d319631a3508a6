package liquid

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// someTime is a time to try formats with.
var someTime = time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC)

// date formats a date, or seconds since 1970, as strftime does. Any other value, and a
// date without a format, stays as it is.
func date(r *run, v any, a []any) any {
	format := textOf(a[0])
	t, ok := r.dateOf(v)
	if !ok || format == "" {
		return v
	}
	text, _ := strftime(t, format)
	return text
}

func (r *run) dateOf(v any) (time.Time, bool) {
	switch v := v.(type) {
	case int:
		return time.Unix(int64(v), 0).UTC(), v > -maxSeconds && v < maxSeconds
	case string:
		if strings.EqualFold(v, "now") || strings.EqualFold(v, "today") {
			if r.trial {
				r.fail(errUnknown)
			}
			return r.Now.In(r.Location), !r.Now.IsZero()
		}
		r.spend(dateWork)
		t, _, ok := ParseDate(v)
		return t, ok
	case Instant:
		return time.Time(v).In(r.Location), true
	}
	return time.Time{}, false
}

// maxSeconds keeps years within four digits.
const maxSeconds = 250_000_000_000

var (
	seconds = regexp.MustCompile(`^\d{1,12}$`)
	weekday = regexp.MustCompile(`(?i)^(mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?|sun)(day)? `)
	ordinal = regexp.MustCompile(`(?i)^(\D*\d{1,2})(st|nd|rd|th)\b`)
	day     = regexp.MustCompile(`^(\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{8}|\d{1,2}[- ][A-Za-z]+[- ]\d{4}|[A-Za-z]+ \d{1,2} \d{4})(?:[ Tt](.+))?$`)
	utc     = regexp.MustCompile(` ?(UTC|GMT|Z)$`)

	dayLayouts = []string{
		"2006-1-2", "2006/1/2", "20060102", "2 January 2006", "2 Jan 2006", "January 2 2006", "Jan 2 2006", "2-Jan-2006",
	}
	clockLayouts = []string{"15:04", "15:04:05", "3:04 PM", "3:04PM", "3:04:05 PM", "3:04:05PM", "3 PM", "3PM"}
	zoneLayouts  = []string{"", "Z07:00", " Z07:00", "Z0700", " Z0700", "Z07", " Z07"}
)

// ParseDate reads a day, with or without a time of day and an offset: 2027-03-14,
// 2027/3/14, 20270314, 14 March 2027, 14-Mar-2027, March 14, 2027, Mar 14th 2027, each
// also behind a weekday; 2027-03-14T15:04:05.123Z, 2027-03-14 15:04 +0800,
// March 14, 2027 3:04 PM; and seconds since 1970. zoned tells whether it is an instant;
// otherwise t has what clocks show, as UTC.
func ParseDate(s string) (t time.Time, zoned, ok bool) {
	if s = strings.TrimSpace(s); len(s) > maxDigits {
		return time.Time{}, false, false
	}
	if n, err := strconv.Atoi(s); seconds.MatchString(s) && len(s) != len("20060102") && err == nil {
		return time.Unix(int64(n), 0).UTC(), true, n < maxSeconds
	}
	s = strings.Join(strings.Fields(strings.ReplaceAll(s, ",", " ")), " ")
	m := day.FindStringSubmatch(ordinal.ReplaceAllString(weekday.ReplaceAllString(s, ""), "$1"))
	if m == nil {
		return time.Time{}, false, false
	}
	for _, layout := range dayLayouts {
		if t, err := time.Parse(layout, m[1]); err == nil && m[2] == "" {
			return t, false, true
		} else if err != nil {
			continue
		}
		rest := utc.ReplaceAllString(strings.ToUpper(m[2]), "Z")
		for _, clock := range clockLayouts {
			for _, zone := range zoneLayouts {
				// In UTC, or an offset that the machine's own zone has gets that zone's name.
				if t, err := time.ParseInLocation(layout+"T"+clock+zone, m[1]+"T"+rest, time.UTC); err == nil {
					return t, zone != "", true
				}
			}
		}
	}
	return time.Time{}, false, false
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
