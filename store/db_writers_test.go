package store

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"testing"
)

// TestWriterQueue lets writers wait behind one that is in, and looks in which order they
// get in.
func TestWriterQueue(t *testing.T) {
	t.Parallel()
	many := func(size string, n int) (list []string) {
		for range n {
			list = append(list, size)
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
			var q writerQueue
			if err := q.enter(t.Context(), true); err != nil {
				t.Fatal(err)
			}
			in := make(chan string)
			for i, size := range c.come {
				go func() {
					if err := q.enter(t.Context(), size == "large"); err != nil {
						size = err.Error()
					}
					in <- size
				}()
				q.await(i + 1)
			}
			q.leave()
			var got []string
			for range c.come {
				got = append(got, <-in)
				q.leave()
			}
			if !slices.Equal(got, c.want) {
				t.Fatalf("got %v, want %v", got, c.want)
			}
			if q.busy {
				t.Fatal("somebody is still in")
			}
		})
	}
}

// await returns when n writers wait.
func (q *writerQueue) await(n int) {
	for {
		q.mu.Lock()
		waiting := len(q.waiting[0]) + len(q.waiting[1])
		q.mu.Unlock()
		if waiting == n {
			return
		}
		runtime.Gosched()
	}
}

// TestWriterQueueGivesUp ends contexts of writers that wait: the others get in, one at a
// time, and nobody is lost.
func TestWriterQueueGivesUp(t *testing.T) {
	t.Parallel()
	var q writerQueue
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
					if err := q.enter(ctx, w%2 == 0); errors.Is(err, context.Canceled) {
						continue
					} else if err != nil {
						return err
					}
					if inside++; inside != 1 {
						return fmt.Errorf("%d are in", inside)
					}
					inside--
					q.leave()
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
	if q.busy || len(q.waiting[0])+len(q.waiting[1]) != 0 {
		t.Fatalf("left behind: %+v", q.waiting)
	}
}
