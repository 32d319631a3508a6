package activities

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"

	"waypost"
)

// RedeliverBatch sends the stored messages of the items once more to one webhook,
// each in the round that its item names, and returns what came of each, in the order
// of the items. It does so as DeliverBatch does, and may run any number of times for
// the same items. It does not look at the enrollments: they may have ended long ago.
func (a *Activities) RedeliverBatch(ctx context.Context, b Batch) ([]Delivery, error) {
	_, stop := keepAlive(ctx)
	defer stop()
	rounds := make([]waypost.Round, len(b.Items))
	for i, item := range b.Items {
		if !item.redelivers() {
			return nil, fmt.Errorf("enrollment %s is in no redelivery", item.EnrollmentID)
		}
		rounds[i] = item.round()
	}
	hook, err := a.store.Webhook(ctx, b.Scope, b.WebhookID)
	deleted := waypost.CodeOf(err) == waypost.CodeNotFound
	if err != nil && !deleted {
		return nil, fmt.Errorf("load webhook %s: %w", b.WebhookID, err)
	}
	run := a.newRun(activity.GetInfo(ctx), b, version{})
	run.hook = hook
	if deleted {
		// An attempt of another process may have begun with any time-out.
		run.hook.TimeoutMs, run.stopped = waypost.MaxTimeoutMs, map[waypost.Touchpoint]bool{}
		for _, r := range rounds {
			run.stopped[r.Touchpoint] = true
		}
	} else if run.stopped, err = a.store.StoppedRounds(ctx, rounds); err != nil {
		return nil, err
	}
	return run.do(ctx)
}

// stopRounds takes those out of what is due that are to make no further attempt.
func (r *batchRun) stopRounds(ctx context.Context) error {
	if len(r.stopped) == 0 {
		return nil
	}
	var going []dueItem
	var canceled []waypost.Round
	var lost []waypost.AttemptRecord
	for _, d := range r.due {
		item := r.batch.Items[d.index]
		if !r.stopped[item.touchpoint()] {
			going = append(going, d)
			continue
		}
		if d.interrupted {
			lost = append(lost, interrupted(item.touchpoint(), r.batch.Scope, *d.stored))
		}
		canceled = append(canceled, item.round())
		r.results[d.index] = r.answer(d.index, *d.stored, OutcomeCanceled, "", time.Time{})
	}
	r.due = going
	if err := r.store.RecordAttempts(ctx, lost); err != nil {
		return fmt.Errorf("record interrupted attempts: %w", err)
	}
	return r.store.CancelRounds(ctx, canceled)
}

// CancelRedeliveries cancels redeliveries whose workflow was canceled by an operator.
// As CancelBatch it fails, and is to be tried again, while attempts of theirs are
// under way.
func (a *Activities) CancelRedeliveries(ctx context.Context, b Batch) error {
	rounds := make([]waypost.Round, len(b.Items))
	for i, item := range b.Items {
		rounds[i] = item.round()
	}
	if err := a.store.CancelRounds(ctx, rounds); err != nil {
		return err
	}
	stored, err := a.store.SendingsOfRounds(ctx, rounds)
	if err != nil {
		return fmt.Errorf("read deliveries: %w", err)
	}
	if err := a.closeLost(ctx, b.Scope, onlyOpen(stored)); err != nil {
		return err
	}
	return a.store.CancelRounds(ctx, rounds)
}
