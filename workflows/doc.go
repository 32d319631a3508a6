// Package workflows holds the deterministic code that Temporal runs, the names
// and ids it goes by, and the typed client that starts it.
//
// # Files by topic
//
//   - a journey's cohort: journey.go, move.go
//   - the loop that journeys and redeliveries share: loop.go
//   - launches and their occurrences: launch.go, occurrence.go, schedule.go
//   - imports, redeliveries: import.go, redelivery.go
//   - what the Web UI shows: names.go, show.go
//   - starting and signaling: client.go
//   - payloads and definitions: codec.go, definitions.go
package workflows
