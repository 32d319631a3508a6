package limits

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
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
	eachRedis(t, func(t *testing.T, client *redis.Client) {
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
		now := time.Now()
		if unused, _ := use(a, "app_fast", "1", now.Add(200*time.Second)); !unused {
			t.Fatal("refused before")
		}
		use(a, "app_right", "2", now)
		if err := client.Del(t.Context(), epochKey).Err(); err != nil { // alone: others use this server too
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
