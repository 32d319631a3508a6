package delivery

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cenkalti/backoff/v5"
)

// recorder writes the ends of attempts, many in one transaction: what arrives
// while a transaction is under way goes into the next one. A POST that was made
// must not be made again only because the database is away, so a write is
// retried until it succeeds.
type recorder struct {
	store  Store
	log    *slog.Logger
	failed func(error)
	queue  chan queuedRecord
	turn   chan struct{} // holds a value while collect runs
	// posting are the POSTs that are under way: while there are any, more records come.
	posting atomic.Int64
	running sync.WaitGroup // the recorders, and writers of records that were taken apart
	once    sync.Once
	closed  chan struct{}
	done    chan struct{}

	writeTime time.Duration
}

type queuedRecord struct {
	record   AttemptRecord
	recorded chan<- struct{}
}

const (
	maxRecords = 200 // in one transaction
	// recorders is how many transactions are under way at a time: while the disk
	// confirms one, the database works on others.
	recorders = 3
	// sharedFor lets the answers of one batch, which come within milliseconds of each
	// other, share a transaction. The wait ends at once when no POST is under way.
	sharedFor = 15 * time.Millisecond
	// A transaction that failed so often is taken apart, so that one record that
	// the database refuses does not hold up the others.
	triesAsBatch = 5
	// maxWriteWait is short: the sooner an outcome is written once the database is
	// back, the less another process may take it for lost.
	maxWriteWait = time.Second
	// writeTime bounds one try of a write.
	writeTime = 20 * time.Second
)

// writeWaits are the waits between the tries of a write.
func writeWaits() backoff.BackOff {
	return &backoff.ExponentialBackOff{InitialInterval: 50 * time.Millisecond, Multiplier: 2, MaxInterval: maxWriteWait}
}

// errRecorderClosed says that the process is stopping.
var errRecorderClosed = errors.New("the recorder is closed")

func newRecorder(store Store, log *slog.Logger, failed func(error)) *recorder {
	r := &recorder{
		store: store, log: log, failed: failed, writeTime: writeTime,
		queue:  make(chan queuedRecord, 4*maxRecords),
		turn:   make(chan struct{}, 1),
		closed: make(chan struct{}),
		done:   make(chan struct{}),
	}
	for range recorders {
		r.running.Go(r.run)
	}
	go func() {
		r.running.Wait()
		close(r.done)
	}()
	return r
}

// record returns once the record is written.
func (r *recorder) record(record AttemptRecord) error {
	recorded := make(chan struct{})
	select {
	case r.queue <- queuedRecord{record, recorded}:
	case <-r.done:
		return errRecorderClosed
	}
	select {
	case <-recorded:
		return nil
	case <-r.done:
		return errRecorderClosed
	}
}

func (r *recorder) close(ctx context.Context) error {
	r.once.Do(func() { close(r.closed) })
	select {
	case <-r.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (r *recorder) run() {
	for {
		batch := r.collect()
		if len(batch) == 0 {
			return
		}
		r.write(batch, triesAsBatch)
	}
}

// collect waits for a record and takes what comes along. It returns nothing once
// the recorder is closed and the queue is empty. One goroutine at a time collects: several
// would split what belongs into one transaction.
func (r *recorder) collect() []queuedRecord {
	r.turn <- struct{}{}
	defer func() { <-r.turn }()
	var batch []queuedRecord
	select {
	case first := <-r.queue:
		batch = append(batch, first)
	case <-r.closed:
		select {
		case first := <-r.queue:
			batch = append(batch, first)
		default:
			return nil
		}
	}
	late := time.After(sharedFor)
	for len(batch) < maxRecords {
		select {
		case next := <-r.queue:
			batch = append(batch, next)
			continue
		default:
		}
		if r.posting.Load() == 0 {
			return batch
		}
		select {
		case next := <-r.queue:
			batch = append(batch, next)
		case <-late:
			return batch
		}
	}
	return batch
}

// write retries until the batch is written. After so many tries it writes each record of
// the batch by itself.
func (r *recorder) write(batch []queuedRecord, tries int) {
	records := make([]AttemptRecord, len(batch))
	for i, b := range batch {
		records[i] = b.record
	}
	waits := writeWaits()
	for try := 1; ; try++ {
		// A database that neither answers nor refuses must not hold up every outcome of the process.
		ctx, cancel := context.WithTimeout(context.Background(), r.writeTime)
		err := r.store.RecordAttempts(ctx, records)
		cancel()
		if err == nil {
			for _, b := range batch {
				close(b.recorded)
			}
			return
		}
		r.failed(err)
		r.log.Error("record attempts; will retry", "attempts", len(batch), "try", try, "error", err)
		if try >= tries && len(batch) > 1 {
			break
		}
		// A closing process cannot wait for the database for ever; Close is given the
		// time that it may take.
		time.Sleep(waits.NextBackOff())
	}
	for _, b := range batch {
		r.running.Go(func() { r.write([]queuedRecord{b}, 1) })
	}
}
