package e2e

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/protobuf/encoding/protojson"

	"waypost"
	"waypost/devstack/harness"
	"waypost/workflows"
)

// updateHistories names an empty folder that real histories are written into, if it is
// set. They take the place of those in workflows/testdata/histories: until v1.0.0 all of
// them may be recorded anew. From then on new ones are added, and the others stay.
const updateHistories = "WAYPOST_TEST_WRITE_HISTORIES"

// Histories of a real server replay, and they say what the Web UI is to show:
// every failed attempt's result, and attributes to find them by.
func TestHistories(t *testing.T) {
	t.Parallel()
	const keys = "test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	var found atomic.Bool // by its retries: they last until then
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		// Every second lead's: if all first attempts of some seconds failed, the breaker would open.
		if !strings.Contains(m.JourneyInfo.ActionDefID, "/slow") && (attempt <= 2 || !found.Load()) && strings.IndexByte("13579", m.UserProfile.AffID[len(m.UserProfile.AffID)-1]) >= 0 {
			return harness.Answer{Status: http.StatusServiceUnavailable}
		}
		if strings.Contains(m.JourneyInfo.ActionDefID, "/slow") {
			return harness.Answer{Status: http.StatusOK, After: 150 * time.Millisecond}
		}
		if attempt > 1 { // longer than a workflow task waits
			return harness.Answer{Status: http.StatusOK, After: time.Second}
		}
		return harness.Answer{Status: http.StatusOK}
	})
	p := harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+keys)
	journeyID := p.Publish(t, r.URL, `{"name":"History","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":%q,"next":"wait","onFailure":"end"},
		{"id":"wait","type":"delay","for":"500ms","next":"check"},
		{"id":"check","type":"branch","cases":[{"when":"touchpoints.hello.attempts > 1","next":"thanks"}],"otherwise":"end"},
		{"id":"thanks","type":"touchpoint","webhook":%[1]q},
		{"id":"end","type":"exit"}]}`)

	temporal := dialWith(t, p, keys)

	single := p.Enroll(t, journeyID, 1)
	query := fmt.Sprintf("WaypostJourney=%q AND WaypostOutcome=\"retrying\"", journeyID)
	harness.Eventually(t, time.Minute, func() (bool, string) {
		count, err := temporal.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Namespace: "default", Query: query})
		return err == nil && count.Count == 1, fmt.Sprintf("no workflow is found by %s: %v", query, err)
	})
	found.Store(true)
	// Its only lead is due after more than five seconds, so that its workflow waits.
	var lead struct{ LeadsID int64 }
	p.Do(t, http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{"name": "Ada"}}, &lead)
	var paced struct{ LaunchID, Status string }
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{
		"audience": map[string]any{"leadsIds": []int64{lead.LeadsID}}, "ratePerSecond": 0.19,
	}, &paced)
	// One workflow drives all of these, in two batches at a time, through both touchpoints.
	wideID := p.Publish(t, r.URL, `{"name":"Wide","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":%q,"next":"again"},{"id":"again","type":"touchpoint","webhook":%[1]q}]}`)
	var wide struct{ LaunchID, Status string }
	p.Do(t, http.MethodPost, "/v1/journeys/"+wideID+"/launches", map[string]any{"audience": map[string]any{"leadsIds": makeLeads(t, p, 110)}}, &wide)
	// The later ones begin when their workflow task has taken long, and are no local activities.
	slow := p.Enroll(t, p.Publish(t, r.URL, `{"name":"Slow","start":"slow1","nodes":[
		{"id":"slow1","type":"touchpoint","webhook":%q,"next":"slow2"},{"id":"slow2","type":"touchpoint","webhook":%[1]q,"next":"slow3"},
		{"id":"slow3","type":"touchpoint","webhook":%[1]q,"next":"slow4"},{"id":"slow4","type":"touchpoint","webhook":%[1]q,"next":"slow5"},
		{"id":"slow5","type":"touchpoint","webhook":%[1]q,"next":"slow6"},{"id":"slow6","type":"touchpoint","webhook":%[1]q}]}`), 1)
	many := p.Enroll(t, journeyID, 60)
	for _, id := range slices.Concat(many, single, slow) {
		if e := p.AwaitEnd(t, id, time.Minute); e.Status != waypost.EnrollmentCompleted {
			t.Errorf("%s is %s", id, e.Status)
		}
	}

	awaitLaunch(t, p, paced.LaunchID, time.Minute)
	awaitLaunch(t, p, wide.LaunchID, time.Minute)

	ring := ringOf(t, keys)
	audience := readHistory(t, temporal, ring, paced.LaunchID)
	replay(t, audience)
	if !slices.ContainsFunc(audience.Events, func(e *historypb.HistoryEvent) bool { return e.EventType == enumspb.EVENT_TYPE_TIMER_FIRED }) {
		t.Error("the launch did not wait in its workflow")
	}
	open := listed(t, temporal, fmt.Sprintf("WaypostJourney=%q", journeyID))
	batches := 0
	for _, e := range open {
		h := readHistory(t, temporal, ring, e.Execution.WorkflowId)
		replay(t, h)
		batches += haveTurns(t, h, "DeliverBatch")
		kind := "cohort"
		if e.Execution.WorkflowId == single[0] {
			kind = "single"
		}
		if holds(h.Events[0], `"ahead":true`) {
			kind += "-ahead"
		}
		if e.Execution.WorkflowId != paced.LaunchID {
			keepHistory(t, kind+"-retry-delay-branch", h)
		}
	}
	if batches == 0 {
		t.Error("no batch waited in a task queue")
	}
	cohorts := listed(t, temporal, fmt.Sprintf("WaypostJourney=%q AND WorkflowType=%q", wideID, workflows.TypeJourney))
	if len(cohorts) != 1 {
		t.Fatalf("the launch has %d cohorts", len(cohorts))
	}
	together := readHistory(t, temporal, ring, cohorts[0].Execution.WorkflowId)
	replay(t, together)
	late := readHistory(t, temporal, ring, slow[0])
	replay(t, late)
	if haveTurns(t, late, "DeliverBatch") == 0 {
		t.Error("the task of six slow messages sent all of them")
	}
	t.Logf("%d workflows for %d enrollments", len(open), len(many)+1)
	keepHistory(t, "launch-low-rate", audience)
	keepHistory(t, "cohort-two-touchpoints", together)
	keepHistory(t, "single-slow-touchpoints", late)
}

// holds tells whether the input of the workflow that an event starts has a text.
func holds(started *historypb.HistoryEvent, text string) bool {
	return strings.Contains(string(started.GetWorkflowExecutionStartedEventAttributes().GetInput().GetPayloads()[0].Data), text)
}

// haveTurns counts the activities of a type, and finds that each has its webhook as its
// fairness key: those of one webhook do not wait behind another one's.
func haveTurns(t *testing.T, h *historypb.History, activity string) (n int) {
	t.Helper()
	for _, event := range h.Events {
		scheduled := event.GetActivityTaskScheduledEventAttributes()
		if scheduled.GetActivityType().GetName() != activity {
			continue
		}
		n++
		if key := scheduled.GetPriority().GetFairnessKey(); !waypost.IsID(waypost.PrefixWebhook, key) {
			t.Errorf("%s has the fairness key %q", activity, key)
		}
	}
	return n
}

// readHistory reads a workflow's history with its payloads in the clear.
func readHistory(t *testing.T, c client.Client, keys *waypost.Keyring, id string) *historypb.History {
	t.Helper()
	return readRun(t, c, keys, id, "")
}

// readRun reads the history of one run of a workflow.
func readRun(t *testing.T, c client.Client, keys *waypost.Keyring, id, run string) *historypb.History {
	t.Helper()
	h := &historypb.History{}
	for events := c.GetWorkflowHistory(t.Context(), id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		if err != nil {
			t.Fatal(err)
		}
		h.Events = append(h.Events, event)
	}
	codec, encrypted := workflows.NewCodec(keys), 0
	err := proxy.VisitPayloads(t.Context(), h, proxy.VisitPayloadsOptions{
		SkipSearchAttributes: true,
		Visitor: func(_ *proxy.VisitPayloadsContext, payloads []*commonpb.Payload) ([]*commonpb.Payload, error) {
			for _, payload := range payloads {
				if string(payload.Metadata["encoding"]) != "binary/encrypted" {
					t.Errorf("%s: a payload is not encrypted: %s", id, payload)
				}
				encrypted++
			}
			return codec.Decode(payloads)
		},
	})
	if err != nil || encrypted == 0 {
		t.Fatalf("%s: %d payloads decrypted, %v", id, encrypted, err)
	}
	return h
}

func replay(t *testing.T, h *historypb.History) {
	t.Helper()
	// A machine that stands still for a second is no deadlock.
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{DisableDeadlockDetection: true})
	if err != nil {
		t.Fatal(err)
	}
	replayer.RegisterWorkflowWithOptions(workflows.Journey, workflow.RegisterOptions{Name: workflows.TypeJourney})
	replayer.RegisterWorkflowWithOptions(workflows.Launch, workflow.RegisterOptions{Name: workflows.TypeLaunch})
	replayer.RegisterWorkflowWithOptions(workflows.LaunchOccurrence, workflow.RegisterOptions{Name: workflows.TypeLaunchOccurrence})
	replayer.RegisterWorkflowWithOptions(workflows.LeadImport, workflow.RegisterOptions{Name: workflows.TypeLeadImport})
	replayer.RegisterWorkflowWithOptions(workflows.Redelivery, workflow.RegisterOptions{Name: workflows.TypeRedelivery})
	if err := replayer.ReplayWorkflowHistory(nil, h); err != nil {
		t.Errorf("replay: %v", err)
	}
}

// keepHistory writes a history into the folder that updateHistories names, of those of one
// name the longest.
func keepHistory(t *testing.T, name string, h *historypb.History) {
	t.Helper()
	folder := os.Getenv(updateHistories)
	if folder == "" {
		return
	}
	if h.Events[0].GetWorkflowExecutionStartedEventAttributes().GetContinuedExecutionRunId() != "" {
		name += "-continued"
	}
	if h.Events[len(h.Events)-1].EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW {
		name += "-again"
	}
	b, err := protojson.MarshalOptions{Multiline: true, Indent: " "}.Marshal(h)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, name+".json")
	if kept, err := os.Stat(path); err == nil && kept.Size() >= int64(len(b)) {
		return
	}
	if err := os.WriteFile(path, b, 0o644); err != nil {
		t.Fatal(err)
	}
}
