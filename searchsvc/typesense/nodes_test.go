package typesense

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/searchsvc"
)

// fakeNode is a node that can be told how to behave, and counts what it is asked.
type fakeNode struct {
	*httptest.Server
	behave atomic.Pointer[http.HandlerFunc]
	asked  atomic.Int32
	tells  bool // its status
}

func startNode(t testing.TB, behave http.HandlerFunc) *fakeNode {
	t.Helper()
	n := &fakeNode{}
	n.set(behave)
	n.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/status" && !n.tells { // which is asked before searches
			http.NotFound(w, r)
			return
		}
		n.asked.Add(1)
		(*n.behave.Load())(w, r)
	}))
	t.Cleanup(n.Close)
	return n
}

func (n *fakeNode) set(behave http.HandlerFunc) { n.behave.Store(&behave) }

func (n *fakeNode) host() string { return strings.TrimPrefix(n.URL, "http://") }

// works answers all that an index asks as a healthy node with a live articles_v1
// does, searches as recorded.
func works(t testing.TB) http.HandlerFunc {
	search := record(t, "b03_two_chars_inside_word")
	mux := http.NewServeMux()
	reply := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json; charset=utf-8")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, body)
		}
	}
	const alias, collection = `{"name":"articles","collection_name":"articles_v1"}`, `{"name":"articles_v1"}`
	for _, name := range []string{"articles", "articles_v1"} {
		mux.HandleFunc("GET /collections/"+name+"/documents/search", func(w http.ResponseWriter, _ *http.Request) { search.answer(w) })
	}
	mux.HandleFunc("POST /collections/articles_v1/documents/import", func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		_, _ = io.WriteString(w, strings.Repeat("{\"success\":true}\n", bytes.Count(body, []byte("\n"))))
	})
	mux.HandleFunc("DELETE /collections/articles_v1/documents/{id}", func(w http.ResponseWriter, r *http.Request) {
		reply(200, `{"id":"`+r.PathValue("id")+`"}`)(w, r)
	})
	mux.HandleFunc("GET /aliases/articles", reply(200, alias))
	mux.HandleFunc("PUT /aliases/articles", reply(200, alias))
	mux.HandleFunc("GET /collections/articles_v1", reply(200, collection))
	mux.HandleFunc("GET /collections", reply(200, `[`+collection+`,{"name":"articles"},{"name":"other_articles_v1"},{"name":"articles_v2"}]`))
	mux.HandleFunc("POST /collections", reply(201, collection))
	mux.HandleFunc("DELETE /collections/articles_v2", reply(200, `{"name":"articles_v2"}`))
	return mux.ServeHTTP
}

// hangs keeps a request until its client has given up.
func hangs(_ http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // only then is the client's end noticed
	<-r.Context().Done()
}

// stalls begins an answer and does not go on.
func stalls(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"found":1,`)
	_ = http.NewResponseController(w).Flush()
	<-r.Context().Done()
}

func breaks(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }

func answers(status int, kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// nobody is an address where nobody listens.
func nobody(t testing.TB) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	return "http://" + listener.Addr().String()
}

// cluster is an index on nodes, with a clock and a log.
type cluster struct {
	*Index
	clock atomic.Int64 // seconds
	mu    sync.Mutex
	log   bytes.Buffer
}

func (c *cluster) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.log.Write(p)
}

// logged returns the lines of the log since the last call.
func (c *cluster) logged(t *testing.T) []string {
	t.Helper()
	c.mu.Lock()
	defer c.mu.Unlock()
	said := c.log.String()
	c.log.Reset()
	checkSilent(t, strings.ReplaceAll(said, "{", ""))
	return strings.Split(strings.TrimSuffix(said, "\n"), "\n")
}

func openCluster(t *testing.T, urls ...string) *cluster {
	t.Helper()
	c := &cluster{}
	c.Index = open(t, Options{URLs: urls, Log: slog.New(slog.NewTextHandler(c, nil))})
	c.now = func() time.Time { return time.Unix(c.clock.Load(), 0) }
	// Who lets a node hang shortens it: a busy machine must not take a healthy one for that.
	c.searching = patience{total: time.Minute, try: time.Minute}
	c.writing = c.searching
	return c
}

func (c *cluster) search(t *testing.T) {
	t.Helper()
	if found, err := c.Search(t.Context(), query(secret)); err != nil || found.Total != 1 {
		t.Errorf("total %d, %v", found.Total, err)
	}
}

// operations are all that an index does with its nodes.
var operations = map[string]func(context.Context, *Index) error{
	"search": func(ctx context.Context, x *Index) error {
		found, err := x.Search(ctx, query(secret))
		if err == nil && len(found.Matches) != 1 {
			err = fmt.Errorf("%d matches", len(found.Matches))
		}
		return err
	},
	"import": func(ctx context.Context, x *Index) error {
		faults, err := x.Import(ctx, "articles_v1", []searchsvc.Document{tenantB("1", "第二", ""), tenantB("2", "第二", "")})
		return errors.Join(append(faults, err)...)
	},
	"mark":    func(ctx context.Context, x *Index) error { return x.Mark(ctx, "articles_v1", 7) },
	"delete":  func(ctx context.Context, x *Index) error { return x.Delete(ctx, "articles_v1", []string{"1"}) },
	"create":  func(ctx context.Context, x *Index) error { return x.Create(ctx, "articles_v1") },
	"setlive": func(ctx context.Context, x *Index) error { return x.SetLive(ctx, "articles_v1") },
	"prune":   func(ctx context.Context, x *Index) error { return x.Prune(ctx, "articles_v1") },
	"live": func(ctx context.Context, x *Index) error {
		live, err := x.Live(ctx)
		if err == nil && live != "articles_v1" {
			err = errors.New("live: " + live)
		}
		return err
	},
}

// One of two nodes is bad, in every way and for everything: the other one does it,
// the log says which is bad and why, and nothing is asked of it again.
func TestBadNode(t *testing.T) {
	t.Parallel()
	const kind = "application/json; charset=utf-8"
	for name, tt := range map[string]struct {
		behave http.HandlerFunc
		cause  string
	}{
		"down":         {nil, "is away: dial tcp "},
		"broken":       {breaks, "is away: the connection broke"},
		"hung":         {hangs, "does not answer in time"},
		"stalled":      {stalls, "does not answer in time"},
		"not ready":    {answers(503, kind, `{"message":"Not Ready or Lagging"}`), "is not ready (503: Not Ready or Lagging)"},
		"leaderless":   {answers(500, kind, `{"message":"Could not find a leader."}`), "is not ready (500: Could not find a leader)"},
		"other key":    {answers(401, kind, `{"message":"Forbidden"}`), "refuses the API key (401)"},
		"another page": {answers(200, "text/html", "<html>搜索引擎</html>"), "not Typesense's (200)"},
	} {
		for operation, do := range operations {
			if waits := name == "hung" || name == "stalled"; waits && operation != "search" && operation != "import" {
				continue // they would take a second each, and tell nothing new
			}
			t.Run(name+"/"+operation, func(t *testing.T) {
				t.Parallel()
				good, bad, address := startNode(t, works(t)), &fakeNode{}, ""
				if tt.behave != nil {
					bad = startNode(t, tt.behave)
					address = bad.URL
				} else {
					address = nobody(t)
				}
				c := openCluster(t, address, good.URL)
				waits := name == "hung" || name == "stalled"
				if waits {
					c.searching.try, c.writing.try = 250*time.Millisecond, 250*time.Millisecond
				}
				began := time.Now()
				for range 3 {
					if err := do(t.Context(), c.Index); err != nil {
						t.Error(err)
					}
					c.writing.try = c.writing.total // the good one comes first now
					if operation != "setlive" {     // which looks at the bad one each time
						c.searching.try = c.searching.total
					}
				}
				if took := time.Since(began); took > 30*time.Second {
					t.Errorf("took %s", took)
				}
				// SetLive looks at all nodes each time; of those that wait, the good one may have
				// come first.
				most := int32(1)
				if name == "broken" && operation == "search" {
					most = 2 // over the connection of the status, and over another one
				}
				if asked := bad.asked.Load(); tt.behave != nil && operation != "setlive" && (asked > most || asked == 0 && !waits) {
					t.Errorf("the bad node was asked %d times", asked)
				}
				said := c.logged(t)
				cause := tt.cause
				if (operation == "import" || operation == "mark") && name == "another page" {
					cause = "cannot be read: no JSON" // its type is not looked at
				}
				if len(said) != 1 || !strings.Contains(said[0], "a Typesense node fails") || !strings.Contains(said[0], cause) ||
					!strings.Contains(said[0], "node="+strings.TrimPrefix(address, "http://")) {
					t.Errorf("the log says %q, want %q", said, cause)
				}
			})
		}
	}
}

// A node that has fallen behind, or lost its data, lacks the collection: the others
// are asked. Only what all lack is not there.
func TestNodeWithoutCollection(t *testing.T) {
	t.Parallel()
	const kind = "application/json; charset=utf-8"
	missing := answers(404, kind, `{"message":"Collection not found"}`)
	behind, good := startNode(t, missing), startNode(t, works(t))
	c := openCluster(t, behind.URL, good.URL)
	c.search(t)
	c.search(t)
	if asked := behind.asked.Load(); asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	good.set(missing)
	_, err := c.Search(t.Context(), query(secret))
	checkFault(t, err, waypost.CodeServiceUnavailable, "Typesense at "+good.host()+" has no such collection (404); Typesense at "+behind.host()+" has no")
	if said := c.logged(t); said[0] != "" {
		t.Errorf("the log says %q", said)
	}
}

// ending is a context whose time is over when the test says so.
type ending struct {
	context.Context
	over chan struct{}
}

func newEnding(t *testing.T) (ctx ending, end func()) {
	ctx = ending{context.WithoutCancel(t.Context()), make(chan struct{})}
	return ctx, sync.OnceFunc(func() { close(ctx.over) })
}

func (e ending) Done() <-chan struct{} { return e.over }

func (e ending) Err() error {
	select {
	case <-e.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Every node is away: the error says what each suffers from. Nobody waits for longer
// than the whole patience.
func TestAllNodesBad(t *testing.T) {
	t.Parallel()
	away, hung, other := nobody(t), startNode(t, hangs), startNode(t, hangs)
	c := openCluster(t, hung.URL, other.URL, away) // the last one has all the time that is left
	c.searching.try = 50 * time.Millisecond
	_, err := c.Search(t.Context(), query(secret))
	checkFault(t, err, waypost.CodeServiceUnavailable, "Typesense at "+hung.host()+" does not answer in time; Typesense at "+other.host()+" does not")
	checkFault(t, err, waypost.CodeServiceUnavailable, "; Typesense at "+strings.TrimPrefix(away, "http://")+" is away: dial")
	if said := c.logged(t); len(said) != 3 {
		t.Errorf("the log says %q", said)
	}
	alone := openCluster(t, hung.URL)
	alone.searching.total = 50 * time.Millisecond
	began := time.Now()
	_, err = alone.Search(t.Context(), query(secret))
	checkFault(t, err, waypost.CodeServiceUnavailable, "Typesense at "+hung.host()+" does not answer in time")
	if took := time.Since(began); took < 50*time.Millisecond {
		t.Errorf("took %s", took)
	}
	// What there was no time to ask has not failed.
	idle := startNode(t, works(t))
	hurried := openCluster(t, away, other.URL, idle.URL)
	ctx, end := newEnding(t)
	other.set(func(w http.ResponseWriter, r *http.Request) { end(); hangs(w, r) })
	_, err = hurried.Search(ctx, query(secret))
	checkFault(t, err, waypost.CodeServiceUnavailable, other.host()+" does not answer in time: article search is away")
	if said := hurried.logged(t); len(said) != 2 || idle.asked.Load() != 0 {
		t.Errorf("the log says %q", said)
	}
	other.asked.Store(1)
	// One that is healthy again is found, though all have failed a moment ago.
	other.set(works(t))
	hung.set(breaks)
	c.searching.try = c.searching.total
	c.search(t)
	c.search(t)
	if asked := other.asked.Load(); asked != 3 {
		t.Errorf("asked %d times", asked)
	}
}

// A node that failed is asked last for a while and then as any other, if the one that
// took its place fails. The log tells when it has been well for a while, once.
func TestNodeHeals(t *testing.T) {
	t.Parallel()
	const kind = "application/json; charset=utf-8"
	notReady := answers(503, kind, `{"message":"Not Ready or Lagging"}`)
	first, second, third := startNode(t, notReady), startNode(t, works(t)), startNode(t, notReady)
	c := openCluster(t, first.URL, second.URL, third.URL)
	c.search(t) // second takes over
	asked := func(want ...int32) {
		t.Helper()
		for i, n := range []*fakeNode{first, second, third} {
			if got := n.asked.Swap(0); got != want[i] {
				t.Errorf("node %d was asked %d times, want %d", i+1, got, want[i])
			}
		}
	}
	asked(1, 1, 0)
	first.set(works(t))
	second.set(notReady)
	c.search(t) // third before first, which failed a moment ago
	asked(1, 1, 1)
	if said := c.logged(t); len(said) != 3 || !strings.Contains(said[2], "level=WARN") {
		t.Errorf("the log says %q", said)
	}
	c.clock.Store(4)
	c.search(t)
	asked(1, 0, 0) // all have failed a moment ago: the last good one
	if said := c.logged(t); said[0] != "" {
		t.Errorf("the log says %q", said)
	}
	c.clock.Store(5)
	c.search(t)
	c.search(t)
	asked(2, 0, 0)
	if said := c.logged(t); len(said) != 1 || !strings.Contains(said[0], "a Typesense node works again") || !strings.Contains(said[0], "after=5s") {
		t.Errorf("the log says %q", said)
	}
	first.set(notReady)
	second.set(works(t))
	c.search(t)
	asked(1, 1, 0) // second, failed long ago, before third
}

// While a search that met a bad node is still waiting for another, the next ones do
// not meet the bad one again.
func TestFailedNodeRests(t *testing.T) {
	t.Parallel()
	bad, good := startNode(t, answers(503, "text/plain", "")), startNode(t, nil)
	reached, release := make(chan struct{}), make(chan struct{})
	healthy := works(t)
	good.set(func(w http.ResponseWriter, r *http.Request) {
		if good.asked.Load() == 1 {
			close(reached)
			<-release
		}
		healthy(w, r)
	})
	c := openCluster(t, bad.URL, good.URL)
	c.searching.try = c.searching.total
	var group sync.WaitGroup
	group.Go(func() { c.search(t) })
	<-reached
	group.Go(func() {
		defer close(release)
		c.search(t)
	})
	group.Wait()
	if bad.asked.Load() != 1 || good.asked.Load() != 2 {
		t.Errorf("asked %d and %d times", bad.asked.Load(), good.asked.Load())
	}
}

// Faults of a single node leave nothing behind, however many: there is no breaker
// that stays open. The log has a line for the fault and one for its end.
func TestHeals(t *testing.T) {
	t.Parallel()
	n := startNode(t, breaks)
	c := openCluster(t, n.URL)
	for range 200 {
		_, err := c.Search(t.Context(), query(secret))
		checkFault(t, err, waypost.CodeServiceUnavailable, "Typesense at "+n.host()+" is away")
	}
	n.set(works(t))
	c.search(t)
	c.clock.Store(60)
	c.search(t)
	if said := c.logged(t); len(said) != 2 || !strings.Contains(said[0], "fails") || !strings.Contains(said[1], "works again") {
		t.Errorf("the log says %q", said)
	}
}

// A search that nobody waits for says nothing about a node, and a request that is
// wrong is wrong everywhere.
func TestNoFaultOfNodes(t *testing.T) {
	t.Parallel()
	second := startNode(t, works(t))
	hung := startNode(t, nil)
	c := openCluster(t, hung.URL, second.URL)
	c.searching.try = time.Minute
	ctx, cancel := context.WithCancel(t.Context())
	hung.set(func(w http.ResponseWriter, r *http.Request) { cancel(); hangs(w, r) })
	if _, err := c.Search(ctx, query(secret)); !errors.Is(err, context.Canceled) || waypost.CodeOf(err) == waypost.CodeServiceUnavailable {
		t.Errorf("got %v", err)
	}
	keys := make([]string, 20)
	if err := c.Delete(ctx, "articles_v1", keys); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	hung.set(answers(400, "application/json", `{"message":"no such field as 搜索引擎"}`))
	_, err := c.Search(t.Context(), query(secret))
	checkFault(t, err, waypost.CodeServiceUnavailable, "(400)")
	if said := c.logged(t); second.asked.Load() != 0 || said[0] != "" {
		t.Errorf("the second node was asked %d times; the log says %q", second.asked.Load(), said)
	}
}

// Many at once, while a node comes and goes: nobody notices.
func TestNodesAtOnce(t *testing.T) {
	t.Parallel()
	flapping, good := startNode(t, works(t)), startNode(t, works(t))
	flapping.set(func(w http.ResponseWriter, r *http.Request) {
		if flapping.asked.Load()%3 == 0 {
			breaks(w, r)
		}
		works(t)(w, r)
	})
	c := openCluster(t, flapping.URL, good.URL)
	var group sync.WaitGroup
	for i := range 8 {
		group.Go(func() {
			for range 20 {
				c.clock.Add(1)
				if err := operations[[]string{"search", "import", "delete", "live"}[i%4]](t.Context(), c.Index); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if flapping.asked.Load() == 0 || good.asked.Load() == 0 {
		t.Error("one of the nodes was not asked")
	}
}

// Many documents are taken out side by side; the first fault ends it.
func TestDeleteMany(t *testing.T) {
	t.Parallel()
	n := startNode(t, works(t))
	c := openCluster(t, n.URL)
	keys := make([]string, 100)
	for i := range keys {
		keys[i] = fmt.Sprint("k", i)
	}
	if err := c.Delete(t.Context(), "articles_v1", keys); err != nil || n.asked.Load() != 100 {
		t.Errorf("%d requests, %v", n.asked.Load(), err)
	}
	n.asked.Store(0)
	n.set(answers(404, "application/json", `{"message":"Collection not found"}`))
	checkFault(t, c.Delete(t.Context(), "articles_v1", keys), waypost.CodeServiceUnavailable, "no such collection")
	if n.asked.Load() > deleters {
		t.Errorf("%d requests", n.asked.Load())
	}
}

// rawNode answers each connection with what speak writes.
func rawNode(t *testing.T, speak func(connection int, c net.Conn, in *bufio.Reader)) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var group sync.WaitGroup
	group.Go(func() {
		for i := 1; ; i++ {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			group.Go(func() {
				defer c.Close()
				speak(i, c, bufio.NewReader(c))
			})
		}
	})
	t.Cleanup(func() {
		listener.Close()
		group.Wait()
	})
	return "http://" + listener.Addr().String()
}

// A server that was restarted has forgotten the connections that we keep: the first
// request after that is sent again, also one that writes.
func TestForgottenConnection(t *testing.T) {
	t.Parallel()
	var requests, connections atomic.Int32
	address := rawNode(t, func(i int, c net.Conn, in *bufio.Reader) {
		connections.Store(int32(i))
		for {
			r, err := http.ReadRequest(in)
			if err != nil {
				return
			}
			body, _ := io.ReadAll(r.Body)
			if requests.Add(1) == 2 {
				return // after the request, without an answer
			}
			if r.Header["X-Idempotency-Key"] != nil {
				t.Errorf("headers %v", r.Header)
			}
			lines := strings.Repeat("{\"success\":true}\n", bytes.Count(body, []byte("\n")))
			fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: %d\r\n\r\n%s", len(lines), lines)
		}
	})
	c := openCluster(t, address)
	t.Cleanup(c.nodes[0].http.Client.(*http.Client).CloseIdleConnections) // before the node ends
	for range 2 {
		imported(t, c.Index, "articles_v1", []searchsvc.Document{tenantB("1", "a", "a"), tenantB("2", "a", "a")})
	}
	if requests.Load() != 3 || connections.Load() != 2 {
		t.Errorf("%d requests on %d connections", requests.Load(), connections.Load())
	}
}

// What is no HTTP may hold the query, when something else listens at the address and
// sends back what it gets.
func TestEcho(t *testing.T) {
	t.Parallel()
	address := rawNode(t, func(_ int, c net.Conn, in *bufio.Reader) {
		line, _ := in.ReadString('\n')
		_, _ = io.WriteString(c, line)
	})
	c := openCluster(t, address)
	_, err := c.Search(t.Context(), query(secret))
	checkFault(t, err, waypost.CodeServiceUnavailable, "gives an answer that cannot be read")
	if said := c.logged(t); len(said) != 1 {
		t.Errorf("the log says %q", said)
	}
}

// The wrong scheme is told as what it is.
func TestScheme(t *testing.T) {
	t.Parallel()
	n := startNode(t, works(t))
	c := openCluster(t, strings.Replace(n.URL, "http:", "https:", 1))
	_, err := c.Search(t.Context(), query(secret))
	checkFault(t, err, waypost.CodeServiceUnavailable, "is asked by https and speaks http")
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(secure.Close)
	secure.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	c = openCluster(t, secure.URL)
	_, err = c.Search(t.Context(), query(secret))
	checkFault(t, err, waypost.CodeServiceUnavailable, "is not to be trusted: tls")
}
