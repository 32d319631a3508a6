package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
)

const leaseTTL = 15 * time.Second

// hold fails unless holder gets the index.
func (f *fixture) hold(t testing.TB, holder, engine string) waypost.ArticleIndex {
	t.Helper()
	ix, held, err := f.HoldArticleIndex(t.Context(), holder, engine, false, leaseTTL)
	ok(t, err)
	if !held {
		t.Fatalf("%s does not hold the index", holder)
	}
	return ix
}

// changes returns what is due, and how many changes there are.
func (f *fixture) changes(t testing.TB) ([]waypost.ArticleChange, int) {
	t.Helper()
	due := must[[]waypost.ArticleChange](t)(f.ArticleChanges(t.Context(), 1000))
	n, _, err := f.PendingArticleChanges(t.Context())
	ok(t, err)
	return due, n
}

// ids names the articles of changes in their order, a deleted one "-".
func ids(changes []waypost.ArticleChange) string {
	list := make([]string, len(changes))
	for i, c := range changes {
		list[i] = "-"
		if c.Article != nil {
			list[i] = c.Article.ID
		}
	}
	return strings.Join(list, " ")
}

// settled fails unless exactly these changes are due.
func (f *fixture) settled(t testing.TB, want string) []waypost.ArticleChange {
	t.Helper()
	due, _ := f.changes(t)
	equal(t, "due", ids(due), want)
	return due
}

func named(id string) waypost.Article {
	return waypost.Article{ID: id, TenantID: "site-1", Name: "n", Identifier: "x"}
}

var articleIndexTests = []test{
	{"changes come in order and once", func(t *testing.T, f *fixture) {
		n, oldest, err := f.PendingArticleChanges(t.Context())
		ok(t, err)
		equal(t, "pending", n, 0)
		equal(t, "oldest", oldest, time.Time{})
		tick := func() { f.clock.Advance(time.Millisecond) }
		began := f.clock.Now()
		must[waypost.ArticleImport](t)(f.ImportArticles(t.Context(), scope, articleRows(named("i1"), named("i2"), named("i3"))))
		tick()
		f.put(t, named("a"))
		tick()
		f.put(t, named("b"))
		tick()
		_, _, err = f.PutArticle(t.Context(), foreign[0], named("c"), nil)
		ok(t, err)
		tick()
		f.put(t, named("a"))  // keeps its place
		f.put(t, named("i2")) // is no longer one of an import, and the oldest
		must[waypost.ArticleImport](t)(f.ImportArticles(t.Context(), scope, articleRows(named("b"))))
		due := f.settled(t, "i2 a b c i1 i3")
		equal(t, "revision", []int64{due[0].Revision, due[1].Revision, due[2].Revision, due[3].Revision, due[4].Revision}, []int64{2, 2, 2, 1, 1})
		equal(t, "stage", due[3].Article.Stage, waypost.StageTest)
		equal(t, "whole", due[1].Article.Article, must[waypost.Article](t)(f.Article(t.Context(), scope, "a")))
		equal(t, "number", due[1].Article.Number, due[1].Number)
		for limit, want := range map[int]string{1: "i2", 4: "i2 a b c", 5: "i2 a b c i1"} {
			equal(t, "limited", ids(must[[]waypost.ArticleChange](t)(f.ArticleChanges(t.Context(), limit))), want)
		}
		n, oldest, err = f.PendingArticleChanges(t.Context())
		ok(t, err)
		equal(t, "pending", n, 6)
		equal(t, "oldest", oldest, began)

		ok(t, f.DeleteArticle(t.Context(), scope, "i1", nil))
		ok(t, f.DeleteArticle(t.Context(), scope, "a", nil))
		due = f.settled(t, "- i2 - b c i3")
		f.hold(t, "p1", "engine")
		ok(t, f.DoneArticleChanges(t.Context(), "p1", due[:3], 0))
		ok(t, f.DoneArticleChanges(t.Context(), "p1", nil, 0))
		f.settled(t, "b c i3")
		// An article that was deleted and comes again is another one.
		f.put(t, named("a"))
		again := f.settled(t, "b c a i3")
		if again[2].Number <= due[5].Number {
			t.Fatalf("number %d was used before", again[2].Number)
		}
	}},
	{"what changes meanwhile stays", func(t *testing.T, f *fixture) {
		f.hold(t, "p1", "engine")
		f.put(t, named("a"))
		f.put(t, named("b"))
		first := f.settled(t, "a b")
		f.put(t, named("a"))
		ok(t, f.DoneArticleChanges(t.Context(), "p1", first, 0))
		second := f.settled(t, "a")
		ok(t, f.DoneArticleChanges(t.Context(), "p1", second, 0))
		f.settled(t, "")
		// It was done and has changed again: what was done is not done twice.
		f.put(t, named("a"))
		ok(t, f.DeleteArticle(t.Context(), scope, "b", nil))
		ok(t, f.DoneArticleChanges(t.Context(), "p1", append(first, second...), 0))
		ok(t, f.DeferArticleChanges(t.Context(), "p1", append(first, second...)))
		f.settled(t, "a -")
	}},
	{"about 8 MiB at once", func(t *testing.T, f *fixture) {
		f.hold(t, "p1", "engine")
		for i, size := range []int{3 << 20, 3 << 20, 3 << 20, 9 << 20, 1} {
			a := named(fmt.Sprint(i))
			a.Content = strings.Repeat("x", size)
			f.put(t, a)
			f.clock.Advance(time.Millisecond)
		}
		after := int64(0)
		for _, want := range []string{"0 1", "2", "3", "4", ""} {
			due := f.settled(t, want)
			page := must[[]waypost.IndexedArticle](t)(f.ReindexPage(t.Context(), after, 1000))
			list := make([]string, len(page))
			for i, a := range page {
				list[i], after = a.ID, a.Number
			}
			equal(t, "page", strings.Join(list, " "), want)
			ok(t, f.DoneArticleChanges(t.Context(), "p1", due, 0))
		}
	}},
	{"what the index refuses waits longer each time", func(t *testing.T, f *fixture) {
		f.hold(t, "p1", "engine")
		f.put(t, named("bad"))
		f.put(t, named("good"))
		due := f.settled(t, "bad good")
		ok(t, f.DoneArticleChanges(t.Context(), "p1", due[1:], 0))
		bad := due[:1]
		for try, delay := 0, time.Second; try < 16; try++ {
			equal(t, "tries", bad[0].Tries, try)
			ok(t, f.DeferArticleChanges(t.Context(), "p1", bad))
			ok(t, f.DeferArticleChanges(t.Context(), "p1", bad)) // once more, as after a lost answer
			f.clock.Advance(delay - time.Microsecond)
			f.settled(t, "")
			f.clock.Advance(time.Microsecond)
			bad = f.settled(t, "bad")
			delay = min(2*delay, time.Hour)
		}
		f.clock.Advance(time.Millisecond)
		f.put(t, named("new")) // before what was deferred, though that is older
		f.settled(t, "new bad")
		ok(t, f.DeferArticleChanges(t.Context(), "p1", bad))
		f.settled(t, "new")
		f.put(t, named("bad")) // perhaps it is good now
		bad = f.settled(t, "bad new")[:1]
		equal(t, "tries", bad[0].Tries, 0)
		n, _, err := f.PendingArticleChanges(t.Context())
		ok(t, err)
		equal(t, "pending", n, 2)
	}},
	{"one process holds the index", func(t *testing.T, f *fixture) {
		try := func(holder, engine string, exclusive, want bool) {
			t.Helper()
			_, held, err := f.HoldArticleIndex(t.Context(), holder, engine, exclusive, leaseTTL)
			ok(t, err)
			if held != want {
				t.Fatalf("%s on %s: held %v", holder, engine, held)
			}
		}
		try("p1", "e1", false, true)
		try("p2", "e1", false, false)
		try("p2", "e2", true, false)
		f.clock.Advance(5 * time.Second) // not written yet: it lasts two thirds
		try("p1", "e1", false, true)
		f.clock.Advance(time.Second)
		try("p1", "e1", false, true) // renewed
		f.clock.Advance(leaseTTL - time.Microsecond)
		try("p2", "e1", false, false)
		f.clock.Advance(time.Microsecond)
		ok(t, f.BeginReindex(t.Context(), "p1", "g")) // late, but nobody else has it
		try("p2", "e1", false, true)
		wantCode(t, f.BeginReindex(t.Context(), "p1", "g"), waypost.CodeConflict)
		try("p1", "e1", false, false)
		ok(t, f.ReleaseArticleIndex(t.Context(), "p1")) // it is not its own
		try("p1", "e1", false, false)
		ok(t, f.ReleaseArticleIndex(t.Context(), "p2"))
		try("p1", "e1", false, true)
		// Whoever has the folder knows that the process before is dead.
		try("p3", "e1", true, true)
		try("p1", "e1", false, false)
		ok(t, f.ReleaseArticleIndex(t.Context(), "p3"))

		got := 0
		var mu sync.Mutex
		for _, err := range atOnce(8, func(i int) error {
			_, held, err := f.HoldArticleIndex(t.Context(), fmt.Sprint("q", i), "e1", false, leaseTTL)
			mu.Lock()
			defer mu.Unlock()
			if held {
				got++
			}
			return err
		}) {
			ok(t, err)
		}
		equal(t, "holders", got, 1)
	}},
	{"an installation has one name", func(t *testing.T, f *fixture) {
		names := make([]string, 8)
		for _, err := range atOnce(len(names), func(i int) (err error) {
			names[i], err = f.Installation(t.Context())
			return err
		}) {
			ok(t, err)
		}
		f.hold(t, "p1", "e1")
		again := must[string](t)(f.Installation(t.Context()))
		for _, name := range names {
			if name == "" || name != again {
				t.Errorf("names %q, then %q", names, again)
			}
		}
	}},
	{"each holder has a higher epoch", func(t *testing.T, f *fixture) {
		epoch := func(what string, ix waypost.ArticleIndex, want int64) {
			t.Helper()
			equal(t, what, ix.Epoch, want)
		}
		read := func() waypost.ArticleIndex {
			t.Helper()
			return must[waypost.ArticleIndex](t)(f.ArticleIndex(t.Context()))
		}
		epoch("nobody", read(), 0)
		epoch("first", f.hold(t, "p1", "e1"), 1)
		f.clock.Advance(leaseTTL / 2)
		epoch("renewed", f.hold(t, "p1", "e1"), 1)
		f.clock.Advance(leaseTTL)
		epoch("late, but nobody else had it", f.hold(t, "p1", "e2"), 1)
		ix, held, err := f.HoldArticleIndex(t.Context(), "p2", "e2", false, leaseTTL)
		ok(t, err)
		equal(t, "held", held, false)
		epoch("refused", ix, 1)
		ok(t, f.BeginReindex(t.Context(), "p1", "g"))
		f.clock.Advance(leaseTTL)
		epoch("taken over", f.hold(t, "p2", "e2"), 2)
		ok(t, f.ReleaseArticleIndex(t.Context(), "p2"))
		must[waypost.Reindex](t)(f.RequestReindex(t.Context(), scope))
		epoch("given back", read(), 2)
		epoch("taken again", f.hold(t, "p2", "e2"), 3)
		ix, held, err = f.HoldArticleIndex(t.Context(), "p3", "e2", true, leaseTTL)
		ok(t, err)
		equal(t, "held", held, true)
		epoch("exclusive", ix, 4)
	}},
	{"the mark is noted with what is done", func(t *testing.T, f *fixture) {
		mark := func(want int64) {
			t.Helper()
			equal(t, "mark", must[waypost.ArticleIndex](t)(f.ArticleIndex(t.Context())).Mark, want)
		}
		f.hold(t, "p1", "engine")
		f.put(t, named("a"))
		first := f.settled(t, "a")
		f.put(t, named("a"))
		const high = int64(1)<<62 + 1
		ok(t, f.DoneArticleChanges(t.Context(), "p1", first, high)) // nothing is done: it has changed since
		mark(high)
		second := f.settled(t, "a")
		ok(t, f.DoneArticleChanges(t.Context(), "p1", second, 0)) // what is searched was not marked
		mark(high)
		ok(t, f.DoneArticleChanges(t.Context(), "p1", second, high+1))
		ok(t, f.DoneArticleChanges(t.Context(), "p1", second, high)) // an old one
		mark(high + 1)
		wantCode(t, f.DoneArticleChanges(t.Context(), "p2", second, high+2), waypost.CodeConflict)
		ok(t, f.BeginReindex(t.Context(), "p1", "g"))
		mark(high + 1)
		wantCode(t, f.FinishReindex(t.Context(), "p2", "engine", high+2), waypost.CodeConflict)
		mark(high + 1)
		ok(t, f.FinishReindex(t.Context(), "p1", "engine", high+3))
		mark(high + 3)
		ok(t, f.ReleaseArticleIndex(t.Context(), "p1"))
		f.hold(t, "p2", "other")
		mark(high + 3)
	}},
	{"only the holder writes", func(t *testing.T, f *fixture) {
		f.put(t, named("a"))
		due := f.settled(t, "a")
		f.hold(t, "p1", "engine")
		for _, holder := range []string{"p2", ""} {
			for name, err := range map[string]error{
				"done":    f.DoneArticleChanges(t.Context(), holder, due, 9),
				"defer":   f.DeferArticleChanges(t.Context(), holder, due),
				"begin":   f.BeginReindex(t.Context(), holder, "g"),
				"advance": f.AdvanceReindex(t.Context(), holder, 1, 1),
				"finish":  f.FinishReindex(t.Context(), holder, "engine", 9),
				"fail":    f.FailReindex(t.Context(), holder, "m"),
			} {
				if waypost.CodeOf(err) != waypost.CodeConflict {
					t.Errorf("%s by %q: %v", name, holder, err)
				}
			}
		}
		f.settled(t, "a")
		equal(t, "index", f.hold(t, "p1", "engine"), waypost.ArticleIndex{Epoch: 1})
		// Nobody holds it: then nobody writes it.
		ok(t, f.ReleaseArticleIndex(t.Context(), "p1"))
		wantCode(t, f.DoneArticleChanges(t.Context(), "", due, 9), waypost.CodeConflict)
	}},
	{"a reindex from its request to its end", func(t *testing.T, f *fixture) {
		_, err := f.Reindex(t.Context())
		wantCode(t, err, waypost.CodeNotFound)
		for i := range 5 {
			f.put(t, named(fmt.Sprint(i)))
		}
		asked := f.clock.Now()
		pending := waypost.Reindex{Status: waypost.ReindexPending, CreatedAt: asked}
		equal(t, "asked", must[waypost.Reindex](t)(f.RequestReindex(t.Context(), scope)), pending)
		f.clock.Advance(time.Second)
		equal(t, "asked again", must[waypost.Reindex](t)(f.RequestReindex(t.Context(), scope)), pending)
		equal(t, "index", f.hold(t, "p1", "e1"), waypost.ArticleIndex{Requested: true, Epoch: 1})

		started := f.clock.Now()
		ok(t, f.BeginReindex(t.Context(), "p1", "g1"))
		running := waypost.Reindex{Status: waypost.ReindexRunning, Total: 5, CreatedAt: asked, StartedAt: &started}
		equal(t, "begun", must[waypost.Reindex](t)(f.Reindex(t.Context())), running)
		page := must[[]waypost.IndexedArticle](t)(f.ReindexPage(t.Context(), 0, 2))
		equal(t, "page", []string{page[0].ID, page[1].ID}, []string{"0", "1"})
		equal(t, "whole", page[0].Article, must[waypost.Article](t)(f.Article(t.Context(), scope, "0")))
		last := page[1].Number
		for range 2 { // the second time as after a lost answer
			ok(t, f.AdvanceReindex(t.Context(), "p1", last, 2))
		}
		// The process dies; another one continues.
		f.clock.Advance(leaseTTL)
		equal(t, "taken over", f.hold(t, "p2", "e1"), waypost.ArticleIndex{Engine: "e1", Building: "g1", Cursor: last, Epoch: 2})
		wantCode(t, f.AdvanceReindex(t.Context(), "p1", last+10, 2), waypost.CodeConflict)
		running.Processed = 2
		equal(t, "asked while it runs", must[waypost.Reindex](t)(f.RequestReindex(t.Context(), scope)), running)
		page = must[[]waypost.IndexedArticle](t)(f.ReindexPage(t.Context(), last, 100))
		equal(t, "page", len(page), 3)
		last = page[2].Number
		equal(t, "past the end", len(must[[]waypost.IndexedArticle](t)(f.ReindexPage(t.Context(), last, 100))), 0)
		ok(t, f.AdvanceReindex(t.Context(), "p2", last, 3))
		ended := f.clock.Now()
		ok(t, f.FinishReindex(t.Context(), "p2", "e1", 7))
		f.clock.Advance(time.Second)
		ok(t, f.FinishReindex(t.Context(), "p2", "e1", 8))
		ok(t, f.FailReindex(t.Context(), "p2", "too late"))
		ok(t, f.AdvanceReindex(t.Context(), "p2", last+1, 1))
		succeeded := waypost.Reindex{Status: waypost.ReindexSucceeded, Total: 5, Processed: 5, CreatedAt: asked, StartedAt: &started, EndedAt: &ended}
		equal(t, "finished", must[waypost.Reindex](t)(f.Reindex(t.Context())), succeeded)
		equal(t, "live", f.hold(t, "p2", "e1"), waypost.ArticleIndex{Engine: "e1", Live: "g1", Epoch: 2, Mark: 7})

		// One that nobody asked for, and one that fails.
		begun := f.clock.Now()
		ok(t, f.BeginReindex(t.Context(), "p2", "g2"))
		equal(t, "created", must[waypost.Reindex](t)(f.Reindex(t.Context())).CreatedAt, begun)
		equal(t, "both", f.hold(t, "p2", "e1"), waypost.ArticleIndex{Engine: "e1", Live: "g1", Building: "g2", Epoch: 2, Mark: 7})
		ok(t, f.FailReindex(t.Context(), "p2", "disk\x00full"))
		failed := must[waypost.Reindex](t)(f.Reindex(t.Context()))
		equal(t, "failed", []any{failed.Status, failed.Message, *failed.EndedAt}, []any{waypost.ReindexFailed, "disk\uFFFDfull", begun})
		equal(t, "still live", f.hold(t, "p2", "e1"), waypost.ArticleIndex{Engine: "e1", Live: "g1", Epoch: 2, Mark: 7})
		must[waypost.Reindex](t)(f.RequestReindex(t.Context(), scope))
		ok(t, f.FailReindex(t.Context(), "p2", "at once"))
		equal(t, "not asked any more", f.hold(t, "p2", "e1").Requested, false)

		// Another engine: the generation of the one before misses changes from now on.
		ok(t, f.ReleaseArticleIndex(t.Context(), "p2"))
		equal(t, "elsewhere", f.hold(t, "p3", "e2"), waypost.ArticleIndex{Engine: "e1", Live: "g1", Epoch: 3, Mark: 7})
		ok(t, f.BeginReindex(t.Context(), "p3", "g3"))
		equal(t, "forgotten", f.hold(t, "p3", "e2"), waypost.ArticleIndex{Engine: "e2", Building: "g3", Epoch: 3, Mark: 7})
	}},
	{"an index that follows misses nothing", followArticles},
}

// copyIndex is an index as far as this suite needs one: the articles that it got last.
type copyIndex map[int64]waypost.IndexedArticle

func (c copyIndex) apply(changes []waypost.ArticleChange) {
	for _, ch := range changes {
		if ch.Article == nil {
			delete(c, ch.Number)
		} else {
			c[ch.Number] = *ch.Article
		}
	}
}

// followArticles writes articles in every way at once while an indexer tells two
// generations of changes and fills the second one from SQL: in the end both are what
// SQL holds.
func followArticles(t *testing.T, f *fixture) {
	const writers, rounds, n = 4, 25, 12
	for i := range 3 * n {
		f.put(t, named(fmt.Sprint(i)))
	}
	f.hold(t, "p1", "engine")
	live, building := copyIndex{}, copyIndex{}
	// follow tells both of what is due until nothing is.
	follow := func() error {
		for {
			changes, err := f.ArticleChanges(t.Context(), 7)
			if err != nil || len(changes) == 0 {
				return err
			}
			live.apply(changes)
			building.apply(changes)
			if err := f.DoneArticleChanges(t.Context(), "p1", changes, 0); err != nil {
				return err
			}
		}
	}
	ok(t, follow())
	clear(building)
	ok(t, f.BeginReindex(t.Context(), "p1", "g2"))

	written := make(chan struct{})
	var writing sync.WaitGroup
	for w := range writers {
		writing.Go(func() {
			if err := f.churn(t.Context(), w, rounds, n); err != nil {
				t.Error(err)
			}
		})
	}
	go func() { writing.Wait(); close(written) }()
	cursor := int64(0)
	page := func() error {
		articles, err := f.ReindexPage(t.Context(), cursor, 5)
		for _, a := range articles {
			building[a.Number], cursor = a, a.Number
		}
		return errors.Join(err, f.AdvanceReindex(t.Context(), "p1", cursor, len(articles)))
	}
	for done := false; !done; {
		select {
		case <-written:
			done = true
		default:
		}
		ok(t, errors.Join(follow(), page()))
	}
	for before := int64(-1); before != cursor; {
		before = cursor
		ok(t, page())
	}
	ok(t, follow())

	all := copyIndex{}
	for _, a := range must[[]waypost.IndexedArticle](t)(f.ReindexPage(t.Context(), 0, 1000)) {
		all[a.Number] = a
	}
	equal(t, "live", live, all)
	equal(t, "building", building, all)
	n2, _, err := f.PendingArticleChanges(t.Context())
	ok(t, err)
	equal(t, "pending", n2, 0)
}

// churn puts, imports and deletes some of n articles.
func (f *fixture) churn(ctx context.Context, w, rounds, n int) error {
	for round := range rounds {
		id := func(i int) string { return fmt.Sprint((w*5 + round*3 + i) % n) }
		a := named(id(0))
		a.Content = fmt.Sprint(w, " ", round)
		if _, _, err := f.PutArticle(ctx, scope, a, nil); err != nil {
			return err
		}
		if err := f.DeleteArticle(ctx, scope, id(1), nil); err != nil && waypost.CodeOf(err) != waypost.CodeNotFound {
			return err
		}
		b, c := named(id(2)), named(id(3))
		b.Content, c.Content = a.Content, a.Content
		if _, err := f.ImportArticles(ctx, scope, articleRows(b, c)); err != nil {
			return err
		}
	}
	return nil
}
