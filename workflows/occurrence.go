package workflows

import (
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/activities"
)

// OccurrenceInput is what the Schedule of a recurring launch starts LaunchOccurrence
// with.
type OccurrenceInput struct {
	Scope     waypost.Scope `json:"scope"`
	LaunchID  string        `json:"launch"` // that recurs
	JourneyID string        `json:"journey"`
}

// OccurrenceResult stands in the box at the top of the workflow's page.
type OccurrenceResult struct {
	At      time.Time          `json:"at"`                // in the schedule
	Launch  string             `json:"launch,omitempty"`  // the one that was opened; its workflow has this id
	Skipped waypost.SkipReason `json:"skipped,omitempty"` // why none was
}

// LaunchOccurrence opens one occurrence of a recurring launch, at the time for which
// the Schedule started it, however late that was.
func LaunchOccurrence(ctx workflow.Context, in OccurrenceInput) (OccurrenceResult, error) {
	at, scheduled := workflow.GetTypedSearchAttributes(ctx).GetTime(attrScheduled)
	if !scheduled { // somebody started it by hand
		at = workflow.GetInfo(ctx).WorkflowStartTime
	}
	at = at.UTC()
	ctx = workflow.WithActivityOptions(ctx, tireless(occurrenceTimeout, "open the occurrence"))
	var opened activities.OccurrenceResult
	input := activities.OccurrenceInput{LaunchID: in.LaunchID, At: at}
	if err := workflow.ExecuteActivity(ctx, activitiesOf.OpenOccurrence, input).Get(ctx, &opened); err != nil {
		return OccurrenceResult{}, err
	}
	return OccurrenceResult{At: at, Launch: opened.Launch, Skipped: opened.Skipped}, nil
}

// attrScheduled is where a Schedule tells the workflow that it starts for which time.
var attrScheduled = temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")

// occurrenceTimeout bounds one run of OpenOccurrence, which is a short transaction.
const occurrenceTimeout = 30 * time.Second
