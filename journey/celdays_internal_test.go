package journey

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/cel-go/common/types"

	"waypost"
)

var dayZones = []string{
	"UTC", "Asia/Shanghai", "Europe/Berlin", "Europe/London", "Europe/Dublin", "America/New_York", "America/Sao_Paulo", "America/Santiago", "America/Asuncion", "America/Havana",
	"America/St_Johns", "Africa/Cairo", "Africa/Casablanca", "Asia/Beirut", "Asia/Gaza", "Asia/Tehran", "Australia/Lord_Howe", "Australia/Adelaide", "Pacific/Auckland", "Atlantic/Azores",
}

// numberOf is the number of a day of the Gregorian calendar, by Fliegel and Van Flandern, which knows
// no clock.
func numberOf(y, m, d int) int {
	return d - 32075 + 1461*(y+4800+(m-14)/12)/4 + 367*(m-2-(m-14)/12*12)/12 - 3*((y+4900+(m-14)/12)/100)/4
}

// Days between days, and days added to days, are those of the calendar, in every zone and whatever
// clocks do between them.
func TestEveryPairOfDays(t *testing.T) {
	t.Parallel()
	const days = 2 * 365
	for _, name := range dayZones {
		zone, ok := waypost.Zone(name)
		if !ok {
			t.Fatalf("no zone %s", name)
		}
		all, numbers := make([]calendarDay, days), make([]int, days)
		for i := range all {
			y, m, d := time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC).Date()
			v, isDay := textToDate(types.String(fmt.Sprintf("%04d-%02d-%02d", y, m, d)), zone).(calendarDay)
			if !isDay {
				t.Fatalf("%s: no day %d", name, i)
			}
			all[i], numbers[i] = v, numberOf(y, int(m), d)
		}
		for i, a := range all {
			for j, b := range all {
				n := numbers[j] - numbers[i]
				if got := subtracted(b, a).(types.Duration).Duration; got != time.Duration(n)*oneDay {
					t.Fatalf("%s: from %s to %s it is %s, not %d days", name, a.date, b.date, got, n)
				}
				if (i+j)%13 > 0 && (n < -3 || n > 3) {
					continue // that there are clock changes between them is seen often enough
				}
				if got := added(a, types.Duration{Duration: time.Duration(n) * oneDay}); got.Equal(b) != types.True {
					t.Fatalf("%s: %s and %d days is %v, not %s", name, a.date, n, got, b.date)
				}
			}
		}
	}
}

// What conditions say of days, by the whole of CEL: from every day of two years to some others.
func TestDaysInConditions(t *testing.T) {
	t.Parallel()
	d, problems := Parse([]byte(`{"name":"x","start":"b","nodes":[{"id":"b","type":"branch","cases":[{"when":"true"}]}]}`))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	conditions := map[string]condition{}
	is := func(source string, f Facts) (bool, string) {
		c, ok := conditions[source]
		if !ok {
			if c = d.compiled(conditionEnv, source, trueOrFalse); c.err != nil {
				t.Fatal(c.err)
			}
			conditions[source] = c
		}
		v := c.holds(context.Background(), conditionVariables(&f))
		return v.yes, c.reason(v, &f)
	}
	for _, name := range dayZones {
		zone, _ := waypost.Zone(name)
		for i := range 2 * 365 {
			day := time.Date(2026, 1, 1+i, 0, 0, 0, 0, time.UTC)
			_, before := day.AddDate(0, 0, -8).In(zone).Zone()
			if _, after := day.AddDate(0, 0, 8).In(zone).Zone(); before == after && i%31 > 0 {
				continue // clocks do not change near it
			}
			for _, n := range []int{-7, -1, 0, 3, 7} {
				date := day.AddDate(0, 0, n)
				f := Facts{Now: waypost.FirstAt(day.Add(time.Duration(i%24)*time.Hour), zone), Lead: waypost.Lead{LeadFields: waypost.LeadFields{
					CustomFields: map[string]any{"timezone": name, "d": date.Format(time.DateOnly)}, Birthday: new(date.AddDate(-30, 0, 0).Format(time.DateOnly)),
				}}}
				for condition, want := range map[string]bool{
					`daysUntil(lead.customFields.d) == DAYS`:                                                                           true,
					`daysSince(lead.customFields.d) == -DAYS`:                                                                          true,
					`date(lead.customFields.d) - today == duration("P7D")`:                                                             n == 7,
					`date(lead.customFields.d) - today < duration("P7D")`:                                                              n < 7,
					`date(lead.customFields.d) == today + duration("P3D")`:                                                             n == 3,
					`today - duration("P7D") <= date(lead.customFields.d) && date(lead.customFields.d) <= today`:                       n <= 0,
					`date(lead.customFields.d) == date(today + duration("36h"))`:                                                       n == 1,
					`date(lead.customFields.d) >= today && date(lead.customFields.d).getDate() == (today + duration("P3D")).getDate()`: n == 3,
				} {
					if condition[0] == 'd' && condition[4] == 'U' {
						condition = fmt.Sprintf("daysUntil(lead.customFields.d) == %d", n)
					} else if condition[0] == 'd' && condition[4] == 'S' {
						condition = fmt.Sprintf("daysSince(lead.customFields.d) == %d", -n)
					}
					if got, why := is(condition, f); got != want {
						t.Fatalf("%s, %s, %d days before: %s", name, day.Format(time.DateOnly), n, why)
					}
				}
			}
		}
	}
}

// A birthday is the next one, or the last; on 29 February it is on 28 February in other years.
func TestDaysToBirthdays(t *testing.T) {
	t.Parallel()
	d, _ := Parse([]byte(`{"name":"x","start":"b","nodes":[{"id":"b","type":"branch","cases":[{"when":"true"}]}]}`))
	for _, test := range []struct {
		birthday, now string
		until, since  int
	}{
		{"1990-12-31", "2026-12-31T10:00:00Z", 0, 0}, {"--12-31", "2026-12-31T10:00:00Z", 0, 0}, {"1990-12-31", "2026-12-30T10:00:00Z", 1, 364},
		{"1990-01-01", "2026-12-31T10:00:00Z", 1, 364}, {"--01-01", "2026-12-31T16:30:00Z", 0, 0}, // it is 1 January in Shanghai
		{"1992-02-29", "2027-02-28T10:00:00Z", 0, 0}, {"--02-29", "2027-02-27T10:00:00Z", 1, 364}, {"1992-02-29", "2027-03-01T10:00:00Z", 365, 1},
		{"1992-02-29", "2028-02-28T10:00:00Z", 1, 365}, {"1992-02-29", "2028-02-29T10:00:00Z", 0, 0}, {"2026-12-31", "2026-01-01T00:00:00Z", 364, 1},
	} {
		now, _ := time.Parse(time.RFC3339, test.now)
		f := Facts{Now: now, Lead: waypost.Lead{LeadFields: waypost.LeadFields{Birthday: &test.birthday, CustomFields: map[string]any{"timezone": "Asia/Shanghai"}}}}
		source := fmt.Sprintf("daysUntil(lead.birthday) == %d && daysSince(lead.birthday) == %d", test.until, test.since)
		c := d.compiled(conditionEnv, source, trueOrFalse)
		if v := c.holds(context.Background(), conditionVariables(&f)); !v.yes {
			t.Errorf("%s at %s: %s", test.birthday, test.now, c.reason(v, &f))
		}
	}
	// The month and the day of one without a year; no age.
	f := Facts{Now: time.Date(2026, 12, 31, 12, 0, 0, 0, time.UTC), Lead: waypost.Lead{LeadFields: waypost.LeadFields{Birthday: new("--12-31")}}}
	for source, want := range map[string]string{
		"date(lead.birthday).getMonth() == 11 && date(lead.birthday).getDate() == 31": "", "date(lead.birthday) < today": noYear,
		"today - date(lead.birthday) > duration('P3650D')": noYear, "date(lead.birthday).getFullYear() < 2000": noYear, "timestamp(lead.birthday) < now": noYear,
		"daysUntil('--12-31') == 0 && daysSince('--01-01') == 364": "", "daysUntil('2027-01-02') == 2 && daysUntil(now - duration('24h')) == -1": "",
		"daysUntil('2027-01-01', 'Pacific/Auckland') == 0": "", "daysUntil(lead.customFields.nosuch) == 0": "no such key",
	} {
		c := d.compiled(conditionEnv, source, trueOrFalse)
		if c.err != nil {
			t.Errorf("%s: %v", source, c.err)
			continue
		}
		if v := c.holds(context.Background(), conditionVariables(&f)); v.yes != (want == "") || v.fault != want {
			t.Errorf("%s: %s", source, c.reason(v, &f))
		}
	}
}
