package journey_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
)

// shanghai is 07:30 on Thursday, 31 December 2026, there, and still the 30th in UTC.
var shanghai = time.Date(2026, 12, 30, 23, 30, 0, 0, time.UTC)

func dated(zone string, now time.Time) journey.Facts {
	f := facts()
	f.Now = now
	f.Lead.CustomFields["expiry"] = "2027-01-02T09:00:00+08:00"
	f.Lead.CustomFields["day"] = "2027-01-01"
	f.Lead.CustomFields["slashed"] = "2027/01/01"
	f.Lead.CustomFields["wall"] = "2027-01-01 09:00"
	f.Lead.CustomFields["wrong"] = "31/12/2026"
	if zone != "" {
		f.Lead.CustomFields["timezone"] = zone
	}
	return f
}

func TestDecide_time(t *testing.T) {
	t.Parallel()
	const utc, china = "", "Asia/Shanghai"
	for _, test := range []struct {
		zone, condition string
		want            bool
		fault           string
	}{
		{utc, "timestamp(lead.customFields.expiry) - now < duration('72h')", true, ""},
		{utc, "timestamp(lead.customFields.expiry) - now == duration('49h30m')", true, ""},
		{utc, "now == timestamp('2026-12-30T23:30:00Z') && now == timestamp('2026-12-31T07:30:00+08:00') && string(now) == '2026-12-30T23:30:00Z'", true, ""},
		{utc, "lead.createdAt < now && now > today && now - today == duration('23h30m')", true, ""},
		{utc, "now + duration('30m') == date('2026-12-31') && now - duration('P1D') < today", true, ""},

		// today is midnight of the lead's day.
		{utc, "today == date('2026-12-30') && today == timestamp('2026-12-30T00:00:00Z')", true, ""},
		{china, "today == date('2026-12-31') && today == timestamp('2026-12-30T16:00:00Z') && date(now) == today", true, ""},
		{china, "today.getDayOfWeek() == 4 && today.getDate() == 31 && today.getMonth() == 11 && today.getFullYear() == 2026 && today.getHours() == 0", true, ""},
		{utc, "today.getDayOfWeek() == 3 && today.getDate() == 30 && today.getDayOfMonth() == 29 && today.getDayOfYear() == 363", true, ""},
		{"No/Where", "today == date('2026-12-30') && now.getHours() == 23", true, ""},
		{"America/New_York", "today == date('2026-12-30') && today == timestamp('2026-12-30T05:00:00Z') && now.getHours() == 18", true, ""},

		// Days are midnights in the lead's zone, too.
		{utc, "date(lead.customFields.day) - today == duration('48h')", true, ""},
		{china, "date(lead.customFields.day) - today == duration('24h') && date(lead.customFields.day) - now < duration('P1D')", true, ""},
		{china, "timestamp(lead.customFields.day) == date(lead.customFields.day) && timestamp('2027-01-01') == timestamp('2026-12-31T16:00:00Z')", true, ""},
		{china, "date(lead.customFields.slashed) == date('20270101') && timestamp(lead.customFields.wall) == timestamp('2027-01-01T01:00:00Z')", true, ""},
		{china, "date(lead.customFields.expiry) == date('2027-01-02') && date(lead.customFields.wall) == date('2027-01-01')", true, ""},
		{utc, "date(lead.customFields.expiry) == date('2027-01-02') && date(timestamp('2026-12-31T23:59:59Z')) == date('2026-12-31')", true, ""},
		{china, "date(lead.birthday).getMonth() == 1 && date(lead.birthday).getDate() == 3", true, ""},
		{china, "date(today + duration('36h')) == date(lead.customFields.day)", true, ""},
		{china, "date('2027-01-01', 'UTC') == timestamp('2027-01-01T00:00:00Z') && date(now, 'UTC') == timestamp('2026-12-30T00:00:00Z')", true, ""},
		{china, "[lead.customFields.day].exists(d, date(d) > today) && (true ? date(lead.customFields.day) : today) > today", true, ""},

		// The time of the day is the lead's, or that of a zone that is named.
		{china, "now.getHours() == 7 && now.getMinutes() == 30 && now.getSeconds() == 0 && now.getMilliseconds() == 0", true, ""},
		{china, "now.getHours('UTC') == 23 && now.getHours('Europe/Berlin') == 0 && now.getHours('+05:30') == 5 && now.getHours('-08:00') == 15 && now.getDate('UTC') == 30", true, ""},
		{china, "lead.createdAt.getHours() == 11 && lead.createdAt.getHours('UTC') == 3 && lead.createdAt.getMilliseconds() == 678", true, ""},
		{china, "duration('90m').getHours() == 1 && duration('90m').getMinutes() == 90 && duration('90m').getSeconds() == 5400 && duration('1s').getMilliseconds() == 1000", true, ""},
		{china, "(now - lead.createdAt).getHours() / 24 > 362", true, ""},
		{china, "duration('P3D') == duration('72h') && duration('-P1D') == duration('-24h') && duration('P1DT12H') == duration('36h')", true, ""},

		// Days have 23 and 25 hours where clocks change.
		{"Europe/Berlin", "date('2027-03-29') - date('2027-03-28') == duration('24h')", true, ""},
		{"Africa/Cairo", "date('2027-04-30') == timestamp('2027-04-29T22:00:00Z')", true, ""}, // 00:00 is followed by 01:00

		// What is no date is an error.
		{utc, "date(lead.customFields.wrong) > today", false, "type conversion"},
		{utc, "timestamp(lead.customFields.wrong) > now", false, "type conversion"},
		{utc, "date(lead.customFields.absent) > today", false, "no such key"},
		{utc, "date(lead.customFields.none) > today", false, "missing value"},
		{utc, "timestamp(lead.customFields['none']) > now || duration(lead.customFields.none) > duration('1h')", false, "missing value"},
		{utc, "date(lead.customFields.level) > today", false, "no such overload"},
		{utc, "date(lead.name) > today", false, "type conversion"},
		{utc, "duration(lead.customFields.wrong) > duration('1h')", false, "type conversion"},
		{utc, "now.getHours(lead.customFields.tier) == 1", false, "invalid value"},
		{utc, "now.getHours('UTC') == 23 && now.getHours(lead.customFields['tier']) == 1", false, "invalid value"},
		{utc, "now > 3", false, "does not compile"},
	} {
		t.Run(test.zone+" "+test.condition, func(t *testing.T) {
			t.Parallel()
			arm, reason := branchOn(t, test.condition).Decide("b", dated(test.zone, shanghai))
			if (arm == 0) != test.want || !strings.Contains(reason, fault(test.fault)) || test.fault == "" && strings.Contains(reason, "error") {
				t.Errorf("%d, %q", arm, reason)
			}
			if strings.Contains(reason, secret) {
				t.Errorf("the reason tells a value: %q", reason)
			}
		})
	}
	if _, reason := branchOn(t, "date('2026-12-30') == today && now.getHours() == 23").Decide("b", dated("", shanghai)); reason !=
		`case 1: date("2026-12-30") == today → true, now.getHours() == 23 → true` {
		t.Errorf("the condition is not told as it is written: %q", reason)
	}
}

// A decision without a time is no decision of the year 1.
func TestDecide_noTime(t *testing.T) {
	t.Parallel()
	for _, condition := range []string{"now < timestamp('2026-12-31T00:00:00Z')", "today == date(lead.customFields.day)", "now == null", "now != null", "size(string(today)) > 0"} {
		arm, reason := branchOn(t, condition).Decide("b", dated("", time.Time{}))
		if arm != -1 || !strings.HasSuffix(reason, "error: missing value") {
			t.Errorf("%s: %d, %q", condition, arm, reason)
		}
	}
	in, err := branchOn(t, "now == timestamp('2026-12-30T23:30:00Z')").DecideAt("b", dated("", time.Time{}), shanghai)
	if err != nil || in.Arm != 0 {
		t.Errorf("%+v, %v", in, err)
	}
}

func TestCheck_time(t *testing.T) {
	t.Parallel()
	for condition, want := range map[string]string{
		"date('31/12/2026') > today":                `line 1, column 5: "31/12/2026" is no date; write it like 2026-12-31`,
		"date('2026-02-30') > today":                "is no date",
		"timestamp('tomorrow') > now":               "is no date",
		"now - today > duration('3 days')":          `"3 days" is no duration; write it like 72h or P3D`,
		"now.getHours('Mars/Olympus') == 1":         "there is no time zone",
		"now.getHours('Local') == 1":                "there is no time zone",
		"date(now, 'Mars') == today":                "there is no time zone",
		"now > 3":                                   "no matching overload for '_>_' applied to '(timestamp, double)'",
		"now - today > 72":                          "both must be of one type",
		"today == '2026-12-31'":                     "no matching overload",
		"date(2026) == today":                       "no matching overload for 'date' applied to '(double)'",
		"date(2026, 'UTC') == today":                "no matching overload for 'date' applied to '(double, string)'",
		"'10:00'.getHours() == 10":                  "no matching overload for 'getHours' applied to 'string.()'",
		"date() == today":                           "no matching overload for 'date' applied to '()'",
		"now()":                                     "undeclared reference to 'now'",
		"today.getDay() == 1":                       "undeclared reference to 'getDay'",
		"now":                                       "must be true or false, not timestamp",
		"[1].exists(i, date('2026-13-01') > today)": "is no date",
	} {
		problems := branchOn(t, condition).Check(nil, nil)
		if len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%s: %v, want %q", condition, problems, want)
		}
	}
}

func TestMatches_time(t *testing.T) {
	t.Parallel()
	f := dated("Asia/Shanghai", shanghai)
	f.Event = map[string]any{"due": "2026-12-31", "at": "2026-12-30T23:00:00Z", "ms": 1798673400000.0}
	for _, condition := range []string{
		"date(event.due) == today", "now - timestamp(event.at) == duration('30m')", "timestamp(event.ms / 1000) == now",
	} {
		if yes, reason := matches(waitOn(t, condition), "w", f); !yes {
			t.Errorf("%s: %q", condition, reason)
		}
	}
}

// A dry run decides at the time of its own clock.
func TestSimulate_time(t *testing.T) {
	t.Parallel()
	d := parse(t, `{"name":"x","start":"first","nodes":[
		{"id":"first","type":"branch","cases":[{"when":"now == timestamp('2026-12-30T23:30:00Z') && date(lead.customFields.day) - today > duration('P1D')","next":"wait"}]},
		{"id":"wait","type":"delay","for":"P1D","next":"then"},
		{"id":"then","type":"branch","cases":[{"when":"now == timestamp('2026-12-31T23:30:00Z') && date(lead.customFields.day) - today == duration('P1D')","next":"event"}]},
		{"id":"event","type":"waitForEvent","event":"purchase","timeout":"P3D","when":"now == timestamp('2027-01-02T00:30:00Z')","next":"end"},
		{"id":"end","type":"exit"}]}`)
	run, err := journey.Simulate(context.Background(), d, journey.SimulateOptions{
		Facts: dated("", time.Time{}), Start: shanghai,
		Events: []journey.SimulatedEvent{{Name: "purchase", After: 48 * time.Hour}, {Name: "purchase", After: 49 * time.Hour}},
	})
	if err != nil || run.Status != waypost.EnrollmentCompleted || !run.At.Equal(shanghai.Add(49*time.Hour)) {
		t.Errorf("%+v, %v", run, err)
	}
	out, err := journey.Forecast(context.Background(), parse(t, `{"name":"x","start":"b","nodes":[
		{"id":"b","type":"branch","cases":[{"when":"today == date('2026-12-30')","next":"t"}]},{"id":"t","type":"touchpoint","webhook":"w"}]}`),
		func(yield func(journey.Facts, error) bool) { yield(dated("", time.Time{}), nil) }, journey.ForecastOptions{Start: shanghai, Days: 1})
	if err != nil || out.Days[0].Touchpoints["w"] != 1 {
		t.Errorf("%+v, %v", out, err)
	}
}
