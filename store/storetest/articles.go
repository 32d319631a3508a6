package storetest

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

// article is a valid article of an id with two channels.
func article(id string) waypost.Article {
	return waypost.Article{
		ID: id, TenantID: "site-1", Name: "Opening hours", Identifier: id, Content: "# Hours\n\n周一至周五 9–18 Uhr", AccessLevel: 2,
		Published: true, FrontendURL: "https://example.com/" + id, PublishedAt: time.Date(2026, 1, 2, 3, 4, 5, 678_000_000, time.UTC),
		Channels: []waypost.Channel{
			{ID: "root", Name: "Home", URL: "example.com"}, {ID: "help", Slug: "help", URL: "example.com/help", Name: "Help", AccessLevel: 3},
		},
	}
}

// put stores an article that must not be there yet.
func (f *fixture) put(t testing.TB, a waypost.Article) waypost.Article {
	t.Helper()
	stored, _, err := f.PutArticle(t.Context(), scope, a, nil)
	ok(t, err)
	return stored
}

func articleRows(articles ...waypost.Article) iter.Seq2[waypost.ArticleRow, error] {
	return func(yield func(waypost.ArticleRow, error) bool) {
		for i, a := range articles {
			if !yield(waypost.ArticleRow{Line: i + 1, Article: a}, nil) {
				return
			}
		}
	}
}

// wantMissing fails unless the scope lacks the articles.
func (f *fixture) wantMissing(t testing.TB, ids ...string) {
	t.Helper()
	for _, id := range ids {
		_, err := f.Article(t.Context(), scope, id)
		wantCode(t, err, waypost.CodeNotFound)
	}
}

var articleTests = []test{
	{"put, replace, delete", func(t *testing.T, f *fixture) {
		a := article("a")
		stored, created, err := f.PutArticle(t.Context(), scope, a, func(current *waypost.Article) error {
			equal(t, "before the first", current, (*waypost.Article)(nil))
			return nil
		})
		ok(t, err)
		equal(t, "created", created, true)
		equal(t, "stored", stored, a)
		equal(t, "loaded", must[waypost.Article](t)(f.Article(t.Context(), scope, "a")), a)
		for _, sc := range foreign {
			_, err := f.Article(t.Context(), sc, "a")
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.DeleteArticle(t.Context(), sc, "a", nil), waypost.CodeNotFound)
		}
		b := waypost.Article{ID: "a", TenantID: "site-2", Name: "Ferien", Identifier: "f"}
		stored, created, err = f.PutArticle(t.Context(), scope, b, func(current *waypost.Article) error {
			equal(t, "before the second", current, &a)
			return nil
		})
		ok(t, err)
		equal(t, "created again", created, false)
		b.PublishedAt, b.Channels = a.PublishedAt, []waypost.Channel{}
		equal(t, "replaced", stored, b)
		equal(t, "loaded again", must[waypost.Article](t)(f.Article(t.Context(), scope, "a")), b)
		// The same id in another stage is another article.
		other := article("a")
		_, created, err = f.PutArticle(t.Context(), foreign[0], other, nil)
		ok(t, err)
		equal(t, "created in another stage", created, true)

		refused := errors.New("refused")
		if err := f.DeleteArticle(t.Context(), scope, "a", func(current waypost.Article) error {
			equal(t, "before deletion", current, b)
			return refused
		}); !errors.Is(err, refused) {
			t.Fatal(err)
		}
		ok(t, f.DeleteArticle(t.Context(), scope, "a", nil))
		f.wantMissing(t, "a")
		wantCode(t, f.DeleteArticle(t.Context(), scope, "a", nil), waypost.CodeNotFound)
		equal(t, "the other stage's", must[waypost.Article](t)(f.Article(t.Context(), foreign[0], "a")), other)
	}},
	{"published_at", func(t *testing.T, f *fixture) {
		a := article("a")
		a.PublishedAt = time.Time{}
		now := f.clock.Now().Truncate(time.Millisecond)
		equal(t, "new", f.put(t, a).PublishedAt, now)
		f.clock.Advance(time.Hour)
		equal(t, "kept", f.put(t, a).PublishedAt, now)
		a.PublishedAt = time.Date(2020, 5, 6, 7, 8, 9, 123_456_789, time.FixedZone("", 3600))
		equal(t, "given", f.put(t, a).PublishedAt, time.Date(2020, 5, 6, 6, 8, 9, 123_000_000, time.UTC))
		none := a
		none.PublishedAt = time.Time{}
		must[waypost.ArticleImport](t)(f.ImportArticles(t.Context(), scope, articleRows(none)))
		equal(t, "kept by an import", must[waypost.Article](t)(f.Article(t.Context(), scope, "a")).PublishedAt, time.Date(2020, 5, 6, 6, 8, 9, 123_000_000, time.UTC))
	}},
	{"any text comes back as it was", func(t *testing.T, f *fixture) {
		for i, text := range []string{
			"", `it's ? ?0 $1 \ " ; -- %s`, "<script>alert(1)</script>", "ẞ İ ﬁ \ue000 \U0001F600 \u200d", strings.Repeat("字典 word ", 100_000),
		} {
			a := article(fmt.Sprint(i))
			a.Content = text
			if i > 0 && i < 4 {
				a.Name, a.Channels[0].Name, a.Identifier = text, text, "x"+strings.ReplaceAll(text, "/", "")
			}
			stored := f.put(t, a)
			got := must[waypost.Article](t)(f.Article(t.Context(), scope, a.ID))
			if !reflect.DeepEqual(stored, a) || !reflect.DeepEqual(got, a) { // too long to print
				t.Fatalf("text %d came back as another", i)
			}
		}
	}},
	{"faulty", func(t *testing.T, f *fixture) {
		for name, change := range map[string]func(*waypost.Article){
			"id": func(a *waypost.Article) { a.ID = "a b" }, "tenant": func(a *waypost.Article) { a.TenantID = "" },
			"content": func(a *waypost.Article) { a.Content = "a\x00b" }, "level": func(a *waypost.Article) { a.AccessLevel = 11 },
		} {
			a := article("a")
			change(&a)
			if _, _, err := f.PutArticle(t.Context(), scope, a, nil); waypost.CodeOf(err) != waypost.CodeBadRequest {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, id := range []string{"", "none", "a\x00", "a\xff", "' OR 1=1 --", strings.Repeat("a", 1000)} {
			f.wantMissing(t, id)
			wantCode(t, f.DeleteArticle(t.Context(), scope, id, nil), waypost.CodeNotFound)
			_, err := f.TenantOrg(t.Context(), id)
			wantCode(t, err, waypost.CodeNotFound)
		}
	}},
	{"what is refused leaves nothing", func(t *testing.T, f *fixture) {
		refused := waypost.Errorf(waypost.CodePreconditionFailed, "If-Match", "no")
		_, _, err := f.PutArticle(t.Context(), scope, article("a"), func(*waypost.Article) error { return refused })
		wantCode(t, err, waypost.CodePreconditionFailed)
		f.wantMissing(t, "a")
		_, err = f.TenantOrg(t.Context(), "site-1")
		wantCode(t, err, waypost.CodeNotFound)
		a := f.put(t, article("a"))
		b := a
		b.Name = "another"
		_, _, err = f.PutArticle(t.Context(), scope, b, func(*waypost.Article) error { return refused })
		wantCode(t, err, waypost.CodePreconditionFailed)
		equal(t, "after the refusal", must[waypost.Article](t)(f.Article(t.Context(), scope, "a")), a)
		equal(t, "changes", len(must[[]waypost.ArticleChange](t)(f.ArticleChanges(t.Context(), 10))), 1)
	}},
	{"a tenant belongs to whoever wrote its first article", func(t *testing.T, f *fixture) {
		f.put(t, article("a"))
		equal(t, "owner", must[string](t)(f.TenantOrg(t.Context(), "site-1")), "acme")
		other := waypost.Scope{Org: "other", Stage: waypost.StageTest}
		_, _, err := f.PutArticle(t.Context(), other, article("b"), nil)
		wantCode(t, err, waypost.CodeConflict)
		var fault *waypost.Error
		if !errors.As(err, &fault) || fault.Target != "tenant_id" {
			t.Fatalf("got %+v", fault)
		}
		_, _, err = f.PutArticle(t.Context(), foreign[0], article("b"), nil) // the stage does not matter
		ok(t, err)
		ok(t, f.DeleteArticle(t.Context(), foreign[0], "b", nil))
		ok(t, f.DeleteArticle(t.Context(), scope, "a", nil))
		equal(t, "owner without articles", must[string](t)(f.TenantOrg(t.Context(), "site-1")), "acme")

		ok(t, f.CheckTenants(t.Context(), "acme", []string{"site-1", "nobody's"}))
		ok(t, f.CheckTenants(t.Context(), "acme", nil))
		err = f.CheckTenants(t.Context(), "other", []string{"free", "site-1", "a\x00", "site-1"})
		wantCode(t, err, waypost.CodeConflict)
		if !errors.As(err, &fault) || len(fault.Details) != 2 || fault.Details[0].Target != "tenantIds[1]" || fault.Details[1].Target != "tenantIds[3]" {
			t.Fatalf("got %+v", fault)
		}
	}},
	{"one of many organisations gets a tenant", func(t *testing.T, f *fixture) {
		errs := atOnce(8, func(i int) error {
			sc := waypost.Scope{Org: fmt.Sprint("org", i), Stage: waypost.StageRelease}
			if i%2 == 0 {
				_, _, err := f.PutArticle(t.Context(), sc, article("a"), nil)
				return err
			}
			done, err := f.ImportArticles(t.Context(), sc, articleRows(article("a")))
			if err == nil && done.Failed == 1 {
				return done.Errors[0].Error
			}
			return err
		})
		onePasses(t, errs)
		winner := slices.Index(errs, nil)
		equal(t, "owner", must[string](t)(f.TenantOrg(t.Context(), "site-1")), fmt.Sprint("org", winner))
		_, n := f.changes(t)
		equal(t, "articles", n, 1)
	}},
	{"one of many puts makes the article", func(t *testing.T, f *fixture) {
		for _, err := range atOnce(8, func(i int) error {
			_, _, err := f.PutArticle(t.Context(), scope, article("b"), nil)
			return err
		}) {
			ok(t, err)
		}
		onePasses(t, atOnce(8, func(i int) error {
			_, _, err := f.PutArticle(t.Context(), scope, article("a"), func(current *waypost.Article) error {
				if current != nil {
					return waypost.Errorf(waypost.CodeConflict, "", "there already")
				}
				return nil
			})
			return err
		}))
	}},
	{"import", func(t *testing.T, f *fixture) {
		_, _, err := f.PutArticle(t.Context(), waypost.Scope{Org: "other", Stage: waypost.StageRelease}, waypost.Article{ID: "x", TenantID: "theirs", Name: "n", Identifier: "x"}, nil)
		ok(t, err)
		old := f.put(t, article("old"))
		changed := func(id, name string) waypost.Article {
			a := article(id)
			a.Name, a.PublishedAt = name, time.Time{}
			return a
		}
		stolen, faulty := article("stolen"), article("faulty")
		stolen.TenantID, faulty.Name = "theirs", ""
		broken := waypost.Errorf(waypost.CodeBadRequest, "", "broken JSON")
		rows := []waypost.ArticleRow{
			{Line: 2, Article: changed("old", "first")}, {Line: 3, Article: article("new")}, {Line: 4, Err: broken}, {Line: 6, Article: stolen},
			{Line: 7, Article: faulty}, {Line: 8, Article: changed("new", "later")}, {Line: 9, Article: changed("old", "last")}, {Line: 10, Article: article("more")},
		}
		done := must[waypost.ArticleImport](t)(f.ImportArticles(t.Context(), scope, func(yield func(waypost.ArticleRow, error) bool) {
			for _, row := range rows {
				if !yield(row, nil) {
					return
				}
			}
		}))
		var failed []string
		for _, e := range done.Errors {
			failed = append(failed, fmt.Sprint(e.Line, " ", e.Code, " ", e.Target))
		}
		equal(t, "failed", failed, []string{"4 BadRequest ", "6 Conflict tenant_id", "7 BadRequest "})
		done.Errors = nil
		equal(t, "result", done, waypost.ArticleImport{Total: 8, Created: 2, Updated: 3, Failed: 3})
		for id, name := range map[string]string{"old": "last", "new": "later", "more": "Opening hours"} {
			a := must[waypost.Article](t)(f.Article(t.Context(), scope, id))
			equal(t, id, a.Name, name)
			equal(t, id, a.PublishedAt, old.PublishedAt)
		}
		f.wantMissing(t, "stolen", "faulty")
		equal(t, "nothing", must[waypost.ArticleImport](t)(f.ImportArticles(t.Context(), scope, articleRows())), waypost.ArticleImport{})
	}},
	{"import in batches", func(t *testing.T, f *fixture) {
		const n = 1600
		rows := func(upTo int, end error) iter.Seq2[waypost.ArticleRow, error] {
			return func(yield func(waypost.ArticleRow, error) bool) {
				for i := range upTo {
					row := waypost.ArticleRow{Line: i + 1, Article: waypost.Article{ID: fmt.Sprint(i), TenantID: fmt.Sprint("t", i%3), Name: "n", Identifier: "x"}}
					if i%3 != 0 {
						row = waypost.ArticleRow{Line: i + 1, Err: waypost.Errorf(waypost.CodeBadRequest, "", "faulty")}
					}
					if !yield(row, nil) {
						return
					}
				}
				if end != nil {
					yield(waypost.ArticleRow{}, end)
				}
			}
		}
		cut := errors.New("cut off")
		if _, err := f.ImportArticles(t.Context(), scope, rows(1200, cut)); !errors.Is(err, cut) {
			t.Fatal(err)
		}
		must[waypost.Article](t)(f.Article(t.Context(), scope, "999"))
		f.wantMissing(t, "1002") // of the batch that was cut off
		done := must[waypost.ArticleImport](t)(f.ImportArticles(t.Context(), scope, rows(n, nil)))
		equal(t, "errors", len(done.Errors), waypost.MaxLineErrors)
		equal(t, "last error", done.Errors[len(done.Errors)-1].Line, 1500)
		done.Errors = nil
		equal(t, "result", done, waypost.ArticleImport{Total: n, Created: 200, Updated: 334, Failed: 1066})

		// By size: each of the first two fills a batch, and the last is never written.
		big := func(id string) waypost.Article {
			a := article(id)
			a.Content = strings.Repeat("x", 3<<20)
			return a
		}
		_, err := f.ImportArticles(t.Context(), scope, func(yield func(waypost.ArticleRow, error) bool) {
			for i, id := range []string{"big1", "big2", "big3"} {
				if !yield(waypost.ArticleRow{Line: i + 1, Article: big(id)}, nil) {
					return
				}
			}
			yield(waypost.ArticleRow{}, cut)
		})
		if !errors.Is(err, cut) {
			t.Fatal(err)
		}
		must[waypost.Article](t)(f.Article(t.Context(), scope, "big1"))
		must[waypost.Article](t)(f.Article(t.Context(), scope, "big2"))
		f.wantMissing(t, "big3")
	}},
	{"imports and puts of the same articles at once", func(t *testing.T, f *fixture) {
		const writers, n = 6, 40
		for _, err := range atOnce(writers, func(w int) error {
			articles := make([]waypost.Article, n)
			for i := range articles {
				// Each in another order, and of tenants that are new.
				articles[i] = article(fmt.Sprint((i*(2*w+1) + w) % n))
				articles[i].TenantID = fmt.Sprint("t", (i+w)%5)
				articles[i].Name = fmt.Sprint("by ", w)
			}
			if w%3 == 0 {
				for _, a := range articles {
					if _, _, err := f.PutArticle(t.Context(), scope, a, nil); err != nil {
						return err
					}
				}
				return nil
			}
			done, err := f.ImportArticles(t.Context(), scope, articleRows(articles...))
			if err == nil && (done.Failed != 0 || done.Created+done.Updated != n) {
				return fmt.Errorf("%+v", done)
			}
			return err
		}) {
			ok(t, err)
		}
		_, pending := f.changes(t)
		equal(t, "articles", pending, n)
	}},
}
