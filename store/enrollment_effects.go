package store

import (
	"context"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// UpdateLeadAt changes the lead of an enrollment at an updateLead node as UpdateLead does, and
// records the enrollment's progress, in one transaction. The batch has one item. It does
// nothing where its result says so, and nothing is recorded if change, or what another lead
// has, refuses the update. It may be called any number of times for a visit.
func (s *effects) UpdateLeadAt(
	ctx context.Context, b waypost.EffectBatch, change func(waypost.Lead) (waypost.LeadFields, []string, error),
) (result waypost.EffectResult, err error) {
	defer wrap(&err, "update the lead of enrollment %s", clip(b.Items[0].EnrollmentID))
	item := b.Items[0]
	err = s.leadChanges.storeUnique(ctx, func() (row leadRow, phones []string, err error) {
		err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
			results, going, err := s.passNodes(ctx, tx, b)
			if result = results[item.Touchpoint]; err != nil || len(going) == 0 {
				return err
			}
			row, phones, _, err = s.leadChanges.changeLead(ctx, tx, b.Scope, item.LeadsID, change, nil, item.Depth)
			return err
		})
		return row, phones, err
	})
	return result, err
}

// EmitEvents stores the events of enrollments at emit nodes as AcceptEvent does, with all that
// follows from them, and records the progress of the enrollments, in one transaction. Items
// whose result says why not have no effect. It may be called any number of times for a visit.
func (s *effects) EmitEvents(ctx context.Context, b waypost.EffectBatch) (results map[waypost.Touchpoint]waypost.EffectResult, err error) {
	defer wrap(&err, "emit events")
	if len(b.Items) == 0 {
		return nil, nil
	}
	err = s.writeRows(ctx, len(b.Items), func(ctx context.Context, tx bun.Tx) error {
		var going []waypost.Effect
		if results, going, err = s.passNodes(ctx, tx, b); err != nil || len(going) == 0 {
			return err
		}
		rows := make([]eventRow, len(going))
		for i, item := range going {
			if rows[i], err = newEventRow(b.Scope, item.Event); err != nil {
				return err
			}
			rows[i].AcceptedAt = stamp{b.At.Add(-time.Microsecond)}
			rows[i].OccurredAt = rows[i].AcceptedAt
		}
		_, err = s.events.acceptEvents(ctx, tx, b.Scope, rows, len(rows) > 1)
		return err
	})
	return results, err
}

// RecordedEffects returns what the timelines say of visits that were passed before, with an
// effect or without: of those of items that were.
func (s *effects) RecordedEffects(
	ctx context.Context, items []waypost.Effect,
) (recorded map[waypost.Touchpoint]waypost.TimelineEntry, err error) {
	defer wrap(&err, "look for what was recorded")
	recorded = map[waypost.Touchpoint]waypost.TimelineEntry{}
	for _, item := range items {
		entry, err := s.entryOf(ctx, s.r, item)
		if err != nil {
			return nil, err
		}
		if entry != nil {
			recorded[item.Touchpoint] = *entry
		}
	}
	return recorded, nil
}

// passNodes locks the leads and the enrollments of effects, records the progress of those
// that are to take effect, and returns them.
func (s *effects) passNodes(
	ctx context.Context, tx bun.Tx, b waypost.EffectBatch,
) (results map[waypost.Touchpoint]waypost.EffectResult, going []waypost.Effect, err error) {
	var leads []int64
	q := tx.NewSelect().Model((*leadRow)(nil)).Column("leads_id").
		Where("leads_id IN (?) AND org = ? AND stage = ?", bun.List(mapped(b.Items, leadOfEffect)), b.Scope.Org, b.Scope.Stage).Order("leads_id")
	if err := s.lockFor(q, forChange).Scan(ctx, &leads); err != nil {
		return nil, nil, err
	}
	there := keyed(leads, func(id int64) int64 { return id })
	ids := mapped(b.Items, enrollmentOfEffect)
	enrollments, err := s.progress.lockEnrollments(ctx, tx, ids)
	if err != nil {
		return nil, nil, err
	}
	stopped, err := s.controls.stopped(ctx, tx, waypost.ControlTargets{JourneyID: b.JourneyID, LaunchID: b.LaunchID, EnrollmentIDs: ids})
	if err != nil {
		return nil, nil, err
	}
	results = make(map[waypost.Touchpoint]waypost.EffectResult, len(b.Items))
	var progress []waypost.Progress
	for _, item := range b.Items {
		e, known := enrollments[item.EnrollmentID]
		if known && e.LastSeq > item.Seq {
			entry, err := s.entryOf(ctx, tx, item)
			if err != nil {
				return nil, nil, err
			}
			if entry != nil {
				results[item.Touchpoint] = waypost.EffectResult{Recorded: entry}
				continue
			}
		}
		if _, ok := there[item.LeadsID]; !known || !ok || stopped[item.EnrollmentID] || !e.EndedAt.IsZero() || e.LastSeq > item.Seq {
			results[item.Touchpoint] = waypost.EffectResult{Stopped: true}
			continue
		}
		results[item.Touchpoint] = waypost.EffectResult{}
		going, progress = append(going, item), append(progress, item.Progress)
	}
	if len(going) == 0 {
		return results, nil, nil
	}
	return results, going, s.progress.moveEnrollments(ctx, tx, progress, enrollments)
}

func leadOfEffect(e waypost.Effect) int64        { return e.LeadsID }
func enrollmentOfEffect(e waypost.Effect) string { return e.EnrollmentID }

// entryOf returns what the timeline says of how the item's visit ended, nil if it has not.
func (s *effects) entryOf(ctx context.Context, db bun.IDB, item waypost.Effect) (*waypost.TimelineEntry, error) {
	entries, err := s.progress.timelineOf(ctx, db, item.EnrollmentID)
	for i := range entries {
		if e := &entries[i]; e.Seq == item.Seq+1 && e.NodeID == item.NodeID && e.What != waypost.WhatExited {
			return e, err
		}
	}
	return nil, err
}
