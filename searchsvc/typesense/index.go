// Package typesense keeps articles in a cluster of Typesense servers and finds them
// there (docs/contract.md, "Keywords"). It was made against Typesense 29.
package typesense

import (
	"bytes"
	"context"
	"encoding/json"
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
	// APIKey must permit everything with collections, their documents and aliases.
	APIKey string
	// Indexed reads from SQL which generation is live and which mark it must have. If it is
	// nil, the alias says what is searched, and every node counts as whole.
	Indexed func(context.Context) (waypost.ArticleIndex, error)
	// Prefix begins the names of the alias and of all collections. Installations that share
	// a cluster have different ones.
	Prefix string
	// Installation is written into each collection, and only collections that name it are
	// dropped. If it is empty, all that begin with the prefix are.
	Installation string
	// Log gets a line when a node begins to fail and when it works again. Nothing is
	// logged if it is nil.
	Log *slog.Logger
}

// Each generation is a collection. SQL says which one is searched; an alias names it for
// people who look at the cluster.
const (
	aliasName        = "articles"
	generationPrefix = "articles_"
)

// Index keeps generations of articles in Typesense.
type Index struct {
	nodes        []*node
	current      atomic.Int32 // the node that is asked first
	prefix       string
	alias        string
	installation string
	log          *slog.Logger
	indexed      func(context.Context) (waypost.ArticleIndex, error)
	known        atomic.Pointer[known] // what SQL said last
	foreign      atomic.Bool           // the alias names a collection of another installation, and the log has it

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
		prefix: o.Prefix, alias: o.Prefix + aliasName, installation: o.Installation, log: o.Log, indexed: o.Indexed,
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
func (x *Index) Engine() string { return engine }

const engine = "typesense-4"

// Live implements searchsvc.Index: the generation that SQL has as live, if the engine has it
// as SQL knows it. An engine that lacks it may be replaying its log, in which case the error
// is ServiceUnavailable; it counts as lost when all nodes have lacked it for lostTime with no
// writes queued.
func (x *Index) Live(ctx context.Context) (string, error) {
	if x.indexed == nil {
		return x.aliased(ctx)
	}
	index, err := x.read(ctx)
	if err != nil {
		return "", wrap("read the live collection", searchsvc.Unavailable(err))
	}
	there := x.ours(index)
	err = x.do(ctx, x.writing, func(ctx context.Context, n *node) error {
		named, err := n.target(ctx, x.alias)
		if err != nil || !there {
			return err
		}
		if err := x.holdsAll(ctx, n, index); err != nil {
			return n.mayBeLost(ctx, x.now(), err)
		}
		n.found()
		return x.checkAlias(ctx, n, named, index)
	})
	switch {
	case err == nil && there:
		return index.Live, nil
	case err == nil || waypost.CodeOf(err) == waypost.CodeServiceUnavailable && x.lost():
		return "", nil
	}
	return "", wrap("read the live collection", err)
}

// ours tells whether SQL has a generation as live that is here.
func (x *Index) ours(index waypost.ArticleIndex) bool {
	return index.Engine == x.Engine() && index.Live != ""
}

// aliased is the generation that the alias names, "" if it names none that is there, which
// Typesense accepts.
func (x *Index) aliased(ctx context.Context) (string, error) {
	var collection string
	err := x.do(ctx, x.writing, func(ctx context.Context, n *node) (err error) {
		if collection, err = n.target(ctx, x.alias); err != nil || collection == "" {
			return err
		}
		if _, err = n.collection(ctx, collection); isMissing(err) {
			collection, err = "", nil
		}
		return err
	})
	if err != nil {
		return "", wrap("read the live collection", err)
	}
	return strings.TrimPrefix(collection, x.prefix), nil
}

// checkAlias tells the log if the alias names a collection that this installation did not
// make: another one has the same prefix. Searches do not need the alias.
func (x *Index) checkAlias(ctx context.Context, n *node, named string, index waypost.ArticleIndex) error {
	foreign := false
	if x.installation != "" && named != "" && named != x.prefix+index.Live && named != x.prefix+index.Building {
		there, err := n.collection(ctx, named)
		if err != nil && !isMissing(err) {
			return err
		}
		foreign = err == nil && !x.made(there)
	}
	if before := x.foreign.Swap(foreign); foreign && !before {
		x.log.LogAttrs(ctx, slog.LevelWarn, "another installation uses the names of this one in Typesense: "+
			"give each a WAYPOST_TYPESENSE_PREFIX of its own", slog.String("alias", x.alias), slog.String("collection", named))
	}
	return nil
}

// madeBy is the member of a collection's metadata that names the installation that made it.
const madeBy = "waypost_installation"

// collection is what a server tells of a collection, as far as it is used here.
type collection struct {
	Name     string         `json:"name"`
	Metadata map[string]any `json:"metadata"`
}

func (n *node) collection(ctx context.Context, name string) (there collection, err error) {
	err = read(&there)(n.http.GetCollection(ctx, name))
	return there, err
}

// made tells whether this installation made a collection.
func (x *Index) made(c collection) bool {
	return x.installation == "" || c.Metadata[madeBy] == x.installation
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
		err := x.create(ctx, n, collection)
		if status, _ := answered(err); status != http.StatusConflict {
			return err
		}
		if x.installation != "" {
			there, err := n.collection(ctx, collection)
			if err != nil {
				return err
			}
			if !x.made(there) {
				return errForeign
			}
		}
		if _, err := n.client.Collection(collection).Delete(ctx); err != nil && !isMissing(err) {
			return err
		}
		return x.create(ctx, n, collection)
	}))
}

// create makes a collection that names its installation.
func (x *Index) create(ctx context.Context, n *node, name string) error {
	wanted := struct {
		*api.CollectionSchema
		Metadata map[string]string `json:"metadata,omitempty"`
	}{CollectionSchema: schema(name)}
	if x.installation != "" {
		wanted.Metadata = map[string]string{madeBy: x.installation}
	}
	body, err := json.Marshal(wanted)
	if err != nil {
		return err
	}
	return readAs(http.StatusCreated, new(collection))(n.http.CreateCollectionWithBody(ctx, "application/json", bytes.NewReader(body)))
}

// errForeign is the fault of a name that another installation has taken.
var errForeign = fault{cause: "has a collection of this name that another installation made"}

// SetLive implements searchsvc.Index. The alias stays where it is if it names a collection
// of another installation.
func (x *Index) SetLive(ctx context.Context, generation string) error {
	collection := x.prefix + generation
	return wrap("point the alias to "+collection, x.do(ctx, x.writing, func(ctx context.Context, n *node) error {
		// Typesense takes aliases to collections that are not there.
		there, err := n.collection(ctx, collection)
		if err != nil {
			return err
		}
		if there.Name != collection {
			return errOther
		}
		if x.installation != "" {
			named, err := n.target(ctx, x.alias)
			if err == nil {
				err = x.checkAlias(ctx, n, named, waypost.ArticleIndex{Live: generation})
			}
			if err != nil || x.foreign.Load() {
				return err
			}
		}
		alias, err := n.client.Aliases().Upsert(ctx, x.alias, &api.CollectionAliasSchema{CollectionName: collection})
		if err == nil && alias.CollectionName != collection {
			err = errOther
		}
		return err
	}))
}

// Prune implements searchsvc.Index.
func (x *Index) Prune(ctx context.Context, keep ...string) error {
	var all []collection
	err := x.do(ctx, x.writing, func(ctx context.Context, n *node) error {
		return read(&all)(n.http.GetCollections(ctx))
	})
	if err != nil {
		return wrap("list the collections", err)
	}
	for _, c := range all {
		generation, ours := strings.CutPrefix(c.Name, x.prefix)
		if !ours || !strings.HasPrefix(generation, generationPrefix) || !x.made(c) || slices.Contains(keep, generation) {
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

// noDocument is the beginning of what is said of a document that is missing. A collection that
// is missing is a 404 too.
const noDocument = "Could not find a document"

func (x *Index) deleteOne(ctx context.Context, collection, key string) error {
	return x.do(ctx, x.writing, func(ctx context.Context, n *node) error {
		gone, err := n.client.Collection(collection).Document(key).Delete(ctx)
		if status, said := answered(err); status == http.StatusNotFound && strings.HasPrefix(said, noDocument) {
			return nil
		}
		if err == nil && gone["id"] != key {
			err = errOther
		}
		return err
	})
}
