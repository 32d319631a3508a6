// Package gateway is the HTTP interface: signed requests come in, are checked in order
// (docs/contract.md, "Order of checks"), and end in a handler that decodes, validates,
// calls and encodes. It knows storage, Redis and the sender only as
// the small interfaces that stand above the handlers that use them.
//
// # Files by topic
//
//   - the server and the route table: gateway.go, routes.go, request.go, answer.go
//   - checks before a handler: path.go, query.go, body.go, authenticate.go, credentials.go, limit.go, shares.go, idempotency.go, origins.go
//   - who asks for a change, and the audit log: audit.go
//   - ETags, logs, streams: match.go, observe.go, stream.go
//   - leads, imports, exports: leads.go, imports.go, rows.go, csv.go, charset.go, export.go
//   - webhooks and their health: webhooks.go, trial.go, health.go, history.go
//   - subscriptions: subscriptions.go
//   - suppressions: suppressions.go
//   - segments: segments.go
//   - journeys, copies, versions: journeys.go, copy.go, versions.go, definitions.go
//   - statistics: statistics.go, goals.go
//   - dry runs and forecasts: dryrun.go, forecast.go, simulation.go
//   - enrollments, launches, control, events: enrollments.go, launches.go, launch_trial.go, audience.go, control.go, events.go
//   - deliveries and redeliveries: deliveries.go, redeliveries.go
//   - articles, tokens, search: articles.go, articles_import.go, tokens.go, search.go
//   - the documentation that is served: docs.go
package gateway
