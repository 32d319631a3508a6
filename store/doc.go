// Package store keeps everything that people ask about in SQL: on PostgreSQL,
// or on SQLite for one machine. It alone knows the tables; what it returns is
// the vocabulary of package waypost. Faults that the caller can act on are
// *waypost.Error values, everything else is an ordinary error.
//
// The tables, with what their columns hold, are in migrations/*/00001_schema.sql. The files
// by topic:
//
// The database. Only these ask which one it is.
//
//	nouns.go             Store, and the nouns that it is made of
//	store.go             Open, what all nouns use
//	db_location.go       WAYPOST_DATABASE_URL, connections
//	db_migrate.go        Migrate, versions of the schema
//	db_tx.go             write, writeRows, query; retries, prepared statements
//	db_writers.go        SQLite's one writer: small writes before large ones
//	db_rows.go           rows by id, pages, lists of what rows hold
//	db_named.go          pages of rows by how their name begins
//	db_bulk.go           statements that write many rows of one shape
//	db_dialect.go        lockFor, list, in, …: what the databases say differently
//	db_one_statement.go  operations that are one statement on PostgreSQL
//	db_statistics.go     what PostgreSQL plans by, after bulk writes
//	db_announcements.go  statements that announce what happened
//	db_segment.go        comparisons of texts and custom fields for segments
//	db_segment_checks.go parts of statements that add leads to segment_checks
//	db_columns.go        times, JSON and secrets as columns
//	db_event_days.go      the statement that counts events by day
//	db_errors.go         error codes, Away, wrap
//
// Whom messages go to, and who may use the API.
//
//	app.go                Applications and their access keys
//	nonce_horizon.go      what gateways know of nonces that Redis has forgotten
//	user.go               Users of the console, their sign-in links
//	user_factor.go        second factors of users
//	user_issuer.go        Users who sign in at an OpenID Connect issuer
//	user_sessions.go      What the audit log tells of sign-ins
//	app_idempotency.go    answers that are kept for an Idempotency-Key
//	audit.go              Who changed what
//	lead.go               Leads
//	lead_list.go          lists and exports of leads
//	lead_fields.go        custom fields that leads have
//	lead_blocks.go        lists by leadsId that ask for times of creation
//	lead_fold.go          names and e-mail addresses as lists compare them
//	lead_erase.go         what goes with a lead that is deleted
//	lead_events.go        Events of leads
//	lead_events_address.go how an event names its lead
//	lead_events_together.go  accepting the events of several requests in one transaction
//	lead_event_days.go    how many events leads have had on each day
//	lead_event_names.go   the names that events have
//	lead_event_import.go  imports of events
//	import_lines.go       what imports have in common that are stored as they are read
//	lead_import.go        Imports of leads
//	lead_import_parts.go  the rows that an import has yet to process
//	lead_import_batch.go  one step of an import
//	webhook.go            Webhooks
//	webhook_health.go     what the health of a webhook is read from
//	webhook_history.go    how its attempts ended, hour by hour
//	suppression.go        Suppressions: who is written to no more
//	subscription.go       Subscriptions: webhooks that get messages of what happens
//	segment.go            Segments
//	segment_checks.go     who may have entered a watched segment, and what follows
//	segment_read.go       the leads of a segment, and what is recorded of leads
//	segment_watch.go      whose members are remembered; reading them as a whole
//	segment_where.go      what SQL answers of a segment
//
// Who enters a journey, and where they stand.
//
//	journey.go               Journeys: drafts, publishing
//	journey_versions.go      versions, archiving
//	launch.go                Launches: creation, steps
//	launch_list.go           lists of launches
//	launch_audience.go       who belongs to an audience
//	launch_sample.go         leads of an audience to try a journey with
//	launch_trial.go          a launch that tests first and holds the rest; the rate of a launch
//	launch_occurrences.go    recurring launches
//	enrollment.go            Enrollments and their timelines
//	enrollment_list.go       lists of enrollments
//	enrollment_enter.go      Enroll, re-entry
//	enrollment_begin.go      journeys that begin by themselves
//	enrollment_together.go   enrolling of several requests in one statement
//	enrollment_onward.go     enrollments that enroll nodes make
//	enrollment_effects.go    updateLead, emit
//	enrollment_progress.go   how far they got
//	enrollment_waits.go      waitForEvent, waitUntil, waitFor
//	enrollment_exits.go      events that end enrollments
//	enrollment_goals.go      events that reach the goal of a journey, control groups
//	enrollment_arms.go       which arms of splits they took, and which of them won
//	enrollment_moves.go      enrollments that go on in another version
//	cohort.go                cohorts: claims of launches, marks of their start
//	cohort_claim.go          ClaimEnrollments, FormCohort
//	control.go               pauses and cancels
//	statistics.go            how many are where, and were
//
// What is sent.
//
//	delivery.go            Deliveries and their messages
//	delivery_list.go       lists, summaries and exports of deliveries
//	delivery_briefing.go   what first messages need to know
//	delivery_open.go       OpenAttempts: before a POST
//	delivery_record.go     RecordAttempts: after it
//	delivery_attempts.go   attempts, answers of receivers
//	delivery_consent.go    leads that are suppressed, or have not agreed
//	delivery_caps.go       frequency caps
//	delivery_deferrals.go  deliveries that are held back
//	redelivery.go          bulk redeliveries
//	redelivery_rounds.go   rounds of attempts after the first
//	announcement.go        announcements of what happened
//	subscription_tell.go   messages to subscriptions
//
// What the pump and the sweeps do.
//
//	outbox_notices.go    notices for workflows
//	outbox_unstarted.go  launches, imports and batches without a workflow, OutboxLag
//	retention.go         what is dropped when its time is over
//	keys.go              sealing anew with another key
//
// And the search index of articles.
//
//	article.go          Articles
//	article_import.go   imports of articles
//	article_changes.go  articles that the index does not hold as they are
//	article_index.go    who writes the index, and its generations
package store
