package waypost

import (
	"fmt"
	"slices"
	"time"
)

// Origin says where a search comes from: the parameter `from`
// (docs/contract.md, "Search request").
type Origin string

// The origins. The front end sees published articles only.
const (
	FromFrontend Origin = "frontend"
	FromAdmin    Origin = "admin"
)

// Origins lists every origin.
var Origins = []Origin{FromFrontend, FromAdmin}

// Bounds of a search token (docs/contract.md, "Search tokens").
const (
	MaxTokenTenants    = 100
	DefaultTokenExpiry = time.Hour
	MinTokenExpiry     = time.Minute
	MaxTokenExpiry     = 30 * 24 * time.Hour
)

// SearchToken is what a bearer token of article search permits
// (docs/contract.md, "Search tokens").
type SearchToken struct {
	AppID     string // that it was issued to; disabled with it
	Scope     Scope
	TenantIDs []string // the sites that it may search
	From      []Origin
	// MaxAccessLevel caps user_access_level; without that parameter it is the level.
	MaxAccessLevel int
	ExpiresAt      time.Time
}

// Allows tells whether the token covers a tenant and an origin.
func (t SearchToken) Allows(tenantID string, from Origin) bool {
	return slices.Contains(t.TenantIDs, tenantID) && slices.Contains(t.From, from)
}

// Validate reports everything that is wrong with a token that is to be issued for
// a time of expiry, as one BadRequest.
func (t SearchToken) Validate(expiry time.Duration) error {
	var p Problems
	switch n := len(t.TenantIDs); {
	case n == 0:
		p.Add(DetailNullValue, "tenantIds", "name at least one tenant")
	case n > MaxTokenTenants:
		p.Add(DetailOutOfRange, "tenantIds", "must be at most %d", MaxTokenTenants)
	default:
		for i, id := range t.TenantIDs {
			target := fmt.Sprintf("tenantIds[%d]", i)
			checkArticleKey(&p, target, id)
			if slices.Contains(t.TenantIDs[:i], id) {
				p.Add(DetailDuplicate, target, "stands twice")
			}
		}
	}
	if len(t.From) == 0 {
		p.Add(DetailNullValue, "from", "must hold frontend, admin or both")
	}
	for i, from := range t.From {
		target := fmt.Sprintf("from[%d]", i)
		if !slices.Contains(Origins, from) {
			p.Add(DetailInvalidFormat, target, "must be frontend or admin")
		} else if slices.Contains(t.From[:i], from) {
			p.Add(DetailDuplicate, target, "stands twice")
		}
	}
	checkAccessLevel(&p, "maxAccessLevel", t.MaxAccessLevel)
	if expiry < MinTokenExpiry || expiry > MaxTokenExpiry {
		p.Add(DetailOutOfRange, "expiresIn", "must be %d to %d seconds", int(MinTokenExpiry.Seconds()), int(MaxTokenExpiry.Seconds()))
	}
	return p.Err("")
}

// SearchResult is one page of hits (docs/contract.md, "Search answer").
type SearchResult struct {
	Page    int // as asked for, possibly past the end
	PerPage int
	Total   int // hits on all pages
	Hits    []SearchHit
}

// Pages is the number of pages.
func (r SearchResult) Pages() int {
	if r.PerPage < 1 {
		return 0
	}
	return (r.Total + r.PerPage - 1) / r.PerPage
}

// SearchHit is an article that was found (docs/contract.md, "Search answer").
// Both highlights are HTML: everything but the marks is escaped.
type SearchHit struct {
	ID              string
	Name            string
	FrontendURL     string
	Slug            string
	Identifier      string
	NameHighlight   string // the whole title
	SearchHighlight string // an excerpt of the content
	AccessLevel     int
	Channels        []Channel
}

// ArticleRow is one line of an import of articles: an article, or what is wrong
// with it.
type ArticleRow struct {
	Line    int // from 1
	Article Article
	Err     *Error // nil: the article is to be stored
}

// ArticleImport is what has become of an import of articles (docs/contract.md, "Articles").
type ArticleImport struct {
	Total   int
	Created int
	Updated int
	Failed  int
	Errors  []ImportError // of the first MaxLineErrors failed lines, by line
}

// ReindexStatus is where a reindex stands.
type ReindexStatus string

// The states of a reindex. The last two are final.
const (
	ReindexPending   ReindexStatus = "pending"   // asked for
	ReindexRunning   ReindexStatus = "running"   // the new collection is being filled
	ReindexSucceeded ReindexStatus = "succeeded" // searches use the new collection
	ReindexFailed    ReindexStatus = "failed"    // it cannot go on; Message says why
)

// Reindex fills a new collection with all articles and then has searches use it
// (docs/contract.md, "Articles"). There is at most one at a time.
type Reindex struct {
	Status    ReindexStatus
	Message   string
	Total     int // articles when it began
	Processed int
	CreatedAt time.Time
	StartedAt *time.Time
	EndedAt   *time.Time
}

// ArticleIndex is what SQL knows of the search index: which generation of it holds
// the articles, and who writes it. One process at a time does, its holder.
type ArticleIndex struct {
	Engine   string // where the generations are, such as "typesense"
	Live     string // the generation that is searched, "" before the first
	Building string // the one that a reindex fills, "" if none runs
	Cursor   int64  // the number of the last article that the reindex has put there
	// Requested tells that a reindex was asked for and has not begun.
	Requested bool
	Epoch     int64 // of the holder: higher than that of each holder before
	Mark      int64 // the last that the searched generation was given, 0 before the first
}

// IndexedArticle is an article as the index gets it. Number is the only one of its
// kind over all organisations and stages.
type IndexedArticle struct {
	Number int64
	Stage  Stage
	Article
}

// ArticleChange says that the index may not hold an article as SQL does.
type ArticleChange struct {
	Number   int64
	Revision int64           // counts the article's changes
	Tries    int             // that have failed
	Article  *IndexedArticle // nil: it was deleted
}
