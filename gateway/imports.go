package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"slices"

	"waypost"
)

// Imports stores imports. A stored one is accepted: its rows will be processed.
type Imports interface {
	// CreateImport stores an import with its rows, whose error ends it.
	CreateImport(ctx context.Context, by waypost.Caller, im waypost.Import, rows iter.Seq2[waypost.ImportRow, error]) (waypost.Import, error)
	Import(ctx context.Context, sc waypost.Scope, id string) (waypost.Import, error)
	CancelImport(ctx context.Context, by waypost.Caller, id string) (waypost.Import, error)
	// ImportErrors gives the rows that failed to each, by line.
	ImportErrors(ctx context.Context, sc waypost.Scope, id string, each func(waypost.ImportError) error) error
}

const (
	contentTypeNDJSON = "application/x-ndjson"
	contentTypeCSV    = "text/csv;charset=UTF-8"
)

// importAnswer is an import as it is answered.
type importAnswer struct {
	ID          string               `json:"id"`
	Status      waypost.ImportStatus `json:"status"`
	Mode        waypost.ImportMode   `json:"mode"`
	Match       *string              `json:"match"`
	DryRun      bool                 `json:"dryRun"`
	Total       int                  `json:"total"`
	Processed   int                  `json:"processed"`
	Created     int                  `json:"created"`
	Updated     int                  `json:"updated"`
	Failed      int                  `json:"failed"`
	Message     *string              `json:"message"`
	CreatedAt   string               `json:"createdAt"`
	StartedAt   *string              `json:"startedAt"`
	EndedAt     *string              `json:"endedAt"`
	TemporalURL *string              `json:"temporalUrl"`
}

func (a *server) answerImport(im waypost.Import) importAnswer {
	return importAnswer{
		ID: im.ID, Status: im.Status, Mode: im.Mode, Match: orNull(string(im.Match)), DryRun: im.DryRun,
		Total: im.Total, Processed: im.Processed, Created: im.Created, Updated: im.Updated, Failed: im.Failed,
		Message: orNull(im.Message), CreatedAt: stamp(im.CreatedAt), StartedAt: stampOrNull(im.StartedAt), EndedAt: stampOrNull(im.EndedAt),
		TemporalURL: orNull(a.WorkflowURL(im.ID)),
	}
}

// importLeads stores the rows of an import; the pump starts its workflow.
func (a *server) importLeads(ctx context.Context, r *request) (answer, error) {
	im := waypost.Import{AppID: r.app.ID, Mode: waypost.ImportCreate, PhoneRegion: a.PhoneRegion}
	if mode, given := r.params["mode"]; given {
		im.Mode = waypost.ImportMode(mode)
		if _, known := csvNeeds[im.Mode]; !known {
			r.queryFaults.Add(waypost.DetailOutOfRange, "mode", "must be create, update or upsert")
		}
	}
	if match, given := r.params["match"]; given {
		im.Match = waypost.ImportMatch(match)
		switch {
		case !slices.Contains(waypost.ImportMatches, im.Match):
			r.queryFaults.Add(waypost.DetailOutOfRange, "match", "must be leadsId, externalId, email or mobilePhone")
		case im.Mode == waypost.ImportCreate:
			r.queryFaults.Add(waypost.DetailOutOfRange, "match", "is for mode update and upsert: create makes a new lead of every row")
		}
	}
	im.DryRun = r.boolean("dryRun")
	if err := r.queryFaults.Err("query"); err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Import, error) {
		return a.Imports.CreateImport(ctx, r.by(), im, importRows(r.spool, importForm{r.media, r.charset, im.Mode, im.Match, a.PhoneRegion}))
	}, func(im waypost.Import) (answer, error) {
		return at(http.StatusAccepted, "/v1/leads/imports/"+im.ID, a.answerImport(im))
	})
}

func (a *server) showImport(ctx context.Context, r *request) (answer, error) {
	im, err := a.Imports.Import(ctx, r.scope, r.param("id"))
	return resourceWith(im, err, a.answerImport)
}

func (a *server) cancelImport(ctx context.Context, r *request) (answer, error) {
	return control(ctx, r, a.Imports.CancelImport, a.answerImport)
}

// importError is a row that failed: the error's body and the line.
type importError struct {
	Line int `json:"line"`
	errorBody
}

func answerImportError(e waypost.ImportError) importError {
	return importError{e.Line, errorBodyOf(e.Error)}
}

func (a *server) showImportErrors(ctx context.Context, r *request) (answer, error) {
	scope, id := r.scope, r.param("id")
	if _, err := a.Imports.Import(ctx, scope, id); err != nil {
		return answer{}, err
	}
	return streamed(contentTypeNDJSON, func(ctx context.Context, w *bufio.Writer, _ func(string)) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		return a.Imports.ImportErrors(ctx, scope, id, func(e waypost.ImportError) error {
			return enc.Encode(answerImportError(e))
		})
	}), nil
}
