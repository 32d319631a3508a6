package delivery

import (
	"context"
	"slices"
	"time"

	"waypost"
)

// skipCapped takes out leads that have reached the frequency cap, before the breaker and
// the limits are asked for them. OpenAttempts decides for the others.
func skipCapped(ctx context.Context, r *run, due []*item) ([]*item, error) {
	if r.cap.None() {
		return due, nil
	}
	now := r.now().UTC().Truncate(time.Millisecond)
	var openings []Opening
	for _, it := range due {
		if it.attempt > 1 {
			continue
		}
		openings = append(openings, r.openingOf(it, now))
	}
	skipped, err := r.store.SkipCapped(ctx, openings)
	if err != nil || len(skipped) == 0 {
		return due, err
	}
	return r.withoutSkipped(due, skipped, now), nil
}

// withoutSkipped takes out the items that the store has skipped.
func (r *run) withoutSkipped(due []*item, skipped map[waypost.Touchpoint]Sending, at time.Time) []*item {
	return slices.DeleteFunc(due, func(it *item) bool {
		s, is := skipped[it.Touchpoint()]
		if is {
			it.result = r.skipped(it, s, at)
		}
		return is
	})
}

// skipped answers for an item that the store has skipped.
func (r *run) skipped(it *item, s Sending, at time.Time) Result {
	d := r.answer(it, s, OutcomeSkipped, s.Skipped, time.Time{})
	d.At = at
	return d
}
