package worker

import (
	"context"
	"errors"
	"time"

	"waypost"
)

// redeliveriesOutbox is where redeliveries, and messages to subscriptions, wait for their workflow.
type redeliveriesOutbox interface {
	UnstartedRedeliveries(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.RedeliveryBatch, error)
	MarkRedeliveryStarted(ctx context.Context, id string) error
	RedeliveryStep(ctx context.Context) (more bool, err error)
	TellSubscriptions(ctx context.Context, limit int) (batches []waypost.RedeliveryBatch, more bool, err error)
}

// redeliver starts batches of messages that are to be delivered once more, and then
// has the next one made of a bulk redelivery: while Temporal is away none is made in
// advance.
func (p *Pump) redeliver(ctx context.Context) (more bool, err error) {
	began := time.Now()
	if more, err = p.redeliveries().startAll(ctx, p); err != nil || more {
		return more, err
	}
	if more, err = p.outbox.RedeliveryStep(ctx); err != nil || !more {
		return false, err
	}
	var took time.Duration
	if lately(&p.single) || lately(&p.launch) {
		took = time.Since(began)
	}
	yield(ctx, redeliverYield, took)
	return true, nil
}

// tellSubscriptions makes messages of what happened and starts the workflows that send them.
// A workflow that cannot be started is started later, by redeliver.
func (p *Pump) tellSubscriptions(ctx context.Context) (more bool, err error) {
	began := time.Now()
	batches, more, err := p.outbox.TellSubscriptions(ctx, waypost.MaxCohort)
	if err != nil || len(batches) == 0 {
		return more, err
	}
	var errs error
	for _, b := range batches {
		errs = errors.Join(errs, p.redeliveries().startOne(ctx, p, b))
	}
	if more && errs == nil && (lately(&p.single) || lately(&p.launch)) {
		yield(ctx, redeliverYield, time.Since(began))
	}
	return more, errs
}

// redeliveries are started as all that has a workflow of its own.
func (p *Pump) redeliveries() unstarted[waypost.RedeliveryBatch] {
	return unstarted[waypost.RedeliveryBatch]{
		kind: KindRedelivery, find: p.outbox.UnstartedRedeliveries, id: func(b waypost.RedeliveryBatch) string { return b.ID },
		start: p.starter.StartRedelivery, mark: p.outbox.MarkRedeliveryStarted,
	}
}
