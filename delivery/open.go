package delivery

import (
	"context"
	"time"

	"waypost"
)

// openingOf is the next attempt of an item as it is opened in SQL, without the message.
func (r *run) openingOf(it *item, now time.Time) Opening {
	o := Opening{
		Touchpoint: it.Touchpoint(), Round: it.Round, Scope: r.batch.Scope, Delivery: r.delivery(it, now),
		Attempt: it.attempt, At: now, By: r.process, Interrupts: it.interrupted, Cap: r.cap,
	}
	if it.aboutLead() {
		o.Channel, o.NeedsConsent = r.hook.Channel, r.hook.RequiresConsent
	}
	if r.ahead || o.Channel == "" && (o.Cap.None() || o.Attempt > 1) {
		return o
	}
	o.Seq = it.State.Seq
	o.Skipped = func(reason string) (_ *waypost.Progress, err error) {
		it.next, err = r.step(it.Item, r.skipped(it, Sending{Skipped: reason}, now))
		return it.Progress(it.next.after, it.next.entries), err
	}
	return o
}

// openAttempts writes down that the attempts begin, with their messages, and starts the
// POST of each that this run opened.
func (r *run) openAttempts(ctx context.Context, due []*item) error {
	openings := make([]Opening, len(due))
	for i, it := range due {
		openings[i] = it.opening
	}
	// The activity may end in the middle of it; what was committed by then would look as
	// if a process had died.
	opening, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeTime)
	defer cancel()
	r.opened = true
	opened, err := r.store.OpenAttempts(opening, openings)
	if err != nil {
		return err
	}
	// A slow POST keeps what it works with in memory: not the messages of the others.
	alone := *r
	alone.items, alone.briefing = nil, nil
	for _, it := range due {
		s := opened[it.Touchpoint()]
		if s.Skipped != "" {
			it.result = r.skipped(it, s, it.opening.At)
			continue
		}
		if s.Held || s.Open == nil || s.Open.By != r.process || s.Open.Attempt != it.opening.Attempt {
			it.result = r.refused(it, s)
			continue
		}
		it.owned = false
		s.FirstAttemptAt, s.Before = s.FirstAttemptAt.Add(it.paused), it.stored.Before
		it.opening = Opening{} // it is stored
		r.started++
		r.posts.do(func() { alone.attempt(ctx, it, s) })
	}
	return nil
}

// refused answers for an item whose attempt was not opened: another process or an earlier
// run was faster, or it was paused or canceled a moment ago. It answers with the outcome if
// there is one, else so that the next batch looks.
func (r *run) refused(it *item, s Sending) Result {
	decided := s.Status.Final() || s.Status == waypost.DeliveryRetrying
	if decided && !s.Held && s.Open == nil && s.Round == it.AttemptRound().Round {
		return r.recorded(it, s)
	}
	return r.answer(it, s, OutcomeUnderWay, "", r.now().UTC().Add(time.Second))
}
