package delivery

import (
	"context"
	"fmt"
	"maps"
	"time"

	"waypost"
	"waypost/journey"
)

// Cancel cancels enrollments with their deliveries. It fails, and is to be tried again,
// while attempts of theirs are under way: no other batch would record their end.
func (e *Engine) Cancel(ctx context.Context, b Batch) error {
	var keys []waypost.Touchpoint
	for _, item := range b.Items {
		if item.State.Phase == journey.PhaseSend {
			keys = append(keys, item.Touchpoint())
		}
	}
	if err := e.store.CancelEnrollments(ctx, enrollmentIDs(b.Items)); err != nil {
		return err
	}
	open, err := e.OpenAttempts(ctx, keys)
	if err != nil {
		return err
	}
	if err := e.recordAbandoned(ctx, b.Scope, open); err != nil {
		return err
	}
	return e.store.CancelDeliveries(ctx, keys)
}

// CancelRedeliveries cancels redeliveries. As Cancel it fails, and is to be tried again,
// while attempts of theirs are under way.
func (e *Engine) CancelRedeliveries(ctx context.Context, b Batch) error {
	rounds := make([]waypost.Round, len(b.Items))
	for i, item := range b.Items {
		rounds[i] = item.AttemptRound()
	}
	if err := e.store.CancelRounds(ctx, rounds); err != nil {
		return err
	}
	stored, err := e.store.SendingsOfRounds(ctx, rounds)
	if err != nil {
		return err
	}
	if err := e.recordAbandoned(ctx, b.Scope, deleteAllButOpen(stored)); err != nil {
		return err
	}
	return e.store.CancelRounds(ctx, rounds)
}

// OpenAttempts returns the touchpoints whose delivery has an attempt that has not ended.
func (e *Engine) OpenAttempts(ctx context.Context, keys []waypost.Touchpoint) (map[waypost.Touchpoint]Sending, error) {
	stored, err := e.store.Sendings(ctx, keys)
	return deleteAllButOpen(stored), err
}

// deleteAllButOpen keeps deliveries with an open attempt.
func deleteAllButOpen(stored map[waypost.Touchpoint]Sending) map[waypost.Touchpoint]Sending {
	maps.DeleteFunc(stored, func(_ waypost.Touchpoint, s Sending) bool { return s.Open == nil || s.Status.Final() })
	return stored
}

// recordAbandoned records abandoned attempts as interrupted; it fails if one is still
// running.
func (e *Engine) recordAbandoned(ctx context.Context, sc waypost.Scope, open map[waypost.Touchpoint]Sending) error {
	var lost []AttemptRecord
	for key, s := range open {
		cutOff := e.cutOffAt(s, waypost.MaxTimeoutMs)
		if s.Open.By == e.process && !e.flights.has(waypost.Round{Touchpoint: key, Round: s.Round}) || cutOff.Before(e.now()) {
			lost = append(lost, interrupted(key, sc, s))
		}
	}
	if err := e.store.RecordAttempts(ctx, lost); err != nil {
		return err
	}
	if n := len(open) - len(lost); n > 0 {
		return fmt.Errorf("%d attempts are under way", n)
	}
	return nil
}

// interrupted is the record of an abandoned attempt, of an enrollment or a redelivery that
// was canceled.
func interrupted(key waypost.Touchpoint, sc waypost.Scope, s Sending) AttemptRecord {
	return AttemptRecord{
		Touchpoint: key, Scope: sc, MessageID: s.MessageID, Round: s.Round, Attempt: s.Open.Attempt,
		Outcome: cutOff(s.Open.At), Status: waypost.DeliveryCanceled,
	}
}

// cutOff is the outcome of an attempt whose process ended before it saw the answer.
func cutOff(at time.Time) waypost.Outcome {
	return waypost.Outcome{ErrorClass: waypost.ClassInterrupted, Message: "the process ended before it saw the answer", At: at}
}
