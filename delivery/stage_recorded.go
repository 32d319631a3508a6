package delivery

import (
	"context"
	"time"

	"waypost"
)

const (
	// clockSlack is how far ahead of the worker's clock a due time may lie and still
	// be waited for inside the activity, instead of by another batch.
	clockSlack = 2 * time.Second
	// graceAfterTimeout is added to a webhook's time-out before an attempt of another
	// process is taken for interrupted. It covers what that process does before and after
	// the POST when it has little CPU, and the queue of its writes. If it were too short,
	// messages would be sent twice.
	graceAfterTimeout = 10 * time.Second
)

// answerRecorded loads the webhook, answers what it can from what is recorded, and returns
// what is due. It waits for what will be due within clockSlack.
func (r *run) answerRecorded(ctx context.Context, owned []*item) (due []*item, err error) {
	stored, err := r.read(ctx, owned)
	if err != nil {
		return nil, err
	}
	slack := clockSlack
	if r.by.Local {
		slack = r.localPatience
	}
	now := r.now().UTC()
	var wait time.Duration
	for _, it := range owned {
		s, known := stored[it.Touchpoint()]
		if !known && it.redelivers() {
			it.result = r.answer(it, s, OutcomeCanceled, "", time.Time{}) // the delivery was deleted
			continue
		}
		if !known {
			it.attempt, it.sought = 1, !it.first
			due = append(due, it)
			continue
		}
		it.stored, it.attempt = s, s.Attempts+1
		ahead := s.NextAttemptAt.Sub(now)
		switch {
		case s.Status.Final():
			it.result = r.recorded(it, s)
		case s.Open != nil:
			if patience := r.patienceWith(s); patience.After(now) {
				it.result = r.answer(it, s, OutcomeUnderWay, "", now.Add(min(patience.Sub(now), clockSlack)))
				continue
			}
			it.attempt, it.interrupted = s.Open.Attempt+1, true
			due = append(due, it)
		case r.stopped[it.Touchpoint()]:
			due = append(due, it)
		case s.Status == waypost.DeliveryRetrying && ahead > slack:
			it.result = r.recorded(it, s)
		default:
			if s.Status == waypost.DeliveryRetrying {
				wait = max(wait, ahead)
			}
			due = append(due, it)
		}
	}
	if wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return due, nil
}

// read loads the webhook, and what is recorded of the items that may have any record. If all
// messages are new, heedControls reads a briefing, and a remembered webhook will do. A redelivery
// has loaded its own.
func (r *run) read(ctx context.Context, owned []*item) (stored map[waypost.Touchpoint]Sending, err error) {
	var rounds []waypost.Round
	for _, it := range owned {
		if !it.first {
			rounds = append(rounds, it.AttemptRound())
		}
	}
	if r.batch.WebhookID == "" {
		remembered, known := r.hooks.Get(hookKey{r.batch.Scope, r.hook.ID})
		if len(rounds) == 0 && known {
			r.hook = remembered
		} else if r.hook, err = r.loadWebhook(ctx, r.batch.Scope, r.hook.ID); err != nil {
			return nil, err
		}
	}
	if len(rounds) == 0 {
		return nil, nil
	}
	return r.store.SendingsOfRounds(ctx, rounds)
}

// patienceWith is until when an open attempt may be under way in another process; after
// that it was cut off. It is the zero time for an attempt of this process, where the caller
// owns the flight: that was cut off.
func (r *run) patienceWith(s Sending) time.Time {
	if s.Open.By == r.process {
		return time.Time{}
	}
	timeout := r.hook.TimeoutMs
	if !r.hook.UpdatedAt.Before(s.Open.At) {
		timeout = waypost.MaxTimeoutMs // it may have begun with another time-out
	}
	return r.cutOffAt(s, timeout)
}

// cutOffAt is when an open attempt counts as cut off: after its time-out, and the time that
// its process needs to record it. After an outage of the database that takes longer,
// because a write that hung is given up late.
func (e *Engine) cutOffAt(s Sending, timeoutMs int) time.Time {
	at := s.Open.At.Add(time.Duration(timeoutMs)*time.Millisecond + graceAfterTimeout)
	if back := time.UnixMilli(e.away.Load()).Add(writeTime + maxWriteWait + graceAfterTimeout); back.After(at) {
		return back
	}
	return at
}
