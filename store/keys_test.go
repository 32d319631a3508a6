package store_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"reflect"
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

// ringOf makes a keyring of test keys, such as "new,old".
func ringOf(t *testing.T, ids string) *waypost.Keyring {
	t.Helper()
	var keys []string
	for _, id := range strings.Split(ids, ",") {
		keys = append(keys, id+":"+base64.StdEncoding.EncodeToString([]byte(fmt.Sprintf("%32s", id))))
	}
	ring, err := waypost.ParseKeyring(strings.Join(keys, ","))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// sealedWorld is a database with all that the keyring seals.
type sealedWorld struct {
	t        *testing.T
	url      string
	journey  string
	webhooks []string
	users    []string // each has an app as a second factor
	apps     []string
	access   map[string]string // secrets by access key
	bodies   map[string]string // by message id
	keys     []waypost.Touchpoint
}

var sealedScope = waypost.Scope{Org: "acme", Stage: waypost.StageRelease}

// open opens the database as a process with these keys does.
func (w *sealedWorld) open(ids string) *store.Store {
	w.t.Helper()
	s, err := store.Open(w.t.Context(), w.url, ringOf(w.t, ids), time.Now)
	w.ok(err)
	w.t.Cleanup(func() { s.Close() })
	return s
}

func (w *sealedWorld) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func newSealedWorld(t *testing.T, url string) *sealedWorld {
	t.Helper()
	if _, _, err := store.Migrate(t.Context(), url); err != nil {
		t.Fatal(err)
	}
	return &sealedWorld{t: t, url: url, access: map[string]string{}, bodies: map[string]string{}}
}

// fill has a process seal some of everything.
func (w *sealedWorld) fill(s *store.Store, webhooks, messages int) {
	w.t.Helper()
	ctx := w.t.Context()
	app, err := s.CreateApplication(ctx, "", waypost.Application{Org: "acme", Name: "crm", Grants: []waypost.Grant{"*"}})
	w.ok(err)
	second, err := s.RotateKey(ctx, "", app.Application.ID)
	w.ok(err)
	w.apps = append(w.apps, app.Application.ID)
	w.access[app.AccessKey], w.access[second.AccessKey] = app.SecretKey, second.SecretKey
	u, _, err := s.CreateUser(ctx, waypost.Scope{}, waypost.User{Org: "acme", Email: strings.ToLower(waypost.NewID("u", time.Now())) + "@example.com", Name: "Ada", Role: waypost.RoleAdmin})
	w.ok(err)
	_, err = s.ChangeSecondFactor(ctx, waypost.Scope{}, u, func(f *waypost.SecondFactor) error { f.TOTPSecret = "SECRET"; return nil })
	w.ok(err)
	w.users = append(w.users, u.ID)
	for range webhooks {
		hook, err := s.CreateWebhook(ctx, sealedScope, waypost.Webhook{
			Name: "crm", URL: "https://crm.example.com", TimeoutMs: 1000, Retry: waypost.DefaultRetry(), Enabled: true,
			BasicAuth: &waypost.BasicAuth{Username: "u", Password: "password"}, SigningSecret: "whsec_2", PreviousSigningSecret: "whsec_1",
			SigningOverlap: waypost.Duration(time.Hour), SigningRotatedAt: time.Now(),
			TLS: &waypost.TLS{CACertificate: "ca", ClientCertificate: "certificate", ClientKey: "client key"},
		})
		w.ok(err)
		w.webhooks = append(w.webhooks, hook.ID)
	}
	if w.journey == "" {
		j, err := s.CreateJourney(ctx, sealedScope, "J", []byte(`{}`))
		w.ok(err)
		_, err = s.PublishJourney(ctx, sealedScope, j.ID, waypost.Publication{Name: "J", Hash: "hash", Definition: []byte(`{}`)})
		w.ok(err)
		w.journey = j.ID
	}
	for n := 0; n < messages; n += 100 {
		w.messages(s, min(100, messages-n))
	}
	claim := &waypost.Claim{ID: fmt.Sprint("claim", len(w.bodies)), Token: "t"}
	_, err = s.ClaimKey(ctx, claim, []byte("body"))
	w.ok(err)
	w.ok(s.KeepAnswer(ctx, claim, waypost.Answer{Status: 201, Body: []byte("answer")}))
}

// messages opens the first attempt of n messages of a new enrollment, and records its
// end with a receiver's answer.
func (w *sealedWorld) messages(s *store.Store, n int) {
	w.t.Helper()
	ctx := w.t.Context()
	lead, err := s.CreateLead(ctx, sealedScope, waypost.LeadFields{Name: "Ada"}, nil)
	w.ok(err)
	e, err := s.Enroll(ctx, sealedScope, waypost.Enrollment{JourneyID: w.journey, Version: 1, LeadsID: lead.LeadsID, AppID: "app_1"}, waypost.Reentry{})
	w.ok(err)
	var openings []delivery.Opening
	var records []delivery.AttemptRecord
	for visit := range n {
		id := waypost.NewID(waypost.PrefixMessage, time.Now())
		key := waypost.Touchpoint{EnrollmentID: e.ID, Visit: visit + 1}
		w.keys, w.bodies[id] = append(w.keys, key), "body of "+id
		openings = append(openings, delivery.Opening{
			Touchpoint: key, Scope: sealedScope, Attempt: 1, At: time.Now(), By: "worker", Body: []byte(w.bodies[id]),
			Delivery: waypost.Delivery{MessageID: id, JourneyID: w.journey, JourneyVersion: 1, NodeID: "hello", WebhookID: "whk_1", LeadsID: lead.LeadsID},
		})
		records = append(records, delivery.AttemptRecord{
			Touchpoint: key, Scope: sealedScope, MessageID: id, Round: 1, Attempt: 1, Status: waypost.DeliveryRetrying, NextAttemptAt: time.Now(),
			Outcome: waypost.Outcome{HTTPStatus: 503, ErrorClass: waypost.ClassHTTPStatus, Message: "busy", Excerpt: "<html>", At: time.Now()},
		})
	}
	_, err = s.OpenAttempts(ctx, openings)
	w.ok(err)
	w.ok(s.RecordAttempts(ctx, records))
}

// wantAll fails unless a process with these keys can read everything.
func (w *sealedWorld) wantAll(ids string) {
	w.t.Helper()
	ctx, s := w.t.Context(), w.open(ids)
	for key, secret := range w.access {
		c, err := s.Credential(ctx, key)
		if w.ok(err); c.SecretKey != secret {
			w.t.Errorf("the secret of %s is %q", key, c.SecretKey)
		}
	}
	for _, id := range w.users {
		_, err := s.ChangeSecondFactor(ctx, waypost.Scope{}, waypost.User{ID: id}, func(f *waypost.SecondFactor) error {
			if f.TOTPSecret != "SECRET" {
				w.t.Errorf("the secret of %s's app is %q", id, f.TOTPSecret)
			}
			return nil
		})
		w.ok(err)
	}
	for _, id := range w.webhooks {
		h, err := s.Webhook(ctx, sealedScope, id)
		if w.ok(err); h.BasicAuth.Password != "password" || h.SigningSecret != "whsec_2" || h.PreviousSigningSecret != "whsec_1" || h.TLS.ClientKey != "client key" {
			w.t.Errorf("the webhook is %+v", h)
		}
	}
	stored, err := s.Sendings(ctx, w.keys)
	w.ok(err)
	for _, key := range w.keys {
		got := stored[key]
		if got.Unreadable != nil || string(got.Body) != w.bodies[got.MessageID] {
			w.t.Errorf("the message of %v is %q, %v", key, got.Body, got.Unreadable)
		}
	}
	if len(stored) != len(w.bodies) {
		w.t.Errorf("%d messages, want %d", len(stored), len(w.bodies))
	}
	for _, key := range w.keys[:min(3, len(w.keys))] {
		_, attempts, _, err := s.Delivery(ctx, sealedScope, stored[key].MessageID)
		if w.ok(err); len(attempts) == 0 || attempts[0].Message != "busy" || attempts[0].ResponseExcerpt != "<html>" {
			w.t.Errorf("the attempts of %v are %+v", key, attempts)
		}
	}
}

// uses tells what each key has sealed, such as "old messages 3".
func uses(t *testing.T, s *store.Store) (list []string) {
	t.Helper()
	found, err := s.KeyUses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range found {
		list = append(list, fmt.Sprint(u.Key, " ", u.Table, " ", u.Values))
	}
	return list
}

// left is how many values are sealed with other keys than this one.
func left(t *testing.T, s *store.Store, but string) (n int64) {
	t.Helper()
	found, err := s.KeyUses(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, u := range found {
		if u.Key != but {
			n += u.Values
		}
	}
	return n
}

// Everything is sealed again with the first key, in steps that can be ended at any
// point and taken up again; the old key is not needed after that, and nothing else
// changes.
func TestReseal(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		w := newSealedWorld(t, url)
		old := w.open("old")
		w.fill(old, 3, 450)
		before, err := old.Webhook(t.Context(), sealedScope, w.webhooks[0])
		w.ok(err)
		// A round and an attempt of their own: the delivery's answer moves there.
		exec(t, driver, dsn, "INSERT INTO attempts (enrollment_id, visit, round, attempt, at, http_status, error_class, duration_ms, response) "+
			"SELECT enrollment_id, visit, 1, 0, 1, 503, 'httpStatus', 1, response FROM deliveries WHERE visit <= 2")
		exec(t, driver, dsn, "INSERT INTO delivery_rounds (enrollment_id, visit, round, workflow_id, began_at, status, attempts, duration_ms, http_status, error_class, response) "+
			"SELECT enrollment_id, visit, 2, 'w', 1, 'failed', 1, 1, 503, 'httpStatus', response FROM deliveries WHERE visit = 1")
		all := []string{"access_keys 2", "users 1", "webhooks 12", "idempotency_keys 1", "messages 450", "deliveries 450", "attempts 10", "delivery_rounds 5"}
		by := func(key string) (want []string) {
			for _, table := range all {
				want = append(want, key+" "+table)
			}
			return want
		}
		both := w.open("new,old")
		if got := uses(t, both); !slices.Equal(got, by("old")) {
			t.Fatalf("at first %q", got)
		}
		// It is ended in the middle of the messages.
		ctx, stop := context.WithCancel(t.Context())
		done := 0
		err = both.Reseal(ctx, func(n int) {
			if done += n; done > 200 {
				stop()
			}
		})
		if !errors.Is(err, context.Canceled) || done != 216 {
			t.Fatalf("ended after %d values: %v", done, err)
		}
		if got := left(t, both, "new"); got != 931-216 {
			t.Errorf("%d values are left", got)
		}
		w.wantAll("new,old")
		w.wantAll("old,new") // a process that goes by the old one
		again := 0
		w.ok(both.Reseal(t.Context(), func(n int) { again += n }))
		if got := uses(t, both); again != 931-216 || !slices.Equal(got, by("new")) {
			t.Errorf("%d values later %q", again, got)
		}
		w.ok(both.Reseal(t.Context(), func(n int) { t.Errorf("%d values are sealed a second time", n) }))
		w.wantAll("new")
		after, err := w.open("new").Webhook(t.Context(), sealedScope, w.webhooks[0])
		if w.ok(err); !reflect.DeepEqual(before, after) {
			t.Errorf("the webhook was %+v and is %+v", before, after)
		}
	})
}

// While processes that have either key in front read and write, and while several
// seal again at once, nothing is lost; once nobody has the old key in front, nothing
// of it is left.
func TestResealBesideWriters(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, _, _ string) {
		w := newSealedWorld(t, url)
		stores := []*store.Store{w.open("old,new"), w.open("new,old")}
		w.fill(stores[0], 2, 300)
		ctx, stop := context.WithCancel(t.Context())
		var sealing, writing sync.WaitGroup
		for _, s := range append(stores, w.open("new,old")) { // to and fro
			sealing.Go(func() {
				for ctx.Err() == nil {
					if err := s.Reseal(ctx, func(int) {}); err != nil && ctx.Err() == nil {
						t.Errorf("seal again: %v", err)
						return
					}
				}
			})
		}
		var mu sync.Mutex
		for i, s := range stores {
			writing.Go(func() {
				for n := range 60 {
					password := fmt.Sprint(i, " ", n)
					_, err := s.UpdateWebhook(ctx, sealedScope, w.webhooks[i], func(h *waypost.Webhook) error {
						if h.SigningSecret != "whsec_2" {
							return fmt.Errorf("the secret is %q", h.SigningSecret)
						}
						h.BasicAuth.Password = password
						return nil
					})
					if err != nil {
						t.Errorf("update: %v", err)
						return
					}
					h, err := stores[1-i].Webhook(ctx, sealedScope, w.webhooks[i])
					if err != nil || h.BasicAuth.Password != password {
						t.Errorf("the password is %q, want %q: %v", h.BasicAuth.Password, password, err)
						return
					}
				}
				_, err := s.UpdateWebhook(ctx, sealedScope, w.webhooks[i], func(h *waypost.Webhook) error { h.BasicAuth.Password = "password"; return nil })
				if err != nil {
					t.Errorf("update: %v", err)
				}
			})
			writing.Go(func() {
				for range 5 {
					mu.Lock() // the world's books, not the database
					w.messages(s, 20)
					mu.Unlock()
				}
			})
		}
		writing.Wait()
		w.wantAll("new,old")
		stop()
		sealing.Wait()
		w.ok(stores[1].Reseal(t.Context(), func(int) {}))
		if n := left(t, stores[1], "new"); n != 0 {
			t.Errorf("%d values are left: %q", n, uses(t, stores[1]))
		}
		w.wantAll("new")
	})
}

// What cannot be opened is named, with its key, and left; everything else is sealed
// again.
func TestResealNamesWhatItCannotOpen(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		w := newSealedWorld(t, url)
		w.fill(w.open("lost"), 3, 0)
		lost := w.webhooks
		w.access, w.webhooks, w.users = map[string]string{}, nil, nil
		old := w.open("old")
		w.fill(old, 1, 3)
		exec(t, driver, dsn, "UPDATE messages SET body = (SELECT response FROM deliveries LIMIT 1)") // for another purpose
		both := w.open("new,old")
		done := 0
		err := both.Reseal(t.Context(), func(n int) { done += n })
		for _, words := range []string{
			`secret of AK`, `basic_password of ` + lost[0] + ` in webhooks: cannot decrypt: the key "lost" is not in WAYPOST_ENCRYPTION_KEYS`, "and 9 more",
		} {
			if err == nil || !errors.Is(err, waypost.ErrDecrypt) || !strings.Contains(err.Error(), words) {
				t.Errorf("no %q in the error: %v", words, err)
			}
		}
		want := []string{"lost access_keys 2", "new access_keys 2", "lost users 1", "new users 1", "lost webhooks 12", "new webhooks 4", "lost idempotency_keys 1", "new idempotency_keys 1", "old messages 3", "new deliveries 3"}
		if got := uses(t, both); !slices.Equal(got, want) || done != 11 {
			t.Errorf("after %d values %q", done, got)
		}
		// With the key all but the damaged ones are.
		err = w.open("new,lost,old").Reseal(t.Context(), func(int) {})
		if damaged := `cannot decrypt: the data was changed, or the key "old" in WAYPOST_ENCRYPTION_KEYS is another one than it was`; err == nil || strings.Count(err.Error(), damaged) != 3 || strings.Contains(err.Error(), "lost") {
			t.Errorf("the error is %v", err)
		}
		if got := uses(t, both); !slices.Equal(got, []string{"new access_keys 4", "new users 2", "new webhooks 16", "new idempotency_keys 2", "old messages 3", "new deliveries 3"}) {
			t.Errorf("with the key %q", got)
		}
	})
}

// A message whose key is missing is told to be unreadable, and no attempt of it is
// opened; the others of its batch are.
func TestUnreadableMessages(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, _, _ string) {
		w := newSealedWorld(t, url)
		w.fill(w.open("lost"), 0, 2)
		w.fill(w.open("old"), 0, 2)
		s, names := w.open("old"), `the key "lost" is not in WAYPOST_ENCRYPTION_KEYS`
		stored, err := s.Sendings(t.Context(), w.keys)
		w.ok(err)
		var openings []delivery.Opening
		for _, key := range w.keys {
			openings = append(openings, delivery.Opening{Touchpoint: key, Scope: sealedScope, Attempt: 2, At: time.Now(), By: "worker"})
		}
		opened, err := s.OpenAttempts(t.Context(), openings)
		w.ok(err)
		for i, key := range w.keys {
			got, fault := stored[key], fmt.Sprint(opened[key].Unreadable)
			if lost := i < 2; fault != fmt.Sprint(got.Unreadable) || strings.Contains(fault, names) != lost || (got.Body == nil) != lost || (opened[key].Open == nil) != lost {
				t.Errorf("message %d is %+v, then %+v", i, got, opened[key])
			}
		}
		// Somebody who has the key opens them.
		opened, err = w.open("old,lost").OpenAttempts(t.Context(), openings[:2])
		w.ok(err)
		for _, key := range w.keys[:2] {
			if got := opened[key]; got.Unreadable != nil || got.Open == nil || string(got.Body) != w.bodies[got.MessageID] {
				t.Errorf("with the key %+v", got)
			}
		}
	})
}

// A webhook whose key is missing can be read, changed and deleted: it names what it
// lacks, an update leaves that as it is stored until it sets it, and those who wait for
// it are told then.
func TestUnreadableSecrets(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, _, _ string) {
		w := newSealedWorld(t, url)
		w.fill(w.open("lost"), 1, 1)
		s, id, now := w.open("new"), w.webhooks[0], time.Now()
		want := func(h waypost.Webhook, err error, members ...string) {
			t.Helper()
			if w.ok(err); !slices.Equal(h.Unreadable.Members(), members) || (h.Sendable(now) == nil) != (len(members) == 0) {
				t.Errorf("%q cannot be read: %v; want %q", h.Unreadable.Members(), h.Sendable(now), members)
			}
		}
		all := []string{"basicAuth.password", "tls.clientKey", "signingSecret", "previousSigningSecret"}
		h, err := s.Webhook(t.Context(), sealedScope, id)
		want(h, err, all...)
		if why := fmt.Sprint(h.Sendable(now)); !strings.Contains(why, `read basicAuth.password, tls.clientKey`) || !strings.Contains(why, `the key "lost" is not in WAYPOST_ENCRYPTION_KEYS`) {
			t.Error(why)
		}
		if h.BasicAuth.Username != "u" || h.TLS.ClientCertificate != "certificate" || h.PreviousSigningUntil().Before(now) {
			t.Errorf("got %+v", h)
		}
		list, err := s.ListWebhooks(t.Context(), sealedScope, waypost.WebhookFilter{}, waypost.Page{Limit: 10})
		want(list[0], err, all...)

		lead, err := s.CreateLead(t.Context(), sealedScope, waypost.LeadFields{Name: "Ada"}, nil)
		w.ok(err)
		e, err := s.Enroll(t.Context(), sealedScope, waypost.Enrollment{JourneyID: w.journey, Version: 1, LeadsID: lead.LeadsID, AppID: "app_1"}, waypost.Reentry{})
		w.ok(err)
		for c := (&waypost.Cohort{}); c != nil; { // that of the other lead, too
			c, err = storetest.ClaimCohort(t.Context(), s)
			if w.ok(err); c != nil {
				w.ok(s.MarkStarted(t.Context(), c.ID))
			}
		}
		w.ok(s.RecordDeferrals(t.Context(), []delivery.Deferral{{
			Touchpoint: waypost.Touchpoint{EnrollmentID: e.ID, Visit: 1}, Scope: sealedScope, Reason: waypost.DeferUnreadable, At: now, Until: now.Add(time.Hour),
			Delivery: waypost.Delivery{MessageID: waypost.NewID(waypost.PrefixMessage, now), JourneyID: w.journey, JourneyVersion: 1, NodeID: "hello", WebhookID: id, LeadsID: lead.LeadsID},
		}}))
		// Notices wait for others for a while.
		later, err := store.Open(t.Context(), url, ringOf(t, "new"), func() time.Time { return time.Now().Add(time.Second) })
		w.ok(err)
		t.Cleanup(func() { later.Close() })
		countNotices := func() (n int) {
			t.Helper()
			notices, err := later.ClaimNotices(t.Context(), 10, true)
			w.ok(err)
			return len(notices)
		}
		for i, change := range []func(*waypost.Webhook){
			func(h *waypost.Webhook) { h.Name = "other" },
			func(h *waypost.Webhook) { h.BasicAuth = &waypost.BasicAuth{Username: "u", Password: "password"} },
			func(h *waypost.Webhook) { h.TLS.ClientKey = "client key" },
			func(h *waypost.Webhook) { h.SigningSecret = "whsec_2" },
		} {
			h, err := s.UpdateWebhook(t.Context(), sealedScope, id, func(h *waypost.Webhook) error { change(h); return nil })
			want(h, err, all[i:]...)
			h, err = s.Webhook(t.Context(), sealedScope, id)
			want(h, err, all[i:]...)
			sealed := []string{"lost webhooks 4", "lost webhooks 3,new webhooks 1", "lost webhooks 2,new webhooks 2", "lost webhooks 1,new webhooks 3"}[i]
			if got := slices.DeleteFunc(uses(t, s), func(use string) bool { return !strings.Contains(use, "webhooks") }); strings.Join(sorted(got), ",") != sealed {
				t.Errorf("after change %d %q, want %s", i, got, sealed)
			}
			w.wantAll("new,lost")
			if n := countNotices(); n > 0 {
				t.Errorf("after change %d %d are told", i, n)
			}
		}
		// The secret before the present one is needed for as long as it signs.
		h, err = s.Webhook(t.Context(), sealedScope, id)
		w.ok(err)
		if until := h.PreviousSigningUntil(); h.Sendable(until.Add(-time.Second)) == nil || h.Sendable(until) != nil {
			t.Errorf("until %s", until)
		}
		h, err = s.UpdateWebhook(t.Context(), sealedScope, id, func(h *waypost.Webhook) error { h.SetSigningSecret("whsec_3", now); return nil })
		want(h, err)
		if n := countNotices(); n != 1 || h.PreviousSigningSecret != "whsec_2" {
			t.Errorf("%d are told, and %q signs beside the new secret", n, h.PreviousSigningSecret)
		}

		w.fill(w.open("lost"), 1, 0)
		id = w.webhooks[1]
		h, err = s.UpdateWebhook(t.Context(), sealedScope, id, func(h *waypost.Webhook) error {
			h.BasicAuth, h.TLS, h.SigningOverlap = nil, nil, 0
			return nil
		})
		want(h, err, "signingSecret")
		checked := false
		w.ok(s.DeleteWebhook(t.Context(), sealedScope, id, func(h waypost.Webhook) error { checked = h.Name == "crm"; return nil }))
		if !checked {
			t.Error("it was not shown before it was deleted")
		}

		// Nor does a message hold up what else is known of it.
		stored, err := s.Sendings(t.Context(), w.keys)
		w.ok(err)
		d, attempts, body, err := s.Delivery(t.Context(), sealedScope, stored[w.keys[0]].MessageID)
		w.ok(err)
		if !d.BodyUnreadable || body != nil || d.HTTPStatus != 503 || len(attempts) != 1 || attempts[0].Message != "the answer cannot be read at the moment" {
			t.Errorf("got %+v, %+v, %q", d, attempts, body)
		}
		d, _, body, err = w.open("new,lost").Delivery(t.Context(), sealedScope, d.MessageID)
		if w.ok(err); d.BodyUnreadable || string(body) != w.bodies[d.MessageID] {
			t.Errorf("with the key %+v, %q", d, body)
		}
	})
}

func sorted(list []string) []string { return slices.Sorted(slices.Values(list)) }
