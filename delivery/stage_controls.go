package delivery

import (
	"context"
	"time"

	"waypost"
)

// heedControls takes out canceled, exited and paused enrollments. If all messages are new
// it reads a briefing: controls, leads, enrollments and the webhook's time of change in one
// query instead of four, which are most of what a first message waits for.
func heedControls(ctx context.Context, r *run, due []*item) ([]*item, error) {
	if r.ahead && r.bounded() {
		return nil, errNotAhead
	}
	of := waypost.ControlTargets{JourneyID: r.batch.JourneyID, LaunchID: r.batch.LaunchID}
	for _, it := range due {
		if it.stored.MessageID != "" || it.sought {
			return r.readControls(ctx, due)
		}
		of.EnrollmentIDs = append(of.EnrollmentIDs, it.EnrollmentID)
	}
	briefing, err := r.store.Briefing(ctx, r.batch.Scope, r.hook.ID, of)
	if err != nil {
		return nil, err
	}
	r.briefing = &briefing
	if !briefing.WebhookUpdatedAt.Equal(r.hook.UpdatedAt) {
		if r.hook, err = r.loadWebhook(ctx, r.batch.Scope, r.hook.ID); err != nil {
			return nil, err
		}
	}
	switch {
	case r.ahead && (briefing.Controlled || r.bounded()):
		return nil, errNotAhead
	case briefing.Controlled:
		return r.readControls(ctx, due)
	}
	return due, nil
}

// bounded tells whether the webhook has limits of its own. Admission takes from them, and
// what it does not admit waits its turn: only the workflow's own batch does that.
func (r *run) bounded() bool { return r.hook.RateLimit != nil || r.hook.MaxConcurrency > 0 }

// readControls reads the controls of enrollments, or which redeliveries are stopped, and
// records what follows from them.
func (r *run) readControls(ctx context.Context, due []*item) ([]*item, error) {
	if due[0].redelivers() {
		return r.cancelStopped(ctx, due)
	}
	items := make([]Item, len(due))
	for i, it := range due {
		items[i] = it.Item
	}
	controls, err := r.Controls(ctx, r.by.WorkflowID, r.batch, items)
	if err != nil || len(controls.of) == 0 {
		return due, err
	}
	now := r.now().UTC()
	var going, paused []*item
	var canceled []waypost.Touchpoint
	var lost []AttemptRecord
	for _, it := range due {
		outcome, _ := controls.Ended(it.EnrollmentID)
		switch {
		case outcome != "": // findExits tells which
			if it.interrupted {
				lost = append(lost, interrupted(it.Touchpoint(), r.batch.Scope, it.stored))
			}
			canceled = append(canceled, it.Touchpoint())
			it.result = r.answer(it, Sending{}, OutcomeCanceled, "", time.Time{})
		case controls.Paused(it.EnrollmentID):
			paused = append(paused, it)
		default:
			going = append(going, it)
			if !it.stored.FirstAttemptAt.IsZero() {
				it.paused = controls.Of(it.EnrollmentID).PausedTime(it.stored.FirstAttemptAt, now)
			}
		}
	}
	if err := r.store.RecordAttempts(ctx, lost); err != nil {
		return nil, err
	}
	if err := r.store.CancelDeliveries(ctx, canceled); err != nil {
		return nil, err
	}
	return going, r.holdBack(ctx, paused, waypost.DeferPaused, 0)
}

// cancelStopped takes out redeliveries that are to make no further attempt.
func (r *run) cancelStopped(ctx context.Context, due []*item) ([]*item, error) {
	if len(r.stopped) == 0 {
		return due, nil
	}
	var going []*item
	var canceled []waypost.Round
	var lost []AttemptRecord
	for _, it := range due {
		if !r.stopped[it.Touchpoint()] {
			going = append(going, it)
			continue
		}
		if it.interrupted {
			lost = append(lost, interrupted(it.Touchpoint(), r.batch.Scope, it.stored))
		}
		canceled = append(canceled, it.AttemptRound())
		it.result = r.answer(it, it.stored, OutcomeCanceled, "", time.Time{})
	}
	if err := r.store.RecordAttempts(ctx, lost); err != nil {
		return nil, err
	}
	return going, r.store.CancelRounds(ctx, canceled)
}
