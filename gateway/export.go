package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strconv"

	"github.com/gofiber/fiber/v2"

	"waypost"
)

// headerCount follows an export as CSV, which has no room for its count.
const headerCount = "X-Waypost-Count"

// exportEnd is the last line of an export as NDJSON.
type exportEnd struct {
	End   bool `json:"end"`
	Count int  `json:"count"`
}

// exportLeads streams all leads that match. Both forms end with their count, so that
// a cut-off is seen.
func (a *api) exportLeads(_ context.Context, r *request) (answer, error) {
	q := a.leadQuery(r)
	format, given := r.params["format"]
	if !given {
		format = "ndjson"
	}
	if format != "ndjson" && format != "csv" {
		r.queryFaults.Add(waypost.DetailOutOfRange, "format", "must be ndjson or csv")
	}
	bom := r.boolean("bom")
	if bom && format != "csv" {
		r.queryFaults.Add(waypost.DetailOutOfRange, "bom", "needs format=csv")
	}
	if err := r.queryFaults.Err("query"); err != nil {
		return answer{}, err
	}
	scope := r.scope
	export := func(ctx context.Context, begin func([]string) error, each func(waypost.Lead) error) error {
		return a.Leads.ExportLeads(ctx, scope, q, begin, each)
	}
	ans := streamed(contentTypeNDJSON, exportNDJSON(export))
	if format == "csv" {
		ans = streamed(contentTypeCSV, exportCSV(export, bom))
		ans.trailer = headerCount
	}
	ans.headers["Content-Disposition"] = `attachment; filename="leads.` + format + `"`
	return ans, nil
}

func streamed(contentType string, stream streamFunc) answer {
	return answer{status: http.StatusOK, headers: map[string]string{fiber.HeaderContentType: contentType}, stream: stream}
}

// exporter is Leads.ExportLeads with its query.
type exporter func(ctx context.Context, begin func(customFields []string) error, each func(waypost.Lead) error) error

func exportNDJSON(export exporter) streamFunc {
	return func(ctx context.Context, w *bufio.Writer, _ func(string)) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		end := exportEnd{End: true}
		err := export(ctx, nil, func(l waypost.Lead) error {
			end.Count++
			return enc.Encode(answerLead(l))
		})
		if err != nil {
			return err
		}
		return enc.Encode(end)
	}
}

// exportCSV writes rows, with bom behind a byte order mark: without one Excel takes a
// file for one in the encoding of its country.
func exportCSV(export exporter, bom bool) streamFunc {
	return func(ctx context.Context, w *bufio.Writer, setTrailer func(string)) error {
		out, count := csvWriter{w: w}, 0
		begin := func(customFields []string) error {
			if bom {
				if _, err := w.WriteString(byteOrderMark); err != nil {
					return err
				}
			}
			return out.header(customFields)
		}
		err := export(ctx, begin, func(l waypost.Lead) error {
			count++
			return out.lead(l)
		})
		if err != nil {
			return err
		}
		setTrailer(strconv.Itoa(count))
		return nil
	}
}
