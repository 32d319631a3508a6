package store

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"github.com/uptrace/bun"

	"waypost"
)

// part is which leads of its audience a launch enrolls.
type part int

const (
	partAll  part = iota // of a launch without a test
	partTest             // those of the test
	partHeld             // nobody: the rest waits until an arm has won
	partRest             // those that were held
)

func (r launchRow) part() part {
	switch {
	case r.Test == nil:
		return partAll
	case r.TestEndedAt.IsZero():
		return partTest
	case r.RestAt.IsZero():
		return partHeld
	}
	return partRest
}

func (r launchRow) test() (t waypost.LaunchTest, err error) {
	return t, fromJSON(text(r.Test), &t)
}

// tellTest adds to a launch where its test stands.
func (r launchRow) tellTest(l *waypost.Launch) error {
	if r.Test == nil {
		return nil
	}
	t, err := r.test()
	if err != nil {
		return err
	}
	t.EndedAt, t.RestAt = r.TestEndedAt.pointer(), r.RestAt.pointer()
	switch {
	case r.part() == partTest:
		t.Status = waypost.TestEntering
	case r.part() == partHeld:
		t.Status = waypost.TestWaiting
	case r.TestArm != nil:
		t.Status, t.Arm = waypost.TestDecided, int(*r.TestArm)
	case t.Undecided == waypost.UndecidedStop:
		t.Status = waypost.TestStopped
	default:
		t.Status = waypost.TestUndecided
	}
	l.Test = &t
	return nil
}

// lastOr is the last of leads, or, without one, what was reached before.
func lastOr(leads []int64, reached *int64) *int64 {
	if len(leads) == 0 {
		return reached
	}
	last := leads[len(leads)-1]
	return &last
}

// pick leaves those leads of a batch that enter with the test, at most n, and holds the others.
// As many are picked of the whole audience as the test is to have, each lead as likely as any other
// (selection sampling); who cannot enter is made up for by leads that come later, so a batch picks at
// most half of those that are wanted. For the same launch the same leads are picked.
func (b *audienceBatch) pick(l launchRow, rules versionRules, n int) error {
	t, err := l.test()
	if err != nil {
		return err
	}
	want, heldOut := t.Leads-l.Enrolled, l.HeldOut
	if t.Leads == 0 {
		want = max(1, int(math.Round(t.Share*float64(l.Total)))) - l.Enrolled - l.HeldOut
	}
	n = min(n, max(1, want/2))
	left := l.Total - l.Enrolled - l.Skipped - heldOut - l.Held
	all := b.leads
	b.leads = nil
	for _, lead := range all {
		if len(b.leads) == n {
			b.done = false
			break
		}
		b.looked++
		if chanceOf(l.ID, lead)*float64(max(left, 1)) >= float64(want) {
			b.held = append(b.held, lead)
		} else {
			b.leads = append(b.leads, lead)
			if t.Leads == 0 || !rules.holdsOut(lead, l.ControlGroup) { // the control group is beside so many leads, and part of a share
				want--
			}
		}
		left--
	}
	b.reached = lastOr(all[:b.looked], l.Reached)
	return nil
}

// chanceOf is a fraction between 0 and 1 for a lead of a launch, which depends on their ids alone.
func chanceOf(launchID string, lead int64) float64 {
	sum := sha256.Sum256(fmt.Appendf(nil, "waypost test\x00%s\x00%d", launchID, lead))
	return float64(binary.BigEndian.Uint64(sum[:])>>11) / (1 << 53)
}

// holdLeads stores which leads of a batch are held, in the place of those that the launch lists and
// has looked at.
func (s *launches) holdLeads(ctx context.Context, tx bun.Tx, l launchRow, b audienceBatch) error {
	if b.looked == 0 {
		return nil
	}
	q := tx.NewDelete().Model((*partRow)(nil)).Where("launch_id = ? AND last <= ?", l.ID, *b.reached)
	if l.Reached != nil { // what was held by then stays
		q.Where("last > ?", *l.Reached)
	}
	if _, err := q.Exec(ctx); err != nil {
		return fmt.Errorf("drop the list of leads: %w", err)
	}
	parts := newParts(l.ID, b.held)
	if len(parts) == 0 {
		return nil
	}
	if _, err := tx.NewInsert().Model(&parts).Exec(ctx); err != nil {
		return fmt.Errorf("hold leads: %w", err)
	}
	return nil
}

// stillIn returns those of held leads that are in the audience of a launch, as of its start.
func (s *launches) stillIn(ctx context.Context, l launchRow, leads []int64) (in []int64, err error) {
	if len(leads) == 0 {
		return nil, nil
	}
	if l.SegmentID != nil {
		err = s.snapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
			r, err := s.segments.readSegment(ctx, tx, l.Scope, *l.SegmentID, l.StartedAt.Time)
			if err == nil {
				in, err = s.segments.membersAmong(ctx, tx, r, leads, false)
			}
			return err
		})
	} else {
		var f waypost.LeadFilter
		if f, err = l.filter(); err != nil {
			return nil, err
		}
		f.LeadsIDs = leads
		err = s.leads.leadSnapshot(ctx, func(ctx context.Context, tx bun.Tx) error {
			return s.leads.leadFilter(tx.NewSelect().Model((*leadRow)(nil)).Column("leads_id"), l.Scope, f).Order("l.leads_id").Scan(ctx, &in)
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read the leads that were held: %w", err)
	}
	return in, nil
}

// awaitWinner lets the rest of a launch go on, or ends the launch, if an arm has won or the time for
// that is over. tell has the launch's workflow look what has become of it, and passes over a launch
// that is paused.
func (s *launches) awaitWinner(ctx context.Context, launchID string, tell bool) (step waypost.LaunchStep, err error) {
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		var l launchRow
		if err := s.lock(tx.NewSelect().Model(&l).Where("id = ?", launchID), "la").Scan(ctx); err != nil {
			return err
		}
		var stopped bool
		if !tell {
			if step, stopped, err = s.stopStep(ctx, tx, l); err != nil {
				return err
			}
		}
		step.RatePerSecond = l.RatePerSecond
		if stopped || l.part() != partHeld || l.Ended != "" {
			return nil
		}
		t, err := l.test()
		if err != nil {
			return err
		}
		over, err := s.endWait(ctx, tx, &l, t)
		switch {
		case err != nil:
			return err
		case !over:
			step.Waits = l.TestEndedAt.Add(t.After)
			return nil
		}
		step.Done = !l.DoneAt.IsZero()
		_, err = tx.NewUpdate().Model(&l).Column("rest_at", "test_arm", "done_at", "total", "skipped", "gone").WherePK().Exec(ctx)
		if err != nil || !tell {
			return err
		}
		return s.rounds.notifyWhole(ctx, tx, []string{l.ID})
	})
	return step, err
}

// endWait decides whether the wait of a launch for a winner is over, and what becomes of the rest.
func (s *launches) endWait(ctx context.Context, tx bun.Tx, l *launchRow, t waypost.LaunchTest) (over bool, err error) {
	won, never, err := s.winnerOf(ctx, tx, *l, t)
	if err != nil {
		return false, err
	}
	now := s.time()
	switch {
	case won >= 0:
		arm := int64(won)
		l.TestArm = &arm
	case !never && now.Before(l.TestEndedAt.Add(t.After)):
		return false, nil
	case t.Undecided == waypost.UndecidedStop:
		l.end(now)
	}
	l.RestAt = stamp{now}
	return true, nil
}

// winnerOf returns the arm that has won at the split of a launch's test, -1 if none has. It compares the
// arms if it is time to: nobody comes to the split while the rest is held. Once the test has entered it
// is time, whatever number of leads the split waits for: test leads, and who ends before the split, take no
// arm that counts. never says that no arm will win, as people have taken the decision back.
func (s *launches) winnerOf(ctx context.Context, tx bun.Tx, l launchRow, t waypost.LaunchTest) (arm int, never bool, err error) {
	row := winnerRow{JourneyID: l.JourneyID, Version: l.Version, NodeID: t.NodeID}
	err = tx.NewSelect().Model(&row).WherePK().Scan(ctx)
	switch {
	case errors.Is(err, sql.ErrNoRows): // nobody has come to the split
		return -1, false, nil
	case err != nil:
		return -1, false, fmt.Errorf("look for a winner: %w", err)
	case row.Status == waypost.ContestReversed:
		return -1, true, nil
	}
	t.Contest.Leads = 0
	arm, err = s.enrollments.wonArm(ctx, tx, waypost.ArmBatch{JourneyID: l.JourneyID, Version: l.Version, NodeID: t.NodeID, Weights: t.Weights, Contest: &t.Contest})
	return arm, false, err
}

// heldAtOnce is how many launches with held leads a sweep looks at in one go.
const heldAtOnce = 100

// ReleaseHeld looks whether arms have won that launches hold leads for, and tells their workflows. It
// looks at up to 100 launches after an id, and returns where to go on: "" at the end.
func (s *launches) ReleaseHeld(ctx context.Context, after string) (next string, err error) {
	defer wrap(&err, "look for winners that launches wait for")
	var ids []string
	err = s.r.NewSelect().Model((*launchRow)(nil)).Column("id").
		Where("test_ended_at IS NOT NULL AND rest_at IS NULL AND ended = '' AND id > ?", after).Order("id").Limit(heldAtOnce).Scan(ctx, &ids)
	if err != nil {
		return "", err
	}
	for _, id := range ids {
		if _, err := s.awaitWinner(ctx, id, true); err != nil {
			return "", err
		}
	}
	if len(ids) < heldAtOnce {
		return "", nil
	}
	return ids[len(ids)-1], nil
}

// UpdateLaunch changes the rate of a launch that has not ended: change gets the launch as it is, and sets
// RatePerSecond, 0 for as fast as it goes. The workflow of the launch is told, and one that recurs passes
// the rate to its next occurrences. NotFound if the scope has none of this id, Conflict if it has ended.
func (s *launches) UpdateLaunch(
	ctx context.Context, by waypost.Caller, id string, change func(*waypost.Launch) error,
) (l waypost.Launch, err error) {
	defer wrap(&err, "update launch %s", clip(id))
	sc, author := by.Within()
	for done := false; !done; {
		if l, err = s.Launch(ctx, sc, id); err != nil {
			return l, err
		}
		if l.Status.Ended() {
			return l, endedLaunch(l.Status)
		}
		before := l.RatePerSecond
		if err := change(&l); err != nil {
			return l, err
		}
		if err := checkRate(l.RatePerSecond); err != nil {
			return l, err
		}
		if done, err = s.changeRate(ctx, author, id, before, l.RatePerSecond); err != nil {
			return l, err
		}
	}
	return s.Launch(ctx, sc, id)
}

// changeRate sets the rate of a launch, unless another call has changed it since it was before.
func (s *launches) changeRate(ctx context.Context, author *waypost.Author, id string, before, after float64) (done bool, err error) {
	err = s.write(ctx, func(ctx context.Context, tx bun.Tx) error {
		var row launchRow
		if err := s.lock(tx.NewSelect().Model(&row).Where("id = ?", id), "la").Scan(ctx); err != nil {
			return err
		}
		if row.Ended != "" {
			return endedLaunch(row.Ended)
		}
		if done = row.RatePerSecond == before; !done || before == after {
			return nil
		}
		if _, err := tx.NewUpdate().Model(&row).Set("rate_per_second = ?", after).WherePK().Exec(ctx); err != nil {
			return err
		}
		if err := s.audit.add(ctx, tx, author, "launch.update", id, auditedRate(before), auditedRate(after)); err != nil || row.Cron != nil {
			return err
		}
		return s.rounds.notifyWhole(ctx, tx, []string{id})
	})
	return done, err
}

// auditedRate is what the audit log tells of a launch's rate.
func auditedRate(rate float64) fields {
	if rate == 0 {
		return fields{"ratePerSecond": nil}
	}
	return fields{"ratePerSecond": rate}
}

func endedLaunch(status waypost.LaunchStatus) error {
	return waypost.Errorf(waypost.CodeConflict, "id", "the launch has ended: %s", status)
}

func checkRate(rate float64) error {
	return checkLaunch(waypost.Launch{RatePerSecond: rate, Audience: waypost.Audience{LeadsIDs: []int64{}}}, 0)
}
