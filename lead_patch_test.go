package waypost_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"waypost"
)

func TestLeadPatch(t *testing.T) {
	t.Parallel()
	text := func(s string) *string { return &s }
	number := func(n int64) *int64 { return &n }
	before := waypost.LeadFields{
		Name: "Ada", LeadsGroup: number(7), Email: text("a@example.com"), MobilePhone: []string{"+1"}, ExternalID: text("x"),
		CustomFields: map[string]any{"a": "1", "b": 2.0, "c": true},
	}
	for _, c := range []struct {
		patch   string
		written string
		want    func(f *waypost.LeadFields)
	}{
		{`{}`, "", func(*waypost.LeadFields) {}},
		{`{"name":"Bea","leadsGroup":0,"email":""}`, "email leadsGroup name", func(f *waypost.LeadFields) {
			f.Name, f.LeadsGroup, f.Email = "Bea", number(0), text("")
		}},
		{`{"leadsGroup":null,"email":null,"externalId":null,"mobilePhone":null}`, "email externalId leadsGroup mobilePhone", func(f *waypost.LeadFields) {
			f.LeadsGroup, f.Email, f.ExternalID, f.MobilePhone = nil, nil, nil, nil
		}},
		{`{"name":null}`, "name", func(f *waypost.LeadFields) { f.Name = "" }}, // which Validate refuses
		{`{"mobilePhone":["+2","+3"]}`, "mobilePhone", func(f *waypost.LeadFields) { f.MobilePhone = []string{"+2", "+3"} }},
		{`{"mobilePhone":[]}`, "mobilePhone", func(f *waypost.LeadFields) { f.MobilePhone = []string{} }},
		{`{"customFields":{"a":"9","b":null,"d":"new","none":null}}`, "customFields", func(f *waypost.LeadFields) {
			f.CustomFields = map[string]any{"a": "9", "c": true, "d": "new"}
		}},
		{`{"customFields":{}}`, "customFields", func(*waypost.LeadFields) {}},
		{`{"customFields":null}`, "customFields", func(f *waypost.LeadFields) { f.CustomFields = nil }},
	} {
		for _, read := range []func([]byte) (waypost.LeadPatch, waypost.Problems){
			waypost.ReadLeadPatch,
			func(data []byte) (waypost.LeadPatch, waypost.Problems) {
				row, problems := waypost.ReadLeadRow(data)
				return row.LeadPatch, problems
			},
		} {
			p, problems := read([]byte(c.patch))
			if len(problems) > 0 {
				t.Fatalf("%s: %v", c.patch, problems)
			}
			for _, name := range []string{"name", "leadsGroup", "email", "externalId", "mobilePhone", "customFields", "address"} {
				if got, want := p.Writes(name), slices.Contains(strings.Fields(c.written), name); got != want {
					t.Errorf("%s: writes %s: %t", c.patch, name, got)
				}
			}
			want := before
			c.want(&want)
			for range 2 { // applying changes neither the patch nor what it is applied to
				if got := p.Apply(before); !reflect.DeepEqual(got, want) {
					t.Errorf("%s:\n got %+v\nwant %+v", c.patch, got, want)
				}
			}
			if len(before.CustomFields) != 3 {
				t.Fatalf("%s changed the lead before", c.patch)
			}
		}
	}
	p, _ := waypost.ReadLeadPatch([]byte(`{"customFields":{"a":null,"b":1}}`))
	if got := p.Apply(waypost.LeadFields{}).CustomFields; !reflect.DeepEqual(got, map[string]any{"b": 1.0}) {
		t.Errorf("custom fields of a lead without any: %v", got)
	}
}

func TestReadLeadRow(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		row     string
		leadsID string
		want    []string
	}{
		{`{"leadsId":42,"name":"A","createdAt":"2026-01-31T12:00:00.000Z","updatedAt":null}`, "42", nil},
		{`{"name":"A","createdAt":{"any":[12345678901234567890]},"updatedAt":1e999}`, "", nil},
		{`{"leadsId":null,"name":"A"}`, "", nil},
		{`{"leadsId":"42"}`, "", []string{"InvalidType leadsId"}},
		{`{"leadsId":1.5,"name":4915112345678}`, "", []string{"InvalidType leadsId", "InvalidType name"}},
		{`{"leadsID":1,"businessParam":{}}`, "", []string{"UnknownField leadsID", "UnknownField businessParam"}},
		{`{"leadsId":1,"leadsId":2}`, "", []string{"Duplicate leadsId"}},
		{`[]`, "", []string{"InvalidType "}},
		{`{"name"`, "", []string{"InvalidFormat "}},
	} {
		row, problems := waypost.ReadLeadRow([]byte(c.row))
		var got []string
		for _, p := range problems {
			got = append(got, fmt.Sprintf("%s %s", p.Code, p.Target))
			if strings.ContainsAny(p.Message, "0123456789") {
				t.Errorf("%s: %q tells a value", c.row, p.Message)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, want %q", c.row, got, c.want)
		}
		id := ""
		if row.LeadsID != nil && len(problems) == 0 {
			id = fmt.Sprint(*row.LeadsID)
		}
		if id != c.leadsID {
			t.Errorf("%s: leadsId %q, want %q", c.row, id, c.leadsID)
		}
	}
	// A patch is no row.
	if _, problems := waypost.ReadLeadPatch([]byte(`{"leadsId":1}`)); len(problems) != 1 || problems[0].Code != waypost.DetailUnknownField {
		t.Errorf("a patch with leadsId: %v", problems)
	}
}
