package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"waypost"
)

// Outbox is where accepted enrollments wait for their workflow.
type Outbox interface {
	ClaimCohort(ctx context.Context) (*waypost.Cohort, error)
	StaleCohorts(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.Cohort, error)
	MarkStarted(ctx context.Context, cohortID string) error
}

// Starter starts the workflow of a cohort; again for the same cohort has no
// effect.
type Starter interface {
	StartCohort(ctx context.Context, cohort waypost.Cohort) error
}

// Pump is the only way of enrollments into Temporal. Enrollments of the same
// journey version that wait at the same time share a workflow; in a quiet system
// each has its own. Several pumps, in one process or in many, share the work.
type Pump struct {
	outbox  Outbox
	starter Starter
	log     *slog.Logger
	wake    chan struct{}
	now     func() time.Time
}

const (
	// sweepEvery is how soon an enrollment is found whose writer could not wake
	// this pump.
	sweepEvery = time.Second
	// A cohort that was claimed and is not started after this time was left by a
	// process that ended.
	staleAfter = 10 * time.Second
	staleLimit = 20
	// startTimeout bounds one start; Temporal answers within milliseconds or is away.
	startTimeout = 10 * time.Second
	maxPumpWait  = 10 * time.Second
	// starts is the number of cohorts that are started at a time.
	starts = 4
)

// NewPump makes a pump; Run runs it.
func NewPump(outbox Outbox, starter Starter, log *slog.Logger) *Pump {
	return &Pump{outbox: outbox, starter: starter, log: log, wake: make(chan struct{}, starts), now: time.Now}
}

// Wake has the pump look for new enrollments at once. It never blocks.
func (p *Pump) Wake() {
	select {
	case p.wake <- struct{}{}:
	default: // as many looks as can be under way are due already
	}
}

// Run pumps until ctx ends.
func (p *Pump) Run(ctx context.Context) {
	var running sync.WaitGroup
	for range starts {
		running.Go(func() { p.start(ctx) })
	}
	running.Go(func() { p.sweep(ctx) })
	running.Wait()
}

// start starts new cohorts as they come.
func (p *Pump) start(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		cohort, err := p.outbox.ClaimCohort(ctx)
		if err == nil && cohort != nil {
			err = p.startOne(ctx, *cohort)
		}
		switch {
		case err != nil:
			// What was claimed is not lost: the sweep starts it again.
			failures++
			p.wait(ctx, p.fault(ctx, "start enrollments", err, failures), nil)
		case cohort == nil:
			failures = 0
			p.wait(ctx, sweepEvery, p.wake)
		default:
			failures = 0
		}
	}
}

// sweep starts what was claimed and left.
func (p *Pump) sweep(ctx context.Context) {
	failures := 0
	for ctx.Err() == nil {
		cohorts, err := p.outbox.StaleCohorts(ctx, p.now().Add(-staleAfter), staleLimit)
		for _, cohort := range cohorts {
			// One that Temporal refuses must not keep the others from starting.
			err = errors.Join(err, p.startOne(ctx, cohort))
		}
		wait := sweepEvery
		if failures++; err == nil {
			failures = 0
		} else {
			wait = p.fault(ctx, "start left enrollments", err, failures)
		}
		if err == nil && len(cohorts) == staleLimit {
			continue
		}
		p.wait(ctx, wait, nil)
	}
}

func (p *Pump) startOne(ctx context.Context, cohort waypost.Cohort) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if err := p.starter.StartCohort(ctx, cohort); err != nil {
		return err
	}
	if err := p.outbox.MarkStarted(ctx, cohort.ID); err != nil {
		return fmt.Errorf("mark cohort %s started: %w", cohort.ID, err)
	}
	return nil
}

// fault logs an error and tells how long to wait after it.
func (p *Pump) fault(ctx context.Context, what string, err error, failures int) time.Duration {
	wait := min(100*time.Millisecond<<min(failures, 10), maxPumpWait)
	if ctx.Err() == nil {
		p.log.Error(what+"; will retry", "in", wait.String(), "error", err)
	}
	return wait
}

func (p *Pump) wait(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}
