package waypost

import (
	"cmp"
	"maps"
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

// GoalSum is what leads came to that are counted by one of their enrollments each. It is stored
// with these short names.
type GoalSum struct {
	Leads     int    `json:"n,omitzero"`
	Converted int    `json:"c,omitzero"`
	Worth     Amount `json:"w,omitzero"` // of all events that reached the goal
	Open      int    `json:"o,omitzero"` // leads that have not converted, and still can
}

// Add adds another sum so many times.
func (g *GoalSum) Add(other GoalSum, times int) {
	g.Leads += times * other.Leads
	g.Converted += times * other.Converted
	g.Worth += Amount(times) * other.Worth
	g.Open += times * other.Open
}

// GoalCounts is what became of leads whose enrollments have a goal.
type GoalCounts struct {
	GoalSum
	Enrollments int `json:"e,omitzero"` // all of them: a lead can have several
}

// Add adds other counts so many times.
func (g *GoalCounts) Add(other GoalCounts, times int) {
	g.GoalSum.Add(other.GoalSum, times)
	g.Enrollments += times * other.Enrollments
}

// GoalTally is what GoalCounts of any time are read from. A lead counts by its first enrollment
// of a time: how often it comes again can depend on what the journey has done.
type GoalTally struct {
	Enrollments int     `json:"e,omitzero"`
	First       GoalSum `json:"f,omitzero"` // of leads that were not counted before
	// Again is of the other enrollments, by the hour, since 1970, of the one before. Those of the
	// same interval of statistics are left out, and all of them in what counts for all time.
	Again map[int64]*GoalSum `json:"a,omitempty"`
	// Early are, of an arm, leads of First's kind that had converted before they took it. They
	// are in no other number.
	Early int `json:"y,omitzero"`
}

// Of returns the sum that counts an enrollment; before is when the lead's previous enrollment
// began, zero for the first one.
func (t *GoalTally) Of(before time.Time) *GoalSum {
	if before.IsZero() {
		return &t.First
	}
	return t.again(before.Unix() / 3600)
}

func (t *GoalTally) again(hour int64) *GoalSum {
	if t.Again[hour] == nil {
		if t.Again == nil {
			t.Again = map[int64]*GoalSum{}
		}
		t.Again[hour] = &GoalSum{}
	}
	return t.Again[hour]
}

// Add adds another tally so many times.
func (t *GoalTally) Add(other GoalTally, times int) {
	t.Enrollments += times * other.Enrollments
	t.Early += times * other.Early
	t.First.Add(other.First, times)
	for hour, sum := range other.Again {
		t.again(hour).Add(*sum, times)
	}
}

// trim leaves out what is zero, and tells whether anything is left.
func (t *GoalTally) trim() bool {
	maps.DeleteFunc(t.Again, func(_ int64, sum *GoalSum) bool { return *sum == GoalSum{} })
	return len(t.Again) > 0 || t.First != GoalSum{} || t.Enrollments|t.Early != 0
}

// within leaves enrollments out whose lead had another one in the same interval, or all that
// are not their lead's first, if the interval is all time.
func (t *GoalTally) within(every time.Duration, from time.Time) {
	again := t.Again
	t.Again = nil
	if every == 0 {
		return
	}
	hours := int64(every / time.Hour)
	for hour, sum := range again {
		if hour < from.Unix()/3600 {
			t.again(hour-hour%hours).Add(*sum, 1)
		}
	}
}

// Since are the counts of a time that begins with from: zero is all time.
func (t *GoalTally) Since(from time.Time) GoalCounts {
	counts := GoalCounts{GoalSum: t.First, Enrollments: t.Enrollments}
	for hour, sum := range t.Again {
		if !from.IsZero() && hour < from.Unix()/3600 {
			counts.GoalSum.Add(*sum, 1)
		}
	}
	return counts
}

// Open is the tally with those alone that have not converted, for enrollments that can.
func (t *GoalTally) Open() GoalTally {
	open := GoalTally{First: GoalSum{Open: t.First.Leads - t.First.Converted}}
	for hour, sum := range t.Again {
		open.again(hour).Open = sum.Leads - sum.Converted
	}
	return open
}

// Rate is the share that converted; 0 of nobody.
func (g GoalSum) Rate() float64 { return float64(g.Converted) / float64(max(1, g.Leads)) }

// Verdict says what two rates tell of each other.
type Verdict string

// The verdicts on a rate beside another one.
const (
	VerdictHigher    Verdict = "higher"
	VerdictLower     Verdict = "lower"
	VerdictUnclear   Verdict = "unclear"       // the difference may be chance
	VerdictTooLittle Verdict = "notEnoughData" // see Enough
	VerdictMismatch  Verdict = "mismatch"      // the groups are not of the sizes that they were to have
	VerdictApart     Verdict = "notComparable" // the two were not counted alike
)

// Lift is how much higher one rate is than another.
type Lift struct {
	Difference float64
	Low, High  float64 // the interval of the confidence that was asked for
	Verdict    Verdict
}

// Bounds of what is compared: fewer leads of either side, or fewer of both that have
// converted, are not enough data.
const (
	LeastLeads     = 30
	LeastConverted = 10
)

// Enough tells whether there is enough data to compare two rates.
func (g GoalSum) Enough(other GoalSum) bool {
	return min(g.Leads, other.Leads) >= LeastLeads && g.Converted+other.Converted >= LeastConverted
}

// LiftConfidence is the confidence of the intervals that people are shown.
const LiftConfidence = 0.95

// Pair are two groups of leads that were chosen by the same shares.
type Pair struct{ One, Other GoalSum }

// LiftOver compares the rate with another one; see LiftOf.
func (g GoalSum) LiftOver(other GoalSum, confidence float64) Lift {
	return LiftOf([]Pair{{g, other}}, confidence)
}

// LiftOf compares the rates of the ones with those of the others. The interval of the difference
// is Newcombe's hybrid score interval: R. G. Newcombe, Interval estimation for the difference
// between independent proportions: comparison of eleven methods, Statistics in Medicine 17 (1998)
// 873-890, method 10, without continuity correction. It holds its confidence for small groups and
// rates near 0, where the usual one does not. Of an empty group it is (-1, 1).
//
// Of several pairs the differences are averaged with the weights of Mantel and Haenszel, so that
// leads are compared with those alone that were chosen by the same shares; the interval is that
// of the average rates, with as many leads as have their variance.
func LiftOf(pairs []Pair, confidence float64) Lift {
	l := Lift{Low: -1, High: 1, Verdict: VerdictTooLittle}
	var one, other GoalSum
	var p, q, total, oneVariance, otherVariance float64
	for _, pair := range pairs {
		n, m := float64(pair.One.Leads), float64(pair.Other.Leads)
		if n <= 0 || m <= 0 {
			continue
		}
		one.Add(pair.One, 1)
		other.Add(pair.Other, 1)
		weight := n * m / (n + m)
		total += weight
		p += weight * pair.One.Rate()
		q += weight * pair.Other.Rate()
		oneVariance += weight * weight / n
		otherVariance += weight * weight / m
	}
	if total == 0 {
		return l
	}
	p, q = p/total, q/total
	pLow, pHigh := score(p, total*total/oneVariance, confidence)
	qLow, qHigh := score(q, total*total/otherVariance, confidence)
	l.Difference = p - q
	l.Low = l.Difference - math.Hypot(p-pLow, qHigh-q)
	l.High = l.Difference + math.Hypot(pHigh-p, q-qLow)
	switch {
	case !one.Enough(other):
	case l.Low > 0:
		l.Verdict = VerdictHigher
	case l.High < 0:
		l.Verdict = VerdictLower
	default:
		l.Verdict = VerdictUnclear
	}
	return l
}

// Doubt is the lift without what it tells, for a reason that the verdict says.
func Doubt(v Verdict) Lift { return Lift{Low: -1, High: 1, Verdict: v} }

// score is Wilson's interval of a rate p that was measured of n: E. B. Wilson, Probable inference,
// the law of succession, and statistical inference, JASA 22 (1927) 209-212.
func score(p, n, confidence float64) (low, high float64) {
	z := math.Sqrt2 * math.Erfinv(confidence)
	middle, half := p+z*z/(2*n), z*math.Sqrt(p*(1-p)/n+z*z/(4*n*n))
	return (middle - half) / (1 + z*z/n), (middle + half) / (1 + z*z/n)
}

// Expectation is how many of some leads are expected to convert.
type Expectation struct{ Converted, Low, High int }

// Expect tells how many of n more leads will convert if they are as those counted, with an
// interval of LiftConfidence; ok is false if too few were counted. The interval is Wilson's for
// the variance of both the measured rate and the coming one, 1/N = 1/Leads + 1/n, in whole leads
// outwards.
func (g GoalSum) Expect(n int) (e Expectation, ok bool) {
	if g.Leads < LeastLeads {
		return Expectation{}, false
	}
	if n <= 0 {
		return Expectation{}, true
	}
	p, counted, coming := g.Rate(), float64(g.Leads), float64(n)
	low, high := score(p, counted*coming/(counted+coming), LiftConfidence)
	const rounding = 1e-9 // of the bounds 0 and n
	return Expectation{
		Converted: int(math.Round(p * coming)),
		Low:       max(0, int(math.Floor(low*coming+rounding))),
		High:      min(n, int(math.Ceil(high*coming-rounding))),
	}, true
}

// Contest says when the arms of a split are compared: After the first enrollment took one, or
// once so many leads have.
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
		if i != best && arms[best].LiftOver(a.GoalSum, confidence).Verdict != VerdictHigher {
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
	Weights   []int     // of the arms
	At        time.Time // when they take their arms
	Contest   *Contest  // nil: the split never has a winner
	Items     []ArmChoice
}

// TakenArm is the arm that an enrollment takes.
type TakenArm struct {
	Arm int
	Won bool      // it is the winner's
	At  time.Time // when it took it: of a visit that is told again, as at first
}

// Conversion says that an enrollment reached its goal.
type Conversion struct {
	EventID string // the first event that did
	At      time.Time
	Worth   Amount // of all events that did
}
