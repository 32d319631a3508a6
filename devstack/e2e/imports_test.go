package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/serviceerror"

	"waypost"
	"waypost/config"
	"waypost/devstack/harness"
	"waypost/store/storetest"
	"waypost/workflows"
)

// imported is an import as the API tells it.
type imported struct {
	ID        string               `json:"id"`
	Status    waypost.ImportStatus `json:"status"`
	Message   string               `json:"message"`
	Total     int                  `json:"total"`
	Processed int                  `json:"processed"`
	Created   int                  `json:"created"`
	Updated   int                  `json:"updated"`
	Failed    int                  `json:"failed"`
}

// caller is a process or a fleet.
type caller interface {
	Do(t *testing.T, method, path string, body, answer any)
}

// importGroup is the leadsGroup of the leads that are imported, importName their
// name.
const (
	importGroup = 41
	importName  = "Ada Lovelace"
)

// importRows makes n rows of one import: of each hundred, one has no name, and one
// has the externalId of a row before it.
func importRows(series, n int) []map[string]any {
	rows := make([]map[string]any, n)
	for i := range rows {
		rows[i] = map[string]any{
			"name": importName, "leadsGroup": importGroup, "externalId": importID(series, i),
			"mobilePhone": []string{fmt.Sprintf("138%08d", series*200_000+i)},
		}
		switch i % 100 {
		case 30:
			delete(rows[i], "name")
		case 60:
			rows[i]["externalId"] = importID(series, i-1)
		}
	}
	return rows
}

// importSeries tells imports apart.
var importSeries atomic.Int32

func importID(series, row int) string { return fmt.Sprintf("import-%d-%d", series, row) }

// inTheMiddle imports n rows and has act called when some of them are processed.
// If it was too late to be in the middle, it does so again with other rows.
func inTheMiddle(t *testing.T, c caller, n int, act func(t *testing.T, im imported)) (series int, im imported) {
	t.Helper()
	for range 10 {
		series, im := int(importSeries.Add(1)), imported{}
		c.Do(t, http.MethodPost, "/v1/leads/imports?mode=create", map[string]any{"leads": importRows(series, n)}, &im)
		act(t, awaitImport(t, c, im.ID, 1))
		if c.Do(t, http.MethodGet, "/v1/leads/imports/"+im.ID, nil, &im); im.Total == n && im.Processed < n {
			return series, im
		}
		t.Logf("too late: %+v", im)
	}
	t.Fatal("every import was over before it could be disturbed")
	return 0, im
}

// awaitImport waits until so many rows are processed, or no further one will be.
func awaitImport(t *testing.T, c caller, id string, rows int) (im imported) {
	t.Helper()
	harness.Eventually(t, launchTime, func() (bool, string) {
		c.Do(t, http.MethodGet, "/v1/leads/imports/"+id, nil, &im)
		return t.Failed() || im.Processed >= rows || im.Status.Ended(), fmt.Sprintf("the import is %+v", im)
	})
	if t.Failed() {
		t.FailNow()
	}
	return im
}

// Workers are killed in the middle of an import: every row is processed once.
func TestScaleImportUnderKills(t *testing.T) {
	harness.Besides(t)
	importUnderKills(t)
}

// The same on PostgreSQL.
func TestScaleImportUnderKillsOnPostgres(t *testing.T) {
	harness.Besides(t)
	importUnderKills(t, "WAYPOST_DATABASE_URL="+storetest.PostgresURL(t))
}

func importUnderKills(t *testing.T, env ...string) {
	t.Helper()
	n := harness.Scaled(4_000, 100_000)
	f := harness.StartFleet(t, 1, 1, env...)
	random := rand.New(rand.NewPCG(1, 2))
	began := time.Now()
	series, im := inTheMiddle(t, f, n, func(t *testing.T, im imported) {
		for quarter := range harness.Scaled(1, 3) {
			im = awaitImport(t, f, im.ID, (quarter+1)*n/4)
			t.Logf("a worker is killed when %d of %d rows are processed", im.Processed, im.Total)
			f.KillOne(t, config.RoleWorker, random, nil)
		}
	})
	im = awaitImport(t, f, im.ID, n)
	t.Logf("%d rows in %.1f s: %+v", n, time.Since(began).Seconds(), im)
	if want := (imported{ID: im.ID, Status: waypost.ImportSucceeded, Total: n, Processed: n, Created: n - n/50, Failed: n / 50}); im != want {
		t.Errorf("the import is %+v, want %+v", im, want)
	}

	// The rows that failed are those that should have, each once.
	failed := map[int]waypost.ErrorCode{}
	for _, line := range linesOf(t, f, "/v1/leads/imports/"+im.ID+"/errors") {
		var e struct {
			Line int
			Code waypost.ErrorCode
		}
		unmarshal(t, line, &e)
		if _, twice := failed[e.Line]; twice {
			t.Errorf("row %d failed twice", e.Line)
		}
		failed[e.Line] = e.Code
	}
	// So is every lead there, once.
	leads := map[string]int{}
	end := 0
	for _, line := range linesOf(t, f, fmt.Sprintf("/v1/leads/export?format=ndjson&leadsGroup=%d", importGroup)) {
		var lead struct {
			ExternalID string
			End        bool
			Count      int
		}
		if unmarshal(t, line, &lead); lead.End {
			end = lead.Count
		} else if strings.HasPrefix(lead.ExternalID, fmt.Sprintf("import-%d-", series)) {
			leads[lead.ExternalID]++
		}
	}
	if end < len(leads) || len(leads) != n-n/50 || len(failed) != n/50 {
		t.Errorf("the export ends with %d, %d different leads are there and %d rows failed", end, len(leads), len(failed))
	}
	for i := range n {
		wantLeads, wantCode := 1, waypost.ErrorCode("")
		switch i % 100 {
		case 30:
			wantLeads, wantCode = 0, waypost.CodeBadRequest
		case 60:
			wantLeads, wantCode = 0, waypost.CodeConflict
		}
		if got := leads[importID(series, i)]; got != wantLeads || failed[i+1] != wantCode {
			t.Errorf("row %d: %d leads, error %q", i+1, got, failed[i+1])
		}
	}
}

// linesOf reads an answer of one JSON object a line.
func linesOf(t *testing.T, f *harness.Fleet, target string) [][]byte {
	t.Helper()
	res, err := f.AnyGateway().Send(t.Context(), http.MethodGet, target, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		t.Fatalf("HTTP %d, %v: %.200s", res.StatusCode, err, b)
	}
	return slices.Collect(bytes.Lines(b))
}

func unmarshal(t *testing.T, b []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatalf("%q: %v", b, err)
	}
}

// Histories of real imports replay, hold nothing of a row, and say how the import
// ended: all rows done, canceled through the API, or canceled by an operator, who
// cancels the workflow.
func TestHistoriesOfImports(t *testing.T) {
	t.Parallel()
	const keys = "test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	rows := harness.Scaled(4_000, 100_000)
	p := harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+keys)
	temporal := dialWith(t, p, keys)
	ring := ringOf(t, keys)
	for name, tc := range map[string]struct {
		act       func(t *testing.T, im imported)
		status    waypost.ImportStatus
		lastEvent enumspb.EventType
	}{
		"import-rows": {func(*testing.T, imported) {}, waypost.ImportSucceeded, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED},
		"import-canceled": {func(t *testing.T, im imported) {
			err := p.Client.Do(t.Context(), http.MethodPost, "/v1/leads/imports/"+im.ID+"/cancel", nil, nil)
			if err != nil && waypost.CodeOf(err) != waypost.CodeConflict { // too late: there is another try
				t.Error(err)
			}
		}, waypost.ImportCanceled, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED},
		"import-operator-canceled": {func(t *testing.T, im imported) {
			if err := temporal.CancelWorkflow(t.Context(), im.ID, ""); err != nil && !errors.As(err, new(*serviceerror.NotFound)) {
				t.Error(err)
			}
			awaitImport(t, p, im.ID, rows)
		}, waypost.ImportCanceled, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED},
	} {
		t.Run(name, func(t *testing.T) {
			_, im := inTheMiddle(t, p, rows, tc.act)
			if im = awaitImport(t, p, im.ID, rows); im.Status != tc.status {
				t.Errorf("the import is %+v", im)
			}
			_ = temporal.GetWorkflow(t.Context(), im.ID, "").Get(t.Context(), nil) // it has ended, however it did
			h := readHistory(t, temporal, ring, im.ID)
			replay(t, h)
			if last := h.Events[len(h.Events)-1].EventType; last != tc.lastEvent {
				t.Errorf("the history ends with %s", last)
			}
			attributes := h.Events[0].GetWorkflowExecutionStartedEventAttributes().SearchAttributes.IndexedFields
			if attributes[workflows.AttrOrg.GetName()] == nil || attributes[workflows.AttrStage.GetName()] == nil {
				t.Errorf("the search attributes are %v", attributes)
			}
			err := proxy.VisitPayloads(t.Context(), h, proxy.VisitPayloadsOptions{
				Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
					for _, payload := range payloads {
						if text := string(payload.Data); strings.Contains(text, importName) || strings.Contains(text, importID(0, 0)[:7]) {
							t.Errorf("the history holds data of a row: %s", text)
						}
					}
					return payloads, nil
				},
			})
			if err != nil {
				t.Fatal(err)
			}
			keepHistory(t, name, h)
		})
	}
}
