package console

import (
	"fmt"
	"html/template"
	"strconv"
	"time"
)

// number writes an integer with separators, which English and Chinese have in common.
func number(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return sign + digits
}

// anyNumber is number for templates, which have ints too.
func anyNumber(n any) string {
	switch n := n.(type) {
	case int:
		return number(int64(n))
	case int64:
		return number(n)
	}
	return fmt.Sprint(n)
}

// share writes a share of 1 with a decimal.
func share(of1 *float64) string { return strconv.FormatFloat(*of1*100, 'f', 1, 64) + " %" }

// Layouts of times, to the second.
var timeLayouts = map[string]string{"en": "2 Jan 2006, 15:04:05", "zh": "2006年1月2日 15:04:05"}

// timeTag is a <time> in the viewer's zone; nothing for the zero time. zone.js writes it
// anew if the browser is in another zone than the server thought.
func (p preferences) timeTag(at time.Time) template.HTML {
	if at.IsZero() {
		return ""
	}
	iso := at.UTC().Format("2006-01-02T15:04:05.000Z")
	return template.HTML(`<time datetime="` + iso + `" title="` + iso + `">` + at.In(p.Zone).Format(timeLayouts[p.Language]) + `</time>`) //nolint:gosec // made of digits and our layouts
}

// duration writes milliseconds, of any integer, as people read them.
func duration(n any) string {
	var ms int64
	switch n := n.(type) {
	case int:
		ms = int64(n)
	case int64:
		ms = n
	case *int64:
		ms = *n
	}
	switch d := time.Duration(ms) * time.Millisecond; {
	case d < time.Second:
		return strconv.FormatInt(ms, 10) + " ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + " s"
	default:
		return d.Round(time.Second).String()
	}
}

// tones are the colours of the badges of states; others are grey.
var tones = map[string]string{
	"pending": "info", "retrying": "warn", "deferred": "warn", "succeeded": "ok", "failed": "bad",
	"running": "info", "waiting": "info", "paused": "warn", "completed": "ok",
}

// tone is the colour of the badge of a state, a string by its kind.
func tone(state any) string { return tones[fmt.Sprint(state)] }
