package delivery

import (
	"context"
	"time"
)

// Observer counts what deliveries come to, for metrics. Its methods are called
// from many goroutines at once and must not block.
type Observer interface {
	// Attempt is called for every POST that has ended: with an Outcome… value, its
	// Class… value ("" if there is none) and how long the exchange took.
	Attempt(outcome, class string, took time.Duration)
	// Deferred is called when n deliveries are held back for the same reason, a
	// Defer… value.
	Deferred(reason string, n int)
}

// nobody is the Observer of an Engine without one.
type nobody struct{}

func (nobody) Attempt(string, string, time.Duration) {}
func (nobody) Deferred(string, int)                  {}

type attemptKey struct{}

// AttemptOf is, for traces, the number of the attempt that a Sender makes under ctx; 0 if it
// is of no delivery.
func AttemptOf(ctx context.Context) int {
	attempt, _ := ctx.Value(attemptKey{}).(int)
	return attempt
}
