// Package delivery brings messages to receivers: from "these touchpoints are due" to
// recorded outcomes. It knows nothing of Temporal: package activities calls it, and so does
// the worker's pump, for first messages that are sent ahead of their workflow.
//
// A run is one call of Deliver, Redeliver or SendAhead. An item is one message in it; due are
// the items that may be sent now. A flight is one attempt in this process, from its POST to its
// record; of all runs that name a message one owns its flight, the others wait for its end. A
// message that is held back is recorded as deferred, and the workflow sends a batch with it
// later. Ahead means before the workflow is started.
//
// A batch goes through [Engine.Deliver] in this order:
//
//	batch.go            Deliver: claim flights, read what is recorded, stages, open, await
//	stage_recorded.go   before the stages: answers what is decided, not due or under way elsewhere
//	stage.go            the list of stages, and how a stage holds an item back
//	stage_controls.go   takes out what is paused, canceled or exited
//	stage_ended.go      takes out enrollments whose records were dropped
//	stage_webhook.go    loads the webhook; holds all back while it is disabled
//	stage_unreadable.go holds back stored messages that cannot be decrypted
//	stage_quiet.go      holds back during quiet hours
//	stage_unwanted.go   skips leads that are suppressed, or have not agreed
//	stage_cap.go        skips leads that have reached the frequency cap
//	stage_breaker.go    holds back while the receiver is down
//	stage_admission.go  holds back what the webhook's limits do not admit
//	stage_render.go     renders the messages
//	open.go             writes the attempts down and starts their POSTs
//	flight.go           one attempt, from its POST to its record, and what is decided then
//
// What they use:
//
//	messages.go         what the store is asked to open and to record, and what it answers
//	engine.go           Engine, its Options and Close
//	result.go           what a batch answers, and where that leads an enrollment
//	redeliver.go        Redeliver: stored messages once more
//	cancel.go           cancels, and records abandoned attempts
//	ahead.go            SendAhead: the first batch before its workflow is started
//	controls.go         pauses, cancels and exits of enrollments
//	definitions.go      compiled journey versions, and the facts that messages are made of
//	recorder.go         writes outcomes, many in one transaction
//	admission.go        Gate: how many POSTs a webhook may have
//	slots.go            how many batches may wait for receivers
//	observe.go          what metrics and traces show
package delivery
