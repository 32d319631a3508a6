package limits

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// nonceLifetime is how long a nonce is remembered (docs/contract.md, "Signature checks"):
// longer than a request can be valid.
const nonceLifetime = 660 * time.Second

// ErrFull says that the in-process cache can take no more nonces without
// forgetting one too early.
var ErrFull = errors.New("the in-process nonce cache is full")

// Nonces remembers which nonces were used, so that no signed request counts
// twice. It is safe for concurrent use.
type Nonces struct {
	gate
	client redis.UniversalClient
	now    func() time.Time
	// mirror holds what this process wrote to Redis, so that it is still refused
	// when Redis goes away. It may forget. local holds what was used while Redis
	// was away and stands nowhere else: it is asked also when Redis is back.
	mirror, local *recent

	mu      sync.Mutex
	waiting []*asked // for the next round trip
	asking  bool     // whether one is under way
}

// NewNonces returns nonces kept in client, which should have been made with
// ClientOptions.
func NewNonces(client redis.UniversalClient) *Nonces { return newNonces(client, time.Now, maxRecent) }

func newNonces(client redis.UniversalClient, now func() time.Time, limit int) *Nonces {
	return &Nonces{client: client, gate: gate{now: now}, now: now, mirror: newRecent(limit), local: newRecent(limit)}
}

// Use marks key as used for 660 seconds and tells whether it was not used before:
// of any number of concurrent calls with one key, in all processes, exactly one
// is told true. An error means that Redis did not answer within the client's
// time-outs; the key may then be marked or not.
func (n *Nonces) Use(ctx context.Context, key string) (fresh bool, err error) {
	print, now := fingerprintOf(key), n.now()
	if n.local.has(print, now) || n.mirror.has(print, now) {
		return false, nil
	}
	if !n.gate.enter() {
		return false, ErrAway
	}
	fresh, err = n.ask(ctx, "waypost:nonce:"+key)
	if err != nil {
		return false, fmt.Errorf("use nonce: %w", err)
	}
	n.mirror.add(print, now, true)
	return fresh, nil
}

// asked is one key that Redis is asked about.
type asked struct {
	key   string
	fresh bool
	err   error
	done  chan struct{}
}

// ask marks key in Redis. Calls during a round trip share the next one: a busy gateway
// spends more on the round trips than on anything else that guards a request.
func (n *Nonces) ask(ctx context.Context, key string) (fresh bool, err error) {
	a := &asked{key: key, done: make(chan struct{})}
	n.mu.Lock()
	n.waiting = append(n.waiting, a)
	first := !n.asking
	n.asking = true
	n.mu.Unlock()
	if first {
		go n.askAll()
	}
	select {
	case <-a.done:
		return a.fresh, a.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// askAll asks until no call waits.
func (n *Nonces) askAll() {
	for {
		// Goroutines that are about to ask run first: that costs no time, and fills the batch.
		runtime.Gosched()
		n.mu.Lock()
		batch := n.waiting
		n.waiting, n.asking = nil, len(batch) > 0
		n.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		answers := make([]*redis.BoolCmd, len(batch))
		// The error is also that of each command. A caller may leave before; the client's
		// time-outs bound how long this takes. A round trip that fails is one failure,
		// however many calls share it.
		_, err := n.client.Pipelined(context.Background(), func(p redis.Pipeliner) error {
			for i, a := range batch {
				answers[i] = p.SetNX(context.Background(), a.key, 1, nonceLifetime)
			}
			return nil
		})
		if n.gate.leave(err == nil); err != nil {
			n.gate.miss(len(batch) - 1)
		}
		for i, a := range batch {
			a.fresh, a.err = answers[i].Result()
			close(a.done)
		}
	}
}

// UseLocal does what Use does for this process alone, for requests that go on
// while Redis is away. It also refuses the nonces that this process used
// before. ErrFull means that it cannot promise to remember the key.
func (n *Nonces) UseLocal(key string) (fresh bool, err error) {
	print, now := fingerprintOf(key), n.now()
	if n.mirror.has(print, now) {
		return false, nil
	}
	fresh, added := n.local.add(print, now, false)
	if !added {
		return false, ErrFull
	}
	return fresh, nil
}
