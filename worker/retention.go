package worker

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"time"

	"waypost"
)

// Archive is where what has ended is kept, until a Sweeper has it dropped.
type Archive interface {
	HoldSweep(ctx context.Context, holder string, every, ttl time.Duration) (held bool, err error)
	DropStep(ctx context.Context, retention waypost.Retention, at string) (waypost.Dropped, error)
	EndSweep(ctx context.Context, holder string, done bool) error
}

// DropObserver is told what a Sweeper has dropped, for metrics.
type DropObserver interface {
	Dropped(kind string, n int)
}

// LastPoll tells by Temporal's clock when it last heard of a worker, the zero time if of
// none: some minutes ago at most.
type LastPoll func(context.Context) (time.Time, error)

// Sweeper drops what has ended and is over, in small steps with pauses between them.
// One of all processes sweeps at a time.
type Sweeper struct {
	archive   Archive
	retention waypost.Retention
	now       func() time.Time // the clock that the archive goes by
	polled    LastPoll
	observe   DropObserver
	log       *slog.Logger
	holder    string
	// How long it waits between two steps, and between two looks whether a sweep is due.
	pause func(took time.Duration) time.Duration
	every time.Duration
}

const (
	// dropEvery is how soon after a sweep the next one begins, dropLook how often a
	// process looks whether it may.
	dropEvery = time.Hour
	dropLook  = time.Minute
	// A sweep is free again after dropHold if its process was killed.
	dropHold = time.Minute
	// Between two steps others have the database for dropShare times as long as a step
	// took, and a little more.
	dropShare = 2
	dropPause = 5 * time.Millisecond
	// polledWithin is more than the time for which Temporal remembers who has polled.
	polledWithin = 10 * time.Minute
)

// NewSweeper makes a sweeper; Run runs it.
func NewSweeper(archive Archive, retention waypost.Retention, now func() time.Time, polled LastPoll, observe DropObserver,
	log *slog.Logger,
) *Sweeper {
	return &Sweeper{
		archive: archive, retention: retention, now: now, polled: polled, observe: observe, log: log,
		holder: rand.Text(), every: dropLook,
		pause: func(took time.Duration) time.Duration { return dropShare*took + dropPause },
	}
}

// Run sweeps now and then until ctx ends.
func (s *Sweeper) Run(ctx context.Context) {
	for ctx.Err() == nil {
		if err := s.look(ctx); err != nil && ctx.Err() == nil {
			s.log.Error("drop what is over; will retry", "in", s.every.String(), "error", err)
		}
		sleep(ctx, s.every, nil)
	}
}

// look sweeps if that is due, and if the clock can be trusted.
func (s *Sweeper) look(ctx context.Context) error {
	trusted, err := s.compare(ctx)
	if err != nil || !trusted {
		return err
	}
	held, err := s.archive.HoldSweep(ctx, s.holder, dropEvery, dropHold)
	if err != nil || !held {
		return err
	}
	return s.sweep(ctx)
}

// compare tells whether the clock agrees with Temporal's: one that is far ahead would drop
// what is not over, for good. Tasks correct it, but none may have come yet. Before
// Temporal has heard of a worker nothing is known, which is no error.
func (s *Sweeper) compare(ctx context.Context) (bool, error) {
	polled, err := s.polled(ctx)
	if err != nil || polled.IsZero() {
		return false, err
	}
	now := s.now()
	if since := now.Sub(polled); since < -notable || since > polledWithin {
		return false, fmt.Errorf("the clock of this machine is wrong, or Temporal's: here it is %s, and a worker last asked Temporal for work at %s there",
			now.UTC().Format(time.RFC3339), polled.UTC().Format(time.RFC3339))
	}
	return true, nil
}

// sweep takes the steps of one sweep. After an error, the next sweep begins again at the
// first step, which loses nothing.
func (s *Sweeper) sweep(ctx context.Context) error {
	began := time.Now()
	dropped := map[string]int{}
	at, err := "", error(nil)
	for more, held := true, true; more && held && err == nil; {
		stepped := time.Now()
		var step waypost.Dropped
		if step, err = s.archive.DropStep(ctx, s.retention, at); err != nil {
			break
		}
		if step.N > 0 {
			dropped[step.Kind] += step.N
			s.observe.Dropped(step.Kind, step.N)
		}
		if at, more = step.Next, step.Next != ""; more {
			sleep(ctx, s.pause(time.Since(stepped)), nil)
			held, err = s.archive.HoldSweep(ctx, s.holder, dropEvery, dropHold)
		}
	}
	done := err == nil && at == ""
	// It is given back even when the process stops.
	if endErr := s.archive.EndSweep(context.WithoutCancel(ctx), s.holder, done); err == nil {
		err = endErr
	}
	attrs := []any{"complete", done, "took", time.Since(began).Round(time.Millisecond).String()}
	for _, kind := range waypost.DropKinds {
		if n := dropped[kind]; n > 0 {
			attrs = append(attrs, kind, n)
		}
	}
	s.log.Info("dropped what is over", attrs...)
	return err
}
