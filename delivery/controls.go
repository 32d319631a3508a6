package delivery

import (
	"context"
	"maps"
	"slices"

	"waypost"
)

// Controls are what was decided about the enrollments of a batch.
type Controls struct {
	of   map[string]waypost.Controls // by enrollment, if it has any
	held map[string]bool             // targets that the workflow was registered with
}

// Controls reads what was decided about the enrollments of items. If any is paused, it
// registers the workflow, so that the resume wakes it. It reads again if one was resumed in
// between, because that may have moved waits.
func (e *Engine) Controls(ctx context.Context, workflowID string, b Batch, items []Item) (Controls, error) {
	asked := waypost.ControlTargets{JourneyID: b.JourneyID, LaunchID: b.LaunchID, EnrollmentIDs: enrollmentIDs(items)}
	for {
		controls, err := e.store.Controls(ctx, asked)
		if err != nil {
			return Controls{}, err
		}
		c := Controls{of: controls, held: map[string]bool{}}
		targets := map[string]bool{}
		for _, of := range controls {
			if outcome, _ := ended(of); outcome != "" {
				continue
			}
			for _, target := range of.Holds() {
				targets[target] = true
			}
		}
		if len(targets) == 0 {
			return c, nil
		}
		held, err := e.store.Hold(ctx, workflowID, slices.Sorted(maps.Keys(targets)))
		if err != nil {
			return Controls{}, err
		}
		for _, target := range held {
			c.held[target] = true
		}
		if len(held) == len(targets) {
			return c, nil
		}
	}
}

// Of returns the controls of an enrollment.
func (c Controls) Of(enrollmentID string) waypost.Controls { return c.of[enrollmentID] }

// Ended says how an enrollment has ended, as OutcomeCanceled or OutcomeExited, and
// why; "" if it has not. An exit counts before a cancel: none is recorded after one.
func (c Controls) Ended(enrollmentID string) (outcome, reason string) {
	return ended(c.of[enrollmentID])
}

// Paused tells whether an enrollment is paused; its resume wakes the workflow.
func (c Controls) Paused(enrollmentID string) bool {
	return slices.ContainsFunc(c.of[enrollmentID].Holds(), func(target string) bool { return c.held[target] })
}

func ended(c waypost.Controls) (outcome, reason string) {
	if reason, _, exited := c.Exited(); exited {
		return OutcomeExited, reason
	}
	if _, canceled := c.Canceled(); canceled {
		return OutcomeCanceled, ""
	}
	return "", ""
}
