package searchtest

import (
	"slices"
	"strconv"
	"testing"
)

// The rule that the suite holds engines to is the one by which expected.json was
// made.
func TestRule(t *testing.T) {
	t.Parallel()
	docs := Corpus(t)
	for _, c := range Cases(t) {
		var got []string
		for _, d := range rule(docs, ask{keyword: c.Keyword, tenant: c.TenantID, user: strconv.Itoa(c.AccessLevel)}) {
			got = append(got, d.ID)
		}
		if !slices.Equal(slices.Sorted(slices.Values(got)), slices.Sorted(slices.Values(c.IDs))) {
			t.Errorf("%s: %q finds %s, want %s", c.Recording, c.Keyword, got, c.IDs)
		}
		names := len(c.NameMatches)
		if !slices.Equal(slices.Sorted(slices.Values(got[:names])), slices.Sorted(slices.Values(c.NameMatches))) {
			t.Errorf("%s: %q has %s first, want %s", c.Recording, c.Keyword, got[:names], c.NameMatches)
		}
	}
}
