package e2e

import (
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"waypost"
	"waypost/devstack/harness"
	"waypost/workflows"
)

// recurring is a launch as the API answers it.
type recurring struct {
	LaunchID    string               `json:"launchId"`
	Status      waypost.LaunchStatus `json:"status"`
	Version     int                  `json:"version"`
	Total       int                  `json:"total"`
	Enrolled    int                  `json:"enrolled"`
	Skipped     int                  `json:"skipped"`
	HeldOut     int                  `json:"heldOut"`
	Completed   int                  `json:"completed"`
	RecurringID string               `json:"recurringId"`
	Schedule    struct {
		NextAt      *time.Time `json:"nextAt"`
		Occurrences int        `json:"occurrences"`
		LastSkipped *struct {
			Reason waypost.SkipReason `json:"reason"`
		} `json:"lastSkipped"`
	} `json:"schedule"`
}

// everyLead is a launch for all leads that recurs.
func everyLead(cron, timezone string, more map[string]any) map[string]any {
	body := map[string]any{
		"audience": map[string]any{"filter": map[string]any{}}, "schedule": map[string]any{"cron": cron, "timezone": timezone},
	}
	for name, value := range more {
		body[name] = value
	}
	return body
}

// makeLeads makes n leads, and returns their numbers.
func makeLeads(t *testing.T, p *harness.Process, n int) []int64 {
	t.Helper()
	ids := make([]int64, n)
	for i := range ids {
		var lead struct{ LeadsID int64 }
		p.Do(t, http.MethodPost, "/v1/leads", map[string]any{"businessParam": map[string]any{"name": "Ada"}}, &lead)
		ids[i] = lead.LeadsID
	}
	return ids
}

// awaitLaunch waits until a launch is completed.
func awaitLaunch(t *testing.T, p *harness.Process, id string, within time.Duration) {
	t.Helper()
	var l struct{ Status waypost.LaunchStatus }
	harness.Eventually(t, within, func() (bool, string) {
		p.Do(t, http.MethodGet, "/v1/launches/"+id, nil, &l)
		return l.Status == waypost.LaunchCompleted, "the launch is " + string(l.Status)
	})
}

// awaitRecurring asks for a launch until it is as wanted.
func awaitRecurring(t *testing.T, p *harness.Process, id, what string, want func(recurring) bool) (l recurring) {
	t.Helper()
	harness.Eventually(t, time.Minute, func() (bool, string) {
		l = recurring{}
		err := p.Client.Do(t.Context(), http.MethodGet, "/v1/launches/"+id, nil, &l)
		return err == nil && want(l), fmt.Sprintf("not %s: %+v, %v", what, l, err)
	})
	return l
}

const scheduleKeys = "test:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY="

// dialTemporal reads what is encrypted with scheduleKeys.
func dialTemporal(t *testing.T, p *harness.Process) client.Client {
	t.Helper()
	return dialWith(t, p, scheduleKeys)
}

// dialWith reads what is encrypted with these keys.
func dialWith(t *testing.T, p *harness.Process, keys string) client.Client {
	t.Helper()
	c, err := client.Dial(client.Options{HostPort: p.Profile.TemporalAddress, DataConverter: workflows.NewDataConverter(ringOf(t, keys))})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func ringOf(t *testing.T, keys string) *waypost.Keyring {
	t.Helper()
	ring, err := waypost.ParseKeyring(keys)
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// listed returns the workflows that a query finds, up to 1,000, the newest first.
// Temporal lists what changes a little later, and in the order in which it changed:
// when a workflow that has just been started is listed, everything before it is.
func listed(t *testing.T, temporal client.Client, query string) []*workflowpb.WorkflowExecutionInfo {
	t.Helper()
	list := func(query string) []*workflowpb.WorkflowExecutionInfo {
		page, err := temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default", Query: query, PageSize: 1000})
		if err != nil {
			t.Fatal(err)
		}
		return page.Executions
	}
	last := "listed-" + rand.Text()
	if _, err := temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: last, TaskQueue: nobody}, "Listed"); err != nil {
		t.Fatal(err)
	}
	harness.Eventually(t, time.Minute, func() (bool, string) {
		return len(list(fmt.Sprintf("WorkflowId=%q", last))) == 1, "a workflow that was started is not listed"
	})
	if err := temporal.TerminateWorkflow(t.Context(), last, "", "it was only to be listed"); err != nil {
		t.Fatal(err)
	}
	return list(query)
}

// nobody is a task queue without workers.
const nobody = "nobody"

// scheduleOf waits until the launch's Schedule exists.
func scheduleOf(t *testing.T, temporal client.Client, id string) client.ScheduleHandle {
	t.Helper()
	schedule := temporal.ScheduleClient().GetHandle(t.Context(), id)
	harness.Eventually(t, time.Minute, func() (bool, string) {
		_, err := schedule.Describe(t.Context())
		return err == nil, fmt.Sprintf("the schedule of %s: %v", id, err)
	})
	return schedule
}

// A recurring launch opens an occurrence each time that its Schedule fires, once,
// though the process is killed right then; each has the leads and the version of its
// time, and the control group stays the same. What fires in a pause is skipped, and a
// cancel deletes the Schedule.
func TestRecurringLaunch(t *testing.T) {
	t.Parallel()
	const keys = scheduleKeys
	const share = 0.3
	r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer { return harness.Answer{Status: http.StatusOK} })
	dir := filepath.Join(t.TempDir(), "data")
	p := harness.StartProcess(t, dir, []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+keys)
	journeyID := p.Publish(t, r.URL, `{"name":"Monthly","start":"hello","reentry":{"policy":"never"},"nodes":[{"id":"hello","type":"touchpoint","webhook":%q}]}`)
	heldOut := func(leads []int64) (n int) {
		for _, lead := range leads {
			if waypost.HeldOut(journeyID, lead, share) {
				n++
			}
		}
		return n
	}
	leads := makeLeads(t, p, 40)
	var l recurring
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", everyLead("0 0 1 1 *", "Asia/Shanghai", map[string]any{"controlGroup": share}), &l)
	if l.Status != waypost.LaunchScheduled || l.Schedule.NextAt == nil {
		t.Fatalf("created %+v", l)
	}
	temporal := dialTemporal(t, p)
	fire := client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL}
	if err := scheduleOf(t, temporal, l.LaunchID).Trigger(t.Context(), fire); err != nil {
		t.Fatal(err)
	}
	p.Kill9(t)
	p = harness.StartProcess(t, dir, []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+keys)
	temporal = dialTemporal(t, p)
	first := len(leads) - heldOut(leads)
	got := awaitRecurring(t, p, l.LaunchID, "through its first occurrence", func(l recurring) bool { return l.Completed == first })
	if got.Total != len(leads) || got.Enrolled != first || got.HeldOut != heldOut(leads) || got.Skipped != 0 || got.Schedule.Occurrences != 1 || got.Status != waypost.LaunchScheduled {
		t.Errorf("after the first occurrence %+v", got)
	}

	// More leads and a new version, and the second time.
	more := makeLeads(t, p, 10)
	var j struct {
		Draft map[string]any `json:"draft"`
	}
	p.Do(t, http.MethodGet, "/v1/journeys/"+journeyID, nil, &j)
	j.Draft["name"] = "Monthly, again"
	p.Do(t, http.MethodPut, "/v1/journeys/"+journeyID, j.Draft, nil)
	p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/publish", nil, nil)
	time.Sleep(time.Second) // a Schedule's times are whole seconds
	schedule := scheduleOf(t, temporal, l.LaunchID)
	if err := schedule.Trigger(t.Context(), fire); err != nil {
		t.Fatal(err)
	}
	all := append(more, leads...)
	both := len(all) - heldOut(all)
	got = awaitRecurring(t, p, l.LaunchID, "through its second occurrence", func(l recurring) bool { return l.Completed == both })
	// Nobody enters twice, into the control group either.
	if got.Total != 2*len(leads)+len(more) || got.HeldOut != heldOut(all) || got.Skipped != len(leads) || got.Schedule.Occurrences != 2 {
		t.Errorf("after the second occurrence %+v", got)
	}
	var list struct{ Items []recurring }
	p.Do(t, http.MethodGet, "/v1/launches?recurringId="+l.LaunchID, nil, &list)
	if len(list.Items) != 2 || list.Items[0].Version != 2 || list.Items[1].Version != 1 || list.Items[0].RecurringID != l.LaunchID || list.Items[0].Status != waypost.LaunchCompleted {
		t.Errorf("occurrences %+v", list.Items)
	}
	records := p.Records(t, journeyID)
	if len(records) != both {
		t.Errorf("%d deliveries are recorded, want %d", len(records), both)
	}
	for _, d := range r.Disagreements(records) {
		t.Errorf("the ledger and the records disagree: %s", d)
	}

	// A pause, and the end.
	p.Do(t, http.MethodPost, "/v1/launches/"+l.LaunchID+"/pause", nil, nil)
	time.Sleep(time.Second)
	if err := schedule.Trigger(t.Context(), fire); err != nil {
		t.Fatal(err)
	}
	awaitRecurring(t, p, l.LaunchID, "skipped", func(l recurring) bool {
		return l.Schedule.LastSkipped != nil && l.Schedule.LastSkipped.Reason == waypost.SkipPaused && l.Schedule.Occurrences == 2
	})
	ring := ringOf(t, keys)
	query := fmt.Sprintf("WaypostJourney=%q AND WorkflowType=\"LaunchOccurrence\" AND ExecutionStatus=\"Completed\"", journeyID)
	var runs []string
	harness.Eventually(t, time.Minute, func() (bool, string) {
		found, err := temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Namespace: "default", Query: query})
		runs = nil
		for _, e := range found.GetExecutions() {
			runs = append(runs, e.Execution.WorkflowId)
		}
		return err == nil && len(runs) == 3, fmt.Sprintf("%v by %s: %v", runs, query, err)
	})
	for i, id := range runs { // newest first
		h := readHistory(t, temporal, ring, id)
		replay(t, h)
		if i < 2 {
			keepHistory(t, []string{"launch-occurrence-skipped", "launch-occurrence-opened"}[i], h)
		}
	}
	p.Do(t, http.MethodPost, "/v1/launches/"+l.LaunchID+"/cancel", nil, nil)
	harness.Eventually(t, time.Minute, func() (bool, string) {
		_, err := schedule.Describe(t.Context())
		return errors.As(err, new(*serviceerror.NotFound)), fmt.Sprintf("the schedule of a canceled launch: %v", err)
	})
}

// Temporal's Schedule fires at the times that Waypost tells and checks, days of either
// kind and changes of clocks included.
func TestSchedulesAgree(t *testing.T) {
	t.Parallel()
	r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer { return harness.Answer{Status: http.StatusOK} })
	p := harness.StartProcess(t, filepath.Join(t.TempDir(), "data"), []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+scheduleKeys)
	journeyID := p.Publish(t, r.URL, `{"name":"Often","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%q}]}`)
	c := dialTemporal(t, p)
	year := time.Now().Year() + 1
	spring, autumn := time.Date(year, 3, 1, 0, 0, 0, 0, time.UTC), time.Date(year, 10, 20, 0, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		cron, timezone string
		startAt        time.Time
	}{
		{"0 9 * * MON-fri", "Asia/Shanghai", time.Time{}},
		{"*/20 8-9 1,15 * *", "UTC", time.Time{}},
		{"0 0 13 * fri", "UTC", time.Time{}},
		{"@weekly", "America/New_York", time.Time{}},
		{"30 2 */2 * ?", "America/New_York", spring},
		{"30 2 * * *", "Europe/Berlin", autumn},
		{"15,45 1-3 * 3,11 sun", "America/New_York", spring},
		{"15,45 1-3 * 3,11 sun", "America/New_York", autumn},
		{"0 0 29 2 *", "UTC", time.Time{}},
		{"30 9 * * *", "UTC", spring.Add(9*time.Hour + 30*time.Minute)},
		{"0 9 * * 7", "America/Santiago", time.Date(year, 9, 1, 0, 0, 0, 0, time.UTC)},
		{"0 9 * * sun", "America/Havana", spring},
		{"0 0 * * *", "Atlantic/Azores", time.Date(year, 3, 24, 0, 0, 0, 0, time.UTC)},
		{"30 2 25-31 10 *", "Europe/Berlin", autumn},
		{"30 1 * * *", "Europe/London", time.Date(year, 3, 24, 0, 0, 0, 0, time.UTC)},
		{"30 1 * * *", "Europe/London", autumn},
		{"15,45 1-2 1-7 4,10 *", "Australia/Lord_Howe", spring},
		{"15,45 1-2 1-7 10 *", "Australia/Lord_Howe", time.Date(year, 9, 1, 0, 0, 0, 0, time.UTC)},
		{"0 9 * * mon#1", "UTC", time.Time{}},
	} {
		after := time.Now()
		var more map[string]any
		if !tt.startAt.IsZero() {
			after = tt.startAt.Add(-1)
			more = map[string]any{"startAt": tt.startAt.Format(time.RFC3339)}
		}
		var l recurring
		p.Do(t, http.MethodPost, "/v1/journeys/"+journeyID+"/launches", everyLead(tt.cron, tt.timezone, more), &l)
		described, err := scheduleOf(t, c, l.LaunchID).Describe(t.Context())
		if err != nil || len(described.Info.NextActionTimes) == 0 {
			t.Fatalf("%s: %+v, %v", tt.cron, described, err)
		}
		next := after
		for i, at := range described.Info.NextActionTimes {
			next = waypost.Schedule{Cron: tt.cron, Timezone: tt.timezone}.Next(next)
			if !at.Equal(next) || i == 0 && (l.Schedule.NextAt == nil || !at.Equal(*l.Schedule.NextAt)) {
				t.Errorf("%s in %s: Temporal has %s, Waypost %s and at first %v", tt.cron, tt.timezone, at, next, l.Schedule.NextAt)
			}
		}
	}
}
