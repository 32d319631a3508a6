package journey

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"time"

	"waypost"
)

type split struct{ passing }

func (split) check(c *checker, _ int, n Node, path string) {
	arms := path + ".arms"
	switch {
	case len(n.Arms) == 0:
		c.p.Add(waypost.DetailNullValue, arms, "a split has at least two arms")
	case len(n.Arms) == 1:
		c.p.Add(waypost.DetailOutOfRange, arms, "a split has at least two arms")
	}
	c.atMost(len(n.Arms), n.limit("arms"), arms, "a split has at most %d arms, not %d")
	for i, a := range n.Arms {
		c.number(a.Weight, n.limit("arms.weight"), arms+element("", i)+".weight")
	}
	c.winner(n, path+".winner")
}

// winner checks when a split compares its arms.
func (c *checker) winner(n Node, path string) {
	w := n.Winner
	if w == nil {
		return
	}
	switch {
	case w.By == "":
		c.p.Add(waypost.DetailNullValue, path+".by", "must be goal")
	case w.By != byGoal:
		c.p.Add(waypost.DetailOutOfRange, path+".by", "must be goal")
	case c.d.body.Goal == nil:
		c.p.Add(waypost.DetailOutOfRange, path+".by", "the journey has no goal")
	}
	switch {
	case w.After != "" && w.Leads != 0:
		c.p.Add(waypost.DetailInvalidFormat, path+".leads", "must not stand beside after")
	case w.After != "":
		if after, ok := c.duration(w.After, path+".after", "48h or P2D"); ok && (after < time.Second || after > MaxAfter) {
			c.p.Add(waypost.DetailOutOfRange, path+".after", "must be between 1s and 366 days")
		}
	case w.Leads != 0:
		c.number(w.Leads, n.limit("winner.leads"), path+".leads")
	default:
		c.p.Add(waypost.DetailNullValue, path+".after", "must be a duration such as 48h, unless leads is given")
	}
}

func (split) take(r *stepper, n Node, in Input) error {
	switch {
	case in.Kind != InputDecided:
		return r.unexpected(n, in)
	case in.Arm < 0 || in.Arm >= len(n.Arms):
		return fmt.Errorf("node %q has no arm %d", n.ID, in.Arm)
	}
	result := fmt.Sprintf("arm %d", in.Arm+1)
	return r.leave(n, waypost.WhatTook, cmp.Or(in.Reason, result), result, n.armWay(in.Arm))
}

func (split) decide(_ *Definition, n Node, f Facts, _ time.Time) (in Input) {
	in.Arm = SplitArm(f.JourneyID, n.ID, f.Lead.LeadsID, n.Weights())
	in.Reason = n.armReason(in.Arm)
	return in
}

func (k split) answer(ctx context.Context, s *simulation, n Node, c Command) (Input, error) {
	if arm, won := s.o.Winners[n.ID]; won {
		return WonAt(arm, s.now), nil
	}
	return k.passing.answer(ctx, s, n, c)
}

// SplitArm returns the index of the arm of a split that a lead takes; -1 if no
// weight is above zero. It depends on the arguments alone, so that a lead takes
// the same arm when it enters again and in another version with the same
// weights, and other arms at other splits, independently. Of many leads each arm
// gets its weight's share, up to chance.
//
// The first eight bytes of the SHA-256 of "waypost split", the journey, the node
// and the lead's id in decimal, joined by zero bytes, are a fraction between 0
// and 1; the arms divide that range in their order by their weights. So changed
// weights move as few leads as can be: from 50/50 to 60/40, a tenth.
func SplitArm(journeyID, nodeID string, leadsID int64, weights []int) int {
	var total uint64
	for _, w := range weights {
		total += uint64(max(w, 0))
	}
	if total == 0 {
		return -1
	}
	sum := sha256.Sum256(fmt.Appendf(nil, "waypost split\x00%s\x00%s\x00%d", journeyID, nodeID, leadsID))
	at, _ := bits.Mul64(binary.BigEndian.Uint64(sum[:]), total)
	for i, w := range weights {
		share := uint64(max(w, 0))
		if at < share {
			return i
		}
		at -= share
	}
	return -1 // not reached: at is below total
}

// armReason says which arm of the split it is and how large.
func (n Node) armReason(arm int) string {
	if arm < 0 || arm >= len(n.Arms) {
		return ""
	}
	total := 0
	for _, weight := range n.Weights() {
		total += max(weight, 0)
	}
	return fmt.Sprintf("arm %d: weight %d of %d", arm+1, n.Arms[arm].Weight, total)
}
