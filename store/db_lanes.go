package store

import (
	"context"
	"slices"
	"sync"
)

// lanes lets one writer in at a time, small writes before large ones: a single enrollment
// does not wait for the steps of a launch that queue up.
type lanes struct {
	mu      sync.Mutex
	busy    bool
	waiting [2][]chan struct{} // small, large; in the order of their coming
	passed  int                // small ones that went before a waiting large one
}

// maxPassed bounds that: large ones go on, if slowly, whatever comes.
const maxPassed = 16

// smallWrite is the most rows of a write that goes first.
const smallWrite = 8

// enter waits for the caller's turn. It fails only if ctx ends before.
func (l *lanes) enter(ctx context.Context, large bool) error {
	lane := 0
	if large {
		lane = 1
	}
	l.mu.Lock()
	if !l.busy {
		l.busy = true
		l.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	l.waiting[lane] = append(l.waiting[lane], turn)
	l.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	l.mu.Lock()
	i := slices.Index(l.waiting[lane], turn)
	if i >= 0 {
		l.waiting[lane] = slices.Delete(l.waiting[lane], i, i+1)
	}
	l.mu.Unlock()
	if i < 0 { // its turn has come meanwhile
		l.leave()
	}
	return context.Cause(ctx)
}

// leave lets the next one in.
func (l *lanes) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	lane := 0
	switch {
	case len(l.waiting[0]) == 0 && len(l.waiting[1]) == 0:
		l.busy = false
		return
	case len(l.waiting[0]) == 0 || len(l.waiting[1]) > 0 && l.passed >= maxPassed:
		lane, l.passed = 1, 0
	case len(l.waiting[1]) > 0:
		l.passed++
	}
	close(l.waiting[lane][0])
	l.waiting[lane] = l.waiting[lane][1:]
}
