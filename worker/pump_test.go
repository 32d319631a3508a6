package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/store/storetest"
	"waypost/workflows"
)

// unreliable is a Temporal that is away now and then, and that sometimes starts
// a workflow without its answer arriving.
type unreliable struct {
	mu      sync.Mutex
	started map[string][]string // enrollments by cohort
	imports map[string]int      // tries
	faults  int
}

func (u *unreliable) StartCohort(_ context.Context, cohort waypost.Cohort) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	chance := rand.IntN(10)
	if chance < 2 {
		u.faults++
		return errors.New("temporal is away")
	}
	var members []string
	for _, m := range cohort.Members {
		members = append(members, m.EnrollmentID)
	}
	if before, again := u.started[cohort.ID]; again && fmt.Sprint(before) != fmt.Sprint(members) {
		return fmt.Errorf("cohort %s was %v and is now %v", cohort.ID, before, members)
	}
	u.started[cohort.ID] = members
	if chance < 3 {
		u.faults++
		return errors.New("the answer was lost")
	}
	return nil
}

func (u *unreliable) StartLaunch(context.Context, waypost.Launch) error { return nil }

func (u *unreliable) StartImport(_ context.Context, im waypost.Import) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if im.Mode != waypost.ImportUpsert || !im.DryRun || im.Scope != (waypost.Scope{Org: "acme", Stage: waypost.StageRelease}) {
		return fmt.Errorf("import %s is %+v", im.ID, im)
	}
	if u.imports[im.ID]++; u.imports[im.ID] < 3 {
		u.faults++
		return errors.New("temporal is away")
	}
	return nil
}

func (u *unreliable) Look(context.Context, string, workflows.Ring) error { return nil }

// Whatever Temporal does, several pumps start every enrollment, each in one
// cohort, and every import.
func TestPumpStartsEachOnce(t *testing.T) {
	t.Parallel()
	const enrollments = 150
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Second)
	defer cancel()
	db := storetest.SQLite(t, time.Now)
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	hook, err := db.CreateWebhook(ctx, sc, waypost.Webhook{
		Name: "crm", URL: "https://crm.example.com", TimeoutMs: 1000, Retry: waypost.DefaultRetry(), Enabled: true,
	})
	must(t, err)
	definition := fmt.Appendf(nil, `{"name":"J","start":"a","nodes":[{"id":"a","type":"touchpoint","webhook":%q}]}`, hook.ID)
	j, err := db.CreateJourney(ctx, sc, "J", definition)
	must(t, err)
	_, err = db.PublishJourney(ctx, sc, j.ID, "J", "hash", definition, []string{hook.ID})
	must(t, err)
	lead, err := db.CreateLead(ctx, sc, waypost.LeadFields{Name: "Ada"}, nil)
	must(t, err)

	temporal := &unreliable{started: map[string][]string{}, imports: map[string]int{}}
	var pumping sync.WaitGroup
	var pumps []*Pump
	for range 3 {
		p := NewPump(db, temporal, nil, slog.New(slog.DiscardHandler))
		// What is claimed and not started counts as left at once.
		p.now = func() time.Time { return time.Now().Add(staleAfter + time.Second) }
		pumps = append(pumps, p)
		pumping.Go(func() { p.Run(ctx) })
	}
	var imports []string
	for range 3 {
		im, err := db.CreateImport(ctx, sc, waypost.Import{Mode: waypost.ImportUpsert, DryRun: true, AppID: "app_test", PhoneRegion: "CN"},
			func(yield func(waypost.ImportRow, error) bool) {
				yield(waypost.ImportRow{Line: 1, Data: []byte(`{"name":"Ada"}`)}, nil)
			})
		must(t, err)
		imports = append(imports, im.ID)
	}
	all := map[string]bool{}
	for i := range enrollments {
		e, err := db.Enroll(ctx, sc, waypost.Enrollment{
			JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID, AppID: "app_test", EntryKey: fmt.Sprint(i),
		}, waypost.Reentry{Policy: waypost.ReentryAlways})
		must(t, err)
		all[e.ID] = false
		pumps[i%len(pumps)].Wake()
	}
	for id := range all {
		for {
			e, _, err := db.Enrollment(ctx, sc, id)
			must(t, err)
			if e.Status == waypost.EnrollmentRunning && e.WorkflowID != "" {
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	for {
		left, err := db.UnstartedImports(ctx, time.Now().Add(time.Hour), 1)
		must(t, err)
		if len(left) == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	pumping.Wait()
	for _, id := range imports {
		if temporal.imports[id] < 3 {
			t.Errorf("import %s counts as started after %d tries", id, temporal.imports[id])
		}
	}
	for cohort, members := range temporal.started {
		if len(members) > waypost.MaxCohort {
			t.Errorf("cohort %s has %d members", cohort, len(members))
		}
		for _, id := range members {
			if done, known := all[id]; !known || done {
				t.Errorf("enrollment %s: known %v, started before %v", id, known, done)
			}
			all[id] = true
		}
	}
	for id, done := range all {
		if !done {
			t.Errorf("enrollment %s was never started", id)
		}
	}
	if temporal.faults == 0 {
		t.Error("Temporal never failed: the test shows nothing")
	}
	t.Logf("%d enrollments in %d cohorts over %d faults", enrollments, len(temporal.started), temporal.faults)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
