package searchtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"

	"waypost"
	"waypost/searchsvc"
)

// plain is the rule as an index: it looks at every article. It shows that the suite
// asks for nothing that contradicts itself.
type plain struct {
	mu          sync.Mutex
	live        string
	generations map[string]map[string]searchsvc.Document
}

func openPlain(*testing.T) searchsvc.Index {
	return &plain{generations: map[string]map[string]searchsvc.Document{}}
}

func TestSuite(t *testing.T) {
	t.Parallel()
	t.Run("search", func(t *testing.T) { t.Parallel(); Search(t, openPlain) })
	t.Run("generations", func(t *testing.T) { t.Parallel(); Generations(t, openPlain) })
}

func (*plain) Engine() string { return "plain" }

var errMissing = waypost.Errorf(waypost.CodeServiceUnavailable, "", "no such generation")

func (x *plain) Search(ctx context.Context, q searchsvc.Query) (searchsvc.Found, error) {
	if err := ctx.Err(); err != nil {
		return searchsvc.Found{}, err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	live, there := x.generations[x.live]
	if !there {
		return searchsvc.Found{}, errMissing
	}
	docs := make([]searchsvc.Document, 0, len(live))
	for _, d := range live {
		docs = append(docs, d)
	}
	slices.SortFunc(docs, func(a, b searchsvc.Document) int { // so that pages fit together
		if a.Key < b.Key {
			return -1
		}
		return 1
	})
	var found searchsvc.Found
	for i, d := range ruleOf(docs, q) {
		if i/q.PerPage == q.Page-1 {
			found.Matches = append(found.Matches, searchsvc.Match{Document: d})
		}
		found.Total++
	}
	return found, nil
}

func (x *plain) Live(context.Context) (string, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.live, nil
}

func (x *plain) Create(_ context.Context, generation string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.generations[generation] = map[string]searchsvc.Document{}
	return nil
}

func (x *plain) Import(_ context.Context, generation string, docs []searchsvc.Document) ([]error, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	into, there := x.generations[generation]
	if !there {
		return nil, errMissing
	}
	faults := make([]error, len(docs))
	for i, d := range docs {
		if d.Key == "" {
			faults[i] = errors.New("no key")
			continue
		}
		into[d.Key] = d
	}
	return faults, nil
}

func (x *plain) Delete(_ context.Context, generation string, keys []string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	from, there := x.generations[generation]
	if !there {
		return errMissing
	}
	for _, key := range keys {
		delete(from, key)
	}
	return nil
}

func (*plain) Mark(context.Context, string, int64) error { return nil }

func (x *plain) SetLive(_ context.Context, generation string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if _, there := x.generations[generation]; !there {
		return errMissing
	}
	x.live = generation
	return nil
}

func (x *plain) Prune(_ context.Context, keep ...string) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	for generation := range x.generations {
		if !slices.Contains(keep, generation) {
			delete(x.generations, generation)
		}
	}
	return nil
}
