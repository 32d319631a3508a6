package e2e

import (
	"context"
	"fmt"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"waypost"
	"waypost/app"
	"waypost/config"
	"waypost/devstack/harness"
)

// A key is changed in the documented order, and everything goes on: a journey that
// waits through it, a recurring launch whose Schedule the old key encrypted, webhooks
// and messages. At the end nothing but histories needs the old key.
func TestKeysAreChanged(t *testing.T) {
	t.Parallel()
	const newKey = "new:ZmVkY2JhOTg3NjU0MzIxMGZlZGNiYTk4NzY1NDMyMTA="
	r := harness.NewReceiver(t, func(waypost.Message, int) harness.Answer { return harness.Answer{Status: http.StatusOK} })
	dir := filepath.Join(t.TempDir(), "data")
	var p *harness.Process
	with := func(keys string) {
		t.Helper()
		if p != nil {
			p.Interrupt(t)
		}
		p = harness.StartProcess(t, dir, []string{"--no-demo"}, "WAYPOST_ENCRYPTION_KEYS="+keys)
	}
	with(scheduleKeys)
	waiting := p.Publish(t, r.URL, `{"name":"Sleeper","start":"hello","nodes":[{"id":"hello","type":"touchpoint","webhook":%[1]q,"next":"wait"},
		{"id":"wait","type":"waitForEvent","event":"go","timeout":"72h","next":"end"},{"id":"end","type":"exit"}]}`)
	sleeper := p.Enroll(t, waiting, 1)[0]
	monthly := p.Publish(t, r.URL, `{"name":"Monthly","start":"hello","reentry":{"policy":"always"},"nodes":[{"id":"hello","type":"touchpoint","webhook":%q}]}`)
	leads := makeLeads(t, p, 3)
	var l recurring
	p.Do(t, http.MethodPost, "/v1/journeys/"+monthly+"/launches", everyLead("0 0 1 1 *", "UTC", nil), &l)
	fire := func(keys, what string, completed int) {
		t.Helper()
		schedule := scheduleOf(t, dialWith(t, p, keys), l.LaunchID)
		if err := schedule.Trigger(t.Context(), client.ScheduleTriggerOptions{Overlap: enumspb.SCHEDULE_OVERLAP_POLICY_ALLOW_ALL}); err != nil {
			t.Fatal(err)
		}
		awaitRecurring(t, p, l.LaunchID, what, func(l recurring) bool { return l.Completed == completed })
	}
	all := len(leads) + 1
	fire(scheduleKeys, "fired with the old key", all)
	message := p.Deliveries(t, sleeper)["hello"].MessageID

	with(scheduleKeys + "," + newKey)
	both := newKey + "," + scheduleKeys
	with(both)
	ctx := t.Context()
	cfg, _, err := config.Load(config.RoleKeys, p.RoleSettings(t))
	if err != nil {
		t.Fatal(err)
	}
	db, err := app.OpenStore(ctx, cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Reseal(ctx, func(int) {}); err != nil {
		t.Fatal(err)
	}
	for range 2 { // again, as by somebody who was stopped
		if n, err := app.ResealSchedules(ctx, cfg, db.ScheduledLaunches); err != nil || n != 1 {
			t.Fatalf("%d schedules: %v", n, err)
		}
	}
	uses, err := db.KeyUses(ctx)
	if err != nil || len(uses) == 0 {
		t.Fatal(uses, err)
	}
	for _, u := range uses {
		if u.Key != "new" {
			t.Errorf("the key %s is still needed in %s", u.Key, u.Table)
		}
	}
	// A journey that began with the old key goes on: its history can be read.
	var enrollment struct{ LeadsID int64 }
	p.Do(t, http.MethodGet, "/v1/deliveries/"+message, nil, &enrollment)
	p.Do(t, http.MethodPost, "/v1/events", map[string]any{"eventId": "e1", "name": "go", "leadsId": enrollment.LeadsID}, nil)
	p.AwaitEnd(t, sleeper, time.Minute)

	with(newKey)
	fire(newKey, "fired without the old key", 2*all)
	p.Do(t, http.MethodPost, "/v1/deliveries/"+message+"/redeliver", nil, nil)
	harness.Eventually(t, time.Minute, func() (bool, string) {
		n := len(r.Received(message))
		return n == 2, fmt.Sprintf("the message was POSTed %d times", n)
	})
	// The rest of the Schedule is as it was.
	described, err := scheduleOf(t, dialWith(t, p, newKey), l.LaunchID).Describe(context.WithoutCancel(ctx))
	if err != nil {
		t.Fatal(err)
	}
	action, ok := described.Schedule.Action.(*client.ScheduleWorkflowAction)
	if !ok || action.TaskQueue != "waypost" || action.StaticSummary != "Occurrence of a launch of journey "+monthly || action.ID != l.LaunchID ||
		described.Schedule.Policy.CatchupWindow != waypost.OccurrenceWindow || len(described.Schedule.Spec.Calendars) != 1 || action.Priority.PriorityKey == 0 {
		t.Errorf("the schedule is %+v, its action %+v", described.Schedule, action)
	}
}
