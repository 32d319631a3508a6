package console

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"waypost"
	"waypost/api"
)

// event is an event of a lead.
type event struct {
	Name       string          `json:"name"`
	Properties json.RawMessage `json:"properties"`
	OccurredAt time.Time       `json:"occurredAt"`
	AcceptedAt time.Time       `json:"acceptedAt"`
}

// leadImport is an import with its progress.
type leadImport struct {
	ID          string               `json:"id"`
	Status      waypost.ImportStatus `json:"status"`
	Mode        waypost.ImportMode   `json:"mode"`
	Match       waypost.ImportMatch  `json:"match"`
	DryRun      bool                 `json:"dryRun"`
	Total       int                  `json:"total"`
	Processed   int                  `json:"processed"`
	Created     int                  `json:"created"`
	Updated     int                  `json:"updated"`
	Failed      int                  `json:"failed"`
	Message     string               `json:"message"`
	CreatedAt   time.Time            `json:"createdAt"`
	EndedAt     time.Time            `json:"endedAt"`
	TemporalURL string               `json:"temporalUrl"`
}

// importError is a row that failed.
type importError struct {
	Line    int               `json:"line"`
	Code    waypost.ErrorCode `json:"code"`
	Message string            `json:"message"`
	Detail  []waypost.Detail  `json:"detail"`
}

func leadPath(id int64) string { return "/v1/leads/" + strconv.FormatInt(id, 10) }

func (g gateway) listLeads(ctx context.Context, query url.Values) (api.List[waypost.Lead], error) {
	return get[api.List[waypost.Lead]](ctx, g, waypost.GrantLeadsExport, "/v1/leads", query)
}

func (g gateway) lead(ctx context.Context, id int64) (l waypost.Lead, etag string, err error) {
	return tagged[waypost.Lead](ctx, g, waypost.GrantLeadsExport, leadPath(id))
}

func (g gateway) createLead(ctx context.Context, fields any) (made waypost.Lead, err error) {
	return made, g.do(ctx, waypost.GrantLeadsImport, http.MethodPost, "/v1/leads", map[string]any{"businessParam": fields}, &made)
}

func (g gateway) patchLead(ctx context.Context, id int64, patch any) error {
	return g.do(ctx, waypost.GrantLeadsUpdate, http.MethodPatch, leadPath(id), map[string]any{"businessParam": patch}, nil)
}

func (g gateway) deleteLead(ctx context.Context, id int64) error {
	return g.do(ctx, waypost.GrantLeadsUpdate, http.MethodDelete, leadPath(id), nil, nil)
}

// customField is a custom field that leads have: its type is string, number, boolean or mixed.
type customField struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

const fieldsPath = "/v1/leads/fields"

// customFields are the custom fields that leads have, the most frequent first.
func (g gateway) customFields(ctx context.Context) ([]customField, error) {
	answer, err := get[api.List[customField]](ctx, g, waypost.GrantLeadsExport, fieldsPath, nil)
	return answer.Items, err
}

// namesIn reads a list whose items have names and no ids, such as events.
func (g gateway) namesIn(ctx context.Context, grant waypost.Grant, path string) ([]string, error) {
	answer, err := get[api.List[named]](ctx, g, grant, path, nil)
	names := []string{}
	for _, n := range answer.Items {
		names = append(names, n.Name)
	}
	return names, err
}

// leadFieldNames are the names of the custom fields.
func (g gateway) leadFieldNames(ctx context.Context) ([]string, error) {
	return g.namesIn(ctx, waypost.GrantLeadsExport, fieldsPath)
}

// eventNames are the names of the events that have come in, in the gateway's order.
func (g gateway) eventNames(ctx context.Context) ([]string, error) {
	return g.namesIn(ctx, waypost.GrantJourneysRead, "/v1/events/names")
}

// eventProperties are the names of the properties that the newest events had, sorted, by the
// names of the events.
func (g gateway) eventProperties(ctx context.Context) (map[string][]string, error) {
	newest, err := g.listEvents(ctx, url.Values{"limit": {"100"}})
	all := map[string][]string{}
	for _, e := range newest.Items {
		var properties map[string]json.RawMessage
		if json.Unmarshal(e.Properties, &properties) != nil {
			continue // none
		}
		names := append(all[e.Name], slices.Collect(maps.Keys(properties))...)
		slices.Sort(names)
		all[e.Name] = slices.Compact(names)
	}
	return all, err
}

func (g gateway) listEvents(ctx context.Context, query url.Values) (api.List[event], error) {
	return get[api.List[event]](ctx, g, waypost.GrantJourneysRead, "/v1/events", query)
}

// importLeads stores the rows of a file, to be processed.
func (g gateway) importLeads(ctx context.Context, query url.Values, kind string, file []byte) (made leadImport, err error) {
	res, err := g.stream(ctx, waypost.GrantLeadsImport, http.MethodPost, "/v1/leads/imports?"+query.Encode(), http.Header{"Content-Type": {kind}}, file)
	if err != nil {
		return made, err
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&made); err != nil {
		return made, away{err}
	}
	return made, nil
}

func importPath(id string) string { return "/v1/leads/imports/" + url.PathEscape(id) }

func (g gateway) leadImport(ctx context.Context, id string) (leadImport, error) {
	return get[leadImport](ctx, g, waypost.GrantLeadsImport, importPath(id), nil)
}

func (g gateway) cancelImport(ctx context.Context, id string) error {
	return g.do(ctx, waypost.GrantLeadsImport, http.MethodPost, importPath(id)+"/cancel", nil, nil)
}

// importErrors gives the rows that failed to each, by line.
func (g gateway) importErrors(ctx context.Context, id string, each func(importError) error) error {
	res, err := g.stream(ctx, waypost.GrantLeadsImport, http.MethodGet, importPath(id)+"/errors", nil, nil)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	texts, known := faultsIn[g.language]
	return lines(res.Body, func(e importError) error {
		if known {
			said := texts.whole(waypost.Error{Code: e.Code, Message: e.Message, Details: e.Detail}, http.MethodPost, "/v1/leads")
			e.Message, e.Detail = said.Message, said.Details
		}
		return each(e)
	})
}
