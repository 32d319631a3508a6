package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/workflows"
)

// at has something happen at a time after the start of the workflow, and has the
// workflow told what the database holds for it shortly after, as the pump does.
func (w *world) at(after time.Duration, do func(ctx context.Context)) {
	w.env.RegisterDelayedCallback(func() { do(context.Background()) }, after)
	w.env.RegisterDelayedCallback(w.tell, after+time.Second)
}

// tell signals the workflow what notices there are.
func (w *world) tell() {
	w.t.Helper()
	notices, err := w.store.ClaimNotices(context.Background(), 1000, false)
	must(w.t, err)
	bulk, err := w.store.ClaimNotices(context.Background(), 1000, true)
	must(w.t, err)
	var ids []int64
	var wake workflows.Wake
	for _, n := range append(notices, bulk...) {
		ids = append(ids, n.ID)
		if n.EnrollmentID != "" {
			wake.Enrollments = append(wake.Enrollments, n.EnrollmentID)
		}
		if n.EventID != "" {
			wake.Events = append(wake.Events, n.EventID)
		}
	}
	if len(ids) == 0 {
		return
	}
	w.noticed += len(ids)
	w.env.SignalWorkflow(workflows.SignalWake, wake)
	must(w.t, w.store.DeleteNotices(context.Background(), ids))
}

// delayed is touchpoint, ten hours, touchpoint.
const delayed = `{"name":"Delayed","start":"hello","nodes":[
	{"id":"hello","type":"touchpoint","webhook":"WEBHOOK","next":"wait"},
	{"id":"wait","type":"delay","for":"10h","next":"thanks"},
	{"id":"thanks","type":"touchpoint","webhook":"WEBHOOK"}]}`

// A pause holds everything, however long, and a resume with shift goes on where
// it was, with skip where it would be by now.
func TestPauseAndResume(t *testing.T) {
	t.Parallel()
	const hour = time.Hour
	tests := map[string]struct {
		pause, resume time.Duration
		shift         bool
		thanks        time.Duration // when the second message is sent
	}{
		"shift, before the delay ends":         {pause: 2 * hour, resume: 5 * hour, shift: true, thanks: 13 * hour},
		"skip, before the delay ends":          {pause: 2 * hour, resume: 5 * hour, thanks: 10 * hour},
		"shift, after the delay has ended":     {pause: 2 * hour, resume: 32 * hour, shift: true, thanks: 40 * hour},
		"skip, after the delay has ended":      {pause: 2 * hour, resume: 32 * hour, thanks: 32 * hour},
		"shift, paused before the first":       {pause: 0, resume: 3 * hour, shift: true, thanks: 13 * hour},
		"skip, paused long after the resume's": {pause: 9 * hour, resume: 9*hour + time.Minute, thanks: 10 * hour},
	}
	for name, tt := range tests {
		for _, level := range []string{"enrollment", "journey"} {
			for _, n := range []int{1, 7} {
				t.Run(fmt.Sprintf("%s, %s, %d", name, level, n), func(t *testing.T) {
					t.Parallel()
					w := newWorld(t, nil)
					v := w.publish(delayed)
					enrolled := w.enroll(v, n)
					start := w.env.Now()
					pause := func(ctx context.Context) {
						if level == "journey" {
							_, err := w.store.PauseJourney(ctx, scope, v.JourneyID)
							must(t, err)
							return
						}
						for _, e := range enrolled {
							_, err := w.store.PauseEnrollment(ctx, scope, e.ID)
							must(t, err)
						}
					}
					if tt.pause == 0 {
						pause(context.Background())
					} else {
						w.at(tt.pause, pause)
					}
					w.env.RegisterDelayedCallback(func() {
						for _, e := range enrolled {
							if status, _ := w.timeline(e); status != waypost.EnrollmentPaused {
								t.Errorf("%s is %s while paused", e.ID, status)
							}
						}
						if posts := len(w.receiver.posts); tt.pause == 0 && posts > 0 || posts > n {
							t.Errorf("%d messages were sent while paused", posts)
						}
					}, tt.resume-time.Second)
					w.at(tt.resume, func(ctx context.Context) {
						if level == "journey" {
							_, err := w.store.ResumeJourney(ctx, scope, v.JourneyID, tt.shift)
							must(t, err)
							return
						}
						for _, e := range enrolled {
							_, err := w.store.ResumeEnrollment(ctx, scope, e.ID, tt.shift)
							must(t, err)
						}
					})
					w.run()
					for _, e := range enrolled {
						d, attempts := w.delivery(e, "thanks")
						if d.Status != waypost.DeliverySucceeded || len(attempts) != 1 {
							t.Fatalf("%s after %d attempts", d.Status, len(attempts))
						}
						// The resume is told a second later; a cohort's waits end in waves.
						if late := attempts[0].At.Sub(start) - tt.thanks; late < 0 || late > 2*time.Minute {
							t.Errorf("the second message was sent %s after the start, want %s", attempts[0].At.Sub(start), tt.thanks)
						}
						status, timeline := w.timeline(e)
						if status != waypost.EnrollmentCompleted {
							t.Errorf("%s is %s", e.ID, status)
						}
						for _, what := range []string{"paused", "resumed"} {
							if !slices.ContainsFunc(timeline, func(line string) bool { return strings.Contains(line, what) }) {
								t.Errorf("the timeline does not say %s: %q", what, timeline)
							}
						}
					}
				})
			}
		}
	}
}

// Retries pause too, and the pause does not use up the time for giving up.
func TestPausedRetries(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(h *waypost.Webhook) {
		h.Retry.Schedule = []waypost.Duration{waypost.Duration(time.Minute)}
		h.Retry.GiveUpAfter = waypost.Duration(10 * time.Minute)
		h.Retry.Jitter = 0
	})
	start := w.env.Now()
	w.receiver.script = func(waypost.Message, int) answer {
		if w.env.Now().Sub(start) < 12*time.Hour {
			return answer{status: 503}
		}
		return answer{status: 200}
	}
	v := w.publish(oneTouchpoint)
	e := w.enroll(v, 1)[0]
	posts := 0
	w.at(150*time.Second, func(ctx context.Context) {
		_, err := w.store.PauseJourney(ctx, scope, v.JourneyID)
		must(t, err)
	})
	w.env.RegisterDelayedCallback(func() {
		d, attempts := w.delivery(e, "hello")
		posts = len(attempts)
		if d.Status != waypost.DeliveryDeferred || d.DeferredReason != waypost.DeferPaused || posts != 3 {
			t.Errorf("while paused: %s (%s) after %d attempts", d.Status, d.DeferredReason, posts)
		}
	}, 11*time.Hour)
	w.at(12*time.Hour, func(ctx context.Context) {
		_, err := w.store.ResumeJourney(ctx, scope, v.JourneyID, true)
		must(t, err)
	})
	w.run()
	d, attempts := w.delivery(e, "hello")
	if d.Status != waypost.DeliverySucceeded || len(attempts) != posts+1 {
		t.Fatalf("%s after %d attempts", d.Status, len(attempts))
	}
	// Its time has come long before.
	if wait := attempts[posts].At.Sub(start) - 12*time.Hour; wait < 0 || wait > 3*time.Second {
		t.Errorf("the retry came %s after the resume", wait)
	}
}

// Canceling ends an enrollment wherever it is: nothing more is sent, its delivery
// is canceled, and its lead may enter again.
func TestCancel(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		definition string
		answer     answer
		posts      int
	}{
		"in a delay":           {definition: delayed, answer: answer{status: 200}, posts: 1},
		"between two attempts": {definition: oneTouchpoint, answer: answer{status: 503}, posts: 5},
		"waiting for an event": {definition: `{"name":"J","start":"wait","nodes":[{"id":"wait","type":"waitForEvent","event":"purchase","timeout":"72h","next":"hello"},
			{"id":"hello","type":"touchpoint","webhook":"WEBHOOK"}]}`},
	} {
		for _, level := range []string{"enrollment", "journey"} {
			t.Run(name+", "+level, func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				w.receiver.script = func(waypost.Message, int) answer { return tt.answer }
				v := w.publish(tt.definition)
				e := w.enroll(v, 1)[0]
				w.at(time.Hour, func(ctx context.Context) {
					if level == "journey" {
						_, err := w.store.CancelJourney(ctx, scope, v.JourneyID)
						must(t, err)
						for more := true; more; {
							more, err = w.store.SweepCanceled(ctx, 100)
							must(t, err)
						}
					} else {
						_, err := w.store.CancelEnrollment(ctx, scope, e.ID)
						must(t, err)
					}
				})
				start := w.env.Now()
				result := w.run()
				if elapsed := w.env.Now().Sub(start); elapsed > 2*time.Hour {
					t.Errorf("the workflow ended %s after the start", elapsed)
				}
				if result.Status != waypost.EnrollmentCanceled {
					t.Errorf("result %+v", result)
				}
				if status, timeline := w.timeline(e); status != waypost.EnrollmentCanceled {
					t.Errorf("%s by way of %q", status, timeline)
				}
				list, err := w.store.ListDeliveries(context.Background(), scope, waypost.DeliveryFilter{EnrollmentID: e.ID}, waypost.Page{Limit: 10})
				must(t, err)
				for _, d := range list {
					if !d.Status.Final() {
						t.Errorf("the delivery at %s is %s", d.NodeID, d.Status)
					}
				}
				posts := 0
				for _, p := range w.receiver.posts {
					posts += len(p)
				}
				if posts > 0 != (tt.posts > 0) || posts > 12 {
					t.Errorf("%d POSTs", posts)
				}
				if _, err := w.store.Enroll(context.Background(), scope, waypost.Enrollment{JourneyID: v.JourneyID, Version: 1, LeadsID: e.LeadsID},
					waypost.Reentry{Policy: waypost.ReentryAfterExit}); err != nil {
					t.Errorf("the lead may not enter again: %v", err)
				}
			})
		}
	}
}

// Canceling the workflow in Temporal's Web UI cancels the enrollments.
func TestWorkflowCanceled(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	enrolled := w.enroll(w.publish(delayed), 3)
	w.env.RegisterDelayedCallback(w.env.CancelWorkflow, time.Hour)
	w.env.ExecuteWorkflow(workflows.TypeJourney, w.claim())
	if err := w.env.GetWorkflowError(); err == nil || !strings.Contains(err.Error(), "canceled") {
		t.Errorf("the workflow ended with %v", err)
	}
	for _, e := range enrolled {
		if status, _ := w.timeline(e); status != waypost.EnrollmentCanceled {
			t.Errorf("%s is %s", e.ID, status)
		}
	}
}

// Enabling a webhook releases at once what it held back for hours.
func TestRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(h *waypost.Webhook) { h.Enabled = false })
	e := w.enroll(w.publish(oneTouchpoint), 1)[0]
	const after = 12*time.Hour + 17*time.Second
	w.at(after, func(ctx context.Context) {
		_, err := w.store.UpdateWebhook(ctx, scope, w.webhook.ID, func(h *waypost.Webhook) error {
			h.Enabled = true
			return nil
		})
		must(t, err)
	})
	start := w.env.Now()
	w.run()
	_, attempts := w.delivery(e, "hello")
	if late := attempts[0].At.Sub(start) - after; late < 0 || late > 3*time.Second {
		t.Errorf("it was sent %s after the webhook was enabled", late)
	}
}

// "A message that waits for its next attempt is sent when it is resumed, if its time
// has come" (docs/launches.md): also where elapsedDelays is shift.
func TestRetryAfterResume(t *testing.T) {
	t.Parallel()
	for name, resume := range map[string]time.Duration{"before its time": 239 * time.Minute, "after its time": 241 * time.Minute} {
		w := newWorld(t, func(h *waypost.Webhook) {
			h.Retry.Schedule = []waypost.Duration{waypost.Duration(4 * time.Hour)}
			h.Retry.Jitter = 0
		})
		w.receiver.script = func(_ waypost.Message, attempt int) answer {
			if attempt == 1 {
				return answer{status: 503}
			}
			return answer{status: 200}
		}
		start := w.env.Now()
		v := w.publish(oneTouchpoint)
		e := w.enroll(v, 1)[0]
		w.at(time.Hour, func(ctx context.Context) { _, err := w.store.PauseJourney(ctx, scope, v.JourneyID); must(t, err) })
		w.at(resume, func(ctx context.Context) {
			_, err := w.store.ResumeJourney(ctx, scope, v.JourneyID, true)
			must(t, err)
		})
		w.run()
		_, attempts := w.delivery(e, "hello")
		if at := attempts[1].At.Sub(start); at > 242*time.Minute {
			t.Errorf("resumed %s: attempt 2, planned for 4h0m, came %s after the start", name, at)
		}
	}
}

// The workflow of a canceled enrollment whose retry comes due before the notice
// does not take the canceled delivery for a failed one.
func TestCanceledDeliveryInWorkflow(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(h *waypost.Webhook) {
		h.Retry.Schedule = []waypost.Duration{waypost.Duration(time.Hour)}
		h.Retry.Jitter = 0
	})
	w.receiver.script = func(waypost.Message, int) answer { return answer{status: 503} }
	v := w.publish(oneTouchpoint)
	e := w.enroll(v, 1)[0]
	w.env.RegisterDelayedCallback(func() { // the notice comes later than the retry
		_, err := w.store.CancelEnrollment(context.Background(), scope, e.ID)
		must(t, err)
	}, 59*time.Minute)
	result := w.run()
	if result.Status != waypost.EnrollmentCanceled {
		t.Errorf("the workflow's result is %+v", result)
	}
}
