package activities

import (
	"context"
	"fmt"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/journey"
)

// UpdateLeadBatch sets the fields of the leads of all items, which are at an updateLead node,
// and returns what came of it, in the order of the items. What a lead cannot hold is not
// set, which is no error. An enrollment that is too deep in a row of enrollments that begin
// each other ends. Each update is stored with the enrollment's progress: the activity
// may run any number of times.
func (a *Activities) UpdateLeadBatch(ctx context.Context, b delivery.Batch) ([]Decision, error) {
	return a.effects(ctx, b, func(e *effects) error {
		for i, item := range b.Items {
			d := &e.decisions[i]
			if d.Stopped != "" || d.Recorded {
				continue
			}
			effect, err := e.effect(i)
			if err != nil {
				return err
			}
			facts := e.subjects[i].Facts
			result, err := a.store.UpdateLeadAt(ctx, e.batch(b, effect), func(current waypost.Lead) (waypost.LeadFields, []string, error) {
				facts.Lead = current
				patch, err := e.version.LeadPatch(b.NodeID, facts)
				if err != nil {
					return waypost.LeadFields{}, nil, err
				}
				return patch.Change(current.LeadFields, "", e.at) // no node sets numbers of phones
			})
			if reason, refused := journey.EffectFault(err); refused {
				d.Reason = reason
				continue
			}
			if err != nil {
				return err
			}
			e.take(item, i, result)
		}
		return nil
	})
}

// EmitBatch stores the events of all items, which are at an emit node, and returns what came
// of it, in the order of the items. An enrollment that is too deep in a row of enrollments
// that begin each other ends. Each event is stored with the enrollment's progress: the
// activity may run any number of times.
func (a *Activities) EmitBatch(ctx context.Context, b delivery.Batch) ([]Decision, error) {
	return a.effects(ctx, b, func(e *effects) error {
		var emitting []waypost.Effect
		for i, item := range b.Items {
			d := &e.decisions[i]
			if d.Stopped != "" || d.Recorded {
				continue
			}
			event, err := e.version.EventOf(b.NodeID, e.subjects[i].Facts)
			if reason, refused := journey.EffectFault(err); refused {
				d.Reason = reason
				continue
			}
			if err != nil {
				return err
			}
			event.EventID = fmt.Sprintf("%s/%s/%d", item.EnrollmentID, b.NodeID, item.State.Visit)
			effect, err := e.effect(i)
			if err != nil {
				return err
			}
			effect.Event = event
			effect.Event.Depth = effect.Depth
			emitting = append(emitting, effect)
		}
		results, err := a.store.EmitEvents(ctx, e.batch(b, emitting...))
		if err != nil {
			return err
		}
		for i, item := range b.Items {
			if result, asked := results[item.Touchpoint()]; asked {
				e.take(item, i, result)
			}
		}
		return nil
	})
}

// effects is a run of UpdateLeadBatch or EmitBatch.
type effects struct {
	version   delivery.Version
	node      journey.Node
	items     []delivery.Item
	subjects  []delivery.Subject
	at        time.Time
	decisions []Decision
	stopped   int // found by the store, after controls were read
	happened  bool
}

// effects prepares the items of a batch, has do decide those that are neither stopped nor recorded, and
// returns the decisions of all. It fails, to be run again, if do found enrollments paused or ended.
func (a *Activities) effects(ctx context.Context, b delivery.Batch, do func(*effects) error) ([]Decision, error) {
	_, stop := keepAlive(ctx)
	defer stop()
	v, err := a.version(ctx, b)
	if err != nil {
		return nil, err
	}
	node, ok := v.Node(b.NodeID)
	if !ok {
		return nil, fmt.Errorf("journey %s/%d has no node %s", b.JourneyID, b.Version, b.NodeID)
	}
	controls, err := a.controls(ctx, b)
	if err != nil {
		return nil, err
	}
	subjects, err := a.engine.Subjects(ctx, b, v, b.Items, nil)
	if err != nil {
		return nil, err
	}
	// As precise as what is recorded, and after the events: see EffectBatch.At.
	at := a.engine.DecidedAt(b).Truncate(time.Microsecond).Add(time.Microsecond)
	e := &effects{version: v, node: node, items: b.Items, subjects: subjects, at: at}
	for _, item := range b.Items {
		d := undecided(item, e.at)
		d.Stopped, d.Reason = stops(controls, item.EnrollmentID)
		e.decisions = append(e.decisions, d)
	}
	if err := a.recorded(ctx, e); err != nil {
		return nil, err
	}
	for i := range e.decisions {
		d := &e.decisions[i]
		if d.Stopped == "" && !d.Recorded && e.depth(i) >= waypost.MaxEnrollDepth {
			d.Stopped, d.Reason = FoundFailed, fmt.Sprintf("more than %d enrollments in a row that begin each other", waypost.MaxEnrollDepth)
		}
	}
	if err := do(e); err != nil {
		return nil, err
	}
	if e.happened {
		a.wake() // others may be told of it
	}
	if e.stopped > 0 {
		// Run again, it reads what has stopped them meanwhile.
		return nil, fmt.Errorf("%d enrollments were paused or ended at node %s", e.stopped, b.NodeID)
	}
	return e.decisions, nil
}

// recorded takes over what an earlier run has recorded of those that are stopped now: their
// own event may have ended them.
func (a *Activities) recorded(ctx context.Context, e *effects) error {
	var stopped []waypost.Effect
	for i, item := range e.items {
		if e.decisions[i].Stopped != "" {
			stopped = append(stopped, waypost.Effect{Touchpoint: item.Touchpoint(), NodeID: e.node.ID, Seq: item.State.Seq})
		}
	}
	entries, err := a.store.RecordedEffects(ctx, stopped)
	if err != nil {
		return err
	}
	for i, item := range e.items {
		if entry, ok := entries[item.Touchpoint()]; ok {
			e.decisions[i].Stopped = ""
			e.take(item, i, waypost.EffectResult{Recorded: &entry})
		}
	}
	return nil
}

func (e *effects) batch(b delivery.Batch, items ...waypost.Effect) waypost.EffectBatch {
	return waypost.EffectBatch{Scope: b.Scope, JourneyID: b.JourneyID, LaunchID: b.LaunchID, At: e.at, Items: items}
}

// depth is how many enrollments before an item's began each other in a row.
func (e *effects) depth(i int) int {
	if e.items[i].Waited {
		return 0
	}
	return e.subjects[i].Depth
}

// effect is what an item does, with the progress that its success is.
func (e *effects) effect(i int) (waypost.Effect, error) {
	item := e.items[i]
	done := Decision{At: e.at, Arm: -1, Succeed: true, Reason: e.node.Effect()}
	after, effect, err := journey.Step(e.version.Definition, item.State, done.Input())
	if err != nil {
		return waypost.Effect{}, fmt.Errorf("step enrollment %s: %w", item.EnrollmentID, err)
	}
	return waypost.Effect{
		Touchpoint: item.Touchpoint(), NodeID: e.node.ID, LeadsID: item.LeadsID, Seq: item.State.Seq, Progress: *item.Progress(after, effect.Entries),
		Depth: e.depth(i) + 1,
	}, nil
}

// take notes what came of an item's effect.
func (e *effects) take(item delivery.Item, i int, result waypost.EffectResult) {
	d := &e.decisions[i]
	switch entry := result.Recorded; {
	case result.Stopped:
		e.stopped++
	case entry != nil:
		d.Succeed, d.Recorded = entry.What == waypost.WhatUpdated || entry.What == waypost.WhatEmitted, true
		d.Reason, d.At = entry.Reason, entry.At
	default:
		d.Succeed, d.Recorded, d.Reason = true, true, e.node.Effect()
		e.happened = true
	}
}
