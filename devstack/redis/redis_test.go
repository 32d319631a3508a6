package redis_test

import (
	"context"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"waypost/devstack/redis"
)

func TestKeysExpireByTheClock(t *testing.T) {
	t.Parallel()
	s, err := redis.Start("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr()})
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

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
	for {
		n, err := client.Exists(ctx, "short").Result()
		if err != nil {
			t.Fatal(err)
		}
		if n == 0 {
			break
		}
	}
	if lived := time.Since(began); lived < life/2 {
		t.Errorf("the key lived %s of %s", lived, life)
	}
	if n, err := client.Exists(ctx, "long", "forever").Result(); err != nil || n != 2 {
		t.Errorf("the other keys: %d of 2, %v", n, err)
	}

	s.Stop()
	if err := client.Ping(ctx).Err(); err == nil {
		t.Error("it answers after Stop")
	}
	again, err := redis.Start(s.Addr())
	if err != nil {
		t.Fatalf("the address is not free after Stop: %v", err)
	}
	again.Stop()
}
