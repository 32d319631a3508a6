package storetest

import (
	"fmt"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// holds tells what is stored of a message: its body, or a word of a receiver, of any
// attempt and round.
func (f *fixture) holds(t testing.TB, key waypost.Touchpoint) bool {
	t.Helper()
	d, attempts, body := f.delivery(t, key)
	words := d.Message
	for _, a := range attempts {
		words += a.Message + a.ResponseExcerpt
	}
	result := must[map[string]map[string]waypost.TouchpointResult](t)(f.TouchpointResults(t.Context(), []string{key.EnrollmentID}))[key.EnrollmentID]["hello"]
	return body != nil || words+result.Message != ""
}

// wantHeld fails unless something is stored of the messages, or nothing, as it is to be.
func (f *fixture) wantHeld(t testing.TB, what string, want bool, keys ...waypost.Touchpoint) {
	t.Helper()
	for i, key := range keys {
		equal(t, fmt.Sprintf("%s: holds something of message %d", what, i), f.holds(t, key), want)
	}
}

var erasureTests = []test{
	{"what is over", func(t *testing.T, f *fixture) {
		journey, hook, lead, other := f.journey(t), f.webhook(t), f.lead(t), f.lead(t)
		var silent []string
		var sent [][]waypost.Touchpoint
		for _, who := range []int64{lead, other} {
			// Ended without a message, and not the last one to enter.
			id := f.enrollAgain(t, journey, who)
			f.complete(t, id)
			silent = append(silent, id)
			// Retried and redelivered.
			key, o := f.touchpoint(t, f.enrollAgain(t, journey, who), journey)
			o.Delivery.WebhookID = hook
			f.retried(t, o)
			f.redeliver(t, key)
			f.open(t, f.again(key, 2, 3))
			f.record(t, of(2, f.failed(key, 3)))
			// Waits for another attempt.
			waits, o := f.touchpoint(t, f.enrollAgain(t, journey, who), journey)
			f.open(t, o)
			f.record(t, f.retrying(waits, 1))
			sent = append(sent, []waypost.Touchpoint{key, waits})
		}
		f.wantHeld(t, "before", true, append(sent[0], sent[1]...)...)
		ok(t, f.DeleteLead(t.Context(), scope, lead, nil))
		f.wantHeld(t, "the lead's", false, sent[0]...)
		f.wantParams(t, map[string]any{}, silent[0], sent[0][0].EnrollmentID, sent[0][1].EnrollmentID)
		f.wantHeld(t, "the other's", true, sent[1]...)
		f.wantParams(t, testParams, silent[1], sent[1][0].EnrollmentID, sent[1][1].EnrollmentID)
		// What is not about persons stays.
		d, attempts, _ := f.delivery(t, sent[0][0])
		equal(t, "delivery", []any{d.Status, d.Attempts, d.HTTPStatus}, []any{waypost.DeliveryFailed, 3, 404})
		equal(t, "attempts", []any{len(attempts), attempts[0].HTTPStatus}, []any{3, 503})
		equal(t, "canceled", f.sending(t, sent[0][1]).Status, waypost.DeliveryCanceled)
	}},
	{"what is under way", func(t *testing.T, f *fixture) {
		journey, hook := f.journey(t), f.webhook(t)
		lead := f.lead(t)
		var keys []waypost.Touchpoint
		for range 3 {
			key, o := f.touchpoint(t, f.enrollAgain(t, journey, lead), journey)
			o.Delivery.WebhookID = hook
			f.open(t, o)
			keys = append(keys, key)
		}
		// And of redeliveries.
		for range 2 {
			key, o := f.touchpoint(t, f.enrollAgain(t, journey, lead), journey)
			o.Delivery.WebhookID = hook
			f.retried(t, o)
			f.redeliver(t, key)
			f.open(t, f.again(key, 2, 3))
			keys = append(keys, key)
		}
		ok(t, f.DeleteLead(t.Context(), scope, lead, nil))
		f.wantHeld(t, "meanwhile", true, keys...)
		// It ends as it does, and that is recorded.
		f.record(t, f.succeeded(keys[0], 1), f.retrying(keys[1], 1))
		f.clock.Advance(time.Minute)
		lost := f.retrying(keys[2], 1)
		lost.Status, lost.Outcome = waypost.DeliveryCanceled, waypost.Outcome{ErrorClass: waypost.ClassInterrupted, Message: "the process ended", At: f.clock.Now()}
		f.record(t, lost, of(2, f.succeeded(keys[3], 3)), of(2, f.retrying(keys[4], 3)))
		ok(t, f.CancelRounds(t.Context(), []waypost.Round{{Touchpoint: keys[4], Round: 2}}))
		for i, want := range []struct {
			status   waypost.DeliveryStatus
			attempts int
		}{
			{waypost.DeliverySucceeded, 1}, {waypost.DeliveryCanceled, 1}, {waypost.DeliveryCanceled, 1}, {waypost.DeliverySucceeded, 3}, {waypost.DeliveryCanceled, 3},
		} {
			d, attempts, _ := f.delivery(t, keys[i])
			equal(t, fmt.Sprint("delivery ", i), []any{d.Status, d.Attempts, len(attempts)}, []any{want.status, want.attempts, want.attempts})
		}
		f.wantHeld(t, "after that", false, keys...)
		// What comes twice changes nothing.
		f.record(t, f.succeeded(keys[0], 1))
		f.wantHeld(t, "twice", false, keys[0])
	}},
	{"more than one statement is for", func(t *testing.T, f *fixture) {
		journey, lead := f.journey(t), f.lead(t)
		var ids []string
		for range 101 {
			ids = append(ids, f.enrollAgain(t, journey, lead))
		}
		f.complete(t, ids[1:]...)
		var openings []delivery.Opening
		var records []delivery.AttemptRecord
		var keys []waypost.Touchpoint
		for visit := range 201 {
			_, o := f.touchpoint(t, ids[0], journey)
			o.Visit = visit + 1
			r := f.succeeded(o.Touchpoint, 1)
			r.Progress = nil
			openings, records, keys = append(openings, o), append(records, r), append(keys, o.Touchpoint)
		}
		must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), openings))
		f.record(t, records...)
		ok(t, f.DeleteLead(t.Context(), scope, lead, nil))
		f.wantParams(t, map[string]any{}, ids...)
		for key, s := range must[map[waypost.Touchpoint]delivery.Sending](t)(f.Sendings(t.Context(), keys)) {
			if s.Body != nil || s.Status != waypost.DeliverySucceeded {
				t.Fatalf("of visit %d there is %q, %s", key.Visit, s.Body, s.Status)
			}
		}
	}},
	{"while it is recorded", func(t *testing.T, f *fixture) {
		// Whichever comes first: what is decided in the end is erased.
		journey, hook := f.journey(t), f.webhook(t)
		for range 5 {
			lead := f.lead(t)
			first, o := f.touchpoint(t, f.enrollAgain(t, journey, lead), journey)
			f.open(t, o)
			second, o := f.touchpoint(t, f.enrollAgain(t, journey, lead), journey)
			o.Delivery.WebhookID = hook
			f.retried(t, o)
			f.redeliver(t, second)
			f.open(t, f.again(second, 2, 3))
			for _, err := range atOnce(3, func(i int) error {
				switch i {
				case 0:
					return f.RecordAttempts(t.Context(), []delivery.AttemptRecord{f.succeeded(first, 1)})
				case 1:
					return f.RecordAttempts(t.Context(), []delivery.AttemptRecord{of(2, f.succeeded(second, 3))})
				}
				return f.DeleteLead(t.Context(), scope, lead, nil)
			}) {
				ok(t, err)
			}
			f.wantHeld(t, "at once", false, first, second)
		}
	}},
}
