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

// date formats a date, or seconds since 1970, as strftime does. What is no date, and
// what has no format, stays as it is.
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

// directiveOf is what a letter stands for, with what is put before it up to which
// width; the width is -1 for a letter that stands for nothing. precision is that of
// fractions of a second.
func directiveOf(t time.Time, letter byte, colons, precision string) (text, pad string, width int) {
	number := func(n, width int) (string, string, int) { return strconv.Itoa(n), "0", width }
	blank := func(n int) (string, string, int) { return strconv.Itoa(n), " ", 2 }
	hour := (t.Hour()+11)%12 + 1
	isoYear, isoWeek := t.ISOWeek()
	if layout, ok := layouts[letter]; ok {
		return t.Format(layout), " ", 0
	}
	switch letter {
	case 'Y':
		return number(t.Year(), 4)
	case 'C':
		return number(t.Year()/100, 2)
	case 'y':
		return number(t.Year()%100, 2)
	case 'm':
		return number(int(t.Month()), 2)
	case 'd':
		return number(t.Day(), 2)
	case 'e':
		return blank(t.Day())
	case 'j':
		return number(t.YearDay(), 3)
	case 'H':
		return number(t.Hour(), 2)
	case 'k':
		return blank(t.Hour())
	case 'I':
		return number(hour, 2)
	case 'l':
		return blank(hour)
	case 'M':
		return number(t.Minute(), 2)
	case 'S':
		return number(t.Second(), 2)
	case 'L', 'N':
		n, err := strconv.Atoi(precision)
		if err != nil || n == 0 {
			n = map[byte]int{'L': 3, 'N': 9}[letter]
		}
		all := fmt.Sprintf("%09d", t.Nanosecond())
		return (all + strings.Repeat("0", n))[:n], "0", n
	case 's':
		return number(int(t.Unix()), 1)
	case 'u':
		return number((int(t.Weekday())+6)%7+1, 1)
	case 'w':
		return number(int(t.Weekday()), 1)
	case 'G':
		return number(isoYear, 4)
	case 'g':
		return number(isoYear%100, 2)
	case 'V':
		return number(isoWeek, 2)
	case 'U':
		return number((t.YearDay()+6-int(t.Weekday()))/7, 2)
	case 'W':
		return number((t.YearDay()+6-(int(t.Weekday())+6)%7)/7, 2)
	case 'z':
		return t.Format([]string{"-0700", "-07:00", "-07:00:00"}[len(colons)]), "0", 0
	case 'v':
		return strings.ToUpper(t.Format("_2-Jan-2006")), " ", 0
	case 'Z':
		if name, _ := t.Zone(); name != "" && name[0] != '+' && name[0] != '-' {
			return name, " ", 0
		}
		return "", " ", 0
	case 'n':
		return "\n", " ", 0
	case 't':
		return "\t", " ", 0
	case '%':
		return "%", " ", 0
	}
	return "", "", -1
}

// layouts maps the directives that Go's layouts can say.
var layouts = map[byte]string{
	'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'p': "PM", 'P': "pm",
	'F': "2006-01-02", 'T': "15:04:05", 'X': "15:04:05", 'R': "15:04", 'r': "03:04:05 PM", 'D': "01/02/06", 'x': "01/02/06",
	'c': "Mon Jan _2 15:04:05 2006", '+': "Mon Jan _2 15:04:05 MST 2006",
}
