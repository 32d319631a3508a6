package activities

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/journey"
	"waypost/journey/nodes"
)

// FoundMoved is what MoveBatch tells of an enrollment that has left its workflow, for
// one of the version that the finding's reason names.
const FoundMoved = "moved"

// Carried is what an enrollment that was moved goes on with in the workflow of its new
// version.
type Carried struct {
	State journey.State `json:"state"`
	Input journey.Input `json:"input"` // the one that brings it there
	// Since is, of a wait that goes on, when it began.
	Since time.Time `json:"since,omitzero"`
}

// MoveBatch lets enrollments go that LookBatch has found to be ordered into another
// version. It returns a finding for each item, in their order: FoundMoved if it has left,
// now or in an earlier run, and FoundWaiting if something has come between.
func (a *Activities) MoveBatch(ctx context.Context, b delivery.Batch) ([]Finding, error) {
	_, stop := keepAlive(ctx)
	defer stop()
	from, err := a.version(ctx, b)
	if err != nil {
		return nil, err
	}
	seqs := make(map[string]int, len(b.Items))
	for _, item := range b.Items {
		seqs[item.EnrollmentID] = item.State.Seq
	}
	moves, err := a.store.Moves(ctx, b.Version, seqs)
	if err != nil {
		return nil, err
	}
	batch := waypost.LeavingBatch{JourneyID: b.JourneyID, LaunchID: b.LaunchID, Version: b.Version, Items: make([]waypost.Leaving, len(b.Items))}
	for i, item := range b.Items {
		if batch.Items[i], err = a.leaving(ctx, b, from, item, moves[item.EnrollmentID]); err != nil {
			return nil, err
		}
	}
	if err := a.addWaits(ctx, b, from, batch.Items); err != nil {
		return nil, err
	}
	left, err := a.store.LetGo(ctx, batch)
	if err != nil {
		return nil, err
	}
	findings := make([]Finding, len(b.Items))
	for i, item := range b.Items {
		findings[i] = Finding{Outcome: FoundWaiting, LeadsID: item.LeadsID, EnrollmentID: item.EnrollmentID, At: b.Now}
		if left[item.EnrollmentID] {
			findings[i].Outcome = FoundMoved
		}
	}
	if len(left) > 0 {
		a.wake()
	}
	return findings, nil
}

// leaving says what an item goes on with. Without a move it only asks whether it has
// left.
func (a *Activities) leaving(ctx context.Context, b delivery.Batch, from delivery.Version, item delivery.Item, move waypost.Move) (waypost.Leaving, error) {
	l := waypost.Leaving{Touchpoint: item.Touchpoint(), LeadsID: item.LeadsID, Seq: item.State.Seq}
	if move.To == 0 {
		return l, nil
	}
	to, err := a.engine.Version(ctx, b.Scope, b.JourneyID, move.To)
	if err != nil {
		return l, err
	}
	// The workflow's time: an event that came later was not looked at, or counts there.
	in, err := journey.Moved(from.Definition, to.Definition, item.State, move.Node, b.Now, fmt.Sprintf("moved from version %d", b.Version))
	if err != nil {
		return l, err
	}
	carried := Carried{State: item.State, Input: in}
	if !in.Until.IsZero() {
		carried.Since = item.Since
	}
	if l.Carried, err = json.Marshal(carried); err != nil {
		return l, fmt.Errorf("encode the state of %s: %w", item.EnrollmentID, err)
	}
	l.Move = move
	return l, nil
}

// addWaits adds what enrollments that are to move wait for, if that is an event.
func (a *Activities) addWaits(ctx context.Context, b delivery.Batch, from delivery.Version, leaving []waypost.Leaving) error {
	var awaiting []delivery.Item
	var which []int
	for i, item := range b.Items {
		n, _ := from.Node(item.State.Node)
		// What a condition says is looked at anew in the other version.
		if leaving[i].Move.To > 0 && item.State.Phase == journey.PhaseAwait && n.Description().Waits == nodes.ForEvent {
			awaiting, which = append(awaiting, item), append(which, i)
		}
	}
	waits, err := a.waits(ctx, b, from, awaiting)
	if err != nil {
		return err
	}
	for n, i := range which {
		leaving[i].Wait = &waits[n]
	}
	return nil
}
