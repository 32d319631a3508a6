package journey

import (
	"fmt"
	"strings"
	"time"
)

// date formats a date, or seconds since 1970, as strftime does. What is no date
// stays as it is.
func date(v any, a arguments) (any, error) {
	t, ok := dateOf(v)
	if !ok {
		return v, nil
	}
	format := textOf(a.at(0))
	if len(format) > 256 {
		return nil, errRender("a date's format has at most 256 bytes")
	}
	return strftime(t, format), nil
}

func dateOf(v any) (time.Time, bool) {
	switch v := v.(type) {
	case int:
		return time.Unix(int64(v), 0).UTC(), v > -1e11 && v < 1e11
	case string:
		t, _, ok := parseDate(v)
		return t, ok
	}
	return time.Time{}, false
}

// dateLayoutOf maps the directives of strftime to Go's layouts.
var dateLayoutOf = map[byte]string{
	'Y': "2006", 'y': "06", 'm': "01", 'd': "02", 'e': "_2", 'H': "15", 'I': "03", 'M': "04", 'S': "05", 'L': "000",
	'p': "PM", 'P': "pm", 'B': "January", 'b': "Jan", 'h': "Jan", 'A': "Monday", 'a': "Mon", 'j': "002",
	'z': "-0700", 'Z': "MST", 'F': "2006-01-02", 'T': "15:04:05", 'R': "15:04", 'D': "01/02/06",
}

// unpadded maps the directives after %-.
var unpadded = map[byte]string{'m': "1", 'd': "2", 'e': "2", 'I': "3", 'M': "4", 'S': "5"}

func strftime(t time.Time, format string) string {
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		c, layouts := format[i], dateLayoutOf
		if c == '-' && i+1 < len(format) {
			i++
			c, layouts = format[i], unpadded
		}
		layout, ok := layouts[c]
		switch {
		case c == 'L':
			fmt.Fprintf(&b, "%03d", t.Nanosecond()/1e6)
		case c == 's':
			fmt.Fprint(&b, t.Unix())
		case c == 'H' && !ok:
			fmt.Fprint(&b, t.Hour())
		case c == 'u':
			fmt.Fprint(&b, (int(t.Weekday())+6)%7+1)
		case c == 'w':
			fmt.Fprint(&b, int(t.Weekday()))
		case c == '%':
			b.WriteByte('%')
		case ok:
			b.WriteString(t.Format(layout))
		default:
			b.WriteByte('%')
			b.WriteByte(c)
		}
	}
	return b.String()
}
