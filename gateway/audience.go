package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"waypost"
)

// audienceBody selects the leads of a launch or a forecast.
type audienceBody struct {
	Filter  *filterBody `json:"filter"`
	Segment *string     `json:"segment"`
	// LeadsIDs is an empty list if there is one: cutLeadsIDs has taken out what it
	// holds.
	LeadsIDs *[]int64 `json:"leadsIds"`
}

// filterBody has the filters of the lead list (docs/contract.md, "Lead lists") as members.
type filterBody struct {
	LeadsGroup  *int64  `json:"leadsGroup"`
	Region      *int64  `json:"region"`
	Name        *string `json:"name"`
	MobilePhone *string `json:"mobilePhone"`
	Email       *string `json:"email"`
	ExternalID  *string `json:"externalId"`
	Gender      *int64  `json:"gender"`
	Test        *bool   `json:"test"`
	Birthday    *string `json:"birthday"`
	ImportID    *string `json:"importId"`
	CreatedFrom *string `json:"createdFrom"`
	CreatedTo   *string `json:"createdTo"`
	UpdatedFrom *string `json:"updatedFrom"`
	UpdatedTo   *string `json:"updatedTo"`
	// CustomFields are those of customFields.NAME, Object those of an object as a lead has it.
	CustomFields map[string]any `json:"customFields."`
	Object       map[string]any `json:"customFields"`
}

// Paths of an audience's members.
const (
	audienceTarget = "audience"
	filterTarget   = "audience.filter"
	segmentTarget  = "audience.segment"
	leadsIDsTarget = "audience.leadsIds"
)

// decodeLong reads a body with an audience into v, and reports what that and check find.
// check gets the text of leadsIds, which v does not have.
func decodeLong(body []byte, v any, check func(p *waypost.Problems, leadsIDs []byte)) error {
	rest, leadsIDs, problems := cutLeadsIDs(body)
	if len(rest) > maxBody {
		return waypost.Errorf(waypost.CodePayloadTooLarge, "", "the body is larger than %d bytes beside its list of leadsIds", maxBody)
	}
	if problems == nil {
		problems = waypost.DecodeJSON(rest, v)
	}
	return checked(problems, func(p *waypost.Problems) { check(p, leadsIDs) })
}

// audience checks an audience; list is the text of its leadsIds.
func (a *server) audience(p *waypost.Problems, body *audienceBody, list []byte) waypost.Audience {
	var out waypost.Audience
	if body == nil {
		p.Add(waypost.DetailNullValue, audienceTarget, "is missing")
		return out
	}
	given := 0
	for _, there := range []bool{body.Filter != nil, body.Segment != nil, body.LeadsIDs != nil} {
		if there {
			given++
		}
	}
	switch {
	case given > 1:
		p.Add(waypost.DetailInvalidFormat, audienceTarget, "must have one of filter, segment and leadsIds, not several")
	case given == 0:
		p.Add(waypost.DetailNullValue, audienceTarget, "must have filter, segment or leadsIds")
	}
	if body.Filter != nil {
		filter := a.leadFilter(p, filterTarget+".", *body.Filter)
		out.Filter = &filter
	}
	if body.Segment != nil {
		if out.Segment = *body.Segment; !waypost.IsID(waypost.PrefixSegment, out.Segment) {
			p.Add(waypost.DetailInvalidFormat, segmentTarget, "must be the id of a segment")
		}
	}
	if body.LeadsIDs != nil {
		out.LeadsIDs = parseLeadsIDs(p, list)
	}
	return out
}

// leadFilter checks the filters of a list of leads; path precedes the names of faulty
// ones, and is "" for those of a query.
func (a *server) leadFilter(p *waypost.Problems, path string, body filterBody) waypost.LeadFilter {
	filter := waypost.LeadFilter{LeadsGroup: body.LeadsGroup, Region: body.Region, Gender: body.Gender, Test: body.Test}
	hint := func(raw *string) string {
		if path != "" || raw == nil {
			return ""
		}
		return plusHint(*raw)
	}
	// The texts must be ones that a lead can have: a lead is made of them and checked,
	// and they become what is stored of such a lead.
	sample := waypost.LeadFields{Name: "-", Email: body.Email, ExternalID: body.ExternalID, Gender: body.Gender, CustomFields: body.customFields(p, path)}
	if body.Name != nil {
		sample.Name = *body.Name
	}
	if body.MobilePhone != nil {
		sample.MobilePhone = []string{*body.MobilePhone}
	}
	phones, err := sample.Validate(a.PhoneRegion, a.Now())
	var invalid *waypost.Error
	if errors.As(err, &invalid) {
		for _, d := range invalid.Details {
			name := strings.TrimSuffix(d.Target, "[0]")
			hints := map[string]string{"mobilePhone": hint(body.MobilePhone), "email": hint(body.Email)}
			p.Add(d.Code, path+name, "%s%s", d.Message, hints[name])
		}
	}
	if path == "" && err == nil {
		checkLostPlus(p, "mobilePhone", body.MobilePhone)
		checkLostPlus(p, "email", body.Email)
	}
	if len(phones) > 0 {
		filter.MobilePhone = phones[0]
	}
	if body.Name != nil {
		filter.Name = sample.Name
		if strings.HasSuffix(*body.Name, " ") { // "Ada " is not the beginning of Adam
			filter.Name += " "
		}
	}
	if body.Email != nil {
		filter.Email = *sample.Email
	}
	if body.ExternalID != nil {
		filter.ExternalID = *sample.ExternalID
	}
	if body.Birthday != nil {
		filter.Birthday = waypost.BirthdayFilter(p, path+"birthday", *body.Birthday)
	}
	if body.ImportID != nil {
		if filter.ImportID = *body.ImportID; !waypost.IsID(waypost.PrefixImport, filter.ImportID) {
			p.Add(waypost.DetailInvalidFormat, path+"importId", "must be the id of an import")
		}
	}
	filter.CustomFields = spelled(sample.CustomFields)
	filter.CreatedFrom = moment(p, path+"createdFrom", body.CreatedFrom, hint(body.CreatedFrom))
	filter.CreatedTo = moment(p, path+"createdTo", body.CreatedTo, hint(body.CreatedTo))
	filter.UpdatedFrom = moment(p, path+"updatedFrom", body.UpdatedFrom, hint(body.UpdatedFrom))
	filter.UpdatedTo = moment(p, path+"updatedTo", body.UpdatedTo, hint(body.UpdatedTo))
	inOrder(p, path, "createdFrom", "createdTo", filter.CreatedFrom, filter.CreatedTo)
	inOrder(p, path, "updatedFrom", "updatedTo", filter.UpdatedFrom, filter.UpdatedTo)
	return filter
}

// customFields joins both ways to write filters by custom fields.
func (b filterBody) customFields(p *waypost.Problems, path string) map[string]any {
	all := maps.Clone(b.Object)
	for name, value := range b.CustomFields {
		if _, twice := all[name]; twice {
			p.Add(waypost.DetailDuplicate, path+customFieldsPrefix+name, "stands in customFields, too")
		}
		if all == nil {
			all = map[string]any{}
		}
		all[name] = value
	}
	return all
}

// spelled writes the values of custom fields, which are checked, as texts.
func spelled(fields map[string]any) map[string]string {
	if len(fields) == 0 {
		return nil
	}
	texts := make(map[string]string, len(fields))
	for name, value := range fields {
		text, isText := value.(string)
		if !isText {
			text = fmt.Sprint(value)
			if number, isNumber := value.(float64); isNumber {
				text = strconv.FormatFloat(number, 'f', -1, 64)
			}
		}
		texts[name] = text
	}
	return texts
}

// cutLeadsIDs takes the text of audience.leadsIds out of a body and leaves an empty list
// in its place: DecodeJSON makes a tree of a document, and that of a million numbers
// takes hundreds of megabytes. A value that is no list, and a second list, stay in the body,
// for DecodeJSON to refuse.
func cutLeadsIDs(body []byte) (rest, list []byte, problems waypost.Problems) {
	if problems := notJSON(body); problems != nil {
		return nil, nil, problems
	}
	begin, end, found := memberOf(body, "audience")
	if !found {
		return body, nil, nil
	}
	from, to, found := memberOf(body[begin:end], "leadsIds")
	if !found || body[begin+from] != '[' {
		return body, nil, nil
	}
	from, to = begin+from, begin+to
	return slices.Concat(body[:from], []byte("[]"), body[to:]), body[from:to], nil
}

// notJSON is what DecodeJSON reports of a text that is not JSON, nil of any other. It makes
// no tree of it.
func notJSON(text []byte) waypost.Problems {
	if !utf8.Valid(text) {
		return waypost.DecodeJSON(text, &struct{}{})
	}
	var broken *json.SyntaxError
	if err := json.Unmarshal(text, &struct{}{}); errors.As(err, &broken) {
		return waypost.Problems{{Code: waypost.DetailInvalidFormat, Message: "the body is not valid JSON: " + broken.Error()}}
	}
	return nil
}

// memberOf finds the first member of this name in valid JSON; what is no object has
// none.
func memberOf(object []byte, name string) (begin, end int, found bool) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if token, _ := dec.Token(); token != json.Delim('{') {
		return 0, 0, false
	}
	for dec.More() {
		key, _ := dec.Token()
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return 0, 0, false // it is not valid
		}
		if key == name {
			end := int(dec.InputOffset())
			return end - len(value), end, true
		}
	}
	return 0, 0, false
}

// maxListFaults bounds the faulty ids of a list that are reported.
const maxListFaults = 100

// parseLeadsIDs reads a valid JSON list of leadsIds, and returns each once. Without a list
// it notes nothing: DecodeJSON has refused what is in its place.
func parseLeadsIDs(p *waypost.Problems, list []byte) []int64 {
	if list == nil {
		return nil
	}
	ids := make([]int64, 0, min(bytes.Count(list, []byte(","))+1, waypost.MaxAudience))
	n, faults := 0, 0
	for rest := list[1:]; ; n++ {
		rest = bytes.TrimLeft(rest, " \t\r\n,")
		if rest[0] == ']' {
			break
		}
		if n == waypost.MaxAudience {
			p.Add(waypost.DetailTooLong, leadsIDsTarget, "must be at most %d", waypost.MaxAudience)
			return nil
		}
		word := rest[:bytes.IndexAny(rest, " \t\r\n,]")]
		id, err := strconv.ParseInt(string(word), 10, 64)
		if err == nil && id >= 1 {
			ids, rest = append(ids, id), rest[len(word):]
			continue
		}
		at := fmt.Sprintf("%s[%d]", leadsIDsTarget, n)
		switch {
		case err == nil || errors.Is(err, strconv.ErrRange):
			p.Add(waypost.DetailOutOfRange, at, "must be 1 or more, and no larger than a leadsId can be")
		case string(word) == "null":
			p.Add(waypost.DetailNullValue, at, "must not be null")
		default:
			p.Add(waypost.DetailInvalidType, at, "must be an integer")
		}
		if faults++; faults == maxListFaults {
			return nil
		}
		dec := json.NewDecoder(bytes.NewReader(rest))
		if err := dec.Decode(new(json.RawMessage)); err != nil {
			return nil // the list is valid: this cannot be
		}
		rest = rest[dec.InputOffset():]
	}
	if n == 0 {
		p.Add(waypost.DetailNullValue, leadsIDsTarget, "is empty")
	}
	slices.Sort(ids)
	return slices.Compact(ids)
}
