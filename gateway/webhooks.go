package gateway

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"waypost"
	"waypost/api"
	"waypost/journey"
)

// Webhooks stores webhook channels.
type Webhooks interface {
	CreateWebhook(ctx context.Context, by waypost.Caller, w waypost.Webhook) (waypost.Webhook, error)
	Webhook(ctx context.Context, sc waypost.Scope, id string) (waypost.Webhook, error)
	ListWebhooks(ctx context.Context, sc waypost.Scope, f waypost.WebhookFilter, page waypost.Page) ([]waypost.Webhook, error)
	UpdateWebhook(ctx context.Context, by waypost.Caller, id string, change func(*waypost.Webhook) error) (waypost.Webhook, error)
	// check sees the webhook as it is, where nobody can change it, and may refuse.
	DeleteWebhook(ctx context.Context, by waypost.Caller, id string, check func(waypost.Webhook) error) error
	// WebhookTraffic returns what waits for a webhook, and how its attempts ended.
	WebhookTraffic(ctx context.Context, sc waypost.Scope, id string) (waypost.WebhookTraffic, error)
	// WebhookHistory returns how attempts ended that began in each of the intervals, hours or
	// days of UTC, from the one that from lies in to the last one that begins before to.
	WebhookHistory(ctx context.Context, sc waypost.Scope, id string, from, to time.Time, every time.Duration) ([]waypost.WebhookInterval, error)
	// AttemptHistory is the sum of WebhookHistory over all webhooks, without percentiles.
	AttemptHistory(ctx context.Context, sc waypost.Scope, from, to time.Time, every time.Duration) ([]waypost.WebhookInterval, error)
	// MissingWebhooks returns those of ids that do not exist.
	MissingWebhooks(ctx context.Context, sc waypost.Scope, ids []string) ([]string, error)
	// WebhookNamesakes returns what another stage has of the names of webhooks, by their ids.
	WebhookNamesakes(ctx context.Context, sc waypost.Scope, stage waypost.Stage, ids []string) (map[string]waypost.Namesake, error)
}

// newWebhookBody holds what members that are not written stand for.
func newWebhookBody() api.WebhookBody {
	return api.WebhookBody{
		TimeoutMs: waypost.DefaultTimeoutMs, Retry: api.RetryBody(waypost.DefaultRetry()), Enabled: true,
		SigningOverlap: waypost.DefaultSigningOverlap,
	}
}

// writtenAs is the body that would make w.
func writtenAs(w waypost.Webhook) api.WebhookBody {
	b := api.WebhookBody{
		Name: w.Name, URL: w.URL, BasicAuth: (*api.BasicAuthBody)(w.BasicAuth), TLS: (*api.TLSBody)(w.TLS), Params: w.Params,
		TimeoutMs: w.TimeoutMs, Retry: api.RetryBody(w.Retry), MaxConcurrency: w.MaxConcurrency, Channel: w.Channel,
		RequiresConsent: w.RequiresConsent, Enabled: w.Enabled,
		SigningSecret: w.SigningSecret, SigningOverlap: w.SigningOverlap,
	}
	if w.RateLimit != nil {
		b.RateLimit = &api.RateLimitBody{PerSecond: w.RateLimit.PerSecond, Burst: &w.RateLimit.Burst}
	}
	return b
}

// applyWebhook sets what the body says at a time.
func applyWebhook(b api.WebhookBody, w *waypost.Webhook, now time.Time) {
	if b.Enabled != w.Enabled {
		w.DisabledReason = ""
	}
	w.Name, w.URL, w.Params, w.TimeoutMs, w.Retry = b.Name, b.URL, b.Params, b.TimeoutMs, waypost.Retry(b.Retry)
	w.MaxConcurrency, w.Enabled, w.SigningOverlap = b.MaxConcurrency, b.Enabled, b.SigningOverlap
	w.Channel, w.RequiresConsent = b.Channel, b.RequiresConsent
	w.SetSigningSecret(b.SigningSecret, now)
	w.BasicAuth, w.TLS, w.RateLimit = (*waypost.BasicAuth)(b.BasicAuth), nil, nil
	if b.TLS != nil && (*b.TLS != (api.TLSBody{}) || w.Unreadable.ClientKey != nil) {
		w.TLS = (*waypost.TLS)(b.TLS)
	}
	if l := b.RateLimit; l != nil {
		w.RateLimit = &waypost.RateLimit{PerSecond: l.PerSecond, Burst: int(max(1, math.Ceil(min(l.PerSecond, math.MaxInt32))))}
		if l.Burst != nil {
			w.RateLimit.Burst = *l.Burst
		}
	}
}

// shown is a webhook with what depends on the keys of the process, and on the time. The ETag is of the rest.
func (a *server) shown(w waypost.Webhook) api.Webhook {
	ans := answerWebhook(w)
	ans.UnreadableSecrets = []api.SecretMember{}
	for _, member := range w.UnreadableAt(a.Now()).Members() {
		ans.UnreadableSecrets = append(ans.UnreadableSecrets, api.SecretMember(member))
	}
	return ans
}

func (a *server) webhookResource(status int, location string, w waypost.Webhook) (answer, error) {
	ans, err := resource(status, location, answerWebhook(w))
	ans.body = a.shown(w)
	return ans, err
}

func answerTLS(t waypost.TLS, unreadable bool) *api.TLS {
	return &api.TLS{
		CACertificate: api.TextOrNull(t.CACertificate), ClientCertificate: api.TextOrNull(t.ClientCertificate),
		ClientKeySet: t.ClientKey != "" || unreadable, ClientCertificateNotAfter: api.AtOrNull(t.ClientNotAfter()),
	}
}

// answerWebhook is a webhook as it is answered, but for its unreadable secrets.
func answerWebhook(w waypost.Webhook) api.Webhook {
	ans := api.Webhook{
		ID: w.ID, Name: w.Name, URL: w.URL, Params: w.Params, TimeoutMs: w.TimeoutMs, Retry: w.Retry,
		RateLimit: w.RateLimit, MaxConcurrency: w.MaxConcurrency, Channel: api.TextOrNull(w.Channel), RequiresConsent: w.RequiresConsent,
		Enabled: w.Enabled, DisabledReason: api.TextOrNull(w.DisabledReason),
		SigningSecretSet: w.SigningSecret != "" || w.Unreadable.SigningSecret != nil, SigningOverlap: w.SigningOverlap,
		// It stays where it is when it has passed, so that the ETag changes with the webhook alone.
		PreviousSigningSecretUntil: api.AtOrNull(w.PreviousSigningUntil()),
		CreatedAt:                  api.At(w.CreatedAt), UpdatedAt: api.At(w.UpdatedAt),
	}
	if w.BasicAuth != nil {
		ans.BasicAuth = &api.BasicAuth{Username: w.BasicAuth.Username, PasswordSet: w.BasicAuth.Password != "" || w.Unreadable.Password != nil}
	}
	if w.TLS != nil {
		ans.TLS = answerTLS(*w.TLS, w.Unreadable.ClientKey != nil)
	}
	if ans.Params == nil {
		ans.Params = api.Params{}
	}
	if ans.Retry.On == nil {
		ans.Retry.On = []waypost.RetryOn{}
	}
	return ans
}

func (a *server) createWebhook(ctx context.Context, r *request) (answer, error) {
	var w waypost.Webhook
	if err := a.readWebhook(r.body, &w); err != nil {
		return answer{}, err
	}
	return effect(ctx, r, func(ctx context.Context) (waypost.Webhook, error) {
		return a.Webhooks.CreateWebhook(ctx, r.by(), w)
	}, func(w waypost.Webhook) (answer, error) {
		return a.webhookResource(http.StatusCreated, "/v1/webhooks/"+w.ID, w)
	})
}

// readWebhook reads and checks a document, and sets what it says. more adds what else is wrong with it.
func (a *server) readWebhook(document []byte, w *waypost.Webhook, more ...func(*waypost.Problems)) error {
	body := newWebhookBody()
	return checked(waypost.DecodeJSON(document, &body), func(p *waypost.Problems) {
		applyWebhook(body, w, a.Now())
		p.AddAll(w.Validate())
		if strings.TrimSpace(w.URL) != "" {
			p.AddAll(a.CheckURL(w.URL))
		}
		for _, check := range more {
			check(p)
		}
		for _, name := range slices.Sorted(maps.Keys(w.Params)) {
			if template, isText := w.Params[name].(string); isText {
				if err := journey.CheckTemplate(template); err != nil {
					p.Add(waypost.DetailInvalidFormat, "params."+name, "is not a valid template: %s", err)
				}
			}
		}
	})
}

func (a *server) listWebhooks(ctx context.Context, r *request) (answer, error) {
	filter := waypost.WebhookFilter{Name: r.short("name", waypost.MaxWebhookName)}
	if _, given := r.params["enabled"]; given {
		enabled := r.boolean("enabled")
		filter.Enabled = &enabled
	}
	return answerPage(r, func(page waypost.Page) ([]waypost.Webhook, error) {
		return a.Webhooks.ListWebhooks(ctx, r.scope, filter, page)
	}, func(w waypost.Webhook) string { return w.ID }, a.shown)
}

func (a *server) showWebhook(ctx context.Context, r *request) (answer, error) {
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
func (a *server) patchWebhook(ctx context.Context, r *request) (answer, error) {
	var shape api.WebhookPatchBody
	if err := decode(r, &shape); err != nil {
		return answer{}, err
	}
	patch, err := readPatch(r.body)
	if err != nil {
		return answer{}, err
	}
	w, err := a.Webhooks.UpdateWebhook(ctx, r.by(), r.param("id"), func(w *waypost.Webhook) error {
		before := *w
		document, err := merged(writtenAs(*w), patch)
		if err != nil {
			return err
		}
		setAgain(w, patch)
		err = a.readWebhook(document, w, func(p *waypost.Problems) { checkPasswordGoesAlong(p, before, *w, patch) })
		if err != nil {
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

// checkPasswordGoesAlong refuses to send the stored password to another server: whoever may change a webhook
// could read it there, and no answer tells it. The password has to be given again.
func checkPasswordGoesAlong(p *waypost.Problems, before, after waypost.Webhook, patch map[string]any) {
	auth, _ := patch["basicAuth"].(map[string]any)
	if _, written := auth["password"]; written || before.BasicAuth == nil || after.BasicAuth == nil || serverOf(before.URL) == serverOf(after.URL) {
		return
	}
	if before.BasicAuth.Password != "" || before.Unreadable.Password != nil {
		p.Add(waypost.DetailNullValue, "basicAuth.password", "must be given again where url names another scheme, host or port: the one that is stored is for %s", serverOf(before.URL))
	}
}

// serverOf is the scheme, the host and the port that requests to a URL that was checked go to: hosts that
// look alike in another script are not the same.
func serverOf(address string) string {
	u, err := url.Parse((&waypost.Webhook{URL: address}).SentURL())
	if err != nil {
		return ""
	}
	port := cmp.Or(u.Port(), map[string]string{"http": "80", "https": "443"}[u.Scheme])
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// setAgain takes the secrets that a patch sets or clears out of w.Unreadable.
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

// checkPatch reports what is wrong with a patch of a webhook that does not exist: faults
// come before NotFound. A certificate or a key alone is no fault: a webhook may have the
// other one.
func (a *server) checkPatch(patch map[string]any) error {
	sample := newWebhookBody()
	sample.Name, sample.URL = "sample", "https://example.com/"
	sample.BasicAuth = &api.BasicAuthBody{Username: "sample", Password: "sample"}
	sample.RateLimit = &api.RateLimitBody{PerSecond: 1}
	document, err := merged(sample, patch)
	if err != nil {
		return err
	}
	err = a.readWebhook(document, &waypost.Webhook{})
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

// readPatch reads a merge patch whose shape is checked.
func readPatch(body []byte) (patch map[string]any, err error) {
	if err = json.Unmarshal(body, &patch); err != nil {
		err = fmt.Errorf("read patch: %w", err)
	}
	return patch, err
}

// merged is the document of a body after a merge patch.
func merged(body any, patch map[string]any) ([]byte, error) {
	before, err := json.Marshal(body)
	if err != nil {
		return nil, fmt.Errorf("write a %T: %w", body, err)
	}
	var doc map[string]any
	if err := json.Unmarshal(before, &doc); err != nil {
		return nil, fmt.Errorf("read a %T: %w", body, err)
	}
	after, err := json.Marshal(merge(doc, patch))
	if err != nil {
		return nil, fmt.Errorf("write a merged %T: %w", body, err)
	}
	return after, nil
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

func (a *server) deleteWebhook(ctx context.Context, r *request) (answer, error) {
	return noContent(a.Webhooks.DeleteWebhook(ctx, r.by(), r.param("id"), r.matchWebhook))
}
