package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"waypost"
	"waypost/devstack/harness"
)

// Histories of a real launch with retries, a pause, signals for events and runs
// that continue as new replay, all of them.
func TestHistoriesOfLaunch(t *testing.T) {
	t.Parallel()
	const keys = "test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		if attempt == 1 && m.UserProfile.AffID[len(m.UserProfile.AffID)-1] == '3' {
			return harness.Answer{Status: http.StatusServiceUnavailable}
		}
		return harness.Answer{Status: http.StatusOK}
	})
	p := harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--no-demo"},
		"WAYPOST_ENCRYPTION_KEYS="+keys, harness.HistoryEvents+"=25")
	journeyID := p.Publish(t, r.URL, `{"name":"History","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":%q,"next":"wait"},
		{"id":"wait","type":"delay","for":"3s","next":"bought"},
		{"id":"bought","type":"waitForEvent","event":"purchase","when":"event.amount > 10","timeout":"8s","next":"check","onTimeout":"end"},
		{"id":"check","type":"branch","cases":[{"when":"touchpoints.hello.attempts > 1","next":"thanks"}],"otherwise":"end"},
		{"id":"thanks","type":"touchpoint","webhook":%[1]q},
		{"id":"end","type":"exit"}]}`)
	const leads = 120
	ids := makeLeads(t, p, leads)
	single := p.Enroll(t, journeyID, 1)[0]
	var l struct{ LaunchID, Status string }
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{"audience": map[string]any{"leadsIds": ids}}, &l)

	temporal := dialWith(t, p, keys)
	harness.Eventually(t, time.Minute, func() (bool, string) {
		return len(p.Records(t, journeyID)) > leads, "not everybody was sent the first message"
	})
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/pause", nil, nil)
	time.Sleep(4 * time.Second) // beyond the delay, so that workflows find out and are held
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/resume", map[string]any{"elapsedDelays": "skip"}, nil)
	for i, id := range ids[:leads/2] {
		p.Do(t, http.MethodPost, "/v1/events", map[string]any{
			"eventId": fmt.Sprint("evt-", i), "name": "purchase", "leadsId": id, "properties": map[string]any{"amount": i},
		}, nil)
	}
	p.AwaitEnd(t, single, time.Minute)
	awaitLaunch(t, p, l.LaunchID, time.Minute)

	ring := ringOf(t, keys)
	list := listed(t, temporal, fmt.Sprintf("WaypostJourney=%q", journeyID))
	signals, again := 0, 0
	for _, e := range list {
		h := readRun(t, temporal, ring, e.Execution.WorkflowId, e.Execution.RunId)
		replay(t, h)
		for _, event := range h.Events {
			switch event.EventType {
			case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED:
				signals++
			case enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW:
				again++
			}
		}
		name := "cohort-pause-event"
		switch e.Execution.WorkflowId {
		case single:
			name = "single-pause-event"
		case l.LaunchID:
			name = "launch-audience"
		}
		keepHistory(t, name, h)
	}
	if signals == 0 || again == 0 {
		t.Errorf("%d runs hold %d signals and continue as new %d times: they show nothing", len(list), signals, again)
	}
	for _, d := range r.Disagreements(p.Records(t, journeyID)) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}
	t.Logf("%d runs, %d signals, %d continued as new", len(list), signals, again)
}
