package storetest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// capped is the first touchpoint of a new enrollment of a lead, of a journey with a
// cap.
func (f *fixture) capped(t testing.TB, journey string, lead int64, n int, per time.Duration) delivery.Opening {
	t.Helper()
	e := must[waypost.Enrollment](t)(f.Enroll(t.Context(), scope, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead, AppID: "app_1"}, waypost.Reentry{Policy: waypost.ReentryAlways}))
	_, o := f.touchpoint(t, e.ID, journey)
	o.Cap = waypost.FrequencyCap{Touchpoints: n, Per: waypost.Duration(per)}
	o.Seq, o.Skipped = 1, func(reason string) (*waypost.Progress, error) {
		return &waypost.Progress{
			EnrollmentID: e.ID, Status: waypost.EnrollmentCompleted, NodeID: "hello", LastSeq: 3,
			Entries: []waypost.TimelineEntry{
				{Seq: 2, At: o.At, NodeID: "hello", What: waypost.WhatSkipped, Reason: reason},
				{Seq: 3, At: o.At, NodeID: "hello", What: waypost.WhatExited, Reason: "no next node"},
			},
		}, nil
	}
	return o
}

// now moves an opening to the present.
func (f *fixture) now(o delivery.Opening) delivery.Opening {
	o.At = f.clock.Now()
	return o
}

// wantSkipped fails unless the opening was skipped: no delivery of it is left to be
// sent, and its enrollment went on.
func (f *fixture) wantSkipped(t testing.TB, o delivery.Opening, s delivery.Sending, status waypost.DeliveryStatus) {
	t.Helper()
	if s.Skipped == "" || s.Open != nil || s.Held || s.Status != status {
		t.Fatalf("got %+v", s)
	}
	stored := f.sending(t, o.Touchpoint)
	equal(t, "delivery", stored.Status, status)
	if status != "" {
		equal(t, "reason", stored.DeferredReason, waypost.SkipFrequencyCap)
	}
	entries := f.timeline(t, o.EnrollmentID)
	equal(t, "entries", len(entries), 2)
	equal(t, "what", entries[0].What, waypost.WhatSkipped)
	equal(t, "reason", entries[0].Reason, waypost.SkipFrequencyCap)
	equal(t, "enrollment", f.status(t, o.EnrollmentID), waypost.EnrollmentCompleted)
}

func (f *fixture) skip(t testing.TB, openings ...delivery.Opening) map[waypost.Touchpoint]delivery.Sending {
	t.Helper()
	return must[map[waypost.Touchpoint]delivery.Sending](t)(f.SkipCapped(t.Context(), openings))
}

var capTests = []test{
	{"window", func(t *testing.T, f *fixture) {
		journey, lead := f.journey(t), f.lead(t)
		opens := func(n int, per time.Duration) bool {
			t.Helper()
			o := f.capped(t, journey, lead, n, per)
			_, early := f.skip(t, o)[o.Touchpoint]
			s := f.open(t, o)
			equal(t, "told before", early, s.Skipped != "")
			if s.Skipped != "" {
				f.wantSkipped(t, o, s, "")
				return false
			}
			equal(t, "open", s.Open != nil, true)
			f.record(t, f.succeeded(o.Touchpoint, 1))
			return true
		}
		equal(t, "first", opens(2, time.Hour), true)
		f.clock.Advance(30 * time.Minute)
		equal(t, "second", opens(2, time.Hour), true)
		f.clock.Advance(30*time.Minute - time.Millisecond)
		equal(t, "third", opens(2, time.Hour), false)
		equal(t, "of another cap", opens(3, time.Hour), true)
		f.clock.Advance(time.Millisecond)
		equal(t, "as the first leaves", opens(2, time.Hour), false) // two are left
		equal(t, "shorter", opens(2, time.Minute), true)
		f.clock.Advance(time.Hour)
		equal(t, "all have left", opens(1, time.Hour), true)
	}},
	{"what counts", func(t *testing.T, f *fixture) {
		// Every message of the lead whose first attempt has begun, of any journey, unless it
		// was given up or canceled; not what was never attempted, nor what others got.
		journey, other := f.journey(t), f.journey(t)
		sent := func(lead int64) delivery.Opening {
			o := f.capped(t, other, lead, 1, time.Hour)
			o.Delivery.WebhookID = f.webhook(t)
			f.open(t, o)
			return o
		}
		deferral := func(o delivery.Opening) delivery.Deferral {
			return delivery.Deferral{Touchpoint: o.Touchpoint, Scope: scope, Delivery: o.Delivery, Reason: waypost.DeferRateLimit, At: o.At, Until: o.At}
		}
		round2 := func(o delivery.Opening) {
			f.redeliver(t, o.Touchpoint)
			if s := f.open(t, f.again(o.Touchpoint, 2, 2)); s.Open == nil {
				t.Fatalf("round 2: %+v", s)
			}
		}
		for name, c := range map[string]struct {
			before func(lead int64)
			capped bool
		}{
			"nothing":        {func(int64) {}, false},
			"another lead's": {func(int64) { f.open(t, f.capped(t, other, f.lead(t), 1, time.Hour)) }, false},
			"under way":      {func(lead int64) { sent(lead) }, true},
			"of a journey without a cap": {func(lead int64) {
				o := f.capped(t, other, lead, 0, 0)
				o.Cap = waypost.FrequencyCap{}
				f.open(t, o)
			}, true},
			"succeeded": {func(lead int64) { f.record(t, f.succeeded(sent(lead).Touchpoint, 1)) }, true},
			"retried":   {func(lead int64) { f.record(t, f.retrying(sent(lead).Touchpoint, 1)) }, true},
			"deferred after an attempt": {func(lead int64) {
				o := sent(lead)
				f.record(t, f.retrying(o.Touchpoint, 1))
				ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{deferral(o)}))
			}, true},
			"failed": {func(lead int64) { f.record(t, f.failed(sent(lead).Touchpoint, 1)) }, false},
			"failed after a retry": {func(lead int64) {
				o := sent(lead)
				f.record(t, f.retrying(o.Touchpoint, 1))
				o.Attempt, o.Body = 2, nil
				f.open(t, o)
				f.record(t, f.failed(o.Touchpoint, 2))
			}, false},
			"never made": {func(lead int64) {
				o := f.capped(t, other, lead, 1, time.Hour)
				r := f.failed(o.Touchpoint, 1)
				r.Delivery, r.Outcome = o.Delivery, waypost.Outcome{ErrorClass: waypost.ClassRender, At: f.clock.Now()}
				f.record(t, r)
			}, false},
			"canceled between two attempts": {func(lead int64) {
				o := sent(lead)
				f.record(t, f.retrying(o.Touchpoint, 1))
				must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, o.EnrollmentID))
				ok(t, f.CancelDeliveries(t.Context(), []waypost.Touchpoint{o.Touchpoint}))
			}, false},
			"canceled while an attempt is under way": {func(lead int64) {
				o := sent(lead)
				must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, o.EnrollmentID))
				ok(t, f.CancelDeliveries(t.Context(), []waypost.Touchpoint{o.Touchpoint}))
			}, true},
			"succeeded after a cancel": {func(lead int64) {
				o := sent(lead)
				must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, o.EnrollmentID))
				f.record(t, f.succeeded(o.Touchpoint, 1))
			}, true},
			"deferred": {func(lead int64) {
				ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{deferral(f.capped(t, other, lead, 1, time.Hour))}))
			}, false},
			"skipped": {func(lead int64) {
				f.open(t, f.capped(t, other, lead, 1, time.Hour))
				f.clock.Advance(time.Hour)
				f.open(t, f.capped(t, other, lead, 1, 2*time.Hour))
			}, false},
			"deferred for long, and then sent": {func(lead int64) {
				o := f.capped(t, other, lead, 1, time.Hour)
				ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{deferral(o)}))
				f.clock.Advance(5 * time.Hour)
				f.open(t, f.now(o))
			}, true},
			"deferred for long, and then given up": {func(lead int64) {
				o := f.capped(t, other, lead, 1, time.Hour)
				ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{deferral(o)}))
				f.clock.Advance(5 * time.Hour)
				f.open(t, f.now(o))
				f.record(t, f.failed(o.Touchpoint, 1))
			}, false},
			// A redelivery takes a place with its own first attempt, and gives it back alike.
			"redelivered long after": {func(lead int64) {
				o := sent(lead)
				f.record(t, f.failed(o.Touchpoint, 1))
				f.clock.Advance(5 * time.Hour)
				round2(o)
			}, true},
			"redelivered with success": {func(lead int64) {
				o := sent(lead)
				f.record(t, f.failed(o.Touchpoint, 1))
				round2(o)
				f.record(t, of(2, f.succeeded(o.Touchpoint, 2)))
			}, true},
			"redelivered in vain": {func(lead int64) {
				o := sent(lead)
				f.record(t, f.failed(o.Touchpoint, 1))
				round2(o)
				f.record(t, of(2, f.failed(o.Touchpoint, 2)))
			}, false},
			"redelivered in vain after a success": {func(lead int64) {
				o := sent(lead)
				f.record(t, f.succeeded(o.Touchpoint, 1))
				f.clock.Advance(time.Minute)
				round2(o)
				f.record(t, of(2, f.failed(o.Touchpoint, 2)))
			}, true},
			"redelivered, and not attempted yet": {func(lead int64) {
				o := sent(lead)
				f.record(t, f.failed(o.Touchpoint, 1))
				f.redeliver(t, o.Touchpoint)
			}, false},
			"redelivered after a success, and not attempted yet": {func(lead int64) {
				o := sent(lead)
				f.record(t, f.succeeded(o.Touchpoint, 1))
				f.redeliver(t, o.Touchpoint)
			}, true},
			"redelivered after a success that has left the window": {func(lead int64) {
				o := sent(lead)
				f.record(t, f.succeeded(o.Touchpoint, 1))
				f.clock.Advance(5 * time.Hour)
				round2(o)
				f.record(t, of(2, f.failed(o.Touchpoint, 2)))
			}, false},
		} {
			lead := f.lead(t)
			c.before(lead)
			o := f.capped(t, journey, lead, 1, time.Hour)
			// What a dry run begins with is the same.
			recent := must[[]time.Time](t)(f.RecentTouchpoints(t.Context(), scope, lead, o.At.Add(-time.Hour), o.At, 10))
			if len(recent) > 0 != c.capped {
				t.Errorf("%s: recent touchpoints at %v", name, recent)
			}
			if s := f.open(t, o); (s.Skipped != "") != c.capped || (s.Open != nil) == c.capped {
				t.Errorf("%s: %+v", name, s)
			}
		}
	}},
	{"given back", func(t *testing.T, f *fixture) {
		// One that was skipped stays so; the next one goes out, and takes the place.
		journey, lead := f.journey(t), f.lead(t)
		first := f.capped(t, journey, lead, 1, time.Hour)
		f.open(t, first)
		second := f.capped(t, journey, lead, 1, time.Hour)
		f.wantSkipped(t, second, f.open(t, second), "")
		f.record(t, f.failed(first.Touchpoint, 1))
		third := f.capped(t, journey, lead, 1, time.Hour)
		equal(t, "told", len(f.skip(t, third)), 0)
		equal(t, "third", f.open(t, third).Open != nil, true)
		f.wantSkipped(t, second, f.open(t, f.now(second)), "")
		fourth := f.capped(t, journey, lead, 1, time.Hour)
		f.wantSkipped(t, fourth, f.open(t, fourth), "")
		// Recording it once more gives nothing back a second time.
		f.record(t, f.failed(first.Touchpoint, 1))
		fifth := f.capped(t, journey, lead, 1, time.Hour)
		f.wantSkipped(t, fifth, f.open(t, fifth), "")
	}},
	{"one call", func(t *testing.T, f *fixture) {
		journey, a, b := f.journey(t), f.lead(t), f.lead(t)
		openings := []delivery.Opening{
			f.capped(t, journey, a, 2, time.Hour), f.capped(t, journey, b, 2, time.Hour), f.capped(t, journey, a, 2, time.Hour),
			f.capped(t, journey, a, 2, time.Hour), f.capped(t, journey, a, 0, 0),
		}
		equal(t, "nobody is early", len(f.skip(t, openings...)), 0)
		answer := must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), openings))
		opened := map[int64]int{}
		for i, o := range openings {
			switch s := answer[o.Touchpoint]; {
			case s.Skipped != "":
				f.wantSkipped(t, o, s, "")
			case s.Open != nil && i < 4:
				opened[o.Delivery.LeadsID]++
			case s.Open == nil:
				t.Errorf("%d: %+v", i, s)
			}
		}
		equal(t, "opened", opened, map[int64]int{a: 2, b: 1})
	}},
	{"deferred before", func(t *testing.T, f *fixture) {
		journey, lead := f.journey(t), f.lead(t)
		for _, early := range []bool{false, true} {
			o := f.capped(t, journey, lead, 1, time.Hour)
			ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{{Touchpoint: o.Touchpoint, Scope: scope, Delivery: o.Delivery, Reason: waypost.DeferQuietHours, At: o.At, Until: o.At.Add(time.Hour)}}))
			f.open(t, f.capped(t, journey, lead, 0, 0))
			var s delivery.Sending
			if early {
				s = f.skip(t, o)[o.Touchpoint]
			} else {
				s = f.open(t, o)
			}
			f.wantSkipped(t, o, s, waypost.DeliveryCanceled)
			d, attempts, _ := f.delivery(t, o.Touchpoint)
			if d.DeferredReason != waypost.SkipFrequencyCap || d.NextAttemptAt != nil || d.FirstAttemptAt != nil || len(attempts) != 0 {
				t.Fatalf("delivery %+v", d)
			}
			// Nothing was sent, so there is nothing that conditions could ask about.
			results := must[map[string]map[string]waypost.TouchpointResult](t)(f.TouchpointResults(t.Context(), []string{o.EnrollmentID}))
			equal(t, "results", len(results), 0)
			// Whoever comes later finds it so.
			f.clock.Advance(2 * time.Hour)
			if s := f.open(t, f.now(o)); s.Open != nil || s.Status != waypost.DeliveryCanceled || s.DeferredReason != waypost.SkipFrequencyCap {
				t.Fatalf("again: %+v", s)
			}
		}
	}},
	{"skipped for good", func(t *testing.T, f *fixture) {
		// The process died before it could tell; the cap would let it pass by now.
		journey, lead := f.journey(t), f.lead(t)
		f.open(t, f.capped(t, journey, lead, 1, time.Hour))
		o := f.capped(t, journey, lead, 1, time.Hour)
		f.wantSkipped(t, o, f.open(t, o), "")
		f.clock.Advance(2 * time.Hour)
		equal(t, "early", len(f.skip(t, f.now(o))), 0)
		f.wantSkipped(t, o, f.open(t, f.now(o)), "")
	}},
	{"retries", func(t *testing.T, f *fixture) {
		journey, lead := f.journey(t), f.lead(t)
		o := f.capped(t, journey, lead, 1, time.Hour)
		f.open(t, o)
		f.record(t, f.retrying(o.Touchpoint, 1))
		o.Attempt, o.Body = 2, nil
		equal(t, "told", len(f.skip(t, o)), 0)
		equal(t, "second attempt", f.open(t, o).Open != nil, true)
	}},
	{"not in place of a pause", func(t *testing.T, f *fixture) {
		journey, lead := f.journey(t), f.lead(t)
		f.open(t, f.capped(t, journey, lead, 1, time.Hour))
		o := f.capped(t, journey, lead, 1, time.Hour)
		must[waypost.Enrollment](t)(f.PauseEnrollment(t.Context(), scope, o.EnrollmentID))
		equal(t, "told", len(f.skip(t, o)), 0)
		if s := f.open(t, o); !s.Held || s.Skipped != "" {
			t.Fatalf("got %+v", s)
		}
	}},
	{"at the same time", func(t *testing.T, f *fixture) {
		// Batches of the same leads in another order each, of several journeys.
		const leads, batches, most = 12, 8, 2
		journeys := []string{f.journey(t), f.journey(t)}
		ids := make([]int64, leads)
		for i := range ids {
			ids[i] = f.lead(t)
		}
		all := make([][]delivery.Opening, batches)
		for b := range all {
			for i := range leads {
				all[b] = append(all[b], f.capped(t, journeys[b%2], ids[(i*5+b)%leads], most, time.Hour))
			}
		}
		var mu sync.Mutex
		opened, skipped := map[int64]int{}, 0
		for _, err := range atOnce(batches, func(b int) error {
			answer, err := f.OpenAttempts(t.Context(), all[b])
			mu.Lock()
			defer mu.Unlock()
			for _, o := range all[b] {
				if s := answer[o.Touchpoint]; s.Open != nil {
					opened[o.Delivery.LeadsID]++
				} else if s.Skipped != "" {
					skipped++
				}
			}
			return err
		}) {
			ok(t, err)
		}
		for _, id := range ids {
			equal(t, fmt.Sprint("lead ", id), opened[id], most)
		}
		equal(t, "skipped", skipped, leads*(batches-most))
	}},
}
