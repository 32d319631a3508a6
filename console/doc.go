// Package console is where people start and watch journeys in a browser
// (docs/console.md). It is a client of the gateway's interface, like any other: nothing can
// be done here that the API cannot do. Its pages are html/template, with small ES modules
// for what changes on a page.
//
// # Files by topic
//
//   - the console, its table of routes, one request: console.go, routes.go, visit.go
//   - calls of the gateway, and the grants that they need: api.go, api_articles.go,
//     api_deliveries.go, api_enrollments.go, api_journeys.go, api_leads.go,
//     api_segments.go, api_subscriptions.go, api_suppressions.go, api_webhooks.go, names.go
//   - pages: render.go, view.go, form.go, pairs.go, list.go, errors.go, faults.go,
//     places.go, static.go
//   - pages that many look at: live.go
//   - files for people: download.go
//   - languages, times and numbers: i18n.go, format.go
//   - who is signed in: sign_in.go, sign_in_link.go, sign_in_oidc.go, sign_out_oidc.go,
//     sessions.go, password.go, device.go
//   - second factors: sign_in_second.go, factor.go, totp.go, passkey.go
//   - the person's own page: account.go
//   - what a person has chosen: preferences.go
//   - the pages of resources: overview.go, journeys.go (outline.go, goals.go, edit.go, try.go,
//     forecast.go, migrate.go), launches.go, deliveries.go, enrollments.go, webhooks.go,
//     webhook_form.go, subscriptions.go, suppressions.go, segments.go, leads.go, imports.go,
//     articles.go, users.go, audit.go
//
// CONTRIBUTING.md, "A page of the console", is the checklist for a page.
package console
