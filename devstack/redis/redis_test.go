package redis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// start starts a stand-in and a client of it, for a minute.
func start(tb testing.TB) (context.Context, *Server, *goredis.Client) {
	tb.Helper()
	s, err := Start("127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr()})
	tb.Cleanup(func() { _ = client.Close() })
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	tb.Cleanup(cancel)
	return ctx, s, client
}

// gone waits until a key is gone.
func gone(ctx context.Context, t *testing.T, client *goredis.Client, key string) {
	t.Helper()
	for {
		n, err := client.Exists(ctx, key).Result()
		if err != nil {
			t.Fatalf("wait for the end of %s: %v", key, err)
		}
		if n == 0 {
			return
		}
	}
}

func TestKeysExpireByTheClock(t *testing.T) {
	t.Parallel()
	ctx, s, client := start(t)
	began := time.Now()
	const life = 400 * time.Millisecond
	for key, ttl := range map[string]time.Duration{"short": life, "long": time.Hour, "forever": 0} {
		if err := client.Set(ctx, key, "x", ttl).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if again, err := client.SetNX(ctx, "long", "y", life).Result(); err != nil || again {
		t.Fatalf("SET NX of a living key: %v, %v", again, err)
	}
	gone(ctx, t, client, "short")
	if lived := time.Since(began); lived < life {
		t.Errorf("the key lived %s of %s", lived, life)
	}
	if n, err := client.Exists(ctx, "long", "forever").Result(); err != nil || n != 2 {
		t.Errorf("the other keys: %d of 2, %v", n, err)
	}

	s.Stop()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("it answers after Stop")
	}
	again, err := Start(s.Addr())
	if err != nil {
		t.Fatalf("the address is not free after Stop: %v", err)
	}
	again.Stop()
}

// The last command that gave a key an end counts, or took it away: also one of a
// script. One that found the key there and left it does not.
func TestLastEndCounts(t *testing.T) {
	t.Parallel()
	ctx, s, client := start(t)
	defer s.Stop()
	set := goredis.NewScript(`return redis.call('SET', KEYS[1], 'x', 'PX', ARGV[1])`)
	const short, long = 300 * time.Millisecond, time.Hour
	for _, err := range []error{
		set.Run(ctx, client, []string{"by script"}, short.Milliseconds()).Err(),
		client.Set(ctx, "shortened", "x", long).Err(), client.Expire(ctx, "shortened", time.Second).Err(),
		client.SetNX(ctx, "held", "x", short).Err(),
		client.Set(ctx, "deleted", "x", long).Err(), client.Del(ctx, "deleted").Err(), client.SetNX(ctx, "deleted", "x", short).Err(),
		client.Set(ctx, "renamed from", "x", short).Err(), client.Rename(ctx, "renamed from", "renamed").Err(),

		client.Set(ctx, "lengthened", "x", short).Err(), set.Run(ctx, client, []string{"lengthened"}, long.Milliseconds()).Err(),
		client.Set(ctx, "overwritten", "x", short).Err(), client.Set(ctx, "overwritten", "y", 0).Err(),
		client.Set(ctx, "persisted", "x", short).Err(), client.Persist(ctx, "persisted").Err(),
		client.Set(ctx, "short", "x", short).Err(), client.Del(ctx, "short").Err(), client.SetNX(ctx, "short", "x", long).Err(),
		client.RPush(ctx, "list", "x").Err(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for { // who waits for a lock does not keep it locked
		set, err := client.SetNX(ctx, "held", "y", long).Result()
		if err != nil {
			t.Fatal(err)
		}
		if set {
			break
		}
	}
	for _, key := range []string{"by script", "shortened", "deleted", "renamed"} {
		gone(ctx, t, client, key)
	}
	for _, key := range []string{"held", "lengthened", "overwritten", "persisted", "short", "list"} {
		if n, err := client.Exists(ctx, key).Result(); err != nil || n != 1 {
			t.Errorf("%s: %d, %v; want that it lives", key, n, err)
		}
	}
	for key, want := range map[string]time.Duration{"list": -1, "persisted": -1, "unknown": -2} {
		if left, err := client.PTTL(ctx, key).Result(); err != nil || left != want {
			t.Errorf("%s lives on for %d, %v; want %d", key, left, err, want)
		}
	}
	if left, err := client.PTTL(ctx, "lengthened").Result(); err != nil || left <= 0 || left >= long {
		t.Errorf("the key lives on for %s of %s, %v", left, long, err)
	}
}

// Keys that end are forgotten, those that live stay, and both are answered meanwhile.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	ctx, s, client := start(t)
	defer s.Stop()
	const n, batch = 20_000, 1000
	for from := 0; from < n; from += batch {
		if _, err := client.Pipelined(ctx, func(p goredis.Pipeliner) error {
			for i := from; i < from+batch; i++ {
				p.SetNX(ctx, fmt.Sprintf("ends/%d", i), 1, time.Second)
				p.SetNX(ctx, fmt.Sprintf("lives/%d", i), 1, 660*time.Second)
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
	for left := int64(2 * n); left > n; {
		if set, err := client.SetNX(ctx, "lives/0", 1, time.Hour).Result(); err != nil || set {
			t.Fatalf("a key that lives: %t, %v", set, err)
		}
		var err error
		if left, err = client.DBSize(ctx).Result(); err != nil || left < n {
			t.Fatalf("%d keys, %v", left, err)
		}
	}
	s.mini.Lock()
	defer s.mini.Unlock()
	if len(s.versions) != n || len(s.ends.of) != n || len(s.ends.queue) != n {
		t.Errorf("of %d keys %d versions and %d ends are kept", n, len(s.versions), len(s.ends.of))
	}
}

// What would be wrong is refused.
func TestRefused(t *testing.T) {
	t.Parallel()
	ctx, s, client := start(t)
	defer s.Stop()
	for want, err := range map[string]error{
		"MULTI":        client.Do(ctx, "multi").Err(),
		"SWAPDB":       client.Do(ctx, "SWAPDB", 0, 1).Err(),
		"one database": client.Do(ctx, "SELECT", 1).Err(),
	} {
		var refused goredis.Error
		if !errors.As(err, &refused) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v; want a word on %s", err, want)
		}
	}
	if err := client.Do(ctx, "SELECT", 0).Err(); err != nil {
		t.Error(err)
	}
}
