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
	"waypost/delivery"
	"waypost/store"
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

	schedules map[string]bool // of launches: whether they exist
	tries     int             // to change them

	redelivered map[string]waypost.RedeliveryBatch
}

func (u *unreliable) StartCohort(_ context.Context, cohort waypost.Cohort) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	chance := rand.IntN(10)
	if chance < 2 || u.faults == 0 {
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

func (u *unreliable) StartLaunch(_ context.Context, l waypost.Launch) error {
	return u.schedule(l.ID, l.Schedule != nil)
}

func (u *unreliable) DeleteSchedule(_ context.Context, id string) error { return u.schedule(id, false) }

// schedule makes or deletes a Schedule at the third try.
func (u *unreliable) schedule(id string, exists bool) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.tries++; u.tries%3 > 0 {
		u.faults++
		return errors.New("temporal is away")
	}
	if u.schedules == nil {
		u.schedules = map[string]bool{}
	}
	u.schedules[id] = exists
	return nil
}

func (u *unreliable) StartImport(_ context.Context, im waypost.Import) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if im.Mode != waypost.ImportUpsert || !im.DryRun || im.Scope != sc {
		return fmt.Errorf("import %s is %+v", im.ID, im)
	}
	if u.imports[im.ID]++; u.imports[im.ID] < 3 {
		u.faults++
		return errors.New("temporal is away")
	}
	return nil
}

func (u *unreliable) StartRedelivery(_ context.Context, b waypost.RedeliveryBatch) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	chance := rand.IntN(10)
	if chance < 2 || u.faults == 0 {
		u.faults++
		return errors.New("temporal is away")
	}
	if before, again := u.redelivered[b.ID]; again && fmt.Sprint(before) != fmt.Sprint(b) {
		return fmt.Errorf("batch %s was %v and is now %v", b.ID, before, b)
	}
	u.redelivered[b.ID] = b
	if chance < 4 {
		u.faults++
		return errors.New("the answer was lost")
	}
	return nil
}

func (u *unreliable) Wake(context.Context, string, workflows.Wake) (bool, error) { return true, nil }

var sc = waypost.Scope{Org: "acme", Stage: waypost.StageRelease}

// fixture is a journey with one touchpoint, its webhook, and a lead.
type fixture struct {
	hook, journey string
	lead          int64
}

func newFixture(t *testing.T, db *store.Store) fixture {
	t.Helper()
	ctx := t.Context()
	hook, err := db.CreateWebhook(ctx, sc, waypost.Webhook{
		Name: "crm", URL: "https://crm.example.com", TimeoutMs: 1000, Retry: waypost.DefaultRetry(), Enabled: true,
	})
	must(t, err)
	definition := fmt.Appendf(nil, `{"name":"J","start":"a","nodes":[{"id":"a","type":"touchpoint","webhook":%q}]}`, hook.ID)
	j, err := db.CreateJourney(ctx, sc, "J", definition)
	must(t, err)
	_, err = db.PublishJourney(ctx, sc, j.ID, waypost.Publication{Name: "J", Hash: "hash", Definition: definition, Webhooks: []string{hook.ID}})
	must(t, err)
	lead, err := db.CreateLead(ctx, sc, waypost.LeadFields{Name: "Ada"}, nil)
	must(t, err)
	return fixture{hook.ID, j.ID, lead.LeadsID}
}

// runPumps runs pumps until ctx ends; wait waits for their end. What is claimed and not
// started counts as left at once.
func runPumps(ctx context.Context, db *store.Store, temporal *unreliable, n int) (pumps []*Pump, wait func()) {
	var pumping sync.WaitGroup
	for range n {
		p := NewPump(db, temporal, none{}, nil, slog.New(slog.DiscardHandler))
		p.Now = func() time.Time { return time.Now().Add(staleAfter + time.Second) }
		pumps = append(pumps, p)
		pumping.Go(func() { p.Run(ctx) })
	}
	return pumps, pumping.Wait
}

// Whatever Temporal does, several pumps start every enrollment, each in one
// cohort, and every import.
func TestPumpStartsEachOnce(t *testing.T) {
	t.Parallel()
	const enrollments = 150
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	db := storetest.SQLite(t, time.Now)
	made := newFixture(t, db)

	temporal := &unreliable{started: map[string][]string{}, imports: map[string]int{}}
	pumps, wait := runPumps(ctx, db, temporal, 3)
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
			JourneyID: made.journey, Version: 1, LeadsID: made.lead, AppID: "app_test", EntryKey: fmt.Sprint(i),
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
	wait()
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

// Whatever Temporal does, several pumps start the redelivery of every message once:
// of those of bulk redeliveries, and of single ones.
func TestPumpRedeliversEachOnce(t *testing.T) {
	t.Parallel()
	const messages = 720
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	db := storetest.SQLite(t, time.Now)
	made := newFixture(t, db)
	e, err := db.Enroll(ctx, sc, waypost.Enrollment{JourneyID: made.journey, Version: 1, LeadsID: made.lead, AppID: "app_test"}, waypost.Reentry{})
	must(t, err)
	// Failed an hour ago.
	at := time.Now().Add(-time.Hour).UTC()
	ids := make([]string, messages)
	openings, records := make([]delivery.Opening, messages), make([]delivery.AttemptRecord, messages)
	for i := range messages {
		key := waypost.Touchpoint{EnrollmentID: e.ID, Visit: i + 1}
		ids[i] = waypost.NewID(waypost.PrefixMessage, at)
		openings[i] = delivery.Opening{Touchpoint: key, Scope: sc, Attempt: 1, At: at, By: "x", Body: []byte("{}"), Delivery: waypost.Delivery{
			MessageID: ids[i], JourneyID: made.journey, JourneyVersion: 1, NodeID: "a", WebhookID: made.hook, LeadsID: made.lead,
		}}
		records[i] = delivery.AttemptRecord{
			Touchpoint: key, Scope: sc, Round: 1, Attempt: 1, Status: waypost.DeliveryFailed,
			Outcome: waypost.Outcome{HTTPStatus: 404, ErrorClass: waypost.ClassHTTPStatus, At: at},
		}
	}
	_, err = db.OpenAttempts(ctx, openings)
	must(t, err)
	must(t, db.RecordAttempts(ctx, records))
	_, err = db.AcceptEvent(ctx, sc, waypost.Event{EventID: "e", Name: "purchase", LeadsID: made.lead})
	must(t, err)

	temporal := &unreliable{started: map[string][]string{}, redelivered: map[string]waypost.RedeliveryBatch{}}
	pumps, wait := runPumps(ctx, db, temporal, 3)
	// Two of them are about the same messages, and some are asked for by themselves.
	var bulks []string
	for range 2 {
		r, err := db.CreateRedelivery(ctx, sc, waypost.DeliveryFilter{JourneyID: made.journey}, "app_test")
		must(t, err)
		bulks = append(bulks, r.ID)
		pumps[0].Wake()
	}
	single := 0
	for i := messages - 1; i > messages-10; i-- {
		if _, err := db.Redeliver(ctx, sc, ids[i]); err == nil {
			single++
			pumps[1].Wake()
		} else if waypost.CodeOf(err) != waypost.CodeConflict {
			t.Error(err)
		}
	}
	begun := 0
	for _, id := range bulks {
		for {
			r, err := db.Redelivery(ctx, sc, id)
			must(t, err)
			if r.Total > 0 && r.Redelivered+r.Skipped == r.Total {
				begun += r.Redelivered
				break
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
	for {
		left, err := db.UnstartedRedeliveries(ctx, time.Now().Add(time.Hour), 1)
		must(t, err)
		if len(left) == 0 {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	cancel()
	wait()
	// What was recorded before is folded: it was one row each.
	for name, fold := range map[string]func(context.Context, int) (bool, error){"history": db.FoldWebhookHistory, "names": db.FoldEventNames} {
		if more, err := fold(t.Context(), 1); err != nil || more {
			t.Errorf("%s: a row is left to fold, %v", name, err)
		}
	}
	times := map[string]int{}
	for _, b := range temporal.redelivered {
		if len(b.Members) > waypost.MaxCohort || b.RedeliveryID == "" && len(b.Members) != 1 || b.Scope != sc {
			t.Errorf("batch %+v", b)
		}
		for _, m := range b.Members {
			times[m.MessageID]++
		}
	}
	for _, id := range ids {
		if times[id] != 1 {
			t.Errorf("message %s is redelivered %d times", id, times[id])
		}
	}
	if begun+single != messages || temporal.faults == 0 {
		t.Errorf("%d messages in bulk and %d alone, want %d; %d faults", begun, single, messages, temporal.faults)
	}
	t.Logf("%d in bulk, %d alone, in %d batches over %d faults", begun, single, len(temporal.redelivered), temporal.faults)
}

// Whatever Temporal does, several pumps have each subscription told of each thing once.
func TestPumpTellsEachOnce(t *testing.T) {
	t.Parallel()
	const imports = 250
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	db := storetest.SQLite(t, time.Now)
	made := newFixture(t, db)
	var subscriptions []string
	for range 2 {
		s, err := db.CreateSubscription(ctx, sc, waypost.Subscription{Name: "s", WebhookID: made.hook, On: []waypost.Happening{waypost.ImportEnded}})
		must(t, err)
		subscriptions = append(subscriptions, s.ID)
	}
	temporal := &unreliable{redelivered: map[string]waypost.RedeliveryBatch{}}
	_, wait := runPumps(ctx, db, temporal, 3)
	for range imports { // without rows they end at once
		_, err := db.CreateImport(ctx, sc, waypost.Import{AppID: "app_test", Mode: waypost.ImportCreate}, func(func(waypost.ImportRow, error) bool) {})
		must(t, err)
	}
	redelivered := func() (messages int) {
		temporal.mu.Lock()
		defer temporal.mu.Unlock()
		for _, b := range temporal.redelivered {
			messages += len(b.Members)
		}
		return messages
	}
	for redelivered() < 2*imports {
		sleep(ctx, 5*time.Millisecond, nil)
		must(t, ctx.Err())
	}
	for {
		left, err := db.UnstartedRedeliveries(ctx, time.Now().Add(time.Hour), 1)
		must(t, err)
		if len(left) == 0 {
			break
		}
		sleep(ctx, 5*time.Millisecond, nil)
		must(t, ctx.Err())
	}
	cancel()
	wait()
	times, messages := map[string]int{}, map[string]int{}
	for _, b := range temporal.redelivered {
		for _, m := range b.Members {
			messages[m.MessageID]++
			times[m.EnrollmentID]++
			if m.Round != 1 || m.LeadsID != 0 || m.WebhookID != made.hook {
				t.Errorf("member %+v", m)
			}
		}
	}
	if len(messages) != 2*imports || times[subscriptions[0]] != imports || times[subscriptions[1]] != imports || temporal.faults == 0 {
		t.Errorf("%d messages, %v, over %d faults", len(messages), times, temporal.faults)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// The Schedule of a recurring launch is made, and deleted once the launch is canceled,
// whatever Temporal does meanwhile.
func TestPumpKeepsSchedules(t *testing.T) {
	t.Parallel()
	db := storetest.SQLite(t, time.Now)
	made := newFixture(t, db)
	temporal := &unreliable{}
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	pumps, _ := runPumps(ctx, db, temporal, 1)
	l, err := db.CreateLaunch(ctx, sc, waypost.Launch{
		JourneyID: made.journey, Version: 1, AppID: "app_test", Schedule: &waypost.Schedule{Cron: "@daily", Timezone: "UTC"},
		Audience: waypost.Audience{Filter: &waypost.LeadFilter{}},
	})
	must(t, err)
	await := func(exists bool) {
		t.Helper()
		for {
			pumps[0].Wake()
			temporal.mu.Lock()
			made, known := temporal.schedules[l.ID]
			temporal.mu.Unlock()
			if known && made == exists {
				return
			}
			sleep(ctx, 10*time.Millisecond, nil)
			if ctx.Err() != nil {
				t.Fatalf("the schedule exists: %t, want %t", made, exists)
			}
		}
	}
	await(true)
	_, err = db.CancelLaunch(ctx, sc, l.ID)
	must(t, err)
	await(false)
}
