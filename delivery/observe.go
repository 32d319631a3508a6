package delivery

import (
	"context"
	"time"
)

// Observer is told what deliveries come to, for metrics. Its methods are called
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

// AttemptOf tells a Sender the number of the attempt that it is asked for, for traces;
// 0 if it is for no delivery.
func AttemptOf(ctx context.Context) int {
	attempt, _ := ctx.Value(attemptKey{}).(int)
	return attempt
}
