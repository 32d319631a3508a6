package embedded_test

import (
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"waypost/searchsvc"
	"waypost/searchsvc/embedded"
)

// hanzi is a text of random characters, the most different ones that its length
// allows.
func hanzi(size int) string {
	r := rand.New(rand.NewPCG(1, 2))
	var b strings.Builder
	for b.Len() < size {
		b.WriteRune(rune('一' + r.IntN('鿿'-'一')))
	}
	return b.String()
}

// One huge article must not make those that follow it take the memory of huge ones.
// What is measured is the whole process's, so this test runs by itself.

func TestMemory(t *testing.T) {
	x, err := embedded.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	if err := x.Create(t.Context(), "g"); err != nil {
		t.Fatal(err)
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1)) // zapx then writes all segments by what it learned from the first
	allocated := func(docs ...searchsvc.Document) uint64 {
		t.Helper()
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		if _, err := x.Import(t.Context(), "g", docs); err != nil {
			t.Fatal(err)
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) >> 20
	}
	allocated(document(1, "大", hanzi(1<<20)))
	var small []searchsvc.Document
	for i := range 200 {
		small = append(small, document(i+2, "小", "小"))
	}
	if mb := allocated(small...); mb > 100 {
		t.Errorf("200 small articles after it allocate %d MB", mb)
	}
}
