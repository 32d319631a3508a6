package store

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// ListVersions returns the published versions of a journey, newest first and
// without their definitions, which can be large. page.After is a version's number.
// NotFound if the scope has no such journey, BadRequest of "cursor" for an After
// that is no number.
func (s *Store) ListVersions(ctx context.Context, sc waypost.Scope, id string, page waypost.Page) ([]waypost.JourneyVersion, error) {
	if _, err := s.journeyRow(ctx, s.r, sc, id); err != nil {
		return nil, fmt.Errorf("list versions of journey %s: %w", clip(id), err)
	}
	var rows []versionRow
	q := s.r.NewSelect().Model(&rows).Column("journey_id", "version", "name", "hash", "published_at").
		Where("journey_id = ?", id).Order("version DESC").Limit(pageSize(page))
	if page.After != "" {
		after, err := strconv.Atoi(page.After)
		if err != nil {
			return nil, errCursor
		}
		q.Where("version < ?", after)
	}
	if err := q.Scan(ctx); err != nil {
		return nil, fmt.Errorf("list versions of journey %s: %w", id, err)
	}
	list := make([]waypost.JourneyVersion, len(rows))
	for i, row := range rows {
		list[i] = row.version(sc)
		list[i].Definition = nil
	}
	return list, nil
}

// ArchiveJourney takes a journey out of use: there are no new enrollments and
// launches of it, and those that it has go on. One that is archived stays so;
// publishing it again ends that. NotFound if the scope has none of this id, Conflict
// if it was never published.
func (s *Store) ArchiveJourney(ctx context.Context, sc waypost.Scope, id string) (waypost.Journey, error) {
	var row journeyRow
	err := s.write(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
		if row, err = s.journeyRow(ctx, tx, sc, id); err != nil {
			return err
		}
		switch waypost.JourneyStatus(row.Status) {
		case waypost.JourneyDraft:
			return waypost.Errorf(waypost.CodeConflict, "id", "the journey was never published; delete it instead")
		case waypost.JourneyArchived:
		default:
			if err := s.setStatus(ctx, tx, &row, waypost.JourneyArchived); err != nil {
				return err
			}
		}
		return s.keep(ctx, tx, row.journey())
	})
	if err != nil {
		return waypost.Journey{}, fmt.Errorf("archive journey %s: %w", clip(id), err)
	}
	return row.journey(), nil
}

func (s *Store) setStatus(ctx context.Context, tx bun.Tx, row *journeyRow, status waypost.JourneyStatus) error {
	row.Status, row.UpdatedAt = string(status), stamp{s.time()}
	_, err := tx.NewUpdate().Model(row).Column("status", "updated_at").WherePK().Exec(ctx)
	return err
}

// inUse is the status that a journey has once it is published: an archived one is
// taken into use again, and is paused if it was paused meanwhile.
func (s *Store) inUse(ctx context.Context, tx bun.Tx, row journeyRow) (waypost.JourneyStatus, error) {
	status := waypost.JourneyStatus(row.Status)
	if status != waypost.JourneyDraft && status != waypost.JourneyArchived {
		return status, nil
	}
	paused, err := tx.NewSelect().Model((*controlRow)(nil)).Where("target = ? AND kind = 'pause' AND until_at IS NULL", row.ID).Exists(ctx)
	if err != nil || !paused {
		return waypost.JourneyActive, err
	}
	return waypost.JourneyPaused, nil
}

// refuseArchived is a Conflict if a journey is archived.
func refuseArchived(ctx context.Context, tx bun.Tx, id string) error {
	archived, err := tx.NewSelect().Model((*journeyRow)(nil)).Where("id = ? AND status = ?", id, waypost.JourneyArchived).Exists(ctx)
	if err == nil && archived {
		err = waypost.Errorf(waypost.CodeConflict, "id", "the journey is archived")
	}
	return err
}

// MissingJourneys returns those of ids that the scope has no journey for, sorted
// and without duplicates.
func (s *Store) MissingJourneys(ctx context.Context, sc waypost.Scope, ids []string) ([]string, error) {
	missing := slices.Compact(slices.Sorted(slices.Values(ids)))
	var known, there []string
	for _, id := range missing {
		if waypost.IsID(waypost.PrefixJourney, id) {
			known = append(known, id)
		}
	}
	if len(known) == 0 {
		return missing, nil
	}
	err := s.r.NewSelect().Model((*journeyRow)(nil)).Column("id").
		Where("id IN (?) AND org = ? AND stage = ?", bun.List(known), sc.Org, sc.Stage).Scan(ctx, &there)
	if err != nil {
		return nil, fmt.Errorf("look for journeys: %w", err)
	}
	return slices.DeleteFunc(missing, func(id string) bool { return slices.Contains(there, id) }), nil
}

// SampleAudience returns up to n leads of an audience, in the order of their ids, and
// how many leads it has. Each lead is as likely to be picked as any other, and of the
// same audience always the same are. Listed leads that do not exist do not count; of
// a list of more than n leads, how many do is estimated by the sample. With a filter
// it looks at all leads that match: one or two seconds for a million of them.
// BadRequest if the audience is not exactly one of filter and list.
func (s *Store) SampleAudience(ctx context.Context, sc waypost.Scope, a waypost.Audience, n int) (leads []waypost.Lead, total int, err error) {
	listed := slices.Compact(slices.Sorted(slices.Values(a.LeadsIDs)))
	if err := checkLaunch(waypost.Launch{Audience: a}, len(listed)); err != nil {
		return nil, 0, err
	}
	var ids []int64
	if a.Filter != nil {
		err = s.leadSnapshot(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			ids, total, err = s.sample(ctx, tx, sc, *a.Filter, n)
			return err
		})
	} else {
		for _, place := range places(len(listed), n) {
			ids = append(ids, listed[place])
		}
	}
	var found map[int64]waypost.Lead
	if err == nil {
		found, err = s.LeadsByID(ctx, sc, ids)
	}
	if err != nil {
		return nil, 0, fmt.Errorf("sample an audience: %w", err)
	}
	for _, id := range ids {
		if lead, there := found[id]; there {
			leads = append(leads, lead)
		}
	}
	if a.Filter == nil && len(ids) > 0 {
		total = (len(leads)*len(listed) + len(ids)/2) / len(ids)
	}
	return leads, total, nil
}

// places picks up to n of so many places, in their order: by chance, because what
// stands in a list can repeat itself, and for the same numbers always the same.
func places(total, n int) []int64 {
	chance := rand.New(rand.NewPCG(uint64(total), uint64(n)))
	picked := make(map[int64]bool, n)
	for i := max(0, total-n); i < total; i++ { // Floyd's algorithm
		place := chance.Int64N(int64(i) + 1)
		if picked[place] {
			place = int64(i)
		}
		picked[place] = true
	}
	return slices.Sorted(maps.Keys(picked))
}

// sample picks up to n of the leads that match, and counts them.
func (s *Store) sample(ctx context.Context, tx bun.Tx, sc waypost.Scope, f waypost.LeadFilter, n int) (ids []int64, total int, err error) {
	index := leadsByScope
	if len(leadConditions(sc, f)) > 0 && !s.hasStatistics() {
		if index, err = s.rarest(ctx, tx, sc, f); err != nil {
			return nil, 0, err
		}
	}
	many, err := s.matching(tx, leadWalk{sc: sc}, index, f).Count(ctx)
	if err != nil || many == 0 || n < 1 {
		return nil, int(many), err
	}
	numbered := s.matching(tx, leadWalk{sc: sc}, index, f).ColumnExpr("l.leads_id").ColumnExpr("row_number() OVER (ORDER BY l.leads_id) - 1 AS place")
	err = tx.NewSelect().TableExpr("(?) AS l", numbered).ColumnExpr("l.leads_id").
		Where("l.place IN (?)", bun.List(places(int(many), n))).OrderExpr("l.leads_id").Scan(ctx, &ids)
	return ids, int(many), err
}

// RecentTouchpoints returns when the last messages to a lead, of all journeys of the
// scope, had their first attempts: those after since and not after until that have a
// place in frequency caps by now, newest first, at most limit.
// Of a message that was redelivered it is the first attempt of the last such round that
// had one by then.
func (s *Store) RecentTouchpoints(ctx context.Context, sc waypost.Scope, leadsID int64, since, until time.Time, limit int) ([]time.Time, error) {
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
	times := make([]time.Time, len(rows))
	for i, at := range rows {
		times[i] = time.UnixMicro(at).UTC()
	}
	return times, nil
}
