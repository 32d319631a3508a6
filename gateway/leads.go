package gateway

import (
	"context"
	"errors"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"waypost"
)

// Leads stores leads.
type Leads interface {
	CreateLead(ctx context.Context, sc waypost.Scope, f waypost.LeadFields, phones []string) (waypost.Lead, error)
	Lead(ctx context.Context, sc waypost.Scope, id int64) (waypost.Lead, error)
	// UpdateLead gives the lead the fields that change makes of it, in one transaction
	// and under the lead's lock. change may run more than once; nil for its numbers
	// leaves them as they are; its error ends the update and is returned.
	UpdateLead(ctx context.Context, sc waypost.Scope, id int64, change func(waypost.Lead) (waypost.LeadFields, []string, error)) (waypost.Lead, error)
	// DeleteLead deletes the lead unless check refuses, in the same transaction.
	DeleteLead(ctx context.Context, sc waypost.Scope, id int64, check func(waypost.Lead) error) error
	ListLeads(ctx context.Context, sc waypost.Scope, q waypost.LeadQuery) ([]waypost.Lead, error)
	// SampleAudience returns up to n leads, evenly spread over an audience, and how many
	// it has.
	SampleAudience(ctx context.Context, sc waypost.Scope, a waypost.Audience, n int) (leads []waypost.Lead, total int, err error)
	// ExportLeads gives all leads that match to each, from one snapshot. begin, if not
	// nil, is told the names of their custom fields before.
	ExportLeads(ctx context.Context, sc waypost.Scope, q waypost.LeadQuery, begin func(customFields []string) error, each func(waypost.Lead) error) error
}

// leadBody is the body of a POST, PUT or PATCH of a lead (docs/contract.md, "Lead calls").
type leadBody struct {
	BusinessParam *waypost.LeadFields `json:"businessParam"`
}

// leadAnswer is a lead: flat, every field, null where it is not set.
type leadAnswer struct {
	LeadsID int64 `json:"leadsId"`
	waypost.LeadFields
	CreatedAt string `json:"createdAt"`
	UpdatedAt string `json:"updatedAt"`
}

func answerLead(l waypost.Lead) leadAnswer {
	if l.MobilePhone == nil {
		l.MobilePhone = []string{}
	}
	return leadAnswer{l.LeadsID, l.LeadFields, stamp(l.CreatedAt), stamp(l.UpdatedAt)}
}

const (
	headerPreferenceApplied = "Preference-Applied"
	preferMinimal           = "return=minimal"
)

// minimalLead is what a client gets of a new lead that does without the rest.
type minimalLead struct {
	LeadsID int64 `json:"leadsId"`
}

func (a *api) createLead(ctx context.Context, r *request) (answer, error) {
	fields, phones, err := a.decodeLead(r)
	if err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Lead, error) {
		return a.Leads.CreateLead(ctx, r.scope, fields, phones)
	}, func(lead waypost.Lead) (answer, error) {
		ans, err := resource(http.StatusCreated, "/v1/leads/"+strconv.FormatInt(lead.LeadsID, 10), answerLead(lead))
		if err == nil && r.minimal() {
			ans.body, ans.headers[headerPreferenceApplied] = minimalLead{lead.LeadsID}, preferMinimal
		}
		return ans, err
	})
}

func (a *api) showLead(ctx context.Context, r *request) (answer, error) {
	id, err := leadsIDOf(r)
	if err != nil {
		return answer{}, err
	}
	lead, err := a.Leads.Lead(ctx, r.scope, id)
	if err != nil {
		return answer{}, err
	}
	return resource(http.StatusOK, "", answerLead(lead))
}

// leadsIDOf reads the id in the path. What is no integer names no lead.
func leadsIDOf(r *request) (int64, error) {
	id, err := strconv.ParseInt(r.param("id"), 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != r.param("id") {
		return 0, waypost.Errorf(waypost.CodeNotFound, "leadsId", "there is no lead of this id")
	}
	return id, nil
}

func (a *api) listLeads(ctx context.Context, r *request) (answer, error) {
	var p waypost.Problems
	page := r.page(&p)
	q := a.leadQuery(&p, r)
	if err := p.Err("query"); err != nil {
		return answer{}, err
	}
	q.Page = oneMore(page)
	rows, err := a.Leads.ListLeads(ctx, r.scope, q)
	if err != nil {
		return answer{}, err
	}
	return ok(listOf(r, page.Limit, rows, q.Sort.Cursor, answerLead))
}

// leadQuery reads the filters and the order of a list of leads.
func (a *api) leadQuery(p *waypost.Problems, r *request) waypost.LeadQuery {
	text := func(name string) *string {
		if value, given := r.params[name]; given {
			return &value
		}
		return nil
	}
	number := func(name string) *int64 {
		if _, given := r.params[name]; !given {
			return nil
		}
		n := r.integer(p, name, math.MinInt64, math.MaxInt64, 0)
		return &n
	}
	q := waypost.LeadQuery{Filter: a.leadFilter(p, "", filterBody{
		LeadsGroup: number("leadsGroup"), Region: number("region"),
		Name: text("name"), MobilePhone: text("mobilePhone"), Email: text("email"), ExternalID: text("externalId"),
		CreatedFrom: text("createdFrom"), CreatedTo: text("createdTo"), UpdatedFrom: text("updatedFrom"), UpdatedTo: text("updatedTo"),
	})}
	q.Sort = defaultSort(q.Filter)
	if sort := text("sort"); sort != nil {
		if q.Sort = waypost.LeadSort(*sort); !slices.Contains(waypost.LeadSorts, q.Sort) {
			p.Add(waypost.DetailOutOfRange, "sort", "must be leadsId, createdAt or updatedAt, with a - before it for descending")
		}
	}
	return q
}

// defaultSort is the order of a list that does not say one: that of the time which it
// looks for, else of leadsId. In another order than that of the time, all leads
// before it would have to be passed over.
func defaultSort(f waypost.LeadFilter) waypost.LeadSort {
	switch {
	case !f.CreatedFrom.IsZero() || !f.CreatedTo.IsZero():
		return waypost.SortCreatedAt
	case !f.UpdatedFrom.IsZero() || !f.UpdatedTo.IsZero():
		return waypost.SortUpdatedAt
	}
	return waypost.SortLeadsID
}

// patchLead merges what is written into the lead (RFC 7396).
func (a *api) patchLead(ctx context.Context, r *request) (answer, error) {
	patch, err := a.decodePatch(r)
	if err != nil {
		return answer{}, err
	}
	return a.updateLead(ctx, r, func(current waypost.Lead) (waypost.LeadFields, []string, error) {
		merged := patch.Apply(current.LeadFields)
		checked := merged
		if !patch.Writes("mobilePhone") {
			checked.MobilePhone = nil // what is stored stays, whatever such numbers mean today
		}
		phones, err := checked.Validate(a.PhoneRegion, a.Now())
		if merged.CustomFields = checked.CustomFields; !patch.Writes("mobilePhone") {
			phones = nil
		}
		return merged, phones, err
	})
}

// replaceLead gives the lead exactly the fields that are written.
func (a *api) replaceLead(ctx context.Context, r *request) (answer, error) {
	fields, phones, err := a.decodeLead(r)
	if err != nil {
		return answer{}, err
	}
	return a.updateLead(ctx, r, func(waypost.Lead) (waypost.LeadFields, []string, error) { return fields, phones, nil })
}

func (a *api) updateLead(ctx context.Context, r *request, change func(waypost.Lead) (waypost.LeadFields, []string, error)) (answer, error) {
	id, err := leadsIDOf(r)
	if err != nil {
		return answer{}, err
	}
	lead, err := a.Leads.UpdateLead(ctx, r.scope, id, func(current waypost.Lead) (waypost.LeadFields, []string, error) {
		if err := r.checkMatch(answerLead(current)); err != nil {
			return waypost.LeadFields{}, nil, err
		}
		return change(current)
	})
	if err != nil {
		return answer{}, err
	}
	ans, err := resource(http.StatusCreated, "", answerLead(lead))
	if err == nil && r.minimal() {
		ans.status, ans.body, ans.headers[headerPreferenceApplied] = http.StatusNoContent, nil, preferMinimal
	}
	return ans, err
}

func (a *api) deleteLead(ctx context.Context, r *request) (answer, error) {
	id, err := leadsIDOf(r)
	if err != nil {
		return answer{}, err
	}
	err = a.Leads.DeleteLead(ctx, r.scope, id, func(current waypost.Lead) error { return r.checkMatch(answerLead(current)) })
	if err != nil {
		return answer{}, err
	}
	return noContent()
}

const businessParam = "businessParam"

// decodeLead reads and checks businessParam.
func (a *api) decodeLead(r *request) (fields waypost.LeadFields, phones []string, err error) {
	err = decodeBusinessParam(r, func(f waypost.LeadFields) error {
		phones, err = f.Validate(a.PhoneRegion, a.Now())
		fields = f
		return err
	})
	return fields, phones, err
}

// decodePatch reads and checks a businessParam of which only what is written counts.
func (a *api) decodePatch(r *request) (patch waypost.LeadPatch, err error) {
	err = decodeBusinessParam(r, func(f waypost.LeadFields) error {
		begin, end, _, err := memberOf(r.body, businessParam)
		if err != nil {
			return err
		}
		patch, _ = waypost.ReadLeadPatch(r.body[begin:end])
		if !patch.Writes("name") {
			f.Name = "-"
		}
		// Validate takes out what is null; in a patch that is to be cleared.
		_, err = f.Validate(a.PhoneRegion, a.Now())
		return err
	})
	return patch, err
}

// decodeBusinessParam reads businessParam and has its fields checked. Faults of its
// members are named without the object around them (docs/contract.md, "Lead validation").
func decodeBusinessParam(r *request, check func(waypost.LeadFields) error) error {
	var body leadBody
	problems := waypost.DecodeJSON(r.body, &body)
	if body.BusinessParam == nil && !noDocument(problems) && !isNamed(problems, businessParam) {
		problems.Add(waypost.DetailNullValue, businessParam, "is missing")
	}
	if body.BusinessParam == nil {
		return problems.Err(targetOf(problems))
	}
	err := check(*body.BusinessParam)
	var invalid *waypost.Error
	if len(problems) == 0 || err != nil && !errors.As(err, &invalid) {
		return err
	}
	target := targetOf(problems)
	for i := range problems {
		problems[i].Target = strings.TrimPrefix(problems[i].Target, businessParam+".")
	}
	if invalid != nil && invalid.Code == waypost.CodeBadRequest {
		problems = append(problems, withoutTargets(invalid.Details, problems)...)
	}
	return problems.Err(target)
}

// targetOf is businessParam if one of the faults lies in it.
func targetOf(problems waypost.Problems) string {
	for _, d := range problems {
		if strings.HasPrefix(d.Target, businessParam) {
			return businessParam
		}
	}
	return ""
}

// withoutTargets drops the details about fields that others name already: a name
// of the wrong type is not also missing.
func withoutTargets(details []waypost.Detail, others []waypost.Detail) []waypost.Detail {
	named := map[string]bool{}
	for _, d := range others {
		named[d.Target] = true
	}
	var out []waypost.Detail
	for _, d := range details {
		if !named[d.Target] {
			out = append(out, d)
		}
	}
	return out
}
