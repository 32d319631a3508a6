package limits

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"waypost/limits/limitstest"
)

// slowHorizon lets a write of the horizon wait.
type slowHorizon struct {
	memory
	begun, goOn chan struct{}
	slow        bool
}

func (h *slowHorizon) RaiseNonceHorizon(ctx context.Context, signer string, to time.Time) error {
	if h.slow {
		h.slow = false
		close(h.begun)
		<-h.goOn
	}
	return h.memory.RaiseNonceHorizon(ctx, signer, to)
}

// A request that was signed ahead counts once, also where Redis forgets its nonce before the horizon is
// written; and if it had forgotten in the same second before.
func TestForgetsBeforeTheHorizon(t *testing.T) {
	t.Parallel()
	for _, before := range []bool{false, true} {
		server := miniredis.RunT(t)
		at := time.Now()
		server.SetTime(at)
		client := connect(t, server.Addr())
		h := &slowHorizon{begun: make(chan struct{}), goOn: make(chan struct{})}
		a, b := NewNonces(client, h, quiet), NewNonces(client, h, quiet)
		if _, _, err := a.Use(t.Context(), "app_1", "first", at); err != nil {
			t.Fatal(err)
		}
		if before {
			server.FlushAll()
			if _, err := b.Begin(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		signed := at.Add(200 * time.Second)
		h.slow = true
		got := make(chan bool)
		go func() {
			unused, _, err := a.Use(t.Context(), "app_1", "captured", signed)
			if err != nil {
				t.Error(err)
			}
			got <- unused
		}()
		<-h.begun
		server.FlushAll()
		if _, err := b.Begin(t.Context()); err != nil { // any request at another gateway
			t.Fatal(err)
		}
		close(h.goOn)
		first := <-got
		second, since, err := b.Use(t.Context(), "app_1", "captured", signed)
		if err != nil || first && second {
			t.Errorf("one nonce counted: %t, then %t (since %v, %v)", first, second, since, err)
		}
	}
}

// A signer whose clock is ahead waits for its own horizon after Redis has forgotten, and nobody else does,
// in this process and in another one.
func TestHorizonsOfSigners(t *testing.T) {
	t.Parallel()
	test := func(t *testing.T, client *redis.Client) {
		h := &memory{}
		a, b := NewNonces(client, h, quiet), NewNonces(client, h, quiet)
		use := func(n *Nonces, signer, nonce string, signed time.Time) (bool, time.Time) {
			t.Helper()
			unused, since, err := n.Use(t.Context(), signer, uniqueKey(t)+nonce, signed)
			if err != nil {
				t.Fatal(err)
			}
			return unused, since
		}
		if _, err := a.Begin(t.Context()); err != nil {
			t.Fatal(err)
		}
		now := time.Now()
		if unused, _ := use(a, "app_fast", "1", now.Add(200*time.Second)); !unused {
			t.Fatal("refused before")
		}
		use(a, "app_right", "2", now)
		if err := client.FlushAll(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		for _, n := range []*Nonces{a, b} {
			if unused, since := use(n, "app_fast", "3", now.Add(205*time.Second)); unused || since.Before(now.Add(209*time.Second)) {
				t.Errorf("the fast clock: %t, since %v", unused, since)
			}
			if unused, since := use(n, "app_right", fmt.Sprintf("4%p", n), now.Add(20*time.Second)); !unused {
				t.Errorf("the right clock is refused since %v", since)
			}
			if unused, _ := use(n, "app_fast", fmt.Sprintf("5%p", n), now.Add(212*time.Second)); !unused {
				t.Error("the fast clock is refused after its horizon")
			}
		}
	}
	t.Run("miniredis", func(t *testing.T) {
		t.Parallel()
		test(t, connect(t, miniredis.RunT(t).Addr()))
	})
	// One that no other test uses: it forgets.
	t.Run("redis-server", func(t *testing.T) {
		t.Parallel()
		client := redis.NewClient(ClientOptions(&redis.Options{Network: "unix", Addr: limitstest.StartRedis(t).Socket}))
		t.Cleanup(func() { _ = client.Close() })
		test(t, client)
	})
}

// An epoch names so many signers; what holds for others beside them holds for all.
func TestManySignersAhead(t *testing.T) {
	t.Parallel()
	at := time.Unix(1767225600, 0)
	e, horizons := epoch{Until: at.Unix()}, map[string]time.Time{"": at, "app_past": at.Add(-time.Hour)}
	for i := range maxAhead + 5 {
		horizons[fmt.Sprint("app_", i)] = at.Add(time.Duration(i+1) * time.Second)
	}
	e.nameAhead(horizons)
	if len(e.Ahead) != maxAhead || e.Until != at.Unix()+5 {
		t.Errorf("%d signers, until %d", len(e.Ahead), e.Until-at.Unix())
	}
	for signer, horizon := range horizons {
		if e.of(signer) < horizon.Unix() {
			t.Errorf("%s is refused up to %d only", signer, e.of(signer))
		}
	}
}

// between runs something once between the first SET of a pipeline and the others, as Redis itself may do:
// a pipeline is no transaction.
type between struct{ do func() }

func (b *between) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (b *between) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }
func (b *between) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		do := b.do
		if do == nil {
			return next(ctx, cmds)
		}
		b.do = nil
		i := slices.IndexFunc(cmds, func(c redis.Cmder) bool { return c.Name() == "set" }) + 1
		if err := next(ctx, cmds[:i]); err != nil {
			return err
		}
		do()
		return next(ctx, cmds[i:])
	}
}

// replayed is two processes that share a Redis, of which the first has used a nonce.
func replayed(t *testing.T, h Horizon, at time.Time) (server *miniredis.Miniredis, hook *between, a, b *Nonces) {
	t.Helper()
	server, hook = miniredis.RunT(t), &between{}
	server.SetTime(at)
	client := connect(t, server.Addr())
	client.AddHook(hook)
	a, b = NewNonces(client, h, quiet), NewNonces(connect(t, server.Addr()), h, quiet)
	if _, _, err := a.Use(t.Context(), "app_1", "first", at); err != nil {
		t.Fatal(err)
	}
	return server, hook, a, b
}

// Redis forgets a nonce that was signed ahead in the round trip that marks it.
func TestForgetsInARoundTrip(t *testing.T) {
	t.Parallel()
	at := time.Now()
	server, hook, a, b := replayed(t, &memory{}, at)
	signed := at.Add(200 * time.Second)
	hook.do = server.FlushAll
	first, _, err := a.Use(t.Context(), "app_1", "captured", signed)
	if err != nil {
		t.Fatal(err)
	}
	second, _, err := b.Use(t.Context(), "app_1", "captured", signed)
	if err != nil || first && second {
		t.Errorf("one nonce counted: %t, then %t (%v)", first, second, err)
	}
}

// Redis forgets while a request that was signed ahead waits for the horizon that another one raises.
func TestForgetsWhileAnotherRaises(t *testing.T) {
	t.Parallel()
	at := time.Now()
	h := &slowHorizon{begun: make(chan struct{}), goOn: make(chan struct{})}
	server, _, a, b := replayed(t, h, at)
	signed := at.Add(200 * time.Second)
	h.slow = true
	use := func(nonce string) chan bool {
		got := make(chan bool, 1)
		go func() {
			unused, _, err := a.Use(t.Context(), "app_1", nonce, signed)
			if err != nil {
				t.Error(err)
			}
			got <- unused
		}()
		return got
	}
	other := use("other")
	<-h.begun
	captured := use("captured")
	for !a.mirror.has(fingerprintOf(nonceKey("app_1", "captured")), time.Now()) { // its answer is read
		time.Sleep(time.Millisecond)
	}
	server.FlushAll()
	if _, err := b.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	close(h.goOn)
	<-other
	first := <-captured
	second, _, err := b.Use(t.Context(), "app_1", "captured", signed)
	if err != nil || first && second {
		t.Errorf("one nonce counted: %t, then %t (%v)", first, second, err)
	}
}

// slowRead lets a read of the horizons wait after it has read.
type slowRead struct {
	memory
	begun, goOn chan struct{}
	slow        bool
}

func (h *slowRead) NonceHorizons(ctx context.Context) (map[string]time.Time, error) {
	got, err := h.memory.NonceHorizons(ctx)
	if h.slow {
		h.slow = false
		close(h.begun)
		<-h.goOn
	}
	return got, err
}

// Redis forgets twice while one gateway begins an epoch, and another one accepts between.
func TestForgetsTwiceWhileBeginning(t *testing.T) {
	t.Parallel()
	at := time.Now()
	h := &slowRead{begun: make(chan struct{}), goOn: make(chan struct{})}
	server, _, a, b := replayed(t, h, at)
	server.FlushAll()
	h.slow = true
	done := make(chan error, 1)
	go func() {
		_, err := b.Begin(t.Context())
		done <- err
	}()
	<-h.begun
	if _, err := a.Begin(t.Context()); err != nil {
		t.Fatal(err)
	}
	signed := at.Add(200 * time.Second)
	first, _, err := a.Use(t.Context(), "app_1", "captured", signed)
	if err != nil || !first {
		t.Fatal(first, err)
	}
	server.FlushAll()
	close(h.goOn)
	<-done // it may fail: the next request begins another epoch
	if second, since, err := b.Use(t.Context(), "app_1", "captured", signed); err != nil || second {
		t.Errorf("one nonce counted twice (since %v, %v)", since, err)
	}
}

// Fewer evictions than were known are evictions since the statistics were reset.
func TestEvictionsAfterReset(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	e := epochs{client: connect(t, server.Addr()), horizon: &memory{}, log: quiet}
	known := `{"id":"A","until":1,"run":"r","evicted":1000}`
	if err := server.Set(epochKey, known); err != nil {
		t.Fatal(err)
	}
	said := func(text string) *redis.StringCmd {
		cmd := redis.NewStringCmd(t.Context())
		cmd.SetVal(text)
		return cmd
	}
	l := look{redis.NewTimeCmd(t.Context()), said(known), said("run_id:r\r\n"), said("evicted_keys:900\r\n")}
	if got, err := e.check(t.Context(), l); err != nil || got.ID == "A" {
		t.Errorf("the epoch goes on (%v)", err)
	}
}
