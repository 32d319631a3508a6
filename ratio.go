package waypost

import (
	"maps"
	"math"
	"slices"
)

// SampleRatio tells whether groups of leads have the sizes that chance gives them.
type SampleRatio struct {
	Expected, Seen []float64 // the share of each group in all leads
	P              float64   // how likely it is that they differ at least as much
	Tested         bool      // false, with P 1, where a group is too small to be tested
	Mismatch       bool      // P lies under MismatchBelow
}

// MismatchBelow is the bound that sample ratios are tested by: under it something else than
// chance has made the groups.
const MismatchBelow = 0.001

// leastExpected is how many leads each group must be expected to have for the chi-squared test.
const leastExpected = 5

// ShareCounts is what leads came to that were held out by the same share, each by its first
// enrollment.
type ShareCounts struct {
	Journey GoalSum `json:"j,omitzero"`
	Control GoalSum `json:"k,omitzero"`
}

// shareUnit is what shares are counted by: a millionth.
const shareUnit = 1e6

// Share are the counts of leads that a share of is held out.
func (c *Counts) Share(share float64) *ShareCounts {
	return c.share(int64(math.Round(share * shareUnit)))
}

func (c *Counts) share(millionths int64) *ShareCounts {
	if c.Shares[millionths] == nil {
		if c.Shares == nil {
			c.Shares = map[int64]*ShareCounts{}
		}
		c.Shares[millionths] = &ShareCounts{}
	}
	return c.Shares[millionths]
}

// Compared is how many leads of the journey have a share of them held out.
func (c *Counts) Compared() (leads int) {
	for _, of := range c.Shares {
		leads += of.Journey.Leads
	}
	return leads
}

// Lift compares the journey with its control group. Leads of a way of entering that holds nobody
// out are compared with nobody.
func (c *Counts) Lift() Lift {
	if c.SampleRatio().Mismatch {
		return Doubt(VerdictMismatch)
	}
	var pairs []Pair
	for _, share := range slices.Sorted(maps.Keys(c.Shares)) {
		pairs = append(pairs, Pair{c.Shares[share].Journey, c.Shares[share].Control})
	}
	return LiftOf(pairs, LiftConfidence)
}

// SampleRatio compares how many leads are in the control group with how many were to be: the sum
// of the shares that each of them was held out by, which versions and launches can differ in. Its
// groups are the journey and the control group.
func (c *Counts) SampleRatio() SampleRatio {
	var leads, expected, variance, held float64
	for millionths, of := range c.Shares {
		n, share := float64(of.Journey.Leads+of.Control.Leads), float64(millionths)/shareUnit
		leads, expected, variance, held = leads+n, expected+n*share, variance+n*share*(1-share), held+float64(of.Control.Leads)
	}
	if leads == 0 {
		return SampleRatio{P: 1}
	}
	r := SampleRatio{Expected: []float64{1 - expected/leads, expected / leads}, Seen: []float64{1 - held/leads, held / leads}}
	return r.test(min(expected, leads-expected), (held-expected)*(held-expected)/variance, 1)
}

// SampleRatioOf compares the sizes of groups with their weights.
func SampleRatioOf(sizes, weights []int) SampleRatio {
	n, total := 0, 0
	for i, size := range sizes {
		n, total = n+size, total+weights[i]
	}
	if n == 0 || len(sizes) < 2 {
		return SampleRatio{P: 1}
	}
	var r SampleRatio
	least, x := math.Inf(1), 0.0
	for i, size := range sizes {
		share := float64(weights[i]) / float64(total)
		expected := share * float64(n)
		r.Expected, r.Seen = append(r.Expected, share), append(r.Seen, float64(size)/float64(n))
		least, x = min(least, expected), x+(float64(size)-expected)*(float64(size)-expected)/expected
	}
	return r.test(least, x, len(sizes)-1)
}

func (r SampleRatio) test(least, x float64, degrees int) SampleRatio {
	r.P = 1
	if r.Tested = least >= leastExpected; r.Tested {
		r.P = chiSquared(x, degrees)
		r.Mismatch = r.P < MismatchBelow
	}
	return r
}

// chiSquared is how likely a value of at least x is by the chi-squared distribution: Abramowitz
// and Stegun, 26.4.4 and 26.4.5.
func chiSquared(x float64, degrees int) float64 {
	p, k := math.Erfc(math.Sqrt(x/2)), 1
	if degrees%2 == 0 {
		p, k = math.Exp(-x/2), 2
	}
	for ; k < degrees; k += 2 {
		gamma, _ := math.Lgamma(float64(k)/2 + 1)
		p += math.Exp(float64(k)/2*math.Log(x/2) - x/2 - gamma)
	}
	return min(1, p)
}
