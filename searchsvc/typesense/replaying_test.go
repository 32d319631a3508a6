package typesense

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

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
		return waypost.ArticleIndex{Engine: engine, Live: live, Building: building, Mark: mark}, nil
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

// restarted serves the states of a recorded restart, one after the other.
type restarted struct {
	States []map[string]json.RawMessage
	at     atomic.Int64
}

// asked is what a state answers to one of the recorded requests.
type asked struct {
	Status, Found int
	Mark, Body    string
}

func (r *restarted) says(state int, request string) (a asked) {
	_ = json.Unmarshal(r.States[state][request], &a)
	return a
}

// startRestarted starts a server that answers as a recorded one after its restart. mark tells
// of a collection whether it is there, and which mark it has.
func startRestarted(t *testing.T, name string, mark func(r *restarted, state int, collection string) (mark string, there bool)) (*restarted, string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	r := &restarted{}
	if err := json.Unmarshal(data, r); err != nil || len(r.States) < 10 {
		t.Fatalf("%d states, %v", len(r.States), err)
	}
	const kind = "application/json; charset=utf-8"
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		at := int(r.at.Load())
		search := r.says(at, "search")
		rest, _ := strings.CutPrefix(q.URL.Path, "/collections/")
		collection, path, _ := strings.Cut(rest, "/")
		mark, there := mark(r, at, collection)
		switch {
		case search.Status == 0:
			panic(http.ErrAbortHandler)
		case q.URL.Path == "/status":
			answers(200, kind, r.says(at, "status").Body)(w, q)
		case search.Status != http.StatusOK:
			answers(503, kind, `{ "message": "Not Ready or Lagging"}`)(w, q)
		case q.URL.Path == "/aliases/articles":
			answers(200, kind, cmp.Or(r.says(at, "alias").Body, `{"name":"articles","collection_name":"articles_v1"}`))(w, q)
		case !there:
			answers(404, kind, `{"message": "Collection not found"}`)(w, q)
		case path == "documents/mark" && mark == "":
			answers(404, kind, `{"message": "Could not find a document with id: mark"}`)(w, q)
		case path == "documents/mark":
			answers(200, kind, `{"id":"mark","mark":"`+mark+`"}`)(w, q)
		case path == "documents/search":
			answers(200, kind, fmt.Sprintf(`{"found":%d,"hits":[]}`, search.Found))(w, q)
		default:
			answers(200, kind, `{"name":"`+collection+`"}`)(w, q)
		}
	}))
	t.Cleanup(server.Close)
	return r, server.URL
}

// After a restart from a snapshot each search is ServiceUnavailable or whole: never a part,
// and never what a former collection holds, though the server says that it is healthy, the
// leader, and has no writes queued. The indexer does not take what it lacks for lost.
func TestRestartAfterSnapshot(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		live  string
		whole int
		mark  func(r *restarted, state int, collection string) (string, bool)
	}{
		"j02_restart_after_snapshot": {"articles_v1", 7000, func(r *restarted, state int, collection string) (string, bool) {
			return r.says(state, "mark").Mark, collection == "articles_v1"
		}},
		// There the mark was not asked for: it came with the last article.
		"j03_restart_after_snapshot_and_reindex": {"articles_v2", 8000, func(r *restarted, state int, collection string) (string, bool) {
			aliased := strings.Contains(r.says(state, "alias").Body, collection)
			if collection == "articles_v2" && aliased && r.says(state, "search").Found == 8000 {
				return "2", true
			}
			return "", aliased
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, address := startRestarted(t, name, tt.mark)
			c := openCluster(t, address)
			c.indexed = knows(tt.live, "", 2)
			answered, parts := 0, 0
			for state := range r.States {
				r.at.Store(int64(state))
				c.clock.Add(1)
				there := r.says(state, "search").Found
				found, err := c.Search(t.Context(), query(secret))
				switch {
				case err == nil && found.Total == tt.whole:
					answered++
				case waypost.CodeOf(err) != waypost.CodeServiceUnavailable:
					t.Errorf("state %d: %d, %v", state, found.Total, err)
				}
				if there > 0 && there < tt.whole {
					parts++
				}
				c.clock.Add(1)
				if live, err := c.Live(t.Context()); live != tt.live && waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
					t.Errorf("state %d: live %q, %v", state, live, err)
				}
			}
			if answered == 0 || parts < 10 {
				t.Errorf("%d states were answered, %d had a part", answered, parts)
			}
		})
	}
}

// While a node lacks what SQL knows, a search is ServiceUnavailable; as soon as its mark is
// SQL's, or a higher one, it is answered, whatever is queued.
func TestSearchWhileReplaying(t *testing.T) {
	t.Parallel()
	const mark = 3<<32 + 1
	node := startReplaying(t, 0, 0)
	c := openCluster(t, node.URL)
	c.indexed = knows("articles_v1", "", mark)
	for _, low := range []int64{0, 1, 2<<32 + 100, mark - 1} {
		for _, queued := range []int64{0, 39} {
			node.mark.Store(low)
			node.queued.Store(queued)
			c.refused(t, fmt.Sprint("mark ", low))
		}
	}
	for _, high := range []int64{mark, mark + 1, 4 << 32} {
		node.mark.Store(high)
		c.clock.Add(1)
		c.search(t)
	}
	c.indexed = func(context.Context) (waypost.ArticleIndex, error) {
		return waypost.ArticleIndex{}, errors.New("the database is away")
	}
	c.clock.Add(1)
	c.search(t) // as SQL said before
	node.mark.Store(mark - 1)
	c.refused(t, "without SQL, behind what it said")
	other := openCluster(t, node.URL)
	other.indexed = c.indexed
	other.refused(t, "SQL never told")
	other.indexed = knows("", "articles_v1", 0)
	other.refused(t, "nothing is live")
	other.indexed = func(context.Context) (waypost.ArticleIndex, error) {
		return waypost.ArticleIndex{Engine: "embedded/x", Live: "articles_v1"}, nil
	}
	other.refused(t, "another engine is live")
}

// What SQL said a moment ago may have been dropped since: SQL is asked again.
func TestSearchOfDropped(t *testing.T) {
	t.Parallel()
	node := startReplaying(t, 0, 1)
	c := openCluster(t, node.URL)
	c.indexed = knows("articles_v0", "", 1)
	c.refused(t, "the collection is not there")
	c.indexed = knows("articles_v1", "", 1)
	c.search(t) // at the same moment
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
	if said := c.logged(t); !strings.Contains(said[0], "lacks articles: it replays its log") {
		t.Errorf("the log says %q", said)
	}
	if behind.asked.Load() != 1 || good.asked.Load() != 2 { // mark; mark and search
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
	good.mark.Store(7)
	c.search(t)
}

// What a node lacks counts as lost after a while without queued writes, if all nodes lack it.
func TestLost(t *testing.T) {
	t.Parallel()
	node, other := startReplaying(t, 5, 3), startReplaying(t, 0, 4)
	c := openCluster(t, node.URL, other.URL)
	c.indexed = knows("articles_v1", "", 5)
	away := func(what string, seconds int) {
		t.Helper()
		for range seconds {
			c.clock.Add(1)
			if live, err := c.Live(t.Context()); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
				t.Errorf("%s: live %q, %v", what, live, err)
			}
		}
	}
	is := func(want string) {
		t.Helper()
		c.clock.Add(1)
		if live, err := c.Live(t.Context()); err != nil || live != want {
			t.Errorf("live %q, %v, want %q", live, err, want)
		}
	}
	away("replaying", 30)
	node.queued.Store(0)
	away("nothing is queued", 10)
	node.queued.Store(1)
	away("it replays after all", 1)
	node.queued.Store(0)
	away("from the beginning", 10)
	is("")
	node.mark.Store(5)
	is("articles_v1")
	node.mark.Store(3)
	away("once more", 10)
	is("")
	c.indexed = knows("", "articles_v2", 0)
	is("")
	c.indexed = func(context.Context) (waypost.ArticleIndex, error) {
		return waypost.ArticleIndex{}, errors.New("the database is away")
	}
	away("without SQL", 1)
}

// The mark of a node that has everything is not asked for before each search, but again after
// it has failed.
func TestMarkIsRemembered(t *testing.T) {
	t.Parallel()
	node := startReplaying(t, 0, 3)
	c := openCluster(t, node.URL)
	c.indexed = knows("articles_v1", "", 3)
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
	node.mark.Store(2)
	if _, err := c.Search(t.Context(), query(secret)); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
		t.Errorf("it was started again: %v", err)
	}
}

// A single node that hangs costs a search as long as one is given, and the next ones nothing,
// but for one that looks whether it answers again.
func TestHungNodeIsLeftOut(t *testing.T) {
	t.Parallel()
	if searching.try != time.Second || !searching.leaves {
		t.Errorf("searches wait %s", searching.try)
	}
	node := startReplaying(t, 0, 3)
	all := *node.behave.Load()
	c := openCluster(t, node.URL)
	c.indexed = knows("articles_v1", "", 3)
	c.searching = patience{total: time.Minute, try: 50 * time.Millisecond, leaves: true}
	node.set(hangs)
	c.refused(t, "it hangs")
	for range 20 {
		_, err := c.Search(t.Context(), query(secret))
		checkFault(t, err, waypost.CodeServiceUnavailable, "did not answer in time a moment ago")
	}
	if asked := node.asked.Load(); asked > 1 {
		t.Errorf("asked %d times", asked)
	}
	c.searching.try = time.Minute
	reached, release := make(chan struct{}), make(chan struct{})
	node.set(func(w http.ResponseWriter, r *http.Request) {
		close(reached)
		<-release
		node.set(all)
		all(w, r)
	})
	c.clock.Add(1)
	var probe sync.WaitGroup
	probe.Go(func() { c.search(t) })
	<-reached
	_, err := c.Search(t.Context(), query(secret))
	checkFault(t, err, waypost.CodeServiceUnavailable, "a moment ago")
	close(release)
	probe.Wait()
	c.search(t)
}
