// Package embedded keeps articles in an index on the local disk and finds them
// there, for installations without a search server (docs/contract.md, "Keywords"). The
// index belongs to one process. It is made with the storage of bleve, scorch: its
// segments, its merging, its crash safety. Text is cut into terms by the rules of
// searchsvc's keywords.
package embedded

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"

	index "github.com/blevesearch/bleve_index_api"

	"waypost/searchsvc"
)

// What is in the index's folder.
const (
	lockFile         = "lock"
	stateFile        = "state.json"
	generationFolder = "generations"
)

// Index is a folder with generations of articles.
type Index struct {
	dir   string
	lock  *os.File
	queue *index.AnalysisQueue
	deep  chan struct{} // has room for the searches for deep pages that run at once

	change sync.Mutex // one change of the set of generations at a time

	mu          sync.RWMutex // for what follows; never held while the disk is waited for
	state       state
	generations map[string]*generation
	closed      bool
}

var _ searchsvc.Index = (*Index)(nil)

// state is what outlives the process, apart from the generations.
type state struct {
	Engine string `json:"engine"` // random, made with the folder
	Live   string `json:"live"`
}

// Open opens the index in a folder, which it makes if it is not there. It fails if
// another process uses the folder or if it cannot be written. Generations that are
// damaged, because a disk was, are dropped: then Live may be "", and the articles
// have to be put there again. All files are read for that, which takes about a
// second for a gigabyte.
func Open(dir string) (_ *Index, err error) {
	defer wrap(&err, "open the article index "+dir)
	if err := os.MkdirAll(filepath.Join(dir, generationFolder), 0o700); err != nil {
		return nil, err
	}
	x := &Index{dir: dir, deep: make(chan struct{}, maxDeep), generations: map[string]*generation{}}
	if x.lock, err = lock(filepath.Join(dir, lockFile)); err != nil {
		return nil, err
	}
	x.queue = index.NewAnalysisQueue(runtime.GOMAXPROCS(0))
	defer func() {
		if err != nil {
			_ = x.Close() // err says more
		}
	}()
	if err := x.load(); err != nil {
		return nil, err
	}
	return x, nil
}

// load reads what a former process left, and drops what cannot be used.
func (x *Index) load() error {
	data, err := os.ReadFile(x.path(stateFile))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	if json.Unmarshal(data, &x.state) != nil || x.state.Engine == "" {
		// SQL then knows the articles of another engine only, and the indexer fills this one.
		x.state = state{Engine: rand.Text()}
	}
	entries, err := os.ReadDir(x.path(generationFolder))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		path := x.path(generationFolder, entry.Name())
		g, err := openGeneration(path, entry.Name(), x.queue)
		switch {
		case err == nil:
			x.generations[entry.Name()] = g
		case errors.As(err, new(damage)):
			if err := os.RemoveAll(path); err != nil {
				return err
			}
		default:
			return err
		}
	}
	if x.generations[x.state.Live] == nil {
		x.state.Live = ""
	}
	return x.save(x.state) // also tells whether the folder can be written
}

// Close ends the use of the folder. Searches that run are waited for; later ones
// are ServiceUnavailable.
func (x *Index) Close() error {
	x.change.Lock()
	defer x.change.Unlock()
	x.mu.Lock()
	if x.closed {
		x.mu.Unlock()
		return nil
	}
	x.closed = true
	x.mu.Unlock()
	var errs []error
	for _, g := range x.generations {
		errs = append(errs, g.close())
	}
	x.queue.Close()
	errs = append(errs, x.lock.Close()) // and with it the lock
	return errors.Join(errs...)
}

// Engine is the same as long as the folder is.
func (x *Index) Engine() string {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return "embedded/" + x.state.Engine
}

// Live names the generation that is searched, "" if there is none.
func (x *Index) Live(context.Context) (string, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.closed {
		return "", errClosed
	}
	return x.state.Live, nil
}

// Create makes an empty generation. One of that name is emptied, unless it is
// searched.
func (x *Index) Create(_ context.Context, name string) (err error) {
	defer wrap(&err, "create the generation "+name)
	x.change.Lock()
	defer x.change.Unlock()
	if !generationName.MatchString(name) {
		return errors.New("not the name of a generation")
	}
	x.mu.RLock()
	closed, live := x.closed, x.state.Live
	x.mu.RUnlock()
	if closed {
		return errClosed
	}
	if name == live {
		return errors.New("it is being searched")
	}
	if err := x.drop(name); err != nil {
		return searchsvc.Unavailable(err)
	}
	g, err := createGeneration(x.path(generationFolder, name), name, x.queue)
	if err != nil {
		return searchsvc.Unavailable(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.generations[name] = g
	return nil
}

// Import adds documents or replaces those of the same keys. It returns when they
// are on the disk: neither a kill nor a power cut takes them away again. Refused are
// documents with a key that is empty or longer than 100 bytes.
func (x *Index) Import(ctx context.Context, name string, docs []searchsvc.Document) (faults []error, err error) {
	defer wrap(&err, "import into the generation "+name)
	g, err := x.use(name)
	if err != nil {
		return nil, err
	}
	defer g.release()
	return g.put(ctx, docs)
}

// Delete takes documents out. It returns when they are gone from the disk.
func (x *Index) Delete(ctx context.Context, name string, keys []string) (err error) {
	defer wrap(&err, "delete from the generation "+name)
	g, err := x.use(name)
	if err != nil {
		return err
	}
	defer g.release()
	return g.remove(ctx, keys)
}

// Mark does nothing: all writes are on the disk, so a generation is never behind.
func (*Index) Mark(context.Context, string, int64) error { return nil }

// SetLive has searches use a generation. A search that runs ends on the generation that it
// began with.
func (x *Index) SetLive(_ context.Context, name string) (err error) {
	defer wrap(&err, "search the generation "+name)
	x.change.Lock()
	defer x.change.Unlock()
	g, err := x.use(name)
	if err != nil {
		return err
	}
	g.release()
	return x.setLive(name)
}

// setLive writes the state down before it holds.
func (x *Index) setLive(name string) error {
	x.mu.RLock()
	next := x.state
	x.mu.RUnlock()
	next.Live = name
	if err := x.save(next); err != nil {
		return searchsvc.Unavailable(err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.state = next
	return nil
}

// Prune drops all generations but these, the live one too if it is not among them.
func (x *Index) Prune(_ context.Context, keep ...string) (err error) {
	defer wrap(&err, "drop old generations")
	x.change.Lock()
	defer x.change.Unlock()
	kept := func(name string) bool { return slices.Contains(keep, name) }
	x.mu.RLock()
	closed, live := x.closed, x.state.Live
	old := slices.DeleteFunc(slices.Collect(maps.Keys(x.generations)), kept)
	x.mu.RUnlock()
	if closed {
		return errClosed
	}
	if live != "" && !kept(live) {
		if err := x.setLive(""); err != nil {
			return err
		}
	}
	for _, name := range old {
		if err := x.drop(name); err != nil {
			return searchsvc.Unavailable(err)
		}
	}
	return nil
}

// drop waits until a generation is no longer used, and removes it; one that is not there is
// no error. Files that a kill leaves are found to be damaged by Open.
func (x *Index) drop(name string) error {
	x.mu.Lock()
	g := x.generations[name]
	delete(x.generations, name)
	x.mu.Unlock()
	if g == nil {
		return nil
	}
	return errors.Join(g.close(), os.RemoveAll(g.dir))
}

// use returns a generation, which is not closed before it is released.
func (x *Index) use(name string) (*generation, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.useLocked(name)
}

func (x *Index) useLive() (*generation, error) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	if x.state.Live == "" && !x.closed {
		return nil, searchsvc.Unavailable(errors.New("no generation is live"))
	}
	return x.useLocked(x.state.Live)
}

func (x *Index) useLocked(name string) (*generation, error) {
	if x.closed {
		return nil, errClosed
	}
	g := x.generations[name]
	if g == nil {
		return nil, searchsvc.Unavailable(errors.New("there is no such generation"))
	}
	g.users.RLock() // does not wait: a generation is taken out of the map before it is closed
	return g, nil
}

func (x *Index) path(names ...string) string {
	return filepath.Join(x.dir, filepath.Join(names...))
}

// save writes the state so that a kill or a power cut leaves the old one or the
// new one.
func (x *Index) save(s state) error {
	data, err := json.Marshal(s)
	if err != nil {
		return err
	}
	name := x.path(stateFile)
	f, err := os.OpenFile(name+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Rename(name+".new", name); err != nil {
		return err
	}
	return syncFolder(x.dir)
}

// syncFolder makes changes of a folder's entries outlive a power cut.
func syncFolder(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// lock locks the folder for this process. The lock ends with the process, also by a kill.
func lock(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if taken, err := flock(f); err != nil {
		return nil, errors.Join(err, f.Close())
	} else if taken {
		defer f.Close()
		return nil, fmt.Errorf("another process uses it%s; an embedded index belongs to one process", owner(name))
	}
	if err := f.Truncate(0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

func owner(name string) string {
	data, err := os.ReadFile(name)
	pid, _, found := strings.Cut(string(data), "\n")
	if err != nil || !found {
		return ""
	}
	return " (" + pid + ")"
}

// generationName is what a generation may be called: it is a folder's name too.
var generationName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// errClosed is the error of every call after Close.
var errClosed = searchsvc.Unavailable(errors.New("the embedded index is closed"))

// wrap puts an action before an error, if there is one.
func wrap(err *error, action string) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", action, *err)
	}
}
