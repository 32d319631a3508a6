package store

import (
	"strings"

	"waypost"
)

// What happened is announced in the transaction that records it: a row for each subscription
// that gets a message of it; TellSubscriptions turns rows into messages. Where there is no
// subscription, a statement only finds that out.

// anySubscribed is evaluated before anything else of a statement is.
const anySubscribed = "EXISTS (SELECT 1 FROM subscription_types)"

const insertAnnouncements = "INSERT INTO announcements (subscription_id, type, at, data) "

// subscribed joins the subscriptions that get messages of a type about a row of an alias: those of its
// scope and journey.
func subscribed(join string, h waypost.Happening, alias string) string {
	return " " + join + " subscription_types AS st ON st.org = " + alias + ".org AND st.stage = " + alias + ".stage AND st.type = '" + string(h) +
		"' AND st.journey_id IN ('', " + alias + ".journey_id)"
}

// object writes a JSON object of members "name expression" as a text. Times in it are
// microseconds, which body reads.
func object(members ...string) dialects {
	pairs := make([]string, len(members))
	for i, member := range members {
		name, expression, _ := strings.Cut(member, " ")
		pairs[i] = "'" + name + "', " + expression
	}
	list := "(" + strings.Join(pairs, ", ") + ") AS TEXT)"
	return dialects{"CAST(json_build_object" + list, "CAST(json_object" + list}
}

// endedObject is the data of an announcement that an enrollment (alias e) has ended, with what status.
func endedObject(status string) dialects {
	return object("enrollmentId e.id", "journeyId e.journey_id", "version e.version", "leadsId e.leads_id", "launchId e.launch_id",
		"entryKey e.entry_key", "status "+status, "createdAt e.created_at")
}

// failedObject is the data of an announcement that a delivery (alias d) has failed; of says where its
// last attempt stands.
func failedObject(of, attempts string) dialects {
	return object("messageId d.message_id", "enrollmentId d.enrollment_id", "journeyId d.journey_id", "journeyVersion d.journey_version",
		"nodeId d.node_id", "webhookId d.webhook_id", "leadsId d.leads_id", "launchId d.launch_id", "round d.round", "attempts "+attempts,
		"httpStatus NULLIF("+of+".http_status, 0)", "errorClass "+of+".error_class", "gaveUp "+of+".gave_up")
}

// announceEndsAndFailures is the part of recordEnds that announces what its rows (u) decide.
var announceEndsAndFailures = insertAnnouncements +
	"SELECT st.subscription_id, st.type, u.ended_at, " + endedObject("u.moved_to").postgres +
	" FROM u JOIN enrollments AS e ON e.id = u.enrollment_id" + subscribed("JOIN", waypost.EnrollmentEnded, "e") +
	" WHERE u.ended_at IS NOT NULL AND " + anySubscribed +
	" UNION ALL SELECT st.subscription_id, st.type, u.at + 1000 * u.duration_ms, " + failedObject("u", "u.attempt").postgres +
	" FROM u JOIN deliveries AS d ON d.enrollment_id = u.enrollment_id AND d.visit = u.visit" + subscribed("JOIN", waypost.DeliveryFailure, "d") +
	" WHERE u.status = 'failed' AND " + anySubscribed

var announceEnds = dialects{
	postgres: insertAnnouncements + "SELECT st.subscription_id, st.type, e.ended_at, " + endedObject("e.status").postgres +
		" FROM enrollments AS e" + subscribed("JOIN", waypost.EnrollmentEnded, "e") + " WHERE e.id = ANY ($1::text[]) AND " + anySubscribed + " ORDER BY e.id",
	// SQLite keeps the order of a CROSS JOIN.
	sqlite: insertAnnouncements + "SELECT st.subscription_id, st.type, e.ended_at, " + endedObject("e.status").sqlite +
		" FROM json_each(?) AS k CROSS JOIN enrollments AS e ON e.id = k.value" + subscribed("CROSS JOIN", waypost.EnrollmentEnded, "e") + " WHERE " + anySubscribed,
}

var announceFailures = dialects{
	postgres: insertAnnouncements + "SELECT st.subscription_id, st.type, d.last_attempt_at + 1000 * d.duration_ms, " + failedObject("d", "d.attempts").postgres +
		ofTouchpoints.postgres + subscribed("JOIN", waypost.DeliveryFailure, "d") + " WHERE d.leads_id <> 0 AND " + anySubscribed + " ORDER BY d.message_id",
	sqlite: insertAnnouncements + "SELECT st.subscription_id, st.type, d.last_attempt_at + 1000 * d.duration_ms, " + failedObject("d", "d.attempts").sqlite +
		ofTouchpoints.sqlite + subscribed("CROSS JOIN", waypost.DeliveryFailure, "d") + " WHERE d.leads_id <> 0 AND " + anySubscribed,
}

// launchEnd is when a launch (alias la) that has completed did so, as standingRow.launch has it.
var launchEnd = dialects{"GREATEST" + launchEndings, "MAX" + launchEndings}

const launchEndings = `(la.done_at, COALESCE((SELECT MAX(e.ended_at) FROM enrollments AS e WHERE e.launch_id = la.id), 0),
	COALESCE((SELECT MAX(dd.ended_at) FROM dropped AS dd WHERE dd.journey_id = la.journey_id AND dd.launch_id = la.id), 0))`

// launchObject is the data of an announcement that a launch (alias la) has ended, with what status.
func launchObject(status string) dialects {
	return object("launchId la.id", "journeyId la.journey_id", "version la.version", "recurringId la.recurring_id", "occursAt la.occurs_at",
		"status "+status, "total la.total", "enrolled la.enrolled", "skipped la.skipped", "heldOut la.held_out", "createdAt la.created_at")
}
