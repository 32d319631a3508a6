package storetest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"testing"
	"time"

	"waypost"
)

// simulation is a journey that has no effect: what its leads buy does not depend on whether they
// are held out, nor on the arm of the split that they take after a wait. Who is in which group is
// drawn from the seed, and leads are found that the store puts there, so that the same seed gives
// the same counts whatever ids are minted.
type simulation struct {
	*fixture
	rand    *rand.Rand
	n       int
	journey string
	shares  []float64 // of the control group, by version
	policy  waypost.Reentry
	pool    *pool
	leads   []int64
	chosen  map[int64]bool // in pool order, leads of this journey
	arms    map[int64]int
	waits   time.Duration // before the split
	stays   time.Duration // after it
	within  time.Duration
	at      map[string]time.Time // when running enrollments entered
	took    map[string]bool
	events  int
}

// pool is the leads that all simulations take theirs from.
type pool struct{ ids []int64 }

// policies are the re-entry rules that are simulated.
var policies = []waypost.Reentry{
	{Policy: waypost.ReentryAfterExit}, {Policy: waypost.ReentryAlways}, {Policy: waypost.ReentryNever},
	{Policy: waypost.ReentryAfterExit, Every: waypost.Duration(4 * time.Hour)},
	{Policy: waypost.ReentryAlways, Every: waypost.Duration(2 * time.Hour)},
}

func (s *simulation) definition(share float64, revision int) string {
	return fmt.Sprintf(`{"name":"J","least":0,"remark":%d,"controlGroup":%v,"reentry":{"policy":%q,"every":%q},"goal":{"event":"buy%d","within":%q}}`,
		revision, share, s.policy.Policy, time.Duration(s.policy.Every), s.n, s.within)
}

// lead returns a lead that is not in the simulation yet, and is held out by the shares above a
// draw alone.
func (s *simulation) lead(t testing.TB, draw float64) int64 {
	fits := func(lead int64) bool {
		return !s.chosen[lead] && !slices.ContainsFunc(s.shares, func(share float64) bool { return waypost.HeldOut(s.journey, lead, share) != (draw < share) })
	}
	for _, lead := range s.pool.ids {
		if fits(lead) {
			s.chosen[lead] = true
			return lead
		}
	}
	for {
		lead := s.fixture.lead(t)
		s.pool.ids = append(s.pool.ids, lead)
		if fits(lead) {
			s.chosen[lead] = true
			return lead
		}
	}
}

// simulate runs one journey to its end.
func simulate(t testing.TB, f *fixture, p *pool, r *rand.Rand, n int) *simulation {
	s := &simulation{
		fixture: f, rand: r, n: n, pool: p, chosen: map[int64]bool{}, arms: map[int64]int{}, at: map[string]time.Time{}, took: map[string]bool{},
		policy: policies[r.IntN(len(policies))], waits: time.Duration(r.IntN(4)) * time.Hour, stays: time.Duration(r.IntN(6)) * time.Hour,
		within: time.Duration(2+r.IntN(12)) * time.Hour,
	}
	first := 0.2 + 0.4*r.Float64()
	s.shares = []float64{first, []float64{first, 0.2 + 0.4*r.Float64()}[r.IntN(2)]}
	entry := waypost.EntryRule{Kind: waypost.EntryEvent, Event: fmt.Sprint("cart", n)}
	s.journey = must[waypost.Journey](t)(f.CreateJourney(t.Context(), scope, "J", []byte(`{}`))).ID
	f.republish(t, s.journey, s.definition(s.shares[0], 1), entry)
	eager := map[int64]float64{} // how likely each lead buys within an hour
	for range 180 {
		lead := s.lead(t, r.Float64())
		s.leads, s.arms[lead], eager[lead] = append(s.leads, lead), r.IntN(2), 0.2*r.Float64()
	}
	for hour := range 8 {
		if hour == 4 {
			f.republish(t, s.journey, s.definition(s.shares[1], 2), entry)
			s.deleteLead(t, r.IntN(len(s.leads)))
		}
		var events []waypost.Event
		for _, lead := range s.leads {
			if r.Float64() < 0.25 {
				events = append(events, s.event("cart", lead))
			}
			if r.Float64() < eager[lead] {
				events = append(events, s.event("buy", lead))
			}
		}
		must[waypost.EventImport](t)(f.ImportEvents(t.Context(), scope, eventLines(events)))
		f.clock.Advance(time.Hour)
		s.step(t)
	}
	return s
}

// deleteLead deletes one of the leads, which stays counted.
func (s *simulation) deleteLead(t testing.TB, i int) {
	lead := s.leads[i]
	ok(t, s.DeleteLead(t.Context(), scope, lead, nil))
	s.leads = slices.Delete(s.leads, i, i+1)
	s.pool.ids = slices.DeleteFunc(s.pool.ids, func(id int64) bool { return id == lead })
}

func (s *simulation) event(name string, lead int64) waypost.Event {
	s.events++
	return waypost.Event{EventID: fmt.Sprint(s.n, " ", s.events), Name: fmt.Sprint(name, s.n), LeadsID: lead, Properties: map[string]any{"total": 1.0}}
}

// step has those who have waited long enough take their arms, and end.
func (s *simulation) step(t testing.TB) {
	var ended []waypost.Progress
	byVersion := map[int][]waypost.ArmChoice{}
	now := s.clock.Now()
	for _, e := range s.enrollments(t, s.journey) {
		if e.EndedAt != nil {
			continue
		}
		stayed := now.Sub(e.CreatedAt)
		if stayed >= s.waits && !s.took[e.ID] {
			s.took[e.ID] = true
			byVersion[e.Version] = append(byVersion[e.Version], waypost.ArmChoice{
				Touchpoint: waypost.Touchpoint{EnrollmentID: e.ID, Visit: 2}, LeadsID: e.LeadsID, Arm: s.arms[e.LeadsID],
			})
		}
		if stayed >= s.waits+s.stays {
			ended = append(ended, waypost.Progress{EnrollmentID: e.ID, Status: waypost.EnrollmentCompleted, LastSeq: 1, Entries: []waypost.TimelineEntry{
				{Seq: 1, At: now, NodeID: "end", What: waypost.WhatExited},
			}})
		}
	}
	for version, items := range byVersion {
		must[map[waypost.Touchpoint]waypost.TakenArm](t)(s.TakeArms(t.Context(), waypost.ArmBatch{
			JourneyID: s.journey, Version: version, NodeID: "s", Weights: []int{1, 1}, At: now, Items: items,
		}))
	}
	ok(t, s.RecordProgress(t.Context(), ended))
}

// misses reads what the simulation came to: intervals of no effect, and how many of them miss 0;
// and whether the groups are told to be of the wrong sizes.
func (s *simulation) misses(t testing.TB) (intervals, missed, mismatched int) {
	sum := s.sums(t, s.journey)
	arms := sum.Node("s")
	if sum.SampleRatio().Mismatch {
		mismatched++
	}
	if waypost.SampleRatioOf([]int{arms.Arm(0).First.Leads, arms.Arm(1).First.Leads}, []int{1, 1}).Mismatch {
		mismatched++
	}
	for _, l := range []waypost.Lift{sum.Lift(), arms.Arm(1).First.LiftOver(arms.Arm(0).First, waypost.LiftConfidence)} {
		if l.Verdict == waypost.VerdictTooLittle || l.Verdict == waypost.VerdictMismatch {
			continue
		}
		intervals++
		if l.Low > 0 || l.High < 0 {
			missed++
		}
	}
	return intervals, missed, mismatched
}

// Of journeys without an effect, 95 % intervals miss 0 in about 5 % of the cases, and the groups are
// of the right sizes, whatever the re-entry rule, waits, versions, deletions and sweeps are.
// WAYPOST_TEST_SIMULATIONS are how many are simulated.
func testNoEffect(t *testing.T, f *fixture) {
	const most, few = 0.07, 3 // of the few intervals of the usual run, 3 can miss 0
	n := 25
	if text := os.Getenv("WAYPOST_TEST_SIMULATIONS"); text != "" {
		n = must[int](t)(strconv.Atoi(text))
	}
	r := rand.New(rand.NewPCG(1, 2))
	var p pool
	intervals, missed, mismatched := 0, 0, 0
	for i := range n {
		s := simulate(t, f, &p, r, i)
		ofThis, misses, wrong := s.misses(t)
		f.fold(t, 100)
		if i%10 == 0 {
			f.clock.Advance(100 * time.Hour)
			before := allTime(s.sums(t, s.journey).Goal)
			f.drop(t, waypost.Retention{Enrollments: time.Hour})
			equal(t, "after a sweep", allTime(s.sums(t, s.journey).Goal), before)
		}
		intervals, missed, mismatched = intervals+ofThis, missed+misses, mismatched+wrong
	}
	t.Logf("%d of %d intervals miss 0, %d groups are of wrong sizes", missed, intervals, mismatched)
	if float64(missed) > max(few, most*float64(intervals)) || intervals < n {
		t.Errorf("%d of %d intervals miss 0", missed, intervals)
	}
	if float64(mismatched) > 0.005*float64(2*n) {
		t.Errorf("%d groups of %d journeys are of wrong sizes", mismatched, n)
	}
}
