package searchsvc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v5"

	"waypost"
)

// Source is SQL: the articles, the changes that the index may lack, and the process that
// writes the index. Its Conflict means that another process does.
type Source interface {
	HoldArticleIndex(ctx context.Context, holder, engine string, exclusive bool, ttl time.Duration) (ix waypost.ArticleIndex, held bool, err error)
	ReleaseArticleIndex(ctx context.Context, holder string) error

	ArticleChanges(ctx context.Context, limit int) ([]waypost.ArticleChange, error)
	DoneArticleChanges(ctx context.Context, holder string, done []waypost.ArticleChange, mark int64) error
	DeferArticleChanges(ctx context.Context, holder string, failed []waypost.ArticleChange) error

	BeginReindex(ctx context.Context, holder, generation string) error
	ReindexPage(ctx context.Context, after int64, limit int) ([]waypost.IndexedArticle, error)
	AdvanceReindex(ctx context.Context, holder string, cursor int64, processed int) error
	FinishReindex(ctx context.Context, holder, engine string, mark int64) error
	FailReindex(ctx context.Context, holder, message string) error
}

// Indexer brings the articles from SQL into an index. Of all processes one does so at
// a time, one thing after the other: nothing old can replace something newer. It can
// be ended at any point, by kill -9 too, and goes on there.
type Indexer struct {
	index     Index
	source    Source
	exclusive bool
	log       *slog.Logger
	pace      pace
	holder    string
	wake      chan struct{}
	marks     int64 // how many were given, over all sessions

	mu    sync.Mutex
	stats Stats
}

// Stats counts what an indexer has done since the process started.
type Stats struct {
	Holds      bool // it is this process that writes the index
	Reindexing bool
	Away       bool // the engine or SQL has failed and not yet worked again
	Indexed    int64
	Removed    int64 // deleted articles
	Refused    int64 // times that the engine refused an article
	Failures   int64 // times that the engine or SQL failed
	Reindexes  int64 // that have succeeded
}

// pace is how long an indexer waits and how much it does at once. Tests have another
// one.
type pace struct {
	// batch is how many articles are written at once, so few that the change of a single
	// one never waits long. Source bounds their texts.
	batch   int
	poll    time.Duration // for what other processes have written
	hold    time.Duration // the hold of a process that ended without giving it back
	renew   time.Duration // a hold lasts two thirds of hold at least, and is looked at this often
	retry   time.Duration // after the first failure; doubles with each further one
	longest time.Duration // of retry
	pause   time.Duration // before a reindex that has failed is begun anew, unasked
	check   time.Duration // between two looks whether the engine has lost its articles
}

var usualPace = pace{
	batch: 200, poll: 500 * time.Millisecond, hold: 15 * time.Second, renew: 3 * time.Second,
	retry: 250 * time.Millisecond, longest: 5 * time.Second, pause: time.Minute, check: 5 * time.Second,
}

const (
	// lostAfter is after how many failures in a row to write a generation it is taken for
	// lost, if the engine answers otherwise.
	lostAfter = 5
	// A reindex fails when the engine has refused more articles than these and a tenth of
	// all: the new generation would lack too much.
	refusedAtMost = 10
	releaseTime   = 5 * time.Second
)

// NewIndexer makes an indexer; Run runs it. exclusive says that no other process can
// have this index open.
func NewIndexer(index Index, source Source, exclusive bool, log *slog.Logger) *Indexer {
	return &Indexer{
		index: index, source: source, exclusive: exclusive, log: log, pace: usualPace,
		holder: waypost.NewID("idx_", time.Now()), wake: make(chan struct{}, 1),
	}
}

// Wake has the indexer look for changes at once. It never blocks.
func (x *Indexer) Wake() {
	select {
	case x.wake <- struct{}{}:
	default: // it is awake
	}
}

// Stats returns what has been done so far.
func (x *Indexer) Stats() Stats {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.stats
}

func (x *Indexer) count(change func(*Stats)) {
	x.mu.Lock()
	defer x.mu.Unlock()
	change(&x.stats)
}

// Claim takes an exclusive index before Run, and fails where another process writes
// articles to an index of its own: searches of each would lack the articles of the other.
// It does nothing for an index that processes share.
func (x *Indexer) Claim(ctx context.Context) error {
	if !x.exclusive {
		return nil
	}
	_, held, err := x.hold(ctx)
	if err != nil {
		return err
	}
	if !held {
		return fmt.Errorf("article search: another process keeps this database's articles in another index: "+
			"stop it (after a crash its claim ends within %s), or set WAYPOST_TYPESENSE_URL for all processes", x.pace.hold)
	}
	return nil
}

func (x *Indexer) hold(ctx context.Context) (waypost.ArticleIndex, bool, error) {
	return x.source.HoldArticleIndex(ctx, x.holder, x.index.Engine(), x.exclusive, x.pace.hold)
}

// Run writes the index until ctx ends, or waits for the process that does; then it
// gives the index back.
func (x *Indexer) Run(ctx context.Context) {
	defer x.release(ctx)
	var s *session
	var trouble outage
	warned := false
	// A process that has never reached the engine must not keep the index from those that
	// do, or that have another engine.
	for reached := x.exclusive; !reached && ctx.Err() == nil; {
		_, err := x.index.Live(ctx)
		reached = err == nil
		x.wait(ctx, reached, x.trouble(&trouble, err))
	}
	for ctx.Err() == nil {
		start := time.Now()
		ix, held, err := x.hold(ctx)
		more := false
		switch {
		case err != nil:
		case held:
			if s == nil {
				s = x.begin(ctx)
			}
			s.extend(start)
			if more, err = s.turn(ix); err != nil {
				s.checked = time.Time{}
			}
			if s.ctx.Err() != nil {
				err = context.Canceled // whatever the cause is called
			}
		default:
			if s != nil {
				x.log.Warn("another process has taken the article index over")
			}
			if !warned && ix.Engine != "" && ix.Engine != x.index.Engine() {
				warned = true
				x.log.Warn("another process writes articles to another search engine than this one uses", "engine", x.index.Engine())
			}
		}
		if s != nil && (!held || s.ctx.Err() != nil) {
			s.end()
			s = nil
		}
		x.count(func(st *Stats) { st.Holds, st.Reindexing = s != nil, s != nil && ix.Building != "" })
		if ctx.Err() != nil {
			break
		}
		x.wait(ctx, more, x.trouble(&trouble, err))
	}
	if s != nil {
		s.end()
	}
}

// outage is a row of failures.
type outage struct {
	since time.Time // zero while all works
	waits backoff.BackOff
}

// trouble tells the log that something has failed, once, or works again, and returns
// how long to wait before the next try, 0 after a success.
func (x *Indexer) trouble(o *outage, err error) time.Duration {
	if err == nil || waypost.CodeOf(err) == waypost.CodeConflict || errors.Is(err, context.Canceled) {
		if err == nil && !o.since.IsZero() {
			x.log.Info("articles are indexed again", "after", time.Since(o.since).Round(time.Millisecond))
			*o = outage{}
			x.count(func(st *Stats) { st.Away = false })
		}
		return 0
	}
	if o.since.IsZero() {
		o.since = time.Now()
		o.waits = &backoff.ExponentialBackOff{InitialInterval: x.pace.retry, Multiplier: 2, MaxInterval: x.pace.longest}
		x.log.Warn("articles cannot be indexed; trying again", "error", err)
	} else {
		x.log.Debug("articles cannot be indexed; trying again", "error", err)
	}
	x.count(func(st *Stats) { st.Away, st.Failures = true, st.Failures+1 })
	return o.waits.NextBackOff()
}

// wait waits until there may be something to do. After a failure Wake does not end it: many
// articles that are written must not become many calls of an engine that is away.
func (x *Indexer) wait(ctx context.Context, more bool, failed time.Duration) {
	if more && failed == 0 {
		return
	}
	wake, limit := x.wake, x.pace.poll
	if failed > 0 {
		wake, limit = nil, failed
	}
	timer := time.NewTimer(limit)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-wake:
	case <-timer.C:
	}
}

func (x *Indexer) release(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTime)
	defer cancel()
	x.count(func(st *Stats) { st.Holds, st.Reindexing = false, false })
	if err := x.source.ReleaseArticleIndex(ctx, x.holder); err != nil {
		x.log.Warn("the article index is not given back", "error", err)
	}
}

// session is the time in which this process holds the index without a break.
type session struct {
	x   *Indexer
	ctx context.Context // ends before the hold may have run out
	end func()

	expire   *time.Timer
	live     string         // the generation that the engine searches
	checked  time.Time      // when it was asked for that; it is asked anew after each failure
	tidy     bool           // generations that are not needed were dropped
	failed   map[string]int // failures in a row to write a generation
	suspect  bool           // the live generation cannot be written: changes wait until it is replaced
	filled   int            // articles that the generation that is being built was given
	refused  int            // of them
	notUntil time.Time      // a reindex is not begun unasked
}

func (x *Indexer) begin(ctx context.Context) *session {
	s := &session{x: x, failed: map[string]int{}}
	var cancel context.CancelFunc
	s.ctx, cancel = context.WithCancel(ctx)
	s.expire = time.AfterFunc(x.lasts(), cancel)
	var renewing sync.WaitGroup
	renewing.Go(s.renew)
	s.end = func() {
		cancel()
		s.expire.Stop()
		renewing.Wait()
	}
	return s
}

// lasts is how long a hold lasts at least.
func (x *Indexer) lasts() time.Duration { return x.pace.hold * 2 / 3 }

// extend lets the session last for a hold that was asked for at start.
func (s *session) extend(start time.Time) {
	if s.ctx.Err() == nil {
		s.expire.Reset(time.Until(start.Add(s.x.lasts())))
	}
}

// renew keeps the hold while the engine takes its time.
func (s *session) renew() {
	ticker := time.NewTicker(s.x.pace.renew)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case start := <-ticker.C:
			// Run logs a failure; the session ends if it goes on.
			if _, held, err := s.x.hold(s.ctx); err == nil && held {
				s.extend(start)
			}
		}
	}
}

// turn does one part of the work, and tells whether there may be more. ix is the state of
// the index in SQL.
func (s *session) turn(ix waypost.ArticleIndex) (more bool, err error) {
	if err := s.look(); err != nil {
		return false, err
	}
	live := s.live
	ours := ix.Engine == s.x.index.Engine()
	good := ours && live != "" && live == ix.Live
	if good && s.failed[live] >= lostAfter {
		s.suspect = true
	}
	lost := ix.Building != "" && (!ours || s.failed[ix.Building] >= lostAfter)
	unasked := (!good || s.suspect) && time.Now().After(s.notUntil)
	if lost || ix.Building == "" && (ix.Requested || unasked) {
		return true, s.beginReindex(live)
	}
	if !s.tidy {
		s.tidy = true // it keeps nothing else back
		if err := s.x.index.Prune(s.ctx, named(live, ix.Live, ix.Building)...); err != nil {
			s.x.log.Warn("articles that no search needs are not dropped", "error", err)
		}
	}
	// Without a generation that is right, changes are kept by the one that will be.
	targets := named(ix.Building)
	if good {
		targets = named(live, ix.Building)
	}
	if len(targets) > 0 && !s.suspect {
		if more, err = s.applyChanges(ix, targets); err != nil {
			return false, err
		}
	}
	if ix.Building != "" {
		return true, s.fill(ix)
	}
	return more, nil
}

// look asks the engine which generation it searches, now and then.
func (s *session) look() error {
	now := time.Now()
	if now.Sub(s.checked) < s.x.pace.check {
		return nil
	}
	live, err := s.x.index.Live(s.ctx)
	if err != nil {
		return fmt.Errorf("look which articles are searched: %w", err)
	}
	s.live, s.checked = live, now
	return nil
}

// named returns the generations of these that have a name.
func named(generations ...string) []string {
	var there []string
	for _, g := range generations {
		if g != "" {
			there = append(there, g)
		}
	}
	return there
}

// beginReindex makes a new generation and has SQL know of it. One that was being
// built is given up.
func (s *session) beginReindex(live string) error {
	generation := waypost.NewID("articles_", time.Now())
	if err := s.x.index.Create(s.ctx, generation); err != nil {
		return fmt.Errorf("make a generation: %w", err)
	}
	if err := s.x.source.BeginReindex(s.ctx, s.x.holder, generation); err != nil {
		return err
	}
	clear(s.failed)
	s.filled, s.refused, s.tidy = 0, 0, false
	s.x.log.Info("all articles are indexed anew", "generation", generation, "replaces", live)
	return nil
}

// applyChanges writes some of what has changed to the generations. Of them only the one
// that is searched is marked: a generation that is being built lacks articles, and a
// server that replays its log may know of its alias before it has them.
func (s *session) applyChanges(ix waypost.ArticleIndex, generations []string) (more bool, err error) {
	changes, err := s.x.source.ArticleChanges(s.ctx, s.x.pace.batch)
	if err != nil || len(changes) == 0 {
		return false, err
	}
	refused := map[int64]error{}
	for _, generation := range generations {
		if err := s.apply(generation, changes, refused); err != nil {
			return false, err
		}
	}
	var done, failed []waypost.ArticleChange
	var first error
	indexed, removed := 0, 0
	for _, c := range changes {
		switch err := refused[c.Number]; {
		case err != nil:
			if failed = append(failed, c); len(failed) == 1 {
				first = err
			}
			continue
		case c.Article == nil:
			removed++
		default:
			indexed++
		}
		done = append(done, c)
	}
	mark := int64(0)
	if len(done) > 0 && slices.Contains(generations, s.live) {
		if mark, err = s.mark(ix, s.live); err != nil {
			return false, err
		}
	}
	if err := s.x.source.DoneArticleChanges(s.ctx, s.x.holder, done, mark); err != nil {
		return false, err
	}
	if err := s.x.source.DeferArticleChanges(s.ctx, s.x.holder, failed); err != nil {
		return false, err
	}
	if len(failed) > 0 {
		s.x.log.Warn("articles are refused by the search engine; trying again later",
			"articles", len(failed), "first", failed[0].Number, "tries", failed[0].Tries+1, "error", first)
	}
	s.x.count(func(st *Stats) {
		st.Indexed, st.Removed, st.Refused = st.Indexed+int64(indexed), st.Removed+int64(removed), st.Refused+int64(len(failed))
	})
	return true, nil
}

// apply writes changes to one generation, and adds the articles that it refuses to refused.
func (s *session) apply(generation string, changes []waypost.ArticleChange, refused map[int64]error) error {
	var docs []Document
	var numbers []int64 // of the articles in docs
	var gone []string
	for _, c := range changes {
		if c.Article != nil {
			docs = append(docs, newDocument(*c.Article))
			numbers = append(numbers, c.Number)
		} else {
			gone = append(gone, key(c.Number))
		}
	}
	faults, err := s.put(generation, docs)
	if err == nil && len(gone) > 0 {
		err = s.x.index.Delete(s.ctx, generation, gone)
	}
	if err != nil {
		return s.writeFailed(generation, err)
	}
	delete(s.failed, generation)
	for i, fault := range faults {
		if fault != nil {
			refused[numbers[i]] = fault
		}
	}
	return nil
}

// fill writes the next page of articles to the generation that is being built, and has
// searches use it when there is none.
func (s *session) fill(ix waypost.ArticleIndex) error {
	page, err := s.x.source.ReindexPage(s.ctx, ix.Cursor, s.x.pace.batch)
	if err != nil {
		return err
	}
	if len(page) == 0 {
		// Where it was killed in between, this is the second time.
		mark, err := s.mark(ix, ix.Building)
		if err != nil {
			return err
		}
		if err := s.x.index.SetLive(s.ctx, ix.Building); err != nil {
			return s.writeFailed(ix.Building, fmt.Errorf("have searches use a generation: %w", err))
		}
		return s.finish(ix.Building, mark)
	}
	docs := make([]Document, len(page))
	for i, a := range page {
		docs[i] = newDocument(a)
	}
	faults, err := s.put(ix.Building, docs)
	if err != nil {
		return s.writeFailed(ix.Building, err)
	}
	delete(s.failed, ix.Building)
	refused, first := 0, 0
	for i, fault := range faults {
		if fault != nil {
			if refused++; refused == 1 {
				first = i
			}
		}
	}
	if refused > 0 {
		s.x.log.Warn("articles are refused by the search engine and left out of a reindex",
			"articles", refused, "first", page[first].Number, "error", faults[first])
	}
	s.filled, s.refused = s.filled+len(page), s.refused+refused
	s.x.count(func(st *Stats) {
		st.Indexed, st.Refused = st.Indexed+int64(len(page)-refused), st.Refused+int64(refused)
	})
	if s.refused > refusedAtMost+s.filled/10 {
		return s.fail(fmt.Sprintf("the search engine refuses too many articles (%d so far)", s.refused))
	}
	return s.x.source.AdvanceReindex(s.ctx, s.x.holder, page[len(page)-1].Number, len(page))
}

// finish brings SQL up to date with an engine whose searches use the new generation.
func (s *session) finish(generation string, mark int64) error {
	if err := s.x.source.FinishReindex(s.ctx, s.x.holder, s.x.index.Engine(), mark); err != nil {
		return err
	}
	s.suspect, s.tidy, s.checked = false, false, time.Time{}
	s.x.count(func(st *Stats) { st.Reindexes++ })
	s.x.log.Info("all articles are indexed", "generation", generation)
	return nil
}

// mark marks a generation with a number that is higher than all that were used before,
// noted in SQL or not: the later of two holders has the higher epoch, and each has 32 bits
// to count its marks.
func (s *session) mark(ix waypost.ArticleIndex, generation string) (number int64, err error) {
	s.x.marks++
	number = ix.Epoch<<32 | s.x.marks
	if err := s.x.index.Mark(s.ctx, generation, number); err != nil {
		return 0, s.writeFailed(generation, err)
	}
	return number, nil
}

// fail ends a reindex that cannot go on.
func (s *session) fail(message string) error {
	s.x.log.Error("the reindex has failed", "error", message)
	s.notUntil, s.tidy = time.Now().Add(s.x.pace.pause), false
	return s.x.source.FailReindex(s.ctx, s.x.holder, message)
}

// writeFailed counts failures to write a generation: it may be lost while the engine
// is there.
func (s *session) writeFailed(generation string, err error) error {
	if waypost.CodeOf(err) == waypost.CodeServiceUnavailable {
		s.failed[generation]++
	}
	return err
}

// put writes documents to a generation. A batch that the engine refuses is tried in
// halves, so that one document cannot keep back the others. If the engine is away, that is
// err.
func (s *session) put(generation string, docs []Document) (faults []error, err error) {
	if len(docs) == 0 {
		return nil, nil
	}
	faults, err = s.x.index.Import(s.ctx, generation, docs)
	if err == nil && len(faults) != len(docs) {
		return nil, fmt.Errorf("the index tells of %d documents, not of %d", len(faults), len(docs))
	}
	for _, fault := range faults {
		if err == nil && waypost.CodeOf(fault) == waypost.CodeServiceUnavailable {
			err = fault
		}
	}
	switch {
	case err == nil:
		return faults, nil
	case s.ctx.Err() != nil || waypost.CodeOf(err) == waypost.CodeServiceUnavailable:
		return nil, err
	case len(docs) == 1:
		return []error{err}, nil
	}
	for half := range slices.Chunk(docs, (len(docs)+1)/2) {
		part, err := s.put(generation, half)
		if err != nil {
			return nil, err
		}
		faults = append(faults, part...)
	}
	return faults, nil
}

func newDocument(a waypost.IndexedArticle) Document {
	return Document{Key: key(a.Number), Stage: a.Stage, Article: a.Article}
}

// key is an article's key in the index.
func key(number int64) string { return strconv.FormatInt(number, 10) }
