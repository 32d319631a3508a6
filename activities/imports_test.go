package activities_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"waypost"
	"waypost/activities"
	"waypost/store"
	"waypost/store/storetest"
)

// importing is a database with an import whose steps a test can have fail.
type importing struct {
	*store.Store
	t     *testing.T
	clock *storetest.Clock
	made  waypost.Import
	steps int
	fault func(step int) error // before a step; nil for none
}

// newImport stores an import of so many rows, one of them without a name.
func newImport(t *testing.T, rows int) *importing {
	t.Helper()
	s := &importing{t: t, clock: storetest.NewClock(), fault: func(int) error { return nil }}
	s.Store = storetest.SQLite(t, s.clock.Now)
	var err error
	s.made, err = s.CreateImport(t.Context(), scope, waypost.Import{Mode: waypost.ImportCreate, AppID: "app_test", PhoneRegion: "CN"},
		func(yield func(waypost.ImportRow, error) bool) {
			for i := range rows {
				row := waypost.ImportRow{Line: i + 1, Data: fmt.Appendf(nil, `{"name":"Ada","externalId":"ext-%d"}`, i)}
				if i == 7 {
					row.Data = []byte(`{"externalId":"ext-7"}`)
				}
				if !yield(row, nil) {
					return
				}
			}
		})
	must(t, err)
	return s
}

// ImportStep takes four seconds.
func (s *importing) ImportStep(ctx context.Context, id string) (waypost.Import, error) {
	s.steps++
	if err := s.fault(s.steps); err != nil {
		return waypost.Import{}, err
	}
	s.clock.Advance(4 * time.Second)
	return s.Store.ImportStep(ctx, id)
}

// run runs the activity once, in a process that stops if it is told to. beat is
// its last heartbeat with counts: one that fails has sent what it knew.
func (s *importing) run(id string, stopping bool) (p, beat activities.ImportProgress, err error) {
	s.t.Helper()
	a := activities.New(activities.Options{Store: s, Log: slog.New(slog.DiscardHandler), Now: s.clock.Now})
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(slog.New(slog.DiscardHandler))
	env := suite.NewTestActivityEnvironment()
	env.RegisterActivity(a.ImportLeads)
	if stopping {
		stop := make(chan struct{})
		close(stop)
		env.SetWorkerStopChannel(stop)
	}
	var beats sync.Mutex
	env.SetOnActivityHeartbeatListener(func(_ *activity.Info, details converter.EncodedValues) {
		beats.Lock()
		defer beats.Unlock()
		if details.HasValues() {
			must(s.t, details.Get(&beat))
		}
	})
	value, err := env.ExecuteActivity(a.ImportLeads, activities.ImportInput{ImportID: id})
	if err == nil {
		err = value.Get(&p)
	}
	beats.Lock()
	defer beats.Unlock()
	return p, beat, err
}

// final tells whether Temporal would not try again.
func final(err error) bool {
	var failure *temporal.ApplicationError
	return errors.As(err, &failure) && failure.NonRetryable()
}

// However its runs end, an import goes on where the last step ended, and its
// counts are of all of them.
func TestImportLeads(t *testing.T) {
	t.Parallel()
	const rows = 3_300
	s := newImport(t, rows)
	s.fault = func(step int) error {
		if step == 7 {
			return errors.New("the database is away")
		}
		return nil
	}
	stopped, _, err := s.run(s.made.ID, true)
	must(t, err)
	if s.steps != 1 || stopped.Processed == 0 || stopped.Done {
		t.Errorf("a stopping worker did %d steps: %+v", s.steps, stopped)
	}
	timed, _, err := s.run(s.made.ID, false)
	must(t, err)
	if s.steps != 4 || timed.Processed != 4*stopped.Processed || timed.Done {
		t.Errorf("after %d steps, ten seconds: %+v", s.steps, timed)
	}
	if _, beat, err := s.run(s.made.ID, false); err == nil || final(err) || beat.Processed < 5*stopped.Processed || beat.Total != rows {
		t.Errorf("the database was away: %v, the last heartbeat was %+v", err, beat)
	}
	var p activities.ImportProgress
	for runs := 0; !p.Done; runs++ {
		if p, _, err = s.run(s.made.ID, false); err != nil || runs > 10 {
			t.Fatalf("run %d: %+v, %v", runs, p, err)
		}
	}
	want := activities.ImportProgress{Total: rows, Processed: rows, Created: rows - 1, Failed: 1, Done: true}
	if p != want {
		t.Errorf("got %+v, want %+v", p, want)
	}
	if again, _, err := s.run(s.made.ID, false); err != nil || again != want {
		t.Errorf("run again: %+v, %v", again, err)
	}
	must(t, s.cancel(s.made.ID)) // refused, as it has ended: no reason to try again
	if im, err := s.Import(t.Context(), scope, s.made.ID); err != nil || im.Status != waypost.ImportSucceeded {
		t.Errorf("%+v, %v", im, err)
	}
}

func (s *importing) cancel(id string) error {
	a := activities.New(activities.Options{Store: s, Log: slog.New(slog.DiscardHandler)})
	return a.CancelImport(s.t.Context(), activities.CancelImportInput{Scope: scope, ImportID: id})
}

// A canceled import is only looked at; what was processed stays.
func TestImportCanceled(t *testing.T) {
	t.Parallel()
	s := newImport(t, 1_500)
	before, _, err := s.run(s.made.ID, true)
	must(t, err)
	must(t, s.cancel(s.made.ID))
	must(t, s.cancel(s.made.ID))
	must(t, s.cancel(waypost.NewID(waypost.PrefixImport, s.clock.Now()))) // no longer exists
	p, _, err := s.run(s.made.ID, false)
	must(t, err)
	before.Done, before.Canceled = true, true
	if p != before || p.Processed == 0 || p.Processed == p.Total {
		t.Errorf("got %+v, want %+v", p, before)
	}
}

// What no further try can change ends the activity for good.
func TestImportEndsForGood(t *testing.T) {
	t.Parallel()
	s := newImport(t, 10)
	must(t, s.FailImport(t.Context(), s.made.ID, "the stored rows are damaged"))
	for id, why := range map[string]string{
		s.made.ID: "the stored rows are damaged", waypost.NewID(waypost.PrefixImport, s.clock.Now()): "does not exist",
	} {
		if _, _, err := s.run(id, false); !final(err) || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v", why, err)
		}
	}
}
