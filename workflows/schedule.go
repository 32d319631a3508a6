package workflows

import (
	"context"
	"errors"
	"fmt"
	"reflect"
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
// decides whether an occurrence is opened: one that is due right after a resume is opened
// although Temporal may not know of the resume yet.
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
			Priority:              priority(l.Scope, priorityCohort),
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

// A Schedule holds the times of the next year: at least one, and at most maxTimes, which is
// more than a day of a launch that recurs every minute, and what maxCalendars can say.
// Temporal knows years up to lastYear.
const (
	timesAhead   = 366 * 24 * time.Hour
	maxTimes     = 2000
	maxCalendars = 60
	lastYear     = 2100
)

// scheduleSpec tells Temporal the next times of a schedule, in UTC. Temporal's own cron
// expressions are wrong where clocks change: it leaves out times that the clock jumps over,
// and days without a midnight, and fires once or twice, by zone, at times that come twice.
func scheduleSpec(s waypost.Schedule, startAt *time.Time, now time.Time) client.ScheduleSpec {
	after := now
	if startAt != nil && startAt.After(now) {
		after = startAt.Add(-1) // it may be the first time itself
	}
	var times []calendar
	for at := range s.Times(after) {
		if n := len(times); at.Year() > lastYear || n == maxTimes || n > 0 && at.After(after.Add(timesAhead)) {
			break
		}
		times = append(times, calendar{
			Second: only(at.Second()), Minute: only(at.Minute()), Hour: only(at.Hour()),
			DayOfMonth: only(at.Day()), Month: only(int(at.Month())), Year: only(at.Year()),
		})
	}
	hours := joined(times, func(c *calendar) *[]client.ScheduleRange { return &c.Minute })
	days := joined(hours, func(c *calendar) *[]client.ScheduleRange { return &c.Hour })
	months := joined(days, func(c *calendar) *[]client.ScheduleRange { return &c.DayOfMonth })
	return client.ScheduleSpec{TimeZoneName: "UTC", Calendars: months[:min(len(months), maxCalendars)]}
}

type calendar = client.ScheduleCalendarSpec

func only(n int) []client.ScheduleRange { return []client.ScheduleRange{{Start: n, End: n}} }

// joined joins neighbors that differ in one field only, in which each is a single number.
func joined(list []calendar, field func(*calendar) *[]client.ScheduleRange) (result []calendar) {
	for _, next := range list {
		last := len(result) - 1
		if last < 0 || !sameBut(result[last], next, field) {
			result = append(result, next)
			continue
		}
		ranges, number := field(&result[last]), *field(&next)
		if end := &(*ranges)[len(*ranges)-1]; end.End == number[0].Start-1 {
			end.End = number[0].End
		} else {
			*ranges = append(*ranges, number...)
		}
	}
	return result
}

// sameBut tells whether two calendars differ in no other field.
func sameBut(a, b calendar, field func(*calendar) *[]client.ScheduleRange) bool {
	*field(&a), *field(&b) = nil, nil
	return reflect.DeepEqual(a, b)
}
