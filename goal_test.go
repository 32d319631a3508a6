package waypost

import (
	"math"
	"testing"
)

// The intervals were computed without this code, from the roots of Wilson's equation
// (p - θ)² = z² θ(1 - θ)/n, which bisection found to 40 digits. Others quote the first nine, of
// which one is another one turned round, from table II of Newcombe's paper, see LiftOver.
func TestLiftOver(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		converted, of, otherConverted, other int
		low, high                            float64
		verdict                              Verdict
	}{
		{56, 70, 48, 80, 0.0524, 0.3339, VerdictHigher},
		{48, 80, 56, 70, -0.3339, -0.0524, VerdictLower},
		{9, 10, 3, 10, 0.1705, 0.8090, VerdictTooLittle},
		{6, 7, 2, 7, 0.0582, 0.8062, VerdictTooLittle},
		{5, 56, 0, 29, -0.0381, 0.1926, VerdictTooLittle},
		{0, 10, 0, 20, -0.1611, 0.2775, VerdictTooLittle},
		{0, 10, 0, 10, -0.2775, 0.2775, VerdictTooLittle},
		{10, 10, 0, 20, 0.6791, 1, VerdictTooLittle},
		{10, 10, 0, 10, 0.6075, 1, VerdictTooLittle},
		{5, 30, 5, 30, -0.1930, 0.1930, VerdictUnclear},
		{5, 30, 4, 30, -0.1549, 0.2204, VerdictTooLittle},
		{0, 0, 4, 30, -1, 1, VerdictTooLittle},
		{4, 30, 0, 0, -1, 1, VerdictTooLittle},
	} {
		l := GoalSum{Leads: tt.of, Converted: tt.converted}.LiftOver(GoalSum{Leads: tt.other, Converted: tt.otherConverted}, LiftConfidence)
		if math.Abs(l.Low-tt.low) > 0.0001 || math.Abs(l.High-tt.high) > 0.0001 || l.Verdict != tt.verdict {
			t.Errorf("%d/%d over %d/%d: %+v, want %v to %v, %s", tt.converted, tt.of, tt.otherConverted, tt.other, l, tt.low, tt.high, tt.verdict)
		}
	}
}

// Whatever the rate is: what comes of some enrollments lies in the interval that others foretell
// in 95 % of all cases, which the binomial distributions of both tell exactly.
func TestExpect(t *testing.T) {
	t.Parallel()
	for _, counted := range []int{30, 100, 1000} {
		for _, coming := range []int{1, 10, 50, 1000} {
			for _, rate := range []float64{0.01, 0.1, 0.3, 0.5, 0.95} {
				odds, inside := binomial(coming, rate), 0.0
				for converted, odd := range binomial(counted, rate) {
					e, ok := GoalSum{Leads: counted, Converted: converted}.Expect(coming)
					if !ok || e.Low < 0 || e.Low > e.Converted || e.Converted > e.High || e.High > coming {
						t.Fatalf("of %d after %d of %d: %+v, %v", coming, converted, counted, e, ok)
					}
					for _, o := range odds[e.Low : e.High+1] {
						inside += odd * o
					}
				}
				if inside < LiftConfidence {
					t.Errorf("of %d after %d at %v, %v lie in the interval", coming, counted, rate, inside)
				}
			}
		}
	}
	for _, tt := range []struct {
		converted, of, coming int
		want                  Expectation
		ok                    bool
	}{
		{10, 29, 100, Expectation{}, false},
		{10, 100, 0, Expectation{}, true},
		{0, 30, 10, Expectation{0, 0, 4}, true},
		{100, 1000, 1000, Expectation{100, 76, 130}, true},
		{1000, 10000, 100000, Expectation{10000, 9400, 10634}, true},
	} {
		if got, ok := (GoalSum{Leads: tt.of, Converted: tt.converted}).Expect(tt.coming); got != tt.want || ok != tt.ok {
			t.Errorf("of %d after %d of %d: %+v, %v, want %+v, %v", tt.coming, tt.converted, tt.of, got, ok, tt.want, tt.ok)
		}
	}
}

// binomial has the odds of 0 to n successes.
func binomial(n int, p float64) []float64 {
	odds := make([]float64, n+1)
	all, _ := math.Lgamma(float64(n + 1))
	for k := range odds {
		yes, _ := math.Lgamma(float64(k + 1))
		no, _ := math.Lgamma(float64(n - k + 1))
		odds[k] = math.Exp(all - yes - no + float64(k)*math.Log(p) + float64(n-k)*math.Log(1-p))
	}
	return odds
}

func TestBest(t *testing.T) {
	t.Parallel()
	arms := func(converted ...int) (list []GoalCounts) {
		for _, n := range converted {
			list = append(list, GoalCounts{GoalSum: GoalSum{Leads: 1000, Converted: n}})
		}
		return list
	}
	for _, tt := range []struct {
		arms       []GoalCounts
		look, want int
	}{
		{arms(100, 150), 1, 1},
		{arms(150, 100), 1, 0},
		{arms(100, 100), 1, -1},
		{arms(100, 130), 1, -1}, // 0.95 alone would do
		{arms(100, 138, 50), 1, -1},
		{arms(100, 150, 50), 1, 1},
		{arms(150, 150, 50), 1, -1},
		{arms(100, 135), 1, 1},
		{arms(100, 135), 2, -1},
		{arms(100, 140), 2, 1},
	} {
		if got := Best(tt.arms, tt.look); got != tt.want {
			t.Errorf("the best of %+v at look %d is %d, want %d", tt.arms, tt.look, got, tt.want)
		}
	}
}

func TestAmount(t *testing.T) {
	t.Parallel()
	for number, want := range map[float64]Amount{0: 0, 12.34567: 123457, -0.1: -1000, 1e8: 1e12} {
		if got := AmountOf(number); got != want || math.Abs(got.Float()-number) > 0.00005 {
			t.Errorf("%v is %d, %v", number, got, got.Float())
		}
	}
}
