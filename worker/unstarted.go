package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waypost"
)

// importsOutbox is where accepted imports wait for their workflow.
type importsOutbox interface {
	UnstartedImports(ctx context.Context, claimedBefore time.Time, limit int) ([]waypost.Import, error)
	MarkImportStarted(ctx context.Context, id string) error
}

const (
	// What was claimed and is not started after this time was left by a process that
	// ended, or the database's answer was lost.
	staleAfter = 10 * time.Second
	staleLimit = 20
)

// unstarted is a kind of what has a workflow of its own, and how it is started.
type unstarted[T any] struct {
	kind  string
	find  func(ctx context.Context, claimedBefore time.Time, limit int) ([]T, error)
	id    func(T) string
	start func(context.Context, T) error
	mark  func(ctx context.Context, id string) error
}

// startAll starts all of a kind: one that Temporal refuses must not keep the others from
// starting.
func (u unstarted[T]) startAll(ctx context.Context, p *Pump) (more bool, err error) {
	found, err := u.find(ctx, p.Now().Add(-staleAfter), staleLimit)
	if err != nil {
		return false, err
	}
	var errs error
	for _, one := range found {
		errs = errors.Join(errs, u.startOne(ctx, p, one))
	}
	return len(found) == staleLimit, errs
}

// startOne starts what is claimed.
func (u unstarted[T]) startOne(ctx context.Context, p *Pump, one T) error {
	if err := p.limited(ctx, func(ctx context.Context) error { return u.start(ctx, one) }); err != nil {
		return err
	}
	p.observe.Started(u.kind, 1)
	if err := u.mark(ctx, u.id(one)); err != nil {
		return fmt.Errorf("mark %s %s as started: %w", u.kind, u.id(one), err)
	}
	return nil
}

func (p *Pump) startImports(ctx context.Context) (more bool, err error) {
	imports := unstarted[waypost.Import]{
		kind: KindImport, find: p.outbox.UnstartedImports, id: func(im waypost.Import) string { return im.ID },
		start: p.starter.StartImport, mark: p.outbox.MarkImportStarted,
	}
	return imports.startAll(ctx, p)
}
