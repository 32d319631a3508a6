package waypost

import (
	"cmp"
	"math"
	"time"
)

// Goal is what a journey is for: an event of this name within a time since the enrollment
// began. Package journey says which events of the name count, and what they are worth.
type Goal struct {
	Event  string
	Within time.Duration
}

// DefaultWithin is the time of a goal that says none.
const DefaultWithin = 7 * 24 * time.Hour

// Amount is a number of ten-thousandths: sums of amounts do not depend on their order.
type Amount int64

// AmountOf rounds a number.
func AmountOf(number float64) Amount { return Amount(math.Round(number * 1e4)) }

// Float is the number.
func (a Amount) Float() float64 { return float64(a) / 1e4 }

// GoalCounts is what became of enrollments that have a goal. It is stored with these short
// names.
type GoalCounts struct {
	Enrollments int    `json:"e,omitzero"`
	Converted   int    `json:"c,omitzero"`
	Worth       Amount `json:"w,omitzero"` // of all events that reached the goal
}

// Add adds other counts so many times.
func (g *GoalCounts) Add(other GoalCounts, times int) {
	g.Enrollments += times * other.Enrollments
	g.Converted += times * other.Converted
	g.Worth += Amount(times) * other.Worth
}

// Rate is the share that converted; 0 of nobody.
func (g GoalCounts) Rate() float64 { return float64(g.Converted) / float64(max(1, g.Enrollments)) }

// Verdict says what two rates tell of each other.
type Verdict string

// The verdicts on a rate beside another one.
const (
	VerdictHigher    Verdict = "higher"
	VerdictLower     Verdict = "lower"
	VerdictUnclear   Verdict = "unclear"       // the difference may be chance
	VerdictTooLittle Verdict = "notEnoughData" // see Enough
)

// Lift is how much higher one rate is than another.
type Lift struct {
	Difference float64
	Low, High  float64 // the interval of the confidence that was asked for
	Verdict    Verdict
}

// Bounds of what is compared: fewer enrollments of either side, or fewer of both that have
// converted, are not enough data.
const (
	LeastEnrollments = 30
	LeastConverted   = 10
)

// Enough tells whether there is enough data to compare two rates.
func (g GoalCounts) Enough(other GoalCounts) bool {
	return min(g.Enrollments, other.Enrollments) >= LeastEnrollments && g.Converted+other.Converted >= LeastConverted
}

// LiftConfidence is the confidence of the intervals that people are shown.
const LiftConfidence = 0.95

// LiftOver compares the rate with another one. The interval of the difference is Newcombe's
// hybrid score interval: R. G. Newcombe, Interval estimation for the difference between
// independent proportions: comparison of eleven methods, Statistics in Medicine 17 (1998)
// 873-890, method 10, without continuity correction. It holds its confidence for small
// groups and rates near 0, where the usual one does not. Of an empty group it is (-1, 1).
func (g GoalCounts) LiftOver(other GoalCounts, confidence float64) Lift {
	l := Lift{Low: -1, High: 1, Verdict: VerdictTooLittle}
	if g.Enrollments <= 0 || other.Enrollments <= 0 {
		return l
	}
	p, q := g.Rate(), other.Rate()
	pLow, pHigh := score(p, float64(g.Enrollments), confidence)
	qLow, qHigh := score(q, float64(other.Enrollments), confidence)
	l.Difference = p - q
	l.Low = l.Difference - math.Hypot(p-pLow, qHigh-q)
	l.High = l.Difference + math.Hypot(pHigh-p, q-qLow)
	switch {
	case !g.Enough(other):
	case l.Low > 0:
		l.Verdict = VerdictHigher
	case l.High < 0:
		l.Verdict = VerdictLower
	default:
		l.Verdict = VerdictUnclear
	}
	return l
}

// score is Wilson's interval of a rate p that was measured of n: E. B. Wilson, Probable inference,
// the law of succession, and statistical inference, JASA 22 (1927) 209-212.
func score(p, n, confidence float64) (low, high float64) {
	z := math.Sqrt2 * math.Erfinv(confidence)
	middle, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return (middle - half) / (1 + z*z/n), (middle + half) / (1 + z*z/n)
}

// Expectation is how many of some enrollments are expected to convert.
type Expectation struct{ Converted, Low, High int }

// Expect tells how many of n more enrollments will convert if they are as those counted, with an
// interval of LiftConfidence; ok is false if too few were counted. The interval is Wilson's for
// the variance of both the measured rate and the coming one, 1/N = 1/Enrollments + 1/n, in whole
// enrollments outwards.
func (g GoalCounts) Expect(n int) (e Expectation, ok bool) {
	if g.Enrollments < LeastEnrollments {
		return Expectation{}, false
	}
	if n <= 0 {
		return Expectation{}, true
	}
	p, counted, coming := g.Rate(), float64(g.Enrollments), float64(n)
	low, high := score(p, counted*coming/(counted+coming), LiftConfidence)
	const rounding = 1e-9 // of the bounds 0 and n
	return Expectation{
		Converted: int(math.Round(p * coming)),
		Low:       max(0, int(math.Floor(low*coming+rounding))),
		High:      min(n, int(math.Ceil(high*coming-rounding))),
	}, true
}

// Contest says when the arms of a split are compared: After the first enrollment took one, or
// once so many have.
type Contest struct {
	Arms  int
	After time.Duration
	Leads int
}

// ContestConfidence is that of all comparisons of one split together.
const ContestConfidence = 0.95

// Best returns the arm whose rate is significantly higher than that of each other one, -1 if
// there is none. look counts the comparisons of the split, from 1: all of them, and all
// pairs of arms, err together in at most 1 - ContestConfidence of all cases (Bonferroni), for
// the k-th look has a 2^k-th of that.
func Best(arms []GoalCounts, look int) int {
	best := 0
	for i, a := range arms {
		if cmp.Compare(a.Rate(), arms[best].Rate()) > 0 {
			best = i
		}
	}
	pairs := float64(len(arms)*(len(arms)-1)) / 2
	confidence := 1 - (1-ContestConfidence)/math.Pow(2, float64(look))/pairs
	for i, a := range arms {
		if i != best && arms[best].LiftOver(a, confidence).Verdict != VerdictHigher {
			return -1
		}
	}
	return best
}

// ContestStatus is where the comparison of a split's arms stands.
type ContestStatus string

// The states of a contest.
const (
	ContestOpen     ContestStatus = "open"     // all arms take leads, and are to be compared
	ContestDecided  ContestStatus = "decided"  // one arm takes everybody
	ContestReversed ContestStatus = "reversed" // people took the decision back: all arms take leads, for good
)

// Winner is what became of a split that compares its arms.
type Winner struct {
	JourneyID  string
	Version    int
	NodeID     string
	Status     ContestStatus
	BeganAt    time.Time // when the first enrollment took an arm
	Looks      int       // how often the arms were compared
	LookedAt   *time.Time
	Arm        int // from 0; of a contest that was decided
	DecidedAt  *time.Time
	ReversedAt *time.Time
	Arms       []GoalCounts // as they were at the last look
}

// ArmChoice is an enrollment that is at a split, and the arm that it takes there unless the
// split has a winner.
type ArmChoice struct {
	Touchpoint
	LeadsID int64
	Arm     int
}

// ArmBatch is a group of enrollments of one journey version that are at a split.
type ArmBatch struct {
	JourneyID string
	Version   int
	NodeID    string
	Contest   *Contest // nil: the split never has a winner
	Items     []ArmChoice
}

// TakenArm is the arm that an enrollment takes.
type TakenArm struct {
	Arm int
	Won bool // it is the winner's
}

// Conversion says that an enrollment reached its goal.
type Conversion struct {
	EventID string // the first event that did
	At      time.Time
	Worth   Amount // of all events that did
}
