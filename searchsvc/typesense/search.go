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
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/typesense/typesense-go/v3/typesense"
	"github.com/typesense/typesense-go/v3/typesense/api"

	"waypost"
	"waypost/searchsvc"
)

// maxQueryString is the longest query of a URL that Typesense reads, in bytes.
const maxQueryString = 4000

// maxPage is the last page that is asked for: the offset must not overflow.
// Pages behind it are just as empty.
const maxPage = 1_000_000

// Bounds of a search whose hits are checked here.
const (
	maxPerPage    = 250 // that Typesense gives
	maxCandidates = 1000
)

// answer is Typesense's answer to a search. Code and Error are set where one of several
// searches failed.
type answer struct {
	Found *int `json:"found"`
	// Cut tells that Typesense gave up before it had looked at everything.
	Cut  bool `json:"search_cutoff"`
	Hits []struct {
		Document   document `json:"document"`
		Highlights []struct {
			MatchedTokens []string `json:"matched_tokens"`
		} `json:"highlights"`
	} `json:"hits"`
	Code  int    `json:"code"`
	Error string `json:"error"`
}

// Search implements searchsvc.Index. For keywords with two runs of three
// characters or more, only the first 1,000 articles are looked through that hold
// their pairs: what is behind them is neither found nor counted.
func (x *Index) Search(ctx context.Context, q searchsvc.Query) (searchsvc.Found, error) {
	runs := uncheckedRuns(q.Keyword)
	if len(runs) == 0 {
		return x.ask(ctx, q)
	}
	ctx, cancel := context.WithTimeout(ctx, x.searching.total)
	defer cancel()
	var out searchsvc.Found
	first := (q.Page - 1) * q.PerPage
	part := q
	part.PerPage = maxPerPage
	for part.Page = 1; part.Page*maxPerPage <= maxCandidates; part.Page++ {
		found, err := x.ask(ctx, part)
		if err != nil {
			return searchsvc.Found{}, err
		}
		for _, m := range found.Matches {
			if !holds(m.Article, runs) {
				continue
			}
			if out.Total >= first && len(out.Matches) < q.PerPage {
				out.Matches = append(out.Matches, m)
			}
			out.Total++
		}
		if part.Page*maxPerPage >= found.Total {
			break
		}
	}
	return out, nil
}

// uncheckedRuns are the runs of three characters or more but the one that is the
// phrase: Typesense looks for their pairs in any order.
func uncheckedRuns(k searchsvc.Keyword) []string {
	var runs []string
	phrase := longestRun(k)
	for i, part := range k.Parts {
		if i != phrase && part.Kind == searchsvc.PartRun && len(searchsvc.Characters(part.Text)) >= minPhrase {
			runs = append(runs, part.Text)
		}
	}
	return runs
}

// holds tells whether an article holds runs.
func holds(a waypost.Article, runs []string) bool {
	name, content := searchsvc.Fold(a.Name), searchsvc.Fold(a.Content)
	for _, run := range runs {
		if !searchsvc.HoldsRun(name, run) && !searchsvc.HoldsRun(content, run) {
			return false
		}
	}
	return true
}

// ask has a node search the generation that SQL has as live.
func (x *Index) ask(ctx context.Context, q searchsvc.Query) (searchsvc.Found, error) {
	if x.indexed == nil {
		return x.askIn(ctx, x.alias, q, nil)
	}
	index, err := x.searched(ctx)
	for again := false; ; again = true {
		switch {
		case err != nil && errors.Is(ctx.Err(), context.Canceled):
			return searchsvc.Found{}, context.Canceled
		case err != nil:
			return searchsvc.Found{}, searchsvc.Unavailable(err)
		case !x.ours(index):
			return searchsvc.Found{}, searchsvc.Unavailable(errors.New("no articles are indexed in Typesense"))
		}
		found, failed := x.askIn(ctx, x.prefix+index.Live, q, func(ctx context.Context, n *node) error { return x.holdsAll(ctx, n, index) })
		if again || waypost.CodeOf(failed) != waypost.CodeServiceUnavailable {
			return found, failed
		}
		// What SQL said a moment ago may have been replaced and dropped.
		before := index.Live
		if index, err = x.read(ctx); err != nil || index.Live == before {
			return found, failed
		}
	}
}

// askIn has a node that passes the check, if there is one, search a collection: by GET, or by
// POST to where several searches are taken at once if its URL would be too long.
func (x *Index) askIn(ctx context.Context, collection string, q searchsvc.Query, check func(context.Context, *node) error) (searchsvc.Found, error) {
	send, err := x.request(collection, searchParams(q))
	if err != nil {
		return searchsvc.Found{}, err
	}
	var found answer
	err = x.do(ctx, x.searching, func(ctx context.Context, n *node) (err error) {
		if check != nil {
			err = check(ctx, n)
		}
		if err == nil {
			found, err = send(ctx, n)
		}
		return err
	})
	if errors.As(err, new(refusal)) { // a fault of ours, or of another version of Typesense; never the caller's
		err = searchsvc.Unavailable(err)
	}
	if err != nil {
		return searchsvc.Found{}, err
	}
	out := searchsvc.Found{Total: *found.Found, Matches: make([]searchsvc.Match, len(found.Hits))}
	for i, hit := range found.Hits {
		out.Matches[i].Document = hit.Document.article()
		for _, field := range hit.Highlights {
			out.Matches[i].Words = append(out.Matches[i].Words, corrections(q.Keyword, field.MatchedTokens)...)
		}
	}
	return out, nil
}

// corrections are the words that were matched because of typing errors.
func corrections(k searchsvc.Keyword, matched []string) []string {
	return slices.DeleteFunc(matched, func(token string) bool {
		if strings.ContainsAny(token, "#+") {
			return true
		}
		for i, part := range k.Parts {
			if word := part.Sought(); token == word || i == k.LastWord() && strings.HasPrefix(token, word) {
				return true
			}
		}
		return false
	})
}

// request prepares a search of a collection for any node.
func (x *Index) request(collection string, p *api.SearchCollectionParams) (func(context.Context, *node) (answer, error), error) {
	request, err := api.NewSearchCollectionRequest(x.nodes[0].http.Server, collection, p)
	if err != nil {
		return nil, errors.New("the search cannot be written as a URL") // the cause holds the query
	}
	if len(request.URL.RawQuery) <= maxQueryString {
		return func(ctx context.Context, n *node) (answer, error) {
			var out answer
			err := read(&out)(n.http.SearchCollection(ctx, collection, p))
			return complete(out, err)
		}, nil
	}
	body, err := json.Marshal(map[string]any{"searches": []any{struct {
		Collection string `json:"collection"`
		*api.SearchCollectionParams
	}{collection, p}}})
	if err != nil {
		return nil, errors.New("the search cannot be written as JSON")
	}
	return func(ctx context.Context, n *node) (answer, error) {
		var out struct {
			Results []answer `json:"results"`
		}
		err := read(&out)(n.http.MultiSearchWithBody(ctx, &api.MultiSearchParams{}, "application/json", bytes.NewReader(body)))
		if err == nil && len(out.Results) != 1 {
			err = fault{cause: "answers another number of searches"}
		}
		if err != nil {
			return answer{}, err
		}
		return complete(out.Results[0], nil)
	}, nil
}

// complete refuses an answer that is an error inside a 200, half of one, or no answer
// at all: it must not be taken for an empty result.
func complete(a answer, err error) (answer, error) {
	switch {
	case err != nil:
		return answer{}, err
	case a.Code != 0 || a.Error != "":
		return answer{}, statusError(a.Code, a.Error)
	case a.Found == nil:
		return answer{}, fault{cause: "gives an answer that cannot be read: no number of hits"}
	case a.Cut:
		return answer{}, fault{cause: "does not search to the end in the time that it gives itself"}
	}
	return a, nil
}

// maxErrorBody is how much of the body of an error is read, in bytes.
const maxErrorBody = 64 << 10

// read decodes a response of status 200 into v, and closes it.
func read(v any) func(*http.Response, error) error { return readAs(http.StatusOK, v) }

// readAs decodes a response of a status into v, and closes it.
func readAs(status int, v any) func(*http.Response, error) error {
	return func(r *http.Response, err error) error {
		if err != nil {
			return err
		}
		defer r.Body.Close()
		kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
		if r.StatusCode != status || kind != "application/json" {
			body, _ := io.ReadAll(io.LimitReader(r.Body, maxErrorBody))
			return &typesense.HTTPError{Status: r.StatusCode, Body: body}
		}
		return json.NewDecoder(r.Body).Decode(v)
	}
}

// searchParams writes a query as Typesense's search parameters.
func searchParams(q searchsvc.Query) *api.SearchCollectionParams {
	text := newPlan(q.Keyword)
	filter := fmt.Sprintf("tenant_key:=`%s` && access_level:<=%d", tenantKey(q.Stage, q.TenantID), q.Level)
	if q.From != waypost.FromAdmin {
		filter += " && published:=true"
	}
	// Typesense takes a hundred operations in a filter, signs between conditions included.
	for _, single := range text.singles {
		filter += " && characters:`" + single + "`"
	}
	candidates, typos, highlighted := maxWords, "0", "none"
	if text.typos {
		// What the tokens are that were matched because of typing errors stands in the highlights.
		typos, highlighted = "2", "name,content"
	}
	if i := q.Keyword.LastWord(); i >= 0 && utf8.RuneCountInString(q.Keyword.Parts[i].Sought()) < minLength1Typo {
		candidates = maxShortWords
	}
	return &api.SearchCollectionParams{
		Q:              new(text.q),
		QueryBy:        new("name,content"),
		QueryByWeights: new("3,1"),
		FilterBy:       &filter,
		SortBy:         new(text.order()),
		Page:           new(min(q.Page, maxPage)),
		PerPage:        &q.PerPage,

		Prefix:              new(strconv.FormatBool(text.prefix)),
		NumTypos:            &typos,
		MinLen1typo:         new(minLength1Typo),
		MinLen2typo:         new(8),
		TypoTokensThreshold: new(1),
		DropTokensThreshold: new(0),
		SplitJoinTokens:     new("off"),
		// Tokens of characters of runs, and those with #, must match exactly.
		EnableTyposForAlphaNumericalTokens: new(false),
		EnableTyposForNumericalTokens:      new(false),
		MaxCandidates:                      &candidates,
		MaxFilterByCandidates:              new(10_000),

		HighlightFields:         &highlighted,
		HighlightFullFields:     new("name"),
		HighlightAffixNumTokens: new(30),
		SnippetThreshold:        new(30),
		ExcludeFields:           new("tenant_key,name,content,beginnings,characters"),
	}
}

// Bounds of how many words a beginning stands for: each costs a search of its own. Many more
// words begin with one to three letters, in which typing errors are not looked for.
const (
	minLength1Typo = 4
	maxWords       = 250
	maxShortWords  = 1000
)
