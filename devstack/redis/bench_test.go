package redis

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
)

// BenchmarkNonce is a nonce among others whose ends are spread over the 660 s of a
// nonce: of 2,000,000 some 3,000 end a second. -benchtime 60s tells how a minute goes.
func BenchmarkNonce(b *testing.B) {
	for _, n := range []int{1000, 100_000, 2_000_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) { benchmarkNonce(b, n) })
	}
}

func benchmarkNonce(b *testing.B, n int) {
	const life, batch = 660 * time.Second, 1000
	s, err := Start("127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer s.Stop()
	client := goredis.NewClient(&goredis.Options{Addr: s.Addr()})
	defer client.Close()
	began := time.Now()
	for from := 0; from < n; from += batch {
		if _, err := client.Pipelined(context.Background(), func(p goredis.Pipeliner) error {
			for i := from; i < from+batch; i++ {
				left := life*time.Duration(i+1)/time.Duration(n) - time.Since(began)
				p.SetNX(context.Background(), fmt.Sprintf("waypost:nonce:filled/%030d", i), 1, max(left, time.Millisecond))
			}
			return nil
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(time.Since(began).Seconds(), "s-filled")
	stop, stood := make(chan struct{}), make(chan time.Duration)
	go func() { // how long this process, or the machine, stands still meanwhile
		var most time.Duration
		for began := time.Now(); ; began = time.Now() {
			select {
			case <-stop:
				stood <- most
				return
			case <-time.After(time.Millisecond):
				most = max(most, time.Since(began)-time.Millisecond)
			}
		}
	}()
	took := make([]time.Duration, 0, 1<<20)
	for i := 0; b.Loop(); i++ {
		began := time.Now()
		if set, err := client.SetNX(context.Background(), fmt.Sprintf("waypost:nonce:new/%030d", i), 1, life).Result(); err != nil || !set {
			b.Fatal(set, err)
		}
		took = append(took, time.Since(began))
	}
	close(stop)
	b.ReportMetric(float64((<-stood).Microseconds())/1000, "machine-max-ms")
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)*99/100].Microseconds())/1000, "p99-ms")
	b.ReportMetric(float64(took[len(took)-1].Microseconds())/1000, "max-ms")
	var memory runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&memory)
	b.ReportMetric(float64(memory.HeapAlloc>>20), "MB")
}
