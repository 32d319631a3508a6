// Command waypost is the production binary: the roles (gateway, worker, serve,
// codec, migrate), the management of applications, and client commands that people call
// a gateway with.
//
// # Files by topic
//
//   - the program and its roles: main.go, roles.go
//   - applications, users and keys, on the database: apps.go, users.go, keys.go
//   - the audit log: audit.go
//   - calling a gateway: client.go, api.go
//   - what commands have in common: commands.go, list.go, import_lines.go, control.go, audience.go
//   - files and values of flags: files.go
//   - what is printed: output.go, progress.go, watch.go
//   - leads: leads.go, leads_import.go, leads_export.go
//   - webhooks, deliveries, redeliveries: webhooks.go, subscriptions.go, suppressions.go, deliveries.go, redeliver.go, receiver.go
//   - segments: segments.go
//   - journeys: journeys.go, journeys_tree.go, journeys_versions.go, journeys_try.go
//   - enrollments, launches, events: enrollments.go, launches.go, events.go
//   - articles: articles.go, articles_search.go
package main
