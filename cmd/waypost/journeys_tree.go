package main

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// statistics are what a journey's tree shows.
type statistics struct {
	Nodes       []nodeStatistics
	Enrollments struct {
		Entered, Completed, Exited, Failed, Canceled, HeldOut int
		Begun                                                 begun
		Refused, Undecided                                    int

		Goal *goalStatistics
	}
	ControlGroup *struct{ Goal goalStatistics }
	Lift         *liftStatistics
	SampleRatio  *struct {
		Expected, Seen *float64
		Mismatch       bool
	}
}

// goalStatistics are what became of leads whose enrollments have a goal.
type goalStatistics struct {
	Leads, Enrollments, Converted, Open int

	Rate  *float64
	Value float64
}

func (g goalStatistics) String() string {
	if g.Rate == nil {
		return "nobody"
	}
	text := fmt.Sprintf("%d of %s converted (%s)", g.Converted, quantity(g.Leads, "lead", "leads"), percent(*g.Rate))
	if g.Value != 0 { // a goal without a value is worth nothing
		text += ", worth " + strconv.FormatFloat(g.Value, 'f', -1, 64)
	}
	if g.Enrollments > g.Leads {
		text += fmt.Sprintf("; they entered %d times", g.Enrollments)
	}
	if g.Open > 0 {
		text += fmt.Sprintf("; %d can still convert", g.Open)
	}
	return text
}

// liftStatistics compare a rate with another one.
type liftStatistics struct {
	Difference            *float64
	Low, High, Confidence float64
	Text                  string
}

func (l liftStatistics) String() string {
	if l.Difference == nil {
		return clean(l.Text)
	}
	return fmt.Sprintf("%+.1f points, between %+.1f and %+.1f with %.0f %% confidence. %s", 100**l.Difference, 100*l.Low, 100*l.High, 100*l.Confidence, clean(l.Text))
}

func percent(rate float64) string { return fmt.Sprintf("%.1f %%", 100*rate) }

// begun are enrollments that began by themselves.
type begun struct{ Event, LeadCreated, LeadChanged, Segment int }

type nodeStatistics struct {
	NodeID                               string
	Entered, Standing, Waiting, Sending  int
	Deferred, Delivered, Failed, Skipped int
	Edges                                []edgeCount
	Ends                                 []edgeCount // without Next
	Arms                                 []struct {
		Arm  int
		Next string
		Goal goalStatistics
		Lift *liftStatistics

		LiftOverControlGroup *liftStatistics
	}
	SampleRatio *struct {
		Expected, Seen []float64
		Mismatch       bool
	}
	Winner *struct {
		Status, Next string
		Arm          int
		DecidedAt    *string
		Arms         []goalStatistics // as they were when they were compared
	}
}

// edgeCount is how often a way was taken.
type edgeCount struct {
	Next, Way string
	Count     int
}

// took is how often a way was taken.
func (n nodeStatistics) took(w treeWay) int {
	for _, e := range slices.Concat(n.Edges, n.Ends) {
		if e.Way == w.way && e.Next == w.next {
			return e.Count
		}
	}
	return 0
}

// treeNode is a node of a definition, as far as a tree tells of it.
type treeNode struct {
	ID, Type, Label                      string
	Next, OnFailure, OnTimeout, OnMissed string
	Events                               []struct{ Event, Next string }
	Cases, Arms                          []struct{ Next string }
	Otherwise                            string
}

// treeWay is a way on from a node: its label in the tree, "" for next, its name in statistics, and the
// id of the next node, "" where the journey ends.
type treeWay struct{ label, way, next string }

// ways are the ways on from a node. A way that ends the journey is listed only beside others.
func (n treeNode) ways() (ways []treeWay) {
	add := func(label, way, next string) {
		if w := (treeWay{label, way, next}); !slices.Contains(ways, w) {
			ways = append(ways, w)
		}
	}
	for _, e := range n.Events {
		add("event "+e.Event, "event:"+e.Event, e.Next)
	}
	for i, c := range n.Cases {
		add("case "+strconv.Itoa(i+1), "case:"+strconv.Itoa(i), c.Next)
	}
	for i, a := range n.Arms {
		add("arm "+strconv.Itoa(i+1), "arm:"+strconv.Itoa(i), a.Next)
	}
	switch {
	case n.Type == "branch":
		add("otherwise", "otherwise", n.Otherwise)
	case len(n.Events) > 0:
		add("onTimeout", "onTimeout", n.OnTimeout)
	case n.Type != "split" && n.Type != "exit":
		add("", "next", n.Next)
		for _, other := range [][2]string{{"onFailure", n.OnFailure}, {"onTimeout", n.OnTimeout}, {"onMissed", n.OnMissed}} {
			if other[1] != "" {
				add(other[0], other[0], other[1])
			}
		}
	}
	if len(ways) == 1 && ways[0].next == "" {
		return nil
	}
	return ways
}

// drawJourney writes the published version of a journey as a tree, with the number of enrollments at
// each node.
func (c *cli) drawJourney(ctx context.Context, cl *client, journey members) error {
	version := journey.text("publishedVersion")
	if version == "" {
		return nil
	}
	id := journey.text("id")
	shown, err := cl.do(ctx, http.MethodGet, versionsPath(id)+"/"+version, nil, nil)
	if err != nil {
		return err
	}
	var v struct {
		Definition struct {
			Start string
			Nodes []treeNode
		}
	}
	if err := shown.decode(&v, "version"); err != nil {
		return err
	}
	counted, err := cl.do(ctx, http.MethodGet, journeyPath(id)+"/statistics?version="+version, nil, nil)
	if err != nil {
		return err
	}
	var st statistics
	if err := counted.decode(&st, "statistics"); err != nil {
		return err
	}
	e := st.Enrollments
	fmt.Fprintf(c.stdout, "\nversion %s: %s, %d completed, %d exited, %d failed, %d canceled, %d held out\n",
		version, quantity(e.Entered, "enrollment", "enrollments"), e.Completed, e.Exited, e.Failed, e.Canceled, e.HeldOut)
	if e.Begun != (begun{}) || e.Refused > 0 || e.Undecided > 0 {
		fmt.Fprintf(c.stdout, "began by themselves: %d by an event, %d by a new lead, %d by a changed lead, %d by a segment; %d refused by the re-entry rule, %d undecided\n",
			e.Begun.Event, e.Begun.LeadCreated, e.Begun.LeadChanged, e.Begun.Segment, e.Refused, e.Undecided)
	}
	fmt.Fprintln(c.stdout)
	t := tree{nodes: map[string]treeNode{}, counts: map[string]nodeStatistics{}, drawn: map[string]bool{},
		table: c.table("NODE", "TYPE", "EDGE", "ENTERED", "STANDING", "WAITING", "SENDING", "DEFERRED", "DELIVERED", "FAILED", "SKIPPED")}
	for _, n := range v.Definition.Nodes {
		t.nodes[n.ID] = n
	}
	for _, n := range st.Nodes {
		t.counts[n.NodeID] = n
	}
	t.draw(v.Definition.Start, "", "", e.Entered)
	if err := t.flush(); err != nil || e.Goal == nil {
		return err
	}
	c.printGoal(st)
	return nil
}

// printGoal writes what the enrollments came to for the goal of the journey.
func (c *cli) printGoal(st statistics) {
	fmt.Fprintf(c.stdout, "\ngoal: %s\n", st.Enrollments.Goal)
	if st.ControlGroup != nil {
		fmt.Fprintf(c.stdout, "control group: %s\n", st.ControlGroup.Goal)
	}
	if r := st.SampleRatio; r != nil && r.Mismatch && r.Expected != nil && r.Seen != nil {
		fmt.Fprintf(c.stdout, "WARNING: the control group has %s of the leads, not %s\n", percent(*r.Seen), percent(*r.Expected))
	}
	if st.Lift != nil {
		fmt.Fprintf(c.stdout, "lift: %s\n", st.Lift)
	}
	for _, n := range st.Nodes {
		c.printArms(n)
	}
}

// printArms writes what the arms of a split came to, and which one has won.
func (c *cli) printArms(n nodeStatistics) {
	if r := n.SampleRatio; r != nil && r.Mismatch {
		fmt.Fprintf(c.stdout, "WARNING: the arms of %s have %s of the leads, not %s\n", clean(n.NodeID), percents(r.Seen), percents(r.Expected))
	}
	for _, a := range n.Arms {
		to := ""
		if a.Next != "" {
			to = " → " + clean(a.Next)
		}
		fmt.Fprintf(c.stdout, "%s arm %d%s: %s\n", clean(n.NodeID), a.Arm, to, a.Goal)
		if a.Lift != nil {
			fmt.Fprintf(c.stdout, "  lift over arm 1: %s\n", a.Lift)
		}
		if a.LiftOverControlGroup != nil {
			fmt.Fprintf(c.stdout, "  lift over the control group: %s\n", a.LiftOverControlGroup)
		}
	}
	w := n.Winner
	if w == nil {
		return
	}
	said := map[string]string{
		"open":     "the arms are to be compared",
		"decided":  fmt.Sprintf("arm %d has won, and takes everybody", w.Arm),
		"reversed": fmt.Sprintf("arm %d had won, which was taken back", w.Arm),
	}
	fmt.Fprintf(c.stdout, "%s: %s\n", clean(n.NodeID), said[w.Status])
	if w.DecidedAt == nil {
		return
	}
	fmt.Fprintf(c.stdout, "  decided %s by:\n", clean(*w.DecidedAt))
	for i, g := range w.Arms {
		fmt.Fprintf(c.stdout, "  arm %d: %s\n", i+1, g)
	}
}

// percents writes shares, one after another.
func percents(shares []float64) string {
	texts := make([]string, len(shares))
	for i, share := range shares {
		texts[i] = percent(share)
	}
	return strings.Join(texts, ", ")
}

// tree draws nodes as they follow one another. A node that several lead to has its counts
// and what follows it where it comes first, and an arrow elsewhere.
type tree struct {
	*table
	nodes  map[string]treeNode
	counts map[string]nodeStatistics
	drawn  map[string]bool
}

// draw writes a node after the prefix branch, and the nodes that follow it after the prefix below.
// edge is how often the way to the node was taken.
func (t tree) draw(id, branch, below string, edge int) {
	if t.drawn[id] {
		t.row(branch+clean(id)+" ↑", "", strconv.Itoa(edge))
		return
	}
	t.drawn[id] = true
	node, n := t.nodes[id], t.counts[id]
	name := branch + clean(id)
	if node.Label != "" {
		name += " (" + clean(node.Label) + ")"
	}
	cells := []string{name, clean(node.Type), strconv.Itoa(edge)}
	for _, count := range []int{n.Entered, n.Standing, n.Waiting, n.Sending, n.Deferred, n.Delivered, n.Failed, n.Skipped} {
		cells = append(cells, strconv.Itoa(count))
	}
	t.row(cells...)
	ways := node.ways()
	for i, way := range ways {
		fork, under := "├─ ", "│  "
		if i == len(ways)-1 {
			fork, under = "└─ ", "   "
		}
		if way.label != "" {
			fork += clean(way.label) + ": "
		}
		if way.next == "" {
			t.row(below+fork+"(the journey ends)", "", strconv.Itoa(n.took(way)))
			continue
		}
		t.draw(way.next, below+fork, below+under, n.took(way))
	}
}
