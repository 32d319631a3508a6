package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/journey"
)

// Webhooks stores webhook channels.
type Webhooks interface {
	CreateWebhook(ctx context.Context, sc waypost.Scope, w waypost.Webhook) (waypost.Webhook, error)
	Webhook(ctx context.Context, sc waypost.Scope, id string) (waypost.Webhook, error)
	ListWebhooks(ctx context.Context, sc waypost.Scope, page waypost.Page) ([]waypost.Webhook, error)
	UpdateWebhook(ctx context.Context, sc waypost.Scope, id string, change func(*waypost.Webhook) error) (waypost.Webhook, error)
	// check sees the webhook as it is, where nobody can change it, and may refuse.
	DeleteWebhook(ctx context.Context, sc waypost.Scope, id string, check func(waypost.Webhook) error) error
	// WebhookTraffic returns what waits for a webhook, and how its attempts ended.
	WebhookTraffic(ctx context.Context, sc waypost.Scope, id string) (waypost.WebhookTraffic, error)
	// MissingWebhooks returns those of ids that do not exist.
	MissingWebhooks(ctx context.Context, sc waypost.Scope, ids []string) ([]string, error)
}

// webhookBody is a webhook as a client writes it.
type webhookBody struct {
	Name           string         `json:"name"`
	URL            string         `json:"url"`
	BasicAuth      *basicAuthBody `json:"basicAuth,omitempty"`
	TLS            *tlsBody       `json:"tls,omitempty"`
	Params         map[string]any `json:"params"`
	TimeoutMs      int            `json:"timeoutMs"`
	Retry          waypost.Retry  `json:"retry"`
	RateLimit      *rateLimitBody `json:"rateLimit,omitempty"`
	MaxConcurrency int            `json:"maxConcurrency"`
	Enabled        bool           `json:"enabled"`
	SigningSecret  string         `json:"signingSecret"`
	// SigningOverlap is how long a secret that is replaced goes on signing.
	SigningOverlap waypost.Duration `json:"signingOverlap"`
}

type basicAuthBody struct {
	Username string `json:"username"`
	Password string `json:"password"`
}

type tlsBody struct {
	CACertificate     string `json:"caCertificate"`
	ClientCertificate string `json:"clientCertificate"`
	ClientKey         string `json:"clientKey"`
}

type rateLimitBody struct {
	PerSecond float64 `json:"perSecond"`
	Burst     *int    `json:"burst"`
}

// newWebhookBody holds what members that are not written stand for.
func newWebhookBody() webhookBody {
	return webhookBody{TimeoutMs: waypost.DefaultTimeoutMs, Retry: waypost.DefaultRetry(), Enabled: true, SigningOverlap: waypost.DefaultSigningOverlap}
}

// writtenAs is the body that would make w.
func writtenAs(w waypost.Webhook) webhookBody {
	b := webhookBody{
		Name: w.Name, URL: w.URL, Params: w.Params, TimeoutMs: w.TimeoutMs, Retry: w.Retry,
		MaxConcurrency: w.MaxConcurrency, Enabled: w.Enabled, SigningSecret: w.SigningSecret, SigningOverlap: w.SigningOverlap,
	}
	if w.BasicAuth != nil {
		b.BasicAuth = &basicAuthBody{w.BasicAuth.Username, w.BasicAuth.Password}
	}
	if w.TLS != nil {
		b.TLS = &tlsBody{w.TLS.CACertificate, w.TLS.ClientCertificate, w.TLS.ClientKey}
	}
	if w.RateLimit != nil {
		b.RateLimit = &rateLimitBody{w.RateLimit.PerSecond, &w.RateLimit.Burst}
	}
	return b
}

// apply sets what the body says at a time.
func (b webhookBody) apply(w *waypost.Webhook, now time.Time) {
	if b.Enabled != w.Enabled {
		w.DisabledReason = ""
	}
	w.Name, w.URL, w.Params, w.TimeoutMs, w.Retry = b.Name, b.URL, b.Params, b.TimeoutMs, b.Retry
	w.MaxConcurrency, w.Enabled, w.SigningOverlap = b.MaxConcurrency, b.Enabled, b.SigningOverlap
	w.SetSigningSecret(b.SigningSecret, now)
	w.BasicAuth, w.TLS, w.RateLimit = nil, nil, nil
	if b.BasicAuth != nil {
		w.BasicAuth = &waypost.BasicAuth{Username: b.BasicAuth.Username, Password: b.BasicAuth.Password}
	}
	if b.TLS != nil && (*b.TLS != (tlsBody{}) || w.Unreadable.ClientKey != nil) {
		w.TLS = &waypost.TLS{CACertificate: b.TLS.CACertificate, ClientCertificate: b.TLS.ClientCertificate, ClientKey: b.TLS.ClientKey}
	}
	if l := b.RateLimit; l != nil {
		w.RateLimit = &waypost.RateLimit{PerSecond: l.PerSecond, Burst: int(max(1, math.Ceil(min(l.PerSecond, math.MaxInt32))))}
		if l.Burst != nil {
			w.RateLimit.Burst = *l.Burst
		}
	}
}

// webhookAnswer is a webhook as it is answered: without its secrets.
type webhookAnswer struct {
	ID               string             `json:"id"`
	Name             string             `json:"name"`
	URL              string             `json:"url"`
	BasicAuth        *basicAuthAnswer   `json:"basicAuth"`
	TLS              *tlsAnswer         `json:"tls"`
	Params           map[string]any     `json:"params"`
	TimeoutMs        int                `json:"timeoutMs"`
	Retry            waypost.Retry      `json:"retry"`
	RateLimit        *waypost.RateLimit `json:"rateLimit"`
	MaxConcurrency   int                `json:"maxConcurrency"`
	Enabled          bool               `json:"enabled"`
	DisabledReason   *string            `json:"disabledReason"`
	SigningSecretSet bool               `json:"signingSecretSet"`
	SigningOverlap   waypost.Duration   `json:"signingOverlap"`
	// PreviousSigningSecretUntil stays where it is when it has passed, so that the
	// ETag changes with the webhook alone.
	PreviousSigningSecretUntil *string `json:"previousSigningSecretUntil"`
	CreatedAt                  string  `json:"createdAt"`
	UpdatedAt                  string  `json:"updatedAt"`
}

// shownWebhook is a webhook with what depends on the process that shows it, and on the
// time. The ETag is of the rest.
type shownWebhook struct {
	webhookAnswer
	// UnreadableSecrets names the members that hold back what is to be sent until they are
	// set again, or the key is back that they were encrypted with.
	UnreadableSecrets []string `json:"unreadableSecrets"`
}

func (a *api) shown(w waypost.Webhook) shownWebhook {
	return shownWebhook{answerWebhook(w), w.UnreadableAt(a.Now()).Members()}
}

func (a *api) webhookResource(status int, location string, w waypost.Webhook) (answer, error) {
	ans, err := resource(status, location, answerWebhook(w))
	ans.body = a.shown(w)
	return ans, err
}

type basicAuthAnswer struct {
	Username    string `json:"username"`
	PasswordSet bool   `json:"passwordSet"`
}

type tlsAnswer struct {
	CACertificate             *string `json:"caCertificate"`
	ClientCertificate         *string `json:"clientCertificate"`
	ClientKeySet              bool    `json:"clientKeySet"`
	ClientCertificateNotAfter *string `json:"clientCertificateNotAfter"`
}

func answerTLS(t waypost.TLS, unreadable bool) *tlsAnswer {
	ans := &tlsAnswer{CACertificate: orNull(t.CACertificate), ClientCertificate: orNull(t.ClientCertificate), ClientKeySet: t.ClientKey != "" || unreadable}
	if until := t.ClientNotAfter(); !until.IsZero() {
		ans.ClientCertificateNotAfter = orNull(stamp(until))
	}
	return ans
}

func answerWebhook(w waypost.Webhook) webhookAnswer {
	ans := webhookAnswer{
		ID: w.ID, Name: w.Name, URL: w.URL, Params: w.Params, TimeoutMs: w.TimeoutMs, Retry: w.Retry,
		RateLimit: w.RateLimit, MaxConcurrency: w.MaxConcurrency, Enabled: w.Enabled, DisabledReason: orNull(w.DisabledReason),
		SigningSecretSet: w.SigningSecret != "" || w.Unreadable.SigningSecret != nil, SigningOverlap: w.SigningOverlap,
		CreatedAt: stamp(w.CreatedAt), UpdatedAt: stamp(w.UpdatedAt),
	}
	if w.BasicAuth != nil {
		ans.BasicAuth = &basicAuthAnswer{w.BasicAuth.Username, w.BasicAuth.Password != "" || w.Unreadable.Password != nil}
	}
	if w.TLS != nil {
		ans.TLS = answerTLS(*w.TLS, w.Unreadable.ClientKey != nil)
	}
	if until := w.PreviousSigningUntil(); !until.IsZero() {
		ans.PreviousSigningSecretUntil = orNull(stamp(until))
	}
	if ans.Params == nil {
		ans.Params = map[string]any{}
	}
	if ans.Retry.On == nil {
		ans.Retry.On = []string{}
	}
	return ans
}

func (a *api) createWebhook(ctx context.Context, r *request) (answer, error) {
	body := newWebhookBody()
	problems := waypost.DecodeJSON(r.body, &body)
	if noDocument(problems) {
		return answer{}, problems.Err("")
	}
	var w waypost.Webhook
	body.apply(&w, a.Now())
	if err := a.checkWebhook(problems, w); err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Webhook, error) {
		return a.Webhooks.CreateWebhook(ctx, r.scope, w)
	}, func(w waypost.Webhook) (answer, error) {
		return a.webhookResource(http.StatusCreated, "/v1/webhooks/"+w.ID, w)
	})
}

// checkWebhook adds everything that is wrong with w to what was wrong with its
// body.
func (a *api) checkWebhook(problems waypost.Problems, w waypost.Webhook) error {
	found := []error{w.Validate()}
	if strings.TrimSpace(w.URL) != "" {
		found = append(found, a.CheckURL(w.URL))
	}
	body := problems
	for _, err := range found {
		var invalid *waypost.Error
		if err != nil && !errors.As(err, &invalid) {
			return err
		}
		if invalid != nil {
			problems = append(problems, withoutTargets(invalid.Details, body)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(w.Params)) {
		if template, isText := w.Params[name].(string); isText {
			if err := journey.CheckTemplate(template); err != nil {
				problems.Add(waypost.DetailInvalidFormat, "params."+name, "is not a valid template: %s", err)
			}
		}
	}
	return problems.Err("")
}

func (a *api) listWebhooks(ctx context.Context, r *request) (answer, error) {
	var p waypost.Problems
	page := r.page(&p)
	if err := p.Err("query"); err != nil {
		return answer{}, err
	}
	rows, err := a.Webhooks.ListWebhooks(ctx, r.scope, oneMore(page))
	if err != nil {
		return answer{}, err
	}
	return ok(listOf(r, page.Limit, rows, func(w waypost.Webhook) string { return w.ID }, a.shown))
}

func (a *api) showWebhook(ctx context.Context, r *request) (answer, error) {
	w, err := a.Webhooks.Webhook(ctx, r.scope, r.param("id"))
	if err != nil {
		return answer{}, err
	}
	return a.webhookResource(http.StatusOK, "", w)
}

// matchWebhook compares If-Match with a webhook.
func (r *request) matchWebhook(w waypost.Webhook) error { return r.checkMatch(answerWebhook(w)) }

// patchWebhook merges the body into the webhook (RFC 7396): absent members stay,
// null stands for the default.
func (a *api) patchWebhook(ctx context.Context, r *request) (answer, error) {
	var shape webhookBody
	if err := decode(r, &shape); err != nil {
		return answer{}, err
	}
	var patch map[string]any
	if err := json.Unmarshal(r.body, &patch); err != nil {
		return answer{}, fmt.Errorf("read patch: %w", err)
	}
	w, err := a.Webhooks.UpdateWebhook(ctx, r.scope, r.param("id"), func(w *waypost.Webhook) error {
		before := *w
		body, problems, err := merged(writtenAs(*w), patch)
		if err != nil {
			return err
		}
		setAgain(w, patch)
		body.apply(w, a.Now())
		if err := a.checkWebhook(problems, *w); err != nil {
			return err
		}
		return r.matchWebhook(before)
	})
	if waypost.CodeOf(err) == waypost.CodeNotFound {
		return answer{}, cmp.Or(a.checkPatch(patch), err)
	}
	if err != nil {
		return answer{}, err
	}
	if w.Enabled {
		a.Waker.Wake() // what was held back for the webhook may go out now
	}
	return a.webhookResource(http.StatusOK, "", w)
}

// setAgain takes the secrets that a patch writes out of those that cannot be read: what
// it says of them holds, be it that there is none.
func setAgain(w *waypost.Webhook, patch map[string]any) {
	auth, _ := patch["basicAuth"].(map[string]any)
	if _, written := auth["password"]; written {
		w.Unreadable.Password = nil
	}
	setting, _ := patch["tls"].(map[string]any)
	// Nobody can tell whether a key that cannot be read belongs to a new certificate.
	certificate, _ := setting["clientCertificate"].(string)
	if _, written := setting["clientKey"]; written || certificate != "" {
		w.Unreadable.ClientKey = nil
	}
	if _, written := patch["signingSecret"]; written && w.Unreadable.SigningSecret != nil {
		// There is none to sign beside the new one.
		w.PreviousSigningSecret, w.SigningRotatedAt = "", time.Time{}
		w.Unreadable.SigningSecret, w.Unreadable.PreviousSigningSecret = nil, nil
	}
}

// checkPatch reports what is wrong with a patch whatever it is applied to: faults
// come before what does not exist. Half of a certificate and its key is no fault: the
// other half may be there.
func (a *api) checkPatch(patch map[string]any) error {
	sample := newWebhookBody()
	sample.Name, sample.URL = "sample", "https://example.com/"
	sample.BasicAuth = &basicAuthBody{Username: "sample", Password: "sample"}
	sample.RateLimit = &rateLimitBody{PerSecond: 1}
	body, problems, err := merged(sample, patch)
	if err != nil {
		return err
	}
	var w waypost.Webhook
	body.apply(&w, a.Now())
	err = a.checkWebhook(problems, w)
	var invalid *waypost.Error
	if setting, _ := patch["tls"].(map[string]any); errors.As(err, &invalid) && setting != nil {
		found := waypost.Problems(slices.DeleteFunc(invalid.Details, func(d waypost.Detail) bool {
			half, isTLS := strings.CutPrefix(d.Target, "tls.")
			_, written := setting[half]
			return d.Code == waypost.DetailNullValue && isTLS && !written
		}))
		return found.Err("")
	}
	return err
}

// merged applies a merge patch to a body.
func merged(body webhookBody, patch map[string]any) (webhookBody, waypost.Problems, error) {
	before, err := json.Marshal(body)
	if err != nil {
		return body, nil, fmt.Errorf("write webhook: %w", err)
	}
	var doc map[string]any
	if err := json.Unmarshal(before, &doc); err != nil {
		return body, nil, fmt.Errorf("read webhook: %w", err)
	}
	after, err := json.Marshal(merge(doc, patch))
	if err != nil {
		return body, nil, fmt.Errorf("write merged webhook: %w", err)
	}
	body = newWebhookBody()
	problems := waypost.DecodeJSON(after, &body)
	return body, problems, nil
}

// merge is JSON Merge Patch (RFC 7396) for an object.
func merge(target, patch map[string]any) map[string]any {
	if target == nil {
		target = map[string]any{}
	}
	for name, value := range patch {
		switch v := value.(type) {
		case nil:
			delete(target, name)
		case map[string]any:
			inner, _ := target[name].(map[string]any)
			target[name] = merge(inner, v)
		default:
			target[name] = v
		}
	}
	return target
}

func (a *api) deleteWebhook(ctx context.Context, r *request) (answer, error) {
	if err := a.Webhooks.DeleteWebhook(ctx, r.scope, r.param("id"), r.matchWebhook); err != nil {
		return answer{}, err
	}
	return noContent()
}
