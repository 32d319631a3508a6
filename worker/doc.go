// Package worker builds and runs what works in the background: the Temporal
// worker that carries out journeys, and the pump that starts them. The files by topic:
//
// The pump. Each file has what one kind of work asks of the store, and its loops.
//
//	pump.go          Pump, its loops, Signal
//	enrollments.go   first messages, groups, starts of enrollments
//	launches.go      launches, their cohorts and Schedules
//	redeliveries.go  redeliveries, messages to subscriptions
//	unstarted.go     what has a workflow of its own; imports
//	notices.go       signals to workflows, cancels
//	segments.go      who may have entered a segment, waits that time may end
//	folds.go         what is counted
//	observe.go       what metrics count
//
// The worker.
//
//	worker.go     New, Register
//	clock.go      Clock: Temporal's, where this machine's is off
//	retention.go  what is deleted when its time is over
package worker
