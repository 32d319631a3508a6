package gateway

import (
	"context"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost"
)

// Leads stores leads.
type Leads interface {
	CreateLead(ctx context.Context, by waypost.Caller, f waypost.LeadFields, phones []string) (waypost.Lead, error)
	Lead(ctx context.Context, sc waypost.Scope, id int64) (waypost.Lead, error)
	// UpdateLead gives the lead the fields and numbers that change returns, in one
	// transaction and under the lead's lock. change may run more than once; nil numbers
	// leave the lead's as they are; an error ends the update and is returned.
	UpdateLead(ctx context.Context, by waypost.Caller, id int64, change func(waypost.Lead) (waypost.LeadFields, []string, error)) (waypost.Lead, error)
	// EraseLead deletes the lead, with what is stored of it, unless check refuses, in the same
	// transaction.
	EraseLead(ctx context.Context, by waypost.Caller, id int64, check func(waypost.Lead) error) (waypost.Erasure, error)
	ListLeads(ctx context.Context, sc waypost.Scope, q waypost.LeadQuery) ([]waypost.Lead, error)
	// SampleAudience returns up to n leads, evenly spread over an audience, and how many
	// it has.
	SampleAudience(ctx context.Context, sc waypost.Scope, a waypost.Audience, at time.Time, n int) (leads []waypost.Lead, total int, err error)
	// SegmentRules returns segments, and those that they name.
	SegmentRules(ctx context.Context, sc waypost.Scope, ids []string) (map[string]waypost.SegmentRule, error)
	// LeadRecords reads what is recorded of leads, as far as it is needed.
	LeadRecords(ctx context.Context, sc waypost.Scope, leads []int64, needs waypost.RecordNeeds, now time.Time) (map[int64]*waypost.LeadRecord, error)
	// CustomFields lists the custom fields that a sample of the leads has, most frequent
	// first, and tells how many leads that is.
	CustomFields(ctx context.Context, sc waypost.Scope) (fields []waypost.CustomField, sampled int, err error)
	// ExportLeads gives all leads that match to each, from one snapshot. begin, if not
	// nil, gets the columns that they name before: customFields.NAME and consents.CHANNEL.
	ExportLeads(ctx context.Context, sc waypost.Scope, q waypost.LeadQuery, begin func(columns []string) error, each func(waypost.Lead) error) error
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
	preferRepresentation    = "return=representation"
)

func (a *server) createLead(ctx context.Context, r *request) (answer, error) {
	fields, phones, err := a.decodeLead(r)
	if err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Lead, error) {
		lead, err := a.Leads.CreateLead(ctx, r.by(), fields, phones)
		a.wakeFor(lead)
		return lead, err
	}, func(lead waypost.Lead) (answer, error) {
		ans, err := resource(http.StatusCreated, "/v1/leads/"+strconv.FormatInt(lead.LeadsID, 10), answerLead(lead))
		if err == nil && r.minimal() {
			ans.body, ans.headers[headerPreferenceApplied] = map[string]int64{"leadsId": lead.LeadsID}, preferMinimal
		}
		return ans, err
	})
}

// wakeFor wakes the pump for the journeys that a lead has begun, or may begin.
func (a *server) wakeFor(lead waypost.Lead) {
	if lead.Began > 0 {
		a.Waker.Wake()
	}
}

func (a *server) showLead(ctx context.Context, r *request) (answer, error) {
	id, err := leadsIDOf(r)
	if err != nil {
		return answer{}, err
	}
	lead, err := a.Leads.Lead(ctx, r.scope, id)
	return resourceWith(lead, err, answerLead)
}

// leadsIDOf reads the id in the path; NotFound if it is no integer.
func leadsIDOf(r *request) (int64, error) {
	id, err := strconv.ParseInt(r.param("id"), 10, 64)
	if err != nil || strconv.FormatInt(id, 10) != r.param("id") {
		return 0, waypost.Errorf(waypost.CodeNotFound, "leadsId", "there is no lead of this id")
	}
	return id, nil
}

func (a *server) listLeads(ctx context.Context, r *request) (answer, error) {
	q := a.leadQuery(r)
	return answerPage(r, func(page waypost.Page) ([]waypost.Lead, error) {
		q.Page = page
		return a.Leads.ListLeads(ctx, r.scope, q)
	}, q.Sort.Cursor, answerLead)
}

// maxListedLeads bounds how many leads a list can be asked for by their ids.
const maxListedLeads = 100

// leadQuery reads the filters and the order of a list of leads.
func (a *server) leadQuery(r *request) waypost.LeadQuery {
	number := func(name string) *int64 {
		if _, given := r.params[name]; !given {
			return nil
		}
		n := r.integer(name, math.MinInt64, math.MaxInt64, 0)
		return &n
	}
	var test *bool
	if _, given := r.params["test"]; given {
		test = new(r.boolean("test"))
	}
	q := waypost.LeadQuery{Filter: a.leadFilter(&r.queryFaults, "", filterBody{
		LeadsGroup: number("leadsGroup"), Region: number("region"), Gender: number("gender"), Test: test, Birthday: r.text("birthday"), ImportID: r.text("importId"), CustomFields: r.customFields(),
		Name: r.text("name"), MobilePhone: r.text("mobilePhone"), Email: r.text("email"), ExternalID: r.text("externalId"),
		CreatedFrom: r.text("createdFrom"), CreatedTo: r.text("createdTo"),
		UpdatedFrom: r.text("updatedFrom"), UpdatedTo: r.text("updatedTo"),
	})}
	q.Filter.LeadsIDs = r.integers("leadsIds", maxListedLeads)
	q.Sort = defaultSort(q.Filter)
	if sort, given := r.params["sort"]; given {
		if q.Sort = waypost.LeadSort(sort); !slices.Contains(waypost.LeadSorts, q.Sort) {
			r.queryFaults.Add(waypost.DetailOutOfRange, "sort", "must be leadsId, createdAt or updatedAt, with a - before it for descending")
		}
	}
	return q
}

// customFieldsPrefix begins the names of filters by custom fields.
const customFieldsPrefix = "customFields."

// customFields returns the filters by custom fields, by their names.
func (r *request) customFields() map[string]any {
	fields := map[string]any{}
	for param, value := range r.params {
		if name, custom := strings.CutPrefix(param, customFieldsPrefix); custom {
			fields[name] = value
		}
	}
	return fields
}

// defaultSort is the order of a list without sort: by the time that it filters by, else by
// leadsId. In another order, the database would read all leads before that time.
func defaultSort(f waypost.LeadFilter) waypost.LeadSort {
	switch {
	case !f.CreatedFrom.IsZero() || !f.CreatedTo.IsZero():
		return waypost.SortCreatedAt
	case !f.UpdatedFrom.IsZero() || !f.UpdatedTo.IsZero():
		return waypost.SortUpdatedAt
	}
	return waypost.SortLeadsID
}

// Bounds of a count of leads.
const (
	countSample = 20   // leads that are named
	countListed = 1000 // leads of a list that are looked up, to estimate how many exist
)

// countAnswer is how many leads an audience has, and some of them.
type countAnswer struct {
	Count  int     `json:"count"`
	Sample []int64 `json:"sample"`
}

// decodeCount reads which leads are counted: those of an audience, or, if when is not empty, those
// that meet this condition.
func (a *server) decodeCount(r *request) (audience waypost.Audience, when string, err error) {
	var body struct {
		Audience *audienceBody `json:"audience"`
		When     *string       `json:"when"`
	}
	err = decodeLong(r.body, &body, func(p *waypost.Problems, leadsIDs []byte) {
		switch {
		case body.When == nil:
			audience = a.audience(p, body.Audience, leadsIDs)
		case body.Audience != nil:
			p.Add(waypost.DetailInvalidFormat, "when", "must not stand beside %s", audienceTarget)
		case waypost.CheckSegmentWhen(p, *body.When):
			when = *body.When
			compileWhen(p, when)
		}
	})
	return audience, when, err
}

// countLeads tells how many leads a launch to an audience would be for now, or how many meet a
// condition.
func (a *server) countLeads(ctx context.Context, r *request) (answer, error) {
	audience, when, err := a.decodeCount(r)
	if err != nil {
		return answer{}, err
	}
	most := simulationTime
	if audience.Segment != "" || when != "" {
		most = segmentTime
	}
	ans := countAnswer{Sample: []int64{}}
	err = a.simulations.run(ctx, r.app, simulationWait, most, func(ctx context.Context) error {
		if when == "" {
			return a.countAudience(ctx, r.scope, audience, &ans)
		}
		c, err := a.Segments.CountCondition(ctx, r.scope, when, countSample)
		ans.Count, ans.Sample = c.Count, append(ans.Sample, c.Sample...)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	return ok(ans)
}

// countAudience counts the leads of an audience, and names some that are spread over those that
// were looked up.
func (a *server) countAudience(ctx context.Context, sc waypost.Scope, audience waypost.Audience, ans *countAnswer) error {
	n := countSample
	if audience.Listed() {
		n = countListed
	}
	leads, total, err := a.Leads.SampleAudience(ctx, sc, audience, a.Now(), n)
	ans.Count = total
	for i, left := 0, min(countSample, len(leads)); i < left; i++ {
		ans.Sample = append(ans.Sample, leads[i*len(leads)/left].LeadsID)
	}
	return err
}

// fieldsAnswer is the custom fields that leads have.
type fieldsAnswer struct {
	Items   []customFieldAnswer `json:"items"`
	Sampled int                 `json:"sampled"`
}

type customFieldAnswer struct {
	Name  string  `json:"name"`
	Type  string  `json:"type"`
	Share float64 `json:"share"`
}

func (a *server) listCustomFields(ctx context.Context, r *request) (answer, error) {
	fields, sampled, err := a.Leads.CustomFields(ctx, r.scope)
	if err != nil {
		return answer{}, err
	}
	return ok(fieldsAnswer{described(fields, func(f waypost.CustomField) customFieldAnswer { return customFieldAnswer(f) }), sampled})
}

// patchLead merges what is written into the lead (RFC 7396).
func (a *server) patchLead(ctx context.Context, r *request) (answer, error) {
	patch, err := a.decodePatch(r)
	if err != nil {
		return answer{}, err
	}
	return a.updateLead(ctx, r, func(current waypost.Lead) (waypost.LeadFields, []string, error) {
		return patch.Change(current.LeadFields, a.PhoneRegion, a.Now())
	})
}

// replaceLead gives the lead exactly the fields that are written.
func (a *server) replaceLead(ctx context.Context, r *request) (answer, error) {
	fields, phones, err := a.decodeLead(r)
	if err != nil {
		return answer{}, err
	}
	return a.updateLead(ctx, r, func(waypost.Lead) (waypost.LeadFields, []string, error) { return fields, phones, nil })
}

func (a *server) updateLead(ctx context.Context, r *request, change func(waypost.Lead) (waypost.LeadFields, []string, error)) (answer, error) {
	id, err := leadsIDOf(r)
	if err != nil {
		return answer{}, err
	}
	lead, err := a.Leads.UpdateLead(ctx, r.by(), id, func(current waypost.Lead) (waypost.LeadFields, []string, error) {
		if err := r.matchLead(current); err != nil {
			return waypost.LeadFields{}, nil, err
		}
		return change(current)
	})
	a.wakeFor(lead)
	if err != nil {
		return answer{}, err
	}
	ans, err := resource(http.StatusCreated, "", answerLead(lead))
	if err == nil && r.minimal() {
		ans.status, ans.body, ans.headers[headerPreferenceApplied] = http.StatusNoContent, nil, preferMinimal
	}
	return ans, err
}

func (a *server) deleteLead(ctx context.Context, r *request) (answer, error) {
	id, err := leadsIDOf(r)
	if err != nil {
		return answer{}, err
	}
	erasure, err := a.Leads.EraseLead(ctx, r.by(), id, r.matchLead)
	if err != nil || !r.prefersReturn("representation") {
		return noContent(err)
	}
	return answer{
		status: http.StatusOK, body: answerErasure(erasure), headers: map[string]string{headerPreferenceApplied: preferRepresentation},
	}, nil
}

// erasureAnswer says what the deletion of a lead has erased, and what is kept until when.
type erasureAnswer struct {
	LeadsID int64        `json:"leadsId"`
	Erased  erasedAnswer `json:"erased"`
	Kept    []keptAnswer `json:"kept"`
}

type erasedAnswer struct {
	Canceled int `json:"canceled"`
	Messages int `json:"messages"`
	Params   int `json:"params"`
	Events   int `json:"events"`
	Answers  int `json:"answers"`
	Filters  int `json:"filters"`
}

type keptAnswer struct {
	What  string `json:"what"`
	Count *int64 `json:"count"` // nil: nobody counts them
	Until string `json:"until"`
}

// answerErasure leaves out what there is none of.
func answerErasure(e waypost.Erasure) erasureAnswer {
	ans := erasureAnswer{LeadsID: e.LeadsID, Erased: erasedAnswer(e.Erased), Kept: []keptAnswer{}}
	for _, kept := range []struct {
		what  string
		count int64
		until string
	}{
		{"suppressions of its addresses", e.Kept.Suppressions, "they are deleted: who must not be written to must not be forgotten"},
		{"messages of attempts that are under way", e.Kept.Messages, "the attempt has ended, within seconds"},
		{"filters of launches that other leads meet, too", e.Kept.Filters, "WAYPOST_RETENTION_PAYLOADS after the launch has ended"},
		{"imports whose rows are not processed yet, and may name the person", e.Kept.Imports, "their rows are processed, or they are canceled"},
		{"enrollments: ids, times, outcomes and entry keys", e.Kept.Enrollments, "WAYPOST_RETENTION_ENROLLMENTS after they have ended; entry keys for good"},
		{"deliveries: ids, times and outcomes", e.Kept.Deliveries, "WAYPOST_RETENTION_DELIVERIES after they were decided"},
	} {
		if kept.count > 0 {
			ans.Kept = append(ans.Kept, keptAnswer{kept.what, &kept.count, kept.until})
		}
	}
	return ans.alwaysKept()
}

// alwaysKept adds what is kept of every lead.
func (ans erasureAnswer) alwaysKept() erasureAnswer {
	ans.Kept = append(ans.Kept,
		keptAnswer{"entries of the audit log: the leadsId and names of members", nil, "WAYPOST_RETENTION_AUDIT"},
		keptAnswer{"values in conditions of segments and journeys", nil, "the segment is deleted; versions of journeys stay"},
		keptAnswer{"backups of the database", nil, "you overwrite them"})
	return ans
}

// matchLead compares If-Match with a lead.
func (r *request) matchLead(l waypost.Lead) error { return r.checkMatch(answerLead(l)) }

const businessParam = "businessParam"

// decodeLead reads and checks businessParam.
func (a *server) decodeLead(r *request) (fields waypost.LeadFields, phones []string, err error) {
	err = decodeBusinessParam(r, func(f waypost.LeadFields) error {
		phones, err = f.Validate(a.PhoneRegion, a.Now())
		fields = f
		return err
	})
	return fields, phones, err
}

// decodePatch reads a merge patch in businessParam, and checks the members that it has.
func (a *server) decodePatch(r *request) (patch waypost.LeadPatch, err error) {
	err = decodeBusinessParam(r, func(f waypost.LeadFields) error {
		begin, end, _ := memberOf(r.body, businessParam)
		patch, _ = waypost.ReadLeadPatch(r.body[begin:end])
		if !patch.Writes("name") {
			f.Name = "-"
		}
		// Validate takes out what is null; in a patch that is to be cleared.
		_, err := f.Validate(a.PhoneRegion, a.Now())
		return err
	})
	return patch, err
}

// decodeBusinessParam reads the body of a POST, PUT or PATCH of a lead, and has its fields
// checked. Faults of its members are named without the object around them
// (docs/contract.md, "Lead validation").
func decodeBusinessParam(r *request, check func(waypost.LeadFields) error) error {
	var body struct {
		BusinessParam *waypost.LeadFields `json:"businessParam"`
	}
	problems := waypost.DecodeJSON(r.body, &body)
	if body.BusinessParam == nil && !noDocument(problems) && !isNamed(problems, businessParam) {
		problems.Add(waypost.DetailNullValue, businessParam, "is missing")
	}
	if body.BusinessParam == nil {
		return problems.Err(targetOf(problems))
	}
	err := check(*body.BusinessParam)
	if len(problems) == 0 {
		return err
	}
	target := targetOf(problems)
	for i := range problems {
		problems[i].Target = strings.TrimPrefix(problems[i].Target, businessParam+".")
	}
	if waypost.CodeOf(err) == waypost.CodeBadRequest {
		var found waypost.Problems
		found.AddAll(err)
		problems = append(problems, withoutTargets(found, problems)...)
	}
	return problems.Err(target)
}

// targetOf is businessParam if one of the faults lies in it.
func targetOf(problems waypost.Problems) string {
	if slices.ContainsFunc(problems, func(d waypost.Detail) bool { return strings.HasPrefix(d.Target, businessParam) }) {
		return businessParam
	}
	return ""
}
