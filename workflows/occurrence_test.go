package workflows_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"go.temporal.io/sdk/temporal"

	"waypost"
	"waypost/workflows"
)

// faltering is a store that is away for the first calls, and whose answer is lost once.
type faltering struct {
	database
	calls atomic.Int32
}

func (f *faltering) OpenOccurrence(ctx context.Context, id string, at time.Time) (waypost.Occurrence, error) {
	switch f.calls.Add(1) {
	case 1, 2:
		return waypost.Occurrence{}, errors.New("the database is away")
	case 3:
		_, err := f.database.OpenOccurrence(ctx, id, at)
		return waypost.Occurrence{}, errors.Join(err, errors.New("the answer was lost"))
	}
	return f.database.OpenOccurrence(ctx, id, at)
}

// occur runs LaunchOccurrence as a Schedule starts it.
func (w *world) occur(l waypost.Launch, at time.Time) (result workflows.OccurrenceResult, err error) {
	w.t.Helper()
	scheduled := temporal.NewSearchAttributeKeyTime("TemporalScheduledStartTime")
	must(w.t, w.env.SetTypedSearchAttributesOnStart(temporal.NewSearchAttributes(scheduled.ValueSet(at))))
	w.env.ExecuteWorkflow(workflows.TypeLaunchOccurrence, workflows.OccurrenceInput{Scope: scope, LaunchID: l.ID, JourneyID: l.JourneyID})
	if err := w.env.GetWorkflowError(); err != nil {
		return result, err
	}
	must(w.t, w.env.GetWorkflowResult(&result))
	return result, nil
}

// An occurrence is opened once, for its time in the schedule, though the workflow comes
// later and its first tries fail.
func TestLaunchOccurrence(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	v := w.publish(oneTouchpoint)
	w.newEnvironment()
	store := &faltering{database: w.store}
	w.registerWith(store)
	l := w.launch(waypost.Launch{
		JourneyID: v.JourneyID, Version: v.Version, AppID: "app_test", Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
		Schedule: &waypost.Schedule{Cron: "30 7 * * *", Timezone: "UTC"},
	})
	at := w.env.Now().Add(-30 * time.Minute).UTC()
	result, err := w.occur(l, at)
	must(t, err)
	if result.Launch == "" || result.Skipped != "" || !result.At.Equal(at) || store.calls.Load() != 4 || w.woken.Load() == 0 {
		t.Errorf("%+v after %d calls, woken %d times", result, store.calls.Load(), w.woken.Load())
	}
	list, err := w.store.ListLaunches(context.Background(), scope, waypost.LaunchFilter{RecurringID: l.ID}, waypost.Page{})
	must(t, err)
	if len(list) != 1 || list[0].ID != result.Launch || !list[0].OccursAt.Equal(at) || list[0].Status != waypost.LaunchPending {
		t.Errorf("occurrences %+v", list)
	}
}

// What is not opened says why, and one of no launch fails for good.
func TestLaunchOccurrenceSkipped(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	v := w.publish(oneTouchpoint)
	l := w.launch(waypost.Launch{
		JourneyID: v.JourneyID, Version: v.Version, AppID: "app_test", Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
		Schedule: &waypost.Schedule{Cron: "@daily", Timezone: "UTC"},
	})
	_, err := w.store.PauseLaunch(context.Background(), scope, l.ID)
	must(t, err)
	result, err := w.occur(l, w.env.Now())
	must(t, err)
	if result.Launch != "" || result.Skipped != waypost.SkipPaused {
		t.Errorf("%+v", result)
	}
	w.newEnvironment()
	w.register()
	begin := w.env.Now()
	if _, err := w.occur(waypost.Launch{ID: waypost.NewID(waypost.PrefixLaunch, begin)}, begin); err == nil || w.env.Now().Sub(begin) > time.Minute {
		t.Errorf("an occurrence of no launch: %v after %s", err, w.env.Now().Sub(begin))
	}
}

// The control group is counted in the result.
func TestLaunchHoldsOut(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	v := w.publish(oneTouchpoint)
	held := 0
	for _, lead := range w.leads(40) {
		if waypost.HeldOut(v.JourneyID, lead, 0.5) {
			held++
		}
	}
	result := w.runLaunch(w.launch(waypost.Launch{
		JourneyID: v.JourneyID, Version: v.Version, AppID: "app_test", ControlGroup: 0.5, RatePerSecond: 10_000,
		Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
	}))
	if held == 0 || result.HeldOut != held || result.Enrolled != 40-held {
		t.Errorf("%+v, want %d held out", result, held)
	}
}
