package activities

import (
	"context"
	"time"

	"waypost"
)

// Decision is the arm that one enrollment takes at a branch.
type Decision struct {
	EnrollmentID string `json:"enrollment"`
	LeadsID      int64  `json:"lead"`
	Arm          int    `json:"arm"` // index of the case, -1: otherwise
	// Stopped is FoundPaused or OutcomeCanceled where nothing was decided.
	Stopped string    `json:"stopped,omitempty"`
	Reason  string    `json:"reason"`
	At      time.Time `json:"at"`
}

// DecideBatch evaluates the conditions of a branch for every item, in the order
// of the items. It writes nothing: the workflow's history is the record of the
// decision, and the next activity of the enrollment writes its timeline.
func (a *Activities) DecideBatch(ctx context.Context, b Batch) ([]Decision, error) {
	v, err := a.definition(ctx, b)
	if err != nil {
		return nil, err
	}
	s, err := a.stand(ctx, b, b.Items)
	if err != nil {
		return nil, err
	}
	subjects, err := a.subjects(ctx, b, v, b.Items)
	if err != nil {
		return nil, err
	}
	at := a.now().UTC()
	decisions := make([]Decision, len(b.Items))
	for i, item := range b.Items {
		d := Decision{EnrollmentID: item.EnrollmentID, LeadsID: item.LeadsID, Arm: -1, At: at}
		switch {
		case s.canceled(item.EnrollmentID):
			d.Stopped = OutcomeCanceled
		case s.paused(item.EnrollmentID):
			d.Stopped = FoundPaused
		default:
			d.Arm, d.Reason = v.Decide(b.NodeID, subjects[i].Facts)
		}
		decisions[i] = d
	}
	return decisions, nil
}

// RecordBatch writes the timeline entries of enrollments that no other activity
// is about to write: those that begin a wait or have ended.
func (a *Activities) RecordBatch(ctx context.Context, b Batch) error {
	progress := make([]waypost.Progress, 0, len(b.Items))
	for _, item := range b.Items {
		if p := item.progress(item.State, nil); p != nil {
			progress = append(progress, *p)
		}
	}
	if len(progress) == 0 {
		return nil
	}
	return a.store.RecordProgress(ctx, progress)
}
