package store

import (
	"context"
	"errors"
	"iter"

	"waypost"
)

// Bounds of a batch of an import that is stored as it is read: one transaction.
const (
	maxLineBatch      = 500
	maxLineBatchBytes = 4 << 20 // save that one line may exceed it
)

// inBatches calls store with the rows of an import, some hundred at a time; last marks the last
// batch, which may be empty. prepare checks a row as far as that needs no other one, and tells
// the size of its texts. An error of rows ends it and is returned; what was stored before stays,
// so that the same import can be sent again.
func inBatches[R, L any](
	ctx context.Context, rows iter.Seq2[R, error], prepare func(R) (line L, size int, err error), store func(batch []L, last bool) error,
) error {
	var batch []L
	size := 0
	flush := func(last bool) error {
		err := store(batch, last)
		clear(batch) // the texts
		batch, size = batch[:0], 0
		return err
	}
	for row, err := range rows {
		var line L
		n := 0
		if err == nil {
			line, n, err = prepare(row)
		}
		if err == nil && (len(batch) == maxLineBatch || len(batch) > 0 && size+n > maxLineBatchBytes) {
			err = flush(false)
		}
		if err = errors.Join(err, ctx.Err()); err != nil {
			return err
		}
		batch = append(batch, line)
		size += n
	}
	return flush(true)
}

// withFault adds a line that failed, unless there are enough.
func withFault(failed []waypost.ImportError, line int, fault *waypost.Error) []waypost.ImportError {
	if len(failed) < waypost.MaxLineErrors {
		failed = append(failed, waypost.ImportError{Line: line, Error: fault})
	}
	return failed
}
