package activities

import (
	"context"
	"fmt"

	"waypost"
	"waypost/delivery"
	"waypost/journey"
)

// EnrollBatch enrolls the leads of all items, which are at an enroll node, in the
// newest version of the journey that the node names, and returns what came of it, in
// the order of the items. A lead that may not enter is not enrolled, which is no error.
// It may run any number of times: what was enrolled for a visit stays the answer.
func (a *Activities) EnrollBatch(ctx context.Context, b delivery.Batch) ([]Decision, error) {
	v, err := a.version(ctx, b)
	if err != nil {
		return nil, err
	}
	node, ok := v.Node(b.NodeID)
	if !ok || node.Type != journey.Enroll {
		return nil, fmt.Errorf("journey %s/%d has no enroll node %s", b.JourneyID, b.Version, b.NodeID)
	}
	controls, err := a.controls(ctx, b)
	if err != nil {
		return nil, err
	}
	into, err := a.target(ctx, b, node.Journey)
	if err != nil {
		return nil, err
	}
	at := a.engine.DecidedAt(b)
	decisions := make([]Decision, len(b.Items))
	for i, item := range b.Items {
		decisions[i] = undecided(item, at)
		if decisions[i].Stopped, decisions[i].Reason = stops(controls, item.EnrollmentID); decisions[i].Stopped == "" {
			into.Items = append(into.Items, waypost.Onward{Touchpoint: item.Touchpoint(), LeadsID: item.LeadsID, Waited: item.Waited})
		}
	}
	results, err := a.store.EnrollOnward(ctx, into)
	if err != nil {
		return nil, err
	}
	stopped, enrolled := 0, 0
	for i, item := range b.Items {
		result, asked := results[item.Touchpoint()]
		switch d := &decisions[i]; {
		case !asked:
		case result.Stopped:
			stopped++
		case result.HeldOut:
			d.Reason = "held out by the control group: " + result.EnrollmentID
		case result.EnrollmentID != "":
			d.Succeed, d.Reason = true, "enrolled: "+result.EnrollmentID
			enrolled++
		default:
			d.Reason = "not enrolled: " + result.Refused
		}
	}
	if enrolled > 0 {
		a.wake()
	}
	if stopped > 0 {
		// Run again, it reads what has stopped them meanwhile.
		return nil, fmt.Errorf("%d enrollments were paused or ended while they were to enroll", stopped)
	}
	return decisions, nil
}

// target is a batch, without items, that enrolls in a journey's newest version. It
// has none if there is no such journey, or nothing of it is published.
func (a *Activities) target(ctx context.Context, b delivery.Batch, id string) (waypost.OnwardBatch, error) {
	into := waypost.OnwardBatch{Scope: b.Scope, JourneyID: b.JourneyID, LaunchID: b.LaunchID, Into: id}
	j, err := a.store.Journey(ctx, b.Scope, id)
	if waypost.CodeOf(err) == waypost.CodeNotFound {
		return into, nil
	}
	if err != nil {
		return into, fmt.Errorf("load the journey to enroll in: %w", err)
	}
	if j.PublishedVersion == 0 {
		return into, nil
	}
	v, err := a.engine.Version(ctx, b.Scope, id, j.PublishedVersion)
	if err != nil {
		return into, err
	}
	into.Version, into.Reentry = v.Version, v.Reentry()
	return into, nil
}
