package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	workflowpb "go.temporal.io/api/workflow/v1"

	"waypost"
	"waypost/devstack/harness"
	"waypost/workflows"
)

// Quiet hours, a frequency cap and an event to exit on on waypost-dev, for single
// leads and a cohort: who sleeps is held back, the third message of a day is
// skipped, and the event ends enrollments wherever they stand. The histories replay
// and hold no personal data.
func TestHistoriesOfLimits(t *testing.T) {
	t.Parallel()
	const keys = "test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="
	r := harness.NewReceiver(t, func(m waypost.Message, attempt int) harness.Answer {
		if attempt == 1 && m.UserProfile.AffID[len(m.UserProfile.AffID)-1] == '3' {
			return harness.Answer{Status: http.StatusServiceUnavailable}
		}
		return harness.Answer{Status: http.StatusOK}
	})
	p := harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+keys)
	ring := ringOf(t, keys)
	temporal := dialWith(t, p, keys)
	var journeyID string
	find := func(query string) []*workflowpb.WorkflowExecutionInfo {
		t.Helper()
		return listed(t, temporal, fmt.Sprintf("WaypostJourney=%q", journeyID)+query)
	}
	const awake = "Etc/GMT+12" // half a day away
	now := time.Now().UTC()
	journeyID = p.Publish(t, r.URL, fmt.Sprintf(`{"name":"Limits","start":"hello","exitOn":[{"event":"left"}],
		"frequencyCap":{"touchpoints":2,"per":"24h"},"quietHours":{"from":%q,"to":%q},"nodes":[
		{"id":"hello","type":"touchpoint","webhook":%%q,"next":"again"},
		{"id":"again","type":"touchpoint","webhook":%%[1]q,"next":"third"},
		{"id":"third","type":"touchpoint","webhook":%%[1]q,"next":"wait"},
		{"id":"wait","type":"delay","for":"1h"}]}`, now.Add(-time.Hour).Format("15:04"), now.Add(2*time.Hour).Format("15:04")))
	lead := func(zone string) int64 {
		var lead struct{ LeadsID int64 }
		p.Do(t, http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{"name": "Ada", "customFields": map[string]any{"timezone": zone}}}, &lead)
		return lead.LeadsID
	}
	const leads = 20
	ids := make([]int64, leads)
	for i := range ids {
		ids[i] = lead([]string{awake, "UTC"}[i%2])
	}
	sleeper, waker := lead("UTC"), lead(awake)
	// enroll waits for the workflow: two that come together could share one.
	enroll := func(id int64) string {
		var e struct {
			EnrollmentID string
			WorkflowID   *string
		}
		p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/enrollments", map[string]any{"leadsId": id}, &e)
		harness.Eventually(t, time.Minute, func() (bool, string) {
			p.Do(t, http.MethodGet, "/v1/enrollments/"+e.EnrollmentID, nil, &e)
			return e.WorkflowID != nil, "an enrollment is not started"
		})
		return e.EnrollmentID
	}
	left := func(id int64) {
		p.Do(t, http.MethodPost, "/v1/events", map[string]any{"eventId": fmt.Sprint("left-", id), "name": "left", "leadsId": id}, nil)
	}
	of := map[int64]string{sleeper: enroll(sleeper), waker: enroll(waker)}
	var l struct{ LaunchID, Status string }
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", map[string]any{"audience": map[string]any{"leadsIds": ids}}, &l)
	sent := func(want int) {
		t.Helper()
		harness.Eventually(t, time.Minute, func() (bool, string) {
			waits := 0
			for _, d := range p.Records(t, journeyID) {
				of[d.LeadsID] = d.EnrollmentID
			}
			for _, id := range append(slices.Clone(ids), waker, sleeper) {
				var e harness.Enrollment
				if of[id] != "" {
					p.Do(t, http.MethodGet, "/v1/enrollments/"+of[id], nil, &e)
				}
				if e.Status == waypost.EnrollmentWaiting {
					waits++
				}
			}
			return waits == want, fmt.Sprintf("%d of %d enrollments have come to the delay", waits, want)
		})
	}
	sent(leads/2 + 1)
	// Half of those who sleep leave, the other half awakes.
	left(sleeper)
	for i, id := range ids {
		switch i % 4 {
		case 1:
			left(id)
		case 3:
			p.Do(t, http.MethodPatch, fmt.Sprint("/v1/leads/", id), map[string]any{"businessParam": map[string]any{"customFields": map[string]any{"timezone": awake}}}, nil)
		}
	}
	// Instead of the morning: the workflow is told to look.
	for _, e := range find("") {
		if id := e.Execution.WorkflowId; e.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING && strings.HasPrefix(id, waypost.PrefixCohort) {
			if err := temporal.SignalWorkflow(t.Context(), id, "", workflows.SignalWake, workflows.Wake{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	sent(leads*3/4 + 1)
	left(waker)
	for _, id := range ids {
		left(id)
	}
	awaitLaunch(t, p, l.LaunchID, time.Minute)

	said := func(id int64) (lines []string) {
		for _, entry := range p.AwaitEnd(t, of[id], time.Minute).Timeline {
			reason := entry.Reason
			if entry.NodeID == "wait" && entry.What == waypost.WhatEntered {
				reason = ""
			}
			reason, _, _ = strings.Cut(reason, " until ")
			lines = append(lines, entry.NodeID+" "+entry.What+" "+reason)
		}
		return lines
	}
	passed := []string{"hello sent ", "again sent ", "third skipped frequencyCap", "wait entered ", "wait exited event left"}
	began := []string{"hello entered "}
	slept := append(slices.Clone(began), "hello deferred quietHours")
	for _, c := range []struct {
		lead int64
		want []string
	}{
		{waker, append(slices.Clone(began), passed...)}, {ids[0], append(slices.Clone(began), passed...)},
		{sleeper, append(slices.Clone(slept), "hello exited event left")}, {ids[1], append(slices.Clone(slept), "hello exited event left")},
		{ids[3], append(slices.Clone(slept), passed...)},
	} {
		if got := said(c.lead); !slices.Equal(got, c.want) {
			t.Errorf("the timeline says %q, want %q", got, c.want)
		}
	}
	records := p.Records(t, journeyID)
	if want := 2*(leads*3/4+1) + leads/4 + 1; len(records) != want {
		t.Errorf("%d deliveries, want %d", len(records), want)
	}
	for _, d := range r.Disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}

	harness.Eventually(t, time.Minute, func() (bool, string) {
		skipped, exited := len(find(` AND WaypostOutcome="skipped"`)), len(find(` AND WaypostOutcome="exited" AND ExecutionStatus="Completed"`))
		return skipped >= 2 && exited >= 3, fmt.Sprintf("%d workflows are found by skipped, %d ended ones by exited", skipped, exited)
	})
	for _, e := range find("") {
		id := e.Execution.WorkflowId
		h := readRun(t, temporal, ring, id, e.Execution.RunId)
		replay(t, h)
		impersonal(t, h)
		switch id {
		case of[sleeper]:
			keepHistory(t, "single-quiet-exit", h)
		case of[waker]:
			keepHistory(t, "single-cap-exit", h)
		case l.LaunchID:
		default:
			keepHistory(t, "cohort-quiet-cap-exit", h)
		}
	}
}
