package journey

import (
	"slices"
	"strings"

	"waypost"
)

// reach reports the nodes that no way from the start leads to. Without a start
// there is nothing to say.
func (c *checker) reach() {
	start, ok := c.d.index[c.d.body.Start]
	if !ok {
		return
	}
	reached := reachable(c.edges(func(int, edge, int) bool { return true }), start)
	reached[start] = true
	for i, n := range c.d.body.Nodes {
		if c.isNode(i) && !reached[i] {
			c.p.Add(waypost.DetailOutOfRange, element("nodes", i), "no way leads from the start to node %q", waypost.Clip(n.ID, 64))
		}
	}
}

// loops reports loops that an enrollment could run through without ever waiting:
// nodes that lead to each other by edges on which no time passes.
// A touchpoint is no wait: its receiver can answer at once. A waitUntil of a time of
// day is one: it waits for the next, never for now. So is one for a date of the lead
// with onMissed, save for that way. A waitForEvent is one, though its event may be
// there already: an event satisfies a node only once. A waitFor is one by onTimeout alone:
// its condition can be true at once; so is a waitForEvent that takes what an emit of the
// journey may have emitted before, of which each turn makes another one.
func (c *checker) loops() {
	nodes := c.d.body.Nodes
	emitted := map[string]bool{}
	for _, n := range nodes {
		if n.Type == Emit {
			emitted[n.Event] = true
		}
	}
	answered := func(n Node) bool {
		return n.SinceEnrollment() && slices.ContainsFunc(n.Awaits(), func(event string) bool { return emitted[event] })
	}
	after := c.edges(func(i int, e edge, next int) bool {
		from, to := nodes[i], nodes[next]
		waited := kindOf(from.Type).waitsOn(from, e.member) && !(answered(from) && e.member != "onTimeout")
		return c.isNode(i) && !waited && !(kindOf(to.Type).waits(to) && !answered(to))
	})
	before := make([][]int, len(nodes))
	for i := range after {
		for _, next := range after[i] {
			before[next] = append(before[next], i)
		}
	}
	reported := make([]bool, len(nodes))
	for i := range nodes {
		if reported[i] {
			continue
		}
		led, leading := reachable(after, i), reachable(before, i)
		var names []string
		what := "a loop without a delay, a waitForEvent or a waitUntil without lead"
		for j, n := range nodes {
			if led[j] && leading[j] {
				reported[j] = true
				names = append(names, waypost.Clip(n.ID, 64))
				if answered(n) {
					what = "a loop whose waitForEvent takes, since enrollment, what the journey emits itself"
				}
			}
		}
		if len(names) > 10 {
			names = append(names[:10], "…")
		}
		if len(names) > 0 {
			c.p.Add(waypost.DetailOutOfRange, element("nodes", i), "%s: %s", what, strings.Join(names, ", "))
		}
	}
}

// isNode tells whether references to the id of node i lead there; a missing or doubled
// id is reported as such.
func (c *checker) isNode(i int) bool {
	first, ok := c.d.index[c.d.body.Nodes[i].ID]
	return ok && first == i
}

// edges lists the nodes that can follow each node by the edges that count.
func (c *checker) edges(counts func(i int, e edge, next int) bool) [][]int {
	after := make([][]int, len(c.d.body.Nodes))
	for i, n := range c.d.body.Nodes {
		for _, e := range n.edges() {
			if next, ok := c.d.index[e.to]; ok && counts(i, e, next) {
				after[i] = append(after[i], next)
			}
		}
	}
	return after
}

// reachable tells of each node whether one or more edges lead there from a node; to
// itself only by a loop.
func reachable(after [][]int, from int) []bool {
	reached := make([]bool, len(after))
	for queue := []int{from}; len(queue) > 0; queue = queue[1:] {
		for _, next := range after[queue[0]] {
			if !reached[next] {
				reached[next] = true
				queue = append(queue, next)
			}
		}
	}
	return reached
}
