package gateway

import (
	"context"

	"waypost"
)

// Controls pauses, resumes and cancels enrollments that run. A method has no effect on what
// is in the state already, and returns a Conflict for what has ended. shift says that waits
// go on where the pause found them.
type Controls interface {
	PauseEnrollment(ctx context.Context, by waypost.Caller, id string) (waypost.Enrollment, error)
	ResumeEnrollment(ctx context.Context, by waypost.Caller, id string, shift bool) (waypost.Enrollment, error)
	CancelEnrollment(ctx context.Context, by waypost.Caller, id string) (waypost.Enrollment, error)
	PauseLaunch(ctx context.Context, by waypost.Caller, id string) (waypost.Launch, error)
	ResumeLaunch(ctx context.Context, by waypost.Caller, id string, shift bool) (waypost.Launch, error)
	CancelLaunch(ctx context.Context, by waypost.Caller, id string) (waypost.Launch, error)
	PauseJourney(ctx context.Context, by waypost.Caller, id string) (waypost.Journey, error)
	ResumeJourney(ctx context.Context, by waypost.Caller, id string, shift bool) (waypost.Journey, error)
	CancelJourney(ctx context.Context, by waypost.Caller, id string) (waypost.Journey, error)
}

// What elapsedDelays can be.
const (
	delaysShift = "shift" // the default: waits go on where the pause found them
	delaysSkip  = "skip"  // waits whose time came meanwhile are over
)

// decodeResume tells whether waits are shifted. A resume needs no body.
func decodeResume(r *request) (shift bool, err error) {
	if len(r.body) == 0 {
		return true, nil
	}
	var body struct {
		ElapsedDelays *string `json:"elapsedDelays"`
	}
	err = checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		if d := body.ElapsedDelays; d != nil && *d != delaysShift && *d != delaysSkip {
			p.Add(waypost.DetailInvalidFormat, "elapsedDelays", "must be %s or %s", delaysShift, delaysSkip)
		}
	})
	return body.ElapsedDelays == nil || *body.ElapsedDelays == delaysShift, err
}

// control carries out what is decided about one object.
func control[T, A any](
	ctx context.Context, r *request, decide func(context.Context, waypost.Caller, string) (T, error), describe func(T) A,
) (answer, error) {
	return effect(ctx, r, func(ctx context.Context) (T, error) {
		return decide(ctx, r.by(), r.param("id"))
	}, func(decided T) (answer, error) { return ok(describe(decided)) })
}

// resume is control for the end of a pause.
func resume[T, A any](
	ctx context.Context, r *request, decide func(context.Context, waypost.Caller, string, bool) (T, error), describe func(T) A,
) (answer, error) {
	shift, err := decodeResume(r)
	if err != nil {
		return answer{}, err
	}
	return control(ctx, r, func(ctx context.Context, by waypost.Caller, id string) (T, error) {
		return decide(ctx, by, id, shift)
	}, describe)
}

func (a *server) pauseEnrollment(ctx context.Context, r *request) (answer, error) {
	return control(ctx, r, a.Controls.PauseEnrollment, a.answerEnrolled)
}

func (a *server) resumeEnrollment(ctx context.Context, r *request) (answer, error) {
	return resume(ctx, r, a.Controls.ResumeEnrollment, a.answerEnrolled)
}

func (a *server) cancelEnrollment(ctx context.Context, r *request) (answer, error) {
	return control(ctx, r, a.Controls.CancelEnrollment, a.answerEnrolled)
}

func (a *server) pauseLaunch(ctx context.Context, r *request) (answer, error) {
	return control(ctx, r, a.Controls.PauseLaunch, a.answerLaunch)
}

func (a *server) resumeLaunch(ctx context.Context, r *request) (answer, error) {
	return resume(ctx, r, a.Controls.ResumeLaunch, a.answerLaunch)
}

func (a *server) cancelLaunch(ctx context.Context, r *request) (answer, error) {
	return control(ctx, r, a.Controls.CancelLaunch, a.answerLaunch)
}

func (a *server) pauseJourney(ctx context.Context, r *request) (answer, error) {
	return control(ctx, r, a.Controls.PauseJourney, answerJourneyState)
}

func (a *server) resumeJourney(ctx context.Context, r *request) (answer, error) {
	return resume(ctx, r, a.Controls.ResumeJourney, answerJourneyState)
}

func (a *server) cancelJourney(ctx context.Context, r *request) (answer, error) {
	return control(ctx, r, a.Controls.CancelJourney, answerJourneyState)
}

// answerJourneyState is a journey without its draft, which is for those who may read
// journeys, not for all who may run them.
func answerJourneyState(j waypost.Journey) journeyAnswer {
	j.Draft = nil
	return answerJourney(j)
}
