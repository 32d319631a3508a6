package embedded

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/blevesearch/bleve/v2/index/scorch"
	index "github.com/blevesearch/bleve_index_api"
	zap "github.com/blevesearch/zapx/v16"
	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"waypost/searchsvc"
)

// A batch is what becomes one segment: its size bounds the memory that indexing
// takes, a hundred times that of a text and more if its characters are random.
const (
	batchDocuments = 500
	batchBytes     = 1 << 20
)

// zapx foresees a segment's size by that of the documents in the one before, and 100
// more: after one article of a megabyte it would allocate gigabytes for a batch of
// small ones.
func init() { zap.NewSegmentBufferAvgBytesPerDocFactor = 0 }

// generation is one set of articles, in a folder of its own.
type generation struct {
	dir    string
	scorch *scorch.Scorch
	failed chan struct{} // closed when scorch cannot go on
	fail   func()        // closes it

	orders orderCache

	users  sync.RWMutex // locked for reading while the generation is used, for writing to close it
	writes sync.Mutex   // one batch at a time, in the order of the calls
}

// format stands in every generation, and changes with how texts are indexed and with the
// members of searchsvc.Document. Another one, of another version of this package, counts
// as damaged and is filled anew. Its value is the generation's name, so that a copied
// folder does too.
const format = "waypost-4"

// damage is why a generation cannot be used.
type damage struct{ error }

func (d damage) Unwrap() error { return d.error }

func createGeneration(dir, name string, queue *index.AnalysisQueue) (*generation, error) {
	if err := os.RemoveAll(dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	g, err := start(dir, queue)
	if err != nil {
		return nil, err
	}
	batch := index.NewBatch()
	batch.SetInternal([]byte(format), []byte(name))
	if err := errors.Join(g.write(batch), syncFolder(dir), syncFolder(filepath.Dir(dir))); err != nil {
		return nil, errors.Join(err, g.close())
	}
	return g, nil
}

// openGeneration opens a generation. The error is a damage if the files are not as they were
// written.
func openGeneration(dir, name string, queue *index.AnalysisQueue) (*generation, error) {
	err := check(dir, name)
	var g *generation
	if err == nil {
		g, err = start(dir, queue)
	}
	if err == nil {
		return g, nil
	}
	err = fmt.Errorf("generation %s: %w", name, err)
	// Scorch returns the text of an error, not the error.
	if slices.ContainsFunc(passing, func(e error) bool { return strings.Contains(err.Error(), e.Error()) }) {
		return nil, err
	}
	return nil, damage{err}
}

// passing are errors of the system, which do not mean that a file is damaged.
var passing = []error{
	syscall.EACCES, syscall.EPERM, syscall.EROFS, syscall.ENOSPC, syscall.EMFILE, syscall.ENFILE, syscall.ENOMEM, berrors.ErrTimeout,
}

// check reads all of a generation. Scorch by itself takes a missing file for an
// empty index, falls back to an older state where the newest cannot be read, and
// does not verify the checksums of its segments.
func check(dir, name string) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer guard(&err)
	if err := checkSize(filepath.Join(dir, "root.bolt")); err != nil {
		return err
	}
	x, err := scorch.NewScorch(scorch.Name, map[string]any{"path": dir, "read_only": true, "bolt_timeout": lockTimeout.String()}, nil)
	if err != nil {
		return err
	}
	s := x.(*scorch.Scorch)
	if err := s.Open(); err != nil {
		return err
	}
	defer s.Close()
	epochs, err := s.RootBoltSnapshotEpochs()
	if err != nil {
		return err
	}
	if len(epochs) == 0 {
		return errors.New("there is no state")
	}
	snapshot, err := s.LoadSnapshot(epochs[0])
	if err != nil {
		return err
	}
	defer snapshot.Close()
	if string(snapshot.Internal()[format]) != name {
		return errors.New("it has another format")
	}
	for _, segment := range snapshot.Segments() {
		file, ok := segment.Segment().(interface {
			Data() []byte
			CRC() uint32
		})
		if !ok {
			return fmt.Errorf("segments of type %T", segment.Segment())
		}
		data := file.Data()
		if crc32.ChecksumIEEE(data[:len(data)-crc32.Size]) != file.CRC() {
			return errors.New("a checksum is wrong")
		}
	}
	return nil
}

// checkSize tells whether scorch's small database, which lists the segments, is as
// long as it says.
func checkSize(name string) error {
	info, err := os.Stat(name)
	if err != nil {
		return err
	}
	if info.Size() == 0 {
		return errors.New("an empty file") // for bbolt it is a new database
	}
	db, err := bbolt.Open(name, 0o600, &bbolt.Options{ReadOnly: true, Timeout: lockTimeout})
	if err != nil {
		return err
	}
	defer db.Close()
	return db.View(func(tx *bbolt.Tx) error {
		if info.Size() < tx.Size() {
			return errors.New("a file is cut off")
		}
		return nil
	})
}

// lockTimeout is how long scorch waits for its own lock; ours keeps others out.
const lockTimeout = 5 * time.Second

// running finds the generation of a folder, because scorch can be told only the
// name of a function.
var running sync.Map

const onErrorName = "waypost"

func init() { scorch.RegistryAsyncErrorCallbacks[onErrorName] = onError }

// retryDelay is the pause before scorch tries again to write to a disk that is
// full, which it would do without end.
const retryDelay = 500 * time.Millisecond

func onError(err error, dir string) {
	g, ok := running.Load(dir)
	switch {
	case errors.Is(err, scorch.ErrPersist):
		time.Sleep(retryDelay)
	case errors.Is(err, scorch.ErrAsyncPanic) && ok:
		g.(*generation).fail()
	}
}

func start(dir string, queue *index.AnalysisQueue) (_ *generation, err error) {
	defer guard(&err)
	x, err := scorch.NewScorch(scorch.Name, map[string]any{
		"path": dir, "bolt_timeout": lockTimeout.String(), "asyncErrorCallbackName": onErrorName,
		"scorchMergePlanOptions": map[string]any{"FloorSegmentSize": 250},
	}, queue)
	if err != nil {
		return nil, err
	}
	g := &generation{dir: dir, scorch: x.(*scorch.Scorch), failed: make(chan struct{})}
	g.fail = sync.OnceFunc(func() { close(g.failed) })
	running.Store(dir, g)
	if err := g.scorch.Open(); err != nil {
		running.Delete(dir)
		return nil, err
	}
	return g, nil
}

// close waits until the generation is no longer used. A scorch that has failed is not waited
// for: it may wait for itself for ever.
func (g *generation) close() error {
	g.users.Lock()
	defer g.users.Unlock()
	defer running.Delete(g.dir)
	done := make(chan error, 1)
	go func() { done <- g.scorch.Close() }()
	select {
	case err := <-done:
		return err
	case <-g.failed:
		return errFailed
	}
}

func (g *generation) release() { g.users.RUnlock() }

func (g *generation) put(ctx context.Context, docs []searchsvc.Document) ([]error, error) {
	faults := make([]error, len(docs))
	batch, size := index.NewBatch(), 0
	for i, d := range docs {
		doc, err := newDocument(d)
		faults[i] = err
		if err == nil {
			batch.Update(doc) // of the same key twice, the later one counts
			size += len(d.Name) + len(d.Content)
		}
		full := len(batch.IndexOps) == batchDocuments || size >= batchBytes
		if full || i == len(docs)-1 && len(batch.IndexOps) > 0 {
			if err := g.writeFor(ctx, batch); err != nil {
				return nil, err
			}
			batch, size = index.NewBatch(), 0
		}
	}
	return faults, nil
}

func (g *generation) remove(ctx context.Context, keys []string) error {
	if len(keys) == 0 {
		return nil
	}
	batch := index.NewBatch()
	for _, key := range keys {
		batch.Delete(key)
	}
	return g.writeFor(ctx, batch)
}

// writeFor writes a batch unless ctx has ended. A batch that has begun is not given up: it
// could overtake a later one.
func (g *generation) writeFor(ctx context.Context, batch *index.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := g.write(batch); err != nil {
		return searchsvc.Unavailable(err)
	}
	return nil
}

// write returns when the batch is on the disk.
func (g *generation) write(batch *index.Batch) error {
	g.writes.Lock()
	defer g.writes.Unlock()
	select {
	case <-g.failed:
		return errFailed
	default:
	}
	done := make(chan error, 1)
	go func() (err error) {
		defer func() { done <- err }()
		debug.SetPanicOnFault(true)
		defer guard(&err)
		return g.scorch.Batch(batch)
	}()
	select {
	case err := <-done:
		return err
	case <-g.failed:
		return errFailed
	}
}

var errFailed = errors.New("the embedded index has failed; a restart repairs it")

// guard makes an error of a panic: of an index into a damaged file, or of a fault
// when a file that is mapped into memory cannot be read.
func guard(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("the embedded index is damaged; a restart repairs it: %v", p)
	}
}
