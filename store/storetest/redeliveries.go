package storetest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// end makes the record that ends the first attempt of a touchpoint.
type end func(key waypost.Touchpoint, attempt int) delivery.AttemptRecord

// decided makes a delivery of a new enrollment, with a webhook that is there, whose
// first attempt has ended.
func (f *fixture) decided(t testing.TB, how end) waypost.Touchpoint {
	t.Helper()
	return f.decidedAll(t, f.journey(t), f.webhook(t), 1, how)[0]
}

// decidedAll makes n of them, in the order of their messages.
func (f *fixture) decidedAll(t testing.TB, journey, webhook string, n int, how end) []waypost.Touchpoint {
	t.Helper()
	keys := make([]waypost.Touchpoint, n)
	openings, records := make([]delivery.Opening, n), make([]delivery.AttemptRecord, n)
	for i, id := range f.enroll(t, journey, n) {
		f.clock.Advance(2 * time.Millisecond)
		keys[i], openings[i] = f.touchpoint(t, id, journey)
		openings[i].Delivery.WebhookID = webhook
		records[i] = how(keys[i], 1)
	}
	must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), openings))
	f.record(t, records...)
	f.clock.Advance(time.Second) // everything is decided before whatever comes
	return keys
}

// failedVisits makes n messages of one enrollment that have failed, in their order.
func (f *fixture) failedVisits(t testing.TB, journey, webhook string, n int) []waypost.Touchpoint {
	t.Helper()
	id := f.enroll(t, journey, 1)[0]
	lead := f.enrollment(t, id).LeadsID
	keys := make([]waypost.Touchpoint, n)
	openings, records := make([]delivery.Opening, n), make([]delivery.AttemptRecord, n)
	for i := range keys {
		f.clock.Advance(time.Millisecond)
		keys[i], openings[i] = waypost.Touchpoint{EnrollmentID: id, Visit: i + 1}, delivery.Opening{
			Scope: scope, Attempt: 1, At: f.clock.Now(), By: "worker 1", Body: []byte("{}"), Delivery: waypost.Delivery{
				MessageID: waypost.NewID(waypost.PrefixMessage, f.clock.Now()), JourneyID: journey, JourneyVersion: 1, NodeID: "hello", WebhookID: webhook,
				LeadsID: lead,
			},
		}
		openings[i].Touchpoint, records[i] = keys[i], f.failed(keys[i], 1)
	}
	must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), openings))
	f.record(t, records...)
	f.clock.Advance(time.Second)
	return keys
}

func (f *fixture) redeliver(t testing.TB, key waypost.Touchpoint) waypost.Delivery {
	t.Helper()
	return must[waypost.Delivery](t)(f.Redeliver(t.Context(), scope, f.sending(t, key).MessageID))
}

// inRound returns how a round of a touchpoint's message stands.
func (f *fixture) inRound(t testing.TB, key waypost.Touchpoint, round int) delivery.Sending {
	t.Helper()
	return must[map[waypost.Touchpoint]delivery.Sending](t)(f.SendingsOfRounds(t.Context(), []waypost.Round{{Touchpoint: key, Round: round}}))[key]
}

// again is the opening of an attempt of a redelivery.
func (f *fixture) again(key waypost.Touchpoint, round, attempt int) delivery.Opening {
	return delivery.Opening{Touchpoint: key, Round: round, Scope: scope, Attempt: attempt, At: f.clock.Now(), By: "worker 1"}
}

// of makes a record one of a redelivery, which moves no enrollment.
func of(round int, r delivery.AttemptRecord) delivery.AttemptRecord {
	r.Round, r.Progress = round, nil
	return r
}

// batches takes all batches that wait for a workflow.
func (f *fixture) batches(t testing.TB) []waypost.RedeliveryBatch {
	t.Helper()
	return must[[]waypost.RedeliveryBatch](t)(f.UnstartedRedeliveries(t.Context(), f.clock.Now().Add(-time.Hour), 1000))
}

// steps works through all bulk redeliveries.
func (f *fixture) steps(t testing.TB) {
	t.Helper()
	for must[bool](t)(f.RedeliveryStep(t.Context())) {
	}
}

var redeliveryTests = []test{
	{"a round of its own", testRound},
	{"what cannot be", testRoundRefused},
	{"one of two", func(t *testing.T, f *fixture) {
		key := f.decided(t, f.failed)
		id := f.sending(t, key).MessageID
		onePasses(t, atOnce(8, func(int) error {
			_, err := f.Redeliver(t.Context(), scope, id)
			return err
		}))
		equal(t, "batches", len(f.batches(t)), 1)
	}},
	{"the answer stands where the effect does", func(t *testing.T, f *fixture) {
		key := f.decided(t, f.failed)
		claim := claimOf("key", "one")
		must[*waypost.Answer](t)(f.ClaimKey(t.Context(), claim, nil))
		must[waypost.Delivery](t)(f.Redeliver(waypost.WithClaim(t.Context(), claim), scope, f.sending(t, key).MessageID))
		bulk := claimOf("bulk", "one")
		must[*waypost.Answer](t)(f.ClaimKey(t.Context(), bulk, nil))
		r := must[waypost.Redelivery](t)(f.CreateRedelivery(waypost.WithClaim(t.Context(), bulk), scope, waypost.DeliveryFilter{}, "app_1"))
		cancel := claimOf("cancel", "one")
		must[*waypost.Answer](t)(f.ClaimKey(t.Context(), cancel, nil))
		must[waypost.Redelivery](t)(f.CancelRedelivery(waypost.WithClaim(t.Context(), cancel), scope, r.ID))
		if !claim.Kept || !bulk.Kept || !cancel.Kept {
			t.Fatalf("kept: %v, %v, %v", claim.Kept, bulk.Kept, cancel.Kept)
		}
	}},
	{"the enrollment is nothing to it", func(t *testing.T, f *fixture) {
		// Neither a cancel nor a pause, before or meanwhile, holds a redelivery.
		journey := f.journey(t)
		key, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
		o.Delivery.WebhookID = f.webhook(t)
		f.open(t, o)
		f.record(t, f.retrying(key, 1))
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, key.EnrollmentID))
		equal(t, "canceled", f.sending(t, key).Status, waypost.DeliveryCanceled)
		must[waypost.Journey](t)(f.PauseJourney(t.Context(), scope, journey))
		f.redeliver(t, key)
		s := f.open(t, f.again(key, 2, 2))
		if s.Held || s.Open == nil {
			t.Fatalf("got %+v", s)
		}
		f.record(t, of(2, f.retrying(key, 2)))
		equal(t, "after the attempt", f.inRound(t, key, 2).Status, waypost.DeliveryRetrying)
		ok(t, f.CancelDeliveries(t.Context(), []waypost.Touchpoint{key}))
		must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, journey))
		for must[bool](t)(f.SweepCanceled(t.Context(), 100)) {
			f.clock.Advance(time.Second)
		}
		d := delivery.Deferral{Touchpoint: key, Round: 2, Scope: scope, Reason: waypost.DeferBreaker, At: f.clock.Now(), Until: f.clock.Now().Add(time.Minute)}
		ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{d}))
		equal(t, "after the deferral", f.inRound(t, key, 2).Status, waypost.DeliveryDeferred)
		ok(t, f.CancelRounds(t.Context(), []waypost.Round{{Touchpoint: key, Round: 3}, {Touchpoint: key, Round: 1}}))
		equal(t, "other rounds canceled", f.inRound(t, key, 2).Status, waypost.DeliveryDeferred)
		ok(t, f.CancelRounds(t.Context(), []waypost.Round{{Touchpoint: key, Round: 2}}))
		equal(t, "canceled itself", f.inRound(t, key, 2).Status, waypost.DeliveryCanceled)
	}},
	{"of a lead that is deleted", func(t *testing.T, f *fixture) {
		journey, hook := f.journey(t), f.webhook(t)
		keys := f.decidedAll(t, journey, hook, 2, f.failed)
		for _, key := range keys {
			f.redeliver(t, key)
			f.open(t, f.again(key, 2, 2))
		}
		f.record(t, of(2, f.retrying(keys[0], 2)))
		for _, key := range keys {
			lead := f.enrollment(t, key.EnrollmentID).LeadsID
			ok(t, f.DeleteLead(t.Context(), scope, lead, nil))
		}
		equal(t, "waiting", f.inRound(t, keys[0], 2).Status, waypost.DeliveryCanceled)
		// What is under way ends, and is not followed by another attempt.
		f.record(t, of(2, f.retrying(keys[1], 2)))
		s := f.open(t, f.again(keys[1], 2, 3))
		if !s.Held || s.Open != nil {
			t.Fatalf("got %+v", s)
		}
		rounds := []waypost.Round{{Touchpoint: keys[0], Round: 2}, {Touchpoint: keys[1], Round: 2}}
		equal(t, "stopped", must[map[waypost.Touchpoint]bool](t)(f.StoppedRounds(t.Context(), rounds)), map[waypost.Touchpoint]bool{keys[0]: true, keys[1]: true})
		var workflows []string
		for _, b := range f.batches(t) {
			workflows = append(workflows, b.ID)
			equal(t, "before it has started", len(f.notices(t)), 0)
		}
		equal(t, "told", f.notified(t, workflows), slices.Sorted(slices.Values(workflows)))
	}},
	{"released", func(t *testing.T, f *fixture) {
		// The workflow of the round is told, and not that of the enrollment.
		key := f.decided(t, f.failed)
		hook, _, _ := f.delivery(t, key)
		must[*waypost.Cohort](t)(f.ClaimCohort(t.Context()))
		f.redeliver(t, key)
		d := delivery.Deferral{Touchpoint: key, Round: 2, Scope: scope, Reason: waypost.DeferWebhookDisabled, At: f.clock.Now(), Until: f.clock.Now().Add(time.Hour)}
		early := d
		early.Round = 0
		ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{early}))
		equal(t, "deferred by its journey", f.inRound(t, key, 2).Status, waypost.DeliveryPending)
		ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{d}))
		ok(t, f.ReleaseDeferred(t.Context(), scope, hook.WebhookID, waypost.DeferWebhookDisabled))
		id := f.batches(t)[0].ID
		equal(t, "told", f.notified(t, []string{id}), []string{id})
		s := f.open(t, f.again(key, 2, 2))
		equal(t, "status", s.Status, waypost.DeliveryPending) // no attempt of this round yet
	}},
	{"in bulk", testBulk},
	{"a bulk that is canceled", func(t *testing.T, f *fixture) {
		journey, hook := f.journey(t), f.webhook(t)
		keys := f.failedVisits(t, journey, hook, waypost.MaxCohort+2)
		r := must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{WebhookID: hook}, "app_1"))
		must[bool](t)(f.RedeliveryStep(t.Context()))
		batch := f.batches(t)[0]
		under := f.again(keys[0], 2, 2)
		f.open(t, under)
		f.open(t, f.again(keys[1], 2, 2))
		f.record(t, of(2, f.succeeded(keys[1], 2)))
		for _, sc := range foreign {
			_, err := f.CancelRedelivery(t.Context(), sc, r.ID)
			wantCode(t, err, waypost.CodeNotFound)
		}
		f.clock.Advance(time.Second)
		r = must[waypost.Redelivery](t)(f.CancelRedelivery(t.Context(), scope, r.ID))
		equal(t, "canceled", []any{r.Status, *r.EndedAt, r.Redelivered, r.Succeeded}, []any{waypost.RedeliveryCanceled, f.clock.Now(), waypost.MaxCohort, 1})
		f.clock.Advance(time.Second)
		equal(t, "again", must[waypost.Redelivery](t)(f.CancelRedelivery(t.Context(), scope, r.ID)), r)
		f.steps(t)
		equal(t, "begun after it", len(f.batches(t)), 0)
		if s := f.open(t, f.again(keys[2], 2, 2)); !s.Held {
			t.Fatalf("an attempt is opened: %+v", s)
		}
		// The workflow is told, and cancels what has no attempt under way.
		equal(t, "told", f.notified(t, []string{batch.ID}), []string{batch.ID})
		var rounds []waypost.Round
		for _, m := range batch.Members {
			rounds = append(rounds, waypost.Round{Touchpoint: waypost.Touchpoint{EnrollmentID: m.EnrollmentID, Visit: m.Visit}, Round: m.Round})
		}
		equal(t, "stopped", len(must[map[waypost.Touchpoint]bool](t)(f.StoppedRounds(t.Context(), rounds))), waypost.MaxCohort)
		ok(t, f.CancelRounds(t.Context(), rounds))
		f.record(t, of(2, f.failed(keys[0], 2)))
		r = must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
		equal(t, "counts", []int{r.Succeeded, r.Failed, r.Canceled}, []int{1, 1, waypost.MaxCohort - 2})
		equal(t, "others", f.sending(t, keys[waypost.MaxCohort]).Round, 1)

		// What it canceled can be redelivered, also by another one, made after it.
		f.clock.Advance(time.Second)
		next := must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{Statuses: []waypost.DeliveryStatus{waypost.DeliveryCanceled}}, "app_1"))
		f.steps(t)
		next = must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, next.ID))
		equal(t, "the next one", []int{next.Total, next.Redelivered}, []int{waypost.MaxCohort - 2, waypost.MaxCohort - 2})
		// How the rounds of the first one ended does not change by that.
		still := must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
		equal(t, "the first one", still, r)
		_, err := f.Redelivery(t.Context(), foreign[0], r.ID)
		wantCode(t, err, waypost.CodeNotFound)
		list := must[[]waypost.Redelivery](t)(f.ListRedeliveries(t.Context(), scope, waypost.Page{}))
		equal(t, "list", list, []waypost.Redelivery{next, r})
	}},
	{"of a workflow that was terminated", func(t *testing.T, f *fixture) {
		journey, hook := f.journey(t), f.webhook(t)
		keys := f.decidedAll(t, journey, hook, 4, f.failed)
		other := f.decided(t, f.failed)
		f.redeliver(t, other)
		single := f.batches(t)[0].ID
		r := must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{WebhookID: hook}, "app_1"))
		f.steps(t)
		batch := f.batches(t)[0].ID
		ok(t, f.CancelLeftRounds(t.Context(), batch)) // it is about to be started
		equal(t, "not started", f.inRound(t, keys[0], 2).Status, waypost.DeliveryPending)
		f.open(t, f.again(keys[1], 2, 2)) // its process has ended, too
		f.open(t, f.again(keys[3], 2, 2))
		f.record(t, of(2, f.succeeded(keys[3], 2)))
		f.clock.Advance(3 * time.Minute)
		f.open(t, f.again(keys[2], 2, 2))
		f.record(t, of(2, f.retrying(keys[2], 2)))
		f.open(t, f.again(keys[2], 2, 3)) // it may be under way
		equal(t, "told of a cancel", func() []string {
			must[waypost.Redelivery](t)(f.CancelRedelivery(t.Context(), scope, r.ID))
			return f.notified(t, []string{batch})
		}(), []string{batch})
		ok(t, f.CancelLeftRounds(t.Context(), batch))
		ok(t, f.CancelLeftRounds(t.Context(), "rdb_1"))
		equal(t, "others", f.inRound(t, other, 2).Status, waypost.DeliveryPending)
		counts := func() []int {
			r := must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
			return []int{r.Succeeded, r.Failed, r.Canceled}
		}
		equal(t, "counts", counts(), []int{1, 0, 2})
		_, attempts, _ := f.delivery(t, keys[1])
		equal(t, "attempts", fmt.Sprint(places(attempts), classes(attempts)), "[1/1 2/2] [httpStatus interrupted]")
		f.clock.Advance(3 * time.Minute)
		ok(t, f.CancelLeftRounds(t.Context(), batch))
		equal(t, "later", counts(), []int{1, 0, 3})
		f.redeliver(t, keys[1])
		f.redeliver(t, keys[2])
		// Who tries a single one again has its workflow told, and then can.
		ok(t, f.MarkRedeliveryStarted(t.Context(), single))
		d, _, _ := f.delivery(t, other)
		_, err := f.Redeliver(t.Context(), scope, d.MessageID)
		wantCode(t, err, waypost.CodeConflict)
		if notified := f.notified(t, nil); !slices.Contains(notified, single) {
			t.Fatalf("told of another try: %v", notified)
		}
		ok(t, f.CancelLeftRounds(t.Context(), single))
		f.redeliver(t, other)
	}},
	{"what is canceled later does not belong to it", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		canceled := func(key waypost.Touchpoint) {
			must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, key.EnrollmentID))
		}
		keys := f.decidedAll(t, journey, f.webhook(t), 2, f.retrying)
		canceled(keys[0])
		f.clock.Advance(time.Millisecond)
		r := must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{Statuses: []waypost.DeliveryStatus{waypost.DeliveryCanceled}, JourneyID: journey}, "app_1"))
		f.clock.Advance(time.Millisecond)
		canceled(keys[1])
		f.steps(t)
		r = must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
		equal(t, "counts", []int{r.Total, r.Redelivered}, []int{1, 1})
		equal(t, "the first", f.inRound(t, keys[0], 2).Status, waypost.DeliveryPending)
	}},
	{"by several filters", func(t *testing.T, f *fixture) {
		journey, hook := f.journey(t), f.webhook(t)
		failed := f.decidedAll(t, journey, hook, waypost.MaxCohort+5, f.failed)
		canceled := f.decidedAll(t, journey, hook, waypost.MaxCohort+5, f.retrying)
		for _, key := range canceled {
			must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, key.EnrollmentID))
		}
		f.decidedAll(t, journey, hook, 3, f.succeeded)
		f.decidedAll(t, journey, hook, 2, func(key waypost.Touchpoint, attempt int) delivery.AttemptRecord {
			r := f.failed(key, attempt)
			r.Outcome.HTTPStatus, r.Outcome.ErrorClass = 0, waypost.ClassTimeout
			return r
		})
		f.clock.Advance(time.Millisecond)
		r := must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{
			Statuses: []waypost.DeliveryStatus{waypost.DeliveryFailed, waypost.DeliveryCanceled}, ErrorClass: waypost.ClassHTTPStatus, NodeID: "hello",
		}, "app_1"))
		f.steps(t)
		r = must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
		equal(t, "counts", []int{r.Total, r.Redelivered, r.Skipped}, []int{len(failed) + len(canceled), len(failed) + len(canceled), 0})
		for _, key := range slices.Concat(failed, canceled) {
			equal(t, "round", f.inRound(t, key, 2).Status, waypost.DeliveryPending)
		}
	}},
	{"what was cut off and canceled", func(t *testing.T, f *fixture) {
		key := f.decided(t, func(key waypost.Touchpoint, attempt int) delivery.AttemptRecord {
			return of(1, f.failed(key, attempt)) // its enrollment goes on
		})
		f.redeliver(t, key)
		f.open(t, f.again(key, 2, 2))
		cut := of(2, f.failed(key, 2)) // as it is recorded when nobody saw its end
		cut.Status, cut.Outcome.ErrorClass = waypost.DeliveryCanceled, waypost.ClassInterrupted
		f.record(t, cut)
		equal(t, "canceled", f.inRound(t, key, 2).Status, waypost.DeliveryCanceled)
		f.clock.Advance(time.Second)
		r := must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{Statuses: []waypost.DeliveryStatus{waypost.DeliveryCanceled}}, "app_1"))
		f.steps(t)
		r = must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
		equal(t, "counts", []int{r.Total, r.Redelivered}, []int{1, 1})
	}},
	{"what a bulk can name", func(t *testing.T, f *fixture) {
		for _, status := range []waypost.DeliveryStatus{waypost.DeliveryPending, waypost.DeliveryRetrying, waypost.DeliveryDeferred, "gone"} {
			_, err := f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{Statuses: []waypost.DeliveryStatus{status}}, "app_1")
			wantCode(t, err, waypost.CodeBadRequest)
		}
		for _, id := range []string{"rdl_1", "", waypost.NewID(waypost.PrefixRedelivery, f.clock.Now())} {
			_, err := f.Redelivery(t.Context(), scope, id)
			wantCode(t, err, waypost.CodeNotFound)
			_, err = f.CancelRedelivery(t.Context(), scope, id)
			wantCode(t, err, waypost.CodeNotFound)
			wantCode(t, f.MarkRedeliveryStarted(t.Context(), id), waypost.CodeNotFound)
		}
		r := must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{}, "app_1"))
		equal(t, "made", r, must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID)))
		equal(t, "status", []any{r.Status, r.Filter.Statuses[0], r.AppID}, []any{waypost.RedeliveryPending, waypost.DeliveryFailed, "app_1"})
		f.steps(t)
		r = must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
		equal(t, "of nothing", []any{r.Status, *r.EndedAt, r.Total}, []any{waypost.RedeliveryCompleted, f.clock.Now(), 0})
		_, err := f.CancelRedelivery(t.Context(), scope, r.ID)
		wantCode(t, err, waypost.CodeConflict)
	}},
}

// notified marks the workflows of batches as started, and returns all batches whose workflows have notices.
func (f *fixture) notified(t testing.TB, batches []string) []string {
	t.Helper()
	for _, id := range batches {
		ok(t, f.MarkRedeliveryStarted(t.Context(), id))
	}
	f.clock.Advance(time.Second) // notices wait for others
	var notified []string
	for _, n := range f.notices(t) {
		if waypost.IsID(waypost.PrefixRedeliveryBatch, n.WorkflowID) {
			notified = append(notified, n.WorkflowID)
		}
	}
	slices.Sort(notified)
	return notified
}

// testRound follows a message through two further rounds: it has the same bytes,
// and its journey sees nothing of them.
func testRound(t *testing.T, f *fixture) {
	key := f.decided(t, f.failed)
	enrollment, timeline := f.enrollment(t, key.EnrollmentID), f.timeline(t, key.EnrollmentID)
	first, _, body := f.delivery(t, key)
	seen := f.sending(t, key)
	results := func() map[string]map[string]waypost.TouchpointResult {
		return must[map[string]map[string]waypost.TouchpointResult](t)(f.TouchpointResults(t.Context(), []string{key.EnrollmentID}))
	}
	result := results()
	unseen := func() {
		t.Helper()
		equal(t, "enrollment", f.enrollment(t, key.EnrollmentID), enrollment)
		equal(t, "timeline", f.timeline(t, key.EnrollmentID), timeline)
		equal(t, "sending", f.sending(t, key), seen)
		equal(t, "results", results(), result)
	}
	conflict := func() {
		t.Helper()
		unseen()
		_, err := f.Redeliver(t.Context(), scope, first.MessageID)
		wantCode(t, err, waypost.CodeConflict)
	}
	for _, sc := range foreign {
		_, err := f.Redeliver(t.Context(), sc, first.MessageID)
		wantCode(t, err, waypost.CodeNotFound)
	}

	want := first
	want.Status, want.Succeed, want.FirstAttemptAt = waypost.DeliveryPending, nil, nil
	equal(t, "redelivered", f.redeliver(t, key), want)
	batch := f.batches(t)
	equal(t, "batch", batch, []waypost.RedeliveryBatch{{ID: batch[0].ID, Scope: scope, Members: []waypost.RedeliveryMember{{
		EnrollmentID: key.EnrollmentID, Visit: key.Visit, Round: 2, MessageID: first.MessageID,
		JourneyID: first.JourneyID, WebhookID: first.WebhookID, LeadsID: first.LeadsID,
	}}}})
	conflict()

	// The journey's workflow, should it run a batch again, opens nothing.
	f.clock.Advance(time.Hour)
	for attempt := 1; attempt <= 3; attempt++ {
		if s := f.open(t, f.again(key, 0, attempt)); s.Open != nil {
			t.Fatalf("attempt %d of the first round is open: %+v", attempt, s)
		}
		equal(t, "open", f.inRound(t, key, 2).Open, (*delivery.OpenAttempt)(nil))
	}
	began := f.clock.Now()
	s := f.open(t, f.again(key, 2, 2))
	equal(t, "open", s.Open, &delivery.OpenAttempt{Attempt: 2, At: began, By: "worker 1"})
	equal(t, "bytes", string(s.Body), string(body))
	if other := f.open(t, f.again(key, 1, 2)); other.Open != nil {
		t.Fatalf("the first round takes the second one's attempt for its own: %+v", other)
	}
	conflict()
	f.record(t, of(2, f.retrying(key, 2)))
	conflict()
	s = f.inRound(t, key, 2)
	equal(t, "retrying", []any{s.Status, s.Round, s.Attempts, s.Before, s.FirstAttemptAt}, []any{waypost.DeliveryRetrying, 2, 2, 1, began})
	f.clock.Advance(time.Minute)
	f.open(t, f.again(key, 2, 3))
	f.record(t, of(2, f.succeeded(key, 3)))
	unseen()
	d, attempts, _ := f.delivery(t, key)
	equal(t, "delivery", []any{d.Status, d.Attempts, *d.Succeed}, []any{waypost.DeliverySucceeded, 3, true})
	equal(t, "attempts", fmt.Sprint(places(attempts)), "[1/1 2/2 2/3]")

	// Once more, of a succeeded one. The second round has ended as it has.
	second := f.inRound(t, key, 2)
	f.redeliver(t, key)
	equal(t, "second round", f.inRound(t, key, 2), second)
	f.open(t, f.again(key, 3, 4))
	f.record(t, of(3, f.failed(key, 4)))
	unseen()
	d, attempts, body2 := f.delivery(t, key)
	equal(t, "delivery", []any{d.Status, d.Attempts, string(body2)}, []any{waypost.DeliveryFailed, 4, string(body)})
	equal(t, "attempts", fmt.Sprint(places(attempts)), "[1/1 2/2 2/3 3/4]")
	equal(t, "third round", f.inRound(t, key, 3).Before, 3)
	if _, there := must[map[waypost.Touchpoint]delivery.Sending](t)(f.SendingsOfRounds(t.Context(), []waypost.Round{{Touchpoint: key, Round: 4}}))[key]; there {
		t.Fatal("a round that has not begun is there")
	}
}

// places writes round and number of attempts.
func places(attempts []waypost.Attempt) (list []string) {
	for _, a := range attempts {
		list = append(list, fmt.Sprintf("%d/%d", a.Round, a.Attempt))
	}
	return list
}

// testRoundRefused tries what cannot be redelivered, one by one and in bulk.
func testRoundRefused(t *testing.T, f *fixture) {
	journey := f.journey(t)
	_, err := f.Redeliver(t.Context(), scope, "msg_1")
	wantCode(t, err, waypost.CodeNotFound)
	refused := func(key waypost.Touchpoint, code waypost.ErrorCode) {
		t.Helper()
		_, err := f.Redeliver(t.Context(), scope, f.sending(t, key).MessageID)
		wantCode(t, err, code)
	}
	// It was held back before it was made, and then canceled.
	unmade, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
	o.Delivery.WebhookID = f.webhook(t)
	ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{{
		Touchpoint: unmade, Scope: scope, Delivery: o.Delivery, Reason: waypost.DeferPaused, At: f.clock.Now(), Until: f.clock.Now().Add(time.Minute),
	}}))
	refused(unmade, waypost.CodeConflict)
	must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, unmade.EnrollmentID))
	refused(unmade, waypost.CodeUnprocessableEntity)

	gone := f.webhook(t)
	hookless := f.decidedAll(t, journey, gone, 1, f.failed)[0]
	ok(t, f.DeleteWebhook(t.Context(), scope, gone, nil))
	refused(hookless, waypost.CodeUnprocessableEntity)

	leadless := f.decided(t, f.failed)
	ok(t, f.DeleteLead(t.Context(), scope, f.enrollment(t, leadless.EnrollmentID).LeadsID, nil))
	refused(leadless, waypost.CodeUnprocessableEntity)

	// An attempt was taken for dead and has succeeded after all, while the next one is
	// under way.
	key, o := f.newTouchpoint(t)
	o.Delivery.WebhookID = f.webhook(t)
	f.open(t, o)
	f.clock.Advance(time.Minute)
	next := delivery.Opening{Touchpoint: key, Scope: scope, Attempt: 2, At: f.clock.Now(), By: "worker 2", Interrupts: true}
	f.open(t, next)
	f.record(t, f.succeeded(key, 1))
	equal(t, "status", f.sending(t, key).Status, waypost.DeliverySucceeded)
	refused(key, waypost.CodeConflict)
	f.clock.Advance(time.Second)
	bulk := func(status waypost.DeliveryStatus) waypost.Redelivery {
		r := must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{Statuses: []waypost.DeliveryStatus{status}}, "app_1"))
		f.steps(t)
		return must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
	}
	for status, n := range map[waypost.DeliveryStatus]int{waypost.DeliverySucceeded: 1, waypost.DeliveryFailed: 2, waypost.DeliveryCanceled: 1} {
		r := bulk(status)
		equal(t, string(status), []any{r.Total, r.Skipped, r.Redelivered, r.Status}, []any{n, n, 0, waypost.RedeliveryCompleted})
	}
	equal(t, "batches", len(f.batches(t)), 0)
	// No receiver takes so long: its process has ended.
	f.clock.Advance(3 * time.Minute)
	f.redeliver(t, key)
	_, attempts, _ := f.delivery(t, key)
	equal(t, "attempts", fmt.Sprint(places(attempts), classes(attempts)), "[1/1 1/2] [ interrupted]")
	s := f.open(t, f.again(key, 2, 3))
	equal(t, "round 2", []any{s.Open.Attempt, f.inRound(t, key, 2).Before}, []any{3, 2})
	late := f.failed(key, 2)
	f.record(t, late)
	equal(t, "still open", f.inRound(t, key, 2).Open, s.Open)
}

// testBulk works through more than one step of messages, by several callers at
// once, while others are redelivered and decided meanwhile.
func testBulk(t *testing.T, f *fixture) {
	const n = 3*waypost.MaxCohort + 30
	journey, hook := f.journey(t), f.webhook(t)
	keys := f.failedVisits(t, journey, hook, n)
	other := f.decidedAll(t, f.journey(t), hook, 3, f.failed)
	f.decidedAll(t, journey, hook, 3, f.succeeded)
	late := f.decidedAll(t, journey, hook, 2, f.retrying)
	r := must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{JourneyID: journey}, "app_1"))
	f.clock.Advance(time.Second)
	for _, key := range late { // decided after it was made
		f.open(t, delivery.Opening{Touchpoint: key, Scope: scope, Attempt: 2, At: f.clock.Now(), By: "worker 1"})
		f.record(t, f.failed(key, 2))
	}
	must[bool](t)(f.RedeliveryStep(t.Context()))
	r = must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
	equal(t, "after a step", []any{r.Status, r.Total, r.Redelivered, r.Skipped}, []any{waypost.RedeliveryRunning, n, waypost.MaxCohort, 0})
	for _, key := range keys[n-2:] { // another redelivery comes between
		f.redeliver(t, key)
	}
	for _, err := range atOnce(4, func(int) error {
		for {
			if more, err := f.RedeliveryStep(t.Context()); err != nil || !more {
				return err
			}
		}
	}) {
		ok(t, err)
	}
	r = must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
	equal(t, "counts", []any{r.Status, r.Total, r.Redelivered, r.Skipped, r.Succeeded, r.Failed}, []any{waypost.RedeliveryRunning, n, n - 2, 2, 0, 0})

	var end time.Time
	members := map[waypost.Touchpoint]int{}
	for _, b := range f.batches(t) {
		if b.RedeliveryID == "" {
			continue
		}
		if b.RedeliveryID != r.ID || len(b.Members) > waypost.MaxCohort {
			t.Fatalf("%d members of %s", len(b.Members), b.RedeliveryID)
		}
		var openings []delivery.Opening
		var records []delivery.AttemptRecord
		for _, m := range b.Members {
			key := waypost.Touchpoint{EnrollmentID: m.EnrollmentID, Visit: m.Visit}
			members[key]++
			equal(t, "round", m.Round, 2)
			how := f.succeeded
			if len(members)%2 == 0 {
				how = f.failed
			}
			openings, records = append(openings, f.again(key, 2, 2)), append(records, of(2, how(key, 2)))
		}
		must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), openings))
		f.record(t, records...)
		end = f.clock.Now().Add(7 * time.Millisecond).Truncate(time.Microsecond) // a success takes so long
		f.clock.Advance(time.Second)
	}
	equal(t, "members", len(members), n-2)
	for i, key := range keys {
		if want := map[bool]int{true: 1, false: 0}[i < n-2]; members[key] != want {
			t.Fatalf("message %d is redelivered %d times, want %d", i, members[key], want)
		}
	}
	for _, key := range append(other, late...) {
		equal(t, "others", f.sending(t, key).Round, 1)
	}
	r = must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
	equal(t, "completed", []any{r.Status, r.Succeeded, r.Failed, *r.EndedAt},
		[]any{waypost.RedeliveryCompleted, n/2 - 1, n/2 - 1, end})
	f.steps(t) // what failed again is not redelivered again
	again := must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, r.ID))
	equal(t, "afterwards", again, r)
}
