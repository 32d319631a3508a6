package typesense

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"waypost"
	"waypost/searchsvc"
)

// replaying is a node that was started again: it is healthy, and lacks what is still
// queued.
type replaying struct {
	*fakeNode
	queued, mark atomic.Int64
}

// startReplaying starts a node with so many writes queued and this mark, 0 for none.
func startReplaying(t *testing.T, queued, mark int64) *replaying {
	t.Helper()
	r := &replaying{}
	r.queued.Store(queued)
	r.mark.Store(mark)
	rest := works(t)
	const kind = "application/json; charset=utf-8"
	status := record(t, "i06_status_while_replaying").Response.Body
	missing := strings.Replace(record(t, "a17_delete_one_missing_404").Response.Body, "b01", "mark", 1)
	r.fakeNode = startNode(t, func(w http.ResponseWriter, q *http.Request) {
		switch q.URL.Path {
		case "/status":
			if q.Header.Get("X-Typesense-Api-Key") == "" {
				t.Error("the status is asked for without the API key")
			}
			answers(200, kind, strings.Replace(status, `"queued_writes":39`, fmt.Sprintf(`"queued_writes":%d`, r.queued.Load()), 1))(w, q)
		case "/collections/articles_v1/documents/mark":
			if mark := r.mark.Load(); mark == 0 {
				answers(404, kind, missing)(w, q)
			} else {
				line, _ := encodeLine(newMark(mark))
				answers(200, kind, string(line))(w, q)
			}
		default:
			rest(w, q)
		}
	})
	r.tells = true
	return r
}

// knows is what SQL says of the index.
func knows(live, building string, mark int64) func(context.Context) (waypost.ArticleIndex, error) {
	return func(context.Context) (waypost.ArticleIndex, error) {
		return waypost.ArticleIndex{Engine: "typesense-3", Live: live, Building: building, Mark: mark}, nil
	}
}

// refused checks that a search is ServiceUnavailable, a while after the last one.
func (c *cluster) refused(t *testing.T, what string) {
	t.Helper()
	c.clock.Add(1)
	if _, err := c.Search(t.Context(), query(secret)); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
		t.Errorf("%s: %v", what, err)
	}
}

// While a node replays its log, a search is ServiceUnavailable and never a part of the
// hits; as soon as nothing is queued, or its mark is SQL's, it is answered.
func TestSearchWhileReplaying(t *testing.T) {
	t.Parallel()
	const mark = 3<<32 + 1
	node := startReplaying(t, 39, 0)
	c := openCluster(t, node.URL)
	c.indexed = knows("articles_v1", "", mark)
	for _, low := range []int64{0, 1, 2<<32 + 100, mark - 1} {
		node.mark.Store(low)
		c.refused(t, fmt.Sprint("mark ", low))
	}
	node.queued.Store(0)
	c.search(t)

	// It is started again, and has all before its queue is empty, as in an import.
	node.queued.Store(20)
	c.refused(t, "started again")
	for _, high := range []int64{mark, mark + 1, 4 << 32} {
		node.mark.Store(high)
		c.clock.Add(1)
		c.search(t)
	}
	c.indexed = knows("articles_v1", "", 0) // nothing was written yet
	node.mark.Store(0)
	c.clock.Add(1)
	c.search(t)
	c.indexed = func(context.Context) (waypost.ArticleIndex, error) {
		return waypost.ArticleIndex{}, errors.New("the database is away")
	}
	c.refused(t, "without SQL")
	c.indexed = nil
	c.refused(t, "without a look at SQL")
	node.queued.Store(0)
	c.search(t)
}

// What was written is replayed one by one: as many articles deleted as added do not make
// a node whole, the mark behind them does, though more is queued.
func TestReplayUpToMark(t *testing.T) {
	t.Parallel()
	node := startReplaying(t, 0, 0)
	all := *node.behave.Load()
	var log []int64 // the mark that was written, or 0
	node.set(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		q.Body = io.NopCloser(bytes.NewReader(body))
		for line := range bytes.Lines(body) {
			var d markDocument
			if err := json.Unmarshal(line, &d); err != nil {
				t.Error(err)
			}
			log = append(log, d.Mark)
		}
		if q.Method == http.MethodDelete {
			log = append(log, 0)
		}
		all(w, q)
	})
	c := openCluster(t, node.URL)
	docs := func(first int) (docs []searchsvc.Document, keys []string) {
		for i := range 5 {
			keys = append(keys, strconv.Itoa(first+i))
			docs = append(docs, tenantB(keys[i], "x", "x"))
		}
		return docs, keys
	}
	mark := func(number int64) {
		t.Helper()
		if err := c.Mark(t.Context(), "articles_v1", number); err != nil {
			t.Fatal(err)
		}
	}
	old, oldKeys := docs(1)
	imported(t, c.Index, "articles_v1", old)
	mark(1)
	snapshot := len(log)
	for _, key := range oldKeys { // one after the other, for the log
		if err := c.Delete(t.Context(), "articles_v1", []string{key}); err != nil {
			t.Fatal(err)
		}
	}
	added, _ := docs(101)
	imported(t, c.Index, "articles_v1", added)
	mark(2)
	marked := len(log)
	c.indexed = knows("articles_v1", "", 2)
	next, _ := docs(201)
	imported(t, c.Index, "articles_v1", next) // SQL does not know of it
	if snapshot != 6 || marked != 17 || len(log) != 22 {
		t.Fatalf("the log is %v", log)
	}
	for done := snapshot; done <= len(log); done++ {
		node.queued.Store(int64(len(log) - done))
		node.mark.Store(slices.Max(log[:done]))
		if done < marked {
			c.refused(t, fmt.Sprintf("%d of %d writes are replayed", done, len(log)))
		} else {
			c.clock.Add(1)
			c.search(t)
		}
	}
}

// A mark that cannot be read is none.
func TestMarkUnread(t *testing.T) {
	t.Parallel()
	const kind = "application/json"
	for _, answer := range []http.HandlerFunc{
		answers(404, "text/html", "<html>"),
		answers(404, kind, `{"message":"Not Found"}`),
		answers(500, kind, `{"message":"Could not find a leader."}`),
		answers(200, "text/html", "<html>"),
		answers(200, kind, `{"id":"mark","mark":"搜索引擎"}`),
		answers(200, kind, `{"id":"mark","mark":7}`),
		answers(200, kind, `{"id":"mark"`),
		breaks,
	} {
		node := startReplaying(t, 5, 0)
		all := *node.behave.Load()
		node.set(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == "/collections/articles_v1/documents/mark" {
				answer(w, q)
				return
			}
			all(w, q)
		})
		c := openCluster(t, node.URL)
		c.indexed = knows("articles_v1", "", 0)
		c.refused(t, "without a mark")
		c.logged(t)
	}
}

// The document that holds a mark is taken by the schema, keeps the number, and belongs to
// no tenant.
func TestMark(t *testing.T) {
	t.Parallel()
	const number = int64(1<<62 + 1)
	line, err := encodeLine(newMark(number))
	if err != nil {
		t.Fatal(err)
	}
	var members map[string]any
	var back markDocument
	if err := errors.Join(json.Unmarshal(line, &members), json.Unmarshal(line, &back)); err != nil {
		t.Fatal(err)
	}
	for _, field := range schema("articles_v1").Fields {
		var right bool
		switch value := members[field.Name]; field.Type {
		case "string":
			_, right = value.(string)
		case "int32", "int64":
			_, right = value.(float64)
		case "bool":
			_, right = value.(bool)
		case "string[]":
			_, right = value.([]any)
		}
		if !right {
			t.Errorf("%s is %v", field.Name, members[field.Name])
		}
	}
	if back.Mark != number || members["mark"] != "4611686018427387905" || members["id"] != "mark" {
		t.Errorf("%s", line)
	}
	if key := members["tenant_key"].(string); key == "" || regexp.MustCompile(`^[pt]?h?[0-9a-f]*$`).MatchString(key) {
		t.Errorf("the tenant key %q may be a tenant's", key)
	}

	x := serve(t, false, recorded(t, "a11_import_two_bad_lines"))
	if err := x.Mark(t.Context(), "articles_v1", 1); err == nil || !strings.Contains(err.Error(), "(400: Field `access_level`") {
		t.Errorf("a mark that is refused: %v", err)
	}
	article := tenantB("mark", "x", "x")
	if faults, err := replay(t).Import(t.Context(), "articles_v1", []searchsvc.Document{article}); err != nil || faults[0] == nil {
		t.Errorf("an article of its key: %v, %v", faults, err)
	}
}

// Of several nodes one that is behind is passed over, and used again when it is not.
func TestSearchWithOneBehind(t *testing.T) {
	t.Parallel()
	behind, good := startReplaying(t, 7, 1), startReplaying(t, 0, 5)
	c := openCluster(t, behind.URL, good.URL)
	c.indexed = knows("articles_v1", "", 5)
	c.search(t)
	if said := c.logged(t); !strings.Contains(said[0], "lacks articles: 7 writes are queued") {
		t.Errorf("the log says %q", said)
	}
	if behind.asked.Load() != 3 || good.asked.Load() != 2 { // status, alias and mark; status and search
		t.Errorf("asked %d and %d times", behind.asked.Load(), good.asked.Load())
	}
	c.clock.Add(1)
	good.queued.Store(3)
	c.search(t) // it has its mark, and writes go on
	c.indexed = knows("articles_v1", "", 6)
	c.refused(t, "both are behind")
	behind.mark.Store(6)
	c.search(t)
	c.clock.Add(1)
	behind.mark.Store(4)
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
		node := startReplaying(t, 5, 3)
		c := openCluster(t, node.URL)
		c.indexed = knows(tc.live, tc.building, 3)
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
		node := startReplaying(t, 5, 3)
		all := *node.behave.Load()
		node.set(func(w http.ResponseWriter, q *http.Request) {
			if q.URL.Path == missing {
				answers(404, "application/json", `{"message":"Not found."}`)(w, q)
				return
			}
			all(w, q)
		})
		c := openCluster(t, node.URL)
		c.indexed = knows("articles_v1", "", 3)
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
	node := startReplaying(t, 0, 3)
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
