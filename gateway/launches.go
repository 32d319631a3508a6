package gateway

import (
	"context"
	"net/http"
	"strings"

	"waypost"
)

// Launches stores launches. A stored one is accepted: it will run.
type Launches interface {
	CreateLaunch(ctx context.Context, by waypost.Caller, l waypost.Launch) (waypost.Launch, error)
	// Launch returns a launch with its progress.
	Launch(ctx context.Context, sc waypost.Scope, id string) (waypost.Launch, error)
	// UpdateLaunch changes the rate of a launch that has not ended; an error of change ends the
	// update and is returned.
	UpdateLaunch(ctx context.Context, by waypost.Caller, id string, change func(*waypost.Launch) error) (waypost.Launch, error)
	// ListLaunches lists launches without what takes long to count:
	// Progress.Completed and Progress.Outcomes.
	ListLaunches(ctx context.Context, sc waypost.Scope, f waypost.LaunchFilter, page waypost.Page) ([]waypost.Launch, error)
}

// Bounds of a launch's rate, in enrollments a second: the lower one keeps the time
// between two leads short enough to be counted.
const (
	minLaunchRate = 0.01
	maxLaunchRate = 100_000
)

// launchBody is a launch as a client writes it.
type launchBody struct {
	Audience      *audienceBody   `json:"audience"`
	StartAt       *string         `json:"startAt"`
	RatePerSecond *float64        `json:"ratePerSecond"`
	Schedule      *scheduleBody   `json:"schedule"`
	ControlGroup  *float64        `json:"controlGroup"`
	Test          *launchTestBody `json:"test"`
}

// scheduleBody says when a launch recurs.
type scheduleBody struct {
	Cron     *string `json:"cron"`
	Timezone *string `json:"timezone"`
}

func (b scheduleBody) schedule(p *waypost.Problems) *waypost.Schedule {
	s := waypost.Schedule{Timezone: "UTC"}
	if b.Cron != nil {
		s.Cron = strings.TrimSpace(*b.Cron)
	}
	if b.Timezone != nil {
		s.Timezone = *b.Timezone
	}
	s.Validate(p, "schedule")
	return &s
}

// decodeLaunch reports all faults of the body at once. Its list of leadsIds may be longer than other
// bodies.
func (a *server) decodeLaunch(r *request) (l waypost.Launch, err error) {
	var body launchBody
	err = decodeLong(r.body, &body, func(p *waypost.Problems, leadsIDs []byte) {
		l.Audience = a.audience(p, body.Audience, leadsIDs)
		if body.StartAt != nil {
			at := moment(p, "startAt", body.StartAt, "")
			l.StartAt = &at
		}
		if rate := body.RatePerSecond; rate != nil {
			checkLaunchRate(p, *rate)
			l.RatePerSecond = *rate
		}
		if body.Schedule != nil && !isNamed(*p, "schedule") {
			l.Schedule = body.Schedule.schedule(p)
		}
		if share := body.ControlGroup; share != nil {
			if *share <= 0 || *share >= 1 {
				p.Add(waypost.DetailOutOfRange, "controlGroup", "must be more than 0 and less than 1, such as 0.1 for a tenth; leave it out for none")
			}
			l.ControlGroup = *share
		}
		if body.Test != nil && !isNamed(*p, "test") {
			l.Test = body.Test.test(p)
			if body.Schedule != nil {
				p.Add(waypost.DetailInvalidFormat, "test", "cannot be combined with schedule: leave one of them out")
			}
		}
	})
	return l, err
}

// launchAnswer is a launch as it is answered. In a list it has no Completed and no
// Outcomes, which take long to count.
type launchAnswer struct {
	LaunchID      string                 `json:"launchId"`
	JourneyID     string                 `json:"journeyId"`
	Version       int                    `json:"version"`
	Status        waypost.LaunchStatus   `json:"status"`
	Total         int                    `json:"total"`
	Enrolled      int                    `json:"enrolled"`
	Skipped       int                    `json:"skipped"`
	HeldOut       int                    `json:"heldOut"`
	Held          int                    `json:"held"`
	SkippedBy     waypost.LaunchSkips    `json:"skippedBy"`
	Empty         bool                   `json:"empty"`
	Message       *string                `json:"message"`
	Completed     *int                   `json:"completed,omitempty"`
	Outcomes      *waypost.OutcomeCounts `json:"outcomes,omitempty"`
	StartAt       *string                `json:"startAt"`
	RatePerSecond *float64               `json:"ratePerSecond"`
	Schedule      *scheduleAnswer        `json:"schedule"`
	ControlGroup  *float64               `json:"controlGroup"`
	Test          *testAnswer            `json:"test"`
	RecurringID   *string                `json:"recurringId"`
	OccursAt      *string                `json:"occursAt"`
	CreatedAt     string                 `json:"createdAt"`
	StartedAt     *string                `json:"startedAt"`
	EndedAt       *string                `json:"endedAt"`
	TemporalURL   *string                `json:"temporalUrl"`
}

// scheduleAnswer is when a launch recurs, and what became of that so far.
type scheduleAnswer struct {
	Cron        string                   `json:"cron"`
	Timezone    string                   `json:"timezone"`
	NextAt      *string                  `json:"nextAt"`
	Occurrences int                      `json:"occurrences"`
	LastSkip    *skippedOccurrenceAnswer `json:"lastSkipped"`
}

// skippedOccurrenceAnswer is an occurrence that was due and not opened.
type skippedOccurrenceAnswer struct {
	At     string             `json:"at"`
	Reason waypost.SkipReason `json:"reason"`
}

func answerSchedule(l waypost.Launch) *scheduleAnswer {
	if l.Schedule == nil {
		return nil
	}
	ans := &scheduleAnswer{Cron: l.Schedule.Cron, Timezone: l.Schedule.Timezone}
	if r := l.Recurrence; r != nil {
		ans.NextAt, ans.Occurrences = stampOrNull(r.NextAt), r.Occurrences
		if skip := r.LastSkip; skip != nil {
			ans.LastSkip = &skippedOccurrenceAnswer{stamp(skip.At), skip.Reason}
		}
	}
	return ans
}

func (a *server) answerLaunch(l waypost.Launch) launchAnswer {
	ans := a.answerListedLaunch(l)
	ans.Completed, ans.Outcomes = &l.Progress.Completed, &l.Progress.Outcomes
	return ans
}

func (a *server) answerListedLaunch(l waypost.Launch) launchAnswer {
	ans := launchAnswer{
		LaunchID: l.ID, JourneyID: l.JourneyID, Version: l.Version, Status: l.Status,
		Total: l.Progress.Total, Enrolled: l.Progress.Enrolled, Skipped: l.Progress.Skipped, HeldOut: l.Progress.HeldOut,
		Held: l.Progress.Held, SkippedBy: l.Skips, Empty: l.Empty(), Message: orNull(l.Message()), Test: answerTest(l.Test),
		StartAt: stampOrNull(l.StartAt), RatePerSecond: orNull(l.RatePerSecond), Schedule: answerSchedule(l), ControlGroup: orNull(l.ControlGroup),
		RecurringID: orNull(l.RecurringID), OccursAt: stampOrNull(l.OccursAt),
		CreatedAt: stamp(l.CreatedAt), StartedAt: stampOrNull(l.StartedAt), EndedAt: stampOrNull(l.EndedAt),
	}
	ans.TemporalURL = orNull(a.WorkflowURL(l.ID))
	if l.Schedule != nil { // it has no workflow
		ans.TemporalURL = orNull(a.ScheduleURL(l.ID))
	}
	return ans
}

// launch stores a launch of the newest published version; the pump starts its workflow, or
// makes the Schedule of one that recurs. A launch of a paused journey enrolls too, and its
// enrollments are held until the journey is resumed.
func (a *server) launch(ctx context.Context, r *request) (answer, error) {
	l, err := a.decodeLaunch(r)
	if err != nil {
		return answer{}, err
	}
	j, err := a.Journeys.Journey(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	if err := takesLeads(j); err != nil {
		return answer{}, err
	}
	l.JourneyID, l.Version, l.AppID = j.ID, j.PublishedVersion, r.app.ID
	if err := a.decider(ctx, r.scope, &l); err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Launch, error) {
		return a.Launches.CreateLaunch(ctx, r.by(), l)
	}, func(l waypost.Launch) (answer, error) {
		return at(http.StatusAccepted, "/v1/launches/"+l.ID, a.answerLaunch(l))
	})
}

// takesLeads is a Conflict if nobody can be enrolled in the journey now.
func takesLeads(j waypost.Journey) error {
	switch {
	case j.Status == waypost.JourneyArchived:
		return waypost.Errorf(waypost.CodeConflict, "id", "the journey is archived")
	case j.PublishedVersion == 0:
		return waypost.Errorf(waypost.CodeConflict, "id", "the journey has no published version")
	}
	return nil
}

func (a *server) showLaunch(ctx context.Context, r *request) (answer, error) {
	l, err := a.Launches.Launch(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	return a.launchResource(l)
}

func (a *server) listLaunches(ctx context.Context, r *request) (answer, error) {
	filter := waypost.LaunchFilter{JourneyID: r.params["journeyId"], RecurringID: r.params["recurringId"], Status: oneOf(r, "status", launchStatuses)}
	return answerPage(r, func(page waypost.Page) ([]waypost.Launch, error) {
		return a.Launches.ListLaunches(ctx, r.scope, filter, page)
	}, func(l waypost.Launch) string { return l.ID }, a.answerListedLaunch)
}
