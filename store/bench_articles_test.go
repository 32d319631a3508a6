package store_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// BenchmarkArticles measures an import of articles of 1 KB: new ones, and the same
// again; and what the indexer then reads: all as changes, which it takes off the list,
// and all as a reindex does. An operation is one article. Figures mean something from
// 50,000 on: -benchtime 50000x.
func BenchmarkArticles(b *testing.B) {
	for _, db := range []struct {
		name string
		open storetest.Open
	}{{"sqlite", storetest.SQLite}, {"postgres", storetest.Postgres}} {
		for _, c := range []struct {
			name   string
			before []func(*testing.B, *store.Store)
			run    func(*testing.B, *store.Store)
		}{
			{"new", nil, importArticles},
			{"again", []func(*testing.B, *store.Store){importArticles}, importArticles},
			{"changes", []func(*testing.B, *store.Store){importArticles}, drainChanges},
			{"reindex", []func(*testing.B, *store.Store){importArticles}, readArticles},
		} {
			b.Run(db.name+"/"+c.name, func(b *testing.B) {
				s := db.open(b, time.Now)
				for _, before := range c.before {
					before(b, s)
				}
				b.ResetTimer()
				c.run(b, s)
				b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "rows/s")
			})
		}
	}
}

func importArticles(b *testing.B, s *store.Store) {
	content := strings.Repeat("Lorem ipsum dolor sit amet, 我们的产品说明书。", 20)
	done, err := s.ImportArticles(b.Context(), benchScope, func(yield func(waypost.ArticleRow, error) bool) {
		for i := range b.N {
			a := waypost.Article{
				ID: fmt.Sprintf("article-%08d", i*7919%b.N), TenantID: "site-1", Name: fmt.Sprint("Article ", i), Identifier: fmt.Sprint(i),
				Content: content[:1000], Published: true,
				Channels: []waypost.Channel{{ID: "root", Name: "Home"}, {ID: "help", Slug: "help", URL: "example.com/help", Name: "Help"}},
			}
			if !yield(waypost.ArticleRow{Line: i + 1, Article: a}, nil) {
				return
			}
		}
	})
	if err != nil || done.Total != b.N || done.Failed != 0 {
		b.Fatalf("%+v, %v", done, err)
	}
}

func drainChanges(b *testing.B, s *store.Store) {
	if _, held, err := s.HoldArticleIndex(b.Context(), "b", "engine", false, time.Hour); err != nil || !held {
		b.Fatalf("not held: %v", err)
	}
	n := 0
	for {
		changes, err := s.ArticleChanges(b.Context(), 500)
		if err != nil {
			b.Fatal(err)
		}
		if len(changes) == 0 {
			break
		}
		n += len(changes)
		if err := s.DoneArticleChanges(b.Context(), "b", changes, int64(n)); err != nil {
			b.Fatal(err)
		}
	}
	if n < b.N*9/10 { // ids may meet
		b.Fatalf("%d changes", n)
	}
}

func readArticles(b *testing.B, s *store.Store) {
	n := 0
	for after := int64(0); ; {
		page, err := s.ReindexPage(b.Context(), after, 500)
		if err != nil {
			b.Fatal(err)
		}
		if len(page) == 0 {
			break
		}
		n += len(page)
		after = page[len(page)-1].Number
	}
	if n < b.N*9/10 {
		b.Fatalf("%d articles", n)
	}
}
