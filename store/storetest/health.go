package storetest

import (
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

var healthTests = []test{
	{"nothing yet", func(t *testing.T, f *fixture) {
		id := f.webhook(t)
		none := waypost.AttemptStats{Errors: map[string]int{}}
		equal(t, "traffic", f.traffic(t, id), waypost.WebhookTraffic{Hour: none, Day: none, LastErrors: []waypost.FailedAttempt{}})
		for _, sc := range foreign {
			_, err := f.WebhookTraffic(t.Context(), sc, id)
			wantCode(t, err, waypost.CodeNotFound)
		}
	}},
	{"waiting", func(t *testing.T, f *fixture) {
		journey, id := f.journey(t), f.webhook(t)
		began := f.clock.Now()
		for i, reason := range []string{waypost.DeferBreaker, waypost.DeferBreaker, waypost.DeferRateLimit, "", waypost.DeferBreaker} {
			key, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
			o.Delivery.WebhookID = id
			if i == 4 {
				o.Delivery.WebhookID = "whk_1"
			}
			if reason == "" {
				f.open(t, o)
				f.record(t, f.retrying(key, 1))
				continue
			}
			ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{{
				Touchpoint: key, Scope: scope, Delivery: o.Delivery, Reason: reason, At: began.Add(time.Duration(i) * time.Minute), Until: began.Add(time.Hour),
			}}))
		}
		got := f.traffic(t, id)
		equal(t, "retrying", got.Retrying, 1)
		equal(t, "deferred", got.Deferred, []waypost.Waiting{
			{Reason: waypost.DeferBreaker, Count: 2, Since: began}, {Reason: waypost.DeferRateLimit, Count: 1, Since: began.Add(2 * time.Minute)},
		})
	}},
	{"more than are looked at", func(t *testing.T, f *fixture) {
		journey, id := f.journey(t), f.webhook(t)
		old, _, _ := f.delivery(t, f.failedVisits(t, journey, id, 1)[0])
		enrollment := f.enroll(t, journey, 1)[0]
		now := f.clock.Now()
		var all []delivery.Deferral
		hold := func(n int, reason string) {
			for range n {
				f.clock.Advance(time.Millisecond)
				all = append(all, delivery.Deferral{
					Touchpoint: waypost.Touchpoint{EnrollmentID: enrollment, Visit: len(all) + 1}, Scope: scope, Reason: reason, At: now, Until: now.Add(time.Hour),
					Delivery: waypost.Delivery{
						MessageID: waypost.NewID(waypost.PrefixMessage, f.clock.Now()), JourneyID: journey, JourneyVersion: 1, NodeID: "hello", WebhookID: id, LeadsID: 1,
					},
				})
			}
		}
		hold(2, waypost.DeferBreaker)
		hold(waypost.MaxWaiting+5, waypost.DeferPaused)
		hold(3, waypost.DeferRateLimit)
		ok(t, f.RecordDeferrals(t.Context(), all))
		got := f.traffic(t, id)
		equal(t, "deferred", got.Deferred, []waypost.Waiting{
			{Reason: waypost.DeferBreaker, Count: 2, Since: now}, {Reason: waypost.DeferPaused, Count: waypost.MaxWaiting, Since: now}, {Reason: waypost.DeferRateLimit, Count: 3, Since: now},
		})
		// The attempt is of a message that is not looked at any more, but still an error.
		equal(t, "attempts", got.Hour.Attempts, 0)
		equal(t, "sampled", got.SampledSince, waypost.IDTime(waypost.PrefixMessage, all[9].Delivery.MessageID).Add(time.Millisecond))
		equal(t, "errors", []any{len(got.LastErrors), got.LastErrors[0].MessageID}, []any{1, old.MessageID})
	}},
	{"attempts", func(t *testing.T, f *fixture) {
		journey, id := f.journey(t), f.webhook(t)
		// deliver makes a message whose attempts take so many milliseconds; the last one succeeds
		// if it is positive.
		deliver := func(took ...int) waypost.Touchpoint {
			t.Helper()
			key, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
			o.Delivery.WebhookID = id
			for i, ms := range took {
				if i > 0 {
					o = delivery.Opening{Touchpoint: key, Scope: scope, Attempt: i + 1, At: f.clock.Now(), By: "worker 1"}
				}
				f.open(t, o)
				r := f.retrying(key, i+1)
				switch {
				case i == len(took)-1 && ms > 0:
					r = f.succeeded(key, i+1)
				case i == len(took)-1:
					r, ms = f.failed(key, i+1), -ms
				}
				r.Outcome.Duration = time.Duration(ms) * time.Millisecond
				f.record(t, r)
				f.clock.Advance(time.Second)
			}
			return key
		}
		old := deliver(-1)
		f.clock.Advance(25 * time.Hour)
		worked := f.clock.Now()
		deliver(1000)
		refused := deliver(30, -2000)
		f.clock.Advance(2 * time.Hour)
		for ms := 1; ms <= 97; ms++ {
			deliver(ms)
		}
		last := f.clock.Now().Add(-time.Second)
		deliver(500, 400, 300)
		key, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
		o.Delivery.WebhookID = id
		f.open(t, o)
		cut := f.retrying(key, 1)
		cut.Outcome.ErrorClass, cut.Outcome.HTTPStatus = waypost.ClassInterrupted, 0
		f.record(t, cut)

		got := f.traffic(t, id)
		equal(t, "hour", got.Hour, waypost.AttemptStats{
			Attempts: 100, Succeeded: 98, Errors: map[string]int{waypost.ClassHTTPStatus: 2},
			P50: 50 * time.Millisecond, P95: 95 * time.Millisecond, P99: 400 * time.Millisecond, Max: 500 * time.Millisecond,
		})
		equal(t, "day", []any{got.Day.Attempts, got.Day.Succeeded, got.Day.Errors, got.Day.Max}, []any{103, 99, map[string]int{waypost.ClassHTTPStatus: 4}, 2 * time.Second})
		equal(t, "last success", got.LastSuccess.After(last) && got.LastSuccess.After(worked), true)
		equal(t, "sampled", got.SampledSince, time.Time{})
		// The last errors go further back than the counts.
		var list []string
		for _, e := range got.LastErrors {
			list = append(list, e.ErrorClass)
		}
		equal(t, "errors", list, []string{waypost.ClassInterrupted, waypost.ClassHTTPStatus, waypost.ClassHTTPStatus, waypost.ClassHTTPStatus, waypost.ClassHTTPStatus, waypost.ClassHTTPStatus})
		d, _, _ := f.delivery(t, refused)
		equal(t, "an error", got.LastErrors[3], waypost.FailedAttempt{
			MessageID: d.MessageID, Attempt: 2, At: *d.LastAttemptAt, HTTPStatus: 404, ErrorClass: waypost.ClassHTTPStatus, DurationMs: 2000,
		})
		d, _, _ = f.delivery(t, old)
		equal(t, "the oldest", got.LastErrors[5].MessageID, d.MessageID)
	}},
}

func (f *fixture) traffic(t testing.TB, id string) waypost.WebhookTraffic {
	t.Helper()
	return must[waypost.WebhookTraffic](t)(f.WebhookTraffic(t.Context(), scope, id))
}
