package limits

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// However many take at once, in two processes, no more are allowed than the limit
// says, and nearly as many.
func TestLeasesHoldTheLimit(t *testing.T) {
	t.Parallel()
	eachSource(t, func(t *testing.T, s *timed) {
		const perSecond, burst = 1000, 500
		one, two := NewLeases(s.Rates), NewLeases(s.Rates)
		count := func() int64 {
			var allowed atomic.Int64
			var all sync.WaitGroup
			for i := range 8 {
				all.Go(func() {
					leases := one
					if i%2 == 1 {
						leases = two
					}
					for range 200 {
						if leases.Take(t.Context(), "key", perSecond, burst).Allowed == 1 {
							allowed.Add(1)
						}
					}
				})
			}
			all.Wait()
			return allowed.Load()
		}
		if got := count(); got > burst || got < burst-2*burst/leasePart {
			t.Errorf("%d of a burst of %d were allowed", got, burst)
		}
		s.advance(100 * time.Millisecond)
		if got := count(); got > 100+2*burst/leasePart || got < 100-2*burst/leasePart {
			t.Errorf("%d were allowed after a tenth of a second at %d/s", got, perSecond)
		}
	})
}

// A small limit is counted to the token, and what is told is true.
func TestLeasesOfSmallLimits(t *testing.T) {
	t.Parallel()
	eachSource(t, func(t *testing.T, s *timed) {
		leases := NewLeases(s.Rates)
		for i := range 3 {
			if got := leases.Take(t.Context(), "key", 1, 3); got.Allowed != 1 || got.Remaining != 2-i || got.RetryAfter != 0 {
				t.Fatalf("request %d: %+v", i, got)
			}
		}
		if got := leases.Take(t.Context(), "key", 1, 3); got.Allowed != 0 || got.RetryAfter <= 0 || got.RetryAfter > time.Second+slack {
			t.Fatalf("%+v", got)
		}
		s.advance(time.Second)
		if got := leases.Take(t.Context(), "key", 1, 3); got.Allowed != 1 || got.Remaining != 0 {
			t.Fatalf("after a second: %+v", got)
		}
		// Another limit of the same key is another bucket.
		if got := leases.Take(t.Context(), "key", 1, 4); got.Allowed != 1 {
			t.Fatalf("%+v", got)
		}
	})
}

// Of a high limit, few requests ask Redis, and Remaining counts down by one.
func TestLeasesSaveCalls(t *testing.T) {
	t.Parallel()
	eachSource(t, func(t *testing.T, s *timed) {
		if s.server == nil {
			return
		}
		leases := NewLeases(s.Rates)
		leases.Take(t.Context(), "warm", 10_000, 20_000)
		before := s.server.CommandCount()
		for i := range 1000 {
			if got := leases.Take(context.Background(), "key", 10_000, 20_000); got.Remaining != 20_000-1-i {
				t.Fatalf("request %d: %+v", i, got)
			}
		}
		if calls := s.server.CommandCount() - before; calls > 50 {
			t.Errorf("1000 requests took %d commands", calls)
		}
		// What is not used in time is taken anew.
		s.advance(2 * time.Second)
		if got := leases.Take(t.Context(), "key", 10_000, 20_000); got.Remaining != 20_000-1 {
			t.Errorf("%+v", got)
		}
	})
}
