package store

import (
	lru "github.com/hashicorp/golang-lru/v2"

	"waypost"
	"waypost/segment"
)

// Store is the database. It is safe for concurrent use.
//
// Its methods belong to the nouns below. A noun has the nouns that it may use as members, and
// uses only those that stand below it: calls go down. A test holds that.
type Store struct {
	*db
	*sealedRows
	*retention
	*subscriptions
	*redeliveries
	*launches
	*imports
	*effects
	*events
	*leadChanges
	*enrollments
	*journeys
	*segmentWatches
	*attempts
	*exits
	*controls
	*rounds
	*deliveries
	*entries
	*segmentChecks
	*progress
	*waits
	*cohorts
	*segments
	*statistics
	*leads
	*webhooks
	*eventNames
	*articles
	*index
	*suppressions
	*auditLog
	*users
	*apps
	*audit
	*announcements
	*notices
	*idempotency
}

// sealedRows seals anew what another key has sealed.
type sealedRows struct {
	*db
}

// retention drops what has ended and is over.
type retention struct {
	*db
	redeliveries *redeliveries
	launches     *launches
	imports      *imports
	attempts     *attempts
	rounds       *rounds
	cohorts      *cohorts
	statistics   *statistics
	webhooks     *webhooks
	eventNames   *eventNames
	audit        *audit
	idempotency  *idempotency
}

// subscriptions are webhooks that get messages of what happens.
type subscriptions struct {
	*db
	attempts    *attempts
	rounds      *rounds
	deliveries  *deliveries
	webhooks    *webhooks
	audit       *audit
	idempotency *idempotency
}

// redeliveries are bulk redeliveries.
type redeliveries struct {
	*db
	rounds      *rounds
	cohorts     *cohorts
	audit       *audit
	idempotency *idempotency
}

// launches enroll audiences, at once or again and again.
type launches struct {
	*db
	enrollments   *enrollments
	journeys      *journeys
	exits         *exits
	controls      *controls
	rounds        *rounds
	deliveries    *deliveries
	entries       *entries
	cohorts       *cohorts
	segments      *segments
	statistics    *statistics
	leads         *leads
	audit         *audit
	announcements *announcements
	idempotency   *idempotency
}

// imports store leads and events from files.
type imports struct {
	*db
	events        *events
	entries       *entries
	waits         *waits
	cohorts       *cohorts
	leads         *leads
	audit         *audit
	announcements *announcements
	idempotency   *idempotency
}

// effects are what enrollments do to leads at updateLead and emit nodes.
type effects struct {
	*db
	events      *events
	leadChanges *leadChanges
	controls    *controls
	progress    *progress
}

// events are what leads have done; accepting one begins, ends and wakes enrollments.
type events struct {
	*db
	leadChanges   *leadChanges
	exits         *exits
	entries       *entries
	segmentChecks *segmentChecks
	leads         *leads
	eventNames    *eventNames
	audit         *audit
	notices       *notices
	idempotency   *idempotency

	accepting sharedWrites[*acceptance] // see acceptTogether
}

// leadChanges creates, changes and erases leads, with what follows for enrollments.
type leadChanges struct {
	*db
	controls      *controls
	rounds        *rounds
	deliveries    *deliveries
	entries       *entries
	segmentChecks *segmentChecks
	waits         *waits
	leads         *leads
	eventNames    *eventNames
	audit         *audit
	notices       *notices
	idempotency   *idempotency
}

// enrollments are made, moved, controlled and listed.
type enrollments struct {
	*db
	journeys      *journeys
	exits         *exits
	controls      *controls
	entries       *entries
	segmentChecks *segmentChecks
	progress      *progress
	waits         *waits
	cohorts       *cohorts
	statistics    *statistics
	leads         *leads
	audit         *audit
	notices       *notices
	idempotency   *idempotency
}

// journeys are drafts and their versions, with their controls.
type journeys struct {
	*db
	segmentWatches *segmentWatches
	controls       *controls
	entries        *entries
	segments       *segments
	webhooks       *webhooks
	audit          *audit
	announcements  *announcements
	idempotency    *idempotency
}

// segmentWatches remember the members of watched segments, and begin and end enrollments by them.
type segmentWatches struct {
	*db
	exits    *exits
	entries  *entries
	segments *segments
	leads    *leads
	audit    *audit
}

// attempts are opened before their POSTs and recorded after them.
type attempts struct {
	*db
	controls      *controls
	rounds        *rounds
	deliveries    *deliveries
	entries       *entries
	segmentChecks *segmentChecks
	progress      *progress
	leads         *leads
	webhooks      *webhooks
	announcements *announcements

	briefing string // see Briefing
}

// exits end enrollments by events.
type exits struct {
	*db
	controls *controls
	waits    *waits
	leads    *leads
	notices  *notices
}

// controls are pauses and cancels.
type controls struct {
	*db
	rounds        *rounds
	deliveries    *deliveries
	progress      *progress
	waits         *waits
	cohorts       *cohorts
	statistics    *statistics
	audit         *audit
	announcements *announcements
	notices       *notices
}

// rounds are the rounds of attempts of stored messages.
type rounds struct {
	*db
	deliveries  *deliveries
	webhooks    *webhooks
	audit       *audit
	notices     *notices
	idempotency *idempotency
}

// deliveries are the rows of messages, with their attempts.
type deliveries struct {
	*db
}

// entries are the rows that a lead enters a journey by: re-entry, control groups, goals, and journeys that begin by themselves.
type entries struct {
	*db
	segmentChecks *segmentChecks
	cohorts       *cohorts
	statistics    *statistics

	entrances Entrances // see SetEntrances
	goals     Goals     // decides what reaches a goal
	rules     *lru.Cache[versionKey, versionRules]
	enrolling sharedWrites[*waitingEnrollment] // see enrollTogether
}

// segmentChecks are rows that say of a lead that it may have entered a watched segment.
type segmentChecks struct {
	*db
}

// progress is how far enrollments have got, with their timelines.
type progress struct {
	*db
	statistics    *statistics
	announcements *announcements
}

// waits are what waiting enrollments are woken by.
type waits struct {
	*db
	leads   *leads
	notices *notices
}

// cohorts are the groups of enrollments that workflows drive, and claims of what has no workflow.
type cohorts struct {
	*db
	notices *notices

	versions *lru.Cache[versionKey, waypost.JourneyVersion]
}

// segments are conditions on leads: who meets them, and what is recorded of leads.
type segments struct {
	*db
	audit       *audit
	idempotency *idempotency

	ages     waypost.EventAges                    // see SetEventAges
	segments *lru.Cache[string, *segment.Segment] // by their texts
}

// statistics count how many enrollments are and were where.
type statistics struct {
	*db
	leads *leads
}

// leads are found, listed and locked; leadChanges changes them.
type leads struct {
	*db
}

// webhooks are where messages go, with their health and history.
type webhooks struct {
	*db
	audit         *audit
	announcements *announcements
	idempotency   *idempotency
}

// eventNames counts events by their names and by day.
type eventNames struct {
	*db
}

// articles are what is searched.
type articles struct {
	*db
	index       *index
	audit       *audit
	idempotency *idempotency
}

// index says who writes the index of articles, and which of them it lacks.
type index struct {
	*db
	audit       *audit
	idempotency *idempotency
}

// suppressions are leads that are written to no more in a channel.
type suppressions struct {
	*db
	audit       *audit
	idempotency *idempotency
}

// auditLog lists the entries of the audit log, with the names of users.
type auditLog struct {
	*db
	users *users
}

// users are those of the console.
type users struct {
	*db
	audit *audit
}

// apps are the applications that use the API, with their keys.
type apps struct {
	*db
	audit *audit
}

// audit adds entries to the audit log.
type audit struct {
	*db
}

// announcements are rows that say that subscriptions are to be told of something.
type announcements struct {
	*db
}

// notices are rows that say that a workflow is to look at what has changed.
type notices struct {
	*db
}

// idempotency keeps answers for an Idempotency-Key.
type idempotency struct {
	*db
}

// newStore makes the nouns over a database.
func newStore(d *db) *Store {
	s := &Store{db: d}
	addLower(s)
	addUpper(s)
	return s
}

// addLower adds the nouns up to controls, from the bottom to the top.
func addLower(s *Store) {
	d := s.db
	s.idempotency = &idempotency{db: d}
	s.notices = &notices{db: d}
	s.announcements = &announcements{db: d}
	s.audit = &audit{db: d}
	s.apps = &apps{db: d, audit: s.audit}
	s.users = &users{db: d, audit: s.audit}
	s.auditLog = &auditLog{db: d, users: s.users}
	s.suppressions = &suppressions{db: d, audit: s.audit, idempotency: s.idempotency}
	s.index = &index{db: d, audit: s.audit, idempotency: s.idempotency}
	s.articles = &articles{db: d, index: s.index, audit: s.audit, idempotency: s.idempotency}
	s.eventNames = &eventNames{db: d}
	s.webhooks = &webhooks{db: d, audit: s.audit, announcements: s.announcements, idempotency: s.idempotency}
	s.leads = &leads{db: d}
	s.statistics = &statistics{db: d, leads: s.leads}
	s.segments = &segments{
		db: d, audit: s.audit, idempotency: s.idempotency, segments: kept[string, *segment.Segment](maxCompiled),
	}
	s.cohorts = &cohorts{db: d, notices: s.notices, versions: kept[versionKey, waypost.JourneyVersion](maxVersions)}
	s.waits = &waits{db: d, leads: s.leads, notices: s.notices}
	s.progress = &progress{db: d, statistics: s.statistics, announcements: s.announcements}
	s.segmentChecks = &segmentChecks{db: d}
	s.entries = &entries{
		db: d, segmentChecks: s.segmentChecks, cohorts: s.cohorts, statistics: s.statistics,
		rules: kept[versionKey, versionRules](maxVersions),
	}
	s.deliveries = &deliveries{db: d}
	s.rounds = &rounds{
		db: d, deliveries: s.deliveries, webhooks: s.webhooks, audit: s.audit, notices: s.notices,
		idempotency: s.idempotency,
	}
	s.controls = &controls{
		db: d, rounds: s.rounds, deliveries: s.deliveries, progress: s.progress, waits: s.waits, cohorts: s.cohorts,
		statistics: s.statistics, audit: s.audit, announcements: s.announcements, notices: s.notices,
	}
}

// addUpper adds those above controls.
func addUpper(s *Store) {
	d := s.db
	s.exits = &exits{db: d, controls: s.controls, waits: s.waits, leads: s.leads, notices: s.notices}
	s.attempts = &attempts{
		db: d, controls: s.controls, rounds: s.rounds, deliveries: s.deliveries, entries: s.entries,
		segmentChecks: s.segmentChecks, progress: s.progress, leads: s.leads, webhooks: s.webhooks,
		announcements: s.announcements,
	}
	s.segmentWatches = &segmentWatches{
		db: d, exits: s.exits, entries: s.entries, segments: s.segments, leads: s.leads, audit: s.audit,
	}
	s.journeys = &journeys{
		db: d, segmentWatches: s.segmentWatches, controls: s.controls, entries: s.entries, segments: s.segments,
		webhooks: s.webhooks, audit: s.audit, announcements: s.announcements, idempotency: s.idempotency,
	}
	s.enrollments = &enrollments{
		db: d, journeys: s.journeys, exits: s.exits, controls: s.controls, entries: s.entries,
		segmentChecks: s.segmentChecks, progress: s.progress, waits: s.waits, cohorts: s.cohorts,
		statistics: s.statistics, leads: s.leads, audit: s.audit, notices: s.notices, idempotency: s.idempotency,
	}
	s.leadChanges = &leadChanges{
		db: d, controls: s.controls, rounds: s.rounds, deliveries: s.deliveries, entries: s.entries,
		segmentChecks: s.segmentChecks, waits: s.waits, leads: s.leads, eventNames: s.eventNames, audit: s.audit,
		notices: s.notices, idempotency: s.idempotency,
	}
	s.events = &events{
		db: d, leadChanges: s.leadChanges, exits: s.exits, entries: s.entries, segmentChecks: s.segmentChecks,
		leads: s.leads, eventNames: s.eventNames, audit: s.audit, notices: s.notices, idempotency: s.idempotency,
	}
	s.effects = &effects{db: d, events: s.events, leadChanges: s.leadChanges, controls: s.controls, progress: s.progress}
	s.imports = &imports{
		db: d, events: s.events, entries: s.entries, waits: s.waits, cohorts: s.cohorts, leads: s.leads,
		audit: s.audit, announcements: s.announcements, idempotency: s.idempotency,
	}
	s.launches = &launches{
		db: d, enrollments: s.enrollments, journeys: s.journeys, exits: s.exits, controls: s.controls,
		rounds: s.rounds, deliveries: s.deliveries, entries: s.entries, cohorts: s.cohorts, segments: s.segments,
		statistics: s.statistics, leads: s.leads, audit: s.audit, announcements: s.announcements,
		idempotency: s.idempotency,
	}
	s.redeliveries = &redeliveries{db: d, rounds: s.rounds, cohorts: s.cohorts, audit: s.audit, idempotency: s.idempotency}
	s.subscriptions = &subscriptions{
		db: d, attempts: s.attempts, rounds: s.rounds, deliveries: s.deliveries, webhooks: s.webhooks, audit: s.audit,
		idempotency: s.idempotency,
	}
	s.retention = &retention{
		db: d, redeliveries: s.redeliveries, launches: s.launches, imports: s.imports, attempts: s.attempts,
		rounds: s.rounds, cohorts: s.cohorts, statistics: s.statistics, webhooks: s.webhooks, eventNames: s.eventNames,
		audit: s.audit, idempotency: s.idempotency,
	}
	s.sealedRows = &sealedRows{db: d}
}

// kept is a cache of what was used last.
func kept[K comparable, V any](size int) *lru.Cache[K, V] {
	c, _ := lru.New[K, V](size) // fails for a size below 1 only
	return c
}
