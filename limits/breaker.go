package limits

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
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
	// unasked is longer than it takes until somebody of those who are deferred comes for a
	// probe.
	unasked = 10 * time.Minute
	// triesToSwap bounds how often a change is tried while other processes change the
	// same breaker.
	triesToSwap = 10
	// tellTime is how long a caller has to tell those who wait.
	tellTime = 10 * time.Second
	// maxCircuits is how many breakers a process remembers before it looks for idle ones.
	maxCircuits = 1000
)

// Breakers keep callers from receivers that are down: one breaker for each
// circuit, a name of the caller's choice, shared by all processes. A breaker that
// is closed admits everybody and counts; nobody asks Redis for that but once a
// second. One that has opened admits nobody for a pause, and then a single probe
// over all processes, which closes it or begins a longer pause.
//
// Those who were sent away are told when to come again, few of them soon: as many
// as there will be probes. When a breaker has closed, one caller is asked to tell
// the others.
//
// While Redis is away, every process goes on by itself from what it last saw, and
// is corrected when Redis is back. It is safe for concurrent use.
type Breakers struct {
	client redis.UniversalClient // nil: there is no Redis
	gate   gate
	log    *slog.Logger
	now    func() time.Time

	mu       sync.Mutex
	entries  map[string]*entry
	sweep    int // at how many entries idle ones are dropped
	opened   uint64
	reclosed uint64
}

// entry is what this process knows of a breaker.
type entry struct {
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
// Now is time.Now if nil; while there is a Redis, its clock counts.
func NewBreakers(client redis.UniversalClient, log *slog.Logger, now func() time.Time) *Breakers {
	if now == nil {
		now = time.Now
	}
	return &Breakers{client: client, gate: gate{now: now}, log: log, now: now, entries: map[string]*entry{}, sweep: maxCircuits}
}

// Admit admits up to n attempts: all of them if the breaker is closed, one as a
// probe if it is time for that, else none. The ticket is to be given to Alive or
// Failed when an attempt has ended, or to Return if none was made. A probe that
// nobody has heard of after lease is taken for lost. Those who are not admitted
// should stay away for wait.
func (b *Breakers) Admit(ctx context.Context, circuit string, n int, lease time.Duration) (granted int, ticket int64, wait time.Duration) {
	e := b.entry(circuit)
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
func (b *Breakers) Alive(ctx context.Context, circuit string, ticket int64, waited bool) (told func(context.Context)) {
	e := b.entry(circuit)
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
		waited = waited && !e.state.Told && e.state.Telling <= now
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
	return func(ctx context.Context) { b.told(ctx, circuit, closing) }
}

// Failed says that an attempt has failed in a way that says something about the
// receiver. Of ordinary attempts only the first ones of a message count: a message
// that the receiver does not get along with fails again and again. Answered says
// that there was an answer. An attempt that took so long that another one, which
// ended meanwhile, has succeeded says nothing: the last to end are the slow ones.
func (b *Breakers) Failed(ctx context.Context, circuit string, ticket int64, first, answered bool, took time.Duration) {
	e := b.entry(circuit)
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
	e := b.entry(circuit)
	e.mu.Lock()
	probe := e.state.Open && e.state.Epoch == ticket
	e.mu.Unlock()
	if probe {
		b.change(ctx, e, func(c *breaker, now int64) {
			if c.Open && c.Epoch == ticket {
				c.Lease = min(c.Lease, now) // which still tells that somebody has come
			}
		})
	}
}

// told notes that all who waited for this closing were told. Without it, and after
// ten seconds, another caller is asked to. Whoever has told of one closing knows
// nothing of those who wait for the next.
func (b *Breakers) told(ctx context.Context, circuit string, closing int64) {
	b.change(ctx, b.entry(circuit), func(c *breaker, _ int64) {
		if !c.Open && c.Epoch == closing {
			c.Told, c.Telling = true, 0
		}
	})
}

// Holds tells whether the breaker is open or half-open. Whoever writes down that
// it waits and asks this afterwards is not left behind when all are told.
func (b *Breakers) Holds(ctx context.Context, circuit string) bool {
	e := b.entry(circuit)
	b.change(ctx, e, func(*breaker, int64) {})
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.state.Open
}

// State is where a breaker stands.
type State struct {
	Name string // closed, open or halfOpen
	// Since is when it opened or closed, zero if it was not open of late.
	Since time.Time
	// NextProbe is before when nobody is admitted, zero if somebody may be as a probe,
	// or was.
	NextProbe time.Time
}

// State tells where a breaker stands, and changes nothing. It is false if Redis does
// not answer: others may know better than this process.
func (b *Breakers) State(ctx context.Context, circuit string) (State, bool) {
	var c breaker
	var now int64
	if b.client == nil {
		e := b.entry(circuit)
		e.mu.Lock()
		c, now = e.state, e.time(b.now())
		e.mu.Unlock()
	} else {
		if !b.gate.enter() {
			return State{}, false
		}
		var err error
		if c, _, now, err = b.look(ctx, circuit); err != nil {
			if ctx.Err() == nil && b.gate.leave(false) {
				b.logAway(ctx, err)
			}
			return State{}, false
		}
		if b.gate.leave(true) {
			b.logBack(ctx)
		}
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

// Open counts the breakers that are open, of those that this process has seen open and
// that somebody has come to: where nobody has come for a probe for ten minutes, all who
// waited were canceled, their webhook is gone, or none of them is due for longer.
func (b *Breakers) Open(ctx context.Context) (n int) {
	seen := map[string]*entry{}
	b.mu.Lock()
	for circuit, e := range b.entries {
		seen[circuit] = e
	}
	b.mu.Unlock()
	for circuit, e := range seen {
		e.mu.Lock()
		open := e.state.Open
		e.mu.Unlock()
		if !open || !b.Holds(ctx, circuit) {
			continue
		}
		e.mu.Lock()
		if e.time(b.now())-max(e.state.Until, e.state.Lease) < unasked.Milliseconds() {
			n++
		}
		e.mu.Unlock()
	}
	return n
}

// Fallbacks tells how many changes were made without Redis since the process
// began, and how often Redis went away.
func (b *Breakers) Fallbacks() (calls, outages uint64) { return b.gate.fallbacks() }

func (b *Breakers) entry(circuit string) *entry {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := b.entries[circuit]
	if e == nil {
		if len(b.entries) >= b.sweep {
			b.dropIdle()
		}
		e = &entry{circuit: circuit}
		b.entries[circuit] = e
	}
	return e
}

// dropIdle forgets breakers that are closed and were not asked for a while; a cache
// of a fixed size would forget open ones. The caller holds mu.
func (b *Breakers) dropIdle() {
	now := b.now()
	for circuit, e := range b.entries {
		e.mu.Lock()
		if !e.state.Open && now.Sub(e.synced) > calm {
			delete(b.entries, circuit)
		}
		e.mu.Unlock()
	}
	b.sweep = max(maxCircuits, 2*len(b.entries))
}

// time is the time of the breaker's clock, in milliseconds. The caller holds mu.
func (e *entry) time(local time.Time) int64 { return local.UnixMilli() + e.skew }

// change counts what was tallied and applies something to a breaker, in Redis if
// that answers; apply may be called several times. It is false, and nothing is
// changed, if other processes changed the breaker all the time.
func (b *Breakers) change(ctx context.Context, e *entry, apply func(c *breaker, now int64)) bool {
	e.talk.Lock()
	defer e.talk.Unlock()
	e.mu.Lock()
	counted := e.tally
	e.tally = tally{}
	alone := e.alone
	e.mu.Unlock()

	if b.client != nil && b.gate.enter() {
		before, after, now, err := b.swap(ctx, e.circuit, counted, func(c *breaker, now int64) {
			if alone && !c.Open { // those whom this process has sent away meanwhile wait
				c.Told, c.Telling = false, 0
				c.Epoch++ // whoever is telling now does not know of them
			}
			apply(c, now)
		})
		if err == nil {
			if b.gate.leave(true) {
				b.logBack(ctx)
			}
			b.keep(ctx, e, before, after, now, alone && after == nil)
			return after != nil
		}
		// A caller that leaves says nothing about Redis.
		if ctx.Err() == nil && b.gate.leave(false) {
			b.logAway(ctx, err)
		}
	}
	e.mu.Lock()
	before, now := e.state, e.time(b.now())
	e.mu.Unlock()
	after := before
	after.count(counted, now)
	apply(&after, now)
	b.keep(ctx, e, before, &after, now, b.client != nil && (alone || after.Open))
	return true
}

func (b *Breakers) logAway(ctx context.Context, err error) {
	b.log.LogAttrs(ctx, slog.LevelWarn, "the breakers' Redis is away: every process has its own breakers", slog.String("error", err.Error()))
}

func (b *Breakers) logBack(ctx context.Context) {
	b.log.LogAttrs(ctx, slog.LevelInfo, "the breakers' Redis is back")
}

// keep notes what a breaker is now; a nil after is what it was.
func (b *Breakers) keep(ctx context.Context, e *entry, before breaker, after *breaker, now int64, alone bool) {
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
		b.log.LogAttrs(ctx, slog.LevelWarn, "breaker opened: deliveries wait", slog.String("webhook", webhook))
		return
	}
	b.reclosed++
	b.log.LogAttrs(ctx, slog.LevelInfo, "breaker closed: deliveries go on", slog.String("webhook", webhook),
		slog.String("after", (time.Duration(after.Closed-after.Opened)*time.Millisecond).String()))
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

// The algorithm: a level rises by one with every first attempt that fails, falls
// by four with every success, and leaks. It reaches what opens the breaker only if
// more than four of five fail, and more than two a second; then within a few
// attempts, however many have succeeded before.
const (
	tripLevel    = 20
	successDrop  = 4
	leakPerMilli = 2.0 / 1000
	// An answer that is an error opens the breaker only if it goes on for this time:
	// some receivers refuse everything once or twice, and no retry has come by then.
	answeredTime = 3 * time.Second

	// A breaker that is open doubles its pause after each probe. The pause is part of the
	// state that processes share, so no library's back-off keeps it.
	firstPause = time.Second
	maxPause   = 30 * time.Second
	// A breaker that opens again within calm after it has closed has contradicted
	// itself: it then takes four times as much each time, up to maxPatience times.
	calm          = time.Minute
	patienceGrows = 4
	maxPatience   = 256
	// far is how long those stay away on average whom no probe needs: until they are
	// told. They come by and by, in case that goes wrong, or those who were to come
	// sooner do not.
	far = 30 * time.Minute
)

// breaker is the state of a breaker: what is shared, and the rules by which it
// changes. Times are milliseconds of Unix time. The zero value is closed.
type breaker struct {
	Epoch  int64   `json:"epoch"`            // counts opening, probes and closing; a ticket
	Level  float64 `json:"level,omitempty"`  // of failures
	Silent float64 `json:"silent,omitempty"` // of failures without an answer
	At     int64   `json:"at,omitempty"`     // of Level and Silent
	Rose   int64   `json:"rose,omitempty"`   // since when Level is above 0
	Open   bool    `json:"open,omitempty"`   // or half-open, from Until on
	Opened int64   `json:"opened,omitempty"`
	Closed int64   `json:"closed,omitempty"`
	Until  int64   `json:"until,omitempty"` // no probe before it
	Pause  int64   `json:"pause,omitempty"` // the present one
	Lease  int64   `json:"lease,omitempty"` // a probe is under way until it
	// Turn is when the last of those comes who were told to come for a probe, Spacing
	// how long after the one before.
	Turn     int64 `json:"turn,omitempty"`
	Spacing  int64 `json:"spacing,omitempty"`
	Patience int64 `json:"patience,omitempty"` // that the last opening took
	// Told says that those who waited know of the closing, Telling until when somebody
	// is at it.
	Told    bool  `json:"told,omitempty"`
	Telling int64 `json:"telling,omitempty"`
}

// admit is Admit at a time.
func (c *breaker) admit(now int64, n int, lease time.Duration) (granted int, wait time.Duration) {
	switch {
	case !c.Open:
		return n, 0
	case now < c.Until && c.Until <= now+maxPause.Milliseconds(): // it is later if a clock was set back
		return 0, c.turn(now, c.Until)
	case now < c.Lease:
		return 0, c.turn(now, max(now+c.Pause, min(c.Lease, now+maxPause.Milliseconds())))
	}
	c.Epoch++
	c.Lease = now + lease.Milliseconds()
	if n > 1 {
		wait = c.turn(now, now+c.nextPause())
	}
	return 1, wait
}

// turn tells somebody when to come again, not before earliest: at the time of a
// probe that nobody else will come for, if it is not too far away.
func (c *breaker) turn(now, earliest int64) time.Duration {
	next, spacing := earliest, c.Pause
	if c.Turn >= now {
		spacing = min(2*c.Spacing, maxPause.Milliseconds())
		next = max(c.Turn+spacing, earliest)
	}
	if next-now > far.Milliseconds() {
		return maxPause + time.Duration(rand.Float64()*float64(2*far-maxPause))
	}
	c.Turn, c.Spacing = next, spacing
	return time.Duration(next-now) * time.Millisecond
}

func (c *breaker) nextPause() int64 { return min(2*c.Pause, maxPause.Milliseconds()) }

// reopen begins a longer pause after a probe that failed.
func (c *breaker) reopen(now int64) {
	c.Pause = c.nextPause()
	// Whoever comes for the next probe was told to when this one began.
	c.Until, c.Lease = now+c.Pause*3/4, 0
}

func (c *breaker) close(now int64) {
	*c = breaker{Epoch: c.Epoch + 1, At: now, Opened: c.Opened, Closed: now, Patience: c.Patience}
}

// tell tells whether the caller is to tell those who wait.
func (c *breaker) tell(now int64) bool {
	if c.Told || now < c.Telling {
		return false
	}
	c.Telling = now + tellTime.Milliseconds()
	return true
}

// count takes over a tally, and opens the breaker if it is time to.
func (c *breaker) count(t tally, now int64) (opens bool) {
	if t.at > 0 && !c.Open {
		c.leak(min(t.begun, late(now)))
		c.Level, c.Silent = t.level.of(c.Level), t.silent.of(c.Silent)
		c.At = max(c.At, min(t.at, late(now)))
		if c.Level > 0 && c.Rose == 0 {
			c.Rose = t.failedAt
		}
	}
	c.leak(late(now))
	if c.Open {
		return false
	}
	patience := int64(1)
	if c.Closed > 0 && now-c.Closed < calm.Milliseconds() {
		patience = min(patienceGrows*max(c.Patience, 1), maxPatience)
	}
	trips := float64(tripLevel * patience)
	if c.Silent < trips && (c.Level < trips || now-c.Rose < answeredTime.Milliseconds()*patience) {
		return false
	}
	*c = breaker{
		Epoch: c.Epoch + 1, Open: true, At: c.At, Opened: now, Closed: c.Closed, Patience: patience,
		Pause: firstPause.Milliseconds(), Until: now + firstPause.Milliseconds(),
	}
	return true
}

// late is until when levels may have leaked: what other processes have seen since
// then may not be counted yet, and must find the level that there was.
func late(now int64) int64 { return now - syncEvery.Milliseconds() }

// leak brings the levels up to a time.
func (c *breaker) leak(until int64) {
	if until <= c.At {
		return
	}
	leaked := float64(until-c.At) * leakPerMilli
	c.Level, c.Silent, c.At = max(0, c.Level-leaked), max(0, c.Silent-leaked), until
	if c.Level == 0 {
		c.Rose = 0
	}
}

// most bounds the levels: successes must be able to bring them down.
func (c *breaker) most() float64 {
	return 2 * tripLevel * float64(min(patienceGrows*max(c.Patience, 1), maxPatience))
}

// tally is what has happened since the last count.
type tally struct {
	level, silent drift
	begun         int64 // when the first of it happened
	at            int64 // until when it has leaked
	failedAt      int64 // when the first failure happened
}

func (t *tally) alive(most float64, now int64) {
	t.leak(most, now)
	t.level.add(-successDrop, most)
	t.silent.add(-successDrop, most)
}

func (t *tally) failed(most float64, answered bool, now int64) {
	t.leak(most, now)
	if t.failedAt == 0 {
		t.failedAt = now
	}
	t.level.add(1, most)
	if !answered {
		t.silent.add(1, most)
	}
}

func (t *tally) leak(most float64, now int64) {
	if t.at == 0 {
		t.begun, t.at = now, now
	}
	if until := late(now); until > t.at {
		leaked := float64(until-t.at) * leakPerMilli
		t.level.add(-leaked, most)
		t.silent.add(-leaked, most)
		t.at = until
	}
}

// drift is the sum of steps that a level takes between 0 and a bound, whatever it
// begins with: so the order of successes and failures is not lost.
type drift struct {
	steps   bool
	sum     float64
	lowest  float64 // where the steps lead from 0
	highest float64 // where they lead from the bound
}

func (d *drift) add(step, most float64) {
	if !d.steps {
		d.steps, d.highest = true, most
	}
	d.sum += step
	d.lowest = min(max(0, d.lowest+step), most)
	d.highest = min(max(0, d.highest+step), most)
}

func (d drift) of(level float64) float64 {
	if !d.steps {
		return level
	}
	return min(max(d.lowest, level+d.sum), d.highest)
}
