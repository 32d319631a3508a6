package limits

import (
	"errors"
	"sync"
	"time"
)

// ErrAway says that Redis did not answer a moment ago and was not asked again.
var ErrAway = errors.New("redis is away")

// probeEvery is how often a Redis that is away is asked again.
const probeEvery = 200 * time.Millisecond

// gate keeps callers from queueing up behind a Redis that does not answer: after
// a failure, one call in probeEvery goes through and the others fail at once.
type gate struct {
	now func() time.Time

	mu    sync.Mutex
	away  bool
	probe time.Time // the next one while away
}

// enter tells whether the caller may call Redis; it must then call leave.
func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.away {
		return true
	}
	now := g.now()
	if now.Before(g.probe) {
		return false
	}
	g.probe = now.Add(probeEvery)
	return true
}

// leave notes how the call went.
func (g *gate) leave(ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !ok && !g.away {
		g.probe = g.now().Add(probeEvery)
	}
	g.away = !ok
}
