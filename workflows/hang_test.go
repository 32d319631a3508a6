package workflows_test

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"waypost"
	"waypost/delivery"
	"waypost/store"
)

// slowStore takes its time to begin an attempt, and heeds no context.
type slowStore struct {
	*store.Store
	takes time.Duration
}

func (s slowStore) OpenAttempts(ctx context.Context, openings []delivery.Opening) (map[waypost.Touchpoint]delivery.Sending, error) {
	time.Sleep(s.takes)
	return s.Store.OpenAttempts(ctx, openings)
}

// A workflow task of a single enrollment takes 5 seconds at most, and the SDK extends it
// after 4: whatever hangs, a local activity is over by then, or is left to a regular one.
// So it is of several in one task, each of which takes long.
func TestLocalActivitiesEndWithTheirTask(t *testing.T) {
	t.Parallel()
	const nodes = `{"name":"Three","start":"one","nodes":[{"id":"one","type":"touchpoint","webhook":"WEBHOOK","next":"two"},
		{"id":"two","type":"touchpoint","webhook":"WEBHOOK","next":"three"},{"id":"three","type":"touchpoint","webhook":"WEBHOOK","next":"end"},
		{"id":"end","type":"exit"}]}`
	for name, tt := range map[string]struct {
		takes time.Duration
		want  []string // DeliverBatch, for one node after the other
	}{
		"it answers":     {0, []string{"local", "local", "local"}},
		"it takes long":  {1500 * time.Millisecond, []string{"local", "regular", "local"}},
		"it hangs first": {3500 * time.Millisecond, []string{"local", "regular", "local", "regular", "local", "regular"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.newEnvironment()
			w.registerWith(slowStore{w.store, tt.takes})
			var mu sync.Mutex
			var got []string
			var began, longest = time.Time{}, time.Duration(0)
			w.env.SetOnLocalActivityStartedListener(func(info *activity.Info, _ context.Context, _ []any) {
				mu.Lock()
				defer mu.Unlock()
				if began.IsZero() {
					began = time.Now()
				}
				if info.ActivityType.Name == "DeliverBatch" {
					got = append(got, "local")
				}
			})
			w.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
				mu.Lock()
				defer mu.Unlock()
				longest, began = max(longest, time.Since(began)), time.Time{}
				got = append(got, "regular")
			})
			// As in production the workflow's clock goes on while a local activity runs: that
			// of the test environment goes from timer to timer.
			for at := 100 * time.Millisecond; at < 10*time.Second; at += 100 * time.Millisecond {
				w.env.RegisterDelayedCallback(func() {}, at)
			}
			e := w.enroll(w.publish(nodes), 1)[0]
			w.run()
			if !slices.Equal(got, tt.want) || longest > 4*time.Second {
				t.Errorf("%q, the longest task %s", got, longest)
			}
			if status, _ := w.timeline(e); status != waypost.EnrollmentCompleted || w.posted() != 3 {
				t.Errorf("%s after %d POSTs", status, w.posted())
			}
		})
	}
}
