package limits

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

// nonceLifetime is how long a nonce is remembered (contract, chapter 4): longer
// than a request can be valid.
const nonceLifetime = 660 * time.Second

// ErrFull says that the in-process cache can take no more nonces without
// forgetting one too early.
var ErrFull = errors.New("the in-process nonce cache is full")

// Nonces remembers which nonces were used, so that no signed request counts
// twice. It is safe for concurrent use.
type Nonces struct {
	client redis.UniversalClient
	gate   gate
	now    func() time.Time
	// mirror holds what this process wrote to Redis, so that it is still refused
	// when Redis goes away. It may forget. local holds what was used while Redis
	// was away and stands nowhere else: it is asked also when Redis is back.
	mirror, local *recent
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
	fresh, err = n.client.SetNX(ctx, "waypost:nonce:"+key, 1, nonceLifetime).Result()
	if err != nil {
		if ctx.Err() == nil { // a caller that leaves says nothing about Redis
			n.gate.leave(false)
		}
		return false, fmt.Errorf("use nonce: %w", err)
	}
	n.gate.leave(true)
	n.mirror.add(print, now, true)
	return fresh, nil
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

// Fallbacks tells how many calls of Use Redis has not answered since the process
// began, and how often Redis went away.
func (n *Nonces) Fallbacks() (calls, outages uint64) { return n.gate.fallbacks() }
