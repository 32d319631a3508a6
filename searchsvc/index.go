package searchsvc

import (
	"context"
	"fmt"

	"waypost"
)

// Index is a search engine with all articles of all tenants. It keeps generations
// of them: each has all articles, one is live and searched, another may be filled
// meanwhile. Where the engine is away, refuses us or lacks what is asked for, every
// method returns Unavailable, without the query's text. Methods may be called at the same
// time.
type Index interface {
	// Search returns the page of articles that hold every part of the query's
	// keyword, belong to its stage and tenant, and may be seen by its level
	// and, from the front end, are published: those that hold its words with their accents
	// first (Keyword.Accented), then those that hold all of it in their name, then the newest. The keyword has at least one part. It asks
	// the live generation; without one it is ServiceUnavailable, never empty.
	Search(ctx context.Context, q Query) (Found, error)

	// Engine names the place of the generations and the way in which texts are indexed
	// there, such as "typesense-4"; an index that belongs to one process has a name that no
	// other index has. Generations of another engine are not used.
	Engine() string
	// Live returns the generation that is searched, "" if there is none.
	Live(ctx context.Context) (generation string, err error)
	// Create makes an empty generation; one that is there already is emptied.
	Create(ctx context.Context, generation string) error
	// Import adds documents to a generation or replaces those of the same keys.
	// faults has an entry for each document, nil where it was put. An error that concerns
	// all of them is err, and then faults is nil. A document that was put outlives a crash.
	Import(ctx context.Context, generation string, docs []Document) (faults []error, err error)
	// Delete takes the documents of these keys out of a generation. A key that is not there
	// is no error.
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

// Unavailable makes an error a waypost.Error ServiceUnavailable that keeps the cause for
// logs; clients see only that article search is away.
func Unavailable(cause error) error {
	return fmt.Errorf("%w: %w", cause,
		waypost.Errorf(waypost.CodeServiceUnavailable, "", "article search is away; try again in a moment"))
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
	// Words of its name and content that the engine matched with words of the keyword because
	// of typing errors.
	Words []string
}
