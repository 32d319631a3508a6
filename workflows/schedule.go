package workflows

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"waypost"
)

// keepSchedule makes the Schedule of a recurring launch, or has the one that exists hold
// the times from now on. Temporal opens the occurrences: they are short workflows that
// do not wait for one another. The Schedule is never paused, since the launch's row
// decides whether an occurrence is opened: one that is due right after a resume takes
// place even if Temporal could not have been told yet.
//
// Temporal drops what was due before an update and has not fired yet; the store opens it
// when the launch is marked as started.
func (c *Client) keepSchedule(ctx context.Context, l waypost.Launch) error {
	spec := scheduleSpec(*l.Schedule, l.StartAt, c.Now())
	attributes := attributesOf(l.Scope, AttrJourney.ValueSet(l.JourneyID))
	schedules := c.temporal.ScheduleClient()
	_, err := schedules.Create(ctx, client.ScheduleOptions{
		ID:   l.ID,
		Spec: spec,
		Action: &client.ScheduleWorkflowAction{
			ID:                    l.ID,
			Workflow:              TypeLaunchOccurrence,
			Args:                  occurrenceArgs(l),
			TaskQueue:             c.taskQueue,
			TypedSearchAttributes: attributes,
			StaticSummary:         "Occurrence of a launch of journey " + l.JourneyID,
			Priority:              backgroundPriority(l.Scope),
		},
		Overlap:               enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL,
		CatchupWindow:         waypost.OccurrenceWindow,
		Note:                  fmt.Sprintf("%s in %s; Waypost renews the times", l.Schedule.Cron, l.Schedule.Timezone),
		TypedSearchAttributes: attributes,
	})
	if errors.Is(err, temporal.ErrScheduleAlreadyRunning) {
		err = schedules.GetHandle(ctx, l.ID).Update(ctx, client.ScheduleUpdateOptions{
			DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
				in.Description.Schedule.Spec = &spec
				return &client.ScheduleUpdate{Schedule: &in.Description.Schedule}, nil
			},
		})
	}
	if err != nil {
		return fmt.Errorf("make the schedule of launch %s: %w", l.ID, err)
	}
	return nil
}

// fire has a Schedule fire for a time that has passed.
func (c *Client) fire(ctx context.Context, launchID string, from, to time.Time) error {
	err := c.temporal.ScheduleClient().GetHandle(ctx, launchID).Backfill(ctx, client.ScheduleBackfillOptions{
		Backfill: []client.ScheduleBackfill{{Start: from, End: to, Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL}},
	})
	if err != nil {
		return fmt.Errorf("make up for the schedule of launch %s: %w", launchID, err)
	}
	return nil
}

// ResealSchedule encrypts what the Schedule of a recurring launch holds with the
// keyring's first key. It takes Scope, ID and JourneyID of l; exists is false if there
// is no Schedule, which is no error.
func (c *Client) ResealSchedule(ctx context.Context, l waypost.Launch) (exists bool, err error) {
	var due time.Time
	err = c.temporal.ScheduleClient().GetHandle(ctx, l.ID).Update(ctx, client.ScheduleUpdateOptions{
		DoUpdate: func(in client.ScheduleUpdateInput) (*client.ScheduleUpdate, error) {
			action, ok := in.Description.Schedule.Action.(*client.ScheduleWorkflowAction)
			if !ok {
				return nil, fmt.Errorf("it starts no workflow but is %T", in.Description.Schedule.Action)
			}
			// The rest is encrypted again by being written; these are kept as they are read.
			action.Args = occurrenceArgs(l)
			if next := in.Description.Info.NextActionTimes; len(next) > 0 {
				due = next[0]
			}
			return &client.ScheduleUpdate{Schedule: &in.Description.Schedule}, nil
		},
	})
	if gone := (*serviceerror.NotFound)(nil); errors.As(err, &gone) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("update the schedule of launch %s: %w", l.ID, err)
	}
	// Temporal drops what was due before an update and has not fired yet.
	if now := c.Now(); !due.IsZero() && !due.After(now) {
		return true, c.fire(ctx, l.ID, due.Add(-time.Second), now)
	}
	return true, nil
}

func occurrenceArgs(l waypost.Launch) []any {
	return []any{OccurrenceInput{Scope: l.Scope, LaunchID: l.ID, JourneyID: l.JourneyID}}
}

// DeleteSchedule deletes the Schedule of a recurring launch; there need not be one.
func (c *Client) DeleteSchedule(ctx context.Context, launchID string) error {
	err := c.temporal.ScheduleClient().GetHandle(ctx, launchID).Delete(ctx)
	if gone := (*serviceerror.NotFound)(nil); err != nil && !errors.As(err, &gone) {
		return fmt.Errorf("delete the schedule of launch %s: %w", launchID, err)
	}
	return nil
}

// How many times a Schedule holds: all of the next year, but at most maxTimes, which is
// more than a day of a launch that recurs every minute, and at least one, but none that
// maxCalendars cannot say. Temporal knows years up to lastYear.
const (
	timesAhead   = 366 * 24 * time.Hour
	maxTimes     = 2000
	maxCalendars = 60
	lastYear     = 2100
)

// scheduleSpec tells Temporal the next times of a schedule as they are in UTC. What
// Temporal makes of a cron expression where clocks change depends on the zone: it leaves
// out what they jump over, days whose midnight does not exist among it, and fires twice
// what they show twice, or once.
func scheduleSpec(s waypost.Schedule, startAt *time.Time, now time.Time) client.ScheduleSpec {
	after := now
	if startAt != nil && startAt.After(now) {
		after = startAt.Add(-1) // it may be the first time itself
	}
	var hours []calendar
	n := 0
	for at := range s.Times(after) {
		if at.Year() > lastYear || n == maxTimes || n > 0 && at.After(after.Add(timesAhead)) {
			break
		}
		n++
		next := calendar{at.Year(), at.Month(), []int{at.Day()}, []int{at.Hour()}, []int{at.Minute()}, at.Second()}
		if last := len(hours) - 1; last >= 0 && hours[last].sameHour(next) {
			hours[last].minutes = append(hours[last].minutes, at.Minute())
			continue
		}
		hours = append(hours, next)
	}
	days := joined(hours, func(a, b calendar) bool { return a.sameDay(b) && slices.Equal(a.minutes, b.minutes) },
		func(a *calendar, b calendar) { a.hours = append(a.hours, b.hours...) })
	months := joined(days, func(a, b calendar) bool {
		return a.sameMonth(b) && slices.Equal(a.hours, b.hours) && slices.Equal(a.minutes, b.minutes)
	}, func(a *calendar, b calendar) { a.days = append(a.days, b.days...) })
	spec := client.ScheduleSpec{TimeZoneName: "UTC"}
	for _, c := range months[:min(len(months), maxCalendars)] {
		spec.Calendars = append(spec.Calendars, client.ScheduleCalendarSpec{
			Second: ranges([]int{c.second}), Minute: ranges(c.minutes), Hour: ranges(c.hours), DayOfMonth: ranges(c.days),
			Month: ranges([]int{int(c.month)}), Year: ranges([]int{c.year}),
		})
	}
	return spec
}

// calendar holds the times in a month of which day, hour and minute are listed.
type calendar struct {
	year                 int
	month                time.Month
	days, hours, minutes []int
	second               int // of zones that once were not whole minutes from UTC
}

func (c calendar) sameMonth(other calendar) bool {
	return c.year == other.year && c.month == other.month && c.second == other.second
}

func (c calendar) sameDay(other calendar) bool {
	return c.sameMonth(other) && slices.Equal(c.days, other.days)
}

func (c calendar) sameHour(other calendar) bool {
	return c.sameDay(other) && slices.Equal(c.hours, other.hours)
}

// joined joins neighbors that go together.
func joined(list []calendar, together func(a, b calendar) bool, join func(a *calendar, b calendar)) []calendar {
	var result []calendar
	for _, next := range list {
		if last := len(result) - 1; last >= 0 && together(result[last], next) {
			join(&result[last], next)
			continue
		}
		result = append(result, next)
	}
	return result
}

// ranges writes ascending numbers as ranges.
func ranges(numbers []int) []client.ScheduleRange {
	var list []client.ScheduleRange
	for _, n := range numbers {
		if last := len(list) - 1; last >= 0 && list[last].End == n-1 {
			list[last].End = n
			continue
		}
		list = append(list, client.ScheduleRange{Start: n, End: n})
	}
	return list
}
