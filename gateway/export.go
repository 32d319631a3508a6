package gateway

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

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

// exportLeads streams all leads that match.
func (a *server) exportLeads(ctx context.Context, r *request) (answer, error) {
	q, scope := a.leadQuery(r), r.scope
	export := func(ctx context.Context, begin func([]string) error, each func(waypost.Lead) error) error {
		return a.Leads.ExportLeads(ctx, scope, q, begin, each)
	}
	return exported(ctx, a, r, "lead", "leads", exportNDJSON(export, answerLead), func(bom bool) streamFunc {
		return exportCSV(export, bom, (*csvWriter).header, (*csvWriter).lead)
	})
}

// exported answers with an export of things of a kind, in the form that the query asks for.
// Both forms end with their count, so that a cut-off is seen.
func exported(ctx context.Context, a *server, r *request, kind, things string, ndjson streamFunc, csv func(bom bool) streamFunc) (answer, error) {
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
	if err := a.exportBegins(ctx, r, kind, things, format); err != nil {
		return answer{}, err
	}
	ans := streamed(contentTypeNDJSON, a.sharing(r.app, ndjson))
	if format == "csv" {
		ans = streamed(contentTypeCSV, a.sharing(r.app, csv(bom)))
		ans.trailer = headerCount
	}
	ans.headers["Content-Disposition"] = `attachment; filename="` + things + "." + format + `"`
	return ans, nil
}

// maxExports is how many exports of a process are read at a time: each has a connection to the
// database until it ends, and others need some too.
const maxExports = 6

// exportWait is how long an export waits for another to end.
const exportWait = 3 * time.Second

// sharing begins a stream once the application has a share of the exports.
func (a *server) sharing(app waypost.Application, stream streamFunc) streamFunc {
	return func(ctx context.Context, w *bufio.Writer, setTrailer func(string)) error {
		if got, err := a.exports.wait(ctx, app, exportWait); err != nil {
			return err
		} else if !got {
			return waypost.Errorf(waypost.CodeServiceUnavailable, "", "other exports of your organisation are running already; try again when they have ended")
		}
		defer a.exports.release(app)
		return stream(ctx, w, setTrailer)
	}
}

func streamed(contentType string, stream streamFunc) answer {
	return answer{status: http.StatusOK, headers: map[string]string{fiber.HeaderContentType: contentType}, stream: stream}
}

// exporter gives all that an export has to each. begin, if not nil, gets the columns that
// leads name before.
type exporter[T any] func(ctx context.Context, begin func(columns []string) error, each func(T) error) error

func exportNDJSON[T, A any](export exporter[T], describe func(T) A) streamFunc {
	return func(ctx context.Context, w *bufio.Writer, _ func(string)) error {
		enc := json.NewEncoder(w)
		enc.SetEscapeHTML(false)
		end := exportEnd{End: true}
		err := export(ctx, nil, func(thing T) error {
			end.Count++
			return enc.Encode(describe(thing))
		})
		if err != nil {
			return err
		}
		return enc.Encode(end)
	}
}

// exportCSV writes rows, with bom behind a byte order mark: without one Excel takes a
// file for one in the encoding of its country.
func exportCSV[T any](export exporter[T], bom bool, header func(*csvWriter, []string) error, row func(*csvWriter, T) error) streamFunc {
	return func(ctx context.Context, w *bufio.Writer, setTrailer func(string)) error {
		out, count := csvWriter{w: w}, 0
		begin := func(columns []string) error {
			if bom {
				if _, err := w.WriteString(byteOrderMark); err != nil {
					return err
				}
			}
			return header(&out, columns)
		}
		err := export(ctx, begin, func(thing T) error {
			count++
			return row(&out, thing)
		})
		if err != nil {
			return err
		}
		setTrailer(strconv.Itoa(count))
		return nil
	}
}
