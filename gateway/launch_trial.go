package gateway

import (
	"context"
	"net/http"
	"time"

	"waypost"
)

// Bounds of how long a launch holds leads until an arm has won.
const (
	minTestAfter     = time.Second
	maxTestAfter     = 90 * 24 * time.Hour
	defaultTestAfter = 48 * time.Hour
)

// launchTestBody is the test of a launch as a client writes it.
type launchTestBody struct {
	Leads     *int     `json:"leads"`
	Share     *float64 `json:"share"`
	After     *string  `json:"after"`
	Undecided *string  `json:"undecided"`
}

// test checks the test of a launch.
func (b launchTestBody) test(p *waypost.Problems) *waypost.LaunchTest {
	t := waypost.LaunchTest{After: defaultTestAfter, Undecided: waypost.UndecidedSplit}
	switch {
	case b.Leads == nil && b.Share == nil:
		p.Add(waypost.DetailNullValue, "test", `must have leads, such as 1000, or share, such as 0.1: how many enter first`)
	case b.Leads != nil && b.Share != nil:
		p.Add(waypost.DetailInvalidFormat, "test", "must have one of leads and share, not both")
	case b.Leads != nil:
		if t.Leads = *b.Leads; t.Leads < 1 || t.Leads > waypost.MaxAudience {
			p.Add(waypost.DetailOutOfRange, "test.leads", "must be 1 to %d", waypost.MaxAudience)
		}
	default:
		if t.Share = *b.Share; !(t.Share > 0 && t.Share < 1) {
			p.Add(waypost.DetailOutOfRange, "test.share", "must be more than 0 and less than 1, such as 0.1 for a tenth")
		}
	}
	if b.After != nil {
		after, err := waypost.ParseDuration(*b.After)
		t.After = time.Duration(after)
		switch {
		case err != nil:
			p.Add(waypost.DetailInvalidFormat, "test.after", "must be a duration such as 48h or P2D")
		case t.After < minTestAfter || t.After > maxTestAfter:
			p.Add(waypost.DetailOutOfRange, "test.after", "must be 1s to P90D")
		}
	}
	if b.Undecided != nil {
		if t.Undecided = waypost.Undecided(*b.Undecided); t.Undecided != waypost.UndecidedSplit && t.Undecided != waypost.UndecidedStop {
			p.Add(waypost.DetailInvalidFormat, "test.undecided", "must be split (the rest enters, and all arms take it) or stop (the rest does not enter)")
		}
	}
	return &t
}

// decider sets the split whose winner a launch's test waits for: the first one of the version that
// has one.
func (a *server) decider(ctx context.Context, sc waypost.Scope, l *waypost.Launch) error {
	if l.Test == nil {
		return nil
	}
	d, err := a.definition(ctx, sc, l.JourneyID, l.Version)
	if err != nil {
		return err
	}
	for _, n := range d.Nodes() {
		if contest, ok := n.Contest(); ok {
			l.Test.NodeID, l.Test.Contest, l.Test.Weights = n.ID, contest, n.Weights()
			return checkTestAfter(*l.Test)
		}
	}
	var p waypost.Problems
	p.Add(waypost.DetailInvalidFormat, "test", "needs a split with a winner, and version %d of the journey has none: "+
		`give its split "winner": {"by": "goal", "leads": 1000}, publish it, and launch again; or leave test out`, l.Version)
	return p.Err("launch")
}

// checkTestAfter refuses a test whose time is over before the split compares its arms.
func checkTestAfter(t waypost.LaunchTest) error {
	if t.After > t.Contest.After {
		return nil
	}
	var p waypost.Problems
	p.Add(waypost.DetailOutOfRange, "test.after", "no arm can win in %s: the split %s compares its arms %s after the first lead took one (winner.after); "+
		"hold the rest for longer", waypost.Duration(t.After), t.NodeID, waypost.Duration(t.Contest.After))
	return p.Err("launch")
}

// testAnswer is where the test of a launch stands.
type testAnswer struct {
	Leads     *int               `json:"leads"`
	Share     *float64           `json:"share"`
	After     waypost.Duration   `json:"after"`
	Undecided waypost.Undecided  `json:"undecided"`
	NodeID    string             `json:"nodeId"`
	Status    waypost.TestStatus `json:"status"`
	EndedAt   *string            `json:"endedAt"` // when the last lead of the test has entered
	Until     *string            `json:"until"`
	RestAt    *string            `json:"restAt"`
	Arm       *int               `json:"arm"` // from 1, of one that was decided
}

func answerTest(t *waypost.LaunchTest) *testAnswer {
	if t == nil {
		return nil
	}
	ans := &testAnswer{
		Leads: orNull(t.Leads), Share: orNull(t.Share), After: waypost.Duration(t.After), Undecided: t.Undecided, NodeID: t.NodeID, Status: t.Status,
		EndedAt: stampOrNull(t.EndedAt), Until: stampOrNull(t.Until()), RestAt: stampOrNull(t.RestAt),
	}
	if t.Status == waypost.TestDecided {
		ans.Arm = new(t.Arm + 1)
	}
	return ans
}

// launchPatch is what can be changed of a launch.
type launchPatch struct {
	RatePerSecond *float64 `json:"ratePerSecond"`
}

// checkLaunchRate notes a rate that is out of bounds.
func checkLaunchRate(p *waypost.Problems, rate float64) {
	if rate < minLaunchRate || rate > maxLaunchRate {
		p.Add(waypost.DetailOutOfRange, "ratePerSecond", "must be %v to %d; leave it out for as fast as it goes", minLaunchRate, maxLaunchRate)
	}
}

// patchLaunch changes the rate of a launch; null is as fast as it goes.
func (a *server) patchLaunch(ctx context.Context, r *request) (answer, error) {
	var body launchPatch
	err := checked(waypost.DecodeJSON(r.body, &body), func(p *waypost.Problems) {
		if body.RatePerSecond != nil {
			checkLaunchRate(p, *body.RatePerSecond)
		}
	})
	if err != nil {
		return answer{}, err
	}
	patch, err := readPatch(r.body)
	if err != nil {
		return answer{}, err
	}
	l, err := a.Launches.UpdateLaunch(ctx, r.by(), r.param("id"), func(l *waypost.Launch) error {
		if err := r.checkMatch(a.launchSettings(*l)); err != nil {
			return err
		}
		if _, written := patch["ratePerSecond"]; written {
			l.RatePerSecond = 0
			if body.RatePerSecond != nil {
				l.RatePerSecond = *body.RatePerSecond
			}
		}
		return nil
	})
	if err != nil {
		return answer{}, err
	}
	a.Waker.Wake() // its workflow is to be told
	return a.launchResource(l)
}

// launchSettings is a launch without what changes by itself while it runs. The ETag is of that.
func (a *server) launchSettings(l waypost.Launch) launchAnswer {
	l.Status, l.Progress, l.Skips, l.StartedAt, l.EndedAt, l.Recurrence = "", waypost.LaunchProgress{}, waypost.LaunchSkips{}, nil, nil, nil
	if l.Test != nil {
		test := *l.Test
		test.Status, test.EndedAt, test.RestAt = "", nil, nil
		l.Test = &test
	}
	return a.answerListedLaunch(l)
}

func (a *server) launchResource(l waypost.Launch) (answer, error) {
	ans, err := resource(http.StatusOK, "", a.launchSettings(l))
	ans.body = a.answerLaunch(l)
	return ans, err
}
