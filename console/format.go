package console

import (
	"fmt"
	"html/template"
	"strconv"
	"strings"
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

// percent writes a share of 1 with a decimal.
func percent(of1 *float64) string { return strconv.FormatFloat(*of1*100, 'f', 1, 64) + "%" }

// Layouts of times, to the second.
var timeLayouts = map[string]string{"en": "2 Jan 2006, 15:04:05", "zh": "2006年1月2日 15:04:05"}

// instant is a time.Time, or one of the gateway's.
type instant interface {
	IsZero() bool
	UTC() time.Time
	In(loc *time.Location) time.Time
}

// timeTag is a <time> in the viewer's zone; nothing for the zero time. zone.js writes it
// anew if the browser is in another zone than the server thought.
func (p preferences) timeTag(at instant) template.HTML {
	if at.IsZero() {
		return ""
	}
	iso := at.UTC().Format("2006-01-02T15:04:05.000Z")
	return template.HTML(`<time datetime="` + iso + `" title="` + iso + `">` + at.In(p.Zone).Format(timeLayouts[p.Language]) + `</time>`) //nolint:gosec // made of digits and our layouts
}

// duration writes milliseconds, of any integer, as people read them, in one line.
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
		return strconv.FormatInt(ms, 10) + "\u00a0ms"
	case d < time.Minute:
		return strconv.FormatFloat(d.Seconds(), 'f', 1, 64) + "\u00a0s"
	default:
		return d.Round(time.Second).String()
	}
}

// tones are the colours of the badges of states; others are grey.
var tones = map[string]string{
	"pending": "info", "retrying": "warn", "deferred": "warn", "succeeded": "ok", "failed": "bad",
	"active": "ok", "invited": "info",
	"running": "info", "waiting": "info", "paused": "warn", "completed": "ok",
}

// tone is the colour of the badge of a state, a string by its kind.
func tone(state any) string { return tones[fmt.Sprint(state)] }

// tail shortens an id that was minted to its prefix and its end, which differ between ids.
func tail(id string) string {
	prefix, rest, found := strings.Cut(id, "_")
	if !found || len(rest) < 12 {
		return id
	}
	return prefix + "_…" + rest[len(rest)-6:]
}

// shareOf writes a part of a whole as a percentage, "" of nothing. What is not all and not
// nothing is not written as 100% or 0%.
func shareOf(part, whole int64) string {
	if whole <= 0 {
		return ""
	}
	share := 100 * float64(part) / float64(whole)
	switch {
	case part > 0 && share < 1:
		return "<1%"
	case part < whole && share > 99:
		return ">99%"
	}
	return strconv.FormatFloat(share, 'f', 0, 64) + "%"
}

// count writes a number of any integer type; of zero, a dash that is read as 0.
func count(n any) template.HTML {
	text := fmt.Sprint(n)
	if text == "0" {
		return `<span class="zero">0</span>`
	}
	i, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return template.HTML(template.HTMLEscapeString(text)) //nolint:gosec // escaped
	}
	return template.HTML(number(i)) //nolint:gosec // digits
}
