package delivery_test

import (
	"container/heap"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"waypost"
	"waypost/delivery"
	"waypost/limits"
)

func noTokens(context.Context, string, float64, int, int) (int, time.Duration) {
	panic("a webhook without a rate limit asks for tokens")
}

// Webhooks that may have more POSTs under way than the process can leave some to the
// next one.
func TestAdmissionLeavesRoom(t *testing.T) {
	t.Parallel()
	const least = 4
	for set, most := range map[int]int{0: 4000, 1 << 20: 4000, 512: 512} {
		gate := delivery.NewGate(noTokens, time.Now, set)
		hooks := make([]waypost.Webhook, 30)
		total, granted := 0, make([]int, len(hooks))
		for i := range hooks {
			hooks[i] = waypost.Webhook{ID: fmt.Sprint("whk_", i), MaxConcurrency: 10_000}
			for range 2 { // the second time there is nothing more
				n, reason, wait := gate.Admit(t.Context(), hooks[i], 10_000)
				if reason != waypost.DeferMaxConcurrency || wait < time.Second {
					t.Errorf("of %d, webhook %d: %q, %s", most, i, reason, wait)
				}
				granted[i] += n
			}
			total += granted[i]
			if free := max(0, most-total); granted[i] < least || granted[i] > max(least, free+1) || granted[i] < free-1 {
				t.Errorf("of %d, webhook %d has %d, and %d are free", most, i, granted[i], free)
			}
		}
		for i, hook := range hooks {
			gate.Done(hook.ID, granted[i])
		}
		if n, _, _ := gate.Admit(t.Context(), hooks[0], 10_000); n != most/2 {
			t.Errorf("after all have ended there are %d of %d", n, most)
		}
	}
}

// Never more POSTs under way than the webhook may have, and no slot is lost.
func TestAdmissionBoundsConcurrency(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ most, effective int }{{1, 1}, {7, 7}, {0, 1000}} {
		t.Run(fmt.Sprint(tt.most), func(t *testing.T) {
			t.Parallel()
			gate := delivery.NewGate(noTokens, time.Now, 0)
			hook := waypost.Webhook{ID: "whk_1", MaxConcurrency: tt.most}
			var underWay, refused atomic.Int64
			var group sync.WaitGroup
			for range 40 {
				group.Go(func() {
					for left := 200; left > 0; {
						n := min(left, 1+rand.IntN(50))
						granted, reason, wait := gate.Admit(t.Context(), hook, n)
						if now := underWay.Add(int64(granted)); now > int64(tt.effective) {
							t.Errorf("%d POSTs under way", now)
						}
						if short := granted < n; short != (reason == waypost.DeferMaxConcurrency) || short != (wait > 0) || granted < 0 || granted > n {
							t.Errorf("of %d: %d, %q, %s", n, granted, reason, wait)
						}
						if granted < n {
							refused.Add(1)
						}
						left -= granted
						for range granted { // they end one by one
							underWay.Add(-1)
							gate.Done(hook.ID, 1)
						}
					}
				})
			}
			group.Wait()
			if tt.most == 1 && refused.Load() == 0 {
				t.Error("nobody was refused: the test shows nothing")
			}
			if granted, _, _ := gate.Admit(t.Context(), hook, 5000); granted != tt.effective {
				t.Errorf("%d slots are free at the end, want %d", granted, tt.effective)
			}
			if granted, _, _ := gate.Admit(t.Context(), waypost.Webhook{ID: "whk_2", MaxConcurrency: tt.most}, 1); granted != 1 {
				t.Error("another webhook is held up")
			}
		})
	}
}

// bucket is one process's tokens for tests with a time of their own.
type bucket struct {
	now   func() time.Time
	owed  time.Time
	calls int
}

func (b *bucket) take(_ context.Context, key string, perSecond float64, burst, n int) (int, time.Duration) {
	if key != "webhook/whk_1" {
		panic("key " + key)
	}
	b.calls++
	interval := time.Duration(float64(time.Second) / perSecond)
	now := b.now()
	if b.owed.Before(now) {
		b.owed = now
	}
	free := int((time.Duration(burst)*interval - b.owed.Sub(now)) / interval)
	allowed := min(n, free)
	b.owed = b.owed.Add(time.Duration(allowed) * interval)
	if allowed == n {
		return n, 0
	}
	return allowed, b.owed.Sub(now) - time.Duration(burst-1)*interval
}

func TestAdmissionReasons(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	clock := func() time.Time { return now }
	limit := &waypost.RateLimit{PerSecond: 10, Burst: 20}
	for _, tt := range []struct {
		name    string
		hook    waypost.Webhook
		n       int
		granted int
		reason  string
		wait    time.Duration
	}{
		{"no limits", waypost.Webhook{}, 50, 50, "", 0},
		{"nothing wanted", waypost.Webhook{RateLimit: limit}, 0, 0, "", 0},
		{"enough of both", waypost.Webhook{MaxConcurrency: 20, RateLimit: limit}, 20, 20, "", 0},
		{"tokens short", waypost.Webhook{MaxConcurrency: 100, RateLimit: limit}, 50, 20, waypost.DeferRateLimit, time.Second},
		{"a few too many", waypost.Webhook{RateLimit: limit}, 22, 20, waypost.DeferRateLimit, 200 * time.Millisecond},
		{"slots short", waypost.Webhook{MaxConcurrency: 10, RateLimit: limit}, 50, 10, waypost.DeferMaxConcurrency, 100 * time.Millisecond},
		{"tokens shorter than slots", waypost.Webhook{MaxConcurrency: 30, RateLimit: limit}, 50, 20, waypost.DeferRateLimit, time.Second},
		{"slow rate", waypost.Webhook{RateLimit: &waypost.RateLimit{PerSecond: 0.001, Burst: 1}}, 2, 1, waypost.DeferRateLimit, 1000 * time.Second},
		{"slowest rate", waypost.Webhook{RateLimit: &waypost.RateLimit{PerSecond: 1e-9, Burst: 1}}, 2, 1, waypost.DeferRateLimit, 1e9 * time.Second},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tokens := &bucket{now: clock}
			gate := delivery.NewGate(tokens.take, clock, 0)
			tt.hook.ID = "whk_1"
			granted, reason, wait := gate.Admit(t.Context(), tt.hook, tt.n)
			if granted != tt.granted || reason != tt.reason || wait != tt.wait {
				t.Errorf("granted %d, %q, %s; want %d, %q, %s", granted, reason, wait, tt.granted, tt.reason, tt.wait)
			}
			// Slots that found no token are free again, and those that were granted come back.
			gate.Done(tt.hook.ID, granted)
			if again, _, _ := gate.Admit(t.Context(), waypost.Webhook{ID: "whk_1", MaxConcurrency: 40}, 100); again != 40 {
				t.Errorf("%d of 40 slots are free", again)
			}
		})
	}
}

// A webhook without a free slot does not use up tokens.
func TestAdmissionTakesNoTokenWithoutASlot(t *testing.T) {
	t.Parallel()
	clock := func() time.Time { return time.Unix(1767225600, 0) }
	tokens := &bucket{now: clock}
	gate := delivery.NewGate(tokens.take, clock, 0)
	hook := waypost.Webhook{ID: "whk_1", MaxConcurrency: 2, RateLimit: &waypost.RateLimit{PerSecond: 1, Burst: 10}}
	gate.Admit(t.Context(), hook, 2)
	if granted, reason, _ := gate.Admit(t.Context(), hook, 3); granted != 0 || reason != waypost.DeferMaxConcurrency || tokens.calls != 1 {
		t.Errorf("granted %d, %q, tokens asked %d times", granted, reason, tokens.calls)
	}
	gate.Done(hook.ID, 1000) // more than there are
	if granted, _, _ := gate.Admit(t.Context(), hook, 3); granted != 2 || tokens.owed.Sub(clock()) != 4*time.Second {
		t.Errorf("granted %d, %s owed", granted, tokens.owed.Sub(clock()))
	}
}

// Those who got no token made no POST, and do not make POSTs look faster than they are.
func TestPostTimeIsOfPOSTs(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	clock := func() time.Time { return now }
	gate := delivery.NewGate((&bucket{now: clock}).take, clock, 0)
	hook := waypost.Webhook{ID: "whk_1", RateLimit: &waypost.RateLimit{PerSecond: 1, Burst: 2}}
	for range 5 {
		granted, _, _ := gate.Admit(t.Context(), hook, 100)
		now = now.Add(3 * time.Second)
		gate.Done(hook.ID, granted)
	}
	if took := gate.PostTime(hook.ID); took != 3*time.Second {
		t.Errorf("a POST takes %s", took)
	}
}

// visit is a chunk of a cohort that comes to the gate at a time, or POSTs
// that end.
type visit struct {
	at   time.Time
	left int // to be sent
	done int // POSTs that end
}

type visits []visit

func (v visits) Len() int           { return len(v) }
func (v visits) Less(i, j int) bool { return v[i].at.Before(v[j].at) }
func (v visits) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }
func (v *visits) Push(x any)        { *v = append(*v, x.(visit)) }
func (v *visits) Pop() any {
	last := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return last
}

// A launch to a webhook that is slower than it, on a virtual clock: those who are
// sent away come back as they were told, a little late. The webhook's limits are
// used nearly all the time, and few come in vain.
func TestAdmissionSpreadsWhoComesBack(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name      string
		hook      waypost.Webhook
		post      time.Duration
		perSecond float64 // what the limits permit
		maxVisits float64 // times as many as if every visit were full
	}{
		{"rate", waypost.Webhook{RateLimit: &waypost.RateLimit{PerSecond: 100, Burst: 100}}, 20 * time.Millisecond, 100, 1.5},
		{"rate, small burst", waypost.Webhook{RateLimit: &waypost.RateLimit{PerSecond: 100, Burst: 20}}, 20 * time.Millisecond, 100, 1.5},
		{"slow receiver", waypost.Webhook{MaxConcurrency: 100}, 15 * time.Second, 100 / 15.0, 10},
		{"fast receiver", waypost.Webhook{MaxConcurrency: 5}, 100 * time.Millisecond, 50, 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const chunks, chunk = 200, 50
			random := rand.New(rand.NewPCG(1, 2))
			start := time.Unix(1767225600, 0)
			now := start
			clock := func() time.Time { return now }
			tokens := &bucket{now: clock}
			gate := delivery.NewGate(tokens.take, clock, 0)
			tt.hook.ID = "whk_1"
			queue := &visits{}
			for i := range chunks {
				heap.Push(queue, visit{at: start.Add(time.Duration(i) * time.Millisecond), left: chunk})
			}
			came, vain := 0, 0
			for queue.Len() > 0 {
				v := heap.Pop(queue).(visit)
				now = v.at
				if v.done > 0 {
					gate.Done(tt.hook.ID, v.done)
					continue
				}
				came++
				granted, _, wait := gate.Admit(t.Context(), tt.hook, v.left)
				if granted == 0 {
					vain++
				}
				for range granted {
					heap.Push(queue, visit{at: now.Add(time.Duration(float64(tt.post) * (0.9 + 0.2*random.Float64()))), done: 1})
				}
				if v.left -= granted; v.left > 0 {
					late := time.Duration(random.Float64() * float64(50*time.Millisecond))
					heap.Push(queue, visit{at: now.Add(wait + late), left: v.left})
				}
			}
			took := now.Sub(start)
			ideal := time.Duration(chunks * chunk / tt.perSecond * float64(time.Second))
			full := chunk // what a visit could send at most
			if l := tt.hook.RateLimit; l != nil {
				full = min(full, l.Burst/2)
			} else {
				full = min(full, max(1, tt.hook.MaxConcurrency/2))
			}
			least := chunks * chunk / full
			t.Logf("%s, ideal %s; %d visits, %d in vain; at least %d", took, ideal, came, vain, least)
			if took > ideal*13/10 {
				t.Errorf("took %s where %s is possible", took, ideal)
			}
			if float64(came) > tt.maxVisits*float64(least)+chunks {
				t.Errorf("%d visits, %d of them in vain; %d could do", came, vain, least)
			}
		})
	}
}

// Those whom another limit has sent far away are told when it changes. They do not wait
// for the turns that they had under that.
func TestAdmissionGoesByTheNewLimit(t *testing.T) {
	t.Parallel()
	now := time.Unix(1767225600, 0)
	clock := func() time.Time { return now }
	slow, fast := &waypost.RateLimit{PerSecond: 0.1, Burst: 1}, &waypost.RateLimit{PerSecond: 100, Burst: 100}
	for _, tt := range []struct {
		name          string
		before, after waypost.Webhook
		away          time.Duration // of the first who is not admitted then
	}{
		{"rate", waypost.Webhook{RateLimit: slow}, waypost.Webhook{RateLimit: fast}, 500 * time.Millisecond},
		{"slots", waypost.Webhook{MaxConcurrency: 1}, waypost.Webhook{MaxConcurrency: 50}, 100 * time.Millisecond},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			gate := delivery.NewGate((&bucket{now: clock}).take, clock, 0)
			tt.before.ID, tt.after.ID = "whk_1", "whk_1"
			var away time.Duration
			for range 60 {
				_, _, away = gate.Admit(t.Context(), tt.before, 100)
			}
			if away < 5*time.Second {
				t.Fatalf("the last one stays away for %s only", away)
			}
			if _, _, away = gate.Admit(t.Context(), tt.after, 1000); away > tt.away {
				t.Errorf("with another limit one stays away for %s, want %s", away, tt.away)
			}
		})
	}
}

// Webhooks that nobody sends to any more are forgotten, those with POSTs under way
// are not.
func TestAdmissionForgetsIdleWebhooks(t *testing.T) {
	t.Parallel()
	gate := delivery.NewGate(noTokens, time.Now, 0)
	for i := range 10_000 {
		hook := waypost.Webhook{ID: fmt.Sprint("whk_", i), MaxConcurrency: 1}
		gate.Admit(t.Context(), hook, 1)
		if i%100 != 0 {
			gate.Done(hook.ID, 1)
		}
	}
	if n := delivery.Lines(gate); n > 2000 {
		t.Errorf("%d webhooks are remembered", n)
	}
	for i := 0; i < 10_000; i += 100 {
		if granted, _, _ := gate.Admit(t.Context(), waypost.Webhook{ID: fmt.Sprint("whk_", i), MaxConcurrency: 1}, 1); granted != 0 {
			t.Fatalf("webhook %d has more POSTs under way than it may", i)
		}
	}
}

// Several workers on one Redis: together they begin no more POSTs than the
// webhook's rate permits.
func TestAdmissionHoldsOverProcesses(t *testing.T) {
	t.Parallel()
	servers := map[string]*redis.Options{"miniredis": {Addr: miniredis.RunT(t).Addr()}}
	if raw := os.Getenv("WAYPOST_TEST_REDIS_URL"); raw != "" {
		o, err := redis.ParseURL(raw)
		if err != nil {
			t.Fatal(err)
		}
		servers["redis-server"] = o
	} else if os.Getenv("WAYPOST_TEST_REQUIRE_SERVERS") == "1" {
		t.Fatal("WAYPOST_TEST_REDIS_URL is not set")
	}
	for name, o := range servers {
		t.Run(name, func(t *testing.T) {
			const burst, perSecond, processes, callers = 50, 300, 3, 4
			hook := waypost.Webhook{
				ID: waypost.NewID(waypost.PrefixWebhook, time.Now()), MaxConcurrency: 20,
				RateLimit: &waypost.RateLimit{PerSecond: perSecond, Burst: burst},
			}
			var begun atomic.Int64
			var refused atomic.Bool
			var group sync.WaitGroup
			start := time.Now()
			for range processes {
				own := limits.ClientOptions(&redis.Options{Addr: o.Addr, Username: o.Username, Password: o.Password, DB: o.DB})
				own.DialTimeout, own.ReadTimeout, own.WriteTimeout, own.PoolTimeout = time.Minute, time.Minute, time.Minute, time.Minute
				client := redis.NewClient(own)
				t.Cleanup(func() { _ = client.Close() })
				rates := limits.NewRates(client, slog.New(slog.DiscardHandler))
				gate := delivery.NewGate(func(ctx context.Context, key string, perSecond float64, burst, n int) (int, time.Duration) {
					taken := rates.Take(ctx, key, perSecond, burst, n)
					return taken.Allowed, taken.RetryAfter
				}, time.Now, 0)
				var underWay atomic.Int64
				for range callers {
					group.Go(func() {
						// A busy machine gets more time until the limit is met.
						for d := time.Since(start); d < time.Second || !refused.Load() && d < 30*time.Second; d = time.Since(start) {
							granted, reason, _ := gate.Admit(t.Context(), hook, 1+rand.IntN(30))
							begun.Add(int64(granted))
							if n := underWay.Add(int64(granted)); n > 20 {
								t.Errorf("%d POSTs under way in one process", n)
							}
							if reason == waypost.DeferRateLimit {
								refused.Store(true)
							}
							underWay.Add(-int64(granted))
							gate.Done(hook.ID, granted)
						}
					})
				}
				t.Cleanup(func() {
					if calls, _ := rates.Fallbacks(); calls > 0 {
						t.Errorf("%d calls were answered without Redis", calls)
					}
				})
			}
			group.Wait()
			most := burst + perSecond*time.Since(start).Seconds()
			if got := float64(begun.Load()); got > most || got < burst {
				t.Errorf("%g POSTs, want at most %.1f and at least a burst", got, most)
			}
			if !refused.Load() {
				t.Error("nobody was refused: the test shows nothing")
			}
		})
	}
}
