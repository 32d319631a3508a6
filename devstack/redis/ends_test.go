package redis

import (
	"slices"
	"strconv"
	"testing"
	"time"
)

// Keys end in the order of their ends, also those that were given another one, and
// those that live are not looked at.
func TestEnds(t *testing.T) {
	t.Parallel()
	e := ends{of: map[string]*end{}}
	at := time.Unix(1_700_000_000, 0)
	for i := range 1000 {
		e.set(strconv.Itoa(i), at.Add(time.Duration(i*7919%1000)*time.Second))
	}
	e.set("0", at.Add(2000*time.Second)) // was the first
	e.set("1", at.Add(-time.Second))     // had 919 s
	e.drop("2")
	e.drop("unknown")
	if len(e.queue) != 999 || len(e.of) != 999 {
		t.Fatalf("%d keys in the queue, %d known, want 999", len(e.queue), len(e.of))
	}
	var got []string
	for {
		key, ended := e.ended(at.Add(3 * time.Second))
		if !ended {
			break
		}
		got = append(got, key)
	}
	// 7919 i = 1, 2, 3 (mod 1000)
	if want := []string{"1", "679", "358", "37"}; !slices.Equal(got, want) {
		t.Errorf("ended %v, want %v", got, want)
	}
	if len(e.queue) != 995 || len(e.of) != 995 {
		t.Errorf("%d keys in the queue, %d known, want 995", len(e.queue), len(e.of))
	}
	if key, ended := e.ended(at.Add(time.Hour)); !ended || key != "716" { // 4 s
		t.Errorf("the next is %q, %t", key, ended)
	}
}
