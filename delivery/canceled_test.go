package delivery_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"waypost/activities"
	"waypost/delivery"
	"waypost/journey"
	"waypost/store"
)

// An enrollment is canceled while a POST of it is under way, and the process that
// made the POST dies: its delivery must become final all the same.
func TestCancelAndCrashLeavesNoOpenDelivery(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	hang := make(chan struct{})
	w.answer(func(http.ResponseWriter, *http.Request, string) { <-hang })
	held := make(chan struct{})
	dead := w.begin(w.process(slowRecords{w.store, held})) // never records: it was killed
	defer func() { close(hang); close(held); <-dead }()
	_, err := w.store.CancelEnrollment(context.Background(), scope, w.items[0].EnrollmentID)
	must(t, err)
	w.clock.advance(cutOff)
	got := fmt.Sprint(w.deliverAll(w.process(nil)))
	d, _ := w.attempts(0)
	if got != "[canceled]" || !d.Status.Final() {
		t.Errorf("the workflow is told %s and ends, the delivery stays %s", got, d.Status)
	}
}

// A delivery that a cancel has canceled is told to the workflow as canceled.
func TestCanceledDeliveryIsNotFailed(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) { rw.WriteHeader(503) })
	a := w.process(nil)
	if got := fmt.Sprint(w.deliverAll(a)); got != "[retrying]" {
		t.Fatal(got)
	}
	_, err := w.store.CancelEnrollment(context.Background(), scope, w.items[0].EnrollmentID)
	must(t, err)
	w.clock.advance(time.Minute)
	if got := fmt.Sprint(w.deliverAll(a)); got != "[canceled]" {
		t.Errorf("outcome %s", got)
	}
}

// resumedAtHold has the journey resumed between the reading of the controls and
// the registration for the resume.
type resumedAtHold struct {
	*store.Store
	journey string
}

func (s resumedAtHold) Hold(ctx context.Context, workflowID string, targets []string) ([]string, error) {
	if _, err := s.Store.ResumeJourney(ctx, scope, s.journey, true); err != nil {
		return nil, err
	}
	return s.Store.Hold(ctx, workflowID, targets)
}

// A resume with shift that comes in the middle of a look moves the end of a wait.
func TestResumeDuringLookShifts(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1)
	item := w.items[0]
	since := w.clock.now().UTC()
	item.State.Phase, item.Since, item.Planned = journey.PhaseWait, since, since.Add(10*time.Hour)
	w.clock.advance(time.Hour)
	_, err := w.store.PauseJourney(context.Background(), scope, w.version.JourneyID)
	must(t, err)
	w.clock.advance(9*time.Hour + time.Second) // the delay's time has come during the pause
	a := w.process(resumedAtHold{w.store, w.version.JourneyID})
	findings := w.look(a, []delivery.Item{item})
	if f := findings[0]; f.Outcome == activities.FoundOver {
		t.Errorf("the delay is over, though nine hours of it were left when the pause began: %+v", f)
	}
}

// look has the activities of an engine's process look at items.
func (w *world) look(engine *delivery.Engine, items []delivery.Item) (findings []activities.Finding) {
	w.t.Helper()
	a := activities.New(activities.Options{Engine: engine, Store: w.store, Log: slog.New(slog.DiscardHandler), Now: w.clock.now})
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(slog.New(slog.DiscardHandler))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(a.LookBatch)
	value, err := env.ExecuteActivity(a.LookBatch, delivery.Batch{
		Scope: scope, JourneyID: w.version.JourneyID, Version: 1, Now: w.clock.now().UTC(), Items: items,
	})
	must(w.t, err)
	must(w.t, value.Get(&findings))
	return findings
}

// In a cohort the workflow learns of a cancel by a look while a slow
// POST goes on, and ends; then the process dies.
func TestCancelOfStragglerAndCrash(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 2)
	hang := make(chan struct{})
	w.answer(func(_ http.ResponseWriter, _ *http.Request, id string) {
		if id == "ext-1" {
			<-hang
		}
	})
	defer close(hang)
	w.stragglers = 300 * time.Millisecond
	a := w.process(nil)
	if got := w.deliverLate(a, 1); got != "[delivered underWay]" {
		t.Fatal(got)
	}
	_, err := w.store.CancelEnrollment(context.Background(), scope, w.items[1].EnrollmentID)
	must(t, err)
	findings := w.look(a, w.items[1:])
	if d, _ := w.attempts(1); findings[0].Outcome == delivery.OutcomeCanceled && !d.Status.Final() {
		t.Errorf("the workflow is told %s and ends, while the delivery is %s with an attempt under way that nobody looks after",
			findings[0].Outcome, d.Status)
	}
}

// A lead is deleted while its message is sent: that is recorded, by whoever made the
// POST or, if its process died, by the next one. Nothing is sent after it, and what was
// stored of it is erased then.
func TestLeadDeletedWhileItsMessageIsSent(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		dies   bool
		status int
		want   string
	}{
		"delivered":        {status: 200, want: "[delivered]"},
		"would be retried": {status: 503, want: "[canceled]"},
		"its process dies": {dies: true, status: 200, want: "[canceled]"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, 1)
			hang, held := make(chan struct{}), make(chan struct{})
			w.answer(func(rw http.ResponseWriter, _ *http.Request, _ string) {
				<-hang
				rw.WriteHeader(tt.status)
				_, _ = io.WriteString(rw, `{"succeed":true,"message":"thanks"}`)
			})
			a := w.process(nil)
			if tt.dies {
				a = w.process(slowRecords{w.store, held}) // never records: it was killed
			}
			answered := w.begin(a)
			must(t, w.store.DeleteLead(context.Background(), scope, w.items[0].LeadsID, nil))
			if tt.dies {
				defer func() { close(hang); close(held); <-answered }()
				w.clock.advance(cutOff)
			} else {
				close(hang)
				must(t, <-answered)
			}
			if got := fmt.Sprint(w.deliverAll(w.process(nil))); got != tt.want || w.totalPosts() != 1 {
				t.Errorf("the workflow is told %s after %d POSTs, want %s", got, w.totalPosts(), tt.want)
			}
			d, attempts := w.attempts(0)
			_, _, body, err := w.store.Delivery(context.Background(), scope, d.MessageID)
			must(t, err)
			if !d.Status.Final() || len(attempts) != 1 || body != nil || attempts[0].Message != "" || attempts[0].ResponseExcerpt != "" {
				t.Errorf("recorded is %+v with %+v and %q", d, attempts, body)
			}
		})
	}
}
