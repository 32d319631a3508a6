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

// sender is a signal whose notices are carried to Redis.
func sender(t *testing.T, client *redis.Client, name string) *Signal {
	t.Helper()
	s := NewSignal(client, name)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); s.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	return s
}

// Of the processes that wait one gets a notice, and a notice of one signal is not got from
// another.
func TestSignalWakesOne(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, client *redis.Client) {
		name := uniqueKey(t)
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
		defer cancel()
		listening, stop := context.WithCancel(ctx)
		var received atomic.Int64
		first := make(chan struct{}, 8)
		var listeners sync.WaitGroup
		for range 3 {
			s := NewSignal(client, name)
			s.wait = time.Minute
			listeners.Go(func() {
				for listening.Err() == nil {
					if noticed, _ := s.Await(listening); noticed {
						received.Add(1)
						first <- struct{}{}
					}
				}
			})
		}
		sender(t, client, name+"/other").Send()
		sender(t, client, name).Send()
		select {
		case <-first:
		case <-ctx.Done():
			t.Fatal("no process got the notice")
		}
		// A second notice comes after the first one has had its time to be got twice.
		sender(t, client, name).Send()
		select {
		case <-first:
		case <-ctx.Done():
			t.Fatal("no process got the second notice")
		}
		stop()
		began := time.Now()
		listeners.Wait()
		if n := received.Load(); n != 2 {
			t.Errorf("2 notices were got %d times", n)
		}
		if took := time.Since(began); took > 30*time.Second {
			t.Errorf("the processes that waited left after %s", took)
		}
	})
}

// Redis keeps some notices that no process waits for, not all of them.
func TestSignalKeepsFewNotices(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, client *redis.Client) {
		name := uniqueKey(t)
		s := sender(t, client, name)
		for left := int64(0); left < maxNotices; {
			s.Send()
			var err error
			if left, err = client.LLen(t.Context(), s.key).Result(); err != nil {
				t.Fatal(err)
			}
		}
		for range 20 {
			s.Send()
			if left, err := client.LLen(t.Context(), s.key).Result(); err != nil || left > maxNotices+1 { // between push and trim
				t.Fatalf("%d notices are kept, %v", left, err)
			}
		}
		if noticed, err := NewSignal(client, name).Await(t.Context()); !noticed || err != nil {
			t.Errorf("a notice of before is lost: %t, %v", noticed, err)
		}
	})
}

// Without Redis giving a notice never blocks and waiting for one fails at once; both work again
// when it is back.
func TestSignalOutlivesRedis(t *testing.T) {
	t.Parallel()
	server := miniredis.RunT(t)
	addr := server.Addr()
	client := connect(t, addr)
	s := sender(t, client, "b")
	server.Close()
	for range 100 {
		s.Send()
	}
	for range 2 * tolerated {
		if noticed, err := s.Await(t.Context()); noticed || err == nil {
			t.Errorf("noticed %t, error %v; want an error", noticed, err)
		}
	}
	if calls, outages := s.Fallbacks(); calls < 2*tolerated || outages != 1 {
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
		s.Send()
		noticed, err := s.Await(ctx)
		if noticed {
			return
		}
		if ctx.Err() != nil {
			t.Fatalf("no notice comes any more: %v", err)
		}
	}
}
