package searchsvc_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/searchsvc"
	"waypost/searchsvc/embedded"
	"waypost/store"
	"waypost/store/storetest"
)

var acme = waypost.Scope{Org: "acme", Stage: waypost.StageRelease}

// world is a store, an engine, and what the index must hold in the end.
type world struct {
	*testing.T
	*store.Store
	dir   string
	index *embedded.Index

	mu    sync.Mutex
	want  map[string]string // content by id
	last  int64             // mark, of all indexers
	marks map[string]int64  // the last by generation
}

func newWorld(t *testing.T, now func() time.Time) *world {
	w := &world{T: t, Store: storetest.SQLite(t, now), dir: t.TempDir(), want: map[string]string{}, marks: map[string]int64{}}
	w.open()
	t.Cleanup(func() { w.close() })
	return w
}

func (w *world) open() {
	w.Helper()
	var err error
	if w.index, err = embedded.Open(w.dir); err != nil {
		w.Fatal(err)
	}
}

func (w *world) close() {
	w.Helper()
	if err := w.index.Close(); err != nil {
		w.Error(err)
	}
}

// put stores an article that every search of these tests finds.
func (w *world) put(id, content string) {
	w.Helper()
	a := waypost.Article{ID: id, TenantID: "t1", Name: "常在 " + id, Identifier: id, Content: content, Published: true}
	if _, _, err := w.PutArticle(w.Context(), acme, a, nil); err != nil {
		w.Error(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.want[id] = content
}

func (w *world) remove(id string) {
	w.Helper()
	if err := w.DeleteArticle(w.Context(), acme, id, nil); err != nil {
		w.Error(err)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.want, id)
}

func (w *world) load(from, to int) {
	w.Helper()
	rows := func(yield func(waypost.ArticleRow, error) bool) {
		for n := from; n <= to; n++ {
			id, content := fmt.Sprintf("n%03d", n), fmt.Sprintf("第%d篇", n)
			w.mu.Lock()
			w.want[id] = content
			w.mu.Unlock()
			row := waypost.ArticleRow{Line: n, Article: waypost.Article{ID: id, TenantID: "t1", Name: "常在 " + id, Identifier: id, Content: content, Published: true}}
			if !yield(row, nil) {
				return
			}
		}
	}
	if result, err := w.ImportArticles(w.Context(), acme, rows); err != nil || result.Failed > 0 {
		w.Errorf("%+v, %v", result, err)
	}
}

// owned says whose tenants are, which the store is asked for elsewhere.
type owned struct{}

func (owned) TenantOrg(context.Context, string) (string, error) { return acme.Org, nil }

// found searches for all articles, on all pages.
func (w *world) found() (map[string]string, error) {
	token := waypost.SearchToken{Scope: acme, TenantIDs: []string{"t1"}, From: waypost.Origins, MaxAccessLevel: waypost.MaxAccessLevel}
	service := searchsvc.New(w.index, owned{})
	got := map[string]string{}
	for page := 1; ; page++ {
		query := url.Values{"tenant_id": {"t1"}, "from": {"frontend"}, "keywords": {"常在"}, "_per_page": {"50"}, "_page": {fmt.Sprint(page)}}
		result, err := service.Search(w.Context(), token, query.Encode())
		if err != nil {
			return nil, err
		}
		for _, hit := range result.Hits {
			got[hit.ID] = hit.SearchHighlight
		}
		if page >= result.Pages() {
			return got, nil
		}
	}
}

// settled waits until SQL knows of nothing that is left to do, and then compares
// what is found with what was put.
func (w *world) settled() {
	w.Helper()
	await(w.T, "the index holds all changes", func() bool {
		reindex, err := w.Reindex(w.Context())
		if err != nil || reindex.EndedAt == nil {
			return false
		}
		pending, _, err := w.PendingArticleChanges(w.Context())
		return err == nil && pending == 0
	})
	w.compare()
	index, err := w.ArticleIndex(w.Context())
	if err != nil {
		w.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if index.Mark == 0 || index.Mark != w.marks[index.Live] {
		w.Errorf("SQL knows the mark %d, the generation has %d", index.Mark, w.marks[index.Live])
	}
}

// marked notes a mark, which must be higher than all before.
func (w *world) marked(generation string, number int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if number <= w.last {
		w.Errorf("the mark %d after %d", number, w.last)
	}
	w.last, w.marks[generation] = number, number
}

func (w *world) compare() {
	w.Helper()
	got, err := w.found()
	if err != nil {
		w.Fatal(err)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !maps.Equal(got, w.want) {
		w.Fatalf("found %v\nwant %v", got, w.want)
	}
}

// await looks until something is so.
func await(t *testing.T, what string, so func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(30 * time.Second); !so(); <-tick.C {
		if time.Now().After(end) {
			t.Fatalf("still not so: %s", what)
		}
	}
}

// awaitStats waits for what an indexer counts: it does so after SQL shows the work.
func awaitStats(t *testing.T, x *searchsvc.Indexer, what string, so func(searchsvc.Stats) bool) {
	t.Helper()
	await(t, what, func() bool { return so(x.Stats()) })
	t.Logf("%s: %+v", what, x.Stats())
}

// hooks stand before and after each call of an index and of a source.
type hooks struct {
	searchsvc.Index
	searchsvc.Source
	world  *world
	before func(ctx context.Context, call, generation string) error
	after  func(call string) error
	refuse func(d searchsvc.Document) error // what the engine says to a document
	whole  bool                             // it says it of all that come with it
}

func (h *hooks) call(ctx context.Context, name, generation string, do func() error) error {
	if h.before != nil {
		if err := h.before(ctx, name, generation); err != nil {
			return err
		}
	}
	if err := do(); err != nil {
		return err
	}
	if h.after != nil {
		return h.after(name)
	}
	return nil
}

func (h *hooks) Live(ctx context.Context) (live string, err error) {
	return live, h.call(ctx, "live", "", func() error { live, err = h.Index.Live(ctx); return err })
}

func (h *hooks) Create(ctx context.Context, generation string) error {
	return h.call(ctx, "create", generation, func() error { return h.Index.Create(ctx, generation) })
}

func (h *hooks) Import(ctx context.Context, generation string, docs []searchsvc.Document) (faults []error, err error) {
	refused := make([]error, len(docs))
	var taken []searchsvc.Document
	for i, d := range docs {
		if h.refuse != nil {
			refused[i] = h.refuse(d)
		}
		if refused[i] == nil {
			taken = append(taken, d)
		} else if h.whole {
			return nil, refused[i]
		}
	}
	err = h.call(ctx, "import", generation, func() error { faults, err = h.Index.Import(ctx, generation, taken); return err })
	if err != nil {
		return nil, err
	}
	for i := range refused {
		if refused[i] == nil {
			refused[i], faults = faults[0], faults[1:]
		}
	}
	return refused, nil
}

func (h *hooks) Delete(ctx context.Context, generation string, keys []string) error {
	return h.call(ctx, "delete", generation, func() error { return h.Index.Delete(ctx, generation, keys) })
}

func (h *hooks) Mark(ctx context.Context, generation string, number int64) error {
	return h.call(ctx, "mark", generation, func() error {
		h.world.marked(generation, number)
		return h.Index.Mark(ctx, generation, number)
	})
}

func (h *hooks) SetLive(ctx context.Context, generation string) error {
	return h.call(ctx, "set live", generation, func() error { return h.Index.SetLive(ctx, generation) })
}

func (h *hooks) Prune(ctx context.Context, generations ...string) error {
	return h.call(ctx, "prune", "", func() error { return h.Index.Prune(ctx, generations...) })
}

func (h *hooks) HoldArticleIndex(ctx context.Context, holder, engine string, exclusive bool, ttl time.Duration) (ix waypost.ArticleIndex, held bool, err error) {
	err = h.call(ctx, "hold", "", func() error {
		ix, held, err = h.Source.HoldArticleIndex(ctx, holder, engine, exclusive, ttl)
		return err
	})
	return ix, held, err
}

func (h *hooks) ReleaseArticleIndex(ctx context.Context, holder string) error {
	return h.call(ctx, "release", "", func() error { return h.Source.ReleaseArticleIndex(ctx, holder) })
}

func (h *hooks) ArticleChanges(ctx context.Context, limit int) (changes []waypost.ArticleChange, err error) {
	return changes, h.call(ctx, "changes", "", func() error { changes, err = h.Source.ArticleChanges(ctx, limit); return err })
}

func (h *hooks) DoneArticleChanges(ctx context.Context, holder string, done []waypost.ArticleChange, mark int64) error {
	return h.call(ctx, "done", "", func() error { return h.Source.DoneArticleChanges(ctx, holder, done, mark) })
}

func (h *hooks) BeginReindex(ctx context.Context, holder, generation string) error {
	return h.call(ctx, "begin", "", func() error { return h.Source.BeginReindex(ctx, holder, generation) })
}

func (h *hooks) ReindexPage(ctx context.Context, after int64, limit int) (page []waypost.IndexedArticle, err error) {
	return page, h.call(ctx, "page", "", func() error { page, err = h.Source.ReindexPage(ctx, after, limit); return err })
}

func (h *hooks) AdvanceReindex(ctx context.Context, holder string, cursor int64, processed int) error {
	return h.call(ctx, "advance", "", func() error { return h.Source.AdvanceReindex(ctx, holder, cursor, processed) })
}

func (h *hooks) FinishReindex(ctx context.Context, holder, engine string, mark int64) error {
	return h.call(ctx, "finish", "", func() error { return h.Source.FinishReindex(ctx, holder, engine, mark) })
}

// hooked gives h the world's index and store.
func (w *world) hooked(h hooks) *hooks {
	h.Index, h.Source, h.world = w.index, w.Store, w
	return &h
}

// start runs an indexer until stop is called; it ends before the test does.
func (w *world) start(h *hooks, exclusive bool) (x *searchsvc.Indexer, stop func()) {
	return w.run(w.Context(), h, exclusive, hold)
}

// run is start, for holds that last this long.
func (w *world) run(ctx context.Context, h *hooks, exclusive bool, lasts time.Duration) (x *searchsvc.Indexer, stop func()) {
	x = searchsvc.NewIndexer(h, h, exclusive, slog.New(slog.DiscardHandler))
	x.Hurry(lasts)
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	running.Go(func() { x.Run(ctx) })
	stop = func() { cancel(); running.Wait() }
	w.Cleanup(stop)
	return x, stop
}

var errAway = waypost.Errorf(waypost.CodeServiceUnavailable, "", "article search is away")

func TestIndexer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	w.put("a", "早")
	w.put("b", "早")
	if _, err := w.found(); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
		t.Errorf("before the first generation: %v", err)
	}
	h := w.hooked(hooks{})
	x, stop := w.start(h, true)
	w.settled()
	w.put("a", "晚")
	w.put("c", "新")
	w.remove("b")
	x.Wake()
	w.settled()
	w.load(1, 20)
	w.settled()
	w.put("a", "再")
	w.remove("n007")
	w.settled()
	awaitStats(t, x, "it has counted all that", func(got searchsvc.Stats) bool {
		return got.Holds && !got.Away && !got.Reindexing && got.Reindexes == 1 && got.Failures == 0 && got.Refused == 0 &&
			got.Removed == 2 && got.Indexed >= 25
	})
	stop()
	if got := x.Stats(); got.Holds {
		t.Errorf("%+v after the end", got)
	}
	if _, held, err := w.HoldArticleIndex(t.Context(), "next", "another", false, time.Minute); !held || err != nil {
		t.Errorf("it is not given back: %t, %v", held, err)
	}
}

// longestRetry is the longest pause of a hurried indexer.
const longestRetry = 10 * time.Millisecond

// While the engine is away, everything is kept for it, and it is not overrun.
func TestIndexerEngineAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	var away atomic.Bool
	var calls atomic.Int32
	h := w.hooked(hooks{before: func(_ context.Context, call, generation string) error {
		if away.Load() && slices.Contains([]string{"live", "create", "import", "delete", "mark", "set live", "prune"}, call) {
			calls.Add(1)
			return errAway
		}
		return nil
	}})
	away.Store(true)
	w.put("a", "早")
	x, _ := w.start(h, true)
	for round := range 3 {
		await(t, "it has tried", func() bool { return x.Stats().Away && calls.Load() > 4 })
		w.put("a", fmt.Sprint(round))
		w.put(fmt.Sprint("b", round), "新")
		if round > 0 {
			w.remove(fmt.Sprint("b", round-1))
		}
		const tries = 20
		begin, before := time.Now(), x.Stats().Failures
		await(t, "it has tried often", func() bool {
			for x.Wake(); time.Since(begin) < tries/2*longestRetry && x.Stats().Failures < before+tries; {
				x.Wake()
			}
			return x.Stats().Failures >= before+tries
		})
		if took := time.Since(begin); took < tries/2*longestRetry {
			t.Errorf("%d tries within %s, however often it is woken", tries, took)
		}
		away.Store(false)
		w.settled()
		await(t, "it works again", func() bool { return !x.Stats().Away })
		away.Store(true)
		calls.Store(0)
	}
}

// However often and wherever it is killed, nothing is lost or searched by halves:
// right after each call, which is right before the next one.
func TestIndexerKilled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	w.load(1, 4)
	_, stop := w.start(w.hooked(hooks{}), true)
	w.settled()
	stop()

	watching := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for {
			got, err := w.found()
			if err != nil || len(got) < 4 {
				t.Errorf("found %d articles: %v", len(got), err)
			}
			select {
			case <-watching:
				return
			case <-tick.C:
			}
		}
	})
	for round, last := range []struct {
		call string
		nth  int32
	}{
		{"hold", 1}, {"live", 1}, {"create", 1}, {"begin", 1}, {"prune", 1}, {"changes", 1}, {"import", 1}, {"delete", 1}, {"import", 2},
		{"delete", 2}, {"mark", 1}, {"done", 1}, {"page", 1}, {"import", 3}, {"advance", 1}, {"done", 2}, {"page", 2}, {"import", 6}, {"advance", 2},
		{"page", 3}, {"mark", 2}, {"mark", 3}, {"set live", 1}, {"finish", 1}, {"prune", 2},
	} {
		w.put("a", fmt.Sprint("第", round))
		w.put(fmt.Sprint("b", round), "新")
		w.remove(fmt.Sprint("b", round))
		w.put("c", fmt.Sprint("第", round))
		w.put("d", fmt.Sprint("第", round))
		if _, err := w.RequestReindex(t.Context(), waypost.Scope{}); err != nil {
			t.Fatal(err)
		}
		ctx, kill := context.WithCancel(t.Context())
		var calls atomic.Int32
		var dead atomic.Bool
		_, stop := w.run(ctx, w.hooked(hooks{
			before: func(context.Context, string, string) error {
				if dead.Load() { // so it does not give the index back
					return context.Canceled
				}
				return nil
			},
			after: func(call string) error {
				if call == last.call && calls.Add(1) == last.nth {
					dead.Store(true)
					kill()
					return context.Canceled
				}
				return nil
			},
		}), true, hold)
		await(t, fmt.Sprintf("it is killed after call %d to %s", last.nth, last.call), dead.Load)
		stop()
		_, stop = w.start(w.hooked(hooks{}), true)
		w.settled()
		stop()
	}
	close(watching)
	watch.Wait()
}

// A generation is marked after what was written to it and before SQL knows of that: the
// one that is searched, and another one only when it holds all articles.
func TestIndexerMarks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	w.load(1, 10)
	var calls [][2]string
	_, stop := w.start(w.hooked(hooks{before: func(_ context.Context, call, generation string) error {
		switch call {
		case "import", "delete", "mark", "set live", "done":
			calls = append(calls, [2]string{call, generation})
		case "begin": // so there are changes for two generations
			w.put("a", "新")
			w.put("b", "新")
			w.remove("a")
		}
		return nil
	}}), true)
	w.settled()
	if _, err := w.RequestReindex(t.Context(), waypost.Scope{}); err != nil {
		t.Fatal(err)
	}
	w.settled()
	w.put("c", "新")
	w.settled()
	stop()
	live, written, marks := "", map[string]bool{}, map[string]int{}
	for i, c := range calls {
		call, generation := c[0], c[1]
		switch {
		case call == "set live":
			live = generation
		case call == "import" || call == "delete":
			written[generation] = true
		case call == "mark":
			next := calls[i+1]
			if !written[generation] {
				t.Errorf("%q is marked, and only %v are written", generation, written)
			}
			if next[0] == "done" && generation != live || next[0] != "done" && next != [2]string{"set live", generation} {
				t.Errorf("%v is marked before %v while %s is live", generation, next, live)
			}
			marks[next[0]]++
		case call == "done" && live != "" && calls[i-1][0] != "mark":
			t.Errorf("done after %v", calls[i-1])
		}
	}
	if marks["set live"] != 2 || marks["done"] < 2 {
		t.Errorf("marks before %v of %v", marks, calls)
	}
}

// hold is how long a hold lasts by a clock that stands still.
const hold = time.Minute

// Of two indexers one works, and the other goes on when it has ended or been killed.
func TestIndexersTakeTurns(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	w := newWorld(t, clock.Now)
	var mu sync.Mutex
	writing := ""
	turns := map[string]int{}
	hooked := func(name string, dead *atomic.Bool) *hooks {
		return w.hooked(hooks{
			before: func(_ context.Context, call, _ string) error {
				mu.Lock()
				defer mu.Unlock()
				switch {
				case dead.Load():
					return errAway
				case call == "import" && writing != "":
					t.Errorf("%s writes while %s does", name, writing)
				case call == "import":
					writing = name
					turns[name]++
				}
				return nil
			},
			after: func(call string) error {
				mu.Lock()
				defer mu.Unlock()
				if call == "import" {
					writing = ""
				}
				return nil
			},
		})
	}
	var alive, deadB atomic.Bool
	a, stopA := w.start(hooked("a", &alive), false)
	w.load(1, 10)
	w.settled()
	b, _ := w.start(hooked("b", &deadB), false)
	w.load(11, 20)
	w.settled()
	awaitStats(t, a, "the first one holds", func(got searchsvc.Stats) bool { return got.Holds })
	if b.Stats().Holds {
		t.Errorf("a %+v, b %+v", a.Stats(), b.Stats())
	}
	stopA()
	w.load(21, 30)
	w.settled()
	deadB.Store(true) // killed: it neither renews nor gives back
	c, _ := w.start(hooked("c", &alive), false)
	w.load(31, 40)
	await(t, "the third one takes over", func() bool { clock.Advance(hold); return c.Stats().Holds })
	w.settled()
	deadB.Store(false)
	await(t, "b has noticed", func() bool { return !b.Stats().Holds })
	awaitStats(t, c, "the third one holds", func(got searchsvc.Stats) bool { return got.Holds })
	w.put("a", "后")
	w.settled()
	if turns["a"] == 0 || turns["b"] == 0 || turns["c"] == 0 {
		t.Errorf("%v", turns)
	}
}

// A process that cannot renew its hold stops writing by itself, even in the middle of
// a call, before another one may begin.
func TestIndexerLosesHold(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	w := newWorld(t, clock.Now)
	const short = 300 * time.Millisecond
	var block, cut, stuck, ended atomic.Bool
	x, _ := w.run(t.Context(), w.hooked(hooks{before: func(ctx context.Context, call, _ string) error {
		switch {
		case cut.Load() && call == "hold":
			return errors.New("no connection")
		case block.Load() && call == "import":
			stuck.Store(true)
			<-ctx.Done()
			ended.Store(true)
			return errAway
		}
		return nil
	}}), false, short)
	w.put("a", "早")
	w.settled()
	block.Store(true)
	w.put("a", "晚")
	await(t, "it is in the middle of a call", stuck.Load)
	cut.Store(true)
	await(t, "it gives up", func() bool { return ended.Load() && !x.Stats().Holds })
	y, _ := w.start(w.hooked(hooks{}), false)
	clock.Advance(short)
	w.settled()
	awaitStats(t, y, "the other one holds", func(got searchsvc.Stats) bool { return got.Holds })
	cut.Store(false)
	block.Store(false)
	await(t, "the first waits", func() bool { return !x.Stats().Holds && !x.Stats().Away })
}

// A call may take longer than a hold lasts.
func TestIndexerKeepsHold(t *testing.T) {
	t.Parallel()
	clock := storetest.NewClock()
	w := newWorld(t, clock.Now)
	var stuck atomic.Bool
	var renewals, tries atomic.Int32
	free := make(chan struct{})
	x, _ := w.start(w.hooked(hooks{before: func(ctx context.Context, call, _ string) error {
		if call != "import" {
			return nil
		}
		stuck.Store(true)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-free:
			return nil
		}
	}, after: func(call string) error {
		if call == "hold" {
			renewals.Add(1)
		}
		return nil
	}}), false)
	w.put("a", "早")
	await(t, "it is in the middle of a call", stuck.Load)
	y, _ := w.start(w.hooked(hooks{after: func(call string) error {
		if call == "hold" {
			tries.Add(1)
		}
		return nil
	}}), false)
	for range 4 {
		clock.Advance(hold / 2)
		renewed, tried := renewals.Load(), tries.Load()
		await(t, "it renews, and the other tries", func() bool { return renewals.Load() > renewed+1 && tries.Load() > tried+1 })
	}
	close(free)
	w.settled()
	awaitStats(t, x, "it still holds", func(got searchsvc.Stats) bool { return got.Holds })
	if y.Stats().Holds || x.Stats().Failures > 0 {
		t.Errorf("%+v, %+v", x.Stats(), y.Stats())
	}
}

// A reindex with writes and searches running.
func TestIndexerReindex(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	w.load(1, 25)
	x, _ := w.start(w.hooked(hooks{}), true)
	w.settled()
	for reindex := range 2 {
		before, err := w.index.Live(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.RequestReindex(t.Context(), waypost.Scope{}); err != nil {
			t.Fatal(err)
		}
		x.Wake()
		var busy sync.WaitGroup
		busy.Go(func() {
			for i := range 8 {
				w.put(fmt.Sprintf("n%03d", 1+i*2), fmt.Sprint("改", reindex, i))
				w.put(fmt.Sprint("x", i), "新")
				x.Wake()
				w.remove(fmt.Sprint("x", i))
			}
		})
		busy.Go(func() {
			for range 5 {
				if got, err := w.found(); err != nil || len(got) < 25 {
					t.Errorf("found %d articles: %v", len(got), err)
				}
			}
		})
		busy.Wait()
		w.settled()
		if live, err := w.index.Live(t.Context()); err != nil || live == before {
			t.Errorf("live %q (%v) is the old one", live, err)
		}
		done, err := w.Store.Reindex(t.Context())
		if err != nil || done.Status != waypost.ReindexSucceeded || done.Processed < 25 {
			t.Errorf("%+v, %v", done, err)
		}
	}
	awaitStats(t, x, "three were counted", func(got searchsvc.Stats) bool { return got.Reindexes == 3 })
}

// An engine that has lost its articles, or is another one, is filled again unasked.
func TestIndexerEngineLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	w.load(1, 10)
	_, stop := w.start(w.hooked(hooks{}), true)
	w.settled()
	stop()
	w.close()
	w.dir = t.TempDir()
	w.open()
	if _, err := w.found(); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
		t.Errorf("an empty engine: %v", err)
	}
	w.put("a", "之后")
	w.remove("n003")
	x, _ := w.start(w.hooked(hooks{}), true)
	await(t, "it is filled", func() bool { return x.Stats().Reindexes == 1 })
	w.settled()

	// What searches use is another generation than SQL knows: from a backup, say.
	if err := w.index.Create(t.Context(), "articles_strange"); err != nil {
		t.Fatal(err)
	}
	if err := w.index.SetLive(t.Context(), "articles_strange"); err != nil {
		t.Fatal(err)
	}
	await(t, "it is filled again", func() bool { return x.Stats().Reindexes == 2 })
	w.settled()
}

// A generation that cannot be written while the engine is there is built anew: the
// one that a reindex fills, and the one that is searched.
func TestIndexerGenerationLost(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	var lost atomic.Value
	lost.Store("")
	h := w.hooked(hooks{before: func(_ context.Context, call, generation string) error {
		if generation != "" && generation == lost.Load() && (call == "import" || call == "delete") {
			return errAway
		}
		return nil
	}})
	created := ""
	create := h.before
	h.before = func(ctx context.Context, call, generation string) error {
		if call == "create" && created == "" {
			created = generation
			lost.Store(generation)
		}
		return create(ctx, call, generation)
	}
	w.load(1, 10)
	x, _ := w.start(h, true)
	w.settled()
	live, err := w.index.Live(t.Context())
	if err != nil || live == created {
		t.Errorf("%q is live: %v", live, err)
	}
	lost.Store(live)
	w.put("a", "新")
	w.remove("n001")
	await(t, "it is replaced", func() bool { return x.Stats().Reindexes == 2 })
	w.settled()
}

// What the engine refuses is tried again later, and keeps back nothing else.
func TestIndexerRefused(t *testing.T) {
	t.Parallel()
	for _, whole := range []bool{false, true} {
		t.Run(fmt.Sprint("whole ", whole), func(t *testing.T) {
			t.Parallel()
			clock := storetest.NewClock()
			w := newWorld(t, clock.Now)
			var refusing atomic.Bool
			refusing.Store(true)
			var tries atomic.Int32
			x, _ := w.start(w.hooked(hooks{whole: whole, refuse: func(d searchsvc.Document) error {
				if refusing.Load() && strings.HasPrefix(d.Content, "毒") {
					tries.Add(1)
					return errors.New("refused")
				}
				return nil
			}}), true)
			w.load(1, 5)
			w.settled()
			w.put("bad", "毒药")
			w.load(6, 30)
			await(t, "the others are there", func() bool {
				pending, _, err := w.PendingArticleChanges(t.Context())
				return err == nil && pending == 1
			})
			delete(w.want, "bad")
			w.compare()
			w.want["bad"] = "毒药"
			once := tries.Load()
			clock.Advance(1500 * time.Millisecond)
			x.Wake()
			await(t, "it was tried again", func() bool { return tries.Load() > once && x.Stats().Refused == 2 })
			refusing.Store(false)
			clock.Advance(3 * time.Second)
			w.settled()
			if got := x.Stats(); got.Failures != 0 || got.Refused != 2 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// A reindex leaves out what the engine refuses, but not too much: then what is
// searched stays as it is.
func TestIndexerReindexRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	w.load(1, 40)
	refused := atomic.Pointer[string]{}
	nothing, one, all := "nothing", "第7篇", "第"
	refused.Store(&nothing)
	x, _ := w.start(w.hooked(hooks{refuse: func(d searchsvc.Document) error {
		if strings.HasPrefix(d.Content, *refused.Load()) {
			return errors.New("refused")
		}
		return nil
	}}), true)
	w.settled()
	reindex := func(what *string, status waypost.ReindexStatus, found int) {
		t.Helper()
		refused.Store(what)
		if _, err := w.RequestReindex(t.Context(), waypost.Scope{}); err != nil {
			t.Fatal(err)
		}
		var last waypost.Reindex
		await(t, "the reindex has ended", func() (ended bool) {
			var err error
			last, err = w.Store.Reindex(t.Context())
			return err == nil && last.EndedAt != nil
		})
		got, err := w.found()
		if last.Status != status || err != nil || len(got) != found {
			t.Errorf("%+v; found %d articles, want %d: %v", last, len(got), found, err)
		}
	}
	reindex(&one, waypost.ReindexSucceeded, 39)
	live, err := w.index.Live(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	reindex(&all, waypost.ReindexFailed, 39)
	if now, err := w.index.Live(t.Context()); err != nil || now != live {
		t.Errorf("live %q (%v), want %q", now, err, live)
	}
	w.put("a", "之后")
	await(t, "changes go on", func() bool { return x.Stats().Indexed > 0 && w.has("a") })
	reindex(&nothing, waypost.ReindexSucceeded, 41)
	w.settled()
}

func (w *world) has(id string) bool {
	got, err := w.found()
	return err == nil && got[id] != ""
}

// An index of one process is claimed at the start, at once where its former process
// has died, and not beside another process that serves now.
func TestIndexerClaim(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	h := w.hooked(hooks{})
	claim := func(index searchsvc.Index, exclusive bool) error {
		return searchsvc.NewIndexer(index, w.Store, exclusive, slog.New(slog.DiscardHandler)).Claim(t.Context())
	}
	for range 2 {
		if err := claim(h, true); err != nil {
			t.Error(err)
		}
	}
	other, err := embedded.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := claim(other, true); err == nil || !strings.Contains(err.Error(), "WAYPOST_TYPESENSE_URL") {
		t.Errorf("beside another process: %v", err)
	}
	if err := claim(other, false); err != nil {
		t.Errorf("an index that processes share: %v", err)
	}
	x, stop := w.start(h, true)
	await(t, "it holds", func() bool { return x.Stats().Reindexes == 1 })
	stop()
	if err := claim(other, true); err != nil {
		t.Errorf("after the other has ended: %v", err)
	}
}

// A process whose engine was never there does not keep the articles from one that has
// another engine.
func TestIndexerNeverReached(t *testing.T) {
	t.Parallel()
	w := newWorld(t, time.Now)
	nowhere, _ := w.start(w.hooked(hooks{before: func(_ context.Context, call, _ string) error {
		if call == "live" {
			return errAway
		}
		return nil
	}}), false)
	await(t, "it has tried", func() bool { return nowhere.Stats().Failures > 1 })
	if nowhere.Stats().Holds {
		t.Error("it holds the index")
	}
	x := searchsvc.NewIndexer(w.index, w.Store, true, slog.New(slog.DiscardHandler))
	if err := x.Claim(t.Context()); err != nil {
		t.Error(err)
	}
}
