package searchsvc_test

import (
	"context"
	"errors"
	"reflect"
	"strings"
	"testing"

	"waypost"
	"waypost/searchsvc"
)

// fixed is an index that always gives the same answer.
type fixed struct {
	searchsvc.Index
	found searchsvc.Found
	err   error
}

func (f fixed) Search(context.Context, searchsvc.Query) (searchsvc.Found, error) {
	return f.found, f.err
}

func match(change func(*searchsvc.Match)) searchsvc.Match {
	m := searchsvc.Match{Document: searchsvc.Document{Key: "k1", Stage: waypost.StageTest, Article: waypost.Article{
		ID: "a1", TenantID: "t1", Name: "<i>学生</i>", Identifier: "x1", Content: "学生 & 老师", AccessLevel: 2, Published: true,
		FrontendURL: "https://www.example.com/x1",
		Channels:    []waypost.Channel{{ID: "c0"}, {ID: "c1", Slug: "a/b", AccessLevel: 4}},
	}}}
	change(&m)
	return m
}

func query(keyword string) searchsvc.Query {
	return searchsvc.Query{
		Stage: waypost.StageTest, TenantID: "t1", From: searchsvc.FromFrontend,
		Keyword: searchsvc.ParseKeyword(keyword), Level: 4, Page: 2, PerPage: 10,
	}
}

func TestServiceSearch(t *testing.T) {
	t.Parallel()
	m := match(func(*searchsvc.Match) {})
	index := fixed{found: searchsvc.Found{Total: 11, Matches: []searchsvc.Match{m}}}
	got, err := searchsvc.New(index).Search(t.Context(), query("学生"))
	if err != nil {
		t.Fatal(err)
	}
	want := searchsvc.Result{Page: 2, PerPage: 10, Total: 11, Hits: []searchsvc.Hit{{
		ID: "a1", Name: "<i>学生</i>", FrontendURL: "https://www.example.com/x1", Slug: "a/b/x1", Identifier: "x1",
		NameHighlight:   `&lt;i&gt;<b class="highlight">学生</b>&lt;/i&gt;`,
		SearchHighlight: `<b class="highlight">学生</b> &amp; 老师`,
		AccessLevel:     2, Channels: m.Channels,
	}}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	if got.Pages() != 2 || (searchsvc.Result{PerPage: 10}).Pages() != 0 || (searchsvc.Result{Total: 10, PerPage: 10}).Pages() != 1 {
		t.Error("wrong number of pages")
	}
}

// What an index must not return is an error, never a hit and never left out in
// silence.
func TestServiceChecksHits(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		change func(*searchsvc.Match)
		query  func(*searchsvc.Query)
		ok     bool
	}{
		{"tenant", func(m *searchsvc.Match) { m.TenantID = "T1" }, nil, false},
		{"stage", func(m *searchsvc.Match) { m.Stage = waypost.StageRelease }, nil, false},
		{"own level", func(m *searchsvc.Match) { m.AccessLevel = 5 }, nil, false},
		{"a channel's level", func(m *searchsvc.Match) { m.Channels[0].AccessLevel = 5 }, nil, false},
		{"draft", func(m *searchsvc.Match) { m.Published = false }, nil, false},
		{"draft, no origin", func(m *searchsvc.Match) { m.Published = false }, func(q *searchsvc.Query) { q.From = "" }, false},
		{"draft, admin", func(m *searchsvc.Match) { m.Published = false }, func(q *searchsvc.Query) { q.From = searchsvc.FromAdmin }, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q := query("学生")
			if tt.query != nil {
				tt.query(&q)
			}
			index := fixed{found: searchsvc.Found{Total: 1, Matches: []searchsvc.Match{match(tt.change)}}}
			got, err := searchsvc.New(index).Search(t.Context(), q)
			if (err == nil) != tt.ok || len(got.Hits) > 0 != tt.ok {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

func TestServiceWithoutParts(t *testing.T) {
	t.Parallel()
	index := fixed{err: errors.New("the engine must not be asked")}
	for _, keyword := range []string{"*", "!!!", "-", `"`, "\x00", " ，"} {
		got, err := searchsvc.New(index).Search(t.Context(), query(keyword))
		if err != nil || got.Total != 0 || got.Hits == nil || len(got.Hits) != 0 || got.Page != 2 {
			t.Errorf("%q: got %+v, %v", keyword, got, err)
		}
	}
}

func TestServiceEngineAway(t *testing.T) {
	t.Parallel()
	away := waypost.Errorf(waypost.CodeServiceUnavailable, "", "away")
	_, err := searchsvc.New(fixed{err: away}).Search(t.Context(), query("机密"))
	if waypost.CodeOf(err) != waypost.CodeServiceUnavailable || strings.Contains(err.Error(), "机密") {
		t.Errorf("got %v", err)
	}
}

// An engine looks for one phrase only; the second is looked for here.
func TestServiceSecondPhrase(t *testing.T) {
	t.Parallel()
	loose := match(func(m *searchsvc.Match) { m.Content = "搜索引擎；数据，据库" })
	exact := match(func(m *searchsvc.Match) { m.Name, m.Content = "数据库", "搜索引擎" })
	index := fixed{found: searchsvc.Found{Total: 2, Matches: []searchsvc.Match{loose, exact}}}
	got, err := searchsvc.New(index).Search(t.Context(), query("搜索引擎 数据库"))
	if err != nil || len(got.Hits) != 1 || got.Hits[0].Name != "数据库" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err = searchsvc.New(index).Search(t.Context(), query("搜索引擎 数据")); err != nil || len(got.Hits) != 2 {
		t.Errorf("one phrase: got %+v, %v", got, err)
	}
}
