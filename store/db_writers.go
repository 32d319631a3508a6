package store

import (
	"context"
	"slices"
	"sync"
)

// writerQueue lets one writer in at a time, small writes before large ones: a single enrollment
// does not wait for the steps of a launch that queue up.
type writerQueue struct {
	mu      sync.Mutex
	busy    bool
	waiting [2][]chan struct{} // small, large; first come, first served
	passed  int                // small ones that went before a waiting large one
}

// maxPassed is how many small writes go before a large one that waits.
const maxPassed = 16

// smallWrite is the most rows of a write that goes first.
const smallWrite = 8

// enter waits for the caller's turn. It fails only if ctx ends before.
func (q *writerQueue) enter(ctx context.Context, large bool) error {
	size := 0
	if large {
		size = 1
	}
	q.mu.Lock()
	if !q.busy {
		q.busy = true
		q.mu.Unlock()
		return nil
	}
	turn := make(chan struct{})
	q.waiting[size] = append(q.waiting[size], turn)
	q.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	i := slices.Index(q.waiting[size], turn)
	if i >= 0 {
		q.waiting[size] = slices.Delete(q.waiting[size], i, i+1)
	}
	q.mu.Unlock()
	if i < 0 { // its turn has come meanwhile
		q.leave()
	}
	return context.Cause(ctx)
}

// leave ends the caller's write: the next writer gets in.
func (q *writerQueue) leave() {
	q.mu.Lock()
	defer q.mu.Unlock()
	size := 0
	switch {
	case len(q.waiting[0]) == 0 && len(q.waiting[1]) == 0:
		q.busy = false
		return
	case len(q.waiting[0]) == 0 || len(q.waiting[1]) > 0 && q.passed >= maxPassed:
		size, q.passed = 1, 0
	case len(q.waiting[1]) > 0:
		q.passed++
	}
	close(q.waiting[size][0])
	q.waiting[size] = q.waiting[size][1:]
}
