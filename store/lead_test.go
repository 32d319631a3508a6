package store_test

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/store"
)

// manyTestLeads is enough that lists do not end within the way that a search goes,
// and that an export has pages.
const manyTestLeads = 1300

// TestLeadLists walks through all orders of all filters, page by page, and compares
// what comes with what it should be.
func TestLeadLists(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		s, all := leadStore(t, url, driver, dsn)
		number := func(n int64) *int64 { return &n }
		at := func(n int) time.Time { return listFrom.Add(time.Duration(n) * time.Millisecond) }
		for name, f := range map[string]waypost.LeadFilter{
			"all":              {},
			"group":            {LeadsGroup: number(7)},
			"region, half":     {Region: number(5)},
			"region, last":     {Region: number(9)},
			"region, none":     {Region: number(6)},
			"both":             {Region: number(5), LeadsGroup: number(8)},
			"both, none":       {Region: number(5), LeadsGroup: number(7)},
			"both, by group":   {Region: number(5), LeadsGroup: number(98), Name: "Lead 1"},
			"name, all":        {Name: "Lead"},
			"name, last":       {Name: "Lead 12"},
			"name, few":        {Name: "LEAD 77"},
			"name, none":       {Name: "leads"},
			"email":            {Email: "half@EXAMPLE.com"},
			"email, group":     {Email: "half@example.com", LeadsGroup: number(8)},
			"externalId":       {ExternalID: "x-7"},
			"externalId, not":  {ExternalID: "x-7", Region: number(6)},
			"phone":            {MobilePhone: "+49700"},
			"phone, not":       {MobilePhone: "+49700", CreatedFrom: at(701)},
			"created, last":    {CreatedFrom: at(1240)},
			"created, few":     {CreatedFrom: at(1100), CreatedTo: at(1120).Add(time.Nanosecond)},
			"created, none":    {CreatedTo: at(0)},
			"updated, few":     {UpdatedFrom: at(600), UpdatedTo: at(610)},
			"updated, half":    {UpdatedTo: at(650)},
			"created, updated": {CreatedFrom: at(1000), UpdatedFrom: at(1100), UpdatedTo: at(1200)},
			"everything": {LeadsGroup: number(52), Region: number(5), Name: "Lead 1", Email: "half@example.com", CreatedFrom: at(100), CreatedTo: at(1290),
				UpdatedFrom: at(1), UpdatedTo: at(1299)},
		} {
			for _, sort := range waypost.LeadSorts {
				want := expected(all, f, sort)
				if strings.Contains(name, "none") != (len(want) == 0) && !strings.Contains(name, ", not") {
					t.Fatalf("%s: %d leads", name, len(want))
				}
				limit := 60
				if len(want) > 600 {
					limit = waypost.MaxPageSize + 1
				}
				got := []int64{}
				for q := (waypost.LeadQuery{Filter: f, Sort: sort, Page: waypost.Page{Limit: limit}}); ; {
					page, err := s.ListLeads(t.Context(), listScope, q)
					if err != nil {
						t.Fatalf("%s, %s: %v", name, sort, err)
					}
					for _, lead := range page {
						got = append(got, lead.LeadsID)
						if !reflect.DeepEqual(lead, all[lead.LeadsID]) {
							t.Fatalf("%s, %s: got %+v, want %+v", name, sort, lead, all[lead.LeadsID])
						}
					}
					if len(page) < limit {
						break
					}
					q.Page.After = sort.Cursor(page[limit-1])
				}
				if !slices.Equal(got, want) {
					t.Errorf("%s, %s: got %d leads, %v…, want %d, %v…", name, sort, len(got), got[:min(10, len(got))], len(want), want[:min(10, len(want))])
				}
			}
		}
		// A place outside of the filter's bounds.
		for sort, place := range map[waypost.LeadSort]time.Time{waypost.SortCreatedAt: at(100), waypost.SortCreatedAtDown: at(300)} {
			f := waypost.LeadFilter{CreatedFrom: at(200), CreatedTo: at(210)}
			page, err := s.ListLeads(t.Context(), listScope, waypost.LeadQuery{Filter: f, Sort: sort, Page: waypost.Page{After: fmt.Sprintf("%d,%d", place.UnixMicro(), 200)}})
			if err != nil || len(page) != len(expected(all, f, sort)) {
				t.Errorf("%s, from a place outside: %d leads, %v", sort, len(page), err)
			}
		}
	})
}

// TestLeadListsOfManyPairs walks through leads of which too many are of the region and
// of the group to be read and sorted for each page.
func TestLeadListsOfManyPairs(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		if _, _, err := store.Migrate(t.Context(), url); err != nil {
			t.Fatal(err)
		}
		// 5,300 are of both.
		exec(t, driver, dsn, fmt.Sprintf(`INSERT INTO leads (org, stage, leads_group, region, name, name_folded, mobile_phone, created_at, updated_at)
			WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < 6000)
			SELECT 'acme', 'release', CASE WHEN i > 400 THEN 8 END, CASE WHEN i <= 5700 THEN 5 END, 'Lead', 'lead', '[]', %[1]d + i / 10, %[1]d + i * 919 %% 6007 FROM s`, listFrom.UnixMicro()))
		s, err := open(t, url)
		if err != nil {
			t.Fatal(err)
		}
		ids := make([]int64, 6000)
		for i := range ids {
			ids[i] = int64(i + 1)
		}
		all, err := s.LeadsByID(t.Context(), listScope, ids)
		if err != nil {
			t.Fatal(err)
		}
		region, group := int64(5), int64(8)
		f := waypost.LeadFilter{Region: &region, LeadsGroup: &group}
		for _, sort := range waypost.LeadSorts {
			var got []int64
			err := s.ExportLeads(t.Context(), listScope, waypost.LeadQuery{Filter: f, Sort: sort}, nil, func(l waypost.Lead) error {
				got = append(got, l.LeadsID)
				return nil
			})
			if want := expected(all, f, sort); err != nil || len(want) != 5300 || !slices.Equal(got, want) {
				t.Errorf("%s: got %d leads, want %d, %v", sort, len(got), len(want), err)
			}
		}
	})
}

// TestExportIsOfOneMoment changes leads while they are exported.
func TestExportIsOfOneMoment(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		s, all := leadStore(t, url, driver, dsn)
		for _, q := range []waypost.LeadQuery{
			{}, {Sort: waypost.SortUpdatedAtDown}, {Filter: waypost.LeadFilter{Name: "Lead 1"}, Sort: waypost.SortCreatedAtDown},
		} {
			want := expected(all, q.Filter, cmp.Or(q.Sort, waypost.SortLeadsID))
			first, last := all[want[0]], all[want[len(want)-1]]
			var got []int64
			var fields []string
			var changed []waypost.Lead
			err := s.ExportLeads(t.Context(), listScope, q, func(names []string) error {
				fields = names
				return nil
			}, func(lead waypost.Lead) error {
				if got = append(got, lead.LeadsID); !reflect.DeepEqual(lead, all[lead.LeadsID]) {
					return fmt.Errorf("got %+v, want %+v", lead, all[lead.LeadsID])
				}
				if len(got) > 1 {
					return nil
				}
				// The last one goes, the first one moves, another one comes.
				if err := s.DeleteLead(t.Context(), listScope, last.LeadsID, nil); err != nil {
					return err
				}
				moved, err := s.UpdateLead(t.Context(), listScope, first.LeadsID, func(l waypost.Lead) (waypost.LeadFields, []string, error) { return l.LeadFields, nil, nil })
				if err != nil {
					return err
				}
				come, err := s.CreateLead(t.Context(), listScope, waypost.LeadFields{Name: "Lead 1", CustomFields: map[string]any{"plan": "late"}}, nil)
				changed = []waypost.Lead{moved, come}
				return err
			})
			if err != nil || !slices.Equal(got, want) || !slices.Equal(fields, []string{"customFields.odd", "customFields.plan"}) {
				t.Fatalf("%+v: got %d leads, want %d; fields %v; %v", q, len(got), len(want), fields, err)
			}
			delete(all, last.LeadsID)
			for _, lead := range changed {
				all[lead.LeadsID] = lead
			}
		}
	})
}

var (
	listFrom  = time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC)
	listScope = waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
)

// leadStore opens a store with many leads, and some of another stage, and returns
// those of the scope as they are without a list.
func leadStore(t *testing.T, url, driver, dsn string) (*store.Store, map[int64]waypost.Lead) {
	t.Helper()
	check := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	_, _, err := store.Migrate(t.Context(), url)
	check(err)
	// Ten were created at a time; they were changed in another order.
	for stage, n := range map[waypost.Stage]int{waypost.StageRelease: manyTestLeads, waypost.StageTest: 300} {
		exec(t, driver, dsn, fmt.Sprintf(`INSERT INTO leads (org, stage, leads_group, region, name, name_folded, mobile_phone, email, email_folded, external_id, custom_fields, created_at, updated_at)
			WITH RECURSIVE s (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM s WHERE i < %d)
			SELECT 'acme', '%s', CASE WHEN i %% 3 > 0 THEN i %% 100 END, CASE WHEN i %% 2 = 0 THEN 5 WHEN i > 1200 THEN 9 END, 'Lead ' || i, 'lead ' || i, '[]',
				CASE WHEN i %% 2 = 0 THEN 'Half@example.com' END, CASE WHEN i %% 2 = 0 THEN 'half@example.com' END, 'x-' || i, CASE WHEN i %% 2 = 0 THEN '{"plan":"gold"}' WHEN i %% 7 = 0 THEN '{"odd":1}' END,
				%d + i / 10 * 10000, %d + i * 919 %% 1301 * 1000 FROM s`, n, stage, listFrom.UnixMicro(), listFrom.UnixMicro()))
	}
	exec(t, driver, dsn, "INSERT INTO lead_phones SELECT org, stage, '+49700', leads_id FROM leads WHERE name = 'Lead 700' AND stage = 'release'")
	s, err := open(t, url)
	check(err)
	ids := make([]int64, manyTestLeads+300)
	for i := range ids {
		ids[i] = int64(i + 1)
	}
	all, err := s.LeadsByID(t.Context(), listScope, ids)
	check(err)
	if len(all) != manyTestLeads {
		t.Fatalf("%d leads", len(all))
	}
	return s, all
}

// expected says by hand which leads a list has.
func expected(all map[int64]waypost.Lead, f waypost.LeadFilter, sort waypost.LeadSort) []int64 {
	same := func(want, got *int64) bool { return want == nil || got != nil && *got == *want }
	text := func(want string, got *string) bool { return want == "" || got != nil && strings.EqualFold(*got, want) }
	within := func(from, to, got time.Time) bool { return !got.Before(from) && (to.IsZero() || got.Before(to)) }
	list := []waypost.Lead{}
	for _, l := range all {
		if same(f.LeadsGroup, l.LeadsGroup) && same(f.Region, l.Region) && strings.HasPrefix(strings.ToLower(l.Name), strings.ToLower(f.Name)) && text(f.Email, l.Email) &&
			text(f.ExternalID, l.ExternalID) && (f.MobilePhone == "" || l.Name == "Lead 700") &&
			within(f.CreatedFrom, f.CreatedTo, l.CreatedAt) && within(f.UpdatedFrom, f.UpdatedTo, l.UpdatedAt) {
			list = append(list, l)
		}
	}
	column, down := strings.CutPrefix(string(sort), "-")
	slices.SortFunc(list, func(a, b waypost.Lead) int {
		order := cmp.Compare(a.LeadsID, b.LeadsID)
		switch column {
		case "createdAt":
			order = cmp.Or(a.CreatedAt.Compare(b.CreatedAt), order)
		case "updatedAt":
			order = cmp.Or(a.UpdatedAt.Compare(b.UpdatedAt), order)
		}
		if down {
			return -order
		}
		return order
	})
	ids := make([]int64, len(list))
	for i, l := range list {
		ids[i] = l.LeadsID
	}
	return ids
}
