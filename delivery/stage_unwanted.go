package delivery

import (
	"context"
	"time"
)

// skipUnwanted takes out leads that are suppressed in the webhook's channel, or that have not
// agreed to it where the webhook requires that, whichever attempt is next. OpenAttempts decides
// for the others. A webhook without a channel costs no query, and neither do first messages,
// whose briefing tells.
func skipUnwanted(ctx context.Context, r *run, due []*item) ([]*item, error) {
	if r.hook.Channel == "" {
		return due, nil
	}
	now := r.now().UTC().Truncate(time.Millisecond)
	var openings []Opening
	for _, it := range due {
		if !it.aboutLead() || r.briefing != nil && !r.unwanted(it) {
			continue
		}
		openings = append(openings, r.openingOf(it, now))
	}
	if len(openings) == 0 {
		return due, nil
	}
	if r.ahead {
		return nil, errNotAhead
	}
	skipped, err := r.store.SkipUnwanted(ctx, openings)
	if err != nil {
		return nil, err
	}
	return r.withoutSkipped(due, skipped, now), nil
}

// aboutLead tells whether the message goes to a lead, and not to a subscription.
func (i Item) aboutLead() bool { return i.LeadsID != 0 }

// unwanted tells whether the briefing says that a message must not be sent. A lead that is gone
// is found to be so later.
func (r *run) unwanted(it *item) bool {
	lead, there := r.briefing.Leads[it.LeadsID]
	return there && r.hook.Unwanted(&lead.LeadFields, r.briefing.Suppressed[it.LeadsID]) != ""
}
