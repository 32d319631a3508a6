package store

import (
	"context"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/uptrace/bun"

	"waypost"
)

// SampleAudience returns up to n leads of an audience as it is at a time, in the order of their
// ids, and how many leads it has. Each lead is as likely to be picked as any other, and of the
// same audience always the same are. Listed leads that do not exist do not count; of
// a list of more than n leads, how many do is estimated by the sample. With a filter
// it looks at all leads that match: one or two seconds for a million of them; of a segment
// that must be evaluated, half a minute.
// BadRequest if the audience is not exactly one of filter, segment and list.
func (s *launches) SampleAudience(
	ctx context.Context, sc waypost.Scope, a waypost.Audience, at time.Time, n int,
) (leads []waypost.Lead, total int, err error) {
	defer wrap(&err, "sample an audience")
	listed := distinct(a.LeadsIDs)
	if err := checkLaunch(waypost.Launch{Audience: a}, len(listed)); err != nil {
		return nil, 0, err
	}
	var ids []int64
	switch {
	case a.Filter != nil:
		err = s.leads.leadSnapshot(ctx, func(ctx context.Context, tx bun.Tx) (err error) {
			ids, total, err = s.sample(ctx, tx, sc, *a.Filter, n)
			return err
		})
	case a.Segment != "":
		err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
			r, err := s.segments.readSegment(ctx, tx, sc, a.Segment, at.UTC().Truncate(time.Microsecond))
			if waypost.CodeOf(err) == waypost.CodeNotFound {
				return noAudience(a.Segment)
			}
			if err == nil {
				total, _, ids, err = s.segments.countMembers(ctx, tx, r, n)
			}
			return err
		})
	default:
		for _, place := range places(len(listed), n) {
			ids = append(ids, listed[place])
		}
	}
	var found map[int64]waypost.Lead
	if err == nil {
		found, err = s.leads.LeadsByID(ctx, sc, ids)
	}
	if err != nil {
		return nil, 0, err
	}
	for _, id := range ids {
		if lead, there := found[id]; there {
			leads = append(leads, lead)
		}
	}
	if a.Listed() && len(ids) > 0 {
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
func (s *launches) sample(
	ctx context.Context, tx bun.Tx, sc waypost.Scope, f waypost.LeadFilter, n int,
) (ids []int64, total int, err error) {
	index := leadsByScope
	if len(s.leads.leadConditions(sc, f)) > 0 && !s.hasStatistics() {
		if index, err = s.leads.rarest(ctx, tx, sc, f); err != nil {
			return nil, 0, err
		}
	}
	many, err := s.leads.matching(tx, leadWalk{sc: sc}, index, f).Count(ctx)
	if err != nil || many == 0 || n < 1 {
		return nil, int(many), err
	}
	numbered := s.leads.matching(tx, leadWalk{sc: sc}, index, f).ColumnExpr("l.leads_id").ColumnExpr("row_number() OVER (ORDER BY l.leads_id) - 1 AS place")
	err = tx.NewSelect().TableExpr("(?) AS l", numbered).ColumnExpr("l.leads_id").
		Where("l.place IN (?)", bun.List(places(int(many), n))).OrderExpr("l.leads_id").Scan(ctx, &ids)
	return ids, int(many), err
}
