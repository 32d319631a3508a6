package store_test

import (
	"testing"

	"waypost"
	"waypost/store"
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
		if _, err := s.CancelRedelivery(ctx, sc, bad.ID); waypost.CodeOf(err) != waypost.CodeConflict {
			t.Errorf("canceled after it has failed: %v", err)
		}
	})
}
