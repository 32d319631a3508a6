package limits

import (
	"bytes"
	"container/heap"
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

// worlds are processes with the breakers that they share, in a time that a test
// moves.
type worlds struct {
	processes []*Breakers
	clock     *testClock
	server    *miniredis.Miniredis // nil: there is no Redis
}

func (w *worlds) advance(d time.Duration) {
	w.clock.advance(d)
	if w.server != nil {
		w.server.SetTime(w.clock.Now())
		w.server.FastForward(d)
	}
}

const circuitName = "whk_1/crm.example.com"

// eachBreakers runs the test with two processes on a Redis, and with a process
// that has none.
func eachBreakers(t *testing.T, test func(t *testing.T, w *worlds)) {
	t.Run("redis", func(t *testing.T) {
		t.Parallel()
		server, clock := miniredis.RunT(t), newTestClock()
		server.SetTime(clock.Now())
		w := &worlds{clock: clock, server: server}
		for range 2 {
			w.processes = append(w.processes, NewBreakers(connect(t, server.Addr()), silent, clock.Now))
		}
		test(t, w)
		for _, b := range w.processes {
			if calls, _ := b.Fallbacks(); calls > 0 {
				t.Errorf("%d calls without Redis", calls)
			}
		}
	})
	t.Run("local", func(t *testing.T) {
		t.Parallel()
		clock := newTestClock()
		b := NewBreakers(nil, silent, clock.Now)
		test(t, &worlds{processes: []*Breakers{b, b}, clock: clock})
	})
}

// fail has n first attempts fail, and returns how many until nobody was admitted.
func fail(t *testing.T, b *Breakers, n int, answered bool) (admitted int) {
	t.Helper()
	for range n {
		granted, ticket, _ := b.Admit(t.Context(), circuitName, 1, time.Minute)
		if granted == 0 {
			return admitted
		}
		admitted++
		b.Failed(t.Context(), circuitName, ticket, true, answered, 0)
	}
	return admitted
}

func succeed(t *testing.T, b *Breakers, n int) {
	t.Helper()
	for range n {
		granted, ticket, _ := b.Admit(t.Context(), circuitName, 1, time.Minute)
		if granted != 1 {
			t.Fatal("not admitted")
		}
		if b.Alive(t.Context(), circuitName, ticket, false) != nil {
			t.Error("nobody waits, but somebody is to be told")
		}
	}
}

func TestBreakerOpens(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		answered bool
		before   int           // successes
		every    time.Duration // between failures
		n        int
		admitted int
	}{
		{"silent at once", false, 0, 0, 100, 20},
		{"silent after many successes", false, 5000, 0, 100, 20},
		{"silent, four a second", false, 100, 250 * time.Millisecond, 100, 36}, // two of them leak
		{"silent, two a second", false, 0, 500 * time.Millisecond, 500, 500},
		{"too few", false, 0, 0, 19, 19},
		{"answered at once", true, 0, 0, 5000, 5000},
		{"answered for a while", true, 5000, 10 * time.Millisecond, 1000, 301},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachBreakers(t, func(t *testing.T, w *worlds) {
				a, b := w.processes[0], w.processes[1]
				succeed(t, a, tt.before)
				admitted := 0
				for range tt.n {
					if fail(t, a, 1, tt.answered) == 0 {
						break
					}
					admitted++
					w.advance(tt.every)
				}
				if opened, _ := a.Changes(); admitted < tt.admitted-2 || admitted > tt.admitted+2 || (opened == 1) != (admitted < tt.n) {
					t.Errorf("%d admitted, want about %d; opened %d times", admitted, tt.admitted, opened)
				}
				// The other process sees it, too, at the latest after a second.
				w.advance(syncEvery - 100*time.Millisecond)
				if granted, _, wait := b.Admit(t.Context(), circuitName, 10, time.Minute); (granted < 2) != (admitted < tt.n) || (granted < 2) != (wait > 0) {
					t.Errorf("the other process admits %d, wait %s", granted, wait)
				}
			})
		})
	}
}

// A receiver that fails one first attempt of ten, and every retry, is never cut
// off, however the attempts come and wherever they are counted.
func TestBreakerNeverOpensAtTenPercent(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			eachBreakers(t, func(t *testing.T, w *worlds) {
				random := rand.New(rand.NewPCG(seed, 7))
				for range 800 {
					b := w.processes[random.IntN(2)]
					n := 1 + random.IntN(60)
					granted, ticket, _ := b.Admit(t.Context(), circuitName, n, time.Minute)
					if granted != n {
						t.Fatalf("of %d only %d were admitted", n, granted)
					}
					for range n {
						answered := random.IntN(2) == 0
						if random.IntN(10) > 0 {
							b.Alive(t.Context(), circuitName, ticket, false)
							continue
						}
						b.Failed(t.Context(), circuitName, ticket, true, answered, 0)
						for range 10 {
							b.Failed(t.Context(), circuitName, ticket, false, answered, 0)
						}
					}
					w.advance(time.Duration(random.IntN(300)) * time.Millisecond)
				}
			})
		})
	}
}

// Attempts that fail in all processes together open the breaker; where one process
// alone cannot reach the receiver, the others keep it closed.
func TestBreakerCountsTogether(t *testing.T) {
	t.Parallel()
	server, clock := miniredis.RunT(t), newTestClock()
	w := &worlds{clock: clock, server: server}
	w.advance(0)
	for range 4 {
		w.processes = append(w.processes, NewBreakers(connect(t, server.Addr()), silent, clock.Now))
	}
	for i := 0; ; i++ { // of four a second each process sees one
		if fail(t, w.processes[i%4], 1, false) == 0 {
			break
		}
		if w.advance(250 * time.Millisecond); i > 60 {
			t.Fatal("it does not open")
		}
	}
	w.advance(syncEvery)
	probe(t, w, w.processes[2], true)
	for range 100 {
		if fail(t, w.processes[3], 2, false) != 2 {
			t.Fatal("one process alone opens the breaker")
		}
		for _, b := range w.processes[:3] {
			succeed(t, b, 2)
		}
		w.advance(time.Second)
	}
}

// probe waits until a probe is admitted and ends it.
func probe(t *testing.T, w *worlds, b *Breakers, alive bool) {
	t.Helper()
	for range 200 {
		granted, ticket, _ := b.Admit(t.Context(), circuitName, 100, time.Minute)
		if granted == 0 {
			w.advance(time.Second)
			continue
		}
		if granted != 1 {
			t.Fatalf("%d probes", granted)
		}
		if !alive {
			b.Failed(t.Context(), circuitName, ticket, false, true, 0)
		} else if b.Alive(t.Context(), circuitName, ticket, true) == nil {
			t.Error("nobody is to tell those who wait")
		}
		return
	}
	t.Fatal("no probe is admitted")
}

// Of many who ask at once, in several processes, one probes; and the breaker does
// what its result says.
func TestBreakerProbesOne(t *testing.T) {
	t.Parallel()
	eachBreakers(t, func(t *testing.T, w *worlds) {
		fail(t, w.processes[0], 100, false)
		ask := func() (granted int, ticket int64, by *Breakers) {
			var all atomic.Int64
			var mu sync.Mutex
			var group sync.WaitGroup
			for i := range 50 {
				group.Go(func() {
					b := w.processes[i%2]
					n, one, wait := b.Admit(t.Context(), circuitName, 1+i, 20*time.Second)
					all.Add(int64(n))
					if n > 0 {
						mu.Lock()
						ticket, by = one, b
						mu.Unlock()
					} else if wait <= 0 {
						t.Error("who is not admitted is told no time")
					}
				})
			}
			group.Wait()
			return int(all.Load()), ticket, by
		}
		if n, _, _ := ask(); n != 0 {
			t.Errorf("%d admitted while it is open", n)
		}
		pause := firstPause
		for range 8 { // probes that fail
			w.advance(pause)
			n, ticket, by := ask()
			if n != 1 {
				t.Fatalf("%d probes", n)
			}
			if n, _, _ := ask(); n != 0 {
				t.Fatalf("%d probes beside the one under way", n)
			}
			if !w.processes[1].Holds(t.Context(), circuitName) || w.processes[0].Open(t.Context()) != 1 {
				t.Error("it is not held open")
			}
			by.Failed(t.Context(), circuitName, ticket, false, true, 0)
			pause = min(2*pause, maxPause)
			w.advance(pause / 2)
			if n, _, _ := ask(); n != 0 {
				t.Fatalf("%d admitted in half the pause of %s", n, pause)
			}
			w.advance(-pause / 2)
		}
		w.advance(pause)
		_, lost, by := ask() // nothing is heard of this one
		w.advance(19 * time.Second)
		if n, _, _ := ask(); n != 0 {
			t.Fatal("a second probe within the lease")
		}
		w.advance(time.Second)
		n, ticket, second := ask()
		if n != 1 {
			t.Fatal("no probe after the lease")
		}
		if by.Alive(t.Context(), circuitName, lost, true) != nil {
			t.Error("the lost probe closed it")
		}
		second.Return(t.Context(), circuitName, ticket) // it made no attempt
		n, ticket, second = ask()
		if n != 1 {
			t.Fatal("no probe after one was returned")
		}
		if second.Alive(t.Context(), circuitName, ticket, true) == nil {
			t.Error("nobody is to tell those who wait")
		}
		for _, b := range w.processes {
			if n, _, _ := b.Admit(t.Context(), circuitName, 100, time.Minute); n != 100 || b.Holds(t.Context(), circuitName) {
				t.Errorf("%d of 100 admitted after a probe has succeeded", n)
			}
		}
		// Those who began before it opened say nothing about now.
		for range 1000 {
			w.processes[0].Failed(t.Context(), circuitName, 0, true, false, 0)
		}
		if w.processes[0].Holds(t.Context(), circuitName) {
			t.Error("old attempts opened it")
		}
	})
}

// Somebody tells those who wait: if the one who was asked does not, or Redis has
// forgotten everything, one of those who have waited.
func TestBreakerHasSomebodyTell(t *testing.T) {
	t.Parallel()
	eachBreakers(t, func(t *testing.T, w *worlds) {
		a, b := w.processes[0], w.processes[1]
		ask := func(p *Breakers, waited bool) (announced func(context.Context)) {
			granted, ticket, _ := p.Admit(t.Context(), circuitName, 1, time.Minute)
			if granted != 1 {
				t.Fatal("not admitted")
			}
			return p.Alive(t.Context(), circuitName, ticket, waited)
		}
		fail(t, a, 100, false)
		w.advance(firstPause)
		late := ask(a, true)
		if late == nil {
			t.Fatal("the probe is not asked to tell")
		}
		if ask(a, true) != nil || ask(b, true) != nil {
			t.Error("a second one is asked to tell at the same time")
		}
		w.advance(tellTime)
		if ask(b, false) != nil {
			t.Error("somebody who has not waited is asked")
		}
		announced := ask(b, true)
		if announced == nil {
			t.Fatal("nobody is asked in place of one who was lost")
		}
		announced(t.Context())
		w.advance(tellTime)
		if ask(a, true) != nil || ask(b, true) != nil {
			t.Error("one is asked after all were told")
		}
		// It opens and closes again. Who has told of the first closing, and comes only now,
		// has not told those who wait for the second.
		w.advance(calm)
		fail(t, a, 100, false)
		w.advance(firstPause)
		if ask(b, true) == nil {
			t.Error("the second probe is not asked to tell")
		}
		late(t.Context())
		w.advance(tellTime)
		if announced = ask(a, true); announced == nil {
			t.Fatal("those who waited for the second closing are left behind")
		}
		announced(t.Context())
		if w.server == nil {
			return
		}
		w.advance(calm)
		fail(t, a, 100, false)
		w.server.FlushAll()
		w.advance(syncEvery)
		if ask(b, true) == nil || ask(a, true) != nil {
			t.Error("after Redis has lost its memory not one is asked")
		}
	})
}

// A breaker that opens and closes all the time takes more and more to open: it
// would only be in the way.
func TestBreakerNeedsMoreEachTime(t *testing.T) {
	t.Parallel()
	eachBreakers(t, func(t *testing.T, w *worlds) {
		b := w.processes[0]
		for _, want := range []int{20, 80, 320, 1280, 5120, 5120} {
			if n := fail(t, b, 10_000, false); n != want {
				t.Errorf("opened after %d failures, want %d", n, want)
			}
			probe(t, w, b, true)
		}
		w.advance(calm)
		if n := fail(t, b, 10_000, false); n != 20 {
			t.Errorf("opened after %d failures, a calm minute later", n)
		}
	})
}

// waiter is a batch that comes to an open breaker when it was told to.
type waiter struct {
	at    time.Time
	size  int
	probe bool // this is a probe that ends
	by    *Breakers
	id    int64
}

type waiters []waiter

func (v waiters) Len() int           { return len(v) }
func (v waiters) Less(i, j int) bool { return v[i].at.Before(v[j].at) }
func (v waiters) Swap(i, j int)      { v[i], v[j] = v[j], v[i] }
func (v *waiters) Push(x any)        { *v = append(*v, x.(waiter)) }
func (v *waiters) Pop() any {
	last := (*v)[len(*v)-1]
	*v = (*v)[:len(*v)-1]
	return last
}

// Somebody always comes for the next probe, and few come for nothing: whether one
// waits or ten thousand, though some are late and some never come, or all are told
// to come at once.
func TestBreakerIsProbedInTime(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name    string
		waiting int
		lost    float64 // part that never comes again
		woken   bool    // all are told to come, after a minute
		most    int     // visits in half an hour
	}{
		{"one batch", 1, 0, false, 80},
		{"a few", 5, 0, false, 90},
		{"a launch", 200, 0, false, 200},
		{"a launch that was canceled in part", 200, 0.3, false, 200},
		{"a large launch", 2_000, 0, false, 1_500},
		{"a launch that was paused and resumed", 200, 0, true, 500},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			eachBreakers(t, func(t *testing.T, w *worlds) {
				random := rand.New(rand.NewPCG(3, 4))
				fail(t, w.processes[0], 100, false)
				queue := &waiters{}
				begin := w.clock.Now()
				for i := range tt.waiting {
					heap.Push(queue, waiter{at: begin.Add(time.Duration(i) * time.Millisecond), size: 100})
				}
				visits, failed := -tt.waiting, 0
				var last time.Time
				woken := !tt.woken
				for queue.Len() > 0 {
					v := heap.Pop(queue).(waiter)
					if wake := begin.Add(time.Minute); !woken && v.at.After(wake) {
						woken = true
						heap.Push(queue, v)
						for i := range *queue {
							if !(*queue)[i].probe {
								(*queue)[i].at = wake
							}
						}
						heap.Init(queue)
						continue
					}
					if v.at.Sub(begin) > far-time.Minute {
						break
					}
					w.advance(max(0, v.at.Sub(w.clock.Now())))
					now := w.clock.Now()
					if v.probe {
						v.by.Failed(t.Context(), circuitName, v.id, false, false, 0)
						continue
					}
					visits++
					b := w.processes[random.IntN(2)]
					granted, ticket, wait := b.Admit(t.Context(), circuitName, v.size, time.Minute)
					if granted > 0 {
						// Where those who had turns do not come, or came early, the next one is
						// somebody with a random time.
						if gap := now.Sub(last); failed > 7 && tt.lost == 0 && !tt.woken && gap > 2*maxPause || gap > 10*maxPause && failed > 0 {
							t.Errorf("%s between two probes", gap)
						}
						last = now
						failed++
						// A probe that fails comes again by its own schedule, late here.
						heap.Push(queue, waiter{at: now.Add(time.Duration(random.IntN(1000)) * time.Millisecond), probe: true, by: b, id: ticket})
					}
					v.size -= granted
					if v.size > 0 && (visits <= 0 || random.Float64() >= tt.lost) {
						v.at = now.Add(wait + time.Duration(random.IntN(300))*time.Millisecond)
						heap.Push(queue, v)
					}
				}
				if failed < 40 && tt.lost == 0 && !tt.woken || failed < 20 || visits > tt.most {
					t.Errorf("%d probes in %d visits", failed, visits)
				}
			})
		})
	}
}

// A breaker that nobody comes to for a probe keeps nobody waiting.
func TestBreakerOfNobody(t *testing.T) {
	t.Parallel()
	eachBreakers(t, func(t *testing.T, w *worlds) {
		fail(t, w.processes[0], 100, false)
		b := w.processes[1]
		open := func(when string, want int) {
			t.Helper()
			if holds, n := b.Holds(t.Context(), circuitName), b.Open(t.Context()); !holds || n != want {
				t.Errorf("%s %d are open, want %d; it is held open: %v", when, n, want, holds)
			}
		}
		open("at first", 1)
		w.advance(9 * time.Minute)
		open("after nine minutes", 1)
		w.advance(2 * time.Minute)
		open("after eleven minutes", 0)
		if n, _, _ := b.Admit(t.Context(), circuitName, 1, time.Minute); n != 1 {
			t.Fatal("there is no probe")
		}
		open("with somebody who comes", 1)
	})
}

// Without Redis each process goes on by itself, from what it saw last; with Redis
// back they agree again.
func TestBreakerOutlivesRedis(t *testing.T) {
	t.Parallel()
	server, clock := miniredis.RunT(t), newTestClock()
	w := &worlds{clock: clock, server: server}
	w.advance(0)
	var log bytes.Buffer
	a := NewBreakers(connect(t, server.Addr()), slog.New(slog.NewTextHandler(&log, nil)), clock.Now)
	b := NewBreakers(connect(t, server.Addr()), silent, clock.Now)
	succeed(t, a, 10)
	server.Close()
	for range tolerated { // each tries
		w.clock.advance(syncEvery)
		succeed(t, a, 1)
	}
	if n := fail(t, a, 100, false); n != 20 {
		t.Errorf("opened after %d failures", n)
	}
	if !a.Holds(t.Context(), circuitName) {
		t.Error("it is not open without Redis")
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	w.advance(2 * time.Second)
	if a.Holds(t.Context(), circuitName) || a.Open(t.Context()) != 0 {
		t.Error("what Redis says does not count when it is back")
	}
	if n := fail(t, a, 100, false); n != 20 || !b.Holds(t.Context(), circuitName) {
		t.Errorf("opened after %d failures; the other process sees it: %v", n, b.Holds(t.Context(), circuitName))
	}
	for _, line := range []string{"Redis is away", "Redis is back", "breaker opened: deliveries wait\" webhook=whk_1\n"} {
		if !strings.Contains(log.String(), line) {
			t.Errorf("the log does not tell %q:\n%s", line, log.String())
		}
	}
	if strings.Contains(log.String(), "crm.example.com") {
		t.Error("the log tells the receiver's address")
	}
}

// Those whom a process has sent away by itself are told when Redis is back, where the
// breaker is closed and all who waited before were told.
func TestBreakerTellsThoseOfAnOutage(t *testing.T) {
	t.Parallel()
	server, clock := miniredis.RunT(t), newTestClock()
	w := &worlds{clock: clock, server: server}
	w.advance(0)
	b := NewBreakers(connect(t, server.Addr()), silent, clock.Now)
	ask := func() (announced func(context.Context)) {
		granted, ticket, _ := b.Admit(t.Context(), circuitName, 1, time.Minute)
		if granted != 1 {
			t.Fatal("not admitted")
		}
		return b.Alive(t.Context(), circuitName, ticket, true)
	}
	fail(t, b, 100, false)
	w.advance(firstPause)
	ask()(t.Context())
	w.advance(calm)
	server.Close()
	for range tolerated { // each tries
		w.clock.advance(syncEvery)
		succeed(t, b, 1)
	}
	fail(t, b, 100, false)
	if !b.Holds(t.Context(), circuitName) {
		t.Fatal("it is not open without Redis")
	}
	if err := server.Restart(); err != nil {
		t.Fatal(err)
	}
	w.advance(2 * time.Second)
	if b.Holds(t.Context(), circuitName) {
		t.Fatal("what Redis says does not count when it is back")
	}
	announced := ask()
	if announced == nil {
		t.Fatal("those who were sent away meanwhile are left behind")
	}
	announced(t.Context())
	w.advance(tellTime)
	if ask() != nil {
		t.Error("one is asked after all were told")
	}
}

// On a real server as on the stand-in.
func TestBreakerOnRedis(t *testing.T) {
	t.Parallel()
	eachRedis(t, func(t *testing.T, client *redis.Client) {
		a, b := NewBreakers(client, silent, time.Now), NewBreakers(client, silent, time.Now)
		for try := 1; ; try++ {
			circuit := fmt.Sprint(uniqueKey(t), "/", try)
			_, ticket, _ := a.Admit(t.Context(), circuit, 100, time.Minute)
			began := time.Now()
			for range 40 {
				a.Failed(t.Context(), circuit, ticket, true, false, 0)
			}
			held := b.Holds(t.Context(), circuit)
			granted, _, wait := b.Admit(t.Context(), circuit, 1, time.Minute)
			if time.Since(began) > firstPause/4 && try < 100 {
				continue // the pause is in real time, and was nearly over
			}
			if !held {
				t.Fatal("it does not open for both")
			}
			if granted != 0 || wait > firstPause || wait < firstPause/2 {
				t.Errorf("granted %d, wait %s", granted, wait)
			}
			return
		}
	})
}

func TestBreakersForgetIdleCircuits(t *testing.T) {
	t.Parallel()
	clock := newTestClock()
	b := NewBreakers(nil, silent, clock.Now)
	for i := range 10 * maxCircuits {
		circuit := fmt.Sprint("whk_", i)
		_, ticket, _ := b.Admit(t.Context(), circuit, 1, time.Minute)
		if i == 0 {
			for range 20 {
				b.Failed(t.Context(), circuit, ticket, true, false, 0)
			}
		}
		clock.advance(time.Second)
	}
	if n := len(b.locals); n > 2*maxCircuits || !b.Holds(t.Context(), "whk_0") {
		t.Errorf("%d circuits are remembered, the open one: %v", n, b.Holds(t.Context(), "whk_0"))
	}
}

// Whoever looks sees what all processes do, and changes nothing.
func TestBreakerState(t *testing.T) {
	t.Parallel()
	eachBreakers(t, func(t *testing.T, w *worlds) {
		worker, looker := w.processes[0], w.processes[1]
		want := func(want State) {
			t.Helper()
			if got, known := looker.State(t.Context(), circuitName); !known || got != want {
				t.Errorf("got %+v, %t, want %+v", got, known, want)
			}
		}
		want(State{Name: "closed"})
		opened := w.clock.Now().UTC().Truncate(time.Millisecond)
		fail(t, worker, 100, false)
		want(State{Name: "open", Since: opened, NextProbe: opened.Add(firstPause)})
		w.advance(firstPause)
		want(State{Name: "halfOpen", Since: opened})
		granted, ticket, _ := worker.Admit(t.Context(), circuitName, 1, time.Minute)
		if granted != 1 {
			t.Fatal("looking took the probe's place")
		}
		want(State{Name: "halfOpen", Since: opened})
		worker.Alive(t.Context(), circuitName, ticket, true)
		want(State{Name: "closed", Since: opened.Add(firstPause)})
	})
	server := miniredis.RunT(t)
	b := NewBreakers(connect(t, server.Addr()), silent, time.Now)
	server.SetError("away")
	if _, known := b.State(t.Context(), circuitName); known {
		t.Error("the state is known without Redis")
	}
}
