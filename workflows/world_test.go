package workflows_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	sdkworker "go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/activities"
	"waypost/delivery"
	"waypost/journey"
	"waypost/store"
	"waypost/store/storetest"
	"waypost/webhook"
	"waypost/worker"
	"waypost/workflows"
)

var scope = waypost.Scope{Org: "acme", Stage: waypost.StageTest}

// world is everything around a Journey workflow for real, save the clock, which
// is the test environment's: a database, the sender, and a receiver.
type world struct {
	t        *testing.T
	env      *testsuite.TestWorkflowEnvironment
	store    *store.Store
	receiver *receiver
	webhook  waypost.Webhook
	keys     *waypost.Keyring
	noticed  int // notices
	woken    atomic.Int32
	skew     time.Duration   // of the worker's clock
	patience time.Duration   // of local activities, a minute if zero
	next     *waypost.Cohort // to run, instead of one that is claimed
	engine   *delivery.Engine
	acts     *activities.Activities
	admit    delivery.Admission // everybody if nil
}

func newWorld(t *testing.T, change func(*waypost.Webhook)) *world {
	t.Helper()
	w := &world{t: t, receiver: newReceiver(t)}
	keys, err := waypost.ParseKeyring("k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	must(t, err)
	w.keys = keys
	w.newEnvironment()
	w.store, err = store.Open(context.Background(), storetest.SQLiteURL(t), keys, func() time.Time { return w.env.Now() })
	must(t, err)
	w.store.SetGoals(journey.NewGoals())
	w.store.SetEntrances(journey.NewEntrances())
	t.Cleanup(func() { must(t, w.store.Close()) })

	hook := waypost.Webhook{
		Name: "crm", URL: w.receiver.server.URL + "/hook", Params: map[string]any{"greeting": "Hi {{ lead.name }}"},
		TimeoutMs: waypost.DefaultTimeoutMs, Retry: waypost.DefaultRetry(), Enabled: true,
	}
	if change != nil {
		change(&hook)
	}
	w.webhook, err = w.store.CreateWebhook(context.Background(), scope, hook)
	must(t, err)
	w.register()
	return w
}

// newEnvironment makes a new workflow environment; its clock goes on where the
// one before stopped.
func (w *world) newEnvironment() {
	at := time.Date(2026, 3, 1, 8, 0, 0, 0, time.UTC)
	if w.env != nil {
		at = w.env.Now()
	}
	w.newEnvironmentAt(at)
}

func (w *world) newEnvironmentAt(at time.Time) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(slog.New(slog.DiscardHandler))
	w.env = suite.NewTestWorkflowEnvironment()
	w.env.SetStartTime(at)
	w.env.SetTestTimeout(5 * time.Minute)
	// A machine that stands still for a second is no deadlock.
	w.env.SetWorkerOptions(sdkworker.Options{DeadlockDetectionTimeout: time.Minute})
	// Payloads pass the codec, as they do in production.
	w.env.SetDataConverter(w.dataConverter())
}

func (w *world) dataConverter() converter.DataConverter {
	return workflows.NewDataConverter(w.keys)
}

func (w *world) register() {
	w.t.Helper()
	w.registerWith(w.store)
}

// database is what a worker needs of it.
type database interface {
	delivery.Store
	activities.Store
}

func (w *world) registerWith(s database) {
	w.t.Helper()
	sender := webhook.NewSender(webhook.Options{
		AllowCIDRs: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")},
		Now:        func() time.Time { return w.env.Now() },
	})
	w.t.Cleanup(sender.Close)
	now, log := func() time.Time { return w.env.Now().Add(w.skew) }, slog.New(slog.DiscardHandler)
	w.engine = delivery.New(delivery.Options{
		Store: s, Sender: sender, Log: log, Now: now,
		Wake: func() { w.woken.Add(1) }, Admission: w.admit,
		// A machine that stands still is no slow receiver.
		Stragglers: time.Minute, LocalPatience: cmp.Or(w.patience, time.Minute),
	})
	w.acts = activities.New(activities.Options{Engine: w.engine, Store: s, Log: log, Now: now, Wake: func() { w.woken.Add(1) }})
	engine := w.engine
	w.t.Cleanup(func() { must(w.t, engine.Close(context.Background())) })
	worker.Register(w.env, w.acts)
}

// publish stores and publishes a definition whose webhook is written WEBHOOK.
func (w *world) publish(definition string) waypost.JourneyVersion {
	w.t.Helper()
	ctx := context.Background()
	definition = strings.ReplaceAll(definition, "WEBHOOK", w.webhook.ID)
	def, problems := journey.Parse([]byte(definition))
	problems = append(problems, def.Check(func(id string) bool { return waypost.IsID(waypost.PrefixWebhook, id) }, nil)...)
	must(w.t, problems.Err("definition"))
	j, err := w.store.CreateJourney(ctx, scope, def.Name(), def.Canonical())
	must(w.t, err)
	v, err := w.store.PublishJourney(ctx, scope, j.ID, waypost.Publication{Name: def.Name(), Hash: def.Hash(), Definition: def.Canonical(), Webhooks: def.Webhooks(), Entry: def.EntryRules()})
	must(w.t, err)
	return v
}

// enroll makes n leads and enrolls them.
func (w *world) enroll(v waypost.JourneyVersion, n int) []waypost.Enrollment {
	w.t.Helper()
	ctx := context.Background()
	all := make([]waypost.Enrollment, n)
	for i := range all {
		external := fmt.Sprintf("ext-%d", i)
		lead, err := w.store.CreateLead(ctx, scope, waypost.LeadFields{Name: fmt.Sprintf("Lead %d", i), ExternalID: &external}, nil)
		must(w.t, err)
		all[i], err = w.store.Enroll(ctx, scope, waypost.Enrollment{
			JourneyID: v.JourneyID, Version: v.Version, LeadsID: lead.LeadsID, AppID: "app_test",
		}, waypost.Reentry{Policy: waypost.ReentryAfterExit})
		must(w.t, err)
	}
	return all
}

// run claims the cohort as the pump does and runs its workflow to the end.
func (w *world) run() workflows.JourneyResult {
	w.t.Helper()
	w.env.ExecuteWorkflow(workflows.TypeJourney, w.claim())
	must(w.t, w.env.GetWorkflowError())
	var result workflows.JourneyResult
	must(w.t, w.env.GetWorkflowResult(&result))
	return result
}

// runInPieces runs the workflow of a claimed cohort to the end, which continues as new
// whenever something has happened, and returns the number of runs. plan is called before each.
func (w *world) runInPieces(plan func()) (runs int) {
	w.t.Helper()
	in := w.claim()
	for runs = 1; runs <= 100; runs++ {
		again := func() { w.env.SetContinueAsNewSuggested(true) }
		w.env.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) { again() })
		w.env.SetOnLocalActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) { again() })
		w.env.SetOnTimerFiredListener(func(string) { again() })
		plan()
		w.env.ExecuteWorkflow(workflows.TypeJourney, in)
		next, continues := errors.AsType[*workflow.ContinueAsNewError](w.env.GetWorkflowError())
		if !continues {
			must(w.t, w.env.GetWorkflowError())
			return runs
		}
		in = workflows.JourneyInput{}
		must(w.t, w.dataConverter().FromPayloads(next.Input, &in))
		w.newEnvironment()
		w.register()
	}
	w.t.Fatal("the workflow never ends")
	return runs
}

func (w *world) claim() workflows.JourneyInput {
	w.t.Helper()
	cohort, err := w.next, error(nil)
	if w.next = nil; cohort == nil {
		cohort, err = storetest.ClaimCohort(context.Background(), w.store)
	}
	must(w.t, err)
	if cohort == nil {
		w.t.Fatal("there is no cohort to claim")
	}
	must(w.t, w.store.MarkStarted(context.Background(), cohort.ID))
	in, _, err := workflows.InputOf(*cohort)
	must(w.t, err)
	return in
}

// delivery returns the records of an enrollment's only message at a node.
func (w *world) delivery(e waypost.Enrollment, node string) (waypost.Delivery, []waypost.Attempt) {
	w.t.Helper()
	all, err := w.store.ListDeliveries(context.Background(), scope, waypost.DeliveryFilter{EnrollmentID: e.ID}, waypost.Page{Limit: 500})
	must(w.t, err)
	for _, d := range all {
		if d.NodeID == node {
			d, attempts, _, err := w.store.Delivery(context.Background(), scope, d.MessageID)
			must(w.t, err)
			return d, attempts
		}
	}
	w.t.Fatalf("enrollment %s has no delivery at %s", e.ID, node)
	return waypost.Delivery{}, nil
}

// timeline writes an enrollment's timeline as "node what next" lines.
func (w *world) timeline(e waypost.Enrollment) (status waypost.EnrollmentStatus, lines []string) {
	w.t.Helper()
	e, entries, err := w.store.Enrollment(context.Background(), scope, e.ID)
	must(w.t, err)
	for _, entry := range entries {
		lines = append(lines, strings.TrimSpace(entry.NodeID+" "+entry.What+" "+entry.Next))
	}
	return e.Status, lines
}

// answer is what the receiver says to one POST.
type answer struct {
	status int
	body   string
	header map[string]string
}

// receiver answers by a script and remembers every POST.
type receiver struct {
	server *httptest.Server
	mu     sync.Mutex
	script func(m waypost.Message, attempt int) answer
	posts  map[string][][]byte // by message id
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{posts: map[string][][]byte{}, script: func(waypost.Message, int) answer { return answer{status: 200} }}
	r.server = httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		var m waypost.Message
		if err := json.Unmarshal(body, &m); err != nil {
			t.Errorf("the receiver got no message: %s", body)
		}
		r.mu.Lock()
		r.posts[m.MessageID] = append(r.posts[m.MessageID], body)
		a := r.script(m, len(r.posts[m.MessageID]))
		r.mu.Unlock()
		for name, value := range a.header {
			rw.Header().Set(name, value)
		}
		rw.WriteHeader(a.status)
		_, _ = io.WriteString(rw, a.body)
	}))
	t.Cleanup(r.server.Close)
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
