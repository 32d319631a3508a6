package workflows_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"waypost"
	"waypost/workflows"
)

// redelivered makes n messages that were refused for good, has all of them
// redelivered, and returns the batch, the enrollments in its order, and what they
// look like.
func (w *world) redelivered(n int, bulk bool) (b waypost.RedeliveryBatch, enrollments []waypost.Enrollment, before string) {
	w.t.Helper()
	ctx := context.Background()
	script := w.receiver.script
	w.receiver.script = func(waypost.Message, int) answer { return answer{status: http.StatusNotFound} }
	enrolled := w.enroll(w.publish(oneTouchpoint), n)
	w.run()
	w.newEnvironmentAt(w.env.Now().Add(100 * time.Hour)) // much later
	w.register()
	w.receiver.mu.Lock()
	w.receiver.script, w.receiver.posts = script, map[string][][]byte{}
	w.receiver.mu.Unlock()
	if bulk {
		_, err := w.store.CreateRedelivery(ctx, scope, waypost.DeliveryFilter{}, "app_test")
		must(w.t, err)
		_, err = w.store.RedeliveryStep(ctx)
		must(w.t, err)
	} else {
		d, _ := w.delivery(enrolled[0], "hello")
		_, err := w.store.Redeliver(ctx, scope, d.MessageID)
		must(w.t, err)
	}
	batches, err := w.store.UnstartedRedeliveries(ctx, time.Time{}, 10)
	must(w.t, err)
	if len(batches) != 1 || len(batches[0].Members) != n {
		w.t.Fatalf("batches %+v", batches)
	}
	must(w.t, w.store.MarkRedeliveryStarted(ctx, batches[0].ID))
	for _, m := range batches[0].Members {
		i := slices.IndexFunc(enrolled, func(e waypost.Enrollment) bool { return e.ID == m.EnrollmentID })
		enrollments = append(enrollments, enrolled[i])
	}
	return batches[0], enrollments, w.looks(enrollments)
}

// looks writes down enrollments and their timelines.
func (w *world) looks(enrollments []waypost.Enrollment) string {
	var b strings.Builder
	for _, e := range enrollments {
		e, entries, err := w.store.Enrollment(context.Background(), scope, e.ID)
		must(w.t, err)
		fmt.Fprintln(&b, e, entries)
	}
	return b.String()
}

// execute runs the workflow of a batch to its end.
func (w *world) execute(b waypost.RedeliveryBatch) workflows.RedeliveryResult {
	w.t.Helper()
	in, _ := workflows.RedeliveryInputOf(b)
	w.env.ExecuteWorkflow(workflows.TypeRedelivery, in)
	must(w.t, w.env.GetWorkflowError())
	var result workflows.RedeliveryResult
	must(w.t, w.env.GetWorkflowResult(&result))
	return result
}

// busy is a receiver that is busy at first for every third lead and refuses one in
// twenty for good.
func busy(m waypost.Message, attempt int) answer {
	var lead int
	_, _ = fmt.Sscan(m.UserProfile.AffID, &lead)
	switch {
	case lead%20 == 7:
		return answer{status: http.StatusBadRequest}
	case lead%3 == 0 && attempt <= 2:
		return answer{status: http.StatusServiceUnavailable}
	}
	return answer{status: http.StatusOK}
}

// A batch of redeliveries goes out in waves by the webhook's schedule, and changes
// nothing of the enrollments.
func TestRedelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.receiver.script = busy
	b, enrollments, before := w.redelivered(60, true)
	batches := 0
	w.env.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) { batches++ })
	begin := w.env.Now()
	result := w.execute(b)
	if elapsed := w.env.Now().Sub(begin); elapsed < 28*time.Second || elapsed > 50*time.Second || batches > 5 {
		t.Errorf("it took %s and %d batches", elapsed, batches)
	}
	want := workflows.RedeliveryResult{Redelivery: b.RedeliveryID, Messages: 60}
	for i, m := range b.Members {
		status, attempts := waypost.DeliverySucceeded, 2
		switch {
		case m.LeadsID%20 == 7:
			status = waypost.DeliveryFailed
			want.Failed++
			want.NotDelivered = append(want.NotDelivered, workflows.RedeliveredLead{Message: m.MessageID, Lead: m.LeadsID, Outcome: "failed", Reason: "httpStatus 400"})
		case m.LeadsID%3 == 0:
			attempts = 4
			want.Delivered++
		default:
			want.Delivered++
		}
		d, log := w.delivery(enrollments[i], "hello")
		if d.Status != status || len(log) != attempts || log[attempts-1].Round != 2 {
			t.Errorf("message %d is %s after %d attempts, want %s after %d", i, d.Status, len(log), status, attempts)
		}
		if posts := w.receiver.posts[m.MessageID]; len(posts) != attempts-1 {
			t.Errorf("message %d was sent %d times, want %d", i, len(posts), attempts-1)
		}
	}
	if fmt.Sprint(result) != fmt.Sprint(want) {
		t.Errorf("result\n%+v, want\n%+v", result, want)
	}
	if after := w.looks(enrollments); after != before {
		t.Errorf("the enrollments were\n%s and are\n%s", before, after)
	}
	if r, err := w.store.Redelivery(context.Background(), scope, b.RedeliveryID); err != nil || r.Status != waypost.RedeliveryCompleted || r.Succeeded != want.Delivered {
		t.Errorf("%+v, %v", r, err)
	}
}

// What is deferred goes on when the webhook is enabled, however much later.
func TestRedeliveryReleased(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			b, _, _ := w.redelivered(n, n > 1)
			set := func(enabled bool) {
				_, err := w.store.UpdateWebhook(context.Background(), scope, w.webhook.ID, func(h *waypost.Webhook) error { h.Enabled = enabled; return nil })
				must(t, err)
			}
			set(false)
			begin := w.env.Now()
			w.env.RegisterDelayedCallback(func() {
				if details := w.details(); !strings.Contains(details, "deferred (webhookDisabled)") {
					t.Errorf("the details say %q", details)
				}
			}, 11*time.Hour)
			w.at(12*time.Hour, func(context.Context) { set(true) })
			if result := w.execute(b); result.Delivered != n {
				t.Errorf("%+v", result)
			}
			if elapsed := w.env.Now().Sub(begin); elapsed < 12*time.Hour || elapsed > 12*time.Hour+5*time.Second || w.noticed != 1 {
				t.Errorf("it went on after %s, %d notices", elapsed, w.noticed)
			}
		})
	}
}

// A redelivery is canceled through the API, or its workflow by an operator: either
// way nothing more is sent.
func TestRedeliveryCanceled(t *testing.T) {
	t.Parallel()
	for name, operator := range map[string]bool{"through the API": false, "by an operator": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.receiver.script = func(waypost.Message, int) answer { return answer{status: http.StatusServiceUnavailable} }
			b, enrollments, before := w.redelivered(4, true)
			if operator {
				w.env.RegisterDelayedCallback(w.env.CancelWorkflow, time.Hour)
			} else {
				w.at(time.Hour, func(ctx context.Context) {
					_, err := w.store.CancelRedelivery(ctx, scope, b.RedeliveryID)
					must(t, err)
				})
			}
			begin := w.env.Now()
			in, _ := workflows.RedeliveryInputOf(b)
			w.env.ExecuteWorkflow(workflows.TypeRedelivery, in)
			if err := w.env.GetWorkflowError(); operator != temporal.IsCanceledError(err) || !operator && err != nil {
				t.Errorf("the workflow ended with %v", err)
			}
			if elapsed := w.env.Now().Sub(begin); elapsed > 61*time.Minute {
				t.Errorf("the workflow ended %s after the start", elapsed)
			}
			for _, e := range enrollments {
				if d, log := w.delivery(e, "hello"); d.Status != waypost.DeliveryCanceled || len(log) < 4 {
					t.Errorf("%s after %d attempts", d.Status, len(log))
				}
			}
			if after := w.looks(enrollments); after != before {
				t.Errorf("the enrollments were\n%s and are\n%s", before, after)
			}
			if !operator {
				var result workflows.RedeliveryResult
				must(t, w.env.GetWorkflowResult(&result))
				if result.Canceled != 4 || len(result.NotDelivered) != 4 {
					t.Errorf("%+v", result)
				}
			}
		})
	}
}

// Continuing as new between any two inputs changes nothing.
func TestRedeliveryContinuesAsNew(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.receiver.script = busy
	b, enrollments, _ := w.redelivered(10, true)
	in, _ := workflows.RedeliveryInputOf(b)
	runs := 1
	for ; ; runs++ {
		if runs > 50 {
			t.Fatal("the workflow never ends")
		}
		w.env.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) { w.env.SetContinueAsNewSuggested(true) })
		w.env.SetOnTimerFiredListener(func(string) { w.env.SetContinueAsNewSuggested(true) })
		if runs == 1 { // who wakes it during the last batch is heard by the next run
			w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(workflows.SignalWake, workflows.Wake{}) }, 0)
		}
		w.env.ExecuteWorkflow(workflows.TypeRedelivery, in)
		err := w.env.GetWorkflowError()
		var again *workflow.ContinueAsNewError
		if !errors.As(err, &again) {
			must(t, err)
			break
		}
		in = workflows.RedeliveryInput{}
		must(t, w.dataConverter().FromPayloads(again.Input, &in))
		w.newEnvironment()
		w.register()
	}
	if runs < 3 {
		t.Errorf("only %d runs: it did not continue as new often enough", runs)
	}
	for i, m := range b.Members {
		want := waypost.DeliverySucceeded
		if m.LeadsID%20 == 7 {
			want = waypost.DeliveryFailed
		}
		if d, log := w.delivery(enrollments[i], "hello"); d.Status != want || len(w.receiver.posts[m.MessageID]) != len(log)-1 {
			t.Errorf("message %d is %s, %d attempts, %d POSTs", i, d.Status, len(log), len(w.receiver.posts[m.MessageID]))
		}
	}
}

// What starts a redelivery holds no personal data, says where to find it, and gives
// way to everything else unless somebody waits for it.
func TestRedeliveryInput(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	b, _, _ := w.redelivered(2, true)
	in, attributes := workflows.RedeliveryInputOf(b)
	text, err := json.Marshal(in)
	must(t, err)
	for _, personal := range []string{"Lead 0", "ext-0"} {
		if bytes.Contains(text, []byte(personal)) {
			t.Errorf("the start input holds %q: %s", personal, text)
		}
	}
	if journey, ok := attributes.GetKeyword(workflows.AttrJourney); !ok || journey != b.Members[0].JourneyID {
		t.Errorf("journey %q", journey)
	}
	if leads, _ := attributes.GetKeywordList(workflows.AttrLead); len(leads) != 2 {
		t.Errorf("leads %v", leads)
	}
	// Messages to subscriptions have neither leads nor a journey, and nobody waits for them.
	message := waypost.RedeliveryBatch{ID: "rdb_1", Scope: scope, Members: []waypost.RedeliveryMember{{EnrollmentID: "sub_1", Visit: 1, Round: 1, MessageID: "msg_1", WebhookID: "whk_1"}}}
	messageIn, attributes := workflows.RedeliveryInputOf(message)
	if hook, _ := attributes.GetKeyword(workflows.AttrWebhook); hook != "whk_1" || attributes.ContainsKey(workflows.AttrJourney) || attributes.ContainsKey(workflows.AttrLead) {
		t.Errorf("attributes of messages to subscriptions: %v", attributes)
	}
	if p := workflows.RedeliveryPriority(&messageIn); p.PriorityKey != workflows.RedeliveryPriority(&in).PriorityKey {
		t.Errorf("their priority is %+v", p)
	}
	b.Members[1].JourneyID = "jrn_other"
	if _, attributes = workflows.RedeliveryInputOf(b); attributes.ContainsKey(workflows.AttrJourney) {
		t.Error("a journey stands for messages of several")
	}
	single := in
	single.RedeliveryID = ""
	if bulk, single := workflows.RedeliveryPriority(&in), workflows.RedeliveryPriority(&single); bulk.PriorityKey <= workflows.CohortPriority(workflows.JourneyInput{Scope: scope, LaunchID: "lch_1"}).PriorityKey ||
		single.PriorityKey != workflows.CohortPriority(workflows.JourneyInput{Scope: scope}).PriorityKey {
		t.Errorf("priorities %+v and %+v", bulk, single)
	}
}
