package limits

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// ringer is a bell that somebody carries to Redis.
func ringer(t *testing.T, client *redis.Client, name string) *Bell {
	t.Helper()
	b := NewBell(client, name)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); b.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return b
}

// Of those who listen in other processes one hears a ring, and rings of one bell are
// not heard at another one.
func TestBellIsHeardOnce(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, client *redis.Client) {
		name := uniqueKey(t)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		listening, stop := context.WithCancel(ctx)
		var heard atomic.Int64
		first := make(chan struct{}, 8)
		var listeners sync.WaitGroup
		for range 3 {
			b := NewBell(client, name)
			b.wait = time.Minute
			listeners.Go(func() {
				for listening.Err() == nil {
					if rung, _ := b.Await(listening); rung {
						heard.Add(1)
						first <- struct{}{}
					}
				}
			})
		}
		ringer(t, client, name+"/other").Ring()
		ringer(t, client, name).Ring()
		select {
		case <-first:
		case <-ctx.Done():
			t.Fatal("nobody has heard the bell")
		}
		// A second ring is heard after the first one has had its time to be heard twice.
		ringer(t, client, name).Ring()
		select {
		case <-first:
		case <-ctx.Done():
			t.Fatal("nobody has heard the second ring")
		}
		stop()
		began := time.Now()
		listeners.Wait()
		if n := heard.Load(); n != 2 {
			t.Errorf("2 rings were heard %d times", n)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("those who listened left after %s", took)
		}
	})
}

// A bell that nobody hears remembers some rings, not all of them.
func TestBellForgets(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, client *redis.Client) {
		name := uniqueKey(t)
		b := ringer(t, client, name)
		for left := int64(0); left < bellRings; {
			b.Ring()
			var err error
			if left, err = client.LLen(t.Context(), b.key).Result(); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			b.Ring()
			if left, err := client.LLen(t.Context(), b.key).Result(); err != nil || left > bellRings+1 { // between push and trim
				t.Fatalf("%d rings are kept, %v", left, err)
			}
		}
		if rung, err := NewBell(client, name).Await(t.Context()); !rung || err != nil {
			t.Errorf("a ring of before is not heard: %t, %v", rung, err)
		}
	})
}

// Without Redis ringing blocks nobody and listening fails at once; both work again
// when it is back.
func TestBellOutlivesRedis(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	addr := server.Addr()
	client := connect(t, addr)
	b := ringer(t, client, "b")
	server.Close()
	for range 100 {
		b.Ring()
	}
	for range 2 * tolerated {
		if rung, err := b.Await(t.Context()); rung || err == nil {
			t.Errorf("rung %t, error %v; want an error", rung, err)
		}
	}
	if calls, outages := b.Fallbacks(); calls < 2*tolerated || outages != 1 {
		t.Errorf("%d calls without Redis in %d outages are counted", calls, outages)
	}
	again := miniredis.NewMiniRedis() // one that was closed answers no blocking calls
	if err := again.StartAddr(addr); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(again.Close)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for {
		b.Ring()
		rung, err := b.Await(ctx)
		if rung {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("the bell is not heard any more: %v", err)
		}
	}
}
