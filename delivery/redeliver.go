package delivery

import (
	"context"
	"fmt"

	"waypost"
)

// Redeliver sends the stored messages of the items once more to one webhook, each in
// the round that its item names, and returns what came of each, in the order of the items.
// It does so as Deliver does, and may run any number of times for the same items. It does
// not look at the enrollments: they may have ended long ago.
func (e *Engine) Redeliver(ctx context.Context, by Caller, b Batch) ([]Result, error) {
	rounds := make([]waypost.Round, len(b.Items))
	for i, item := range b.Items {
		if !item.redelivers() {
			return nil, fmt.Errorf("enrollment %s is in no redelivery", item.EnrollmentID)
		}
		rounds[i] = item.AttemptRound()
	}
	hook, err := e.store.Webhook(ctx, b.Scope, b.WebhookID)
	deleted := waypost.CodeOf(err) == waypost.CodeNotFound
	if err != nil && !deleted {
		return nil, err
	}
	r := e.newRun(by, b, Version{})
	r.hook = hook
	if deleted {
		// An attempt of another process may have begun with any time-out.
		r.hook.TimeoutMs, r.stopped = waypost.MaxTimeoutMs, map[waypost.Touchpoint]bool{}
		for _, round := range rounds {
			r.stopped[round.Touchpoint] = true
		}
	} else if r.stopped, err = e.store.StoppedRounds(ctx, rounds); err != nil {
		return nil, err
	}
	return r.do(ctx)
}
