package activities

import (
	"context"
	"fmt"
	"time"

	"waypost"
	"waypost/journey"
)

// keepQuiet holds those back whose quiet hours it is, until they are over: a journey
// that has none costs nothing. Of one time zone all go on together.
func (r *batchRun) keepQuiet(ctx context.Context) error {
	if r.version.Definition == nil || len(r.due) == 0 { // nil: a redelivery
		return nil
	}
	hours := r.version.QuietHours()
	if hours == (journey.QuietHours{}) {
		return nil
	}
	ids := make([]int64, len(r.due))
	for i, d := range r.due {
		ids[i] = r.batch.Items[d.index].LeadsID
	}
	var leads map[int64]waypost.Lead
	if r.known != nil {
		leads = r.known.Leads
	} else {
		var err error
		if leads, err = r.store.LeadsByID(ctx, r.batch.Scope, ids); err != nil {
			return fmt.Errorf("load leads: %w", err)
		}
	}
	now := r.now().UTC()
	var going, quiet []dueItem
	ends := map[int]time.Time{}
	for i, d := range r.due {
		// A lead that is gone is found to be so later.
		lead, there := leads[ids[i]]
		until, is := journey.QuietUntil(hours, lead, now)
		if !there || !is {
			going = append(going, d)
			continue
		}
		ends[d.index] = until
		quiet = append(quiet, d)
	}
	r.due = going
	return r.postpone(ctx, quiet, waypost.DeferQuietHours, func(d dueItem, _, _ time.Time) time.Time { return ends[d.index] })
}

// cap is the journey's frequency cap; a redelivery has none.
func (r *batchRun) cap() waypost.FrequencyCap {
	if r.version.Definition == nil {
		return waypost.FrequencyCap{}
	}
	return r.version.FrequencyCap()
}

// skip takes those out of what is due who have reached the frequency cap already:
// they are to take nobody's place. Whether the others have is decided when their
// attempts are opened.
func (r *batchRun) skip(ctx context.Context) error {
	if len(r.due) == 0 || r.cap().None() {
		return nil
	}
	now := r.now().UTC().Truncate(time.Millisecond)
	var openings []waypost.Opening
	for _, d := range r.due {
		if d.attempt > 1 {
			continue
		}
		o, err := r.opening(d, now)
		if err != nil {
			return err
		}
		openings = append(openings, o)
	}
	skipped, err := r.store.SkipCapped(ctx, openings)
	if err != nil || len(skipped) == 0 {
		return err
	}
	var going []dueItem
	for _, d := range r.due {
		s, is := skipped[r.batch.Items[d.index].touchpoint()]
		if !is {
			going = append(going, d)
			continue
		}
		r.results[d.index] = r.skipped(d.index, s, now)
	}
	r.due = going
	return nil
}

// skipped answers for an item that the frequency cap forbids.
func (r *batchRun) skipped(i int, s waypost.Sending, at time.Time) Delivery {
	d := r.answer(i, s, OutcomeSkipped, waypost.SkipFrequencyCap, time.Time{})
	d.At = at
	return d
}
