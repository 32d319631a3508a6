package workflows_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"waypost"
	"waypost/workflows"
)

// leads makes n leads.
func (w *world) leads(n int) []int64 {
	w.t.Helper()
	ids := make([]int64, n)
	for i := range ids {
		external := fmt.Sprintf("ext-%d", i)
		lead, err := w.store.CreateLead(context.Background(), scope, waypost.LeadFields{Name: fmt.Sprintf("Lead %d", i), ExternalID: &external}, nil)
		must(w.t, err)
		ids[i] = lead.LeadsID
	}
	return ids
}

func (w *world) launch(l waypost.Launch) waypost.Launch {
	w.t.Helper()
	l, err := w.store.CreateLaunch(context.Background(), scope, l)
	must(w.t, err)
	return l
}

// launched has a launch of n new leads enroll them, at most waypost.MaxLaunchCohort, and
// claims their cohort.
func (w *world) launched(v waypost.JourneyVersion, n int) (enrollments []string) {
	w.t.Helper()
	l := w.launch(waypost.Launch{JourneyID: v.JourneyID, Version: v.Version, AppID: "app_test", Audience: waypost.Audience{LeadsIDs: w.leads(n)}})
	for done := false; !done; {
		step, err := w.store.EnrollAudience(context.Background(), l.ID, n)
		must(w.t, err)
		done = step.Done
	}
	w.next = w.waiting()
	for _, m := range w.next.Members {
		enrollments = append(enrollments, m.EnrollmentID)
	}
	return enrollments
}

// waiting claims the only cohort that was made by a launch or a move.
func (w *world) waiting() *waypost.Cohort {
	w.t.Helper()
	cohorts, err := w.store.ClaimLaunchCohorts(context.Background(), 10)
	must(w.t, err)
	if len(cohorts) != 1 {
		w.t.Fatalf("%d cohorts wait", len(cohorts))
	}
	return &cohorts[0]
}

func (w *world) runLaunch(l waypost.Launch) workflows.LaunchResult {
	w.t.Helper()
	must(w.t, w.store.MarkLaunchStarted(context.Background(), l.ID))
	in := workflows.LaunchInput{Scope: scope, LaunchID: l.ID, JourneyID: l.JourneyID}
	if l.StartAt != nil {
		in.StartAt = *l.StartAt
	}
	w.env.ExecuteWorkflow(workflows.TypeLaunch, in)
	must(w.t, w.env.GetWorkflowError())
	var result workflows.LaunchResult
	must(w.t, w.env.GetWorkflowResult(&result))
	return result
}

// A launch enrolls each lead of its audience once, when it is time.
func TestLaunch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	v := w.publish(oneTouchpoint)
	ids := w.leads(230)
	startAt := w.env.Now().Add(5 * time.Hour)
	l := w.launch(waypost.Launch{
		JourneyID: v.JourneyID, Version: v.Version, AppID: "app_test", StartAt: &startAt,
		Audience: waypost.Audience{LeadsIDs: append(ids, 999_999_999)},
	})
	if l.Status != waypost.LaunchScheduled {
		t.Errorf("before its time it is %s", l.Status)
	}
	begin := w.env.Now()
	result := w.runLaunch(l)
	if at := w.env.Now().Sub(begin); at < 5*time.Hour || at > 6*time.Hour {
		t.Errorf("it was done %s after its creation", at)
	}
	if result.Enrolled != 230 || result.Skipped != 1 {
		t.Errorf("result %+v", result)
	}
	members := map[int64]int{}
	for {
		cohorts, err := w.store.ClaimLaunchCohorts(context.Background(), 10)
		must(t, err)
		if len(cohorts) == 0 {
			break
		}
		for _, c := range cohorts {
			if c.LaunchID != l.ID || len(c.Members) > waypost.MaxLaunchCohort {
				t.Errorf("cohort %s of %q has %d members", c.ID, c.LaunchID, len(c.Members))
			}
			for _, m := range c.Members {
				members[m.LeadsID]++
			}
		}
	}
	for _, id := range ids {
		if members[id] != 1 {
			t.Errorf("lead %d is in %d cohorts", id, members[id])
		}
	}
	l, err := w.store.Launch(context.Background(), scope, l.ID)
	must(t, err)
	if p := l.Progress; p.Total != 231 || p.Enrolled != 230 || p.Skipped != 1 || p.Completed != 0 || l.Status != waypost.LaunchRunning {
		t.Errorf("%s with %+v", l.Status, p)
	}
}

// A paused launch enrolls nobody until it is resumed; a canceled one nobody more,
// also before its time.
func TestLaunchControl(t *testing.T) {
	t.Parallel()
	t.Run("pause", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		v := w.publish(oneTouchpoint)
		w.leads(20)
		l := w.launch(waypost.Launch{JourneyID: v.JourneyID, Version: v.Version, AppID: "app_test", Audience: waypost.Audience{Filter: &waypost.LeadFilter{}}})
		_, err := w.store.PauseLaunch(context.Background(), scope, l.ID)
		must(t, err)
		w.at(3*time.Hour, func(ctx context.Context) {
			paused, err := w.store.Launch(ctx, scope, l.ID)
			must(t, err)
			if paused.Status != waypost.LaunchPaused || paused.Progress.Enrolled != 0 {
				t.Errorf("paused: %s with %+v", paused.Status, paused.Progress)
			}
			_, err = w.store.ResumeLaunch(ctx, scope, l.ID, true)
			must(t, err)
		})
		if result := w.runLaunch(l); result.Enrolled != 20 || result.Canceled {
			t.Errorf("result %+v", result)
		}
	})
	t.Run("cancel before its time", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t, nil)
		v := w.publish(oneTouchpoint)
		w.leads(20)
		startAt := w.env.Now().Add(50 * time.Hour)
		l := w.launch(waypost.Launch{
			JourneyID: v.JourneyID, Version: v.Version, AppID: "app_test", StartAt: &startAt, Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
		})
		w.at(time.Hour, func(ctx context.Context) {
			// Pausing and resuming it does not start it early.
			_, err := w.store.PauseLaunch(ctx, scope, l.ID)
			must(t, err)
			_, err = w.store.ResumeLaunch(ctx, scope, l.ID, true)
			must(t, err)
		})
		w.env.RegisterDelayedCallback(func() { w.env.SignalWorkflow(workflows.SignalWake, workflows.Wake{}) }, 2*time.Hour)
		w.at(10*time.Hour, func(ctx context.Context) {
			_, err := w.store.CancelLaunch(ctx, scope, l.ID)
			must(t, err)
		})
		begin := w.env.Now()
		if result := w.runLaunch(l); result.Enrolled != 0 || !result.Canceled {
			t.Errorf("result %+v", result)
		}
		if at := w.env.Now().Sub(begin); at > 11*time.Hour {
			t.Errorf("the workflow ended %s after the start", at)
		}
		l, err := w.store.Launch(context.Background(), scope, l.ID)
		must(t, err)
		if l.Status != waypost.LaunchCanceled || l.Progress.Enrolled != 0 {
			t.Errorf("%s with %+v", l.Status, l.Progress)
		}
	})
}

// A launch whose rate is low waits in its workflow, and can be canceled meanwhile.
func TestLaunchAtALowRate(t *testing.T) {
	t.Parallel()
	const each = 20 * time.Second
	for name, tt := range map[string]struct {
		cancel   time.Duration
		enrolled int
	}{"to its end": {0, 5}, "canceled": {50 * time.Second, 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			v := w.publish(oneTouchpoint)
			l := w.launch(waypost.Launch{
				JourneyID: v.JourneyID, Version: v.Version, AppID: "app_test", RatePerSecond: 1 / each.Seconds(), Audience: waypost.Audience{LeadsIDs: w.leads(5)},
			})
			if tt.cancel > 0 {
				w.at(tt.cancel, func(ctx context.Context) {
					_, err := w.store.CancelLaunch(ctx, scope, l.ID)
					must(t, err)
				})
			}
			begin, really := w.env.Now(), time.Now()
			if result := w.runLaunch(l); result.Enrolled != tt.enrolled || result.Canceled != (tt.cancel > 0) {
				t.Errorf("result %+v", result)
			}
			// The rate counts the time in activities, too, which the environment's clock leaves out.
			took := w.env.Now().Sub(begin) + time.Since(really)
			if least, most := time.Duration(tt.enrolled)*each-time.Second, time.Duration(tt.enrolled+1)*each; took < least || took > most {
				t.Errorf("%d leads took %s", tt.enrolled, took)
			}
		})
	}
}

// A launch that waits for its rate hears of a new one at once.
func TestLaunchRateChanges(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	v := w.publish(oneTouchpoint)
	l := w.launch(waypost.Launch{JourneyID: v.JourneyID, Version: v.Version, AppID: "app_test", RatePerSecond: 0.01, Audience: waypost.Audience{LeadsIDs: w.leads(50)}})
	w.at(30*time.Second, func(ctx context.Context) {
		_, err := w.store.UpdateLaunch(ctx, scope, l.ID, func(l *waypost.Launch) error { l.RatePerSecond = 0; return nil })
		must(t, err)
	})
	begin := w.env.Now()
	if result := w.runLaunch(l); result.Enrolled != 50 {
		t.Errorf("result %+v", result)
	}
	if took := w.env.Now().Sub(begin); took > time.Minute {
		t.Errorf("50 leads took %s", took)
	}
}

// A launch with a test holds the rest until the time for a winner is over, through a pause, or is canceled.
func TestLaunchHolds(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		undecided waypost.Undecided
		cancel    bool
		enrolled  int
		took      time.Duration
	}{
		"split": {waypost.UndecidedSplit, false, 50, 48 * time.Hour}, "stop": {waypost.UndecidedStop, false, 10, 48 * time.Hour},
		"canceled": {waypost.UndecidedSplit, true, 10, 5 * time.Hour},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			v := w.publish(oneTouchpoint)
			l := w.launch(waypost.Launch{
				JourneyID: v.JourneyID, Version: v.Version, AppID: "app_test", Audience: waypost.Audience{LeadsIDs: w.leads(50)},
				Test: &waypost.LaunchTest{Leads: 10, After: 48 * time.Hour, Undecided: tt.undecided, NodeID: "s", Contest: waypost.Contest{Arms: 2, Leads: 10}},
			})
			w.at(time.Hour, func(ctx context.Context) {
				held, err := w.store.Launch(ctx, scope, l.ID)
				must(t, err)
				if held.Progress.Enrolled != 10 || held.Progress.Held != 40 || held.Test.Status != waypost.TestWaiting {
					t.Errorf("it holds %+v", held.Progress)
				}
				_, err = w.store.PauseLaunch(ctx, scope, l.ID)
				must(t, err)
			})
			w.at(2*time.Hour, func(ctx context.Context) {
				_, err := w.store.ResumeLaunch(ctx, scope, l.ID, true)
				must(t, err)
			})
			if tt.cancel {
				w.at(5*time.Hour, func(ctx context.Context) {
					_, err := w.store.CancelLaunch(ctx, scope, l.ID)
					must(t, err)
				})
			}
			begin := w.env.Now()
			if result := w.runLaunch(l); result.Enrolled != tt.enrolled || result.Canceled != tt.cancel {
				t.Errorf("result %+v", result)
			}
			if took := w.env.Now().Sub(begin); took < tt.took || took > tt.took+time.Minute {
				t.Errorf("it took %s, want %s", took, tt.took)
			}
		})
	}
}

// The details of a workflow whose leads do not fit in say how many are missing: Temporal
// takes 20,000 bytes.
func TestDetailsOfMany(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	first, second := strings.Repeat("a", 60), strings.Repeat("b", 60)
	v := w.publish(fmt.Sprintf(`{"name":"J","start":%q,"nodes":[
		{"id":%[1]q,"type":"delay","for":"1h","next":%[2]q},
		{"id":%[2]q,"type":"delay","for":"1h"}]}`, first, second))
	w.launched(v, waypost.MaxLaunchCohort)
	w.env.RegisterDelayedCallback(func() {
		details := w.details()
		lines := strings.Split(details, "\n- ")[1:]
		names := len(lines) - 1
		if names < 50 || len(details) >= 20_000 || lines[names] != fmt.Sprintf("and %d more", waypost.MaxLaunchCohort-names) {
			t.Errorf("%d leads in %d bytes, and at the end %q", names, len(details), lines[names])
		}
	}, 90*time.Minute)
	w.run()
}
