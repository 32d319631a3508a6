package store

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"

	"waypost"
)

// What a delivery needs on its way is done in one statement on PostgreSQL, where it
// would take a transaction of several: each costs a round trip, and half a millisecond
// of planning, which is done once for each connection here. These know the usual case
// only, in which nobody else is at the same rows. Where anything is in their way nothing
// has happened, and the transaction, which is all that SQLite has, finds out what it is.

// refused tells whether such a statement has found something in its way, if only that it
// has to be planned anew.
func refused(err error) bool {
	var pg *pgconn.PgError
	return conflicts(err) || errors.As(err, &pg) && (pg.Code == pgDivisionByZero || pg.Code == pgStalePlan || pg.Code == pgNoStatement)
}

// enrollAtOnce is Enroll, or EnrollClaimed if there is a cohort, in one statement, without
// a transaction around it: four round trips less. Where anything is in its way, done is
// false and nothing has happened; Enroll finds out what it is. So it does where events end
// enrollments, which needs a lock.
func (s *Store) enrollAtOnce(ctx context.Context, row enrollmentRow, r waypost.Reentry, cohort *cohortRow) (done bool, err error) {
	text := `WITH entered AS (
		INSERT INTO journey_entries AS je (journey_id, leads_id, entry_key, last_entry_at, enrollment_id, active)
		SELECT $1::text, $2::bigint, $3::text, $4::bigint, $5::text, 1
		WHERE EXISTS (SELECT 1 FROM leads WHERE leads_id = $2 AND (org, stage) IS NOT DISTINCT FROM ($6::text, $7::text))
		AND EXISTS (SELECT 1 FROM journeys AS j JOIN journey_versions AS v ON v.journey_id = j.id
			WHERE j.id = $1 AND j.org = $6 AND j.stage = $7 AND v.version = $8 AND j.status <> $9)
		AND NOT EXISTS (SELECT 1 FROM journey_exits WHERE journey_id = $1 AND version = $8)
		` + onReentry(r) + ` RETURNING enrollment_id),
	e AS (INSERT INTO enrollments (id, org, stage, journey_id, version, leads_id, app_id, entry_key, params, status, node_id, last_seq, depth, exits, created_at, cohort_id)
		SELECT enrollment_id, $6::text, $7::text, $1, $8::bigint, $2, $10::text, $3, $11::text, $12::text, '', 0, 0, FALSE, $4, $13::text FROM entered RETURNING id)
	`
	args := []any{
		row.JourneyID, row.LeadsID, row.EntryKey, row.CreatedAt.UnixMicro(), row.ID, row.Org, row.Stage, row.Version,
		string(waypost.JourneyArchived), row.AppID, row.Params, row.Status, row.CohortID,
	}
	if cohort == nil {
		text += "SELECT id FROM e"
	} else {
		text += "INSERT INTO cohorts (id, journey_id, version, accepted_at, claimed_at, size, members) SELECT $13, $1, $8, $4, $14::bigint, $15::bigint, $16::text FROM e RETURNING id"
		args = append(args, cohort.ClaimedAt.UnixMicro(), cohort.Size, *cohort.Members)
	}
	rows, err := s.query(ctx, nil, text, args...)
	if err == nil {
		err = scanAll(rows, func(rows *sql.Rows) error {
			done = true
			return rows.Scan(new(string))
		})
	}
	if refused(err) {
		return false, nil // Enroll tries again
	}
	return done, err
}

// openAtOnce opens first attempts of messages that are new, or later ones of those that
// failed and wait to be retried, all of one journey, one launch and one time. It returns
// those that it has opened.
func (s *Store) openAtOnce(ctx context.Context, openings []waypost.Opening) (map[waypost.Touchpoint]waypost.Sending, error) {
	if !s.postgres || !alike(openings) {
		return nil, nil
	}
	// In the order in which rows are locked.
	order := slices.SortedFunc(slices.Values(openings), func(a, b waypost.Opening) int { return compareTouchpoints(a.Touchpoint, b.Touchpoint) })
	open := s.openFirsts
	if openings[0].Attempt > 1 {
		open = s.openLaters
	}
	opened, err := open(ctx, order)
	if refused(err) {
		return nil, nil
	}
	return opened, err
}

// alike tells whether openings are of the usual kind, and of one: each is of a touchpoint
// of its own, and all are first attempts of one node or all are later ones.
func alike(openings []waypost.Opening) bool {
	like := openings[0]
	seen := make(map[waypost.Touchpoint]bool, len(openings))
	for _, o := range openings {
		if o.Attempt < 1 || o.Round > 1 || o.Interrupts || seen[o.Touchpoint] || (o.Attempt == 1) != (like.Attempt == 1) {
			return false
		}
		if o.Attempt == 1 && (!o.Cap.None() || o.Body == nil || o.Delivery.MessageID == "") || o.Attempt > 1 && o.Body != nil {
			return false
		}
		if a, b := o.Delivery, like.Delivery; o.Scope != like.Scope || a.JourneyID != b.JourneyID || a.JourneyVersion != b.JourneyVersion || a.NodeID != b.NodeID ||
			a.WebhookID != b.WebhookID || a.LaunchID != b.LaunchID || !o.At.Equal(like.At) || o.By != like.By {
			return false
		}
		seen[o.Touchpoint] = true
	}
	return true
}

// unheld is a condition that none of the openings has any control; its parameters are the
// journey, the launch, and the first and the last enrollment.
func unheld(journey, launch, first, last string) string {
	return "NOT EXISTS (SELECT 1 FROM controls WHERE until_at IS NULL AND (target IN (" + journey + ", " + launch + ") OR target BETWEEN " + first + " AND " + last + "))"
}

// openFirsts takes openings in the order of their keys.
func (s *Store) openFirsts(ctx context.Context, openings []waypost.Opening) (map[waypost.Touchpoint]waypost.Sending, error) {
	like := openings[0]
	n := len(openings)
	ids, visits, messages, leads, bodies := make([]string, n), make([]int64, n), make([]string, n), make([]int64, n), make([][]byte, n)
	first := make(map[waypost.Touchpoint]*waypost.Opening, n)
	for i, o := range openings {
		first[o.Touchpoint] = &openings[i]
		ids[i], visits[i], messages[i], leads[i] = o.EnrollmentID, int64(o.Visit), o.Delivery.MessageID, o.Delivery.LeadsID
		bodies[i] = s.keys.Seal(o.Body, messagePurpose(o.Delivery.MessageID))
	}
	d := like.Delivery
	rows, err := s.query(ctx, nil, `WITH u AS MATERIALIZED (
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::text[], $4::bigint[], $5::bytea[]) AS u (enrollment_id, visit, message_id, leads_id, body)
		WHERE `+unheld("$8", "$12", "$15", "$16")+`),
	d AS (INSERT INTO deliveries (enrollment_id, visit, message_id, leads_id, org, stage, journey_id, journey_version, node_id, webhook_id, launch_id,
			status, first_attempt_at, open_attempt, open_at, open_by)
		SELECT enrollment_id, visit, message_id, leads_id, $6, $7, $8, $9, $10, $11, NULLIF($12, ''), 'pending', $13, 1, $13, $14 FROM u
		ON CONFLICT (enrollment_id, visit) DO NOTHING RETURNING enrollment_id, visit),
	m AS (INSERT INTO messages (enrollment_id, visit, body) SELECT enrollment_id, visit, u.body FROM u JOIN d USING (enrollment_id, visit))
	SELECT enrollment_id, visit FROM d`,
		ids, visits, messages, leads, bodies, like.Scope.Org, string(like.Scope.Stage), d.JourneyID, d.JourneyVersion, d.NodeID, d.WebhookID, d.LaunchID,
		like.At.UnixMicro(), like.By, ids[0], ids[n-1])
	opened := make(map[waypost.Touchpoint]waypost.Sending, n)
	if err == nil {
		err = scanAll(rows, func(rows *sql.Rows) error {
			var key waypost.Touchpoint
			err := rows.Scan(&key.EnrollmentID, &key.Visit)
			if o := first[key]; o != nil {
				row := newDeliveryRow(key, o.Scope, o.Delivery)
				row.open(*o)
				opened[key] = row.sending(o.Body)
			}
			return err
		})
	}
	return opened, err
}

// openLater needs no order of its own: its rows are looked up one after the other.
var openLater = `WITH u AS MATERIALIZED (
		SELECT * FROM unnest($1::text[], $2::bigint[], $3::bigint[]) AS u (enrollment_id, visit, attempt)
		WHERE ` + unheld("$4", "$5", "$6", "$7") + `),
	d AS (UPDATE deliveries AS d SET open_attempt = u.attempt, open_at = $8, open_by = $9
		FROM u WHERE d.enrollment_id = u.enrollment_id AND d.visit = u.visit AND d.status = 'retrying' AND d.round = 1 AND d.open_attempt = 0
			AND d.attempts = u.attempt - 1 AND d.first_attempt_at IS NOT NULL
			AND EXISTS (SELECT 1 FROM messages AS m WHERE m.enrollment_id = d.enrollment_id AND m.visit = d.visit)
		RETURNING d.*)
	SELECT ` + deliveryColumns + `, (SELECT m.body FROM messages AS m WHERE m.enrollment_id = d.enrollment_id AND m.visit = d.visit) FROM d`

// openLaters takes openings in the order of their keys. Callers have read the messages a
// moment ago; an attempt whose message can no longer be read is taken back.
func (s *Store) openLaters(ctx context.Context, openings []waypost.Opening) (map[waypost.Touchpoint]waypost.Sending, error) {
	n := len(openings)
	ids, visits, attempts := make([]string, n), make([]int64, n), make([]int64, n)
	for i, o := range openings {
		ids[i], visits[i], attempts[i] = o.EnrollmentID, int64(o.Visit), int64(o.Attempt)
	}
	like := openings[0]
	rows, err := s.query(ctx, nil, openLater, ids, visits, attempts, like.Delivery.JourneyID, like.Delivery.LaunchID, ids[0], ids[n-1], like.At.UnixMicro(), like.By)
	if err != nil {
		return nil, err
	}
	opened := make(map[waypost.Touchpoint]waypost.Sending, n)
	ids, visits = nil, nil // of those that are taken back
	err = scanAll(rows, func(rows *sql.Rows) error {
		var row storedRow
		if err := row.scan(rows); err != nil {
			return err
		}
		body, unreadable := s.openBody(row.MessageID, row.body)
		if unreadable != nil {
			ids, visits = append(ids, row.EnrollmentID), append(visits, int64(row.Visit))
			return nil
		}
		opened[row.touchpoint()] = row.sending(body)
		return nil
	})
	if err != nil || len(ids) == 0 {
		return opened, err
	}
	rows, err = s.query(ctx, nil, `UPDATE deliveries AS d SET open_attempt = 0, open_at = NULL, open_by = ''
		FROM unnest($1::text[], $2::bigint[]) AS u (enrollment_id, visit)
		WHERE d.enrollment_id = u.enrollment_id AND d.visit = u.visit AND d.open_attempt > 0 AND d.open_at = $3 AND d.open_by = $4`,
		ids, visits, like.At.UnixMicro(), like.By)
	if err == nil {
		err = rows.Close()
	}
	if err != nil && len(opened) > 0 {
		return opened, nil // those are the caller's, to be POSTed now
	}
	return opened, err
}

// ends are attempts that have ended, and where that leaves the enrollments: moved_to is
// NULL for those that stay where they are.
var ends = bulk{columns: []string{
	"enrollment_id text", "visit bigint", "attempt bigint", "status text", "succeed boolean", "next_attempt_at bigint",
	"at bigint", "http_status bigint", "error_class text", "duration_ms bigint", "response bytea", "gave_up text",
	"moved_to text", "node_id text", "last_seq bigint", "ended_at bigint", "end_seq bigint", "end_entries text",
}}

// recordFirst has an error in it where not all deliveries are as their attempts were
// opened, or an enrollment has ended meanwhile. What comes from u goes through d: joined
// with u again, every row could be compared with all others, since nothing is known of
// how many there are when this is planned.
var recordFirst = recordEnds("", "u", "AND d.status = 'pending' AND "+asOpened)

// recordLater does so for attempts after the first, whose deliveries describe the attempt
// before, which gets a row of its own. They are locked for that: what is written there is
// what was last recorded.
var recordLater = recordEnds(`o AS MATERIALIZED (
		SELECT u.*, d.last_round, d.last_attempt, d.last_attempt_at, d.http_status AS last_http_status, d.error_class AS last_error_class,
			d.duration_ms AS last_duration_ms, d.response AS last_response
		FROM u JOIN deliveries AS d ON d.enrollment_id = u.enrollment_id AND d.visit = u.visit
		WHERE d.status = 'retrying' AND d.last_round = 1 AND `+asOpened+`
		ORDER BY d.enrollment_id, d.visit FOR NO KEY UPDATE OF d),
	a AS (INSERT INTO attempts (enrollment_id, visit, round, attempt, at, http_status, error_class, duration_ms, response)
		SELECT enrollment_id, visit, last_round, last_attempt, last_attempt_at, last_http_status, last_error_class, last_duration_ms, last_response FROM o
		ON CONFLICT (enrollment_id, visit, round, attempt) DO NOTHING),`, "o", "")

const asOpened = `d.round = 1 AND d.attempts = u.attempt - 1 AND d.last_attempt = u.attempt - 1 AND d.open_attempt = u.attempt AND d.first_attempt_at IS NOT NULL`

// recordEnds writes such a statement: before is what is done before the deliveries are
// updated, from is u or what that has made of it, and when is which deliveries it takes.
func recordEnds(before, from, when string) string {
	return `WITH u AS MATERIALIZED (SELECT * FROM ` + ends.arrayed() + ` AS u (` + strings.Join(ends.names(), ", ") + `)),
	` + before + `
	d AS (UPDATE deliveries AS d SET status = u.status, deferred_reason = '', deferred_since = NULL, succeed = u.succeed, next_attempt_at = u.next_attempt_at,
			attempts = u.attempt, open_attempt = 0, open_at = NULL, open_by = '',
			last_round = 1, last_attempt = u.attempt, last_attempt_at = u.at, http_status = u.http_status, error_class = u.error_class,
			duration_ms = u.duration_ms, response = u.response, gave_up = u.gave_up
		FROM ` + from + ` AS u WHERE d.enrollment_id = u.enrollment_id AND d.visit = u.visit ` + when + `
		RETURNING d.enrollment_id, u.moved_to, u.node_id, u.last_seq, u.ended_at, u.end_seq, u.end_entries),
	e AS (UPDATE enrollments AS e SET status = d.moved_to, node_id = d.node_id, last_seq = d.last_seq, ended_at = d.ended_at, end_seq = d.end_seq,
			end_entries = d.end_entries, move = NULL
		FROM d WHERE e.id = d.enrollment_id AND d.moved_to IS NOT NULL AND e.last_seq < d.last_seq AND e.ended_at IS NULL
		RETURNING e.id, e.journey_id, e.leads_id, e.entry_key, e.version, e.ended_at),
	s AS (SELECT e.id FROM d JOIN enrollments AS e ON e.id = d.enrollment_id WHERE d.moved_to IS NULL AND e.ended_at IS NULL
		ORDER BY e.id FOR NO KEY UPDATE OF e),
	f AS (UPDATE journey_entries AS je SET active = je.active - n.n
		FROM (SELECT l.journey_id, l.leads_id, l.entry_key, n.n
			FROM (SELECT journey_id, leads_id, entry_key, count(*) AS n FROM e WHERE ended_at IS NOT NULL GROUP BY journey_id, leads_id, entry_key) AS n
			JOIN journey_entries AS l ON l.journey_id = n.journey_id AND l.leads_id = n.leads_id AND l.entry_key = n.entry_key
			ORDER BY l.journey_id, l.leads_id, l.entry_key FOR NO KEY UPDATE OF l) AS n
		WHERE je.journey_id = n.journey_id AND je.leads_id = n.leads_id AND je.entry_key = n.entry_key),
	t AS (INSERT INTO timeline AS t (enrollment_id, seq, last_seq, version, entries)
		SELECT r.enrollment_id, r.seq, r.last_seq, e.version, r.entries
		FROM unnest($19::text[], $20::bigint[], $21::bigint[], $22::text[]) AS r (enrollment_id, seq, last_seq, entries) JOIN e ON e.id = r.enrollment_id
		` + insertTimelineRow.suffix + `)
	SELECT 1 / CASE WHEN (SELECT count(*) FROM d) = $23 AND (SELECT count(*) FROM e) + (SELECT count(*) FROM s) = $23 THEN 1 ELSE 0 END`
}

// recordAtOnce records attempts, unless anything was recorded of one of them since they
// were opened, and returns what is left to record.
func (s *Store) recordAtOnce(ctx context.Context, all []waypost.AttemptRecord) (rest []waypost.AttemptRecord, err error) {
	if !s.postgres {
		return all, nil
	}
	// Those that move their enrollments are apart from those that do not: the statement
	// locks the ones after the others, and each in the order in which everybody does.
	var firsts, laters, staying, stayingLater []int
	seen := make(map[string]bool, len(all)) // of two of one enrollment the second one comes later
	for i, r := range all {
		known := r.Status == waypost.DeliverySucceeded || r.Status == waypost.DeliveryFailed || r.Status == waypost.DeliveryRetrying
		switch {
		case !known || r.Round > 1 || r.Outcome.ErrorClass == waypost.ClassInterrupted || r.Outcome.At.IsZero() || seen[r.EnrollmentID]:
		case r.Attempt == 1 && r.Progress != nil:
			firsts = append(firsts, i)
		case r.Attempt == 1:
			staying = append(staying, i)
		case r.Progress != nil:
			laters = append(laters, i)
		default:
			stayingLater = append(stayingLater, i)
		}
		seen[r.EnrollmentID] = true
	}
	done := make([]bool, len(all))
	for _, group := range []struct {
		text string
		at   []int
	}{{recordFirst, firsts}, {recordFirst, staying}, {recordLater, laters}, {recordLater, stayingLater}} {
		if len(group.at) == 0 {
			continue
		}
		records := make([]waypost.AttemptRecord, len(group.at))
		for i, at := range group.at {
			records[i] = all[at]
		}
		recorded, err := s.recordEndsAtOnce(ctx, group.text, records)
		if err != nil {
			return nil, err
		}
		for _, at := range group.at {
			done[at] = recorded
		}
	}
	for i, r := range all {
		if !done[i] {
			rest = append(rest, r)
		}
	}
	return rest, nil
}

// recordEndsAtOnce records all of the attempts or, if anything is in the way of one, none.
func (s *Store) recordEndsAtOnce(ctx context.Context, text string, records []waypost.AttemptRecord) (done bool, err error) {
	// In the order in which rows are locked.
	slices.SortFunc(records, func(a, b waypost.AttemptRecord) int { return compareTouchpoints(a.Touchpoint, b.Touchpoint) })
	moves := make([]move, len(records))
	var ids, entries []string
	var seqs, lastSeqs []int64
	for i, r := range records {
		if r.Progress == nil {
			continue
		}
		rows, err := s.timelineRows(r.EnrollmentID, slices.Clone(r.Progress.Entries))
		if err != nil {
			return false, err
		}
		moves[i], rows = s.newMove(*r.Progress, rows)
		for _, row := range rows {
			ids, seqs, lastSeqs, entries = append(ids, row.EnrollmentID), append(seqs, row.Seq), append(lastSeqs, row.LastSeq), append(entries, row.Entries)
		}
	}
	args, err := ends.arrays(len(records), func(i int) []any {
		r, m := records[i], &moves[i]
		var succeed *bool
		next := stamp{r.NextAttemptAt}
		if r.Status.Final() {
			succeeded := r.Status == waypost.DeliverySucceeded
			succeed, next = &succeeded, stamp{}
		}
		a := newAttemptRow(r, s.sealResponse(r.Touchpoint, r.Outcome.Message, r.Outcome.Excerpt))
		return []any{
			r.EnrollmentID, r.Visit, r.Attempt, string(r.Status), succeed, next, a.At, a.HTTPStatus, a.ErrorClass, a.DurationMs,
			a.Response, string(a.GaveUp), nullable(string(m.Status)), m.NodeID, m.LastSeq, m.endedAt, m.endSeq, m.endEntries,
		}
	})
	if err != nil {
		return false, err
	}
	rows, err := s.query(ctx, nil, text, append(args, ids, seqs, lastSeqs, entries, len(records))...)
	if err == nil {
		err = scanAll(rows, func(rows *sql.Rows) error { return rows.Scan(new(int)) })
	}
	if refused(err) {
		return false, nil
	}
	return err == nil, err
}

// maxCohort stands in the text: a plan for any number of rows would be one for many.
var maxCohort = strconv.Itoa(waypost.MaxCohort)

// claimAtOnce is the usual case of ClaimCohort; known is false if nobody knows whether
// there is anything to claim.
func (s *Store) claimAtOnce(ctx context.Context) (cohort *waypost.Cohort, key versionKey, known bool, err error) {
	now := s.time()
	known = true
	rows, err := s.query(ctx, nil, `WITH k AS MATERIALIZED (
		SELECT journey_id, version FROM enrollments WHERE cohort_id IS NULL AND ended_at IS NULL ORDER BY id LIMIT 1),
	f AS MATERIALIZED (SELECT e.id, e.leads_id, e.created_at FROM enrollments AS e
		WHERE e.journey_id = (SELECT journey_id FROM k) AND e.version = (SELECT version FROM k) AND e.cohort_id IS NULL AND e.ended_at IS NULL
		ORDER BY e.id LIMIT `+maxCohort+` FOR NO KEY UPDATE SKIP LOCKED),
	c AS (SELECT CASE count(*) WHEN 1 THEN min(id) ELSE $1 END AS id, min(created_at) AS accepted_at, count(*) AS size,
			json_agg(json_build_object('e', id, 'l', leads_id) ORDER BY id)::text AS members FROM f),
	i AS (INSERT INTO cohorts (id, journey_id, version, accepted_at, claimed_at, size, members)
		SELECT c.id, k.journey_id, k.version, c.accepted_at, $2, c.size, c.members FROM c, k WHERE c.size > 0),
	u AS (UPDATE enrollments AS e SET cohort_id = c.id FROM f, c WHERE e.id = f.id)
	SELECT k.journey_id, k.version, c.id, f.id, f.leads_id,
		(SELECT id FROM enrollments WHERE cohort_id IS NULL AND ended_at IS NULL AND id NOT IN (SELECT id FROM f) ORDER BY id LIMIT 1) IS NULL
	FROM k CROSS JOIN c LEFT JOIN f ON TRUE ORDER BY f.id`,
		waypost.NewID(waypost.PrefixCohort, now), now.UnixMicro())
	if err == nil {
		err = scanAll(rows, func(rows *sql.Rows) error {
			var id string
			var member sql.NullString
			var lead sql.NullInt64
			var last bool
			if err := rows.Scan(&key.JourneyID, &key.Version, &id, &member, &lead, &last); err != nil || !member.Valid {
				known = false // others have locked all of this version
				return err
			}
			if cohort == nil {
				cohort = &waypost.Cohort{ID: id, Last: last}
			}
			cohort.Members = append(cohort.Members, waypost.CohortMember{EnrollmentID: member.String, LeadsID: lead.Int64})
			return nil
		})
	}
	if refused(err) {
		return nil, key, false, nil
	}
	return cohort, key, known, err
}
