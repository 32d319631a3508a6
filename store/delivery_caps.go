package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
	"waypost/delivery"
)

// SkipCapped skips the openings that a frequency cap forbids at this moment, as
// OpenAttempts would, and opens none, so that their messages are not rendered. The answer
// has the skipped ones only; another opening can be forbidden a moment later.
func (s *attempts) SkipCapped(
	ctx context.Context, openings []delivery.Opening,
) (sendings map[waypost.Touchpoint]delivery.Sending, err error) {
	defer wrap(&err, "skip capped touchpoints")
	first := firstOpenings(openings)
	capped := cappable(first, nil)
	// Without a lock first: usually nobody has reached the cap.
	counts, err := s.touchpoints(ctx, s.r, capped)
	if err != nil {
		return nil, err
	}
	for _, o := range capped {
		if counts[capWindow(o)][o.Delivery.LeadsID] < o.Cap.Touchpoints {
			delete(first, o.Touchpoint)
		}
	}
	sendings = map[waypost.Touchpoint]delivery.Sending{}
	if len(cappable(first, nil)) == 0 {
		return sendings, nil
	}
	err = s.writeRows(ctx, len(first), func(ctx context.Context, tx bun.Tx) error {
		clear(sendings)
		if err := s.lockCapped(ctx, tx, first); err != nil {
			return err
		}
		stopped, err := s.heldOf(ctx, tx, first)
		if err != nil {
			return err
		}
		return s.skipCapped(ctx, tx, first, stopped, sendings)
	})
	return sendings, err
}

// cappable lists the openings that a frequency cap can forbid, in the order of their
// touchpoints: first attempts only.
func cappable(openings map[waypost.Touchpoint]delivery.Opening, stopped map[waypost.Touchpoint]bool) []delivery.Opening {
	var list []delivery.Opening
	for key, o := range openings {
		if !o.Cap.None() && o.Attempt == 1 && o.Round <= 1 && !stopped[key] {
			list = append(list, o)
		}
	}
	slices.SortFunc(list, func(a, b delivery.Opening) int { return compareTouchpoints(a.Touchpoint, b.Touchpoint) })
	return list
}

// capWindow is the time, in microseconds, after which touchpoints count against the
// opening's cap.
func capWindow(o delivery.Opening) int64 { return o.At.Add(-time.Duration(o.Cap.Per)).UnixMicro() }

// givenUp selects deliveries (alias d) whose round has ended without success: they have
// given their places in frequency caps back.
const givenUp = "d.status IN ('failed', 'canceled')"

// touchpoints counts the messages that have a place within the windows of openings, by
// window and lead: those of all journeys, from the first attempt of a round on, unless
// that round was given up or canceled. A message that was redelivered has one place, and
// keeps it if any of its rounds succeeded.
func (s *attempts) touchpoints(ctx context.Context, db bun.IDB, openings []delivery.Opening) (map[int64]map[int64]int, error) {
	windows := map[int64][]int64{}
	for _, o := range openings {
		windows[capWindow(o)] = append(windows[capWindow(o)], o.Delivery.LeadsID)
	}
	counts := make(map[int64]map[int64]int, len(windows))
	for since, leads := range windows {
		list := bun.List(distinct(leads))
		var rows []struct {
			LeadsID int64 `bun:"leads_id"`
			N       int   `bun:"n"`
		}
		// A lead belongs to one organisation and stage. The first attempt of a message was
		// when it was made, or it is late; that of one that was redelivered stands apart.
		made := firstMessageAt(time.UnixMicro(since))
		err := db.NewRaw(`SELECT t.leads_id, count(*) AS n FROM (
			SELECT d.leads_id FROM deliveries AS d WHERE d.leads_id IN (?) AND d.message_id >= ? AND d.first_attempt_at > ? AND NOT `+givenUp+`
			UNION ALL
			SELECT d.leads_id FROM deliveries AS d WHERE d.leads_id IN (?) AND d.late AND d.message_id < ? AND d.first_attempt_at > ? AND NOT `+givenUp+`
			UNION ALL
			SELECT d.leads_id FROM deliveries AS d WHERE d.leads_id IN (?) AND d.round > 1
				AND (d.first_attempt_at IS NULL OR d.first_attempt_at <= ? OR `+givenUp+`)
				AND EXISTS (SELECT 1 FROM delivery_rounds AS dr WHERE dr.enrollment_id = d.enrollment_id AND dr.visit = d.visit
					AND dr.status = 'succeeded' AND dr.first_attempt_at > ?)
			) AS t GROUP BY t.leads_id`, list, made, since, list, made, since, list, since, since).Scan(ctx, &rows)
		if err != nil {
			return nil, fmt.Errorf("count touchpoints: %w", err)
		}
		counts[since] = make(map[int64]int, len(rows))
		for _, row := range rows {
			counts[since][row.LeadsID] = row.N
		}
	}
	return counts, nil
}

// skipCapped skips the openings that a frequency cap forbids, records that, and adds them
// to sendings. lockCapped was called before, so the others can be opened.
func (s *attempts) skipCapped(
	ctx context.Context, tx bun.Tx, openings map[waypost.Touchpoint]delivery.Opening, stopped map[waypost.Touchpoint]bool,
	sendings map[waypost.Touchpoint]delivery.Sending,
) error {
	capped := cappable(openings, stopped)
	if len(capped) == 0 {
		return nil
	}
	// All of them at once, in the order of their keys.
	deliveries, err := s.deliveries.lockDeliveries(ctx, tx, slices.Collect(maps.Keys(openings)))
	if err != nil {
		return err
	}
	counts, err := s.touchpoints(ctx, tx, capped)
	if err != nil {
		return err
	}
	passed, err := skippedBefore(ctx, tx, capped)
	if err != nil {
		return err
	}
	opened := map[int64]int{}
	var updates []*deliveryRow
	var progress []waypost.Progress
	for _, o := range capped {
		lead, row := o.Delivery.LeadsID, deliveries[o.Touchpoint]
		if row != nil && (row.Status.Final() || !row.FirstAttemptAt.IsZero()) {
			continue // it is under way, or over
		}
		if counts[capWindow(o)][lead]+opened[lead] < o.Cap.Touchpoints && (row != nil || !passed[o.Touchpoint]) {
			opened[lead]++
			continue
		}
		sending := delivery.Sending{Skipped: waypost.SkipFrequencyCap}
		if row != nil {
			row.skip(waypost.SkipFrequencyCap)
			updates = append(updates, row)
			sending = row.sending(nil)
			sending.Skipped = waypost.SkipFrequencyCap
		}
		sendings[o.Touchpoint] = sending
		p, err := o.SkippedFor(waypost.SkipFrequencyCap)
		if err != nil {
			return err
		}
		if p != nil {
			progress = append(progress, *p)
		}
	}
	if err := s.deliveries.updateDeliveries(ctx, tx, updates); err != nil {
		return err
	}
	if len(progress) == 0 {
		return nil
	}
	return s.progress.recordProgress(ctx, tx, progress)
}

// lockCapped keeps others from opening capped touchpoints of the same leads until
// the transaction ends. It comes first: what is read after it tells of events that
// it has waited for.
func (s *attempts) lockCapped(ctx context.Context, tx bun.Tx, openings map[waypost.Touchpoint]delivery.Opening) error {
	leads := mapped(cappable(openings, nil), func(o delivery.Opening) int64 { return o.Delivery.LeadsID })
	return s.leads.lockLeads(ctx, tx, leads, forChange)
}

// skippedBefore tells which of the touchpoints an earlier run has skipped, if they
// have no delivery: the enrollment's progress is past them.
func skippedBefore(ctx context.Context, tx bun.Tx, openings []delivery.Opening) (map[waypost.Touchpoint]bool, error) {
	ids := mapped(openings, func(o delivery.Opening) string { return o.EnrollmentID })
	var rows []enrollmentRow
	if err := tx.NewSelect().Model(&rows).Column("id", "last_seq").Where("id IN (?)", bun.List(ids)).Scan(ctx); err != nil {
		return nil, fmt.Errorf("look for skipped touchpoints: %w", err)
	}
	reached := make(map[string]int, len(rows))
	for _, row := range rows {
		reached[row.ID] = row.LastSeq
	}
	passed := map[waypost.Touchpoint]bool{}
	for _, o := range openings {
		if o.Skipped != nil && reached[o.EnrollmentID] > o.Seq {
			passed[o.Touchpoint] = true
		}
	}
	return passed, nil
}

// scopeCap is since when messages of an organisation's stage may still count for a
// frequency cap, in microseconds.
type scopeCap struct {
	Org   string        `json:"org" bun:"org,type:text"`
	Stage waypost.Stage `json:"stage" bun:"stage,type:text"`
	Since int64         `json:"since" bun:"since,type:bigint"`
}

// cappedVersion is a journey version with a frequency cap.
type cappedVersion struct {
	waypost.Scope
	JourneyID  string        `bun:"journey_id"`
	Version    int           `bun:"version"`
	Definition string        `bun:"definition"`
	Current    bool          `bun:"is_current"` // leads can be enrolled in it
	Per        time.Duration `bun:"-"`
}

// longerCaps lists the stages of organisations in which a frequency cap that can still
// forbid a message looks back for more than age, with the longest one of each.
func (s *attempts) longerCaps(ctx context.Context, now time.Time, age time.Duration) (longest []scopeCap, err error) {
	var versions []cappedVersion
	err = s.r.NewSelect().TableExpr("journey_versions AS v").Join("JOIN journeys AS j ON j.id = v.journey_id").
		Column("j.org", "j.stage", "v.journey_id", "v.version", "v.definition").
		ColumnExpr("v.version = j.published_version AND j.status <> ? AS is_current", waypost.JourneyArchived).
		Where("v.definition LIKE ?", `%"frequencyCap"%`).Scan(ctx, &versions)
	if err != nil {
		return nil, fmt.Errorf("look for frequency caps: %w", err)
	}
	for i, v := range versions {
		var members struct {
			FrequencyCap struct {
				Per waypost.Duration `json:"per"`
			} `json:"frequencyCap"`
		}
		if err := fromJSON(v.Definition, &members); err != nil {
			return nil, fmt.Errorf("read a frequency cap: %w", err)
		}
		versions[i].Per = time.Duration(members.FrequencyCap.Per)
	}
	versions = slices.DeleteFunc(versions, func(v cappedVersion) bool { return v.Per <= age })
	slices.SortStableFunc(versions, func(a, b cappedVersion) int { return cmp.Compare(b.Per, a.Per) })
	found := map[waypost.Scope]bool{}
	for _, v := range versions {
		if found[v.Scope] {
			continue
		}
		if found[v.Scope] = v.Current; !v.Current {
			if found[v.Scope], err = s.goesOn(ctx, v); err != nil {
				return nil, fmt.Errorf("look for enrollments of journey %s/%d: %w", v.JourneyID, v.Version, err)
			}
		}
		if found[v.Scope] {
			longest = append(longest, scopeCap{Org: v.Org, Stage: v.Stage, Since: now.Add(-v.Per).UnixMicro()})
		}
	}
	return longest, nil
}

// goesOn tells whether a version that leads are no longer enrolled in has launches that
// still enroll, or enrollments that have not ended, or may get some that are ordered to
// move. It goes by the indexes that movable goes by.
func (s *attempts) goesOn(ctx context.Context, v cappedVersion) (bool, error) {
	going := func(q *bun.SelectQuery) *bun.SelectQuery {
		return q.Where("e.ended_at IS NULL AND (e.version = ? OR e.move IS NOT NULL)", v.Version)
	}
	for _, q := range []*bun.SelectQuery{ // what launches enroll meanwhile is seen after them
		s.r.NewSelect().TableExpr("launches AS l").Where("l.journey_id = ? AND l.version = ? AND l.cron IS NULL AND l.done_at IS NULL", v.JourneyID, v.Version).
			Where("NOT EXISTS (SELECT 1 FROM controls AS c WHERE c.target = l.id AND c.kind = 'cancel')"),
		going(s.r.NewSelect().TableExpr("launches AS l CROSS JOIN enrollments AS e").Where("l.journey_id = ? AND e.launch_id = l.id", v.JourneyID)),
		going(s.r.NewSelect().TableExpr("enrollments AS e").Where("e.launch_id IS NULL AND e.journey_id = ?", v.JourneyID)),
	} {
		if found, err := q.ColumnExpr("1").Limit(1).Exists(ctx); err != nil || found {
			return found, err
		}
	}
	return false, nil
}

// RecentTouchpoints returns when the last messages to a lead, of all journeys of the
// scope, had their first attempts: those after since and not after until that have a
// place in frequency caps by now, newest first, at most limit.
// Of a message that was redelivered it is the first attempt of the last such round that
// had one by then.
func (s *attempts) RecentTouchpoints(
	ctx context.Context, sc waypost.Scope, leadsID int64, since, until time.Time, limit int,
) ([]time.Time, error) {
	var rows []int64
	// As touchpoints finds them. A lead belongs to one organisation and stage.
	made, after, last := firstMessageAt(since), stamp{since}, stamp{until}
	err := s.r.NewRaw(`SELECT t.at FROM (
		SELECT d.first_attempt_at AS at FROM deliveries AS d WHERE d.leads_id = ? AND d.message_id >= ? AND NOT `+givenUp+`
		UNION ALL
		SELECT d.first_attempt_at FROM deliveries AS d WHERE d.leads_id = ? AND d.late AND d.message_id < ? AND d.first_attempt_at > ? AND NOT `+givenUp+`
		UNION ALL
		SELECT (SELECT max(dr.first_attempt_at) FROM delivery_rounds AS dr
				WHERE dr.enrollment_id = d.enrollment_id AND dr.visit = d.visit AND dr.status = 'succeeded' AND dr.first_attempt_at <= ?)
			FROM deliveries AS d WHERE d.leads_id = ? AND d.round > 1
			AND (d.first_attempt_at IS NULL OR d.first_attempt_at <= ? OR d.first_attempt_at > ? OR `+givenUp+`)
		) AS t WHERE t.at > ? AND t.at <= ? AND EXISTS (SELECT 1 FROM leads AS l WHERE l.leads_id = ? AND l.org = ? AND l.stage = ?)
		ORDER BY t.at DESC LIMIT ?`,
		leadsID, made, leadsID, made, after, last, leadsID, after, last, after, last, leadsID, sc.Org, sc.Stage, limit).Scan(ctx, &rows)
	if err != nil {
		return nil, fmt.Errorf("look for touchpoints of lead %d: %w", leadsID, err)
	}
	return mapped(rows, func(at int64) time.Time { return time.UnixMicro(at).UTC() }), nil
}
