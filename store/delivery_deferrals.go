package store

import (
	"context"

	"github.com/uptrace/bun"

	"waypost"
	"waypost/delivery"
)

// RecordDeferrals holds deliveries back, all in one transaction; a touchpoint
// without a delivery gets one. A delivery that is final or was attempted after
// the deferral's At stays as it is, and so does its enrollment. One that is
// deferred already keeps the time since when; one whose enrollment was canceled or
// has exited is canceled. Of several deferrals of one touchpoint the first counts.
func (s *attempts) RecordDeferrals(ctx context.Context, deferrals []delivery.Deferral) (err error) {
	defer wrap(&err, "record deferrals")
	if len(deferrals) == 0 {
		return nil
	}
	return s.writeRows(ctx, len(deferrals), func(ctx context.Context, tx bun.Tx) error { return s.recordDeferrals(ctx, tx, deferrals) })
}

// recordDeferrals is RecordDeferrals in a transaction. It locks deliveries before enrollments, as all
// others do.
func (s *attempts) recordDeferrals(ctx context.Context, tx bun.Tx, deferrals []delivery.Deferral) error {
	keys := mapped(deferrals, func(d delivery.Deferral) waypost.Touchpoint { return d.Touchpoint })
	deliveries, err := s.deliveries.lockDeliveries(ctx, tx, keys)
	if err != nil {
		return err
	}
	var missing []deliveryRow
	for _, d := range deferrals {
		if deliveries[d.Touchpoint] == nil {
			// Written as it is to stand: most enrollments have not left.
			row := newDeliveryRow(d.Touchpoint, d.Scope, d.Delivery)
			row.hold(d, false)
			missing = append(missing, row)
		}
	}
	inserted, err := s.addDeliveries(ctx, tx, missing, deliveries)
	if err != nil {
		return err
	}
	enrollments, err := s.progress.lockEnrollments(ctx, tx, enrollmentsOf(keys))
	if err != nil {
		return err
	}
	var updates []*deliveryRow
	var progress []waypost.Progress
	seen := map[waypost.Touchpoint]bool{}
	for _, d := range deferrals {
		row, left := deliveries[d.Touchpoint], enrollments[d.EnrollmentID].left()
		if seen[d.Touchpoint] || !row.hold(d, left) {
			continue
		}
		seen[d.Touchpoint] = true
		if left || !inserted[d.Touchpoint] {
			updates = append(updates, row)
		}
		if d.Progress != nil {
			progress = append(progress, *d.Progress)
		}
	}
	if err := s.deliveries.updateDeliveries(ctx, tx, updates); err != nil {
		return err
	}
	return s.progress.moveEnrollments(ctx, tx, progress, enrollments)
}

// hold defers the delivery, or cancels it if its enrollment has left; false if it must stay
// as it is.
func (r *deliveryRow) hold(d delivery.Deferral, left bool) bool {
	if r.Status.Final() || r.Round != max(d.Round, 1) || r.LastAttemptAt.After(d.At) {
		return false
	}
	if left && r.Round == 1 && r.OpenAttempt == 0 {
		r.Status, r.DeferredReason, r.DeferredSince, r.NextAttemptAt = waypost.DeliveryCanceled, "", stamp{}, stamp{}
		return true
	}
	if r.Status != waypost.DeliveryDeferred {
		r.DeferredSince = stamp{d.At}
	}
	r.Status, r.DeferredReason, r.NextAttemptAt = waypost.DeliveryDeferred, d.Reason, stamp{d.Until}
	return true
}
