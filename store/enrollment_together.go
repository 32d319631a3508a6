package store

import (
	"cmp"
	"context"
	"database/sql"
	"slices"
	"sync"
	"time"

	"waypost"
)

const (
	// shareTime is how long the next write waits for one that is under way, so that more
	// requests share it. A write that waits longer for a row's lock holds up nobody else.
	shareTime = 50 * time.Millisecond
	// shareTimeout bounds a write, which outlives the requests that share it.
	shareTimeout = 20 * time.Second
)

// sharedWrites are the requests that wait to share the next write.
type sharedWrites[T comparable] struct {
	mu      sync.Mutex
	waiting []T
	writing bool // a goroutine takes what waits
}

// join has a request share the next write.
func (t *sharedWrites[T]) join(one T, write func([]T)) {
	t.mu.Lock()
	t.waiting = append(t.waiting, one)
	first := !t.writing
	t.writing = true
	t.mu.Unlock()
	if first {
		go t.run(write)
	}
}

// run writes what waits until nothing does.
func (t *sharedWrites[T]) run(write func([]T)) {
	for {
		t.mu.Lock()
		waiting := t.waiting
		t.waiting, t.writing = nil, len(waiting) > 0
		t.mu.Unlock()
		if len(waiting) == 0 {
			return
		}
		written := make(chan struct{})
		go func() {
			defer close(written)
			write(waiting)
		}()
		select {
		case <-written:
		case <-time.After(shareTime):
		}
	}
}

// leave takes a request back that is in no write yet.
func (t *sharedWrites[T]) leave(one T) (left bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	i := slices.Index(t.waiting, one)
	if i >= 0 {
		t.waiting = slices.Delete(t.waiting, i, i+1)
	}
	return i >= 0
}

// entering is an enrollment to be stored, and its entry in the audit log, if it gets one.
type entering struct {
	row   enrollmentRow
	entry *auditRow
}

// waitingEnrollment is an enrollment that waits to be stored.
type waitingEnrollment struct {
	entering
	reentry waypost.Reentry
	done    bool // it is stored
	err     error
	ended   chan struct{}
}

// enrollTogether is enroll in one statement, without a transaction around it: four round
// trips less. Enrollments that come while a statement is under way share the next one: at
// a thousand a second their commits cost the database more than their rows. If anything
// stands in the way, done is false and nothing has happened; enroll finds out what it is.
// Journeys with exitOn events or a goal need a lock, so enroll does all of them, and those of
// control groups and of test leads.
func (s *entries) enrollTogether(ctx context.Context, one entering, r waypost.Reentry) (done bool, err error) {
	e := &waitingEnrollment{entering: one, reentry: r, ended: make(chan struct{})}
	s.enrolling.join(e, s.enrollAll)
	select {
	case <-e.ended:
		return e.done, e.err
	case <-ctx.Done():
		if s.enrolling.leave(e) {
			return false, ctx.Err()
		}
		<-e.ended // it may be stored, and is to be sent then
		return e.done, e.err
	}
}

// enrollAll stores enrollments by one statement for each kind of re-entry. Of several with
// the same journey, lead and entry key it stores the first: a statement cannot change a
// row twice.
func (s *entries) enrollAll(all []*waitingEnrollment) {
	defer func() {
		for _, e := range all {
			close(e.ended)
		}
	}()
	// In one order, so that statements of several processes do not wait for each other.
	slices.SortStableFunc(all, func(a, b *waitingEnrollment) int {
		return cmp.Or(cmp.Compare(a.row.JourneyID, b.row.JourneyID), cmp.Compare(a.row.LeadsID, b.row.LeadsID), cmp.Compare(a.row.EntryKey, b.row.EntryKey))
	})
	groups := map[waypost.Reentry][]*waitingEnrollment{}
	for i, e := range all {
		if i > 0 && e.key() == all[i-1].key() {
			continue
		}
		groups[e.reentry] = append(groups[e.reentry], e)
	}
	for r, group := range groups {
		rows := mapped(group, func(e *waitingEnrollment) entering { return e.entering })
		ctx, cancel := context.WithTimeout(context.Background(), shareTimeout)
		done, err := s.enrollInOneStatement(ctx, rows, r)
		cancel()
		for _, e := range group {
			e.done, e.err = done[e.row.ID], err
		}
	}
}

// key is that of journey_entries.
func (e *waitingEnrollment) key() entryRow {
	return entryRow{JourneyID: e.row.JourneyID, LeadsID: e.row.LeadsID, EntryKey: e.row.EntryKey}
}

// enrollInOneStatement stores the enrollments that nothing stands in the way of, and tells
// which these are.
// Its conditions are subqueries of one row each: joins might be planned to read whole tables.
func (s *entries) enrollInOneStatement(ctx context.Context, all []entering, r waypost.Reentry) (done map[string]bool, err error) {
	var ids, orgs, stages, journeys, apps, keys, params, deltas []string
	var versions, leads, created, claimed []int64
	var entries, applications, actors, requests, became []string // '' for what the audit log does not tell
	none := &auditRow{}
	for _, e := range all {
		row, entry := e.row, cmp.Or(e.entry, none)
		entries, applications, actors = append(entries, entry.ID), append(applications, entry.Application), append(actors, entry.Actor)
		requests, became = append(requests, entry.RequestID), append(became, text(entry.Became))
		ids, orgs, stages, journeys = append(ids, row.ID), append(orgs, row.Org), append(stages, row.Stage), append(journeys, row.JourneyID)
		apps, keys, params = append(apps, row.AppID), append(keys, row.EntryKey), append(params, row.Params)
		versions, leads, created = append(versions, int64(row.Version)), append(leads, row.LeadsID), append(created, row.CreatedAt.UnixMicro())
		var at int64
		if !row.ClaimedAt.IsZero() {
			at = row.ClaimedAt.UnixMicro()
		}
		delta, err := enteredAt(row.CreatedAt.Time)
		if err != nil {
			return nil, err
		}
		claimed, deltas = append(claimed, at), append(deltas, delta)
	}
	done = map[string]bool{}
	rows, err := s.query(ctx, nil, `WITH r AS MATERIALIZED (
		SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::text[], $8::text[], $9::text[], $10::bigint[], $11::bigint[], $15::text[],
			$16::text[], $17::text[], $18::text[], $19::text[], $20::text[])
			AS r(id, org, stage, journey_id, version, leads_id, app_id, entry_key, params, created_at, claimed_at, delta,
				entry_id, application, actor, request_id, became)),
	entered AS (
		INSERT INTO journey_entries AS je (journey_id, leads_id, entry_key, last_entry_at, enrollment_id, active)
		SELECT r.journey_id, r.leads_id, r.entry_key, r.created_at, r.id, 1 FROM r
		WHERE (SELECT l.org = r.org AND l.stage = r.stage AND NOT l.test FROM leads AS l WHERE l.leads_id = r.leads_id)
		AND (SELECT j.org = r.org AND j.stage = r.stage AND j.status <> $12 AND (j.published_version = r.version OR NOT $14) FROM journeys AS j WHERE j.id = r.journey_id)
		AND (SELECT TRUE FROM journey_versions AS v WHERE v.journey_id = r.journey_id AND v.version = r.version)
		AND (SELECT count(*) FROM journey_exits AS x WHERE x.journey_id = r.journey_id AND x.version = r.version) = 0
		`+onReentry(r)+` RETURNING enrollment_id),
	counted AS `+insertDeltas("SELECT r.journey_id, r.version, r.delta FROM entered JOIN r ON r.id = entered.enrollment_id")+`,
	checked AS (`+checkEntered+`),
	audited AS (
		INSERT INTO audit (id, org, stage, application, actor, action, target, became, request_id)
		SELECT r.entry_id, r.org, r.stage, r.application, r.actor, 'enrollment.create', r.id, r.became, r.request_id
		FROM entered JOIN r ON r.id = entered.enrollment_id WHERE r.entry_id <> '')
	INSERT INTO enrollments (id, org, stage, journey_id, version, leads_id, app_id, entry_key, params, status, node_id, last_seq, depth, exits, created_at, claimed_at)
		SELECT r.id, r.org, r.stage, r.journey_id, r.version, r.leads_id, r.app_id, r.entry_key, r.params, $13, '', 0, 0, FALSE, r.created_at, NULLIF(r.claimed_at, 0)
		FROM entered JOIN r ON r.id = entered.enrollment_id RETURNING id`,
		ids, orgs, stages, journeys, versions, leads, apps, keys, params, created, claimed,
		string(waypost.JourneyArchived), string(waypost.EnrollmentPending), r.Current, deltas, entries, applications, actors, requests, became)
	if err == nil {
		err = scanAll(rows, func(rows *sql.Rows) error {
			var id string
			err := rows.Scan(&id)
			done[id] = true
			return err
		})
	}
	if refused(err) {
		return nil, nil // enroll tries again
	}
	return done, err
}
