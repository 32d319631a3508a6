package limits

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
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

	epochs // what Redis is known to remember

	mu      sync.Mutex
	waiting []*asked // for the next round trip
	asking  bool     // whether one is under way
}

// NewNonces returns nonces kept in client, which should have been made with
// ClientOptions, and a horizon that outlives it.
func NewNonces(client redis.UniversalClient, horizon Horizon, log *slog.Logger) *Nonces {
	return newNonces(client, horizon, log, time.Now, maxRecent)
}

func newNonces(client redis.UniversalClient, horizon Horizon, log *slog.Logger, now func() time.Time, limit int) *Nonces {
	return &Nonces{
		client: client, gate: gate{now: now}, now: now, mirror: newRecent(limit), local: newRecent(limit),
		epochs: epochs{client: client, horizon: horizon, log: log, raised: map[string]raised{}},
	}
}

// Use marks the nonce of a signer's request, which was signed at some time, as used for 660 seconds
// and tells whether it was not used before: of any number of concurrent calls with one, in all
// processes, exactly one is told true. If Redis has forgotten nonces that the request could
// have used, because it was signed in or before the second since, it is told false and since.
// An error means that Redis, or the horizon, did not answer within the client's time-outs; the nonce
// may then be marked or not.
func (n *Nonces) Use(ctx context.Context, signer, nonce string, signed time.Time) (unused bool, since time.Time, err error) {
	key := nonceKey(signer, nonce)
	print, now := fingerprintOf(key), n.now()
	if n.local.has(print, now) || n.mirror.has(print, now) {
		return false, since, nil
	}
	if !n.gate.enter() {
		return false, since, ErrAway
	}
	began := time.Now()
	a, err := n.ask(ctx, "waypost:nonce:"+key)
	if err != nil {
		return false, since, fmt.Errorf("use nonce: %w", err)
	}
	n.mirror.add(print, now, true)
	if until := a.epoch.of(signer); a.unused && signed.Unix() <= until {
		return false, time.Unix(until, 0), nil
	}
	if a.unused && signed.Unix() > a.at.Unix()+clockSlack {
		// Redis may have forgotten the nonce since it was marked, before the horizon was written: the epoch
		// that began then does not refuse this request once more, so it is not accepted now.
		if a.before != a.epoch.ID {
			return false, signed, nil
		}
		wrote, err := n.raise(ctx, signer, signed.Add(raiseAhead), began)
		if err != nil {
			return false, since, fmt.Errorf("use nonce: %w", err)
		}
		if wrote {
			then, err := n.ask(ctx, "")
			if err != nil {
				return false, since, fmt.Errorf("use nonce: %w", err)
			}
			if then.epoch.ID != a.epoch.ID {
				return false, signed, nil
			}
		}
	}
	return a.unused, since, nil
}

// nonceKey keeps the nonces of signers apart.
func nonceKey(signer, nonce string) string { return signer + ":" + nonce }

// Begin has Redis' memory be known before the first request, without which one that is signed ahead would be
// refused once, and returns the second up to which
// requests are refused, whoever signs them, because it has forgotten; the zero time if there is none.
func (n *Nonces) Begin(ctx context.Context) (until time.Time, err error) {
	a, err := n.ask(ctx, "")
	if err != nil || a.epoch.Until == 0 {
		return until, err
	}
	return time.Unix(a.epoch.Until, 0), nil
}

// asked is one key that Redis is asked about; "": none.
type asked struct {
	key    string
	unused bool
	before string // the id of the epoch before the key was marked
	epoch  epoch
	at     time.Time // Redis' time
	err    error
	done   chan struct{}
}

// ask marks key in Redis. Calls during a round trip share the next one: a busy gateway
// spends more on the round trips than on anything else that guards a request.
func (n *Nonces) ask(ctx context.Context, key string) (asked, error) {
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
		return *a, a.err
	case <-ctx.Done():
		return asked{}, ctx.Err()
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
		n.askBatch(batch)
	}
}

// askBatch marks keys in one round trip, which then looks whether Redis remembers: one that
// has forgotten any of them before it was marked shows that, whatever happens in between. A caller
// may leave before; the client's time-outs bound how long this takes. A round trip that fails is
// one failure, however many calls share it.
func (n *Nonces) askBatch(batch []*asked) {
	ctx := context.Background()
	answers := make([]*redis.BoolCmd, len(batch))
	var before *redis.StringCmd
	var looked look
	// The error is that of any command; that of the clock tells whether Redis has answered.
	_, _ = n.client.Pipelined(ctx, func(p redis.Pipeliner) error {
		before = p.Get(ctx, epochKey)
		for i, a := range batch {
			if a.key != "" {
				answers[i] = p.SetNX(ctx, a.key, 1, nonceLifetime)
			}
		}
		looked = lookIn(ctx, p)
		return nil
	})
	at, err := looked.clock.Result()
	if n.gate.leave(err == nil); err != nil {
		n.gate.miss(len(batch) - 1)
	}
	var now epoch
	if err == nil {
		now, err = n.check(ctx, looked)
	}
	for i, a := range batch {
		a.before, a.epoch, a.at, a.err = n.parse(before.Val()).ID, now, at, err
		if answers[i] != nil && err == nil {
			a.unused, a.err = answers[i].Result()
		}
		close(a.done)
	}
}

// UseLocal does what Use does for this process alone, for requests that go on
// while Redis is away. It also refuses the nonces that this process used
// before. ErrFull means that it cannot promise to remember the nonce.
func (n *Nonces) UseLocal(signer, nonce string) (unused bool, err error) {
	print, now := fingerprintOf(nonceKey(signer, nonce)), n.now()
	if n.mirror.has(print, now) {
		return false, nil
	}
	unused, added := n.local.add(print, now, false)
	if !added {
		return false, ErrFull
	}
	return unused, nil
}
