package workflows_test

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/mock"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"

	"waypost"
	"waypost/activities"
	"waypost/delivery"
	"waypost/store"
	"waypost/webhook"
	"waypost/worker"
	"waypost/workflows"
)

// registerEngine registers activities that deliver as options say.
func registerEngine(w *world, o delivery.Options, s activities.Store) {
	o.Log = slog.New(slog.DiscardHandler)
	engine := delivery.New(o)
	w.t.Cleanup(func() { _ = engine.Close(context.Background()) })
	worker.Register(w.env, activities.New(activities.Options{Engine: engine, Store: s, Log: o.Log, Now: o.Now}))
}

// A worker whose clock is behind the server's does not spin until it has caught
// up, and one that is ahead sends as well.
func TestClockSkew(t *testing.T) {
	t.Parallel()
	for _, skew := range []time.Duration{-time.Minute, -3 * time.Second, 3 * time.Second} {
		t.Run(skew.String(), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.newEnvironment()
			now := func() time.Time { return w.env.Now().Add(skew) }
			sender := webhook.NewSender(webhook.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, Now: now})
			t.Cleanup(sender.Close)
			registerEngine(w, delivery.Options{Store: w.store, Sender: sender, Now: now}, w.store)
			w.receiver.script = func(_ waypost.Message, attempt int) answer {
				if attempt <= 2 {
					return answer{status: 503}
				}
				return answer{status: 200}
			}
			e := w.enroll(w.publish(oneTouchpoint), 1)[0]
			batches := 0
			w.env.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) {
				if batches++; batches == 100 {
					t.Error("spins")
					w.env.CancelWorkflow()
					return
				}
			})
			w.env.ExecuteWorkflow(workflows.TypeJourney, w.claim())
			if err := w.env.GetWorkflowError(); err != nil {
				t.Fatalf("%v after %d batches", err, batches)
			}
			if d, attempts := w.delivery(e, "hello"); d.Status != waypost.DeliverySucceeded || len(attempts) != 3 || batches > 6 {
				t.Errorf("%s, %d attempts in %d batches", d.Status, len(attempts), batches)
			}
		})
	}
}

// A worker that cannot make sense of an answer fails the task, which is tried
// again after a fix, and not the workflow, which would lose its members.
func TestStrangeAnswerFailsTheTask(t *testing.T) {
	t.Parallel()
	for name, deliveries := range map[string][]delivery.Result{
		"too few":    {},
		"unreadable": nil,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.enroll(w.publish(oneTouchpoint), 1)
			if deliveries != nil {
				w.env.OnActivity("DeliverBatch", mock.Anything, mock.Anything).Return(deliveries, nil)
			} else {
				w.env.OnActivity("DeliverBatch", mock.Anything, mock.Anything).Return(nil, temporal.NewNonRetryableApplicationError("result too large", "x", nil))
			}
			w.env.ExecuteWorkflow(workflows.TypeJourney, w.claim())
			err := w.env.GetWorkflowError()
			var panicked *temporal.PanicError
			if !errors.As(err, &panicked) {
				t.Errorf("the workflow failed for good: %v", err)
			}
		})
	}
}

// A run of rules that this build does not know is left to one that does: the task fails,
// which is tried again, and nothing else happens.
func TestUnknownRulesFailTheTask(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]int{"newer": 1, "none": -1} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.enroll(w.publish(oneTouchpoint), 1)
			in := w.claim()
			in.Rules += change
			w.env.ExecuteWorkflow(workflows.TypeJourney, in)
			var panicked *temporal.PanicError
			if err := w.env.GetWorkflowError(); !errors.As(err, &panicked) || !strings.Contains(err.Error(), "this build knows") {
				t.Errorf("it ended with %v", err)
			}
			if len(w.receiver.posts) != 0 {
				t.Errorf("%d messages were sent", len(w.receiver.posts))
			}
		})
	}
}

// Whatever an organisation is called, its enrollments can be started: Temporal
// takes fairness keys of up to 64 bytes.
func TestFairnessKeyFits(t *testing.T) {
	t.Parallel()
	org := strings.Repeat("组", 64)
	if err := (&waypost.Application{Org: org, Name: "x"}).Validate(); err != nil && strings.Contains(err.Error(), "org") {
		t.Fatal(err)
	}
	if key := workflows.RedeliveryPriority(&workflows.RedeliveryInput{Scope: waypost.Scope{Org: org}}).FairnessKey; len(key) > 64 {
		t.Errorf("key of %d bytes", len(key))
	}
}

// awayStore is a database that refuses to tell of controls for a while.
type awayStore struct {
	*store.Store
	until func() bool
	asked *atomic.Int32
}

func (s awayStore) Controls(ctx context.Context, of waypost.ControlTargets) (map[string]waypost.Controls, error) {
	if s.asked.Add(1); !s.until() {
		return nil, errors.New("the database is away")
	}
	return s.Store.Controls(ctx, of)
}

// While the database is away, what only asks it waits as a regular activity does:
// the workflow task ends, and nothing is lost.
func TestDatabaseAwayDuringLooks(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	v := w.publish(`{"name":"J","start":"wait","nodes":[
		{"id":"wait","type":"delay","for":"1h","next":"check"},
		{"id":"check","type":"branch","cases":[{"when":"lead.name == 'Lead 0'","next":"hello"}]},
		{"id":"hello","type":"touchpoint","webhook":"WEBHOOK"}]}`)
	e := w.enroll(v, 1)[0]
	begin := w.env.Now()
	w.newEnvironment()
	var asked atomic.Int32
	sender := webhook.NewSender(webhook.Options{AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}})
	t.Cleanup(sender.Close)
	db := awayStore{w.store, func() bool { return w.env.Now().Sub(begin) > 62*time.Minute }, &asked}
	registerEngine(w, delivery.Options{Store: db, Sender: sender, Now: func() time.Time { return w.env.Now() }}, db)
	regular := 0
	w.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) {
		if info.ActivityType.Name == "LookBatch" {
			regular++
		}
	})
	w.run()
	if status, timeline := w.timeline(e); status != waypost.EnrollmentCompleted || len(w.receiver.posts) != 1 {
		t.Errorf("%s by way of %q, %d messages", status, timeline, len(w.receiver.posts))
	}
	if elapsed := w.env.Now().Sub(begin); elapsed < 62*time.Minute || elapsed > 64*time.Minute {
		t.Errorf("it went on %s after the start", elapsed)
	}
	if regular == 0 || asked.Load() < 3 {
		t.Errorf("%d regular looks, %d questions: the test shows nothing", regular, asked.Load())
	}
}
