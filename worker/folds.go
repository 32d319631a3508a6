package worker

import (
	"context"
	"time"
)

// foldsOutbox is where changes wait to be added to what is counted.
type foldsOutbox interface {
	FoldStatistics(ctx context.Context, limit int) (more bool, err error)
	FoldWebhookHistory(ctx context.Context, limit int) (more bool, err error)
	FoldEventNames(ctx context.Context, limit int) (more bool, err error)
}

const (
	// foldsAtOnce are changes of statistics that one transaction adds to them.
	foldsAtOnce = 500
	foldEvery   = 5 * time.Second
	// attemptsAtOnce are rows of attempts that one transaction adds to the history of webhooks.
	attemptsAtOnce = 1000
	// eventsAtOnce are rows that one transaction adds to the counts of events' names.
	eventsAtOnce = 1000
)

// foldStatistics adds to the statistics of journeys what has changed of them.
func (p *Pump) foldStatistics(ctx context.Context) (more bool, err error) {
	return p.outbox.FoldStatistics(ctx, foldsAtOnce)
}

// foldHistory adds to the history of webhooks what was attempted.
func (p *Pump) foldHistory(ctx context.Context) (more bool, err error) {
	return p.outbox.FoldWebhookHistory(ctx, attemptsAtOnce)
}

// foldEventNames adds to the counts of names which events were stored and deleted.
func (p *Pump) foldEventNames(ctx context.Context) (more bool, err error) {
	return p.outbox.FoldEventNames(ctx, eventsAtOnce)
}
