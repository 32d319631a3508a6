// Package typesense keeps articles in a Typesense server and finds them there
// (contract, chapter 7). It was made against Typesense 29.
package typesense

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/typesense/typesense-go/v3/typesense"
	"github.com/typesense/typesense-go/v3/typesense/api"

	"waypost"
	"waypost/searchsvc"
)

// Options say which server to use and how.
type Options struct {
	URL           string
	APIKey        string
	Alias         string        // of the collection that is searched; "articles" if empty
	SearchTimeout time.Duration // of a search; 5 s if 0
	WriteTimeout  time.Duration // of everything else; 60 s if 0
}

// Index is a collection of articles, by default the one behind the alias.
type Index struct {
	client     *typesense.Client
	http       *api.Client
	collection string
	options    Options
}

var _ searchsvc.Index = (*Index)(nil)

// Open prepares to use a server; it does not call it. The client's own circuit
// breaker and node list are left out: the one counts cancelled searches and stays
// open for a minute, the other has data races.
func Open(o Options) (*Index, error) {
	if u, err := url.Parse(o.URL); err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil {
		return nil, errors.New("the URL of Typesense must be like http://127.0.0.1:8108")
	}
	if o.Alias == "" {
		o.Alias = "articles"
	}
	if o.SearchTimeout == 0 {
		o.SearchTimeout = 5 * time.Second
	}
	if o.WriteTimeout == 0 {
		o.WriteTimeout = 60 * time.Second
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConnsPerHost = 64
	answers, err := api.NewClientWithResponses(o.URL, api.WithAPIKey(o.APIKey), api.WithHTTPClient(&http.Client{
		Transport: transport,
		// Whoever we are sent to must not get the API key.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}))
	if err != nil {
		return nil, fmt.Errorf("make the Typesense client: %w", err)
	}
	return &Index{
		client:     typesense.NewClient(typesense.WithAPIClient(answers)),
		http:       answers.ClientInterface.(*api.Client),
		collection: o.Alias,
		options:    o,
	}, nil
}

// In returns the same index for another collection: one that is being filled
// before the alias points to it.
func (x *Index) In(collection string) *Index {
	other := *x
	other.collection = collection
	return &other
}

// Prepare makes the first collection and the alias, if there is no alias. Several
// processes may do so at once.
func (x *Index) Prepare(ctx context.Context) error {
	_, err := x.Target(ctx)
	if waypost.CodeOf(err) != waypost.CodeNotFound {
		return err
	}
	first := x.options.Alias + "_v1"
	if err := x.Create(ctx, first); err != nil && waypost.CodeOf(err) != waypost.CodeConflict {
		return err
	}
	return x.Point(ctx, first)
}

// Create makes a collection of this name. The error is Conflict if there is one.
func (x *Index) Create(ctx context.Context, collection string) error {
	ctx, cancel := context.WithTimeout(ctx, x.options.WriteTimeout)
	defer cancel()
	_, err := x.client.Collections().Create(ctx, schema(collection))
	if isStatus(err, http.StatusConflict) {
		return waypost.Errorf(waypost.CodeConflict, "", "there is a collection %s already", collection)
	}
	return wrap("create the collection "+collection, classify(ctx, err))
}

// Drop takes out a collection and all that is in it, if it is there.
func (x *Index) Drop(ctx context.Context, collection string) error {
	ctx, cancel := context.WithTimeout(ctx, x.options.WriteTimeout)
	defer cancel()
	_, err := x.client.Collection(collection).Delete(ctx)
	if isStatus(err, http.StatusNotFound) {
		return nil
	}
	return wrap("drop the collection "+collection, classify(ctx, err))
}

// Point makes the alias name this collection, from one moment to the next.
// Typesense does not check that the collection is there.
func (x *Index) Point(ctx context.Context, collection string) error {
	ctx, cancel := context.WithTimeout(ctx, x.options.WriteTimeout)
	defer cancel()
	_, err := x.client.Aliases().Upsert(ctx, x.options.Alias, &api.CollectionAliasSchema{CollectionName: collection})
	return wrap("point the alias to "+collection, classify(ctx, err))
}

// Target is the collection that the alias names. The error is NotFound if there
// is no alias.
func (x *Index) Target(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, x.options.WriteTimeout)
	defer cancel()
	alias, err := x.client.Alias(x.options.Alias).Retrieve(ctx)
	if isStatus(err, http.StatusNotFound) {
		return "", waypost.Errorf(waypost.CodeNotFound, "", "there is no alias %s", x.options.Alias)
	}
	if err != nil {
		return "", wrap("read the alias", classify(ctx, err))
	}
	return alias.CollectionName, nil
}

// Put implements searchsvc.Index.
func (x *Index) Put(ctx context.Context, d searchsvc.Document) error {
	ctx, cancel := context.WithTimeout(ctx, x.options.WriteTimeout)
	defer cancel()
	_, err := x.client.Collection(x.collection).Documents().Upsert(ctx, newDocument(d), &api.DocumentIndexParameters{})
	return wrap("index an article", classify(ctx, err))
}

// Delete implements searchsvc.Index.
func (x *Index) Delete(ctx context.Context, key string) error {
	ctx, cancel := context.WithTimeout(ctx, x.options.WriteTimeout)
	defer cancel()
	_, err := x.client.Collection(x.collection).Document(key).Delete(ctx)
	// A collection that is missing is a 404 too.
	if isStatus(err, http.StatusNotFound) && strings.HasPrefix(message(err), "Could not find a document") {
		return nil
	}
	return wrap("take an article out of the index", classify(ctx, err))
}

func wrap(action string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", action, err)
}
