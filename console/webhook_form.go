package console

import (
	"cmp"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"waypost"
	"waypost/api"
)

// webhookForm is the data of the page on which a webhook is written.
type webhookForm struct {
	ID       string // "" of a new one
	ETag     string
	Sections []section
	On       []choice // what is retried
	Params   pairs
	General  string // what is wrong with none of the fields
	Sign     bool   // a new one gets a secret
	Consent  bool   // it requires consent
}

// section is a part of a form.
type section struct {
	Name, Title, Hint string
	Fields            []field
	Folds             bool // it is shown when it is asked for, or has something
}

// Open tells whether a field of it has a value, or something is wrong with one.
func (s section) Open() bool {
	return slices.ContainsFunc(s.Fields, func(f field) bool { return f.Value != "" || f.Fault != "" })
}

type choice struct {
	Value, Label string
	Chosen       bool
}

// retryOn are the failures that the form offers; others are written beside them.
var retryOn = []waypost.RetryOn{waypost.RetryOnNetwork, waypost.RetryOnTimeout, waypost.RetryOn5xx, "408", "425", "429"}

// formOf are the values of a webhook as its form has them.
func formOf(w api.Webhook) url.Values {
	form := url.Values{}
	set := func(name, value string) { form.Set(name, value) }
	set("name", w.Name)
	set("url", w.URL)
	set("timeoutMs", strconv.Itoa(w.TimeoutMs))
	if w.BasicAuth != nil {
		set("basicAuth.username", w.BasicAuth.Username)
	}
	var waits []string
	for _, wait := range w.Retry.Schedule {
		waits = append(waits, wait.String())
	}
	set("retry.schedule", strings.Join(waits, " "))
	if w.Retry.MaxAttempts > 0 {
		set("retry.maxAttempts", strconv.Itoa(w.Retry.MaxAttempts))
	}
	set("retry.giveUpAfter", w.Retry.GiveUpAfter.String())
	set("retry.jitter", strconv.FormatFloat(w.Retry.Jitter, 'f', -1, 64))
	for _, on := range w.Retry.On {
		if slices.Contains(retryOn, on) {
			form.Add("retry.on", string(on))
		} else {
			set("retry.onOther", strings.TrimSpace(form.Get("retry.onOther")+" "+string(on)))
		}
	}
	if w.Retry.OnSucceedFalse {
		set("retry.onSucceedFalse", "yes")
	}
	if w.RateLimit != nil {
		set("rateLimit.perSecond", strconv.FormatFloat(w.RateLimit.PerSecond, 'f', -1, 64))
		set("rateLimit.burst", strconv.Itoa(w.RateLimit.Burst))
	}
	if w.MaxConcurrency > 0 {
		set("maxConcurrency", strconv.Itoa(w.MaxConcurrency))
	}
	set("channel", string(w.Channel))
	if w.RequiresConsent {
		set("requiresConsent", "yes")
	}
	if w.TLS != nil {
		set("tls.caCertificate", string(w.TLS.CACertificate))
		set("tls.clientCertificate", string(w.TLS.ClientCertificate))
	}
	set("signingOverlap", w.SigningOverlap.String())
	return form
}

// newForm makes the form of its values. w is the webhook that is changed, nil for a new one.
func (v *visit) newForm(form url.Values, w *api.Webhook, params pairs, faults map[string]string) webhookForm {
	input := func(name string, f field) field {
		f.Name, f.Label, f.Value, f.Fault = name, v.t("webhook.field."+name), form.Get(name), faultOf(faults, name)
		if f.Type == "" {
			f.Type = "text"
		}
		return f
	}
	kept := ""
	if w != nil && w.BasicAuth != nil && w.BasicAuth.PasswordSet {
		kept = v.t("webhook.kept")
	}
	keyKept := ""
	if w != nil && w.TLS != nil && w.TLS.ClientKeySet {
		keyKept = v.t("webhook.kept")
	}
	p := webhookForm{Params: params.mark(faults).withSpare()}
	p.Params.Label, p.Params.Hint = v.t("webhook.field.params"), v.t("webhook.paramsHint")
	p.Params.Kinds = options(v, "pairs.", []string{"text", "number"})
	p.Sections = []section{
		{Name: "basics", Fields: []field{
			input("name", field{Required: true}),
			input("url", field{Type: "url", Required: true, Hint: v.t("webhook.urlHint")}),
		}},
		{Name: "auth", Title: v.t("webhook.auth"), Hint: v.t("webhook.authHint"), Fields: []field{
			input("basicAuth.username", field{Complete: "off"}),
			input("basicAuth.password", field{Type: "password", Complete: "new-password", Hint: kept}),
		}},
		{Name: "limits", Title: v.t("webhook.limits"), Hint: v.t("webhook.limitsHint"), Fields: []field{
			input("timeoutMs", field{Type: "number", Hint: v.t("webhook.timeoutHint")}),
			input("maxConcurrency", field{Type: "number", Hint: v.t("webhook.concurrencyHint")}),
			input("rateLimit.perSecond", field{Hint: v.t("webhook.rateHint")}),
			input("rateLimit.burst", field{Type: "number", Hint: v.t("webhook.burstHint")}),
		}},
		{Name: "retries", Title: v.t("webhook.retries"), Hint: v.t("webhook.retriesHint"), Fields: []field{
			input("retry.schedule", field{Hint: v.t("webhook.scheduleHint")}),
			input("retry.giveUpAfter", field{Hint: v.t("webhook.giveUpHint")}),
			input("retry.maxAttempts", field{Type: "number", Hint: v.t("webhook.attemptsHint")}),
			input("retry.jitter", field{Hint: v.t("webhook.jitterHint")}),
			input("retry.onOther", field{Hint: v.t("webhook.onHint")}),
		}},
		{Name: "tls", Folds: true, Title: v.t("webhook.tls"), Hint: v.t("webhook.tlsHint"), Fields: []field{
			input("tls.caCertificate", field{Type: "area"}),
			input("tls.clientCertificate", field{Type: "area"}),
			input("tls.clientKey", field{Type: "area", Hint: keyKept}),
		}},
		{Name: "signing", Title: v.t("webhook.signing"), Hint: v.t("webhook.signingHint"), Fields: []field{
			input("signingOverlap", field{Hint: v.t("webhook.overlapHint")}),
		}},
		{Name: "consent", Title: v.t("webhook.consent"), Hint: v.t("webhook.consentHint"), Fields: []field{
			input("channel", field{Complete: "off", Hint: v.t("webhook.channelHint")}),
		}},
	}
	for i := range p.Sections[3].Fields { // the fault of what is retried stands at the others of it
		if f := &p.Sections[3].Fields[i]; f.Name == "retry.onOther" {
			f.Fault = cmp.Or(f.Fault, faultOf(faults, "retry.on"))
		}
	}
	for _, known := range retryOn {
		on := string(known)
		p.On = append(p.On, choice{on, v.t("webhook.on." + on), slices.Contains(form["retry.on"], on)})
	}
	p.Sign, p.Consent = form.Has("sign"), form.Has("requiresConsent")
	return p
}

// renderWebhookForm shows the form. Whether "succeed": false is retried is a choice in the list of
// failures that are retried.
func (v *visit) renderWebhookForm(p webhookForm, form url.Values, title string, back *link) error {
	p.On = append(p.On, choice{"succeedFalse", v.t("webhook.on.succeedFalse"), form.Has("retry.onSucceedFalse") || slices.Contains(form["retry.on"], "succeedFalse")})
	return v.render(page{Name: "webhook_form", Title: title, Place: "webhooks", Back: back, Status: v.formStatus(), Scripts: []string{"pairs.js"}, Data: p})
}

func (v *visit) newWebhook() error {
	form := formOf(api.Webhook{
		Retry: waypost.DefaultRetry(), TimeoutMs: waypost.DefaultTimeoutMs, SigningOverlap: waypost.DefaultSigningOverlap,
	})
	return v.renderWebhookForm(v.newForm(form, nil, newPairs("params", nil), nil), form, v.t("webhook.new"), &link{Path: "/webhooks", Text: v.t("webhooks.title")})
}

func (v *visit) editWebhook() error {
	w, etag, err := v.gateway.webhook(v.r.Context(), v.r.PathValue("id"))
	if err != nil {
		return err
	}
	form := formOf(w)
	p := v.newForm(form, &w, newPairs("params", w.Params), nil)
	p.ID, p.ETag = w.ID, etag
	return v.renderWebhookForm(p, form, v.t("webhook.edit"), &link{Path: "/webhooks/" + w.ID, Text: w.Name})
}

// webhookBody is the webhook that the form describes. Numbers that are none are sent as texts: the
// gateway says what is wrong with them.
func webhookBody(form url.Values, before *api.Webhook) (body map[string]any, params pairs) {
	text := func(name string) string { return strings.TrimSpace(form.Get(name)) }
	orNull := func(name string) any {
		if value := text(name); value != "" {
			return value
		}
		return nil
	}
	numberOr := func(name string) any {
		value := text(name)
		if n, err := strconv.ParseFloat(value, 64); err == nil {
			return n
		}
		return orNull(name)
	}
	retry := map[string]any{
		"schedule": strings.FieldsFunc(form.Get("retry.schedule"), func(r rune) bool { return r == ' ' || r == ',' || r == '，' || r == '、' }), "maxAttempts": numberOr("retry.maxAttempts"),
		"giveUpAfter": orNull("retry.giveUpAfter"), "jitter": numberOr("retry.jitter"), "onSucceedFalse": slices.Contains(form["retry.on"], "succeedFalse"),
	}
	on := slices.DeleteFunc(slices.Clone(form["retry.on"]), func(s string) bool { return s == "succeedFalse" })
	retry["on"] = append(append([]string{}, on...), strings.Fields(strings.ReplaceAll(form.Get("retry.onOther"), ",", " "))...)
	params = pairsOf("params", form)
	object := params.object()
	if before != nil {
		object = merging(object, before.Params)
	}
	body = map[string]any{
		"name": text("name"), "url": text("url"), "timeoutMs": numberOr("timeoutMs"), "maxConcurrency": numberOr("maxConcurrency"),
		"retry": retry, "params": object, "signingOverlap": orNull("signingOverlap"), "basicAuth": nil, "rateLimit": nil, "tls": nil,
		"channel": orNull("channel"), "requiresConsent": form.Has("requiresConsent"),
	}
	if text("basicAuth.username") != "" || form.Get("basicAuth.password") != "" {
		auth := map[string]any{"username": text("basicAuth.username")}
		if password := form.Get("basicAuth.password"); password != "" {
			auth["password"] = password
		}
		body["basicAuth"] = auth
	}
	if text("rateLimit.perSecond") != "" || text("rateLimit.burst") != "" {
		body["rateLimit"] = map[string]any{"perSecond": numberOr("rateLimit.perSecond"), "burst": numberOr("rateLimit.burst")}
	}
	if text("tls.caCertificate") != "" || text("tls.clientCertificate") != "" || text("tls.clientKey") != "" {
		setting := map[string]any{"caCertificate": orNull("tls.caCertificate"), "clientCertificate": orNull("tls.clientCertificate")}
		if key := text("tls.clientKey"); key != "" || text("tls.clientCertificate") == "" {
			setting["clientKey"] = orNull("tls.clientKey")
		}
		body["tls"] = setting
	}
	return body, params
}

// withoutNull is a body for a creation, where what is absent is the default.
func withoutNull(body map[string]any) map[string]any {
	for name, value := range body {
		if inner, isObject := value.(map[string]any); isObject {
			withoutNull(inner)
		}
		if value == nil {
			delete(body, name)
		}
	}
	return body
}

func (v *visit) createWebhook() error {
	form := v.r.PostForm
	body, params := webhookBody(form, nil)
	secret := ""
	if form.Has("sign") {
		secret = newSecret()
		body["signingSecret"] = secret
	}
	made, err := v.gateway.createWebhook(v.r.Context(), withoutNull(body))
	if err == nil {
		if secret == "" {
			v.flash("ok", v.t("webhook.created"))
			return v.redirect("/webhooks/"+made.ID, nil)
		}
		return v.showWebhook(made.ID, secret, nil)
	}
	faults, general, err := faultsOf(err)
	if err != nil {
		return err
	}
	p := v.newForm(form, nil, params, faults)
	p.General = general
	return v.renderWebhookForm(p, form, v.t("webhook.new"), &link{Path: "/webhooks", Text: v.t("webhooks.title")})
}

func (v *visit) saveWebhook() error {
	ctx, id, form := v.r.Context(), v.r.PathValue("id"), v.r.PostForm
	w, _, err := v.gateway.webhook(ctx, id)
	if err != nil {
		return err
	}
	body, params := webhookBody(form, &w)
	err = v.gateway.when(form.Get("etag")).patchWebhook(ctx, id, body)
	if err == nil {
		v.flash("ok", v.t("webhook.saved"))
		return v.redirect("/webhooks/"+url.PathEscape(id), nil)
	}
	faults, general, err := v.formFaults(err)
	if err != nil {
		return err
	}
	p := v.newForm(form, &w, params, faults)
	p.ID, p.ETag, p.General = id, form.Get("etag"), general
	return v.renderWebhookForm(p, form, v.t("webhook.edit"), &link{Path: "/webhooks/" + id, Text: w.Name})
}
