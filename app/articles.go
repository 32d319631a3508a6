package app

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"waypost/config"
	"waypost/searchsvc"
	"waypost/searchsvc/embedded"
	"waypost/searchsvc/typesense"
	"waypost/store"
)

// searchFolder is where the embedded index lies in the data directory.
const searchFolder = "search"

// articles is article search in one process.
type articles struct {
	service *searchsvc.Service
	indexer *searchsvc.Indexer
	close   func() error
}

// openArticles opens the search engine of the settings: Typesense, or else the embedded
// index if the process is a gateway. A worker without Typesense has no articles: nil.
func openArticles(ctx context.Context, cfg config.Config, role parts, db *store.Store, log *slog.Logger) (*articles, error) {
	var index searchsvc.Index
	a := &articles{close: func() error { return nil }}
	embeds := len(cfg.Search.URLs) == 0
	switch {
	case !embeds:
		installation, err := db.Installation(ctx)
		if err != nil {
			return nil, fmt.Errorf("article search: %w", err)
		}
		engine, err := typesense.Open(typesense.Options{
			URLs: cfg.Search.URLs, APIKey: string(cfg.Search.APIKey), Indexed: db.ArticleIndex, Log: log,
			Prefix: cmp.Or(cfg.Search.Prefix, "waypost_"+installation+"_"), Installation: installation,
		})
		if err != nil {
			return nil, fmt.Errorf("WAYPOST_TYPESENSE_URL: %w", err)
		}
		index = engine
	case role.gateway:
		engine, err := embedded.Open(filepath.Join(cfg.DataDir, searchFolder))
		if err != nil {
			return nil, fmt.Errorf("article search: %w", err)
		}
		index, a.close = engine, engine.Close
	default:
		return nil, nil
	}
	a.service = searchsvc.New(index, db)
	a.indexer = searchsvc.NewIndexer(index, db, embeds, log)
	if embeds {
		if err := a.indexer.Claim(ctx); err != nil {
			closing(log, "embedded index", a.close())
			return nil, err
		}
	}
	return a, nil
}
