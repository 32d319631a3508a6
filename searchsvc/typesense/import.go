package typesense

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/typesense/typesense-go/v3/typesense/api"

	"waypost/searchsvc"
)

// importBatch is how many documents Typesense indexes before it lets searches in
// between.
const importBatch = 200

// Bounds of one request of an import, so that it is done long before it is given up.
// A document that is longer goes alone.
const (
	maxImportLines = 500
	maxImportBytes = 4 << 20
)

// Import implements searchsvc.Index. It sends as many requests as it takes, one after
// the other. After an error the documents of the first ones may be there already.
func (x *Index) Import(ctx context.Context, generation string, docs []searchsvc.Document) ([]error, error) {
	faults := make([]error, len(docs))
	var lines bytes.Buffer
	var at []int // the indexes in docs of the documents in lines
	send := func() error {
		if len(at) == 0 {
			return nil
		}
		part, err := x.importLines(ctx, x.prefix+generation, lines.Bytes(), len(at))
		if err != nil {
			return wrap("import articles", err)
		}
		for i, fault := range part {
			faults[at[i]] = fault
		}
		lines.Reset()
		at = at[:0]
		return nil
	}
	for i, d := range docs {
		if d.Key == "" || d.Key == markKey { // for "" Typesense would think of one
			faults[i] = errors.New("a document has no key of its own")
			continue
		}
		line, err := encodeLine(newDocument(d))
		if err != nil {
			return nil, fmt.Errorf("import articles: %w", err)
		}
		if len(at) == maxImportLines || lines.Len()+len(line) > maxImportBytes {
			if err := send(); err != nil {
				return nil, err
			}
		}
		lines.Write(line)
		at = append(at, i)
	}
	if err := send(); err != nil {
		return nil, err
	}
	return faults, nil
}

// Mark implements searchsvc.Index. Typesense applies the writes of one collection in their
// order, also when it replays its log.
func (x *Index) Mark(ctx context.Context, generation string, number int64) error {
	line, err := encodeLine(newMark(number))
	if err == nil {
		var faults []error
		if faults, err = x.importLines(ctx, x.prefix+generation, line, 1); err == nil {
			err = faults[0]
		}
	}
	return wrap("mark the collection "+x.prefix+generation, err)
}

func encodeLine(d any) ([]byte, error) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(d)
	return line.Bytes(), err
}

// importLines puts documents by one request, and returns a fault for each, nil where it was
// put.
func (x *Index) importLines(ctx context.Context, collection string, lines []byte, count int) ([]error, error) {
	faults := make([]error, count)
	err := x.do(ctx, x.writing, func(ctx context.Context, n *node) error {
		action, batch := api.Upsert, importBatch
		answer, err := n.client.Collection(collection).Documents().ImportJsonl(ctx, bytes.NewReader(lines),
			&api.ImportDocumentsParams{Action: &action, BatchSize: &batch})
		if err != nil {
			return err
		}
		defer answer.Close()
		// The answer is always 200, with a line for each document, in order.
		decoder := json.NewDecoder(answer)
		for i := range faults {
			var line struct {
				Success *bool  `json:"success"`
				Code    int    `json:"code"`
				Error   string `json:"error"`
				Message string `json:"message"`
			}
			if err := decoder.Decode(&line); err != nil {
				return err
			}
			switch {
			case line.Success == nil: // it breaks off
				return fault{cause: "breaks an import off" + reason(line.Message)}
			case *line.Success:
				faults[i] = nil
			default:
				faults[i] = documentError(line.Code, line.Error)
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return faults, nil
}
