// Package activities holds the activities of the workflows: it reads and writes what SQL
// holds, evaluates conditions, and has messages delivered (package delivery). Workflows see
// ids, outcomes and times of it, never personal data.
//
// # Files by topic
//
//   - the parts, and the store that they need: activities.go
//   - touchpoints, by package delivery: deliver.go, cancel.go
//   - how enrollments go on: decide.go, look.go, await.go, follow.go, watch.go, enroll.go, effect.go, move.go
//   - launches and imports: audience.go, occurrence.go, imports.go
package activities
