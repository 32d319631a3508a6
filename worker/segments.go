package worker

import (
	"context"
	"time"
)

// segmentsOutbox is where it waits who may have entered a segment, and which conditions time may have made true.
type segmentsOutbox interface {
	CheckSegments(ctx context.Context, limit int) (more, acted bool, err error)
	ReadSegments(ctx context.Context) (more, acted bool, err error)
	LookAtWaits(ctx context.Context, limit int) (more, acted bool, err error)
}

const (
	// checksEvery is shorter than sweepEvery: what workers record can have leads enter segments,
	// and wakes nobody.
	checksEvery  = 250 * time.Millisecond
	checksAtOnce = 200
)

// checkSegments looks at leads of whom something was stored, and has the journeys go on that begin
// or end by the segments that they have entered.
func (p *Pump) checkSegments(ctx context.Context) (more bool, err error) {
	more, acted, err := p.outbox.CheckSegments(ctx, checksAtOnce)
	if acted {
		p.Wake()
	}
	return more, err
}

// readSegments reads watched segments as a whole, as time changes who is in them.
func (p *Pump) readSegments(ctx context.Context) (more bool, err error) {
	more, acted, err := p.outbox.ReadSegments(ctx)
	if acted {
		p.Wake()
	}
	return more, err
}

// lookAtWaits has conditions looked at that time may have made true.
func (p *Pump) lookAtWaits(ctx context.Context) (more bool, err error) {
	more, acted, err := p.outbox.LookAtWaits(ctx, checksAtOnce)
	if acted {
		p.Wake()
	}
	return more, err
}
