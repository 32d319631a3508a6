package store

import (
	"cmp"
	"context"
	"maps"
	"slices"

	"github.com/uptrace/bun"
)

// acceptance is an event that waits to be accepted.
type acceptance struct {
	row     eventRow
	outcome eventOutcome
	done    bool // it was accepted, or refused
	ended   chan struct{}
}

// acceptTogether accepts an event in a transaction that it shares with those that come while
// another one is under way: at hundreds a second, the round trips and commits of each cost the
// database more than their rows. If anything stands in the way, done is false and nothing
// has happened.
func (s *events) acceptTogether(ctx context.Context, row eventRow) (outcome eventOutcome, done bool, err error) {
	a := &acceptance{row: row, ended: make(chan struct{})}
	s.accepting.join(a, s.acceptAll)
	select {
	case <-a.ended:
	case <-ctx.Done():
		if s.accepting.leave(a) {
			return outcome, false, ctx.Err()
		}
		<-a.ended // it may be stored, and what it has begun is to be sent then
	}
	return a.outcome, a.done, nil
}

// acceptAll accepts events in a transaction for each scope.
func (s *events) acceptAll(all []*acceptance) {
	defer func() {
		for _, a := range all {
			close(a.ended)
		}
	}()
	slices.SortStableFunc(all, func(a, b *acceptance) int {
		return cmp.Or(cmp.Compare(a.row.Org, b.row.Org), cmp.Compare(a.row.Stage, b.row.Stage))
	})
	for left := all; len(left) > 0; {
		n := 1
		for n < len(left) && n < maxAccepted && left[n].row.Scope == left[0].row.Scope {
			n++
		}
		ctx, cancel := context.WithTimeout(context.Background(), shareTimeout)
		_ = s.acceptGroup(ctx, left[:n]) // each tries again by itself then, and finds out what it is
		cancel()
		left = left[n:]
	}
}

// maxAccepted bounds the events of one transaction.
const maxAccepted = 100

func (s *events) acceptGroup(ctx context.Context, group []*acceptance) error {
	var outcomes []eventOutcome
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		rows := mapped(group, func(a *acceptance) eventRow { return a.row })
		if outcomes, err = s.acceptEvents(ctx, tx, group[0].row.Scope, rows, false); err != nil {
			return err
		}
		return s.tellEvents(ctx, tx, rows, outcomes)
	})
	if err != nil {
		return err
	}
	for i, a := range group {
		a.outcome, a.done = outcomes[i], true
	}
	return nil
}

// tellEvents writes what the audit log tells of the events that were stored.
func (s *events) tellEvents(ctx context.Context, tx bun.Tx, rows []eventRow, outcomes []eventOutcome) error {
	var entries []*auditRow
	for i, row := range rows {
		if !outcomes[i].stored || row.author == nil {
			continue
		}
		e, err := row.event()
		if err != nil {
			return err
		}
		after := fields{"name": e.Name, "leadsId": e.LeadsID, "properties": slices.Sorted(maps.Keys(e.Properties))}
		entry, err := s.audit.newAudit(row.author, "event.accept", e.EventID, nil, after)
		if err != nil {
			return err
		}
		entries = append(entries, entry)
	}
	if len(entries) == 0 {
		return nil
	}
	_, err := tx.NewInsert().Model(&entries).Exec(ctx)
	return wrapped(err, "write the audit log")
}
