package waypost_test

import (
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"testing"

	"waypost"
)

// A launch's cohorts hold every member once and in order, and as many leads as Temporal
// takes in the list of a search attribute: 2,048 bytes of JSON.
func TestLaunchCohort(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		first int64
		sizes []int
	}{
		{1, []int{200, 200, 101}},
		{9_999_000, []int{200, 200, 101}},
		{9_999_900, []int{195, 186, 120}},
		{10_000_000, []int{186, 186, 129}},
		{1_000_000_000, []int{157, 157, 157, 30}},
		{math.MaxInt64 - 500, []int{93, 93, 93, 93, 93, 36}},
	} {
		members := make([]waypost.CohortMember, 501)
		for i := range members {
			members[i].LeadsID = test.first + int64(i)
		}
		var sizes []int
		for left := members; len(left) > 0; {
			n := waypost.LaunchCohort(left)
			leads := make([]string, n)
			for i, m := range left[:n] {
				leads[i] = strconv.FormatInt(m.LeadsID, 10)
			}
			list, err := json.Marshal(leads)
			if err != nil || len(list) > 2048 {
				t.Errorf("from %d on, a list of %d leads has %d bytes (%v)", test.first, n, len(list), err)
			}
			sizes, left = append(sizes, n), left[n:]
		}
		if !slices.Equal(sizes, test.sizes) {
			t.Errorf("from %d on, cohorts of %v, want %v", test.first, sizes, test.sizes)
		}
	}
	if n := waypost.LaunchCohort(nil); n != 0 {
		t.Errorf("%d of nobody", n)
	}
}
