package store

import (
	"context"
	"errors"
	"iter"
	"slices"

	"github.com/uptrace/bun"

	"waypost"
)

// eventLine is a line of an import: an event to accept, or what is wrong with it.
type eventLine struct {
	line  int
	fault *waypost.Error
	row   eventRow
}

// ImportEvents accepts events as AcceptEvent does, in their order, some hundred in a transaction.
// A line with an error, and one of a lead that the scope lacks, fail by themselves. An error of
// rows ends it and is returned; what was accepted before stays, so that the same import can be
// sent again. Workflows are told after those that single events are for.
func (s *imports) ImportEvents(
	ctx context.Context, by waypost.Caller, rows iter.Seq2[waypost.EventRow, error],
) (done waypost.EventImport, err error) {
	defer wrap(&err, "import events")
	sc, author := by.Within()
	entry, err := s.audit.newAudit(author, "event.import", "events", nil, nil)
	if err != nil {
		return done, err
	}
	err = inBatches(ctx, rows, func(row waypost.EventRow) (line eventLine, size int, err error) {
		line = eventLine{line: row.Line, fault: row.Err}
		if line.fault != nil {
			return line, 0, nil
		}
		if line.row, err = newEventRow(sc, row.Event); errors.As(err, &line.fault) {
			err = nil
		}
		line.row.author = author
		return line, len(line.row.Properties), err
	}, func(batch []eventLine, last bool) (err error) {
		done, err = s.importEvents(ctx, sc, entry, batch, done, last)
		s.countGrown(ctx, last, "events", "leads")
		return err
	})
	return done, err
}

// importEvents accepts a batch and returns the result so far, of which done is that before
// it. The last batch keeps the answer.
func (s *imports) importEvents(
	ctx context.Context, sc waypost.Scope, entry *auditRow, batch []eventLine, done waypost.EventImport, last bool,
) (result waypost.EventImport, err error) {
	err = s.writeRows(ctx, len(batch), func(ctx context.Context, tx bun.Tx) error {
		result = done
		result.Errors = slices.Clip(done.Errors) // another try appends again
		if err := s.importEventBatch(ctx, tx, sc, batch, &result); err != nil {
			return err
		}
		if result.Accepted > 0 {
			after := fields{"accepted": result.Accepted, "duplicates": result.Duplicates, "failed": result.Failed}
			if err := entry.update(ctx, tx, after); err != nil {
				return err
			}
		}
		if !last {
			return nil
		}
		return s.idempotency.keepResult(ctx, tx, result)
	})
	return result, err
}

// importEventBatch accepts the events of a batch that have no fault, in their order, and adds what became of
// each line to result.
func (s *imports) importEventBatch(ctx context.Context, tx bun.Tx, sc waypost.Scope, batch []eventLine, result *waypost.EventImport) error {
	var rows []eventRow
	for _, l := range batch {
		if l.fault == nil {
			rows = append(rows, l.row)
		}
	}
	var outcomes []eventOutcome
	if len(rows) > 0 {
		err := s.withoutPlan(ctx, tx, "seqscan")
		if err == nil {
			outcomes, err = s.events.acceptEvents(ctx, tx, sc, rows, true)
		}
		if err != nil {
			return err
		}
	}
	for _, l := range batch {
		outcome := eventOutcome{fault: l.fault}
		if l.fault == nil {
			outcome, outcomes = outcomes[0], outcomes[1:]
		}
		result.Total++
		switch {
		case outcome.fault != nil:
			result.Failed++
			result.Errors = withFault(result.Errors, l.line, outcome.fault)
		case outcome.stored:
			result.Accepted++
		default:
			result.Duplicates++
		}
	}
	return nil
}
