package workflows_test

import (
	"context"
	"testing"
	"time"

	"waypost"
	"waypost/store"
	"waypost/store/storetest"
)

// oneDatabase opens one database for processes whose clocks are ahead of the true
// time.
func oneDatabase(t *testing.T) (open func(ahead time.Duration) *store.Store) {
	t.Helper()
	ctx := context.Background()
	keys, err := waypost.ParseKeyring("k1:MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY=")
	must(t, err)
	url := storetest.SQLiteURL(t)
	return func(ahead time.Duration) *store.Store {
		s, err := store.Open(ctx, url, keys, func() time.Time { return time.Now().Add(ahead) })
		must(t, err)
		t.Cleanup(func() { must(t, s.Close()) })
		return s
	}
}

// A gateway whose clock is some seconds ahead writes a notice for a cohort: the pump
// of another process must not wait for as long until it tells.
func TestNoticeOfAClockAhead(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	open := oneDatabase(t)
	pump, gateway := open(0), open(30*time.Second)
	w := &world{t: t, store: pump}
	hook, err := pump.CreateWebhook(ctx, scope, waypost.Webhook{Name: "x", URL: "http://127.0.0.1:1/", TimeoutMs: 1000, Retry: waypost.DefaultRetry(), Enabled: true})
	must(t, err)
	w.webhook = hook
	v := w.publish(delayed)
	enrolled := w.enroll(v, 2)
	cohort, err := storetest.ClaimCohort(ctx, pump)
	must(t, err)
	must(t, pump.MarkStarted(ctx, cohort.ID))
	_, err = gateway.CancelEnrollment(ctx, scope, enrolled[0].ID)
	must(t, err)
	notices, err := pump.ClaimNotices(ctx, 10, false)
	must(t, err)
	if len(notices) == 0 {
		t.Error("the notice is not told until the pump's clock has reached the gateway's")
	}
}

// A cancel of a journey by a gateway whose clock is behind counts for enrollments
// that another gateway has accepted before.
func TestCancelOfAClockBehind(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	open := oneDatabase(t)
	a, b := open(0), open(-2*time.Second)
	w := &world{t: t, store: a}
	hook, err := a.CreateWebhook(ctx, scope, waypost.Webhook{Name: "x", URL: "http://127.0.0.1:1/", TimeoutMs: 1000, Retry: waypost.DefaultRetry(), Enabled: true})
	must(t, err)
	w.webhook = hook
	v := w.publish(delayed)
	e := w.enroll(v, 1)[0]
	_, err = b.CancelJourney(ctx, scope, v.JourneyID)
	must(t, err)
	if status, _ := w.timeline(e); status != waypost.EnrollmentCanceled {
		t.Errorf("the enrollment was accepted before the cancel was answered, and is %s", status)
	}
}
