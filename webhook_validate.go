package waypost

import (
	"encoding/base64"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Bounds of a webhook's members.
const (
	MaxWebhookName  = 128
	maxWebhookURL   = 2048
	maxParams       = 64
	maxParamName    = 64
	maxParamText    = 8192
	maxCredential   = 256
	maxSchedule     = 50
	maxAttempts     = 10_000
	maxRetryOn      = 50
	maxRatePerSec   = 100_000
	maxConcurrency  = 10_000
	minScheduleWait = time.Millisecond
	maxScheduleWait = 30 * 24 * time.Hour
	maxGiveUpAfter  = 90 * 24 * time.Hour
	maxOverlap      = 30 * 24 * time.Hour
)

// Validate reports everything that is wrong with a webhook as one BadRequest
// (docs/contract.md, "Webhook members"). It checks neither whether the URL is allowed
// (package webhook) nor whether templates compile (package journey).
func (w *Webhook) Validate() error {
	var p Problems
	checkRequired(&p, "name", w.Name, MaxWebhookName)
	if strings.TrimSpace(w.URL) == "" {
		p.Add(DetailNullValue, "url", "is missing or blank")
	} else if utf8.RuneCountInString(w.URL) > maxWebhookURL {
		p.Add(DetailTooLong, "url", "must be at most %d characters", maxWebhookURL)
	}
	if w.TimeoutMs < MinTimeoutMs || w.TimeoutMs > MaxTimeoutMs {
		p.Add(DetailOutOfRange, "timeoutMs", "must be %d to %d", MinTimeoutMs, MaxTimeoutMs)
	}
	if w.MaxConcurrency < 0 || w.MaxConcurrency > maxConcurrency {
		p.Add(DetailOutOfRange, "maxConcurrency", "must be 0 (no bound) to %d", maxConcurrency)
	}
	if w.Channel != "" {
		CheckChannel(&p, "channel", w.Channel)
	} else if w.RequiresConsent {
		p.Add(DetailNullValue, "channel", "is missing: requiresConsent needs the channel that leads agree to")
	}
	if b := w.BasicAuth; b != nil {
		b.validate(&p, w.Unreadable.Password != nil)
	}
	if t := w.TLS; t != nil {
		t.validate(&p, w.Unreadable.ClientKey != nil)
		if u, err := url.Parse(w.URL); err == nil && strings.EqualFold(u.Scheme, "http") {
			p.Add(DetailInvalidFormat, "url", "must be https: the webhook has tls")
		}
	}
	if r := w.RateLimit; r != nil {
		if r.PerSecond <= 0 || r.PerSecond > maxRatePerSec {
			p.Add(DetailOutOfRange, "rateLimit.perSecond", "must be more than 0 and at most %d", maxRatePerSec)
		}
		if r.Burst < 1 || r.Burst > maxRatePerSec {
			p.Add(DetailOutOfRange, "rateLimit.burst", "must be 1 to %d", maxRatePerSec)
		}
	}
	if w.SigningSecret != "" && !isSigningSecret(w.SigningSecret) {
		p.Add(DetailInvalidFormat, "signingSecret", "must be whsec_ and 24 to 64 bytes in base64")
	}
	if d := time.Duration(w.SigningOverlap); d < 0 || d > maxOverlap {
		p.Add(DetailOutOfRange, "signingOverlap", "must be 0s (the old secret ends at once) to %s", Duration(maxOverlap))
	}
	w.Retry.validate(&p)
	validateParams(&p, w.Params)
	return p.Err("")
}

func checkRequired(p *Problems, target, s string, limit int) {
	if strings.TrimSpace(s) == "" {
		p.Add(DetailNullValue, target, "is missing or blank")
		return
	}
	checkLine(p, target, &s, limit)
}

// validate does not look for a password that is stored and cannot be read.
func (b *BasicAuth) validate(p *Problems, unreadable bool) {
	checkRequired(p, "basicAuth.username", b.Username, maxCredential)
	if strings.Contains(b.Username, ":") {
		p.Add(DetailInvalidFormat, "basicAuth.username", "must not contain a colon")
	}
	if b.Password != "" || !unreadable {
		checkRequired(p, "basicAuth.password", b.Password, maxCredential)
	}
}

// isSigningSecret knows the form that Standard Webhooks gives secrets.
func isSigningSecret(s string) bool {
	encoded, ok := strings.CutPrefix(s, "whsec_")
	key, err := base64.StdEncoding.DecodeString(encoded)
	// Go's base64 passes over line breaks; others who are given the secret may not.
	return ok && err == nil && len(key) >= 24 && len(key) <= 64 && !strings.ContainsAny(encoded, "\r\n")
}

// validate reports every member out of its bounds, with the bounds.
func (r *Retry) validate(p *Problems) {
	if len(r.Schedule) < 1 || len(r.Schedule) > maxSchedule {
		p.Add(DetailOutOfRange, "retry.schedule", "must have 1 to %d entries", maxSchedule)
	} else {
		for i, d := range r.Schedule {
			if wait := time.Duration(d); wait < minScheduleWait || wait > maxScheduleWait {
				p.Add(DetailOutOfRange, fmt.Sprintf("retry.schedule[%d]", i), "must be %s to %s", Duration(minScheduleWait), Duration(maxScheduleWait))
			}
		}
	}
	if r.MaxAttempts < 0 || r.MaxAttempts > maxAttempts {
		p.Add(DetailOutOfRange, "retry.maxAttempts", "must be 0 (no bound) to %d", maxAttempts)
	}
	if d := time.Duration(r.GiveUpAfter); d < minScheduleWait || d > maxGiveUpAfter {
		p.Add(DetailOutOfRange, "retry.giveUpAfter", "must be %s to %s", Duration(minScheduleWait), Duration(maxGiveUpAfter))
	}
	if r.Jitter < 0 || r.Jitter > 1 {
		p.Add(DetailOutOfRange, "retry.jitter", "must be 0 to 1")
	}
	if len(r.On) > maxRetryOn {
		p.Add(DetailOutOfRange, "retry.on", "must have at most %d entries", maxRetryOn)
		return
	}
	for i, on := range r.On {
		at := fmt.Sprintf("retry.on[%d]", i)
		if !on.isKnown() {
			p.Add(DetailInvalidFormat, at, "must be network, timeout, 5xx or a status such as 429, but not 200")
		} else if slices.Contains(r.On[:i], on) {
			p.Add(DetailDuplicate, at, "stands twice")
		}
	}
}

func (on RetryOn) isKnown() bool {
	if on == RetryOnNetwork || on == RetryOnTimeout || on == RetryOn5xx {
		return true
	}
	status, err := strconv.Atoi(string(on))
	return err == nil && len(on) == 3 && status >= 100 && status <= 599 && status != 200
}

func validateParams(p *Problems, params map[string]any) {
	if len(params) > maxParams {
		p.Add(DetailOutOfRange, "params", "must have at most %d members", maxParams)
		return
	}
	for _, name := range slices.Sorted(maps.Keys(params)) {
		at := join("params", name)
		if !isName(name, maxParamName) {
			p.Add(DetailInvalidFormat, at, "the name must be 1 to %d printable characters", maxParamName)
			continue
		}
		switch v := params[name].(type) {
		case nil:
			p.Add(DetailNullValue, at, "must not be null")
		case string:
			if utf8.RuneCountInString(v) > maxParamText {
				p.Add(DetailTooLong, at, "must be at most %d characters", maxParamText)
			}
		case float64:
			checkNumber(p, at, v)
		default:
			p.Add(DetailInvalidType, at, "must be a string or a number")
		}
	}
}
