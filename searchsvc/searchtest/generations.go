package searchtest

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"testing"

	"waypost"
	"waypost/searchsvc"
)

// Generations makes, fills, swaps and drops generations, with searches running.
func Generations(t *testing.T, open Open) {
	runEach(t, open, map[string]func(*testing.T, searchsvc.Index){
		"life":      testLife,
		"documents": testDocuments,
		"marks":     testMarks,
		"missing":   testMissing,
		"swap":      testSwap,
		"at once":   testAtOnce,
	})
}

// runEach runs tests beside each other, each on an index of its own.
func runEach(t *testing.T, open Open, tests map[string]func(*testing.T, searchsvc.Index)) {
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, open(t))
		})
	}
}

func wantLive(t testing.TB, index searchsvc.Index, want string) {
	t.Helper()
	if live, err := index.Live(t.Context()); err != nil || live != want {
		t.Errorf("live %q (%v), want %q", live, err, want)
	}
}

// From nothing to a second generation: what is not live is not searched, and what
// is not kept is gone.
func testLife(t *testing.T, index searchsvc.Index) {
	if engine := index.Engine(); engine == "" || engine != index.Engine() {
		t.Errorf("engine %q", engine)
	}
	wantLive(t, index, "")
	away := func(what string) {
		t.Helper()
		_, err := ask{keyword: "生活"}.search(t.Context(), index)
		wantAway(t, what, err)
		if err != nil && strings.Contains(err.Error(), "生活") {
			t.Errorf("the error tells the query: %v", err)
		}
	}
	away("without a generation")
	ok(t, index.Create(t.Context(), "articles_1"))
	put(t, index, "articles_1", []searchsvc.Document{article(1, "生活", "一")})
	wantLive(t, index, "")
	away("without a live generation")
	ok(t, index.SetLive(t.Context(), "articles_1"))
	wantLive(t, index, "articles_1")
	wantTotal(t, index, "生活", 1)

	ok(t, index.Create(t.Context(), "articles_2"))
	put(t, index, "articles_2", []searchsvc.Document{article(1, "生活", "一"), article(2, "生活", "二")})
	wantTotal(t, index, "生活", 1)
	ok(t, index.Prune(t.Context(), "articles_1", "articles_2", "articles_3"))
	ok(t, index.SetLive(t.Context(), "articles_2"))
	ok(t, index.SetLive(t.Context(), "articles_2"))
	wantLive(t, index, "articles_2")
	wantTotal(t, index, "生活", 2)
	ok(t, index.Prune(t.Context(), "articles_2"))
	ok(t, index.Prune(t.Context(), "articles_2"))
	wantTotal(t, index, "生活", 2)
	wantAway(t, "what was pruned", index.SetLive(t.Context(), "articles_1"))
	wantTotal(t, index, "生活", 2)

	// A generation of a name that was used is a new one.
	ok(t, index.Create(t.Context(), "articles_1"))
	put(t, index, "articles_1", []searchsvc.Document{article(3, "生活", "三")})
	ok(t, index.Create(t.Context(), "articles_1"))
	ok(t, index.SetLive(t.Context(), "articles_1"))
	wantTotal(t, index, "生活", 0)
}

// Documents are added, replaced as a whole, and taken out.
func testDocuments(t *testing.T, index searchsvc.Index) {
	const live = "articles_1"
	Fill(t, index, live, []searchsvc.Document{article(1, "春天", "花开"), article(2, "夏天", "花开"), article(10, "秋天", "花开")})
	other := article(2, "冬天", "")
	other.ID, other.Channels, other.FrontendURL, other.Published = "other", nil, "", true
	put(t, index, live, []searchsvc.Document{other, article(3, "春天", "花开")})
	wantTotal(t, index, "夏天", 0)
	wantTotal(t, index, "花开", 3)
	checkRule(t, index, []searchsvc.Document{other}, ask{keyword: "冬天"})
	moved := other
	moved.TenantID = "t2"
	put(t, index, live, []searchsvc.Document{moved})
	wantTotal(t, index, "冬天", 0)
	checkRule(t, index, []searchsvc.Document{moved}, ask{keyword: "冬天", tenant: "t2"})

	ok(t, index.Delete(t.Context(), live, []string{"1", "99", "3"}))
	wantTotal(t, index, "花开", 1)
	ok(t, index.Delete(t.Context(), live, []string{"1", "3"}))
	ok(t, index.Delete(t.Context(), live, nil))
	if faults, err := index.Import(t.Context(), live, nil); len(faults) != 0 || err != nil {
		t.Errorf("no documents: %v, %v", faults, err)
	}
	wantTotal(t, index, "花开", 1)

	// One that is refused does not keep back the others.
	nameless := article(5, "春天", "花开")
	nameless.Key = ""
	faults, err := index.Import(t.Context(), live, []searchsvc.Document{article(4, "春天", "花开"), nameless, article(6, "春天", "花开")})
	if err != nil || len(faults) != 3 || faults[0] != nil || faults[1] == nil || faults[2] != nil {
		t.Errorf("a document without a key: %v, %v", faults, err)
	}
	wantTotal(t, index, "花开", 3)
}

// A generation is marked at any time, and its mark is no article: nobody finds it.
func testMarks(t *testing.T, index searchsvc.Index) {
	const first, second = "articles_1", "articles_2"
	nothing := func() {
		t.Helper()
		for _, stage := range stages {
			for _, tenant := range []string{"t1", "mark"} {
				for _, keyword := range []string{"mark", "mar", "m", "9007199254740993", "9", "0"} {
					a := ask{keyword: keyword, tenant: tenant, stage: stage, from: waypost.FromAdmin}
					if result := a.must(t, index); result.Total != 0 || len(result.Hits) != 0 {
						t.Errorf("%+v finds %+v", a, result)
					}
				}
			}
		}
	}
	mark := func(generation string, number int64) { t.Helper(); ok(t, index.Mark(t.Context(), generation, number)) }
	ok(t, index.Create(t.Context(), first))
	mark(first, 1)
	put(t, index, first, []searchsvc.Document{article(1, "春天", "花开"), article(2, "夏天", "花开")})
	mark(first, 2)
	ok(t, index.SetLive(t.Context(), first))
	nothing()
	wantTotal(t, index, "花开", 2)
	ok(t, index.Delete(t.Context(), first, []string{"1"}))
	mark(first, 1<<53+1)
	nothing()
	wantTotal(t, index, "花开", 1)

	// An article of the mark's key is refused, or another one than the mark.
	same := article(3, "秋天", "花开")
	same.Key = "mark"
	faults, err := index.Import(t.Context(), first, []searchsvc.Document{same})
	ok(t, err)
	want := 2
	if faults[0] != nil {
		want = 1
	}
	mark(first, 1<<53+2)
	wantTotal(t, index, "花开", want)

	ok(t, index.Create(t.Context(), second))
	mark(second, 1<<62)
	ok(t, index.SetLive(t.Context(), second))
	wantLive(t, index, second)
	nothing()
	wantTotal(t, index, "花开", 0)
	ok(t, index.Prune(t.Context(), second))
	put(t, index, second, []searchsvc.Document{article(1, "春天", "花开")})
	mark(second, 1<<62+1)
	wantTotal(t, index, "花开", 1)
}

// What is not there cannot be written to or searched.
func testMissing(t *testing.T, index searchsvc.Index) {
	_, err := index.Import(t.Context(), "articles_none", []searchsvc.Document{article(1, "没有", "")})
	wantAway(t, "an import into nothing", err)
	wantAway(t, "a deletion from nothing", index.Delete(t.Context(), "articles_none", []string{"1"}))
	wantAway(t, "nothing as the live one", index.SetLive(t.Context(), "articles_none"))
	wantLive(t, index, "")
	Fill(t, index, "articles_1", []searchsvc.Document{article(1, "没有", "")})
	wantAway(t, "nothing instead of the live one", index.SetLive(t.Context(), "articles_none"))
	wantLive(t, index, "articles_1")
	wantTotal(t, index, "没有", 1)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := (ask{keyword: "没有"}).search(ended, index); err == nil {
		t.Error("a search that nobody waits for is answered")
	}
}

// While generations are filled, swapped and dropped, each search sees all of one of
// them.
func testSwap(t *testing.T, index searchsvc.Index) {
	const size, swaps = 40, 5
	generation := func(n int) []searchsvc.Document {
		docs := make([]searchsvc.Document, size)
		for i := range docs {
			docs[i] = article(i+1, "交换 "+strconv.Itoa(i), "第"+strconv.Itoa(n)+"代")
		}
		return docs
	}
	Fill(t, index, "articles_0", generation(0))
	done := make(chan struct{})
	var searching sync.WaitGroup
	for range 3 {
		searching.Go(func() {
			for {
				result, err := ask{keyword: "交换"}.search(t.Context(), index)
				if err != nil || result.Total != size || len(result.Hits) != size {
					t.Errorf("total %d, %d hits: %v", result.Total, len(result.Hits), err)
					return
				}
				for _, hit := range result.Hits {
					if hit.SearchHighlight != result.Hits[0].SearchHighlight {
						t.Errorf("hits of two generations: %s, %s", hit.SearchHighlight, result.Hits[0].SearchHighlight)
						return
					}
				}
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	for n := 1; n <= swaps; n++ {
		name := "articles_" + strconv.Itoa(n)
		Fill(t, index, name, generation(n))
		ok(t, index.Prune(t.Context(), name))
		wantLive(t, index, name)
	}
	close(done)
	searching.Wait()
	wantTotal(t, index, "第"+strconv.Itoa(swaps)+"代", size)
}

// Several write to two generations at the same time, with searches and deletions in
// between: nothing is lost.
func testAtOnce(t *testing.T, index searchsvc.Index) {
	const writers, each = 3, 8
	Fill(t, index, "articles_1", nil)
	ok(t, index.Create(t.Context(), "articles_2"))
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			for i := range each {
				n := w*each + i + 1
				for _, generation := range []string{"articles_1", "articles_2"} {
					faults, err := index.Import(t.Context(), generation, []searchsvc.Document{article(n, "同写", ""), article(1000+n, "同写", "")})
					if err != nil || len(faults) != 2 || faults[0] != nil || faults[1] != nil {
						t.Errorf("import: %v, %v", faults, err)
					}
					if err := index.Delete(t.Context(), generation, []string{strconv.Itoa(1000 + n)}); err != nil {
						t.Errorf("delete: %v", err)
					}
				}
				if _, err := (ask{keyword: "同写"}).search(t.Context(), index); err != nil {
					t.Errorf("search: %v", err)
				}
			}
		})
	}
	running.Wait()
	wantTotal(t, index, "同写", writers*each)
	ok(t, index.SetLive(t.Context(), "articles_2"))
	wantTotal(t, index, "同写", writers*each)
}
