package workflows_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"

	"waypost"
)

const oneTouchpoint = `{"name":"Welcome","start":"hello","nodes":[
	{"id":"hello","type":"touchpoint","webhook":"WEBHOOK","next":"end","onFailure":"sorry"},
	{"id":"sorry","type":"exit"},
	{"id":"end","type":"exit"}]}`

// What each answer of a receiver comes to (docs/contract.md, "Receiver's answer").
func TestOutcomes(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		answers   []answer // the last one repeats
		succeed   bool
		attempts  int
		status    int
		message   string
		timeline  []string
		leastWait time.Duration // between the first two attempts
	}{
		"503, 500, then succeed true": {
			answers: []answer{{status: 503}, {status: 500}, {status: 200, body: `{"succeed":true}`}},
			succeed: true, attempts: 3, status: 200,
		},
		"200 without a body":   {answers: []answer{{status: 200}}, succeed: true, attempts: 1, status: 200},
		"200 with other JSON":  {answers: []answer{{status: 200, body: `[1]`}}, succeed: true, attempts: 1, status: 200},
		"succeed false":        {answers: []answer{{status: 200, body: `{"succeed":false,"message":"no"}`}}, attempts: 1, status: 200, message: "no"},
		"201 is no success":    {answers: []answer{{status: 201}}, attempts: 1, status: 201},
		"204 is no success":    {answers: []answer{{status: 204}}, attempts: 1, status: 204},
		"302 is not followed":  {answers: []answer{{status: 302, header: map[string]string{"Location": "/elsewhere"}}}, attempts: 1, status: 302},
		"404 is final":         {answers: []answer{{status: 404}}, attempts: 1, status: 404},
		"410 disables as well": {answers: []answer{{status: 410}}, attempts: 1, status: 410},
		"429 with Retry-After": {
			answers: []answer{{status: 429, header: map[string]string{"Retry-After": "7"}}, {status: 200}},
			succeed: true, attempts: 2, status: 200, leastWait: 7 * time.Second,
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.receiver.script = func(_ waypost.Message, attempt int) answer {
				return tt.answers[min(attempt, len(tt.answers))-1]
			}
			e := w.enroll(w.publish(oneTouchpoint), 1)[0]
			w.run()

			d, attempts := w.delivery(e, "hello")
			wantStatus, wantEnd := waypost.DeliverySucceeded, "end"
			wantTimeline := []string{"hello entered", "hello sent end", "end exited"}
			if !tt.succeed {
				wantStatus, wantEnd = waypost.DeliveryFailed, "sorry"
				wantTimeline = []string{"hello entered", "hello failed sorry", "sorry exited"}
			}
			if d.Status != wantStatus || d.Succeed == nil || *d.Succeed != tt.succeed {
				t.Errorf("delivery is %s, succeed %v", d.Status, d.Succeed)
			}
			if d.Attempts != tt.attempts || len(attempts) != tt.attempts || d.HTTPStatus != tt.status {
				t.Errorf("%d attempts (%d listed), http status %d", d.Attempts, len(attempts), d.HTTPStatus)
			}
			if tt.message != "" && d.Message != tt.message {
				t.Errorf("message %q, want %q", d.Message, tt.message)
			}
			for i, a := range attempts {
				if want := tt.answers[min(i, len(tt.answers)-1)].status; a.Attempt != i+1 || a.HTTPStatus != want {
					t.Errorf("attempt %d is recorded as %d with http status %d, want %d", i+1, a.Attempt, a.HTTPStatus, want)
				}
			}
			if tt.leastWait > 0 && attempts[1].At.Sub(attempts[0].At) < tt.leastWait {
				t.Errorf("the second attempt came %s after the first", attempts[1].At.Sub(attempts[0].At))
			}
			posts := w.receiver.posts[d.MessageID]
			if len(w.receiver.posts) != 1 || len(posts) != tt.attempts {
				t.Fatalf("the receiver saw %d messages, %d POSTs of this one", len(w.receiver.posts), len(posts))
			}
			for _, post := range posts {
				if !bytes.Equal(post, posts[0]) {
					t.Errorf("an attempt sent other bytes: %s, then %s", posts[0], post)
				}
			}
			status, timeline := w.timeline(e)
			if status != waypost.EnrollmentCompleted || !slices.Equal(timeline, wantTimeline) {
				t.Errorf("enrollment is %s by way of %q, want it at %s", status, timeline, wantEnd)
			}
			hook, err := w.store.Webhook(context.Background(), scope, w.webhook.ID)
			must(t, err)
			if hook.Enabled != (tt.status != 410) {
				t.Errorf("after %d the webhook's enabled is %v", tt.status, hook.Enabled)
			}
		})
	}
}

// The message holds what the document lists, in its order.
func TestMessage(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	v := w.publish(oneTouchpoint)
	e := w.enroll(v, 1)[0]
	w.run()
	d, attempts := w.delivery(e, "hello")
	want := fmt.Sprintf(`{"messageId":%q,"version":"1.0","timestamp":%q,`+
		`"userProfile":{"orgId":"acme","appId":"app_test","userId":"ext-0","affId":"%d","openId":""},`+
		`"journeyInfo":{"journeyId":%q,"journeyName":"Welcome","actionDefId":"%s/1/hello","actionId":"%s/1"},`+
		`"params":{"greeting":"Hi Lead 0"}}`,
		d.MessageID, attempts[0].At.UTC().Format(waypost.TimeFormat), e.LeadsID, e.ID, v.JourneyID, e.ID)
	if got := string(w.receiver.posts[d.MessageID][0]); got != want {
		t.Errorf("sent\n%s\nwant\n%s", got, want)
	}
}

// A receiver that refuses connections for a minute gets the message once it is up.
func TestReceiverRefusesForAMinute(t *testing.T) {
	t.Parallel()
	// On a host of its own, of the loopback network: nobody else gets the port meanwhile.
	l, err := net.Listen("tcp", "127.66.0.1:0")
	must(t, err)
	addr := l.Addr().String()
	must(t, l.Close())
	w := newWorld(t, func(h *waypost.Webhook) { h.URL = "http://" + addr + "/hook" })
	e := w.enroll(w.publish(oneTouchpoint), 1)[0]
	start := w.env.Now()
	w.env.RegisterDelayedCallback(func() {
		listener, err := net.Listen("tcp", addr)
		must(t, err)
		up := httptest.NewUnstartedServer(w.receiver.server.Config.Handler)
		must(t, up.Listener.Close())
		up.Listener = listener
		up.Start()
		t.Cleanup(up.Close)
	}, time.Minute)
	w.run()
	d, attempts := w.delivery(e, "hello")
	if d.Status != waypost.DeliverySucceeded || len(attempts) < 3 {
		t.Fatalf("%s after %d attempts", d.Status, len(attempts))
	}
	for i, a := range attempts {
		down := a.At.Before(start.Add(time.Minute))
		if down != (a.ErrorClass == waypost.ClassNetwork) || down == (i == len(attempts)-1) {
			t.Errorf("attempt %d at %s: %q", a.Attempt, a.At.Sub(start), a.ErrorClass)
		}
	}
}

// A receiver that is down for good is tried over the whole default schedule, and
// then the journey goes on.
func TestWholeRetrySchedule(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.receiver.script = func(waypost.Message, int) answer { return answer{status: 503} }
	e := w.enroll(w.publish(oneTouchpoint), 1)[0]
	w.run()
	d, attempts := w.delivery(e, "hello")
	if d.Status != waypost.DeliveryFailed || d.NextAttemptAt != nil {
		t.Fatalf("delivery is %s, next attempt %v", d.Status, d.NextAttemptAt)
	}
	retry := waypost.DefaultRetry()
	if len(attempts) <= len(retry.Schedule) {
		t.Fatalf("only %d attempts", len(attempts))
	}
	for i := range attempts[1:] {
		entry := float64(retry.Schedule[min(i, len(retry.Schedule)-1)])
		wait := float64(attempts[i+1].At.Sub(attempts[i].At))
		if slack := float64(100 * time.Millisecond); wait < 0.8*entry-slack || wait > 1.2*entry+slack {
			t.Errorf("attempt %d came %s after the one before, want %s ± 20 %%", i+2, time.Duration(wait), time.Duration(entry))
		}
	}
	if last := attempts[len(attempts)-1].At.Sub(attempts[0].At); last > 72*time.Hour || last < 48*time.Hour {
		t.Errorf("the last attempt came %s after the first", last)
	}
	if status, _ := w.timeline(e); status != waypost.EnrollmentCompleted {
		t.Errorf("enrollment is %s", status)
	}
}

// A delay lasts as long as it says, and a branch takes the arm that the lead and
// the touchpoints behind it ask for.
func TestDelayAndBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.receiver.script = func(m waypost.Message, _ int) answer {
		if m.UserProfile.UserID == "ext-1" {
			return answer{status: 200, body: `{"succeed":false}`}
		}
		return answer{status: 200}
	}
	enrolled := w.enroll(w.publish(`{"name":"Welcome","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":"WEBHOOK","next":"wait"},
		{"id":"wait","type":"delay","for":"72h","next":"check"},
		{"id":"check","type":"branch","cases":[{"when":"touchpoints.hello.succeed && lead.name == 'Lead 0'","next":"thanks"}],"otherwise":"sorry"},
		{"id":"thanks","type":"touchpoint","webhook":"WEBHOOK"},
		{"id":"sorry","type":"touchpoint","webhook":"WEBHOOK","params":{"greeting":"Sorry, {{ lead.name }}"}}]}`), 3)
	start := w.env.Now()
	result := w.run()
	if elapsed := w.env.Now().Sub(start); elapsed < 72*time.Hour || elapsed > 73*time.Hour {
		t.Errorf("the journey took %s", elapsed)
	}
	if result.Enrollments != 3 || len(result.NotSucceeded) != 1 || result.NotSucceeded[0].Lead != enrolled[1].LeadsID {
		t.Errorf("result %+v", result)
	}
	for i, last := range []string{"thanks", "sorry", "sorry"} {
		passed := []string{"sent", "failed", "sent"}[i]
		want := []string{"hello entered", "hello " + passed + " wait", "wait entered", "wait waited check",
			"check took " + last, last + " sent", last + " exited"}
		if i == 1 {
			want[5] = "sorry failed"
		}
		status, timeline := w.timeline(enrolled[i])
		if status != waypost.EnrollmentCompleted || !slices.Equal(timeline, want) {
			t.Errorf("enrollment %d is %s by way of\n%q, want\n%q", i, status, timeline, want)
		}
	}
}

// A cohort of 200 with failures completes with few activities: what failed comes
// again in waves.
func TestCohortRetriesInWaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.receiver.script = func(m waypost.Message, attempt int) answer {
		if attempt == 1 && m.UserProfile.UserID[len(m.UserProfile.UserID)-1] == '7' {
			return answer{status: 503}
		}
		return answer{status: 200}
	}
	enrolled := w.launched(w.publish(oneTouchpoint), waypost.MaxLaunchCohort)
	var batches atomic.Int32
	note := func(info *activity.Info) {
		if info.ActivityType.Name == "DeliverBatch" {
			batches.Add(1)
		}
	}
	w.env.SetOnActivityStartedListener(func(info *activity.Info, _ context.Context, _ converter.EncodedValues) { note(info) })
	w.env.SetOnLocalActivityStartedListener(func(info *activity.Info, _ context.Context, _ []any) { note(info) })
	result := w.run()
	if result.Enrollments != 200 || len(result.Touchpoints) != 1 || result.Touchpoints[0].Delivered != 200 {
		t.Errorf("result %+v", result)
	}
	for i, id := range enrolled {
		e := waypost.Enrollment{ID: id}
		d, attempts := w.delivery(e, "hello")
		want := 1
		if i%10 == 7 {
			want = 2
		}
		if d.Status != waypost.DeliverySucceeded || len(attempts) != want {
			t.Errorf("lead %d: %s after %d attempts, want %d", i, d.Status, len(attempts), want)
		}
	}
	// Two batches of a hundred. What failed in both comes again together, or in two waves
	// if a second of the clock, which stands still meanwhile, ended between.
	if n := batches.Load(); n < 3 || n > 4 {
		t.Errorf("%d batches for 200 leads of which 20 failed once", n)
	}
}

// What a disabled webhook holds back is deferred without an attempt and goes out
// when it is enabled again.
func TestDisabledWebhookDefers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(h *waypost.Webhook) { h.Enabled = false })
	e := w.enroll(w.publish(oneTouchpoint), 1)[0]
	w.env.RegisterDelayedCallback(func() {
		d, attempts := w.delivery(e, "hello")
		if d.Status != waypost.DeliveryDeferred || d.DeferredReason != waypost.DeferWebhookDisabled || len(attempts) != 0 {
			t.Errorf("while disabled: %s (%s), %d attempts", d.Status, d.DeferredReason, len(attempts))
		}
		_, err := w.store.UpdateWebhook(context.Background(), scope, w.webhook.ID, func(h *waypost.Webhook) error {
			h.Enabled = true
			return nil
		})
		must(t, err)
	}, 3*time.Hour)
	w.run()
	d, attempts := w.delivery(e, "hello")
	if d.Status != waypost.DeliverySucceeded || len(attempts) != 1 || d.DeferredReason != "" {
		t.Errorf("after enabling: %s (%s), %d attempts", d.Status, d.DeferredReason, len(attempts))
	}
	// However often it was looked at, the timeline tells of it once.
	want := []string{"hello entered", "hello deferred", "hello sent end", "end exited"}
	if status, timeline := w.timeline(e); status != waypost.EnrollmentCompleted || !slices.Equal(timeline, want) {
		t.Errorf("enrollment is %s by way of %q", status, timeline)
	}
}

// A template that fails at run time fails the touchpoint without a POST.
func TestRenderFault(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(h *waypost.Webhook) {
		h.Params = map[string]any{"x": "{{ 1 | divided_by: lead.customFields.none }}"}
	})
	e := w.enroll(w.publish(oneTouchpoint), 1)[0]
	w.run()
	d, attempts := w.delivery(e, "hello")
	if d.Status != waypost.DeliveryFailed || len(attempts) != 1 || attempts[0].ErrorClass != waypost.ClassRender || len(w.receiver.posts) != 0 {
		t.Errorf("%s with attempts %+v, %d POSTs", d.Status, attempts, len(w.receiver.posts))
	}
	if _, timeline := w.timeline(e); !slices.Contains(timeline, "hello failed sorry") {
		t.Errorf("timeline %q", timeline)
	}
}

// Continuing as new between any two inputs changes nothing.
func TestContinueAsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.receiver.script = func(_ waypost.Message, attempt int) answer {
		if attempt <= 2 {
			return answer{status: 503}
		}
		return answer{status: 200}
	}
	enrolled := w.enroll(w.publish(`{"name":"Welcome","start":"hello","nodes":[
		{"id":"hello","type":"touchpoint","webhook":"WEBHOOK","next":"wait"},
		{"id":"wait","type":"delay","for":"1h","next":"check"},
		{"id":"check","type":"branch","cases":[{"when":"touchpoints.hello.attempts == 3","next":"again"}]},
		{"id":"again","type":"touchpoint","webhook":"WEBHOOK"}]}`), 2)
	if runs := w.runInPieces(func() {}); runs < 5 {
		t.Errorf("only %d runs: it did not continue as new often enough", runs)
	}
	for i, e := range enrolled {
		status, timeline := w.timeline(e)
		want := []string{"hello entered", "hello sent wait", "wait entered", "wait waited check", "check took again", "again sent", "again exited"}
		if status != waypost.EnrollmentCompleted || !slices.Equal(timeline, want) {
			t.Errorf("enrollment %d is %s by way of %q", i, status, timeline)
		}
		for _, node := range []string{"hello", "again"} {
			if d, attempts := w.delivery(e, node); d.Status != waypost.DeliverySucceeded || len(attempts) != 3 {
				t.Errorf("%s: %s after %d attempts", node, d.Status, len(attempts))
			}
		}
	}
	if len(w.receiver.posts) != 4 {
		t.Errorf("the receiver saw %d messages, want 4", len(w.receiver.posts))
	}
}

// No personal data stands in what Temporal keeps.
func TestInputHoldsNoPersonalData(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.enroll(w.publish(oneTouchpoint), 2)
	b, err := json.Marshal(w.claim())
	must(t, err)
	for _, personal := range []string{"Lead 0", "ext-0"} {
		if bytes.Contains(b, []byte(personal)) {
			t.Errorf("the start input holds %q: %s", personal, b)
		}
	}
}
