package waypost

import (
	"math"
	"testing"
)

// The examples of table II of Newcombe's paper, see LiftOver.
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
		l := GoalCounts{Enrollments: tt.of, Converted: tt.converted}.LiftOver(GoalCounts{Enrollments: tt.other, Converted: tt.otherConverted}, LiftConfidence)
		if math.Abs(l.Low-tt.low) > 0.0001 || math.Abs(l.High-tt.high) > 0.0001 || l.Verdict != tt.verdict {
			t.Errorf("%d/%d over %d/%d: %+v, want %v to %v, %s", tt.converted, tt.of, tt.otherConverted, tt.other, l, tt.low, tt.high, tt.verdict)
		}
	}
}

func TestBest(t *testing.T) {
	t.Parallel()
	arms := func(converted ...int) (list []GoalCounts) {
		for _, n := range converted {
			list = append(list, GoalCounts{Enrollments: 1000, Converted: n})
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
