package journey

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"waypost"
)

type branch struct{ passing }

func (branch) check(c *checker, i int, n Node, path string) {
	cases := n.Cases
	if len(cases) == 0 {
		c.p.Add(waypost.DetailNullValue, path+".cases", "a branch has at least one case")
	}
	c.atMost(len(cases), n.limit("cases"), path+".cases", "a branch has at most %d cases, not %d")
	if !c.room(path+".cases", n.conditions()...) {
		return
	}
	for j, compiled := range c.d.conditions[i]() {
		c.condition(cases[j].When, compiled, path+"."+element("cases", j)+".when")
	}
}

func (branch) take(r *stepper, n Node, in Input) error {
	switch {
	case in.Kind != InputDecided:
		return r.unexpected(n, in)
	case in.Arm < -1 || in.Arm >= len(n.Cases):
		return fmt.Errorf("node %q has no case %d", n.ID, in.Arm)
	}
	result, way := "otherwise", waypost.Edge{Way: waypost.WayOtherwise, Next: n.Otherwise}
	if in.Arm >= 0 {
		result, way = caseName(in.Arm), n.caseWay(in.Arm)
	}
	return r.leave(n, waypost.WhatTook, cmp.Or(in.Reason, result), result, way)
}

func (branch) decide(d *Definition, n Node, f Facts, now time.Time) (in Input) {
	f.Now = now
	in.Arm, in.Reason = d.Decide(n.ID, f)
	return in
}

// Decide evaluates the cases of a branch in their order and returns the index of
// the first that is true, -1 if none is. A case that errors or meets a missing
// value is false. reason says which arm it is and why, such as "case 2: lead.gender
// == 1 → true; case 1: error: no such key" or "otherwise; case 1: lead.gender == 1 →
// false". It has the results of all parts of the case that is true, and the errors of
// the cases before it; if none is true, the results of all cases. It holds no values but
// those of touchpoints.
func (d *Definition) Decide(node string, f Facts) (arm int, reason string) {
	i, ok := d.index[node]
	if !ok || d.body.Nodes[i].Type != Branch {
		return -1, "otherwise; error: not a branch"
	}
	ctx, cancel := context.WithTimeout(context.Background(), maxDecide)
	defer cancel()
	vars := conditionVariables(&f)
	reasons, faults := []string{"otherwise"}, []string{}
	for j, c := range d.conditions[i]() {
		v := c.holds(ctx, vars)
		result := caseName(j) + ": " + c.reason(v, &f)
		if v.yes {
			return j, waypost.Clip(strings.Join(append([]string{result}, faults...), "; "), maxWhy)
		}
		reasons = append(reasons, result)
		if v.fault != "" {
			faults = append(faults, caseName(j)+": "+errorPrefix+v.fault)
		}
	}
	return -1, waypost.Clip(strings.Join(reasons, "; "), maxWhy)
}

// caseName names an arm as people count.
func caseName(arm int) string { return fmt.Sprintf("case %d", arm+1) }
