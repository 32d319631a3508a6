package typesense

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/typesense/typesense-go/v3/typesense"
	"github.com/typesense/typesense-go/v3/typesense/api"

	"waypost"
	"waypost/searchsvc"
)

// patience says how long something is waited for.
type patience struct {
	total time.Duration // over all nodes
	try   time.Duration // at one node, as long as there is another to ask
	// leaves: the last node gets no more time than the others, and one that did not answer in
	// time is left out.
	leaves bool
}

// The client that comes with Typesense can use several nodes too, but has data
// races when it does, and a breaker that counts cancelled searches and then stays
// open for a minute. So each node has a client of its own, without a breaker.
var (
	searching = patience{total: 5 * time.Second, try: time.Second, leaves: true}
	writing   = patience{total: 60 * time.Second, try: 15 * time.Second}
)

// restTime is how long a node that failed is asked only after all others. It is
// also how long a node must go without a fault until it counts as well again.
const restTime = 5 * time.Second

// hungTime is how long a node that did not answer in time is left out. Then one search after
// the other looks whether it answers again.
const hungTime = time.Second

// node is one server of a cluster.
type node struct {
	name   string // host and port
	client *typesense.Client
	http   *api.Client

	mu     sync.Mutex
	ill    bool
	hung   bool      // it did not answer in time when it failed last
	since  time.Time // when it fell ill
	failed time.Time // when it failed last
	probed bool      // a search looks whether it still hangs

	whole   time.Time // when it had all articles
	wholeOf string    // of this generation
	lacks   time.Time // since when it lacks articles though no writes are queued
	lost    bool      // for so long that they are lost
}

// do calls f with one node after the other until one succeeds: first with the node that
// succeeded last, at the end with nodes that failed a moment ago. f may be carried out twice.
// The error is
//   - an error of f that is no fault, such as a refused request;
//   - context.Canceled if ctx was cancelled;
//   - else ServiceUnavailable, with the fault of every node that was asked.
//
// A request that was given up may still be carried out when a node that hung goes on, and
// then overwrite a newer article, until its next change or the next reindex. Therefore a
// write waits long for a node.
func (x *Index) do(ctx context.Context, wait patience, f func(context.Context, *node) error) error {
	ctx, cancel := context.WithTimeout(ctx, wait.total)
	defer cancel()
	var causes []string
	order := x.order()
	for i, at := range order {
		n := x.nodes[at]
		if wait.leaves && !n.admits(x.now()) {
			causes = append(causes, "Typesense at "+n.name+" did not answer in time a moment ago")
			continue
		}
		err := n.try(ctx, wait, i == len(order)-1, f)
		n.mu.Lock()
		n.probed = false
		n.mu.Unlock()
		var wrong fault
		switch {
		case err == nil || !errors.As(err, &wrong):
			if err == nil && i > 0 {
				x.current.Store(int32(at))
			}
			if !errors.Is(err, context.Canceled) { // it answered
				x.worked(ctx, n)
			}
			return err
		default:
			x.failed(ctx, n, wrong)
		}
		causes = append(causes, "Typesense at "+n.name+" "+wrong.cause)
		if ctx.Err() != nil {
			break
		}
	}
	return searchsvc.Unavailable(errors.New(strings.Join(causes, "; ")))
}

// try returns a fault, an error that is no fault of the node, or nil.
func (n *node) try(ctx context.Context, wait patience, last bool, f func(context.Context, *node) error) error {
	if !last || wait.leaves {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait.try)
		defer cancel()
	}
	return classify(ctx, f(ctx, n))
}

// order is the order in which nodes are asked.
func (x *Index) order() []int {
	now, first := x.now(), int(x.current.Load())
	var well, resting []int
	for i := range x.nodes {
		at := (first + i) % len(x.nodes)
		if x.nodes[at].rests(now) {
			resting = append(resting, at)
		} else {
			well = append(well, at)
		}
	}
	return slices.Concat(well, resting)
}

// admits tells whether a search may ask a node: one that did not answer in time is left out,
// but for one search at a time that looks whether it does now.
func (n *node) admits(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.hung {
		return true
	}
	if n.probed || now.Sub(n.failed) < hungTime {
		return false
	}
	n.probed = true
	return true
}

func (n *node) rests(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ill && now.Sub(n.failed) < restTime
}

// failed notes that a node failed. The first failure is logged. A node that only lacks the
// collection does not rest.
func (x *Index) failed(ctx context.Context, n *node, wrong fault) {
	now := x.now()
	n.mu.Lock()
	n.whole = time.Time{}
	if wrong.missing {
		n.mu.Unlock()
		return
	}
	first := !n.ill
	if first {
		n.ill, n.since = true, now
	}
	n.failed, n.hung = now, wrong.cause == late
	n.mu.Unlock()
	if first {
		x.log.LogAttrs(ctx, slog.LevelWarn, "a Typesense node fails", slog.String("node", n.name), slog.String("error", wrong.cause))
	}
}

// worked notes that a node answered. That is logged if the node failed before, but not for a
// while: a node that fails now and then must not fill the log.
func (x *Index) worked(ctx context.Context, n *node) {
	now := x.now()
	n.mu.Lock()
	healed := n.ill && now.Sub(n.failed) >= restTime
	if n.hung = false; healed {
		n.ill = false
	}
	since := n.since
	n.mu.Unlock()
	if healed {
		x.log.LogAttrs(ctx, slog.LevelInfo, "a Typesense node works again", slog.String("node", n.name), slog.Duration("after", now.Sub(since)))
	}
}

// wholeTime is how long it counts that a node had all articles, and what SQL said. A server
// that is started again takes longer than that until it answers.
const wholeTime = 250 * time.Millisecond

// lostTime is how long a node must lack articles, with no writes queued, until they count as
// lost. A server that is started again has queued none for a tenth of a second before it
// replays its log, and now and then in the midst of it.
const lostTime = 10 * time.Second

// known is what SQL said of the index.
type known struct {
	index waypost.ArticleIndex
	at    time.Time
}

// read asks SQL how the index stands.
func (x *Index) read(ctx context.Context) (waypost.ArticleIndex, error) {
	at := x.now()
	index, err := x.indexed(ctx)
	if err != nil {
		return index, fmt.Errorf("the database does not tell which articles are searched: %w", err)
	}
	x.known.Store(&known{index, at})
	return index, nil
}

// searched is how the index stands, as SQL said it a moment ago. While SQL is away, what it
// said last holds: nothing is indexed meanwhile.
func (x *Index) searched(ctx context.Context) (waypost.ArticleIndex, error) {
	last := x.known.Load()
	if last != nil && x.now().Sub(last.at) < wholeTime {
		return last.index, nil
	}
	index, err := x.read(ctx)
	if err != nil && last != nil && ctx.Err() == nil {
		return last.index, nil
	}
	return index, err
}

// holdsAll is a fault if a node may lack articles: a server that was started again, or is
// behind the others, answers searches from the part of the log that it has replayed, and
// says that it is healthy, the leader, and has no writes queued. It has all if the mark of
// its collection is the one that SQL knows, or a higher one.
func (x *Index) holdsAll(ctx context.Context, n *node, index waypost.ArticleIndex) error {
	at := x.now()
	n.mu.Lock()
	checked := n.wholeOf == index.Live && at.Sub(n.whole) < wholeTime
	n.mu.Unlock()
	if checked {
		return nil
	}
	mark, err := n.mark(ctx, x.prefix+index.Live)
	if err == nil && mark < index.Mark {
		err = errBehind
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.whole, n.wholeOf = at, index.Live; err != nil {
		n.whole = time.Time{}
	}
	return err
}

var errBehind = fault{cause: "lacks articles: it replays its log, or is behind the other nodes"}

// mark is the mark of a collection, 0 if it has none, and errBehind if there is no such
// collection.
func (n *node) mark(ctx context.Context, collection string) (int64, error) {
	var there markDocument
	err := read(&there)(n.http.GetDocument(ctx, collection, markKey))
	switch _, said := answered(err); {
	case isMissing(err) && strings.HasPrefix(said, noDocument):
		return 0, nil
	case isMissing(err):
		return 0, errBehind
	}
	return there.Mark, err
}

// mayBeLost is err, after noting since when the node lacks articles with no writes queued,
// if err says that it lacks some.
func (n *node) mayBeLost(ctx context.Context, now time.Time, err error) error {
	lacks := errors.Is(err, errBehind)
	if lacks {
		queued, failed := n.queued(ctx)
		lacks = failed == nil && queued == 0
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case !lacks:
		n.lacks, n.lost = time.Time{}, false
	case n.lacks.IsZero():
		n.lacks = now
	default:
		n.lost = now.Sub(n.lacks) >= lostTime
	}
	return err
}

// found notes that a node lacks nothing.
func (n *node) found() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lacks, n.lost = time.Time{}, false
}

// lost tells whether all nodes have lost the live generation.
func (x *Index) lost() bool {
	for _, n := range x.nodes {
		n.mu.Lock()
		lost := n.lost
		n.mu.Unlock()
		if !lost {
			return false
		}
	}
	return true
}

// queued is how many writes a node has not done yet, 0 if it does not say so.
func (n *node) queued(ctx context.Context) (int64, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimSuffix(n.http.Server, "/")+"/status", nil)
	if err != nil {
		return 0, err
	}
	for _, edit := range n.http.RequestEditors {
		if err := edit(ctx, request); err != nil {
			return 0, err
		}
	}
	var status struct {
		Queued int64 `json:"queued_writes"`
	}
	err = read(&status)(n.http.Client.Do(request))
	if code, _ := answered(err); code >= 400 && code < 500 {
		return 0, nil // the search tells whether the key is wrong
	}
	return status.Queued, err
}
