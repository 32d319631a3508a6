package gateway

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"waypost"
)

// audienceBody says whom a launch enrolls.
type audienceBody struct {
	Filter *filterBody `json:"filter"`
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
	CreatedFrom *string `json:"createdFrom"`
	CreatedTo   *string `json:"createdTo"`
	UpdatedFrom *string `json:"updatedFrom"`
	UpdatedTo   *string `json:"updatedTo"`
}

// Paths of an audience's members.
const (
	audienceTarget = "audience"
	filterTarget   = "audience.filter"
	leadsIDsTarget = "audience.leadsIds"
)

// decodeLong reads a body with an audience into v, but for the list of leadsIds, whose
// text it returns. Without an error, the body is a document, with these problems.
func decodeLong(r *request, v any) (list []byte, problems waypost.Problems, err error) {
	rest, list, err := cutLeadsIDs(r.body)
	if err != nil {
		return nil, nil, err
	}
	if len(rest) > maxBody {
		return nil, nil, waypost.Errorf(waypost.CodePayloadTooLarge, "", "the body is larger than %d bytes beside its list of leadsIds", maxBody)
	}
	problems = waypost.DecodeJSON(rest, v)
	if noDocument(problems) {
		return nil, nil, problems.Err("")
	}
	return list, problems, nil
}

// audience checks an audience; list is the text of its leadsIds.
func (a *api) audience(p *waypost.Problems, body *audienceBody, list []byte) waypost.Audience {
	var out waypost.Audience
	if body == nil {
		p.Add(waypost.DetailNullValue, audienceTarget, "is missing")
		return out
	}
	switch {
	case body.Filter != nil && body.LeadsIDs != nil:
		p.Add(waypost.DetailInvalidFormat, audienceTarget, "must have filter or leadsIds, not both")
	case body.Filter == nil && body.LeadsIDs == nil:
		p.Add(waypost.DetailNullValue, audienceTarget, "must have filter or leadsIds")
	}
	if body.Filter != nil {
		filter := a.leadFilter(p, filterTarget+".", *body.Filter)
		out.Filter = &filter
	}
	if body.LeadsIDs != nil {
		out.LeadsIDs = parseLeadsIDs(p, list)
	}
	return out
}

// leadFilter checks the filters of a list of leads; path stands before the names of
// those that are faulty.
func (a *api) leadFilter(p *waypost.Problems, path string, body filterBody) waypost.LeadFilter {
	filter := waypost.LeadFilter{LeadsGroup: body.LeadsGroup, Region: body.Region}
	// The texts must be ones that a lead can have: a lead is made of them and checked,
	// and they become what is stored of such a lead.
	sample := waypost.LeadFields{Name: "-", Email: body.Email, ExternalID: body.ExternalID}
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
			hint := ""
			switch {
			case path != "": // it stands in a body
			case name == "mobilePhone":
				hint = plusHint(*body.MobilePhone)
			case name == "email":
				hint = plusHint(*body.Email)
			}
			p.Add(d.Code, path+name, "%s%s", d.Message, hint)
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
	for _, m := range []struct {
		name string
		raw  *string
		into *time.Time
	}{
		{"createdFrom", body.CreatedFrom, &filter.CreatedFrom}, {"createdTo", body.CreatedTo, &filter.CreatedTo},
		{"updatedFrom", body.UpdatedFrom, &filter.UpdatedFrom}, {"updatedTo", body.UpdatedTo, &filter.UpdatedTo},
	} {
		if m.raw != nil {
			hint := ""
			if path == "" {
				hint = plusHint(*m.raw)
			}
			*m.into = moment(p, path+m.name, *m.raw, hint)
		}
	}
	inOrder(p, path, "createdFrom", "createdTo", filter.CreatedFrom, filter.CreatedTo)
	inOrder(p, path, "updatedFrom", "updatedTo", filter.UpdatedFrom, filter.UpdatedTo)
	return filter
}

// cutLeadsIDs takes the text of audience.leadsIds out of a launch's body and leaves
// an empty list in its place: DecodeJSON makes a tree of a document, and that of a
// million numbers takes hundreds of megabytes. What is no list, and a second list,
// stay where they are, for DecodeJSON to refuse.
func cutLeadsIDs(body []byte) (rest, list []byte, err error) {
	if !utf8.Valid(body) {
		return nil, nil, waypost.DecodeJSON(body, &launchBody{}).Err("")
	}
	var broken *json.SyntaxError
	if err := json.Unmarshal(body, &struct{}{}); errors.As(err, &broken) {
		return nil, nil, waypost.Problems{{Code: waypost.DetailInvalidFormat, Message: "the body is not valid JSON: " + broken.Error()}}.Err("")
	}
	begin, end, found, err := memberOf(body, "audience")
	if err != nil || !found {
		return body, nil, err
	}
	from, to, found, err := memberOf(body[begin:end], "leadsIds")
	if err != nil || !found || body[begin+from] != '[' {
		return body, nil, err
	}
	from, to = begin+from, begin+to
	rest = slices.Concat(body[:from], []byte("[]"), body[to:])
	return rest, body[from:to], nil
}

// memberOf finds the first member of this name in valid JSON; what is no object has
// none.
func memberOf(object []byte, name string) (begin, end int, found bool, err error) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if token, err := dec.Token(); err != nil || token != json.Delim('{') {
		return 0, 0, false, nil
	}
	for dec.More() {
		key, err := dec.Token()
		if err != nil {
			return 0, 0, false, fmt.Errorf("read the body's members: %w", err)
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return 0, 0, false, fmt.Errorf("read the body's member: %w", err)
		}
		if key == name {
			end := int(dec.InputOffset())
			return end - len(value), end, true, nil
		}
	}
	return 0, 0, false, nil
}

// parseLeadsIDs reads a valid JSON list of leadsIds, and returns each once. Without
// a list it notes nothing: DecodeJSON has said what stands in its place.
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

// maxListFaults is how many faulty ids of a list are looked for.
const maxListFaults = 100
