package workflows_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
	"waypost/workflows"
)

// lead makes a lead in a time zone and enrolls it.
func (w *world) leadIn(v waypost.JourneyVersion, zone string) waypost.Enrollment {
	w.t.Helper()
	fields := waypost.LeadFields{Name: "Ada"}
	if zone != "" {
		fields.CustomFields = map[string]any{"timezone": zone}
	}
	lead, err := w.store.CreateLead(context.Background(), scope, fields, nil)
	must(w.t, err)
	e, err := w.store.Enroll(context.Background(), scope, waypost.Enrollment{JourneyID: v.JourneyID, Version: v.Version, LeadsID: lead.LeadsID, AppID: "app_test"}, waypost.Reentry{})
	must(w.t, err)
	return e
}

// lines tells the timeline with its reasons.
func (w *world) lines(e waypost.Enrollment) (lines []string) {
	w.t.Helper()
	_, entries, err := w.store.Enrollment(context.Background(), scope, e.ID)
	must(w.t, err)
	for _, entry := range entries {
		lines = append(lines, strings.TrimSpace(entry.NodeID+" "+entry.What+" "+entry.Reason))
	}
	return lines
}

func (w *world) acceptEvent(lead int64, name string) {
	w.t.Helper()
	_, err := w.store.AcceptEvent(context.Background(), scope, waypost.Event{EventID: waypost.NewID("evt_", w.env.Now()), Name: name, LeadsID: lead})
	must(w.t, err)
}

func (w *world) posted() int {
	w.receiver.mu.Lock()
	defer w.receiver.mu.Unlock()
	n := 0
	for _, posts := range w.receiver.posts {
		n += len(posts)
	}
	return n
}

// Messages go out when the quiet hours of their lead's time zone are over, first
// attempts and others; those of one zone together.
func TestQuietHours(t *testing.T) {
	t.Parallel()
	const quiet = `{"name":"Quiet","start":"hello","quietHours":{"from":"21:00","to":"08:00","timezone":"Asia/Shanghai"},"nodes":[
		{"id":"hello","type":"touchpoint","webhook":"WEBHOOK"}]}`
	day := func(hour, minute int) time.Time { return time.Date(2026, 3, 2, hour, minute, 0, 0, time.UTC) }
	for _, n := range []int{1, 3} {
		for name, tt := range map[string]struct {
			start time.Time
			zone  string
			want  []time.Time // of the attempts
			fails int
			after []string // the timeline between entered and sent
		}{
			"in the evening":           {day(13, 30), "", []time.Time{day(24, 0)}, 0, []string{"hello deferred quietHours"}},
			"after midnight":           {day(20, 0), "", []time.Time{day(24, 0)}, 0, []string{"hello deferred quietHours"}},
			"by day":                   {day(1, 0), "", []time.Time{day(1, 0)}, 0, nil},
			"in the lead's own zone":   {day(13, 30), "Europe/London", []time.Time{day(13, 30)}, 0, nil},
			"night of the lead's zone": {day(6, 0), "Asia/Kathmandu", []time.Time{day(6, 0)}, 0, nil},
			"a quarter of an hour":     {day(2, 0), "Asia/Kathmandu", []time.Time{day(2, 15)}, 0, []string{"hello deferred quietHours"}},
			// The second attempt would fall into the night, which does not count for giving up:
			// of the time for that half an hour is over.
			"a retry": {day(12, 58), "", []time.Time{day(12, 58), day(24, 0)}, 1, []string{"hello deferred quietHours"}},
		} {
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, func(h *waypost.Webhook) {
					h.Retry.Schedule, h.Retry.Jitter = []waypost.Duration{waypost.Duration(5 * time.Minute)}, 0
				})
				w.newEnvironmentAt(tt.start)
				w.register()
				w.receiver.script = func(_ waypost.Message, attempt int) answer {
					if attempt <= tt.fails {
						return answer{status: 503}
					}
					return answer{status: 200}
				}
				v := w.publish(quiet)
				var enrolled []waypost.Enrollment
				for range n {
					enrolled = append(enrolled, w.leadIn(v, tt.zone))
				}
				w.run()
				for _, e := range enrolled {
					d, attempts := w.delivery(e, "hello")
					if d.Status != waypost.DeliverySucceeded || len(attempts) != len(tt.want) || d.Attempts != len(tt.want) {
						t.Fatalf("%s after %d attempts, want %d", d.Status, len(attempts), len(tt.want))
					}
					for i, want := range tt.want {
						if late := attempts[i].At.Sub(want); late < 0 || late > 3*time.Second {
							t.Errorf("attempt %d at %s, want %s", i+1, attempts[i].At, want)
						}
					}
					want := append(append([]string{"hello entered"}, tt.after...), "hello sent", "hello exited no next node")
					if got := w.lines(e); !slices.Equal(got, want) {
						t.Errorf("timeline %q, want %q", got, want)
					}
				}
			})
		}
	}
}

// What was held back for something else is told to wait for the morning, once.
func TestQuietHoursAfterAnotherDeferral(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(h *waypost.Webhook) { h.Enabled = false })
	w.newEnvironmentAt(time.Date(2026, 3, 2, 20, 0, 0, 0, time.UTC))
	w.register()
	e := w.leadIn(w.publish(`{"name":"Quiet","start":"hello","quietHours":{"from":"21:00","to":"08:00"},"nodes":[
		{"id":"hello","type":"touchpoint","webhook":"WEBHOOK"}]}`), "")
	w.at(2*time.Hour, func(ctx context.Context) {
		_, err := w.store.UpdateWebhook(ctx, scope, w.webhook.ID, func(h *waypost.Webhook) error { h.Enabled = true; return nil })
		must(t, err)
	})
	w.env.RegisterDelayedCallback(func() { // somebody has it looked at in the night
		w.env.SignalWorkflow(workflows.SignalWake, workflows.Wake{})
	}, 4*time.Hour)
	w.run()
	want := []string{"hello entered", "hello deferred webhookDisabled", "hello deferred quietHours", "hello sent", "hello exited no next node"}
	if got := w.lines(e); !slices.Equal(got, want) {
		t.Errorf("timeline %q, want %q", got, want)
	}
	if _, attempts := w.delivery(e, "hello"); !attempts[0].At.Equal(time.Date(2026, 3, 3, 8, 0, 0, 0, time.UTC)) {
		t.Errorf("sent at %s", attempts[0].At)
	}
}

// A touchpoint that the cap forbids is skipped, and its journey goes on.
func TestFrequencyCap(t *testing.T) {
	t.Parallel()
	const capped = `{"name":"Capped","start":"one","frequencyCap":{"touchpoints":1,"per":"24h"},"nodes":[
		{"id":"one","type":"touchpoint","webhook":"WEBHOOK","next":"two"},
		{"id":"two","type":"touchpoint","webhook":"WEBHOOK","next":"sent","onFailure":"end"},
		{"id":"sent","type":"branch","cases":[{"when":"touchpoints.two.succeed || !touchpoints.two.succeed","next":"end"}],"otherwise":"wait"},
		{"id":"wait","type":"delay","for":"24h","next":"three"},
		{"id":"three","type":"touchpoint","webhook":"WEBHOOK","next":"end"},
		{"id":"end","type":"exit"}]}`
	for _, n := range []int{1, 4} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(h *waypost.Webhook) {
				h.Retry.Schedule, h.Retry.Jitter = []waypost.Duration{waypost.Duration(time.Second)}, 0
			})
			// Retries are not capped.
			w.receiver.script = func(_ waypost.Message, attempt int) answer {
				if attempt == 1 {
					return answer{status: 503}
				}
				return answer{status: 200}
			}
			enrolled := w.enroll(w.publish(capped), n)
			result := w.run()
			for _, e := range enrolled {
				got := w.lines(e)
				for i, line := range got {
					got[i], _, _ = strings.Cut(line, " until 20")
				}
				want := []string{"one entered", "one sent", "two skipped frequencyCap", "sent took otherwise; case 1: touchpoints.two.succeed → error: no such key", "wait entered", "wait waited", "three sent", "end exited"}
				for i, line := range want {
					if i >= len(got) || !strings.HasPrefix(got[i], line) {
						t.Fatalf("timeline %q, want %q", got, want)
					}
				}
				list, err := w.store.ListDeliveries(context.Background(), scope, waypost.DeliveryFilter{EnrollmentID: e.ID}, waypost.Page{Limit: 10})
				must(t, err)
				if len(list) != 2 {
					t.Errorf("%d deliveries: %+v", len(list), list)
				}
			}
			if posts := w.posted(); posts != 4*n {
				t.Errorf("%d POSTs", posts)
			}
			if n == 1 {
				if i := slices.IndexFunc(result.Path, func(s journey.Visit) bool { return s.Node == "two" }); i < 0 || result.Path[i].Result != "skipped" {
					t.Errorf("result %+v", result)
				}
				return
			}
			if i := slices.IndexFunc(result.Touchpoints, func(c workflows.NodeCount) bool { return c.Node == "two" }); i < 0 || result.Touchpoints[i] != (workflows.NodeCount{Node: "two", Skipped: n}) {
				t.Errorf("result %+v", result)
			}
		})
	}
}

// A touchpoint that is given up gives its place in the cap back, so that its fallback
// goes out; one that succeeds keeps it, after retries too.
func TestFrequencyCapAfterFailure(t *testing.T) {
	t.Parallel()
	const capped = `{"name":"Capped","start":"one","frequencyCap":{"touchpoints":1,"per":"24h"},"nodes":[
		{"id":"one","type":"touchpoint","webhook":"WEBHOOK","params":{"p":"PARAM"},"next":"end","onFailure":"two"},
		{"id":"two","type":"touchpoint","webhook":"WEBHOOK","next":"three","onFailure":"end"},
		{"id":"three","type":"touchpoint","webhook":"WEBHOOK","next":"end"},
		{"id":"end","type":"exit"}]}`
	for name, tt := range map[string]struct {
		param  string
		one    answer
		reason string
		posts  int
	}{
		"refused":          {param: "x", one: answer{status: 400}, reason: "httpStatus 400", posts: 2},
		"succeed false":    {param: "x", one: answer{status: 200, body: `{"succeed":false}`}, reason: "succeedFalse", posts: 2},
		"never made":       {param: "{{ 1 | divided_by: lead.customFields.none }}", reason: "render", posts: 1},
		"attempts are out": {param: "x", one: answer{status: 503}, reason: "httpStatus 503", posts: 4},
	} {
		for _, n := range []int{1, 4} {
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, func(h *waypost.Webhook) {
					h.Retry.Schedule, h.Retry.Jitter, h.Retry.MaxAttempts = []waypost.Duration{waypost.Duration(time.Second)}, 0, 3
				})
				w.receiver.script = func(m waypost.Message, _ int) answer {
					if strings.HasSuffix(m.JourneyInfo.ActionDefID, "/one") {
						return tt.one
					}
					return answer{status: 200}
				}
				enrolled := w.enroll(w.publish(strings.Replace(capped, "PARAM", tt.param, 1)), n)
				w.run()
				want := []string{"one entered", "one failed " + tt.reason, "two sent", "three skipped frequencyCap", "end exited"}
				for _, e := range enrolled {
					if got := w.lines(e); !slices.Equal(got, want) {
						t.Errorf("timeline %q, want %q", got, want)
					}
				}
				if posts := w.posted(); posts != tt.posts*n {
					t.Errorf("%d POSTs, want %d", posts, tt.posts*n)
				}
			})
		}
	}
}

// An event ends enrollments wherever they stand: nothing more is sent, and the lead
// may enter again.
func TestExitOn(t *testing.T) {
	t.Parallel()
	const exits = `"exitOn":[{"event":"bought"}],"name":"J",`
	for name, tt := range map[string]struct {
		definition string
		status     int
		pause      bool
		posts      int // at least and, of a single one, at most
		stood      string
	}{
		"in a delay":           {definition: strings.Replace(delayed, `"name":"Delayed",`, exits, 1), status: 200, posts: 1, stood: "wait"},
		"paused in a delay":    {definition: strings.Replace(delayed, `"name":"Delayed",`, exits, 1), status: 200, pause: true, posts: 1, stood: "wait"},
		"between two attempts": {definition: strings.Replace(oneTouchpoint, `{`, `{"exitOn":[{"event":"bought"}],`, 1), status: 503, posts: 5, stood: "hello"},
		"waiting for it": {definition: `{` + exits + `"start":"wait","nodes":[{"id":"wait","type":"waitForEvent","event":"bought","timeout":"72h","next":"hello"},
			{"id":"hello","type":"touchpoint","webhook":"WEBHOOK"}]}`, stood: "wait"},
		"in quiet hours": {definition: `{` + exits + `"start":"hello","quietHours":{"from":"07:00","to":"23:00"},"nodes":[{"id":"hello","type":"touchpoint","webhook":"WEBHOOK"}]}`, stood: "hello"},
	} {
		for _, n := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, %d", name, n), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, func(h *waypost.Webhook) {
					h.Retry.Schedule, h.Retry.Jitter = []waypost.Duration{waypost.Duration(15 * time.Minute)}, 0
				})
				w.receiver.script = func(waypost.Message, int) answer { return answer{status: tt.status} }
				v := w.publish(tt.definition)
				enrolled := w.enroll(v, n)
				leaver := enrolled[n-1]
				if tt.pause {
					w.at(30*time.Minute, func(ctx context.Context) {
						_, err := w.store.PauseEnrollment(ctx, scope, leaver.ID)
						must(t, err)
					})
				}
				w.at(65*time.Minute, func(context.Context) {
					w.acceptEvent(leaver.LeadsID, "Bought")
					w.acceptEvent(leaver.LeadsID, "bought")
				})
				w.at(66*time.Minute, func(ctx context.Context) {
					for _, e := range enrolled[:n-1] {
						_, err := w.store.CancelEnrollment(ctx, scope, e.ID)
						must(t, err)
					}
				})
				start := w.env.Now()
				result := w.run()
				if elapsed := w.env.Now().Sub(start); elapsed > 2*time.Hour {
					t.Errorf("the workflow ended %s after the start", elapsed)
				}
				for _, e := range enrolled[:n-1] {
					if status, _ := w.timeline(e); status != waypost.EnrollmentCanceled {
						t.Errorf("another one is %s", status)
					}
				}
				status, _ := w.timeline(leaver)
				lines := w.lines(leaver)
				if status != waypost.EnrollmentExited || lines[len(lines)-1] != tt.stood+" exited event bought" {
					t.Errorf("%s by way of %q", status, lines)
				}
				if n == 1 && result.Status != waypost.EnrollmentExited || n > 1 && result.Exited != 1 {
					t.Errorf("result %+v", result)
				}
				if posts := w.posted(); posts < n*tt.posts || n == 1 && posts > tt.posts {
					t.Errorf("%d POSTs", posts)
				}
				list, err := w.store.ListDeliveries(context.Background(), scope, waypost.DeliveryFilter{EnrollmentID: leaver.ID}, waypost.Page{Limit: 10})
				must(t, err)
				for _, d := range list {
					if !d.Status.Final() {
						t.Errorf("the delivery at %s is %s", d.NodeID, d.Status)
					}
				}
				if _, err := w.store.Enroll(context.Background(), scope, waypost.Enrollment{JourneyID: v.JourneyID, Version: 1, LeadsID: leaver.LeadsID}, waypost.Reentry{}); err != nil {
					t.Errorf("the lead may not enter again: %v", err)
				}
			})
		}
	}
}

// An event comes while the last POST is under way: the workflow says of the enrollment
// what the database does.
func TestExitDuringLastPost(t *testing.T) {
	t.Parallel()
	for _, n := range []int{1, 3} {
		for _, status := range []int{200, 404} {
			t.Run(fmt.Sprint(n, status), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				var leaver waypost.Enrollment
				w.receiver.script = func(m waypost.Message, _ int) answer {
					if m.UserProfile.AffID == fmt.Sprint(leaver.LeadsID) {
						w.acceptEvent(leaver.LeadsID, "bought")
					}
					return answer{status: status}
				}
				enrolled := w.enroll(w.publish(strings.Replace(oneTouchpoint, `{`, `{"exitOn":[{"event":"bought"}],`, 1)), n)
				leaver = enrolled[0]
				result := w.run()
				if n == 1 && result.Status != waypost.EnrollmentExited || n > 1 && result.Exited != 1 {
					t.Errorf("result %+v", result)
				}
				for i, e := range enrolled {
					want, last := waypost.EnrollmentCompleted, " exited"
					if i == 0 {
						want, last = waypost.EnrollmentExited, "exited event bought"
					}
					now, _ := w.timeline(e)
					if lines := w.lines(e); now != want || !strings.HasSuffix(lines[len(lines)-1], last) {
						t.Errorf("%d is %s by way of %q", i, now, lines)
					}
				}
			})
		}
	}
}

// An event comes while a POST is under way: that outcome is recorded, and then the
// enrollment ends, told or not.
func TestExitDuringPost(t *testing.T) {
	t.Parallel()
	for _, status := range []int{200, 404, 503} {
		for _, notified := range []bool{true, false} {
			t.Run(fmt.Sprint(status, notified), func(t *testing.T) {
				t.Parallel()
				w := newWorld(t, nil)
				e := waypost.Enrollment{}
				var accepted atomic.Bool
				w.receiver.script = func(_ waypost.Message, attempt int) answer {
					if attempt == 1 {
						w.acceptEvent(e.LeadsID, "bought")
						accepted.Store(true)
					}
					return answer{status: status}
				}
				e = w.enroll(w.publish(strings.Replace(delayed, `"name"`, `"exitOn":[{"event":"bought"}],"name"`, 1)), 1)[0]
				if notified {
					var tell func()
					tell = func() { // while an activity runs, the environment's timers go by the wall clock
						if accepted.Load() {
							w.tell()
						} else {
							w.env.RegisterDelayedCallback(tell, 100*time.Millisecond)
						}
					}
					w.env.RegisterDelayedCallback(tell, 3*time.Second)
				}
				start := w.env.Now()
				result := w.run()
				if elapsed := w.env.Now().Sub(start); notified && elapsed > time.Minute {
					t.Errorf("the workflow ended %s after the start", elapsed)
				}
				if result.Status != waypost.EnrollmentExited {
					t.Errorf("result %+v", result)
				}
				if posts := w.posted(); posts != 1 {
					t.Errorf("%d POSTs", posts)
				}
				d, attempts := w.delivery(e, "hello")
				want := map[int]waypost.DeliveryStatus{200: waypost.DeliverySucceeded, 404: waypost.DeliveryFailed, 503: waypost.DeliveryCanceled}[status]
				if d.Status != want || len(attempts) != 1 || attempts[0].HTTPStatus != status {
					t.Errorf("%s with %+v", d.Status, attempts)
				}
				lines := w.lines(e)
				if last := lines[len(lines)-1]; !strings.HasSuffix(last, "exited event bought") || len(lines) < 2 {
					t.Errorf("timeline %q", lines)
				}
			})
		}
	}
}

// An enrollment that exits before its workflow begins ends at once.
func TestExitBeforeStart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	enrolled := w.enroll(w.publish(strings.Replace(delayed, `"name"`, `"exitOn":[{"event":"bought"}],"name"`, 1)), 2)
	in := w.claim()
	w.acceptEvent(enrolled[0].LeadsID, "bought")
	w.env.ExecuteWorkflow(workflows.TypeJourney, in)
	must(t, w.env.GetWorkflowError())
	if _, lines := w.timeline(enrolled[0]); lines[len(lines)-1] != "hello exited" {
		t.Errorf("timeline %q", lines)
	}
	if posts := w.posted(); posts != 2 { // of the other one
		t.Errorf("%d POSTs", posts)
	}
	var result workflows.JourneyResult
	must(t, w.env.GetWorkflowResult(&result))
	if result.Exited != 1 {
		t.Errorf("result %+v", result)
	}
}
