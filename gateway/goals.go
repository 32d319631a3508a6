package gateway

import (
	"context"
	"slices"
	"time"

	"waypost"
	"waypost/journey"
)

// goalAnswer is what became of leads whose enrollments have a goal.
type goalAnswer struct {
	Leads       int      `json:"leads"`
	Enrollments int      `json:"enrollments"`
	Converted   int      `json:"converted"` // leads
	Rate        *float64 `json:"rate"`      // nil of nobody
	Value       float64  `json:"value"`
	Open        int      `json:"open"` // leads
}

func answerGoal(g waypost.GoalCounts) goalAnswer {
	ans := goalAnswer{Leads: g.Leads, Enrollments: g.Enrollments, Converted: g.Converted, Value: g.Worth.Float(), Open: g.Open}
	if g.Leads > 0 {
		ans.Rate = new(g.Rate())
	}
	return ans
}

type controlGroupCount struct {
	Goal goalAnswer `json:"goal"`
}

// ratioAnswer compares the share of the control group with the one that was asked for.
type ratioAnswer struct {
	Expected *float64 `json:"expected"` // nil of nobody, as Seen
	Seen     *float64 `json:"seen"`
	P        *float64 `json:"p"` // nil where there are too few leads
	Mismatch bool     `json:"mismatch"`
}

// armsRatioAnswer compares the shares of the arms with their weights.
type armsRatioAnswer struct {
	Expected []float64 `json:"expected"` // nil of nobody, as Seen
	Seen     []float64 `json:"seen"`
	P        *float64  `json:"p"`
	Mismatch bool      `json:"mismatch"`
}

func answerRatio(r waypost.SampleRatio) *armsRatioAnswer {
	ans := &armsRatioAnswer{Expected: r.Expected, Seen: r.Seen, Mismatch: r.Mismatch}
	if r.Tested {
		ans.P = &r.P
	}
	return ans
}

func answerGroupRatio(r waypost.SampleRatio) *ratioAnswer {
	both := answerRatio(r)
	ans := &ratioAnswer{P: both.P, Mismatch: both.Mismatch}
	if len(both.Seen) > 0 {
		ans.Expected, ans.Seen = &both.Expected[1], &both.Seen[1]
	}
	return ans
}

// liftAnswer compares a rate with another one.
type liftAnswer struct {
	Difference *float64        `json:"difference"` // nil if one of both is nobody's, or they cannot be compared
	Low        float64         `json:"low"`
	High       float64         `json:"high"`
	Confidence float64         `json:"confidence"`
	Verdict    waypost.Verdict `json:"verdict"`
	Text       string          `json:"text"`
}

// What a lift is over, in words.
const (
	overControlGroup = "the control group"
	overFirstArm     = "arm 1"
)

// verdictText says in words what a lift over something tells.
func verdictText(v waypost.Verdict, over string) string {
	switch v {
	case waypost.VerdictHigher:
		return "The rate is higher than that of " + over + "."
	case waypost.VerdictLower:
		return "The rate is lower than that of " + over + "."
	case waypost.VerdictUnclear:
		return "The difference to " + over + " may be chance."
	case waypost.VerdictMismatch:
		return "The groups do not have the sizes that they were to have (sampleRatio), and chance alone does not do that: their rates must not be compared."
	case waypost.VerdictApart:
		return "Not compared with " + over + ", which counts from the entry on: an arm has only leads that had not converted before they came to the split."
	}
	return "There is not enough data: each side needs 30 leads, and both together need 10 that have converted."
}

func answerLift(l waypost.Lift, over string, known bool) *liftAnswer {
	ans := &liftAnswer{Low: l.Low, High: l.High, Confidence: waypost.LiftConfidence, Verdict: l.Verdict, Text: verdictText(l.Verdict, over)}
	if known && l.Verdict != waypost.VerdictMismatch && l.Verdict != waypost.VerdictApart {
		ans.Difference = &l.Difference
	}
	return ans
}

// armAnswer is what became of the leads that took an arm of a split.
type armAnswer struct {
	Arm  int         `json:"arm"`  // from 1
	Next *string     `json:"next"` // nil where the journey ends
	Goal goalAnswer  `json:"goal"`
	Lift *liftAnswer `json:"lift"` // over the first arm, which has none
	// OverControlGroup is the lift over that; nil without one.
	OverControlGroup *liftAnswer `json:"liftOverControlGroup"`
}

// winnerAnswer is what became of a split that compares its arms.
type winnerAnswer struct {
	Version    int                   `json:"version"`
	NodeID     string                `json:"nodeId"`
	Status     waypost.ContestStatus `json:"status"`
	Arm        *int                  `json:"arm"`  // from 1; nil until it is decided
	Next       *string               `json:"next"` // of that arm
	BeganAt    string                `json:"beganAt"`
	Looks      int                   `json:"looks"`
	LookedAt   *string               `json:"lookedAt"`
	DecidedAt  *string               `json:"decidedAt"`
	ReversedAt *string               `json:"reversedAt"`
	Arms       []goalAnswer          `json:"arms"` // at the last look
}

func answerWinner(d *journey.Definition, w waypost.Winner) winnerAnswer {
	ans := winnerAnswer{
		Version: w.Version, NodeID: w.NodeID, Status: w.Status, BeganAt: stamp(w.BeganAt), Looks: w.Looks, LookedAt: stampOrNull(w.LookedAt),
		DecidedAt: stampOrNull(w.DecidedAt), ReversedAt: stampOrNull(w.ReversedAt), Arms: described(w.Arms, answerGoal),
	}
	if w.Status != waypost.ContestOpen {
		ans.Arm = new(w.Arm + 1)
		if n, ok := d.Node(w.NodeID); ok && w.Arm < len(n.Arms) {
			ans.Next = orNull(n.Arms[w.Arm].Next)
		}
	}
	return ans
}

// winnersOf returns the splits of a version that compare their arms, by node.
func (a *server) winnersOf(ctx context.Context, journeyID string, d *journey.Definition, version int) (map[string]waypost.Winner, error) {
	contests := func(n journey.Node) bool {
		_, yes := n.Contest()
		return yes
	}
	if d == nil || !slices.ContainsFunc(d.Nodes(), contests) {
		return nil, nil
	}
	all, err := a.Journeys.Winners(ctx, journeyID)
	of := map[string]waypost.Winner{}
	for _, w := range all {
		if w.Version == version {
			of[w.NodeID] = w
		}
	}
	return of, err
}

// winners returns the arms that take everybody, of what is simulated.
func (a *server) winners(ctx context.Context, c choice) (map[string]int, error) {
	if c.draft {
		return nil, nil
	}
	all, err := a.winnersOf(ctx, c.journeyID, c.Definition, c.version)
	arms := map[string]int{}
	for node, w := range all {
		if w.Status == waypost.ContestDecided {
			arms[node] = w.Arm
		}
	}
	return arms, err
}

// sameArms tells whether a split has the arms that it has in the version that is shown: only
// then they can be counted together.
func (c *counter) sameArms(n journey.Node) bool {
	if c.shown == nil || n.Type != journey.Split {
		return false
	}
	shown, ok := c.shown.Node(n.ID)
	return ok && slices.EqualFunc(shown.Arms, n.Arms, func(a, b journey.Arm) bool { return a.Weight == b.Weight && a.Next == b.Next })
}

// sumArms adds what was counted of a split with n arms to sums, nil where nothing was yet.
func sumArms(sums []waypost.GoalTally, n int, counted *waypost.NodeCounts) []waypost.GoalTally {
	if len(counted.Arms) == 0 {
		return sums
	}
	if sums == nil {
		sums = make([]waypost.GoalTally, n)
	}
	for arm, counts := range counted.Arms {
		if arm < n {
			sums[arm].Add(*counts, 1)
		}
	}
	return sums
}

// findApart finds the splits of the version that is shown that not all leads come to at once that
// a version has counted.
func (c *counter) findApart(apart map[string]bool, d *journey.Definition, counts *waypost.Counts) {
	if c.shown == nil || counts.Goal.First.Leads+counts.Control.First.Leads == 0 {
		return
	}
	for _, n := range c.shown.Nodes() {
		if n.Type == journey.Split {
			of, _ := d.Node(n.ID)
			apart[n.ID] = apart[n.ID] || !c.sameArms(of) || !d.ReachedAtOnce(n.ID)
		}
	}
}

// hasGoal tells whether the version that is shown has a goal.
func (c *counter) hasGoal() bool {
	if c.shown == nil {
		return false
	}
	_, has := c.shown.Goal()
	return has
}

// addGoal answers what was counted for the goal of a time that begins with since.
func (c *counter) addGoal(ans *countsAnswer, sum *waypost.Counts, since time.Time) {
	if !c.hasGoal() && sum.Goal.Enrollments+sum.Control.Enrollments == 0 {
		return
	}
	ans.Enrollments.Goal = new(answerGoal(sum.Goal.Since(since)))
	if c.controls(sum) {
		ans.ControlGroup = &controlGroupCount{answerGoal(sum.Control.Since(since))}
		ans.Lift = answerLift(sum.Lift(), overControlGroup, sum.Goal.First.Leads > 0 && sum.Control.First.Leads > 0)
		ans.SampleRatio = answerGroupRatio(sum.SampleRatio())
	}
}

// controls tells whether there is a control group.
func (c *counter) controls(sum *waypost.Counts) bool {
	return sum.Control.Enrollments > 0 || c.shown != nil && c.shown.ControlGroup() > 0
}

// addArms answers the arms of a split in a journey with a goal.
func (c *counter) addArms(ans *nodeAnswer, sums []waypost.GoalTally, sum *waypost.Counts, since time.Time, whole, atOnce bool) {
	if c.shown == nil || sums == nil && !(whole && c.hasGoal()) {
		return
	}
	n, _ := c.shown.Node(ans.NodeID)
	if n.Type != journey.Split {
		return
	}
	if sums == nil {
		sums = make([]waypost.GoalTally, len(n.Arms))
	}
	sizes := make([]int, len(sums))
	for i, t := range sums {
		sizes[i] = t.First.Leads + t.Early
	}
	ratio := waypost.SampleRatioOf(sizes, n.Weights())
	ans.SampleRatio = answerRatio(ratio)
	for i, t := range sums {
		arm := armAnswer{Arm: i + 1, Next: orNull(n.Arms[i].Next), Goal: answerGoal(t.Since(since))}
		if i > 0 {
			lift := t.First.LiftOver(sums[0].First, waypost.LiftConfidence)
			if ratio.Mismatch {
				lift = waypost.Doubt(waypost.VerdictMismatch)
			}
			arm.Lift = answerLift(lift, overFirstArm, t.First.Leads > 0 && sums[0].First.Leads > 0)
		}
		if c.controls(sum) {
			arm.OverControlGroup = c.overControlGroup(t, sum, ratio.Mismatch, atOnce && c.contests[n.ID].DecidedAt == nil)
		}
		ans.Arms = append(ans.Arms, arm)
	}
}

// overControlGroup compares an arm with the control group where both count the same leads of the
// same time: all that entered, by one share, took an arm at once.
func (c *counter) overControlGroup(t waypost.GoalTally, sum *waypost.Counts, mismatch, atOnce bool) *liftAnswer {
	arm := t.First
	arm.Leads, arm.Converted = arm.Leads+t.Early, arm.Converted+t.Early
	lift := arm.LiftOver(sum.Control.First, waypost.LiftConfidence)
	switch {
	case !atOnce || len(sum.Shares) > 1 || sum.Goal.First.Leads > sum.Compared():
		lift = waypost.Doubt(waypost.VerdictApart)
	case mismatch || sum.SampleRatio().Mismatch:
		lift = waypost.Doubt(waypost.VerdictMismatch)
	}
	return answerLift(lift, overControlGroup, arm.Leads > 0 && sum.Control.First.Leads > 0)
}

// contest answers what became of a split that compares its arms.
func (c *counter) contest(id string, whole bool) *winnerAnswer {
	w, contests := c.contests[id]
	if !contests || !whole {
		return nil
	}
	return new(answerWinner(c.shown, w))
}

type reverseBody struct {
	Version *int `json:"version"`
}

// decodeReverse reads the version whose winner is taken back, 0 for the published one. It
// needs no body.
func decodeReverse(r *request) (version int, err error) {
	if len(r.body) == 0 {
		return 0, nil
	}
	var body reverseBody
	err = checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		if body.Version == nil {
			return
		}
		if version = *body.Version; version < 1 {
			p.Add(waypost.DetailOutOfRange, "version", "must be 1 or more")
		}
	})
	return version, err
}

// reverseWinner has all arms of a split take leads again.
func (a *server) reverseWinner(ctx context.Context, r *request) (answer, error) {
	version, err := decodeReverse(r)
	if err != nil {
		return answer{}, err
	}
	j, err := a.Journeys.Journey(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	if version == 0 {
		version = j.PublishedVersion
	}
	if version == 0 {
		return answer{}, waypost.Errorf(waypost.CodeNotFound, "version", "the journey has no published version")
	}
	definition, err := a.definition(ctx, r.scope, j.ID, version)
	if err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Winner, error) {
		return a.Journeys.ReverseWinner(ctx, r.by(), j.ID, version, r.param("node"))
	}, func(w waypost.Winner) (answer, error) { return ok(answerWinner(definition, w)) })
}
