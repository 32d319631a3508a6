package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"

	"waypost"
	"waypost/devstack/harness"
)

// A journey with waitUntil, split and enroll on waypost-dev, for one lead and for
// cohorts that are paused on the way: what happened stands in the timelines, the
// other journey's enrollments run once each, and the histories replay and hold no
// personal data.
func TestHistoriesOfNodes(t *testing.T) {
	t.Parallel()
	const keys = "test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		if attempt == 1 && m.UserProfile.AffID[len(m.UserProfile.AffID)-1] == '3' {
			return harness.Answer{Status: http.StatusServiceUnavailable}
		}
		return harness.Answer{Status: http.StatusOK}
	})
	p := harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+keys, harness.HistoryEvents+"=25")
	next := p.Publish(t, r.URL, `{"name":"Next","start":"welcome","nodes":[{"id":"welcome","type":"touchpoint","webhook":%q}]}`)
	journeyID := p.Publish(t, r.URL, strings.ReplaceAll(`{"name":"History","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":%q,"next":"date"},
		{"id":"date","type":"waitUntil","lead":"customFields.date","offset":"-1h","next":"arms","onMissed":"arms"},
		{"id":"arms","type":"split","arms":[{"weight":1,"next":"on"},{"weight":1,"next":"twice"}]},
		{"id":"twice","type":"enroll","journey":"NEXT","next":"on"},
		{"id":"on","type":"enroll","journey":"NEXT","next":"thanks"},
		{"id":"thanks","type":"touchpoint","webhook":%[1]q}]}`, "NEXT", next))
	const leads = 60
	ids := make([]int64, leads)
	harness.Parallel(leads, func(i int) {
		var lead struct{ LeadsID int64 }
		p.Do(t, http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{"name": "Ada"}}, &lead)
		ids[i] = lead.LeadsID
	})
	reached := time.Now().Add(8 * time.Second).Truncate(time.Second)
	date := reached.Add(time.Hour).UTC().Format(time.RFC3339)
	harness.Parallel(leads, func(i int) {
		if i%5 > 0 {
			p.Do(t, http.MethodPatch, fmt.Sprint("/v1/leads/", ids[i]), map[string]any{"businessParam": map[string]any{"customFields": map[string]any{"date": date}}}, nil)
		}
	})
	var single struct{ EnrollmentID string }
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/enrollments", map[string]any{"leadsId": ids[1]}, &single)
	var l struct{ LaunchID, Status string }
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{"audience": map[string]any{"leadsIds": ids}}, &l)
	harness.Eventually(t, launchTime, func() (bool, string) {
		return len(p.Records(t, journeyID)) >= leads, "not everybody was sent the first message"
	})
	p.Do(t, http.MethodPost, "/v1/launches/"+l.LaunchID+"/pause", nil, nil)
	harness.Eventually(t, launchTime, func() (bool, string) {
		return time.Since(reached) > time.Second, "the time that is waited for has not come"
	})
	p.Do(t, http.MethodPost, "/v1/launches/"+l.LaunchID+"/resume", map[string]any{"elapsedDelays": "shift"}, nil)

	e := p.AwaitEnd(t, single.EnrollmentID, time.Minute)
	said := map[string]string{}
	for _, entry := range e.Timeline {
		said[entry.NodeID+" "+entry.What] = entry.Reason
	}
	if !strings.HasPrefix(said["date entered"], "customFields.date -1h; until ") || !strings.HasPrefix(said["arms took"], "arm ") || !strings.HasPrefix(said["on took"], "enrolled: enr_") && !strings.HasPrefix(said["twice took"], "enrolled: enr_") {
		t.Errorf("the timeline says %v", said)
	}
	awaitLaunch(t, p, l.LaunchID, launchTime)
	harness.Eventually(t, launchTime, func() (bool, string) {
		sent := p.Records(t, next)
		for _, d := range sent {
			if d.Status != waypost.DeliverySucceeded {
				return false, fmt.Sprintf("message %s of the other journey is %s", d.MessageID, d.Status)
			}
		}
		// One lead is in the journey twice. Whether it enters the other one twice depends
		// on how soon that ends.
		return len(sent) >= leads, fmt.Sprintf("%d messages of the other journey were delivered", len(sent))
	})
	for _, d := range r.Disagreements(append(p.Records(t, journeyID), p.Records(t, next)...)) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}

	temporal := dialWith(t, p, keys)
	ring := ringOf(t, keys)
	list := listed(t, temporal, fmt.Sprintf("WaypostJourney=%q", journeyID))
	again, signals := 0, 0
	for _, e := range list {
		id := e.Execution.WorkflowId
		h := readRun(t, temporal, ring, id, e.Execution.RunId)
		replay(t, h)
		impersonal(t, h)
		if h.Events[len(h.Events)-1].EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_CONTINUED_AS_NEW {
			again++
		}
		for _, event := range h.Events {
			if event.EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_SIGNALED {
				signals++
			}
		}
		switch id {
		case single.EnrollmentID:
			keepHistory(t, "single-until-split-enroll", h)
		case l.LaunchID:
		default:
			keepHistory(t, "cohort-until-split-enroll", h)
		}
	}
	if again == 0 || signals == 0 {
		t.Errorf("%d runs hold %d signals and continue as new %d times: they show nothing", len(list), signals, again)
	}
}

// Killed in the middle of it, twice, a launch whose journey enrolls in another one
// enrolls each lead there exactly once.
func TestEnrollKilled(t *testing.T) {
	t.Parallel()
	r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer { return harness.Answer{Status: http.StatusOK} })
	dir := filepath.Join(t.TempDir(), "data")
	p := harness.StartProcess(t, dir, []string{"--no-demo"})
	next := p.Publish(t, r.URL, `{"name":"Next","start":"welcome","reentry":{"policy":"always"},"nodes":[{"id":"welcome","type":"touchpoint","webhook":%q}]}`)
	journeyID := p.Publish(t, r.URL, strings.ReplaceAll(`{"name":"First","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":%q,"next":"on"},
		{"id":"on","type":"enroll","journey":"NEXT","next":"more"},
		{"id":"more","type":"enroll","journey":"NEXT"}]}`, "NEXT", next))
	const leads = 240 // twice that many messages are one page
	ids := makeLeads(t, p, leads)
	var l struct{ LaunchID, Status string }
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{"audience": map[string]any{"leadsIds": ids}}, &l)
	for _, after := range []int{1, leads / 2} {
		seen := 0
		harness.Eventually(t, launchTime, func() (bool, string) {
			var page struct{ Items []struct{} }
			p.Do(t, http.MethodGet, "/v1/deliveries?limit=500&journeyId="+next, nil, &page)
			seen = len(page.Items)
			return seen >= after, fmt.Sprintf("%d messages of the other journey", seen)
		})
		p.Kill9(t)
		t.Logf("killed with %d of %d messages of the other journey", seen, 2*leads)
		p = harness.StartProcess(t, dir, []string{"--no-demo"})
	}
	awaitLaunch(t, p, l.LaunchID, launchTime)
	harness.Eventually(t, launchTime, func() (bool, string) {
		sent := p.Records(t, next)
		done := 0
		for _, d := range sent {
			if d.Status == waypost.DeliverySucceeded {
				done++
			}
		}
		return done == len(sent) && done >= 2*leads, fmt.Sprintf("%d of %d messages of the other journey were delivered", done, len(sent))
	})
	perLead := map[int64]int{}
	for _, d := range p.Records(t, next) {
		perLead[d.LeadsID]++
	}
	for _, id := range ids {
		if perLead[id] != 2 {
			t.Errorf("lead %d was enrolled %d times, want 2", id, perLead[id])
		}
	}
}

// A journey that waits for one of several events, sets fields, emits events and waits for a
// condition, on waypost-dev that is killed twice meanwhile: each field is set once and each
// event stored once, and the histories replay and hold no personal data.
func TestHistoriesOfEffects(t *testing.T) {
	t.Parallel()
	const keys = "test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer { return harness.Answer{Status: http.StatusOK} })
	dir := filepath.Join(t.TempDir(), "data")
	options := []string{"WAYPOST_ENCRYPTION_KEYS=" + keys, harness.HistoryEvents + "=25"}
	p := harness.StartProcess(t, dir, []string{"--no-demo"}, options...)
	journeyID := p.Publish(t, r.URL, `{"name":"Effects","start":"either","nodes":[
		{"id":"either","type":"waitForEvent","timeout":"1h","onTimeout":"end","events":[{"event":"left","next":"end"},{"event":"came","when":"event.n > 0","next":"count"}]},
		{"id":"count","type":"updateLead","set":{"customFields.visits":"{{ lead.customFields.visits | default: 0 | plus: 1 }}"},"next":"tell","onFailure":"end"},
		{"id":"tell","type":"emit","event":"counted","properties":{"visits":"{{ lead.customFields.visits }}"},"next":"until"},
		{"id":"until","type":"waitFor","when":"lead.customFields.plan == 'pro'","timeout":"1h","next":"thanks"},
		{"id":"thanks","type":"touchpoint","webhook":%q},
		{"id":"end","type":"exit"}]}`)
	const leads = 60
	ids := makeLeads(t, p, leads)
	var single struct{ EnrollmentID string }
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/enrollments", map[string]any{"leadsId": ids[0]}, &single)
	var l struct{ LaunchID, Status string }
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{"audience": map[string]any{"leadsIds": ids[1:]}}, &l)
	harness.Eventually(t, launchTime, func() (bool, string) { // events from before do not count
		var page struct{ Items []struct{} }
		p.Do(t, http.MethodGet, "/v1/enrollments?status=waiting&limit=500&journeyId="+journeyID, nil, &page)
		return len(page.Items) == leads, fmt.Sprintf("%d of %d wait", len(page.Items), leads)
	})
	counted := func() (n int) {
		var page struct{ Items []struct{ LeadsID int64 } }
		p.Do(t, http.MethodGet, "/v1/events?name=counted&limit=500", nil, &page)
		return len(page.Items)
	}
	for _, half := range [][]int64{ids[:leads/2], ids[leads/2:]} {
		before := counted()
		harness.Parallel(len(half), func(i int) {
			p.Do(t, http.MethodPost, "/v1/events", map[string]any{"eventId": fmt.Sprint("came-", half[i]), "name": "came", "leadsId": half[i], "properties": map[string]any{"n": 1}}, nil)
		})
		harness.Eventually(t, launchTime, func() (bool, string) { return counted() > before, "no event was emitted" })
		p.Kill9(t)
		p = harness.StartProcess(t, dir, []string{"--no-demo"}, options...)
	}
	harness.Eventually(t, launchTime, func() (bool, string) {
		n := counted()
		return n == leads, fmt.Sprintf("%d of %d events were emitted", n, leads)
	})
	harness.Parallel(leads, func(i int) {
		p.Do(t, http.MethodPatch, fmt.Sprint("/v1/leads/", ids[i]), map[string]any{"businessParam": map[string]any{"customFields": map[string]any{"plan": "pro"}}}, nil)
	})
	e := p.AwaitEnd(t, single.EnrollmentID, launchTime)
	var what []string
	for _, entry := range e.Timeline {
		what = append(what, entry.NodeID+" "+entry.What)
	}
	if got := strings.Join(what, ", "); got != "either entered, either matched, count updated, tell emitted, until entered, until matched, thanks sent, thanks exited" {
		t.Errorf("the timeline says %s", got)
	}
	awaitLaunch(t, p, l.LaunchID, launchTime)
	for _, id := range ids {
		var lead struct{ CustomFields map[string]any }
		p.Do(t, http.MethodGet, fmt.Sprint("/v1/leads/", id), nil, &lead)
		if lead.CustomFields["visits"] != 1.0 {
			t.Errorf("lead %d has %v", id, lead.CustomFields)
		}
	}
	if n := counted(); n != leads {
		t.Errorf("%d events were emitted, of %d leads", n, leads)
	}
	for _, d := range r.Disagreements(p.Records(t, journeyID)) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}

	temporal := dialWith(t, p, keys)
	ring := ringOf(t, keys)
	for _, run := range listed(t, temporal, fmt.Sprintf("WaypostJourney=%q", journeyID)) {
		id := run.Execution.WorkflowId
		h := readRun(t, temporal, ring, id, run.Execution.RunId)
		replay(t, h)
		impersonal(t, h)
		switch id {
		case single.EnrollmentID:
			keepHistory(t, "single-effects", h)
		case l.LaunchID:
		default:
			keepHistory(t, "cohort-effects", h)
		}
	}
}
