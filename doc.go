// Package waypost is the vocabulary of Waypost: the things that marketers,
// operators and API clients talk about, with their checks and their states.
// It knows no database, no network and no Temporal; the packages around it
// adapt it to those.
//
// # Files by topic
//
//   - who calls, and what belongs to whom: client_address.go, application.go, user.go, second_factor.go,
//     stage.go, keyring.go
//   - who changed what: audit.go
//   - leads: lead.go, erasure.go, lead_validate.go, lead_clean.go, lead_phone.go, lead_patch.go, birthday.go, fold.go, import.go
//   - webhooks: webhook.go, webhook_validate.go, webhook_url.go, webhook_tls.go, webhook_history.go, health.go, subscription.go, suppression.go
//   - journeys and enrollments: journey.go, enrollment.go, entry.go, decision.go, move.go, effect.go, event.go, event_ages.go, control.go, statistics.go, goal.go, ratio.go
//   - launches: launch.go, segment.go, schedule.go, cron.go
//   - messages and their deliveries: message.go, touchpoint.go, outcome.go, delivery.go, retry.go, redelivery.go
//   - articles and search: article.go, search.go
//   - retention: retention.go
//   - errors, ids, JSON, times: error.go, id.go, idempotency.go, json.go, duration.go, date.go, zone.go
package waypost

// ProductVersion names the running release in the User-Agent of webhook
// messages and in `waypost --version`.
const ProductVersion = "0.1.0"
