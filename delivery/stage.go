package delivery

import (
	"context"
	"fmt"
	"time"

	"waypost"
)

// A stage takes out of the items of a run what is not to be sent now, after it has given
// them a result and has written down what is to be known of them, and returns those that
// go on. It is called with at least one item.
type stage func(ctx context.Context, r *run, due []*item) ([]*item, error)

// stages are those that items pass between what is recorded of them and the opening of
// their attempts. What costs a look elsewhere, or takes something that others could have
// had, comes late.
var stages = []stage{
	heedControls,
	passOverEnded,
	heedWebhook,
	holdUnreadable,
	keepQuiet,
	skipCapped,
	askBreaker,
	takeAdmission,
	renderMessages,
}

const (
	minRecheck = 15 * time.Second
	maxRecheck = 10 * time.Minute
)

// holdBack defers touchpoints without an attempt. They are looked at again after
// wait, or, where nobody knows how long it takes, after a while that grows with the
// time they have waited; paused ones only when the workflow is told to.
func (r *run) holdBack(ctx context.Context, held []*item, reason string, wait time.Duration) error {
	return r.postpone(ctx, held, reason, func(_ *item, now, since time.Time) time.Time {
		if reason == waypost.DeferPaused {
			return time.Time{}
		}
		until := now.Add(wait)
		if wait == 0 {
			until = now.Add(min(max(now.Sub(since)/4, minRecheck), maxRecheck))
		}
		// Of those who wait for the breaker everybody has a time of their own.
		if r.batch.Coalesce && reason != waypost.DeferBreaker {
			until = RoundUp(until, until.Sub(now)/4)
		}
		return until
	})
}

// keepOut holds back because of what the webhook says. It may have been changed, and
// those who wait may have been told, before they were written down: then they come
// again at once.
func (r *run) keepOut(ctx context.Context, held []*item, reason string, wait time.Duration) error {
	if err := r.holdBack(ctx, held, reason, wait); err != nil || len(held) == 0 {
		return err
	}
	hook, err := r.loadWebhook(ctx, r.batch.Scope, r.hook.ID)
	if err != nil {
		return err
	}
	if !hook.UpdatedAt.Equal(r.hook.UpdatedAt) {
		comeAgain(held)
	}
	return nil
}

// comeAgain has those who were held back tried again at once.
func comeAgain(held []*item) {
	for _, it := range held {
		it.result.Next = it.result.At
	}
}

// postpone defers touchpoints until the time that the function gives for each; since
// is when it was deferred first.
func (r *run) postpone(ctx context.Context, held []*item, reason string, until func(it *item, now, since time.Time) time.Time) error {
	if len(held) == 0 {
		return nil
	}
	if r.ahead {
		return errNotAhead
	}
	now := r.now().UTC().Truncate(time.Millisecond)
	deferrals := make([]waypost.Deferral, len(held))
	for i, it := range held {
		since, s := now, it.sending()
		if s.Status == waypost.DeliveryDeferred && !s.DeferredSince.IsZero() {
			since = s.DeferredSince
		}
		delivery := r.delivery(it, now)
		s.MessageID = delivery.MessageID
		at := until(it, now, since)
		it.result = r.answer(it, s, OutcomeDeferred, reason, at)
		after, entries := it.State, []waypost.TimelineEntry(nil)
		if !it.Deferred || reason == waypost.DeferQuietHours && !it.Quiet {
			var err error
			if after, entries, err = follow(r.version, it.Item, it.result); err != nil {
				return err
			}
		}
		deferrals[i] = waypost.Deferral{
			Touchpoint: it.Touchpoint(), Round: it.Round, Scope: r.batch.Scope, Delivery: delivery,
			Reason: reason, At: now, Until: at, Progress: it.Progress(after, entries),
		}
	}
	if err := r.store.RecordDeferrals(ctx, deferrals); err != nil {
		return fmt.Errorf("record deferrals: %w", err)
	}
	r.observe.Deferred(reason, len(held))
	return nil
}

// delivery is the row of a touchpoint's message; one that is stored keeps its id.
func (r *run) delivery(it *item, now time.Time) waypost.Delivery {
	id := ""
	if it.stored != nil {
		id = it.stored.MessageID
	} else {
		id = waypost.NewID(waypost.PrefixMessage, now)
	}
	return waypost.Delivery{
		MessageID: id, EnrollmentID: it.EnrollmentID, JourneyID: r.batch.JourneyID,
		JourneyVersion: r.batch.Version, NodeID: r.batch.NodeID, WebhookID: r.hook.ID, LeadsID: it.LeadsID,
		LaunchID: r.batch.LaunchID,
	}
}
