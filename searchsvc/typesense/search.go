package typesense

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/typesense/typesense-go/v3/typesense"
	"github.com/typesense/typesense-go/v3/typesense/api"

	"waypost/searchsvc"
)

// maxQueryString is the longest query of a URL that Typesense reads, in bytes.
const maxQueryString = 4000

// maxPage is the last page that is asked for: the offset must not overflow.
// Pages behind it are just as empty.
const maxPage = 1_000_000

// answer is what Typesense says to a search. Code and Error are there where one
// of several searches failed.
type answer struct {
	Found *int `json:"found"`
	Hits  []struct {
		Document   document `json:"document"`
		Highlights []struct {
			MatchedTokens []string `json:"matched_tokens"`
		} `json:"highlights"`
	} `json:"hits"`
	Code  int    `json:"code"`
	Error string `json:"error"`
}

// Search implements searchsvc.Index.
func (x *Index) Search(ctx context.Context, q searchsvc.Query) (searchsvc.Found, error) {
	ctx, cancel := context.WithTimeout(ctx, x.options.SearchTimeout)
	defer cancel()
	found, err := x.ask(ctx, searchParams(q))
	if err != nil {
		return searchsvc.Found{}, wrap("ask Typesense", err)
	}
	out := searchsvc.Found{Total: *found.Found, Matches: make([]searchsvc.Match, len(found.Hits))}
	for i, hit := range found.Hits {
		out.Matches[i].Document = hit.Document.article()
		for _, field := range hit.Highlights {
			out.Matches[i].Words = append(out.Matches[i].Words, field.MatchedTokens...)
		}
	}
	return out, nil
}

// ask sends a search by GET, or by POST to where several are taken at once if
// its URL would be too long.
func (x *Index) ask(ctx context.Context, p *api.SearchCollectionParams) (answer, error) {
	request, err := api.NewSearchCollectionRequest(x.http.Server, x.collection, p)
	if err != nil {
		return answer{}, errors.New("the search cannot be written as a URL") // the cause holds the query
	}
	if len(request.URL.RawQuery) <= maxQueryString {
		var out answer
		err := read(ctx, &out)(x.http.SearchCollection(ctx, x.collection, p))
		return complete(out, err)
	}
	body, err := json.Marshal(map[string]any{"searches": []any{struct {
		Collection string `json:"collection"`
		*api.SearchCollectionParams
	}{x.collection, p}}})
	if err != nil {
		return answer{}, errors.New("the search cannot be written as JSON")
	}
	var out struct {
		Results []answer `json:"results"`
	}
	err = read(ctx, &out)(x.http.MultiSearchWithBody(ctx, &api.MultiSearchParams{}, "application/json", bytes.NewReader(body)))
	if err == nil && len(out.Results) != 1 {
		err = unavailable("Typesense answers another number of searches")
	}
	if err != nil {
		return answer{}, err
	}
	return complete(out.Results[0], nil)
}

// complete refuses an answer that is an error inside a 200, or no answer at all:
// it must not be taken for an empty result.
func complete(a answer, err error) (answer, error) {
	switch {
	case err != nil:
		return answer{}, err
	case a.Code != 0 || a.Error != "":
		return answer{}, statusError(a.Code)
	case a.Found == nil:
		return answer{}, unavailable("Typesense's answer has no number of hits")
	}
	return a, nil
}

// read decodes a response of status 200 into v, and closes it.
func read(ctx context.Context, v any) func(*http.Response, error) error {
	return func(r *http.Response, err error) error {
		if err != nil {
			return classify(ctx, err)
		}
		defer r.Body.Close()
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if r.StatusCode != http.StatusOK || kind != "application/json" {
			_, _ = io.CopyN(io.Discard, r.Body, 64<<10) // so that the connection can be used again
			return classify(ctx, &typesense.HTTPError{Status: r.StatusCode})
		}
		return classify(ctx, json.NewDecoder(r.Body).Decode(v))
	}
}

// searchParams writes a query as Typesense's search parameters.
func searchParams(q searchsvc.Query) *api.SearchCollectionParams {
	text := newPlan(q.Keyword)
	filter := fmt.Sprintf("tenant_key:=`%s` && access_level:<=%d", tenantKey(q.Stage, q.TenantID), q.Level)
	if q.From != searchsvc.FromAdmin {
		filter += " && published:=true"
	}
	for _, single := range text.singles {
		filter += fmt.Sprintf(" && (name:%[1]s || content:%[1]s*)", single)
	}
	return &api.SearchCollectionParams{
		Q:              new(text.q),
		QueryBy:        new("name,content"),
		QueryByWeights: new("3,1"),
		FilterBy:       &filter,
		// The engine's own score cannot say "title first, then newest".
		SortBy:  new("_eval([(" + strings.Join(text.inName, " && ") + "):1]):desc,published_at:desc"),
		Page:    new(min(q.Page, maxPage)),
		PerPage: &q.PerPage,

		Prefix:              new("true"),
		NumTypos:            new("2"),
		MinLen1typo:         new(4),
		MinLen2typo:         new(8),
		TypoTokensThreshold: new(1),
		DropTokensThreshold: new(0),
		SplitJoinTokens:     &text.splitJoin,
		// Pairs of CJK characters count as such tokens; they must match exactly.
		EnableTyposForAlphaNumericalTokens: new(false),
		EnableTyposForNumericalTokens:      new(false),
		MaxCandidates:                      new(100),
		MaxFilterByCandidates:              new(10_000), // for single characters; 4 by default

		HighlightFields:         new("name,content"),
		HighlightFullFields:     new("name"),
		HighlightStartTag:       new(string(markStart)),
		HighlightEndTag:         new(string(markEnd)),
		HighlightAffixNumTokens: new(30),
		SnippetThreshold:        new(30),
		ExcludeFields:           new("tenant_key"),
	}
}
