package limits

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// The time-outs are for a Redis that is away, not for a machine that runs many tests at
// once.
func init() { CallTime = time.Minute }

func connect(t *testing.T, addr string) *redis.Client {
	t.Helper()
	client := redis.NewClient(ClientOptions(&redis.Options{Addr: addr}))
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// eachRedis runs the test against the stand-in and, where there is one, a real
// server.
func eachRedis(t *testing.T, test func(t *testing.T, client *redis.Client)) {
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, connect(t, miniredis.RunT(t).Addr()))
	})
	t.Run("redis-server", func(t *testing.T) {
		t.Parallel()
		raw := os.Getenv("WAYPOST_TEST_REDIS_URL")
		if raw == "" {
			if os.Getenv("WAYPOST_TEST_REQUIRE_SERVERS") == "1" {
				t.Fatal("WAYPOST_TEST_REDIS_URL is not set")
			}
			t.Skip("set WAYPOST_TEST_REDIS_URL to a redis-server to run this")
		}
		options, err := redis.ParseURL(raw)
		if err != nil {
			t.Fatal(err)
		}
		client := redis.NewClient(ClientOptions(options))
		t.Cleanup(func() { _ = client.Close() })
		test(t, client)
	})
}

// uniqueKey keeps runs on one server apart.
func uniqueKey(t *testing.T) string { return fmt.Sprintf("%s/%d", t.Name(), time.Now().UnixNano()) }

// memory is a horizon of one process.
type memory struct {
	mu sync.Mutex
	at map[string]time.Time
}

func (m *memory) NonceHorizons(context.Context) (map[string]time.Time, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return maps.Clone(m.at), nil
}

func (m *memory) RaiseNonceHorizon(_ context.Context, signer string, to time.Time) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.at == nil {
		m.at = map[string]time.Time{}
	}
	if to.After(m.at[signer]) {
		m.at[signer] = to
	}
	return nil
}

var quiet = slog.New(slog.DiscardHandler)

type testClock struct{ ns atomic.Int64 }

func newTestClock() *testClock {
	c := &testClock{}
	c.ns.Store(time.Unix(1767225600, 0).UnixNano())
	return c
}

func (c *testClock) Now() time.Time          { return time.Unix(0, c.ns.Load()) }
func (c *testClock) advance(d time.Duration) { c.ns.Add(int64(d)) }

func TestUseOnce(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, client *redis.Client) {
		key := uniqueKey(t)
		a, b := NewNonces(client, &memory{}, quiet), NewNonces(client, &memory{}, quiet) // two processes
		for i, n := range []*Nonces{a, b, a, b} {
			unused, _, err := n.Use(t.Context(), "app_1", key, time.Now())
			if err != nil || unused != (i == 0) {
				t.Errorf("call %d: unused %t, %v", i, unused, err)
			}
		}
		ttl, err := client.TTL(t.Context(), "waypost:nonce:app_1:"+key).Result()
		if err != nil || ttl <= 650*time.Second || ttl > 660*time.Second {
			t.Errorf("kept for %s, %v; want 660 s", ttl, err)
		}
		if unused, _, err := a.Use(t.Context(), "app_1", key+"'", time.Now()); err != nil || !unused {
			t.Errorf("another nonce: unused %t, %v", unused, err)
		}
	})
}

func TestUseConcurrently(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, client *redis.Client) {
		// The time-outs are for a Redis that is away, not for a machine that runs many
		// tests at once.
		processes := []*Nonces{withLongTimeouts(t, client), withLongTimeouts(t, client), withLongTimeouts(t, client)}
		for round := range 3 {
			key := fmt.Sprintf("%s/%d", uniqueKey(t), round)
			var unused atomic.Int64
			start := make(chan struct{})
			var group sync.WaitGroup
			for i := range 200 {
				group.Go(func() {
					<-start
					ok, _, err := processes[i%len(processes)].Use(t.Context(), "app_1", key, time.Now())
					if err != nil {
						t.Error(err)
					}
					if ok {
						unused.Add(1)
					}
				})
			}
			close(start)
			group.Wait()
			if n := unused.Load(); n != 1 {
				t.Errorf("round %d: %d calls were told that the nonce is unused, want 1", round, n)
			}
		}
	})
}

func withLongTimeouts(t *testing.T, like *redis.Client) *Nonces {
	t.Helper()
	o := ClientOptions(&redis.Options{Addr: like.Options().Addr, Username: like.Options().Username, Password: like.Options().Password, DB: like.Options().DB})
	o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = time.Minute, time.Minute, time.Minute, time.Minute
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	return NewNonces(client, &memory{}, quiet)
}

func TestNonceIsForgottenAfterItsLifetime(t *testing.T) {
	t.Parallel()
	server, clock := miniredis.RunT(t), newTestClock()
	n := newNonces(connect(t, server.Addr()), &memory{}, quiet, clock.Now, 10)
	for _, step := range []struct {
		advance time.Duration
		unused  bool
	}{{0, true}, {659 * time.Second, false}, {2 * time.Second, true}} {
		clock.advance(step.advance)
		server.FastForward(step.advance)
		if unused, _, err := n.Use(t.Context(), "app_1", "key", time.Now()); err != nil || unused != step.unused {
			t.Errorf("after %s more: unused %t, %v", step.advance, unused, err)
		}
	}
}

// An outage from beginning to end: nothing that was used counts again, on either
// side of it.
func TestRedisAwayAndBack(t *testing.T) {
	t.Parallel()
	server, clock := miniredis.RunT(t), newTestClock()
	n := newNonces(connect(t, server.Addr()), &memory{}, quiet, clock.Now, 10)
	use := func(key string, want bool) {
		t.Helper()
		if unused, _, err := n.Use(t.Context(), "app_1", key, time.Now()); err != nil || unused != want {
			t.Errorf("Use(%s): unused %t, %v; want %t", key, unused, err, want)
		}
	}
	local := func(key string, want bool) {
		t.Helper()
		if unused, err := n.UseLocal("app_1", key); err != nil || unused != want {
			t.Errorf("UseLocal(%s): unused %t, %v; want %t", key, unused, err, want)
		}
	}
	use("before", true)
	server.Close()
	for i := range tolerated {
		if unused, _, err := n.Use(t.Context(), "app_1", "during", time.Now()); err == nil || unused || errors.Is(err, ErrAway) {
			t.Errorf("try %d without Redis: unused %t, %v", i, unused, err)
		}
	}
	if _, _, err := n.Use(t.Context(), "app_1", "during", time.Now()); !errors.Is(err, ErrAway) {
		t.Errorf("after %d failures: %v, want ErrAway without another try", tolerated, err)
	}
	local("during", true)
	local("during", false)
	local("before", false)
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := n.Use(t.Context(), "app_1", "after", time.Now()); !errors.Is(err, ErrAway) {
		t.Errorf("before the next probe: %v", err)
	}
	clock.advance(probeEvery)
	use("after", true)
	use("during", false)
	use("before", false)
	local("after", false)
	server.FlushAll() // a Redis that came back empty
	use("after", false)
}

// The real clock and a real server that stops: calls heal without any help.
func TestHealsByItself(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	n := NewNonces(connect(t, server.Addr()), &memory{}, quiet)
	server.Close()
	for i := range 30 {
		if _, _, err := n.Use(t.Context(), "app_1", fmt.Sprint("away", i), time.Now()); err == nil {
			t.Fatal("a call without Redis succeeded")
		}
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Minute)
	for i := 0; ; i++ {
		if unused, _, err := n.Use(t.Context(), "app_1", fmt.Sprint("back", i), time.Now()); err == nil {
			if !unused {
				t.Error("a new nonce is called used")
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatal("still failing a minute after Redis came back")
		}
	}
}

// A Redis that accepts connections and never answers costs the first callers the
// time-out; the others are refused at once.
func TestSilentRedis(t *testing.T) {
	t.Parallel()
	var listen net.ListenConfig
	l, err := listen.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { _ = c.Close() })
		}
	}()
	t.Cleanup(func() { _ = l.Close() })
	clock := newTestClock()
	var dialled atomic.Int64
	o := ClientOptions(&redis.Options{Addr: l.Addr().String()})
	o.ReadTimeout = 500 * time.Millisecond
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dialled.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	client := redis.NewClient(o)
	t.Cleanup(func() { _ = client.Close() })
	n := newNonces(client, &memory{}, quiet, clock.Now, 10)
	began := time.Now()
	for range tolerated {
		if _, _, err := n.Use(t.Context(), "app_1", "key", time.Now()); err == nil {
			t.Fatal("a silent Redis answered")
		}
	}
	if took := time.Since(began); took > 20*time.Second {
		t.Errorf("%d callers waited %s", tolerated, took)
	}
	before := dialled.Load()
	for range 1000 {
		if _, _, err := n.Use(t.Context(), "app_1", "key", time.Now()); !errors.Is(err, ErrAway) {
			t.Fatalf("got %v, want ErrAway", err)
		}
	}
	if more := dialled.Load() - before; more > 0 {
		t.Errorf("%d more connections while Redis is known to be away", more)
	}
}

// A caller that gives up does not make Redis look away.
func TestCanceledCaller(t *testing.T) {
	t.Parallel()
	n := NewNonces(connect(t, miniredis.RunT(t).Addr()), &memory{}, quiet)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	n.asking = true // somebody else's round trip, which begins once this caller has left
	if _, _, err := n.Use(ctx, "app_1", "key", time.Now()); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	n.askAll()
	if unused, _, err := n.Use(t.Context(), "app_1", "other", time.Now()); err != nil || !unused {
		t.Errorf("unused %t, %v", unused, err)
	}
}

func TestCachesAreBounded(t *testing.T) {
	t.Parallel()
	server, clock := miniredis.RunT(t), newTestClock()
	n := newNonces(connect(t, server.Addr()), &memory{}, quiet, clock.Now, 100)
	for i := range 1000 {
		if unused, _, err := n.Use(t.Context(), "app_1", fmt.Sprint("redis", i), time.Now()); err != nil || !unused {
			t.Fatalf("%t, %v", unused, err)
		}
	}
	if len(n.mirror.members) != 100 || len(n.mirror.queue) > 210 {
		t.Errorf("the mirror holds %d members in a queue of %d", len(n.mirror.members), len(n.mirror.queue))
	}
	for i := range 100 {
		if unused, err := n.UseLocal("app_1", fmt.Sprint("local", i)); err != nil || !unused {
			t.Fatalf("%t, %v", unused, err)
		}
	}
	if _, err := n.UseLocal("app_1", "one more"); !errors.Is(err, ErrFull) {
		t.Errorf("a full cache forgot a nonce: %v", err)
	}
	if unused, err := n.UseLocal("app_1", "local0"); err != nil || unused {
		t.Errorf("a full cache: unused %t, %v", unused, err)
	}
	clock.advance(nonceLifetime)
	if unused, err := n.UseLocal("app_1", "one more"); err != nil || !unused {
		t.Errorf("after the lifetime: unused %t, %v", unused, err)
	}
	if len(n.local.members) != 1 {
		t.Errorf("%d members are left", len(n.local.members))
	}
}

// A round trip that fails is one failure, however many share it: it takes several
// in a row until Redis counts as away.
func TestNoncesOfABatchFailOnce(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	n := newNonces(connect(t, server.Addr()), &memory{}, quiet, newTestClock().Now, 100)
	server.SetError("ERR broken")
	for try := 1; try <= tolerated; try++ {
		if !n.gate.enter() {
			t.Fatalf("away after %d failures", try-1)
		}
		n.asking = true
		for i := range 10 {
			n.waiting = append(n.waiting, &asked{key: fmt.Sprint(try, i), done: make(chan struct{})})
		}
		n.askAll()
	}
	if n.gate.enter() {
		t.Error("not away after as many failures as are tolerated")
	}
	if calls, outages := n.Fallbacks(); calls != 10*tolerated+1 || outages != 1 {
		t.Errorf("%d calls failed in %d outages", calls, outages)
	}
}
