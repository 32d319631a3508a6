package gateway

import (
	"context"
	"slices"

	"waypost"
	"waypost/journey"
)

// goalAnswer is what became of enrollments that have a goal.
type goalAnswer struct {
	Enrollments int      `json:"enrollments"`
	Converted   int      `json:"converted"`
	Rate        *float64 `json:"rate"` // nil of nobody
	Value       float64  `json:"value"`
}

func answerGoal(g waypost.GoalCounts) goalAnswer {
	ans := goalAnswer{Enrollments: g.Enrollments, Converted: g.Converted, Value: g.Worth.Float()}
	if g.Enrollments > 0 {
		ans.Rate = new(g.Rate())
	}
	return ans
}

type controlGroupCount struct {
	Goal goalAnswer `json:"goal"`
}

// liftAnswer compares a rate with that of the control group.
type liftAnswer struct {
	Difference *float64        `json:"difference"` // nil if one of both is nobody's
	Low        float64         `json:"low"`
	High       float64         `json:"high"`
	Confidence float64         `json:"confidence"`
	Verdict    waypost.Verdict `json:"verdict"`
	Text       string          `json:"text"`
}

// verdictTexts say in words what a lift tells.
var verdictTexts = map[waypost.Verdict]string{
	waypost.VerdictHigher:    "The rate is higher than that of the control group.",
	waypost.VerdictLower:     "The rate is lower than that of the control group.",
	waypost.VerdictUnclear:   "The difference to the control group may be chance.",
	waypost.VerdictTooLittle: "There is not enough data: each side needs 30 enrollments, and both together need 10 that have converted.",
}

func answerLift(g, control waypost.GoalCounts) *liftAnswer {
	l := g.LiftOver(control, waypost.LiftConfidence)
	ans := &liftAnswer{Low: l.Low, High: l.High, Confidence: waypost.LiftConfidence, Verdict: l.Verdict, Text: verdictTexts[l.Verdict]}
	if g.Enrollments > 0 && control.Enrollments > 0 {
		ans.Difference = &l.Difference
	}
	return ans
}

// armAnswer is what became of the enrollments that took an arm of a split.
type armAnswer struct {
	Arm  int         `json:"arm"`  // from 1
	Next *string     `json:"next"` // nil where the journey ends
	Goal goalAnswer  `json:"goal"`
	Lift *liftAnswer `json:"lift"` // nil without a control group
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
func (a *api) winnersOf(ctx context.Context, journeyID string, d *journey.Definition, version int) (map[string]waypost.Winner, error) {
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
func (a *api) winners(ctx context.Context, c choice) (map[string]int, error) {
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

func addArms(sums []waypost.GoalCounts, n int, counted *waypost.NodeCounts) []waypost.GoalCounts {
	if len(counted.Arms) == 0 {
		return sums
	}
	if sums == nil {
		sums = make([]waypost.GoalCounts, n)
	}
	for arm, counts := range counted.Arms {
		if arm < n {
			sums[arm].Add(*counts, 1)
		}
	}
	return sums
}

// hasGoal tells whether the version that is shown has a goal.
func (c *counter) hasGoal() bool {
	if c.shown == nil {
		return false
	}
	_, has := c.shown.Goal()
	return has
}

// addGoal answers what was counted for the goal.
func (c *counter) addGoal(ans *countsAnswer, sum waypost.Counts) {
	if !c.hasGoal() && sum.Goal.Enrollments+sum.Control.Enrollments == 0 {
		return
	}
	ans.Enrollments.Goal = new(answerGoal(sum.Goal))
	if sum.Control.Enrollments > 0 || c.shown != nil && c.shown.ControlGroup() > 0 {
		ans.ControlGroup = &controlGroupCount{answerGoal(sum.Control)}
		ans.Lift = answerLift(sum.Goal, sum.Control)
	}
}

// arms answers those of a split in a journey with a goal.
func (c *counter) arms(id string, sums []waypost.GoalCounts, control waypost.GoalCounts, whole bool) []armAnswer {
	if c.shown == nil || sums == nil && !(whole && c.hasGoal()) {
		return nil
	}
	n, _ := c.shown.Node(id)
	if n.Type != journey.Split {
		return nil
	}
	answers := make([]armAnswer, len(n.Arms))
	for i, arm := range n.Arms {
		var sum waypost.GoalCounts
		if sums != nil {
			sum = sums[i]
		}
		answers[i] = armAnswer{Arm: i + 1, Next: orNull(arm.Next), Goal: answerGoal(sum)}
		if control.Enrollments > 0 || c.shown.ControlGroup() > 0 {
			answers[i].Lift = answerLift(sum, control)
		}
	}
	return answers
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
func (a *api) reverseWinner(ctx context.Context, r *request) (answer, error) {
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
