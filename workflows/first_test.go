package workflows_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"waypost"
	"waypost/store"
)

// brittleStore loses its connection when attempts are opened, some times.
type brittleStore struct {
	*store.Store
	left *atomic.Int32
}

func (s brittleStore) OpenAttempts(ctx context.Context, openings []waypost.Opening) (map[waypost.Touchpoint]waypost.Sending, error) {
	if s.left.Add(-1) >= 0 {
		return nil, errors.New("the database is away")
	}
	return s.Store.OpenAttempts(ctx, openings)
}

// First attempts are local activities, in launches as well, unless they take time:
// then, and for all others, a regular one waits. Whatever runs, each attempt is one
// POST.
func TestFirstAttemptsAreLocal(t *testing.T) {
	t.Parallel()
	const local, regular = "local", "regular"
	for name, c := range map[string]struct {
		failures int32 // of the database
		refusals int   // by the receiver
		slow     bool  // the receiver answers when a regular activity waits for it
		leads    int
		launch   bool
		runs     []string
		posts    int
	}{
		"quick":            {leads: 1, runs: []string{local}, posts: 1},
		"slow":             {slow: true, leads: 1, runs: []string{local, regular}, posts: 1},
		"several":          {leads: 5, runs: []string{local}, posts: 5},
		"several, slow":    {slow: true, leads: 5, runs: []string{local, regular}, posts: 5},
		"refused twice":    {refusals: 2, leads: 1, runs: []string{local, regular, regular}, posts: 3},
		"no database once": {failures: 1, leads: 1, runs: []string{local, local}, posts: 1},
		"no database":      {failures: 3, leads: 1, runs: []string{local, local, regular, regular}, posts: 1},
		"launch":           {leads: 5, launch: true, runs: []string{local}, posts: 5},
		"launch, slow":     {slow: true, leads: 5, launch: true, runs: []string{local, regular}, posts: 5},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			v := w.publish(`{"name":"J","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":"WEBHOOK"}]}`)
			var ids []string
			if c.launch {
				w.launch(waypost.Launch{JourneyID: v.JourneyID, Version: v.Version, AppID: "app_test", Audience: waypost.Audience{LeadsIDs: w.leads(c.leads)}})
				for done := false; !done; {
					launches, err := w.store.UnstartedLaunches(t.Context(), w.env.Now(), 1)
					must(t, err)
					step, err := w.store.EnrollAudience(t.Context(), launches[0].ID, 100)
					must(t, err)
					done = step.Done
				}
				cohorts, err := w.store.ClaimLaunchCohorts(t.Context(), 1)
				must(t, err)
				w.next = &cohorts[0]
				for _, m := range w.next.Members {
					ids = append(ids, m.EnrollmentID)
				}
			} else {
				for _, e := range w.enroll(v, c.leads) {
					ids = append(ids, e.ID)
				}
			}
			if c.slow {
				w.patience = 250 * time.Millisecond
			}
			w.newEnvironmentAt(time.Now()) // by which local activities that run again are timed
			var left atomic.Int32
			left.Store(c.failures)
			w.registerWith(brittleStore{w.store, &left})

			var mu sync.Mutex
			var runs []string
			waits := make(chan struct{})
			note := func(info *activity.Info, kind string) {
				if info.ActivityType.Name != "DeliverBatch" {
					return
				}
				mu.Lock()
				defer mu.Unlock()
				if runs = append(runs, kind); kind == regular && !slices.Contains(runs[:len(runs)-1], regular) {
					close(waits)
				}
			}
			w.env.SetOnLocalActivityStartedListener(func(info *activity.Info, _ context.Context, _ []any) { note(info, local) })
			w.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) { note(info, regular) })
			w.receiver.script = func(_ waypost.Message, attempt int) answer {
				if c.slow {
					<-waits
				}
				if attempt <= c.refusals {
					return answer{status: http.StatusServiceUnavailable}
				}
				return answer{status: http.StatusOK}
			}
			w.run()
			mu.Lock()
			defer mu.Unlock()
			if !slices.Equal(runs, c.runs) {
				t.Errorf("DeliverBatch ran %q, want %q", runs, c.runs)
			}
			posts := 0
			for _, bodies := range w.receiver.posts {
				posts += len(bodies)
			}
			if posts != c.posts || len(w.receiver.posts) != c.leads {
				t.Errorf("%d POSTs of %d messages, want %d of %d", posts, len(w.receiver.posts), c.posts, c.leads)
			}
			for _, id := range ids {
				e := waypost.Enrollment{ID: id}
				if status, timeline := w.timeline(e); status != waypost.EnrollmentCompleted {
					t.Errorf("enrollment is %s by way of %q", status, timeline)
				}
				if _, attempts := w.delivery(e, "hello"); len(attempts) != c.refusals+1 {
					t.Errorf("%d attempts are recorded, want %d", len(attempts), c.refusals+1)
				}
			}
		})
	}
}
