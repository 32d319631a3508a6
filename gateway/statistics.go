package gateway

import (
	"cmp"
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/journey"
)

// statisticsAnswer is what the enrollments of a journey did, and where they stand.
type statisticsAnswer struct {
	JourneyID string `json:"journeyId"`
	Version   *int   `json:"version"` // nil: all versions
	countsAnswer
	Series []seriesAnswer `json:"series"` // nil without every
}

type seriesAnswer struct {
	From string `json:"from"`
	countsAnswer
}

type countsAnswer struct {
	Nodes        []nodeAnswer       `json:"nodes"`
	Enrollments  enrollmentsAnswer  `json:"enrollments"`
	ControlGroup *controlGroupCount `json:"controlGroup"` // nil without one, or without a goal
	Lift         *liftAnswer        `json:"lift"`         // nil without a control group
	SampleRatio  *ratioAnswer       `json:"sampleRatio"`  // nil without a control group
}

type nodeAnswer struct {
	NodeID    string `json:"nodeId"`
	Entered   int    `json:"entered"`
	Standing  int    `json:"standing"`
	Waiting   int    `json:"waiting"`
	Sending   int    `json:"sending"`
	Deferred  int    `json:"deferred"`
	Delivered int    `json:"delivered"`
	Failed    int    `json:"failed"`
	Skipped   int    `json:"skipped"`
	// SkippedFor has, by waypost.SkipReasons, the messages among Skipped.
	SkippedFor map[string]int `json:"skippedFor"`
	// Edges are the ways that led to another node, Ends those that ended the journey.
	Edges []edgeAnswer `json:"edges"`
	Ends  []endAnswer  `json:"ends"`
	// Arms and the next two are there for a split in a journey with a goal.
	Arms        []armAnswer      `json:"arms,omitempty"`
	SampleRatio *armsRatioAnswer `json:"sampleRatio,omitempty"` // of the arms
	Winner      *winnerAnswer    `json:"winner,omitempty"`
}

type edgeAnswer struct {
	Next  string `json:"next"`
	Way   string `json:"way"`
	Count int    `json:"count"`
}

type endAnswer struct {
	Way   string `json:"way"`
	Count int    `json:"count"`
}

type enrollmentsAnswer struct {
	Entered   int `json:"entered"`
	Completed int `json:"completed"`
	Exited    int `json:"exited"`
	Failed    int `json:"failed"`
	Canceled  int `json:"canceled"`
	HeldOut   int `json:"heldOut"`
	// Begun are those that began by themselves; Refused and Undecided are entries that began none.
	Begun     begunAnswer `json:"begun"`
	Refused   int         `json:"refused"`
	Undecided int         `json:"undecided"`

	Goal *goalAnswer `json:"goal"` // nil without a goal
}

type begunAnswer struct {
	Event       int `json:"event"`
	LeadCreated int `json:"leadCreated"`
	LeadChanged int `json:"leadChanged"`
	Segment     int `json:"segment"`
}

func countedEnrollments(c waypost.Counts) enrollmentsAnswer {
	return enrollmentsAnswer{
		Entered: c.Entered, Completed: c.Completed, Exited: c.Exited, Failed: c.Failed, Canceled: c.Canceled, HeldOut: c.HeldOut,
		Begun:   begunAnswer{c.Begun[waypost.EntryEvent], c.Begun[waypost.EntryLeadCreated], c.Begun[waypost.EntryLeadChanged], c.Begun[waypost.EntrySegment]},
		Refused: c.Refused, Undecided: c.Undecided,
	}
}

// maxPoints bounds the intervals of a series.
const maxPoints = 1000

// showStatistics answers from folded counts, which are seconds behind. Without from, a span begins
// with the journey.
func (a *server) showStatistics(ctx context.Context, r *request) (answer, error) {
	version := int(r.integer("version", 1, 1<<31-1, 0))
	every := r.every()
	from, to := r.moment("from"), r.moment("to")
	inOrder(&r.queryFaults, "", "from", "to", from, cmp.Or(to, a.Now()))
	if err := r.queryFaults.Err("query"); err != nil {
		return answer{}, err
	}
	j, err := a.Journeys.Journey(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	q := waypost.StatisticsQuery{JourneyID: j.ID, Version: version, Span: every}
	if every != "" || !from.IsZero() || !to.IsZero() {
		if err := bound(&q, from, to, j.CreatedAt, a.Now()); err != nil {
			return answer{}, err
		}
	}
	c := counter{server: a, scope: r.scope, journey: j, ordered: version > 0}
	if shown := cmp.Or(version, j.PublishedVersion); shown > 0 {
		if c.shown, err = a.definition(ctx, r.scope, j.ID, shown); err != nil {
			return answer{}, err
		}
	}
	if c.contests, err = a.winnersOf(ctx, j.ID, c.shown, cmp.Or(version, j.PublishedVersion)); err != nil {
		return answer{}, err
	}
	st, err := a.Journeys.Statistics(ctx, q)
	if err != nil {
		return answer{}, err
	}
	var since time.Time
	if !from.IsZero() || !to.IsZero() {
		st.Versions, since = within(st.Series), q.From
	}
	ans := statisticsAnswer{JourneyID: j.ID, Version: orNull(version)}
	if ans.countsAnswer, err = c.answer(ctx, st.Versions, since, true); err != nil {
		return answer{}, err
	}
	if every == "" {
		return ok(ans)
	}
	ans.Series = make([]seriesAnswer, len(st.Series))
	for i, point := range st.Series {
		ans.Series[i].From = stamp(point.From)
		if ans.Series[i].countsAnswer, err = c.answer(ctx, point.Versions, point.From, false); err != nil {
			return answer{}, err
		}
	}
	return ok(ans)
}

// bound gives a query its span of time, in whole intervals. It ends now, and begins when the
// journey was made or as long before its end as a series may go back, where nothing else is
// said. Without every, hours are taken where there are such and not too many of them.
func bound(q *waypost.StatisticsQuery, from, to, made, now time.Time) error {
	oldest := now.Add(-waypost.HistoryAge).Truncate(time.Hour).Add(time.Hour).UTC()
	every := q.Span
	round := func(span waypost.StatisticsSpan) (intervals int) {
		length := span.Duration()
		q.Span = span
		q.To = cmp.Or(to, now.Add(1)).Add(length - 1).UTC().Truncate(length)
		q.From = cmp.Or(from, made).UTC().Truncate(length)
		if from.IsZero() && every != "" {
			q.From = latest(q.From, q.To.Add(-maxPoints*length))
			if span == waypost.StatisticsHour {
				q.From = latest(q.From, oldest)
			}
		}
		if !q.From.Before(q.To) { // it is the same time, or the journey was made later
			if from.IsZero() {
				q.From = q.To.Add(-length)
			}
			q.To = q.From.Add(length)
		}
		return int(q.To.Sub(q.From) / length)
	}
	n := round(cmp.Or(every, waypost.StatisticsHour))
	if every == "" && (n > maxPoints || q.From.Before(oldest)) {
		n = round(waypost.StatisticsDay)
	}
	var p waypost.Problems
	if n > maxPoints {
		p.Add(waypost.DetailOutOfRange, "from", "must lie at most %d %ss before to", maxPoints, q.Span)
	} else if q.Span == waypost.StatisticsHour && q.From.Before(oldest) {
		p.Add(waypost.DetailOutOfRange, "from", "must not be before %s with every=hour: hours are kept for %d days, days for good",
			stamp(oldest), int(waypost.HistoryAge.Hours())/24)
	}
	return p.Err("query")
}

func latest(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}

// within adds up what happened in a series; where enrollments stand is as at its end.
func within(series []waypost.StatisticsPoint) map[int]*waypost.Counts {
	all := map[int]*waypost.Counts{}
	for i, point := range series {
		for version, c := range point.Versions {
			if all[version] == nil {
				all[version] = &waypost.Counts{}
			}
			all[version].AddFlows(c, 1)
			if i == len(series)-1 {
				all[version].AddStanding(c, 1)
			}
		}
	}
	return all
}

// counter turns the counts of a journey's versions into those that are answered.
type counter struct {
	*server
	scope   waypost.Scope
	journey waypost.Journey
	// shown is the version whose nodes are answered whatever was counted, nil if none is;
	// ordered says that they stand in its order, and not by their ids.
	shown    *journey.Definition
	ordered  bool
	contests map[string]waypost.Winner // of the version that is shown, by node
}

// answer adds up the versions, of a time that begins with since; zero is all time. whole says that
// nodes without counts belong to it.
func (c *counter) answer(ctx context.Context, versions map[int]*waypost.Counts, since time.Time, whole bool) (countsAnswer, error) {
	var sum waypost.Counts
	sending, arms, apart := map[string]int{}, map[string][]waypost.GoalTally{}, map[string]bool{}
	for version, counts := range versions {
		sum.Add(counts, 1)
		definition, err := c.definition(ctx, c.scope, c.journey.ID, version)
		if err != nil {
			return countsAnswer{}, err
		}
		for id, n := range counts.Nodes {
			if node, ok := definition.Node(id); ok && node.Type == journey.Touchpoint {
				sending[id] += n.Running
			} else if ok && c.sameArms(node) {
				arms[id] = sumArms(arms[id], len(node.Arms), n)
			}
		}
		c.findApart(apart, definition, counts)
	}
	ans := countsAnswer{
		Nodes:       []nodeAnswer{},
		Enrollments: countedEnrollments(sum),
	}
	c.addGoal(&ans, &sum, since)
	for _, id := range c.nodes(sum, whole) {
		n := sum.Node(id)
		skipped := map[string]int{}
		maps.Copy(skipped, n.SkippedFor)
		edges, ends := c.edges(id, n, whole)
		node := nodeAnswer{
			NodeID: id, Entered: n.Entered, Standing: n.Waiting + n.Running + n.Deferred, Waiting: n.Waiting, Sending: sending[id], Deferred: n.Deferred,
			Delivered: n.Delivered, Failed: n.Failed, Skipped: n.Skipped, SkippedFor: skipped, Edges: edges, Ends: ends,
			Winner: c.contest(id, whole),
		}
		c.addArms(&node, arms[id], &sum, since, whole, !apart[id])
		ans.Nodes = append(ans.Nodes, node)
	}
	return ans, nil
}

// nodes lists those to answer: in the order of the definition, others after them.
func (c *counter) nodes(sum waypost.Counts, whole bool) []string {
	var ids []string
	if c.shown != nil {
		for _, n := range c.shown.Nodes() {
			if _, counted := sum.Nodes[n.ID]; counted || whole {
				ids = append(ids, n.ID)
			}
		}
	}
	return arranged(ids, maps.Keys(sum.Nodes), c.ordered, strings.Compare)
}

// edges are the ways on from a node, and those that end the journey, as nodes lists nodes.
func (c *counter) edges(id string, counted *waypost.NodeCounts, whole bool) ([]edgeAnswer, []endAnswer) {
	var known []waypost.Edge
	if c.shown != nil {
		n, _ := c.shown.Node(id)
		for _, e := range n.Ways() {
			if _, taken := counted.Edges[e]; (taken || whole) && !slices.Contains(known, e) {
				known = append(known, e)
			}
		}
	}
	edges, ends := []edgeAnswer{}, []endAnswer{}
	for _, e := range arranged(known, maps.Keys(counted.Edges), c.ordered, waypost.Edge.Compare) {
		if count := counted.Edges[e]; e.Next == "" {
			ends = append(ends, endAnswer{e.Way, count})
		} else {
			edges = append(edges, edgeAnswer{e.Next, e.Way, count})
		}
	}
	return edges, ends
}

// arranged adds to known ones those that are not among them; without ordered all are in the order
// of compare.
func arranged[T comparable](known []T, all iter.Seq[T], ordered bool, compare func(a, b T) int) []T {
	for _, x := range slices.SortedFunc(all, compare) {
		if !slices.Contains(known, x) {
			known = append(known, x)
		}
	}
	if !ordered {
		slices.SortFunc(known, compare)
	}
	return known
}
