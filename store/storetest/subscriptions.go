package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
)

// subscribe makes a subscription to types, of one journey or, with "", of all.
func (f *fixture) subscribe(t testing.TB, webhook, journey string, on ...waypost.Happening) waypost.Subscription {
	t.Helper()
	return must[waypost.Subscription](t)(f.CreateSubscription(t.Context(), scope, waypost.Subscription{Name: "crm", WebhookID: webhook, On: on, JourneyID: journey}))
}

// tell makes all messages that there are to make and returns those of a subscription: type,
// time and data.
func (f *fixture) tell(t testing.TB, subscription string) (messages []waypost.SubscriptionMessage) {
	t.Helper()
	for _, m := range f.tellAll(t) {
		if m.EnrollmentID != subscription {
			continue
		}
		_, _, body, err := f.Delivery(t.Context(), scope, m.MessageID)
		ok(t, err)
		var message waypost.SubscriptionMessage
		ok(t, json.Unmarshal(body, &message))
		messages = append(messages, message)
	}
	return messages
}

func (f *fixture) tellAll(t testing.TB) (members []waypost.RedeliveryMember) {
	t.Helper()
	for {
		batches, more, err := f.TellSubscriptions(t.Context(), waypost.MaxCohort)
		ok(t, err)
		for _, b := range batches {
			members = append(members, b.Members...)
		}
		if !more {
			return members
		}
	}
}

// typesAnd are the types of messages, and what a member of their data says.
func typesAnd(messages []waypost.SubscriptionMessage, member string) (list []string) {
	for _, m := range messages {
		list = append(list, fmt.Sprintf("%s %v", m.Type, m.Data.(map[string]any)[member]))
	}
	return list
}

// wantMessage fails unless there is one message, which says so.
func wantMessage(t testing.TB, got []waypost.SubscriptionMessage, h waypost.Happening, at time.Time, data map[string]any) {
	t.Helper()
	if len(got) != 1 {
		t.Fatalf("told %d times: %+v", len(got), got)
	}
	want, err := json.Marshal(data)
	ok(t, err)
	have, err := json.Marshal(got[0].Data)
	ok(t, err)
	equal(t, "data", string(have), string(want))
	equal(t, "type and time", []string{string(got[0].Type), got[0].Timestamp}, []string{string(h), at.Format(waypost.TimeFormat)})
}

var subscriptionTests = []test{
	{"made, changed, deleted", testSubscription},
	{"what they name is there", func(t *testing.T, f *fixture) {
		hook, journey := f.webhook(t), f.journey(t)
		create := func(sc waypost.Scope, webhook, journey string) error {
			_, err := f.CreateSubscription(t.Context(), sc, waypost.Subscription{Name: "n", WebhookID: webhook, On: []waypost.Happening{waypost.EnrollmentEnded}, JourneyID: journey})
			return err
		}
		missing := waypost.NewID(waypost.PrefixWebhook, f.clock.Now())
		wantCode(t, create(scope, missing, ""), waypost.CodeNotFound)
		wantCode(t, create(scope, hook, waypost.NewID(waypost.PrefixJourney, f.clock.Now())), waypost.CodeNotFound)
		for _, sc := range foreign {
			wantCode(t, create(sc, hook, ""), waypost.CodeNotFound)
		}
		ok(t, create(scope, hook, journey))
		s := must[[]waypost.Subscription](t)(f.ListSubscriptions(t.Context(), scope, waypost.Page{}))[0]
		_, err := f.UpdateSubscription(t.Context(), scope, s.ID, func(s *waypost.Subscription) error { s.WebhookID = missing; return nil })
		wantCode(t, err, waypost.CodeNotFound)
		wantCode(t, f.DeleteWebhook(t.Context(), scope, hook, nil), waypost.CodeConflict)
		ok(t, f.DeleteSubscription(t.Context(), scope, s.ID, nil))
		ok(t, f.DeleteWebhook(t.Context(), scope, hook, nil))
	}},
	{"so many of a stage", func(t *testing.T, f *fixture) {
		hook := f.webhook(t)
		somePass(t, atOnce(waypost.MaxSubscriptions+20, func(int) error {
			_, err := f.CreateSubscription(t.Context(), scope, waypost.Subscription{Name: "n", WebhookID: hook, On: []waypost.Happening{waypost.ImportEnded}})
			return err
		}), waypost.MaxSubscriptions, waypost.CodeConflict)
	}},
	{"an enrollment that completes", func(t *testing.T, f *fixture) {
		hook, journey := f.webhook(t), f.journey(t)
		all, mine, other := f.subscribe(t, hook, "", waypost.EnrollmentEnded), f.subscribe(t, hook, journey, waypost.EnrollmentEnded), f.subscribe(t, hook, f.journey(t), waypost.EnrollmentEnded)
		deaf := f.subscribe(t, hook, "", waypost.DeliveryFailure)
		key, o := f.touchpoint(t, f.enroll(t, journey, 1)[0], journey)
		e := f.enrollment(t, key.EnrollmentID)
		f.open(t, o)
		f.clock.Advance(time.Second)
		f.record(t, f.succeeded(key, 1))
		f.record(t, f.succeeded(key, 1)) // what is recorded again happens once
		ended := f.clock.Now()
		f.clock.Advance(time.Second)
		ok(t, f.RecordProgress(t.Context(), []waypost.Progress{f.progress(key.EnrollmentID, 1, waypost.EnrollmentCompleted)}))
		members := f.tellAll(t)
		equal(t, "told", mappedTo(members), slices.Sorted(slices.Values([]string{all.ID, mine.ID})))
		equal(t, "others", []int{len(f.tell(t, other.ID)), len(f.tell(t, deaf.ID))}, []int{0, 0})
		d, attempts, body, err := f.Delivery(t.Context(), scope, members[0].MessageID)
		ok(t, err)
		equal(t, "the delivery", []any{d.SubscriptionID, d.EnrollmentID, d.JourneyID, d.LeadsID, d.WebhookID, d.Status, len(attempts)},
			[]any{members[0].EnrollmentID, "", "", int64(0), hook, waypost.DeliveryPending, 0})
		var m waypost.SubscriptionMessage
		ok(t, json.Unmarshal(body, &m))
		wantMessage(t, []waypost.SubscriptionMessage{m}, waypost.EnrollmentEnded, ended, map[string]any{
			"enrollmentId": e.ID, "journeyId": journey, "journeyName": "Welcome", "version": 1, "leadsId": e.LeadsID, "launchId": nil, "entryKey": "0",
			"status": "completed", "createdAt": e.CreatedAt.Format(waypost.TimeFormat),
		})
		equal(t, "again", len(f.tellAll(t)), 0)
	}},
	{"enrollments that end otherwise", func(t *testing.T, f *fixture) {
		journey := f.exiting(t)
		s := f.subscribe(t, f.webhook(t), "", waypost.EnrollmentEnded)
		ids := f.enroll(t, journey, 5)
		must[waypost.Enrollment](t)(f.CancelEnrollment(t.Context(), scope, ids[0]))
		ok(t, f.CancelEnrollments(t.Context(), ids[:2]))
		f.accept(t, f.enrollment(t, ids[2]).LeadsID, "evt", "leave")
		ok(t, f.DeleteLead(t.Context(), scope, f.enrollment(t, ids[3]).LeadsID, nil))
		f.clock.Advance(time.Second)
		must[waypost.Journey](t)(f.CancelJourney(t.Context(), scope, journey))
		for must[bool](t)(f.SweepCanceled(t.Context(), 100)) {
			f.clock.Advance(time.Second)
		}
		messages := f.tell(t, s.ID)
		equal(t, "whose", typesAnd(messages, "enrollmentId"), []string{
			"enrollment.ended " + ids[0], "enrollment.ended " + ids[1], "enrollment.ended " + ids[2], "enrollment.ended " + ids[3], "enrollment.ended " + ids[4],
		})
		equal(t, "how", typesAnd(messages, "status"), []string{
			"enrollment.ended canceled", "enrollment.ended canceled", "enrollment.ended exited", "enrollment.ended canceled", "enrollment.ended canceled",
		})
	}},
	{"a delivery that fails, in each round", func(t *testing.T, f *fixture) {
		s := f.subscribe(t, f.webhook(t), "", waypost.DeliveryFailure)
		key := f.decided(t, f.failed)
		d, _, _ := f.delivery(t, key)
		wantMessage(t, f.tell(t, s.ID), waypost.DeliveryFailure, d.LastAttemptAt.Add(time.Millisecond), map[string]any{
			"messageId": d.MessageID, "enrollmentId": key.EnrollmentID, "journeyId": d.JourneyID, "journeyName": "Welcome", "journeyVersion": 1, "nodeId": "hello",
			"webhookId": d.WebhookID, "webhookName": "hook", "leadsId": d.LeadsID, "launchId": nil, "round": 1, "attempts": 1, "httpStatus": 404,
			"errorClass": "httpStatus", "gaveUp": "",
		})
		f.redeliver(t, key)
		f.open(t, f.again(key, 2, 2))
		f.record(t, of(2, f.retrying(key, 2)))
		equal(t, "retried", len(f.tell(t, s.ID)), 0)
		f.open(t, f.again(key, 2, 3))
		f.record(t, of(2, f.failed(key, 3)))
		equal(t, "round", typesAnd(f.tell(t, s.ID), "round"), []string{"delivery.failed 2"})
	}},
	{"webhooks", func(t *testing.T, f *fixture) {
		hook, own := f.webhook(t), f.webhook(t)
		s := f.subscribe(t, own, "", waypost.WebhookDisabled, waypost.WebhookFailing)
		enable := func(id string, enabled bool) waypost.Webhook {
			return must[waypost.Webhook](t)(f.UpdateWebhook(t.Context(), scope, id, func(w *waypost.Webhook) error { w.Enabled = enabled; return nil }))
		}
		w := enable(hook, false)
		wantMessage(t, f.tell(t, s.ID), waypost.WebhookDisabled, w.UpdatedAt, map[string]any{"webhookId": hook, "webhookName": "hook", "reason": nil})
		enable(hook, false)
		w = enable(hook, true)
		ok(t, f.DisableWebhook(t.Context(), scope, w, "410"))
		ok(t, f.DisableWebhook(t.Context(), scope, w, "410"))
		wantMessage(t, f.tell(t, s.ID), waypost.WebhookDisabled, f.clock.Now(), map[string]any{"webhookId": hook, "webhookName": "hook", "reason": "410"})
		opened := f.clock.Now().Truncate(time.Millisecond)
		errs := atOnce(8, func(int) error { return f.AnnounceFailing(t.Context(), scope, hook, opened) })
		for _, err := range errs {
			ok(t, err)
		}
		ok(t, f.AnnounceFailing(t.Context(), scope, hook, opened.Add(-time.Second))) // one of before, told late
		ok(t, f.AnnounceFailing(t.Context(), foreign[0], hook, opened.Add(time.Hour)))
		wantMessage(t, f.tell(t, s.ID), waypost.WebhookFailing, opened, map[string]any{"webhookId": hook, "webhookName": "hook"})
		ok(t, f.AnnounceFailing(t.Context(), scope, hook, opened.Add(time.Minute)))
		equal(t, "opens again", len(f.tell(t, s.ID)), 1)
		// A subscription gets no message that its own webhook fails.
		enable(own, false)
		ok(t, f.AnnounceFailing(t.Context(), scope, own, opened))
		equal(t, "itself", len(f.tell(t, s.ID)), 0)
	}},
	{"launches", testLaunchesAnnounced},
	{"imports", func(t *testing.T, f *fixture) {
		s := f.subscribe(t, f.webhook(t), "", waypost.ImportEnded)
		im := f.finish(t, f.newImport(t, waypost.ImportCreate, `{"name":"Ada"}`, `{"name":""}`).ID)
		wantMessage(t, f.tell(t, s.ID), waypost.ImportEnded, *im.EndedAt, map[string]any{
			"importId": im.ID, "mode": "create", "dryRun": false, "status": "succeeded", "message": nil, "total": 2, "processed": 2, "created": 1, "updated": 0,
			"failed": 1, "createdAt": im.CreatedAt.Format(waypost.TimeFormat),
		})
		empty, canceled, failed := f.newImport(t, waypost.ImportCreate), f.newImport(t, waypost.ImportCreate, `{"name":"B"}`), f.newImport(t, waypost.ImportCreate, `{"name":"C"}`)
		must[waypost.Import](t)(f.CancelImport(t.Context(), scope, canceled.ID))
		must[waypost.Import](t)(f.CancelImport(t.Context(), scope, canceled.ID))
		ok(t, f.FailImport(t.Context(), failed.ID, "damaged"))
		messages := f.tell(t, s.ID)
		equal(t, "which", typesAnd(messages, "importId"), []string{"import.ended " + empty.ID, "import.ended " + canceled.ID, "import.ended " + failed.ID})
		equal(t, "how", typesAnd(messages, "status"), []string{"import.ended succeeded", "import.ended canceled", "import.ended failed"})
		equal(t, "why", typesAnd(messages, "message")[2], "import.ended damaged")
	}},
	{"versions", func(t *testing.T, f *fixture) {
		hook, journey := f.webhook(t), f.journey(t)
		s := f.subscribe(t, hook, journey, waypost.JourneyPublished)
		f.journey(t) // another one
		v := must[waypost.JourneyVersion](t)(f.publish(t, journey, "hash 2"))
		must[waypost.JourneyVersion](t)(f.publish(t, journey, "hash 2")) // nothing new
		wantMessage(t, f.tell(t, s.ID), waypost.JourneyPublished, v.PublishedAt, map[string]any{"journeyId": journey, "journeyName": "Welcome", "version": 2})
	}},
	{"what is rolled back is not told", func(t *testing.T, f *fixture) {
		s := f.subscribe(t, f.webhook(t), "", waypost.EnrollmentEnded, waypost.DeliveryFailure)
		key, o := f.newTouchpoint(t)
		f.open(t, o)
		broken := f.failed(waypost.Touchpoint{EnrollmentID: key.EnrollmentID, Visit: 9}, 1) // it has no delivery, and no message id for one
		if f.RecordAttempts(t.Context(), []delivery.AttemptRecord{broken}) == nil {
			t.Fatal("recorded")
		}
		equal(t, "told", len(f.tell(t, s.ID)), 0)
	}},
	{"by several pumps at once", func(t *testing.T, f *fixture) {
		journey, hook := f.journey(t), f.webhook(t)
		first, second := f.subscribe(t, hook, "", waypost.EnrollmentEnded), f.subscribe(t, hook, "", waypost.EnrollmentEnded)
		ids := f.enroll(t, journey, 30)
		ok(t, f.CancelEnrollments(t.Context(), ids))
		members := make(chan waypost.RedeliveryMember, 1000)
		for _, err := range atOnce(4, func(int) error {
			for more := true; more; {
				batches, again, err := f.TellSubscriptions(t.Context(), 7)
				if err != nil {
					return err
				}
				for _, b := range batches {
					for _, m := range b.Members {
						members <- m
					}
				}
				more = again
			}
			return nil
		}) {
			ok(t, err)
		}
		for _, m := range f.tellAll(t) { // what one has passed over because another was at it
			members <- m
		}
		close(members)
		whose := map[string]int{}
		for m := range members {
			_, _, body, err := f.Delivery(t.Context(), scope, m.MessageID)
			ok(t, err)
			var message struct{ Data struct{ EnrollmentID string } }
			ok(t, json.Unmarshal(body, &message))
			whose[m.EnrollmentID+message.Data.EnrollmentID]++
		}
		for _, id := range ids {
			equal(t, id, []int{whose[first.ID+id], whose[second.ID+id]}, []int{1, 1})
		}
		equal(t, "all", len(whose), 2*len(ids))
	}},
	{"the way of a message", testSubscriptionMessage},
	{"deleted meanwhile", func(t *testing.T, f *fixture) {
		journey, hook := f.journey(t), f.webhook(t)
		s := f.subscribe(t, hook, "", waypost.EnrollmentEnded)
		ids := f.enroll(t, journey, 3)
		ok(t, f.CancelEnrollments(t.Context(), ids[:2]))
		members := f.tellAll(t)
		rounds := roundsOf(members)
		f.open(t, f.subscriptionOpening(members[0], 1))
		f.record(t, f.subscriptionEnd(members[0], 1, waypost.DeliveryRetrying))
		batch := f.claimedBatches(t)[0]
		ok(t, f.CancelEnrollments(t.Context(), ids[2:]))
		ok(t, f.DeleteSubscription(t.Context(), scope, s.ID, nil))
		equal(t, "told of the third", len(f.tellAll(t)), 0)
		equal(t, "notices", f.notified(t, []string{batch}), []string{batch})
		equal(t, "stopped", len(must[map[waypost.Touchpoint]bool](t)(f.StoppedRounds(t.Context(), rounds))), 2)
		if s := f.open(t, f.subscriptionOpening(members[1], 1)); !s.Held {
			t.Fatalf("opened: %+v", s)
		}
		ok(t, f.CancelRounds(t.Context(), rounds))
		for _, m := range members {
			d, _, body, err := f.Delivery(t.Context(), scope, m.MessageID)
			ok(t, err)
			equal(t, "status", d.Status, waypost.DeliveryCanceled)
			if body == nil {
				t.Fatal("its message is gone")
			}
			_, err = f.Redeliver(t.Context(), scope, m.MessageID)
			wantCode(t, err, waypost.CodeUnprocessableEntity)
		}
	}},
	{"dropped", testSubscriptionMessagesDropped},
}

// mappedTo lists whose messages there are, in order.
func mappedTo(members []waypost.RedeliveryMember) (ids []string) {
	for _, m := range members {
		ids = append(ids, m.EnrollmentID)
	}
	slices.Sort(ids)
	return ids
}

func roundsOf(members []waypost.RedeliveryMember) (rounds []waypost.Round) {
	for _, m := range members {
		rounds = append(rounds, waypost.Round{Touchpoint: waypost.Touchpoint{EnrollmentID: m.EnrollmentID, Visit: m.Visit}, Round: m.Round})
	}
	return rounds
}

// subscriptionOpening is the opening of an attempt of a message to a subscription.
func (f *fixture) subscriptionOpening(m waypost.RedeliveryMember, attempt int) delivery.Opening {
	return f.again(waypost.Touchpoint{EnrollmentID: m.EnrollmentID, Visit: m.Visit}, m.Round, attempt)
}

// subscriptionEnd is the end of such an attempt.
func (f *fixture) subscriptionEnd(m waypost.RedeliveryMember, attempt int, status waypost.DeliveryStatus) delivery.AttemptRecord {
	key := waypost.Touchpoint{EnrollmentID: m.EnrollmentID, Visit: m.Visit}
	switch status {
	case waypost.DeliverySucceeded:
		return of(m.Round, f.succeeded(key, attempt))
	case waypost.DeliveryFailed:
		return of(m.Round, f.failed(key, attempt))
	}
	return of(m.Round, f.retrying(key, attempt))
}

// claimedBatches are the ids of batches that were made, and whose workflows were not started.
func (f *fixture) claimedBatches(t testing.TB) (ids []string) {
	t.Helper()
	f.clock.Advance(2 * time.Hour)
	for _, b := range f.batches(t) {
		ids = append(ids, b.ID)
	}
	return ids
}

func testSubscription(t *testing.T, f *fixture) {
	hook, journey := f.webhook(t), f.journey(t)
	s := f.subscribe(t, hook, journey, waypost.LaunchEnded, waypost.EnrollmentEnded)
	if !waypost.IsID(waypost.PrefixSubscription, s.ID) {
		t.Fatalf("id %s", s.ID)
	}
	want := waypost.Subscription{
		ID: s.ID, Name: "crm", WebhookID: hook, JourneyID: journey, On: []waypost.Happening{waypost.LaunchEnded, waypost.EnrollmentEnded},
		CreatedAt: f.clock.Now(), UpdatedAt: f.clock.Now(),
	}
	equal(t, "made", s, want)
	equal(t, "stored", must[waypost.Subscription](t)(f.Subscription(t.Context(), scope, s.ID)), want)
	equal(t, "listed", must[[]waypost.Subscription](t)(f.ListSubscriptions(t.Context(), scope, waypost.Page{})), []waypost.Subscription{want})
	nothing := func(*waypost.Subscription) error { return nil }
	for _, sc := range foreign {
		_, err := f.Subscription(t.Context(), sc, s.ID)
		wantCode(t, err, waypost.CodeNotFound)
		_, err = f.UpdateSubscription(t.Context(), sc, s.ID, nothing)
		wantCode(t, err, waypost.CodeNotFound)
		wantCode(t, f.DeleteSubscription(t.Context(), sc, s.ID, nil), waypost.CodeNotFound)
		equal(t, "listed elsewhere", len(must[[]waypost.Subscription](t)(f.ListSubscriptions(t.Context(), sc, waypost.Page{}))), 0)
	}
	f.clock.Advance(time.Second)
	refused := waypost.Errorf(waypost.CodePreconditionFailed, "", "no")
	_, err := f.UpdateSubscription(t.Context(), scope, s.ID, func(s *waypost.Subscription) error { s.Name = "lost"; return refused })
	wantCode(t, err, waypost.CodePreconditionFailed)
	want.Name, want.On, want.JourneyID, want.UpdatedAt = "erp", []waypost.Happening{waypost.ImportEnded}, "", f.clock.Now()
	changed := must[waypost.Subscription](t)(f.UpdateSubscription(t.Context(), scope, s.ID, func(s *waypost.Subscription) error {
		s.Name, s.On, s.JourneyID = "erp", []waypost.Happening{waypost.ImportEnded}, ""
		return nil
	}))
	equal(t, "changed", changed, want)
	ids := f.enroll(t, journey, 1)
	ok(t, f.CancelEnrollments(t.Context(), ids))
	f.newImport(t, waypost.ImportCreate)
	equal(t, "told", len(f.tell(t, s.ID)), 1)
	wantCode(t, f.DeleteSubscription(t.Context(), scope, s.ID, func(waypost.Subscription) error { return refused }), waypost.CodePreconditionFailed)
	ok(t, f.DeleteSubscription(t.Context(), scope, s.ID, nil))
	wantCode(t, f.DeleteSubscription(t.Context(), scope, s.ID, nil), waypost.CodeNotFound)
}

// testLaunchesAnnounced tells of launches that complete, that are canceled, and of occurrences;
// not of those that had ended when the subscription was made.
func testLaunchesAnnounced(t *testing.T, f *fixture) {
	hook, journey := f.webhook(t), f.journey(t)
	settle := func() {
		t.Helper()
		for must[bool](t)(f.AnnounceEndedLaunches(t.Context())) {
		}
	}
	leads := []int64{f.lead(t), f.lead(t)}
	early := f.launch(t, journey, leads...)
	f.run(t, early.ID, 10)
	f.endAll(t)
	f.clock.Advance(time.Second)
	s := f.subscribe(t, hook, "", waypost.LaunchEnded)
	l := f.launch(t, journey, append(leads, 999_999)...)
	f.run(t, l.ID, 10)
	settle()
	equal(t, "while enrollments run", len(f.tell(t, s.ID)), 0)
	f.clock.Advance(time.Second)
	f.endAll(t)
	ended := f.clock.Now()
	f.clock.Advance(time.Second)
	settle()
	settle()
	wantMessage(t, f.tell(t, s.ID), waypost.LaunchEnded, ended, map[string]any{
		"launchId": l.ID, "journeyId": journey, "journeyName": "Welcome", "version": 1, "recurringId": nil, "occursAt": nil, "status": "completed", "total": 3,
		"enrolled": 2, "skipped": 1, "heldOut": 0, "createdAt": l.CreatedAt.Format(waypost.TimeFormat),
	})
	canceled := f.launch(t, journey, leads...)
	f.run(t, canceled.ID, 10)
	must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, canceled.ID))
	must[waypost.Launch](t)(f.CancelLaunch(t.Context(), scope, canceled.ID))
	for must[bool](t)(f.SweepCanceled(t.Context(), 100)) {
		f.clock.Advance(time.Second)
	}
	settle()
	equal(t, "canceled", typesAnd(f.tell(t, s.ID), "status"), []string{"launch.ended canceled"})
	r := f.recurring(t, journey)
	f.clock.Advance(time.Date(2026, 3, 15, 9, 0, 0, 0, time.UTC).Sub(f.clock.Now()))
	o := f.occurrence(t, r.ID)
	f.run(t, o, 10)
	f.endAll(t)
	settle()
	messages := f.tell(t, s.ID)
	equal(t, "the occurrence", []any{typesAnd(messages, "launchId"), typesAnd(messages, "recurringId"), typesAnd(messages, "occursAt")},
		[]any{[]string{"launch.ended " + o}, []string{"launch.ended " + r.ID}, []string{"launch.ended 2026-03-15T09:00:00.000Z"}})
}

// endAll completes all enrollments that launches have made.
func (f *fixture) endAll(t testing.TB) {
	t.Helper()
	for _, c := range f.claimAll(t, 10) {
		var progress []waypost.Progress
		for _, m := range c.Members {
			progress = append(progress, f.progress(m.EnrollmentID, 1, waypost.EnrollmentCompleted))
		}
		ok(t, f.RecordProgress(t.Context(), progress))
	}
}

// testSubscriptionMessage takes one through attempts and a redelivery, past everything that
// asks about deliveries. Its failure is not announced.
func testSubscriptionMessage(t *testing.T, f *fixture) {
	journey, hook := f.journey(t), f.webhook(t)
	s := f.subscribe(t, hook, "", waypost.Happenings...)
	id := f.enroll(t, journey, 1)[0]
	lead := f.enrollment(t, id).LeadsID
	ok(t, f.CancelEnrollments(t.Context(), []string{id}))
	m := f.tellAll(t)[0]
	round := roundsOf([]waypost.RedeliveryMember{m})[0]
	stands := func() delivery.Sending {
		t.Helper()
		return must[map[waypost.Touchpoint]delivery.Sending](t)(f.SendingsOfRounds(t.Context(), []waypost.Round{round}))[round.Touchpoint]
	}
	equal(t, "new", []any{stands().Status, stands().Attempts, stands().Round}, []any{waypost.DeliveryPending, 0, 1})
	equal(t, "not claimed by others", len(f.batches(t)), 0)
	batch := f.claimedBatches(t)
	equal(t, "left by a process that died", len(batch), 1)

	d := delivery.Deferral{Touchpoint: round.Touchpoint, Round: 1, Scope: scope, Reason: waypost.DeferWebhookDisabled, At: f.clock.Now(), Until: f.clock.Now().Add(time.Hour)}
	ok(t, f.RecordDeferrals(t.Context(), []delivery.Deferral{d}))
	equal(t, "deferred", stands().Status, waypost.DeliveryDeferred)
	ok(t, f.ReleaseDeferred(t.Context(), scope, hook, waypost.DeferWebhookDisabled))
	equal(t, "released", f.notified(t, batch), batch)

	opened := f.open(t, f.subscriptionOpening(m, 1))
	equal(t, "opened", []any{opened.Status, opened.Held, opened.Open.Attempt}, []any{waypost.DeliveryPending, false, 1})
	f.record(t, f.subscriptionEnd(m, 1, waypost.DeliveryRetrying))
	second := f.open(t, f.subscriptionOpening(m, 2))
	equal(t, "the same bytes", string(second.Body), string(opened.Body))
	f.record(t, f.subscriptionEnd(m, 2, waypost.DeliveryFailed))
	equal(t, "failed", stands().Status, waypost.DeliveryFailed)
	equal(t, "told of it", len(f.tellAll(t)), 0)
	_, attempts, _, err := f.Delivery(t.Context(), scope, m.MessageID)
	ok(t, err)
	equal(t, "attempts", len(attempts), 2)

	f.clock.Advance(time.Second)
	bulk := must[waypost.Redelivery](t)(f.CreateRedelivery(t.Context(), scope, waypost.DeliveryFilter{SubscriptionID: s.ID}, "app_1"))
	f.steps(t)
	round.Round = 2
	equal(t, "redelivered", stands().Status, waypost.DeliveryPending)
	m.Round = 2
	f.open(t, f.subscriptionOpening(m, 3))
	f.record(t, f.subscriptionEnd(m, 3, waypost.DeliverySucceeded))
	bulk = must[waypost.Redelivery](t)(f.Redelivery(t.Context(), scope, bulk.ID))
	equal(t, "the bulk", []any{bulk.Status, bulk.Total, bulk.Succeeded}, []any{waypost.RedeliveryCompleted, 1, 1})

	// Who lists deliveries finds it where it belongs only.
	list := func(filter waypost.DeliveryFilter) int {
		t.Helper()
		return len(must[[]waypost.Delivery](t)(f.ListDeliveries(t.Context(), scope, filter, waypost.Page{})))
	}
	equal(t, "lists", []int{
		list(waypost.DeliveryFilter{}), list(waypost.DeliveryFilter{SubscriptionID: s.ID}), list(waypost.DeliveryFilter{WebhookID: hook}),
		list(waypost.DeliveryFilter{JourneyID: journey}), list(waypost.DeliveryFilter{LeadsID: lead}), list(waypost.DeliveryFilter{EnrollmentID: s.ID}),
		list(waypost.DeliveryFilter{SubscriptionID: id}),
	}, []int{1, 1, 1, 0, 0, 0, 0})
	equal(t, "touchpoints of the lead", len(must[[]time.Time](t)(f.RecentTouchpoints(t.Context(), scope, lead, time.Time{}, f.clock.Now(), 10))), 0)
	ok(t, f.DeleteLead(t.Context(), scope, lead, nil))
	if _, _, body, err := f.Delivery(t.Context(), scope, m.MessageID); err != nil || body == nil {
		t.Fatalf("after the lead was deleted: %q, %v", body, err)
	}
}

// testSubscriptionMessagesDropped drops messages to subscriptions at their ages, and none that is not decided.
func testSubscriptionMessagesDropped(t *testing.T, f *fixture) {
	journey, hook := f.journey(t), f.webhook(t)
	f.subscribe(t, hook, "", waypost.EnrollmentEnded)
	ok(t, f.CancelEnrollments(t.Context(), f.enroll(t, journey, 2)))
	members := f.tellAll(t)
	f.open(t, f.subscriptionOpening(members[0], 1))
	f.record(t, f.subscriptionEnd(members[0], 1, waypost.DeliveryRetrying))
	f.open(t, f.subscriptionOpening(members[0], 2))
	f.record(t, f.subscriptionEnd(members[0], 2, waypost.DeliverySucceeded))
	keep := waypost.Retention{Payloads: 10 * day, Attempts: 20 * day, Deliveries: 30 * day, Enrollments: 400 * day}
	f.wantDropped(t, "at once", keep, map[string]int{})
	f.clock.Advance(11 * day)
	f.wantDropped(t, "payloads", keep, map[string]int{waypost.DropSubscriptionPayload: 1})
	d, attempts, body, err := f.Delivery(t.Context(), scope, members[0].MessageID)
	ok(t, err)
	equal(t, "without its payload", []any{d.Message, len(attempts), body == nil}, []any{"", 2, true})
	f.clock.Advance(20 * day)
	f.wantDropped(t, "deliveries", keep, map[string]int{waypost.DropSubscriptionDelivery: 1})
	_, _, _, err = f.Delivery(t.Context(), scope, members[0].MessageID)
	wantCode(t, err, waypost.CodeNotFound)
	d, _, body, err = f.Delivery(t.Context(), scope, members[1].MessageID)
	ok(t, err)
	equal(t, "the other", []any{d.Status, body != nil}, []any{waypost.DeliveryPending, true})
	if counts := must[*waypost.DroppedCounts](t)(f.JourneyDropped(t.Context(), journey)); counts != nil {
		t.Fatalf("the journey counts %+v", counts)
	}
}
