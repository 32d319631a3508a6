package store

// Statements on the way of a message have the leads looked at whose segments it may change. Where
// no watched segment asks for that, they only find that out: the first EXISTS is evaluated before
// anything else.

// checkEntered is the part of a statement that has the leads looked at of enrollments r that have
// entered.
const checkEntered = `INSERT INTO segment_checks (org, stage, leads_id, at, depth)
	SELECT r.org, r.stage, r.leads_id, r.created_at, 0 FROM entered JOIN r ON r.id = entered.enrollment_id
	WHERE EXISTS (SELECT 1 FROM segment_causes WHERE kind = 'entered')
	AND EXISTS (SELECT 1 FROM segment_causes AS c WHERE c.org = r.org AND c.stage = r.stage AND c.kind = 'entered' AND c.name = r.journey_id)`

// checkSent ends a statement that has the leads looked at of deliveries d that have succeeded.
const checkSent = ` WHERE EXISTS (SELECT 1 FROM segment_causes WHERE kind = 'delivered') AND d.status = 'succeeded'
	AND EXISTS (SELECT 1 FROM segment_causes AS c WHERE c.org = d.org AND c.stage = d.stage AND c.kind = 'delivered' AND c.name = d.journey_id)`

const insertChecks = "INSERT INTO segment_checks (org, stage, leads_id, at, depth) SELECT d.org, d.stage, d.leads_id, "

// checkDelivered has the leads of deliveries looked at, which have just been recorded.
var checkDelivered = dialects{
	postgres: insertChecks + "d.last_attempt_at + 1000 * d.duration_ms, 0" + ofTouchpoints.postgres + checkSent,
	sqlite:   insertChecks + "d.last_attempt_at + 1000 * d.duration_ms, 0" + ofTouchpoints.sqlite + checkSent,
}
