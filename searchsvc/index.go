package searchsvc

import (
	"context"

	"waypost"
)

// Index is a search engine, with all articles of all tenants. Where the engine
// is away, refuses us or has no collection, every method returns an error that
// is a waypost.Error ServiceUnavailable, without the query's text. Methods may be
// called at the same time.
type Index interface {
	// Search returns the page of articles that hold every part of the query's
	// keyword, belong to its stage and tenant, and may be seen by its level
	// and, from the front end, are published: those that hold the keyword in
	// their name first, then the newest. The keyword has at least one part.
	Search(ctx context.Context, q Query) (Found, error)
	// Put adds a document or replaces the one of the same key.
	Put(ctx context.Context, d Document) error
	// Import puts many documents. faults has an entry for each, nil where it was
	// put; err is for what befell all of them, and then faults is nil.
	Import(ctx context.Context, docs []Document) (faults []error, err error)
	// Delete takes out the document of this key, if there is one.
	Delete(ctx context.Context, key string) error
}

// Document is what an index knows of an article: the article in its stage.
type Document struct {
	// Key names the document in the whole index, over all organisations and
	// stages, where the article's id need not be the only one of its kind.
	Key   string
	Stage waypost.Stage
	waypost.Article
}

// Found is one page of an engine's answer.
type Found struct {
	Total   int // over all pages
	Matches []Match
}

// Match is a document that an engine found.
type Match struct {
	Document
	// Words of its name and content that the engine matched with words of the
	// keyword, because of typing errors or accents too.
	Words []string
}
