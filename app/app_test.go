package app

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"

	"waypost"
	"waypost/config"
	"waypost/limits"
	"waypost/signature"
	"waypost/store"
)

// These are for what is away, not for a busy machine.
func init() {
	checkTime, noticeTime, sampleTime, issuerTime = time.Minute, time.Minute, time.Minute, time.Minute
	optionalTime = checkTime / 2
	limits.CallTime = time.Minute
}

// hosts counts freeAddr's.
var hosts atomic.Int32

// freeAddr is an address that nobody listens on. Its host is this call's own, of the
// loopback network: nobody else gets its port meanwhile.
func freeAddr(t *testing.T) string {
	t.Helper()
	var lc net.ListenConfig
	n := hosts.Add(1)
	l, err := lc.Listen(t.Context(), "tcp", fmt.Sprintf("127.88.%d.%d:0", n>>8, n&255))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}

// deployment is what a role runs on: a database, a Redis, and a Temporal that is
// away, without which a gateway works.
func deployment(t *testing.T) config.Config {
	t.Helper()
	url := "sqlite:" + filepath.Join(t.TempDir(), "waypost.db")
	if _, _, err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		t.Fatal(err)
	}
	return config.Config{
		DataDir:    t.TempDir(),
		HTTP:       config.HTTP{Addr: "127.0.0.1:0", AddressRate: 10_000},
		Admin:      config.Admin{Addr: freeAddr(t)},
		Database:   config.Database{URL: config.Secret(url)},
		Redis:      config.Redis{URL: config.Secret("redis://" + miniredis.RunT(t).Addr() + "/0")},
		Temporal:   config.Temporal{Address: freeAddr(t), Namespace: "default", TaskQueue: "waypost"},
		Encryption: config.Encryption{Keys: config.Secret("k1:" + base64.StdEncoding.EncodeToString(key))},
		Webhook:    config.Webhook{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}},
		Lead:       config.Lead{PhoneRegion: "CN"},
	}
}

// running is a gateway in this process.
type running struct {
	t     *testing.T
	addr  string
	admin string
	key   signature.Key
	// header is sent with every call, beside what is signed.
	header http.Header
	stop   context.CancelFunc
	ended  chan error
}

func startGateway(t *testing.T, changes ...func(*config.Config)) *running {
	t.Helper()
	cfg := deployment(t)
	for _, change := range changes {
		change(&cfg)
	}
	db, err := OpenStore(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	credential, err := db.CreateApplication(t.Context(), "", waypost.Application{Org: "acme", Name: "test", Grants: []waypost.Grant{"*"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	r := &running{
		t: t, admin: cfg.Admin.Addr, stop: stop, ended: make(chan error, 1),
		key: signature.Key{AccessKey: credential.AccessKey, SecretKey: credential.SecretKey},
	}
	ready := make(chan string, 1)
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		r.ended <- Gateway(ctx, cfg, slog.New(slog.DiscardHandler), func(addr string) { ready <- addr })
	}()
	select {
	case r.addr = <-ready:
	case err := <-r.ended:
		t.Fatalf("the gateway ended: %v", err)
	}
	t.Cleanup(func() { stop(); <-gone })
	return r
}

// call sends a signed request.
func (r *running) call(method, target, body string) (*http.Response, map[string]any, error) {
	req, err := http.NewRequestWithContext(r.t.Context(), method, "http://"+r.addr+target, bytes.NewBufferString(body))
	if err != nil {
		return nil, nil, err
	}
	maps.Copy(req.Header, r.header)
	path, query, _ := strings.Cut(target, "?")
	signed := signature.Request{Method: method, Path: path, Query: query, Headers: []signature.Header{{Name: "Host", Value: r.addr}}}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
		signed.Headers = append(signed.Headers, signature.Header{Name: "Content-Type", Value: "application/json"})
	}
	for _, h := range signature.Sign(signed, r.key, []byte(body), time.Now(), signature.NewNonce()) {
		req.Header.Set(h.Name, h.Value)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return nil, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return nil, nil, err
	}
	answer := map[string]any{}
	if len(raw) > 0 {
		err = json.Unmarshal(raw, &answer)
	}
	return res, answer, err
}

func (r *running) accepts() bool {
	conn, err := (&net.Dialer{}).DialContext(r.t.Context(), "tcp", r.addr)
	if err != nil {
		return false
	}
	_ = conn.Close()
	return true
}

// A gateway that is asked to stop says so before it closes its port, answers what
// is under way, and can be looked at until it has.
func TestGatewayDrains(t *testing.T) {
	t.Parallel()
	reached, release := make(chan struct{}), make(chan struct{})
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		close(reached)
		<-release
		_, _ = io.WriteString(w, `{"succeed":true}`)
	}))
	defer receiver.Close()
	answerIt := sync.OnceFunc(func() { close(release) })
	defer answerIt()
	g := startGateway(t)
	res, hook, err := g.call("POST", "/v1/webhooks", fmt.Sprintf(`{"name":"crm","url":%q}`, receiver.URL))
	if err != nil || res.StatusCode != http.StatusCreated {
		t.Fatalf("%v: %v", err, hook)
	}

	type answer struct {
		res  *http.Response
		body map[string]any
		err  error
	}
	answered := make(chan answer, 1)
	go func() {
		res, body, err := g.call("POST", fmt.Sprintf("/v1/webhooks/%s/test", hook["id"]), "")
		answered <- answer{res, body, err}
	}()
	<-reached

	// Whoever watches is told before the port closes.
	// Search works once the embedded index is made.
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		_, body := get(t, g.admin, "/readyz")
		if strings.Contains(body, `"search":"ok"`) {
			break
		}
		if !strings.Contains(body, `"search":"degraded"`) || time.Now().After(deadline) {
			t.Fatalf("/readyz answers %s", body)
		}
	}
	if status, body := get(t, g.admin, "/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, `"temporal":"away"`) || !strings.Contains(body, `"redis":"ok"`) {
		t.Errorf("/readyz answers %d %s", status, body)
	}
	g.stop()
	stoppingSeen := false
	for deadline := time.Now().Add(30 * time.Second); g.accepts(); {
		status, body := get(t, g.admin, "/readyz")
		stoppingSeen = status == http.StatusServiceUnavailable && strings.Contains(body, "stopping")
		if time.Now().After(deadline) {
			t.Fatalf("the port is open 30 s after the stop; /readyz answers %d %s", status, body)
		}
	}
	if !stoppingSeen {
		t.Error("the port closed before /readyz said so")
	}

	// The request under way is not cut off.
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 503, "/metrics": 200} {
		if status, body := get(t, g.admin, path); status != want {
			t.Errorf("%s answers %d while the process stops: %s", path, status, body)
		}
	}
	select {
	case a := <-answered:
		t.Fatalf("answered %v, %v before the receiver did", a.body, a.err)
	case err := <-g.ended:
		t.Fatalf("the process ended with a request under way: %v", err)
	default:
	}
	answerIt()
	if a := <-answered; a.err != nil || a.res.StatusCode != http.StatusOK || a.body["succeed"] != true || !a.res.Close {
		t.Errorf("got %v, %v (%+v)", a.body, a.err, a.res)
	}
	if err := <-g.ended; err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
}

// Nobody who does not watch makes a stop take longer.
func TestStopsAtOnceIfNobodyWatches(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	get(t, g.admin, "/healthz")
	began := time.Now()
	g.stop()
	if err := <-g.ended; err != nil {
		t.Errorf("the gateway ended with %v", err)
	}
	if took := time.Since(began); took >= noticeTime {
		t.Errorf("stopping took %s", took)
	}
}

// What a gateway accepts it tells those who have a worker: enrollments by one signal,
// everything else at another one.
func TestGatewaySignals(t *testing.T) {
	t.Parallel()
	shared := miniredis.RunT(t)
	g := startGateway(t, func(cfg *config.Config) { cfg.Redis.URL = config.Secret("redis://" + shared.Addr() + "/0") })
	post := func(path, body string) map[string]any {
		t.Helper()
		res, answer, err := g.call("POST", path, body)
		if err != nil || res.StatusCode/100 != 2 {
			t.Fatalf("%s: %v %v %v", path, err, res, answer)
		}
		return answer
	}
	// sent takes a notice of the signal.
	sent := func(signal string) bool {
		_, err := shared.Lpop("waypost:signal:" + signal)
		return err == nil
	}
	hook := post("/v1/webhooks", `{"name":"crm","url":"https://crm.example.com"}`)
	journey := post("/v1/journeys", fmt.Sprintf(
		`{"name":"J","start":"hello","reentry":{"policy":"always"},"nodes":[{"id":"hello","type":"touchpoint","webhook":%q}]}`, hook["id"]))
	path := fmt.Sprintf("/v1/journeys/%s", journey["id"])
	post(path+"/publish", "")
	lead := post("/v1/leads", `{"businessParam":{"name":"Ada"}}`)
	for _, signal := range []string{"all", "enrollments"} {
		if sent(signal) {
			t.Errorf("the signal %s was sent before there was anything to do", signal)
		}
	}
	for _, c := range []struct{ path, body, signal, other string }{
		{path + "/enrollments", `{"leadsId":LEAD}`, "enrollments", "all"},
		{path + "/launches", `{"audience":{"leadsIds":[LEAD]}}`, "all", "enrollments"},
		{"/v1/events", `{"eventId":"e1","name":"bought","leadsId":LEAD}`, "all", "enrollments"},
	} {
		post(c.path, strings.ReplaceAll(c.body, "LEAD", fmt.Sprintf("%.0f", lead["leadsId"])))
		for deadline := time.Now().Add(20 * time.Second); !sent(c.signal); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("POST %s has not sent the signal %s", c.path, c.signal)
			}
		}
		if sent(c.other) {
			t.Errorf("POST %s has sent the signal %s", c.path, c.other)
		}
	}
}

// A worker receives both signals, whether it can work or not.
func TestWorkerHears(t *testing.T) {
	t.Parallel()
	shared := miniredis.RunT(t)
	cfg := deployment(t)
	cfg.Redis.URL = config.Secret("redis://" + shared.Addr() + "/0")
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- Worker(ctx, cfg, slog.New(slog.DiscardHandler), func(string) {}) }()
	for _, key := range []string{"waypost:signal:all", "waypost:signal:enrollments"} {
		if _, err := shared.Push(key, "1"); err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(30 * time.Second); shared.Exists(key); time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("the worker does not receive %s", key)
			}
		}
	}
	stop()
	if err := <-ended; err != nil {
		t.Errorf("the worker ended with %v", err)
	}
}

// Whatever clients ask for, labels name routes, never what was asked for.
func TestGatewayMetrics(t *testing.T) {
	t.Parallel()
	g := startGateway(t)
	for _, target := range []string{"/v1/leads/918273", "/v1/leads/918274?x=918275", "/918276", "/v1/journeys/918277/publish", "/v1/leads/%39%31"} {
		if _, _, err := g.call("GET", target, ""); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := g.call("M918278", "/v1/leads/1", ""); err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.call("POST", "/v1/leads", `{"businessParam":{"name":"Name918279"}}`); err != nil {
		t.Fatal(err)
	}
	_, body := get(t, g.admin, "/metrics")
	for line := range strings.Lines(body) {
		sample := line[:max(0, strings.LastIndexByte(line, ' '))] // a value may have any digits
		if strings.Contains(sample, "91827") || strings.Contains(line, g.key.AccessKey) {
			t.Errorf("/metrics shows what clients sent: %s", line)
		}
	}
	for _, want := range []string{
		`waypost_http_requests_total{method="GET",route="/v1/leads/:id",status="404"} 2`,
		`waypost_http_requests_total{method="POST",route="/v1/leads",status="201"} 1`,
		`waypost_http_requests_total{method="GET",route="none",status="404"} 1`,
		`waypost_http_requests_total{method="UNKNOWN",route="none",status="405"} 1`,
		`waypost_http_request_seconds_count{method="POST",route="/v1/leads"} 1`,
		`waypost_redis_fallbacks_total{use="nonces"} 0`,
		`waypost_redis_fallbacks_total{use="rates"} 0`,
		`waypost_redis_fallbacks_total{use="breakers"} 0`,
		`waypost_redis_fallbacks_total{use="signals"} 0`,
		"waypost_outbox_pending 0",
	} {
		if !strings.Contains(body, "\n"+want+"\n") {
			t.Errorf("/metrics does not have %s", want)
		}
	}
	if t.Failed() {
		for line := range strings.Lines(body) {
			if strings.HasPrefix(line, "waypost_http_requests") || strings.HasPrefix(line, "waypost_outbox") {
				t.Log(line)
			}
		}
	}
}

// One check that hangs keeps no other from its answer, and one that is optional is waited
// for less long than whoever asks waits.
func TestReadyAtOnce(t *testing.T) {
	t.Parallel()
	others := make(chan struct{})
	left := func(ctx context.Context) time.Duration {
		end, _ := ctx.Deadline()
		return time.Until(end)
	}
	a := &adminServer{checks: []check{
		{name: "database", ask: func(ctx context.Context) error {
			<-others
			return context.DeadlineExceeded
		}},
		{name: "redis", ask: func(ctx context.Context) error {
			if got := left(ctx); got <= optionalTime || got > checkTime {
				t.Errorf("redis has %s", got)
			}
			return nil
		}},
		{name: "search", optional: true, ask: func(ctx context.Context) error {
			defer close(others)
			if got := left(ctx); got > optionalTime {
				t.Errorf("search has %s", got)
			}
			return io.EOF
		}},
	}}
	for _, want := range []struct {
		status int
		body   string
	}{
		{http.StatusServiceUnavailable, `{"database":"away","redis":"ok","search":"degraded"}`},
		{http.StatusOK, `{"redis":"ok","search":"degraded"}`},
	} {
		w := httptest.NewRecorder()
		a.readyz(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/readyz", nil))
		if w.Code != want.status || strings.TrimSpace(w.Body.String()) != want.body {
			t.Errorf("status %d, %s", w.Code, w.Body)
		}
		a.checks, others = a.checks[1:], make(chan struct{})
	}
}
