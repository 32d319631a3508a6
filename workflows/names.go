package workflows

import (
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
)

// The workflow types (docs/contract.md, "In the Temporal Web UI").
const (
	TypeJourney          = "Journey"          // a cohort's way through a journey; its id is the cohort's
	TypeLaunch           = "Launch"           // enrolls the audience of a launch; its id is the launch's
	TypeLaunchOccurrence = "LaunchOccurrence" // opens one of a recurring launch; its id is the launch's with the time
	TypeLeadImport       = "LeadImport"       // processes the rows of an import; its id is the import's
	TypeRedelivery       = "Redelivery"       // sends a batch of messages once more; its id is the batch's
)

// SignalWake tells a workflow to look at what is recorded: something has changed
// there. It carries a Wake.
const SignalWake = "wake"

// Wake is what a SignalWake carries: which enrollments are to be looked at, all if none is
// named, and which events are the reason.
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
	types := map[string]enumspb.IndexedValueType{}
	for _, a := range []temporal.SearchAttributeKey{AttrJourney, AttrLead, AttrWebhook, AttrOrg, AttrStage, AttrNode, AttrOutcome} {
		types[a.GetName()] = a.GetValueType()
	}
	return types
}
