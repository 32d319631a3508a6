// Package searchtest is the suite that every engine of article search passes, with
// the articles and the keywords behind it. It is for tests only.
package searchtest

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"html"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/searchsvc"
)

// Open opens an index without any generation for one test, and closes it when the
// test ends.
type Open func(t *testing.T) searchsvc.Index

//go:embed corpus.ndjson
var corpusLines []byte

//go:embed expected.json
var expectedCases []byte

// Corpus is 42 articles of two sites. Their keys are the articles' ids, as in the
// recordings; their times are recorded in seconds where ours are in milliseconds,
// so they are read as if they were.
func Corpus(t testing.TB) []searchsvc.Document {
	t.Helper()
	var docs []searchsvc.Document
	for line := range bytes.Lines(corpusLines) {
		var a struct {
			ID, Name, Identifier, Content string
			TenantID                      string `json:"tenant_id"`
			AccessLevel                   int    `json:"access_level"`
			Published                     bool
			PublishedAt                   int64  `json:"published_at"`
			FrontendURL                   string `json:"frontend_url"`
			Channels                      []string
		}
		ok(t, json.Unmarshal(line, &a))
		channels := make([]waypost.Channel, len(a.Channels))
		for i, id := range a.Channels {
			channels[i].ID = id
		}
		docs = append(docs, searchsvc.Document{Key: a.ID, Stage: waypost.StageRelease, Article: waypost.Article{
			ID: a.ID, TenantID: a.TenantID, Name: a.Name, Identifier: a.Identifier, Content: a.Content,
			AccessLevel: a.AccessLevel, Published: a.Published, FrontendURL: a.FrontendURL,
			Channels: channels, PublishedAt: time.UnixMilli(a.PublishedAt).UTC(),
		}})
	}
	if len(docs) != 42 {
		t.Fatalf("%d articles", len(docs))
	}
	return docs
}

// Case is what a keyword must find in Corpus, by a rule that knows no engine
// (expected.json has it).
type Case struct {
	Keyword      string
	TenantID     string `json:"tenant_id"`
	AccessLevel  int    `json:"access_level"`
	IDs          []string
	NameMatches  []string `json:"name_match_ids"`
	EngineMayAdd []string `json:"engine_may_add"` // because of typing errors and accents
	Recording    string
	Rendered     []struct{ ID, Name, Snippet string } // with mark elements
}

// Cases are the 73 keywords.
func Cases(t testing.TB) []Case {
	t.Helper()
	var file struct{ Cases []Case }
	ok(t, json.Unmarshal(expectedCases, &file))
	if len(file.Cases) != 73 {
		t.Fatalf("%d cases", len(file.Cases))
	}
	for i := range file.Cases {
		file.Cases[i].Recording = strings.TrimSuffix(file.Cases[i].Recording, ".json")
	}
	return file.Cases
}

// Query is the case as an index is asked.
func (c Case) Query() searchsvc.Query {
	return searchsvc.Query{
		Stage: waypost.StageRelease, TenantID: c.TenantID, From: waypost.FromFrontend,
		Keyword: searchsvc.ParseKeyword(c.Keyword), Level: c.AccessLevel, Page: 1, PerPage: recordedPage,
	}
}

// Fill makes a generation that holds docs, and has searches use it.
func Fill(t testing.TB, index searchsvc.Index, generation string, docs []searchsvc.Document) {
	t.Helper()
	ok(t, index.Create(t.Context(), generation))
	put(t, index, generation, docs)
	ok(t, index.SetLive(t.Context(), generation))
}

// put imports documents of which none may be refused, in parts as the indexer does.
func put(t testing.TB, index searchsvc.Index, generation string, docs []searchsvc.Document) {
	t.Helper()
	for part := range slices.Chunk(docs, 200) {
		faults, err := index.Import(t.Context(), generation, part)
		ok(t, err)
		if len(faults) != len(part) {
			t.Fatalf("%d faults for %d documents", len(faults), len(part))
		}
		for i, fault := range faults {
			if fault != nil {
				t.Fatalf("%s is refused: %v", part[i].Key, fault)
			}
		}
	}
}

// numbered gives documents the keys that they have in practice.
func numbered(docs []searchsvc.Document) []searchsvc.Document {
	for i := range docs {
		docs[i].Key = strconv.Itoa(i + 1)
	}
	return docs
}

const org = "acme"

// owned says that every tenant is acme's.
type owned struct{}

func (owned) TenantOrg(context.Context, string) (string, error) { return org, nil }

// ask is a search as callers make it.
type ask struct {
	keyword string
	tenant  string        // "t1" if empty
	stage   waypost.Stage // release if empty
	from    waypost.Origin
	level   int // of the token; 0 is MaxAccessLevel
	user    string
	page    int // 1 if 0
	perPage int // MaxPerPage if 0
}

// search searches through the service, as whoever has a token for it.
func (a ask) search(ctx context.Context, index searchsvc.Index) (waypost.SearchResult, error) {
	a = a.complete()
	raw := url.Values{
		"keywords": {a.keyword}, "tenant_id": {a.tenant}, "from": {string(a.from)},
		"_page": {strconv.Itoa(a.page)}, "_per_page": {strconv.Itoa(a.perPage)},
	}
	if a.user != "" {
		raw.Set("user_access_level", a.user)
	}
	return searchsvc.New(index, owned{}).Search(ctx, waypost.SearchToken{
		Scope: waypost.Scope{Org: org, Stage: a.stage}, TenantIDs: []string{a.tenant}, From: []waypost.Origin{a.from}, MaxAccessLevel: a.level,
	}, raw.Encode())
}

func (a ask) complete() ask {
	a.tenant = cmp.Or(a.tenant, "t1")
	a.stage = cmp.Or(a.stage, waypost.StageRelease)
	a.from = cmp.Or(a.from, waypost.FromFrontend)
	a.level = cmp.Or(a.level, waypost.MaxAccessLevel)
	a.page = cmp.Or(a.page, 1)
	a.perPage = cmp.Or(a.perPage, searchsvc.MaxPerPage)
	return a
}

func (a ask) must(t testing.TB, index searchsvc.Index) waypost.SearchResult {
	t.Helper()
	result, err := a.search(t.Context(), index)
	if err != nil {
		t.Fatalf("%q: %v", a.keyword, err)
	}
	return result
}

// all returns the hits of all pages.
func (a ask) all(t testing.TB, index searchsvc.Index) []waypost.SearchHit {
	t.Helper()
	var hits []waypost.SearchHit
	for a.page = 1; ; a.page++ {
		result := a.must(t, index)
		hits = append(hits, result.Hits...)
		if len(hits) >= result.Total || len(result.Hits) == 0 {
			if len(hits) != result.Total {
				t.Errorf("%q: %d hits on all pages, total %d", a.keyword, len(hits), result.Total)
			}
			return hits
		}
	}
}

const (
	openTag  = `<b class="highlight">`
	closeTag = `</b>`
)

// kept writes text as engines give it back: Typesense cannot keep the private
// use characters that its highlights are made of, nor blanks at the edges.
func kept(s string) string {
	s = strings.Map(func(r rune) rune {
		if r >= '\uE000' && r <= '\uE00F' {
			return '\uFFFD'
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	return strings.Trim(s, " ")
}

// checkHit checks what holds for every hit: it is the article that was put there,
// its highlights are parts of the escaped original but for the marks, and each mark
// holds something of the keyword, unless typing errors may be in play.
func checkHit(t testing.TB, keyword string, hit waypost.SearchHit, d searchsvc.Document, mistyped bool) {
	t.Helper()
	if kept(hit.Name) != kept(d.Name) || hit.Slug != d.Slug() || hit.Identifier != d.Identifier ||
		hit.FrontendURL != d.FrontendURL || hit.AccessLevel != d.AccessLevel || !slices.Equal(hit.Channels, d.Channels) {
		t.Errorf("%q: the hit %+v is not the article %.300v", keyword, hit, d.Article)
	}
	name, nameMarks := unmark(t, hit.NameHighlight)
	if kept(name) != kept(html.EscapeString(d.Name)) {
		t.Errorf("%q: the name %q, want %q", keyword, name, html.EscapeString(d.Name))
	}
	excerpt, contentMarks := unmark(t, hit.SearchHighlight)
	content := kept(html.EscapeString(d.Content))
	excerpt = kept(excerpt)
	if !strings.Contains(content, excerpt) { // then it was cut
		excerpt = strings.TrimSuffix(excerpt, "…")
		if !strings.Contains(content, strings.Trim(excerpt, " ")) {
			excerpt = strings.TrimPrefix(excerpt, "…")
		}
		if !strings.Contains(content, strings.Trim(excerpt, " ")) {
			t.Errorf("%q: the excerpt %q is not in the content of %s", keyword, excerpt, d.ID)
		}
	}
	if len(nameMarks)+len(contentMarks) == 0 {
		t.Errorf("%q: nothing of %s is marked", keyword, d.ID)
	}
	parts := searchsvc.ParseKeyword(keyword).Parts
	for _, mark := range slices.Concat(nameMarks, contentMarks) {
		holds := func(p searchsvc.Part) bool { return strings.Contains(fold(mark), fold(p.Text)) }
		if !mistyped && !slices.ContainsFunc(parts, holds) {
			t.Errorf("%q: %q is marked in %s", keyword, mark, d.ID)
		}
	}
}

// unmark takes the marks out of a highlight. There must be no other markup.
func unmark(t testing.TB, s string) (bare string, marks []string) {
	t.Helper()
	whole := s
	var b strings.Builder
	for {
		before, rest, found := strings.Cut(s, openTag)
		b.WriteString(before)
		if !found {
			break
		}
		mark, after, closed := strings.Cut(rest, closeTag)
		if !closed || mark == "" || strings.HasPrefix(after, openTag) {
			t.Errorf("marks that are empty, not closed or not merged: %q", whole)
		}
		b.WriteString(mark)
		marks = append(marks, html.UnescapeString(mark))
		s = after
	}
	if bare = b.String(); strings.ContainsAny(bare, `<>"'`) {
		t.Errorf("not escaped: %q", whole)
	}
	return bare, marks
}

func ok(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantAway(t testing.TB, what string, err error) {
	t.Helper()
	if waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
		t.Errorf("%s: got %v, want ServiceUnavailable", what, err)
	}
}

func wantTotal(t testing.TB, index searchsvc.Index, keyword string, want int) {
	t.Helper()
	if got := (ask{keyword: keyword}).must(t, index).Total; got != want {
		t.Errorf("%q finds %d articles, want %d", keyword, got, want)
	}
}

// article is an article of t1 that everybody sees.
func article(number int, name, content string) searchsvc.Document {
	id := fmt.Sprintf("a%d", number)
	return searchsvc.Document{Key: strconv.Itoa(number), Stage: waypost.StageRelease, Article: waypost.Article{
		ID: id, TenantID: "t1", Name: name, Identifier: "i-" + id, Content: content, Published: true,
		FrontendURL: "https://www.example.com/" + id, PublishedAt: time.UnixMilli(1_700_000_000_000 + int64(number)).UTC(),
		Channels: []waypost.Channel{{ID: "root", Name: "Home", URL: "www.example.com"}, {ID: "news", Slug: "a/news", Name: "News"}},
	}}
}
