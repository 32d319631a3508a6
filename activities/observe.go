package activities

import "time"

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
