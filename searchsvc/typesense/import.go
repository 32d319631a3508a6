package typesense

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"

	"github.com/typesense/typesense-go/v3/typesense/api"

	"waypost/searchsvc"
)

// importBatch is how many documents Typesense indexes before it lets searches in
// between.
const importBatch = 200

// Import implements searchsvc.Index. All documents go in one request, so callers
// bound how many they give.
func (x *Index) Import(ctx context.Context, docs []searchsvc.Document) ([]error, error) {
	if len(docs) == 0 {
		return nil, nil
	}
	var lines bytes.Buffer
	encoder := json.NewEncoder(&lines)
	encoder.SetEscapeHTML(false)
	for _, d := range docs {
		if err := encoder.Encode(newDocument(d)); err != nil {
			return nil, fmt.Errorf("import articles: %w", err)
		}
	}
	ctx, cancel := context.WithTimeout(ctx, x.options.WriteTimeout)
	defer cancel()
	action, batch := api.Upsert, importBatch
	answer, err := x.client.Collection(x.collection).Documents().ImportJsonl(ctx, &lines, &api.ImportDocumentsParams{Action: &action, BatchSize: &batch})
	if err != nil {
		return nil, wrap("import articles", classify(ctx, err))
	}
	defer answer.Close()
	// The answer is always 200, with a line for each document, in order.
	faults := make([]error, len(docs))
	decoder := json.NewDecoder(answer)
	for i := range docs {
		var line struct {
			Success bool   `json:"success"`
			Code    int    `json:"code"`
			Error   string `json:"error"`
		}
		if err := decoder.Decode(&line); err != nil {
			return nil, wrap("import articles", classify(ctx, fmt.Errorf("line %d: %w", i+1, err)))
		}
		if !line.Success {
			faults[i] = fmt.Errorf("index an article: %.200s: %w", line.Error, statusError(line.Code))
		}
	}
	return faults, nil
}
