package limits

import (
	"sync"
	"time"
)

// maxBuckets bounds the buckets that a process keeps: about 10 MB.
const maxBuckets = 1 << 17

// buckets are this process's own rate limits, for times without Redis. Only those
// that are not full are kept.
type buckets struct {
	max int

	mu   sync.Mutex
	full map[fingerprint]time.Time // when each is full again
}

func newBuckets(limit int) *buckets {
	return &buckets{max: limit, full: map[fingerprint]time.Time{}}
}

// set notes that a bucket is full again after owed.
func (b *buckets) set(key fingerprint, now time.Time, owed time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.put(key, now, owed)
}

func (b *buckets) take(key fingerprint, now time.Time, l limit, n int) Taken {
	b.mu.Lock()
	defer b.mu.Unlock()
	owed := max(0, b.full[key].Sub(now))
	allowed := max(0, min(n, l.available(owed)))
	owed += time.Duration(allowed) * l.interval
	b.put(key, now, owed)
	return l.taken(n, allowed, owed)
}

func (b *buckets) put(key fingerprint, now time.Time, owed time.Duration) {
	if owed <= 0 {
		delete(b.full, key)
		return
	}
	if _, known := b.full[key]; !known && len(b.full) >= b.max {
		b.evict(now)
	}
	b.full[key] = now.Add(owed)
}

// evict makes room: it looks at some buckets, and drops the full ones, or the one that will
// be full first, which gives that key some tokens too many. So neither the memory nor the
// time of a call grows with the keys. The order of use, which a library's cache goes by,
// says nothing of which bucket is full.
func (b *buckets) evict(now time.Time) {
	const looked = 16
	var first fingerprint
	var at time.Time
	seen, dropped := 0, false
	for key, full := range b.full { // in a random order
		if !full.After(now) {
			delete(b.full, key)
			dropped = true
		} else if at.IsZero() || full.Before(at) {
			first, at = key, full
		}
		if seen++; seen == looked {
			break
		}
	}
	if !dropped {
		delete(b.full, first)
	}
}
