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
}

// The client that comes with Typesense can use several nodes too, but has data
// races when it does, and a breaker that counts cancelled searches and then stays
// open for a minute. So each node has a client of its own, without a breaker.
var (
	searching = patience{total: 5 * time.Second, try: 1500 * time.Millisecond}
	writing   = patience{total: 60 * time.Second, try: 15 * time.Second}
)

// restTime is how long a node that failed is asked only after all others. It is
// also how long a node must go without a fault until it counts as well again.
const restTime = 5 * time.Second

// node is one server of a cluster.
type node struct {
	name   string // host and port
	client *typesense.Client
	http   *api.Client

	mu     sync.Mutex
	ill    bool
	since  time.Time // when it fell ill
	failed time.Time // when it failed last
	whole  time.Time // when it had all articles
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
		err := n.try(ctx, wait, i == len(order)-1, f)
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
		case !wrong.missing:
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
	if !last {
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

func (n *node) rests(now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ill && now.Sub(n.failed) < restTime
}

// failed notes that a node failed. The first failure is logged.
func (x *Index) failed(ctx context.Context, n *node, wrong fault) {
	now := x.now()
	n.mu.Lock()
	fresh := !n.ill
	if fresh {
		n.ill, n.since = true, now
	}
	n.failed, n.whole = now, time.Time{}
	n.mu.Unlock()
	if fresh {
		x.log.LogAttrs(ctx, slog.LevelWarn, "a Typesense node fails", slog.String("node", n.name), slog.String("error", wrong.cause))
	}
}

// worked notes that a node answered. That is logged if the node failed before, but not for a
// while: a node that fails now and then must not fill the log.
func (x *Index) worked(ctx context.Context, n *node) {
	now := x.now()
	n.mu.Lock()
	healed := n.ill && now.Sub(n.failed) >= restTime
	if healed {
		n.ill = false
	}
	since := n.since
	n.mu.Unlock()
	if healed {
		x.log.LogAttrs(ctx, slog.LevelInfo, "a Typesense node works again", slog.String("node", n.name), slog.Duration("after", now.Sub(since)))
	}
}

// wholeTime is how long a node that had all articles is not asked anew. A server that is
// started again takes longer than that.
const wholeTime = 250 * time.Millisecond

// holdsAll is a fault if a node may lack articles: a server that was started again, or is
// behind the others, answers searches from the part of the log that it has replayed, and
// says that it is healthy. It has all if no writes are queued, or if the mark of its
// collection is the one that SQL knows, or a higher one: else the writes of the moment would
// keep it from answering. A server that does not tell its queue, or not to this API key,
// is used as it is.
func (x *Index) holdsAll(ctx context.Context, n *node) error {
	n.mu.Lock()
	fresh := x.now().Sub(n.whole) < wholeTime
	n.mu.Unlock()
	if fresh {
		return nil
	}
	at := x.now()
	queued, err := n.queued(ctx)
	if err == nil && queued > 0 {
		err = x.holdsIndexed(ctx, n, queued)
	}
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.whole = at
	n.mu.Unlock()
	return nil
}

// holdsIndexed is a fault if a node with queued writes may lack what SQL says is indexed:
// the alias names a generation of before, or the mark of its collection is lower.
func (x *Index) holdsIndexed(ctx context.Context, n *node, queued int64) error {
	behind := lacking(queued)
	if x.indexed == nil {
		return behind
	}
	// SQL is asked first: the engine has the mark that it answers with already.
	index, err := x.indexed(ctx)
	if err != nil {
		return errUntold
	}
	collection, err := n.target(ctx, x.alias)
	if err != nil {
		return err
	}
	if collection == "" || !x.expects(index, collection) {
		return behind
	}
	mark, err := n.mark(ctx, collection)
	if err != nil {
		return err
	}
	if mark < index.Mark {
		return behind
	}
	return nil
}

// mark is the mark of a collection, 0 if it has none.
func (n *node) mark(ctx context.Context, collection string) (int64, error) {
	var there markDocument
	err := read(&there)(n.http.GetDocument(ctx, collection, markKey))
	if isMissing(err) {
		return 0, nil
	}
	return there.Mark, err
}

func lacking(queued int64) fault {
	return fault{cause: fmt.Sprintf("lacks articles: %d writes are queued", queued)}
}

var errUntold = fault{cause: "has writes queued, and the database does not tell which articles it should have"}

// expects tells whether the alias may name a collection when all is replayed: that of the
// live generation, or, until SQL knows that a reindex has ended, of the one that was built.
func (x *Index) expects(index waypost.ArticleIndex, collection string) bool {
	return index.Engine != x.Engine() || index.Live == "" || collection == x.prefix+index.Live ||
		index.Building != "" && collection == x.prefix+index.Building
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
