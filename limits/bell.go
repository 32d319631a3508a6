package limits

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// bellWait bounds one wait for a notice, so that a connection that is dead without an
	// error is noticed.
	bellWait = 5 * time.Second
	// maxNotices is how many notices Redis keeps while nobody waits for one: a hundred say
	// no more than one does.
	maxNotices = 16
)

// Bell carries notices that there is something to do from one process to another. Of the
// processes that wait, one gets each notice. A notice may be lost with Redis, so every
// process also looks now and then. It is safe for concurrent use.
type Bell struct {
	gate
	client redis.UniversalClient
	key    string
	notice chan struct{} // holds a value while Run has one to carry
	wait   time.Duration // bellWait
}

// NewBell returns the bell of that name in client, which should have been made with
// ClientOptions.
func NewBell(client redis.UniversalClient, name string) *Bell {
	return &Bell{client: client, key: "waypost:bell:" + name, gate: gate{now: time.Now}, notice: make(chan struct{}, 1), wait: bellWait}
}

// Ring gives a notice; several calls before Run carries it are one. It never blocks.
func (b *Bell) Ring() {
	select {
	case b.notice <- struct{}{}:
	default:
	}
}

// Run carries notices to Redis until ctx ends.
func (b *Bell) Run(ctx context.Context) {
	for {
		select {
		case <-b.notice:
		case <-ctx.Done():
			return
		}
		b.gate.call(ctx, func() error {
			_, err := b.client.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.RPush(ctx, b.key, 1)
				p.LTrim(ctx, b.key, -maxNotices, -1)
				return nil
			})
			return err
		})
	}
}

// Await waits for a notice, for some seconds or until ctx ends. An error means that Redis
// does not answer.
func (b *Bell) Await(ctx context.Context) (noticed bool, err error) {
	if !b.gate.enter() {
		return false, ErrAway
	}
	answer := make(chan error, 1)
	// BLPop returns some seconds later than ctx ends, so nobody waits for it.
	go func() {
		err := b.client.BLPop(ctx, b.wait, b.key).Err()
		b.gate.leave(err == nil || errors.Is(err, redis.Nil))
		answer <- err
	}()
	select {
	case err := <-answer:
		if errors.Is(err, redis.Nil) {
			return false, nil
		}
		return err == nil, err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}
