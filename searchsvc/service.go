// Package searchsvc is article search: what a query asks for, what a keyword
// means, how hits are checked and marked (article search document, and contract,
// chapter 7). The engine that finds articles is behind Index.
package searchsvc

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"waypost"
)

// Service answers searches from an index.
type Service struct {
	index Index
}

// New returns a service on an index.
func New(index Index) *Service { return &Service{index: index} }

// Result is one page of hits.
type Result struct {
	Page    int // as asked for, possibly past the end
	PerPage int
	Total   int // hits on all pages
	Hits    []Hit
}

// Pages is the number of pages.
func (r Result) Pages() int {
	if r.PerPage < 1 {
		return 0
	}
	return (r.Total + r.PerPage - 1) / r.PerPage
}

// Hit is an article that a search found, as the article search document shows
// it. The highlights are HTML, everything else is plain text.
type Hit struct {
	ID              string
	Name            string
	FrontendURL     string
	Slug            string
	Identifier      string
	NameHighlight   string // the whole title
	SearchHighlight string // an excerpt of the content
	AccessLevel     int
	Channels        []waypost.Channel
}

// errForeignHit is a fault of an index, never of a caller.
var errForeignHit = errors.New("the index returned an article that the query must not see")

// Search returns the page of hits that q asks for. A keyword without any part,
// such as "*" or "!!!", finds nothing. The error is ServiceUnavailable if the
// engine cannot answer: then it is never an empty result.
func (s *Service) Search(ctx context.Context, q Query) (Result, error) {
	result := Result{Page: q.Page, PerPage: q.PerPage, Hits: []Hit{}}
	if len(q.Keyword.Parts) == 0 {
		return result, nil
	}
	found, err := s.index.Search(ctx, q)
	if err != nil {
		return Result{}, fmt.Errorf("search articles: %w", err)
	}
	result.Total = found.Total
	for _, m := range found.Matches {
		// Engines compare strings in their own ways. What may be seen is
		// decided here once more.
		if m.Stage != q.Stage || m.TenantID != q.TenantID || m.VisibleFrom() > q.Level || q.From != FromAdmin && !m.Published {
			return Result{}, fmt.Errorf("search articles: %w", errForeignHit)
		}
		if q.Keyword.holdsRuns(m.Article) {
			result.Hits = append(result.Hits, newHit(q.Keyword, m))
		}
	}
	return result, nil
}

func newHit(k Keyword, m Match) Hit {
	h := NewHighlighter(k, m.Words)
	return Hit{
		ID:              m.ID,
		Name:            m.Name,
		FrontendURL:     m.FrontendURL,
		Slug:            m.Slug(),
		Identifier:      m.Identifier,
		NameHighlight:   h.Name(m.Name),
		SearchHighlight: h.Excerpt(m.Content),
		AccessLevel:     m.AccessLevel,
		Channels:        m.Channels,
	}
}

// minPhrase is the length from which a run of CJK is more than one pair of
// characters.
const minPhrase = 3

// holdsRuns tells whether the article holds the runs of CJK of a keyword. It
// looks only if there are two runs of three characters or more: an engine looks
// for one of them as a phrase, and for the pairs of the other in any order. The
// total then still counts the few that are left out here.
func (k Keyword) holdsRuns(a waypost.Article) bool {
	var runs []string
	for _, part := range k.Parts {
		if part.Kind == PartCJK && len([]rune(part.Text)) >= minPhrase {
			runs = append(runs, foldString(part.Text))
		}
	}
	if len(runs) < 2 {
		return true
	}
	name, content := foldString(a.Name), foldString(a.Content)
	for _, run := range runs {
		if !strings.Contains(name, run) && !strings.Contains(content, run) {
			return false
		}
	}
	return true
}
