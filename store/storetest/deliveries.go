package storetest

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// touchpoint returns the first touchpoint of an enrollment and the opening of its
// first attempt.
func (f *fixture) touchpoint(t testing.TB, enrollment, journey string) (waypost.Touchpoint, delivery.Opening) {
	t.Helper()
	key := waypost.Touchpoint{EnrollmentID: enrollment, Visit: 1}
	id := waypost.NewID(waypost.PrefixMessage, f.clock.Now())
	return key, delivery.Opening{
		Touchpoint: key, Scope: scope, Attempt: 1, At: f.clock.Now(), By: "worker 1", Body: []byte(`{"messageId":"` + id + `"}`),
		Delivery: waypost.Delivery{
			MessageID: id, JourneyID: journey, JourneyVersion: 1, NodeID: "hello", WebhookID: "whk_1",
			LeadsID: f.enrollment(t, enrollment).LeadsID,
		},
	}
}

func (f *fixture) newTouchpoint(t testing.TB) (waypost.Touchpoint, delivery.Opening) {
	t.Helper()
	journey := f.journey(t)
	return f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
}

func (f *fixture) open(t testing.TB, o delivery.Opening) delivery.Sending {
	t.Helper()
	return must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), []delivery.Opening{o}))[o.Touchpoint]
}

func (f *fixture) sending(t testing.TB, key waypost.Touchpoint) delivery.Sending {
	t.Helper()
	return must[map[waypost.Touchpoint]delivery.Sending](t)(f.Sendings(t.Context(), []waypost.Touchpoint{key}))[key]
}

// retrying and succeeded are the ends of an attempt.
func (f *fixture) retrying(key waypost.Touchpoint, attempt int) delivery.AttemptRecord {
	return delivery.AttemptRecord{
		Touchpoint: key, Scope: scope, Round: 1, Attempt: attempt, Status: waypost.DeliveryRetrying, NextAttemptAt: f.clock.Now().Add(5 * time.Second),
		Outcome: waypost.Outcome{HTTPStatus: 503, ErrorClass: waypost.ClassHTTPStatus, Message: "busy", Excerpt: "<html>", At: f.clock.Now(), Duration: 12 * time.Millisecond},
	}
}

func (f *fixture) succeeded(key waypost.Touchpoint, attempt int) delivery.AttemptRecord {
	p := f.progress(key.EnrollmentID, 1, waypost.EnrollmentCompleted)
	return delivery.AttemptRecord{
		Touchpoint: key, Scope: scope, Round: 1, Attempt: attempt, Status: waypost.DeliverySucceeded, Progress: &p,
		Outcome: waypost.Outcome{Succeed: true, HTTPStatus: 200, Message: "thanks", Excerpt: "{}", At: f.clock.Now(), Duration: 7 * time.Millisecond},
	}
}

func (f *fixture) failed(key waypost.Touchpoint, attempt int) delivery.AttemptRecord {
	p := f.progress(key.EnrollmentID, 1, waypost.EnrollmentFailed)
	return delivery.AttemptRecord{
		Touchpoint: key, Scope: scope, Round: 1, Attempt: attempt, Status: waypost.DeliveryFailed, Progress: &p,
		Outcome: waypost.Outcome{HTTPStatus: 404, ErrorClass: waypost.ClassHTTPStatus, Message: "gone", At: f.clock.Now(), Duration: time.Millisecond},
	}
}

func (f *fixture) record(t testing.TB, records ...delivery.AttemptRecord) {
	t.Helper()
	ok(t, f.RecordAttempts(t.Context(), records))
}

func (f *fixture) delivery(t testing.TB, key waypost.Touchpoint) (waypost.Delivery, []waypost.Attempt, []byte) {
	t.Helper()
	d, attempts, body, err := f.Delivery(t.Context(), scope, f.sending(t, key).MessageID)
	ok(t, err)
	return d, attempts, body
}

var deliveryTests = []test{
	{"way of a message", testWayOfAMessage},
	{"open is exclusive", func(t *testing.T, f *fixture) {
		key, o := f.newTouchpoint(t)
		first := f.open(t, o)
		second := o
		second.By, second.Body, second.Delivery.MessageID = "worker 2", []byte("other"), waypost.NewID(waypost.PrefixMessage, f.clock.Now())
		equal(t, "second", f.open(t, second), first) // not its own, and the first one's bytes
		equal(t, "stored", f.sending(t, key), first)
		equal(t, "same call again", f.open(t, o), first)
		equal(t, "doubled in one call", must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), []delivery.Opening{second, o, o})), map[waypost.Touchpoint]delivery.Sending{key: first})

		// Not out of turn, neither before nor after the end of the first attempt.
		for _, attempt := range []int{0, 2, 3} {
			skip := o
			skip.Attempt = attempt
			equal(t, "out of turn", f.open(t, skip), first)
		}
		f.record(t, f.retrying(key, 1))
		after := f.sending(t, key)
		equal(t, "attempt 1 again", f.open(t, o), after)
		third := o
		third.Attempt = 3
		equal(t, "attempt 3", f.open(t, third), after)
	}},
	{"unknown touchpoint", func(t *testing.T, f *fixture) {
		// A second attempt of a touchpoint that has no row makes none.
		key, o := f.newTouchpoint(t)
		o.Attempt = 2
		equal(t, "answer", len(must[map[waypost.Touchpoint]delivery.Sending](t)(f.OpenAttempts(t.Context(), []delivery.Opening{o}))), 0)
		equal(t, "sendings", len(must[map[waypost.Touchpoint]delivery.Sending](t)(f.Sendings(t.Context(), []waypost.Touchpoint{key}))), 0)
	}},
	{"interrupted", func(t *testing.T, f *fixture) {
		key, o := f.newTouchpoint(t)
		f.open(t, o)
		f.clock.Advance(time.Minute)
		again := delivery.Opening{Touchpoint: key, Scope: scope, Attempt: 2, At: f.clock.Now(), By: "worker 2", Interrupts: true}
		s := f.open(t, again)
		equal(t, "open", s.Open, &delivery.OpenAttempt{Attempt: 2, At: f.clock.Now(), By: "worker 2"})
		equal(t, "attempts", s.Attempts, 1)
		equal(t, "body", s.Body, o.Body)
		equal(t, "same call again", f.open(t, again), s)
		rival := again
		rival.By = "worker 3"
		equal(t, "rival", f.open(t, rival), s)

		// The first process lives after all: its outcome replaces "interrupted", but
		// a failure does not disturb the attempt that is under way.
		late := f.retrying(key, 1)
		late.Outcome.At = o.At
		f.record(t, late)
		now := f.sending(t, key)
		equal(t, "still open", now.Open, s.Open)
		d, attempts, _ := f.delivery(t, key)
		equal(t, "attempts", d.Attempts, 1)
		equal(t, "class", attempts[0].ErrorClass, waypost.ClassHTTPStatus)

		// "interrupted" never replaces a real outcome.
		interrupted := late
		interrupted.Outcome = waypost.Outcome{ErrorClass: waypost.ClassInterrupted, At: f.clock.Now()}
		f.record(t, interrupted)
		_, attempts, _ = f.delivery(t, key)
		equal(t, "class", attempts[0].ErrorClass, waypost.ClassHTTPStatus)
		f.record(t, f.succeeded(key, 2))
		d, attempts, _ = f.delivery(t, key)
		equal(t, "attempts", d.Attempts, 2)
		equal(t, "rows", len(attempts), 2)
		equal(t, "status", d.Status, waypost.DeliverySucceeded)
	}},
	{"interrupted twice", func(t *testing.T, f *fixture) {
		key, o := f.newTouchpoint(t)
		f.open(t, o)
		r := f.retrying(key, 1)
		r.Outcome = waypost.Outcome{ErrorClass: waypost.ClassInterrupted, At: o.At}
		f.record(t, r)
		before := f.sending(t, key)
		r.NextAttemptAt = r.NextAttemptAt.Add(time.Hour)
		f.record(t, r)
		equal(t, "after", f.sending(t, key), before)
	}},
	{"first final outcome wins", func(t *testing.T, f *fixture) {
		key, o := f.newTouchpoint(t)
		f.open(t, o)
		f.open(t, delivery.Opening{Touchpoint: key, Scope: scope, Attempt: 2, At: f.clock.Now(), By: "worker 2", Interrupts: true})
		// The interrupted attempt comes back as delivered: that decides.
		f.record(t, f.succeeded(key, 1))
		d, _, _ := f.delivery(t, key)
		equal(t, "status", d.Status, waypost.DeliverySucceeded)
		equal(t, "attempts", d.Attempts, 1)
		// The second POST happened too: it is listed and changes nothing else.
		f.clock.Advance(time.Second)
		failed := f.failed(key, 2)
		other := f.progress(key.EnrollmentID, 2, waypost.EnrollmentFailed)
		failed.Progress = &other
		f.record(t, failed)
		after, attempts, _ := f.delivery(t, key)
		equal(t, "attempts", len(attempts), 2)
		equal(t, "second", attempts[1].HTTPStatus, 404)
		d.Attempts = 2
		equal(t, "delivery", after, d)
		equal(t, "enrollment", f.enrollment(t, key.EnrollmentID).Status, waypost.EnrollmentCompleted)
		equal(t, "timeline", len(f.timeline(t, key.EnrollmentID)), 1)
		if s := f.sending(t, key); s.Open != nil {
			t.Fatalf("open: %+v", s.Open)
		}
		third := o
		third.Attempt = 3
		if s := f.open(t, third); s.Open != nil {
			t.Fatalf("opened an attempt of a final delivery: %+v", s)
		}
	}},
	{"record twice", func(t *testing.T, f *fixture) {
		key, o := f.newTouchpoint(t)
		f.open(t, o)
		for range 2 {
			f.record(t, f.failed(key, 1))
		}
		before, attempts, _ := f.delivery(t, key)
		equal(t, "attempts", len(attempts), 1)
		f.clock.Advance(time.Second)
		f.record(t, f.succeeded(key, 1)) // another opinion about the same attempt
		after, attempts, _ := f.delivery(t, key)
		equal(t, "delivery", after, before)
		equal(t, "attempt", attempts[0].HTTPStatus, 404)
		equal(t, "enrollment", f.enrollment(t, key.EnrollmentID).Status, waypost.EnrollmentFailed)
	}},
	{"two attempts in one call", func(t *testing.T, f *fixture) {
		key, o := f.newTouchpoint(t)
		f.open(t, o)
		f.record(t, f.retrying(key, 1), f.succeeded(key, 2), f.retrying(key, 1))
		d, attempts, _ := f.delivery(t, key)
		equal(t, "attempts", len(attempts), 2)
		equal(t, "attempts", d.Attempts, 2)
		equal(t, "status", d.Status, waypost.DeliverySucceeded)
	}},
	{"rounds", func(t *testing.T, f *fixture) {
		// A record of a later round changes a final delivery, one of an earlier round
		// is only listed.
		key := f.decided(t, f.failed)
		f.clock.Advance(time.Hour)
		f.redeliver(t, key)
		again := f.succeeded(key, 2)
		again.Round, again.Progress = 2, nil
		f.record(t, again)
		d, _, _ := f.delivery(t, key)
		equal(t, "status", d.Status, waypost.DeliverySucceeded)
		equal(t, "round", f.inRound(t, key, 2).Round, 2)
		late := f.failed(key, 3)
		late.Status = waypost.DeliveryCanceled
		f.record(t, late)
		after, attempts, _ := f.delivery(t, key)
		equal(t, "attempts", len(attempts), 3)
		d.Attempts = 3
		equal(t, "delivery", after, d)
	}},
	{"render failure", func(t *testing.T, f *fixture) {
		key, o := f.newTouchpoint(t)
		r := f.failed(key, 1)
		r.Delivery, r.Outcome = o.Delivery, waypost.Outcome{ErrorClass: waypost.ClassRender, Message: "line 1: unknown tag\x00", At: f.clock.Now()}
		for range 2 {
			f.record(t, r)
		}
		d, attempts, body := f.delivery(t, key)
		equal(t, "status", d.Status, waypost.DeliveryFailed)
		equal(t, "message", d.Message, "line 1: unknown tag\uFFFD")
		equal(t, "attempts", len(attempts), 1)
		equal(t, "journey", d.JourneyID, o.Delivery.JourneyID)
		if body != nil {
			t.Fatalf("a body: %q", body)
		}
		nameless := f.failed(waypost.Touchpoint{EnrollmentID: key.EnrollmentID, Visit: 9}, 1)
		if err := f.RecordAttempts(t.Context(), []delivery.AttemptRecord{nameless}); err == nil {
			t.Fatal("recorded an attempt of nothing")
		}
	}},
	{"rollback", func(t *testing.T, f *fixture) {
		// One record that cannot be written takes back what is not done at once.
		key, o := f.newTouchpoint(t)
		f.open(t, o)
		before := f.sending(t, key)
		bad := f.failed(waypost.Touchpoint{EnrollmentID: key.EnrollmentID, Visit: 77}, 1)
		bad.Delivery = o.Delivery
		good := f.retrying(key, 1)
		good.Outcome.At = time.Time{}
		if err := f.RecordAttempts(t.Context(), []delivery.AttemptRecord{good, bad}); err == nil {
			t.Fatal("recorded two deliveries with one message id")
		}
		equal(t, "after", f.sending(t, key), before)
		equal(t, "timeline", len(f.timeline(t, key.EnrollmentID)), 0)
	}},
	{"deferral", testDeferral},
	{"body for another id", func(t *testing.T, f *fixture) {
		// A deferral made the row: a body that names another message must not be sent.
		key, o := f.newTouchpoint(t)
		d := delivery.Deferral{Touchpoint: key, Scope: scope, Delivery: o.Delivery, Reason: waypost.DeferWebhookDisabled, At: f.clock.Now(), Until: f.clock.Now().Add(time.Minute)}
		ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{d}))
		wrong := o
		wrong.Delivery.MessageID = waypost.NewID(waypost.PrefixMessage, f.clock.Now())
		s := f.open(t, wrong)
		if s.Open != nil || s.Body != nil || s.MessageID != o.Delivery.MessageID {
			t.Fatalf("got %+v", s)
		}
		s = f.open(t, o)
		equal(t, "body", s.Body, o.Body)
		if s.Open == nil {
			t.Fatal("not open")
		}
	}},
	{"results", func(t *testing.T, f *fixture) {
		key, o := f.newTouchpoint(t)
		f.open(t, o)
		f.record(t, f.failed(key, 1))
		for visit, node := range map[int]string{3: "hello", 5: "later"} {
			next := o
			next.Visit, next.Delivery.NodeID, next.Delivery.MessageID = visit, node, waypost.NewID(waypost.PrefixMessage, f.clock.Now())
			f.open(t, next)
		}
		f.record(t, f.succeeded(waypost.Touchpoint{EnrollmentID: key.EnrollmentID, Visit: 3}, 1))
		f.record(t, f.retrying(waypost.Touchpoint{EnrollmentID: key.EnrollmentID, Visit: 5}, 1))
		got := must[map[string]map[string]waypost.TouchpointResult](t)(f.TouchpointResults(t.Context(), []string{key.EnrollmentID, "enr_none"}))
		equal(t, "results", got, map[string]map[string]waypost.TouchpointResult{
			key.EnrollmentID: {"hello": {Succeed: true, HTTPStatus: 200, Message: "thanks", Attempts: 1}},
		})
	}},
	{"scopes", func(t *testing.T, f *fixture) {
		_, o := f.newTouchpoint(t)
		f.open(t, o)
		for _, sc := range foreign {
			_, _, _, err := f.Delivery(t.Context(), sc, o.Delivery.MessageID)
			wantCode(t, err, waypost.CodeNotFound)
			equal(t, "list", len(must[[]waypost.Delivery](t)(f.ListDeliveries(t.Context(), sc, waypost.DeliveryFilter{JourneyID: o.Delivery.JourneyID}, waypost.Page{}))), 0)
		}
		for _, id := range []string{"", "msg_none", "msg_\x00", "\xff"} {
			_, _, _, err := f.Delivery(t.Context(), scope, id)
			wantCode(t, err, waypost.CodeNotFound)
		}
	}},
	{"concurrent openings", func(t *testing.T, f *fixture) {
		// Runs of one batch, in different orders: each attempt is one run's.
		journey := f.journey(t)
		ids := f.enroll(t, journey, 50)
		var batch []delivery.Opening
		for _, id := range ids {
			_, o := f.touchpoint(t, id, journey)
			batch = append(batch, o)
		}
		for attempt := 1; attempt <= 2; attempt++ {
			answers := make([]map[waypost.Touchpoint]delivery.Sending, 6)
			for _, err := range atOnce(len(answers), func(i int) (err error) {
				mine := slices.Clone(batch)
				if i%2 == 1 {
					slices.Reverse(mine)
				}
				for j := range mine {
					mine[j].Attempt, mine[j].By = attempt, fmt.Sprint("run ", i)
					mine[j].Delivery.MessageID = waypost.NewID(waypost.PrefixMessage, f.clock.Now())
					mine[j].Body = []byte(mine[j].Delivery.MessageID)
				}
				answers[i], err = f.OpenAttempts(t.Context(), mine)
				return err
			}) {
				ok(t, err)
			}
			var records []delivery.AttemptRecord
			for _, o := range batch {
				first := answers[0][o.Touchpoint]
				if first.Open == nil || first.Open.Attempt != attempt || !bytes.Equal(first.Body, []byte(first.MessageID)) {
					t.Fatalf("got %+v", first)
				}
				for i, answer := range answers {
					equal(t, fmt.Sprint("answer ", i), answer[o.Touchpoint], first)
				}
				records = append(records, f.retrying(o.Touchpoint, attempt))
			}
			f.record(t, records...)
		}
	}},
	{"concurrent records", func(t *testing.T, f *fixture) {
		// Two runs record the same batch, and a third the openings of its next wave.
		journey := f.journey(t)
		ids := f.enroll(t, journey, 40)
		var openings []delivery.Opening
		for _, id := range ids {
			_, o := f.touchpoint(t, id, journey)
			openings = append(openings, o)
		}
		_, err := f.OpenAttempts(t.Context(), openings)
		ok(t, err)
		for _, err := range atOnce(9, func(i int) error {
			var records []delivery.AttemptRecord
			for _, id := range ids {
				key := waypost.Touchpoint{EnrollmentID: id, Visit: 1}
				records = append(records, f.retrying(key, 1), f.succeeded(key, 2))
			}
			switch i % 3 {
			case 1:
				slices.Reverse(records)
			case 2:
				next := slices.Clone(openings)
				for j := range next {
					next[j].Attempt = 2
				}
				slices.Reverse(next)
				_, err := f.OpenAttempts(t.Context(), next)
				return err
			}
			return f.RecordAttempts(t.Context(), records)
		}) {
			ok(t, err)
		}
		for _, id := range ids {
			d, attempts, _ := f.delivery(t, waypost.Touchpoint{EnrollmentID: id, Visit: 1})
			equal(t, "status", d.Status, waypost.DeliverySucceeded)
			equal(t, "attempts", d.Attempts, 2)
			equal(t, "rows", len(attempts), 2)
			equal(t, "timeline", len(f.timeline(t, id)), 1)
		}
	}},
}

func testWayOfAMessage(t *testing.T, f *fixture) {
	key, o := f.newTouchpoint(t)
	openedAt := f.clock.Now()
	s := f.open(t, o)
	want := delivery.Sending{
		MessageID: o.Delivery.MessageID, Body: o.Body, Status: waypost.DeliveryPending, Round: 1, FirstAttemptAt: openedAt,
		Open: &delivery.OpenAttempt{Attempt: 1, At: openedAt, By: "worker 1"},
	}
	equal(t, "opened", s, want)
	equal(t, "read", f.sending(t, key), want)

	first := f.retrying(key, 1)
	f.record(t, first)
	want.Open, want.Status, want.HTTPStatus, want.ErrorClass, want.Attempts = nil, waypost.DeliveryRetrying, 503, waypost.ClassHTTPStatus, 1
	want.NextAttemptAt = first.NextAttemptAt
	equal(t, "retrying", f.sending(t, key), want)
	d, _, _ := f.delivery(t, key)
	if d.Succeed != nil {
		t.Fatalf("succeed of an undecided delivery: %v", *d.Succeed)
	}

	f.clock.Advance(5 * time.Second)
	s = f.open(t, delivery.Opening{Touchpoint: key, Scope: scope, Attempt: 2, At: f.clock.Now(), By: "worker 2"})
	want.Open = &delivery.OpenAttempt{Attempt: 2, At: f.clock.Now(), By: "worker 2"}
	equal(t, "opened again", s, want)

	second := f.succeeded(key, 2)
	f.record(t, second)
	want.Open, want.Status, want.Succeed, want.HTTPStatus, want.ErrorClass, want.Attempts = nil, waypost.DeliverySucceeded, true, 200, "", 2
	want.NextAttemptAt = time.Time{}
	want.DecidedAt = second.Outcome.At.Truncate(time.Millisecond).Add(second.Outcome.Duration.Truncate(time.Millisecond))
	equal(t, "succeeded", f.sending(t, key), want)

	d, attempts, body := f.delivery(t, key)
	lastAt := second.Outcome.At
	equal(t, "delivery", d, waypost.Delivery{
		MessageID: o.Delivery.MessageID, EnrollmentID: key.EnrollmentID, JourneyID: o.Delivery.JourneyID, JourneyVersion: 1,
		NodeID: "hello", WebhookID: "whk_1", LeadsID: o.Delivery.LeadsID, Status: waypost.DeliverySucceeded, Succeed: ptr(true),
		Message: "thanks", HTTPStatus: 200, Attempts: 2, FirstAttemptAt: &openedAt, LastAttemptAt: &lastAt, DurationMs: 7,
	})
	equal(t, "attempts", attempts, []waypost.Attempt{
		{Attempt: 1, Round: 1, At: openedAt, HTTPStatus: 503, ErrorClass: waypost.ClassHTTPStatus, Message: "busy", DurationMs: 12, ResponseExcerpt: "<html>"},
		{Attempt: 2, Round: 1, At: lastAt, HTTPStatus: 200, Message: "thanks", DurationMs: 7, ResponseExcerpt: "{}"},
	})
	equal(t, "body", body, o.Body)
	equal(t, "enrollment", f.enrollment(t, key.EnrollmentID).Status, waypost.EnrollmentCompleted)
	equal(t, "timeline", len(f.timeline(t, key.EnrollmentID)), 1)
}

func testDeferral(t *testing.T, f *fixture) {
	key, o := f.newTouchpoint(t)
	since := f.clock.Now()
	entry := f.progress(key.EnrollmentID, 1, waypost.EnrollmentRunning)
	d := delivery.Deferral{
		Touchpoint: key, Scope: scope, Delivery: o.Delivery, Reason: waypost.DeferWebhookDisabled, At: since, Until: since.Add(time.Minute), Progress: &entry,
	}
	for range 2 {
		ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{d}))
	}
	want := delivery.Sending{
		MessageID: o.Delivery.MessageID, Status: waypost.DeliveryDeferred, Round: 1, NextAttemptAt: d.Until,
		DeferredReason: waypost.DeferWebhookDisabled, DeferredSince: since,
	}
	equal(t, "deferred", f.sending(t, key), want)
	equal(t, "timeline", len(f.timeline(t, key.EnrollmentID)), 1)

	f.clock.Advance(time.Minute)
	d.At, d.Until, d.Progress = f.clock.Now(), f.clock.Now().Add(time.Minute), nil
	ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{d, d}))
	want.NextAttemptAt = d.Until
	equal(t, "still deferred, since the first time", f.sending(t, key), want)

	o.At = f.clock.Now()
	s := f.open(t, o)
	equal(t, "opened", s, delivery.Sending{
		MessageID: o.Delivery.MessageID, Body: o.Body, Status: waypost.DeliveryPending, Round: 1, FirstAttemptAt: o.At,
		Open: &delivery.OpenAttempt{Attempt: 1, At: o.At, By: o.By},
	})
	f.clock.Advance(time.Second)
	f.record(t, f.retrying(key, 1))
	before := f.sending(t, key)
	ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{d})) // older than the attempt
	equal(t, "late deferral", f.sending(t, key), before)

	d.At = f.clock.Now()
	ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{d}))
	equal(t, "deferred retry", f.sending(t, key).Status, waypost.DeliveryDeferred)
	o.Attempt = 2
	equal(t, "opened retry", f.open(t, o).Status, waypost.DeliveryRetrying)
	f.record(t, f.succeeded(key, 2))
	final := f.sending(t, key)
	f.clock.Advance(time.Hour)
	d.At, d.Progress = f.clock.Now(), &entry
	ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{d}))
	equal(t, "final", f.sending(t, key), final)
}
