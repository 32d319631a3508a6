package store_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/store"
)

// TestListsIgnoreCase looks for leads by names and addresses in other cases than they
// were written in, and than the database knows.
func TestListsIgnoreCase(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		_, _, err := store.Migrate(t.Context(), url)
		check(t, err)
		s, err := open(t, url)
		check(t, err)
		for _, tc := range []struct {
			stored      string
			found, lost []string // by beginnings of the name
		}{
			{"Ada Lovelace", []string{"ada", "ADA L", "Ada Lovelace", "aDA lOVELACE"}, []string{"da", "ada  ", "Ada Lovelaces", "ad%", "ad_"}},
			{"Élodie Ñandú", []string{"é", "É", "e\u0301lo", "ÉLODIE ÑANDÚ"}, []string{"e", "elodie"}},
			{"Straße", []string{"strasse", "STRASSE", "STRAẞE", "straße", "strass"}, []string{"strase"}},
			{"İstanbul", []string{"istanbul", "İSTANBUL", "i", "I", "i\u0307s"}, []string{"ı"}},
			{"ısparta", []string{"ıs"}, []string{"is", "ISPARTA"}},
			{"ΟΔΥΣΣΕΥΣ", []string{"οδυσσευς", "Οδυσσευσ", "οδυσ", "οδυς"}, nil},
			{"Юлия", []string{"юл", "ЮЛИЯ"}, nil},
			{"张三 Ａｌｉｃｅ", []string{"张", "张三 alice", "张三 ＡＬＩＣＥ"}, []string{"三"}},
			{"𐐀𐐁", []string{"𐐨𐐩"}, nil},
			{strings.Repeat("\ufdfa", 128), []string{"صلى", strings.Repeat("\ufdfa", 128)}, nil},
			{"100%_a\\", []string{"100%_A\\"}, []string{"100_"}},
		} {
			before := "Before@example.com"
			lead, err := s.CreateLead(t.Context(), listScope, waypost.LeadFields{Name: "before", Email: &before}, nil)
			check(t, err)
			local := tc.stored[:min(len(tc.stored), 120)]
			email := "X." + local + "@Example.COM"
			lead, err = s.UpdateLead(t.Context(), listScope, lead.LeadsID, func(waypost.Lead) (waypost.LeadFields, []string, error) {
				return waypost.LeadFields{Name: tc.stored, Email: &email}, nil, nil
			})
			check(t, err)
			finds := func(f waypost.LeadFilter) bool {
				t.Helper()
				leads, err := s.ListLeads(t.Context(), listScope, waypost.LeadQuery{Filter: f})
				check(t, err)
				return slices.Contains(idsOf(leads), lead.LeadsID)
			}
			for _, prefix := range tc.found {
				if !finds(waypost.LeadFilter{Name: prefix}) {
					t.Errorf("%q is not found by %q", tc.stored, prefix)
				}
			}
			for _, prefix := range tc.lost {
				if finds(waypost.LeadFilter{Name: prefix}) {
					t.Errorf("%q is found by %q", tc.stored, prefix)
				}
			}
			if lead.Name != tc.stored || *lead.Email != email {
				t.Errorf("stored as %q and %q", lead.Name, *lead.Email)
			}
			whole := waypost.LeadFilter{Email: "x." + local + "@EXAMPLE.com", Name: tc.stored}
			if !finds(whole) || finds(waypost.LeadFilter{Email: "x." + local}) || finds(waypost.LeadFilter{Email: "before@example.com"}) {
				t.Errorf("the address of %q", tc.stored)
			}
			if _, total, err := s.SampleAudience(t.Context(), listScope, waypost.Audience{Filter: &whole}, time.Now(), 1); err != nil || total != 1 {
				t.Errorf("%q: %d in the audience, %v", tc.stored, total, err)
			}
		}
	})
}
