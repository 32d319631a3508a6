package journey_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"waypost/journey"
	"waypost/journey/nodes"
)

func TestSplitArm(t *testing.T) {
	t.Parallel()
	// These never change: leads would take other arms than before.
	for _, test := range []struct {
		journey, node string
		lead          int64
		weights       []int
		want          int
	}{
		{"jrn_1", "arms", 1, []int{50, 50}, 1},
		{"jrn_1", "arms", 2, []int{50, 50}, 0},
		{"jrn_1", "arms", 3, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 1},
		{"jrn_2", "arms", 3, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 3},
		{"jrn_1", "other", 3, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 3},
		{"jrn_1", "arms", math.MaxInt64, []int{1, 1, 1, 1, 1, 1, 1, 1, 1, 1}, 8},
		{"jrn_1", "arms", 1, []int{0, 5, 0}, 1},
		{"jrn_1", "arms", 1, []int{-3, 5}, 1},
		{"jrn_1", "arms", 1, nil, -1},
		{"jrn_1", "arms", 1, []int{0, -1}, -1},
	} {
		if got := journey.SplitArm(test.journey, test.node, test.lead, test.weights); got != test.want {
			t.Errorf("lead %d at %s/%s of %v takes %d, want %d", test.lead, test.journey, test.node, test.weights, got, test.want)
		}
	}

	const leads = 40_000
	share := func(count int, of float64, what string) {
		// Five standard deviations; the leads are always the same, so it always holds.
		if sigma := math.Sqrt(leads * of * (1 - of)); math.Abs(float64(count)-leads*of) > 5*sigma {
			t.Errorf("%s: %d of %d, expected %.0f ± %.0f", what, count, leads, leads*of, sigma)
		}
	}
	counts := make([]int, 3)
	var both, other, moved int
	for lead := int64(1); lead <= leads; lead++ {
		counts[journey.SplitArm("jrn_1", "arms", lead, []int{70, 29, 1})]++
		half := journey.SplitArm("jrn_1", "arms", lead, []int{50, 50})
		if half == 0 && journey.SplitArm("jrn_1", "arms2", lead, []int{50, 50}) == 0 {
			both++
		}
		if half == 0 && journey.SplitArm("jrn_2", "arms", lead, []int{50, 50}) == 0 {
			other++
		}
		if journey.SplitArm("jrn_1", "arms", lead, []int{60, 40}) != half {
			moved++
		}
	}
	share(counts[0], 0.70, "arm of 70")
	share(counts[1], 0.29, "arm of 29")
	share(counts[2], 0.01, "arm of 1")
	share(both, 0.25, "first arm of two splits")
	share(other, 0.25, "first arm of two journeys")
	share(moved, 0.10, "other arm after 60/40")
}

func TestSplitArm_bounds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		weights := rapid.SliceOf(rapid.IntRange(-5, nodes.Of("split").Member("arms.weight").Max)).Draw(t, "weights")
		arm := journey.SplitArm(rapid.String().Draw(t, "journey"), rapid.String().Draw(t, "node"), rapid.Int64().Draw(t, "lead"), weights)
		total := 0
		for _, w := range weights {
			total += max(w, 0)
		}
		if total == 0 && arm != -1 || total > 0 && (arm < 0 || weights[arm] <= 0) {
			t.Fatalf("arm %d of %v", arm, weights)
		}
	})
}
