package limits

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

// ErrAway says that Redis did not answer a moment ago and was not asked again.
var ErrAway = errors.New("redis is away")

// A Redis is away after this many failures in a row: one slow answer on a busy
// machine must not refuse everybody else's requests.
const tolerated = 3

// probeEvery is how often a Redis that is away is asked again.
const probeEvery = 200 * time.Millisecond

// gate keeps callers from queueing up behind a Redis that does not answer: while
// it is away, one call in probeEvery goes through and the others fail at once.
type gate struct {
	now func() time.Time
	log *slog.Logger // of outages; nil for none
	// away and back are what is logged, once for each outage.
	away, back string

	mu       sync.Mutex
	failures int       // in a row
	probe    time.Time // the next one while away
	missed   uint64    // calls that Redis did not answer or was not asked
	outages  uint64    // how often it went away
}

// call has ask call Redis, unless that is away, and tells whether Redis answered.
func (g *gate) call(ctx context.Context, ask func() error) (answered bool) {
	if !g.enter() {
		return false
	}
	err := ask()
	if err != nil && ctx.Err() != nil {
		return false // a caller that leaves says nothing about Redis
	}
	switch turned := g.leave(err == nil); {
	case !turned || g.log == nil:
	case err != nil:
		g.log.WarnContext(ctx, g.away, "error", err)
	default:
		g.log.InfoContext(ctx, g.back)
	}
	return err == nil
}

// enter tells whether the caller may call Redis; it must then call leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.failures < tolerated {
		return true
	}
	now := g.now()
	if now.Before(g.probe) {
		g.missed++
		return false
	}
	g.probe = now.Add(probeEvery)
	return true
}

// leave notes how the call went, and tells whether Redis went away with it or
// came back.
func (g *gate) leave(ok bool) (turned bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if ok {
		turned = g.failures >= tolerated
		g.failures = 0
		return turned
	}
	g.missed++
	if g.failures++; g.failures < tolerated {
		return false
	}
	g.probe = g.now().Add(probeEvery) // from the end of a probe that hangs
	if g.failures > tolerated {
		return false
	}
	g.outages++
	return true
}

// miss counts calls that failed together with one that has left.
func (g *gate) miss(n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.missed += uint64(n)
}

// Fallbacks tells how many calls Redis did not answer, or was not asked, since the process
// began, and how often it went away.
func (g *gate) Fallbacks() (calls, outages uint64) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.missed, g.outages
}
