package typesense

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/searchsvc"
)

// expected is what each keyword must find, by a rule that knows no engine
// (expected.json).
type expected struct {
	Keyword      string
	TenantID     string `json:"tenant_id"`
	AccessLevel  int    `json:"access_level"`
	IDs          []string
	NameMatches  []string `json:"name_match_ids"`
	EngineMayAdd []string `json:"engine_may_add"`
	Recording    string
	Rendered     []struct{ ID, Name, Snippet string }
}

func (c expected) name() string { return strings.TrimSuffix(c.Recording, ".json") }

func (c expected) query() searchsvc.Query {
	return searchsvc.Query{
		Stage: waypost.StageRelease, TenantID: c.TenantID, From: searchsvc.FromFrontend,
		Keyword: searchsvc.ParseKeyword(c.Keyword), Level: c.AccessLevel, Page: 1, PerPage: 100,
	}
}

func expectations(t *testing.T) []expected {
	t.Helper()
	var file struct{ Cases []expected }
	readJSON(t, "expected.json", &file)
	if len(file.Cases) != 73 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	return file.Cases
}

// TestExpected searches for every keyword of expected.json, and shows the hits as
// the service does: in the recorded answers, and, where
// WAYPOST_TEST_TYPESENSE_URL names a server, there.
func TestExpected(t *testing.T) {
	t.Parallel()
	cases := expectations(t)
	for _, c := range cases {
		t.Run(c.name(), func(t *testing.T) {
			t.Parallel()
			checkExpected(t, replay(t, c.name()), c)
		})
	}
	if live := liveIndex(t); live != nil {
		for _, c := range cases {
			t.Run("live/"+c.name(), func(t *testing.T) { checkExpected(t, live, c) })
		}
	}
}

// liveIndex fills a collection of its own on a real server, nil if there is none.
// Its key is WAYPOST_TEST_TYPESENSE_API_KEY.
func liveIndex(t *testing.T) *Index {
	t.Helper()
	address := os.Getenv("WAYPOST_TEST_TYPESENSE_URL")
	if address == "" {
		return nil
	}
	alias := fmt.Sprintf("waypost_test_%d", time.Now().UnixNano())
	x := open(t, Options{URL: address, APIKey: os.Getenv("WAYPOST_TEST_TYPESENSE_API_KEY"), Alias: alias})
	if err := x.Prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := x.Drop(t.Context(), alias+"_v1"); err != nil {
			t.Error(err)
		}
	})
	faults, err := x.Import(t.Context(), corpus(t))
	if err != nil {
		t.Fatal(err)
	}
	for i, fault := range faults {
		if fault != nil {
			t.Fatalf("line %d: %v", i+1, fault)
		}
	}
	return x
}

func checkExpected(t *testing.T, x *Index, c expected) {
	t.Helper()
	result, err := searchsvc.New(x).Search(t.Context(), c.query())
	if err != nil {
		t.Fatal(err)
	}
	if result.Total != len(result.Hits) {
		t.Errorf("total %d, but %d hits", result.Total, len(result.Hits))
	}
	var found []string
	newest := map[string]time.Time{}
	for _, d := range corpus(t) {
		newest[d.ID] = d.PublishedAt
	}
	for i, hit := range result.Hits {
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
	checkRendered(t, result.Hits, c)
}

func checkRendered(t *testing.T, hits []searchsvc.Hit, c expected) {
	t.Helper()
	tags := strings.NewReplacer("<mark>", `<b class="highlight">`, "</mark>", "</b>")
	for _, want := range c.Rendered {
		i := slices.IndexFunc(hits, func(h searchsvc.Hit) bool { return h.ID == want.ID })
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

// Hits carry the original articles back.
func TestSearchDecodes(t *testing.T) {
	t.Parallel()
	originals := map[string]searchsvc.Document{}
	for _, d := range corpus(t) {
		originals[d.ID] = d
	}
	seen := map[string]bool{}
	for _, c := range expectations(t) {
		found, err := replay(t, c.name()).Search(t.Context(), c.query())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range found.Matches {
			seen[m.ID] = true
			want := originals[m.ID]
			want.Content = strings.Trim(want.Content, " ")
			if fmt.Sprint(m.Document) != fmt.Sprint(want) {
				t.Errorf("%s:\n got %v\nwant %v", c.name(), m.Document, want)
			}
		}
	}
	if len(seen) < 35 {
		t.Errorf("only %d articles seen", len(seen))
	}
}

func TestSearchPages(t *testing.T) {
	t.Parallel()
	x := replay(t, "d01_page_1_of_3", "d02_page_2_of_3", "d03_page_3_of_3", "d04_page_4_of_3")
	var all []string
	for page := 1; page <= 4; page++ {
		q := expected{Keyword: "搜索", TenantID: "tenant-a", AccessLevel: 5}.query()
		q.Page, q.PerPage = page, 3
		result, err := searchsvc.New(x).Search(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if result.Total != 8 || result.Pages() != 3 || result.Page != page {
			t.Errorf("page %d: total %d, pages %d, page %d", page, result.Total, result.Pages(), result.Page)
		}
		if page == 4 && len(result.Hits) != 0 {
			t.Errorf("%d hits past the end", len(result.Hits))
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

// A keyword whose URL would be too long goes by POST.
func TestSearchLongKeyword(t *testing.T) {
	t.Parallel()
	long := record(t, "h02_multi_search_long_keyword")
	keyword := strings.Repeat("很长的关键词没有命中", 20)
	q := expected{Keyword: keyword, TenantID: "tenant-a", AccessLevel: 5}.query()
	q.PerPage = 10
	if !strings.Contains(long.Request.Body, keyword[:3]) {
		t.Fatal("the recording is of another keyword")
	}
	found, err := replay(t, "h02_multi_search_long_keyword").Search(t.Context(), q)
	if err != nil || found.Total != 0 {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestSearchParams(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ keyword, q, sort, filter, splitJoin string }{
		{"数据库 人工智能", `"人工 工智 智能" 数据 据库`, "name:`数据 据库` && name:`人工 工智 智能`", "", "off"},
		{"foo 🚀 ba", "🚀 foo ba", "name:`foo` && name:`🚀` && (name:`ba` || name:ba*)", "", "fallback"},
		{"go 🚀", "🚀 go", "(name:`go` || name:go*) && name:`🚀`", "", "fallback"},
		{"学 go 生", "go", "name:学 && (name:`go` || name:go*) && name:生", " && (name:学 || content:学*) && (name:生 || content:生*)", "off"},
	} {
		q := expected{Keyword: tt.keyword, TenantID: "a", AccessLevel: 3}.query()
		q.From, q.Stage, q.Page = searchsvc.FromAdmin, waypost.StageTest, 1<<31-1
		p := searchParams(q)
		if *p.Q != tt.q || *p.SortBy != "_eval([("+tt.sort+"):1]):desc,published_at:desc" || *p.SplitJoinTokens != tt.splitJoin ||
			*p.FilterBy != "tenant_key:=`t61` && access_level:<=3"+tt.filter || *p.Page != maxPage {
			t.Errorf("%s: q %s, sort %s, filter %s, split %s, page %d", tt.keyword, *p.Q, *p.SortBy, *p.FilterBy, *p.SplitJoinTokens, *p.Page)
		}
	}
}
