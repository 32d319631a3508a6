package delivery

import (
	"context"
	"time"

	"waypost"
	"waypost/journey"
)

// keepQuiet holds back the leads whose quiet hours it is, until these are over. A journey
// without quiet hours costs no query.
func keepQuiet(ctx context.Context, r *run, due []*item) ([]*item, error) {
	if r.version.Definition == nil { // a redelivery
		return due, nil
	}
	hours := r.version.QuietHours()
	if hours == (journey.QuietHours{}) {
		return due, nil
	}
	var leads map[int64]waypost.Lead
	if r.briefing != nil {
		leads = r.briefing.Leads
	} else {
		ids := make([]int64, len(due))
		for i, it := range due {
			ids[i] = it.LeadsID
		}
		var err error
		if leads, err = r.store.LeadsByID(ctx, r.batch.Scope, ids); err != nil {
			return nil, err
		}
	}
	now := r.now().UTC()
	var going, quiet []*item
	ends := map[*item]time.Time{}
	for _, it := range due {
		// A lead that is gone is found to be so later.
		lead, there := leads[it.LeadsID]
		until, is := journey.QuietUntil(hours, lead, now)
		if there && is {
			ends[it], quiet = until, append(quiet, it)
		} else {
			going = append(going, it)
		}
	}
	return going, r.postpone(ctx, quiet, waypost.DeferQuietHours, func(it *item, _, _ time.Time) time.Time { return ends[it] })
}
