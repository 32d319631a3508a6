// Package limits is what all processes share through Redis: which nonces were
// used, and how much of a rate is left. Redis is a helper here and may be away at
// any time: calls then fail within two seconds, most of them at once, and work
// again as soon as it is back.
//
// For the gateway and the console:
//
//	nonces.go         which nonces were used
//	recent.go         those that this process knows of
//	epoch.go          whether Redis has forgotten nonces, and since when
//	leases.go         rates of requests, in parts that a process takes ahead
//	attempts.go       how often somebody may try to sign in
//	sessions.go       sessions of the console
//
// For deliveries:
//
//	rates.go          tokens of rate limits
//	buckets.go        the same in this process, while Redis is away
//	breaker.go        the state of a circuit breaker, and how it changes
//	breaker_shared.go breakers that all processes share
//
// For both:
//
//	redis.go          how clients of Redis are set up
//	gate.go           finds out when Redis is away, and when it is back
//	memory.go         warns of a Redis that may forget
//	signal.go         Signal: notices from one process to another
package limits
