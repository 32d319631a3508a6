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
	nodes := c.d.body.Nodes
	seen := make([]bool, len(nodes))
	seen[start] = true
	for queue := []int{start}; len(queue) > 0; queue = queue[1:] {
		for _, next := range c.d.after(queue[0]) {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	for i, n := range nodes {
		// A doubled or missing id is reported as such.
		if first, ok := c.d.index[n.ID]; ok && first == i && !seen[i] {
			c.p.Add(waypost.DetailOutOfRange, element("nodes", i), "no way leads from the start to node %q", clip(n.ID, 64))
		}
	}
}

// after lists the nodes that can follow a node.
func (d *Definition) after(i int) []int {
	var out []int
	for _, e := range d.body.Nodes[i].edges() {
		if next, ok := d.index[e.to]; ok {
			out = append(out, next)
		}
	}
	return out
}

// loops reports loops that an enrollment could run through without ever waiting:
// the strongly connected components of what is left without the nodes that wait.
// A touchpoint is no wait: its receiver can answer at once. A waitUntil of a time of
// day is one: it waits for the next, never for now. So is one for a date of the lead
// with onMissed, save for that way. A waitForEvent is one, though its event may be
// there already: an event satisfies a node only once.
func (c *checker) loops() {
	t := tarjan{d: c.d, order: make([]int, len(c.d.body.Nodes)), low: make([]int, len(c.d.body.Nodes)), onStack: make([]bool, len(c.d.body.Nodes))}
	for i := range c.d.body.Nodes {
		if t.order[i] == 0 && t.follows(i) {
			t.visit(i)
		}
	}
	slices.SortFunc(t.loops, func(a, b []int) int { return a[0] - b[0] })
	for _, loop := range t.loops {
		var names []string
		for _, i := range loop[:min(len(loop), 10)] {
			names = append(names, clip(c.d.body.Nodes[i].ID, 64))
		}
		if len(loop) > 10 {
			names = append(names, "…")
		}
		c.p.Add(waypost.DetailOutOfRange, element("nodes", loop[0]), "a loop without a delay, a waitForEvent or a waitUntil without lead: %s", strings.Join(names, ", "))
	}
}

// tarjan finds strongly connected components in one pass.
type tarjan struct {
	d       *Definition
	clock   int
	order   []int // when a node was first seen, 0: not yet
	low     []int // the earliest node of the stack that it leads to
	stack   []int
	onStack []bool
	loops   [][]int // indexes in ascending order
}

func (t *tarjan) follows(i int) bool {
	n := t.d.body.Nodes[i]
	first, ok := t.d.index[n.ID]
	return !n.waits() && ok && first == i
}

func (t *tarjan) visit(i int) {
	t.clock++
	t.order[i], t.low[i] = t.clock, t.clock
	t.stack, t.onStack[i] = append(t.stack, i), true
	self := false
	for _, e := range t.d.body.Nodes[i].edges() {
		next, ok := t.d.index[e.to]
		if !ok || t.d.body.Nodes[i].waitsOn(e.member) || !t.follows(next) {
			continue
		}
		self = self || next == i
		if t.order[next] == 0 {
			t.visit(next)
			t.low[i] = min(t.low[i], t.low[next])
		} else if t.onStack[next] {
			t.low[i] = min(t.low[i], t.order[next])
		}
	}
	if t.low[i] != t.order[i] {
		return
	}
	at := slices.Index(t.stack, i)
	component := slices.Sorted(slices.Values(t.stack[at:]))
	t.stack = t.stack[:at]
	for _, member := range component {
		t.onStack[member] = false
	}
	if len(component) > 1 || self {
		t.loops = append(t.loops, component)
	}
}
