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
		{"0 9 * * 7", "UTC", "InvalidFormat s.cron"},
		{"0 9 * * fri-mon", "UTC", "InvalidFormat s.cron"},
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

func TestScheduleNext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		cron, zone, after string
		want              []string
	}{
		{"0 9 * * mon-fri", "Asia/Shanghai", "2026-01-30T01:00:00Z", []string{"2026-02-02T01:00:00Z", "2026-02-03T01:00:00Z"}},
		{"0 9 * * mon-fri", "Asia/Shanghai", "2026-01-30T00:59:59.999999999Z", []string{"2026-01-30T01:00:00Z"}},
		{"@monthly", "UTC", "2026-01-31T12:00:00Z", []string{"2026-02-01T00:00:00Z", "2026-03-01T00:00:00Z"}},
		{"0 0 13 * fri", "UTC", "2026-02-12T12:00:00Z", []string{"2026-02-13T00:00:00Z", "2026-02-20T00:00:00Z", "2026-02-27T00:00:00Z", "2026-03-06T00:00:00Z", "2026-03-13T00:00:00Z"}},
		// The clocks of New York skip 2:30 on March 8th and have 1:30 twice on November 1st.
		{"30 2 * * *", "America/New_York", "2026-03-07T00:00:00Z", []string{"2026-03-07T07:30:00Z", "2026-03-09T06:30:00Z"}},
		{"30 1 * * *", "America/New_York", "2026-10-31T06:00:00Z", []string{"2026-11-01T05:30:00Z", "2026-11-01T06:30:00Z", "2026-11-02T06:30:00Z"}},
		// Those of Cairo skip midnight of Friday, April 24th, those of Santiago of Sunday, September 6th.
		{"0 9 * * fri", "Africa/Cairo", "2026-04-23T12:00:00Z", []string{"2026-04-24T06:00:00Z", "2026-05-01T06:00:00Z"}},
		{"0 9 * * thu", "Africa/Cairo", "2026-04-23T12:00:00Z", []string{"2026-04-30T06:00:00Z"}},
		{"0 9 6 * *", "America/Santiago", "2026-09-01T12:00:00Z", []string{"2026-09-06T12:00:00Z", "2026-10-06T12:00:00Z"}},
		{"@daily", "America/Santiago", "2026-09-05T03:59:59Z", []string{"2026-09-05T04:00:00Z", "2026-09-07T03:00:00Z"}},
		{"0 0 29 2 *", "UTC", "2096-02-28T12:00:00Z", []string{"2096-02-29T00:00:00Z", "2104-02-29T00:00:00Z"}},
		{"nonsense", "UTC", "2026-02-12T12:00:00Z", []string{"0001-01-01T00:00:00Z"}},
		{"@daily", "Mars", "2026-02-12T12:00:00Z", []string{"0001-01-01T00:00:00Z"}},
	} {
		at, err := time.Parse(time.RFC3339Nano, tt.after)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for range tt.want {
			at = waypost.Schedule{Cron: tt.cron, Timezone: tt.zone}.Next(at)
			got = append(got, at.Format(time.RFC3339Nano))
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s in %s:\n got %v\nwant %v", tt.cron, tt.zone, got, tt.want)
		}
	}
}

// The calendars hold the same times as the expression.
func TestScheduleCalendars(t *testing.T) {
	t.Parallel()
	for _, expression := range []string{"0 9 * * mon-fri", "*/20 3,4 * * *", "30 12 1-7 * mon", "0 0 */10 feb,mar *", "15 6 ? * */2", "@weekly", "@hourly", "0 0 31 * *"} {
		s := waypost.Schedule{Cron: expression, Timezone: "UTC"}
		calendars := s.Calendars()
		begin := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		next := s.Next(begin.Add(-1))
		for at := begin; at.Year() == 2026; at = at.Add(time.Minute) {
			held := slices.ContainsFunc(calendars, func(c waypost.Calendar) bool {
				return slices.Contains(c.Minutes, at.Minute()) && slices.Contains(c.Hours, at.Hour()) && slices.Contains(c.Days, at.Day()) &&
					slices.Contains(c.Months, int(at.Month())) && slices.Contains(c.Weekdays, int(at.Weekday()))
			})
			if held != at.Equal(next) {
				t.Fatalf("%s: the calendars hold %s: %t, the next time is %s", expression, at, held, next)
			}
			if held {
				next = s.Next(at)
			}
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
