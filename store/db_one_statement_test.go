package store_test

import (
	"database/sql"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/store"
	"waypost/store/storetest"
)

// On PostgreSQL an enrollment is one statement, unless something is in its way: then that
// leaves nothing behind, and Enroll finds out what it is.
func TestEnrollInOneStatement(t *testing.T) {
	t.Parallel()
	s := storetest.Postgres(t, time.Now)
	ctx, sc := t.Context(), waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	journey := func(definition string) string {
		t.Helper()
		j, err := s.CreateJourney(ctx, sc, "J", []byte(`{}`))
		must(t, err)
		_, err = s.PublishJourney(ctx, sc, j.ID, waypost.Publication{Name: "J", Hash: "hash", Definition: []byte(definition)})
		must(t, err)
		return j.ID
	}
	lead := func() int64 {
		t.Helper()
		l, err := s.CreateLead(ctx, sc, waypost.LeadFields{Name: "Ada"}, nil)
		must(t, err)
		return l.LeadsID
	}
	plain, exits, archived := journey(`{"name":"J"}`), journey(`{"name":"J","exitOn":[{"event":"buy"}]}`), journey(`{"name":"J"}`)
	_, err := s.ArchiveJourney(ctx, sc, archived)
	must(t, err)
	always, never := waypost.Reentry{Policy: waypost.ReentryAlways}, waypost.Reentry{Policy: waypost.ReentryNever}
	again := lead()
	for i, c := range []struct {
		name    string
		sc      waypost.Scope
		journey string
		version int
		lead    int64
		reentry waypost.Reentry
		done    bool
		code    waypost.ErrorCode // of Enroll
	}{
		{"a lead", sc, plain, 1, again, never, true, ""},
		{"again, never", sc, plain, 1, again, never, false, waypost.CodeConflict},
		{"again, after exit", sc, plain, 1, again, waypost.Reentry{Policy: waypost.ReentryAfterExit}, false, waypost.CodeConflict},
		{"again, always", sc, plain, 1, again, always, true, ""},
		{"again, too soon", sc, plain, 1, again, waypost.Reentry{Policy: waypost.ReentryAlways, Every: waypost.Duration(time.Hour)}, false, waypost.CodeConflict},
		{"no such lead", sc, plain, 1, 999_999_999, always, false, waypost.CodeNotFound},
		{"no such version", sc, plain, 2, lead(), always, false, waypost.CodeNotFound},
		{"another stage", waypost.Scope{Org: "acme", Stage: waypost.StageTest}, plain, 1, lead(), always, false, waypost.CodeNotFound},
		{"archived", sc, archived, 1, lead(), always, false, waypost.CodeConflict},
		{"events end it", sc, exits, 1, lead(), always, false, ""},
	} {
		e := waypost.Enrollment{ID: waypost.NewID(waypost.PrefixEnrollment, time.Now()), JourneyID: c.journey, Version: c.version, LeadsID: c.lead, AppID: "app_test"}
		claimed := i%2 == 1
		done, err := s.EnrollInOneStatement(ctx, c.sc, e, c.reentry, claimed)
		if err != nil || done != c.done {
			t.Errorf("%s: done %t, %v", c.name, done, err)
		}
		if _, _, err := s.Enrollment(ctx, c.sc, e.ID); (err == nil) != c.done {
			t.Errorf("%s: the enrollment: %v", c.name, err)
		}
		if free, err := s.ClaimEnrollments(ctx, time.Time{}); err != nil || (free != nil) != (c.done && !claimed) {
			t.Errorf("%s: others claim %+v, %v", c.name, free, err)
		}
		if c.done {
			continue
		}
		// What was refused is refused for its own reason, not for what the first try left.
		if _, err := s.Enroll(ctx, c.sc, e, c.reentry); waypost.CodeOf(err) != c.code {
			t.Errorf("%s: Enroll says %v, want %s", c.name, err, c.code)
		}
	}
}

// Enrollments that come together share statements. One that waits for a row that another
// transaction holds keeps no others waiting.
func TestEnrollTogether(t *testing.T) {
	t.Parallel()
	s, db := openDatabase(t)
	ctx, sc := t.Context(), waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	journey, _, _, leads := published(t, s, sc, 20)
	enroll := func(lead int64, key string) error {
		_, _, err := s.EnrollClaimed(ctx, sc, waypost.Enrollment{JourneyID: journey, Version: 1, LeadsID: lead, AppID: "app_test", EntryKey: key}, waypost.Reentry{})
		return err
	}
	must(t, enroll(leads[0], "held"))
	held, err := db.BeginTx(ctx, nil)
	must(t, err)
	_, err = held.ExecContext(ctx, "SELECT 1 FROM journey_entries WHERE leads_id = $1 AND entry_key = 'held' FOR UPDATE", leads[0])
	must(t, err)
	waits := make(chan error, 1)
	go func() { waits <- enroll(leads[0], "held") }()
	for waiting := 0; waiting == 0; {
		must(t, db.QueryRowContext(ctx, "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'").Scan(&waiting))
	}

	var mu sync.Mutex
	passed := map[int64]int{}
	var enrolling sync.WaitGroup
	for _, lead := range leads {
		for range 3 {
			enrolling.Go(func() {
				err := enroll(lead, "k")
				if err != nil && waypost.CodeOf(err) != waypost.CodeConflict {
					t.Error(err)
				}
				if err == nil {
					mu.Lock()
					defer mu.Unlock()
					passed[lead]++
				}
			})
		}
	}
	enrolling.Wait()
	for _, lead := range leads {
		if passed[lead] != 1 {
			t.Errorf("lead %d has entered %d times at once", lead, passed[lead])
		}
	}
	select {
	case err := <-waits:
		t.Errorf("what waits for a lock ended with %v", err)
	default:
	}
	must(t, held.Rollback())
	if err := <-waits; waypost.CodeOf(err) != waypost.CodeConflict {
		t.Errorf("what waited for a lock ended with %v", err)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// published makes a journey of one touchpoint, enrolls leads, and claims them.
func published(t *testing.T, s *store.Store, sc waypost.Scope, leads int) (journeyID, webhookID string, keys []waypost.Touchpoint, of []int64) {
	t.Helper()
	ctx := t.Context()
	hook, err := s.CreateWebhook(ctx, sc, waypost.Webhook{Name: "crm", URL: "https://example.com", TimeoutMs: 1000, Retry: waypost.DefaultRetry(), Enabled: true})
	must(t, err)
	j, err := s.CreateJourney(ctx, sc, "J", []byte(`{}`))
	must(t, err)
	_, err = s.PublishJourney(ctx, sc, j.ID, waypost.Publication{Name: "J", Hash: "hash", Definition: []byte(`{"name":"J"}`), Webhooks: []string{hook.ID}})
	must(t, err)
	for range leads {
		l, err := s.CreateLead(ctx, sc, waypost.LeadFields{Name: "Ada"}, nil)
		must(t, err)
		e, err := s.Enroll(ctx, sc, waypost.Enrollment{JourneyID: j.ID, Version: 1, LeadsID: l.LeadsID, AppID: "app_test"}, waypost.Reentry{Policy: waypost.ReentryAlways})
		must(t, err)
		keys, of = append(keys, waypost.Touchpoint{EnrollmentID: e.ID, Visit: 1}), append(of, l.LeadsID)
	}
	return j.ID, hook.ID, keys, of
}

// One statement opens what is new, and leaves all else to the transaction; one records
// how first attempts ended that are as they were opened.
func TestOpenAndRecordInOneStatement(t *testing.T) {
	t.Parallel()
	s := storetest.Postgres(t, time.Now)
	ctx, sc := t.Context(), waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	journey, hook, keys, leads := published(t, s, sc, 12)
	now := time.Now().UTC().Truncate(time.Millisecond)
	opening := func(i int) delivery.Opening {
		return delivery.Opening{
			Touchpoint: keys[i], Scope: sc, Attempt: 1, At: now, By: "prc_1", Body: []byte(`{"n":1}`),
			Delivery: waypost.Delivery{
				MessageID: waypost.NewID(waypost.PrefixMessage, now), EnrollmentID: keys[i].EnrollmentID, JourneyID: journey, JourneyVersion: 1,
				NodeID: "hello", WebhookID: hook, LeadsID: leads[i],
			},
		}
	}
	record := func(i int) delivery.AttemptRecord {
		return delivery.AttemptRecord{
			Touchpoint: keys[i], Scope: sc, Round: 1, Attempt: 1, Status: waypost.DeliverySucceeded,
			Outcome: waypost.Outcome{Succeed: true, HTTPStatus: 200, Message: "thanks", At: now, Duration: time.Millisecond},
			Progress: &waypost.Progress{EnrollmentID: keys[i].EnrollmentID, Status: waypost.EnrollmentCompleted, NodeID: "hello", LastSeq: 2, Entries: []waypost.TimelineEntry{
				{Seq: 1, At: now, NodeID: "hello", What: waypost.WhatSent}, {Seq: 2, At: now, What: waypost.WhatExited},
			}},
		}
	}
	open := func(want int, openings ...delivery.Opening) {
		t.Helper()
		opened, err := s.OpenInOneStatement(ctx, openings)
		if err != nil || len(opened) != want {
			t.Errorf("%d of %d are opened, want %d; %v", len(opened), len(openings), want, err)
		}
		all, err := s.OpenAttempts(ctx, openings)
		if err != nil {
			t.Error(err)
		}
		for key, sending := range opened {
			if got := all[key]; sending.Open == nil || string(got.Body) != string(sending.Body) || got.MessageID != sending.MessageID || *got.Open != *sending.Open || got.Status != sending.Status {
				t.Errorf("it is told %+v, and stands at %+v", sending, got)
			}
		}
	}
	recorded := func(rest int, records ...delivery.AttemptRecord) {
		t.Helper()
		left, err := s.RecordInOneStatement(ctx, records)
		if err != nil || len(left) != rest {
			t.Errorf("%d of %d are left, want %d; %v", len(left), len(records), rest, err)
		}
		must(t, s.RecordAttempts(ctx, records))
		for _, r := range records {
			e, timeline, err := s.Enrollment(ctx, sc, r.EnrollmentID)
			must(t, err)
			if r.Progress == nil {
				continue
			}
			if len(timeline) != len(r.Progress.Entries) || e.Status != r.Progress.Status && e.Status != waypost.EnrollmentCanceled {
				t.Errorf("%s after %+v", e.Status, timeline)
			}
		}
	}

	first, second := opening(0), opening(1)
	open(2, first, second)
	open(1, first, opening(2)) // of which one is there already
	retry := opening(3)
	retry.Attempt = 2
	open(0, retry)
	elsewhere := opening(3)
	elsewhere.Delivery.LaunchID = "lch_1"
	open(0, opening(4), elsewhere)
	capped := opening(5)
	capped.Cap = waypost.FrequencyCap{Touchpoints: 1, Per: waypost.Duration(time.Hour)}
	open(0, capped)

	recorded(0, record(0), record(1))
	recorded(2, record(0), record(1)) // again
	failing := record(2)
	failing.Status, failing.NextAttemptAt, failing.Progress = waypost.DeliveryRetrying, now.Add(time.Second), nil
	recorded(0, failing, record(3))
	going := record(4)
	going.Progress = &waypost.Progress{EnrollmentID: keys[4].EnrollmentID, Status: waypost.EnrollmentWaiting, NodeID: "wait", LastSeq: 2, Entries: []waypost.TimelineEntry{
		{Seq: 1, At: now, NodeID: "hello", What: waypost.WhatSent}, {Seq: 2, At: now, NodeID: "wait", What: waypost.WhatEntered},
	}}
	recorded(0, going)
	again := func(i int) delivery.AttemptRecord {
		r := record(i)
		r.Status, r.NextAttemptAt = waypost.DeliveryRetrying, now.Add(time.Second)
		r.Outcome.Succeed, r.Outcome.HTTPStatus, r.Outcome.ErrorClass = false, 503, waypost.ClassHTTPStatus
		r.Progress.Status, r.Progress.NodeID, r.Progress.LastSeq, r.Progress.Entries = waypost.EnrollmentRunning, "hello", 1, r.Progress.Entries[:1]
		return r
	}
	stands := func(o delivery.Opening) waypost.Delivery {
		t.Helper()
		d, _, _, err := s.Delivery(ctx, sc, o.Delivery.MessageID)
		must(t, err)
		d.MessageID, d.EnrollmentID, d.LeadsID = "", "", 0
		return d
	}
	once, apart := opening(8), opening(9)
	open(2, once, apart)
	recorded(0, again(8))
	bare := again(9)
	bare.Progress = nil
	must(t, s.ByTransaction().RecordAttempts(ctx, []delivery.AttemptRecord{bare}))
	if got, want := stands(once), stands(apart); !reflect.DeepEqual(got, want) || got.NextAttemptAt == nil || got.Succeed != nil || got.Attempts != 1 {
		t.Errorf("it stands at %+v, by a transaction at %+v", got, want)
	}
	for i, want := range map[int]waypost.DeliveryStatus{10: waypost.DeliveryCanceled, 11: waypost.DeliverySucceeded} {
		o := opening(i)
		open(1, o)
		_, err := s.CancelEnrollment(ctx, sc, keys[i].EnrollmentID)
		must(t, err)
		r := again(i)
		if want == waypost.DeliverySucceeded {
			r = record(i)
		}
		if left, err := s.RecordInOneStatement(ctx, []delivery.AttemptRecord{r}); err != nil || len(left) != 1 {
			t.Errorf("of one that was canceled %d are left, %v", len(left), err)
		}
		must(t, s.RecordAttempts(ctx, []delivery.AttemptRecord{r}))
		if got := stands(o); got.Status != want {
			t.Errorf("of one that was canceled: %s, want %s", got.Status, want)
		}
	}
	_, err := s.CancelEnrollment(ctx, sc, keys[6].EnrollmentID)
	must(t, err)
	open(0, opening(6)) // it has no effect
	_, err = s.PauseJourney(ctx, sc, journey)
	must(t, err)
	open(0, opening(7))
}

// What one statement does is what its transaction does: to an enrollment, its cohort, and
// its delivery, attempt by attempt.
func TestOneStatementAsTransaction(t *testing.T) {
	t.Parallel()
	s := storetest.Postgres(t, time.Now)
	ctx, sc := t.Context(), waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	now := time.Now().UTC().Truncate(time.Millisecond)
	sent := waypost.TimelineEntry{Seq: 1, At: now, NodeID: "hello", What: waypost.WhatSent}
	running := &waypost.Progress{Status: waypost.EnrollmentRunning, NodeID: "hello", LastSeq: 1, Entries: []waypost.TimelineEntry{sent}}
	completed := &waypost.Progress{Status: waypost.EnrollmentCompleted, LastSeq: 2, Entries: []waypost.TimelineEntry{sent, {Seq: 2, At: now, NodeID: "hello", What: waypost.WhatExited}}}
	late := &waypost.Progress{Status: waypost.EnrollmentCompleted, LastSeq: 2, Entries: completed.Entries[1:]}
	// An attempt that fails and is retried, or succeeds; one that is never recorded.
	type attempt struct {
		status   waypost.DeliveryStatus
		progress *waypost.Progress
	}
	fails, gone := attempt{status: waypost.DeliveryRetrying}, attempt{}
	byTransaction := s.ByTransaction()
	var telling sync.Mutex // one that tells passes over what another one has locked
	for name, attempts := range map[string][]attempt{
		"succeeds":                  {{waypost.DeliverySucceeded, completed}},
		"fails for good":            {{waypost.DeliveryFailed, completed}},
		"fails once":                {{waypost.DeliveryRetrying, running}, {waypost.DeliverySucceeded, late}},
		"fails, and is not told":    {fails, {waypost.DeliverySucceeded, completed}},
		"fails three times":         {fails, fails, fails, {waypost.DeliveryFailed, completed}},
		"waits for its fourth":      {fails, {waypost.DeliveryRetrying, running}, fails},
		"goes on after the message": {fails, {waypost.DeliverySucceeded, &waypost.Progress{Status: waypost.EnrollmentWaiting, NodeID: "wait", LastSeq: 1, Entries: []waypost.TimelineEntry{sent}}}},
		"was cut off":               {gone, fails, {waypost.DeliverySucceeded, completed}},
		"was cut off later":         {fails, gone, fails, {waypost.DeliverySucceeded, completed}},
	} {
		t.Run(name, func(t *testing.T) {
			var subscriptions [2]string
			journeys, hooks, keys, leads := make([]string, 2), make([]string, 2), make([]waypost.Touchpoint, 2), make([]int64, 2)
			var cohorts [2]waypost.Cohort
			for i, way := range []*store.Store{s, byTransaction} { // what one claims belongs to no other test
				journeys[i], hooks[i], _, _ = published(t, s, sc, 0)
				sub, err := s.CreateSubscription(ctx, sc, waypost.Subscription{
					Name: "s", WebhookID: hooks[i], JourneyID: journeys[i], On: []waypost.Happening{waypost.EnrollmentEnded, waypost.DeliveryFailure},
				})
				must(t, err)
				subscriptions[i] = sub.ID
				lead, err := s.CreateLead(ctx, sc, waypost.LeadFields{Name: "Ada"}, nil)
				must(t, err)
				leads[i] = lead.LeadsID
				e, err := way.Enroll(ctx, sc, waypost.Enrollment{JourneyID: journeys[i], Version: 1, LeadsID: leads[i], AppID: "app_test"}, waypost.Reentry{})
				must(t, err)
				keys[i] = waypost.Touchpoint{EnrollmentID: e.ID, Visit: 1}
				c, err := storetest.ClaimCohort(ctx, way)
				if err != nil || c == nil || c.ID != e.ID || len(c.Members) != 1 || c.Members[0].EnrollmentID != e.ID || c.Members[0].LeadsID != leads[i] {
					t.Fatalf("claimed %+v, %v", c, err)
				}
				must(t, way.MarkStarted(ctx, c.ID))
				cohorts[i] = *c
				cohorts[i].ID, cohorts[i].Members, cohorts[i].Version.JourneyID, cohorts[i].Version.PublishedAt = "", nil, "", time.Time{}
			}
			if !reflect.DeepEqual(cohorts[0], cohorts[1]) {
				t.Errorf("claimed in one statement:\n%+v\nby a transaction:\n%+v", cohorts[0], cohorts[1])
			}
			t.Parallel()
			var stand [2]struct {
				Delivery   waypost.Delivery
				Attempts   []waypost.Attempt
				Enrollment waypost.Enrollment
				Timeline   []waypost.TimelineEntry
				Free       bool
				Openings   []delivery.Sending
				Statistics waypost.Statistics
				History    []waypost.WebhookInterval
				Messages   []string
			}
			for i, way := range []*store.Store{s, byTransaction} {
				id, open := waypost.NewID(waypost.PrefixMessage, now), false
				for n, a := range attempts {
					at := now.Add(time.Duration(n) * time.Second)
					o := delivery.Opening{
						Touchpoint: keys[i], Scope: sc, Attempt: n + 1, At: at, By: "prc_1", Interrupts: open,
						Delivery: waypost.Delivery{
							MessageID: id, EnrollmentID: keys[i].EnrollmentID, JourneyID: journeys[i], JourneyVersion: 1, NodeID: "hello", WebhookID: hooks[i], LeadsID: leads[i],
						},
					}
					if n == 0 {
						o.Body = []byte(`{"n":1}`)
					}
					var opened map[waypost.Touchpoint]delivery.Sending
					var err error
					if way == s && !o.Interrupts {
						opened, err = s.OpenInOneStatement(ctx, []delivery.Opening{o})
					} else {
						opened, err = byTransaction.OpenAttempts(ctx, []delivery.Opening{o})
					}
					must(t, err)
					sending := opened[keys[i]]
					if sending.Open == nil || string(sending.Body) != `{"n":1}` {
						t.Fatalf("attempt %d: %+v", n+1, sending)
					}
					sending.MessageID = ""
					stand[i].Openings = append(stand[i].Openings, sending)
					if again, err := s.OpenInOneStatement(ctx, []delivery.Opening{o}); err != nil || len(again) != 0 {
						t.Errorf("attempt %d is opened twice: %+v, %v", n+1, again, err)
					}
					if open = a == gone; open {
						continue
					}
					r := delivery.AttemptRecord{
						Touchpoint: keys[i], Scope: sc, Round: 1, Attempt: n + 1, Status: a.status,
						Outcome: waypost.Outcome{Succeed: a.status == waypost.DeliverySucceeded, HTTPStatus: 200 + n, Message: "it says", Excerpt: "so", At: at, Duration: time.Millisecond},
					}
					if a.status == waypost.DeliveryRetrying {
						r.Outcome.ErrorClass, r.NextAttemptAt = waypost.ClassHTTPStatus, at.Add(time.Minute)
					}
					if a.progress != nil {
						p := *a.progress
						p.EnrollmentID, r.Progress = keys[i].EnrollmentID, &p
					}
					if way == byTransaction {
						must(t, way.RecordAttempts(ctx, []delivery.AttemptRecord{r}))
						continue
					}
					rest, err := s.RecordInOneStatement(ctx, []delivery.AttemptRecord{r})
					if err != nil || len(rest) != 0 {
						t.Errorf("attempt %d is left: %+v, %v", n+1, rest, err)
					}
					if rest, err := s.RecordInOneStatement(ctx, []delivery.AttemptRecord{r}); err != nil || len(rest) != 1 {
						t.Errorf("attempt %d is recorded twice: %v", n+1, err)
					}
				}
				st := &stand[i]
				var err error
				st.Delivery, st.Attempts, _, err = s.Delivery(ctx, sc, id)
				must(t, err)
				st.Enrollment, st.Timeline, err = s.Enrollment(ctx, sc, keys[i].EnrollmentID)
				must(t, err)
				_, err = s.Enroll(ctx, sc, waypost.Enrollment{JourneyID: journeys[i], Version: 1, LeadsID: leads[i]}, waypost.Reentry{Policy: waypost.ReentryAfterExit})
				st.Free = err == nil
				st.Statistics, err = s.Statistics(ctx, waypost.StatisticsQuery{JourneyID: journeys[i]})
				must(t, err)
				st.History, err = s.WebhookHistory(ctx, sc, hooks[i], now, now.Add(time.Minute), time.Hour)
				must(t, err)
				telling.Lock()
				st.Messages = messagesTo(t, s, sc, subscriptions[i])
				telling.Unlock()
				st.Delivery.MessageID, st.Delivery.EnrollmentID, st.Delivery.LeadsID, st.Delivery.JourneyID, st.Delivery.WebhookID = "", "", 0, "", ""
				st.Enrollment.JourneyID, st.Enrollment.ID, st.Enrollment.LeadsID, st.Enrollment.CreatedAt, st.Enrollment.WorkflowID = "", "", 0, time.Time{}, ""
			}
			if !reflect.DeepEqual(stand[0], stand[1]) {
				t.Errorf("in one statement:\n%+v\nby a transaction:\n%+v", stand[0], stand[1])
			}
			recorded := slices.DeleteFunc(slices.Clone(attempts), func(a attempt) bool { return a == gone })
			for _, i := range stand[0].History {
				recorded = recorded[min(i.Attempts(), len(recorded)):]
			}
			if len(recorded) > 0 {
				t.Errorf("the history has %+v", stand[0].History)
			}
			last := attempts[len(attempts)-1]
			want := 0
			if last.progress == completed || last.progress == late {
				want++
			}
			if last.status == waypost.DeliveryFailed {
				want++
			}
			if len(stand[0].Messages) != want {
				t.Errorf("told %q, want %d", stand[0].Messages, want)
			}
			if len(stand[0].Attempts) != len(attempts) {
				t.Errorf("%d attempts, want %d", len(stand[0].Attempts), len(attempts))
			}
		})
	}
}

// messagesTo returns the bodies of the messages to a subscription, without what tells two enrollments apart.
func messagesTo(t *testing.T, s *store.Store, sc waypost.Scope, subscription string) (bodies []string) {
	t.Helper()
	for more := true; more; {
		var err error
		_, more, err = s.TellSubscriptions(t.Context(), waypost.MaxCohort)
		must(t, err)
	}
	list, err := s.ListDeliveries(t.Context(), sc, waypost.DeliveryFilter{SubscriptionID: subscription}, waypost.Page{})
	must(t, err)
	for _, d := range list {
		_, _, body, err := s.Delivery(t.Context(), sc, d.MessageID)
		must(t, err)
		bodies = append(bodies, regexp.MustCompile(`"(messageId|enrollmentId|journeyId|webhookId|leadsId|createdAt)":("[^"]*"|\d+),?`).ReplaceAllString(string(body), ""))
	}
	slices.Sort(bodies)
	return bodies
}

// openTwo opens the first attempts of two messages.
func openTwo(t *testing.T, s *store.Store) (openings []delivery.Opening) {
	t.Helper()
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	journey, hook, keys, leads := published(t, s, sc, 2)
	now := time.Now().UTC().Truncate(time.Millisecond)
	for i, key := range keys {
		openings = append(openings, delivery.Opening{
			Touchpoint: key, Scope: sc, Attempt: 1, At: now, By: "prc_1", Body: []byte("{}"),
			Delivery: waypost.Delivery{
				MessageID: waypost.NewID(waypost.PrefixMessage, now), EnrollmentID: key.EnrollmentID, JourneyID: journey, JourneyVersion: 1,
				NodeID: "hello", WebhookID: hook, LeadsID: leads[i],
			},
		})
	}
	opened, err := s.OpenInOneStatement(t.Context(), openings)
	if err != nil || len(opened) != len(openings) {
		t.Fatalf("opened %+v, %v", opened, err)
	}
	return openings
}

// openDatabase returns a store, and its database for what a store does not do.
func openDatabase(t *testing.T) (*store.Store, *sql.DB) {
	t.Helper()
	url := storetest.PostgresURL(t)
	_, _, err := store.Migrate(t.Context(), url)
	must(t, err)
	s, err := store.Open(t.Context(), url, storetest.Keys(t), time.Now)
	must(t, err)
	t.Cleanup(func() { must(t, s.Close()) })
	db, err := sql.Open("pgx", url)
	must(t, err)
	t.Cleanup(func() { must(t, db.Close()) })
	return s, db
}

// A retry whose message cannot be read any more is not opened, and the others are.
func TestOpenedUnreadable(t *testing.T) {
	t.Parallel()
	s, db := openDatabase(t)
	ctx := t.Context()
	openings := openTwo(t, s)
	for i := range openings {
		o := &openings[i]
		must(t, s.RecordAttempts(ctx, []delivery.AttemptRecord{{
			Touchpoint: o.Touchpoint, Scope: o.Scope, Round: 1, Attempt: 1, Status: waypost.DeliveryRetrying,
			Outcome: waypost.Outcome{HTTPStatus: 503, ErrorClass: waypost.ClassHTTPStatus, At: o.At}, NextAttemptAt: o.At,
		}}))
		o.Attempt, o.Body = 2, nil
	}
	_, err := db.ExecContext(ctx, "UPDATE messages SET body = 'sealed with another key' WHERE enrollment_id = $1", openings[1].EnrollmentID)
	must(t, err)
	opened, err := s.OpenAttempts(ctx, openings)
	must(t, err)
	if good, bad := opened[openings[0].Touchpoint], opened[openings[1].Touchpoint]; good.Open == nil || string(good.Body) != "{}" || bad.Open != nil || bad.Unreadable == nil {
		t.Errorf("told %+v, and of the unreadable one %+v", good, bad)
	}
	stored, err := s.Sendings(ctx, []waypost.Touchpoint{openings[0].Touchpoint, openings[1].Touchpoint})
	must(t, err)
	if good, bad := stored[openings[0].Touchpoint], stored[openings[1].Touchpoint]; good.Open == nil || bad.Open != nil || bad.Attempts != 1 || bad.Status != waypost.DeliveryRetrying {
		t.Errorf("stored %+v, and of the unreadable one %+v", good, bad)
	}
}

// Enrollments are locked in the order of their ids, those that stay where they are as
// those that move: who locks all of them in that order never waits for each other.
func TestRecordedInOrder(t *testing.T) {
	t.Parallel()
	s, db := openDatabase(t)
	ctx := t.Context()
	openings := openTwo(t, s)
	slices.SortFunc(openings, func(a, b delivery.Opening) int { return strings.Compare(a.EnrollmentID, b.EnrollmentID) })
	held, err := db.BeginTx(ctx, nil)
	must(t, err)
	lock := func(o delivery.Opening) error {
		_, err := held.ExecContext(ctx, "SELECT 1 FROM enrollments WHERE id = $1 FOR NO KEY UPDATE NOWAIT", o.EnrollmentID)
		return err
	}
	must(t, lock(openings[0]))
	record := func(o delivery.Opening, status waypost.DeliveryStatus) delivery.AttemptRecord {
		return delivery.AttemptRecord{
			Touchpoint: o.Touchpoint, Scope: o.Scope, Round: 1, Attempt: 1, Status: status, NextAttemptAt: o.At,
			Outcome: waypost.Outcome{Succeed: status == waypost.DeliverySucceeded, HTTPStatus: 200, At: o.At},
		}
	}
	stays, moves := record(openings[0], waypost.DeliveryRetrying), record(openings[1], waypost.DeliverySucceeded)
	moves.Progress = &waypost.Progress{EnrollmentID: openings[1].EnrollmentID, Status: waypost.EnrollmentCompleted, LastSeq: 1, Entries: []waypost.TimelineEntry{
		{Seq: 1, At: openings[1].At, What: waypost.WhatExited},
	}}
	recorded := make(chan error, 1)
	go func() { recorded <- s.RecordAttempts(ctx, []delivery.AttemptRecord{stays, moves}) }()
	// Until it waits for the first.
	for waits := false; !waits && ctx.Err() == nil; {
		must(t, db.QueryRowContext(ctx, "SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')").Scan(&waits))
	}
	must(t, lock(openings[1]))
	must(t, held.Rollback())
	must(t, <-recorded)
}

// Where others need a transaction that does not come through, what is open is told all
// the same: nobody would POST it otherwise, and it would count as an attempt.
func TestOpenedBesideAnOutage(t *testing.T) {
	t.Parallel()
	s, db := openDatabase(t)
	ctx, sc := t.Context(), waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	journey, hook, keys, leads := published(t, s, sc, 2)
	now := time.Now().UTC().Truncate(time.Millisecond)
	openings := make([]delivery.Opening, 2)
	for i := range openings {
		openings[i] = delivery.Opening{
			Touchpoint: keys[i], Scope: sc, Attempt: 1, At: now, By: "prc_1", Body: []byte("{}"),
			Delivery: waypost.Delivery{
				MessageID: waypost.NewID(waypost.PrefixMessage, now), EnrollmentID: keys[i].EnrollmentID, JourneyID: journey, JourneyVersion: 1,
				NodeID: "hello", WebhookID: hook, LeadsID: leads[i],
			},
		}
	}
	must(t, s.RecordDeferrals(ctx, []delivery.Deferral{{
		Touchpoint: keys[1], Scope: sc, Delivery: openings[1].Delivery, Reason: waypost.DeferRateLimit, At: now, Until: now,
	}}))
	held, err := db.BeginTx(ctx, nil)
	must(t, err)
	_, err = held.ExecContext(ctx, "SELECT 1 FROM deliveries WHERE enrollment_id = $1 FOR UPDATE", keys[1].EnrollmentID)
	must(t, err)
	opened, err := s.OpenAttempts(ctx, openings)
	must(t, err)
	if got := opened[keys[0]]; len(opened) != 1 || got.Open == nil || got.Open.By != "prc_1" || string(got.Body) != "{}" {
		t.Errorf("told %+v", opened)
	}
	must(t, held.Rollback())
	opened, err = s.OpenAttempts(ctx, openings[1:])
	if err != nil || opened[keys[1]].Open == nil {
		t.Errorf("told %+v, %v", opened, err)
	}
}

// What is planned once, while all tables are empty, looks rows up by an index that leads
// to few of them however many there are: by all of its columns or by the first ones, and
// not by its scope alone. One that skips a column reads all of the scope.
func TestPlannedByIndex(t *testing.T) {
	t.Parallel()
	s := storetest.Postgres(t, time.Now)
	planned := s.Planned()
	ctx, sc := t.Context(), waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	journey, hook, keys, leads := published(t, s, sc, 1)
	_, err := storetest.ClaimCohort(ctx, s)
	must(t, err)
	must(t, s.MarkStarted(ctx, keys[0].EnrollmentID))
	now := time.Now().UTC().Truncate(time.Millisecond)
	first := delivery.Opening{
		Touchpoint: keys[0], Scope: sc, Attempt: 1, At: now, By: "prc_1", Body: []byte(`{"n":1}`),
		Delivery: waypost.Delivery{
			MessageID: waypost.NewID(waypost.PrefixMessage, now), EnrollmentID: keys[0].EnrollmentID, JourneyID: journey, JourneyVersion: 1,
			NodeID: "hello", WebhookID: hook, LeadsID: leads[0],
		},
	}
	second := first
	second.Attempt, second.Body = 2, nil
	_, err = s.OpenInOneStatement(ctx, []delivery.Opening{first})
	must(t, err)
	_, err = s.RecordInOneStatement(ctx, []delivery.AttemptRecord{{
		Touchpoint: keys[0], Scope: sc, Round: 1, Attempt: 1, Status: waypost.DeliveryRetrying, Outcome: waypost.Outcome{HTTPStatus: 503, At: now}, NextAttemptAt: now,
	}})
	must(t, err)
	_, err = s.OpenInOneStatement(ctx, []delivery.Opening{second})
	must(t, err)
	_, err = s.RecordInOneStatement(ctx, []delivery.AttemptRecord{{
		Touchpoint: keys[0], Scope: sc, Round: 1, Attempt: 2, Status: waypost.DeliverySucceeded, Outcome: waypost.Outcome{Succeed: true, HTTPStatus: 200, At: now},
		Progress: &waypost.Progress{EnrollmentID: keys[0].EnrollmentID, Status: waypost.EnrollmentCompleted, NodeID: "hello", LastSeq: 1, Entries: []waypost.TimelineEntry{
			{Seq: 1, At: now, What: waypost.WhatExited},
		}},
	}})
	must(t, err)
	_, err = s.Lead(ctx, sc, leads[0])
	must(t, err)
	_, err = s.Webhook(ctx, sc, hook)
	must(t, err)
	_, err = s.Journey(ctx, sc, journey)
	must(t, err)
	_, err = s.Controls(ctx, waypost.ControlTargets{JourneyID: journey, EnrollmentIDs: []string{keys[0].EnrollmentID}})
	must(t, err)
	for _, bulk := range []bool{false, true} {
		_, err = s.ClaimNotices(ctx, 10, bulk)
		must(t, err)
	}

	columns := map[string][]string{}
	rows, err := planned.QueryContext(ctx, `SELECT c.relname, a.attname FROM pg_index AS i JOIN pg_class AS c ON c.oid = i.indexrelid
		JOIN pg_attribute AS a ON a.attrelid = c.oid WHERE a.attnum <= i.indnkeyatts ORDER BY c.relname, a.attnum`)
	must(t, err)
	for rows.Next() {
		var index, column string
		must(t, rows.Scan(&index, &column))
		columns[index] = append(columns[index], column)
	}
	must(t, errors.Join(rows.Err(), rows.Close()))
	statements := map[string]string{} // as they are explained
	rows, err = planned.QueryContext(ctx, `SELECT statement, format('EXPLAIN (FORMAT JSON) EXECUTE %I(%s)', name,
		array_to_string(array_fill('NULL'::text, ARRAY[cardinality(parameter_types)]), ',')) FROM pg_prepared_statements WHERE cardinality(parameter_types) > 0`)
	must(t, err)
	for rows.Next() {
		var text, explain string
		must(t, rows.Scan(&text, &explain))
		statements[text] = explain
	}
	must(t, errors.Join(rows.Err(), rows.Close()))
	if len(statements) < 12 {
		t.Errorf("only %d statements were planned", len(statements))
	}
	for text, explain := range statements {
		var plan []struct{ Plan scan }
		var raw []byte
		must(t, planned.QueryRowContext(ctx, explain).Scan(&raw))
		must(t, json.Unmarshal(raw, &plan))
		for _, node := range plan[0].Plan.all() {
			if strings.Contains(node.Type, "Seq Scan") {
				t.Errorf("all of %s is read by %s", node.Relation, text)
			}
			// The few that wait are read in order.
			if slices.Contains([]string{"", "notices_bulk", "notices_others"}, node.Index) {
				continue
			}
			if node.Index == "subscription_types_pkey" && node.Cond == "" { // whether there is any
				continue
			}
			used := 0
			for i, column := range columns[node.Index] {
				has := regexp.MustCompile(`[(.]` + column + ` (=|<|>|IS)`).MatchString(node.Cond)
				if has && used < i {
					t.Errorf("%s is looked up by (%s) of (%s) in %s", node.Index, node.Cond, strings.Join(columns[node.Index], ", "), text)
				}
				if has {
					used++
				}
			}
			if used == 0 || slices.Equal(columns[node.Index][:used], []string{"org", "stage"}) {
				t.Errorf("%s is looked up by (%s) in %s", node.Index, node.Cond, text)
			}
		}
	}
}

// scan is a node of a plan.
type scan struct {
	Type     string `json:"Node Type"`
	Relation string `json:"Relation Name"`
	Index    string `json:"Index Name"`
	Cond     string `json:"Index Cond"`
	Plans    []scan
}

func (s scan) all() []scan {
	list := []scan{s}
	for _, p := range s.Plans {
		list = append(list, p.all()...)
	}
	return list
}
