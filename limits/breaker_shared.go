package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// syncEvery is how old what a process knows of a closed breaker may be.
	syncEvery = time.Second
	// An open breaker is forgotten after this time without anybody who asks, a closed
	// one that has seen failures earlier.
	keptOpen   = time.Hour
	keptClosed = 10 * time.Minute
	// unasked is longer than it takes until one of the deferred callers comes for a probe.
	unasked = 10 * time.Minute
	// triesToSwap bounds how often a change is tried while other processes change the
	// same breaker.
	triesToSwap = 10
	// maxCircuits is how many breakers a process remembers before it looks for idle ones.
	maxCircuits = 1000
)

// Breakers keep callers from receivers that are down: one breaker for each
// circuit, a name of the caller's choice, shared by all processes. A breaker that
// is closed admits all and counts; each process asks Redis for it once a second. One that
// has opened admits none for a pause, and then a single probe over all processes, which
// closes it or begins a longer pause.
//
// A caller that is not admitted is told when to come again: as many callers soon as there
// will be probes, the others much later. When a breaker has closed, one caller is asked to
// tell all who wait.
//
// While Redis is away, every process goes on by itself from what it last saw, and
// is corrected when Redis is back. It is safe for concurrent use.
type Breakers struct {
	gate
	client redis.UniversalClient // nil: there is no Redis
	log    *slog.Logger
	now    func() time.Time

	mu       sync.Mutex // of all below
	locals   map[string]*localBreaker
	sweep    int // at how many locals idle ones are dropped
	opened   uint64
	reclosed uint64
}

// localBreaker is what this process knows of a breaker.
type localBreaker struct {
	circuit string
	talk    sync.Mutex // held while the breaker is changed, in Redis or here

	mu     sync.Mutex
	state  breaker
	tally  tally // not counted in state
	synced time.Time
	skew   int64 // Redis' clock ahead of this process's, in milliseconds
	alive  int64 // when this process last saw an attempt succeed, by the breaker's clock
	alone  bool  // whether this process had it open while Redis is away
}

// NewBreakers returns breakers kept in client, which should have been made with
// ClientOptions; with a nil client they are this process's own. It logs when a
// breaker opens or closes in this process, and when Redis goes away and is back.
// While there is a Redis, its clock counts instead of now.
func NewBreakers(client redis.UniversalClient, log *slog.Logger, now func() time.Time) *Breakers {
	return &Breakers{client: client, log: log, now: now, locals: map[string]*localBreaker{}, sweep: maxCircuits, gate: gate{
		now: now, log: log,
		away: "the breakers' Redis is away: every process has its own breakers", back: "the breakers' Redis is back",
	}}
}

// Admit admits up to n attempts: all of them if the breaker is closed, one as a
// probe if it is time for that, else none. The ticket is to be given to Alive or
// Failed when an attempt has ended, or to Return if none was made. A probe that has not
// ended after lease counts as lost. The others should stay away for wait.
func (b *Breakers) Admit(ctx context.Context, circuit string, n int, lease time.Duration) (granted int, ticket int64, wait time.Duration) {
	e := b.find(circuit)
	e.mu.Lock()
	if !e.state.Open && b.now().Sub(e.synced) < syncEvery {
		defer e.mu.Unlock()
		return n, e.state.Epoch, 0
	}
	e.mu.Unlock()
	if !b.change(ctx, e, func(c *breaker, now int64) {
		granted, wait = c.admit(now, n, lease)
		if ticket = c.Epoch; granted == 0 {
			ticket = 0 // that of the probe under way belongs to another
		}
	}) {
		return 0, 0, firstPause // others change it at this very moment
	}
	return granted, ticket, wait
}

// Alive says that an attempt has shown a receiver that works. If it returns a
// function, the caller is to tell all who wait for the breaker, and then to call
// that; waited says that this attempt was one of those.
func (b *Breakers) Alive(ctx context.Context, circuit string, ticket int64, waited bool) (announced func(context.Context)) {
	e := b.find(circuit)
	e.mu.Lock()
	probe := e.state.Open
	if e.state.Epoch != ticket {
		e.mu.Unlock()
		return nil
	}
	e.alive = e.time(b.now())
	if !probe {
		now := e.alive
		e.tally.alive(e.state.most(), now)
		waited = waited && !e.state.Announced && e.state.AnnouncedBy <= now
	}
	e.mu.Unlock()
	if !probe && !waited {
		return nil
	}
	var tell bool
	var closing int64
	b.change(ctx, e, func(c *breaker, now int64) {
		if c.Open && c.Epoch == ticket {
			c.close(now)
		}
		tell, closing = !c.Open && c.tell(now), c.Epoch
	})
	if !tell {
		return nil
	}
	// If it is not called within tellTime, another caller is asked to tell. A caller that
	// tells of one closing knows nothing of who waits for the next.
	return func(ctx context.Context) {
		b.change(ctx, b.find(circuit), func(c *breaker, _ int64) {
			if !c.Open && c.Epoch == closing {
				c.Announced, c.AnnouncedBy = true, 0
			}
		})
	}
}

// Failed says that an attempt has failed in a way that says something about the
// receiver, and answered whether there was an answer. Unless it was a probe, it counts
// only as the first attempt of its message, because a receiver may fail at one message
// again and again, and only if none has succeeded since it began, because the slow ones
// end last.
func (b *Breakers) Failed(ctx context.Context, circuit string, ticket int64, first, answered bool, took time.Duration) {
	e := b.find(circuit)
	e.mu.Lock()
	probe, trips := e.state.Open, false
	began := e.time(b.now()) - took.Milliseconds()
	if e.state.Epoch != ticket || !probe && (!first || began < e.alive) {
		e.mu.Unlock()
		return
	}
	if !probe {
		now := e.time(b.now())
		e.tally.failed(e.state.most(), answered, now)
		foreseen := e.state
		trips = foreseen.count(e.tally, now)
	}
	e.mu.Unlock()
	if !probe && !trips {
		return
	}
	b.change(ctx, e, func(c *breaker, now int64) {
		if c.Open && c.Epoch == ticket {
			c.reopen(now)
		}
	})
}

// Return says that no attempt was made with the ticket: if it was a probe's,
// another may be made.
func (b *Breakers) Return(ctx context.Context, circuit string, ticket int64) {
	e := b.find(circuit)
	if known, _ := b.known(e); known.Open && known.Epoch == ticket {
		b.change(ctx, e, func(c *breaker, now int64) {
			if c.Open && c.Epoch == ticket {
				c.Lease = min(c.Lease, now) // a time in the past still shows when a caller came
			}
		})
	}
}

// Holds tells whether the breaker is open or half-open. A caller that first records that
// it waits, and then asks this, is not left behind when all are told.
func (b *Breakers) Holds(ctx context.Context, circuit string) bool {
	e := b.find(circuit)
	b.change(ctx, e, func(*breaker, int64) {})
	known, _ := b.known(e)
	return known.Open
}

// OpenSince is when the breaker opened, as far as this process knows, which asks nobody; zero
// if it is closed. All processes that share a Redis know an opening by the same time.
func (b *Breakers) OpenSince(circuit string) time.Time {
	b.mu.Lock()
	e := b.locals[circuit]
	b.mu.Unlock()
	if e == nil {
		return time.Time{}
	}
	if c, _ := b.known(e); c.Open {
		return time.UnixMilli(c.Opened).UTC()
	}
	return time.Time{}
}

// State is where a breaker stands.
type State struct {
	Name string // closed, open or halfOpen
	// Since is when it opened or closed, zero if it was not open of late.
	Since time.Time
	// NextProbe is until when none is admitted, zero if a probe may be made, or is.
	NextProbe time.Time
}

// State tells where a breaker stands, and changes nothing. It is false if Redis does
// not answer: others may know better than this process.
func (b *Breakers) State(ctx context.Context, circuit string) (State, bool) {
	var c breaker
	var now int64
	look := func() (err error) {
		c, _, now, err = b.look(ctx, circuit)
		return err
	}
	if b.client == nil {
		c, now = b.known(b.find(circuit))
	} else if !b.gate.call(ctx, look) {
		return State{}, false
	}
	at := func(millis int64) time.Time {
		if millis == 0 {
			return time.Time{}
		}
		return time.UnixMilli(millis).UTC()
	}
	if !c.Open {
		return State{Name: "closed", Since: at(c.Closed)}, true
	}
	if now < c.Until {
		return State{Name: "open", Since: at(c.Opened), NextProbe: at(c.Until)}, true
	}
	return State{Name: "halfOpen", Since: at(c.Opened)}, true
}

// Changes tells how often breakers were opened and closed by this process.
func (b *Breakers) Changes() (opened, closed uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.opened, b.reclosed
}

// Open counts the open breakers that this process knows, without those that no caller has
// asked for a probe for ten minutes: all who waited were canceled, their webhook is gone,
// or none of them is due for longer.
func (b *Breakers) Open(ctx context.Context) (n int) {
	b.mu.Lock()
	seen := maps.Clone(b.locals)
	b.mu.Unlock()
	for circuit, e := range seen {
		if before, _ := b.known(e); !before.Open || !b.Holds(ctx, circuit) {
			continue
		}
		if c, now := b.known(e); now-max(c.Until, c.Lease) < unasked.Milliseconds() {
			n++
		}
	}
	return n
}

func (b *Breakers) find(circuit string) *localBreaker {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.locals[circuit]
	if e == nil {
		if len(b.locals) >= b.sweep {
			b.dropIdle()
		}
		e = &localBreaker{circuit: circuit}
		b.locals[circuit] = e
	}
	return e
}

// dropIdle forgets breakers that are closed and were not asked for a while; a cache
// of a fixed size would forget open ones. The caller holds mu.
func (b *Breakers) dropIdle() {
	now := b.now()
	for circuit, e := range b.locals {
		e.mu.Lock()
		if !e.state.Open && now.Sub(e.synced) > calm {
			delete(b.locals, circuit)
		}
		e.mu.Unlock()
	}
	b.sweep = max(maxCircuits, 2*len(b.locals))
}

// time is the time of the breaker's clock, in milliseconds. The caller holds mu.
func (e *localBreaker) time(local time.Time) int64 { return local.UnixMilli() + e.skew }

// known is what this process knows of a breaker, and the time of its clock.
func (b *Breakers) known(e *localBreaker) (c breaker, now int64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state, e.time(b.now())
}

// change counts what was tallied and applies something to a breaker, in Redis if
// that answers; apply may be called several times. It is false, and nothing is
// changed, if other processes changed the breaker all the time.
func (b *Breakers) change(ctx context.Context, e *localBreaker, apply func(c *breaker, now int64)) bool {
	e.talk.Lock()
	defer e.talk.Unlock()
	e.mu.Lock()
	counted := e.tally
	e.tally = tally{}
	alone := e.alone
	e.mu.Unlock()

	var before breaker
	var after *breaker
	var now int64
	swap := func() (err error) {
		before, after, now, err = b.swap(ctx, e.circuit, counted, func(c *breaker, now int64) {
			if alone && !c.Open { // the callers that this process has sent away meanwhile wait
				c.Announced, c.AnnouncedBy = false, 0
				c.Epoch++ // whoever is telling now does not know of them
			}
			apply(c, now)
		})
		return err
	}
	if b.client != nil && b.gate.call(ctx, swap) {
		b.note(ctx, e, before, after, now, alone && after == nil)
		return after != nil
	}
	before, now = b.known(e)
	local := before
	local.count(counted, now)
	apply(&local, now)
	b.note(ctx, e, before, &local, now, b.client != nil && (alone || local.Open))
	return true
}

// note sets what a breaker is now; a nil after is what it was.
func (b *Breakers) note(ctx context.Context, e *localBreaker, before breaker, after *breaker, now int64, alone bool) {
	if after == nil {
		after = &before
	}
	local := b.now()
	e.mu.Lock()
	e.state, e.synced, e.skew, e.alone = *after, local, now-local.UnixMilli(), alone
	e.mu.Unlock()
	if before.Open == after.Open {
		return
	}
	webhook, _, _ := strings.Cut(e.circuit, "/")
	b.mu.Lock()
	defer b.mu.Unlock()
	if after.Open {
		b.opened++
		b.log.WarnContext(ctx, "breaker opened: deliveries wait", "webhook", webhook)
		return
	}
	b.reclosed++
	b.log.InfoContext(ctx, "breaker closed: deliveries go on", "webhook", webhook,
		"after", (time.Duration(after.Closed-after.Opened) * time.Millisecond).String())
}

var (
	// Redis' clock is everybody's.
	lookScript = redis.NewScript(`local t = redis.call('TIME')
return {t[1] * 1000 + math.floor(t[2] / 1000), redis.call('GET', KEYS[1]) or ''}`)
	swapScript = redis.NewScript(`if (redis.call('GET', KEYS[1]) or '') ~= ARGV[1] then return 0 end
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1`)
)

// swap changes a breaker in Redis. It returns what it was and is, and Redis' time;
// a nil after says that others were faster every time.
func (b *Breakers) swap(ctx context.Context, circuit string, counted tally, apply func(c *breaker, now int64)) (before breaker, after *breaker, now int64, err error) {
	for range triesToSwap {
		var raw string
		if before, raw, now, err = b.look(ctx, circuit); err != nil {
			return before, nil, 0, err
		}
		c := before
		before.leak(late(now))
		c.count(counted, now)
		apply(&c, now)
		if c == before {
			return before, &c, now, nil // nothing that others need to know
		}
		next, err := json.Marshal(c)
		if err != nil {
			return before, nil, 0, fmt.Errorf("encode breaker: %w", err)
		}
		kept := keptClosed
		if c.Open {
			kept = keptOpen
		}
		swapped, err := swapScript.Run(ctx, b.client, breakerKey(circuit), raw, next, kept.Milliseconds()).Int()
		if err != nil {
			return before, nil, 0, fmt.Errorf("write breaker: %w", err)
		}
		if swapped == 1 {
			return before, &c, now, nil
		}
	}
	return before, nil, now, nil
}

func breakerKey(circuit string) []string { return []string{"waypost:breaker/" + circuit} }

// look reads a breaker, as it is and as it is written in Redis, and Redis' time.
func (b *Breakers) look(ctx context.Context, circuit string) (c breaker, raw string, now int64, err error) {
	answer, err := lookScript.Run(ctx, b.client, breakerKey(circuit)).Slice()
	if err != nil {
		return c, "", 0, fmt.Errorf("read breaker: %w", err)
	}
	if len(answer) == 2 {
		now, _ = answer[0].(int64)
		raw, _ = answer[1].(string)
	}
	// What cannot be read was written by another build, and is replaced.
	if raw != "" && json.Unmarshal([]byte(raw), &c) != nil {
		c = breaker{}
	}
	return c, raw, now, nil
}
