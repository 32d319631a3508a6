package activities

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/temporal"

	"waypost"
)

// ImportInput names the import whose rows are to be processed.
type ImportInput struct {
	ImportID string `json:"import"`
}

// ImportProgress is how far an import is, over all runs: the counts are the
// database's. It holds nothing of a row.
type ImportProgress struct {
	Total     int  `json:"total"`
	Processed int  `json:"processed"`
	Created   int  `json:"created"`
	Updated   int  `json:"updated"`
	Failed    int  `json:"failed"`
	Done      bool `json:"done,omitempty"` // nothing more will happen
	Canceled  bool `json:"canceled,omitempty"`
}

// importRun bounds one run of ImportLeads. It is short so that the workflow shows
// how far it is; the largest import, of 64 MiB, still has few of them.
const importRun = 10 * time.Second

// ImportLeads processes the rows of an import step by step, until it has ended or
// some seconds have passed. Every step is one transaction that writes leads, failed
// rows and the import's place in its rows: a run that is cut off neither loses nor
// repeats a row, and two runs at a time share the rest. An import that has ended,
// because it was canceled as well, is only looked at. An import that has failed, or
// does not exist, is an error that no other try changes.
func (a *Activities) ImportLeads(ctx context.Context, in ImportInput) (ImportProgress, error) {
	tell, stop := keepAlive(ctx)
	defer stop()
	for begin := a.now(); ; {
		im, err := a.store.ImportStep(ctx, in.ImportID)
		switch {
		case waypost.CodeOf(err) == waypost.CodeNotFound:
			return ImportProgress{}, importFailed(in.ImportID, "it does not exist")
		case err != nil:
			return ImportProgress{}, err
		case im.Status == waypost.ImportFailed:
			return ImportProgress{}, importFailed(in.ImportID, im.Message)
		}
		p := ImportProgress{im.Total, im.Processed, im.Created, im.Updated, im.Failed, im.Status.Ended(), im.Status == waypost.ImportCanceled}
		if p.Done || a.now().Sub(begin) >= importRun || stopping(ctx) {
			return p, nil
		}
		tell(p)
	}
}

func importFailed(id, why string) error {
	return temporal.NewNonRetryableApplicationError(fmt.Sprintf("import %s cannot go on: %s", id, why), "ImportFailed", nil)
}

// CancelImportInput names an import whose workflow was canceled by an operator.
type CancelImportInput struct {
	Scope    waypost.Scope `json:"scope"`
	ImportID string        `json:"import"`
}

// CancelImport cancels an import; the rows that are processed stay. One that has
// ended, or no longer exists, is left as it is.
func (a *Activities) CancelImport(ctx context.Context, in CancelImportInput) error {
	_, err := a.store.CancelImport(ctx, in.Scope, in.ImportID)
	return unlessRefused(err)
}
