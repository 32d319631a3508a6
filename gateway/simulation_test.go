package gateway

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/journey"
)

// Dry runs and forecasts get no more than the process has, and no longer than they
// may take.
func TestSimulationPlaces(t *testing.T) {
	t.Parallel()
	one := simulations{newShares(1, 1)}
	app := waypost.Application{Org: "acme", ID: "app_1"}
	release, entered := make(chan struct{}), make(chan struct{})
	done := make(chan error)
	go func() {
		done <- one.run(t.Context(), app, time.Minute, time.Minute, func(context.Context) error {
			close(entered)
			<-release
			return nil
		})
	}()
	<-entered
	never := func(context.Context) error { t.Error("it ran without a place"); return nil }
	if err := one.run(t.Context(), app, time.Millisecond, time.Minute, never); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
		t.Errorf("without a place: %v", err)
	}
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the client is gone"))
	if err := one.run(gone, app, time.Minute, time.Minute, never); err == nil || err.Error() != "the client is gone" {
		t.Errorf("of a client that is gone: %v", err)
	}
	close(release)
	if err := <-done; err != nil {
		t.Error(err)
	}
	until := func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	if err := one.run(t.Context(), app, time.Minute, time.Millisecond, until); waypost.CodeOf(err) != waypost.CodeServiceUnavailable {
		t.Errorf("too long: %v", err)
	}
	late, cancelLate := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancelLate()
	if err := one.run(late, app, time.Minute, time.Minute, until); !errors.Is(err, context.DeadlineExceeded) || waypost.CodeOf(err) == waypost.CodeServiceUnavailable {
		t.Errorf("the request's own end: %v", err)
	}
}

// However many dry runs and counts one organisation asks for, another one's begin at once.
func TestSimulationsOfOthers(t *testing.T) {
	t.Parallel()
	all := simulations{newShares(3, 3)} // as with two processors
	greedy, other := waypost.Application{Org: "acme", ID: "app_1"}, waypost.Application{Org: "bolt", ID: "app_2"}
	ctx, stop := context.WithCancel(t.Context())
	var ends sync.WaitGroup
	for range 20 {
		ends.Go(func() {
			_ = all.run(ctx, greedy, time.Minute, time.Minute, func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() })
		})
	}
	for has := 0; has < 2; runtime.Gosched() {
		all.mu.Lock()
		has = all.byOrg[greedy.Org]
		all.mu.Unlock()
	}
	ran := false
	if err := all.run(t.Context(), other, 0, time.Minute, func(context.Context) error { ran = true; return nil }); err != nil || !ran {
		t.Errorf("another organisation's: %v", err)
	}
	stop()
	ends.Wait()
}

// noneMissing has every webhook and every journey.
type noneMissing struct {
	Webhooks
	Journeys
}

func (noneMissing) MissingWebhooks(context.Context, waypost.Scope, []string) ([]string, error) {
	return nil, nil
}

func (noneMissing) MissingJourneys(context.Context, waypost.Scope, []string) ([]string, error) {
	return nil, nil
}

// Drafts are compiled in the shares of dry runs: a few large ones must not
// take the process from everybody else.
func TestCheckPlaces(t *testing.T) {
	t.Parallel()
	a := &server{simulations: simulations{newShares(1, 1)}, Options: Options{Webhooks: noneMissing{}, Journeys: noneMissing{}}}
	r := &request{app: waypost.Application{Org: "acme", ID: "app_1"}}
	definition, problems := journey.Parse([]byte(`{"name":"n","start":"a","nodes":[{"id":"a","type":"exit"}]}`))
	if err := problems.Err(""); err != nil {
		t.Fatal(err)
	}
	if err := a.checkDefinition(t.Context(), r, definition); err != nil {
		t.Error(err)
	}
	a.simulations.take(r.app)
	gone, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("the client is gone"))
	if err := a.checkDefinition(gone, r, definition); err == nil || err.Error() != "the client is gone" {
		t.Errorf("without a place: %v", err)
	}
}

// A forecast follows whom it has time for, and those are a sample of all.
func TestSampled(t *testing.T) {
	t.Parallel()
	leads := make([]waypost.Lead, 1000)
	for i := range leads {
		leads[i].LeadsID = int64(i)
	}
	first := func(n int) (ids []int64) {
		looks := 0
		enough := func() bool { looks++; return looks > n-1 }
		for facts, err := range sampled(leads, func(l waypost.Lead) journey.Facts { return journey.Facts{Lead: l} }, enough) {
			if err != nil {
				t.Fatal(err)
			}
			ids = append(ids, facts.Lead.LeadsID)
		}
		return ids
	}
	if got := first(0); len(got) != 1 {
		t.Errorf("without time: %d", len(got))
	}
	some, all := first(100), first(len(leads)+1)
	if len(some) != 100 || !slices.Equal(some, all[:100]) {
		t.Fatalf("it is not always the same: %v", some)
	}
	upper := 0
	for _, id := range some {
		if id >= 500 {
			upper++
		}
	}
	if upper < 35 || upper > 65 {
		t.Errorf("%d of 100 come from the upper half", upper)
	}
	slices.Sort(all)
	for i, id := range all {
		if id != int64(i) {
			t.Fatalf("lead %d is missing or doubled", i)
		}
	}
	for range sampled(nil, nil, nil) {
		t.Error("there is nobody")
	}
}

// A check of what is stored has no list for lack of time, an empty one if it found nothing, and fails
// only for what is no refusal.
func TestProblemsOf(t *testing.T) {
	t.Parallel()
	var found waypost.Problems
	found.Add(waypost.DetailOutOfRange, "when", "no")
	for _, tt := range []struct {
		refused error
		want    string
	}{
		{nil, "[]"},
		{found.Err("when"), `[{"code":"OutOfRange","target":"when","message":"no"}]`},
		{waypost.Errorf(waypost.CodeServiceUnavailable, "", "busy"), "null"},
	} {
		problems, err := problemsOf(tt.refused)
		if got, _ := encode(problems); err != nil || string(got) != tt.want {
			t.Errorf("%v: %s, %v, want %s", tt.refused, got, err, tt.want)
		}
	}
	if _, err := problemsOf(errors.New("the database is away")); err == nil {
		t.Error("a failure is no answer")
	}
}
