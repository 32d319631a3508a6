package console

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost"
	"waypost/api"
)

// leadsPage is the data of the list of leads.
type leadsPage struct {
	Filters filterBar
	Items   []waypost.Lead
	More    string
	Exports []link
}

var leadSorts = []waypost.LeadSort{waypost.SortCreatedAtDown, waypost.SortCreatedAt, waypost.SortUpdatedAtDown, waypost.SortUpdatedAt, waypost.SortLeadsIDDown, waypost.SortLeadsID}

func (v *visit) leads() error {
	filters, err := v.leadFilters()
	if err != nil {
		return err
	}
	query := filters.query(v.r)
	if query.Get("sort") == "" && !query.Has("updatedFrom") && !query.Has("updatedTo") {
		query.Set("sort", string(waypost.SortCreatedAtDown))
	}
	found, err := v.gateway.listLeads(v.r.Context(), query)
	if err != nil {
		return err
	}
	p := leadsPage{Filters: filters, Items: found.Items, More: filters.more(found.NextCursor)}
	p.Exports = filters.exports("/leads/export")
	return v.render(page{Name: "leads", Title: v.t("leads.title"), Place: "leads", Data: p})
}

// genders are those of leads, as numbers.
var genders = []string{"0", "1", "2"}

// booleans are the values of what is or is not.
var booleans = []string{"true", "false"}

// mostCustomFilters bounds the filters of custom fields that are offered.
const mostCustomFilters = 6

// leadFilters are the filters of leads; the most frequent custom fields have one each, and
// so have those that the URL names.
func (v *visit) leadFilters() (filterBar, error) {
	filters := []filter{
		{Name: "name", Label: v.t("leads.field.name"), Type: "search"},
		{Name: "mobilePhone", Label: v.t("leads.field.mobilePhone"), Type: "tel"},
		{Name: "email", Label: v.t("leads.field.email"), Type: "text"},
		{Name: "externalId", Label: v.t("leads.field.externalId")},
		{Name: "leadsGroup", Label: v.t("leads.field.leadsGroup"), Type: "number", Further: true},
		{Name: "region", Label: v.t("leads.field.region"), Type: "number", Further: true},
		{Name: "gender", Label: v.t("leads.field.gender"), Type: "select", Options: options(v, "leads.gender.", genders), Further: true},
		{Name: "test", Label: v.t("leads.field.test"), Type: "select", Options: options(v, "leads.is.", booleans), Further: true},
		{Name: "birthday", Label: v.t("leads.birthdayFilter"), Further: true},
		{Name: "importId", Label: v.t("leads.importFilter"), Further: true},
		{Name: "createdFrom", Label: v.t("leads.createdFrom"), Type: "datetime-local", Zone: v.chosen.Zone, Further: true},
		{Name: "createdTo", Label: v.t("leads.createdTo"), Type: "datetime-local", Zone: v.chosen.Zone, Further: true},
		{Name: "updatedFrom", Label: v.t("leads.updatedFrom"), Type: "datetime-local", Zone: v.chosen.Zone, Further: true},
		{Name: "updatedTo", Label: v.t("leads.updatedTo"), Type: "datetime-local", Zone: v.chosen.Zone, Further: true},
		{Name: "sort", Label: v.t("leads.order"), Type: "select", Options: options(v, "leads.sort.", leadSorts), Further: true},
	}
	names, err := v.gateway.leadFieldNames(v.r.Context())
	if err != nil {
		return filterBar{}, err
	}
	names = names[:min(len(names), mostCustomFilters)]
	for name := range v.r.URL.Query() {
		if custom, is := strings.CutPrefix(name, "customFields."); is && !slices.Contains(names, custom) {
			names = append(names, custom)
		}
	}
	for _, name := range names {
		filters = append(filters, filter{Name: "customFields." + name, Label: name, Further: true})
	}
	return newFilterBar(v.r, filters...), nil
}

func (v *visit) exportLeads() error {
	filters, err := v.leadFilters()
	if err != nil {
		return err
	}
	return v.download(waypost.GrantLeadsExport, "/v1/leads/export", filters.wire(), "leads")
}

// mostLeads is how many leads are asked for at once by their ids.
const mostLeads = 100

// leadNames are what leads are called, by their ids: a name, or the number of one that is gone.
type leadNames map[int64]string

// leadNames reads the names of leads; an id of 0 is that of none.
func (v *visit) leadNames(ids []int64) (leadNames, error) {
	ids = slices.Compact(slices.Sorted(slices.Values(ids)))
	ids = slices.DeleteFunc(ids, func(id int64) bool { return id == 0 })
	parts := slices.Collect(slices.Chunk(ids, mostLeads))
	found := make([]api.List[waypost.Lead], len(parts))
	var calls []func() error
	for i, part := range parts {
		texts := make([]string, len(part))
		for j, id := range part {
			texts[j] = strconv.FormatInt(id, 10)
		}
		calls = append(calls, func() (err error) {
			found[i], err = v.gateway.listLeads(v.r.Context(), url.Values{"leadsIds": {strings.Join(texts, ",")}, "limit": {strconv.Itoa(mostLeads)}})
			return err
		})
	}
	if err := together(calls...); err != nil {
		return nil, err
	}
	ns := leadNames{}
	for _, id := range ids {
		ns[id] = v.t("leads.number", "id", strconv.FormatInt(id, 10))
	}
	for _, page := range found {
		for _, l := range page.Items {
			ns[l.LeadsID] = l.Name
		}
	}
	return ns, nil
}

// leadName is what a lead is called.
func (v *visit) leadName(id int64) (string, error) {
	ns, err := v.leadNames([]int64{id})
	return ns[id], err
}

// leadPage is the data of the page of one lead.
type leadPage struct {
	waypost.Lead
	Facts       []fact
	Enrollments []enrollmentAnswer
	Journeys    names
	Steps       stepNames
	MoreJourney bool
	Suppressed  []suppression // of its addresses
	Story       []chapter
	Cut         bool // what is older is left out of the story
}

// fact is a field of a lead. Short is the beginning of a long value, which is folded.
type fact struct{ Name, Value, Short string }

// longFact is from where on a value is folded, in bytes.
const longFact = 240

func newFact(name, value string) fact {
	f := fact{Name: name, Value: value}
	if len(value) > longFact {
		f.Short = waypost.Clip(value, longFact/3)
	}
	return f
}

// chapter is one thing that happened to a lead.
type chapter struct {
	At                                   time.Time
	Came                                 time.Time // of an event that came at another time than it occurred
	Icon, Tone, What, Path, Detail, Node string
}

// mostChapters bounds each kind of what happened to a lead.
const mostChapters = 100

func (v *visit) leadID() (int64, error) {
	id, err := strconv.ParseInt(v.r.PathValue("id"), 10, 64)
	if err != nil {
		return 0, waypost.Errorf(waypost.CodeNotFound, "id", "there is no such lead")
	}
	return id, nil
}

// lead shows a lead with the newest mostChapters of each: enrollments, messages and events.
func (v *visit) lead() error {
	id, err := v.leadID()
	if err != nil {
		return err
	}
	if v.r.URL.Query().Has("edit") {
		return v.editLead(id)
	}
	ctx := v.r.Context()
	l, _, err := v.gateway.lead(ctx, id)
	if err != nil {
		return err
	}
	p := leadPage{Lead: l, Facts: v.leadFacts(l)}
	of := url.Values{"leadsId": {strconv.FormatInt(id, 10)}, "limit": {strconv.Itoa(mostChapters)}}
	var sent api.List[delivery]
	var events api.List[event]
	err = together(func() (err error) {
		p.Journeys, err = v.gateway.journeyNames(ctx)
		return err
	}, func() error {
		enrolled, err := v.gateway.enrollmentsOf(ctx, of)
		p.Enrollments, p.MoreJourney = enrolled.Items, enrolled.NextCursor != ""
		return err
	}, func() (err error) {
		sent, err = v.gateway.listDeliveries(ctx, of)
		return err
	}, func() (err error) {
		events, err = v.gateway.listEvents(ctx, of)
		return err
	}, func() error {
		suppressed, err := v.gateway.listSuppressions(ctx, of)
		p.Suppressed = suppressed.Items
		return err
	})
	if err != nil {
		return err
	}
	var versions []inVersion
	for _, e := range p.Enrollments {
		versions = append(versions, inVersion{e.JourneyID, e.Version})
	}
	for _, d := range sent.Items {
		versions = append(versions, d.in())
	}
	if p.Steps, err = v.stepNames(versions); err != nil {
		return err
	}
	p.Story, p.Cut = v.story(p, sent, events)
	return v.render(page{
		Name: "lead", Title: l.Name, Place: "leads", Live: 8, Back: &link{Path: "/leads", Text: v.t("leads.title")}, Data: p,
	})
}

// story merges what happened to a lead, newest first. Where one kind has more than was read,
// the story ends with it: what is older would have gaps.
func (v *visit) story(p leadPage, sent api.List[delivery], events api.List[event]) (story []chapter, cut bool) {
	var floor time.Time
	ends := func(more api.Cursor, last time.Time) {
		if more != "" && last.After(floor) {
			floor, cut = last, true
		}
	}
	add := func(c chapter) {
		if !c.At.IsZero() {
			story = append(story, c)
		}
	}
	add(chapter{At: p.CreatedAt, Icon: "leads", What: v.t("leads.story.created")})
	for _, e := range p.Enrollments {
		name, path := p.Journeys.Of(e.JourneyID), "/enrollments/"+e.ID
		add(chapter{At: e.CreatedAt, Icon: "journeys", Tone: "info", What: v.t("leads.story.entered"), Detail: name, Path: path})
		add(chapter{At: e.EndedAt, Icon: "journeys", Tone: tone(e.Status), What: v.t("leads.story.left", "how", v.t("enrollment.status."+string(e.Status))), Detail: name, Path: path})
	}
	if n := len(p.Enrollments); n > 0 && p.MoreJourney {
		ends("more", p.Enrollments[n-1].CreatedAt)
	}
	for _, d := range sent.Items {
		what := v.t("status." + string(d.Status))
		if d.ErrorClass != "" && d.Status != waypost.DeliverySucceeded {
			what += " · " + v.t("errorClass."+d.ErrorClass)
		}
		add(chapter{At: d.At(), Icon: "deliveries", Tone: tone(d.Status), What: what, Detail: p.Journeys.Of(d.JourneyID), Node: p.Steps.Of(d.JourneyID, d.JourneyVersion, d.NodeID), Path: "/deliveries/" + d.MessageID})
	}
	if n := len(sent.Items); n > 0 {
		ends(sent.NextCursor, sent.Items[n-1].At())
	}
	for _, e := range events.Items {
		c := chapter{At: e.OccurredAt, Icon: "event", What: v.t("leads.story.event", "name", e.Name), Detail: clipped(string(e.Properties))}
		if !e.AcceptedAt.Equal(e.OccurredAt) {
			c.Came = e.AcceptedAt
		}
		add(c)
	}
	if n := len(events.Items); n > 0 {
		ends(events.NextCursor, events.Items[n-1].OccurredAt)
	}
	slices.SortStableFunc(story, func(a, b chapter) int { return b.At.Compare(a.At) })
	return slices.DeleteFunc(story, func(c chapter) bool { return c.At.Before(floor) }), cut
}

// clipped is JSON in a line, "" for an empty object.
func clipped(text string) string {
	if text == "{}" || text == "null" {
		return ""
	}
	return waypost.Clip(text, 200)
}

// leadFields are the fields of a lead in the order of its pages, and how they are written.
var leadFields = []struct{ name, kind string }{
	{"name", "text"}, {"mobilePhone", "lines"}, {"email", "email"}, {"gender", "gender"}, {"birthday", "text"}, {"externalId", "text"}, {"openId", "text"},
	{"region", "number"}, {"leadsGroup", "number"}, {"wechat", "text"}, {"qq", "text"}, {"telephone", "tel"}, {"company", "text"},
	{"companyPhone", "tel"}, {"companyEmail", "email"}, {"companyWebsite", "text"}, {"address", "area"}, {"remark", "area"},
}

// leadValues are a lead's fields as texts.
func leadValues(l waypost.Lead) (url.Values, error) {
	text, err := json.Marshal(l.LeadFields)
	if err != nil {
		return nil, err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return nil, err
	}
	values := url.Values{}
	for _, f := range leadFields {
		raw := members[f.name]
		var s string
		switch {
		case string(raw) == "null":
		case f.kind == "lines":
			values.Set(f.name, strings.Join(l.MobilePhone, "\n"))
		case json.Unmarshal(raw, &s) == nil:
			values.Set(f.name, s)
		default:
			values.Set(f.name, string(raw))
		}
	}
	return values, nil
}

// leadFacts are the fields that are set.
func (v *visit) leadFacts(l waypost.Lead) (facts []fact) {
	values, err := leadValues(l)
	if err != nil {
		return nil
	}
	for _, f := range leadFields {
		value := values.Get(f.name)
		if f.kind == "gender" && value != "" {
			value = v.t("leads.gender." + value)
		}
		if f.name != "name" && value != "" {
			facts = append(facts, newFact(v.t("leads.field."+f.name), value))
		}
	}
	custom := newPairs("", l.CustomFields)
	for _, row := range custom.Rows {
		if row.Kind == "boolean" {
			row.Value = v.t("leads.is." + row.Value)
		}
		facts = append(facts, newFact(row.Name, row.Value))
	}
	for _, channel := range slices.Sorted(maps.Keys(l.Consents)) {
		facts = append(facts, newFact(v.t("leads.consentTo", "channel", channel), v.t(fmt.Sprint("leads.agrees.", l.Agrees(channel)))))
	}
	return facts
}

// leadForm is the data of the page on which a lead is written.
type leadForm struct {
	ID     string // "" of a new one
	ETag   string
	Fields []field
	Custom pairs
	// Consents have one field for each channel of a webhook or a consent of the lead.
	Consents []field
	Test     bool
	General  string
}

// consentPrefix begins the names of fields of consents.
const consentPrefix = "consents."

// leadInputs are the fields of a lead, without its consents.
func (v *visit) leadInputs(form url.Values, custom pairs, faults map[string]string) leadForm {
	p := leadForm{Custom: custom.mark(faults).withSpare(), Test: form.Has("test")}
	p.Custom.Label, p.Custom.Hint = v.t("leads.field.customFields"), v.t("leads.customHint")
	p.Custom.Kinds = options(v, "pairs.", []string{"text", "number", "boolean"})
	for _, f := range leadFields {
		in := field{Name: f.name, Label: v.t("leads.field." + f.name), Value: form.Get(f.name), Type: f.kind, Fault: faultOf(faults, f.name), Required: f.name == "name", Complete: "off"}
		switch f.kind {
		case "lines":
			in.Type, in.Hint = "area", v.t("leads.phoneHint")
		case "gender":
			in.Type, in.Options = "select", v.orNotSet(options(v, "leads.gender.", genders))
		}
		if f.name == "birthday" {
			in.Hint = v.t("leads.birthdayHint")
		}
		p.Fields = append(p.Fields, in)
	}
	return p
}

// newLeadForm is the whole form: it has a consent for each channel of a webhook.
func (v *visit) newLeadForm(form url.Values, custom pairs, faults map[string]string) (leadForm, error) {
	p := v.leadInputs(form, custom, faults)
	channels, err := v.gateway.channels(v.r.Context())
	if err != nil {
		return p, err
	}
	for name := range form {
		if channel, is := strings.CutPrefix(name, consentPrefix); is {
			channels = append(channels, channel)
		}
	}
	agrees := v.orNotSet(options(v, "leads.agrees.", booleans))
	for _, channel := range distinct(channels) {
		name := consentPrefix + channel
		p.Consents = append(p.Consents, field{Name: name, Label: channel, Type: "select", Value: form.Get(name), Fault: faults[name], Options: agrees})
	}
	return p, nil
}

// orNotSet are options, and before them that nothing is set.
func (v *visit) orNotSet(others []option) []option {
	return append([]option{{"", v.t("leads.notSet")}}, others...)
}

func (v *visit) renderLeadForm(p leadForm, title string, back *link) error {
	return v.render(page{Name: "lead_form", Title: title, Place: "leads", Back: back, Status: v.formStatus(), Scripts: []string{"pairs.js"}, Data: p})
}

func (v *visit) newLead() error {
	p, err := v.newLeadForm(nil, newPairs("customFields", nil), nil)
	if err != nil {
		return err
	}
	return v.renderLeadForm(p, v.t("leads.new"), &link{Path: "/leads", Text: v.t("leads.title")})
}

func (v *visit) editLead(id int64) error {
	l, etag, err := v.gateway.lead(v.r.Context(), id)
	if err != nil {
		return err
	}
	values, err := leadValues(l)
	if err != nil {
		return err
	}
	for channel, agreed := range l.Consents {
		values.Set(consentPrefix+channel, fmt.Sprint(agreed))
	}
	if l.Test {
		values.Set("test", "yes")
	}
	p, err := v.newLeadForm(values, newPairs("customFields", l.CustomFields), nil)
	if err != nil {
		return err
	}
	p.ID, p.ETag = strconv.FormatInt(id, 10), etag
	return v.renderLeadForm(p, v.t("leads.edit"), &link{Path: "/leads/" + p.ID, Text: l.Name})
}

// leadBody is the lead that a form describes: every field, null where it is empty.
func leadBody(form url.Values, before map[string]any) (body map[string]any, custom pairs) {
	body = map[string]any{}
	for _, f := range leadFields {
		value := strings.ReplaceAll(form.Get(f.name), "\r\n", "\n")
		if f.kind != "area" {
			value = strings.TrimSpace(value)
		}
		switch n, err := strconv.ParseInt(value, 10, 64); {
		case value == "":
			body[f.name] = nil
		case f.kind == "lines":
			body[f.name] = strings.FieldsFunc(value, func(r rune) bool { return strings.ContainsRune("\n;,；，、", r) })
		case (f.kind == "number" || f.kind == "gender") && err == nil:
			body[f.name] = n
		default:
			body[f.name] = value
		}
	}
	custom = pairsOf("customFields", form)
	body["customFields"] = merging(custom.object(), before)
	consents := map[string]any{}
	for name := range form {
		if channel, is := strings.CutPrefix(name, consentPrefix); is {
			consents[channel] = nil
			if value := form.Get(name); value != "" {
				consents[channel] = value == "true"
			}
		}
	}
	body["consents"], body["test"] = consents, form.Has("test")
	return body, custom
}

func (v *visit) createLead() error {
	body, custom := leadBody(v.r.PostForm, nil)
	made, err := v.gateway.createLead(v.r.Context(), withoutNull(body))
	if err == nil {
		v.flash("ok", v.t("leads.created"))
		return v.redirect("/leads/"+strconv.FormatInt(made.LeadsID, 10), nil)
	}
	return v.leadFault(err, "", "", custom, v.t("leads.new"), &link{Path: "/leads", Text: v.t("leads.title")})
}

func (v *visit) saveLead() error {
	id, err := v.leadID()
	if err != nil {
		return err
	}
	ctx, form := v.r.Context(), v.r.PostForm
	l, _, err := v.gateway.lead(ctx, id)
	if err != nil {
		return err
	}
	body, custom := leadBody(form, l.CustomFields)
	err = v.gateway.when(form.Get("etag")).patchLead(ctx, id, body)
	path := "/leads/" + strconv.FormatInt(id, 10)
	if err == nil {
		v.flash("ok", v.t("leads.saved"))
		return v.redirect(path, nil)
	}
	return v.leadFault(err, strconv.FormatInt(id, 10), form.Get("etag"), custom, v.t("leads.edit"), &link{Path: path, Text: l.Name})
}

// leadFault shows the form again, with what is wrong.
func (v *visit) leadFault(err error, id, etag string, custom pairs, title string, back *link) error {
	faults, general, err := v.formFaults(err)
	if err != nil {
		return err
	}
	p, err := v.newLeadForm(v.r.PostForm, custom, faults)
	if err != nil {
		return err
	}
	p.ID, p.ETag, p.General = id, etag, general
	return v.renderLeadForm(p, title, back)
}

func (v *visit) deleteLead() error {
	id, err := v.leadID()
	if err != nil {
		return err
	}
	ctx := v.r.Context()
	_, etag, err := v.gateway.lead(ctx, id)
	if err == nil {
		err = v.gateway.when(etag).deleteLead(ctx, id)
	}
	if err != nil {
		return err
	}
	v.flash("ok", v.t("leads.deleted"))
	return v.redirect("/leads", nil)
}
