package typesense

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/searchsvc"
	"waypost/searchsvc/searchtest"
)

// query asks as the recordings do.
func query(keyword string) searchsvc.Query {
	return searchsvc.Query{
		Stage: waypost.StageRelease, TenantID: "tenant-a", From: waypost.FromFrontend,
		Keyword: searchsvc.ParseKeyword(keyword), Level: 5, Page: 1, PerPage: 10,
	}
}

// TestSuite runs the suite of all engines on the recorded answers.
func TestSuite(t *testing.T) {
	t.Parallel()
	searchtest.Recorded(t, func(t *testing.T, recordings ...string) searchsvc.Index { return replay(t, recordings...) })
	if address := os.Getenv("WAYPOST_TEST_TYPESENSE_URL"); address != "" {
		live := func(t *testing.T) searchsvc.Index { return openLive(t, address) }
		t.Run("live", func(t *testing.T) {
			t.Parallel()
			t.Run("search", func(t *testing.T) { searchtest.Search(t, live) })
			t.Run("generations", func(t *testing.T) { searchtest.Generations(t, live) })
		})
	}
}

// openLive uses a real cluster, with names that nobody else has. Its key is
// WAYPOST_TEST_TYPESENSE_API_KEY.
func openLive(t *testing.T, addresses string) *Index {
	t.Helper()
	x := open(t, Options{
		URLs: strings.Split(addresses, ","), APIKey: os.Getenv("WAYPOST_TEST_TYPESENSE_API_KEY"),
		Prefix: fmt.Sprintf("waypost_test_%x_", rand.Uint64()),
	})
	t.Cleanup(func() {
		ctx := context.Background() // the test's own has ended
		if err := x.Prune(ctx); err != nil {
			t.Error(err)
		}
		if _, err := x.nodes[0].client.Alias(x.alias).Delete(ctx); err != nil && !isMissing(err) {
			t.Error(err)
		}
	})
	return x
}

// Hits carry the original articles back.
func TestSearchDecodes(t *testing.T) {
	t.Parallel()
	originals := map[string]searchsvc.Document{}
	for _, d := range searchtest.Corpus(t) {
		originals[d.ID] = d
	}
	seen := map[string]bool{}
	for _, c := range searchtest.Cases(t) {
		found, err := replay(t, c.Recording).Search(t.Context(), c.Query())
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range found.Matches {
			seen[m.ID] = true
			want := originals[m.ID]
			want.Content = strings.Trim(want.Content, " ") // the recordings have no original beside it
			if fmt.Sprint(m.Document) != fmt.Sprint(want) {
				t.Errorf("%s:\n got %v\nwant %v", c.Recording, m.Document, want)
			}
		}
	}
	if len(seen) < 35 {
		t.Errorf("only %d articles seen", len(seen))
	}
}

// A keyword whose URL would be too long goes by POST.
func TestSearchLongKeyword(t *testing.T) {
	t.Parallel()
	const name = "h02_multi_search_long_keyword"
	keyword := strings.Repeat("很长的关键词没有命中", 20)
	if !strings.Contains(record(t, name).Request.Body, keyword[:3]) {
		t.Fatal("the recording is of another keyword")
	}
	found, err := replay(t, name).Search(t.Context(), query(keyword))
	if err != nil || found.Total != 0 {
		t.Errorf("got %+v, %v", found, err)
	}
}

func TestSearchParams(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ keyword, q, sort, filter, splitJoin string }{
		{"数据库 人工智能", `"人工 工智 智能" 数据 据库`, "name:`数据 据库` && name:`人工 工智 智能`", "", "off"},
		{"foo 🚀 ba", "🚀 foo ba", "name:`foo` && name:`🚀` && beginnings:`ba`", "", "fallback"},
		{strings.Repeat("a", 25), strings.Repeat("a", 25), "(beginnings:`2f521e2a7d0bd812cbc035f4ed6806eb` || name:`" + strings.Repeat("a", 25) + "` || name:" + strings.Repeat("a", 25) + "*)", "", "fallback"},
		{"go 🚀", "🚀 go", "beginnings:`go` && name:`🚀`", "", "fallback"},
		{"学 go 生", "go", "name:学 && beginnings:`go` && name:生", " && characters:学 && characters:生", "off"},
	} {
		q := query(tt.keyword)
		q.TenantID, q.Level, q.From, q.Stage, q.Page = "a", 3, waypost.FromAdmin, waypost.StageTest, 1<<31-1
		p := searchParams(q)
		if *p.Q != tt.q || *p.SortBy != "_eval([("+tt.sort+"):1]):desc,published_at:desc" || *p.SplitJoinTokens != tt.splitJoin ||
			*p.FilterBy != "tenant_key:=`t61` && access_level:<=3"+tt.filter || *p.Page != maxPage {
			t.Errorf("%s: q %s, sort %s, filter %s, split %s, page %d", tt.keyword, *p.Q, *p.SortBy, *p.FilterBy, *p.SplitJoinTokens, *p.Page)
		}
	}
}

// A filter has at most 100 operations, conditions and the signs between them.
func TestFilterIsBounded(t *testing.T) {
	t.Parallel()
	var characters []string
	for r := '一'; r < '一'+200; r++ {
		characters = append(characters, string(r))
	}
	for _, separator := range []string{" ", "x", "x "} {
		p := searchParams(query(strings.Join(characters, separator)))
		for _, conditions := range []string{*p.FilterBy, *p.SortBy} {
			signs := strings.Count(conditions, "&&") + strings.Count(conditions, "||")
			if operations := 2*signs + 1; operations > 100 {
				t.Errorf("%d operations: %s", operations, conditions)
			}
		}
	}
	old := record(t, "i10_filter_too_many_operations").Request.Body
	if signs := strings.Count(old, "&&") + strings.Count(old, "||"); 2*signs+1 != 119 {
		t.Errorf("the recorded filter has %d signs", signs)
	}
}

// The recorded search of a beginning: four of the seven titles come before the article
// that holds it in its content, and the others behind.
func TestEvalLooksAtFour(t *testing.T) {
	t.Parallel()
	var names []string
	for _, name := range regexp.MustCompile(`"name":"([a-z]+)"`).FindAllStringSubmatch(record(t, "i11_eval_prefix_candidates").Response.Body, -1) {
		names = append(names, name[1])
	}
	if want := strings.Fields("reportable reported reportage reports other reporting reporter report"); !slices.Equal(names, want) {
		t.Fatalf("the recording has %s", names)
	}
	sort := *searchParams(query("repor")).SortBy
	if strings.Contains(sort, "*") || sort != "_eval([(beginnings:`repor`):1]):desc,published_at:desc" {
		t.Errorf("sorted by %s", sort)
	}
	for _, name := range names {
		if begins := slices.Contains(strings.Fields(beginnings(name)), "repor"); begins != (name != "other") {
			t.Errorf("%s begins with repor: %t", name, begins)
		}
	}
	// However long the beginning is.
	long := strings.Repeat("คู่มือการเดินทาง", 4)
	for end := range long {
		if end == 0 {
			continue
		}
		condition := wordInName(searchsvc.Part{Kind: searchsvc.PartWord, Text: long[:end]}, true)
		_, condition, _ = strings.Cut(condition, "beginnings:`")
		word, _, _ := strings.Cut(condition, "`")
		for name, want := range map[string]bool{long: true, "A " + long[:end] + "ก": true, long[:end]: true, "ก" + long: false, long[:end-3]: false} {
			if slices.Contains(strings.Fields(beginnings(name)), word) != want {
				t.Errorf("%s: %s, at the beginning of a word of %s: %t", long[:end], word, name, !want)
			}
		}
	}
}

// found answers as Typesense does with a page of documents.
func found(w http.ResponseWriter, total int, page []document) {
	type hit struct {
		Document document `json:"document"`
	}
	hits := make([]hit, len(page))
	for i, d := range page {
		hits[i].Document = d
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	_ = json.NewEncoder(w).Encode(map[string]any{"found": total, "hits": hits, "search_cutoff": false})
}

// Of two long runs of CJK Typesense finds the pairs of one in any order, as it is
// told here by a server that gives all its articles. Total and pages hold those that
// have both runs, exactly; runs in name and content count alike.
func TestTwoLongRuns(t *testing.T) {
	t.Parallel()
	const first, second, shuffled = "人工智能", "数据库", "据库与数据" // the pairs of 数据库, but not it
	for _, tt := range []struct{ candidates, every, total, requests int }{
		{0, 1, 0, 1},
		{7, 1, 7, 1},
		{250, 3, 84, 1},
		{251, 3, 84, 2},
		{620, 3, 207, 3},
		{5000, 2, 500, 4}, // only a thousand are looked through
		{40, 1000, 1, 1},
	} {
		t.Run(strconv.Itoa(tt.candidates), func(t *testing.T) {
			t.Parallel()
			var docs []document
			var want []string
			for i := range tt.candidates {
				d := tenantB(strconv.Itoa(i), first, shuffled)
				if i%tt.every == 0 {
					if d.Content = first + second; i%2 == 0 {
						d.Name, d.Content = second, first
					}
					if len(want) < tt.total {
						want = append(want, d.Key)
					}
				}
				docs = append(docs, newDocument(d))
			}
			requests := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/status" {
					http.NotFound(w, r)
					return
				}
				requests++
				page, _ := strconv.Atoi(r.URL.Query().Get("page"))
				per, _ := strconv.Atoi(r.URL.Query().Get("per_page"))
				from := min((page-1)*per, len(docs))
				found(w, len(docs), docs[from:min(from+per, len(docs))])
			}))
			t.Cleanup(server.Close)
			x := open(t, Options{URLs: []string{server.URL}})
			q := query(first + " " + second)
			q.PerPage = 50
			var got []string
			for q.Page = 1; ; q.Page++ {
				requests = 0
				result, err := x.Search(t.Context(), q)
				if err != nil || result.Total != tt.total || requests != tt.requests {
					t.Fatalf("page %d: total %d by %d requests, want %d by %d (%v)", q.Page, result.Total, requests, tt.total, tt.requests, err)
				}
				if len(result.Matches) == 0 {
					break
				}
				for _, m := range result.Matches {
					got = append(got, m.Key)
				}
			}
			if !slices.Equal(got, want) {
				t.Errorf("got %s\nwant %s", got, want)
			}
			q.Page = 1<<31 - 1
			if result, err := x.Search(t.Context(), q); err != nil || len(result.Matches) != 0 {
				t.Errorf("the last page: %d, %v", len(result.Matches), err)
			}
		})
	}
	for keyword, want := range map[string]int{first: 0, first + " 数据": 0, first + " go": 0, first + " " + second + " 开发者": 2, second + "x" + second: 0} {
		if got := uncheckedRuns(searchsvc.ParseKeyword(keyword)); len(got) != want {
			t.Errorf("%s: %s", keyword, got)
		}
	}
}

func tenantB(id, name, content string) searchsvc.Document {
	return searchsvc.Document{Key: id, Stage: waypost.StageRelease, Article: waypost.Article{
		ID: id, TenantID: "tenant-b", Name: name, Content: content, Published: true, PublishedAt: time.UnixMilli(0),
	}}
}
