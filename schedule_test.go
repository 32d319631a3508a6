package waypost_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
)

func TestScheduleValidate(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ cron, zone, want string }{
		{"0 9 * * mon-fri", "Asia/Shanghai", ""},
		{"*/15 8-18 1,15 JAN,jul ?", "UTC", ""},
		{"  @daily ", "Europe/Berlin", ""},
		{"@YEARLY", "UTC", ""},
		{"0 0 29 2 *", "UTC", ""},
		{"0 0 30 2 mon", "UTC", ""}, // Mondays of February
		{"0 0 30 2 *", "UTC", "OutOfRange s.cron"},
		{"", "UTC", "NullValue s.cron"},
		{" ", "Mars", "InvalidFormat s.timezone; NullValue s.cron"},
		{"0 9 * *", "UTC", "InvalidFormat s.cron"},
		{"0 0 9 * * *", "UTC", "InvalidFormat s.cron"},
		{"60 9 * * *", "UTC", "InvalidFormat s.cron"},
		{"0 9 * * fri-mon", "UTC", "InvalidFormat s.cron"},
		{"0 9 * * 7", "UTC", ""},
		{"0 9 * * 0-7", "UTC", ""},
		{"0 9 * * mon#1,wed#3", "UTC", ""},
		{"0 9 * 2 sat#5", "UTC", ""},
		{"@midnight", "UTC", ""},
		{"@annually", "UTC", ""},
		{"\t05  09 * * *\n", "UTC", ""},
		{"0 9 , * mon", "UTC", "InvalidFormat s.cron"},
		{"0 9 1 * ,,", "UTC", "InvalidFormat s.cron"},
		{", * * * *", "UTC", "InvalidFormat s.cron"},
		{"0 9 * * *", "", "InvalidFormat s.timezone"},
		{"0 9 * * *", "Local", "InvalidFormat s.timezone"},
		{"0 9 * * *", "Asia//Shanghai", "InvalidFormat s.timezone"},
		{"0 9 * * *", "../etc/passwd", "InvalidFormat s.timezone"},
		{"TZ=UTC 0 9 * * *", "UTC", "InvalidFormat s.cron"},
		{"CRON_TZ=UTC", "UTC", "InvalidFormat s.cron"},
		{"@every 1h", "UTC", "InvalidFormat s.cron"},
		{"@EVERY 1h", "UTC", "InvalidFormat s.cron"},
		{"@never", "UTC", "InvalidFormat s.cron"},
		{strings.Repeat("0,", 300) + "0 9 * * *", "UTC", "TooLong s.cron"},
	} {
		var p waypost.Problems
		waypost.Schedule{Cron: tt.cron, Timezone: tt.zone}.Validate(&p, "s")
		var got []string
		for _, d := range p {
			got = append(got, fmt.Sprint(d.Code, " ", d.Target))
		}
		if strings.Join(got, "; ") != tt.want {
			t.Errorf("%q in %q: %v, want %s", tt.cron, tt.zone, p, tt.want)
		}
	}
}

// What is wrong with a field is told with its name, its value and what to write.
func TestScheduleValidateTells(t *testing.T) {
	t.Parallel()
	const form = "must be five fields such as 0 9 * * mon-fri (minute, hour, day of the month, month, day of the week), " +
		"or @hourly, @daily, @weekly, @monthly or @yearly"
	const weekday = "write sun to sat, 0 to 7 (0 and 7 are Sunday), or mon#1 for the first Monday of a month"
	const nth = "write mon#1 for the first Monday of a month, with 1 to 5 behind the #"
	const step = "the step behind the / must be a whole number from 1 on, such as */2"
	for cron, want := range map[string]string{
		"*/90 * * * *":                 `the minute is "*/90": a step must be at most 59 here, since a larger one leaves only 0: write 0 for that`,
		"0 */24 * * *":                 `the hour is "*/24": a step must be at most 23 here, since a larger one leaves only 0: write 0 for that`,
		"0 9 * * */7":                  `the day of the week is "*/7": a step must be at most 6 here, since a larger one leaves only 0: write 0 for that`,
		"5-9/9 * * * *":                `the minute is "5-9/9": a step must be at most 4 here, since a larger one leaves only 5: write 5 for that`,
		"59/5 * * * *":                 `the minute is "59/5": there is no second value for a step: write 59`,
		"*/0 * * * *":                  `the minute is "*/0": ` + step,
		"*/ * * * *":                   `the minute is "*/": ` + step,
		"*/5/2 * * * *":                `the minute is "*/5/2": ` + step,
		"*/-1 * * * *":                 `the minute is "*/-1": ` + step,
		"x * * * *":                    `the minute is "x": write 0 to 59`,
		"60 * * * *":                   `the minute is "60": write 0 to 59`,
		"+5 * * * *":                   `the minute is "+5": write 0 to 59`,
		"1.5 * * * *":                  `the minute is "1.5": write 0 to 59`,
		"０ 9 * * *":                    `the minute is "０": write 0 to 59`,
		"99999999999999999999 * * * *": `the minute is "99999999999999999999": write 0 to 59`,
		"5- * * * *":                   `the minute is "5-": "" in it is no minute; write 0 to 59`,
		"? 9 * * *":                    `the minute is "?": write 0 to 59`,
		"0 24 * * *":                   `the hour is "24": write 0 to 23`,
		"0 22-2 * * *":                 `the hour is "22-2": it goes backwards: write 22-23,0-2`,
		"0 9 0 * *":                    `the day of the month is "0": write 1 to 31; L and W cannot be given`,
		"0 9 L * *":                    `the day of the month is "l": write 1 to 31; L and W cannot be given`,
		"0 9 , * mon":                  "the day of the month has a comma with nothing beside it: write * for all, or values such as 1,2",
		"0 9 * 13 *":                   `the month is "13": write 1 to 12, or jan to dec`,
		"0 9 * january *":              `the month is "january": write 1 to 12, or jan to dec`,
		"0 9 * nov-feb *":              `the month is "nov-feb": it goes backwards: write 11-12,1-2`,
		"0 9 * * 8":                    `the day of the week is "8": ` + weekday,
		"0 9 * * 5L":                   `the day of the week is "5l": ` + weekday,
		"0 9 * * fri-mon":              `the day of the week is "fri-mon": it goes backwards: write 5-6,0-1`,
		"0 9 * * 7-2":                  `the day of the week is "7-2": it goes backwards: write 0-2`,
		"0 9 * * mon#6":                `the day of the week is "mon#6": ` + nth,
		"0 9 * * #1":                   `the day of the week is "#1": ` + nth,
		"0 9 * * mon-fri#1":            `the day of the week is "mon-fri#1": ` + nth,
		"0 9 * *":                      form + "; it has 4",
		"0 0 9 * * *":                  form + "; it has 6, and neither seconds nor years can be given",
		"@every 90m":                   form + "; an interval cannot be given: write 0 * * * * for every hour, or */15 * * * * for every quarter of one",
		"@reboot":                      form + `: "@reboot" is none of these`,
		"CRON_TZ=UTC 0 9 * * *":        form + "; the time zone is a member of its own, timezone",
		"0 0 31 2 *":                   "never comes: no month that it names has such a day",
		"0 0 31 4,6,9,11 *":            "never comes: no month that it names has such a day",
	} {
		var p waypost.Problems
		waypost.Schedule{Cron: cron, Timezone: "UTC"}.Validate(&p, "s")
		if len(p) != 1 || p[0].Target != "s.cron" || p[0].Message != want {
			t.Errorf("%s: %+v, want %q", cron, p, want)
		}
	}
}

func TestScheduleNext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ cron, zone, after, want string }{
		{"0 9 * * mon-fri", "Asia/Shanghai", "2026-01-30T01:00:00Z", "2026-02-02T01:00:00Z 2026-02-03T01:00:00Z"},
		{"0 9 * * mon-fri", "Asia/Shanghai", "2026-01-30T00:59:59.999999999Z", "2026-01-30T01:00:00Z"},
		{"@monthly", "UTC", "2026-01-31T12:00:00Z", "2026-02-01T00:00:00Z 2026-03-01T00:00:00Z"},
		// Either day is enough if both are given, */2 and a range of all among it.
		{"0 0 13 * fri", "UTC", "2026-02-12T12:00:00Z", "2026-02-13T00:00:00Z 2026-02-20T00:00:00Z 2026-02-27T00:00:00Z 2026-03-06T00:00:00Z 2026-03-13T00:00:00Z"},
		{"0 0 */15 * mon", "UTC", "2026-01-01T00:00:00Z", "2026-01-05T00:00:00Z 2026-01-12T00:00:00Z 2026-01-16T00:00:00Z"},
		{"0 0 13 * ?", "UTC", "2026-01-01T00:00:00Z", "2026-01-13T00:00:00Z 2026-02-13T00:00:00Z"},
		// Sunday is 0, 7 and sun; the nth day of a week.
		{"0 9 * * 7", "UTC", "2026-01-01T00:00:00Z", "2026-01-04T09:00:00Z 2026-01-11T09:00:00Z"},
		{"0 9 * * 5-7", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T09:00:00Z 2026-01-03T09:00:00Z 2026-01-04T09:00:00Z 2026-01-09T09:00:00Z"},
		{"0 9 * * sat-sun", "UTC", "2026-01-01T00:00:00Z", "2026-01-03T09:00:00Z 2026-01-04T09:00:00Z 2026-01-10T09:00:00Z"},
		{"0 9 * * sun-sun", "UTC", "2026-01-01T00:00:00Z", "2026-01-04T09:00:00Z 2026-01-11T09:00:00Z"},
		{"0 9 * * 3-7/2", "UTC", "2026-01-01T00:00:00Z", "2026-01-02T09:00:00Z 2026-01-04T09:00:00Z 2026-01-07T09:00:00Z"},
		{"0 9 * * mon#1", "UTC", "2026-01-01T00:00:00Z", "2026-01-05T09:00:00Z 2026-02-02T09:00:00Z 2026-03-02T09:00:00Z"},
		{"0 9 * * 1#1,7#2,fri", "UTC", "2026-01-03T00:00:00Z", "2026-01-05T09:00:00Z 2026-01-09T09:00:00Z 2026-01-11T09:00:00Z 2026-01-16T09:00:00Z"},
		{"0 9 15 * mon#1", "UTC", "2026-01-01T00:00:00Z", "2026-01-05T09:00:00Z 2026-01-15T09:00:00Z 2026-02-02T09:00:00Z"},
		{"0 9 * 2 mon#5", "UTC", "2088-01-01T00:00:00Z", "2112-02-29T09:00:00Z"},
		{"0 9 * * fri#5", "UTC", "2026-01-01T00:00:00Z", "2026-01-30T09:00:00Z 2026-05-29T09:00:00Z"},
		{"50/5 9 * * *", "UTC", "2026-01-01T00:00:00Z", "2026-01-01T09:50:00Z 2026-01-01T09:55:00Z 2026-01-02T09:50:00Z"},
		// A time that clocks jump over comes at the end of the jump, one that comes twice once.
		{"30 2 * * *", "America/New_York", "2026-03-07T00:00:00Z", "2026-03-07T07:30:00Z 2026-03-08T07:00:00Z 2026-03-09T06:30:00Z"},
		{"30 1 * * *", "America/New_York", "2026-10-31T06:00:00Z", "2026-11-01T05:30:00Z 2026-11-02T06:30:00Z"},
		{"30 1 * * *", "Europe/London", "2026-03-28T00:00:00Z", "2026-03-28T01:30:00Z 2026-03-29T01:00:00Z 2026-03-30T00:30:00Z"},
		{"30 1 * * *", "Europe/London", "2026-10-24T00:00:00Z", "2026-10-24T00:30:00Z 2026-10-25T00:30:00Z 2026-10-26T01:30:00Z"},
		{"30 2 25 10 *", "Europe/Berlin", "2026-01-01T00:00:00Z", "2026-10-25T00:30:00Z 2027-10-25T00:30:00Z"},
		{"30 2 31 10 *", "Europe/Berlin", "2026-01-01T00:00:00Z", "2026-10-31T01:30:00Z 2027-10-31T00:30:00Z 2028-10-31T01:30:00Z"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-02T00:00:00Z", "2026-10-02T15:45:00Z 2026-10-03T15:30:00Z 2026-10-04T15:15:00Z"},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-03T00:00:00Z", "2026-04-03T14:45:00Z 2026-04-04T14:45:00Z 2026-04-05T15:15:00Z"},
		{"30 2 * * *", "Africa/Casablanca", "2026-02-14T00:00:00Z", "2026-02-14T01:30:00Z 2026-02-15T01:30:00Z 2026-02-16T02:30:00Z"},
		{"30 2 * * *", "Africa/Casablanca", "2026-03-21T00:00:00Z", "2026-03-21T02:30:00Z 2026-03-22T02:00:00Z 2026-03-23T01:30:00Z"},
		{"30 2 * * *", "Asia/Gaza", "2026-03-26T12:00:00Z", "2026-03-27T00:30:00Z 2026-03-28T00:00:00Z 2026-03-28T23:30:00Z"},
		{"*/15 * * * *", "Europe/Berlin", "2026-03-29T00:29:00Z", "2026-03-29T00:30:00Z 2026-03-29T00:45:00Z 2026-03-29T01:00:00Z 2026-03-29T01:15:00Z"},
		{"*/15 * * * *", "Europe/Berlin", "2026-10-25T00:29:00Z", "2026-10-25T00:30:00Z 2026-10-25T00:45:00Z 2026-10-25T02:00:00Z 2026-10-25T02:15:00Z"},
		{"*/15 * * * *", "Europe/Berlin", "2026-10-25T01:20:00Z", "2026-10-25T02:00:00Z"}, // in the second of the two hours
		// Clocks that jump over midnight leave no day out.
		{"0 9 * * sun", "America/Santiago", "2026-09-01T00:00:00Z", "2026-09-06T12:00:00Z 2026-09-13T12:00:00Z"},
		{"0 9 * * sun", "America/Havana", "2026-03-01T15:00:00Z", "2026-03-08T13:00:00Z 2026-03-15T13:00:00Z"},
		{"0 9 * * sun", "Atlantic/Azores", "2026-03-22T00:00:00Z", "2026-03-22T10:00:00Z 2026-03-29T09:00:00Z 2026-04-05T09:00:00Z"},
		{"0 9 * * fri", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-24T06:00:00Z 2026-05-01T06:00:00Z"},
		{"0 9 * * thu", "Africa/Cairo", "2026-04-23T12:00:00Z", "2026-04-30T06:00:00Z"},
		{"0 9 6 * *", "America/Santiago", "2026-09-01T12:00:00Z", "2026-09-06T12:00:00Z 2026-10-06T12:00:00Z"},
		{"@daily", "America/Santiago", "2026-09-05T03:59:59Z", "2026-09-05T04:00:00Z 2026-09-06T04:00:00Z 2026-09-07T03:00:00Z"},
		{"@daily", "Asia/Beirut", "2026-03-28T12:00:00Z", "2026-03-28T22:00:00Z 2026-03-29T21:00:00Z"},
		{"@daily", "America/Sao_Paulo", "2018-11-03T12:00:00Z", "2018-11-04T03:00:00Z 2018-11-05T02:00:00Z"},
		{"@daily", "America/Havana", "2026-10-31T12:00:00Z", "2026-11-01T04:00:00Z 2026-11-02T05:00:00Z"}, // midnight comes twice
		// Samoa had no 30 December 2011.
		{"0 9 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", "2011-12-29T19:00:00Z 2011-12-30T10:00:00Z 2011-12-30T19:00:00Z 2011-12-31T19:00:00Z"},
		// Leap days, the 31st, and years that are far away.
		{"0 0 29 2 *", "UTC", "2096-02-28T12:00:00Z", "2096-02-29T00:00:00Z 2104-02-29T00:00:00Z"},
		{"0 0 29 2 *", "Europe/Berlin", "2396-03-01T00:00:00Z", "2400-02-28T23:00:00Z"},
		{"0 0 31 * *", "UTC", "2026-01-31T00:00:00Z", "2026-03-31T00:00:00Z 2026-05-31T00:00:00Z 2026-07-31T00:00:00Z"},
		{"0 9 * * sun", "America/Santiago", "2399-09-01T00:00:00Z", "2399-09-05T12:00:00Z 2399-09-12T12:00:00Z"},
		{"59 23 31 12 *", "Europe/Berlin", "2396-12-31T00:00:00Z", "2396-12-31T22:59:00Z 2397-12-31T22:59:00Z"},
		{"nonsense", "UTC", "2026-02-12T12:00:00Z", "0001-01-01T00:00:00Z"},
		{"@daily", "Mars", "2026-02-12T12:00:00Z", "0001-01-01T00:00:00Z"},
	} {
		at, err := time.Parse(time.RFC3339Nano, tt.after)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range strings.Fields(tt.want) {
			at = waypost.Schedule{Cron: tt.cron, Timezone: tt.zone}.Next(at)
			got = append(got, at.Format(time.RFC3339Nano))
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%s in %s:\n got %v\nwant %s", tt.cron, tt.zone, got, tt.want)
		}
	}
}

// Every time on the wall comes once in every zone, in order, at the first instant at which
// its clocks show it or a later time.
func TestScheduleTimes(t *testing.T) {
	t.Parallel()
	for _, zone := range []string{"UTC", "Europe/Berlin", "America/Santiago", "America/Havana", "Atlantic/Azores", "Australia/Lord_Howe",
		"Africa/Casablanca", "Africa/Cairo", "Asia/Gaza", "Asia/Beirut", "America/St_Johns", "Pacific/Chatham", "Asia/Kathmandu", "America/Scoresbysund"} {
		loc, _ := waypost.Zone(zone)
		begin, end := time.Date(2026, 1, 1, 12, 0, 0, 0, loc), time.Date(2027, 1, 1, 12, 0, 0, 0, loc)
		var want []time.Time
		var highest int64                                                                      // that clocks have shown, as minutes in UTC
		for at := begin.Add(15 * time.Minute); !at.After(end); at = at.Add(15 * time.Minute) { // zones change at quarters
			_, offset := at.Zone()
			now := (at.Unix() + int64(offset)) / 60
			if highest == 0 {
				highest = now - 15
			}
			due := false
			for ; highest < now; highest++ {
				due = due || (highest+1)%15 == 0
			}
			if due {
				want = append(want, at)
			}
		}
		i := 0
		for at := range (waypost.Schedule{Cron: "*/15 * * * *", Timezone: zone}).Times(begin) {
			if i == len(want) || at.After(end) {
				break
			}
			if !at.Equal(want[i]) {
				t.Errorf("%s: %s, want %s", zone, at.In(loc), want[i])
				break
			}
			i++
		}
		if i != len(want) {
			t.Errorf("%s: %d times, want %d", zone, i, len(want))
		}
	}
}

// A control group is its share of the leads, up to chance, the same ones each time, and
// part of each larger one. It has nothing to do with other journeys or with splits.
func TestHeldOut(t *testing.T) {
	t.Parallel()
	const leads = 100_000
	within := func(what string, n int, of, share float64) {
		t.Helper()
		if deviation := math.Abs(float64(n)-of*share) / math.Sqrt(of*share*(1-share)); deviation > 5 {
			t.Errorf("%s: %d of %.0f, want %.1f %%: %.1f standard deviations", what, n, of, 100*share, deviation)
		}
	}
	for _, share := range []float64{0.001, 0.1, 0.5, 0.9} {
		var held, larger, both, arm int
		for lead := range int64(leads) {
			if !waypost.HeldOut("jrn_a", lead, share) {
				continue
			}
			held++
			if waypost.HeldOut("jrn_a", lead, share+0.05) {
				larger++
			}
			if waypost.HeldOut("jrn_b", lead, share) {
				both++
			}
			if journey.SplitArm("jrn_a", "arms", lead, []int{30, 70}) == 0 {
				arm++
			}
		}
		within("held out", held, leads, share)
		within("held out of another journey, too", both, float64(held), share)
		within("in the first arm", arm, float64(held), 0.3)
		if larger != held {
			t.Errorf("%d of %d are held out with a larger share", larger, held)
		}
	}
	for lead := range int64(1000) {
		if waypost.HeldOut("jrn_a", lead, 0) || !waypost.HeldOut("jrn_a", lead, 1) {
			t.Fatalf("lead %d: nobody is held out with 0, all are with 1", lead)
		}
	}
	// What is documented stays: who is held out of running journeys depends on it.
	var held []int64
	for lead := range int64(60) {
		if waypost.HeldOut("jrn_06c1x4q9yg4cdnv2e7p5t8a3rm", lead, 0.1) {
			held = append(held, lead)
		}
	}
	if want := []int64{9, 21, 22, 38, 50}; !slices.Equal(held, want) {
		t.Errorf("held out: %v, want %v", held, want)
	}
}
