package workflows

import (
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

// TypeJourney is the workflow type of a cohort's way through a journey
// (docs/contract.md, "In the Temporal Web UI").
const TypeJourney = "Journey"

// TypeLaunch is the workflow type that enrolls the audience of a launch; its id is
// the launch's.
const TypeLaunch = "Launch"

// TypeLaunchOccurrence is the workflow type that opens an occurrence of a recurring
// launch; its id is the launch's with the time.
const TypeLaunchOccurrence = "LaunchOccurrence"

// TypeLeadImport is the workflow type that processes the rows of an import; its id
// is the import's.
const TypeLeadImport = "LeadImport"

// TypeRedelivery is the workflow type that sends a batch of messages once more; its
// id is the batch's.
const TypeRedelivery = "Redelivery"

// SignalWake tells a workflow to look at what is recorded: something has changed
// there. It carries a Wake.
const SignalWake = "wake"

// Wake is what a SignalWake carries: who is to be looked at, and which events are
// the reason. Without enrollments, all are.
type Wake struct {
	Enrollments []string `json:"enrollments,omitempty"`
	Events      []string `json:"events,omitempty"`
}

// Search attributes. They are never encrypted: no personal data in them.
var (
	AttrJourney = temporal.NewSearchAttributeKeyKeyword("WaypostJourney")     // journey id
	AttrLead    = temporal.NewSearchAttributeKeyKeywordList("WaypostLead")    // leadsIds
	AttrWebhook = temporal.NewSearchAttributeKeyKeyword("WaypostWebhook")     // of the touchpoint that was reached last
	AttrOrg     = temporal.NewSearchAttributeKeyKeyword("WaypostOrg")         // organisation
	AttrStage   = temporal.NewSearchAttributeKeyKeyword("WaypostStage")       // stage
	AttrNode    = temporal.NewSearchAttributeKeyKeyword("WaypostNode")        // node that the first undecided enrollment is at
	AttrOutcome = temporal.NewSearchAttributeKeyKeywordList("WaypostOutcome") // delivered, retrying, deferred, failed, skipped, exited: whichever occur
)

// summary is a workflow's title in the Web UI.
func summary(name string, version, members int) string {
	if len(name) > 200 {
		name = name[:200]
	}
	if members > 1 {
		return fmt.Sprintf("%s, version %d, %d leads", name, version, members)
	}
	return fmt.Sprintf("%s, version %d", name, version)
}

// SearchAttributes lists the search attributes by name with their types, for
// registering them.
func SearchAttributes() map[string]enumspb.IndexedValueType {
	return map[string]enumspb.IndexedValueType{
		AttrJourney.GetName(): AttrJourney.GetValueType(),
		AttrLead.GetName():    AttrLead.GetValueType(),
		AttrWebhook.GetName(): AttrWebhook.GetValueType(),
		AttrOrg.GetName():     AttrOrg.GetValueType(),
		AttrStage.GetName():   AttrStage.GetValueType(),
		AttrNode.GetName():    AttrNode.GetValueType(),
		AttrOutcome.GetName(): AttrOutcome.GetValueType(),
	}
}
