package storetest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

var leadTests = []test{
	{"filters by custom fields", testCustomFieldFilters},
	{"filters by birthday and gender", testBirthdayFilters},
	{"filters by ids", testIDFilters},
	{"custom fields that there are", testCustomFields},
	{"round trip", func(t *testing.T, f *fixture) {
		fields := waypost.LeadFields{
			LeadsGroup: ptr(int64(7)), Region: ptr(int64(-1)), Address: ptr("1 'Main' St\\"), Remark: ptr("line\nline ? ?0 \u2028 😀"),
			Name: "王小明", MobilePhone: []string{"138 0013 8000", "+1 415 555 2671"}, Gender: ptr(int64(0)), Birthday: ptr("1990-02-28"),
			Email: ptr("a@example.com"), Wechat: ptr("w"), QQ: ptr("123"), Telephone: ptr("010"), Company: ptr("C"), CompanyPhone: ptr("1"),
			CompanyEmail: ptr("c@example.com"), CompanyWebsite: ptr("https://example.com"), ExternalID: ptr("x-1"), OpenID: ptr("o-1"),
			CustomFields: map[string]any{"a": "b'", "n": 1.5, "yes": true, "none": nil, "\u2028 <": "\\u0000 ? ?0"},
		}
		lead := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, fields, []string{"+8613800138000", "+14155552671"}))
		want := waypost.Lead{LeadsID: lead.LeadsID, LeadFields: fields, CreatedAt: f.clock.Now(), UpdatedAt: f.clock.Now()}
		equal(t, "created", lead, want)
		equal(t, "read", must[waypost.Lead](t)(f.Lead(t.Context(), scope, lead.LeadsID)), want)
		bare := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "B"}, nil))
		want = waypost.Lead{LeadsID: bare.LeadsID, LeadFields: waypost.LeadFields{Name: "B", MobilePhone: []string{}}, CreatedAt: f.clock.Now(), UpdatedAt: f.clock.Now()}
		equal(t, "bare", must[waypost.Lead](t)(f.Lead(t.Context(), scope, bare.LeadsID)), want)
		if bare.LeadsID <= lead.LeadsID {
			t.Fatalf("leadsId went from %d to %d", lead.LeadsID, bare.LeadsID)
		}
	}},
	{"scopes", func(t *testing.T, f *fixture) {
		fields := waypost.LeadFields{Name: "A", ExternalID: ptr("x")}
		id := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, fields, []string{"+4912345"})).LeadsID
		for _, sc := range foreign {
			_, err := f.Lead(t.Context(), sc, id)
			wantCode(t, err, waypost.CodeNotFound)
			equal(t, "LeadsByID", len(must[map[int64]waypost.Lead](t)(f.LeadsByID(t.Context(), sc, []int64{id}))), 0)
			// What is taken in one scope is free in the others; the sequence is one.
			other := must[waypost.Lead](t)(f.CreateLead(t.Context(), sc, fields, []string{"+4912345"}))
			if other.LeadsID <= id {
				t.Fatalf("leadsId %d after %d", other.LeadsID, id)
			}
		}
	}},
	{"nul", func(t *testing.T, f *fixture) {
		_, err := f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A\x00", Email: ptr("\x00")}, nil)
		wantCode(t, err, waypost.CodeBadRequest)
		for _, fields := range []map[string]any{{"a": "\x00"}, {"\x00": 1.0}} { // which PostgreSQL's index cannot read
			_, err := f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A", CustomFields: fields}, nil)
			wantCode(t, err, waypost.CodeBadRequest)
		}
	}},
	{"duplicates", func(t *testing.T, f *fixture) {
		phones := []string{"+491", "+492"}
		id := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A", ExternalID: ptr("x")}, phones)).LeadsID
		for _, c := range []struct {
			external *string
			phones   []string
			target   string
			details  []string
		}{
			{ptr("x"), nil, "externalId", []string{"externalId"}},
			{nil, []string{"+493", "+492"}, "mobilePhone", []string{"mobilePhone[1]"}},
			{ptr("y"), []string{"+492", "+491"}, "mobilePhone", []string{"mobilePhone[0]", "mobilePhone[1]"}},
			{ptr("x"), []string{"+491"}, "externalId", []string{"externalId", "mobilePhone[0]"}},
		} {
			_, err := f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "B", ExternalID: c.external}, c.phones)
			var e *waypost.Error
			if !errors.As(err, &e) || e.Code != waypost.CodeConflict || e.Target != c.target || len(e.Details) != len(c.details) {
				t.Fatalf("got %+v, want a Conflict of %s with details %v", err, c.target, c.details)
			}
			for i, d := range e.Details {
				if d.Code != waypost.DetailDuplicate || d.Target != c.details[i] || !strings.Contains(d.Message, fmt.Sprint(id)) {
					t.Fatalf("got detail %+v, want Duplicate of %s naming %d", d, c.details[i], id)
				}
			}
		}
		// Nothing of a refused lead stays, and one lead may name a number twice.
		must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "C", ExternalID: ptr("y")}, []string{"+493", "+493"}))
		// An empty externalId identifies nobody.
		for range 2 {
			must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "D", ExternalID: ptr("")}, nil))
		}
	}},
	{"concurrent duplicates", func(t *testing.T, f *fixture) {
		for round := range 5 {
			phone := fmt.Sprintf("+49%d", round)
			onePasses(t, atOnce(8, func(int) error {
				_, err := f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A"}, []string{phone})
				return err
			}))
			external := fmt.Sprint("x", round)
			onePasses(t, atOnce(8, func(i int) error {
				_, err := f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A", ExternalID: &external}, []string{fmt.Sprintf("+1%d%d", round, i)})
				return err
			}))
		}
	}},
	{"crossing duplicates", func(t *testing.T, f *fixture) {
		// Leads that name the same numbers in different orders must not deadlock.
		for round := range 5 {
			a, b := fmt.Sprintf("+491%d", round), fmt.Sprintf("+492%d", round)
			onePasses(t, atOnce(8, func(i int) error {
				phones := []string{a, b}
				if i%2 == 1 {
					phones = []string{b, a}
				}
				_, err := f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A"}, phones)
				return err
			}))
		}
	}},
}

// leadsOfFilter lists who matches, in some order, and checks the count and a launch too.
func (f *fixture) leadsOfFilter(t *testing.T, filter waypost.LeadFilter, sort waypost.LeadSort) (ids []int64) {
	t.Helper()
	for _, lead := range must[[]waypost.Lead](t)(f.ListLeads(t.Context(), scope, waypost.LeadQuery{Filter: filter, Sort: sort, Page: waypost.Page{Limit: 500}})) {
		ids = append(ids, lead.LeadsID)
	}
	_, total, err := f.SampleAudience(t.Context(), scope, waypost.Audience{Filter: &filter}, f.clock.Now(), 5)
	ok(t, err)
	equal(t, "counted", total, len(ids))
	slices.Sort(ids)
	return ids
}

func testCustomFieldFilters(t *testing.T, f *fixture) {
	group := int64(7)
	ids := map[string]int64{}
	for name, fields := range map[string]map[string]any{
		"gold": {"plan": "gold", "seats": 5.0}, "Gold": {"plan": "Gold", "seats": "5"}, "vip": {"plan": "gold", "vip": true}, "text": {"vip": "true"},
		"no": {"vip": false, "seats": 1e-7}, "odd": {`a"b'?.<$[0]`: `x"y'?\`, "seats": 9007199254740992.0}, "none": nil, "name": {"gold": "plan", "": ""},
	} {
		delete(fields, "")
		ids[name] = must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: name, LeadsGroup: &group, CustomFields: fields}, nil)).LeadsID
		must[waypost.Lead](t)(f.CreateLead(t.Context(), foreign[0], waypost.LeadFields{Name: name, CustomFields: fields}, nil))
	}
	for i, c := range []struct {
		fields map[string]string
		want   string
	}{
		{map[string]string{"plan": "gold"}, "gold vip"},
		{map[string]string{"plan": "gold", "vip": "true"}, "vip"},
		{map[string]string{"plan": "Gold"}, "Gold"},
		{map[string]string{"plan": "go"}, ""},
		{map[string]string{"Plan": "gold"}, ""},
		{map[string]string{"seats": "5"}, "gold Gold"},
		{map[string]string{"seats": "5.0"}, "gold"},
		{map[string]string{"seats": "05"}, ""},
		{map[string]string{"seats": " 5"}, ""},
		{map[string]string{"seats": "0.0000001"}, "no"},
		{map[string]string{"seats": "9007199254740992"}, "odd"},
		{map[string]string{"seats": "9007199254740993"}, ""},
		{map[string]string{"vip": "true"}, "vip text"},
		{map[string]string{"vip": "false"}, "no"},
		{map[string]string{"vip": "null"}, ""},
		{map[string]string{"vip": "1"}, ""},
		{map[string]string{"vip": `{"a":1}`}, ""},
		{map[string]string{`a"b'?.<$[0]`: `x"y'?\`}, "odd"},
		{map[string]string{`a`: `x`}, ""},
	} {
		var want []int64
		for _, name := range strings.Fields(c.want) {
			want = append(want, ids[name])
		}
		slices.Sort(want)
		filter := waypost.LeadFilter{CustomFields: c.fields}
		equal(t, fmt.Sprint(c.fields), f.leadsOfFilter(t, filter, waypost.LeadSorts[i%len(waypost.LeadSorts)]), want)
		filter.LeadsGroup = &group
		equal(t, fmt.Sprint("in a group ", c.fields), f.leadsOfFilter(t, filter, waypost.LeadSorts[(i+1)%len(waypost.LeadSorts)]), want)
	}
	// Of an audience that is read from the database again.
	launch := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
		JourneyID: f.journey(t), Version: 1, Audience: waypost.Audience{Filter: &waypost.LeadFilter{CustomFields: map[string]string{"plan": "gold"}}},
	}))
	equal(t, "launched", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), launch.ID, 10)).Enrolled, 2)
	_, err := f.CreateLaunch(t.Context(), scope, waypost.Launch{
		JourneyID: launch.JourneyID, Version: 1, Audience: waypost.Audience{Filter: &waypost.LeadFilter{CustomFields: map[string]string{"plan": "\x00"}}},
	})
	wantCode(t, err, waypost.CodeBadRequest)
}

func testIDFilters(t *testing.T, f *fixture) {
	group := int64(7)
	var ids []int64
	for i := range 6 {
		fields := waypost.LeadFields{Name: "A"}
		if i%2 == 0 {
			fields.LeadsGroup, fields.Region = &group, &group
		}
		ids = append(ids, must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, fields, nil)).LeadsID)
		f.clock.Advance(time.Second)
	}
	other := must[waypost.Lead](t)(f.CreateLead(t.Context(), foreign[0], waypost.LeadFields{Name: "A"}, nil)).LeadsID
	asked := []int64{ids[4], other, ids[1], ids[4], -1, 1 << 40, ids[0]}
	for _, sort := range waypost.LeadSorts {
		equal(t, string(sort), f.leadsOfFilter(t, waypost.LeadFilter{LeadsIDs: asked}, sort), []int64{ids[0], ids[1], ids[4]})
		equal(t, string(sort), f.leadsOfFilter(t, waypost.LeadFilter{LeadsIDs: asked, LeadsGroup: &group, Region: &group}, sort), []int64{ids[0], ids[4]})
		equal(t, string(sort), f.leadsOfFilter(t, waypost.LeadFilter{LeadsIDs: []int64{other}}, sort), []int64(nil))
	}
}

func testBirthdayFilters(t *testing.T, f *fixture) {
	region := int64(3)
	var leads []waypost.Lead
	for i, birthday := range []string{"1990-12-31", "2000-12-31", "2000-02-29", "1990-12-31", "1985-03-12", "", "--12-31", "--02-29", "2001-02-28"} {
		fields := waypost.LeadFields{Name: "A", Birthday: &birthday, Gender: ptr(int64(i % 3))}
		if birthday == "" {
			fields.Birthday, fields.Gender = nil, nil
		}
		if i%2 == 0 {
			fields.Region = &region
		}
		leads = append(leads, must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, fields, nil)))
		must[waypost.Lead](t)(f.CreateLead(t.Context(), foreign[2], fields, nil))
		f.clock.Advance(time.Second)
	}
	for i, c := range []struct {
		filter waypost.LeadFilter
		want   []int
	}{
		{waypost.LeadFilter{Birthday: "1990-12-31"}, []int{0, 3}},
		{waypost.LeadFilter{Birthday: "--12-31"}, []int{0, 1, 3, 6}},
		{waypost.LeadFilter{Birthday: "--02-29"}, []int{2, 7}},
		{waypost.LeadFilter{Birthday: "--12-31", Region: &region}, []int{0, 6}},
		{waypost.LeadFilter{Birthday: "--12-31", Gender: ptr(int64(0))}, []int{0, 3, 6}},
		{waypost.LeadFilter{Gender: ptr(int64(0))}, []int{0, 3, 6}},
		{waypost.LeadFilter{Gender: ptr(int64(2))}, []int{2, 8}},
		{waypost.LeadFilter{Gender: ptr(int64(1)), CreatedFrom: leads[2].CreatedAt}, []int{4, 7}},
	} {
		var want []int64
		for _, n := range c.want {
			want = append(want, leads[n].LeadsID)
		}
		for j := range 2 {
			equal(t, fmt.Sprint(i), f.leadsOfFilter(t, c.filter, waypost.LeadSorts[(i+3*j)%len(waypost.LeadSorts)]), want)
		}
	}
	// Pages of an index of its own.
	after, got := "", []int64{}
	for range 5 {
		page := must[[]waypost.Lead](t)(f.ListLeads(t.Context(), scope, waypost.LeadQuery{
			Filter: waypost.LeadFilter{Birthday: "--12-31"}, Sort: waypost.SortLeadsIDDown, Page: waypost.Page{Limit: 1, After: after},
		}))
		for _, lead := range page {
			got, after = append(got, lead.LeadsID), waypost.SortLeadsIDDown.Cursor(lead)
		}
	}
	equal(t, "downwards", got, []int64{leads[6].LeadsID, leads[3].LeadsID, leads[1].LeadsID, leads[0].LeadsID})
	// 29 February is 28 February in years without it.
	for year, want := range map[int][]int64{
		2027: {leads[2].LeadsID, leads[7].LeadsID, leads[8].LeadsID}, 2028: {leads[8].LeadsID},
	} {
		f.clock.Advance(time.Date(year, 2, 28, 0, 0, 0, 0, time.UTC).Sub(f.clock.Now()))
		equal(t, fmt.Sprint(year), f.leadsOfFilter(t, waypost.LeadFilter{Birthday: "--02-28"}, waypost.SortLeadsID), want)
	}
}

func testCustomFields(t *testing.T, f *fixture) {
	fields, sampled, err := f.CustomFields(t.Context(), scope)
	ok(t, err)
	equal(t, "of nobody", len(fields)+sampled, 0)
	rows := make([]string, 2200)
	for i := range rows {
		rows[i] = `{"name":"A","customFields":{"all":"x","mixed":"x"}}`
		if i%2 == 0 {
			rows[i] = `{"name":"A","customFields":{"all":"x","mixed":true,"half":1}}`
		}
	}
	rows[len(rows)-1] = `{"name":"A","customFields":{"all":"x","mixed":"x","new":false}}`
	f.finish(t, f.newImport(t, waypost.ImportCreate, rows...).ID)
	must[waypost.Lead](t)(f.CreateLead(t.Context(), foreign[0], waypost.LeadFields{Name: "A", CustomFields: map[string]any{"other": 1.0}}, nil))
	fields, sampled, err = f.CustomFields(t.Context(), scope)
	ok(t, err)
	if sampled < 1500 || sampled > 2000 || len(fields) != 4 {
		t.Fatalf("of %d leads: %+v", sampled, fields)
	}
	equal(t, "of all", fields[:2], []waypost.CustomField{{Name: "all", Type: "string", Share: 1}, {Name: "mixed", Type: "mixed", Share: 1}})
	equal(t, "of the newest", fields[3], waypost.CustomField{Name: "new", Type: "boolean", Share: 1 / float64(sampled)})
	if half := fields[2]; half.Name != "half" || half.Type != "number" || half.Share < .25 || half.Share > .75 {
		t.Fatalf("of half: %+v", half)
	}
	_, sampled, err = f.CustomFields(t.Context(), foreign[0])
	ok(t, err)
	equal(t, "elsewhere", sampled, 1)
}
