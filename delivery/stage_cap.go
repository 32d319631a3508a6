package delivery

import (
	"context"
	"slices"
	"time"

	"waypost"
)

// cap is the journey's frequency cap; a redelivery has none.
func (r *run) cap() waypost.FrequencyCap {
	if r.version.Definition == nil {
		return waypost.FrequencyCap{}
	}
	return r.version.FrequencyCap()
}

// skipCapped takes out leads that have reached the frequency cap, before the breaker and
// the limits are asked for them. OpenAttempts decides for the others.
func skipCapped(ctx context.Context, r *run, due []*item) ([]*item, error) {
	if r.cap().None() {
		return due, nil
	}
	now := r.now().UTC().Truncate(time.Millisecond)
	var openings []waypost.Opening
	for _, it := range due {
		if it.attempt > 1 {
			continue
		}
		o, err := r.openingOf(it, now)
		if err != nil {
			return nil, err
		}
		openings = append(openings, o)
	}
	skipped, err := r.store.SkipCapped(ctx, openings)
	if err != nil || len(skipped) == 0 {
		return due, err
	}
	return r.withoutSkipped(due, skipped, now), nil
}

// withoutSkipped takes out the items that the store has skipped.
func (r *run) withoutSkipped(due []*item, skipped map[waypost.Touchpoint]waypost.Sending, at time.Time) []*item {
	return slices.DeleteFunc(due, func(it *item) bool {
		s, is := skipped[it.Touchpoint()]
		if is {
			it.result = r.skipped(it, s, at)
		}
		return is
	})
}

// skipped answers for an item that the store has skipped.
func (r *run) skipped(it *item, s waypost.Sending, at time.Time) Result {
	d := r.answer(it, s, OutcomeSkipped, s.Skipped, time.Time{})
	d.At = at
	return d
}
