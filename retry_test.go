package waypost_test

import (
	"testing"
	"time"

	"waypost"
)

func TestRetryNext(t *testing.T) {
	t.Parallel()
	first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	failed := func(class string, status int) waypost.Outcome {
		return waypost.Outcome{ErrorClass: class, HTTPStatus: status, At: first, Duration: time.Second}
	}
	after := func(o waypost.Outcome, d time.Duration) waypost.Outcome { o.RetryAfter = d; return o }
	seconds := func(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
	tests := map[string]struct {
		change   func(*waypost.Retry)
		attempts int
		outcome  waypost.Outcome
		random   float64
		wait     time.Duration // after the end of the attempt; 0: no further attempt
	}{
		"first entry, no jitter at the middle": {attempts: 1, outcome: failed("httpStatus", 503), random: 0.5, wait: 5 * time.Second},
		"jitter shortens by a fifth":           {attempts: 1, outcome: failed("httpStatus", 503), random: 0, wait: 4 * time.Second},
		"second entry":                         {attempts: 2, outcome: failed("network", 0), random: 0.5, wait: 30 * time.Second},
		"the last entry repeats":               {attempts: 40, outcome: failed("timeout", 0), random: 0.5, wait: 12 * time.Hour},
		"tls counts as network":                {attempts: 1, outcome: failed("tls", 0), random: 0.5, wait: 5 * time.Second},
		"429 is retried":                       {attempts: 1, outcome: failed("httpStatus", 429), random: 0.5, wait: 5 * time.Second},
		"404 is final":                         {attempts: 1, outcome: failed("httpStatus", 404)},
		"302 is final":                         {attempts: 1, outcome: failed("httpStatus", 302)},
		"410 is final":                         {attempts: 1, outcome: failed("httpStatus", 410)},
		"a refused address is final":           {attempts: 1, outcome: failed("address", 0)},
		"a too large response is final":        {attempts: 1, outcome: failed("responseTooLarge", 200)},
		"succeed:false is final":               {attempts: 1, outcome: failed("succeedFalse", 200)},
		"succeed:false can be retried": {attempts: 1, outcome: failed("succeedFalse", 200), random: 0.5, wait: 5 * time.Second,
			change: func(r *waypost.Retry) { r.OnSucceedFalse = true }},
		"interrupted is always retried": {attempts: 1, outcome: failed("interrupted", 0), random: 0.5, wait: 5 * time.Second,
			change: func(r *waypost.Retry) { r.On = nil }},
		"Retry-After makes it longer":          {attempts: 1, outcome: after(failed("httpStatus", 429), 7*time.Second), random: 0, wait: 7 * time.Second},
		"Retry-After's jitter only adds":       {attempts: 1, outcome: after(failed("httpStatus", 429), 10*time.Second), random: 0.5, wait: 11 * time.Second},
		"Retry-After does not make it shorter": {attempts: 2, outcome: after(failed("httpStatus", 503), time.Second), random: 0.5, wait: 30 * time.Second},
		"Retry-After is capped at a day":       {attempts: 1, outcome: after(failed("httpStatus", 503), 1000*time.Hour), random: 0, wait: 24 * time.Hour},
		"maxAttempts ends it": {attempts: 3, outcome: failed("httpStatus", 503),
			change: func(r *waypost.Retry) { r.MaxAttempts = 3 }},
		"giveUpAfter brings a last attempt forward": {attempts: 1, outcome: failed("httpStatus", 503), random: 0.5, wait: seconds(4.9),
			change: func(r *waypost.Retry) { r.GiveUpAfter = waypost.Duration(seconds(5.9)) }},
		"also what Retry-After puts off": {attempts: 1, outcome: after(failed("httpStatus", 503), 2*time.Hour), random: 0.9, wait: time.Hour - time.Second,
			change: func(r *waypost.Retry) { r.GiveUpAfter = waypost.Duration(time.Hour) }},
		"and what jitter does": {attempts: 1, outcome: failed("httpStatus", 503), random: 0.99, wait: seconds(5.1),
			change: func(r *waypost.Retry) { r.GiveUpAfter = waypost.Duration(seconds(6.1)) }},
		"a wait that ends with giveUpAfter": {attempts: 1, outcome: failed("httpStatus", 503), random: 0.5, wait: 5 * time.Second,
			change: func(r *waypost.Retry) { r.GiveUpAfter = waypost.Duration(seconds(6)) }},
		"giveUpAfter ends it": {attempts: 1, outcome: failed("httpStatus", 503), random: 0.5,
			change: func(r *waypost.Retry) { r.GiveUpAfter = waypost.Duration(seconds(1)) }},
		"maxAttempts ends it with time left": {attempts: 1, outcome: after(failed("httpStatus", 503), 2*time.Hour),
			change: func(r *waypost.Retry) { r.MaxAttempts, r.GiveUpAfter = 1, waypost.Duration(time.Hour) }},
		"success is never followed": {attempts: 1, outcome: waypost.Outcome{Succeed: true, At: first}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := waypost.DefaultRetry()
			if tt.change != nil {
				tt.change(&r)
			}
			at, again := r.Next(first, tt.attempts, tt.outcome, tt.random)
			if again != (tt.wait > 0) {
				t.Fatalf("again = %v", again)
			}
			if got := at.Sub(first.Add(time.Second)); again && got != tt.wait {
				t.Errorf("wait = %s, want %s", got, tt.wait)
			}
		})
	}
}

// The default schedule fits at least one attempt after its last entry into the
// 72 hours, whatever the jitter, and the last attempt is made when they are over.
func TestDefaultRetryReachesItsLastEntry(t *testing.T) {
	t.Parallel()
	for _, random := range []float64{0, 0.5, 0.999} {
		first := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
		r, now, attempts := waypost.DefaultRetry(), first, 1
		for {
			at, again := r.Next(first, attempts, waypost.Outcome{ErrorClass: "network", At: now}, random)
			if !again {
				break
			}
			now, attempts = at, attempts+1
		}
		if attempts <= len(r.Schedule) || now.Sub(first) != 72*time.Hour {
			t.Errorf("jitter at %v: %d attempts, the last after %s", random, attempts, now.Sub(first))
		}
	}
}

func TestRetryGaveUp(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change   func(*waypost.Retry)
		attempts int
		outcome  waypost.Outcome
		want     waypost.GaveUp
		message  string // made of "it says"
	}{
		"time":     {nil, 1, waypost.Outcome{ErrorClass: "httpStatus", HTTPStatus: 503}, "giveUpAfter", "it says; given up: the time of retry.giveUpAfter is over"},
		"attempts": {func(r *waypost.Retry) { r.MaxAttempts = 3 }, 3, waypost.Outcome{ErrorClass: "timeout"}, "maxAttempts", "it says; given up: as many attempts were made as retry.maxAttempts allows"},
		"a cut off one, of many": {func(r *waypost.Retry) { r.MaxAttempts, r.On = 3, nil }, 3, waypost.Outcome{ErrorClass: "interrupted"}, "maxAttempts",
			"it says; given up: as many attempts were made as retry.maxAttempts allows"},
		"a cut off one":        {func(r *waypost.Retry) { r.On = nil }, 1, waypost.Outcome{ErrorClass: "interrupted"}, "giveUpAfter", "it says; given up: the time of retry.giveUpAfter is over"},
		"a refusal":            {nil, 1, waypost.Outcome{ErrorClass: "httpStatus", HTTPStatus: 400}, "notRetried", "it says; given up: retry.on has no such failure"},
		"the last, refused":    {func(r *waypost.Retry) { r.MaxAttempts = 3 }, 3, waypost.Outcome{ErrorClass: "httpStatus", HTTPStatus: 400}, "notRetried", "it says; given up: retry.on has no such failure"},
		"a redirect":           {nil, 1, waypost.Outcome{ErrorClass: "httpStatus", HTTPStatus: 302}, "notRetried", "it says; given up: retry.on has no such failure"},
		"a fault":              {func(r *waypost.Retry) { r.On = []waypost.RetryOn{"5xx"} }, 1, waypost.Outcome{ErrorClass: "network"}, "notRetried", "it says; given up: retry.on has no such failure"},
		"an address":           {nil, 1, waypost.Outcome{ErrorClass: "address"}, "notRetried", "it says; given up: retry.on has no such failure"},
		"too large":            {nil, 1, waypost.Outcome{ErrorClass: "responseTooLarge", HTTPStatus: 200}, "notRetried", "it says; given up: retry.on has no such failure"},
		"gone":                 {nil, 1, waypost.Outcome{ErrorClass: "httpStatus", HTTPStatus: 410}, "gone", "it says; given up: 410 has disabled the webhook"},
		"succeed false":        {nil, 1, waypost.Outcome{ErrorClass: "succeedFalse", HTTPStatus: 200}, "succeedFalse", "it says"},
		"succeed false, again": {func(r *waypost.Retry) { r.OnSucceedFalse = true }, 9, waypost.Outcome{ErrorClass: "succeedFalse", HTTPStatus: 200}, "giveUpAfter", "it says; given up: the time of retry.giveUpAfter is over"},
		"render":               {nil, 1, waypost.Outcome{ErrorClass: "render"}, "render", "it says"},
	} {
		r := waypost.DefaultRetry()
		if tt.change != nil {
			tt.change(&r)
		}
		if got := r.GaveUp(tt.attempts, tt.outcome); got != tt.want || got.Explain("it says") != tt.message {
			t.Errorf("%s: %s, %q", name, got, got.Explain("it says"))
		}
	}
	if got := waypost.GaveUpTime.Explain(""); got != "given up: the time of retry.giveUpAfter is over" {
		t.Errorf("without a message: %q", got)
	}
	if got := waypost.GaveUp("").Explain("it says"); got != "it says" {
		t.Errorf("not given up: %q", got)
	}
}
