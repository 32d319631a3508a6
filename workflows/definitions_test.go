package workflows

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"waypost/journey"
)

// Cohorts of one version share its definition; versions that are written differently do not.
func TestDefinitionsAreShared(t *testing.T) {
	t.Parallel()
	write := func(id string) []byte {
		return []byte(fmt.Sprintf(`{"name":"n","start":%q,"nodes":[{"id":%q,"type":"exit"}]}`, id, id))
	}
	var wg sync.WaitGroup
	got := make([][]*journey.Definition, 4)
	for i := range got {
		wg.Go(func() {
			for range 100 {
				for _, id := range []string{"a", "b"} {
					def, err := definitionOf("jrn_1", 1, write(id))
					if err != nil || def.Start() != id {
						t.Errorf("version %s starts with %v, %v", id, def, err)
						return
					}
					got[i] = append(got[i], def)
				}
			}
		})
	}
	wg.Wait()
	for _, defs := range got {
		if n := len(defs); n != 200 || defs[n-1] != got[0][199] || defs[n-2] != got[0][198] {
			t.Errorf("definitions are not shared")
		}
	}
	if _, err := definitionOf("jrn_1", 7, []byte(`{"nodes":7}`)); err == nil || !strings.Contains(err.Error(), "jrn_1/7") {
		t.Errorf("what cannot be read says %v", err)
	}
}
