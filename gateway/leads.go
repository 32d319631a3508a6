package gateway

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"waypost"
)

// Leads stores leads.
type Leads interface {
	CreateLead(ctx context.Context, sc waypost.Scope, f waypost.LeadFields, phones []string) (waypost.Lead, error)
	Lead(ctx context.Context, sc waypost.Scope, id int64) (waypost.Lead, error)
}

// leadBody is the lead document's creation body.
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

func (a *api) createLead(ctx context.Context, r *request) (answer, error) {
	fields, phones, err := a.decodeLead(r)
	if err != nil {
		return answer{}, err
	}
	lead, err := a.Leads.CreateLead(ctx, r.scope, fields, phones)
	if err != nil {
		return answer{}, err
	}
	return at(http.StatusCreated, "/v1/leads/"+strconv.FormatInt(lead.LeadsID, 10), answerLead(lead))
}

const businessParam = "businessParam"

// decodeLead reads and checks businessParam. Faults of its members are named as
// the lead document names them, without the object around them.
func (a *api) decodeLead(r *request) (waypost.LeadFields, []string, error) {
	var body leadBody
	problems := waypost.DecodeJSON(r.body, &body)
	if body.BusinessParam == nil && !noDocument(problems) && !isNamed(problems, businessParam) {
		problems.Add(waypost.DetailNullValue, businessParam, "is missing")
	}
	if body.BusinessParam == nil {
		return waypost.LeadFields{}, nil, problems.Err(targetOf(problems))
	}
	phones, err := body.BusinessParam.Validate(a.PhoneRegion, a.Now())
	var invalid *waypost.Error
	if err != nil && !errors.As(err, &invalid) {
		return waypost.LeadFields{}, nil, err
	}
	if len(problems) == 0 {
		return *body.BusinessParam, phones, err
	}
	target := targetOf(problems)
	for i := range problems {
		problems[i].Target = strings.TrimPrefix(problems[i].Target, businessParam+".")
	}
	if invalid != nil && invalid.Code == waypost.CodeBadRequest {
		problems = append(problems, withoutTargets(invalid.Details, problems)...)
	}
	return waypost.LeadFields{}, nil, problems.Err(target)
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

func (a *api) showLead(ctx context.Context, r *request) (answer, error) {
	id, err := strconv.ParseInt(r.param("id"), 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != r.param("id") {
		return answer{}, waypost.Errorf(waypost.CodeNotFound, "leadsId", "there is no lead of this id")
	}
	lead, err := a.Leads.Lead(ctx, r.scope, id)
	if err != nil {
		return answer{}, err
	}
	return ok(answerLead(lead))
}
