package storetest

import (
	"fmt"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// attemptTests look at what paused, canceled and repeated enrollments do to
// attempts, and at the two places where attempts stand.
var attemptTests = []test{
	{"held", testHeld},
	{"held in one call", func(t *testing.T, f *fixture) {
		// Of one batch, some may go: of the same launch, of another, of none.
		journey := f.journey(t)
		ids := f.enroll(t, journey, 4)
		var batch []delivery.Opening
		for i, id := range ids {
			_, o := f.touchpoint(t, id, journey)
			o.Delivery.LaunchID = []string{"", "", "lch_1", "lch_2"}[i]
			batch = append(batch, o)
		}
		must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, ids[1]))
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[2]))
		answer := must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), batch))
		for i, o := range batch {
			s := answer[o.Touchpoint]
			if held := i == 1 || i == 2; s.Held != held || (s.Open == nil) != held {
				t.Fatalf("%d: got %+v", i, s)
			}
		}
		equal(t, "stored", len(must[map[waypost.Touchpoint]delivery.Sending](t)(f.Sendings(t.Context(), []waypost.Touchpoint{batch[1].Touchpoint, batch[2].Touchpoint}))), 0)
	}},
	{"canceled meanwhile", func(t *testing.T, f *fixture) {
		// How an attempt ends that was open when its enrollment was canceled.
		journey := f.journey(t)
		for _, c := range []struct {
			record func(waypost.Touchpoint, int) delivery.AttemptRecord
			want   waypost.DeliveryStatus
		}{
			{f.retrying, waypost.DeliveryCanceled},
			{f.succeeded, waypost.DeliverySucceeded},
			{f.failed, waypost.DeliveryFailed},
		} {
			id := f.enroll(t, journey, 1)[0]
			key, o := f.touchpoint(t, id, journey)
			f.open(t, o)
			must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, id))
			equal(t, "under way", f.sending(t, key).Status, waypost.DeliveryPending)
			for range 2 {
				f.record(t, c.record(key, 1))
			}
			d, attempts, _ := f.delivery(t, key)
			equal(t, "status", d.Status, c.want)
			equal(t, "attempts", len(attempts), 1)
			equal(t, "succeed", d.Succeed != nil, c.want != waypost.DeliveryCanceled)
			if d.NextAttemptAt != nil {
				t.Fatalf("goes on at %v", d.NextAttemptAt)
			}
			equal(t, "enrollment", f.status(t, id), waypost.EnrollmentCanceled)
		}
	}},
	{"deferred after cancel", func(t *testing.T, f *fixture) {
		key, o := f.newTouchpoint(t)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, key.EnrollmentID))
		d := delivery.Deferral{Touchpoint: key, Scope: scope, Delivery: o.Delivery, Reason: waypost.DeferPaused, At: f.clock.Now(), Until: f.clock.Now().Add(time.Minute)}
		for range 2 {
			ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{d}))
		}
		equal(t, "sending", f.sending(t, key), delivery.Sending{MessageID: o.Delivery.MessageID, Status: waypost.DeliveryCanceled, Round: 1})
	}},
	{"late outcome of a superseded one", func(t *testing.T, f *fixture) {
		// Attempts 1 and 2 are cut off, 3 fails; then the outcomes of the first two are recorded.
		key, o := f.newTouchpoint(t)
		f.open(t, o)
		for attempt := 2; attempt <= 3; attempt++ {
			f.clock.Advance(time.Minute)
			f.open(t, delivery.Opening{Touchpoint: key, Scope: scope, Attempt: attempt, At: f.clock.Now(), By: "worker 2", Interrupts: true})
		}
		f.record(t, f.retrying(key, 3))
		d, attempts, _ := f.delivery(t, key)
		equal(t, "classes", classes(attempts), []string{waypost.ClassInterrupted, waypost.ClassInterrupted, waypost.ClassHTTPStatus})
		equal(t, "attempts", d.Attempts, 3)

		for range 2 {
			late := f.failed(key, 1)
			late.Status = waypost.DeliveryRetrying
			f.record(t, late)
		}
		after, attempts, _ := f.delivery(t, key)
		equal(t, "delivery", after, d) // the newest attempt decides
		equal(t, "first", []int{attempts[0].HTTPStatus, attempts[1].HTTPStatus, attempts[2].HTTPStatus}, []int{404, 0, 503})

		// A success decides whenever it comes.
		f.record(t, f.succeeded(key, 2))
		after, attempts, _ = f.delivery(t, key)
		equal(t, "status", after.Status, waypost.DeliverySucceeded)
		equal(t, "http status", after.HTTPStatus, 200)
		equal(t, "attempts", after.Attempts, 3)
		equal(t, "all", []int{attempts[0].HTTPStatus, attempts[1].HTTPStatus, attempts[2].HTTPStatus}, []int{404, 200, 503})

		// Their outcomes were recorded before: recording them again changes nothing.
		for attempt := 1; attempt <= 3; attempt++ {
			f.record(t, f.failed(key, attempt))
		}
		still, list, _ := f.delivery(t, key)
		equal(t, "delivery", still, after)
		equal(t, "attempts", list, attempts)
	}},
	{"late outcome of the last one", func(t *testing.T, f *fixture) {
		// Given up because it was cut off: what it came to is listed, the delivery stays.
		key, o := f.newTouchpoint(t)
		o.Delivery.WebhookID = f.webhook(t)
		f.open(t, o)
		gone := f.failed(key, 1)
		gone.Outcome = waypost.Outcome{ErrorClass: waypost.ClassInterrupted, Message: "cut off", At: f.clock.Now()}
		f.record(t, gone)
		before, _, _ := f.delivery(t, key)
		for range 2 {
			f.record(t, f.succeeded(key, 1))
		}
		after, attempts, _ := f.delivery(t, key)
		equal(t, "delivery", after, before)
		equal(t, "attempts", len(attempts), 1)
		equal(t, "http status", attempts[0].HTTPStatus, 200)

		// A new round puts its attempt in front of it.
		f.redeliver(t, key)
		again := f.succeeded(key, 2)
		again.Round, again.Outcome.HTTPStatus = 2, 201
		f.record(t, again)
		d, attempts, _ := f.delivery(t, key)
		equal(t, "delivery", []any{d.Status, d.HTTPStatus, d.Attempts}, []any{waypost.DeliverySucceeded, 201, 2})
		equal(t, "all", []int{attempts[0].HTTPStatus, attempts[1].HTTPStatus}, []int{200, 201})
	}},
	{"given up", func(t *testing.T, f *fixture) {
		// It stands with the attempt that a delivery has failed with: the first or a later
		// one, and of a round that another one has followed.
		for _, retried := range []bool{false, true} {
			key, o := f.newTouchpoint(t)
			o.Delivery.WebhookID = f.webhook(t)
			f.open(t, o)
			last := f.failed(key, 1)
			if retried {
				f.record(t, f.retrying(key, 1))
				d, attempts, _ := f.delivery(t, key)
				equal(t, "retrying", []waypost.GaveUp{d.GaveUp, attempts[0].GaveUp}, []waypost.GaveUp{"", ""})
				o.Attempt, o.Body = 2, nil
				f.open(t, o)
				last = f.failed(key, 2)
			}
			last.GaveUp = waypost.GaveUpNotRetried
			f.record(t, last)
			d, attempts, _ := f.delivery(t, key)
			const why = "gone; given up: retry.on has no such failure"
			equal(t, "delivery", []string{string(d.GaveUp), d.Message}, []string{"notRetried", why})
			equal(t, "attempt", attempts[len(attempts)-1].GaveUp, waypost.GaveUpNotRetried)
			f.redeliver(t, key)
			d, _, _ = f.delivery(t, key)
			equal(t, "redelivered", []string{string(d.GaveUp), d.Message}, []string{"", "gone"})
			f.open(t, f.again(key, 2, len(attempts)+1))
			f.record(t, of(2, f.succeeded(key, len(attempts)+1)))
			d, attempts, _ = f.delivery(t, key)
			equal(t, "in the end", d.GaveUp, waypost.GaveUp(""))
			n := len(attempts)
			equal(t, "log", []string{attempts[n-2].Message, string(attempts[n-1].GaveUp)}, []string{why, ""})
		}
	}},
	{"given up, superseded", func(t *testing.T, f *fixture) {
		// An attempt that is heard of late has not decided: the delivery goes on.
		key, o := f.newTouchpoint(t)
		f.open(t, o)
		f.open(t, delivery.Opening{Touchpoint: key, Scope: scope, Attempt: 2, At: f.clock.Now(), By: "worker 2", Interrupts: true})
		late := f.failed(key, 1)
		late.GaveUp = waypost.GaveUpTime
		f.record(t, late)
		d, attempts, _ := f.delivery(t, key)
		equal(t, "delivery", d.GaveUp, waypost.GaveUp(""))
		equal(t, "attempt", attempts[0].GaveUp, waypost.GaveUp(""))
	}},
	{"many attempts", func(t *testing.T, f *fixture) {
		key, o := f.newTouchpoint(t)
		f.open(t, o)
		const n = 12
		for attempt := 1; attempt <= n; attempt++ {
			r := f.retrying(key, attempt)
			r.Outcome.Message = fmt.Sprint("number ", attempt)
			f.record(t, r)
			f.clock.Advance(time.Minute)
			s := f.open(t, delivery.Opening{Touchpoint: key, Scope: scope, Attempt: attempt + 1, At: f.clock.Now(), By: "w"})
			if s.Open == nil || s.Open.Attempt != attempt+1 || s.Attempts != attempt {
				t.Fatalf("after %d: %+v", attempt, s)
			}
		}
		d, attempts, _ := f.delivery(t, key)
		equal(t, "attempts", d.Attempts, n)
		for i, a := range attempts {
			equal(t, "attempt", []any{a.Attempt, a.Message}, []any{i + 1, fmt.Sprint("number ", i+1)})
		}
	}},
	{"outcomes of a launch", func(t *testing.T, f *fixture) {
		journey := f.journey(t)
		launch, cohorts := f.enrolled(t, journey, 7)
		other, _ := f.enrolled(t, journey, 1)
		equal(t, "at first", f.progressOf(t, launch).Outcomes, waypost.OutcomeCounts{})
		var keys []waypost.Touchpoint
		for _, m := range cohorts[0].Members {
			key, o := f.touchpoint(t, m.EnrollmentID, journey)
			o.Delivery.LaunchID = launch
			if len(keys) == 5 {
				d := delivery.Deferral{Touchpoint: key, Scope: scope, Delivery: o.Delivery, Reason: waypost.DeferRateLimit, At: o.At, Until: o.At.Add(time.Second)}
				ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{d}))
			} else {
				f.open(t, o)
			}
			f.clock.Advance(time.Millisecond)
			keys = append(keys, key)
		}
		f.record(t, f.succeeded(keys[0], 1), f.succeeded(keys[1], 1), f.failed(keys[2], 1), f.retrying(keys[3], 1), f.retrying(keys[6], 1))
		ok(t, f.CancelDeliveries(t.Context(), keys[6:]))
		equal(t, "outcomes", f.progressOf(t, launch).Outcomes, waypost.OutcomeCounts{Pending: 1, Retrying: 1, Deferred: 1, Succeeded: 2, Failed: 1, Canceled: 1})
		equal(t, "of another", f.progressOf(t, other).Outcomes, waypost.OutcomeCounts{})
		list := must[[]waypost.Delivery](t)(f.ListDeliveries(t.Context(), scope, waypost.DeliveryFilter{LaunchID: launch}, waypost.Page{Limit: 3}))
		for i, d := range list { // newest first
			equal(t, "delivery", []any{d.EnrollmentID, d.LaunchID}, []any{keys[len(keys)-1-i].EnrollmentID, launch})
		}
		equal(t, "page", len(list), 3)
	}},
}

func classes(attempts []waypost.Attempt) (list []string) {
	for _, a := range attempts {
		list = append(list, a.ErrorClass)
	}
	return list
}

func testHeld(t *testing.T, f *fixture) {
	key, o := f.newTouchpoint(t)
	id := key.EnrollmentID
	pause := func() { t.Helper(); must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, id)) }
	resume := func() { t.Helper(); must[waypost.Enrollment](t)(f.ResumeEnrollment(t.Context(), scope, id, true)) }

	pause()
	equal(t, "no delivery yet", f.open(t, o), delivery.Sending{Held: true})
	equal(t, "stored", len(must[map[waypost.Touchpoint]delivery.Sending](t)(f.Sendings(t.Context(), []waypost.Touchpoint{key}))), 0)
	resume()
	first := f.open(t, o)
	if first.Held || first.Open == nil {
		t.Fatalf("resumed: %+v", first)
	}

	// An attempt that is under way stays so, and its end is recorded.
	pause()
	held := first
	held.Held = true
	equal(t, "same call again", f.open(t, o), held)
	cut := delivery.Opening{
		Touchpoint: key, Scope: scope, Delivery: o.Delivery, Attempt: 2, At: f.clock.Now(), By: "worker 2", Interrupts: true,
	}
	equal(t, "interrupting it", f.open(t, cut), held)
	f.record(t, f.retrying(key, 1))
	before := f.sending(t, key)
	equal(t, "recorded", before.Status, waypost.DeliveryRetrying)

	// No retry.
	next := o
	next.Attempt = 2
	held = before
	held.Held = true
	equal(t, "retry", f.open(t, next), held)
	equal(t, "stored", f.sending(t, key), before)
	resume()
	if s := f.open(t, next); s.Held || s.Open == nil || s.Open.Attempt != 2 {
		t.Fatalf("resumed: %+v", s)
	}

	// The journey's pause holds it too; what is final is never held.
	_, err := f.PauseJourney(t.Context(), scope, o.Delivery.JourneyID)
	ok(t, err)
	equal(t, "journey", f.open(t, next).Held, true)
	f.record(t, f.succeeded(key, 2))
	next.Attempt = 3
	if s := f.open(t, next); s.Held || s.Open != nil || s.Status != waypost.DeliverySucceeded {
		t.Fatalf("final: %+v", s)
	}
}
