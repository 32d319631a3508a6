package e2e

import (
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"waypost/devstack/harness"
)

// TestLaunchClock launches, once and by a schedule, to those who have done something, but not in the
// last seconds, and to those whose birthday is today: the launches reach whom a count names, though
// the process is killed in between.
func TestLaunchClock(t *testing.T) {
	t.Parallel()
	const keys = "WAYPOST_ENCRYPTION_KEYS=" + scheduleKeys
	dir := filepath.Join(t.TempDir(), "data")
	p := harness.StartProcess(t, dir, []string{"--no-demo"}, keys)
	leads := makeLeads(t, p, 8)
	today := time.Now().UTC()
	for i, lead := range leads {
		birthday := "2000-" + today.Format("01-02")
		if i == 3 {
			birthday = "2000-01-01"
		}
		p.Do(t, http.MethodPatch, fmt.Sprint("/v1/leads/", lead), map[string]any{"businessParam": map[string]any{"birthday": birthday}}, nil)
	}
	for _, lead := range leads[:4] {
		p.Do(t, http.MethodPost, "/v1/events", map[string]any{"eventId": fmt.Sprint("z-", lead), "name": "z", "leadsId": lead}, nil)
	}
	born := 7
	if today.Format("01-02") == "01-01" {
		born = 8
	}
	for _, c := range []struct {
		when string
		want int
	}{
		{`events("z").count() > 0 && events("z", duration("2s")).count() == 0`, 4},
		{`lead.createdAt < now`, 8},
		{`now.getFullYear() >= 2026`, 8},
		{fmt.Sprintf(`date(lead.birthday).getMonth() == timestamp("%[1]s").getMonth("UTC") && date(lead.birthday).getDate() == timestamp("%[1]s").getDate("UTC")
			&& today > timestamp("2020-01-01T00:00:00Z")`, today.Format(time.RFC3339)), born},
	} {
		var g struct{ ID string }
		p.Do(t, http.MethodPost, "/v1/segments", map[string]any{"name": "some", "when": c.when}, &g)
		audience := map[string]any{"segment": g.ID}
		harness.Eventually(t, time.Minute, func() (bool, string) {
			var counted struct{ Count int }
			p.Do(t, http.MethodPost, "/v1/leads/count", map[string]any{"audience": audience}, &counted)
			return counted.Count == c.want, fmt.Sprintf("%s: counted %d, want %d", c.when, counted.Count, c.want)
		})
		journey := publishWaiting(t, p)
		var l, r struct{ LaunchID string }
		p.Do(t, http.MethodPost, "/v1/journeys/"+journey+"/launches", map[string]any{"audience": audience}, &l)
		p.Kill9(t)
		p = harness.StartProcess(t, dir, []string{"--no-demo"}, keys)
		if got := awaitRecurring(t, p, l.LaunchID, "at its end", func(l recurring) bool { return l.Status.Ended() }); got.Total != c.want || got.Enrolled != c.want {
			t.Errorf("a launch to %s: %+v, want %d", c.when, got, c.want)
		}
		p.Do(t, http.MethodPost, "/v1/journeys/"+publishWaiting(t, p)+"/launches", map[string]any{"audience": audience, "schedule": map[string]any{"cron": "0 3 1 1 *"}}, &r)
		awaitRecurring(t, p, r.LaunchID, "scheduled", func(l recurring) bool { return l.Schedule.NextAt != nil })
		fire := client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL}
		if err := scheduleOf(t, dialTemporal(t, p), r.LaunchID).Trigger(t.Context(), fire); err != nil {
			t.Fatal(err)
		}
		if got := awaitRecurring(t, p, r.LaunchID, "through an occurrence", func(l recurring) bool { return l.Completed == c.want }); got.Total != c.want {
			t.Errorf("an occurrence of a launch to %s: %+v, want %d", c.when, got, c.want)
		}
	}
}

// publishWaiting publishes a journey that sends nothing and is soon over.
func publishWaiting(t *testing.T, p *harness.Process) string {
	t.Helper()
	var j struct{ ID string }
	p.Do(t, http.MethodPost, "/v1/journeys", map[string]any{
		"name": "Soon over", "start": "wait", "nodes": []any{map[string]any{"id": "wait", "type": "delay", "for": "1s"}},
	}, &j)
	p.Do(t, http.MethodPost, "/v1/journeys/"+j.ID+"/publish", nil, nil)
	return j.ID
}
