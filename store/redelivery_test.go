package store_test

import (
	"database/sql"
	"testing"
	"time"

	"waypost"
	"waypost/delivery"
	"waypost/store"
	"waypost/store/storetest"
)

// A bulk redelivery whose stored filter cannot be read ends, with a reason, instead
// of holding up the others.
func TestRedeliveryOfDamagedFilter(t *testing.T) {
	t.Parallel()
	urls(t, func(t *testing.T, url, driver, dsn string) {
		ctx := t.Context()
		if _, _, err := store.Migrate(ctx, url); err != nil {
			t.Fatal(err)
		}
		s, err := open(t, url)
		if err != nil {
			t.Fatal(err)
		}
		sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
		bad, err := s.CreateRedelivery(ctx, sc, waypost.DeliveryFilter{}, "app_1")
		if err != nil {
			t.Fatal(err)
		}
		exec(t, driver, dsn, "UPDATE redeliveries SET filter = '{'")
		good, err := s.CreateRedelivery(ctx, sc, waypost.DeliveryFilter{}, "app_1")
		if err != nil {
			t.Fatal(err)
		}
		for more := true; more; {
			if more, err = s.RedeliveryStep(ctx); err != nil {
				t.Fatal(err)
			}
		}
		for id, want := range map[string]waypost.RedeliveryStatus{bad.ID: waypost.RedeliveryFailed, good.ID: waypost.RedeliveryCompleted} {
			r, err := s.Redelivery(ctx, sc, id)
			if err != nil || r.Status != want || r.EndedAt == nil || (r.Message != "") != (want == waypost.RedeliveryFailed) {
				t.Errorf("got %+v, %v, want %s", r, err, want)
			}
		}
		// Of what has ended nothing is counted again.
		exec(t, driver, dsn, "UPDATE redeliveries SET succeeded = 7, ended_at = ended_at + 1000000 WHERE ended_at IS NOT NULL")
		list, err := s.ListRedeliveries(ctx, sc, waypost.Page{})
		if err != nil || len(list) != 2 || list[0].Succeeded != 7 || list[1].Succeeded != 7 {
			t.Errorf("got %+v, %v", list, err)
		}
		if _, err := s.CancelRedelivery(ctx, sc, bad.ID); waypost.CodeOf(err) != waypost.CodeConflict {
			t.Errorf("canceled after it has failed: %v", err)
		}
	})
}

// A message that somebody else redelivered, and that was delivered, between the look
// of a bulk redelivery and its turn is not sent a third time.
func TestRedeliveryBetweenLookAndTurn(t *testing.T) {
	t.Parallel()
	ctx, url := t.Context(), storetest.PostgresURL(t)
	if _, _, err := store.Migrate(ctx, url); err != nil {
		t.Fatal(err)
	}
	s, err := open(t, url)
	ok := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	ok(err)
	sc := waypost.Scope{Org: "acme", Stage: waypost.StageRelease}
	hook, err := s.CreateWebhook(ctx, sc, waypost.Webhook{Name: "crm", URL: "https://crm.example.com", TimeoutMs: 1000, Retry: waypost.DefaultRetry(), Enabled: true})
	ok(err)
	j, err := s.CreateJourney(ctx, sc, "J", []byte(`{}`))
	ok(err)
	_, err = s.PublishJourney(ctx, sc, j.ID, waypost.Publication{Name: "J", Hash: "hash", Definition: []byte(`{}`), Webhooks: []string{hook.ID}})
	ok(err)
	lead, err := s.CreateLead(ctx, sc, waypost.LeadFields{Name: "Ada"}, nil)
	ok(err)
	e, err := s.Enroll(ctx, sc, waypost.Enrollment{JourneyID: j.ID, Version: 1, LeadsID: lead.LeadsID, AppID: "app_1"}, waypost.Reentry{})
	ok(err)
	at := time.Now().Add(-time.Hour).UTC()
	key, id := waypost.Touchpoint{EnrollmentID: e.ID, Visit: 1}, waypost.NewID(waypost.PrefixMessage, at)
	attempt := func(n int, status waypost.DeliveryStatus) {
		t.Helper()
		o := delivery.Opening{Touchpoint: key, Round: n, Scope: sc, Attempt: n, At: at, By: "x", Delivery: waypost.Delivery{
			MessageID: id, JourneyID: j.ID, JourneyVersion: 1, NodeID: "a", WebhookID: hook.ID, LeadsID: lead.LeadsID,
		}}
		if n == 1 {
			o.Body = []byte("{}")
		}
		_, err := s.OpenAttempts(ctx, []delivery.Opening{o})
		ok(err)
		ok(s.RecordAttempts(ctx, []delivery.AttemptRecord{{
			Touchpoint: key, Scope: sc, Round: n, Attempt: n, Status: status, Outcome: waypost.Outcome{Succeed: status == waypost.DeliverySucceeded, At: at},
		}}))
	}
	attempt(1, waypost.DeliveryFailed)
	r, err := s.CreateRedelivery(ctx, sc, waypost.DeliveryFilter{}, "app_1")
	ok(err)

	db, err := sql.Open("pgx", url)
	ok(err)
	defer db.Close()
	holder, err := db.Begin()
	ok(err)
	defer func() { _ = holder.Rollback() }()
	_, err = holder.Exec("SELECT 1 FROM redeliveries WHERE id = $1 FOR UPDATE", r.ID)
	ok(err)
	stepped := make(chan error, 1)
	go func() {
		_, err := s.RedeliveryStep(ctx)
		stepped <- err
	}()
	for waiting := 0; waiting == 0; time.Sleep(5 * time.Millisecond) {
		ok(db.QueryRow(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'
			AND query LIKE '%redeliveries%'`).Scan(&waiting))
	}
	_, err = s.Redeliver(ctx, sc, id)
	ok(err)
	attempt(2, waypost.DeliverySucceeded)
	ok(holder.Commit())
	ok(<-stepped)
	r, err = s.Redelivery(ctx, sc, r.ID)
	ok(err)
	d, _, _, err := s.Delivery(ctx, sc, id)
	ok(err)
	if r.Redelivered != 0 || r.Skipped != 1 || d.Status != waypost.DeliverySucceeded {
		t.Errorf("%d redelivered, %d skipped; the delivery is %s", r.Redelivered, r.Skipped, d.Status)
	}
}
