package store

// The statements of entries and deliveries add leads whose segments may have changed to segment_checks.
// Where no watched segment depends on that, they only find that out: the first EXISTS is evaluated
// before anything else.

// checkEntered is the part of a statement that adds the leads of enrollments r that have entered to
// segment_checks.
const checkEntered = `INSERT INTO segment_checks (org, stage, leads_id, at, depth)
	SELECT r.org, r.stage, r.leads_id, r.created_at, 0 FROM entered JOIN r ON r.id = entered.enrollment_id
	WHERE EXISTS (SELECT 1 FROM segment_causes WHERE kind = 'entered')
	AND EXISTS (SELECT 1 FROM segment_causes AS c WHERE c.org = r.org AND c.stage = r.stage AND c.kind = 'entered' AND c.name = r.journey_id)`

// checkSent ends a statement that adds the leads of deliveries d that have succeeded to segment_checks.
const checkSent = ` WHERE EXISTS (SELECT 1 FROM segment_causes WHERE kind = 'delivered') AND d.status = 'succeeded'
	AND EXISTS (SELECT 1 FROM segment_causes AS c WHERE c.org = d.org AND c.stage = d.stage AND c.kind = 'delivered' AND c.name = d.journey_id)`

const insertChecks = "INSERT INTO segment_checks (org, stage, leads_id, at, depth) SELECT d.org, d.stage, d.leads_id, "

// checkDelivered adds the leads of deliveries, which have just been recorded, to segment_checks.
var checkDelivered = dialects{
	postgres: insertChecks + "d.last_attempt_at + 1000 * d.duration_ms, 0" + ofTouchpoints.postgres + checkSent,
	sqlite:   insertChecks + "d.last_attempt_at + 1000 * d.duration_ms, 0" + ofTouchpoints.sqlite + checkSent,
}
