package gateway_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gofiber/fiber/v2"
	"github.com/redis/go-redis/v9"

	"waypost"
	"waypost/gateway"
	"waypost/journey"
	"waypost/limits"
	"waypost/listen"
	"waypost/searchsvc"
	"waypost/searchsvc/embedded"
	"waypost/signature"
	"waypost/store"
	"waypost/webhook"
)

// clock is a time that tests move.
type clock struct{ ns atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *clock) advance(d time.Duration) { c.ns.Add(int64(d)) }

// logBuffer collects log lines of concurrent requests.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// rates are the limits as the gateway asks for them.
type rates struct{ shared *limits.Leases }

func (r rates) Allow(ctx context.Context, key string, perSecond, burst int) gateway.Quota {
	t := r.shared.Take(ctx, key, perSecond, burst)
	return gateway.Quota{Allowed: t.Allowed == 1, Remaining: t.Remaining, Reset: t.Reset, RetryAfter: t.RetryAfter}
}

// breakers are the states of breakers as the gateway asks for them.
type breakers struct{ shared *limits.Breakers }

func (b breakers) BreakerState(ctx context.Context, w waypost.Webhook) waypost.BreakerState {
	s, known := b.shared.State(ctx, w.Circuit())
	if !known {
		return waypost.BreakerState{State: waypost.BreakerUnknown}
	}
	return waypost.BreakerState{State: s.Name, Since: s.Since, NextProbe: s.NextProbe}
}

type wakes struct{ n atomic.Int64 }

func (w *wakes) Wake() { w.n.Add(1) }

// fixture is a gateway over a real database, a Redis that speaks the real
// protocol, the real sender and the real search, serving real connections. Its index
// has nothing to search before indexed.
type fixture struct {
	t       *testing.T
	store   *store.Store
	file    string // of the database
	index   *embedded.Index
	redis   *miniredis.Miniredis
	clock   *clock
	log     *logBuffer
	wakes   *wakes
	indexer *wakes
	options gateway.Options
	addr    string
	client  *http.Client
	key     signature.Key
	app     waypost.Application
}

const testOrg = "acme"

// The time-outs are for a Redis that is away, not for a busy machine.
func init() { limits.CallTime = time.Minute }

// migrated is an empty database, of which every fixture gets a copy: migrating one
// for each took a third of the time of these tests.
var migrated = sync.OnceValues(func() (template []byte, err error) {
	dir, err := os.MkdirTemp("", "waypost-gateway-test-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	file := filepath.Join(dir, "waypost.db")
	if _, _, err := store.Migrate(context.Background(), "sqlite:"+file); err != nil {
		return nil, err
	}
	return os.ReadFile(file)
})

func newFixture(t *testing.T, changes ...func(*gateway.Options)) *fixture {
	t.Helper()
	f := &fixture{t: t, clock: &clock{}, log: &logBuffer{}, wakes: &wakes{}, indexer: &wakes{}, redis: miniredis.RunT(t)}
	f.clock.ns.Store(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC).UnixNano())

	keys, err := waypost.ParseKeyring("k1:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{7}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	template, err := migrated()
	if err != nil {
		t.Fatal(err)
	}
	f.file = filepath.Join(t.TempDir(), "waypost.db")
	if err := os.WriteFile(f.file, template, 0o600); err != nil {
		t.Fatal(err)
	}
	if f.store, err = store.Open(t.Context(), "sqlite:"+f.file, keys, f.clock.Now); err != nil {
		t.Fatal(err)
	}
	f.store.SetEntrances(journey.NewEntrances())
	f.store.SetGoals(journey.NewGoals())
	t.Cleanup(func() { _ = f.store.Close() })
	if f.index, err = embedded.Open(filepath.Join(t.TempDir(), "search")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.index.Close() })
	tokenKeys, err := keys.Derive("search-token")
	if err != nil {
		t.Fatal(err)
	}
	credential := f.newApp("*")
	f.key, f.app = keyOf(credential), credential.Application

	client := redis.NewClient(limits.ClientOptions(&redis.Options{Addr: f.redis.Addr()}))
	t.Cleanup(func() { _ = client.Close() })
	policy := webhook.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
	sender := webhook.NewSender(policy)
	t.Cleanup(sender.Close)

	f.options = gateway.Options{
		Applications: f.store, Leads: f.store, Webhooks: f.store, Subscriptions: f.store, Suppressions: f.store, Segments: f.store, Journeys: f.store, Enrollments: f.store,
		Breakers: breakers{limits.NewBreakers(client, slog.New(slog.DiscardHandler), f.clock.Now)},
		Launches: f.store, Controls: f.store, Events: f.store, Deliveries: f.store, Audit: f.store,
		Articles: f.store, Reindexes: f.store, Search: searchsvc.New(f.index, f.store), TokenKeys: tokenKeys, IndexWaker: f.indexer,
		Nonces: limits.NewNonces(client, f.store, slog.New(slog.NewTextHandler(f.log, nil))), Sender: sender, Waker: f.wakes, CheckURL: policy.CheckURL,
		TemporalURL: func(journeyID string, leadsID int64) string {
			return fmt.Sprintf("http://ui/%s/%d", journeyID, leadsID)
		},
		WorkflowURL: func(id string) string { return "http://ui/" + id },
		ScheduleURL: func(id string) string { return "http://ui/schedules/" + id },
		Rates:       rates{limits.NewLeases(limits.NewRates(client, slog.New(slog.DiscardHandler)))}, AddressRate: 100_000, Keys: f.store, Imports: f.store,
		PhoneRegion: "CN", Now: f.clock.Now, Log: slog.New(slog.NewJSONHandler(f.log, nil)),
	}
	for _, change := range changes {
		change(&f.options)
	}
	f.client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: time.Minute}
	f.addr = f.serve()
	theOpenAPI() // so that the first request does not wait for it: some tests count by the second
	return f
}

// lost is the fixture of a process with a key of its own, which the gateway lacks.
func (f *fixture) lost() *fixture {
	f.t.Helper()
	keys, err := waypost.ParseKeyring("lost:" + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte{8}, 32)))
	if err != nil {
		f.t.Fatal(err)
	}
	sub := *f
	if sub.store, err = store.Open(f.t.Context(), "sqlite:"+f.file, keys, f.clock.Now); err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = sub.store.Close() })
	return &sub
}

// serve starts a gateway on a port of its own.
func (f *fixture) serve() string {
	return f.hasty(time.Minute) // five seconds for headers are little on a busy machine
}

// hasty starts a gateway that gives headers and bodies so long.
func (f *fixture) hasty(patience time.Duration) string {
	return f.listen(gateway.NewHasty(f.options, patience))
}

// listen serves a gateway until the end of the test, and returns its address.
func (f *fixture) listen(app *fiber.App) string {
	t := f.t
	t.Helper()
	var lc net.ListenConfig
	l, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- gateway.Serve(app, listen.New(l, listen.Options{})) }()
	t.Cleanup(func() {
		f.client.CloseIdleConnections() // the server waits for those that it never heard from
		if err := app.ShutdownWithTimeout(time.Minute); err != nil {
			t.Errorf("shut down: %v", err)
		}
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return l.Addr().String()
}

// in is the fixture for a subtest.
func (f *fixture) in(t *testing.T) *fixture {
	sub := *f
	sub.t = t
	return &sub
}

func keyOf(c waypost.Credential) signature.Key {
	return signature.Key{AccessKey: c.AccessKey, SecretKey: c.SecretKey}
}

func (f *fixture) newApp(grants ...waypost.Grant) waypost.Credential {
	f.t.Helper()
	c, err := f.store.CreateApplication(f.t.Context(), "", waypost.Application{Org: testOrg, Name: "test", Grants: grants, RatePerSecond: 100_000, RateBurst: 1_000_000})
	if err != nil {
		f.t.Fatal(err)
	}
	return c
}

// call is a request that is going to be signed; change and tamper let tests break
// it before and after.
type call struct {
	method, target, body string
	headers              map[string]string
	key                  *signature.Key
	nonce                string
	at                   time.Time
	unsigned             bool
	tamper               func(*http.Request)
}

// dialed is a connection that ends with the test.
func dialed(t *testing.T, addr string) net.Conn {
	t.Helper()
	var dial net.Dialer
	conn, err := dial.DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

// raw sends exactly these lines and the signature of them, and returns the answer
// and whether the connection is still good for another request. A lone "SIGN" line
// stands for the signature's headers.
func (f *fixture) raw(method, target, body string, lines ...string) (a answer, reusable bool) {
	f.t.Helper()
	conn := dialed(f.t, f.addr)
	defer func() { _ = conn.Close() }()
	path, query, _ := strings.Cut(target, "?")
	r := signature.Request{Method: method, Path: path, Query: query}
	for _, line := range lines {
		if name, value, ok := strings.Cut(line, ":"); ok && !strings.HasPrefix(line, " ") {
			r.Headers = append(r.Headers, signature.Header{Name: name, Value: strings.TrimSpace(value)})
		}
	}
	var out strings.Builder
	sent := http.Header{}
	for _, h := range r.Headers {
		sent.Add(h.Name, h.Value)
	}
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\n", method, target)
	for _, line := range lines {
		if line != "SIGN" {
			out.WriteString(line + "\r\n")
			continue
		}
		for _, h := range signature.Sign(r, f.key, []byte(body), f.clock.Now(), signature.NewNonce()) {
			out.WriteString(h.Name + ": " + h.Value + "\r\n")
			sent.Add(h.Name, h.Value)
		}
	}
	out.WriteString("\r\n" + body)
	if _, err := io.WriteString(conn, out.String()); err != nil {
		f.t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	res, err := http.ReadResponse(in, &http.Request{Method: method})
	if err != nil {
		f.t.Fatalf("%s %s: %v", method, target, err)
	}
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		f.t.Fatal(err)
	}
	a = answer{status: res.StatusCode, header: res.Header, raw: string(raw)}
	if len(raw) > 0 {
		if err := json.Unmarshal(raw, &a.json); err != nil {
			f.t.Fatalf("status %d, no JSON: %q", res.StatusCode, raw)
		}
	}
	theOpenAPI().check(f.t, method, target, sent, body, a)
	if res.Close {
		if _, err := in.ReadByte(); err == nil {
			f.t.Error("the server said that it closes, and went on")
		}
		return a, false
	}
	// Whatever is left of the first request would be taken for the second.
	if _, err := io.WriteString(conn, "GET /v1/nothing HTTP/1.1\r\nHost: h\r\n\r\n"); err != nil {
		f.t.Fatal(err)
	}
	res, err = http.ReadResponse(in, nil)
	if err != nil {
		f.t.Fatalf("second request: %v", err)
	}
	_ = res.Body.Close()
	if res.StatusCode != http.StatusNotFound {
		f.t.Errorf("the second request was answered %d, want 404", res.StatusCode)
	}
	return a, true
}

// answer is what came back.
type answer struct {
	status int
	header http.Header
	raw    string
	json   map[string]any
}

func (f *fixture) do(c call) answer {
	f.t.Helper()
	res, err := f.try(f.t.Context(), c)
	if err != nil {
		f.t.Fatalf("%s %s: %v", c.method, c.target, err)
	}
	return res
}

func (f *fixture) try(ctx context.Context, c call) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, c.method, "http://"+f.addr, strings.NewReader(c.body))
	if err != nil {
		return answer{}, err
	}
	// The target goes out as it is written, dot segments included.
	req.URL.Opaque, req.URL.RawQuery, _ = strings.Cut(c.target, "?")
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json;charset=UTF-8")
	}
	for name, value := range c.headers {
		req.Header.Set(name, value)
		if value == "" {
			req.Header.Del(name)
		}
	}
	if !c.unsigned {
		f.sign(req, c)
	}
	if c.tamper != nil {
		c.tamper(req)
	}
	res, err := f.client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return answer{}, err
	}
	a := answer{status: res.StatusCode, header: res.Header, raw: string(raw)}
	if len(raw) > 0 && strings.HasPrefix(res.Header.Get("Content-Type"), "application/json") {
		if err := json.Unmarshal(raw, &a.json); err != nil {
			return a, fmt.Errorf("status %d, no JSON: %q", res.StatusCode, raw)
		}
	}
	theOpenAPI().check(f.t, c.method, c.target, req.Header, c.body, a)
	if got := a.header.Get("X-Content-Type-Options"); got != "nosniff" {
		f.t.Errorf("%s %s: X-Content-Type-Options: %q", c.method, c.target, got)
	}
	return a, nil
}

func (f *fixture) sign(req *http.Request, c call) {
	key, nonce, now := f.key, c.nonce, c.at
	if c.key != nil {
		key = *c.key
	}
	if nonce == "" {
		nonce = signature.NewNonce()
	}
	if now.IsZero() {
		now = f.clock.Now()
	}
	path, query, _ := strings.Cut(c.target, "?")
	r := signature.Request{Method: req.Method, Path: path, Query: query, Headers: []signature.Header{{Name: "Host", Value: f.addr}}}
	for name, values := range req.Header {
		for _, v := range values {
			r.Headers = append(r.Headers, signature.Header{Name: name, Value: v})
		}
	}
	for _, h := range signature.Sign(r, key, []byte(c.body), now, nonce) {
		req.Header.Set(h.Name, h.Value)
	}
}

func (f *fixture) get(target string) answer {
	f.t.Helper()
	return f.do(call{method: "GET", target: target})
}

func (f *fixture) send(method, target, body string) answer {
	f.t.Helper()
	return f.do(call{method: method, target: target, body: body})
}

// expect checks the status and returns the answer.
func (a answer) expect(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.raw)
	}
	return a
}

// fault checks that the answer is an error of this status and code, with all four
// members, and that its details are these codes and targets ("NullValue name").
func (a answer) fault(t *testing.T, status int, code string, details ...string) answer {
	t.Helper()
	a.expect(t, status)
	if a.json["code"] != code {
		t.Fatalf("code %v, want %s: %s", a.json["code"], code, a.raw)
	}
	if len(a.json) != 4 {
		t.Errorf("an error has code, message, target and detail: %s", a.raw)
	}
	return a.explained(t, details)
}

// refused checks the same of an error below /api/, which has an envelope.
func (a answer) refused(t *testing.T, status int, code string, details ...string) answer {
	t.Helper()
	a.expect(t, status)
	if a.json["code"] != float64(status) || a.json["status"] != code {
		t.Fatalf("code %v, status %v, want %d and %s: %s", a.json["code"], a.json["status"], status, code, a.raw)
	}
	if len(a.json) != 5 {
		t.Errorf("an error has code, status, message, target and detail: %s", a.raw)
	}
	return a.explained(t, details)
}

// explained checks what both kinds of errors have; nil stands for any details.
func (a answer) explained(t *testing.T, details []string) answer {
	t.Helper()
	if message, isText := a.json["message"].(string); !isText || message == "" {
		t.Errorf("no message: %s", a.raw)
	}
	if _, isText := a.json["target"].(string); !isText {
		t.Errorf("no target: %s", a.raw)
	}
	list, isList := a.json["detail"].([]any)
	if !isList {
		t.Fatalf("no detail: %s", a.raw)
	}
	var got []string
	for _, d := range list {
		m := d.(map[string]any)
		if len(m) != 3 || m["message"] == "" {
			t.Errorf("a detail has code, target and message: %s", a.raw)
		}
		got = append(got, fmt.Sprintf("%s %s", m["code"], m["target"]))
	}
	if details != nil && strings.Join(got, "; ") != strings.Join(details, "; ") {
		t.Errorf("details %q, want %q", got, details)
	}
	return a
}

// sound is a single object without its problems, of which it must have none.
func (a answer) sound(t *testing.T) string {
	t.Helper()
	rest, found := strings.CutSuffix(a.raw, `,"problems":[]}`)
	if !found {
		t.Errorf("it has problems, or does not tell: %s", a.raw)
	}
	return rest + "}"
}

func (a answer) str(t *testing.T, name string) string {
	t.Helper()
	s, isText := a.json[name].(string)
	if !isText {
		t.Fatalf("%s is no string: %s", name, a.raw)
	}
	return s
}

// codeOf is the error code of an answer, "" if it has none.
func codeOf(a answer) string {
	code, isCode := a.json["code"].(string)
	if !isCode && a.status >= 400 {
		code, _ = a.json["status"].(string)
	}
	return code
}

func detailOf(a answer) string {
	list, _ := a.json["detail"].([]any)
	if len(list) == 0 {
		return ""
	}
	return list[0].(map[string]any)["code"].(string)
}
