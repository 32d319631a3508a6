package journey_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"waypost"
	"waypost/journey"
)

func instant(t testing.TB, s string) time.Time {
	t.Helper()
	at, err := time.Parse(time.RFC3339, s)
	if err != nil {
		t.Fatal(err)
	}
	return at
}

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

// until makes a waitUntil node of members such as "time=09:00 weekdays=mon,fri".
func until(t testing.TB, members string) journey.Node {
	t.Helper()
	n := journey.Node{ID: "n", Type: journey.WaitUntil}
	for _, member := range strings.Fields(members) {
		name, v, _ := strings.Cut(member, "=")
		switch name {
		case "time":
			n.Time = v
		case "zone":
			n.Timezone = v
		case "weekdays":
			n.Weekdays = strings.Split(v, ",")
		case "lead":
			n.Lead = v
		case "offset":
			n.Offset = v
		default:
			t.Fatalf("member %q", name)
		}
	}
	return n
}

func TestNextInstant(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, node string
		lead       map[string]any // birthday, and custom fields
		now, want  string         // in any zone; want is a reason if it is no instant
	}{
		{name: "today", node: "time=09:00 zone=Asia/Shanghai", now: "2026-03-02T08:59:59+08:00", want: "2026-03-02T09:00:00+08:00"},
		{name: "never now", node: "time=09:00 zone=Asia/Shanghai", now: "2026-03-02T09:00:00+08:00", want: "2026-03-03T09:00:00+08:00"},
		{name: "a moment after", node: "time=09:00 zone=Asia/Shanghai", now: "2026-03-02T09:00:00.000000001+08:00", want: "2026-03-03T09:00:00+08:00"},
		{name: "another day in UTC", node: "time=00:30 zone=Asia/Shanghai", now: "2026-03-02T17:00:00Z", want: "2026-03-04T00:30:00+08:00"},
		{name: "weekdays over a weekend", node: "time=09:00 zone=Asia/Shanghai weekdays=mon,tue,wed,thu,fri", now: "2026-03-06T10:00:00+08:00", want: "2026-03-09T09:00:00+08:00"},
		{name: "in a week", node: "time=09:00 weekdays=fri", now: "2026-03-06T09:00:00Z", want: "2026-03-13T09:00:00Z"},
		{name: "weekday by the zone, not by UTC", node: "time=01:00 weekdays=mon zone=Pacific/Auckland", now: "2026-03-01T00:00:00Z", want: "2026-03-02T01:00:00+13:00"},
		{name: "month end", node: "time=00:00", now: "2026-01-31T12:00:00Z", want: "2026-02-01T00:00:00Z"},
		{name: "end of February", node: "time=23:59", now: "2027-02-28T23:59:00Z", want: "2027-03-01T23:59:00Z"},
		{name: "leap day", node: "time=08:00", now: "2028-02-28T09:00:00Z", want: "2028-02-29T08:00:00Z"},
		{name: "year end", node: "time=08:00", now: "2026-12-31T09:00:00Z", want: "2027-01-01T08:00:00Z"},
		{name: "year end in a leap year", node: "time=08:00 zone=Europe/Berlin", now: "2040-12-31T09:00:00+01:00", want: "2041-01-01T08:00:00+01:00"},

		{name: "UTC where nobody names a zone", node: "time=09:00", now: "2026-03-02T08:00:00Z", want: "2026-03-02T09:00:00Z"},
		{name: "the lead's zone", node: "time=09:00", lead: map[string]any{"timezone": " Asia/Kathmandu "}, now: "2026-03-02T00:00:00Z", want: "2026-03-02T09:00:00+05:45"},
		{name: "the node's zone before the lead's", node: "time=09:00 zone=Asia/Tokyo", lead: map[string]any{"timezone": "Asia/Kathmandu"}, now: "2026-03-01T12:00:00Z", want: "2026-03-02T09:00:00+09:00"},
		{name: "no such zone of the lead", node: "time=09:00", lead: map[string]any{"timezone": "Kathmandu"}, now: "2026-03-02T00:00:00Z", want: "2026-03-02T09:00:00Z"},
		{name: "the machine's zone is none", node: "time=09:00", lead: map[string]any{"timezone": "Local"}, now: "2026-03-02T00:00:00Z", want: "2026-03-02T09:00:00Z"},
		{name: "a path is no zone", node: "time=09:00", lead: map[string]any{"timezone": "../../etc/localtime"}, now: "2026-03-02T00:00:00Z", want: "2026-03-02T09:00:00Z"},
		{name: "a number is no zone", node: "time=09:00", lead: map[string]any{"timezone": 8.0}, now: "2026-03-02T00:00:00Z", want: "2026-03-02T09:00:00Z"},
		{name: "half an hour", node: "time=09:00 zone=Asia/Kolkata", now: "2026-03-02T00:00:00Z", want: "2026-03-02T03:30:00Z"},
		{name: "three quarters of an hour", node: "time=09:00 zone=Pacific/Chatham", now: "2026-07-02T00:00:00Z", want: "2026-07-02T20:15:00Z"},

		// Clocks go forward.
		{name: "jumped over in Berlin", node: "time=02:30 zone=Europe/Berlin", now: "2026-03-28T12:00:00Z", want: "2026-03-29T03:00:00+02:00"},
		{name: "the day after it", node: "time=02:30 zone=Europe/Berlin", now: "2026-03-29T01:00:00Z", want: "2026-03-30T02:30:00+02:00"},
		{name: "the end of the jump", node: "time=03:00 zone=Europe/Berlin", now: "2026-03-28T12:00:00Z", want: "2026-03-29T03:00:00+02:00"},
		{name: "before the jump", node: "time=01:59 zone=Europe/Berlin", now: "2026-03-28T12:00:00Z", want: "2026-03-29T01:59:00+01:00"},
		{name: "jumped over in New York", node: "time=02:30 zone=America/New_York", now: "2026-03-08T05:00:00Z", want: "2026-03-08T03:00:00-04:00"},
		{name: "half an hour on Lord Howe", node: "time=02:15 zone=Australia/Lord_Howe", now: "2026-10-03T12:00:00Z", want: "2026-10-04T02:30:00+11:00"},
		{name: "midnight in Beirut", node: "time=00:00 zone=Asia/Beirut", now: "2026-03-28T12:00:00Z", want: "2026-03-29T01:00:00+03:00"},
		{name: "into the next day in Nuuk", node: "time=23:30 zone=America/Nuuk weekdays=sat", now: "2024-03-30T12:00:00Z", want: "2024-03-31T00:00:00-01:00"},
		// Clocks go back.
		{name: "twice in Berlin", node: "time=02:30 zone=Europe/Berlin", now: "2026-10-24T12:00:00Z", want: "2026-10-25T02:30:00+02:00"},
		{name: "not a second time", node: "time=02:30 zone=Europe/Berlin", now: "2026-10-25T00:45:00Z", want: "2026-10-26T02:30:00+01:00"},
		{name: "nor within it", node: "time=02:30 zone=Europe/Berlin", now: "2026-10-25T01:15:00Z", want: "2026-10-26T02:30:00+01:00"},
		{name: "after it", node: "time=03:00 zone=Europe/Berlin", now: "2026-10-25T00:45:00Z", want: "2026-10-25T03:00:00+01:00"},
		{name: "twice in New York", node: "time=01:00 zone=America/New_York", now: "2026-11-01T04:00:00Z", want: "2026-11-01T01:00:00-04:00"},
		{name: "twice on Lord Howe", node: "time=01:45 zone=Australia/Lord_Howe", now: "2026-04-04T12:00:00Z", want: "2026-04-05T01:45:00+11:00"},
		{name: "back over midnight in Beirut", node: "time=23:30 zone=Asia/Beirut", now: "2026-10-24T12:00:00Z", want: "2026-10-24T23:30:00+03:00"},
		// Samoa went from Thursday, 29 December 2011 to Saturday.
		{name: "no Friday in Samoa", node: "time=09:00 zone=Pacific/Apia", now: "2011-12-29T12:00:00-10:00", want: "2011-12-31T09:00:00+14:00"},
		{name: "the next Friday in Samoa", node: "time=09:00 zone=Pacific/Apia weekdays=fri", now: "2011-12-29T12:00:00-10:00", want: "2012-01-06T09:00:00+14:00"},

		{name: "three days before a day", node: "lead=customFields.d offset=-72h time=09:00 zone=Asia/Shanghai", lead: map[string]any{"d": "2026-04-10"}, now: "2026-03-02T00:00:00Z", want: "2026-04-07T09:00:00+08:00"},
		{name: "a day at its midnight", node: "lead=customFields.d zone=America/New_York", lead: map[string]any{"d": "2026-04-10"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T00:00:00-04:00"},
		{name: "a day in the lead's zone", node: "lead=customFields.d", lead: map[string]any{"d": " 2026-04-10 ", "timezone": "Asia/Tokyo"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T00:00:00+09:00"},
		{name: "days before over daylight saving", node: "lead=customFields.d offset=-72h zone=Europe/Berlin", lead: map[string]any{"d": "2026-03-31"}, now: "2026-03-02T00:00:00Z", want: "2026-03-28T00:00:00+01:00"},
		{name: "days after over daylight saving", node: "lead=customFields.d offset=P3D zone=Europe/Berlin", lead: map[string]any{"d": "2026-10-24"}, now: "2026-03-02T00:00:00Z", want: "2026-10-27T00:00:00+01:00"},
		{name: "an instant", node: "lead=customFields.d", lead: map[string]any{"d": "2026-04-10T12:34:56.789+02:00"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T10:34:56.789Z"},
		{name: "real time before an instant", node: "lead=customFields.d offset=-24h zone=Europe/Berlin", lead: map[string]any{"d": "2026-03-29T12:00:00+02:00"}, now: "2026-03-02T00:00:00Z", want: "2026-03-28T11:00:00+01:00"},
		{name: "time after an instant", node: "lead=customFields.d time=09:00", lead: map[string]any{"d": "2026-04-10T09:00:01Z"}, now: "2026-03-02T00:00:00Z", want: "2026-04-11T09:00:00Z"},
		{name: "time at an instant", node: "lead=customFields.d time=09:00", lead: map[string]any{"d": "2026-04-10T09:00:00Z"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T09:00:00Z"},
		{name: "time and weekday after a day", node: "lead=customFields.d time=09:00 weekdays=mon", lead: map[string]any{"d": "2026-04-10"}, now: "2026-03-02T00:00:00Z", want: "2026-04-13T09:00:00Z"},
		{name: "weekday alone", node: "lead=customFields.d weekdays=mon zone=Asia/Kathmandu", lead: map[string]any{"d": "2026-04-10T10:15:00+05:45"}, now: "2026-03-02T00:00:00Z", want: "2026-04-13T10:15:00+05:45"},
		{name: "weekday alone, that day", node: "lead=customFields.d weekdays=fri", lead: map[string]any{"d": "2026-04-10T10:15:00Z"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T10:15:00Z"},
		{name: "weekday alone, jumped over", node: "lead=customFields.d weekdays=sun zone=Europe/Berlin", lead: map[string]any{"d": "2026-03-27T02:30:00+01:00"}, now: "2026-03-02T00:00:00Z", want: "2026-03-29T03:00:00+02:00"},
		{name: "its time of day is to come", node: "lead=customFields.d time=18:00", lead: map[string]any{"d": "2026-03-02"}, now: "2026-03-02T12:00:00Z", want: "2026-03-02T18:00:00Z"},
		{name: "over", node: "lead=customFields.d", lead: map[string]any{"d": "2026-03-01"}, now: "2026-03-02T00:00:00Z", want: "in the past"},
		{name: "over with its offset", node: "lead=customFields.d offset=-72h", lead: map[string]any{"d": "2026-03-04"}, now: "2026-03-02T00:00:00Z", want: "in the past"},
		{name: "now is over", node: "lead=customFields.d", lead: map[string]any{"d": "2026-03-02"}, now: "2026-03-02T00:00:00Z", want: "in the past"},
		{name: "created", node: "lead=createdAt offset=P30D", now: "2026-03-02T00:00:00Z", want: "2026-03-31T06:30:00Z"},
		{name: "updated", node: "lead=updatedAt offset=P30D", now: "2026-03-02T00:00:00Z", want: "missing value"},
		{name: "farther than a wait may be", node: "lead=customFields.d", lead: map[string]any{"d": "2126-03-02"}, now: "2026-03-02T00:00:00Z", want: "more than 100 years ahead"},
		{name: "the end of time", node: "lead=customFields.d offset=24h", lead: map[string]any{"d": "9999-12-31"}, now: "2026-03-02T00:00:00Z", want: "more than 100 years ahead"},
		{name: "the beginning of time", node: "lead=customFields.d offset=-366h", lead: map[string]any{"d": "0000-01-01"}, now: "2026-03-02T00:00:00Z", want: "in the past"},

		{name: "birthday this year", node: "lead=birthday time=09:00 zone=Asia/Shanghai", lead: map[string]any{"birthday": "1990-05-04"}, now: "2026-03-02T00:00:00Z", want: "2026-05-04T09:00:00+08:00"},
		{name: "birthday today", node: "lead=birthday time=09:00 zone=Asia/Shanghai", lead: map[string]any{"birthday": "1990-03-02"}, now: "2026-03-02T08:00:00+08:00", want: "2026-03-02T09:00:00+08:00"},
		{name: "birthday today, over", node: "lead=birthday time=09:00 zone=Asia/Shanghai", lead: map[string]any{"birthday": "1990-03-02"}, now: "2026-03-02T09:00:00+08:00", want: "2027-03-02T09:00:00+08:00"},
		{name: "week before a birthday of next year", node: "lead=birthday offset=-168h", lead: map[string]any{"birthday": "1990-01-03"}, now: "2026-03-02T00:00:00Z", want: "2026-12-27T00:00:00Z"},
		{name: "week before, over", node: "lead=birthday offset=-168h", lead: map[string]any{"birthday": "1990-01-03"}, now: "2026-12-28T00:00:00Z", want: "2027-12-27T00:00:00Z"},
		{name: "days after a birthday of last year", node: "lead=birthday offset=P7D", lead: map[string]any{"birthday": "1990-12-30"}, now: "2026-01-02T00:00:00Z", want: "2026-01-06T00:00:00Z"},
		{name: "a year after", node: "lead=birthday offset=P366D", lead: map[string]any{"birthday": "1990-12-30"}, now: "2026-01-02T00:00:00Z", want: "2026-12-31T00:00:00Z"},
		{name: "a year before", node: "lead=birthday offset=-P366D", lead: map[string]any{"birthday": "1990-01-01"}, now: "2026-12-31T12:00:00Z", want: "2028-01-01T00:00:00Z"},
		{name: "leap day in a common year", node: "lead=birthday time=09:00", lead: map[string]any{"birthday": "1992-02-29"}, now: "2026-01-01T00:00:00Z", want: "2026-02-28T09:00:00Z"},
		{name: "leap day in a leap year", node: "lead=birthday time=09:00", lead: map[string]any{"birthday": "1992-02-29"}, now: "2028-01-01T00:00:00Z", want: "2028-02-29T09:00:00Z"},
		{name: "leap day after that of a common year", node: "lead=birthday", lead: map[string]any{"birthday": "1992-02-29"}, now: "2027-02-28T00:00:00Z", want: "2028-02-29T00:00:00Z"},
		{name: "leap day and an offset", node: "lead=birthday offset=24h", lead: map[string]any{"birthday": "1992-02-29"}, now: "2026-01-01T00:00:00Z", want: "2026-03-01T00:00:00Z"},
		{name: "2100 has no leap day", node: "lead=birthday", lead: map[string]any{"birthday": "1992-02-29"}, now: "2100-01-01T00:00:00Z", want: "2100-02-28T00:00:00Z"},
		{name: "birthday by the zone", node: "lead=birthday zone=Pacific/Kiritimati", lead: map[string]any{"birthday": "1990-01-01"}, now: "2025-12-31T09:00:00Z", want: "2025-12-31T10:00:00Z"},
		{name: "birthday on weekdays", node: "lead=birthday time=09:00 weekdays=mon", lead: map[string]any{"birthday": "1990-03-07"}, now: "2026-03-02T10:00:00Z", want: "2026-03-09T09:00:00Z"},
		{name: "a day of every year", node: "lead=customFields.d", lead: map[string]any{"d": "--02-29"}, now: "2026-03-02T00:00:00Z", want: "2027-02-28T00:00:00Z"},
		{name: "no birthday", node: "lead=birthday", now: "2026-03-02T00:00:00Z", want: "missing value"},
		{name: "no field", node: "lead=customFields.d", now: "2026-03-02T00:00:00Z", want: "missing value"},
		{name: "blank field", node: "lead=customFields.d", lead: map[string]any{"d": " "}, now: "2026-03-02T00:00:00Z", want: "missing value"},
		{name: "null", node: "lead=customFields.d", lead: map[string]any{"d": nil}, now: "2026-03-02T00:00:00Z", want: "missing value"},
		{name: "a number", node: "lead=customFields.d", lead: map[string]any{"d": 20260410.0}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "no such day", node: "lead=customFields.d", lead: map[string]any{"d": "2026-02-29"}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "no such day of the year", node: "lead=customFields.d", lead: map[string]any{"d": "--02-30"}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "other order", node: "lead=customFields.d", lead: map[string]any{"d": "10.04.2026"}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "a time without a zone", node: "lead=customFields.d", lead: map[string]any{"d": "2026-04-10T09:00:00"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T09:00:00Z"},
		{name: "a time without a zone, in the lead's", node: "lead=customFields.d", lead: map[string]any{"d": "2026-04-10 09:00", "timezone": "Asia/Tokyo"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T09:00:00+09:00"},
		{name: "a time on the clock over daylight saving", node: "lead=customFields.d offset=-24h zone=Europe/Berlin", lead: map[string]any{"d": "2026-03-29 12:00:00"}, now: "2026-03-02T00:00:00Z", want: "2026-03-28T12:00:00+01:00"},
		{name: "a time that clocks jump over", node: "lead=customFields.d zone=Europe/Berlin", lead: map[string]any{"d": "2026-03-29T02:30"}, now: "2026-03-02T00:00:00Z", want: "2026-03-29T03:00:00+02:00"},
		{name: "with slashes, year first", node: "lead=customFields.d", lead: map[string]any{"d": "2026/04/10"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T00:00:00Z"},
		{name: "eight digits", node: "lead=customFields.d", lead: map[string]any{"d": "20260410"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T00:00:00Z"},
		{name: "with an offset from UTC", node: "lead=customFields.d", lead: map[string]any{"d": "2026-04-10 09:00:00 +0800"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T01:00:00Z"},
		{name: "as mails have it", node: "lead=customFields.d", lead: map[string]any{"d": "Fri, 10 Apr 2026 09:00:00 +0800"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T01:00:00Z"},
		{name: "as HTTP has it", node: "lead=customFields.d", lead: map[string]any{"d": "Fri, 10 Apr 2026 09:00:00 GMT"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T09:00:00Z"},
		{name: "a zone that is several", node: "lead=customFields.d", lead: map[string]any{"d": "Fri, 10 Apr 2026 09:00:00 CST"}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "with the month's name", node: "lead=customFields.d", lead: map[string]any{"d": "April 10, 2026"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T00:00:00Z"},
		{name: "with the month's short name", node: "lead=customFields.d", lead: map[string]any{"d": "apr 10, 2026"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T00:00:00Z"},
		{name: "with the day first and the month's name", node: "lead=customFields.d", lead: map[string]any{"d": "10 April 2026"}, now: "2026-03-02T00:00:00Z", want: "2026-04-10T00:00:00Z"},
		{name: "seconds since 1970", node: "lead=customFields.d", lead: map[string]any{"d": 1798675200.0}, now: "2026-03-02T00:00:00Z", want: "2026-12-31T00:00:00Z"},
		{name: "seconds since 1970, as text", node: "lead=customFields.d offset=-24h", lead: map[string]any{"d": "1798675200"}, now: "2026-03-02T00:00:00Z", want: "2026-12-30T00:00:00Z"},
		{name: "milliseconds since 1970", node: "lead=customFields.d", lead: map[string]any{"d": 1798675200000.0}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "milliseconds since 1970, as text", node: "lead=customFields.d", lead: map[string]any{"d": "1798675200000"}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "a fraction", node: "lead=customFields.d", lead: map[string]any{"d": 1798675200.5}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "a phone number", node: "lead=customFields.d", lead: map[string]any{"d": "+1798675200"}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "true", node: "lead=customFields.d", lead: map[string]any{"d": true}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "slashes, day first", node: "lead=customFields.d", lead: map[string]any{"d": "31/12/2026"}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "slashes, day or month first", node: "lead=customFields.d", lead: map[string]any{"d": "03/04/2026"}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "dashes, day or month first", node: "lead=customFields.d", lead: map[string]any{"d": "03-04-2026"}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "a year of two digits", node: "lead=customFields.d", lead: map[string]any{"d": "26-04-10"}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "now is no date of a lead", node: "lead=customFields.d", lead: map[string]any{"d": "now"}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "a birthday is written in one way", node: "lead=birthday", lead: map[string]any{"birthday": "May 4, 1990"}, now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "draft without time", node: "", now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "draft without weekdays", node: "time=09:00 weekdays=x", now: "2026-03-02T00:00:00Z", want: "invalid value"},
		{name: "draft with an offset that is none", node: "lead=createdAt offset=soon", now: "2026-03-02T00:00:00Z", want: "invalid value"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			lead := waypost.Lead{CreatedAt: instant(t, "2026-03-01T06:30:00Z")}
			lead.CustomFields = map[string]any{}
			for name, v := range test.lead {
				if name == "birthday" {
					lead.Birthday = ptr(v.(string))
				} else {
					lead.CustomFields[name] = v
				}
			}
			got, reason := journey.NextInstant(until(t, test.node), lead, instant(t, test.now))
			want, err := time.Parse(time.RFC3339, test.want)
			if err != nil {
				if !got.IsZero() || reason != test.want {
					t.Errorf("%s, %q; want %q", got, reason, test.want)
				}
				return
			}
			if !got.Equal(want) || reason != "" || got.Location() != time.UTC {
				t.Errorf("%s, %q; want %s", got, reason, want)
			}
		})
	}
}

func TestQuietUntil(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, from, to, zone string
		lead                 any // customFields.timezone
		now, want            string
	}{
		{name: "before", from: "21:00", to: "08:00", zone: "Asia/Shanghai", now: "2026-03-02T20:59:59.999+08:00"},
		{name: "begin", from: "21:00", to: "08:00", zone: "Asia/Shanghai", now: "2026-03-02T21:00:00+08:00", want: "2026-03-03T08:00:00+08:00"},
		{name: "after midnight", from: "21:00", to: "08:00", zone: "Asia/Shanghai", now: "2026-03-03T00:00:00+08:00", want: "2026-03-03T08:00:00+08:00"},
		{name: "last moment", from: "21:00", to: "08:00", zone: "Asia/Shanghai", now: "2026-03-03T07:59:59.999+08:00", want: "2026-03-03T08:00:00+08:00"},
		{name: "end", from: "21:00", to: "08:00", zone: "Asia/Shanghai", now: "2026-03-03T08:00:00+08:00"},
		{name: "over a month end", from: "21:00", to: "08:00", zone: "Asia/Shanghai", now: "2028-02-29T22:00:00+08:00", want: "2028-03-01T08:00:00+08:00"},
		{name: "within a day", from: "12:00", to: "14:00", zone: "Asia/Shanghai", now: "2026-03-02T13:00:00+08:00", want: "2026-03-02T14:00:00+08:00"},
		{name: "until midnight", from: "22:00", to: "00:00", zone: "Asia/Shanghai", now: "2026-03-02T23:59:00+08:00", want: "2026-03-03T00:00:00+08:00"},
		{name: "from midnight", from: "00:00", to: "06:00", zone: "Asia/Shanghai", now: "2026-03-02T00:00:00+08:00", want: "2026-03-02T06:00:00+08:00"},
		{name: "all but a minute", from: "00:00", to: "23:59", zone: "Asia/Shanghai", now: "2026-03-02T23:59:30+08:00"},
		{name: "one minute", from: "12:00", to: "11:59", now: "2026-03-02T12:00:00Z", want: "2026-03-03T11:59:00Z"},

		{name: "the lead's zone", from: "21:00", to: "08:00", zone: "Asia/Shanghai", lead: "America/New_York", now: "2026-03-02T22:00:00+08:00"},
		{name: "the lead's zone is quiet", from: "21:00", to: "08:00", zone: "Asia/Shanghai", lead: "America/New_York", now: "2026-03-02T22:00:00-05:00", want: "2026-03-03T08:00:00-05:00"},
		{name: "no such zone of the lead", from: "21:00", to: "08:00", zone: "Asia/Shanghai", lead: "New York", now: "2026-03-02T22:00:00+08:00", want: "2026-03-03T08:00:00+08:00"},
		{name: "a number", from: "21:00", to: "08:00", zone: "Asia/Shanghai", lead: 8.0, now: "2026-03-02T22:00:00+08:00", want: "2026-03-03T08:00:00+08:00"},
		{name: "no zone at all", from: "21:00", to: "08:00", now: "2026-03-02T22:00:00Z", want: "2026-03-03T08:00:00Z"},
		{name: "three quarters of an hour", from: "21:00", to: "08:00", lead: "Asia/Kathmandu", now: "2026-03-02T15:15:00Z", want: "2026-03-03T02:15:00Z"},
		{name: "before three quarters of an hour", from: "21:00", to: "08:00", lead: "Asia/Kathmandu", now: "2026-03-02T15:14:59Z"},

		{name: "a short night", from: "21:00", to: "08:00", zone: "Europe/Berlin", now: "2026-03-28T21:00:00+01:00", want: "2026-03-29T08:00:00+02:00"},
		{name: "a long night", from: "21:00", to: "08:00", zone: "Europe/Berlin", now: "2026-10-24T21:00:00+02:00", want: "2026-10-25T08:00:00+01:00"},
		{name: "the end is jumped over", from: "22:00", to: "02:30", zone: "Europe/Berlin", now: "2026-03-29T01:59:59+01:00", want: "2026-03-29T03:00:00+02:00"},
		{name: "over after the jump", from: "22:00", to: "02:30", zone: "Europe/Berlin", now: "2026-03-29T03:00:00+02:00"},
		{name: "the beginning is jumped over", from: "02:30", to: "05:00", zone: "Europe/Berlin", now: "2026-03-29T03:00:00+02:00", want: "2026-03-29T05:00:00+02:00"},
		{name: "all of it is jumped over", from: "02:10", to: "02:50", zone: "Europe/Berlin", now: "2026-03-29T03:00:00+02:00"},
		{name: "the end comes twice", from: "22:00", to: "02:30", zone: "Europe/Berlin", now: "2026-10-25T02:29:59+02:00", want: "2026-10-25T02:30:00+02:00"},
		{name: "over though it comes again", from: "22:00", to: "02:30", zone: "Europe/Berlin", now: "2026-10-25T02:15:00+01:00"},
		{name: "the beginning comes twice", from: "02:30", to: "05:00", zone: "Europe/Berlin", now: "2026-10-25T02:15:00+01:00", want: "2026-10-25T05:00:00+01:00"},
		{name: "half an hour on Lord Howe", from: "22:00", to: "02:15", zone: "Australia/Lord_Howe", now: "2026-10-04T01:59:00+10:30", want: "2026-10-04T02:30:00+11:00"},
		{name: "twice on Lord Howe", from: "22:00", to: "01:45", zone: "Australia/Lord_Howe", now: "2026-04-05T01:50:00+10:30"},
		{name: "on the last day of a leap year", from: "12:00", to: "14:00", zone: "Europe/Berlin", now: "2040-12-31T13:00:00+01:00", want: "2040-12-31T14:00:00+01:00"},
		{name: "from the last day of a leap year", from: "21:00", to: "08:00", zone: "Australia/Lord_Howe", now: "2040-12-31T22:00:00+11:00", want: "2041-01-01T08:00:00+11:00"},
		{name: "to a day that Samoa left out", from: "21:00", to: "08:00", zone: "Pacific/Apia", now: "2011-12-29T22:00:00-10:00", want: "2011-12-31T08:00:00+14:00"},
		{name: "after a day that Samoa left out", from: "21:00", to: "08:00", zone: "Pacific/Apia", now: "2011-12-31T07:00:00+14:00", want: "2011-12-31T08:00:00+14:00"},
		{name: "within a day that Samoa left out", from: "12:00", to: "14:00", zone: "Pacific/Apia", now: "2011-12-31T00:00:00+14:00"},

		{name: "none", now: "2026-03-02T22:00:00Z"},
		{name: "draft of the whole day", from: "08:00", to: "08:00", now: "2026-03-02T22:00:00Z"},
		{name: "draft with a time that is none", from: "8:00", to: "24:00", now: "2026-03-02T22:00:00Z"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var lead waypost.Lead
			if test.lead != nil {
				lead.CustomFields = map[string]any{"timezone": test.lead}
			}
			until, quiet := journey.QuietUntil(journey.QuietHours{From: test.from, To: test.to, Timezone: test.zone}, lead, instant(t, test.now))
			if quiet != (test.want != "") {
				t.Fatalf("quiet %v until %s", quiet, until)
			}
			if quiet && !until.Equal(instant(t, test.want)) {
				t.Errorf("until %s, want %s", until, test.want)
			}
		})
	}
}

var oddZones = []string{
	"UTC", "Asia/Shanghai", "Asia/Kathmandu", "Australia/Lord_Howe", "America/New_York", "Europe/Berlin", "Pacific/Apia", "Asia/Beirut",
	"America/Nuuk", "America/Sao_Paulo", "Pacific/Chatham", "Africa/Casablanca", "Antarctica/Troll", "Atlantic/Azores", "Asia/Pyongyang",
}

// walls lists what clocks show in each minute of a span, written as UTC.
func walls(begin time.Time, minutes int, loc *time.Location) []time.Time {
	out := make([]time.Time, minutes)
	for i := range out {
		y, m, d := begin.Add(time.Duration(i) * time.Minute).In(loc).Date()
		h, min, _ := begin.Add(time.Duration(i) * time.Minute).In(loc).Clock()
		out[i] = time.Date(y, m, d, h, min, 0, 0, time.UTC)
	}
	return out
}

// drawMoment draws a time that is often near a change of the zone's clocks.
func drawMoment(t *rapid.T, loc *time.Location) time.Time {
	at := time.Unix(rapid.Int64Range(0, 2_500_000_000).Draw(t, "time"), 0).In(loc)
	if _, end := at.ZoneBounds(); !end.IsZero() && rapid.Bool().Draw(t, "near a change") {
		at = end.Add(time.Duration(rapid.IntRange(-26*60, 26*60).Draw(t, "minutes")) * time.Minute)
	}
	return at.UTC().Truncate(time.Minute)
}

// TestNextInstant_brute compares with a look at the clock in every minute.
func TestNextInstant_brute(t *testing.T) {
	t.Parallel()
	names := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(oddZones).Draw(t, "zone")
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		now := drawMoment(t, loc)
		hour, minute := rapid.IntRange(0, 23).Draw(t, "hour"), rapid.IntRange(0, 59).Draw(t, "minute")
		n := journey.Node{Type: journey.WaitUntil, Time: fmt.Sprintf("%02d:%02d", hour, minute), Timezone: name}
		n.Weekdays = rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 3, rapid.ID).Draw(t, "weekdays")

		// The first minute on whose wall it is the day's time or later, of days that
		// exist.
		begin := now.Add(-72 * time.Hour)
		minutes := walls(begin, 20*24*60, loc)
		best := time.Time{}
		for day := minutes[0].Truncate(24 * time.Hour); day.Before(minutes[len(minutes)-1]); day = day.Add(24 * time.Hour) {
			if len(n.Weekdays) > 0 && !slices.Contains(n.Weekdays, names[day.Weekday()]) {
				continue
			}
			at := day.Add(time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute)
			first := slices.IndexFunc(minutes, func(w time.Time) bool { return !w.Before(at) })
			exists := slices.ContainsFunc(minutes, func(w time.Time) bool { return w.Truncate(24 * time.Hour).Equal(day) })
			if moment := begin.Add(time.Duration(first) * time.Minute); first > 0 && exists && moment.After(now) {
				best = moment
				break
			}
		}
		got, reason := journey.NextInstant(n, waypost.Lead{}, now)
		if !got.Equal(best) || reason != "" {
			t.Fatalf("%s in %s on %v after %s: %s, %q; want %s", n.Time, name, n.Weekdays, now.In(loc), got.In(loc), reason, best.In(loc))
		}
	})
}

// TestQuietUntil_brute does the same for quiet hours.
func TestQuietUntil_brute(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(oddZones).Draw(t, "zone")
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		now := drawMoment(t, loc)
		from := rapid.IntRange(0, 24*60-1).Draw(t, "from")
		to := (from + rapid.IntRange(1, 24*60-1).Draw(t, "length")) % (24 * 60)
		clock := func(m int) string { return fmt.Sprintf("%02d:%02d", m/60, m%60) }
		q := journey.QuietHours{From: clock(from), To: clock(to), Timezone: name}

		begin := now.Add(-96 * time.Hour)
		minutes := walls(begin, 8*24*60, loc)
		quiet := make([]bool, len(minutes))
		firstAt := func(wall time.Time) int {
			return slices.IndexFunc(minutes, func(w time.Time) bool { return !w.Before(wall) })
		}
		for day := minutes[0].Truncate(24 * time.Hour); ; day = day.Add(24 * time.Hour) {
			end := day
			if to < from {
				end = end.Add(24 * time.Hour)
			}
			a, b := firstAt(day.Add(time.Duration(from)*time.Minute)), firstAt(end.Add(time.Duration(to)*time.Minute))
			if b < 0 {
				break
			}
			for i := a; i < b; i++ {
				quiet[i] = true
			}
		}
		at := 96 * 60
		over := at + slices.Index(quiet[at:], false)
		until, is := journey.QuietUntil(q, waypost.Lead{}, now)
		if want := begin.Add(time.Duration(over) * time.Minute); is != quiet[at] || is && !until.Equal(want) {
			t.Fatalf("%s to %s in %s at %s: %v until %s; want %v until %s", q.From, q.To, name, now.In(loc), is, until.In(loc), quiet[at], want.In(loc))
		}
	})
}

// TestFollow_unchanged looks at a wait at any time before it ends, and after: without a
// change it keeps its end, whenever it is taken to have begun.
func TestFollow_unchanged(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.SampledFrom(oddZones).Draw(t, "zone")
		loc, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		since := drawMoment(t, loc)
		n := journey.Node{Type: journey.WaitUntil, Timezone: name}
		n.Weekdays = rapid.SliceOfNDistinct(rapid.SampledFrom([]string{"mon", "wed", "sat"}), 0, 3, rapid.ID).Draw(t, "weekdays")
		n.Time = rapid.SampledFrom([]string{"", "00:00", "02:30", "09:00"}).Draw(t, "time")
		n.Lead = rapid.SampledFrom([]string{"", "birthday", "customFields.d"}).Draw(t, "lead")
		if n.Lead == "" && n.Time == "" {
			n.Time = "23:59"
		}
		if n.Lead != "" {
			n.Offset = rapid.SampledFrom([]string{"", "-72h", "P30D"}).Draw(t, "offset")
		}
		var lead waypost.Lead
		lead.Birthday = ptr(rapid.SampledFrom([]string{"1990-05-17", "1992-02-29", "1990-12-31"}).Draw(t, "birthday"))
		lead.CustomFields = map[string]any{"d": since.AddDate(0, rapid.IntRange(2, 20).Draw(t, "months"), 0).Format(time.DateOnly)}
		planned, reason := journey.NextInstant(n, lead, since)
		if planned.IsZero() {
			t.Fatalf("nothing to wait for: %s", reason)
		}
		now := since.Add(time.Duration(rapid.Float64Range(0, 1.5).Draw(t, "part") * float64(planned.Sub(since))))
		lead.UpdatedAt = since.Add(time.Duration(rapid.Float64Range(-1, 2).Draw(t, "updated") * float64(planned.Sub(since))))
		began := since
		if now.Before(planned) && rapid.Bool().Draw(t, "changed before") {
			began = now
		}
		if until, reason := n.Follow(lead, began, planned, now); !until.Equal(planned) || reason != "" {
			t.Fatalf("%+v since %s until %s is at %s until %s, %q", n, began, planned, now, until, reason)
		}
	})
}
