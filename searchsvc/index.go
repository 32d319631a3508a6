package searchsvc

import (
	"context"

	"waypost"
)

// Index is a search engine with all articles of all tenants. It keeps generations
// of them: each has all articles, one is live and searched, another may be filled
// meanwhile. Where the engine is away, refuses us or lacks what is asked for, every
// method returns an error that is a waypost.Error ServiceUnavailable, without the
// query's text. Methods may be called at the same time.
type Index interface {
	// Search returns the page of articles that hold every part of the query's
	// keyword, belong to its stage and tenant, and may be seen by its level
	// and, from the front end, are published: those that hold the keyword in
	// their name first, then the newest. The keyword has at least one part. It asks
	// the live generation; without one it is ServiceUnavailable, never empty.
	Search(ctx context.Context, q Query) (Found, error)

	// Engine names where the generations are and how texts are indexed there, such as
	// "typesense-3", or, for an index that belongs to one process, a name that no other
	// one has. Generations of another engine are not used.
	Engine() string
	// Live names the generation that is searched, "" if there is none.
	Live(ctx context.Context) (generation string, err error)
	// Create makes an empty generation; one that is there already is emptied.
	Create(ctx context.Context, generation string) error
	// Import adds documents to a generation or replaces those of the same keys.
	// faults has an entry for each, nil where it was put; err is for what befell all
	// of them, and then faults is nil. What was put is there for good.
	Import(ctx context.Context, generation string, docs []Document) (faults []error, err error)
	// Delete takes the documents of these keys out of a generation, as far as they are
	// there.
	Delete(ctx context.Context, generation string, keys []string) error
	// Mark notes in a generation that everything written to it before is there: a server
	// that replays the writes has done these when it has this mark or a higher one. Only
	// generations with all articles are marked. Each number is higher than those before.
	// No search finds the mark.
	Mark(ctx context.Context, generation string, number int64) error
	// SetLive has searches use a generation, from one moment to the next. It must be
	// there.
	SetLive(ctx context.Context, generation string) error
	// Prune drops all generations of ours but these.
	Prune(ctx context.Context, keep ...string) error
}

// Document is what an index knows of an article: the article in its stage.
type Document struct {
	// Key names the document in the whole index, over all organisations and
	// stages, where the article's id need not be the only one of its kind: the
	// article's number in SQL.
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
