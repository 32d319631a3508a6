package typesense

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"waypost"
)

// replaying is a node that was started again: it is healthy, and lacks what is still
// queued.
type replaying struct {
	*fakeNode
	queued, documents atomic.Int64
}

func startReplaying(t *testing.T, queued, documents int64) *replaying {
	t.Helper()
	r := &replaying{}
	r.queued.Store(queued)
	r.documents.Store(documents)
	rest := works(t)
	json := func(w http.ResponseWriter, body string) {
		w.Header().Set("Content-Type", "application/json; charset=utf-8")
		_, _ = io.WriteString(w, body)
	}
	status := record(t, "i06_status_while_replaying").Response.Body
	r.fakeNode = startNode(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/status":
			if q.Header.Get("X-Typesense-Api-Key") == "" {
				t.Error("the status is asked for without the API key")
			}
			json(w, strings.Replace(status, `"queued_writes":39`, fmt.Sprintf(`"queued_writes":%d`, r.queued.Load()), 1))
		case "/health":
			json(w, `{"ok":true}`)
		case "/collections/articles_v1":
			json(w, fmt.Sprintf(`{"name":"articles_v1","num_documents":%d}`, r.documents.Load()))
		default:
			rest(w, q)
		}
	})
	r.tells = true
	return r
}

// counts is what SQL says of the index.
func counts(live, building string, articles int) func(context.Context) (waypost.ArticleIndex, int, error) {
	return func(context.Context) (waypost.ArticleIndex, int, error) {
		return waypost.ArticleIndex{Engine: "typesense-3", Live: live, Building: building}, articles, nil
	}
}

// While a node replays its log, a search is ServiceUnavailable and never a part of the
// hits; as soon as nothing is queued, or all that SQL counts is there, it is answered.
func TestSearchWhileReplaying(t *testing.T) {
	t.Parallel()
	node := startReplaying(t, 39, 10)
	c := openCluster(t, node.URL)
	c.indexed = counts("articles_v1", "", 100)
	refused := func() {
		t.Helper()
		c.clock.Add(1)
		if _, err := c.Search(t.Context(), query(secret)); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
			t.Errorf("with %d writes queued and %d documents: %v", node.queued.Load(), node.documents.Load(), err)
		}
	}
	for queued := int64(39); queued > 0; queued -= 13 {
		node.queued.Store(queued)
		node.documents.Store(99 - queued)
		refused()
	}
	node.queued.Store(0)
	node.documents.Store(100)
	c.search(t)

	// It is started again, and has all before its queue is empty, as in an import.
	node.queued.Store(20)
	node.documents.Store(99)
	refused()
	node.documents.Store(100)
	c.search(t)
	node.documents.Store(120)
	c.search(t)
	c.indexed = func(context.Context) (waypost.ArticleIndex, int, error) {
		return waypost.ArticleIndex{}, 0, errors.New("the database is away")
	}
	refused()
	c.indexed = nil
	refused()
	node.queued.Store(0)
	c.search(t)
}

// Of several nodes one that is behind is passed over, and used again when it is not.
func TestSearchWithOneBehind(t *testing.T) {
	t.Parallel()
	behind, good := startReplaying(t, 7, 1), startReplaying(t, 0, 100)
	c := openCluster(t, behind.URL, good.URL)
	c.indexed = counts("articles_v1", "", 100)
	c.search(t)
	if said := c.logged(t); !strings.Contains(said[0], "lacks articles: 7 writes are queued") {
		t.Errorf("the log says %q", said)
	}
	if behind.asked.Load() != 3 || good.asked.Load() != 2 { // status, alias and collection; status and search
		t.Errorf("asked %d and %d times", behind.asked.Load(), good.asked.Load())
	}
	c.clock.Add(1)
	good.queued.Store(3)
	good.documents.Store(50)
	if _, err := c.Search(t.Context(), query(secret)); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
		t.Errorf("both are behind: %v", err)
	}
	behind.queued.Store(0)
	c.search(t)
}

// A node that was started again may still have the alias of before a reindex, or none. No
// search is answered from what that names, and the indexer does not take its articles for
// lost.
func TestReplayingAlias(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		live, building string
		right          bool
	}{
		{"articles_v1", "", true},
		{"articles_v1", "articles_v2", true},
		{"articles_v2", "", false},
		{"articles_v2", "articles_v3", false},
		{"articles_v0", "articles_v1", true}, // SQL does not know yet that the reindex has ended
		{"", "articles_v2", true},
	} {
		node := startReplaying(t, 5, 100)
		c := openCluster(t, node.URL)
		c.indexed = counts(tc.live, tc.building, 100)
		_, err := c.Search(t.Context(), query(secret))
		live, liveErr := c.Live(t.Context())
		if tc.right && (err != nil || live != "articles_v1" || liveErr != nil) ||
			!tc.right && (waypost.CodeOf(err) != waypost.CodeServiceUnavailable || waypost.CodeOf(liveErr) != waypost.CodeServiceUnavailable) {
			t.Errorf("%+v: search %v, live %q, %v", tc, err, live, liveErr)
		}
		node.queued.Store(0) // then the engine is right
		if live, err := c.Live(t.Context()); live != "articles_v1" || err != nil {
			t.Errorf("%+v: live %q, %v", tc, live, err)
		}
	}
	for _, missing := range []string{"/aliases/articles", "/collections/articles_v1"} {
		node := startReplaying(t, 5, 100)
		all := *node.behave.Load()
		node.set(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == missing {
				answers(404, "application/json", `{"message":"Not found."}`)(w, q)
				return
			}
			all(w, q)
		})
		c := openCluster(t, node.URL)
		c.indexed = counts("articles_v1", "", 100)
		if live, err := c.Live(t.Context()); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
			t.Errorf("without %s: live %q, %v", missing, live, err)
		}
		node.queued.Store(0)
		if live, err := c.Live(t.Context()); live != "" || err != nil {
			t.Errorf("without %s when nothing is queued: live %q, %v", missing, live, err)
		}
	}
}

// The queue of a node that has everything is not asked for before each search, but again
// after it has failed.
func TestStatusIsRemembered(t *testing.T) {
	t.Parallel()
	node := startReplaying(t, 0, 100)
	c := openCluster(t, node.URL)
	for range 5 {
		c.search(t)
	}
	if asked := node.asked.Load(); asked != 6 {
		t.Errorf("asked %d times for 5 searches, want 6", asked)
	}
	all := *node.behave.Load()
	node.set(breaks)
	if _, err := c.Search(t.Context(), query(secret)); err == nil {
		t.Error("the node does not fail")
	}
	node.set(all)
	node.queued.Store(9)
	if _, err := c.Search(t.Context(), query(secret)); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
		t.Errorf("it was started again: %v", err)
	}
}

// A server that does not tell its queue, or not to this key, is used as it is.
func TestSearchWithoutStatus(t *testing.T) {
	t.Parallel()
	for _, status := range []int{http.StatusNotFound, http.StatusUnauthorized, http.StatusForbidden} {
		rest := works(t)
		node := startNode(t, func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/status" {
				answers(status, "application/json", `{"message":"Forbidden"}`)(w, q)
				return
			}
			rest(w, q)
		})
		node.tells = true
		openCluster(t, node.URL).search(t)
	}
	if body := record(t, "i08_status_ready").Response.Body; !strings.Contains(body, `"queued_writes":0`) {
		t.Errorf("a node that is ready says %s", body)
	}
}
