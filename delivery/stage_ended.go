package delivery

import (
	"context"
	"slices"
	"time"

	"waypost"
)

// passOverEnded takes those out whose enrollment has ended: their message was sent, and
// its record was dropped when its time was over, before the workflow heard of it. A
// frequency cap leaves no record of what it skips: there the enrollment's tells.
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
		if !it.sought || there && (!e.Status.Ended() || !r.cap().None()) {
			return false
		}
		it.result = r.answer(it, waypost.Sending{}, OutcomeCanceled, "", time.Time{})
		return true
	}), nil
}
