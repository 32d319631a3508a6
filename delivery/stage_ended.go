package delivery

import (
	"context"
	"slices"
	"time"
)

// passOverEnded takes out items without a delivery whose enrollment has ended: the message
// was sent, and retention has dropped its record before the workflow heard of it. In a
// journey with a frequency cap, which records nothing of what it skips, only an enrollment
// that is gone as well counts.
func passOverEnded(ctx context.Context, r *run, due []*item) ([]*item, error) {
	var sought []Item
	for _, it := range due {
		if it.sought {
			sought = append(sought, it.Item)
		}
	}
	if len(sought) == 0 {
		return due, nil
	}
	enrollments, err := r.Enrollments(ctx, sought)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(due, func(it *item) bool {
		e, there := enrollments[it.EnrollmentID]
		if !it.sought || there && (!e.Status.Ended() || !r.cap.None()) {
			return false
		}
		it.result = r.answer(it, Sending{}, OutcomeCanceled, "", time.Time{})
		return true
	}), nil
}
