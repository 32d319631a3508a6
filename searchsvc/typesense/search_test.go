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

// TestSuite runs the suite of all engines on the stand-in, or on the real server that
// WAYPOST_TEST_TYPESENSE_URL names.
func TestSuite(t *testing.T) {
	t.Parallel()
	live := func(t *testing.T) searchsvc.Index { return openLive(t, startStandIn(t).URL) }
	if address := os.Getenv("WAYPOST_TEST_TYPESENSE_URL"); address != "" {
		live = func(t *testing.T) searchsvc.Index { return openLive(t, address) }
	}
	t.Run("search", func(t *testing.T) { t.Parallel(); searchtest.Search(t, live) })
	t.Run("generations", func(t *testing.T) { t.Parallel(); searchtest.Generations(t, live) })
}

// openLive uses a real cluster, with names that nobody else has. Its key is
// WAYPOST_TEST_TYPESENSE_API_KEY.
func openLive(t *testing.T, addresses string) *Index {
	t.Helper()
	name := fmt.Sprintf("%x", rand.Uint64())
	x := open(t, Options{
		URLs: strings.Split(addresses, ","), APIKey: os.Getenv("WAYPOST_TEST_TYPESENSE_API_KEY"),
		Prefix: "waypost_test_" + name + "_", Installation: name,
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
	hex := func(s string) string { return fmt.Sprintf("#%x", s) }
	accents := "(name:`" + hex("é") + "#` || content:`" + hex("é") + "#`) && (name:`" + hex("чай") + "#` || content:`" + hex("чай") + "#`)"
	named := "name:`e` && beginnings:`" + hex("чаи") + "`"
	for _, tt := range []struct{ keyword, q, sort, filter, typos string }{
		{"数据库 人工智能", `"人工 工智 智能" 数据 据库`, "(name:`数据 据库` && name:`人工 工智 智能`):1", "", "0"},
		{"foo 🚀 Bar", hex("🚀") + "# foo bar", "(name:`foo` && name:`" + hex("🚀") + "#` && beginnings:`bar`):1", "", "0"},
		{"report SKU7", "report sku7", "(name:`report` && beginnings:`sku7`):1", "", "0"},
		{"report 2026", "report 2026", "(name:`report` && beginnings:`2026`):1", "", "2"},
		{strings.Repeat("a", 25), strings.Repeat("a", 25), "(beginnings:`" + hash(strings.Repeat("a", 25)) + "`):1", "", "2"},
		{strings.Repeat("a", 91) + " " + strings.Repeat("b", 91), hash(strings.Repeat("a", 91)) + "+ " + hash(strings.Repeat("b", 91)),
			"(name:`" + hash(strings.Repeat("a", 91)) + "+` && beginnings:`" + hash(strings.Repeat("b", 91)) + "`):1", "", "0"},
		{"学 go 生", "go", "(name:`学` && beginnings:`go` && name:`生`):1", " && characters:`学` && characters:`生`", "0"},
		{"คู่มือ", hex("คู่มื") + "# " + hex("มือ") + "#", "(name:`" + hex("คู่มื") + "# " + hex("มือ") + "#`):1", "", "0"},
		{"é чай", "e " + hex("чаи"), "(" + accents + " && " + named + "):3, (" + accents + "):2, (" + named + "):1", "", "0"},
	} {
		q := query(tt.keyword)
		q.TenantID, q.Level, q.From, q.Stage, q.Page = "a", 3, waypost.FromAdmin, waypost.StageTest, 1<<31-1
		p := searchParams(q)
		if strings.HasPrefix(tt.q, hex("คู่มื")) {
			tt.q = `"` + tt.q + `"`
			if len(searchsvc.Pairs(searchsvc.Fold(tt.keyword))) < 2 {
				t.Error("no phrase")
			}
		}
		if *p.SortBy != "_eval(["+tt.sort+"]):desc,published_at:desc" || *p.SplitJoinTokens != "off" || *p.NumTypos != tt.typos ||
			*p.FilterBy != "tenant_key:=`t61` && access_level:<=3"+tt.filter || *p.Page != maxPage || *p.Q != tt.q {
			t.Errorf("%s: q %s, sort %s, filter %s, typos %s, page %d", tt.keyword, *p.Q, *p.SortBy, *p.FilterBy, *p.NumTypos, *p.Page)
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
	for _, separator := range []string{" ", "x", "x ", " éa ", "é "} {
		p := searchParams(query(strings.Join(characters, separator) + strings.Join(strings.Split("àéîõüáèìòùâêôû", ""), " ")))
		for _, conditions := range append(strings.Split(*p.SortBy, "):"), *p.FilterBy) {
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
	long := strings.Repeat("сложносочинение", 4)
	for end := range long {
		if end == 0 {
			continue
		}
		condition := newPlan(searchsvc.ParseKeyword(long[:end])).inName[0]
		word := strings.Trim(strings.TrimPrefix(condition, "beginnings:"), "`")
		for name, want := range map[string]bool{long: true, "A " + long[:end] + "к": true, long[:end]: true, "к" + long: false, long[:end-2]: false} {
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
