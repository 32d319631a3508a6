package storetest

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

const day = 24 * time.Hour

// keepAll is a retention in which everything goes at a time of its own.
var keepAll = waypost.Retention{Payloads: 10 * day, Attempts: 20 * day, Deliveries: 30 * day, Enrollments: 40 * day, Events: 50 * day}

// drop sweeps once and returns how much it dropped of each kind.
func (f *fixture) drop(t testing.TB, keep waypost.Retention) map[string]int {
	t.Helper()
	dropped, err := f.dropAll(t.Context(), keep)
	ok(t, err)
	return dropped
}

func (f *fixture) dropAll(ctx context.Context, keep waypost.Retention) (map[string]int, error) {
	dropped := map[string]int{}
	for at := ""; ; {
		step, err := f.DropStep(ctx, keep, at)
		if err != nil {
			return nil, err
		}
		if step.N > 0 {
			dropped[step.Kind] += step.N
		}
		if at = step.Next; at == "" {
			return dropped, nil
		}
	}
}

// wantDropped sweeps and fails unless it drops exactly so much.
func (f *fixture) wantDropped(t testing.TB, what string, keep waypost.Retention, want map[string]int) {
	t.Helper()
	if got := f.drop(t, keep); !maps.Equal(got, want) {
		t.Fatalf("%s: dropped %v, want %v", what, got, want)
	}
}

// gone fails unless the enrollment is gone or there, as it is to be.
func (f *fixture) gone(t testing.TB, id string, want bool) {
	t.Helper()
	_, _, err := f.Enrollment(t.Context(), scope, id)
	if want {
		wantCode(t, err, waypost.CodeNotFound)
		return
	}
	ok(t, err)
}

// retried ends the first attempt of a touchpoint badly and its second one well.
func (f *fixture) retried(t testing.TB, o delivery.Opening) {
	t.Helper()
	f.open(t, o)
	f.record(t, f.retrying(o.Touchpoint, 1))
	again := o
	again.Attempt, again.At = 2, f.clock.Now()
	f.open(t, again)
	f.record(t, f.succeeded(o.Touchpoint, 2))
}

// testParams are the params of the tests.
var testParams = map[string]any{"order": "4711"}

// enrollAgain enrolls a lead, with params, in a journey that lets it in again and again.
func (f *fixture) enrollAgain(t testing.TB, journey string, lead int64) string {
	t.Helper()
	f.clock.Advance(time.Millisecond) // so that ids sort as they were made
	return must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{
		JourneyID: journey, Version: 1, LeadsID: lead, AppID: "app_1", Params: testParams,
	}, waypost.Reentry{Policy: waypost.ReentryAlways})).ID
}

// complete ends enrollments that have sent nothing.
func (f *fixture) complete(t testing.TB, ids ...string) {
	t.Helper()
	for _, id := range ids {
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(id, 1, waypost.EnrollmentCompleted)}))
	}
}

// wantParams fails unless the enrollments have the params.
func (f *fixture) wantParams(t testing.TB, want map[string]any, ids ...string) {
	t.Helper()
	for i, id := range ids {
		equal(t, fmt.Sprint("params of ", i), f.enrollment(t, id).Params, want)
	}
}

var retentionTests = []test{
	{"each in its time", testEachInItsTime},
	{"what runs stays", testWhatRunsStays},
	{"launches count on", testLaunchesCountOn},
	{"never is for ever", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		id := f.enroll(t, journey, 1)[0]
		lead := f.enrollment(t, id).LeadsID
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(id, 1, waypost.EnrollmentCompleted)}))
		f.clock.Advance(365 * day)
		f.wantDropped(t, "after a year", keepAll, map[string]int{waypost.DropEnrollment: 1})
		enter := func(r waypost.Reentry) error {
			_, err := f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead, AppID: "app_1", EntryKey: "0"}, r)
			return err
		}
		wantCode(t, enter(waypost.Reentry{Policy: waypost.ReentryNever}), waypost.CodeConflict)
		wantCode(t, enter(waypost.Reentry{Every: waypost.Duration(366 * day)}), waypost.CodeConflict)
		ok(t, enter(waypost.Reentry{Every: waypost.Duration(365 * day)}))
	}},
	{"off is for ever", func(t *testing.T, f *fixture) {
		key := f.decided(t, f.succeeded)
		f.clock.Advance(10_000 * day)
		f.wantDropped(t, "nothing", waypost.Retention{}, map[string]int{})
		f.wantDropped(t, "attempts", waypost.Retention{Attempts: day}, map[string]int{})
		f.wantDropped(t, "payloads", waypost.Retention{Payloads: day}, map[string]int{waypost.DropPayload: 1})
		f.gone(t, key.EnrollmentID, false)
	}},
	{"what holds it takes it along", func(t *testing.T, f *fixture) {
		// Though payloads and attempts were to stay longer.
		keep := waypost.Retention{Payloads: 90 * day, Attempts: 90 * day, Deliveries: 90 * day, Enrollments: 2 * day}
		journey := f.journey(t)
		_, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
		f.retried(t, o)
		f.clock.Advance(2 * day)
		f.wantDropped(t, "at its end", keep, map[string]int{})
		f.clock.Advance(time.Second)
		f.wantDropped(t, "after it", keep, map[string]int{
			waypost.DropPayload: 1, waypost.DropAttempt: 1, waypost.DropDelivery: 1, waypost.DropEnrollment: 1,
		})
		equal(t, "deliveries", len(must[[]waypost.Delivery](t)(f.ListDeliveries(t.Context(), scope, waypost.DeliveryFilter{}, waypost.Page{}))), 0)
	}},
	{"frequency caps count on", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		definition := []byte(`{"name":"Capped","frequencyCap":{"touchpoints":1,"per":"P60D"}}`)
		must[waypost.JourneyVersion](t)(f.PublishJourney(t.Context(), scope, journey, waypost.Publication{Name: "Capped", Hash: "capped", Definition: definition}))
		lead := f.lead(t)
		first := f.capped(t, journey, lead, 1, 60*day)
		f.open(t, first)
		f.record(t, f.succeeded(first.Touchpoint, 1))
		f.clock.Advance(59 * day)
		f.wantDropped(t, "within the cap", waypost.Retention{Deliveries: day, Enrollments: day}, map[string]int{waypost.DropPayload: 1})
		second := f.capped(t, journey, lead, 1, 60*day)
		f.wantSkipped(t, second, f.open(t, second), "")
		f.clock.Advance(2 * day)
		// The second enrollment has sent nothing that could count.
		f.wantDropped(t, "after it", waypost.Retention{Deliveries: day, Enrollments: day}, map[string]int{waypost.DropDelivery: 1, waypost.DropEnrollment: 2})
	}},
	{"frequency caps that can still forbid something", func(t *testing.T, f *fixture) {
		const plain, capped = `{"name":"Plain"}`, `{"name":"Capped","frequencyCap":{"touchpoints":1,"per":"P60D"}}`
		publish := func(sc waypost.Scope, journey string, definitions ...string) string {
			t.Helper()
			if journey == "" {
				journey = must[waypost.Journey](t)(f.CreateJourney(t.Context(), sc, "Capped", []byte(plain))).ID
			}
			for _, d := range definitions {
				f.clock.Advance(time.Second)
				must[waypost.JourneyVersion](t)(f.PublishJourney(t.Context(), sc, journey, waypost.Publication{Name: "Capped", Hash: f.clock.Now().String(), Definition: []byte(d)}))
			}
			return journey
		}
		// A message that was sent ten days ago.
		kept := func(what string, want bool) {
			t.Helper()
			sent := f.decided(t, f.succeeded)
			f.clock.Advance(10 * day)
			f.drop(t, waypost.Retention{Deliveries: day})
			left := must[[]waypost.Delivery](t)(f.ListDeliveries(t.Context(), scope, waypost.DeliveryFilter{EnrollmentID: sent.EnrollmentID}, waypost.Page{}))
			equal(t, what, len(left) == 1, want)
		}
		for _, sc := range foreign {
			publish(sc, "", capped)
		}
		kept("of other organisations and stages", false)

		journey := publish(scope, "", plain, capped)
		kept("of the current version", true)
		running := f.enroll(t, publish(scope, "", capped), 1)[0]
		for _, id := range []string{journey, f.enrollment(t, running).JourneyID} {
			must[waypost.Journey](t)(f.ArchiveJourney(t.Context(), scope, id))
		}
		kept("of an archived journey, with an enrollment", true)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, running))
		kept("of archived journeys", false)

		journey = publish(scope, "", capped)
		running = f.enroll(t, journey, 1)[0]
		publish(scope, journey, plain)
		kept("of an older version, with an enrollment", true)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, running))
		kept("of an older version", false)

		journey = publish(scope, "", capped)
		never, launch := f.launch(t, journey, f.lead(t)).ID, f.launch(t, journey, f.lead(t)).ID
		publish(scope, journey, plain)
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, never))
		kept("of a launch that has yet to enroll", true)
		f.run(t, launch, 1000)
		kept("of a launch that has enrolled", true)
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, launch))
		f.sweep(t, 1000)
		kept("of launches that have ended", false)

		journey = publish(scope, "", plain, capped, plain)
		_, waiting := f.started(t, journey, 1)
		f.waitingAt(t, "wait", 3, waiting...)
		kept("of a version between", false)
		f.migrate(t, waypost.Migration{JourneyID: journey, From: 1, To: 2, Nodes: map[string]string{"wait": "wait"}})
		kept("of a version that an enrollment is to move to", true)
	}},
	{"deleting a lead finds what runs", func(t *testing.T, f *fixture) {
		// A journey that lets a lead in several times: the last enrollment was dropped, an
		// earlier one runs.
		journey, lead := f.journey(t), f.lead(t)
		var ids []string
		for range 2 {
			ids = append(ids, must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead, AppID: "app_1"},
				waypost.Reentry{Policy: waypost.ReentryAlways})).ID)
			f.clock.Advance(time.Second)
		}
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(ids[1], 1, waypost.EnrollmentCompleted)}))
		f.clock.Advance(100 * day)
		f.wantDropped(t, "the last one", keepAll, map[string]int{waypost.DropEnrollment: 1})
		ok(t, f.DeleteLead(t.Context(), scope, lead, nil))
		equal(t, "the other", f.enrollment(t, ids[0]).Status, waypost.EnrollmentCanceled)
	}},
	{"onward once", func(t *testing.T, f *fixture) {
		// What an enroll node made stays while the enrollment runs that it was made for.
		from, into := f.journey(t), f.journey(t)
		source := f.enroll(t, from, 1)[0]
		b := f.onward(t, from, into, waypost.Reentry{Policy: waypost.ReentryAlways}, source)
		made := f.entered(t, b)
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(made[0], 1, waypost.EnrollmentCompleted)}))
		f.clock.Advance(100 * day)
		f.wantDropped(t, "while it runs", keepAll, map[string]int{})
		equal(t, "asked again", f.entered(t, b), made)
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(source, 1, waypost.EnrollmentCompleted)}))
		f.wantDropped(t, "when it has ended", keepAll, map[string]int{waypost.DropEnrollment: 1})
		f.clock.Advance(41 * day)
		f.wantDropped(t, "later", keepAll, map[string]int{waypost.DropEnrollment: 1})
	}},
	{"events", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		running, idle := f.enroll(t, journey, 1)[0], f.lead(t)
		lead := f.enrollment(t, running).LeadsID
		f.accept(t, lead, "a", "purchase")
		f.accept(t, idle, "b", "purchase")
		f.clock.Advance(51 * day)
		for i := range 300 { // more than a page that is not over
			f.accept(t, idle, fmt.Sprint("young", i), "purchase")
		}
		f.wantDropped(t, "of who waits for nothing", keepAll, map[string]int{waypost.DropEvent: 1})
		w := f.wait(t, running, "coh_1", "purchase")
		w.Since = f.enrollment(t, running).CreatedAt
		equal(t, "still to be matched", len(f.await(t, w).Events), 1)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, running))
		f.wantDropped(t, "when it has ended", keepAll, map[string]int{waypost.DropEvent: 1})
		equal(t, "accepted anew", must[bool](t)(f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: "a", Name: "purchase", LeadsID: lead})), true)
		equal(t, "but no young one", must[bool](t)(f.AcceptEvent(t.Context(), scope, waypost.Event{EventID: "young7", Name: "purchase", LeadsID: lead})), false)
	}},
	{"params", func(t *testing.T, f *fixture) {
		journey, lead := f.journey(t), f.lead(t)
		sent, o := f.touchpoint(t, f.enrollAgain(t, journey, lead), journey)
		silent, running := f.enrollAgain(t, journey, lead), f.enrollAgain(t, journey, lead)
		f.retried(t, o)
		f.complete(t, silent)
		f.clock.Advance(10*day + time.Second)
		young := f.enrollAgain(t, journey, lead)
		f.complete(t, young)
		f.wantDropped(t, "for ever", waypost.Retention{Deliveries: 10 * day}, map[string]int{
			waypost.DropPayload: 1, waypost.DropAttempt: 1, waypost.DropDelivery: 1,
		})
		f.wantDropped(t, "of what has ended", keepAll, map[string]int{waypost.DropParams: 2})
		f.wantParams(t, map[string]any{}, sent.EnrollmentID, silent)
		f.wantParams(t, testParams, running, young)
		f.wantDropped(t, "once", keepAll, map[string]int{})
		f.complete(t, running)
		f.clock.Advance(10*day + time.Second)
		f.wantDropped(t, "each in its time", keepAll, map[string]int{waypost.DropParams: 2})
		// Many, and all but the last are over.
		var ids []string
		for range 60 {
			ids = append(ids, f.enrollAgain(t, journey, lead))
		}
		f.complete(t, ids[:59]...)
		f.clock.Advance(10*day + time.Second)
		f.wantDropped(t, "step by step", keepAll, map[string]int{waypost.DropParams: 59})
		f.wantParams(t, testParams, ids[59])
		// They are dropped with their enrollments.
		f.complete(t, ids[59])
		f.clock.Advance(10*day + time.Second)
		f.wantDropped(t, "with the enrollments", waypost.Retention{Enrollments: 9 * day}, map[string]int{waypost.DropParams: 1, waypost.DropEnrollment: 64})
	}},
	{"filters of launches", testFiltersOfLaunches},
	{"imports that never end", func(t *testing.T, f *fixture) {
		// One was not begun, the workflow of the other was terminated.
		row, bad := `{"name":"A","email":"a@example.com"}`, `{"name":""}`
		unstarted := f.newImport(t, waypost.ImportCreate, row)
		stuck := f.newImport(t, waypost.ImportCreate, append(slices.Repeat([]string{row}, 500), slices.Repeat([]string{bad}, 501)...)...)
		must[waypost.Import](t)(f.ImportStep(t.Context(), stuck.ID))
		f.clock.Advance(10 * day)
		young := f.newImport(t, waypost.ImportCreate, row)
		f.wantDropped(t, "too early", keepAll, map[string]int{})
		f.clock.Advance(time.Second)
		f.wantDropped(t, "for ever", waypost.Retention{Events: day}, map[string]int{})
		f.wantDropped(t, "in time", keepAll, map[string]int{waypost.DropImport: 2})
		for id, created := range map[string]int{unstarted.ID: 0, stuck.ID: 500} {
			im := must[waypost.Import](t)(f.Import(t.Context(), scope, id))
			equal(t, "ended", []any{im.Status, im.Created, *im.EndedAt}, []any{waypost.ImportFailed, created, f.clock.Now()})
			equal(t, "a step after that", must[waypost.Import](t)(f.ImportStep(t.Context(), id)), im)
		}
		equal(t, "to be started", len(must[[]waypost.Import](t)(f.UnstartedImports(t.Context(), f.clock.Now(), 10))), 1)
		equal(t, "the young one", f.finish(t, young.ID).Status, waypost.ImportSucceeded)
		f.wantDropped(t, "once", keepAll, map[string]int{})
	}},
	{"failed rows of imports", func(t *testing.T, f *fixture) {
		im := f.finish(t, f.newImport(t, waypost.ImportCreate, `{"name":"A"}`, `{"name":""}`).ID)
		f.clock.Advance(2 * time.Second)
		open := f.newImport(t, waypost.ImportCreate, append(slices.Repeat([]string{`{"name":""}`}, 600), `{"name":"B"}`)...)
		must[waypost.Import](t)(f.ImportStep(t.Context(), open.ID))
		f.clock.Advance(10*day - time.Second)
		f.wantDropped(t, "of what has ended", keepAll, map[string]int{waypost.DropImportError: 1, waypost.DropImportLead: 1})
		equal(t, "counts", countsOf(must[waypost.Import](t)(f.Import(t.Context(), scope, im.ID))), countsOf(im))
		wantCode(t, f.ImportErrors(t.Context(), scope, im.ID, func(waypost.ImportError) error { return nil }), waypost.CodeNotFound)
		if len(f.failedRows(t, open.ID)) == 0 {
			t.Fatal("the failed rows of an import that runs are gone")
		}
		all := f.finish(t, f.newImport(t, waypost.ImportCreate, `{"name":"C"}`).ID)
		f.clock.Advance(11 * day)
		equal(t, "without failed rows", len(f.failedRows(t, all.ID)), 0)
	}},
	{"bulk redeliveries count on", testBulkRedeliveriesCountOn},
	{"a cohort goes with its last enrollment", func(t *testing.T, f *fixture) {
		// SQLite would look through all enrollments for each.
		stays := strings.HasPrefix(t.Name(), "TestSQLite/")
		there := func(what, cohort string, want bool) {
			t.Helper()
			want = want || stays
			equal(t, what, waypost.CodeOf(f.MarkStarted(t.Context(), cohort)) != waypost.CodeNotFound, want)
		}
		journey := f.versions(t, 2)
		alone, one := f.started(t, journey, 1)
		group, three := f.started(t, journey, 3)
		left, two := f.started(t, journey, 2)
		f.waitingAt(t, "wait", 3, two...)
		move := waypost.Move{To: 2, Node: "wait"}
		f.migrate(t, waypost.Migration{JourneyID: journey, From: 1, To: 2, Nodes: map[string]string{"wait": "wait"}})
		for i, id := range two {
			must[map[string]bool](t)(f.LetGo(t.Context(), f.leaving(t, journey, "", 3, move, id)))
			there("the one that they leave", left, i == 0)
			f.clock.Advance(time.Second) // so that they are claimed in this order
		}
		var into []string
		for _, c := range f.claimAll(t, 100) {
			into = append(into, c.ID)
			there("one that they moved to", c.ID, true)
		}
		equal(t, "moved to", len(into), 2)
		ok(t, f.CancelEnrollments(t.Context(), []string{one[0], three[0], three[2], two[0]}))
		f.clock.Advance(41 * day)
		f.wantDropped(t, "some", keepAll, map[string]int{waypost.DropEnrollment: 4})
		there("of one", alone, false)
		there("of three, with one left", group, true)
		there("of the first that moved", into[0], false)
		there("of the second that moved", into[1], true)
		equal(t, "still in it", f.enrollment(t, three[1]).WorkflowID, group)
		ok(t, f.CancelEnrollments(t.Context(), []string{three[1], two[1]}))
		f.clock.Advance(41 * day)
		f.wantDropped(t, "the others", keepAll, map[string]int{waypost.DropEnrollment: 2})
		there("of three", group, false)
		there("of the second that moved", into[1], false)
	}},
	{"a redelivery batch goes with its last message", func(t *testing.T, f *fixture) {
		keys := f.decidedAll(t, f.journey(t), f.webhook(t), 2, f.failed)
		must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{}, "app_1"))
		f.steps(t)
		batches := f.batches(t)
		equal(t, "batches", len(batches), 1)
		ok(t, f.MarkRedeliveryStarted(t.Context(), batches[0].ID))
		for _, key := range keys { // the bulk redelivery has ended with the second one
			f.open(t, f.again(key, 2, 2))
			f.record(t, of(2, f.succeeded(key, 2)))
			f.clock.Advance(20 * day)
		}
		f.drop(t, keepAll)
		f.clock.Advance(5 * day)
		equal(t, "deliveries", f.drop(t, keepAll)[waypost.DropDelivery], 0)
		ok(t, f.MarkRedeliveryStarted(t.Context(), batches[0].ID))
		f.clock.Advance(6 * day)
		equal(t, "the other", f.drop(t, keepAll)[waypost.DropDelivery], 1)
		wantCode(t, f.MarkRedeliveryStarted(t.Context(), batches[0].ID), waypost.CodeNotFound)
	}},
	{"a list of leads goes when nobody reads it", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		done := f.launch(t, journey, f.lead(t), f.lead(t)).ID
		f.run(t, done, 1000)
		waiting := f.launch(t, journey, f.lead(t)).ID
		recurring := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
			JourneyID: journey, Version: 1, AppID: "app_1", Schedule: mornings, Audience: waypost.Audience{LeadsIDs: []int64{f.lead(t)}},
		})).ID
		f.clock.Advance(40 * day)
		f.wantDropped(t, "too early", keepAll, map[string]int{})
		f.clock.Advance(time.Second)
		f.wantDropped(t, "of the launch that is through", keepAll, map[string]int{waypost.DropAudience: 1})
		for _, id := range []string{waiting, recurring} {
			must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, id))
		}
		f.clock.Advance(40 * day)
		f.wantDropped(t, "of canceled ones, too early", keepAll, map[string]int{})
		f.clock.Advance(time.Second)
		f.wantDropped(t, "of canceled ones", keepAll, map[string]int{waypost.DropAudience: 2})
		equal(t, "enrolls nobody", must[waypost.LaunchStep](t)(f.EnrollAudience(t.Context(), waiting, 10)), waypost.LaunchStep{Canceled: true})
	}},
	{"answers go after a day, whatever is kept", func(t *testing.T, f *fixture) {
		for i := range 3 {
			must[*waypost.Answer](t)(f.ClaimKey(t.Context(), claimOf(fmt.Sprint("key ", i), "one"), nil))
		}
		f.clock.Advance(24 * time.Hour)
		f.wantDropped(t, "too early", waypost.Retention{}, map[string]int{})
		f.clock.Advance(time.Microsecond)
		f.wantDropped(t, "after a day", waypost.Retention{}, map[string]int{waypost.DropAnswer: 3})
	}},
	{"many, by several, cut off", testDropByMany},
	{"one sweeps", func(t *testing.T, f *fixture) {
		const every, ttl = time.Hour, time.Minute
		hold := func(holder string) bool {
			t.Helper()
			return must[bool](t)(f.HoldSweep(t.Context(), holder, every, ttl))
		}
		equal(t, "one", hold("one"), true)
		equal(t, "still one", hold("one"), true)
		equal(t, "two", hold("two"), false)
		f.clock.Advance(ttl / 2)
		equal(t, "one renews", hold("one"), true)
		f.clock.Advance(ttl - time.Second)
		equal(t, "two, while one holds", hold("two"), false)
		f.clock.Advance(2 * time.Second)
		equal(t, "two, after one was killed", hold("two"), true)
		equal(t, "one has lost it", hold("one"), false)
		ok(t, f.EndSweep(t.Context(), "one", true))
		equal(t, "two has it still", hold("two"), true)
		ok(t, f.EndSweep(t.Context(), "two", false))
		equal(t, "one goes on", hold("one"), true)
		ok(t, f.EndSweep(t.Context(), "one", true))
		f.clock.Advance(every - time.Second)
		equal(t, "too early", hold("one"), false)
		f.clock.Advance(time.Second)
		held := make([]bool, 8)
		for _, err := range atOnce(len(held), func(i int) (err error) {
			held[i], err = f.HoldSweep(t.Context(), fmt.Sprint("process ", i), every, ttl)
			return err
		}) {
			ok(t, err)
		}
		equal(t, "one of many", len(slices.DeleteFunc(held, func(h bool) bool { return !h })), 1)
	}},
	{"a wrong clock keeps nobody off", func(t *testing.T, f *fixture) {
		const every, ttl = time.Hour, time.Minute
		hold := func(holder string) bool {
			t.Helper()
			return must[bool](t)(f.HoldSweep(t.Context(), holder, every, ttl))
		}
		f.clock.Advance(31 * day)
		equal(t, "ahead", hold("ahead"), true)
		f.clock.Advance(-31 * day)
		equal(t, "one, after it was killed", hold("one"), true)
		equal(t, "two, while one holds", hold("two"), false)
		f.clock.Advance(ttl / 2)
		equal(t, "one renews", hold("one"), true)
		f.clock.Advance(-ttl / 2)
		equal(t, "two, whose clock is a little behind", hold("two"), false)
		f.clock.Advance(31 * day)
		equal(t, "ahead again", hold("ahead"), true)
		ok(t, f.EndSweep(t.Context(), "ahead", true))
		equal(t, "it has swept", hold("ahead"), false)
		f.clock.Advance(-31 * day)
		equal(t, "one, whose sweep is due", hold("one"), true)
		f.clock.Advance(-31 * day)
		equal(t, "one, whose clock was mended", hold("one"), true)
		equal(t, "two, while one holds", hold("two"), false)
		f.clock.Advance(time.Second)
		ok(t, f.EndSweep(t.Context(), "one", true))
		f.clock.Advance(-time.Second)
		equal(t, "two, when one has just swept", hold("two"), false)
	}},
}

func testEachInItsTime(t *testing.T, f *fixture) {
	journey := f.journey(t)
	hook := f.webhook(t)
	id := f.enroll(t, journey, 1)[0]
	key, o := f.touchpoint(t, id, journey)
	o.Delivery.WebhookID = hook
	f.retried(t, o)
	message := f.sending(t, key).MessageID
	enrollment, timeline := f.enrollment(t, id), f.timeline(t, id)
	before, attempts, body := f.delivery(t, key)
	equal(t, "attempts", len(attempts), 2)
	equal(t, "body", body, o.Body)
	show := func() (waypost.Delivery, []waypost.Attempt, []byte) {
		t.Helper()
		d, attempts, body, err := f.Delivery(t.Context(), scope, message)
		ok(t, err)
		return d, attempts, body
	}

	f.clock.Advance(10 * day)
	f.wantDropped(t, "too early", keepAll, map[string]int{})
	f.clock.Advance(time.Second)
	f.wantDropped(t, "payloads", keepAll, map[string]int{waypost.DropPayload: 1})
	f.wantDropped(t, "once", keepAll, map[string]int{})
	after, left, body := show()
	want := before
	want.Message = ""
	equal(t, "the delivery", after, want)
	equal(t, "its body", body, []byte(nil))
	for i := range attempts {
		attempts[i].Message, attempts[i].ResponseExcerpt = "", ""
	}
	equal(t, "its attempts", left, attempts)
	_, err := f.Redeliver(t.Context(), scope, message)
	wantCode(t, err, waypost.CodeUnprocessableEntity)
	r := must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{Statuses: []waypost.DeliveryStatus{waypost.DeliverySucceeded}}, "app_1"))
	f.steps(t)
	r = must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
	equal(t, "in bulk", []any{r.Status, r.Total, r.Redelivered, r.Skipped}, []any{waypost.RedeliveryCompleted, 1, 0, 1})

	f.clock.Advance(10 * day)
	f.wantDropped(t, "attempts", keepAll, map[string]int{waypost.DropAttempt: 1})
	after, left, _ = show()
	equal(t, "the delivery", after, want)
	equal(t, "the last attempt", left, attempts[1:])

	f.clock.Advance(10 * day)
	f.wantDropped(t, "deliveries", keepAll, map[string]int{waypost.DropDelivery: 1})
	_, _, _, err = f.Delivery(t.Context(), scope, message)
	wantCode(t, err, waypost.CodeNotFound)
	_, err = f.Redeliver(t.Context(), scope, message)
	wantCode(t, err, waypost.CodeNotFound)
	equal(t, "the enrollment", f.enrollment(t, id), enrollment)
	equal(t, "its timeline", f.timeline(t, id), timeline)

	f.clock.Advance(10 * day)
	f.wantDropped(t, "enrollments", keepAll, map[string]int{waypost.DropEnrollment: 1})
	f.gone(t, id, true)
	f.wantDropped(t, "nothing is left", keepAll, map[string]int{})
	// Whatever comes too late changes nothing.
	ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(id, 9, waypost.EnrollmentCompleted)}))
	_, err = f.CancelEnrollment(t.Context(), scope, id)
	wantCode(t, err, waypost.CodeNotFound)
}

func testWhatRunsStays(t *testing.T, f *fixture) {
	journey, hook := f.journey(t), f.webhook(t)
	made := func() (waypost.Touchpoint, delivery.Opening) {
		key, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
		o.Delivery.WebhookID = hook
		f.clock.Advance(time.Second)
		return key, o
	}
	// An enrollment that runs, with a message that was decided.
	running, o := made()
	f.open(t, o)
	record := f.succeeded(running, 1)
	record.Progress = nil
	f.record(t, record)
	// One that was canceled while an attempt was under way, whose workflow was terminated.
	cut, o := made()
	f.open(t, o)
	must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, cut.EnrollmentID))
	// One that has ended, and is redelivered, and one whose redelivery is stuck.
	again := f.decidedAll(t, journey, hook, 2, f.failed)
	f.clock.Advance(100 * day)
	for _, key := range again {
		f.redeliver(t, key)
	}
	f.clock.Advance(9 * day)
	f.open(t, f.again(again[0], 2, 2))
	f.record(t, of(2, f.succeeded(again[0], 2)))

	// The attempt before the redelivery stands apart: it is the delivery that is not over.
	// No attempt is under way for days.
	equal(t, "under way", f.sending(t, cut).Open != nil, true)
	f.wantDropped(t, "of 109 days", keepAll, map[string]int{waypost.DropPayload: 1, waypost.DropDelivery: 1, waypost.DropEnrollment: 1})
	f.gone(t, cut.EnrollmentID, true)
	equal(t, "as what it counts", must[*waypost.DroppedCounts](t)(f.JourneyDropped(t.Context(), journey)).Deliveries, map[waypost.DeliveryStatus]int{waypost.DeliveryCanceled: 1})
	f.clock.Advance(11 * day)
	f.wantDropped(t, "of 120 days", keepAll, map[string]int{waypost.DropPayload: 1})
	f.clock.Advance(20 * day)
	f.wantDropped(t, "of 140 days", keepAll, map[string]int{waypost.DropAttempt: 1, waypost.DropDelivery: 1, waypost.DropEnrollment: 1})
	f.gone(t, again[0].EnrollmentID, true)
	for _, key := range []waypost.Touchpoint{running, again[1]} {
		f.gone(t, key.EnrollmentID, false)
		if _, _, body := f.delivery(t, key); body == nil {
			t.Fatalf("the message of %v is gone", key)
		}
	}

	// Each goes once it has ended.
	ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(running.EnrollmentID, 1, waypost.EnrollmentCompleted)}))
	ok(t, f.CancelRounds(t.Context(), []waypost.Round{{Touchpoint: again[1], Round: 2}}))
	f.clock.Advance(41 * day)
	f.wantDropped(t, "all", keepAll, map[string]int{waypost.DropPayload: 2, waypost.DropDelivery: 2, waypost.DropEnrollment: 2})
}

// counted is all that is counted of the launches and redeliveries of the scope.
func (f *fixture) counted(t testing.TB) (list []any) {
	t.Helper()
	for _, l := range must[[]waypost.Launch](t)(f.ListLaunches(t.Context(), scope, waypost.LaunchFilter{}, waypost.Page{})) {
		list = append(list, l, f.launchOf(t, l.ID))
	}
	for _, r := range must[[]waypost.Redelivery](t)(f.ListRedeliveries(t.Context(), scope, waypost.Page{})) {
		list = append(list, r)
	}
	return list
}

// deliverAll makes a delivery of each enrollment of a launch, every third of which
// fails after a retry, and ends them.
func (f *fixture) deliverAll(t testing.TB, journey, launch, hook string, members []waypost.CohortMember) {
	t.Helper()
	var openings []delivery.Opening
	for _, m := range members {
		_, o := f.touchpoint(t, m.EnrollmentID, journey)
		o.Delivery.LaunchID, o.Delivery.WebhookID = launch, hook
		openings = append(openings, o)
	}
	var first, second []delivery.AttemptRecord
	var again []delivery.Opening
	must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), openings))
	for i, o := range openings {
		if i%3 > 0 {
			first = append(first, f.succeeded(o.Touchpoint, 1))
			continue
		}
		first = append(first, f.retrying(o.Touchpoint, 1))
		o.Attempt = 2
		again, second = append(again, o), append(second, f.failed(o.Touchpoint, 2))
	}
	f.record(t, first...)
	must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), again))
	f.record(t, second...)
}

// launched makes a launch of n leads, whose journeys have ended.
func (f *fixture) launched(t testing.TB, journey, hook string, n int) string {
	t.Helper()
	var leads []int64
	for range n {
		leads = append(leads, f.lead(t))
	}
	l := f.launch(t, journey, leads...)
	f.run(t, l.ID, 1000)
	for _, c := range f.claimAll(t, 100) {
		ok(t, f.MarkStarted(t.Context(), c.ID))
		f.clock.Advance(time.Second)
		f.deliverAll(t, journey, l.ID, hook, c.Members)
	}
	return l.ID
}

func testLaunchesCountOn(t *testing.T, f *fixture) {
	journey, hook := f.journey(t), f.webhook(t)
	id := f.launched(t, journey, hook, 7)
	recurring := f.recurring(t, f.journey(t))
	occurrence := f.occurrence(t, recurring.ID)
	f.run(t, occurrence, 1000)
	for _, c := range f.claimAll(t, 100) {
		ok(t, f.MarkStarted(t.Context(), c.ID))
		f.deliverAll(t, recurring.JourneyID, occurrence, hook, c.Members)
	}
	l := f.launchOf(t, id)
	equal(t, "status", l.Status, waypost.LaunchCompleted)
	equal(t, "outcomes", l.Progress.Outcomes, waypost.OutcomeCounts{Succeeded: 4, Failed: 3})
	if f.launchOf(t, recurring.ID).Progress.Outcomes.Succeeded == 0 {
		t.Fatal("the occurrence sent nothing")
	}
	canceled := f.launch(t, journey, f.lead(t), f.lead(t))
	f.run(t, canceled.ID, 1000)
	must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, canceled.ID))
	f.sweep(t, 1000)
	must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, recurring.ID)) // else its next time moves
	f.clock.Advance(2 * time.Minute)
	f.sweep(t, 1000)
	f.decidedAll(t, journey, hook, 2, f.failed) // of no launch
	dropped := func() *waypost.DroppedCounts {
		t.Helper()
		return must[*waypost.DroppedCounts](t)(f.JourneyDropped(t.Context(), journey))
	}
	equal(t, "nothing was dropped", dropped() == nil, true)
	before := f.counted(t)
	for _, later := range []time.Duration{11 * day, 10 * day, 10 * day, 10 * day} {
		f.clock.Advance(later)
		if dropped := f.drop(t, keepAll); len(dropped) == 0 {
			t.Fatal("nothing was dropped")
		}
		equal(t, "counts", f.counted(t), before)
	}
	equal(t, "dropped", dropped(), &waypost.DroppedCounts{
		Enrollments: map[waypost.EnrollmentStatus]int{waypost.EnrollmentCompleted: 4, waypost.EnrollmentFailed: 5, waypost.EnrollmentCanceled: 2},
		Deliveries:  map[waypost.DeliveryStatus]int{waypost.DeliverySucceeded: 4, waypost.DeliveryFailed: 5},
	})
	equal(t, "of another journey", must[*waypost.DroppedCounts](t)(f.JourneyDropped(t.Context(), f.journey(t))) == nil, true)
	equal(t, "deliveries", len(must[[]waypost.Delivery](t)(f.ListDeliveries(t.Context(), scope, waypost.DeliveryFilter{}, waypost.Page{}))), 0)
	_, err := f.CancelLaunch(t.Context(), scope, id)
	wantCode(t, err, waypost.CodeConflict)
}

func testBulkRedeliveriesCountOn(t *testing.T, f *fixture) {
	keys := f.decidedAll(t, f.journey(t), f.webhook(t), 3, f.failed)
	r := must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{}, "app_1"))
	f.steps(t)
	f.batches(t)
	for i, key := range keys[:2] {
		f.open(t, f.again(key, 2, 2))
		f.record(t, of(2, []end{f.succeeded, f.failed}[i](key, 2)))
	}
	// One is not decided: what it comes to is counted from all of them.
	f.clock.Advance(100 * day)
	f.wantDropped(t, "before its end", keepAll, map[string]int{waypost.DropPayload: 2, waypost.DropAttempt: 2})
	equal(t, "status", must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID)).Status, waypost.RedeliveryRunning)
	f.open(t, f.again(keys[2], 2, 2))
	f.record(t, of(2, f.succeeded(keys[2], 2)))
	f.clock.Advance(time.Second)
	f.wantDropped(t, "when it has ended", keepAll, map[string]int{waypost.DropDelivery: 2, waypost.DropEnrollment: 2})
	f.clock.Advance(100 * day)
	f.wantDropped(t, "the rest", keepAll, map[string]int{waypost.DropPayload: 1, waypost.DropAttempt: 1, waypost.DropDelivery: 1, waypost.DropEnrollment: 1})
	r = must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
	equal(t, "counts", []any{r.Status, r.Total, r.Redelivered, r.Succeeded, r.Failed}, []any{waypost.RedeliveryCompleted, 3, 3, 2, 1})
}

// testDropByMany has several sweeps go on at once, each cut off after some steps and
// begun again, while others redeliver what they drop and count: nothing is counted
// twice or lost, at no time.
func testDropByMany(t *testing.T, f *fixture) {
	journey, hook := f.journey(t), f.webhook(t)
	const leads = 350
	id := f.launched(t, journey, hook, leads)
	f.clock.Advance(41 * day)
	before := f.launchOf(t, id)
	messages := must[[]waypost.Delivery](t)(f.ListDeliveries(t.Context(), scope, waypost.DeliveryFilter{}, waypost.Page{Limit: 20}))
	ctx := context.WithoutCancel(t.Context())
	var mu sync.Mutex
	total, begun := map[string]int{}, 0
	var work, counting sync.WaitGroup
	done := make(chan struct{})
	for w := range 3 {
		work.Go(func() {
			for at, n := "", 1; ; n++ {
				cut, cancel := context.WithCancel(ctx)
				if n%4 == w && n < 40 {
					time.AfterFunc(time.Duration(n%7)*time.Millisecond, cancel) // wherever it is
				}
				step, err := f.DropStep(cut, keepAll, at)
				cancel()
				if err != nil {
					if cut.Err() == nil {
						t.Error(err)
						return
					}
					at = ""
					continue
				}
				mu.Lock()
				total[step.Kind] += step.N
				mu.Unlock()
				if at = step.Next; at == "" {
					return
				}
			}
		})
	}
	work.Go(func() {
		for _, m := range messages {
			if _, err := f.Redeliver(ctx, scope, m.MessageID); err == nil {
				begun++
			} else if code := waypost.CodeOf(err); code != waypost.CodeNotFound && code != waypost.CodeUnprocessableEntity {
				t.Error(err)
			}
		}
	})
	counting.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
			}
			l, err := f.Launch(ctx, scope, id)
			if err != nil {
				t.Error(err)
				return
			}
			o := l.Progress.Outcomes
			if sum := o.Pending + o.Succeeded + o.Failed; sum != leads || l.Progress.Completed != leads || l.EndedAt == nil || !l.EndedAt.Equal(*before.EndedAt) {
				t.Errorf("meanwhile: %+v, ended at %v", l.Progress, l.EndedAt)
				return
			}
		}
	})
	work.Wait()
	close(done)
	counting.Wait()
	// Steps that were cut off may have been carried out without an answer.
	f.drop(t, keepAll)
	left := must[[]waypost.Delivery](t)(f.ListDeliveries(t.Context(), scope, waypost.DeliveryFilter{}, waypost.Page{Limit: 500}))
	equal(t, "left are those that are redelivered", len(left), begun)
	for _, d := range left {
		if _, _, body, err := f.Delivery(t.Context(), scope, d.MessageID); err != nil || body == nil {
			t.Fatalf("a redelivery has lost its message: %v", err)
		}
	}
	if total[waypost.DropDelivery] > leads-begun || total[waypost.DropEnrollment] > leads-begun {
		t.Fatalf("dropped %v of %d, %d of which are redelivered", total, leads, begun)
	}
	after := f.launchOf(t, id)
	after.Progress.Outcomes.Pending = 0
	counts := before
	counts.Progress.Outcomes = after.Progress.Outcomes
	equal(t, "launch", after, counts)
}

// testFiltersOfLaunches has filters of every kind of launch lose what tells who
// somebody is, once the launch has ended.
func testFiltersOfLaunches(t *testing.T, f *fixture) {
	email := "ada@example.com"
	ada := must[waypost.Lead](t)(f.CreateLead(t.Context(), scope, waypost.LeadFields{Name: "Ada", Email: &email, Region: ptr[int64](3)}, nil))
	full := waypost.LeadFilter{Region: ptr[int64](3), CreatedFrom: ada.CreatedAt, Name: "A", Email: email}
	left := waypost.LeadFilter{Region: full.Region, CreatedFrom: full.CreatedFrom}
	launch := func(filter waypost.LeadFilter, s *waypost.Schedule) string {
		l := must[waypost.Launch](t)(f.CreateLaunch(t.Context(), scope, waypost.Launch{
			JourneyID: f.journey(t), Version: 1, AppID: "app_1", Schedule: s, Audience: waypost.Audience{Filter: &filter},
		}))
		ok(t, f.MarkLaunchStarted(t.Context(), l.ID))
		f.clock.Advance(time.Second)
		return l.ID
	}
	// end ends what a launch has enrolled.
	end := func(id string) {
		for _, c := range f.claimAll(t, 100) {
			ok(t, f.MarkStarted(t.Context(), c.ID))
			for _, m := range c.Members {
				f.complete(t, m.EnrollmentID)
			}
		}
		equal(t, "status", f.launchOf(t, id).Status, waypost.LaunchCompleted)
	}
	nobody := full
	nobody.Name = "B"
	want := map[string]waypost.LeadFilter{}
	check := func(what string) {
		t.Helper()
		for id, filter := range want {
			equal(t, what, *f.launchOf(t, id).Audience.Filter, filter)
		}
	}
	over := []string{launch(full, nil), launch(nobody, nil), launch(waypost.LeadFilter{MobilePhone: "+491"}, nil), launch(waypost.LeadFilter{ExternalID: "x"}, nil)}
	for _, id := range over {
		f.run(t, id, 10)
		end(id)
		want[id] = left
	}
	want[over[2]], want[over[3]] = waypost.LeadFilter{}, waypost.LeadFilter{}
	region := launch(left, nil)
	f.run(t, region, 10)
	want[region] = left
	canceled, scheduled := launch(full, nil), launch(full, mornings)
	for _, id := range []string{canceled, scheduled} {
		must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, id))
		want[id] = left
	}
	recurring := launch(full, mornings)
	occurrence := f.occurrence(t, recurring)
	f.run(t, occurrence, 10)
	end(occurrence)
	want[recurring], want[occurrence] = full, left
	listed := f.launch(t, f.journey(t), ada.LeadsID).ID
	f.run(t, listed, 10)
	end(listed)
	f.clock.Advance(5 * day)
	// Nobody is enrolled yet; enrolled and under way; ended later than its audience.
	pending, running, late := launch(full, nil), launch(full, nil), launch(full, nil)
	for _, id := range []string{late, running} {
		f.run(t, id, 10)
		want[id] = full
	}
	want[pending] = full
	cohorts := f.claimAll(t, 100)
	equal(t, "enrolled later", len(cohorts), 2)
	f.clock.Advance(5*day - time.Second)
	f.wantDropped(t, "for ever", waypost.Retention{Attempts: day}, map[string]int{})
	f.wantDropped(t, "what has ended", keepAll, map[string]int{waypost.DropFilter: 7})
	check("after it")
	f.wantDropped(t, "once", keepAll, map[string]int{})
	byLaunch := map[string]string{}
	for _, c := range cohorts {
		byLaunch[c.LaunchID] = c.Members[0].EnrollmentID
	}
	f.complete(t, byLaunch[late])
	f.clock.Advance(10 * day)
	f.wantDropped(t, "the enrollment has ended just now", keepAll, map[string]int{})
	f.clock.Advance(time.Second)
	f.wantDropped(t, "now it is over", keepAll, map[string]int{waypost.DropFilter: 1})
	want[late] = left
	check("later")
	// The recurring one selects as ever.
	must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, running))
	equal(t, "the audience of the next occurrence", f.launchOf(t, f.occurrence(t, recurring)).Audience.Filter, &full)
	f.run(t, pending, 10)
	equal(t, "the audience of a late one", f.progressOf(t, pending).Total, 1)
	// Of enrollments that were dropped it is known when the last one ended.
	end(pending)
	f.clock.Advance(9 * day)
	f.drop(t, waypost.Retention{Enrollments: day})
	f.wantDropped(t, "its enrollments are gone", waypost.Retention{Payloads: 10 * day}, map[string]int{})
	f.clock.Advance(day + time.Second)
	f.wantDropped(t, "and long over", waypost.Retention{Payloads: 10 * day}, map[string]int{waypost.DropFilter: 2})
}
