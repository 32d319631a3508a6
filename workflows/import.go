package workflows

import (
	"fmt"
	"strconv"
	"time"

	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/activities"
)

// ImportInput is what a LeadImport workflow starts with and, in the same form,
// continues as new with.
type ImportInput struct {
	Scope    waypost.Scope `json:"scope"`
	ImportID string        `json:"import"`
}

// ImportResult stands in the box at the top of the workflow's page.
type ImportResult struct {
	Import    string `json:"import"`
	Total     int    `json:"total"`
	Processed int    `json:"processed"`
	Created   int    `json:"created"`
	Updated   int    `json:"updated"`
	Failed    int    `json:"failed"`
	Canceled  bool   `json:"canceled,omitempty"`
}

// importTimeout bounds one run of ImportLeads, which ends by itself after seconds
// and the step that it is in.
const importTimeout = 5 * time.Minute

// LeadImport processes the rows of an import. Where it stands is in the database: a
// run that is cut off goes on where its last step ended. The history holds counts,
// and nothing of a row. It fails if the import cannot go on, or was deleted.
func LeadImport(ctx workflow.Context, in ImportInput) (ImportResult, error) {
	ctx = workflow.WithActivityOptions(ctx, tireless(importTimeout, "import the rows"))
	for {
		var p activities.ImportProgress
		if err := workflow.ExecuteActivity(ctx, activitiesOf.ImportLeads, activities.ImportInput{ImportID: in.ImportID}).Get(ctx, &p); err != nil {
			input := activities.CancelImportInput{Scope: in.Scope, ImportID: in.ImportID}
			return ImportResult{}, cancelIf(ctx, err, activitiesOf.CancelImport, input)
		}
		workflow.SetCurrentDetails(ctx, fmt.Sprintf("%s of %s rows: %s created, %s updated, %s failed",
			thousands(p.Processed), thousands(p.Total), thousands(p.Created), thousands(p.Updated), thousands(p.Failed)))
		if p.Done {
			return ImportResult{in.ImportID, p.Total, p.Processed, p.Created, p.Updated, p.Failed, p.Canceled}, nil
		}
		if workflow.GetInfo(ctx).GetContinueAsNewSuggested() {
			return ImportResult{}, workflow.NewContinueAsNewError(ctx, TypeLeadImport, in)
		}
	}
}

// thousands writes a count, such as 12,000.
func thousands(n int) string {
	s := strconv.Itoa(n)
	for i := len(s) - 3; i > 0; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
