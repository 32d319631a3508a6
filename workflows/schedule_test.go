package workflows_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"waypost"
	"waypost/workflows"
)

// timesOf are the times of a specification, in their order.
func timesOf(spec client.ScheduleSpec) (list []time.Time) {
	numbers := func(ranges []client.ScheduleRange) (list []int) {
		for _, r := range ranges {
			for n := r.Start; n <= r.End; n++ {
				list = append(list, n)
			}
		}
		return list
	}
	for _, c := range spec.Calendars {
		for _, day := range numbers(c.DayOfMonth) {
			for _, hour := range numbers(c.Hour) {
				for _, minute := range numbers(c.Minute) {
					list = append(list, time.Date(c.Year[0].Start, time.Month(c.Month[0].Start), day, hour, minute, c.Second[0].Start, 0, time.UTC))
				}
			}
		}
	}
	slices.SortFunc(list, time.Time.Compare)
	return list
}

// A Schedule holds exactly the next times of its launch, those of a year or as many as it
// may, wherever clocks change.
func TestScheduleSpec(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 2, 10, 12, 34, 56, 7, time.UTC)
	far := time.Date(2097, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		cron, zone       string
		startAt          *time.Time
		times, calendars int
	}{
		{"0 9 * * mon-fri", "Asia/Shanghai", nil, 262, 13},
		{"0 9 * * *", "America/Santiago", nil, 366, 15},
		{"0 9 * * sun", "America/Havana", nil, 52, 14},
		{"30 2 * * *", "Europe/Berlin", nil, 366, 16},
		{"45 1 * * *", "Australia/Lord_Howe", nil, 366, 15},
		{"0 9,17 1,15 * *", "America/New_York", nil, 48, 14},
		{"*/15 * * * *", "Europe/Berlin", nil, 2000, 6},
		{"* * * * *", "UTC", nil, 2000, 4},
		{"0 0 29 2 *", "UTC", nil, 1, 1},
		{"0 9 * 2 mon#5", "UTC", &far, 0, 0}, // 2112, and Temporal's years end before
		{"0 0 1 1 *", "UTC", &far, 2, 2},
	} {
		s := waypost.Schedule{Cron: tt.cron, Timezone: tt.zone}
		spec := workflows.ScheduleSpec(s, tt.startAt, now)
		got := timesOf(spec)
		if len(got) != tt.times || len(spec.Calendars) != tt.calendars || spec.TimeZoneName != "UTC" {
			t.Errorf("%s in %s: %d times in %d calendars, want %d in %d", tt.cron, tt.zone, len(got), len(spec.Calendars), tt.times, tt.calendars)
		}
		after := now
		if tt.startAt != nil {
			after = tt.startAt.Add(-1)
		}
		for _, at := range got {
			after = s.Next(after)
			if !at.Equal(after) {
				t.Errorf("%s in %s: %s, want %s", tt.cron, tt.zone, at, after)
				break
			}
		}
	}
}

// created is a Temporal that tells what Schedule is created.
type created struct {
	client.Client
	schedules
}

func (c *created) ScheduleClient() client.ScheduleClient { return &c.schedules }

type schedules struct {
	client.ScheduleClient
	spec client.ScheduleSpec
}

func (c *schedules) Create(_ context.Context, options client.ScheduleOptions) (client.ScheduleHandle, error) {
	c.spec = options.Spec
	return nil, nil
}

// The times of a Schedule go by Temporal's clock where the machine's is wrong.
func TestScheduleClock(t *testing.T) {
	t.Parallel()
	temporal := &created{}
	c := workflows.NewClient(temporal, "q")
	c.Now = func() time.Time { return time.Date(2036, 2, 10, 8, 0, 0, 0, time.UTC) }
	l := waypost.Launch{ID: "lch_1", JourneyID: "jrn_1", Schedule: &waypost.Schedule{Cron: "0 9 * * *", Timezone: "UTC"}}
	if err := c.StartLaunch(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	if got, want := timesOf(temporal.spec)[0], time.Date(2036, 2, 10, 9, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("the first time is %s, want %s", got, want)
	}
}
