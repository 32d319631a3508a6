package limits

import (
	"context"
	"fmt"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
)

const (
	// leasePart is the part of a second's tokens, and of a burst, that a process takes
	// from Redis at a time. Tokens that it does not use are lost to other processes: little
	// enough to go unnoticed, and none of a limit below fifty.
	leasePart = 50
	// leaseLife is how long a process may use what it has taken.
	leaseLife = time.Second
	// maxLeases bounds the keys that are remembered. The tokens that are held for one that
	// is dropped are lost.
	maxLeases = 100_000
)

// Leases takes tokens of Rates one at a time, as requests come in. Where the limit
// is high it takes several from Redis at once, so that most requests need not ask;
// never more are allowed than the limit says. It is safe for concurrent use.
type Leases struct {
	rates *Rates
	now   func() time.Time
	held  *lru.Cache[string, *lease]
}

// lease is what a process has taken of a key's tokens and not used yet.
type lease struct {
	mu      sync.Mutex
	filling bool // a call takes more
	tokens  int
	at      time.Time // when they were taken
	taken   Taken
}

// NewLeases takes from rates.
func NewLeases(rates *Rates) *Leases {
	held, _ := lru.New[string, *lease](maxLeases) // fails for a size below 1 only
	return &Leases{rates: rates, now: rates.now, held: held}
}

// Take takes a token of key's bucket, which holds burst tokens and gets perSecond a
// second; see Rates.Take. Remaining counts what this process holds, too.
func (s *Leases) Take(ctx context.Context, key string, perSecond, burst int) Taken {
	l := s.lease(fmt.Sprintf("%s/%d/%d", key, perSecond, burst))
	l.mu.Lock()
	now := s.now()
	if l.tokens > 0 && now.Sub(l.at) < leaseLife {
		defer l.mu.Unlock()
		return l.use(now)
	}
	// The first call fills the lease; a call that comes meanwhile takes one token from Redis
	// for itself, so that it waits for its own round trip only.
	fills := !l.filling
	l.filling = true
	l.mu.Unlock()
	if !fills {
		return s.rates.Take(ctx, key, float64(perSecond), burst, 1)
	}
	taken := s.rates.Take(ctx, key, float64(perSecond), burst, max(1, min(perSecond, burst)/leasePart))
	l.mu.Lock()
	defer l.mu.Unlock()
	l.filling = false
	if taken.Allowed == 0 {
		return taken
	}
	l.tokens, l.at, l.taken = taken.Allowed, now, taken
	return l.use(now)
}

// use takes one of the tokens that are held. The caller holds mu.
func (l *lease) use(now time.Time) Taken {
	l.tokens--
	t := l.taken
	t.Allowed, t.RetryAfter = 1, 0
	t.Remaining = min(t.Limit, t.Remaining+l.tokens)
	t.Reset = max(0, t.Reset-now.Sub(l.at))
	return t
}

func (s *Leases) lease(key string) *lease {
	if l, known := s.held.Get(key); known {
		return l
	}
	l := &lease{}
	if first, known, _ := s.held.PeekOrAdd(key, l); known {
		return first
	}
	return l
}
