package gateway

import (
	"context"

	"waypost"
)

// Controls decides about enrollments that run. Each of its methods is without
// effect where what it asks for is so already, and a Conflict about what has ended.
// shift says that waits go on where the pause found them.
type Controls interface {
	PauseEnrollment(ctx context.Context, sc waypost.Scope, id string) (waypost.Enrollment, error)
	ResumeEnrollment(ctx context.Context, sc waypost.Scope, id string, shift bool) (waypost.Enrollment, error)
	CancelEnrollment(ctx context.Context, sc waypost.Scope, id string) (waypost.Enrollment, error)
	PauseLaunch(ctx context.Context, sc waypost.Scope, id string) (waypost.Launch, error)
	ResumeLaunch(ctx context.Context, sc waypost.Scope, id string, shift bool) (waypost.Launch, error)
	CancelLaunch(ctx context.Context, sc waypost.Scope, id string) (waypost.Launch, error)
	PauseJourney(ctx context.Context, sc waypost.Scope, id string) (waypost.Journey, error)
	ResumeJourney(ctx context.Context, sc waypost.Scope, id string, shift bool) (waypost.Journey, error)
	CancelJourney(ctx context.Context, sc waypost.Scope, id string) (waypost.Journey, error)
}

// What elapsedDelays can be.
const (
	delaysShift = "shift" // the default: waits go on where the pause found them
	delaysSkip  = "skip"  // waits whose time came meanwhile are over
)

// resumeBody is what a resume can say. It needs no body.
type resumeBody struct {
	ElapsedDelays *string `json:"elapsedDelays"`
}

// decodeResume tells whether waits are shifted.
func decodeResume(r *request) (shift bool, err error) {
	if len(r.body) == 0 {
		return true, nil
	}
	var body resumeBody
	problems := waypost.DecodeJSON(r.body, &body)
	if d := body.ElapsedDelays; d != nil && *d != delaysShift && *d != delaysSkip && !isNamed(problems, "elapsedDelays") {
		problems.Add(waypost.DetailInvalidFormat, "elapsedDelays", "must be %s or %s", delaysShift, delaysSkip)
	}
	return body.ElapsedDelays == nil || *body.ElapsedDelays == delaysShift, problems.Err("")
}

func (a *api) pauseEnrollment(ctx context.Context, r *request) (answer, error) {
	e, err := a.Controls.PauseEnrollment(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(a.answerEnrolled(e))
}

func (a *api) resumeEnrollment(ctx context.Context, r *request) (answer, error) {
	shift, err := decodeResume(r)
	if err != nil {
		return answer{}, err
	}
	e, err := a.Controls.ResumeEnrollment(ctx, r.scope, r.param("id"), shift)
	if err != nil {
		return answer{}, err
	}
	a.Waker.Wake()
	return ok(a.answerEnrolled(e))
}

func (a *api) cancelEnrollment(ctx context.Context, r *request) (answer, error) {
	e, err := a.Controls.CancelEnrollment(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	a.Waker.Wake()
	return ok(a.answerEnrolled(e))
}

func (a *api) pauseLaunch(ctx context.Context, r *request) (answer, error) {
	l, err := a.Controls.PauseLaunch(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(a.answerLaunch(l))
}

func (a *api) resumeLaunch(ctx context.Context, r *request) (answer, error) {
	shift, err := decodeResume(r)
	if err != nil {
		return answer{}, err
	}
	l, err := a.Controls.ResumeLaunch(ctx, r.scope, r.param("id"), shift)
	if err != nil {
		return answer{}, err
	}
	a.Waker.Wake()
	return ok(a.answerLaunch(l))
}

func (a *api) cancelLaunch(ctx context.Context, r *request) (answer, error) {
	l, err := a.Controls.CancelLaunch(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	a.Waker.Wake()
	return ok(a.answerLaunch(l))
}

// journeyState is where a journey stands. It has no draft, which is for those who
// may read journeys, not for all who may run them.
type journeyState struct {
	ID               string                `json:"id"`
	Name             string                `json:"name"`
	PublishedVersion *int                  `json:"publishedVersion"`
	Status           waypost.JourneyStatus `json:"status"`
	CreatedAt        string                `json:"createdAt"`
	UpdatedAt        string                `json:"updatedAt"`
}

func stateOf(j waypost.Journey) journeyState {
	return journeyState{j.ID, j.Name, orNull(j.PublishedVersion), j.Status, stamp(j.CreatedAt), stamp(j.UpdatedAt)}
}

func (a *api) pauseJourney(ctx context.Context, r *request) (answer, error) {
	j, err := a.Controls.PauseJourney(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	return ok(stateOf(j))
}

func (a *api) resumeJourney(ctx context.Context, r *request) (answer, error) {
	shift, err := decodeResume(r)
	if err != nil {
		return answer{}, err
	}
	j, err := a.Controls.ResumeJourney(ctx, r.scope, r.param("id"), shift)
	if err != nil {
		return answer{}, err
	}
	a.Waker.Wake()
	return ok(stateOf(j))
}

func (a *api) cancelJourney(ctx context.Context, r *request) (answer, error) {
	j, err := a.Controls.CancelJourney(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	a.Waker.Wake()
	return ok(stateOf(j))
}
