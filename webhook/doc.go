// Package webhook sends messages to the HTTP servers of touchpoint channels
// (docs/contract.md, "Push request"): it makes one POST and turns every possible answer,
// and every way of not getting one, into a waypost.Outcome. It decides nothing
// about retries and stores nothing.
//
// # Files by topic
//
//   - the sender: sender.go, exchange.go
//   - the request and its signature: request.go, signing.go, url.go
//   - connections, the address guard, the proxy: transport.go, guard.go, proxy.go
//   - what an answer means, or none: response.go, retryafter.go, fault.go
package webhook
