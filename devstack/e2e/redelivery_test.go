package e2e

import (
	"context"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"

	"waypost"
	"waypost/app"
	"waypost/config"
	"waypost/devstack/harness"
	"waypost/store"
	"waypost/store/storetest"
	"waypost/workflows"
)

// openStore opens the database that processes work on.
func openStore(t *testing.T, env []string) *store.Store {
	t.Helper()
	cfg, _, err := config.Load(config.RoleWorker, env)
	if err != nil {
		t.Fatal(err)
	}
	db, err := app.OpenStore(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return db
}

// demoScope is what a process' client works in: its application's organisation, and
// the stage of requests that name none.
var demoScope = waypost.Scope{Org: "demo", Stage: waypost.StageRelease}

// awaitRedelivery asks for a bulk redelivery until ok says yes.
func awaitRedelivery(t *testing.T, db *store.Store, sc waypost.Scope, id string, ok func(waypost.Redelivery) bool) (r waypost.Redelivery) {
	t.Helper()
	harness.Eventually(t, launchTime, func() (bool, string) {
		var err error
		r, err = db.Redelivery(context.WithoutCancel(t.Context()), sc, id)
		return err == nil && ok(r), fmt.Sprintf("the redelivery is %+v, %v", r, err)
	})
	return r
}

// oneOf is one in n of all messages, always the same ones.
func oneOf(n uint32, messageID string) bool {
	h := fnv.New32a()
	fmt.Fprint(h, messageID)
	return h.Sum32()%n == 0
}

// Every message of a launch has failed; they are redelivered in bulk while workers
// and gateways are killed: each is redelivered once, and the ledger agrees with the
// records message by message.
func TestScaleRedeliveryUnderKills(t *testing.T) {
	harness.Besides(t)
	redeliveryUnderKills(t)
}

// The same on PostgreSQL.
func TestScaleRedeliveryUnderKillsOnPostgres(t *testing.T) {
	harness.Besides(t)
	redeliveryUnderKills(t, "WAYPOST_DATABASE_URL="+storetest.PostgresURL(t))
}

func redeliveryUnderKills(t *testing.T, env ...string) {
	t.Helper()
	n := harness.Scaled(300, 10_000)
	f := harness.StartFleet(t, 2, 2, env...)
	f.MakeLeads(t, 51, n)
	var again atomic.Bool // the receiver takes messages now
	var arrived atomic.Int32
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		switch {
		case !again.Load():
			return harness.Answer{Status: http.StatusNotFound}
		case oneOf(50, m.MessageID):
			arrived.Add(1)
			return harness.Answer{Status: http.StatusBadRequest}
		case oneOf(7, m.MessageID) && attempt == 2:
			arrived.Add(1)
			return harness.Answer{Status: http.StatusServiceUnavailable}
		}
		// Slow enough that each kill finds POSTs under way.
		return harness.Answer{Status: http.StatusOK, After: time.Duration(50+arrived.Add(1)%8*25) * time.Millisecond}
	})
	journeyID := f.Publish(t, r.URL, `{"name":"Again","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%q}]}`)
	db := openStore(t, f.Env)
	sc := demoScope
	var l harness.Launched
	f.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{"audience": map[string]any{"filter": map[string]any{"leadsGroup": 51}}}, &l)
	l = f.AwaitLaunch(t, l.ID, launchTime, "completed", func(l harness.Launched) bool { return l.Status == waypost.LaunchCompleted })
	if want := (waypost.OutcomeCounts{Failed: n}); l.Outcomes != want {
		t.Fatalf("the launch's outcomes are %+v", l.Outcomes)
	}
	first := f.Records(t, journeyID)
	before := f.Enrollments(t, first)

	again.Store(true)
	began := time.Now()
	bulk, err := db.CreateRedelivery(t.Context(), sc, waypost.DeliveryFilter{LaunchID: l.ID}, "app_test")
	if err != nil {
		t.Fatal(err)
	}
	seed := rand.Uint64()
	random := rand.New(rand.NewPCG(seed, 0))
	for _, share := range []int{5, 2} {
		harness.Eventually(t, launchTime, func() (bool, string) {
			return int(arrived.Load()) >= n/share, fmt.Sprintf("%d POSTs have arrived", arrived.Load())
		})
		t.Logf("after %.1f s and %d POSTs a worker and a gateway are killed (seed %d)", time.Since(began).Seconds(), arrived.Load(), seed)
		f.KillOne(t, config.RoleWorker, random, nil)
		f.KillOne(t, config.RoleGateway, random, nil)
	}
	bulk = awaitRedelivery(t, db, sc, bulk.ID, func(r waypost.Redelivery) bool { return r.Status.Ended() })
	t.Logf("%d messages in %.1f s: %+v", n, time.Since(began).Seconds(), bulk)

	refused, interrupted := 0, 0
	for _, rec := range f.Records(t, journeyID) {
		want := waypost.DeliverySucceeded
		if oneOf(50, rec.MessageID) {
			want = waypost.DeliveryFailed
			refused++
		}
		if rec.Status != want {
			t.Errorf("%s is %s, want %s", rec.MessageID, rec.Status, want)
		}
		cut, rounds := 0, map[int]int{}
		for _, a := range rec.AttemptLog {
			rounds[a.Round]++
			if a.ErrorClass == waypost.ClassInterrupted {
				cut++
			}
		}
		interrupted += cut
		// In its round a message is sent until it is taken; whoever was killed in the
		// middle may have sent it once more.
		attempts := 1
		if want == waypost.DeliverySucceeded && oneOf(7, rec.MessageID) {
			attempts = 2
		}
		if len(rounds) != 2 || rounds[2] > attempts+cut || rounds[2] < 1 || cut == 0 && rounds[2] != attempts {
			t.Errorf("%s has attempts %+v", rec.MessageID, rec.AttemptLog)
		}
		taken := 0
		for _, a := range r.Received(rec.MessageID) {
			if a.Delivered() {
				taken++
			}
		}
		if want == waypost.DeliverySucceeded && (taken < 1 || taken > 1+cut) {
			t.Errorf("%s was taken %d times, %d attempts of it were interrupted", rec.MessageID, taken, cut)
		}
	}
	t.Logf("%d attempts were interrupted", interrupted)
	if bulk.Status != waypost.RedeliveryCompleted || bulk.Total != n || bulk.Redelivered != n || bulk.Skipped != 0 ||
		bulk.Succeeded != n-refused || bulk.Failed != refused || bulk.Canceled != 0 {
		t.Errorf("the redelivery counts %+v, want %d with %d failed", bulk, n, refused)
	}
	records := f.Records(t, journeyID)
	if len(records) != n {
		t.Errorf("%d deliveries are recorded, want %d", len(records), n)
	}
	for _, d := range r.Disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
	after := f.Enrollments(t, records)
	for lead, e := range before {
		if !reflect.DeepEqual(e.Enrollment, after[lead].Enrollment) {
			t.Errorf("the enrollment was %+v and is %+v", e.Enrollment, after[lead].Enrollment)
		}
	}
}

// Histories of real redeliveries replay, hold nothing personal, and say in the Web UI
// what came of the messages: of a single one, of a batch that was held back, told to
// go on, retried and continued as new, of one that was canceled, and of one whose
// workflow an operator has canceled.
func TestHistoriesOfRedeliveries(t *testing.T) {
	t.Parallel()
	const keys = "test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	var status atomic.Int32 // what the receiver answers; 0 is busy for some at first
	status.Store(http.StatusNotFound)
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		if s := status.Load(); s != 0 {
			return harness.Answer{Status: int(s)}
		}
		if oneOf(3, m.MessageID) && attempt <= 3 {
			return harness.Answer{Status: http.StatusServiceUnavailable}
		}
		return harness.Answer{Status: http.StatusOK}
	})
	p := harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+keys, harness.HistoryEvents+"=25")
	journeyID := p.Publish(t, r.URL, `{"name":"History","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%q}]}`)
	ids := p.Enroll(t, journeyID, 40)
	for _, id := range ids {
		p.AwaitEnd(t, id, time.Minute)
	}
	records := p.Records(t, journeyID)
	db := openStore(t, p.RoleSettings(t))
	sc := demoScope
	d, _, _, err := db.Delivery(t.Context(), sc, records[0].MessageID)
	if err != nil {
		t.Fatal(err)
	}
	hook := d.WebhookID
	enable := func(yes bool) {
		p.Do(t, http.MethodPatch, "/v1/webhooks/"+hook, map[string]any{"enabled": yes}, nil)
	}
	temporal := dialWith(t, p, keys)
	ring := ringOf(t, keys)
	seen := map[string]bool{} // runs
	// found waits until n workflows of redeliveries that were not there before are
	// found, and returns one.
	found := func(query string) string {
		var id string
		harness.Eventually(t, time.Minute, func() (bool, string) {
			page, err := temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{
				Namespace: "default", Query: fmt.Sprintf("WorkflowType=%q AND WaypostWebhook=%q", workflows.TypeRedelivery, hook) + query,
			})
			if err != nil {
				return false, err.Error()
			}
			for _, e := range page.Executions {
				if !seen[e.Execution.WorkflowId] {
					id = e.Execution.WorkflowId
				}
			}
			return id != "", "no workflow is found by " + query
		})
		seen[id] = true
		return id
	}
	bulk := func() waypost.Redelivery {
		b, err := db.CreateRedelivery(t.Context(), sc, waypost.DeliveryFilter{JourneyID: journeyID}, "app_test")
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	show := func(name, id string, last enumspb.EventType) {
		t.Helper()
		_ = temporal.GetWorkflow(t.Context(), id, "").Get(t.Context(), nil) // it has ended, however it did
		list := listed(t, temporal, fmt.Sprintf("WorkflowId=%q", id))
		var end *historypb.HistoryEvent
		for i, e := range list { // the latest run first
			h := readRun(t, temporal, ring, id, e.Execution.RunId)
			replay(t, h)
			impersonal(t, h)
			if n := haveTurns(t, h, "RedeliverBatch"); n == 0 && strings.HasPrefix(name, "redelivery-single") {
				t.Errorf("%s: nothing was redelivered", name)
			}
			if i == 0 {
				end = h.Events[len(h.Events)-1]
			}
			keepHistory(t, name, h)
		}
		if end == nil || end.EventType != last {
			t.Errorf("%s: the history ends with %v", name, end)
		}
		if name == "redelivery-batch" && len(list) < 2 {
			t.Errorf("%s: it did not continue as new", name)
		}
	}

	status.Store(0)
	enable(false)
	if _, err := db.Redeliver(t.Context(), sc, records[0].MessageID); err != nil {
		t.Fatal(err)
	}
	single := found(` AND WaypostOutcome="deferred"`)
	b := bulk()
	batch := found(fmt.Sprintf(` AND WaypostOutcome="deferred" AND WaypostJourney=%q`, journeyID))
	enable(true)
	b = awaitRedelivery(t, db, sc, b.ID, func(r waypost.Redelivery) bool { return r.Status.Ended() })
	if b.Succeeded != len(ids)-1 || b.Total != len(ids)-1 {
		t.Errorf("the redelivery is %+v", b)
	}
	show("redelivery-single", single, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)
	show("redelivery-batch", batch, enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED)

	status.Store(http.StatusServiceUnavailable)
	for _, name := range []string{"redelivery-canceled", "redelivery-operator-canceled"} {
		b, err := db.CreateRedelivery(t.Context(), sc, waypost.DeliveryFilter{JourneyID: journeyID, Statuses: []waypost.DeliveryStatus{map[bool]waypost.DeliveryStatus{
			true: waypost.DeliverySucceeded, false: waypost.DeliveryCanceled}[name == "redelivery-canceled"]}}, "app_test")
		if err != nil {
			t.Fatal(err)
		}
		id := found(` AND WaypostOutcome="retrying"`)
		last := enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_COMPLETED
		if name == "redelivery-canceled" {
			_, err = db.CancelRedelivery(t.Context(), sc, b.ID)
		} else {
			err = temporal.CancelWorkflow(t.Context(), id, "")
			last = enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CANCELED
		}
		if err != nil {
			t.Fatal(err)
		}
		show(name, id, last)
		b = awaitRedelivery(t, db, sc, b.ID, func(r waypost.Redelivery) bool { return r.Canceled == len(ids) })
		if b.EndedAt == nil {
			t.Errorf("the redelivery is %+v", b)
		}
	}
	for _, id := range ids {
		if e := p.AwaitEnd(t, id, time.Minute); e.Status != waypost.EnrollmentCompleted || len(e.Timeline) > 4 {
			t.Errorf("the enrollment is %+v", e)
		}
	}
}

// impersonal looks for what must not stand in a history.
func impersonal(t *testing.T, h *historypb.History) {
	t.Helper()
	err := proxy.VisitPayloads(t.Context(), h, proxy.VisitPayloadsOptions{
		Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
			for _, payload := range payloads {
				for _, personal := range []string{`"Ada"`, "http://", "userProfile"} {
					if strings.Contains(string(payload.Data), personal) {
						t.Errorf("the history holds %s: %s", personal, payload.Data)
					}
				}
			}
			return payloads, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
}
