package searchtest

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/searchsvc"
)

// recordedPage is how many hits the recordings ask for at once, which is more than
// a caller may.
const recordedPage = 100

// recorded asks an index as the recordings did: for pages that no caller may ask
// for, and of a tenant that none may name. What it found is given as that of the
// tenant that was asked for, if it is of the right one.
type recorded struct {
	searchsvc.Index
	tenant  string
	perPage int
}

func (r recorded) Search(ctx context.Context, q searchsvc.Query) (searchsvc.Found, error) {
	asked := q.TenantID
	q.TenantID, q.PerPage = r.tenant, r.perPage
	found, err := r.Index.Search(ctx, q)
	for i := range found.Matches {
		if m := &found.Matches[i]; m.TenantID == r.tenant {
			m.TenantID = asked
		}
	}
	return found, err
}

// Search searches in what the index is given: for the keywords of Cases, with their levels
// and tenants, pages of three, and what has no recordings.
func Search(t *testing.T, open Open) {
	t.Run("corpus", func(t *testing.T) {
		t.Parallel()
		index, docs := open(t), numbered(Corpus(t))
		Fill(t, index, "articles_corpus", docs)
		for _, c := range Cases(t) {
			t.Run(c.Recording, func(t *testing.T) { c.check(t, index, docs) })
		}
		t.Run("pages", func(t *testing.T) { checkPages(t, index) })
	})
	runEach(t, open, map[string]func(*testing.T, searchsvc.Index){
		"pages":       testPages,
		"visibility":  testVisibility,
		"hostile":     testHostile,
		"words":       testWords,
		"title first": testTitleFirst,
		"many parts":  testManyParts,
		"long":        testLong,
		"recall":      testRecall,
		"signs":       testSigns,
		"accents":     testAccents,
		"scripts":     testScripts,
		"drawn":       testDrawn,
	})
}

// check searches for the keyword of the case and compares ids, order, name matches and highlights with
// it. An engine may find more where the case says so.
func (c Case) check(t *testing.T, index searchsvc.Index, docs []searchsvc.Document) {
	t.Helper()
	tenant := c.TenantID
	if !waypost.IsArticleKey(tenant) {
		tenant = "t1"
	}
	result := ask{keyword: c.Keyword, tenant: tenant, user: strconv.Itoa(c.AccessLevel)}.must(t, recorded{index, c.TenantID, recordedPage})
	if result.Total != len(result.Hits) {
		t.Errorf("total %d, but %d hits", result.Total, len(result.Hits))
	}
	var found []string
	newest := map[string]time.Time{}
	for i, hit := range result.Hits {
		at := slices.IndexFunc(docs, func(d searchsvc.Document) bool { return d.ID == hit.ID })
		if at < 0 {
			t.Fatalf("found %s, which is not there", hit.ID)
		}
		newest[hit.ID] = docs[at].PublishedAt
		checkHit(t, c.Keyword, hit, docs[at], slices.Contains(c.EngineMayAdd, hit.ID))
		if slices.Contains(c.IDs, hit.ID) {
			found = append(found, hit.ID)
		} else if !slices.Contains(c.EngineMayAdd, hit.ID) {
			t.Errorf("found %s (%s), which it must not", hit.ID, hit.Name)
		}
		if i == 0 || len(c.EngineMayAdd) > 0 {
			continue
		}
		before := result.Hits[i-1].ID
		inName, beforeInName := slices.Contains(c.NameMatches, hit.ID), slices.Contains(c.NameMatches, before)
		if inName && !beforeInName || inName == beforeInName && newest[hit.ID].After(newest[before]) {
			t.Errorf("%s stands behind %s", hit.ID, before)
		}
	}
	slices.Sort(found)
	if want := slices.Sorted(slices.Values(c.IDs)); !slices.Equal(found, want) {
		t.Errorf("found %s, want %s", found, want)
	}
	c.checkRendered(t, result.Hits)
}

func (c Case) checkRendered(t *testing.T, hits []waypost.SearchHit) {
	t.Helper()
	tags := strings.NewReplacer("<mark>", openTag, "</mark>", closeTag)
	for _, want := range c.Rendered {
		i := slices.IndexFunc(hits, func(h waypost.SearchHit) bool { return h.ID == want.ID })
		if i < 0 {
			continue // not found, which is told already
		}
		if got, want := hits[i].NameHighlight, tags.Replace(want.Name); got != want {
			t.Errorf("%s: name\n got %s\nwant %s", hits[i].ID, got, want)
		}
		if got, want := hits[i].SearchHighlight, tags.Replace(want.Snippet); got != want {
			t.Errorf("%s: excerpt\n got %q\nwant %q", hits[i].ID, got, want)
		}
	}
}

// checkPages reads Corpus by threes, to the page behind the last.
func checkPages(t *testing.T, index searchsvc.Index) {
	t.Helper()
	var all []string
	for page := 1; page <= 4; page++ {
		result := ask{keyword: "搜索", tenant: "tenant-a", user: "5", page: page, perPage: 3}.must(t, index)
		if result.Total != 8 || result.Pages() != 3 || result.Page != page {
			t.Errorf("page %d: total %d, pages %d, page %d", page, result.Total, result.Pages(), result.Page)
		}
		if page == 4 && (result.Hits == nil || len(result.Hits) != 0) {
			t.Errorf("past the end: %v", result.Hits)
		}
		for _, hit := range result.Hits {
			all = append(all, hit.ID)
		}
	}
	slices.Sort(all)
	if len(slices.Compact(all)) != 8 {
		t.Errorf("found %s", all)
	}
}
