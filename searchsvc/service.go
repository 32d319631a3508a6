// Package searchsvc is article search: what a query asks for, what a keyword
// means, how hits are checked and marked (docs/contract.md, "Article search"), and how
// articles get from SQL into the engine that finds them, which is behind Index.
package searchsvc

import (
	"context"
	"errors"
	"fmt"
	"slices"

	lru "github.com/hashicorp/golang-lru/v2"

	"waypost"
)

// Tenants knows the organisations of tenants.
type Tenants interface {
	// TenantOrg returns the organisation that a tenant belongs to, which never changes.
	// The error is NotFound while the tenant has no organisation.
	TenantOrg(ctx context.Context, tenantID string) (org string, err error)
}

// Service answers searches from an index. It may be used at the same time by many.
type Service struct {
	index   Index
	tenants Tenants
	owners  *lru.Cache[string, string] // organisations by tenant
}

// maxOwners bounds the owners that are remembered. Tenants are sites: there are far fewer.
const maxOwners = 10_000

// New returns a service on an index.
func New(index Index, tenants Tenants) *Service {
	owners, _ := lru.New[string, string](maxOwners) // fails for a size below 1 only
	return &Service{index, tenants, owners}
}

// Works asks the index as a search does, and returns why it cannot answer.
func (s *Service) Works(ctx context.Context) error {
	_, err := s.index.Search(ctx, Query{
		Stage: waypost.StageRelease, TenantID: "readyz", From: waypost.FromAdmin, Keyword: ParseKeyword("waypost"), Page: 1, PerPage: 1,
	})
	return err
}

// errForeignHit is a fault of an index, never of a caller.
var errForeignHit = errors.New("the index returned an article that the query must not see")

// Search answers the raw query of a URL for a token that was verified
// (docs/contract.md, "Search request"). A keyword without any part, such as "*" or "!!!",
// finds nothing; so does a tenant without an organisation. The error
// is BadRequest for faulty parameters, Unauthorized (target tenant_id or from) for
// what the token does not permit, and ServiceUnavailable if the engine cannot
// answer: then it is never an empty result.
func (s *Service) Search(ctx context.Context, token waypost.SearchToken, rawQuery string) (waypost.SearchResult, error) {
	q, err := ParseQuery(rawQuery)
	if err != nil {
		return waypost.SearchResult{}, err
	}
	if !slices.Contains(token.From, q.From) {
		return waypost.SearchResult{}, waypost.Errorf(waypost.CodeUnauthorized, "from", "the token does not permit searches from %s", q.From)
	}
	foreign := waypost.Errorf(waypost.CodeUnauthorized, "tenant_id", "the token does not permit searches of this tenant")
	if !slices.Contains(token.TenantIDs, q.TenantID) {
		return waypost.SearchResult{}, foreign
	}
	q.Stage, q.Level = token.Scope.Stage, min(q.Level, token.MaxAccessLevel)
	nothing := waypost.SearchResult{Page: q.Page, PerPage: q.PerPage, Hits: []waypost.SearchHit{}}

	// A token may be older than its tenant's first article, which anybody may have
	// written meanwhile.
	owner, err := s.owner(ctx, q.TenantID)
	switch {
	case waypost.CodeOf(err) == waypost.CodeNotFound:
		return nothing, nil
	case err != nil:
		return waypost.SearchResult{}, fmt.Errorf("search articles: %w", err)
	case owner != token.Scope.Org:
		return waypost.SearchResult{}, foreign
	}
	if len(q.Keyword.Parts) == 0 {
		return nothing, nil
	}
	found, err := s.index.Search(ctx, q)
	if err != nil {
		return waypost.SearchResult{}, fmt.Errorf("search articles: %w", err)
	}
	result := nothing
	result.Total, result.Hits = found.Total, make([]waypost.SearchHit, len(found.Matches))
	for i, m := range found.Matches {
		if !q.sees(m.Document) {
			return waypost.SearchResult{}, fmt.Errorf("search articles: %w", errForeignHit)
		}
		result.Hits[i] = newHit(q.Keyword, m)
	}
	return result, nil
}

// sees tells whether a query may see a document. Engines compare strings in their
// own ways, so it is decided here once more.
func (q Query) sees(d Document) bool {
	return d.Stage == q.Stage && d.TenantID == q.TenantID && d.VisibleFrom() <= q.Level && (d.Published || q.From == waypost.FromAdmin)
}

func newHit(k Keyword, m Match) waypost.SearchHit {
	h := NewHighlighter(k, m.Words)
	return waypost.SearchHit{
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

// owner returns the organisation of a tenant. One without is looked up each time.
func (s *Service) owner(ctx context.Context, tenantID string) (string, error) {
	if org, ok := s.owners.Get(tenantID); ok {
		return org, nil
	}
	org, err := s.tenants.TenantOrg(ctx, tenantID)
	if err != nil {
		return "", err
	}
	s.owners.Add(tenantID, org)
	return org, nil
}
