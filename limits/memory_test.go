package limits

import (
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"

	"waypost/limits/limitstest"
)

// A Redis that may forget is told of, with what to do. What a server does not tell is no complaint.
func TestForgets(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		args  []string
		wants []string
	}{
		{"as it should be", []string{"--appendonly", "yes", "--maxmemory-policy", "noeviction"}, nil},
		{"snapshots", []string{"--save", "3600 1"}, nil},
		{"evicts", []string{"--appendonly", "yes", "--maxmemory-policy", "allkeys-lru", "--maxmemory", "100mb"}, []string{"set maxmemory-policy noeviction"}},
		{"evicts what has an end", []string{"--appendonly", "yes", "--maxmemory-policy", "volatile-ttl"}, []string{"once it has a maxmemory"}},
		{"keeps nothing", []string{"--save", ""}, []string{"set appendonly yes"}},
		{"both", []string{"--save", "", "--maxmemory-policy", "allkeys-random"}, []string{"allkeys-random", "set appendonly yes"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := Forgets(t.Context(), connect(t, limitstest.StartRedis(t, tt.args...).Socket))
			if err != nil || len(got) != len(tt.wants) {
				t.Fatalf("%q, %v", got, err)
			}
			for i, want := range tt.wants {
				if !strings.Contains(got[i], want) {
					t.Errorf("%q does not say %q", got[i], want)
				}
			}
		})
	}
	if got, err := Forgets(t.Context(), connect(t, miniredis.RunT(t).Addr())); err != nil || len(got) != 0 {
		t.Errorf("the stand-in: %q, %v", got, err)
	}
}
