package delivery

import (
	"context"
	"time"

	"waypost"
)

// A stage takes items, at least one, and returns the items that go on. It has given the
// others a result, and has recorded what follows from that.
type stage func(ctx context.Context, r *run, due []*item) ([]*item, error)

// stages are passed in this order, between answerRecorded and openAttempts. A stage that
// takes from a shared budget comes late, so that it takes for items that are sent.
var stages = []stage{
	heedControls,
	passOverEnded,
	heedWebhook,
	holdUnreadable,
	keepQuiet,
	skipUnwanted,
	skipCapped,
	askBreaker,
	takeAdmission,
	renderMessages,
}

const (
	minRecheck = 15 * time.Second
	maxRecheck = 10 * time.Minute
)

// holdBack defers items without an attempt, for wait. If wait is 0, the time is not known:
// they come again after a quarter of the time that they have waited, within minRecheck and
// maxRecheck. Paused ones come again when the resume wakes the workflow.
func (r *run) holdBack(ctx context.Context, held []*item, reason string, wait time.Duration) error {
	return r.postpone(ctx, held, reason, func(_ *item, now, since time.Time) time.Time {
		if reason == waypost.DeferPaused {
			return time.Time{}
		}
		until := now.Add(wait)
		if wait == 0 {
			until = now.Add(min(max(now.Sub(since)/4, minRecheck), maxRecheck))
		}
		// The breaker gives each batch a time of its own.
		if r.batch.Coalesce && reason != waypost.DeferBreaker {
			until = RoundUp(until, until.Sub(now)/4)
		}
		return until
	})
}

// keepOut is holdBack for what the webhook decides. If the webhook has changed meanwhile,
// the notices of that change may have gone out before the items were recorded as waiting:
// then they come again at once.
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

// comeAgain has items that were held back tried again at once.
func comeAgain(held []*item) {
	for _, it := range held {
		it.result.Next = it.result.At
	}
}

// postpone records a deferral for each item, until the time that the function returns; since
// is when the item was deferred first.
func (r *run) postpone(ctx context.Context, held []*item, reason string, until func(it *item, now, since time.Time) time.Time) error {
	if len(held) == 0 {
		return nil
	}
	if r.ahead {
		return errNotAhead
	}
	now := r.now().UTC().Truncate(time.Millisecond)
	deferrals := make([]Deferral, len(held))
	for i, it := range held {
		since, s := now, it.stored
		if s.Status == waypost.DeliveryDeferred && !s.DeferredSince.IsZero() {
			since = s.DeferredSince
		}
		delivery := r.delivery(it, now)
		s.MessageID = delivery.MessageID
		at := until(it, now, since)
		it.result = r.answer(it, s, OutcomeDeferred, reason, at)
		next := transition{after: it.State}
		if !it.Deferred || reason == waypost.DeferQuietHours && !it.Quiet {
			var err error
			if next, err = r.step(it.Item, it.result); err != nil {
				return err
			}
		}
		deferrals[i] = Deferral{
			Touchpoint: it.Touchpoint(), Round: it.Round, Scope: r.batch.Scope, Delivery: delivery,
			Reason: reason, At: now, Until: at, Progress: it.Progress(next.after, next.entries),
		}
	}
	if err := r.store.RecordDeferrals(ctx, deferrals); err != nil {
		return err
	}
	r.observe.Deferred(reason, len(held))
	return nil
}

// delivery is the row of a touchpoint's message; one that is stored keeps its id.
func (r *run) delivery(it *item, now time.Time) waypost.Delivery {
	id := it.stored.MessageID
	if id == "" {
		id = waypost.NewID(waypost.PrefixMessage, now)
	}
	return waypost.Delivery{
		MessageID: id, EnrollmentID: it.EnrollmentID, JourneyID: r.batch.JourneyID,
		JourneyVersion: r.batch.Version, NodeID: r.batch.NodeID, WebhookID: r.hook.ID, LeadsID: it.LeadsID,
		LaunchID: r.batch.LaunchID,
	}
}
