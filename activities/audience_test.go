package activities_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"go.temporal.io/sdk/testsuite"

	"waypost"
	"waypost/activities"
)

// launch makes a launch of so many new leads.
func (w *world) launch(leads int, rate float64) string {
	w.t.Helper()
	ids := make([]int64, leads)
	for i := range ids {
		lead, err := w.store.CreateLead(context.Background(), scope, waypost.LeadFields{Name: fmt.Sprint("Lead ", i)}, nil)
		must(w.t, err)
		ids[i] = lead.LeadsID
	}
	l, err := w.store.CreateLaunch(context.Background(), scope, waypost.Launch{
		JourneyID: w.version.JourneyID, Version: 1, AppID: "app_test", RatePerSecond: rate, Audience: waypost.Audience{LeadsIDs: ids},
	})
	must(w.t, err)
	must(w.t, w.store.MarkLaunchStarted(context.Background(), l.ID))
	return l.ID
}

// enroll runs the activity once, in a worker that stops when stop is closed.
func (w *world) enroll(a *activities.Activities, in activities.AudienceInput, stop chan struct{}) (p activities.AudienceProgress, err error) {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(slog.New(slog.DiscardHandler))
	env := suite.NewTestActivityEnvironment()
	env.SetTestTimeout(5 * time.Minute)
	env.SetWorkerStopChannel(stop)
	env.RegisterActivity(a.EnrollAudience)
	value, err := env.ExecuteActivity(a.EnrollAudience, in)
	if err == nil {
		err = value.Get(&p)
	}
	return p, err
}

// A launch enrolls as many as its rate has left, and does not keep a worker's slot
// until the next one is due.
func TestRateHasCredit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.process()
	const rate = 0.001
	id := w.launch(10, rate)
	for i, tt := range []struct {
		credit   float64
		enrolled int
	}{{0, 0}, {1, 1}, {0.5, 0}, {3.25, 3}, {100, 6}} {
		p, err := w.enroll(a, activities.AudienceInput{LaunchID: id, Credit: tt.credit}, nil)
		must(t, err)
		if p.Enrolled != tt.enrolled || p.Done != (i == 4) {
			t.Errorf("with %g left: %+v", tt.credit, p)
		}
		if p.Done {
			break
		}
		// The time that the test takes counts as well.
		left := tt.credit - float64(tt.enrolled)
		due := time.Duration((1 - left) / rate * float64(time.Second))
		if p.Credit < left || p.Credit > left+0.2 || p.Wait > due || p.Wait < due-200*time.Second {
			t.Errorf("with %g left, it comes again in %s with %g", tt.credit, p.Wait, p.Credit)
		}
	}
}

// However many launches wait for their rate, they leave most slots of a worker to
// others.
func TestLaunchesThatWaitHaveFewSlots(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.process()
	const rate, others = 0.21, 5 // the first lead is due after 4.8 s
	stop := make(chan struct{})
	type run struct {
		activities.AudienceProgress
		err error
	}
	ended := make(chan run, activities.PacingSlots+others)
	for range cap(ended) {
		id := w.launch(20, rate)
		go func() {
			p, err := w.enroll(a, activities.AudienceInput{LaunchID: id}, stop)
			ended <- run{p, err}
		}()
	}
	for i := range cap(ended) {
		if i == others {
			close(stop)
		}
		select {
		case r := <-ended:
			must(t, r.err)
			if away := i < others; away && (r.Wait != 5*time.Second || r.Enrolled != 0) || r.Done {
				t.Errorf("run %d of %d: %+v", i, cap(ended), r.AudienceProgress)
			}
		case <-time.After(time.Minute):
			t.Fatalf("%d of %d launches wait in an activity", cap(ended)-i, cap(ended))
		}
	}
}

// A rate that is changed while leads are enrolled by it counts with the next step.
func TestRateChangesOnTheWay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := w.process()
	id := w.launch(100, 0.5) // would take more than three minutes
	changed := make(chan error, 1)
	go func() {
		for {
			l, err := w.store.Launch(context.Background(), scope, id)
			if err != nil || l.Progress.Enrolled > 0 {
				if err == nil {
					_, err = w.store.UpdateLaunch(context.Background(), scope, id, func(l *waypost.Launch) error { l.RatePerSecond = 0; return nil })
				}
				changed <- err
				return
			}
			time.Sleep(10 * time.Millisecond)
		}
	}()
	began := time.Now()
	p, err := w.enroll(a, activities.AudienceInput{LaunchID: id}, nil)
	must(t, err)
	must(t, <-changed)
	if took := time.Since(began); !p.Done || p.Enrolled != 100 || p.RatePerSecond != 0 || took > time.Minute {
		t.Errorf("after %s: %+v", took, p)
	}
}
