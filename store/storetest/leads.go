package storetest

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"waypost"
)

var leadTests = []test{
	{"round trip", func(t *testing.T, f *fixture) {
		fields := waypost.LeadFields{
			LeadsGroup: ptr(int64(7)), Region: ptr(int64(-1)), Address: ptr("1 'Main' St\\"), Remark: ptr("line\nline ? ?0 \u2028 😀"),
			Name: "王小明", MobilePhone: []string{"138 0013 8000", "+1 415 555 2671"}, Gender: ptr(int64(0)), Birthday: ptr("1990-02-28"),
			Email: ptr("a@example.com"), Wechat: ptr("w"), QQ: ptr("123"), Telephone: ptr("010"), Company: ptr("C"), CompanyPhone: ptr("1"),
			CompanyEmail: ptr("c@example.com"), CompanyWebsite: ptr("https://example.com"), ExternalID: ptr("x-1"), OpenID: ptr("o-1"),
			CustomFields: map[string]any{"a": "b'", "n": 1.5, "yes": true, "none": nil, "nul": "\x00"},
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
			onePasses(t, together(8, func(int) error {
				_, err := f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A"}, []string{phone})
				return err
			}))
			external := fmt.Sprint("x", round)
			onePasses(t, together(8, func(i int) error {
				_, err := f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "A", ExternalID: &external}, []string{fmt.Sprintf("+1%d%d", round, i)})
				return err
			}))
		}
	}},
	{"crossing duplicates", func(t *testing.T, f *fixture) {
		// Leads that name the same numbers in different orders must not deadlock.
		for round := range 5 {
			a, b := fmt.Sprintf("+491%d", round), fmt.Sprintf("+492%d", round)
			onePasses(t, together(8, func(i int) error {
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
