package e2e

import (
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"waypost"
	"waypost/devstack/harness"
)

// slowReceiver is a receiver whose sender can be killed in the middle of first attempts.
type slowReceiver struct {
	*harness.Receiver
	slow    atomic.Bool   // first attempts are answered after 2 s
	posting chan struct{} // has a value once such an attempt is under way
}

func newSlowReceiver(t *testing.T) *slowReceiver {
	t.Helper()
	r := &slowReceiver{posting: make(chan struct{}, 1)}
	r.Receiver = harness.NewReceiver(t, func(_ waypost.Message, attempt int) harness.Answer {
		a := harness.Answer{Status: http.StatusOK, Body: `{"succeed":true}`}
		if attempt == 1 && r.slow.Load() {
			a.After = 2 * time.Second
			select {
			case r.posting <- struct{}{}:
			default:
			}
		}
		return a
	})
	return r
}

// quicken has what the next sender posts answered at once. The one before is killed.
func (r *slowReceiver) quicken() {
	r.slow.Store(false)
	select {
	case <-r.posting:
	default:
	}
}

// An attempt that was cut off may have arrived or not. One that did not arrive excuses
// no other POST.
func TestDisagreements(t *testing.T) {
	t.Parallel()
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	at := func(ms int) time.Time { return began.Add(time.Duration(ms) * time.Millisecond) }
	rec := harness.Record{MessageID: "msg_1", Status: waypost.DeliverySucceeded, Attempts: 2, AttemptLog: []waypost.Attempt{
		{Attempt: 1, At: at(0), ErrorClass: waypost.ClassInterrupted},
		{Attempt: 2, At: at(10_000), HTTPStatus: http.StatusOK},
	}}
	for name, c := range map[string]struct {
		posts []int // milliseconds
		says  string
	}{
		"it arrived":                      {[]int{1, 10_001}, ""},
		"it arrived as it began":          {[]int{0, 10_000}, ""},
		"it did not":                      {[]int{10_001}, ""},
		"it arrived twice":                {[]int{1, 2, 10_001}, "attempt 1, recorded as interrupted, arrived 2 times"},
		"it did not, and another one did": {[]int{10_001, 10_002}, "2 POSTs arrived, 2 attempts are recorded, 1 of them interrupted, of which 0 arrived"},
		"it did, and another one did":     {[]int{1, 10_001, 10_002}, "3 POSTs arrived, 2 attempts are recorded, 1 of them interrupted, of which 1 arrived"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var posts []harness.Received
			for _, ms := range c.posts {
				posts = append(posts, harness.Received{Answered: http.StatusOK, At: at(ms).Add(time.Microsecond)})
			}
			ledger := map[string][]harness.Received{rec.MessageID: posts}
			got := strings.Join(harness.Disagreements(ledger, false, []harness.Record{rec}), "\n")
			if c.says == "" && got != "" || !strings.Contains(got, c.says) {
				t.Errorf("found %q, want %q", got, c.says)
			}
		})
	}
}
