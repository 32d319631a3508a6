package limits

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

var silent = slog.New(slog.DiscardHandler)

// timed is a source of tokens whose time a test moves.
type timed struct {
	*Rates
	t      *testing.T
	clock  *testClock
	server *miniredis.Miniredis // nil: there is no Redis
}

func (s *timed) advance(d time.Duration) {
	s.clock.advance(d)
	if s.server != nil {
		s.server.SetTime(s.clock.Now())
		s.server.FastForward(d)
	}
}

func (s *timed) take(perSecond float64, burst, n int) Taken {
	s.t.Helper()
	taken := s.Take(s.t.Context(), "key", perSecond, burst, n)
	if calls, _ := s.Fallbacks(); calls > 0 {
		s.t.Fatalf("%d calls without Redis", calls)
	}
	return taken
}

// eachSource runs the test against both ways of counting tokens.
func eachSource(t *testing.T, test func(t *testing.T, s *timed)) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		server, clock := miniredis.RunT(t), newTestClock()
		server.SetTime(clock.Now())
		test(t, &timed{newRates(connect(t, server.Addr()), silent, clock.Now, 10), t, clock, server})
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		clock := newTestClock()
		test(t, &timed{newRates(nil, silent, clock.Now, 10), t, clock, nil})
	})
}

func TestTake(t *testing.T) {
	t.Parallel()
	type step struct {
		after time.Duration
		n     int
		want  Taken
	}
	second := time.Second
	for _, tt := range []struct {
		name      string
		perSecond float64
		burst     int
		steps     []step
	}{
		{"whole and in part", 10, 5, []step{
			{0, 2, Taken{2, 5, 3, 200 * time.Millisecond, 0}},
			{0, 9, Taken{3, 5, 0, 500 * time.Millisecond, 100 * time.Millisecond}},
			{0, 1, Taken{0, 5, 0, 500 * time.Millisecond, 100 * time.Millisecond}},
			{150 * time.Millisecond, 9, Taken{1, 5, 0, 450 * time.Millisecond, 50 * time.Millisecond}},
			{50 * time.Millisecond, 9, Taken{1, 5, 0, 500 * time.Millisecond, 100 * time.Millisecond}},
			{10 * second, 0, Taken{0, 5, 5, 0, 0}},
			{0, 5, Taken{5, 5, 0, 500 * time.Millisecond, 0}},
		}},
		{"less than one a second", 0.1, 1, []step{
			{0, 1, Taken{1, 1, 0, 10 * second, 0}},
			{4 * second, 1, Taken{0, 1, 0, 6 * second, 6 * second}},
			{5999 * time.Millisecond, 1, Taken{0, 1, 0, time.Millisecond, time.Millisecond}},
			{time.Millisecond, 50, Taken{1, 1, 0, 10 * second, 10 * second}},
		}},
		{"less than one a day", 1.0 / (48 * 3600), 2, []step{
			{0, 1, Taken{1, 2, 1, 48 * time.Hour, 0}},
			{24 * time.Hour, 2, Taken{1, 2, 0, 72 * time.Hour, 24 * time.Hour}},
			{24 * time.Hour, 2, Taken{1, 2, 0, 96 * time.Hour, 48 * time.Hour}},
		}},
		{"very fast", 100_000, 100_000, []step{
			{0, 99_999, Taken{99_999, 100_000, 1, 999_990 * time.Microsecond, 0}},
			{0, 2, Taken{1, 100_000, 0, second, 10 * time.Microsecond}},
			{100 * time.Microsecond, 50, Taken{10, 100_000, 0, second, 10 * time.Microsecond}},
		}},
		{"no burst", 1, 0, []step{
			{0, 3, Taken{1, 1, 0, second, second}},
		}},
		{"a burst of centuries", 1e-9, 100_000, []step{
			{0, 100_000, Taken{6, 6, 0, 6e9 * second, 1e9 * second}},
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachSource(t, func(t *testing.T, s *timed) {
				for i, st := range tt.steps {
					s.advance(st.after)
					got, want := s.take(tt.perSecond, tt.burst, st.n), st.want
					if want.RetryAfter > 0 && want.RetryAfter < time.Millisecond {
						want.RetryAfter = time.Millisecond // the least that is told
					}
					if got.Allowed != want.Allowed || got.Limit != want.Limit || got.Remaining != want.Remaining ||
						!near(got.Reset, want.Reset) || !near(got.RetryAfter, want.RetryAfter) {
						t.Errorf("step %d, %d wanted: got %+v, want %+v", i, st.n, got, want)
					}
				}
			})
		})
	}
}

// near allows for what floating-point seconds lose.
func near(a, b time.Duration) bool {
	return (a - b).Abs() <= 2*time.Microsecond+time.Duration(float64(b)*1e-6)
}

// Whoever asks for more than there is gets what there is, and nothing is lost of
// what came back between two calls: over time all of the rate is used, and no
// more. The model counts in whole nanoseconds of a token.
func TestNothingIsLostOrWon(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		perSecond float64
		burst     int
	}{{10, 5}, {0.7, 3}, {3, 2}, {333, 50}, {1000, 1000}, {20_000, 100}} {
		t.Run(fmt.Sprintf("%g/s burst %d", tt.perSecond, tt.burst), func(t *testing.T) {
			t.Parallel()
			eachSource(t, func(t *testing.T, s *timed) {
				l := limitOf(tt.perSecond, tt.burst)
				total, span := s.take(tt.perSecond, tt.burst, tt.burst).Allowed, time.Duration(0)
				if total != tt.burst {
					t.Fatalf("%d of a new bucket of %d", total, tt.burst)
				}
				for range 400 {
					// Never so long that the bucket, which may hold a part of a token, is full.
					d := time.Duration(rand.Float64() * float64(tt.burst-1) * float64(l.interval)).Truncate(time.Microsecond)
					s.advance(d)
					span += d
					total += s.take(tt.perSecond, tt.burst, 1+rand.IntN(2)+tt.burst).Allowed
				}
				if want := tt.burst + int(span/l.interval); total != want && total != want+1 && total != want-1 {
					t.Errorf("%d tokens in %s, want %d", total, span, want)
				}
			})
		})
	}
}

// A bucket that nobody has touched is full, to the last token, whatever the time
// is: rounding must not refuse anybody.
func TestNewBucketIsFull(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, client *redis.Client) {
		r, key := NewRates(client, silent), uniqueKey(t)
		for i := range 300 {
			perSecond, burst := []float64{0.3, 7, 10, 99, 1000, 12345}[i%6], 1+i%7
			if taken := r.Take(t.Context(), fmt.Sprint(key, i), perSecond, burst, burst); taken.Allowed != burst {
				t.Errorf("%d of a new bucket of %d at %g/s", taken.Allowed, burst, perSecond)
			}
		}
		if calls, _ := r.Fallbacks(); calls > 0 {
			t.Errorf("%d calls were answered without Redis", calls)
		}
	})
}

// Several processes on one Redis, all asking for more than there is: together
// never more than the limit.
func TestLimitHoldsOverProcesses(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, client *redis.Client) {
		const perSecond, burst, processes, callers = 400, 100, 4, 3
		key := uniqueKey(t)
		var total, inPart atomic.Int64
		var group sync.WaitGroup
		began := time.Now()
		for range processes {
			o := *client.Options()
			o.DialTimeout, o.ReadTimeout, o.WriteTimeout, o.PoolTimeout = time.Minute, time.Minute, time.Minute, time.Minute
			own := redis.NewClient(&o)
			t.Cleanup(func() { _ = own.Close() })
			r := NewRates(own, silent)
			for range callers {
				group.Go(func() {
					// A busy machine gets more time until the limit is met.
					for d := time.Since(began); d < 1500*time.Millisecond || inPart.Load() == 0 && d < 30*time.Second; d = time.Since(began) {
						n := 1 + rand.IntN(50)
						taken := r.Take(t.Context(), key, perSecond, burst, n)
						switch {
						case taken.Allowed < 0 || taken.Allowed > n || (taken.Allowed < n) != (taken.RetryAfter > 0):
							t.Errorf("wanted %d: %+v", n, taken)
						case taken.Allowed > 0 && taken.Allowed < n:
							inPart.Add(1)
						}
						total.Add(int64(taken.Allowed))
					}
					if calls, _ := r.Fallbacks(); calls > 0 {
						t.Errorf("%d calls were answered without Redis", calls)
					}
				})
			}
		}
		group.Wait()
		most := burst + perSecond*time.Since(began).Seconds()
		if got := float64(total.Load()); got > most || got < burst {
			t.Errorf("%g tokens, want at most %.1f and at least a burst", got, most)
		}
		if inPart.Load() == 0 {
			t.Error("nobody got a part: the test shows little")
		}
		t.Logf("%d tokens of at most %.1f", total.Load(), most)
	})
}

func TestChangedLimitHoldsAtOnce(t *testing.T) {
	t.Parallel()
	eachSource(t, func(t *testing.T, s *timed) {
		if taken := s.take(0.001, 100, 100); taken.Allowed != 100 || taken.Reset < 27*time.Hour {
			t.Fatalf("%+v", taken)
		}
		if taken := s.take(50, 10, 20); taken.Allowed != 10 || taken.Limit != 10 {
			t.Errorf("%+v", taken)
		}
	})
}

// An outage from beginning to end: this process goes on where Redis was, with one
// line in the log at each end.
func TestRatesWithoutRedis(t *testing.T) {
	t.Parallel()
	server, clock, log := miniredis.RunT(t), newTestClock(), &bytes.Buffer{}
	server.SetTime(clock.Now())
	client := connect(t, server.Addr())
	r := newRates(client, slog.New(slog.NewTextHandler(log, nil)), clock.Now, 10)
	take := func(n, want int) {
		t.Helper()
		if taken := r.Take(t.Context(), "key", 1, 10, n); taken.Allowed != want {
			t.Errorf("%d wanted: %+v, want %d", n, taken, want)
		}
	}
	lines := func(want int) {
		t.Helper()
		if got := strings.Count(log.String(), "\n"); got != want {
			t.Errorf("%d lines in the log, want %d:\n%s", got, want, log)
		}
	}
	take(6, 6)
	server.Close()
	for range tolerated - 1 { // one answer that is missing is no outage, but is answered
		take(1, 1)
	}
	lines(0)
	take(20, 2)
	lines(1)
	for range 50 {
		take(1, 0)
	}
	lines(1)
	if calls, outages := r.Fallbacks(); calls != 50+tolerated || outages != 1 {
		t.Errorf("%d calls without Redis in %d outages", calls, outages)
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	take(1, 0) // not asked before the next probe
	clock.advance(probeEvery)
	server.SetTime(clock.Now())
	take(10, 4) // what Redis knows
	lines(2)
	take(1, 0)
	if calls, outages := r.Fallbacks(); calls != 51+tolerated || outages != 1 {
		t.Errorf("%d calls without Redis in %d outages", calls, outages)
	}
	for _, text := range []string{"level=WARN", "is away", "level=INFO", "is back"} {
		if strings.Count(log.String(), text) != 1 {
			t.Errorf("the log does not have %q once:\n%s", text, log)
		}
	}
}

// Redis's clock is set back, or one whose clock is behind takes over: nobody is refused
// until it has caught up.
func TestRedisClockSetBack(t *testing.T) {
	t.Parallel()
	server, clock := miniredis.RunT(t), newTestClock()
	r := newRates(connect(t, server.Addr()), silent, clock.Now, 10)
	for _, set := range []time.Duration{0, -time.Hour, -2 * time.Hour} {
		server.SetTime(clock.Now().Add(set))
		if taken := r.Take(t.Context(), "key", 100, 10, 1); taken.Allowed != 1 {
			t.Errorf("clock set by %v: %+v", set, taken)
		}
	}
	// It is a bucket as before.
	if taken := r.Take(t.Context(), "key", 100, 10, 20); taken.Allowed != 9 {
		t.Errorf("%+v", taken)
	}
	if taken := r.Take(t.Context(), "key", 100, 10, 1); taken.Allowed != 0 {
		t.Errorf("%+v", taken)
	}
}

// A caller that leaves does not make Redis look away, and gets an answer.
func TestTakeOfACanceledCaller(t *testing.T) {
	t.Parallel()
	r := NewRates(connect(t, miniredis.RunT(t).Addr()), silent)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	for range 2 * tolerated {
		r.Take(ctx, "key", 1, 10, 1)
	}
	if calls, outages := r.Fallbacks(); calls != 0 || outages != 0 {
		t.Errorf("%d calls without Redis in %d outages", calls, outages)
	}
}

// Many callers at once on the local buckets: exactly the burst.
func TestLocalTakesConcurrently(t *testing.T) {
	t.Parallel()
	eachSource(t, func(t *testing.T, s *timed) {
		var total atomic.Int64
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				for range 20 {
					total.Add(int64(s.Take(t.Context(), "key", 1, 100, 3).Allowed))
				}
			})
		}
		group.Wait()
		if total.Load() != 100 {
			t.Errorf("%d tokens of a bucket of 100", total.Load())
		}
	})
}

func TestBucketsAreBounded(t *testing.T) {
	t.Parallel()
	b, now, l := newBuckets(100), time.Unix(1767225600, 0), limitOf(1, 5)
	key := func(i int) fingerprint { return fingerprintOf(fmt.Sprint(i)) }
	for i := range 1000 {
		if taken := b.take(key(i), now, l, 1+i%5); taken.Allowed != 1+i%5 {
			t.Fatalf("key %d: %+v", i, taken)
		}
	}
	if len(b.full) != 100 {
		t.Errorf("%d buckets are kept, want 100", len(b.full))
	}
	// Those that owe most stay longest.
	if b.take(key(999), now, l, 1).Allowed != 0 {
		t.Error("the newest and emptiest bucket is forgotten")
	}
	// Full ones leave first, and are not put back.
	b.set(key(999), now, 0)
	if len(b.full) != 99 {
		t.Errorf("%d buckets are kept after one is full", len(b.full))
	}
	now = now.Add(time.Minute)
	b.take(key(2000), now, l, 1)
	b.take(key(2001), now, l, 1)
	if len(b.full) > 90 {
		t.Errorf("%d buckets are kept although all were full", len(b.full))
	}
}
