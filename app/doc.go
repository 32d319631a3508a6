// Package app is the wiring: one function a role, from top to bottom, so that
// both binaries run the same code.
//
// # Files by topic
//
//   - the roles: app.go, process.go, codec.go, console.go
//   - clients of Temporal, and key rotation there: temporal.go, keys.go
//   - article search: articles.go
//   - checking a journey without a gateway: journeys.go
//   - health, metrics, traces, logs: admin.go, metrics.go, traces.go, log.go
//   - ports, HTTPS and OpenID Connect: listen.go, tls.go, oidc.go
//   - open files: descriptors_unix.go, descriptors_other.go
package app
