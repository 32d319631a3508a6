package waypost

import (
	"math"
	"testing"
)

// The quantiles are those of tables of the chi-squared distribution.
func TestChiSquared(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		x       float64
		degrees int
		want    float64
	}{
		{0, 1, 1}, {3.841, 1, 0.05}, {10.828, 1, 0.001}, {5.991, 2, 0.05}, {7.815, 3, 0.05}, {16.266, 3, 0.001}, {11.070, 5, 0.05}, {18.467, 4, 0.001}, {30.144, 19, 0.05}, {0, 4, 1},
	} {
		if got := chiSquared(tt.x, tt.degrees); math.Abs(got-tt.want) > 0.01*tt.want {
			t.Errorf("at %v of %d degrees: %v, want %v", tt.x, tt.degrees, got, tt.want)
		}
	}
}

func TestSampleRatioOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		sizes, weights   []int
		tested, mismatch bool
	}{
		{[]int{50, 50}, []int{1, 1}, true, false},
		{[]int{90, 10}, []int{90, 10}, true, false},
		{[]int{140, 100}, []int{1, 1}, true, false},
		{[]int{155, 85}, []int{1, 1}, true, true},
		{[]int{8, 0}, []int{1, 1}, false, false}, // too few to be tested
		{[]int{0, 0}, []int{1, 1}, false, false},
		{[]int{100, 100, 160}, []int{1, 1, 1}, true, true},
	} {
		r := SampleRatioOf(tt.sizes, tt.weights)
		if r.Tested != tt.tested || r.Mismatch != tt.mismatch {
			t.Errorf("%v by %v: %+v", tt.sizes, tt.weights, r)
		}
	}
}

// Leads are compared within each share: the first half of these buy five times as often, and fewer
// of them were held out, which together looks like a lift.
func TestLiftWithinShares(t *testing.T) {
	t.Parallel()
	var c Counts
	*c.Share(0.1) = ShareCounts{Journey: GoalSum{Leads: 900, Converted: 450}, Control: GoalSum{Leads: 100, Converted: 50}}
	*c.Share(0.5) = ShareCounts{Journey: GoalSum{Leads: 500, Converted: 50}, Control: GoalSum{Leads: 500, Converted: 50}}
	if l := c.Lift(); l.Difference != 0 || l.Verdict != VerdictUnclear || l.Low > -0.01 || l.High < 0.01 {
		t.Errorf("within shares: %+v", l)
	}
	if r := c.SampleRatio(); r.Mismatch || r.Expected[1] != 0.3 || r.Seen[1] != 0.3 || r.P != 1 {
		t.Errorf("the ratio: %+v", r)
	}
	if l := (GoalSum{Leads: 1400, Converted: 500}).LiftOver(GoalSum{Leads: 600, Converted: 100}, LiftConfidence); l.Verdict != VerdictHigher {
		t.Errorf("together: %+v", l)
	}
}
