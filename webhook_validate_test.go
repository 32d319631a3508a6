package waypost_test

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"waypost"
)

func TestWebhookValidate(t *testing.T) {
	t.Parallel()
	good := func() waypost.Webhook {
		return waypost.Webhook{Name: "crm", URL: "https://example.com", TimeoutMs: waypost.DefaultTimeoutMs, Retry: waypost.DefaultRetry(), Enabled: true}
	}
	wait := func(d time.Duration) waypost.Duration { return waypost.Duration(d) }
	params := map[string]any{}
	for i := range 65 {
		params[fmt.Sprint(i)] = "x"
	}
	for _, tc := range []struct {
		name   string
		change func(*waypost.Webhook)
		want   string
	}{
		{"the defaults", func(*waypost.Webhook) {}, ""},
		{"no name, no url", func(w *waypost.Webhook) { w.Name, w.URL = " ", "" }, "NullValue name; NullValue url"},
		{"long name, long url", func(w *waypost.Webhook) {
			w.Name, w.URL = strings.Repeat("名", 129), "https://"+strings.Repeat("x", 2048)
		}, "TooLong name; TooLong url"},
		{"control characters", func(w *waypost.Webhook) { w.Name = "a\x00" }, "InvalidFormat name"},
		{"shortest time-out", func(w *waypost.Webhook) { w.TimeoutMs = waypost.MinTimeoutMs }, ""},
		{"longest time-out", func(w *waypost.Webhook) { w.TimeoutMs = waypost.MaxTimeoutMs }, ""},
		{"time-out 0", func(w *waypost.Webhook) { w.TimeoutMs = 0 }, "OutOfRange timeoutMs"},
		{"time-out too long", func(w *waypost.Webhook) { w.TimeoutMs = waypost.MaxTimeoutMs + 1 }, "OutOfRange timeoutMs"},
		{"concurrency", func(w *waypost.Webhook) { w.MaxConcurrency = -1 }, "OutOfRange maxConcurrency"},
		{"basic auth", func(w *waypost.Webhook) { w.BasicAuth = &waypost.BasicAuth{Username: "u", Password: "p:w"} }, ""},
		{"empty basic auth", func(w *waypost.Webhook) { w.BasicAuth = &waypost.BasicAuth{} }, "NullValue basicAuth.username; NullValue basicAuth.password"},
		{"colon in the user name", func(w *waypost.Webhook) { w.BasicAuth = &waypost.BasicAuth{Username: "a:b", Password: "p"} }, "InvalidFormat basicAuth.username"},
		{"line break in the password", func(w *waypost.Webhook) { w.BasicAuth = &waypost.BasicAuth{Username: "a", Password: "p\r\nX: y"} }, "InvalidFormat basicAuth.password"},
		{"rate limit", func(w *waypost.Webhook) { w.RateLimit = &waypost.RateLimit{PerSecond: 0.1, Burst: 1} }, ""},
		{"no rate", func(w *waypost.Webhook) { w.RateLimit = &waypost.RateLimit{} }, "OutOfRange rateLimit.perSecond; OutOfRange rateLimit.burst"},
		{"signing secret", func(w *waypost.Webhook) { w.SigningSecret = "whsec_" + strings.Repeat("AAAA", 8) }, ""},
		{"short signing secret", func(w *waypost.Webhook) { w.SigningSecret = "whsec_AAAA" }, "InvalidFormat signingSecret"},
		{"signing secret of 64 bytes", func(w *waypost.Webhook) { w.SigningSecret = "whsec_" + strings.Repeat("AAAA", 21) + "AA==" }, ""},
		{"long signing secret", func(w *waypost.Webhook) { w.SigningSecret = "whsec_" + strings.Repeat("AAAA", 21) + "AAA=" }, "InvalidFormat signingSecret"},
		{"line break behind the signing secret", func(w *waypost.Webhook) { w.SigningSecret = "whsec_" + strings.Repeat("AAAA", 8) + "\n" }, "InvalidFormat signingSecret"},
		{"signing secret with blanks", func(w *waypost.Webhook) { w.SigningSecret = " whsec_" + strings.Repeat("AAAA", 8) }, "InvalidFormat signingSecret"},
		{"signing secret for web addresses", func(w *waypost.Webhook) { w.SigningSecret = "whsec_" + strings.Repeat("A-_A", 8) }, "InvalidFormat signingSecret"},
		{"signing secret without prefix", func(w *waypost.Webhook) { w.SigningSecret = strings.Repeat("AAAA", 8) }, "InvalidFormat signingSecret"},
		{"no schedule", func(w *waypost.Webhook) { w.Retry.Schedule = nil }, "OutOfRange retry.schedule"},
		{"50 entries", func(w *waypost.Webhook) { w.Retry.Schedule = slices.Repeat([]waypost.Duration{wait(time.Second)}, 50) }, ""},
		{"51 entries", func(w *waypost.Webhook) { w.Retry.Schedule = slices.Repeat([]waypost.Duration{wait(time.Second)}, 51) }, "OutOfRange retry.schedule"},
		{"odd waits", func(w *waypost.Webhook) {
			w.Retry.Schedule = []waypost.Duration{0, wait(time.Millisecond), wait(30 * 24 * time.Hour), wait(30*24*time.Hour + 1)}
		}, "OutOfRange retry.schedule[0]; OutOfRange retry.schedule[3]"},
		{"attempts", func(w *waypost.Webhook) { w.Retry.MaxAttempts = -1 }, "OutOfRange retry.maxAttempts"},
		{"give up at once", func(w *waypost.Webhook) { w.Retry.GiveUpAfter = 0 }, "OutOfRange retry.giveUpAfter"},
		{"never give up", func(w *waypost.Webhook) { w.Retry.GiveUpAfter = wait(91 * 24 * time.Hour) }, "OutOfRange retry.giveUpAfter"},
		{"jitter 0", func(w *waypost.Webhook) { w.Retry.Jitter = 0 }, ""},
		{"jitter 1", func(w *waypost.Webhook) { w.Retry.Jitter = 1 }, ""},
		{"jitter too large", func(w *waypost.Webhook) { w.Retry.Jitter = 1.01 }, "OutOfRange retry.jitter"},
		{"jitter negative", func(w *waypost.Webhook) { w.Retry.Jitter = -0.1 }, "OutOfRange retry.jitter"},
		{"never retry", func(w *waypost.Webhook) { w.Retry.On = nil }, ""},
		{"what to retry on", func(w *waypost.Webhook) { w.Retry.On = []waypost.RetryOn{"network", "timeout", "5xx", "409", "302"} }, ""},
		{"what not to retry on", func(w *waypost.Webhook) {
			w.Retry.On = []waypost.RetryOn{"200", "4xx", "600", "099", "+50", "tls", "5xx", "5xx"}
		},
			"InvalidFormat retry.on[0]; InvalidFormat retry.on[1]; InvalidFormat retry.on[2]; InvalidFormat retry.on[3]; InvalidFormat retry.on[4]; InvalidFormat retry.on[5]; Duplicate retry.on[7]"},
		{"params", func(w *waypost.Webhook) { w.Params = map[string]any{"s": "{{ lead.name }}", "n": 1.5} }, ""},
		{"params that are none", func(w *waypost.Webhook) {
			w.Params = map[string]any{"a": nil, "b": true, "c": []any{}, "d": math.Pow(2, 60), "": "x", "e": strings.Repeat("x", 8193)}
		}, "InvalidFormat params.; NullValue params.a; InvalidType params.b; InvalidType params.c; OutOfRange params.d; TooLong params.e"},
		{"65 params", func(w *waypost.Webhook) { w.Params = params }, "OutOfRange params"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			w := good()
			tc.change(&w)
			if got := detailsOf(t, w.Validate()); got != tc.want {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}
