package limits

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// bellWait is how long one call waits for a bell to ring. It is bounded so that a
	// connection that has died without a word is noticed.
	bellWait = 5 * time.Second
	// bellRings is how many rings wait for somebody to hear them: there is nothing more to
	// learn from a hundred.
	bellRings = 16
)

// Bell lets one process tell another one that there is something to do; of those who
// listen, one hears each ring. Rings get lost with Redis: who listens looks now and
// then anyway. It is safe for concurrent use.
type Bell struct {
	client redis.UniversalClient
	key    string
	gate   gate
	rung   chan struct{}
	wait   time.Duration // bellWait
}

// NewBell returns the bell of that name in client, which should have been made with
// ClientOptions.
func NewBell(client redis.UniversalClient, name string) *Bell {
	return &Bell{client: client, key: "waypost:bell:" + name, gate: gate{now: time.Now}, rung: make(chan struct{}, 1), wait: bellWait}
}

// Ring rings the bell, once for all who ask while Run does it. It never blocks.
func (b *Bell) Ring() {
	select {
	case b.rung <- struct{}{}:
	default:
	}
}

// Run carries rings to Redis until ctx ends.
func (b *Bell) Run(ctx context.Context) {
	for {
		select {
		case <-b.rung:
		case <-ctx.Done():
			return
		}
		// One that does not arrive is made up for by looking.
		if !b.gate.enter() {
			continue
		}
		_, err := b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
			p.RPush(ctx, b.key, 1)
			p.LTrim(ctx, b.key, -bellRings, -1)
			return nil
		})
		b.gate.leave(err == nil)
	}
}

// Fallbacks tells how many rings and waits Redis did not carry, and how often it went
// away.
func (b *Bell) Fallbacks() (calls, outages uint64) { return b.gate.fallbacks() }

// Await waits until somebody has rung, for some seconds, or until ctx ends. An error
// means that Redis cannot be heard.
func (b *Bell) Await(ctx context.Context) (rung bool, err error) {
	if !b.gate.enter() {
		return false, ErrAway
	}
	heard := make(chan error, 1)
	// The client does not leave an answer that it waits for when ctx ends.
	go func() {
		err := b.client.BLPop(ctx, b.wait, b.key).Err()
		b.gate.leave(err == nil || errors.Is(err, redis.Nil))
		heard <- err
	}()
	select {
	case err := <-heard:
		if errors.Is(err, redis.Nil) {
			return false, nil
		}
		return err == nil, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
