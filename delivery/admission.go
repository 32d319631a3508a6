package delivery

import (
	"cmp"
	"context"
	"sync"
	"time"

	"waypost"
)

// Admission says how many POSTs to a webhook may begin now. It never waits: a message that
// is not admitted is deferred, so that one webhook's limits do not hold up another.
type Admission interface {
	// Admit admits up to n POSTs to the webhook. If it admits fewer, reason says why
	// (a Defer… value), and wait after what time at least the others should ask again.
	Admit(ctx context.Context, hook waypost.Webhook, n int) (granted int, reason string, wait time.Duration)
	// Done says that n POSTs that were admitted have ended or will not be made.
	Done(webhookID string, n int)
	// PostTime estimates how long a POST to the webhook takes.
	PostTime(webhookID string) time.Duration
}

// admitAll is the Admission of an Engine without one.
type admitAll struct{}

func (admitAll) Admit(_ context.Context, _ waypost.Webhook, n int) (int, string, time.Duration) {
	return n, "", 0
}

func (admitAll) Done(string, int)              {}
func (admitAll) PostTime(string) time.Duration { return 0 }

// Tokens takes up to n tokens of a bucket that holds burst tokens and gets
// perSecond a second, over all processes; it tells how many it got and, if fewer,
// how long it takes at least until there is another one.
type Tokens func(ctx context.Context, key string, perSecond float64, burst, n int) (allowed int, retryAfter time.Duration)

const (
	// defaultConcurrency bounds the POSTs of a process to a webhook that sets no
	// bound of its own.
	defaultConcurrency = 1000
	// processConcurrency bounds the POSTs to all webhooks. Each needs a file descriptor, and
	// fails without one: NewGate gets a lower bound where there are few.
	processConcurrency = 4000
	// leastConcurrency is what every webhook has, however many POSTs others have under way.
	// fullAway is the least wait of an item that finds the process full.
	leastConcurrency = 4
	fullAway         = time.Second
	// Bounds of the wait of items that are not admitted, whatever the estimate says: each
	// try has its cost, and an estimate is wrong where others gave up.
	minAway = 100 * time.Millisecond
	maxAway = 5 * time.Minute
	// guessedPOST stands for the time that a POST takes until some have ended.
	guessedPOST = 200 * time.Millisecond
	// remembered is how many POSTs the estimate of that time goes back.
	remembered = 1000
	// maxIdleLines bounds the idle webhooks that a Gate remembers.
	maxIdleLines = 1000
)

// Gate is the Admission of a process. It admits as many POSTs as the webhook's
// maxConcurrency allows in this process, no more than then stay free for other webhooks, but
// always leastConcurrency, and as many as its rateLimit allows over all processes. Make it
// with NewGate.
type Gate struct {
	tokens Tokens
	now    func() time.Time
	most   int // POSTs to all webhooks

	mu       sync.Mutex
	lines    map[string]*line // by webhook
	sweep    int              // at how many lines idle ones are dropped
	underWay int
}

// line is what a process knows of the POSTs to one webhook.
type line struct {
	underWay int
	// busy is the sum of the times that POSTs have taken, until changed; divided by the
	// number of those that have ended it tells how long one takes.
	busy    time.Duration
	ended   int
	changed time.Time
	// turns say, by reason, until when the items that were sent away before will use up
	// what comes free. Without them all would come back at once, most for nothing. They are
	// void when the webhook's limits change.
	turns  map[string]time.Time
	rate   waypost.RateLimit
	atOnce int
}

// NewGate makes an Admission that takes the tokens of rate limits from
// tokens. most bounds the POSTs of the process, 4,000 by default and at most.
func NewGate(tokens Tokens, now func() time.Time, most int) *Gate {
	most = min(cmp.Or(most, processConcurrency), processConcurrency)
	return &Gate{tokens: tokens, now: now, most: most, lines: map[string]*line{}, sweep: maxIdleLines}
}

// Admit counts POSTs as under way in this process first, and then takes tokens for those.
func (g *Gate) Admit(ctx context.Context, hook waypost.Webhook, n int) (granted int, reason string, wait time.Duration) {
	atOnce := cmp.Or(hook.MaxConcurrency, defaultConcurrency)
	granted, full := g.enter(hook, n, atOnce)
	if limit := hook.RateLimit; limit != nil && granted > 0 {
		allowed, retryAfter := g.tokens(ctx, "webhook/"+hook.ID, limit.PerSecond, limit.Burst, granted)
		if allowed < granted {
			g.leave(hook.ID, granted-allowed, false)
			// A visit can find as many tokens as the bucket holds. Half of that leaves it
			// some time to be late: what runs over is lost.
			visit := min(n-allowed, max(1, limit.Burst/2))
			share := time.Duration(float64(visit) / limit.PerSecond * float64(time.Second))
			return allowed, waypost.DeferRateLimit, max(retryAfter, g.queue(hook.ID, waypost.DeferRateLimit, share))
		}
	}
	if granted < n {
		// What POSTs leave free does not add up as tokens do, so a few more items come back
		// than may begin: the webhook is rarely idle then.
		visit := min(n-granted, max(1, atOnce/2))
		share := g.PostTime(hook.ID) * time.Duration(visit) / time.Duration(atOnce) * 3 / 4
		if full {
			share = max(share, fullAway)
		}
		return granted, waypost.DeferMaxConcurrency, g.queue(hook.ID, waypost.DeferMaxConcurrency, share)
	}
	return granted, "", 0
}

// Done counts POSTs as ended.
func (g *Gate) Done(webhookID string, n int) { g.leave(webhookID, n, true) }

// leave counts POSTs out that have ended or for which there was no token. The latter say
// nothing of how long a POST takes.
func (g *Gate) leave(webhookID string, n int, ended bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.line(webhookID)
	n = max(0, min(n, l.underWay))
	l.underWay -= n
	g.underWay -= n
	if !ended {
		return
	}
	if l.ended += n; l.ended >= 2*remembered {
		l.ended, l.busy = l.ended/2, l.busy/2
	}
}

// enter counts up to n POSTs in, of the atOnce that the webhook may have. A change of its
// limits voids the turns: it also wakes all workflows that wait. full says that the
// processConcurrency is used up, not the webhook's atOnce.
func (g *Gate) enter(hook waypost.Webhook, n, atOnce int) (granted int, full bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.line(hook.ID)
	rate := deref(hook.RateLimit)
	if rate != l.rate || atOnce != l.atOnce {
		l.rate, l.atOnce, l.turns = rate, atOnce, map[string]time.Time{}
	}
	free := max((g.most-g.underWay-l.underWay+1)/2, leastConcurrency-l.underWay)
	granted = max(0, min(n, atOnce-l.underWay, free))
	full = granted < min(n, atOnce-l.underWay)
	l.underWay += granted
	g.underWay += granted
	return granted, full
}

// queue says after what time to come back for a share of what comes free, after all that
// were sent away before.
func (g *Gate) queue(webhookID, reason string, share time.Duration) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	l, now := g.line(webhookID), g.now()
	away := max(0, l.turns[reason].Sub(now)) + share
	if away < 0 || away > maxAway { // it may have run over
		away = maxAway
	}
	l.turns[reason] = now.Add(away)
	return max(away, minAway)
}

// PostTime goes by the POSTs of this process.
func (g *Gate) PostTime(webhookID string) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	l := g.line(webhookID)
	if l.ended == 0 {
		return guessedPOST
	}
	// Those under way have their part in busy, too.
	return l.busy / time.Duration(l.ended+l.underWay)
}

// line finds or makes a webhook's line and brings its sums up to now. The caller
// holds mu.
func (g *Gate) line(webhookID string) *line {
	now := g.now()
	l := g.lines[webhookID]
	if l == nil {
		if len(g.lines) >= g.sweep {
			g.dropIdle(now)
		}
		l = &line{changed: now, turns: map[string]time.Time{}}
		g.lines[webhookID] = l
	}
	l.busy += time.Duration(l.underWay) * max(0, now.Sub(l.changed))
	l.changed = now
	return l
}

// dropIdle forgets webhooks that nothing is sent to; a cache of a fixed size would forget
// busy ones.
func (g *Gate) dropIdle(now time.Time) {
	for id, l := range g.lines {
		idle := l.underWay == 0
		for _, turn := range l.turns {
			idle = idle && !turn.After(now)
		}
		if idle {
			delete(g.lines, id)
		}
	}
	g.sweep = max(maxIdleLines, 2*len(g.lines))
}
