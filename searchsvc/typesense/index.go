// Package typesense keeps articles in a cluster of Typesense servers and finds them
// there (docs/contract.md, "Keywords"). It was made against Typesense 29.
package typesense

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/typesense/typesense-go/v3/typesense"
	"github.com/typesense/typesense-go/v3/typesense/api"
	"golang.org/x/sync/errgroup"

	"waypost"
	"waypost/searchsvc"
)

// Options say which servers to use.
type Options struct {
	// URLs are the nodes of one cluster, at least one. The first is used as long as it
	// works; any other takes its place, and keeps it as long as that works.
	URLs []string
	// APIKey must permit everything with collections, their documents and aliases, and
	// GET /status: without that a node that is started again is used before it has all
	// articles.
	APIKey string
	// Indexed reads from SQL which generation is live and which mark it must have. If it is
	// nil, a node is used only while none of its writes are queued.
	Indexed func(context.Context) (waypost.ArticleIndex, error)
	// Prefix begins the names of the alias and of all collections. Installations that share
	// a cluster need different ones: collections with the prefix are dropped when they are
	// no longer needed.
	Prefix string
	// Log gets a line when a node begins to fail and when it works again. Nothing is
	// logged if it is nil.
	Log *slog.Logger
}

// An alias says which generation is live. Each generation is a collection.
const (
	aliasName        = "articles"
	generationPrefix = "articles_"
)

// Index keeps generations of articles in Typesense.
type Index struct {
	nodes   []*node
	current atomic.Int32 // the node that is asked first
	prefix  string
	alias   string
	log     *slog.Logger
	indexed func(context.Context) (waypost.ArticleIndex, error)

	now       func() time.Time
	searching patience
	writing   patience
}

var _ searchsvc.Index = (*Index)(nil)

// dialTime bounds how long a node whose host is gone is waited for.
const dialTime = 1500 * time.Millisecond

// Open prepares to use a cluster; it does not call it.
func Open(o Options) (*Index, error) {
	x := &Index{
		prefix: o.Prefix, alias: o.Prefix + aliasName, log: o.Log, indexed: o.Indexed,
		now: time.Now, searching: searching, writing: writing,
	}
	if x.log == nil {
		x.log = slog.New(slog.DiscardHandler)
	}
	if len(o.URLs) == 0 {
		return nil, errors.New("a URL of Typesense is needed")
	}
	if o.APIKey == "" || strings.ContainsFunc(o.APIKey, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, errors.New("the API key of Typesense is missing, or holds blanks or characters beyond ASCII")
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	transport.DialContext = (&net.Dialer{Timeout: dialTime}).DialContext
	client := &http.Client{
		Transport: transport,
		// The target of a redirect must not get the API key.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	for _, address := range o.URLs {
		u, err := url.Parse(address)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
			return nil, errors.New("a URL of Typesense must be like http://127.0.0.1:8108")
		}
		answers, err := api.NewClientWithResponses(address, api.WithAPIKey(o.APIKey), api.WithRequestEditorFn(repeatable), api.WithHTTPClient(client))
		if err != nil {
			return nil, fmt.Errorf("make the client of Typesense at %s: %w", u.Host, err)
		}
		x.nodes = append(x.nodes, &node{
			name:   u.Host,
			client: typesense.NewClient(typesense.WithAPIClient(answers)),
			http:   answers.ClientInterface.(*api.Client),
		})
	}
	return x, nil
}

// repeatable tells the HTTP client that a request may be sent again. Else a request
// with a body fails on the first connection that an earlier life of the server has
// left behind. The header is not sent, because it has no value.
func repeatable(_ context.Context, r *http.Request) error {
	r.Header["X-Idempotency-Key"] = nil
	return nil
}

// Engine implements searchsvc.Index. The number changes with how texts are indexed, so
// that collections of another version are filled anew.
func (x *Index) Engine() string { return "typesense-3" }

// Live implements searchsvc.Index. An alias to a collection that is not there, which
// Typesense accepts, counts as none. A node that still replays its log may have neither
// yet, or the former alias: its answer is believed only if SQL says the same.
func (x *Index) Live(ctx context.Context) (string, error) {
	var collection string
	err := x.do(ctx, x.writing, func(ctx context.Context, n *node) (err error) {
		var queued int64
		if x.indexed != nil {
			if queued, err = n.queued(ctx); err != nil {
				return err
			}
		}
		if collection, err = n.target(ctx, x.alias); err != nil {
			return err
		}
		if collection != "" {
			if _, err = n.client.Collection(collection).Retrieve(ctx); isMissing(err) {
				collection, err = "", nil
			}
		}
		if err != nil || queued <= 0 {
			return err
		}
		index, err := x.indexed(ctx)
		switch {
		case err != nil:
			return errUntold
		case !x.expects(index, collection):
			return lacking(queued)
		}
		return nil
	})
	if err != nil {
		return "", wrap("read the live collection", err)
	}
	return strings.TrimPrefix(collection, x.prefix), nil
}

// target is the collection that an alias names, "" if there is no such alias.
func (n *node) target(ctx context.Context, alias string) (string, error) {
	answer, err := n.client.Alias(alias).Retrieve(ctx)
	switch {
	case isMissing(err):
		return "", nil
	case err != nil:
		return "", err
	case answer.CollectionName == "":
		return "", errOther
	}
	return answer.CollectionName, nil
}

// Create implements searchsvc.Index.
func (x *Index) Create(ctx context.Context, generation string) error {
	if !strings.HasPrefix(generation, generationPrefix) {
		return fmt.Errorf("create the collection %s: its name must begin with %s, or it is never dropped", generation, generationPrefix)
	}
	collection := x.prefix + generation
	return wrap("create the collection "+collection, x.do(ctx, x.writing, func(ctx context.Context, n *node) error {
		_, err := n.client.Collections().Create(ctx, schema(collection))
		if status, _ := answered(err); status != http.StatusConflict {
			return err
		}
		if _, err := n.client.Collection(collection).Delete(ctx); err != nil && !isMissing(err) {
			return err
		}
		_, err = n.client.Collections().Create(ctx, schema(collection))
		return err
	}))
}

// SetLive implements searchsvc.Index. Where there are several nodes it returns when
// all that answer know of it: one that is behind must not name the former generation
// as the live one afterwards.
func (x *Index) SetLive(ctx context.Context, generation string) error {
	collection := x.prefix + generation
	err := x.do(ctx, x.writing, func(ctx context.Context, n *node) error {
		// Typesense takes aliases to collections that are not there.
		there, err := n.client.Collection(collection).Retrieve(ctx)
		if err != nil {
			return err
		}
		alias, err := n.client.Aliases().Upsert(ctx, x.alias, &api.CollectionAliasSchema{CollectionName: collection})
		if err == nil && (there.Name != collection || alias.CollectionName != collection) {
			err = errOther
		}
		return err
	})
	if err == nil && len(x.nodes) > 1 {
		err = x.follow(ctx, collection)
	}
	return wrap("point the alias to "+collection, err)
}

// followPause is the time between two looks at a node that is behind.
const followPause = 50 * time.Millisecond

// follow waits until every node that answers has the alias point to a collection.
func (x *Index) follow(ctx context.Context, collection string) error {
	ctx, cancel := context.WithTimeout(ctx, x.writing.total)
	defer cancel()
	for _, n := range x.nodes {
		for n.isBehind(ctx, x.searching.try, x.alias, collection) {
			select {
			case <-ctx.Done():
			case <-time.After(followPause):
			}
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return context.Canceled
		} else if ctx.Err() != nil {
			return searchsvc.Unavailable(errors.New("Typesense at " + n.name + " is behind the other nodes"))
		}
	}
	return nil
}

// isBehind tells whether a node answers that the alias points elsewhere.
func (n *node) isBehind(ctx context.Context, try time.Duration, alias, collection string) bool {
	ctx, cancel := context.WithTimeout(ctx, try)
	defer cancel()
	known, err := n.target(ctx, alias)
	return err == nil && known != collection
}

// Prune implements searchsvc.Index.
func (x *Index) Prune(ctx context.Context, keep ...string) error {
	var all []*api.CollectionResponse
	err := x.do(ctx, x.writing, func(ctx context.Context, n *node) (err error) {
		all, err = n.client.Collections().Retrieve(ctx)
		return err
	})
	if err != nil {
		return wrap("list the collections", err)
	}
	for _, c := range all {
		generation, ours := strings.CutPrefix(c.Name, x.prefix)
		if !ours || !strings.HasPrefix(generation, generationPrefix) || slices.Contains(keep, generation) {
			continue
		}
		err := x.do(ctx, x.writing, func(ctx context.Context, n *node) error {
			_, err := n.client.Collection(c.Name).Delete(ctx)
			if isMissing(err) {
				return nil
			}
			return err
		})
		if err != nil {
			return wrap("drop the collection "+c.Name, err)
		}
	}
	return nil
}

// deleters is how many documents are taken out at the same time. Typesense could delete many
// by one filter; there is no recording of one with ids.
const deleters = 8

// Delete implements searchsvc.Index.
func (x *Index) Delete(ctx context.Context, generation string, keys []string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deleters)
	for _, key := range keys {
		group.Go(func() error { return x.deleteOne(ctx, x.prefix+generation, key) })
	}
	return wrap("take articles out of the index", group.Wait())
}

func (x *Index) deleteOne(ctx context.Context, collection, key string) error {
	return x.do(ctx, x.writing, func(ctx context.Context, n *node) error {
		gone, err := n.client.Collection(collection).Document(key).Delete(ctx)
		// A collection that is missing is a 404 too.
		if status, said := answered(err); status == http.StatusNotFound && strings.HasPrefix(said, "Could not find a document") {
			return nil
		}
		if err == nil && gone["id"] != key {
			err = errOther
		}
		return err
	})
}
