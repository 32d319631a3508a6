package console

import (
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"waypost"
	"waypost/journey/nodes"
)

// outline makes a nested list of a journey's graph: what follows a node stands below it, and
// the ways of a node that has several are lists of their own until they meet again.
type outline struct {
	nodes    map[string]node
	counts   map[string]nodeCounts
	next     map[string][]string        // the nodes that ways lead to, by node
	reached  map[string]map[string]bool // all that can follow a node, and the node
	placed   map[string]bool            // nodes that stand in the list; others lead there by a link
	webhooks names
	journeys names
	t        func(key string, args ...any) string
	at       string // the path of the journey
	journey  string // its id
	language string
}

// outlineStep is a node of an outline.
type outlineStep struct {
	node
	nodeCounts
	Path    string            // of the journey with this node chosen
	Paths   map[string]string // nodePaths
	Summary string
	Ways    []way // those that it has beside going on with the next step of the list
	Alone   bool  // it has one way only, which Ways may say the rest of
}

// way is one way on from a node.
type way struct {
	Label string
	Name  string // as statistics have it
	Code  bool   // the label is a condition
	Next  string
	Title string // of the next node, "" where the journey ends
	Count int64
	Of    int64         // who entered the node
	Steps []outlineStep // that only this way leads to first
	Jump  bool          // the next node stands elsewhere in the list
	Ends  bool
}

func (v *visit) newOutline(h journeyHead, webhooks, journeys names) *outline {
	d, c := h.Definition, h.Counts
	o := &outline{webhooks: webhooks, journeys: journeys, t: v.t, at: h.At, journey: h.Journey.ID, language: v.chosen.Language, nodes: map[string]node{}, counts: map[string]nodeCounts{}, placed: map[string]bool{}, next: map[string][]string{}, reached: map[string]map[string]bool{}}
	for _, n := range d.Nodes {
		o.nodes[n.ID] = n
	}
	for _, n := range c.Nodes {
		o.counts[n.NodeID] = n.nodeCounts
	}
	for id, n := range o.nodes {
		for _, w := range o.ways(n) {
			if !w.Ends {
				o.next[id] = append(o.next[id], w.Next)
			}
		}
	}
	return o
}

// whole lists the steps from the start on, and after them the exits that only ways lead to.
func (o *outline) whole(d definition) []outlineStep {
	steps := o.from(d.Start, nil)
	for _, n := range d.Nodes {
		if o.exits(n.ID) && o.reach(d.Start)[n.ID] {
			steps = append(steps, o.from(n.ID, nil)...)
		}
	}
	return steps
}

// from lists the steps from a node on, until one that stands in the list already or at which
// an outer list goes on. stops is nil for the outermost list, which alone has the exits.
func (o *outline) from(id string, stops []string) []outlineStep {
	var steps []outlineStep
	for {
		n, found := o.nodes[id]
		if !found || o.elsewhere(id, stops) {
			return steps
		}
		o.placed[id] = true
		s := outlineStep{node: n, nodeCounts: o.counts[id], Path: o.at + "?node=" + url.QueryEscape(id) + "#node-" + id, Paths: nodePaths(o.journey, url.QueryEscape(id)), Summary: o.summary(n)}
		ways := o.ways(n)
		s.Alone = len(ways) == 1
		next := o.meet(ways, stops)
		for i := range ways {
			w := &ways[i]
			if !s.Alone && w.Next != next && !o.exits(w.Next) {
				w.Steps = o.from(w.Next, slices.Concat(stops, []string{next}))
			}
		}
		for i := range ways {
			w := &ways[i]
			w.Jump = !w.Ends && len(w.Steps) == 0 && (w.Next != next || o.elsewhere(next, stops))
			if s.Alone && !w.Jump && !w.Ends {
				continue
			}
			s.Ways = append(s.Ways, *w)
		}
		if o.exits(n.ID) {
			s.Ways = nil
		}
		steps = append(steps, s)
		id = next
	}
}

// elsewhere tells whether a node stands in another list than one with these stops, or above.
func (o *outline) elsewhere(id string, stops []string) bool {
	return o.placed[id] || stops != nil && (o.exits(id) || slices.Contains(stops, id))
}

func (o *outline) exits(id string) bool { return nodes.Of(o.nodes[id].Type).Enters == nodes.PhaseDone }

// meet is the node at which ways meet again first, "" if they never do.
func (o *outline) meet(ways []way, stops []string) string {
	var targets []string
	for _, w := range ways {
		if !w.Ends && !o.exits(w.Next) && !slices.Contains(targets, w.Next) {
			targets = append(targets, w.Next)
		}
	}
	switch len(targets) {
	case 0:
		for _, w := range ways {
			if !w.Ends {
				return w.Next // an exit
			}
		}
		return ""
	case 1:
		return targets[0]
	}
	var all []map[string]bool
	for _, t := range targets {
		all = append(all, o.reach(t))
	}
	queue, met := []string{targets[0]}, map[string]bool{targets[0]: true}
	for len(queue) > 0 {
		id := queue[0]
		queue = queue[1:]
		common := !o.elsewhere(id, stops)
		for _, seen := range all {
			common = common && seen[id]
		}
		if common {
			return id
		}
		for _, next := range o.next[id] {
			if !met[next] {
				met[next] = true
				queue = append(queue, next)
			}
		}
	}
	return ""
}

// reach returns a node and all nodes that can follow it.
func (o *outline) reach(id string) map[string]bool {
	seen, known := o.reached[id]
	if known {
		return seen
	}
	seen = map[string]bool{id: true}
	o.reached[id] = seen
	for queue := []string{id}; len(queue) > 0; queue = queue[1:] {
		for _, next := range o.next[queue[0]] {
			if !seen[next] {
				seen[next] = true
				queue = append(queue, next)
			}
		}
	}
	return seen
}

// ways lists the ways on from a node.
func (o *outline) ways(n node) []way {
	var ways []way
	c := o.counts[n.ID]
	add := func(label, name, next string, code bool) {
		w := way{Label: label, Name: name, Code: code, Next: next, Count: c.took(name, next), Of: c.Entered}
		if i := slices.IndexFunc(ways, func(other way) bool { return other.Name == name && other.Next == next }); i >= 0 {
			ways[i].Label += " / " + label // statistics count events of one name together
			return
		}
		target, found := o.nodes[next]
		if w.Ends = !found; found {
			w.Title = target.Title()
		}
		ways = append(ways, w)
	}
	t, said := nodes.Of(n.Type), func(words nodes.Words, args ...string) string {
		return strings.NewReplacer(args...).Replace(words.In(o.language))
	}
	for i, c := range n.Cases {
		add(c.When, waypost.WayCase+strconv.Itoa(i), c.Next, true)
	}
	sum := 0
	for _, a := range n.Arms {
		sum += a.Weight
	}
	for i, a := range n.Arms {
		label := said(t.Member("arms").Said, "{arm}", armName(strconv.Itoa(i+1)), "{share}", shareOf(int64(a.Weight), int64(sum)))
		add(label, waypost.WayArm+strconv.Itoa(i), a.Next, false)
	}
	for _, e := range n.Events {
		label := said(t.Member("events").Said, "{event}", e.Event)
		if e.When != "" {
			label += " · " + e.When
		}
		add(label, waypost.WayEvent+e.Event, e.Next, false)
	}
	single := o.single(n, t)
	for _, m := range single {
		label := said(m.Said)
		if len(single) == 1 && m.Name == waypost.WayNext {
			label = "" // there is no other
		}
		add(label, m.Name, n.way(m.Name), false)
	}
	return ways
}

// single lists the ways on from a node that are no item of a list. One that leads like another where it is not set is
// listed only if it is set, or if the other is not there.
func (o *outline) single(n node, t *nodes.Type) (ways []nodes.Member) {
	several := len(n.Events) > 0 // each goes on by a next of its own
	for _, m := range t.Members {
		switch {
		case m.Kind != nodes.Way, several && m.Name == waypost.WayNext:
		case m.With != "" && n.Lead == "" && n.way(m.Name) == "":
		case m.Else != "" && n.way(m.Name) == "" && !several:
		default:
			ways = append(ways, m)
		}
	}
	return ways
}

// span is a duration in words, as it is written if that is none.
func (o *outline) span(text string) string {
	d, err := waypost.ParseDuration(text)
	if err != nil || d <= 0 {
		return text
	}
	unit, name := time.Second, "second"
	for _, u := range []struct {
		unit time.Duration
		name string
	}{{24 * time.Hour, "day"}, {time.Hour, "hour"}, {time.Minute, "minute"}} {
		if time.Duration(d)%u.unit == 0 {
			unit, name = u.unit, u.name
			break
		}
	}
	if time.Duration(d)%unit != 0 {
		return text
	}
	return o.t("journey.span."+name, "n", int64(time.Duration(d)/unit))
}

// summary says in a few words what a node does.
func (o *outline) summary(n node) string {
	switch n.Type {
	case "touchpoint":
		return o.webhooks.Of(n.Webhook)
	case "delay":
		return o.span(n.For)
	case "waitForEvent":
		events := []string{n.Event}
		if len(n.Events) > 0 {
			events = nil
			for _, e := range n.Events {
				if !slices.Contains(events, e.Event) {
					events = append(events, e.Event)
				}
			}
		}
		return o.t("journey.does.waitForEvent", "event", strings.Join(events, " / "), "timeout", o.span(n.Timeout))
	case "waitUntil":
		var parts []string
		if n.Lead != "" {
			parts = append(parts, n.Lead)
		}
		if n.Offset != "" {
			parts = append(parts, n.Offset)
		}
		for _, day := range n.Weekdays {
			parts = append(parts, o.t("journey.day."+day))
		}
		if n.Time != "" {
			parts = append(parts, n.Time)
		}
		return o.t("journey.does.waitUntil", "when", strings.Join(parts, " "))
	case "branch":
		return o.t("journey.does.branch", "n", strconv.Itoa(len(n.Cases)+1))
	case "split":
		return o.t("journey.does.split", "n", strconv.Itoa(len(n.Arms)))
	case "waitFor":
		return o.t("journey.does.waitFor", "when", n.When, "timeout", o.span(n.Timeout))
	case "updateLead":
		return strings.Join(slices.Sorted(maps.Keys(n.Set)), ", ")
	case "emit":
		return n.Event
	case "enroll":
		return o.t("journey.does.enroll", "journey", o.journeys.Of(n.Journey))
	case "exit":
		return ""
	}
	return nodes.Of(n.Type).Summary.In(o.language)
}
