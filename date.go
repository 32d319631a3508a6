package waypost

import (
	"regexp"
	"strconv"
	"strings"
	"time"
)

// MaxSeconds since 1970 keep years within four digits.
const MaxSeconds = 250_000_000_000

// maxDateText bounds a text that is read as a date, in bytes.
const maxDateText = 64

var (
	epochSeconds  = regexp.MustCompile(`^\d{1,12}$`)
	weekdayBefore = regexp.MustCompile(`(?i)^(mon|tues?|wed(nes)?|thu(rs)?|fri|sat(ur)?|sun)(day)? `)
	ordinalDay    = regexp.MustCompile(`(?i)^(\D*\d{1,2})(st|nd|rd|th)\b`)
	dayAndRest    = regexp.MustCompile(`^(\d{4}[-/]\d{1,2}[-/]\d{1,2}|\d{8}|\d{1,2}[- ][A-Za-z]+[- ]\d{4}|[A-Za-z]+ \d{1,2} \d{4})(?:[ Tt](.+))?$`)
	// ctime is a date as C, and Go and Ruby after it, print one: the year comes last.
	ctime   = regexp.MustCompile(`^([A-Za-z]+ \d{1,2}) (\d{1,2}:\d{2}(?::\d{2})?)( (?:UTC|GMT|[-+]\d{4}))? (\d{4})$`)
	utcName = regexp.MustCompile(` ?(UTC|GMT|Z)$`)

	dayLayouts = []string{
		"2006-1-2", "2006/1/2", "20060102", "2 January 2006", "2 Jan 2006", "January 2 2006", "Jan 2 2006", "2-Jan-2006",
	}
	clockLayouts = []string{"15:04", "15:04:05", "3:04 PM", "3:04PM", "3:04:05 PM", "3:04:05PM", "3 PM", "3PM"}
	zoneLayouts  = []string{"", "Z07:00", " Z07:00", "Z0700", " Z0700", "Z07", " Z07"}
)

// ParseDate reads a day, with or without a time of day and an offset: 2027-03-14,
// 2027/3/14, 20270314, 14 March 2027, 14-Mar-2027, March 14, 2027, Mar 14th 2027, each
// also behind a weekday; 2027-03-14T15:04:05.123Z, 2027-03-14 15:04 +0800,
// March 14, 2027 3:04 PM; Sun Mar 14 15:04:05 2027; and seconds since 1970. zoned tells whether it is an instant;
// otherwise t has what clocks show, as UTC.
func ParseDate(s string) (t time.Time, zoned, ok bool) {
	if s = strings.TrimSpace(s); len(s) > maxDateText {
		return time.Time{}, false, false
	}
	if n, err := strconv.Atoi(s); epochSeconds.MatchString(s) && len(s) != len("20060102") && err == nil {
		return time.Unix(int64(n), 0).UTC(), true, n < MaxSeconds
	}
	s = strings.Join(strings.Fields(strings.ReplaceAll(s, ",", " ")), " ")
	s = ctime.ReplaceAllString(weekdayBefore.ReplaceAllString(s, ""), "$1 $4 $2$3")
	m := dayAndRest.FindStringSubmatch(ordinalDay.ReplaceAllString(s, "$1"))
	if m == nil {
		return time.Time{}, false, false
	}
	for _, layout := range dayLayouts {
		if t, err := time.Parse(layout, m[1]); err == nil && m[2] == "" {
			return t, false, true
		} else if err != nil {
			continue
		}
		rest := utcName.ReplaceAllString(strings.ToUpper(m[2]), "Z")
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
