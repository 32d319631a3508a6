package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// TestLanes lets writers wait behind one that is in, and looks in which order they
// get in.
func TestLanes(t *testing.T) {
	t.Parallel()
	many := func(lane string, n int) (list []string) {
		for range n {
			list = append(list, lane)
		}
		return list
	}
	for name, c := range map[string]struct{ come, want []string }{
		"nobody":      {nil, nil},
		"small first": {[]string{"large", "small", "large", "small"}, []string{"small", "small", "large", "large"}},
		"large go on": {
			append(many("small", maxPassed+2), "large", "large"),
			slices.Concat(many("small", maxPassed), []string{"large"}, many("small", 2), []string{"large"}),
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var l lanes
			if err := l.enter(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			in := make(chan string)
			for i, lane := range c.come {
				go func() {
					if err := l.enter(t.Context(), lane == "large"); err != nil {
						lane = err.Error()
					}
					in <- lane
				}()
				l.await(i + 1)
			}
			l.leave()
			var got []string
			for range c.come {
				got = append(got, <-in)
				l.leave()
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			if l.busy {
				t.Fatal("somebody is still in")
			}
		})
	}
}

// await returns when n writers wait.
func (l *lanes) await(n int) {
	for {
		l.mu.Lock()
		waiting := len(l.waiting[0]) + len(l.waiting[1])
		l.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

// TestLanesGiveUp ends contexts of writers that wait: the others get in, one at a
// time, and nobody is lost.
func TestLanesGiveUp(t *testing.T) {
	t.Parallel()
	var l lanes
	const writers, rounds = 8, 200
	inside := 0
	done := make(chan error, writers)
	for w := range writers {
		go func() {
			done <- func() error {
				for round := range rounds {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					if (w+round)%3 == 0 {
						go cancel()
					}
					if err := l.enter(ctx, w%2 == 0); errors.Is(err, context.Canceled) {
						continue
					} else if err != nil {
						return err
					}
					if inside++; inside != 1 {
						return fmt.Errorf("%d are in", inside)
					}
					inside--
					l.leave()
				}
				return nil
			}()
		}()
	}
	for range writers {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	if l.busy || len(l.waiting[0])+len(l.waiting[1]) != 0 {
		t.Fatalf("left behind: %+v", l.waiting)
	}
}
