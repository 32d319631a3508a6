package main

import (
	"context"
	"fmt"
	"net/http"
	"strconv"
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
}

// goalStatistics are what became of enrollments that have a goal.
type goalStatistics struct {
	Enrollments, Converted int
	Rate                   *float64
	Value                  float64
}

func (g goalStatistics) String() string {
	if g.Rate == nil {
		return "nobody"
	}
	return fmt.Sprintf("%d of %d converted (%s), worth %s", g.Converted, g.Enrollments, percent(*g.Rate), strconv.FormatFloat(g.Value, 'f', -1, 64))
}

// liftStatistics compare a rate with that of the control group.
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
type begun struct{ Event, LeadCreated, LeadChanged int }

type nodeStatistics struct {
	NodeID                               string
	Entered, Standing, Waiting, Sending  int
	Deferred, Delivered, Failed, Skipped int
	Edges                                []struct {
		Next  string
		Count int
	}
	Arms []struct {
		Arm  int
		Next string
		Goal goalStatistics
		Lift *liftStatistics
	}
	Winner *struct {
		Status, Next string
		Arm          int
	}
}

// edge counts how often a node came next.
func (n nodeStatistics) edge(next string) int {
	for _, e := range n.Edges {
		if e.Next == next {
			return e.Count
		}
	}
	return 0
}

// treeNode is a node of a definition, as far as a tree tells of it.
type treeNode struct {
	ID, Type, Label                      string
	Next, OnFailure, OnTimeout, OnMissed string
	Cases, Arms                          []struct{ Next string }
	Otherwise                            string
}

// ways are how it goes on: what the way is called, "" for the usual one, and where to.
func (n treeNode) ways() (ways [][2]string) {
	add := func(name, to string) {
		if to != "" {
			ways = append(ways, [2]string{name, to})
		}
	}
	add("", n.Next)
	add("onFailure", n.OnFailure)
	add("onTimeout", n.OnTimeout)
	add("onMissed", n.OnMissed)
	for i, c := range n.Cases {
		add("case "+strconv.Itoa(i+1), c.Next)
	}
	for i, a := range n.Arms {
		add("arm "+strconv.Itoa(i+1), a.Next)
	}
	add("otherwise", n.Otherwise)
	return ways
}

// drawJourney writes the published version of a journey as a tree, with how many enrollments
// of it are where.
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
		fmt.Fprintf(c.stdout, "began by themselves: %d by an event, %d by a new lead, %d by a changed lead; %d refused by the re-entry rule, %d undecided\n",
			e.Begun.Event, e.Begun.LeadCreated, e.Begun.LeadChanged, e.Refused, e.Undecided)
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
	if st.Lift != nil {
		fmt.Fprintf(c.stdout, "lift: %s\n", st.Lift)
	}
	for _, n := range st.Nodes {
		for _, a := range n.Arms {
			to := ""
			if a.Next != "" {
				to = " → " + clean(a.Next)
			}
			fmt.Fprintf(c.stdout, "%s arm %d%s: %s\n", clean(n.NodeID), a.Arm, to, a.Goal)
			if a.Lift != nil {
				fmt.Fprintf(c.stdout, "  lift: %s\n", a.Lift)
			}
		}
		if w := n.Winner; w != nil {
			told := map[string]string{
				"open":     "the arms are to be compared",
				"decided":  fmt.Sprintf("arm %d has won, and takes everybody", w.Arm),
				"reversed": fmt.Sprintf("arm %d had won, which was taken back", w.Arm),
			}
			fmt.Fprintf(c.stdout, "%s: %s\n", clean(n.NodeID), told[w.Status])
		}
	}
}

// tree draws nodes as they follow one another. A node that several lead to has its counts
// and what follows it where it comes first, and an arrow elsewhere.
type tree struct {
	*table
	nodes  map[string]treeNode
	counts map[string]nodeStatistics
	drawn  map[string]bool
}

// draw writes a node, behind its branch of the tree, and those that follow it, behind below.
// edge is how often the way to it was taken.
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
		if way[0] != "" {
			fork += way[0] + ": "
		}
		t.draw(way[1], below+fork, below+under, n.edge(way[1]))
	}
}
