package workflows_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"waypost"
	"waypost/delivery"
	"waypost/journey"
	"waypost/store"
	"waypost/store/storetest"
	"waypost/workflows"
)

// brittleStore loses its connection when attempts are opened, some times.
type brittleStore struct {
	*store.Store
	left *atomic.Int32
}

func (s brittleStore) OpenAttempts(ctx context.Context, openings []delivery.Opening) (map[waypost.Touchpoint]delivery.Sending, error) {
	if s.left.Add(-1) >= 0 {
		return nil, errors.New("the database is away")
	}
	return s.Store.OpenAttempts(ctx, openings)
}

// The search attributes say where a journey has come to and what of, also where all of it
// happens in one workflow task.
func TestAttributesOfOneTask(t *testing.T) {
	t.Parallel()
	const again = `{"id":"again","type":"touchpoint","webhook":"OTHER"`
	for name, c := range map[string]struct {
		nodes, node string
		leads       int
	}{
		"two touchpoints":         {`{"id":"n","type":"touchpoint","webhook":"WEBHOOK","next":"again"},` + again + `}`, "again", 1},
		"two touchpoints, cohort": {`{"id":"n","type":"touchpoint","webhook":"WEBHOOK","next":"again"},` + again + `}`, "again", 120},
		"branch first":            {`{"id":"n","type":"branch","cases":[{"when":"lead.name == 'Ada'"}],"otherwise":"again"},` + again + `}`, "again", 1},
		"then a delay":            {`{"id":"n","type":"touchpoint","webhook":"WEBHOOK","next":"again"},` + again + `,"next":"wait"},{"id":"wait","type":"delay","for":"1h"}`, "wait", 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			other, err := w.store.CreateWebhook(t.Context(), scope, waypost.Webhook{
				Name: "other", URL: w.receiver.server.URL, TimeoutMs: waypost.DefaultTimeoutMs, Retry: waypost.DefaultRetry(), Enabled: true,
			})
			must(t, err)
			v := w.publish(`{"name":"J","start":"n","nodes":[` + strings.ReplaceAll(c.nodes, "OTHER", other.ID) + `]}`)
			w.enroll(v, c.leads)
			in := w.claim()
			node, hook := in.Node, in.Webhook
			w.env.OnUpsertTypedSearchAttributes(mock.MatchedBy(func(a temporal.SearchAttributes) bool {
				if changed, ok := a.GetKeyword(workflows.AttrNode); ok {
					node = changed
				}
				if changed, ok := a.GetKeyword(workflows.AttrWebhook); ok {
					hook = changed
				}
				return true
			})).Return(nil)
			w.env.ExecuteWorkflow(workflows.TypeJourney, in)
			must(t, w.env.GetWorkflowError())
			if node != c.node || hook != other.ID {
				t.Errorf("WaypostNode is %s and WaypostWebhook %s, want %s and %s", node, hook, c.node, other.ID)
			}
		})
	}
}

// Attempts are local activities, in launches as well, unless they take time: then a
// regular one waits. Whatever runs, each attempt is one POST.
func TestAttemptsAreLocal(t *testing.T) {
	t.Parallel()
	const local, regular = "local", "regular"
	for name, c := range map[string]struct {
		failures int32 // of the database
		refusals int   // by the receiver
		soon     bool  // are the retries due
		slow     bool  // the receiver succeeds when a regular activity waits for it
		leads    int
		launch   bool
		twice    bool     // another touchpoint comes right after it
		runs     []string // nil: what a large batch runs as depends on the machine; see TestLargeBatchesAreLocal
		posts    int
	}{
		"quick":                      {leads: 1, runs: []string{local}, posts: 1},
		"slow":                       {slow: true, leads: 1, runs: []string{local, regular}, posts: 1},
		"several":                    {leads: 5, runs: []string{local}, posts: 5},
		"several, slow":              {slow: true, leads: 5, runs: []string{local, regular}, posts: 5},
		"refused twice":              {refusals: 2, leads: 1, runs: []string{local, local, local}, posts: 3},
		"refused once, then slow":    {refusals: 1, slow: true, leads: 1, runs: []string{local, local, regular}, posts: 2},
		"refused twice, due soon":    {refusals: 2, soon: true, leads: 1, runs: []string{local, regular, regular}, posts: 3},
		"no database once":           {failures: 1, leads: 1, runs: []string{local, local}, posts: 1},
		"no database":                {failures: 3, leads: 1, runs: []string{local, local, regular, regular}, posts: 1},
		"launch":                     {leads: 5, launch: true, runs: []string{local}, posts: 5},
		"launch, slow":               {slow: true, leads: 5, launch: true, runs: []string{local, regular}, posts: 5},
		"launch, refused twice":      {refusals: 2, leads: 5, launch: true, runs: []string{local, local, local}, posts: 15},
		"launch, two batches":        {leads: 101, launch: true, posts: 101},
		"launch, two batches, again": {refusals: 1, leads: 101, launch: true, posts: 202},
		"two touchpoints":            {twice: true, leads: 1, runs: []string{local, local}, posts: 2},
		"two, refused":               {twice: true, refusals: 1, leads: 1, runs: []string{local, local, local, local}, posts: 4},
		"two, slow":                  {twice: true, slow: true, leads: 1, runs: []string{local, regular, local}, posts: 2},
		"launch, two touchpoints":    {twice: true, leads: 5, launch: true, runs: []string{local, local}, posts: 10},
		"launch, refused, then slow": {refusals: 1, slow: true, leads: 5, launch: true, runs: []string{local, local, regular}, posts: 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(hook *waypost.Webhook) {
				if c.soon {
					hook.Retry.Schedule = []waypost.Duration{waypost.Duration(100 * time.Millisecond)}
				}
			})
			nodes, messages := `{"id":"hello","type":"touchpoint","webhook":"WEBHOOK"}`, c.leads
			if c.twice {
				nodes, messages = `{"id":"hello","type":"touchpoint","webhook":"WEBHOOK","next":"again"},{"id":"again","type":"touchpoint","webhook":"WEBHOOK"}`, 2*c.leads
			}
			v := w.publish(`{"name":"J","start":"hello","nodes":[` + nodes + `]}`)
			var ids []string
			if c.launch {
				ids = w.launched(v, c.leads)
			} else {
				for _, e := range w.enroll(v, c.leads) {
					ids = append(ids, e.ID)
				}
			}
			if c.slow {
				w.patience = time.Second
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
				if attempt <= c.refusals {
					return answer{status: http.StatusServiceUnavailable}
				}
				if c.slow {
					<-waits
				}
				return answer{status: http.StatusOK}
			}
			w.run()
			mu.Lock()
			defer mu.Unlock()
			if c.runs != nil && !slices.Equal(runs, c.runs) {
				t.Errorf("DeliverBatch ran %q, want %q", runs, c.runs)
			}
			posts := 0
			for _, bodies := range w.receiver.posts {
				posts += len(bodies)
			}
			if posts != c.posts || len(w.receiver.posts) != messages {
				t.Errorf("%d POSTs of %d messages, want %d of %d", posts, len(w.receiver.posts), c.posts, messages)
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

// A launch's touchpoints go out in local activities of up to 100, side by side, and come
// again in those. The activity that answers here takes no time: a real one is left to a
// regular one on a machine that is too slow for it.
func TestLargeBatchesAreLocal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	cohort := waypost.Cohort{ID: "coh_1", LaunchID: "lch_1", Version: w.publish(oneTouchpoint)}
	for i := range int64(200) {
		cohort.Members = append(cohort.Members, waypost.CohortMember{EnrollmentID: fmt.Sprint("enr_", i), LeadsID: i})
	}
	in, _, err := workflows.InputOf(cohort)
	must(t, err)
	begin := w.env.Now()
	var mu sync.Mutex
	var runs []string
	w.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		t.Errorf("%s is a regular activity", info.ActivityType.Name)
	})
	w.env.OnActivity(w.acts.RecordBatch, mock.Anything, mock.Anything).Return(nil)
	w.env.OnActivity(w.acts.DeliverBatch, mock.Anything, mock.Anything).Return(func(_ context.Context, b delivery.Batch) ([]delivery.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		runs = append(runs, fmt.Sprint(len(b.Items)))
		results := make([]delivery.Result, len(b.Items))
		for i, item := range b.Items {
			results[i] = delivery.Result{EnrollmentID: item.EnrollmentID, LeadsID: item.LeadsID, Outcome: delivery.OutcomeDelivered, Attempt: 2, At: begin}
			if item.Unsent {
				results[i].Outcome, results[i].Attempt, results[i].Next = delivery.OutcomeRetrying, 1, begin.Add(time.Minute)
			}
		}
		return results, nil
	})
	w.env.ExecuteWorkflow(workflows.TypeJourney, in)
	must(t, w.env.GetWorkflowError())
	if want := []string{"100", "100", "100", "100"}; !slices.Equal(runs, want) {
		t.Errorf("batches of %q, want %q", runs, want)
	}
}

// heldStore keeps the attempts of a journey from being opened until it is released.
type heldStore struct {
	*store.Store
	journey string
	holds   chan struct{} // tells of each that waits
	release chan struct{}
}

func (s heldStore) OpenAttempts(ctx context.Context, openings []delivery.Opening) (map[waypost.Touchpoint]delivery.Sending, error) {
	if openings[0].Delivery.JourneyID == s.journey {
		s.holds <- struct{}{}
		<-s.release
	}
	return s.Store.OpenAttempts(ctx, openings)
}

// Where other batches keep one from opening its attempts, a workflow task does not wait for
// them: a regular activity does, and nothing is sent twice.
func TestLocalBatchWaitsForNoOther(t *testing.T) {
	t.Parallel()
	const definition = `{"name":"J","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":"WEBHOOK"}]}`
	w := newWorld(t, nil)
	w.patience = 10 * time.Millisecond
	w.newEnvironmentAt(time.Now())
	others, ours := w.publish(definition), w.publish(definition)
	held := heldStore{w.store, others.JourneyID, make(chan struct{}), make(chan struct{})}
	w.registerWith(held)
	var taken sync.WaitGroup
	release := sync.OnceFunc(func() { close(held.release) })
	defer release()
	enroll := func(v waypost.JourneyVersion, lead int64) waypost.Enrollment {
		e, err := w.store.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: v.JourneyID, Version: v.Version, LeadsID: lead, AppID: "app_test"}, waypost.Reentry{Policy: waypost.ReentryAlways})
		must(t, err)
		return e
	}
	leads := w.leads(4*runtime.GOMAXPROCS(0) + 5)
	for pair := range slices.Chunk(leads[5:], 2) {
		batch := delivery.Batch{Scope: scope, JourneyID: others.JourneyID, Version: others.Version, NodeID: "hello", Coalesce: true}
		for _, l := range pair {
			batch.Items = append(batch.Items, delivery.Item{
				EnrollmentID: enroll(others, l).ID, LeadsID: l, State: journey.State{Node: "hello", Phase: journey.PhaseSend, Visit: 1, Seq: 1}, Unsent: true,
			})
		}
		taken.Go(func() {
			var suite testsuite.WorkflowTestSuite
			suite.SetLogger(slog.New(slog.DiscardHandler))
			env := suite.NewTestActivityEnvironment()
			env.SetDataConverter(w.dataConverter())
			env.RegisterActivity(w.acts.DeliverBatch)
			if _, err := env.ExecuteActivity(w.acts.DeliverBatch, batch); err != nil {
				t.Error(err)
			}
		})
		<-held.holds
	}
	for { // those of the others are claimed
		cohort, err := storetest.ClaimCohort(t.Context(), w.store)
		must(t, err)
		if cohort == nil {
			break
		}
	}
	var enrolled []waypost.Enrollment
	for _, l := range leads[:5] {
		enrolled = append(enrolled, enroll(ours, l))
	}
	var runs []string
	w.env.SetOnLocalActivityStartedListener(func(info *activity.Info, _ context.Context, _ []any) {
		runs = append(runs, "local "+info.ActivityType.Name)
	})
	w.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, args converter.EncodedValues) {
		runs = append(runs, info.ActivityType.Name)
		var batch delivery.Batch
		if err := args.Get(&batch); err != nil || batch.Items[0].Unsent {
			t.Errorf("the local activity has not answered: %+v, %v", batch, err)
		}
		release()
	})
	w.run()
	taken.Wait()
	if want := []string{"local DeliverBatch", "DeliverBatch"}; !slices.Equal(runs, want) {
		t.Errorf("activities ran %q, want %q", runs, want)
	}
	for _, e := range enrolled {
		if _, attempts := w.delivery(e, "hello"); len(attempts) != 1 {
			t.Errorf("%d attempts are recorded, want 1", len(attempts))
		}
	}
}

// slowWebhook is known to take its time.
type slowWebhook struct{}

func (slowWebhook) Admit(_ context.Context, _ waypost.Webhook, n int) (int, string, time.Duration) {
	return n, "", 0
}
func (slowWebhook) Done(string, int)              {}
func (slowWebhook) PostTime(string) time.Duration { return time.Hour }

// A batch to a receiver that is known to be slow is sent by the activity that waits for
// the answers: in another process it could not.
func TestSlowBatchIsNotSentLocally(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.admit = slowWebhook{}
	w.newEnvironmentAt(time.Now())
	w.register()
	enrolled := w.enroll(w.publish(`{"name":"J","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":"WEBHOOK"}]}`), 5)
	var runs []string
	w.env.SetOnLocalActivityStartedListener(func(info *activity.Info, _ context.Context, _ []any) {
		runs = append(runs, "local "+info.ActivityType.Name)
	})
	w.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		runs = append(runs, info.ActivityType.Name)
		for _, e := range enrolled {
			if all, err := w.store.ListDeliveries(t.Context(), scope, waypost.DeliveryFilter{EnrollmentID: e.ID}, waypost.Page{Limit: 1}); err != nil || len(all) > 0 {
				t.Errorf("the local activity has begun %+v, %v", all, err)
			}
		}
	})
	w.run()
	if want := []string{"local DeliverBatch", "DeliverBatch"}; !slices.Equal(runs, want) {
		t.Errorf("activities ran %q, want %q", runs, want)
	}
	for _, e := range enrolled {
		if _, attempts := w.delivery(e, "hello"); len(attempts) != 1 {
			t.Errorf("%d attempts are recorded, want 1", len(attempts))
		}
	}
}

// The messages of a cohort's first touchpoint may have been sent before its workflow was
// started: its first batch looks for them, the next ones need not.
func TestSentAhead(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.newEnvironmentAt(time.Now())
	w.register()
	enrolled := w.enroll(w.publish(`{"name":"J","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":"WEBHOOK","next":"thanks"},{"id":"thanks","type":"touchpoint","webhook":"WEBHOOK"}]}`), 3)
	cohort, err := storetest.ClaimCohort(t.Context(), w.store)
	must(t, err)
	if !w.engine.SendAhead(t.Context(), *cohort, true) {
		t.Fatal("nothing was sent ahead")
	}
	w.next = cohort
	looks := map[string]bool{}
	note := func(b delivery.Batch) {
		for _, item := range b.Items {
			looks[b.NodeID] = looks[b.NodeID] || item.Ahead
		}
	}
	w.env.SetOnLocalActivityStartedListener(func(_ *activity.Info, _ context.Context, args []any) {
		for _, arg := range args {
			if b, ok := arg.(delivery.Batch); ok {
				note(b)
			}
		}
	})
	w.env.SetOnActivityStartedListener(func(_ *activity.Info, _ context.Context, args converter.EncodedValues) {
		var b delivery.Batch
		must(t, args.Get(&b))
		note(b)
	})
	w.run()
	if len(looks) != 2 || !looks["hello"] || looks["thanks"] {
		t.Errorf("of messages that were sent ahead the batches of %v were told", looks)
	}
	if len(w.receiver.posts) != 2*len(enrolled) {
		t.Errorf("%d messages were sent, want %d", len(w.receiver.posts), 2*len(enrolled))
	}
	for _, e := range enrolled {
		for _, node := range []string{"hello", "thanks"} {
			if d, attempts := w.delivery(e, node); d.Status != waypost.DeliverySucceeded || len(attempts) != 1 {
				t.Errorf("%s is %s after %d attempts", node, d.Status, len(attempts))
			}
		}
	}
}
