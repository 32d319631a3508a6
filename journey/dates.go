package journey

import (
	"strconv"
	"strings"
	"time"
)

// dateLayouts are the ways of writing a date that the date filter reads and that a
// waitUntil waits for. One that could mean two days, such as 03/04/2026, is not
// among them.
var dateLayouts = []struct {
	layout string
	zoned  bool // it says which instant it is, else what clocks show
}{
	{time.RFC3339Nano, true},
	{time.DateOnly, false},
	{time.DateTime, false},
	{"2006-01-02 15:04", false},
	{"2006-01-02T15:04:05", false},
	{"2006-01-02T15:04", false},
	{"2006/01/02", false},
	{"20060102", false},
	{"2006-01-02 15:04:05 -0700", true},
	{time.RFC1123, true},
	{time.RFC1123Z, true},
	{"January 2, 2006", false},
	{"Jan 2, 2006", false},
	{"2 January 2006", false},
	{"2 Jan 2006", false},
}

// parseDate reads a date as people and systems write it. zoned says that it is an
// instant; otherwise t has what clocks show, as UTC: a day is its midnight. Nine to
// eleven digits are seconds since 1970.
func parseDate(text string) (t time.Time, zoned, ok bool) {
	text = strings.TrimSpace(text)
	for _, l := range dateLayouts {
		t, err := time.Parse(l.layout, text)
		if err != nil {
			continue
		}
		// What other names of zones mean depends on the place, and here on the machine.
		if name, _ := t.Zone(); l.layout == time.RFC1123 && name != "UTC" && name != "GMT" {
			return time.Time{}, false, false
		}
		return t, l.zoned, true
	}
	if seconds, err := strconv.ParseInt(text, 10, 64); err == nil && seconds >= minUnix && seconds <= maxUnix && text[0] != '+' {
		return time.Unix(seconds, 0).UTC(), true, true
	}
	return time.Time{}, false, false
}

// Numbers that are taken for seconds since 1970 have nine to eleven digits, from March
// 1973 on: shorter ones are more likely a day such as 20261231 or a count, longer ones
// milliseconds.
const (
	minUnix = 100_000_000
	maxUnix = 99_999_999_999
)
