package limits

import (
	"context"
	"errors"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// signalWait bounds one wait for a notice, so that a connection that is dead without an
	// error is noticed.
	signalWait = 5 * time.Second
	// maxNotices is how many notices Redis keeps while nobody waits for one: a hundred say
	// no more than one does.
	maxNotices = 16
)

// Signal carries notices that there is something to do from one process to another. Of the
// processes that wait, one gets each notice. A notice may be lost with Redis, so every
// process also looks now and then. It is safe for concurrent use.
type Signal struct {
	gate
	client redis.UniversalClient
	key    string
	notice chan struct{} // holds a value while Run has one to carry
	wait   time.Duration // signalWait
}

// NewSignal returns the signal of that name in client, which should have been made with
// ClientOptions.
func NewSignal(client redis.UniversalClient, name string) *Signal {
	return &Signal{
		client: client, key: "waypost:signal:" + name, gate: gate{now: time.Now}, notice: make(chan struct{}, 1), wait: signalWait,
	}
}

// Send gives a notice; several calls before Run carries it are one. It never blocks.
func (s *Signal) Send() {
	select {
	case s.notice <- struct{}{}:
	default:
	}
}

// Run carries notices to Redis until ctx ends.
func (s *Signal) Run(ctx context.Context) {
	for {
		select {
		case <-s.notice:
		case <-ctx.Done():
			return
		}
		s.gate.call(ctx, func() error {
			_, err := s.client.Pipelined(ctx, func(p redis.Pipeliner) error {
				p.RPush(ctx, s.key, 1)
				p.LTrim(ctx, s.key, -maxNotices, -1)
				return nil
			})
			return err
		})
	}
}

// Await waits for a notice, for some seconds or until ctx ends. An error means that Redis
// does not answer.
func (s *Signal) Await(ctx context.Context) (noticed bool, err error) {
	if !s.gate.enter() {
		return false, ErrAway
	}
	answer := make(chan error, 1)
	// BLPop returns some seconds later than ctx ends, so nobody waits for it.
	go func() {
		err := s.client.BLPop(ctx, s.wait, s.key).Err()
		s.gate.leave(err == nil || errors.Is(err, redis.Nil))
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
